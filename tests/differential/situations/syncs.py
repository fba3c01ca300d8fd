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


@situation("SyncGroup of a group that emptied", (0, 5))
def emptied(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.leave()
    a.sync(version=version)


@situation("the leader's assignments reach all", ALL)
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


@situation("members that the leader forgot get nothing", (0, 5))
def forgotten(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    a.enter()
    a.answer()
    b.enter()
    a.join()
    b.answer()
    a.sync({a: b"A", "nobody": b"?"}, version)
    b.sync(version=version)
    a.describe()


@situation("a leader that assigns nothing", (0, 5))
def no_assignments(w: Play, version: int) -> None:
    a = w.client("a")
    a.enter()
    a.answer()
    a.sync({}, version)
    a.describe()


@situation("a member twice among the assignments", (0, 5))
def twice(w: Play, version: int) -> None:
    a = w.client("a")
    a.enter()
    a.answer()
    given = [{"member_id": a.member_id, "assignment": text} for text in (b"one", b"two")]
    a.sync(None, version, assignments=given)
    a.describe()


@situation("a follower's assignments are not looked at")
def follower(w: Play) -> None:
    a, b = w.clients("ab")
    a.enter()
    a.answer()
    b.enter()
    a.join()
    b.answer()
    b.send_sync({a: b"mine", b: b"mine"})
    b.silent()
    a.sync({a: b"A", b: b"B"})
    b.answer()


@situation("what SyncGroup refuses in a stable group", ALL)
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


@situation("protocol type and name must be the group's")
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


@situation("protocol type and name must be the group's while the assignment is awaited")
def protocols_completing(w: Play) -> None:
    a = w.client("a")
    a.enter()
    a.answer()
    a.sync({a: b"A"}, protocol_type="connect")
    a.sync({a: b"A"}, protocol_name="roundrobin")
    a.sync({a: b"A"}, protocol_type=None)


@situation("unknown instances cannot sync", (3, 4, 5))
def instances(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.sync(version=version, group_instance_id="one")
    a.sync(version=version, group_instance_id="one", member_id="nobody")
    a.sync(version=version, group_instance_id="")


@situation("SyncGroup while members are awaited", ALL)
def preparing(w: Play, version: int) -> None:
    a, b, c = w.clients("abc")
    w.stable(a)
    b.enter()
    a.sync({a: b"A"}, version)
    c.sync(version=version, member_id=b.member_id, generation_id=1)
    c.sync(version=version, member_id=b.member_id)
    a.sync(version=version, member_id="nobody")
    a.sync(version=version, generation_id=5)


@situation("SyncGroup with a member id that was handed out", (0, 5))
def pending(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    a.join()
    a.sync(version=version, generation_id=0)
    w.stable(a)
    b.join()
    b.sync(version=version, generation_id=1)


@situation("what SyncGroup refuses while the assignment is awaited", (0, 3, 5))
def completing(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    a.enter()
    a.answer()
    a.sync({a: b"A"}, version, generation_id=0)
    a.sync({a: b"A"}, version, generation_id=2)
    a.sync({a: b"A"}, version, member_id="nobody")
    b.sync({}, version)


@situation("a rebalance answers those that wait for their assignment")
def interrupted(w: Play) -> None:
    a, b, c = w.clients("abc")
    a.enter()
    a.answer()
    b.enter()
    a.join()
    b.answer()
    b.send_sync()
    b.silent()
    c.enter()
    b.answer()
    a.beat()
    b.send_join()
    a.join()
    b.answer()
    c.answer()


@situation("an assignment of many bytes")
def large(w: Play) -> None:
    a = w.client("a")
    a.enter()
    a.answer()
    a.sync({a: b"x" * 70_000})
    a.sync()


@situation("a group of another protocol type syncs", (0, 5))
def connect(w: Play, version: int) -> None:
    a = w.client("a", protocol_type="connect", protocols=(("default", b"url"),))
    a.enter()
    a.answer()
    a.sync({a: b"task"}, version)
    a.describe()
