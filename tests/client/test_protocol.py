"""ClientProtocol: requests, responses, logins and TLS of a connection, with a broker that has no socket either."""

import itertools
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.client.protocol import ClientProtocol
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity, Login
from kafka_offsets.errors import ConnectionLostError, ErrorCode, ListenerError, ProtocolError, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.security.credential import Secret
from kafka_offsets.security.tls import PROTOCOLS, Store, client_context, server_context
from kafka_offsets.testing import CertificateAuthority
from tests.drivers.core import CoreClient, make_core

ADDRESS = ("localhost", 9092)
MOST_BYTES = 1 << 20
SESSION_MS = 60_000
METADATA = messages.MetadataRequest([])


def login(mechanism: str = "PLAIN", password: str = "hush") -> ClientSecurity:
    return ClientSecurity("SASL_PLAINTEXT", None, Login(mechanism, "alice", Secret(password)))


def secured_core(**config: object) -> Any:
    listeners = "SASL_PLAINTEXT://127.0.0.1:1"
    delay = {"connection_failed_authentication_delay_ms": 0}
    return make_core(
        listeners=listeners,
        sasl_users="alice=hush",
        connections_max_reauth_ms=SESSION_MS,
        **delay,
        **config,
    )


class Tls:
    """The broker's side of TLS."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self.outgoing, server_side=True)
        self._is_open = False

    def decrypt(self, data: bytes) -> bytes:
        self._incoming.write(data)
        plain = b""
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
            while more := self._tls.read(1 << 20):
                plain += more
        except ssl.SSLWantReadError:
            pass
        return plain

    def encrypt(self, data: bytes) -> bytes:
        if data:
            self._tls.write(data)
        return self.outgoing.read()


class Exchange:
    """A client and a broker; bytes of both pass in pieces of at most `most` bytes.

    done      responses, by the numbers of their requests
    requests  names of the APIs that have reached the broker, if there is no TLS
    """

    def __init__(
        self,
        security: ClientSecurity = PLAINTEXT,
        core: Any = None,
        tls: ssl.SSLContext | None = None,
        most: int = MOST_BYTES,
    ) -> None:
        self.protocol = ClientProtocol(ADDRESS, "c", security, MOST_BYTES)
        self.client = CoreClient(core or make_core(), listener=0)
        self._tls = None if tls is None else Tls(tls)
        self._most = most
        self.done: list[tuple[int, Any]] = []

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.protocol.send(
                METADATA, 12, lambda response, number=number: self.done.append((number, response))
            )

    def run(self) -> None:
        """Let bytes pass until there are none. Raises what `next_response` does."""
        while self._pass_on():
            pass

    def _pass_on(self) -> bool:
        output = self.protocol.take_output()
        for data in self._pieces(output):
            self.client.core.receive(
                self.client.connection, data if self._tls is None else self._tls.decrypt(data)
            )
        self.client.turn()
        answers = self.client.core.drain(self.client.connection)
        received = answers if self._tls is None else self._tls.encrypt(answers)
        for data in self._pieces(received):
            self.protocol.receive(data)
            while (done := self.protocol.next_response()) is not None:
                done[0](done[1])
        return bool(output or received)

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        return (data[at : at + self._most] for at in range(0, len(data), self._most))


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS of a client that trusts the broker, and of the broker."""
    return contexts_in(tmp_path_factory.mktemp("keys"))


def contexts_in(folder: Path, client_auth: str = "none") -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority, no_store = CertificateAuthority(), Store("PEM", None)
    trusted = Store("PEM", authority.write_certificate(folder / "ca.pem"))
    own = Store("PEM", authority.sign("broker").write_pem(folder / "broker.pem"))
    client = client_context(no_store, trusted, PROTOCOLS, checks_name=True)
    return client, server_context(own, trusted, client_auth, PROTOCOLS)


@pytest.mark.parametrize("most", [1, 7, MOST_BYTES])
def test_responses_come_in_the_order_of_their_requests_however_the_bytes_are_cut(most: int) -> None:
    exchange = Exchange(most=most)
    exchange.send(0, 1, 2)
    exchange.run()
    assert [number for number, response in exchange.done if response.brokers] == [0, 1, 2]
    assert exchange.protocol.calls == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("with_tls", [False, True])
