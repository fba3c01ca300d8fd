"""A broker that takes down what it does, files that outlive it, and what can be seen of its groups from outside."""

import logging
import random
import re
import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka_offsets.broker.core.core import BrokerCore, ClientConnection
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import consumer_records
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.result import Result, TransactionalResult
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import Parts
from kafka_offsets.storage.files.files import MemoryFiles
from tests.simulation.consumer_model import Modern, loaded
from tests.simulation.exchanged import in_topic_order
from tests.simulation.model import EMPTY, PREPARING, STABLE, Key, Offset, Table
from tests.simulation.transactions import Transaction


class DisagreementError(AssertionError):
    """The broker is not what it should be."""


class LastingFiles(MemoryFiles):
    """Files in memory that are found again by the next process."""

    outlives_process = True


class ObservedCore(BrokerCore):
    """A broker that takes down what it does.

    events  ("decide", number of the call and what is under way), ("reply", context and response), ("timer", kind, group
            and member), ("went", keys of the records of what it lets go of itself and what is under way), ("stored",
            transactional id and its state), ("marker", shard, producer id, whether it commits, and what is under way),
            ("go on", number of a call that had to wait and what is under way)
    loaded  what it has found in its logs: by shard what `seen_in` says, and transactional ids
    """

    def __init__(self, events: list[tuple[str, Any]], *args: Any) -> None:
        self.events = events
        self.deciding: int | None = None
        super().__init__(*args)

    def _compose_services(self) -> None:
        super()._compose_services()
        self._observe()
        load_short = self.loader.load_short

        def loaded(now: Now) -> None:
            load_short(now)
            self._note_loaded()

        replace(self.loader, load_short=loaded)

    def _note_loaded(self) -> None:
        self.loaded = {hosted.shard.partition: seen_in(hosted.shard) for hosted in self.runtime.all_shards()}
        self.loaded_ids: dict[str, Transaction] = {}
        store, carry_on = self.transactions._store, self.transactions.carry_on

        def stored(index: int, name: str, after: Any, now: Now) -> Any:
            self.events.append(("stored", (name, seen_transaction(after))))
            return store(index, name, after, now)

        def carried_on() -> None:
            for ids in self.transactions.ids:
                self.loaded_ids |= {name: seen_transaction(found) for name, found in ids.items()}
            carry_on()

        replace(self.transactions, _store=stored, carry_on=carried_on)

    def _observe(self) -> None:
        """Put a wrapper around each method that decides or answers; it notes the call and then makes it."""
        self._decide_frame, self._when_durable = self.requests._decide, self.durability.when_durable
        self._decide_transactional, self._decide_result = self.shards.decide_transactional, self.shards.decide
        self._reply, self._reply_encoded = self.responses.respond, self.responses.respond_encoded
        replace(self.requests, _decide=self._observe_frame)
        replace(self.durability, when_durable=self._observe_waiting)
        replace(self.shards, decide=self._observe_result, decide_transactional=self._observe_marker)
        replace(self.responses, respond=self._observe_reply, respond_encoded=self._observe_encoded)

    def _observe_frame(self, connection: ClientConnection, frame: bytes, now: Now) -> None:
        self.deciding = int.from_bytes(frame[4:8], "big")
        self.events.append(("decide", (self.deciding, self.under_way())))
        self._decide_frame(connection, frame, now)
        self.deciding = None

    def _observe_waiting(self, logs: Any, callback: Any) -> None:
        number = self.deciding

        def go_on(error: Any) -> None:
            if number is not None:
                self.events.append(("go on", (number, self.under_way())))
            callback(error)

        self._when_durable(logs, go_on)

    def _observe_marker(self, hosted: Any, result: TransactionalResult) -> None:
        if result.is_commit is not None:
            what = hosted.shard.partition, result.producer_id, result.is_commit, self.under_way()
            self.events.append(("marker", what))
        self._decide_transactional(hosted, result)

    def under_way(self) -> list[tuple[int, int]]:
        """How many decisions of each partition write something and have not taken effect."""
        found = []
        for hosted in self.runtime.all_shards():
            count = sum(map(_writes, hosted._decided))
            for begin, end, appended in hosted._appended:
                count += sum(map(_writes, appended)) or int(end > begin)
            found.append((hosted.shard.partition, count))
        return found

    def _observe_result(self, hosted: Any, result: Any) -> None:
        if isinstance(result, Result) and result.records and not result.replies:
            self.events.append(("went", ([record.key for record in result.records], self.under_way())))
        self._decide_result(hosted, result)

    def _observe_reply(self, context: Any, response: Any) -> None:
        self.events.append(("reply", (context, response)))
        self._reply(context, response)

    def _observe_encoded(self, context: Any, answer: Any) -> None:
        response = None
        if answer:
            api, version = self.broker.apis.by_key[context.api_key], context.api_version
            header = 8 + context.codecs.has_tagged_response_header
            frame = (
                b"".join(answer.pieces) if isinstance(answer, Parts) else answer
            )  # bytes: a stored response
            response = messages.decode(api.response, frame, version, header)[0]
        self.events.append(("reply", (context, response)))
        self._reply_encoded(context, answer)


