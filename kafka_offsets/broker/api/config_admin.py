"""DescribeConfigs and IncrementalAlterConfigs: the configuration of topics, groups and the broker.

Topics can be configured, and their settings are stored with them. The broker's own keys are described and cannot change
while it runs, except for the keystores and truststores of listeners. Groups have the keys of consumer groups. Loggers
and client metrics, which Kafka also has, have no configuration here: setting one is refused, as Kafka refuses an
unknown one. The responses were recorded from Kafka 4.3.1. tests/stories/admin_stories.py lists the few that
differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafka_offsets.broker.access.listener_stores import STORE_KEYS
from kafka_offsets.broker.config.keys import KEYS as BROKER_KEYS
from kafka_offsets.broker.config.topic import TOPIC_KEYS, TopicConfig, describe_topic
from kafka_offsets.broker.config.types import Described, Type, text_of
from kafka_offsets.broker.partition.topic_names import invalid_topic_name
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ConfigError, ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse
from kafka_offsets.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from kafka_offsets.security.authorizer import DENIALS, Sender

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

    Change = messages.IncrementalAlterConfigsRequest.AlterableConfig


class Resource(IntEnum):
    """The owner of a configuration, by the numbers of ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AlterOperation(IntEnum):
    """The operations of IncrementalAlterConfigs on a key (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_TYPES = frozenset(Resource)
_OWNERS: dict[int, ResourceType] = {Resource.TOPIC: ResourceType.TOPIC, Resource.GROUP: ResourceType.GROUP}
"""Resources with configurations of their own; all others belong to the cluster."""
_OPERATIONS = frozenset(AlterOperation)
_BY_BROKER = Resource.BROKER, Resource.BROKER_LOGGER
"""Resources that the broker checks before it asks its controller."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)

logger = new_logger(__name__)


