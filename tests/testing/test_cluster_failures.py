"""Failures of a cluster: what a crash, a cut network and a slow node lose, and what they do not."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Cluster
from kafka_offsets.testing.clock import ManualClock
from tests.drivers.cluster import (
    READ_COMMITTED,
    TransactionalProducer,
    ask,
    commit,
    fetch,
    produce,
    stable_member,
    values,
)

LAG_MS, SESSION_MS = 30_000, 9_000
NOT_LEADER, NOT_COORDINATOR = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock):
    """Three nodes; node 1 leads orders-0 and payments-0."""
    with Cluster(clock=clock) as running:
        for topic in ("orders", "payments"):
            running.create_topic(topic, 1)
        yield running


def consumed(cluster: Cluster, topic: str = "orders") -> list[str]:
    return [record.value.decode() for record in cluster.consume_all(topic)]


def settle(clock: ManualClock) -> None:
    """Let everything reach every node that needs no time."""
    clock.advance(0)


def end_of_epoch(cluster: Cluster, node: int, epoch: int) -> tuple[int, int]:
    """Return the epoch and the end offset that OffsetForLeaderEpoch answers for orders-0."""
    made = messages.OffsetForLeaderEpochRequest
    wanted = made.OffsetForLeaderTopic("orders", [made.OffsetForLeaderPartition(0, -1, epoch)])
    (found,) = ask(cluster, node, made(topics=[wanted]), 3).topics[0].partitions
    assert found.error_code == 0
    return found.leader_epoch, found.end_offset


def test_records_of_a_quiet_topic_are_deleted_at_once(cluster: Cluster, clock: ManualClock) -> None:
    produce(cluster, 1, "a", "b", "c")
    clock.advance(3_000)
    made = messages.DeleteRecordsRequest
    wanted = made.DeleteRecordsTopic("orders", [made.DeleteRecordsPartition(0, 2)])
    (found,) = ask(cluster, 1, made([wanted], 10_000), 2).topics[0].partitions
    assert (found.error_code, found.low_watermark) == (0, 2)


def test_a_network_that_is_healed_completes_a_reassignment(clock: ManualClock) -> None:
    # RuntimeError: the leader left the partition while it looked through all that it leads.
    with Cluster({"default.replication.factor": 2}, clock=clock) as cluster:
        cluster.create_topic("orders", 1)
        produce(cluster, 1, "a")
        clock.advance(2_000)
        cluster.partition(2, {1, 3})
        clock.advance(SESSION_MS + 3_000)
        made = messages.AlterPartitionReassignmentsRequest
        wanted = made.ReassignableTopic("orders", [made.ReassignablePartition(0, [2])])
        ask(cluster, 1, made(topics=[wanted], timeout_ms=1_000), 0)
        settle(clock)
        cluster.heal()
        settle(clock)
        assert (cluster.leader("orders"), cluster.in_sync("orders")) == (2, [2])
        assert values(fetch(cluster, 2)) == ["a"]


# -- what a killed leader loses


def test_a_killed_leader_loses_nothing_that_was_acknowledged_by_all(
    cluster: Cluster, clock: ManualClock
) -> None:
    for number in range(20):
        assert produce(cluster, 1, f"{number}").error_code == 0
    for node in (2, 3):
        cluster.slow(node, LAG_MS)
    assert produce(cluster, 1, "not replicated", timeout_ms=20).error_code == ErrorCode.REQUEST_TIMED_OUT
    cluster.kill(1)
    for node in (2, 3):
        cluster.slow(node, 0)
    clock.advance(2 * LAG_MS)
    assert cluster.leader("orders") == 2
    assert consumed(cluster) == [str(number) for number in range(20)]
    assert produce(cluster, 2, "after").base_offset == 20
    cluster.kill(2)
    assert consumed(cluster)[-1] == "after"


def test_records_that_only_a_dead_leader_had_are_truncated_when_it_returns(
    cluster: Cluster, clock: ManualClock
) -> None:
    """KIP-101: the epochs of the logs show where they part, not the high watermark."""
    produce(cluster, 1, "common")
    cluster.partition(1, {2, 3})
    assert produce(cluster, 1, "lost", acks=1).base_offset == 1
    cluster.kill(1)
    cluster.heal()
    assert produce(cluster, 2, "kept", acks=1).base_offset == 1
    cluster.start_node(1)
    clock.advance(LAG_MS)
    assert cluster.in_sync("orders") == [1, 2, 3]
    cluster.move_leader("orders", to=1)
    assert consumed(cluster) == ["common", "kept"]
    assert end_of_epoch(cluster, 1, 0) == (0, 1)


def test_an_isolated_leader_is_deposed_and_truncates_when_it_is_reached_again(
    cluster: Cluster, clock: ManualClock
) -> None:
    produce(cluster, 1, "common")
    cluster.partition(1, {2, 3})
    assert produce(cluster, 1, "lost", acks=1).error_code == 0
    assert produce(cluster, 1, "not replicated", timeout_ms=20).error_code == ErrorCode.REQUEST_TIMED_OUT
    clock.advance(SESSION_MS)
    assert (cluster.leader("orders"), cluster.in_sync("orders")) == (2, [2, 3])
    assert [node.is_up for node in cluster.nodes] == [True, True, True]
    assert produce(cluster, 2, "kept").base_offset == 1
    assert values(fetch(cluster, 1)) == ["common"]  # it does not know yet, and its followers are gone
    cluster.heal()
    assert produce(cluster, 1, "refused").error_code == NOT_LEADER
    clock.advance(LAG_MS)
    assert cluster.in_sync("orders") == [1, 2, 3]
    cluster.move_leader("orders", to=1)
    assert values(fetch(cluster, 1)) == ["common", "kept"] == consumed(cluster)


def test_a_node_that_is_reached_again_in_time_still_leads(cluster: Cluster, clock: ManualClock) -> None:
    cluster.partition(1, {2, 3})
    clock.advance(SESSION_MS - 1)
    cluster.heal()
    clock.advance(SESSION_MS)
    assert (cluster.leader("orders"), cluster.in_sync("orders")) == (1, [1, 2, 3])
    assert produce(cluster, 1, "x").error_code == 0


# -- in-sync replicas and the high watermark


def test_acks_all_needs_the_smallest_number_of_in_sync_replicas(clock: ManualClock) -> None:
    with Cluster({"min.insync.replicas": 2}, clock=clock) as cluster:
        cluster.create_topic("orders", 1)
        home = cluster.coordinator("billing")
        assert (produce(cluster, 1, "a").error_code, commit(cluster, home, "billing", 1)) == (0, 0)
        cluster.move_leader("orders", to=home)
        for node in {1, 2, 3} - {home}:
            cluster.kill(node)
        assert produce(cluster, home, "b").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert commit(cluster, home, "billing", 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        cluster.assert_committed("billing", {("orders", 0): 1})
        cluster.start_node(home % 3 + 1)
        clock.advance(LAG_MS)
        assert produce(cluster, home, "c").base_offset == 1  # "b" was refused before it was appended
        assert commit(cluster, home, "billing", 3) == 0


def test_a_consumer_reads_nothing_above_the_high_watermark(cluster: Cluster, clock: ManualClock) -> None:
    produce(cluster, 1, "a")
    cluster.slow(2, 5_000)
    assert produce(cluster, 1, "b", acks=1).error_code == 0
    read = fetch(cluster, 1)
    assert (values(read), read.high_watermark) == (["a"], 1)
    assert consumed(cluster) == ["a"]
    clock.advance(20_000)
    assert values(fetch(cluster, 1)) == ["a", "b"]
    cluster.slow(2, 0)
    cluster.partition(1, {2, 3})
    produce(cluster, 1, "c", acks=1)
    settle(clock)
    assert values(fetch(cluster, 1)) == ["a", "b"]
    cluster.heal()
    clock.advance(LAG_MS)
    assert values(fetch(cluster, 1)) == ["a", "b", "c"]


def test_a_follower_that_lags_leaves_the_isr_and_returns_when_it_has_caught_up(
    cluster: Cluster, clock: ManualClock
) -> None:
    cluster.slow(3, 10 * LAG_MS)
    assert produce(cluster, 1, "a", acks=1).error_code == 0
    clock.advance(LAG_MS)
    assert cluster.in_sync("orders") == [1, 2, 3]
    assert consumed(cluster) == []
    clock.advance(LAG_MS)
    assert cluster.in_sync("orders") == [1, 2]
    assert consumed(cluster) == ["a"]
    assert produce(cluster, 1, "b").error_code == 0  # only the ISR counts
    cluster.slow(3, 0)
    clock.advance(40 * LAG_MS)
    assert cluster.in_sync("orders") == [1, 2, 3]


def test_a_leader_proposes_again_what_did_not_reach_the_controller(clock: ManualClock) -> None:
    with Cluster({"broker.session.timeout.ms": 100 * LAG_MS}, clock=clock) as cluster:
        cluster.create_topic("orders", 1)
        cluster.partition({2, 3}, 1)
        produce(cluster, 1, "a", acks=1)
        clock.advance(2 * LAG_MS)
        assert cluster.in_sync("orders") == [1, 2, 3]
        cluster.heal()
        clock.advance(LAG_MS)
        cluster.slow(3, 100 * LAG_MS)
        produce(cluster, 1, "b", acks=1)
        clock.advance(2 * LAG_MS)
        assert cluster.in_sync("orders") == [1, 2]


def test_an_unclean_election_loses_records_and_its_epoch_shows_that(
    cluster: Cluster, clock: ManualClock
) -> None:
    """KIP-320: a consumer finds where its history ends by OffsetForLeaderEpoch, or by a Fetch with its epoch."""
    cluster.create_topic("clean", 1)
    made = messages.IncrementalAlterConfigsRequest
    entry = made.AlterableConfig("unclean.leader.election.enable", 0, "true")
    changed = ask(cluster, 1, made([made.AlterConfigsResource(2, "orders", [entry])]), 1)
    assert changed.responses[0].error_code == 0
    led = cluster.leader("clean")
    for topic, leader in (("orders", 1), ("clean", led)):
        produce(cluster, leader, "common", topic=topic)
    for node in (2, 3):
        cluster.kill(node)
    produce(cluster, 1, "lost", "lost too")
    cluster.kill(1)
    assert (cluster.leader("orders"), cluster.leader("clean")) == (-1, -1)
    cluster.start_node(2)
    assert (cluster.leader("orders"), cluster.leader("clean")) == (2, -1)
    assert consumed(cluster) == ["common"]
    assert fetch(cluster, 2, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    produce(cluster, 2, "new", "newer", "newest")
    assert end_of_epoch(cluster, 2, 0) == (0, 1)
    diverging = fetch(cluster, 2, 3, fetched_epoch=0).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (0, 1)


# -- groups


def test_a_member_of_a_classic_group_stays_when_its_coordinator_is_killed(cluster: Cluster) -> None:
    member_id, generation = stable_member(cluster, "billing")
    old = cluster.coordinator("billing")
    assert commit(cluster, old, "billing", 7, member_id, generation) == 0
    cluster.kill(old)
    new = cluster.coordinator("billing")
    beat = messages.HeartbeatRequest("billing", generation, member_id)
    assert new not in (old, -1)
    assert ask(cluster, new, beat, 3).error_code == 0
    assert commit(cluster, new, "billing", 8, member_id, generation) == 0
    cluster.start_node(old)
    assert ask(cluster, old, beat, 3).error_code == NOT_COORDINATOR
    view = cluster.group("billing")
    assert view is not None
    assert (view.state, [each.member_id for each in view.members]) == ("Stable", [member_id])
    cluster.assert_committed("billing", {("orders", 0): 8})


def test_a_member_of_a_consumer_group_stays_when_its_coordinator_is_killed(cluster: Cluster) -> None:
    """KIP-848."""
    made = messages.ConsumerGroupHeartbeatRequest
    old, member_id = cluster.coordinator("billing"), "0123456789abcdefABCDEF"
    joined = ask(
        cluster,
        old,
        made(
            "billing",
            member_id,
            0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        ),
        1,
    )
    assert (joined.error_code, joined.assignment.topic_partitions[0].partitions) == (0, [0])
    owned = [
        made.TopicPartitions(each.topic_id, each.partitions) for each in joined.assignment.topic_partitions
    ]
    beat = made("billing", member_id, joined.member_epoch, topic_partitions=owned)
    assert ask(cluster, old, beat, 1).error_code == 0
    cluster.kill(old)
    new = cluster.coordinator("billing")
    again = ask(cluster, new, beat, 1)
    assert (again.error_code, again.member_epoch) == (0, joined.member_epoch)
    cluster.start_node(old)
    assert ask(cluster, old, beat, 1).error_code == NOT_COORDINATOR
    view = cluster.group("billing")
    assert view is not None
    assert (view.state, [each.member_id for each in view.members]) == ("Stable", [member_id])


def test_a_commit_waits_until_the_in_sync_replicas_have_it(cluster: Cluster, clock: ManualClock) -> None:
    home = cluster.coordinator("billing")
    settle(clock)
    cluster.slow(home % 3 + 1, 2_000)
    began_ms = clock.now().mono_ms
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(commit, cluster, home, "billing", 5)
        while not answer.done():
            clock.advance(500)
        assert answer.result() == 0
    # The records go to the follower, and its next fetch comes back.
    assert clock.now().mono_ms - began_ms >= 4_000
    cluster.kill(home)
    cluster.assert_committed("billing", {("orders", 0): 5})


def test_committed_offsets_outlive_the_kill_of_all_nodes(cluster: Cluster, clock: ManualClock) -> None:
    groups = [f"group-{number}" for number in range(6)]
    for number, group in enumerate(groups):
        assert commit(cluster, cluster.coordinator(group), group, number) == 0
    assert produce(cluster, 1, "a").error_code == 0
    for node in (1, 2, 3):
        cluster.kill(node)
    for node in (2, 3, 1):
        cluster.start_node(node)
    clock.advance(LAG_MS)
    assert cluster.in_sync("orders") == [1, 2, 3]
    for number, group in enumerate(groups):
        cluster.assert_committed(group, {("orders", 0): number})
    assert consumed(cluster) == ["a"]


def core_of(cluster: Cluster, node: int) -> BrokerCore:
    server: Any = cluster._running()
    core = server._network.servers[node].core
    assert isinstance(core, BrokerCore)
    return core


def test_a_deposed_coordinator_refuses_what_waits_and_writes_nothing_more(clock: ManualClock) -> None:
    """A session that expires at a coordinator that leads no longer would append a record to a follower's log."""
    with Cluster({"offsets.commit.timeout.ms": 60_000}, clock=clock) as cluster:
        cluster.create_topic("orders", 1)
        home = cluster.coordinator("billing")
        member_id, generation = stable_member(cluster, "billing")
        old = core_of(cluster, home)
        hosted = old.runtime.shard_of("billing", clock.now())
        cluster.partition(home, {1, 2, 3} - {home})
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(commit, cluster, home, "billing", 5, member_id, generation)
            while not hosted.has_pending:
                settle(clock)
            clock.advance(SESSION_MS)
            assert cluster.coordinator("billing") != home
            cluster.heal()
            assert answer.result() == NOT_COORDINATOR
        clock.advance(LAG_MS)  # the session of the member is over
        assert commit(cluster, cluster.coordinator("billing"), "billing", 6) == 0
        clock.advance(LAG_MS)
        logs = [
            core_of(cluster, node).topics.partition(OFFSETS_TOPIC, hosted.shard.partition)
            for node in (1, 2, 3)
        ]
        contents = {log.log.read(0, 1 << 20) for log in logs if log is not None}
        assert (len(logs), len(contents)) == (3, 1)


