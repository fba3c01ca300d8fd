"""Members of consumer groups that send what clients rarely send, and groups whose topics and members change at once."""

from tests.differential.play import Play, subscription
from tests.differential.situations.consumer_groups import beat, describe, enter, held, own, owned
from tests.differential.table import situation

SETTLE_MS = 1200
"""A Kafka answers when its controller knows, and its coordinator follows; and a group has an assignment a second."""


@situation("consumers with the shortest and the longest rebalance timeout", setting="modern")
def rebalance_timeouts(w: Play) -> None:
    for number, timeout_ms in enumerate((1, 2**31 - 1, -2, -(2**31))):
        a = w.client("abcd"[number])
        a.group = f"{w.group}-{number}"
        own(a, enter(a, rebalance_timeout_ms=timeout_ms))
        describe(a)


@situation("a consumer changes its rack and its assignor", setting="modern")
def racks(w: Play) -> None:
    a, b = w.clients("ab")
    own(a, enter(a, rack_id="one", server_assignor="range"))
    beat(a, rack_id="two")
    beat(a, server_assignor="uniform")
    describe(a)
    enter(b, server_assignor="range")
    beat(a, server_assignor="range")
    beat(a, topic_partitions=[])
    beat(b)
    beat(a)
    describe(a)


@situation("a consumer owns partitions that it cannot have", setting="modern")
def impossible(w: Play) -> None:
    a, b = w.clients("ab")
    enter(a)
    for partitions in (
        {"orders": [9]},
        {"orders": [0, 0, 0]},
        {"pages": [0]},
        {"nothing": [1]},
        {"orders": [-1]},
        {"orders": [2**31 - 1]},
        {"orders": []},
    ):
        beat(a, topic_partitions=owned(partitions))
    beat(a, topic_partitions=owned({"orders": [0, 1]}) + owned({"orders": [2]}))
    enter(b)
    for partitions in ({"orders": [0, 1, 2, 3, 9]}, {"orders": [0, 0, 1, 1]}, {}):
        beat(a, topic_partitions=owned(partitions))
        beat(b)
        describe(a)


@situation("a topic is deleted and created again while a consumer owns it", setting="modern")
def deleted_topic(w: Play) -> None:
    a, topic = w.client("a"), w.topic(2)
    own(a, enter(a, subscribed_topic_names=[topic, "orders"]))
    a.commit((topic, 0, 5))
    a.ask("DeleteTopics", 5, topic_names=[topic], timeout_ms=5000)
    w.pause(SETTLE_MS)
    own(a, beat(a))
    describe(a)
    w.topic(3, topic)
    w.pause(SETTLE_MS)
    own(a, beat(a))
    describe(a)
    a.fetch((topic, 0))


@situation("a topic grows while two consumers reconcile", setting="modern")
def growing_topic(w: Play) -> None:
    a, b = w.clients("ab")
    topic = w.topic(2)
    own(a, enter(a, subscribed_topic_names=[topic]))
    enter(b, subscribed_topic_names=[topic])
    wanted = {"name": topic, "count": 5, "assignments": None}
    a.ask("CreatePartitions", 3, topics=[wanted], timeout_ms=5000, validate_only=False)
    w.pause(SETTLE_MS)
    for _ in range(3):
        for member in (a, b):
            answer = beat(member)
            if held(member, answer):
                own(member, answer)
        describe(a)


@situation("a static consumer is replaced while it must give partitions up", setting="modern")
def replaced(w: Play) -> None:
    a, b, c = w.client("a", instance="one"), w.client("b"), w.client("c", instance="one")
    own(a, enter(a))
    enter(b)
    beat(a)
    enter(c)
    beat(a, member_epoch=-2)
    enter(c)
    beat(b)
    describe(c)
    beat(c, member_epoch=-2)
    enter(a)
    describe(a)
    beat(c)


@situation("consumers that leave a group with fewer partitions than members", setting="modern")
def leaving(w: Play) -> None:
    members, topic = w.clients("abc"), w.topic(2)
    for newcomer in members:
        enter(newcomer, subscribed_topic_names=[topic])
        for member in members:
            if member.generation >= 0:
                answer = beat(member)
                if answer.assignment is not None:
                    own(member, answer)
    describe(members[0])
    for leaver in members:
        beat(leaver, member_epoch=-1)
        for member in members:
            if member.generation > 0:
                beat(member)
                describe(member)


