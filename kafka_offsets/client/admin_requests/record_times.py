"""Times of records: since when does a group lag? The timestamp of the first record that it has not read.

One Fetch asks for a position in each of many partitions, and what it returns answers for the positions that follow in
the same bytes: groups that read one topic share the requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.errors import ErrorCode, KafkaOffsetsError, ProtocolError, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import batch_headers, read_records
from kafka_offsets.protocol.topic_partition import TopicPartition

_FETCH_VERSION, _RESPONSE_BYTES = 11, 4 << 20
_ONE_POSITION_BYTES, _POSITIONS_BYTES = 4 << 10, 64 << 10
"""Bytes of a partition in a response: where one position is asked for, and where more may be in the same bytes."""

Position = tuple[TopicPartition, int]


def record_times(
    cluster: ClusterClient, positions: Collection[Position], refused: dict[TopicPartition, KafkaOffsetsError]
) -> dict[Position, int]:
    """Return the timestamp in ms of the first record from each position on, as far as there is one.

    refused  gets the error of each partition that cannot be read
    """
    time_by_position: dict[Position, int] = {}
    left: dict[TopicPartition, list[int]] = {}
    for topic_partition, offset in sorted(set(positions), reverse=True):
        left.setdefault(topic_partition, []).append(offset)  # the last one is the first to be asked for
    by_leader: dict[int, list[TopicPartition]] = {}
    if left:
        for topic_partition, leader in cluster.leaders({topic for topic, _ in left}).items():
            if topic_partition in left:
                by_leader.setdefault(leader, []).append(topic_partition)
    for leader, topic_partitions in by_leader.items():
        while offsets_asked := {
            topic_partition: left[topic_partition]
            for topic_partition in topic_partitions
            if left[topic_partition] and topic_partition not in refused
        }:
            try:
                answered = _fetched(cluster, leader, offsets_asked, refused)
            except KafkaOffsetsError as error:
                refused.update(dict.fromkeys(offsets_asked, error))
                break
            for topic_partition, data in answered.items():
                try:
                    times = dict(_times(data, left[topic_partition]))
                except ProtocolError as error:
                    refused[topic_partition] = error
                    continue
                left[topic_partition] = left[topic_partition][: len(left[topic_partition]) - len(times)]
                time_by_position.update(
                    {(topic_partition, offset): time for offset, time in times.items() if time is not None}
                )
    return time_by_position


def _fetched(
    cluster: ClusterClient,
    leader: int,
    offsets_asked: dict[TopicPartition, list[int]],
    refused: dict[TopicPartition, KafkaOffsetsError],
) -> dict[TopicPartition, bytes]:
    """Return record batches from the first position of each partition on.

    A broker returns a whole batch, however large, for the first partition alone: one that gets nothing is asked for
    again in front of others.
    """
    made = messages.FetchRequest
    topics = []
    for topic_partition, offsets in offsets_asked.items():
        size = _POSITIONS_BYTES if len(offsets) > 1 else _ONE_POSITION_BYTES
        partition = made.FetchPartition(
            topic_partition[1], fetch_offset=offsets[-1], partition_max_bytes=size
        )
        topics.append(made.FetchTopic(topic_partition[0], partitions=[partition]))
    request = made(max_wait_ms=0, min_bytes=0, max_bytes=_RESPONSE_BYTES, topics=topics)
    connection, _ = cluster.broker(leader)
    response = connection.call(request, _FETCH_VERSION)
    if response.error_code:
        raise RefusedError(f"records of broker {leader}", response.error_code)
    records = {}
    first = next(iter(offsets_asked))
    for topic in response.responses:
        for data_of_partition in topic.partitions:
            topic_partition = topic.topic, data_of_partition.partition_index
            data = bytes(data_of_partition.records or b"")
            if data_of_partition.error_code:
                refused[topic_partition] = RefusedError(
                    f"{topic_partition[0]}-{topic_partition[1]}", data_of_partition.error_code
                )
            elif topic_partition == first or next(batch_headers(data), None) is not None:
                records[topic_partition] = data
    if first not in records and first not in refused:
        refused[first] = RefusedError(f"{first[0]}-{first[1]}", ErrorCode.UNKNOWN_SERVER_ERROR)
    return records


def _times(data: bytes, offsets: list[int]) -> Iterator[tuple[int, int | None]]:
    """Yield the first of the offsets, which descend, and the following ones as far as the bytes have their records.

    The time of the first one is None where no record follows it.
    """
    at = len(offsets) - 1
    for position, header in batch_headers(data):
        if header.is_control or header.last_offset < offsets[at]:
            continue
        for record in read_records(data, position, header):
            while record.offset >= offsets[at]:
                yield offsets[at], record.timestamp
                at -= 1
                if at < 0:
                    return
    if at == len(offsets) - 1:
        yield offsets[at], None
