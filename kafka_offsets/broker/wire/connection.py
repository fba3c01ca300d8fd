"""Connection: the state of one client's connection. peer.py has its socket, requests.py handles the requests."""

from collections import deque
from typing import Any, NamedTuple

from kafka_offsets.broker.turn.scheduler import Deadline
from kafka_offsets.broker.wire.api import Api, Apis, Codecs, Shortcut
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.protocol.connection import FrameReader, Parts
from kafka_offsets.security.principal import ANONYMOUS, Principal
from kafka_offsets.security.sasl.authentication import Authentication


class KnownHeader(NamedTuple):
    """A parsed request header without its correlation id; most requests repeat the previous one.

    start, rest  its bytes before and after the correlation id, `size` in all
    shortcut     that of the API, if it serves the connection
    """

    start: bytes
    rest: bytes
    size: int
    api: Api
    version: int
    codecs: Codecs
    client_id: str
    shortcut: Shortcut | None


class ClientConnection:
    """One client's connection: bytes not yet decoded, requests not yet answered, answers not yet sent.

    peer           for log lines; host: the address shown for group members
    listener       the name of the listener that accepted it; "" for a connection of this process
    authentication what it may send, on a listener with SASL; None otherwise
    principal      the peer, as its listener has authenticated it; set before it sends requests that need rights
    output         answers to be sent, `output_bytes` in total
    unsent_bytes   size of large responses in memory, as counted by `ResponseBudget`
    decided_bytes  size of the requests in `unanswered`
    pipelined_key  API key of the last of them, if further requests of this API need not wait for it
    known_header   header of its last request
    apis           its own table of APIs; None for the broker's
    is_blocked     the peer does not read: its further requests are not decided for now
    muted          set while its client is throttled: it is not read until this deadline
    is_exempt      no quota applies to its requests
    fetched        the hash of the partitions of its last Fetch that has waited, and how many for the same ones have
    """

    __slots__ = (
        "apis",
        "authentication",
        "closing",
        "decided_bytes",
        "fetched",
        "host",
        "is_blocked",
        "is_exempt",
        "known_header",
        "last_used_ms",
        "listener",
        "muted",
        "output",
        "output_bytes",
        "owner",
        "peer",
        "pipelined_key",
        "principal",
        "reader",
        "unanswered",
        "unsent_bytes",
    )

    def __init__(self, peer: str, host: str, max_request_bytes: int, owner: Any = None) -> None:
        self.peer = peer
        self.host = host
        self.listener = ""
        self.authentication: Authentication | None = None
        self.principal: Principal = ANONYMOUS
        self.reader = FrameReader(max_request_bytes)
        self.unanswered: deque[RequestContext] = deque()
        self.output: list[bytes | bytearray | Parts] = []
        self.output_bytes = 0
        self.unsent_bytes = 0
        self.decided_bytes = 0
        self.pipelined_key: int | None = None
        self.known_header: KnownHeader | None = None
        self.apis: Apis | None = None
        self.is_blocked = False
        self.muted: Deadline | None = None
        self.is_exempt = False
        self.fetched = 0, 0
        self.closing = False
        self.last_used_ms = 0
        self.owner = owner

    @property
    def client(self) -> tuple[str, str]:
        """Its client id, "" if that is not known, and its address."""
        return "" if self.known_header is None else self.known_header.client_id, self.peer

    @property
    def has_left(self) -> bool:
        """Whether it is closed, or its peer has closed it: what it has sent before that is read first."""
        return self.closing or (self.owner is not None and bool(self.owner.has_left()))

    def release(self) -> None:
        """Close, and keep nothing: a parked request may refer to this connection for minutes.

        The owner refers to it too. A reference cycle would stay until Python's garbage collector runs, which is rare.
        """
        self.closing = True
        if self.muted is not None:
            self.muted.cancel()
        self.unanswered.clear()
        self.output.clear()
        self.output_bytes = self.decided_bytes = 0
        self.reader.clear()
        self.owner = None

    def take_output(self) -> list[bytes | bytearray]:
        """Return and clear the output, in few pieces: large records separately, everything else joined."""
        output, self.output = self.output, []
        self.output_bytes = 0
        try:
            return [b"".join(output)] if output else []  # type: ignore[arg-type]  # Parts are the exception
        except TypeError:
            return _joined_around_records(output)


def _joined_around_records(output: list[bytes | bytearray | Parts]) -> list[bytes | bytearray]:
    """Return the pieces of an output that has answers in parts: every second piece of these is records."""
    pieces: list[bytes | bytearray] = []
    small: list[bytes | bytearray] = []
    for response in output:
        if not isinstance(response, Parts):
            small.append(response)
            continue
        for number, piece in enumerate(response.pieces):
            if number % 2 == 0:
                small.append(piece)
            else:
                pieces += b"".join(small), piece
                small = []
    if small:
        pieces.append(b"".join(small))
    return pieces
