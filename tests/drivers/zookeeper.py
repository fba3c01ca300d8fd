"""A ZooKeeper in memory, with the few operations that are used, and faults that a test chooses.

tests/zookeeper/test_contract.py runs the same tests on it and on a real server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kafka_offsets.clock import Clock, ManualClock
from kafka_offsets.zookeeper.requests import (
    ANY_VERSION,
    Change,
    Check,
    Children,
    Create,
    Delete,
    Get,
    Multi,
    Outcome,
    Problem,
    Request,
    SessionState,
    SetData,
    Sync,
    Watch,
    Znode,
)

Tree = dict[str, Znode]


class MemoryServer:
    """The znodes, which all clients of a test share.

    applied  how many requests had an effect or were answered
    refused  paths that no client may read or write, with all below them
    watches  who is called at the next change of a path's data, or of its children's names
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock if clock is not None else ManualClock()
        self.nodes: Tree = {"/": Znode(b"", 0, 0)}
        self.applied = 0
        self.refused: set[str] = set()
        self.watches: dict[str, list[Watch]] = {}
        self.child_watches: dict[str, list[Watch]] = {}
        self._sessions = 0

    def new_session(self) -> int:
        """Return the number of a new session."""
        self._sessions += 1
        return self._sessions

    def expire(self, session_id: int) -> None:
        """End a session: its ephemeral znodes are deleted."""
        for path in [path for path, node in self.nodes.items() if node.owner == session_id]:
            self.delete(path)

    def apply(self, request: Request, session_id: int = 0) -> Outcome:
        """Carry out one request."""
        self.applied += 1
        if isinstance(request, Sync):
            return None
        changes = request.changes if isinstance(request, Multi) else (request,)
        if any(change.path.startswith(path) for change in changes for path in self.refused):
            return Problem.REFUSED
        if isinstance(request, Get):
            if request.watch is not None and request.path in self.nodes:
                self.watches.setdefault(request.path, []).append(request.watch)
            return self.nodes.get(request.path, Problem.NO_NODE)
        if isinstance(request, Children):
            if request.watch is not None and request.path in self.nodes:
                self.child_watches.setdefault(request.path, []).append(request.watch)
            return self._children(self.nodes, request.path)
        nodes = dict(self.nodes)
        versions = []
        for change in request.changes:
            outcome = self._change(nodes, change, session_id)
            if isinstance(outcome, Problem):
                return outcome
            versions.append(outcome)
        self._replace(nodes)
        return tuple(versions)

    def _replace(self, nodes: Tree) -> None:
        """Make a change, and call who watches what has changed."""
        old, self.nodes = self.nodes, nodes
        called = []
        for path in dict.fromkeys((*old, *nodes)):
            if old.get(path) != nodes.get(path):
                called += self.watches.pop(path, [])
            if (path in old) is not (path in nodes):
                called += self.child_watches.pop(path.rpartition("/")[0] or "/", [])
        for watch in called:
            watch()

    def put(self, path: str, data: bytes | str = b"") -> None:
        """Write a znode with its parents, as another program would."""
        data = data.encode() if isinstance(data, str) else data
        nodes = dict(self.nodes)
        parts = path.split("/")[1:]
        for end in range(1, len(parts)):
            parent = "/" + "/".join(parts[:end])
            nodes.setdefault(parent, self._node(b"", 0))
        old = nodes.get(path)
        nodes[path] = self._node(data, 0 if old is None else old.version + 1)
        self._replace(nodes)

    def delete(self, path: str) -> None:
        """Delete a znode and all below it, as another program would."""
        self._replace(
            {
                each: node
                for each, node in self.nodes.items()
                if each != path and not each.startswith(f"{path}/")
            }
        )

    def texts(self, below: str = "/consumers") -> dict[str, str]:
        """Return the data of the znodes below a path that have any, by path relative to it."""
        return {
            path.removeprefix(f"{below}/"): node.data.decode()
            for path, node in sorted(self.nodes.items())
            if path.startswith(f"{below}/") and node.data
        }

    def _node(self, data: bytes, version: int, owner: int = 0) -> Znode:
        return Znode(data, version, self.clock.now().wall_ms, owner)

    @staticmethod
    def _children(nodes: Tree, path: str) -> tuple[str, ...] | Problem:
        if path not in nodes:
            return Problem.NO_NODE
        prefix = path.rstrip("/") + "/"
        below = [each.removeprefix(prefix) for each in nodes if each.startswith(prefix) and each != path]
        return tuple(name for name in below if name and "/" not in name)

    def _change(self, nodes: Tree, change: Change, session_id: int) -> int | Problem:
        path = change.path
        old = nodes.get(path)
        if isinstance(change, Create):
            if old is not None:
                return Problem.NODE_EXISTS
            if (path.rpartition("/")[0] or "/") not in nodes:
                return Problem.NO_NODE
            nodes[path] = self._node(change.data, 0, session_id if change.is_ephemeral else 0)
            return 0
        if old is None:
            return Problem.NO_NODE
        if change.version not in (ANY_VERSION, old.version):
            return Problem.BAD_VERSION
        if isinstance(change, SetData):
            nodes[path] = self._node(change.data, old.version + 1, old.owner)
            return old.version + 1
        if isinstance(change, Check):
            return 0
        assert isinstance(change, Delete)
        if self._children(nodes, path):
            return Problem.NOT_EMPTY
        del nodes[path]
        return 0


