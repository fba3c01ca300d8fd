"""OffsetCommit: who may commit what, and when."""

from tests.differential.play import ORDERS, Play
from tests.differential.table import situation

ALL = range(2, 11)
EXISTING = ("orders", 0, 5)
UNKNOWN_PARTITION, UNKNOWN_TOPIC = ("orders", 4, 6), ("nothing", 0, 7)


@situation("a commit in a version that Kafka removed closes the connection", (0, 1))
def removed(w: Play, version: int) -> None:
    w.client("a").commit(EXISTING, version=version)


@situation("a version of OffsetCommit that does not exist closes the connection")
def too_new(w: Play) -> None:
    w.client("a").commit(EXISTING, version=11)


@situation("a commit without a member creates a simple group", ALL)
def simple(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(EXISTING, ("orders", 1, 6, "text"), ("pages", 0, 2**62), version=version)
    a.fetch(("orders", 0, 1, 2), ("pages", 0))
    a.describe()


@situation("a commit for unknown topics and partitions among known ones", ALL)
def unknown(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(EXISTING, UNKNOWN_PARTITION, UNKNOWN_TOPIC, ("pages", 1, 8), version=version)
    a.fetch(everything=True)


@situation("a commit for unknown topics alone creates no group", (2, 8, 10))
def nothing_valid(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(UNKNOWN_PARTITION, UNKNOWN_TOPIC, version=version)
    a.describe()


@situation("a commit for unknown topics alone does not check the member", (8, 9))
def nothing_valid_in_a_group(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.commit(UNKNOWN_TOPIC, version=version, generation_id_or_member_epoch=7, member_id="nobody")
    b.commit(UNKNOWN_TOPIC, EXISTING, version=version, generation_id_or_member_epoch=7, member_id="nobody")


@situation("a commit for a negative partition")
def negative_partition(w: Play) -> None:
    w.client("a").commit(("orders", -1, 5), EXISTING)


@situation("a commit that names topics alternately is answered in the order of the request", (2, 8))
def order(w: Play, version: int) -> None:
    offsets = [("pages", 1, 1), ("orders", 3, 1), ("orders", 0, 1), ("pages", 0, 1), ("orders", 1, 1)]
    w.client("a").commit(*offsets, version=version)


@situation("a commit with unknown partitions among known ones: the order of the answer", (2, 8, 9, 10))
def order_with_errors(w: Play, version: int) -> None:
    offsets = [
        ("pages", 1, 1),
        ("pages", 9, 1),
        ("gone", 0, 1),
        ("orders", 8, 1),
        ("orders", 3, 1),
        ("orders", 7, 1),
    ]
    w.client("a").commit(*offsets, ("pages", 0, 1), version=version)


@situation("a commit for an empty topic name", (2, 8, 9))
def empty_topic(w: Play, version: int) -> None:
    w.client("a").commit(("", 0, 1), EXISTING, version=version)


@situation("a commit for a topic without partitions", (2, 9))
def no_partitions(w: Play, version: int) -> None:
    a = w.client("a")
    topics = [{"name": "orders", "partitions": []}]
    a.ask("OffsetCommit", version, group_id=w.group, topics=topics)
    topics = [{"name": "nothing", "partitions": []}, {"name": "orders", "partitions": []}]
    a.ask("OffsetCommit", version, group_id=w.group, topics=topics)
    a.describe()


@situation("a commit without topics", (2, 8, 10))
def no_topics(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(version=version)
    a.commit(version=version, generation_id_or_member_epoch=3, member_id="nobody")
    a.describe()


@situation("a commit that names a partition twice: both are answered, the last is kept", (2, 9, 10))
def twice(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1), ("orders", 0, 2), ("pages", 0, 1), ("orders", 0, 3), version=version)
    a.fetch(("orders", 0))


@situation("a commit with a member id to an unknown group", ALL)
def member_without_generation(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(EXISTING, version=version, member_id="nobody")
    a.fetch(("orders", 0))


@situation("a commit with a group instance id to an unknown group", (7, 9))
def instance_without_generation(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(EXISTING, version=version, group_instance_id="one")
    a.fetch(("orders", 0))


@situation("a commit with a generation to an unknown group", ALL)
def generation_without_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(EXISTING, UNKNOWN_TOPIC, version=version, generation_id_or_member_epoch=0, member_id="nobody")
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=5)
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=-2)
    a.describe()


@situation("a commit with a generation or an unknown member id to a simple group", (2, 7, 8, 9))
def generation_of_a_simple_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(EXISTING, version=version)
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=0)
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=1, member_id="nobody")
    a.commit(EXISTING, version=version, member_id="nobody")
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=-5)


@situation("a commit to the empty group id", (2, 9))
def empty_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(EXISTING, version=version, group_id="")
    a.fetch(("orders", 0), group_id="")
    a.describe("")
    a.delete_groups("")
    a.fetch(("orders", 0), group_id="")


@situation("a commit of a negative offset")
def negative(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, -1), ("orders", 1, -2), ("orders", 2, -(2**63)), ("orders", 3, 2**63 - 1))
    a.fetch(everything=True)


