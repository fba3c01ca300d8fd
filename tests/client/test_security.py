"""Our clients connect with all four protocols, and refuse what they cannot trust."""

import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from kafka_offsets import Broker, cli
from kafka_offsets.client import Consumer
from kafka_offsets.client.admin import Admin
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.consumer.network import CONTROL, ConsumerNetwork
from kafka_offsets.client.security import take_security
from kafka_offsets.errors import ConfigError, ConnectionLostError, ErrorCode, ListenerError, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.testing import CertificateAuthority
from tests.drivers.secured import MECHANISMS, PROTOCOLS, Secured, write_properties

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORD = 'a "good", one='
KEY = ec.generate_private_key(ec.SECP256R1())
LARGE = b"x" * 900_000
"""More than one record of TLS, and more than the buffers of a socket."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    keys = tmp_path_factory.mktemp("keys") / "jwks.json"
    public = json.loads(ECAlgorithm.to_jwk(KEY.public_key())) | {"kid": "one", "alg": "ES256"}
    keys.write_text(json.dumps({"keys": [public]}), encoding="ascii")
    config = secured.config(*PROTOCOLS) | {
        "connections.max.reauth.ms": 60_000,
        "connection.failed.authentication.delay.ms": 0,
        "sasl.enabled.mechanisms": ",".join((*MECHANISMS, "OAUTHBEARER")),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
    }
    with Broker(config, users={"alice": PASSWORD}) as running:
        running.create_topic("orders")
        running.commit("billing", {("orders", 0): 3})
        for _ in range(6):
            running.produce("large", [LARGE])
        yield running


def properties(
    broker: Broker, secured: Secured, protocol: str, mechanism: str = "PLAIN", password: str = PASSWORD
) -> dict[str, str]:
    return secured.java(broker.address_of(protocol), protocol, mechanism, password=password)


def with_token(broker: Broker, secured: Secured, path: Path, **claims: Any) -> dict[str, str]:
    """Properties with a token in a file, valid for an hour."""
    now_s = int(time.time())
    given = {"sub": "alice", "iat": now_s, "exp": now_s + 3600} | claims
    path.write_text(jwt.encode(given, KEY, "ES256", headers={"kid": "one"}) + "\n", encoding="ascii")
    return properties(broker, secured, "SASL_SSL", "OAUTHBEARER") | {
        "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    }


def read(given: dict[str, str], count: int = 6) -> list[int]:
    """The lengths of records that a member of a group reads."""
    group = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    found: list[int] = []
    with Consumer(given | group | {"retry.backoff.ms": 10, "reconnect.backoff.ms": 10}) as consumer:
        consumer.subscribe("large")
        until = time.monotonic() + 20
        while len(found) < count and time.monotonic() < until:
            found += [len(each.value or b"") for each in consumer.poll(1000)]
    return found


def why_not_connected(given: dict[str, str]) -> str:
    """Why a consumer, which tries again and again, loses its connection."""
    with Consumer(given | {"reconnect.backoff.ms": 10, "group.id": "g"}) as consumer:
        consumer.subscribe("large")
        until = time.monotonic() + 20
        while not consumer._network.last_error and time.monotonic() < until:
            assert consumer.poll(50) == []
        return consumer._network.last_error


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_admin_connects(broker: Broker, secured: Secured, protocol: str, mechanism: str) -> None:
    admin = Admin(properties(broker, secured, protocol, mechanism))
    assert "billing" in [each.group for each in admin.list_groups()]
    assert admin.list_consumer_group_offsets("billing")["orders", 0].offset == 3


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [*((each, "PLAIN") for each in PROTOCOLS), ("SASL_SSL", "SCRAM-SHA-512")],
)
def test_a_consumer_reads(broker: Broker, secured: Secured, protocol: str, mechanism: str) -> None:
    assert read(properties(broker, secured, protocol, mechanism)) == [len(LARGE)] * 6


def test_a_token_in_a_file_is_a_login(broker: Broker, secured: Secured, tmp_path: Path) -> None:
    given = with_token(broker, secured, tmp_path / "token")
    assert Admin(given).list_consumer_group_offsets("billing")["orders", 0].offset == 3
    assert read(given) == [len(LARGE)] * 6


def test_an_expired_token_is_refused(broker: Broker, secured: Secured, tmp_path: Path) -> None:
    given = with_token(broker, secured, tmp_path / "token", exp=1)
    with pytest.raises(RefusedError, match=r"the token is refused: .*invalid_token") as caught:
        Admin(given).list_groups()
    assert caught.value.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(RefusedError, match="the token is refused"):
        read(given)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_refused(broker: Broker, secured: Secured, mechanism: str) -> None:
    given = properties(broker, secured, "SASL_SSL", mechanism, "guess")
    for call in (lambda: Admin(given).list_groups(), lambda: read(given)):
        with pytest.raises(RefusedError) as caught:
            call()
        assert caught.value.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "the login is refused: " in str(caught.value) and "guess" not in str(caught.value)


def test_a_certificate_that_is_not_trusted_is_refused(
    broker: Broker, secured: Secured, tmp_path: Path
) -> None:
    (tmp_path / "other.pem").write_text(CertificateAuthority("other").certificate_pem, encoding="ascii")
    given = properties(broker, secured, "SSL") | {"ssl.truststore.location": str(tmp_path / "other.pem")}
    for call in (lambda: Admin(given).list_groups(), lambda: read(given)):
        with pytest.raises(ListenerError, match="its certificate is refused: "):
            call()


def test_the_name_in_the_certificate_is_checked_unless_the_property_is_empty(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    (tmp_path / "ca.pem").write_text(authority.certificate_pem, encoding="ascii")
    signed = authority.sign("x", hosts=("10.0.0.1",))
    config = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": signed.write_pem(tmp_path / "server.pem"),
    }
    with Broker(config) as running:
        given = {
            "bootstrap.servers": running.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
        }
        with pytest.raises(ListenerError, match="its certificate is refused: IP address mismatch"):
            Admin(given).list_groups()
        assert Admin(given | {"ssl.endpoint.identification.algorithm": ""}).list_groups() == []


def test_a_broker_that_refuses_the_certificate_of_the_client_is_reported(
    secured: Secured, tmp_path: Path
) -> None:
    """With TLS 1.3 the handshake of the client has ended by then."""
    config = secured.config("SSL") | {"ssl.client.auth": "required"}
    with Broker(config) as running:
        given = secured.java(running.bootstrap_servers, "SSL")
        for call in (lambda: Admin(given).list_groups(), lambda: read(given)):
            with pytest.raises(ListenerError, match="TLS failed: tlsv13 alert certificate required"):
                call()


def test_an_alert_of_tls_is_named(secured: Secured) -> None:
    """Kafka answers so to a client without TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        host, port = server.getsockname()

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1 << 16)
                peer.sendall(b"\x15\x03\x03\0\2\2\x50")

        given = {"bootstrap.servers": f"{host}:{port}"}
        for call in (lambda: Admin(given).list_groups(), lambda: read(given, 1)):
            done = pool.submit(answer)
            with pytest.raises(ListenerError, match=r"security\.protocol must be SSL or SASL_SSL"):
                call()
            done.result(20)


