"""What three nodes answer about groups and transactions while coordinators die, move, and have too few replicas.

Scripts for tests/stories/replicas.py. The topics of groups and of transactions have their replicas on nodes 2, 3 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.differential.play import Client
from tests.differential.stories import CLUSTER
from tests.stories import steps as modern
from tests.stories.steps import (
    Producer,
    add_offsets,
    batch,
    commit_in_transaction,
    fetch,
    offsets_at,
    produce,
)

if TYPE_CHECKING:
    from tests.stories.replicas import ClusterPlay

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
REPLICAS = (2, 3, 1)
COMMITTED = 1
TRANSACTIONAL_ID_NOT_FOUND, ELECTION_NOT_NEEDED = 105, 84
SESSION_MS = 60_000
ASSIGNMENT_INTERVAL_MS = 1200
ONE_SEGMENT = {"retention_ms": "-1", "segment_ms": str(2**63 - 1)}

SITUATIONS: dict[str, Callable[[ClusterPlay], None]] = {}


def situation(name: str) -> Callable[[Callable[[ClusterPlay], None]], Callable[[ClusterPlay], None]]:
    """Put a script into SITUATIONS."""

    def put(script: Callable[[ClusterPlay], None]) -> Callable[[ClusterPlay], None]:
        SITUATIONS[name] = script
        return script

    return put


# --- steps


def coordinators(w: ClusterPlay) -> str:
    """Let node 2 coordinate groups and transactional ids; return a topic with the same replicas."""
    name = w.make(*REPLICAS, **ONE_SEGMENT)
    for each in (OFFSETS, TRANSACTIONS):
        w.make(*REPLICAS, name=each, cleanup_policy="compact")
    configure(w, "2")
    at_work(w, w.node(2))
    return name


def at_work(w: ClusterPlay, client: Client) -> None:
    """Let time pass until a node coordinates groups and transactional ids."""
    ids = [w.slug]
    w.until(lambda: not w.quietly(client, "OffsetFetch", 7, group_id=w.group, topics=[]).error_code)
    w.until(
        lambda: (
            w.quietly(client, "DescribeTransactions", 0, transactional_ids=ids)
            .transaction_states[0]
            .error_code
            in (0, TRANSACTIONAL_ID_NOT_FOUND)
        )
    )
    new = {"transactional_id": None, "transaction_timeout_ms": 0}
    w.until(lambda: not w.quietly(client, "InitProducerId", 4, **new).error_code)


def configure(w: ClusterPlay, min_insync_replicas: str) -> None:
    """Alter min.insync.replicas of the topics of groups and of transactions."""
    configs = [{"name": "min.insync.replicas", "config_operation": 0, "value": min_insync_replicas}]
    resources = [
        {"resource_type": 2, "resource_name": name, "configs": configs} for name in (OFFSETS, TRANSACTIONS)
    ]
    w.quietly(w.node(2), "IncrementalAlterConfigs", 1, resources=resources, validate_only=False)
    w.pause(300)


def led_by(w: ClusterPlay, leader: int, *live: int) -> None:
    """Let time pass until a node leads and coordinates, with these in sync."""
    for name in (OFFSETS, TRANSACTIONS, w.slug):
        w.wait(name, leader=leader, isr=set(live), nodes=live)
    at_work(w, w.node(leader))


def elect(w: ClusterPlay, *replicas: int, is_told: bool = True) -> None:
    """Make the first of these replicas the leader and the coordinator.

    is_told  whether the story has a line of it
    """
    topics = [
        {"name": name, "partitions": [{"partition_index": 0, "replicas": list(replicas)}]}
        for name in (OFFSETS, TRANSACTIONS, w.slug)
    ]
    asking = w.node(1)
    w.quietly(asking, "AlterPartitionReassignments", 0, timeout_ms=10_000, topics=topics)
    wanted = [{"topic": each["name"], "partitions": [0]} for each in topics]

    def is_elected() -> bool:
        fields = {"election_type": 0, "topic_partitions": wanted, "timeout_ms": 10_000}
        found = w.quietly(asking, "ElectLeaders", 2, **fields).replica_election_results
        return all(each.partition_result[0].error_code in (0, ELECTION_NOT_NEEDED) for each in found)

    w.until(is_elected)
    if is_told:
        w.events.append([CLUSTER, f"elect node {replicas[0]}"])
    led_by(w, replicas[0], *sorted(replicas))


def at(w: ClusterPlay, node: int, member: Client) -> Client:
    """Return a member on a connection to another node."""
    moved = w.node(node)
    for name in ("member_id", "generation", "protocol_name", "instance", "session_ms", "rebalance_ms"):
        setattr(moved, name, getattr(member, name))
    moved.label = f"{member.label.split('@')[0]}@{node}"
    return moved


def member(w: ClusterPlay, label: str, node: int) -> Client:
    """Return a client on a connection to a node, by a name of its own."""
    made = w.node(node)
    made.label = f"{label}@{node}"
    made.session_ms = made.rebalance_ms = SESSION_MS
    return made


def producer(w: ClusterPlay, node: int) -> Producer:
    """Return a transactional producer on a connection to a node."""
    return Producer(member(w, "p", node), w.slug)


def moved(w: ClusterPlay, node: int, old: Producer) -> Producer:
    """Return a producer on a connection to another node."""
    return old.moved(member(w, "p", node))


def settle(w: ClusterPlay, node: int) -> None:
    """Let time pass until no transaction is about to end."""
    client = w.node(node)
    w.until(
        lambda: (
            not w.quietly(client, "DescribeTransactions", 0, transactional_ids=[w.slug])
            .transaction_states[0]
            .transaction_state.startswith("Prepare")
        )
    )


def every_group_request(a: Client, topic: str) -> None:
    """Ask each API of groups for the situation's group."""
    a.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[a.group])
    a.commit((topic, 0, 77))
    a.commit((topic, 0, 77), version=2)
    a.fetch((topic, 0), version=1)
    a.fetch((topic, 0), version=7)
    a.fetch((topic, 0), version=9)
    a.fetch(everything=True)
    a.join(3)
    a.join(9)
    a.sync()
    a.beat()
    a.leave()
    a.leave(version=1)
    a.describe(version=5)
    a.describe(version=6)
    a.list_groups()
    a.delete_offsets((topic, 0))
    modern.enter(a, member_id="nobody")
    modern.describe(a)


