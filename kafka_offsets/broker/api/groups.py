"""Group APIs of several groups or of no shard: FindCoordinator, OffsetFetch, Describe-, List- and DeleteGroups.

The shard of each group decides about it, and each group gets its own answer. Large requests are processed in steps;
other requests are decided between the steps. So groups are described, listed and deleted in the state that each has at
its step, while the offsets of one group are always a consistent snapshot. The response is encoded in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from kafka_offsets.broker.context.incremental import Budget, Steps, run_incrementally
from kafka_offsets.broker.groups.runtime import HostedShard
from kafka_offsets.broker.wire.api import LATER, Later, Response
from kafka_offsets.broker.wire.response_aggregator import ResponseAggregator
from kafka_offsets.broker.wire.rights import DESCRIBE_GROUPS, Right
from kafka_offsets.clock import Now
from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.classic import membership
from kafka_offsets.coordinator.consumer import heartbeat as consumer_heartbeat
from kafka_offsets.coordinator.offsets import requests as offsets
from kafka_offsets.coordinator.offsets.fetched_rows import FetchedRows
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.pages import PAGE_PARTITIONS
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse
from kafka_offsets.security.acls import AclOperation, ResourceType
from kafka_offsets.security.authorizer import DENIALS, Sender

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

logger = new_logger(__name__)

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_COORDINATED = {_GROUP: ResourceType.GROUP, _TRANSACTION: ResourceType.TRANSACTIONAL_ID}
"""Resources with coordinators, by the type of their keys. A sender needs the right to describe it."""

_OF_OTHER_TOPICS = "The group has described topic(s) that the client is not authorized to describe."

_MESSAGES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Share groups are not served.",
}
"""Messages of FindCoordinator beside an error code. All were recorded from Kafka 4.3.1 but those for types that this
broker does not serve."""

_COORDINATORS_SINCE = 4
"""The first version of FindCoordinator whose requests name several coordinators (KIP-699)."""

_SHARE_SINCE = 6
_MEMBERS_SINCE = 9
"""The first version of OffsetFetch in which a member gives its id and epoch (KIP-848)."""

_GROUPS_SINCE = 8
"""The first version of OffsetFetch whose requests name several groups (KIP-709)."""


FETCH_RIGHTS = DESCRIBE_GROUPS._replace(
    whole=(
        Right(
            AclOperation.DESCRIBE,
            ResourceType.GROUP,
            lambda request, version: (request.group_id,) if version < _GROUPS_SINCE else (),
        ),
    )
)
"""The right to the one group of a request, or to each of several; those to topics are asked for by `offset_fetch`."""

_STEP_US = 5000
"""The longest step, in microseconds of the machine that the costs below were measured on, otherwise idle."""

_DELETION_US, _TOMBSTONE_US, _NAME_US = 15, 8, 3
_DESCRIPTION_US, _MEMBER_US, _CONSUMER_US = 4, 3, 20
_LISTED_US = 1
_FETCH_US, _PARTITION_US = 10, 2
"""The cost of each group, record, member and partition."""

_MANY_PARTITIONS = _STEP_US // _PARTITION_US
"""The most offsets of one group that one step looks up. More are copied first, so that they are consistent."""

_Element = TypeVar("_Element")

_Wanted = list[tuple[str, bytes, list[int]]]
"""Topics to fetch offsets of: (name, id, partitions)."""


def find_coordinator(
    broker: Context, request: messages.FindCoordinatorRequest, context: RequestContext, now: Now
) -> messages.FindCoordinatorResponse:
    """Name the broker that coordinates groups and transactional ids: this one, once their topic exists."""
    made, sender, version = messages.FindCoordinatorResponse, context.sender, context.api_version
    keys = request.coordinator_keys if version >= _COORDINATORS_SINCE else [request.key]
    denied = _undescribed(sender, request.key_type, keys, version)
    error = ErrorCode.NONE
    if not keys or len(denied) < len(set(keys)):
        error = _coordinator_error(broker, request.key_type, version, now)
    node, host, port = broker.node.id, *broker.node.address_for(context.connection)
    if version >= _COORDINATORS_SINCE:
        response = fail_find_coordinator(request, error, version)
        for entry in response.coordinators:
            if entry.key in denied:
                entry.error_code, entry.error_message = denied[entry.key]
            elif not error:
                entry.node_id, entry.host, entry.port, entry.error_message = node, host, port, ""
        return response
    if denied:
        return made(0, *denied[request.key], -1, "", -1)
    if error:
        return fail_find_coordinator(request, error, version)
    return made(error_message="NONE", node_id=node, host=host, port=port)


def _undescribed(
    sender: Sender, key_type: int, keys: list[str], version: int
) -> dict[str, tuple[ErrorCode, str]]:
    """Return the error and message of each key whose coordinator the sender may not know."""
    if key_type == _SHARE and version >= _SHARE_SINCE:
        if sender.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER):
            return {}
        return dict.fromkeys(keys, DENIALS[ResourceType.CLUSTER])
    kind = _COORDINATED.get(key_type)
    if kind is None:
        return {}
    error, message = DENIALS[kind]
    shown_message = message if version < _COORDINATORS_SINCE else ""
    return {
        key: (error, shown_message) for key in set(keys) if not sender.may(AclOperation.DESCRIBE, kind, key)
    }


def _coordinator_error(broker: Context, key_type: int, api_version: int, now: Now) -> ErrorCode:
    if key_type == _GROUP:
        if broker.groups.shards.topic_exists:
            return ErrorCode.NONE
        return _created(broker, lambda: broker.groups.shards.create_topic(now))
    if key_type == _TRANSACTION:
        if broker.transactions.topic_exists:
            return ErrorCode.NONE
        return _created(broker, broker.transactions.create_topic)
    if key_type == _SHARE and api_version >= _SHARE_SINCE:
        # Share groups are not served; clients do not retry this error.
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_REQUEST


def _created(broker: Context, create: Callable[[], None]) -> ErrorCode:
    """Create the topic of coordinators, which may fail, say for too few brokers: clients try again."""
    try:
        create()
    except StorageError as error:
        logger.error("there is no coordinator yet: %s", error)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE if broker.config.coordinator_warm else ErrorCode.COORDINATOR_NOT_AVAILABLE


def fail_find_coordinator(
    request: messages.FindCoordinatorRequest, error: ErrorCode, api_version: int
) -> messages.FindCoordinatorResponse:
    """Answer every key with `error`, with Kafka's message where clients know it."""
    response = messages.FindCoordinatorResponse
    message = _MESSAGES.get(error)
    if api_version < _COORDINATORS_SINCE:
        return response(error_code=error, error_message=message, node_id=-1, host="", port=-1)
    if request.key_type in (_GROUP, _TRANSACTION, _SHARE):
        message = ""
    return response(
        coordinators=[
            response.Coordinator(key, -1, "", -1, error, message) for key in request.coordinator_keys
        ]
    )


