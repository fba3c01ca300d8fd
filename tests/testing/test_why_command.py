"""`kafka-offsets why`: what a client's requests tell of any cluster; a real Kafka 4.4.0 gave the same lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kafka_offsets import cli
from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.commands.groups import why as command
from kafka_offsets.testing import Broker
from tests.testing.why_clients import CONFIG, joined, producer

pytestmark = pytest.mark.slow


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(CONFIG) as running:
        running.create_topic("orders", 1)
        yield running


class Why:
    """The command; its lines without what helps."""

    def __init__(self, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
        self._broker, self._capsys = broker, capsys

    def __call__(self, *groups: str, code: int) -> list[str]:
        assert cli.main(["why", *groups, "-b", self._broker.bootstrap_servers]) == code
        return self._capsys.readouterr().out.splitlines()[::2]


@pytest.fixture
def why(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Why:
    return Why(broker, capsys)


def test_an_offset_that_one_of_two_transactions_holds(
    broker: Broker, why: Why, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request tells which one; while both have just begun, or once they have ended, nobody waits for them."""
    began_ns, told = time.time_ns(), ClusterClient.open_transactions
    reader = joined(broker)
    broker.create_topic("refunds", 1)
    writers = {topic: producer(broker, transactional_id=f"of-{topic}") for topic in ("orders", "refunds")}
    for topic, writer in writers.items():
        writer.send_offsets_to_transaction([TopicPartition(topic, 0, 0)], reader.consumer_group_metadata())
    monkeypatch.setattr(command.time, "time_ns", lambda: began_ns)
    assert why("billing", code=0) == []
    monkeypatch.setattr(command.time, "time_ns", lambda: began_ns + 60_000_000_000)
    (line,) = why("billing", code=1)
    held = (
        "in orders-0 cannot be read (UNSTABLE_OFFSET_COMMIT): one of these holds it: the transaction of 'of-"
    )
    assert line.startswith(f"the committed offset of group 'billing' {held}")
    assert "'of-orders'" in line and "'of-refunds'" in line

    def ended(cluster: ClusterClient) -> list[Any]:
        for writer in writers.values():
            writer.commit_transaction()
        return told(cluster)

    monkeypatch.setattr(ClusterClient, "open_transactions", ended)
    assert why("billing", code=0) == []
    reader.close()


def test_one_group_that_is_refused_hides_no_other(broker: Broker, why: Why) -> None:
    first = joined(broker)
    broker.commit("other", {("orders", 0): 9})
    broker.produce("orders", ["a"])
    with broker.faults.error("OffsetFetch", "GROUP_AUTHORIZATION_FAILED", group="billing"):
        (line,) = why("billing", "other", code=1)
    assert line.startswith("group 'other' has committed 9 in orders-0, beyond the end 1")
    first.close()


def test_a_log_that_is_refused_later_hides_nothing(
    broker: Broker, why: Why, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ClusterClient.log_ranges
    broker.produce("orders", ["a"])
    for group, offset in (("behind", 0), ("beyond", 9)):
        broker.commit(group, {("orders", 0): offset})

    def refused_later(cluster: ClusterClient, *asked: Any) -> Any:
        ranges = told(cluster, *asked)
        broker.faults.error("ListOffsets", "TOPIC_AUTHORIZATION_FAILED")
        return ranges

    monkeypatch.setattr(ClusterClient, "log_ranges", refused_later)
    lines = why("behind", "beyond", code=1)
    assert any(
        line.startswith("group 'beyond' has committed 9 in orders-0, beyond the end 1") for line in lines
    )
