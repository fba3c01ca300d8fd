"""Incremental fetch sessions (KIP-227): which partitions a Fetch reads, and which of them its response contains.

A client with many partitions opens a session by a full request, and the broker keeps the list. Later requests name only
changes, and their responses contain only partitions with news. Each request increments the session's epoch, so a lost
or duplicate request is detected. Partitions that returned records move to the end of the list: where a limit cuts a
response short, the others come first in the next one.

This module reads no log; fetch.py does. Source: FetchSession and FetchManager of Kafka 4.3.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages

TOPIC_IDS_SINCE = 13
"""The first version of Fetch that names topics by id (KIP-516)."""

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
"""Session epochs of a request that opens a session, and of one without a session. Both close the session they name."""

EVICTION_MS = 120_000
"""Any new session may evict a session unused for longer; a larger one may evict a session older than that."""

_MAX_INT = 2**31 - 1
_NO_TOPIC_ID = bytes(16)

_Key = tuple[str | bytes, int]
_Partition: TypeAlias = "messages.FetchResponse.PartitionData"


class Wanted(NamedTuple):
    """A partition to be read. The name of its topic is "" when its id is unknown."""

    topic: str
    topic_id: bytes
    asked: messages.FetchRequest.FetchPartition


class Read(NamedTuple):
    """The records and offsets that were read of a requested partition."""

    topic: str
    topic_id: bytes
    partition: _Partition


class _Followed:
    """A partition of a session, and the last values that its client received: -1 for none, or none that counts."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.high_watermark = self.log_start_offset = -1

    def has_news(self, read: _Partition) -> bool:
        """Whether the response must contain what was read."""
        return bool(
            read.records
            or read.error_code
            or read.diverging_epoch.end_offset >= 0
            or self.high_watermark != read.high_watermark
            or self.log_start_offset != read.log_start_offset
        )

    def takes_news(self, read: _Partition) -> bool:
        """Record what was read; return whether the response must contain it."""
        has_news = self.has_news(read)
        self.high_watermark = -1 if read.error_code else read.high_watermark  # report it again after an error
        self.log_start_offset = read.log_start_offset
        return has_news


class FetchSession:
    """A list of partitions that a client follows.

    epoch         of the next expected request
    by_id         whether its requests name topics by id
    is_evictable  whether it was used when it was older than EVICTION_MS
    """

    __slots__ = ("by_id", "created_ms", "epoch", "is_evictable", "last_used_ms", "partitions", "session_id")

    def __init__(self, session_id: int, partitions: dict[_Key, _Followed], by_id: bool, now: Now) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.by_id = by_id
        self.partitions = partitions
        self.created_ms = self.last_used_ms = now.mono_ms
        self.is_evictable = False

    def update(self, wanted: dict[_Key, Wanted], forgotten: Iterator[_Key]) -> None:
        """Apply the changes of a request. A partition that it names again keeps its place."""
        for key, partition in wanted.items():
            followed = self.partitions.get(key)
            if followed is None:
                self.partitions[key] = _Followed(partition)
            else:
                followed.wanted = followed.wanted._replace(asked=partition.asked)
        for key in forgotten:
            self.partitions.pop(key, None)

    def of(self, read: Read) -> _Followed:
        """Return the partition of the session that was read."""
        return self.partitions[_key(read.topic, read.topic_id, read.partition.partition_index, self.by_id)]


class Plan(NamedTuple):
    """The partitions that one request reads.

    error    of the whole request; nothing is read then
    session  of the request
    epoch    of that session until the request is answered
    opens    whether its response opens a session
    """

    wanted: list[Wanted]
    error: ErrorCode = ErrorCode.NONE
    session: FetchSession | None = None
    epoch: int = FINAL_EPOCH
    opens: bool = False


