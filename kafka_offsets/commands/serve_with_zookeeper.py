"""`kafka-offsets serve --zookeeper`: one broker of a cluster."""

from argparse import Namespace
from pathlib import Path

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.nodes.zookeeper_node import ZooKeeperOptions, serve_with_zookeeper
from kafka_offsets.errors import ConfigError


def serve(options: Namespace, config: Config, host: str, port: int, data_directory: Path | None) -> None:
    """Run the broker until SIGINT or SIGTERM. Raises ConfigError, StorageError, OSError."""
    if "node.id" not in config.given:
        raise ConfigError("each broker of a cluster has its own id: --node-id or node.id is missing")
    serve_with_zookeeper(
        config, ZooKeeperOptions(host, port, options.controller_port, data_directory, options.metrics_port)
    )
