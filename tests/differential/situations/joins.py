"""JoinGroup: who is taken in."""

from tests.differential.play import BOTH, ORDERS, Play, subscription
from tests.differential.table import situation

ALL = range(10)


@situation("a version of JoinGroup that does not exist closes the connection")
def no_such_version(w: Play) -> None:
    w.client("a").join(10)


@situation("JoinGroup of a single member", ALL)
def alone(w: Play, version: int) -> None:
    a = w.client("a")
    a.enter(version)
    a.answer()
    a.sync({a: b"assigned"}, min(version, 5))
    a.describe()


@situation("JoinGroup with the empty group id", ALL)
def empty_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.join(version, group_id="")
    a.join(version, group_id="", session_timeout_ms=1)


@situation("JoinGroup with a session timeout out of range", (0, 5, 9))
def session_timeouts(w: Play, version: int) -> None:
    a = w.client("a")
    for timeout_ms in (99, 0, -1, 1_800_001, 2**31 - 1):
        a.join(version, session_timeout_ms=timeout_ms)
    a.join(version, session_timeout_ms=99, member_id="nobody", protocols=())
    a.describe()


@situation("JoinGroup with the shortest and the longest session timeout", (0, 9))
def session_timeout_limits(w: Play, version: int) -> None:
    a = w.client("a")
    a.join(version, session_timeout_ms=1_800_000)
    b = w.client("b", group=w.group + " short")
    b.join(version, session_timeout_ms=100)


@situation("JoinGroup with a member id to an unknown group does not create it", ALL)
def unknown_member_of_no_group(w: Play, version: int) -> None:
    a = w.client("a", member_id="nobody")
    a.join(version)
    a.describe()


@situation("JoinGroup with a member id and a group instance id to an unknown group", (5, 9))
def unknown_static_member_of_no_group(w: Play, version: int) -> None:
    a = w.client("a", member_id="nobody", instance="one")
    a.join(version)
    a.describe()


@situation("JoinGroup with an unknown member id to an empty group", (0, 9))
def unknown_member_of_an_empty_group(w: Play, version: int) -> None:
    a = w.client("a")
    a.commit(("orders", 0, 1))
    a.join(version, member_id="nobody")
    a.describe()