def test_requests_wait_for_the_login_and_for_tls(
    mechanism: str, with_tls: bool, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    client, server = contexts if with_tls else (None, None)
    security = login(mechanism)._replace(tls=client)
    exchange = Exchange(security, secured_core(), server, most=100)
    exchange.protocol.log_in_if_due(0)
    exchange.send(0)
    assert not exchange.protocol.is_ready and exchange.protocol.is_open is not with_tls
    exchange.run()
    assert exchange.protocol.is_ready and exchange.client.connection.principal.name == "alice"
    assert [number for number, response in exchange.done if response.brokers] == [0]


def test_a_login_is_repeated_after_most_of_the_session() -> None:
    exchange = Exchange(login(), secured_core())
    protocol = exchange.protocol
    protocol.log_in_if_due(1000)
    exchange.run()
    assert protocol.login_due_ms == 1000 + 0.85 * SESSION_MS
    protocol.log_in_if_due(51_999)
    assert protocol.is_ready
    exchange.send(0)
    protocol.log_in_if_due(52_000)
    exchange.send(1)
    assert [call.api for call in protocol.calls] == ["Metadata", "SaslHandshake", "Metadata"]
    exchange.run()
    assert [number for number, _ in exchange.done] == [0, 1]
    assert protocol.login_due_ms == 52_000 + 0.85 * SESSION_MS


@pytest.mark.parametrize(
    ("security", "message"),
    [
        (login(password="guess"), "localhost:9092: the login is refused: Authentication failed: "),
        (login("SCRAM-SHA-1"), "localhost:9092: SCRAM-SHA-1 is not one of PLAIN, "),
    ],
)
def test_a_refused_login_is_the_end_of_the_connection(security: ClientSecurity, message: str) -> None:
    exchange = Exchange(security, secured_core())
    exchange.protocol.log_in_if_due(0)
    exchange.send(0)
    with pytest.raises(RefusedError, match=message):
        exchange.run()
    with pytest.raises(RefusedError, match=message):
        exchange.protocol.next_response()
    assert not exchange.protocol.is_lost and "guess" not in exchange.protocol.why
    for on_done in exchange.protocol.abandon():
        on_done(None)
    assert exchange.done == [(0, None)], "the login is no request of the shell"


def test_a_certificate_that_is_not_trusted_is_refused_with_an_alert(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], tmp_path: Path
) -> None:
    _, server = contexts_in(tmp_path)
    exchange = Exchange(ClientSecurity("SSL", contexts[0], None), tls=server)
    with pytest.raises(ListenerError, match="localhost:9092: its certificate is refused: "):
        exchange.run()
    assert exchange.protocol.take_output()
    assert not exchange.protocol.is_lost


def test_a_client_without_a_certificate_is_refused_once_its_handshake_has_ended(tmp_path: Path) -> None:
    client, server = contexts_in(tmp_path, "required")
    exchange = Exchange(ClientSecurity("SSL", client, None), tls=server)
    protocol, broker = exchange.protocol, exchange._tls
    assert broker is not None
    broker.decrypt(protocol.take_output())
    protocol.receive(broker.outgoing.read())
    with pytest.raises(ssl.SSLError):
        broker.decrypt(protocol.take_output())
    assert protocol.is_open
    protocol.receive(broker.outgoing.read())
    with pytest.raises(ListenerError, match="TLS failed: tlsv13 alert certificate required"):
        protocol.next_response()
    protocol.take_output()  # nothing is read after the end


def test_the_numbers_of_requests_begin_again_after_the_last_one_of_32_bits() -> None:
    """A follower sends so many in some weeks, on one connection."""
    exchange = Exchange()
    exchange.protocol._numbers = itertools.count((1 << 31) - 1)
    exchange.send(0, 1, 2)
    exchange.run()
    assert [number for number, _ in exchange.done] == [0, 1, 2]


