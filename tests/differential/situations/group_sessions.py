"""Longer sessions of several members of classic groups, step by step."""

from tests.differential.play import Play
from tests.differential.situations.members import OTHER, RANGE, TOPIC, member, start
from tests.differential.table import situation


@situation("every request in each state of a group with two members", setting="sessions")
def phases(w: Play) -> None:
    """Each request in each state, with two members."""
    a, b, look = member(w, "a"), member(w, "b"), member(w, "look")
    start(a)
    look.describe(a.group)
    b.join()
    b.joined()
    look.describe(a.group)
    b.join()
    b.is_silent()
    look.describe(a.group)
    look.describe(a.group, version=5)
    a.beat()
    a.commit()
    a.sync()
    a.receive()
    look.commit(generation_id_or_member_epoch=-1, member_id="", group_instance_id=None)
    look.delete_groups(a.group)
    a.join()
    a.joined()
    b.joined()
    look.describe(a.group)
    a.beat()
    a.commit()
    a.beat(generation_id=1)
    b.sync()
    b.is_silent()
    a.sync(members={a.member_id: b"for a", "nobody": b"?"})
    a.receive()
    b.receive()
    look.describe(a.group)
    b.sync()
    b.receive()
    a.commit()
    a.sync(protocol_name="roundrobin")
    a.receive()
    a.sync(protocol_type="connect")
    a.receive()
    a.sync(protocol_type=None)
    a.receive()
    a.sync(protocol_name=None, member_id="nobody")
    a.receive()
    a.sync(4)
    a.receive()
    a.leave(1)
    b.beat()
    b.join()
    b.joined()
    b.sync(members={})
    b.receive()
    b.leave(members=[("nobody", None), (b.member_id, None), (b.member_id, None), ("", None), ("", "x")])
    look.describe(a.group)
    b.beat()
    b.sync()
    b.receive()
    look.delete_groups(a.group, "never-was")
    look.describe(a.group)
    look.describe(a.group, version=5)


@situation("members that join again, unchanged and changed, in each state of the group", setting="sessions")
def rejoin(w: Play) -> None:
    """A member that joins again, unchanged and changed, in each state."""
    a, b, again = member(w, "a"), member(w, "b"), member(w, "again")
    start(a, b)
    b.join()  # a follower, unchanged: no rebalance
    b.joined()
    b.join(protocols=(("roundrobin", RANGE), ("range", RANGE)))  # the order matters
    b.is_silent()
    a.beat()
    a.join()
    a.joined()
    b.joined()
    b.join()
    b.joined()
    a.join()
    a.joined()
    b.sync()
    a.join(protocols=(("range", OTHER), ("roundrobin", RANGE)))  # changed while the assignment is awaited
    b.receive()
    b.join()
    a.joined()
    b.joined()
    a.sync(members={a.member_id: b"A", b.member_id: b"B"})
    a.receive()
    b.sync()
    b.receive()
    a.join()  # the leader asks for a rebalance
    b.beat()
    b.join()
    a.joined()
    b.joined()
    b.sync()
    again.member_id, again.generation = b.member_id, b.generation
    again.leave()  # while its sync is parked
    b.is_silent()
    a.join()
    a.joined()
    a.join(protocols=(("sticky", RANGE),))
    a.joined()
    a.join(protocol_type="connect")
    a.joined()
    a.join(protocol_type="consumer", protocols=())
    a.joined()


@situation("the members vote for the protocol of the group, also with ties", setting="sessions")
def votes(w: Play) -> None:
    """Ties between protocols."""
    names = [
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
        "default",
        "eager",
        "compatible",
        "sessioned",
    ]
    for first, second in zip(names, names[1:] + names[:1], strict=True):
        a = member(w, "a", f"{w.group} {first} {second}")
        b = member(w, "b", f"{w.group} {first} {second}")
        a.protocols = ((first, RANGE), (second, RANGE))
        b.protocols = ((second, RANGE), (first, RANGE))
        start(a, b)
        a.describe(a.group)
    a, b, c = (member(w, name, f"{w.group} three") for name in "abc")
    a.protocols = (("a", RANGE), ("b", RANGE), ("c", RANGE))
    b.protocols = (("b", RANGE), ("c", RANGE))
    c.protocols = (("c", RANGE), ("b", RANGE), ("a", RANGE))
    start(a, b, c)
    a.describe(a.group)
    b.leave()


