"""Assignors for consumer groups (KIP-848): uniform and range.

`uniform` spreads all partitions of all topics evenly and moves as few as possible. `range` gives each member one run of
consecutive partitions of each topic, so that equal partition numbers of two topics go to the same member. An assignor
is a plain function of the members, with their target assignments so far, and of the topics.

Ties are broken by the order of Java's hash maps, as in Kafka, see java_order.py. So members get the same partitions
here and in Kafka, with one exception: which partitions above 15 a member gives up depends in Kafka on its earlier
assignments.
Source: UniformAssignor with its two builders, RangeAssignor and TargetAssignmentBuilder of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import NamedTuple

from kafka_offsets.coordinator.state.consumer_records import Target
from kafka_offsets.coordinator.state.java_order import OrderedByHash, hash_order, topic_id_hash

_MOST_ROUNDS = 16
"""Maximum number of passes over the topics to balance members with different subscriptions."""


class Subscriber(NamedTuple):
    """Input of an assignor: one member.

    topic_ids  existing topics that it subscribes to, in Kafka's iteration order
    target     its target assignment so far
    """

    instance_id: str | None
    topic_ids: tuple[bytes, ...]
    target: Target


class GroupSpec(NamedTuple):
    """Input of an assignor: the group.

    members         by member id, in Kafka's iteration order
    is_homogeneous  whether all subscribe to the same topics
    partitions      topic id -> how many partitions it has
    """

    members: Mapping[str, Subscriber]
    is_homogeneous: bool
    partitions: Mapping[bytes, int]


Assignor = Callable[[GroupSpec], dict[str, Target]]
"""Returns the target assignment by member id; a missing member gets no partitions."""


# ---- range ----------------------------------------------------------------------------------------------------


def assign_range(spec: GroupSpec) -> dict[str, Target]:
    """Give each member one run of each topic; the first members get the extra partitions, static ones come first."""
    order = sorted(spec.members, key=lambda member_id: _range_order(member_id, spec.members[member_id]))
    subscribers: dict[bytes, int] = {}
    for member_id in order:
        for topic_id in spec.members[member_id].topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    positions = dict.fromkeys(subscribers, 0)
    assigned: dict[str, Target] = {}
    for member_id in order:
        runs = {}
        for topic_id in spec.members[member_id].topic_ids:
            start, end = _run(spec.partitions[topic_id], subscribers[topic_id], positions[topic_id])
            positions[topic_id] += 1
            if start < end:
                runs[topic_id] = frozenset(range(start, end))
        assigned[member_id] = runs
    return assigned


def _range_order(member_id: str, member: Subscriber) -> tuple[bool, bytes]:
    name = member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")


def _run(partition_count: int, members: int, position: int) -> tuple[int, int]:
    """Return the start and end of the run for the member at `position` among a topic's subscribers."""
    quota, extra = divmod(partition_count, members)
    start = position * quota + min(position, extra)
    return start, start + quota + (position < extra)


def _partition_order(partitions: Iterable[int]) -> list[int]:
    return hash_order(sorted(partitions), lambda partition: partition, at_once=True)


# ---- uniform --------------------------------------------------------------------------------------------------


def assign_uniform(spec: GroupSpec) -> dict[str, Target]:
    """Spread partitions evenly; each member keeps as much of its target so far as its share allows."""
    if not spec.members:
        return {}
    return _assign_homogeneous(spec) if spec.is_homogeneous else _Balance(spec).assign()


