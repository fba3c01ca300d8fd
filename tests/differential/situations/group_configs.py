"""Configurations of single groups (KIP-848): how they are set and described, and what members notice of them."""

from typing import Any

from tests.differential.play import Client, Play
from tests.differential.situations.administration import GROUP, configs
from tests.differential.situations.consumer_groups import beat, enter
from tests.differential.table import situation

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def change(
    a: Client,
    *changes: tuple[str, int, str | None],
    group: str | None = None,
    version: int = 1,
    validate_only: bool = False,
) -> None:
    """IncrementalAlterConfigs of one group: (key, operation, value)."""
    named = [{"name": name, "config_operation": how, "value": value} for name, how, value in changes]
    name = a.group if group is None else group
    resource = {"resource_type": GROUP, "resource_name": name, "configs": named}
    a.ask("IncrementalAlterConfigs", version, resources=[resource], validate_only=validate_only)
    a.play.pause(200)  # a Kafka answers when its controller knows, and its broker follows


def describe(
    a: Client, *keys: str, version: int = 4, synonyms: bool = True, group: str | None = None
) -> None:
    """DescribeConfigs of one group."""
    wanted: dict[str, Any] = {
        "resource_type": GROUP,
        "resource_name": a.group if group is None else group,
        "configuration_keys": list(keys or (SESSION, HEARTBEAT)),
    }
    a.ask("DescribeConfigs", version, resources=[wanted], include_synonyms=synonyms)


@situation("a group has the broker's configuration", (1, 4))
def inherited(w: Play, version: int) -> None:
    a = w.client("a")
    describe(a, version=version)
    describe(a, version=version, synonyms=False)
    describe(a, "nonsense", HEARTBEAT, version=version)


@situation("a group's configuration is set and deleted", (0, 1))
def set_and_deleted(w: Play, version: int) -> None:
    a = w.client("a")
    change(a, (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"), version=version)
    describe(a)
    change(a, (SESSION, SET, "55000"), version=version)
    describe(a)
    change(a, (SESSION, DELETE, None), version=version)
    describe(a)
    change(a, (SESSION, DELETE, None), (HEARTBEAT, DELETE, "x"), version=version)
    describe(a)


@situation("a group's configuration is replaced as a whole")
def replaced(w: Play) -> None:
    a = w.client("a")
    for values in ({"consumer_session_timeout_ms": "50000"}, {"consumer_heartbeat_interval_ms": "6000"}, {}):
        a.ask("AlterConfigs", 2, resources=[configs(GROUP, a.group, **values)], validate_only=False)
        w.pause(200)
        describe(a)


@situation("a group's session timeout has bounds")
def session_bounds(w: Play) -> None:
    a = w.client("a")
    for value in ("44999", "60001", "0", "-1", "60000", "45000"):
        change(a, (SESSION, SET, value))
    describe(a)


@situation("a group's heartbeat interval has bounds")
def heartbeat_bounds(w: Play) -> None:
    a = w.client("a")
    for value in ("4999", "15001", "0", "-1", "15000", "5000"):
        change(a, (HEARTBEAT, SET, value))
    describe(a)


@situation("a group's configuration is a number")
def numbers(w: Play) -> None:
    a = w.client("a")
    for value in ("x", "", "50000.5", "99999999999", " 50000 ", None):
        change(a, (SESSION, SET, value))
    describe(a)


@situation("a group is configured by unknown keys")
def unknown(w: Play) -> None:
    a = w.client("a")
    change(a, ("nonsense", SET, "1"))
    change(a, ("session.timeout.ms", SET, "50000"), (HEARTBEAT, SET, "6000"))
    change(a, ("nonsense", DELETE, None))
    describe(a)


@situation("IncrementalAlterConfigs of a group: APPEND and SUBTRACT of numbers")
def lists(w: Play) -> None:
    a = w.client("a")
    change(a, (SESSION, APPEND, "50000"))
    change(a, (SESSION, SUBTRACT, "50000"))
    change(a, (SESSION, 9, "50000"))
    describe(a)


@situation("a group's key is named twice")
def twice(w: Play) -> None:
    a = w.client("a")
    change(a, (SESSION, SET, "50000"), (SESSION, SET, "55000"))
    change(a, (SESSION, SET, "50000"), (SESSION, DELETE, None))
    describe(a)


@situation("a group's configuration is validated only")
def validated(w: Play) -> None:
    a = w.client("a")
    change(a, (SESSION, SET, "50000"), validate_only=True)
    change(a, (SESSION, SET, "1"), validate_only=True)
    describe(a)


@situation("of two changes to a group one is refused")
def together(w: Play) -> None:
    a = w.client("a")
    change(a, (SESSION, SET, "50000"), (HEARTBEAT, SET, "1"))
    describe(a)


@situation("groups without a name have no configuration")
def nameless(w: Play) -> None:
    a = w.client("a")
    change(a, (SESSION, SET, "50000"), group="")
    describe(a, group="")


@situation("a group's heartbeat interval reaches its members", (0, 1))
def heard(w: Play, version: int) -> None:
    a = w.client("a")
    enter(a, version)
    change(a, (HEARTBEAT, SET, "7000"))
    beat(a, version)
    change(a, (HEARTBEAT, DELETE, None))
    beat(a, version)


@situation("a group is configured before it has members")
def before(w: Play) -> None:
    a = w.client("a")
    change(a, (HEARTBEAT, SET, "8000"))
    a.ask("ConsumerGroupDescribe", 1, group_ids=[a.group])
    enter(a)


@situation("a deleted group keeps its configuration")
def kept(w: Play) -> None:
    a = w.client("a")
    change(a, (HEARTBEAT, SET, "9000"))
    enter(a)
    beat(a, member_epoch=-1)
    a.ask("DeleteGroups", 2, groups_names=[a.group])
    describe(a)
    enter(a)
