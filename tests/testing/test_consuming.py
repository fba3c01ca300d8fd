"""`consuming`: what is produced after it reaches the consumers, which begin at the end of the log as all clients do."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer

from kafka_offsets import client
from kafka_offsets.testing import Broker, Cluster, Event, consuming, group_stable

pytestmark = pytest.mark.slow

Poll = Callable[[], list[bytes]]
"""Poll once, for some hundredths of a second; return the values."""

SECONDS = 30
CHANGED = threading.Condition()
"""Some consumer has read."""


class Reader:
    """A consumer in a thread of its own; `values` are what it has read."""

    def __init__(self, poll: Poll) -> None:
        self.values: list[bytes] = []
        self._poll = poll
        self._stops = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stops:
            values = self._poll()
            with CHANGED:
                self.values += values
                CHANGED.notify_all()

    def stop(self) -> None:
        """End the thread; the consumer can be closed then."""
        self._stops = True
        self._thread.join()


def read_by(*readers: Reader, count: int) -> list[bytes]:
    """Return the values that consumers have read once there are so many."""
    with CHANGED:
        CHANGED.wait_for(lambda: sum(len(reader.values) for reader in readers) >= count, SECONDS)
        return sorted(value for reader in readers for value in reader.values)


@contextmanager
def reading(poll: Poll) -> Iterator[Reader]:
    """Run a consumer in a thread."""
    reader = Reader(poll)
    try:
        yield reader
    finally:
        reader.stop()


@contextmanager
def confluent(broker: Broker, group: str | None = "billing", **settings: object) -> Iterator[Reader]:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": group or "none"} | names
    )
    if group is None:
        count = len(consumer.list_topics("orders").topics["orders"].partitions)
        consumer.assign([confluent_kafka.TopicPartition("orders", index) for index in range(count)])
    else:
        consumer.subscribe(["orders"])

    def poll() -> list[bytes]:
        return [found.value() for found in consumer.consume(10, 0.05) if not found.error()]

    with reading(poll) as reader:
        yield reader
    consumer.close()


@contextmanager
def kafka_python(broker: Broker, group: str | None = "billing", **settings: object) -> Iterator[Reader]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group, **settings)
    if group is None:
        found = consumer.partitions_for_topic("orders")
        consumer.assign([kafka.TopicPartition("orders", index) for index in sorted(found)])
    else:
        consumer.subscribe(["orders"])

    def poll() -> list[bytes]:
        return [each.value for found in consumer.poll(500).values() for each in found]

    with reading(poll) as reader:
        yield reader
    consumer.close()


@contextmanager
def ours(broker: Broker, group: str | None = "billing") -> Iterator[Reader]:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group}
    with client.Consumer(settings) as consumer:
        consumer.subscribe("orders")
        with reading(lambda: [each.value for each in consumer.poll(50)]) as reader:
            yield reader


def opposite(event: Event) -> Event[bool]:
    """Return the event that another one is no longer the case: the broker learns late that a connection has closed."""
    return Event(f"not: {event.what}", lambda core: event.poll(core) is None or None, event.tell)


CLIENTS = {
    "confluent-kafka": confluent,
    "confluent-kafka, KIP-848": lambda broker: confluent(broker, group_protocol="consumer"),
    "confluent-kafka, cooperative": lambda broker: confluent(
        broker, partition_assignment_strategy="cooperative-sticky"
    ),
    "kafka-python": kafka_python,
    "kafka_offsets.client": ours,
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with a delay, without which kafka-python 3.0.12 can miss its assignment."""
    with Broker({"num.partitions": 3, "group.initial.rebalance.delay.ms": 100}) as running:
        running.produce("orders", ["old"] * 6)
        yield running


@pytest.mark.parametrize("name", CLIENTS)
def test_what_is_produced_after_it_is_read(broker: Broker, name: str) -> None:
    with CLIENTS[name](broker) as reader:
        positions = broker.wait_for(consuming("billing"), SECONDS)
        assert positions == {("orders", index): 2 for index in range(3)}
        broker.produce("orders", ["a", "b", "c"])
        assert read_by(reader, count=3) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("name", CLIENTS)
