"""How far each log is known to be on the disk, written down while the broker serves.

Beside it goes what is known of the segments before that point, of large logs whose content a snapshot has, and what is
known of the producers of logs that have grown much: a start after a crash need not read these. Before it is written,
logs are looked for that somebody has removed.

After a crash a start verifies what lies behind that point, and takes nothing before it for a torn tail. Only what a
sync has covered counts: with `fsync=commit` or `interval` nearly all of a log, with `never` what has ended of it.

Source: LogManager.checkpointLogRecoveryOffsets of Kafka 4.3, which does it as often and for the same reason.
"""

from collections.abc import Callable, Iterable

from kafka_offsets.broker.background_task import BackgroundTask, Pacing, Steps
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.broker.scheduler import Scheduler
from kafka_offsets.broker.workers import Workers
from kafka_offsets.clock import Now
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.log.log import Log

_PACING = Pacing(fixed_ms=1)

logger = new_logger(__name__)


class RecoveryPoints:
    """Moves the recovery points of a broker's logs where nobody waits for a sync, and writes them down.

    The recovery-point-offset-checkpoint is written every `log.flush.offset.checkpoint.interval.ms`.

    large_logs      those whose segments need not be read at the next start
    give_up_failed  called when a log may have failed at something that nobody waited for
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        scheduler: Scheduler,
        workers: Workers,
        large_logs: Callable[[], list[Log]],
        give_up_failed: Callable[[], None],
    ) -> None:
        self._topics = topics
        self._directory = topics.directory
        self._scheduler = scheduler
        self._workers = workers
        self._large_logs = large_logs
        self._give_up_failed = give_up_failed
        self._interval_ms = max(config.log_flush_offset_checkpoint_interval_ms, 1)
        self._stopped = False
        self._ending: set[Log] = set()

    def start(self, now: Now) -> None:
        """Write it from now on."""
        if not self._stopped and self._directory.files.outlives_process:
            self._scheduler.after_interval(self._interval_ms, self._write)

    def sync_ended(self, logs: Iterable[Log]) -> None:
        """Have the segments of logs synced that have ended, as Kafka does whatever the policy. Nobody waits for it."""
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
        """Write it no more: the stop does."""
        self._stopped = True

    def _write(self, now: Now) -> None:
        if self._stopped:
            return
        write_points = self._directory.recovery_points_writer()
        logs = self._large_logs()
        open_logs = list(self._directory.logs.values())

        def write() -> None:
            _check_present(open_logs)
            write_points()
            for log in logs:
                try:
                    log.summary.leave(ended_only=True)
                except StorageError as error:
                    if not log.closed:
                        logger.warning("%s: a start after a crash will be slow: %s", log.directory, error)

        self._workers.background(write, self._written)

    def _written(self, error: StorageError | None) -> None:
        if error is not None:
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
        """Write down the producers of each log that has grown much, one log at a time."""
        for partition in reversed([*self._topics.open_partitions()]):
            try:
                write = partition.producers_writer()
                if write is not None:
                    yield write
            except StorageError as error:
                logger.warning("%s: a start after a crash has to read its producers: %s", partition, error)


def _check_present(logs: Iterable[Log]) -> None:
    """Look for logs that somebody has removed: without a sync nothing else says so."""
    removed = []
    for log in logs:
        try:
            log.check_present()
        except StorageError as error:
            removed.append(error)
    if removed:
        logger.error("%d logs take no more writes, such as %s", len(removed), removed[0])
