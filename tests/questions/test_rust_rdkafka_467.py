"""A mock cluster under control: brokers that go down and come up, errors of requests, round trips that take longer.

Asked in https://github.com/fede1024/rust-rdkafka/pull/467.
"""

from confluent_kafka import Producer

from kafka_offsets import ErrorCode


def test_a_producer_gets_through(kafka_broker):
    kafka_broker.create_topic("orders")
    refused = kafka_broker.faults.error("Produce", [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2, n=2)
    slow = kafka_broker.faults.delay("Produce", ms=20)
    with kafka_broker.faults.down() as down:
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
        producer.produce("orders", "tea")
        down.wait(1)  # it has tried in vain
    assert producer.flush(20) == 0
    assert refused.hits == 2
    assert slow.hits >= 1
    assert [record.value for record in kafka_broker.consume_all("orders")] == [b"tea"]
