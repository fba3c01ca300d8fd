"""The consumer against an embedded broker: what it reads, commits and survives."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_offsets import CommitRefusedError, ConfigError, ErrorCode
from kafka_offsets.client import (
    Admin,
    ConsumeInitOffsetNotKnown,
    Consumer,
    InitOffsetNotKnown,
    InvalidPartitionsToGetOffset,
    SubscriptionIsEmpty,
    SubscriptionNotValid,
)
from kafka_offsets.errors import ConnectionLostError, ListenerError, RefusedError
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.testing import Broker, Cluster, ManualClock
from tests.client.consumers import consumers, poll_until, properties, read, values

Make = Callable[..., Any]
NUMBERS = [str(number).encode() for number in range(100)]
PROTOCOLS = ["classic", "consumer"]
protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.consumer.heartbeat.interval.ms": 50}
    settings |= {"group.consumer.min.heartbeat.interval.ms": 50}
    with Broker(settings) as running:
        running.create_topic("t", 4)
        yield running


@pytest.fixture
def make(broker: Broker) -> Iterator[Make]:
    with consumers(broker.bootstrap_servers) as made:
        yield made


# Reading


@protocols
def test_a_member_reads_every_record_once(broker: Broker, make: Make, protocol: str) -> None:
    broker.produce("t", NUMBERS)
    consumer = make("t", group_protocol=protocol)
    assert values(read(consumer, 100)) == sorted(NUMBERS)
    assert consumer.poll(100) == []
    broker.produce("t", [b"later"], partition=2)
    (record,) = read(consumer, 1)
    assert (record.topic, record.partition, record.value) == ("t", 2, b"later")


def test_a_poll_returns_at_most_so_many_records_in_order(broker: Broker, make: Make) -> None:
    broker.produce("t", NUMBERS, partition=0)
    consumer = make("t", 0, max_poll_records=7)
    sizes, offsets = [], []
    while len(offsets) < 100:
        records = consumer.poll(1000)
        sizes.append(len(records))
        offsets += [record.offset for record in records]
    assert offsets == list(range(100))
    assert max(sizes) == 7


@pytest.mark.parametrize("codec", list(Compression))
def test_records_of_every_codec_are_read(broker: Broker, make: Make, codec: Compression) -> None:
    broker.produce("t", [b"x" * 500] * 50, partition=0)
    broker._wait_for(lambda server: server.exchange(produced(0, codec), 9))
    found = read(make("t", 0), 53)
    assert [record.value for record in found[50:]] == [b"a" * 90, None, b""]
    assert [record.key for record in found[50:]] == [b"k", None, None]
    assert [record.headers for record in found[50:]] == [(("h", b"v"),), (), ()]


def produced(partition: int, codec: Compression) -> Any:
    from kafka_offsets.protocol import messages

    records = [(b"k", b"a" * 90, (("h", b"v"),), 5), (None, None, (), 6), (None, b"", (), 7)]
    batch = bytes(encode_batch(records, compression=codec))
    made = messages.ProduceRequest
    data = made.PartitionProduceData(partition, batch)
    return made(None, -1, 1000, [made.TopicProduceData("t", partition_data=[data])])


def test_partitions_with_little_data_are_not_held_up_by_those_with_much(broker: Broker, make: Make) -> None:
    broker.produce("t", [b"x" * 300] * 3000, partition=0)
    broker.produce("t", [b"rare"], partition=1)
    consumer = make()
    for partition in (0, 1):
        consumer.subscribe("t", partition)
    found: list[Any] = []
    while not any(record.value == b"rare" for record in found):
        found += consumer.poll(1000)
    assert len(found) < 3001


def test_a_poll_without_records_lasts_as_long_as_it_may(make: Make) -> None:
    consumer = make("t", 0)
    start = time.monotonic()
    assert consumer.poll(120) == []
    assert time.monotonic() - start >= 0.12


@protocols
def test_an_iteration_commits_up_to_its_record(broker: Broker, make: Make, protocol: str) -> None:
    broker.produce("t", NUMBERS, partition=0)
    consumer = make("t", group_protocol=protocol, enable_auto_commit=False)
    for record in consumer:
        if record.offset == 41:
            break
    consumer.commit()
    assert broker.committed("g")["t", 0].offset == 42
    assert consumer.get_positions() == {("t", 0): 42, ("t", 1): 0, ("t", 2): 0, ("t", 3): 0}
    assert next(consumer).offset == 42


@protocols
def test_a_consumer_that_has_unsubscribed_subscribes_to_something_else(
    broker: Broker, make: Make, protocol: str
) -> None:
    broker.create_topic("u")
    broker.produce("t", NUMBERS, partition=0)
    broker.produce("u", ["a"])
    consumer = make("t", group_protocol=protocol)
    read(consumer, 100)
    consumer.unsubscribe()
    group = broker.group("g")
    assert group is not None
    assert not group.members
    assert broker.committed("g")["t", 0].offset == 100
    with pytest.raises(SubscriptionIsEmpty):
        consumer.poll(0)
    consumer.subscribe("u")
    assert values(read(consumer, 1)) == [b"a"]
    consumer.unsubscribe()
    consumer.subscribe("t", 0, 98)
    assert values(read(consumer, 2)) == [b"98", b"99"]


def test_every_exception_of_the_client_is_in_its_module() -> None:
    from kafka_offsets import client

    raised = {RefusedError, ConfigError, CommitRefusedError, ListenerError, ConnectionLostError}
    assert raised <= {getattr(client, name) for name in client.__all__}


def test_records_that_were_fetched_before_a_move_are_not_returned(broker: Broker, make: Make) -> None:
    broker.produce("t", NUMBERS, partition=0)
    consumer = make("t", 0, max_poll_records=10)
    read(consumer, 10)
    consumer.position([("t", 0, 95)])
    assert [record.offset for record in read(consumer, 5)] == list(range(95, 100))
    consumer.position([("t", 0, 0)])
    assert consumer.poll(1000)[0].offset == 0


def test_a_position_is_for_assigned_partitions(make: Make) -> None:
    with pytest.raises(SubscriptionNotValid, match="t-3"):
        make("t", 0).position([("t", 0, 1), ("t", 3, 1)])
    with pytest.raises(SubscriptionNotValid):
        make("t", 0).position([("t", 0, -1)])


# Beginning


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 100)])
def test_without_a_committed_offset_reading_begins_at_an_end(
    broker: Broker, make: Make, reset: str, first: int
) -> None:
    broker.produce("t", NUMBERS, partition=0)
    consumer = make("t", 0, auto_offset_reset=reset)
    found = poll_until([consumer], consumer._positions.consumed)
    broker.produce("t", [b"more"], partition=0)
    assert len(found + read(consumer, 101 - first - len(found))) == 101 - first


def test_an_offset_outside_the_log_leads_to_an_end(broker: Broker, make: Make) -> None:
    broker.produce("t", NUMBERS, partition=0)
    assert len(read(make("t", 0, 1000), 100)) == 100
    with pytest.raises(ConsumeInitOffsetNotKnown, match="offset 1000 is outside the log"):
        read(make("t", 0, 1000, auto_offset_reset="none"), 1)


@protocols
def test_without_a_reset_an_unknown_offset_is_an_error(broker: Broker, make: Make, protocol: str) -> None:
    broker.produce("t", NUMBERS, partition=0)
    consumer = make("t", auto_offset_reset="none", group_protocol=protocol)
    with pytest.raises(InitOffsetNotKnown, match="t-0: no offset to begin at is known"):
        poll_until([consumer], lambda: False)
    consumer.position([("t", partition, 0) for partition in range(4)])
    assert len(read(consumer, 100)) == 100


@protocols
def test_a_group_continues_where_it_has_committed(broker: Broker, make: Make, protocol: str) -> None:
    broker.produce("t", NUMBERS)
    with Consumer(properties(broker.bootstrap_servers, group_protocol=protocol)) as first:
        first.subscribe("t")
        read(first, 100)
    broker.assert_lag("g", 0)
    broker.produce("t", [b"new"])
    assert values(read(make("t", group_protocol=protocol), 1)) == [b"new"]


# Committing


def test_positions_are_committed_now_and_then(broker: Broker, make: Make) -> None:
    broker.produce("t", NUMBERS, partition=0)
    consumer = make("t", auto_commit_interval_ms=20)
    read(consumer, 100)
    # On a busy machine the first of these commits comes before the last record.
    poll_until([consumer], lambda: ("t", 0) in broker.committed("g"))
    poll_until([consumer], lambda: broker.committed("g")["t", 0].offset == 100)


def test_records_that_were_not_returned_are_not_committed(broker: Broker, make: Make) -> None:
    broker.produce("t", NUMBERS, partition=0)
    consumer = make("t", max_poll_records=10, auto_commit_interval_ms=0)
    read(consumer, 10)
    consumer.close()
    assert broker.committed("g")["t", 0].offset == 10


def test_without_automatic_commits_nothing_is_committed(broker: Broker, make: Make) -> None:
    broker.produce("t", NUMBERS)
    consumer = make("t", enable_auto_commit=False, auto_commit_interval_ms=0)
    read(consumer, 100)
    consumer.close()
    assert broker.committed("g") == {}


def test_a_commit_from_outside_a_group_with_members_is_refused(make: Make) -> None:
    inside = make("t")
    inside.get_partitions()
    with pytest.raises(CommitRefusedError) as refused:
        make("t", 0, enable_auto_commit=False).commit([("t", 0, 1)])
    assert refused.value.errors == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_consumer_without_a_group_commits_nothing(make: Make) -> None:
    consumer = make("t", 0, group_id=None)
    for call in (consumer.commit, lambda: consumer.commit([("t", 0, 1)], False)):
        with pytest.raises(ConfigError, match=r"group\.id is missing"):
            call()
    with pytest.raises(InvalidPartitionsToGetOffset):
        consumer.get_offsets()
    with pytest.raises(ConfigError, match=r"group\.id is missing"):
        make(group_id=None).subscribe("t")


@pytest.mark.parametrize("arguments", [(1,), ([], 1), ([], True, 3)])
def test_a_commit_with_other_arguments_is_an_error(make: Make, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        make("t", 0).commit(*arguments)


# Groups


@protocols
def test_members_share_partitions_and_inherit_them(broker: Broker, make: Make, protocol: str) -> None:
    first, second, third = (make("t", group_protocol=protocol) for _ in range(3))
    everybody = [first, second, third]
    poll_until(everybody, lambda: sorted(len(each.owned) for each in everybody) == [1, 1, 2])
    assert sorted(place for each in everybody for place in each.owned) == [("t", p) for p in range(4)]
    second.close()
    rest = [first, third]
    poll_until(rest, lambda: [len(each.owned) for each in rest] == [2, 2])
    broker.produce("t", NUMBERS)
    found = poll_until(rest, lambda: len(broker.committed("g")) == 4 or commit_all(rest))
    while len(found) < 100:
        found += poll_until(rest, lambda: True) or first.poll(50) + third.poll(50)
    assert values(found) == sorted(NUMBERS)


def commit_all(members: list[Any]) -> bool:
    for each in members:
        each.commit(False)
    return False


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_every_assignor_shares_out(make: Make, strategy: str) -> None:
    first = make("t", partition_assignment_strategy=strategy)
    assert len(first.get_partitions()) == 4
    second = make("t", partition_assignment_strategy=strategy)
    poll_until([first, second], lambda: (len(first.owned), len(second.owned)) == (2, 2))
    given_up = [partitions for what, partitions in first.calls if what == "deassigned"]
    assert [len(each) for each in given_up] == ([2] if strategy == "cooperative-sticky" else [4])


@protocols
def test_topics_that_match_a_pattern_are_found(broker: Broker, make: Make, protocol: str) -> None:
    consumer = make(re.compile("u.*"), metadata_max_age_ms=50, group_protocol=protocol)
    assert consumer.get_partitions() == []
    broker.create_topic("u1", 1)
    broker.create_topic("not-u", 1)
    poll_until([consumer], lambda: consumer.owned == [("u1", 0)])
    broker.create_topic("u2", 2)
    poll_until([consumer], lambda: len(consumer.owned) == 3)
    consumer.subscribe("t")
    poll_until([consumer], lambda: len(consumer.owned) == 7)


def test_internal_topics_match_only_if_that_is_wanted(broker: Broker, make: Make) -> None:
    broker.commit("other", {("t", 0): 1})
    assert {topic for topic, _ in make(re.compile(".*")).get_partitions()} == {"t"}
    found = make(re.compile(".*"), group_id="h", exclude_internal_topics=False).get_partitions()
    assert {topic for topic, _ in found} == {"t", "__consumer_offsets"}


@protocols
def test_new_partitions_are_assigned(broker: Broker, make: Make, protocol: str) -> None:
    from kafka_offsets.protocol import messages

    consumer = make("t", metadata_max_age_ms=50, group_protocol=protocol)
    assert len(consumer.get_partitions()) == 4
    made = messages.CreatePartitionsRequest
    request = made([made.CreatePartitionsTopic("t", 6, None)], 1000)
    broker._wait_for(lambda server: server.exchange(request, 3))
    poll_until([consumer], lambda: len(consumer.owned) == 6)


@protocols
def test_a_static_member_returns_without_a_rebalance(broker: Broker, make: Make, protocol: str) -> None:
    options = {"group_protocol": protocol, "group_instance_id": "one"}
    first = make("t", **options)
    assert len(first.get_partitions()) == 4
    before = broker.group("g")
    first.close()
    second = make("t", **options)
    assert len(second.get_partitions()) == 4
    after = broker.group("g")
    assert before is not None and after is not None
    if protocol == "classic":
        assert after.generation == before.generation


def test_an_instance_that_was_replaced_is_fenced(make: Make) -> None:
    first = make("t", group_instance_id="one")
    first.get_partitions()
    make("t", group_instance_id="one").get_partitions()
    with pytest.raises(RefusedError, match="FENCED_INSTANCE_ID"):
        poll_until([first], lambda: False)


def test_an_unknown_assignor_of_the_broker_is_refused(make: Make) -> None:
    consumer = make("t", group_protocol="consumer", group_remote_assignor="mine")
    with pytest.raises(RefusedError, match="UNSUPPORTED_ASSIGNOR"):
        consumer.get_partitions()


@protocols
def test_a_member_whose_session_has_expired_joins_again(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    with (
        Broker({"group.initial.rebalance.delay.ms": 0}, clock=clock) as running,
        consumers(running.bootstrap_servers) as make,
    ):
        running.create_topic("t", 2)
        consumer = make("t", group_protocol=protocol, auto_commit_interval_ms=600_000)
        assert len(consumer.get_partitions()) == 2
        running.produce("t", [b"a"], partition=0)
        read(consumer, 1)
        clock.advance(minutes=1)  # the session ends
        assert (group := running.group("g")) is None or not group.members
        records = poll_until([consumer], lambda: [what for what, _ in consumer.calls].count("assigned") >= 2)
        assert running.committed("g") == {}
        assert caplog.records == [], "who is no member any more does not try to commit"
        assert values(records or read(consumer, 1)) == [b"a"]


@protocols
def test_a_partition_that_returns_is_committed_again_at_the_offset_of_an_earlier_commit(
    protocol: str,
) -> None:
    """The member remembered its last commit of a partition that it had lost, and skipped an equal one."""
    clock = ManualClock()
    with (
        Broker({"group.initial.rebalance.delay.ms": 0}, clock=clock) as running,
        consumers(running.bootstrap_servers) as make,
    ):
        running.create_topic("t", 1)
        running.produce("t", [b"a"])
        consumer = make("t", group_protocol=protocol, auto_commit_interval_ms=600_000)
        read(consumer, 1)
        consumer.commit()
        clock.advance(minutes=1)  # the session ends
        Admin({"bootstrap.servers": running.bootstrap_servers}).alter_consumer_group_offsets(
            "g", {("t", 0): 0}
        )
        assert values(read(consumer, 1)) == [b"a"]
        consumer.close()
        assert running.committed("g")["t", 0].offset == 1


def test_an_error_in_a_callback_reaches_the_caller_and_the_next_poll_continues(broker: Broker) -> None:
    class Failing(Consumer):
        fails = True

        def on_partition_assigned(self, partitions: list[tuple[str, int]]) -> None:
            if self.fails:
                raise ValueError("mine")

    broker.produce("t", [b"a"])
    with Failing(properties(broker.bootstrap_servers)) as consumer:
        consumer.subscribe("t")
        with pytest.raises(ValueError, match="mine"):
            poll_until([consumer], lambda: False)
        assert values(read(consumer, 1)) == [b"a"]


# Faults


APIS = [
    "ApiVersions",
    "FindCoordinator",
    "Metadata",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "OffsetFetch",
    "ListOffsets",
    "Fetch",
    "OffsetCommit",
]


LOST = [
    pytest.param(api, kind, marks=pytest.mark.slow if (api, kind) == ("JoinGroup", "drop") else ())
    for api in APIS
    for kind in ("close", "half_answer", "drop")
]


@pytest.mark.parametrize(("api", "kind"), LOST)
def test_a_lost_response_loses_no_record_and_no_commit(
    broker: Broker, make: Make, api: str, kind: str
) -> None:
    broker.produce("t", NUMBERS)
    fault = getattr(broker.faults, kind)(api, n=1)
    # Without a response a join has failed 5 s after the rebalance timeout.
    more = {"max_poll_interval_ms": 1_000} if (api, kind) == ("JoinGroup", "drop") else {}
    consumer = make("t", request_timeout_ms=300, session_timeout_ms=6_000, **more)
    found = read(consumer, 100)
    consumer.commit(True)
    if api == "Heartbeat" and kind != "drop":
        poll_until([consumer], lambda: fault.hits)
    assert fault.hits == 1 or api == "Heartbeat"
    assert values(found) == sorted(NUMBERS)
    broker.assert_lag("g", 0)


ERRORS = [
    ("Metadata", "LEADER_NOT_AVAILABLE"),
    ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("JoinGroup", "NOT_COORDINATOR"),
    ("JoinGroup", "UNKNOWN_MEMBER_ID"),
    ("JoinGroup", "REBALANCE_IN_PROGRESS"),
    ("SyncGroup", "REBALANCE_IN_PROGRESS"),
    ("SyncGroup", "NOT_COORDINATOR"),
    ("SyncGroup", "ILLEGAL_GENERATION"),
    ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("OffsetFetch", "NOT_COORDINATOR"),
    ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT"),
    ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
    ("ListOffsets", "OFFSET_NOT_AVAILABLE"),
    ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
    ("Fetch", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("OffsetCommit", "NOT_COORDINATOR"),
]


@pytest.mark.parametrize(("api", "error"), ERRORS)
def test_an_error_that_passes_loses_nothing(broker: Broker, make: Make, api: str, error: str) -> None:
    broker.produce("t", NUMBERS)
    fault = broker.faults.error(api, error, n=2)
    consumer = make("t")
    found = read(consumer, 100)
    consumer.commit(True)
    assert fault.hits == 2
    assert values(found) == sorted(NUMBERS)
    broker.assert_lag("g", 0)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("JoinGroup", "GROUP_AUTHORIZATION_FAILED"),
        ("JoinGroup", "GROUP_MAX_SIZE_REACHED"),
        ("SyncGroup", "GROUP_AUTHORIZATION_FAILED"),
        ("FindCoordinator", "GROUP_AUTHORIZATION_FAILED"),
        ("Metadata", "TOPIC_AUTHORIZATION_FAILED"),
        ("OffsetFetch", "GROUP_AUTHORIZATION_FAILED"),
        ("Fetch", "TOPIC_AUTHORIZATION_FAILED"),
        ("ListOffsets", "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_an_error_that_is_final_is_raised(broker: Broker, make: Make, api: str, error: str) -> None:
    broker.produce("t", NUMBERS)
    consumer = make("t", enable_auto_commit=False)
    broker.faults.error(api, error, n=1)
    with pytest.raises(RefusedError, match=error):
        poll_until([consumer], lambda: False)


@pytest.mark.parametrize(
    "error", ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"]
)
def test_a_consumer_group_survives_the_errors_of_heartbeats(broker: Broker, make: Make, error: str) -> None:
    broker.produce("t", NUMBERS)
    consumer = make("t", group_protocol="consumer")
    assert len(consumer.get_partitions()) == 4
    fault = broker.faults.error("ConsumerGroupHeartbeat", error, n=1)
    poll_until([consumer], lambda: fault.hits == 1)
    poll_until([consumer], lambda: len(consumer.owned) == 4 and consumer._is_assigned)
    consumer.position([("t", partition, 0) for partition in range(4)])
    assert values(read(consumer, 100)) == sorted(NUMBERS)
    is_lost = "MEMBER" in error
    assert [what for what, _ in consumer.calls].count("deassigned") == is_lost


def test_no_broker_is_no_record_and_a_call_that_waits_says_so() -> None:
    with Broker() as gone:
        bootstrap = gone.bootstrap_servers
    with Consumer(properties(bootstrap, default_api_timeout_ms=100)) as consumer:
        consumer.subscribe("t")
        assert consumer.poll(50) == []
        with pytest.raises(TimeoutError, match=f"an assignment; {bootstrap}: ECONNREFUSED"):
            consumer.get_partitions()


def test_a_second_bootstrap_server_is_used_when_the_first_is_stopped(broker: Broker) -> None:
    broker.produce("t", NUMBERS)
    with Broker() as gone:
        first = gone.bootstrap_servers
    with Consumer(properties(f"{first},{broker.bootstrap_servers}")) as consumer:
        consumer.subscribe("t")
        assert len(read(consumer, 100)) == 100


@pytest.mark.slow
def test_records_are_read_through_the_moves_of_a_cluster() -> None:
    with Cluster(brokers=3) as cluster, consumers(cluster.bootstrap_servers) as make:
        cluster.create_topic("t", 6)
        consumer = make("t")
        found = []
        for number in range(5):
            cluster.produce("t", [f"{number}-{each}".encode() for each in range(60)])
            found += read(consumer, 60)
            for partition in range(6):
                cluster.move_leader("t", partition)
            cluster.move_coordinator("g")
        assert len({record.value for record in found}) == 300
        consumer.commit(True)
        cluster.assert_lag("g", 0)
        assert [what for what, _ in consumer.calls] == ["assigned"], "no rebalance"


# Closing


@protocols
def test_closing_leaves_the_group_at_once(broker: Broker, make: Make, protocol: str) -> None:
    consumer = make("t", group_protocol=protocol)
    consumer.get_partitions()
    consumer.close()
    consumer.close()
    group = broker.group("g")
    assert group is not None and not group.members
    for call in (lambda: consumer.poll(0), consumer.commit, lambda: consumer.subscribe("t")):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_closing_a_consumer_that_did_nothing_needs_no_broker() -> None:
    Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}).close()


def test_a_wrong_address_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as gone:
        bootstrap = gone.bootstrap_servers
    caplog.clear()
    with Consumer({"bootstrap.servers": bootstrap, "reconnect.backoff.ms": 1}) as consumer:
        consumer.subscribe("orders", 0, 0)
        assert consumer.poll(100) == []
        assert consumer.poll(100) == []
    assert caplog.messages == [f"the broker at {bootstrap} is not reached: ECONNREFUSED"]


def test_a_missing_topic_is_a_warning_once(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    reader = make(**{"allow.auto.create.topics": False, "retry.backoff.ms": 1})
    reader.subscribe("nowhere", 0, 0)
    assert reader.poll(200) == []
    assert reader.poll(200) == []
    assert caplog.messages == ["topic nowhere does not exist"]
