"""Throttled connections at their sockets: what is not read, and what is closed. The broker's clock is moved by hand."""

import select
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker
from kafka_offsets.clock import ManualClock
from kafka_offsets.protocol import messages
from kafka_offsets.testing import CertificateAuthority
from tests.broker.access.test_throttling import METADATA, produce_request, set_quota
from tests.drivers.core import CoreClient, request_frame

LARGE = 8 << 20
"""More than the buffers of both sockets hold: the rest cannot be sent to a broker that does not read."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"socket.request.max.bytes": 2 * LARGE}, clock=ManualClock()) as broker:
        broker.create_topic("t")
        yield broker


def set_quota_of(broker: Broker, key: str, limit: float | None, **entity: str | None) -> None:
    broker._call(lambda server: set_quota(CoreClient(server.core, "admin"), key, limit, **entity))


def connect(broker: Broker) -> socket.socket:
    host, port = broker.bootstrap_servers.split(":")
    return socket.create_connection((host, int(port)), 20)


def answer(client: socket.socket) -> bytes:
    """Return the next response; b"" at the end of the connection."""
    try:
        size = client.recv(4, socket.MSG_WAITALL)
    except ConnectionResetError:
        return b""
    return size and client.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)


def test_a_muted_connection_is_not_read_until_the_clock_has_passed_its_pause(broker: Broker) -> None:
    set_quota_of(broker, "producer_byte_rate", 1000.0)
    assert broker.clock is not None
    with connect(broker) as client:
        client.sendall(request_frame(produce_request(20_000), 9, client_id="app"))
        assert answer(client)
        client.setblocking(False)
        sent, large = 0, request_frame(produce_request(LARGE), 9, client_id="app")
        while sent < len(large) and select.select([], [client], [], 0.3)[1]:
            sent += client.send(large[sent:])
        assert sent < LARGE
        broker.clock.advance(seconds=9)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        broker.clock.advance(seconds=2)
        client.settimeout(20)
        client.sendall(large[sent:])
        assert answer(client)


def test_a_muted_connection_ends_with_the_broker(broker: Broker) -> None:
    set_quota_of(broker, "producer_byte_rate", 1.0)
    with connect(broker) as client:
        client.sendall(request_frame(produce_request(20_000), 9, client_id="app"))
        assert answer(client)
        broker.stop()
        assert answer(client) == b""


def test_a_connection_over_the_quota_of_its_address_is_closed_unread_after_a_second(broker: Broker) -> None:
    set_quota_of(broker, "connection_creation_rate", 1.0, ip="127.0.0.1")
    assert broker.clock is not None
    clients = [connect(broker) for _ in range(11)]
    for client in clients:
        client.sendall(request_frame(METADATA[0], METADATA[1]))
    assert [len(answer(client)) > 0 for client in clients[:10]] == [True] * 10
    last = clients[10]
    broker.clock.advance(999)
    last.setblocking(False)
    with pytest.raises(BlockingIOError):
        last.recv(1)
    broker.clock.advance(1)
    last.settimeout(20)
    assert answer(last) == b""
    set_quota_of(broker, "connection_creation_rate", None, ip="127.0.0.1")
    with connect(broker) as client:
        client.sendall(request_frame(messages.ApiVersionsRequest(), 0))
        assert answer(client)
    for client in clients:
        client.close()


def test_a_connection_that_waits_for_its_end_does_not_delay_a_stop(broker: Broker) -> None:
    set_quota_of(broker, "connection_creation_rate", 1.0, ip=None)
    clients = [connect(broker) for _ in range(11)]
    for client in clients[:10]:
        client.sendall(request_frame(METADATA[0], METADATA[1]))
        assert answer(client)
    broker.stop()
    assert [answer(client) for client in clients] == [b""] * 11
    for client in clients:
        client.close()


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[Broker]:
    """A broker with a listener SSL."""
    keystore = CertificateAuthority().sign("server").write_pem(tmp_path / "server.pem")
    keys = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM", "ssl.keystore.location": keystore}
    with Broker(keys, clock=ManualClock()) as broker:
        yield broker


def test_a_connection_counts_before_its_tls_handshake(encrypted: Broker) -> None:
    """Peers that never shake hands use up the quota of their address; above it no handshake begins."""
    set_quota_of(encrypted, "connection_creation_rate", 1.0, ip="127.0.0.1")
    assert encrypted.clock is not None
    silent = [connect(encrypted) for _ in range(10)]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with connect(encrypted) as last:
        last.settimeout(0.3)
        with pytest.raises(TimeoutError):
            context.wrap_socket(last, do_handshake_on_connect=True)
    with connect(encrypted) as last:
        encrypted.clock.advance(1000)
        last.settimeout(20)
        assert answer(last) == b""
    for client in silent:
        client.close()
    encrypted.clock.advance(seconds=60)
    with connect(encrypted) as plain, context.wrap_socket(plain) as client:
        client.sendall(request_frame(messages.ApiVersionsRequest(), 0))
        assert client.recv(4)


@pytest.mark.parametrize("listener", ["broker", "encrypted"])
def test_a_connection_over_the_quota_of_its_address_is_not_read(
    listener: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by asyncio of Python 3.11.2, which reads after `connection_made` whatever that has paused."""

    def add_reader(transport: Any, *args: object) -> None:
        if not transport._closing:
            transport._loop._add_reader(*args)

    broker = request.getfixturevalue(listener)
    set_quota_of(broker, "connection_creation_rate", 1.0, ip="127.0.0.1")
    first = [connect(broker) for _ in range(10)]
    monkeypatch.setattr("asyncio.selector_events._SelectorTransport._add_reader", add_reader)
    with connect(broker) as last:
        last.setblocking(False)
        sent, large = 0, b"\x16" * LARGE
        while sent < LARGE and select.select([], [last], [], 0.3)[1]:
            sent += last.send(large[sent:])
        assert sent < LARGE
    for client in first:
        client.close()


def test_what_the_test_itself_does_is_not_throttled(broker: Broker) -> None:
    for key in ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"):
        set_quota_of(broker, key, 1.0, client_id=None)
    for _ in range(3):
        broker.produce("t", ["x" * 100_000])
        broker.commit("g", {("t", 0): 1})
    assert len(broker.consume_all("t")) == 3
    assert broker._call(lambda server: server.core.throttling._producers._used) == {}