@situation("a consumer repeats some of its fields, and all of them", setting="modern")
def repeated(w: Play) -> None:
    a = w.client("a")
    enter(a)
    beat(a, rebalance_timeout_ms=10_000, subscribed_topic_names=["orders"], topic_partitions=[])
    beat(a, rebalance_timeout_ms=5)
    beat(a, subscribed_topic_names=["orders"])
    mine = owned({"orders": [0, 1, 2, 3]})
    beat(a, topic_partitions=mine, subscribed_topic_names=["orders"], rebalance_timeout_ms=9)
    beat(a, topic_partitions=mine, rebalance_timeout_ms=9, subscribed_topic_regex="")
    beat(a, instance_id="new")
    beat(a, rack_id="x" * 300)
    describe(a)


@situation("member epochs at the limits, in heartbeats, commits and fetches", setting="modern")
def epochs(w: Play) -> None:
    a = w.client("a")
    enter(a)
    for epoch in (2**31 - 1, -4, -(2**31), 3, 0, 1):
        beat(a, member_epoch=epoch, topic_partitions=[])
    for epoch in (2**31 - 1, -1, -2, 0, 1):
        a.commit(("orders", 0, 5), generation_id_or_member_epoch=epoch)
        a.fetch(("orders", 0), version=9, member_id=a.member_id, member_epoch=epoch)


@situation("every classic request of a member in a consumer group", setting="modern")
def classic_member(w: Play) -> None:
    a, b = w.client("a"), w.client("b", session_ms=1500)
    own(a, enter(a))
    b.enter()
    own(a, beat(a))
    b.answer()
    b.sync()
    b.beat()
    b.commit(("orders", 0, 4))
    b.commit(("orders", 0, 4), version=8)
    b.commit(("orders", 0, 4), generation_id_or_member_epoch=0)
    b.fetch(("orders", 0), version=9, member_id=b.member_id, member_epoch=b.generation)
    b.fetch(("orders", 0), version=9, member_id=b.member_id, member_epoch=0)
    b.join()
    b.sync()
    b.beat(generation_id=77)
    b.sync(generation_id=77)
    describe(a)
    b.leave()
    describe(a)
    b.beat()


@situation("the last consumer leaves while a classic member must sync", setting="modern")
def downgraded(w: Play) -> None:
    a, b = w.client("a"), w.client("b", session_ms=1500)
    own(a, enter(a))
    b.enter()
    b.answer()
    beat(a, member_epoch=-1)
    b.sync()
    b.describe()
    b.beat()
    b.join()
    b.sync({b: b"x"})
    b.describe()


@situation("a classic member with another subscription joins a consumer group", setting="modern")
def other_subscription(w: Play) -> None:
    a, b = w.client("a"), w.client("b", session_ms=1500)
    c = w.client("c", session_ms=1500, protocols=(("range", subscription("pages")),))
    w.stable(b)
    enter(a)
    b.beat()
    b.join()
    b.sync()
    beat(a)
    c.enter()
    b.beat()
    c.answer()
    c.sync()
    describe(a)
    c.leave()
    b.leave()
    describe(a)


@situation("a connection with members of two consumer groups", setting="modern")
def two_groups(w: Play) -> None:
    a = w.client("a")
    enter(a)
    epoch = a.generation
    a.group = w.group + "-2"
    enter(a)
    describe(a, w.group, a.group)
    a.group = w.group
    beat(a, member_epoch=epoch)
    for types in (["consumer"], ["CONSUMER", "classic", ""], ["share"], ["nothing"]):
        a.list_groups(types=types)
    a.list_groups(states=["stable", "EMPTY", " Stable"])


@situation("LeaveGroup of static consumers by instance, by member id and by both", setting="modern")
def left(w: Play) -> None:
    a, b = w.client("a", instance="i"), w.client("b")
    for members in ([("", "i")], [("member-a", None)], [("member-a", "x"), ("", "no"), ("member-a", "i")]):
        enter(a)
        b.leave(*members)
        describe(a)
    enter(a)
    b.leave(member_id=a.member_id, version=2)
    b.beat()
