"""ZooKeeper in virtual time: znodes that all clients share, and sessions that end when nothing is received."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_offsets.clock import Now
from kafka_offsets.zookeeper.requests import Children, Get, Outcome, Request, Watch
from tests.drivers.zookeeper import MemoryServer, Tree
from tests.simulation.cluster.node import WALL_MS
from tests.simulation.cluster.zookeeper.streams import Stream

if TYPE_CHECKING:
    from tests.simulation.cluster.zookeeper.world import ZooKeeperWorld

TIMEOUT_MS = 4000


class ObservedServer(MemoryServer):
    """Znodes whose changes are reported with the znodes of before."""

    def __init__(self, world: "ZooKeeperWorld") -> None:
        self._world = world
        super().__init__(self)  # type: ignore[arg-type]

    def now(self) -> Now:
        """As a clock."""
        now_ms = self._world.network.now_ms
        return Now(WALL_MS + now_ms, now_ms)

    def _replace(self, nodes: Tree) -> None:
        before = self.nodes
        super()._replace(nodes)
        self._world.metadata.changed(before, nodes)


class Session:
    """A session: the connection that it has now, and when something was last received."""

    def __init__(self, stream: Stream, heard_ms: int) -> None:
        self.stream, self.heard_ms = stream, heard_ms


class SessionServer:
    """Serves sessions over connections; does nothing while it is away."""

    def __init__(self, world: "ZooKeeperWorld") -> None:
        self._world = world
        self.tree = ObservedServer(world)
        self.is_away = False
        self._sessions: dict[int, Session] = {}

    def connect(self, stream: Stream, session_id: int, answer: Callable[[int], None]) -> None:
        """Take a session back, or begin one for 0; answer its number, 0 for one that has expired."""
        if self.is_away:
            stream.close(1)
            return
        now_ms = self._world.network.now_ms
        if not session_id:
            session_id = self.tree.new_session()
            self._sessions[session_id] = Session(stream, now_ms)
            self._check_later(session_id, now_ms + TIMEOUT_MS)
        elif session_id in self._sessions:
            self._sessions[session_id].stream.close(1)
            self._sessions[session_id] = Session(stream, now_ms)
        else:
            session_id = 0
        stream.send(1, answer, session_id)

    def receive(
        self, stream: Stream, session_id: int, request: Request | None, answer: Callable[[Outcome], None]
    ) -> None:
        """Carry out a request, and answer its outcome; None is a ping."""
        session = self._sessions.get(session_id)
        if self.is_away or session is None or session.stream is not stream:
            stream.close(1)
            return
        session.heard_ms = self._world.network.now_ms
        if isinstance(request, Get | Children) and request.watch is not None:
            request = request._replace(watch=self._reporting(session, request.watch))
        outcome = None if request is None else self.tree.apply(request, session_id)
        stream.send(1, answer, outcome)

    def _reporting(self, session: Session, watch: Watch) -> Watch:
        """Return a watch that is reported over the connection on which it was set."""
        stream = session.stream
        return lambda: stream.send(1, watch)

    def close(self, stream: Stream, session_id: int) -> None:
        """End a session at the request of its client."""
        session = self._sessions.get(session_id)
        if session is not None and session.stream is stream and not self.is_away:
            self.expire(session_id)

    def expire(self, session_id: int) -> None:
        """End a session: its ephemeral znodes are deleted."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.tree.expire(session_id)
            session.stream.close(1)

    def _check_later(self, session_id: int, due_ms: int) -> None:
        self._world.network.at(due_ms, self._check, session_id)

    def _check(self, session_id: int) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            return
        end_ms = session.heard_ms + TIMEOUT_MS
        if self.is_away or self._world.network.now_ms < end_ms:
            self._check_later(session_id, max(end_ms, self._world.network.now_ms + TIMEOUT_MS // 2))
        else:
            self.expire(session_id)

    def leave(self) -> None:
        """Be away: all connections are lost."""
        self.is_away = True
        for session in self._sessions.values():
            session.stream.close(1)

    def come_back(self) -> None:
        """Serve again; each session has its whole timeout to connect."""
        self.is_away = False
        for session in self._sessions.values():
            session.heard_ms = self._world.network.now_ms
