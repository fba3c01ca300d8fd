"""What the answers of Kafka do not show: waits, connections that close, logs, limits, and what the disk refuses.

Kafka's answers are compared in tests/stories/authorization.txt and acls.txt.
"""

import logging
from typing import Any

import pytest

from kafka_offsets.broker.core.api_table import served_apis
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.gates import acl_requests
from kafka_offsets.client import acls
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.security.acls import AclBinding
from kafka_offsets.security.principal import Principal
from kafka_offsets.storage.directory.client_settings import ACLS
from kafka_offsets.storage.files.files import Files
from kafka_offsets.testing.acls import allow, deny
from tests.drivers.core import CoreClient, commit_request, make_core
from tests.storage.crash.faults import FaultyFiles

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
BATCH = bytes(encode_batch([(b"k", b"v", (), 0)]))


def broker(*acls: AclBinding, files: Files | None = None, **config: Any) -> BrokerCore:
    """A broker with two topics, and ACLs."""
    config = {"authorizer_class_name": STANDARD, "super_users": "User:admin"} | config
    core = make_core(files, clock=ManualClock(), **config)
    for name in ("free", "secret"):
        core.topics.create(name, 1)
    core.settings.set_acls(frozenset(acls))
    return core


def client(core: BrokerCore, user: str = "alice") -> CoreClient:
    """A connection of a user."""
    made = CoreClient(core)
    made.connection.principal = Principal("User", user)
    return made


def fetch(*topics: str, max_wait_ms: int = 1000) -> messages.FetchRequest:
    """A Fetch that waits for a byte."""
    made = messages.FetchRequest
    return made(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=10_000,
        topics=[
            made.FetchTopic(name, partitions=[made.FetchPartition(0, partition_max_bytes=10_000)])
            for name in topics
        ],
    )


def fetched(response: messages.FetchResponse) -> dict[str, tuple[int, int]]:
    """By topic: the error code and how many bytes were read."""
    return {
        topic.topic: (each.error_code, len(each.records or b""))
        for topic in response.responses
        for each in topic.partitions
    }


def produce(*topics: str, acks: int = 1, batch: bytes = BATCH, transactional_id: str | None = None) -> Any:
    """A batch for each topic."""
    made = messages.ProduceRequest
    data = [
        made.TopicProduceData(name, partition_data=[made.PartitionProduceData(0, batch)]) for name in topics
    ]
    return made(transactional_id, acks, 1000, data)


def log_ends(core: BrokerCore) -> dict[str, int]:
    """The log end offset of each topic."""
    found = {}
    for name in ("free", "secret"):
        partition = core.topics.partition(name, 0)
        assert partition is not None
        found[name] = partition.log.log_end_offset
    return found


def test_a_denied_partition_does_not_end_the_wait_of_the_others_and_is_never_read() -> None:
    core = broker(allow("alice", "READ", topic="free"))
    alice, admin = client(core), client(core, "admin")
    admin.call(produce("secret"), 7)
    alice.send((fetch("secret", "free"), 7))
    alice.turn()
    assert alice.take() == []
    admin.call(produce("secret"), 7)
    alice.turn()
    assert alice.take() == []
    admin.call(produce("free"), 7)
    alice.turn()
    (response,) = alice.take()
    assert fetched(response) == {"free": (0, len(BATCH)), "secret": (DENIED, 0)}
    alice.send((fetch("secret"), 7))
    alice.turn()
    (response,) = alice.take()
    assert fetched(response) == {"secret": (DENIED, 0)}


def test_a_waiting_fetch_ends_with_the_denial_at_its_deadline() -> None:
    core = broker(allow("alice", "READ", topic="free"))
    alice = client(core)
    alice.send((fetch("secret", "free"), 7))
    alice.turn()
    assert isinstance(core.clock, ManualClock)
    core.clock.advance(1001)
    alice.turn()
    (response,) = alice.take()
    assert fetched(response) == {"free": (0, 0), "secret": (DENIED, 0)}


