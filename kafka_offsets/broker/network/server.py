"""Server: the broker's sockets, in a loop of asyncio.

A :class:`Peer` for each connection passes received bytes to the core. One ``end_turn`` after each turn of the loop
appends and responds. One write for each connection sends all its responses. fsync runs in a worker thread.
"""

import asyncio
import errno
from collections.abc import Callable, Iterable, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.listeners import Listener, address_text, local_host
from kafka_offsets.broker.core.api_table import served_apis
from kafka_offsets.broker.core.core import TURN_MS, BrokerCore, ClusterPart
from kafka_offsets.broker.groups.shard_loader import LOADS_AT_ONCE
from kafka_offsets.broker.network.accepting import (
    ACCEPTED_PER_ROUND,
    stop_accepting,
    widen_backlog,
)
from kafka_offsets.broker.network.due_timer import DueTimer
from kafka_offsets.broker.network.inheritance import Name, leave_to_parent, names_of
from kafka_offsets.broker.network.inner_peer import InnerPeer
from kafka_offsets.broker.network.loops import result_of
from kafka_offsets.broker.network.peer import Peer
from kafka_offsets.broker.network.tls_handshake import Handshake
from kafka_offsets.broker.network.virtual_time import Driven, TimeDriver
from kafka_offsets.broker.turn.switch_interval import switch_interval
from kafka_offsets.broker.turn.workers import Done, Work, sync_all
from kafka_offsets.broker.wire.api import Apis
from kafka_offsets.broker.wire.connection import ClientConnection
from kafka_offsets.clock import Clock, ManualClock, SystemClock
from kafka_offsets.errors import BindError, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.memory import keep_freed_memory
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import Files
from kafka_offsets.storage.log.log import Log
from kafka_offsets.zookeeper.requests import ZooKeeper

_READING_BYTES = 512 << 10
"""More than the buffer of 256 KiB that asyncio allocates for each read, and returns except for what was read."""

_OUTPUT_BYTES = attrgetter("output_bytes")

_UNKNOWN_REST = (None,)
"""The remaining calls of a round, for a loop without asyncio's queue of calls: its turns always end after the round."""

_MOST_DELAYED_MS = 100
"""The longest wait of due work behind requests that have arrived; then it is carried out before them."""

_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_REPORT_EACH_MS = 1000

T = TypeVar("T")

logger = new_logger(__name__)


def _ports(listener: asyncio.Server) -> list[int]:
    return [listening.getsockname()[1] for listening in listener.sockets]


def time_driver(clock: Clock, driven: Driven, loop: asyncio.AbstractEventLoop) -> TimeDriver | None:
    """Return what moves a server in a loop through the time of a manual clock; None for any other clock."""
    if not isinstance(clock, ManualClock):
        return None
    submit = partial(asyncio.run_coroutine_threadsafe, loop=loop)
    wait = partial(result_of, loop=loop)
    return TimeDriver(clock, driven, submit, loop.call_later, partial(asyncio.sleep, 0), wait)


