"""`Broker.why`, further findings with real clients: of clusters, of transactions, and of what takes long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from kafka_offsets.testing import Broker, Cluster, ManualClock, committed, group_empty, group_stable
from tests.testing.why_clients import CONFIG, consumer, found_at, joined, producer, said, until

pytestmark = pytest.mark.slow


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def broker(clock: ManualClock) -> Iterator[Broker]:
    with Broker(CONFIG, clock=clock, record=True) as running:
        running.create_topic("orders", 1)
        yield running


def commit(broker: Broker, offset: int, topic: str = "orders", group: str = "billing") -> None:
    """Commit as a client that is no member."""
    admin = consumer(broker, group)
    admin.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    admin.close()


def test_a_partition_without_a_leader_and_a_group_without_a_coordinator() -> None:
    keys = {"default.replication.factor": 1, "offsets.topic.replication.factor": 1}
    with Cluster(CONFIG | keys, brokers=2) as cluster:
        cluster.create_topic("orders", 2)
        reader = joined(cluster)
        assert "partition-unknown" not in {each.name for each in cluster.why()}
        reader.close()
        lost = next(index for index in (0, 1) if cluster.leader("orders", index) == 2)
        groups = [name for name in map(str, range(99)) if cluster.coordinator(name) == 2]
        stays = next(name for name in map(str, range(99)) if cluster.coordinator(name) == 1)
        cluster.commit(stays, {("orders", lost): 0})
        cluster.kill(2)
        assert f"orders-{lost}: " in said(cluster, "partition-unknown", stays)
        assert f"group {groups[0]!r} is not served: " in said(cluster, "group-unavailable", groups[0])
        assert "group-unavailable" not in {each.name for each in cluster.why(stays)}


def test_an_instance_id_that_is_in_use(broker: Broker, clock: ManualClock) -> None:
    first = joined(broker, group_protocol="consumer", group_instance_id="one")
    second = consumer(broker, client="w2", group_protocol="consumer", group_instance_id="one")
    second.subscribe(["orders"])
    until(lambda: second.poll(0.05) or "UNRELEASED_INSTANCE_ID" in str(broker.requests))
    sentence = said(broker, "instance-in-use")
    assert sentence.startswith("'w2' at 127.0.0.1 cannot join group 'billing', refused")
    assert sentence.endswith("instance 'one' belongs to 'w1' at 127.0.0.1, which has not left")
    first.close()
    clock.advance(seconds=60)
    broker.wait_for(group_empty("billing"))
    assert "instance-in-use" not in {each.name for each in broker.why("billing")}
    second.close()


def test_consumers_that_come_and_go_are_who_starts_the_rebalances(broker: Broker) -> None:
    for _ in range(5):
        joined(broker).close()
    sentence = said(broker, "rebalances-repeat")
    assert sentence.startswith("group 'billing' has rebalanced ")
    assert "5 times since 'w1' joined" in sentence


def test_offsets_that_have_expired(broker: Broker, clock: ManualClock) -> None:
    broker.produce("orders", ["a"])
    commit(broker, 1)
    assert not broker.why("billing")
    clock.advance(days=8)
    assert "the offsets of group 'billing' have expired at" in said(broker, "offsets-expired")
    commit(broker, 1)
    assert not broker.why("billing")


def test_a_transaction_that_nobody_ends(broker: Broker) -> None:
    """The broker aborts it in time; one whose coordinator does not is found, as if nothing happened until then."""
    writer = producer(broker, transaction_timeout_ms=5000)
    writer.produce("orders", b"x")
    writer.flush()
    assert "transaction-hangs" not in {each.name for each in found_at(broker, 60_000)}
    (finding,) = [each for each in found_at(broker, 125_000) if each.name == "transaction-hangs"]
    assert finding.subject == "tx-1"
    assert finding.sentence.endswith("should have ended 2 min ago, by its timeout")
    writer.abort_transaction()


def test_two_producers_with_one_transactional_id(broker: Broker) -> None:
    first = producer(broker, client_id="p1")
    first.produce("orders", b"x")
    first.flush()
    second = producer(broker, client_id="p2")
    with pytest.raises(KafkaException):
        first.commit_transaction(5)
    sentence = said(broker, "producer-fenced", None)
    assert "of 'p1' at 127.0.0.1 of transactional id 'tx-1' was refused" in sentence
    second.produce("orders", b"y")
    second.commit_transaction()
    assert "producer-fenced" in {each.name for each in broker.why()}, "p1 is still fenced"
    again = producer(broker, client_id="p1")
    assert "producer-fenced" not in {each.name for each in broker.why()}
    again.abort_transaction()


def test_a_record_that_is_too_large(broker: Broker) -> None:
    broker.create_topic("small", 1, {"max.message.bytes": 100})
    heard: list[object] = []
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "p1"}
    writer = Producer(settings)
    writer.produce("small", b"x" * 1000, on_delivery=lambda error, _: heard.append(error))
    writer.flush()
    assert "MSG_SIZE_TOO_LARGE" in str(heard)
    sentence = said(broker, "produce-refused", None)
    assert sentence.startswith("records of 'p1' at 127.0.0.1 for topic small were refused")
    assert "MESSAGE_TOO_LARGE" in sentence
    writer.produce("small", b"x")
    writer.flush()
    assert not broker.why()


def test_a_client_that_exceeds_its_quota(broker: Broker, clock: ManualClock) -> None:
    broker.set_quota(client_id="p1", producer_byte_rate=10)
    writer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "p1"})
    writer.produce("orders", b"x" * 1000)
    until(lambda: writer.poll(0.05) or broker.why())
    assert "'p1' at 127.0.0.1 is throttled by a quota, at " in said(broker, "throttled", None)
    clock.advance(minutes=5)
    assert not broker.why()
    writer.purge()


def test_a_topic_that_the_group_reads_no_longer(broker: Broker) -> None:
    broker.create_topic("refunds", 1)
    broker.produce("refunds", ["a", "b"])
    commit(broker, 0, "refunds")
    reader = joined(broker)
    sentence = said(broker, "topic-unsubscribed")
    assert sentence == (
        "group 'billing' lags by 2 in refunds, to which none of its 1 member subscribes: they read orders"
    )
    reader.close()


def test_a_group_whose_last_member_was_removed(broker: Broker, clock: ManualClock) -> None:
    broker.produce("orders", ["a", "b"])
    reader = joined(broker, session_timeout_ms=10_000)
    reader.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    with broker.faults.drop("Heartbeat", client_id="w1"), broker.faults.drop("JoinGroup", client_id="w1"):
        clock.advance(seconds=11)
        sentence = said(broker, "empty-with-lag")
        assert sentence.startswith("group 'billing' has no members since")
        assert sentence.endswith(" and lags by 1; the last to be removed was 'w1' at 127.0.0.1")
    reader.close()


def test_slow_is_told_from_stuck(broker: Broker, clock: ManualClock) -> None:
    broker.produce("orders", ["a", "b", "c"])
    reader = joined(broker)
    broker.wait_for(group_stable("billing"))
    until(lambda: reader.poll(0.05))
    clock.advance(seconds=20)
    reader.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    broker.wait_for(committed("billing", {("orders", 0): 1}))
    clock.advance(seconds=2)
    (finding,) = found_at(broker)
    assert finding.sentence.endswith(
        "in orders-0: 2 records left; it is slow, not stuck: 'w1' at 127.0.0.1 committed 1 2 s ago"
    )
    clock.advance(seconds=10)
    (finding,) = found_at(broker)
    assert "2 records left; it is stuck: the last commit, 1, was 12 s ago" in finding.sentence
    reader.close()
