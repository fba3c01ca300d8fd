"""Brokers that authenticate to each other: what they exchange, who may take part, and what clients may do."""

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kafka_offsets.broker.access import listener_tls
from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.security_keys import STANDARD_AUTHORIZER
from kafka_offsets.broker.nodes.controller_endpoint import framed
from kafka_offsets.broker.nodes.controller_link import secured
from kafka_offsets.broker.nodes.controller_login import BrokerLogins
from kafka_offsets.broker.nodes.node_server import NodeServer
from kafka_offsets.broker.wire.channel import broker_client_id
from kafka_offsets.broker.wire.connection import ClientConnection
from kafka_offsets.client import acls, commits, connection
from kafka_offsets.client.protocol import decode_response, encode_request
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity, Login
from kafka_offsets.commands.serve_nodes import _verbose_server
from kafka_offsets.errors import ConfigError, ConnectionLostError, ErrorCode, RefusedError
from kafka_offsets.metadata.json_form import encode_image, to_json
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.security.credential import Secret
from kafka_offsets.security.scram import salted_password
from kafka_offsets.testing import allow
from tests.drivers.secured_cluster import CLUSTER_ID, NODES, Controller, Keys, SecuredCluster
from tests.interop.waiting import until

pytestmark = pytest.mark.slow

USERS = "admin=admin-hush,alice=alice-hush,bob=bob-hush"
PLACE = ("orders", 0)
FORWARD = {"offsets.forward": "true"}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


def login(user: str, mechanism: str = "PLAIN") -> Login:
    return Login(mechanism, user, Secret(f"{user}-hush"))


def with_password(user: str) -> ClientSecurity:
    return ClientSecurity("SASL_PLAINTEXT", None, login(user))


def create(cluster: SecuredCluster, security: ClientSecurity, name: str = "orders") -> int:
    made = messages.CreateTopicsRequest
    answer = cluster.call(1, made([made.CreatableTopic(name, 1, 3)], 10_000), 5, security)
    return answer.topics[0].error_code


def produce(cluster: SecuredCluster, node: int, security: ClientSecurity, name: str = "orders") -> Any:
    """Produce one record with acks=all; return the answer."""
    made = messages.ProduceRequest
    batch = bytes(encode_batch([(b"k", b"v" * 1000, (), 1_700_000_000_000)]))
    data = [made.PartitionProduceData(0, batch)]
    request = made(acks=-1, timeout_ms=10_000, topic_data=[made.TopicProduceData(name, partition_data=data)])
    return cluster.call(node, request, 7, security)


def produce_error(answer: Any) -> int:
    return answer.responses[0].partition_responses[0].error_code


def commit(cluster: SecuredCluster, node: int, group: str, offset: int, security: ClientSecurity) -> int:
    answer = cluster.call(node, commits.request(group, {PLACE: offset}, {}), commits.VERSION, security)
    return answer.topics[0].partitions[0].error_code


def leader(cluster: SecuredCluster, name: str = "orders") -> int:
    return cluster.image.leader(name, 0)


def coordinator(cluster: SecuredCluster, group: str, security: ClientSecurity) -> int:
    node = next(iter(cluster.nodes))
    return cluster.call(node, messages.FindCoordinatorRequest(group), 3, security).node_id


def listening(protocol: str) -> dict[str, object]:
    return {"listeners": f"{protocol}://127.0.0.1:0", "inter.broker.listener.name": protocol}


