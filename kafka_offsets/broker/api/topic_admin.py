"""CreateTopics, DeleteTopics and CreatePartitions.

There is one broker, so it is every replica. A requested replication factor must not exceed the number of brokers, as
in Kafka; the configured default is capped at it (`default.replication.factor`). A client may create the offsets topic,
with the settings that it needs. It may delete it, which ends all groups. Partitions cannot be added to it, since their
number decides where a group is stored. The responses were recorded from Kafka 4.3.1.
tests/stories/admin_stories.py lists the few that differ.
"""

from __future__ import annotations

import copy
import uuid
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_offsets.broker.access.throttling import MutationsOfRequest
from kafka_offsets.broker.api import fetch
from kafka_offsets.broker.config.topic import check_topic_configs, describe_topic
from kafka_offsets.broker.config.types import Described
from kafka_offsets.broker.partition.partitions import Topic
from kafka_offsets.broker.partition.topic_names import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    Collisions,
    invalid_topic_name,
)
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ConfigError, ErrorCode, StorageError
from kafka_offsets.incidents import DELETED
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse
from kafka_offsets.security.acls import AclOperation, ResourceType
from kafka_offsets.security.authorizer import DENIALS, Sender
from kafka_offsets.storage.directory.catalogue import CLUSTER_METADATA_TOPIC, NewTopic

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

_DEFAULT = -1
_MOST_PARTITIONS = 10_000
"""The most partitions that one request may create."""

_MOST_RECORDS = 10_000
"""The most records that one request may cost Kafka's controller: one for each topic, setting and partition."""

_COORDINATOR_CONFIGS = {"cleanup.policy": "compact"}
"""What the topics of coordinators need, unless the client that creates one sets it: retention would delete their
records."""

_DISABLED_SINCE = 3
"""The first version of DeleteTopics whose clients know TOPIC_DELETION_DISABLED (KIP-322)."""

_CREATION_IS_STRICT_SINCE, _DELETION_IS_STRICT_SINCE, _GROWTH_IS_STRICT_SINCE = 6, 5, 3
"""From these versions of CreateTopics, DeleteTopics and CreatePartitions on, clients know THROTTLING_QUOTA_EXCEEDED
(KIP-599). Requests of earlier versions are decided, and throttled afterwards."""

_TOO_FEW_BROKERS = (
    "The target replication factor of {} cannot be reached because only {} broker(s) are registered or some brokers "
    "have all their log directories cordoned."
)

_NOT_STORED = "The topic exists in the cluster, and this broker could not store it yet."

logger = new_logger(__name__)

