"""Supervisor: the parent of the brokers of a cluster on one machine, and the home of their controller.

It starts a process for each broker, starts one again that has ended, and stops all of them in order. If it is killed,
the brokers end by themselves, because their standard input ends.
"""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.config.images import InitialTopic
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.listeners import address_text, node_ports
from kafka_offsets.broker.network.log_writer import announce_listeners
from kafka_offsets.broker.network.server_process import set_at_signals
from kafka_offsets.broker.nodes.controller_endpoint import ControllerEndpoint
from kafka_offsets.broker.nodes.controller_login import BrokerLogins
from kafka_offsets.broker.nodes.metadata_file import MetadataFile
from kafka_offsets.broker.nodes.node_process import ACCEPT, READY, TAKES_PART, NodeOrder
from kafka_offsets.errors import ConfigError, KafkaOffsetsError
from kafka_offsets.logs import new_logger
from kafka_offsets.metadata.controller import Controller
from kafka_offsets.metadata.controller_service import ControllerService
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 10.0
"""The time that a broker which has ended stays down, at first and after it has ended again and again."""

_STEADY_SECONDS = 10.0
"""A broker that has run for this long starts again after the first pause."""

_STOP_SECONDS = 30.0
"""The time that a broker may take to stop."""

logger = new_logger(__name__)


class NodesFailedError(KafkaOffsetsError):
    """A broker could not be started when the cluster was; it has written why."""


class NodesOptions(NamedTuple):
    """The settings that all brokers have in common.

    broker_count    their ids begin with node.id
    port            of the first broker, the others take the next ones; 0: any free ports
    data_directory  has a directory for each broker, and the metadata; None: all is in memory
    metrics_port    of the first broker, as `port`; None: disabled
    settings, properties_file, log_format, verbose  see `NodeOrder`
    topics          those that are created before a client may connect
    """

    broker_count: int
    host: str
    port: int
    data_directory: Path | None
    metrics_port: int | None
    settings: dict[str, str]
    properties_file: str | None
    log_format: str
    verbose: bool
    topics: tuple[InitialTopic, ...]


def serve_nodes(
    config: Config, options: NodesOptions, security: InterBrokerSecurity, command: Sequence[str]
) -> None:
    """Run a cluster until SIGINT or SIGTERM; writes the addresses of its brokers to standard error.

    security  how its brokers connect to each other, and this process to them
    command   starts a process that reads a `NodeOrder`
    Raises NodesFailedError, StorageError or OSError if it cannot start.
    """
    files: Files = MemoryFiles() if options.data_directory is None else DiskFiles(options.data_directory)
    store = MetadataFile(files)
    try:
        asyncio.run(_Supervisor(config, options, security, command, store).run())
    finally:
        store.close()


