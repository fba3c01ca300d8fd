"""Tests that freeze their time: the broker's clocks are those of the machine, and it serves their clients."""

import asyncio
import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from kafka_offsets.clock import SystemClock, monotonic_s, wall_ns
from kafka_offsets.testing import Broker, ManualClock

freezegun = pytest.importorskip("freezegun")
time_machine = pytest.importorskip("time_machine")

PAST, FUTURE = datetime(2020, 2, 1, tzinfo=UTC), datetime(2040, 2, 1, tzinfo=UTC)
FREEZERS: dict[str, Callable[[datetime], AbstractContextManager[Any]]] = {
    "freezegun": freezegun.freeze_time,
    "freezegun, ticking": lambda when: freezegun.freeze_time(when, tick=True),
    "time-machine": lambda when: time_machine.travel(when, tick=False),
    "time-machine, ticking": time_machine.travel,
}
EACH_FREEZER = pytest.mark.parametrize("freeze", FREEZERS.values(), ids=FREEZERS)
EACH_TIME = pytest.mark.parametrize("when", [PAST, FUTURE], ids=["past", "future"])


def use(broker: Broker) -> None:
    """Produce, join a group, read and commit."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    failures: list[object] = []
    producer.produce("orders", b"first", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(20) == 0
    assert failures == [None]
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "billing",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    message = consumer.poll(20)
    assert message is not None and message.value() == b"first"
    consumer.commit(asynchronous=False)
    consumer.close()
    broker.assert_lag("billing", 0)


@EACH_FREEZER
@EACH_TIME
def test_the_machines_clocks_are_read(
    freeze: Callable[[datetime], AbstractContextManager[Any]], when: datetime
) -> None:
    wall_s, start_s = time.time(), time.monotonic()
    with freeze(when):
        frozen_s = time.time()
        assert abs(frozen_s - when.timestamp()) < 1000
        assert wall_s <= wall_ns() / 1e9 < wall_s + 1000
        assert SystemClock().now().wall_ms // 1_000_000 == wall_ns() // 10**12
        before_s = monotonic_s()
        threading.Event().wait(0.01)
        assert start_s <= before_s < monotonic_s()


@pytest.mark.parametrize("library", ["freezegun", "time_machine"])
def test_a_clock_that_is_imported_in_frozen_time_is_the_machines(library: str) -> None:
    wall_s = time.time()
    with FREEZERS[{"freezegun": "freezegun", "time_machine": "time-machine"}[library]](PAST):
        held = sys.modules.pop("kafka_offsets.clock")
        try:
            clock = importlib.import_module("kafka_offsets.clock")
            assert clock.wall_ns() / 1e9 >= wall_s
            before_ns = clock.monotonic_ns()
            threading.Event().wait(0.01)
            assert clock.monotonic_ns() > before_ns
        finally:
            sys.modules["kafka_offsets.clock"] = held


@pytest.mark.interop
@EACH_FREEZER
@EACH_TIME
def test_a_broker_that_starts_in_frozen_time_serves(
    freeze: Callable[[datetime], AbstractContextManager[Any]], when: datetime
) -> None:
    with freeze(when), Broker({"num.partitions": 1}) as broker:
        use(broker)


@pytest.mark.interop
@EACH_FREEZER
def test_a_broker_serves_when_time_is_frozen_after_its_start(
    freeze: Callable[[datetime], AbstractContextManager[Any]],
) -> None:
    with Broker({"num.partitions": 1}) as broker, freeze(PAST):
        use(broker)


@pytest.mark.interop
@freezegun.freeze_time("2020-02-01")
@pytest.mark.kafka(topics={"orders": 1})
def test_a_decorated_test_with_a_group_a_commit_and_an_expiry(
    kafka_broker: Broker, kafka_clock: ManualClock
) -> None:
    """The test's own clock begins at the time of the test, which may be frozen, and moves as the test says."""
    use(kafka_broker)
    kafka_clock.advance(days=8)
    assert kafka_broker.expire_offsets() == 0  # it did when the clock passed the retention
    assert kafka_broker.committed("billing") == {}


