"""TLS: listeners with certificates from files, clients with and without one, and certificates that change."""

import asyncio
import gc
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from kafka_offsets import Broker
from kafka_offsets.broker.access import listener_tls
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.network import server_process
from kafka_offsets.broker.network.accepting import ACCEPTED_PER_ROUND
from kafka_offsets.broker.network.server import Server
from kafka_offsets.broker.network.tls_handshake import Handshake
from kafka_offsets.client import Admin
from kafka_offsets.errors import ConfigError, ListenerError
from kafka_offsets.testing.certificates import Certificate, CertificateAuthority
from tests.interop.waiting import until

SUBJECT = {
    NameOID.COUNTRY_NAME: "DE",
    NameOID.ORGANIZATION_NAME: "Example, Inc.",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "Test",
    NameOID.COMMON_NAME: "client",
}
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)
PASSWORD = "a long secret"


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


@pytest.fixture(scope="module")
def server(authority: CertificateAuthority) -> Certificate:
    return authority.sign("server")


@pytest.fixture(scope="module")
def client(authority: CertificateAuthority) -> Certificate:
    return authority.sign(x509.Name([x509.NameAttribute(*part) for part in SUBJECT.items()]))


def keys(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority, **others: object
) -> dict[str, object]:
    """The keys of a broker with a listener SSL that has its certificate from a file."""
    trusted = tmp_path / "ca.pem"
    trusted.write_text(authority.certificate_pem, encoding="ascii")
    given: dict[str, object] = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": server.write_pem(tmp_path / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
    }
    return given | {name.replace("_", "."): value for name, value in others.items()}


def trusting(authority: CertificateAuthority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.certificate_pem)


