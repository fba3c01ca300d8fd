"""`Broker.wait_for`: woken by the broker itself, and told what was the case instead."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer

from kafka_offsets import ConfigError
from kafka_offsets.diagnosis.rules import diagnose
from kafka_offsets.testing import (
    Broker,
    Event,
    GroupView,
    ManualClock,
    MemberView,
    caught_up,
    committed,
    group_empty,
    group_stable,
    member_joined,
    record_produced,
    topic_created,
)
from tests.diagnosis.histories import gather


@pytest.fixture
def broker():
    with Broker() as running:
        yield running


def waiting(broker: Broker, event: Event) -> Callable[[], object]:
    """Begin to wait in another thread; return what gives the outcome once it is there."""
    found: list[object] = []

    def wait() -> None:
        try:
            found.append(broker.wait_for(event, 30))
        except Exception as error:  # noqa: BLE001 - given to the test
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until_watched(broker)

    def outcome() -> object:
        thread.join(40)
        return found[0]

    return outcome


def until_watched(broker: Broker) -> None:
    """Return once somebody waits, as the broker's own thread sees it."""
    while not watched(broker):
        pass


def watched(broker: Broker) -> object:
    """Return the events that the broker's own thread checks."""
    return broker._call(lambda server: server._watches.watched)  # type: ignore[attr-defined]


def test_what_is_the_case_already_is_not_waited_for(broker: Broker) -> None:
    broker.create_topic("orders", 3)
    broker.produce("orders", ["a", "b"])
    broker.commit("billing", {("orders", 0): 1})
    assert broker.wait_for(topic_created("orders"), 0) == 3
    assert broker.wait_for(record_produced("orders", count=2), 0) == 2
    assert broker.wait_for(record_produced("orders", 1), 0) == 1
    assert broker.wait_for(committed("billing"), 0) == {("orders", 0): 1}
    assert broker.wait_for(committed("billing", {("orders", 0): 0}), 0) == {("orders", 0): 1}
    broker.create_topic("empty")
    assert broker.wait_for(caught_up("nobody", ["empty"]), 0) == {}
    assert broker.wait_for(group_empty("billing"), 0).state == "Empty"


@pytest.mark.parametrize(
    ("event", "cause", "given"),
    [
        (topic_created("orders"), lambda broker: broker.create_topic("orders", 2), 2),
        (record_produced("t", count=3), lambda broker: broker.produce("t", ["a", "b", "c"]), 3),
        (caught_up("h"), lambda broker: broker.commit("h", {("u", 1): 2}), {("u", 0): 0, ("u", 1): 2}),
        (committed("g", {("t", 0): 5}), lambda broker: broker.commit("g", {("t", 0): 5}), {("t", 0): 5}),
    ],
    ids=["topic", "record", "lag", "commit"],
)
def test_waiting_threads_are_woken_by_events(broker: Broker, event: Event, cause, given) -> None:
    broker.produce("t", [])
    broker.create_topic("t")
    broker.create_topic("u", 3)
    broker.produce("u", ["a", "b"], partition=1)
    broker.commit("h", {("u", 0): 0})
    outcome = waiting(broker, event)
    broker.create_topic("unrelated")
    cause(broker)
    assert outcome() == given


def consumer(broker: Broker, client_id: str) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "billing",
            "client.id": client_id,
            "heartbeat.interval.ms": 100,
        }
    )
    made.subscribe(["orders"])
    return made


def test_a_group_becomes_stable_and_then_empty(broker: Broker) -> None:
    broker.create_topic("orders", 2)
    stable = waiting(broker, group_stable("billing", members=1))
    one = consumer(broker, "one")
    try:
        one.poll(0)
        view = stable()
        (member,) = view.members
        assert (member.client_id, member.partitions) == ("one", (("orders", 0), ("orders", 1)))
        assert view == broker.group("billing")
        joined = waiting(broker, member_joined("billing", client_id="two"))
        two = consumer(broker, "two")
        try:
            two.poll(0)
            assert joined().client_id == "two"
            both = waiting(broker, group_stable("billing", members=2))
            while not broker.group("billing").is_settled:  # a consumer gives up partitions when it polls
                one.poll(0.05), two.poll(0.05)
            assert [len(each.partitions) for each in both().members] == [1, 1]
        finally:
            two.close()
        empty = waiting(broker, group_empty("billing"))
    finally:
        one.close()
    assert empty().members == ()


