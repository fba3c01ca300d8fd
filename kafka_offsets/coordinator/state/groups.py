"""Groups of a shard, by id. A group that only has offsets has no object until something changes it.

An object of a group takes 600 bytes, and most groups of a broker that tools and simple consumers commit to have never
had a member. Such a *simple* group is known by its entries in the offset table alone: a reader gets a new object, which
is the same each time. A group keeps its object from when it has more to remember than that: a member, a record, a
pending offset, or that its last offset was deleted.
"""

from collections.abc import Iterator, Mapping

from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.offset_table import OffsetTable

Group = ClassicGroup | ConsumerGroup

_ANY_SIMPLE = ClassicGroup("")


class Groups(Mapping[str, Group]):
    """The groups of a shard: first those with an object, then the simple ones. A change goes through `held` or `keep`.

    held      the groups that have an object; one that is removed here remains as a simple group while it has offsets
    offsets   the committed offsets of all groups
    retiring  deleted groups, while readers still see them: the offsets of such a group make no simple group
    """

    __slots__ = ("_offsets", "_retiring", "held")

    def __init__(self, offsets: OffsetTable, retiring: Mapping[str, object]) -> None:
        self.held: dict[str, Group] = {}
        self._offsets = offsets
        self._retiring = retiring

    def is_simple(self, group_id: str) -> bool:
        """Whether the group only has offsets, and no object."""
        return (
            group_id not in self.held and self._offsets.has_group(group_id) and group_id not in self._retiring
        )

    def simple(self) -> list[str]:
        """The groups that only have offsets, in the order of their first ones."""
        listed = self._offsets.groups()
        if not self.held and not self._retiring:
            return listed
        return [
            group_id for group_id in listed if group_id not in self.held and group_id not in self._retiring
        ]

    def peek(self, group_id: str) -> Group | None:
        """Return a group, for questions that do not concern its id: simple groups share one object, without one."""
        group = self.held.get(group_id)
        return _ANY_SIMPLE if group is None and self.is_simple(group_id) else group

    def keep(self, group_id: str) -> Group | None:
        """Return a group for a decision that may change it: a simple one gets its object."""
        group = self.held.get(group_id)
        if group is None and self.is_simple(group_id):
            group = self.held[group_id] = ClassicGroup(group_id)
        return group

    def keep_empty(self, group_id: str) -> None:
        """Keep a simple group whose last offset has just been removed; expiration or an administrator deletes it."""
        if (
            group_id not in self.held
            and group_id not in self._retiring
            and not self._offsets.has_group(group_id)
        ):
            self.held[group_id] = ClassicGroup(group_id)

    def release_simple(self) -> None:
        """Drop the objects of groups that only have offsets, which an earlier record of a log gave them."""
        for group_id, group in [*self.held.items()]:
            is_bare = isinstance(group, ClassicGroup) and group.durable is None and group.is_provisional
            if is_bare and self._offsets.has_group(group_id):
                del self.held[group_id]

    @property
    def most(self) -> int:
        """At most so many groups exist; unlike len() it takes no time for each of them."""
        return len(self.held) + self._offsets.group_count

    def __getitem__(self, group_id: str) -> Group:
        """Return a group, for reading: for a simple group a new one, which is not kept."""
        group = self.held.get(group_id)
        if group is not None:
            return group
        if not self.is_simple(group_id):
            raise KeyError(group_id)
        return ClassicGroup(group_id)

    def __contains__(self, group_id: object) -> bool:
        return isinstance(group_id, str) and (group_id in self.held or self.is_simple(group_id))

    def __iter__(self) -> Iterator[str]:
        return iter([*self.held, *self.simple()])

    def __len__(self) -> int:
        return len(self.held) + len(self.simple())

    def __bool__(self) -> bool:
        return bool(self.held) or bool(self.simple())
