"""Produce, Fetch and ListOffsets, as far as clients of groups meet them."""

from typing import Any

from kafka_offsets.protocol.records import encode_batch
from tests.differential.play import Client, Play
from tests.differential.table import situation

FIRST_MS = 1_700_000_000_000
EARLIEST, LATEST, MAX_TIMESTAMP, LOCAL, TIERED, EARLIEST_PENDING = -2, -1, -3, -4, -5, -6


def batch(*values: str, first_ms: int = FIRST_MS) -> bytes:
    """A batch of records a second apart, their values as keys too."""
    return bytes(
        encode_batch([(v.encode(), v.encode(), (), first_ms + 1000 * n) for n, v in enumerate(values)])
    )


def produced_to(topic: str, *data: tuple[int, Any]) -> list[dict[str, Any]]:
    """What is produced to partitions of one topic."""
    partitions = [{"index": index, "records": records} for index, records in data]
    return [{"name": topic, "topic_id": topic, "partition_data": partitions}]


def produce(a: Client, topic: str, data: Any, version: int = 9, partition: int = 0, acks: int = -1) -> Any:
    """Produce one batch."""
    topics = produced_to(topic, (partition, data))
    return a.ask("Produce", version, acks=acks, timeout_ms=5000, topic_data=topics)


def fetch(a: Client, topic: str, *offsets: tuple[int, int], version: int = 11, **fields: Any) -> Any:
    """Fetch partitions from offsets on."""
    partitions = [
        {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        for partition, offset in offsets
    ]
    own = {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "topics": [{"topic": topic, "topic_id": topic, "partitions": partitions}],
    }
    return a.ask("Fetch", version, **own | fields)


def offsets_at(a: Client, topic: str, *timestamps: tuple[int, int], version: int = 7) -> Any:
    """ListOffsets of (partition, timestamp)."""
    partitions = [
        {"partition_index": partition, "timestamp": timestamp} for partition, timestamp in timestamps
    ]
    topics = [{"name": topic, "partitions": partitions}]
    return a.ask("ListOffsets", version, replica_id=-1, isolation_level=0, topics=topics, timeout_ms=5000)


@situation("records are produced and fetched", range(3, 14))
def produced(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    produce(a, name, batch("one", "two", "three"), version)
    produce(a, name, batch("four"), version, partition=1)
    fetch(a, name, (0, 0), (1, 0))


@situation("records are fetched with any version", range(4, 19))
def fetched(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    produce(a, name, batch("one", "two"))
    produce(a, name, batch("three"))
    fetch(a, name, (0, 0), (1, 0), version=version)
    fetch(a, name, (0, 1), version=version)
    fetch(a, name, (0, 3), version=version)
    fetch(a, name, (0, 4), version=version)
    fetch(a, name, (0, -1), version=version)
    fetch(a, name, (7, 0), (0, 2), version=version)


@situation("Fetch from an unknown topic", (4, 12, 13, 18))
def fetch_unknown(w: Play, version: int) -> None:
    fetch(w.client("a"), "nothing", (0, 0), (1, 0), version=version)


@situation("Produce to an unknown topic or partition", (3, 9, 12, 13))
def produce_unknown(w: Play, version: int) -> None:
    a = w.client("a")
    produce(a, "nothing", batch("one"), version)
    produce(a, "orders", batch("one"), version, partition=9)


@situation("partitions that exist and others in one request", (4, 9, 12, 13))
def mixed(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    data = [{"index": index, "records": batch("one")} for index in (5, 1, 7, 0)]
    topics = [
        {"name": topic, "topic_id": topic, "partition_data": data[:n]} for topic, n in ((name, 4), ("x", 1))
    ]
    a.ask("Produce", min(version, 12), acks=1, timeout_ms=5000, topic_data=topics[:1])
    a.ask("Produce", version, acks=1, timeout_ms=5000, topic_data=[topics[1], topics[0]])
    partitions = [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000} for index in (7, 0, 5, 1)
    ]
    wanted = [{"topic": t, "topic_id": t, "partitions": partitions} for t in (name, "x", "orders", name)]
    a.ask("Fetch", version, max_wait_ms=0, min_bytes=0, topics=wanted[:2])
    a.ask("Fetch", version, max_wait_ms=0, min_bytes=0, topics=wanted[:3])
    a.ask(
        "Fetch",
        version,
        max_wait_ms=0,
        min_bytes=0,
        topics=[{"topic": name, "topic_id": name, "partitions": []}],
    )
    asked = [{"partition_index": index, "timestamp": LATEST} for index in (7, 0, 5, 1)]
    topics = [{"name": topic, "partitions": asked} for topic in (name, "x", "pages")]
    a.ask("ListOffsets", min(version, 11), replica_id=-1, isolation_level=0, topics=topics, timeout_ms=5000)


@situation("Produce with unknown acks", (3, 9))
def acks(w: Play, version: int) -> None:
    produce(w.client("a"), "orders", batch("one"), version, acks=2)


@situation("offsets by time", range(1, 12))
def by_time(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    produce(a, name, batch("one", "two", "three"))
    at = [EARLIEST, LATEST, FIRST_MS, FIRST_MS + 1, FIRST_MS + 2000, FIRST_MS + 2001, 0]
    for timestamp in at:
        offsets_at(a, name, (0, timestamp), (1, timestamp), version=version)


@situation("offsets by special times", range(7, 12))
def by_special_time(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    offsets_at(a, name, (0, MAX_TIMESTAMP), version=version)
    produce(a, name, batch("one", "two"))
    for timestamp in (MAX_TIMESTAMP, LOCAL, TIERED, EARLIEST_PENDING, -7):
        offsets_at(a, name, (0, timestamp), version=version)


@situation("offsets of unknown topics and partitions", (1, 7, 11))
def of_nothing(w: Play, version: int) -> None:
    a = w.client("a")
    offsets_at(a, "nothing", (0, LATEST), version=version)
    offsets_at(a, "orders", (9, LATEST), (0, EARLIEST), version=version)


@situation("a fetch waits for records")
def waits(w: Play) -> None:
    a, b, name = w.client("a"), w.client("b"), w.topic(1)
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    topics = [{"topic": name, "partitions": partitions}]
    a.send("Fetch", 11, max_wait_ms=5000, min_bytes=1, topics=topics)
    a.silent()
    produce(b, name, batch("one"))
    a.answer()


@situation("a fetch that waits in vain is answered")
def waits_in_vain(w: Play) -> None:
    a, name = w.client("a"), w.topic(1)
    fetch(a, name, (0, 0), max_wait_ms=200, min_bytes=1)


@situation("leader epochs in ListOffsets and Fetch are compared", (9, 11))
def leader_epochs(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    for epoch in (0, 1, -1):
        partition = {"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": epoch}
        topics = [{"name": name, "partitions": [partition]}]
        a.ask("ListOffsets", version, replica_id=-1, isolation_level=0, topics=topics, timeout_ms=5000)
        entry = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100, "current_leader_epoch": epoch}
        a.ask("Fetch", version, max_wait_ms=0, min_bytes=0, topics=[{"topic": name, "partitions": [entry]}])


@situation("ListOffsets that names a partition twice")
def twice(w: Play) -> None:
    offsets_at(w.client("a"), "orders", (0, LATEST), (0, EARLIEST), (1, LATEST))


@situation("a consumer reads its partitions and continues at its committed offsets")
def consumer(w: Play) -> None:
    name = w.topic(1)
    a = w.client("a")
    produce(a, name, batch("one", "two"))
    w.stable(a)
    a.fetch((name, 0))
    offsets_at(a, name, (0, EARLIEST))
    fetch(a, name, (0, 0))
    a.commit((name, 0, 2))
    a.leave()
    a.member_id = ""
    w.stable(a)
    a.fetch((name, 0))
    fetch(a, name, (0, 2))


@situation("OffsetForLeaderEpoch: leader epochs and their end offsets", (2, 3, 4))
def epochs(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    produce(a, name, batch("one", "two"))
    for topic in (name, "nothing"):
        for current, epoch in ((-1, 0), (0, 0), (-1, 1), (-1, -1), (1, 0), (0, 5)):
            partitions = [
                {"partition": index, "current_leader_epoch": current, "leader_epoch": epoch}
                for index in (0, 1, 9)
            ]
            topics = [{"topic": topic, "partitions": partitions}]
            a.ask("OffsetForLeaderEpoch", version, replica_id=-1, topics=topics)


@situation("a group continues after records that were deleted", (0, 1, 2))
def deleted(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    produce(a, name, batch("one", "two", "three"))
    a.commit((name, 0, 1))
    for offset in (2, 1, -1, 9, -2):
        partitions = [{"partition_index": index, "offset": offset} for index in (0, 9)]
        a.ask("DeleteRecords", version, topics=[{"name": name, "partitions": partitions}], timeout_ms=5000)
        fetch(a, name, (0, 1))
        offsets_at(a, name, (0, EARLIEST), (0, LATEST))
    a.fetch((name, 0))


@situation("Fetch with limits smaller than a batch", (4, 11, 18))
def little(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    produce(a, name, batch("one"))
    produce(a, name, batch("two"))
    produce(a, name, batch("three"), partition=1)
    for most, most_of_one in ((1, 1), (0, 0), (80, 1000), (1000, 80), (1000, 0), (-1, 1000)):
        partitions = [
            {"partition": index, "fetch_offset": 0, "partition_max_bytes": most_of_one} for index in (0, 1)
        ]
        topics = [{"topic": name, "topic_id": name, "partitions": partitions}]
        a.ask("Fetch", version, max_wait_ms=0, min_bytes=0, max_bytes=most, topics=topics)
