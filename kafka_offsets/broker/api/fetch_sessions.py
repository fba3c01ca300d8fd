"""Which partitions a Fetch reads, and which of them its answer names: incremental fetch sessions (KIP-227).

A client with many partitions opens a session by a full request, of which the broker keeps the list; its later requests
name what changed, and are answered with partitions that have news. The session's epoch rises with each request, so
that one that was lost or sent twice is noticed. Partitions that were sent records go to the end of the list: where a
limit cuts an answer short, the others are first in the next one.

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
"""From this version of Fetch on topics are named by id (KIP-516)."""

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
"""Session epochs of a request that opens a session, and of one that wants none; both close the one they name."""

EVICTION_MS = 120_000
"""A session unused for longer gives way to any new one, one older than that to a larger one."""

_MAX_INT = 2**31 - 1

_Key = tuple[str | bytes, int]
_Partition: TypeAlias = "messages.FetchResponse.PartitionData"


class Wanted(NamedTuple):
    """A partition that is to be read; the name of its topic is "" where nobody knows the id."""

    topic: str
    topic_id: bytes
    asked: messages.FetchRequest.FetchPartition


class Read(NamedTuple):
    """What was read of a partition that was wanted."""

    topic: str
    topic_id: bytes
    partition: _Partition


class _Followed:
    """A partition of a session, and what its client was told last: -1 for nothing, or nothing that counts."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.high_watermark = self.log_start_offset = -1

    def takes_news(self, read: _Partition) -> bool:
        """Take note of what was read; return whether the client is to be told."""
        has_news = bool(
            read.records
            or read.error_code
            or read.diverging_epoch.end_offset >= 0
            or self.high_watermark != read.high_watermark
            or self.log_start_offset != read.log_start_offset
        )
        self.high_watermark = -1 if read.error_code else read.high_watermark  # named when the error is over
        self.log_start_offset = read.log_start_offset
        return has_news