def offset_fetch(
    broker: Context, request: messages.OffsetFetchRequest, context: RequestContext, now: Now
) -> Response | Later:
    """Answer committed offsets, of one group or of several.

    A reader that requests stable offsets waits for the commits that were decided before it, for
    `offsets.commit.timeout.ms` at most until the in-sync replicas have them. Others see what is durable.
    """
    return broker.groups.offset_manager.get_offset(partial(_read_offsets, broker), request, context, now)


class SameOffsets(NamedTuple):
    """The condition of a kept response: no offset of its group was written or removed since.

    since      what `ShardState.unchanged` has for the group
    is_stable  whether the request waits for commits and transactions that have not taken effect
    """

    hosted: HostedShard
    group_id: str
    since: object
    is_stable: bool

    def holds(self) -> bool:
        """Whether the group has the same offsets, and a reader of stable offsets need not wait."""
        hosted, group_id, since, is_stable = self
        shard = hosted.shard
        if hosted.failed or shard.unchanged.get(group_id) is not since:
            return False
        return not is_stable or not (hosted.has_pending or shard.pending)


def unchanged_offsets(
    broker: Context,
    request: messages.OffsetFetchRequest,
    api_version: int,
    response: messages.OffsetFetchResponse,
) -> SameOffsets | None:
    """Return the condition under which a response may be repeated.

    None unless it has the offsets of one group, without errors, and does not depend on the sender.
    """
    group_id, topics = request.group_id, cast("list[Any]", response.topics)
    if api_version >= _GROUPS_SINCE:
        if len(request.groups) != 1 or response.groups[0].error_code:
            return None
        group = request.groups[0]
        if group.member_id is not None or group.member_epoch >= 0:
            return None
        group_id, topics = group.group_id, response.groups[0].topics
    if response.error_code or broker.config.offsets_fetch_members_only:
        return None
    for topic in topics:  # plain rows have no errors
        if type(topic.partitions) is list and any(partition.error_code for partition in topic.partitions):
            return None
    hosted = broker.groups.runtime.by_group.get(group_id)
    if hosted is None:  # not loaded, or its offsets are in ZooKeeper
        return None
    condition = SameOffsets(hosted, group_id, hosted.shard.since_unchanged(group_id), request.require_stable)
    return condition if condition.holds() else None


