"""A test of a consumer beside a broker that hangs: another one leads, and the consumer continues there.

pytest examples/test_paused_broker.py
"""

import pytest

from kafka_offsets.client import Consumer


@pytest.mark.kafka(topics={"orders": 1}, brokers=3)
def test_a_consumer_survives_a_broker_that_hangs(kafka_cluster, kafka_clock):
    properties = {
        "bootstrap.servers": kafka_cluster.bootstrap_servers,
        "auto.offset.reset": "earliest",
        "request.timeout.ms": 500,
        "retry.backoff.ms": 20,
    }
    with Consumer(properties) as consumer:
        consumer.subscribe("orders", 0)

        def read() -> bytes:
            while not (records := consumer.poll(1_000)):
                pass
            (record,) = records
            return record.value

        kafka_cluster.produce("orders", ["before"])
        assert read() == b"before"
        hanging = kafka_cluster.leader("orders")
        kafka_cluster.pause(hanging)
        kafka_clock.advance(seconds=9)  # broker.session.timeout.ms: the controller fences it
        assert kafka_cluster.leader("orders") != hanging
        kafka_cluster.produce("orders", ["after"])
        assert read() == b"after"
        kafka_cluster.resume(hanging)
        kafka_clock.advance(seconds=30)
        assert kafka_cluster.in_sync("orders") == [1, 2, 3]
