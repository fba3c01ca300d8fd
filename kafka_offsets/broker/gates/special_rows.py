"""Special rows: the APIs whose rights no row can state. Each function decides as Kafka's handler of the API does.

Every function gets (authorizer, row, core, request, context, now), checks, and lets the row decide about the rest.
Sources: KafkaApis, ControllerApis, ConfigHelper, DescribeTopicPartitionsRequestHandler of Kafka 4.3.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka_offsets.broker.api import transactions
from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import decide, names_of
from kafka_offsets.broker.gates import admin_rows, token_rows
from kafka_offsets.broker.gates.changes import DESCRIBE_TOPIC, cluster_operations
from kafka_offsets.broker.gates.parts import MESSAGES, decide_rest, join_topics, refuse_topics
from kafka_offsets.broker.gates.sender import Sender, sender_of
from kafka_offsets.broker.partition.partitions import INTERNAL_TOPICS
from kafka_offsets.broker.wire.api import Api
from kafka_offsets.broker.wire.rights import Right, on_cluster, on_topics
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse, refuse_each
from kafka_offsets.protocol.records import batch_headers
from kafka_offsets.security.acls import AclOperation, ResourceType
from kafka_offsets.security.authorizer import Authorizer

_READ_TOPIC = on_topics(AclOperation.READ)
_WRITE_TOPIC = on_topics(AclOperation.WRITE)
_CREATE_TOPIC = on_topics(AclOperation.CREATE)
_CREATE_ON_CLUSTER = on_cluster(AclOperation.CREATE)
_DESCRIBE_CLUSTER = on_cluster(AclOperation.DESCRIBE)
_CLUSTER_ACTION = on_cluster(AclOperation.CLUSTER_ACTION)
_IDEMPOTENT_WRITE = on_cluster(AclOperation.IDEMPOTENT_WRITE)
_DESCRIBE_GROUP = Right(AclOperation.DESCRIBE, ResourceType.GROUP)
_READ_GROUP = Right(AclOperation.READ, ResourceType.GROUP)
_DESCRIBE_TRANSACTION = Right(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
_WRITE_TRANSACTION = Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)

_NO_TOPIC_ID = bytes(16)
_REPLICA_STATE_SINCE = 15
"""The first version of Fetch in which a follower gives its id in replica_state (KIP-903)."""

_GROUPS_SINCE = 8
"""The first version of OffsetFetch whose requests name several groups (KIP-709)."""

_COORDINATORS_SINCE = 4
"""The first version of FindCoordinator whose requests name several coordinators (KIP-699)."""

_OF_BROKERS_SINCE = 4
"""The first version of AddPartitionsToTxn that brokers send (KIP-890)."""

_LOG_DIRS_ERROR_SINCE = 3
"""The first version of DescribeLogDirs with an error of the whole request."""

_SHARE, _SHARE_SINCE = 2, 6
"""The type of the keys of share groups, and the first version of FindCoordinator that has it (KIP-932)."""

_NULL_IS_ALL_SINCE = 1
"""The first version of Metadata in which an empty array of topics means none of them."""


# -- records


def _produce(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    sender, version = sender_of(authorizer, context), context.api_version
    transactional_id = request.transactional_id
    if _is_transactional(request) and not (
        transactional_id is not None and sender.may(_WRITE_TRANSACTION, transactional_id)
    ):
        refused = row.fail(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, version)
        return _reply_to_producer(core, request, context, refused)
    name_of = names_of(core)
    named = row.named(version)
    names = {name_of(topic) for topic in request.topic_data} - {""}
    denied = {name for name in names if not sender.may(_WRITE_TOPIC, name)}
    if not denied:
        return decide(core, row, request, context, now)
    struck, rest = named.split_by_topic(request, lambda topic: name_of(topic) in denied)
    refused = refuse_topics(row, struck, ErrorCode.TOPIC_AUTHORIZATION_FAILED, version)
    if rest is None:
        return _reply_to_producer(core, request, context, refused)

    def join(response: Any) -> Any:
        """Join the answers; without acks the connection closes."""
        return join_topics(row, version, refused, response)

    if request.acks:
        return decide_rest(core, row, rest, context, now, join)
    decide_rest(core, row, rest, context, now, lambda response: response)
    core.answers.close_connection(context.connection)
    return None


def _is_transactional(request: messages.ProduceRequest) -> bool:
    """Whether the first batch of a partition is of a transaction. Source: RequestUtils.hasTransactionalRecords."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            try:
                first = next(batch_headers(partition.records or b""), None)
            except ProtocolError:
                continue  # the validation of the batch refuses it
            if first is not None and first[1].is_transactional:
                return True
    return False


