"""A broker that takes down what it does, files that outlive it, and what can be seen of its groups from outside."""

import logging
import random
import re
import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka_offsets.broker.core import BrokerCore, Connection
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.result import Result
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.storage.files import MemoryFiles
from tests.simulation.model import EMPTY, PREPARING, Offset, Table, restored


class DisagreementError(AssertionError):
    """The broker is not what it should be."""


class LastingFiles(MemoryFiles):
    """Files in memory that are found again by the next process."""

    outlives_process = True

    def copy(self) -> "LastingFiles":
        """The files as they are, out of the reach of whoever still holds the old ones; no lock is held."""
        copied = LastingFiles()
        copied._directories = {path: set(names) for path, names in self._directories.items()}
        copied._contents = {path: bytearray(content) for path, content in self._contents.items()}
        return copied


class ObservedCore(BrokerCore):
    """A broker that takes down what it does.

    events  ("decide", number of the call and what is under way), ("reply", context and response), ("timer", kind, group
            and member), ("went", keys of the records of what it lets go of itself and what is under way)
    """

    def __init__(self, events: list[tuple[str, Any]], *args: Any) -> None:
        self.events = events
        super().__init__(*args)

    def _decide(self, connection: Connection, frame: bytes, now: Now) -> None:
        self.events.append(("decide", (int.from_bytes(frame[4:8], "big"), self.under_way())))
        super()._decide(connection, frame, now)

    def under_way(self) -> list[tuple[int, int]]:
        """How many decisions of each partition write something and have not taken effect."""
        found = []
        for hosted in self.runtime.all_shards():
            results = [r for _, _, appended in hosted._appended for r in appended] + hosted._decided
            found.append(
                (hosted.shard.partition, sum(isinstance(r, Result) and bool(r.records) for r in results))
            )
        return found

    def decide(self, hosted: Any, result: Any) -> None:
        if isinstance(result, Result) and result.records and not result.replies:
            self.events.append(("went", ([record.key for record in result.records], self.under_way())))
        super().decide(hosted, result)

    def reply(self, context: Any, response: Any) -> None:
        self.events.append(("reply", (context, response)))
        super().reply(context, response)

    def no_reply(self, context: Any) -> None:
        self.events.append(("reply", (context, None)))
        super().no_reply(context)


class _Complaints(logging.Handler):
    """What a broker logs as an error: none is expected here."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter().format(record))


@contextmanager
def determined(seed: int) -> Iterator[list[str]]:
    """Have every id follow from the seed, and errors that are only logged kept in the list."""
    numbers = random.Random(f"ids of {seed}")
    real, complaints = uuid.uuid4, _Complaints()
    log = logging.getLogger("kafka_offsets")
    level, propagate = log.level, log.propagate
    uuid.uuid4 = lambda: uuid.UUID(int=numbers.getrandbits(128), version=4)
    log.setLevel(logging.ERROR)
    log.addHandler(complaints)
    log.propagate = False
    try:
        yield complaints.texts
    finally:
        uuid.uuid4 = real
        log.setLevel(level)
        log.removeHandler(complaints)
        log.propagate = propagate


_LONG = re.compile(r"(x{8})x+")
_DULL = re.compile(
    r"\w+Request\.(?:\w+\.)*|, (?:topics|groups|members)=\[\]|, \w+=None|, metadata=b.\\x00\\x01[^,)]*"
    r"|, topic_id=b'(?:\\x00){16}'|, commit_timestamp=-1"
)


def short(request: Any) -> str:
    """A request without what says nothing."""
    return _LONG.sub(r"\1...", _DULL.sub("", repr(request)))


def in_order(view: Any) -> Any:
    """An answer in which sets are lists, so that it reads the same each time."""
    if isinstance(view, frozenset):
        return sorted(view, key=repr)
    if isinstance(view, dict):
        return {name: in_order(value) for name, value in view.items()}
    if isinstance(view, tuple):
        values = [in_order(value) for value in view]
        return type(view)(*values) if hasattr(view, "_fields") else tuple(values)
    return view


def require(holds: bool, text: str) -> None:
    if not holds:
        raise DisagreementError(text)


def read_key(key: bytes) -> tuple[str, str, int] | str:
    """Whose record it is: an offset's by group, topic and partition, or a group's."""
    version, size = struct.unpack_from(">hh", key)
    group, rest = key[4 : 4 + size].decode(), key[4 + size :]
    if version == 2:
        return group
    size = int.from_bytes(rest[:2], "big")
    return group, rest[2 : 2 + size].decode(), int.from_bytes(rest[2 + size :], "big")


def observed_offsets(shard: Shard, groups: Any) -> dict[tuple[str, str, int], Offset]:
    found = {}
    for group in groups:
        for topic, partition, e in shard.offsets.items(group):
            found[group, topic, partition] = Offset(
                e.offset, e.leader_epoch, e.metadata, e.commit_timestamp, e.expire_timestamp
            )
    return found


def observed_group(group: Any) -> tuple[Any, ...]:
    members = {m.member_id: m.assignment for m in group.members.values()}
    return group.state.value, group.generation, group.protocol_type, group.protocol, group.leader, members


def oracle_group(group: Any) -> tuple[Any, ...]:
    members = {m.id: m.assignment for m in group.members.values()}
    return group.state, group.generation, group.type, group.protocol, group.leader, members


def agree(live: dict[str, tuple[Any, ...]], table: Table, max_size: int) -> bool:
    """Whether these groups are what a load makes of a table. One that never had a record and has lost its offsets may
    be there or not: compaction takes the last trace of it."""
    due = {name: oracle_group(restored(name, record)) for name, record in table.records.items()}
    for name, group in due.items():
        if (
            len(group[-1]) > max_size
        ):  # static members stay while others join, so that a group may outgrow its limit
            due[name] = (PREPARING, *group[1:])
    for name, group in live.items():
        if name in due:
            if group != due.pop(name):
                return False
        elif group != (EMPTY, 0, None, None, None, {}):
            return False
    return not due and all(name in live for name in table.simple if table.has_offsets(name))


def check_parked(shard: Shard, now_ms: int) -> None:
    """No request waits in a group without a time at which its waiting ends."""
    scheduled = {(t.kind, t.group_id): t.due_ms for t in shard.timers._heap}
    for group in shard.groups.values():
        for member in group.members.values():
            if member.join is not None:
                due = scheduled.get(("join", group.group_id), 0)
                require(
                    group.join_due_ms >= now_ms and due >= now_ms,
                    f"a join waits in {group.group_id} without a timer",
                )
            if member.sync is not None:
                due = scheduled.get(("sync", group.group_id), 0)
                require(
                    group.sync_due_ms >= now_ms and due >= now_ms,
                    f"a sync waits in {group.group_id} without a timer",
                )
