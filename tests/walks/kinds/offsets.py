"""Walks of offsets: committed, fetched and deleted by nobody's member, with topics that come and go."""

from tests.walks.kinds.shared import (
    TOPIC,
    ask,
    commit,
    create_topic,
    delete_groups,
    delete_offsets,
    describe_groups,
    fetch_offsets,
    find_coordinator,
    list_groups,
)
from tests.walks.plan import Draw, Step, kind, with_restart


def topics(draw: Draw) -> str:
    return draw.usually(draw.one(TOPIC, "orders", "pages"), "nothing", "", "a b", odds=0.92)


def committed(draw: Draw) -> list[Step]:
    return commit(draw, topics=topics)


def fetched(draw: Draw) -> list[Step]:
    return fetch_offsets(draw, topics=topics)


def deleted(draw: Draw) -> list[Step]:
    return delete_offsets(draw, topics=topics)


def delete_topic(draw: Draw) -> list[Step]:
    return ask(draw, "DeleteTopics", "admin", 5, topic_names=[TOPIC], timeout_ms=10_000)


kind(
    "offsets",
    create_topic,
    {
        committed: 8,
        fetched: 8,
        deleted: 3,
        delete_groups: 1,
        list_groups: 1,
        describe_groups: 1,
        find_coordinator: 1,
        delete_topic: 1,
        create_topic: 1,
    },
)
with_restart("offsets")
