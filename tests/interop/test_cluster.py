"""Real clients and a cluster: they find leaders and coordinators, follow them, and outlive a node."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from kafka_offsets.testing import Cluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning"
    ),  # kafka-python reads its own files by a deprecated call
]

PARTITIONS = 3
PATIENCE_S = 30


@pytest.fixture
def cluster():
    with Cluster(record=True) as running:
        running.create_topic("orders", PARTITIONS)
        yield running


def upset(cluster: Cluster, step: int) -> None:
    """Do what a client of a cluster has to live with, one thing a step."""
    if step == 0:
        cluster.move_leader("orders", 0)
        cluster.move_leader("orders", 2)
    elif step == 1:
        cluster.move_coordinator("billing")
    elif step == 2:
        cluster.stop_node(cluster.coordinator("billing"))
    else:
        (stopped,) = (node.id for node in cluster.nodes if not node.is_up)
        cluster.start_node(stopped)
        cluster.elect_preferred_leaders()


STEPS = 4


def values(step: int) -> set[bytes]:
    """What is produced at a step, one record for each partition."""
    return {b"%d-%d" % (step, partition) for partition in range(PARTITIONS)}


def by_confluent_kafka(cluster: Cluster) -> None:
    common = {"bootstrap.servers": cluster.bootstrap_servers, "retry.backoff.ms": 20, "log_level": 0}
    common |= {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
    producer = Producer(common | {"enable.idempotence": True, "linger.ms": 0})
    consumer = Consumer(
        common
        | {
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "heartbeat.interval.ms": 100,
        }
    )
    consumer.subscribe(["orders"])
    for step in range(STEPS + 1):
        for partition in range(PARTITIONS):
            producer.produce("orders", b"%d-%d" % (step, partition), partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        read: set[bytes] = set()
        while not values(step) <= read:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error() is None:
                read.add(message.value())
        commit(lambda: consumer.commit(asynchronous=False), KafkaException)
        cluster.assert_committed("billing", {("orders", n): step + 1 for n in range(PARTITIONS)})
        if step < STEPS:
            upset(cluster, step)
    consumer.close()


def commit(attempt: Callable[[], Any], error: type[Exception]) -> None:
    """Commit again when the client says that it has not come through, as its user has to."""
    for _ in range(20):
        try:
            attempt()
        except error:
            continue
        return
    raise AssertionError("twenty commits were refused")


def by_kafka_python(cluster: Cluster) -> None:
    common = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "retry_backoff_ms": 20,
        "reconnect_backoff_ms": 20,
    }
    with (
        KafkaProducer(**common) as producer,
        KafkaConsumer(
            "orders",
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=50,
            heartbeat_interval_ms=100,
            reconnect_backoff_max_ms=100,
            **common,
        ) as consumer,
    ):
        for step in range(STEPS + 1):
            sent = [
                producer.send("orders", b"%d-%d" % (step, partition), partition=partition)
                for partition in range(PARTITIONS)
            ]
            for each in sent:
                each.get(PATIENCE_S)
            read: set[bytes] = set()
            while not values(step) <= read:
                read.add(next(consumer).value)
            commit(lambda: consumer.commit(timeout_ms=5000), KafkaError)
            cluster.assert_committed("billing", {("orders", n): step + 1 for n in range(PARTITIONS)})
            if step < STEPS:
                upset(cluster, step)


def by_aiokafka(cluster: Cluster) -> None:
    async def main() -> None:
        common = {"bootstrap_servers": cluster.bootstrap_servers, "retry_backoff_ms": 20}
        producer = AIOKafkaProducer(**common)
        consumer = AIOKafkaConsumer(
            "orders",
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=50,
            heartbeat_interval_ms=100,
            request_timeout_ms=20_000,
            metadata_max_age_ms=500,
            **common,
        )
        async with producer, consumer:
            for step in range(STEPS + 1):
                for partition in range(PARTITIONS):
                    value = b"%d-%d" % (step, partition)
                    await producer.send_and_wait("orders", value, partition=partition)
                read: set[bytes] = set()
                while not values(step) <= read:
                    read.add((await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value)
                await consumer.commit()
                cluster.assert_committed("billing", {("orders", n): step + 1 for n in range(PARTITIONS)})
                if step < STEPS:
                    await asyncio.to_thread(upset, cluster, step)

    asyncio.run(main())


@pytest.mark.parametrize("run", [by_confluent_kafka, by_kafka_python, by_aiokafka])
def test_a_client_follows_leaders_and_coordinators_and_outlives_a_node(
    cluster: Cluster, run: Callable[[Cluster], None]
) -> None:
    run(cluster)
    assert {request.node for request in cluster.requests.of("Produce")} == {1, 2, 3}
    assert cluster.requests.of(error="NOT_LEADER_OR_FOLLOWER")
    assert cluster.requests.of(error="NOT_COORDINATOR")


def test_a_transaction_survives_a_move_and_the_stop_of_its_coordinator(cluster: Cluster) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": "tx",
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    for step in range(2):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce("orders", b"%d" % step, partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        if step == 0:
            cluster.move_coordinator(transactional_id="tx")
        else:
            cluster.stop_node(cluster.coordinator(transactional_id="tx"))
        producer.commit_transaction(PATIENCE_S)
    assert sorted(record.value for record in cluster.consume_all("orders")) == [b"0"] * 3 + [b"1"] * 3
