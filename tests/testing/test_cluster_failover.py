"""Failover as clients see it: who answers what while leaders and coordinators move, and what waits."""

from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.coordinator.transactions.decisions import Transaction
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Cluster
from kafka_offsets.testing.clock import ManualClock
from kafka_offsets.testing.cluster.server import ClusterServer
from kafka_offsets.testing.server.events import Event
from tests.drivers.cluster import READ_COMMITTED, TransactionalProducer, ask, commit, produce, values
from tests.drivers.members import join_request

NOT_LEADER, NOT_COORDINATOR = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR
OFFSETS = "__consumer_offsets"
FETCH_WAIT_MS = 500
"""After it a leader answers a follower that only lacks the high watermark."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock):
    """Three nodes; node 1 leads orders-0."""
    with Cluster({"fetch.first.wait.ms": 0}, clock=clock) as running:
        running.create_topic("orders", 1)
        yield running


def core_of(cluster: Cluster, node: int) -> BrokerCore:
    """Return the broker of a node."""
    return next(
        core for core in cast("ClusterServer", cluster._running()).cores if core.broker.node.id == node
    )


# -- consumers fetch from followers (KIP-392)


def read(
    cluster: Cluster, node: int, version: int, offset: int = 0, *, max_wait_ms: int = 0, **fields: int
) -> messages.FetchResponse.PartitionData:
    """Return what a node answers to a Fetch of orders-0."""
    made = messages.FetchRequest
    partition = made.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = made.FetchTopic("orders", partitions=[partition])
    request = made(max_wait_ms=max_wait_ms, min_bytes=1, session_epoch=-1, topics=[topic], **fields)
    (answered,) = ask(cluster, node, request, version).responses
    (found,) = answered.partitions
    return found


def parked_at(cluster: Cluster, node: int) -> Event:
    """Return the event that a Fetch waits at a node that leads nothing."""
    core = core_of(cluster, node)
    return Event("a fetch waits", lambda _: bool(core.topics.waiting) or None, lambda _: "none waits")


@pytest.mark.parametrize("isolation_level", [0, READ_COMMITTED])
def test_followers_serve_consumers_since_version_11(
    cluster: Cluster, clock: ManualClock, isolation_level: int
) -> None:
    produce(cluster, 1, "a")
    clock.advance(FETCH_WAIT_MS)
    assert read(cluster, 3, 10, isolation_level=isolation_level).error_code == NOT_LEADER
    found = read(cluster, 3, 11, isolation_level=isolation_level)
    assert (values(found), found.high_watermark, found.last_stable_offset) == (["a"], 1, 1)
    assert read(cluster, 3, 11, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_serves_no_broker(cluster: Cluster) -> None:
    produce(cluster, 1, "a")
    assert read(cluster, 3, 12, replica_id=2).error_code == NOT_LEADER


def test_a_follower_serves_nothing_above_its_own_high_watermark(cluster: Cluster, clock: ManualClock) -> None:
    produce(cluster, 1, "a")
    clock.advance(FETCH_WAIT_MS)
    cluster.partition(2, {1, 3})
    assert produce(cluster, 1, "b", acks=1).error_code == 0
    clock.advance(FETCH_WAIT_MS)
    found = read(cluster, 3, 12)
    assert (values(found), found.high_watermark) == (["a"], 1)
    assert values(read(cluster, 3, 12, 1)) == []


def test_a_fetch_that_waits_at_a_follower_is_answered_when_its_high_watermark_moves(cluster: Cluster) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(read, cluster, 3, 12, max_wait_ms=60_000)
        cluster.wait_for(parked_at(cluster, 3))
        assert produce(cluster, 1, "a").error_code == 0
        assert values(waiting.result(20)) == ["a"]


# -- what a node does not coordinate


def elsewhere(cluster: Cluster) -> int:
    """Return a node that coordinates neither the group "billing" nor the transactional id "payments"."""
    taken = {cluster.coordinator("billing"), cluster.coordinator(transactional_id="payments")}
    return next(node.id for node in cluster.nodes if node.id not in taken)


def test_a_member_learns_the_error_alone(cluster: Cluster) -> None:
    refused = ask(cluster, elsewhere(cluster), join_request("billing", "member"), 5)
    assert (refused.error_code, refused.member_id) == (NOT_COORDINATOR, "")
    beat = messages.ConsumerGroupHeartbeatRequest("billing", "member", 0, rebalance_timeout_ms=1000)
    refused = ask(cluster, elsewhere(cluster), beat, 1)
    assert (refused.error_code, refused.error_message) == (NOT_COORDINATOR, None)


def test_a_sync_without_its_protocol_is_refused_by_every_node(cluster: Cluster) -> None:
    request = messages.SyncGroupRequest("billing", 1, "member")
    node = elsewhere(cluster)
    assert ask(cluster, node, request, 4).error_code == NOT_COORDINATOR
    assert ask(cluster, node, request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", [4, 5])
def test_each_partition_of_a_transaction_is_refused(cluster: Cluster, version: int) -> None:
    made = messages.AddPartitionsToTxnRequest
    topics = [made.AddPartitionsToTxnTopic("orders", [0])]
    transactions = [made.AddPartitionsToTxnTransaction("payments", 7, 0, topics=topics)]
    refused = ask(cluster, elsewhere(cluster), made(transactions=transactions), version)
    ((result,),) = (each.topic_results for each in refused.results_by_transaction)
    assert refused.error_code == 0
    assert [each.partition_error_code for each in result.results_by_partition] == [NOT_COORDINATOR]


# -- what waits for replicas


COMMIT_TIMEOUT_MS = 600_000  # long: in real time a commit must not end by it


@pytest.fixture
def alone(clock: ManualClock):
    """Three nodes; the ISR of the only partition of the offsets topic is its leader, which is too few."""
    settings = {
        "min.insync.replicas": 2,
        "offsets.topic.num.partitions": 1,
        "offsets.commit.timeout.ms": COMMIT_TIMEOUT_MS,
    }
    with Cluster(settings, clock=clock) as running:
        running.create_topic("orders", 1)
        running.commit("billing", {("orders", 0): 1})
        for _ in range(2):
            running.shrink_isr(OFFSETS)
        yield running


def waits(cluster: Cluster, requests: int) -> Event:
    """Return the event that requests wait for the replicas of the offsets topic."""
    hosted = core_of(cluster, cluster.leader(OFFSETS)).runtime.shards[0]

    def waiting() -> int:
        return sum(len(decided) for _, _, decided in hosted._appended)

    return Event("requests wait", lambda _: waiting() >= requests or None, lambda _: f"{waiting()} wait")


def offset_fetch(cluster: Cluster, *, require_stable: bool) -> tuple[int, list[int]]:
    """Return the error and the offsets that the coordinator of "billing" answers."""
    request = messages.OffsetFetchRequest("billing", None, require_stable=require_stable)
    answer = ask(cluster, cluster.leader(OFFSETS), request, 7)
    return answer.error_code, [p.committed_offset for topic in answer.topics for p in topic.partitions]


def test_a_commit_is_written_although_too_few_replicas_are_in_sync(
    alone: Cluster, clock: ManualClock
) -> None:
    """Kafka's coordinators write with acks=1: the commit gets an error, and takes effect when the ISR has grown."""
    node = alone.coordinator("billing")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(commit, alone, node, "billing", 2)
        alone.wait_for(waits(alone, 1))
        clock.advance(COMMIT_TIMEOUT_MS - 1)
        assert not waiting.done()
        clock.advance(1)
        assert waiting.result(20) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert offset_fetch(alone, require_stable=False) == (0, [1])
    alone.grow_isr(OFFSETS)
    clock.advance(0)
    assert offset_fetch(alone, require_stable=False) == (0, [2])


