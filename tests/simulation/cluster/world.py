"""One run: nodes, a controller, a network and clients in virtual time, and after every step: is it right?"""

import random
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.metadata.controller import PlacedTopic
from kafka_offsets.metadata.image import TopicPartition
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import read_api_key_and_version, read_request_header
from kafka_offsets.replication.follower import FollowerReplica
from kafka_offsets.replication.leader import ACKS_ALL, LeaderReplica
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState
from tests.replication.simulation.history import History, require
from tests.replication.simulation.network import CONTROLLER, Network
from tests.simulation.cluster.clients import OFFSETS, ORDERS, Client, Member
from tests.simulation.cluster.metadata import SESSION_MS, LateMetadata
from tests.simulation.cluster.node import Node
from tests.simulation.cluster.plan import Plan
from tests.simulation.engine import Step

SETTLE_MS = 120_000
COMPACTED = {"cleanup.policy": "compact"}
PAUSES_MS = (5, 40, 200, 200, 700, 700, 2000, 6000)


class World:
    """Nothing here draws a number: everything follows from the plan of a seed and from its steps.

    complaints  errors that brokers have logged
    sent        values of records that clients have sent
    committed   offsets that clients have sent, by group and partition
    given_up    commits that may have been forwarded and were not acknowledged: they may take effect late
    kept        the last acknowledged one, with the floor of the history then
    """

    def __init__(self, plan: Plan, complaints: list[str], trace: Callable[[str], None] | None = None) -> None:
        self.plan = plan
        self.trace = trace or (lambda _: None)
        self.complaints = complaints
        self.network = Network(loss=0, repeat=0)
        self.histories: dict[TopicPartition, History] = defaultdict(History)
        self.nodes: dict[int, Node] = {}
        self.metadata = self._new_metadata()
        self.sent: set[bytes] = set()
        self.offsets = 0
        self.committed: dict[tuple[str, int], set[int]] = {}
        self.given_up: set[int] = set()
        self.kept: dict[tuple[str, int], tuple[int, int]] = {}
        self.assignments: dict[tuple[int, int], str] = {}
        self._forwarded: dict[tuple[str, int], int] = defaultdict(int)
        self.clients = [Client(self, number) for number in range(3)]
        self.members = [Member(self, number) for number in (3, 4)]

    def begin(self) -> None:
        """Start the nodes, and create the topics."""
        self.nodes.update((number, self._new_node(number)) for number in self.plan.node_ids)
        for node in self.nodes.values():
            node.start()
        self._create_topics()
        self.network.run(self.network.now_ms + 3000)
        self.network.loss = self.plan.loss

    def close(self) -> None:
        """Nothing of this world outlives it."""

    def _new_metadata(self) -> Any:
        return LateMetadata(self)

    def _new_node(self, number: int) -> Node:
        return Node(self, number)

    def _create_topics(self) -> None:
        self.metadata.publish(self.metadata.controller.create(self.topics()))

    def topics(self) -> list[PlacedTopic]:
        """Return the topics: two partitions whose preferred leaders differ."""
        ids, count = self.plan.node_ids, self.plan.replicas
        return [
            PlacedTopic(ORDERS.topic, b"orders".ljust(16), [ids[:count]], {}),
            PlacedTopic(OFFSETS.topic, b"offsets".ljust(16), [(ids + ids)[1 : count + 1]], COMPACTED),
        ]

    def run_of(self, node_id: int) -> int:
        """Return the number of a node's process; clients have one."""
        node = self.nodes.get(node_id)
        return 0 if node is None else node.run

    # -- what is right

    def visible(self, node: Node, partition: Partition, high_watermark: int) -> None:
        """A consumer may read up to this high watermark."""
        place, replica = TopicPartition(partition.topic, partition.index), partition.replica
        assert replica is not None
        epoch, log = replica.state.leader_epoch, node.mirror(partition)
        if isinstance(replica, FollowerReplica):
            # Its high watermark may be that of an earlier leader, until it has copied from this one.
            (record,) = log.read(high_watermark - 1, 1) or [(-1,)] if high_watermark else [(-1,)]
            epoch = record[0]
        self.histories[place].visible(f"{node}, {place}", epoch, log, high_watermark)

    def acknowledged(self, offset: int, value: bytes) -> None:
        """A producer has learned that all in-sync replicas have a record."""
        history = self.histories[ORDERS]
        base = history.base or 0
        require(
            history.base is not None and offset < base + len(history.records),
            f"{value!r} at {offset} is acknowledged and not below the high watermark",
        )
        record = history.records[offset - base]
        require(record[-1] == value, f"{value!r} at {offset} is acknowledged, {record} is visible there")
        history.acked[offset] = record

    def decided(
        self,
        place: TopicPartition,
        before: PartitionState | None,
        state: PartitionState,
        returning: Collection[int],
    ) -> None:
        """A controller has decided: a leader without all visible records is the outcome of an unclean election.

        returning  nodes that register with that after a crash
        """
        if before is None or before == state:
            return
        self.trace(f"{self.network.now_ms}: {place} {state}")
        require(
            state.leader in (before.leader, NO_LEADER) or state.leader_epoch > before.leader_epoch,
            f"{before} became {state}: same epoch",
        )
        require(state.leader in (NO_LEADER, *state.isr), f"{state}: its leader is not in the ISR")
        if state.leader in (before.leader, NO_LEADER) and state.leader not in returning:
            return
        in_sync = state.leader in (*before.isr, *before.elr)
        if state.leader in returning or (not in_sync and state.leader == before.last_leader):
            self.histories[place].begin_anew(state.leader_epoch)

    def forwarded(self, sent: Any) -> None:
        """A node passes a commit on, in an envelope: once, whatever other nodes know."""
        if not isinstance(sent, messages.EnvelopeRequest):
            return
        frame = bytes(sent.request_data)
        api_key, version = read_api_key_and_version(frame)
        if api_key == messages.OffsetCommitRequest.SCHEMA.number:
            tagged = version in messages.OffsetCommitRequest.SCHEMA.flexible
            _, _, body = read_request_header(frame, tagged)
            request, _ = messages.decode(messages.OffsetCommitRequest, frame, version, body)
            key = request.group_id, request.topics[0].partitions[0].committed_offset
            self._forwarded[key] += 1
            require(self._forwarded[key] == 1, f"the commit {key} is forwarded twice")

    def check(self) -> None:
        """After each step."""
        require(not self.complaints, "\n".join(self.complaints))
        for node in self.nodes.values():
            if not node.is_up:
                continue
            for place, partition in node.partitions():
                if partition.replica is None:
                    continue
                self.visible(node, partition, partition.log.high_watermark)
                if self._may_lead_next(node, place):
                    self.histories[place].in_sync(f"{node}, {place}", node.mirror(partition))
                if place == ORDERS:
                    records = node.mirror(partition).read(0, partition.log.log_end_offset)
                    require(
                        {record[-1] for record in records} <= self.sent,
                        f"{node}: a record that no client sent",
                    )

    def _may_lead_next(self, node: Node, place: TopicPartition) -> bool:
        state = self.metadata.states.get(place)
        return state is not None and node.id in (*state.isr, *state.elr)

    def settle(self) -> None:
        """Mend everything: then all replicas are in sync and equal, with everything that was acknowledged."""
        network = self.network
        network.loss = 0
        network.release()
        self._heal()
        for node in self.nodes.values():
            if node.is_paused:
                self._resume(node)
        end_ms = network.now_ms + SETTLE_MS
        while network.now_ms < end_ms and not self._is_settled():
            self._tend()
            network.run(network.now_ms + 500)
            self.check()
        require(self._is_settled(), f"not settled: {self.metadata.states}")
        for place, history in self.histories.items():
            history.complete(self._leading(place))
        self._check_offsets()

    def _tend(self) -> None:
        """Do what an operator does now and then."""
        for node in self.nodes.values():
            if not node.is_up and not self._is_apart(node.id):
                node.start()

    def _leading(self, place: TopicPartition) -> Any:
        node = self.nodes[self.metadata.states[place].leader]
        partition = node.core.topics.partition(*place)
        assert partition is not None
        return node.mirror(partition)

    def _check_offsets(self) -> None:
        """The coordinator has what was acknowledged last, or what was sent later."""
        core = self.nodes[self.metadata.states[OFFSETS].leader].core
        for (group, partition), committed in self.committed.items():
            found = core.shards.committed(group).get((ORDERS.topic, partition))
            kept, floor = self.kept.get((group, partition), (None, -1))
            if floor != self.histories[OFFSETS].floor:
                kept = None
            if found is None:
                require(
                    kept is None, f"{group}: {kept} of partition {partition} was acknowledged and is lost"
                )
                continue
            require(found.offset in committed, f"{group}: {found.offset} was never committed")
            require(
                kept is None or found.offset >= kept or found.offset in self.given_up,
                f"{group}: {found.offset} is committed for partition {partition}, {kept} was acknowledged",
            )

    def _is_settled(self) -> bool:
        for place, state in self.metadata.states.items():
            if state.is_reassigning or state.leader == NO_LEADER or set(state.isr) != set(state.replicas):
                return False
            replicas = [self.nodes[replica] for replica in state.replicas]
            found = [node.core.topics.partition(*place) for node in replicas]
            ends = {(each.log.log_end_offset, each.log.high_watermark) for each in found if each is not None}
            if None in found or len(ends) > 1 or len(set(*ends)) > 1:
                return False
            leader = found[state.replicas.index(state.leader)]
            if leader is None or not isinstance(leader.replica, LeaderReplica):
                return False
            logs = [node.mirror(each) for node, each in zip(replicas, found, strict=True) if each]
            if any(log.read(0, 1 << 30) != logs[0].read(0, 1 << 30) for log in logs):
                return False
        return True

    # -- steps

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

    def _target(self, place: TopicPartition, node: Node, number: int) -> int:
        """Return where a client believes a leader to be: mostly where it is."""
        leader = self.metadata.states[place].leader
        return leader if leader != NO_LEADER and number % 4 else node.id

    def _do_time(self, node: Node, number: int) -> None:
        """Let time pass."""

    def _do_produce(self, node: Node, number: int) -> str:
        acks = 1 if number % 5 == 0 else ACKS_ALL
        values = []
        for _ in range(1 + number // 8 % 3):
            self.offsets += 1
            values.append(b"v%d" % self.offsets)
        target = self._target(ORDERS, node, number // 64)
        self.clients[number // 256 % 3].produce(target, acks, values)
        return f"{target} acks={acks} {values}"

    def _do_commit(self, node: Node, number: int) -> str | None:
        client = self.clients[number % 3]
        if client.is_busy:
            return None
        target = self._target(OFFSETS, node, number // 64)
        client.commit(target, f"group-{client.number}")
        return f"{target} {self.offsets}"

    def _do_member(self, node: Node, number: int) -> None:
        self.members[number % 2].next_call(self._target(OFFSETS, node, number // 64), number // 256)

    def _do_read(self, node: Node, number: int) -> None:
        self.clients[number % 3].read(node.id)

    def _do_look(self, node: Node, number: int) -> None:
        client = self.clients[number % 3]
        client.look(self._target(OFFSETS, node, number // 64), f"group-{client.number}")

    def _do_kill(self, node: Node, number: int) -> None:
        if node.is_up:
            node.kill()
            self._crashed(node)

    def _do_power(self, node: Node, number: int) -> None:
        if node.is_up:
            node.power_failure(random.Random(number))
            self._crashed(node)

    def _crashed(self, node: Node) -> None:
        self.metadata.crashed(node.id)
        self._expire_later(node)

    def _do_stop(self, node: Node, number: int) -> None:
        if node.is_up and not node.is_paused and self.metadata.is_reachable(node.id):
            self.metadata.leave(node.id)
            node.stop()

    def _do_start(self, node: Node, number: int) -> None:
        """A broker without its controller does not start."""
        down = [each for each in self.nodes.values() if not each.is_up and not self._is_apart(each.id)]
        if down:
            down[number % len(down)].start()

    def _is_apart(self, node_id: int) -> bool:
        cut = self.network.cut
        return (node_id, CONTROLLER) in cut or (CONTROLLER, node_id) in cut

    def _expire_later(self, node: Node) -> None:
        """Fence a node when its session is over, unless it is back by then."""
        run = node.run

        def expire() -> None:
            if node.run == run and not self.metadata.is_reachable(node.id):
                self.metadata.fence(node.id)

        self.network.at(self.network.now_ms + SESSION_MS, expire)

    def _update_reach(self) -> None:
        """Cut nodes off from the controller, or connect them, as the network and their processes are now."""
        for node in self.nodes.values():
            if not node.is_up:
                continue
            is_away = node.is_paused or self._is_apart(node.id)
            if is_away and self.metadata.is_reachable(node.id):
                self.metadata.cut_off(node.id)
                self._expire_later(node)
            elif not is_away and not self.metadata.is_reachable(node.id):
                self.metadata.reach(node.id)

    def _do_isolate(self, node: Node, number: int) -> None:
        """Cut a node off: from the other nodes, from the controller, or from all."""
        others = [other for other in self.nodes if other != node.id]
        self.network.isolate(node.id, (others, others, [CONTROLLER], [CONTROLLER, *others])[number % 4])
        self._update_reach()

    def _do_cut(self, node: Node, number: int) -> None:
        """Cut one direction of one link."""
        ends = [CONTROLLER, *self.nodes]
        other = ends[number % len(ends)]
        if other != node.id:
            self.network.cut.add((node.id, other) if number & 64 else (other, node.id))
            self._update_reach()

    def _do_heal(self, node: Node, number: int) -> None:
        self._heal()

    def _heal(self) -> None:
        self.network.cut.clear()
        self._update_reach()

    def _do_hold(self, node: Node, number: int) -> None:
        """Hold what a node sends to the controller: proposals that come too late are what the epochs are for."""
        self.network.held.setdefault((node.id, CONTROLLER), [])

    def _do_release(self, node: Node, number: int) -> None:
        self.network.release()

    def _do_pause(self, node: Node, number: int) -> None:
        if node.is_up and not node.is_paused:
            node.pause()
            self._update_reach()

    def _do_resume(self, node: Node, number: int) -> None:
        paused = [each for each in self.nodes.values() if each.is_paused]
        if paused:
            self._resume(paused[number % len(paused)])

    def _resume(self, node: Node) -> None:
        """It works with what it knows until the controller reaches it."""
        node.resume()
        run = node.run

        def reached() -> None:
            if node.run == run and node.is_up:
                self._update_reach()

        self.network.at(self.network.now_ms + self.network.delay_ms(), reached)

    def _do_prefer(self, node: Node, number: int) -> None:
        _, delta = self.metadata.controller.elect(list(self.metadata.states))
        self.metadata.publish(delta)

    def _do_reassign(self, node: Node, number: int) -> None:
        """Move a partition to any replicas, unless it is moving."""
        place = (ORDERS, OFFSETS)[number % 2]
        if not self.metadata.states[place].is_reassigning:
            target = random.Random(number).sample([*self.nodes], self.plan.replicas)
            _, delta = self.metadata.controller.reassign(place, target)
            self.metadata.publish(delta)

    def _do_lead(self, node: Node, number: int) -> None:
        """Let another in-sync replica lead."""
        place = (ORDERS, OFFSETS)[number % 2]
        if node.id in self.metadata.states[place].isr and self.metadata.image.is_up(node.id):
            self.metadata.publish(self.metadata.controller.lead(place, node.id))
