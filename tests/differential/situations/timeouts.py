"""Sessions and rebalances that time out."""

from collections.abc import Callable
from typing import Any

from tests.differential.play import Client, Play
from tests.differential.table import situation


@situation("a member that is silent for its session timeout is removed")
def session(w: Play) -> None:
    a, b = w.client("a"), w.client("b", session_ms=400, rebalance_ms=400)
    w.stable(a, b)
    w.pause(250)
    b.beat()
    w.pause(250)
    b.beat()
    a.beat()
    w.pause(700)
    b.beat()
    a.beat()
    a.describe()


@situation("a group whose only member is silent is empty")
def alone(w: Play) -> None:
    a = w.client("a", session_ms=300, rebalance_ms=300)
    w.stable(a)
    w.pause(600)
    a.describe()
    a.beat()
    a.sync()
    a.leave()
    a.join()
    a.delete_groups()


@situation("heartbeats during PreparingRebalance keep a session alive")
def preparing(w: Play) -> None:
    a, b = w.client("a", session_ms=500, rebalance_ms=5000), w.client("b", rebalance_ms=5000)
    w.stable(a)
    b.enter()
    for _ in range(3):
        w.pause(300)
        a.beat()
    a.join()
    b.answer()


@situation("a silent member is not waited for longer than its session")
def silent_while_preparing(w: Play) -> None:
    a, b = w.client("a", session_ms=400, rebalance_ms=9000), w.client("b", rebalance_ms=9000)
    w.stable(a)
    b.enter()
    b.answer()
    a.beat()


@situation("refused heartbeats keep no session alive")
def refused(w: Play) -> None:
    a, b = w.client("a"), w.client("b", session_ms=500, rebalance_ms=500)
    w.stable(a, b)
    for _ in range(3):
        w.pause(300)
        b.beat(generation_id=1)
    b.beat()


@situation("a join that waits is not subject to a session timeout")
def waiting(w: Play) -> None:
    a, b = w.client("a", rebalance_ms=5000), w.client("b", session_ms=200, rebalance_ms=5000)
    w.stable(a)
    b.enter()
    w.pause(700)
    a.join()
    b.answer()


@situation("a member that does not sync is removed after the rebalance timeout")
def no_sync(w: Play) -> None:
    a, b = w.clients("ab", rebalance_ms=500)
    w.completing(a, b)
    a.sync({a: b"A", b: b"B"})
    w.pause(800)
    a.beat()
    b.beat()
    b.sync()


@situation("a leader that does not sync is removed, and the others rebalance")
def leader_without_sync(w: Play) -> None:
    a, b = w.clients("ab", rebalance_ms=500)
    w.completing(a, b)
    b.send_sync()
    b.answer()
    a.beat()
    b.join()


@situation("no member sends SyncGroup: the rebalance timeout")
def nobody_syncs(w: Play) -> None:
    a = w.client("a", rebalance_ms=400)
    a.enter()
    a.answer()
    w.pause(700)
    a.describe()
    a.sync({a: b"A"})


@situation("a session ends during CompletingRebalance")
def session_while_completing(w: Play) -> None:
    a, b = w.client("a", rebalance_ms=5000), w.client("b", session_ms=300, rebalance_ms=5000)
    w.completing(a, b)
    w.pause(600)
    b.sync()
    a.beat()


@situation("a sync that waits is not subject to a session timeout")
def waiting_sync(w: Play) -> None:
    a, b = w.client("a", rebalance_ms=5000), w.client("b", session_ms=300, rebalance_ms=5000)
    w.completing(a, b)
    b.send_sync()
    w.pause(700)
    a.sync({a: b"A", b: b"B"})
    b.answer()
    b.beat()


@situation("a pending member id expires after the session timeout")
def pending(w: Play) -> None:
    a = w.client("a", session_ms=300)
    a.join()
    w.pause(600)
    a.join()
    a.describe()


@situation("a pending member id delays a rebalance until it expires")
def pending_holds_up(w: Play) -> None:
    a, b = w.client("a", rebalance_ms=9000), w.client("b", session_ms=500)
    w.stable(a)
    b.join()
    a.send_join()
    a.silent()
    a.answer()
    b.join()


def kept_alive(w: Play, act: Callable[[Client], Any]) -> None:
    """Have a member of a short session do something each 300 ms, and then send a heartbeat."""
    a, b = w.client("a"), w.client("b", session_ms=500, rebalance_ms=500)
    w.stable(a, b)
    for _ in range(3):
        w.pause(300)
        act(b)
    b.beat()


@situation("sync keeps a session alive")
def sync_is_a_heartbeat(w: Play) -> None:
    kept_alive(w, Client.sync)


@situation("a join without change keeps a session alive")
def join_is_a_heartbeat(w: Play) -> None:
    kept_alive(w, Client.join)


@situation("OffsetFetch keeps no session alive")
def fetch_is_no_heartbeat(w: Play) -> None:
    kept_alive(w, lambda b: b.fetch(("orders", 0)))
