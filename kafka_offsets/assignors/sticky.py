"""Sticky assignment: balances the partitions of a group, and moves as few of them as that needs. Pure.

Balanced means that the sum of the squares of the members' loads is the least that the subscriptions allow. If all
members subscribe to the same topics, loads differ by at most one, and no assignment of such loads moves fewer
partitions. Otherwise a partition moves only along a chain of members that ends at one with two partitions less than
the first: without such a chain the sum of squares is the least possible (Harvey et al., "Semi-matchings for bipartite
graphs and load balancing"). Kafka's own assignor considers chains of one move alone.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping

from kafka_offsets.protocol.topic_partition import TopicPartition


def assign_sticky(
    counts: Mapping[str, int], topics: Mapping[str, Collection[str]], owners: Mapping[TopicPartition, str]
) -> dict[str, set[TopicPartition]]:
    """Assign every partition of a topic that has subscribers.

    counts  topic to number of partitions
    topics  member to the topics that it subscribes to; the order of the members decides between equals
    owners  of existing partitions, before; one that does not subscribe any more is ignored
    """
    kept: dict[str, set[TopicPartition]] = {member: set() for member in topics}
    free: list[TopicPartition] = []
    for topic in sorted(set().union(*topics.values())):
        for partition in range(counts[topic]):
            owner = owners.get((topic, partition))
            if owner is not None and topic in topics.get(owner, ()):
                kept[owner].add((topic, partition))
            else:
                free.append((topic, partition))
    if len({frozenset(topics_of_member) for topics_of_member in topics.values()}) == 1:
        _share_equally(kept, free)
    else:
        _StickyBalance(topics, kept, owners).run(free)
    return kept


def _share_equally(kept: dict[str, set[TopicPartition]], free: list[TopicPartition]) -> None:
    """Give everybody the same number of partitions, or one more, with as few moves as possible."""
    total = sum(map(len, kept.values())) + len(free)
    quota, extra = divmod(total, len(kept))
    # `extra` members have one partition more than the others: first those that already own more.
    limits = dict.fromkeys(kept, quota)
    for member, owned in kept.items():
        if extra and len(owned) > quota:
            limits[member] += 1
            extra -= 1
    for member in kept:
        if extra and limits[member] == quota:
            limits[member] += 1
            extra -= 1
    for member, owned in kept.items():
        surplus = sorted(owned)[limits[member] :]
        owned.difference_update(surplus)
        free += surplus
    free.sort()
    waiting = iter(free)
    # In turns, so that the partitions of a topic are spread over the members.
    hungry = deque(member for member, owned in kept.items() if len(owned) < limits[member])
    while hungry:
        member = hungry.popleft()
        kept[member].add(next(waiting))
        if len(kept[member]) < limits[member]:
            hungry.append(member)
    assert next(waiting, None) is None


class _StickyBalance:
    """The balance of members with different subscriptions."""

    def __init__(
        self,
        topics: Mapping[str, Collection[str]],
        kept: dict[str, set[TopicPartition]],
        owners: Mapping[TopicPartition, str],
    ) -> None:
        self._kept = kept
        self._owners = owners
        self._subscribers: dict[str, list[str]] = {}
        for member, names in topics.items():
            for topic in names:
                self._subscribers.setdefault(topic, []).append(member)
        # Member to topic to the partitions that it has.
        self._held: dict[str, dict[str, set[int]]] = {member: {} for member in kept}
        for member, partitions in kept.items():
            for topic, partition in partitions:
                self._held[member].setdefault(topic, set()).add(partition)

    def run(self, free: Iterable[TopicPartition]) -> None:
        """Assign the free partitions, those with the fewest subscribers first; then move what is unbalanced."""
        for topic, partition in sorted(
            free, key=lambda topic_partition: (len(self._subscribers[topic_partition[0]]), topic_partition)
        ):
            self._give(min(self._subscribers[topic], key=self._load), topic, partition)
        while any(self._relieve(member) for member in sorted(self._kept, key=self._load, reverse=True)):
            pass

    def _load(self, member: str) -> int:
        return len(self._kept[member])

    def _give(self, member: str, topic: str, partition: int) -> None:
        self._kept[member].add((topic, partition))
        self._held[member].setdefault(topic, set()).add(partition)

    def _relieve(self, member: str) -> bool:
        """Move one partition off a member, along the shortest chain to one with at least two less."""
        came_by: dict[str, tuple[str, str]] = {}
        waiting = deque([member])
        seen = {member}
        while waiting:
            giver = waiting.popleft()
            for topic in sorted(self._held[giver]):
                for taker in self._subscribers[topic] if self._held[giver][topic] else ():
                    if taker in seen:
                        continue
                    seen.add(taker)
                    came_by[taker] = giver, topic
                    if self._load(taker) <= self._load(member) - 2:
                        self._move(taker, came_by)
                        return True
                    waiting.append(taker)
        return False

    def _move(self, taker: str, came_by: Mapping[str, tuple[str, str]]) -> None:
        """Move a partition along each link of a chain, beginning at its end."""
        while taker in came_by:
            giver, topic = came_by[taker]
            partition = min(
                self._held[giver][topic],
                key=lambda index: (
                    self._owners.get((topic, index)) == giver,
                    self._owners.get((topic, index)) != taker,
                    index,
                ),
            )
            self._held[giver][topic].discard(partition)
            self._kept[giver].discard((topic, partition))
            self._give(taker, topic, partition)
            taker = giver
