"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a log begins and ends, and deleting its beginning.

The responses were recorded from Kafka 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from kafka_offsets.broker.context.awaited_logs import Awaiting, TopicAndIndex, awaits_logs
from kafka_offsets.broker.context.pending import Deleted
from kafka_offsets.broker.partition.partitions import LogLoadingError, Partition
from kafka_offsets.broker.wire.api import LATER, Later
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse
from kafka_offsets.replication.leader import LeaderReplica
from kafka_offsets.storage.cleaner.memory_cleaning import free_deleted

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
"""Timestamps with a special meaning. The last three are about tiered storage (KIP-405, KIP-1005), which this broker
does not have: the earliest local offset is the earliest one, the other two do not exist."""

_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version of ListOffsets that may request each."""

_EPOCH_SINCE = 4
"""The first version of ListOffsets whose response has a leader epoch."""

_OFFSET_NOT_AVAILABLE_SINCE = 5
"""The first version of ListOffsets whose clients know OFFSET_NOT_AVAILABLE."""

HIGH_WATERMARK = -1
"""The offset that requests DeleteRecords to delete all deletable records."""

_NO_EPOCH = -1
_DeletedRecords: TypeAlias = "dict[Partition, messages.DeleteRecordsResponse.DeleteRecordsPartitionResult]"
_Answer = TypeVar("_Answer")


class _Found(NamedTuple):
    """An offset in a ListOffsets response; -1 where there is none."""

    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


_NOTHING = _Found()


def _partitions_by_name(
    broker: Context,
    request: messages.ListOffsetsRequest | messages.DeleteRecordsRequest,
    context: RequestContext,
) -> list[TopicAndIndex]:
    get = broker.topics.get
    return [
        (get(named.name), partition.partition_index)
        for named in request.topics
        for partition in named.partitions
    ]


def _reads_committed(request: messages.ListOffsetsRequest, version: int) -> bool:
    return request.isolation_level == 1


@awaits_logs(Awaiting(_partitions_by_name, _reads_committed))
def list_offsets(
    broker: Context, request: messages.ListOffsetsRequest, context: RequestContext, now: Now
) -> messages.ListOffsetsResponse:
    """Answer an offset for each requested timestamp.

    Isolation level 1 sees nothing after the last stable offset. A partition that is named twice is refused. A topic
    without partitions is not in the response, and one of several entries is in it once.
    """
    version = context.api_version
    if request.isolation_level not in (0, 1):
        return refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, version)
    names = [(t.name, partition.partition_index) for t in request.topics for partition in t.partitions]
    repeated = len(set(names)) < len(names) and {name for name, times in Counter(names).items() if times > 1}
    response = messages.ListOffsetsResponse
    answered = set()
    by_topic: dict[str, list[messages.ListOffsetsResponse.ListOffsetsPartitionResponse]] = {}
    for named in request.topics:
        responses = by_topic.setdefault(named.name, [])
        for partition in named.partitions:
            key = named.name, partition.partition_index
            if not repeated or key not in repeated:
                responses.append(_list_one(broker, named.name, partition, version, request))
            elif key not in answered:
                answered.add(key)
                responses.append(_list_answer(partition.partition_index, ErrorCode.INVALID_REQUEST))
    return response(topics=[response.ListOffsetsTopicResponse(*item) for item in by_topic.items() if item[1]])


class SameEnd(NamedTuple):
    """The condition of a kept response: the log of its partition has the same end."""

    partition: Partition
    log_end_offset: int
    leader_epoch: int

    def holds(self) -> bool:
        """Whether no record was appended since, and no leader epoch has begun."""
        partition, log_end_offset, leader_epoch = self
        return partition.log.log_end_offset == log_end_offset and partition.leader_epoch == leader_epoch


def unchanged_end(
    broker: Context,
    request: messages.ListOffsetsRequest,
    api_version: int,
    response: messages.ListOffsetsResponse,
) -> SameEnd | None:
    """Return the condition under which a response may be repeated.

    None unless it is the latest offset of one partition that has no other replicas, whatever is in a transaction.
    """
    topics = request.topics
    if broker.replicas is not None or request.isolation_level or len(topics) != 1:
        return None
    partitions = topics[0].partitions
    if len(partitions) != 1 or partitions[0].timestamp != LATEST:
        return None
    if response.topics[0].partitions[0].error_code:
        return None
    partition = broker.topics.partition(topics[0].name, partitions[0].partition_index)
    assert partition is not None, "it was answered without an error"
    return SameEnd(partition, partition.log.log_end_offset, partition.leader_epoch)


def _list_one(
    broker: Context,
    topic: str,
    requested: messages.ListOffsetsRequest.ListOffsetsPartition,
    version: int,
    request: messages.ListOffsetsRequest,
) -> messages.ListOffsetsResponse.ListOffsetsPartitionResponse:
    """Return the offset for the requested timestamp, or why it is not known."""
    index, timestamp = requested.partition_index, requested.timestamp
    if timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
        return _list_answer(index, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = broker.topics.partition(topic, index)
        if partition is None:
            return _list_answer(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        is_follower = request.replica_id >= 0
        error, offset = _epoch_error(requested.current_leader_epoch, partition), _NOTHING
        if not error:
            offset = _find(partition, timestamp, request.isolation_level, is_follower)
            if not is_follower and _is_not_available(partition, timestamp, offset):
                is_known = version >= _OFFSET_NOT_AVAILABLE_SINCE
                error = ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE
                offset = _NOTHING
        return _list_answer(
            index, error, offset if version >= _EPOCH_SINCE else offset._replace(leader_epoch=-1)
        )
    except StorageError as failure:
        return _list_answer(index, _partition_error(broker, topic, index, failure))


def _list_answer(
    index: int, error: ErrorCode, offset: _Found = _NOTHING
) -> messages.ListOffsetsResponse.ListOffsetsPartitionResponse:
    return messages.ListOffsetsResponse.ListOffsetsPartitionResponse(index, error, *offset)


def _find(partition: Partition, timestamp: int, isolation_level: int, is_follower: bool) -> _Found:
    """Find the offset for a timestamp. No readable record that late is no error: the response is then empty."""
    log = partition.log
    if is_follower:
        end = log.log_end_offset
    else:
        end = partition.last_stable_offset if isolation_level else log.high_watermark
    if timestamp == LATEST:
        return _Found(-1, end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _Found(-1, log.log_start_offset, log.epoch_at(log.log_start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    entry = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if entry is None or entry[1] >= end:
        return _NOTHING
    # If the log start has passed the record, use the epoch of the log start: there is no earlier one.
    return _Found(*entry, log.epoch_at(max(entry[1], log.log_start_offset)))


def _is_not_available(partition: Partition, timestamp: int, offset: _Found) -> bool:
    """Whether an offset depends on a high watermark that is lower than the last leader's may have been (KIP-207)."""
    replica = partition.replica
    if (
        replica is None
        or not isinstance(replica, LeaderReplica)
        or replica.high_watermark >= replica.epoch_start_offset
    ):
        return False
    return timestamp == LATEST or (offset is _NOTHING and (timestamp >= 0 or timestamp == MAX_TIMESTAMP))


