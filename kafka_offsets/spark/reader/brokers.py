"""What brokers say about the topics of a state: the ranges of their logs, and when records were written.

For the lag of groups, with Spark and without it. The brokers are Apache Kafka's or this project's. What one of them
does not say, since it leads nothing or is gone, hides nothing of the others.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kafka_offsets.client.cluster import WHOLE_TOPIC, ClusterClient, LogRange
from kafka_offsets.client.connection import PATIENCE_S
from kafka_offsets.client.retries import Retries
from kafka_offsets.client.settings import secured_settings
from kafka_offsets.errors import ConnectionLostError, KafkaOffsetsError, RefusedError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.records import batch_headers, read_records
from kafka_offsets.protocol.topic_partition import TopicPartition

_FETCH_BYTES = 1 << 16

Refused = dict[TopicPartition, KafkaOffsetsError]

_logger = new_logger(__name__)


def log_ranges(
    bootstrap: str,
    partitions: Collection[TopicPartition],
    properties: Mapping[str, str] | None = None,
    refused: Refused | None = None,
) -> dict[TopicPartition, LogRange | None]:
    """Return the range of each partition of the topics of `partitions`; None where it is not known.

    refused  gets the errors of these; without it they are logged as warnings
    A topic that does not exist has none. Raises ConnectionLostError, RefusedError and ConfigError.
    """
    errors: Refused = {}
    with _cluster(bootstrap, properties) as cluster:
        ranges = cluster.log_ranges({topic for topic, _ in partitions}, errors)
    whole = {topic for topic, partition in errors if partition == WHOLE_TOPIC}
    unknown = {topic_partition for topic_partition in errors if topic_partition[1] != WHOLE_TOPIC}
    unknown |= {topic_partition for topic_partition in partitions if topic_partition[0] in whole}
    _report(errors, refused)
    return {**ranges, **dict.fromkeys(unknown)}


def _cluster(bootstrap: str, properties: Mapping[str, str] | None) -> ClusterClient:
    """Connect to a cluster of which one broker that is gone does not hold up what the others know."""
    settings = secured_settings(bootstrap, properties)
    retries = Retries(settings.timeout_s)
    retries.patience_s = PATIENCE_S
    return settings._replace(retries=retries).cluster()


def _report(errors: Mapping[TopicPartition, KafkaOffsetsError], refused: Refused | None) -> None:
    if refused is not None:
        refused.update(errors)
        return
    for (topic, partition), error in errors.items():
        where = topic if partition == WHOLE_TOPIC else f"{topic}-{partition}"
        _logger.warning("%s is not known: %s", where, error)


def offsets_at(
    bootstrap: str,
    partitions: Collection[TopicPartition],
    times: Sequence[int],
    properties: Mapping[str, str] | None = None,
) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
    """Yield the log end and the offsets at these times, in ms, for each topic-partition whose leader answers."""
    errors: Refused = {}
    with _cluster(bootstrap, properties) as cluster:
        ranges = cluster.log_ranges({topic for topic, _ in partitions}, errors)
        _report(errors, None)
        known_partitions = sorted(set(partitions) & ranges.keys())
        offsets_of_times = [cluster.offsets_at(dict.fromkeys(known_partitions, at)) for at in times]
    for partition in known_partitions:
        yield partition, (ranges[partition].end, *(offsets[partition] for offsets in offsets_of_times))


def first_times(
    bootstrap: str,
    unread: Iterable[tuple[str, int, int, int]],
    properties: Mapping[str, str] | None = None,
    refused: Refused | None = None,
) -> list[tuple[str, int, int, int | None]]:
    """Return the timestamps in ms of first unread records: rows (topic, partition, position, timestamp).

    unread   rows (topic, partition, position, log end)
    refused  as for `log_ranges`
    The timestamp is None where there is no record up to the log end, only markers of transactions. A record without a
    timestamp, or with one before 1970, has no row. One request for each. Raises ConnectionLostError, RefusedError and
    ConfigError.
    """
    rows: list[tuple[str, int, int, int | None]] = []
    errors: Refused = {}
    with _cluster(bootstrap, properties) as cluster:
        for topic, partition, position, end in sorted(unread):
            try:
                timestamp = _first_time(cluster, (topic, partition), position, end)
            except (ConnectionLostError, RefusedError) as error:
                errors[topic, partition] = error
                continue
            if timestamp is None or timestamp >= 0:
                rows.append((topic, partition, position, timestamp))
    _report(errors, refused)
    return rows


def _first_time(cluster: ClusterClient, partition: TopicPartition, position: int, end: int) -> int | None:
    """Return the timestamp in ms of the first record from `position` on and before `end`, None without one.

    -1 where it is not visible yet.
    """
    while position < end:
        data = cluster.fetch(partition, position, _FETCH_BYTES)
        following = position
        for at, header in batch_headers(data):
            following = max(following, header.last_offset + 1)
            if header.is_control or header.last_offset < position:
                continue
            for record in read_records(data, at):
                if position <= record.offset < end:
                    return record.timestamp
        if following == position:
            return -1
        position = following
    return None
