"""Administration of a cluster of one broker: log directories, elections, reassignments.

No partition moves, and the one broker leads every partition. Each API answers so with
Kafka's codes and messages, recorded from Kafka 4.3.1: tests/stories/administration.txt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_offsets.broker.api.config_admin import Resource
from kafka_offsets.broker.api.topic_admin import is_too_late
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse, refuse_throughout
from kafka_offsets.security.acls import AclOperation, ResourceType

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

_LOG_DIRS_ERROR_SINCE = 3

_PREFERRED, _UNCLEAN = 0, 1
"""The types of an election."""


# -- DescribeLogDirs ----------------------------------------------------------------------------------------------


def describe_log_dirs(
    broker: Context, request: messages.DescribeLogDirsRequest, context: RequestContext, now: Now
) -> messages.DescribeLogDirsResponse:
    """Answer the size of each requested log, in the one directory of the broker.

    Missing partitions, and those of which this broker is no replica, are excluded, as in Kafka.
    No log is opened: the size of a closed log is that of its files.
    StorageError when the disk refuses. The size of the volume is reported as unknown.
    """
    response = messages.DescribeLogDirsResponse
    if not context.sender.may(AclOperation.DESCRIBE, ResourceType.CLUSTER):
        has_error = context.api_version >= _LOG_DIRS_ERROR_SINCE
        return response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED) if has_error else response()
    topics = []
    for name, indexes in _asked_logs(broker, request).items():
        topic = broker.topics.get(name)
        if topic is None:
            continue
        partitions = []
        for index in sorted(indexes):
            if 0 <= index < topic.partition_count and (
                broker.replicas is None or broker.replicas.hosts(name, index)
            ):
                partition = topic.partitions[index]
                size = broker.directory.log_bytes(name, index) if partition is None else partition.log.size
                partitions.append(response.DescribeLogDirsPartition(index, size, 0, is_future_key=False))
        if partitions:
            topics.append(response.DescribeLogDirsTopic(name, partitions))
    return response(
        results=[response.DescribeLogDirsResult(ErrorCode.NONE, broker.directory.files.root, topics)]
    )


def _asked_logs(broker: Context, request: messages.DescribeLogDirsRequest) -> dict[str, set[int]]:
    if request.topics is None:
        return {
            name: set(range(broker.topics.id_and_partition_count(name)[1])) for name in broker.topics.names()
        }
    partitions_by_topic: dict[str, set[int]] = {}
    for topic in request.topics:
        partitions_by_topic.setdefault(topic.topic, set()).update(topic.partitions)
    return partitions_by_topic


def fail_describe_log_dirs(
    request: messages.DescribeLogDirsRequest, error: ErrorCode, api_version: int
) -> messages.DescribeLogDirsResponse:
    """Answer `error`. A version without a top-level error reports it for its one directory."""
    response = messages.DescribeLogDirsResponse
    if api_version >= _LOG_DIRS_ERROR_SINCE:
        return response(error_code=error)
    return response(results=[response.DescribeLogDirsResult(error, "")])


# -- leaders and replicas -----------------------------------------------------------------------------------------


def elect_leaders(
    broker: Context, request: messages.ElectLeadersRequest, context: RequestContext, now: Now
) -> messages.ElectLeadersResponse:
    """Answer that every partition has its leader. For a request about all, answer no partitions, as Kafka does."""
    response = messages.ElectLeadersResponse
    topics = request.topic_partitions
    if topics != [] and is_too_late(request.timeout_ms):
        return refuse_throughout(request, ErrorCode.REQUEST_TIMED_OUT, context.api_version)
    if topics != [] and request.election_type not in (_PREFERRED, _UNCLEAN):
        invalid = ErrorCode.INVALID_REQUEST
        refused: messages.ElectLeadersResponse = refuse_throughout(request, invalid, context.api_version)
        for result in refused.replica_election_results:
            for partition in result.partition_result:
                partition.error_message = f"Unknown election type {request.election_type}"
        return refused
    if topics is None:
        return response(
            replica_election_results=[
                response.ReplicaElectionResult(name, []) for name in broker.topics.names()
            ]
        )
    results = []
    for topic in topics:
        partitions = []
        for index in topic.partitions:
            error, message = _election(broker, topic.topic, index)
            partitions.append(response.PartitionResult(index, error, message))
        results.append(response.ReplicaElectionResult(topic.topic, partitions))
    return response(replica_election_results=results)


def _election(broker: Context, name: str, index: int) -> tuple[ErrorCode, str]:
    topic = broker.topics.get(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    if not 0 <= index < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    return ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."


def list_partition_reassignments(
    broker: Context,
    request: messages.ListPartitionReassignmentsRequest,
    context: RequestContext,
    now: Now,
) -> messages.ListPartitionReassignmentsResponse:
    """Answer that nothing moves."""
    return messages.ListPartitionReassignmentsResponse(error_message=None)


# -- ListConfigResources ------------------------------------------------------------------------------------------

_WITH_CONFIGS = frozenset(Resource)


def list_config_resources(
    broker: Context, request: messages.ListConfigResourcesRequest, context: RequestContext, now: Now
) -> messages.ListConfigResourcesResponse:
    """List the topics, the broker, and the groups that have a configuration. Version 0 requests client metrics only."""
    response = messages.ListConfigResourcesResponse
    if context.api_version == 0:
        return response()
    types = set(request.resource_types) or _WITH_CONFIGS
    if not types <= _WITH_CONFIGS:
        return refuse(request, ErrorCode.UNSUPPORTED_VERSION, context.api_version)
    resources = []
    if Resource.TOPIC in types:
        resources += [response.ConfigResource(name, Resource.TOPIC) for name in broker.topics.names()]
    if Resource.GROUP in types:
        groups = sorted(broker.directory.group_configs)
        resources += [response.ConfigResource(group, Resource.GROUP) for group in groups]
    for kind in (Resource.BROKER, Resource.BROKER_LOGGER):
        if kind in types:
            resources.append(response.ConfigResource(str(broker.node.id), kind))
    return response(config_resources=resources)
