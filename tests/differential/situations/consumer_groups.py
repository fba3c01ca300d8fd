"""Consumer groups of KIP-848: ConsumerGroupHeartbeat, ConsumerGroupDescribe, and the other APIs on such groups."""

from typing import Any

from tests.differential.play import ORDERS, Client, Play
from tests.differential.table import situation

BOTH_VERSIONS = (0, 1)
ENTERING: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 10_000,
    "subscribed_topic_names": ["orders"],
    "topic_partitions": [],
}
ALL_ORDERS = {"orders": [0, 1, 2, 3]}


def owned(partitions: dict[str, list[int]]) -> list[dict[str, Any]]:
    """What a member says that it owns."""
    return [
        {"topic_id": topic, "partitions": sorted(indexes)} for topic, indexes in sorted(partitions.items())
    ]


def beat(a: Client, version: int = 1, **fields: Any) -> Any:
    """A heartbeat that says nothing new."""
    own = {
        "group_id": a.group,
        "member_id": a.member_id,
        "member_epoch": a.generation,
        "instance_id": a.instance,
    }
    return a.ask("ConsumerGroupHeartbeat", version, **own | fields)


def enter(a: Client, version: int = 1, **fields: Any) -> Any:
    """The first heartbeat of a member."""
    if not a.member_id:
        a.member_id = f"member-{a.label}"
    return beat(a, version, **ENTERING | fields)


def own(a: Client, answer: Any) -> Any:
    """A heartbeat that says that the member owns what it was assigned last."""
    return beat(a, topic_partitions=owned(held(a, answer)))


def held(a: Client, answer: Any) -> dict[str, list[int]]:
    """The partitions of an answer by topic."""
    assignment = getattr(answer, "assignment", None)
    topics = assignment.topic_partitions if assignment else []
    names = a.play.names
    found = {names.topic_text(t.topic_id).removeprefix("id of "): list(t.partitions) for t in topics}
    return dict(sorted(found.items()))


def describe(a: Client, *groups: str, version: int = 1, **fields: Any) -> Any:
    """ConsumerGroupDescribe."""
    return a.ask("ConsumerGroupDescribe", version, group_ids=list(groups or [a.group]), **fields)


@situation("a consumer alone is assigned everything at once", BOTH_VERSIONS, "modern")
def alone(w: Play, version: int) -> None:
    a = w.client("a")
    answer = enter(a, version)
    beat(a, version)
    own(a, answer)
    beat(a, version)
    describe(a, version=version)


@situation("the broker makes the member id in version 0", setting="modern")
def made_id(w: Play) -> None:
    a = w.client("a")
    beat(a, 0, **ENTERING)
    beat(a, 0)
    describe(a)


@situation("version 1 demands a member id", setting="modern")
def no_id(w: Play) -> None:
    beat(w.client("a"), 1, **ENTERING)


@situation("versions of ConsumerGroupHeartbeat that do not exist close the connection", setting="modern")
def no_such_version(w: Play) -> None:
    beat(w.client("a"), 2, **ENTERING)


@situation("ConsumerGroupHeartbeat without a group", BOTH_VERSIONS, "modern")
def no_group(w: Play, version: int) -> None:
    enter(w.client("a"), version, group_id="")


WRONG: dict[str, dict[str, Any]] = {
    "without a rebalance timeout": {"rebalance_timeout_ms": -1},
    "with no list of owned partitions": {"topic_partitions": None},
    "with partitions that it owns already": {"topic_partitions": owned({"orders": [0]})},
    "with no subscription": {"subscribed_topic_names": None},
    "with an empty instance": {"instance_id": ""},
    "with an empty rack": {"rack_id": ""},
    "with an unknown assignor": {"server_assignor": "best"},
    "with an empty assignor": {"server_assignor": ""},
    "with an invalid regular expression": {"subscribed_topic_names": None, "subscribed_topic_regex": "[a"},
    "with epoch -3": {"member_epoch": -3},
    "with epoch -1": {"member_epoch": -1},
    "with epoch -2": {"member_epoch": -2},
    "with epoch -2 and an instance": {"member_epoch": -2, "instance_id": "one"},
    "with epoch 1": {"member_epoch": 1},
    "with a rebalance timeout of 0": {"rebalance_timeout_ms": 0},
}


def enter_wrong(sentence: str, fields: dict[str, Any]) -> None:
    """Enter a situation of a request that is wrong in one thing."""

    @situation(sentence, setting="modern")
    def wrong(w: Play) -> None:
        a = w.client("a")
        enter(a, **fields)
        describe(a)