@situation("JoinGroup with an unknown member id to a stable group", (0, 4, 9))
def unknown_member(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.join(version, member_id="nobody")
    a.beat()


@situation("JoinGroup with a member id and an unknown group instance id", (5, 9))
def unknown_instance(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.join(version, member_id="nobody", group_instance_id="one")
    b.join(version, member_id=a.member_id, group_instance_id="one")
    a.beat()


@situation("JoinGroup without protocols", (0, 3, 4, 9))
def no_protocols(w: Play, version: int) -> None:
    a = w.client("a", protocols=())
    a.join(version)
    w.pause(100)
    a.describe()
    a.join(version, member_id="nobody")


@situation("JoinGroup without a protocol type", (0, 3, 4, 9))
def no_protocol_type(w: Play, version: int) -> None:
    a = w.client("a", protocol_type="")
    a.join(version)
    w.pause(100)
    a.describe()


@situation("JoinGroup without protocols or type of a member that joins again", (3, 9))
def nothing_in_common_with_itself(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.join(version, protocols=())
    a.join(version, protocol_type="")
    a.join(version, protocol_type="connect")
    a.join(version, protocols=(("sticky", ORDERS),))
    a.answer() if a.pending else None
    a.beat()


@situation("JoinGroup with protocols that no other member has: inconsistent group protocol", (3, 4, 9))
def nothing_in_common(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.join(version, protocols=(("sticky", ORDERS),))
    b.join(version, protocol_type="connect")
    b.join(version, protocols=())
    b.join(version, protocol_type="")
    a.beat()


@situation("JoinGroup with protocols that not all members have")
def not_in_common_with_all(w: Play) -> None:
    a = w.client("a", protocols=(("range", ORDERS), ("sticky", ORDERS)))
    b = w.client("b", protocols=(("range", ORDERS), ("roundrobin", ORDERS)))
    c = w.client("c", protocols=(("sticky", ORDERS), ("roundrobin", ORDERS)))
    w.stable(a, b)
    c.join()
    c.join(protocols=(("sticky", ORDERS), ("range", ORDERS)))


@situation("JoinGroup with another protocol type to an empty group that had members")
def other_type_in_an_empty_group(w: Play) -> None:
    a, b = w.client("a"), w.client("b", protocol_type="connect", protocols=(("default", b"url"),))
    w.stable(a)
    a.leave()
    b.enter()
    b.answer()
    b.describe()


@situation("JoinGroup to a simple group keeps its offsets")
def simple_group(w: Play) -> None:
    a = w.client("a", protocol_type="connect", protocols=(("default", b"url"),))
    a.nobody_commits(("orders", 0, 5))
    w.stable(a)
    a.describe()
    a.fetch(everything=True)


@situation("JoinGroup: MEMBER_ID_REQUIRED and joining with the pending member id (KIP-394)", range(4, 10))
def handed_out(w: Play, version: int) -> None:
    a = w.client("client")
    a.join(version)
    a.describe()
    a.list_groups()
    a.join(version)
    a.describe()


@situation("JoinGroup to a stable group: MEMBER_ID_REQUIRED", (4, 9))
def handed_out_by_a_stable_group(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a)
    b.join(version)
    a.beat()
    a.describe()
    b.send_join(version)
    b.silent()
    a.beat()
    a.describe()


@situation("JoinGroup: two pending member ids for the same client")
def two_ids(w: Play) -> None:
    a = w.client("a")
    a.join()
    a.join(member_id="")
    a.send_join()
    a.silent()


@situation("JoinGroup with a pending member id and a group instance id")
def handed_out_with_an_instance(w: Play) -> None:
    a = w.client("a")
    a.join()
    a.join(group_instance_id="one")
    a.describe()


@situation("JoinGroup of a client with an empty client id", (3, 9))
def no_client_id(w: Play, version: int) -> None:
    a = w.client("")
    a.enter(version)
    a.answer()
    a.sync({a: b""})
    a.describe()


@situation("a follower that joins unchanged stays in the generation", (0, 3, 5, 9))
def follower_unchanged(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a, b)
    b.join(version)
    a.beat()
    b.beat()


@situation("a follower whose protocols change asks for a rebalance")
def follower_changed(w: Play) -> None:
    a, b = w.clients("ab", protocols=BOTH)
    w.stable(a, b)
    b.send_join(protocols=(("roundrobin", ORDERS), ("range", ORDERS)))
    b.silent()
    a.beat()
    a.join()
    b.answer()


@situation("a follower whose subscription changes asks for a rebalance")
def follower_subscribes(w: Play) -> None:
    a, b = w.clients("ab")
    w.stable(a, b)
    b.send_join(protocols=(("range", subscription("orders", "pages")),))
    b.silent()
    a.join()
    b.answer()


@situation("the leader asks for a rebalance by joining", (0, 3, 5, 9))
def leader(w: Play, version: int) -> None:
    a, b = w.clients("ab")
    w.stable(a, b)
    a.send_join(version)
    a.silent()
    b.beat()
    b.join(version)
    a.answer()


@situation("a leader alone joins again", (0, 3, 9))
def leader_alone(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.join(version)
    a.describe()


@situation("JoinGroup again during CompletingRebalance")
def completing(w: Play) -> None:
    a, b = w.clients("ab", protocols=BOTH)
    w.completing(a, b)
    b.join()
    a.join()
    a.send_join(9, protocols=(("range", ORDERS),))
    a.silent()
    b.join()
    a.answer()


@situation("JoinGroup again during CompletingRebalance with other protocols")
def completing_changed(w: Play) -> None:
    a, b = w.clients("ab", protocols=BOTH)
    w.completing(a, b)
    b.send_join(protocols=(("roundrobin", ORDERS),))
    b.silent()
    a.beat()
    a.join()
    b.answer()


@situation("JoinGroup of a new member during CompletingRebalance")
def newcomer_completing(w: Play) -> None:
    a, b = w.clients("ab")
    a.enter()
    a.answer()
    b.enter()
    b.silent()
    a.beat()
    a.sync({a: b"A"})
    a.join()
    b.answer()


@situation("JoinGroup of a new member during PreparingRebalance")
def newcomer_preparing(w: Play) -> None:
    a, b, c = w.clients("abc")
    w.stable(a)
    b.enter()
    c.enter()
    c.silent()
    a.join()
    b.answer()
    c.answer()


@situation("JoinGroup of unknown members during PreparingRebalance", (3, 9))
def unknown_preparing(w: Play, version: int) -> None:
    a, b, c = w.clients("abc")
    w.stable(a)
    b.enter()
    c.join(version, member_id="nobody")
    c.join(version, protocols=(("sticky", ORDERS),))


@situation("JoinGroup of unknown members during CompletingRebalance", (3, 9))
def unknown_completing(w: Play, version: int) -> None:
    a, c = w.clients("ac")
    a.enter()
    a.answer()
    c.join(version, member_id="nobody")
    c.join(version, protocols=(("sticky", ORDERS),))


@situation("JoinGroup with any rebalance timeout", (1, 9))
def rebalance_timeouts(w: Play, version: int) -> None:
    for number, timeout_ms in enumerate((0, -1, 2**31 - 1)):
        a = w.client("a", group=f"{w.group} {number}", rebalance_ms=timeout_ms)
        a.enter(version)
        a.answer()


@situation("JoinGroup of a member that left: unknown member id", (0, 9))
def left(w: Play, version: int) -> None:
    a = w.client("a")
    w.stable(a)
    a.leave()
    a.join(version)
    a.enter(version, member_id="") if version < 4 else a.join(version, member_id="")
    a.answer() if a.pending else None


@situation("JoinGroup with a reason", (8, 9))
def reasons(w: Play, version: int) -> None:
    a = w.client("a")
    a.join(version, reason="because")
    a.join(version, reason="r" * 300)


@situation("JoinGroup with an empty protocol name")
def unnamed_protocol(w: Play) -> None:
    a = w.client("a", protocols=(("", b""),))
    w.stable(a)
    a.describe()


@situation("JoinGroup that names a protocol twice")
def protocol_twice(w: Play) -> None:
    a = w.client("a", protocols=(("range", ORDERS), ("range", subscription("pages"))))
    a.enter(3)
    a.answer()


@situation("JoinGroup to a full group: group.max.size", setting="delayed")
def full(w: Play) -> None:
    members = w.clients("abc", rebalance_ms=900)
    for member in members:
        member.send_join(3)
    d = w.client("d")
    d.join(3)
    d.join(9)
    for member in members:
        member.answer()
    d.join(3)
    d.join(9)
    members[0].describe()


@situation("a pending member id does not count towards group.max.size", setting="delayed")
def handed_out_of_a_full_group(w: Play) -> None:
    a, b, c, d = w.clients("abcd", rebalance_ms=900)
    d.join()
    for member in (a, b, c):
        member.send_join(3)
    for member in (a, b, c):
        member.answer()
    d.join()


@situation("a full group takes back its own members: group.max.size", setting="delayed")
def full_of_its_own(w: Play) -> None:
    a, b, c, d = w.clients("abcd", rebalance_ms=900)
    for member in (a, b, c):
        member.send_join(3)
    for member in (a, b, c):
        member.answer()
    a.sync({a: b"A", b: b"B", c: b"C"})
    c.leave()
    d.enter()
    a.join()
    b.join()
    d.answer()
    c.join(member_id="")
