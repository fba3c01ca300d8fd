"""Node process: runs one broker of a cluster in a process of its own, until its parent ends it or is gone."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.broker.config.images import InitialTopic
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.network import prometheus
from kafka_offsets.broker.network.server_process import (
    collect_rarely,
    listen_for_prometheus,
    reload_at_signal,
    set_at_signals,
)
from kafka_offsets.broker.nodes.node_server import NodeIdentity, NodeServer
from kafka_offsets.metadata.json_form import Fields, Json, from_json, to_json
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import DiskFiles

Address = tuple[str, int, Sequence[int] | None]
"""Host and port of the first listener, and the ports of the others; None: as configured."""

TAKES_PART, READY = b"takes part\n", b"ready\n"
"""The lines that the process writes to standard output when it is registered, and when clients may connect."""

ACCEPT = b"accept\n"
"""The line that it waits for at standard input in between."""


class NodeOrder(NamedTuple):
    """The order of a parent: one line of JSON at standard input, which the parent closes to end the process.

    `ACCEPT` is the next line.

    controller      host and port
    ports           of its listeners; 0 takes a free one
    data_directory  None: in memory
    settings        keys and values of the configuration, which override those of `properties_file`
    log_format      `text` or `json`
    verbose         whether it writes a line for each request of a client
    topics          those that it creates before clients may connect
    """

    broker_id: int
    cluster_id: str
    controller: tuple[str, int]
    host: str
    ports: tuple[int, ...]
    data_directory: str | None
    metrics_port: int | None
    settings: dict[str, str]
    properties_file: str | None
    log_format: str
    verbose: bool
    topics: tuple[InitialTopic, ...] = ()

    def encoded(self) -> bytes:
        """Return the line."""
        form: Json = self._asdict()
        return to_json(form) + b"\n"

    @classmethod
    def read(cls, line: bytes) -> "NodeOrder":
        """Read the line. Raises ValueError."""
        fields = Fields(from_json(line), "order")
        host, port = fields.many("controller")
        metrics_port = None if fields.value("metrics_port") is None else fields.number("metrics_port", 0)
        return cls(
            fields.number("broker_id", 0),
            fields.text("cluster_id"),
            (str(host), int(port)),
            fields.text("host"),
            tuple(fields.numbers("ports")),
            fields.text_or_none("data_directory"),
            metrics_port,
            fields.texts("settings"),
            fields.text_or_none("properties_file"),
            fields.text("log_format"),
            fields.flag("verbose"),
            tuple(
                InitialTopic(
                    str(name), None if count is None else int(count), None if policy is None else str(policy)
                )
                for name, count, policy in fields.many("topics")
            ),
        )

    def config(self) -> Config:
        """Load the configuration, of which the supervisor has warned. Raises ConfigError."""
        path = None if self.properties_file is None else Path(self.properties_file)
        return Config.load(self.settings, path, warns=False)


def run_node(
    order: NodeOrder,
    prepare: Callable[[NodeServer], None],
    new_server: Callable[..., NodeServer] = NodeServer,
) -> None:
    """Run a broker until SIGTERM, SIGINT, or the end of standard input.

    prepare     called before clients may connect
    new_server  takes the same arguments as NodeServer
    Raises StorageError or OSError if it cannot start, ConfigError if prometheus-client is needed and missing.
    """
    if order.metrics_port is not None:
        prometheus.check_installed()

    async def main() -> None:
        """Serve until the process is to end."""
        loop = asyncio.get_running_loop()
        stopped, accepts = asyncio.Event(), asyncio.Event()
        set_at_signals(stopped)
        loop.add_reader(sys.stdin.fileno(), _read_input, stopped, accepts)

        async def before_clients() -> None:
            """Wait until the parent lets clients connect."""
            os.write(sys.stdout.fileno(), TAKES_PART)
            await accepts.wait()
            prepare(server)

        messages.read_schemas()
        identity = NodeIdentity(order.broker_id, order.cluster_id, lambda: order.controller)
        files = None if order.data_directory is None else DiskFiles(Path(order.data_directory))
        server = new_server(order.config(), identity, files)
        server.before_clients = before_clients
        loop.set_exception_handler(server.on_loop_error)
        reload_at_signal(server)
        await serve_until(
            stopped,
            server,
            (order.host, order.ports[0], order.ports[1:]),
            order.metrics_port,
            lambda: os.write(sys.stdout.fileno(), READY),
        )

    asyncio.run(main())


async def serve_until(
    stopped: asyncio.Event,
    server: NodeServer,
    address: Address,
    metrics_port: int | None,
    on_ready: Callable[[], object],
) -> None:
    """Start a broker, report that, wait for the end, which may come before the start is complete, and stop it."""
    try:
        await _serve(stopped, server, address, metrics_port, on_ready)
    finally:
        await server.stop()


async def _serve(
    stopped: asyncio.Event,
    server: NodeServer,
    address: Address,
    metrics_port: int | None,
    on_ready: Callable[[], object],
) -> None:
    endpoint = None
    starting = asyncio.ensure_future(server.start(*address))
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return
        starting.result()
        if metrics_port is not None:
            endpoint = listen_for_prometheus(server, address[0], metrics_port)
        collect_rarely()
        on_ready()
        await stopping
    finally:
        for task in (starting, stopping):
            task.cancel()
        await asyncio.wait({starting, stopping})
        if endpoint is not None:
            await asyncio.to_thread(endpoint.close)


def _read_input(stopped: asyncio.Event, accepts: asyncio.Event) -> None:
    """Accept clients when the parent says it; stop when the parent has closed its end or is gone."""
    if os.read(sys.stdin.fileno(), len(ACCEPT)):
        accepts.set()
    else:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stopped.set()
