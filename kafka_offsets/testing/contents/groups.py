"""Views of groups: the state of a broker's groups at one moment, as immutable values for assertions and reports."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kafka_offsets import lag as rule
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition.partitions import LogLoadingError
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.coordinator.state.classic_group import ClassicGroup, ClassicGroupState
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.errors import StorageError, unknown
from kafka_offsets.protocol.topic_partition import TopicPartition


class NoLeaderError(RuntimeError):
    """No node leads a partition, so nothing is known of its log now."""


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

    lag  as `Broker.lag`: also of partitions without a committed offset; None where it is not known
    """

    view: GroupView
    committed: dict[TopicPartition, int]
    lag: dict[TopicPartition, int | None]


class LogEnds(NamedTuple):
    """The first offset of a partition, and the end of what consumers can read."""

    log_start_offset: int
    high_watermark: int


class Overview(NamedTuple):
    """A broker at one moment: the partitions of its topics, and its groups.

    unknown  what is not known now, such as `orders-0`, and why: such partitions are missing, with a partition of the
             offsets topic all its groups
    """

    partitions: dict[TopicPartition, LogEnds]
    groups: list[GroupProgress]
    unknown: dict[str, str] = {}  # noqa: RUF012 - never changed


class GroupSummary(NamedTuple):
    """A group in short: how many members it has, and its lag in all partitions together.

    lag  the sum of what is known; a partition whose committed offset is after the log end counts as 0
    """

    group_id: str
    type: str
    state: str
    members: int
    lag: int


class TopicSummary(NamedTuple):
    """A topic in short: the sums over its partitions of log end (the high watermark) and of bytes in their logs.

    A partition that is not known now, for example without a leader, is not in the sums.
    """

    name: str
    partitions: int
    end: int
    bytes: int


def group_ids(core: BrokerCore) -> list[str]:
    """Return the ids of a broker's groups, sorted; those of a coordinator that is gone are not known."""
    return sorted(
        group_id
        for hosted in core.runtime.all_shards()
        if not hosted.is_loading
        for group_id in hosted.shard.groups
    )


def partition_counts(core: BrokerCore) -> dict[str, int]:
    """Return the numbers of partitions of all topics that are known."""
    counts = {}
    for name in core.topics.names():
        try:
            topic = core.topics.get(name)
        except NoLeaderError:
            continue
        counts[name] = 0 if topic is None else topic.partition_count
    return counts


def unknown_group(core: BrokerCore, group_id: str) -> str:
    """Return that a group does not exist, with the most similar one that does."""
    return unknown("group", group_id, group_ids(core))


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
    held = {partition for member in view.members for partition in member.partitions}
    topics = [core.topics.get(name) for name in sorted(group.subscribed or ())]
    partitions = [(topic.name, index) for topic in topics if topic for index in range(topic.partition_count)]
    return [partition for partition in partitions if partition not in held]


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
    return {partition: _log_ends(core, partition) for partition in partitions_of(core, topic)}


