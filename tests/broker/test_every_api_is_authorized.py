"""Every API in every version: without rights nothing but errors of authorization, with all rights no change at all."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.gates import special_rows
from kafka_offsets.broker.gates.changes import CHANGES
from kafka_offsets.broker.wire import rights
from kafka_offsets.broker.wire.api import Api
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.security.acls import AclBinding, AclOperation, PatternType, Permission, ResourceType
from kafka_offsets.security.principal import Principal
from kafka_offsets.testing import strategies
from tests.differential.printed import Names, build
from tests.drivers.core import CoreClient, make_core

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

BATCH = bytes(encode_batch([(b"k", b"v", (), 0)]))
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
    "DescribeCluster": {},
    "DescribeProducers": {"topics": [{"name": "orders", "partition_indexes": [0]}]},
    "UnregisterBroker": {"broker_id": 9},
    "DescribeTransactions": {"transactional_ids": ["t"]},
    "ListTransactions": {},
    "ConsumerGroupHeartbeat": {"group_id": "g", "member_id": "m" * 22, "subscribed_topic_names": ["orders"]},
    "ConsumerGroupDescribe": {"group_ids": ["g"]},
    "ListConfigResources": {},
    "DescribeTopicPartitions": {"topics": [{"name": "orders"}], "response_partition_limit": 9},
}
EVERY = [(row, version) for row in SERVED for version in row.served_versions if row.name not in FREE]


def broker(**config: Any) -> BrokerCore:
    """A broker with a topic, a group with an offset, and a transactional id; alice has sent nothing yet."""
    core = make_core(clock=ManualClock(), delegation_token_secret_key="key", **config)
    core.topics.create("orders", 2)
    core.topics.create("pages", 1)
    admin = client(core, "admin")
    assert set(admin.commit("g", {("orders", 0): 7}).values()) == {0}
    admin.call(messages.FindCoordinatorRequest("t", 1), 2)
    admin.call(messages.InitProducerIdRequest("t", 1000), 2)
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
    """A row that needs none is one of those listed; one that says that its rules are special has special rules."""
    assert {row.name for row in SERVED if row.rights == rights.NONE} == FREE | OWN_TOKENS - {
        "CreateDelegationToken"
    }
    special = {row.name for row in SERVED if row.rights.is_special}
    assert special == set(special_rows.HANDLES) | set(CHANGES)


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


def rights_to_everything() -> list[AclBinding]:
    """Alice may do everything."""
    kinds = [kind for kind in ResourceType if kind > ResourceType.ANY]
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


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_drawn_requests_without_rights_change_nothing(data: st.DataObject) -> None:
    """Requests with any content: neither an answer without an error, nor a failure of the broker."""
    row, version = data.draw(
        st.sampled_from([each for each in EVERY if each[0].name not in HIDING | OWN_TOKENS])
    )
    request = data.draw(strategies.message(f"{row.name}Request", version))
    core = authorizing()
    before = state(core)
    alice = client(core, "alice")
    alice.send((request, version))
    alice.turn()
    alice.take()
    assert state(core) == before
