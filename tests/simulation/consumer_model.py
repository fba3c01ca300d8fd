"""What the oracle knows of consumer groups (KIP-848), how members step towards their targets, what they exchange."""

import itertools
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.simulation.model import EMPTY, STABLE, Group, restored

SESSION_MS = 45_000
LEFT, AWAY = -1, -2
KEEPS, GIVES_UP, WAITS = 0, 1, 2
"""What a member does: it keeps what it has, must give something up, waits for what others give up."""

Place = tuple[bytes, int]
"""Topic id and partition."""


class Beat(NamedTuple):
    """A ConsumerGroupHeartbeat; None says nothing new."""

    group: str
    member: str
    epoch: int
    instance: str | None = None
    rebalance_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: frozenset[Place] | None = None

    def is_full(self) -> bool:
        subscribes = self.topics is not None or self.regex is not None
        return self.epoch == 0 or (self.rebalance_ms != -1 and subscribes and self.owned is not None)


class Beaten(NamedTuple):
    """The answer to one."""

    error: int
    member: str | None = None
    epoch: int = 0
    assignment: frozenset[Place] | None = None


class RefusedError(Exception):
    """The answer is this error."""

    def __init__(self, error: int) -> None:
        super().__init__(error)
        self.error = error


@dataclass
class Consumer:
    """A member; `protocols` is None unless it speaks the classic protocol. The last four are times when it is over."""

    id: str
    instance: str | None = None
    client: tuple[str, str] = ("", "")
    topics: frozenset[str] = frozenset()
    regex: str = ""
    rebalance_ms: int = -1
    assignor: str | None = None
    protocols: list[tuple[str, bytes]] | None = None
    session_ms: int = 0
    epoch: int = 0
    previous: int = -1
    state: int = KEEPS
    assigned: dict[Place, int] = field(default_factory=dict)
    revoking: dict[Place, int] = field(default_factory=dict)
    ends: int | None = None
    gives_up_by: tuple[int, int] | None = None
    joins_by: int | None = None
    syncs_by: int | None = None

    def has(self) -> tuple[Any, ...]:
        return self.epoch, self.previous, self.state, dict(self.assigned), dict(self.revoking)

    def recorded(self) -> tuple[Any, ...]:
        classic = None if self.protocols is None else (self.session_ms, tuple(self.protocols))
        return (self.instance, self.client, self.topics, self.regex, self.rebalance_ms, self.assignor, classic,
                *self.has())  # fmt: skip

    def held(self) -> set[Place]:
        return {*self.assigned, *self.revoking}


@dataclass
class Modern:
    """A consumer group.

    metadata  what it last knew of its topics
    regexes   expression -> topics that it matched, and when it was resolved
    life      another number when a group is made anew while the log knows the one of before
    """

    id: str
    epoch: int = 1
    metadata: frozenset[tuple[str, bytes, int]] = frozenset()
    target_epoch: int = 1
    target_at: int = 0
    members: dict[str, Consumer] = field(default_factory=dict)
    targets: dict[str, frozenset[Place]] = field(default_factory=dict)
    regexes: dict[str, tuple[frozenset[str], int]] = field(default_factory=dict)
    seen: int | None = None
    resolved: int | None = None
    resolves: int | None = None
    type: str = "consumer"
    life: int = field(default_factory=itertools.count().__next__)

    @property
    def state(self) -> str:
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return "Assigning"
        there = all((m.state, m.epoch) == (KEEPS, self.target_epoch) for m in self.members.values())
        return STABLE if there else "Reconciling"

    def is_provisional(self) -> bool:
        return False

    def retention_begins(self, offset: Any) -> int:
        return int(offset.committed_at)

    def names_of(self, member: Consumer) -> frozenset[str]:
        return member.topics | self.regexes.get(member.regex, (frozenset[str](), 0))[0]

    def names(self) -> set[str]:
        return {name for m in self.members.values() for name in m.topics} | {
            name for found, _ in self.regexes.values() for name in found
        }

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.names()

    def owner_of(self, instance: str | None) -> Consumer | None:
        return next(
            (m for m in self.members.values() if instance is not None and m.instance == instance), None
        )

    def users(self) -> Counter[str]:
        return Counter(m.regex for m in self.members.values() if m.regex)

    def classic(self) -> list[Consumer]:
        return [m for m in self.members.values() if m.protocols is not None]

    def held(self) -> Counter[Place]:
        return Counter(place for m in self.members.values() for place in m.held())

    def record(self) -> dict[str, Any]:
        """What the log is told: nothing of times."""
        return {"life": self.life, "epoch": self.epoch, "target_epoch": self.target_epoch, "target_at": self.target_at,
                "metadata": self.metadata, "targets": dict(self.targets), "regexes": dict(self.regexes),
                "consumers": {m.id: m.recorded() for m in self.members.values()}}  # fmt: skip


def modern_of(name: str, record: dict[str, Any]) -> Modern:
    """A consumer group as its record says."""
    group = Modern(name, record["epoch"], record["metadata"], record["target_epoch"], record["target_at"])
    group.targets, group.regexes, group.life = (
        dict(record["targets"]),
        dict(record["regexes"]),
        record["life"],
    )
    for member_id, (*said, classic, epoch, previous, state, assigned, revoking) in record[
        "consumers"
    ].items():
        session_ms, protocols = classic or (0, None)
        group.members[member_id] = Consumer(member_id, *said, protocols and list(protocols), session_ms, epoch,
                                            previous, state, dict(assigned), dict(revoking))  # fmt: skip
    return group


def loaded(name: str, record: dict[str, Any]) -> Group | Modern:
    """A group of either kind as its record says."""
    return modern_of(name, record) if "consumers" in record else restored(name, record)


def step(group: Modern, member: Consumer, target: frozenset[Place], owned: frozenset[Place] | None,
         held: Counter[Place], subscribed: set[bytes], subscribes: bool, *, changed: bool) -> None:  # fmt: skip
    """A member's next step: it gives up what it shall not have, then gets what nobody holds."""
    m, epoch = member, member.epoch

    def still_has(places: Collection[Place]) -> bool:
        return owned is None or not owned.isdisjoint(places)

    rests = m.state == KEEPS and m.epoch == group.target_epoch
    if rests or (m.state == GIVES_UP and still_has(m.revoking)):
        gone = {place: since for place, since in m.assigned.items() if place[0] not in subscribed}
        if not changed or (not gone and (subscribes or m.revoking)):
            return
        m.previous, m.assigned = epoch, {p: since for p, since in m.assigned.items() if p not in gone}
        revoking = m.revoking | gone
        if revoking and still_has(revoking):
            m.state, m.revoking = GIVES_UP, revoking
        return
    wanted = {place for place in target if place[0] in subscribed}
    missing = {place for place in wanted if place not in m.assigned}
    waiting = {place for place in missing if place not in m.revoking and held[place]}
    lost = {place: since for place, since in m.assigned.items() if place not in wanted}
    m.previous, m.assigned = epoch, {p: since for p, since in m.assigned.items() if p in wanted}
    if lost and still_has(lost):
        m.state, m.revoking = GIVES_UP, lost
        return
    m.epoch, m.revoking, m.state = group.target_epoch, {}, WAITS if waiting else KEEPS
    m.assigned |= dict.fromkeys(missing - waiting, group.target_epoch)


def check_regex(expression: str) -> None:
    try:
        re.compile(expression)
    except re.error:
        raise RefusedError(128) from None