@dataclass
class MemoryZooKeeper:
    """One client of a :class:`MemoryServer`.

    is_held    outcomes wait for `release`
    lose_next  answers to the next requests that change something are lost: "applied" or "dropped" for each
    before     called before each request, for what another client does in between
    """

    server: MemoryServer = field(default_factory=MemoryServer)
    is_held: bool = False
    lose_next: deque[str] = field(default_factory=deque)
    before: Callable[[Request], None] = lambda request: None
    _calls: deque[Callable[[], None]] = field(default_factory=deque)
    _is_pumping: bool = False
    _is_connected: bool = False
    _on_state: Callable[[SessionState], None] = lambda state: None
    is_closed: bool = False
    starts_connected: bool = True
    session_id: int = 0
    _watching: list[Watch] = field(default_factory=list)

    def start(self, on_state: Callable[[SessionState], None]) -> None:
        """Connect."""
        self._on_state = on_state
        if self.starts_connected:
            self.connect()

    def connect(self) -> None:
        """Establish the connection."""
        if not self._is_connected and not self.session_id:
            self.session_id = self.server.new_session()
        self._is_connected = True
        self._call(lambda: self._on_state(SessionState.CONNECTED))

    def disconnect(self, state: SessionState = SessionState.DISCONNECTED) -> None:
        """Lose the connection, or the session."""
        self._is_connected = False
        if state is SessionState.EXPIRED:
            self.server.expire(self.session_id)
            self.session_id = 0
        self._call(lambda: self._on_state(state))
        watching, self._watching = self._watching, []
        for watch in watching:
            watch()

    def submit(self, requests: Sequence[Request], done: Callable[[list[Outcome]], None]) -> None:
        """Carry out requests; their outcomes are handed over in order."""
        outcomes = [self._outcome(request) for request in requests]
        self._call(lambda: done(outcomes))

    def _outcome(self, request: Request) -> Outcome:
        if not self._is_connected:
            return Problem.UNAVAILABLE
        self.before(request)
        if isinstance(request, Get | Children) and request.watch is not None:
            request = request._replace(watch=self._once(request.watch))
        changes = not isinstance(request, Get | Children | Sync)
        if changes and self.lose_next:
            if self.lose_next.popleft() == "applied":
                self.server.apply(request, self.session_id)
            return Problem.UNAVAILABLE
        return self.server.apply(request, self.session_id)

    def _once(self, watch: Watch) -> Watch:
        """Return a watch that is called once: by a change, or by the loss of the connection."""

        def call() -> None:
            if not is_called:
                is_called.append(True)
                self._call(watch)

        is_called: list[bool] = []
        self._watching.append(call)
        return call

    def close(self) -> None:
        """End the session."""
        self.is_closed = True
        self._calls.clear()
        self.server.expire(self.session_id)

    def release(self) -> None:
        """Hand over the outcomes that are held, and no longer hold any."""
        self.is_held = False
        self._pump()

    def _call(self, function: Callable[[], None]) -> None:
        if self.is_closed:
            return
        self._calls.append(function)
        self._pump()

    def _pump(self) -> None:
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            while self._calls and not self.is_held:
                self._calls.popleft()()
        finally:
            self._is_pumping = False
