"""A test of a consumer that survives a killed broker: what was acknowledged is read, and what was committed is kept.

pytest examples/test_killed_broker.py
"""

import pytest
from confluent_kafka import Consumer, Producer


def settings(bootstrap_servers: str) -> dict:
    return {"bootstrap.servers": bootstrap_servers, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}


@pytest.mark.kafka(topics={"orders": 1}, brokers=3)
def test_a_killed_broker_loses_no_order(kafka_cluster):
    producer = Producer(settings(kafka_cluster.bootstrap_servers) | {"acks": "all"})
    group = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(settings(kafka_cluster.bootstrap_servers) | group)
    consumer.subscribe(["orders"])

    def order_and_bill(name: bytes) -> None:
        producer.produce("orders", name)
        assert producer.flush(20) == 0
        while (message := consumer.poll(1)) is None or message.error() is not None:
            pass
        assert message.value() == name
        consumer.commit(message, asynchronous=False)

    order_and_bill(b"before")
    killed = kafka_cluster.leader("orders")
    kafka_cluster.kill(killed)
    assert killed not in kafka_cluster.in_sync("orders")
    order_and_bill(b"after")
    kafka_cluster.start_node(killed)
    kafka_cluster.assert_committed("billing", {("orders", 0): 2})
    consumer.close()
