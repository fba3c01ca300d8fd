"""Transactional producers and readers of committed records: confluent-kafka, kafka-python, aiokafka."""

import asyncio
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as ConfluentTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PyPartition
from kafka.structs import OffsetAndMetadata

from tests.interop.names import Names
from tests.interop.waiting import until

pytestmark = pytest.mark.interop
PATIENCE_S = 60.0


def make_topics(bootstrap: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([ConfluentTopic(name, 1, 1) for name in names]).values():
        future.result(PATIENCE_S)


def confluent_producer(bootstrap: str, name: str, **settings: Any) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0} | settings)
    producer.init_transactions(PATIENCE_S)
    return producer


def read(bootstrap: str, topic: str, count: int, level: str = "read_committed") -> list[str]:
    """Return the values of a topic, `count` of them and those that come with the last of these."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"reader-{time.monotonic_ns()}",
        "isolation.level": level,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    ended = False
    while (len(values) < count or not ended) and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None:
            continue
        ended = message.error() is not None
        if not ended:
            values.append(message.value().decode())
    consumer.close()
    return values


@pytest.mark.shows("confluent-kafka", "transactional")
def test_confluent_kafka_commits_and_aborts(bootstrap: str, names: Names) -> None:
    topic = names.topic()
    make_topics(bootstrap, topic)
    producer = confluent_producer(bootstrap, topic)
    for number, outcome in enumerate((True, False, True)):
        producer.begin_transaction()
        for letter in "abc":
            producer.produce(topic, f"{letter}{number}")
        producer.flush(PATIENCE_S)  # what is not sent is not aborted, but forgotten
        (producer.commit_transaction if outcome else producer.abort_transaction)(PATIENCE_S)
    assert read(bootstrap, topic, 6) == ["a0", "b0", "c0", "a2", "b2", "c2"]
    assert len(read(bootstrap, topic, 9, "read_uncommitted")) == 9


def test_a_second_producer_fences_the_first(bootstrap: str, names: Names) -> None:
    topic = names.topic()
    make_topics(bootstrap, topic)
    first = confluent_producer(bootstrap, topic)
    first.begin_transaction()
    first.produce(topic, "lost")
    first.flush(PATIENCE_S)
    second = confluent_producer(bootstrap, topic)
    second.begin_transaction()
    second.produce(topic, "kept")
    second.commit_transaction(PATIENCE_S)
    first.produce(topic, "late")
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(PATIENCE_S)
    assert raised.value.args[0].fatal()
    first.purge()
    assert read(bootstrap, topic, 1) == ["kept"]


@pytest.mark.shows("confluent-kafka", "transactional")
def test_confluent_kafka_commits_offsets_with_its_records(bootstrap: str, names: Names) -> None:
    target, group = names.topic(), names.group()
    source = f"{target}-in"
    make_topics(bootstrap, source, target)
    producer = confluent_producer(bootstrap, target)
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    consumer.subscribe([source])
    until(
        lambda: (consumer.poll(0.1), bool(consumer.assignment()))[1], "the member is assigned its partition"
    )
    place = [TopicPartition(source, 0)]
    for offset, outcome in ((5, False), (7, True)):
        producer.begin_transaction()
        producer.produce(target, str(offset))
        producer.send_offsets_to_transaction(
            [TopicPartition(source, 0, offset)], consumer.consumer_group_metadata(), PATIENCE_S
        )
        (producer.commit_transaction if outcome else producer.abort_transaction)(PATIENCE_S)
    assert consumer.committed(place, PATIENCE_S)[0].offset == 7
    assert read(bootstrap, target, 1) == ["7"]
    consumer.close()


@pytest.mark.shows("kafka-python", "transactional")
def test_kafka_python_commits_aborts_and_commits_offsets(bootstrap: str, names: Names) -> None:
    target, group = names.topic(), names.group()
    source = f"{target}-in"
    make_topics(bootstrap, source, target)
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=target)
    producer.init_transactions()
    for offset, finish in ((5, producer.abort_transaction), (7, producer.commit_transaction)):
        producer.begin_transaction()
        producer.send(target, str(offset).encode()).get(timeout=30)  # else an abort drops what has not left
        producer.send_offsets_to_transaction(
            {PyPartition(source, 0): OffsetAndMetadata(offset, "", -1)}, group
        )
        finish()
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
    assert consumer.committed(PyPartition(source, 0)) == 7
    consumer.assign([PyPartition(target, 0)])
    consumer.seek_to_beginning()
    record = next(consumer)
    assert (record.value, record.offset) == (b"7", 2)
    # The last one of the log is the marker of its transaction.
    assert consumer.end_offsets([PyPartition(target, 0)]) == {PyPartition(target, 0): 4}
    consumer.close()


@pytest.mark.shows("aiokafka", "transactional")
def test_aiokafka_commits_aborts_and_commits_offsets(bootstrap: str, names: Names) -> None:
    target, group = names.topic(), names.group()
    source = f"{target}-in"
    make_topics(bootstrap, source, target)

    async def run() -> tuple[Any, list[bytes]]:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=target) as producer:
            for offset, commits in ((5, False), (7, True)):
                await producer.begin_transaction()
                await producer.send(target, str(offset).encode())
                await producer.send_offsets_to_transaction({AioPartition(source, 0): offset}, group)
                await (producer.commit_transaction() if commits else producer.abort_transaction())
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            isolation_level="read_committed",
            enable_auto_commit=False,
        ) as consumer:
            committed = await consumer.committed(AioPartition(source, 0))
            consumer.assign([AioPartition(target, 0)])
            await consumer.seek_to_beginning()
            return committed, [(await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value]

    assert asyncio.run(run()) == (7, [b"7"])