@situation("leader epochs of commits are kept from version 6", (5, 6, 9))
def leader_epochs(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1, "", 7), ("orders", 1, 1, "", -1), ("orders", 2, 1, "", 0), version=version)
    a.commit(("orders", 3, 1, "", -2), version=version)
    a.fetch(everything=True, version=7)
    a.fetch(everything=True, version=4)


@situation("a commit with null metadata", (2, 8))
def null_metadata(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1, None), ("orders", 1, 1, ""), version=version)
    a.fetch(everything=True)


@situation("commit metadata of 4096 characters is kept, one more is too large", (2, 9))
def long_metadata(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1, "m" * 4096), ("orders", 1, 1, "m" * 4097), ("orders", 2, 1), version=version)
    a.fetch(everything=True)


@situation("commit metadata is counted in characters of UTF-16")
def wide_metadata(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1, "ß" * 4096), ("orders", 1, 1, "𝄞" * 2048), ("orders", 2, 1, "𝄞" * 2049))
    a.fetch(("orders", 0, 1, 2))


@situation("commit metadata is limited by offset.metadata.max.bytes", setting="delayed")
def short_metadata(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1, "1234567890"), ("orders", 1, 1, "12345678901"))
    a.fetch(everything=True)


@situation("a commit of metadata that is too large creates a group all the same")
def only_long_metadata(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1, "m" * 4097))
    a.describe()
    a.fetch(everything=True)


@situation("a later commit replaces the offset, its leader epoch and its metadata")
def replaced(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 10, "ten", 3))
    a.commit(("orders", 0, 9))
    a.fetch(everything=True)
    a.commit(("orders", 0, 8, "eight"), version=3)
    a.fetch(everything=True)


@situation("a commit with a retention time", (2, 3, 4))
def retention(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(EXISTING, version=version, retention_time_ms=0)
    a.fetch(("orders", 0))
    a.commit(("orders", 1, 5), version=version, retention_time_ms=3_600_000)
    a.commit(("orders", 2, 5), version=version, retention_time_ms=-1)
    a.commit(("orders", 3, 5), version=version, retention_time_ms=-7)
    a.fetch(everything=True)


@situation("a member of a stable group commits", ALL)
def stable(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.commit(EXISTING, ("pages", 0, 1), version=version)
    a.fetch(everything=True)


@situation("members commit for partitions that are not assigned to them")
def not_owned(w: Play) -> None:
    a, b = w.clients("ab")
    w.stable(a, b)
    a.commit(EXISTING)
    b.commit(EXISTING)


@situation("commits that a stable group refuses: unknown member id, illegal generation", ALL)
def refused(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    a.nobody_commits(EXISTING, version=version)
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=-1)
    a.commit(EXISTING, version=version, member_id="")
    a.commit(EXISTING, version=version, member_id="nobody")
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=2)
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=0)
    b.commit(EXISTING, UNKNOWN_TOPIC, version=version, generation_id_or_member_epoch=1)
    a.fetch(everything=True)