def every_transactional_request(a: Producer, topic: str) -> None:
    """Ask each API of transactions."""
    a.client.ask("FindCoordinator", 4, key_type=1, coordinator_keys=[a.name])
    a.init()
    a.add(topic)
    a.add(topic, version=4)
    add_offsets(a)
    commit_in_transaction(a, (topic, 0, 5))
    commit_in_transaction(a, (topic, 0, 5), version=1)
    commit_in_transaction(a, (topic, 0, 5), version=5)
    a.commit(3)
    a.commit(5)
    a.describe()
    a.client.ask("ListTransactions", 0, state_filters=[], producer_id_filters=[])


# --- situations


@situation("a node refuses the groups and transactions that another one coordinates")
def elsewhere(w: ClusterPlay) -> None:
    topic = coordinators(w)
    for node in (1, 3):
        every_group_request(member(w, "a", node), topic)
        every_transactional_request(producer(w, node), topic)
    w.node(1).delete_groups()


@situation("a classic group outlives its coordinator, and waiting members learn that it has moved")
def classic_group(w: ClusterPlay) -> None:
    topic = coordinators(w)
    a, b = member(w, "a", 2), member(w, "b", 2)
    w.stable(a, b)
    a.commit((topic, 0, 5))
    w.do("kill", 2)
    led_by(w, 3, 1, 3)
    a, b = at(w, 3, a), at(w, 3, b)
    for each in (a, b):
        each.beat()
    b.sync()
    a.describe(version=5)
    a.list_groups()
    a.fetch((topic, 0))
    a.commit((topic, 0, 6))
    a.commit((topic, 0, 7), generation_id_or_member_epoch=a.generation - 1)
    b.nobody_commits((topic, 0, 7))
    b.join()
    b.beat()
    w.do("restart", 2)
    led_by(w, 3, 1, 2, 3)
    every_group_request(at(w, 2, a), topic)
    a.send_join()
    a.silent()
    b.beat()
    elect(w, 2, 3, 1)
    a.answer()
    b.beat()
    a, b = at(w, 2, a), at(w, 2, b)
    a.describe()
    for each in (a, b):
        each.beat()
    a.send_join()
    b.join()
    a.answer()
    b.send_sync()
    b.silent()
    a.describe()
    elect(w, 3, 1, 2)
    b.answer()
    a.sync({a: b"x", b: b"y"})
    a, b = at(w, 3, a), at(w, 3, b)
    a.describe()
    a.beat()
    a.sync({a: b"x", b: b"y"})
    a.commit((topic, 0, 8))
    b.beat()
    b.send_join()
    a.join()
    b.answer()
    a.fetch((topic, 0))
    elect(w, 2, 3, 1)