class FetchSessions:
    """All sessions of a broker, the least recently used first.

    limit  the most sessions, `max.incremental.fetch.session.cache.slots`
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_id: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def partition_count(self) -> int:
        """The number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._by_id.values())

    def topic_partitions(self, session_id: int) -> list[tuple[str, int]]:
        """Return the (topic, partition) pairs of a session; none when the session is unknown."""
        session = self._by_id.get(session_id)
        followed = [] if session is None else [partition.wanted for partition in session.partitions.values()]
        return [(wanted.topic, wanted.asked.partition) for wanted in followed]

    def plan(
        self,
        request: messages.FetchRequest,
        api_version: int,
        topic_name: Callable[[bytes], str | None],
        now: Now,
    ) -> Plan:
        """Return what a request reads, and advance the epoch of its session.

        topic_name  of an id, None for an unknown one
        """
        by_id = api_version >= TOPIC_IDS_SINCE
        requested = _wanted(request, by_id, topic_name)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._by_id.pop(request.session_id, None)
            return Plan(list(requested.values()), opens=request.session_epoch == INITIAL_EPOCH)
        session = self._by_id.get(request.session_id)
        if session is None:
            return Plan([], ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return Plan([], ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            return Plan([], ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(requested, _forgotten(request, by_id))
        if not session.partitions:
            del self._by_id[session.session_id]
            return Plan(list(requested.values()))
        self._touch(session, now)
        session.epoch = 1 if session.epoch == _MAX_INT else session.epoch + 1
        return Plan(_names_found(session, topic_name), session=session, epoch=session.epoch)

    def answer(self, plan: Plan, read: list[Read], api_version: int, now: Now) -> messages.FetchResponse:
        """Return the response for what was read of a plan; in a session, only what is new to its client."""
        session, session_id = plan.session, 0
        if session is not None:
            session_id = session.session_id
            if session.epoch != plan.epoch:  # the client has sent another request since
                return messages.FetchResponse(
                    error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session_id
                )
            read = _news(session, read)
        elif plan.opens:
            session_id = self._open(plan, read, api_version, now)
        return messages.FetchResponse(session_id=session_id, responses=_by_topic(read))

    def preview(self, plan: Plan, read: list[Read]) -> messages.FetchResponse:
        """Return a response of the size that `answer` would return, without effect on the session."""
        session = plan.session
        if session is not None:
            is_current = session.epoch == plan.epoch
            read = [result for result in read if is_current and session.of(result).has_news(result.partition)]
        return messages.FetchResponse(responses=_by_topic(read))

    def _open(self, plan: Plan, results: list[Read], api_version: int, now: Now) -> int:
        """Open a session with the partitions in the order of the response; return its id, 0 when there is no room."""
        if len(self._by_id) >= self._limit and not self._evict(len(results), now):
            return 0
        by_id = api_version >= TOPIC_IDS_SINCE
        wanted_by_key = {
            _key(wanted.topic, wanted.topic_id, wanted.asked.partition, by_id): wanted
            for wanted in plan.wanted
        }
        partitions = {}
        for topic, topic_id, answered in results:
            key = _key(topic, topic_id, answered.partition_index, by_id)
            followed = partitions[key] = _Followed(wanted_by_key[key])
            followed.takes_news(answered)
        session_id = 0
        while session_id == 0 or session_id in self._by_id:
            session_id = random.randrange(1, _MAX_INT)  # noqa: S311 - no secret
        self._by_id[session_id] = FetchSession(session_id, partitions, by_id, now)
        return session_id

    def _touch(self, session: FetchSession, now: Now) -> None:
        session.last_used_ms = now.mono_ms
        session.is_evictable = now.mono_ms - session.created_ms > EVICTION_MS
        self._by_id[session.session_id] = self._by_id.pop(session.session_id)

    def _evict(self, size: int, now: Now) -> bool:
        """Make room for a session of `size` partitions, if one may be evicted for it. Costs a look at each session."""
        if not self._by_id:
            return False
        oldest = next(iter(self._by_id.values()))
        if now.mono_ms - oldest.last_used_ms > EVICTION_MS:
            del self._by_id[oldest.session_id]
            return True
        evictable = [session for session in self._by_id.values() if session.is_evictable]
        if not evictable:
            return False
        least = min(evictable, key=lambda session: (len(session.partitions), session.session_id))
        if size <= len(least.partitions):
            return False
        del self._by_id[least.session_id]
        return True


def _key(topic: str, topic_id: bytes, index: int, by_id: bool) -> _Key:
    return (topic_id if by_id else topic), index


def _wanted(
    request: messages.FetchRequest, by_id: bool, topic_name: Callable[[bytes], str | None]
) -> dict[_Key, Wanted]:
    """Return the partitions of a request. The last entry for a partition counts, at the position of its first one."""
    partitions = {}
    for named in request.topics:
        name = (topic_name(named.topic_id) or "") if by_id else named.topic
        for fetch_partition in named.partitions:
            key = _key(name, named.topic_id, fetch_partition.partition, by_id)
            partitions[key] = Wanted(name, named.topic_id, fetch_partition)
    return partitions


def _forgotten(request: messages.FetchRequest, by_id: bool) -> Iterator[_Key]:
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            yield _key(forgotten.topic, forgotten.topic_id, index, by_id)


def _names_found(session: FetchSession, topic_name: Callable[[bytes], str | None]) -> list[Wanted]:
    """Return all partitions of a session. A topic whose name is known keeps it, also after its deletion."""
    for followed in session.partitions.values():
        if not followed.wanted.topic and (name := topic_name(followed.wanted.topic_id)):
            followed.wanted = followed.wanted._replace(topic=name)
    return [followed.wanted for followed in session.partitions.values()]


def _news(session: FetchSession, results: list[Read]) -> list[Read]:
    """Return what a session's client has to receive, and move those partitions to the end of the list."""
    news = []
    partitions = session.partitions
    for result in results:
        key = _key(result.topic, result.topic_id, result.partition.partition_index, session.by_id)
        if partitions[key].takes_news(result.partition):
            news.append(result)
            if result.partition.records:
                partitions[key] = partitions.pop(key)
    return news


def _by_topic(results: list[Read]) -> list[messages.FetchResponse.FetchableTopicResponse]:
    """Return partitions with their topics. Partitions of one topic that are not adjacent make two entries, as in Kafka.

    Where topics have ids, a named partition is still grouped with a nameless one of the same topic id.
    """
    topics: list[messages.FetchResponse.FetchableTopicResponse] = []
    last: str | bytes | None = None
    for topic, topic_id, partition in results:
        if (key := topic if topic_id == _NO_TOPIC_ID else topic_id) != last:
            last = key
            topics.append(messages.FetchResponse.FetchableTopicResponse(topic, topic_id, []))
        topics[-1].partitions.append(partition)
    return topics
