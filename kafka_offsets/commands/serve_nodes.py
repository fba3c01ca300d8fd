"""`kafka-offsets serve --brokers N`, and the command by which it starts each of its brokers."""

import sys
from argparse import Namespace
from functools import partial
from pathlib import Path

from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.listeners import check_node_ports
from kafka_offsets.broker.network import prometheus
from kafka_offsets.broker.network.log_writer import logging_to_standard_error
from kafka_offsets.broker.network.peer import Peer
from kafka_offsets.broker.nodes.node_process import NodeOrder, run_node
from kafka_offsets.broker.nodes.node_server import NodeServer
from kafka_offsets.broker.nodes.supervisor import NodesOptions, serve_nodes
from kafka_offsets.broker.wire.channel import is_of_broker
from kafka_offsets.commands.serve_one import create_topics, request_log, write_request
from kafka_offsets.errors import ConfigError

NODE = "node"
"""The command that runs one broker of a cluster, as its standard input says; it is for `serve` alone."""

_PORTS = 1 << 16
_SHORTEST_SESSION_MS = 100
_DEFAULT_FACTOR = 3
"""Replicas of a topic that is created without their number, as in `kafka_offsets.testing.Cluster`."""


def serve(options: Namespace, config: Config, host: str, port: int, data_directory: Path | None) -> None:
    """Run a cluster until SIGINT or SIGTERM. Raises ConfigError, StorageError, OSError."""
    count = options.brokers
    if config.advertised_listeners is not None:
        raise ConfigError(
            "advertised.listeners is for one broker: each broker of a cluster has its own address"
        )
    security = InterBrokerSecurity(config)
    if config.broker_session_timeout_ms < _SHORTEST_SESSION_MS:
        raise ConfigError(f"broker.session.timeout.ms of a cluster is {_SHORTEST_SESSION_MS} or more")
    check_node_ports(config.endpoints(), port, count)
    if (options.metrics_port or 0) + count > _PORTS:
        raise ConfigError(f"there are no {count} ports from {options.metrics_port} on")
    if options.metrics_port is not None:
        prometheus.check_installed()
    settings = {key: str(value) for key, value in options.set}
    if "default.replication.factor" not in config.given:
        settings["default.replication.factor"] = str(_DEFAULT_FACTOR)
    nodes = NodesOptions(
        count,
        host,
        port,
        None if data_directory is None else data_directory.absolute(),
        options.metrics_port,
        settings,
        None if options.config is None else str(options.config.absolute()),
        options.log_format,
        options.verbose,
        tuple(options.topic),
    )
    serve_nodes(config, nodes, security, [sys.executable, "-m", "kafka_offsets.cli", NODE])


def read_order() -> NodeOrder:
    """Read what this process is to do from its standard input. Raises ConfigError."""
    try:
        return NodeOrder.read(sys.stdin.buffer.readline())
    except ValueError as error:
        raise ConfigError(f"`{NODE}` is started by `serve --brokers`: {error}") from error


def run(order: NodeOrder) -> None:
    """Run one broker of a cluster. Raises ConfigError, StorageError, OSError."""
    with logging_to_standard_error(order.log_format, order.broker_id):
        prepare = partial(create_topics, topics=order.topics)
        run_node(order, prepare, _verbose_server(order.cluster_id) if order.verbose else NodeServer)


def _verbose_server(cluster_id: str) -> type[NodeServer]:
    # Late: the log is taken from the recorder of the broker for tests, which serve does not import otherwise.
    from kafka_offsets.testing.server.inspected import RecordedPeer
    from kafka_offsets.testing.server.recording import RecordedRequest

    def write_of_clients(request: RecordedRequest) -> None:
        """Write the line of a client's request; other brokers send theirs all the time."""
        if not is_of_broker(request.client_id, cluster_id):
            write_request(request)

    of_clients, of_all = request_log(write_request), request_log(write_of_clients)

    class VerboseServer(NodeServer):
        """Writes a line for each request of a client."""

        def new_peer(self, listener: int = 0) -> Peer:
            """Put a tape on a new connection; brokers connect to one listener alone, whatever a client is named."""
            is_of_all = self.core.listeners[listener].endpoint == self.core.config.inter_broker_endpoint()
            return RecordedPeer(self, of_all if is_of_all else of_clients, listener, None)

    return VerboseServer