@situation("a consumer group outlives its coordinator")
def consumer_group(w: ClusterPlay) -> None:
    topic = coordinators(w)
    a = member(w, "a", 2)
    entering = {"subscribed_topic_names": [topic]}
    modern.own(a, modern.enter(a, **entering))
    a.commit((topic, 0, 5))
    w.do("kill", 2)
    led_by(w, 3, 1, 3)
    a, b = at(w, 3, a), member(w, "b", 3)
    modern.describe(a)
    modern.beat(a)
    a.fetch((topic, 0), version=9, member_id=a.member_id, member_epoch=a.generation)
    a.commit((topic, 0, 6))
    w.pause(ASSIGNMENT_INTERVAL_MS)
    modern.enter(b, **entering)
    modern.beat(a)
    modern.describe(a)
    w.do("restart", 2)
    led_by(w, 3, 1, 2, 3)
    elect(w, 2, 3, 1)
    modern.beat(a)
    a.commit((topic, 0, 7))
    a, b = at(w, 2, a), at(w, 2, b)
    modern.describe(a)
    for each in (a, b):
        modern.beat(each)
    a.commit((topic, 0, 8))
    w.pause(ASSIGNMENT_INTERVAL_MS)
    modern.beat(a, member_epoch=-1)
    modern.beat(b)
    a.fetch((topic, 0))


@situation("a transaction outlives the coordinators of its id and of its group")
def transaction(w: ClusterPlay) -> None:
    topic = coordinators(w)
    p, reader = producer(w, 2), w.node(2)
    reader.nobody_commits((topic, 0, 1))
    p.init()
    p.add(topic)
    p.produce(topic, "one")
    add_offsets(p)
    commit_in_transaction(p, (topic, 0, 5))
    for stable in (False, True):
        reader.fetch((topic, 0), require_stable=stable)
    w.do("kill", 2)
    led_by(w, 3, 1, 3)
    p, reader = moved(w, 3, p), w.node(3)
    p.describe()
    for stable in (False, True):
        reader.fetch((topic, 0), require_stable=stable)
    fetch(reader, topic, (0, 0), version=12, isolation_level=COMMITTED)
    p.produce(topic, "two")
    commit_in_transaction(p, (topic, 0, 6))
    p.commit(3)
    settle(w, 3)
    p.describe()
    p.commit(3)
    for stable in (False, True):
        reader.fetch((topic, 0), require_stable=stable)
    w.visible(reader, topic, 3)
    fetch(reader, topic, (0, 0), version=12, isolation_level=COMMITTED)
    p.add(topic)
    p.produce(topic, "three")
    w.do("restart", 2)
    led_by(w, 3, 1, 2, 3)
    elect(w, 2, 3, 1)
    p.commit(3)
    p = moved(w, 2, p)
    p.describe()
    p.init()
    settle(w, 2)
    p.describe()
    reader = w.node(2)
    w.visible(reader, topic, 5)
    fetch(reader, topic, (0, 0), version=12, isolation_level=COMMITTED)


