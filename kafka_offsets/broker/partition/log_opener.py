"""Log opener: opens logs of topics while the broker serves requests.

Opening a log reads its batch headers, a second for 50 MB of small batches, and its producers, which takes as long again
unless they are saved. A worker thread does that when a long log is requested. Requests in the meantime get
NOT_LEADER_OR_FOLLOWER, as from a Kafka broker that does not have the partition yet, and clients retry. A short log is
opened by the request itself. Logs that are not requested are opened later one by one, with pauses, so that retention
and compaction apply to them, and so that a clean stop covers every log.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container
from contextlib import suppress
from typing import TYPE_CHECKING

from kafka_offsets.broker.background_task import BackgroundTask, Pacing, Pause, Steps, Until
from kafka_offsets.broker.partition.partitions import LogLoadingError
from kafka_offsets.errors import OpeningAbandonedError, StorageError
from kafka_offsets.logs import new_logger

if TYPE_CHECKING:
    from kafka_offsets.broker.partition.partitions import Opened, Partition, Topic, Topics
    from kafka_offsets.broker.scheduler import Scheduler
    from kafka_offsets.broker.workers import Workers

_LONG_BYTES = 256 << 10
"""A log of this size opens in some milliseconds."""

_FIRST_MS = 1000
"""The pause after the start: clients that have waited for the start come first."""

_AGAIN_MS = 1000
"""The pause after the operating system refused something, such as a descriptor."""

_STEP_PAUSE_MS = 2
"""The pause between two steps of reading, in which sockets are read and other requests are decided."""

_STEPS = Pacing(fixed_ms=_STEP_PAUSE_MS)

Key = tuple[str, int]

logger = new_logger(__name__)


class _Opening:
    """A log that another thread opens; the thread holds the lock, but not for long after the opening is abandoned."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.lock = threading.Lock()
        self.abandoned = threading.Event()


