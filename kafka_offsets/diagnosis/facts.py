"""Facts: what is known of a broker or a cluster at one moment, as plain tables.

Two gatherers make them: `testing.server.facts` in the process of a broker, and `commands.groups.facts` with requests of
a client. What a gatherer cannot know is None or absent, and no rule guesses it. Times are wall time in ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kafka_offsets.incidents import REFUSED, Incident

TopicPartition = tuple[str, int]

SETTLED_MS = 8_000
"""A group that is stable for so long has fetched, and committed once: clients do so every 5 s by default."""

ASKED_WITHIN_MS = 60_000
"""A client that asks in vain asks again: what it has not asked for so long, it asks no longer."""


class Position(NamedTuple):
    """The offsets of the first and the last Fetch of a partition since it was assigned to the member."""

    first: int
    last: int


Positions = Mapping[TopicPartition, Position]


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group.

    topics         that it subscribes to; None: not known
    pattern        the regular expression of its subscription; the broker resolves it (KIP-848)
    partitions     its assignment
    protocols      the assignors that it offers
    silent_ms      since its last request as a member; None: not known
    removed_in_ms  when its session ends, or its time to do what is awaited
    awaited        what the group waits for: "join", "assignment", "sync", "heartbeat", "revocation", or "" for nothing
    positions      what it fetches, by partition; None: not known
    """

    member_id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    topics: frozenset[str] | None = None
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()
    protocols: tuple[str, ...] = ()
    silent_ms: int | None = None
    removed_in_ms: int | None = None
    awaited: str = ""
    positions: Positions | None = None

    def __str__(self) -> str:
        instance, name = self.instance_id, self.client_id or self.member_id
        said = f"instance {instance!r}" if instance else repr(name)
        return f"{said} at {self.host}" if self.host else said

    @property
    def fetched(self) -> dict[TopicPartition, Position]:
        """What it fetches of its assignment, as far as that is known."""
        positions = self.positions or {}
        return {partition: positions[partition] for partition in self.partitions if partition in positions}


@dataclass(frozen=True, slots=True)
class Offset:
    """One committed offset.

    committed_ms  when; None: not known
    has_unread    whether a reader of committed records finds one at or after it; None: not known
    unread_ms     when the first of them came; None: not known, or there is none
    """

    offset: int
    committed_ms: int | None = None
    has_unread: bool | None = None
    unread_ms: int | None = None


class Back(NamedTuple):
    """A commit that moved an offset back."""

    partition: TopicPartition
    before: int
    after: int
    client_id: str
    wall_ms: int


class Departed(NamedTuple):
    """The last member that left a group, as client and address, and what it had fetched of its partitions."""

    client: str
    positions: Positions


@dataclass(frozen=True, slots=True)
class Group:
    """One group.

    exists       False: somebody asks for it, and it is not there
    state        as in DescribeGroups or ConsumerGroupDescribe
    since_ms     of the state; None: not known
    delay_ms     for so long it waits for more members (group.initial.rebalance.delay.ms); None: it does not
    offsets      committed ones
    held         partitions whose offset an open transaction has committed -> the ids of the producers that it may be of
    untold       partitions of which the coordinator does not tell whether they have an offset
    moved_back   commits that moved an offset back, since which nothing has passed the offset before
    last_left    the last member that left; None: not known
    unavailable  why nothing is known of it, such as that its coordinator loads
    logs, transactions  of the moment at which it was read; None: those of all facts, which are of one moment
    """

    group_id: str
    state: str = ""
    members: tuple[Member, ...] = ()
    since_ms: int | None = None
    delay_ms: int | None = None
    offsets: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    held: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    untold: Set[TopicPartition] = frozenset()
    moved_back: tuple[Back, ...] = ()
    last_left: Departed | None = None
    unavailable: str = ""
    exists: bool = True
    logs: Mapping[TopicPartition, Log] | None = None
    transactions: Sequence[Transaction] | None = None

    def __str__(self) -> str:
        return f"group {self.group_id!r}"

    @property
    def topics(self) -> frozenset[str] | None:
        """All topics that its members subscribe to; None: not known of each."""
        if any(member.topics is None or member.pattern for member in self.members):
            return None
        return frozenset().union(*(member.topics or () for member in self.members))

    def uncommitted(self, positions: Positions) -> dict[TopicPartition, Position]:
        """Return the positions where it has no offset, not in a transaction either."""
        new = sorted(positions.keys() - self.offsets.keys() - self.held.keys())
        return {partition: positions[partition] for partition in new}

    @property
    def owners(self) -> dict[TopicPartition, Member]:
        """Who has which partition."""
        return {partition: member for member in self.members for partition in member.partitions}


