"""Result of a decision: records to append and replies to send.

A handler of the coordinator reads state and returns a :class:`Result`. The runtime appends the records as one batch,
waits until they are durable, replays them into the state and only then lets the replies go. When the append fails,
`undo` takes back what the decision had already changed and the replies carry the error of the log instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_offsets.coordinator.offsets.table import OffsetAndMetadata
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.connection import Parts


class Record(NamedTuple):
    """One record of the offsets topic; `value` None is a tombstone.

    offset_key, entry  what `key` and `value` say, where the decision has it at hand and the replay of a record that has
                       just been written need not read it back; the entry's log offset is not known yet, and that of
                       a tombstone is None
    """

    key: bytes
    value: bytes | None
    offset_key: tuple[str, str, int] | None = None
    entry: OffsetAndMetadata | None = None


class OversizedValue:
    """Stands for the value of a record that is larger than the log takes: it is refused for its size, and not encoded.

    size  at least so many bytes
    """

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


@dataclass(slots=True, eq=False)
class RequestContext:
    """Who asks, and in which version: also the token by which an answer finds its request.

    connection   opaque to the coordinator
    api_key, api_version, correlation_id, client_id: from the request's header; a missing client id is ""
    client_host  the peer's address as DescribeGroups shows it
    request      the decoded request, for the error answer of an append that failed
    codecs       how the answer is encoded, opaque here
    frame_bytes  size of the request's frame
    answer       the encoded response, once there is one; answers leave in the order of their requests
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


class Closing(RequestContext):
    """Stands in a reply for a connection that is closed: what its client learns from it is all of the answer."""

    __slots__ = ()

    def __init__(self, connection: Any) -> None:
        super().__init__(connection, -1, 0, 0, "", "")


class Held(RequestContext):
    """Stands for a request whose answer goes through somebody's hands before it leaves.

    whole  the context that waits in its connection's order
    take   called once, with the response or, where an answer comes encoded, with its bytes
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
        )
        self.whole = whole
        self._take = take

    def hand_over(self, answer: Any) -> None:
        """Give the answer away; a second one counts for nothing."""
        take, self._take = self._take, None
        if take is not None:
            take(answer)

    @property
    def answer(self) -> bytes | bytearray | Parts | None:
        """None: an answer does not stay here."""
        return None

    @answer.setter
    def answer(self, answer: bytes | bytearray | Parts | None) -> None:
        if answer is not None:
            self.hand_over(answer)


class Reply(NamedTuple):
    """The answer to one request, or with a :class:`Closing` the end of one connection.

    response  a value class of the API's response; or, where the API has that, the request itself: all of it is done;
              None of a `Closing`
    """

    context: RequestContext
    response: Any


def _nothing() -> None:
    """Take nothing back."""


class Result(NamedTuple):
    """What one decision asks for. Replies leave only after all records are durable.

    undo   called when the append of the records fails, in place of their replay; each reply is then replaced by
           what the `fail` of its API makes of its request
    """

    records: Sequence[Record] = ()
    replies: tuple[Reply, ...] = ()
    undo: Callable[[], None] = _nothing


def reply_with(context: RequestContext, response: Any, records: Sequence[Record] = ()) -> Result:
    """Return the result of most decisions: one reply, and what must be durable before it."""
    # Half the time of calling the classes, for each of the requests that come most often.
    new = tuple.__new__
    return new(Result, (records, (new(Reply, (context, response)),), _nothing))


class TransactionalResult(NamedTuple):
    """What a transaction asks of the log of a shard: a batch of its own, of its producer.

    records         committed offsets, which wait for the marker
    is_commit       None for records; else the batch is a marker, without records, which commits or aborts
    coordinator_epoch  of the transaction coordinator, for a marker
    done            called when the batch is durable and has taken effect, or with the error of the log
    """

    producer_id: int
    producer_epoch: int
    records: Sequence[Record] = ()
    replies: tuple[Reply, ...] = ()
    is_commit: bool | None = None
    coordinator_epoch: int = 0
    done: Callable[[ErrorCode], None] | None = None

    @property
    def size(self) -> int:
        """How many offsets the batch takes."""
        return len(self.records) if self.is_commit is None else 1
