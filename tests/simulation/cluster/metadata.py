"""Metadata that reach each node late, and in order; a node that the controller does not reach is fenced."""

from typing import TYPE_CHECKING

from kafka_offsets.errors import ErrorCode
from kafka_offsets.metadata.image import Delta, TopicPartition
from kafka_offsets.metadata.in_process import InProcessMembership, InProcessMetadata
from kafka_offsets.metadata.membership import Decided
from kafka_offsets.replication.elections import IsrProposal
from kafka_offsets.replication.partition_state import PartitionState
from tests.replication.simulation.network import CONTROLLER

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

SESSION_MS = 3000
CALL_TIMEOUT_MS = 1000


class LateMembership(InProcessMembership):
    """The metadata of one run of a node; `stream` counts how often it was connected with the controller."""

    def __init__(self, metadata: "LateMetadata", broker_id: int, run: int) -> None:
        super().__init__(metadata, broker_id)
        self._world, self._run = metadata.world, run
        self.stream = self._sent = self._arrived = 0
        self.due_ms = 0

    def alter_isr(self, place: TopicPartition, proposal: IsrProposal, decided: Decided) -> None:
        """Send a proposal, and its answer back; either may be lost. None arrives after a later one: that is TCP."""
        self._sent += 1
        number = self._sent
        network, node = self._world.network, self._world.nodes[self.broker_id]
        answered: list[ErrorCode] = []

        def back(error: ErrorCode) -> None:
            if not answered and node.run == self._run and node.is_up:
                answered.append(error)
                node.receive(lambda: decided(error))

        def arrive() -> None:
            if node.run == self._run and number > self._arrived:
                self._arrived = number
                InProcessMembership.alter_isr(
                    self,
                    place,
                    proposal,
                    lambda error: network.send(CONTROLLER, self.broker_id, back, error),
                )

        network.send(self.broker_id, CONTROLLER, arrive)
        network.at(network.now_ms + CALL_TIMEOUT_MS, back, ErrorCode.NETWORK_EXCEPTION)


class LateMetadata(InProcessMetadata):
    """The controller; it does not fail. `returning` are nodes that register after a crash: they may lack records."""

    def __init__(self, world: "World") -> None:
        super().__init__(world.plan.node_ids, min_isr=2)
        self.world = world
        self.returning: tuple[int, ...] = ()
        self.states: dict[TopicPartition, PartitionState] = {}

    def publish(self, delta: Delta, besides: int | None = None) -> None:
        """Send a change to every node that is reached."""
        self._observe()
        network = self.world.network
        for broker_id, member in list(self._members.items()):
            if broker_id == besides or broker_id in self._cut_off or not delta:
                continue
            assert isinstance(member, LateMembership)
            member.due_ms = max(member.due_ms, network.now_ms + network.delay_ms())
            network.at(member.due_ms, self._deliver, member, member.stream, delta)

    def _deliver(self, member: LateMembership, stream: int, delta: Delta) -> None:
        if self._members.get(member.broker_id) is member and member.stream == stream:
            member.receive(delta)

    def cut_off(self, broker_id: int) -> None:
        """Let nothing reach a node any longer, not even what is under way."""
        super().cut_off(broker_id)
        member = self._members[broker_id]
        assert isinstance(member, LateMembership)
        member.stream += 1

    def crashed(self, broker_id: int) -> None:
        """Forget a run without a word to the controller, which fences the node later."""
        del self._members[broker_id]

    def _observe(self) -> None:
        for place, state in self.image.placed():
            self.world.decided(place, self.states.get(place), state, self.returning)
            self.states[place] = state
