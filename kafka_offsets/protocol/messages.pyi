"""Made by kafka_offsets.protocol.stub from the schema files; do not edit."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from kafka_offsets.protocol.codecs import codec
from kafka_offsets.protocol.schema import Message, Struct

ABSENT: Any

class Value:
    STRUCT: ClassVar[Struct]
    SIBLINGS: ClassVar[dict[str, type]]
    unknown_tags: Mapping[int, bytes] | None

class MessageValue(Value):
    SCHEMA: ClassVar[Message]
    CLASSES: ClassVar[dict[str, type]]
    DECODERS: ClassVar[dict[int, codec.Decoder]]
    ENCODERS: ClassVar[dict[int, codec.Encoder]]

_M = TypeVar("_M", bound=MessageValue)

def find(name: str) -> type[MessageValue]: ...
def names() -> list[str]: ...
def read_schemas() -> None: ...
def encode(message: MessageValue, version: int) -> bytes: ...
def decode(cls: type[_M], buffer: bytes, version: int, position: int = 0) -> tuple[_M, int]: ...
def decoder(cls: type[MessageValue], version: int) -> codec.Decoder: ...
def encoder(cls: type[MessageValue], version: int) -> codec.Encoder: ...
def snake_case(name: str) -> str: ...

class ProduceRequest(MessageValue):
    class PartitionProduceData(Value):
        index: int
        records: bytes | None
        def __init__(
            self,
            index: int = ...,
            records: bytes | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicProduceData(Value):
        name: str
        topic_id: bytes
        partition_data: list[ProduceRequest.PartitionProduceData]
        def __init__(
            self,
            name: str = ...,
            topic_id: bytes = ...,
            partition_data: list[ProduceRequest.PartitionProduceData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: list[ProduceRequest.TopicProduceData]
    def __init__(
        self,
        transactional_id: str | None = ...,
        acks: int = ...,
        timeout_ms: int = ...,
        topic_data: list[ProduceRequest.TopicProduceData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ProduceResponse(MessageValue):
    class BatchIndexAndErrorMessage(Value):
        batch_index: int
        batch_index_error_message: str | None
        def __init__(
            self,
            batch_index: int = ...,
            batch_index_error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class LeaderIdAndEpoch(Value):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            leader_id: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionProduceResponse(Value):
        index: int
        error_code: int
        base_offset: int
        log_append_time_ms: int
        log_start_offset: int
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage]
        error_message: str | None
        current_leader: ProduceResponse.LeaderIdAndEpoch
        def __init__(
            self,
            index: int = ...,
            error_code: int = ...,
            base_offset: int = ...,
            log_append_time_ms: int = ...,
            log_start_offset: int = ...,
            record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = ...,
            error_message: str | None = ...,
            current_leader: ProduceResponse.LeaderIdAndEpoch = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicProduceResponse(Value):
        name: str
        topic_id: bytes
        partition_responses: list[ProduceResponse.PartitionProduceResponse]
        def __init__(
            self,
            name: str = ...,
            topic_id: bytes = ...,
            partition_responses: list[ProduceResponse.PartitionProduceResponse] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class NodeEndpoint(Value):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    responses: list[ProduceResponse.TopicProduceResponse]
    throttle_time_ms: int
    node_endpoints: list[ProduceResponse.NodeEndpoint]
    def __init__(
        self,
        responses: list[ProduceResponse.TopicProduceResponse] = ...,
        throttle_time_ms: int = ...,
        node_endpoints: list[ProduceResponse.NodeEndpoint] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class FetchRequest(MessageValue):
    class ReplicaState(Value):
        replica_id: int
        replica_epoch: int
        def __init__(
            self,
            replica_id: int = ...,
            replica_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class FetchPartition(Value):
        partition: int
        current_leader_epoch: int
        fetch_offset: int
        last_fetched_epoch: int
        log_start_offset: int
        partition_max_bytes: int
        replica_directory_id: bytes
        high_watermark: int
        def __init__(
            self,
            partition: int = ...,
            current_leader_epoch: int = ...,
            fetch_offset: int = ...,
            last_fetched_epoch: int = ...,
            log_start_offset: int = ...,
            partition_max_bytes: int = ...,
            replica_directory_id: bytes = ...,
            high_watermark: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class FetchTopic(Value):
        topic: str
        topic_id: bytes
        partitions: list[FetchRequest.FetchPartition]
        def __init__(
            self,
            topic: str = ...,
            topic_id: bytes = ...,
            partitions: list[FetchRequest.FetchPartition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ForgottenTopic(Value):
        topic: str
        topic_id: bytes
        partitions: list[int]
        def __init__(
            self,
            topic: str = ...,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    cluster_id: str | None
    replica_id: int
    replica_state: FetchRequest.ReplicaState
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchRequest.FetchTopic]
    forgotten_topics_data: list[FetchRequest.ForgottenTopic]
    rack_id: str
    def __init__(
        self,
        cluster_id: str | None = ...,
        replica_id: int = ...,
        replica_state: FetchRequest.ReplicaState = ...,
        max_wait_ms: int = ...,
        min_bytes: int = ...,
        max_bytes: int = ...,
        isolation_level: int = ...,
        session_id: int = ...,
        session_epoch: int = ...,
        topics: list[FetchRequest.FetchTopic] = ...,
        forgotten_topics_data: list[FetchRequest.ForgottenTopic] = ...,
        rack_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class FetchResponse(MessageValue):
    class EpochEndOffset(Value):
        epoch: int
        end_offset: int
        def __init__(
            self,
            epoch: int = ...,
            end_offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class LeaderIdAndEpoch(Value):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            leader_id: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class SnapshotId(Value):
        end_offset: int
        epoch: int
        def __init__(
            self,
            end_offset: int = ...,
            epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class AbortedTransaction(Value):
        producer_id: int
        first_offset: int
        def __init__(
            self,
            producer_id: int = ...,
            first_offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionData(Value):
        partition_index: int
        error_code: int
        high_watermark: int
        last_stable_offset: int
        log_start_offset: int
        diverging_epoch: FetchResponse.EpochEndOffset
        current_leader: FetchResponse.LeaderIdAndEpoch
        snapshot_id: FetchResponse.SnapshotId
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None
        preferred_read_replica: int
        records: bytes | None
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            high_watermark: int = ...,
            last_stable_offset: int = ...,
            log_start_offset: int = ...,
            diverging_epoch: FetchResponse.EpochEndOffset = ...,
            current_leader: FetchResponse.LeaderIdAndEpoch = ...,
            snapshot_id: FetchResponse.SnapshotId = ...,
            aborted_transactions: list[FetchResponse.AbortedTransaction] | None = ...,
            preferred_read_replica: int = ...,
            records: bytes | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class FetchableTopicResponse(Value):
        topic: str
        topic_id: bytes
        partitions: list[FetchResponse.PartitionData]
        def __init__(
            self,
            topic: str = ...,
            topic_id: bytes = ...,
            partitions: list[FetchResponse.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class NodeEndpoint(Value):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    session_id: int
    responses: list[FetchResponse.FetchableTopicResponse]
    node_endpoints: list[FetchResponse.NodeEndpoint]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        session_id: int = ...,
        responses: list[FetchResponse.FetchableTopicResponse] = ...,
        node_endpoints: list[FetchResponse.NodeEndpoint] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ListOffsetsRequest(MessageValue):
    class ListOffsetsPartition(Value):
        partition_index: int
        current_leader_epoch: int
        timestamp: int
        def __init__(
            self,
            partition_index: int = ...,
            current_leader_epoch: int = ...,
            timestamp: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ListOffsetsTopic(Value):
        name: str
        partitions: list[ListOffsetsRequest.ListOffsetsPartition]
        def __init__(
            self,
            name: str = ...,
            partitions: list[ListOffsetsRequest.ListOffsetsPartition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    replica_id: int
    isolation_level: int
    topics: list[ListOffsetsRequest.ListOffsetsTopic]
    timeout_ms: int
    def __init__(
        self,
        replica_id: int = ...,
        isolation_level: int = ...,
        topics: list[ListOffsetsRequest.ListOffsetsTopic] = ...,
        timeout_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ListOffsetsResponse(MessageValue):
    class ListOffsetsPartitionResponse(Value):
        partition_index: int
        error_code: int
        timestamp: int
        offset: int
        leader_epoch: int
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            timestamp: int = ...,
            offset: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ListOffsetsTopicResponse(Value):
        name: str
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse]
        def __init__(
            self,
            name: str = ...,
            partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class MetadataRequest(MessageValue):
    class Topic(Value):
        topic_id: bytes
        name: str | None
        def __init__(
            self,
            topic_id: bytes = ...,
            name: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topics: list[MetadataRequest.Topic] | None
    allow_auto_topic_creation: bool
    include_cluster_authorized_operations: bool
    include_topic_authorized_operations: bool
    def __init__(
        self,
        topics: list[MetadataRequest.Topic] | None = ...,
        allow_auto_topic_creation: bool = ...,
        include_cluster_authorized_operations: bool = ...,
        include_topic_authorized_operations: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class MetadataResponse(MessageValue):
    class Broker(Value):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Partition(Value):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        offline_replicas: list[int]
        def __init__(
            self,
            error_code: int = ...,
            partition_index: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            replica_nodes: list[int] = ...,
            isr_nodes: list[int] = ...,
            offline_replicas: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        error_code: int
        name: str | None
        topic_id: bytes
        is_internal: bool
        partitions: list[MetadataResponse.Partition]
        topic_authorized_operations: int
        def __init__(
            self,
            error_code: int = ...,
            name: str | None = ...,
            topic_id: bytes = ...,
            is_internal: bool = ...,
            partitions: list[MetadataResponse.Partition] = ...,
            topic_authorized_operations: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    brokers: list[MetadataResponse.Broker]
    cluster_id: str | None
    controller_id: int
    topics: list[MetadataResponse.Topic]
    cluster_authorized_operations: int
    error_code: int
    def __init__(
        self,
        throttle_time_ms: int = ...,
        brokers: list[MetadataResponse.Broker] = ...,
        cluster_id: str | None = ...,
        controller_id: int = ...,
        topics: list[MetadataResponse.Topic] = ...,
        cluster_authorized_operations: int = ...,
        error_code: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class OffsetCommitRequest(MessageValue):
    class Partition(Value):
        partition_index: int
        committed_offset: int
        commit_timestamp: int
        committed_leader_epoch: int
        committed_metadata: str | None
        def __init__(
            self,
            partition_index: int = ...,
            committed_offset: int = ...,
            commit_timestamp: int = ...,
            committed_leader_epoch: int = ...,
            committed_metadata: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        name: str
        topic_id: bytes
        partitions: list[OffsetCommitRequest.Partition]
        def __init__(
            self,
            name: str = ...,
            topic_id: bytes = ...,
            partitions: list[OffsetCommitRequest.Partition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: list[OffsetCommitRequest.Topic]
    def __init__(
        self,
        group_id: str = ...,
        generation_id_or_member_epoch: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        retention_time_ms: int = ...,
        topics: list[OffsetCommitRequest.Topic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class OffsetCommitResponse(MessageValue):
    class Partition(Value):
        partition_index: int
        error_code: int
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        name: str
        topic_id: bytes
        partitions: list[OffsetCommitResponse.Partition]
        def __init__(
            self,
            name: str = ...,
            topic_id: bytes = ...,
            partitions: list[OffsetCommitResponse.Partition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetCommitResponse.Topic]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        topics: list[OffsetCommitResponse.Topic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class OffsetFetchRequest(MessageValue):
    class Topic(Value):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            name: str = ...,
            partition_indexes: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topics(Value):
        name: str
        topic_id: bytes
        partition_indexes: list[int]
        def __init__(
            self,
            name: str = ...,
            topic_id: bytes = ...,
            partition_indexes: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Group(Value):
        group_id: str
        member_id: str | None
        member_epoch: int
        topics: list[OffsetFetchRequest.Topics] | None
        def __init__(
            self,
            group_id: str = ...,
            member_id: str | None = ...,
            member_epoch: int = ...,
            topics: list[OffsetFetchRequest.Topics] | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    topics: list[OffsetFetchRequest.Topic] | None
    groups: list[OffsetFetchRequest.Group]
    require_stable: bool
    def __init__(
        self,
        group_id: str = ...,
        topics: list[OffsetFetchRequest.Topic] | None = ...,
        groups: list[OffsetFetchRequest.Group] = ...,
        require_stable: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class OffsetFetchResponse(MessageValue):
    class Partition(Value):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(
            self,
            partition_index: int = ...,
            committed_offset: int = ...,
            committed_leader_epoch: int = ...,
            metadata: str | None = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        name: str
        partitions: list[OffsetFetchResponse.Partition]
        def __init__(
            self,
            name: str = ...,
            partitions: list[OffsetFetchResponse.Partition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Partitions(Value):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(
            self,
            partition_index: int = ...,
            committed_offset: int = ...,
            committed_leader_epoch: int = ...,
            metadata: str | None = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topics(Value):
        name: str
        topic_id: bytes
        partitions: list[OffsetFetchResponse.Partitions]
        def __init__(
            self,
            name: str = ...,
            topic_id: bytes = ...,
            partitions: list[OffsetFetchResponse.Partitions] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Group(Value):
        group_id: str
        topics: list[OffsetFetchResponse.Topics]
        error_code: int
        def __init__(
            self,
            group_id: str = ...,
            topics: list[OffsetFetchResponse.Topics] = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetFetchResponse.Topic]
    error_code: int
    groups: list[OffsetFetchResponse.Group]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        topics: list[OffsetFetchResponse.Topic] = ...,
        error_code: int = ...,
        groups: list[OffsetFetchResponse.Group] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class FindCoordinatorRequest(MessageValue):
    key: str
    key_type: int
    coordinator_keys: list[str]
    def __init__(
        self,
        key: str = ...,
        key_type: int = ...,
        coordinator_keys: list[str] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class FindCoordinatorResponse(MessageValue):
    class Coordinator(Value):
        key: str
        node_id: int
        host: str
        port: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            key: str = ...,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int
    coordinators: list[FindCoordinatorResponse.Coordinator]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        node_id: int = ...,
        host: str = ...,
        port: int = ...,
        coordinators: list[FindCoordinatorResponse.Coordinator] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class JoinGroupRequest(MessageValue):
    class Protocol(Value):
        name: str
        metadata: bytes
        def __init__(
            self,
            name: str = ...,
            metadata: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: list[JoinGroupRequest.Protocol]
    reason: str | None
    def __init__(
        self,
        group_id: str = ...,
        session_timeout_ms: int = ...,
        rebalance_timeout_ms: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        protocol_type: str = ...,
        protocols: list[JoinGroupRequest.Protocol] = ...,
        reason: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class JoinGroupResponse(MessageValue):
    class Member(Value):
        member_id: str
        group_instance_id: str | None
        metadata: bytes
        def __init__(
            self,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            metadata: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: list[JoinGroupResponse.Member]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        generation_id: int = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        leader: str = ...,
        skip_assignment: bool = ...,
        member_id: str = ...,
        members: list[JoinGroupResponse.Member] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class HeartbeatRequest(MessageValue):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    def __init__(
        self,
        group_id: str = ...,
        generation_id: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class HeartbeatResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class LeaveGroupRequest(MessageValue):
    class MemberIdentity(Value):
        member_id: str
        group_instance_id: str | None
        reason: str | None
        def __init__(
            self,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            reason: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    member_id: str
    members: list[LeaveGroupRequest.MemberIdentity]
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        members: list[LeaveGroupRequest.MemberIdentity] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class LeaveGroupResponse(MessageValue):
    class MemberResponse(Value):
        member_id: str
        group_instance_id: str | None
        error_code: int
        def __init__(
            self,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    members: list[LeaveGroupResponse.MemberResponse]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        members: list[LeaveGroupResponse.MemberResponse] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class SyncGroupRequest(MessageValue):
    class Assignment(Value):
        member_id: str
        assignment: bytes
        def __init__(
            self,
            member_id: str = ...,
            assignment: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: list[SyncGroupRequest.Assignment]
    def __init__(
        self,
        group_id: str = ...,
        generation_id: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        assignments: list[SyncGroupRequest.Assignment] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class SyncGroupResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        assignment: bytes = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeGroupsRequest(MessageValue):
    groups: list[str]
    include_authorized_operations: bool
    def __init__(
        self,
        groups: list[str] = ...,
        include_authorized_operations: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeGroupsResponse(MessageValue):
    class DescribedGroupMember(Value):
        member_id: str
        group_instance_id: str | None
        client_id: str
        client_host: str
        member_metadata: bytes
        member_assignment: bytes
        def __init__(
            self,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            client_id: str = ...,
            client_host: str = ...,
            member_metadata: bytes = ...,
            member_assignment: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DescribedGroup(Value):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        protocol_type: str
        protocol_data: str
        members: list[DescribeGroupsResponse.DescribedGroupMember]
        authorized_operations: int
        def __init__(
            self,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            protocol_type: str = ...,
            protocol_data: str = ...,
            members: list[DescribeGroupsResponse.DescribedGroupMember] = ...,
            authorized_operations: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    groups: list[DescribeGroupsResponse.DescribedGroup]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        groups: list[DescribeGroupsResponse.DescribedGroup] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ListGroupsRequest(MessageValue):
    states_filter: list[str]
    types_filter: list[str]
    def __init__(
        self,
        states_filter: list[str] = ...,
        types_filter: list[str] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ListGroupsResponse(MessageValue):
    class ListedGroup(Value):
        group_id: str
        protocol_type: str
        group_state: str
        group_type: str
        def __init__(
            self,
            group_id: str = ...,
            protocol_type: str = ...,
            group_state: str = ...,
            group_type: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    groups: list[ListGroupsResponse.ListedGroup]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        groups: list[ListGroupsResponse.ListedGroup] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class SaslHandshakeRequest(MessageValue):
    mechanism: str
    def __init__(
        self,
        mechanism: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class SaslHandshakeResponse(MessageValue):
    error_code: int
    mechanisms: list[str]
    def __init__(
        self,
        error_code: int = ...,
        mechanisms: list[str] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ApiVersionsRequest(MessageValue):
    client_software_name: str
    client_software_version: str
    def __init__(
        self,
        client_software_name: str = ...,
        client_software_version: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ApiVersionsResponse(MessageValue):
    class ApiVersion(Value):
        api_key: int
        min_version: int
        max_version: int
        def __init__(
            self,
            api_key: int = ...,
            min_version: int = ...,
            max_version: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class SupportedFeatureKey(Value):
        name: str
        min_version: int
        max_version: int
        def __init__(
            self,
            name: str = ...,
            min_version: int = ...,
            max_version: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class FinalizedFeatureKey(Value):
        name: str
        max_version_level: int
        min_version_level: int
        def __init__(
            self,
            name: str = ...,
            max_version_level: int = ...,
            min_version_level: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    error_code: int
    api_keys: list[ApiVersionsResponse.ApiVersion]
    throttle_time_ms: int
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey]
    finalized_features_epoch: int
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey]
    zk_migration_ready: bool
    def __init__(
        self,
        error_code: int = ...,
        api_keys: list[ApiVersionsResponse.ApiVersion] = ...,
        throttle_time_ms: int = ...,
        supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = ...,
        finalized_features_epoch: int = ...,
        finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = ...,
        zk_migration_ready: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class CreateTopicsRequest(MessageValue):
    class CreatableReplicaAssignment(Value):
        partition_index: int
        broker_ids: list[int]
        def __init__(
            self,
            partition_index: int = ...,
            broker_ids: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class CreatableTopicConfig(Value):
        name: str
        value: str | None
        def __init__(
            self,
            name: str = ...,
            value: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class CreatableTopic(Value):
        name: str
        num_partitions: int
        replication_factor: int
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment]
        configs: list[CreateTopicsRequest.CreatableTopicConfig]
        def __init__(
            self,
            name: str = ...,
            num_partitions: int = ...,
            replication_factor: int = ...,
            assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = ...,
            configs: list[CreateTopicsRequest.CreatableTopicConfig] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topics: list[CreateTopicsRequest.CreatableTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(
        self,
        topics: list[CreateTopicsRequest.CreatableTopic] = ...,
        timeout_ms: int = ...,
        validate_only: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class CreateTopicsResponse(MessageValue):
    class CreatableTopicConfigs(Value):
        name: str
        value: str | None
        read_only: bool
        config_source: int
        is_sensitive: bool
        def __init__(
            self,
            name: str = ...,
            value: str | None = ...,
            read_only: bool = ...,
            config_source: int = ...,
            is_sensitive: bool = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class CreatableTopicResult(Value):
        name: str
        topic_id: bytes
        error_code: int
        error_message: str | None
        topic_config_error_code: int
        num_partitions: int
        replication_factor: int
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None
        def __init__(
            self,
            name: str = ...,
            topic_id: bytes = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            topic_config_error_code: int = ...,
            num_partitions: int = ...,
            replication_factor: int = ...,
            configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[CreateTopicsResponse.CreatableTopicResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        topics: list[CreateTopicsResponse.CreatableTopicResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteTopicsRequest(MessageValue):
    class DeleteTopicState(Value):
        name: str | None
        topic_id: bytes
        def __init__(
            self,
            name: str | None = ...,
            topic_id: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topics: list[DeleteTopicsRequest.DeleteTopicState]
    topic_names: list[str]
    timeout_ms: int
    def __init__(
        self,
        topics: list[DeleteTopicsRequest.DeleteTopicState] = ...,
        topic_names: list[str] = ...,
        timeout_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteTopicsResponse(MessageValue):
    class DeletableTopicResult(Value):
        name: str | None
        topic_id: bytes
        error_code: int
        error_message: str | None
        def __init__(
            self,
            name: str | None = ...,
            topic_id: bytes = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    responses: list[DeleteTopicsResponse.DeletableTopicResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        responses: list[DeleteTopicsResponse.DeletableTopicResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteRecordsRequest(MessageValue):
    class DeleteRecordsPartition(Value):
        partition_index: int
        offset: int
        def __init__(
            self,
            partition_index: int = ...,
            offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DeleteRecordsTopic(Value):
        name: str
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition]
        def __init__(
            self,
            name: str = ...,
            partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topics: list[DeleteRecordsRequest.DeleteRecordsTopic]
    timeout_ms: int
    def __init__(
        self,
        topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = ...,
        timeout_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteRecordsResponse(MessageValue):
    class DeleteRecordsPartitionResult(Value):
        partition_index: int
        low_watermark: int
        error_code: int
        def __init__(
            self,
            partition_index: int = ...,
            low_watermark: int = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DeleteRecordsTopicResult(Value):
        name: str
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult]
        def __init__(
            self,
            name: str = ...,
            partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class InitProducerIdRequest(MessageValue):
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int
    enable2_pc: bool
    keep_prepared_txn: bool
    def __init__(
        self,
        transactional_id: str | None = ...,
        transaction_timeout_ms: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        enable2_pc: bool = ...,
        keep_prepared_txn: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class InitProducerIdResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    ongoing_txn_producer_id: int
    ongoing_txn_producer_epoch: int
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        ongoing_txn_producer_id: int = ...,
        ongoing_txn_producer_epoch: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class OffsetForLeaderEpochRequest(MessageValue):
    class OffsetForLeaderPartition(Value):
        partition: int
        current_leader_epoch: int
        leader_epoch: int
        def __init__(
            self,
            partition: int = ...,
            current_leader_epoch: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class OffsetForLeaderTopic(Value):
        topic: str
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]
        def __init__(
            self,
            topic: str = ...,
            partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    replica_id: int
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic]
    def __init__(
        self,
        replica_id: int = ...,
        topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class OffsetForLeaderEpochResponse(MessageValue):
    class EpochEndOffset(Value):
        error_code: int
        partition: int
        leader_epoch: int
        end_offset: int
        def __init__(
            self,
            error_code: int = ...,
            partition: int = ...,
            leader_epoch: int = ...,
            end_offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class OffsetForLeaderTopicResult(Value):
        topic: str
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset]
        def __init__(
            self,
            topic: str = ...,
            partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AddPartitionsToTxnRequest(MessageValue):
    class AddPartitionsToTxnTopic(Value):
        name: str
        partitions: list[int]
        def __init__(
            self,
            name: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class AddPartitionsToTxnTransaction(Value):
        transactional_id: str
        producer_id: int
        producer_epoch: int
        verify_only: bool
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
        def __init__(
            self,
            transactional_id: str = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
            verify_only: bool = ...,
            topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction]
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
    def __init__(
        self,
        transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = ...,
        v3_and_below_transactional_id: str = ...,
        v3_and_below_producer_id: int = ...,
        v3_and_below_producer_epoch: int = ...,
        v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AddPartitionsToTxnResponse(MessageValue):
    class AddPartitionsToTxnPartitionResult(Value):
        partition_index: int
        partition_error_code: int
        def __init__(
            self,
            partition_index: int = ...,
            partition_error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class AddPartitionsToTxnTopicResult(Value):
        name: str
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult]
        def __init__(
            self,
            name: str = ...,
            results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class AddPartitionsToTxnResult(Value):
        transactional_id: str
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]
        def __init__(
            self,
            transactional_id: str = ...,
            topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult]
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = ...,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AddOffsetsToTxnRequest(MessageValue):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str
    def __init__(
        self,
        transactional_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        group_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AddOffsetsToTxnResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class EndTxnRequest(MessageValue):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    def __init__(
        self,
        transactional_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        committed: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class EndTxnResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class WriteTxnMarkersRequest(MessageValue):
    class WritableTxnMarkerTopic(Value):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            name: str = ...,
            partition_indexes: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class WritableTxnMarker(Value):
        producer_id: int
        producer_epoch: int
        transaction_result: bool
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic]
        coordinator_epoch: int
        transaction_version: int
        def __init__(
            self,
            producer_id: int = ...,
            producer_epoch: int = ...,
            transaction_result: bool = ...,
            topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = ...,
            coordinator_epoch: int = ...,
            transaction_version: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    markers: list[WriteTxnMarkersRequest.WritableTxnMarker]
    def __init__(
        self,
        markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class WriteTxnMarkersResponse(MessageValue):
    class WritableTxnMarkerPartitionResult(Value):
        partition_index: int
        error_code: int
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class WritableTxnMarkerTopicResult(Value):
        name: str
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]
        def __init__(
            self,
            name: str = ...,
            partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class WritableTxnMarkerResult(Value):
        producer_id: int
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult]
        def __init__(
            self,
            producer_id: int = ...,
            topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult]
    def __init__(
        self,
        markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class TxnOffsetCommitRequest(MessageValue):
    class Partition(Value):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        committed_metadata: str | None
        def __init__(
            self,
            partition_index: int = ...,
            committed_offset: int = ...,
            committed_leader_epoch: int = ...,
            committed_metadata: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        name: str
        partitions: list[TxnOffsetCommitRequest.Partition]
        def __init__(
            self,
            name: str = ...,
            partitions: list[TxnOffsetCommitRequest.Partition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: list[TxnOffsetCommitRequest.Topic]
    def __init__(
        self,
        transactional_id: str = ...,
        group_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        generation_id: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        topics: list[TxnOffsetCommitRequest.Topic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class TxnOffsetCommitResponse(MessageValue):
    class Partition(Value):
        partition_index: int
        error_code: int
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        name: str
        partitions: list[TxnOffsetCommitResponse.Partition]
        def __init__(
            self,
            name: str = ...,
            partitions: list[TxnOffsetCommitResponse.Partition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[TxnOffsetCommitResponse.Topic]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        topics: list[TxnOffsetCommitResponse.Topic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeAclsRequest(MessageValue):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int
    def __init__(
        self,
        resource_type_filter: int = ...,
        resource_name_filter: str | None = ...,
        pattern_type_filter: int = ...,
        principal_filter: str | None = ...,
        host_filter: str | None = ...,
        operation: int = ...,
        permission_type: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeAclsResponse(MessageValue):
    class AclDescription(Value):
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(
            self,
            principal: str = ...,
            host: str = ...,
            operation: int = ...,
            permission_type: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DescribeAclsResource(Value):
        resource_type: int
        resource_name: str
        pattern_type: int
        acls: list[DescribeAclsResponse.AclDescription]
        def __init__(
            self,
            resource_type: int = ...,
            resource_name: str = ...,
            pattern_type: int = ...,
            acls: list[DescribeAclsResponse.AclDescription] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    resources: list[DescribeAclsResponse.DescribeAclsResource]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        resources: list[DescribeAclsResponse.DescribeAclsResource] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class CreateAclsRequest(MessageValue):
    class AclCreation(Value):
        resource_type: int
        resource_name: str
        resource_pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(
            self,
            resource_type: int = ...,
            resource_name: str = ...,
            resource_pattern_type: int = ...,
            principal: str = ...,
            host: str = ...,
            operation: int = ...,
            permission_type: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    creations: list[CreateAclsRequest.AclCreation]
    def __init__(
        self,
        creations: list[CreateAclsRequest.AclCreation] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class CreateAclsResponse(MessageValue):
    class AclCreationResult(Value):
        error_code: int
        error_message: str | None
        def __init__(
            self,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    results: list[CreateAclsResponse.AclCreationResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        results: list[CreateAclsResponse.AclCreationResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteAclsRequest(MessageValue):
    class DeleteAclsFilter(Value):
        resource_type_filter: int
        resource_name_filter: str | None
        pattern_type_filter: int
        principal_filter: str | None
        host_filter: str | None
        operation: int
        permission_type: int
        def __init__(
            self,
            resource_type_filter: int = ...,
            resource_name_filter: str | None = ...,
            pattern_type_filter: int = ...,
            principal_filter: str | None = ...,
            host_filter: str | None = ...,
            operation: int = ...,
            permission_type: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    filters: list[DeleteAclsRequest.DeleteAclsFilter]
    def __init__(
        self,
        filters: list[DeleteAclsRequest.DeleteAclsFilter] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteAclsResponse(MessageValue):
    class DeleteAclsMatchingAcl(Value):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(
            self,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
            pattern_type: int = ...,
            principal: str = ...,
            host: str = ...,
            operation: int = ...,
            permission_type: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DeleteAclsFilterResult(Value):
        error_code: int
        error_message: str | None
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl]
        def __init__(
            self,
            error_code: int = ...,
            error_message: str | None = ...,
            matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeConfigsRequest(MessageValue):
    class DescribeConfigsResource(Value):
        resource_type: int
        resource_name: str
        configuration_keys: list[str] | None
        def __init__(
            self,
            resource_type: int = ...,
            resource_name: str = ...,
            configuration_keys: list[str] | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    resources: list[DescribeConfigsRequest.DescribeConfigsResource]
    include_synonyms: bool
    include_documentation: bool
    def __init__(
        self,
        resources: list[DescribeConfigsRequest.DescribeConfigsResource] = ...,
        include_synonyms: bool = ...,
        include_documentation: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeConfigsResponse(MessageValue):
    class DescribeConfigsSynonym(Value):
        name: str
        value: str | None
        source: int
        def __init__(
            self,
            name: str = ...,
            value: str | None = ...,
            source: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DescribeConfigsResourceResult(Value):
        name: str
        value: str | None
        read_only: bool
        config_source: int
        is_sensitive: bool
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym]
        config_type: int
        documentation: str | None
        def __init__(
            self,
            name: str = ...,
            value: str | None = ...,
            read_only: bool = ...,
            config_source: int = ...,
            is_sensitive: bool = ...,
            synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = ...,
            config_type: int = ...,
            documentation: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DescribeConfigsResult(Value):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult]
        def __init__(
            self,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    results: list[DescribeConfigsResponse.DescribeConfigsResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        results: list[DescribeConfigsResponse.DescribeConfigsResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterConfigsRequest(MessageValue):
    class AlterableConfig(Value):
        name: str
        value: str | None
        def __init__(
            self,
            name: str = ...,
            value: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class AlterConfigsResource(Value):
        resource_type: int
        resource_name: str
        configs: list[AlterConfigsRequest.AlterableConfig]
        def __init__(
            self,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[AlterConfigsRequest.AlterableConfig] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    resources: list[AlterConfigsRequest.AlterConfigsResource]
    validate_only: bool
    def __init__(
        self,
        resources: list[AlterConfigsRequest.AlterConfigsResource] = ...,
        validate_only: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterConfigsResponse(MessageValue):
    class AlterConfigsResourceResponse(Value):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(
            self,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterReplicaLogDirsRequest(MessageValue):
    class AlterReplicaLogDirTopic(Value):
        name: str
        partitions: list[int]
        def __init__(
            self,
            name: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class AlterReplicaLogDir(Value):
        path: str
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic]
        def __init__(
            self,
            path: str = ...,
            topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir]
    def __init__(
        self,
        dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterReplicaLogDirsResponse(MessageValue):
    class AlterReplicaLogDirPartitionResult(Value):
        partition_index: int
        error_code: int
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class AlterReplicaLogDirTopicResult(Value):
        topic_name: str
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]
        def __init__(
            self,
            topic_name: str = ...,
            partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeLogDirsRequest(MessageValue):
    class DescribableLogDirTopic(Value):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            topic: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None
    def __init__(
        self,
        topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeLogDirsResponse(MessageValue):
    class DescribeLogDirsPartition(Value):
        partition_index: int
        partition_size: int
        offset_lag: int
        is_future_key: bool
        def __init__(
            self,
            partition_index: int = ...,
            partition_size: int = ...,
            offset_lag: int = ...,
            is_future_key: bool = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DescribeLogDirsTopic(Value):
        name: str
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition]
        def __init__(
            self,
            name: str = ...,
            partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DescribeLogDirsResult(Value):
        error_code: int
        log_dir: str
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic]
        total_bytes: int
        usable_bytes: int
        is_cordoned: bool
        def __init__(
            self,
            error_code: int = ...,
            log_dir: str = ...,
            topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = ...,
            total_bytes: int = ...,
            usable_bytes: int = ...,
            is_cordoned: bool = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class SaslAuthenticateRequest(MessageValue):
    auth_bytes: bytes
    def __init__(
        self,
        auth_bytes: bytes = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class SaslAuthenticateResponse(MessageValue):
    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int
    def __init__(
        self,
        error_code: int = ...,
        error_message: str | None = ...,
        auth_bytes: bytes = ...,
        session_lifetime_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class CreatePartitionsRequest(MessageValue):
    class CreatePartitionsAssignment(Value):
        broker_ids: list[int]
        def __init__(
            self,
            broker_ids: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class CreatePartitionsTopic(Value):
        name: str
        count: int
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None
        def __init__(
            self,
            name: str = ...,
            count: int = ...,
            assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topics: list[CreatePartitionsRequest.CreatePartitionsTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(
        self,
        topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = ...,
        timeout_ms: int = ...,
        validate_only: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class CreatePartitionsResponse(MessageValue):
    class CreatePartitionsTopicResult(Value):
        name: str
        error_code: int
        error_message: str | None
        def __init__(
            self,
            name: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class CreateDelegationTokenRequest(MessageValue):
    class CreatableRenewers(Value):
        principal_type: str
        principal_name: str
        def __init__(
            self,
            principal_type: str = ...,
            principal_name: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    owner_principal_type: str | None
    owner_principal_name: str | None
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers]
    max_lifetime_ms: int
    def __init__(
        self,
        owner_principal_type: str | None = ...,
        owner_principal_name: str | None = ...,
        renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = ...,
        max_lifetime_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class CreateDelegationTokenResponse(MessageValue):
    error_code: int
    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    token_id: str
    hmac: bytes
    throttle_time_ms: int
    def __init__(
        self,
        error_code: int = ...,
        principal_type: str = ...,
        principal_name: str = ...,
        token_requester_principal_type: str = ...,
        token_requester_principal_name: str = ...,
        issue_timestamp_ms: int = ...,
        expiry_timestamp_ms: int = ...,
        max_timestamp_ms: int = ...,
        token_id: str = ...,
        hmac: bytes = ...,
        throttle_time_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RenewDelegationTokenRequest(MessageValue):
    hmac: bytes
    renew_period_ms: int
    def __init__(
        self,
        hmac: bytes = ...,
        renew_period_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RenewDelegationTokenResponse(MessageValue):
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(
        self,
        error_code: int = ...,
        expiry_timestamp_ms: int = ...,
        throttle_time_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ExpireDelegationTokenRequest(MessageValue):
    hmac: bytes
    expiry_time_period_ms: int
    def __init__(
        self,
        hmac: bytes = ...,
        expiry_time_period_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ExpireDelegationTokenResponse(MessageValue):
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(
        self,
        error_code: int = ...,
        expiry_timestamp_ms: int = ...,
        throttle_time_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeDelegationTokenRequest(MessageValue):
    class DescribeDelegationTokenOwner(Value):
        principal_type: str
        principal_name: str
        def __init__(
            self,
            principal_type: str = ...,
            principal_name: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None
    def __init__(
        self,
        owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeDelegationTokenResponse(MessageValue):
    class DescribedDelegationTokenRenewer(Value):
        principal_type: str
        principal_name: str
        def __init__(
            self,
            principal_type: str = ...,
            principal_name: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DescribedDelegationToken(Value):
        principal_type: str
        principal_name: str
        token_requester_principal_type: str
        token_requester_principal_name: str
        issue_timestamp: int
        expiry_timestamp: int
        max_timestamp: int
        token_id: str
        hmac: bytes
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer]
        def __init__(
            self,
            principal_type: str = ...,
            principal_name: str = ...,
            token_requester_principal_type: str = ...,
            token_requester_principal_name: str = ...,
            issue_timestamp: int = ...,
            expiry_timestamp: int = ...,
            max_timestamp: int = ...,
            token_id: str = ...,
            hmac: bytes = ...,
            renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    error_code: int
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken]
    throttle_time_ms: int
    def __init__(
        self,
        error_code: int = ...,
        tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = ...,
        throttle_time_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteGroupsRequest(MessageValue):
    groups_names: list[str]
    def __init__(
        self,
        groups_names: list[str] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteGroupsResponse(MessageValue):
    class DeletableGroupResult(Value):
        group_id: str
        error_code: int
        def __init__(
            self,
            group_id: str = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    results: list[DeleteGroupsResponse.DeletableGroupResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        results: list[DeleteGroupsResponse.DeletableGroupResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ElectLeadersRequest(MessageValue):
    class TopicPartitions(Value):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            topic: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    election_type: int
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None
    timeout_ms: int
    def __init__(
        self,
        election_type: int = ...,
        topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = ...,
        timeout_ms: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ElectLeadersResponse(MessageValue):
    class PartitionResult(Value):
        partition_id: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            partition_id: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ReplicaElectionResult(Value):
        topic: str
        partition_result: list[ElectLeadersResponse.PartitionResult]
        def __init__(
            self,
            topic: str = ...,
            partition_result: list[ElectLeadersResponse.PartitionResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class IncrementalAlterConfigsRequest(MessageValue):
    class AlterableConfig(Value):
        name: str
        config_operation: int
        value: str | None
        def __init__(
            self,
            name: str = ...,
            config_operation: int = ...,
            value: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class AlterConfigsResource(Value):
        resource_type: int
        resource_name: str
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig]
        def __init__(
            self,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource]
    validate_only: bool
    def __init__(
        self,
        resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = ...,
        validate_only: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class IncrementalAlterConfigsResponse(MessageValue):
    class AlterConfigsResourceResponse(Value):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(
            self,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterPartitionReassignmentsRequest(MessageValue):
    class ReassignablePartition(Value):
        partition_index: int
        replicas: list[int] | None
        def __init__(
            self,
            partition_index: int = ...,
            replicas: list[int] | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ReassignableTopic(Value):
        name: str
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition]
        def __init__(
            self,
            name: str = ...,
            partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    timeout_ms: int
    allow_replication_factor_change: bool
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic]
    def __init__(
        self,
        timeout_ms: int = ...,
        allow_replication_factor_change: bool = ...,
        topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterPartitionReassignmentsResponse(MessageValue):
    class ReassignablePartitionResponse(Value):
        partition_index: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ReassignableTopicResponse(Value):
        name: str
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse]
        def __init__(
            self,
            name: str = ...,
            partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    allow_replication_factor_change: bool
    error_code: int
    error_message: str | None
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        allow_replication_factor_change: bool = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ListPartitionReassignmentsRequest(MessageValue):
    class ListPartitionReassignmentsTopics(Value):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            name: str = ...,
            partition_indexes: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    timeout_ms: int
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None
    def __init__(
        self,
        timeout_ms: int = ...,
        topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ListPartitionReassignmentsResponse(MessageValue):
    class OngoingPartitionReassignment(Value):
        partition_index: int
        replicas: list[int]
        adding_replicas: list[int]
        removing_replicas: list[int]
        def __init__(
            self,
            partition_index: int = ...,
            replicas: list[int] = ...,
            adding_replicas: list[int] = ...,
            removing_replicas: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class OngoingTopicReassignment(Value):
        name: str
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment]
        def __init__(
            self,
            name: str = ...,
            partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class OffsetDeleteRequest(MessageValue):
    class Partition(Value):
        partition_index: int
        def __init__(
            self,
            partition_index: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        name: str
        partitions: list[OffsetDeleteRequest.Partition]
        def __init__(
            self,
            name: str = ...,
            partitions: list[OffsetDeleteRequest.Partition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    topics: list[OffsetDeleteRequest.Topic]
    def __init__(
        self,
        group_id: str = ...,
        topics: list[OffsetDeleteRequest.Topic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class OffsetDeleteResponse(MessageValue):
    class Partition(Value):
        partition_index: int
        error_code: int
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        name: str
        partitions: list[OffsetDeleteResponse.Partition]
        def __init__(
            self,
            name: str = ...,
            partitions: list[OffsetDeleteResponse.Partition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    error_code: int
    throttle_time_ms: int
    topics: list[OffsetDeleteResponse.Topic]
    def __init__(
        self,
        error_code: int = ...,
        throttle_time_ms: int = ...,
        topics: list[OffsetDeleteResponse.Topic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeClientQuotasRequest(MessageValue):
    class ComponentData(Value):
        entity_type: str
        match_type: int
        match: str | None
        def __init__(
            self,
            entity_type: str = ...,
            match_type: int = ...,
            match: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    components: list[DescribeClientQuotasRequest.ComponentData]
    strict: bool
    def __init__(
        self,
        components: list[DescribeClientQuotasRequest.ComponentData] = ...,
        strict: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeClientQuotasResponse(MessageValue):
    class EntityData(Value):
        entity_type: str
        entity_name: str | None
        def __init__(
            self,
            entity_type: str = ...,
            entity_name: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ValueData(Value):
        key: str
        value: float
        def __init__(
            self,
            key: str = ...,
            value: float = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class EntryData(Value):
        entity: list[DescribeClientQuotasResponse.EntityData]
        values: list[DescribeClientQuotasResponse.ValueData]
        def __init__(
            self,
            entity: list[DescribeClientQuotasResponse.EntityData] = ...,
            values: list[DescribeClientQuotasResponse.ValueData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    entries: list[DescribeClientQuotasResponse.EntryData] | None
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        entries: list[DescribeClientQuotasResponse.EntryData] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterClientQuotasRequest(MessageValue):
    class EntityData(Value):
        entity_type: str
        entity_name: str | None
        def __init__(
            self,
            entity_type: str = ...,
            entity_name: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class OpData(Value):
        key: str
        value: float
        remove: bool
        def __init__(
            self,
            key: str = ...,
            value: float = ...,
            remove: bool = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class EntryData(Value):
        entity: list[AlterClientQuotasRequest.EntityData]
        ops: list[AlterClientQuotasRequest.OpData]
        def __init__(
            self,
            entity: list[AlterClientQuotasRequest.EntityData] = ...,
            ops: list[AlterClientQuotasRequest.OpData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    entries: list[AlterClientQuotasRequest.EntryData]
    validate_only: bool
    def __init__(
        self,
        entries: list[AlterClientQuotasRequest.EntryData] = ...,
        validate_only: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterClientQuotasResponse(MessageValue):
    class EntityData(Value):
        entity_type: str
        entity_name: str | None
        def __init__(
            self,
            entity_type: str = ...,
            entity_name: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class EntryData(Value):
        error_code: int
        error_message: str | None
        entity: list[AlterClientQuotasResponse.EntityData]
        def __init__(
            self,
            error_code: int = ...,
            error_message: str | None = ...,
            entity: list[AlterClientQuotasResponse.EntityData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    entries: list[AlterClientQuotasResponse.EntryData]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        entries: list[AlterClientQuotasResponse.EntryData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeUserScramCredentialsRequest(MessageValue):
    class UserName(Value):
        name: str
        def __init__(
            self,
            name: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    users: list[DescribeUserScramCredentialsRequest.UserName] | None
    def __init__(
        self,
        users: list[DescribeUserScramCredentialsRequest.UserName] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeUserScramCredentialsResponse(MessageValue):
    class CredentialInfo(Value):
        mechanism: int
        iterations: int
        def __init__(
            self,
            mechanism: int = ...,
            iterations: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DescribeUserScramCredentialsResult(Value):
        user: str
        error_code: int
        error_message: str | None
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo]
        def __init__(
            self,
            user: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterUserScramCredentialsRequest(MessageValue):
    class ScramCredentialDeletion(Value):
        name: str
        mechanism: int
        def __init__(
            self,
            name: str = ...,
            mechanism: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ScramCredentialUpsertion(Value):
        name: str
        mechanism: int
        iterations: int
        salt: bytes
        salted_password: bytes
        def __init__(
            self,
            name: str = ...,
            mechanism: int = ...,
            iterations: int = ...,
            salt: bytes = ...,
            salted_password: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion]
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion]
    def __init__(
        self,
        deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = ...,
        upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterUserScramCredentialsResponse(MessageValue):
    class AlterUserScramCredentialsResult(Value):
        user: str
        error_code: int
        error_message: str | None
        def __init__(
            self,
            user: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class VoteRequest(MessageValue):
    class PartitionData(Value):
        partition_index: int
        replica_epoch: int
        replica_id: int
        replica_directory_id: bytes
        voter_directory_id: bytes
        last_offset_epoch: int
        last_offset: int
        pre_vote: bool
        def __init__(
            self,
            partition_index: int = ...,
            replica_epoch: int = ...,
            replica_id: int = ...,
            replica_directory_id: bytes = ...,
            voter_directory_id: bytes = ...,
            last_offset_epoch: int = ...,
            last_offset: int = ...,
            pre_vote: bool = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_name: str
        partitions: list[VoteRequest.PartitionData]
        def __init__(
            self,
            topic_name: str = ...,
            partitions: list[VoteRequest.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    cluster_id: str | None
    voter_id: int
    topics: list[VoteRequest.TopicData]
    def __init__(
        self,
        cluster_id: str | None = ...,
        voter_id: int = ...,
        topics: list[VoteRequest.TopicData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class VoteResponse(MessageValue):
    class PartitionData(Value):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        vote_granted: bool
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            vote_granted: bool = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_name: str
        partitions: list[VoteResponse.PartitionData]
        def __init__(
            self,
            topic_name: str = ...,
            partitions: list[VoteResponse.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class NodeEndpoint(Value):
        node_id: int
        host: str
        port: int
        def __init__(
            self,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    error_code: int
    topics: list[VoteResponse.TopicData]
    node_endpoints: list[VoteResponse.NodeEndpoint]
    def __init__(
        self,
        error_code: int = ...,
        topics: list[VoteResponse.TopicData] = ...,
        node_endpoints: list[VoteResponse.NodeEndpoint] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class BeginQuorumEpochRequest(MessageValue):
    class PartitionData(Value):
        partition_index: int
        voter_directory_id: bytes
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            partition_index: int = ...,
            voter_directory_id: bytes = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_name: str
        partitions: list[BeginQuorumEpochRequest.PartitionData]
        def __init__(
            self,
            topic_name: str = ...,
            partitions: list[BeginQuorumEpochRequest.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class LeaderEndpoint(Value):
        name: str
        host: str
        port: int
        def __init__(
            self,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    cluster_id: str | None
    voter_id: int
    topics: list[BeginQuorumEpochRequest.TopicData]
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint]
    def __init__(
        self,
        cluster_id: str | None = ...,
        voter_id: int = ...,
        topics: list[BeginQuorumEpochRequest.TopicData] = ...,
        leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class BeginQuorumEpochResponse(MessageValue):
    class PartitionData(Value):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_name: str
        partitions: list[BeginQuorumEpochResponse.PartitionData]
        def __init__(
            self,
            topic_name: str = ...,
            partitions: list[BeginQuorumEpochResponse.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class NodeEndpoint(Value):
        node_id: int
        host: str
        port: int
        def __init__(
            self,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    error_code: int
    topics: list[BeginQuorumEpochResponse.TopicData]
    node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint]
    def __init__(
        self,
        error_code: int = ...,
        topics: list[BeginQuorumEpochResponse.TopicData] = ...,
        node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class EndQuorumEpochRequest(MessageValue):
    class ReplicaInfo(Value):
        candidate_id: int
        candidate_directory_id: bytes
        def __init__(
            self,
            candidate_id: int = ...,
            candidate_directory_id: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionData(Value):
        partition_index: int
        leader_id: int
        leader_epoch: int
        preferred_successors: list[int]
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo]
        def __init__(
            self,
            partition_index: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            preferred_successors: list[int] = ...,
            preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_name: str
        partitions: list[EndQuorumEpochRequest.PartitionData]
        def __init__(
            self,
            topic_name: str = ...,
            partitions: list[EndQuorumEpochRequest.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class LeaderEndpoint(Value):
        name: str
        host: str
        port: int
        def __init__(
            self,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    cluster_id: str | None
    topics: list[EndQuorumEpochRequest.TopicData]
    leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint]
    def __init__(
        self,
        cluster_id: str | None = ...,
        topics: list[EndQuorumEpochRequest.TopicData] = ...,
        leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class EndQuorumEpochResponse(MessageValue):
    class PartitionData(Value):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_name: str
        partitions: list[EndQuorumEpochResponse.PartitionData]
        def __init__(
            self,
            topic_name: str = ...,
            partitions: list[EndQuorumEpochResponse.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class NodeEndpoint(Value):
        node_id: int
        host: str
        port: int
        def __init__(
            self,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    error_code: int
    topics: list[EndQuorumEpochResponse.TopicData]
    node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint]
    def __init__(
        self,
        error_code: int = ...,
        topics: list[EndQuorumEpochResponse.TopicData] = ...,
        node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeQuorumRequest(MessageValue):
    class PartitionData(Value):
        partition_index: int
        def __init__(
            self,
            partition_index: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_name: str
        partitions: list[DescribeQuorumRequest.PartitionData]
        def __init__(
            self,
            topic_name: str = ...,
            partitions: list[DescribeQuorumRequest.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topics: list[DescribeQuorumRequest.TopicData]
    def __init__(
        self,
        topics: list[DescribeQuorumRequest.TopicData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeQuorumResponse(MessageValue):
    class ReplicaState(Value):
        replica_id: int
        replica_directory_id: bytes
        log_end_offset: int
        last_fetch_timestamp: int
        last_caught_up_timestamp: int
        def __init__(
            self,
            replica_id: int = ...,
            replica_directory_id: bytes = ...,
            log_end_offset: int = ...,
            last_fetch_timestamp: int = ...,
            last_caught_up_timestamp: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionData(Value):
        partition_index: int
        error_code: int
        error_message: str | None
        leader_id: int
        leader_epoch: int
        high_watermark: int
        current_voters: list[DescribeQuorumResponse.ReplicaState]
        observers: list[DescribeQuorumResponse.ReplicaState]
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            high_watermark: int = ...,
            current_voters: list[DescribeQuorumResponse.ReplicaState] = ...,
            observers: list[DescribeQuorumResponse.ReplicaState] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_name: str
        partitions: list[DescribeQuorumResponse.PartitionData]
        def __init__(
            self,
            topic_name: str = ...,
            partitions: list[DescribeQuorumResponse.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Listener(Value):
        name: str
        host: str
        port: int
        def __init__(
            self,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Node(Value):
        node_id: int
        listeners: list[DescribeQuorumResponse.Listener]
        def __init__(
            self,
            node_id: int = ...,
            listeners: list[DescribeQuorumResponse.Listener] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    error_code: int
    error_message: str | None
    topics: list[DescribeQuorumResponse.TopicData]
    nodes: list[DescribeQuorumResponse.Node]
    def __init__(
        self,
        error_code: int = ...,
        error_message: str | None = ...,
        topics: list[DescribeQuorumResponse.TopicData] = ...,
        nodes: list[DescribeQuorumResponse.Node] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterPartitionRequest(MessageValue):
    class BrokerState(Value):
        broker_id: int
        broker_epoch: int
        def __init__(
            self,
            broker_id: int = ...,
            broker_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionData(Value):
        partition_index: int
        leader_epoch: int
        new_isr: list[int]
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState]
        leader_recovery_state: int
        partition_epoch: int
        def __init__(
            self,
            partition_index: int = ...,
            leader_epoch: int = ...,
            new_isr: list[int] = ...,
            new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = ...,
            leader_recovery_state: int = ...,
            partition_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_id: bytes
        partitions: list[AlterPartitionRequest.PartitionData]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[AlterPartitionRequest.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    broker_id: int
    broker_epoch: int
    topics: list[AlterPartitionRequest.TopicData]
    def __init__(
        self,
        broker_id: int = ...,
        broker_epoch: int = ...,
        topics: list[AlterPartitionRequest.TopicData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterPartitionResponse(MessageValue):
    class PartitionData(Value):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        isr: list[int]
        leader_recovery_state: int
        partition_epoch: int
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            isr: list[int] = ...,
            leader_recovery_state: int = ...,
            partition_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_id: bytes
        partitions: list[AlterPartitionResponse.PartitionData]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[AlterPartitionResponse.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    topics: list[AlterPartitionResponse.TopicData]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        topics: list[AlterPartitionResponse.TopicData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class UpdateFeaturesRequest(MessageValue):
    class FeatureUpdateKey(Value):
        feature: str
        max_version_level: int
        allow_downgrade: bool
        upgrade_type: int
        def __init__(
            self,
            feature: str = ...,
            max_version_level: int = ...,
            allow_downgrade: bool = ...,
            upgrade_type: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    timeout_ms: int
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey]
    validate_only: bool
    def __init__(
        self,
        timeout_ms: int = ...,
        feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = ...,
        validate_only: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class UpdateFeaturesResponse(MessageValue):
    class UpdatableFeatureResult(Value):
        feature: str
        error_code: int
        error_message: str | None
        def __init__(
            self,
            feature: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class EnvelopeRequest(MessageValue):
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes
    def __init__(
        self,
        request_data: bytes = ...,
        request_principal: bytes | None = ...,
        client_host_address: bytes = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class EnvelopeResponse(MessageValue):
    response_data: bytes | None
    error_code: int
    def __init__(
        self,
        response_data: bytes | None = ...,
        error_code: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class FetchSnapshotRequest(MessageValue):
    class SnapshotId(Value):
        end_offset: int
        epoch: int
        def __init__(
            self,
            end_offset: int = ...,
            epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionSnapshot(Value):
        partition: int
        current_leader_epoch: int
        snapshot_id: FetchSnapshotRequest.SnapshotId
        position: int
        replica_directory_id: bytes
        def __init__(
            self,
            partition: int = ...,
            current_leader_epoch: int = ...,
            snapshot_id: FetchSnapshotRequest.SnapshotId = ...,
            position: int = ...,
            replica_directory_id: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicSnapshot(Value):
        name: str
        partitions: list[FetchSnapshotRequest.PartitionSnapshot]
        def __init__(
            self,
            name: str = ...,
            partitions: list[FetchSnapshotRequest.PartitionSnapshot] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    cluster_id: str | None
    replica_id: int
    max_bytes: int
    topics: list[FetchSnapshotRequest.TopicSnapshot]
    def __init__(
        self,
        cluster_id: str | None = ...,
        replica_id: int = ...,
        max_bytes: int = ...,
        topics: list[FetchSnapshotRequest.TopicSnapshot] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class FetchSnapshotResponse(MessageValue):
    class SnapshotId(Value):
        end_offset: int
        epoch: int
        def __init__(
            self,
            end_offset: int = ...,
            epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class LeaderIdAndEpoch(Value):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            leader_id: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionSnapshot(Value):
        index: int
        error_code: int
        snapshot_id: FetchSnapshotResponse.SnapshotId
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch
        size: int
        position: int
        unaligned_records: bytes
        def __init__(
            self,
            index: int = ...,
            error_code: int = ...,
            snapshot_id: FetchSnapshotResponse.SnapshotId = ...,
            current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = ...,
            size: int = ...,
            position: int = ...,
            unaligned_records: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicSnapshot(Value):
        name: str
        partitions: list[FetchSnapshotResponse.PartitionSnapshot]
        def __init__(
            self,
            name: str = ...,
            partitions: list[FetchSnapshotResponse.PartitionSnapshot] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class NodeEndpoint(Value):
        node_id: int
        host: str
        port: int
        def __init__(
            self,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    topics: list[FetchSnapshotResponse.TopicSnapshot]
    node_endpoints: list[FetchSnapshotResponse.NodeEndpoint]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        topics: list[FetchSnapshotResponse.TopicSnapshot] = ...,
        node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeClusterRequest(MessageValue):
    include_cluster_authorized_operations: bool
    endpoint_type: int
    include_fenced_brokers: bool
    def __init__(
        self,
        include_cluster_authorized_operations: bool = ...,
        endpoint_type: int = ...,
        include_fenced_brokers: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeClusterResponse(MessageValue):
    class DescribeClusterBroker(Value):
        broker_id: int
        host: str
        port: int
        rack: str | None
        is_fenced: bool
        def __init__(
            self,
            broker_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
            is_fenced: bool = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    brokers: list[DescribeClusterResponse.DescribeClusterBroker]
    cluster_authorized_operations: int
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        endpoint_type: int = ...,
        cluster_id: str = ...,
        controller_id: int = ...,
        brokers: list[DescribeClusterResponse.DescribeClusterBroker] = ...,
        cluster_authorized_operations: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeProducersRequest(MessageValue):
    class TopicRequest(Value):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            name: str = ...,
            partition_indexes: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topics: list[DescribeProducersRequest.TopicRequest]
    def __init__(
        self,
        topics: list[DescribeProducersRequest.TopicRequest] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeProducersResponse(MessageValue):
    class ProducerState(Value):
        producer_id: int
        producer_epoch: int
        last_sequence: int
        last_timestamp: int
        coordinator_epoch: int
        current_txn_start_offset: int
        def __init__(
            self,
            producer_id: int = ...,
            producer_epoch: int = ...,
            last_sequence: int = ...,
            last_timestamp: int = ...,
            coordinator_epoch: int = ...,
            current_txn_start_offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionResponse(Value):
        partition_index: int
        error_code: int
        error_message: str | None
        active_producers: list[DescribeProducersResponse.ProducerState]
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            active_producers: list[DescribeProducersResponse.ProducerState] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicResponse(Value):
        name: str
        partitions: list[DescribeProducersResponse.PartitionResponse]
        def __init__(
            self,
            name: str = ...,
            partitions: list[DescribeProducersResponse.PartitionResponse] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[DescribeProducersResponse.TopicResponse]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        topics: list[DescribeProducersResponse.TopicResponse] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class BrokerRegistrationRequest(MessageValue):
    class Listener(Value):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(
            self,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            security_protocol: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Feature(Value):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            name: str = ...,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    listeners: list[BrokerRegistrationRequest.Listener]
    features: list[BrokerRegistrationRequest.Feature]
    rack: str | None
    is_migrating_zk_broker: bool
    log_dirs: list[bytes]
    previous_broker_epoch: int
    def __init__(
        self,
        broker_id: int = ...,
        cluster_id: str = ...,
        incarnation_id: bytes = ...,
        listeners: list[BrokerRegistrationRequest.Listener] = ...,
        features: list[BrokerRegistrationRequest.Feature] = ...,
        rack: str | None = ...,
        is_migrating_zk_broker: bool = ...,
        log_dirs: list[bytes] = ...,
        previous_broker_epoch: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class BrokerRegistrationResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    broker_epoch: int
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        broker_epoch: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class BrokerHeartbeatRequest(MessageValue):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: list[bytes]
    cordoned_log_dirs: list[bytes] | None
    def __init__(
        self,
        broker_id: int = ...,
        broker_epoch: int = ...,
        current_metadata_offset: int = ...,
        want_fence: bool = ...,
        want_shut_down: bool = ...,
        offline_log_dirs: list[bytes] = ...,
        cordoned_log_dirs: list[bytes] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class BrokerHeartbeatResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        is_caught_up: bool = ...,
        is_fenced: bool = ...,
        should_shut_down: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class UnregisterBrokerRequest(MessageValue):
    broker_id: int
    def __init__(
        self,
        broker_id: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class UnregisterBrokerResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeTransactionsRequest(MessageValue):
    transactional_ids: list[str]
    def __init__(
        self,
        transactional_ids: list[str] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeTransactionsResponse(MessageValue):
    class TopicData(Value):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            topic: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TransactionState(Value):
        error_code: int
        transactional_id: str
        transaction_state: str
        transaction_timeout_ms: int
        transaction_start_time_ms: int
        producer_id: int
        producer_epoch: int
        topics: list[DescribeTransactionsResponse.TopicData]
        def __init__(
            self,
            error_code: int = ...,
            transactional_id: str = ...,
            transaction_state: str = ...,
            transaction_timeout_ms: int = ...,
            transaction_start_time_ms: int = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
            topics: list[DescribeTransactionsResponse.TopicData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    transaction_states: list[DescribeTransactionsResponse.TransactionState]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        transaction_states: list[DescribeTransactionsResponse.TransactionState] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ListTransactionsRequest(MessageValue):
    state_filters: list[str]
    producer_id_filters: list[int]
    duration_filter: int
    transactional_id_pattern: str | None
    def __init__(
        self,
        state_filters: list[str] = ...,
        producer_id_filters: list[int] = ...,
        duration_filter: int = ...,
        transactional_id_pattern: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ListTransactionsResponse(MessageValue):
    class TransactionState(Value):
        transactional_id: str
        producer_id: int
        transaction_state: str
        def __init__(
            self,
            transactional_id: str = ...,
            producer_id: int = ...,
            transaction_state: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    unknown_state_filters: list[str]
    transaction_states: list[ListTransactionsResponse.TransactionState]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        unknown_state_filters: list[str] = ...,
        transaction_states: list[ListTransactionsResponse.TransactionState] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AllocateProducerIdsRequest(MessageValue):
    broker_id: int
    broker_epoch: int
    def __init__(
        self,
        broker_id: int = ...,
        broker_epoch: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AllocateProducerIdsResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    producer_id_start: int
    producer_id_len: int
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        producer_id_start: int = ...,
        producer_id_len: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupHeartbeatRequest(MessageValue):
    class TopicPartitions(Value):
        topic_id: bytes
        partitions: list[int]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topic_names: list[str] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        rebalance_timeout_ms: int = ...,
        subscribed_topic_names: list[str] | None = ...,
        subscribed_topic_regex: str | None = ...,
        server_assignor: str | None = ...,
        topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupHeartbeatResponse(MessageValue):
    class TopicPartitions(Value):
        topic_id: bytes
        partitions: list[int]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Assignment(Value):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions]
        def __init__(
            self,
            topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        member_id: str | None = ...,
        member_epoch: int = ...,
        heartbeat_interval_ms: int = ...,
        assignment: ConsumerGroupHeartbeatResponse.Assignment | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupDescribeRequest(MessageValue):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(
        self,
        group_ids: list[str] = ...,
        include_authorized_operations: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupDescribeResponse(MessageValue):
    class TopicPartitions(Value):
        topic_id: bytes
        topic_name: str
        partitions: list[int]
        def __init__(
            self,
            topic_id: bytes = ...,
            topic_name: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Assignment(Value):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions]
        def __init__(
            self,
            topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Member(Value):
        member_id: str
        instance_id: str | None
        rack_id: str | None
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: list[str]
        subscribed_topic_regex: str | None
        assignment: ConsumerGroupDescribeResponse.Assignment
        target_assignment: ConsumerGroupDescribeResponse.Assignment
        member_type: int
        def __init__(
            self,
            member_id: str = ...,
            instance_id: str | None = ...,
            rack_id: str | None = ...,
            member_epoch: int = ...,
            client_id: str = ...,
            client_host: str = ...,
            subscribed_topic_names: list[str] = ...,
            subscribed_topic_regex: str | None = ...,
            assignment: ConsumerGroupDescribeResponse.Assignment = ...,
            target_assignment: ConsumerGroupDescribeResponse.Assignment = ...,
            member_type: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DescribedGroup(Value):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[ConsumerGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(
            self,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            group_epoch: int = ...,
            assignment_epoch: int = ...,
            assignor_name: str = ...,
            members: list[ConsumerGroupDescribeResponse.Member] = ...,
            authorized_operations: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ControllerRegistrationRequest(MessageValue):
    class Listener(Value):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(
            self,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            security_protocol: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Feature(Value):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            name: str = ...,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    controller_id: int
    incarnation_id: bytes
    zk_migration_ready: bool
    listeners: list[ControllerRegistrationRequest.Listener]
    features: list[ControllerRegistrationRequest.Feature]
    def __init__(
        self,
        controller_id: int = ...,
        incarnation_id: bytes = ...,
        zk_migration_ready: bool = ...,
        listeners: list[ControllerRegistrationRequest.Listener] = ...,
        features: list[ControllerRegistrationRequest.Feature] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ControllerRegistrationResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class GetTelemetrySubscriptionsRequest(MessageValue):
    client_instance_id: bytes
    def __init__(
        self,
        client_instance_id: bytes = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class GetTelemetrySubscriptionsResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    client_instance_id: bytes
    subscription_id: int
    accepted_compression_types: list[int]
    push_interval_ms: int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: list[str]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        client_instance_id: bytes = ...,
        subscription_id: int = ...,
        accepted_compression_types: list[int] = ...,
        push_interval_ms: int = ...,
        telemetry_max_bytes: int = ...,
        delta_temporality: bool = ...,
        requested_metrics: list[str] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class PushTelemetryRequest(MessageValue):
    client_instance_id: bytes
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes
    def __init__(
        self,
        client_instance_id: bytes = ...,
        subscription_id: int = ...,
        terminating: bool = ...,
        compression_type: int = ...,
        metrics: bytes = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class PushTelemetryResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AssignReplicasToDirsRequest(MessageValue):
    class PartitionData(Value):
        partition_index: int
        def __init__(
            self,
            partition_index: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_id: bytes
        partitions: list[AssignReplicasToDirsRequest.PartitionData]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[AssignReplicasToDirsRequest.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DirectoryData(Value):
        id: bytes
        topics: list[AssignReplicasToDirsRequest.TopicData]
        def __init__(
            self,
            id: bytes = ...,
            topics: list[AssignReplicasToDirsRequest.TopicData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    broker_id: int
    broker_epoch: int
    directories: list[AssignReplicasToDirsRequest.DirectoryData]
    def __init__(
        self,
        broker_id: int = ...,
        broker_epoch: int = ...,
        directories: list[AssignReplicasToDirsRequest.DirectoryData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AssignReplicasToDirsResponse(MessageValue):
    class PartitionData(Value):
        partition_index: int
        error_code: int
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicData(Value):
        topic_id: bytes
        partitions: list[AssignReplicasToDirsResponse.PartitionData]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[AssignReplicasToDirsResponse.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DirectoryData(Value):
        id: bytes
        topics: list[AssignReplicasToDirsResponse.TopicData]
        def __init__(
            self,
            id: bytes = ...,
            topics: list[AssignReplicasToDirsResponse.TopicData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    directories: list[AssignReplicasToDirsResponse.DirectoryData]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        directories: list[AssignReplicasToDirsResponse.DirectoryData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ListConfigResourcesRequest(MessageValue):
    resource_types: list[int]
    def __init__(
        self,
        resource_types: list[int] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ListConfigResourcesResponse(MessageValue):
    class ConfigResource(Value):
        resource_name: str
        resource_type: int
        def __init__(
            self,
            resource_name: str = ...,
            resource_type: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    config_resources: list[ListConfigResourcesResponse.ConfigResource]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        config_resources: list[ListConfigResourcesResponse.ConfigResource] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeTopicPartitionsRequest(MessageValue):
    class TopicRequest(Value):
        name: str
        def __init__(
            self,
            name: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Cursor(Value):
        topic_name: str
        partition_index: int
        def __init__(
            self,
            topic_name: str = ...,
            partition_index: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topics: list[DescribeTopicPartitionsRequest.TopicRequest]
    response_partition_limit: int
    cursor: DescribeTopicPartitionsRequest.Cursor | None
    def __init__(
        self,
        topics: list[DescribeTopicPartitionsRequest.TopicRequest] = ...,
        response_partition_limit: int = ...,
        cursor: DescribeTopicPartitionsRequest.Cursor | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeTopicPartitionsResponse(MessageValue):
    class Partition(Value):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        eligible_leader_replicas: list[int] | None
        last_known_elr: list[int] | None
        offline_replicas: list[int]
        def __init__(
            self,
            error_code: int = ...,
            partition_index: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            replica_nodes: list[int] = ...,
            isr_nodes: list[int] = ...,
            eligible_leader_replicas: list[int] | None = ...,
            last_known_elr: list[int] | None = ...,
            offline_replicas: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        error_code: int
        name: str | None
        topic_id: bytes
        is_internal: bool
        partitions: list[DescribeTopicPartitionsResponse.Partition]
        topic_authorized_operations: int
        def __init__(
            self,
            error_code: int = ...,
            name: str | None = ...,
            topic_id: bytes = ...,
            is_internal: bool = ...,
            partitions: list[DescribeTopicPartitionsResponse.Partition] = ...,
            topic_authorized_operations: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Cursor(Value):
        topic_name: str
        partition_index: int
        def __init__(
            self,
            topic_name: str = ...,
            partition_index: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[DescribeTopicPartitionsResponse.Topic]
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None
    def __init__(
        self,
        throttle_time_ms: int = ...,
        topics: list[DescribeTopicPartitionsResponse.Topic] = ...,
        next_cursor: DescribeTopicPartitionsResponse.Cursor | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupHeartbeatRequest(MessageValue):
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topic_names: list[str] | None
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        rack_id: str | None = ...,
        subscribed_topic_names: list[str] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupHeartbeatResponse(MessageValue):
    class TopicPartitions(Value):
        topic_id: bytes
        partitions: list[int]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Assignment(Value):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions]
        def __init__(
            self,
            topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ShareGroupHeartbeatResponse.Assignment | None
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        member_id: str | None = ...,
        member_epoch: int = ...,
        heartbeat_interval_ms: int = ...,
        assignment: ShareGroupHeartbeatResponse.Assignment | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupDescribeRequest(MessageValue):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(
        self,
        group_ids: list[str] = ...,
        include_authorized_operations: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupDescribeResponse(MessageValue):
    class TopicPartitions(Value):
        topic_id: bytes
        topic_name: str
        partitions: list[int]
        def __init__(
            self,
            topic_id: bytes = ...,
            topic_name: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Assignment(Value):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions]
        def __init__(
            self,
            topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Member(Value):
        member_id: str
        rack_id: str | None
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: list[str]
        assignment: ShareGroupDescribeResponse.Assignment
        def __init__(
            self,
            member_id: str = ...,
            rack_id: str | None = ...,
            member_epoch: int = ...,
            client_id: str = ...,
            client_host: str = ...,
            subscribed_topic_names: list[str] = ...,
            assignment: ShareGroupDescribeResponse.Assignment = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DescribedGroup(Value):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[ShareGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(
            self,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            group_epoch: int = ...,
            assignment_epoch: int = ...,
            assignor_name: str = ...,
            members: list[ShareGroupDescribeResponse.Member] = ...,
            authorized_operations: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    groups: list[ShareGroupDescribeResponse.DescribedGroup]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        groups: list[ShareGroupDescribeResponse.DescribedGroup] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareFetchRequest(MessageValue):
    class AcknowledgementBatch(Value):
        first_offset: int
        last_offset: int
        acknowledge_types: list[int]
        def __init__(
            self,
            first_offset: int = ...,
            last_offset: int = ...,
            acknowledge_types: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class FetchPartition(Value):
        partition_index: int
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch]
        def __init__(
            self,
            partition_index: int = ...,
            acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class FetchTopic(Value):
        topic_id: bytes
        partitions: list[ShareFetchRequest.FetchPartition]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[ShareFetchRequest.FetchPartition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ForgottenTopic(Value):
        topic_id: bytes
        partitions: list[int]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int
    is_renew_ack: bool
    topics: list[ShareFetchRequest.FetchTopic]
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic]
    def __init__(
        self,
        group_id: str | None = ...,
        member_id: str | None = ...,
        share_session_epoch: int = ...,
        max_wait_ms: int = ...,
        min_bytes: int = ...,
        max_bytes: int = ...,
        max_records: int = ...,
        batch_size: int = ...,
        share_acquire_mode: int = ...,
        is_renew_ack: bool = ...,
        topics: list[ShareFetchRequest.FetchTopic] = ...,
        forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareFetchResponse(MessageValue):
    class LeaderIdAndEpoch(Value):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            leader_id: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class AcquiredRecords(Value):
        first_offset: int
        last_offset: int
        delivery_count: int
        def __init__(
            self,
            first_offset: int = ...,
            last_offset: int = ...,
            delivery_count: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionData(Value):
        partition_index: int
        error_code: int
        error_message: str | None
        acknowledge_error_code: int
        acknowledge_error_message: str | None
        current_leader: ShareFetchResponse.LeaderIdAndEpoch
        records: bytes
        acquired_records: list[ShareFetchResponse.AcquiredRecords]
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            acknowledge_error_code: int = ...,
            acknowledge_error_message: str | None = ...,
            current_leader: ShareFetchResponse.LeaderIdAndEpoch = ...,
            records: bytes = ...,
            acquired_records: list[ShareFetchResponse.AcquiredRecords] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ShareFetchableTopicResponse(Value):
        topic_id: bytes
        partitions: list[ShareFetchResponse.PartitionData]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[ShareFetchResponse.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class NodeEndpoint(Value):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse]
    node_endpoints: list[ShareFetchResponse.NodeEndpoint]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        acquisition_lock_timeout_ms: int = ...,
        responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = ...,
        node_endpoints: list[ShareFetchResponse.NodeEndpoint] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareAcknowledgeRequest(MessageValue):
    class AcknowledgementBatch(Value):
        first_offset: int
        last_offset: int
        acknowledge_types: list[int]
        def __init__(
            self,
            first_offset: int = ...,
            last_offset: int = ...,
            acknowledge_types: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class AcknowledgePartition(Value):
        partition_index: int
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch]
        def __init__(
            self,
            partition_index: int = ...,
            acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class AcknowledgeTopic(Value):
        topic_id: bytes
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic]
    def __init__(
        self,
        group_id: str | None = ...,
        member_id: str | None = ...,
        share_session_epoch: int = ...,
        is_renew_ack: bool = ...,
        topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareAcknowledgeResponse(MessageValue):
    class LeaderIdAndEpoch(Value):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            leader_id: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionData(Value):
        partition_index: int
        error_code: int
        error_message: str | None
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ShareAcknowledgeTopicResponse(Value):
        topic_id: bytes
        partitions: list[ShareAcknowledgeResponse.PartitionData]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[ShareAcknowledgeResponse.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class NodeEndpoint(Value):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse]
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        acquisition_lock_timeout_ms: int = ...,
        responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = ...,
        node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AddRaftVoterRequest(MessageValue):
    class Listener(Value):
        name: str
        host: str
        port: int
        def __init__(
            self,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: bytes
    listeners: list[AddRaftVoterRequest.Listener]
    ack_when_committed: bool
    def __init__(
        self,
        cluster_id: str | None = ...,
        timeout_ms: int = ...,
        voter_id: int = ...,
        voter_directory_id: bytes = ...,
        listeners: list[AddRaftVoterRequest.Listener] = ...,
        ack_when_committed: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AddRaftVoterResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RemoveRaftVoterRequest(MessageValue):
    cluster_id: str | None
    voter_id: int
    voter_directory_id: bytes
    def __init__(
        self,
        cluster_id: str | None = ...,
        voter_id: int = ...,
        voter_directory_id: bytes = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RemoveRaftVoterResponse(MessageValue):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class UpdateRaftVoterRequest(MessageValue):
    class Listener(Value):
        name: str
        host: str
        port: int
        def __init__(
            self,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class KRaftVersionFeature(Value):
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: bytes
    listeners: list[UpdateRaftVoterRequest.Listener]
    k_raft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature
    def __init__(
        self,
        cluster_id: str | None = ...,
        current_leader_epoch: int = ...,
        voter_id: int = ...,
        voter_directory_id: bytes = ...,
        listeners: list[UpdateRaftVoterRequest.Listener] = ...,
        k_raft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class UpdateRaftVoterResponse(MessageValue):
    class CurrentLeader(Value):
        leader_id: int
        leader_epoch: int
        host: str
        port: int
        def __init__(
            self,
            leader_id: int = ...,
            leader_epoch: int = ...,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    current_leader: UpdateRaftVoterResponse.CurrentLeader
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        current_leader: UpdateRaftVoterResponse.CurrentLeader = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class InitializeShareGroupStateRequest(MessageValue):
    class PartitionData(Value):
        partition: int
        state_epoch: int
        start_offset: int
        def __init__(
            self,
            partition: int = ...,
            state_epoch: int = ...,
            start_offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class InitializeStateData(Value):
        topic_id: bytes
        partitions: list[InitializeShareGroupStateRequest.PartitionData]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[InitializeShareGroupStateRequest.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    topics: list[InitializeShareGroupStateRequest.InitializeStateData]
    def __init__(
        self,
        group_id: str = ...,
        topics: list[InitializeShareGroupStateRequest.InitializeStateData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class InitializeShareGroupStateResponse(MessageValue):
    class PartitionResult(Value):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            partition: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class InitializeStateResult(Value):
        topic_id: bytes
        partitions: list[InitializeShareGroupStateResponse.PartitionResult]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[InitializeShareGroupStateResponse.PartitionResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    results: list[InitializeShareGroupStateResponse.InitializeStateResult]
    def __init__(
        self,
        results: list[InitializeShareGroupStateResponse.InitializeStateResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ReadShareGroupStateRequest(MessageValue):
    class PartitionData(Value):
        partition: int
        leader_epoch: int
        def __init__(
            self,
            partition: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ReadStateData(Value):
        topic_id: bytes
        partitions: list[ReadShareGroupStateRequest.PartitionData]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[ReadShareGroupStateRequest.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    topics: list[ReadShareGroupStateRequest.ReadStateData]
    def __init__(
        self,
        group_id: str = ...,
        topics: list[ReadShareGroupStateRequest.ReadStateData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ReadShareGroupStateResponse(MessageValue):
    class StateBatch(Value):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(
            self,
            first_offset: int = ...,
            last_offset: int = ...,
            delivery_state: int = ...,
            delivery_count: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionResult(Value):
        partition: int
        error_code: int
        error_message: str | None
        state_epoch: int
        start_offset: int
        state_batches: list[ReadShareGroupStateResponse.StateBatch]
        def __init__(
            self,
            partition: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            state_epoch: int = ...,
            start_offset: int = ...,
            state_batches: list[ReadShareGroupStateResponse.StateBatch] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ReadStateResult(Value):
        topic_id: bytes
        partitions: list[ReadShareGroupStateResponse.PartitionResult]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[ReadShareGroupStateResponse.PartitionResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    results: list[ReadShareGroupStateResponse.ReadStateResult]
    def __init__(
        self,
        results: list[ReadShareGroupStateResponse.ReadStateResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class WriteShareGroupStateRequest(MessageValue):
    class StateBatch(Value):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(
            self,
            first_offset: int = ...,
            last_offset: int = ...,
            delivery_state: int = ...,
            delivery_count: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class PartitionData(Value):
        partition: int
        state_epoch: int
        leader_epoch: int
        start_offset: int
        delivery_complete_count: int
        state_batches: list[WriteShareGroupStateRequest.StateBatch]
        def __init__(
            self,
            partition: int = ...,
            state_epoch: int = ...,
            leader_epoch: int = ...,
            start_offset: int = ...,
            delivery_complete_count: int = ...,
            state_batches: list[WriteShareGroupStateRequest.StateBatch] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class WriteStateData(Value):
        topic_id: bytes
        partitions: list[WriteShareGroupStateRequest.PartitionData]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[WriteShareGroupStateRequest.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    topics: list[WriteShareGroupStateRequest.WriteStateData]
    def __init__(
        self,
        group_id: str = ...,
        topics: list[WriteShareGroupStateRequest.WriteStateData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class WriteShareGroupStateResponse(MessageValue):
    class PartitionResult(Value):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            partition: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class WriteStateResult(Value):
        topic_id: bytes
        partitions: list[WriteShareGroupStateResponse.PartitionResult]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[WriteShareGroupStateResponse.PartitionResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    results: list[WriteShareGroupStateResponse.WriteStateResult]
    def __init__(
        self,
        results: list[WriteShareGroupStateResponse.WriteStateResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteShareGroupStateRequest(MessageValue):
    class PartitionData(Value):
        partition: int
        def __init__(
            self,
            partition: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DeleteStateData(Value):
        topic_id: bytes
        partitions: list[DeleteShareGroupStateRequest.PartitionData]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[DeleteShareGroupStateRequest.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    topics: list[DeleteShareGroupStateRequest.DeleteStateData]
    def __init__(
        self,
        group_id: str = ...,
        topics: list[DeleteShareGroupStateRequest.DeleteStateData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteShareGroupStateResponse(MessageValue):
    class PartitionResult(Value):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            partition: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DeleteStateResult(Value):
        topic_id: bytes
        partitions: list[DeleteShareGroupStateResponse.PartitionResult]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[DeleteShareGroupStateResponse.PartitionResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    results: list[DeleteShareGroupStateResponse.DeleteStateResult]
    def __init__(
        self,
        results: list[DeleteShareGroupStateResponse.DeleteStateResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ReadShareGroupStateSummaryRequest(MessageValue):
    class PartitionData(Value):
        partition: int
        leader_epoch: int
        def __init__(
            self,
            partition: int = ...,
            leader_epoch: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ReadStateSummaryData(Value):
        topic_id: bytes
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData]
    def __init__(
        self,
        group_id: str = ...,
        topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ReadShareGroupStateSummaryResponse(MessageValue):
    class PartitionResult(Value):
        partition: int
        error_code: int
        error_message: str | None
        state_epoch: int
        leader_epoch: int
        start_offset: int
        delivery_complete_count: int
        def __init__(
            self,
            partition: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            state_epoch: int = ...,
            leader_epoch: int = ...,
            start_offset: int = ...,
            delivery_complete_count: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ReadStateSummaryResult(Value):
        topic_id: bytes
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult]
    def __init__(
        self,
        results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupHeartbeatRequest(MessageValue):
    class KeyValue(Value):
        key: str
        value: str
        def __init__(
            self,
            key: str = ...,
            value: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicInfo(Value):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue]
        def __init__(
            self,
            name: str = ...,
            partitions: int = ...,
            replication_factor: int = ...,
            topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class CopartitionGroup(Value):
        source_topics: list[int]
        source_topic_regex: list[int]
        repartition_source_topics: list[int]
        def __init__(
            self,
            source_topics: list[int] = ...,
            source_topic_regex: list[int] = ...,
            repartition_source_topics: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Subtopology(Value):
        subtopology_id: str
        source_topics: list[str]
        source_topic_regex: list[str]
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        repartition_sink_topics: list[str]
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup]
        def __init__(
            self,
            subtopology_id: str = ...,
            source_topics: list[str] = ...,
            source_topic_regex: list[str] = ...,
            state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ...,
            repartition_sink_topics: list[str] = ...,
            repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ...,
            copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topology(Value):
        epoch: int
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology]
        def __init__(
            self,
            epoch: int = ...,
            subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TaskIds(Value):
        subtopology_id: str
        partitions: list[int]
        def __init__(
            self,
            subtopology_id: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Endpoint(Value):
        host: str
        port: int
        def __init__(
            self,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TaskOffset(Value):
        subtopology_id: str
        partition: int
        offset: int
        def __init__(
            self,
            subtopology_id: str = ...,
            partition: int = ...,
            offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: StreamsGroupHeartbeatRequest.Topology | None
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    process_id: str | None
    user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None
    shutdown_application: bool
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        endpoint_information_epoch: int = ...,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        rebalance_timeout_ms: int = ...,
        topology: StreamsGroupHeartbeatRequest.Topology | None = ...,
        active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ...,
        standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ...,
        warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ...,
        process_id: str | None = ...,
        user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = ...,
        client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = ...,
        task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = ...,
        task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = ...,
        shutdown_application: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupHeartbeatResponse(MessageValue):
    class Status(Value):
        status_code: int
        status_detail: str
        def __init__(
            self,
            status_code: int = ...,
            status_detail: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TaskIds(Value):
        subtopology_id: str
        partitions: list[int]
        def __init__(
            self,
            subtopology_id: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Endpoint(Value):
        host: str
        port: int
        def __init__(
            self,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicPartition(Value):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            topic: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class EndpointToPartitions(Value):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]
        def __init__(
            self,
            user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = ...,
            active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ...,
            standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    acceptable_recovery_lag: int
    task_offset_interval_ms: int
    status: list[StreamsGroupHeartbeatResponse.Status] | None
    active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    endpoint_information_epoch: int
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        heartbeat_interval_ms: int = ...,
        acceptable_recovery_lag: int = ...,
        task_offset_interval_ms: int = ...,
        status: list[StreamsGroupHeartbeatResponse.Status] | None = ...,
        active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ...,
        standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ...,
        warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ...,
        endpoint_information_epoch: int = ...,
        partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupDescribeRequest(MessageValue):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(
        self,
        group_ids: list[str] = ...,
        include_authorized_operations: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupDescribeResponse(MessageValue):
    class KeyValue(Value):
        key: str
        value: str
        def __init__(
            self,
            key: str = ...,
            value: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicInfo(Value):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue]
        def __init__(
            self,
            name: str = ...,
            partitions: int = ...,
            replication_factor: int = ...,
            topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Subtopology(Value):
        subtopology_id: str
        source_topics: list[str]
        repartition_sink_topics: list[str]
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo]
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo]
        def __init__(
            self,
            subtopology_id: str = ...,
            source_topics: list[str] = ...,
            repartition_sink_topics: list[str] = ...,
            state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ...,
            repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topology(Value):
        epoch: int
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None
        def __init__(
            self,
            epoch: int = ...,
            subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Endpoint(Value):
        host: str
        port: int
        def __init__(
            self,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TaskOffset(Value):
        subtopology_id: str
        partition: int
        offset: int
        def __init__(
            self,
            subtopology_id: str = ...,
            partition: int = ...,
            offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TaskIds(Value):
        subtopology_id: str
        partitions: list[int]
        def __init__(
            self,
            subtopology_id: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Assignment(Value):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        def __init__(
            self,
            active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ...,
            standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ...,
            warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Member(Value):
        member_id: str
        member_epoch: int
        instance_id: str | None
        rack_id: str | None
        client_id: str
        client_host: str
        topology_epoch: int
        process_id: str
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None
        client_tags: list[StreamsGroupDescribeResponse.KeyValue]
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        assignment: StreamsGroupDescribeResponse.Assignment
        target_assignment: StreamsGroupDescribeResponse.Assignment
        is_classic: bool
        def __init__(
            self,
            member_id: str = ...,
            member_epoch: int = ...,
            instance_id: str | None = ...,
            rack_id: str | None = ...,
            client_id: str = ...,
            client_host: str = ...,
            topology_epoch: int = ...,
            process_id: str = ...,
            user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = ...,
            client_tags: list[StreamsGroupDescribeResponse.KeyValue] = ...,
            task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ...,
            task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ...,
            assignment: StreamsGroupDescribeResponse.Assignment = ...,
            target_assignment: StreamsGroupDescribeResponse.Assignment = ...,
            is_classic: bool = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class DescribedGroup(Value):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        topology: StreamsGroupDescribeResponse.Topology | None
        members: list[StreamsGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(
            self,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            group_epoch: int = ...,
            assignment_epoch: int = ...,
            topology: StreamsGroupDescribeResponse.Topology | None = ...,
            members: list[StreamsGroupDescribeResponse.Member] = ...,
            authorized_operations: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    groups: list[StreamsGroupDescribeResponse.DescribedGroup]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        groups: list[StreamsGroupDescribeResponse.DescribedGroup] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeShareGroupOffsetsRequest(MessageValue):
    class Topic(Value):
        topic_name: str
        partitions: list[int]
        def __init__(
            self,
            topic_name: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Group(Value):
        group_id: str
        topics: list[DescribeShareGroupOffsetsRequest.Topic] | None
        def __init__(
            self,
            group_id: str = ...,
            topics: list[DescribeShareGroupOffsetsRequest.Topic] | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    groups: list[DescribeShareGroupOffsetsRequest.Group]
    def __init__(
        self,
        groups: list[DescribeShareGroupOffsetsRequest.Group] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DescribeShareGroupOffsetsResponse(MessageValue):
    class Partition(Value):
        partition_index: int
        start_offset: int
        leader_epoch: int
        lag: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            partition_index: int = ...,
            start_offset: int = ...,
            leader_epoch: int = ...,
            lag: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        topic_name: str
        topic_id: bytes
        partitions: list[DescribeShareGroupOffsetsResponse.Partition]
        def __init__(
            self,
            topic_name: str = ...,
            topic_id: bytes = ...,
            partitions: list[DescribeShareGroupOffsetsResponse.Partition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Group(Value):
        group_id: str
        topics: list[DescribeShareGroupOffsetsResponse.Topic]
        error_code: int
        error_message: str | None
        def __init__(
            self,
            group_id: str = ...,
            topics: list[DescribeShareGroupOffsetsResponse.Topic] = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    groups: list[DescribeShareGroupOffsetsResponse.Group]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        groups: list[DescribeShareGroupOffsetsResponse.Group] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterShareGroupOffsetsRequest(MessageValue):
    class Partition(Value):
        partition_index: int
        start_offset: int
        def __init__(
            self,
            partition_index: int = ...,
            start_offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        topic_name: str
        partitions: list[AlterShareGroupOffsetsRequest.Partition]
        def __init__(
            self,
            topic_name: str = ...,
            partitions: list[AlterShareGroupOffsetsRequest.Partition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    topics: list[AlterShareGroupOffsetsRequest.Topic]
    def __init__(
        self,
        group_id: str = ...,
        topics: list[AlterShareGroupOffsetsRequest.Topic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AlterShareGroupOffsetsResponse(MessageValue):
    class Partition(Value):
        partition_index: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Topic(Value):
        topic_name: str
        topic_id: bytes
        partitions: list[AlterShareGroupOffsetsResponse.Partition]
        def __init__(
            self,
            topic_name: str = ...,
            topic_id: bytes = ...,
            partitions: list[AlterShareGroupOffsetsResponse.Partition] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[AlterShareGroupOffsetsResponse.Topic]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        responses: list[AlterShareGroupOffsetsResponse.Topic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteShareGroupOffsetsRequest(MessageValue):
    class Topic(Value):
        topic_name: str
        def __init__(
            self,
            topic_name: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    group_id: str
    topics: list[DeleteShareGroupOffsetsRequest.Topic]
    def __init__(
        self,
        group_id: str = ...,
        topics: list[DeleteShareGroupOffsetsRequest.Topic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DeleteShareGroupOffsetsResponse(MessageValue):
    class Topic(Value):
        topic_name: str
        topic_id: bytes
        error_code: int
        error_message: str | None
        def __init__(
            self,
            topic_name: str = ...,
            topic_id: bytes = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[DeleteShareGroupOffsetsResponse.Topic]
    def __init__(
        self,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        responses: list[DeleteShareGroupOffsetsResponse.Topic] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AbortTransactionRecord(MessageValue):
    reason: str | None
    def __init__(
        self,
        reason: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class AccessControlEntryRecord(MessageValue):
    id: bytes
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(
        self,
        id: bytes = ...,
        resource_type: int = ...,
        resource_name: str = ...,
        pattern_type: int = ...,
        principal: str = ...,
        host: str = ...,
        operation: int = ...,
        permission_type: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class BeginTransactionRecord(MessageValue):
    name: str | None
    def __init__(
        self,
        name: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class BrokerRegistrationChangeRecord(MessageValue):
    broker_id: int
    broker_epoch: int
    fenced: int
    in_controlled_shutdown: int
    log_dirs: list[bytes]
    cordoned_log_dirs: list[bytes] | None
    def __init__(
        self,
        broker_id: int = ...,
        broker_epoch: int = ...,
        fenced: int = ...,
        in_controlled_shutdown: int = ...,
        log_dirs: list[bytes] = ...,
        cordoned_log_dirs: list[bytes] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ClearElrRecord(MessageValue):
    topic_name: str
    def __init__(
        self,
        topic_name: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ClientQuotaRecord(MessageValue):
    class EntityData(Value):
        entity_type: str
        entity_name: str | None
        def __init__(
            self,
            entity_type: str = ...,
            entity_name: str | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    entity: list[ClientQuotaRecord.EntityData]
    key: str
    value: float
    remove: bool
    def __init__(
        self,
        entity: list[ClientQuotaRecord.EntityData] = ...,
        key: str = ...,
        value: float = ...,
        remove: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConfigRecord(MessageValue):
    resource_type: int
    resource_name: str
    name: str
    value: str | None
    def __init__(
        self,
        resource_type: int = ...,
        resource_name: str = ...,
        name: str = ...,
        value: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerProtocolSubscription(MessageValue):
    class TopicPartition(Value):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            topic: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topics: list[str]
    user_data: bytes | None
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition]
    generation_id: int
    rack_id: str | None
    def __init__(
        self,
        topics: list[str] = ...,
        user_data: bytes | None = ...,
        owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = ...,
        generation_id: int = ...,
        rack_id: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerProtocolAssignment(MessageValue):
    class TopicPartition(Value):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            topic: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition]
    user_data: bytes | None
    def __init__(
        self,
        assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = ...,
        user_data: bytes | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ControlRecordTypeSchema(MessageValue):
    type: int
    def __init__(
        self,
        type: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class EndTxnMarker(MessageValue):
    coordinator_epoch: int
    def __init__(
        self,
        coordinator_epoch: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class LeaderChangeMessage(MessageValue):
    class Voter(Value):
        voter_id: int
        voter_directory_id: bytes
        def __init__(
            self,
            voter_id: int = ...,
            voter_directory_id: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    version: int
    leader_id: int
    voters: list[LeaderChangeMessage.Voter]
    granting_voters: list[LeaderChangeMessage.Voter]
    def __init__(
        self,
        version: int = ...,
        leader_id: int = ...,
        voters: list[LeaderChangeMessage.Voter] = ...,
        granting_voters: list[LeaderChangeMessage.Voter] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class SnapshotHeaderRecord(MessageValue):
    version: int
    last_contained_log_timestamp: int
    def __init__(
        self,
        version: int = ...,
        last_contained_log_timestamp: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class SnapshotFooterRecord(MessageValue):
    version: int
    def __init__(
        self,
        version: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class KRaftVersionRecord(MessageValue):
    version: int
    k_raft_version: int
    def __init__(
        self,
        version: int = ...,
        k_raft_version: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class VotersRecord(MessageValue):
    class Endpoint(Value):
        name: str
        host: str
        port: int
        def __init__(
            self,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class KRaftVersionFeature(Value):
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Voter(Value):
        voter_id: int
        voter_directory_id: bytes
        endpoints: list[VotersRecord.Endpoint]
        k_raft_version_feature: VotersRecord.KRaftVersionFeature
        def __init__(
            self,
            voter_id: int = ...,
            voter_directory_id: bytes = ...,
            endpoints: list[VotersRecord.Endpoint] = ...,
            k_raft_version_feature: VotersRecord.KRaftVersionFeature = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    version: int
    voters: list[VotersRecord.Voter]
    def __init__(
        self,
        version: int = ...,
        voters: list[VotersRecord.Voter] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DefaultPrincipalData(MessageValue):
    type: str
    name: str
    token_authenticated: bool
    def __init__(
        self,
        type: str = ...,
        name: str = ...,
        token_authenticated: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class DelegationTokenRecord(MessageValue):
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str
    def __init__(
        self,
        owner: str = ...,
        requester: str = ...,
        renewers: list[str] = ...,
        issue_timestamp: int = ...,
        max_timestamp: int = ...,
        expiration_timestamp: int = ...,
        token_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class EndTransactionRecord(MessageValue):
    def __init__(
        self,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class FeatureLevelRecord(MessageValue):
    name: str
    feature_level: int
    def __init__(
        self,
        name: str = ...,
        feature_level: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class FenceBrokerRecord(MessageValue):
    id: int
    epoch: int
    def __init__(
        self,
        id: int = ...,
        epoch: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RequestHeader(MessageValue):
    request_api_key: int
    request_api_version: int
    correlation_id: int
    client_id: str | None
    def __init__(
        self,
        request_api_key: int = ...,
        request_api_version: int = ...,
        correlation_id: int = ...,
        client_id: str | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ResponseHeader(MessageValue):
    correlation_id: int
    def __init__(
        self,
        correlation_id: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class NoOpRecord(MessageValue):
    def __init__(
        self,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class PartitionChangeRecord(MessageValue):
    partition_id: int
    topic_id: bytes
    isr: list[int] | None
    leader: int
    replicas: list[int] | None
    removing_replicas: list[int] | None
    adding_replicas: list[int] | None
    leader_recovery_state: int
    directories: list[bytes] | None
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    def __init__(
        self,
        partition_id: int = ...,
        topic_id: bytes = ...,
        isr: list[int] | None = ...,
        leader: int = ...,
        replicas: list[int] | None = ...,
        removing_replicas: list[int] | None = ...,
        adding_replicas: list[int] | None = ...,
        leader_recovery_state: int = ...,
        directories: list[bytes] | None = ...,
        eligible_leader_replicas: list[int] | None = ...,
        last_known_elr: list[int] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class PartitionRecord(MessageValue):
    partition_id: int
    topic_id: bytes
    replicas: list[int]
    isr: list[int]
    removing_replicas: list[int]
    adding_replicas: list[int]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    directories: list[bytes]
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    def __init__(
        self,
        partition_id: int = ...,
        topic_id: bytes = ...,
        replicas: list[int] = ...,
        isr: list[int] = ...,
        removing_replicas: list[int] = ...,
        adding_replicas: list[int] = ...,
        leader: int = ...,
        leader_recovery_state: int = ...,
        leader_epoch: int = ...,
        partition_epoch: int = ...,
        directories: list[bytes] = ...,
        eligible_leader_replicas: list[int] | None = ...,
        last_known_elr: list[int] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ProducerIdsRecord(MessageValue):
    broker_id: int
    broker_epoch: int
    next_producer_id: int
    def __init__(
        self,
        broker_id: int = ...,
        broker_epoch: int = ...,
        next_producer_id: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ProducerSnapshot(MessageValue):
    class ProducerEntry(Value):
        producer_id: int
        epoch: int
        last_sequence: int
        last_offset: int
        offset_delta: int
        timestamp: int
        coordinator_epoch: int
        current_txn_first_offset: int
        def __init__(
            self,
            producer_id: int = ...,
            epoch: int = ...,
            last_sequence: int = ...,
            last_offset: int = ...,
            offset_delta: int = ...,
            timestamp: int = ...,
            coordinator_epoch: int = ...,
            current_txn_first_offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    crc: int
    producer_entries: list[ProducerSnapshot.ProducerEntry]
    def __init__(
        self,
        crc: int = ...,
        producer_entries: list[ProducerSnapshot.ProducerEntry] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class QuorumStateData(MessageValue):
    class Voter(Value):
        voter_id: int
        def __init__(
            self,
            voter_id: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    cluster_id: str
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: bytes
    applied_offset: int
    current_voters: list[QuorumStateData.Voter] | None
    def __init__(
        self,
        cluster_id: str = ...,
        leader_id: int = ...,
        leader_epoch: int = ...,
        voted_id: int = ...,
        voted_directory_id: bytes = ...,
        applied_offset: int = ...,
        current_voters: list[QuorumStateData.Voter] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class LegacyOffsetCommitKey(MessageValue):
    group: str
    topic: str
    partition: int
    def __init__(
        self,
        group: str = ...,
        topic: str = ...,
        partition: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class LegacyOffsetCommitValue(MessageValue):
    offset: int
    metadata: str
    commit_timestamp: int
    def __init__(
        self,
        offset: int = ...,
        metadata: str = ...,
        commit_timestamp: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareSnapshotKey(MessageValue):
    group_id: str
    topic_id: bytes
    partition: int
    def __init__(
        self,
        group_id: str = ...,
        topic_id: bytes = ...,
        partition: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareSnapshotValue(MessageValue):
    class StateBatch(Value):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(
            self,
            first_offset: int = ...,
            last_offset: int = ...,
            delivery_state: int = ...,
            delivery_count: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp: int
    write_timestamp: int
    state_batches: list[ShareSnapshotValue.StateBatch]
    def __init__(
        self,
        snapshot_epoch: int = ...,
        state_epoch: int = ...,
        leader_epoch: int = ...,
        start_offset: int = ...,
        delivery_complete_count: int = ...,
        create_timestamp: int = ...,
        write_timestamp: int = ...,
        state_batches: list[ShareSnapshotValue.StateBatch] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class TransactionLogKey(MessageValue):
    transactional_id: str
    def __init__(
        self,
        transactional_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class TransactionLogValue(MessageValue):
    class PartitionsSchema(Value):
        topic: str
        partition_ids: list[int]
        def __init__(
            self,
            topic: str = ...,
            partition_ids: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    next_producer_epoch: int
    transaction_timeout_ms: int
    transaction_status: int
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None
    transaction_last_update_timestamp_ms: int
    transaction_start_timestamp_ms: int
    client_transaction_version: int
    def __init__(
        self,
        producer_id: int = ...,
        previous_producer_id: int = ...,
        next_producer_id: int = ...,
        producer_epoch: int = ...,
        next_producer_epoch: int = ...,
        transaction_timeout_ms: int = ...,
        transaction_status: int = ...,
        transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = ...,
        transaction_last_update_timestamp_ms: int = ...,
        transaction_start_timestamp_ms: int = ...,
        client_transaction_version: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class OffsetCommitKey(MessageValue):
    group: str
    topic: str
    partition: int
    def __init__(
        self,
        group: str = ...,
        topic: str = ...,
        partition: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class OffsetCommitValue(MessageValue):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: bytes
    def __init__(
        self,
        offset: int = ...,
        leader_epoch: int = ...,
        metadata: str = ...,
        commit_timestamp: int = ...,
        expire_timestamp: int = ...,
        topic_id: bytes = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareUpdateKey(MessageValue):
    group_id: str
    topic_id: bytes
    partition: int
    def __init__(
        self,
        group_id: str = ...,
        topic_id: bytes = ...,
        partition: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareUpdateValue(MessageValue):
    class StateBatch(Value):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(
            self,
            first_offset: int = ...,
            last_offset: int = ...,
            delivery_state: int = ...,
            delivery_count: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: list[ShareUpdateValue.StateBatch]
    def __init__(
        self,
        snapshot_epoch: int = ...,
        leader_epoch: int = ...,
        start_offset: int = ...,
        delivery_complete_count: int = ...,
        state_batches: list[ShareUpdateValue.StateBatch] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class GroupMetadataKey(MessageValue):
    group: str
    def __init__(
        self,
        group: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class GroupMetadataValue(MessageValue):
    class MemberMetadata(Value):
        member_id: str
        group_instance_id: str | None
        client_id: str
        client_host: str
        rebalance_timeout: int
        session_timeout: int
        subscription: bytes
        assignment: bytes
        def __init__(
            self,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            client_id: str = ...,
            client_host: str = ...,
            rebalance_timeout: int = ...,
            session_timeout: int = ...,
            subscription: bytes = ...,
            assignment: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    members: list[GroupMetadataValue.MemberMetadata]
    def __init__(
        self,
        protocol_type: str = ...,
        generation: int = ...,
        protocol: str | None = ...,
        leader: str | None = ...,
        current_state_timestamp: int = ...,
        members: list[GroupMetadataValue.MemberMetadata] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupMetadataKey(MessageValue):
    group_id: str
    def __init__(
        self,
        group_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupMetadataValue(MessageValue):
    epoch: int
    metadata_hash: int
    def __init__(
        self,
        epoch: int = ...,
        metadata_hash: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupPartitionMetadataKey(MessageValue):
    group_id: str
    def __init__(
        self,
        group_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupPartitionMetadataValue(MessageValue):
    class PartitionMetadata(Value):
        partition: int
        racks: list[str]
        def __init__(
            self,
            partition: int = ...,
            racks: list[str] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicMetadata(Value):
        topic_id: bytes
        topic_name: str
        num_partitions: int
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata]
        def __init__(
            self,
            topic_id: bytes = ...,
            topic_name: str = ...,
            num_partitions: int = ...,
            partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata]
    def __init__(
        self,
        topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupMemberMetadataKey(MessageValue):
    group_id: str
    member_id: str
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupMemberMetadataValue(MessageValue):
    class ClassicProtocol(Value):
        name: str
        metadata: bytes
        def __init__(
            self,
            name: str = ...,
            metadata: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ClassicMemberMetadata(Value):
        session_timeout_ms: int
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol]
        def __init__(
            self,
            session_timeout_ms: int = ...,
            supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None
    def __init__(
        self,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        client_id: str = ...,
        client_host: str = ...,
        subscribed_topic_names: list[str] = ...,
        subscribed_topic_regex: str | None = ...,
        rebalance_timeout_ms: int = ...,
        server_assignor: str | None = ...,
        classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupTargetAssignmentMetadataKey(MessageValue):
    group_id: str
    def __init__(
        self,
        group_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupTargetAssignmentMetadataValue(MessageValue):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(
        self,
        assignment_epoch: int = ...,
        assignment_timestamp: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupTargetAssignmentMemberKey(MessageValue):
    group_id: str
    member_id: str
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupTargetAssignmentMemberValue(MessageValue):
    class TopicPartition(Value):
        topic_id: bytes
        partitions: list[int]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition]
    def __init__(
        self,
        topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupCurrentMemberAssignmentKey(MessageValue):
    group_id: str
    member_id: str
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupCurrentMemberAssignmentValue(MessageValue):
    class TopicPartitions(Value):
        topic_id: bytes
        partitions: list[int]
        assignment_epochs: list[int] | None
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
            assignment_epochs: list[int] | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]
    def __init__(
        self,
        member_epoch: int = ...,
        previous_member_epoch: int = ...,
        state: int = ...,
        assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = ...,
        partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupMemberMetadataKey(MessageValue):
    group_id: str
    member_id: str
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupMemberMetadataValue(MessageValue):
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    def __init__(
        self,
        rack_id: str | None = ...,
        client_id: str = ...,
        client_host: str = ...,
        subscribed_topic_names: list[str] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupMetadataKey(MessageValue):
    group_id: str
    def __init__(
        self,
        group_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupMetadataValue(MessageValue):
    epoch: int
    metadata_hash: int
    def __init__(
        self,
        epoch: int = ...,
        metadata_hash: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupTargetAssignmentMetadataKey(MessageValue):
    group_id: str
    def __init__(
        self,
        group_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupTargetAssignmentMetadataValue(MessageValue):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(
        self,
        assignment_epoch: int = ...,
        assignment_timestamp: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupTargetAssignmentMemberKey(MessageValue):
    group_id: str
    member_id: str
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupTargetAssignmentMemberValue(MessageValue):
    class TopicPartition(Value):
        topic_id: bytes
        partitions: list[int]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition]
    def __init__(
        self,
        topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupCurrentMemberAssignmentKey(MessageValue):
    group_id: str
    member_id: str
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupCurrentMemberAssignmentValue(MessageValue):
    class TopicPartitions(Value):
        topic_id: bytes
        partitions: list[int]
        def __init__(
            self,
            topic_id: bytes = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions]
    def __init__(
        self,
        member_epoch: int = ...,
        previous_member_epoch: int = ...,
        state: int = ...,
        assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupStatePartitionMetadataKey(MessageValue):
    group_id: str
    def __init__(
        self,
        group_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ShareGroupStatePartitionMetadataValue(MessageValue):
    class TopicPartitionsInfo(Value):
        topic_id: bytes
        topic_name: str
        partitions: list[int]
        def __init__(
            self,
            topic_id: bytes = ...,
            topic_name: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicInfo(Value):
        topic_id: bytes
        topic_name: str
        def __init__(
            self,
            topic_id: bytes = ...,
            topic_name: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo]
    initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo]
    deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo]
    def __init__(
        self,
        initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = ...,
        initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = ...,
        deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupRegularExpressionKey(MessageValue):
    group_id: str
    regular_expression: str
    def __init__(
        self,
        group_id: str = ...,
        regular_expression: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ConsumerGroupRegularExpressionValue(MessageValue):
    topics: list[str]
    version: int
    timestamp: int
    def __init__(
        self,
        topics: list[str] = ...,
        version: int = ...,
        timestamp: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupMetadataKey(MessageValue):
    group_id: str
    def __init__(
        self,
        group_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupMetadataValue(MessageValue):
    class LastAssignmentConfig(Value):
        key: str
        value: str
        def __init__(
            self,
            key: str = ...,
            value: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    epoch: int
    metadata_hash: int
    validated_topology_epoch: int
    last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None
    def __init__(
        self,
        epoch: int = ...,
        metadata_hash: int = ...,
        validated_topology_epoch: int = ...,
        last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupMemberMetadataKey(MessageValue):
    group_id: str
    member_id: str
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupMemberMetadataValue(MessageValue):
    class Endpoint(Value):
        host: str
        port: int
        def __init__(
            self,
            host: str = ...,
            port: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class KeyValue(Value):
        key: str
        value: str
        def __init__(
            self,
            key: str = ...,
            value: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None
    client_tags: list[StreamsGroupMemberMetadataValue.KeyValue]
    def __init__(
        self,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        client_id: str = ...,
        client_host: str = ...,
        rebalance_timeout_ms: int = ...,
        topology_epoch: int = ...,
        process_id: str = ...,
        user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None = ...,
        client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupTargetAssignmentMetadataKey(MessageValue):
    group_id: str
    def __init__(
        self,
        group_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupTargetAssignmentMetadataValue(MessageValue):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(
        self,
        assignment_epoch: int = ...,
        assignment_timestamp: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupTargetAssignmentMemberKey(MessageValue):
    group_id: str
    member_id: str
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupTargetAssignmentMemberValue(MessageValue):
    class TaskIds(Value):
        subtopology_id: str
        partitions: list[int]
        def __init__(
            self,
            subtopology_id: str = ...,
            partitions: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds]
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds]
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds]
    def __init__(
        self,
        active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = ...,
        standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = ...,
        warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupCurrentMemberAssignmentKey(MessageValue):
    group_id: str
    member_id: str
    def __init__(
        self,
        group_id: str = ...,
        member_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupCurrentMemberAssignmentValue(MessageValue):
    class TaskIds(Value):
        subtopology_id: str
        partitions: list[int]
        assignment_epochs: list[int] | None
        def __init__(
            self,
            subtopology_id: str = ...,
            partitions: list[int] = ...,
            assignment_epochs: list[int] | None = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    member_epoch: int
    previous_member_epoch: int
    state: int
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    def __init__(
        self,
        member_epoch: int = ...,
        previous_member_epoch: int = ...,
        state: int = ...,
        active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
        standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
        warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
        active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
        standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
        warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupTopologyKey(MessageValue):
    group_id: str
    def __init__(
        self,
        group_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class StreamsGroupTopologyValue(MessageValue):
    class TopicConfig(Value):
        key: str
        value: str
        def __init__(
            self,
            key: str = ...,
            value: str = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class TopicInfo(Value):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig]
        def __init__(
            self,
            name: str = ...,
            partitions: int = ...,
            replication_factor: int = ...,
            topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class CopartitionGroup(Value):
        source_topics: list[int]
        source_topic_regex: list[int]
        repartition_source_topics: list[int]
        def __init__(
            self,
            source_topics: list[int] = ...,
            source_topic_regex: list[int] = ...,
            repartition_source_topics: list[int] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class Subtopology(Value):
        subtopology_id: str
        source_topics: list[str]
        source_topic_regex: list[str]
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo]
        repartition_sink_topics: list[str]
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo]
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup]
        def __init__(
            self,
            subtopology_id: str = ...,
            source_topics: list[str] = ...,
            source_topic_regex: list[str] = ...,
            state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = ...,
            repartition_sink_topics: list[str] = ...,
            repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = ...,
            copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    epoch: int
    subtopologies: list[StreamsGroupTopologyValue.Subtopology]
    def __init__(
        self,
        epoch: int = ...,
        subtopologies: list[StreamsGroupTopologyValue.Subtopology] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RegisterBrokerRecord(MessageValue):
    class BrokerEndpoint(Value):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(
            self,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            security_protocol: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class BrokerFeature(Value):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            name: str = ...,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    broker_id: int
    is_migrating_zk_broker: bool
    incarnation_id: bytes
    broker_epoch: int
    end_points: list[RegisterBrokerRecord.BrokerEndpoint]
    features: list[RegisterBrokerRecord.BrokerFeature]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: list[bytes]
    cordoned_log_dirs: list[bytes] | None
    def __init__(
        self,
        broker_id: int = ...,
        is_migrating_zk_broker: bool = ...,
        incarnation_id: bytes = ...,
        broker_epoch: int = ...,
        end_points: list[RegisterBrokerRecord.BrokerEndpoint] = ...,
        features: list[RegisterBrokerRecord.BrokerFeature] = ...,
        rack: str | None = ...,
        fenced: bool = ...,
        in_controlled_shutdown: bool = ...,
        log_dirs: list[bytes] = ...,
        cordoned_log_dirs: list[bytes] | None = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RegisterControllerRecord(MessageValue):
    class ControllerEndpoint(Value):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(
            self,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            security_protocol: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class ControllerFeature(Value):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            name: str = ...,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    controller_id: int
    incarnation_id: bytes
    zk_migration_ready: bool
    end_points: list[RegisterControllerRecord.ControllerEndpoint]
    features: list[RegisterControllerRecord.ControllerFeature]
    def __init__(
        self,
        controller_id: int = ...,
        incarnation_id: bytes = ...,
        zk_migration_ready: bool = ...,
        end_points: list[RegisterControllerRecord.ControllerEndpoint] = ...,
        features: list[RegisterControllerRecord.ControllerFeature] = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RemoteLogSegmentMetadataRecord(MessageValue):
    class TopicIdPartitionEntry(Value):
        name: str
        id: bytes
        partition: int
        def __init__(
            self,
            name: str = ...,
            id: bytes = ...,
            partition: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class RemoteLogSegmentIdEntry(Value):
        topic_id_partition: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry
        id: bytes
        def __init__(
            self,
            topic_id_partition: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry = ...,
            id: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class SegmentLeaderEpochEntry(Value):
        leader_epoch: int
        offset: int
        def __init__(
            self,
            leader_epoch: int = ...,
            offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    remote_log_segment_id: RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry
    start_offset: int
    end_offset: int
    broker_id: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    segment_leader_epochs: list[RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry]
    segment_size_in_bytes: int
    custom_metadata: bytes | None
    remote_log_segment_state: int
    txn_index_empty: bool
    def __init__(
        self,
        remote_log_segment_id: RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry = ...,
        start_offset: int = ...,
        end_offset: int = ...,
        broker_id: int = ...,
        max_timestamp_ms: int = ...,
        event_timestamp_ms: int = ...,
        segment_leader_epochs: list[RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry] = ...,
        segment_size_in_bytes: int = ...,
        custom_metadata: bytes | None = ...,
        remote_log_segment_state: int = ...,
        txn_index_empty: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RemoteLogSegmentMetadataSnapshotRecord(MessageValue):
    class SegmentLeaderEpochEntry(Value):
        leader_epoch: int
        offset: int
        def __init__(
            self,
            leader_epoch: int = ...,
            offset: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    segment_id: bytes
    start_offset: int
    end_offset: int
    broker_id: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotRecord.SegmentLeaderEpochEntry]
    segment_size_in_bytes: int
    custom_metadata: bytes | None
    remote_log_segment_state: int
    txn_index_empty: bool
    def __init__(
        self,
        segment_id: bytes = ...,
        start_offset: int = ...,
        end_offset: int = ...,
        broker_id: int = ...,
        max_timestamp_ms: int = ...,
        event_timestamp_ms: int = ...,
        segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotRecord.SegmentLeaderEpochEntry] = ...,
        segment_size_in_bytes: int = ...,
        custom_metadata: bytes | None = ...,
        remote_log_segment_state: int = ...,
        txn_index_empty: bool = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RemoteLogSegmentMetadataUpdateRecord(MessageValue):
    class TopicIdPartitionEntry(Value):
        name: str
        id: bytes
        partition: int
        def __init__(
            self,
            name: str = ...,
            id: bytes = ...,
            partition: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    class RemoteLogSegmentIdEntry(Value):
        topic_id_partition: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry
        id: bytes
        def __init__(
            self,
            topic_id_partition: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry = ...,
            id: bytes = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    remote_log_segment_id: RemoteLogSegmentMetadataUpdateRecord.RemoteLogSegmentIdEntry
    broker_id: int
    event_timestamp_ms: int
    custom_metadata: bytes | None
    remote_log_segment_state: int
    def __init__(
        self,
        remote_log_segment_id: RemoteLogSegmentMetadataUpdateRecord.RemoteLogSegmentIdEntry = ...,
        broker_id: int = ...,
        event_timestamp_ms: int = ...,
        custom_metadata: bytes | None = ...,
        remote_log_segment_state: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RemotePartitionDeleteMetadataRecord(MessageValue):
    class TopicIdPartitionEntry(Value):
        name: str
        id: bytes
        partition: int
        def __init__(
            self,
            name: str = ...,
            id: bytes = ...,
            partition: int = ...,
            unknown_tags: Mapping[int, bytes] | None = ...,
        ) -> None: ...
    topic_id_partition: RemotePartitionDeleteMetadataRecord.TopicIdPartitionEntry
    broker_id: int
    event_timestamp_ms: int
    remote_partition_delete_state: int
    def __init__(
        self,
        topic_id_partition: RemotePartitionDeleteMetadataRecord.TopicIdPartitionEntry = ...,
        broker_id: int = ...,
        event_timestamp_ms: int = ...,
        remote_partition_delete_state: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RemoveAccessControlEntryRecord(MessageValue):
    id: bytes
    def __init__(
        self,
        id: bytes = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RemoveDelegationTokenRecord(MessageValue):
    token_id: str
    def __init__(
        self,
        token_id: str = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RemoveTopicRecord(MessageValue):
    topic_id: bytes
    def __init__(
        self,
        topic_id: bytes = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class RemoveUserScramCredentialRecord(MessageValue):
    name: str
    mechanism: int
    def __init__(
        self,
        name: str = ...,
        mechanism: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class TopicRecord(MessageValue):
    name: str
    topic_id: bytes
    def __init__(
        self,
        name: str = ...,
        topic_id: bytes = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class UnfenceBrokerRecord(MessageValue):
    id: int
    epoch: int
    def __init__(
        self,
        id: int = ...,
        epoch: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class UnregisterBrokerRecord(MessageValue):
    broker_id: int
    broker_epoch: int
    def __init__(
        self,
        broker_id: int = ...,
        broker_epoch: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class UserScramCredentialRecord(MessageValue):
    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int
    def __init__(
        self,
        name: str = ...,
        mechanism: int = ...,
        salt: bytes = ...,
        stored_key: bytes = ...,
        server_key: bytes = ...,
        iterations: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...

class ZkMigrationStateRecord(MessageValue):
    zk_migration_state: int
    def __init__(
        self,
        zk_migration_state: int = ...,
        unknown_tags: Mapping[int, bytes] | None = ...,
    ) -> None: ...