def _read_offsets(
    broker: Context, request: messages.OffsetFetchRequest, context: RequestContext, now: Now
) -> messages.OffsetFetchResponse | Later:
    """Answer from the offset tables."""
    if not request.require_stable:
        return _read_now(broker, request, context, now)

    def fetched(now: Now) -> messages.OffsetFetchResponse | Later:
        return _read_now(broker, request, context, now)

    groups = [request.group_id]
    if context.api_version >= _GROUPS_SINCE:
        groups = [group.group_id for group in request.groups]
    shards = dict.fromkeys(broker.groups.shards.shard_of(group_id, now) for group_id in groups)
    waiting = [hosted for hosted in shards if not isinstance(hosted, ErrorCode) and hosted.has_pending]
    if not waiting:
        return fetched(now)
    remaining = len(waiting)

    def settled(error: ErrorCode) -> None:
        """Count a shard whose offsets are settled; answer after the last one, or at the first error."""
        nonlocal remaining
        if remaining <= 0:
            return  # already answered, with the error of another shard
        remaining = 0 if error else remaining - 1
        if error:
            broker.responses.fail(context, error)
        elif not remaining:
            response = fetched(now)
            if response is not LATER:
                broker.responses.respond(context, response)

    for hosted in waiting:
        broker.groups.shards.decide(hosted, settled)
    if broker.topics.is_replicated:
        # Older clients do not know COORDINATOR_NOT_AVAILABLE here.
        broker.scheduler.client_timeout(
            broker.config.offsets_commit_timeout_ms, lambda now: settled(ErrorCode.NOT_COORDINATOR)
        )
    return LATER


def _read_now(
    broker: Context, request: messages.OffsetFetchRequest, context: RequestContext, now: Now
) -> messages.OffsetFetchResponse | Later:
    """Answer with what is committed now: at once if that is little, which saves the steps a sixth of their time."""
    topics, api_version = request.topics, context.api_version
    if api_version >= _GROUPS_SINCE or topics is None or len(topics) != 1:
        return run_incrementally(broker, context, _fetched(broker, request, context, now))
    (topic,) = topics
    if len(topic.partition_indexes) > _MANY_PARTITIONS or context.sender.is_restricted:
        return run_incrementally(broker, context, _fetched(broker, request, context, now))
    error = _check_sender(broker, request.group_id, None, context, now)
    hosted = error or broker.groups.shards.shard_of(request.group_id, now)
    if isinstance(hosted, ErrorCode):
        return refuse(request, hosted, api_version)
    topic_fields = [(topic.name, b"", topic.partition_indexes)]
    stable = request.require_stable
    return _one_group(
        broker, _look_up(hosted.shard, request.group_id, topic_fields, api_version, stable), api_version
    )