# -- transactions


@pytest.mark.parametrize("killed", ["coordinator", "leader"])
@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_outlives_a_kill(
    cluster: Cluster, clock: ManualClock, killed: str, commits: bool
) -> None:
    cluster.move_coordinator(transactional_id="payments", to=3)
    cluster.move_leader("payments", to=2)
    producer = TransactionalProducer(cluster)
    assert (producer.send("orders", "a"), producer.send("payments", "b")) == (0, 0)
    cluster.kill(3 if killed == "coordinator" else 1)
    leader = cluster.leader("orders")
    read = fetch(cluster, leader, isolation=READ_COMMITTED)
    assert (values(read), read.last_stable_offset) == ([], 0)
    assert (producer.send("orders", "c"), producer.send("payments", "d")) == (0, 0)
    assert consumed(cluster) == [] == consumed(cluster, "payments")
    assert producer.end(commits=commits) == 0
    clock.advance(1_000)
    assert consumed(cluster) == (["a", "c"] if commits else [])
    assert consumed(cluster, "payments") == (["b", "d"] if commits else [])
    assert fetch(cluster, leader, isolation=READ_COMMITTED).last_stable_offset == 3
    assert producer.send("orders", "next") == 0


def test_a_transaction_ends_although_its_leader_is_killed_before_the_markers(
    clock: ManualClock,
) -> None:
    with Cluster({"transaction.state.log.replication.factor": 1}, clock=clock) as cluster:
        cluster.create_topic("orders", 1)
        cluster.move_coordinator(transactional_id="payments", to=3)
        producer = TransactionalProducer(cluster)
        assert producer.send("orders", "a") == 0
        cluster.partition({2, 3}, 1)  # markers do not pass
        assert producer.end(commits=True) == 0
        assert fetch(cluster, 1, isolation=READ_COMMITTED).last_stable_offset == 0
        cluster.kill(1)
        cluster.heal()
        clock.advance(5_000)
        assert consumed(cluster) == ["a"]


