"""ListGroups, with its filters."""

from tests.differential.play import Client, Play
from tests.differential.table import situation

ALL = range(6)


def populate(w: Play) -> Client:
    """Make a group of each state."""
    simple = w.client("a", group=w.group + " simple")
    simple.commit(("orders", 0, 1))
    stable = w.client("b", group=w.group + " stable")
    w.stable(stable)
    completing = w.client("c", group=w.group + " completing")
    completing.enter()
    completing.answer()
    preparing, newcomer = (
        w.client("d", group=w.group + " preparing"),
        w.client("e", group=w.group + " preparing"),
    )
    w.stable(preparing)
    newcomer.enter()
    emptied = w.client("f", group=w.group + " emptied", protocol_type="connect")
    w.stable(emptied)
    emptied.leave()
    return simple


@situation("a version of ListGroups that does not exist closes the connection")
def no_such_version(w: Play) -> None:
    w.client("a").list_groups(6)


@situation("groups of every state are listed", ALL)
def everything(w: Play, version: int) -> None:
    populate(w).list_groups(version)


@situation("groups are listed by state", (4, 5))
def by_state(w: Play, version: int) -> None:
    a = populate(w)
    for states in (
        ["Stable"],
        ["stable"],
        ["STABLE", "Empty"],
        ["PreparingRebalance"],
        ["preparingrebalance", "CompletingRebalance"],
        [" Stable "],
        ["Dead"],
        ["dead", "Stable"],
        ["Assigning"],
        ["Reconciling"],
        ["nonsense"],
        ["nonsense", "Empty"],
        [""],
        ["Stable,Empty"],
        ["Unknown"],
        ["NotReady"],
    ):
        a.list_groups(version, states)


@situation("groups are listed by type")
def by_type(w: Play) -> None:
    a = populate(w)
    for types in (
        ["classic"],
        ["Classic"],
        ["CLASSIC"],
        [" classic "],
        ["consumer"],
        ["share"],
        ["streams"],
        ["nonsense"],
        ["nonsense", "classic"],
        [""],
        ["unknown"],
        ["consumer", "classic"],
    ):
        a.list_groups(5, (), types)


@situation("groups are listed by state and type")
def by_both(w: Play) -> None:
    a = populate(w)
    a.list_groups(5, ["Stable"], ["classic"])
    a.list_groups(5, ["Stable"], ["consumer"])
    a.list_groups(5, ["nonsense"], ["classic"])


@situation("deleted and unknown groups are not listed", (0, 5))
def deleted(w: Play, version: int) -> None:
    a = w.client("a")
    a.list_groups(version)
    a.fetch(("orders", 0))
    a.list_groups(version)
    a.commit(("orders", 0, 1))
    a.delete_groups()
    a.list_groups(version)


@situation("ListGroups with a group that has only a pending member id", (0, 4, 5))
def pending(w: Play, version: int) -> None:
    a = w.client("a")
    a.join()
    a.list_groups(version)
    a.list_groups(max(version, 4), ["Empty"])
