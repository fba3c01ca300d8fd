"""OffsetDelete: the offsets of topics that a group no longer reads (KIP-496).

What a request that is refused as a whole gets, what faults select in it and where a cluster serves it follow from its
schema and its row.
A request of 24 MB may name six million partitions: they stay columns, as one object each would block all clients for
ten seconds. Source: KafkaApis.handleOffsetDeleteRequest and OffsetMetadataManager.deleteOffsets of Kafka 4.3.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, cast, final

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.result import CoordinatorRecord, RequestContext, Result, reply_with
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.plain_rows import FEWEST, Numbers, PlainRows, Rows, filled_rows
from kafka_offsets.protocol.mirroring.refusals import refuse

_NONE = ErrorCode.NONE
_INDEX, _INDEX_BYTES = "partition_index", 4
_ERROR, _ERROR_BYTES = "error_code", 2
_ANY_PARTITION = 1 << 31

_Run = tuple[Sequence[int], ErrorCode]
"""Partitions with the same error code."""


@final
class _AnsweredRows(Rows):
    """The partitions of a topic in the response, as runs: one request may name millions."""

    __slots__ = ("_runs",)

    def __init__(self, runs: list[_Run]) -> None:
        super().__init__()
        self._runs = runs

    def mirrored(self, row: bytes, places: dict[str, int]) -> bytearray:
        """Return copies of a row with fields of the elements, as in `Rows`."""
        rows, at = bytearray(), places[_ERROR]
        for partitions, error in self._runs:
            code = error.to_bytes(_ERROR_BYTES, "big", signed=True)
            indexes_in_frame = array("i", partitions)
            if sys.byteorder == "little":
                indexes_in_frame.byteswap()
            indexes = Numbers(indexes_in_frame.tobytes(), 0, _INDEX_BYTES, _INDEX_BYTES, places[_INDEX])
            rows += filled_rows(row[:at] + code + row[at + _ERROR_BYTES :], len(partitions), [indexes])
        return rows

    def _made(self) -> list[Any]:
        return _elements(self._runs)

    def __len__(self) -> int:
        return sum(len(partitions) for partitions, _ in self._runs)


def delete(
    shard: ShardState, request: messages.OffsetDeleteRequest, context: RequestContext, now: Now
) -> Result:
    """Delete offsets of a group, unless it is subscribed to their topic (KIP-496).

    An error of the group is answered at the top level, whatever the partitions.
    """
    error = _check_deletion(shard, request.group_id)
    if error is not _NONE:
        return reply_with(context, refuse(request, error, context.api_version))
    merged: dict[str, list[_Run]] = {}
    existing_runs: list[tuple[str, _Run]] = []
    records: list[CoordinatorRecord] = []
    for topic in request.topics:
        _, count = shard.topics.id_and_partition_count(topic.name)
        end = _ANY_PARTITION if shard.settings.offsets_commit_unknown_topics else count
        existing, unknown = _split(_indexes(topic.partitions), end)
        if unknown or (not count and not existing):
            merged.setdefault(topic.name, []).append((unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if existing:
            existing_runs.append(
                (topic.name, (existing, _delete(shard, request.group_id, topic.name, existing, records)))
            )
    shard.meters.offset_deletions += len(records)
    if not merged:
        return reply_with(context, _response((name, [run]) for name, run in existing_runs), records)
    for name, run in existing_runs:
        merged.setdefault(name, []).append(run)
    return reply_with(context, _response(merged.items()), records)


def _check_deletion(shard: ShardState, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = shard.decided(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return group.check_offset_deletion()


def _indexes(partitions: Any) -> Sequence[int]:
    if type(partitions) is not PlainRows or not partitions.are_bytes:
        return [partition.partition_index for partition in partitions]
    indexes = array("i", partitions.column(_INDEX))
    if sys.byteorder == "little":
        indexes.byteswap()
    return indexes


def _split(indexes: Sequence[int], end: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the partitions that exist, up to `end`, and the others."""
    if not end:
        return (), indexes
    existing = [index for index in indexes if 0 <= index < end]
    if len(existing) == len(indexes):
        return indexes, ()
    return existing, [index for index in indexes if not 0 <= index < end]


def _delete(
    shard: ShardState, group_id: str, topic: str, indexes: Sequence[int], records: list[CoordinatorRecord]
) -> ErrorCode:
    """Delete offsets of one topic: add their tombstones to `records`, return the error of all partitions."""
    group = shard.groups.get(group_id)
    if group is not None and group.is_subscribed_to(topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    decided = shard.decided_offsets(group_id)
    for index in dict.fromkeys(indexes):
        if (
            shard.offsets.get(group_id, topic, index) is not None
            or (topic, index) in decided
            or shard.has_pending_offset(group_id, topic, index)
        ):
            records.append(stored.offset_tombstone(group_id, topic, index))
    return _NONE


def _response(topics: Iterable[tuple[str, list[_Run]]]) -> messages.OffsetDeleteResponse:
    made = messages.OffsetDeleteResponse
    return made(topics=[made.Topic(name, _answered(runs)) for name, runs in topics])


def _answered(runs: list[_Run]) -> list[messages.OffsetDeleteResponse.Partition]:
    """Return the partitions of a topic: objects while they are few."""
    if sum(len(partitions) for partitions, _ in runs) < FEWEST:
        return _elements(runs)
    return cast("Any", _AnsweredRows(runs))  # type: ignore[no-any-return]


def _elements(runs: list[_Run]) -> list[messages.OffsetDeleteResponse.Partition]:
    element = messages.OffsetDeleteResponse.Partition
    return [element(partition, error) for partitions, error in runs for partition in partitions]
