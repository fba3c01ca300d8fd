"""Clients of others over SASL_SSL and SASL_PLAINTEXT; Spark's is in tests/spark/test_kafka_source.py."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, Producer
from cryptography.x509.oid import NameOID
from kafka import KafkaConsumer, KafkaProducer

from kafka_offsets import Broker
from tests.certificates import Authority
from tests.http.test_examples import MODULES
from tests.interop import story
from tests.interop.test_java import Shell
from tests.interop.test_tools import need_kafkajs, run
from tests.interop.waiting import until

pytestmark = pytest.mark.interop
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENERS = ("SASL_SSL", "SASL_PLAINTEXT")
LARGE = b"x" * 900_000
"""More than one record of TLS, and more than one step of the socket's writer."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that clients trust; beside it is the key of the broker."""
    folder, authority = tmp_path_factory.mktemp("certificates"), Authority()
    authority.sign((NameOID.COMMON_NAME, "server")).write_pem(folder / "server.pem")
    path = folder / "ca.pem"
    path.write_text(authority.certificate_pem, encoding="ascii")
    return path


@pytest.fixture(scope="module")
def broker(authority: Path) -> Iterator[Broker]:
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.with_name("server.pem")),
    }
    with Broker(config, users={"alice": "secret"}) as running:
        yield running


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.shows("kafka-python", "SASL_SSL")
def test_kafka_python(broker: Broker, authority: Path, listener: str, mechanism: str) -> None:
    topic = f"kafka-python-{listener}-{mechanism}"
    settings = {
        "bootstrap_servers": broker.address_of(listener),
        "security_protocol": listener,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
        "ssl_cafile": str(authority),
    }
    producer = KafkaProducer(**settings)
    for _ in range(3):
        producer.send(topic, LARGE)
    producer.flush(20)
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=15_000, **settings
    )
    assert [len(next(consumer).value) for _ in range(3)] == [len(LARGE)] * 3
    consumer.commit()
    consumer.close()
    assert broker.committed(topic)[topic, 0].offset == 3


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.shows("confluent-kafka", "SASL_SSL")
def test_confluent_kafka(broker: Broker, authority: Path, listener: str, mechanism: str) -> None:
    topic = f"confluent-{listener}-{mechanism}"
    settings = {
        "bootstrap.servers": broker.address_of(listener),
        "security.protocol": listener,
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": "secret",
        "ssl.ca.location": str(authority),
    }
    producer = Producer(settings)
    for _ in range(3):
        producer.produce(topic, LARGE)
    assert producer.flush(20) == 0
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = [consumer.poll(15) for _ in range(3)]
    assert [each is not None and len(each.value() or b"") for each in found] == [len(LARGE)] * 3
    consumer.close()
    assert broker.committed(topic)[topic, 0].offset == 3


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.shows("aiokafka", "SASL_SSL")
def test_aiokafka(broker: Broker, authority: Path, listener: str, mechanism: str) -> None:
    topic = f"aiokafka-{listener}-{mechanism}"

    async def run() -> list[int]:
        settings = {
            "bootstrap_servers": broker.address_of(listener),
            "security_protocol": listener,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": "secret",
            "ssl_context": create_ssl_context(cafile=str(authority)) if listener == "SASL_SSL" else None,
        }
        async with AIOKafkaProducer(**settings) as producer:
            for _ in range(3):
                await producer.send_and_wait(topic, LARGE)
        consumer = AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
        async with consumer:
            return [len((await asyncio.wait_for(consumer.getone(), 15)).value) for _ in range(3)]

    assert asyncio.run(run()) == [len(LARGE)] * 3
    assert broker.committed(topic)[topic, 0].offset == 3


@pytest.mark.shows("kcat", "SASL_SSL")
def test_kcat(kcat: str, broker: Broker, authority: Path) -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",  # its librdkafka may be older than 2.6.1, which Kafka 4 refuses with SCRAM
        "sasl.username": "alice",
        "sasl.password": "secret",
        "ssl.ca.location": str(authority),
    }
    options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]

    def kcat_prints(*arguments: str, given: str | None = None) -> str:
        command = [kcat, "-b", broker.address_of("SASL_SSL"), *options, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        return done.stdout

    kcat_prints("-P", "-t", "kcat", given="one\ntwo\n")
    assert kcat_prints("-C", "-t", "kcat", "-o", "beginning", "-e", "-q") == "one\ntwo\n"


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
def test_kafkajs(broker: Broker, authority: Path, mechanism: str) -> None:
    need_kafkajs()
    where = broker.address_of("SASL_SSL"), f"kafkajs-{mechanism}", "kafkajs"
    printed = run(
        "node", "kafkajs.js", *where, authority, mechanism, "alice", "secret", NODE_PATH=str(MODULES)
    )
    assert printed == "first 1\n"


@pytest.mark.java
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.shows("Java, classic", "SASL_SSL")
@pytest.mark.shows("Java, consumer", "SASL_SSL")
def test_java(java_client: list[str], broker: Broker, authority: Path, tmp_path: Path, protocol: str) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="alice" password="secret";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }
    path, name = tmp_path / "client.properties", f"java-{protocol}"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="ascii")
    java, *words = java_client
    shell = Shell([java, f"-Dclient.properties={path}", *words], broker.address_of("SASL_SSL"))
    try:
        shell.create_topic(name, 3)
        shell.produce(name, range(10))
        member = story.Member(shell.member(name, name, "sync", f"group.protocol={protocol}"))
        try:
            until(lambda: sum(shell.committed(name, name).values()) == 10, "the member commits all")
            assert len(member.values) == 10
        finally:
            member.leave()
    finally:
        shell.close()
