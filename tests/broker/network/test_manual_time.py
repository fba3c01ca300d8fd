"""`Broker(clock=ManualClock())`: time is the test's, also for clients at the other end of a socket."""

import asyncio
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker, testing
from kafka_offsets import clock as plain_clock
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.clock import LATEST_MS
from kafka_offsets.protocol import messages, records
from kafka_offsets.testing.clock import ManualClock
from kafka_offsets.testing.contents.seeding import records_of
from tests.drivers.members import join_request

SECOND_MS, MINUTE_MS, DAY_MS = 1000, 60_000, 86_400_000
SLACK_MS = 10 * MINUTE_MS
"""How often offsets are looked at whether they are past their retention."""

Request = messages.MessageValue


def connect(broker: Broker) -> Connection:
    return Connection(*parse_address(broker.bootstrap_servers))


def join(client: Connection, group: str = "g", session_timeout_ms: int = 10_000) -> tuple[str, int]:
    """Join as the only member, as its leader; return member id and generation."""
    request = join_request(group, session_ms=session_timeout_ms, rebalance_ms=session_timeout_ms)
    answer = client.call(request, 2)
    assert answer.error_code == 0
    sync = messages.SyncGroupRequest(group, answer.generation_id, answer.member_id)
    assert client.call(sync, 1).error_code == 0
    return answer.member_id, answer.generation_id


def heartbeat(client: Connection, member: tuple[str, int], group: str = "g") -> int:
    error: int = client.call(messages.HeartbeatRequest(group, member[1], member[0]), 1).error_code
    return error


def produce(client: Connection, timestamp: int, value: bytes = b"v", key: bytes = b"k") -> None:
    request = messages.ProduceRequest
    batch = bytes(records.encode_batch([(key, value, (), timestamp)]))
    topic = request.TopicProduceData("t", partition_data=[request.PartitionProduceData(0, batch)])
    answer = client.call(request(acks=-1, timeout_ms=1000, topic_data=[topic]), 7)
    assert answer.responses[0].partition_responses[0].error_code == 0


def fetch(client: Connection, offset: int = 0, wait_ms: int = 0) -> Any:
    request = messages.FetchRequest
    partition = request.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    asked = request(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[request.FetchTopic("t", partitions=[partition])],
    )
    return client.call(asked, 4).responses[0].partitions[0]


def base_offsets(client: Connection) -> list[int]:
    """Return where each batch of the log begins; a fetch ends with its segment."""
    found: list[int] = []
    while headers := list(records.batch_headers(fetch(client, found[-1] + 1 if found else 0).records)):
        found += [header.base_offset for _, header in headers]
    return found


def test_a_session_ends_when_the_clock_says_so_and_not_before() -> None:
    clock = ManualClock()
    with Broker(clock=clock) as broker, connect(broker) as client:
        member = join(client)
        clock.advance(9_999)
        assert heartbeat(client, member) == 0
        clock.advance(9_999)
        assert heartbeat(client, member) == 0
        clock.advance(10_000)
        assert heartbeat(client, member) == 25


def test_offsets_expire_after_seven_days_of_the_clock() -> None:
    clock = ManualClock()
    with Broker(clock=clock) as broker:
        broker.create_topic("t")
        broker.commit("g", {("t", 0): 5})
        clock.advance(7 * DAY_MS - SLACK_MS)
        assert broker.committed("g")["t", 0].offset == 5
        clock.advance(2 * SLACK_MS)
        assert broker.committed("g") == {}


def test_records_are_stamped_by_the_clock_and_go_with_their_retention() -> None:
    clock = ManualClock(wall_ms=1_000_000_000_000)
    config = {
        "retention.ms": str(DAY_MS),
        "message.timestamp.type": "LogAppendTime",
        "segment.ms": str(DAY_MS),
    }
    with Broker({"connections.max.idle.ms": -1}, clock=clock) as broker, connect(broker) as client:
        broker.create_topic("t", config=config)
        produce(client, timestamp=5)
        header = records.read_batch_header(fetch(client).records)
        assert header.max_timestamp == clock.now().wall_ms == 1_000_000_000_000
        clock.advance(2 * DAY_MS)
        produce(client, timestamp=5)  # the segment has ended, and its records are two days old
        clock.advance(SLACK_MS)
        assert fetch(client, offset=0).error_code == 1  # OFFSET_OUT_OF_RANGE


