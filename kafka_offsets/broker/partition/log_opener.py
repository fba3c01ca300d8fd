"""Log opener: opens logs of topics while the broker serves requests.

Opening a log reads its batch headers, a second for 50 MB of small batches, and its producers, which takes as long again
unless they are saved. A worker thread does that when a long log is requested. Requests for it wait (awaited_logs.py). A
short log is opened by the request itself. Logs that are not requested are opened later one by one, with pauses, so that
retention and compaction apply to them, and so that a clean stop covers every log.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kafka_offsets.broker.partition.partitions import LogLoadingError
from kafka_offsets.broker.turn.background_task import BackgroundTask, Pacing, Pause, Steps, Until
from kafka_offsets.errors import OpeningAbandonedError, StorageError
from kafka_offsets.logs import new_logger

if TYPE_CHECKING:
    from kafka_offsets.broker.partition.partitions import Opened, Partition, Topic, Topics
    from kafka_offsets.broker.turn.scheduler import Deadline, Scheduler
    from kafka_offsets.broker.turn.workers import Workers
    from kafka_offsets.clock import Now

_LONG_BYTES = 256 << 10
"""A log of this size opens in some milliseconds."""

_FIRST_MS = 1000
"""The pause after the start: clients that have waited for the start come first."""

_AGAIN_MS = 1000
"""The pause after the operating system refused something, such as a descriptor."""

_STEP_PAUSE_MS = 2
"""The pause between two steps of reading, in which sockets are read and other requests are decided."""

_STEPS = Pacing(fixed_ms=_STEP_PAUSE_MS)

_MOST_WAITING, _MOST_WAITING_BYTES = 1000, 64 << 20
"""Limits of the requests that wait for logs, and of their frames; the first one may have any size."""

Key = tuple[str, int]

logger = new_logger(__name__)


class _Opening:
    """A log that another thread opens; the thread holds the lock, but not for long after the opening is abandoned."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.lock = threading.Lock()
        self.abandoned = threading.Event()


class LogOpener:
    """Opens the logs of one broker's topics in the background, one at a time.

    on_opened  called with topic and index of each partition, before the requests go on that wait for its log
    """

    def __init__(self, topics: Topics, scheduler: Scheduler, workers: Workers) -> None:
        self.on_opened: list[Callable[[str, int], None]] = []
        self._topics = topics
        self._directory = topics.directory
        self._scheduler = scheduler
        self._workers = workers
        self._wanted: dict[Key, None] = {}
        self._unopened: deque[Key] = deque()
        self._refused: dict[Key, StorageError] = {}
        self._opening: _Opening | None = None
        self._others: BackgroundTask | None = None
        self._reading: set[Partition] = set()
        self._resumes: dict[Callable[[None], None], Deadline | None] = {}
        self._waiting = self._waiting_bytes = 0
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

    # -- requests that wait

    @contextmanager
    def waiting(self, size: int) -> Iterator[bool]:
        """Count a request of `size` bytes as waiting, unless too many do; yield whether it may wait."""
        fits = self._waiting < _MOST_WAITING and self._waiting_bytes + size <= _MOST_WAITING_BYTES
        if self._waiting and not fits:
            yield False
            return
        self._waiting += 1
        self._waiting_bytes += size
        try:
            yield True
        finally:
            self._waiting -= 1
            self._waiting_bytes -= size

    def when_changed(self, resume: Callable[[None], None], timeout_ms: int | None = None) -> None:
        """Call `resume` once: when a log was opened, read or given up, when `wake` is called, or after the timeout."""

        def expired(now: Now) -> None:
            """End the wait."""
            del self._resumes[resume]
            resume(None)

        deadline = None if timeout_ms is None else self._scheduler.client_timeout(timeout_ms, expired)
        self._resumes[resume] = deadline

    def wake(self) -> None:
        """Let everything that waits look at the logs again."""
        resumes, self._resumes = self._resumes, {}
        for resume, deadline in resumes.items():
            if deadline is not None:
                deadline.cancel()
            resume(None)

    # -- logs

    def begin(self, topic: Topic, index: int) -> bool:
        """Open the log of a partition in the background, if it is not open and opening takes long.

        Returns whether it is not open yet. Raises StorageError if its size cannot be read.
        """
        key = topic.name, index
        if not self.is_under_way(topic, index):
            directory = self._directory
            if key in self._refused or self._stopped or key in directory.logs:
                return False
            if not directory.files.outlives_process or directory.log_bytes(*key) < _LONG_BYTES:
                return False  # a log in memory is opened as fast as a short one
            self._wanted[key] = None
            self._open_next()
        return topic.partitions[index] is None and key not in self._refused

    def use(self, topic: Topic, index: int) -> None:
        """Begin to open the log of a partition, as `begin` does.

        Returns if it is open or short. Raises LogLoadingError while it is being opened, StorageError if that failed.
        """
        if self.begin(topic, index):
            raise LogLoadingError("the log is being opened", f"{topic.name}-{index}")
        refused = self._refused.get((topic.name, index))
        if refused is not None:
            raise refused

    def read_producers(self, partition: Partition) -> None:
        """Call `partition.read_on` step by step, until the log is read or the broker stops."""
        self._reading.add(partition)

        def steps() -> Steps:
            try:
                while not partition.read_on():
                    yield None
            finally:
                self._reading.discard(partition)
                self.wake()

        name = f"the reading of the producers of {partition}"
        BackgroundTask(
            name, self._scheduler, steps(), pacing=_STEPS, may_continue=lambda: not self._stopped
        ).start(_STEP_PAUSE_MS)

    def is_under_way(self, topic: Topic, index: int) -> bool:
        """Return whether the log of a partition is being opened, or is requested and waits for that."""
        key = topic.name, index
        return key in self._wanted or (self._opening is not None and self._opening.key == key)

    def is_loading(self, topic: Topic, index: int) -> bool:
        """Return whether the log of a partition is being opened, or read for its producers, and will be in use then."""
        opening = self._opening
        if opening is not None and opening.abandoned.is_set() and opening.key == (topic.name, index):
            return False
        return self.is_under_way(topic, index) or topic.partitions[index] in self._reading

    def forget(self, names: Container[str]) -> None:
        """Do not open logs of topics that are about to be deleted; on return no log of them is being opened."""
        self._wanted = {key: None for key in self._wanted if key[0] not in names}
        self._unopened = deque(key for key in self._unopened if key[0] not in names)
        self._refused = {key: error for key, error in self._refused.items() if key[0] not in names}
        opening = self._opening
        if opening is not None and opening.key[0] in names:
            opening.abandoned.set()
            with opening.lock:
                pass
        self.wake()

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
            while self._unopened:
                if self._opening is not None:
                    yield Until(self.when_changed)
                    continue
                name, index = key = self._unopened.popleft()
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
            self._unopened = deque(self._directory.unopened())
        except StorageError as error:
            if self._directory.is_news(error) and str(error) != self._unlisted:
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
            """Take the opened log in or refuse it, in the loop. Then open the next one, and resume what waits."""
            self._opening = None
            for opened_log in opened:
                self._take_in(topic, index, opened_log, opening)
            if problem is not None:
                self._fail(opening, problem)
            self._open_next()
            self.wake()

        self._workers.background(work, done)

    def _take_in(self, topic: Topic, index: int, opened: Opened, opening: _Opening) -> None:
        if not opening.abandoned.is_set():
            try:
                self._topics.take_in(topic, index, opened)
            except StorageError as error:
                self._refuse(opening.key, error)
            else:
                for call in self.on_opened:
                    call(*opening.key)
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
