"""Server of a cluster for tests: runs its nodes in one loop, and lets a test use all of them as one broker."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from kafka_offsets.broker.api import fetch
from kafka_offsets.broker.cluster.view import take_role
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.listeners import node_ports
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.network.due_timer import DueTimer
from kafka_offsets.broker.network.server import time_driver
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.broker.turn.scheduler import Deadline, Scheduler
from kafka_offsets.clock import Clock, Now, SystemClock
from kafka_offsets.errors import ErrorCode, unknown_partition
from kafka_offsets.metadata.image import ClusterImage, RegisteredBroker, TopicPartition
from kafka_offsets.metadata.in_process import InProcessMetadata
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.replication.leader import LeaderReplica
from kafka_offsets.replication.partition_state import NO_LEADER, PartitionState
from kafka_offsets.security.acls import AclBinding
from kafka_offsets.testing.cluster.network import InProcessNetwork
from kafka_offsets.testing.cluster.node import ClusterNode
from kafka_offsets.testing.cluster.reserved_ports import ReservedPorts
from kafka_offsets.testing.cluster.synced_files import SyncedFiles
from kafka_offsets.testing.cluster.view import ClusterState
from kafka_offsets.testing.contents.groups import NoLeaderError
from kafka_offsets.testing.server.consumption import Consumption
from kafka_offsets.testing.server.events import Event, Watches
from kafka_offsets.testing.server.recording import Recorder

T = TypeVar("T")

_ROUNDS_OF_READING = 5
"""A resumed process reads and decides what has arrived in the meantime; then the controller reaches it."""


class _CopiedCluster(NamedTuple):
    """The state of a cluster at one moment: the files of each node, and the metadata."""

    files: dict[int, SyncedFiles]
    image: ClusterImage
    cluster_id: str


class ClusterServer:
    """The nodes of a cluster.

    acls       those that are in force from the start
    core       what tests read of the cluster
    _apart     nodes, also stopped ones, on other sides of a cut network than the controller
    _reserved  the ports of nodes that are stopped
    _sessions  when the controller fences a node that it does not reach
    """

    def __init__(
        self,
        config: Config,
        ids: list[int],
        clock: Clock | None,
        recorder: Recorder | None,
        acls: Iterable[AclBinding] = (),
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._clock: Clock = SystemClock() if clock is None else clock
        self._recorder = recorder
        self._cluster_id = str(uuid.uuid4())
        self.metadata = InProcessMetadata(ids, config.min_insync_replicas)
        self.metadata.controller.alter_settings(ClusterSettings(acls=dict.fromkeys(acls, True)))
        self._scheduler = Scheduler(self._clock)
        self._timer = DueTimer(self._loop, self._clock, self._run_due)
        self._network = InProcessNetwork[ClusterNode](
            self._loop.call_soon, self._at, lambda: self._clock.now().mono_ms
        )
        self._files = {node_id: SyncedFiles() for node_id in ids}
        self._watches = Watches()
        self._consumption = Consumption()
        self._time_driver = time_driver(self._clock, self, self._loop)
        self._apart: set[int] = set()
        self._addresses: dict[int, tuple[str, Sequence[int]]] = {}
        self._reserved: dict[int, ReservedPorts] = {}
        self._sessions: dict[int, Deadline] = {}
        self._moves: dict[Future[int], Callable[[], int | None]] = {}
        self.core = self._new_state()
        self.on_restart: Callable[[], None] = lambda: None

    def _new_state(self) -> ClusterState:
        return ClusterState(
            self._config,
            self._clock,
            self.metadata.image,
            self._leading,
            lambda: self.cores,
            self._scheduler,
        )

    def _at(self, due_ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call back at a monotonic time, whatever node is up then."""
        deadline = self._scheduler.at(due_ms, callback)
        self._timer.set(self._scheduler.next_ms)
        return deadline

    def _run_due(self) -> None:
        self._scheduler.run_due(self._clock.now())
        self._timer.set(self._scheduler.next_ms)

    # -- nodes

    @property
    def nodes(self) -> list[RegisteredBroker]:
        """All registered nodes by their ids."""
        by_id = self.metadata.image.brokers.by_id
        return [by_id[node_id] for node_id in self.metadata.broker_ids if node_id in by_id]

    def is_running(self, node_id: int) -> bool:
        """Whether a node runs; it may be cut off."""
        return node_id in self._network.servers

    @property
    def servers(self) -> list[ClusterNode]:
        """The servers of the nodes that are up."""
        return list(self._network.servers.values())

    async def start(self, host: str, port: int) -> None:
        """Start all nodes, at this and the next ports. Raises OSError."""
        for number, node_id in enumerate(self.metadata.broker_ids):
            await self._start(node_id, host, node_ports(self._config.endpoints(), port, number))

    async def _start(
        self, node_id: int, host: str, ports: Sequence[int], was_clean: bool | None = None
    ) -> None:
        server = ClusterNode(
            self._config,
            node_id,
            self._files[node_id],
            self._clock,
            self._recorder,
            self.metadata,
            self._network,
            self._cluster_id,
            self._time_driver,
            self._poll,
            self._consumption,
        )
        if node_id in self._reserved:
            self._reserved.pop(node_id).release()
        try:
            await server.start(host, ports[0], ports[1:])
        except BaseException:
            await server.stop()
            raise
        self._network.servers[node_id] = server
        self._addresses[node_id] = host, server.ports
        server.join(was_clean=was_clean)
        server.request_turn()

    async def stop(self) -> None:
        """Stop all nodes. Waits for events end with an error."""
        self._scheduler.cancel_all()
        self._timer.cancel()
        if self._time_driver is not None:
            self._time_driver.stop()
        try:
            for node_id in list(self._network.servers):
                await self._stop(node_id)
        finally:
            for reserved in self._reserved.values():
                reserved.release()
            self._watches.abandon()

    async def _stop(self, node_id: int) -> None:
        server = self._node(node_id)
        server.end_turn_now()
        await self._end(node_id, server)
        self.request_turn()

    async def _end(self, node_id: int, server: ClusterNode) -> None:
        names = server.socket_names
        self._leave(node_id)
        await server.stop()
        self._reserved[node_id] = ReservedPorts(names)

    async def _kill(self, node_id: int, *, power_failure: bool) -> None:
        server, files = self._node(node_id), self._files[node_id]
        # At this moment: what the stop below writes is not there.
        left = files.after_power_failure() if power_failure else files.copy()
        await self._end(node_id, server)
        self._files[node_id] = left
        self.request_turn()

    def _leave(self, node_id: int) -> None:
        """Record that a node is gone: nothing reaches it, and it leads nothing."""
        self._end_session(node_id)
        self.metadata.leave(node_id)
        del self._network.servers[node_id]
        self._network.release(node_id)

    def _node(self, node_id: int) -> ClusterNode:
        self._check_known(node_id)
        server = self._network.servers.get(node_id)
        if server is None:
            raise ValueError(f"node {node_id} is stopped already")
        return server

    def _check_known(self, node_id: int) -> None:
        if node_id not in self.metadata.broker_ids:
            node_ids = ", ".join(map(str, self.metadata.broker_ids))
            raise ValueError(f"there is no node {node_id}, only {node_ids}")

    def _awake(self, node_id: int) -> ClusterNode:
        server = self._node(node_id)
        if server.is_paused:
            raise ValueError(f"node {node_id} is paused")
        return server

    def stopping(self, node_id: int) -> Future[None]:
        """Begin to stop a node. ValueError for an unknown, stopped or paused one."""
        self._awake(node_id)
        return self._run(self._stop(node_id))

    def killing(self, node_id: int, *, power_failure: bool) -> Future[None]:
        """Begin to kill a node. ValueError for an unknown or stopped one."""
        self._node(node_id)
        return self._run(self._kill(node_id, power_failure=power_failure))

    def starting(self, node_id: int) -> Future[None]:
        """Begin to start a node at its old address. ValueError for an unknown or running one, or one that is apart."""
        self._check_known(node_id)
        if node_id in self._network.servers:
            raise ValueError(f"node {node_id} runs already")
        self._check_not_apart(node_id)
        return self._run(self._start_again(node_id))

    async def _start_again(self, node_id: int) -> None:
        await self._start(node_id, *self._addresses[node_id])
        self.on_restart()

    def restarting(self, node_id: int) -> Future[None]:
        """Begin to stop and start a node. ValueError as `stopping` and `starting`."""
        self._awake(node_id)
        self._check_not_apart(node_id)

        async def restart() -> None:
            await self._stop(node_id)
            await self._start_again(node_id)

        return self._run(restart())

    def _check_not_apart(self, node_id: int) -> None:
        """A broker of Kafka waits for the controller before it listens."""
        if node_id in self._apart:
            raise ValueError(f"node {node_id} does not reach the controller, and cannot start before heal()")

    def pause(self, node_id: int) -> None:
        """Pause a node. ValueError for an unknown, stopped or paused one."""
        self._awake(node_id).pause()
        self._network.hold(node_id)
        self._cut_off(node_id)
        self.request_turn()

    def resuming(self, node_id: int) -> Future[None]:
        """Begin to resume a paused node. ValueError for any other one."""
        server = self._node(node_id)
        if not server.is_paused:
            raise ValueError(f"node {node_id} is not paused")

        async def resume() -> None:
            """Read what arrived during the pause, and serve requests again."""
            server.resume()
            self._network.release(node_id)
            for _ in range(_ROUNDS_OF_READING):
                await asyncio.sleep(0)
            self._reach(node_id)
            self.request_turn()

        return self._run(resume())

    def _run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # -- the network

    def cut(self, sides: list[set[int]]) -> None:
        """Cut the connections between nodes of different sides, and all sides but the largest off from the metadata."""
        for node_id in set().union(*sides):
            self._check_known(node_id)
        if len(sides) < 2:
            raise ValueError(f"a network is cut into two sides or more, not {len(sides)}")
        if sum(map(len, sides)) != len(set().union(*sides)):
            raise ValueError(f"a node is on two sides: {sides}")
        self._network.cut(sides)
        largest = max(sides, key=len)
        self._apart = set().union(*(side for side in sides if side is not largest))
        self._reach_again()

    def heal(self) -> None:
        """Connect all nodes again."""
        self._network.heal()
        self._apart = set()
        self._reach_again()

    def _reach_again(self) -> None:
        """Cut nodes off from the controller, or connect them, as the network is now."""
        for node_id in self.metadata.broker_ids:
            if node_id in self._apart:
                self._cut_off(node_id)
            else:
                self._reach(node_id)
        self.request_turn()

    def _cut_off(self, node_id: int) -> None:
        """Cut a node off from the controller, which fences it when it has missed its heartbeats for too long."""
        if not self.metadata.is_reachable(node_id):
            return
        self.metadata.cut_off(node_id)
        due_ms = self._clock.now().mono_ms + self._config.broker_session_timeout_ms

        def expire(now: Now) -> None:
            self.metadata.fence(node_id)
            self.request_turn()

        self._sessions[node_id] = self._at(due_ms, expire)

    def _reach(self, node_id: int) -> None:
        """Connect a node with the controller, if nothing is in the way."""
        server = self._network.server(node_id)
        if node_id in self._apart or server is None or server.is_paused:
            return
        self._end_session(node_id)
        self.metadata.reach(node_id)

    def _end_session(self, node_id: int) -> None:
        session = self._sessions.pop(node_id, None)
        if session is not None:
            session.cancel()

    def slow(self, node_id: int, ms: int) -> None:
        """Delay what a node exchanges with others."""
        self._check_known(node_id)
        if ms < 0:
            raise ValueError(f"a delay is not negative: {ms} ms")
        self._network.slow(node_id, ms)

    # -- leaders

    def state(self, topic: str, index: int) -> PartitionState:
        """Return the state of a partition. ValueError if it does not exist."""
        image = self.metadata.image
        partition_state = image.state(topic, index)
        if partition_state is None:
            counts = {name: len(known.partitions) for name, known in image.topics.items()}
            raise ValueError(unknown_partition(topic, index, counts))
        return partition_state

    def home(self, key: str, *, is_transactional: bool) -> tuple[str, int]:
        """Return the topic and the partition of a group or a transactional id; create the topic if it is missing."""
        topic = TRANSACTIONS_TOPIC if is_transactional else OFFSETS_TOPIC
        if topic not in self.metadata.image.topics:
            broker = self._any().core.broker
            if is_transactional:
                broker.transactions.create_topic()
            else:
                broker.groups.shards.create_topic(self._clock.now())
        return topic, partition_for(key, len(self.metadata.image.topics[topic].partitions))

    def _any(self) -> ClusterNode:
        if not self.servers:
            raise RuntimeError("all nodes of this cluster are stopped")
        awake = [server for server in self.servers if not server.is_paused]
        if not awake:
            raise RuntimeError("all nodes of this cluster are stopped or paused")
        return awake[0]

    @property
    def cores(self) -> list[BrokerCore]:
        """The brokers of the nodes that are up and not paused."""
        return [server.core for server in self.servers if not server.is_paused]

    def led(self, core: BrokerCore, results: dict[tuple[str, int], T]) -> dict[tuple[str, int], T]:
        """Return the results of the partitions that a broker leads."""
        node_id = core.broker.node.id
        return {
            partition: result
            for partition, result in results.items()
            if self.state(*partition).leader == node_id
        }

    def _leading(self, topic: str, index: int) -> BrokerCore:
        leader = self.metadata.image.leader(topic, index)
        server = self._network.servers.get(leader)
        if server is None:
            raise NoLeaderError(f"no node leads {topic}-{index}")
        take_role(server.core.broker, topic, index)
        return server.core

    def moving(self, place: tuple[str, int], to: int | None) -> Future[int]:
        """Begin to move the leader of a partition; the future has the node's id. ValueError as `move_leader`."""
        state, where = self.state(*place), f"{place[0]}-{place[1]}"
        if to is None:
            replicas = state.replicas
            start = replicas.index(state.leader) + 1 if state.leader in replicas else 0
            turned = replicas[start:] + replicas[:start]
            up = [
                replica
                for replica in turned
                if replica != state.leader and self.metadata.image.is_up(replica)
            ]
            if not up:
                raise ValueError(
                    f"no other replica of {where} is up: {list(replicas)}, leader {state.leader}"
                )
            to = up[0]
        self._check_known(to)
        if not self.metadata.image.is_up(to):
            why = "fenced" if self.is_running(to) else "stopped"
            raise ValueError(f"node {to} is {why} and cannot lead {where}")
        if to not in state.replicas:
            given_up = state.leader if state.leader in state.replicas else state.replicas[0]
            replicas = tuple(to if replica == given_up else replica for replica in state.replicas)
            _, delta = self.metadata.controller.reassign(TopicPartition(*place), replicas)
            self.metadata.publish(delta)
        future: Future[int] = Future()
        self._moves[future] = partial(self._move, TopicPartition(*place), to)
        self.request_turn()
        return future

    def _move(self, topic_partition: TopicPartition, to: int) -> int | None:
        """Make a node the leader once it has every record; None until then."""
        state = self.state(*topic_partition)
        if state.leader == to:
            return to
        if to not in state.isr:
            return None
        if state.leader != NO_LEADER:
            partition = self._leading(*topic_partition).topics.partition(*topic_partition)
            assert partition is not None
            if isinstance(partition.replica, LeaderReplica) and partition.replica.lag_of(to) != 0:
                return None
        self.metadata.publish(self.metadata.controller.lead(topic_partition, to))
        self.request_turn()
        return to

    def shrink_isr(self, topic: str, index: int, node_id: int | None) -> int:
        """Remove a follower from an ISR and keep it out. ValueError if it is not in it, or if it leads."""
        state, where = self.state(topic, index), f"{topic}-{index}"
        followers = [
            replica for replica in state.replicas if replica in state.isr and replica != state.leader
        ]
        if node_id is None:
            if not followers:
                raise ValueError(f"no follower of {where} is in sync: {list(state.isr)}")
            node_id = followers[-1]
        if node_id not in followers:
            raise ValueError(f"node {node_id} is no follower in the ISR {sorted(state.isr)} of {where}")
        self.metadata.hold_out(TopicPartition(topic, index), node_id)
        self.request_turn()
        return node_id

    def grow_isr(self, topic: str, index: int) -> None:
        """Let followers join an ISR again; they ask the leader at once."""
        self.state(topic, index)
        self.metadata.admit_again(TopicPartition(topic, index))
        for core in self.cores:
            fetch.answer_waiting(
                core.broker, lambda *partition: partition == (topic, index), self._clock.now()
            )
        self.request_turn()

    def elect_preferred(self) -> int:
        """Elect the preferred leaders; return how many leaders have moved."""
        partitions = [placed.topic_partition for placed in self.metadata.image.placed()]
        errors, delta = self.metadata.controller.elect(partitions)
        self.metadata.publish(delta)
        self.request_turn()
        return sum(error is ErrorCode.NONE for error in errors.values())

    # -- what a test sees as one broker

    def request_turn(self) -> None:
        """End the turn of every node soon."""
        for server in self.servers:
            server.request_turn()

    @property
    def is_at_work(self) -> bool:
        """Whether a turn must end, a thread is working, or something is on its way between nodes."""
        return self._network.is_busy or any(self._is_at_work(server) for server in self.servers)

    def _is_at_work(self, server: ClusterNode) -> bool:
        return server.is_at_work and not server.is_paused

    async def work(self) -> None:
        """End the turns; without one, return when a thread or the network has done something."""
        for server in self.servers:
            if self._is_at_work(server) and not self._network.is_busy:
                await server.work()
        await asyncio.sleep(0)

    def end_turn_now(self) -> None:
        """Append and answer all decisions."""
        for server in self.servers:
            server.end_turn_now()

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle exceptions of the loop."""
        servers = self.servers
        if servers:
            servers[0].on_loop_error(loop, context)
        else:
            loop.default_exception_handler(context)

    def exchange(self, request: messages.MessageValue, version: int) -> Future[Any]:
        """Execute a request of the test itself, at the nodes that lead or coordinate what it names."""
        if isinstance(request, messages.ProduceRequest):
            return _Produced(self, request, version).begin()
        return self._node_for(request).exchange(request, version)

    def exchange_as_client(self, request: messages.MessageValue, version: int) -> Future[Any]:
        """Execute a request as if a client had sent it: faults strike it."""
        return self._node_for(request).exchange_as_client(request, version)

    def _node_for(self, request: messages.MessageValue) -> ClusterNode:
        """Return the coordinator of the group that a request names, else any node that is up."""
        group: str | None = getattr(request, "group_id", None)
        if group is None:
            return self._any()
        server = self.leading_server(*self.home(group, is_transactional=False))
        if server is None:
            raise RuntimeError(f"no node coordinates group {group!r}")
        return server

    def leading_server(self, topic: str, index: int) -> ClusterNode | None:
        """Return the node that leads a partition, None if there is none, or if it is paused."""
        server = self._network.server(self.state(topic, index).leader)
        if server is None or server.is_paused:
            return None
        take_role(server.core.broker, topic, index)
        return server

    def copy_state(self) -> _CopiedCluster:
        """Return a copy of all files of all nodes, and of the metadata."""
        self.end_turn_now()
        for server in self.servers:
            server.core.directory.checkpoint_log_starts()
        files = {node_id: files.copy() for node_id, files in self._files.items()}
        return _CopiedCluster(files, self.metadata.image.copy(), self._cluster_id)

    def restoring(self, state: object) -> Future[None]:
        """Begin to replace all nodes with ones that start from a copy of `state`."""
        if not isinstance(state, _CopiedCluster):
            raise TypeError("this is a snapshot of one broker, and not of a cluster")
        if state.files.keys() != self._files.keys():
            raise ValueError(
                f"a snapshot of the nodes {list(state.files)} is not one of the nodes {list(self._files)}"
            )
        return self._run(self._restore(state))

    async def _restore(self, state: _CopiedCluster) -> None:
        """Nodes that are up now are up afterwards, at their addresses."""
        up = list(self._network.servers)
        for node_id in up:
            self._end_session(node_id)
            await self._network.servers.pop(node_id).stop()
            self._network.release(node_id)
        self._cluster_id = state.cluster_id
        self._files = {node_id: files.copy() for node_id, files in state.files.items()}
        self.metadata.restart(state.image.copy())
        self.core = self._new_state()
        for node_id in self.metadata.broker_ids:
            self.metadata.leave(node_id)
        for node_id in up:  # their files are of one moment: no node has lost records
            await self._start(node_id, *self._addresses[node_id], was_clean=True)
        self._reach_again()
        self.on_restart()

    def watch(self, event: Event[T]) -> Future[T]:
        """Return a future for the result of an event."""
        return self._watches.add(event, cast("BrokerCore", self.core))

    def unwatch(self, future: Future[T], event: Event[T]) -> str:
        """Stop checking an event; return a description of the current state."""
        return self._watches.remove(future, event, cast("BrokerCore", self.core))

    def _poll(self) -> None:
        self._watches.poll(cast("BrokerCore", self.core))
        for future, move in list(self._moves.items()):
            try:
                moved = move()
            except (ValueError, RuntimeError) as error:
                del self._moves[future]
                future.set_exception(error)
                continue
            if moved is not None:
                del self._moves[future]
                future.set_result(moved)


class _Produced:
    """A Produce of the test itself, sent to the leader of each of its partitions."""

    def __init__(self, cluster: ClusterServer, request: messages.ProduceRequest, version: int) -> None:
        self._cluster = cluster
        self._request, self._version = request, version
        self._left = 0
        self._answers: list[messages.ProduceResponse.PartitionProduceResponse] = []
        self._future: Future[Any] = Future()

    def begin(self) -> Future[Any]:
        """Send the parts; the future has the joined answer."""
        (topic,) = self._request.topic_data
        by_leader: dict[int, list[messages.ProduceRequest.PartitionProduceData]] = defaultdict(list)
        for partition_data in topic.partition_data:
            by_leader[self._cluster.state(topic.name, partition_data.index).leader].append(partition_data)
        self._left = len(by_leader)
        made = messages.ProduceRequest
        for data in by_leader.values():
            part = made(
                acks=self._request.acks,
                timeout_ms=self._request.timeout_ms,
                topic_data=[made.TopicProduceData(topic.name, partition_data=data)],
            )
            server = self._cluster.leading_server(topic.name, data[0].index)
            if server is None:
                raise RuntimeError(f"no node leads {topic.name}-{data[0].index}")
            server.exchange(part, self._version).add_done_callback(self._answered)
        return self._future

    def _answered(self, response: Future[Any]) -> None:
        error = response.exception()
        if error is not None:
            if not self._future.done():
                self._future.set_exception(error)
            return
        self._answers += response.result().responses[0].partition_responses
        self._left -= 1
        if not self._left and not self._future.done():
            (topic,) = self._request.topic_data
            made = messages.ProduceResponse
            responses = sorted(self._answers, key=lambda response: response.index)
            self._future.set_result(
                made([made.TopicProduceResponse(topic.name, partition_responses=responses)])
            )
