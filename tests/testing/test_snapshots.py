"""`snapshot` and `restore`: everything is as it was, for new clients and for those of before."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from kafka_offsets.testing import Broker, group_empty, group_stable
from kafka_offsets.testing.clock import ManualClock
from tests.drivers.wire import Connection


@pytest.fixture
def broker():
    with Broker({"group.min.session.timeout.ms": 100}) as running:
        yield running


def state(broker: Broker) -> tuple[object, ...]:
    topics = broker._call(
        lambda server: {each.name: each.partition_count for each in server.core.topics.all()}
    )
    records = [broker.consume_all(name) for name in topics if not name.startswith("__")]
    return topics, records, broker.describe()


def change(broker: Broker) -> None:
    broker.create_topic("later", 2)
    broker.produce("orders", ["b"])
    broker.commit("billing", {("orders", 0): 2})
    broker.commit("shipping", {("orders", 0): 1})


def test_everything_is_as_it_was_any_number_of_times(broker: Broker) -> None:
    broker.produce("orders", ["a"])
    broker.commit("billing", {("orders", 0): 1})
    before, snapshot = state(broker), broker.snapshot()
    address = broker.bootstrap_servers
    for _ in range(3):
        change(broker)
        assert state(broker) != before
        broker.restore(snapshot)
        assert state(broker) == before
    assert broker.bootstrap_servers == address
    change(broker)
    later = broker.snapshot()
    broker.restore(snapshot)
    broker.restore(later)
    assert broker.committed("shipping")["orders", 0].offset == 1


def test_an_empty_broker_can_be_restored(broker: Broker) -> None:
    snapshot = broker.snapshot()
    change(broker)
    broker.restore(snapshot)
    assert state(broker) == ({}, [], "no groups")


def test_another_broker_takes_the_state_over(broker: Broker) -> None:
    change(broker)
    with Broker() as other:
        other.restore(broker.snapshot())
        assert state(other) == state(broker)


def test_deleted_records_stay_deleted(broker: Broker) -> None:
    from kafka import KafkaAdminClient, TopicPartition

    broker.produce("orders", ["a", "b", "c"])
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.delete_records({TopicPartition("orders", 0): 2})
    admin.close()
    snapshot = broker.snapshot()
    broker.produce("orders", ["d"])
    broker.restore(snapshot)
    assert [record.value for record in broker.consume_all("orders")] == [b"c"]


def test_clients_of_before_are_cut_off_and_connect_again(broker: Broker) -> None:
    snapshot = broker.snapshot()
    with Connection(broker.bootstrap_servers) as connection:
        assert connection.api_versions() == 0
        broker.restore(snapshot)
        try:
            assert connection.socket.recv(1) == b""
        except ConnectionResetError:
            pass
    with Connection(broker.bootstrap_servers) as connection:
        assert connection.api_versions() == 0


def test_a_running_consumer_joins_again_and_continues_where_the_restored_offsets_say(broker: Broker) -> None:
    broker.produce("orders", ["a", "b"])
    snapshot = broker.snapshot()
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            "reconnect.backoff.ms": 10,
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    try:
        assert [consumer.poll(20).value() for _ in range(2)] == [b"a", b"b"]
        consumer.commit(asynchronous=False)
        broker.restore(snapshot)
        assert broker.committed("billing") == {}
        values = []
        while len(values) < 2:
            message = consumer.poll(20)
            assert message is not None
            if message.error() is None:
                values.append(message.value())
        assert values == [b"a", b"b"]
        broker.wait_for(group_stable("billing", members=1))
    finally:
        consumer.close()


def test_members_in_a_snapshot_have_a_new_session_and_then_are_removed() -> None:
    clock = ManualClock()
    with Broker(clock=clock) as broker:
        broker.create_topic("orders")
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "billing",
                "session.timeout.ms": 60_000,
            }
        )
        consumer.subscribe(["orders"])
        consumer.poll(0)
        broker.wait_for(group_stable("billing", members=1))
        snapshot = broker.snapshot()
        consumer.close()
        broker.wait_for(group_empty("billing"))
        clock.advance(50_000)
        broker.restore(snapshot)
        clock.advance(59_000)
        view = broker.group("billing")
        assert view is not None and (view.state, len(view.members)) == ("Stable", 1)
        clock.advance(2_000)
        assert broker.wait_for(group_empty("billing"))


def test_transactions_that_were_open_are_open_again(broker: Broker) -> None:
    config = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t", "log_level": 0}
    producer = Producer(config)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", "a")
    producer.flush(20)
    snapshot = broker.snapshot()
    producer.commit_transaction(20)
    assert len(broker.consume_all("orders")) == 1
    broker.restore(snapshot)
    assert broker.consume_all("orders") == []
    Producer(config).init_transactions(20)  # ends what the one of before had begun
    broker.produce("orders", ["b"])
    assert [record.value for record in broker.consume_all("orders")] == [b"b"]


def test_long_logs_are_there_at_once(broker: Broker) -> None:
    broker.produce("orders", [bytes(1000)] * 700)
    broker.restore(broker.snapshot())
    assert len(broker.consume_all("orders")) == 700


def test_only_what_is_in_memory_can_be_copied(tmp_path: Path, broker: Broker) -> None:
    snapshot = broker.snapshot()
    with Broker(data_directory=tmp_path) as on_disk:
        with pytest.raises(RuntimeError, match="only a broker in memory"):
            on_disk.snapshot()
        with pytest.raises(RuntimeError, match="only a broker in memory"):
            on_disk.restore(snapshot)
    broker.stop()
    for ask in (broker.snapshot, lambda: broker.restore(snapshot)):
        with pytest.raises(RuntimeError, match="not running"):
            ask()


@pytest.mark.parametrize("fsync", ["commit", "interval"])
def test_what_waits_for_a_sync_is_waited_for(fsync: str) -> None:
    with Broker({"fsync": fsync}) as broker:
        broker.produce("orders", ["a"])
        snapshot = broker.snapshot()
        for _ in range(5):
            broker.commit("billing", {("orders", 0): 1})
            broker.restore(snapshot)
            assert broker.committed("billing") == {}


def test_what_is_restored_while_the_clock_moves_moves_with_it() -> None:
    clock = ManualClock()
    with Broker(clock=clock) as broker, ThreadPoolExecutor(2) as pool:
        broker.produce("orders", ["a"])
        broker.commit("billing", {("orders", 0): 1})
        snapshot = broker.snapshot()
        broker.commit("later", {("orders", 0): 1})
        # Both wait for a thread of the broker's: the state is replaced first, then time goes on.
        gate = threading.Event()
        try:
            broker._call(lambda server: server._background(server._writer, gate.wait, lambda error: None))
            restored = broker._begin(lambda server: server.restoring(snapshot._state))
            days = 8 * 86_400_000
            advanced = pool.submit(clock.advance, days)
            while not broker._call(lambda server: server._time_driver._end_ms == days):
                pass
            for _ in range(5):
                broker._call(lambda server: None)
            assert not restored.done()
        finally:
            gate.set()  # else the broker and the pool would wait for it, and hide the error
        restored.result(20)
        assert advanced.result(20).mono_ms == days
        assert broker.committed("billing") == broker.committed("later") == {}
