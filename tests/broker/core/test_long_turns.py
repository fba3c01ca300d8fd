"""Turns that would take long: requests wait for the next one; clients that wait for each response come first."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from kafka_offsets import Broker
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core import core as broker_core
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.network.peer import Peer
from kafka_offsets.broker.network.server import Server
from kafka_offsets.broker.turn.workers import sync_inline
from kafka_offsets.clock import ManualClock, Now
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import MemoryFiles
from tests.drivers.core import CoreClient, request_frame
from tests.interop.waiting import until

ASKED = request_frame(messages.ApiVersionsRequest(), 0)


class TickingClock:
    """A clock that shows a later millisecond each time it is read, as if everything took long."""

    def __init__(self) -> None:
        self._now = Now(1_700_000_000_000, 0)

    def now(self) -> Now:
        self._now = Now(self._now.wall_ms + 1, self._now.mono_ms + 1)
        return self._now


def test_a_turn_ends_after_some_milliseconds_and_a_client_that_waits_for_each_response_comes_first() -> None:
    # 300 clients that pipelined large Fetches and read nothing: another client waited once for 4.4 s.
    core = BrokerCore(Config.load({}), MemoryFiles(), TickingClock(), sync_inline)
    many = [CoreClient(core) for _ in range(100)]
    for client in many:
        client.send_bytes(ASKED * 50)
    patient = CoreClient(core)
    patient.send_bytes(ASKED)
    served = [client for client in many if client.connection.output_bytes]
    assert 0 < len(served) <= broker_core.TURN_MS
    assert patient.connection.output_bytes == 0
    assert core.end_turn(), "requests are left"
    assert patient.take_frame() is not None
    assert sum(client.connection.output_bytes > 0 for client in many) <= 2 * broker_core.TURN_MS
    turns = 1
    while core.end_turn():
        turns += 1
    assert turns > 3
    assert all(client.connection.output_bytes for client in many)


def test_many_clients_that_wait_for_each_response_do_not_hold_up_one_that_pipelines() -> None:
    # 60 of them filled the turns: one with 30 requests got no response in 400 turns.
    core = BrokerCore(Config.load({}), MemoryFiles(), TickingClock(), sync_inline)
    patient = [CoreClient(core) for _ in range(60)]
    large = [CoreClient(core) for _ in range(3)]
    served = [0] * len(patient)
    for client in patient:
        client.send_bytes(ASKED)
    for client in large:
        client.send_bytes(ASKED * 30)
    turns = 0
    while not all(client.connection.output_bytes for client in large):
        core.end_turn()
        turns += 1
        assert turns <= 2 * len(large) + 2
        for number, client in enumerate(patient):
            if client.take_frame() is not None:
                served[number] += 1
                client.send_bytes(ASKED)
    assert sum(served) > turns * broker_core.TURN_MS / 4, "the others are served next to it"


def test_a_connection_is_read_again_after_its_turn_although_nothing_is_sent() -> None:
    core = BrokerCore(Config.load({}), MemoryFiles(), TickingClock(), sync_inline)
    clients = [CoreClient(core) for _ in range(30)]
    request = messages.ProduceRequest(acks=0, timeout_ms=1000, topic_data=[])
    for client in clients:
        client.send_bytes(request_frame(request, 7))
    while core.end_turn():
        pass
    writable = core.responses.take_output()
    assert all(client.connection in writable for client in clients[broker_core.TURN_MS :])


def test_a_request_behind_one_that_waits_asks_for_no_turns() -> None:
    # It kept its broker busy, turn after turn, until the first one was answered.
    core = BrokerCore(Config.load({}), MemoryFiles(), ManualClock(), sync_inline)
    client = CoreClient(core)
    protocol = messages.JoinGroupRequest.Protocol(name="range", metadata=b"")
    joins = messages.JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=[protocol]
    )
    client.send_bytes(ASKED + request_frame(joins, 2) + ASKED)
    for _ in range(5):
        core.end_turn()
        for connection in core.responses.take_output():
            core.drain(connection)
    assert client.connection.unanswered, "the group waits for more members"
    assert client.connection.reader.buffered_bytes == len(ASKED)
    assert core.is_quiet


def test_what_is_due_waits_for_requests_that_have_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    # The heartbeat of a session that ends now may be among them.
    with Broker() as broker:
        events: list[str] = []

        def look(server: object) -> None:
            core = server.core  # type: ignore[attr-defined]
            run_due: Callable[[], None] = core.run_due
            monkeypatch.setattr(core, "run_due", lambda: (events.append("due"), run_due()))
            connection = next(iter(core.connections))
            core.responses.resumable[connection] = None
            server._run_due()  # type: ignore[attr-defined]
            events.append("waits")
            core.responses.resumable.clear()

        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port)), 10):
            until(lambda: broker._call(lambda server: len(server.core.connections)), "it is connected")
            broker._call(look)
            until(lambda: "due" in events, "what is due has run")
        assert events[0] == "waits"


class SteppedClock:
    """A clock that a test moves. It is no ManualClock, whose broker measures no work."""

    def __init__(self) -> None:
        self.ms = 0

    def now(self) -> Now:
        return Now(1_700_000_000_000 + self.ms, self.ms)


def test_what_is_due_waits_for_a_time_not_for_rounds() -> None:
    # 100 clients that pipelined Metadata: a Fetch that waits for 0.5 s at most was answered after 8 s.
    async def play() -> None:
        clock = SteppedClock()
        server = Server(Config.load({}), MemoryFiles(), clock)
        await server.start("127.0.0.1", 0)
        try:
            core, began_ms, ran_ms = server.core, clock.ms, []

            def due(now: Now) -> None:
                ran_ms.append(now.mono_ms - began_ms)
                clock.ms += 40  # the others of this time have to wait for another round

            for _ in range(3):
                core.scheduler.at(began_ms, due)
            connection = CoreClient(core).connection
            rounds = 0
            while len(ran_ms) < 3:
                core.responses.resumable[connection] = None
                server._timer.cancel()  # it has fired
                server._run_due()
                rounds += 1
                assert rounds < 20
                clock.ms += 40
            assert 0 < ran_ms[0] <= 140, "requests that have arrived are decided first, for some rounds"
            assert ran_ms[1:] == [ran_ms[0] + 80, ran_ms[0] + 160], "the others wait no second time"
        finally:
            core.responses.resumable.clear()
            await server.stop()

    asyncio.run(play())


def test_writes_of_a_turn_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as broker:
        flushed: list[int] = []
        flush = Peer.flush
        monkeypatch.setattr(
            Peer, "flush", lambda peer: (flushed.append(peer.connection.output_bytes), flush(peer))
        )

        def write(server: object) -> tuple[bool, int]:
            core = server.core  # type: ignore[attr-defined]
            for size, connection in enumerate(core.connections, 1):
                core.responses.send(connection, b"x" * (1000 - size))
            monkeypatch.setattr(server, "_clock", TickingClock())
            done = server._flush()  # type: ignore[attr-defined]
            monkeypatch.setattr(server, "_clock", core.clock)
            server.request_turn()  # type: ignore[attr-defined]
            return bool(done), len(flushed)

        host, _, port = broker.bootstrap_servers.rpartition(":")
        clients = [socket.create_connection((host, int(port)), 10) for _ in range(40)]
        until(lambda: broker._call(lambda server: len(server.core.connections)) == 40, "all are connected")
        done, count = broker._call(write)
        assert (done, count) == (False, broker_core.TURN_MS + 1)
        assert flushed[: count - 1] == sorted(flushed)[: count - 1]
        assert flushed[count - 1] == max(flushed), (
            "the first one waits no longer, although it has most to send"
        )
        for client in clients:
            assert client.recv(1) == b"x"
            client.close()
