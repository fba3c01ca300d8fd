"""Offsets by time do not work with the mock broker, so that code which chooses where to begin cannot be tested.

Asked in https://github.com/confluentinc/librdkafka/issues/4755.
"""

from confluent_kafka import Consumer, TopicPartition

NOON = 1_767_265_200_000


def test_a_consumer_begins_at_noon(kafka_broker):
    kafka_broker.create_topic("orders", config={"retention.ms": "-1"})
    kafka_broker.produce("orders", [{"value": str(hours), "timestamp": NOON + hours} for hours in (-1, 0, 1)])
    consumer = Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": "billing"})
    consumer.assign(consumer.offsets_for_times([TopicPartition("orders", 0, NOON)], timeout=20))
    assert consumer.poll(20).value() == b"0"
    consumer.close()