class _RefusedError(Exception):
    """A resource that cannot be described or altered: Kafka's code and message."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class _Named(Protocol):
    """A resource in a request."""

    resource_type: int
    resource_name: str


class _Altered(Protocol):
    """The result for one resource, in a response."""

    error_code: int
    error_message: str | None


R = TypeVar("R", bound=_Named)
A = TypeVar("A", bound=_Altered)


def _denial(
    may: Callable[[AclOperation, ResourceType, str], bool], operation: AclOperation, resource: _Named
) -> tuple[ErrorCode, str] | None:
    """Return the error of a sender that may not do an operation with a configuration: that of its owner."""
    owner = _OWNERS.get(resource.resource_type, ResourceType.CLUSTER)
    name = CLUSTER_NAME if owner is ResourceType.CLUSTER else resource.resource_name
    return None if may(operation, owner, name) else DENIALS[owner]


def _invalid(message: str) -> _RefusedError:
    return _RefusedError(ErrorCode.INVALID_REQUEST, message)


# -- DescribeConfigs ----------------------------------------------------------------------------------------------


def describe_configs(
    broker: Context, request: messages.DescribeConfigsRequest, context: RequestContext, now: Now
) -> messages.DescribeConfigsResponse:
    """Describe the keys of each resource, sorted by name: all of them, or the requested ones.

    One resource of an unknown type fails the whole request.
    """
    response = messages.DescribeConfigsResponse
    if any(resource.resource_type not in _TYPES for resource in request.resources):
        failed: messages.DescribeConfigsResponse = refuse(
            request, ErrorCode.INVALID_REQUEST, context.api_version
        )
        for result in failed.results:
            result.error_message = _MALFORMED
        return failed
    results, denied = [], []
    for resource in request.resources:
        denial = _denial(context.sender.may, AclOperation.DESCRIBE_CONFIGS, resource)
        if denial is not None:
            denied.append(
                response.DescribeConfigsResult(*denial, resource.resource_type, resource.resource_name)
            )
            continue
        # As in Kafka, the message is "" and not null if there is no error.
        result = response.DescribeConfigsResult(
            ErrorCode.NONE, "", resource.resource_type, resource.resource_name
        )
        try:
            described = _describe(broker, resource.resource_type, resource.resource_name)
        except _RefusedError as refused:
            result.error_code, result.error_message = refused.error, refused.message
        else:
            keys = set(resource.configuration_keys or ())
            result.configs = [
                _described(config, request)
                for config in sorted(described, key=lambda config: config.name)
                if not keys or config.name in keys
            ]
        results.append(result)
    return response(results=results + denied)


def _describe(broker: Context, resource_type: int, name: str) -> list[Described]:
    """Return the keys of one resource. Raises _RefusedError."""
    if resource_type == Resource.TOPIC:
        return _describe_topic(broker, name)
    if resource_type == Resource.BROKER:
        return _describe_broker(broker, name)
    if resource_type == Resource.BROKER_LOGGER:
        if not name:
            raise _invalid("Broker id must not be empty")
        if _broker_id(name) != broker.node.id:
            raise _invalid(f"Unexpected broker id, expected {broker.node.id} but received {name}")
        return []
    if resource_type == Resource.GROUP:
        if not name:
            raise _invalid("Group name must not be empty")
        return broker.groups.configs.describe(name)
    assert resource_type == Resource.CLIENT_METRICS
    if not name:
        raise _invalid("Client metrics subscription name must not be empty")
    return []


def _describe_topic(broker: Context, name: str) -> list[Described]:
    invalid = invalid_topic_name(name)
    if invalid:
        raise _RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, invalid)
    topic = broker.topics.get(name)
    if topic is None:
        raise _RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return describe_topic(broker.config, topic.configs)


def _describe_broker(broker: Context, name: str) -> list[Described]:
    if not name:
        return []  # dynamic defaults of all brokers
    if _broker_id(name) != broker.node.id:
        raise _invalid(
            f"Unexpected broker id, expected {broker.node.id} or empty string, but received {name}"
        )
    return [*broker.config.describe(), *broker.access.listener_stores.described()]


def _broker_id(name: str) -> int:
    if not _INTEGER.fullmatch(name):
        raise _invalid(f"Broker id must be an integer, but it is: {name}")
    return int(name)


def _described(
    described: Described, request: messages.DescribeConfigsRequest
) -> messages.DescribeConfigsResponse.DescribeConfigsResourceResult:
    response = messages.DescribeConfigsResponse
    synonyms = [response.DescribeConfigsSynonym(*synonym) for synonym in described.synonyms]
    return response.DescribeConfigsResourceResult(
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        config_source=described.source,
        is_sensitive=described.is_sensitive,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=described.kind,
        documentation=described.documentation if request.include_documentation else None,
    )


# -- IncrementalAlterConfigs --------------------------------------------------------------------------------------


def incremental_alter_configs(
    broker: Context, request: messages.IncrementalAlterConfigsRequest, context: RequestContext, now: Now
) -> messages.IncrementalAlterConfigsResponse:
    """Change keys of each resource, all of its changes or none.

    An unknown operation fails the whole request, as in Kafka, whose controller fails then; what needs no controller is
    decided before.
    """
    response = messages.IncrementalAlterConfigsResponse

    def changes_of(
        broker: Context, resource: messages.IncrementalAlterConfigsRequest.AlterConfigsResource
    ) -> list[Change]:
        changes = list(resource.configs)
        _check_changes(resource.resource_type, changes)
        if is_failing and resource.resource_type not in _BY_BROKER:
            raise _RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        return changes

    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    is_failing = any(
        _fails_all(resource)
        for resource in request.resources
        if times[resource.resource_type, resource.resource_name] == 1
        and _denial(context.sender.sees, AclOperation.ALTER_CONFIGS, resource) is None
    )
    return response(
        responses=_alter_each(
            broker,
            request.resources,
            context.sender,
            _TYPES,
            response.AlterConfigsResourceResponse,
            changes_of,
            validate_only=request.validate_only,
        )
    )


def _fails_all(resource: messages.IncrementalAlterConfigsRequest.AlterConfigsResource) -> bool:
    """Whether an unknown operation of a resource reaches the controller."""
    are_known = all(change.config_operation in _OPERATIONS for change in resource.configs)
    if are_known or resource.resource_type in _BY_BROKER:
        return False
    try:
        _check_changes(resource.resource_type, resource.configs)
    except _RefusedError:
        return False
    return True


def _alter_each(
    broker: Context,
    resources: list[R],
    sender: Sender,
    types: frozenset[Resource],
    response: Callable[[ErrorCode, None, int, str], A],
    changes_of: Callable[[Context, R], list[Change]],
    *,
    validate_only: bool,
) -> list[A]:
    """Make the changes of each resource of a request, and answer each by itself.

    types  those that the API knows: it refuses others before it asks for a right
    """
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    results = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        result = response(ErrorCode.NONE, None, kind, name)
        try:
            if times[kind, name] > 1:
                raise _invalid("Each resource must appear at most once.")
            if kind in types and (denial := _denial(sender.may, AclOperation.ALTER_CONFIGS, resource)):
                # Loggers are altered by the broker itself, which gives no message.
                raise _RefusedError(denial[0], None if kind == Resource.BROKER_LOGGER else denial[1])
            _alter(broker, kind, name, changes_of(broker, resource), validate_only=validate_only)
        except _RefusedError as refused:
            result.error_code, result.error_message = refused.error, refused.message
        except StorageError as error:
            logger.error("the configuration of %s was not changed: %s", name, error)
            result.error_code, result.error_message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        results.append(result)
    return results


def alter_configs(
    broker: Context, request: messages.AlterConfigsRequest, context: RequestContext, now: Now
) -> messages.AlterConfigsResponse:
    """Replace the settings of each topic or group: keys that are not named get their defaults again (KIP-133).

    Other resources have no settings; the response is that of IncrementalAlterConfigs. A topic that is named twice is
    refused, where Kafka does not answer at all.
    """
    response = messages.AlterConfigsResponse
    types = _TYPES - {Resource.BROKER_LOGGER}
    return response(
        responses=_alter_each(
            broker,
            request.resources,
            context.sender,
            types,
            response.AlterConfigsResourceResponse,
            _replacing,
            validate_only=request.validate_only,
        )
    )


def _replacing(broker: Context, resource: messages.AlterConfigsRequest.AlterConfigsResource) -> list[Change]:
    """The changes after which only the named keys of a topic or a group are set."""
    change = messages.IncrementalAlterConfigsRequest.AlterableConfig
    changes = [change(config.name, AlterOperation.SET, config.value) for config in resource.configs]
    named = {config.name for config in changes}
    _check_changes(resource.resource_type, changes)
    if resource.resource_type == Resource.BROKER_LOGGER:
        raise _invalid(f"Unknown resource type {resource.resource_type}")  # as Kafka, to this API alone
    unnamed = (key for key in _set_of(broker, resource) if key not in named)
    return changes + [change(key, AlterOperation.DELETE, None) for key in unnamed]


def _set_of(broker: Context, resource: messages.AlterConfigsRequest.AlterConfigsResource) -> Iterable[str]:
    """The set keys of a topic or a group; other resources have none."""
    if resource.resource_type == Resource.GROUP:
        return broker.groups.configs.of(resource.resource_name)
    if resource.resource_type == Resource.BROKER:
        return broker.access.listener_stores.names if resource.resource_name else ()
    topic = broker.topics.get(resource.resource_name) if resource.resource_type == Resource.TOPIC else None
    return () if topic is None else topic.configs


def _alter(
    broker: Context, resource_type: int, name: str, changes: list[Change], *, validate_only: bool
) -> None:
    """Make all changes of one resource, or none when it raises _RefusedError or StorageError."""
    if resource_type == Resource.TOPIC:
        _alter_topic(broker, name, changes, validate_only=validate_only)
    elif resource_type == Resource.BROKER:
        _check_broker_changes(broker, name, changes)
        _alter_stores(broker, name, changes, validate_only=validate_only)
    elif resource_type == Resource.BROKER_LOGGER:
        _check_logger_changes(broker, name, changes)
    elif resource_type == Resource.CLIENT_METRICS:
        if not name:
            raise _invalid("Subscription name can't be empty")
        for change in _without_deletions(changes):
            raise _invalid(f"Unknown client metrics configuration: {change.name}")
    else:
        assert resource_type == Resource.GROUP
        _alter_group(broker, name, changes, validate_only=validate_only)


def _check_changes(resource_type: int, changes: list[Change]) -> None:
    if len({change.name for change in changes}) < len(changes):
        raise _invalid("Error due to duplicate config keys")
    absent = [change.name for change in _without_deletions(changes) if change.value is None]
    if absent:
        raise _invalid(f"Null value not supported for : {', '.join(absent)}")
    if resource_type not in _TYPES:
        raise _invalid(f"Unknown resource type {resource_type}")


def _without_deletions(changes: Iterable[Change]) -> list[Change]:
    return [change for change in changes if change.config_operation != AlterOperation.DELETE]


def _alter_topic(broker: Context, name: str, changes: list[Change], *, validate_only: bool) -> None:
    topic = broker.topics.get(name)
    configs = {} if topic is None else dict(topic.configs)
    for change in changes:
        if change.config_operation == AlterOperation.DELETE:
            configs.pop(change.name, None)
        else:
            configs[change.name] = _changed_value(broker, change, configs.get(change.name))
    if not name:
        raise _invalid("Default topic resources are not allowed.")
    invalid = invalid_topic_name(name)
    if invalid:
        raise _RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, invalid)
    try:
        TopicConfig.of(broker.config, configs)
    except ConfigError as error:
        raise _RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if topic is None:
        raise _RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if not validate_only:
        broker.topics.set_configs(name, configs)


def _alter_group(broker: Context, name: str, changes: list[Change], *, validate_only: bool) -> None:
    before = broker.groups.configs.of(name)
    configs = dict(before)
    for change in changes:
        if change.config_operation == AlterOperation.DELETE:
            configs.pop(change.name, None)
            continue
        if change.config_operation != AlterOperation.SET:
            verb = AlterOperation(change.config_operation).name
            message = f"Can't {verb} to key {change.name} because its type is not LIST."
            raise _RefusedError(ErrorCode.INVALID_CONFIG, message)
        assert change.value is not None
        configs[change.name] = change.value
    if not name:
        raise _invalid("Default group resources are not allowed.")
    try:
        broker.groups.configs.check(name, configs)
    except ConfigError as error:
        raise _RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if not validate_only:
        broker.settings.set_group(name, configs)


def _changed_value(broker: Context, change: Change, current: str | None) -> str:
    """Return the new value of a key. A list that is not set starts from its default."""
    assert change.value is not None
    operation = AlterOperation(change.config_operation)
    if operation is AlterOperation.SET:
        return change.value
    key = TOPIC_KEYS.get(change.name)
    if key is None or key.kind is not Type.LIST:
        message = f"Can't {operation.name} to key {change.name} because its type is not LIST."
        raise _RefusedError(ErrorCode.INVALID_CONFIG, message)
    if current is None:
        current = text_of(getattr(TopicConfig.of(broker.config, {}), key.attribute)) or ""
    elements = [element for element in current.split(",") if element]
    for element in change.value.split(","):
        if operation is AlterOperation.APPEND and element not in elements:
            elements.append(element)
        elif operation is AlterOperation.SUBTRACT and element in elements:
            elements.remove(element)
    return ",".join(elements)


def _check_broker_changes(broker: Context, name: str, changes: list[Change]) -> None:
    """Refuse to change a key of the broker while it runs. Removing one that cannot be set changes nothing."""
    if name:
        _check_node(name)
        if int(name) != broker.node.id:
            raise _invalid(f"Unexpected broker id, expected {broker.node.id}, but received {name}")
    unknown = [change.config_operation for change in changes if change.config_operation not in _OPERATIONS]
    if unknown:
        raise _invalid(f"Unknown operations type {unknown[0]}")
    for change in changes:
        key = BROKER_KEYS.get(change.name)
        if change.config_operation > AlterOperation.DELETE and (key is None or key.kind is not Type.LIST):
            verb = AlterOperation(change.config_operation).name.lower()
            message = f"Config value {verb} is not allowed for config key: {change.name}"
            raise _RefusedError(ErrorCode.INVALID_CONFIG, message)
    names = [
        change.name
        for change in _without_deletions(changes)
        if not broker.access.listener_stores.has(change.name)
    ]
    unprefixed = [name for name in names if name in STORE_KEYS]
    if unprefixed:
        only = "These security configs can be dynamically updated only per-listener using the listener prefix"
        raise _invalid(f"{only}: [{', '.join(unprefixed)}]")
    if names:
        raise _invalid(f"Cannot update these configs dynamically: [{', '.join(names)}]")


def _alter_stores(broker: Context, name: str, changes: list[Change], *, validate_only: bool) -> None:
    """Change keystores and truststores of listeners, and read them again."""
    stores = {
        change.name: None if change.config_operation == AlterOperation.DELETE else change.value
        for change in changes
        if broker.access.listener_stores.has(change.name)
    }
    if not stores:
        return
    if not name:
        needed = "Cannot update these configs at default cluster level, broker id must be specified"
        raise _invalid(f"{needed}: [{', '.join(stores)}]")
    try:
        broker.access.listener_stores.alter(stores, validate_only=validate_only)
    except ConfigError as error:
        raise _invalid(str(error)) from error


def _check_logger_changes(broker: Context, name: str, changes: list[Change]) -> None:
    _check_node(name)
    if int(name) != broker.node.id:
        raise _invalid(f"Unexpected node id. Expected {broker.node.id}, but received {name}")
    for change in changes:
        if change.config_operation not in _OPERATIONS:
            raise _RefusedError(
                ErrorCode.UNKNOWN_SERVER_ERROR, None
            )  # as in Kafka, where an exception causes it
        if change.config_operation > AlterOperation.DELETE:
            verb = AlterOperation(change.config_operation).name
            raise _invalid(f"{verb} operation is not allowed for the BROKER_LOGGER resource")
        raise _RefusedError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")


def _check_node(name: str) -> None:
    if not _INTEGER.fullmatch(name):
        raise _invalid(f"Node id must be an integer, but it is: {name}")
