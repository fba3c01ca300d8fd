"""SyncGroup: who gets which assignment, and when."""

from tests.differential.play import BOTH, Play
from tests.differential.table import situation

ALL = range(6)


@situation("a version of SyncGroup that does not exist closes the connection")
def no_such_version(w: Play) -> None:
    w.client("a").sync(version=6)


@situation("SyncGroup of an unknown group", ALL)
def unknown_group(w: Play, version: int) -> None:
    w.client("a").sync(version=version, member_id="nobody", generation_id=1)


@situation("SyncGroup of the empty group id", ALL)
def empty_group(w: Play, version: int) -> None:
    w.client("a").sync(version=version, group_id="", member_id="nobody", generation_id=1)


@situation("SyncGroup of a simple group", (0, 5))
def simple_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1))
    a.sync(version=version, member_id="nobody", generation_id=0)


@situation("SyncGroup of an empty group that had members", (0, 5))
def emptied(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.leave()
    a.sync(version=version)


@situation("SyncGroup: the leader's assignments reach all members", ALL)
def assigned(w: Play, version: int) -> None:
    a, b, c = w.clients("abc")
    a.enter()
    a.answer()
    b.enter()
    c.enter()
    a.join()
    b.answer()
    c.answer()
    b.send_sync(version=version)
    b.silent()
    a.sync({a: b"A", b: b"B", c: b"C"}, version)
    b.answer()
    c.sync(version=version)
    b.sync(version=version)
    a.sync({a: b"other"}, version)


@situation("SyncGroup: members without an assignment of the leader", (0, 5))
def forgotten(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.completing(a, b)
    a.sync({a: b"A", "nobody": b"?"}, version)
    b.sync(version=version)
    a.describe()


@situation("SyncGroup of a leader without assignments", (0, 5))
def no_assignments(w: Play, version: int) -> None:
    a = w.client("a")
    a.enter()
    a.answer()
    a.sync({}, version)
    a.describe()


@situation("SyncGroup with a member twice among the assignments", (0, 5))
def twice(w: Play, version: int) -> None:
    a = w.client("a")
    a.enter()
    a.answer()
    given = [{"member_id": a.member_id, "assignment": text} for text in (b"one", b"two")]
    a.sync(None, version, assignments=given)
    a.describe()


@situation("SyncGroup with assignments of a follower, which are ignored")
def follower(w: Play) -> None:
    a, b = w.clients("ab")
    w.completing(a, b)
    b.send_sync({a: b"mine", b: b"mine"})
    b.silent()
    a.sync({a: b"A", b: b"B"})
    b.answer()


@situation("SyncGroup to a stable group: unknown member id, illegal generation", ALL)
def refused(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.sync(version=version, member_id="nobody")
    a.sync(version=version, member_id="")
    a.sync(version=version, generation_id=0)
    a.sync(version=version, generation_id=2)
    a.sync(version=version, generation_id=-1)
    a.sync(version=version, member_id="nobody", generation_id=9)
    a.sync(version=version)


@situation("SyncGroup with another protocol type or name: inconsistent group protocol")
def protocols(w: Play) -> None:
    a = w.client("a", protocols=BOTH)
    w.stable(a)
    a.sync(protocol_type="connect")
    a.sync(protocol_type="")
    a.sync(protocol_name="roundrobin")
    a.sync(protocol_name="")
    a.sync(protocol_type=None, protocol_name=None)
    a.sync(protocol_type="connect", generation_id=9)
    a.sync(protocol_type="connect", member_id="nobody")
    a.sync(version=4, protocol_type="connect")


@situation("SyncGroup with another protocol type or name during CompletingRebalance")
def protocols_completing(w: Play) -> None:
    a = w.client("a")
    a.enter()
    a.answer()
    a.sync({a: b"A"}, protocol_type="connect")
    a.sync({a: b"A"}, protocol_name="roundrobin")
    a.sync({a: b"A"}, protocol_type=None)


@situation("SyncGroup with an unknown group instance id", (3, 4, 5))
def instances(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.sync(version=version, group_instance_id="one")
    a.sync(version=version, group_instance_id="one", member_id="nobody")
    a.sync(version=version, group_instance_id="")


@situation("SyncGroup during PreparingRebalance", ALL)
def preparing(w: Play, version: int) -> None:
    a, b, c = w.clients("abc")
    w.stable(a)
    b.enter()
    a.sync({a: b"A"}, version)
    c.sync(version=version, member_id=b.member_id, generation_id=1)
    c.sync(version=version, member_id=b.member_id)
    a.sync(version=version, member_id="nobody")
    a.sync(version=version, generation_id=5)


@situation("SyncGroup with a pending member id", (0, 5))
def pending(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    a.join()
    a.sync(version=version, generation_id=0)
    w.stable(a)
    b.join()
    b.sync(version=version, generation_id=1)


@situation("SyncGroup during CompletingRebalance: unknown member id, illegal generation", (0, 3, 5))
def completing(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    a.enter()
    a.answer()
    a.sync({a: b"A"}, version, generation_id=0)
    a.sync({a: b"A"}, version, generation_id=2)
    a.sync({a: b"A"}, version, member_id="nobody")
    b.sync({}, version)


@situation("SyncGroup that waits is answered REBALANCE_IN_PROGRESS by a new rebalance")
def interrupted(w: Play) -> None:
    a, b, c = w.clients("abc")
    w.completing(a, b)
    b.send_sync()
    b.silent()
    c.enter()
    b.answer()
    a.beat()
    b.send_join()
    a.join()
    b.answer()
    c.answer()


@situation("SyncGroup with a large assignment")
def large(w: Play) -> None:
    a = w.client("a")
    a.enter()
    a.answer()
    a.sync({a: b"x" * 70_000})
    a.sync()


@situation("SyncGroup of a group whose protocol type is not consumer", (0, 5))
def connect(w: Play, version: int) -> None:
    a = w.client("a", protocol_type="connect", protocols=(("default", b"url"),))
    a.enter()
    a.answer()
    a.sync({a: b"task"}, version)
    a.describe()