def test_a_time_out_says_what_is_the_case_now(broker: Broker) -> None:
    broker.produce("orders", ["a"])
    broker.commit("billing", {("orders", 0): 1})
    broker.commit("beyond", {("orders", 0): 2})
    for event, said in [
        (group_stable("nobody"), "group 'nobody' is stable; now: group 'nobody' does not exist"),
        (group_stable("billing", members=1), "with 1 member; now: Empty in generation 0 with 0 members"),
        (committed("billing", {("orders", 0): 9}), "has committed orders-0 at 9; now: orders-0 at 1"),
        (committed("nobody"), "has committed an offset; now: group 'nobody' does not exist"),
        (record_produced("orders", 0, count=2), "orders-0 holds 2 records; now: 1"),
        (record_produced("order"), "now: topic order does not exist; did you mean orders\\?"),
        (caught_up("nobody"), "has caught up; now: group 'nobody' does not exist"),
        (caught_up("nobody", ["orders"]), "has caught up in orders; now: orders-0 with a lag of 1"),
        (caught_up("beyond"), "has caught up; now: orders-0 with a lag of -1"),
        (topic_created("x"), "topic x is there; now: the topics __consumer_offsets, orders"),
        (member_joined("billing", client_id="c"), "has a member with the client id 'c'; now: Empty"),
    ]:
        with pytest.raises(TimeoutError, match="after 0.01 s, not yet: .*" + said):
            broker.wait_for(event, 0.01)
    assert not watched(broker)


@pytest.mark.parametrize("in_its_loop", [False, True], ids=["thread", "same loop"])
def test_a_coroutine_waits_while_its_loop_runs(in_its_loop: bool) -> None:
    async def wait(broker: Broker) -> None:
        waiting = asyncio.create_task(broker.async_wait_for(topic_created("orders"), 30))
        await asyncio.sleep(0)
        assert watched(broker)
        broker.create_topic("orders", 2)
        assert await waiting == 2
        assert await broker.async_wait_for(topic_created("orders"), 0) == 2
        with pytest.raises(
            TimeoutError,
            match=r"after 0.01 s, not yet: .* has committed an offset; now: group '.*' does not exist$",
        ):
            await broker.async_wait_for(committed("nobody"), 0.01)
        assert not watched(broker)

    async def run() -> None:
        if in_its_loop:
            async with Broker() as broker:
                await wait(broker)
        else:
            with Broker() as broker:
                await wait(broker)

    asyncio.run(run())


def test_a_cancelled_wait_is_forgotten(broker: Broker) -> None:
    async def run() -> None:
        waiting = asyncio.create_task(broker.async_wait_for(topic_created("orders")))
        await asyncio.sleep(0)
        assert watched(broker)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(run())
    broker.create_topic("orders")
    assert not watched(broker)