def test_the_second_member_reads_its_part_too(broker: Broker, name: str) -> None:
    """A cooperative group is stable between its two rebalances, when the second member has nothing yet."""
    with CLIENTS[name](broker) as first:
        broker.wait_for(consuming("billing", members=1), SECONDS)
        with CLIENTS[name](broker) as second:
            broker.wait_for(consuming("billing", members=2), SECONDS)
            broker.produce("orders", ["a", "b", "c"])
            assert read_by(first, second, count=3) == [b"a", b"b", b"c"]
            assert first.values and second.values


@pytest.mark.parametrize("name", ["confluent-kafka", "kafka-python"])
def test_consumers_without_a_group(broker: Broker, name: str) -> None:
    make = {"confluent-kafka": confluent, "kafka-python": kafka_python}[name]
    with make(broker, None, client_id="mine") as reader:
        assert broker.wait_for(consuming(topic="orders", partition=1), SECONDS) == {("orders", 1): 2}
        broker.wait_for(consuming(topic="orders", client_id="mine"), SECONDS)
        broker.produce("orders", ["a", "b", "c"])
        assert read_by(reader, count=3) == [b"a", b"b", b"c"]
        with pytest.raises(TimeoutError, match="nobody fetches orders-0, orders-1, orders-2"):
            broker.wait_for(consuming(topic="orders", client_id="yours"), 0)


def test_aiokafka(broker: Broker) -> None:
    async def read() -> None:
        consumer = AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="billing")
        await consumer.start()
        try:
            await broker.async_wait_for(consuming("billing"), SECONDS)
            await asyncio.to_thread(broker.produce, "orders", ["a", "b", "c"])
            found = [await asyncio.wait_for(consumer.getone(), SECONDS) for _ in range(3)]
            assert sorted(each.value for each in found) == [b"a", b"b", b"c"]
        finally:
            await consumer.stop()

    asyncio.run(read())


def test_a_cluster() -> None:
    """Each partition has another leader, and the coordinator is a fourth node."""
    with Cluster({"num.partitions": 3}, brokers=4) as cluster:
        cluster.produce("orders", ["old"] * 6)
        with confluent(cluster) as reader:
            cluster.wait_for(consuming("billing"), SECONDS)
            cluster.produce("orders", ["a", "b", "c"])
            assert read_by(reader, count=3) == [b"a", b"b", b"c"]
        cluster.wait_for(opposite(consuming(topic="orders")), SECONDS)  # followers fetch all the time


def test_two_groups_with_one_client_id(broker: Broker) -> None:
    """A Fetch names no group: the fetches of one group do not stand for those of the other."""
    with kafka_python(broker, "audit") as audit:
        broker.wait_for(consuming("audit"), SECONDS)
        with kafka_python(broker, "billing") as billing:
            broker.wait_for(consuming("billing"), SECONDS)
            broker.produce("orders", ["a", "b", "c"])
            assert read_by(billing, count=3) == [b"a", b"b", b"c"]
            assert read_by(audit, count=3) == [b"a", b"b", b"c"]


def test_a_fetch_that_is_refused_is_none(broker: Broker) -> None:
    with ExitStack() as stack:
        fault = stack.enter_context(broker.faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders"))
        reader = stack.enter_context(confluent(broker))
        fault.wait(timeout=SECONDS)
        broker.wait_for(group_stable("billing"), SECONDS)
        lacking = r"orders-0 is not fetched by 'rdkafka' at 127.0.0.1 since it was assigned; orders-1"
        with pytest.raises(TimeoutError, match=lacking):
            broker.wait_for(consuming("billing"), 0)
        fault.remove()
        broker.wait_for(consuming("billing"), SECONDS)
        broker.produce("orders", ["a"])
        assert read_by(reader, count=1) == [b"a"]


def test_a_group_that_has_left_consumes_no_more(broker: Broker) -> None:
    with confluent(broker):
        broker.wait_for(consuming("billing"), SECONDS)
    for event in (consuming("billing"), consuming(topic="orders")):
        broker.wait_for(opposite(event), SECONDS)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (consuming, "either a group or a topic"),
        (lambda: consuming("billing", topic="orders"), "either a group or a topic"),
        (lambda: consuming(topic="orders", members=1), "members: of which group"),
        (lambda: consuming("billing", client_id="a"), "without a group"),
    ],
)
def test_arguments_that_have_no_meaning_together(make: Callable[[], Event], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        make()