class LogOpener:
    """Opens the logs of one broker's topics in the background, one at a time."""

    def __init__(self, topics: Topics, scheduler: Scheduler, workers: Workers) -> None:
        self._topics = topics
        self._directory = topics.directory
        self._scheduler = scheduler
        self._workers = workers
        self._wanted: dict[Key, None] = {}
        self._rest: deque[Key] = deque()
        self._refused: dict[Key, StorageError] = {}
        self._opening: _Opening | None = None
        self._others: BackgroundTask | None = None
        self._after_opening: list[Callable[[None], None]] = []
        self._looks_again = False
        self._unlisted = ""
        self._stopped = False

    def start(self) -> None:
        """Begin to open the existing logs that are not requested."""
        if self._directory.files.outlives_process:
            first_ms = self._scheduler.clock.now().mono_ms + _FIRST_MS
            self._scheduler.at(first_ms, lambda now: self._open_others())

    def stop(self) -> None:
        """Stop opening logs, including the current one."""
        self._stopped = True
        if self._opening is not None:
            self._opening.abandoned.set()

    def use(self, topic: Topic, index: int) -> None:
        """Open the log of a partition in the background, if it is not open and opening takes long.

        Returns if it is open or short. Raises LogLoadingError while it is being opened, StorageError if that failed.
        """
        key = topic.name, index
        if not self.is_under_way(topic, index) and key not in self._refused:
            directory = self._directory
            if self._stopped or key in directory.logs or directory.log_bytes(*key) < _LONG_BYTES:
                return
            self._wanted[key] = None
            self._open_next()
        if key in self._refused:
            raise self._refused[key]
        if topic.partitions[index] is None:
            raise LogLoadingError("the log is being opened", f"{topic.name}-{index}")

    def read_producers(self, partition: Partition) -> None:
        """Call `partition.read_on` step by step, until the log is read or the broker stops."""

        def steps() -> Steps:
            while not partition.read_on():
                yield None

        name = f"the reading of the producers of {partition}"
        BackgroundTask(
            name, self._scheduler, steps(), pacing=_STEPS, may_continue=lambda: not self._stopped
        ).start(_STEP_PAUSE_MS)

    def is_under_way(self, topic: Topic, index: int) -> bool:
        """Return whether the log of a partition is being opened, or is requested and waits for that."""
        key = topic.name, index
        return key in self._wanted or (self._opening is not None and self._opening.key == key)

    def forget(self, names: Container[str]) -> None:
        """Do not open logs of topics that are about to be deleted; on return no log of them is being opened."""
        self._wanted = {key: None for key in self._wanted if key[0] not in names}
        self._rest = deque(key for key in self._rest if key[0] not in names)
        self._refused = {key: error for key, error in self._refused.items() if key[0] not in names}
        opening = self._opening
        if opening is not None and opening.key[0] in names:
            opening.abandoned.set()
            with opening.lock:
                pass

    def _open_others(self, after_ms: int = 0) -> None:
        """Open the logs that are not requested; if that is running, search for such logs again at its end."""
        self._looks_again = True
        if self._stopped or (self._others is not None and not self._others.is_over()):
            return
        self._others = BackgroundTask(
            "the opening of logs that are not in use",
            self._scheduler,
            self._open_unrequested(),
            may_continue=lambda: not self._stopped,
        )
        self._others.start(after_ms)

    def _open_unrequested(self) -> Steps:
        while self._looks_again:
            self._looks_again = False
            if not self._find_unopened():
                yield Pause(_AGAIN_MS)
                self._looks_again = True
                continue
            while self._rest:
                if self._opening is not None:
                    yield Until(self._after_opening.append)
                    continue
                name, index = key = self._rest.popleft()
                topic = self._topic_to_open(name, index)
                if topic is None or key in self._refused:
                    continue
                if self._open_empty(name, index):
                    yield Pause(_STEP_PAUSE_MS)
                else:
                    self._open(topic, index)
                    yield None
            if self._looks_again:
                yield Pause(_AGAIN_MS)

    def _find_unopened(self) -> bool:
        """Find the logs that are not open; return False if the directory cannot be listed."""
        try:
            self._rest = deque(self._directory.unopened())
        except StorageError as error:
            if str(error) != self._unlisted:
                logger.error("logs that are not in use are not opened for now: %s", error)
            self._unlisted = str(error)
            return False
        self._unlisted = ""
        return True

    def _open_empty(self, name: str, index: int) -> bool:
        """Open a log at once if it has no records: its requests need not get an error and retry.

        This matters to the transaction coordinator, whose other logs are open from the start.
        """
        try:
            if self._directory.may_hold_records(name, index):
                return False
            self._topics.partition(name, index)
        except StorageError as error:
            self._refuse((name, index), error)
        return True

    def _open_next(self) -> None:
        """Open the next requested log."""
        while self._opening is None and self._wanted and not self._stopped:
            name, index = key = next(iter(self._wanted))
            del self._wanted[key]
            topic = self._topic_to_open(name, index)
            if topic is not None:
                self._open(topic, index)

    def _topic_to_open(self, name: str, index: int) -> Topic | None:
        """Return the topic of a partition, if the partition exists and is not open."""
        topic = self._topics.get(name)
        if topic is None or index >= topic.partition_count or topic.partitions[index] is not None:
            return None
        return topic

    def _open(self, topic: Topic, index: int) -> None:
        opening = _Opening((topic.name, index))
        open_log = self._topics.opening(topic, index, opening.abandoned.is_set)
        self._opening = opening
        opened: list[Opened] = []
        problem: Exception | None = None

        def work() -> None:
            """Open the log in a worker thread, unless the opening was abandoned; an exception is kept for the loop."""
            nonlocal problem
            with opening.lock:
                if opening.abandoned.is_set() or self._stopped:
                    return
                try:
                    opened.append(open_log())
                except OpeningAbandonedError as error:
                    logger.info("%s: opening was abandoned", error)
                except Exception as error:  # noqa: BLE001 - reported below, where the log is refused
                    problem = error

        def done(error: StorageError | None) -> None:
            """Take the opened log in or refuse it, in the loop. Then open the next one, or resume what waits."""
            self._opening = None
            for each in opened:
                self._take_in(topic, index, each, opening)
            if problem is not None:
                self._fail(opening, problem)
            self._open_next()
            if self._opening is None:
                waiting, self._after_opening = self._after_opening, []
                for resume in waiting:
                    resume(None)

        self._workers.background(work, done)

    def _take_in(self, topic: Topic, index: int, opened: Opened, opening: _Opening) -> None:
        if not opening.abandoned.is_set():
            try:
                self._topics.take_in(topic, index, opened)
            except StorageError as error:
                self._refuse(opening.key, error)
        else:
            with suppress(StorageError):  # no loss: its files are deleted, or are left as after a crash
                opened.log.close(sync=False)

    def _fail(self, opening: _Opening, problem: Exception) -> None:
        if opening.abandoned.is_set():
            logger.info("%s-%d was not opened, and is no longer needed: %s", *opening.key, problem)
        elif isinstance(problem, StorageError):
            self._refuse(opening.key, problem)
        else:
            logger.error("%s-%d cannot be opened", *opening.key, exc_info=problem)
            name, index = opening.key
            self._refused[opening.key] = StorageError(f"it cannot be opened: {problem!r}", f"{name}-{index}")

    def _refuse(self, key: Key, error: StorageError) -> None:
        self._topics.report(*key, error)
        if error.position is not None:  # damage lasts; errors of the operating system may be temporary
            self._refused[key] = error
        else:
            self._open_others(_AGAIN_MS)
