"""Server process: runs a broker until a signal arrives."""

import asyncio
import gc
import signal
from collections.abc import Callable
from pathlib import Path

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.network import prometheus
from kafka_offsets.broker.network.log_writer import announce_listeners
from kafka_offsets.broker.network.server import Server
from kafka_offsets.errors import ConfigError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import DiskFiles, Files

logger = new_logger(__name__)

_READ_SECONDS = 10.0
"""Time limit for reading the metrics."""


def serve(
    config: Config,
    host: str,
    port: int,
    data_directory: Path | None,
    metrics_port: int | None = None,
    *,
    new_server: Callable[[Config, Files | None], Server] = Server,
    prepare: Callable[[Server], None] = lambda server: None,
) -> None:
    """Run a broker in this thread until SIGINT or SIGTERM; writes its address to standard error.

    metrics_port  port of the metrics for Prometheus, on the same host; 0 takes a free one, None disables them
    new_server    makes the server, of the files of the data directory, or of None in memory
    prepare       is called before any request is decided
    Raises StorageError or OSError if it cannot start, ConfigError if prometheus-client is needed and missing.
    """
    if metrics_port is not None:
        prometheus.check_installed()

    async def main() -> None:
        """Serve until SIGINT or SIGTERM. Raises StorageError or OSError if the server cannot start."""
        endpoint = None
        messages.read_schemas()
        server = new_server(config, None if data_directory is None else DiskFiles(data_directory))
        try:
            await server.start(host, port)
            prepare(server)
            if metrics_port is not None:
                endpoint = listen_for_prometheus(server, host, metrics_port)
            stopped = asyncio.Event()
            asyncio.get_running_loop().set_exception_handler(server.on_loop_error)
            set_at_signals(stopped)
            reload_at_signal(server)
            collect_rarely()
            warn_without_users(server)
            announce_listeners(server.bound_addresses, server.addresses)
            await stopped.wait()
        finally:
            if endpoint is not None:
                await asyncio.to_thread(endpoint.close)
            await server.stop()

    asyncio.run(main())


def warn_without_users(server: Server) -> None:
    """Log which listeners nobody can use, as the users of a compose file are often made in ZooKeeper."""
    for listener in server.core.listeners:
        if not listener.has_users:
            logger.warning(
                "nobody can log in at the listener %s: set sasl.users, or create a user at another listener "
                "(kafka-configs.sh --entity-type users)",
                listener.endpoint.name,
            )


def set_at_signals(stopped: asyncio.Event) -> None:
    """Set an event of the running loop at SIGINT and SIGTERM."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stopped.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopped.set))


def reload_at_signal(server: Server) -> None:
    """Reload the certificates of a server at SIGHUP, where there is such a signal; what fails is logged."""

    def reload() -> None:
        try:
            server.reload_certificates()
        except ConfigError as error:
            logger.error("the certificates were not reloaded: %s", error)

    if hasattr(signal, "SIGHUP") and server.has_tls:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


def collect_rarely() -> None:
    """Set how often Python looks for cycles, once all is loaded.

    Objects that are loaded now live as long as the process. Requests make much garbage but hardly any cycles: a
    collection every 700 objects, Python's default, would take a twentieth of the time, and a fifth with 100,000 groups,
    in pauses of up to 0.1 s. With these thresholds commits and fetches start no collection.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def listen_for_prometheus(server: Server, host: str, port: int) -> prometheus.Endpoint:
    """Answer Prometheus with metrics that the loop's thread reads. Raises OSError with the address."""
    loop = asyncio.get_running_loop()

    async def read() -> dict[str, float]:
        return server.core.metrics.read()

    return prometheus.listen(
        host, port, lambda: asyncio.run_coroutine_threadsafe(read(), loop).result(_READ_SECONDS)
    )