@situation("the topics of groups and transactions have too few replicas in sync: nothing is written")
def too_few(w: ClusterPlay) -> None:
    topic = coordinators(w)
    a, b, p = member(w, "a", 2), member(w, "b", 2), producer(w, 2)
    w.stable(a)
    a.commit((topic, 0, 5))
    p.init()
    configure(w, "3")
    w.do("kill", 3)
    for name in (OFFSETS, TRANSACTIONS, topic):
        w.wait(name, leader=2, isr={1, 2}, nodes=(1, 2))
    a.commit((topic, 0, 6))
    a.fetch((topic, 0))
    a.fetch((topic, 0), require_stable=True)
    a.beat()
    b.group = w.group + " two"
    b.join()
    b.join()
    b.describe()
    c = member(w, "c", 2)
    c.group = w.group + " three"
    modern.enter(c, subscribed_topic_names=[topic])
    modern.describe(c)
    a.join()
    a.describe()
    a.sync({a: b"again"})
    a.describe()
    a.beat()
    a.leave()
    a.describe()
    w.node(2).delete_offsets((topic, 0))
    p.add(topic)
    p.describe()
    add_offsets(p)
    commit_in_transaction(p, (topic, 0, 5), version=5)
    p.commit(3)
    p.init()
    p.describe()
    w.do("restart", 3)
    for name in (OFFSETS, TRANSACTIONS, topic):
        w.wait(name, leader=2, isr={1, 2, 3})
    a.fetch((topic, 0))
    a.describe()
    p.init()
    p.add(topic)
    p.commit(3)
    configure(w, "2")


@situation("a follower hangs: what a coordinator writes is not to be seen before it is replicated")
def unreplicated(w: ClusterPlay) -> None:
    topic = coordinators(w)
    a, c, d = (member(w, label, 2) for label in "acd")
    first, reader = member(w, "e", 2), w.node(2)
    d.group, c.group = w.group + " two", w.group + " three"
    w.stable(a)
    a.commit((topic, 0, 5))
    d.join()
    w.do("pause", 3)
    first.send("OffsetCommit", 9, **a_commit(a, topic, 6))
    modern_entering = modern.ENTERING | {
        "subscribed_topic_names": [topic],
        "member_id": "c",
        "group_id": c.group,
    }
    c.send("ConsumerGroupHeartbeat", 1, **modern_entering)
    d.send_join()
    reader.fetch((topic, 0))
    first.silent()
    c.silent()
    modern.describe(reader, c.group)
    reader.describe(d.group)
    reader.fetch((topic, 0), require_stable=True)
    first.answer()
    c.answer()
    d.answer()
    a.beat()
    a.join()
    reader.describe()
    reader.fetch((topic, 0))
    w.wait(OFFSETS, leader=2, isr={1, 2}, nodes=(1, 2))
    reader.fetch((topic, 0))
    reader.describe()
    modern.describe(reader, c.group)
    w.do("continue", 3)
    w.wait(OFFSETS, leader=2, isr={1, 2, 3})


def a_commit(a: Client, topic: str, offset: int) -> dict[str, Any]:
    """Return an OffsetCommit of a member."""
    partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
    topics = [{"name": topic, "topic_id": topic, "partitions": partitions}]
    return a.as_member("generation_id_or_member_epoch", {}) | {"topics": topics}


@situation("a follower hangs: a transaction's state changes when it is replicated")
def unreplicated_state(w: ClusterPlay) -> None:
    topic = coordinators(w)
    p, other = producer(w, 2), producer(w, 2)
    p.init()
    other.id, other.epoch = p.id, p.epoch
    other.client.label = "q@2"
    w.do("pause", 3)
    adding = {f"v3_and_below_{field}": value for field, value in p.own.items()}
    p.client.send("AddPartitionsToTxn", 3, v3_and_below_topics=[{"name": topic, "partitions": [0]}], **adding)
    other.describe()
    other.add(topic)
    other.commit(3)
    other.init()
    other.describe()
    p.client.answer()
    other.describe()
    w.wait(TRANSACTIONS, leader=2, isr={1, 2}, nodes=(1, 2))
    other.describe()
    p.add(topic)
    p.commit(3)
    w.do("continue", 3)
    w.wait(TRANSACTIONS, leader=2, isr={1, 2, 3})


