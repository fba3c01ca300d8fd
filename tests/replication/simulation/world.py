"""One run: nodes, a controller and a network in virtual time, and after every step the question whether it is right."""

import random
from collections.abc import Callable
from typing import Any

from kafka_offsets.errors import ErrorCode
from kafka_offsets.replication import elections
from kafka_offsets.replication.leader import LeaderReplica
from kafka_offsets.replication.partition_state import PartitionState
from tests.replication.pure_log import PureLog
from tests.replication.simulation.controller import Controller, Metadata
from tests.replication.simulation.history import History, require
from tests.replication.simulation.network import CONTROLLER, Network
from tests.replication.simulation.node import Node
from tests.replication.simulation.plan import Plan
from tests.simulation.engine import Step

EXPIRE_MS = 500
SETTLE_MS = 90_000
PAUSES_MS = (5, 40, 200, 200, 700, 700, 2000, 6000)


class World:
    """Nothing here draws a number: everything follows from the plan of a seed and from its steps."""

    def __init__(self, plan: Plan, trace: Callable[[str], None] | None = None) -> None:
        self.plan = plan
        self.trace = trace or (lambda _: None)
        self.require = require
        self.network = Network(plan.loss, plan.repeat)
        self.history = History()
        self.controller = Controller(plan, self.history, self._publish)
        self.nodes = {number: Node(self, number) for number in range(1, plan.nodes + 1)}
        self.values = 0
        for node in self.nodes.values():
            node.start()
            node.broker_epoch = self.controller.admit(node.id, node.run)
        self._expire()
        self.controller.change(None)
        self.network.run(3000)

    # --- messages

    def call(
        self,
        node: Node,
        target: int,
        ask: Callable[[], Any],
        on_answer: Callable[[Any], None],
        to: Node | None = None,
    ) -> None:
        """Send a request of a node, and its answer back: both only between the runs that speak now."""
        run, target_run = node.run, to.run if to else 0

        def arrive() -> None:
            if to is None or (to.is_up and to.run == target_run):
                self.network.send(target, node.id, answered, ask())

        def answered(answer: Any) -> None:
            if node.is_up and node.run == run:
                on_answer(answer)

        self.network.send(node.id, target, arrive)

    def register(self, node: Node, run: int) -> tuple[int, Metadata] | None:
        """Register a run of a node, unless it has ended: then its connection is closed."""
        if node.run != run:
            return None
        epoch = self.controller.register(node.id, run, node.clean_epoch, self.network.now_ms)
        return None if epoch is None else (epoch, self.controller.metadata)

    def heartbeat(self, node: Node, epoch: int, index: int) -> Metadata | None:
        if self.controller.heartbeat(node.id, epoch, index, self.network.now_ms):
            return self.controller.metadata
        return None

    def _publish(self, metadata: Metadata) -> None:
        self.trace(f"{self.network.now_ms}: {metadata}")
        for node in self.nodes.values():
            self.network.send(CONTROLLER, node.id, self._published, node, node.run, metadata)

    def _published(self, node: Node, run: int, metadata: Metadata) -> None:
        if node.is_up and node.run == run:
            node.on_metadata(metadata)

    def _expire(self) -> None:
        self.controller.expire(self.network.now_ms)
        self.network.at(self.network.now_ms + EXPIRE_MS, self._expire)

    # --- what is right

    def observe(self, node: Node) -> None:
        """A node has a new high watermark: consumers may read up to there."""
        self.history.visible(str(node), node.hw_epoch, node.log, node.high_watermark)

    def check(self) -> None:
        """After each step."""
        for node in self.nodes.values():
            if node.is_up and node.role is not None:
                self.observe(node)
        state, brokers = self.controller.state, self.controller.brokers
        for replica in (*state.isr, *state.elr):
            node = self.nodes[replica]
            if node.is_up and node.broker_epoch == brokers[replica].epoch:
                self.history.in_sync(str(node), node.log)

    def settle(self) -> None:
        """Mend everything: then all replicas join the ISR and are equal, with everything that was acknowledged."""
        network = self.network
        network.cut.clear()
        network.release()
        network.loss = network.repeat = 0
        for node in self.nodes.values():
            if not node.is_up:
                node.start()
        end_ms = network.now_ms + SETTLE_MS
        while network.now_ms < end_ms and not self._is_settled():
            network.run(network.now_ms + 500)
            self.check()
        require(
            self._is_settled(), f"not settled: {self.controller.state}, {[*map(str, self.nodes.values())]}"
        )
        logs = [self.nodes[replica].log for replica in self.controller.state.replicas]
        self.history.complete(logs[0])

    def _is_settled(self) -> bool:
        state = self.controller.state
        if state.leader < 0 or state.is_reassigning or set(state.isr) != set(state.replicas):
            return False
        leader = self.nodes[state.leader]
        replicas = [self.nodes[replica] for replica in state.replicas]
        return isinstance(leader.role, LeaderReplica) and all(
            node.high_watermark == leader.log.log_end_offset == node.log.log_end_offset
            and _are_equal(node.log, leader.log)
            for node in replicas
        )

    # --- steps

    def do(self, step: Step) -> None:
        """Carry out a step, then check."""
        kind, who, number = step
        self.network.fate = random.Random(number)
        node = self.nodes[who % self.plan.nodes + 1]
        done = getattr(self, f"_do_{kind}")(node, number)
        self.trace(f"{self.network.now_ms}: {kind} {node}{'' if done is None else f' {done}'}")
        pause_ms = PAUSES_MS[number % len(PAUSES_MS)] if kind == "time" else 0
        self.network.run(self.network.now_ms + pause_ms)
        self.check()

    def _do_time(self, node: Node, number: int) -> None:
        """Let time pass."""

    def _do_produce(self, node: Node, number: int) -> str:
        acks = 1 if number % 5 == 0 else -1
        leader = self.nodes.get(self.controller.state.leader)
        if leader is not None and number % 3:
            node = leader
        values = []
        for _ in range(1 + number // 8 % 4):
            self.values += 1
            values.append(f"v{self.values}")
        error = node.produce(acks, values) if node.is_up else ErrorCode.NETWORK_EXCEPTION
        return f"acks={acks} {values} {error.name}"

    def _do_kill(self, node: Node, number: int) -> None:
        if node.is_up:
            node.kill()

    def _do_power(self, node: Node, number: int) -> None:
        if node.is_up and self.plan.elr:
            node.power_failure()

    def _do_stop(self, node: Node, number: int) -> None:
        if node.is_up and node.id in self.controller.live and node.broker_epoch >= 0:
            node.stop()

    def _do_start(self, node: Node, number: int) -> None:
        down = [node for node in self.nodes.values() if not node.is_up]
        if down:
            down[number % len(down)].start()

    def _do_flush(self, node: Node, number: int) -> None:
        node.flush()

    def _do_isolate(self, node: Node, number: int) -> None:
        """Cut a node off: from the other nodes, from the controller, or from all."""
        others = [other for other in self.nodes if other != node.id]
        self.network.isolate(node.id, (others, others, [CONTROLLER], [CONTROLLER, *others])[number % 4])

    def _do_cut(self, node: Node, number: int) -> None:
        """Cut one direction of one link."""
        ends = [CONTROLLER, *self.nodes]
        other = ends[number % len(ends)]
        if other != node.id:
            self.network.cut.add((node.id, other) if number & 64 else (other, node.id))

    def _do_hold(self, node: Node, number: int) -> None:
        """Hold what a node sends to one other, until they are released: then it is late by seconds."""
        ends = [CONTROLLER, *self.nodes]
        source, target = node.id, ends[number % len(ends)]
        if number & 64:  # a proposal of a leader that comes too late is what the epochs are for
            source, target = self.controller.state.leader, CONTROLLER
        self.network.held.setdefault((source, target), [])

    def _do_release(self, node: Node, number: int) -> None:
        self.network.release()

    def _do_heal(self, node: Node, number: int) -> None:
        self.network.cut.clear()

    def _do_prefer(self, node: Node, number: int) -> None:
        self._elect(preferred=True)

    def _do_unclean(self, node: Node, number: int) -> None:
        if self.plan.unclean and self.controller.state.leader < 0:
            self._elect(unclean=True)

    def _elect(self, **kind: bool) -> None:
        controller = self.controller
        changed = elections.elect(
            controller.state, controller.live.keys(), min_isr=controller.min_isr, **kind
        )
        if changed is not None:
            controller.change(changed)

    def _do_reassign(self, node: Node, number: int) -> None:
        controller = self.controller
        if controller.state.is_reassigning:
            return
        target = random.Random(number).sample([*self.nodes], self.plan.replicas)
        changed = elections.reassign(
            controller.state, tuple(target), controller.live.keys(), min_isr=controller.min_isr
        )
        if changed is not None:
            controller.change(changed)

    def _do_cancel(self, node: Node, number: int) -> None:
        controller = self.controller
        changed = elections.cancel_reassignment(
            controller.state, controller.live.keys(), unclean=self.plan.unclean, min_isr=controller.min_isr
        )
        if isinstance(changed, PartitionState):
            controller.change(changed)

    def _do_delete(self, node: Node, number: int) -> None:
        leader = self.nodes.get(self.controller.state.leader, node)
        if leader.is_up:
            leader.delete_before(leader.log.log_start_offset + number % 20)


def _are_equal(one: PureLog, other: PureLog) -> bool:
    """Whether two logs that end together have the same records where both have any."""
    first = max(one.log_start_offset, other.log_start_offset)
    count = one.log_end_offset - first
    return count <= 0 or one.read(first, count) == other.read(first, count)
