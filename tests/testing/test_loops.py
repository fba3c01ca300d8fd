"""Event loops: the broker's thread has asyncio's, whatever the policy, and `async with` runs in a loop of uvloop."""

import asyncio
import ssl
import sys
import threading
import warnings
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kafka_offsets.broker.network import loops
from kafka_offsets.testing import Broker, CertificateAuthority, ManualClock
from kafka_offsets.testing.server.events import topic_created

uvloop = pytest.importorskip("uvloop")

pytestmark = pytest.mark.interop
RECORDS = 5


async def use(broker: Broker, context: ssl.SSLContext | None = None) -> None:
    """Produce large records, join a group, read and commit."""
    settings = {"bootstrap_servers": broker.bootstrap_servers}
    if context is not None:
        settings |= {"security_protocol": "SSL", "ssl_context": context}
    async with AIOKafkaProducer(**settings) as producer:
        for _ in range(RECORDS):
            await producer.send_and_wait("orders", bytes(300_000))
    consumer = AIOKafkaConsumer("orders", group_id="billing", auto_offset_reset="earliest", **settings)
    await consumer.start()
    for _ in range(RECORDS):
        await consumer.getone()
    await consumer.commit()
    await consumer.stop()
    broker.assert_lag("billing", 0)


@pytest.fixture
def uvloop_policy() -> Iterator[None]:
    """What `uvloop.install()` leaves in a process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.14
        before = asyncio.get_event_loop_policy()
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
        yield
        asyncio.set_event_loop_policy(before)


@pytest.mark.usefixtures("uvloop_policy")
def test_a_broker_in_its_thread_serves_under_the_policy_of_uvloop() -> None:
    with Broker({"num.partitions": 1}) as broker:
        asyncio.run(use(broker))


def test_a_broker_serves_in_a_loop_of_uvloop() -> None:
    async def main() -> None:
        async with Broker({"num.partitions": 1}) as broker:
            await use(broker)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.usefixtures("uvloop_policy")
def test_tls_is_for_the_thread_and_a_loop_of_uvloop_refuses_it() -> None:
    authority = CertificateAuthority()
    config = {**authority.broker_config(), "listeners": "SSL://127.0.0.1:0", "num.partitions": 1}

    async def main() -> None:
        async with Broker(config):
            pass

    with (
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        pytest.raises(RuntimeError, match="needs asyncio's own loop"),
    ):
        runner.run(main())
    with Broker(config) as broker:
        asyncio.run(use(broker, ssl.create_default_context(cadata=authority.certificate_pem)))


def test_a_coroutine_of_trio_waits_while_others_run() -> None:
    trio = pytest.importorskip("trio")

    async def main() -> None:
        with Broker() as broker:
            with pytest.raises(TimeoutError, match="not yet: topic orders is there"):
                await broker.async_wait_for(topic_created("orders"), 0.01)
            with trio.move_on_after(0.01) as scope:
                await broker.async_wait_for(topic_created("orders"), 0.1)
            assert scope.cancelled_caught
            async with trio.open_nursery() as nursery:
                waiting = trio.Event()

                async def wait() -> None:
                    waiting.set()
                    assert await broker.async_wait_for(topic_created("orders")) == 3

                nursery.start_soon(wait)
                await waiting.wait()
                broker.create_topic("orders", 3)

    trio.run(main)


def test_a_broker_does_not_run_in_a_loop_of_trio() -> None:
    trio = pytest.importorskip("trio")

    async def main() -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            async with Broker():
                pass

    trio.run(main)


def test_trio_without_anyio_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trio = pytest.importorskip("trio")
    monkeypatch.setitem(sys.modules, "anyio", None)

    async def main() -> None:
        with Broker() as broker, pytest.raises(RuntimeError, match="waits with anyio: pip install anyio"):
            await broker.async_wait_for(topic_created("orders"))

    trio.run(main)


@pytest.mark.parametrize(("host", "given"), [("::", "[::1]"), ("::1", "[::1]"), ("", "localhost")])
def test_clients_reach_a_broker_at_every_interface(host: str, given: str) -> None:
    with Broker(host=host) as broker:
        assert broker.bootstrap_servers.rpartition(":")[0] == given
        asyncio.run(use(broker))


BLOCKED: dict[str, Callable[[Broker, ManualClock], object]] = {
    "produce": lambda broker, _: broker.produce("orders", ["a"]),
    "committed": lambda broker, _: broker.committed("billing"),
    "wait_for": lambda broker, _: broker.wait_for(topic_created("orders"), 0.1),
    "advance": lambda _, clock: clock.advance(1),
}


@pytest.mark.parametrize("use", BLOCKED.values(), ids=BLOCKED)
def test_a_loop_that_stands_still_is_named(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[Broker, ManualClock], object]
) -> None:
    monkeypatch.setattr(loops, "STANDSTILL_SECONDS", 0.3)
    errors = []

    async def main() -> None:
        clock = ManualClock()
        async with Broker(clock=clock) as broker:

            def in_a_thread() -> None:
                with pytest.raises(
                    RuntimeError, match=r"has stood still for 0\.3 s: `async with Broker\(\)`"
                ) as caught:
                    use(broker, clock)
                errors.append(caught.value)

            thread = threading.Thread(target=in_a_thread)
            thread.start()
            thread.join()  # in the loop: what the thread waits for does not come
            monkeypatch.setattr(loops, "STANDSTILL_SECONDS", 600)
            await asyncio.to_thread(use, broker, clock) if use is not BLOCKED["wait_for"] else None

    asyncio.run(main())
    assert len(errors) == 1


class RunningLoop:
    """A loop that runs at once what other threads ask for."""

    def call_soon_threadsafe(self, function: Callable[[], object]) -> None:
        function()


class SlowAnswer(loops.Future[str]):
    """An answer that comes after many times the bound."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def result(self, timeout: float | None = None) -> str:
        self.waits += 1
        if self.waits < 10 * loops._SLICES:
            raise TimeoutError
        self.set_result("here")
        return super().result()


def test_a_wait_in_a_loop_that_runs_has_no_bound() -> None:
    assert loops.result_of(SlowAnswer(), RunningLoop()) == "here"
