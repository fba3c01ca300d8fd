"""A shard whose offsets are in ZooKeeper: decisions that write offsets are carried out one after the other.

Groups and members are in the log, as always. A decision that commits or deletes offsets is first written to ZooKeeper;
then its other records go to the log, its offsets into the table, and its replies to the clients. So the table holds
what ZooKeeper has confirmed. Plain commits that wait at the same time share one write, which takes effect as a whole
or not at all.

Decisions on a condition, and deletions, depend on offsets that another client may have changed: those are read first,
then the decision is made, and its write names the versions that were read. If they have changed, everything is
repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kafka_offsets.broker.groups.runtime import HostedShard, ResponseSender
from kafka_offsets.broker.groups.shared_batches import Read
from kafka_offsets.broker.offset_manager.published_groups import PublishedGroups
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.offsets.expiry import UnderWay
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID, OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.state.result import CoordinatorRecord, Result
from kafka_offsets.errors import ErrorCode, KafkaOffsetsError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.storage.log.log import Log
from kafka_offsets.zookeeper import operations, znodes
from kafka_offsets.zookeeper.operations import (
    ContendedError,
    GroupTree,
    Operation,
    RequestRefusedError,
    StoredOffset,
    UnavailableError,
)
from kafka_offsets.zookeeper.znodes import OffsetName

_TOGETHER_BYTES = 1 << 18
"""Plain commits share a write up to this size."""

_ATTEMPTS = 20
"""How often a decision is repeated because its offsets have changed."""

logger = new_logger(__name__)


class _Write(NamedTuple):
    """A decision that waits to be written.

    wanted  its offsets; None deletes
    """

    result: Result
    wanted: dict[OffsetName, int | None]

    @property
    def deletes(self) -> bool:
        """Whether it deletes offsets: expiration does, and commits nothing in the same decision."""
        return None in self.wanted.values()


class Ask(NamedTuple):
    """A decision that is made when the offsets it depends on have been read.

    group    whose znodes are read, if `names` is None
    names    the offsets that are read
    decide   makes the decision; called again after a conflict
    refuse   called with an error instead
    removes  whether znodes that lead to no offset are removed afterwards
    """

    group: str
    names: Sequence[OffsetName] | None
    decide: Callable[[GroupTree | None], Result]
    refuse: Callable[[ErrorCode], None]
    removes: bool = False


class _Done(NamedTuple):
    """A decision that was written.

    versions  of the offsets that it wrote
    kept      offsets that it does not delete, because they have changed since it was decided
    """

    result: Result
    versions: dict[OffsetName, int]
    kept: dict[OffsetName, StoredOffset]


_Item = _Write | Ask | Read


class ZooKeeperShard(HostedShard):
    """One shard; see :class:`HostedShard` for its groups.

    submit  sends requests to ZooKeeper
    published  the groups in ZooKeeper, None if they are not published
    touch   schedules this shard for the end of the turn
    now     the time
    """

    decides_at_once = False

    def __init__(
        self,
        shard: Shard,
        log: Log,
        sender: ResponseSender,
        compression: Compression,
        max_batch_bytes: int,
        *,
        submit: Callable[..., None],
        touch: Callable[[HostedShard], None],
        now: Callable[[], Now],
        published: PublishedGroups | None,
    ) -> None:
        super().__init__(shard, log, sender, compression, max_batch_bytes)
        self._submit = submit
        self._touch = touch
        self._now = now
        self.published = published
        self._queue: deque[_Item] = deque()
        self._under_way: tuple[_Write | Ask, ...] = ()

    # -- what the runtime asks

    @property
    def has_pending(self) -> bool:
        """Whether some decision has not taken effect yet."""
        return bool(self._queue or self._under_way) or super().has_pending

    @property
    def decided_end_offset(self) -> int:
        """Later than every offset so far: versions of znodes take the place of log offsets, and have no order."""
        return 1 << 62

    def under_way(self) -> UnderWay:
        """Return the offsets and groups of decisions that have not taken effect yet."""
        pending = super().under_way()
        items = [item for item in (*self._under_way, *self._queue) if not callable(item)]
        names = {name for item in items if isinstance(item, _Write) for name in item.wanted}
        groups = {item.group for item in items if isinstance(item, Ask)} | {name.group for name in names}
        return UnderWay(pending.offsets | names, pending.groups | groups)

    def decided_offsets(self, group_id: str) -> set[tuple[str, int]]:
        """Return topic and partition of a group's offsets that are decided and have not taken effect."""
        offsets: dict[tuple[str, int], bool] = {}
        for item in (*self._under_way, *self._queue):
            if isinstance(item, _Write):
                offsets.update(
                    {
                        (name.topic, name.partition): offset is None
                        for name, offset in item.wanted.items()
                        if name.group == group_id
                    }
                )
        offsets.update(self._find_latest().offsets.get(group_id, {}))
        return {partition for partition, is_deleted in offsets.items() if not is_deleted}

    def finish_loading(self, results: Iterable[Result]) -> None:
        """Activate the loaded shard without the offsets of its log: those in ZooKeeper count."""
        shard = self.shard
        if len(shard.offsets):
            logger.warning(
                "%s: %d committed offsets are in the log and are not used, since offset.storage=zookeeper; "
                "kafka-offsets offsets migrate copies them",
                self.log.directory,
                len(shard.offsets),
            )
            held = shard.groups.held
            for group_id in shard.offsets.groups():
                group = held.get(group_id)
                if isinstance(group, ClassicGroup) and group.durable is None:
                    del held[group_id]
            shard.replace_offsets(OffsetTable())
            shard.groups.held.update(held)
        super().finish_loading(
            result._replace(records=[record for record in result.records if record.offset_key is None])
            for result in results
        )

        if self.published is not None:
            self._replay = self._replay_and_publish
        self._advance()

    def _replay_and_publish(self, record: CoordinatorRecord, log_offset: int) -> None:
        self.shard.replay_written(record, log_offset)
        if record.offset_key is None and self.published is not None:
            self.published.record(record)

    def decide(self, result: Result | Read) -> None:
        """Add a decision; one that writes offsets waits for ZooKeeper first, and so does a read after it."""
        if not isinstance(result, Result):
            if self._queue or self._under_way:
                self._queue.append(result)
            else:
                super().decide(result)
            return
        offsets: dict[OffsetName, int | None] = {}
        for record in result.records:
            if record.offset_key is not None:
                entry = record.entry
                offsets[OffsetName(*record.offset_key)] = None if entry is None else entry.offset
        if not all(znodes.is_name(name.topic) for name in offsets):
            self._refuse_items([_Write(result, offsets)], ErrorCode.INVALID_TOPIC_EXCEPTION)
        elif offsets:
            self._queue.append(_Write(result, offsets))
            self._advance()
        else:
            super().decide(result)

    def ask(self, item: Ask) -> None:
        """Make a decision when the offsets that it depends on have been read, after the earlier decisions."""
        self._queue.append(item)
        self._advance()

    def _give_up(self, error: ErrorCode) -> None:
        super()._give_up(error)
        self._fail_queue(error)

    # -- the queue

    def _advance(self) -> None:
        """Begin with the next items of the queue, unless some are under way, or another thread has the shard."""
        while not self.is_loading and not self._under_way and self._queue:
            item = self._queue[0]
            if isinstance(item, _Write):
                self._write(self._take_writes())
            elif isinstance(item, Ask):
                self._queue.popleft()
                self._under_way = (item,)
                operations.run(self._asked(item), self._submit, self._ended)
            else:
                self._queue.popleft()
                super().decide(item)
                self._touch(self)

    def _take_writes(self) -> list[_Write]:
        writes: list[_Write] = []
        size = 0
        while self._queue and isinstance(item := self._queue[0], _Write):
            size += operations.size_of(item.wanted)
            if writes and (size > _TOGETHER_BYTES or item.deletes or writes[0].deletes):
                break
            writes.append(item)
            self._queue.popleft()
        return writes

    def _write(self, writes: list[_Write]) -> None:
        self._under_way = tuple(writes)
        offsets = {name: offset for write in writes for name, offset in write.wanted.items()}
        operations.run(self._written(writes, offsets), self._submit, self._ended)

    def _written(self, writes: list[_Write], offsets: dict[OffsetName, int | None]) -> Operation[list[_Done]]:
        table = self.shard.offsets
        known_versions = {
            name: entry.log_offset for name in offsets if (entry := table.get(*name)) is not None
        }
        versions: dict[OffsetName, int] = {}
        kept: dict[OffsetName, StoredOffset] = {}
        try:
            if writes[0].deletes:
                kept = yield from operations.delete_unchanged(known_versions)
            else:
                versions = yield from operations.write_offsets(offsets, known_versions)
        except Exception:
            self._forget(offsets)
            raise
        if writes[0].deletes:
            yield from self._remove_empty({name.group for name in offsets if name not in kept})
        return [_Done(write.result, versions, kept) for write in writes]

    def _asked(self, item: Ask) -> Operation[list[_Done]]:
        for _ in range(_ATTEMPTS):
            tree: GroupTree | None = None
            if item.names is None:
                tree = yield from operations.read_group(item.group)
                stored_offsets = tree.offsets
                self._refresh(item.group, None, stored_offsets)
                self._restore(item.group, tree)
            else:
                stored_offsets = yield from operations.read_offsets(item.names)
                self._refresh(item.group, item.names, stored_offsets)
            result = item.decide(tree)
            offsets = {
                OffsetName(*record.offset_key): None if record.entry is None else record.entry.offset
                for record in result.records
                if record.offset_key is not None
            }
            try:
                if not all(znodes.is_name(name.topic) for name in offsets):
                    raise RequestRefusedError(f"group {item.group}: a topic cannot be the name of a znode")
                versions = yield from operations.write_if_unchanged(
                    offsets, {name: stored.version for name, stored in stored_offsets.items()}
                )
            except Exception:
                result.undo()
                self._forget(offsets)
                raise
            if versions is not None:
                if item.removes and (tree is None or tree.exists):
                    yield from self._remove_empty({item.group})
                return [_Done(result, versions, {})]
            result.undo()
        raise ContendedError

    def _restore(self, group: str, tree: GroupTree) -> None:
        if self.published is not None:
            restored = self.published.restore(self.shard, group, tree.metadata, self._now())
            if restored.records:
                super().decide(restored)
                self._touch(self)

    def _remove_empty(self, groups: set[str]) -> Operation[None]:
        """Remove znodes that lead to no offset. What is not removed now is removed by the next cleanup."""
        try:
            for group in groups:
                yield from operations.remove_empty(group)
        except KafkaOffsetsError as error:
            logger.warning("znodes of %d groups without offsets are removed later: %s", len(groups), error)

    def _forget(self, offsets: dict[OffsetName, int | None]) -> None:
        """Remove offsets from the table that may have changed: the next request that needs them reads them."""
        for name in offsets:
            self.shard.offsets.remove(*name)

    def _ended(self, outcome: list[_Done] | Exception) -> None:
        under_way, self._under_way = self._under_way, ()
        if self.failed:
            error = ErrorCode.NOT_COORDINATOR
            self._refuse_items(under_way, error)
        elif isinstance(outcome, ContendedError):
            logger.warning("%s: %s", self.log.directory, outcome)
            self._refuse_items(under_way, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif isinstance(outcome, UnavailableError):
            self._refuse_items(under_way, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._fail_queue(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif isinstance(outcome, Exception):
            if isinstance(outcome, RequestRefusedError):
                logger.error("%s: %s", self.log.directory, outcome)
            else:
                logger.error("%s: offsets were not written", self.log.directory, exc_info=outcome)
            self._refuse_items(under_way, ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            for done in outcome:
                self._accept(done)
        self._touch(self)
        self._advance()

    def _accept(self, done: _Done) -> None:
        """Put the offsets of a decision into the table; append its other records, and reply."""
        shard, (result, versions, kept) = self.shard, done
        other_records: list[CoordinatorRecord] = []
        for record in result.records:
            if record.offset_key is None:
                other_records.append(record)
                continue
            name = OffsetName(*record.offset_key)
            version = versions.get(name)
            if record.entry is None:
                if name not in kept:
                    shard.replay_written(record, -1)
            elif version is not None:
                entry = OffsetAndMetadata(
                    record.entry.offset, -1, "", self._now().wall_ms, -1, NO_TOPIC_ID, version
                )
                shard.replay_written(record._replace(entry=entry), version)
        if kept:  # its group still has offsets, so it stays as well
            self.refresh_names(list(kept), kept)
            result.undo()
            return
        super().decide(Result(other_records, result.replies, result.undo))

    def _fail_queue(self, error: ErrorCode) -> None:
        items, self._queue = self._queue, deque()
        self._refuse_items(items, error)

    def _refuse_items(self, items: Sequence[_Item] | deque[_Item], error: ErrorCode) -> None:
        for item in reversed(items):
            if isinstance(item, _Write):
                item.result.undo()
        for item in items:
            if isinstance(item, _Write):
                for reply in item.result.replies:
                    self._sender.fail(reply.context, error)
            elif isinstance(item, Ask):
                item.refuse(error)
            else:
                item(error)

    # -- the table

    def refresh_names(self, names: Sequence[OffsetName], found: dict[OffsetName, StoredOffset]) -> None:
        """Bring the table in line with offsets that were just read."""
        for group in dict.fromkeys(name.group for name in names):
            self._refresh(group, [name for name in names if name.group == group], found)

    def _refresh(
        self, group: str, names: Sequence[OffsetName] | None, stored_offsets: dict[OffsetName, StoredOffset]
    ) -> None:
        """Bring the table in line with ZooKeeper: for some offsets, or for all of a group."""
        table = self.shard.offsets
        if names is None:
            names = [OffsetName(group, topic, partition) for topic, partition, _ in table.items(group)]
            names = list(dict.fromkeys([*names, *stored_offsets]))
        for name in names:
            stored, entry = stored_offsets.get(name), table.get(*name)
            if stored is None:
                if entry is not None:
                    table.remove(*name)
                    self.shard.groups.keep_empty(group)
            elif entry is None or (entry.offset, entry.log_offset) != (stored.offset, stored.version):
                if stored.problem is not None:
                    logger.error("group %s: %s; a commit overwrites it", group, stored.problem)
                kept = OffsetAndMetadata(
                    stored.offset, -1, "", stored.modified_ms, -1, NO_TOPIC_ID, stored.version
                )
                table.put(*name, kept)