for _what, _fields in WRONG.items():
    enter_wrong(f"ConsumerGroupHeartbeat to join {_what}", _fields)


@situation("a consumer joins a group with invalid requests", setting="modern")
def wrong_in_a_group(w: Play) -> None:
    a, b = w.clients("ab")
    enter(a)
    for fields in WRONG.values():
        b.member_id, b.generation = "", -1
        enter(b, **fields)
        if not b.generation:
            break


@situation("an empty list of topics is a subscription", setting="modern")
def no_topics(w: Play) -> None:
    a = w.client("a")
    enter(a, subscribed_topic_names=[])
    beat(a)
    describe(a)


@situation("members with an empty list of topics beside others", (0, 1), setting="modern")
def empty_lists(w: Play, version: int) -> None:
    a, b, c = w.clients("abc")
    enter(a, version, subscribed_topic_names=[])
    describe(a)
    enter(b, version)
    describe(a)
    beat(a, version)
    beat(a, version, subscribed_topic_names=["pages"])
    beat(a, version, subscribed_topic_names=[])
    describe(a)
    enter(c, version, subscribed_topic_names=[])
    beat(b, version, subscribed_topic_names=[])
    describe(a)


@situation("a member with an empty list of topics that joins again", setting="modern")
def empty_again(w: Play) -> None:
    a = w.client("a", instance="one")
    enter(a, subscribed_topic_names=[])
    own(a, enter(a, subscribed_topic_names=[]))
    beat(a, member_epoch=-2)
    enter(a, subscribed_topic_names=[])
    beat(a, member_epoch=-1)
    describe(a)
    enter(a, subscribed_topic_names=[])
    describe(a)


@situation("a member with an empty list of topics and a regular expression", setting="modern")
def empty_and_pattern(w: Play) -> None:
    a, b = w.clients("ab")
    enter(a, subscribed_topic_names=[], subscribed_topic_regex="")
    describe(a)
    enter(b, subscribed_topic_names=[], subscribed_topic_regex="ord.*")
    w.pause(200)
    beat(b)
    describe(b)


@situation("unknown topics of a subscription are assigned once they exist", setting="modern")
def unknown_topics(w: Play) -> None:
    a = w.client("a")
    enter(a, subscribed_topic_names=[w.slug, "orders"])
    own(a, beat(a, topic_partitions=owned(ALL_ORDERS)))
    w.topic(2)
    w.pause(700)
    answer = beat(a)
    describe(a)
    own(a, answer)


@situation("a consumer whose subscription names topics twice", setting="modern")
def topics_twice(w: Play) -> None:
    a = w.client("a")
    enter(a, subscribed_topic_names=["pages", "orders", "pages"])
    describe(a)


@situation("consumers with the range assignor and all topics", setting="modern")
def range_assignor(w: Play) -> None:
    a = w.client("a")
    answer = enter(a, server_assignor="range", subscribed_topic_names=["orders", "pages"])
    own(a, answer)
    describe(a)


@situation("a consumer subscribes to topics by a regular expression", setting="modern")
def pattern(w: Play) -> None:
    a = w.client("a")
    answer = enter(a, subscribed_topic_names=None, subscribed_topic_regex="o.*s|pa")
    for _ in range(3):
        w.pause(300)
        answer = beat(a)
    describe(a)
    own(a, answer)
    describe(a, version=0)


@situation("a consumer with a regular expression that matches nothing", setting="modern")
def pattern_of_nothing(w: Play) -> None:
    a = w.client("a")
    enter(a, subscribed_topic_names=None, subscribed_topic_regex="nothing at all")
    w.pause(300)
    beat(a)
    describe(a)


@situation("a consumer with an empty regular expression", setting="modern")
def empty_pattern(w: Play) -> None:
    a = w.client("a")
    enter(a, subscribed_topic_names=None, subscribed_topic_regex="")
    enter(a, subscribed_topic_names=["orders"], subscribed_topic_regex="")
    describe(a)


@situation("ConsumerGroupHeartbeat of a member of an unknown group", BOTH_VERSIONS, "modern")
def unknown_group(w: Play, version: int) -> None:
    a = w.client("a", member_id="nobody", generation=5)
    beat(a, version)
    beat(a, version, member_epoch=-1)
    beat(a, version, member_epoch=-2, instance_id="one")
    describe(a)


