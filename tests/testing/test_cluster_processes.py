"""Processes of a cluster: nodes that are paused, restarted, or lose their power, and followers that leave the ISR."""

import socket
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Cluster
from kafka_offsets.testing.clock import ManualClock
from kafka_offsets.testing.cluster.network import InProcessNetwork
from tests.drivers.cluster import ask, commit, fetch, produce, values
from tests.testing.test_cluster_failures import LAG_MS, SESSION_MS, consumed, end_of_epoch

NOT_LEADER, NOT_ENOUGH = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock):
    """Three nodes; node 1 leads orders-0."""
    with Cluster({"min.insync.replicas": 2}, clock=clock) as running:
        running.create_topic("orders", 1)
        yield running


def connection_to(cluster: Cluster, node: int) -> Connection:
    found = next(each for each in cluster.nodes if each.id == node)
    return Connection(found.host, found.port, 120)


# -- a paused process


def test_a_paused_node_keeps_its_connections_and_answers_when_it_is_resumed(cluster: Cluster) -> None:
    with connection_to(cluster, 3) as old, ThreadPoolExecutor(2) as pool:
        assert old.call(messages.ApiVersionsRequest(), 0).error_code == 0
        cluster.pause(3)
        on_old = pool.submit(old.call, messages.ApiVersionsRequest(), 0)
        on_new = pool.submit(ask, cluster, 3, messages.ApiVersionsRequest(), 0)
        assert produce(cluster, 1, "waits for node 3", timeout_ms=200).error_code == (
            ErrorCode.REQUEST_TIMED_OUT
        )
        wait_for_bytes(cluster, 3, on_old, on_new)
        cluster.resume(3)
        assert on_old.result().error_code == on_new.result().error_code == 0
    assert cluster.in_sync("orders") == [1, 2, 3]


def test_a_paused_leader_is_fenced_and_is_a_deposed_leader_when_it_is_resumed(
    cluster: Cluster, clock: ManualClock
) -> None:
    assert produce(cluster, 1, "common").error_code == 0
    with connection_to(cluster, 1) as client, ThreadPoolExecutor(1) as pool:
        client.call(messages.ApiVersionsRequest(), 0)
        cluster.pause(1)
        clock.advance(SESSION_MS - 1)
        assert cluster.leader("orders") == 1
        clock.advance(1)
        assert (cluster.leader("orders"), cluster.in_sync("orders")) == (2, [2, 3])
        assert produce(cluster, 2, "kept").base_offset == 1
        sent = pool.submit(produce, cluster, 1, "lost", acks=1)
        wait_for_bytes(cluster, 1, sent)
        cluster.resume(1)
        assert sent.result().base_offset == 1  # as far as it knew then, it led
    assert produce(cluster, 1, "refused").error_code == NOT_LEADER
    clock.advance(LAG_MS)
    assert cluster.in_sync("orders") == [1, 2, 3]
    cluster.move_leader("orders", to=1)
    assert consumed(cluster) == ["common", "kept"]
    assert end_of_epoch(cluster, 1, 0) == (0, 1)


def wait_for_bytes(cluster: Cluster, node: int, *calls: Future[Any]) -> None:
    """Return when a paused node has something to read of each of these calls, none of which it answers."""

    def unread() -> int:
        server: Any = cluster._running()
        peers = server._network.servers[node]._peers
        sockets = [peer._transport.get_extra_info("socket") for peer in peers if peer._transport]
        return sum(map(_has_bytes, sockets))

    while cluster._call(lambda _: unread()) < len(calls):
        assert not any(call.done() for call in calls), [call.exception() for call in calls if call.done()]
    assert not any(call.done() for call in calls)


