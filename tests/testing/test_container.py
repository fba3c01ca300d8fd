"""`KafkaContainer`: a suite written for Testcontainers' class runs with one import changed."""

import inspect
import warnings

import pytest
from confluent_kafka import Consumer, Producer

from benchmarks.servers import free_port
from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.errors import ConfigError
from kafka_offsets.protocol import messages
from kafka_offsets.testing import KafkaContainer
from kafka_offsets.testing.container import _NEED_DOCKER as NEED_DOCKER


def topic_count(address: str) -> int:
    with Connection(*parse_address(address)) as connection:
        return len(connection.call(messages.MetadataRequest(None), 4).topics)


def partition_count(address: str, topic: str) -> int:
    with ClusterClient(parse_address(address)) as cluster:
        return len(cluster.leaders([topic]))


def test_a_suite_for_testcontainers_runs() -> None:
    with (
        KafkaContainer("confluentinc/cp-kafka:7.6.0")
        .with_kraft()
        .with_env("KAFKA_NUM_PARTITIONS", "3") as kafka
    ):
        server = kafka.get_bootstrap_server()
        assert server == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        producer = Producer({"bootstrap.servers": server})
        producer.produce("orders", b"first")
        assert producer.flush(20) == 0
        consumer = Consumer({"bootstrap.servers": server, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        (message,) = consumer.consume(1, timeout=20)
        consumer.close()
        assert message.value() == b"first"
        assert partition_count(server, "orders") == 3
        kafka.broker.assert_committed("g", {("orders", message.partition()): 1})
    assert kafka.status == "not_started"


def test_variables_of_the_image_s_addresses_have_no_effect() -> None:
    addresses = {
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:29092,BROKER://0.0.0.0:9092",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_LOG_DIRS": "/nowhere",
        "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
    }
    kafka = (
        KafkaContainer(port=9092, env=addresses, name="kafka").with_network(object()).with_exposed_ports(9092)
    )
    with kafka.with_envs(KAFKA_AUTO_CREATE_TOPICS_ENABLE="false"):
        assert kafka.get_bootstrap_server().startswith("127.0.0.1:")
        assert kafka.broker.config.auto_create_topics_enable is False


def test_each_start_is_a_new_broker_on_the_bound_port() -> None:
    port = free_port()
    kafka = KafkaContainer().with_bind_ports(9093, port).with_bind_ports("8080/tcp", 8080)
    with kafka:
        assert kafka.get_exposed_port("9093/tcp") == port
        kafka.broker.create_topic("orders")
        with pytest.raises(RuntimeError, match="is running"):
            kafka.start()
    kafka.stop()
    with kafka:
        assert topic_count(kafka.get_bootstrap_server()) == 0


def test_what_cannot_work_without_docker_says_so() -> None:
    with pytest.raises(AttributeError, match="exec needs Docker, and this broker runs inside"):
        KafkaContainer().exec("ls")
    with pytest.raises(AttributeError, match="no attribute 'with_zookeeper'"):
        KafkaContainer().with_zookeeper()
    with pytest.raises(ValueError, match="the security protocol is SSL: only PLAINTEXT"):
        KafkaContainer(security_protocol="SSL")
    with pytest.raises(RuntimeError, match="not started"):
        KafkaContainer().get_bootstrap_server()
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        KafkaContainer().with_env("KAFKA_NUM_PARTITIONS", "many").start()
    with (
        KafkaContainer() as kafka,
        pytest.raises(ConnectionError, match="port 8080 is not available: Kafka's is 9093"),
    ):
        kafka.get_exposed_port(8080)


def test_every_method_of_the_original_has_its_place_here() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from testcontainers.community.kafka import KafkaContainer as Original
    ours = KafkaContainer()
    for name, method in inspect.getmembers(Original, inspect.isfunction):
        if name.startswith("_") or name == "configure":
            continue
        if name in NEED_DOCKER:
            with pytest.raises(AttributeError, match="needs Docker"):
                getattr(ours, name)
            continue
        found = getattr(ours, name)
        parameters = [
            each for each in inspect.signature(found).parameters if each not in ("arguments", "options")
        ]
        assert parameters == list(inspect.signature(method).parameters)[1:][: len(parameters)], name
