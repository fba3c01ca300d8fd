"""Committed offsets: commit and fetch.

The checks of a commit, in this order: the partition exists, group and member are valid, the metadata is not too long.
An error concerns one partition; the others are committed, unless offsets.commit.all.or.none is set. Reads see durable
offsets only.
Source: KafkaApis.handleOffsetCommitRequest, OffsetMetadataManager and ClassicGroup.validateOffsetCommit of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.offsets.fetched_rows import FetchedRows
from kafka_offsets.coordinator.offsets.shapes import Committer, Cut, Shape, ShapedRecords
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.consumer_group import CheckPartition, ConsumerGroup
from kafka_offsets.coordinator.state.groups import Group
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID, OffsetAndMetadata
from kafka_offsets.coordinator.state.result import CoordinatorRecord, RequestContext, Result, reply_with
from kafka_offsets.coordinator.state.shard_state import GroupSettings, ShardState
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.protocol.codecs.plain_rows import FEWEST
from kafka_offsets.protocol.mirroring.refusals import refuse

_MISSING_GROUP_SINCE = 9
"""The first version of OffsetCommit in which a missing group has its own error code (KIP-848)."""

_TOPIC_IDS_SINCE = 10
"""The first version of OffsetCommit and OffsetFetch with topic ids (KIP-848)."""

_NO_RETENTION = -1
_NEVER = 2**63 - 1
"""The greatest time. Kafka's own sum overflows: an offset with the longest retention time expires at once."""

_NONE = ErrorCode.NONE
_UNKNOWN = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID))


class FetchedPartition(NamedTuple):
    """One partition of an OffsetFetch: `entry` is None when nothing is committed or `error` is set."""

    partition: int
    entry: OffsetAndMetadata | None
    error: ErrorCode


class FetchedTopic(NamedTuple):
    """One topic of an OffsetFetch.

    rows  in place of `partitions`: all of them, if each has an offset without metadata
    """

    name: str
    topic_id: bytes
    partitions: list[FetchedPartition]
    rows: FetchedRows | None = None


def commit(
    shard: ShardState, request: messages.OffsetCommitRequest, context: RequestContext, now: Now
) -> Result:
    """Commit offsets for a group: one record for each partition that is accepted, one reply for all."""
    group_id, version = request.group_id, context.api_version
    group_error = _check_group(shard, request, version)
    records: list[CoordinatorRecord] = []
    refused: dict[int, ErrorCode] = {}  # by identity of the partition
    is_echo = True
    for topic in request.topics:
        if not topic.partitions:
            is_echo = False
            continue
        name, topic_id, count, unknown = _resolve(shard, topic, version)
        prefix = stored.offset_key_prefix(group_id, name)
        for partition in topic.partitions:
            if partition.unknown_tags is not None and conditions.EXPECTED_OFFSET in partition.unknown_tags:
                return _commit_if(shard, request, context, now)
            index = partition.partition_index
            error = group_error
            if not 0 <= index < count and not takes_unknown(shard, index, unknown):
                error = unknown
            elif error is _NONE and is_too_long(partition.committed_metadata, shard.settings):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            if error is _NONE:
                entry = _entry(partition, topic_id, request.retention_time_ms, now)
                records.append(stored.offset_record(group_id, name, index, entry, prefix))
            else:
                refused[id(partition)] = error
    if request.member_id and group_error is _NONE and (records or not _UNKNOWN.issuperset(refused.values())):
        records = _note_member(shard, request, records, refused, now)
    response: messages.MessageValue = request
    if refused or not is_echo:
        records = _all_or_none(shard, request, records, refused)
        response = _commit_response(shard, request, refused, version)
    shard.meters.offset_commits += len(records)
    return reply_with(context, response, records)


def _entry(
    partition: messages.OffsetCommitRequest.Partition, topic_id: bytes, retention_ms: int, now: Now
) -> OffsetAndMetadata:
    """Return what is stored for a partition of a commit."""
    timestamp = partition.commit_timestamp
    expires = _NO_RETENTION if retention_ms == _NO_RETENTION else min(now.wall_ms + retention_ms, _NEVER)
    return OffsetAndMetadata(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now.wall_ms if timestamp == -1 else timestamp,
        expires,
        topic_id
        if expires == _NO_RETENTION
        else NO_TOPIC_ID,  # the record of an expiry has no place for an id
    )