_Key = TypeVar("_Key", bound=Hashable)
_Request = TypeVar(
    "_Request",
    "messages.CreateTopicsRequest",
    "messages.DeleteTopicsRequest",
    "messages.CreatePartitionsRequest",
)
Refusal = tuple[ErrorCode, str | None]
_FINE: Refusal = (ErrorCode.NONE, None)
_NO_PARTITIONS: Refusal = (
    ErrorCode.INVALID_PARTITIONS,
    "Number of partitions was set to an invalid non-positive value.",
)
_TOO_MANY_PARTITIONS: Refusal = (
    ErrorCode.POLICY_VIOLATION,
    "Excessively large number of partitions per request.",
)
_TOO_MANY_RECORDS: Refusal = (
    ErrorCode.POLICY_VIOLATION,
    "Unable to perform excessively large batch operation.",
)
_TWICE: Refusal = (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
_OVER_QUOTA: Refusal = (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)


def is_too_late(timeout_ms: int) -> bool:
    """Return whether a request has timed out when it arrives: Kafka's controller then does nothing."""
    return timeout_ms <= 0


def create_topic(broker: Context, name: str, partition_count: int, config: Mapping[str, object]) -> None:
    """Create a topic without a request; ValueError when its name, count or configuration is refused. StorageError."""
    configs = {key: _text(value) for key, value in config.items()}
    error, message = check_new_topic(broker, name, partition_count, configs)
    if error is not ErrorCode.NONE:
        raise ValueError(f"topic {name!r}: {message or error.name}")
    _start_coordinating(broker, broker.topics.create(name, partition_count, configs), broker.clock.now())


def _text(value: object) -> str:
    """Return the value of a key as a file of properties has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _start_coordinating(broker: Context, topic: Topic, now: Now) -> None:
    """Start to coordinate a new topic, if it is the offsets topic or the transactions topic."""
    if topic.name == OFFSETS_TOPIC:
        broker.groups.runtime.start(topic.partition_count, now)
    elif topic.name == TRANSACTIONS_TOPIC:
        broker.transactions.topic_created()


def topic_deleted(broker: Context, name: str) -> None:
    """Handle a deleted topic: answer its fetches and delete its offsets; with the offsets topic drop all groups."""
    fetch.answer_waiting(broker, lambda topic, _: topic == name, broker.clock.now())
    if name == OFFSETS_TOPIC:
        broker.groups.shards.topic_deleted()
    elif name == TRANSACTIONS_TOPIC:
        broker.transactions.topic_deleted()
    else:
        broker.groups.expiry.topic_deleted(name)


def _unique_keys(keys: Iterable[_Key]) -> set[_Key]:
    """Return the keys that occur exactly once. Duplicates are refused before rights and the time-out are checked."""
    return {key for key, times in Counter(keys).items() if times == 1}


def _with_topics(request: _Request, topics: list[Any]) -> _Request:
    """Return a request for some of its topics."""
    part = copy.copy(request)
    part.topics = topics
    return part


def check_new_topic(
    broker: Context,
    name: str,
    partition_count: int,
    configs: Mapping[str, str | None],
    collisions: Collisions | None = None,
) -> Refusal:
    """Return whether a topic can be created, and if not Kafka's code and message for why.

    collisions  with the existing topics, for callers that check many names
    """
    error, message = _check_name(broker, name, collisions or Collisions(broker.topics.names))
    if error is ErrorCode.NONE:
        error, message = _check_configs(broker, configs)
    if error is ErrorCode.NONE and partition_count < 1:
        error, message = _NO_PARTITIONS
    if error is ErrorCode.NONE and partition_count > _MOST_PARTITIONS:
        error, message = _TOO_MANY_PARTITIONS
    if error is ErrorCode.NONE:
        error, message = _check_brokers(broker, name, _DEFAULT)
    return error, message


def _check_name(broker: Context, name: str, collisions: Collisions) -> Refusal:
    if name == CLUSTER_METADATA_TOPIC:
        return ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
    if broker.topics.get(name) is not None:
        return _exists(name)
    invalid = invalid_topic_name(name)
    if invalid:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, invalid
    colliding = collisions.find(name)
    if colliding:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {colliding}"
    return _FINE


def _exists(name: str) -> Refusal:
    return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."


def _check_present(absent: Collection[str]) -> Refusal:
    if not absent:
        return _FINE
    message = f"Null value not supported for topic configs: {','.join(absent)}"
    return ErrorCode.INVALID_CONFIG, message


def _check_configs(broker: Context, configs: Mapping[str, str | None]) -> Refusal:
    refusal = _check_present([name for name, value in configs.items() if value is None])
    if refusal is not _FINE:
        return refusal
    try:
        check_topic_configs(configs)
    except ConfigError as error:
        return ErrorCode.INVALID_CONFIG, str(error)
    return _FINE


def _present(configs: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in configs.items() if value is not None}


# -- CreateTopics -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Plan:
    """A requested topic, and the reason why it is refused, if it is."""

    name: str
    partition_count: int = 0
    replication_factor: int | None = None
    replicas: list[list[int]] | None = None
    configs: dict[str, str] = field(default_factory=dict)
    topic_id: bytes = NO_TOPIC_ID
    refusal: Refusal = _FINE


def create_topics(
    broker: Context, request: messages.CreateTopicsRequest, context: RequestContext, now: Now
) -> messages.CreateTopicsResponse:
    """Create the topics that the sender may create, each by itself."""
    sender = context.sender
    names = sorted(_unique_keys(topic.name for topic in request.topics) - {CLUSTER_METADATA_TOPIC})
    may_all = sender.sees(AclOperation.CREATE, ResourceType.CLUSTER)
    denied = [n for n in names if not (may_all or sender.may(AclOperation.CREATE, ResourceType.TOPIC, n))]
    topics = [topic for topic in request.topics if topic.name not in denied]
    response = _create_topics(broker, _with_topics(request, topics), context, now)
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."
    response.topics += [_created(broker, _Plan(name, refusal=error), sender) for name in denied]
    return response


def _create_topics(
    broker: Context, request: messages.CreateTopicsRequest, context: RequestContext, now: Now
) -> messages.CreateTopicsResponse:
    """Create topics. All names are checked before the first topic is created."""
    if is_too_late(request.timeout_ms) and _unique_keys(t.name for t in request.topics) - {
        CLUSTER_METADATA_TOPIC
    }:
        return refuse(request, ErrorCode.REQUEST_TIMED_OUT, context.api_version)
    plans = _plans(broker, request.topics)
    quota = MutationsOfRequest(broker.access.throttling, context, now, _CREATION_IS_STRICT_SINCE)
    for plan in _accepted(plans):
        plan.refusal = _OVER_QUOTA if quota.refuses(plan.partition_count) else _FINE
    accepted = _accepted(plans)
    if not request.validate_only:
        _create(broker, accepted, now)
    for plan in accepted if request.validate_only else ():
        plan.topic_id = uuid.uuid4().bytes  # a random number, as in Kafka
    return messages.CreateTopicsResponse(
        quota.throttle_ms, [_created(broker, plan, context.sender) for plan in plans]
    )


def _plans(broker: Context, creatable: Iterable[messages.CreateTopicsRequest.CreatableTopic]) -> list[_Plan]:
    """Decide about every topic of a request, in the order of Kafka's answer.

    A name that occurs more than once is refused once, after the others, and the log of the metadata after these.
    """
    topics = list(creatable)
    if sum(_asked_partitions(broker, topic) for topic in topics) > _MOST_PARTITIONS:
        return [_Plan(topic.name, refusal=_TOO_MANY_PARTITIONS) for topic in topics]
    times = Counter(topic.name for topic in topics)
    by_name = {topic.name: topic for topic in topics}
    collisions = Collisions(broker.topics.names)
    plans = [
        *(_plan(broker, topic, collisions) for topic in topics if times[topic.name] == 1),
        *(_Plan(name, refusal=_TWICE) for name, count in times.items() if count > 1),
    ]
    plans.sort(key=lambda plan: plan.name == CLUSTER_METADATA_TOPIC)
    new = [NewTopic(plan.name, plan.partition_count, plan.configs) for plan in _accepted(plans)]
    if costs_too_much(new):
        return [_Plan(name, refusal=_TOO_MANY_RECORDS) for name in by_name]
    return plans


def _accepted(plans: Iterable[_Plan]) -> list[_Plan]:
    return [plan for plan in plans if plan.refusal is _FINE]


def costs_too_much(topics: Iterable[NewTopic]) -> bool:
    """Return whether Kafka's controller would refuse these topics in one request."""
    return sum(1 + topic.partition_count + len(topic.configs) for topic in topics) > _MOST_RECORDS


def _asked_partitions(broker: Context, topic: messages.CreateTopicsRequest.CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return broker.config.num_partitions if topic.num_partitions == _DEFAULT else max(topic.num_partitions, 0)


def _plan(
    broker: Context, topic: messages.CreateTopicsRequest.CreatableTopic, collisions: Collisions
) -> _Plan:
    configs = {config.name: config.value for config in topic.configs}
    plan = _Plan(topic.name, _asked_partitions(broker, topic), configs=_present(configs))
    if topic.assignments:
        placed = sorted(topic.assignments, key=lambda assignment: assignment.partition_index)
        plan.replicas = [assignment.broker_ids for assignment in placed]
    elif topic.replication_factor != _DEFAULT:
        plan.replication_factor = topic.replication_factor
    absent = [config.name for config in topic.configs if config.value is None]
    for refusal in (
        _check_name(broker, topic.name, collisions),
        _check_present(absent),
        _check_configs(broker, configs),
        _check_assignments(broker, topic) if topic.assignments else _check_counts(broker, topic),
    ):
        if refusal is not _FINE:
            plan.refusal = refusal
            break
    if topic.name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
        plan.configs = _COORDINATOR_CONFIGS | plan.configs
    return plan


def _check_counts(broker: Context, topic: messages.CreateTopicsRequest.CreatableTopic) -> Refusal:
    factor = topic.replication_factor
    if factor < _DEFAULT or factor == 0:
        return (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < _DEFAULT or topic.num_partitions == 0:
        return _NO_PARTITIONS
    return _check_brokers(broker, topic.name, factor)


def _check_brokers(broker: Context, name: str, factor: int) -> Refusal:
    """Check that there are as many brokers as a topic has replicas; also by default, where it would wait for more."""
    if factor == _DEFAULT and broker.topics.cluster is not None:
        factor = broker.topics.cluster.needed_brokers(name)
    count = len(broker.node.broker_ids)
    if factor > count:
        too_few = _TOO_FEW_BROKERS.format(factor, count)
        return (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): {too_few}",
        )
    return _FINE


def _check_assignments(broker: Context, topic: messages.CreateTopicsRequest.CreatableTopic) -> Refusal:
    """Check a manual placement of replicas: on one broker only one is valid."""
    specified = "A manual partition assignment was specified, but"
    if topic.replication_factor != _DEFAULT:
        return ErrorCode.INVALID_REQUEST, f"{specified} replication factor was not set to -1."
    if topic.num_partitions != _DEFAULT:
        return ErrorCode.INVALID_REQUEST, f"{specified} numPartitions was not set to -1."
    seen: set[int] = set()
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in seen:
            return (
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        refusal = check_replicas(broker, assignment.broker_ids, len(topic.assignments[0].broker_ids))
        if refusal is not _FINE:
            return refusal
        seen.add(index)
    if seen != set(range(len(seen))):
        return (
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return _FINE


def check_replicas(broker: Context, broker_ids: list[int], factor: int | None = None) -> Refusal:
    """Check the brokers that a client requests for a partition.

    factor  how many other partitions of the topic have; None: any number
    """
    assignment = "The manual partition assignment includes"
    if not broker_ids:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{assignment} an empty replica list."
    # Kafka checks in this order: from the lowest id on, first whether the broker exists, then for duplicates.
    previous = None
    for broker_id in sorted(broker_ids):
        if broker_id not in broker.node.broker_ids:
            return (
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{assignment} broker {broker_id}, but no such broker is registered.",
            )
        if broker_id == previous:
            return (
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{assignment} the broker {broker_id} more than once.",
            )
        previous = broker_id
    if factor is not None and len(broker_ids) != factor:
        mismatch = f"{assignment} a partition with {len(broker_ids)} replica(s)"
        return (
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{mismatch}, but this is not consistent with previous partitions, which have {factor} replica(s).",
        )
    return _FINE


def _create(broker: Context, plans: list[_Plan], now: Now) -> None:
    try:
        topics = broker.topics.create_several(
            [
                NewTopic(
                    plan.name,
                    plan.partition_count,
                    plan.configs,
                    replication_factor=plan.replication_factor,
                    replicas=plan.replicas,
                )
                for plan in plans
            ]
        )
    except StorageError as error:
        existing = [plan for plan in plans if broker.topics.get(plan.name) is not None]
        if existing:  # another broker has created some of them
            for plan in existing:
                plan.refusal = _exists(plan.name)
            _create(broker, _accepted(plans), now)
            return
        logger.error("topics were not created: %s: %s", ", ".join(plan.name for plan in plans), error)
        for plan in plans:
            plan.refusal = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        return
    for plan, topic in zip(plans, topics, strict=True):
        if topic is None:
            plan.refusal = ErrorCode.KAFKA_STORAGE_ERROR, _NOT_STORED
            continue
        plan.topic_id = topic.topic_id
        _start_coordinating(broker, topic, now)


def _created(
    broker: Context, plan: _Plan, sender: Sender
) -> messages.CreateTopicsResponse.CreatableTopicResult:
    response = messages.CreateTopicsResponse
    if plan.refusal is not _FINE:
        error, message = plan.refusal
        return response.CreatableTopicResult(plan.name, error_code=error, error_message=message)
    if not sender.sees(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, plan.name):
        denial = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return response.CreatableTopicResult(plan.name, plan.topic_id, 0, None, denial, -1, -1, [])
    return response.CreatableTopicResult(
        name=plan.name,
        topic_id=plan.topic_id,
        error_message=None,
        num_partitions=plan.partition_count,
        replication_factor=1,
        configs=[
            _created_config(described, plan.configs.get(described.name))
            for described in sorted(describe_topic(broker.config, plan.configs), key=attrgetter("name"))
        ],
    )


def _created_config(
    described: Described, own_value: str | None
) -> messages.CreateTopicsResponse.CreatableTopicConfigs:
    """A key of a new topic; as in Kafka, the text of the request itself is its value, " 5 " for example."""
    value = described.value if own_value is None else own_value
    return messages.CreateTopicsResponse.CreatableTopicConfigs(
        described.name, value, described.read_only, described.source, is_sensitive=False
    )


# -- DeleteTopics -------------------------------------------------------------------------------------------------


def delete_topics(
    broker: Context, request: messages.DeleteTopicsRequest, context: RequestContext, now: Now
) -> messages.DeleteTopicsResponse:
    """Delete the topics that the sender may delete, by name or by id."""
    if not broker.config.delete_topic_enable:
        knows = context.api_version >= _DISABLED_SINCE
        error = ErrorCode.TOPIC_DELETION_DISABLED if knows else ErrorCode.INVALID_REQUEST
        return refuse(request, error, context.api_version)
    refused = _undeletable(broker, request, context.sender)
    keys = {topic_id if any(topic_id) else name for name, topic_id in refused}
    part = _with_topics(request, [topic for topic in request.topics if _key(topic) not in keys])
    part.topic_names = [name for name in request.topic_names if name not in keys]
    response = _delete_topics(broker, part, context, now)
    response.responses += [_deleted(*name_and_id, *DENIALS[ResourceType.TOPIC]) for name_and_id in refused]
    return response


def _undeletable(
    broker: Context, request: messages.DeleteTopicsRequest, sender: Sender
) -> list[tuple[str | None, bytes]]:
    """Return the name and id of the topics that the sender may not delete, as they are answered.

    What it may not describe is not told from what does not exist.
    """
    if sender.sees(AclOperation.DELETE, ResourceType.CLUSTER):
        return []
    named = [topic.name for topic in request.topics if topic.name and not any(topic.topic_id)]
    refused: list[tuple[str | None, bytes]] = [
        (name, NO_TOPIC_ID)
        for name in sorted(_unique_keys([*request.topic_names, *named]))
        if not sender.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
        or (broker.topics.get(name) and not sender.may(AclOperation.DELETE, ResourceType.TOPIC, name))
    ]
    ids = _unique_keys(topic.topic_id for topic in request.topics if topic.name is None)
    for topic_id in sorted(ids - {NO_TOPIC_ID}):
        name = broker.topics.topic_name(topic_id)
        if name is not None and not sender.may(AclOperation.DELETE, ResourceType.TOPIC, name):
            is_seen = sender.sees(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
            refused.append((name if is_seen else None, topic_id))
    return refused


def _delete_topics(
    broker: Context, request: messages.DeleteTopicsRequest, context: RequestContext, now: Now
) -> messages.DeleteTopicsResponse:
    """Delete topics, each for itself."""
    keys = [*request.topic_names, *(key for topic in request.topics if (key := _key(topic)))]
    if is_too_late(request.timeout_ms) and _unique_keys(keys):
        return refuse(request, ErrorCode.REQUEST_TIMED_OUT, context.api_version)
    topics, results = _topics_to_delete(broker, request)
    quota = MutationsOfRequest(broker.access.throttling, context, now, _DELETION_IS_STRICT_SINCE)
    deleted = []
    for topic in topics:
        if quota.refuses(topic.partition_count):
            results.append(_deleted(topic.name, topic.topic_id, *_OVER_QUOTA))
        else:
            deleted.append(topic)
    for topic, (error, message) in zip(deleted, _delete(broker, deleted), strict=True):
        results.append(_deleted(topic.name, topic.topic_id, error, message))
    return messages.DeleteTopicsResponse(quota.throttle_ms, results)


def _key(topic: messages.DeleteTopicsRequest.DeleteTopicState) -> str | bytes | None:
    """Return the name or the id of a topic; None where both are given or neither is."""
    if topic.name is not None:
        return None if any(topic.topic_id) else topic.name
    return topic.topic_id if any(topic.topic_id) else None


def _topics_to_delete(
    broker: Context, request: messages.DeleteTopicsRequest
) -> tuple[list[Topic], list[messages.DeleteTopicsResponse.DeletableTopicResult]]:
    """Return the topics to delete, and the responses for those that cannot be deleted."""
    refused = []
    names: list[str] = list(request.topic_names)
    ids: list[bytes] = []
    for state in request.topics:
        if state.name is not None and any(state.topic_id):
            message = "You may not specify both topic name and topic id."
            refused.append(_deleted(state.name, state.topic_id, ErrorCode.INVALID_REQUEST, message))
        elif state.name is not None:
            names.append(state.name)
        elif any(state.topic_id):
            ids.append(state.topic_id)
        else:
            message = "Neither topic name nor id were specified."
            refused.append(_deleted(None, NO_TOPIC_ID, ErrorCode.INVALID_REQUEST, message))
    topics_by_id: dict[bytes, Topic | None] = {}
    for topic_id, times in Counter(ids).items():
        if times > 1:
            refused.append(_deleted(None, topic_id, ErrorCode.INVALID_REQUEST, "Duplicate topic id."))
            topics_by_id[topic_id] = None
            continue
        topic = broker.topics.by_id(topic_id)
        if topic is None:
            unknown = "This server does not host this topic ID."
            refused.append(_deleted(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, unknown))
        else:
            topics_by_id[topic_id] = topic
    for name, times in Counter(names).items():
        topic = broker.topics.get(name)
        if times > 1:
            refused.append(_deleted(name, NO_TOPIC_ID, *_TWICE))
        elif topic is None:
            unknown = "This server does not host this topic-partition."
            refused.append(_deleted(name, NO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown))
        elif topic.topic_id in topics_by_id:
            message = "The provided topic name maps to an ID that was already supplied."
            refused.append(_deleted(name, topic.topic_id, ErrorCode.INVALID_REQUEST, message))
            topics_by_id[topic.topic_id] = None
        else:
            topics_by_id[topic.topic_id] = topic
    return [topic for topic in topics_by_id.values() if topic is not None], refused


def _delete(broker: Context, topics: list[Topic]) -> list[Refusal]:
    """Delete all of these topics or none."""
    if not topics:
        return []
    names = [topic.name for topic in topics]
    try:
        broker.topics.delete_several(names)
    except StorageError as error:
        if broker.topics.get(names[0]) is not None:
            logger.error("topics were not deleted: %s: %s", ", ".join(names), error)
            return [(ErrorCode.KAFKA_STORAGE_ERROR, str(error))] * len(topics)
        logger.error("deleted topics leave folders until the next start: %s: %s", ", ".join(names), error)
    for name in names:
        topic_deleted(broker, name)
        broker.responses.incidents.add(DELETED, broker.clock.now().wall_ms, topic=name)
    return [_FINE] * len(topics)


def _deleted(
    name: str | None, topic_id: bytes, error: ErrorCode, message: str | None
) -> messages.DeleteTopicsResponse.DeletableTopicResult:
    return messages.DeleteTopicsResponse.DeletableTopicResult(name, topic_id, error, message)


# -- CreatePartitions ---------------------------------------------------------------------------------------------


def create_partitions(
    broker: Context, request: messages.CreatePartitionsRequest, context: RequestContext, now: Now
) -> messages.CreatePartitionsResponse:
    """Add partitions to the topics that the sender may alter, each by itself."""
    may_alter = partial(context.sender.may, AclOperation.ALTER, ResourceType.TOPIC)
    denied = [
        name for name in sorted(_unique_keys(topic.name for topic in request.topics)) if not may_alter(name)
    ]
    topics = [topic for topic in request.topics if topic.name not in denied]
    response = _create_partitions(broker, _with_topics(request, topics), context, now)
    result, error = (
        messages.CreatePartitionsResponse.CreatePartitionsTopicResult,
        DENIALS[ResourceType.TOPIC][0],
    )
    response.results[:0] = [result(name, error, None) for name in denied]
    return response


def _create_partitions(
    broker: Context, request: messages.CreatePartitionsRequest, context: RequestContext, now: Now
) -> messages.CreatePartitionsResponse:
    response = messages.CreatePartitionsResponse
    times = Counter(topic.name for topic in request.topics)
    if is_too_late(request.timeout_ms) and _unique_keys(topic.name for topic in request.topics):
        return refuse(request, ErrorCode.REQUEST_TIMED_OUT, context.api_version)
    results = []
    totals: dict[str, int] = {}
    replicas: dict[str, list[list[int]]] = {}
    room = _MOST_PARTITIONS
    quota = MutationsOfRequest(broker.access.throttling, context, now, _GROWTH_IS_STRICT_SINCE)
    for name, requested in {topic.name: topic for topic in request.topics}.items():
        topic = broker.topics.get(name)
        error, message = _TWICE if times[name] > 1 else _check_growth(broker, requested, room)
        if error is ErrorCode.NONE and topic is not None:
            refused = quota.refuses(requested.count - topic.partition_count)
            error, message = _OVER_QUOTA if refused else _FINE
        if error is ErrorCode.NONE and topic is not None:
            room -= requested.count - topic.partition_count
            totals[name] = requested.count
            if requested.assignments is not None:
                replicas[name] = [assignment.broker_ids for assignment in requested.assignments]
        results.append(response.CreatePartitionsTopicResult(name, error, message))
    error, message = _FINE if request.validate_only or not totals else _grow(broker, totals, replicas)
    for result in results:
        if result.name in totals:
            result.error_code, result.error_message = error, message
    return response(quota.throttle_ms, results)


def _check_growth(
    broker: Context, requested: messages.CreatePartitionsRequest.CreatePartitionsTopic, room: int
) -> Refusal:
    topic = broker.topics.get(requested.name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    additional = requested.count - topic.partition_count
    if additional == 0:
        return ErrorCode.INVALID_PARTITIONS, f"Topic already has {topic.partition_count} partition(s)."
    if additional < 0:
        has = f"The topic {topic.name} currently has {topic.partition_count} partition(s)"
        return ErrorCode.INVALID_PARTITIONS, f"{has}; {requested.count} would not be an increase."
    if topic.name == OFFSETS_TOPIC:
        return (
            ErrorCode.INVALID_PARTITIONS,
            "The offsets topic cannot grow: groups are found by the number of its partitions.",
        )
    if topic.name == TRANSACTIONS_TOPIC:
        return (
            ErrorCode.INVALID_PARTITIONS,
            "The topic of transactions cannot grow: their ids are found by the number of its partitions.",
        )
    if additional > room:
        return _TOO_MANY_PARTITIONS
    state = None if broker.replicas is None else broker.replicas.state(topic.name, 0)
    factor = 1 if state is None else len(state.replicas)
    if requested.assignments is None:
        count = len(broker.node.broker_ids)
        too_few = ErrorCode.INVALID_REPLICATION_FACTOR, _TOO_FEW_BROKERS.format(factor, count)
        return too_few if factor > count else _FINE
    if len(requested.assignments) != additional:
        wants = f"Attempted to add {additional} additional partition(s)"
        mismatch = f"only {len(requested.assignments)} assignment(s) were specified."
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{wants}, but {mismatch}"
    checked = (check_replicas(broker, assignment.broker_ids, factor) for assignment in requested.assignments)
    return next((refusal for refusal in checked if refusal is not _FINE), _FINE)


def _grow(broker: Context, totals: dict[str, int], replicas: dict[str, list[list[int]]]) -> Refusal:
    try:
        broker.topics.grow_several(totals, replicas)
    except StorageError as error:
        logger.error("partitions were not added: %s: %s", ", ".join(totals), error)
        return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    return _FINE
