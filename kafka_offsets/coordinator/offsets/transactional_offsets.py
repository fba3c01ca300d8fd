"""Transactional offsets: offsets that are committed as part of a transaction (KIP-98, KIP-447).

They are records of the producer in the log of the group, and are pending until the marker of the transaction.
Source: OffsetMetadataManager.commitTransactionalOffset, ClassicGroup and ConsumerGroup.validateOffsetCommit of Kafka
4.3; KafkaApis.handleTxnOffsetCommitRequest.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.offsets.requests import first_error, is_too_long
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID, OffsetAndMetadata
from kafka_offsets.coordinator.state.result import (
    CoordinatorRecord,
    Reply,
    RequestContext,
    TransactionalResult,
)
from kafka_offsets.coordinator.state.shard_state import ShardState, TopicView
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages

LOADING_SINCE = 2
"""The first version whose clients know COORDINATOR_LOAD_IN_PROGRESS."""

_NO_EXPIRY = -1
_Partition = tuple[str, int]
_Known = Mapping[str, Set[int]]


def known_partitions(topics: TopicView, request: messages.TxnOffsetCommitRequest) -> _Known:
    """Return the existing topics of a request, and which of its partitions exist."""
    known: dict[str, set[int]] = {}
    for topic in request.topics:
        if count := topics.id_and_partition_count(topic.name)[1]:
            named = {partition.partition_index for partition in topic.partitions}
            known.setdefault(topic.name, set()).update(index for index in named if 0 <= index < count)
    return known


def commit(
    shard: ShardState,
    request: messages.TxnOffsetCommitRequest,
    known: _Known,
    context: RequestContext,
    now: Now,
) -> TransactionalResult:
    """Commit offsets in the open transaction of a producer; the caller has checked that it is open.

    known  the partitions that exist; the others are answered UNKNOWN_TOPIC_OR_PARTITION
    """
    producer = request.producer_id, request.producer_epoch
    error = _check_group(shard, request, known)
    if error:
        return TransactionalResult(*producer, replies=(Reply(context, answer(request, known, error)),))
    records: list[CoordinatorRecord] = []
    refused: dict[_Partition, ErrorCode] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            topic_partition = topic.name, partition.partition_index
            metadata = partition.committed_metadata or ""
            if partition.partition_index not in known.get(topic.name, ()):
                continue
            if is_too_long(metadata, shard.settings):
                refused[topic_partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            entry = OffsetAndMetadata(
                partition.committed_offset,
                partition.committed_leader_epoch,
                metadata,
                now.wall_ms,
                _NO_EXPIRY,
                NO_TOPIC_ID,
                -1,
            )
            records.append(stored.offset_record(request.group_id, *topic_partition, entry))
    shard.meters.offset_commits += len(records)
    response = answer(request, known, ErrorCode.NONE, refused)
    return TransactionalResult(*producer, records=records, replies=(Reply(context, response),))


def _check_group(shard: ShardState, request: messages.TxnOffsetCommitRequest, known: _Known) -> ErrorCode:
    """Decide whether the sender may commit for the group: as the member that it names, or without a member."""
    generation = request.generation_id
    group = shard.groups.get(request.group_id)
    if group is None:
        return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
    verdict = group.check_commit(request.member_id, request.group_instance_id, generation, None)
    if isinstance(verdict, ErrorCode):
        return verdict
    return first_error(
        verdict,
        (
            (shard.topics.id_and_partition_count(topic.name)[0], partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
            if partition.partition_index in known.get(topic.name, ())
            and not is_too_long(partition.committed_metadata, shard.settings)
        ),
    )


def answer(
    request: messages.TxnOffsetCommitRequest,
    known: _Known | None,
    error: ErrorCode,
    refused: dict[_Partition, ErrorCode] | None = None,
) -> messages.TxnOffsetCommitResponse:
    """Answer each partition: first the topics with missing partitions, then the others.

    A topic without partitions is answered if it does not exist.

    known    the partitions that exist, which get `error` or their error in `refused`; None for all
    Source: TxnOffsetCommitResponse.Builder, into which the coordinator's answer is merged.
    """
    response = messages.TxnOffsetCommitResponse
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    merged: dict[str, list[messages.TxnOffsetCommitResponse.Partition]] = {}
    existing_topics = []
    for topic in request.topics:
        missing, existing = [], []
        for partition in topic.partitions:
            index = partition.partition_index
            topic_partition = topic.name, index
            if known is not None and index not in known.get(topic.name, ()):
                missing.append(response.Partition(index, unknown))
            else:
                existing.append(response.Partition(index, (refused or {}).get(topic_partition, error)))
        if missing or (known is not None and topic.name not in known):
            merged.setdefault(topic.name, []).extend(missing)
        if existing:
            existing_topics.append((topic.name, existing))
    if not merged:
        return response(topics=[response.Topic(*item) for item in existing_topics])
    for name, existing in existing_topics:
        merged.setdefault(name, []).extend(existing)
    return response(topics=[response.Topic(*item) for item in merged.items()])
