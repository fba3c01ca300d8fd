"""AlterPartitionReassignments, AlterReplicaLogDirs, DescribeQuorum and UnregisterBroker: replicas, voters and brokers.

There is one broker with one directory, so no replica can move, and the broker is the only voter. Other places are
refused with Kafka's codes and messages, recorded from Kafka 4.3.1: tests/stories/administration.txt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_offsets.broker.api.topic_admin import Refusal, check_replicas, is_too_late
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse_throughout
from kafka_offsets.storage.directory.catalogue import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

_CONTROLLER_LISTENER = "CONTROLLER"
"""The name that Kafka's controllers give their own listener."""

_NODES_SINCE = 2
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NOT_HOSTED = "This server does not host this topic-partition."


# -- AlterPartitionReassignments ----------------------------------------------------------------------------------


def alter_partition_reassignments(
    broker: Context,
    request: messages.AlterPartitionReassignmentsRequest,
    context: RequestContext,
    now: Now,
) -> messages.AlterPartitionReassignmentsResponse:
    """Accept a partition's current replicas, and refuse any others (KIP-455)."""
    response = messages.AlterPartitionReassignmentsResponse
    if not request.topics:
        return response(
            error_message=""
        )  # Kafka's controller looks no further, not even at what the request allows
    if is_too_late(request.timeout_ms):
        timed_out = ErrorCode.REQUEST_TIMED_OUT
        return fail_alter_partition_reassignments(request, timed_out, context.api_version)
    responses = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            error, message = _reassign(broker, topic.name, partition.partition_index, partition.replicas)
            partitions.append(
                response.ReassignablePartitionResponse(partition.partition_index, error, message)
            )
        responses.append(response.ReassignableTopicResponse(topic.name, partitions))
    return response(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def _reassign(broker: Context, name: str, index: int, replicas: list[int] | None) -> Refusal:
    topic = broker.topics.get(name)
    if topic is None:
        return _UNKNOWN, f"Unable to find a topic named {name}."
    if not 0 <= index < topic.partition_count:
        return _UNKNOWN, f"Unable to find partition {name}:{index}."
    if replicas is None:  # cancel a reassignment
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    return check_replicas(broker, replicas)


def fail_alter_partition_reassignments(
    request: messages.AlterPartitionReassignmentsRequest, error: ErrorCode, api_version: int
) -> messages.AlterPartitionReassignmentsResponse:
    """Answer `error`, also for every partition. The allowed options are copied from the request, as in Kafka."""
    response: messages.AlterPartitionReassignmentsResponse = refuse_throughout(request, error, api_version)
    response.allow_replication_factor_change = request.allow_replication_factor_change
    return response


# -- AlterReplicaLogDirs ------------------------------------------------------------------------------------------


def alter_replica_log_dirs(
    broker: Context, request: messages.AlterReplicaLogDirsRequest, context: RequestContext, now: Now
) -> messages.AlterReplicaLogDirsResponse:
    """Answer that logs are in the one directory already, and that no other exists (KIP-113)."""
    errors: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                error = _move_error(broker, directory.path, topic.name, index)
                errors.setdefault(topic.name, {})[index] = error
    return _log_dir_results(errors)


def _move_error(broker: Context, path: str, name: str, index: int) -> ErrorCode:
    if path != broker.directory.files.root:
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = broker.topics.get(name)
    if topic is None or not 0 <= index < topic.partition_count:
        return _UNKNOWN
    if broker.replicas is not None and not broker.replicas.hosts(name, index):
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE


def _log_dir_results(errors: dict[str, dict[int, ErrorCode]]) -> messages.AlterReplicaLogDirsResponse:
    response = messages.AlterReplicaLogDirsResponse
    return response(
        results=[
            response.AlterReplicaLogDirTopicResult(
                name,
                [
                    response.AlterReplicaLogDirPartitionResult(index, error)
                    for index, error in indexes.items()
                ],
            )
            for name, indexes in errors.items()
        ]
    )


def fail_alter_replica_log_dirs(
    request: messages.AlterReplicaLogDirsRequest, error: ErrorCode, api_version: int
) -> messages.AlterReplicaLogDirsResponse:
    """Answer every partition with `error`."""
    errors: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            errors.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, error))
    return _log_dir_results(errors)


# -- DescribeQuorum -----------------------------------------------------------------------------------------------


def describe_quorum(
    broker: Context, request: messages.DescribeQuorumRequest, context: RequestContext, now: Now
) -> messages.DescribeQuorumResponse:
    """Answer that the broker is the leader and the only voter of an empty metadata log (KIP-595)."""
    response = messages.DescribeQuorumResponse
    topic_partitions = [
        (topic.topic_name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if topic_partitions != [(CLUSTER_METADATA_TOPIC, 0)]:
        return response(error_message="", topics=_no_quorum(request))
    voter = response.ReplicaState(broker.node.id, NO_TOPIC_ID, 0, now.wall_ms, now.wall_ms)
    partition = response.PartitionData(0, ErrorCode.NONE, "", broker.node.id, 0, 0, [voter], [])
    nodes = []
    if context.api_version >= _NODES_SINCE:
        nodes.append(
            response.Node(
                broker.node.id, [response.Listener(_CONTROLLER_LISTENER, broker.node.host, broker.node.port)]
            )
        )
    topics = [response.TopicData(CLUSTER_METADATA_TOPIC, [partition])]
    return response(error_message="", topics=topics, nodes=nodes)


def _no_quorum(request: messages.DescribeQuorumRequest) -> list[messages.DescribeQuorumResponse.TopicData]:
    """Refuse each partition, also that of the quorum when the request names others with it."""
    response = messages.DescribeQuorumResponse
    return [
        response.TopicData(
            topic.topic_name,
            [
                response.PartitionData(partition.partition_index, _UNKNOWN, _NOT_HOSTED, 0, 0, 0, [], [])
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


# -- UnregisterBroker ---------------------------------------------------------------------------------------------


def unregister_broker(
    broker: Context, request: messages.UnregisterBrokerRequest, context: RequestContext, now: Now
) -> messages.UnregisterBrokerResponse:
    """Refuse to remove this broker, the only one, and report any other as unknown.

    Kafka removes also its only broker, which then serves no topic until it starts again.
    """
    if request.broker_id == broker.node.id:
        return messages.UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="The only broker cannot be removed."
        )
    return unregistered(request.broker_id, ErrorCode.BROKER_ID_NOT_REGISTERED)


def unregistered(broker_id: int, error: ErrorCode) -> messages.UnregisterBrokerResponse:
    """Return the response after the decision about a broker."""
    message = f"Broker ID {broker_id} is not currently registered" if error else ""
    return messages.UnregisterBrokerResponse(error_code=error, error_message=message)
