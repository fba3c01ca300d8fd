"""Longer sessions of several members of consumer groups (KIP-848), step by step.

What depends on the ids that a broker makes is not here: tests/coordinator/record_consumer_sessions.py.
"""

from typing import Any

from tests.differential.play import Play
from tests.differential.situations.members import (
    assignment,
    consumer,
    create,
    drop,
    member,
    owning,
    settle,
    topics_of_sessions,
    unrecorded,
)
from tests.differential.table import situation


@situation(
    "ConsumerGroupHeartbeat and ConsumerGroupDescribe that are refused, in both versions", setting="consumers"
)
def refusals(w: Play) -> None:
    """Requests that are wrong in themselves, in both versions."""
    topics_of_sessions(w)
    a = consumer(w, "a")
    for version in (0, 1):
        a.group = f"{w.group} {version}"
        a.join("orders", version=version, member_id="")
        a.epoch = 0
        wrong: list[dict[str, Any]] = [
            {"member_id": " "},
            {"rebalance_timeout_ms": -1},
            {"topic_partitions": None},
            {"topic_partitions": {bytes(16): [0]}},
            {"subscribed_topic_names": None},
            {"instance_id": ""},
            {"instance_id": " "},
            {"rack_id": ""},
            {"server_assignor": "nope"},
            {"server_assignor": ""},
            {"member_epoch": -2},
            {"member_epoch": -3},
            {"member_epoch": -1},
            {"member_epoch": -1, "member_id": ""},
            {"member_epoch": 3, "member_id": ""},
            {"member_epoch": 3},
            {"member_epoch": -2, "instance_id": "nobody"},
        ]
        for fields in wrong:
            a.join("orders", version=version, **{"member_id": "m", **fields})
        group, a.group = a.group, ""
        a.join("orders", version=version, member_id="m")
        a.group = " "
        a.join("orders", version=version, member_id="m")
        a.group = f"{w.group} unknown"
        for epoch in (-2, -1, 0, 1):
            fields = {"member_id": "m", "member_epoch": epoch, "instance_id": "i", "topic_partitions": None}
            a.beat(version, **fields)
        a.group = group
        a.describe("", f"{w.group} unknown", group, version=version, operations=True)


@situation(
    "OffsetCommit and OffsetFetch of consumers with each member epoch",
    setting="consumers",
)
def commits(w: Play) -> None:
    """What members may commit and fetch, with which epochs."""
    topics_of_sessions(w)
    a, b, c = consumer(w, "a"), consumer(w, "b"), consumer(w, "c")
    a.member_id, b.member_id = "m-1", "m-2"
    a.commit(generation_id_or_member_epoch=-1, member_id="")
    a.join("orders")
    a.commit()
    b.join("orders")
    a.commit()
    a.beat()
    a.confirm()
    b.confirm()
    for each in (a, b):
        for epoch in (-2, -1, 0, 1, 2, 3, 4):
            for partition in (0, 1, 2, 3):
                each.commit(partition, generation_id_or_member_epoch=epoch)
    a.commit(9)
    a.commit(version=8)
    a.commit(version=8, member_id="x")
    a.commit(generation_id_or_member_epoch=-1, member_id="")
    a.commit(group_instance_id="i")
    for epoch in (-1, 0, 2, 3, 4):
        a.fetch(member_epoch=epoch)
    a.fetch(member_id=None, member_epoch=-1)
    a.fetch(member_id=None, member_epoch=3)
    a.fetch(member_id="", member_epoch=-1)
    a.fetch(member_id="x", member_epoch=3)
    a.fetch(8)
    c.group = a.group
    for topic in ("orders", "clicks"):
        c.delete_offsets((topic, 0, 1))
    c.delete_groups(a.group)
    a.leave()
    b.leave()
    a.commit(generation_id_or_member_epoch=-1, member_id="")
    a.commit()
    a.fetch()
    a.fetch(member_id=None, member_epoch=-1)
    c.delete_offsets(("orders", 0))
    c.delete_groups(a.group, f"{w.group} unknown")
    a.describe()


@situation("static members of a consumer group leave and come back, step by step", setting="consumers")
def static(w: Play) -> None:
    """Static members that leave and come back."""
    topics_of_sessions(w)
    a, b, c = consumer(w, "a"), consumer(w, "b"), consumer(w, "c")
    a.member_id, b.member_id, c.member_id = "m-a", "m-b", "m-c"
    a.instance = b.instance = "one"
    c.instance = "two"
    a.join("orders")
    c.join("orders")
    settle(a, c)
    b.join("orders")  # in use
    b.epoch = 2
    b.beat()  # fenced
    b.leave(-2)
    a.describe()
    a.leave(-2)
    c.describe()
    c.confirm()
    a.beat()
    a.epoch = 3
    b.epoch = 0
    b.join("orders")
    b.describe()
    settle(b, c)
    a.confirm()
    b.leave(-2)
    b.join("orders", "clicks")  # the same member id
    settle(b, c)
    b.describe()
    b.leave(-2)
    a.member_id = "m-d"
    a.join("clicks", instance_id="one")
    settle(a, c)
    c.describe()
    c.commit(group_instance_id="one")
    a.leave(-1)
    a.join("orders")
    settle(a, c)
    a.beat(instance_id="three")
    a.beat(instance_id=None)
    a.beat(instance_id="two")
    a.leave()
    c.leave(-2)
    c.describe()
    w.pause(2000)  # it has not come back
    c.describe()


@situation("GROUP_MAX_SIZE_REACHED: a consumer group of six members at most", setting="consumers")
def full(w: Play) -> None:
    """A group that has no room."""
    topics_of_sessions(w)
    members = []
    for index in range(7):
        member = consumer(w, f"m{index}")
        member.member_id = f"member-{index}"
        member.join("wide")
        members.append(member)
    members[0].beat()
    members[0].join("wide")
    members[6].beat(
        0,
        member_id="",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topic_names=[],
        topic_partitions=[],
    )
    members[6].beat(member_epoch=1)
    for each in members[:6]:
        each.leave()