@pytest.mark.parametrize(
    ("listener", "protocol", "message"),
    [
        ("SSL", "PLAINTEXT", r"closed the connection.*: is PLAINTEXT the protocol of its listener\?"),
        ("PLAINTEXT", "SSL", r"closed the connection during the TLS handshake: has its listener TLS\?"),
        (
            "SASL_PLAINTEXT",
            "PLAINTEXT",
            r"closed the connection.*: is PLAINTEXT the protocol of its listener\?",
        ),
    ],
)
def test_another_protocol_than_that_of_the_listener_is_named(
    broker: Broker, secured: Secured, listener: str, protocol: str, message: str
) -> None:
    given = secured.java(broker.address_of(listener), protocol)
    with pytest.raises(ListenerError, match=message):
        Admin(given).list_groups()
    assert re.search(message, why_not_connected(given))


def test_a_handshake_that_is_not_answered_ends_with_the_timeout(secured: Secured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        given = secured.java(f"{host}:{port}", "SSL") | {"request.timeout.ms": "100"}
        with pytest.raises(ConnectionLostError, match="the TLS handshake takes too long"):
            Admin(given).list_groups()
        assert "a response did not come in time" in why_not_connected(given)


def test_a_login_is_repeated_before_the_session_ends(
    broker: Broker, secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, port = broker.address_of("SASL_PLAINTEXT").split(":")
    security = take_security(properties(broker, secured, "SASL_PLAINTEXT"))
    with Connection(host, int(port), 10, security) as connection:
        first = connection._protocol.login_due_ms
        assert first < float("inf")
        connection._protocol.login_due_ms = 0.0
        assert connection.call(messages.MetadataRequest(None), 4).brokers
        assert connection._protocol.login_due_ms > first


def test_a_consumer_logs_in_again_while_requests_wait(broker: Broker, secured: Secured) -> None:
    """The session lasts 60 s, so the login is due after 51 s, on the clock that this test moves."""
    address = parse_address(broker.address_of("SASL_PLAINTEXT"))
    network = ConsumerNetwork("c", 30_000, 10, take_security(properties(broker, secured, "SASL_PLAINTEXT")))
    answers: list[Any] = []
    due_ms = []
    for now_ms in (0, 1, 52_000, 52_001):
        network.send(address, CONTROL, messages.MetadataRequest([]), 12, now_ms, answers.append)
        if now_ms in (1, 52_001):
            expected, until = len(answers) + 2, time.monotonic() + 20
            while len(answers) < expected and time.monotonic() < until:
                network.run(now_ms, 20)
            due_ms.append(network.channel(address, CONTROL, now_ms)._protocol.login_due_ms)  # type: ignore[union-attr]
    network.close()
    assert due_ms == [51_000, 103_000]
    assert len(answers) == 4 and all(each.brokers for each in answers)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is TLS: one of PLAINTEXT, SSL, "),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism is GSSAPI: one of PLAIN, "),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f"{MODULE};",
            },
            "sasl.jaas.config needs username and password",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"},
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, file:///PATH",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": "com.example.Tokens",
            },
            "sasl.login.callback.handler.class is com.example.Tokens: ",
        ),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols is SSLv3: "),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/no/such"},
            "truststore /no/such: No such file or directory",
        ),
        ({"ssl.key.password": "x"}, "unknown keys of an admin client: ssl.key.password"),
    ],
)
def test_properties_that_cannot_be_used(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Admin({"bootstrap.servers": "h:1"} | given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file or directory"), (b"", "there is no JWT in it"), (b"\xff", "1 column 1: not UTF-8")],
)
def test_a_file_without_a_token_is_named(
    broker: Broker, secured: Secured, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "token"
    given = with_token(broker, secured, path)
    path.unlink() if content is None else path.write_bytes(content)
    for call in (lambda: Admin(given).list_groups(), lambda: read(given)):
        with pytest.raises(ConfigError, match=f"^token {path}(: | line ){message}"):
            call()


def test_commands_connect_by_their_client_properties(
    broker: Broker, secured: Secured, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    given = properties(broker, secured, "SASL_SSL", "SCRAM-SHA-512")
    servers = given.pop("bootstrap.servers")
    command = ["--command-config", write_properties(tmp_path / "client.properties", given)]
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")
    assert cli.main(["produce", "lines", "-l", str(tmp_path / "lines"), "-b", servers, *command]) == 0
    command += ["-X", f"bootstrap.servers={servers}"]
    assert cli.main(["groups", "list", *command]) == 0
    assert cli.main(["lag", "billing", *command]) == 0
    assert b"billing" in capfdbinary.readouterr().out
    assert cli.main(["consume", "lines", *command, "--exit"]) == 0
    assert cli.main(["consume", "lines", *command, "--count", "2", "--group", "printers"]) == 0
    assert capfdbinary.readouterr().out == b"one\ntwo\none\ntwo\n"


@pytest.mark.parametrize(
    "words", [["groups", "list"], ["produce", "lines", "-l", "/dev/null"], ["consume", "lines"]]
)
@pytest.mark.parametrize(
    ("protocol", "changes", "message"),
    [
        (
            "SASL_SSL",
            {"sasl.jaas.config": f'{MODULE} username="alice" password="guess";'},
            "the login is refused: ",
        ),
        (
            "SSL",
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": ""},
            "its certificate is refused: ",
        ),
        (
            "SSL",
            {"security.protocol": "PLAINTEXT"},
            "is PLAINTEXT the protocol of its listener?",
        ),
        ("PLAINTEXT", {"security.protocol": "SSL"}, "has its listener TLS?"),
    ],
)
def test_a_command_that_is_refused_says_why_in_a_line(
    broker: Broker,
    secured: Secured,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    protocol: str,
    changes: dict[str, str],
    message: str,
) -> None:
    other = tmp_path / "other.pem"
    other.write_text(CertificateAuthority("other").certificate_pem, encoding="ascii")
    given = properties(broker, secured, protocol) | {
        key: value or str(other) for key, value in changes.items()
    }
    file = write_properties(tmp_path / "client.properties", given)
    assert cli.main([*words, "--command-config", file]) == cli.REFUSED
    line = capfd.readouterr().err.splitlines()[-1]
    assert line.startswith(f"kafka-offsets: {broker.address_of(protocol)}: ") and message in line
    assert "guess" not in line


def test_a_command_without_a_broker_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["groups", "list"]) == cli.CANNOT
    assert capsys.readouterr().err.startswith(
        "kafka-offsets: name a broker, with --bootstrap-server HOST:PORT, the variable"
    )
