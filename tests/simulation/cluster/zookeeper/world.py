"""One run: brokers that take their metadata from a controller, which they elect in ZooKeeper."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from greenlet import getcurrent

from kafka_offsets.metadata.image import TopicPartition
from kafka_offsets.metadata.membership import ClusterMembership
from kafka_offsets.replication.partition_state import PartitionState
from kafka_offsets.zookeeper import cluster_changes
from kafka_offsets.zookeeper import cluster_znodes as znodes
from kafka_offsets.zookeeper.requests import Znode
from tests.replication.simulation.history import require
from tests.replication.simulation.network import CONTROLLER as ZOOKEEPER
from tests.simulation.cluster.clients import OFFSETS, ORDERS
from tests.simulation.cluster.node import Node
from tests.simulation.cluster.world import World
from tests.simulation.cluster.zookeeper.node import ElectingNode, run_of
from tests.simulation.cluster.zookeeper.server import SessionServer
from tests.simulation.cluster.zookeeper.streams import Listener

START_MS = 120_000
SLOW = 12
"""One in so many frames of streams is as late as other messages."""

AWAY_MS = (300, 2000, 9000)
_EXPECTED = (
    "cannot be the controller: ",
    "a broker that is gone cannot be fenced: ",
    "cannot take part in the cluster: ",
    "preferred leaders are not elected: ",
)
"""What brokers log as errors because ZooKeeper cannot be reached."""


class StoredMetadata:
    """What ZooKeeper has, and whether each change follows from what was there before.

    states       the latest ones
    every_state  all that were there: no broker knows another one
    epochs       broker epochs, by node; each with the run that has registered
    """

    def __init__(self, world: "ZooKeeperWorld") -> None:
        self._world = world
        self.states: dict[TopicPartition, PartitionState] = {}
        self.every_state: dict[TopicPartition, set[PartitionState]] = {ORDERS: set(), OFFSETS: set()}
        self.epochs: dict[int, tuple[int, int]] = {}

    def changed(self, before: dict[str, Znode], after: dict[str, Znode]) -> None:
        """Look at a change of the znodes."""
        returning = self._registered(before, after)
        for place in (ORDERS, OFFSETS):
            path, topic_path = znodes.state_path(*place), znodes.topic_path(place.topic)
            found, stored = after.get(path), after.get(topic_path)
            if found is None or stored is None:
                continue
            if found == before.get(path) and stored == before.get(topic_path):
                continue
            if found != before.get(path):
                epoch = int(after[znodes.CONTROLLER_EPOCH].data)
                text = f'"controller_epoch":{epoch},'.encode()
                require(text in found.data, f"{place}: {found.data!r} is written in controller epoch {epoch}")
            topic = znodes.decode_topic(stored.data)
            state = znodes.decode_state(found.data, found.version, topic, place.partition)
            self._world.decided(place, self.states.get(place), state, returning)
            self.states[place] = state
            self.every_state[place].add(state)

    def _registered(self, before: dict[str, Znode], after: dict[str, Znode]) -> list[int]:
        """Note new registrations; return the nodes that may lack records, and are not known to be registered."""
        found = after.get(znodes.REGISTRATIONS)
        if found is not None and found != before.get(znodes.REGISTRATIONS):
            for broker in znodes.decode_registrations(found.data).by_id.values():
                known, _ = self.epochs.get(broker.id, (-1, 0))
                require(broker.epoch >= known, f"broker {broker.id}: epoch {broker.epoch} after {known}")
                if broker.epoch > known:
                    self.epochs[broker.id] = broker.epoch, run_of(broker.port)
        nodes = self._world.nodes.values()
        return [node.id for node in nodes if not node.is_clean and not node.membership._has_registered]


class ZooKeeperWorld(World):
    """A world with ZooKeeper, which is node 0 of the network.

    hub        where time passes
    listeners  by address, open ones and others
    stalled    links that hold what they carry, in order
    """

    metadata: StoredMetadata
    nodes: dict[int, ElectingNode]  # type: ignore[assignment]

    def __init__(self, *arguments: Any) -> None:
        self.hub = getcurrent()
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.stalled: dict[tuple[int, int], list[Callable[[], None]]] = {}
        self.defects: list[str] = []
        self.is_rough = False
        self._patch = pytest.MonkeyPatch()
        super().__init__(*arguments)

    def _new_metadata(self) -> StoredMetadata:
        self.zookeeper = SessionServer(self)
        return StoredMetadata(self)

    def _new_node(self, number: int) -> ElectingNode:
        return ElectingNode(self, number)

    def _create_topics(self) -> None:
        """Create the topics through a broker, once all take part."""

        def create(membership: ClusterMembership) -> None:
            membership.create(self.topics())

        network = self.network
        while network.now_ms < START_MS and len(self.metadata.states) < len(self.metadata.every_state):
            network.run(network.now_ms + 2000)
            if all(node.accepts for node in self.nodes.values()) and not self.metadata.states:
                self.nodes[1].request(create)
        require(len(self.metadata.states) == 2, "the cluster did not start")
        self.is_rough = True
        self._patch.setattr(cluster_changes, "MOST_BYTES", self.plan.most_bytes)

    def delay_ms(self) -> int:
        """Return how long a frame of a stream takes: those after it wait, so few are slow."""
        fate = self.network.fate.random
        is_slow = self.is_rough and fate() * SLOW < 1
        return self.network.delay_ms() if is_slow else 1 + int(fate() * 20)

    def close(self) -> None:
        """End all threads."""
        self._patch.undo()
        for node in self.nodes.values():
            for thread in node.threads:
                thread.kill()

    def failed(self, what: str, error: BaseException | None) -> None:
        """A callback has raised."""
        self.defects.append(f"{what}: {error!r}")

    # -- what is right

    def check(self) -> None:
        """After each step."""
        require(not self.defects, "\n".join(self.defects))
        self.complaints[:] = [
            text
            for text in self.complaints
            if "Traceback" in text or not any(each in text for each in _EXPECTED)
        ]
        super().check()
        for node in self.nodes.values():
            if node.is_up:
                for place, state in node.membership.image.placed():
                    is_stored = state in self.metadata.every_state[place]
                    require(is_stored, f"{node} knows {place} as {state}, which ZooKeeper never had")

    def _may_lead_next(self, node: Node, place: TopicPartition) -> bool:
        """A node that has lost records is no longer in sync once it is registered."""
        return self.metadata.epochs.get(node.id, (-1, 0))[1] == node.run and super()._may_lead_next(
            node, place
        )

    def settle(self) -> None:
        self.is_rough = False
        self.zookeeper.come_back()
        super().settle()

    def _tend(self) -> None:
        """Cancel a reassignment that cannot end: as in Kafka, a second one may remove what the first one adds."""
        super()._tend()
        for place, state in self.metadata.states.items():
            if {*state.adding} & {*state.removing}:
                self._let_any(lambda membership, place=place: membership.reassign(place, None))

    def _let_any(self, change: Callable[[Any], object]) -> None:
        """Change the metadata through any node that takes part."""
        for node in self.nodes.values():
            if node.is_up and node.accepts:
                node.request(change)
                return

    # -- steps

    def _crashed(self, node: Node) -> None:
        """The end of its connections and of its session is all that is noticed."""

    def _update_reach(self) -> None:
        """Nothing but the connections depends on the network."""

    def _is_apart(self, node_id: int) -> bool:
        """A node that is stopping cannot be started yet."""
        return self.nodes[node_id].is_stopping

    def _resume(self, node: Node) -> None:
        node.resume()

    def _do_stop(self, node: Node, number: int) -> None:
        assert isinstance(node, ElectingNode)
        if node.is_up and node.accepts and not node.is_stopping:
            node.stop()

    def _do_hold(self, node: Node, number: int) -> None:
        """Hold what a node sends, mostly to the controller: proposals that come too late are what epochs are for."""
        found = self.zookeeper.tree.nodes.get(znodes.CONTROLLER)
        ends = [ZOOKEEPER, *self.nodes]
        other = ends[number % len(ends)]
        if found is not None and number & 192:
            other = znodes.decode_controller(found.data)
        if other != node.id:
            self.stalled.setdefault((node.id, other), [])

    def _do_release(self, node: Node, number: int) -> None:
        self._release()

    def _release(self) -> None:
        stalled, self.stalled = self.stalled, {}
        for frames in stalled.values():
            for arrive in frames:
                arrive()

    def _heal(self) -> None:
        self._release()
        super()._heal()

    def _do_expire(self, node: Node, number: int) -> None:
        """End the session of a node, which does not know it yet."""
        if node.run and isinstance(node, ElectingNode):
            self.zookeeper.expire(node.session.session_id)

    def _do_away(self, node: Node, number: int) -> None:
        """Let ZooKeeper be away for some time."""
        if not self.zookeeper.is_away:
            self.zookeeper.leave()
            self.network.at(self.network.now_ms + AWAY_MS[number % 3], self.zookeeper.come_back)

    def _do_prefer(self, node: Node, number: int) -> None:
        if node.is_up:
            node.request(lambda membership: membership.elect([ORDERS, OFFSETS], unclean=False))

    def _do_reassign(self, node: Node, number: int) -> None:
        """Move a partition to any replicas, unless it is moving."""
        place = (ORDERS, OFFSETS)[number % 2]
        if node.is_up and not self.metadata.states[place].is_reassigning:
            target = random.Random(number).sample([*self.nodes], self.plan.replicas)
            node.request(lambda membership: membership.reassign(place, target))

    def _do_lead(self, node: Node, number: int) -> None:
        """Let another in-sync replica lead, as the preferred one."""
        place = (ORDERS, OFFSETS)[number % 2]
        state = self.metadata.states[place]
        if not node.is_up or node.id not in state.isr or state.is_reassigning:
            return
        replicas = [node.id, *(each for each in state.replicas if each != node.id)]

        def lead(membership: ClusterMembership) -> None:
            membership.reassign(place, replicas)
            membership.elect([place], unclean=False)

        node.request(lead)