def plain_jaas(listener: str) -> dict[str, object]:
    """Kafka's own form: a user of brokers, and the passwords that PLAIN knows."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    options = 'username="admin" password="admin-hush" user_admin="admin-hush" user_alice="alice-hush"'
    return {f"listener.name.{listener}.plain.sasl.jaas.config": f"{module} required {options};"}


WAYS: list[tuple[str, str, dict[str, object]]] = [
    ("PLAINTEXT", "", {}),
    ("SSL", "", {"ssl.client.auth": "required"}),
    ("SASL_PLAINTEXT", "PLAIN", plain_jaas("sasl_plaintext")),
    *(
        (
            "SASL_SSL",
            mechanism,
            {
                "sasl.mechanism.inter.broker.protocol": mechanism,
                "sasl.users": USERS,
                "sasl.inter.broker.user": "admin",
            },
        )
        for mechanism in ("PLAIN", "SCRAM-SHA-512")
    ),
]


@pytest.mark.parametrize(("protocol", "mechanism", "given"), WAYS, ids=["-".join(each[:2]) for each in WAYS])
def test_brokers_replicate_over_every_protocol(
    keys: Keys, protocol: str, mechanism: str, given: dict[str, object]
) -> None:
    tls = keys.client(keystore=keys.keystore).tls if protocol.endswith("SSL") else None
    client = ClientSecurity(protocol, tls, login("alice", mechanism) if mechanism else None)
    with SecuredCluster(listening(protocol) | keys.config | given | FORWARD) as cluster:
        assert create(cluster, client) == 0
        assert produce_error(produce(cluster, leader(cluster), client)) == 0
        assert sorted(cluster.image.topics["orders"].partitions[0].isr) == [*NODES]
        first = coordinator(cluster, "billing", client)
        assert commit(cluster, first, "billing", 4, client) == 0
        assert commit(cluster, first % 3 + 1, "billing", 5, client) == 0, "it is passed on"
        cluster.stop(first)
        second = coordinator(cluster, "billing", client)
        assert second != first
        made = messages.OffsetFetchRequest
        answer = cluster.call(second, made("billing", [made.Topic("orders", [0])]), 7, client)
        assert answer.topics[0].partitions[0].committed_offset == 5


def test_metadata_of_many_partitions_reach_brokers_over_tls(keys: Keys) -> None:
    """A message of several records of TLS, also where a broker waits for it."""
    with SecuredCluster(listening("SSL") | keys.config | {"ssl.client.auth": "required"}) as cluster:
        client = keys.client(keystore=keys.keystore)
        made = messages.CreateTopicsRequest
        request = made([made.CreatableTopic("orders", 500, 3)], 10_000)
        assert cluster.call(2, request, 5, client).topics[0].error_code == 0
        assert len(to_json(encode_image(cluster.image))) > 2 * 16_384

        def known() -> dict[int, int]:
            return cluster.read(
                lambda node: sum(len(topic.partitions) for topic in node._membership.image.topics.values())
            )

        assert known()[2] == 500, "it has waited for that"
        until(lambda: known() == dict.fromkeys(NODES, 500), "the other brokers have received them")


# -- who is no broker

SASL = {"sasl.users": USERS, "sasl.inter.broker.user": "admin"}
SASL_SSL = listening("SASL_SSL") | SASL
AUTHORIZED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}


async def connect(address: tuple[str, int], security: ClientSecurity) -> None:
    """Connect to a controller and log in, as a broker does. Raises OSError."""
    connected = socket.socket()
    connected.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connected, address)
    await secured(connected, address, security)
    connected.close()


@pytest.mark.parametrize("with_authorizer", [False, True], ids=["no authorizer", "authorizer"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize(
    ("user", "password", "logged"),
    [
        ("admin", "admin-hush", ""),
        ("admin", "hushhush", "authentication failed: "),
        ("nobody", "hushhush", "authentication failed: "),
        ("alice", "alice-hush", "User:alice may not act as a broker: it is denied CLUSTER_ACTION"),
    ],
)
def test_the_controller_knows_brokers_by_their_login(
    user: str,
    password: str,
    logged: str,
    mechanism: str,
    with_authorizer: bool,
    keys: Keys,
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = SASL_SSL | keys.config | {"connection.failed.authentication.delay.ms": 0}
    with Controller(given | (AUTHORIZED if with_authorizer else {})) as controller:
        security = keys.client(user, password, mechanism)
        if not logged:
            asyncio.run(connect(controller.address, security))
        else:
            with pytest.raises(ConnectionError, match="the login is refused: the controller does not accept"):
                asyncio.run(connect(controller.address, security))
    assert f"a connection was refused: {logged}" in caplog.text if logged else not caplog.text
    assert "hush" not in caplog.text


@pytest.mark.parametrize(
    ("client_auth", "has_certificate", "logged"),
    [
        ("required", True, ""),
        ("required", False, "TLS handshake failed: PEER_DID_NOT_RETURN_A_CERTIFICATE"),
        ("none", False, "User:ANONYMOUS may not act as a broker"),
    ],
)
def test_the_controller_knows_brokers_by_their_certificates(
    client_auth: str, has_certificate: bool, logged: str, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    given = listening("SSL") | keys.config | AUTHORIZED
    given |= {
        "ssl.client.auth": client_auth,
        "super.users": "User:CN=broker",
        "connection.failed.authentication.delay.ms": 0,
    }
    with Controller(given) as controller:
        security = keys.client(keystore=keys.keystore if has_certificate else None)
        plain = socket.create_connection(controller.address, 20)
        with security.tls.wrap_socket(plain, server_hostname="localhost") as peer:
            if logged:
                with suppress(OSError):  # the end, or the alert
                    while peer.recv(1000):
                        pass
            else:
                peer.sendall(framed(b'{"heartbeat": true}'))
                assert peer.recv(1000) == framed(b'{"heartbeat":true}')
    assert logged in caplog.text if logged else not caplog.text


@pytest.mark.parametrize(
    "sent",
    [
        b'{"register": {}}',
        b'{"heartbeat": true}',
        b'{"token": ""}',
        b'{"login": "PLAIN", "token": "!"}',
        b"x",
    ],
)
def test_the_controller_does_nothing_before_the_login(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    given = listening("SASL_PLAINTEXT") | SASL | {"connection.failed.authentication.delay.ms": 0}
    with Controller(given) as controller, socket.create_connection(controller.address, 20) as peer:
        peer.sendall(framed(sent))
        answer = b"".join(iter(lambda: peer.recv(1000), b""))
    assert answer[4:] == b'{"refused":"the controller does not accept this login"}'
    assert "a connection was refused: it does not log in: " in caplog.text


def test_a_peer_in_plain_text_is_refused(keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    with SecuredCluster(SASL_SSL | keys.config) as cluster:
        for address in (cluster.address(1), cluster.controller):
            with socket.create_connection(address, 20) as peer:
                peer.sendall(framed(b'{"register": {}}'))
                with suppress(ConnectionResetError):
                    assert peer.recv(1000)[:1] in (b"", b"\x15")  # the end, or an alert
    assert caplog.text.count("TLS handshake failed") == 2


# -- what clients may do


def test_clients_have_the_same_rights_at_every_broker(keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    admin, alice, bob = (keys.client(user, f"{user}-hush") for user in ("admin", "alice", "bob"))
    with SecuredCluster(SASL_SSL | AUTHORIZED | keys.config) as cluster:
        assert create(cluster, bob) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert create(cluster, admin) == 0
        creation = acls.creation(
            [allow("alice", "WRITE", topic="orders"), allow("alice", "READ", topic="orders")]
        )
        assert cluster.call(2, creation, acls.VERSION, admin).results[0].error_code == 0
        for _ in range(2):
            where = leader(cluster)
            assert produce_error(produce(cluster, where, alice)) == 0
            assert produce_error(produce(cluster, where, bob)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            for node in cluster.nodes:
                assert commit(cluster, node, "billing", 5, alice) == ErrorCode.GROUP_AUTHORIZATION_FAILED
            if len(cluster.nodes) == len(NODES):
                cluster.stop(where)
    assert "hush" not in caplog.text


def test_credentials_and_quotas_are_those_of_the_cluster(keys: Keys) -> None:
    """What is altered at one broker is in force at every other one, also once the first has stopped."""
    admin = keys.client("admin", "admin-hush")
    carol = keys.client("carol", "carol-hush", "SCRAM-SHA-256")
    made, quotas = messages.AlterUserScramCredentialsRequest, messages.AlterClientQuotasRequest
    salted = salted_password("sha256", "carol-hush", b"salt", 4096)
    upsertion = made.ScramCredentialUpsertion("carol", 1, 4096, b"salt", salted)
    entity = quotas.EntryData(
        [quotas.EntityData("user", "carol")], [quotas.OpData("request_percentage", 1e-6)]
    )
    with SecuredCluster(SASL_SSL | keys.config) as cluster:
        with pytest.raises(RefusedError):
            cluster.call(2, messages.MetadataRequest([]), 9, carol)
        assert cluster.call(1, made([], [upsertion]), 0, admin).results[0].error_code == 0
        assert cluster.call(1, quotas([entity], False), 1, admin).entries[0].error_code == 0
        cluster.stop(1)
        for node in (2, 3):
            until(lambda node=node: knows(cluster, node), "the change has reached every broker")
            assert cluster.call(node, messages.MetadataRequest([]), 9, carol).throttle_time_ms > 0


def knows(cluster: SecuredCluster, node: int) -> bool:
    settings = cluster.read(lambda each: each._membership.image.settings)[node]
    return bool(settings.credentials and settings.quotas)


def test_a_client_with_an_api_of_brokers_is_denied(keys: Keys) -> None:
    """Followers, transaction markers and the verification of partitions need CLUSTER_ACTION, as in Kafka."""
    admin, alice = (keys.client(user, f"{user}-hush") for user in ("admin", "alice"))
    with SecuredCluster(SASL_SSL | AUTHORIZED | keys.config) as cluster:
        create(cluster, admin)
        where = leader(cluster)
        wanted = messages.FetchRequest
        follows = wanted(
            replica_id=2, topics=[wanted.FetchTopic("orders", partitions=[wanted.FetchPartition(0)])]
        )
        answer = cluster.call(where, follows, 12, alice)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

        made = messages.WriteTxnMarkersRequest
        marker = made.WritableTxnMarker(1, 0, True, [made.WritableTxnMarkerTopic("orders", [0])], 0)
        found = cluster.call(where, made([marker]), 1, alice).markers[0].topics[0].partitions[0]
        assert found.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

        added = messages.AddPartitionsToTxnRequest
        verified = added(transactions=[added.AddPartitionsToTxnTransaction("t", 1, 0, True, [])])
        denied = cluster.call(where, verified, 5, alice)
        assert denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_brokers_and_clients_may_have_listeners_of_their_own(keys: Keys) -> None:
    config = {
        "listeners": "CLIENTS://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INTERNAL:SSL",
        "inter.broker.listener.name": "INTERNAL",
        "listener.name.internal.ssl.client.auth": "required",
        "sasl.users": USERS,
    }
    client = with_password("alice")
    with SecuredCluster(keys.config | config) as cluster:
        create(cluster, client)
        assert produce_error(produce(cluster, leader(cluster), client)) == 0
        used = cluster.read(lambda node: {each.listener for each in node.core.connections if is_broker(each)})
        assert set().union(*used.values()) == {"INTERNAL"}


def is_broker(connection: ClientConnection) -> bool:
    header = connection.known_header
    return header is not None and header.client_id.startswith("broker-")


# -- requests in envelopes

LOCAL = bytes([127, 0, 0, 1])
COMMIT = 8


def principal(name: str) -> bytes:
    form = messages.encode(messages.DefaultPrincipalData("User", name, False), 0)
    return b"\0\0" + form


def metadata() -> bytes:
    """A request that no broker passes on."""
    return encode_request(messages.MetadataRequest([]), 9, 7, "a client")[4:]


def frame(key: int = COMMIT, version: int = commits.VERSION, group: str = "billing") -> bytes:
    """A commit as a client sends it, or something else."""
    encoded = encode_request(commits.request(group, {PLACE: 5}, {}), commits.VERSION, 7, "a client")[4:]
    return struct.pack(">hh", key, version) + encoded[4:]


def envelope(
    name: str = "alice", host: bytes = LOCAL, request: bytes | None = None
) -> messages.EnvelopeRequest:
    return messages.EnvelopeRequest(frame() if request is None else request, principal(name), host)


def opened(answer: messages.EnvelopeResponse) -> messages.OffsetCommitResponse:
    assert answer.error_code == 0 and answer.response_data is not None
    return decode_response(messages.OffsetCommitRequest, commits.VERSION, bytes(answer.response_data), 7)


@pytest.fixture(scope="module")
def authorized() -> Iterator[SecuredCluster]:
    """Clients and brokers have listeners of their own; alice may read from one host, and no one has CLUSTER_ACTION."""
    config = {
        "listeners": "CLIENTS://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    with SecuredCluster(config | SASL | AUTHORIZED | FORWARD) as cluster:
        admin = with_password("admin")
        assert create(cluster, admin) == 0
        rights = [
            allow("alice", "READ", **each, host="127.0.0.1") for each in ({"group": "*"}, {"topic": "*"})
        ]
        assert not any(
            each.error_code for each in cluster.call(1, acls.creation(rights), acls.VERSION, admin).results
        )
        yield cluster


def sent(
    cluster: SecuredCluster, request: messages.EnvelopeRequest, user: str = "admin", node: int = 0
) -> Any:
    """Send an envelope to the coordinator of the group in it."""
    security = with_password(user)
    node = node or coordinator(cluster, "billing", with_password("admin"))
    return cluster.call(node, request, 0, security, "INTERNAL")


@pytest.mark.parametrize(
    ("name", "host", "error"),
    [
        ("alice", LOCAL, ErrorCode.NONE),
        ("alice", bytes(10) + b"\xff\xff" + LOCAL, ErrorCode.NONE),
        ("bob", LOCAL, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("alice", bytes([10, 0, 0, 1]), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("alice", bytes(15) + b"\1", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_a_request_in_an_envelope_is_decided_as_its_clients(
    authorized: SecuredCluster, name: str, host: bytes, error: ErrorCode
) -> None:
    answer = opened(sent(authorized, envelope(name, host)))
    assert answer.topics[0].partitions[0].error_code == error


def test_a_request_in_an_envelope_is_not_passed_on_again(authorized: SecuredCluster) -> None:
    other = coordinator(authorized, "billing", with_password("admin")) % 3 + 1
    answer = opened(sent(authorized, envelope(), node=other))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (
            {"request_principal": b"\0\1" + principal("alice")[2:]},
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ),
        ({"request_principal": principal("alice")[:-4]}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"abc"}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b""}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": frame()[:-3]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": metadata()}, ErrorCode.INVALID_REQUEST),
        ({"request_data": frame(key=999)}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": frame(version=99)}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_an_envelope_that_no_broker_sends_is_refused(
    authorized: SecuredCluster, changed: dict[str, Any], error: ErrorCode
) -> None:
    """The errors are those of Kafka 4.3.1 at the listener of a controller."""
    request = envelope()
    for name, value in changed.items():
        setattr(request, name, value)
    answer = sent(authorized, request)
    assert (answer.error_code, answer.response_data) == (error, None)


def test_only_brokers_send_envelopes(authorized: SecuredCluster) -> None:
    assert sent(authorized, envelope(), "alice").error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    versions = authorized.call(1, messages.ApiVersionsRequest(), 0, listener="INTERNAL")
    assert 58 not in {each.api_key for each in versions.api_keys}
    with pytest.raises(ConnectionLostError, match="closed the connection before it answered"):
        authorized.call(1, envelope(), 0, with_password("admin"), "CLIENTS")


def test_a_request_that_is_passed_on_counts_for_the_quota_of_its_client(authorized: SecuredCluster) -> None:
    admin, alice = (with_password(user) for user in ("admin", "alice"))
    made = messages.AlterClientQuotasRequest
    entity = made.EntryData([made.EntityData("user", "alice")], [made.OpData("request_percentage", 1e-6)])
    assert authorized.call(1, made([entity], False), 1, admin).entries[0].error_code == 0
    try:
        assert opened(sent(authorized, envelope())).throttle_time_ms > 0, "at the coordinator"
        other = coordinator(authorized, "billing", admin) % 3 + 1
        passed_on = authorized.call(other, commits.request("billing", {PLACE: 6}, {}), commits.VERSION, alice)
        assert passed_on.topics[0].partitions[0].error_code == 0
        assert passed_on.throttle_time_ms > 0
        muted = authorized.read(lambda node: {each.listener for each in node.core.connections if each.muted})
        assert set().union(*muted.values()) <= {"CLIENTS"}, "no connection between brokers"
    finally:
        entity.ops[0].remove = True
        authorized.call(1, made([entity], False), 1, admin)


@pytest.mark.parametrize(
    ("listener", "user", "is_exempt"),
    [("INTERNAL", "admin", True), ("INTERNAL", "alice", False), ("CLIENTS", "admin", False)],
)
def test_only_brokers_are_exempt_from_quotas_whatever_their_name(
    authorized: SecuredCluster, listener: str, user: str, is_exempt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, made = with_password("admin"), messages.AlterClientQuotasRequest
    entity = made.EntryData([made.EntityData("user", None)], [made.OpData("request_percentage", 1e-6)])
    authorized.call(1, made([entity], False), 1, admin)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(connection, "_CLIENT_ID", broker_client_id(2, CLUSTER_ID))
            answer = authorized.call(1, messages.MetadataRequest([]), 9, with_password(user), listener)
        assert (answer.throttle_time_ms == 0) is is_exempt
    finally:
        entity.ops[0].remove = True
        authorized.call(1, made([entity], False), 1, admin)


def test_no_client_is_missing_in_the_log_of_requests_because_of_its_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`serve --brokers --verbose` leaves out what brokers send each other."""
    caplog.set_level(logging.INFO, "kafka_offsets.requests")
    config = {
        "listeners": "CLIENTS://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    monkeypatch.setattr(connection, "_CLIENT_ID", broker_client_id(2, CLUSTER_ID))
    with SecuredCluster(config, _verbose_server(CLUSTER_ID)) as cluster:
        create(cluster, PLAINTEXT)
        assert produce_error(produce(cluster, leader(cluster), PLAINTEXT)) == 0
    logged = [each.getMessage() for each in caplog.records if each.name == "kafka_offsets.requests"]
    assert [name for line in logged for name in ("CreateTopics", "Produce", "Fetch") if name in line] == [
        "CreateTopics",
        "Produce",
    ]


# -- mistakes of the operator


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            listening("SASL_PLAINTEXT") | {"sasl.users": USERS},
            (
                "brokers have no user to log in to each other: set listener.name.sasl_plaintext.plain.sasl.jaas.config "
                "with username and password, or sasl.inter.broker.user to one of sasl.users"
            ),
        ),
        (
            listening("SASL_PLAINTEXT") | {"sasl.users": USERS, "sasl.inter.broker.user": "carol"},
            "brokers have no user to log in to each other",
        ),
        (
            listening("SASL_PLAINTEXT")
            | {"sasl.enabled.mechanisms": "PLAIN,GSSAPI", "sasl.mechanism.inter.broker.protocol": "GSSAPI"},
            "sasl.mechanism.inter.broker.protocol is GSSAPI: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 are served between",
        ),
        (
            {"listeners": "SASL_SSL://127.0.0.1:0"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners",
        ),
        (listening("SSL"), "listener SSL: a listener with TLS needs ssl.keystore.location"),
    ],
)
def test_brokers_that_could_not_reach_each_other_are_not_started(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        InterBrokerSecurity(Config.load(given))
    assert str(caught.value).startswith(message)
    assert "hush" not in str(caught.value)


def test_the_cipher_suites_of_the_listener_are_those_between_brokers(keys: Keys) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    given = listening("SSL") | keys.config | {"ssl.cipher.suites": suite}
    tls = InterBrokerSecurity(Config.load(given)).client_security().tls
    assert tls is not None
    assert [each["name"] for each in tls.get_ciphers() if each["protocol"] == "TLSv1.2"] == [
        "ECDHE-ECDSA-AES256-GCM-SHA384"
    ]
    assert tls.maximum_version is ssl.TLSVersion.TLSv1_2


def test_a_controller_reads_the_certificates_of_its_listener_once(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config.load(listening("SSL") | keys.config)
    security, read = InterBrokerSecurity(config), []
    monkeypatch.setattr(listener_tls, "server_context", lambda *stores: read.append(stores))
    assert BrokerLogins(config, security, ClusterSettings).tls is security.tls
    assert read == []


def test_certificates_between_brokers_are_reloaded(keys: Keys) -> None:
    security = InterBrokerSecurity(Config.load(listening("SSL") | keys.config))
    before = security.client_security().tls
    assert security.client_security().tls is before
    security.reload()
    assert security.client_security().tls is not before


def test_a_keystore_that_a_client_changes_is_that_of_connections_between_brokers(keys: Keys) -> None:
    """The certificate at the listener was new, and the one for other brokers expired (KIP-226)."""
    given = listening("SSL") | {"ssl.client.auth": "required"} | keys.config
    made = messages.IncrementalAlterConfigsRequest
    change = made.AlterableConfig("listener.name.ssl.ssl.keystore.location", 0, keys.keystore)
    request = made([made.AlterConfigsResource(4, "1", [change])], False)

    def outward(node: NodeServer) -> Any:
        security = node.core.broker.access.inter_broker
        assert security is not None
        return security.client_security().tls

    with SecuredCluster(given) as cluster:
        before = cluster.read(outward)
        answer = cluster.call(1, request, 1, keys.client(keystore=keys.keystore))
        assert answer.responses[0].error_code == ErrorCode.NONE
        after = cluster.read(outward)
    assert [after[node] is before[node] for node in NODES] == [False, True, True]