def _epoch_error(current_leader_epoch: int, partition: Partition) -> ErrorCode:
    """Compare the client's leader epoch with the current one; -1 when the client gives none (KIP-320)."""
    if current_leader_epoch in (_NO_EPOCH, partition.leader_epoch):
        return ErrorCode.NONE
    if current_leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def _at_partition(
    broker: Context,
    topic: str,
    index: int,
    decide: Callable[[Partition], _Answer],
    refused: Callable[[ErrorCode], _Answer],
) -> _Answer:
    try:
        partition = broker.topics.partition(topic, index)
        if partition is None:
            return refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return decide(partition)
    except StorageError as failure:
        return refused(_partition_error(broker, topic, index, failure))


def _partition_error(broker: Context, topic: str, index: int, failure: StorageError) -> ErrorCode:
    """Return why a partition cannot be read now; a fault of the disk is also logged."""
    if isinstance(failure, LogLoadingError):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.topics.report(topic, index, failure)
    return ErrorCode.KAFKA_STORAGE_ERROR


def _partitions_of_epochs(
    broker: Context, request: messages.OffsetForLeaderEpochRequest, context: RequestContext
) -> list[TopicAndIndex]:
    get = broker.topics.get
    return [
        (get(named.topic), partition.partition) for named in request.topics for partition in named.partitions
    ]


