"""Facts of a broker in this process, or of all nodes of a cluster: what `diagnosis` is asked about.

The functions read a broker between two turns, in its thread. What is kept where in a broker stands in the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafka_offsets.assignors.member_data import decode_subscription
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.groups.transactions import transactional_ids
from kafka_offsets.broker.partition.partitions import LogLoadingError, Partition
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.state.classic_group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from kafka_offsets.coordinator.state.consumer_group import REBALANCE_TIMER as REVOCATION
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup, ConsumerGroupMember
from kafka_offsets.coordinator.state.consumer_records import MemberState
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.coordinator.transactions.decisions import TransactionState
from kafka_offsets.diagnosis.facts import (
    Back,
    Departed,
    Facts,
    Fault,
    Group,
    Log,
    Member,
    Offset,
    Position,
    Transaction,
)
from kafka_offsets.diagnosis.findings import Findings
from kafka_offsets.diagnosis.rules import diagnose
from kafka_offsets.errors import ProtocolError, StorageError
from kafka_offsets.incidents import Incident
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.testing.contents.groups import NoLeaderError, group_ids, partition_counts
from kafka_offsets.testing.contents.seeding import readable_batches
from kafka_offsets.testing.server.consumption import Consumption, Observation, Reader

if TYPE_CHECKING:
    from kafka_offsets.testing.server.recording import RecordedRequest

_MOST_BATCHES = 100
"""So many batches after a committed offset are looked at for a record."""

_Read = Mapping[Reader, Mapping[TopicPartition, tuple[int, int]]] | None
"""The offsets of the first and the last Fetch of each partition, by client; None: nobody observes."""

_CONNECTIONS_AT_ONCE, _GROUPS_AT_ONCE = 2000, 10
"""A part of what is gathered; either takes about 2 ms, with 20 members in a group."""

_COMPLETING, _PREPARING = ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.PREPARING_REBALANCE


def _cores(core: BrokerCore) -> list[BrokerCore]:
    """Return the brokers: the one, or the nodes of a cluster that are up."""
    nodes: list[BrokerCore] | None = getattr(core, "nodes", None)
    return [core] if nodes is None else nodes


def _incidents(core: BrokerCore, after: int) -> list[Incident]:
    incidents = [
        incident for node in _cores(core) for incident in node.responses.incidents if incident.serial > after
    ]
    return sorted(incidents, key=lambda incident: incident.serial)


def _transactions(core: BrokerCore, *, only_open: bool = False) -> Iterator[Transaction]:
    for node in _cores(core):
        for name, each in transactional_ids(node.transactions):
            is_open = each.state is TransactionState.ONGOING or each.is_prepared
            if only_open and not is_open:
                continue
            partitions = frozenset(each.partitions) if is_open else frozenset()
            start_ms = each.start_ms if is_open else -1
            yield Transaction(name, each.producer_id, each.state.title, start_ms, each.timeout_ms, partitions)


def _consumption(core: BrokerCore) -> Consumption | None:
    observer = next((node.responses.observer for node in _cores(core)), None)
    return observer.consumption if isinstance(observer, Observation) else None


class Gathering:
    """The facts of a broker, in parts of a few ms, between which it serves its clients.

    group   only those that concern this group; it is one of the facts also if it does not exist
    faults  those of the test
    backs   what `moves_back` returns
    after   only incidents with a larger number
    Each group is of one moment with its logs, and with the transactions that were open then. The time is that at which
    the first part began: what a member had not done then, it had not done for as long as its group is stable.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        faults: Iterable[Any] = (),
        backs: Mapping[str, Sequence[Back]] = MappingProxyType({}),
        after: int = 0,
    ) -> None:
        self._group, self._faults, self._backs, self._after = group, faults, backs, after
        self._known: Facts | None = None
        self._began_ms = 0
        self._connections: list[object] = []
        self._left: list[str] = []
        self._read: dict[Reader, dict[TopicPartition, tuple[int, int]]] | None = None
        self._groups: list[Group] = []
        self._logs: dict[TopicPartition, Log] = {}
        self._transactions: list[Transaction] = []
        self._topics: dict[str, int] = {}

    def step(self, core: BrokerCore) -> bool:
        """Gather the next part, in the broker's thread; return whether one is left.

        Raises LogLoadingError; the part is then the next one again.
        """
        consumption = _consumption(core)
        if self._known is None:
            self._begin(core)
            if consumption is not None:
                self._read, self._connections = {}, consumption.connections()
        elif self._connections and self._read is not None and consumption is not None:
            consumption.add_positions(self._connections[-_CONNECTIONS_AT_ONCE:], self._read)
            del self._connections[-_CONNECTIONS_AT_ONCE:]
        else:
            self._add_groups(core, self._left[:_GROUPS_AT_ONCE])
            del self._left[:_GROUPS_AT_ONCE]
        if not self._left:
            self._topics = partition_counts(core)  # a topic that is new is not missed by its readers
            self._transactions = list(_transactions(core))
        return bool(self._left)

    def _begin(self, core: BrokerCore) -> None:
        """Gather what is not of groups."""
        group, ids = self._group, group_ids(core)
        self._began_ms = core.clock.now().wall_ms
        self._topics = partition_counts(core)
        lost = core.shards.lost_shards() if group is None else {}  # that of a group says so itself
        self._logs = {
            (OFFSETS_TOPIC, int(name.rpartition("-")[2])): Log(problem=why) for name, why in lost.items()
        }
        self._left = ids if group is None else [group]
        active = [
            fault for fault in self._faults if fault.is_active and not getattr(fault, "observes", False)
        ]
        self._known = Facts(
            incidents=_incidents(core, self._after),
            faults=[_fault(fault) for fault in active],
            is_time_still=isinstance(core.clock, ManualClock),
            asked=frozenset() if group is None else frozenset((group,)),
            others=() if group is None else ids,
        )

    def _add_groups(self, core: BrokerCore, names: Sequence[str]) -> None:
        groups = [_group(core, name, self._backs.get(name, ()), self._read) for name in names]
        topics = sorted({topic for group in groups for topic in _topics_of(group)})
        logs = {
            partition: _log(core, partition) for topic in topics for partition in _places(self._topics, topic)
        }
        known_logs = {partition: log for partition, log in logs.items() if log is not None}
        open_ones = list(_transactions(core, only_open=True))
        self._groups += [
            replace(_with_unread(core, group, known_logs), transactions=open_ones)
            for group in groups
            if group.exists or self._group is not None
        ]
        self._logs |= known_logs

    def facts(self) -> Facts:
        """Return what was gathered."""
        assert self._known is not None
        return replace(
            self._known,
            groups=self._groups,
            topics=self._topics,
            logs=self._logs,
            transactions=self._transactions,
        )

    def findings(self) -> Findings:
        """Diagnose what was gathered."""
        return diagnose(self.facts(), self._began_ms, self._group)


