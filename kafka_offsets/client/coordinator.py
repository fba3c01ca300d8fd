"""Coordinator of a group: finds it, retries while it is not ready, and reads and changes its offsets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from kafka_offsets.assignors.member_data import decode_subscription
from kafka_offsets.client import commits
from kafka_offsets.client.connection import Address, Connection
from kafka_offsets.client.retries import RETRIABLE, Retries, is_retriable
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity
from kafka_offsets.errors import (
    ConnectionLostError,
    ErrorCode,
    KafkaOffsetsError,
    ProtocolError,
    RefusedError,
    error_code_of,
)
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition

_FIND_VERSION, _FETCH_VERSION, DESCRIBE_VERSION, _DELETE_VERSION = 3, 7, 5, 1
CONSUMER_GROUP_DESCRIBE = 69
NOT_DESCRIBED = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
"""Errors of ConsumerGroupDescribe for a group that DescribeGroups may describe: it is classic, or all groups are."""

T = TypeVar("T")


class Committed(NamedTuple):
    """A committed offset with the client's metadata."""

    offset: int
    metadata: str


class Offsets(NamedTuple):
    """The committed offsets of a group, and the leader epoch of the record before each, where the client gave it."""

    committed: Mapping[TopicPartition, Committed]
    epochs: Mapping[TopicPartition, int]


