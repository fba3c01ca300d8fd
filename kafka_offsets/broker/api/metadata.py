"""Metadata, DescribeTopicPartitions, DescribeCluster and ApiVersions: brokers, topics, leaders and versions.

One broker is the leader and the only replica of every partition, and the controller. The responses were recorded from
Kafka 4.3.1; tests/stories/admin_stories.py lists the few that differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, TypeVar, cast

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.context.incremental import Budget, Steps, run_incrementally
from kafka_offsets.broker.partition.partitions import INTERNAL_TOPICS, Topic
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, Collisions, invalid_topic_name
from kafka_offsets.broker.wire.api import AdvertisedApis, Later
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse, refuse_throughout
from kafka_offsets.security.acls import AclOperation, ResourceType
from kafka_offsets.security.authorizer import Sender
from kafka_offsets.storage.directory.catalogue import NewTopic
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.directory.start_count import stored_epoch

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

_STEP_US = 5000
"""The longest step, in microseconds of the machine that the costs below were measured on, otherwise idle."""

_TOPIC_US, _PARTITION_US = 3, 1
_CREATED_TOGETHER = 500
"""The most topics that one step creates: a topic costs 10 us, and each step writes and syncs the catalogue."""

Wanted = TypeVar("Wanted")

_NOT_ASKED = -2147483648
_UNKNOWN_EPOCH = -1
_NULL_IS_ALL_SINCE = 1
_IDS_SINCE = 12
"""Earlier versions of Metadata have the topic id field, but cannot use it (KIP-516)."""

_MOST_PARTITIONS = 2000
"""The most partitions of one DescribeTopicPartitions response, the default of max.request.partition.size.limit."""

_BROKERS, _CONTROLLERS = 1, 2
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE = 3
_API_VERSIONS = 18
_FEATURES_FROM_0_SINCE = 4
_FEATURES = {"group.version": 1, "transaction.version": 2}
"""The served features of Kafka, each with its finalized version; all support versions from 0, which is none. They are
KIP-848 groups and the transactions of KIP-890, in which each transaction has an epoch of its own."""

logger = new_logger(__name__)


def metadata(
    broker: Context, request: messages.MetadataRequest, context: RequestContext, now: Now
) -> messages.MetadataResponse | Later:
    """Name the brokers and describe topics; create missing ones if request and configuration allow it.

    Kafka answers the request that creates a topic with an error. Here the topic exists and is described at once, unless
    auto.create.topics.delay.ms is set. Hundreds of topics are created and described in steps.
    """
    return run_incrementally(broker, context, _answered(broker, request, context, now), finishes=True)


def _answered(
    broker: Context, request: messages.MetadataRequest, context: RequestContext, now: Now
) -> Steps[messages.MetadataResponse]:
    version = context.api_version
    if version < _IDS_SINCE and any(t.name is None or any(t.topic_id) for t in request.topics or ()):
        return fail_metadata(request, ErrorCode.INVALID_REQUEST, version)
    denied: dict[str | bytes, None] = {}
    topics = yield from _asked_topics(broker, request, context, now, denied)
    if topics is None:
        # An entry has neither name nor id: Kafka fails with this error.
        return fail_metadata(request, ErrorCode.UNKNOWN_SERVER_ERROR, version)
    sender, response, error = context.sender, messages.MetadataResponse, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None:
                topic.topic_authorized_operations = sender.operations(ResourceType.TOPIC, topic.name)
    topics += [
        response.Topic(error, key, NO_TOPIC_ID) if isinstance(key, str) else response.Topic(error, None, key)
        for key in denied
    ]
    return response(
        brokers=[response.Broker(broker.node.id, *broker.node.address_for(context.connection))],
        cluster_id=broker.node.cluster_id,
        controller_id=broker.node.id,
        topics=topics,
        cluster_authorized_operations=(
            sender.cluster_operations() if request.include_cluster_authorized_operations else _NOT_ASKED
        ),
    )


def _asked_topics(
    broker: Context,
    request: messages.MetadataRequest,
    context: RequestContext,
    now: Now,
    denied: dict[str | bytes, None],
) -> Steps[list[messages.MetadataResponse.Topic] | None]:
    """Describe the requested topics, each once; None when an entry has neither name nor id.

    denied  gets the names and ids that the sender may not describe, nor learn whether they exist
    """
    topics, sender = request.topics, context.sender
    if topics is None or (context.api_version < _NULL_IS_ALL_SINCE and not topics):
        seen = [n for n in broker.topics.names() if sender.sees(AclOperation.DESCRIBE, ResourceType.TOPIC, n)]
        return (yield from _described(broker, seen, broker.topics.get, lambda name: None))
    ids = dict.fromkeys(topic.topic_id for topic in topics if any(topic.topic_id))
    if ids:  # as in Kafka, names are ignored then
        denied.update((topic_id, None) for topic_id in ids if not _may_see_id(broker, sender, topic_id))
        ids = dict.fromkeys(topic_id for topic_id in ids if topic_id not in denied)
        return (yield from _described(broker, ids, broker.topics.by_id, _unknown_id))
    names = dict.fromkeys(topic.name for topic in topics)
    if None in names:
        return None
    topic_names = [name for name in names if name is not None]
    denied.update((name, None) for name in topic_names if not _may_see(broker, sender, request, name))
    topic_names = [name for name in topic_names if name not in denied]
    failed: dict[str, ErrorCode] = {}
    if request.allow_auto_topic_creation and broker.config.auto_create_topics_enable:
        absent = [name for name in topic_names if broker.topics.get(name) is None]
        failed = yield from _create(broker, absent, context, now)
        if broker.config.auto_create_topics_delay_ms:
            described_ms = now.mono_ms + broker.config.auto_create_topics_delay_ms
            broker.undescribed_topics.update(
                (name, described_ms) for name in absent if broker.topics.get(name)
            )

    def described_topic(name: str) -> Topic | None:
        return None if _is_hidden(broker, name, now) else broker.topics.get(name)

    return (
        yield from _described(
            broker, topic_names, described_topic, lambda name: _unknown_topic(name, failed.get(name))
        )
    )


def _may_see_id(broker: Context, sender: Sender, topic_id: bytes) -> bool:
    name = broker.topics.topic_name(topic_id)
    return name is None or sender.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)


def _may_see(broker: Context, sender: Sender, request: messages.MetadataRequest, name: str) -> bool:
    """Whether a topic is described to the sender, or created for it if it is missing."""
    if not sender.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
        return False
    creates = request.allow_auto_topic_creation and broker.config.auto_create_topics_enable
    if not creates or broker.topics.get(name) is not None:
        return True
    may_create_all = sender.sees(AclOperation.CREATE, ResourceType.CLUSTER)
    return may_create_all or sender.may(AclOperation.CREATE, ResourceType.TOPIC, name)


def _described(
    broker: Context,
    keys: Iterable[Wanted],
    find: Callable[[Wanted], Topic | None],
    unknown: Callable[[Wanted], messages.MetadataResponse.Topic | None],
) -> Generator[None, None, list[messages.MetadataResponse.Topic]]:
    """Describe topics in steps, each in the state that it has at its step.

    unknown  describes a topic that `find` does not find, None to exclude it
    """
    budget = Budget(_STEP_US)
    described = []
    for key in keys:
        topic = find(key)
        response = unknown(key) if topic is None else _known_topic(broker, topic)
        if response is not None:
            described.append(response)
            if budget.spend(_TOPIC_US + _PARTITION_US * len(response.partitions)):
                yield
    return described


def _is_hidden(broker: Context, name: str, now: Now) -> bool:
    """Whether a topic that Metadata created is too new to be described."""
    described_ms = broker.undescribed_topics.get(name)
    if described_ms is None:
        return False
    if now.mono_ms < described_ms:
        return True
    del broker.undescribed_topics[name]
    return False


def _create(
    broker: Context, names: list[str], context: RequestContext, now: Now
) -> Generator[None, None, dict[str, ErrorCode]]:
    """Create the requested topics that can be created, within the client's quota; return those that the disk refused.

    None is created when they are too many, as in Kafka, which sends its controller one request for all of them.
    """
    count = broker.config.num_partitions
    new = [NewTopic(name, count) for name in _creatable(broker, names)]
    if topic_admin.costs_too_much(new):
        new = []
    new = [
        topic for topic in new if not broker.access.throttling.mutated(context, count, now, is_strict=True)
    ]
    failed = []
    for begin in range(0, len(new), _CREATED_TOGETHER):
        if begin:
            yield
        chunk = new[begin : begin + _CREATED_TOGETHER]
        if begin:  # other requests may have created some of them, or one with a colliding name
            creatable = set(_creatable(broker, [topic.name for topic in chunk]))
            chunk = [topic for topic in chunk if topic.name in creatable]
        failed += _create_some(broker, chunk)
    if OFFSETS_TOPIC in names:
        try:
            broker.groups.shards.create_topic(now)
        except StorageError as error:
            logger.error("topic %s was not created: %s", OFFSETS_TOPIC, error)
            failed.append(OFFSETS_TOPIC)
    return dict.fromkeys(failed, ErrorCode.KAFKA_STORAGE_ERROR)


def _create_some(broker: Context, new: list[NewTopic]) -> list[str]:
    """Create topics; return those that the disk or the controller refused."""
    try:
        broker.topics.create_several(new)
    except StorageError as error:
        missing = [topic for topic in new if broker.topics.get(topic.name) is None]
        if len(missing) < len(new):  # another broker has created some of them
            return _create_some(broker, missing)
        names = [topic.name for topic in new]
        logger.error("topics were not created: %s: %s", ", ".join(names), error)
        return names
    return []


def _creatable(broker: Context, names: list[str]) -> list[str]:
    """Return the names that topics can be created with, without the topics of coordinators."""
    collisions = Collisions(broker.topics.names)
    return [
        name
        for name in names
        if name not in INTERNAL_TOPICS
        and topic_admin.check_new_topic(broker, name, broker.config.num_partitions, {}, collisions)[0]
        is ErrorCode.NONE
    ]


def _known_topic(broker: Context, topic: Topic) -> messages.MetadataResponse.Topic:
    response = messages.MetadataResponse
    node_id = broker.node.id
    replicas = [node_id]
    partitions = [
        response.Partition(ErrorCode.NONE, index, node_id, epoch, replicas, replicas, [])
        for index, epoch in enumerate(leader_epochs(broker, topic))
    ]
    return response.Topic(ErrorCode.NONE, topic.name, topic.topic_id, topic.is_internal, partitions)


def _unknown_topic(name: str, error: ErrorCode | None) -> messages.MetadataResponse.Topic:
    return messages.MetadataResponse.Topic(
        error or _unknown_topic_error(name), name, NO_TOPIC_ID, name in INTERNAL_TOPICS
    )


def _unknown_id(topic_id: bytes) -> messages.MetadataResponse.Topic:
    return messages.MetadataResponse.Topic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)


def _unknown_topic_error(name: str) -> ErrorCode:
    if invalid_topic_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def leader_epochs(broker: Context, topic: Topic, start: int = 0, stop: int | None = None) -> list[int]:
    """Return the leader epoch of partitions of a topic, without opening unused logs.

    An unopened log has its last epoch in a file, which is read once. -1 when the file is damaged: opening the log
    reports the damage.
    """
    known_epochs = topic.epochs
    epochs = []
    for index, partition in enumerate(topic.partitions[start:stop], start):
        if partition is not None:
            epochs.append(partition.leader_epoch)
            continue
        epoch = known_epochs.get(index)
        if epoch is None:
            epoch = known_epochs[index] = _counted_epoch(broker.directory, topic.name, index)
        epochs.append(epoch)
    return epochs


def _counted_epoch(directory: DataDirectory, topic: str, index: int) -> int:
    try:
        return directory.leader_epoch(topic, index, stored_epoch(directory.files, f"{topic}-{index}"))
    except StorageError:
        return _UNKNOWN_EPOCH


def fail_metadata(
    request: messages.MetadataRequest, error: ErrorCode, api_version: int
) -> messages.MetadataResponse:
    """Answer every topic of the request with `error`. One named only by its id gets the name "", as in Kafka."""
    response: messages.MetadataResponse = refuse_throughout(request, error, api_version)
    for topic in response.topics:
        topic.name = topic.name or ""
    return response


def describe_topic_partitions(
    broker: Context, request: messages.DescribeTopicPartitionsRequest, context: RequestContext, now: Now
) -> messages.DescribeTopicPartitionsResponse:
    """Describe partitions by pages (KIP-966): topics sorted by name, from the cursor on, up to a limit."""
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    named = {topic.name for topic in request.topics}
    names = sorted(name for name in (named or broker.topics.names()) if name >= first)
    if cursor is not None and ((named and first not in named) or cursor.partition_index < 0):
        return refuse(request, ErrorCode.INVALID_REQUEST, context.api_version)
    if "" in names:  # Kafka fails with this error when it authorizes an empty name
        return refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, context.api_version)
    made = messages.DescribeTopicPartitionsResponse
    sender = context.sender
    allowed = [name for name in names if sender.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)]
    remaining = max(min(request.response_partition_limit, _MOST_PARTITIONS), 1)
    response = made()
    for name in allowed:
        if remaining == 0:
            response.next_cursor = made.Cursor(name, 0)
            break
        start = cursor.partition_index if cursor is not None and name == first else 0
        topic = broker.topics.get(name)
        response.topics.append(_page(broker, name, topic, start, remaining))
        response.topics[-1].topic_authorized_operations = sender.operations(ResourceType.TOPIC, name)
        taken = len(response.topics[-1].partitions)
        if topic is not None and start + taken < topic.partition_count:
            response.next_cursor = made.Cursor(name, start + taken)
            break
        remaining -= taken
    if named:
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.topics += [made.Topic(error, name) for name in names if name not in allowed]
    return response


def _page(
    broker: Context, name: str, topic: Topic | None, start: int, limit: int
) -> messages.DescribeTopicPartitionsResponse.Topic:
    """Describe up to `limit` partitions of one topic from `start` on."""
    response = messages.DescribeTopicPartitionsResponse
    if topic is None:
        page = response.Topic(_unknown_topic_error(name), name, NO_TOPIC_ID, name in INTERNAL_TOPICS)
    else:
        # The arrays of eligible leaders are never null: Java's Admin does not check that (KIP-966).
        node_id = broker.node.id
        replicas = [node_id]
        partitions = [
            response.Partition(ErrorCode.NONE, index, node_id, epoch, replicas, replicas, [], [], [])
            for index, epoch in enumerate(leader_epochs(broker, topic, start, start + limit), start)
        ]
        page = response.Topic(ErrorCode.NONE, name, topic.topic_id, topic.is_internal, partitions)
    return page


def describe_cluster(
    broker: Context, request: messages.DescribeClusterRequest, context: RequestContext, now: Now
) -> messages.DescribeClusterResponse:
    """Name the brokers of the cluster."""
    response = messages.DescribeClusterResponse
    error, message, brokers, controller, operations = ErrorCode.NONE, None, [], -1, _NOT_ASKED
    cluster_id = ""  # of a refused request, as in Kafka
    if request.endpoint_type == _BROKERS:
        cluster_id = broker.node.cluster_id
        brokers = [
            response.DescribeClusterBroker(broker.node.id, *broker.node.address_for(context.connection))
        ]
        controller = broker.node.id
        if request.include_cluster_authorized_operations:
            operations = context.sender.cluster_operations()
    elif request.endpoint_type == _CONTROLLERS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
    else:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"Unsupported endpoint type {request.endpoint_type}"
    return response(
        error_code=error,
        error_message=message,
        cluster_id=cluster_id,
        controller_id=controller,
        brokers=brokers,
        cluster_authorized_operations=operations,
    )


def api_versions(
    broker: Context, request: messages.ApiVersionsRequest, context: RequestContext, now: Now
) -> messages.ApiVersionsResponse:
    """List every API that is served, with its versions.

    The features are those of groups and of transactions. Kafka's other features are not served (share and streams
    groups, a metadata log).
    """
    if context.api_version >= _SOFTWARE_SINCE:
        software = request.client_software_name, request.client_software_version
        if not all(_SOFTWARE.fullmatch(text) for text in software):
            if context.connection.authentication is not None:
                context.connection.authentication.note_versions(are_answered=False)
            return fail_api_versions(request, ErrorCode.INVALID_REQUEST, context.api_version)
    response = messages.ApiVersionsResponse
    # Older clients reject a range that begins with 0 (KAFKA-17011).
    supported = []
    if context.api_version >= _FEATURES_FROM_0_SINCE:
        supported = [response.SupportedFeatureKey(name, 0, last) for name, last in _FEATURES.items()]
    return response(
        api_keys=cast("list[messages.ApiVersionsResponse.ApiVersion]", AdvertisedApis(broker.apis)),
        supported_features=supported,
        finalized_features_epoch=0,
        finalized_features=[
            response.FinalizedFeatureKey(name, last, last) for name, last in _FEATURES.items()
        ],
    )


def fail_api_versions(
    request: messages.ApiVersionsRequest, error: ErrorCode, api_version: int
) -> messages.ApiVersionsResponse:
    """Answer `error`; to an unknown version with the versions of ApiVersions itself (KIP-511)."""
    response = messages.ApiVersionsResponse
    versions = messages.ApiVersionsRequest.SCHEMA.versions
    supported = ErrorCode.UNSUPPORTED_VERSION
    keys = [response.ApiVersion(_API_VERSIONS, versions.first, versions.last)] if error is supported else []
    return response(error_code=error, api_keys=keys)
