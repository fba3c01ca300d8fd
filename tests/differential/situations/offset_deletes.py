"""OffsetDelete (KIP-496): offsets of topics without subscribers."""

from tests.differential.play import ORDERS, Play, subscription
from tests.differential.table import situation


@situation("OffsetDelete of an unknown group")
def unknown_group(w: Play) -> None:
    w.client("a").delete_offsets(("orders", 0))


@situation("OffsetDelete of the empty group id")
def empty_group(w: Play) -> None:
    a = w.client("a")
    a.delete_offsets(("orders", 0), group_id="")
    a.delete_offsets(group_id="")


@situation("OffsetDelete without topics")
def nothing(w: Play) -> None:
    a = w.client("a")
    a.delete_offsets()
    a.commit(("orders", 0, 5))
    a.delete_offsets()
    a.delete_offsets(("orders",))


@situation("OffsetDelete of offsets of a simple group")
def simple(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5), ("orders", 1, 6), ("pages", 0, 7))
    a.delete_offsets(("pages", 0), ("orders", 0))
    a.fetch(everything=True)
    a.delete_offsets(("orders", 1))
    a.describe()


@situation("OffsetDelete of a partition without a committed offset is no error")
def not_committed(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.delete_offsets(("orders", 3, 0), ("pages", 1))
    a.delete_offsets(("orders", 3, 0), ("pages", 1))


@situation("OffsetDelete of unknown topics and partitions")
def unknown_topics(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.delete_offsets(("nothing", 0, 1), ("orders", 9, 0, -1), ("pages", 0))
    a.fetch(everything=True)


@situation("OffsetDelete of unknown topics alone of an unknown group")
def unknown_topics_of_an_unknown_group(w: Play) -> None:
    w.client("a").delete_offsets(("nothing", 0))


@situation("OffsetDelete that names a partition twice")
def twice(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.delete_offsets(("orders", 0, 0), ("pages", 0), ("orders", 0))


@situation("OffsetDelete of a topic that members subscribe to")
def subscribed(w: Play) -> None:
    a = w.client("a")
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0, 1, 9), ("pages", 0, 5), ("nothing", 0))
    a.fetch(everything=True)


@situation("OffsetDelete: the subscriptions of all members count")
def union(w: Play) -> None:
    a = w.client("a")
    b = w.client("b", protocols=(("range", subscription("pages")),))
    w.stable(a, b)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("OffsetDelete: only subscriptions of the chosen protocol count")
def chosen(w: Play) -> None:
    protocols = (("range", ORDERS), ("roundrobin", subscription("pages")))
    a = w.client("a", protocols=protocols)
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("OffsetDelete: a subscription of another version with trailing bytes is read")
def junk(w: Play) -> None:
    a = w.client("a", protocols=(("range", subscription("orders", version=9, junk=b"junk")),))
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("OffsetDelete: a subscription to more topics than it has bytes")
def more_than_there_are(w: Play) -> None:
    a = w.client("a", protocols=(("range", b"\x00\x01what is this"),))
    a.enter(3)
    a.answer()


@situation("OffsetDelete: an unreadable subscription counts as one to all topics")
def unreadable(w: Play) -> None:
    a = w.client("a", protocols=(("range", b"\x00\x01\x00"),))
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("OffsetDelete: an empty subscription counts as one to all topics")
def empty(w: Play) -> None:
    a = w.client("a", protocols=(("range", b""),))
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("OffsetDelete: a subscription to no topics")
def no_topics(w: Play) -> None:
    a = w.client("a", protocols=(("range", subscription()),))
    w.stable(a)
    a.commit(("orders", 0, 5))
    a.delete_offsets(("orders", 0))


@situation("OffsetDelete: one unreadable and one readable subscription")
def unreadable_beside(w: Play) -> None:
    a, b = w.client("a"), w.client("b", protocols=(("range", b"\x00"),))
    w.stable(a, b)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("OffsetDelete of a live group whose protocol type is not consumer")
def connect(w: Play) -> None:
    a = w.client("a", protocol_type="connect", protocols=(("default", b"url"),))
    w.stable(a)
    a.commit(("orders", 0, 5))
    a.delete_offsets(("orders", 0))
    a.delete_offsets(("nothing", 0))
    a.leave()
    a.delete_offsets(("orders", 0))
    a.fetch(everything=True)


@situation("OffsetDelete of an empty group that had members")
def emptied(w: Play) -> None:
    a = w.client("a")
    w.stable(a)
    a.commit(("orders", 0, 5))
    a.leave()
    a.delete_offsets(("orders", 0))
    a.fetch(everything=True)
    a.describe()


@situation("OffsetDelete during PreparingRebalance: the last generation's subscriptions count")
def preparing(w: Play) -> None:
    a = w.client("a")
    b = w.client("b", protocols=(("range", subscription("pages")),))
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    b.enter()
    b.silent()
    a.delete_offsets(("orders", 0), ("pages", 0))
    a.fetch(everything=True)


@situation("OffsetDelete during CompletingRebalance: the new generation's subscriptions count")
def completing(w: Play) -> None:
    a = w.client("a")
    a.nobody_commits(("orders", 0, 5), ("pages", 0, 6))
    a.enter()
    a.answer()
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("OffsetDelete: a pending member id subscribes to nothing")
def pending(w: Play) -> None:
    a = w.client("a")
    a.nobody_commits(("orders", 0, 5))
    a.join()
    a.delete_offsets(("orders", 0))


@situation("OffsetDelete: the subscription of a member that left does not count")
def left(w: Play) -> None:
    a = w.client("a")
    b = w.client("b", protocols=(("range", subscription("pages")),))
    w.stable(a, b)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    b.leave()
    a.delete_offsets(("pages", 0))
    a.join()
    a.sync({a: b"A"})
    a.delete_offsets(("pages", 0), ("orders", 0))
