"""Logs that are opened after a start: what a test asks of the broker waits for them."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.broker.partition import log_opener, producer_recovery
from kafka_offsets.broker.partition.partitions import Topic, Topics
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.client.cluster import LATEST, ClusterClient
from kafka_offsets.client.connection import parse_address
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.testing import Broker, record_produced


def test_after_a_restart_readers_of_long_logs_wait_until_they_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_opener, "_LONG_BYTES", 1)
    directory = tmp_path / "data"
    places = {("orders", 0): 1, ("orders", 1): 1}
    records = [{"value": "a", "partition": 0}, {"value": "b", "partition": 1}]
    with Broker(data_directory=directory) as broker:
        broker.create_topic("orders", 2)
        broker.produce("orders", records)
        broker.commit("g", {("orders", 0): 0, ("orders", 1): 0})
    with Broker(data_directory=directory) as broker:
        assert [record.value for record in broker.consume_all("orders")] == [b"a", b"b"]
    with Broker(data_directory=directory) as broker:
        assert broker.lag("g") == places
    with Broker(data_directory=directory) as broker:
        assert "lag 1" in broker.describe()
    with Broker(data_directory=directory) as broker:
        assert broker.wait_for(record_produced("orders", count=2)) == 2
    with Broker(data_directory=directory) as broker:
        assert broker.produce("orders", records) == dict.fromkeys(places, 2)


def test_the_thread_of_the_loop_gets_an_error_instead_of_waiting_for_a_long_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_opener, "_LONG_BYTES", 1)

    async def ask() -> None:
        async with Broker(data_directory=tmp_path / "data") as broker:
            with pytest.raises(RuntimeError, match="to_thread"):
                broker.consume_all("orders")
            (record,) = await asyncio.to_thread(broker.consume_all, "orders")
            assert record.value == b"a"

    with Broker(data_directory=tmp_path / "data") as broker:
        broker.produce("orders", ["a"])
    asyncio.run(ask())


def test_a_wait_that_times_out_does_not_wait_for_a_long_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked for what explains it until the log was open: the loop of a test got a RuntimeError."""
    monkeypatch.setattr(log_opener, "_LONG_BYTES", 1)
    may_open, opening = threading.Event(), Topics.opening

    def held(topics: Topics, topic: Topic, *given: Any) -> Callable[[], Any]:
        open_log = opening(topics, topic, *given)
        return (lambda: (may_open.wait(), open_log())[1]) if topic.name == "orders" else open_log

    async def ask() -> None:
        async with Broker(data_directory=tmp_path / "data") as broker:
            event = record_produced("orders", count=2)
            try:
                with pytest.raises(TimeoutError, match=r"now: not known: .*the log is being opened"):
                    await broker.async_wait_for(event, 0.01)
                with pytest.raises(TimeoutError, match=r"now: not known: .*the log is being opened"):
                    await asyncio.to_thread(broker.wait_for, event, 0.01)
            finally:
                may_open.set()
            assert await broker.async_wait_for(record_produced("orders")) == 1

    with Broker(data_directory=tmp_path / "data") as broker:
        broker.produce("orders", ["a"])
        broker.commit("g", {("orders", 0): 0})
    monkeypatch.setattr(Topics, "opening", held)
    asyncio.run(ask())


def test_committed_records_of_a_long_offsets_log_in_memory_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker in memory never read its producers, and answered NOT_LEADER_OR_FOLLOWER for ever."""
    monkeypatch.setattr(producer_recovery, "_FEW_RECORDS", 4)
    place = OFFSETS_TOPIC, partition_for("g", 50)
    with Broker() as broker:
        broker.create_topic("orders", 1)
        for offset in range(8):
            broker.commit("g", {("orders", 0): offset})
        with ClusterClient(parse_address(broker.bootstrap_servers)) as cluster:
            assert cluster.offsets_at({place: LATEST}, committed_only=True) == {place: 8}
