"""Fetch: batches out of logs, at once or when enough of them have come.

A request that asks for more than there is waits: it is parked at each of its partitions and costs nothing until one of
them grows, its deadline comes or its connection closes. When a turn ends, `wake` tells the fetches parked at the
partitions that grew; one that has waited for enough reads again and is answered.

Sessions (KIP-227) are not kept: a full fetch is answered with session id 0, upon which clients go on with full ones.
What is answered, and when, was asked of Kafka 4.3.1: an offset out of range or a wrong leader epoch is answered at
once, whereas a topic that is not there does not keep the others from waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.broker.partitions import Partition, Topic
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages

if TYPE_CHECKING:
    from kafka_offsets.broker.core import BrokerCore
    from kafka_offsets.broker.deadlines import Deadline

    _Missing = tuple[messages.FetchRequest.FetchTopic, list[messages.FetchResponse.PartitionData]]

TOPIC_IDS_SINCE = 13
"""From this version of Fetch on topics are named by id (KIP-516)."""

_ERROR_SINCE = 7
"""From this version on an answer has an error of its own."""

_STORAGE_ERROR_SINCE = 6
"""Older clients do not know KAFKA_STORAGE_ERROR and hear NOT_LEADER_OR_FOLLOWER, upon which they ask again."""

_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1

logger = logging.getLogger(__name__)


class ParkedFetch:
    """A request that waits.

    missing     bytes that its partitions must grow by
    partitions  where it is parked
    """

    __slots__ = ("context", "deadline", "missing", "partitions", "request")

    def __init__(
        self,
        request: messages.FetchRequest,
        context: RequestContext,
        partitions: list[Partition],
        missing: int,
    ) -> None:
        self.request = request
        self.context = context
        self.partitions = partitions
        self.missing = missing
        self.deadline: Deadline | None = None


class _Reading(NamedTuple):
    """What a request reads now.

    size      bytes of all records
    watched   partitions read without an error: those that may grow
    is_final  an error that waiting does not mend
    """

    response: messages.FetchResponse
    size: int
    watched: list[Partition]
    is_final: bool


def fetch(
    core: BrokerCore, request: messages.FetchRequest, context: RequestContext, now: Now
) -> messages.FetchResponse | None:
    """Answer with what there is, or park the request until there is enough.

    INVALID_FETCH_SESSION_EPOCH never occurs: any session that a request names is FETCH_SESSION_ID_NOT_FOUND.
    """
    if request.session_epoch > 0:
        return messages.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    if request.isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        return fail_fetch(request, ErrorCode.UNKNOWN_SERVER_ERROR, context.api_version)
    reading = _read(core, request, context.api_version)
    if (
        reading.is_final
        or not reading.watched
        or reading.size >= request.min_bytes
        or request.max_wait_ms <= 0
    ):
        return reading.response
    parked = ParkedFetch(request, context, reading.watched, request.min_bytes - reading.size)
    _park(core, parked, now)
    return None


def _park(core: BrokerCore, parked: ParkedFetch, now: Now) -> None:
    for partition in parked.partitions:
        appended = partition.log.appended_bytes
        if not partition.parked:
            partition.told_bytes = appended
        # `wake` is yet to count what others appended in this turn, and this request has already read it.
        parked.missing += appended - partition.told_bytes
        partition.parked[parked] = None
    core.topics.waiting.setdefault(parked.context.connection, {})[parked] = None
    parked.deadline = core.at(now.mono_ms + parked.request.max_wait_ms, lambda _: _answer(core, parked))


def wake(core: BrokerCore, partitions: Iterable[Partition], now: Now) -> None:
    """Answer the fetches for which there is now enough in partitions that may have grown."""
    for partition in partitions:
        if not partition.parked:
            continue
        appended = partition.log.appended_bytes
        grown, partition.told_bytes = appended - partition.told_bytes, appended
        if not grown:
            continue
        for parked in tuple(partition.parked):
            parked.missing -= grown
            if parked.missing <= 0:
                _answer(core, parked)


def topic_deleted(core: BrokerCore, name: str) -> None:
    """Answer every fetch that waits for a topic that is gone. Costs a look at each fetch that waits."""
    gone = [
        parked
        for waiting in core.topics.waiting.values()
        for parked in waiting
        if any(partition.topic == name for partition in parked.partitions)
    ]
    for parked in gone:
        _answer(core, parked)


def cancel(core: BrokerCore, connection: object) -> None:
    """Forget the fetches of a connection that has closed."""
    for parked in core.topics.waiting.pop(connection, {}):
        _unpark(parked)


def _answer(core: BrokerCore, parked: ParkedFetch) -> None:
    connection = parked.context.connection
    waiting = core.topics.waiting.get(connection, {})
    waiting.pop(parked, None)
    if not waiting:
        core.topics.waiting.pop(connection, None)
    _unpark(parked)
    reading = _read(core, parked.request, parked.context.api_version)
    core.reply(parked.context, reading.response)


def _unpark(parked: ParkedFetch) -> None:
    for partition in parked.partitions:
        partition.parked.pop(parked, None)
    if parked.deadline is not None:
        parked.deadline.cancel()


class _Reader:
    """Reads the partitions of one request in their order, within its limits.

    left          bytes that may still be returned
    at_least_one  no records have been found yet: the first batch may be larger than any limit (KIP-74)
    """

    __slots__ = ("aborted", "at_least_one", "core", "is_final", "left", "size", "version", "watched")

    def __init__(self, core: BrokerCore, request: messages.FetchRequest, version: int) -> None:
        self.core = core
        self.version = version
        self.left = min(request.max_bytes, core.config.fetch_max_bytes)
        self.at_least_one = True
        self.aborted = request.isolation_level == _READ_COMMITTED
        self.size = 0
        self.watched: list[Partition] = []
        self.is_final = False

    def read(
        self, topic: Topic, asked: messages.FetchRequest.FetchPartition
    ) -> messages.FetchResponse.PartitionData:
        """Read one partition, or say why not."""
        try:
            partition = self.core.topics.partition_of(topic, asked.partition)
            if partition is None:
                return _unknown(asked.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return self._read_log(partition, asked)
        except StorageError as error:
            logger.error("Fetch from %s-%d: %s", topic.name, asked.partition, error)
            return self._refusal(asked, _storage_error(self.version))

    def _read_log(
        self, partition: Partition, asked: messages.FetchRequest.FetchPartition
    ) -> messages.FetchResponse.PartitionData:
        log = partition.log
        epoch = asked.current_leader_epoch
        if epoch >= 0 and epoch != partition.leader_epoch:
            is_old = epoch < partition.leader_epoch
            return self._refusal(
                asked, ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        start, end = log.log_start_offset, log.high_watermark
        if not start <= asked.fetch_offset <= end:
            return self._refusal(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
        records = b""
        if asked.fetch_offset < end and (self.left > 0 or self.at_least_one):
            limit = max(min(asked.partition_max_bytes, self.left), 0)
            records = log.read(asked.fetch_offset, limit, at_least_one=self.at_least_one)
            if records:
                self.at_least_one = False
                self.size += len(records)
                self.left -= len(records)
        self.watched.append(partition)
        return messages.FetchResponse.PartitionData(
            partition_index=partition.index,
            error_code=0,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=start,
            aborted_transactions=[] if self.aborted else None,
            records=records,
        )

    def _refusal(
        self, asked: messages.FetchRequest.FetchPartition, error: ErrorCode
    ) -> messages.FetchResponse.PartitionData:
        """Kafka gives no offsets beside an error: a client that needs them asks ListOffsets."""
        self.is_final = True
        refusal = _unknown(asked.partition, error)
        if not self.aborted:
            refusal.aborted_transactions = None
        return refusal


def _read(core: BrokerCore, request: messages.FetchRequest, version: int) -> _Reading:
    reader = _Reader(core, request, version)
    by_id = version >= TOPIC_IDS_SINCE
    response = messages.FetchResponse
    topics = core.topics
    responses: list[messages.FetchResponse.FetchableTopicResponse] = []
    without_name: list[_Missing] = []
    missing: list[_Missing] = []
    for named in request.topics:
        topic = topics.by_id(named.topic_id) if by_id else topics.get(named.topic)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers = [_unknown(asked.partition, error) for asked in named.partitions]
            (without_name if by_id else missing).append((named, answers))
            continue
        answers = [reader.read(topic, asked) for asked in named.partitions]
        unknown = [a for a in answers if a.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        if unknown:
            missing.append((named, unknown))
            answers = [a for a in answers if a.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        if answers:
            responses.append(response.FetchableTopicResponse(named.topic, named.topic_id, answers))
    for named, answers in without_name + missing:
        _add_missing(responses, named, answers)
    return _Reading(response(responses=responses), reader.size, reader.watched, reader.is_final)


def _add_missing(
    responses: list[messages.FetchResponse.FetchableTopicResponse],
    named: messages.FetchRequest.FetchTopic,
    answers: list[messages.FetchResponse.PartitionData],
) -> None:
    """Tell last what does not exist, as Kafka does: with its topic where that is the last one, else by itself."""
    last = responses[-1] if responses else None
    if last is not None and last.topic == named.topic and last.topic_id == named.topic_id:
        last.partitions += answers
    else:
        topic = messages.FetchResponse.FetchableTopicResponse(named.topic, named.topic_id, answers)
        responses.append(topic)


def _unknown(index: int, error: ErrorCode) -> messages.FetchResponse.PartitionData:
    return messages.FetchResponse.PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[],
        records=b"",
    )


def _storage_error(version: int) -> ErrorCode:
    known = version >= _STORAGE_ERROR_SINCE
    return ErrorCode.KAFKA_STORAGE_ERROR if known else ErrorCode.NOT_LEADER_OR_FOLLOWER


def fail_fetch(request: messages.FetchRequest, error: ErrorCode, api_version: int) -> messages.FetchResponse:
    """Answer the request and every partition of it with `error`."""
    if error is ErrorCode.KAFKA_STORAGE_ERROR:
        error = _storage_error(api_version)
    response = messages.FetchResponse
    return response(
        error_code=error if api_version >= _ERROR_SINCE else 0,
        responses=[
            response.FetchableTopicResponse(
                named.topic,
                named.topic_id,
                [_unknown(asked.partition, error) for asked in named.partitions],
            )
            for named in request.topics
        ],
    )
