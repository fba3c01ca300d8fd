"""Clients in Python that exceed a quota, and what they report about it. Java's is in test_java.py."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import ThrottlingQuotaExceededError

from kafka_offsets import Broker
from tests.interop.waiting import until

pytestmark = pytest.mark.interop
VALUE = bytes(11_000)
"""A second more than 1000 bytes a second allow at once."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.produce("orders", [VALUE])
        broker.set_quota(client_id="orders", producer_byte_rate=1000, consumer_byte_rate=1000)
        yield broker


class Pauses(list[float]):
    """The pauses that confluent-kafka reports, in seconds."""

    def settings(self, broker: Broker) -> dict[str, object]:
        note: Callable[..., None] = lambda event: self.append(event.throttle_time)  # noqa: E731
        return {"bootstrap.servers": broker.bootstrap_servers, "client.id": "orders", "throttle_cb": note}


def test_confluent_kafka_calls_back_when_a_producer_is_throttled(broker: Broker) -> None:
    pauses = Pauses()
    producer = Producer(pauses.settings(broker))
    producer.produce("orders", VALUE)
    until(lambda: producer.poll(0.1) is not None and pauses, "the producer knows of its pause")
    assert 1.0 < pauses[0] < 1.4


def test_confluent_kafka_calls_back_when_a_consumer_is_throttled(broker: Broker) -> None:
    pauses = Pauses()
    consumer = Consumer(pauses.settings(broker) | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    until(lambda: [consumer.poll(0.1)] and pauses, "the consumer knows of its pause")
    consumer.close()
    assert 1.0 < pauses[0] < 1.4


def test_a_quota_of_a_user_throttles_that_user_alone() -> None:
    with Broker(users={"alice": "a", "bob": "b"}) as broker:
        broker.create_topic("orders")
        broker.set_quota(user="alice", producer_byte_rate=1000)
        broker.set_quota(user="<default>", request_percentage=10_000)
        for user, secret, least_ms in (("alice", "a", 1000), ("bob", "b", 0)):
            settings = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": secret}
            pauses = Pauses()
            producer = Producer(
                pauses.settings(broker) | settings | {"security.protocol": "SASL_PLAINTEXT", "acks": 1}
            )
            producer.produce("orders", VALUE)
            assert producer.flush(20) == 0
            producer.poll(0.1)
            assert max(pauses, default=0) * 1000 == pytest.approx(least_ms, abs=400)


def test_kafka_python_reports_a_topic_over_the_quota(broker: Broker) -> None:
    broker.set_quota(client_id="admin", controller_mutation_rate=1)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers, client_id="admin")
    admin.create_topics([NewTopic("a", num_partitions=100, replication_factor=1)])
    with pytest.raises(ThrottlingQuotaExceededError):
        admin.create_topics([NewTopic("b", num_partitions=1, replication_factor=1)])
    admin.close()


def longest_pause(client: KafkaProducer | KafkaConsumer, kind: str) -> float:
    """Return the longest pause that kafka-python reports, in ms."""
    return float(client.metrics()[f"{kind}-metrics"]["throttle-time-max"])


def test_kafka_python_reports_the_pause_of_a_producer(broker: Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="orders")
    producer.send("orders", VALUE).get(20)
    assert 1000 < longest_pause(producer, "producer") < 1400
    producer.close()


def test_kafka_python_reports_the_pause_of_a_consumer(broker: Broker) -> None:
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, client_id="orders", auto_offset_reset="earliest"
    )
    until(
        lambda: [consumer.poll(100)] and longest_pause(consumer, "consumer") > 0,
        "the consumer knows of its pause",
    )
    assert 1000 < longest_pause(consumer, "consumer") < 1400
    consumer.close()
