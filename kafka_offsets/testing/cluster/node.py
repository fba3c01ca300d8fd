"""Node: the server of one broker of a cluster for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from kafka_offsets.broker.cluster.apis import ClusterApis
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore, ClusterPart
from kafka_offsets.broker.network.inner_channel import InnerChannel
from kafka_offsets.broker.network.peer import Peer
from kafka_offsets.broker.network.virtual_time import TimeDriver
from kafka_offsets.broker.nodes import cluster_connection
from kafka_offsets.broker.turn.scheduler import Deadline
from kafka_offsets.broker.wire.api import Apis
from kafka_offsets.broker.wire.channel import broker_client_id
from kafka_offsets.broker.wire.connection import ClientConnection
from kafka_offsets.clock import Clock, Now
from kafka_offsets.metadata.image import Delta
from kafka_offsets.metadata.in_process import InProcessMembership, InProcessMetadata
from kafka_offsets.storage.files.files import Files
from kafka_offsets.testing.cluster.network import InProcessNetwork
from kafka_offsets.testing.server.consumption import Consumption
from kafka_offsets.testing.server.inspected import InspectedServer
from kafka_offsets.testing.server.recording import Recorder


class ClusterNode(InspectedServer):
    """One broker with its own topics, logs and address.

    on_turn     called at the end of each turn
    _postponed  what has become due, or was done by a thread, since a test has paused this node
    """

    def __init__(
        self,
        config: Config,
        node_id: int,
        files: Files,
        clock: Clock | None,
        recorder: Recorder | None,
        metadata: InProcessMetadata,
        network: InProcessNetwork[ClusterNode],
        cluster_id: str,
        time_driver: TimeDriver | None,
        on_turn: Callable[[], None],
        consumption: Consumption,
    ) -> None:
        self.node_id = node_id
        self._metadata = metadata
        self._shared_time_driver = time_driver
        client_id = broker_client_id(node_id, cluster_id)
        self._cluster = ClusterPart(cluster_id, partial(InnerChannel, network, node_id, client_id))
        self._membership: InProcessMembership
        self._on_turn = on_turn
        self._postponed: list[Callable[[], None]] = []
        given_keys = frozenset({*config.given, "node.id"})
        super().__init__(
            replace(config, node_id=node_id, given=given_keys), files, clock, recorder, consumption
        )

    def new_core(self, files: Files | None) -> BrokerCore:
        """Make the broker of this node; it takes part from `join` on."""
        core = super().new_core(files)
        self._membership = InProcessMembership(self._metadata, self.node_id)
        cluster_connection.connect(core, self._membership)
        if core.scheduler.real_time_fallback is not None:
            core.scheduler.real_time_fallback = self._real_time_fallback
        return core

    def cluster_part(self) -> ClusterPart:
        """Return the part of the cluster that this node is."""
        return self._cluster

    def join(self, *, was_clean: bool | None = None) -> None:
        """Register with the metadata, and lead and follow what they say.

        was_clean  whether the node was stopped in order; None: as its files say
        """
        if was_clean is None:
            was_clean = self.core.directory.stopped_cleanly
        self._membership.on_change = self._apply
        node = self.core.broker.node
        self._metadata.join(
            self._membership, node.host, node.port, was_clean=was_clean, listeners=node.addresses
        )
        cluster_connection.catch_up(self.core)

    def _apply(self, delta: Delta) -> None:
        """Do what a change of the metadata requires; the end of the turn begins to fetch what this node follows now."""
        assert self.core.replicas is not None
        self.core.replicas.apply(delta)
        self.request_turn()

    def served(self) -> Apis:
        """Return the table of APIs, with checks of leaders and coordinators."""
        return ClusterApis(self._membership).table(super().served())

    def node_of(self, listener: int) -> int:
        """Return the id of this node."""
        return self.node_id

    def new_time_driver(self) -> TimeDriver | None:
        """All nodes of the cluster move through time together; the server of the cluster stops that."""
        return self._shared_time_driver

    def stop_time(self) -> None:
        """The other nodes move on."""

    # -- a paused process

    def pause(self) -> None:
        """Do nothing until `resume`, and keep all sockets open: as a process after SIGSTOP."""
        self.is_paused = True
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        for peer in self._peers:
            peer.pause_reading()

    def resume(self) -> None:
        """Continue where `pause` has stopped: what is due, what has arrived."""
        self.is_paused = False
        postponed, self._postponed = self._postponed, []
        for callback in postponed:
            callback()
        for peer in list(self._peers):
            if peer.connection is not None:
                peer.resume()
        self.request_turn()

    def _unless_paused(self, callback: Callable[[], None]) -> None:
        if self.is_paused:
            self._postponed.append(callback)
        else:
            callback()

    def admit(self, peer: Peer, peername: tuple[str, int]) -> ClientConnection | None:
        """Register a connection. The system accepts those of a paused process, which does not read them."""
        connection = super().admit(peer, peername)
        if self.is_paused and connection is not None:
            peer.pause_reading()
        return connection

    def _real_time_fallback(self, ms: int, deadline: Deadline, is_work: bool) -> None:
        callback = deadline.callback
        assert callback is not None and self._shared_time_driver is not None

        def fire(now: Now) -> None:
            self._unless_paused(lambda: callback(self._clock.now()))

        deadline.callback = fire
        self._shared_time_driver.real_time_fallback(ms, deadline, is_work)

    def _sync(self, logs: Any, done: Any) -> None:
        super()._sync(logs, lambda failed: self._unless_paused(partial(done, failed)))

    def _background(self, threads: Any, work: Any, done: Any) -> None:
        super()._background(threads, work, lambda error: self._unless_paused(partial(done, error)))

    def request_turn(self) -> None:
        """End the turn soon, unless this node is paused."""
        if not self.is_paused:
            super().request_turn()

    def end_turn_now(self) -> None:
        """Append and answer all decisions, unless this node is paused."""
        if not self.is_paused:
            super().end_turn_now()

    def _run_due(self) -> None:
        if not self.is_paused:
            super()._run_due()

    def _end_turn(self) -> None:
        super()._end_turn()
        self._on_turn()
