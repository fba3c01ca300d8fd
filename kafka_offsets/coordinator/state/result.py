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


class Receiver:
    """Receives the response to a request, or to a part of one, instead of its connection.

    accept     called once, with the response, or with its bytes if it is already encoded; a second one is ignored
    refuse     called instead with the error of a part; None: `accept` gets the error response of the API
    principal  the client's, if another broker has passed its request on
    """

    __slots__ = ("_accept", "principal", "refuse")

    def __init__(
        self,
        accept: Callable[[Any], None],
        refuse: Callable[[ErrorCode], None] | None = None,
        principal: Principal | None = None,
    ) -> None:
        self._accept: Callable[[Any], None] | None = accept
        self.refuse = refuse
        self.principal = principal

    def hand_over(self, response: Any) -> None:
        """Pass the response on."""
        accept, self._accept = self._accept, None
        if accept is not None:
            accept(response)


CLOSE = Receiver(lambda response: None)
"""In the context of a reply that closes the connection: the client gets no response."""


@dataclass(slots=True, eq=False)
class RequestContext:
    """The sender and the version of a request; also the token that connects a reply to its request.

    connection   opaque to the coordinator
    api_key, api_version, correlation_id, client_id: from the request's header; a missing client id is ""
    client_host  the peer's address as DescribeGroups shows it
    request      the decoded request, for the error response of an append that failed
    codecs       how the response is encoded, opaque here
    frame_bytes  size of the request's frame
    encoded      the response in bytes, once there is one; responses are sent in the order of their requests
    sender       who asks, and what it may do
    handler_ns   time that its handler has taken, if it is answered later and a quota needs it
    receiver     gets the response instead of the connection
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
    encoded: bytes | bytearray | Parts | None = None
    handler_ns: int = 0
    sender: Sender = ANYBODY
    receiver: Receiver | None = None

    @property
    def principal(self) -> Principal:
        """The principal that the listener has given to the sender; ANONYMOUS without authentication."""
        if self.receiver is not None and self.receiver.principal is not None:
            return self.receiver.principal
        principal: Principal = self.connection.principal
        return principal

    @property
    def is_forwarded(self) -> bool:
        """Whether another broker has passed the request on."""
        return self.receiver is not None and self.receiver.principal is not None

    def received_by(
        self, request: Any, accept: Callable[[Any], None], refuse: Callable[[ErrorCode], None] | None = None
    ) -> "RequestContext":
        """Return the context of a request that replaces this one, or of a part of it: `accept` gets its response.

        This context keeps its place in the order of its connection.
        """
        principal = None if self.receiver is None else self.receiver.principal
        return RequestContext(
            self.connection,
            self.api_key,
            self.api_version,
            self.correlation_id,
            self.client_id,
            self.client_host,
            request,
            self.codecs,
            self.frame_bytes,
            sender=self.sender,
            receiver=Receiver(accept, refuse, principal),
        )


def closing(connection: Any) -> RequestContext:
    """Return what takes the place of a request's context in a reply that closes a connection."""
    return RequestContext(connection, -1, 0, 0, "", "", receiver=CLOSE)


class Reply(NamedTuple):
    """The response to one request; with a `closing` context it closes one connection.

    response  a value class of the API's response; or the request itself, which means that all of it succeeded, for
              APIs that support this; or the bytes of the response, the size of its frame first; None with a
              `closing` context
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