def test_a_reader_of_stable_offsets_waits_no_longer_than_a_commit(alone: Cluster, clock: ManualClock) -> None:
    # It waited until the in-sync replicas had what was committed before it, for ever if they died.
    node = alone.coordinator("billing")
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(commit, alone, node, "billing", 2)
        alone.wait_for(waits(alone, 1))
        reading = pool.submit(offset_fetch, alone, require_stable=True)
        alone.wait_for(waits(alone, 2))
        assert offset_fetch(alone, require_stable=False) == (0, [1])
        clock.advance(COMMIT_TIMEOUT_MS)
        assert reading.result(20) == (NOT_COORDINATOR, [])
        assert waiting.result(20) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    alone.grow_isr(OFFSETS)
    clock.advance(0)
    assert offset_fetch(alone, require_stable=True) == (0, [2])


# -- the state of a transaction


BROKER_SESSION_MS = 9000


def transaction_state(cluster: Cluster, node: int) -> str:
    """Return what a node answers about the transactional id "payments"."""
    (state,) = ask(cluster, node, messages.DescribeTransactionsRequest(["payments"]), 0).transaction_states
    return str(state.transaction_state)


def add_orders(cluster: Cluster, node: int, producer: TransactionalProducer, epoch: int | None = None) -> int:
    """Return the error code of a node that adds orders-0 to a transaction."""
    made = messages.AddPartitionsToTxnRequest
    request = made(
        v3_and_below_transactional_id=producer.name,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch if epoch is None else epoch,
        v3_and_below_topics=[made.AddPartitionsToTxnTopic("orders", [0])],
    )
    ((result,),) = (
        each.results_by_partition for each in ask(cluster, node, request, 3).results_by_topic_v3_and_below
    )
    return result.partition_error_code