def replace(part: Any, **methods: Any) -> None:
    """Set methods of one object, which must have them: a name that moved fails here."""
    for name, method in methods.items():
        if not callable(getattr(part, name)):
            raise TypeError(f"{part}.{name} is no method")
        setattr(part, name, method)


def _writes(result: Any) -> bool:
    """Whether a decision writes something; that of a transaction does if it is taken at all."""
    return isinstance(result, TransactionalResult) or (isinstance(result, Result) and bool(result.records))


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
        return sorted(map(in_order, view), key=repr)
    if isinstance(view, dict):
        return {name: in_order(value) for name, value in view.items()}
    if isinstance(view, tuple):
        values = [in_order(value) for value in view]
        return type(view)(*values) if hasattr(view, "_fields") else tuple(values)
    return view


def difference(one: Any, other: Any, path: str = "") -> str:
    """Where two values differ, a line for each place."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [
            (name, one.get(name), other.get(name)) for name in sorted(one.keys() | other.keys(), key=repr)
        ]
    elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        pairs = [(index, *pair) for index, pair in enumerate(zip(one, other, strict=True))]
    else:
        return f"  {path}: {in_order(one)}, {in_order(other)}"
    return "\n".join(difference(a, b, f"{path}/{name!r}") for name, a, b in pairs if a != b)


def require(holds: bool, text: str) -> None:
    if not holds:
        raise DisagreementError(text)


def read_key(key: bytes) -> tuple[str, str, int] | str:
    """Whose record it is: an offset's by group, topic and partition, or a group's."""
    version, size = struct.unpack_from(">hh", key)
    group, rest = key[4 : 4 + size].decode(), key[4 + size :]
    if version == 2 or version in consumer_records.RECORD_TYPES:
        return group
    size = int.from_bytes(rest[:2], "big")
    return group, rest[2 : 2 + size].decode(), int.from_bytes(rest[2 + size :], "big")


def observed_offsets(shard: Shard) -> tuple[dict[Key, Offset], dict[int, dict[Key, Offset]]]:
    """The offsets of a shard, and those that wait for a marker, by producer id."""

    def shown(e: Any) -> Offset:
        return Offset(e.offset, e.leader_epoch, e.metadata, e.commit_timestamp, e.expire_timestamp)

    live = {(group, topic, partition): shown(entry) for group in shard.offsets.groups()
            for topic, partition, entry in shard.offsets.items(group)}  # fmt: skip
    pending = {producer: {tuple(key): shown(entry) for key, entry in offsets.items()}
               for producer, offsets in shard.pending.items() if offsets}  # fmt: skip
    return live, pending


def seen_in(shard: Shard) -> tuple[Any, ...]:
    """Groups, those with a record of their own, offsets, and those that wait for a marker."""
    live = {name: observed_group(group) for name, group in shard.groups.items()}
    recorded = {name for name, group in shard.groups.items() if group.durable is not None}
    return live, recorded, *observed_offsets(shard)


def seen_transaction(found: Any) -> Any:
    """A transaction as the oracle has it."""
    if found is None:
        return None
    shards = frozenset(index for _, index in found.partitions)
    return Transaction((found.producer_id, found.producer_epoch), found.state.name, shards, found.timeout_ms)


def observed_group(group: Any) -> tuple[Any, ...]:
    """What there is to see of a group; the number of members is last."""
    if isinstance(group, ConsumerGroup):
        return _observed_consumers(group)
    members = {m.member_id: in_topic_order(m.assignment) for m in group.members.values()}
    return (
        group.state.value, group.generation, group.protocol_type, group.protocol, group.leader, members, len(members),
    )  # fmt: skip


def _observed_consumers(group: ConsumerGroup) -> tuple[Any, ...]:
    members = {}
    for m in group.members():
        said, has = m.subscription, m.current
        classic = said.classic and (said.classic.session_timeout_ms, said.classic.protocols)
        members[m.member_id] = (
            said.instance_id, (said.client_id, said.client_host), said.topics, said.regex or "",
            said.rebalance_timeout_ms, said.assignor, classic, has.epoch, has.previous_epoch, int(has.state),
            *({(id_, p): e for id_, held in part.items() for p, e in held.items()}
              for part in (has.assigned, has.revoking)),
        )  # fmt: skip
    targets = {member: places(target) for member, target in group.targets.items()}
    regexes = {e: (found.topics, found.timestamp_ms) for e, found in group.regexes.items()}
    return group.epoch, *group.target_epoch, members, targets, regexes, len(members)


def places(target: Any) -> frozenset[tuple[bytes, int]]:
    """The partitions of an assignment by topic id."""
    return frozenset((id_, partition) for id_, partitions in target.items() for partition in partitions)


def oracle_group(group: Any) -> tuple[Any, ...]:
    """The same of a group of the oracle."""
    if isinstance(group, Modern):
        members: Any = {m.id: m.recorded() for m in group.members.values()}
        return (
            group.epoch, group.target_epoch, group.target_at, members, group.targets, group.regexes, len(members),
        )  # fmt: skip
    members = {m.id: m.assignment for m in group.members.values()}
    return group.state, group.generation, group.type, group.protocol, group.leader, members, len(members)


def chosen(result: Any) -> tuple[str, dict[str, Any]] | None:
    """The group and the target assignments that a decision writes, if it makes new ones."""
    found, group_id = {}, None
    for record in result.records:
        version = int.from_bytes(record.key[:2], "big")
        if version not in (consumer_records.TARGET, consumer_records.TARGET_EPOCH):
            continue
        key = consumer_records.parse_key(version, record.key)
        if version == consumer_records.TARGET_EPOCH:
            made = (
                record.value is not None and consumer_records.parse_value(version, record.value).timestamp_ms
            )
            # One that was taken over from a classic group has no time.
            group_id = key.group if made else group_id
        elif record.value is not None:
            found[key.name] = places(consumer_records.parse_value(version, record.value))
    return None if group_id is None else (group_id, found)


def agree(live: dict[str, tuple[Any, ...]], table: Table, max_size: int) -> bool:
    """Whether these groups are what a load makes of a table. One that never had a record and has lost its offsets may
    be there or not: compaction takes the last trace of it."""
    due = {name: oracle_group(loaded(name, record)) for name, record in table.records.items()}
    for name, group in due.items():
        if (
            group[0] == STABLE and group[-1] > max_size
        ):  # static members stay while others join, so that a group may outgrow its limit
            due[name] = (PREPARING, *group[1:])
    for name, group in live.items():
        if name in due:
            if group != due.pop(name):
                return False
        elif group != (EMPTY, 0, None, None, None, {}, 0):
            return False
    return not due and all(name in live for name in table.simple if table.has_offsets(name))


def check_parked(shard: Shard, now_ms: int) -> None:
    """No request waits in a group without a time at which its waiting ends."""
    scheduled = {(t.kind, t.group_id): t.due_ms for t in shard.timers._heap}
    for group in shard.groups.values():
        if isinstance(group, ConsumerGroup):
            for member_id in group.member_ids:
                due = scheduled.get(("consumer session", group.group_id), 0)
                require(
                    member_id in group.sessions and due >= now_ms,
                    f"{member_id} of {group.group_id} never ends",
                )
            continue
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