@situation("commits with an unknown group instance id to a stable group", (7, 8, 9))
def refused_instances(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    a.commit(EXISTING, version=version, group_instance_id="one")
    a.commit(EXISTING, version=version, group_instance_id="")
    b.commit(EXISTING, version=version, group_instance_id="one")
    b.commit(EXISTING, version=version, group_instance_id="one", member_id="nobody")


@situation("static members commit", (7, 8, 9, 10))
def static(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    w.stable(a)
    a.commit(EXISTING, version=version)
    a.commit(EXISTING, version=version, group_instance_id=None)
    a.commit(EXISTING, version=version, member_id="")
    a.commit(EXISTING, version=version, member_id="nobody")
    a.commit(EXISTING, version=version, group_instance_id="two")


@situation("a commit from a fenced static member", (7, 9))
def fenced(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    w.stable(a)
    old = a.member_id
    a.join(member_id="")
    a.commit(EXISTING, version=version, member_id=old)
    a.commit(EXISTING, version=version, member_id=old, group_instance_id=None)
    a.commit(EXISTING, version=version)


@situation("commits during PreparingRebalance", (2, 8, 9))
def preparing(w: Play, version: int) -> None:
    a, b, c = w.clients("abc")
    w.stable(a)
    b.enter()
    b.silent()
    a.commit(EXISTING, version=version)
    c.commit(EXISTING, version=version, member_id=b.member_id, generation_id_or_member_epoch=1)
    c.commit(EXISTING, version=version, member_id=b.member_id, generation_id_or_member_epoch=-1)
    c.nobody_commits(EXISTING, version=version)
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=2)
    a.fetch(everything=True)


@situation("commits during CompletingRebalance", (2, 8, 9))
def completing(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    a.enter()
    a.answer()
    a.commit(EXISTING, version=version)
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=2)
    a.commit(EXISTING, version=version, member_id="nobody")
    b.commit(EXISTING, version=version)
    a.fetch(everything=True)


@situation("commits with a pending member id", (2, 8, 9))
def pending(w: Play, version: int) -> None:
    a = w.client("a")
    a.join()
    a.commit(EXISTING, version=version)
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=0)
    a.fetch(everything=True)


@situation("commits with a pending member id of a stable group", (2, 9))
def pending_in_a_stable_group(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.join()
    b.commit(EXISTING, version=version)
    b.commit(EXISTING, version=version, generation_id_or_member_epoch=1)
    b.commit(EXISTING, version=version, generation_id_or_member_epoch=9)


@situation("commits after the last member left", (2, 8, 9))
def emptied(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.leave()
    a.commit(EXISTING, version=version)
    a.nobody_commits(EXISTING, version=version)
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=-1)
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=2)
    a.commit(EXISTING, version=version, generation_id_or_member_epoch=2, member_id="")
    a.fetch(everything=True)
    a.describe()


@situation("commits of a member whose session expired, while another member remains")
def expired(w: Play) -> None:
    a, b = w.client("a", session_ms=400, rebalance_ms=400), w.client("b")
    w.stable(b, a)
    w.pause(700)
    a.commit(EXISTING)
    b.commit(EXISTING)
    a.nobody_commits(EXISTING)


@situation("commits of a member whose session expired, the last of its group")
def expired_alone(w: Play) -> None:
    a = w.client("a", session_ms=300, rebalance_ms=300)
    w.stable(a)
    w.pause(600)
    a.commit(EXISTING)
    a.nobody_commits(EXISTING)
    a.describe()


@situation("a commit keeps the session of its member alive")
def commits_are_heartbeats(w: Play) -> None:
    a, b = w.client("a", session_ms=600), w.client("b")
    w.stable(b, a)
    for _ in range(3):
        w.pause(350)
        a.commit(EXISTING)
    a.beat()


@situation("a commit with the wrong generation keeps no session alive")
def refused_commits_are_no_heartbeats(w: Play) -> None:
    a, b = w.client("a", session_ms=600), w.client("b")
    w.stable(b, a)
    for _ in range(3):
        w.pause(350)
        a.commit(EXISTING, generation_id_or_member_epoch=77)
    a.beat()


@situation("a commit to a group whose protocol type is not consumer", (2, 9))
def connect(w: Play, version: int) -> None:
    a = w.client("a", protocol_type="connect", protocols=(("default", b"url"),))
    w.stable(a)
    a.commit(EXISTING, version=version)
    a.nobody_commits(EXISTING, version=version)


@situation("a commit to a deleted group creates it again")
def deleted(w: Play) -> None:
    a = w.client("a")
    w.stable(a)
    a.commit(EXISTING)
    a.leave()
    a.delete_groups()
    a.commit(EXISTING)
    a.nobody_commits(("orders", 1, 1))
    a.describe()
    a.fetch(everything=True)


@situation("a commit for a topic that was just created", (9, 10))
def created(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit((w.slug, 0, 1), version=version)
    w.topic(1)
    a.commit((w.slug, 0, 1), (w.slug, 1, 1), version=version)
    a.fetch(everything=True, version=version)


@situation("a commit with a known and an unknown topic id")
def topic_ids(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1), ("nothing", 0, 1), ("pages", 0, 1), ("pages", 7, 1), version=10)
    topics = [{"topic_id": bytes(16), "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    for topic in topics:
        topic["partitions"][0]["committed_metadata"] = ""  # type: ignore[index]
    a.ask("OffsetCommit", 10, group_id=w.group, topics=topics)
    a.fetch(everything=True, version=10)


@situation("a commit from a member without a subscription")
def without_subscription(w: Play) -> None:
    a = w.client("a", protocols=(("range", b""),))
    w.stable(a)
    a.commit(EXISTING)
    b = w.client("b", group=w.group + " beside", protocols=(("range", ORDERS + b"junk"),))
    w.stable(b)
    b.commit(EXISTING)