def test_an_open_transaction_is_aborted_when_its_time_is_over() -> None:
    clock = ManualClock()
    with Broker(clock=clock) as broker, connect(broker) as client:
        broker.create_topic("t")
        begun = client.call(messages.InitProducerIdRequest("tx", 30_000), 1)
        request = messages.AddPartitionsToTxnRequest
        topic = request.AddPartitionsToTxnTopic("t", [0])
        added = client.call(
            request(
                v3_and_below_transactional_id="tx",
                v3_and_below_producer_id=begun.producer_id,
                v3_and_below_producer_epoch=begun.producer_epoch,
                v3_and_below_topics=[topic],
            ),
            0,
        )
        assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
        clock.advance(29 * SECOND_MS)
        assert describe(client) == "Ongoing"
        clock.advance(15 * SECOND_MS)
        assert describe(client) == "CompleteAbort"


def describe(client: Connection) -> str:
    answer = client.call(messages.DescribeTransactionsRequest(["tx"]), 0)
    state: str = answer.transaction_states[0].transaction_state
    return state


def test_compaction_waits_for_its_lag_and_ends_before_advance_returns() -> None:
    clock = ManualClock(wall_ms=1_000_000_000_000)
    config = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(DAY_MS),
        "min.cleanable.dirty.ratio": "0",
        "segment.ms": str(MINUTE_MS),
    }
    with Broker({"connections.max.idle.ms": -1}, clock=clock) as broker, connect(broker) as client:
        broker.create_topic("t", config=config)
        for number in range(3):
            produce(client, clock.now().wall_ms, b"%d" % number)
            clock.advance(2 * MINUTE_MS)
        clock.advance(DAY_MS // 2)
        produce(client, clock.now().wall_ms, b"last")
        assert base_offsets(client) == [0, 1, 2, 3]
        clock.advance(DAY_MS // 2)
        assert base_offsets(client) == [2, 3]


def test_what_a_call_waits_for_is_done_while_the_clock_is_stopped() -> None:
    with Broker({"offsets.retention.minutes": 1}, clock=(clock := ManualClock())) as broker:
        broker.create_topic("t", config={"cleanup.policy": "compact"})
        broker.commit("g", {("t", 0): 5})
        before = clock.now()
        broker.compact()
        assert broker.expire_offsets() == 0
        clock.advance(2 * MINUTE_MS)
        assert broker.expire_offsets() == 1
        assert clock.now().mono_ms == before.mono_ms + 2 * MINUTE_MS


def test_a_fetch_that_waits_is_answered_by_the_clock_or_by_the_machines_time() -> None:
    config = {"connections.max.idle.ms": -1}  # the clock may pass it before the request has come
    with Broker(config, clock=(clock := ManualClock())) as broker, connect(broker) as client:
        broker.create_topic("t")
        assert fetch(client, wait_ms=10).records == b""
        answers: list[Any] = []
        waiting = threading.Thread(target=lambda: answers.append(fetch(client, wait_ms=30_000)))
        waiting.start()
        while waiting.is_alive():  # the request may not have come yet
            clock.advance(30_000)
            waiting.join(0.001)
        assert answers[0].error_code == 0


def test_what_is_written_by_threads_is_waited_for(tmp_path: Path) -> None:
    clock = ManualClock()
    with Broker({"fsync": "commit"}, clock=clock, data_directory=tmp_path) as broker:
        broker.create_topic("t")
        broker.commit("g", {("t", 0): 5})
        clock.advance(DAY_MS // 24)
    with Broker(clock=clock, data_directory=tmp_path) as broker:
        assert broker.committed("g")["t", 0].offset == 5
        clock.advance(8 * DAY_MS // 100)


def test_two_brokers_follow_one_clock() -> None:
    clock = ManualClock()
    config = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1000}
    with Broker(config, clock=clock) as one, Broker(config, clock=clock) as other:
        for broker in (one, other):
            broker.create_topic("t")
            broker.commit("g", {("t", 0): 5})
        clock.advance(62 * SECOND_MS)
        assert one.committed("g") == other.committed("g") == {}
    assert clock.advance(5).mono_ms == 62_005


def test_what_is_due_when_an_advance_ends_is_done_on_every_broker_of_the_clock() -> None:
    clock = ManualClock()
    with (
        Broker(clock=clock) as one,
        Broker(clock=clock) as other,
        connect(one) as first,
        connect(other) as second,
    ):
        members = [join(client) for client in (first, second)]
        clock.advance(10_000)
        assert [*map(heartbeat, (first, second), members)] == [25, 25]


def test_time_is_given_in_days_hours_minutes_and_seconds() -> None:
    assert ManualClock().advance(7, seconds=1, minutes=1, hours=1, days=1).mono_ms == 90_061_007


def test_fractions_of_a_time_become_whole_milliseconds() -> None:
    # advance(seconds=1.5) made the time a float: then produce raised TypeError, a join had UNKNOWN_SERVER_ERROR.
    clock = ManualClock(wall_ms=1e12 + 0.4)
    assert clock.now() == (10**12, 0)
    assert clock.advance(0.6, seconds=1.5, days=0.1) == (10**12 + 8_641_501, 8_641_501)
    assert clock.advance(0.4).mono_ms == 8_641_501
    clock.set_wall(2e12)
    assert all(type(ms) is int for ms in clock.now())
    with testing.Broker(clock=clock) as broker:
        clock.advance(minutes=0.001)
        assert broker.produce("t", [b"v"]) == {("t", 0): 1}
        client = connect(broker)
        assert heartbeat(client, join(client)) == 0
        client.close()


@pytest.mark.slow
def test_two_brokers_with_one_clock_pass_a_week_in_a_moment() -> None:
    # Each ran its periodic checks at their usual intervals: 8 days took minutes.
    clock = ManualClock()
    with testing.Broker(clock=clock) as one, testing.Broker(clock=clock) as two:
        for broker in (one, two):
            broker.create_topic("orders")
            broker.commit("billing", {("orders", 0): 0})
        clock.advance(days=8)
        assert (one.committed("billing"), two.committed("billing")) == ({}, {})


@pytest.mark.parametrize("ms", [math.nan, math.inf])
def test_a_time_that_is_no_number_is_refused(ms: float) -> None:
    clock = ManualClock(5)
    for move in (clock.advance, clock.set_wall, ManualClock):
        with pytest.raises(ValueError, match=f"a time is a finite number of milliseconds, not {ms}"):
            move(ms)
    for back in (-math.inf, -0.4):
        with pytest.raises(ValueError, match="time does not go back"):
            clock.advance(back)
    assert clock.now() == (5, 0)


@pytest.mark.parametrize(
    "move",
    [
        lambda clock: clock.advance(days=1e300),
        lambda clock: clock.advance(LATEST_MS - 999),
        lambda clock: clock.set_wall(LATEST_MS + 1),
        lambda clock: clock.set_wall(1e300),
        lambda clock: clock.set_wall(-1),
        lambda clock: ManualClock(1 << 63),
        lambda clock: ManualClock(-1),
        lambda clock: plain_clock.ManualClock(0, 1e300),
    ],
)
def test_a_time_that_kafka_cannot_store_is_refused(move: Callable[[ManualClock], object]) -> None:
    # `advance` took 6 s, and then every commit failed.
    clock = ManualClock(1000)
    with pytest.raises(
        ValueError, match=r"clock shows 0 ms to 253402300799999 ms, .*; this would be -?[0-9]"
    ):
        move(clock)
    assert clock.now() == (1000, 0)


def test_a_broker_works_at_the_last_moment() -> None:
    clock = ManualClock()
    with testing.Broker(clock=clock) as broker:
        broker.create_topic("orders")
        clock.set_wall(LATEST_MS)
        broker.commit("billing", {("orders", 0): 7})
        assert broker.committed("billing")["orders", 0].offset == 7
        with pytest.raises(ValueError, match="year 9999"):
            clock.advance(1)


@pytest.mark.parametrize("timestamp", [-1, 1 << 63, 1e300, math.inf])
def test_a_timestamp_that_no_record_can_have_is_refused(timestamp: float) -> None:
    with pytest.raises(ValueError, match="a timestamp is 0 to 9223372036854775807 ms, not "):
        records_of([{"value": "v", "timestamp": timestamp}])


def test_time_does_not_go_back_and_is_not_waited_for_in_the_brokers_own_thread() -> None:
    async def main() -> None:
        async with Broker(clock=clock) as broker:
            broker.create_topic("t")
            with pytest.raises(RuntimeError, match=r"asyncio\.to_thread"):
                clock.advance(1)
            assert (await asyncio.to_thread(clock.advance, 5)).mono_ms == 5
            assert (await asyncio.to_thread(clock.run_until_idle)).mono_ms == 5

    clock = ManualClock()
    with pytest.raises(ValueError, match="time does not go back"):
        clock.advance(-1)
    asyncio.run(main())


def test_a_stopped_broker_does_not_block_an_advance_of_its_clock() -> None:
    clock = ManualClock()
    broker = Broker(clock=clock)
    for _ in range(5):
        with broker:
            moving = threading.Thread(target=clock.advance, args=(30 * DAY_MS,))
            moving.start()
        moving.join()
    assert clock.now().mono_ms == 150 * DAY_MS
