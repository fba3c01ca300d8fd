"""The network of the consumer: responses and losses reach callbacks, and never within the call that sends."""

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_offsets.client.consumer.network import _VERSIONS as VERSIONS
from kafka_offsets.client.consumer.network import CONTROL, ConsumerNetwork
from kafka_offsets.errors import ErrorCode, ProtocolError, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Broker

RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing sends RST."""


@pytest.fixture
def network() -> Iterator[ConsumerNetwork]:
    made = ConsumerNetwork("c", 30_000, 10)
    yield made
    made.close()


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def run_until(network: ConsumerNetwork, condition: Any) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        network.run(now_ms(), 20)


def framed(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def ask(
    network: ConsumerNetwork, address: tuple[str, int], answers: list[Any], timeout_ms: int | None = None
) -> bool:
    request = messages.MetadataRequest([])
    return network.send(address, CONTROL, request, 12, now_ms(), answers.append, timeout_ms)


def test_responses_are_in_the_order_of_the_requests(network: ConsumerNetwork) -> None:
    with Broker() as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        answers: list[Any] = []
        for _ in range(3):
            assert ask(network, (host, int(port)), answers)
        assert answers == [], "callbacks run in run()"
        run_until(network, lambda: len(answers) == 3)
        assert {type(each).__name__ for each in answers} == {"MetadataResponse"}
    run_until(network, lambda: network.last_error)
    assert "the broker closed the connection" in network.last_error


def test_a_request_on_a_broken_connection_is_lost_later_and_not_while_it_is_sent(
    network: ConsumerNetwork,
) -> None:
    """Once a callback that ran inside send() was overtaken by "the request is in flight", which then never ended."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        answers: list[Any] = []
        assert ask(network, server.getsockname(), answers)
        run_until(network, lambda: network.channel(server.getsockname(), CONTROL, now_ms()).is_connected)  # type: ignore[union-attr]
        peer, _ = server.accept()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        peer.close()
        time.sleep(0.05)  # until the kernel has the RST; the assertion holds without it as well
        for _ in range(3):
            ask(network, server.getsockname(), answers)
        assert answers == []
        run_until(network, lambda: len(answers) == 4)
        assert answers == [None] * 4
        assert network.last_error


def test_a_refused_connection_is_tried_again_after_a_pause(network: ConsumerNetwork) -> None:
    answers: list[Any] = []
    # Of the failure: at this time the pause is not over, however long this process rests.
    before_ms = now_ms()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))  # and refuses connections until it listens; no other test gets its port
        address = server.getsockname()
        if ask(network, address, answers):
            run_until(network, lambda: answers)
        assert not network.send(address, CONTROL, messages.MetadataRequest([]), 12, before_ms, answers.append)
        assert "ECONNREFUSED" in network.last_error
        server.listen()
        run_until(network, lambda: ask(network, address, []))


def test_a_name_that_does_not_exist_is_a_lost_connection(network: ConsumerNetwork) -> None:
    assert not ask(network, ("nowhere.invalid", 9092), [])
    assert network.last_error.startswith("nowhere.invalid:9092: ")


def test_of_a_name_with_several_addresses_each_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one hangs: it accepts, and answers nothing."""
    with Broker() as broker, socket.create_server(("127.0.0.1", 0)) as hanging:
        served = "127.0.0.1", int(broker.bootstrap_servers.rpartition(":")[2])
        kind = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, ""
        places = [(*kind, hanging.getsockname()), (*kind, served)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *address, **kinds: [*places])
        network, answers = ConsumerNetwork("c", 30_000, 0), list[Any]()
        for _ in range(2):
            answers.clear()
            assert ask(network, ("name", 9092), answers, timeout_ms=30 if not network.last_error else None)
            run_until(network, lambda: answers)
        assert answers[0] is not None
        assert network.channel(("name", 9092), CONTROL, now_ms()).has_answered  # type: ignore[union-attr]
        network.close()


def test_a_response_that_is_late_closes_the_connection(network: ConsumerNetwork) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answers: list[Any] = []
        ask(network, server.getsockname(), answers, timeout_ms=30)
        run_until(network, lambda: answers)
        assert answers == [None]
        assert "a response did not come in time" in network.last_error


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff\xff", b"\0\0\0\4\0\0\0\x63"])
def test_bytes_that_are_no_response_are_a_protocol_error(network: ConsumerNetwork, garbage: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answers: list[Any] = []
        ask(network, server.getsockname(), answers)
        run_until(network, lambda: network.channel(server.getsockname(), CONTROL, now_ms()).is_connected)  # type: ignore[union-attr]
        peer, _ = server.accept()
        peer.sendall(garbage)
        with peer, pytest.raises(ProtocolError):
            run_until(network, lambda: False)
        # The connection is closed, and no caller waits for ever.
        run_until(network, lambda: answers == [None])


def test_a_response_behind_one_whose_callback_raises_is_not_lost(network: ConsumerNetwork) -> None:
    """Both arrive at once: nothing more arrives that would have the second one read."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address, answers = server.getsockname(), list[Any]()
        request = messages.FindCoordinatorRequest(coordinator_keys=["g"])

        def refuse(answer: Any) -> None:
            raise RefusedError("group g", ErrorCode.GROUP_AUTHORIZATION_FAILED)

        network.send(address, CONTROL, request, 4, now_ms(), refuse)
        network.send(address, CONTROL, request, 4, now_ms(), answers.append)
        run_until(network, lambda: network.channel(address, CONTROL, now_ms()).is_connected)  # type: ignore[union-attr]
        peer, _ = server.accept()
        with peer:
            made = messages.ApiVersionsResponse
            ranges = [made.ApiVersion(key, version, version) for key, version in VERSIONS.items()]
            found = messages.FindCoordinatorResponse()
            peer.sendall(
                framed(1, messages.encode(made(0, ranges), 0))
                + framed(2, b"\0" + messages.encode(found, 4))
                + framed(3, b"\0" + messages.encode(found, 4))
            )
            with pytest.raises(RefusedError):
                run_until(network, lambda: False)
            network.run(now_ms(), 0)
            assert answers == [found]


def test_a_broker_that_is_too_old_is_named(network: ConsumerNetwork) -> None:
    with Broker() as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        broker.faults.withhold("Fetch", after_version=11)
        ask(network, (host, int(port)), [])
        with pytest.raises(ProtocolError, match="the broker does not serve version 12 of API 1"):
            run_until(network, lambda: False)
