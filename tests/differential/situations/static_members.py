"""Static membership (KIP-345): members that come back under their instance."""

from tests.differential.play import BOTH, ORDERS, Play, subscription
from tests.differential.table import situation

ALL = range(5, 10)


@situation("a static member joins at once", ALL)
def joins(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    a.enter(version)
    a.answer()
    a.sync({a: b"A"}, min(version, 5))
    a.describe()
    a.describe(version=3)


@situation("a static member with an empty group instance id", (5, 9))
def empty_instance(w: Play, version: int) -> None:
    a = w.client("a", instance="")
    a.enter(version)
    a.answer()
    a.sync({a: b"A"})
    a.describe()


@situation("a static follower restarts without a rebalance", ALL)
def follower(w: Play, version: int) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two")
    w.stable(a, b)
    b.join(version, member_id="")
    a.beat()
    b.sync(version=min(version, 5))
    b.beat()
    a.describe()


@situation("a static leader restarts without a rebalance", ALL)
def leader(w: Play, version: int) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two")
    w.stable(a, b)
    a.join(version, member_id="")
    b.beat()
    a.sync(version=min(version, 5))
    a.beat()
    a.describe()


@situation("a static leader, the only member, restarts", ALL)
def leader_alone(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    w.stable(a)
    a.join(version, member_id="")
    a.sync({a: b"other"}, min(version, 5))
    a.describe()


@situation("a static leader that joins again with its member id rebalances")
def leader_with_its_id(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two")
    w.stable(a, b)
    a.send_join()
    a.silent()
    b.beat()
    b.join()
    a.answer()


@situation("a static follower that joins again with its member id")
def follower_with_its_id(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two")
    w.stable(a, b)
    b.join()
    a.beat()


@situation("a fenced static member: Heartbeat, SyncGroup, LeaveGroup, JoinGroup")
def fenced(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two")
    w.stable(a, b)
    old = b.member_id
    b.join(member_id="")
    b.beat(member_id=old)
    b.beat(3, member_id=old, group_instance_id=None)
    b.sync(member_id=old)
    b.sync(version=3, member_id=old)
    b.leave((old, "two"))
    b.leave((old, None))
    b.join(member_id=old)
    b.join(5, member_id=old)
    b.join(member_id=old, group_instance_id=None)
    b.beat()


@situation("a static member that joins twice: the JoinGroup that waits is fenced")
def fenced_while_joining(w: Play) -> None:
    a = w.client("a", instance="one")
    b, again = w.client("b", instance="two"), w.client("c", instance="two")
    w.stable(a)
    b.send_join()
    b.silent()
    again.send_join()
    b.answer()
    a.join()
    again.answer()


@situation("a static member that joins again: the SyncGroup that waits is fenced")
def fenced_while_syncing(w: Play) -> None:
    a = w.client("a", instance="one")
    b, again = w.client("b", instance="two"), w.client("c", instance="two")
    w.completing(a, b)
    b.send_sync()
    b.silent()
    again.send_join()
    b.answer()
    a.beat()
    a.join()
    again.answer()


@situation("a static follower restarts with protocols in another order")
def other_order(w: Play) -> None:
    a, b = w.client("a", instance="one", protocols=BOTH), w.client("b", instance="two", protocols=BOTH)
    w.stable(a, b)
    b.join(member_id="", protocols=(("range", ORDERS), ("sticky", ORDERS)))
    a.beat()


@situation("a static follower restarts with another protocol: the group rebalances")
def other_protocol(w: Play) -> None:
    a, b = w.client("a", instance="one", protocols=BOTH), w.client("b", instance="two", protocols=BOTH)
    w.stable(a, b)
    b.send_join(member_id="", protocols=(("roundrobin", ORDERS),))
    b.silent()
    a.beat()
    a.join()
    b.answer()


@situation("a static follower restarts with another subscription")
def other_subscription(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two")
    w.stable(a, b)
    b.send_join(member_id="", protocols=(("range", subscription("pages")),))
    b.silent()
    a.beat()


@situation("a static member restarts with an inconsistent protocol")
def unfit(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two")
    w.stable(a, b)
    b.join(member_id="", protocols=(("sticky", ORDERS),))
    b.join(member_id="", protocol_type="connect")
    b.beat()


@situation("a static member restarts during PreparingRebalance")
def preparing(w: Play) -> None:
    a, b, c = w.client("a", instance="one"), w.client("b", instance="two"), w.client("c")
    w.stable(a, b)
    c.enter()
    b.send_join(member_id="")
    b.silent()
    a.join()
    b.answer()
    c.answer()


@situation("a static member restarts during CompletingRebalance")
def completing(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two")
    w.completing(a, b)
    b.send_join(member_id="")
    b.silent()
    a.beat()
    a.join()
    b.answer()


@situation("a static member is kept by a rebalance that it misses")
def kept(w: Play) -> None:
    a = w.client("a", instance="one", rebalance_ms=500)
    b, c = w.client("b", instance="two", rebalance_ms=500), w.client("c", rebalance_ms=500)
    w.stable(a, b, c)
    a.send_join()
    a.answer()
    a.describe()
    b.beat()
    c.beat()


@situation("a static leader that misses a rebalance leads no more")
def leader_missing(w: Play) -> None:
    a, b = w.client("a", instance="one", rebalance_ms=500), w.client("b", instance="two", rebalance_ms=500)
    w.stable(a, b)
    b.send_join(protocols=(("range", subscription("pages")),))
    b.answer()
    a.beat()


@situation("a static member's session ends like any other")
def session(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two", session_ms=300, rebalance_ms=300)
    w.stable(a, b)
    w.pause(600)
    b.beat()
    a.beat()
    b.commit(("orders", 0, 1))


@situation("an administrator removes static members by LeaveGroup")
def removed(w: Play) -> None:
    a, b, admin = w.client("a", instance="one"), w.client("b", instance="two"), w.client("admin")
    w.stable(a, b)
    admin.leave(("", "one"), ("", "two"))
    admin.describe()
    a.beat()
    b.commit(("orders", 0, 1))
    a.join()


@situation("static and dynamic members side by side")
def side_by_side(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b")
    w.stable(a, b)
    a.describe()
    a.join(member_id="")
    b.beat()
    b.join(group_instance_id="one")
    b.leave()
    a.beat()


@situation("a static member joins an empty group that had members", (5, 9))
def emptied(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    w.stable(a)
    a.leave()
    a.join(version)
    a.join(version, member_id="")


@situation("a static member joins an unknown group with a member id", (5, 9))
def unknown(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    a.nobody_commits(("orders", 0, 1))
    a.join(version, member_id="nobody")


@situation("a fenced group instance id together with an illegal generation: which error comes first")
def precedence(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two")
    w.stable(a, b)
    b.beat(member_id=a.member_id, generation_id=9)
    b.beat(generation_id=9)
    b.sync(member_id=a.member_id, generation_id=9)
    b.commit(("orders", 0, 1), member_id=a.member_id, generation_id_or_member_epoch=9)
    b.commit(("orders", 0, 1), generation_id_or_member_epoch=9)


@situation("a static member of a classic group changes its group instance id", (5, 9))
def classic_instance_changes(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    w.stable(a, version=version)
    a.join(version, group_instance_id="two")
    a.join(version, group_instance_id=None)
    a.join(version)
    a.describe()