# -- administrators


def test_a_topic_that_was_deleted_in_the_meantime_is_deleted_although_the_disk_refuses_it_at_first(
    cluster: Cluster, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.stop_node(3)
    assert (
        ask(
            cluster, 1, messages.DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 1
        ).responses[0].error_code
        == 0
    )  # fmt: skip
    remove, refused = Topics.remove, []

    def refuse_once(self: Topics, names: list[str]) -> None:
        if not refused:
            refused.append(names)
            raise StorageError("the disk refuses it", "orders-0")
        remove(self, names)

    monkeypatch.setattr(Topics, "remove", refuse_once)
    cluster.start_node(3)
    assert refused == [["orders"]]
    clock.advance(1000)
    cluster.create_topic("orders", 1)
    cluster.move_leader("orders", to=3)
    assert produce(cluster, 3, "new").base_offset == 0


def test_a_reassignment_moves_replicas_with_their_records(clock: ManualClock) -> None:
    with Cluster({"default.replication.factor": 2}, brokers=4, clock=clock) as cluster:
        cluster.create_topic("orders", 1)
        produce(cluster, 1, "a", "b")
        made = messages.AlterPartitionReassignmentsRequest
        wanted = made.ReassignableTopic("orders", [made.ReassignablePartition(0, [3, 4])])
        assert (
            ask(cluster, 2, made(topics=[wanted], timeout_ms=1000), 0).responses[0].partitions[0].error_code
            == 0
        )
        clock.advance(2_000)
        assert cluster.in_sync("orders") == [3, 4]
        assert not ask(cluster, 2, messages.ListPartitionReassignmentsRequest(1000, None), 0).topics
        for node in (1, 2):
            cluster.kill(node)
        assert cluster.leader("orders") == 3
        assert values(fetch(cluster, 3)) == ["a", "b"]
        cluster.kill(3)
        assert values(fetch(cluster, 4)) == ["a", "b"]


def test_preferred_leaders_are_elected_again_once_they_are_in_sync(
    cluster: Cluster, clock: ManualClock
) -> None:
    cluster.kill(1)
    produce(cluster, 2, "a")
    cluster.start_node(1)
    clock.advance(2_000)
    made = messages.ElectLeadersRequest
    request = made(0, [made.TopicPartitions("orders", [0])], 1000)
    answer = ask(cluster, 2, request, 2)
    assert answer.replica_election_results[0].partition_result[0].error_code == 0
    assert cluster.leader("orders") == 1
    assert values(fetch(cluster, 1)) == ["a"]


# -- a node that is cut off from the controller


@pytest.mark.parametrize("asked", [1, 2])
def test_a_node_that_is_removed_while_it_runs_leads_nothing_and_names_the_leaders(
    cluster: Cluster, clock: ManualClock, asked: int
) -> None:
    """Its clients continue elsewhere, and it returns with its next start. KIP-631."""
    removed = cluster.nodes[0]
    assert (removed.id, cluster.leader("orders", 0)) == (1, 1)
    assert ask(cluster, asked, messages.UnregisterBrokerRequest(1), 0).error_code == 0
    assert produce(cluster, 2, "one").error_code == 0
    wanted = messages.MetadataRequest.Topic(name="orders")
    with Connection(removed.host, removed.port, 20) as connection:
        found = connection.call(messages.MetadataRequest([wanted]), 8)
    assert [each.node_id for each in found.brokers] == [2, 3]
    (partition,) = found.topics[0].partitions
    assert (partition.leader_id, partition.isr_nodes) == (2, [2, 3])
    cluster.restart(1)
    settle(clock)
    assert cluster.in_sync("orders", 0) == [1, 2, 3]
    assert consumed(cluster) == ["one"]


def test_what_only_the_controller_decides_is_refused_by_a_node_that_is_cut_off(cluster: Cluster) -> None:
    cluster.partition(1, {2, 3})
    made = messages.CreateTopicsRequest
    answer = ask(cluster, 1, made([made.CreatableTopic("late", 1, -1)], 1000), 5)
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    elect = messages.ElectLeadersRequest(0, None, 1000)
    assert ask(cluster, 1, elect, 2).error_code == ErrorCode.REQUEST_TIMED_OUT
    cluster.heal()
    answer = ask(cluster, 1, made([made.CreatableTopic("late", 1, -1)], 1000), 5)
    assert answer.topics[0].error_code == ErrorCode.NONE


def test_a_topic_of_coordinators_is_not_created_by_a_node_that_is_cut_off(cluster: Cluster) -> None:
    cluster.partition(1, {2, 3})
    wanted = messages.FindCoordinatorRequest(key_type=0, coordinator_keys=["billing"])
    (found,) = ask(cluster, 1, wanted, 6).coordinators
    assert found.error_code != ErrorCode.NONE
    cluster.heal()
    (found,) = ask(cluster, 1, wanted, 6).coordinators
    assert found.error_code == ErrorCode.NONE