def _fault(fault: Any) -> Fault:
    what = repr(fault).removeprefix("<fault ").removesuffix(">").rpartition(", struck")[0] or repr(fault)
    return Fault(what, fault.hits, getattr(fault, "group", None))


def _places(counts: Mapping[str, int], topic: str) -> list[TopicPartition]:
    internal = topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
    return [] if internal else [(topic, index) for index in range(counts.get(topic, 0))]


def _topics_of(group: Group) -> set[str]:
    named = {topic for topic, _ in (*group.offsets, *group.owners)}
    return named.union(*(member.topics or () for member in group.members))


# -- logs


def _partition(core: BrokerCore, partition: TopicPartition) -> Partition | None:
    return core.topics.partition(*partition)


def _log(core: BrokerCore, topic_partition: TopicPartition) -> Log | None:
    """Return what is known of a log; None if its topic was deleted a moment ago."""
    try:
        partition = _partition(core, topic_partition)
        if partition is None:
            return None
        log = partition.log
        return Log(log.log_start_offset, log.high_watermark, partition.last_stable_offset)
    except LogLoadingError:
        raise  # it is known in a moment
    except (NoLeaderError, StorageError) as error:
        return Log(problem=str(error))


def _with_unread(core: BrokerCore, group: Group, logs: Mapping[TopicPartition, Log]) -> Group:
    """Return a group with what a reader finds at each committed offset that has a lag."""
    offsets = dict(group.offsets)
    for partition, entry in group.offsets.items():
        log = logs.get(partition)
        if log is None or log.problem or not log.start <= entry.offset < log.end:
            continue
        has_unread, unread_ms = _unread(core, partition, entry.offset)
        offsets[partition] = Offset(entry.offset, entry.committed_ms, has_unread, unread_ms)
    return replace(group, offsets=offsets, logs=logs)


