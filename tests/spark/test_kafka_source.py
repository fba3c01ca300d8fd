"""Batch reads through Spark's own Kafka source, unchanged, from our broker."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, TopicPartition

from kafka_offsets import Broker
from kafka_offsets.spark import kafka_options
from tests.drivers.secured import PASSWORD, USER, Secured
from tests.spark.kafka_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]

FIRST_MS = 1_700_000_000_000


@pytest.fixture
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture
def read(spark: "SparkSession", bootstrap: str):  # type: ignore[no-untyped-def]
    """spark.read with these options, from our broker."""

    def read(options: Mapping[str, object]) -> "DataFrame":
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        return reader.options(**{key: str(value) for key, value in options.items()}).load()

    return read


def numbers(frame: "DataFrame") -> list[int]:
    return sorted(int(bytes(row.key)) for row in frame.select("key").collect())


@pytest.mark.shows("Spark", "consume")
def test_all_columns_of_a_topic_are_read(read, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(30))
    rows = read({"subscribe": topic}).collect()
    assert sorted(int(bytes(row.key)) for row in rows) == list(range(30))
    for row in rows:
        number = int(bytes(row.key))
        assert (bytes(row.value), row.topic) == (b"value %d" % number, topic)
        assert (row.partition, row.offset) == (number % 3, number // 3)
        assert row.timestamp.replace(tzinfo=UTC).timestamp() * 1000 == FIRST_MS + 1000 * number
        assert row.timestampType == 0


def test_an_empty_topic_has_no_rows(read, topics, topic):
    topics.create(topic)
    assert read({"subscribe": topic}).count() == 0


def test_several_topics_are_read_at_once(read, topics, topic):
    for suffix in "ab":
        topics.create(f"{topic}-{suffix}")
        topics.produce(f"{topic}-{suffix}", range(5))
    frame = read({"subscribe": f"{topic}-a,{topic}-b"})
    assert {(row.topic, row["count"]) for row in frame.groupBy("topic").count().collect()} == {
        (f"{topic}-a", 5),
        (f"{topic}-b", 5),
    }


def test_topics_are_found_by_a_pattern(read, topics, topic):
    for suffix in ("a", "b", "other"):
        topics.create(f"{topic}-{suffix}")
        topics.produce(f"{topic}-{suffix}", range(3))
    assert read({"subscribePattern": f"{topic}-[ab]"}).count() == 6


def test_partitions_are_assigned_by_number(read, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(30))
    assert numbers(read({"assign": json.dumps({topic: [0, 2]})})) == [n for n in range(30) if n % 3 != 1]


def test_offsets_bound_what_is_read(read, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(30))
    starting = json.dumps({topic: {"0": 4, "1": -2, "2": 9}})
    ending = json.dumps({topic: {"0": 6, "1": 3, "2": -1}})
    frame = read({"subscribe": topic, "startingOffsets": starting, "endingOffsets": ending})
    assert numbers(frame) == sorted([12, 15, 1, 4, 7, 29])


def test_an_offset_after_the_end_is_an_error(read, topics, topic):
    topics.create(topic, partitions=1)
    topics.produce(topic, range(3), partitions=1)
    with pytest.raises(Exception, match=r"Could not read records in offset \[3, 50\)"):
        read(
            {
                "subscribe": topic,
                "startingOffsets": json.dumps({topic: {"0": 0}}),
                "endingOffsets": json.dumps({topic: {"0": 50}}),
                "kafkaConsumer.pollTimeoutMs": 1000,
            }
        ).count()


def test_one_timestamp_bounds_all_partitions(read, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(30))
    frame = read(
        {"subscribe": topic, "startingTimestamp": FIRST_MS + 10_000, "endingTimestamp": FIRST_MS + 20_000}
    )
    assert numbers(frame) == list(range(10, 20))


def test_a_timestamp_for_each_partition(read, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(30))
    starting = json.dumps({topic: {"0": FIRST_MS, "1": FIRST_MS + 25_000, "2": FIRST_MS + 29_000}})
    frame = read({"subscribe": topic, "startingOffsetsByTimestamp": starting})
    assert numbers(frame) == sorted([*range(0, 30, 3), 25, 28, 29])


def test_a_timestamp_after_all_records_is_an_error_or_the_end(read, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(6))
    options = {"subscribe": topic, "startingTimestamp": FIRST_MS + 60_000}
    with pytest.raises(Exception, match=r"(?i)no offset matched"):
        read(options).count()
    assert read(options | {"startingOffsetsByTimestampStrategy": "latest"}).count() == 0


def test_headers_are_read(read, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(3), headers=[("trace", b"\x01\x02"), ("empty", b"")])
    for row in read({"subscribe": topic, "includeHeaders": "true"}).collect():
        assert [(header.key, bytes(header.value)) for header in row.headers] == [
            ("trace", b"\x01\x02"),
            ("empty", b""),
        ]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read(read, topics, topic, compression):
    topics.create(topic)
    topics.produce(topic, range(60), compression_type=compression, linger_ms=20)
    assert numbers(read({"subscribe": topic})) == list(range(60))


def test_min_partitions_splits_the_ranges_of_offsets(read, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(60))
    frame = read({"subscribe": topic, "minPartitions": 6})
    assert frame.rdd.getNumPartitions() >= 6
    assert numbers(frame) == list(range(60))


def test_an_unknown_topic_is_an_error(read, topic):
    with pytest.raises(Exception, match="UnknownTopicOrPartition"):
        read({"subscribe": topic}).count()


def test_offsets_are_found_with_a_consumer_group_as_before_spark_3_4(spark, read, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(30))
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    try:
        assert numbers(read({"subscribe": topic, "groupIdPrefix": "of-a-test"})) == list(range(30))
    finally:
        spark.conf.unset("spark.sql.streaming.kafka.useDeprecatedOffsetFetching")


def test_deleted_records_that_a_query_requests_are_data_loss(read, topics, topic, bootstrap):
    topics.create(topic, partitions=1)
    topics.produce(topic, range(10), partitions=1)
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4})
    assert numbers(read({"subscribe": topic})) == list(range(4, 10))
    from_zero = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 0}})}
    assert numbers(read(from_zero | {"failOnDataLoss": "false"})) == list(range(4, 10))
    with pytest.raises(Exception, match=r"Could not read records in offset \[0, 10\)"):
        read(from_zero | {"failOnDataLoss": "true"}).count()


def test_two_queries_join_what_they_read(read, topics, topic):
    topics.create(f"{topic}-left")
    topics.create(f"{topic}-right")
    topics.produce(f"{topic}-left", range(20))
    topics.produce(f"{topic}-right", range(10, 30))
    left = read({"subscribe": f"{topic}-left"}).select("key")
    right = read({"subscribe": f"{topic}-right"}).select("key")
    assert numbers(left.join(right, "key")) == list(range(10, 20))


def test_many_small_polls_read_all_records(read, topics, topic):
    topics.create(topic)
    topics.produce(topic, range(3000), linger_ms=5)
    assert read({"subscribe": topic, "kafka.max.poll.records": 100}).count() == 3000


def test_rows_have_the_log_append_time(read, topics, topic):
    topics.create(topic, message_timestamp_type="LogAppendTime")
    before = datetime.now(UTC)
    topics.produce(topic, range(3))
    for row in read({"subscribe": topic}).collect():
        assert row.timestampType == 1
        assert abs((row.timestamp.replace(tzinfo=UTC) - before).total_seconds()) < 60


@pytest.mark.shows("Spark", "consume")
def test_a_read_committed_batch_skips_aborted_records(read, topics, topic):
    topics.create(topic, partitions=1)
    topics.produce_in_transactions(topic, [True, False] * 3)
    committed = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    assert numbers(read(committed)) == [0, 2, 4]
    assert numbers(read({"subscribe": topic, "kafka.isolation.level": "read_uncommitted"})) == list(range(6))


@pytest.mark.shows("Spark", "SASL_SSL")
def test_a_topic_is_read_over_tls_by_a_user(spark: "SparkSession", tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    with Broker(secured.config("SASL_SSL"), users={USER: PASSWORD}) as broker:
        broker.produce("orders", [b"one", b"two"])
        options = kafka_options(
            broker.bootstrap_servers, user=USER, password=PASSWORD, ca_pem=secured.trusted.read_text()
        )
        reader = spark.read.format("kafka").option("subscribe", "orders")
        rows = reader.options(**options).load().collect()
    assert sorted(bytes(row.value) for row in rows) == [b"one", b"two"]
