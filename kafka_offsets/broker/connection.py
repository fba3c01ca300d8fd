"""What the broker knows of one client's connection. The socket is server.py's, the requests are requests.py's."""

from collections import deque
from typing import Any, NamedTuple

from kafka_offsets.broker.api.row import Api, Codecs
from kafka_offsets.coordinator.result import RequestContext
from kafka_offsets.protocol.connection import FrameReader, Parts


class KnownHeader(NamedTuple):
    """What the header of a request says, but for its correlation id; most requests have that of the one before.

    start, rest  its bytes before and behind the correlation id, `size` in all
    """

    start: bytes
    rest: bytes
    size: int
    api: Api
    version: int
    codecs: Codecs
    client_id: str


class Connection:
    """One client's connection: bytes not yet decoded, requests not yet answered, answers not yet sent.

    peer           for log lines, host the address as group members show it
    output         answers to be sent, `output_bytes` of them
    held_bytes     of large answers in memory, as `ResponseBudget` counts them
    decided_bytes  of the requests in `unanswered`
    pipelined_key  API key of the last of them, if further ones of its kind need not wait for it
    known_header   of its last request
    is_blocked     the peer does not read: no more of its requests are decided for now
    """

    __slots__ = (
        "closing",
        "decided_bytes",
        "held_bytes",
        "host",
        "is_blocked",
        "known_header",
        "last_used_ms",
        "output",
        "output_bytes",
        "owner",
        "peer",
        "pipelined_key",
        "reader",
        "unanswered",
    )

    def __init__(self, peer: str, host: str, max_request_bytes: int, owner: Any = None) -> None:
        self.peer = peer
        self.host = host
        self.reader = FrameReader(max_request_bytes)
        self.unanswered: deque[RequestContext] = deque()
        self.output: list[bytes | bytearray | Parts] = []
        self.output_bytes = 0
        self.held_bytes = 0
        self.decided_bytes = 0
        self.pipelined_key: int | None = None
        self.known_header: KnownHeader | None = None
        self.is_blocked = False
        self.closing = False
        self.last_used_ms = 0
        self.owner = owner

    def release(self) -> None:
        """Close, and keep nothing: a parked request may refer to this connection for minutes.

        The owner refers to it as well. A cycle would wait for Python's garbage collector, which comes rarely.
        """
        self.closing = True
        self.unanswered.clear()
        self.output.clear()
        self.output_bytes = self.decided_bytes = 0
        self.reader.clear()
        self.owner = None

    def take_output(self) -> list[bytes | bytearray]:
        """Take the answers to be sent, in few pieces: large records by themselves, all else joined."""
        pieces: list[bytes | bytearray] = []
        small: list[bytes | bytearray] = []
        for answer in self.output:
            if not isinstance(answer, Parts):
                small.append(answer)
                continue
            for number, piece in enumerate(answer.pieces):
                if number % 2 == 0:
                    small.append(piece)
                else:
                    pieces += b"".join(small), piece
                    small = []
        if small:
            pieces.append(b"".join(small))
        self.output.clear()
        self.output_bytes = 0
        return pieces