class FetchSession:
    """What a client follows.

    epoch         of the request that is expected next
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
        """Take over what a request changes; a partition that it names anew keeps its place."""
        for key, each in wanted.items():
            followed = self.partitions.get(key)
            if followed is None:
                self.partitions[key] = _Followed(each)
            else:
                followed.wanted = followed.wanted._replace(asked=each.asked)
        for key in forgotten:
            self.partitions.pop(key, None)


class Plan(NamedTuple):
    """What one request reads.

    error    of the whole request; nothing is read then
    session  that it belongs to
    epoch    which that session has while the request is not answered
    opens    whether its answer opens a session
    """

    wanted: list[Wanted]
    error: ErrorCode = ErrorCode.NONE
    session: FetchSession | None = None
    epoch: int = FINAL_EPOCH
    opens: bool = False


class FetchSessions:
    """All sessions of a broker, those unused for longest first.

    limit  how many there may be, `max.incremental.fetch.session.cache.slots`
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_id: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def partition_count(self) -> int:
        """How many partitions all sessions follow together."""
        return sum(len(session.partitions) for session in self._by_id.values())

    def places(self, session_id: int) -> list[tuple[str, int]]:
        """Return the (topic, partition) that a session follows; none when it is not known."""
        session = self._by_id.get(session_id)
        followed = [] if session is None else [each.wanted for each in session.partitions.values()]
        return [(wanted.topic, wanted.asked.partition) for wanted in followed]

    def plan(
        self,
        request: messages.FetchRequest,
        api_version: int,
        topic_name: Callable[[bytes], str | None],
        now: Now,
    ) -> Plan:
        """Return what a request reads; the session that it names moves on.

        topic_name  of an id, None for an unknown one
        """
        by_id = api_version >= TOPIC_IDS_SINCE
        wanted = _wanted(request, by_id, topic_name)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._by_id.pop(request.session_id, None)
            return Plan(list(wanted.values()), opens=request.session_epoch == INITIAL_EPOCH)
        session = self._by_id.get(request.session_id)
        if session is None:
            return Plan([], ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return Plan([], ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            return Plan([], ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(wanted, _forgotten(request, by_id))
        if not session.partitions:
            del self._by_id[session.session_id]
            return Plan(list(wanted.values()))
        self._touch(session, now)
        session.epoch = 1 if session.epoch == _MAX_INT else session.epoch + 1
        return Plan(_names_found(session, topic_name), session=session, epoch=session.epoch)

    def answer(self, plan: Plan, read: list[Read], api_version: int, now: Now) -> messages.FetchResponse:
        """Return the answer for what was read of a plan; of a session, what is news to its client."""
        session, session_id = plan.session, 0
        if session is not None:
            session_id = session.session_id
            if session.epoch != plan.epoch:  # the client has not waited for this answer
                return messages.FetchResponse(
                    error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session_id
                )
            read = _news(session, read)
        elif plan.opens:
            session_id = self._open(plan, read, api_version, now)
        return messages.FetchResponse(session_id=session_id, responses=_by_topic(read))

    def _open(self, plan: Plan, read: list[Read], api_version: int, now: Now) -> int:
        """Open a session with the partitions in the order of the answer; return its id, 0 when there is no room."""
        if len(self._by_id) >= self._limit and not self._evict(len(read), now):
            return 0
        by_id = api_version >= TOPIC_IDS_SINCE
        asked = {_key(each.topic, each.topic_id, each.asked.partition, by_id): each for each in plan.wanted}
        partitions = {}
        for topic, topic_id, answered in read:
            key = _key(topic, topic_id, answered.partition_index, by_id)
            followed = partitions[key] = _Followed(asked[key])
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
        """Make room for a session of `size` partitions, if one may go for it. Costs a look at each session."""
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
    """Return the partitions that a request names; of one named twice the latter counts, in the former's place."""
    wanted = {}
    for named in request.topics:
        name = (topic_name(named.topic_id) or "") if by_id else named.topic
        for asked in named.partitions:
            key = _key(name, named.topic_id, asked.partition, by_id)
            wanted[key] = Wanted(name, named.topic_id, asked)
    return wanted


def _forgotten(request: messages.FetchRequest, by_id: bool) -> Iterator[_Key]:
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            yield _key(forgotten.topic, forgotten.topic_id, index, by_id)


def _names_found(session: FetchSession, topic_name: Callable[[bytes], str | None]) -> list[Wanted]:
    """Return all that a session follows. A topic that is known once keeps its name, also when it is deleted."""
    for followed in session.partitions.values():
        if not followed.wanted.topic and (name := topic_name(followed.wanted.topic_id)):
            followed.wanted = followed.wanted._replace(topic=name)
    return [followed.wanted for followed in session.partitions.values()]


def _news(session: FetchSession, read: list[Read]) -> list[Read]:
    """Return what a session's client is to be told; what it is told goes to the end of its list."""
    news = []
    partitions = session.partitions
    for each in read:
        key = _key(each.topic, each.topic_id, each.partition.partition_index, session.by_id)
        if partitions[key].takes_news(each.partition):
            news.append(each)
            if each.partition.records:
                partitions[key] = partitions.pop(key)
    return news


def _by_topic(read: list[Read]) -> list[messages.FetchResponse.FetchableTopicResponse]:
    """Return partitions with their topics, as Kafka: those of one topic that are not neighbours make two entries.

    Where topics have ids, a partition whose topic had a name still stands with one of that id without a name.
    """
    topics: list[messages.FetchResponse.FetchableTopicResponse] = []
    last: str | bytes | None = None
    for topic, topic_id, partition in read:
        if (key := topic_id if any(topic_id) else topic) != last:
            last = key
            topics.append(messages.FetchResponse.FetchableTopicResponse(topic, topic_id, []))
        topics[-1].partitions.append(partition)
    return topics