@situation("ConsumerGroupHeartbeat of an unknown member of a group", BOTH_VERSIONS, "modern")
def unknown_member(w: Play, version: int) -> None:
    a, b = w.client("a"), w.client("b", member_id="nobody", generation=1)
    enter(a)
    beat(b, version)
    beat(b, version, member_epoch=-1)
    beat(b, version, instance_id="one")
    beat(b, version, member_epoch=-2, instance_id="one")
    beat(b, version, member_epoch=-1, instance_id="one")


@situation("ConsumerGroupHeartbeat with a stale or fenced member epoch", setting="modern")
def epochs(w: Play) -> None:
    a = w.client("a")
    enter(a)
    beat(a, member_epoch=a.generation + 1)
    beat(a, member_epoch=a.generation - 1)
    a.ask(
        "ConsumerGroupHeartbeat",
        1,
        group_id=w.group,
        member_id=a.member_id,
        member_epoch=0,
        **{name: value for name, value in ENTERING.items() if name != "member_epoch"},
    )


@situation("ConsumerGroupHeartbeat with the previous member epoch and owned partitions", setting="modern")
def previous_epoch(w: Play) -> None:
    a = w.client("a")
    answer = enter(a)
    own(a, answer)
    before = a.generation
    beat(a, subscribed_topic_names=["orders", "pages"])
    beat(a, member_epoch=before, topic_partitions=owned(ALL_ORDERS))
    beat(a, member_epoch=before, topic_partitions=owned({"orders": [0, 1], "nothing": [0]}))
    beat(a, member_epoch=before, topic_partitions=None)
    beat(a, member_epoch=before - 1, topic_partitions=owned(ALL_ORDERS))


@situation("a full heartbeat gets a full answer", setting="modern")
def full(w: Play) -> None:
    a = w.client("a")
    enter(a)
    fields = {name: value for name, value in ENTERING.items() if name != "member_epoch"}
    beat(a, **fields | {"topic_partitions": owned(ALL_ORDERS)})
    beat(a, **fields)
    beat(a)
    beat(a, subscribed_topic_names=["orders"])


@situation("a member that joins again with member epoch 0", setting="modern")
def enter_again(w: Play) -> None:
    a = w.client("a")
    enter(a)
    enter(a)
    enter(a, subscribed_topic_names=["pages"])
    describe(a)


@situation("a subscription changes", setting="modern")
def subscription_changes(w: Play) -> None:
    a = w.client("a")
    answer = enter(a)
    own(a, answer)
    answer = beat(a, subscribed_topic_names=["pages"])
    own(a, answer)
    beat(a)
    describe(a)


@situation("partitions go to a newcomer once they are given up", setting="modern")
def newcomer(w: Play) -> None:
    a, b = w.clients("ab")
    own(a, enter(a))
    enter(b)
    describe(a)
    answer = beat(a)
    beat(b)
    own(a, answer)
    answer = beat(b)
    own(b, answer)
    beat(a)
    describe(a)


@situation("the partitions of a consumer that leaves go to the others", setting="modern")
def leaves(w: Play) -> None:
    a, b = w.clients("ab")
    own(a, enter(a))
    enter(b)
    beat(b, member_epoch=-1)
    answer = beat(a)
    own(a, answer)
    describe(a)


@situation("the last consumer leaves the group", BOTH_VERSIONS, "modern")
def empty(w: Play, version: int) -> None:
    a = w.client("a")
    enter(a)
    a.commit(("orders", 0, 5))
    epoch, member = a.generation, a.member_id
    beat(a, version, member_epoch=-1)
    describe(a)
    a.list_groups()
    a.fetch(everything=True)
    a.commit(("orders", 0, 6), member_id=member, generation_id_or_member_epoch=epoch)
    a.nobody_commits(("orders", 0, 7))
    beat(a, version, member_id=member, member_epoch=epoch)
    a.generation = -1
    enter(a)
    describe(a)


@situation("a consumer whose session times out is removed", setting="modern")
def session(w: Play) -> None:
    a, b = w.clients("ab")
    enter(a)
    enter(b)
    for _ in range(4):
        w.pause(600)
        beat(a)
    beat(b)
    b.commit(("orders", 0, 1))
    describe(a)


@situation("a consumer that keeps what it must give up is removed", setting="modern")
def revocation(w: Play) -> None:
    a, b = w.clients("ab")
    own(a, enter(a, rebalance_timeout_ms=700))
    enter(b)
    beat(a)
    w.pause(500)
    beat(b)
    w.pause(500)
    beat(a)
    answer = beat(b)
    own(b, answer)


@situation("group.consumer.max.size: a consumer joins a full group", setting="modern")
def full_group(w: Play) -> None:
    for client in w.clients("abcd"):
        enter(client)
    describe(w.client("e"))


