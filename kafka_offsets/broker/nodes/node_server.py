"""Node server: the server of one broker of a cluster whose brokers and controller are in several processes."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore, ClusterPart
from kafka_offsets.broker.network.server import Server
from kafka_offsets.broker.network.tcp_channel import ChannelLimits, TcpChannel
from kafka_offsets.broker.nodes import cluster_connection
from kafka_offsets.broker.nodes.controller_link import Address, ControllerLink
from kafka_offsets.broker.wire.channel import broker_client_id
from kafka_offsets.metadata.image import Delta
from kafka_offsets.metadata.remote_membership import RemoteMembership
from kafka_offsets.storage.files.files import Files

_REQUEST_MS = 30_000
"""Kafka's default of replica.socket.timeout.ms."""


class NodeIdentity(NamedTuple):
    """The identity of a broker in its cluster.

    controller  returns where the controller serves brokers, None while that is not known
    """

    broker_id: int
    cluster_id: str
    controller: Callable[[], Address | None]


class NodeServer(Server):
    """A broker that takes part in a cluster from `start` on.

    before_clients  awaited when it takes part, before clients may connect
    """

    accepts_at_once = False
    before_clients: Callable[[], Awaitable[None]] | None = None

    def __init__(self, config: Config, identity: NodeIdentity, files: Files | None = None) -> None:
        self._identity = identity
        self._inter_broker = InterBrokerSecurity(config)
        self._membership = RemoteMembership(identity.broker_id, str(uuid.uuid4()))
        self._membership.on_change = self._change
        given_names = frozenset({*config.given, "node.id"})
        super().__init__(replace(config, node_id=identity.broker_id, given=given_names), files)
        self._inter_broker.use(self.core.listeners)
        self._link = ControllerLink(
            self._membership,
            identity.controller,
            self._registration,
            config.broker_session_timeout_ms,
            self.request_turn,
            self._inter_broker.client_security,
        )

    def cluster_part(self) -> ClusterPart:
        """Return the part of the cluster that this broker is."""
        return ClusterPart(self._identity.cluster_id, self._channel_to, self._inter_broker)

    def new_core(self, files: Files | None) -> BrokerCore:
        """Create the broker core, which decides through the membership."""
        core = super().new_core(files)
        cluster_connection.connect(core, self._membership)
        return core

    def _channel_to(self, target: int) -> TcpChannel:
        config = self._config
        most_bytes = config.replica_fetch_response_max_bytes + config.socket_request_max_bytes
        return TcpChannel(
            broker_client_id(self._identity.broker_id, self._identity.cluster_id),
            target,
            self._address_of,
            self.request_turn,
            ChannelLimits(most_bytes, _REQUEST_MS),
            self._inter_broker.client_security,
        )

    def _address_of(self, target: int) -> Address | None:
        broker = self._membership.image.brokers.by_id.get(target)
        return None if broker is None else broker.address_at(self._inter_broker.endpoint.name)

    def _registration(self) -> bytes:
        node = self.core.broker.node
        return self._membership.registration(
            self._identity.cluster_id,
            node.host,
            node.port,
            listeners=node.addresses,
            was_clean=self.core.directory.stopped_cleanly,
        )

    async def start(self, host: str, port: int, others: Sequence[int] | None = None) -> None:
        """Take a port, take part in the cluster, and let clients connect. Raises OSError."""
        await super().start(host, port, others)
        await self.take_part()
        cluster_connection.catch_up(self.core)
        self.request_turn()
        if self.before_clients is not None:
            await self.before_clients()
        await self.accept()

    async def take_part(self) -> None:
        """Return when this broker has the metadata of its cluster."""
        await self._link.start()

    def _change(self, delta: Delta) -> None:
        """Do what a change of the metadata requires; the end of the turn begins to fetch what this broker follows."""
        assert self.core.replicas is not None
        self.core.replicas.apply(delta)
        self.request_turn()

    async def stop(self) -> None:
        """Let other brokers lead what this one leads, and stop."""
        self.end_turn_now()
        self._membership.leave()
        self.end_turn_now()
        await self._link.stop()
        await super().stop()