@awaits_logs(Awaiting(_partitions_of_epochs, lambda request, version: False))
def offset_for_leader_epoch(
    broker: Context, request: messages.OffsetForLeaderEpochRequest, context: RequestContext, now: Now
) -> messages.OffsetForLeaderEpochResponse:
    """Answer the end offset of a leader epoch: -1 for an unknown one (KIP-101, KIP-320)."""
    response = messages.OffsetForLeaderEpochResponse
    topics = []
    for named in request.topics:
        responses = [_end_of_epoch(broker, named.topic, partition) for partition in named.partitions]
        topics.append(response.OffsetForLeaderTopicResult(named.topic, responses))
    return response(topics=topics)


def _end_of_epoch(
    broker: Context, topic: str, requested: messages.OffsetForLeaderEpochRequest.OffsetForLeaderPartition
) -> messages.OffsetForLeaderEpochResponse.EpochEndOffset:
    response = messages.OffsetForLeaderEpochResponse.EpochEndOffset

    def refused(error: ErrorCode) -> messages.OffsetForLeaderEpochResponse.EpochEndOffset:
        return response(error, requested.partition, -1, -1)

    def find(partition: Partition) -> messages.OffsetForLeaderEpochResponse.EpochEndOffset:
        error = _epoch_error(requested.current_leader_epoch, partition)
        if error:
            return refused(error)
        return response(0, requested.partition, *partition.log.end_offset_for_epoch(requested.leader_epoch))

    return _at_partition(broker, topic, requested.partition, find, refused)


@awaits_logs(Awaiting(_partitions_by_name, lambda request, version: True))
def delete_records(
    broker: Context, request: messages.DeleteRecordsRequest, context: RequestContext, now: Now
) -> messages.DeleteRecordsResponse | Later:
    """Move log start offsets up, and store them before answering (KIP-107).

    Answers the new log start offset, in a cluster when every live replica begins there.
    The epochs and sequence numbers of idempotent producers are kept. If a partition
    is named twice, the last offset counts.
    """
    response = messages.DeleteRecordsResponse
    deleted: _DeletedRecords = {}
    last: dict[str, dict[int, messages.DeleteRecordsRequest.DeleteRecordsPartition]] = {}
    for named in request.topics:
        for requested in named.partitions:
            last.setdefault(named.name, {})[requested.partition_index] = requested
    topics = [
        response.DeleteRecordsTopicResult(
            name, [_delete_one(broker, name, requested, deleted) for requested in by_index.values()]
        )
        for name, by_index in last.items()
    ]
    message = response(topics=topics)
    if broker.replicas is None or not deleted:
        return message

    def ended(outcomes: Mapping[Partition, Deleted]) -> None:
        for partition, outcome in outcomes.items():
            deleted[partition].error_code, deleted[partition].low_watermark = outcome
        broker.responses.respond(context, message)

    starts = {partition: result.low_watermark for partition, result in deleted.items()}
    broker.replicas.deletions.wait(starts, request.timeout_ms, ended)
    return LATER


def _delete_one(
    broker: Context,
    topic: str,
    requested: messages.DeleteRecordsRequest.DeleteRecordsPartition,
    deleted: _DeletedRecords,
) -> messages.DeleteRecordsResponse.DeleteRecordsPartitionResult:
    response = messages.DeleteRecordsResponse.DeleteRecordsPartitionResult
    index = requested.partition_index

    def delete(partition: Partition) -> messages.DeleteRecordsResponse.DeleteRecordsPartitionResult:
        """Delete the records of one partition, and add it to `deleted`."""
        error = _delete_before(broker, partition, requested.offset)
        result = response(index, -1 if error else partition.log.log_start_offset, error)
        if not error:
            deleted[partition] = result
        return result

    return _at_partition(broker, topic, index, delete, lambda error: response(index, -1, error))


def _delete_before(broker: Context, partition: Partition, offset: int) -> ErrorCode:
    topic = broker.topics.get(partition.topic)
    assert topic is not None
    if topic.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if "delete" not in topic.config.cleanup_policy:
        return ErrorCode.POLICY_VIOLATION
    log = partition.log
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    if not 0 <= offset <= log.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if offset > log.log_start_offset:
        partition.delete_records_before(offset)
        free_deleted(log)
        broker.appends.record_deletion(partition)
        broker.topics.directory.checkpoint_log_starts()
    return ErrorCode.NONE