@contextmanager
def connected(broker: Broker, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        yield encrypted


def versions(encrypted: ssl.SSLSocket) -> bytes:
    """Exchange ApiVersions; return the response, b"" if the connection is closed."""
    try:
        encrypted.sendall(API_VERSIONS)
        head = encrypted.recv(8)
    except (ssl.SSLError, ConnectionError):
        return b""
    return head


def principals(broker: Broker) -> list[str]:
    return broker._call(lambda server: [str(each.principal) for each in server.core.connections])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_clients_connect_with_tls(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority, version: ssl.TLSVersion
) -> None:
    context = trusting(authority)
    context.minimum_version = context.maximum_version = version
    with Broker(keys(tmp_path, server, authority)) as broker, connected(broker, context) as encrypted:
        assert versions(encrypted)[4:] == b"\0\0\0\7"
        assert principals(broker) == ["User:ANONYMOUS"]


def test_a_version_of_tls_that_is_not_enabled_is_refused(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority
) -> None:
    context = trusting(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    given = keys(tmp_path, server, authority, ssl_enabled_protocols="TLSv1.3")
    with Broker(given) as broker, pytest.raises(ssl.SSLError), connected(broker, context):
        pass


def offering(authority: CertificateAuthority, version: ssl.TLSVersion, suites: str = "") -> ssl.SSLContext:
    context = trusting(authority)
    context.minimum_version = context.maximum_version = version
    if suites:
        context.set_ciphers(suites)
    return context


def test_only_the_cipher_suites_that_are_set_are_used(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority
) -> None:
    one, other = "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"
    suites = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"
    with Broker(keys(tmp_path, server, authority, ssl_cipher_suites=suites)) as broker:
        with connected(broker, offering(authority, ssl.TLSVersion.TLSv1_2)) as encrypted:
            found = encrypted.cipher()
            assert found is not None and found[0] == one and versions(encrypted)
        for context in (
            offering(authority, ssl.TLSVersion.TLSv1_2, other),
            offering(authority, ssl.TLSVersion.TLSv1_3),
        ):
            with pytest.raises(ssl.SSLError), connected(broker, context):
                pass
    newer = "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256"
    with Broker(keys(tmp_path, server, authority, ssl_cipher_suites=newer)) as broker:
        with connected(broker, offering(authority, ssl.TLSVersion.TLSv1_3)) as encrypted:
            assert versions(encrypted)
        with pytest.raises(ssl.SSLError), connected(broker, offering(authority, ssl.TLSVersion.TLSv1_2)):
            pass


@pytest.mark.parametrize(
    ("suites", "message"),
    [
        ("TLS_AES_256_GCM_SHA384", "of TLS 1.3 all are served or none"),
        ("TLS_ECDHE_RSA_WITH_NOTHING", "TLS_ECDHE_RSA_WITH_NOTHING is not served"),
        ("ALL", "ALL is not served"),
        ("DEFAULT@SECLEVEL=9", "DEFAULT@SECLEVEL=9 is not served"),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,DEFAULT@SECLEVEL=0", "DEFAULT@SECLEVEL=0 stands alone"),
        ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256:ALL", "is not served"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "has none for the versions in ssl.enabled.protocols"),
    ],
)
def test_cipher_suites_that_cannot_be_used_are_a_mistake_of_the_operator(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority, suites: str, message: str
) -> None:
    given = keys(tmp_path, server, authority, ssl_cipher_suites=suites, ssl_enabled_protocols="TLSv1.3")
    with pytest.raises(ConfigError, match=message):
        Broker(given).start()


def signed_with_sha1(folder: Path) -> tuple[str, str, str]:
    """The file of an authority, and a key with its certificate, signed with SHA-1, as openssl makes them."""
    authority, key, chain = (str(folder / name) for name in ("ca.pem", "key.pem", "chain.pem"))
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "36500", "-subj"]
    own = ["-CA", authority, "-CAkey", f"{authority}.key", "-sha1", "-addext", "subjectAltName=IP:127.0.0.1"]
    for command in (
        [*new, "/CN=authority", "-keyout", f"{authority}.key", "-out", authority],
        [*new, "/CN=server", "-keyout", key, "-out", chain, *own],
    ):
        subprocess.run(command, check=True, capture_output=True)
    with suppress(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key)
        pytest.skip(f"{ssl.OPENSSL_VERSION} takes a certificate that is signed with SHA-1")
    return authority, Path(key).read_text(), Path(chain).read_text()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the chain")
def test_a_chain_signed_with_sha1_names_the_way_out_and_it_works_on_both_sides(tmp_path: Path) -> None:
    authority, key, chain = signed_with_sha1(tmp_path)
    given = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": chain,
    }
    with pytest.raises(ConfigError) as caught:
        Broker(given).start()
    assert "signed with a hash that OpenSSL finds too weak, such as SHA-1 (CA_MD_TOO_WEAK)" in str(
        caught.value
    )
    name, _, value = str(caught.value).partition("take it with ")[2].partition("=")
    with Broker(given | {name: value}) as broker:
        trusted = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": authority,
        }
        with pytest.raises(ListenerError, match=f"too weak: make a new one, or take it with {name}={value}"):
            Admin(trusted).list_groups()
        assert Admin(trusted | {name: value}).list_groups() == []


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the chain")
def test_a_chain_signed_with_sha1_in_pkcs12_has_the_same_way_out(tmp_path: Path) -> None:
    """The form that keytool writes, also where the type says JKS; of a broker and of a client."""
    signed_with_sha1(tmp_path)
    store = tmp_path / "store.p12"
    key, chain, authority = (str(tmp_path / name) for name in ("key.pem", "chain.pem", "ca.pem"))
    of_files = ["-inkey", key, "-in", chain, "-certfile", authority, "-out", str(store)]
    export = ["openssl", "pkcs12", "-export", *of_files, "-passout", f"pass:{PASSWORD}"]
    subprocess.run(export, check=True, capture_output=True)
    for kind in ("PKCS12", "JKS"):
        given: dict[str, object] = {
            "ssl.keystore.type": kind,
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": PASSWORD,
        }
        way_out = "(CA_MD_TOO_WEAK): make a new one, or take it with ssl.cipher.suites=DEFAULT@SECLEVEL=0"
        with pytest.raises(ConfigError) as of_broker:
            BrokerCore(Config.load(given | {"listeners": "SSL://127.0.0.1:0"}))
        with pytest.raises(ConfigError) as of_client:
            Admin({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", **given})
        for said in (str(of_broker.value), str(of_client.value)):
            assert f"keystore {store}: it cannot be used: a certificate is signed with" in said
            assert said.endswith(way_out)


def in_pem_with_a_password(path: Path, server: Certificate) -> dict[str, object]:
    return {"ssl.keystore.location": server.write_pem(path, PASSWORD), "ssl.key.password": PASSWORD}


def in_pkcs12(path: Path, server: Certificate) -> dict[str, object]:
    location = server.write_pkcs12(path, PASSWORD)
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": location,
        "ssl.keystore.password": PASSWORD,
    }


def in_pkcs12_named_jks(path: Path, server: Certificate) -> dict[str, object]:
    return in_pkcs12(path, server) | {"ssl.keystore.type": "JKS"}


def in_the_configuration(path: Path, server: Certificate) -> dict[str, object]:
    return {
        "ssl.keystore.location": None,
        "ssl.keystore.key": server.key_pem(),
        "ssl.keystore.certificate.chain": server.certificate_pem.replace("\n", " "),
    }


def encrypted_in_the_configuration(path: Path, server: Certificate) -> dict[str, object]:
    return in_the_configuration(path, server) | {
        "ssl.keystore.key": server.key_pem(PASSWORD),
        "ssl.key.password": PASSWORD,
    }


@pytest.mark.parametrize(
    "store",
    [
        in_pem_with_a_password,
        in_pkcs12,
        in_pkcs12_named_jks,
        in_the_configuration,
        encrypted_in_the_configuration,
    ],
)
def test_every_form_of_keystore_is_read(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority, store: Any
) -> None:
    given = keys(tmp_path, server, authority) | store(tmp_path / "store", server)
    given = {name: value for name, value in given.items() if value is not None}
    with Broker(given) as broker, connected(broker, trusting(authority)) as encrypted:
        assert encrypted.getpeercert()["subject"] == ((("commonName", "server"),),)  # type: ignore[index]
        assert versions(encrypted)
    assert PASSWORD not in repr(broker.config) and "PRIVATE" not in repr(broker.config)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ssl.key.password": "wrong"}, "listener SSL: keystore {}/server.pem: it cannot be used: "),
        ({"ssl.keystore.location": "/no/such"}, "listener SSL: keystore /no/such: No such file or directory"),
        (
            {"ssl.keystore.type": "PKCS12"},
            "listener SSL: keystore {}/server.pem: Could not deserialize PKCS12 data",
        ),
        ({"ssl.keystore.location": "{}/ca.pem"}, "listener SSL: keystore {}/ca.pem: it cannot be used: "),
        (
            {
                "ssl.key.password": PASSWORD,
                "ssl.client.auth": "required",
                "ssl.truststore.location": "{}/server.jks",
            },
            "listener SSL: truststore {}/server.jks: ",
        ),
        (
            {"ssl.keystore.type": "JKS", "ssl.keystore.location": "{}/server.jks"},
            "listener SSL: keystore {}/server.jks: this is a keystore in Java's old format: convert it with ",
        ),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": None},
            "listener SSL: a listener with TLS needs ssl.keystore.location, or ssl.keystore.key and its chain",
        ),
        ({"ssl.principal.mapping.rules": "RULE:("}, "Invalid value RULE:( for configuration ssl.principal"),
    ],
)
def test_a_store_that_cannot_be_used_is_a_mistake_of_the_operator(
    tmp_path: Path,
    server: Certificate,
    authority: CertificateAuthority,
    changed: dict[str, str | None],
    message: str,
) -> None:
    given = keys(tmp_path, server, authority)
    server.write_pem(tmp_path / "server.pem", PASSWORD)
    (tmp_path / "server.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0")
    for name, value in changed.items():
        given[name] = value and value.format(tmp_path)
    given = {name: value for name, value in given.items() if value is not None}
    with pytest.raises(ConfigError) as caught:
        BrokerCore(Config.load(given))
    assert str(caught.value).startswith(message.format(tmp_path))
    assert "wrong" not in str(caught.value).replace("wrong password", "")


