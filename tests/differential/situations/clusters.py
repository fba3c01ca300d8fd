"""Metadata, as clients of groups need it."""

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


@situation("topics are asked for by id", (10, 11, 12, 13))
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
