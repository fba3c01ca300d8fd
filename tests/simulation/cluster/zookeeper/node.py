"""A broker whose metadata is in ZooKeeper, and that is the controller while it is elected."""

import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_offsets.broker.nodes import cluster_connection
from kafka_offsets.broker.nodes.candidate import Candidate
from kafka_offsets.broker.nodes.controller_link import Address, ControllerLink
from kafka_offsets.broker.nodes.elected_controller import ElectedController
from kafka_offsets.errors import StorageError
from kafka_offsets.metadata.remote_membership import RemoteMembership
from kafka_offsets.zookeeper import election
from kafka_offsets.zookeeper.cluster_znodes import Endpoints
from kafka_offsets.zookeeper.operations import UnavailableError
from tests.simulation.cluster.network import CLUSTER_ID
from tests.simulation.cluster.node import Node
from tests.simulation.cluster.zookeeper.client import VirtualSession
from tests.simulation.cluster.zookeeper.loops import VirtualLoop
from tests.simulation.cluster.zookeeper.streams import Stream, VirtualSocket, VirtualTransport
from tests.simulation.cluster.zookeeper.threads import Call, VirtualThread

if TYPE_CHECKING:
    from tests.simulation.cluster.zookeeper.world import ZooKeeperWorld

HOST = "127.0.0.1"
_RUNS = 1000
ANSWER_S = 2.0
START_S = 18.0


def port_of(node_id: int, run: int) -> int:
    """Return the port of a run of a node, which says in ZooKeeper what run it is."""
    return 10_000 + node_id * _RUNS + run


def run_of(port: int) -> int:
    """Return the run that has a port."""
    return (port - 10_000) % _RUNS


class VirtualController(ElectedController):
    """The controller, in a thread and on a loop in virtual time."""

    def __init__(self, node: "ElectingNode", *arguments: Any) -> None:
        super().__init__(*arguments)
        self._node = node

    def start_thread(self, main: Call) -> None:
        self._virtual = self._thread = VirtualThread(self._node, main)  # type: ignore[assignment]

    def run_loop(self, main: Coroutine[Any, Any, None]) -> None:
        VirtualLoop(self._node, self._virtual).run(main)


class VirtualCandidate(Candidate):
    """The part of a simulated node in the election."""

    def __init__(self, node: "ElectingNode", *arguments: Any) -> None:
        super().__init__(*arguments)
        self._node = node

    def new_controller(
        self, term: Any, on_serving: Callable[[int], None], on_end: Callable[[], None]
    ) -> ElectedController:
        return VirtualController(
            self._node,
            self._session,
            term,
            self._cluster_id,
            self._config,
            self._listens_at,
            on_serving,
            on_end,
        )


