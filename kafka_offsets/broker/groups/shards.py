"""Shards of a turn: finds the shard of a group, collects its decisions and appends them.

A decision makes its shard dirty; `append` writes the decisions of dirty shards and schedules their ticks.
"""

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.groups.appends import Appends
from kafka_offsets.broker.groups.runtime import (
    CoordinatorRuntime,
    HostedShard,
    NotLeadingError,
    coordinator_error,
)
from kafka_offsets.broker.groups.shard_work import ShardWork
from kafka_offsets.broker.groups.shared_batches import Read
from kafka_offsets.broker.partition.log_cleaner import offsets_topic_configs
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.coordinator.state.result import Result, TransactionalResult
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.zookeeper.znodes import is_name

_LONGEST_GROUP_ID = 32767
"""Maximum length of a group id in the key of a record, in bytes of UTF-8."""

logger = new_logger(__name__)


class Shards:
    """The shards of one broker, as its requests and services use them.

    dirty  shards with decisions in this turn, or with a changed deadline
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        scheduler: Scheduler,
        runtime: CoordinatorRuntime,
        appends: Appends,
    ) -> None:
        self._config = config
        self._only_names = config.offset_storage == "zookeeper"
        self._topics = topics
        self._scheduler = scheduler
        self._runtime = runtime
        self._appends = appends
        self.dirty: dict[HostedShard, None] = {}
        self._work = ShardWork(scheduler, self.touch)

    def shard_of(self, group_id: str, now: Now) -> HostedShard | ErrorCode:
        """Return the shard of a group, or the error code for the client.

        UNKNOWN_SERVER_ERROR for an id that fits no record, INVALID_GROUP_ID for one that ZooKeeper cannot have when it
        stores the offsets, NOT_COORDINATOR when the log cannot be used.
        """
        if self._only_names and not is_name(group_id):
            return ErrorCode.INVALID_GROUP_ID
        if 3 * len(group_id) > _LONGEST_GROUP_ID and len(group_id.encode()) > _LONGEST_GROUP_ID:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            if not self._runtime.partition_count:
                self.create_topic(now)
            hosted = self._runtime.shard_of(group_id, now)
        except NotLeadingError:
            return ErrorCode.NOT_COORDINATOR
        except StorageError as error:
            logger.error("the shard of a group cannot be used: %s", error)
            return coordinator_error(error)
        if hosted.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR if hosted.failed else hosted

    def decide(self, hosted: HostedShard, result: Result | Read) -> None:
        """Add a decision, or a read that waits for earlier decisions, to this turn."""
        hosted.decide(result)
        self.dirty[hosted] = None

    def decide_transactional(self, hosted: HostedShard, result: TransactionalResult) -> None:
        """Add a batch of a transaction to this turn."""
        hosted.decide_transactional(result)
        self.dirty[hosted] = None

    def touch(self, hosted: HostedShard) -> None:
        """Schedule a shard for the end of the turn."""
        self.dirty[hosted] = None

    def hosted_partition(self, index: int) -> HostedShard | None:
        """Return the shard of a partition of the offsets topic; None when there is no such partition."""
        if not 0 <= index < self._runtime.partition_count:
            return None
        return self._runtime.shard_at(index, self._scheduler.clock.now())

    @property
    def topic_exists(self) -> bool:
        """Whether the offsets topic exists."""
        return self._runtime.partition_count > 0

    def create_topic(self, now: Now) -> None:
        """Create the offsets topic as the configuration says. Raises StorageError."""
        config = self._config
        configs = offsets_topic_configs(config)
        topic = self._topics.create(OFFSETS_TOPIC, config.offsets_topic_num_partitions, configs)
        self._runtime.start(topic.partition_count, now)

    def topic_deleted(self) -> None:
        """Drop all groups, because the offsets topic is deleted."""
        self.dirty.clear()
        self._runtime.stop()

    def committed(self, group_id: str) -> dict[tuple[str, int], OffsetAndMetadata]:
        """Return the committed offsets of a group by (topic, partition); empty for an unknown group."""
        if not self.topic_exists:
            return {}
        hosted = self._runtime.shard_of(group_id, self._scheduler.clock.now())
        if hosted.is_loading:
            raise RuntimeError(f"the offsets of group {group_id} are being loaded")
        shard = hosted.shard
        return {(topic, partition): entry for topic, partition, entry in shard.offsets.items(group_id)}

    def lost_shards(self) -> dict[str, str]:
        """Return the partitions of the offsets topic whose groups nobody coordinates: none, of a single broker."""
        return {}

    def append(self, now: Now) -> None:
        """Append the decisions of this turn; if the policy needs no fsync, they take effect at once."""
        dirty, self.dirty = self.dirty, {}
        waits = self._config.fsync == "commit"
        for hosted in dirty:
            log = hosted.log
            before = log.log_end_offset
            hosted.append(now)
            if log.log_end_offset > before:
                self._appends.unsynced[log] = hosted
                if self._topics.waiting:
                    self._record_append(hosted)
            if not waits:
                hosted.durable_offset = log.log_end_offset
            hosted.take_effect()
            if hosted.replica is not None and hosted.has_pending:
                hosted.on_wait()
            due_ms = None if hosted.is_loading else hosted.shard.timers.next_deadline_ms
            if due_ms is not None:
                self._schedule_shard(hosted, due_ms)
            if hosted.shard.resolving:
                self._work.add(hosted)

    def _schedule_shard(self, hosted: HostedShard, due_ms: int) -> None:
        """Schedule a shard's tick at its next deadline; if that moved to a later time, the tick reschedules itself."""
        if hosted.deadline is not None:
            if hosted.deadline.due_ms <= due_ms:
                return
            hosted.deadline.cancel()

        def tick(now: Now) -> None:
            hosted.deadline = None
            for result in hosted.shard.tick(now):
                hosted.decide(result)
            self.dirty[hosted] = None

        hosted.deadline = self._scheduler.at(due_ms, tick)

    def _record_append(self, hosted: HostedShard) -> None:
        """Wake the fetches parked at a partition of the offsets topic."""
        partition = self._topics.partition(OFFSETS_TOPIC, hosted.shard.partition)
        if partition is not None and partition.parked:
            self._appends.partitions[partition] = None