RULE = r"RULE:^CN=(.*?),OU=Test,.*$/$1/U"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", r"User:CN=client,OU=Test,O=Example\, Inc.,C=DE"),
        (RULE, "User:CLIENT"),
        (f"RULE:^X=.*$/x/, {RULE}, DEFAULT", "User:CLIENT"),
    ],
)
def test_the_name_of_a_client_is_that_of_its_certificate(
    tmp_path: Path,
    server: Certificate,
    authority: CertificateAuthority,
    client: Certificate,
    rules: str,
    name: str,
) -> None:
    given = keys(tmp_path, server, authority, ssl_client_auth="required", ssl_principal_mapping_rules=rules)
    context = trusting(authority)
    context.load_cert_chain(client.write_pem(tmp_path / "client.pem"))
    with Broker(given) as broker, connected(broker, context) as encrypted:
        assert versions(encrypted)
        assert principals(broker) == [name]


def test_a_name_without_a_rule_may_not_connect(
    tmp_path: Path,
    server: Certificate,
    authority: CertificateAuthority,
    client: Certificate,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = "RULE:^CN=other$/x/"
    given = keys(tmp_path, server, authority, ssl_client_auth="required", ssl_principal_mapping_rules=rules)
    context = trusting(authority)
    context.load_cert_chain(client.write_pem(tmp_path / "client.pem"))
    with Broker(given) as broker, connected(broker, context) as encrypted:
        assert not versions(encrypted)
    assert "no rule matches the name in its certificate" in caplog.text


def test_a_name_that_cannot_be_read_may_not_connect(
    tmp_path: Path,
    server: Certificate,
    authority: CertificateAuthority,
    client: Certificate,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An authority may sign a subject that cryptography refuses: its client was ANONYMOUS, and not refused."""

    def refuse(_: bytes) -> str:
        raise ValueError("a strange subject")

    monkeypatch.setattr(listener_tls, "distinguished_name", refuse)
    context = trusting(authority)
    context.load_cert_chain(client.write_pem(tmp_path / "client.pem"))
    given = keys(tmp_path, server, authority, ssl_client_auth="required")
    with Broker(given) as broker, connected(broker, context) as encrypted:
        assert not versions(encrypted)
    assert "the name in its certificate cannot be read: a strange subject" in caplog.text


@pytest.mark.parametrize(("wanted", "is_allowed"), [("required", False), ("requested", True), ("none", True)])
def test_a_client_without_a_certificate(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority, wanted: str, is_allowed: bool
) -> None:
    context = trusting(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # in 1.3 the client notices it later
    given = keys(tmp_path, server, authority, ssl_client_auth=wanted)
    with Broker(given) as broker:
        if not is_allowed:
            with pytest.raises((ssl.SSLError, ConnectionError)), connected(broker, context):
                pass
            return
        with connected(broker, context) as encrypted:
            assert versions(encrypted)
            assert principals(broker) == ["User:ANONYMOUS"]


def test_a_certificate_of_another_authority_is_refused(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority
) -> None:
    context = trusting(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(CertificateAuthority("other").sign("client").write_pem(tmp_path / "client.pem"))
    given = keys(tmp_path, server, authority, ssl_client_auth="requested")
    with Broker(given) as broker, pytest.raises((ssl.SSLError, ConnectionError)), connected(broker, context):
        pass


def test_certificates_are_reloaded_for_new_connections(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority
) -> None:
    with (
        Broker(keys(tmp_path, server, authority)) as broker,
        connected(broker, trusting(authority)) as before,
    ):
        authority.sign("renewed").write_pem(tmp_path / "server.pem")
        broker.reload_certificates()
        with connected(broker, trusting(authority)) as after:
            assert after.getpeercert()["subject"] == ((("commonName", "renewed"),),)  # type: ignore[index]
            assert versions(after) and versions(before)
        (tmp_path / "server.pem").write_text("nothing", encoding="ascii")
        with pytest.raises(ConfigError, match=r"keystore .*server\.pem"):
            broker.reload_certificates()
        with connected(broker, trusting(authority)) as still:
            assert still.getpeercert()["subject"] == ((("commonName", "renewed"),),)  # type: ignore[index]


def test_sighup_reloads_certificates_and_logs_what_cannot_be_used(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        serving = Server(Config.load(keys(tmp_path, server, authority)))
        tls = serving.core.listeners[0].tls
        assert tls is not None
        server_process.reload_at_signal(serving)
        before = tls.context
        for text, is_new in (("nothing", False), (server.key_pem() + server.certificate_pem, True)):
            (tmp_path / "server.pem").write_text(text, encoding="ascii")
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.01)
            assert (tls.context is not before) == is_new
        await serving.stop()

    asyncio.run(main())
    assert caplog.text.count("the certificates were not reloaded: listener SSL: keystore") == 1


def test_connections_that_begin_no_handshake_are_counted_and_end_with_the_broker(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    given = keys(tmp_path, server, authority, max_connections_per_ip=1)
    with Broker(given) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port)), 10) as silent:
            broker._call(lambda server: None)
            with pytest.raises((ssl.SSLError, ConnectionError)), connected(broker, trusting(authority)):
                pass
            broker.stop()
            assert silent.recv(1) == b""
    assert "connection refused: too many connections" in caplog.text


def test_a_handshake_that_ends_before_its_first_step_is_counted_no_longer() -> None:
    """A broker that stopped in the same round of the loop waited for the end of the handshake for ever."""

    class Counting:
        def __init__(self) -> None:
            self.under_way = 0

        def delays_handshake(self, handshake: Handshake, host: str) -> bool:
            return False

        def begin_handshake(self, handshake: Handshake, host: str) -> bool:
            self.under_way += 1
            return True

        def end_handshake(self, handshake: Handshake, host: str) -> None:
            self.under_way -= 1

    async def main() -> None:
        counting, transport = Counting(), Mock(spec=asyncio.Transport)
        transport.get_extra_info.return_value = ("127.0.0.1", 1)
        handshake = Handshake(counting, Mock(), Mock())
        handshake.connection_made(transport)
        assert counting.under_way == 1
        handshake.abort()
        for _ in range(3):
            await asyncio.sleep(0)
        assert counting.under_way == 0
        transport.abort.assert_called_once()

    asyncio.run(main())


def send_another_protocol(broker: Broker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert plain.recv(1) == b""


def test_another_protocol_is_named_in_the_log(
    tmp_path: Path, server: Certificate, authority: CertificateAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(keys(tmp_path, server, authority)) as broker:
        send_another_protocol(broker)
    assert "127.0.0.1: TLS handshake failed: HTTP_REQUEST" in caplog.text


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


HELLO = client_hello()


@pytest.mark.parametrize(
    "sent", [b"", HELLO[:20], HELLO, b"GET / HTTP/1.1\r\n\r\n"], ids=["nothing", "a part", "hello", "HTTP"]
)
@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("is_read", [False, True])
def test_a_handshake_that_fails_leaves_nothing_for_the_garbage_collector(
    tmp_path: Path,
    authority: CertificateAuthority,
    server: Certificate,
    monkeypatch: pytest.MonkeyPatch,
    sent: bytes,
    *,
    is_reset: bool,
    is_read: bool,
) -> None:
    """The collector runs rarely, and the buffer of a connection with TLS has 256 KiB."""
    shake_hands, ended = Handshake._shake_hands, []

    async def counted(handshake: Handshake, transport: asyncio.Transport) -> None:
        await shake_hands(handshake, transport)
        ended.append(handshake._host)

    monkeypatch.setattr(Handshake, "_shake_hands", counted)
    with Broker(keys(tmp_path, server, authority)) as broker, no_collections():
        host, _, port = broker.bootstrap_servers.rpartition(":")
        for _ in range(3):
            with socket.create_connection((host, int(port)), 10) as plain:
                plain.sendall(sent)
                if is_read:
                    broker._call(lambda server: None)
                if is_reset:
                    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        until(lambda: len(ended) == 3, "all handshakes have ended")
        broker._call(lambda server: None)
        assert encrypted_connections() == []


def test_of_many_clients_a_few_are_accepted_at_a_time(
    tmp_path: Path, authority: CertificateAuthority, server: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thousand clients that left at once had a buffer of 256 KiB each: 20,000 took 1.3 GiB, which stayed.
    begin, under_way = Server.begin_handshake, []

    def counted(server: Server, handshake: Handshake, host: str) -> bool:
        is_begun = begin(server, handshake, host)
        under_way.append(len(server._handshakes))
        return is_begun

    monkeypatch.setattr(Server, "begin_handshake", counted)
    with Broker(keys(tmp_path, server, authority)) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")

        def come_and_leave(server: Server) -> None:
            """In the thread of the broker: all wait to be accepted."""
            for _ in range(300):
                socket.create_connection((host, int(port)), 10).close()

        broker._call(come_and_leave)
        until(lambda: len(under_way) == 300, "all were accepted")
    assert max(under_way) <= 8 * ACCEPTED_PER_ROUND


def test_a_broker_that_stops_leaves_nothing_of_a_handshake(
    tmp_path: Path, authority: CertificateAuthority, server: Certificate
) -> None:
    with no_collections():
        with Broker(keys(tmp_path, server, authority)) as broker:
            host, _, port = broker.bootstrap_servers.rpartition(":")
            with socket.create_connection((host, int(port)), 10):
                until(lambda: encrypted_connections() != [], "the handshake has begun")
                broker.stop()
        assert encrypted_connections() == []


@contextmanager
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def encrypted_connections() -> list[SSLProtocol]:
    return [each for each in gc.get_objects() if isinstance(each, SSLProtocol)]
