"""RecordFetcher: Fetch requests to the leaders of the consumed partitions, and the records that they return.

Of each leader there is one request in flight and at most one response whose records are not all returned: while the
application uses the one, the broker prepares the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from kafka_offsets.client.connection import Address
from kafka_offsets.client.consumer.exceptions import ConsumeInitOffsetNotKnown, LogTruncated, RecordsDamaged
from kafka_offsets.client.consumer.metadata import Metadata
from kafka_offsets.client.consumer.network import FETCH, ConsumerNetwork
from kafka_offsets.client.consumer.positions import RETRIABLE_OF_LEADER, Position, Positions
from kafka_offsets.client.consumer.record import ConsumerRecord, PartitionRecords, last_batch
from kafka_offsets.client.consumer.settings import ConsumerSettings
from kafka_offsets.errors import ErrorCode, ProtocolError, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition

_VERSION = 12
"""The last one that names topics; later ones name ids."""

Asked = dict[TopicPartition, tuple[Position, int]]
"""The positions of a request, with their count of moves at the time."""


class _FetchedPartition(NamedTuple):
    """The records of a partition, and the response that they came in."""

    position: Position
    moves: int
    records: PartitionRecords
    leader: Address
    response: int


class RecordFetcher:
    """Fetches, and keeps what the application has not got yet."""

    def __init__(
        self, network: ConsumerNetwork, metadata: Metadata, positions: Positions, settings: ConsumerSettings
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._positions = positions
        self._settings = settings
        self._isolation = 1 if settings.is_read_committed else 0
        self._fetched: deque[_FetchedPartition] = deque()
        self._in_flight: set[Address] = set()
        self._retry_ms: dict[Address, int] = {}
        self._turn = 0

    def step(self, now_ms: int) -> None:
        """Send a request to each leader that is ready for one."""
        by_leader: dict[Address, list[Position]] = {}
        for partition, position in self._positions.table.items():
            if position.offset is not None and position.error is None:
                leader = self._metadata.leader(partition)
                if leader is not None:
                    by_leader.setdefault(leader, []).append(position)
        for leader, positions in by_leader.items():
            is_ready = leader not in self._in_flight and now_ms >= self._retry_ms.get(leader, 0)
            if is_ready and not self._has_two_responses(leader):
                self._send(leader, positions, now_ms)

    def _has_two_responses(self, leader: Address) -> bool:
        responses = {fetched.response for fetched in self._fetched if fetched.leader == leader}
        return len(responses) > 1

    def _send(self, leader: Address, positions: list[Position], now_ms: int) -> None:
        """Fetch from all partitions of a leader; each request begins with another one, so that all have their turn."""
        self._turn += 1
        first = self._turn % len(positions)
        settings, made = self._settings, messages.FetchRequest
        topics: list[messages.FetchRequest.FetchTopic] = []
        positions_asked: Asked = {}
        for position in (*positions[first:], *positions[:first]):
            topic, partition = position.place
            if not topics or topics[-1].topic != topic:
                topics.append(made.FetchTopic(topic))
            topics[-1].partitions.append(
                made.FetchPartition(
                    partition,
                    self._metadata.leader_epoch(position.place),
                    position.fetch_from,
                    position.last_epoch,
                    partition_max_bytes=settings.max_partition_fetch_bytes,
                )
            )
            positions_asked[position.place] = position, position.moves
        request = made(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=self._isolation,
            topics=topics,
        )
        timeout_ms = settings.fetch_max_wait_ms + settings.request_timeout_ms
        number = self._turn
        if self._network.send(
            leader,
            FETCH,
            request,
            _VERSION,
            now_ms,
            lambda response: self._answered(leader, number, positions_asked, response, now_ms),
            timeout_ms,
        ):
            self._in_flight.add(leader)
        else:
            self._failed(leader, now_ms)

    def _failed(self, leader: Address, now_ms: int) -> None:
        self._retry_ms[leader] = now_ms + self._settings.retry_backoff_ms
        self._metadata.refresh()

    def _answered(
        self,
        leader: Address,
        number: int,
        positions_asked: Asked,
        response: messages.FetchResponse | None,
        now_ms: int,
    ) -> None:
        self._in_flight.discard(leader)
        if response is None:
            self._failed(leader, now_ms)
            return
        if response.error_code:
            raise RefusedError(f"fetch from {leader[0]}:{leader[1]}", response.error_code)
        for topic in response.responses:
            for data in topic.partitions:
                position, moves = positions_asked[topic.topic, data.partition_index]
                is_current = self._positions.table.get(position.place) is position and position.moves == moves
                if not is_current:
                    continue
                if data.error_code:
                    self._refused(leader, position, data.error_code, now_ms)
                elif data.diverging_epoch.end_offset >= 0:
                    self._truncated(position, data.diverging_epoch.end_offset)
                elif data.records:
                    self._keep(leader, number, position, data)

    def _refused(self, leader: Address, position: Position, code: int, now_ms: int) -> None:
        topic, partition = position.place
        if code in RETRIABLE_OF_LEADER:
            self._failed(leader, now_ms)
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._settings.auto_offset_reset == "none":
                position.error = ConsumeInitOffsetNotKnown(
                    f"{topic}-{partition}: offset {position.fetch_from} is outside the log, "
                    "and auto.offset.reset is none"
                )
            else:
                position.move(None)
                position.must_reset = True
        else:
            position.error = RefusedError(f"fetch of {topic}-{partition}", code)

    def _truncated(self, position: Position, end_offset: int) -> None:
        """Continue where the leader's log has other records than were fetched (KIP-320), as Java's consumer does.

        Records that were fetched and not returned are dropped. Without `auto.offset.reset`, the application decides
        what to do about records that it has got and the leader has lost.
        """
        assert position.offset is not None
        if end_offset < position.offset and self._settings.auto_offset_reset == "none":
            topic, partition = position.place
            position.error = LogTruncated(
                f"{topic}-{partition}: the log was truncated at offset {end_offset}, records up to offset "
                f"{position.offset - 1} were read, and auto.offset.reset is none"
            )
        else:
            position.move(min(end_offset, position.offset))

    def _keep(
        self,
        leader: Address,
        number: int,
        position: Position,
        fetched: messages.FetchResponse.PartitionData,
    ) -> None:
        data = fetched.records
        assert data is not None
        try:
            last = last_batch(data)
        except ProtocolError as error:
            position.error = RecordsDamaged(position.place, position.fetch_from, None, error)
            return
        if last is None:
            return
        aborted = None
        if self._isolation:
            aborted = [
                (transaction.producer_id, transaction.first_offset)
                for transaction in fetched.aborted_transactions or ()
            ]
        records = PartitionRecords(
            position.place, data, position.fetch_from, aborted, check_crcs=self._settings.check_crcs
        )
        position.fetch_from, position.last_epoch = last.last_offset + 1, last.leader_epoch
        self._fetched.append(_FetchedPartition(position, position.moves, records, leader, number))

    def take(self, most: int) -> list[ConsumerRecord]:
        """Return the next records, at most so many, and move the positions past them.

        Raises RecordsDamaged, but only if no record precedes it in this call: the positions have
        passed those records, so they must be returned.
        """
        taken: list[ConsumerRecord] = []
        while self._fetched and len(taken) < most:
            position, moves, records, _, _ = self._fetched[0]
            is_current = self._positions.table.get(position.place) is position and position.moves == moves
            try:
                more = records.take(most - len(taken)) if is_current else []
            except RecordsDamaged:
                if taken:
                    return taken
                raise
            if is_current:
                position.offset = records.next_offset
            if not more:
                self._fetched.popleft()
            taken += more
        return taken

    def deadline_ms(self, now_ms: int) -> int | None:
        """When a leader may be asked again after a failure."""
        waiting: Iterable[int] = (retry_ms for retry_ms in self._retry_ms.values() if retry_ms > now_ms)
        return min(waiting, default=None)
