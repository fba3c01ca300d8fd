"""Log cleaner: compaction, retention, and rolling of old segments, in the background.

Each task is a `BackgroundTask` with steps of one or two milliseconds. A worker does everything that waits for the disk.

Sources: LogCleaner, LogCleanerManager.grabFilthiestCompactedLog, LogManager.cleanupLogs, UnifiedLog.deleteOldSegments
and LocalLog.roll of Kafka 4.3.
"""

import sys
from collections.abc import Callable

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.topic import TopicConfig
from kafka_offsets.broker.partition.partitions import INTERNAL_TOPICS, Partition, Topic, Topics
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.broker.turn.background_task import BackgroundTask, Pacing
from kafka_offsets.broker.turn.scheduler import Deadline, Scheduler
from kafka_offsets.broker.turn.workers import Workers
from kafka_offsets.clock import Now
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.cleaner.compaction import (
    Cleanable,
    Compaction,
    CompactionConfig,
    CompactionResult,
    Steps,
    cleanable,
    first_timestamp,
    load_columns,
)
from kafka_offsets.storage.cleaner.swap import has_unfinished_swap
from kafka_offsets.storage.log.log import Log

_PACING = Pacing(steps_when_idle=4)
_SMALLEST_SEGMENT_BYTES = 1 << 20
_POSTPONED_ROUNDS = 10
"""If an open transaction or a full disk prevents the cleaning of a log, it is tried again after this many backoffs."""

logger = new_logger(__name__)


def compaction_config(config: Config, topic: TopicConfig) -> CompactionConfig:
    """Return the compaction settings of a topic."""
    return CompactionConfig(
        delete_retention_ms=topic.delete_retention_ms,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
        max_compaction_lag_ms=topic.max_compaction_lag_ms,
        min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
        producer_expiration_ms=config.producer_id_expiration_ms,
    )


def cleanup_policy(topic: Topic) -> tuple[str, ...]:
    """Return the cleanup.policy of a topic.

    An internal topic is compacted unless its own configuration differs: the broker's default must not delete offsets.
    """
    if topic.is_internal and "cleanup.policy" not in topic.configs:
        return ("compact",)
    return topic.config.cleanup_policy


def offsets_topic_configs(config: Config) -> dict[str, str]:
    """Return the configs that the offsets topic is created with."""
    # Kafka refuses segment.bytes below 1 MiB; it uses internal.segment.bytes itself to avoid that limit.
    small = config.offsets_topic_segment_bytes < _SMALLEST_SEGMENT_BYTES
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "internal.segment.bytes" if small else "segment.bytes": str(config.offsets_topic_segment_bytes),
    }


def adopted_configs(config: Config, name: str) -> dict[str, str]:
    """Return the configs of a topic that is found as folders without known configs: its records do not expire."""
    if name == OFFSETS_TOPIC:
        return offsets_topic_configs(config)
    return {"cleanup.policy": "compact"} if name in INTERNAL_TOPICS else {"retention.ms": "-1"}