def test_a_response_before_the_end_is_returned_before_its_error() -> None:
    exchange = Exchange()
    exchange.send(0)
    exchange.run()
    exchange.send(1)
    exchange.client.core.receive(exchange.client.connection, exchange.protocol.take_output())
    exchange.client.turn()
    exchange.protocol.receive(exchange.client.core.drain(exchange.client.connection))
    exchange.protocol.receive(b"")
    assert exchange.protocol.next_response() is not None
    with pytest.raises(ConnectionLostError, match="closed the connection") as raised:
        exchange.protocol.next_response()
    assert type(raised.value) is ConnectionLostError and exchange.protocol.is_lost


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0\0\0\5\0\0\0\2\0", "localhost:9092: Metadata: an answer to request 2, not to 1"),
        (b"\0\0\0\5\0\0\0\1\0", "localhost:9092: Metadata: "),
        (b"\x7f\xff\xff\xff\0\0", "localhost:9092: a frame of 2147483647 bytes"),
    ],
)
def test_bytes_that_are_no_response_name_the_broker_and_the_api(data: bytes, message: str) -> None:
    exchange = Exchange()
    exchange.send(0)
    exchange.protocol.receive(data)
    with pytest.raises(ProtocolError, match=message):
        exchange.protocol.next_response()


FRAMES = st.binary(max_size=40).map(lambda data: len(data).to_bytes(4, "big") + data)
ANSWERS = st.builds(
    lambda number, body: (len(body) + 4).to_bytes(4, "big") + number.to_bytes(4, "big") + body,
    st.integers(0, 4),
    st.binary(max_size=40),
)
WAYS = [PLAINTEXT, login(), login("SCRAM-SHA-256")]
ENDS = (ProtocolError, ListenerError, ConnectionLostError, RefusedError)


def outcomes(security: ClientSecurity, pieces: list[bytes]) -> list[str]:
    """What a client that has sent two requests makes of bytes, and then of their end."""
    exchange, found = Exchange(security), []
    protocol = exchange.protocol
    protocol.take_output()  # the shell is connected
    protocol.log_in_if_due(0)
    exchange.send(0, 1)
    for data in [*pieces, b""]:
        protocol.receive(data)
        try:
            while (done := protocol.next_response()) is not None:
                found.append(repr(done[1]))
        except ENDS as error:
            return [*found, str(error)]
        protocol.take_output()
    raise AssertionError("nothing follows the end")


@given(
    st.sampled_from(WAYS), st.lists(FRAMES | ANSWERS | st.binary(max_size=20), max_size=4), st.integers(1, 9)
)
def test_any_bytes_are_responses_or_an_error_however_they_are_cut(
    security: ClientSecurity, parts: list[bytes], most: int
) -> None:
    data = b"".join(parts)
    whole = outcomes(security, [data] if data else [])
    if security.login is None or security.login.mechanism == "PLAIN":  # the nonce of SCRAM is new each time
        cut = [data[at : at + most] for at in range(0, len(data), most)]
        assert outcomes(security, cut) == whole or data.startswith(b"\x15\x03")


@pytest.mark.slow
@given(st.binary(max_size=200), st.integers(0, 4000))
def test_any_bytes_in_place_of_tls_are_an_error(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], data: bytes, after: int
) -> None:
    """After some bytes of the broker's handshake, and perhaps all of it, come others."""
    exchange = Exchange(ClientSecurity("SSL", contexts[0], None), tls=contexts[1])
    protocol, passed = exchange.protocol, 0
    exchange.send(0)
    while passed < after and (output := protocol.take_output()):
        assert exchange._tls is not None
        exchange._tls.decrypt(output)
        answer = exchange._tls.encrypt(b"")[: after - passed]
        passed += len(answer)
        protocol.receive(answer)
    protocol.receive(data or b"\0")
    if protocol.error is None:
        assert protocol.next_response() is None
        protocol.receive(b"")
    with pytest.raises(ENDS):
        protocol.next_response()
    protocol.take_output()


def test_an_error_code_of_a_broker_that_takes_no_login_is_a_sentence() -> None:
    exchange = Exchange(login())
    exchange.protocol.log_in_if_due(0)
    refusal = messages.encode(messages.SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, []), 1)
    exchange.protocol.receive((len(refusal) + 4).to_bytes(4, "big") + b"\0\0\0\1" + refusal)
    with pytest.raises(RefusedError, match="localhost:9092: it takes no login at this address"):
        exchange.protocol.next_response()