def _unread(core: BrokerCore, topic_partition: TopicPartition, offset: int) -> tuple[bool | None, int | None]:
    """Return whether a reader of committed records finds one from `offset` on, and when the first of them came."""
    try:
        partition = _partition(core, topic_partition)
        if partition is None or offset >= partition.last_stable_offset:
            return None, None
        for count, (is_seen, stored) in enumerate(readable_batches(partition, offset)):
            if count >= _MOST_BATCHES:
                return None, None
            if is_seen and stored.header.last_offset >= offset:
                came_ms = stored.header.max_timestamp
                return True, came_ms if came_ms >= 0 else None
    except LogLoadingError:
        raise  # it is known in a moment
    except StorageError:
        return None, None  # the disk refuses: a test asks why because of that
    return False, None


# -- groups


def _group(core: BrokerCore, group_id: str, backs: Sequence[Back], read: _Read) -> Group:
    now = core.clock.now()
    if not core.shards.topic_exists:
        return Group(group_id, exists=False)
    try:
        hosted = core.runtime.shard_of(group_id, now)
    except NoLeaderError as error:
        return Group(group_id, unavailable=str(error))
    if hosted.is_loading:
        name = f"{OFFSETS_TOPIC}-{hosted.shard.partition}"
        return Group(group_id, unavailable=f"its coordinator loads {name}")
    shard = hosted.shard
    group = shard.groups.get(group_id)
    offsets = {partition: _offset(entry) for partition, entry in core.shards.committed(group_id).items()}
    held = {
        (key.topic, key.partition): (producer_id,)
        for producer_id, pending in reversed(
            shard.pending.items()
        )  # of several the first one, open for longest
        for key in pending
        if key.group == group_id
    }
    fields: dict[str, Any] = {"offsets": offsets, "held": held, "moved_back": tuple(backs)}
    fields["last_left"] = _last_left(core, group_id)
    if group is None:
        return Group(group_id, exists=bool(offsets or held), **fields)
    if isinstance(group, ClassicGroup):
        return _classic(core, group, fields, read)
    timeout_ms = shard.settings_of(group_id).consumer_session_timeout_ms
    return _consumer(core, group.committed(), timeout_ms, fields, read)


def _offset(entry: OffsetAndMetadata) -> Offset:
    return Offset(entry.offset, entry.commit_timestamp if entry.commit_timestamp >= 0 else None)


def _last_left(core: BrokerCore, group_id: str) -> Departed | None:
    consumption = _consumption(core)
    if consumption is None or group_id not in consumption.last_left:
        return None
    reader, read = consumption.last_left[group_id]
    return Departed(str(reader), {partition: Position(*ends) for partition, ends in read.items()})


def _positions(read: _Read, client_id: str, host: str) -> dict[TopicPartition, Position] | None:
    ranges = None if read is None else read.get(Reader(client_id, host), {})
    return None if ranges is None else {partition: Position(*ends) for partition, ends in ranges.items()}


def _classic(core: BrokerCore, group: ClassicGroup, fields: dict[str, Any], read: _Read) -> Group:
    mono_ms = core.clock.now().mono_ms
    is_preparing = group.state is _PREPARING
    members = [_classic_member(group, member, mono_ms, read) for member in group.members.values()]
    if is_preparing:
        members += [
            Member(member_id, removed_in_ms=due_ms - mono_ms, awaited="join")
            for member_id, due_ms in group.pending.items()
        ]
    return Group(
        group.group_id,
        group.state.value,
        tuple(members),
        group.state_since_ms if group.state_since_ms >= 0 else None,
        max(group.join_due_ms - mono_ms, 0) if is_preparing and group.is_initial else None,
        **fields,
    )


