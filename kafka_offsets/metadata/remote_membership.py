"""Remote membership: the `ClusterMembership` of a broker whose controller is in another process.

It knows no sockets: a link passes messages to it and sends what it is given. `controller_service` has the messages. A
handler that changes topics or settings waits for the response, and with it the broker, for a limited time. The changes
that come before the response are made first.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from kafka_offsets.errors import ErrorCode, ProtocolError, StorageError, error_code_of
from kafka_offsets.metadata import remote_requests
from kafka_offsets.metadata.controller import PlacedTopic
from kafka_offsets.metadata.image import Address, ClusterImage, Delta, TopicPartition
from kafka_offsets.metadata.json_form import (
    Fields,
    Json,
    decode_delta,
    decode_image,
    decode_topic_partition,
    from_json,
    to_json,
)
from kafka_offsets.metadata.membership import Decided, OnChange
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.replication.elections import IsrProposal

T = TypeVar("T")


class Link(Protocol):
    """A connection to the controller."""

    def send(self, message: bytes) -> None:
        """Send a message, in order. A link that is lost calls `RemoteMembership.lost`, later or in `wait`."""
        ...

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Receive messages until `is_done`; lose the connection if that takes too long. Returns when it is lost."""
        ...

    def probe(self) -> None:
        """Send a heartbeat; lose the connection if nothing is received for as long as `wait` may take."""
        ...

    def answered(self) -> None:
        """Record that the controller has answered the oldest heartbeat without a response."""
        ...

    @property
    def may_be_fenced(self) -> bool:
        """Whether the last heartbeat that was answered was sent longer ago than the session of the broker lasts."""
        ...

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back when the broker is between two requests; a ProtocolError loses the connection."""
        ...


class RemoteMembership:
    """One broker's part in the metadata.

    incarnation  differs for each process of this broker
    """

    def __init__(self, broker_id: int, incarnation: str) -> None:
        self.broker_id = broker_id
        self.image = ClusterImage()
        self.on_change: OnChange = lambda delta: None
        self._incarnation = incarnation
        self._has_registered = False
        self._link: Link | None = None
        self._left = False
        self._number = 0
        self._deciding: dict[int, Decided] = {}
        self._answers: dict[int, Fields | None] = {}
        self._is_changing = self._is_holding = False
        self._held: deque[Fields] = deque()
        self._undecided: list[Callable[[], None]] = []

    def registration(
        self,
        cluster_id: str,
        host: str,
        port: int,
        *,
        was_clean: bool,
        listeners: Mapping[str, Address] | None = None,
    ) -> bytes:
        """Return the first message of a link.

        listeners  the address of each listener by its name; None: there is only the first
        was_clean  whether this broker's files are those of a stop in order; a process that registers again has lost
                   nothing
        """
        return to_json(
            {
                "register": {
                    "id": self.broker_id,
                    "host": host,
                    "port": port,
                    "listeners": listeners or {},
                    "was_clean": was_clean or self._has_registered,
                    "incarnation": self._incarnation,
                    "cluster_id": cluster_id,
                }
            }
        )

    @property
    def is_reachable(self) -> bool:
        """Whether this broker reaches the controller and takes part in the cluster."""
        return self._link is not None

    @property
    def may_be_fenced(self) -> bool:
        """Whether the controller may have fenced this broker: its session has ended, or it is not reached."""
        return self._link is None or self._link.may_be_fenced

    # -- what the link does

    def receive(self, link: Link, message: bytes) -> None:
        """Do what a message of the controller requires. Raises ProtocolError: the link closes the connection."""
        try:
            fields = Fields(from_json(message), "message")
            if self._is_holding and not self._is_answer(fields):
                self._held.append(fields)
                return
            self._make_held_changes()
            self._do(link, fields)
        except ValueError as error:
            raise ProtocolError(str(error)) from error

    def _do(self, link: Link, fields: Fields) -> None:
        if "delta" in fields:
            self._change(decode_delta(fields.value("delta")))
        elif "answer" in fields:
            self._answered(fields)
        elif "image" in fields:
            self._admitted(link, decode_image(fields.value("image")))
        elif "left" in fields:
            self._left = True
        elif "refused" in fields:
            raise ValueError(f"the controller refuses this broker: {fields.text('refused')}")
        elif "heartbeat" in fields:
            link.answered()
            self._decide_soon(link)
        else:
            raise ValueError("message: it is of no known kind")

    def _is_answer(self, fields: Fields) -> bool:
        """Whether a message is the response to a request during which the broker waits."""
        return "answer" in fields and fields.number("answer", 0) in self._answers

    def make_held_changes(self) -> None:
        """Do what came while changes were held. Raises ProtocolError, as `receive`."""
        try:
            self._make_held_changes()
        except ValueError as error:
            raise ProtocolError(str(error)) from error

    def _make_held_changes(self) -> None:
        while self._held and self._link is not None and not self._is_holding:
            self._do(self._link, self._held.popleft())

    def _admitted(self, link: Link, image: ClusterImage) -> None:
        """Take part, and make all changes since the last message of an earlier connection."""
        self._link, self._has_registered = link, True
        self._change(image.since(self.image))

    def _change(self, delta: Delta) -> None:
        try:
            self.image.apply(delta)
        except LookupError as error:
            raise ValueError(f"delta: a topic or partition does not exist: {error}") from error
        self._is_changing = True
        try:
            if delta:
                self.on_change(delta)
        finally:
            self._is_changing = False

    def _answered(self, fields: Fields) -> None:
        number = fields.number("answer", 0)
        if number in self._deciding:
            error = ErrorCode.NETWORK_EXCEPTION if "failed" in fields else _error_of(fields)
            self._deciding.pop(number)(error)
        elif number in self._answers:
            self._answers[number] = fields
        else:
            raise ValueError(f"message: {number} was not requested")

    def when_answering(self, decide: Callable[[], None]) -> None:
        """Call back once the controller answers, or the connection is lost."""
        if self._link is None:
            decide()
            return
        self._undecided.append(decide)
        self._link.probe()

    def _decide_soon(self, link: Link) -> None:
        undecided, self._undecided = self._undecided, []
        for decide in undecided:
            link.soon(decide)

    def lost(self) -> None:
        """Record that the connection is lost: proposals without a response fail."""
        if self._link is not None:
            self._decide_soon(self._link)
        self._link = None
        self._held.clear()  # the image that follows a registration has it
        deciding, self._deciding = self._deciding, {}
        for decided in deciding.values():
            decided(ErrorCode.NETWORK_EXCEPTION)

    # -- requests

    def _send(self, link: Link, name: str, fields: Json) -> int:
        self._number += 1
        link.send(to_json({"request": name, "number": self._number, **fields}))
        return self._number

    def _request(
        self, name: str, fields: Callable[[], Json], parse: Callable[[Fields], T], *, holds: bool = False
    ) -> T:
        """Return what `parse` finds in the response to a request.

        StorageError if there is no response, if it is wrong, or if nothing has changed.
        parse  raises ValueError for a wrong answer: the connection is lost, but not before the present request of a
               client is decided
        holds  changes that come before the response are made after the present request of a client
        """
        link = self._link
        if link is None or self._is_changing:
            raise self._unreachable()
        number = self._send(link, name, fields())
        self._answers[number] = None
        self._is_holding = holds
        try:
            link.wait(lambda: self._answers[number] is not None)
        finally:
            self._is_holding = False
            response = self._answers.pop(number)
            if self._held:
                link.soon(self.make_held_changes)
        if response is None:
            raise self._unreachable()
        try:
            if "failed" in response:
                raise StorageError(response.text("failed"), "the metadata")
            return parse(response)
        except ValueError as error:
            reason = f"answer to {name} is wrong: {error}"
            link.soon(partial(_refuse, f"the {reason}"))
            raise StorageError(f"the controller's {reason}", "the metadata") from error

    def _unreachable(self) -> StorageError:
        return StorageError(f"broker {self.broker_id} does not reach the controller", "the metadata")

    def leave(self) -> None:
        """Let other brokers lead what this one leads, before it stops; nothing happens if the controller is lost."""
        if self._link is not None:
            self._link.send(to_json({"leave": True}))
            self._link.wait(lambda: self._left)

    def alter_isr(self, topic_partition: TopicPartition, proposal: IsrProposal, decided: Decided) -> None:
        """Propose in-sync replicas; `decided` is called when the controller has answered, or the link is lost."""
        if self._link is None:
            decided(ErrorCode.NETWORK_EXCEPTION)
            return
        number = self._send(self._link, "alter_isr", remote_requests.alter_isr(topic_partition, proposal))
        self._deciding[number] = decided

    def resign(self) -> None:
        """Ask to be left out of every ISR that has another live replica; nothing happens if the link is lost."""
        if self._link is not None:
            # Whoever wants it looks at the metadata, and asks again.
            self._deciding[self._send(self._link, "resign", {})] = lambda error: None

    def create(self, topics: Iterable[PlacedTopic]) -> None:
        """Create topics that do not exist."""
        self._request("create", lambda: remote_requests.create(topics), _nothing)

    def grow(self, added: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """Add partitions to topics."""
        self._request("grow", lambda: remote_requests.grow(self.image, added), _nothing)

    def delete(self, names: Iterable[str]) -> None:
        """Delete topics."""
        self._request("delete", lambda: remote_requests.delete(self.image, names), _nothing)

    def configure(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configurations of a topic."""
        self._request("configure", lambda: remote_requests.configure(self.image, name, configs), _nothing)

    def reassign(self, topic_partition: TopicPartition, replicas: Sequence[int] | None) -> ErrorCode:
        """Begin to move a partition to other replicas, or with None cancel that."""
        return self._request(
            "reassign", lambda: remote_requests.reassign(topic_partition, replicas), _error_of
        )

    def elect(
        self, topic_partitions: Iterable[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Elect leaders, as `Controller.elect`."""
        partitions = list(topic_partitions)

        def read(response: Fields) -> dict[TopicPartition, ErrorCode]:
            errors = [Fields(form, "error") for form in response.many("errors")]
            errors_by_partition = {decode_topic_partition(error): _error_of(error) for error in errors}
            if errors_by_partition.keys() != {*partitions}:
                response.fail("errors", "one of each partition")
            return errors_by_partition

        return self._request("elect", lambda: remote_requests.elect(partitions, unclean=unclean), read)

    def unregister(self, broker_id: int) -> ErrorCode:
        """Remove a broker that does not come back, as `Controller.unregister`."""
        return self._request("unregister", lambda: remote_requests.unregister(broker_id), _error_of)

    def allocate_producer_ids(self) -> range:
        """Return a block of producer ids that no broker was ever given before.

        A coordinator requests it in the middle of a decision: what it leads must not change in the meantime.
        """

        def read(response: Fields) -> range:
            first = response.number("first", 0)
            return range(first, response.number("end", first + 1))

        return self._request("allocate_producer_ids", dict, read, holds=True)

    def alter_settings(self, changes: ClusterSettings) -> None:
        """Change settings of groups, users and clients; an empty value removes one."""
        self._request("alter_settings", lambda: remote_requests.alter_settings(changes), _nothing)


def _nothing(response: Fields) -> None:
    """Read a response that has no fields."""


def _refuse(reason: str) -> None:
    raise ProtocolError(reason)


def _error_of(fields: Fields) -> ErrorCode:
    return error_code_of(fields.number("error", -1))
