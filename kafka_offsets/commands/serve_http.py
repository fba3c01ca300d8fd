"""`kafka-offsets serve --http`: a broker, and the interface for tests in any language."""

import os
from argparse import Namespace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from kafka_offsets.commands.serve_one import create_topics
from kafka_offsets.errors import ConfigError
from kafka_offsets.installation import install_command
from kafka_offsets.logs import new_logger
from kafka_offsets.testing.broker import Broker
from kafka_offsets.testing.clock import ManualClock

logger = new_logger(__name__)

_VARIABLE = "KAFKA_OFFSETS_HTTP_TOKEN"
_NEEDED = {"starlette": "starlette", "uvicorn": "uvicorn", "prometheus_client": "prometheus-client"}


def serve(options: Namespace, host: str, port: int, data_directory: Path | None) -> None:
    """Run a broker and its interface until a signal or POST /shutdown. Raises ConfigError, StorageError, OSError."""
    missing = [package for module, package in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise ConfigError(f"--http needs {' and '.join(missing)}: {install_command('http')}")
    if options.metrics_port is not None:
        raise ConfigError("--http serves the metrics too, at /metrics: leave out --metrics-port")
    token = options.http_token if options.http_token is not None else os.environ.get(_VARIABLE)
    if token == "":
        raise ConfigError(f"the token of --http-token, or of {_VARIABLE}, is empty")
    from kafka_offsets.http import server

    http_host, http_port = options.http
    if token is None and http_host not in ("127.0.0.1", "::1", "localhost"):
        logger.warning(
            "--http %s: other machines can control the broker; --http-token prevents that", http_host
        )
    broker = Broker(
        dict(options.set),
        host=host,
        port=port,
        data_directory=data_directory,
        properties_file=options.config,
        clock=ManualClock() if options.manual_clock else None,
        record=True,
    )
    prepare = partial(create_topics, topics=options.topic)
    server.serve(broker, server.Address(http_host, http_port, token, options.instance), host, prepare)
