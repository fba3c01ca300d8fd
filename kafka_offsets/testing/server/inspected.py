"""The server of a broker for tests: it checks events, records requests, and its state can be replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.network.peer import Peer
from kafka_offsets.broker.network.server import Server as NetworkServer
from kafka_offsets.broker.network.socket_writer import SocketWriter, Transport
from kafka_offsets.clock import Clock
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import Files, MemoryFiles
from kafka_offsets.testing.server.consumption import Consumption, Observation
from kafka_offsets.testing.server.events import Event, Watches
from kafka_offsets.testing.server.recording import Recorder, Tape

T = TypeVar("T")


class InspectedServer(NetworkServer):
    """A server for tests: it checks events after each turn, and its state can be replaced.

    consumption  that of its cluster; None for a broker that is alone
    """

    def __init__(
        self,
        config: Config,
        files: Files,
        clock: Clock | None,
        recorder: Recorder | None,
        consumption: Consumption | None = None,
    ) -> None:
        self._recorder = recorder
        self.consumption = Consumption() if consumption is None else consumption
        self._watches = Watches()
        self._memory: MemoryFiles | None = None
        super().__init__(config, files, clock)

    def new_core(self, files: Files | None) -> BrokerCore:
        """Make the broker."""
        core = super().new_core(files)
        core.responses.observer = Observation(self.consumption, core.topics.topic_name)
        self._memory = files if isinstance(files, MemoryFiles) else None
        return core

    def new_peer(self, listener: int = 0) -> Peer:
        """Put a tape on a new connection, if this broker records."""
        if self._recorder is None:
            return super().new_peer(listener)
        return RecordedPeer(self, self._recorder, listener, self.node_of(listener))

    def node_of(self, listener: int) -> int | None:
        """Return the node of a cluster whose listener this is; None for a broker that is alone."""
        return None

    def exchange(self, request: messages.MessageValue, version: int) -> Future[Any]:
        """Execute a request of the test itself. Faults strike only clients, so a test with faults can still seed."""
        core, by_faults = self.core, self.core.broker.apis
        core.broker.apis = self.served()
        try:
            return super().exchange(request, version)
        finally:
            core.broker.apis = by_faults

    def exchange_as_client(self, request: messages.MessageValue, version: int) -> Future[Any]:
        """Execute a request as if a client had sent it: faults strike it."""
        return super().exchange(request, version)

    def watch(self, event: Event[T]) -> Future[T]:
        """Return a future for the result of an event."""
        return self._watches.add(event, self.core)

    def unwatch(self, future: Future[T], event: Event[T]) -> str:
        """Stop checking an event; return a description of the current state."""
        return self._watches.remove(future, event, self.core)

    def _end_turn(self) -> None:
        super()._end_turn()
        if self._watches.watched:
            self._watches.poll(self.core)

    async def stop(self) -> None:
        """Stop, as every server does. Waits for events end with an error."""
        try:
            with _expecting_refusals():
                await super().stop()
        finally:
            self._watches.abandon()

    def copy_state(self) -> MemoryFiles:
        """Return a copy of all files."""
        if self._memory is None:
            raise RuntimeError(
                "only a broker in memory can be copied and restored, not one with a data directory"
            )
        self.core.end_turn()
        self.core.directory.checkpoint_log_starts()
        self.request_turn()
        return self._memory.copy()

    def restoring(self, files: object) -> Future[None]:
        """Start to replace the current core with one that starts from a copy of `files`."""
        if self._memory is None:
            raise RuntimeError(
                "only a broker in memory can be copied and restored, not one with a data directory"
            )
        if not isinstance(files, MemoryFiles):
            raise TypeError("this is a snapshot of a cluster, and not of one broker")
        return asyncio.run_coroutine_threadsafe(self._restore(files), self._loop)

    async def _restore(self, files: MemoryFiles) -> None:
        await self._until(lambda: not self._tasks)
        old = self.core
        for inner in list(self._inner):
            inner.abort()
        for peer in list(self._peers):
            if peer.connection is not None:
                old.disconnect(peer.connection)
            peer.abort()
        core = self.new_core(files.copy())
        core.broker.node.host, core.broker.node.port = old.broker.node.host, old.broker.node.port
        core.broker.node.addresses = old.broker.node.addresses
        self.core = core
        with _expecting_refusals():
            old.close()
        self.end_turn_now()
        await self._until(lambda: not core.loader.is_loading)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait for work in threads of this server."""
        while not is_so():
            if self._stopping:
                raise RuntimeError("this broker was stopped before its state was restored")
            self._closed.clear()
            await self._closed.wait()


class RecordedPeer(Peer):
    """A connection with a tape on it.

    node  the node of a cluster whose listener this is; None for a broker that is alone
    """

    def __init__(self, server: NetworkServer, recorder: Recorder, listener: int, node: int | None) -> None:
        super().__init__(server, listener)
        self._recorder, self._node = recorder, node
        self._tape: Tape | None = None
        self._of = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start recording."""
        super().connection_made(transport)
        if self.connection is not None:
            self._tape = self._recorder.open(self.connection.peer, self._node)
            self._writer = _RecordedWriter(cast("asyncio.Transport", transport), self._tape)

    def data_received(self, data: bytes) -> None:
        """Record received bytes and pass them on."""
        if self._tape is not None and self.connection is not None and not self.connection.closing:
            core = self._of.core
            _learn_topics(core, self._recorder)
            authentication = self.connection.authentication
            state = None if authentication is None else authentication.state
            self._tape.received(data, core.clock.now().wall_ms, state)
        super().data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Record the end."""
        if self._tape is not None:
            self._tape.close()
        super().connection_lost(error)


class _RecordedWriter(SocketWriter):
    """A writer with a tape on it."""

    __slots__ = ("_tape",)

    def __init__(self, transport: Transport, tape: Tape) -> None:
        super().__init__(transport)
        self._tape = tape

    def write(self, pieces: list[bytes | bytearray]) -> bool:
        """Record bytes and send them."""
        self._tape.sent(pieces)
        return super().write(pieces)


def _learn_topics(core: BrokerCore, recorder: Recorder) -> None:
    """Record the names of topics: requests may give only their ids."""
    seen = core.topics, core.topics.created_version
    if recorder.seen_topics != seen:
        recorder.seen_topics = seen
        recorder.topic_names.update((topic.topic_id, topic.name) for topic in core.topics.all())


@contextmanager
def _expecting_refusals() -> Iterator[None]:
    """Close a broker, although a log of it takes no more appends because a fault of the disk has struck it."""
    try:
        yield
    except StorageError as error:
        from kafka_offsets.testing.faults.disk_faults import (
            InjectedError,  # no import cost for tests without faults
        )

        if not isinstance(error, InjectedError):
            raise
