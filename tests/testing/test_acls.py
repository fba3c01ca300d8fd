"""ACLs of a broker in a test: what clients may do, in memory, on a disk, in a snapshot, in a cluster; and the fault."""

from base64 import b64encode
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from kafka_offsets import ConfigError, ErrorCode
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.security import ClientSecurity, Login
from kafka_offsets.protocol import messages
from kafka_offsets.security.credential import Secret
from kafka_offsets.testing import Broker, Cluster, allow, deny
from tests.stories.authentication import SocketLine, Talk
from tests.testing.fault_requests import commit, connect

TOPIC_DENIED, GROUP_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
EVERYTHING = [
    allow("*", "ALL", topic="*"),
    allow("*", "ALL", group="*"),
    allow("*", "ALL", transactional_id="*"),
    allow("*", "ALL", cluster=True),
]


def committed_to(broker: Broker, *topics: str, group: str = "g") -> set[int]:
    """The error codes of a commit of a client."""
    with connect(broker) as client:
        return set(commit(client, group, 5, *((topic, 0) for topic in topics)).values())


def test_clients_may_do_what_acls_allow_and_the_test_may_do_everything() -> None:
    given = [allow("ANONYMOUS", "READ", group="g"), allow("*", "READ", topic="ord", prefix=True)]
    with Broker(acls=given) as broker:
        broker.create_topic("orders")
        broker.create_topic("pages")
        broker.produce("pages", [b"x"])
        assert broker.acls == set(given)
        assert committed_to(broker, "orders") == {0}
        assert committed_to(broker, "pages", "orders") == {0, TOPIC_DENIED}
        assert committed_to(broker, "orders", group="other") == {GROUP_DENIED}
        broker.commit("other", {("pages", 0): 1})
        forbidden = deny("ANONYMOUS", "READ", topic="orders")
        broker.add_acls(forbidden, allow("*", "READ", group="*"))
        assert committed_to(broker, "orders") == {TOPIC_DENIED}
        broker.remove_acls(forbidden, deny("nobody", "READ", topic="orders"))
        assert committed_to(broker, "orders", group="other") == {0}
        assert len(broker.acls) == 3


def test_without_acls_there_is_no_authorizer() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        assert committed_to(broker, "orders") == {0}
        assert broker.acls == set()
        with pytest.raises(RuntimeError, match=r"SECURITY_DISABLED: No Authorizer is configured\."):
            broker.add_acls(*EVERYTHING)


def test_an_empty_list_denies_everything_but_super_users() -> None:
    with Broker(acls=[]) as broker:
        broker.create_topic("orders")
        assert committed_to(broker, "orders") == {GROUP_DENIED}
    with Broker({"super.users": "User:admin;User:ANONYMOUS"}, acls=[]) as broker:
        broker.create_topic("orders")
        assert committed_to(broker, "orders") == {0}
    with Broker(
        {"allow.everyone.if.no.acl.found": True}, acls=[allow("bob", "READ", topic="orders")]
    ) as broker:
        broker.create_topic("orders")
        broker.create_topic("pages")
        assert committed_to(broker, "orders", "pages") == {0, TOPIC_DENIED}


def test_a_super_user_is_a_principal() -> None:
    with pytest.raises(ConfigError, match="principalType:principalName but got alice"):
        Broker({"super.users": "alice"})
    with pytest.raises(ConfigError, match="StandardAuthorizer"):
        Broker({"authorizer.class.name": "org.example.Mine"})


def test_acls_survive_a_restart_and_are_in_snapshots(tmp_path: Path) -> None:
    config = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with Broker(config, data_directory=tmp_path) as broker:
        broker.add_acls(*EVERYTHING)
    with Broker(config, data_directory=tmp_path) as broker:
        assert broker.acls == set(EVERYTHING)
        broker.create_topic("orders")
        assert committed_to(broker, "orders") == {0}
    with Broker(acls=EVERYTHING) as broker:
        broker.create_topic("orders")
        before = broker.snapshot()
        broker.remove_acls(*EVERYTHING)
        assert committed_to(broker, "orders") == {GROUP_DENIED}
        after = broker.snapshot()
        broker.restore(before)
        assert committed_to(broker, "orders") == {0}
        broker.restore(after)
        assert committed_to(broker, "orders") == {GROUP_DENIED}


