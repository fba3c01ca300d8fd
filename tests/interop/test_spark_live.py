"""The data source reads the offsets log of a running Apache Kafka: what its Admin client says is committed.

Real clients commit: a classic group of kafka-python, a group of KIP-848 of confluent-kafka, and transactions, one that
commits and one that aborts. The readers are asked as Spark asks them, without a JVM.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from kafka_offsets.spark.source import ConsumerOffsets
from tests.interop import kafka_peer
from tests.interop.broker_process import OVERRIDE
from tests.interop.kafka_peer import KafkaPeer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.apache_kafka,
    pytest.mark.skipif(OVERRIDE is not None, reason="it is Apache Kafka whose log is read"),
]

SETTINGS = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "1"}
TOPIC, PARTITIONS, RECORDS = "orders", 3, 30
CLASSIC, CONSUMER, TRANSACTIONS = "classic", "consumer", "transactions"
TIMEOUT_S = 60

Row = dict[str, Any]
Committed = dict[str, dict[tuple[str, int], tuple[int, str]]]
"""By group: offset and metadata of each partition."""


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    kafka_peer.need_tools()
    peer = KafkaPeer(tmp_path / "kafka")
    host, port = peer.start(SETTINGS)
    yield f"{host}:{port}"
    peer.end()


def fill(bootstrap: str) -> None:
    """Make the topic, and as many records in each partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS * PARTITIONS):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0


def commit_in_a_classic_group(bootstrap: str) -> None:
    """Read all as a member of a group, and commit after every tenth record."""
    with KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=CLASSIC,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=TIMEOUT_S * 1000,
    ) as consumer:
        for number in range(1, RECORDS * PARTITIONS + 1):
            next(consumer)
            if number % 10 == 0:
                consumer.commit()


def consumer_of(bootstrap: str, group: str, **settings: str) -> Consumer:
    shared = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    return Consumer({**shared, "enable.auto.commit": False, **settings})


def commit_in_a_group_of_the_consumer_protocol(bootstrap: str) -> None:
    """Read some as a member, and commit them with a metadata."""
    consumer = consumer_of(bootstrap, CONSUMER, **{"group.protocol": "consumer"})
    consumer.subscribe([TOPIC])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None and not message.error()
    place = TopicPartition(TOPIC, message.partition(), message.offset() + 1, "of a member")
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()


def commit_in_transactions(bootstrap: str) -> None:
    """Commit an offset in a transaction, and another one in a transaction that is aborted."""
    consumer = consumer_of(bootstrap, TRANSACTIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "copier"})
    producer.init_transactions(TIMEOUT_S)
    for offset, end in ((5, producer.commit_transaction), (9, producer.abort_transaction)):
        producer.begin_transaction()
        places = [TopicPartition(TOPIC, 0, offset)]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), TIMEOUT_S)
        end(TIMEOUT_S)
    consumer.close()


def admins_answer(bootstrap: str) -> Committed:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found: Committed = {}
    for group in (CLASSIC, CONSUMER, TRANSACTIONS):
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], require_stable=True)
        places = asked[group].result(TIMEOUT_S).topic_partitions
        found[group] = {
            (place.topic, place.partition): (place.offset, place.metadata or "") for place in places
        }
    return found


def source(bootstrap: str, **given: str) -> ConsumerOffsets:
    return ConsumerOffsets({"bootstrap.servers": bootstrap, **given})


def rows_of(reader: DataSourceReader | Any, shares: Iterable[InputPartition]) -> list[Row]:
    return [row for share in shares for batch in reader.read(share) for row in batch.to_pylist()]


def batch(bootstrap: str, **given: str) -> list[Row]:
    """Return the rows of a batch query."""
    reader = source(bootstrap, **given).reader(StructType())
    return rows_of(reader, reader.partitions())


def committed_in(rows: Iterable[Row]) -> Committed:
    """Return what the rows amount to that count, each key's last one in the order of the log."""
    last = {}
    for row in sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"])):
        if row["topic"] is not None and row.get("outcome") in (None, "committed"):
            last[row["group"], row["topic"], row["partition"]] = row
    found: Committed = {}
    for (group, topic, partition), row in last.items():
        if not row["tombstone"]:
            # confluent-kafka commits the NUL after its text too, and does not show it.
            metadata = row["metadata"].rstrip("\0")
            found.setdefault(group, {})[topic, partition] = (row["committed_offset"], metadata)
    return found


def test_batches_and_a_stream_say_what_the_admin_client_says(bootstrap: str) -> None:
    fill(bootstrap)
    commit_in_a_classic_group(bootstrap)
    commit_in_a_group_of_the_consumer_protocol(bootstrap)
    commit_in_transactions(bootstrap)
    said = admins_answer(bootstrap)
    assert said[CLASSIC] == {(TOPIC, partition): (RECORDS, "") for partition in range(PARTITIONS)}
    assert said[TRANSACTIONS] == {(TOPIC, 0): (5, "")}

    everything = batch(bootstrap, isolation="uncommitted")
    assert committed_in(everything) == said
    assert Counter(row["outcome"] for row in everything if row["transactional"]) == {
        "committed": 2,  # an offset, and the marker
        "aborted": 2,
    }
    assert not [row for row in everything if row["error"]]
    assert {"group", "offset", "control", "consumer_group_metadata"} <= {row["kind"] for row in everything}
    assert committed_in(batch(bootstrap, mode="latest", splitRecords="7")) == said

    counted = [row for row in everything if row["kind"] != "control" and row["outcome"] != "aborted"]
    reader: Any = source(bootstrap).streamReader(StructType())
    reader.prepareForTriggerAvailableNow()
    at, streamed = reader.initialOffset(), []
    for _ in range(len(everything)):
        end = reader.latestOffset(at, ReadMaxRows(30))
        if end == at:
            break
        streamed.append(rows_of(reader, reader.partitions(at, end)))
        at = end
    assert len(streamed) > 1
    assert sorted(str(row) for rows in streamed for row in rows) == sorted(map(str, counted))
