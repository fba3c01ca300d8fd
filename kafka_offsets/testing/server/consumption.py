"""Consumption: which connection fetches which partition, and from which offset, since the partition was assigned to it.

A Fetch names no group. Its connection has a client id and an address, and so has a member of a group. When a member
receives an assignment, earlier fetches by its client id from its address no longer count, except for the partitions
that it says it has kept (KIP-429, KIP-848): a consumer forgets its position in all others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kafka_offsets.assignors.member_data import decode_assignment, decode_subscription
from kafka_offsets.coordinator.state.classic_group import CONSUMER
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.topic_partition import TopicPartition

_Places = dict[tuple[str, str], frozenset[TopicPartition]]
"""(group, member) -> partitions."""

_JOIN_GROUP, _LEAVE_GROUP, _SYNC_GROUP, _CONSUMER_GROUP_HEARTBEAT = 11, 13, 14, 68

_MOST_LEFT = 1000
"""Limit of the groups of which the last member that left is known."""


class Reader(NamedTuple):
    """Who fetches, as a Fetch and a member of a group tell it."""

    client_id: str
    client_host: str

    def __str__(self) -> str:
        return f"{self.client_id!r} at {self.client_host}"


class Consumption:
    """What the open connections to a broker, or to all nodes of a cluster, have fetched.

    _positions  by connection: its reader, and the offset of its last Fetch of each partition that was no error
    _firsts     by connection: the offset of its first Fetch of each of these partitions
    last_left   by group: the last member that left, and its first and last Fetch of each of its partitions
    """

    def __init__(self) -> None:
        self._positions: dict[object, tuple[Reader, dict[TopicPartition, int]]] = {}
        self._firsts: dict[object, dict[TopicPartition, int]] = {}
        self.last_left: dict[str, tuple[Reader, dict[TopicPartition, tuple[int, int]]]] = {}

    def fetched(self, connection: object, reader: Reader, positions: Mapping[TopicPartition, int]) -> None:
        """Record what a connection fetches."""
        known_positions = self._positions.setdefault(connection, (reader, {}))[1]
        if not positions.keys() <= known_positions.keys():
            firsts = self._firsts.setdefault(connection, {})
            firsts.update(
                (partition, offset)
                for partition, offset in positions.items()
                if partition not in known_positions
            )
        known_positions.update(positions)

    def assigned(self, reader: Reader, places: Collection[TopicPartition]) -> None:
        """Forget earlier fetches of partitions that are new to a member."""
        for known_reader, positions in self._positions.values():
            if known_reader == reader:
                for partition in places:
                    positions.pop(partition, None)

    def left(self, connection: object) -> None:
        """Forget a connection that has closed."""
        self._positions.pop(connection, None)
        self._firsts.pop(connection, None)

    def left_group(self, group: str, reader: Reader, places: Collection[TopicPartition]) -> None:
        """Keep what a member has fetched of its partitions when it leaves."""
        positions: dict[Reader, dict[TopicPartition, tuple[int, int]]] = {}
        self.add_positions(
            (
                connection
                for connection, (known_reader, _) in self._positions.items()
                if known_reader == reader
            ),
            positions,
        )
        read = positions.get(reader, {})
        self.last_left.pop(group, None)
        self.last_left[group] = (
            reader,
            {partition: read[partition] for partition in sorted(places) if partition in read},
        )
        if len(self.last_left) > _MOST_LEFT:
            del self.last_left[next(iter(self.last_left))]

    def connections(self) -> list[object]:
        """Return the connections that fetch."""
        return list(self._positions)

    def add_positions(
        self, connections: Iterable[object], found: dict[Reader, dict[TopicPartition, tuple[int, int]]]
    ) -> None:
        """Add the offsets of the first and the last Fetch of each partition, by client, of connections still open."""
        for connection in connections:
            if connection not in self._positions:
                continue
            reader, positions = self._positions[connection]
            firsts = self._firsts.get(connection, {})
            read = found.setdefault(reader, {})
            for partition, offset in positions.items():
                # another client of the same name may have read it
                first, last = read.get(partition, (firsts[partition], offset))
                read[partition] = min(first, firsts[partition]), max(last, offset)

    def positions(
        self, place: TopicPartition, client_id: str | None = None, client_host: str | None = None
    ) -> list[int]:
        """Return the offset at which each connection of such a client fetches a partition."""
        return [
            positions[place]
            for reader, positions in self._positions.values()
            if place in positions
            and client_id in (None, reader.client_id)
            and client_host in (None, reader.client_host)
        ]


class Observation:
    """The observer of one broker, which sees fetches and responses. See `wire.responses.Observer`.

    consumption   where it notes them; `consuming` reads it
    topic_name    topic id -> name
    _joined_with  by connection: the subscription with which a member has joined
    _assigned     by connection: the partitions that a member was assigned last

    Both end with their connection: a member that crashes does not leave its group. One that connects again begins anew,
    and its next Fetch tells its positions.
    """

    def __init__(self, consumption: Consumption, topic_name: Callable[[bytes], str | None]) -> None:
        self.consumption = consumption
        self._topic_name = topic_name
        self._joined_with: dict[object, dict[tuple[str, str], bytes]] = {}
        self._assigned: dict[object, _Places] = {}

    def fetched(self, context: RequestContext, positions: Mapping[TopicPartition, int]) -> None:
        """Record the partitions that a client fetches without an error."""
        self.consumption.fetched(context.connection, _reader(context), positions)

    def left(self, connection: object) -> None:
        """Forget a connection that has closed."""
        self.consumption.left(connection)
        self._joined_with.pop(connection, None)
        self._assigned.pop(connection, None)

    def responded(self, context: RequestContext, response: Any) -> None:
        """Record what a member of a group is assigned."""
        if type(response) is bytes or response.error_code:
            return
        if context.api_key == _JOIN_GROUP:
            self._joined(context, response)
        elif context.api_key == _SYNC_GROUP:
            self._synced(context, response)
        elif context.api_key == _LEAVE_GROUP:
            for member in context.request.members or (context.request,):
                self._left_group(context, member.member_id)
        elif context.api_key == _CONSUMER_GROUP_HEARTBEAT:
            self._record_assignment(context, response)

    def _joined(self, context: RequestContext, response: Any) -> None:
        request = context.request
        if request.protocol_type != CONSUMER:
            return
        offered = {protocol.name: protocol.metadata for protocol in request.protocols}
        metadata = bytes(offered.get(response.protocol_name, b""))
        self._joined_with.setdefault(context.connection, {})[request.group_id, response.member_id] = metadata

    def _synced(self, context: RequestContext, response: Any) -> None:
        request = context.request
        member = request.group_id, request.member_id
        metadata = self._joined_with.get(context.connection, {}).pop(member, None)
        try:
            assignment = decode_assignment(bytes(response.assignment))
        except ProtocolError:
            return  # the group is not one of consumers
        kept = frozenset() if metadata is None else _owned(metadata)
        self.consumption.assigned(_reader(context), assignment - kept)
        self._assigned.setdefault(context.connection, {})[request.group_id, request.member_id] = assignment

    def _left_group(self, context: RequestContext, member_id: str) -> None:
        group_id = context.request.group_id
        assignment = self._assigned.get(context.connection, {}).pop((group_id, member_id), None)
        if assignment is not None:
            self.consumption.left_group(group_id, _reader(context), assignment)

    def _record_assignment(self, context: RequestContext, response: Any) -> None:
        key = context.request.group_id, response.member_id or context.request.member_id
        assigned = self._assigned.setdefault(context.connection, {})
        if context.request.member_epoch < 0:
            self._left_group(context, key[1])
        elif context.request.member_epoch == 0:  # it joins
            assigned.pop(key, None)
        if response.assignment is None:
            return
        assignment = frozenset(
            (self._topic_name(topic.topic_id) or "", index)
            for topic in response.assignment.topic_partitions
            for index in topic.partitions
        )
        self.consumption.assigned(_reader(context), assignment - assigned.get(key, frozenset()))
        assigned[key] = assignment


def _owned(subscription: bytes) -> frozenset[TopicPartition]:
    """Return what a consumer says it owns; the sticky assignors' own data name what it has given up."""
    try:
        return decode_subscription("", subscription, None).owned
    except ProtocolError:
        return frozenset()


def _reader(context: RequestContext) -> Reader:
    return Reader(context.client_id, context.client_host.removeprefix("/"))
