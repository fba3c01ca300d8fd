"""Source: the Kafka 0.9 consumer rewrite design: a thin consumer, and a coordinator for each group.

Tested is what it asks of a coordinator, by versions of the requests that have come of it; and, with kafka-python, what
a consumer sees of it. Its consumer is in test_consumer_rewrite_client.py. Not served, and so without a test:

- a fetch of offsets is refused to those who are no members: here, as in Kafka, everybody reads them; the test is below.

That the coordinator assigns the partitions and finds that a topic has changed is served by consumer groups (KIP-848),
and by classic groups with `group.assignment.by.coordinator`; otherwise a member of a classic group does so.
"""

import json
import threading
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata

from kafka_offsets import Broker
from kafka_offsets.assignors.member_data import decode_assignment, encode_subscription
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Cluster
from tests.claims.claimed import (
    CoreClient,
    GroupMember,
    after,
    ask_node,
    assignment,
    broker,
    delete_topic,
    describe,
    killed,
    stable,
    turn,
)
from tests.drivers.members import Consumer, join_request, settled
from tests.drivers.shard import ShardDriver
from tests.drivers.zookeeper_core import ZooKeeperCore
from tests.interop.waiting import until

_POLL_MS = 2_000
"""kafka-python 3.0.12 forgets the assignment of a SyncGroup whose answer comes after the end of its poll."""

REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
GONE = ErrorCode.UNKNOWN_MEMBER_ID


# Coordinator discovery


def test_the_coordinator_is_found_by_the_group() -> None:
    """Coordinator discovery: the answer names the coordinator of the group."""
    core = broker()
    answer = CoreClient(core).call(messages.FindCoordinatorRequest("g", 0), 1)
    assert (answer.error_code, answer.node_id, answer.port) == (0, core.broker.node.id, core.broker.node.port)


def test_any_broker_names_the_coordinator_and_only_that_one_serves_the_group() -> None:
    """Coordinator discovery, and coordinator overview: requests to another broker are rejected."""
    with Cluster(brokers=2) as cluster:
        found = [ask_node(cluster, node, messages.FindCoordinatorRequest("g", 0), 1) for node in (1, 2)]
        home = found[0].node_id
        assert [each.node_id for each in found] == [home, home] and home in (1, 2)
        for request, version, error in (
            (join_request(), 3, 0),
            (messages.HeartbeatRequest("g", 1, "a stranger"), 3, GONE),
            (messages.SyncGroupRequest("g", 1, "a stranger"), 3, GONE),
            (messages.LeaveGroupRequest("g", "a stranger"), 2, GONE),
            (messages.OffsetFetchRequest("g", []), 5, 0),
        ):
            assert ask_node(cluster, home, request, version).error_code == error
            assert ask_node(cluster, 3 - home, request, version).error_code == ErrorCode.NOT_COORDINATOR


# Join


def test_the_first_member_of_a_group_waits_for_no_other_member() -> None:
    """Rebalance process: of a group that does not exist yet the join is answered at once."""
    core = broker()
    member = GroupMember(core)
    member.send_join()
    turn(core)
    member.take_join()
    assert member.generation == 1


def test_members_are_named_by_the_coordinator() -> None:
    """Consumer startup: ids are assigned upon joining, the client's own id is no more than a part of them."""
    core = broker()
    first, second = stable(core, [b"", b""])
    assert first.member_id != second.member_id
    assert first.member_id.startswith("client-")


def test_a_join_waits_for_the_joins_of_all_members() -> None:
    """Rebalance process, option 1: the request is held until every member of the group has joined."""
    core = broker()
    first, second = stable(core, [b"", b""])
    newcomer = GroupMember(core)
    newcomer.send_join()
    first.send_join()
    turn(core)
    assert newcomer.client.take() == first.client.take() == []
    second.send_join()
    turn(core)
    for member in (first, second, newcomer):
        member.take_join()
    assert {first.generation, second.generation, newcomer.generation} == {3}


