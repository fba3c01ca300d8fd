"""Views of groups: the state of a broker's groups at one moment, as immutable values for assertions and reports."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafka_offsets.broker.core import BrokerCore
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kafka_offsets.coordinator.consumer.group import ConsumerGroup
from kafka_offsets.protocol.topic_partition import TopicPartition


class MemberView(NamedTuple):
    """One member of a group.

    partitions  its assignment, as (topic, partition), sorted; empty if it is not known
    """

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None
    partitions: tuple[TopicPartition, ...]


class GroupView(NamedTuple):
    """One group.

    type        `classic` or `consumer` (KIP-848)
    state       as in DescribeGroups: Empty, PreparingRebalance, CompletingRebalance, Stable; for a consumer group
                Empty, Assigning, Reconciling, Stable
    generation  the group epoch of a consumer group
    members     in the order of joining
    is_settled  whether it is stable and every member has received its assignment
    """

    group_id: str
    type: str
    state: str
    generation: int
    members: tuple[MemberView, ...]
    is_settled: bool

    def __str__(self) -> str:
        count = len(self.members)
        return f"{self.state} in generation {self.generation} with {count} member{'' if count == 1 else 's'}"


class GroupProgress(NamedTuple):
    """A group at one moment: its view, and by (topic, partition) its committed offsets and its lag.

    lag  as `Broker.lag`: also of partitions without a committed offset, in topics with one
    """

    view: GroupView
    committed: dict[TopicPartition, int]
    lag: dict[TopicPartition, int]


class LogEnds(NamedTuple):
    """The first offset of a partition, and the end of what consumers can read."""

    log_start_offset: int
    high_watermark: int


class Overview(NamedTuple):
    """A broker at one moment: the partitions of its topics, and its groups."""

    partitions: dict[TopicPartition, LogEnds]
    groups: list[GroupProgress]


class GroupSummary(NamedTuple):
    """A group in short: how many members it has, and its lag in all partitions together.

    lag  a partition whose committed offset is after the log end counts as 0, as in the metrics
    """

    group_id: str
    type: str
    state: str
    members: int
    lag: int


class TopicSummary(NamedTuple):
    """A topic in short: the sums over its partitions of log end (the high watermark) and of bytes in their logs."""

    name: str
    partitions: int
    end: int
    bytes: int


def group_ids(core: BrokerCore) -> list[str]:
    """Return the ids of a broker's groups, sorted."""
    return sorted(
        group_id
        for hosted in core.runtime.all_shards()
        if not hosted.is_loading
        for group_id in hosted.shard.groups
    )


def group_view(core: BrokerCore, group_id: str) -> GroupView | None:
    """Return the view of a group; None if it does not exist or its shard is being loaded."""
    if not core.shards.topic_exists:
        return None
    hosted = core.runtime.shard_of(group_id, core.clock.now())
    group = None if hosted.is_loading else hosted.shard.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return _classic(group)
    return None if group is None else _consumer(core, group.committed())


def unassigned(core: BrokerCore, view: GroupView) -> list[TopicPartition]:
    """Return the partitions of the topics of a group that no member has.

    There are some between the two rebalances of a cooperative join. Empty for a consumer group, which is not stable
    then, and for a classic group whose subscriptions do not parse.
    """
    hosted = core.runtime.shard_of(view.group_id, core.clock.now())
    group = None if hosted.is_loading else hosted.shard.groups.get(view.group_id)
    if not isinstance(group, ClassicGroup):
        return []
    held = {place for member in view.members for place in member.partitions}
    topics = [core.topics.get(name) for name in sorted(group.subscribed or ())]
    places = [(topic.name, index) for topic in topics if topic for index in range(topic.partition_count)]
    return [place for place in places if place not in held]


def _classic(group: ClassicGroup) -> GroupView:
    members = tuple(
        MemberView(
            member.member_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            member.group_instance_id,
            _places(group.owned_partitions(member.member_id) or {}),
        )
        for member in group.members.values()
    )
    is_settled = group.state is ClassicGroupState.STABLE and not group.unsynced
    return GroupView(
        group.group_id, group.type_name, group.state.value, group.generation, members, is_settled
    )


