"""OffsetFetch: what is told of offsets, and of those that are not there."""

from typing import Any

from tests.differential.play import Play
from tests.differential.table import situation

ALL = range(1, 11)


def asked(group: str, *topics: tuple[Any, ...] | None, **fields: Any) -> dict[str, Any]:
    """One group of a batch; None for all its topics."""
    wanted: Any = [{"name": t[0], "topic_id": t[0], "partition_indexes": list(t[1:])} for t in topics if t]
    return {"group_id": group, "topics": None if topics == (None,) else wanted, **fields}


@situation("versions of OffsetFetch that do not exist close the connection", (0, 11))
def no_such_version(w: Play, version: int) -> None:
    w.client("a").fetch(("orders", 0), version=version)


@situation("OffsetFetch of an unknown group has no offsets and no error", ALL)
def unknown_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.fetch(("orders", 0, 1), ("pages", 5), version=version)
    a.describe()


@situation("OffsetFetch of all topics of an unknown group", range(2, 11))
def unknown_group_everything(w: Play, version: int) -> None:
    w.client("a").fetch(everything=True, version=version)


@situation("OffsetFetch of some partitions", ALL)
def by_partition(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5, "five", 2), ("orders", 2, 7), ("pages", 1, 1))
    a.fetch(("pages", 1, 0), ("orders", 3, 2, 1, 0), version=version)


@situation("OffsetFetch of all topics", range(2, 11))
def everything(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5, "five", 2), ("orders", 2, 7), ("pages", 1, 1))
    a.fetch(everything=True, version=version)


@situation("OffsetFetch with an empty list of topics", ALL)
def nothing(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.fetch(version=version)


@situation("OffsetFetch of unknown topics and partitions is no error", ALL)
def unknown_topics(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.fetch(("nothing", 0, 1), ("orders", 0, 9, -1), version=version)


@situation("OffsetFetch that names partitions and topics twice", (1, 5, 8, 10))
def twice(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.fetch(("orders", 0, 0), ("pages", 0), ("orders", 0, 1), version=version)


@situation("OffsetFetch of a topic without partitions", (1, 8, 10))
def no_partitions(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.fetch(("orders",), ("nothing",), version=version)


@situation("OffsetFetch of the empty group id", (1, 8))
def empty_group(w: Play, version: int) -> None:
    w.client("a").fetch(("pages", 1), version=version, group_id="")


@situation("OffsetFetch with require_stable", range(7, 11))
def require_stable(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.fetch(("orders", 0, 1), version=version, require_stable=True)
    a.fetch(everything=True, version=version, require_stable=True)


@situation("OffsetFetch of several groups", (8, 9, 10))
def batch(w: Play, version: int) -> None:
    a = w.client("a")
    for number in range(3):
        a.commit(("orders", number, number), group_id=f"{w.group} {number}")
    a.fetch_groups(
        asked(f"{w.group} 2", ("orders", 2, 0)),
        asked(f"{w.group} nobody", ("orders", 0)),
        asked(f"{w.group} 0", None),
        asked(f"{w.group} none", None),
        asked(f"{w.group} 1"),
        asked("", ("pages", 0)),
        version=version,
    )


@situation("OffsetFetch that names a group twice", (8, 9))
def same_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.fetch_groups(asked(w.group, ("orders", 0)), asked(w.group, ("orders", 1, 0)), version=version)


@situation("OffsetFetch without groups", (8, 10))
def no_groups(w: Play, version: int) -> None:
    w.client("a").fetch_groups(version=version)


@situation("OffsetFetch with member id and epoch of a simple group", (9, 10))
def member_of_a_simple_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    for member, epoch in ((None, -1), ("", -1), ("nobody", 3), ("nobody", -1), (None, 5)):
        a.fetch_groups(asked(w.group, ("orders", 0), member_id=member, member_epoch=epoch), version=version)


@situation("OffsetFetch with member id and epoch of a classic group", (9, 10))
def member_of_a_classic_group(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.commit(("orders", 0, 5))
    for member, epoch in ((a.member_id, 1), (a.member_id, 4), ("nobody", 3), ("", 0), (None, 7)):
        a.fetch_groups(asked(w.group, ("orders", 0), member_id=member, member_epoch=epoch), version=version)


@situation("OffsetFetch with member id and epoch of an unknown group", (9, 10))
def member_of_no_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.fetch_groups(asked(w.group, ("orders", 0), member_id="nobody", member_epoch=3), version=version)
    a.fetch_groups(asked(w.group, None, member_id="nobody", member_epoch=3), version=version)


@situation("OffsetFetch in every state of a group", (1, 9))
def states(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    a.nobody_commits(("orders", 0, 5))
    a.join()
    b.fetch(("orders", 0, 1), version=version)
    a.enter()
    a.answer()
    b.fetch(("orders", 0, 1), version=version)
    a.sync({a: b"A"})
    b.fetch(("orders", 0, 1), version=version)
    b.enter()
    a.fetch(("orders", 0, 1), version=version)
    a.leave((b.member_id, None))
    b.answer()
    a.leave()
    a.fetch(("orders", 0, 1), version=version)


@situation("OffsetFetch with an unknown topic id among known ones")
def topic_ids(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5), version=10)
    a.fetch(("nothing", 0, 1), ("orders", 0), ("pages", 0), version=10)
    a.fetch(("orders", 0, 9), ("nothing", 0), version=10)


@situation("OffsetFetch with a topic id of zeros")
def zero_id(w: Play) -> None:
    a = w.client("a")
    topics = [{"topic_id": bytes(16), "partition_indexes": [0]}]
    a.fetch_groups({"group_id": w.group, "topics": topics}, version=10)


@situation("OffsetFetch after the group was deleted", (1, 7, 8))
def deleted_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.delete_groups()
    a.fetch(("orders", 0), version=version)


@situation("OffsetFetch of a deleted topic that was created again", (8, 10))
def deleted_topic(w: Play, version: int) -> None:
    a = w.client("a")
    name = w.topic(2)
    a.commit((name, 0, 5), (name, 1, 6), ("orders", 0, 7))
    a.ask("DeleteTopics", 6, topics=[{"name": name, "topic_id": bytes(16)}], timeout_ms=10_000)
    w.pause(1500)
    a.fetch(everything=True, version=version)
    w.topic(2)
    a.fetch(everything=True, version=version)
    a.fetch((name, 0), version=version)


@situation("OffsetFetch of a deleted topic: its offsets are deleted, the group remains")
def group_of_a_deleted_topic(w: Play) -> None:
    a = w.client("a")
    name = w.topic(1)
    a.commit((name, 0, 5))
    a.ask("DeleteTopics", 6, topics=[{"name": name, "topic_id": bytes(16)}], timeout_ms=10_000)
    w.pause(1500)
    a.describe()
    a.fetch(everything=True)
