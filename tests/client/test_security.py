"""Our client connects with all four protocols, and refuses what it cannot trust."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.x509.oid import NameOID

from kafka_offsets import Broker, cli
from kafka_offsets.client.admin import Admin
from kafka_offsets.client.connection import Connection
from kafka_offsets.client.security import take_security
from kafka_offsets.errors import ConfigError, ConnectionLostError, ErrorCode, RefusedError
from kafka_offsets.protocol import messages
from tests.certificates import Authority

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORD = 'a "good", one='


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Iterator[Broker]:
    authority = Authority()
    (folder / "ca.pem").write_text(authority.certificate_pem, encoding="ascii")
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in PROTOCOLS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.sign((NameOID.COMMON_NAME, "x")).write_pem(folder / "server.pem"),
        "connections.max.reauth.ms": 60_000,
    }
    with Broker(config, users={"alice": PASSWORD}) as running:
        running.create_topic("orders")
        running.commit("billing", {("orders", 0): 3})
        yield running


def properties(
    broker: Broker, folder: Path, protocol: str, mechanism: str = "PLAIN", password: str = PASSWORD
) -> dict[str, str]:
    quoted = password.replace('"', '\\"')
    found = {"bootstrap.servers": broker.address_of(protocol), "security.protocol": protocol}
    if protocol.endswith("SSL"):
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    if protocol.startswith("SASL"):
        found |= {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{MODULE} username="alice" password="{quoted}";',
        }
    return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_admin_connects(broker: Broker, folder: Path, protocol: str, mechanism: str) -> None:
    admin = Admin(properties(broker, folder, protocol, mechanism))
    assert [each.group for each in admin.list_groups()] == ["billing"]
    assert admin.list_consumer_group_offsets("billing")["orders", 0].offset == 3


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_refused(broker: Broker, folder: Path, mechanism: str) -> None:
    admin = Admin(properties(broker, folder, "SASL_SSL", mechanism, "guess"))
    with pytest.raises(RefusedError) as caught:
        admin.list_groups()
    assert caught.value.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "guess" not in str(caught.value)


def test_a_certificate_that_is_not_trusted_is_refused(broker: Broker, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other.pem").write_text(Authority("other").certificate_pem, encoding="ascii")
    given = properties(broker, folder, "SSL") | {"ssl.truststore.location": str(tmp_path / "other.pem")}
    with pytest.raises(ConnectionLostError, match="its certificate is refused: "):
        Admin(given).list_groups()


def test_the_name_in_the_certificate_is_checked_unless_the_property_is_empty(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.certificate_pem, encoding="ascii")
    signed = authority.sign((NameOID.COMMON_NAME, "x"), address="10.0.0.1")
    config = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": signed.write_pem(tmp_path / "server.pem"),
    }
    with Broker(config) as running:
        given = properties(running, tmp_path, "SSL")
        with pytest.raises(ConnectionLostError, match="its certificate is refused: IP address mismatch"):
            Admin(given).list_groups()
        assert Admin(given | {"ssl.endpoint.identification.algorithm": ""}).list_groups() == []


def test_a_client_without_sasl_is_disconnected(broker: Broker) -> None:
    host, port = broker.address_of("SASL_PLAINTEXT").split(":")
    with Connection(host, int(port), 10) as connection, pytest.raises(ConnectionLostError):
        connection.call(messages.MetadataRequest(None), 4)


def test_a_login_is_repeated_before_the_session_ends(
    broker: Broker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, port = broker.address_of("SASL_PLAINTEXT").split(":")
    security = take_security(properties(broker, folder, "SASL_PLAINTEXT"))
    with Connection(host, int(port), 10, security) as connection:
        first = connection._login_again_s
        assert first < float("inf")
        connection._login_again_s = 0.0
        assert connection.call(messages.MetadataRequest(None), 4).brokers
        assert connection._login_again_s > first


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


def test_commands_connect_by_their_client_properties(
    broker: Broker, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = properties(broker, folder, "SASL_SSL", "SCRAM-SHA-512")
    servers = given.pop("bootstrap.servers")
    file = tmp_path / "client.properties"
    lines = (f"{key}={value}\n".replace("\\", "\\\\") for key, value in given.items())
    file.write_text("".join(lines), encoding="ascii")
    command = ["--bootstrap-server", servers, "--command-config", str(file)]
    assert cli.main(["groups", "list", *command]) == 0
    assert cli.main(["lag", "billing", *command]) == 0
    assert "billing" in capsys.readouterr().out
    assert cli.main(["consume", "orders", *command, "--exit"]) == cli.CANNOT
    assert "consume reads from listeners of protocol PLAINTEXT alone" in capsys.readouterr().err