@situation("group.consumer.assignment.interval.ms: a new assignment waits for its time", setting="interval")
def interval(w: Play) -> None:
    """A new assignment waits for its time."""
    topics_of_sessions(w)
    a, b, c = consumer(w, "a"), consumer(w, "b"), consumer(w, "c")
    a.member_id, b.member_id, c.member_id = "m-a", "m-b", "m-c"
    a.join("orders")
    b.join("orders")
    a.describe()
    a.confirm()
    c.join("orders", "clicks")
    a.describe()
    w.pause(1200)
    a.beat()
    a.describe()
    settle(a, b, c)
    a.describe()
    c.leave()
    a.describe()
    settle(a, b)
    w.pause(1100)
    settle(a, b)
    a.describe()


@situation(
    "regular expressions of a consumer group: found later, refreshed when topics are created",
    setting="consumers",
)
def regex(w: Play) -> None:
    """Regular expressions: found after the answer, refreshed when topics come."""
    topics_of_sessions(w)
    a, b, c = consumer(w, "a"), consumer(w, "b"), consumer(w, "c")
    a.member_id, b.member_id, c.member_id = "m-a", "m-b", "m-c"
    for bad in ("(", "a**", "[z-a]", "\\", "(?=x)", "x{1001}", "*"):
        a.join(subscribed_topic_names=None, subscribed_topic_regex=bad)
    a.join(subscribed_topic_names=None, subscribed_topic_regex="cli.*|or[a-e]+rs")
    w.pause(300)
    a.describe()
    a.confirm()
    a.describe()
    b.join(subscribed_topic_names=["pages"], subscribed_topic_regex="cli.*|or[a-e]+rs")
    w.pause(300)
    settle(a, b)
    a.describe()
    c.join(subscribed_topic_names=None, subscribed_topic_regex="")
    settle(a, b, c)
    c.describe()
    c.beat(subscribed_topic_regex="pag.s")  # another expression, within the pause
    w.pause(300)
    settle(a, b, c)
    c.describe()
    b.beat(subscribed_topic_regex="")
    settle(a, b, c)
    c.describe()
    create(a, clippings=2)
    settle(a, b, c)
    c.describe()
    for _ in range(24):  # beyond the pause of 10 s, with heartbeats in time
        w.pause(500)
        for each in (a, b, c):
            unrecorded(w, each.confirm)
    settle(b, c, a)
    c.describe()
    drop(a, "clippings")
    settle(a, b, c)
    c.describe()
    a.beat(subscribed_topic_regex="(")
    a.leave()
    settle(b, c)
    c.describe()
    c.leave()
    b.leave()
    b.describe()
    b.delete_groups(b.group)


@situation("an empty group of one protocol is taken over by members of the other", setting="consumers")
def empty(w: Play) -> None:
    """Empty groups of one kind give way to members of the other."""
    topics_of_sessions(w)
    a = consumer(w, "a")
    old = member(w, "old")
    old.group, a.member_id = a.group, "m-a"
    old.commit(generation_id_or_member_epoch=-1)
    a.join("orders")  # over a simple group
    a.describe()
    a.commit()
    old.join(protocol_type="connect")
    old.joined()
    a.leave()
    old.join(member_id="not-here")
    old.joined()
    old.member_id = ""
    old.join()
    old.joined()
    a.describe()
    a.list_groups()
    a.describe_classic(a.group)
    old.join(protocol_type="consumer")
    old.joined()
    old.sync(members={old.member_id: b""})
    old.receive()
    a.describe_classic(a.group)
    old.leave()
    a.epoch = 0
    a.join("orders")
    a.describe()
    a.fetch()
    a.leave()
    old.commit(generation_id_or_member_epoch=-1, member_id="")
    a.delete_groups(a.group)
    a.list_groups()


@situation("static members come back with the other protocol", setting="consumers")
def static_upgrade(w: Play) -> None:
    """Static members that come back with the other protocol."""
    topics_of_sessions(w)
    a, b = consumer(w, "a"), consumer(w, "b")
    x, y = (member(w, name) for name in "xy")
    x.group = y.group = a.group
    x.instance, y.instance = "one", "two"
    x.protocols = y.protocols = (("range", owning()),)
    x.enter()
    x.joined()
    x.sync(members={x.member_id: assignment(0, 1, 2, 3)})
    x.receive()
    y.enter()
    x.join()
    x.joined()
    y.joined()
    y.sync()
    x.sync(members={x.member_id: assignment(0, 1), y.member_id: assignment(2, 3)})
    x.receive()
    y.receive()
    a.member_id, a.instance = "m-a", "one"
    a.join("orders")  # in the place of x
    a.describe()
    x.beat()
    settle(a)
    y.beat()
    y.join(protocols=(("range", owning(2, 3)),))
    y.joined()
    y.sync()
    y.receive()
    b.member_id, b.instance = "m-b", "two"
    b.join("orders")  # in the place of y
    settle(a, b)
    b.describe()
    y.member_id = ""
    y.join(protocols=(("range", owning()),))  # back again
    y.joined()
    b.describe()
    b.confirm()
    y.sync()
    y.receive()
    settle(a)
    x.member_id = ""
    x.join(protocols=(("range", owning()),))  # the last one
    x.joined()
    a.describe()
    a.describe_classic(a.group)
    y.beat()
    x.beat()
    x.sync(members={x.member_id: assignment(0, 1), y.member_id: assignment(2, 3)})
    x.receive()
    a.describe_classic(a.group)
