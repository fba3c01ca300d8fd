"""The offsets log of a running cluster, read by the protocol: from this broker or Apache Kafka, without jars.

ListOffsets returns the range, Fetch returns record batches, which are then decoded as those of a segment file.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self, TypeVar

import pyarrow as pa

from kafka_offsets.client.connection import Address, Connection, connect_to_any
from kafka_offsets.client.retries import OF_LEADER, Retries, is_retriable
from kafka_offsets.client.settings import ConnectionSettings
from kafka_offsets.errors import (
    ConnectionLostError,
    ErrorCode,
    KafkaOffsetsError,
    ProtocolError,
    RefusedError,
)
from kafka_offsets.protocol import messages
from kafka_offsets.spark.reader import outcomes, segments
from kafka_offsets.spark.reader.columnar import RecordSource
from kafka_offsets.spark.reader.file_reader import FileReader
from kafka_offsets.spark.reader.query import Query, Rows
from kafka_offsets.storage.files.files import File

TOPIC = "__consumer_offsets"

_EARLIEST, _LATEST = -2, -1
_METADATA_VERSION, _LIST_OFFSETS_VERSION = 4, 2
_FETCH, _FETCH_VERSION = 1, 11
_UNCOMMITTED, _COMMITTED = 0, 1
_MAX_WAIT_MS = 500
_FETCH_BYTES = 8 << 20
_SHOWN_BYTES = 24
"""Of a response that is not a batch: up to its magic, and more."""
_PATIENCE_S = 4.0
"""How long a leader may be moving, or a broker be gone; then the query ends with what was refused."""

T = TypeVar("T")


class Range(NamedTuple):
    """Records of one log partition that one reader reads.

    start, stop  offsets of the first record, and of the first one after the range
    """

    log_partition: int
    start: int
    stop: int


class LostRecordsError(KafkaOffsetsError):
    """Requested records are no longer in the log."""


class _Fetched(File):
    """The response of one Fetch, as a file."""

    __slots__ = ("_data",)

    def __init__(self, path: str, data: bytes) -> None:
        super().__init__(path, len(data))
        self._data = data

    def read(self, position: int, size: int) -> bytes:
        return self._data[position : position + size]

    def append(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError("what was fetched is only read")

    def truncate(self, size: int) -> None:
        raise AssertionError("what was fetched is only read")

    def sync(self) -> None:
        """Nothing is written."""

    def close(self) -> None:
        """Nothing is open."""


class OffsetsTopic:
    """The brokers that lead the offsets topic. For one thread, in a `with` statement.

    Raises ConnectionLostError, and RefusedError with the request or the login that a broker refused.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[int, Address] = {}
        self._retries = Retries(_PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def partitions(self) -> list[int]:
        """Return the partitions of the topic; none before the first commit creates the topic."""
        self._find_leaders()
        return sorted(self._leaders)

    def offsets(self, *, end: bool, committed: bool = False) -> dict[int, int]:
        """Return the first offset or the end offset of each partition.

        committed  return the last stable offset as the end: every transaction that begins before it has ended
        """
        when, isolation = _LATEST if end else _EARLIEST, _COMMITTED if committed else _UNCOMMITTED
        return self._retrying(lambda: self._offsets(when, isolation))

    def _retrying(self, attempt: Callable[[], T]) -> T:
        """Repeat what fails because a leader is moving, on new connections if one of them is lost."""

        def recover(error: KafkaOffsetsError) -> None:
            self._leaders.clear()
            if isinstance(error, ConnectionLostError):
                self._disconnect()

        def passes(error: KafkaOffsetsError) -> bool:
            return is_retriable(error) or (isinstance(error, RefusedError) and error.error_code in OF_LEADER)

        return self._retries.call(attempt, recover, passes=passes)

    def _offsets(self, when: int, isolation: int) -> dict[int, int]:
        asked: dict[Address, list[int]] = {}
        for partition in self.partitions():
            asked.setdefault(self._leaders[partition], []).append(partition)
        made = messages.ListOffsetsRequest
        offsets = {}
        for address, partitions in asked.items():
            listed = [made.ListOffsetsPartition(partition, timestamp=when) for partition in partitions]
            request = made(-1, isolation, [made.ListOffsetsTopic(TOPIC, listed)])
            response = self._connection(address).call(request, _LIST_OFFSETS_VERSION)
            for partition_response in response.topics[0].partitions:
                if partition_response.error_code:
                    raise RefusedError(
                        f"offsets of {TOPIC}-{partition_response.partition_index}",
                        partition_response.error_code,
                    )
                offsets[partition_response.partition_index] = partition_response.offset
        return dict(sorted(offsets.items()))

    def fetch(self, partition: int, offset: int, *, limit: int | None = None) -> Iterator[bytes]:
        """Yield whole batches, from the one that holds `offset` to the high watermark, or to a limit.

        Raises LostRecordsError if the log begins after `offset`.
        """
        while limit is None or offset < limit:
            response = self._fetch(partition, offset)
            data = response.records or b""
            end, following = _end_of(data, offset)
            if following <= offset:
                if not data and response.high_watermark <= offset:
                    return
                raise ProtocolError(
                    f"{TOPIC}-{partition}: no valid batch with offset {offset} in a response of {len(data)} bytes: "
                    f"{data[:_SHOWN_BYTES].hex()}"
                )
            yield data[:end]
            offset = following

    def _fetch(self, partition: int, offset: int) -> Any:
        made = messages.FetchRequest
        fetch_partition = made.FetchPartition(
            partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES
        )
        request = made(
            replica_id=-1,
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=0,
            max_bytes=_FETCH_BYTES,
            isolation_level=_UNCOMMITTED,
            topics=[made.FetchTopic(TOPIC, partitions=[fetch_partition])],
        )

        def attempt() -> Any:
            """Send the request to the leader."""
            connection = self._connection(self._leader(partition))
            version = min(connection.latest_version(_FETCH), _FETCH_VERSION)
            partition_response = connection.call(request, version).responses[0].partitions[0]
            if partition_response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise LostRecordsError(
                    f"{TOPIC}-{partition}: offset {offset} is not in the log any more; "
                    f"it goes from {partition_response.log_start_offset} to {partition_response.high_watermark}"
                )
            if partition_response.error_code:
                raise RefusedError(
                    f"records of {TOPIC}-{partition} from offset {offset} on", partition_response.error_code
                )
            return partition_response

        return self._retrying(attempt)

    def _leader(self, partition: int) -> Address:
        if partition not in self._leaders:
            self._find_leaders()
        if partition not in self._leaders:
            raise RefusedError(f"{TOPIC}-{partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._leaders[partition]

    def _find_leaders(self) -> None:
        made = messages.MetadataRequest
        broker = connect_to_any(self._settings.addresses, self._connection)
        response = broker.call(made([made.Topic(name=TOPIC)], False), _METADATA_VERSION)
        brokers = {node.node_id: (node.host, node.port) for node in response.brokers}
        (topic,) = response.topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        if topic.error_code:
            raise RefusedError(f"topic {TOPIC}", topic.error_code)
        for partition in topic.partitions:
            if partition.leader_id not in brokers:
                raise RefusedError(
                    f"{TOPIC}-{partition.partition_index}",
                    partition.error_code or ErrorCode.LEADER_NOT_AVAILABLE,
                )
            self._leaders[partition.partition_index] = brokers[partition.leader_id]

    def _connection(self, address: Address, first_s: float | None = None) -> Connection:
        if address not in self._connections:
            settings = self._settings
            self._connections[address] = Connection(
                *address, settings.timeout_s, settings.security, first_s=first_s
            )
        return self._connections[address]


def _end_of(data: bytes, offset: int) -> tuple[int, int]:
    """Return the position and the offset after the last whole batch of a response, also if damage is before it.

    offset  of the request: what the response has is at least as late, but for the beginning of the first batch
    """
    end = 0, offset
    for _, batches in segments.headers(_Fetched(TOPIC, data), 0, offset, is_last=True):
        end = segments.end_of(batches)
    return end


def plan(start: Mapping[int, int], stop: Mapping[int, int], split_records: int) -> list[list[Range]]:
    """Divide the records between these offsets among readers: ranges until they have `split_records` offsets.

    Most partitions of most clusters have few records: with a reader for each, starting tasks is all that costs.
    """
    shares: list[list[Range]] = []
    room = 0
    for partition, end in stop.items():
        for at in range(start.get(partition, 0), end, split_records):
            if room <= 0:
                shares.append([])
                room = split_records
            part = Range(partition, at, min(at + split_records, end))
            shares[-1].append(part)
            room -= part.stop - part.start
    return shares


def read(settings: ConnectionSettings, part: Range, query: Query) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, in the order of the log."""
    path = f"{TOPIC}-{part.log_partition}"
    source = RecordSource(part.log_partition)
    with OffsetsTopic(settings) as topic:
        rows = Rows(query, source, part.start, part.stop)
        ahead: outcomes.Ahead | None = None
        for data in topic.fetch(part.log_partition, part.start, limit=part.stop):
            if ahead is None:
                ahead = outcomes.Ahead(_markers(topic, part, data))
            for piece in FileReader(_Fetched(path, data), 0, query, source, part.stop, part.start):
                if isinstance(piece, pa.RecordBatch):
                    yield piece
                else:
                    yield from rows.add(piece, ahead)
        yield from rows.finish()


def _markers(topic: OffsetsTopic, part: Range, data: bytes) -> Iterator[outcomes.TransactionEnd]:
    """Yield the markers of the first batches of a range, and of all later ones."""
    _, offset = _end_of(data, part.start)
    at = part.start
    for content in itertools.chain([data], topic.fetch(part.log_partition, offset)):
        for buffer, batches in segments.headers(_Fetched(TOPIC, content), 0, at, is_last=True):
            yield from outcomes.markers_of(buffer, batches)
            _, at = segments.end_of(batches)
