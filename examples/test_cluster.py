"""A test against a cluster of three brokers: nothing is lost when leaders move and the coordinator's node stops.

pytest examples/test_cluster.py
"""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

PARTITIONS = 6


def settings(bootstrap_servers: str) -> dict:
    return {"bootstrap.servers": bootstrap_servers, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}


class Billing:
    """The code under test: it notes orders, and commits when it has."""

    def __init__(self, bootstrap_servers: str) -> None:
        group = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.consumer = Consumer(settings(bootstrap_servers) | group)
        self.consumer.subscribe(["orders"])
        self.billed: set[bytes] = set()

    def work(self) -> None:
        message = self.consumer.poll(0.1)
        if message is None or message.error() is not None:
            return
        self.billed.add(message.value())
        try:
            self.consumer.commit(message)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


@pytest.mark.kafka(topics={"orders": PARTITIONS}, brokers=3)
def test_every_order_is_billed_although_a_broker_stops(kafka_cluster):
    producer = Producer(settings(kafka_cluster.bootstrap_servers) | {"enable.idempotence": True})
    billing = Billing(kafka_cluster.bootstrap_servers)
    ordered: set[bytes] = set()

    def order_and_bill(name: str) -> None:
        for partition in range(PARTITIONS):
            ordered.add(f"{name}-{partition}".encode())
            producer.produce("orders", f"{name}-{partition}", partition=partition)
        assert producer.flush(20) == 0
        while billing.billed < ordered:
            billing.work()

    order_and_bill("before")
    kafka_cluster.move_leader("orders", 0)
    order_and_bill("moved")
    kafka_cluster.stop_node(kafka_cluster.coordinator("billing"))
    order_and_bill("stopped")
    assert all(kafka_cluster.leader("orders", partition) > 0 for partition in range(PARTITIONS))
    billing.consumer.close()
