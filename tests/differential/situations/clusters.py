"""Metadata, as clients of groups need it."""

from typing import Any

from tests.differential.play import Play
from tests.differential.printed import UNKNOWN_ID
from tests.differential.table import situation


@situation("the topics of a group are described", range(14))
def by_name(w: Play, version: int) -> None:
    w.client("a").ask("Metadata", version, topics=[{"name": "orders"}, {"name": "pages"}])


@situation("an unknown topic is not created unless that is allowed", range(4, 14))
def unknown(w: Play, version: int) -> None:
    a = w.client("a")
    a.ask(
        "Metadata", version, topics=[{"name": "nothing"}, {"name": "orders"}], allow_auto_topic_creation=False
    )


@situation("no topics are asked for", range(1, 14))
def none(w: Play, version: int) -> None:
    w.client("a").ask("Metadata", version, topics=[])


@situation("Metadata of topics by id", (10, 11, 12, 13))
def by_id(w: Play, version: int) -> None:
    a = w.client("a")
    a.ask("Metadata", version, topics=[{"name": None, "topic_id": "orders"}])
    a.ask("Metadata", version, topics=[{"name": None, "topic_id": UNKNOWN_ID}])
    a.ask("Metadata", version, topics=[{"name": "orders", "topic_id": UNKNOWN_ID}])


@situation("the topic of the offsets is internal", (1, 13))
def internal(w: Play, version: int) -> None:
    w.learn("__consumer_offsets")
    w.client("a").ask("Metadata", version, topics=[{"name": "__consumer_offsets"}])


@situation("a topic grows, and its members learn of it")
def grown(w: Play) -> None:
    a = w.client("a")
    name = w.topic(1)
    a.commit((name, 1, 5))
    topics = [{"name": name, "count": 3, "assignments": None}]
    a.ask("CreatePartitions", 3, topics=topics, timeout_ms=10_000, validate_only=False)
    w.pause(500)
    a.ask("Metadata", 12, topics=[{"name": name}])
    a.commit((name, 1, 5), (name, 2, 6), (name, 3, 7))
    a.fetch(everything=True)


@situation("DescribeTopicPartitions of topics with an invalid name")
def described_oddly(w: Play) -> None:
    a = w.client("a")

    def describe(*names: str, **fields: Any) -> None:
        a.ask("DescribeTopicPartitions", 0, topics=[{"name": name} for name in names], **fields)

    for name in ("a b", "..", ".", "x" * 250, "x" * 249, ""):
        describe(name)
    describe("orders", "a b", "nothing", "é")
    describe("orders", "", "nothing")
    describe("orders", "", cursor={"topic_name": "orders", "partition_index": 1})
    describe("orders", "a b", "pages", cursor={"topic_name": "a b", "partition_index": 0})


@situation("Metadata of topics with an invalid name", (1, 8, 10, 12, 13))
def asked_for_oddly(w: Play, version: int) -> None:
    a = w.client("a")
    for names in (["a b"], [""], ["orders", "", ".."]):
        for operations in (False, True):
            topics = [{"name": name} for name in names]
            a.ask("Metadata", version, topics=topics, include_topic_authorized_operations=operations)