def _fetched(
    broker: Context, request: messages.OffsetFetchRequest, context: RequestContext, now: Now
) -> Steps[messages.OffsetFetchResponse]:
    budget = Budget(_STEP_US)
    stable, api_version = request.require_stable, context.api_version
    if api_version < _GROUPS_SINCE:
        if error := _check_sender(broker, request.group_id, None, context, now):
            return refuse(request, error, api_version)
        topics: _Wanted | None = None
        if request.topics is not None:
            topics = [(t.name, b"", t.partition_indexes) for t in request.topics]
        seen, denied = _split_by_right(broker, context.sender, topics)
        fetched = yield from _fetch(broker, request.group_id, seen, stable, api_version, now, budget)
        if isinstance(fetched, ErrorCode):
            return refuse(request, fetched, api_version)
        return _one_group(broker, _described(context.sender, topics, fetched) + denied, api_version)
    response = messages.OffsetFetchResponse
    groups = []
    for group in request.groups:
        named: _Wanted | None = None
        if group.topics is not None:
            named = [(t.name, t.topic_id, t.partition_indexes) for t in group.topics]
        topics_or_error: list[offsets.FetchedTopic] | ErrorCode = _check_member(
            broker, group, api_version, now
        ) or _check_sender(broker, group.group_id, group.member_id, context, now)
        seen, denied = _split_by_right(broker, context.sender, named)
        if not topics_or_error:
            topics_or_error = yield from _fetch(
                broker, group.group_id, seen, stable, api_version, now, budget
            )
        if isinstance(topics_or_error, ErrorCode):
            groups.append(response.Group(group.group_id, [], topics_or_error))
        else:
            topics_or_error = _described(context.sender, named, topics_or_error) + denied
            groups.append(response.Group(group.group_id, [_new_topic(topic) for topic in topics_or_error]))
    return response(groups=groups)


def _split_by_right(
    broker: Context, sender: Sender, topics: _Wanted | None
) -> tuple[_Wanted | None, list[offsets.FetchedTopic]]:
    """Return the topics that the sender may describe, None for all, and the response for the others."""
    if topics is None or not sender.is_restricted:
        return topics, []
    names = [name or broker.topics.topic_name(topic_id) or "" for name, topic_id, _ in topics]
    denied = {
        name
        for name in dict.fromkeys(names)
        if name and not sender.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    }
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    seen: _Wanted = []
    refused = []
    for topic_name, (name, topic_id, indexes) in zip(names, topics, strict=True):
        if topic_name in denied:
            partitions = [offsets.FetchedPartition(index, None, error) for index in indexes]
            refused.append(offsets.FetchedTopic(name, topic_id, partitions))
        else:
            seen.append((name, topic_id, indexes))
    return seen, refused


def _described(
    sender: Sender, named: _Wanted | None, fetched: list[offsets.FetchedTopic]
) -> list[offsets.FetchedTopic]:
    """Return what the sender may see of the topics of a group: all of those that it has named."""
    if named is not None or not sender.is_restricted:
        return fetched
    return [t for t in fetched if sender.may(AclOperation.DESCRIBE, ResourceType.TOPIC, t.name)]


def _check_member(
    broker: Context, group: messages.OffsetFetchRequest.Group, api_version: int, now: Now
) -> ErrorCode:
    """Return the error for the member that sent the request. Only consumer groups check it."""
    if api_version < _MEMBERS_SINCE:
        return ErrorCode.NONE
    hosted = broker.groups.shards.shard_of(group.group_id, now)
    if isinstance(hosted, ErrorCode):
        return ErrorCode.NONE
    consumer_group = hosted.shard.readable(group.group_id)
    if not isinstance(consumer_group, ConsumerGroup):
        return ErrorCode.NONE
    return consumer_group.check_fetch(group.member_id, group.member_epoch)


