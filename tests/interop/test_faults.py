"""Real clients and each kind of fault: they recover, or raise what their documentation says."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from kafka_offsets import Broker, ErrorCode
from kafka_offsets.testing.clock import ManualClock
from kafka_offsets.testing.faults.control import Faults
from kafka_offsets.testing.faults.fault import Fault

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning"
    ),  # kafka-python reads its own files by a deprecated call
]

RECORDS = [b"one", b"two", b"three"]
DAY_MS = 86_400_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("t")
        yield broker


def by_kafka_python(bootstrap: str) -> list[bytes]:
    with KafkaProducer(bootstrap_servers=bootstrap, request_timeout_ms=1000, retry_backoff_ms=20) as producer:
        for value in RECORDS:
            producer.send("t", value)
        producer.flush(20)
    with KafkaConsumer(
        "t",
        bootstrap_servers=bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        request_timeout_ms=2000,
        session_timeout_ms=60_000,
        heartbeat_interval_ms=500,
        retry_backoff_ms=20,
    ) as consumer:
        read = [next(consumer).value for _ in RECORDS]
        consumer.commit(timeout_ms=15_000)
    return read


def by_confluent_kafka(bootstrap: str) -> list[bytes]:
    common = {"bootstrap.servers": bootstrap, "socket.timeout.ms": 1000, "retry.backoff.ms": 20}
    common |= {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}
    producer = Producer(common)
    for value in RECORDS:
        producer.produce("t", value)
    assert producer.flush(20) == 0
    consumer = Consumer(
        common | {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["t"])
    read: list[bytes] = []
    while len(read) < len(RECORDS):
        message = consumer.poll(20)
        assert message is not None
        if not message.error():
            read.append(message.value() or b"")
    commit_until_done(lambda: consumer.commit(asynchronous=False))
    consumer.close()
    return read


def commit_until_done(commit: Callable[[], Any]) -> None:
    """Commit again when the client says that its commit has not come through: librdkafka leaves that to its user."""
    for _ in range(5):
        try:
            commit()
        except KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() >= 0:
                raise
        else:
            return
    raise AssertionError("five commits were refused")


def by_aiokafka(bootstrap: str) -> list[bytes]:
    async def main() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, retry_backoff_ms=20)
        async with producer:
            for value in RECORDS:
                await producer.send("t", value)
            await producer.flush()
        consumer = AIOKafkaConsumer(
            "t",
            bootstrap_servers=bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            request_timeout_ms=5000,
            retry_backoff_ms=20,
        )
        async with consumer:
            read = [(await consumer.getone()).value for _ in RECORDS]
            await consumer.commit()
        return read

    return asyncio.run(main())


CLIENTS = pytest.mark.parametrize("run", [by_kafka_python, by_confluent_kafka, by_aiokafka])

TRANSIENT: dict[str, Callable[[Faults], Fault]] = {
    "not coordinator": lambda faults: faults.coordinator_moved("g", n=1),
    "loading": lambda faults: faults.coordinator_loading("g", n=1),
    "leader moved": lambda faults: faults.leader_moved("t", 0, n=3),
    "no leader in metadata": lambda faults: faults.error(
        "Metadata", ErrorCode.LEADER_NOT_AVAILABLE, n=2, topic="t"
    ),
    "delay": lambda faults: faults.delay(ms=20, n=20),
    "closed before a join": lambda faults: faults.close("JoinGroup", n=1),
    "closed after a fetch": lambda faults: faults.close("Fetch", before=False, n=1),
    "half of a fetch": lambda faults: faults.half_answer("Fetch", n=1),
    "dropped fetch": lambda faults: faults.drop("Fetch", n=1),
    "an older Kafka": lambda faults: faults.release("2.8"),
    "older commits": lambda faults: faults.withhold("OffsetCommit", after_version=7),
    "a coordinator that is not known": lambda faults: faults.error(
        "FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE, n=1, group="g"
    ),
    "slow disk": lambda faults: faults.slow_disk(20, "append", n=5),
    "disk full": lambda faults: faults.disk_error("append", n=1, path="t-0/"),
}


@CLIENTS
@pytest.mark.parametrize("kind", TRANSIENT)
def test_a_client_recovers_from_what_passes(
    broker: Broker, run: Callable[[str], list[bytes]], kind: str
) -> None:
    faults = Faults(broker)
    fault = TRANSIENT[kind](faults)
    assert run(broker.bootstrap_servers) == RECORDS
    assert broker.committed("g")["t", 0].offset == 3
    assert fault.hits, faults


@pytest.mark.parametrize("run", [by_kafka_python, by_aiokafka])
def test_a_commit_that_gets_not_coordinator_is_sent_again(
    broker: Broker, run: Callable[[str], list[bytes]]
) -> None:
    with Faults(broker).error("OffsetCommit", ErrorCode.NOT_COORDINATOR, n=2) as fault:
        assert run(broker.bootstrap_servers) == RECORDS
    assert (fault.hits, broker.committed("g")["t", 0].offset) == (2, 3)


def test_librdkafka_finds_its_coordinator_again_while_its_fetch_waits(broker: Broker) -> None:
    # It asks on the connection of its Fetch. While the answer takes longer than the 0.1 s after which it sends its
    # commit again, it takes the coordinator for dead again, until its session ends after 45 s.
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 10_000,
    }
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("t", b"one")
    assert producer.flush(20) == 0
    consumer = Consumer(settings)
    consumer.subscribe(["t"])
    try:
        message = consumer.poll(20)
        assert message is not None
        with Faults(broker).error("OffsetCommit", ErrorCode.NOT_COORDINATOR, n=1) as fault:
            consumer.commit(message, asynchronous=False)
        assert fault.hits == 1
    finally:
        consumer.close()
    assert broker.committed("g")["t", 0].offset == 1


@CLIENTS
def test_a_client_raises_the_error_of_a_lasting_refusal(
    broker: Broker, run: Callable[[str], list[bytes]]
) -> None:
    faults = Faults(broker)
    with faults.error("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED, group="g") as fault:
        with pytest.raises((KafkaError, KafkaException, AiokafkaError), match=r"(?i)authoriz"):
            run(broker.bootstrap_servers)
        assert fault.hits >= 1
    assert broker.committed("g") == {}


def test_a_member_whose_session_the_clock_has_ended_joins_again_and_continues() -> None:
    clock = ManualClock()
    with Broker({"connections.max.idle.ms": -1}, clock=clock) as broker:
        broker.create_topic("t")
        with (
            KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
            KafkaConsumer(
                "t",
                bootstrap_servers=broker.bootstrap_servers,
                group_id="g",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=100,
            ) as consumer,
        ):
            producer.send("t", b"one").get(10)
            assert next(consumer).value == b"one"
            consumer.commit()
            clock.advance(DAY_MS)
            producer.send("t", b"two").get(10)
            assert next(consumer).value in (b"one", b"two")
            assert broker.committed("g")["t", 0].offset == 1