@pytest.mark.parametrize(
    ("make", "result"),
    [
        (group_stable, GroupView),
        (group_empty, GroupView),
        (member_joined, MemberView),
        (committed, dict[tuple[str, int], int]),
        (caught_up, dict[tuple[str, int], int]),
        (record_produced, int),
        (topic_created, int),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_type_checker_knows_the_result_of_an_event(make: Callable[..., Event[Any]], result: object) -> None:
    assert get_type_hints(make)["return"] == Event[result]  # type: ignore[valid-type]


@pytest.mark.parametrize("wait", [Broker.wait_for, Broker.async_wait_for])
def test_a_wait_has_the_type_of_its_event(wait: Callable[..., Any]) -> None:
    hints = get_type_hints(wait)
    assert isinstance(hints["return"], TypeVar)
    assert get_args(hints["event"]) == (hints["return"],)


def test_stopping_the_broker_wakes_waiting_threads() -> None:
    broker = Broker()
    broker.start()
    outcome = waiting(broker, topic_created("x"))
    broker.stop()
    assert str(outcome()) == "this broker was stopped while somebody waited: topic x is there"
    with pytest.raises(RuntimeError, match="not running"):
        broker.wait_for(topic_created("x"))


def test_an_event_that_fails_raises_in_its_waiters_alone(broker: Broker) -> None:
    def look(core: object) -> None:
        raise ConfigError("broken")

    with pytest.raises(ConfigError, match="broken"):
        broker.wait_for(Event("nothing", look, str))
    broker.create_topic("orders")


def test_waiting_costs_a_broker_nothing_once_it_is_over(broker: Broker) -> None:
    looked = []
    event = Event("never", looked.append, lambda core: "no")
    with pytest.raises(TimeoutError):
        broker.wait_for(event, 0.01)
    before = len(looked)
    broker.create_topic("orders")
    assert len(looked) == before


def test_no_thread_is_busy_while_somebody_waits(broker: Broker) -> None:
    outcome = waiting(broker, topic_created("orders"))
    looked = Event("looks", lambda core: None, lambda core: "")
    began = time.process_time()
    with pytest.raises(TimeoutError):
        broker.wait_for(looked, 0.3)
    assert time.process_time() - began < 0.2
    broker.create_topic("orders")
    assert outcome() == 1


def test_what_waits_for_the_clock_of_the_test_says_so() -> None:
    clock = ManualClock()
    with Broker({"group.initial.rebalance.delay.ms": 100}, clock=clock) as broker:
        broker.create_topic("orders", 1)
        settings = {"group.id": "billing", "log_level": 0}
        with_delay = broker.faults.delay("OffsetFetch", ms=300)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
        consumer.subscribe(["orders"])
        consumer.poll(0)
        broker.wait_for(member_joined("billing"))
        said = (
            "for more members, for 100 ms of the test's clock (group.initial.rebalance.delay.ms): advance it"
        )
        with pytest.raises(TimeoutError) as caught:
            broker.wait_for(group_stable("billing"), 0.01)
        now = "now: PreparingRebalance in generation 0 with 1 member; why: group 'billing'"
        assert now in str(caught.value)
        assert str(caught.value).endswith(said)
        clock.advance(40)
        assert said.replace("100", "60") in str(broker.why("billing"))
        clock.advance(60)
        broker.wait_for(group_stable("billing"))
        assert "clock" not in str(broker.why())
        consumer.close()
        assert "300 ms of the test's clock" in repr(with_delay)
    with Broker() as broker:
        assert "clock" not in repr(broker.faults.delay("OffsetFetch", ms=300))


def test_members_that_are_missing_are_waited_for_by_the_clock_of_the_test() -> None:
    """The first member is told to rejoin by its next heartbeat, some seconds later."""
    missing = Event(
        "members are missing",
        lambda core: diagnose(gather(core, "billing"), core.clock.now().wall_ms) or None,
        lambda _: "not yet",
    )
    with Broker({"group.initial.rebalance.delay.ms": 0}, clock=ManualClock()) as broker:
        broker.create_topic("orders", 1)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing", "log_level": 0}
        settings |= {"max.poll.interval.ms": 50_000}
        first, second = Consumer(settings), Consumer(settings)
        first.subscribe(["orders"])
        broker.wait_for(group_stable("billing"))
        second.subscribe(["orders"])
        (finding,) = broker.wait_for(missing)
        assert finding.name == "rebalance-waits"
        assert "it waits for 'rdkafka' at 127.0.0.1 to join again, silent for 0 ms" in finding.sentence
        assert finding.sentence.endswith(", removed in 45 s of the test's clock")
        first.close()
        second.close()


def test_kafka_python_reads_when_the_test_advances_past_the_delay() -> None:
    clock = ManualClock()
    values = []
    with Broker({"group.initial.rebalance.delay.ms": 100}, clock=clock) as broker:
        broker.produce("orders", ["a"])

        def read() -> None:
            with KafkaConsumer(
                "orders",
                bootstrap_servers=broker.bootstrap_servers,
                group_id="billing",
                auto_offset_reset="earliest",
            ) as consumer:
                values.append(next(consumer).value)

        reading = threading.Thread(target=read)
        reading.start()
        broker.wait_for(member_joined("billing"))
        clock.advance(100)
        reading.join()
    assert values == [b"a"]


def test_a_wait_that_fails_shows_no_other_error(broker: Broker) -> None:
    """A failed test showed forty lines of concurrent.futures and of the package."""
    with pytest.raises(TimeoutError, match="not yet") as failed:
        broker.wait_for(group_stable("nobody"), 0.01)
    assert failed.value.__context__ is None
    shown = [entry.frame.f_locals for entry in failed.traceback]
    assert [bool(each.get("__tracebackhide__")) for each in shown] == [False, True, True]
