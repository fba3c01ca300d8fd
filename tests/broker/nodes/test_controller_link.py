"""The sockets between brokers and the controller of their cluster: losses, silence, and whatever bytes come."""

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_offsets.broker.nodes import controller_endpoint, controller_link
from kafka_offsets.broker.nodes.controller_endpoint import ControllerEndpoint, framed
from kafka_offsets.broker.nodes.controller_link import ControllerLink
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.metadata.controller import Controller, PlacedTopic
from kafka_offsets.metadata.controller_service import ControllerService
from kafka_offsets.metadata.image import Brokers, ClusterImage, Delta, RegisteredBroker, TopicPartition
from kafka_offsets.metadata.remote_membership import RemoteMembership
from kafka_offsets.replication.elections import IsrProposal
from tests.metadata.remote_cluster import RefusingStore

LONG_MS = 60_000
MEDIUM_MS = 4000
SESSION_MS = 1000
SHORT_MS = 200
PATIENCE_S = 20


def run(main: Coroutine[Any, Any, None], patience_s: int = PATIENCE_S) -> None:
    asyncio.run(asyncio.wait_for(main, patience_s))


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.001)


class Controlled:
    """A controller at a port; in a thread of its own, as brokers block their loops when they wait for it."""

    def __init__(
        self, session_timeout_ms: int = LONG_MS, port: int = 0, image: ClusterImage | None = None
    ) -> None:
        self.controller = Controller(ClusterImage() if image is None else image)
        self.service = ControllerService(self.controller, "cluster")
        self.port = 0
        self._session_timeout_ms, self._port = session_timeout_ms, port
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> "Controlled":
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _run(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        endpoint = ControllerEndpoint(self.service, self._session_timeout_ms)
        self.port = await endpoint.start("127.0.0.1", self._port)
        self._started.set()
        await self._stopped.wait()
        await endpoint.stop()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()

    def finish(self) -> None:
        """Return when it has sent everything that it is about to send."""
        done = threading.Event()
        self._loop.call_soon_threadsafe(done.set)
        done.wait()

    def pause(self) -> Callable[[], None]:
        """Let it do nothing until the returned function is called."""
        go_on = threading.Event()
        self._loop.call_soon_threadsafe(go_on.wait)
        return go_on.set

    def stop_process(self, *, is_interrupted: bool = True) -> Callable[[], None]:
        """Let it do nothing until the returned function is called, as after SIGSTOP; more than a session has passed.

        is_interrupted  whether it was stopped while it waited for input: the wait then ends without any
        """
        go_on = threading.Event()

        def stop() -> None:
            go_on.wait()
            pass_session(self._loop, self._session_timeout_ms, is_interrupted=is_interrupted)

        self._loop.call_soon_threadsafe(stop)
        return go_on.set


def pass_seconds(loop: Any, seconds: float) -> None:
    """Let the time of a loop be later."""
    time_of = loop.time
    loop.time = lambda: time_of() + seconds


def pass_session(loop: Any, session_timeout_ms: int, *, is_interrupted: bool) -> None:
    """Let the time of a loop be later by more than a session: its process was stopped and continues."""
    select = loop._selector.select

    def interrupted(timeout: float | None) -> list[Any]:
        loop._selector.select = select
        return []

    pass_seconds(loop, 1.5 * session_timeout_ms / 1000)
    if is_interrupted:
        loop._selector.select = interrupted


class Linked:
    """One broker with its link."""

    def __init__(self, port: int, broker_id: int = 1, session_timeout_ms: int = LONG_MS) -> None:
        self.membership = RemoteMembership(broker_id, f"incarnation of {broker_id}")
        self.address: tuple[str, int] | None = ("127.0.0.1", port)
        self.turns = 0
        self.link = ControllerLink(
            self.membership,
            lambda: self.address,
            lambda: self.membership.registration("cluster", "host", 9000 + broker_id, was_clean=True),
            session_timeout_ms,
            self._turn,
        )

    def _turn(self) -> None:
        self.turns += 1


NEW = PlacedTopic("orders", b"i" * 16, [[1, 2]], {})
ALONE = NEW._replace(replicas=[[1]])


def test_brokers_register_and_request_and_leave() -> None:
    async def main() -> None:
        first, second = Linked(controlled.port), Linked(controlled.port, 2)
        await first.link.start()
        await second.link.start()
        first.membership.create([NEW])
        assert first.membership.image.leader("orders", 0) == 1
        await until(lambda: "orders" in second.membership.image.topics)
        assert second.turns, "the turn of a broker ends after a change"
        errors: list[ErrorCode] = []
        first.membership.alter_isr(TopicPartition("orders", 0), IsrProposal(1, 0, 0, (1,)), errors.append)
        await until(lambda: errors)
        assert errors == [ErrorCode.NONE]
        second.membership.leave()
        assert not second.membership.image.is_up(2)
        await second.link.stop()
        await first.link.stop()
        await until(lambda: not controlled.controller.image.live)

    with Controlled() as controlled:
        run(main())


def test_a_broker_finds_the_controller_again_and_catches_up() -> None:
    async def main() -> None:
        first = Linked(controlled.port)
        await first.link.start()
        first.membership.create([ALONE])
        image, port = controlled.controller.image.copy(), controlled.port
        controlled.stop()
        await until(lambda: not first.membership.is_reachable)
        with pytest.raises(StorageError, match="does not reach the controller"):
            first.membership.delete(["orders"])
        next_one = Controller(image)
        next_one.configure("orders", {"retention.ms": "7"})
        with Controlled(port=port, image=image) as again:
            await until(lambda: first.membership.is_reachable)
            assert first.membership.image.topics["orders"].configs == {"retention.ms": "7"}
            assert again.controller.image.is_up(1)
            await first.link.stop()

    controlled = Controlled()
    with controlled:
        run(main())


def test_a_controller_that_moves_is_found_at_its_new_address() -> None:
    async def main() -> None:
        first = Linked(controlled.port)
        await first.link.start()
        with Controlled() as other:
            first.address = None
            controlled.stop()
            await until(lambda: not first.membership.is_reachable)
            first.address = ("127.0.0.1", other.port)
            await until(lambda: first.membership.is_reachable)
            assert other.controller.image.is_up(1)
            await first.link.stop()

    controlled = Controlled()
    with controlled:
        run(main())


def test_a_controller_that_is_replaced_while_a_broker_connects_is_not_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An earlier controller that is cut off from ZooKeeper still accepts connections."""

    async def main() -> None:
        first, loop = Linked(controlled.port), asyncio.get_running_loop()
        connect = loop.sock_connect

        async def replaced(connecting: socket.socket, address: tuple[str, int]) -> None:
            await connect(connecting, address)
            first.address = ("127.0.0.1", other.port)
            first.link.poll()

        monkeypatch.setattr(loop, "sock_connect", replaced)
        await first.link.start()
        assert other.controller.image.is_up(1)
        assert not controlled.controller.image.brokers.by_id
        await first.link.stop()

    with Controlled() as controlled, Controlled() as other:
        run(main())


def test_a_host_that_cannot_be_one_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        first = Linked(0)
        first.address = ("a..b", 9092)
        starting = asyncio.ensure_future(first.link.start())
        await until(lambda: "is not reached" in caplog.text)
        first.address = ("127.0.0.1", controlled.port)
        await starting
        await first.link.stop()

    with Controlled() as controlled:
        run(main())


def test_every_address_of_a_host_is_tried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`localhost` may have an IPv6 address first, at which the controller does not listen."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        find = loop.getaddrinfo

        async def two_addresses(host: str, port: int, **kind: Any) -> Any:
            return [*await find("127.0.0.2", port, **kind), *await find(host, port, **kind)]

        first = Linked(controlled.port)
        with monkeypatch.context() as patched:
            patched.setattr(loop, "getaddrinfo", two_addresses)
            starting = asyncio.ensure_future(first.link.start())
            await until(lambda: starting.done() or "is not reached" in caplog.text)
        await starting
        await first.link.stop()
        assert "is not reached" not in caplog.text

    with Controlled() as controlled:
        run(main())


def test_a_host_whose_address_is_not_found_in_time_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async def wait_for_ever(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        first = Linked(controlled.port, session_timeout_ms=SHORT_MS)
        with monkeypatch.context() as patched:
            patched.setattr(asyncio.get_running_loop(), "getaddrinfo", wait_for_ever)
            starting = asyncio.ensure_future(first.link.start())
            await until(lambda: "is not reached: it does not accept a connection in time" in caplog.text)
        await starting
        await first.link.stop()

    with Controlled() as controlled:
        run(main())


def test_a_broker_does_not_wait_for_long_for_a_controller_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_offsets.broker.nodes.controller_link._ANSWER_SECONDS", 0.05)

    async def main() -> None:
        first = Linked(controlled.port)
        await first.link.start()
        go_on = controlled.pause()
        with pytest.raises(StorageError, match="does not reach the controller"):
            first.membership.create([ALONE])
        assert not first.membership.is_reachable
        go_on()
        await until(lambda: first.membership.is_reachable)
        await first.link.stop()

    with Controlled() as controlled:
        run(main())


def test_a_broker_goes_on_while_it_waits_for_a_controller_that_hangs() -> None:
    async def main() -> None:
        first, decided, loop = Linked(controlled.port), [], asyncio.get_running_loop()
        await first.link.start()
        first.membership.when_answering(lambda: decided.append(first.membership.is_reachable))
        await until(lambda: decided == [True])
        pass_seconds(loop, PATIENCE_S + 1)
        await answered(first)
        assert first.membership.is_reachable, "it has answered"
        first.membership.allocate_producer_ids()  # all heartbeats before it are answered too
        go_on = controlled.pause()
        first.membership.when_answering(lambda: decided.append(first.membership.is_reachable))
        assert first.membership.is_reachable and decided == [True]
        pass_seconds(loop, PATIENCE_S + 1)
        await until(lambda: decided == [True, False])
        go_on()
        await until(lambda: first.membership.is_reachable)
        await first.link.stop()

    with Controlled() as controlled:
        run(main(), 3 * (PATIENCE_S + 1))


def test_a_broker_may_be_fenced_until_what_it_sends_after_a_silence_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a stopped process finds in its socket was sent before it was stopped: it says nothing of the time since."""

    async def main() -> None:
        first, found = Linked(controlled.port, session_timeout_ms=PATIENCE_S * 500), []
        await first.link.start()
        assert not first.membership.may_be_fenced
        first.membership.when_answering(lambda: found.append(first.membership.may_be_fenced))
        controlled.finish()
        time_of = first.link._loop.time
        monkeypatch.setattr(first.link._loop, "time", lambda: time_of() + PATIENCE_S / 2 + 1)
        assert first.membership.may_be_fenced
        await until(lambda: found)
        first.membership.when_answering(lambda: found.append(first.membership.may_be_fenced))
        await until(lambda: not first.membership.may_be_fenced)
        assert found[0]
        await first.link.stop()
        assert first.membership.is_reachable

    with Controlled() as controlled:
        run(main())


def test_a_change_that_takes_long_here_is_no_silence_of_the_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic of a thousand partitions is created: the answer has arrived before that ends."""
    monkeypatch.setattr(controller_link, "READ_BYTES", 16)

    async def main() -> None:
        first = Linked(controlled.port)
        await first.link.start()

        def take_long(delta: Delta) -> None:
            controlled.finish()
            late_s = controller_link.monotonic_s() + PATIENCE_S + 1
            monkeypatch.setattr(controller_link, "monotonic_s", lambda: late_s)

        first.membership.on_change = take_long
        first.membership.create([ALONE])
        assert first.membership.is_reachable
        monkeypatch.undo()
        await first.link.stop()

    with Controlled() as controlled:
        run(main())


def test_a_broker_that_is_silent_is_fenced() -> None:
    async def main() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", controlled.port)
        writer.write(framed(Linked(0, 2).membership.registration("cluster", "host", 9002, was_clean=True)))
        first = Linked(controlled.port, session_timeout_ms=SESSION_MS)
        await first.link.start()
        await until(lambda: 2 in controlled.controller.image.brokers.by_id)  # it may be fenced already
        await until(lambda: not controlled.controller.image.is_up(2))
        assert await reader.read() is not None, "its connection is closed"
        writer.close()
        await until(lambda: first.membership.is_reachable)  # always, unless this machine is slow
        await first.link.stop()

    with Controlled(SESSION_MS) as controlled:
        run(main())


def test_a_peer_that_registers_no_broker_is_disconnected_whatever_it_sends() -> None:
    """A thousand of them that sent a byte now and then kept all brokers away."""

    async def main() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", controlled.port)
        answers = 0
        with suppress(ConnectionError):
            writer.write(framed(b'{"heartbeat":true}'))
            while await reader.read(1000):
                answers += 1
                await asyncio.sleep(0.01)
                writer.write(framed(b'{"heartbeat":true}'))
        assert answers
        writer.close()

    with Controlled(SESSION_MS) as controlled:
        run(main())


def test_heartbeats_keep_a_broker_in_the_cluster() -> None:
    async def main() -> None:
        first = Linked(controlled.port, session_timeout_ms=SESSION_MS)
        await first.link.start()
        turns = first.turns
        await until(lambda: first.turns >= turns + 5)  # more than a session timeout of answered heartbeats
        assert first.membership.is_reachable
        await first.link.stop()

    with Controlled() as controlled:
        run(main())


def test_a_controller_that_is_silent_is_lost() -> None:
    async def main() -> None:
        first = Linked(controlled.port, session_timeout_ms=SHORT_MS)
        await first.link.start()
        go_on = controlled.pause()
        await until(lambda: not first.membership.is_reachable)
        go_on()
        await until(lambda: first.membership.is_reachable)
        await first.link.stop()

    with Controlled() as controlled:
        run(main())


def test_brokers_that_do_not_return_are_fenced_after_their_session() -> None:
    image = ClusterImage()
    former = Controller(image)
    for broker_id in (1, 2):
        former.register(broker_id, "host", 9000 + broker_id)

    async def main() -> None:
        first = Linked(controlled.port, session_timeout_ms=SHORT_MS)
        await first.link.start()
        await until(lambda: first.membership.is_reachable and not first.membership.image.is_up(2))
        await first.link.stop()

    with Controlled(SHORT_MS, image=image) as controlled:
        run(main())


async def two_brokers(port: int, session_timeout_ms: int = LONG_MS) -> tuple[Linked, Linked]:
    """Return two brokers that take part, with a partition that both have in sync."""
    first, second = Linked(port, 1, session_timeout_ms), Linked(port, 2, session_timeout_ms)
    await first.link.start()
    await second.link.start()
    first.membership.create([NEW])
    return first, second


async def answered(broker: Linked) -> None:
    """Return when the controller has answered a heartbeat, or is lost."""
    event = asyncio.Event()
    broker.membership.when_answering(event.set)
    await event.wait()


def test_a_controller_that_was_stopped_reads_what_brokers_have_sent_before_it_judges_them() -> None:
    """It fenced all of its healthy brokers: their last message was as old as its own stop."""

    async def main() -> None:
        brokers = await two_brokers(controlled.port)
        go_on = controlled.stop_process()
        go_on()
        for broker in brokers:
            await answered(broker)
            assert broker.membership.is_reachable
        assert controlled.controller.image.topics["orders"].partitions[0].leader_epoch == 0
        for broker in brokers:
            await broker.link.stop()

    with Controlled() as controlled:
        run(main())


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_brokers_that_have_given_up_a_stopped_controller_lead_on_when_it_continues(
    is_interrupted: bool,
) -> None:
    async def main() -> None:
        brokers = await two_brokers(controlled.port)
        go_on = controlled.stop_process(is_interrupted=is_interrupted)
        for broker in brokers:
            broker.link._lose("nothing was received for a session")
        go_on()
        await until(lambda: all(broker.membership.is_reachable for broker in brokers))
        assert controlled.controller.image.live == {1, 2}
        assert controlled.controller.image.topics["orders"].partitions[0].leader_epoch == 0
        for broker in brokers:
            await broker.link.stop()

    with Controlled() as controlled:
        run(main())


def test_a_broker_that_does_not_return_to_a_controller_that_was_stopped_is_fenced() -> None:
    async def main() -> None:
        first, second = await two_brokers(controlled.port, SESSION_MS)
        go_on = controlled.stop_process()
        await second.link.stop()
        go_on()
        await until(lambda: not controlled.controller.image.is_up(2))
        await first.link.stop()

    with Controlled(SESSION_MS) as controlled:
        run(main())


def test_a_broker_that_was_stopped_reads_what_the_controller_has_sent_before_it_gives_it_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        first, second = await two_brokers(controlled.port, MEDIUM_MS)
        pass_session(asyncio.get_running_loop(), MEDIUM_MS, is_interrupted=True)
        await answered(first)
        await answered(second)
        assert "is lost" not in caplog.text
        await first.link.stop()
        await second.link.stop()

    with Controlled() as controlled:
        run(main())


def test_preferred_leaders_are_elected_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_offsets.broker.nodes.controller_endpoint._PREFERRED_LEADERS_SECONDS", 0.05)
    image = ClusterImage()
    former = Controller(image)
    for broker_id in (1, 2):
        former.register(broker_id, "host", 9000 + broker_id)
    former.create([NEW])
    former.lead(TopicPartition("orders", 0), 2)

    async def main() -> None:
        first = Linked(controlled.port)
        await first.link.start()
        await until(lambda: first.membership.image.leader("orders", 0) == 1)
        await first.link.stop()

    with Controlled(image=image) as controlled:
        run(main())


def test_a_broker_that_does_not_read_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_offsets.broker.nodes.controller_endpoint._MOST_UNSENT_BYTES", 1 << 20)

    async def main() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", controlled.port, limit=1024)
        writer.write(framed(Linked(0, 2).membership.registration("cluster", "host", 9002, was_clean=True)))
        first = Linked(controlled.port)
        await first.link.start()
        await until(lambda: controlled.controller.image.is_up(2))
        first.membership.create([NEW])
        for number in range(200):
            if not controlled.controller.image.is_up(2):
                break
            first.membership.configure("orders", {"a": "x" * (1 << 16), "b": str(number)})
        await until(lambda: not first.membership.image.is_up(2))
        writer.transport.abort()
        await first.link.stop()

    with Controlled() as controlled:
        run(main())


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.binary(max_size=30) | st.binary(max_size=30).map(framed), max_size=3))
def test_any_bytes_close_one_connection_at_most(pieces: list[bytes]) -> None:
    async def main() -> None:
        first = Linked(SHARED.port)
        await first.link.start()
        _, writer = await asyncio.open_connection("127.0.0.1", SHARED.port)
        for piece in pieces:
            writer.write(piece)
        writer.close()
        assert first.membership.allocate_producer_ids()
        await first.link.stop()
        await until(lambda: not SHARED.controller.image.live)

    run(main())


SHARED: Controlled


@pytest.fixture(autouse=True, scope="module")
def _shared():
    global SHARED
    with pytest.MonkeyPatch.context() as patched, Controlled() as SHARED:
        patched.setattr(controller_link, "_ANSWER_SECONDS", PATIENCE_S)
        yield


@pytest.mark.parametrize("size", [1 << 30, (64 << 10) + 1])
def test_a_frame_that_is_too_large_is_refused_before_it_is_received(size: int) -> None:
    async def main() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", SHARED.port)
        writer.write(struct.pack(">i", size))
        assert await reader.read() == b""
        writer.close()

    run(main())


def test_a_registered_broker_may_send_large_frames() -> None:
    async def main() -> None:
        first = Linked(controlled.port)
        await first.link.start()
        first.membership.create([ALONE._replace(configs={"retention.ms": "1" * (1 << 20)})])
        assert first.membership.image.leader("orders", 0) == 1
        await first.link.stop()

    with Controlled() as controlled:
        run(main())


@pytest.mark.slow
@settings(max_examples=30)
@given(st.binary(max_size=30) | st.binary(max_size=30).map(framed))
def test_a_broker_outlives_any_bytes_of_a_controller(data: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    async def main() -> None:
        stranger = await asyncio.start_server(answer, "127.0.0.1", 0)
        first = Linked(stranger.sockets[0].getsockname()[1])
        starting = asyncio.ensure_future(first.link.start())
        await until(lambda: first.turns)
        first.address = ("127.0.0.1", SHARED.port)
        await starting
        await first.link.stop()
        stranger.close()
        await until(lambda: not SHARED.controller.image.live)

    run(main())


def test_a_lasting_failure_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of these was a line for each attempt: one a second while ZooKeeper could not be reached."""
    monkeypatch.setattr(controller_endpoint, "_RETRY_SECONDS", 0.001)
    caplog.set_level(logging.INFO, "kafka_offsets.broker.nodes")
    image = ClusterImage(Brokers(1, {1: RegisteredBroker(1, "host", 9001, 1, is_up=True)}))
    store = RefusingStore()
    attempts = 0

    def save(delta: Delta) -> None:
        nonlocal attempts
        attempts += 1
        if store.error is not None:
            raise store.error

    monkeypatch.setattr(store, "save", save)

    async def main() -> None:
        async def attempted_more() -> None:
            before = attempts
            await until(lambda: attempts >= before + 3)

        service = ControllerService(Controller(image, store=store), "cluster")
        endpoint = ControllerEndpoint(service, 10)
        await endpoint.start("127.0.0.1")
        for reason in ("away", "full"):
            store.error = StorageError(reason)
            await attempted_more()
        store.error = None
        await until(lambda: not service.has_absent)
        await endpoint.stop()

    run(main())
    assert caplog.messages == [
        "a broker that is gone cannot be fenced: away",
        "a broker that is gone cannot be fenced: full",
        "brokers that are gone are fenced",
    ]


def test_a_refused_broker_that_tries_again_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(controller_link, "_LONGEST_PAUSE_SECONDS", 0.002)
    caplog.set_level(logging.INFO, "kafka_offsets.broker.nodes")

    async def main() -> None:
        with Controlled() as controlled:
            first, other = Linked(controlled.port), Linked(controlled.port)
            other.membership = RemoteMembership(1, "another process")
            other.link._membership = other.membership
            await first.link.start()
            registrations = 0

            def registration() -> bytes:
                nonlocal registrations
                registrations += 1
                return other.membership.registration("cluster", "host", 9001, was_clean=True)

            other.link._registration = registration
            starting = asyncio.ensure_future(other.link.start())
            await until(lambda: registrations > 3)
            starting.cancel()
            for each in (first, other):
                await each.link.stop()

    run(main())
    reason = "another process is broker 1 already"
    assert sorted(caplog.messages) == [  # they come from two threads
        f"a connection was refused: {reason}",
        f"the connection to the controller is lost: the controller refuses this broker: {reason}",
    ]
