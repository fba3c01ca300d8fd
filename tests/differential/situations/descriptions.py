"""DescribeGroups, of groups in every state."""

from tests.differential.play import BOTH, Play
from tests.differential.table import situation

ALL = range(7)


@situation("a version of DescribeGroups that does not exist closes the connection")
def no_such_version(w: Play) -> None:
    w.client("a").describe(version=7)


@situation("DescribeGroups of an unknown group: Dead", ALL)
def unknown(w: Play, version: int) -> None:
    w.client("a").describe(version=version)


@situation("DescribeGroups without groups", (0, 5, 6))
def none(w: Play, version: int) -> None:
    w.client("a").ask("DescribeGroups", version, groups=[])


@situation("DescribeGroups of the empty group id", (0, 6))
def empty_id(w: Play, version: int) -> None:
    w.client("a").describe("", version=version)


@situation("a simple group is described", ALL)
def simple(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1))
    a.describe(version=version)


@situation("a stable group is described", ALL)
def stable(w: Play, version: int) -> None:
    a, b = w.client("a", protocols=BOTH), w.client("b", instance="two", protocols=BOTH)
    w.stable(a, b)
    a.describe(version=version)


@situation("DescribeGroups during PreparingRebalance", ALL)
def preparing(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.enter()
    a.describe(version=version)


@situation("DescribeGroups during CompletingRebalance", ALL)
def completing(w: Play, version: int) -> None:
    a = w.client("a", instance="one")
    a.enter()
    a.answer()
    a.describe(version=version)


@situation("DescribeGroups of an empty group that had members", ALL)
def emptied(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.leave()
    a.describe(version=version)


@situation("DescribeGroups of a group with only a pending member id", (0, 6))
def pending(w: Play, version: int) -> None:
    a = w.client("a")
    a.join()
    a.describe(version=version)


@situation("DescribeGroups of a deleted group", (0, 5, 6))
def deleted(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1))
    a.delete_groups()
    a.describe(version=version)


@situation("operations allowed on groups are reported", (3, 5, 6))
def operations(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1))
    a.describe(w.group, w.group + " unknown", version=version, include_authorized_operations=True)


@situation("several groups are described, one of them twice", (0, 6))
def several(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1))
    a.commit(("orders", 0, 1), group_id=w.group + " other")
    a.describe(w.group, w.group + " unknown", w.group + " other", w.group, version=version)


@situation("a group of another type is described", (0, 6))
def connect(w: Play, version: int) -> None:
    a = w.client("a", protocol_type="connect", protocols=(("default", b"url"),))
    w.stable(a)
    a.describe(version=version)
    a.leave()
    a.describe(version=version)
