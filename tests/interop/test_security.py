"""Clients of others over SASL_SSL and SASL_PLAINTEXT; Spark's is in tests/spark/test_kafka_source.py."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from kafka_offsets import Broker
from tests.drivers.secured import MECHANISMS, PASSWORD, USER, Secured, write_properties
from tests.http.test_examples import MODULES
from tests.interop import story
from tests.interop.test_java import Shell
from tests.interop.test_tools import need_kafkajs, run
from tests.interop.waiting import until

pytestmark = pytest.mark.interop
LISTENERS = ("SASL_SSL", "SASL_PLAINTEXT")
LARGE = b"x" * 900_000
"""More than one record of TLS, and more than one step of the socket's writer."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(secured: Secured) -> Iterator[Broker]:
    with Broker(secured.config(*LISTENERS), users={USER: PASSWORD}) as running:
        yield running


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.shows("kafka-python", "SASL_SSL")
def test_kafka_python(broker: Broker, secured: Secured, listener: str, mechanism: str) -> None:
    topic = f"kafka-python-{listener}-{mechanism}"
    settings = secured.kafka_python(broker.address_of(listener), listener, mechanism)
    producer = KafkaProducer(**settings)
    for _ in range(3):
        producer.send(topic, LARGE)
    producer.flush(60)
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=60_000, **settings
    )
    assert [len(next(consumer).value) for _ in range(3)] == [len(LARGE)] * 3
    consumer.commit()
    consumer.close()
    assert broker.committed(topic)[topic, 0].offset == 3


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.shows("confluent-kafka", "SASL_SSL")
def test_confluent_kafka(broker: Broker, secured: Secured, listener: str, mechanism: str) -> None:
    topic = f"confluent-{listener}-{mechanism}"
    settings = secured.librdkafka(broker.address_of(listener), listener, mechanism)
    producer = Producer(settings)
    for _ in range(3):
        producer.produce(topic, LARGE)
    assert producer.flush(60) == 0
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = [consumer.poll(60) for _ in range(3)]
    assert [each is not None and len(each.value() or b"") for each in found] == [len(LARGE)] * 3
    consumer.close()
    assert broker.committed(topic)[topic, 0].offset == 3


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.shows("aiokafka", "SASL_SSL")
def test_aiokafka(broker: Broker, secured: Secured, listener: str, mechanism: str) -> None:
    topic = f"aiokafka-{listener}-{mechanism}"

    async def run() -> list[int]:
        settings: dict[str, Any] = secured.kafka_python(broker.address_of(listener), listener, mechanism)
        if cafile := settings.pop("ssl_cafile", None):
            settings["ssl_context"] = create_ssl_context(cafile=cafile)
        async with AIOKafkaProducer(**settings) as producer:
            for _ in range(3):
                await producer.send_and_wait(topic, LARGE)
        consumer = AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
        async with consumer:
            return [len((await asyncio.wait_for(consumer.getone(), 60)).value) for _ in range(3)]

    assert asyncio.run(run()) == [len(LARGE)] * 3
    assert broker.committed(topic)[topic, 0].offset == 3


@pytest.mark.shows("kcat", "SASL_SSL")
def test_kcat(kcat: str, broker: Broker, secured: Secured) -> None:
    # PLAIN: its librdkafka may be older than 2.6.1, which Kafka 4 refuses with SCRAM.
    settings = secured.librdkafka(broker.address_of("SASL_SSL"), "SASL_SSL")
    options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]

    def kcat_prints(*arguments: str, given: str | None = None) -> str:
        command = [kcat, *options, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    kcat_prints("-P", "-t", "kcat", given="one\ntwo\n")
    assert kcat_prints("-C", "-t", "kcat", "-o", "beginning", "-e", "-q") == "one\ntwo\n"


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
def test_kafkajs(broker: Broker, secured: Secured, mechanism: str) -> None:
    need_kafkajs()
    where = broker.address_of("SASL_SSL"), f"kafkajs-{mechanism}", "kafkajs"
    printed = run(
        "node", "kafkajs.js", *where, secured.trusted, mechanism, USER, PASSWORD, NODE_PATH=str(MODULES)
    )
    assert printed == "first 1\n"


@pytest.mark.java
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.shows("Java, classic", "SASL_SSL")
@pytest.mark.shows("Java, consumer", "SASL_SSL")
def test_java(
    java_client: list[str], broker: Broker, secured: Secured, tmp_path: Path, protocol: str
) -> None:
    properties = secured.java(broker.address_of("SASL_SSL"), "SASL_SSL", "SCRAM-SHA-512")
    path, name = write_properties(tmp_path / "client.properties", properties), f"java-{protocol}"
    java, *words = java_client
    shell = Shell([java, f"-Dclient.properties={path}", *words], broker.address_of("SASL_SSL"))
    try:
        shell.create_topic(name, 3)
        shell.produce(name, range(10))
        member = story.Member(shell.member(name, name, "sync", f"group.protocol={protocol}"))
        try:
            until(lambda: sum(shell.committed(name, name).values()) == 10, "the member commits all")
            until(lambda: len(member.values) == 10, "the member has printed all")
        finally:
            member.leave()
    finally:
        shell.close()
