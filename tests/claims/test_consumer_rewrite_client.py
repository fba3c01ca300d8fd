"""Source: the Kafka 0.9 consumer rewrite design: the thin consumer, `kafka_offsets.client.Consumer`.

Each public call, callback, exception and procedure of the document has a test; the coordinator's part is in
test_consumer_rewrite.py. Not served, and so without a test:

- option 2 as the only signal, in which a failed coordinator causes a rebalance: the consumer sends a heartbeat first.
- the order of select, metadata and fetch inside one poll: what the application sees of it is tested.

Of the two descriptions of `poll` without a subscription, the consumer follows the second one: it is an error.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_offsets import CommitRefusedError
from kafka_offsets.client import (
    ConsumeInitOffsetNotKnown,
    InitOffsetNotKnown,
    InvalidPartitionsToCommitOffset,
    InvalidPartitionsToGetOffset,
    OffsetUnknown,
    SubscriptionIsEmpty,
    SubscriptionNotValid,
)
from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.testing import Broker, Cluster
from tests.client.consumers import consumers, poll_until, read, values

Make = Callable[..., Any]
PARTITIONS = 4
ALL = [("t", partition) for partition in range(PARTITIONS)]


@pytest.fixture
def recorded() -> Iterator[Broker]:
    """A broker that keeps its requests, with ten records in each partition of t."""
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}
    with Broker(settings, record=True) as running:
        running.create_topic("t", PARTITIONS)
        running.create_topic("u", 1)
        for partition in range(PARTITIONS):
            running.produce("t", [f"{partition}-{number}" for number in range(10)], partition=partition)
        yield running


@pytest.fixture
def make(recorded: Broker) -> Iterator[Make]:
    with consumers(recorded.bootstrap_servers) as made:
        yield made


def asked(running: Broker, after: int = 0) -> list[str]:
    """The APIs of the requests, in order."""
    return [each.api for each in running.requests_after(after)]


def test_a_consumer_has_one_thread(make: Make) -> None:
    """Goals: single-threaded. Only the calls of the application do anything."""
    before = set(threading.enumerate())
    consumer = make("t")
    assert len(read(consumer, 40)) == 40
    consumer.commit(True)
    assert set(threading.enumerate()) <= before


def test_partitions_are_read_without_a_group(recorded: Broker, make: Make) -> None:
    """Goals, manual partition assignment; consumer startup: no need to communicate with a coordinator."""
    consumer = make("t", 1, group_id=None)
    consumer.subscribe("t", 3, 8)
    assert consumer.get_partitions() == [("t", 1), ("t", 3)]
    found = read(consumer, 12)
    assert {(each.partition, each.offset) for each in found} == {(1, n) for n in range(10)} | {(3, 8), (3, 9)}
    group_apis = {"FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch"}
    assert not group_apis & {*asked(recorded)}


def test_offsets_are_kept_elsewhere(recorded: Broker, make: Make) -> None:
    """Goals, manual offset management: the starting offset is given with the partition, or by position()."""
    consumer = make("t", 0, 7, enable_auto_commit=False)
    assert [each.offset for each in read(consumer, 3)] == [7, 8, 9]
    consumer.position([("t", 0, 9)])
    assert [each.offset for each in read(consumer, 1)] == [9]
    consumer.close()
    assert recorded.committed("g") == {}


def test_subscriptions_are_incremental(make: Make) -> None:
    """Consumer API, subscribe: topics add up; join, 2: a changed subscription is a reason to join again."""
    consumer = make("t")
    assert consumer.get_partitions() == ALL
    consumer.subscribe("u")
    poll_until([consumer], lambda: consumer.owned == [*ALL, ("u", 0)])


def test_a_subscription_that_does_not_fit_is_refused(make: Make) -> None:
    """Consumer API, subscribe: SubscriptionNotValidException; the subscription is as before."""
    by_topic, by_partition = make("t"), make("t", 0)
    for arguments in (("t", 0), ("t", 0, 5)):
        with pytest.raises(SubscriptionNotValid):
            by_topic.subscribe(*arguments)
    for topic in ("u", re.compile("u")):
        with pytest.raises(SubscriptionNotValid):
            by_partition.subscribe(topic)
    assert (by_topic.get_partitions(), by_partition.get_partitions()) == (ALL, [("t", 0)])


def test_poll_returns_the_fetched_records_or_none_after_its_timeout(recorded: Broker, make: Make) -> None:
    """Consumer API, poll: records with offset, partition and key; empty after the timeout."""
    consumer = make("u", 0)
    start = time.monotonic()
    assert consumer.poll(100) == []
    assert time.monotonic() - start >= 0.1
    recorded.produce("u", [{"key": "k", "value": "v", "timestamp": 5}])
    (record,) = read(consumer, 1)
    assert record[:6] == ("u", 0, 0, 5, b"k", b"v")


def test_an_empty_subscription_is_an_error(make: Make) -> None:
    """API implementation, poll 2, getPartition 1, getOffset 1. (Consumer startup says that poll returns nothing.)"""
    consumer = make()
    for call in (
        lambda: consumer.poll(0),
        consumer.get_partitions,
        consumer.get_offsets,
        lambda: consumer.get_offset("t", 0),
    ):
        with pytest.raises(SubscriptionIsEmpty):
            call()


def test_an_unknown_starting_offset_is_an_error(make: Make) -> None:
    """Consumer API, poll, and API implementation, fetch 3.1, which gives the exception another name."""
    consumer = make("t", 0, auto_offset_reset="none")
    assert issubclass(ConsumeInitOffsetNotKnown, InitOffsetNotKnown)
    with pytest.raises(ConsumeInitOffsetNotKnown):
        poll_until([consumer], lambda: False)
    consumer.position([("t", 0, 0)])
    assert len(read(consumer, 10)) == 10


@pytest.mark.parametrize("sync", [True, False])
def test_the_latest_offsets_are_committed(recorded: Broker, make: Make, sync: bool) -> None:
    """Consumer API, commit: all partitions that are consumed; with the flag, the response has come."""
    consumer = make("t", enable_auto_commit=False)
    read(consumer, 40)
    consumer.commit(sync)
    if not sync:
        poll_until([consumer], lambda: recorded.committed("g"))
    assert {place: each.offset for place, each in recorded.committed("g").items()} == dict.fromkeys(ALL, 10)


def test_given_offsets_are_committed_for_assigned_partitions(recorded: Broker, make: Make) -> None:
    """Consumer API, commit: InvalidPartitionsToCommitOffsetException in a group, with the flag, for others."""
    consumer = make("t", enable_auto_commit=False)
    assert consumer.get_partitions() == ALL
    consumer.commit([("t", 2, 5)], True)
    with pytest.raises(InvalidPartitionsToCommitOffset, match="u-0"):
        consumer.commit([("t", 1, 5), ("u", 0, 5)], True)
    assert {*recorded.committed("g")} == {("t", 2)}
    consumer.commit([("u", 0, 5)], False)
    poll_until([consumer], lambda: ("u", 0) in recorded.committed("g"), "best-effort: the broker allows it")


def test_without_a_group_any_partition_can_be_committed(recorded: Broker, make: Make) -> None:
    """Consumer API, commit: the check is for consumers whose group management was invoked."""
    consumer = make("t", 0, enable_auto_commit=False)
    consumer.commit([("u", 0, 1)], True)
    assert {*recorded.committed("g")} == {("u", 0)}


def test_get_partitions_waits_for_the_assignment(recorded: Broker, make: Make) -> None:
    """Consumer API, getPartitions: blocks until they are known; no poll is needed."""
    consumer = make("t")
    assert asked(recorded) == []
    assert consumer.get_partitions() == ALL
    assert [what for what, _ in consumer.calls] == ["assigned"]


def test_committed_offsets_are_fetched(recorded: Broker, make: Make) -> None:
    """Consumer API, getOffsets and getOffset: OffsetUnknownException if none was ever committed."""
    consumer = make("t", enable_auto_commit=False)
    for call in (consumer.get_offsets, lambda: consumer.get_offset("t", 0)):
        with pytest.raises(OffsetUnknown):
            call()
    consumer.commit([("t", 1, 4)], True)
    assert (consumer.get_offsets(), consumer.get_offset("t", 1)) == ({("t", 1): 4}, 4)
    with pytest.raises(OffsetUnknown):
        consumer.get_offset("t", 0)
    with pytest.raises(InvalidPartitionsToGetOffset):
        consumer.get_offset("u", 0)


@pytest.mark.parametrize("auto_commit", [True, False])
def test_the_callbacks_depend_on_automatic_commits(recorded: Broker, make: Make, auto_commit: bool) -> None:
    """Consumer API, callbacks: by default one commits, the other fetches the starting offsets."""
    consumer = make("t", enable_auto_commit=auto_commit)
    consumer.get_partitions()
    positions = consumer._positions
    # Reading what is committed is part of the callback, or left to the application and the next poll.
    looked = [each.must_reset or each.offset is not None for each in positions.table.values()]
    assert all(looked) or not auto_commit
    read(consumer, 40)
    consumer.close()
    assert consumer.calls == [("assigned", ALL), ("deassigned", ALL)]
    expected = dict.fromkeys(ALL, 10) if auto_commit else {}
    assert {place: each.offset for place, each in recorded.committed("g").items()} == expected


def test_a_client_id_is_not_required(recorded: Broker, make: Make) -> None:
    """Consumer startup: a default is used; the coordinator assigns the consumer id upon joining."""
    make("t").get_partitions()
    named = make("u", 0, client_id="mine")
    poll_until([named], lambda: recorded.requests.of(client_id="mine"))
    assert {each.client_id for each in recorded.requests} == {"kafka-offsets", "mine"}
    joins = recorded.requests.of("JoinGroup")
    assert joins[0].request.member_id == ""
    assert joins[-1].request.member_id == joins[0].response.member_id != ""


def test_the_coordinator_is_found_through_any_broker() -> None:
    """Coordinator discovery: through a broker that is not the coordinator."""
    with Cluster(brokers=2, record=True) as cluster:
        cluster.create_topic("t", 1)
        home = cluster.coordinator("g")
        (other,) = (each for each in cluster.nodes if each.id != home)
        with consumers(f"{other.host}:{other.port}") as make:
            assert make("t").get_partitions() == [("t", 0)]
        assert {each.node for each in cluster.requests.of("JoinGroup")} == {home}
        assert cluster.requests.of("FindCoordinator")[0].node == other.id


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("classic", ["JoinGroup", "JoinGroup", "SyncGroup"]), ("consumer", ["ConsumerGroupHeartbeat"])],
)
def test_joining_takes_one_round_trip_or_two(
    recorded: Broker, make: Make, protocol: str, expected: list[str]
) -> None:
    """API implementation, coordinate 1.3: two, if a member assigns (and one for its id), else one."""
    consumer = make("t", group_protocol=protocol)
    poll_until([consumer], lambda: consumer.calls)
    apis = ("JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat")
    assert [each for each in asked(recorded) if each in apis][: len(expected)] == expected
    assert consumer.calls == [("assigned", ALL)]


@pytest.mark.parametrize("signal", ["heartbeat", "close"])
def test_a_rebalance_drops_fetched_records_and_gives_up_partitions_before_the_join(signal: str) -> None:
    """Consumer (re)join-group, and rebalance process, options 1 and 2.

    With the second one no heartbeat is due for a minute: the closed socket alone begins the rebalance.
    """
    settings = {"group.initial.rebalance.delay.ms": 0, "group.rebalance.signal": signal}
    more = {"heartbeat_interval_ms": 60_000, "session_timeout_ms": 100_000} if signal == "close" else {}
    with (
        Broker(settings, record=True) as running,
        consumers(running.bootstrap_servers) as make,
    ):
        running.create_topic("t", 2)
        for partition in (0, 1):
            running.produce("t", [f"{partition}-{number}" for number in range(10)], partition=partition)
        first = make("t", max_poll_records=1, auto_commit_interval_ms=600_000, **more)
        found = read(first, 1)
        events: list[int] = []
        deassigned = first.on_partition_deassigned

        def note(partitions: list[tuple[str, int]]) -> None:
            events.append(len(running.requests.of("JoinGroup")))
            deassigned(partitions)

        first.on_partition_deassigned = note
        before = len(running.requests.of("JoinGroup"))
        second = make("t", **more)
        found += poll_until([first, second], lambda: len(first.owned) == len(second.owned) == 1)
        newcomers = 2  # its joins: for an id, and with it
        assert events[0] <= before + newcomers < len(running.requests.of("JoinGroup"))

        def is_all_read() -> bool:
            found.extend(first.poll(5) + second.poll(5))
            return len(found) >= 20

        poll_until([], is_all_read)
        # What was returned is committed; what was only fetched is read by the next owner, and by nobody else.
        assert values(found) == sorted(f"{p}-{number}".encode() for p in (0, 1) for number in range(10))


def test_metadata_is_refreshed_after_an_error_and_after_a_join(recorded: Broker, make: Make) -> None:
    """Consumer fetching data: 1) an error while fetching, 2) a join response force a metadata refresh."""
    consumer = make("t")
    read(consumer, 40)
    apis = asked(recorded)
    assert "Metadata" in apis[apis.index("SyncGroup") - 2 :], "2)"
    poll_until([consumer], lambda: not consumer._metadata._is_stale)
    last = recorded.last_event
    consumer.poll(20)
    assert "Metadata" not in asked(recorded, last)
    fault = recorded.faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER", n=1)
    poll_until([consumer], lambda: fault.hits and "Metadata" in asked(recorded, last), "1)")


def test_each_leader_is_fetched_from_and_poll_returns_what_any_has_sent() -> None:
    """Consumer fetching data: requests to the leaders; the data of all readable channels, also while one is silent."""
    settings = {"default.replication.factor": 1}
    with (
        Cluster(settings, brokers=2, record=True) as cluster,
        consumers(cluster.bootstrap_servers) as make,
    ):
        cluster.create_topic("t", 4)
        leaders = {partition: cluster.leader("t", partition) for partition in range(4)}
        assert {*leaders.values()} == {1, 2}
        for partition in leaders:
            cluster.produce("t", ["a", "b"], partition=partition)
        consumer = make(group_id=None)
        for partition in leaders:
            consumer.subscribe("t", partition)
        assert len(read(consumer, 8)) == 8
        for each in cluster.requests.of("Fetch", client_id="kafka-offsets"):
            asked_for = [p.partition for topic in each.request.topics for p in topic.partitions]
            assert {leaders[partition] for partition in asked_for} == {each.node}
        cluster.pause(1)
        partition = next(partition for partition, leader in leaders.items() if leader == 2)
        cluster.produce("t", ["c"], partition=partition)
        assert values(read(consumer, 1)) == [b"c"]
        cluster.resume(1)


def test_patterns_are_matched_by_the_consumer(recorded: Broker, make: Make) -> None:
    """Wildcard subscription handling: metadata of all topics; a changed list begins the re-join procedure."""
    consumer = make(re.compile("[uv]"), metadata_max_age_ms=30)
    assert consumer.get_partitions() == [("u", 0)]
    assert recorded.requests.of("Metadata")[0].request.topics is None
    joins = len(recorded.requests.of("JoinGroup"))
    recorded.create_topic("v", 1)
    poll_until([consumer], lambda: consumer.owned == [("u", 0), ("v", 0)])
    assert len(recorded.requests.of("JoinGroup")) > joins


def test_heartbeats_go_out_within_calls(recorded: Broker, make: Make) -> None:
    """Heartbeat protocol, 1: several in a session timeout, while the application polls."""
    consumer = make("u", heartbeat_interval_ms=20, session_timeout_ms=10_000)
    consumer.get_partitions()
    last, start = recorded.last_event, time.monotonic()
    poll_until([consumer], lambda: asked(recorded, last).count("Heartbeat") >= 5)
    assert time.monotonic() - start < 10
    assert "JoinGroup" not in asked(recorded, last), "join: otherwise it just keeps heartbeating"
    assert {each.response.error_code for each in recorded.requests.of("Heartbeat")} == {0}


def test_a_coordinator_that_is_silent_for_the_session_timeout_has_failed(
    recorded: Broker, make: Make
) -> None:
    """Heartbeat protocol, 4, and coordinator failure handling: it is discovered, then heartbeats go on."""
    consumer = make("u", heartbeat_interval_ms=100, session_timeout_ms=1_500)
    consumer.get_partitions()
    fault = recorded.faults.drop("Heartbeat", n=1)
    last = recorded.last_event
    poll_until([consumer], lambda: "FindCoordinator" in asked(recorded, last))
    assert fault.hits == 1
    poll_until([consumer], lambda: asked(recorded, last)[-1] == "Heartbeat")


def test_a_closed_channel_is_a_failed_coordinator_and_no_rebalance(recorded: Broker, make: Make) -> None:
    """Heartbeat protocol, 5: rediscovery; the open question of unnecessary rebalances: there is none."""
    consumer = make("u", heartbeat_interval_ms=60_000, session_timeout_ms=100_000)
    consumer.get_partitions()
    member, generation = consumer._membership.member_id, consumer._membership.generation
    last = recorded.last_event
    recorded.faults.close_connections()
    poll_until([consumer], lambda: "Heartbeat" in asked(recorded, last))
    apis = [each for each in asked(recorded, last) if each in ("FindCoordinator", "Heartbeat", "JoinGroup")]
    assert apis == ["FindCoordinator", "Heartbeat"]
    beat = recorded.requests_after(last).of("Heartbeat")[0].request
    assert (beat.member_id, beat.generation_id) == (member, generation)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_continues_at_another_coordinator_without_a_rebalance(protocol: str) -> None:
    """Coordinator failure handling: discover, connect, heartbeat; member id and generation are kept."""
    with Cluster(brokers=3) as cluster, consumers(cluster.bootstrap_servers) as make:
        cluster.create_topic("t", 3)
        consumer = make("t", group_protocol=protocol)
        consumer.get_partitions()
        member, generation = consumer._membership.member_id, consumer._membership.generation
        cluster.stop_node(cluster.coordinator("g"))
        cluster.produce("t", ["a", "b", "c"])
        assert values(read(consumer, 3)) == [b"a", b"b", b"c"]
        consumer.commit(True)
        assert (consumer._membership.member_id, consumer._membership.generation) == (member, generation)
        assert [what for what, _ in consumer.calls] == ["assigned"]


def test_a_join_is_sent_again_unless_its_error_is_fatal(recorded: Broker, make: Make) -> None:
    """Rebalance process, option 1: of an error join response, fatal ones are exceptions."""
    recorded.faults.error("JoinGroup", ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"], n=2)
    assert make("t").get_partitions() == ALL
    recorded.faults.error("JoinGroup", "GROUP_AUTHORIZATION_FAILED", group="h")
    with pytest.raises(RefusedError, match="GROUP_AUTHORIZATION_FAILED"):
        make("t", group_id="h").get_partitions()


def test_a_commit_of_a_former_member_is_refused(recorded: Broker, make: Make) -> None:
    """Commit offset: 1) within the group, 3) the correct generation; otherwise it is rejected."""
    consumer = make("t", enable_auto_commit=False)
    consumer.get_partitions()
    consumer._membership.generation += 1
    with pytest.raises(CommitRefusedError) as refused:
        consumer.commit([("t", 0, 1)], True)
    assert refused.value.errors == {("t", 0): ErrorCode.ILLEGAL_GENERATION}


def test_a_rejected_fetch_of_offsets_is_sent_to_the_new_coordinator(recorded: Broker, make: Make) -> None:
    """Fetch offset: upon a reject response the consumer connects to the new coordinator and retries."""
    consumer = make("t", enable_auto_commit=False)
    consumer.commit([("t", 0, 3)], True) if consumer.get_partitions() else None
    last = recorded.last_event
    recorded.faults.error("OffsetFetch", "NOT_COORDINATOR", n=1)
    assert consumer.get_offset("t", 0) == 3
    apis = [each for each in asked(recorded, last) if each in ("FindCoordinator", "OffsetFetch")]
    assert apis == ["OffsetFetch", "FindCoordinator", "OffsetFetch"]
    assert all(each.request.require_stable for each in recorded.requests.of("OffsetFetch")), "KIP-447"
