"""A test of exactly once: a worker that dies in the middle of a transaction leaves nothing behind.

pytest examples/test_exactly_once.py
"""

import pytest
from confluent_kafka import Consumer, Producer


def bill(bootstrap_servers: str, *, dies: bool = False) -> None:
    """The code under test: write an invoice for each order, and commit both together."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": "billing", "log_level": 0}
    )
    producer.init_transactions(30)
    consumer.subscribe(["orders"])
    orders = consumer.consume(3, timeout=30)
    producer.begin_transaction()
    for order in orders:
        producer.produce("invoices", b"invoice for " + order.value())
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
    producer.flush(30)
    consumer.close()
    if not dies:
        producer.commit_transaction(30)


@pytest.mark.kafka(topics=["orders", "invoices"])
def test_each_order_gets_one_invoice_although_a_worker_dies(kafka_broker):
    kafka_broker.produce("orders", ["a", "b", "c"])

    bill(kafka_broker.bootstrap_servers, dies=True)
    assert kafka_broker.consume_all("invoices") == []
    kafka_broker.assert_committed("billing", {("orders", 0): None})

    bill(kafka_broker.bootstrap_servers)
    invoices = [record.value for record in kafka_broker.consume_all("invoices")]
    assert invoices == [b"invoice for a", b"invoice for b", b"invoice for c"]
    kafka_broker.assert_committed("billing", {("orders", 0): 3})
