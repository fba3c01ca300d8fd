"""Forced compaction: compacts one log after the other, due or not, while the broker serves requests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from kafka_offsets.broker.partition.compacted import Compacted
from kafka_offsets.broker.partition.log_cleaner import LogCleaner, cleanup_policy, compaction_config
from kafka_offsets.broker.partition.partitions import LogLoadingError, Partition, Topic
from kafka_offsets.broker.turn.background_task import BackgroundTask, Pacing, Pause, Steps, Until
from kafka_offsets.errors import StorageError, unknown
from kafka_offsets.storage.cleaner.compaction import CompactionResult, cleanable

_RETRY_MS = 5
"""The pause while it waits for a cleaning of the same log, for its opening, or for the loading of shards."""

_PACING = Pacing(fixed_ms=1)
_DELETED = "its topic was deleted in the meantime"

Answer = dict[tuple[str, int], Compacted]


def force_compaction(cleaner: LogCleaner, topic: str | None, *, include_active: bool) -> Future[Answer]:
    """Start to compact all logs with cleanup.policy=compact, or those of one topic; the future has the result of each.

    include_active  first roll each log to a new segment, so that the active segment is compacted too
    ValueError if the topic does not exist or has another policy: compaction would remove its records without a key.
    The future fails with RuntimeError if the broker stops first. An empty log that is not open stays closed.
    """
    topics = cleaner.topics.all()
    if topic is not None:
        named_topic = cleaner.topics.get(topic)
        if named_topic is None:
            raise ValueError(unknown("topic", topic, [other.name for other in topics]))
        if "compact" not in cleanup_policy(named_topic):
            raise ValueError(f"the cleanup.policy of {topic!r} is {','.join(cleanup_policy(named_topic))}")
        topics = [named_topic]
    compacted = [candidate for candidate in topics if "compact" in cleanup_policy(candidate)]
    request = _Request(cleaner, compacted, include_active)
    request.begin()
    return request.future


class _Request:
    """The logs that are still to be compacted, and the results of the others."""

    def __init__(self, cleaner: LogCleaner, topics: list[Topic], include_active: bool) -> None:
        self.future: Future[Answer] = Future()
        self._cleaner = cleaner
        self._include_active = include_active
        self._left = [(topic, index) for topic in topics for index in range(topic.partition_count)]
        self._task = BackgroundTask(
            "a forced compaction", cleaner.scheduler, self._steps(), self._ended, pacing=_PACING
        )
        cleaner.on_stopped.append(self._stopped)

    def begin(self) -> None:
        """Begin with the first log."""
        self._task.begin()

    def _stopped(self) -> None:
        self._task.stop()
        if not self.future.done():
            self.future.set_exception(RuntimeError("the broker was stopped before all was compacted"))

    def _ended(self, error: Exception | None) -> None:
        self._cleaner.on_stopped.remove(self._stopped)
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(self._task.result)

    def _steps(self) -> Steps:
        done: Answer = {}
        for topic, index in self._left:
            while not self._cleaner.is_started:
                yield Pause(_RETRY_MS)
            passes = _Passes(self._cleaner, topic, index)
            done[topic.name, index] = yield from passes.steps(include_active=self._include_active)
            yield None
        return done


class _Passes:
    """The compaction of one log, in as many passes as its offset map needs."""

    def __init__(self, cleaner: LogCleaner, topic: Topic, index: int) -> None:
        self._cleaner = cleaner
        self._topic = topic
        self._index = index
        self._results: list[CompactionResult] = []
        self._size = self._segments = self._active_bytes = 0

    def steps(self, *, include_active: bool) -> Steps:
        """Compact the log; return the result."""
        name = f"{self._topic.name}-{self._index}"
        error: Exception | None = None
        try:
            partition = yield from self._opened()
            if partition is not None:
                log = partition.log
                if include_active and not log.closed and log.segments[-1].size:
                    log.roll()
                self._size, self._segments = log.size, len(log.segments)
                self._active_bytes = log.segments[-1].size
                error = yield from self._rounds(partition)
        except StorageError as refused:
            error = refused
        done = Compacted.of(name, self._results, self._size, self._segments, self._active_bytes)
        if error is None:
            return done
        described = str(error) if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"
        return done._replace(error=described)

    def _opened(self) -> Steps:
        """Return the partition, with its log open; None when the log is empty and not open.

        Raises StorageError when it cannot be opened, or its topic was deleted.
        """
        topics, topic, index = self._cleaner.topics, self._topic, self._index
        opener = topics.opener
        assert opener is not None
        for is_second_try in (False, True):
            if topics.get(topic.name) is not topic:
                raise StorageError(_DELETED, f"{topic.name}-{index}")
            if topic.partitions[index] is None and not topics.directory.may_hold_records(topic.name, index):
                return None
            try:
                return topics.partition_of(topic, index)
            except LogLoadingError as error:
                if is_second_try:  # the operating system refuses it; the opener logs the reason
                    raise StorageError("it could not be opened", error.path) from error
            yield Pause(_RETRY_MS)
            while topics.get(topic.name) is topic and opener.is_under_way(topic, index):
                yield Pause(_RETRY_MS)
        raise AssertionError("unreachable")

    def _rounds(self, partition: Partition) -> Steps:
        """Clean the log until a pass covers all of it; return the error that ended this, or None."""
        log = partition.log
        while not partition.log.closed:
            round_ended = yield Until(partial(self._begin_round, partition))
            if round_ended is None:
                yield Pause(_RETRY_MS)
                continue
            error, result = round_ended
            if log.closed:  # a closed log ends the pass, whatever the outcome
                break
            if error is None and result is not None:
                self._results.append(result)
            if error is not None or result is None or result.is_complete:
                return error
        return StorageError(_DELETED, log.directory)

    def _begin_round(self, partition: Partition, resume: Callable[[object], None]) -> None:
        """Begin a pass; `resume` gets its error and its result, or None while another pass is running."""
        cleaner, now = self._cleaner, self._cleaner.scheduler.clock.now()
        config = compaction_config(cleaner.config, self._topic.config)
        cleaned_to = cleaner.topics.directory.cleaned_to(partition.topic, partition.index)
        try:
            until = cleanable(partition.log, cleaned_to, config, now.wall_ms).first_uncleanable
        except StorageError as error:
            resume((error, None))
            return

        def ended(partition: Partition, error: Exception | None, result: CompactionResult | None) -> None:
            resume((error, result))

        if not cleaner.compact(partition, now, config=config, until=until, ended=ended):
            resume(None)