def test_the_state_of_a_transaction_changes_when_it_is_replicated(
    cluster: Cluster, clock: ManualClock
) -> None:
    # A state was valid once it was appended: another request of the producer could build on what a failover loses.
    producer = TransactionalProducer(cluster)
    home = cluster.coordinator(transactional_id="payments")
    coordinator = core_of(cluster, home).transactions
    cluster.pause(next(node.id for node in cluster.nodes if node.id != home))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(add_orders, cluster, home, producer)
        cluster.wait_for(
            Event("a state waits", lambda _: any(coordinator._pending) or None, lambda _: "none")
        )
        assert transaction_state(cluster, home) == "Empty"
        assert add_orders(cluster, home, producer) == ErrorCode.CONCURRENT_TRANSACTIONS
        assert add_orders(cluster, home, producer, epoch=7) == ErrorCode.PRODUCER_FENCED
        end = messages.EndTxnRequest(producer.name, producer.id, producer.epoch, committed=True)
        assert ask(cluster, home, end, 3).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        init = messages.InitProducerIdRequest(producer.name, 60_000)
        assert ask(cluster, home, init, 4).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        clock.advance(BROKER_SESSION_MS)
        assert waiting.result(20) == 0
    assert transaction_state(cluster, home) == "Ongoing"
    assert add_orders(cluster, home, producer) == 0
    assert ask(cluster, home, end, 3).error_code == 0


def test_a_transaction_ends_if_its_markers_are_written_before_its_state_takes_effect(
    cluster: Cluster, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both wait for the replicas, and again after 30 s: the markers found the previous state, and were never written.
    producer = TransactionalProducer(cluster)
    home = cluster.coordinator(transactional_id="payments")
    coordinator = core_of(cluster, home).transactions
    assert add_orders(cluster, home, producer) == 0
    await_replicas = coordinator._await_replicas
    late: list[Transaction | None] = []

    def await_later(index: int, name: str, following: Transaction | None) -> None:
        late.append(following)
        coordinator.scheduler.client_timeout(1000, lambda now: await_replicas(index, name, following))

    monkeypatch.setattr(coordinator, "_await_replicas", await_later)
    end = messages.EndTxnRequest(producer.name, producer.id, producer.epoch, committed=True)
    assert ask(cluster, home, end, 3).error_code == 0
    cluster.wait_for(Event("it is complete", lambda _: len(late) == 2 or None, lambda _: f"{late}"))
    assert transaction_state(cluster, home) == "Ongoing"
    clock.advance(1000)
    cluster.wait_for(
        Event("nothing waits", lambda _: not any(coordinator._pending) or None, lambda _: "it waits")
    )
    assert transaction_state(cluster, home) == "CompleteCommit"