@dataclass(frozen=True, slots=True)
class Log:
    """One partition: offsets of its log, if they are known.

    start, stable, end  log start offset, last stable offset (None: not known), high watermark
    problem      why the rest is not known, such as that it has no leader
    """

    start: int = 0
    end: int = 0
    stable: int | None = None
    problem: str = ""

    @property
    def readable(self) -> int:
        """Return where a reader of committed records stops, as far as that is known."""
        return self.end if self.stable is None else self.stable


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id.

    state       as in DescribeTransactions
    started_ms  of its open transaction, -1 for none
    partitions  of the open transaction, those of the offsets topic included
    """

    transactional_id: str
    producer_id: int
    state: str
    started_ms: int = -1
    timeout_ms: int = 0
    partitions: frozenset[TopicPartition] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether readers of committed records wait for its end."""
        return self.state in ("Ongoing", "PrepareCommit", "PrepareAbort")


class Fault(NamedTuple):
    """A fault of the test that is active.

    what  as the test wrote it
    hits  how many requests it has struck
    """

    what: str
    hits: int = 0
    group: str | None = None


@dataclass(frozen=True)
class Facts:
    """Everything that is known.

    topics         name -> number of partitions; None: not known
    incidents      the last at the end; empty also if nobody kept them
    is_time_still  whether the test advances the clock
    asked          the groups that somebody asks for by name
    others         the ids of all groups, for a name that is nearly one of them
    """

    groups: Sequence[Group] = ()
    topics: Mapping[str, int] | None = None
    logs: Mapping[TopicPartition, Log] = field(default_factory=dict)
    transactions: Sequence[Transaction] = ()
    incidents: Sequence[Incident] = ()
    faults: Sequence[Fault] = ()
    is_time_still: bool = False
    asked: frozenset[str] = frozenset()
    others: Sequence[str] = ()

    def log_of(self, group: Group, partition: TopicPartition) -> Log | None:
        """Return the log of a partition at the moment at which a group was read; None: not known."""
        log = (self.logs if group.logs is None else group.logs).get(partition)
        return None if log is None or log.problem else log

    def transactions_of(self, group: Group) -> Sequence[Transaction]:
        """Return the transactions at the moment at which a group was read."""
        return self.transactions if group.transactions is None else group.transactions

    def offsets_of(self, group: Group) -> Iterator[tuple[TopicPartition, Offset, Log]]:
        """Yield the committed offsets of a group whose logs are known."""
        for partition, entry in group.offsets.items():
            if (log := self.log_of(group, partition)) is not None:
                yield partition, entry, log

    def is_settled(self, group: Group, now: int) -> bool:
        """Whether a group is stable for long enough to have assigned, fetched and committed what there is."""
        is_stable = group.state == "Stable" and group.since_ms is not None
        return is_stable and not self.is_time_still and now - (group.since_ms or 0) >= SETTLED_MS

    def behind(self) -> Iterator[tuple[Group, TopicPartition, Offset, Log]]:
        """Yield the committed offsets that have a lag."""
        for group in self.groups:
            for partition, entry, log in self.offsets_of(group):
                if log.start <= entry.offset < log.end:
                    yield group, partition, entry, log

    @cached_property
    def _by_id(self) -> dict[str, Group]:
        return {group.group_id: group for group in self.groups}

    def incidents_of(self, kind: str, after_ms: int = 0, **fields: str) -> list[Incident]:
        """Return the incidents of a kind that happened after a time, with these fields."""
        late = (each for each in self.incidents if each.kind == kind and each.last_ms > after_ms)
        return [each for each in late if all(each.text(name) == text for name, text in fields.items())]

    def refused(self, *errors: str, after_ms: int = 0, **fields: str) -> list[Incident]:
        """Return the refused requests, or those with one of these errors."""
        refusals = self.incidents_of(REFUSED, after_ms, **fields)
        return [refusal for refusal in refusals if not errors or refusal.text("error") in errors]

    def group_of(self, incident: Incident) -> Group | None:
        """Return the group of an incident."""
        return self._by_id.get(incident.text("group"))