def test_a_member_that_does_not_join_in_time_is_removed_and_the_others_continue() -> None:
    """Rebalance process, option 1, step 4: whose join does not come is removed."""
    core = broker()
    first, silent = stable(core, [b"", b""])
    newcomer = GroupMember(core)
    newcomer.send_join()
    first.send_join()
    turn(core)
    for _ in range(11):
        after(core, 5_000)
        assert silent.heartbeat() == REBALANCE
    assert first.client.take() == []
    after(core, 5_000)
    turn(core)
    assert silent.heartbeat() == GONE
    first.take_join()
    newcomer.take_join()
    first.send_sync({})
    newcomer.send_sync()
    turn(core)
    assert len(describe(CoreClient(core), "g", 4).members) == 2


def test_a_fatal_error_of_a_join_is_distinguished_from_a_retriable_one() -> None:
    """Rebalance process: errors of joins are fatal or not."""
    driver = ShardDriver()
    driver.stable()
    assert driver.join(protocol_type="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.join(session_ms=1).error == ErrorCode.INVALID_SESSION_TIMEOUT
    assert driver.join("a stranger").error == GONE


# Failure detection


def test_a_heartbeat_checks_member_and_generation() -> None:
    """Heartbeat protocol, 2: an unknown consumer id or an old generation is an error."""
    driver = ShardDriver()
    (member,) = driver.stable()
    assert driver.beat(member, 1) == 0
    assert driver.beat("a stranger", 1) == GONE
    assert driver.beat(member, 0) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("signal", ["heartbeat", "close"])
def test_a_member_that_is_silent_for_its_session_timeout_has_failed(signal: str) -> None:
    """Heartbeat protocol, 3, and consumer failure handling: it is removed, and a rebalance begins."""
    core = broker(group_rebalance_signal=signal)
    first, second = stable(core, [b"", b""])
    after(core, 9_999)
    assert second.heartbeat() == 0
    after(core, 1)
    turn(core)
    assert [m.member_id for m in describe(CoreClient(core), "g").members] == [second.member_id]
    assert second.is_closed == (signal == "close")
    second.client = CoreClient(core)
    assert second.heartbeat() == REBALANCE
    first.client = CoreClient(core)
    assert first.heartbeat() == GONE


def test_heartbeats_keep_a_session() -> None:
    """Heartbeat protocol, 1: several of them within a session timeout."""
    core = broker()
    (member,) = stable(core, [b""])
    for _ in range(10):
        after(core, 9_000)
        assert member.heartbeat() == 0


# Rebalance


def test_option_1_signals_a_rebalance_in_the_heartbeat_response() -> None:
    """Rebalance process, option 1: the answer to the next heartbeat carries the code; the connection stays."""
    core = broker()
    (member,) = stable(core, [b""])
    GroupMember(core).send_join()
    turn(core)
    assert (member.is_closed, member.heartbeat()) == (False, REBALANCE)


def test_option_2_closes_the_sockets_of_all_but_the_one_that_joins() -> None:
    """Rebalance process, option 2: no member has to wait for its next heartbeat."""
    core = broker(group_rebalance_signal="close")
    members = stable(core, [b"", b""])
    newcomer = GroupMember(core)
    newcomer.send_join()
    turn(core)
    assert [m.is_closed for m in members] == [True, True]
    assert not newcomer.is_closed


def test_the_coordinator_assigns_and_finds_that_a_topic_has_changed() -> None:
    """Coordinator overview, and consumer group rebalance: a partition change, without any member asking for it."""
    core = broker()
    core.topics.create("u", 1)
    member = Consumer(core, subscribed_topic_names=["t"])
    member.join()
    epoch = member.epoch
    assert member.owned == [0, 1, 2, 3]
    core.topics.add_partitions("u", 2)
    assert (settled(member), member.epoch) == ([[0, 1, 2, 3]], epoch), "nobody subscribes to this one"
    core.topics.add_partitions("t", 5)
    assert (settled(member), member.epoch) == ([[0, 1, 2, 3, 4]], epoch + 1)
    delete_topic(member.client, "t")
    member.beat(topic_partitions=[])
    assert (member.owned, member.epoch) == ([], epoch + 2), "open question: topics may be deleted"


def test_in_a_classic_group_a_member_assigns() -> None:
    """Join: the document has the coordinator do so; here, as in Kafka, it hands over what the leader says, unread."""
    core = broker()
    members = stable(core, [b"the leader's", b"not even an assignment"])
    described = describe(CoreClient(core), "g").members
    assert {m.member_id: m.member_assignment for m in described} == {
        members[0].member_id: b"the leader's",
        members[1].member_id: b"not even an assignment",
    }


def test_in_a_classic_group_the_coordinator_assigns_and_finds_changes_where_configured() -> None:
    """Rebalance, option 1: "coordinator calculates the partition assigned"; "found a partition change"."""
    driver = ShardDriver({"t": 4}, group_assigns=True)
    offered = {"range": encode_subscription("range", ["t"], (), -1)}
    first = driver.enter(protocols=offered).answer.member_id
    second = driver.enter(protocols=offered)
    driver.join(first, protocols=offered)
    answers = [
        driver.sync(member, 2).answer for member in (first, second.answer.member_id)
    ]  # without assignments
    assert sorted(sorted(decode_assignment(answer.assignment)) for answer in answers) == [
        [("t", 0), ("t", 1)],
        [("t", 2), ("t", 3)],
    ]
    assert driver.beat(first, 2) == ErrorCode.NONE
    driver.topics.create("t", 5)
    assert driver.beat(first, 2) == REBALANCE


def test_members_of_a_group_may_have_different_session_timeouts() -> None:
    """Open questions: they may, within the limits of the broker; each fails by its own."""
    driver = ShardDriver()
    (slow,) = driver.stable(session_ms=30_000)
    quick = driver.enter(session_ms=6_000)
    assert driver.join(slow, session_ms=30_000).answer.generation_id == 2
    driver.sync(slow, 2, {})
    driver.sync(quick.answer.member_id, 2)
    driver.advance(6_000)
    assert [*driver.group().members] == [slow]
    driver.advance(23_999)
    assert [*driver.group().members] == [slow]
    driver.advance(1)
    assert driver.group().members == {}


def test_a_group_continues_at_another_coordinator() -> None:
    """Coordinator failover: the other broker knows members and generation, and the first one refuses the group."""
    with Cluster(brokers=2) as cluster:
        home = ask_node(cluster, 1, messages.FindCoordinatorRequest("g", 0), 1).node_id
        joined = ask_node(cluster, home, join_request(), 3)
        given = [messages.SyncGroupRequest.Assignment(joined.member_id, b"all")]
        asked_sync = messages.SyncGroupRequest("g", 1, joined.member_id, None, assignments=given)
        assert ask_node(cluster, home, asked_sync, 3).error_code == 0
        cluster.stop_node(home)
        beat = messages.HeartbeatRequest("g", 1, joined.member_id)
        assert ask_node(cluster, 3 - home, beat, 3).error_code == 0
        assert ask_node(cluster, 3 - home, asked_sync, 3).assignment == b"all"
        cluster.start_node(home)
        assert ask_node(cluster, home, beat, 3).error_code == ErrorCode.NOT_COORDINATOR


def test_a_new_coordinator_continues_without_a_rebalance() -> None:
    """Coordinator failover: group and ownership are loaded, and no rebalance is triggered by that."""
    core = broker()
    members = stable(core, [assignment({"t": [0]}), assignment({"t": [1]})])
    later = killed(core)
    for member in members:
        member.client = CoreClient(later)
        assert member.heartbeat() == 0
        assert member.commit({("t", 0): 1}) == {("t", 0): 0}
    described = describe(CoreClient(later), "g")
    assert described.group_state == "Stable"
    assert {m.member_assignment for m in described.members} == {
        assignment({"t": [0]}),
        assignment({"t": [1]}),
    }


# Offset management


@pytest.mark.parametrize("checked", [False, True])
def test_a_commit_is_checked_for_member_generation_and_where_configured_ownership(checked: bool) -> None:
    """Commit offset: 1) in the group, 2) owns the partitions, 3) the right generation. Kafka does not ask 2)."""
    core = broker(offsets_commit_owner_check=checked)
    (member,) = stable(core, [assignment({"t": [0]})])
    not_owned = ErrorCode.TOPIC_AUTHORIZATION_FAILED if checked else 0
    assert member.commit({("t", 0): 1}) == {("t", 0): 0}
    assert member.commit({("t", 1): 1}) == {("t", 1): not_owned}
    member.generation += 1
    assert member.commit({("t", 0): 1}) == {("t", 0): ErrorCode.ILLEGAL_GENERATION}
    member.member_id = "a stranger"
    assert member.commit({("t", 0): 1}) == {("t", 0): GONE}


@pytest.mark.parametrize("checked", [False, True])
def test_any_client_reads_committed_offsets_or_where_configured_members_alone(checked: bool) -> None:
    """Fetch offset: the document refuses those outside the group; Kafka answers them."""
    core = broker(offsets_fetch_members_only=checked)
    (member,) = stable(core, [b""])
    member.commit({("t", 0): 4})
    assert member.client.committed("g") == {("t", 0): 4}
    answer = CoreClient(core).call(messages.OffsetFetchRequest("g", None), 7)
    assert answer.error_code == (GONE if checked else 0)


# What a consumer sees


@pytest.fixture
def running() -> Iterator[Broker]:
    with Broker() as started:
        started.create_topic("t", 2)
        with KafkaProducer(bootstrap_servers=started.bootstrap_servers) as producer:
            for number in range(4):
                producer.send("t", str(number).encode(), partition=number % 2).get(10)
        yield started


def reader(running: Broker, *topics: str, **settings: object) -> KafkaConsumer:
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": "g"} | settings
    return KafkaConsumer(*topics, bootstrap_servers=running.bootstrap_servers, **options)


def read(consumer: KafkaConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        for records in consumer.poll(timeout_ms=1000).values():
            found += [record.value for record in records]
    return sorted(found)


@pytest.mark.interop
def test_a_consumer_of_given_partitions_needs_no_coordinator(running: Broker) -> None:
    """Goals, manual partition assignment: no group membership is involved."""
    consumer = reader(running, group_id=None)
    consumer.assign([TopicPartition("t", 1)])
    assert read(consumer, 2) == [b"1", b"3"]
    consumer.close()
    client = CoreClient(running._server.core)  # type: ignore[union-attr]
    listed = running._call(lambda server: client.call(messages.ListGroupsRequest(), 4).groups)
    assert listed == []


@pytest.mark.interop
def test_a_consumer_begins_at_the_position_that_it_names(running: Broker) -> None:
    """Goals, manual offset management: offsets kept elsewhere are where it starts."""
    consumer = reader(running)
    consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
    consumer.seek(TopicPartition("t", 0), 1)
    consumer.seek(TopicPartition("t", 1), 2)
    assert read(consumer, 1) == [b"2"]
    consumer.close()


@pytest.mark.interop
def test_a_consumer_commits_what_it_names_and_reads_it_again(running: Broker) -> None:
    """Consumer API: commit of given offsets, and the last committed offset of a partition."""
    consumer = reader(running, "t")
    read(consumer, 4)
    consumer.commit({TopicPartition("t", 0): OffsetAndMetadata(1, "", -1)})
    assert consumer.committed(TopicPartition("t", 0)) == 1
    assert consumer.committed(TopicPartition("t", 1)) is None
    consumer.close()
    assert running.committed("g")["t", 0].offset == 1


@pytest.mark.interop
def test_a_consumer_is_refused_what_it_does_not_own_and_keeps_its_place() -> None:
    """Consumer API: a commit for partitions that are not assigned is an exception, where that is configured."""
    with Broker({"offsets.commit.owner.check": True}) as running:
        running.create_topic("t", 2)
        running.create_topic("u", 1)
        consumer = reader(running, "t")
        try:
            until(lambda: consumer.poll(_POLL_MS) or len(consumer.assignment()) == 2, "both are assigned")
            offset = OffsetAndMetadata(1, "", -1)
            with pytest.raises(TopicAuthorizationFailedError):
                consumer.commit({TopicPartition("t", 0): offset, TopicPartition("u", 0): offset})
            assert set(running.committed("g")) == {("t", 0)}
            consumer.commit({TopicPartition("t", 1): offset})
            assert set(running.committed("g")) == {("t", 0), ("t", 1)}
        finally:
            consumer.close()


@pytest.mark.interop
@pytest.mark.parametrize(
    "settings",
    [
        {"group.rebalance.signal": "heartbeat"},
        {"group.rebalance.signal": "close"},
        {"group.assignment.by.coordinator": True},
    ],
    ids=["heartbeat", "close", "coordinator"],
)
def test_partitions_are_shared_with_a_new_consumer(settings: dict[str, object]) -> None:
    """Rebalance on a join: both options make the one that was there give up half; it is told, or cut off."""
    with Broker(settings) as running:
        running.create_topic("t", 2)
        first, second = reader(running, "t"), reader(running, "t")
        stop = threading.Event()

        def poll_second() -> None:
            while not stop.is_set():
                second.poll(_POLL_MS)

        def has(count: int) -> bool:
            first.poll(_POLL_MS)
            return len(first.assignment()) == count

        polling = threading.Thread(target=poll_second)
        try:
            until(lambda: has(2), "the first member has both partitions", 60)
            polling.start()
            until(lambda: has(1), "it has given up one", 60)
        finally:
            stop.set()
            if polling.ident is not None:
                polling.join()
            first.close()
            second.close()


def test_time_does_not_pass_in_these_tests() -> None:
    """No claim is tested by waiting for it."""
    assert isinstance(broker().clock, ManualClock)


# --- group metadata in ZooKeeper


def test_config_and_ownership_are_one_json_object_that_is_written_when_a_rebalance_ends() -> None:
    """ "The consumer config and ownership metadata can be stored in one ZK path as a json object." By an option."""
    started = ZooKeeperCore(zookeeper_group_metadata_enable=True)
    members = stable(started.core, [assignment({"t": [0, 1]}), assignment({"t": [2]})])
    found = json.loads(started.server.nodes["/consumers/g/metadata"].data)
    assert found["generation"] == members[0].generation
    owned = {member["member_id"]: member["owned"] for member in found["members"]}
    assert owned == {members[0].member_id: {"t": [0, 1]}, members[1].member_id: {"t": [2]}}
    assert {member["session_timeout_ms"] for member in found["members"]} == {10_000}


def test_a_new_coordinator_reads_them_and_does_not_trigger_a_rebalance() -> None:
    """ "The coordinator needs to load its current config and ownership information from ZK." """
    started = ZooKeeperCore(zookeeper_group_metadata_enable=True)
    members = stable(started.core, [assignment({"t": [0, 1]}), assignment({"t": [2]})])
    later = ZooKeeperCore(started.server, clock=started.clock, zookeeper_group_metadata_enable=True)
    for member in members:
        member.client = CoreClient(later.core)
        assert member.heartbeat() == ErrorCode.NONE
        assert member.commit({("t", 0): 5}) == {("t", 0): 0}
