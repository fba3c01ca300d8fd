"""OffsetDelete (KIP-496): offsets of topics that nobody subscribes to."""

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


@situation("OffsetDelete of nothing")
def nothing(w: Play) -> None:
    a = w.client("a")
    a.delete_offsets()
    a.commit(("orders", 0, 5))
    a.delete_offsets()
    a.delete_offsets(("orders",))


@situation("offsets of a simple group are deleted")
def simple(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5), ("orders", 1, 6), ("pages", 0, 7))
    a.delete_offsets(("pages", 0), ("orders", 0))
    a.fetch(everything=True)
    a.delete_offsets(("orders", 1))
    a.describe()


@situation("deleting what is not committed is no error")
def not_committed(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.delete_offsets(("orders", 3, 0), ("pages", 1))
    a.delete_offsets(("orders", 3, 0), ("pages", 1))


@situation("deleting from unknown topics and partitions")
def unknown_topics(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.delete_offsets(("nothing", 0, 1), ("orders", 9, 0, -1), ("pages", 0))
    a.fetch(everything=True)


@situation("deleting only from unknown topics of an unknown group")
def unknown_topics_of_an_unknown_group(w: Play) -> None:
    w.client("a").delete_offsets(("nothing", 0))


@situation("deleting a partition twice")
def twice(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 5))
    a.delete_offsets(("orders", 0, 0), ("pages", 0), ("orders", 0))


@situation("offsets of topics that members subscribe to are kept")
def subscribed(w: Play) -> None:
    a = w.client("a")
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0, 1, 9), ("pages", 0, 5), ("nothing", 0))
    a.fetch(everything=True)


@situation("subscriptions of all members count")
def union(w: Play) -> None:
    a = w.client("a")
    b = w.client("b", protocols=(("range", subscription("pages")),))
    w.stable(a, b)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("subscriptions of the chosen protocol count alone")
def chosen(w: Play) -> None:
    protocols = (("range", ORDERS), ("roundrobin", subscription("pages")))
    a = w.client("a", protocols=protocols)
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("a subscription of another version with something behind it is read")
def junk(w: Play) -> None:
    a = w.client("a", protocols=(("range", subscription("orders", version=9, junk=b"junk")),))
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("a subscription to more topics than it has bytes")
def more_than_there_are(w: Play) -> None:
    a = w.client("a", protocols=(("range", b"\x00\x01what is this"),))
    a.enter(3)
    a.answer()


@situation("a subscription that cannot be read is one to everything")
def unreadable(w: Play) -> None:
    a = w.client("a", protocols=(("range", b"\x00\x01\x00"),))
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("an empty subscription is one to everything")
def empty(w: Play) -> None:
    a = w.client("a", protocols=(("range", b""),))
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("a subscription to no topics")
def no_topics(w: Play) -> None:
    a = w.client("a", protocols=(("range", subscription()),))
    w.stable(a)
    a.commit(("orders", 0, 5))
    a.delete_offsets(("orders", 0))


@situation("one unreadable subscription beside a readable one")
def unreadable_beside(w: Play) -> None:
    a, b = w.client("a"), w.client("b", protocols=(("range", b"\x00"),))
    w.stable(a, b)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("a live group that is not of consumers is not touched")
def connect(w: Play) -> None:
    a = w.client("a", protocol_type="connect", protocols=(("default", b"url"),))
    w.stable(a)
    a.commit(("orders", 0, 5))
    a.delete_offsets(("orders", 0))
    a.delete_offsets(("nothing", 0))
    a.leave()
    a.delete_offsets(("orders", 0))
    a.fetch(everything=True)


@situation("offsets of a group that emptied are deleted")
def emptied(w: Play) -> None:
    a = w.client("a")
    w.stable(a)
    a.commit(("orders", 0, 5))
    a.leave()
    a.delete_offsets(("orders", 0))
    a.fetch(everything=True)
    a.describe()


@situation("while members are awaited the last generation's subscriptions count")
def preparing(w: Play) -> None:
    a = w.client("a")
    b = w.client("b", protocols=(("range", subscription("pages")),))
    w.stable(a)
    a.commit(("orders", 0, 5), ("pages", 0, 6))
    b.enter()
    b.silent()
    a.delete_offsets(("orders", 0), ("pages", 0))
    a.fetch(everything=True)


@situation("while the assignment is awaited the new generation's subscriptions count")
def completing(w: Play) -> None:
    a = w.client("a")
    a.nobody_commits(("orders", 0, 5), ("pages", 0, 6))
    a.enter()
    a.answer()
    a.delete_offsets(("orders", 0), ("pages", 0))


@situation("a member id that was handed out subscribes to nothing")
def pending(w: Play) -> None:
    a = w.client("a")
    a.nobody_commits(("orders", 0, 5))
    a.join()
    a.delete_offsets(("orders", 0))


@situation("a member that left subscribes no more")
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
