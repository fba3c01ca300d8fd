"""Embedded broker: runs inside a process, in a thread or in the process's own event loop.

`kafka_offsets.Broker` adds what tests need.
"""

import asyncio
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self, TypeVar

from kafka_offsets.broker.access.listeners import with_users
from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.listeners import Listener, address_text
from kafka_offsets.broker.network.inheritance import refuse_in_child
from kafka_offsets.broker.network.loops import BrokerLoop, result_of, warn_of_green_threads
from kafka_offsets.broker.network.server import Server
from kafka_offsets.broker.partition.compacted import Compacted
from kafka_offsets.broker.partition.forced_compaction import force_compaction
from kafka_offsets.client import commits, quotas
from kafka_offsets.clock import Clock
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.errors import ConfigError
from kafka_offsets.storage.files.files import DiskFiles

_HIGHEST_PORT = 65535

T = TypeVar("T")


class EmbeddedBroker:
    """A broker inside this process: ``with Broker() as broker:`` in a separate thread, or ``async with``.

    config           Kafka's keys to values; they override the defaults for tests; see docs/configuration.md
    host, port       the address to listen on; overrides the key `listeners`; port 0 takes a free one
    data_directory   the directory of topics and committed offsets; overrides the key `log.dirs`; default: in memory
    properties_file  a server.properties file; `config` overrides it
    clock            the source of time; default: the machine's clock
    users            names and passwords of clients, which authenticate with SASL: at the listeners of `config` that
                     have it, or at one of protocol SASL_PLAINTEXT; see docs/security.md
    A stopped broker may be started again; data in memory is then lost. All methods may be called from any thread.
    A wrong configuration raises ConfigError here, an argument of the wrong type TypeError. Starting raises
    StorageError (the data cannot be read, or another broker uses it), OSError (the port) or RuntimeError (the broker
    is running).
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        host: str | None = None,
        port: int | None = None,
        data_directory: str | Path | None = None,
        properties_file: str | Path | None = None,
        clock: Clock | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(config, Mapping | None):
            raise TypeError(f"the configuration is a dict of keys to values, not {config!r}")
        if not isinstance(port, int | None):
            raise TypeError(f"the port is {port!r}, not an int")
        path = None if properties_file is None else Path(properties_file)
        self.config = Config.load(config, path)
        if users is not None:
            self.config = Config.load(with_users(config, users, self.config), path, warns=False)
        listener = self.config.listener() if "listeners" in self.config.given else Listener("127.0.0.1", 0)
        self._host = listener.host if host is None else host
        self._port = listener.port if port is None else port
        self._data_directory = (
            self.config.data_directory() if data_directory is None else Path(data_directory)
        )
        if data_directory == "":
            raise ConfigError("the empty string is not a data directory")
        if not 0 <= self._port <= _HIGHEST_PORT:
            raise ConfigError(f"{self._port} is not a port number")
        self._clock = clock
        self._state_lock = threading.Lock()
        self._stop_lock = threading.Lock()
        self._in_use = False
        self._server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread_id = 0
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        self._stopped: asyncio.Event | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, `host:port`, also in a fork. RuntimeError when the broker is not running."""
        server = self._server if self._is_of_parent else self._running()
        assert server is not None
        return ",".join(
            address_text(node_server.core.broker.node.host, node_server.core.broker.node.port)
            for node_server in server.servers
        )

    @property
    def _is_of_parent(self) -> bool:
        """Whether this object came with a fork, from the process in which the broker runs."""
        return self._server is not None and os.getpid() != self._pid

    def __repr__(self) -> str:
        if self._server is None:
            return f"<{type(self).__name__}, not running>"
        return f"<{type(self).__name__} at {self.bootstrap_servers}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a broker cannot be sent to another process, nor be copied: send its address, broker.bootstrap_servers"
        )

    def address_of(self, listener: str) -> str:
        """Return the address for clients of a listener, `host:port`, by its name in the key `listeners`.

        ValueError for an unknown listener; RuntimeError when the broker is not running.
        """
        addresses = self._running().core.broker.node.addresses
        if listener.upper() not in addresses:
            raise ValueError(f"there is no listener {listener}, only {', '.join(addresses)}")
        return address_text(*addresses[listener.upper()])

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str | int | float | bool] | None = None
    ) -> None:
        """Create a topic, with Kafka's keys for topics in `config`.

        ValueError when it exists or when its name, number of partitions or configuration is not allowed;
        StorageError; RuntimeError when the broker is not running; TypeError for a name that is no text and a number of
        partitions that is no int, or a configuration that is no dict.
        """
        if not isinstance(name, str):
            raise TypeError(f"the name of the topic is {name!r}, not a str")
        if type(partitions) is not int:
            raise TypeError(f"topic {name!r}: the number of partitions is {partitions!r}, not an int")
        if not isinstance(config, Mapping | None):
            raise TypeError(f"topic {name!r}: its config is a dict of Kafka's keys to values, not {config!r}")
        self._call(
            lambda server: topic_admin.create_topic(server.core.broker, name, partitions, config or {})
        )

    def committed(self, group: str) -> dict[tuple[str, int], OffsetAndMetadata]:
        """Return the committed offsets of a group by (topic, partition); none for an unknown group.

        RuntimeError when the broker is not running.
        """
        return self._call(lambda server: server.core.shards.committed(group))

    def commit(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int],
        expected: Mapping[tuple[str, int], int | None] | None = None,
    ) -> None:
        """Commit offsets of a group that has no members, by (topic, partition); returns when they are committed.

        expected  a condition: the currently committed offsets, None for no offset. If one differs, nothing is committed
        CommitRefusedError names the refused partitions, and the committed offsets that differ from `expected`.
        ValueError for a negative offset, or an offset or partition that does not fit the protocol; TypeError for one
        that is not an int. RuntimeError when the broker is not running, or when called in the thread of its loop,
        which must answer.
        """
        request = commits.request(group, offsets, expected or {})
        response = self._wait_for(lambda server: server.exchange(request, commits.VERSION))
        commits.check(group, response, expected or {})

    def set_quota(
        self,
        *,
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
        producer_byte_rate: float | None = None,
        consumer_byte_rate: float | None = None,
        request_percentage: float | None = None,
        controller_mutation_rate: float | None = None,
        connection_creation_rate: float | None = None,
    ) -> None:
        """Set the quotas of a user, of a client id, of both, or of an address; those that are not given are removed.

        user, client_id, ip  names; "<default>" for all that have no quota by themselves
        producer_byte_rate, consumer_byte_rate  bytes of Produce requests and of Fetch responses per second
        request_percentage        time of the broker, in percent of a second per second
        controller_mutation_rate  partitions that are created or deleted per second
        connection_creation_rate  connections per second, of an `ip` alone
        A client is throttled after it has used what about ten seconds allow. Requests of this object are exempt.
        ValueError when the broker refuses it; RuntimeError when it is not running, or in the thread of its loop.
        """
        names = {"user": user, "client-id": client_id, "ip": ip}
        limits = {
            "producer_byte_rate": producer_byte_rate,
            "consumer_byte_rate": consumer_byte_rate,
            "request_percentage": request_percentage,
            "controller_mutation_rate": controller_mutation_rate,
            "connection_creation_rate": connection_creation_rate,
        }
        request = quotas.request(names, limits)
        quotas.check(self._wait_for(lambda server: server.exchange(request, quotas.VERSION)))

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the broker, by the names of docs/metrics.md.

        RuntimeError when the broker is not running.
        """
        return self._call(lambda server: server.core.metrics.read())

    def expire_offsets(self) -> int:
        """Delete the offsets that are past their retention now, as the broker does every 10 minutes.

        Returns how many were deleted. Empty groups without offsets are deleted too. The retention is
        `offsets.retention.minutes`. RuntimeError when the broker is not running, or when it runs in the calling
        thread, which cannot wait for it: use `await asyncio.to_thread(broker.expire_offsets)`.
        """
        return self._wait_for(lambda server: server.core.expiry.run_now(server.core.clock.now()))

    def compact(
        self, topic: str | None = None, *, include_active: bool = False
    ) -> dict[tuple[str, int], Compacted]:
        """Compact the logs of a topic now, or of all topics with cleanup.policy=compact, including the offsets topic.

        include_active  first roll each log to a new segment; otherwise the active segment is not compacted, as usual
        Returns the result of each (topic, partition) at the end; other requests are served in the meantime. Records
        that `min.compaction.lag.ms` protects stay. ValueError if the topic does not exist or has another policy.
        RuntimeError when the broker is not running, is stopped in the meantime, or runs in the calling thread.
        """
        return self._wait_for(
            lambda server: force_compaction(server.core.log_cleaner, topic, include_active=include_active)
        )

    def reload_certificates(self) -> None:
        """Read the keystores and truststores of all listeners again, for connections from now on.

        ConfigError names a file that cannot be used; then the listener keeps what it has. RuntimeError when the broker
        is not running.
        """
        self._call(lambda server: server.reload_certificates())

    def start(self) -> None:
        """Start in a separate thread; return once clients can connect."""
        warn_of_green_threads()
        self._claim()
        started: Future[None] = Future()
        thread = threading.Thread(
            target=_run, args=(weakref.ref(self), started), name="kafka-offsets", daemon=True
        )
        try:
            thread.start()
            started.result()
        except BaseException:
            if thread.ident is not None:
                if started.exception() is None:  # the broker has started: the wait was interrupted
                    self._stop_thread(thread)
                thread.join()
            self._in_use = False
            raise
        self._thread = thread

    def stop(self) -> None:
        """Stop; return once every socket, file and thread is closed. Stopping twice does nothing, and so in a fork.

        RuntimeError when the broker runs in the caller's loop: leaving its `async with` stops it.
        """
        if self._is_of_parent:
            return
        with self._stop_lock:
            thread = self._thread
            if thread is None:
                if self._server is not None:
                    raise RuntimeError("this broker stops at the end of its `async with`")
                return
            try:
                self._stop_thread(thread)
            finally:
                self._thread = None
                self._in_use = False

    def __del__(self) -> None:
        if getattr(self, "_thread", None) is not None and self._server is not None and not self._is_of_parent:
            message = f"a broker was not stopped: it listens on {self.bootstrap_servers}"
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._claim()
        try:
            await self._start_server()
        except BaseException:
            self._in_use = False
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_of_parent:
            return
        try:
            await self._stop_server()
        finally:
            self._in_use = False

    def _claim(self) -> None:
        """Claim the broker, so that no other start can begin."""
        self._check_process()
        with self._state_lock:
            if self._in_use:
                raise RuntimeError("this broker is running already")
            self._in_use = True

    def _new_server(self) -> Server:
        """Create the server of this broker, for one start; called in the thread of its loop."""
        files = None if self._data_directory is None else DiskFiles(self._data_directory)
        return Server(self.config, files, self._clock)

    async def _start_server(self) -> None:
        server = self._new_server()
        try:
            await server.start(self._host, self._port)
        except BaseException:
            await server.stop()
            raise
        self._loop, self._loop_thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._pid = os.getpid()
        self._server = server

    async def _stop_server(self) -> None:
        with self._state_lock:  # afterwards no other call can be scheduled
            server, self._server = self._server, None
        if server is not None:
            await server.stop()

    def _stop_thread(self, thread: threading.Thread) -> None:
        """Stop the server and the loop of `thread`; return once it has ended."""
        assert self._loop is not None

        async def stop() -> None:
            """Stop the server in its loop, and let `main` return even if that fails."""
            assert self._stopped is not None
            try:
                await self._stop_server()
            finally:
                self._stopped.set()

        stopping = asyncio.run_coroutine_threadsafe(stop(), self._loop)
        try:
            stopping.result()
        finally:
            thread.join()

    def _running(self) -> Server:
        server = self._server
        if server is None:
            raise RuntimeError("this broker is not running")
        self._check_process()
        return server

    def _check_process(self) -> None:
        """Raise RuntimeError in a fork."""
        if self._is_of_parent:
            refuse_in_child(self._pid, self.bootstrap_servers)

    def _wait_for(self, begin: "Callable[[Server], Future[T]]") -> T:
        """Call `begin` in the thread of the broker's loop, and wait in this thread for its result."""
        self._running()
        if threading.get_ident() == self._loop_thread_id:
            raise RuntimeError("the broker's own thread cannot wait for it; use asyncio.to_thread")
        return self._result(self._call(begin))

    def _result(self, future: "Future[T]") -> T:
        """Wait for what the broker does in its loop. RuntimeError when that is the test's and stands still."""
        assert self._loop is not None
        return result_of(future, self._loop)

    def _call(self, function: Callable[[Server], T]) -> T:
        """Call a function in the thread of the broker's loop and return what it returns."""
        result: Future[T] = Future()

        def call() -> None:
            """Call the function in the loop's thread; its result or exception goes to the waiting thread."""
            try:
                server = self._running()
                value = function(server)
                server.request_turn()
                result.set_result(value)
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits below
                result.set_exception(error)

        self._running()  # a fork may have a lock that nobody releases
        with self._state_lock:
            self._running()
            assert self._loop is not None
            is_other_thread = threading.get_ident() != self._loop_thread_id
            if is_other_thread:
                self._loop.call_soon_threadsafe(call)
        if not is_other_thread:
            call()
        return self._result(result)


def _run(reference: "weakref.ref[EmbeddedBroker]", started: "Future[None]") -> None:
    """Run a loop until the server is stopped; the main function of the thread.

    reference  to the broker, which waits for `started`. The thread does not keep it alive afterwards: one that is
               forgotten gets a ResourceWarning
    """

    async def main() -> None:
        """Start the server, report it in `started`, and end when the broker has stopped it."""
        broker = reference()
        assert broker is not None
        stopped = broker._stopped = asyncio.Event()
        await broker._start_server()
        assert broker._server is not None
        asyncio.get_running_loop().set_exception_handler(broker._server.on_loop_error)
        del broker
        started.set_result(None)
        await stopped.wait()

    try:
        with asyncio.Runner(loop_factory=BrokerLoop) as runner:
            runner.run(main())
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)  # raised again by the thread that waits in start()
