"""What brokers say about the topics of a state: the offsets of partitions, and when records were written.

For the lag of groups, with Spark and without it. The brokers are Apache Kafka's or this project's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.client.settings import secured_settings
from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.protocol.records import batch_headers, read_records
from kafka_offsets.protocol.topic_partition import TopicPartition

_FETCH_BYTES = 1 << 16


def offsets_at(
    cluster: ClusterClient, places: Iterable[TopicPartition], times: Sequence[int]
) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
    """Yield the offsets at these times, for each of the topic-partitions that the cluster has.

    times  in ms of wall time, EARLIEST or LATEST
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for place in sorted(set(places)):
        by_topic.setdefault(place[0], []).append(place)
    for topic, wanted in by_topic.items():
        there = _leaders(cluster, topic)
        known = [place for place in wanted if place in there]
        found = [cluster.offsets_at(dict.fromkeys(known, at)) for at in times]
        for place in known:
            yield place, tuple(offsets[place] for offsets in found)


def _leaders(cluster: ClusterClient, topic: str) -> dict[TopicPartition, int]:
    try:
        return cluster.leaders([topic])
    except RefusedError as error:
        if error.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return {}


def first_times(
    bootstrap: str, unread: Iterable[tuple[str, int, int, int]], properties: Mapping[str, str] | None = None
) -> list[tuple[str, int, int, int]]:
    """Return the timestamps in ms of first unread records: rows (topic, partition, position, timestamp).

    unread  rows (topic, partition, position, log end); those without a record have no row
    One request for each. Raises ConnectionLostError, RefusedError and ConfigError.
    """
    rows = []
    with secured_settings(bootstrap, properties).cluster() as cluster:
        for topic, partition, position, end in sorted(unread):
            timestamp = _first_time(cluster, (topic, partition), position, end)
            if timestamp is not None:
                rows.append((topic, partition, position, timestamp))
    return rows


def _first_time(cluster: ClusterClient, place: TopicPartition, position: int, end: int) -> int | None:
    """Return the timestamp in ms of the first record from `position` on and before `end`, None without one."""
    while position < end:
        data = cluster.fetch(place, position, _FETCH_BYTES)
        following = position
        for at, header in batch_headers(data):
            following = max(following, header.last_offset + 1)
            if header.is_control or header.last_offset < position:
                continue
            for record in read_records(data, at):
                if position <= record.offset < end:
                    return record.timestamp
        if following == position:  # no visible record yet
            return None
        position = following
    return None
