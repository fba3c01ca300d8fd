"""LeaveGroup: of one's own, of others, of static members."""

from tests.differential.play import Play
from tests.differential.table import situation

ALL = range(6)


@situation("a version of LeaveGroup that does not exist closes the connection")
def no_such_version(w: Play) -> None:
    w.client("a").leave(version=6)


@situation("LeaveGroup of the only member", ALL)
def alone(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.leave(version=version)
    a.describe()
    a.leave(version=version)


@situation("LeaveGroup of an unknown group", ALL)
def unknown_group(w: Play, version: int) -> None:
    a = w.client("a", member_id="nobody")
    a.leave(version=version)
    a.describe()


@situation("LeaveGroup of the empty group id", ALL)
def empty_group(w: Play, version: int) -> None:
    w.client("a", member_id="nobody").leave(version=version, group_id="")


@situation("LeaveGroup of a simple group", (0, 5))
def simple_group(w: Play, version: int) -> None:
    a = w.client("a", member_id="nobody")
    a.nobody_commits(("orders", 0, 1))
    a.leave(version=version)
    a.fetch(everything=True)


@situation("LeaveGroup of an unknown member", ALL)
def unknown_member(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.member_id = "nobody"
    b.leave(version=version)
    b.member_id = ""
    b.leave(version=version)
    a.beat()


@situation("LeaveGroup without members", (3, 5))
def nobody(w: Play, version: int) -> None:
    a = w.client("a")
    a.ask("LeaveGroup", version, group_id=w.group, members=[])
    w.stable(a)
    a.ask("LeaveGroup", version, group_id=w.group, members=[])
    a.beat()


@situation("LeaveGroup of several members, known and unknown", (3, 4, 5))
def several(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a, b)
    members = [
        ("nobody", None),
        (b.member_id, None),
        ("", None),
        ("", "one"),
        (b.member_id, None),
        ("x", "one"),
    ]
    a.leave(*members, version=version)
    a.describe()
    a.beat()


@situation("LeaveGroup of all members at once", (3, 5))
def all_of_them(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a, b)
    a.leave((a.member_id, None), (b.member_id, None), version=version)
    a.describe()


@situation("LeaveGroup of a follower: the others rebalance")
def follower(w: Play) -> None:
    a, b = w.clients("ab")
    w.stable(a, b)
    b.leave()
    a.describe()
    a.beat()
    a.join()
    a.sync({a: b"A"})


@situation("LeaveGroup of the leader: another member becomes leader")
def leader(w: Play) -> None:
    a, b = w.clients("ab")
    w.stable(a, b)
    a.leave(version=1)
    b.beat()
    b.join()
    b.sync({b: b"B"})


@situation("LeaveGroup during PreparingRebalance completes the rebalance")
def preparing(w: Play) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.enter()
    b.silent()
    a.leave()
    b.answer()


@situation("LeaveGroup of a member whose JoinGroup waits")
def parked(w: Play) -> None:
    a, b, c = w.clients("abc")
    w.stable(a)
    b.enter()
    b.silent()
    c.leave((b.member_id, None))
    b.answer()
    a.beat()
    a.join()


@situation("LeaveGroup during CompletingRebalance")
def completing(w: Play) -> None:
    a, b = w.clients("ab")
    w.completing(a, b)
    b.leave()
    a.beat()
    a.join()
    a.sync({a: b"A"})


@situation("LeaveGroup of the leader during CompletingRebalance")
def leader_completing(w: Play) -> None:
    a, b = w.clients("ab")
    w.completing(a, b)
    b.send_sync()
    a.leave()
    b.answer()
    b.join()


@situation("LeaveGroup of a pending member id", (0, 3, 5))
def pending(w: Play, version: int) -> None:
    a = w.client("a")
    a.join()
    a.leave(version=version)
    a.describe()
    a.join()


@situation("LeaveGroup of a pending member id of a stable group", (0, 5))
def pending_in_a_stable_group(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.join()
    b.leave(version=version)
    a.beat()
    b.join()


@situation("LeaveGroup of a pending member id during PreparingRebalance")
def pending_preparing(w: Play) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.join()
    a.send_join()
    a.silent()
    b.leave()
    a.answer()


@situation("LeaveGroup of a static member by its member id alone", (3, 5))
def static_without_instance(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    w.stable(a)
    a.leave((a.member_id, None), version=version)
    a.describe()


@situation("LeaveGroup of a static member by its group instance id", (3, 5))
def by_instance(w: Play, version: int) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two")
    w.stable(a, b)
    a.leave(("", "two"), ("", "three"), version=version)
    b.beat()
    a.leave(("nobody", "one"), version=version)
    a.leave(("", "one"), version=version)
    a.describe()


@situation("LeaveGroup of a static member by member id and group instance id", (3, 5))
def with_both(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    w.stable(a)
    a.leave(version=version)
    a.describe()


@situation("LeaveGroup of a static member in a version without group instance ids", (0, 2))
def static_in_an_old_version(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    w.stable(a)
    a.leave(version=version)
    a.describe()


@situation("LeaveGroup with the group instance id of another member: fenced", (3, 5))
def instance_of_another(w: Play, version: int) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="two")
    w.stable(a, b)
    a.leave((a.member_id, "two"), (b.member_id, "one"), version=version)
    a.beat()


@situation("LeaveGroup with a reason")
def reasons(w: Play) -> None:
    a = w.client("a")
    w.stable(a)
    member = {"member_id": a.member_id, "group_instance_id": None, "reason": "r" * 300}
    a.ask("LeaveGroup", 5, group_id=w.group, members=[member])


@situation("LeaveGroup of a group whose protocol type is not consumer", (0, 5))
def connect(w: Play, version: int) -> None:
    a = w.client("a", protocol_type="connect", protocols=(("default", b"url"),))
    w.stable(a)
    a.leave(version=version)
    a.describe()