def _check_sender(
    broker: Context, group_id: str, member_id: str | None, context: RequestContext, now: Now
) -> ErrorCode:
    """Return UNKNOWN_MEMBER_ID if the group has members, none of them sent the request, and only they may fetch.

    Clients in classic groups send no member id in any version, and use one connection for all requests to their
    coordinator. So do classic members of consumer groups; these are not told apart from others.
    Source: the design of the consumer rewrite, fetch offset.
    """
    if not broker.config.offsets_fetch_members_only:
        return ErrorCode.NONE
    hosted = broker.groups.shards.shard_of(group_id, now)
    if isinstance(hosted, ErrorCode):
        return ErrorCode.NONE
    group = hosted.shard.readable(group_id)
    if group is None:
        return ErrorCode.NONE
    if isinstance(group, ConsumerGroup):
        consumers = group.committed().members()
        is_sender = [member.is_classic or member.member_id == member_id for member in consumers]
    else:
        is_sender = [
            member.connection is context.connection or id_ == member_id
            for id_, member in group.members.items()
        ]
    return ErrorCode.UNKNOWN_MEMBER_ID if is_sender and not any(is_sender) else ErrorCode.NONE


def _fetch(
    broker: Context,
    group_id: str,
    topics: _Wanted | None,
    require_stable: bool,
    api_version: int,
    now: Now,
    budget: Budget,
) -> Generator[None, None, list[offsets.FetchedTopic] | ErrorCode]:
    """Look up offsets of one group. Very many are looked up in steps, in a copy of all of its offsets."""
    hosted = broker.groups.shards.shard_of(group_id, now)
    if isinstance(hosted, ErrorCode):
        return hosted
    shard = hosted.shard
    if _count(shard, group_id, topics) <= _MANY_PARTITIONS:
        topics_fetched = _look_up(shard, group_id, topics, api_version, require_stable)
        if budget.spend(
            _FETCH_US + _PARTITION_US * sum(len(topic.rows or topic.partitions) for topic in topics_fetched)
        ):
            yield
        return topics_fetched
    kept = _copy(broker, shard, group_id)
    existing: list[offsets.FetchedTopic] = []
    unknown: list[offsets.FetchedTopic] = []
    for name, topic_id, partitions in topics or offsets.all_topics(kept, group_id, api_version):
        whole = offsets.FetchedTopic(name, topic_id, [])
        error = ErrorCode.NONE
        for begin in range(0, len(partitions), _MANY_PARTITIONS):
            part = [(name, topic_id, partitions[begin : begin + _MANY_PARTITIONS])]
            (fetched,) = offsets.fetch(kept, group_id, part, api_version, require_stable=require_stable)
            whole.partitions.extend(fetched.partitions)
            error = fetched.partitions[0].error
            if budget.spend(_PARTITION_US * len(fetched.partitions)):
                yield
        (unknown if error is ErrorCode.UNKNOWN_TOPIC_ID else existing).append(whole)
    return existing + unknown


def _count(shard: Shard, group_id: str, topics: _Wanted | None) -> int:
    """Return an upper bound of the number of requested offsets."""
    if topics is not None:
        return sum(len(partitions) for _, _, partitions in topics)
    table = shard.offsets
    pages = (len(table.page_numbers(group_id, topic)) for topic in table.topics(group_id))
    return PAGE_PARTITIONS * sum(pages)


def _copy(broker: Context, shard: Shard, group_id: str) -> Shard:
    """Return a shard with a copy of the offsets of this group alone."""
    kept = Shard(shard.partition, shard.settings, shard.new_member_id, broker.topics)
    kept.replace_offsets(shard.offsets.copy_of(group_id))
    for producer_id, pending in shard.pending.items():
        kept.pending[producer_id] = {key: entry for key, entry in pending.items() if key.group == group_id}
    return kept


def _look_up(
    shard: Shard, group_id: str, topics: _Wanted | None, api_version: int, require_stable: bool
) -> list[offsets.FetchedTopic]:
    return offsets.fetch(shard, group_id, topics, api_version, require_stable=require_stable, in_rows=True)


