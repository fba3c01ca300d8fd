"""The progress of a streaming query as a consumer group: committed batch by batch, and read to start a query from it.

Spark stores the progress of a query in its checkpoint and commits to no group, so monitoring of groups does not see
it. `OffsetCommitListener` commits the end of each batch after the batch. Offsets are committed by topic and partition,
so the number, order and kind of a query's sources do not matter.

No consumer may join the group: a broker refuses such commits while the group has members. That is counted and logged
like any other error; the query is not affected.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    SourceProgress,
    StreamingQueryListener,
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery

from kafka_offsets.client.cluster import EARLIEST, LATEST
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.client.retries import Retries
from kafka_offsets.client.settings import ConnectionSettings, secured_settings
from kafka_offsets.errors import (
    CommitRefusedError,
    ConnectionLostError,
    ErrorCode,
    KafkaOffsetsError,
    ProtocolError,
    RefusedError,
)
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.topic_partition import TopicPartition, names_in
from kafka_offsets.spark.checkpoint import merge_offsets, parse_offsets, read_checkpoint

logger = new_logger(__name__)

CONFLICT = "PARTITION_OF_ANOTHER_QUERY"
"""The error name that is counted when two queries would commit the same partition to one group."""

CONTINUOUS = "NO_PROGRESS_OF_A_CONTINUOUS_QUERY"
"""The error name that is counted when the progress of a continuous query is to be committed: Spark reports none."""

_CONTINUOUS_PLAN = "WriteToContinuousDataSource"
_MAX_ENDED = 1000

_HAS_MEMBERS = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
}
_FAILURES = (KafkaOffsetsError, OSError, ValueError)
_RESETS = {"earliest": EARLIEST, "latest": LATEST}
_NOTHING_READ = ("None", "null")
"""PySpark's representation of the offset of a source that has read nothing yet: classic, and with Spark Connect."""


class ProgressError(KafkaOffsetsError):
    """Offsets from which a query cannot start, or missing offsets."""