def _has_bytes(found: Any) -> bool:
    with socket.socket(fileno=socket.dup(found.fileno())) as copied:
        copied.setblocking(False)
        try:
            return bool(copied.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False


def test_a_node_that_is_resumed_in_time_still_leads(cluster: Cluster, clock: ManualClock) -> None:
    cluster.pause(1)
    clock.advance(SESSION_MS - 1)
    cluster.resume(1)
    clock.advance(SESSION_MS)
    assert cluster.leader("orders") == 1
    assert produce(cluster, 1, "x").error_code == 0


def test_a_paused_node_may_be_killed_but_not_stopped_or_paused_again(
    cluster: Cluster, clock: ManualClock
) -> None:
    cluster.pause(2)
    for refused in (cluster.stop_node, cluster.pause, cluster.restart):
        with pytest.raises(ValueError, match="node 2 is paused"):
            refused(2)
    assert "node 2" in cluster.describe()
    assert ", paused" in cluster.describe()
    with pytest.raises(ValueError, match="node 1 is not paused"):
        cluster.resume(1)
    cluster.kill(2)
    cluster.start_node(2)
    clock.advance(LAG_MS)
    assert cluster.in_sync("orders") == [1, 2, 3]
    cluster.pause(2)  # and a cluster stops with a node that is paused


def test_a_paused_node_stays_fenced_when_the_network_heals(cluster: Cluster, clock: ManualClock) -> None:
    cluster.pause(1)
    clock.advance(SESSION_MS)
    cluster.partition({1, 2}, 3)
    cluster.heal()
    assert cluster.leader("orders") == 2
    with pytest.raises(ValueError, match="node 1 is fenced and cannot lead orders-0"):
        cluster.move_leader("orders", to=1)
    cluster.resume(1)
    clock.advance(LAG_MS)
    assert cluster.move_leader("orders", to=1) == 1


def test_a_test_uses_the_cluster_while_a_node_is_paused(cluster: Cluster, clock: ManualClock) -> None:
    cluster.pause(1)
    with pytest.raises(RuntimeError, match="no node leads orders-0"):
        cluster.produce("orders", ["x"])
    clock.advance(SESSION_MS)
    assert cluster.produce("orders", ["x"]) == {("orders", 0): 1}
    assert consumed(cluster) == ["x"]
    cluster.compact()
    cluster.resume(1)


# -- restarts


def test_a_restarted_node_stops_in_order_and_returns_at_its_address(
    cluster: Cluster, clock: ManualClock
) -> None:
    address = cluster.nodes[0].address
    produce(cluster, 1, "a")
    cluster.restart(1)
    assert (cluster.nodes[0].address, cluster.nodes[0].is_up) == (address, True)
    assert cluster.leader("orders") == 2
    clock.advance(LAG_MS)
    assert cluster.in_sync("orders") == [1, 2, 3]
    assert consumed(cluster) == ["a"]


def test_a_node_that_does_not_reach_the_controller_does_not_start(
    cluster: Cluster, clock: ManualClock
) -> None:
    cluster.partition(1, {2, 3})
    with pytest.raises(ValueError, match="node 1 does not reach the controller"):
        cluster.restart(1)
    assert cluster.nodes[0].is_up
    cluster.stop_node(1)
    with pytest.raises(ValueError, match="node 1 does not reach the controller"):
        cluster.start_node(1)
    cluster.heal()
    cluster.start_node(1)
    clock.advance(LAG_MS)
    assert cluster.in_sync("orders") == [1, 2, 3]


# -- the ISR


def test_an_isr_that_a_test_shrinks_refuses_acks_all(cluster: Cluster, clock: ManualClock) -> None:
    assert produce(cluster, 1, "a").error_code == 0
    assert (cluster.shrink_isr("orders"), cluster.in_sync("orders")) == (3, [1, 2])
    assert produce(cluster, 1, "b").error_code == 0
    assert (cluster.shrink_isr("orders", node=2), cluster.in_sync("orders")) == (2, [1])
    assert produce(cluster, 1, "refused").error_code == NOT_ENOUGH
    assert produce(cluster, 1, "c", acks=1).base_offset == 2
    clock.advance(LAG_MS)
    assert (values(fetch(cluster, 1)), cluster.in_sync("orders")) == (["a", "b"], [1])
    cluster.grow_isr("orders")
    clock.advance(0)
    assert cluster.in_sync("orders") == [1, 2, 3]
    assert values(fetch(cluster, 1)) == ["a", "b", "c"]
    assert produce(cluster, 1, "d").base_offset == 3


def test_only_a_follower_in_the_isr_leaves_it(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match=r"node 1 is no follower in the ISR \[1, 2, 3\] of orders-0"):
        cluster.shrink_isr("orders", node=1)
    cluster.shrink_isr("orders")
    cluster.shrink_isr("orders")
    with pytest.raises(ValueError, match=r"no follower of orders-0 is in sync: \[1\]"):
        cluster.shrink_isr("orders")
    with pytest.raises(ValueError, match="topic orders has no partition 7"):
        cluster.grow_isr("orders", 7)


# -- a power failure


@pytest.mark.parametrize(("fsync", "left"), [("never", []), ("commit", ["a", "b"])])
def test_a_power_failure_of_all_nodes_loses_what_they_have_not_synced(
    clock: ManualClock, fsync: str, left: list[str]
) -> None:
    with Cluster({"fsync": fsync}, clock=clock) as cluster:
        cluster.create_topic("orders", 1)
        assert produce(cluster, 1, "a", "b").base_offset == 0
        home = cluster.coordinator("billing")
        assert commit(cluster, home, "billing", 2) == 0
        for node in (1, 2, 3):
            cluster.kill(node, power_failure=True)
        for node in (1, 2, 3):
            cluster.start_node(node)
        clock.advance(LAG_MS)
        assert consumed(cluster) == left
        cluster.assert_committed("billing", {("orders", 0): 2 if left else None})
        read = fetch(cluster, cluster.leader("orders"), 2).error_code
        assert read == (0 if left else ErrorCode.OFFSET_OUT_OF_RANGE)


def test_a_node_without_power_copies_what_it_has_lost(cluster: Cluster, clock: ManualClock) -> None:
    assert produce(cluster, 1, "a", "b").error_code == 0
    cluster.kill(1, power_failure=True)
    assert produce(cluster, 2, "c").base_offset == 2
    cluster.start_node(1)
    clock.advance(LAG_MS)
    assert cluster.in_sync("orders") == [1, 2, 3]
    cluster.move_leader("orders", to=1)
    assert values(fetch(cluster, 1)) == ["a", "b", "c"]


# -- a slow node


def test_what_is_sent_when_a_node_is_fast_again_does_not_overtake_what_is_under_way() -> None:
    """Frames of one connection: an answer that overtakes an earlier one would be taken for that."""
    clock, soon, arrived = ManualClock(), list[Any](), list[str]()
    scheduler = Scheduler(clock)
    network = InProcessNetwork[Any](soon.append, scheduler.at, lambda: clock.now().mono_ms)

    def send(name: str, target: int = 2) -> None:
        assert network.carry(1, target, lambda: arrived.append(name))

    def advance(ms: int) -> None:
        clock.advance(ms)
        scheduler.run_due(clock.now())
        while soon:
            soon.pop(0)()

    network.slow(2, 5_000)
    send("first")
    advance(1_000)
    network.slow(2, 1_000)
    send("second")
    network.slow(2, 0)
    send("third")
    send("to a fast node", 3)
    advance(3_999)
    assert arrived == ["to a fast node"]
    advance(1)
    assert arrived == ["to a fast node", "first", "second", "third"]
    send("fourth")
    advance(0)
    assert arrived[-1] == "fourth"


@pytest.mark.parametrize("sides", [({1}, {2, 3}), ({2, 3}, {1}), ({1, 2}, {3}), ({1}, {2}, {3})])
def test_a_leader_alone_in_the_isr_acknowledges_when_the_followers_that_it_kept_out_are_gone(
    clock: ManualClock, sides: tuple[set[int], ...]
) -> None:
    """Followers that cannot fetch were proposed for the ISR, to a controller that was not reached, and waited for."""
    with Cluster({"broker.session.timeout.ms": 600_000}, clock=clock) as cluster:
        cluster.create_topic("orders", 1)
        assert produce(cluster, 1, "a").error_code == 0
        assert {cluster.shrink_isr("orders"), cluster.shrink_isr("orders")} == {2, 3}
        cluster.partition(*sides)
        clock.advance(LAG_MS)
        assert cluster.in_sync("orders") == [1]
        assert produce(cluster, 1, "b", acks=1).error_code == 0
        assert values(fetch(cluster, 1)) == ["a"], "they were caught up until now"
        for _ in range(3):
            clock.advance(LAG_MS // 2)
        assert values(fetch(cluster, 1)) == ["a", "b"]
        assert produce(cluster, 1, "c").error_code == 0