def commit_shaped(
    shard: ShardState, committer: Committer, shape: Shape, cut: Cut, api_version: int, now: Now
) -> ShapedRecords | None:
    """Return the records of a commit of a known shape; None, with no effect, if `commit` must decide about it.

    All of it is accepted here, or nothing.
    """
    settings = shard.settings
    if settings.offsets_commit_owner_check or shape.longest > settings.offset_metadata_max_bytes:
        return None
    if _verdict(shard, committer, api_version) is not _NONE:
        return None
    templates = shape.templates(shard.topics)
    if templates is None:
        return None
    if committer.member_id and (group := shard.groups.held.get(committer.group_id)) is not None:
        group.on_commit(committer.member_id, now, shard.timers)
    shard.meters.offset_commits += shape.count
    return ShapedRecords(committer.group_id, shape.count, cut, templates, now.wall_ms)


def topic_names(shard: ShardState, request: messages.OffsetCommitRequest, api_version: int) -> list[str]:
    """Return the names of the topics of a commit; "" where an id is not known."""
    return [_resolve(shard, topic, api_version)[0] for topic in request.topics]


def _note_member(
    shard: ShardState,
    request: messages.OffsetCommitRequest,
    records: list[CoordinatorRecord],
    refused: dict[int, ErrorCode],
    now: Now,
) -> list[CoordinatorRecord]:
    """Note that a member is alive. Return the records that it may write."""
    group = shard.groups.held.get(request.group_id)
    if group is None:
        return records
    group.on_commit(request.member_id, now, shard.timers)
    if not shard.settings.offsets_commit_owner_check:
        return records
    return _refuse_others(shard, group, request, records, refused)


def takes_unknown(shard: ShardState, index: int, error: ErrorCode) -> bool:
    """Whether an offset is committed for a partition that does not exist, or whose topic does not."""
    is_named = error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # an unknown id names no topic to commit for
    return is_named and index >= 0 and shard.settings.offsets_commit_unknown_topics


def _refuse_others(
    shard: ShardState,
    group: Group,
    request: messages.OffsetCommitRequest,
    records: list[CoordinatorRecord],
    refused: dict[int, ErrorCode],
) -> list[CoordinatorRecord]:
    """Add the partitions that the member does not own to `refused`; return the records of those that it does.

    They get TOPIC_AUTHORIZATION_FAILED: the one code that clients know as final, that applies to a single partition
    and that does not make a member rejoin. Source: the design of the consumer rewrite, commit offset.
    """
    if isinstance(group, ConsumerGroup):
        owned = group.owned_partitions(request.member_id, shard.topics.topic_name)
    else:
        owned = group.owned_partitions(request.member_id)
    if owned is None:
        return records
    kept = []
    accepted = [p for topic in request.topics for p in topic.partitions if id(p) not in refused]
    for partition, record in zip(accepted, records, strict=True):
        assert record.offset_key is not None
        _, topic, index = record.offset_key
        if index in owned.get(topic, ()):
            kept.append(record)
        else:
            refused[id(partition)] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return kept


def _all_or_none(
    shard: ShardState,
    request: messages.OffsetCommitRequest,
    records: list[CoordinatorRecord],
    refused: dict[int, ErrorCode],
) -> list[CoordinatorRecord]:
    """Return the records; none, and all other partitions are added to `refused`, if that is configured.

    Source: the offset API proposal, transactionality across updates.
    """
    if not refused or not shard.settings.offsets_commit_all_or_none:
        return records
    for topic in request.topics:
        for partition in topic.partitions:
            refused.setdefault(id(partition), ErrorCode.OPERATION_NOT_ATTEMPTED)
    return []


