"""ZooKeeper node: one broker of a cluster whose metadata and election of a controller are in ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.network import prometheus
from kafka_offsets.broker.network.log_writer import announce_listeners
from kafka_offsets.broker.network.server_process import reload_at_signal, set_at_signals
from kafka_offsets.broker.nodes.candidate import Candidate
from kafka_offsets.broker.nodes.node_process import serve_until
from kafka_offsets.broker.nodes.node_server import NodeIdentity, NodeServer
from kafka_offsets.broker.partition.replica_assignment import ClusterTopics
from kafka_offsets.clock import monotonic_s
from kafka_offsets.errors import ConfigError, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.checkpoints import encode_uuid
from kafka_offsets.storage.files.files import DiskFiles, Files
from kafka_offsets.zookeeper import election
from kafka_offsets.zookeeper.cluster_session import ClusterSession
from kafka_offsets.zookeeper.cluster_znodes import Address, Endpoints
from kafka_offsets.zookeeper.kazoo_client import KazooZooKeeper
from kafka_offsets.zookeeper.operations import UnavailableError

_EVERY_INTERFACE = ("", "0.0.0.0", "::")  # noqa: S104 - no address to listen at


class ZooKeeperNode(NodeServer):
    """A broker that is registered in ZooKeeper, follows the controller that is elected there, and may be elected.

    controller_port  where it serves the metadata while it is the controller; 0 takes a free port each time
    """

    def __init__(
        self,
        config: Config,
        session: ClusterSession,
        cluster_id: str,
        files: Files | None = None,
        controller_port: int = 0,
    ) -> None:
        self._session, self._cluster_id, self._controller_port = session, cluster_id, controller_port
        self._candidate: Candidate | None = None
        identity = NodeIdentity(config.node_id, cluster_id, self._controller_address)
        super().__init__(config, identity, files)
        topics = self.core.topics.cluster
        assert isinstance(topics, ClusterTopics)
        topics.waits_for_brokers = True

    def _controller_address(self) -> Address | None:
        return None if self._candidate is None else self._candidate.view.address

    async def start(self, host: str, port: int, others: Sequence[int] | None = None) -> None:
        """Start as any broker. While it is the controller, it listens at the same host. Raises OSError."""
        self._controller_host = host
        await super().start(host, port, others)

    async def take_part(self) -> None:
        """Register in ZooKeeper, and then with the controller."""
        endpoints = Endpoints(
            self.core.broker.node.addresses,
            {listener.endpoint.name: listener.endpoint.protocol for listener in self.core.listeners},
            metadata_protocol=self._inter_broker.endpoint.protocol,
        )
        self._candidate = Candidate(
            self._session,
            self._cluster_id,
            self._config,
            endpoints,
            (self._controller_host, self._controller_port),
            self._link.poll,
            self._inter_broker,
        )
        await self._candidate.start()
        await super().take_part()

    async def stop(self) -> None:
        """Let other brokers lead what this one leads, and stop; the session ends afterwards."""
        if self._candidate is not None:
            self._candidate.end()
        await super().stop()
        if self._candidate is not None:
            await self._candidate.stop()


class ZooKeeperOptions(NamedTuple):
    """How one broker of such a cluster is started; `config` has its id and the servers of ZooKeeper."""

    host: str
    port: int
    controller_port: int
    data_directory: Path | None
    metrics_port: int | None


def open_session(config: Config) -> ClusterSession:
    """Return a session with ZooKeeper. Raises ConfigError, and StorageError if it does not answer in time."""
    servers, timeout_ms = config.zookeeper_connect or "", config.zookeeper_session_timeout_ms
    session = ClusterSession(lambda post: KazooZooKeeper(servers, timeout_ms, post))
    limit_ms = _start_limit_ms(config)
    if not session.start(limit_ms / 1000):
        session.stop()
        raise StorageError(f"ZooKeeper at {servers} does not answer in {limit_ms} ms")
    return session


def _start_limit_ms(config: Config) -> int:
    """Return how long ZooKeeper may take to answer while a broker starts."""
    return config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms


def serve_with_zookeeper(config: Config, options: ZooKeeperOptions) -> None:
    """Run one broker until SIGINT or SIGTERM; writes its address to standard error.

    Raises StorageError or OSError if it cannot start, ConfigError for what does not fit together.
    """
    if config.offset_storage != "log":
        raise ConfigError(
            "a cluster has its offsets in the offsets topic: offset.storage=zookeeper is for one broker"
        )
    _check_reachable(config, options.host)
    if options.metrics_port is not None:
        prometheus.check_installed()
    session = open_session(config)
    try:
        cluster_id = join_cluster(session, config)
        asyncio.run(_serve(config, options, session, cluster_id))
    finally:
        session.stop()


def _check_reachable(config: Config, host: str) -> None:
    """Raise ConfigError if other brokers would be given a host that means every interface."""
    endpoint, first = config.inter_broker_endpoint(), config.endpoints()[0]
    listened = host if endpoint == first else endpoint.listener.host
    address = listened if endpoint.advertised is None else endpoint.advertised.host
    if address in _EVERY_INTERFACE:
        raise ConfigError(
            f"other brokers cannot connect to {address or 'every interface'}: set advertised.listeners to an address of"
            f" this machine, such as {endpoint.name}://broker1.example.com:9092"
        )


def join_cluster(session: ClusterSession, config: Config) -> str:
    """Return the id of the cluster, which exists from now on. Raises StorageError."""
    limit_ms, new_cluster_id = _start_limit_ms(config), encode_uuid(uuid4().bytes)
    deadline = monotonic_s() + limit_ms / 1000
    while session.wait_until_connected(max(deadline - monotonic_s(), 0.0)):
        try:
            left = max(deadline - monotonic_s(), 0.0)
            return session.run(election.join(new_cluster_id), left)
        except UnavailableError:
            continue  # the connection was lost; what had been created is found the next time
        except TimeoutError:
            break
    raise StorageError(f"ZooKeeper does not answer in {limit_ms} ms")


async def _serve(config: Config, options: ZooKeeperOptions, session: ClusterSession, cluster_id: str) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    set_at_signals(stopped)
    messages.read_schemas()
    files = None if options.data_directory is None else DiskFiles(options.data_directory)
    server = ZooKeeperNode(config, session, cluster_id, files, options.controller_port)
    loop.set_exception_handler(server.on_loop_error)
    reload_at_signal(server)

    def ready() -> None:
        announce_listeners(server.bound_addresses, server.addresses)

    await serve_until(stopped, server, (options.host, options.port, None), options.metrics_port, ready)