def test_a_follower_needs_the_right_to_act_for_the_cluster() -> None:
    core = broker(allow("alice", "READ", topic="*"), allow("bob", "CLUSTER_ACTION", cluster=True))
    request = fetch("free", max_wait_ms=0)
    request.replica_id = 2
    assert fetched(client(core).call(request, 7)) == {"free": (DENIED, 0)}
    assert fetched(client(core, "bob").call(request, 7))["free"][0] != DENIED


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_a_follower_without_rights_does_not_learn_which_topics_exist(name: str) -> None:
    core = broker(allow("alice", "READ", topic="*"), allow("bob", "CLUSTER_ACTION", cluster=True))
    made = messages.FetchRequest
    wanted = [made.FetchTopic(topic_id=b"u" * 16, partitions=[made.FetchPartition(0)])]
    request = made(session_epoch=-1, replica_state=made.ReplicaState(2, -1), topics=wanted)
    (topic,) = client(core, name).call(request, 17).responses
    (partition,) = topic.partitions
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert (topic.topic_id, partition.error_code) == (b"u" * 16, DENIED if name == "alice" else unknown)
    request = fetch("nowhere", max_wait_ms=0)
    request.replica_id = 2
    assert (fetched(client(core, name).call(request, 7))["nowhere"][0] == DENIED) is (name == "alice")


@pytest.mark.parametrize("topics", [("secret",), ("secret", "free")])
def test_a_producer_without_acks_learns_of_a_denial_by_the_end_of_its_connection(
    topics: tuple[str, ...],
) -> None:
    core = broker(allow("alice", "WRITE", topic="free"))
    alice = client(core)
    alice.send((produce("free", acks=0), 7))
    alice.turn()
    assert not alice.connection.closing
    alice.send((produce(*topics, acks=0), 7))
    alice.turn()
    assert alice.connection.closing
    assert log_ends(core) == {"free": 1 + ("free" in topics), "secret": 0}


def test_a_batch_of_a_transaction_needs_the_right_to_the_transactional_id() -> None:
    core = broker(allow("alice", "WRITE", topic="free"))
    batch = bytes(
        encode_batch(
            [(b"k", b"v", (), 0)], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
        )
    )
    for acks in (1, 0):
        alice = client(core)
        alice.send((produce("free", acks=acks, batch=batch, transactional_id="t"), 7))
        alice.turn()
        if acks:
            (response,) = alice.take()
            (topic,) = response.responses
            assert topic.partition_responses[0].error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert alice.connection.closing is (acks == 0)
    assert log_ends(core) == {"free": 0, "secret": 0}


@pytest.mark.parametrize("is_configured", [False, True])
def test_a_commit_of_all_or_none_is_refused_with_one_denied_topic(is_configured: bool) -> None:
    acls = allow("alice", "READ", topic="free"), allow("alice", "READ", group="g")
    core = broker(*acls, offsets_commit_all_or_none=is_configured)
    request = commit_request(core, "g", {("free", 0): 1, ("secret", 0): 1}, 8)
    if not is_configured:
        for topic in request.topics:
            conditions.put(topic.partitions[0], -1)
    version = 8 if is_configured else 9
    response = client(core).call(request, version)
    codes = {topic.name: topic.partitions[0].error_code for topic in response.topics}
    assert codes == {"free": ErrorCode.OPERATION_NOT_ATTEMPTED, "secret": DENIED}
    assert client(core, "admin").committed("g") == {}


def test_pipelined_commits_are_answered_in_their_order() -> None:
    core = broker(allow("alice", "READ", topic="free"), allow("alice", "READ", group="g"))
    alice = client(core)
    asked = [("free",), ("secret",), ("secret", "free"), ("free",)]
    alice.send(*((commit_request(core, "g", {(name, 0): 1 for name in names}), 8) for names in asked))
    alice.turn()
    answers = [{t.name: t.partitions[0].error_code for t in each.topics} for each in alice.take()]
    assert answers == [{"free": 0}, {"secret": DENIED}, {"secret": DENIED, "free": 0}, {"free": 0}]


def test_a_regular_expression_matches_only_topics_that_its_sender_may_describe() -> None:
    core = broker(allow("alice", "READ", group="g"), allow("alice", "DESCRIBE", topic="orders", prefix=True))
    for topic in ("orders-eu", "secret-eu"):
        core.topics.create(topic, 1)
    member = client(core)

    def beat(epoch: int, member_id: str) -> Any:
        request = messages.ConsumerGroupHeartbeatRequest(
            "g",
            member_id,
            epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex=".*-eu",
            topic_partitions=[],
        )
        answer = member.call(request, 1)
        assert answer.error_code == 0
        member.turn()
        return answer

    member_id = "m" * 22
    epoch = beat(0, member_id).member_epoch
    assert isinstance(core.clock, ManualClock)
    assigned: set[bytes] = set()
    for _ in range(5):
        core.clock.advance(1000)
        core.run_due()
        core.end_turn()
        answer = beat(epoch, member_id)
        epoch = answer.member_epoch
        if answer.assignment is not None:
            assigned |= {each.topic_id for each in answer.assignment.topic_partitions}
    assert assigned == {core.topics.id_and_partition_count("orders-eu")[0]}


