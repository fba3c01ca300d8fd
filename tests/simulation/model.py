"""What the oracle knows: groups, members, offsets and what a log says of them; without a word on when they change."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.simulation.exchanged import topics_in

EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"
TIES = ("sticky", "range", "roundrobin", "cooperative-sticky")
"""Of protocols with equally many votes the first one here is chosen: the order of Java's hash table."""

Token = Any
Key = tuple[str, str, int]
"""Group, topic, partition."""

Item = tuple[str, int, int, int, str | None, int]
"""Topic, partition, offset, leader epoch, metadata and time stamp, -1 for none, of a commit."""


class Settings(NamedTuple):
    """What a broker can be configured to."""

    min_session_ms: int = 6000
    max_session_ms: int = 1_800_000
    initial_delay_ms: int = 3000
    max_size: int = 2_147_483_647
    max_metadata: int = 4096
    shards: int = 1
    retention_ms: int = 604_800_000
    max_consumers: int = 2_147_483_647
    assignment_pause_ms: int = 0
    regex_pause_ms: int = 10_000


class Offset(NamedTuple):
    """A committed offset; `expires` is -1 but for commits of version 2 to 4 that say so."""

    offset: int
    epoch: int
    metadata: str
    committed_at: int
    expires: int


class Joined(NamedTuple):
    """The answer to a join; `members` are (id, instance, metadata), for the leader."""

    error: int
    generation: int = -1
    type: str | None = None
    protocol: str | None = None
    leader: str = ""
    member: str = ""
    members: frozenset[tuple[str, str | None, bytes]] = frozenset()
    skip: bool = False


class Synced(NamedTuple):
    """The answer to a sync."""

    error: int
    type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass
class Member:
    """A member; `ends` is when its session does, None while nobody expects it to speak."""

    id: str
    instance: str | None
    client: tuple[str, str]
    rebalance_ms: int
    session_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    join: Token = None
    join_version: int = 0
    sync: Token = None
    is_new: bool = True
    ends: int | None = None

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")


@dataclass
class Group:
    """A group; without type and members it is one that only keeps offsets. `since` is when it emptied, in wall time."""

    id: str
    state: str = EMPTY
    generation: int = 0
    type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    subscribed: set[str] | None = None
    initial: bool = False
    newcomers: bool = False
    delay_ms: int = 0
    left_ms: int = 0
    join_ends: int | None = None
    sync_ends: int | None = None
    unsynced: set[str] = field(default_factory=set)
    is_recorded: bool = False
    is_in_log: bool = False
    since: int = -1

    def is_provisional(self) -> bool:
        """Whether it came with an offset, and nobody has ever been a member."""
        return not self.is_recorded and self.state == EMPTY and self.type is None

    def owner_of(self, instance: str) -> str | None:
        return next((m.id for m in self.members.values() if m.instance == instance), None)

    def check(self, member: str, instance: str | None) -> int:
        if instance is not None:
            owner = self.owner_of(instance)
            if owner is None:
                return 25
            if owner != member:
                return 82
        return 0 if member in self.members else 25

    def joined(self) -> int:
        return sum(m.join is not None for m in self.members.values())

    def all_joined(self) -> bool:
        return self.joined() == len(self.members) and not self.pending

    def rebalance_ms(self) -> int:
        return max((m.rebalance_ms for m in self.members.values()), default=0)

    def common(self, names: set[str]) -> set[str]:
        """Those of the protocols that every member supports, which are all of them when there is no member."""
        return names.intersection(*({name for name, _ in m.protocols} for m in self.members.values()))

    def elect(self) -> str:
        common = self.common(set(TIES))
        votes = [next(n for n, _ in m.protocols if n in common) for m in self.members.values()]
        return min(common, key=lambda name: (-votes.count(name), TIES.index(name)))

    def subscriptions(self) -> set[str] | None:
        """Topics of consumers, or None where that cannot be known."""
        if self.type != "consumer":
            return None
        read = [topics_in(m.metadata(self.protocol)) for m in self.members.values()]
        return None if None in read else {topic for topics in read if topics is not None for topic in topics}

    def is_subscribed(self, topic: str) -> bool:
        return self.type == "consumer" if self.subscribed is None else topic in self.subscribed

    def retention_begins(self, offset: Offset) -> int | None:
        """From when on the retention of an offset counts; None when it does not expire as things are (KIP-211)."""
        if self.type is None:
            return offset.committed_at
        if self.state == EMPTY:
            return offset.committed_at if self.since == -1 else self.since
        if self.type == "consumer" and self.state == STABLE and self.subscribed is not None:
            return offset.committed_at
        return None

    def record(self) -> dict[str, Any]:
        """What the log is told of a generation: nothing of phases, of waiting requests and of times."""
        members = [(m.id, m.instance, m.client, m.rebalance_ms, m.session_ms, m.metadata(self.protocol), m.assignment)
                   for m in self.members.values()]  # fmt: skip
        return {"generation": self.generation, "type": self.type or "", "protocol": self.protocol,
                "leader": self.leader, "since": self.since, "members": members}  # fmt: skip


