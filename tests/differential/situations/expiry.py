"""Offsets that expire: those with a retention time of their own (versions 2 to 4), looked for every half second."""

from tests.differential.play import Play
from tests.differential.table import situation

LONG_MS = 1500


@situation("expired offsets are removed, and the group with the last of them", setting="expiring")
def simple(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1), version=2, retention_time_ms=1)
    w.pause(LONG_MS)
    a.fetch(everything=True)
    a.describe()
    a.list_groups()


@situation("an offset whose retention is not over remains, and keeps its group", setting="expiring")
def some(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1), version=4, retention_time_ms=1)
    a.commit(("orders", 1, 2), version=4, retention_time_ms=3_600_000)
    a.commit(("orders", 2, 3), version=4)
    a.commit(("orders", 3, 4), version=9)
    w.pause(LONG_MS)
    a.fetch(everything=True)
    a.describe()


@situation("a retention time of 0 expires at once", setting="expiring")
def zero(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1), version=3, retention_time_ms=0)
    w.pause(LONG_MS)
    a.fetch(everything=True)
    a.describe()


@situation("a later commit without retention keeps an offset", setting="expiring")
def kept(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1), version=3, retention_time_ms=100)
    a.commit(("orders", 0, 2), version=9)
    w.pause(LONG_MS)
    a.fetch(everything=True)


@situation("offsets of topics that a stable group subscribes to do not expire", setting="expiring")
def subscribed(w: Play) -> None:
    a = w.client("a", session_ms=60_000)
    w.stable(a, version=3)
    a.commit(("orders", 0, 1), ("pages", 0, 2), version=2, retention_time_ms=1)
    w.pause(LONG_MS)
    a.fetch(everything=True)
    a.beat()


@situation("offsets of a group in PreparingRebalance do not expire", setting="expiring")
def rebalancing(w: Play) -> None:
    a, b = w.clients("ab", session_ms=60_000, rebalance_ms=60_000)
    w.stable(a, version=3)
    a.commit(("orders", 0, 1), ("pages", 0, 2), version=2, retention_time_ms=1)
    b.enter()
    w.pause(LONG_MS)
    a.fetch(everything=True)


@situation("offsets of a group in CompletingRebalance do not expire", setting="expiring")
def completing(w: Play) -> None:
    a = w.client("a", session_ms=60_000, rebalance_ms=60_000)
    a.nobody_commits(("orders", 0, 1), ("pages", 0, 2), version=2, retention_time_ms=100)
    a.enter()
    a.answer()
    w.pause(LONG_MS)
    a.fetch(everything=True)


@situation("an empty group that had members is removed with its last offset", setting="expiring")
def emptied(w: Play) -> None:
    a = w.client("a")
    w.stable(a, version=3)
    a.commit(("orders", 0, 1), version=2, retention_time_ms=1)
    a.leave()
    w.pause(LONG_MS)
    a.fetch(everything=True)
    a.describe()


@situation("an empty group that had members and no offsets is removed", setting="expiring")
def emptied_without_offsets(w: Play) -> None:
    a = w.client("a")
    w.stable(a, version=3)
    a.leave()
    a.describe()
    w.pause(LONG_MS)
    a.describe()


@situation("a group with only a pending member id is removed", setting="expiring")
def pending(w: Play) -> None:
    a = w.client("a", session_ms=60_000)
    a.join()
    w.pause(LONG_MS)
    a.describe()
    a.join()


@situation("offsets of a live group whose protocol type is not consumer do not expire", setting="expiring")
def connect(w: Play) -> None:
    a = w.client("a", protocol_type="connect", protocols=(("default", b"url"),), session_ms=60_000)
    w.stable(a, version=3)
    a.commit(("orders", 0, 1), version=2, retention_time_ms=1)
    w.pause(LONG_MS)
    a.fetch(everything=True)


@situation("a simple group whose offsets were deleted is removed", setting="expiring")
def deleted(w: Play) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1))
    a.delete_offsets(("orders", 0))
    w.pause(LONG_MS)
    a.describe()