def _one_group(
    broker: Context, fetched: list[offsets.FetchedTopic], api_version: int
) -> messages.OffsetFetchResponse:
    """Answer a fetch for one group.

    Kafka had an error for partitions without an offset in version 0, which read from ZooKeeper.
    """
    missing = ErrorCode.NONE
    if api_version == 0 and broker.config.offset_storage == "zookeeper":
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    response = messages.OffsetFetchResponse
    topics = []
    for topic in fetched:
        if topic.rows is not None:
            topics.append(response.Topic(topic.name, _as_elements(topic.rows, response.Partition)))
            continue
        partitions = [
            response.Partition(p.partition, -1, -1, "", p.error or missing)
            if p.entry is None
            else response.Partition(
                p.partition, p.entry.offset, p.entry.leader_epoch, p.entry.metadata, p.error
            )
            for p in topic.partitions
        ]
        topics.append(response.Topic(topic.name, partitions))
    return response(topics=topics)


def _new_topic(topic: offsets.FetchedTopic) -> messages.OffsetFetchResponse.Topics:
    response = messages.OffsetFetchResponse
    if topic.rows is not None:
        return response.Topics(topic.name, topic.topic_id, _as_elements(topic.rows, response.Partitions))
    partitions = [
        response.Partitions(p.partition, -1, -1, "", p.error)
        if p.entry is None
        else response.Partitions(p.partition, p.entry.offset, p.entry.leader_epoch, p.entry.metadata, p.error)
        for p in topic.partitions
    ]
    return response.Topics(topic.name, topic.topic_id, partitions)


def _as_elements(rows: FetchedRows, element: type[_Element]) -> list[_Element]:
    """Return rows as the array of a response; the encoder copies their bytes."""
    rows.element = element
    return cast("list[_Element]", rows)


def describe_groups(
    broker: Context, request: messages.DescribeGroupsRequest, context: RequestContext, now: Now
) -> messages.DescribeGroupsResponse | Later:
    """Describe classic groups."""
    return run_incrementally(broker, context, _described_groups(broker, request, context, now))


def _described_groups(
    broker: Context, request: messages.DescribeGroupsRequest, context: RequestContext, now: Now
) -> Steps[messages.DescribeGroupsResponse]:
    response, budget = messages.DescribeGroupsResponse, Budget(_STEP_US)
    described = []
    for group_id in request.groups:
        hosted = broker.groups.shards.shard_of(group_id, now)
        if isinstance(hosted, ErrorCode):
            described.append(response.DescribedGroup(error_code=hosted, group_id=group_id))
        else:
            described.append(membership.describe(hosted.shard, group_id, context.api_version))
        if budget.spend(_DESCRIPTION_US + _MEMBER_US * len(described[-1].members)):
            yield None
    if request.include_authorized_operations:
        for group in (group for group in described if not group.error_code):
            group.authorized_operations = context.sender.operations(ResourceType.GROUP, group.group_id)
    return response(groups=described)


def consumer_group_describe(
    broker: Context, request: messages.ConsumerGroupDescribeRequest, context: RequestContext, now: Now
) -> messages.ConsumerGroupDescribeResponse | Later:
    """Describe consumer groups (KIP-848)."""
    return run_incrementally(
        broker, context, _described_consumer_groups(broker, request, context.sender, now)
    )


def _described_consumer_groups(
    broker: Context, request: messages.ConsumerGroupDescribeRequest, sender: Sender, now: Now
) -> Steps[messages.ConsumerGroupDescribeResponse]:
    response, budget = messages.ConsumerGroupDescribeResponse, Budget(_STEP_US)
    described = []
    for group_id in request.group_ids:
        hosted = broker.groups.shards.shard_of(group_id, now)
        if isinstance(hosted, ErrorCode):
            described.append(response.DescribedGroup(error_code=hosted, group_id=group_id))
        else:
            described.append(_hide_topics(consumer_heartbeat.describe(hosted.shard, group_id), sender))
        if budget.spend(_DESCRIPTION_US + _CONSUMER_US * len(described[-1].members)):
            yield None
    if request.include_authorized_operations:
        for group in (group for group in described if not group.error_code):
            group.authorized_operations = sender.operations(ResourceType.GROUP, group.group_id)
    return response(groups=described)