class Decision(NamedTuple):
    """What one decision writes: offsets by key, and the records of groups; None deletes.

    producer  id of the one in whose transaction the offsets are; ends  what its marker says: whether they count
    """

    token: Token
    offsets: list[tuple[Key, Offset | None]]
    groups: list[tuple[str, dict[str, Any] | None]]
    producer: int | None = None
    ends: bool | None = None

    def is_about(self, group: str) -> bool:
        return any(key[0] == group for key, _ in self.offsets) or any(
            name == group for name, _ in self.groups
        )


class Table:
    """What a log says: offsets, and the records of groups; `simple` are those that came with an offset.

    pending  producer id -> the offsets of its open transaction; written  when each offset was, counted in decisions
    """

    def __init__(self) -> None:
        self.offsets: dict[Key, Offset] = {}
        self.records: dict[str, dict[str, Any]] = {}
        self.simple: set[str] = set()
        self.pending: dict[int, dict[Key, Offset]] = {}
        self.written: dict[tuple[int | None, Key], int] = {}
        self.count = 0

    def copy(self, is_mine: Callable[[str], bool] = lambda group: True) -> "Table":
        """The same table, or what it says of some groups."""
        other = Table()
        other.offsets = {key: value for key, value in self.offsets.items() if is_mine(key[0])}
        other.records = {group: record for group, record in self.records.items() if is_mine(group)}
        other.simple = {group for group in self.simple if is_mine(group)}
        other.pending = {producer: found for producer, offsets in self.pending.items()
                         if (found := {key: value for key, value in offsets.items() if is_mine(key[0])})}  # fmt: skip
        other.written = {place: count for place, count in self.written.items() if is_mine(place[1][0])}
        other.count = self.count
        return other

    def join(self, other: "Table") -> None:
        """Take in what another table says of other groups."""
        self.offsets |= other.offsets
        self.records |= other.records
        self.simple |= other.simple
        self.written |= other.written
        self.count = max(self.count, other.count)
        for producer, offsets in other.pending.items():
            self.pending.setdefault(producer, {}).update(offsets)

    def apply(self, decision: Decision) -> set[str]:
        """Return the groups that got an offset."""
        self.count += 1
        producer, came = decision.producer, set()
        for key, value in decision.offsets:
            if value is None:
                for offsets in (self.offsets, *self.pending.values()):
                    offsets.pop(key, None)
                continue
            (self.offsets if producer is None else self.pending.setdefault(producer, {}))[key] = value
            self.written[producer, key] = self.count
            came.add(key[0])
        if decision.ends is not None and producer is not None:
            came |= self._end(producer, commits=decision.ends)
        self.simple |= came - self.records.keys()
        for group, record in decision.groups:
            self.simple.discard(group)
            if record is not None:
                self.records[group] = record
                continue
            self.records.pop(group, None)
            if self.has_offsets(group):
                self.simple.add(group)
        return came

    def _end(self, producer: int, *, commits: bool) -> set[str]:
        """Offsets of a transaction count from its marker on, but for those that others have overwritten meanwhile."""
        came = set()
        for key, value in self.pending.pop(producer, {}).items():
            written = self.written[producer, key]
            if commits and (key not in self.offsets or self.written[None, key] < written):
                self.offsets[key], self.written[None, key] = value, written
                came.add(key[0])
        return came

    def has_offsets(self, group: str) -> bool:
        return any(key[0] == group for key in self.offsets)

    def pending_offsets(self) -> dict[int, dict[Key, Offset]]:
        """Those that wait for a marker, without producers of none."""
        return {producer: offsets for producer, offsets in self.pending.items() if offsets}

    def waiting(self, group: str) -> set[Key]:
        """The offsets of a group that wait for a marker."""
        return {key for offsets in self.pending.values() for key in offsets if key[0] == group}


def restored(name: str, record: dict[str, Any]) -> Group:
    """A group as its record says: Stable in that generation when it had members."""
    group = Group(name, generation=record["generation"], type=record["type"] or None, protocol=record["protocol"],
                  leader=record["leader"], since=record["since"])  # fmt: skip
    for member_id, instance, client, rebalance_ms, session_ms, subscription, assignment in record["members"]:
        protocols = [(record["protocol"] or "", subscription)]
        group.members[member_id] = Member(
            member_id, instance, client, rebalance_ms, session_ms, protocols, assignment, is_new=False
        )
    group.state = STABLE if group.members else EMPTY
    group.subscribed = group.subscriptions()
    return group