def partitions_of(core: BrokerCore, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic; none if it does not exist."""
    known_topic = core.topics.get(topic)
    return [(topic, index) for index in range(0 if known_topic is None else known_topic.partition_count)]


def _log_ends(core: BrokerCore, topic_partition: TopicPartition) -> tuple[int, int]:
    partition = core.topics.partition(*topic_partition)
    assert partition is not None
    return partition.log.log_start_offset, partition.log.high_watermark


class _KnownEnds:
    """The ends of logs, each read once.

    unknown  the partitions whose ends are not known, and why: no node leads them, or their disk refuses
    """

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._topics: dict[str, dict[TopicPartition, tuple[int, int] | None]] = {}
        self.unknown: dict[str, str] = {}

    def of(self, topic: str) -> dict[TopicPartition, tuple[int, int] | None]:
        """Return `log_ends`, with None for partitions whose ends are not known."""
        if topic not in self._topics:
            self._topics[topic] = {
                partition: self._read(partition) for partition in partitions_of(self._core, topic)
            }
        return self._topics[topic]

    def _read(self, partition: TopicPartition) -> tuple[int, int] | None:
        try:
            return _log_ends(self._core, partition)
        except LogLoadingError:
            raise  # it is known in a moment
        except (NoLeaderError, StorageError) as error:
            self.unknown[f"{partition[0]}-{partition[1]}"] = str(error)
            return None


def lag(
    core: BrokerCore, group_id: str, topics: Iterable[str] | None = None
) -> dict[TopicPartition, int | None]:
    """Return the lag of a group in each partition of these topics, else of those that it reads.

    None where the end of the log is not known: no node leads the partition, or its log cannot be read.
    """
    committed = core.shards.committed(group_id)
    names = sorted(set(topics)) if topics is not None else _topics_read(committed, group_view(core, group_id))
    return dict(_lags(_KnownEnds(core), committed, names))


def wrong_total(
    group_id: str, lags: Mapping[TopicPartition, int | None], expected: int
) -> tuple[list[str], str]:
    """Return what differs from a lag of so many offsets in all, no lines if nothing does, and a heading for them."""
    total = rule.total(lags.values())
    is_known = None not in lags.values()
    is_beyond = any(partition_lag is not None and partition_lag < 0 for partition_lag in lags.values())
    more = "" if is_known else " and every lag known"
    more += " and no offset beyond an end" if is_beyond and total == expected else ""
    text = f"group {group_id!r} lags by {total} in all, expected {expected}{more}"
    if total == expected and is_known and not is_beyond:
        return [], text
    return [
        f"{topic}-{index}: lag {'not known' if partition_lag is None else partition_lag}"
        for (topic, index), partition_lag in lags.items()
    ], text


def _topics_read(committed: Iterable[TopicPartition], view: GroupView | None) -> list[str]:
    members = () if view is None else view.members
    return rule.topics_read(committed, *(member.partitions for member in members))


def _lags(
    ends: _KnownEnds, committed: Mapping[TopicPartition, OffsetAndMetadata], topics: Iterable[str]
) -> Iterator[tuple[TopicPartition, int | None]]:
    for name in topics:
        for partition, extent in ends.of(name).items():
            entry = committed.get(partition)
            yield (
                partition,
                None if extent is None else rule.lag(None if entry is None else entry.offset, *extent),
            )


def _known_view(core: BrokerCore, group_id: str) -> GroupView | None:
    """Return the view of a group, None also if no node coordinates it."""
    try:
        return group_view(core, group_id)
    except NoLeaderError:
        return None


def overview(core: BrokerCore, wanted: Collection[str] | None = None) -> Overview:
    """Return all partitions, except those of internal topics, and all groups.

    wanted  only these groups, and the partitions of the topics that they read
    """
    ends = _KnownEnds(core)
    groups = list(_known_progress(core, ends, sorted(wanted) if wanted is not None else group_ids(core)))
    names = None if wanted is None else sorted({topic for group in groups for topic, _ in group.lag})
    return Overview(_log_ends_of(core, ends, names), groups, ends.unknown | core.shards.lost_shards())


def group_progress(core: BrokerCore, wanted: Iterable[str]) -> list[GroupProgress]:
    """Return these groups with their offsets and lag, without those that do not exist."""
    return list(_known_progress(core, _KnownEnds(core), wanted))


def all_log_ends(core: BrokerCore) -> dict[TopicPartition, LogEnds]:
    """Return the ends of all logs that are known, except those of internal topics."""
    return _log_ends_of(core, _KnownEnds(core), None)


def _known_progress(core: BrokerCore, ends: _KnownEnds, names: Iterable[str]) -> Iterator[GroupProgress]:
    for group_id in names:
        view = _known_view(core, group_id)
        if view is not None:
            committed = core.shards.committed(group_id)
            lags = dict(_lags(ends, committed, _topics_read(committed, view)))
            yield GroupProgress(
                view, {partition: entry.offset for partition, entry in committed.items()}, lags
            )


def _log_ends_of(
    core: BrokerCore, ends: _KnownEnds, topics: Iterable[str] | None
) -> dict[TopicPartition, LogEnds]:
    if topics is None:
        topics = [name for name in core.topics.names() if name not in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)]
    return {
        partition: LogEnds(*extent)
        for topic in topics
        for partition, extent in ends.of(topic).items()
        if extent is not None
    }


def group_summaries(core: BrokerCore, wanted: Iterable[str]) -> list[GroupSummary]:
    """Return these groups in short, without those that do not exist."""
    return [
        GroupSummary(view.group_id, view.type, view.state, len(view.members), rule.total(lags.values()))
        for view, _, lags in _known_progress(core, _KnownEnds(core), wanted)
    ]


def topic_summaries(core: BrokerCore) -> tuple[list[TopicSummary], dict[str, str]]:
    """Return all topics in short, internal ones too, by name, and the partitions that are not known, with why."""
    summaries = []
    ends = _KnownEnds(core)
    for name in core.topics.names():
        known_ends = {
            topic_partition: extent for topic_partition, extent in ends.of(name).items() if extent is not None
        }
        logs = [
            partition.log
            for topic_partition in known_ends
            if (partition := core.topics.partition(*topic_partition)) is not None
        ]
        summaries.append(
            TopicSummary(
                name,
                len(ends.of(name)),
                sum(end for _, end in known_ends.values()),
                sum(log.size for log in logs),
            )
        )
    return summaries, ends.unknown


def describe_state(core: BrokerCore, most: int | None = None) -> list[str]:
    """Return the groups, their members and their offsets as lines for a report.

    most  the groups after so many lines are left out
    """
    lines: list[str] = []
    ends = _KnownEnds(core)
    for group_id in group_ids(core):
        if most is not None and len(lines) >= most:
            break
        view = _known_view(core, group_id)
        if view is None:
            continue
        lines.append(f"group {group_id!r} ({view.type}): {view}")
        for member in view.members:
            owned = ", ".join(f"{topic}-{index}" for topic, index in member.partitions) or "nothing"
            lines.append(f"  {member.client_id or member.member_id} at {member.client_host} has {owned}")
        committed = core.shards.committed(group_id)
        lags = dict(_lags(ends, committed, _topics_read(committed, view)))
        for partition in sorted({*committed, *(partition for partition, late in lags.items() if late != 0)}):
            lines.append(
                f"  {partition[0]}-{partition[1]} {_progress(partition, committed.get(partition), lags, ends)}"
            )
    lost = [
        f"{name}: its groups are not known: {why}" for name, why in sorted(core.shards.lost_shards().items())
    ]
    return [*(lines or ["no groups"] * (not lost)), *lost]


def _progress(
    partition: TopicPartition,
    entry: OffsetAndMetadata | None,
    lags: Mapping[TopicPartition, int | None],
    ends: _KnownEnds,
) -> str:
    """Return what is committed in a partition, and the lag or why it is not known."""
    text = "not committed" if entry is None else f"committed {entry.offset}"
    if partition not in lags:
        return f"{text}, the topic is gone"
    late, extent = lags[partition], ends.of(partition[0])[partition]
    if late is None or extent is None:
        return f"{text}, lag not known: {ends.unknown[f'{partition[0]}-{partition[1]}']}"
    skipped = rule.skipped(None if entry is None else entry.offset, extent[0])
    return f"{text}, lag {late}" + (f", {skipped} deleted before they were read" if skipped else "")
