"""State of a shard: its groups, its committed offsets, its timers, and what decisions need from outside.

Decisions about groups and offsets read and change this state. shard.py knows all decisions and chooses the one for a
record or a timer.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.groups import Group, Groups
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.state.result import CoordinatorRecord, Reply
from kafka_offsets.coordinator.state.timers import Timers
from kafka_offsets.incidents import Incidents


@dataclass(slots=True)
class Meters:
    """Numbers that only grow, counted when a decision is made, as Kafka's GroupCoordinatorMetrics are.

    offset_commits        offsets, not requests
    offset_expirations    offsets deleted by expiration
    offset_deletions      offsets deleted by a request; not those of deleted groups and topics
    completed_rebalances  how often a classic group became Stable
    consumer_rebalances   epochs of consumer groups that a heartbeat or a new topic caused; leaving members do not count
    """

    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
    completed_rebalances: int = 0
    consumer_rebalances: int = 0


REPLY_TIMER = "reply"
"""The kind of the timer that sends the replies of :meth:`ShardState.reply_later`."""

_MOST_UNCHANGED = 1 << 10
"""Limit of the groups that are noted as unchanged."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The configuration keys that decisions depend on, by Kafka's names and in Kafka's units.

    max_record_bytes  message.max.bytes, if records are not compressed: the log refuses a larger record
    """

    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4096
    new_member_join_timeout_ms: int = 300_000
    group_rebalance_closes: bool = False
    group_assigns: bool = False
    offsets_commit_owner_check: bool = False
    offsets_commit_all_or_none: bool = False
    offsets_commit_unknown_topics: bool = False
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5000
    consumer_max_size: int = 2_147_483_647
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    consumer_assignment_interval_ms: int = 1000
    consumer_regex_refresh_interval_ms: int = 600_000
    consumer_regex_pause_ms: int = 10_000
    max_record_bytes: int | None = None


class TopicView(Protocol):
    """The questions that decisions ask about topics."""

    def id_and_partition_count(self, topic: str) -> tuple[bytes, int]:
        """Return a topic's id and number of partitions; 16 zero bytes and 0 when there is no such topic."""
        ...

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None."""
        ...

    def names(self) -> Collection[str]:
        """Return the names of all topics."""
        ...

    @property
    def version(self) -> int:
        """A number that grows whenever a topic is created, is deleted or gets more partitions."""
        ...

    @property
    def created_version(self) -> int:
        """The version at which the last topic was created."""
        ...


_Kind = TypeVar("_Kind", ClassicGroup, ConsumerGroup)


class ShardState:
    """State of the groups and offsets whose group ids hash to one partition of the offsets topic.

    partition      number of that partition
    new_member_id  prefix -> a new unique member id, `prefix-UUID`
    topics         the topics of the cluster
    latest_record  key -> the last record of it that is decided and has not taken effect, None when there is none;
                   set by the component that appends the records
    decided_offsets  group -> (topic, partition) of its offsets that are decided and have not taken effect, those of
                   open transactions included; set by the same component
    group_settings  by group, for groups that have their own settings; set by the creator of the shard
    meters         counters, shared by all shards
    incidents      what went otherwise than a member wanted, shared by all shards
    retiring       groups that are deleted or have changed their kind, by id, until the log says so; the oldest first
    resolving      queue of the consumer groups whose regular expressions are to be resolved; the first is in progress
    pending        producer id -> the offsets of its open transaction
    ended          producer id -> callback for when its open transaction has taken effect or was dropped; called once
    is_loading     True: the records of the log decide which groups exist; afterwards decisions do, before their
                   records are durable
    unchanged      group -> a new object, for groups whose offsets were noted as the same; each change removes it
    deletions      how many offsets were deleted, by whatever
    """

    def __init__(
        self,
        partition: int,
        settings: GroupSettings,
        new_member_id: Callable[[str], str],
        topics: TopicView,
        meters: Meters | None = None,
        incidents: Incidents | None = None,
    ) -> None:
        self.partition = partition
        self.settings = settings
        self.new_member_id = new_member_id
        self.topics = topics
        self.group_settings: Mapping[str, GroupSettings] = {}
        self.latest_record: Callable[[bytes], CoordinatorRecord | None] = lambda key: None
        self.decided_offsets: Callable[[str], Collection[tuple[str, int]]] = lambda group_id: ()
        self.meters = Meters() if meters is None else meters
        self.incidents = Incidents() if incidents is None else incidents
        self.retiring: dict[str, list[Group]] = {}
        self.resolving: dict[str, None] = {}
        self.unchanged: dict[str, object] = {}
        self.deletions = 0
        self.replace_offsets(OffsetTable())
        self.timers = Timers()
        self.pending: dict[int, dict[stored.OffsetKey, OffsetAndMetadata]] = {}
        self.ended: dict[int, list[Callable[[], None]]] = {}
        self.unknown_records = 0
        self.late_replies: list[Reply] = []
        self.is_loading = True

    def replace_offsets(self, offsets: OffsetTable) -> None:
        """Replace the offset table; no group remains."""
        self.offsets = offsets
        self.unchanged.clear()
        self.groups = Groups(offsets, self.retiring)

    def since_unchanged(self, group_id: str) -> object:
        """Return what `unchanged` has for a group, from now on if it has nothing yet."""
        if len(self.unchanged) >= _MOST_UNCHANGED:
            self.unchanged.clear()
        return self.unchanged.setdefault(group_id, object())

    def settings_of(self, group_id: str) -> GroupSettings:
        """Return the settings of a group."""
        return self.group_settings.get(group_id, self.settings)

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """Return the classic group with this id, or None, also for one that only has offsets: it has no members."""
        group = self.groups.held.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Return the consumer group with this id, or None; no request may use the empty id, so no group has it."""
        group = self.groups.held.get(group_id) if group_id else None
        return group if isinstance(group, ConsumerGroup) else None

    def readable(self, group_id: str) -> Group | None:
        """Return the group that readers see: the one that the log holds, or None.

        A decision sees all earlier decisions; a reader sees only those that can no longer be reverted.
        Source: GroupMetadataManager.group(groupId, committedOffset).
        """
        group = self.groups.get(group_id)
        groups = [*self.retiring.get(group_id, ()), *([] if group is None else [group])]
        return next((candidate for candidate in groups if candidate.is_known), None)

    def decided(self, group_id: str) -> Group | None:
        """Return the group that decisions see: its first offsets may not have taken effect yet."""
        group = self.groups.get(group_id)
        if group is None and self.decided_offsets(group_id):
            group = ClassicGroup(group_id)
            group.is_recorded = True  # readers do not see it
        return group

    def retire(self, group: Group) -> None:
        """Note that a group is deleted or replaced by one of the other kind, which its log does not say yet.

        Readers see it until then. Records before its tombstone belong to it, also if a new group has its name.
        """
        self.retiring.setdefault(group.group_id, []).append(group)

    def take_out(self, group: Group) -> Callable[[], None]:
        """Remove a group without members at once; return what restores it when the log refuses its tombstones."""
        group_id = group.group_id
        self.retire(group)
        held = self.groups.held.pop(group_id, None)
        group.drop_timers(self.timers)

        def undo() -> None:
            """Restore the group, unless another one has its id by now, or it has no object without its deletion."""
            self.forget_retired(group)
            if held is None:
                return
            current = self.groups.held.get(group_id)
            if current is None or current.is_provisional:
                if current is not None:
                    current.drop_timers(self.timers)
                self.groups.held[group_id] = group

        return undo

    def retired(self, group_id: str, kind: type[_Kind]) -> _Kind | None:
        """Return the retiring group to which the next record of this kind belongs."""
        return next((group for group in self.retiring.get(group_id, ()) if isinstance(group, kind)), None)

    def forget_retired(self, group: Group | None) -> None:
        """Forget a retired group: its tombstone is in effect, or was refused."""
        if group is None:
            return
        left = [retired for retired in self.retiring.pop(group.group_id, ()) if retired is not group]
        if left:
            self.retiring[group.group_id] = left

    def reply_later(self, replies: list[Reply]) -> None:
        """Send replies with the next tick, which is due at once."""
        if replies:
            self.late_replies += replies
            self.timers.schedule(0, REPLY_TIMER, "")

    def has_pending_offset(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed an offset of this partition."""
        if not self.pending:
            return False
        key = stored.OffsetKey(group, topic, partition)
        return any(key in offsets for offsets in self.pending.values())

    def has_open_transaction(self, group: str) -> bool:
        """Whether an open transaction has committed an offset of the group; takes time for each pending offset."""
        return any(key.group == group for offsets in self.pending.values() for key in offsets)
