"""Coordinator runtime: shards on logs. Decide, append, wait until durable, replay, reply.

All decisions of one turn of the loop for one shard are appended as one batch (group commit). The records of a decision
are in one batch, which is written atomically, and its replies are sent only when that batch is as durable as the
`fsync` policy requires. This module knows no sockets; it uses its clock only to measure how long a log takes to load.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kafka_offsets.broker.groups import loading, repair
from kafka_offsets.broker.groups.shared_batches import (
    Decided,
    LatestRecords,
    Read,
    TransactionalEffect,
    apart,
    encode,
    record_offsets,
    share_batches,
)
from kafka_offsets.clock import Clock, Now
from kafka_offsets.coordinator.offsets.expiry import NOTHING, UnderWay
from kafka_offsets.coordinator.offsets.shapes import ShapedRecords
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state.result import (
    CoordinatorRecord,
    RequestContext,
    Result,
    TransactionalResult,
)
from kafka_offsets.coordinator.state.shard_state import GroupSettings, Meters, TopicView
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.incidents import Incidents
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.protocol.records import BatchTooLargeError, encode_batch, encode_marker
from kafka_offsets.replication.leader import LeaderReplica
from kafka_offsets.storage.cleaner.memory_cleaning import OffsetBatches
from kafka_offsets.storage.log.log import Log

_FEW = 4
"""Up to this many decisions always share a batch, without a check of their size."""

_REMEMBERED_GROUPS = 1 << 16
"""Size of the cache of shards by group."""

logger = new_logger(__name__)


class TooLargeError(StorageError):
    """A batch larger than its log may have: max.message.bytes of the topic."""


class NotLeadingError(StorageError):
    """This broker leads a partition by its metadata, and has not opened the log yet: no fault, and it passes."""


def coordinator_error(error: StorageError) -> ErrorCode:
    """Return the error code for a client when the log refused an append.

    Source: CoordinatorOperationExceptionHelper: KAFKA_STORAGE_ERROR becomes NOT_COORDINATOR, MESSAGE_TOO_LARGE
    becomes UNKNOWN_SERVER_ERROR.
    """
    return ErrorCode.UNKNOWN_SERVER_ERROR if isinstance(error, TooLargeError) else ErrorCode.NOT_COORDINATOR


class ResponseSender(Protocol):
    """Sends responses to clients."""

    def respond(self, context: RequestContext, response: object) -> None:
        """Send a response."""
        ...

    def fail(self, context: RequestContext, error: ErrorCode) -> None:
        """Send an error instead of a response."""
        ...


class ShardTick(Protocol):
    """The scheduled tick of a shard."""

    due_ms: int

    def cancel(self) -> None:
        """Cancel the tick."""
        ...


class HostedShard:
    """One shard with its log.

    durable_offset  decisions whose records end at or before this offset may take effect
    _decided        decisions of this turn, not appended yet
    _appended       base offset, end offset and decisions of batches that have not taken effect
    failed          the log accepts no more writes: the shard serves no requests until the broker is restarted
    refusals        how often decisions were undone because the log refused their records
    deadline        when the shard's tick is due
    is_loading      another thread replays the log into the shard: no other thread may access it
    shard_while_loading  an empty shard that decides commits while the log is being loaded, if that is configured
    _early          by key: records that became durable while the shard was being loaded
    replica         leads the partition as one replica of several: records take effect when the others have them
    on_wait         called at the end of a turn if decisions wait for the other replicas
    _latest         cache by key: the last records that are decided and not in effect, among the first
                    `_looked_through` decisions; None after a change
    offset_batches  the batches in its log that hold nothing but committed offsets; None for a log on disk
    """

    decides_at_once = True
    """Whether a request is decided when it arrives, and not after something has been read."""

    def __init__(
        self, shard: Shard, log: Log, sender: ResponseSender, compression: Compression, max_batch_bytes: int
    ) -> None:
        self.shard = shard
        self.log = log
        self._sender = sender
        self._compression = compression
        self._max_batch_bytes = max_batch_bytes
        self.durable_offset = log.log_end_offset
        self.failed = False
        self.replica: LeaderReplica | None = None
        self.offset_batches = None if log.files.outlives_process else OffsetBatches()
        self.on_wait: Callable[[], None] = lambda: None
        self.refusals = 0
        self.deadline: ShardTick | None = None
        self._decided: list[Decided] = []
        self._appended: deque[tuple[int, int, list[Result | Read]]] = deque()
        self._has_transactional = False
        self._latest: LatestRecords | None = None
        self._looked_through = 0
        shard.latest_record = self.latest_record
        shard.decided_offsets = self.decided_offsets
        self.is_loading = False
        self.shard_while_loading: Shard | None = None
        self._replay = shard.replay_written
        self._early: dict[bytes, tuple[CoordinatorRecord, int]] = {}
        self._waiting_for_load: list[Callable[[], None]] = []

    @property
    def applied_offset(self) -> int:
        """The end of the records that have taken effect."""
        return self._appended[0][0] if self._appended else self.log.log_end_offset

    @property
    def decided_end_offset(self) -> int:
        """The offset of the next decision's first record, unless the log refuses an earlier decision."""
        decided = sum(len(result.records) for result in self._decided if isinstance(result, Result))
        if self._has_transactional:
            decided += sum(result.size for result in self._decided if isinstance(result, TransactionalResult))
        return self.log.log_end_offset + decided

    def under_way(self) -> UnderWay:
        """Return the offsets and groups of decisions that have not taken effect yet."""
        if not self.has_pending:
            return NOTHING
        latest = self._find_latest()
        offsets = {
            (group, *topic_partition)
            for group, partitions in latest.offsets.items()
            for topic_partition in partitions
        }
        return UnderWay(frozenset(offsets), frozenset(latest.groups))

    @property
    def has_pending(self) -> bool:
        """Whether some decision has not taken effect yet."""
        return bool(self._decided or self._appended)

    def begin_loading(self) -> None:
        """Delay the effects of decisions from now on: another thread has the shard."""
        self.is_loading = True
        self._replay = self._keep_for_later

    def _keep_for_later(self, record: CoordinatorRecord, log_offset: int) -> None:
        self._early[record.key] = record, log_offset

    def finish_loading(self, results: Iterable[Result]) -> None:
        """Activate the loaded shard; commits that were accepted during the load override loaded offsets.

        results  decisions made by the load
        """
        decided_during_load = self._decided + [
            result for _, _, results in self._appended for result in results
        ]
        known_keys = self._early.keys() | {
            record.key
            for result in decided_during_load
            if isinstance(result, Result)
            for record in result.records
        }
        early, self._early = self._early, {}
        self.is_loading, self.shard_while_loading = False, None
        self._replay = self.shard.replay_written
        for record, log_offset in early.values():
            self.shard.replay_written(record, log_offset)
        for result in results:
            # A record of the load would be appended after the newer commit of the same key.
            self.decide(
                result._replace(records=[record for record in result.records if record.key not in known_keys])
            )
        waiting, self._waiting_for_load = self._waiting_for_load, []
        for callback in waiting:
            callback()

    def when_loaded(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the shard is loaded, at once if it is; never if it cannot be loaded."""
        if self.is_loading:
            self._waiting_for_load.append(callback)
        else:
            callback()

    def decide(self, result: Result | Read) -> None:
        """Add a decision, or a read that must see the effects of earlier decisions, to this turn."""
        self._decided.append(result)

    def decide_transactional(self, result: TransactionalResult) -> None:
        """Add a batch of a transaction to this turn, after the earlier decisions."""
        self._has_transactional = True
        self._decided.append(result)

    def latest_record(self, key: bytes) -> CoordinatorRecord | None:
        """Return the last record of a key that is decided and has not taken effect, None when there is none."""
        return self._find_latest().records.get(key)

    def decided_offsets(self, group_id: str) -> set[tuple[str, int]]:
        """Return topic and partition of a group's offsets that are decided and have not taken effect."""
        if not self.has_pending:
            return set()
        offsets = self._find_latest().offsets.get(group_id, {})
        return {partition for partition, is_deleted in offsets.items() if not is_deleted}

    def _find_latest(self) -> LatestRecords:
        """Return the latest records: the first call of a turn visits all decisions, later calls only the new ones."""
        if self._latest is None:
            self._latest = LatestRecords()
            self._looked_through = 0
            for _, _, results in self._appended:
                self._latest.add(results)
        self._latest.add(self._decided[self._looked_through :])
        self._looked_through = len(self._decided)
        return self._latest

    def append(self, now: Now) -> None:
        """Append the decisions of this turn; undo those that the log refuses, and answer them with an error."""
        decided, self._decided = self._decided, []
        self._latest = None
        if self.failed:
            self._has_transactional = False
            self._refuse(decided, ErrorCode.NOT_COORDINATOR)
        elif self._has_transactional:
            self._has_transactional = False
            self._append_together(apart(decided), now)
        elif len(decided) <= _FEW:
            self._append_together([decided], now)
        else:
            self._append_together(share_batches(decided), now)

    def _append_together(self, shared: Iterable[list[Decided]], now: Now) -> None:
        """Append a batch for each list of decisions; if a batch is too large, append one for each decision."""
        batches = deque(shared)
        while batches:
            results = batches.popleft()
            records = [result.records for result in results if isinstance(result, Result)]
            count = sum(map(len, records))
            base_offset = end_offset = self.log.log_end_offset
            transactional = results[0] if results else None
            try:
                if isinstance(transactional, TransactionalResult):
                    end_offset += transactional.size
                    batch = self._encode_transactional(transactional, now)
                    self.log.append_batch(batch, end_offset - 1, now.wall_ms)
                elif count:
                    end_offset += count
                    batch = self._encode(records, now)
                    self.log.append_batch(batch, end_offset - 1, now.wall_ms)
                    if self.offset_batches is not None:
                        record_offsets(self.offset_batches, records, base_offset, end_offset)
            except StorageError as error:
                if isinstance(error, TooLargeError) and len(results) > 1:
                    batches.extendleft([result] for result in reversed(results))
                    continue
                logger.error("%s: %s", self.log.directory, error)
                # Later decisions of the turn depend on these: they are undone too.
                remaining = [result for lost in batches for result in lost]
                self._refuse(results + remaining, coordinator_error(error))
                return
            if isinstance(transactional, TransactionalResult):
                effects = self._effects(results, base_offset)
            else:
                effects = results  # type: ignore[assignment]  # no other is transactional
            self._appended.append((base_offset, end_offset, effects))

    def _encode(self, decided: list[Sequence[CoordinatorRecord]], now: Now) -> bytes:
        """Return the batch with the records of several decisions."""
        log = self.log
        try:
            return encode(
                decided,
                now.wall_ms,
                log.log_end_offset,
                log.leader_epoch,
                self._compression,
                self._max_batch_bytes,
            )
        except BatchTooLargeError as error:
            raise TooLargeError(str(error)) from error

    def _encode_transactional(self, result: TransactionalResult, now: Now) -> bytes:
        base_offset, leader_epoch = self.log.log_end_offset, self.log.leader_epoch
        producer_id, epoch = result.producer_id, result.producer_epoch
        if result.is_commit is not None:
            marker = encode_marker(
                producer_id,
                epoch,
                result.coordinator_epoch,
                now.wall_ms,
                is_commit=result.is_commit,
                base_offset=base_offset,
                leader_epoch=leader_epoch,
            )
            return bytes(marker)
        batch = encode_batch(
            [(record.key, record.value, (), now.wall_ms) for record in result.records],
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            compression=self._compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        if len(batch) > self._max_batch_bytes:
            raise TooLargeError(f"a batch of {len(batch)} bytes, {self._max_batch_bytes} are allowed")
        return bytes(batch)

    def _effects(self, results: list[Decided], base_offset: int) -> list[Result | Read]:
        """Return the effects of a batch; the effect of a transaction's batch is a read that changes the shard first."""
        effects: list[Result | Read] = []
        for result in results:
            if not isinstance(result, TransactionalResult):
                effects.append(result)
                continue
            effects.append(TransactionalEffect(self.shard, result, base_offset))
            effects.append(Result(replies=result.replies))
            if result.done is not None:
                effects.append(result.done)
        return effects

    def take_effect(self) -> None:
        """Replay what is durable and replicated, and send its replies, in the order of the decisions."""
        appended = self._appended
        self._latest = None
        replay, respond = self._replay, self._sender.respond
        limit = min(self.durable_offset, self.log.high_watermark)
        while appended and appended[0][1] <= limit:
            offset, _, results = appended.popleft()
            for result in results:
                if not isinstance(result, Result):
                    result(ErrorCode.NONE)
                    continue
                records, replies, _ = result
                if isinstance(records, ShapedRecords) and not self.is_loading:
                    offset = self.shard.replay_shaped(records, offset)
                else:
                    for record in records:
                        replay(record, offset)
                        offset += 1
                for context, response in replies:
                    respond(context, response)

    def time_out(self, end_offset: int) -> None:
        """Answer COORDINATOR_NOT_AVAILABLE to what was decided up to an offset; its records may take effect later."""
        for number, (base_offset, end, results) in enumerate(self._appended):
            if end > end_offset:
                return
            left: list[Result | Read] = []
            for result in results:
                if isinstance(result, Result):
                    for reply in result.replies:
                        self._sender.fail(reply.context, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                    left.append(result._replace(replies=()))
                else:
                    left.append(result)
            self._appended[number] = base_offset, end, left

    def fail(self, error: StorageError) -> None:
        """Undo everything appended that may never become durable, and stop serving the shard."""
        self._give_up(coordinator_error(error))

    def give_up(self) -> None:
        """Stop serving the shard: its log is deleted."""
        self._give_up(ErrorCode.NOT_COORDINATOR)

    def _give_up(self, error: ErrorCode) -> None:
        self.failed = True
        self.is_loading, self.shard_while_loading = False, None
        if self.deadline is not None:
            self.deadline.cancel()
        lost: list[Decided] = [result for _, _, results in self._appended for result in results]
        lost += self._decided
        self._has_transactional = False
        self._appended.clear()
        self._decided.clear()
        self._refuse(lost, error)
        for context, response in self.shard.unload().replies:
            self._sender.respond(context, response)

    def _refuse(self, decided: Sequence[Decided], error: ErrorCode) -> None:
        self.refusals += 1
        results = self._effects(list(decided), -1)
        for result in reversed(results):
            if isinstance(result, Result):
                result.undo()
        for result in results:
            if not isinstance(result, Result):
                result(error)
                continue
            for reply in result.replies:
                self._sender.fail(reply.context, error)


class CoordinatorRuntime:
    """All shards of the offsets topic, by partition.

    open_log       partition -> its log
    new_member_id  prefix -> a new unique member id
    compression, max_batch_bytes  of the batches that are written
    clock          measures how long a log takes to load
    commits_while_loading  whether a shard that is being loaded accepts commits
    new_host       connects a shard with its log
    meters, incidents  shared by all shards
    load_times_ms  load time of each log
    by_group       cache: the shards of recent groups
    hosts_on_use   whether this broker is alone and hosts each partition; else it hosts what it takes over
    """

    def __init__(
        self,
        settings: GroupSettings,
        own_settings: Mapping[str, GroupSettings],
        topics: TopicView,
        sender: ResponseSender,
        open_log: Callable[[int], Log],
        new_member_id: Callable[[str], str],
        compression: Compression,
        max_batch_bytes: int,
        clock: Clock,
        *,
        commits_while_loading: bool = False,
        incidents: Incidents | None = None,
    ) -> None:
        self._commits_while_loading = commits_while_loading
        self.new_host: Callable[[Shard, Log, ResponseSender, Compression, int], HostedShard] = HostedShard
        self._settings, self._own_settings = settings, own_settings
        self._topics = topics
        self._sender = sender
        self._open_log = open_log
        self._new_member_id = new_member_id
        self._compression = compression
        self._max_batch_bytes = max_batch_bytes
        self._clock = clock
        self.load_times_ms: list[int] = []
        self.meters = Meters()
        self.incidents = Incidents() if incidents is None else incidents
        self.partition_count = 0
        self.shards: dict[int, HostedShard] = {}
        self.by_group: dict[str, HostedShard] = {}
        self.hosts_on_use = True

    def start(
        self, partition_count: int, now: Now, logged: Iterable[int] = (), at_once_bytes: int = 0
    ) -> list[HostedShard]:
        """Start to coordinate the offsets topic; return the shards that are still to be loaded.

        logged         the partitions that have a log; the others have nothing to load, and get their shards on first
                       use
        at_once_bytes  logs up to this size in total are loaded before this returns, the shortest first
        """
        self.partition_count = partition_count
        left: list[HostedShard] = []
        opened = [(partition, self._new_hosted(partition)) for partition in logged]
        for partition, hosted in sorted(
            opened, key=lambda partition_and_shard: partition_and_shard[1].log.size
        ):
            if hosted.log.size <= at_once_bytes:
                at_once_bytes -= hosted.log.size
                hosted.finish_loading(self.load(hosted, lambda: now))
            else:
                hosted.begin_loading()
                left.append(hosted)
            self.shards[partition] = hosted
        return left

    def load(
        self, hosted: HostedShard, now: Callable[[], Now], abandoned: Sequence[object] = ()
    ) -> list[Result]:
        """Replay a shard's log into it; return the resulting decisions. Any thread, if no other uses the shard.

        now        called after the log has been read, which may take longer than a session: sessions start then
        abandoned  not empty when the load must stop: LoadAbandonedError
        Raises StorageError, with file and position, when a record of a known type does not parse.
        """
        began_ms = self._clock.now().mono_ms
        if hosted.is_loading and self._commits_while_loading:
            hosted.shard_while_loading = self._new_shard(hosted.shard.partition)
        loading.load(hosted.shard, hosted.log, abandoned)
        lost_to_damage = repair.records_in_force(hosted.log, hosted.shard)
        results = hosted.shard.finish_loading(now())
        if lost_to_damage:
            results.append(Result(records=tuple(lost_to_damage)))
        self.load_times_ms.append(self._clock.now().mono_ms - began_ms)
        return results

    def stop(self) -> None:
        """Drop all shards, because the offsets topic is deleted: parked requests get NOT_COORDINATOR."""
        shards, self.shards, self.partition_count = self.shards, {}, 0
        self.load_times_ms.clear()
        self.by_group.clear()
        for hosted in shards.values():
            hosted.give_up()

    def resign(self, partition: int) -> None:
        """Serve the groups of a partition no longer: another broker leads it.

        Parked requests of its groups get NOT_COORDINATOR, and so do requests whose decisions are not in effect.
        """
        old = self.shards.pop(partition, None)
        if old is not None:
            self.by_group = {group: hosted for group, hosted in self.by_group.items() if hosted is not old}
            old.give_up()

    def take_over(self, partition: int, replica: LeaderReplica, now: Now, at_once_bytes: int) -> HostedShard:
        """Serve the groups of a partition that this broker leads from now on.

        at_once_bytes  a log up to this size is loaded before this returns; else the shard is still to be loaded
        """
        self.resign(partition)
        hosted = self._new_hosted(partition)
        hosted.replica = replica
        if hosted.log.size <= at_once_bytes:
            hosted.finish_loading(self.load(hosted, lambda: now))
        else:
            hosted.begin_loading()
        self.shards[partition] = hosted
        return hosted

    def give_up_failed(self) -> None:
        """Stop serving groups whose log has failed during background work, such as an fsync.

        A shard that another thread is loading is stopped after its load.
        """
        for hosted in self.all_shards():
            failure = hosted.log.failure
            if failure is not None and not (hosted.failed or hosted.is_loading or hosted.log.closed):
                logger.error(
                    "%s failed, its groups are not served any more: %s", hosted.log.directory, failure
                )
                hosted.fail(failure)

    def shard_of(self, group_id: str, now: Now) -> HostedShard:
        """Return the shard of a group."""
        hosted = self.by_group.get(group_id)
        if hosted is None:
            hosted = self.shard_at(partition_for(group_id, self.partition_count), now)
            if hosted.is_loading or not hosted.decides_at_once:
                return hosted
            self._remember(group_id, hosted)
        return hosted

    def serving_shard(self, group_id: str) -> HostedShard | None:
        """Return the shard of a group if it decides a request at once; None otherwise, and nothing is loaded for it."""
        hosted = self.by_group.get(group_id)
        if hosted is None and self.partition_count:
            hosted = self.shards.get(partition_for(group_id, self.partition_count))
            if hosted is None or hosted.is_loading or not hosted.decides_at_once:
                return None
            self._remember(group_id, hosted)
        return None if hosted is None or hosted.failed else hosted

    def _remember(self, group_id: str, hosted: HostedShard) -> None:
        if len(self.by_group) >= _REMEMBERED_GROUPS:
            self.by_group.clear()
        self.by_group[group_id] = hosted

    def shard_at(self, partition: int, now: Now) -> HostedShard:
        """Return the shard of a partition."""
        return self.shards.get(partition) or self._host(partition, now)

    def all_shards(self) -> Iterable[HostedShard]:
        """Return the existing shards."""
        return self.shards.values()

    def _host(self, partition: int, now: Now) -> HostedShard:
        if not self.hosts_on_use:
            raise NotLeadingError("this broker does not lead the partition", str(partition))
        hosted = self._new_hosted(partition)
        hosted.finish_loading(self.load(hosted, lambda: now))
        self.shards[partition] = hosted
        return hosted

    def _new_hosted(self, partition: int) -> HostedShard:
        shard, log = self._new_shard(partition), self._open_log(partition)
        return self.new_host(shard, log, self._sender, self._compression, self._max_batch_bytes)

    def _new_shard(self, partition: int) -> Shard:
        shard = Shard(
            partition, self._settings, self._new_member_id, self._topics, self.meters, self.incidents
        )
        shard.group_settings = self._own_settings
        return shard