class Server:
    """Listens, and drives one BrokerCore from the loop it was started in.

    is_paused        whether a test has paused it: its sockets stay open, and it reads nothing
    accepts_at_once  whether clients may connect as soon as a port is taken, else from `accept` on
    """

    is_paused = False
    accepts_at_once = True

    def __init__(self, config: Config, files: Files | None = None, clock: Clock | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._rest_of_round: Sized = getattr(self._loop, "_ready", _UNKNOWN_REST)
        self._clock = clock if clock is not None else SystemClock()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafka-offsets-sync")
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafka-offsets-background")
        self._loader = ThreadPoolExecutor(LOADS_AT_ONCE, thread_name_prefix="kafka-offsets-load")
        self._peers: set[Peer] = set()
        self._handshakes: set[Handshake] = set()
        self._inner: set[InnerPeer] = set()
        self._per_host: dict[str, int] = {}
        self._turn: asyncio.Handle | None = None
        self._delayed_until_ms: int | None = None
        self._timer = DueTimer(self._loop, self._clock, self._run_due)
        self._listeners: dict[int, asyncio.Server] = {}
        self._bound: dict[str, Listener] = {}
        self._closed = asyncio.Event()
        self._stopping = False
        self._tasks = 0
        self._reported_ms = -_REPORT_EACH_MS
        self._config = config
        self.refuses: Callable[[], None] | None = None
        self._time_driver = self.new_time_driver()
        keep_freed_memory(_READING_BYTES)
        self.core = self.new_core(files)

    @property
    def servers(self) -> "list[Server]":
        """The servers that a test sees as this one: itself alone, or those of a cluster's nodes."""
        return [self]

    def stop_time(self) -> None:
        """Follow a manual clock no longer."""
        if self._time_driver is not None:
            self._time_driver.stop()

    def new_time_driver(self) -> TimeDriver | None:
        """Create what moves this server through the time of a manual clock; None for any other clock."""
        return time_driver(self._clock, self, self._loop)

    def new_core(self, files: Files | None) -> BrokerCore:
        """Create the broker core that this server drives."""
        core = BrokerCore(
            self._config,
            files,
            self._clock,
            self._sync,
            partial(self._background, self._writer),
            self._new_zookeeper,
            self.cluster_part(),
            partial(self._background, self._loader),
        )
        if self._time_driver is not None:
            core.scheduler.real_time_fallback = self._time_driver.real_time_fallback
            core.scheduler.scaled_interval = self._time_driver.scaled_interval
        return core

    def _new_zookeeper(self, config: Config) -> ZooKeeper:
        from kafka_offsets.zookeeper.kazoo_client import KazooZooKeeper

        def post(function: Callable[[], None]) -> None:
            """Run a callback of ZooKeeper's client in the thread of the broker."""

            def call() -> None:
                function()
                self.request_turn()

            self._loop.call_soon_threadsafe(call)

        return KazooZooKeeper(config.zookeeper_connect or "", config.zookeeper_session_timeout_ms, post)

    def cluster_part(self) -> ClusterPart | None:
        """Return the part of a cluster that this broker is, None for a broker that is alone."""
        return None

    def served(self) -> Apis:
        """Return the table of APIs of this server; tests may override it."""
        return served_apis(self._config.profile)

    def new_peer(self, listener: int = 0) -> Peer:
        """Create the protocol object for a connection of a listener."""
        return Peer(self, listener)

    async def start(self, host: str, port: int, others: Sequence[int] | None = None) -> None:
        """Listen on host and port (0: any free one), and on the listeners after the first. Raises BindError.

        others  ports of the listeners after the first; None: those of `listeners`
        Clients receive `advertised.listeners`, or else where it listens; for every interface that is localhost or ::1,
        as no client can connect to 0.0.0.0 of another machine.
        """
        node = self.core.broker.node
        for index, security in enumerate(self.core.listeners):
            endpoint = security.endpoint
            own_host, own_port = (host, port) if index == 0 else endpoint.listener
            if index and others is not None:
                own_port = others[index - 1]
            try:
                own_port = await self.listen(index, own_host, own_port)
            except OSError as error:
                raise BindError(error, own_host, own_port) from error
            bound = Listener(local_host(own_host), own_port)
            self._bound[endpoint.name] = bound
            address = node.addresses[endpoint.name] = endpoint.address_for_clients(bound)
            if index == 0:
                node.host, node.port = address
        self._timer.set(self.core.scheduler.next_ms)

    @property
    def addresses(self) -> dict[str, str]:
        """The address for clients of each listener, `host:port`, by its name."""
        return {name: address_text(*address) for name, address in self.core.broker.node.addresses.items()}

    @property
    def bound_addresses(self) -> dict[str, str]:
        """The address of each listener, `host:port`, by its name; localhost if that is every interface."""
        return {name: address_text(*address) for name, address in self._bound.items()}

    @property
    def ports(self) -> list[int]:
        """The ports at which it listens, in the order of the listeners."""
        return [_ports(self._listeners[index])[0] for index in sorted(self._listeners)]

    @property
    def socket_names(self) -> list[Name]:
        """Family, host and port of the sockets at which it listens."""
        return names_of(sock for listener in self._listeners.values() for sock in listener.sockets)

    async def listen(self, index: int, host: str, port: int) -> int:
        """Listen on one more address, the listener of this index; return the port. Raises OSError."""
        leave_to_parent(self)
        listener = self._listeners[index] = await self._listen(index, host, port)
        if self.accepts_at_once:
            widen_backlog(listener)
        return _ports(listener)[0]

    async def _listen(self, index: int, host: str, port: int) -> asyncio.Server:
        new_peer = self._new_protocol(index)
        listen = partial(
            self._loop.create_server,
            new_peer,
            host,
            backlog=ACCEPTED_PER_ROUND,
            reuse_address=True,
            start_serving=self.accepts_at_once,
        )
        listener = await listen(port)
        # With port 0 and a host of several addresses each address gets its own port; clients receive one of them.
        while len(set(ports := _ports(listener))) > 1:
            listener.close()
            await listener.wait_closed()
            try:
                listener = await listen(ports[0])
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                listener = await listen(port)  # somebody else has that port at another address
        return listener

    def _new_protocol(self, index: int) -> Callable[[], asyncio.Protocol]:
        """Return what makes the protocol object for a connection that a listener accepts."""
        new_peer, tls = partial(self.new_peer, index), self.core.listeners[index].tls
        if tls is not None and not isinstance(
            self._loop, asyncio.BaseEventLoop
        ):  # the handshake of uvloop never ends
            raise RuntimeError(
                "a listener with TLS needs asyncio's own loop, not uvloop's: `with Broker()` has one in its thread"
            )
        return new_peer if tls is None else partial(Handshake, self, lambda: tls.context, new_peer)

    @property
    def has_tls(self) -> bool:
        """Whether a listener has TLS."""
        return any(listener.tls is not None for listener in self.core.listeners)

    def reload_certificates(self) -> None:
        """Read the files of all listeners with TLS again. Raises ConfigError."""
        for listener in self.core.listeners:
            if listener.tls is not None:
                listener.tls.reload()

    def delays_handshake(self, handshake: Handshake, host: str) -> bool:
        """Whether a connection exceeds the quota of its address: as `throttles`, before its TLS handshake."""
        if not self._is_throttled(handshake, host):
            return False
        self._handshakes.add(handshake)
        self._per_host[host] = self._per_host.get(host, 0) + 1
        return True

    def begin_handshake(self, handshake: Handshake, host: str) -> bool:
        """Count a connection during its TLS handshake; return whether there are not too many."""
        if self._stopping or self.refuses is not None or not self._has_room(host):
            return False
        self._handshakes.add(handshake)
        self._per_host[host] = self._per_host.get(host, 0) + 1
        return True

    def end_handshake(self, handshake: Handshake, host: str) -> None:
        """Count it no longer."""
        self._handshakes.discard(handshake)
        self._uncount(host)
        self._closed.set()

    def _has_room(self, host: str) -> bool:
        """Whether one more connection is allowed, from this address too; otherwise it is logged."""
        config = self._config
        open_now = len(self._peers) + len(self._handshakes)
        if open_now < config.max_connections and self._per_host.get(host, 0) < config.max_connections_per_ip:
            return True
        logger.warning("%s: connection refused: too many connections", host)
        return False

    def _uncount(self, host: str) -> None:
        left = self._per_host.get(host, 1) - 1
        if left:
            self._per_host[host] = left
        else:
            self._per_host.pop(host, None)

    async def accept(self) -> None:
        """Let clients connect."""
        for listener in self._listeners.values():
            await listener.start_serving()
            widen_backlog(listener)

    def exchange(self, request: messages.MessageValue, version: int) -> "Future[Any]":
        """Decide a request as if a connection had sent it; the future has the response or fails with RuntimeError."""
        inner = InnerPeer(self.core, request, version)
        self._inner.add(inner)
        inner.answer.add_done_callback(lambda _: self._inner.discard(inner))
        inner.send()
        self.request_turn()
        return inner.answer

    async def stop(self) -> None:
        """Stop listening, close all connections, write all decisions and close the files."""
        self._stopping = True
        self.stop_time()
        for inner in list(self._inner):
            inner.abort()
        self.core.log_cleaner.stop()
        self.core.loader.abandon()
        try:
            await self._disconnect_all()
        finally:  # also when the caller's task is cancelled
            for listener in self._listeners.values():
                listener.close()
            self._worker.shutdown(wait=True)
            self._writer.shutdown(wait=True)
            self._loader.shutdown(wait=True)
            self._timer.cancel()
            if self._turn is not None:
                self._turn.cancel()
            self.core.close()

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle exceptions of the loop, if the loop belongs to this server.

        A process without free descriptors cannot accept connections. Python 3.11 reports that once for each entry of
        the backlog, with a traceback, and again a second later; here it is one line a second. Python then retries on
        a listener that may be closed; that error is ignored.
        """
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _NO_RESOURCES and "socket" in context:
            now_ms = self._clock.now().mono_ms
            if now_ms - self._reported_ms >= _REPORT_EACH_MS:
                self._reported_ms = now_ms
                logger.error("no connection can be accepted: %s", error.strerror)
            return
        if (
            self._stopping
            and isinstance(error, ValueError)
            and "_start_serving" in context.get("message", "")
        ):
            return
        loop.default_exception_handler(context)

    async def _disconnect_all(self) -> None:
        """Return when no socket is open and no thread is working."""
        await self.stop_listening(list(self._listeners))
        for handshake in list(self._handshakes):
            handshake.abort()
        while self._peers or self._handshakes or self._tasks:
            self._closed.clear()
            await self._closed.wait()
        for listener in self._listeners.values():
            await listener.wait_closed()

    async def stop_listening(self, indexes: Iterable[int]) -> None:
        """Close some listeners and their connections; `admit` must accept no more of these."""
        closing = {index: self._listeners[index] for index in indexes if index in self._listeners}
        for peer in list(self._peers):
            if peer.listener in closing:
                peer.abort()
        await stop_accepting(closing.values())

    @property
    def clients(self) -> list[tuple[str, str]]:
        """Client id, "" if that is not known, and address of each open connection."""
        connections = [each.connection for each in self._peers]
        return sorted(each.client for each in connections if each is not None and not each.has_left)

    def throttles(self, peer: Peer, peername: tuple[str, int]) -> bool:
        """Whether a connection exceeds the quota of its address: it stays unread, and is closed later (KIP-612)."""
        if not self._is_throttled(peer, peername[0]):
            return False
        self._peers.add(peer)
        return True

    def _is_throttled(self, connection: Peer | Handshake, host: str) -> bool:
        """Count a new connection for the quota of its address; abort it after a while if that is exceeded."""
        now = self._clock.now()
        throttle_ms = self.core.throttling.connected(host, now)
        if not throttle_ms or self._stopping:
            return False
        logger.info("%s: connection refused: too many in a short time", host)
        self.core.scheduler.at(now.mono_ms + throttle_ms, lambda _: connection.abort())
        self._timer.set(self.core.scheduler.next_ms)
        return True

    def admit(self, peer: Peer, peername: tuple[str, int]) -> ClientConnection | None:
        """Register a connection; None when there are too many or the server is stopping."""
        host = peername[0]
        has_room = self._stopping or self.refuses is not None or self._has_room(host)
        self._peers.add(peer)
        if self._stopping:
            return None
        if self.refuses is not None:
            self.refuses()
            return None
        if not has_room:
            return None
        self._per_host[host] = self._per_host.get(host, 0) + 1
        listener = self.core.listeners[peer.listener]
        connection = self.core.connect(f"{host}:{peername[1]}", f"/{host}", peer, listener)
        self._timer.set(self.core.scheduler.next_ms)
        return connection

    def release(self, peer: Peer) -> None:
        """Forget a closed connection."""
        self._peers.discard(peer)
        self._closed.set()
        if peer.connection is None:
            return
        self._uncount(peer.connection.host.removeprefix("/"))
        self.core.disconnect(peer.connection)

    def request_turn(self) -> None:
        """End the turn after all data that is ready in this round of the loop has been read."""
        if self._turn is None and not self._stopping:
            self._turn = self._loop.call_soon(self._end_turn)

    def end_or_request_turn(self) -> None:
        """End the turn now if nothing else is left in this round of the loop, otherwise after this round.

        Another round asks the kernel for events once more. A client that waits for each response makes most rounds
        of one request: without the other round this takes four system calls in place of five, and 0 to 8 % less CPU.
        """
        if self._rest_of_round or self._turn is not None:
            self.request_turn()
        elif not self._stopping:
            self._end_turn()

    def _end_turn(self) -> None:
        self._turn = None
        has_work = self.core.end_turn()
        if not self._flush() or has_work or self.core.responses.resumable:  # a flush may unblock requests
            self.request_turn()
        self._timer.set(self.core.scheduler.next_ms)

    def _flush(self) -> bool:
        """Write what connections have to send, little first; return whether there was time for all of them."""
        writable = self.core.responses.take_output()
        if not writable:
            return True
        *others, last = sorted(writable, key=_OUTPUT_BYTES)
        began_ms = self._clock.now().mono_ms if others else 0
        for connection in others:
            del writable[connection]
            connection.owner.flush()
            if self._clock.now().mono_ms - began_ms >= TURN_MS:
                break
        else:
            last.owner.flush()
            return True
        longest = next(iter(writable))  # many that have little do not keep it waiting for ever
        del writable[longest]
        longest.owner.flush()
        self.core.responses.writable = writable | self.core.responses.writable
        return not self.core.responses.writable

    def _run_due(self) -> None:
        """Run what is due, but first decide the requests that have arrived: the heartbeats of sessions that end now."""
        now_ms = self._clock.now().mono_ms
        if self.core.responses.resumable and not isinstance(self._clock, ManualClock):
            if self._delayed_until_ms is None:
                self._delayed_until_ms = now_ms + _MOST_DELAYED_MS
            if now_ms < self._delayed_until_ms:
                self._timer.again()
                return
        self.core.run_due()
        rest_ms = self.core.next_deadline_ms
        if rest_ms is not None and rest_ms <= now_ms:
            self._timer.again()  # there was no time for it: it has waited for requests, and does not do so again
        else:
            self._delayed_until_ms = None
        self.end_turn_now()

    def end_turn_now(self) -> None:
        """Append and answer all decisions."""
        if self._turn is not None:
            self._turn.cancel()
        self._end_turn()

    @property
    def is_at_work(self) -> bool:
        """Whether a turn must end, or a thread is working."""
        return self._turn is not None or self._tasks > 0

    async def work(self) -> None:
        """End the turn; without a turn, return when a thread has finished some work."""
        if self._turn is None and self._tasks:
            self._closed.clear()
            await self._closed.wait()
        else:
            self.end_turn_now()

    def _sync(self, logs: list[Log], done: Callable[[dict[Log, StorageError]], None]) -> None:
        """Sync logs in the worker thread; `done` is called in the loop."""
        self._tasks += 1
        future = self._loop.run_in_executor(self._worker, sync_all, logs)

        def finished(result: "asyncio.Future[dict[Log, StorageError]]") -> None:
            self._tasks -= 1
            done(result.result())
            self.request_turn()
            self._closed.set()

        future.add_done_callback(finished)

    def _background(self, threads: ThreadPoolExecutor, work: Work, done: Done) -> None:
        """Run `work` in a background thread, separate from that of the syncs; `done` is called in the loop."""
        self._tasks += 1
        future = self._loop.run_in_executor(threads, switch_interval, work)

        def finished(result: "asyncio.Future[None]") -> None:
            """Report the end of the work to the loop: `done` gets the StorageError, or None."""
            self._tasks -= 1
            error = result.exception()
            assert error is None or isinstance(error, StorageError), error
            done(error)
            self.request_turn()
            self._closed.set()

        future.add_done_callback(finished)
