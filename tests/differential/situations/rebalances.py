"""Rebalances: when they begin, who is in the next generation, and which protocol it has."""

from tests.differential.play import BOTH, ORDERS, Play, subscription
from tests.differential.table import situation


@situation("three members agree on a generation", range(10))
def three(w: Play, version: int) -> None:
    a, b, c = w.clients("abc")
    a.enter(version)
    a.answer()
    b.enter(version)
    c.enter(version)
    a.join(version)
    b.answer()
    c.answer()


@situation("the leader stays the leader over rebalances")
def leadership(w: Play) -> None:
    a, b = w.clients("ab")
    w.stable(a, b)
    for _ in range(2):
        a.send_join()
        b.join()
        a.answer()
        b.send_sync()
        a.sync({a: b"A", b: b"B"})
        b.answer()


@situation("the protocol with most votes is chosen")
def votes(w: Play) -> None:
    def all_of(*names: str) -> tuple[tuple[str, bytes], ...]:
        return tuple((name, ORDERS) for name in names)

    a = w.client("a", protocols=all_of("one", "two", "three"))
    b = w.client("b", protocols=all_of("two", "one", "three"))
    c = w.client("c", protocols=all_of("two", "three", "one"))
    w.stable(a, b, c)
    a.describe()


@situation("only protocols that all have are voted for")
def candidates(w: Play) -> None:
    a = w.client("a", protocols=(("one", ORDERS), ("two", ORDERS)))
    b = w.client("b", protocols=(("three", ORDERS), ("two", ORDERS)))
    w.stable(a, b)
    b.leave()
    a.join()


@situation("two votes on the protocol, with new members")
def votes_again(w: Play) -> None:
    a = w.client("a", protocols=BOTH)
    b = w.client("b", protocols=(("roundrobin", ORDERS),))
    w.stable(a)
    b.enter()
    a.join()
    b.answer()
    b.leave()
    a.join()


@situation("all members leave and the group continues with the next generation")
def again(w: Play) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    a.leave()
    w.stable(b)
    b.describe()
    b.leave()
    b.describe()
    b.list_groups()


@situation("a rebalance ends when the last of its members has joined")
def last(w: Play) -> None:
    a, b, c = w.clients("abc")
    w.stable(a, b, c)
    c.send_join(protocols=(("range", subscription("pages")),))
    b.send_join()
    b.silent()
    a.join()
    b.answer()
    c.answer()


@situation("members that do not join again within the rebalance timeout are removed")
def removed(w: Play) -> None:
    a, b, c = w.clients("abc", rebalance_ms=500)
    w.stable(a, b, c)
    a.send_join()
    b.send_join()
    a.answer()
    b.answer()
    c.beat()
    c.commit(("orders", 0, 1))
    c.sync()
    c.join()


@situation("no member joins again within the rebalance timeout")
def nobody(w: Play) -> None:
    a, b = w.clients("ab", rebalance_ms=400)
    w.stable(a, b)
    b.leave()
    w.pause(700)
    a.beat()
    a.describe()
    a.join()


@situation("the longest rebalance timeout counts")
def longest(w: Play) -> None:
    a, b = w.client("a", rebalance_ms=300), w.client("b", rebalance_ms=900)
    w.stable(a, b)
    a.send_join()
    w.pause(500)
    a.silent()
    a.answer()


@situation("in version 0 the session timeout is the rebalance timeout")
def version_zero(w: Play) -> None:
    a, b = w.clients("ab", session_ms=600)
    a.enter(0)
    a.answer()
    b.enter(0)
    b.silent()
    b.answer()
    a.beat()


@situation("a member that joins twice before the others")
def joins_twice(w: Play) -> None:
    a, b, c = w.clients("abc")
    w.stable(a, b)
    b.send_join(protocols=(("range", subscription("pages")),))
    c.send_join(member_id=b.member_id, protocols=(("range", subscription("pages")),))
    c.silent()
    a.join()
    c.answer()


@situation("a connection that joins a second group")
def two_groups(w: Play) -> None:
    a = w.client("a")
    w.stable(a)
    first = a.member_id
    a.member_id, a.generation, a.group = "", -1, w.group + " other"
    w.stable(a)
    a.beat(group_id=w.group, member_id=first)
    a.beat()
    a.list_groups()


@situation("the first generation waits for group.initial.rebalance.delay.ms", setting="delayed")
def initial_delay(w: Play) -> None:
    a, b = w.clients("ab", rebalance_ms=2000)
    a.send_join(3)
    a.silent()
    b.describe()
    b.send_join(3)
    a.answer()
    b.answer()
    a.sync({a: b"A", b: b"B"})
    b.sync()
    a.describe()


@situation("new members prolong the initial rebalance delay up to the rebalance timeout", setting="delayed")
def prolonged(w: Play) -> None:
    a, b, c = w.clients("abc", rebalance_ms=900)
    a.send_join(3)
    w.pause(300)
    b.send_join(3)
    w.pause(450)
    c.send_join(3)
    a.answer()
    b.answer()
    c.answer()


@situation("requests during the initial rebalance delay", setting="delayed")
def during_the_delay(w: Play) -> None:
    a, b = w.clients("ab", rebalance_ms=2000)
    a.enter()
    b.beat(member_id=a.member_id, generation_id=0)
    b.sync(member_id=a.member_id, generation_id=0)
    b.commit(("orders", 0, 1), member_id=a.member_id, generation_id_or_member_epoch=0)
    b.nobody_commits(("orders", 0, 1))
    b.delete_groups()
    b.list_groups()
    b.describe()
    a.answer()


@situation("all members leave during the initial rebalance delay", setting="delayed")
def left_in_the_delay(w: Play) -> None:
    a, b = w.clients("ab")
    a.enter()
    b.leave((a.member_id, None))
    a.answer()
    b.describe()
    w.pause(800)
    b.describe()


@situation("an empty group that had members waits for the initial rebalance delay again", setting="delayed")
def delayed_again(w: Play) -> None:
    a = w.client("a", rebalance_ms=2000)
    a.enter()
    a.answer()
    a.leave()
    a.send_join(3, member_id="")
    a.silent()
    a.answer()