def _commit_if(
    shard: ShardState, request: messages.OffsetCommitRequest, context: RequestContext, now: Now
) -> Result:
    """Commit all partitions if each condition holds and there is no other error; otherwise commit none.

    Conditions are checked against the offsets as they will be when all decisions so far have taken effect. So of two
    commits with the same condition the second is refused. See conditions.py for the fields.
    """
    if shard.is_loading:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return reply_with(context, refuse(request, error, context.api_version))
    expected = conditions.take(request)
    if expected is None:
        return reply_with(context, refuse(request, ErrorCode.INVALID_REQUEST, context.api_version))
    plain = commit(shard, request, context, now)
    (reply,) = plain.replies
    if reply.response is request:
        response: messages.OffsetCommitResponse = refuse(request, _NONE, context.api_version)
    else:
        response = reply.response
    partitions = [(t, p) for t in response.topics for p in t.partitions]
    is_whole = all(partition.error_code == _NONE for _, partition in partitions)
    if is_whole:
        for topic, partition in partitions:
            condition = expected.get((topic.name, topic.topic_id, partition.partition_index))
            if condition is None:
                continue
            name = topic.name or shard.topics.topic_name(topic.topic_id) or ""
            latest = _latest_offset(shard, request.group_id, name, partition.partition_index)
            partition.unknown_tags = conditions.found_tag(latest)
            if latest != condition:
                partition.error_code = ErrorCode.COMMITTED_OFFSET_MISMATCH
                is_whole = False
    if is_whole:
        return reply_with(context, response, plain.records)
    shard.meters.offset_commits -= len(plain.records)
    for _, partition in partitions:
        if partition.error_code == _NONE:
            partition.error_code = ErrorCode.OPERATION_NOT_ATTEMPTED
    return reply_with(context, response)


def _latest_offset(shard: ShardState, group: str, topic: str, partition: int) -> int:
    """Return the offset that will be committed when all decisions so far have taken effect; -1 for none."""
    record = shard.latest_record(stored.offset_key(group, topic, partition))
    if record is None:
        entry = shard.offsets.get(group, topic, partition)
    elif record.value is None:
        entry = None
    else:
        entry = record.entry or stored.parse_offset_value(record.value, -1)
    return conditions.NOTHING if entry is None else entry.offset


def _commit_response(
    shard: ShardState, request: messages.OffsetCommitRequest, refused: dict[int, ErrorCode], api_version: int
) -> messages.OffsetCommitResponse:
    """Answer each partition in Kafka's order: first the topics with missing partitions, then the others.

    refused  errors by identity of the partition
    Source: OffsetCommitResponse.Builder, into which the coordinator's answer is merged.
    """
    response = messages.OffsetCommitResponse
    merged: dict[tuple[str, bytes], list[messages.OffsetCommitResponse.Partition]] = {}
    existing = []
    for topic in request.topics:
        key = topic.name, topic.topic_id
        partitions = [
            response.Partition(p.partition_index, refused.get(id(p), _NONE)) for p in topic.partitions
        ]
        unknown = (
            [partition for partition in partitions if partition.error_code in _UNKNOWN] if refused else []
        )
        if unknown or (not partitions and not _resolve(shard, topic, api_version)[2]):
            merged.setdefault(key, []).extend(unknown)
        if len(unknown) < len(partitions):
            if unknown:
                partitions = [partition for partition in partitions if partition.error_code not in _UNKNOWN]
            existing.append((key, partitions))
    if not merged:
        return response(0, [response.Topic(*key, partitions) for key, partitions in existing])
    for key, partitions in existing:
        merged.setdefault(key, []).extend(partitions)
    return response(0, [response.Topic(*key, partitions) for key, partitions in merged.items()])


def _resolve(
    shard: ShardState, topic: messages.OffsetCommitRequest.Topic, api_version: int
) -> tuple[str, bytes, int, ErrorCode]:
    """Return a topic's name, id and number of partitions, and the error for a partition that it does not have."""
    if api_version < _TOPIC_IDS_SINCE:
        topic_id, count = shard.topics.id_and_partition_count(topic.name)
        return topic.name, topic_id, count, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name = shard.topics.topic_name(topic.topic_id)
    if name is None:
        return "", topic.topic_id, 0, ErrorCode.UNKNOWN_TOPIC_ID
    count = shard.topics.id_and_partition_count(name)[1]
    return name, topic.topic_id, count, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _check_group(shard: ShardState, request: messages.OffsetCommitRequest, api_version: int) -> ErrorCode:
    """Decide whether the sender may commit for the group at all."""
    generation, instance_id = request.generation_id_or_member_epoch, request.group_instance_id
    committer = Committer(request.group_id, generation, request.member_id, instance_id)
    verdict = _verdict(shard, committer, api_version)
    if isinstance(verdict, ErrorCode):
        return verdict
    return first_error(verdict, _existing(shard, request, api_version))


