"""Result of a decision: records to append and replies to send.

A handler of the coordinator reads state and returns a :class:`Result`. The runtime appends the records as one batch,
waits until they are durable, replays them into the state and only then sends the replies. When the append fails,
`undo` reverts what the decision had already changed, and the replies carry the error of the log instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.connection import Parts
from kafka_offsets.security.authorizer import ANYBODY, Sender
from kafka_offsets.security.principal import Principal


class CoordinatorRecord(NamedTuple):
    """One record of the offsets topic; `value` None is a tombstone.

    offset_key, entry  `key` and `value` decoded, if the decision has them: the replay of a record that has just been
                       written then need not parse its bytes. The entry has no log offset yet; of a tombstone the
                       entry is None
    """

    key: bytes
    value: bytes | None
    offset_key: tuple[str, str, int] | None = None
    entry: OffsetAndMetadata | None = None


class OversizedValue:
    """Replaces the value of a record that is too large for the log: the record is refused, so the value is not encoded.

    size  lower bound of the value's size, bytes
    """

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


@dataclass(slots=True, eq=False)
class RequestContext:
    """The sender and the version of a request; also the token that connects a reply to its request.

    connection   opaque to the coordinator
    api_key, api_version, correlation_id, client_id: from the request's header; a missing client id is ""
    client_host  the peer's address as DescribeGroups shows it
    request      the decoded request, for the error answer of an append that failed
    codecs       how the answer is encoded, opaque here
    frame_bytes  size of the request's frame
    answer       the encoded response, once there is one; responses are sent in the order of their requests
    sender       who asks, and what it may do
    handler_ns   time that its handler has taken, if it is answered later and a quota needs it
    """

    connection: Any
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    client_host: str
    request: Any = None
    codecs: Any = None
    frame_bytes: int = 0
    answer: bytes | bytearray | Parts | None = None
    handler_ns: int = 0
    sender: Sender = ANYBODY

    @property
    def principal(self) -> Principal:
        """The principal that the listener has given to the sender; ANONYMOUS without authentication."""
        principal: Principal = self.connection.principal
        return principal

    @property
    def is_forwarded(self) -> bool:
        """Whether another broker has passed the request on."""
        return False


class Closing(RequestContext):
    """Takes the place of the context in a reply that closes the connection: the client gets no response."""

    __slots__ = ()

    def __init__(self, connection: Any) -> None:
        super().__init__(connection, -1, 0, 0, "", "")


class Held(RequestContext):
    """The context of a request whose response another function receives before it is sent.

    whole  the original context, which keeps its place in the order of its connection
    take   called once, with the response, or with its bytes if it is already encoded
    """

    __slots__ = ("_take", "whole")

    def __init__(self, whole: RequestContext, request: Any, take: Callable[[Any], None]) -> None:
        self._take: Callable[[Any], None] | None = None
        super().__init__(
            whole.connection,
            whole.api_key,
            whole.api_version,
            whole.correlation_id,
            whole.client_id,
            whole.client_host,
            request,
            whole.codecs,
            whole.frame_bytes,
        )
        self.whole = whole
        self.sender = whole.sender
        self._take = take

    @property
    def principal(self) -> Principal:
        """That of the whole request."""
        return self.whole.principal

    @property
    def is_forwarded(self) -> bool:
        """As the whole request."""
        return self.whole.is_forwarded

    def hand_over(self, response: Any) -> None:
        """Pass the response to `take`; a second response is ignored."""
        take, self._take = self._take, None
        if take is not None:
            take(response)

    @property
    def answer(self) -> bytes | bytearray | Parts | None:
        """Always None: the response is passed on and not kept."""
        return None

    @answer.setter
    def answer(self, response: bytes | bytearray | Parts | None) -> None:
        if response is not None:
            self.hand_over(response)


class Reply(NamedTuple):
    """The response to one request; with a :class:`Closing` it closes one connection.

    response  a value class of the API's response; or the request itself, which means that all of it succeeded, for
              APIs that support this; or the bytes of the response, the size of its frame first; None with a `Closing`
    """

    context: RequestContext
    response: Any


def _nothing() -> None:
    """Revert nothing."""


class Result(NamedTuple):
    """The effects of one decision. Replies are sent only after all records are durable.

    undo   called instead of the replay when the append of the records fails; each reply is then replaced by the
           error response that its API builds from the request
    """

    records: Sequence[CoordinatorRecord] = ()
    replies: Sequence[Reply] = ()
    undo: Callable[[], None] = _nothing


def reply_with(context: RequestContext, response: Any, records: Sequence[CoordinatorRecord] = ()) -> Result:
    """Return the most common result: one reply, and the records that must be durable before it is sent."""
    # This takes half the time of calling the classes, and the most frequent requests pass here.
    new = tuple.__new__
    return new(Result, (records, (new(Reply, (context, response)),), _nothing))


class TransactionalResult(NamedTuple):
    """What a transaction appends to the log of a shard: a separate batch, with the id of its producer.

    records         committed offsets, pending until the marker
    is_commit       None: a batch of records; otherwise the batch is a marker that commits (True) or aborts (False)
    coordinator_epoch  of the transaction coordinator, for a marker
    done            called when the batch is durable and has taken effect, or with the error of the log
    """

    producer_id: int
    producer_epoch: int
    records: Sequence[CoordinatorRecord] = ()
    replies: tuple[Reply, ...] = ()
    is_commit: bool | None = None
    coordinator_epoch: int = 0
    done: Callable[[ErrorCode], None] | None = None

    @property
    def size(self) -> int:
        """The number of log offsets that the batch occupies."""
        return len(self.records) if self.is_commit is None else 1
