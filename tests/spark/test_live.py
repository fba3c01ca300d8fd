"""The offsets log of a running broker, by the protocol. No Spark here."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_offsets import Broker
from kafka_offsets.client.settings import secured_settings
from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.spark import options
from kafka_offsets.spark.reader import live
from kafka_offsets.spark.reader.live import Range
from tests.drivers.secured import PASSWORD, USER, Secured
from tests.spark import reference


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"offsets.topic.num.partitions": 2}) as broker:
        broker.create_topic("orders")
        yield broker


def topic_of(broker: Broker) -> live.OffsetsTopic:
    return live.OffsetsTopic(secured_settings(broker.bootstrap_servers))


def read(broker: Broker, part: Range, **given: str) -> list[dict[str, object]]:
    asked = options.parse({"bootstrap.servers": broker.bootstrap_servers, **given})
    return [
        row for batch in live.read(asked.connections, part, asked.query) for row in reference.listed(batch)
    ]


def test_the_log_of_a_broker_is_read_by_the_protocol(broker: Broker) -> None:
    for number in range(5):
        broker.commit("billing", {("orders", 0): number})
    with topic_of(broker) as topic:
        begin, end = topic.offsets(end=False), topic.offsets(end=True, committed=True)
    parts = live.plan(begin, end, 1_000)
    rows = [
        row for part in parts for row in read(broker, part, columns="group,topic,partition,committed_offset")
    ]
    assert [row["committed_offset"] for row in rows] == [0, 1, 2, 3, 4]
    assert {(row["group"], row["topic"], row["partition"]) for row in rows} == {("billing", "orders", 0)}


def test_a_range_of_offsets_is_a_share_of_the_log(broker: Broker) -> None:
    for number in range(10):
        broker.commit("billing", {("orders", 0): number})
    with topic_of(broker) as topic:
        begin, end = topic.offsets(end=False), topic.offsets(end=True)
    whole = [row for part in live.plan(begin, end, 1_000) for row in read(broker, part)]
    cut = [row for part in live.plan(begin, end, 3) for row in read(broker, part)]
    assert len(live.plan(begin, end, 3)) >= 4
    assert cut == whole


def test_the_log_is_read_over_tls_by_a_user(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    with Broker(secured.config("SASL_SSL"), users={USER: PASSWORD}) as broker:
        broker.create_topic("orders")
        broker.commit("billing", {("orders", 0): 7})
        properties = secured.java(broker.bootstrap_servers, "SASL_SSL", "SCRAM-SHA-256")
        asked = options.parse({f"kafka.{key}": value for key, value in properties.items()})
        with live.OffsetsTopic(asked.connections) as topic:
            end = topic.offsets(end=True)
        pickled = pickle.loads(pickle.dumps(asked))  # as tasks receive it
        rows = [
            row
            for part in live.plan({}, end, 1_000)
            for batch in live.read(pickled.connections, part, asked.query)
            for row in reference.listed(batch)
        ]
        jaas = properties["sasl.jaas.config"].replace(PASSWORD, "wrong")
        wrong = options.parse(
            {f"kafka.{key}": value for key, value in properties.items()} | {"kafka.sasl.jaas.config": jaas}
        )
        with live.OffsetsTopic(wrong.connections) as topic, pytest.raises(RefusedError, match="SASL"):
            topic.offsets(end=True)
    assert [row["committed_offset"] for row in rows] == [7]
    assert properties["sasl.jaas.config"] not in repr(asked)


def test_a_cluster_without_commits_has_an_empty_log(broker: Broker) -> None:
    with topic_of(broker) as topic:
        assert topic.offsets(end=True) == {}


def test_leaders_that_move_are_looked_for_until_they_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(live.time, "sleep", pauses.append)
    with Broker({"offsets.topic.num.partitions": 1}) as kafka:
        kafka.create_topic("orders")
        kafka.commit("billing", {("orders", 0): 7})
        kafka.faults.leader_moved(live.TOPIC, n=3)
        with topic_of(kafka) as topic:
            assert topic.offsets(end=True) == {0: 1}
            assert len(pauses) == 3
            kafka.faults.leader_moved(live.TOPIC)
            with pytest.raises(RefusedError, match="offsets of __consumer_offsets-0: NOT_LEADER_OR_FOLLOWER"):
                topic.offsets(end=True)
            kafka.faults.clear()
            kafka.faults.error("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            pauses.clear()
            with pytest.raises(RefusedError, match="TOPIC_AUTHORIZATION_FAILED"):
                topic.offsets(end=True)
            assert not pauses