@situation("pending member ids: MEMBER_ID_REQUIRED, and what is answered until they join", setting="sessions")
def pending(w: Play) -> None:
    """Member ids that were handed out and not used."""
    a, b, c = member(w, "a"), member(w, "b"), member(w, "c")
    a.join()
    a.joined()
    c.describe(a.group)
    a.list_groups(states=["  emPTY "], types=["CLASSIC"])
    a.commit(generation_id_or_member_epoch=-1)
    a.beat()
    a.sync()
    a.receive()
    a.join(instance="i")
    a.receive()
    a.join(instance=None)
    a.joined()
    b.join()
    b.joined()
    a.sync(members={a.member_id: b"A"})
    a.receive()
    b.leave()  # a pending member that leaves a stable group makes it rebalance
    a.beat()
    c.join()
    c.joined()
    a.join()
    a.is_silent()  # the pending member is waited for
    c.leave()
    a.joined()
    a.sync(members={a.member_id: b"A"})
    a.receive()
    b.join(member_id="", session_ms=300)
    b.joined()
    a.join()
    a.joined()  # once the pending member id has expired
    b.join()
    b.joined()
    a.sync()
    a.receive()
    a.leave()
    c.delete_groups(a.group)
    a.join(3, member_id="", protocol_type="")
    a.joined()
    a.join(3, protocol_type="connect", protocols=(("default", b"x"),))
    a.joined()
    a.sync(members={a.member_id: b"A"})
    a.receive()
    c.delete_offsets((TOPIC, 0), group_id=a.group)
    a.leave()
    b.join(3, member_id="", session_ms=20000)
    b.joined()
    c.describe(a.group)
    c.delete_groups(a.group)
    b.leave()
    c.describe(a.group)
    c.join()
    c.joined()
    c.delete_groups(a.group)
    c.join()
    c.joined()


@situation("static members that restart, are fenced and are removed, step by step", setting="sessions")
def static(w: Play) -> None:
    """Static members that come back, are fenced and are removed."""
    a, b, look = member(w, "a"), member(w, "b"), member(w, "look")
    a.instance, b.instance = "one", "two"
    start(a, b)
    old = b.member_id
    b.join(member_id="")  # a follower, restarted
    b.joined()
    b.sync()
    b.receive()
    b.beat(member_id=old)
    b.commit(member_id=old)
    b.commit(member_id=old, group_instance_id=None)
    b.commit(group_instance_id="three")
    b.sync(member_id=old)
    b.receive()
    b.leave(members=[(old, "two"), ("", "three"), ("nobody", "three")])
    current, b.member_id = b.member_id, old
    b.join()
    b.joined()
    b.join(member_id=current, instance="three")
    b.joined()
    b.join(instance="two")
    b.joined()
    look.describe(a.group)
    for version in (9, 8, 5):
        a.join(version, member_id="")  # the leader, restarted
        a.joined()
        a.beat()
        look.describe(a.group)
        a.sync()
        a.receive()
    b.join(member_id="", protocols=(("roundrobin", RANGE), ("range", RANGE)))
    b.joined()
    a.beat()
    b.join(member_id="", protocols=(("roundrobin", RANGE),))  # changes the protocol
    b.is_silent()
    a.beat()
    fenced = member(w, "fenced")
    fenced.instance = "two"
    fenced.join()  # replaces the parked one
    b.receive()
    a.join()
    fenced.joined()
    a.joined()
    fenced.sync()
    b.join(member_id="", protocols=(("range", RANGE),))
    fenced.receive()  # fenced while its sync is parked
    a.beat()
    a.join()
    a.joined()
    b.joined()
    a.sync(members={a.member_id: b"A", b.member_id: b"B"})
    a.receive()
    b.sync()
    b.receive()
    look.leave(members=[("", "two")])
    a.beat()
    a.join()
    a.joined()
    a.leave(4)
    look.describe(a.group)
    a.join(instance="")
    a.receive()