def _assign_homogeneous(spec: GroupSpec) -> dict[str, Target]:
    """Spread the partitions of topics that all members subscribe to."""
    first = next(iter(spec.members.values()))
    topic_ids = hash_order(first.topic_ids, topic_id_hash, at_once=True)
    if not topic_ids:
        return {}
    taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in topic_ids}
    for member in spec.members.values():
        for topic_id, partitions in member.target.items():
            if topic_id in taken:
                taken[topic_id] |= partitions
    free = [
        (topic_id, partition)
        for topic_id in topic_ids
        for partition in range(spec.partitions[topic_id])
        if partition not in taken[topic_id]
    ]
    quota, extras = divmod(sum(spec.partitions[topic_id] for topic_id in topic_ids), len(spec.members))
    assigned: dict[str, Mapping[bytes, Collection[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for index, (member_id, member) in enumerate(spec.members.items()):
        may_have_extra = extras > 0
        kept, left = _keep(member, taken, quota + may_have_extra, free)
        if left and may_have_extra and len(spec.members) - index > extras:
            left -= 1  # a later member may already have the extra partition
            may_have_extra = False
        if left:
            unfilled.append((member_id, left))
        extras -= may_have_extra
        assigned[member_id] = kept
    at = 0
    for member_id, left in unfilled:
        assigned[member_id] = _add(assigned[member_id], free[at : at + left])
        at += left
    assert at >= len(free), "partitions were left unassigned"
    return {
        member_id: member.target if assigned[member_id] is member.target else _frozen(assigned[member_id])
        for member_id, member in spec.members.items()
    }


def _add(
    assigned: Mapping[bytes, Collection[int]], more: list[tuple[bytes, int]]
) -> dict[bytes, Collection[int]]:
    """Return the kept partitions of a member plus the added ones, the topics in the order of Kafka's map."""
    kept = {topic_id: set(partitions) for topic_id, partitions in assigned.items()}
    order = OrderedByHash(topic_id_hash, len(kept))
    for topic_id in kept:
        order.append(topic_id)
    for topic_id, partition in more:
        if topic_id not in kept:
            kept[topic_id] = set()
            order.prepend(topic_id)
        kept[topic_id].add(partition)
    return {topic_id: kept[topic_id] for topic_id in order}


def _keep(
    member: Subscriber, topic_ids: Container[bytes], quota: int, free: list[tuple[bytes, int]]
) -> tuple[Mapping[bytes, Collection[int]], int]:
    """Return the partitions that a member keeps, and how many more it may get; the others are added to `free`."""
    if len(member.target) == 1:  # the usual case: big groups read one topic
        ((topic_id, only),) = member.target.items()
        if topic_id in topic_ids and len(only) <= quota:
            return member.target, quota - len(only)
    kept: dict[bytes, Collection[int]] = {}
    for topic_id in hash_order(member.target, topic_id_hash):
        if topic_id not in topic_ids:
            continue
        partitions = member.target[topic_id]
        if len(partitions) <= quota:
            kept[topic_id] = partitions
            quota -= len(partitions)
            continue
        order = _partition_order(partitions)
        if quota:
            kept[topic_id] = set(order[:quota])
        free += [(topic_id, partition) for partition in order[quota:]]
        quota = 0
    return kept, quota


def _frozen(assigned: Mapping[bytes, Iterable[int]]) -> Target:
    return {topic_id: frozenset(partitions) for topic_id, partitions in assigned.items()}


class _Balance:
    """Spreads partitions over members with different subscriptions.

    First it gives free partitions to the subscribers with the lowest load, topic by topic, beginning with the topic
    that has most partitions per subscriber. Then it moves partitions from the highest to the lowest load, until a
    pass changes nothing.

    owners       topic id -> by partition, the index of the member that gets it, -1 for none
    loads        by index, how many partitions the member gets
    subscribers  topic id -> indexes of members, ascending
    """

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.member_ids = list(spec.members)
        self.loads = [0] * len(self.member_ids)
        self.subscribers: dict[bytes, list[int]] = {}
        for index, member in enumerate(spec.members.values()):
            for topic_id in member.topic_ids:
                self.subscribers.setdefault(topic_id, []).append(index)
        self.owners = {topic_id: [-1] * spec.partitions[topic_id] for topic_id in self.subscribers}

    def assign(self) -> dict[str, Target]:
        """Return the target assignment of each member."""
        if not self.subscribers:
            return {}
        for index, member in enumerate(self.spec.members.values()):
            topic_ids = set(member.topic_ids)
            for topic_id, partitions in member.target.items():
                if topic_id in topic_ids:
                    self.loads[index] += len(partitions)
                    for partition in partitions:
                        self.owners[topic_id][partition] = index
        topics = sorted(self.subscribers, key=self._topic_order)
        for topic_id in topics:
            self._assign_free(topic_id)
        self._balance([topic_id for topic_id in topics if len(self.subscribers[topic_id]) > 1])
        assigned: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in self.member_ids}
        for topic_id, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                assigned[self.member_ids[owner]].setdefault(topic_id, set()).add(partition)
        return {member_id: _frozen(partitions) for member_id, partitions in assigned.items()}

    def _topic_order(self, topic_id: bytes) -> tuple[float, int, int, int]:
        count = len(self.subscribers[topic_id])
        # Uuids compare as two signed numbers.
        most, least = int.from_bytes(topic_id[:8], signed=True), int.from_bytes(topic_id[8:], signed=True)
        return -(len(self.owners[topic_id]) / count), count, most, least

    def _assign_free(self, topic_id: bytes) -> None:
        owners = self.owners[topic_id]
        free = [partition for partition, owner in enumerate(owners) if owner == -1]
        if not free:
            return
        ranks = _Ranks(self.loads, self.subscribers[topic_id])
        for partition in free:
            owners[partition] = ranks.next_least()
            self.loads[owners[partition]] += 1

    def _balance(self, topics: list[bytes]) -> None:
        last_changed = -1
        for _ in range(_MOST_ROUNDS):
            for index, topic_id in enumerate(topics):
                if index == last_changed:
                    return  # a full pass without a change
                if self._balance_topic(topic_id) or last_changed == -1:
                    last_changed = index

    def _balance_topic(self, topic_id: bytes) -> bool:
        """Move partitions of a topic among its subscribers; return whether any was moved."""
        ranks = _Ranks(self.loads, self.subscribers[topic_id])
        if ranks.imbalance <= 1:
            return False
        owners = self.owners[topic_id]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        has_moved = False
        while not ranks.is_balanced():
            giver = self._next_giver(ranks, owned)
            if giver is None:
                break
            partition = owned[giver].pop()
            taker = ranks.next_least()
            if ranks.is_balanced():
                break
            self.loads[giver] -= 1
            self.loads[taker] += 1
            owners[partition] = taker
            has_moved = True
        return has_moved

    @staticmethod
    def _next_giver(ranks: _Ranks, owned: dict[int, list[int]]) -> int | None:
        while (giver := ranks.next_most()) is not None:
            if owned.get(giver):
                return giver
            ranks.exclude_most()
        return None


class _Ranks:
    """The subscribers of one topic, ordered by load, with a range of the lowest and a range of the highest loads.

    Members of a range take turns: from the left in the low range, from the right in the high range. After each member
    had its turn, the level of the range changes by one, and members at the new level join it.
    """

    def __init__(self, loads: list[int], members: list[int]) -> None:
        self._loads = loads
        self._order = sorted(members, key=lambda index: (loads[index], index))
        low, high = loads[self._order[0]], loads[self._order[-1]]
        self.imbalance = high - low
        self._low_level, self._low_end, self._low_next = low - 1, 0, 0
        count = len(self._order)
        self._high_level, self._high_start, self._high_end, self._high_next = (
            high + 1,
            count,
            count,
            count - 1,
        )

    def is_balanced(self) -> bool:
        """Whether the levels of the two ranges are at most one apart."""
        return self._high_level - self._low_level <= 1

    def next_least(self) -> int:
        """Return the member that gets the next partition."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._order) and self._load_at(self._low_end) == self._low_level:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._order[self._low_next - 1]

    def next_most(self) -> int | None:
        """Return the member that gives up a partition, None when no member is left."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = self._load_at(self._high_start - 1)
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._load_at(self._high_start - 1) == self._high_level:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return None
        self._high_next -= 1
        return self._order[self._high_next + 1]

    def exclude_most(self) -> None:
        """Remove the member that `next_most` returned last from its range: it cannot give up any partition."""
        order, at, last = self._order, self._high_next + 1, self._high_end - 1
        order[at], order[last] = order[last], order[at]
        self._high_end = last

    def _load_at(self, position: int) -> int:
        return self._loads[self._order[position]]


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
"""Assignors by their names in heartbeats and in `group.consumer.assignors`."""