def _hide_topics(
    group: messages.ConsumerGroupDescribeResponse.DescribedGroup, sender: Sender
) -> messages.ConsumerGroupDescribeResponse.DescribedGroup:
    """Refuse a group whose members have partitions of a topic that the sender may not describe."""
    topics = {
        topic_partition.topic_name
        for member in (group.members if sender.is_restricted else ())
        for assignment in (member.assignment, member.target_assignment)
        for topic_partition in assignment.topic_partitions
    }
    if all(sender.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in sorted(topics)):
        return group
    return messages.ConsumerGroupDescribeResponse.DescribedGroup(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=_OF_OTHER_TOPICS,
        group_id=group.group_id,
    )


def list_groups(
    broker: Context, request: messages.ListGroupsRequest, context: RequestContext, now: Now
) -> Response | Later:
    """List the groups of all shards, filtered by state and type where requested."""
    return broker.groups.offset_manager.get_groups(
        context,
        lambda: run_incrementally(broker, context, _listed_groups(broker, request, context)),
    )


def _listed_groups(
    broker: Context, request: messages.ListGroupsRequest, context: RequestContext
) -> Steps[messages.ListGroupsResponse]:
    budget = Budget(_STEP_US)
    groups = []
    for hosted in list(broker.groups.runtime.all_shards()):
        if hosted.failed:
            continue  # as Kafka, which skips partitions that it does not coordinate
        if hosted.is_loading:
            return refuse(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, context.api_version)
        groups += group_requests.list_groups(hosted.shard, request.states_filter, request.types_filter)
        if budget.spend(_LISTED_US * hosted.shard.groups.most):
            yield None
    sees = context.sender.sees
    if not sees(AclOperation.DESCRIBE, ResourceType.CLUSTER):
        groups = [
            group for group in groups if sees(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id)
        ]
    return messages.ListGroupsResponse(groups=groups)


def delete_groups(
    broker: Context, request: messages.DeleteGroupsRequest, context: RequestContext, now: Now
) -> messages.DeleteGroupsResponse | Later:
    """Delete groups that have no members, with their offsets."""
    names = list(dict.fromkeys(request.groups_names))
    response = messages.DeleteGroupsResponse
    if not names:
        return response()

    def refused(index: int, error: ErrorCode) -> messages.DeleteGroupsResponse.DeletableGroupResult:
        return response.DeletableGroupResult(names[index], error)

    aggregator = ResponseAggregator(
        broker.responses.respond, context, len(names), lambda results: response(results=results), refused
    )
    return run_incrementally(broker, context, _deletions(broker, names, aggregator, now), finishes=True)


def _deletions(
    broker: Context,
    names: list[str],
    aggregator: ResponseAggregator[messages.DeleteGroupsResponse.DeletableGroupResult],
    now: Now,
) -> Steps[Later]:
    """Delete the groups in turn, then respond."""
    budget = Budget(_STEP_US)
    by_shard: dict[HostedShard, list[int]] = {}
    for index, name in enumerate(names):
        hosted = broker.groups.shards.shard_of(name, now)
        if isinstance(hosted, ErrorCode):
            broker.responses.fail(aggregator.part(index), hosted)
        else:
            by_shard.setdefault(hosted, []).append(index)
        if budget.spend(_NAME_US):
            yield None
    for hosted, indexes in by_shard.items():
        for index in indexes:
            decided_at = broker.clock.now()
            records = broker.groups.offset_manager.delete_group(
                hosted, names[index], aggregator.part(index), decided_at
            )
            if budget.spend(_DELETION_US + _TOMBSTONE_US * records):
                yield None
    return LATER