def _consumer(core: BrokerCore, group: ConsumerGroup) -> GroupView:
    members = tuple(
        MemberView(
            member.member_id,
            member.subscription.client_id,
            member.subscription.client_host.removeprefix("/"),
            member.subscription.instance_id,
            _places(group.owned_partitions(member.member_id, core.topics.topic_name) or {}),
        )
        for member in group.members()
    )
    state = group.state.value
    return GroupView(group.group_id, group.type_name, state, group.epoch, members, state == "Stable")


def _places(owned: Mapping[str, Collection[int]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted((topic, index) for topic, indexes in owned.items() for index in indexes))


def log_ends(core: BrokerCore, topic: str) -> dict[TopicPartition, tuple[int, int]]:
    """Return log start offset and high watermark of each partition of a topic; empty if there is no such topic."""
    found = core.topics.get(topic)
    ends = {}
    for index in range(0 if found is None else found.partition_count):
        partition = core.topics.partition(topic, index)
        assert partition is not None
        ends[topic, index] = partition.log.log_start_offset, partition.log.high_watermark
    return ends


def lag(
    core: BrokerCore, group_id: str, topics: Mapping[str, object] | None = None
) -> dict[TopicPartition, int]:
    """Return the lag of a group in each partition: of these topics, else of the topics with committed offsets.

    In a partition without a committed offset all records count.
    """
    committed = core.shards.committed(group_id)
    names = {topic for topic, _ in committed} if topics is None else set(topics)
    lags = {}
    for name in sorted(names):
        for place, (start, end) in log_ends(core, name).items():
            entry = committed.get(place)
            lags[place] = end - (start if entry is None else entry.offset)
    return lags


def overview(core: BrokerCore, wanted: Collection[str] | None = None) -> Overview:
    """Return all partitions, except those of internal topics, and all groups.

    wanted  only these groups, and the partitions of the topics with their offsets
    """
    groups = []
    for group_id in sorted(wanted) if wanted is not None else group_ids(core):
        view = group_view(core, group_id)
        if view is not None:
            offsets = {place: entry.offset for place, entry in core.shards.committed(group_id).items()}
            groups.append(GroupProgress(view, offsets, lag(core, group_id)))
    if wanted is None:
        names = [name for name in core.topics.names() if name not in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)]
    else:
        names = sorted({topic for each in groups for topic, _ in each.lag})
    partitions = {place: LogEnds(*ends) for name in names for place, ends in log_ends(core, name).items()}
    return Overview(partitions, groups)


def group_summaries(core: BrokerCore, wanted: Collection[str]) -> list[GroupSummary]:
    """Return these groups in short, without those that do not exist. Costs about 2 µs an offset."""
    ends: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
    found = []
    for group_id in wanted:
        view = group_view(core, group_id)
        if view is None:
            continue
        committed = core.shards.committed(group_id)
        total_lag = 0
        for topic in {topic for topic, _ in committed}:
            if topic not in ends:
                ends[topic] = log_ends(core, topic)
            for place, (start, end) in ends[topic].items():
                entry = committed.get(place)
                total_lag += max(end - (start if entry is None else entry.offset), 0)
        found.append(GroupSummary(group_id, view.type, view.state, len(view.members), total_lag))
    return found


def topic_summaries(core: BrokerCore) -> list[TopicSummary]:
    """Return all topics in short, internal ones too, sorted by name."""
    found = []
    for name in core.topics.names():
        topic = core.topics.get(name)
        count = 0 if topic is None else topic.partition_count
        logs = [
            partition.log for i in range(count) if (partition := core.topics.partition(name, i)) is not None
        ]
        found.append(
            TopicSummary(
                name, len(logs), sum(log.high_watermark for log in logs), sum(log.size for log in logs)
            )
        )
    return found


def describe_state(core: BrokerCore) -> list[str]:
    """Return the groups, their members and their offsets as lines for a report."""
    lines = []
    for group_id in group_ids(core):
        view = group_view(core, group_id)
        assert view is not None
        lines.append(f"group {group_id!r} ({view.type}): {view}")
        for member in view.members:
            owned = ", ".join(f"{topic}-{index}" for topic, index in member.partitions) or "nothing"
            lines.append(f"  {member.client_id or member.member_id} at {member.client_host} has {owned}")
        lags = lag(core, group_id)
        for (topic, index), entry in sorted(core.shards.committed(group_id).items()):
            late = lags.get((topic, index))
            more = "the topic is gone" if late is None else f"lag {late}"
            lines.append(f"  {topic}-{index} committed {entry.offset}, {more}")
    return lines or ["no groups"]
