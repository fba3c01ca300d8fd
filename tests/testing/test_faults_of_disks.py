"""Faults of the disk: full, slow, and failing to sync."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafka_offsets import Broker
from kafka_offsets.errors import StorageError
from kafka_offsets.http import metrics
from kafka_offsets.storage.files import memory_content
from kafka_offsets.testing import caught_up
from kafka_offsets.testing.faults.control import Faults
from kafka_offsets.testing.faults.observers import is_observing, observing
from tests.testing.fault_requests import commit, connect, fetch, fetched, produce, produced


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_full_disk_refuses_writes_and_nothing_is_lost_by_it(tmp_path: Path, on_disk: bool) -> None:
    with Broker(data_directory=tmp_path if on_disk else None) as broker, connect(broker) as client:
        broker.create_topic("t", 3)
        faults = Faults(broker)
        assert produced(produce(client)) == [(0, 0)]
        with faults.disk_full(free_bytes=50, path="t-0") as fault:
            assert produced(produce(client, 0, 1)) == [(0, 56), (1, 0)]
            assert fault.hits == 1
            assert faults.active == [fault]
        answer = produce(client)
        assert (produced(answer), answer.responses[0].partition_responses[0].base_offset) == ([(0, 0)], 1)
        assert commit(client)["t", 0] == 0
        with faults.disk_full(path="__consumer_offsets"):
            assert commit(client)["t", 0] == 16  # as Kafka tells a group of its disk
        assert commit(client)["t", 0] == 0


def test_a_disk_that_has_refused_a_large_write_is_full_for_small_ones() -> None:
    with Broker() as broker, connect(broker) as client:
        broker.create_topic("t", 3)
        with Faults(broker).disk_full(free_bytes=500, path="t-0") as fault:
            assert produced(produce(client, 0, value=b"." * 1000)) == [(0, 56)]
            assert produced(produce(client, 0)) == [(0, 56)]
            assert fault.hits == 2
        assert produced(produce(client, 0)) == [(0, 0)]


def test_a_disk_is_slow_or_fails_to_sync(tmp_path: Path) -> None:
    broker = Broker({"fsync": "commit"}, data_directory=tmp_path)
    broker.start()
    with connect(broker) as client:
        broker.create_topic("t", 3)
        faults = Faults(broker)
        assert commit(client)["t", 0] == 0
        with faults.slow_disk(30, n=1) as slow:
            assert commit(client)["t", 0] == 0
            assert slow.hits == 1
        with faults.disk_error("sync", path="t-0", n=1) as broken:
            assert produced(produce(client, 0)) == [(0, 56)]
            assert produced(produce(client, 1)) == [(1, 0)]
            assert broken.hits == 1
        assert produced(produce(client, 0)) == [(0, 56)]  # what was not synced is never taken for durable
    with suppress(StorageError):
        broker.stop()


def test_what_observes_a_broker_is_struck_by_no_fault_of_the_disk() -> None:
    """A scrape, a report or a wait took the one error that was meant for a client."""
    with Broker(record=True) as broker, connect(broker) as client:
        broker.produce("t", ["a", "b"])
        broker.commit("g", {("t", 0): 1})
        fault = broker.faults.disk_error("read", path="t-0/", n=1)
        assert [each.name for each in broker.why("g")] == []
        assert metrics.read(broker)
        assert any("g" in line for line in broker.report())
        assert [each.value for each in broker.consume_all("t")] == [b"a", b"b"]
        broker.assert_produced("t", ["a", "b"])
        assert fault.hits == 0
        assert fetched(fetch(client, 0)) == {0: 56}
        assert fault.hits == 1


def test_a_log_that_an_observer_opens_after_a_restart_is_opened_without_the_fault(tmp_path: Path) -> None:
    """The lag, a wait and `consume_all` took the error, and said that the lag is not known."""
    directory = tmp_path / "data"
    with Broker(data_directory=directory) as broker:
        broker.produce("t", ["a"])
        broker.commit("g", {("t", 0): 1})
    observers: tuple[Callable[[Broker], object], ...] = (
        lambda broker: broker.lag("g"),
        lambda broker: broker.wait_for(caught_up("g"), 0.1),
        lambda broker: broker.consume_all("t"),
        metrics.read,
    )
    for observe in observers:
        with Broker(data_directory=directory) as broker:
            fault = broker.faults.disk_error("read", path="t-0/")
            observe(broker)
            assert fault.hits == 0
            assert broker.lag("g") == {("t", 0): 0}
    with Broker(data_directory=directory) as broker:
        fault = broker.faults.disk_error("open", path="t-0/")
        with pytest.raises(RuntimeError, match="KAFKA_STORAGE_ERROR"):
            broker.produce("t", ["b"])
        assert fault.hits > 0


def test_what_an_observer_leaves_to_the_loop_is_no_observer() -> None:
    """A turn, a timer or an opened log that it asked for passed by the faults, and so did all that these asked for."""
    seen: list[bool] = []

    async def main() -> None:
        with observing():
            seen.append(is_observing())
            asyncio.get_running_loop().call_soon(lambda: seen.append(is_observing()))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert seen == [True, False]


def test_without_memory_a_write_is_refused_and_the_broker_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> None:
        raise MemoryError

    with Broker() as broker, connect(broker) as client:
        broker.create_topic("t", 3)
        assert produced(produce(client, 0)) == [(0, 0)]
        assert commit(client)["t", 0] == 0
        with monkeypatch.context() as patched:
            patched.setattr(memory_content, "bytearray", refuse, raising=False)
            assert produced(produce(client, 0, value=b"." * 1000)) == [(0, 56)]
            assert [commit(client)["t", 0] for _ in range(3)][
                -1
            ] == 16  # the first ones may fit into the block
        assert produced(produce(client, 0)) == [(0, 0)]
        assert commit(client)["t", 0] == 0
