"""OffsetDelete: the offsets of topics that a group no longer reads (KIP-496).

What a request that is refused as a whole gets, what faults select in it and where a cluster serves it follow from its
schema and its row.
Source: KafkaApis.handleOffsetDeleteRequest and OffsetMetadataManager.deleteOffsets of Kafka 4.3.
"""

from __future__ import annotations

from kafka_offsets.clock import Now
from kafka_offsets.coordinator import stored
from kafka_offsets.coordinator.offsets.requests import takes_unknown
from kafka_offsets.coordinator.result import CoordinatorRecord, RequestContext, Result, reply_with
from kafka_offsets.coordinator.state import ShardState
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse

_NONE = ErrorCode.NONE


def delete(
    shard: ShardState, request: messages.OffsetDeleteRequest, context: RequestContext, now: Now
) -> Result:
    """Delete offsets of a group, unless it is subscribed to their topic (KIP-496).

    An error of the group is answered at the top level, whatever the partitions.
    """
    response = messages.OffsetDeleteResponse
    error = _check_deletion(shard, request.group_id)
    if error is not _NONE:
        return reply_with(context, refuse(request, error, context.api_version))
    merged: dict[str, list[messages.OffsetDeleteResponse.Partition]] = {}
    rest: list[tuple[str, list[messages.OffsetDeleteResponse.Partition]]] = []
    records: list[CoordinatorRecord] = []
    for topic in request.topics:
        _, count = shard.topics.id_and_partition_count(topic.name)
        known, unknown, missing = [], [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in topic.partitions:
            index = partition.partition_index
            if 0 <= index < count or takes_unknown(shard, index, missing):
                known.append(index)
            else:
                unknown.append(response.Partition(index, missing))
        if unknown or (not count and not known):
            merged.setdefault(topic.name, []).extend(unknown)
        if known:
            rest.append((topic.name, _delete(shard, request.group_id, topic.name, known, records)))
    shard.meters.offset_deletions += len(records)
    if not merged:
        return reply_with(context, response(topics=[response.Topic(*answered) for answered in rest]), records)
    for name, answers in rest:
        merged.setdefault(name, []).extend(answers)
    return reply_with(context, response(topics=[response.Topic(*item) for item in merged.items()]), records)


def _check_deletion(shard: ShardState, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return group.check_offset_deletion()


def _delete(
    shard: ShardState, group_id: str, topic: str, indexes: list[int], records: list[CoordinatorRecord]
) -> list[messages.OffsetDeleteResponse.Partition]:
    """Delete offsets of one topic: add their tombstones to `records`, return the partition responses."""
    answered = messages.OffsetDeleteResponse.Partition
    if shard.groups[group_id].is_subscribed_to(topic):
        return [answered(index, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC) for index in indexes]
    for index in indexes:
        if shard.offsets.get(group_id, topic, index) is not None or shard.has_pending_offset(
            group_id, topic, index
        ):
            records.append(stored.offset_tombstone(group_id, topic, index))
    return [answered(index, _NONE) for index in indexes]