@situation("session, sync and rebalance timeouts of two members", setting="sessions")
def timeouts(w: Play) -> None:
    """Sessions, syncs and rebalances that time out."""
    a, b, look = member(w, "a"), member(w, "b"), member(w, "look")
    a.session_ms = a.rebalance_ms = b.rebalance_ms = 1000
    b.session_ms = 20000
    start(a)
    w.pause(600)
    a.beat()
    w.pause(600)
    a.beat()
    w.pause(600)
    a.commit()
    w.pause(600)
    a.beat()
    w.pause(1500)
    a.beat()
    a.commit()
    look.describe(a.group)
    look.commit(generation_id_or_member_epoch=-1, member_id="", group_instance_id=None)
    a.join()
    a.joined()
    a.session_ms = 20000
    a.member_id = ""
    start(a, b)
    a.join()
    a.joined()  # after the rebalance timeout, without b
    b.beat()
    b.commit()
    b.member_id = ""
    b.enter()
    a.join()
    a.joined()
    b.joined()
    a.sync(members={a.member_id: b"A", b.member_id: b"B"})
    a.receive()
    w.pause(1500)  # b never syncs
    a.beat()
    b.beat()
    a.join()
    a.joined()
    b.member_id = ""
    b.enter()
    a.join()
    a.joined()
    b.joined()
    b.sync()
    b.receive()  # the leader never syncs
    look.describe(a.group)
    b.join()
    b.joined()
    b.sync()
    b.receive()


@situation("GROUP_MAX_SIZE_REACHED: a group of three members at most", setting="sessions")
def size(w: Play) -> None:
    """A group of three at most."""
    a, b, c, d = (member(w, name) for name in "abcd")
    start(a, b)
    d.join()
    d.joined()  # a member id, which counts for nothing yet
    c.join(3)
    c.is_silent()
    d.join()
    d.is_silent()
    a.join()
    a.is_silent()
    b.join()
    b.receive()
    a.joined()
    c.joined()
    d.joined()
    b.join(member_id="")
    b.receive()
    b.describe(a.group)


@situation("groups without members: commit, JoinGroup, DeleteGroups", setting="sessions")
def deletion(w: Play) -> None:
    """Groups without members."""
    a, look = member(w, "a"), member(w, "look")
    a.commit(generation_id_or_member_epoch=-1)
    a.commit(generation_id_or_member_epoch=3)
    a.commit(8, generation_id_or_member_epoch=3)
    look.describe(a.group)
    start(a)
    look.delete_groups(a.group)
    a.leave()
    a.commit(generation_id_or_member_epoch=-1, member_id="")
    a.commit()
    a.commit(generation_id_or_member_epoch=-1)
    look.delete_groups(a.group)
    a.commit()
    look.describe(a.group)
    a.join(session_ms=99)
    a.joined()
    a.join(session_ms=1800001)
    a.joined()
    a.join(session_ms=1000, member_id="", protocols=())
    a.joined()
    look.describe(a.group)
    look.delete_groups(a.group)


@situation(
    "group.initial.rebalance.delay.ms: members that join and leave during the delay", setting="delayed"
)
def delay(w: Play) -> None:
    """The initial delay, with those who come and go in it (`delayed`: 500 ms)."""
    a, b, c, look = member(w, "a"), member(w, "b"), member(w, "c"), member(w, "look")
    a.rebalance_ms = b.rebalance_ms = 1200
    a.join(3)
    w.pause(200)
    look.describe(a.group)
    b.join(3)  # at 200: ends at 1000 instead of 500
    w.pause(600)
    c.join(3, rebalance_ms=1200)  # at 800: ends at 1200
    a.joined()
    b.joined()
    c.joined()
    a.leave()
    b.leave()
    c.leave()
    look.describe(a.group)
    a.join(3, member_id="")
    w.pause(100)
    b.join(member_id="")
    b.joined()
    b.leave()
    a.joined()


@situation("group.initial.rebalance.delay.ms: every member leaves during the delay", setting="delayed")
def delay_leave(w: Play) -> None:
    """Everybody leaves during the initial delay."""
    a, look = member(w, "a"), member(w, "look")
    a.instance = "one"
    a.join()
    look.leave(members=[("", "one")])
    a.joined()
    look.describe(a.group)
    w.pause(800)
    look.describe(a.group)
