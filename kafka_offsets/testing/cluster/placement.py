"""Placement: the leaders and replicas of a cluster's partitions.

All nodes share one state, so a move copies no data. Clients see another leader in the metadata, a new leader epoch,
and for a partition of the offsets topic a coordinator that has loaded its groups from the log.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafka_offsets.broker.api import fetch
from kafka_offsets.broker.context import Context
from kafka_offsets.broker.coordination.runtime import partition_for
from kafka_offsets.broker.partition.partitions import Topic
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

NOBODY = -1
"""The leader of a partition none of whose replicas is up, as Metadata names it."""

_Key = tuple[bytes, int]


class Node(NamedTuple):
    """One broker of a cluster, as clients see it.

    id     from `node.id` on, 1 unless that is configured
    is_up  whether it listens
    """

    id: int
    host: str
    port: int
    is_up: bool

    @property
    def address(self) -> str:
        """The advertised `host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Placement:
    """The placement of partitions in a cluster.

    Partition p of a topic has its replicas at the nodes number p, p + 1 and so on, modulo the number of nodes. The
    first of them that is up is the first leader, until it stops or the leader is moved.

    node_ids            of all nodes
    replication_factor  of topics that were created without one
    """

    def __init__(self, node_ids: Sequence[int], replication_factor: int) -> None:
        self.nodes = {node_id: Node(node_id, "127.0.0.1", 0, False) for node_id in node_ids}
        self._default_factor = replication_factor
        self._factors: dict[bytes, int] = {}
        self._assigned: dict[_Key, list[int]] = {}
        self._leaders: dict[_Key, int] = {}

    # -- questions

    @property
    def up(self) -> list[Node]:
        """The nodes that are up."""
        return [node for node in self.nodes.values() if node.is_up]

    def is_up(self, node_id: int) -> bool:
        """Whether a node is up."""
        return node_id in self.nodes and self.nodes[node_id].is_up

    def replicas(self, topic: Topic, index: int) -> list[int]:
        """Return the nodes that have a replica, the preferred leader first."""
        assigned = self._assigned.get((topic.topic_id, index))
        if assigned is not None:
            return assigned
        ids = list(self.nodes)
        factor = min(self._factors.get(topic.topic_id, self._default_factor), len(ids))
        return [ids[(index + number) % len(ids)] for number in range(factor)]

    def in_sync(self, topic: Topic, index: int) -> list[int]:
        """Return the replicas that are up; for a partition without a leader its last leader, as in Kafka."""
        replicas = self.replicas(topic, index)
        return [node_id for node_id in replicas if self.is_up(node_id)] or replicas[:1]

    def leader(self, topic: Topic, index: int) -> int:
        """Return the node that leads a partition, `NOBODY` when none of its replicas is up."""
        key = topic.topic_id, index
        leader = self._leaders.get(key)
        if leader is None or not self.is_up(
            leader
        ):  # a node may have stopped between the snapshot and its restore
            leader = self._leaders[key] = self._next_leader(topic, index)
        return leader

    def _next_leader(self, topic: Topic, index: int, *, after: int = NOBODY) -> int:
        """Return the leader of a partition after `after`: the next replica in order that is up."""
        replicas = self.replicas(topic, index)
        start = replicas.index(after) + 1 if after in replicas else 0
        turned = replicas[start:] + replicas[:start]
        return next((node_id for node_id in turned if self.is_up(node_id)), NOBODY)

    def leads(self, core: Context, node_id: int, name: str, index: int) -> bool:
        """Whether a node leads a partition; True for a partition that does not exist."""
        topic = core.topics.get(name)
        if topic is None or not 0 <= index < topic.partition_count:
            return True
        return self.leader(topic, index) == node_id

    def home(self, core: Context, key: str, *, is_transactional: bool) -> tuple[Topic, int]:
        """Return the topic and the partition of a group or a transactional id. StorageError if it cannot be created."""
        if is_transactional:
            if not core.transactions.topic_exists:
                core.transactions.create_topic()
        elif not core.shards.topic_exists:
            core.shards.create_topic(core.clock.now())
        topic = core.topics.get(TRANSACTIONS_TOPIC if is_transactional else OFFSETS_TOPIC)
        assert topic is not None
        return topic, partition_for(key, topic.partition_count)

    def coordinator(self, core: Context, key: str, *, is_transactional: bool) -> int:
        """Return the node that coordinates a group or a transactional id; `NOBODY` if there is none."""
        return self.leader(*self.home(core, key, is_transactional=is_transactional))

    # -- changes

    def set_address(self, node_id: int, host: str, port: int) -> None:
        """Note the address of a node."""
        self.nodes[node_id] = self.nodes[node_id]._replace(host=host, port=port)

    def set_factor(self, topic: Topic, factor: int) -> None:
        """Note how many replicas a topic was created with."""
        self._factors[topic.topic_id] = factor

    def assign(self, core: Context, topic: Topic, index: int, replicas: Iterable[int]) -> None:
        """Move the replicas of a partition; its leader stays if it is among them."""
        leader = self._leaders.get((topic.topic_id, index))
        self._assigned[topic.topic_id, index] = list(replicas)
        if leader is not None and leader not in self.replicas(topic, index):
            self._begin_term(core, topic, index, self._next_leader(topic, index))

    def move(self, core: Context, topic: Topic, index: int, node_id: int | None = None) -> int:
        """Move the leader of a partition to a node, by default to the next replica; return the node.

        A node that is not a replica replaces the old leader in the list of replicas. ValueError for a node that is
        unknown or not up, and if there is no other replica.
        """
        leader, replicas = self.leader(topic, index), self.replicas(topic, index)
        where = f"{topic.name}-{index}"
        if node_id is None:
            node_id = self._next_leader(topic, index, after=leader)
            if node_id in (leader, NOBODY):
                raise ValueError(f"no other replica of {where} is up: {replicas}, leader {leader}")
        elif node_id not in self.nodes:
            raise ValueError(f"there is no node {node_id}, only {', '.join(map(str, self.nodes))}")
        elif not self.is_up(node_id):
            raise ValueError(f"node {node_id} is stopped and cannot lead {where}")
        if node_id not in replicas:
            given_up = leader if leader in replicas else replicas[0]
            self._assigned[topic.topic_id, index] = [
                node_id if each == given_up else each for each in replicas
            ]
        if node_id != leader:
            self._begin_term(core, topic, index, node_id)
        return node_id

    def elect_preferred(self, core: Context, topic: Topic, index: int) -> bool:
        """Make the first replica the leader of a partition if it is up; return whether the leader has changed."""
        preferred = self.replicas(topic, index)[0]
        if self.leader(topic, index) == preferred or not self.is_up(preferred):
            return False
        self._begin_term(core, topic, index, preferred)
        return True

    def stop(self, core: Context, node_id: int) -> None:
        """Stop a node; the next replicas lead its partitions."""
        led = [place for place in all_partitions(core) if self.leader(*place) == node_id]
        self.nodes[node_id] = self.nodes[node_id]._replace(is_up=False)
        for topic, index in led:
            self._begin_term(core, topic, index, self._next_leader(topic, index, after=node_id))

    def start(self, core: Context, node_id: int) -> None:
        """Start a node. It leads the partitions of its replicas that have no leader; other leaders stay."""
        left = [place for place in all_partitions(core) if self.leader(*place) == NOBODY]
        self.nodes[node_id] = self.nodes[node_id]._replace(is_up=True)
        for topic, index in left:
            if node_id in self.replicas(topic, index):
                self._begin_term(core, topic, index, node_id)

    def _begin_term(self, core: Context, topic: Topic, index: int, node_id: int) -> None:
        """Make a node the leader of a partition, in a new leader epoch, and load the groups in its log.

        Waiting fetches are answered, so that their clients retry and learn the new leader. StorageError if the epoch
        cannot be written.
        """
        partition = core.topics.partition_of(topic, index)
        assert partition is not None
        fetch.answer_waiting(
            core, lambda name, number: (name, number) == (topic.name, index), core.clock.now()
        )
        self._leaders[topic.topic_id, index] = node_id
        partition.log.start_epoch(partition.leader_epoch + 1)
        partition.leader_epoch = partition.log.leader_epoch
        if topic.name == OFFSETS_TOPIC:
            hosted = core.runtime.reload(index, core.clock.now())
            if hosted is not None:
                core.shards.touch(hosted)


def all_partitions(core: Context) -> Iterator[tuple[Topic, int]]:
    """Yield every partition of every topic."""
    for topic in core.topics.all():
        for index in range(topic.partition_count):
            yield topic, index