class VirtualLink(ControllerLink):
    """The connection to the controller, over the network of a simulation."""

    def __init__(self, node: "ElectingNode", *arguments: Any) -> None:
        super().__init__(*arguments)
        self._node = node

    async def _connected(self, address: Address) -> Any:
        """Connect; wait in vain where nothing listens."""
        node, connected = self._node, self._loop.create_future()
        listener = node.world.listeners.get(address)
        if listener is None:
            raise ConnectionRefusedError
        stream = node.open(listener.loop.node.id)
        stream.on_end[0] = lambda: None if connected.done() else connected.set_exception(OSError())

        def arrived() -> None:
            if listener.is_open:
                found = VirtualSocket(stream, node.thread.wake)
                found.peer = VirtualTransport(stream, listener, found)
                listener.loop.node.streams.append((stream, 1))
                stream.send(1, opened, found)
            else:
                stream.close(1)

        def opened(found: VirtualSocket) -> None:
            if not connected.cancelled():
                connected.set_result(found)

        stream.send(0, arrived)
        try:
            return await connected
        except BaseException:
            stream.close(0)
            raise

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Block this broker until `is_done`, for a limited time; what has arrived by then is received."""
        network = self._node.world.network
        end_ms = network.now_ms + self._node.real_ms(ANSWER_S)

        def is_readable() -> bool:
            socket: Any = self._socket
            return bool(socket.is_readable)

        while not is_done() and self._socket is not None:
            if self._node.thread.wait(is_readable, max(end_ms - network.now_ms, 0)):
                self._receive()
            else:
                self._lose(f"no answer in {ANSWER_S:g} s")


class ElectingNode(Node):
    """A broker, or its files while it is down.

    threads   of the present run
    streams   connections of the present run, with the side that this node is
    is_clean  whether the present run has all that was acknowledged
    """

    world: "ZooKeeperWorld"
    thread: VirtualThread
    membership: RemoteMembership
    candidate: VirtualCandidate | None
    link: VirtualLink
    is_clean = True
    is_stopping = False

    # -- life

    def start(self) -> None:
        """Start with the files that there are, and take part in the cluster as soon as that can be."""
        self.threads: list[VirtualThread] = []
        self.streams: list[tuple[Stream, int]] = []
        self.candidate = None
        self.accepts = self.is_stopping = False
        self.membership = RemoteMembership(self.id, f"{self.id}-{self.run + 1}")
        self._begin_run(self.membership)
        self.is_clean = self.core.directory.stopped_cleanly
        self.thread = VirtualThread(self)
        self.loop = VirtualLoop(self, self.thread)
        self.session = VirtualSession(self)
        self.session.start()
        self.thread.post(self._join)

    def _join(self) -> None:
        """Create what every cluster has; a process that cannot is started again."""
        try:
            self.session.run(election.join(CLUSTER_ID), START_S)
        except (TimeoutError, UnavailableError):
            self.thread.post(self._join)
        else:
            self.loop.call_soon(lambda: self.loop.create_task(self._take_part()))

    async def _take_part(self) -> None:
        port = port_of(self.id, self.run)
        self.link = VirtualLink(
            self,
            self.membership,
            self._controller_address,
            lambda: self.membership.registration(CLUSTER_ID, HOST, port, was_clean=self.is_clean),
            self.config.broker_session_timeout_ms,
            self.request_turn,
        )
        self.candidate = VirtualCandidate(
            self,
            self.session,
            CLUSTER_ID,
            self.config,
            Endpoints({"PLAINTEXT": (HOST, port)}, {"PLAINTEXT": "PLAINTEXT"}),
            (HOST, 0),
            self.link.poll,
        )
        await self.candidate.start()
        await self.link.start()
        cluster_connection.catch_up(self.core)
        self.accepts = True
        self.request_turn()

    def _controller_address(self) -> Address | None:
        return None if self.candidate is None else self.candidate.view.address

    def kill(self) -> None:
        for stream, side in self.streams:
            stream.close(side)
        super().kill()

    def power_failure(self, chance: random.Random) -> None:
        for stream, side in self.streams:
            stream.on_end[side] = None
            stream.lose()
        super().power_failure(chance)

    def stop(self) -> None:
        """Begin a stop in order."""
        self.is_stopping = True
        self.thread.post(self._leave)

    def _leave(self) -> None:
        """Let other brokers lead what this one leads."""
        assert self.candidate is not None
        self.candidate.end()
        self._end_turn()
        self.membership.leave()
        self._end_turn()
        self.loop.call_soon(lambda: self.loop.create_task(self._stop()))

    async def _stop(self) -> None:
        assert self.candidate is not None
        await self.link.stop()
        self.is_up = False
        self.core.close()
        await self.candidate.stop()
        self.session.stop()
        network = self.world.network
        network.at(network.now_ms, self._stopped, self.run)

    def _stopped(self, run: int) -> None:
        if run == self.run:
            for stream, side in self.streams:
                stream.close(side)
            self._gone()

    def _gone(self) -> None:
        self.is_stopping = False
        for thread in self.threads:
            thread.kill()
        super()._gone()

    def resume(self) -> None:
        """Continue with what has arrived and what is due."""
        self.is_paused = False
        for thread in self.threads:
            thread.wake()
        self._timer_ms = None
        self._has_turn = False
        self.request_turn()

    # -- time, connections, turns

    def real_ms(self, seconds: float) -> int:
        """Return how long a time by the clock of this node is."""
        return self.clock.real_ms(int(seconds * 1000))

    def later(self, delay_ms: int, call: Call) -> None:
        """Call after a time by the clock of this node."""
        network = self.world.network
        network.at(network.now_ms + self.clock.real_ms(delay_ms), call)

    def open(self, target: int) -> Stream:
        """Open a connection to a node or to ZooKeeper."""
        stream = Stream(self.world, self.id, target)
        self.streams.append((stream, 0))
        return stream

    def receive(self, deliver: Callable[[], None]) -> None:
        """Take what has arrived, in the thread of the broker; what comes after its end finds that it has ended."""
        if self.is_up:
            self._inbox.append(deliver)
            self.thread.post(self._take)
        else:
            deliver()

    def _take(self) -> None:
        self._inbox.pop(0)()

    def _turn(self, run: int) -> None:
        self.thread.post(partial(super()._turn, run))

    def _fire(self, run: int, due_ms: int) -> None:
        self.thread.post(partial(super()._fire, run, due_ms))

    # -- what an operator does

    def request(self, change: Callable[[RemoteMembership], object]) -> None:
        """Change the metadata through this broker; it may be refused, or not be known what happened."""

        def call() -> None:
            with suppress(StorageError):
                change(self.membership)
            self.request_turn()

        self.thread.post(call)
