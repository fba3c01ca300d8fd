"""Rows that change or describe topics and configurations, whose elements are refused one by one.

Sources: ControllerApis, ConfigAdminManager and ConfigHelper of Kafka 4.3.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from kafka_offsets.broker.api.config_admin import Resource
from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import decide
from kafka_offsets.broker.gates.parts import MESSAGES, decide_rest
from kafka_offsets.broker.gates.sender import sender_of
from kafka_offsets.broker.wire.api import Api
from kafka_offsets.broker.wire.rights import Right, on_cluster, on_topics
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from kafka_offsets.security.authorizer import Authorizer
from kafka_offsets.storage.directory.data_directory import CLUSTER_METADATA_TOPIC

_CREATE_TOPIC, _DELETE_TOPIC = on_topics(AclOperation.CREATE), on_topics(AclOperation.DELETE)
_ALTER_TOPIC, _DESCRIBE_TOPIC = on_topics(AclOperation.ALTER), on_topics(AclOperation.DESCRIBE)
_DESCRIBE_CONFIGS = on_topics(AclOperation.DESCRIBE_CONFIGS)
_CREATE_ON_CLUSTER, _DELETE_ON_CLUSTER = on_cluster(AclOperation.CREATE), on_cluster(AclOperation.DELETE)
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NO_TOPIC_ID = bytes(16)

_TYPES = frozenset(Resource)
_REPLACED_TYPES = _TYPES - {Resource.BROKER_LOGGER}
"""What AlterConfigs knows: it refuses others before it asks for a right."""

_ALTER_CONFIGS = 33
_OWNERS = {Resource.TOPIC: ResourceType.TOPIC, Resource.GROUP: ResourceType.GROUP}
"""What a configuration belongs to; all others belong to the cluster."""


def once(keys: Iterable[Any]) -> set[Any]:
    """Return the keys that occur once; the others are refused as duplicates, before rights are checked."""
    return {key for key, times in Counter(keys).items() if times == 1}


def create_topics(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    """Create the topics that the sender may create; show the configuration of those whose it may describe."""
    sender = sender_of(authorizer, context)
    names = sorted(once(topic.name for topic in request.topics) - {CLUSTER_METADATA_TOPIC})
    is_for_all = sender.sees(_CREATE_ON_CLUSTER)
    denied = {name for name in names if not (is_for_all or sender.may(_CREATE_TOPIC, name))}
    rest = copy.copy(request)
    rest.topics = [topic for topic in request.topics if topic.name not in denied]

    def finish(response: Any) -> Any:
        """Add the topics that are denied."""
        result = response.CreatableTopicResult
        for each in response.topics:
            if not each.error_code and not sender.sees(_DESCRIBE_CONFIGS, each.name):
                each.topic_config_error_code = _TOPIC_DENIED
                each.num_partitions, each.replication_factor, each.configs = -1, -1, []
        refused = [
            result(name, error_code=_TOPIC_DENIED, error_message="Authorization failed.")
            for name in names
            if name in denied
        ]
        response.topics = [*response.topics, *refused]
        return response

    if not rest.topics and denied:
        return finish(row.response())
    return decide_rest(core, row, rest, context, now, finish)


def delete_topics(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    """Delete the topics that the sender may delete. What it may not describe is not told from what does not exist."""
    sender = sender_of(authorizer, context)
    if not core.config.delete_topic_enable or sender.sees(_DELETE_ON_CLUSTER):
        return decide(core, row, request, context, now)
    named = once([*request.topic_names, *(t.name for t in request.topics if t.name and not any(t.topic_id))])
    by_id = once(topic.topic_id for topic in request.topics if topic.name is None)
    refused: list[tuple[str | None, bytes]] = []
    for name in sorted(named):
        if not sender.may(_DESCRIBE_TOPIC, name) or (
            core.topics.get(name) is not None and not sender.may(_DELETE_TOPIC, name)
        ):
            refused.append((name, _NO_TOPIC_ID))
    for topic_id in sorted(by_id - {_NO_TOPIC_ID}):
        found = core.topics.topic_name(topic_id)
        if found is not None and not sender.may(_DELETE_TOPIC, found):
            refused.append((found if sender.sees(_DESCRIBE_TOPIC, found) else None, topic_id))
    if not refused:
        return decide(core, row, request, context, now)
    names = {name for name, topic_id in refused if topic_id == _NO_TOPIC_ID}
    ids = {topic_id for _, topic_id in refused} - {_NO_TOPIC_ID}
    rest = copy.copy(request)
    rest.topic_names = [name for name in request.topic_names if name not in names]
    rest.topics = [
        t for t in request.topics if (t.topic_id not in ids) and (t.name not in names or any(t.topic_id))
    ]

    def finish(response: Any) -> Any:
        """Add the topics that are denied."""
        message = MESSAGES[ResourceType.TOPIC]
        response.responses = [
            *response.responses,
            *(response.DeletableTopicResult(*each, _TOPIC_DENIED, message) for each in refused),
        ]
        return response

    if not rest.topics and not rest.topic_names:
        return finish(row.response())
    return decide_rest(core, row, rest, context, now, finish)


def create_partitions(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    """Add partitions to the topics that the sender may alter."""
    sender = sender_of(authorizer, context)
    names = sorted(once(topic.name for topic in request.topics))
    denied = [name for name in names if not sender.may(_ALTER_TOPIC, name)]
    rest = copy.copy(request)
    rest.topics = [topic for topic in request.topics if topic.name not in denied]

    def finish(response: Any) -> Any:
        """Add the topics that are denied."""
        refused = [response.CreatePartitionsTopicResult(name, _TOPIC_DENIED, None) for name in denied]
        response.results = [*refused, *response.results]
        return response

    if not rest.topics and denied:
        return finish(row.response())
    return decide_rest(core, row, rest, context, now, finish)


def _right_of(operation: AclOperation, resource: Any) -> tuple[Right, str]:
    """Return the right that a configuration needs, and the name of the resource."""
    owner = _OWNERS.get(resource.resource_type, ResourceType.CLUSTER)
    return Right(operation, owner), CLUSTER_NAME if owner is ResourceType.CLUSTER else resource.resource_name


def _message(operation: AclOperation, resource: Any) -> str | None:
    """Return the message of a denial; loggers are altered by the broker itself, which has none."""
    if operation is AclOperation.ALTER_CONFIGS and resource.resource_type == Resource.BROKER_LOGGER:
        return None
    return MESSAGES[_OWNERS.get(resource.resource_type, ResourceType.CLUSTER)]


def _configs(
    operation: AclOperation, answers: str, answer_of: Callable[[Any, ErrorCode, str | None, Any], Any]
) -> Callable[..., Any]:
    """Return the function of an API about configurations.

    answers    the array of the response with an element for each resource
    answer_of  (response, error, message, resource) -> such an element
    """

    def handle(
        authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
    ) -> Any:
        """Decide about the resources that the sender may configure, and refuse the others."""
        sender = sender_of(authorizer, context)
        is_description = operation is AclOperation.DESCRIBE_CONFIGS
        if is_description and any(each.resource_type not in _TYPES for each in request.resources):
            # One of an unknown type fails the description of all.
            return decide(core, row, request, context, now)
        keys = [(each.resource_type, each.resource_name) for each in request.resources]
        types = _REPLACED_TYPES if row.key == _ALTER_CONFIGS else _TYPES
        single = once(keys) if operation is AclOperation.ALTER_CONFIGS else {*keys}
        refused: list[Any] = []
        for resource, key in zip(request.resources, keys, strict=True):
            right, name = _right_of(operation, resource)
            if resource.resource_type in types and key in single and not sender.may(right, name):
                made = answer_of(row.response, right.error, _message(operation, resource), resource)
            else:
                made = None
            refused.append(made)
        if not any(refused):
            return decide(core, row, request, context, now)
        rest = copy.copy(request)
        rest.resources = [each for each, made in zip(request.resources, refused, strict=True) if made is None]

        def join(response: Any) -> Any:
            """Join the answers: of a description the refused ones last, else in the order of the request."""
            served = iter(getattr(response, answers))
            if operation is AclOperation.DESCRIBE_CONFIGS:
                joined = [*served, *filter(None, refused)]
            else:
                joined = [next(served) if made is None else made for made in refused]
            setattr(response, answers, joined)
            return response

        if not rest.resources:
            return join(row.response())
        return decide_rest(core, row, rest, context, now, join)

    return handle


describe_configs = _configs(
    AclOperation.DESCRIBE_CONFIGS,
    "results",
    lambda response, error, message, each: response.DescribeConfigsResult(
        error, message, each.resource_type, each.resource_name
    ),
)
alter_configs = _configs(
    AclOperation.ALTER_CONFIGS,
    "responses",
    lambda response, error, message, each: response.AlterConfigsResourceResponse(
        error, message, each.resource_type, each.resource_name
    ),
)
