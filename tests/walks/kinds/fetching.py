"""Walks of readers: fetch sessions, offsets by time and by epoch, records that are deleted while they are read."""

from typing import Any

from tests.walks.kinds.shared import TOPIC, ask, create_topic
from tests.walks.plan import Draw, Step, kind, with_restart

READERS = "a", "b"


def topic(draw: Draw) -> str:
    return draw.usually(TOPIC, "@u", "nothing", "", odds=0.88)


def begin(draw: Draw) -> list[Step]:
    return [*create_topic(draw), *create_topic(draw, 1, "@u")]


def produce(draw: Draw) -> list[Step]:
    name = topic(draw)
    data = [
        {"index": index, "records": {"$batch": {"values": ["one", "two", "three"][: draw.randint(1, 3)]}}}
        for index in sorted({draw.usually(0, 1, 2, 9, odds=0.6) for _ in range(2)})
    ]
    return ask(
        draw,
        "Produce",
        "writer",
        acks=draw.usually(-1, 1, 2, odds=0.95),
        timeout_ms=5000,
        topic_data=[{"name": name, "topic_id": name, "partition_data": data}],
    )


def wanted(draw: Draw, most: int = 2) -> list[dict[str, Any]]:
    asked = []
    for name in dict.fromkeys(topic(draw) for _ in range(draw.usually(draw.randint(1, most), 0))):
        partitions = [
            {
                "partition": index,
                "current_leader_epoch": draw.usually(-1, 0, 1, odds=0.93),
                "fetch_offset": draw.usually(draw.randint(0, 3), -1, 99),
                "last_fetched_epoch": draw.usually(-1, 0, 5, odds=0.95),
                "log_start_offset": -1,
                "partition_max_bytes": draw.usually(1 << 20, 0, 100, -1, odds=0.93),
            }
            for index in sorted({draw.usually(draw.one(0, 1), 2, 9, -1) for _ in range(2)})
        ]
        asked.append({"topic": name, "topic_id": name, "partitions": partitions})
    return asked


def common(draw: Draw) -> dict[str, Any]:
    return {
        "max_wait_ms": 0,
        "min_bytes": draw.usually(0, 1),
        "max_bytes": draw.usually(1 << 26, 100, 0, odds=0.93),
        "isolation_level": draw.usually(0, 1, 2, odds=0.8),
        "rack_id": "",
    }


def open_session(draw: Draw) -> list[Step]:
    of = draw.one(*READERS)
    named = {"session_id": draw.usually(0, f"$session.{of}", 7), "session_epoch": draw.usually(0, -1)}
    return ask(draw, "Fetch", of, max(7, draw.version("Fetch")), **common(draw), **named, topics=wanted(draw))


def go_on(draw: Draw) -> list[Step]:
    of = draw.one(*READERS)
    epoch = f"$session_epoch.{of}"
    named = {
        "session_id": draw.usually(f"$session.{of}", 0, 7, -1, odds=0.95),
        "session_epoch": draw.usually(epoch, f"{epoch}-1", f"{epoch}+1", -1, 0, odds=0.9),
    }
    forgotten = []
    if draw.random() < 0.25:
        name = topic(draw)
        forgotten = [{"topic": name, "topic_id": name, "partitions": draw.some([0, 1, 9])}]
    topics = wanted(draw, 1) if draw.random() < 0.4 else []
    return ask(
        draw,
        "Fetch",
        of,
        max(7, draw.version("Fetch")),
        **common(draw),
        **named,
        topics=topics,
        forgotten_topics_data=forgotten,
    )


def fetch(draw: Draw) -> list[Step]:
    return ask(draw, "Fetch", "plain", **common(draw), topics=wanted(draw))


def wait(draw: Draw) -> list[Step]:
    """A fetch of what is not there yet waits for it."""
    partitions = [
        {"partition": draw.one(0, 1), "fetch_offset": draw.randint(0, 6), "partition_max_bytes": 1 << 20}
    ]
    topics = [{"topic": TOPIC, "topic_id": TOPIC, "partitions": partitions}]
    return ask(draw, "Fetch", "waiter", max_wait_ms=60_000, min_bytes=1, topics=topics)


def list_offsets(draw: Draw) -> list[Step]:
    partitions = [
        {
            "partition_index": index,
            "current_leader_epoch": draw.usually(-1, 0, 1),
            "timestamp": draw.usually(-1, -2, -3, 1_700_000_000_000, 1_700_000_001_000, 0, -7, odds=0.4),
        }
        for index in draw.some([0, 1, 9])
    ]
    topics = [{"name": topic(draw), "partitions": partitions}]
    return ask(
        draw,
        "ListOffsets",
        "plain",
        replica_id=draw.usually(-1, -2, odds=0.95),
        isolation_level=draw.usually(0, 1),
        topics=topics,
        timeout_ms=5000,
    )


def leader_epoch(draw: Draw) -> list[Step]:
    partitions = [
        {
            "partition": index,
            "current_leader_epoch": draw.usually(-1, 0, 1),
            "leader_epoch": draw.usually(0, 1, -1),
        }
        for index in draw.some([0, 1, 9])
    ]
    topics = [{"topic": topic(draw), "partitions": partitions}]
    return ask(draw, "OffsetForLeaderEpoch", "plain", replica_id=draw.usually(-1, -2), topics=topics)


def delete_records(draw: Draw) -> list[Step]:
    partitions = [
        {"partition_index": index, "offset": draw.usually(draw.randint(0, 4), -1, -2, 99)}
        for index in draw.some([0, 1, 9])
    ]
    topics = [{"name": topic(draw), "partitions": partitions}]
    return ask(draw, "DeleteRecords", "admin", topics=topics, timeout_ms=5000)


def delete_topic(draw: Draw) -> list[Step]:
    return ask(draw, "DeleteTopics", "admin", 5, topic_names=[draw.one(TOPIC, "@u")], timeout_ms=10_000)


kind(
    "fetch sessions",
    begin,
    {
        produce: 6,
        open_session: 4,
        go_on: 10,
        fetch: 3,
        wait: 2,
        list_offsets: 2,
        leader_epoch: 1,
        delete_records: 2,
        delete_topic: 1,
        create_topic: 1,
    },
)
with_restart("fetch sessions")