class _Commits:
    """Commits to one group; reconnects if the connection is lost."""

    def __init__(self, settings: ConnectionSettings, group: str) -> None:
        self.group = group
        self._settings = settings
        self._coordinator: Coordinator | None = None

    def commit(self, offsets: dict[TopicPartition, int], metadata: str) -> None:
        """Commit; raises ConnectionLostError, RefusedError, CommitRefusedError and ProtocolError."""
        if self._coordinator is not None:
            try:
                self._coordinator.commit(offsets, {}, metadata)
            except (ConnectionLostError, ProtocolError):
                self.close()  # brokers close connections that are idle for long
            else:
                return
        # Spark's events wait: after a lost connection the next one commits.
        retries = Retries(self._settings.timeout_s, reconnects=False)
        self._coordinator = self._settings._replace(retries=retries).coordinator(self.group)
        try:
            self._coordinator.commit(offsets, {}, metadata)
        except (ConnectionLostError, ProtocolError):
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next commit opens a new one."""
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None


@dataclass(slots=True)
class _Progress:
    """The progress of a query, and whether it is committed.

    is_whole  no partition is left to another query
    at        time of the last commit, in seconds of the listener's clock
    """

    run: UUID
    name: str | None
    batch: int
    offsets: dict[TopicPartition, int]
    committed: bool = False
    is_whole: bool = True
    at: float = 0.0

    @property
    def metadata(self) -> str:
        return f"batch={self.batch}" + (f" query={self.name}" if self.name else "")


@dataclass(slots=True)
class _Ended:
    """How far a query that has ended was committed.

    is_over  Spark has reported the end of the run: what it reports afterwards is of a later one
    """

    run: UUID
    batch: int
    is_over: bool = False

    def covers(self, progress: _Progress) -> bool:
        """Whether a progress is reported late: by the end of the query, the group had it or more."""
        is_of_a_run_before = progress.run == self.run or not self.is_over
        return is_of_a_run_before and progress.batch <= self.batch


class OffsetCommitListener(StreamingQueryListener):
    """Commits the progress of streaming queries to a group: `spark.streams.addListener(OffsetCommitListener(…))`.

    After each batch the end offsets that have moved are committed, with `batch=N query=NAME` as metadata: a consumer
    that continues from there would have committed the same. Sources other than Kafka are ignored; if several sources of
    a query read a partition, the lowest offset is used.

    bootstrap    HOST:PORT[,HOST:PORT…]
    group        a group without other users: commits to a group with members are refused
    queries      names of the queries to commit for; None for all of the session
    topics       topics to commit for, if a query also reads other clusters; None for all
    checkpoints  folders, or URLs for fsspec: when a query starts from one of them, its last finished batch is
                 committed again, in case the process ended before the commit
    timeout_s    for each response of a broker; Spark's events wait for it. After a connection error there is a pause of
                 the same length; then the next event commits what is missing
    refresh_s    interval at which what has not moved is committed again, so that it does not expire
    clock        seconds that never go back
    properties   Kafka's client properties of TLS and SASL: security.protocol, ssl.*, sasl.*

    The listener never raises an error into Spark. `commits` counts the successful commits, `errors` the failed ones, by
    the name of the protocol's error or of the exception; `last_error` is the last one. The first error of a series is
    logged as a warning.

    Spark calls its listeners a moment after a batch, and not at all if the process ends first: call `commit(query)`
    before the end. What Spark then reports late moves no offset back.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        *,
        queries: Collection[str] | None = None,
        topics: Collection[str] | None = None,
        checkpoints: Collection[str | Path] = (),
        timeout_s: float = 10.0,
        refresh_s: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        for name, argument in (("queries", queries), ("topics", topics), ("checkpoints", checkpoints)):
            if isinstance(argument, str):
                raise TypeError(f"{name} is one text, {argument!r}, where a list of them is wanted")
        self._commits = _Commits(secured_settings(bootstrap, properties, timeout_s), group)
        self._queries, self._topics = queries, topics
        self._checkpoints = tuple(checkpoints)
        self._timeout_s, self._refresh_s, self._clock = timeout_s, refresh_s, clock
        self._lock = threading.RLock()  # Spark calls from its own threads
        self._progress: dict[UUID, _Progress] = {}
        self._ended: dict[UUID, _Ended] = {}
        self._owners: dict[TopicPartition, UUID] = {}
        self._accepted: dict[TopicPartition, tuple[int, float]] = {}
        self._not_before = float("-inf")
        self._is_failing = False
        self._is_closed = False
        self.commits = 0
        self.errors: Counter[str] = Counter()
        self.last_error: str | None = None

    @property
    def group(self) -> str:
        """The group of the commits."""
        return self._commits.group

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Commit the last finished batch of the query's checkpoint again, if that is one of `checkpoints`."""
        if not self._checkpoints or not self._is_wanted(event.name):
            return
        with self._lock:
            for location in self._checkpoints:
                try:
                    checkpoint = read_checkpoint(location)
                # Each store of fsspec has its own exceptions.
                except Exception as error:  # noqa: BLE001
                    self._failed(f"checkpoint {location}", error)
                    continue
                if checkpoint is None or checkpoint.query_id != str(event.id) or checkpoint.batch < 0:
                    continue
                if self._note(
                    event.id, _Progress(event.runId, event.name, checkpoint.batch, checkpoint.offsets)
                ):
                    self._settle(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Commit the end of the batch."""
        with self._lock:
            if self._take(event.progress):
                self._settle(event.progress.id)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Commit what could not be committed before, and refresh old commits."""
        with self._lock:
            progress = self._progress.get(event.id)
            if progress is not None and self._clock() - progress.at >= self._refresh_s:
                progress.committed = False
            self._settle(event.id)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Commit what could not be committed before, and forget the query."""
        with self._lock:
            progress = self._progress.get(event.id)
            if progress is not None and progress.run == event.runId:
                self._settle(event.id, at_once=True)
                self._end(event.id)
                self._progress.pop(event.id, None)
            ended = self._ended.get(event.id)
            if ended is not None and ended.run == event.runId:
                ended.is_over = True

    def commit(self, query: StreamingQuery) -> bool:
        """Commit the progress of a query at once, without waiting for Spark's event; return whether nothing has failed.

        Call it after a query has ended, before the process ends. A continuous query is a failure: Spark reports no
        progress of one, so nothing is committed.
        """
        progress = _last_progress(query)
        with self._lock:
            failures = self.errors.total()
            if progress is None:
                if self._is_wanted(query.name) and _is_continuous(query):
                    text = "Spark reports no progress of a continuous query: nothing is committed"
                    self._count([CONTINUOUS], f"query {query.name or query.id}: {text}")
            elif self._take(progress):
                self._settle(progress.id, at_once=True)
            if progress is not None and not query.isActive:
                self._end(progress.id)
            return self.errors.total() == failures

    def close(self) -> None:
        """Close the connection; what Spark reports later is committed with a connection of its own."""
        with self._lock:
            self._is_closed = True
            self._commits.close()

    def _is_wanted(self, name: str | None) -> bool:
        return self._queries is None or name in self._queries

    def _take(self, progress: StreamingQueryProgress) -> bool:
        """Note the progress of a query; return whether there is anything to commit."""
        if not self._is_wanted(progress.name):
            return False
        try:
            sources = [_read_source(source) for source in progress.sources]
        except ProgressError as error:
            self._failed(f"batch {progress.batchId} of query {progress.name or progress.id}", error)
            return False
        batch_progress = _Progress(progress.runId, progress.name, progress.batchId, merge_offsets(sources))
        return self._note(progress.id, batch_progress)

    def _note(self, query: UUID, progress: _Progress) -> bool:
        """Keep a query's progress unless it is older than the known one; return whether it has any offsets."""
        known_progress, ended = self._progress.get(query), self._ended.get(query)
        if known_progress is not None and known_progress.batch > progress.batch:
            return False
        if ended is not None and ended.covers(progress):
            return False
        if self._topics is not None:
            progress.offsets = {
                partition: offset
                for partition, offset in progress.offsets.items()
                if partition[0] in self._topics
            }
        self._leave_to_others(query, progress)
        if not progress.offsets:
            return False
        self._progress[query] = progress
        return True

    def _leave_to_others(self, query: UUID, progress: _Progress) -> None:
        """Remove the partitions that another query commits: the group's offset would alternate between the two."""
        taken = [
            topic_partition
            for topic_partition in progress.offsets
            if self._owners.setdefault(topic_partition, query) != query
        ]
        for topic_partition in taken:
            del progress.offsets[topic_partition]
        if taken:
            progress.is_whole = False
            names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(taken))
            self._count(
                [CONFLICT],
                f"query {progress.name or query}: another query commits {names} to group {self.group}; "
                "give each a listener with a group of its own, by `queries`",
            )

    def _settle(self, query: UUID, *, at_once: bool = False) -> None:
        """Commit the known progress of a query that is not committed."""
        progress = self._progress.get(query)
        if progress is None or progress.committed:
            return
        if not at_once and self._clock() < self._not_before:
            return
        moved = self._moved(progress.offsets)
        try:
            if moved:
                self._commits.commit(moved, progress.metadata)
        except _FAILURES as error:
            if isinstance(error, CommitRefusedError):
                self._accept(
                    {partition: moved[partition] for partition in moved.keys() - error.errors.keys()}
                )
            if isinstance(error, ConnectionLostError):
                self._not_before = self._clock() + self._timeout_s
            self._failed(f"batch {progress.batch} of query {progress.name or query}", error)
            return
        finally:
            if self._is_closed:
                self._commits.close()
        progress.committed, progress.at = True, self._clock()
        self._not_before, self._is_failing = float("-inf"), False
        self._accept(moved)
        self.commits += bool(moved)

    def _moved(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offsets to commit: those that have moved, or were committed so long ago that they might expire."""
        now = self._clock()
        moved = {}
        for partition, offset in offsets.items():
            accepted, at = self._accepted.get(partition, (None, now))
            if accepted != offset or now - at >= self._refresh_s:
                moved[partition] = offset
        return moved

    def _accept(self, offsets: Mapping[TopicPartition, int]) -> None:
        now = self._clock()
        self._accepted.update({partition: (offset, now) for partition, offset in offsets.items()})

    def _end(self, query: UUID) -> None:
        """Release the partitions of a query that has ended, and remember how far it was committed.

        What is not committed yet is when Spark reports the end.
        """
        for partition, owner in self._owners.items():
            if owner == query:
                self._accepted.pop(partition, None)
        self._owners = {partition: owner for partition, owner in self._owners.items() if owner != query}
        progress = self._progress.get(query)
        if progress is None or not progress.committed or not progress.is_whole:
            return
        del self._progress[query]
        self._ended.pop(query, None)
        self._ended[query] = _Ended(progress.run, progress.batch)
        if len(self._ended) > _MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def _failed(self, what: str, error: Exception) -> None:
        if isinstance(error, CommitRefusedError):
            codes = set(error.errors.values())
            because = f"; group {self.group} has active members" if codes & _HAS_MEMBERS else ""
            self._count([code.name for code in codes], f"{what} is not committed: {error}{because}")
        elif isinstance(error, RefusedError):
            self._count([error.error_code.name], f"{what} is not committed: {error}")
        else:
            self._count([type(error).__name__], f"{what} is not committed: {error}")

    def _count(self, reasons: list[str], text: str) -> None:
        self.errors.update(reasons)
        self.last_error = text
        logger.log(logging.DEBUG if self._is_failing else logging.WARNING, "%s", text)
        self._is_failing = True


def group_starting_offsets(
    bootstrap: str,
    group: str,
    topics: str | Iterable[str],
    reset: Literal["earliest", "latest", "none"] = "earliest",
    timeout_s: float = 30.0,
    *,
    properties: Mapping[str, str] | None = None,
) -> str:
    """Return a group's committed offsets as JSON for the option `startingOffsets` of Spark's Kafka source.

    topics      their names, or one text in the form of the option `subscribe`; the result has all partitions of each
    reset       the start in a partition without a committed offset, or whose log no longer contains it, like a
                consumer's `auto.offset.reset`: `none` raises ProgressError. A batch query does not accept `latest`
    properties  as for OffsetCommitListener
    Raises RefusedError for a topic that does not exist, ConnectionLostError, and ValueError.
    """
    if reset not in (*_RESETS, "none"):
        raise ValueError(f"reset is {reset!r}, neither earliest nor latest nor none")
    names = [name.strip() for name in topics.split(",")] if isinstance(topics, str) else list(topics)
    if not any(names):
        raise ValueError("no topics")
    settings = secured_settings(bootstrap, properties, timeout_s)
    with settings.coordinator(group) as coordinator:
        committed = {partition: entry.offset for partition, entry in coordinator.committed().items()}
    with settings.cluster() as cluster:
        partitions = sorted(cluster.leaders(names))
        first = cluster.offsets_at(dict.fromkeys(partitions, EARLIEST))
        end = cluster.offsets_at(dict.fromkeys(partitions, LATEST))
    usable = {
        partition: committed[partition]
        for partition in partitions
        if partition in committed and first[partition] <= committed[partition] <= end[partition]
    }
    return _starting_offsets(group, partitions, committed, usable, reset)


def commit_checkpoint(
    bootstrap: str,
    group: str,
    checkpoint: str | Path,
    topics: Collection[str] | None = None,
    timeout_s: float = 30.0,
    *,
    properties: Mapping[str, str] | None = None,
) -> dict[TopicPartition, int]:
    """Commit the end of the last finished batch of a checkpoint to a group, without Spark; return the offsets.

    checkpoint  a folder of this machine, or a URL that fsspec knows
    topics      topics to commit for, None for all
    properties  as for OffsetCommitListener
    Raises ProgressError if no batch is finished, StorageError, ConnectionLostError, RefusedError, CommitRefusedError.
    """
    if topics is not None:
        topics = names_in(topics, "topics")
    finished = read_checkpoint(checkpoint)
    if finished is None or finished.batch < 0:
        raise ProgressError(f"{checkpoint}: no batch is done")
    offsets = {
        partition: offset
        for partition, offset in finished.offsets.items()
        if topics is None or partition[0] in topics
    }
    if not offsets:
        raise ProgressError(f"{checkpoint}: batch {finished.batch} has read none of the topics")
    with secured_settings(bootstrap, properties, timeout_s).coordinator(group) as coordinator:
        coordinator.commit(offsets, {}, f"batch={finished.batch}")
    return offsets


def _last_progress(query: StreamingQuery) -> StreamingQueryProgress | None:
    progress: Any = query.lastProgress
    if progress is None:
        return None
    # PySpark 3.5 has the JSON object here; 4.0 makes Python's text of the offsets in it, where events have JSON.
    told = json.loads(progress.json) if isinstance(progress, StreamingQueryProgress) else progress
    sources = [{**source, "endOffset": _as_json(source["endOffset"])} for source in told["sources"]]
    return StreamingQueryProgress.fromJson({**told, "sources": sources})


def _as_json(offset: object) -> str:
    return offset if isinstance(offset, str) else json.dumps(offset)


def _is_continuous(query: StreamingQuery) -> bool:
    """Whether the plan of a query is a continuous one; nothing else says it with and without Spark Connect."""
    with redirect_stdout(StringIO()) as plan:
        query.explain()
    return _CONTINUOUS_PLAN in plan.getvalue()


def _read_source(source: SourceProgress) -> dict[TopicPartition, int]:
    """Return the end offsets of a source, empty for other sources than Kafka. ProgressError for an unknown offset."""
    if not source.description.startswith("Kafka") or source.endOffset in _NOTHING_READ:
        return {}
    offsets = parse_offsets(source.endOffset)
    if offsets is None:
        raise ProgressError(f"source {source.description}: the end offset is {source.endOffset[:200]}")
    return offsets


def _starting_offsets(
    group: str,
    partitions: list[TopicPartition],
    committed: dict[TopicPartition, int],
    usable: dict[TopicPartition, int],
    reset: str,
) -> str:
    lost = [partition for partition in partitions if partition in committed and partition not in usable]
    if reset == "none" and len(usable) < len(partitions):
        names = ", ".join(f"{topic}-{index}" for topic, index in partitions if (topic, index) not in usable)
        raise ProgressError(f"group {group} has no offset to begin at in {names}")
    for topic, index in lost:
        logger.warning(
            "group %s is at %d of %s-%d, which its log does not hold: a query begins at the %s",
            *(group, committed[topic, index], topic, index, reset),
        )
    offsets: dict[str, dict[str, int]] = {}
    for topic, index in partitions:
        offsets.setdefault(topic, {})[str(index)] = usable.get((topic, index), _RESETS.get(reset, EARLIEST))
    return json.dumps(offsets)
