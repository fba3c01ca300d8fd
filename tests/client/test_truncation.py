"""Logs that an unclean election has truncated, as consumers see them (KIP-320)."""

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from kafka_offsets.client import Consumer, LogTruncated
from kafka_offsets.testing import Cluster
from tests.drivers.truncation import lose_it, produce_what_will_be_lost, unclean_cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with unclean_cluster() as running:
        yield running


def consumer_of(cluster: Cluster, reset: str) -> Consumer:
    return Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": reset, "retry.backoff.ms": 20}
    )


def read(consumer: Consumer, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        found += [record.value.decode() for record in consumer.poll(10_000) if record.value is not None]
    return found


@pytest.mark.slow
def test_a_consumer_continues_where_the_log_of_the_new_leader_differs(cluster: Cluster) -> None:
    """Without epochs it would continue at offset 3 and never see the new records before."""
    produce_what_will_be_lost(cluster)
    with consumer_of(cluster, "latest") as consumer:
        consumer.subscribe("orders", 0, 0)
        assert read(consumer, 3) == ["common", "lost", "lost-too"]
        lose_it(cluster)
        assert read(consumer, 3) == ["new", "newer", "newest"]


def test_a_consumer_without_a_reset_policy_gets_log_truncated(cluster: Cluster) -> None:
    produce_what_will_be_lost(cluster)
    with consumer_of(cluster, "none") as consumer:
        consumer.subscribe("orders", 0, 0)
        read(consumer, 3)
        lose_it(cluster)
        for _ in range(2):
            with pytest.raises(LogTruncated, match="truncated at offset 1, records up to offset 2"):
                read(consumer, 1)
        consumer.position([("orders", 0, 1)])
        assert read(consumer, 3) == ["new", "newer", "newest"]


def test_librdkafka_detects_the_truncation_too(cluster: Cluster) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 100,
            "topic.metadata.refresh.interval.ms": 200,
        }
    )

    def values(count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value())
        return found

    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    assert values(1) == [b"common"]
    produce_what_will_be_lost(cluster)
    assert values(2) == [b"lost", b"lost-too"]
    lose_it(cluster)
    assert values(3) == [b"new", b"newer", b"newest"]
    consumer.close()