def _reply_to_producer(core: Context, request: Any, context: RequestContext, refused: Any) -> Any:
    """Return the response; a producer without acks learns from the end of the connection that there is an error."""
    refused.responses = [topic for topic in refused.responses if topic.partition_responses]
    if request.acks:
        return refused
    core.answers.close_connection(context.connection)
    return None


def _fetch(
    authorizer: Authorizer,
    row: Api,
    core: Context,
    request: Any,
    context: RequestContext,
    now: Now,
    refuses: Callable[[str, int], ErrorCode] | None = None,
) -> Any:
    """Refuse partitions inside fetch: it knows those of a session."""
    sender = sender_of(authorizer, context)
    follower = request.replica_id
    if context.api_version >= _REPLICA_STATE_SINCE:
        follower = request.replica_state.replica_id
    may_follow = follower >= 0 and sender.may(_CLUSTER_ACTION)

    def refuse_denied(topic: str, index: int) -> ErrorCode:
        """Return the error of a partition that the sender may not read; a follower learns of no other error."""
        if follower >= 0 and not may_follow:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        error = ErrorCode.NONE if refuses is None else refuses(topic, index)
        if error or may_follow or (follower < 0 and sender.may(_READ_TOPIC, topic)):
            return error
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED

    return row.handle(core, request, context, now, refuse_denied)


# -- topics


