"""Positions: of each consumed partition, the next offset to return; where none is known, it is found out.

A position begins at the offset that the application gave, else at the committed one, else at an end of the log, as
`auto.offset.reset` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_offsets.client.cluster import EARLIEST, LATEST
from kafka_offsets.client.connection import Address
from kafka_offsets.client.consumer.exceptions import ConsumeInitOffsetNotKnown
from kafka_offsets.client.consumer.group_offsets import GroupOffsets
from kafka_offsets.client.consumer.metadata import Metadata
from kafka_offsets.client.consumer.network import CONTROL, ConsumerNetwork
from kafka_offsets.client.consumer.settings import ConsumerSettings
from kafka_offsets.client.retries import OF_LEADER
from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition

_VERSION = 7
RETRIABLE_OF_LEADER = OF_LEADER | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""Errors of a leader after which a consumer gets new metadata and asks again."""

_RESETS = {"earliest": EARLIEST, "latest": LATEST}


class Position:
    """The position of one partition.

    offset       the next offset that `poll` returns; None: not known
    fetch_from   the next offset to fetch: what lies between is fetched already
    last_epoch   the leader epoch of the record before `fetch_from`, -1 if it was not fetched
    moves        counts the changes by anything but reading: what was fetched before one is stale
    must_reset   nothing is committed, or the offset is outside the log
    error        for the next call of `poll`; until then the partition is not read
    """

    __slots__ = (
        "error",
        "fetch_from",
        "is_in_flight",
        "last_epoch",
        "moves",
        "must_reset",
        "offset",
        "place",
        "retry_ms",
    )

    def __init__(self, partition: TopicPartition, offset: int | None = None) -> None:
        self.place = partition
        self.offset = offset
        self.fetch_from = offset or 0
        self.last_epoch = -1
        self.moves = 0
        self.must_reset = False
        self.is_in_flight = False
        self.retry_ms = 0
        self.error: Exception | None = None

    def move(self, offset: int | None) -> None:
        """Set the position."""
        self.offset = offset
        self.fetch_from = offset or 0
        self.last_epoch = -1
        self.moves += 1
        self.must_reset = False
        self.error = None


class Positions:
    """The positions of the consumed partitions.

    offsets  of the group, None for a consumer without one
    """

    def __init__(
        self,
        network: ConsumerNetwork,
        metadata: Metadata,
        offsets: GroupOffsets | None,
        settings: ConsumerSettings,
    ) -> None:
        self.table: dict[TopicPartition, Position] = {}
        self._network = network
        self._metadata = metadata
        self._offsets = offsets
        self._reset = _RESETS.get(settings.auto_offset_reset)
        self._isolation = 1 if settings.is_read_committed else 0
        self._backoff_ms = settings.retry_backoff_ms

    def add(self, partitions: Mapping[TopicPartition, int | None]) -> None:
        """Add partitions that are not in the table, each with its offset if it is known."""
        for partition, offset in partitions.items():
            if partition not in self.table:
                self.table[partition] = Position(partition, offset)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions: what was fetched of them is dropped."""
        for partition in partitions:
            self.table.pop(partition, None)

    def consumed(self) -> dict[TopicPartition, int]:
        """Return the known positions: all earlier records were returned."""
        return {
            partition: position.offset
            for partition, position in self.table.items()
            if position.offset is not None
        }

    def missing(self) -> list[Position]:
        """Return those whose offset is not known."""
        return [
            position for position in self.table.values() if position.offset is None and position.error is None
        ]

    def check(self) -> None:
        """Raise the error of a partition. It is forgotten: the partition is tried again."""
        for position in self.table.values():
            if position.error is not None:
                error, position.error = position.error, None
                raise error

    def step(self, now_ms: int) -> None:
        """Send the requests for unknown positions; note an error where nothing says where to begin."""
        due = [
            position
            for position in self.missing()
            if not position.is_in_flight and position.retry_ms <= now_ms
        ]
        if not due:
            return
        committed = [position for position in due if self._offsets is not None and not position.must_reset]
        if committed:
            self._ask_group(committed, now_ms)
        by_leader: dict[Address, list[Position]] = {}
        for position in due:
            if self._offsets is not None and not position.must_reset:
                continue
            if self._reset is None:
                topic, partition = position.place
                position.error = ConsumeInitOffsetNotKnown(
                    f"{topic}-{partition}: no offset to begin at is known, and auto.offset.reset is none"
                )
            elif (leader := self._metadata.leader(position.place)) is not None:
                by_leader.setdefault(leader, []).append(position)
        for leader, positions in by_leader.items():
            self._ask_leader(leader, positions, now_ms)

    def _ask_group(self, positions: list[Position], now_ms: int) -> None:
        assert self._offsets is not None
        asked_positions = [(position, position.moves) for position in positions]

        def done(committed: Mapping[TopicPartition, int] | None) -> None:
            """Move each position to its committed offset; one without an offset is reset."""
            for position, moves in asked_positions:
                position.is_in_flight = False
                if position.moves != moves:
                    continue
                offset = None if committed is None else committed.get(position.place)
                if offset is None:
                    position.retry_ms = now_ms + self._backoff_ms
                elif offset >= 0:
                    position.move(offset)
                else:
                    position.must_reset = True

        if self._offsets.fetch([position.place for position in positions], now_ms, done):
            for position in positions:
                position.is_in_flight = True

    def _ask_leader(self, leader: Address, positions: list[Position], now_ms: int) -> None:
        assert self._reset is not None
        made = messages.ListOffsetsRequest
        topics: dict[str, messages.ListOffsetsRequest.ListOffsetsTopic] = {}
        for position in positions:
            topic, partition = position.place
            list_partition = made.ListOffsetsPartition(partition, timestamp=self._reset)
            topics.setdefault(topic, made.ListOffsetsTopic(topic)).partitions.append(list_partition)
        positions_by_partition = {position.place: (position, position.moves) for position in positions}

        def done(response: messages.ListOffsetsResponse | None) -> None:
            """Move each position to the offset that its leader returned, or keep the leader's error."""
            for position, _ in positions_by_partition.values():
                position.is_in_flight = False
                position.retry_ms = now_ms + self._backoff_ms
            if response is None:
                self._metadata.refresh()
                return
            for topic in response.topics:
                for listed in topic.partitions:
                    topic_partition = topic.name, listed.partition_index
                    position, moves = positions_by_partition[topic_partition]
                    if listed.error_code in RETRIABLE_OF_LEADER:
                        self._metadata.refresh()
                    elif listed.error_code:
                        position.error = RefusedError(
                            f"offsets of {topic_partition[0]}-{topic_partition[1]}", listed.error_code
                        )
                    elif position.moves == moves:
                        position.move(listed.offset)

        request = made(-1, self._isolation, list(topics.values()))
        if self._network.send(leader, CONTROL, request, _VERSION, now_ms, done):
            for position in positions:
                position.is_in_flight = True
        else:
            for position in positions:
                position.retry_ms = now_ms + self._backoff_ms
            self._metadata.refresh()

    def deadline_ms(self) -> int | None:
        """When `step` has something to do that depends on no response."""
        waiting = [
            position.retry_ms
            for position in self.missing()
            if not position.is_in_flight and position.retry_ms
        ]
        return min(waiting, default=None)