def _verdict(shard: ShardState, committer: Committer, api_version: int) -> ErrorCode | CheckPartition:
    """Return the error of a commit, as the group gives it, or what checks each partition of it."""
    group_id, generation, member_id, instance_id = committer
    group = shard.groups.held.get(group_id)
    if group is not None:
        return group.check_commit(member_id, instance_id, generation, api_version)
    if generation < 0 or shard.is_loading:
        # The first offset creates a simple group, even if the request names a member. While a group is loading its
        # members are unknown; a commit that gets here then is accepted in any case.
        return _NONE
    if shard.groups.is_simple(group_id):
        return ErrorCode.UNKNOWN_MEMBER_ID
    if api_version >= _MISSING_GROUP_SINCE:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def _existing(
    shard: ShardState, request: messages.OffsetCommitRequest, api_version: int
) -> Iterator[tuple[bytes, int]]:
    """Yield the topic id and index of each partition that exists and whose metadata are not too long."""
    for topic in request.topics:
        _, topic_id, count, _ = _resolve(shard, topic, api_version)
        for partition in topic.partitions:
            index = partition.partition_index
            if 0 <= index < count and not is_too_long(partition.committed_metadata, shard.settings):
                yield topic_id, index


def first_error(check: CheckPartition, partitions: Iterable[tuple[bytes, int]]) -> ErrorCode:
    """Return the first error of these partitions; as in Kafka, all existing partitions get it."""
    return next((error for partition in partitions if (error := check(*partition)) is not _NONE), _NONE)


def is_too_long(metadata: str | None, settings: GroupSettings) -> bool:
    """Whether metadata has more characters than allowed, counted as Java does: in UTF-16 code units."""
    limit = settings.offset_metadata_max_bytes
    if not metadata or 2 * len(metadata) <= limit:
        return False
    return len(metadata) > limit or len(metadata.encode("utf-16-le")) // 2 > limit


def fetch(
    shard: ShardState,
    group_id: str,
    topics: list[tuple[str, bytes, list[int]]] | None,
    api_version: int,
    *,
    require_stable: bool,
    in_rows: bool = False,
) -> list[FetchedTopic]:
    """Return committed offsets of one group. An unknown group has none, which is no error.

    topics          (name, id, partitions): from version 10 on only the id is used; None returns all offsets
    require_stable  answer UNSTABLE_OFFSET_COMMIT where an open transaction has committed an offset (KIP-447)
    in_rows         return the partitions of a topic as rows where that is possible
    """
    if topics is None:
        topics = all_topics(shard, group_id, api_version)
    fetched, unknown = [], []
    for name, topic_id, partitions in topics:
        topic = name if api_version < _TOPIC_IDS_SINCE else shard.topics.topic_name(topic_id)
        if topic is None:
            results = [FetchedPartition(p, None, ErrorCode.UNKNOWN_TOPIC_ID) for p in partitions]
            unknown.append(FetchedTopic(name, topic_id, results))
        else:
            is_plain = in_rows and len(partitions) >= FEWEST and not (require_stable and shard.pending)
            rows = shard.offsets.plain_rows(group_id, topic, partitions) if is_plain else None
            if rows is not None:
                fetched.append(FetchedTopic(name, topic_id, [], FetchedRows(partitions, rows)))
                continue
            results = [_look_up(shard, group_id, topic, p, require_stable) for p in partitions]
            fetched.append(FetchedTopic(name, topic_id, results))
    return fetched + unknown


def _look_up(
    shard: ShardState, group_id: str, topic: str, partition: int, require_stable: bool
) -> FetchedPartition:
    if require_stable and shard.has_pending_offset(group_id, topic, partition):
        return FetchedPartition(partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return FetchedPartition(partition, shard.offsets.get(group_id, topic, partition), _NONE)


def all_topics(shard: ShardState, group_id: str, api_version: int) -> list[tuple[str, bytes, list[int]]]:
    """Return all partitions with committed offsets of a group, in the form of `fetch`: (name, id, partitions)."""
    topics = []
    for name in shard.offsets.topics(group_id):
        topic_id, _ = shard.topics.id_and_partition_count(name)
        if api_version >= _TOPIC_IDS_SINCE and topic_id == NO_TOPIC_ID:
            continue  # a topic without an id cannot be named in this version
        topics.append((name, topic_id, shard.offsets.partitions(group_id, name)))
    return topics
