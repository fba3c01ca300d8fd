"""FindCoordinator, ApiVersions and what is not there."""

from tests.differential.play import Play
from tests.differential.table import situation


@situation("versions of FindCoordinator that do not exist close the connection", (7,))
def no_such_version(w: Play, version: int) -> None:
    w.client("a").ask("FindCoordinator", version, coordinator_keys=["g"])


@situation("the coordinator of one group", range(4))
def one(w: Play, version: int) -> None:
    w.client("a").ask("FindCoordinator", version, key=w.group)


@situation("the coordinators of groups", range(4, 7))
def several(w: Play, version: int) -> None:
    a = w.client("a")
    a.ask("FindCoordinator", version, coordinator_keys=[w.group, "other", "z", "a"])
    a.ask("FindCoordinator", version, coordinator_keys=[])
    a.ask("FindCoordinator", version, coordinator_keys=["same", "same"])


@situation("the coordinator of the empty group id", (0, 3))
def empty(w: Play, version: int) -> None:
    w.client("a").ask("FindCoordinator", version, key="")


@situation("the coordinators of groups, one of them empty", (4, 6))
def empty_among(w: Play, version: int) -> None:
    w.client("a").ask("FindCoordinator", version, coordinator_keys=["", "g"])


@situation("FindCoordinator with an unknown key type", range(1, 7))
def types(w: Play, version: int) -> None:
    a = w.client("a")
    for key_type in (3, -1, 127):
        key = {"key": "g"} if version < 4 else {"coordinator_keys": ["g", "h"]}
        a.ask("FindCoordinator", version, key_type=key_type, **key)


@situation("FindCoordinator of share groups in old versions", (4, 5))
def share(w: Play, version: int) -> None:
    w.client("a").ask("FindCoordinator", version, key_type=2, coordinator_keys=["g:abc:0"])


@situation("ApiVersions: every API in Kafka's versions", range(5))
def api_versions(w: Play, version: int) -> None:
    software = {"client_software_name": "table", "client_software_version": "1"}
    w.client("a").ask("ApiVersions", version, **software)


@situation("a version of ApiVersions that does not exist is answered in version 0", (5, 99))
def api_versions_too_new(w: Play, version: int) -> None:
    a = w.client("a")
    a.ask("ApiVersions", version)
    a.ask("ApiVersions", 4, client_software_name="table", client_software_version="1")


@situation("requests on one connection are answered in order")
def pipelined(w: Play) -> None:
    a = w.client("a")
    a.nobody_commits(("orders", 0, 1))
    a.send("Heartbeat", 4, group_id=w.group, generation_id=1, member_id="nobody")
    a.send("DescribeGroups", 6, groups=[w.group])
    a.send("OffsetFetch", 8, groups=[{"group_id": w.group, "topics": None}])
    a.answer()
    a.answer()
    a.answer()


@situation("requests after a JoinGroup that waits are answered after it")
def behind_a_join(w: Play) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.enter()
    b.send("Heartbeat", 4, group_id=w.group, generation_id=1, member_id=b.member_id)
    b.silent()
    a.join()
    b.answer()
    b.answer()


@situation("COORDINATOR_NOT_AVAILABLE: the first FindCoordinator of a new broker", setting="new")
def first(w: Play) -> None:
    a = w.client("a")
    for key_type in 0, 1:
        a.ask("FindCoordinator", 4, key_type=key_type, coordinator_keys=[w.group])
        found = {"key_type": key_type, "coordinator_keys": [w.group]}
        w.until(lambda found=found: not w._quietly("FindCoordinator", 4, **found).coordinators[0].error_code)
        a.ask("FindCoordinator", 4, key_type=key_type, coordinator_keys=[w.group])