@pytest.fixture
def frozen() -> Iterator[None]:
    with time_machine.travel(PAST, tick=False):
        yield


@pytest.mark.interop
@pytest.mark.kafka(topics={"orders": 1})
@pytest.mark.usefixtures("frozen")
def test_a_fixture_freezes_a_test_and_the_record_of_requests_says_it(kafka_broker: Broker) -> None:
    kafka_broker.produce("orders", ["by the broker, now"])
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers)
    sent = producer.send("orders", b"first").get(timeout=20)
    assert sent.offset == 1
    (produce,) = kafka_broker.requests.of("Produce")
    assert "records of 2020-02-01" in str(produce)
    producer.close()


@pytest.mark.interop
@pytest.mark.parametrize("timestamp_ms", [0, 1 << 61], ids=["1970", "beyond the calendar"])
def test_records_of_any_time_are_taken_and_named(timestamp_ms: int) -> None:
    with Broker({"num.partitions": 1}, record=True) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"first", timestamp=timestamp_ms or 1)
        assert producer.flush(20) == 0
        expected = (
            "records of 1970-01-01" if timestamp_ms == 0 else f"records of the timestamp {timestamp_ms}"
        )
        assert expected in str(broker.requests.of("Produce")[0])


@pytest.mark.interop
def test_kafka_python_needs_a_clock_that_moves() -> None:
    """freezegun stops it, with any broker; it has a list of packages whose time goes on."""
    with (
        Broker({"num.partitions": 1}) as broker,
        freezegun.freeze_time(PAST, ignore=["kafka."]),
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        assert producer.send("orders", b"first").get(timeout=20).offset == 0


async def use_with_aiokafka(broker: Broker) -> None:
    """Produce, join a group, read and commit, in a loop that may be frozen."""
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await producer.send_and_wait("orders", b"first")
    settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer("orders", group_id="billing", **settings) as consumer:
        assert (await consumer.getone()).value == b"first"
        await consumer.commit()
    broker.assert_lag("billing", 0)


@pytest.mark.interop
@EACH_FREEZER
def test_aiokafka_works_in_a_frozen_loop(freeze: Callable[[datetime], AbstractContextManager[Any]]) -> None:
    with Broker({"num.partitions": 1}) as broker, freeze(PAST):
        asyncio.run(use_with_aiokafka(broker))


def use_with_kafka_python(broker: Broker) -> None:
    """Produce, join a group, read and commit."""
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("orders", b"first").get(timeout=20)
    settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    with KafkaConsumer("orders", group_id="billing", **settings) as consumer:
        assert next(consumer).value == b"first"
        consumer.commit()
    broker.assert_lag("billing", 0)


CLIENTS: dict[str, Callable[[Broker], None]] = {
    "confluent-kafka": use,
    "aiokafka": lambda broker: asyncio.run(use_with_aiokafka(broker)),
    "kafka-python": use_with_kafka_python,
}
LIBRARIES: dict[str, Callable[[datetime], AbstractContextManager[Any]]] = {
    "freezegun": lambda when: freezegun.freeze_time(when, ignore=["kafka."]),
    "time-machine": FREEZERS["time-machine"],
}


@pytest.mark.interop
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_manual_clock_begins_at_the_frozen_time(library: str, client: str) -> None:
    with LIBRARIES[library](PAST):
        clock = ManualClock()
        assert clock.now().wall_ms == PAST.timestamp() * 1000
        with Broker({"num.partitions": 1}, clock=clock) as broker:
            CLIENTS[client](broker)
            clock.advance(days=8)
            assert broker.committed("billing") == {}


@pytest.mark.interop
def test_a_broker_in_the_loop_of_the_test_needs_real_timers() -> None:
    async def main() -> None:
        async with Broker({"num.partitions": 1}) as broker:
            await use_with_aiokafka(broker)

    with freezegun.freeze_time(PAST, real_asyncio=True):
        asyncio.run(main())
