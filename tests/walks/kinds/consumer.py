"""Walks of consumer groups (KIP-848): members that beat, own, leave and come back, beside those of classic groups."""

from typing import Any

from tests.walks.kinds import classic
from tests.walks.kinds.shared import (
    GROUP,
    TOPIC,
    ask,
    client,
    commit,
    create_topic,
    delete_groups,
    delete_offsets,
    describe_consumer_groups,
    describe_groups,
    fetch_offsets,
    group,
    list_groups,
)
from tests.walks.plan import Draw, Step, kind, with_restart

EPOCH = "$epoch."


def entering(draw: Draw, of: str) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "member_id": f"m-{of}",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    }


def enter(draw: Draw) -> list[Step]:
    of = client(draw)
    fields = entering(draw, of) | {
        "subscribed_topic_names": draw.usually(
            ["orders"], ["pages"], ["orders", "pages"], ["nothing"], odds=0.7
        ),
        "instance_id": draw.usually(None, f"i-{of}", "i-a", odds=0.8),
        "server_assignor": draw.usually(None, "uniform", "range", odds=0.9),
    }
    if draw.random() < 0.2:
        return ask(draw, "ConsumerGroupHeartbeat", of, 0, **fields | {"member_id": f"$member.{of}"})
    return ask(draw, "ConsumerGroupHeartbeat", of, 1, **fields)


def enter_wrong(draw: Draw) -> list[Step]:
    of = client(draw)
    wrong: list[dict[str, Any]] = [
        {"rebalance_timeout_ms": -1},
        {"rebalance_timeout_ms": 0},
        {"topic_partitions": None},
        {"topic_partitions": [{"topic_id": "orders", "partitions": [0]}]},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": ["orders", "orders"]},
        {"subscribed_topic_names": ["", "a b"]},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rack_id": "r"},
        {"server_assignor": "best"},
        {"server_assignor": ""},
        {"subscribed_topic_names": None, "subscribed_topic_regex": "[a"},
        {"subscribed_topic_names": None, "subscribed_topic_regex": "ord.*"},
        {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
        {"subscribed_topic_regex": "pages"},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"member_epoch": -2, "instance_id": f"i-{of}"},
        {"member_epoch": 1},
        {"member_id": ""},
        {"member_id": " "},
        {"group_id": ""},
        {"member_epoch": 0, "instance_id": "i-b", "member_id": f"n-{of}"},
    ]
    return ask(draw, "ConsumerGroupHeartbeat", of, 1, **entering(draw, of) | draw.one(*wrong))


def beat(draw: Draw) -> list[Step]:
    of = client(draw)
    epoch = f"{EPOCH}{of}"
    fields: dict[str, Any] = {
        "group_id": group(draw),
        "member_id": draw.usually(f"$member.{of}", f"m-{of}", "nobody", "", odds=0.9),
        "member_epoch": draw.usually(epoch, f"{epoch}-1", f"{epoch}+1", 0, odds=0.85),
        "instance_id": draw.usually(None, f"i-{of}", "i-a", odds=0.85),
        "topic_partitions": draw.usually(
            f"$assigned.{of}", None, [], [{"topic_id": "orders", "partitions": [0]}], odds=0.6
        ),
        "rebalance_timeout_ms": draw.usually(-1, 60_000, 0, odds=0.8),
        "subscribed_topic_names": draw.usually(
            None, ["orders"], ["pages"], [], ["orders", "pages"], odds=0.7
        ),
        "server_assignor": draw.usually(None, "uniform", "range", "best", odds=0.93),
    }
    return ask(draw, "ConsumerGroupHeartbeat", of, **fields)


def reconcile(draw: Draw) -> list[Step]:
    """Members say that they own what they were assigned, and get the rest."""
    steps = []
    for of in draw.some(["a", "b", "c"]) * 2:
        fields = {
            "group_id": GROUP,
            "member_id": f"$member.{of}",
            "member_epoch": f"{EPOCH}{of}",
            "topic_partitions": f"$assigned.{of}",
        }
        steps += ask(draw, "ConsumerGroupHeartbeat", of, 1, **fields)
    return steps


def leave(draw: Draw) -> list[Step]:
    of = client(draw)
    fields = {
        "group_id": GROUP,
        "member_id": draw.usually(f"$member.{of}", "nobody"),
        "member_epoch": draw.usually(-1, -2, odds=0.7),
        "instance_id": draw.usually(None, f"i-{of}", odds=0.7),
    }
    return ask(draw, "ConsumerGroupHeartbeat", of, 1, **fields)


def committed(draw: Draw) -> list[Step]:
    return commit(draw, EPOCH)


def fetched(draw: Draw) -> list[Step]:
    return fetch_offsets(draw, EPOCH)


def change_topic(draw: Draw) -> list[Step]:
    """The topics of subscriptions come, grow and go."""
    return draw.one(
        create_topic(draw, 2),
        ask(
            draw,
            "CreatePartitions",
            "admin",
            3,
            topics=[{"name": TOPIC, "count": 4, "assignments": None}],
            timeout_ms=10_000,
        ),
        ask(draw, "DeleteTopics", "admin", 5, topic_names=[TOPIC], timeout_ms=10_000),
    )


def subscribe_to_own(draw: Draw) -> list[Step]:
    of = client(draw)
    fields = entering(draw, of) | {"subscribed_topic_names": draw.one([TOPIC], [TOPIC, "orders"])}
    return ask(draw, "ConsumerGroupHeartbeat", of, 1, **fields)


ACTIONS = {
    enter: 5,
    enter_wrong: 3,
    beat: 8,
    reconcile: 6,
    leave: 3,
    committed: 3,
    fetched: 2,
    subscribe_to_own: 1,
    change_topic: 1,
    describe_consumer_groups: 4,
    describe_groups: 1,
    list_groups: 1,
    delete_groups: 1,
    delete_offsets: 1,
}
kind("consumer groups", enter, ACTIONS)
kind(
    "classic members of consumer groups",
    lambda draw: draw.one(enter, classic.enter)(draw),
    ACTIONS
    | {
        classic.join: 4,
        classic.enter: 3,
        classic.all_join: 2,
        classic.sync: 5,
        classic.beat: 3,
        classic.leave: 2,
    },
)
with_restart("consumer groups")