class _Supervisor:
    """One run of a cluster."""

    def __init__(
        self,
        config: Config,
        options: NodesOptions,
        security: InterBrokerSecurity,
        command: Sequence[str],
        store: MetadataFile,
    ) -> None:
        self._config, self._options, self._store = config, options, store
        self._security, self._command = security, command
        first = config.node_id
        self._broker_ids = tuple(range(first, first + options.broker_count))
        self._controller = Controller(store.load(), config.min_insync_replicas, store)
        self._nodes = [_Node(self, number, broker_id) for number, broker_id in enumerate(self._broker_ids)]
        self._controller_port = 0

    async def run(self) -> None:
        """Serve until a signal arrives."""
        stopped = asyncio.Event()
        set_at_signals(stopped)
        self._pass_on_reloads()
        service = ControllerService(self._controller, self._store.cluster_id, self._broker_ids)
        logins = BrokerLogins(self._config, self._security, lambda: self._controller.image.settings)
        endpoint = ControllerEndpoint(service, self._config.broker_session_timeout_ms, logins)
        self._controller_port = await endpoint.start("127.0.0.1")
        stopping = asyncio.ensure_future(stopped.wait())
        ready = asyncio.ensure_future(self._ready())
        running = [asyncio.ensure_future(node.run()) for node in self._nodes]
        try:
            await asyncio.wait({ready, stopping, *running}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                ready.result()
                endpoints = self._config.endpoints()
                addresses = {listener.name: self._addresses(listener.name) for listener in endpoints}
                announce_listeners(addresses, addresses)
                await asyncio.wait({stopping, *running}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            ready.cancel()
            for node, task in reversed([*zip(self._nodes, running, strict=True)]):
                await node.stop()
                task.cancel()
            outcomes = await asyncio.gather(*running, return_exceptions=True)
            await endpoint.stop()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    def _pass_on_reloads(self) -> None:
        """Let the brokers reload their certificates at SIGHUP, where there is such a signal."""

        def reload() -> None:
            """Reload those of this process, which serves the metadata, and have each broker do so."""
            try:
                self._security.reload()
            except ConfigError as error:
                logger.error("the certificates were not reloaded: %s", error)
            for node in self._nodes:
                node.reload()

        if hasattr(signal, "SIGHUP") and any(endpoint.has_tls for endpoint in self._config.endpoints()):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)

    async def _ready(self) -> None:
        for node in self._nodes:
            await node.is_ready.wait()

    async def may_accept(self, number: int) -> None:
        """Return when clients may connect to a broker: the topics exist.

        The first broker creates them when all take part, as their replicas are on all.
        """
        if not self._options.topics:
            return
        if number:
            await self._nodes[0].is_ready.wait()
        else:
            for node in self._nodes:
                await node.takes_part.wait()

    def _addresses(self, listener: str) -> str:
        """Return the addresses of all brokers at a listener; "" is the first one."""
        by_id = self._controller.image.brokers.by_id
        brokers = [by_id[broker_id] for broker_id in self._broker_ids if broker_id in by_id]
        addresses = [broker.address_at(listener) for broker in brokers]
        return ",".join(address_text(*address) for address in addresses if address is not None)

    def order(self, number: int, broker_id: int, ports: tuple[int, ...]) -> NodeOrder:
        """Return the order for the process of a broker; `ports` are those of an earlier one, or empty."""
        options = self._options
        directory = options.data_directory
        metrics_port = options.metrics_port
        ports = ports or node_ports(self._config.endpoints(), options.port, number)
        return NodeOrder(
            broker_id,
            self._store.cluster_id,
            ("127.0.0.1", self._controller_port),
            options.host,
            ports,
            None if directory is None else str(directory / f"broker-{broker_id}"),
            metrics_port + number if metrics_port else metrics_port,
            options.settings,
            options.properties_file,
            options.log_format,
            options.verbose,
            () if number or self._nodes[0].is_ready.is_set() else options.topics,
        )

    @property
    def command(self) -> Sequence[str]:
        """Start a process that reads an order."""
        return self._command

    def ports_of(self, broker_id: int) -> tuple[int, ...]:
        """Return the ports of the listeners of a broker that is registered, none for another one."""
        broker = self._controller.image.brokers.by_id.get(broker_id)
        if broker is None:
            return ()
        return tuple(broker.listeners[endpoint.name][1] for endpoint in self._config.endpoints())


class _Node:
    """The processes of one broker, one after the other.

    takes_part  set once it is registered; is_ready once clients may connect
    """

    def __init__(self, supervisor: _Supervisor, number: int, broker_id: int) -> None:
        self._supervisor = supervisor
        self._number, self._broker_id = number, broker_id
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = False
        self._ports: tuple[int, ...] = ()
        self.takes_part, self.is_ready = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Start the broker, again and again when it ends. Raises NodesFailedError if it was never ready, OSError."""
        loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE_SECONDS
        while True:
            started = loop.time()
            status = await self._run_process()
            if self._is_stopping:
                return
            ended = f"broker {self._broker_id} {_described(status)}"
            if not self.is_ready.is_set():
                raise NodesFailedError(f"{ended} before it was ready")
            if loop.time() - started >= _STEADY_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            logger.error("%s; it starts again in %g s", ended, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _run_process(self) -> int:
        """Run one process; return its exit status."""
        pipe = asyncio.subprocess.PIPE
        # In a session of its own: a SIGINT from the terminal reaches this process alone, which stops all in order.
        process = self._process = await asyncio.create_subprocess_exec(
            *self._supervisor.command, stdin=pipe, stdout=pipe, start_new_session=True
        )
        logger.info("broker %d is process %d", self._broker_id, process.pid)
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(self._supervisor.order(self._number, self._broker_id, self._ports).encoded())
            if await process.stdout.readline() == TAKES_PART:
                self.takes_part.set()
                await self._supervisor.may_accept(self._number)
                process.stdin.write(ACCEPT)
            if await process.stdout.readline() == READY:
                self._ports = self._supervisor.ports_of(self._broker_id) or self._ports
                self.is_ready.set()
            return await process.wait()
        except asyncio.CancelledError:
            if process.returncode is None:
                process.kill()
                await process.wait()
            raise
        finally:
            self._process = None

    def reload(self) -> None:
        """Have the broker read its certificates again, once it handles that signal."""
        if self._process is not None and self.is_ready.is_set():
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGHUP)

    async def stop(self) -> None:
        """Stop the broker in order, or kill it if that takes too long."""
        self._is_stopping = True
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP_SECONDS)
            except TimeoutError:
                logger.error("broker %d does not stop in %g s: it is killed", self._broker_id, _STOP_SECONDS)
                process.kill()
                await process.wait()


def _described(status: int) -> str:
    """Describe how a process ended."""
    if status >= 0:
        return f"has ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
