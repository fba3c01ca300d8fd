"""Every API in every version: without rights nothing but errors of authorization, with all rights no change at all."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.wire import rights
from kafka_offsets.broker.wire.api import Addresses, Api
from kafka_offsets.client.connection import Connection
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Struct
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.security.acls import AclBinding, AclOperation, PatternType, Permission, ResourceType
from kafka_offsets.security.authorizer import Authorizer
from kafka_offsets.security.delegation_token import DelegationToken
from kafka_offsets.security.principal import Principal
from kafka_offsets.testing import Cluster, strategies
from tests.differential.printed import Names, build
from tests.drivers.core import CoreClient, commit_request, make_core

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
DENIALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
FREE = {"ApiVersions", "SaslAuthenticate", "SaslHandshake"}
"""What everybody may ask."""

OWN_TOKENS = {"CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken"}
"""What everybody may do with its own tokens. tests/stories/delegation_tokens.txt has the tokens of others."""

HIDING = {"ListGroups", "ListTransactions", "DescribeCluster", "DescribeLogDirs", "DescribeDelegationToken"}
"""What everybody may ask, and is shown what is allowed: nothing but the brokers."""

BATCH = bytes(encode_batch([(b"k", b"canary", (), 0)]))
TOPICS = ("orders", "pages")
NAMES = (*TOPICS, "billing", "transfers", "token-17")
RETENTION = "987654321"
PARTITION = {"name": "orders", "partition_index": 0, "partitions": [0]}
MEMBER = {"group_id": "g", "member_id": "m", "generation_id": 1}
PRODUCER = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
ACL_FILTER = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}


def of(**fields: Any) -> list[dict[str, Any]]:
    """One topic with one partition."""
    return [{"name": "orders", "partitions": [fields]}]


REQUESTS: dict[str, dict[str, Any]] = {
    "Produce": {
        "acks": 1,
        "topic_data": [
            {"name": "orders", "topic_id": "orders", "partition_data": [{"index": 0, "records": BATCH}]}
        ],
    },
    "Fetch": {
        "replica_id": -1,
        "max_bytes": 1000,
        "topics": [
            {
                "topic": "orders",
                "topic_id": "orders",
                "partitions": [{"partition": 0, "partition_max_bytes": 1000}],
            }
        ],
    },
    "ListOffsets": {"replica_id": -1, "topics": of(partition_index=0, timestamp=-1)},
    "Metadata": {"topics": [{"name": "orders"}]},
    "OffsetCommit": {
        "group_id": "g",
        "topics": [
            {
                "name": "orders",
                "topic_id": "orders",
                "partitions": [{"partition_index": 0, "committed_offset": 1}],
            }
        ],
    },
    "OffsetFetch": {
        "group_id": "g",
        "topics": [{"name": "orders", "partition_indexes": [0]}],
        "groups": [
            {"group_id": "g", "topics": [{"name": "orders", "topic_id": "orders", "partition_indexes": [0]}]}
        ],
    },
    "FindCoordinator": {"key": "g", "coordinator_keys": ["g"]},
    "JoinGroup": {
        "group_id": "g",
        "member_id": "m",
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
    },
    "Heartbeat": MEMBER,
    "LeaveGroup": {"group_id": "g", "member_id": "m", "members": [{"member_id": "m"}]},
    "SyncGroup": MEMBER | {"protocol_type": "consumer", "protocol_name": "range"},
    "DescribeGroups": {"groups": ["g"]},
    "ListGroups": {},
    "CreateTopics": {
        "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}],
        "timeout_ms": 1000,
    },
    "DeleteTopics": {"topic_names": ["orders"], "topics": [{"name": "orders"}], "timeout_ms": 1000},
    "DeleteRecords": {"topics": of(partition_index=0, offset=0), "timeout_ms": 1000},
    "InitProducerId": {"transactional_id": "t", "transaction_timeout_ms": 1000},
    "OffsetForLeaderEpoch": {
        "topics": [{"topic": "orders", "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    },
    "AddPartitionsToTxn": {
        "transactions": [PRODUCER | {"topics": [{"name": "orders", "partitions": [0]}]}],
        "v3_and_below_transactional_id": "t",
        "v3_and_below_topics": [{"name": "orders", "partitions": [0]}],
    },
    "AddOffsetsToTxn": PRODUCER | {"group_id": "g"},
    "EndTxn": PRODUCER | {"committed": True},
    "WriteTxnMarkers": {
        "markers": [
            {
                "producer_id": 1,
                "producer_epoch": 0,
                "transaction_result": True,
                "topics": [{"name": "orders", "partition_indexes": [0]}],
                "coordinator_epoch": 0,
            }
        ]
    },
    "TxnOffsetCommit": PRODUCER | {"group_id": "g", "topics": of(partition_index=0, committed_offset=1)},
    "DescribeAcls": ACL_FILTER,
    "CreateAcls": {
        "creations": [
            {
                "resource_type": 2,
                "resource_name": "orders",
                "resource_pattern_type": 3,
                "principal": "User:alice",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
        ]
    },
    "DeleteAcls": {"filters": [ACL_FILTER | {"resource_name_filter": "none"}]},
    "DescribeConfigs": {
        "resources": [{"resource_type": kind, "resource_name": "1"} for kind in (2, 8, 16, 32)]
    },
    "AlterConfigs": {
        "resources": [{"resource_type": kind, "resource_name": "1", "configs": []} for kind in (2, 4, 16, 32)]
    },
    "IncrementalAlterConfigs": {
        "resources": [
            {"resource_type": kind, "resource_name": "1", "configs": []} for kind in (2, 4, 8, 16, 32)
        ]
    },
    "AlterReplicaLogDirs": {"dirs": [{"path": "/x", "topics": [{"name": "orders", "partitions": [0]}]}]},
    "DescribeLogDirs": {"topics": None},
    "CreatePartitions": {"topics": [{"name": "orders", "count": 9}], "timeout_ms": 1000},
    "CreateDelegationToken": {"owner_principal_type": "User", "owner_principal_name": "x", "renewers": []},
    "RenewDelegationToken": {"hmac": b"x", "renew_period_ms": 1},
    "ExpireDelegationToken": {"hmac": b"x", "expiry_time_period_ms": 1},
    "DescribeDelegationToken": {"owners": None},
    "DeleteGroups": {"groups_names": ["g"]},
    "ElectLeaders": {"topic_partitions": [{"topic": "orders", "partitions": [0]}], "timeout_ms": 1000},
    "AlterPartitionReassignments": {
        "timeout_ms": 1000,
        "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
    },
    "ListPartitionReassignments": {"topics": None},
    "OffsetDelete": {"group_id": "g", "topics": of(partition_index=0)},
    "DescribeClientQuotas": {"components": []},
    "AlterClientQuotas": {
        "entries": [
            {"entity": [{"entity_type": "user", "entity_name": "x"}], "ops": [{"key": "x", "value": 1.0}]}
        ]
    },
    "DescribeUserScramCredentials": {"users": None},
    "AlterUserScramCredentials": {"deletions": [{"name": "x", "mechanism": 1}]},
    "DescribeQuorum": {
        "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    },
    "DescribeCluster": {"include_cluster_authorized_operations": True},
    "DescribeProducers": {"topics": [{"name": "orders", "partition_indexes": [0]}]},
    "UnregisterBroker": {"broker_id": 9},
    "DescribeTransactions": {"transactional_ids": ["t"]},
    "ListTransactions": {},
    "ConsumerGroupHeartbeat": {"group_id": "g", "member_id": "m" * 22, "subscribed_topic_names": ["orders"]},
    "ConsumerGroupDescribe": {"group_ids": ["g"]},
    "ListConfigResources": {},
    "DescribeTopicPartitions": {"topics": [{"name": "orders"}], "response_partition_limit": 9},
}


def broker(**config: Any) -> BrokerCore:
    """A broker with topics, a group with an offset, a transactional id and a token; alice has sent nothing yet."""
    core = make_core(clock=ManualClock(), delegation_token_secret_key="key", **config)
    core.topics.create("orders", 2)
    core.topics.create("pages", 1)
    admin = client(core, "admin")
    for group in ("g", "billing"):
        request = commit_request(core, group, {("orders", 0): 7, ("pages", 0): 8}, 8)
        request.topics[0].partitions[0].committed_metadata = "canary"
        admin.call(request, 8)
    core.topics.set_configs("orders", {"retention.ms": RETENTION})
    made = messages.ProduceRequest
    records = [
        made.TopicProduceData(name, partition_data=[made.PartitionProduceData(0, BATCH)]) for name in TOPICS
    ]
    admin.call(made(None, 1, 1000, records), 7)
    admin.call(messages.FindCoordinatorRequest("t", 1), 2)
    for name in ("t", "transfers"):
        admin.call(messages.InitProducerIdRequest(name, 1000), 2)
    root = Principal("User", "root")
    core.settings.set_tokens({"token-17": DelegationToken("token-17", root, root, (), 0, 2**62, 2**62)})
    return core


def authorizing(*acls: AclBinding) -> BrokerCore:
    """The same broker with an authorizer and these ACLs."""
    core = broker(authorizer_class_name=STANDARD, super_users="User:admin;User:root")
    core.settings.set_acls(frozenset(acls))
    return core


def client(core: BrokerCore, user: str) -> CoreClient:
    """A connection of a user."""
    made = CoreClient(core)
    made.connection.principal = Principal("User", user)
    return made


def request_of(core: BrokerCore, row: Api, version: int) -> Any:
    """The sample request of an API."""
    names = Names()
    names.learn_topic("orders", core.topics.id_and_partition_count("orders")[0])
    return build(row.request, REQUESTS[row.name], version, names)


def codes(value: Any) -> Iterator[int]:
    """Every error code in a response."""
    for name in getattr(value, "__slots__", ()):
        found = getattr(value, name, None)
        if name in ("error_code", "partition_error_code", "topic_config_error_code"):
            yield found
        for each in found if isinstance(found, list) else [found]:
            if hasattr(each, "STRUCT"):
                yield from codes(each)


def state(core: BrokerCore) -> Any:
    """What a request could have changed."""
    clients = core.directory.clients
    admin = CoreClient(core)
    admin.connection.principal = Principal("User", "root")
    return (
        [(topic.name, topic.partition_count, dict(topic.configs)) for topic in core.topics.all()],
        [core.topics.partition(topic.name, 0).log.log_end_offset for topic in core.topics.all()]  # type: ignore[union-attr]
        and core.topics.partition("orders", 0).log.log_end_offset,  # type: ignore[union-attr]
        (clients.acls, dict(clients.quotas), dict(clients.credentials), dict(clients.tokens)),
        admin.committed("g"),
    )


def test_every_row_has_a_sample() -> None:
    assert {row.name for row in SERVED} == set(REQUESTS) | FREE


def test_every_row_states_its_rights() -> None:
    """A row whose sender needs no right is one of those listed."""
    assert {row.name for row in SERVED if row.rights == rights.NONE} == FREE | OWN_TOKENS - {
        "CreateDelegationToken"
    }


class Recording(Authorizer):
    """An authorizer that notes what it is asked."""

    asked: list[Any]

    def allows(self, *question: Any) -> bool:
        self.asked.append(question)
        return super().allows(*question)


@pytest.mark.parametrize(
    "row", [row for row in SERVED if row.name not in FREE | OWN_TOKENS], ids=lambda row: row.name
)
def test_every_other_row_asks_for_a_right(row: Api) -> None:
    """A handler that forgets to ask serves everybody, and a sample whose answer is empty would not show it."""
    for version in row.served_versions:
        core = authorizing(*rights_to_everything())
        request, alice = request_of(core, row, version), client(core, "alice")
        assert core.authorizer is not None
        core.authorizer.__class__ = Recording
        asked = core.authorizer.asked = []  # type: ignore[attr-defined]
        alice.call(request, version)
        assert {str(principal) for principal, *_ in asked} == {"User:alice"}, f"v{version}"


@pytest.mark.parametrize(
    "row", [row for row in SERVED if row.name not in FREE | OWN_TOKENS], ids=lambda row: row.name
)
def test_without_rights_only_denials_are_answered(row: Api) -> None:
    core = authorizing()
    before = state(core)
    for version in row.served_versions:
        alice = client(core, "alice")
        response = alice.call(request_of(core, row, version), version)
        found = set(codes(response))
        if row.name in HIDING:
            assert found - {0} <= DENIALS
            shown = ("groups", "transaction_states", "results", "tokens")
            assert not any(getattr(response, name, ()) for name in shown)
        else:
            assert found - {0} <= DENIALS, f"v{version}: {response}"
            assert found - {0}, f"v{version}: {response}"
    assert state(core) == before


def rights_to_everything(*but: ResourceType) -> list[AclBinding]:
    """Alice may do everything, but with resources of these types."""
    kinds = [kind for kind in ResourceType if kind > ResourceType.ANY and kind not in but]
    return [
        AclBinding(
            kind,
            "kafka-cluster" if kind is ResourceType.CLUSTER else "*",
            PatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation.ALL,
            Permission.ALLOW,
        )
        for kind in kinds
    ]


@pytest.mark.parametrize(
    "row", [row for row in SERVED if "orders" in str(REQUESTS.get(row.name))], ids=lambda row: row.name
)
def test_rights_to_groups_and_transactional_ids_are_none_to_topics(row: Api) -> None:
    """Who may ask for the whole request is asked again for each topic that it names."""
    core = authorizing(*rights_to_everything(ResourceType.TOPIC, ResourceType.CLUSTER))
    before = state(core)
    for version in row.served_versions:
        response = client(core, "alice").call(request_of(core, row, version), version)
        denials = DENIALS - {ErrorCode.GROUP_AUTHORIZATION_FAILED}
        assert set(codes(response)) & denials, f"v{version}: {response}"
        assert "canary" not in str(response)
    assert state(core) == before


@pytest.mark.parametrize("rights_to", [(), (ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)])
def test_no_node_of_a_cluster_tells_who_leads_or_coordinates_what_is_denied(
    rights_to: tuple[ResourceType, ...],
) -> None:
    """A Fetch of a denied topic was answered with its leader, by every other node."""
    names = Names()
    acls = [each for each in rights_to_everything() if each.resource_type in rights_to]
    with Cluster(acls=[each._replace(principal="User:ANONYMOUS") for each in acls]) as cluster:
        cluster.create_topic("orders", 1)
        find = cluster._call(lambda server: server.servers[0].core.topics.id_and_partition_count)
        names.learn_topic("orders", find("orders")[0])
        cluster.commit("g", {("orders", 0): 7})
        for node in cluster.nodes:
            with Connection(node.host, node.port, 20) as connection:
                for row, version in addressed(to_topics=bool(rights_to)):
                    request = build(row.request, REQUESTS[row.name], version, names)
                    found = set(codes(connection.call(request, version)))
                    assert found - {0} <= DENIALS and found - {0}, f"{row.name} v{version}: {found}"


def addressed(*, to_topics: bool) -> Iterator[tuple[Api, int]]:
    """The APIs whose requests name a leader or a coordinator: all, or those that name topics and fail with them."""
    for row in SERVED:
        is_meant = row.addresses is Addresses.PARTITIONS or row.name == "AddPartitionsToTxn"
        if row.addresses is not Addresses.BROKER and (is_meant or not to_topics):
            yield from ((row, version) for version in row.served_versions)


def alike(value: Any) -> Any:
    """A response without what is random: ids that a broker makes up."""
    value = copy.deepcopy(value)
    if hasattr(value, "cluster_id"):
        value.cluster_id = ""
    for topic in getattr(value, "topics", None) or ():
        if hasattr(topic, "topic_id"):
            topic.topic_id = bytes(16)
    return value


@pytest.mark.parametrize(
    "row", [row for row in SERVED if row.name not in FREE | OWN_TOKENS], ids=lambda row: row.name
)
def test_with_all_rights_the_answer_is_that_of_a_broker_without_an_authorizer(row: Api) -> None:
    if row.name in ("CreateAcls", "DescribeAcls", "DeleteAcls"):
        return  # they have no other answer without an authorizer than that it is missing
    for version in row.served_versions:
        answers = []
        for core, user in ((broker(), "nobody"), (authorizing(*rights_to_everything()), "alice")):
            ids = {str(core.topics.id_and_partition_count(name)[0]): name for name in ("orders", "pages")}
            response = client(core, user).call(request_of(core, row, version), version)
            text = str(alike(response)).replace(core.directory.cluster_id, "CLUSTER")
            for topic_id, name in ids.items():
                text = text.replace(topic_id, name)
            answers.append(text)
        assert answers[0] == answers[1], f"v{version}"


def with_names(value: Any, struct: Struct, version: int, ids: list[bytes], data: st.DataObject) -> None:
    """Let the names and ids of a drawn message be those of what the broker has."""
    for field in struct.fields:
        pool: list[Any] = {"string": [*NAMES, "g", "t", "1", ""], "uuid": [*ids, bytes(16)]}.get(
            field.type, []
        )
        found = getattr(value, field.name)
        if version not in field.versions or found is None:
            continue
        if field.struct is not None:
            for each in found if field.array else [found]:
                with_names(each, field.struct, version, ids, data)
        elif pool and field.array:
            setattr(value, field.name, [data.draw(st.sampled_from([*pool, each])) for each in found])
        elif pool:
            setattr(value, field.name, data.draw(st.sampled_from([*pool, found])))


@pytest.mark.parametrize(
    "row", [row for row in SERVED if row.name not in FREE | OWN_TOKENS], ids=lambda row: row.name
)
def test_drawn_requests_without_rights_change_nothing_and_show_nothing(row: Api) -> None:
    """Requests with any content, also with the names and ids of what there is.

    A response shows no name or id that is not in the request, and nothing of what is stored.
    """
    core = authorizing()
    before, ids = state(core), [core.topics.id_and_partition_count(name)[0] for name in TOPICS]

    @settings(max_examples=max(settings().max_examples // 4, 1), suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(row.served_versions))
        request = data.draw(strategies.message(f"{row.name}Request", version))
        with_names(request, request.SCHEMA.struct, version, ids, data)
        alice = client(core, "alice")
        frame = alice.frame(request, version)
        alice.send_bytes(frame)
        alice.turn()
        response = alice.take_frame() or b""
        core.disconnect(alice.connection)
        assert state(core) == before
        for secret in (*(name.encode() for name in NAMES), *ids):
            assert secret in frame or secret not in response
        for secret in (b"canary", RETENTION.encode()):
            assert secret not in response

    check()
