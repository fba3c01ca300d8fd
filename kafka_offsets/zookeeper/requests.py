"""Requests to ZooKeeper and their outcomes: the few operations that are used, as values.

A caller submits several requests at once. They are carried out in their order; the outcomes come together.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

ANY_VERSION = -1


Watch = Callable[[], None]
"""Called once: after the next change of what was read, or when the connection is lost."""


class Get(NamedTuple):
    """Read a znode: a :class:`Znode`, or NO_NODE, which sets no watch."""

    path: str
    watch: Watch | None = None


class Children(NamedTuple):
    """List the names of a znode's children: a tuple, or NO_NODE, which sets no watch."""

    path: str
    watch: Watch | None = None


class Sync(NamedTuple):
    """See in later reads whatever was written before, by anybody; done without a value: None."""

    path: str


class Create(NamedTuple):
    """Create a znode.

    is_ephemeral  whether it ends with the session of this client
    """

    path: str
    data: bytes
    is_ephemeral: bool = False


class SetData(NamedTuple):
    """Replace the data of a znode that has this version."""

    path: str
    data: bytes
    version: int


class Delete(NamedTuple):
    """Delete a znode that has this version, and no children."""

    path: str
    version: int


class Check(NamedTuple):
    """Change nothing, but let the whole Multi fail if a znode has another version."""

    path: str
    version: int


Change = Create | SetData | Delete | Check


class Multi(NamedTuple):
    """Make all changes or none: the new version of each znode, 0 for a deleted or checked one, or the first problem."""

    changes: tuple[Change, ...]


Request = Get | Children | Sync | Multi


class Znode(NamedTuple):
    """The content of a znode.

    version      counts its changes; begins again at 0 when it is created again
    modified_ms  wall time of the server at the last change
    owner        the session of an ephemeral znode; 0 for a persistent one
    """

    data: bytes
    version: int
    modified_ms: int
    owner: int = 0


class Problem(Enum):
    """Why a request had no effect. Of a Multi the first four mean: another client has changed the znodes.

    UNAVAILABLE  no response: ZooKeeper cannot be reached, or the connection was lost. Changes may have been made.
    REFUSED      any other error; nothing was changed
    """

    NO_NODE = auto()
    NODE_EXISTS = auto()
    BAD_VERSION = auto()
    NOT_EMPTY = auto()
    REFUSED = auto()
    UNAVAILABLE = auto()


Outcome = Znode | tuple[str, ...] | tuple[int, ...] | Problem | None


class SessionState(Enum):
    """The state of the session with ZooKeeper; EXPIRED is followed by CONNECTED in a new session."""

    CONNECTED = auto()
    DISCONNECTED = auto()
    EXPIRED = auto()


class ZooKeeper(Protocol):
    """One client of ZooKeeper. It calls back in the thread that uses it."""

    @property
    def session_id(self) -> int:
        """The number of the session, 0 before the first one."""
        ...

    def start(self, on_state: Callable[[SessionState], None]) -> None:
        """Connect, and stay connected; report each change of the state."""
        ...

    def submit(self, requests: Sequence[Request], done: Callable[[list[Outcome]], None]) -> None:
        """Send requests, and call `done` with their outcomes."""
        ...

    def close(self) -> None:
        """End the session; nothing is called back afterwards."""
        ...
