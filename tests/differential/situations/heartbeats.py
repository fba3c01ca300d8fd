"""Heartbeat, in every state of a group."""

from tests.differential.play import Play
from tests.differential.table import situation

ALL = range(5)


@situation("a version of Heartbeat that does not exist closes the connection")
def no_such_version(w: Play) -> None:
    w.client("a").beat(5)


@situation("Heartbeat to an unknown group", ALL)
def unknown_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.beat(version, member_id="nobody", generation_id=1)
    a.beat(version)
    a.describe()


@situation("Heartbeat to the empty group id", ALL)
def empty_group(w: Play, version: int) -> None:
    w.client("a").beat(version, group_id="", member_id="nobody", generation_id=1)


@situation("Heartbeat to a simple group", (0, 4))
def simple_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1))
    a.beat(version, member_id="nobody", generation_id=0)
    a.beat(version)


@situation("Heartbeat to a stable group", ALL)
def stable(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.beat(version)
    a.beat(version, generation_id=0)
    a.beat(version, generation_id=2)
    a.beat(version, generation_id=-1)
    a.beat(version, member_id="nobody")
    a.beat(version, member_id="")
    a.beat(version, member_id="nobody", generation_id=9)


@situation("Heartbeat with an unknown group instance id", (3, 4))
def instances(w: Play, version: int) -> None:
    a, b = w.client("a"), w.client("b", instance="two")
    w.stable(a, b)
    a.beat(version, group_instance_id="one")
    a.beat(version, group_instance_id="two")
    a.beat(version, group_instance_id="")
    b.beat(version)
    b.beat(version, group_instance_id=None)
    b.beat(version, group_instance_id="one")
    b.beat(version, member_id="")
    b.beat(version, member_id="nobody", generation_id=9)


@situation("Heartbeat during PreparingRebalance", ALL)
def preparing(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.enter()
    a.beat(version)
    a.beat(version, generation_id=0)
    a.beat(version, generation_id=2)
    a.beat(version, member_id="nobody")
    other = w.client("c")
    other.beat(version, member_id=b.member_id, generation_id=1)


@situation("Heartbeat during CompletingRebalance", ALL)
def completing(w: Play, version: int) -> None:
    a = w.client("a")
    a.enter()
    a.answer()
    a.beat(version)
    a.beat(version, generation_id=0)
    a.beat(version, generation_id=2)
    a.beat(version, member_id="nobody")


@situation("Heartbeat of an empty group that had members", (0, 4))
def emptied(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.leave()
    a.beat(version)
    a.beat(version, generation_id=2)


@situation("Heartbeat with a pending member id", (0, 4))
def pending(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    a.join()
    a.beat(version)
    a.beat(version, generation_id=0)
    w.stable(a)
    b.join()
    b.beat(version)
    b.beat(version, generation_id=1)


@situation("Heartbeat with an old generation: illegal generation", (0, 4))
def old_generation(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a, b)
    b.beat(version, generation_id=1)
    a.beat(version, generation_id=1)
    a.beat(version)


@situation("Heartbeat of a deleted group")
def deleted(w: Play) -> None:
    a = w.client("a")
    w.stable(a)
    a.leave()
    a.delete_groups()
    a.beat()


@situation("Heartbeat to a group whose protocol type is not consumer")
def connect(w: Play) -> None:
    a = w.client("a", protocol_type="connect", protocols=(("default", b"url"),))
    w.stable(a)
    a.beat()
    a.beat(generation_id=2)
