"""Published groups: writes the metadata of a shard's groups to ZooKeeper when it has changed, and restores them.

A write follows the group's record in the log and delays nothing: of several changes the last one is written. Without
ZooKeeper the writes wait for the next connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafka_offsets.broker.offset_manager import group_metadata
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.result import CoordinatorRecord, Result
from kafka_offsets.logs import new_logger
from kafka_offsets.zookeeper import operations
from kafka_offsets.zookeeper.operations import Operation, RequestRefusedError, UnavailableError
from kafka_offsets.zookeeper.znodes import UnreadableZnodeError

logger = new_logger(__name__)


class _Waiting(NamedTuple):
    """Metadata to be written; None removes it.

    generation  of the group, 0 for a removal
    """

    data: bytes | None
    generation: int


def _write(group: str, waiting: _Waiting) -> Operation[None]:
    data, generation = waiting
    yield from operations.write_metadata(
        group, data, lambda stored_data: group_metadata.is_newer(stored_data, generation)
    )
    if data is None:
        yield from operations.remove_empty(group)


class PublishedGroups:
    """The groups of one shard in ZooKeeper.

    read  groups whose metadata has been read: this broker is their coordinator from then on
    """

    def __init__(self, submit: Callable[..., None]) -> None:
        self.read: set[str] = set()
        self._submit = submit
        self._waiting: dict[str, _Waiting] = {}
        self._is_writing = False

    def record(self, record: CoordinatorRecord) -> None:
        """Publish a group whose record has just become durable; a tombstone removes the metadata."""
        key = stored.parse_key(record.key)
        if not isinstance(key, stored.GroupKey):
            return
        if record.value is None:
            self._waiting[key.group] = _Waiting(None, 0)
        else:
            value = stored.parse_group_value(record.value)
            self._waiting[key.group] = _Waiting(group_metadata.to_json(key.group, value), value.generation)
        self.write()

    def write(self) -> None:
        """Write what waits, one group after the other."""
        if self._is_writing or not self._waiting:
            return
        group = next(iter(self._waiting))
        waiting = self._waiting.pop(group)
        self._is_writing = True

        def ended(outcome: object) -> None:
            """Log a refusal, keep a group for later when ZooKeeper is unavailable, and write the next one."""
            self._is_writing = False
            if isinstance(outcome, UnavailableError):
                self._waiting.setdefault(group, waiting)
                return
            if isinstance(outcome, RequestRefusedError):
                logger.error("group %s: its metadata is not in ZooKeeper: %s", group, outcome)
            elif isinstance(outcome, Exception):
                logger.error("group %s: its metadata was not written", group, exc_info=outcome)
            self.write()

        operations.run(_write(group, waiting), self._submit, ended)

    def restore(self, shard: Shard, group_id: str, data: bytes | None, now: Now) -> Result:
        """Restore a group that its previous coordinator published, unless this broker knows it as well or better.

        Its members continue in their generation, without a rebalance; each gets a fresh session.
        """
        is_first = group_id not in self.read
        self.read.add(group_id)
        if data is None or not is_first:
            return Result()
        try:
            value = group_metadata.from_json(group_id, data)
        except UnreadableZnodeError as error:
            logger.error("%s", error)
            return Result()
        existing = shard.groups.get(group_id)
        if existing is not None and not isinstance(existing, ClassicGroup):
            return Result()
        if existing is not None and (existing.members or existing.generation >= value.generation):
            return Result()
        group = shard.groups.held[group_id] = ClassicGroup(group_id)
        group.restore(value)
        for member in group.members.values():
            group.arm(member, shard.timers, now)
        logger.info(
            "group %s: generation %d with %d members continues, as its metadata in ZooKeeper says",
            group_id,
            group.generation,
            len(group.members),
        )
        return Result([stored.group_record(group_id, value)])
