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
    found: dict[Position, int] = {}
    left: dict[TopicPartition, list[int]] = {}
    for place, offset in sorted(set(positions), reverse=True):
        left.setdefault(place, []).append(offset)  # the last one is the first to be asked for
    by_leader: dict[int, list[TopicPartition]] = {}
    if left:
        for place, leader in cluster.leaders({topic for topic, _ in left}).items():
            if place in left:
                by_leader.setdefault(leader, []).append(place)
    for leader, places in by_leader.items():
        while asked := {place: left[place] for place in places if left[place] and place not in refused}:
            try:
                answered = _fetched(cluster, leader, asked, refused)
            except KafkaOffsetsError as error:
                refused.update(dict.fromkeys(asked, error))
                break
            for place, data in answered.items():
                try:
                    times = dict(_times(data, left[place]))
                except ProtocolError as error:
                    refused[place] = error
                    continue
                left[place] = left[place][: len(left[place]) - len(times)]
                found.update({(place, offset): time for offset, time in times.items() if time is not None})
    return found


def _fetched(
    cluster: ClusterClient,
    leader: int,
    asked: dict[TopicPartition, list[int]],
    refused: dict[TopicPartition, KafkaOffsetsError],
) -> dict[TopicPartition, bytes]:
    """Return record batches from the first position of each partition on.

    A broker returns a whole batch, however large, for the first partition alone: one that gets nothing is asked for
    again in front of others.
    """
    made = messages.FetchRequest
    topics = []
    for place, offsets in asked.items():
        size = _POSITIONS_BYTES if len(offsets) > 1 else _ONE_POSITION_BYTES
        partition = made.FetchPartition(place[1], fetch_offset=offsets[-1], partition_max_bytes=size)
        topics.append(made.FetchTopic(place[0], partitions=[partition]))
    request = made(max_wait_ms=0, min_bytes=0, max_bytes=_RESPONSE_BYTES, topics=topics)
    connection, _ = cluster.broker(leader)
    answer = connection.call(request, _FETCH_VERSION)
    if answer.error_code:
        raise RefusedError(f"records of broker {leader}", answer.error_code)
    found = {}
    first = next(iter(asked))
    for topic in answer.responses:
        for each in topic.partitions:
            place = topic.topic, each.partition_index
            data = bytes(each.records or b"")
            if each.error_code:
                refused[place] = RefusedError(f"{place[0]}-{place[1]}", each.error_code)
            elif place == first or next(batch_headers(data), None) is not None:
                found[place] = data
    if first not in found and first not in refused:
        refused[first] = RefusedError(f"{first[0]}-{first[1]}", ErrorCode.UNKNOWN_SERVER_ERROR)
    return found


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
