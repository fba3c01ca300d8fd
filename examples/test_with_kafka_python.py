"""A test of code that uses kafka-python, with the fixture of the pytest plugin.

pytest examples/test_with_kafka_python.py
"""

import pytest
from kafka import KafkaConsumer


def total(bootstrap_servers: str, count: int) -> int:
    """The code under test: add up so many orders that the group billing has not seen, and commit."""
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    found = sum(int(next(consumer).value) for _ in range(count))
    consumer.commit()
    consumer.close()
    return found


@pytest.mark.kafka(topics={"orders": 3})
def test_each_order_is_counted_once(kafka_broker):
    end_offsets = kafka_broker.produce("orders", [{"key": "a", "value": 1}, {"key": "b", "value": 20}])
    assert total(kafka_broker.bootstrap_servers, 2) == 21
    kafka_broker.assert_committed("billing", end_offsets)

    kafka_broker.produce("orders", [{"key": "a", "value": 300}])
    kafka_broker.assert_lag("billing", 1)
    assert total(kafka_broker.bootstrap_servers, 1) == 300
    kafka_broker.assert_lag("billing", 0)