class Member(NamedTuple):
    """A member of a group with its assignment, which is known only for groups of consumers.

    epoch, target  of members of the consumer protocol: their epoch, and what they are to be assigned
    topics, pattern  what it subscribes to; None: not known
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: frozenset[TopicPartition]
    epoch: int | None = None
    target: frozenset[TopicPartition] | None = None
    topics: frozenset[str] | None = None
    pattern: str = ""


class Description(NamedTuple):
    """A group; if it does not exist, `state` is Dead and the type is empty.

    epoch, target_epoch  of a group of the consumer protocol: its epoch, and that of its target assignment
    """

    type: str
    state: str
    protocol: str
    members: tuple[Member, ...]
    epoch: int | None = None
    target_epoch: int | None = None


class Coordinator:
    """The coordinator of one group.

    bootstrap  host and port of any broker
    timeout_s  for connecting, for each response, and for failures that pass
    security   TLS and SASL
    others     further brokers, tried in turn
    retries    shared with other connections; default: its own, of `timeout_s`
    address, node_id  of the coordinator
    Raises ConnectionLostError and RefusedError.
    """

    def __init__(
        self,
        bootstrap: Address,
        group: str,
        timeout_s: float = 30.0,
        security: ClientSecurity = PLAINTEXT,
        others: Sequence[Address] = (),
        retries: Retries | None = None,
    ) -> None:
        self.group = group
        self.address, self.node_id = "", -1
        self._addresses = bootstrap, *others
        self._timeout_s, self._security = timeout_s, security
        self._retries = retries or Retries(timeout_s)
        self._connection: Connection | None = None
        self._retrying(self._connected)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        """Return the connection to the coordinator; find it if it is not known, or has moved."""
        if self._connection is not None and self._connection.is_over:
            self.close()
        if self._connection is None:
            with self._retries.connection_to_any(self._addresses, self._timeout_s, self._security) as broker:
                coordinator = broker.call(messages.FindCoordinatorRequest(self.group, 0), _FIND_VERSION)
            if coordinator.error_code:
                raise RefusedError(f"coordinator of group {self.group}", coordinator.error_code)
            home = coordinator.host, coordinator.port
            if self._addresses != (home,):
                self._retries.note_answer()
            self.address, self.node_id = f"{coordinator.host}:{coordinator.port}", coordinator.node_id
            self._connection = self._retries.connection(home, self._timeout_s, self._security)
        return self._connection

    def _retrying(
        self, attempt: Callable[[], T], passes: Callable[[KafkaOffsetsError], bool] = is_retriable
    ) -> T:
        """Repeat what fails for a reason that passes, each time with the coordinator of that moment."""
        return self._retries.call(attempt, lambda error: self.close(), passes=passes)

    def committed(
        self, refused: dict[TopicPartition, ErrorCode] | None = None
    ) -> dict[TopicPartition, Committed]:
        """Return all committed offsets of the group; none for a group that does not exist.

        refused  gets the error of each partition whose offset the coordinator does not give; without it the first one
                 is raised as RefusedError
        """
        return dict(self.offsets(refused).committed)

    def offsets(self, refused: dict[TopicPartition, ErrorCode] | None = None) -> Offsets:
        """Return the committed offsets of the group, and their leader epochs; `refused` as for `committed`."""

        def attempt() -> Offsets:
            """Fetch the offsets. Raises RefusedError."""
            request = messages.OffsetFetchRequest(self.group, None)
            return offsets_of(self.group, self._connected().call(request, _FETCH_VERSION), refused)

        return self._retrying(attempt)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        expected: Mapping[TopicPartition, int | None],
        metadata: str = "",
    ) -> None:
        """Commit offsets from outside the group; see `commits`. Raises CommitRefusedError as well."""
        request = commits.request(self.group, offsets, expected, metadata)

        def attempt() -> None:
            """Commit. Raises CommitRefusedError."""
            commits.check(self.group, self._connected().call(request, commits.VERSION), expected)

        def passes(error: KafkaOffsetsError) -> bool:
            """Whether to commit again: not if a commit with conditions, which are unmet then, may have been made."""
            return is_retriable(error) and not (expected and isinstance(error, ConnectionLostError))

        self._retrying(attempt, passes)

    def describe(self) -> Description:
        """Return state and members of the group."""
        return self._retrying(self._describe)

    def _describe(self) -> Description:
        if self._connected().latest_version(CONSUMER_GROUP_DESCRIBE) >= 0:
            response = self._ask(messages.ConsumerGroupDescribeRequest([self.group]), 0, "groups")
            if not response.error_code:
                return consumer_group(response)
            if response.error_code not in NOT_DESCRIBED:
                raise RefusedError(f"group {self.group}", response.error_code)
        response = self._ask(messages.DescribeGroupsRequest([self.group]), DESCRIBE_VERSION, "groups")
        if response.error_code:
            raise RefusedError(f"group {self.group}", response.error_code)
        return classic_group(response)

    def delete(self) -> None:
        """Delete the group with its offsets."""

        def attempt() -> None:
            """Delete. Raises RefusedError."""
            response = self._ask(messages.DeleteGroupsRequest([self.group]), _DELETE_VERSION, "results")
            if response.error_code:
                raise RefusedError(f"group {self.group}", response.error_code)

        self._retrying(attempt)

    def delete_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Delete offsets of topics that no member subscribes to; return the error code of each partition."""
        made = messages.OffsetDeleteRequest
        topics: dict[str, messages.OffsetDeleteRequest.Topic] = {}
        for name, index in partitions:
            topics.setdefault(name, made.Topic(name)).partitions.append(made.Partition(index))
        response = self._call(made(self.group, list(topics.values())), 0, f"group {self.group}")
        return {
            (topic.name, partition.partition_index): error_code_of(partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        }

    def _call(self, request: messages.MessageValue, version: int, what: str) -> Any:
        """Return the response to a request, which has an error code. RefusedError names `what`."""

        def attempt() -> Any:
            """Send the request. Raises RefusedError."""
            response = self._connected().call(request, version)
            if response.error_code:
                raise RefusedError(what, response.error_code)
            return response

        return self._retrying(attempt)

    def _ask(self, request: messages.MessageValue, version: int, field: str) -> Any:
        """Send a request about this group alone, once; return its result in the response."""
        (result,) = getattr(self._connected().call(request, version), field)
        return result


def offsets_of(group: str, answer: Any, refused: dict[TopicPartition, ErrorCode] | None) -> Offsets:
    """Return the offsets that a response has for a group.

    refused  gets the error of a partition that lasts; without it, and for one that passes, RefusedError is raised
    """
    if answer.error_code:
        raise RefusedError(f"offsets of group {group}", answer.error_code)
    committed: dict[TopicPartition, Committed] = {}
    epochs: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            topic_partition = topic.name, partition.partition_index
            if partition.error_code:
                code = error_code_of(partition.error_code)
                if refused is None or code in RETRIABLE:
                    raise RefusedError(
                        f"offset of {topic_partition[0]}-{topic_partition[1]} of group {group}",
                        partition.error_code,
                    )
                refused[topic_partition] = code
            elif partition.committed_offset >= 0:
                committed[topic_partition] = Committed(partition.committed_offset, partition.metadata or "")
                if partition.committed_leader_epoch >= 0:
                    epochs[topic_partition] = partition.committed_leader_epoch
    return Offsets(committed, epochs)


def consumer_group(group: messages.ConsumerGroupDescribeResponse.DescribedGroup) -> Description:
    """Return what a response tells of a group of the consumer protocol."""
    members = []
    for member in group.members:
        assigned, target = (
            frozenset(
                (topic.topic_name, index)
                for topic in assignment.topic_partitions
                for index in topic.partitions
            )
            for assignment in (member.assignment, member.target_assignment)
        )
        head = member.member_id, member.instance_id, member.client_id, member.client_host
        names, pattern = frozenset(member.subscribed_topic_names), member.subscribed_topic_regex or ""
        members.append(Member(*head, assigned, member.member_epoch, target, names, pattern))
    return Description(
        "consumer",
        group.group_state,
        group.assignor_name,
        tuple(members),
        group.group_epoch,
        group.assignment_epoch,
    )


def classic_group(group: messages.DescribeGroupsResponse.DescribedGroup) -> Description:
    """Return what a response tells of a classic group."""
    is_consumers = group.protocol_type == "consumer"
    members = []
    for member in group.members:
        assigned = _assigned(member.member_assignment) if is_consumers else frozenset()
        topics = _subscribed(member.member_metadata) if is_consumers else None
        head = member.member_id, member.group_instance_id, member.client_id, member.client_host
        members.append(Member(*head, assigned, topics=topics))
    return Description(
        "" if group.group_state == "Dead" else "classic",
        group.group_state,
        group.protocol_data,
        tuple(members),
    )


def _subscribed(metadata: bytes) -> frozenset[str] | None:
    """Parse a consumer's subscription, which is known of a stable group."""
    try:
        return decode_subscription("", metadata, None).topics if metadata else None
    except ProtocolError:
        return None  # the format of another library


def _assigned(assignment: bytes) -> frozenset[TopicPartition]:
    """Parse a consumer's assignment; version 0 is a prefix of every later version."""
    if not assignment:
        return frozenset()
    try:
        decoded, _ = messages.decode(messages.ConsumerProtocolAssignment, assignment, 0, 2)
    except ProtocolError:
        return frozenset()  # the format of another library; the assignment is not known
    return frozenset(
        (topic.topic, index) for topic in decoded.assigned_partitions for index in topic.partitions
    )