def _classic_member(group: ClassicGroup, member: ClassicGroupMember, mono_ms: int, read: _Read) -> Member:
    host = member.client_host.removeprefix("/")
    awaited, due_ms = "", member.deadline_ms
    if group.state is _PREPARING and member.join is None and not group.is_initial:
        awaited = "join"
        if member.group_instance_id is None and group.join_due_ms >= 0:
            due_ms = min(due_ms, group.join_due_ms)
    elif group.state is _COMPLETING and member.sync is None:
        is_leader = member.member_id == group.leader
        awaited = "assignment" if is_leader else ""
        due_ms = min(due_ms, group.sync_due_ms) if group.sync_due_ms >= 0 else due_ms
    elif group.state is ClassicGroupState.STABLE and member.member_id in group.unsynced:
        awaited = "sync"
        due_ms = min(due_ms, group.sync_due_ms) if group.sync_due_ms >= 0 else due_ms
    silent_ms = None
    if member.join is None and member.sync is None and not member.is_new:
        silent_ms = max(mono_ms - member.deadline_ms + member.session_timeout_ms, 0)
    owned = group.owned_partitions(member.member_id) or {}
    return Member(
        member.member_id,
        member.client_id,
        host,
        member.group_instance_id,
        _subscribed(group, member),
        "",
        tuple(sorted((topic, index) for topic, indexes in owned.items() for index in indexes)),
        tuple(member.protocols),
        silent_ms,
        due_ms - mono_ms if silent_ms is not None else None,
        awaited,
        _positions(read, member.client_id, host),
    )


def _subscribed(group: ClassicGroup, member: ClassicGroupMember) -> frozenset[str] | None:
    data = member.protocols.get(group.protocol or "") or next(iter(member.protocols.values()), b"")
    try:
        return decode_subscription("", bytes(data), None).topics if data else None
    except ProtocolError:
        return None


def _consumer(
    core: BrokerCore, group: ConsumerGroup, timeout_ms: int, fields: dict[str, Any], read: _Read
) -> Group:
    mono_ms = core.clock.now().mono_ms
    since_ms = group.target_epoch.timestamp_ms or None
    members = tuple(
        _consumer_member(core, group, member, timeout_ms, mono_ms, read) for member in group.members()
    )
    return Group(group.group_id, group.state.value, members, since_ms, None, **fields)


def _consumer_member(
    core: BrokerCore,
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    timeout_ms: int,
    mono_ms: int,
    read: _Read,
) -> Member:
    subscription = member.subscription
    host = subscription.client_host.removeprefix("/")
    session = group.sessions.get(member.member_id)
    if subscription.classic is not None:
        timeout_ms = subscription.classic.session_timeout_ms
    silent_ms = None if session is None else max(mono_ms - session.deadline_ms + timeout_ms, 0)
    awaited, due_ms = "", None if session is None else session.deadline_ms
    if member.current.state is MemberState.UNREVOKED_PARTITIONS:
        awaited = "revocation"
        due_ms = group.deadlines.get((REVOCATION, member.member_id), (due_ms, 0))[0]
    elif member.current.state is MemberState.STABLE and member.current.epoch < group.target_epoch.epoch:
        awaited = "heartbeat"
    owned = group.owned_partitions(member.member_id, core.topics.topic_name) or {}
    return Member(
        member.member_id,
        subscription.client_id,
        host,
        subscription.instance_id,
        subscription.topics,
        subscription.regex or "",
        tuple(sorted((topic, index) for topic, indexes in owned.items() for index in indexes)),
        (subscription.assignor,) if subscription.assignor else (),
        silent_ms,
        None if due_ms is None else due_ms - mono_ms,
        awaited,
        _positions(read, subscription.client_id, host),
    )


# -- recorded commits


def moves_back(requests: Iterable[RecordedRequest], group: str | None = None) -> dict[str, list[Back]]:
    """Return the commits that moved an offset back, by group, as far as they were recorded.

    It decodes thousands of requests, so it does not run in the broker's thread, whose clients would wait. Frames
    without the name of the group are not decoded.
    """
    named = b"" if group is None else group.encode()
    last_offsets: dict[tuple[str, str, int], int] = {}
    backs: dict[str, list[Back]] = {}
    for recorded in requests:
        if recorded.api != "OffsetCommit" or named not in recorded.frames[0]:
            continue
        request, response = recorded.request, recorded.response
        if request is None or response is None:
            continue
        refused = {
            (topic.name or topic.topic_id, part.partition_index)
            for topic in response.topics
            for part in topic.partitions
            if part.error_code
        }
        for topic in request.topics:
            name = topic.name or recorded.topic_names.get(topic.topic_id, "")
            for part in topic.partitions:
                if (topic.name or topic.topic_id, part.partition_index) in refused:
                    continue
                key = request.group_id, name, part.partition_index
                before, after = last_offsets.get(key, -1), part.committed_offset
                last_offsets[key] = after
                if after < before:
                    back = Back(key[1:], before, after, recorded.client_id, recorded.wall_ms)
                    backs.setdefault(request.group_id, []).append(back)
    return backs