def test_a_resource_of_an_unknown_type_does_not_let_the_others_be_altered() -> None:
    """A request with such a resource was decided without a check: anybody could alter every topic with it."""
    core = broker()
    request, resource = (
        messages.IncrementalAlterConfigsRequest,
        messages.IncrementalAlterConfigsRequest.AlterConfigsResource,
    )
    change = request.AlterableConfig("retention.ms", 0, "1")
    answer = client(core).call(request([resource(99, "x", []), resource(2, "secret", [change])], False), 1)
    assert [each.error_code for each in answer.responses] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ]


@pytest.mark.parametrize("by_name", ["free", None])
def test_an_id_beside_a_name_does_not_let_it_be_described(by_name: str | None) -> None:
    """Names are ignored beside ids, as in Kafka. A topic was described to everybody who named another by its id."""
    core = broker()
    free, secret = (core.topics.id_and_partition_count(name)[0] for name in ("free", "secret"))
    named = messages.MetadataRequest.Topic
    request = messages.MetadataRequest([named(name=by_name), named(secret, None)])
    found = client(core).call(request, 12).topics
    assert [(each.error_code, each.name, each.topic_id) for each in found] == [(DENIED, None, secret)]
    assert free not in [each.topic_id for each in found]


def test_an_empty_name_before_the_cursor_does_not_let_the_others_be_described() -> None:
    """Kafka drops what comes before the cursor, and then asks for rights; here the empty name ended that check."""
    core = broker()
    made = messages.DescribeTopicPartitionsRequest
    request = made([made.TopicRequest(""), made.TopicRequest("secret")], 9, made.Cursor("secret", 0))
    found = client(core).call(request, 0).topics
    assert [(each.error_code, each.name, each.partitions) for each in found] == [(DENIED, "secret", [])]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_in_versions_of_metadata_without_them_are_refused_before_rights_are_asked_for(
    version: int,
) -> None:
    """As in Kafka. The response with the denied ids could not be encoded: the client got UNKNOWN_SERVER_ERROR."""
    core = broker()
    secret = core.topics.id_and_partition_count("secret")[0]
    request = messages.MetadataRequest([messages.MetadataRequest.Topic(secret, "secret")])
    (found,) = client(core).call(request, version).topics
    assert (found.error_code, found.name) == (ErrorCode.INVALID_REQUEST, "secret")


def test_a_denial_is_logged_with_principal_and_resource(caplog: pytest.LogCaptureFixture) -> None:
    core = broker(allow("alice", "READ", group="g"))
    alice = client(core)
    with caplog.at_level(logging.INFO, "kafka_offsets"):
        alice.commit("g", {("secret", 0): 1})
        alice.call(messages.MetadataRequest(None), 9)
        alice.call(messages.ListGroupsRequest(), 4)
    assert [record.getMessage() for record in caplog.records] == [
        "User:alice is denied READ on TOPIC 'secret' from 127.0.0.1"
    ]


def test_there_are_at_most_so_many_acls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_requests, "MOST_ACLS", 2)
    core = broker()
    admin = client(core, "admin")
    wanted = [allow("alice", "READ", topic=name) for name in ("a", "b", "c")]
    found = admin.call(acls.creation(wanted), 3)
    assert [each.error_code for each in found.results] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert core.directory.clients.acls == set(wanted[:2])
    found = admin.call(acls.creation(wanted[:1]), 3)
    assert [each.error_code for each in found.results] == [0]


def test_what_the_disk_refuses_is_not_in_force() -> None:
    files = FaultyFiles()
    rule = allow("alice", "READ", group="g")
    core = broker(rule, files=files)
    admin, alice = client(core, "admin"), client(core)
    for request in (
        acls.deletion([rule]),
        acls.creation([deny("alice", "READ", group="g"), allow("x", "ALL", topic="y")]),
    ):
        files.only = lambda operation, path: path.startswith(ACLS)
        files.calls.clear()
        files.fail_at = 1
        response = admin.call(request, 3)
        results = (
            response.filter_results if isinstance(request, messages.DeleteAclsRequest) else response.results
        )
        assert {each.error_code for each in results} == {ErrorCode.KAFKA_STORAGE_ERROR}
        files.fail_at, files.failed = 0, False
        assert core.directory.clients.acls == {rule}
        assert not alice.call(messages.OffsetFetchRequest("g", []), 7).error_code


def test_a_broker_without_an_authorizer_has_the_rows_of_the_table() -> None:
    """So no request pays for what is not there."""
    core = make_core()
    assert core.broker.apis is served_apis(core.config.profile)
