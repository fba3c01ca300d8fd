"""Batch writes through Spark's own Kafka sink, unchanged, to our broker."""

import os
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from tests.spark.kafka_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.fixture
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


def write(frame: "DataFrame", bootstrap: str, **options: str) -> None:
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer.options(**{key.replace("_", "."): value for key, value in options.items()}).save()


def consumed(bootstrap: str, topic: str, partitions: int = 3) -> list:  # type: ignore[type-arg]
    """All records of the topic, partition by partition."""
    assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
    with KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(assigned)
        ends = consumer.end_offsets(assigned)
        records = []
        while any(consumer.position(partition) < ends[partition] for partition in assigned):
            for some in consumer.poll(timeout_ms=500).values():
                records += some
    return sorted(records, key=lambda record: (record.partition, record.offset))


@pytest.mark.shows("Spark", "produce", "idempotent")
def test_keys_and_values_are_written(spark: "SparkSession", bootstrap, topics, topic):
    topics.create(topic)
    frame = spark.createDataFrame([(str(n), f"value {n}") for n in range(50)], ["key", "value"])
    write(frame, bootstrap, topic=topic)
    records = consumed(bootstrap, topic)
    assert {(record.key, record.value) for record in records} == {
        (b"%d" % n, b"value %d" % n) for n in range(50)
    }
    assert len(records) == 50
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        producers = admin.describe_producers([TopicPartition(topic, partition) for partition in range(3)])
    assert all(state.active_producers for state in producers.values()), (
        "Spark's producer numbers its batches: it is idempotent"
    )


def test_a_row_is_written_to_its_partition(spark, bootstrap, topics, topic):
    topics.create(topic)
    frame = spark.createDataFrame([(b"v%d" % n, n % 3) for n in range(9)], "value binary, partition int")
    write(frame, bootstrap, topic=topic)
    assert all(int(record.value[1:]) % 3 == record.partition for record in consumed(bootstrap, topic))


def test_each_row_may_name_its_topic(spark, bootstrap, topics, topic):
    for suffix in "ab":
        topics.create(f"{topic}-{suffix}")
    rows = [(f"{topic}-{'ab'[n % 2]}", str(n)) for n in range(10)]
    write(spark.createDataFrame(rows, ["topic", "value"]), bootstrap)
    assert len(consumed(bootstrap, f"{topic}-a")) == len(consumed(bootstrap, f"{topic}-b")) == 5


def test_headers_are_written(spark, bootstrap, topics, topic):
    topics.create(topic)
    schema = "value string, headers array<struct<key: string, value: binary>>"
    write(
        spark.createDataFrame([("v", [("trace", b"\x01")])], schema),
        bootstrap,
        topic=topic,
        includeHeaders="true",
    )
    (record,) = consumed(bootstrap, topic)
    assert list(record.headers) == [("trace", b"\x01")]


def test_a_null_value_is_a_tombstone(spark, bootstrap, topics, topic):
    topics.create(topic)
    write(spark.createDataFrame([("k", None)], "key string, value string"), bootstrap, topic=topic)
    (record,) = consumed(bootstrap, topic)
    assert (record.key, record.value) == (b"k", None)


def test_the_first_write_creates_the_topic(spark, bootstrap, topic):
    write(spark.createDataFrame([("v",)], ["value"]), bootstrap, topic=topic)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    assert [bytes(row.value) for row in reader.option("subscribe", topic).load().collect()] == [b"v"]


def test_records_are_written_compressed(spark, bootstrap, topics, topic):
    topics.create(topic)
    frame = spark.range(2000).selectExpr("cast(id as string) as value")
    write(frame, bootstrap, topic=topic, kafka_compression_type="zstd", kafka_linger_ms="20")
    assert sorted(int(record.value) for record in consumed(bootstrap, topic)) == list(range(2000))


def test_a_value_above_the_limit_of_the_topic_fails_the_job(spark, bootstrap, topics, topic):
    topics.create(topic, max_message_bytes="1000")
    frame = spark.createDataFrame([(os.urandom(2000),)], "value binary")
    with pytest.raises(Exception, match=r"RecordTooLarge|larger than"):
        write(frame, bootstrap, topic=topic)
