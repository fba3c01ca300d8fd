"""Recovery points: the offsets up to which logs are synced, written to a checkpoint in the background.

The producers of logs that have grown much are written with it, so that a start after a crash need not read them. Before
the checkpoint is written, the logs are checked for folders that somebody has removed.

After a crash a start verifies the log after that point; damage before it is not a torn tail. Only synced data counts:
with `fsync=commit` or `interval` nearly all of a log, with `never` its closed segments.

Source: LogManager.checkpointLogRecoveryOffsets of Kafka 4.3, which has the same interval and purpose.
"""

from collections.abc import Callable, Iterable

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.broker.turn.background_task import BackgroundTask, Pacing, Steps
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.broker.turn.workers import Workers
from kafka_offsets.clock import Now
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.log.log import Log

_PACING = Pacing(fixed_ms=1)

logger = new_logger(__name__)


class RecoveryPoints:
    """Advances the recovery points of a broker's logs if no request waits for a sync, and writes the checkpoint.

    The recovery-point-offset-checkpoint is written every `log.flush.offset.checkpoint.interval.ms`.

    give_up_failed  called when a log may have failed during work for which no request waited
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        scheduler: Scheduler,
        workers: Workers,
        give_up_failed: Callable[[], None],
    ) -> None:
        self._topics = topics
        self._directory = topics.directory
        self._scheduler = scheduler
        self._workers = workers
        self._give_up_failed = give_up_failed
        self._interval_ms = max(config.log_flush_offset_checkpoint_interval_ms, 1)
        self._stopped = False
        self._ending: set[Log] = set()

    def start(self, now: Now) -> None:
        """Begin to write the checkpoint periodically."""
        if not self._stopped and self._directory.files.outlives_process:
            self._scheduler.after_interval(self._interval_ms, self._write)

    def sync_ended(self, logs: Iterable[Log]) -> None:
        """Sync the closed segments of logs in the background, as Kafka does with every policy."""
        for log in logs:
            if log.has_ended_unsynced and log not in self._ending:
                self._ending.add(log)
                self._sync_ended(log)

    def _sync_ended(self, log: Log) -> None:
        def sync() -> None:
            if not log.closed:
                log.sync_ended()

        def done(error: StorageError | None) -> None:
            self._ending.discard(log)
            if error is not None and not log.closed:
                logger.error("fsync of %s failed, it takes no more writes: %s", log.directory, error)
                self._give_up_failed()

        self._workers.background(sync, done)

    def stop(self) -> None:
        """Stop writing the checkpoint: the broker writes it when it stops."""
        self._stopped = True

    def _write(self, now: Now) -> None:
        if self._stopped:
            return
        write_points = self._directory.recovery_points_writer()
        open_logs = list(self._directory.logs.values())

        def write() -> None:
            """Save the recovery points, in a worker thread. Raises StorageError."""
            _check_present(open_logs)
            write_points()

        self._workers.background(write, self._written)

    def _written(self, error: StorageError | None) -> None:
        if error is not None and self._directory.is_news(error):
            logger.error("the recovery points are not written: %s", error)
        self._give_up_failed()
        self.start(self._scheduler.clock.now())
        BackgroundTask(
            "the writing of producers",
            self._scheduler,
            self._write_producers(),
            background=self._workers.background,
            pacing=_PACING,
            may_continue=lambda: not self._stopped,
        ).begin()

    def _write_producers(self) -> Steps:
        """Save the producers of each log that has grown much, one log at a time."""
        for partition in reversed([*self._topics.open_partitions()]):
            try:
                write = partition.producers_writer()
                if write is not None:
                    yield write
            except StorageError as error:
                logger.warning("%s: a start after a crash has to read its producers: %s", partition, error)


def _check_present(logs: Iterable[Log]) -> None:
    """Check for logs that somebody has removed: without a sync nothing else detects that."""
    removed = []
    for log in logs:
        try:
            log.check_present()
        except StorageError as error:
            removed.append(error)
    if removed:
        logger.error("%d logs take no more writes, such as %s", len(removed), removed[0])
