"""DeleteGroups."""

from tests.differential.play import Play
from tests.differential.table import situation

ALL = range(3)


@situation("a version of DeleteGroups that does not exist closes the connection")
def no_such_version(w: Play) -> None:
    w.client("a").delete_groups(version=3)


@situation("DeleteGroups of an unknown group: GROUP_ID_NOT_FOUND", ALL)
def unknown(w: Play, version: int) -> None:
    w.client("a").delete_groups(version=version)


@situation("DeleteGroups of a simple group deletes its offsets", ALL)
def simple(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1), ("pages", 1, 2))
    a.delete_groups(version=version)
    a.fetch(everything=True)
    a.delete_groups(version=version)


@situation("DeleteGroups of a group with members: NON_EMPTY_GROUP", ALL)
def live(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.delete_groups(version=version)
    a.beat()
    a.leave()
    a.delete_groups(version=version)


@situation("DeleteGroups during PreparingRebalance and CompletingRebalance")
def rebalancing(w: Play) -> None:
    a, b = w.clients("ab")
    a.enter()
    a.answer()
    a.delete_groups()
    a.sync({a: b"A"})
    b.enter()
    a.delete_groups()


@situation("DeleteGroups of groups that can and cannot be deleted", ALL)
def several(w: Play, version: int) -> None:
    a, b = w.client("a"), w.client("b", group=w.group + " live")
    for number in range(3):
        a.commit(("orders", 0, 1), group_id=f"{w.group} {number}")
    w.stable(b)
    a.delete_groups(
        f"{w.group} 2",
        f"{w.group} live",
        f"{w.group} unknown",
        f"{w.group} 0",
        f"{w.group} 1",
        version=version,
    )


@situation("DeleteGroups that names a group twice", (0, 2))
def twice(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1))
    a.delete_groups(w.group, w.group, version=version)
    a.fetch(everything=True)


@situation("DeleteGroups without groups", ALL)
def none(w: Play, version: int) -> None:
    w.client("a").ask("DeleteGroups", version, groups_names=[])


@situation("DeleteGroups of a group with only a pending member id")
def pending(w: Play) -> None:
    a = w.client("a")
    a.join()
    a.delete_groups()
    a.join()
    a.describe()


@situation("a deleted group can be joined, and begins again")
def joined_again(w: Play) -> None:
    a = w.client("a")
    w.stable(a)
    a.join()
    a.sync({a: b"A"})
    a.leave()
    a.delete_groups()
    a.join()
    a.member_id = ""
    w.stable(a)