class LogCleaner:
    """The cleaner of a broker: compaction and retention of its logs.

    give_up_failed  called when a log may have failed during work for which no request waited
    is_started  whether the logs may be cleaned: before, the coordinator is reading them
    on_deleted  called with each partition whose log start has moved
    on_stopped  called once it has been stopped
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        scheduler: Scheduler,
        workers: Workers,
        give_up_failed: Callable[[], None],
    ) -> None:
        self.config = config
        self.topics = topics
        self.scheduler = scheduler
        self.is_started = False
        self.on_deleted: list[Callable[[Partition], None]] = []
        self.on_stopped: list[Callable[[], None]] = []
        self._workers = workers
        self._give_up_failed = give_up_failed
        self._tasks: set[BackgroundTask] = set()
        self._waiting: set[Deadline] = set()
        self._uncleanable: dict[Log, StorageError] = {}
        self._postponed: dict[Log, int] = {}
        self._cleaning: set[Log] = set()
        self._stopped = False

    def start(self) -> None:
        """Begin the periodic checks, at the configured intervals."""
        self.is_started = True
        config = self.config
        if config.log_cleaner_enable:
            self._after(config.log_cleaner_backoff_ms, self._clean_filthiest)
        self._after(config.log_retention_check_interval_ms, self._start_retention)

    def stop(self) -> None:
        """Abandon running work; a second call does nothing."""
        self._stopped = True
        for deadline in self._waiting:
            deadline.cancel()
        for task in self._tasks:
            task.stop()
        self._tasks.clear()
        for call in self.on_stopped:
            call()

    def _after(self, delay_ms: int, call: Callable[[Now], None]) -> None:
        def due(now: Now) -> None:
            self._waiting.discard(deadline)
            call(now)

        deadline = self.scheduler.after_interval(max(delay_ms, 1), due)
        self._waiting.add(deadline)

    def _start(self, name: str, steps: Steps, ended: Callable[[Exception | None], None]) -> None:
        def over(error: Exception | None) -> None:
            """Forget the task and pass its error on, unless the cleaner has stopped."""
            self._tasks.discard(task)
            if not self._stopped:
                if error is not None:
                    self._give_up_failed()
                ended(error)

        task = BackgroundTask(
            name, self.scheduler, steps, over, background=self._workers.background, pacing=_PACING
        )
        self._tasks.add(task)
        task.start()

    # -- compaction

    def is_cleaning(self, log: Log) -> bool:
        """Whether a compaction of the log is under way."""
        return log in self._cleaning

    def _clean_filthiest(self, now: Now) -> None:
        """Clean the log with the largest dirty ratio, or check again later."""
        has_begun = False
        try:
            has_begun = self._begin_cleaning(now)
        finally:  # a failure must not prevent later rounds
            if not has_begun:
                self._after(self.config.log_cleaner_backoff_ms, self._clean_filthiest)

    def _begin_cleaning(self, now: Now) -> bool:
        """Begin to clean the log with the largest dirty ratio; return whether there is one."""
        for logs in (self._uncleanable, self._postponed):
            for log in [log for log in logs if log.closed]:  # its topic was deleted
                del logs[log]
        filthiest = self._filthiest(now)
        if filthiest is None:
            return False
        partition, config, until = filthiest
        before = self.topics.directory.cleaned_to(partition.topic, partition.index) or 0

        def cleaned(partition: Partition, error: Exception | None, result: CompactionResult | None) -> None:
            """Exclude a log with a storage error, postpone one without progress, and clean the next one."""
            if partition.log.closed:  # its topic was deleted
                pass
            elif isinstance(error, StorageError):
                self._leave_alone(partition.log, error)
            elif error is not None or result is None or result.end_offset <= before:
                self._postpone(partition.log)
            self._after(1, self._clean_filthiest)

        return self.compact(partition, now, config=config, until=until, ended=cleaned)

    def _postpone(self, log: Log) -> None:
        rounds_ms = _POSTPONED_ROUNDS * self.config.log_cleaner_backoff_ms
        self._postponed[log] = self.scheduler.clock.now().mono_ms + rounds_ms

    def _leave_alone(self, log: Log, error: StorageError) -> None:
        """Postpone a log if the disk refused, which may be full temporarily; otherwise skip it until the next start."""
        is_damaged = error.position is not None
        if is_damaged or log.failure is not None or has_unfinished_swap(log.segments):
            self._uncleanable[log] = error
            logger.error("%s is not compacted any more: %s", log.directory, error)
        else:
            self._postpone(log)
            logger.warning("%s is not compacted for now: %s", log.directory, error)

    def _filthiest(self, now: Now) -> tuple[Partition, CompactionConfig, int] | None:
        best: tuple[Partition, CompactionConfig, Cleanable] | None = None
        for topic in self.topics.all():
            if "compact" not in cleanup_policy(topic):
                continue
            config = compaction_config(self.config, topic.config)
            for partition in topic.open_partitions:
                candidate = self._look_at(partition, config, now)
                if candidate is not None and (best is None or candidate.dirty_ratio > best[2].dirty_ratio):
                    best = partition, config, candidate
        return None if best is None else (best[0], best[1], best[2].first_uncleanable)

    def _look_at(self, partition: Partition, config: CompactionConfig, now: Now) -> Cleanable | None:
        log = partition.log
        if log.closed or log in self._uncleanable or log in self._cleaning or len(log.segments) < 2:
            return None
        if self._postponed.get(log, 0) > now.mono_ms:
            return None
        self._postponed.pop(log, None)
        cleaned_to = self.topics.directory.cleaned_to(partition.topic, partition.index)
        try:
            candidate = cleanable(log, cleaned_to, config, now.wall_ms)
        except StorageError as error:
            self._leave_alone(log, error)
            return None
        return candidate if candidate.is_due(config) else None

    def compact(
        self,
        partition: Partition,
        now: Now,
        *,
        config: CompactionConfig | None = None,
        until: int | None = None,
        ended: Callable[[Partition, Exception | None, CompactionResult | None], None],
    ) -> bool:
        """Clean the log of a partition in the background, due or not, in one pass.

        Returns whether it has begun: False while another pass over the same log is running.

        until  end offset; default: the active segment
        ended  called with the partition, the error that ended the pass, and its result, if any. It is called before
               this returns if the log refuses at once. An error other than StorageError is also logged
        """
        if partition.log in self._cleaning:
            return False
        if config is None:
            topic = self.topics.get(partition.topic)
            assert topic is not None
            config = compaction_config(self.config, topic.config)
        directory = self.topics.directory
        cleaned_to = directory.cleaned_to(partition.topic, partition.index)
        # numpy is used only if it is imported already: the import would block all requests for a tenth of a second.
        columns = load_columns() if "numpy" in sys.modules else None
        try:
            compaction = Compaction(
                partition.log, config, now.wall_ms, cleaned_to=cleaned_to, until=until, columns=columns
            )
        except StorageError as error:
            ended(partition, error, None)
            return True

        self._cleaning.add(partition.log)

        def over(error: Exception | None) -> None:
            """Store the result of a cleaning without an error, then report it to `ended`."""
            self._cleaning.discard(partition.log)
            result = compaction.result
            if error is None and result is not None:
                try:
                    self._finish(partition, result)
                except StorageError as refused:
                    error = refused
            ended(partition, error, result)

        self._start(f"the compaction of {partition.log.directory}", compaction.steps(), over)
        return True

    def _finish(self, partition: Partition, result: CompactionResult) -> None:
        self.topics.directory.set_cleaned_to(partition.topic, partition.index, result.end_offset)
        logger.info(
            "%s compacted up to offset %d: %d of %d records and %d of %d bytes stay, in %d segments",
            partition.log.directory,
            result.end_offset,
            result.records_kept,
            result.records_read,
            result.bytes_kept,
            result.bytes_read,
            result.segments_kept,
        )
        partition.record_cleaned()

    # -- retention

    def _start_retention(self, now: Now) -> None:
        def ended(error: Exception | None) -> None:
            if error is not None:
                logger.error("retention: %s", error)
            self._after(self.config.log_retention_check_interval_ms, self._start_retention)

        self._start("retention", self._retain(now.wall_ms), ended)

    def _retain(self, wall_ms: int) -> Steps:
        """Visit every partition once: roll its segment, delete old segments."""
        for topic in self.topics.all():
            for partition in topic.open_partitions:
                config = topic.config
                try:
                    if not partition.log.closed and partition.log.failure is None:
                        policy = cleanup_policy(topic)
                        yield from _roll_old(partition.log, config, policy, wall_ms)
                        yield from _remove_deleted(partition.log)
                        if "delete" in policy:
                            yield from self._delete_old(partition, config, wall_ms)
                except StorageError as error:
                    logger.error("retention of %s: %s", partition.log.directory, error)
                    self._give_up_failed()
                yield None

    def _delete_old(self, partition: Partition, config: TopicConfig, wall_ms: int) -> Steps:
        """Delete the oldest segments while the log is too large, or they are too old, by their newest record.

        A segment stays while a record in it is not replicated: followers have to fetch it, and the log start never
        passes the high watermark.
        """
        log = partition.log
        while _is_usable(log) and _oldest_is_replicated(log) and _oldest_is_over(log, config, wall_ms):
            if len(log.segments) == 1:
                log.roll()
            if log.gaps_before < log.segments[1].base_offset:
                yield log.checkpoint_ended
                continue
            partition.expire_records_before(log.segments[1].base_offset)
            for call in self.on_deleted:
                call(partition)
            yield None


def _roll_old(log: Log, config: TopicConfig, policy: tuple[str, ...], wall_ms: int) -> Steps:
    """Roll the log when the first record of the active segment is older than segment.ms.

    The same applies to max.compaction.lag.ms, because records of the active segment are not compacted.
    """
    active = log.segments[-1]
    limit_ms = config.segment_ms
    if "compact" in policy:
        limit_ms = min(limit_ms, config.max_compaction_lag_ms)
    if not active.size:
        return
    first = first_timestamp(active)
    if first >= 0 and wall_ms - first > limit_ms:
        log.roll()
        yield log.sync_ended


def _remove_deleted(log: Log) -> Steps:
    """Remove the segments before the log start, as Kafka does whatever the policy."""
    if log.has_deleted_segments:
        yield log.checkpoint_ended
        if _is_usable(log):
            log.remove_deleted_segments()


def _is_usable(log: Log) -> bool:
    return not log.closed and log.failure is None


def _oldest_is_replicated(log: Log) -> bool:
    end = log.segments[1].base_offset if len(log.segments) > 1 else log.log_end_offset
    return log.high_watermark >= end


def _oldest_is_over(log: Log, config: TopicConfig, wall_ms: int) -> bool:
    oldest = log.segments[0]
    if not oldest.size:
        return len(log.segments) > 1  # compaction has removed all its records
    if 0 <= config.retention_bytes <= log.size - oldest.size:
        return True
    return config.retention_ms >= 0 and 0 <= oldest.max_timestamp < wall_ms - config.retention_ms
