"""Server: the socket of the HTTP interface, and the process of `kafka-offsets serve --http`.

uvicorn runs in the event loop of the broker. Its signal handlers are not installed: the process has its own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

import uvicorn

from kafka_offsets.broker.network.inheritance import Name, leave_to_parent, names_of
from kafka_offsets.broker.network.log_writer import announce, announce_listeners
from kafka_offsets.broker.network.server import Server
from kafka_offsets.broker.network.server_process import collect_rarely, reload_at_signal, set_at_signals
from kafka_offsets.http import metrics
from kafka_offsets.http.app import App, Guard
from kafka_offsets.http.control import Control
from kafka_offsets.protocol import messages
from kafka_offsets.testing.broker import Broker

_BACKLOG = 1024
_MAX_CONNECTIONS = 1024
_KEEP_ALIVE_SECONDS = 120
"""Longer than clients keep idle connections, so that they close them: Java's and Go's do not repeat a POST that meets a
connection which the server closes."""

_GRACE_SECONDS = 2
"""How long a client may take to read its last answer."""


class Address(NamedTuple):
    """Where to listen, the token that requests must have, and the name of this process, or None."""

    host: str
    port: int
    token: str | None = None
    instance: str | None = None


class _Uvicorn(uvicorn.Server):
    """A server that leaves the signals to its process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class HttpServer:
    """Serves HTTP for the brokers of a control, in the running loop: ``async with HttpServer(address, control)``.

    url  where it listens. Raises OSError with the address if it cannot
    """

    def __init__(self, address: Address, control: Control) -> None:
        self._control = control
        self._app = App(control, lambda broker: metrics.read(control.get(broker).broker))
        self._socket = _listening(address.host, address.port)
        host, port = self._socket.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._server = _Uvicorn(
            uvicorn.Config(
                Guard(self._app.by_encoded_path, address.host, address.token),
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_MAX_CONNECTIONS,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        self._serving: asyncio.Task[None] | None = None
        leave_to_parent(self)

    @property
    def socket_names(self) -> list[Name]:
        """Family, host and port of the socket at which it listens."""
        return names_of([self._socket])

    async def __aenter__(self) -> Self:
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop all brokers, end requests that wait, and close all connections."""
        assert self._serving is not None
        self._server.should_exit = True
        try:
            await self._control.stop()
        finally:
            await self._serving
            await asyncio.to_thread(self._app.close)


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError with the address.

    Its protocol is named, unlike that of `socket.create_server`: asyncio turns off Nagle's algorithm only then, and
    each answer, which uvicorn writes in two parts, would wait 40 ms for an acknowledgement.
    """
    listening = None
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, address = addresses[0]
        listening = socket.socket(family, kind, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        if listening is not None:
            listening.close()
        raise OSError(error.errno, error.strerror, f"HTTP on {host}:{port}") from error
    return listening


def serve(broker: Broker, address: Address, host: str, prepare: Callable[[Server], None]) -> None:
    """Run a broker and its HTTP interface in this thread until SIGINT, SIGTERM or POST /shutdown.

    broker   not started yet
    host     where the brokers listen that clients start
    prepare  is called before any request is decided
    Writes both addresses to standard error. Raises StorageError or OSError if it cannot start.
    """

    async def main() -> None:
        """Serve until a signal or a client ends it."""
        loop = asyncio.get_running_loop()
        messages.read_schemas()
        control = Control(host, address.instance)
        async with HttpServer(address, control) as http:
            await control.start(broker)
            broker._call(prepare)
            broker._call(lambda server: loop.set_exception_handler(server.on_loop_error))
            set_at_signals(control.ended)
            broker._call(reload_at_signal)
            collect_rarely()
            announce(f"HTTP on {http.url}/")
            broker._call(lambda server: announce_listeners(server.bound_addresses, server.addresses))
            await control.ended.wait()

    asyncio.run(main())
