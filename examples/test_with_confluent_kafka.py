"""A test of code that uses confluent-kafka: what it committed, and what it asked the broker.

pytest examples/test_with_confluent_kafka.py
"""

import pytest
from confluent_kafka import Consumer


def first_values(bootstrap_servers: str, count: int) -> list[bytes]:
    """The code under test: read some records and commit them at once."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    values = [message.value() for message in consumer.consume(count, timeout=30)]
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


@pytest.mark.kafka(topics=["orders"])
def test_many_records_are_one_commit(kafka_broker):
    kafka_broker.produce("orders", [f"order {number}" for number in range(10)])
    assert first_values(kafka_broker.bootstrap_servers, 4) == [b"order 0", b"order 1", b"order 2", b"order 3"]
    kafka_broker.assert_committed("billing", {("orders", 0): 4})
    kafka_broker.assert_lag("billing", 6)

    (commit,) = kafka_broker.requests.of("OffsetCommit", group="billing")
    assert commit.request.topics[0].partitions[0].committed_offset == 4
    assert not commit.errors
    assert kafka_broker.requests.of("LeaveGroup")