def test_the_brokers_of_a_cluster_have_the_same_acls() -> None:
    config = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with Cluster(config, brokers=2) as cluster:
        cluster.create_topic("orders")
        for expected in ({GROUP_DENIED}, {0}):
            for node in cluster.nodes:
                group = next(f"g{n}" for n in range(99) if cluster.coordinator(f"g{n}") == node.id)
                with Connection(*parse_address(node.address), 10) as client:
                    assert set(commit(client, group, 5, ("orders", 0)).values()) == expected
            cluster.add_acls(*EVERYTHING)
        assert cluster.acls == set(EVERYTHING)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"topic": "a", "group": "b"}, "an ACL is for one topic, group, transactional id or the cluster"),
        ({}, "an ACL is for one topic, group, transactional id or the cluster"),
        ({"topic": ""}, "Invalid empty resource name"),
    ],
)
def test_an_acl_is_for_one_resource(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        allow("alice", "READ", **arguments)  # type: ignore[arg-type]
    assert allow("User:alice", "READ", topic="orders") == allow("alice", "READ", topic="orders")
    with pytest.raises(ValueError, match="'FLY' is no operation; these are: ALL, READ, WRITE"):
        deny("alice", "FLY", topic="orders")


def test_a_denied_topic_is_refused_and_others_are_served() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        broker.create_topic("pages")
        with broker.faults.denied(topic="orders") as fault:
            assert committed_to(broker, "orders") == {TOPIC_DENIED}
            assert committed_to(broker, "pages") == {0}
            assert fault.hits == 1
        with broker.faults.denied(group="g", n=1):
            assert committed_to(broker, "pages") == {GROUP_DENIED}
            assert committed_to(broker, "pages") == {0}
        with pytest.raises(ValueError, match="exactly one of topic=, group= and transactional_id="):
            broker.faults.denied()
        with pytest.raises(ValueError, match="exactly one of topic=, group= and transactional_id="):
            broker.faults.denied(topic="orders", group="g")


def test_users_have_rights_of_their_own() -> None:
    with Broker(
        users={"alice": "secret", "bob": "hidden"}, acls=[allow("alice", "WRITE", topic="orders")]
    ) as broker:
        broker.create_topic("orders")
        outcomes = {}
        for user, password in (("alice", "secret"), ("bob", "hidden")):
            producer = KafkaProducer(
                bootstrap_servers=broker.bootstrap_servers,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_plain_username=user,
                sasl_plain_password=password,
                allow_auto_create_topics=False,
                enable_idempotence=False,
            )
            try:
                outcomes[user] = producer.send("orders", user.encode()).get(60).offset
            except TopicAuthorizationFailedError:
                outcomes[user] = "denied"
            producer.close()
        assert outcomes == {"alice": 0, "bob": "denied"}
        assert [record.value for record in broker.consume_all("orders")] == [b"alice"]


def test_the_users_of_a_cluster_have_their_rights_at_every_node_and_after_a_failover() -> None:
    users, rights = (
        {"alice": "secret", "bob": "hidden"},
        [allow("alice", "READ", group="g"), allow("alice", "READ", topic="t")],
    )
    with Cluster(users=users, acls=rights) as cluster:
        cluster.create_topic("t")
        for _ in range(2):
            coordinator = next(each for each in cluster.nodes if each.id == cluster.coordinator("g"))
            for user, expected in (("alice", {0}), ("bob", {GROUP_DENIED})):
                security = ClientSecurity(
                    "SASL_PLAINTEXT", None, Login("SCRAM-SHA-256", user, Secret(users[user]))
                )
                with Connection(*parse_address(coordinator.address), 10, security) as client:
                    assert set(commit(client, "g", 5, ("t", 0)).values()) == expected
            cluster.kill(coordinator.id)
        assert cluster.acls == set(rights)


def test_a_request_that_a_node_passes_on_needs_the_rights_of_its_client() -> None:
    users, rights = (
        {"alice": "secret", "bob": "hidden"},
        [allow("alice", "READ", group="g"), allow("*", "READ", topic="t")],
    )
    with Cluster({"offsets.forward": "true"}, users=users, acls=rights) as cluster:
        cluster.create_topic("t")
        other = next(each for each in cluster.nodes if each.id != cluster.coordinator("g"))
        for user, expected in (("alice", {0}), ("bob", {GROUP_DENIED})):
            security = ClientSecurity("SASL_PLAINTEXT", None, Login("PLAIN", user, Secret(users[user])))
            with Connection(*parse_address(other.address), 10, security) as client:
                assert set(commit(client, "g", 5, ("t", 0)).values()) == expected
        assert cluster.committed("g")["t", 0].offset == 5


def test_a_delegation_token_is_one_of_the_whole_cluster() -> None:
    """Made at one node, renewed at another, used at the third, also once the first is gone."""
    made = messages.CreateDelegationTokenRequest
    with Cluster({"delegation.token.secret.key": "key"}, users={"alice": "secret"}) as cluster:
        alice = ClientSecurity("SASL_PLAINTEXT", None, Login("PLAIN", "alice", Secret("secret")))
        first, second, third = (parse_address(node.address) for node in cluster.nodes)
        with Connection(*first, 10, alice) as client:
            token = client.call(made("", "", [], -1), 3)
            assert token.error_code == 0
        with Connection(*second, 10, alice) as client:
            renewed = client.call(messages.RenewDelegationTokenRequest(token.hmac, 60_000), 2)
            assert renewed.error_code == 0 and renewed.expiry_timestamp_ms < token.expiry_timestamp_ms
        cluster.kill(1)
        with closing(SocketLine(third[1])) as line:
            talk = Talk(line)
            talk.handshake("SCRAM-SHA-256")
            text = talk.first(token.token_id, rest=",tokenauth=true")
            answer = talk.final(text, b64encode(token.hmac).decode())
            assert answer.error_code == 0 and 0 < answer.session_lifetime_ms <= 60_000
            assert talk.metadata().brokers