@situation("the controller dies: coordinators continue, with another controller")
def controller_dies(w: ClusterPlay) -> None:
    topic = coordinators(w)
    controlled_by(w, 1)
    a, p = member(w, "a", 2), producer(w, 2)
    w.stable(a)
    modern.enter(member(w, "c", 2), group_id=w.group + " two", subscribed_topic_names=[topic])
    p.init()
    p.add(topic)
    w.do("kill", 1)
    w.broker = w.cluster.broker(2)
    led_by(w, 2, 2, 3)
    a.beat()
    a.commit((topic, 0, 5))
    a.fetch((topic, 0), require_stable=True)
    a.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[w.group])
    modern.describe(a, w.group + " two")
    add_offsets(p)
    commit_in_transaction(p, (topic, 0, 6))
    p.commit(3)
    settle(w, 2)
    a.fetch((topic, 0), require_stable=True)
    a.join()
    a.sync({a: b"again"})
    w.do("restart", 1)
    led_by(w, 2, 1, 2, 3)
    a.beat()
    every_group_request(at(w, 1, a), topic)


def controlled_by(w: ClusterPlay, node: int) -> None:
    """Restart controllers until a node is the active one."""
    asked = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    for _ in range(20):
        found = w.quietly(w.node(2), "DescribeQuorum", 0, **asked)
        active = found.topics[0].partitions[0].leader_id
        if active == node:
            led_by(w, 2, 1, 2, 3)
            return
        w.cluster.do("kill", w.cluster.directory, str(active))
        w.cluster.do("restart", w.cluster.directory, str(active))
        for name in (OFFSETS, TRANSACTIONS, w.slug):
            w.until(lambda name=name: all_in_sync(w, name))  # type: ignore[misc]
        elect(w, *REPLICAS, is_told=False)
    raise AssertionError(f"node {node} does not become the controller")


def all_in_sync(w: ClusterPlay, name: str) -> bool:
    """Whether each replica of a topic is in sync."""
    topics = [{"name": name}]
    found = w.quietly(w.node(1), "Metadata", 12, topics=topics, allow_auto_topic_creation=False)
    return len(found.topics[0].partitions[0].isr_nodes) == len(REPLICAS)


@situation("consumers fetch from followers since version 11")
def followers(w: ClusterPlay) -> None:
    topic = w.make(*REPLICAS, **ONE_SEGMENT)
    leader, follower = w.node(2), w.node(3)
    produce(leader, topic, batch("one"), 11)
    w.visible(follower, topic, 1)
    for client in (leader, follower):
        for version in (10, 11, 17):
            fetch(client, topic, (0, 0), version=version, rack_id="rack")
        fetch(client, topic, (0, 0), version=12, isolation_level=COMMITTED)
        fetch(client, topic, (0, 1), version=12)
        fetch(client, topic, (0, 2), version=12)
        for epoch in (0, 1):
            fetch_in(client, topic, epoch, 12)
            fetch_in(client, topic, epoch, 17)
        offsets_at(client, topic, (0, -1))
    follower = member(w, "follower", 3)
    follower.send("Fetch", 12, **waiting(topic, 1))
    follower.silent()
    produce(leader, topic, batch("two"), 11)
    follower.answer()
    follower.send("Fetch", 12, **waiting(topic, 2))
    follower.silent()
    w.do("kill", 2)
    w.wait(topic, leader=3, isr={1, 3}, nodes=(1, 3))
    produce(w.node(3), topic, batch("three"), 11)
    follower.answer()
    w.visible(w.node(1), topic, 3)
    for epoch in (0, 1):
        fetch_in(w.node(1), topic, epoch, 17)
    w.do("restart", 2)
    w.wait(topic, leader=3, isr={1, 2, 3})


def fetch_in(client: Client, topic: str, epoch: int, version: int) -> None:
    """Fetch, with the epoch of the leader."""
    partition = {"partition": 0, "current_leader_epoch": epoch, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "topic_id": topic, "partitions": [partition]}]
    client.ask("Fetch", version, max_wait_ms=0, min_bytes=0, topics=topics)


def waiting(topic: str, offset: int) -> dict[str, Any]:
    """Return a Fetch that waits for a record."""
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return {"max_wait_ms": 14_000, "min_bytes": 1, "topics": [{"topic": topic, "partitions": [partition]}]}
