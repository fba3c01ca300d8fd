"""Compaction on demand: one log after the other, beside serving, whether it is due or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from kafka_offsets.broker.partition.compacted import Compacted
from kafka_offsets.broker.partition.log_cleaner import LogCleaner, cleanup_policy, compaction_config
from kafka_offsets.broker.partition.partitions import LogLoadingError, Partition, Topic
from kafka_offsets.clock import Now
from kafka_offsets.errors import StorageError
from kafka_offsets.storage.cleaner.compaction import CompactionResult, cleanable

_RETRY_MS = 5
"""So long it waits for what is under way: a cleaning of the same log, its opening, or that the shards are loaded."""

_DELETED = "its topic was deleted meanwhile"

Answer = dict[tuple[str, int], Compacted]


def force_compaction(
    cleaner: LogCleaner, topic: str | None, is_loading: Callable[[], bool], *, include_active: bool
) -> Future[Answer]:
    """Begin to compact all logs with the policy compact, or those of one topic; the future is what became of each.

    is_loading      whether logs are still being read, and must not be cleaned
    include_active  begin a new segment in each log before, so that the active one is not spared
    ValueError when there is no such topic, or when its policy is another: of that records without a key would go.
    The future is a RuntimeError when the broker stops before the end. A log that is empty and not open stays so.
    """
    topics = cleaner.topics.all()
    if topic is not None:
        found = cleaner.topics.get(topic)
        if found is None:
            raise ValueError(f"there is no topic {topic!r}")
        if "compact" not in cleanup_policy(found):
            raise ValueError(f"the cleanup.policy of {topic!r} is {','.join(cleanup_policy(found))}")
        topics = [found]
    compacted = [each for each in topics if "compact" in cleanup_policy(each)]
    demand = _Request(cleaner, compacted, is_loading, include_active)
    demand.begin()
    return demand.future


class _Request:
    """The logs that are still to be compacted, and what became of the others."""

    def __init__(
        self, cleaner: LogCleaner, topics: list[Topic], is_loading: Callable[[], bool], include_active: bool
    ) -> None:
        self.future: Future[Answer] = Future()
        self._cleaner = cleaner
        self._is_loading = is_loading
        self._include_active = include_active
        self._left = deque((topic, index) for topic in topics for index in range(topic.partition_count))
        self._done: Answer = {}
        cleaner.on_stopped.append(self._stopped)

    def _stopped(self) -> None:
        if not self.future.done():
            self.future.set_exception(RuntimeError("the broker was stopped before all was compacted"))

    def begin(self) -> None:
        """Begin with the first log."""
        self._guarded(self._go_on, self._cleaner.scheduler.clock.now())

    def later(self, after_ms: int, call: Callable[[Now], None]) -> None:
        """Have something called after a pause; what it raises is what became of the demand."""
        self._cleaner.scheduler.pause(after_ms, partial(self._guarded, call))

    def _guarded(self, call: Callable[[Now], None], now: Now) -> None:
        try:
            call(now)
        except Exception as error:  # logged by whoever called; who waits must hear of it
            if not self.future.done():
                self._cleaner.on_stopped.remove(self._stopped)
                self.future.set_exception(error)
            raise

    def _go_on(self, now: Now) -> None:
        """Take the next log, or tell what was done."""
        if self._is_loading():  # their logs are being read
            self.later(_RETRY_MS, self._go_on)
        elif self._left:
            topic, index = self._left.popleft()
            rounds = _Passes(self._cleaner, topic, index, self, include_active=self._include_active)
            rounds.begin(now)
        else:
            self._cleaner.on_stopped.remove(self._stopped)
            self.future.set_result(self._done)

    def ended(self, topic: Topic, index: int, done: Compacted) -> None:
        """Take in what became of a log, and go on with the next one."""
        self._done[topic.name, index] = done
        self.later(1, self._go_on)


class _Passes:
    """The compaction of one log for a demand: as many rounds as the map of keys asks for."""

    def __init__(
        self, cleaner: LogCleaner, topic: Topic, index: int, demand: _Request, *, include_active: bool
    ) -> None:
        self._cleaner = cleaner
        self._topic = topic
        self._index = index
        self._demand = demand
        self._include_active = include_active
        self._has_waited = False
        self._partition: Partition | None = None
        self._results: list[CompactionResult] = []
        self._size = self._segments = 0

    def begin(self, now: Now) -> None:
        """Open the log if there is anything in it, and begin with the first round."""
        topics, name = self._cleaner.topics, self._topic.name
        if topics.get(name) is not self._topic:
            self._end(StorageError(_DELETED, f"{name}-{self._index}"))
            return
        try:
            is_open = self._topic.partitions[self._index] is not None
            if not is_open and not topics.directory.may_hold_records(name, self._index):
                self._end(None)
                return
            self._partition = topics.partition_of(self._topic, self._index)
            assert self._partition is not None
            log = self._partition.log
            if self._include_active and not log.closed and log.segments[-1].size:
                log.roll()
            self._size, self._segments = log.size, len(log.segments)
        except LogLoadingError as error:
            if self._has_waited:  # the system refuses it; the opener logs why
                self._end(StorageError("it could not be opened", error.path))
            else:
                self._has_waited = True
                self._demand.later(_RETRY_MS, self._wait)
            return
        except StorageError as error:
            self._end(error)
            return
        self._round(now)

    def _wait(self, now: Now) -> None:
        """Begin again when another thread has opened the log, or was refused."""
        opener = self._cleaner.topics.opener
        assert opener is not None
        is_deleted = self._cleaner.topics.get(self._topic.name) is not self._topic
        if not is_deleted and opener.is_under_way(self._topic, self._index):
            self._demand.later(_RETRY_MS, self._wait)
        else:
            self.begin(now)

    def _round(self, now: Now) -> None:
        partition = self._partition
        assert partition is not None
        if partition.log.closed:
            self._end(StorageError(_DELETED, partition.log.directory))
            return
        config = compaction_config(self._cleaner.config, self._topic.config)
        cleaned_to = self._cleaner.topics.directory.cleaned_to(partition.topic, partition.index)
        try:
            until = cleanable(partition.log, cleaned_to, config, now.wall_ms).first_uncleanable
        except StorageError as error:
            self._end(error)
            return
        begun = self._cleaner.compact(partition, now, config=config, until=until, ended=self._round_ended)
        if not begun:
            self._demand.later(_RETRY_MS, self._round)

    def _round_ended(
        self, partition: Partition, error: Exception | None, result: CompactionResult | None
    ) -> None:
        if partition.log.closed:  # which ends the round, in whatever way
            error = StorageError(_DELETED, partition.log.directory)
        elif result is not None and error is None:
            self._results.append(result)
            if not result.is_complete:
                self._demand.later(1, self._round)
                return
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        name = f"{self._topic.name}-{self._index}"
        done = Compacted.of(name, self._results, self._size, self._segments)
        if error is not None:
            told = str(error) if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"
            done = done._replace(error=told)
        self._demand.ended(self._topic, self._index, done)