def _metadata(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    sender, version = sender_of(authorizer, context), context.api_version
    wanted = request.topics
    is_all = wanted is None or (version < _NULL_IS_ALL_SINCE and not wanted)
    if is_all:

        def hide(response: Any) -> Any:
            """Remove the topics that the sender may not describe."""
            response.topics = [each for each in response.topics if sender.sees(DESCRIBE_TOPIC, each.name)]
            return _with_operations(sender, request, response)

        return decide_rest(core, row, request, context, now, hide)
    if any(topic.name is None and not any(topic.topic_id) for topic in wanted):
        return decide(core, row, request, context, now)  # it is refused as a whole
    by_id = any(any(topic.topic_id) for topic in wanted)
    rest = copy.copy(request)
    denied: dict[tuple[str | None, bytes], None] = {}
    rest.topics = []
    for topic in wanted:
        name = core.topics.topic_name(topic.topic_id) if by_id else topic.name
        if name is None or _may_see(sender, core, request, name):
            rest.topics.append(topic)
        else:
            denied[(None, topic.topic_id) if by_id else (name, _NO_TOPIC_ID)] = None

    def finish(response: Any) -> Any:
        """Add the topics that are denied, with only the name or the id in the request.

        The sender does not learn whether they exist.
        """
        if not rest.topics:
            response.topics = []  # in version 0 an empty list requests all topics
        response = _with_operations(sender, request, response)
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.topics = [
            *response.topics,
            *(response.Topic(error, name, topic_id) for name, topic_id in denied),
        ]
        return response

    return decide_rest(core, row, rest, context, now, finish)


def _may_see(sender: Sender, core: Context, request: Any, name: str) -> bool:
    """Whether a topic is described to the sender, or created for it if it is missing."""
    if not sender.may(DESCRIBE_TOPIC, name):
        return False
    creates = request.allow_auto_topic_creation and core.config.auto_create_topics_enable
    if not creates or core.topics.get(name) is not None:
        return True
    return sender.sees(_CREATE_ON_CLUSTER) or sender.may(_CREATE_TOPIC, name)


def _with_operations(sender: Sender, request: Any, response: Any) -> Any:
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.name is not None:
                topic.topic_authorized_operations = sender.operations(ResourceType.TOPIC, topic.name)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(sender)
    return response


def _describe_topic_partitions(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    sender, cursor = sender_of(authorizer, context), request.cursor
    names = dict.fromkeys(topic.name for topic in request.topics)
    first = "" if cursor is None else cursor.topic_name
    if "" in names or (cursor is not None and ((names and first not in names) or cursor.partition_index < 0)):
        return decide(core, row, request, context, now)  # it is refused as a whole
    every = sorted(name for name in (names or core.topics.names()) if name >= first)
    allowed = [name for name in every if sender.may(DESCRIBE_TOPIC, name)]
    denied = sorted({*every} - {*allowed}) if names else []
    rest = copy.copy(request)
    rest.topics = [messages.DescribeTopicPartitionsRequest.TopicRequest(name) for name in allowed]
    if first not in allowed:
        rest.cursor = None

    def finish(response: Any) -> Any:
        """Set what the sender may do with each topic, and add those that are denied."""
        for topic in response.topics:
            topic.topic_authorized_operations = sender.operations(ResourceType.TOPIC, topic.name)
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.topics = [*response.topics, *(response.Topic(error, name) for name in denied)]
        return response

    if not allowed:
        return finish(row.response())
    return decide_rest(core, row, rest, context, now, finish)


# -- groups


def _offset_fetch(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    sender, version, name_of = sender_of(authorizer, context), context.api_version, names_of(core)
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def allowed(group: Any) -> tuple[Any, list[Any]]:
        """Return the part of a request for one group that may be read, and the topics that may not."""
        part = copy.copy(group)
        if group.topics is None:
            return part, []
        seen = {name: not name or sender.may(DESCRIBE_TOPIC, name) for name in map(name_of, group.topics)}
        part.topics = [topic for topic in group.topics if seen[name_of(topic)]]
        return part, [topic for topic in group.topics if not seen[name_of(topic)]]

    def shown(group: Any, denied: list[Any], answer: Any, topic_of: Any, partition: Any) -> None:
        """Leave out of one answer what is hidden, and add what is denied."""
        if answer.error_code:
            return
        if group.topics is None:
            answer.topics = [each for each in answer.topics if sender.may(DESCRIBE_TOPIC, name_of(each))]
        for topic in denied:
            partitions = [partition(index, -1, -1, "", error) for index in topic.partition_indexes]
            answer.topics = [*answer.topics, topic_of(topic, partitions)]

    answer_class: Any = row.response
    if version < _GROUPS_SINCE:
        if not sender.may(_DESCRIBE_GROUP, request.group_id):
            return row.fail(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, version)
        rest, denied = allowed(request)

        def finish(response: Any) -> Any:
            """Show what the sender may see of the one group."""
            made = answer_class.Topic
            shown(request, denied, response, lambda t, ps: made(t.name, ps), answer_class.Partition)
            return response

        return decide_rest(core, row, rest, context, now, finish)
    may = {group.group_id: sender.may(_DESCRIBE_GROUP, group.group_id) for group in request.groups}
    parts = [(group, *allowed(group)) for group in request.groups if may[group.group_id]]
    rest = copy.copy(request)
    rest.groups = [part for _, part, _ in parts]

    def join(response: Any) -> Any:
        """Show what the sender may see of each group, and refuse the other groups, in the order of the request."""
        made = answer_class.Topics
        for (group, _, denied), answer in zip(parts, response.groups, strict=True):
            shown(group, denied, answer, lambda t, ps: made(t.name, t.topic_id, ps), answer_class.Partitions)
        answers = iter(response.groups)
        response.groups = [
            next(answers)
            if may[group.group_id]
            else answer_class.Group(group.group_id, [], ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for group in request.groups
        ]
        return response

    if not parts and request.groups:
        return join(answer_class())
    return decide_rest(core, row, rest, context, now, join)


_COORDINATORS = {0: _DESCRIBE_GROUP, 1: _DESCRIBE_TRANSACTION}
"""The right to find a coordinator, by type of the key."""


def _find_coordinator(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    sender, version, right = (
        sender_of(authorizer, context),
        context.api_version,
        _COORDINATORS.get(request.key_type),
    )
    if right is None:
        if request.key_type == _SHARE and version >= _SHARE_SINCE and not sender.may(_CLUSTER_ACTION):
            refused = row.fail(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, version)
            for each in refused.coordinators:
                each.error_message = MESSAGES[ResourceType.CLUSTER]
            return refused
        return decide(core, row, request, context, now)
    named = row.named(version)
    keys = named.keys(request)
    if not keys:
        if version >= _COORDINATORS_SINCE or sender.may(right, request.key):
            return decide(core, row, request, context, now)
        refused = row.fail(request, right.error, version)
        refused.error_message = MESSAGES[right.resource_type]
        return refused
    allowed = {key: sender.may(right, key) for key in dict.fromkeys(keys)}
    if all(allowed.values()):
        return decide(core, row, request, context, now)
    denied, rest = named.split_by_key(request, lambda key: not allowed[key])
    refused = row.fail(denied, right.error, version)
    if rest is None:
        return refused
    return decide_rest(
        core, row, rest, context, now, lambda response: named.join_by_key(request, refused, response)
    )


def _consumer_group_heartbeat(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    sender, version = sender_of(authorizer, context), context.api_version
    if not sender.may(_READ_GROUP, request.group_id):
        return row.fail(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, version)
    context.sees = partial(sender.sees, DESCRIBE_TOPIC)
    names = sorted({*(request.subscribed_topic_names or ())})
    if not all(sender.may(DESCRIBE_TOPIC, name) for name in names):
        return row.fail(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, version)
    return decide(core, row, request, context, now)


def _describe_log_dirs(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    """Describe no directory to a sender without the right; the first versions have no error for that."""
    if sender_of(authorizer, context).may(_DESCRIBE_CLUSTER):
        return decide(core, row, request, context, now)
    if context.api_version < _LOG_DIRS_ERROR_SINCE:
        return row.response()
    return row.fail(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, context.api_version)


# -- transactions


def _init_producer_id(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    sender, version = sender_of(authorizer, context), context.api_version
    if request.transactional_id is not None:
        if not sender.may(_WRITE_TRANSACTION, request.transactional_id):
            return row.fail(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, version)
    elif not (sender.sees(_IDEMPOTENT_WRITE) or sender.may_on_some(AclOperation.WRITE, ResourceType.TOPIC)):
        return row.fail(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, version)
    return decide(core, row, request, context, now)


def _add_partitions(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    sender, version = sender_of(authorizer, context), context.api_version
    if version >= _OF_BROKERS_SINCE:
        if not sender.may(_CLUSTER_ACTION):
            return refuse(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, version)
        return decide(core, row, request, context, now)
    if not sender.may(_WRITE_TRANSACTION, request.v3_and_below_transactional_id):
        return refuse_each(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, version)
    topics = request.v3_and_below_topics
    names = sorted({topic.name for topic in topics} - {*INTERNAL_TOPICS})
    denied = {name for name in names if not sender.may(_WRITE_TOPIC, name)}
    if not denied:
        return decide(core, row, request, context, now)
    results = transactions.refused_partitions(core, topics, {*INTERNAL_TOPICS, *denied})
    return messages.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


HANDLES: dict[str, Callable[..., Any]] = {
    "Produce": _produce,
    "Fetch": _fetch,
    "Metadata": _metadata,
    "DescribeTopicPartitions": _describe_topic_partitions,
    "OffsetFetch": _offset_fetch,
    "FindCoordinator": _find_coordinator,
    "ConsumerGroupHeartbeat": _consumer_group_heartbeat,
    "DescribeLogDirs": _describe_log_dirs,
    "InitProducerId": _init_producer_id,
    "AddPartitionsToTxn": _add_partitions,
    "CreateTopics": admin_rows.create_topics,
    "DeleteTopics": admin_rows.delete_topics,
    "CreatePartitions": admin_rows.create_partitions,
    "DescribeConfigs": admin_rows.describe_configs,
    "AlterConfigs": admin_rows.alter_configs,
    "IncrementalAlterConfigs": admin_rows.alter_configs,
    "CreateDelegationToken": token_rows.create_token,
}
"""By API."""
