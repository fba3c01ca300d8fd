"""`kafka-offsets serve` with one broker: topics that exist from the start, and a log of all requests."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.listeners import local_host
from kafka_offsets.broker.network import server_process
from kafka_offsets.broker.network.log_writer import announce
from kafka_offsets.broker.network.server import Server
from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ConfigError, ErrorCode, KafkaOffsetsError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import Files, MemoryFiles

if TYPE_CHECKING:
    from kafka_offsets.broker.config.images import InitialTopic
    from kafka_offsets.testing.server.recording import RecordedRequest, Recorder

_KEPT_REQUESTS = 1000
"""How many requests wait for their answers before the oldest is forgotten, and not written."""

_READY_SECONDS = 2.0

_request_logger = new_logger("kafka_offsets.requests")


def serve(options: Namespace, config: Config, host: str, port: int, data_directory: Path | None) -> None:
    """Run the broker until SIGINT or SIGTERM. Raises ConfigError, StorageError, OSError."""
    new_server = _server_with_request_log if options.verbose else Server
    prepare = partial(create_topics, topics=options.topic)
    server_process.serve(
        config, host, port, data_directory, options.metrics_port, new_server=new_server, prepare=prepare
    )


def create_topics(server: Server, topics: Iterable[InitialTopic]) -> None:
    """Create the topics that do not exist; one of a data directory stays as it is. Raises ConfigError."""
    broker = server.core.broker
    for topic in topics:
        if broker.topics.get(topic.name) is not None:
            continue
        count = broker.config.num_partitions if topic.partitions is None else topic.partitions
        try:
            topic_admin.create_topic(broker, topic.name, count, topic.configs)
        except ValueError as error:
            raise ConfigError(f"--topic: {error}") from error


def check_ready(config: Config, host: str, port: int) -> int:
    """Return 0 if a broker that listens here is ready, else 1; writes what is missing to standard error.

    It asks this broker alone, at the address where it listens: the one for clients may be of another machine. Without
    a listener of PLAINTEXT it only connects.
    """
    endpoints = config.endpoints()
    plain = next((endpoint for endpoint in endpoints if endpoint.protocol == "PLAINTEXT"), None)
    if plain is not None and plain != endpoints[0]:  # `host` and `port` are those of the first listener
        host, port = plain.listener
    error = ErrorCode.NONE
    try:
        with Connection(local_host(host), port, _READY_SECONDS) as connection:
            if plain is not None:
                error = connection.call(messages.ListGroupsRequest(), 0).error_code
    except KafkaOffsetsError as failure:
        announce(f"not ready: {failure}")
        return 1
    if error:  # COORDINATOR_LOAD_IN_PROGRESS
        announce(f"not ready: {ErrorCode(error).name}")
    return int(error != ErrorCode.NONE)


def check_http(address: tuple[str, int], instance: str | None) -> bool:
    """Return whether the server at an address of HTTP is ready, and was started with this `--instance` if any."""
    # Late: a server does not need it.
    from http.client import HTTPConnection, HTTPException
    from urllib.parse import quote

    host, port = address
    connection = HTTPConnection(local_host(host), port, timeout=_READY_SECONDS)
    try:
        query = "" if instance is None else f"?instance={quote(instance, safe='')}"
        connection.request("GET", f"/readyz{query}")
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
    except (OSError, HTTPException) as failure:
        announce(f"not ready: HTTP on {host}:{port}: {failure}")
        return False
    finally:
        connection.close()
    if response.status != 200:
        announce(f"not ready: {_detail(text)}")
    return response.status == 200


def _detail(text: str) -> str:
    """Return the sentence of a problem; the text if it is none."""
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, TypeError, KeyError):
        return text.strip()


def _server_with_request_log(config: Config, files: Files | None) -> Server:
    from kafka_offsets.testing.server.inspected import InspectedServer

    recorder = request_log(write_request)
    return InspectedServer(config, MemoryFiles() if files is None else files, None, recorder)


def request_log(write: Callable[[RecordedRequest], None]) -> Recorder:
    """Return a recorder that calls a function with each answered request, and keeps few of them."""
    # Late: it is of the broker for tests, which serve does not import otherwise.
    from kafka_offsets.testing.server.recording import Recorder

    return Recorder(_KEPT_REQUESTS, on_answer=write)


def write_request(request: RecordedRequest) -> None:
    """Write the line of a request to the log."""
    _, _, line = str(request).partition(" ")  # the log line has a time of its own
    _request_logger.info("%s", line.strip(), extra={"is_unlimited": True})