@situation("two static consumers with one group instance id: UNRELEASED_INSTANCE_ID", setting="modern")
def static_in_use(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="one")
    enter(a)
    enter(b)
    beat(b, member_epoch=1)
    beat(a)
    describe(a)


@situation("a static consumer leaves temporarily (member epoch -2) and returns", setting="modern")
def static_returns(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="one")
    own(a, enter(a))
    a.commit(("orders", 0, 1), group_instance_id=None)
    epoch = a.generation
    beat(a, member_epoch=-2)
    describe(a)
    beat(a, member_epoch=epoch)
    answer = enter(b)
    own(b, answer)
    beat(a, member_epoch=epoch)
    beat(a, member_epoch=-2)
    beat(a, member_epoch=-1)
    describe(a)


@situation("a static consumer leaves temporarily (member epoch -2) and does not return", setting="modern")
def static_does_not_return(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b")
    own(a, enter(a))
    enter(b)
    beat(a, member_epoch=-2)
    for _ in range(4):
        w.pause(600)
        beat(b)
    describe(b)


@situation("a static consumer leaves for good", setting="modern")
def static_leaves(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="one")
    enter(a)
    beat(a, member_epoch=-1)
    describe(a)
    enter(b)


@situation("ConsumerGroupHeartbeat with a group instance id that does not fit", setting="modern")
def instances(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b")
    enter(a)
    enter(b)
    beat(a, instance_id=None)
    beat(a, instance_id="two")
    beat(b, instance_id="one")
    beat(b, instance_id="two")
    beat(b, member_epoch=-2)


@situation(
    "commits of members of a consumer group: stale member epoch, unknown member", range(2, 11), "modern"
)
def commits(w: Play, version: int) -> None:
    a = w.client("a")
    enter(a)
    epoch = a.generation
    a.commit(("orders", 0, 1), version=version)
    a.commit(("orders", 1, 1), version=version, generation_id_or_member_epoch=epoch + 1)
    a.commit(("orders", 1, 1), version=version, generation_id_or_member_epoch=epoch - 1)
    a.commit(("orders", 1, 1), version=version, generation_id_or_member_epoch=-1)
    a.commit(("orders", 1, 1), version=version, member_id="nobody")
    a.nobody_commits(("orders", 1, 1), version=version)
    a.fetch(everything=True)


@situation("OffsetFetch of a consumer group with member id and epoch", (8, 9, 10), "modern")
def fetches(w: Play, version: int) -> None:
    a = w.client("a")
    enter(a)
    a.commit(("orders", 0, 1))
    epoch = a.generation
    members = [(a.member_id, epoch), (a.member_id, epoch + 1), (a.member_id, epoch - 1), ("nobody", epoch)]
    for member, of in [*members, (None, -1), ("", -1), (None, epoch), (a.member_id, -1)]:
        a.fetch(("orders", 0, 1), version=version, member_id=member, member_epoch=of)
    a.fetch(everything=True, version=version, member_id="nobody", member_epoch=1)


@situation("OffsetDelete of a topic that a consumer group subscribes to", setting="modern")
def offset_deletes(w: Play) -> None:
    a = w.client("a")
    enter(a)
    a.commit(("orders", 0, 1), ("pages", 0, 2))
    a.delete_offsets(("orders", 0), ("pages", 0), ("nothing", 0))
    beat(a, member_epoch=-1)
    a.delete_offsets(("orders", 0))
    a.fetch(everything=True)


@situation("DescribeGroups does not know consumer groups", (0, 5, 6), "modern")
def classic_describe(w: Play, version: int) -> None:
    a = w.client("a")
    enter(a)
    a.describe(version=version)


@situation("consumer groups are listed", range(6), "modern")
def listed(w: Play, version: int) -> None:
    a, b = w.client("a"), w.client("b", group=w.group + " classic")
    enter(a)
    w.stable(b)
    b.list_groups(version)
    if version >= 4:
        for states in (
            ["Stable"],
            ["stable"],
            ["Reconciling"],
            ["Assigning"],
            ["Empty"],
            ["PreparingRebalance"],
        ):
            b.list_groups(version, states)
    if version >= 5:
        for types in (["consumer"], ["CONSUMER"], ["classic"], ["Consumer", "classic"]):
            b.list_groups(version, (), types)
    enter(w.client("c"))
    b.list_groups(version)
    beat(a, member_epoch=-1)
    b.list_groups(version)


@situation("ConsumerGroupDescribe of groups that are not consumer groups", BOTH_VERSIONS, "modern")
def describe_others(w: Play, version: int) -> None:
    a, b = w.client("a", group=w.group + " classic"), w.client("b", group=w.group + " simple")
    w.stable(a)
    b.nobody_commits(("orders", 0, 1))
    describe(a, a.group, b.group, w.group, "", version=version)
    describe(a, a.group, version=version)
    a.ask("ConsumerGroupDescribe", version, group_ids=[])


@situation("operations allowed on consumer groups are reported", BOTH_VERSIONS, "modern")
def operations(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    enter(a, rack_id="here")
    describe(a, version=version, include_authorized_operations=True)


@situation("consumer groups are deleted when they are empty", setting="modern")
def deleted(w: Play) -> None:
    a = w.client("a")
    enter(a)
    a.commit(("orders", 0, 1))
    a.delete_groups()
    beat(a, member_epoch=-1)
    a.delete_groups()
    describe(a)
    a.fetch(everything=True)
    a.delete_groups()


@situation("classic requests of a member of a consumer group", setting="modern")
def classic_requests(w: Play) -> None:
    a = w.client("a")
    enter(a)
    a.beat()
    a.sync()
    a.leave(("nobody", None), ("", "one"))
    a.leave()
    describe(a)
    beat(a)


@situation("LeaveGroup removes a consumer by its group instance id", setting="modern")
def removed_by_instance(w: Play) -> None:
    a, admin = w.client("a", instance="one"), w.client("admin")
    enter(a)
    admin.leave(("", "one"), ("", "two"))
    describe(admin)
    beat(a)


@situation("an empty consumer group is joined by a classic member, and becomes classic", setting="modern")
def becomes_classic(w: Play) -> None:
    a, b = w.clients("ab")
    enter(a)
    a.commit(("orders", 0, 5))
    beat(a, member_epoch=-1)
    w.stable(b)
    b.describe()
    describe(b)
    b.fetch(everything=True)
    b.list_groups()


@situation("an empty classic group is joined by a consumer, and becomes a consumer group", setting="modern")
def becomes_modern(w: Play) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    a.commit(("orders", 0, 5))
    a.leave()
    enter(b)
    describe(b)
    b.describe()
    b.fetch(everything=True)
    b.list_groups()


@situation("a simple group is joined by a consumer", setting="modern")
def simple_becomes_modern(w: Play) -> None:
    a = w.client("a")
    a.nobody_commits(("orders", 0, 5))
    enter(a)
    describe(a)
    a.fetch(everything=True)


@situation("a consumer joins a group of classic members", setting="modern")
def upgrade(w: Play) -> None:
    a, b = w.client("a", rebalance_ms=5000), w.client("b")
    w.stable(a)
    a.commit(("orders", 0, 5))
    enter(b)
    describe(b)
    a.describe()
    a.beat()
    a.commit(("orders", 1, 6))
    b.commit(("orders", 2, 7))
    a.join()
    a.sync({})
    a.beat()
    beat(b)
    describe(b)
    b.fetch(everything=True)


@situation("a consumer cannot enter a live group that is not of consumers", setting="modern")
def no_upgrade(w: Play) -> None:
    a, b = w.client("a", protocol_type="connect", protocols=(("default", b"url"),)), w.client("b")
    w.stable(a)
    enter(b)
    a.beat()


@situation("a consumer cannot enter a group with subscriptions that cannot be read", setting="modern")
def unreadable_upgrade(w: Play) -> None:
    a, b = w.client("a", protocols=(("range", b"\x00"),)), w.client("b")
    w.stable(a)
    enter(b)
    a.beat()


@situation("classic members join a consumer group, if their protocols fit", setting="modern")
def mixed(w: Play) -> None:
    a, b = w.clients("ab")
    enter(a)
    b.join(protocols=(("default", b"url"),))
    b.join(protocol_type="connect")
    b.join(protocols=())
    b.join(protocols=(("range", b"\x00"),))
    b.join(protocols=(("range", ORDERS),))
    b.join(protocols=(("range", ORDERS),))
    b.sync({})
    b.beat()
    describe(a)
    b.commit(("orders", 0, 1))
    b.leave()
    describe(a)


@situation("a consumer group becomes a classic group when its last consumer leaves", setting="modern")
def downgrade(w: Play) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    a.commit(("orders", 0, 5))
    enter(b)
    beat(b, member_epoch=-1)
    describe(a)
    a.describe()
    a.fetch(everything=True)
    a.beat()
