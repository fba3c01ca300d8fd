"""Walks of classic groups: members that join, sync, beat and leave, rightly or not."""

from typing import Any

from tests.walks.kinds.shared import (
    CLIENTS,
    GROUP,
    ask,
    client,
    commit,
    delete_groups,
    delete_offsets,
    describe_groups,
    fetch_offsets,
    group,
    list_groups,
)
from tests.walks.plan import Draw, Step, kind, with_restart

ORDERS = {"$subscription": ["orders"]}
RANGE = {"name": "range", "metadata": ORDERS}
ROUND_ROBIN = {"name": "roundrobin", "metadata": ORDERS}
OTHER = {"name": "range", "metadata": {"$subscription": ["pages"]}}
JUNK = {"name": "range", "metadata": {"$bytes": "\x00"}}


def join(draw: Draw) -> list[Step]:
    of = client(draw)
    other = client(draw)
    fields: dict[str, Any] = {
        "group_id": group(draw),
        "session_timeout_ms": draw.usually(60_000, 0, 99, 100, 1_800_001, odds=0.95),
        "rebalance_timeout_ms": 60_000,
        "member_id": draw.usually(f"$member.{of}", "", "nobody", f"$member.{other}", odds=0.9),
        "group_instance_id": draw.usually(None, f"i-{of}", f"i-{other}", "", odds=0.8),
        "protocol_type": draw.usually("consumer", "", "connect", odds=0.95),
        "protocols": draw.usually(
            [RANGE], [RANGE, ROUND_ROBIN], [ROUND_ROBIN, RANGE], [ROUND_ROBIN], [], [OTHER], [JUNK], odds=0.7
        ),
        "reason": draw.usually(None, "", "why"),
    }
    if fields["session_timeout_ms"] == 100:
        fields["session_timeout_ms"] = 1_800_000
    return ask(draw, "JoinGroup", of, **fields)


def enter(draw: Draw) -> list[Step]:
    """The two joins of a newcomer."""
    of, version = client(draw), draw.version("JoinGroup")
    fields = {
        "group_id": GROUP,
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": f"$member.{of}",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [RANGE],
    }
    return [Step(of, of, "JoinGroup", version, fields)] * 2


def begin(draw: Draw) -> list[Step]:
    return enter(draw)[: draw.randint(1, 2)]


def as_member(draw: Draw, of: str) -> dict[str, Any]:
    generation = f"$generation.{of}"
    return {
        "group_id": group(draw),
        "generation_id": draw.usually(generation, f"{generation}-1", f"{generation}+1", -1, 0, odds=0.9),
        "member_id": draw.usually(f"$member.{of}", "", "nobody", f"$member.{client(draw)}", odds=0.9),
        "group_instance_id": draw.usually(None, f"i-{of}", f"i-{client(draw)}", "", odds=0.85),
    }


def sync(draw: Draw) -> list[Step]:
    of = client(draw)
    given = [
        {"member_id": f"$member.{each}", "assignment": {"$bytes": each}} for each in draw.some(list(CLIENTS))
    ]
    if draw.random() < 0.5:
        given = [{"member_id": f"$member.{each}", "assignment": {"$bytes": each}} for each in CLIENTS]
    if draw.random() < 0.05:
        given.append({"member_id": "nobody", "assignment": {"$bytes": ""}})
    return ask(
        draw,
        "SyncGroup",
        of,
        **as_member(draw, of),
        protocol_type=draw.usually("consumer", None, "", "connect", odds=0.9),
        protocol_name=draw.usually(f"$protocol.{of}", "range", None, "", "other", odds=0.8),
        assignments=given,
    )


def beat(draw: Draw) -> list[Step]:
    of = client(draw)
    return ask(draw, "Heartbeat", of, **as_member(draw, of))


def leave(draw: Draw) -> list[Step]:
    of = client(draw)
    members = [
        {
            "member_id": draw.usually(f"$member.{each}", "", "nobody"),
            "group_instance_id": draw.usually(None, f"i-{each}", "", odds=0.7),
            "reason": draw.usually(None, "", "why"),
        }
        for each in draw.some(list(CLIENTS), 2)
    ]
    return ask(
        draw,
        "LeaveGroup",
        of,
        group_id=group(draw),
        member_id=draw.usually(f"$member.{of}", "", "nobody"),
        members=members,
    )


def all_join(draw: Draw) -> list[Step]:
    """Those that are members join again, so that a rebalance ends."""
    return [step for each in CLIENTS for step in _rejoin(draw, each)]


def _rejoin(draw: Draw, of: str) -> list[Step]:
    (step,) = join(draw)
    fields = step.fields | {
        "group_id": GROUP,
        "member_id": f"$member.{of}",
        "protocols": [RANGE],
        "protocol_type": "consumer",
        "session_timeout_ms": 60_000,
        "group_instance_id": None,
    }
    return [Step(of, of, "JoinGroup", step.version, fields)]


kind(
    "classic groups",
    begin,
    {
        join: 6,
        enter: 2,
        all_join: 2,
        sync: 6,
        beat: 4,
        leave: 2,
        commit: 3,
        fetch_offsets: 1,
        describe_groups: 2,
        list_groups: 1,
        delete_groups: 1,
        delete_offsets: 1,
    },
)
with_restart("classic groups")
