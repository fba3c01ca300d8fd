"""Connections in virtual time: the frames of each arrive late and in order; a loss ends the connection."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafka_offsets.broker.network.inner_channel import InnerChannel
from kafka_offsets.broker.wire.channel import broker_client_id

if TYPE_CHECKING:
    from tests.simulation.cluster.node import Node
    from tests.simulation.cluster.world import World


class ClientEnd:
    """What a connection needs of the server at its end, where that is a client."""

    def request_turn(self) -> None:
        """A client has no turns."""


CLUSTER_ID = "cluster"


class Connection:
    """The network of one channel: a source that is a node, or a client, and a node as target."""

    def __init__(self, world: "World", source: int, target: int) -> None:
        self.world = world
        self.source, self.target = source, target
        self.run = world.run_of(source)
        self._due_ms: dict[tuple[int, int], int] = {}
        self.channel = InnerChannel(self, source, broker_client_id(source, CLUSTER_ID), target)

    def server(self, node_id: int) -> Any:
        """Return a node that is up; of the source only the run that has opened this connection."""
        if node_id not in self.world.nodes:
            return ClientEnd()
        node = self.world.nodes[node_id]
        is_there = node.run == self.run if node_id == self.source else node.accepts
        return node if node.is_up and is_there else None

    def carry(self, source: int, target: int, deliver: Callable[[], None]) -> bool:
        """Have `deliver` called later; False: the connection is lost."""
        world, network = self.world, self.world.network
        if world.run_of(self.source) != self.run:
            return True  # the sender has stopped: the loss is not reported
        if source == target:
            network.at(network.now_ms, self._at, target, deliver)
            return True
        fate = network.fate.random
        if (source, target) in network.cut or (network.loss and fate() * network.loss < 1):
            return False
        due_ms = max(network.now_ms + network.delay_ms(), self._due_ms.get((source, target), 0))
        self._due_ms[source, target] = due_ms
        network.at(due_ms, self._arrive, source, target, deliver)
        return True

    def _arrive(self, source: int, target: int, deliver: Callable[[], None]) -> None:
        if (source, target) in self.world.network.cut:
            self.lose()
        else:
            self._at(target, deliver)

    def _at(self, target: int, deliver: Callable[[], None]) -> None:
        """Deliver at a node, or let it lie there while it is paused."""
        node: Node | None = self.world.nodes.get(target)
        if node is None:
            deliver()
        elif target != self.source or node.run == self.run:
            node.receive(deliver)

    def lose(self) -> None:
        """Lose the connection: both ends learn it."""
        self.hang_up()
        self.channel.abort()

    def hang_up(self) -> None:
        """Let the broker at the other end drop the connection, also what waits there for an answer."""
        connection, node = self.channel._connection, self.world.nodes[self.target]
        if connection is not None and node.is_up and connection in node.core.connections:
            node.core.disconnect(connection)
