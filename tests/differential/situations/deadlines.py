"""Requests whose time is over when they arrive: a timeout of 0 or less."""

from typing import Any

from tests.differential.play import Play
from tests.differential.situations.records import batch, produced_to
from tests.differential.table import situation

SETTLED_MS = 300
"""After this Kafka has done what it does after its answer."""

NO_TIME = 0, -1, -(2**31)
"""Timeouts that are over when a request arrives."""


def new(name: str, count: int = 1, factor: int = 1) -> dict[str, Any]:
    """A topic to create."""
    return {
        "name": name,
        "num_partitions": count,
        "replication_factor": factor,
        "assignments": [],
        "configs": [],
    }


@situation("CreateTopics with a timeout of 0 or less", (2, 4, 7))
def created_at_once(w: Play, version: int) -> None:
    a = w.client("a")

    def create(*topics: dict[str, Any], timeout_ms: int = 0, **fields: Any) -> None:
        a.ask("CreateTopics", version, topics=list(topics), timeout_ms=timeout_ms, **fields)

    for number, timeout_ms in enumerate(NO_TIME):
        name = f"{w.slug}-{number}"
        create(new(name), timeout_ms=timeout_ms)
        w.pause(SETTLED_MS)
        a.ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
    one, other, internal = new(w.slug), new(w.slug + "x", 0), new("__cluster_metadata")
    create(one, validate_only=True)
    create(new("a b"), new("orders"))
    create(one, one, other, internal)
    create(one, one)
    create(one, one, internal)
    create(new("x", 2, 5), new(""))
    create()
    create(new("y", 10_001))
    create(internal)


@situation("DeleteTopics with a timeout of 0 or less", (1, 5))
def deleted_at_once(w: Play, version: int) -> None:
    a = w.client("a")
    for number, timeout_ms in enumerate(NO_TIME):
        name = w.topic(1, f"{w.slug}-{number}")
        a.ask("DeleteTopics", version, topic_names=[name], timeout_ms=timeout_ms)
        w.pause(SETTLED_MS)
        a.ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
    for names in (["nothing", "a b", ""], ["orders", "orders", "nothing"], ["orders", "orders"], []):
        a.ask("DeleteTopics", version, topic_names=names, timeout_ms=0)


@situation("DeleteTopics by topic id with a timeout of 0 or less")
def deleted_by_id_at_once(w: Play) -> None:
    a, name = w.client("a"), w.topic(1)

    def delete(*topics: dict[str, Any], timeout_ms: int = 0) -> None:
        a.ask("DeleteTopics", 6, topics=list(topics), timeout_ms=timeout_ms)

    by_id = {"name": None, "topic_id": name}
    for timeout_ms in NO_TIME:
        delete(by_id, timeout_ms=timeout_ms)
        w.pause(SETTLED_MS)
        a.ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
    delete({"name": "nothing"}, {"name": None})
    for wrong in ({"name": None}, {"name": name, "topic_id": name}):  # alone: Kafka shuffles such responses
        delete(wrong)
    delete(by_id, by_id)
    delete({"name": None, "topic_id": "nothing"}, by_id, by_id)


@situation("CreatePartitions with a timeout of 0 or less", (0, 2, 3))
def grown_at_once(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)

    def grow(timeout_ms: int, *wanted: tuple[str, int], validate_only: bool = False) -> None:
        topics = [{"name": topic, "count": count, "assignments": None} for topic, count in wanted]
        fields = {"topics": topics, "timeout_ms": timeout_ms, "validate_only": validate_only}
        a.ask("CreatePartitions", version, **fields)

    for count, timeout_ms in enumerate(NO_TIME, 2):
        grow(timeout_ms, (name, count))
        w.pause(SETTLED_MS)
        a.ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
    grow(0, (name, 9), validate_only=True)
    grow(0, ("nothing", 2), (name, 0))
    grow(0, (name, 2), (name, 3), (name, 2))
    grow(0, (name, 2), (name, 3), ("nothing", 2))
    grow(0)


@situation("ElectLeaders with a timeout of 0 or less", (0, 1, 2))
def elected_at_once(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    wanted = [{"topic": name, "partitions": [0, 1]}, {"topic": "nothing", "partitions": [0]}]
    for timeout_ms in NO_TIME:
        for kind in (0, 1, 9):
            for topics in (wanted, [], None):
                fields = {"election_type": kind, "topic_partitions": topics, "timeout_ms": timeout_ms}
                a.ask("ElectLeaders", version, **fields)


@situation("AlterPartitionReassignments with a timeout of 0 or less", (0, 1))
def moved_at_once(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    for timeout_ms in NO_TIME:
        for replicas in ([w.names.broker_id], [9], None):
            partitions = [{"partition_index": index, "replicas": replicas} for index in (0, 7)]
            topics = [{"name": name, "partitions": partitions}, {"name": "nothing", "partitions": partitions}]
            a.ask("AlterPartitionReassignments", version, topics=topics, timeout_ms=timeout_ms)
        a.ask("AlterPartitionReassignments", version, topics=[], timeout_ms=timeout_ms)
        a.ask("ListPartitionReassignments", 0, topics=None, timeout_ms=timeout_ms)


@situation("Produce and DeleteRecords with a timeout of 0 or less")
def written_at_once(w: Play) -> None:
    a, name = w.client("a"), w.topic(2)
    for end_offset, timeout_ms in enumerate(NO_TIME, 1):
        topics = produced_to(name, (0, batch("one")))
        a.ask("Produce", 9, acks=-1, timeout_ms=timeout_ms, topic_data=topics)
        partitions = [{"partition_index": 0, "offset": end_offset}]
        topics = [{"name": name, "partitions": partitions}]
        a.ask("DeleteRecords", 2, topics=topics, timeout_ms=timeout_ms)
