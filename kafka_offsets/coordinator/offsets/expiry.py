"""Expiration: offsets past their retention, empty groups, offsets of deleted topics.

Each kind is a generator over one shard. A step takes about a millisecond, however many offsets there are. A step is a
decision like that of a request: the caller appends its records, and takes the next step when they have taken effect or
were refused. A step skips the offsets and groups of decisions whose records are not durable yet: a tombstone must not
follow a commit that its decision did not see.

An offset expires at its own expiry time (commits of version 2 to 4 could set one). Without one it expires
`offsets.retention.minutes` after a time that its group determines (KIP-211, KIP-496). Offsets stay if the group
subscribes to their topic, or if an open transaction is about to replace them. A group that is empty and has no offsets
is deleted at once.

When a topic is deleted, all its earlier offsets are deleted too, including those of open transactions and of
subscribers. Offsets of a topic that is unknown for any other reason stay. A tombstone deletes all offsets of its
partition. So if the topic has been created again, and an open transaction has an offset of the new topic for the same
partition, the old offset waits for the end of that transaction. (Kafka deletes both.)

Source: GroupCoordinatorShard.cleanupGroupMetadata, OffsetMetadataManager.cleanupExpiredOffsets and
onPartitionsDeleted, OffsetExpirationConditionImpl of Kafka 4.3.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.groups import Group
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.coordinator.state.pages import PAGE_PARTITIONS
from kafka_offsets.coordinator.state.result import CoordinatorRecord, Result
from kafka_offsets.coordinator.state.shard_state import ShardState
from kafka_offsets.incidents import EXPIRED

_STEP = 400
"""Cost limit of a step: an offset costs 1, a deleted one 3; a page is never split between two steps."""

_PER_TOMBSTONE = 2
_PER_GROUP = 1
_PER_GROUP_WITHOUT = 0.05
"""A group that has no offset of a deleted topic."""


@dataclass(frozen=True)
class UnderWay:
    """The offsets and groups of records that are decided and have not taken effect yet."""

    offsets: frozenset[tuple[str, str, int]] = frozenset()
    groups: frozenset[str] = frozenset()


NOTHING = UnderWay()


class ExpiryStep(NamedTuple):
    """One step: its decision, and how many offsets that deletes. Without records there is nothing to append."""

    result: Result
    offsets: int


ExpirySteps = Iterator[ExpiryStep]


@dataclass
class _ExpiryDraft:
    """Collects the records of one step."""

    shard: ShardState
    under_way: UnderWay
    records: list[CoordinatorRecord] = field(default_factory=list)
    undos: list[Callable[[], None]] = field(default_factory=list)
    gone: set[tuple[str, str, int]] = field(default_factory=set)
    cost: float = 0

    def bury(self, group_id: str, topic: str, partition: int) -> None:
        """Delete an offset."""
        self.records.append(stored.offset_tombstone(group_id, topic, partition))
        self.gone.add((group_id, topic, partition))
        self.cost += _PER_TOMBSTONE

    def step(self) -> ExpiryStep:
        """Return the collected tombstones, and how many offsets they delete."""
        undos = self.undos

        def undo() -> None:
            for revert in reversed(undos):
                revert()

        return ExpiryStep(Result(tuple(self.records), undo=undo), len(self.gone))


# -- retention


def expire(shard: ShardState, now: Now, retention_ms: int, under_way: Callable[[], UnderWay]) -> ExpirySteps:
    """Visit every offset and group once, and delete those that have expired at `now`.

    retention_ms  offsets.retention.minutes
    under_way     what has not taken effect when a step begins
    """
    draft = _ExpiryDraft(shard, under_way())
    for group_id in list(shard.groups):
        for topic, number in _pages(shard, group_id):
            if draft.cost >= _STEP:
                yield _counted(draft, now)
                draft = _ExpiryDraft(shard, under_way())
            _expire_page(draft, group_id, topic, number, now, retention_ms)
        draft.cost += _PER_GROUP
        if draft.cost >= _STEP:
            yield _counted(draft, now)
            draft = _ExpiryDraft(shard, under_way())
        _expire_group(draft, group_id)
    yield _counted(draft, now)


def _counted(draft: _ExpiryDraft, now: Now) -> ExpiryStep:
    step = draft.step()
    for group_id in {group_id for group_id, _, _ in draft.gone}:
        draft.shard.incidents.add(EXPIRED, now.wall_ms, group=group_id)
    draft.shard.meters.offset_expirations += step.offsets
    return step


def _pages(shard: ShardState, group_id: str) -> Iterator[tuple[str, int]]:
    """Yield topic and number of each page of a group; the table may change in the meantime."""
    for topic in shard.offsets.topics(group_id):
        for number in shard.offsets.page_numbers(group_id, topic):
            yield topic, number


def _expire_page(
    draft: _ExpiryDraft, group_id: str, topic: str, number: int, now: Now, retention_ms: int
) -> None:
    shard, under_way = draft.shard, draft.under_way
    group = shard.groups.peek(group_id)
    if group is None or group.retention_start_ms(0) is None or group.is_subscribed_to(topic):
        draft.cost += _PER_GROUP
        return
    items = shard.offsets.page_items(group_id, topic, number)
    draft.cost += len(items)
    for partition, entry in items:
        if not _is_expired(group, entry, now.wall_ms, retention_ms):
            continue
        if (group_id, topic, partition) in under_way.offsets:
            continue
        if not shard.has_pending_offset(group_id, topic, partition):
            draft.bury(group_id, topic, partition)


def _is_expired(group: Group, entry: OffsetAndMetadata, wall_ms: int, retention_ms: int) -> bool:
    if entry.expire_timestamp != -1:
        return wall_ms >= entry.expire_timestamp
    start_ms = group.retention_start_ms(entry.commit_timestamp)
    return start_ms is not None and wall_ms - start_ms >= retention_ms


def _expire_group(draft: _ExpiryDraft, group_id: str) -> None:
    """Delete a group that has no members, and no offsets after this step."""
    shard = draft.shard
    group = shard.groups.peek(group_id)
    if group is None or not group.is_empty or group_id in draft.under_way.groups:
        return
    left = ((group_id, topic, partition) for topic, partition, _ in shard.offsets.items(group_id))
    if any(offset not in draft.gone for offset in left) or shard.has_open_transaction(group_id):
        return
    group = shard.groups[group_id]
    draft.undos.append(shard.take_out(group))
    draft.records += group.tombstones()
    draft.cost += _PER_TOMBSTONE


# -- deleted topics


def forget_topic(
    shard: ShardState, topic: str, before: int, under_way: Callable[[], UnderWay], left: set[stored.OffsetKey]
) -> ExpirySteps:
    """Delete all offsets of a topic that has just been deleted.

    before     the log offset of the first record that was decided after the deletion: from there on offsets belong to
               a new topic of the same name
    under_way  what has not taken effect when a step begins
    left       receives the keys that cannot be deleted yet: call `forget_left` with them when the transactions of
               `waits_for` have ended, or what was under way has taken effect
    """
    draft = _ExpiryDraft(shard, under_way())
    # Offsets of open transactions first: a marker between two steps turns them into committed offsets.
    for offsets in list(shard.pending.values()):
        for key in list(offsets):
            if draft.cost >= _STEP:
                yield draft.step()
                draft = _ExpiryDraft(shard, under_way())
            if key.topic == topic:
                _forget(draft, key, before, left)
    for group_id in shard.offsets.groups():
        if not shard.offsets.has_topic(topic):
            break
        draft.cost += _PER_GROUP_WITHOUT
        for number in shard.offsets.page_numbers(group_id, topic):
            if draft.cost >= _STEP:
                yield draft.step()
                draft = _ExpiryDraft(shard, under_way())
            for partition, _ in shard.offsets.page_items(group_id, topic, number):
                _forget(draft, stored.OffsetKey(group_id, topic, partition), before, left)
        if draft.cost >= _STEP:
            yield draft.step()
            draft = _ExpiryDraft(shard, under_way())
    yield draft.step()


def forget_left(
    shard: ShardState, before: int, under_way: Callable[[], UnderWay], left: set[stored.OffsetKey]
) -> ExpirySteps:
    """Retry the offsets in `left` of `forget_topic`; afterwards `left` holds those that still cannot be deleted."""
    keys = list(left)
    left.clear()
    draft = _ExpiryDraft(shard, under_way())
    for key in keys:
        if draft.cost >= _STEP:
            yield draft.step()
            draft = _ExpiryDraft(shard, under_way())
        _forget(draft, key, before, left)
    yield draft.step()


def waits_for(shard: ShardState, left: Collection[stored.OffsetKey]) -> set[int]:
    """Return the ids of producers whose open transactions have offsets of these partitions."""
    return {
        producer_id for producer_id, offsets in shard.pending.items() if any(key in offsets for key in left)
    }


def _forget(draft: _ExpiryDraft, key: stored.OffsetKey, before: int, left: set[stored.OffsetKey]) -> None:
    """Delete an offset, unless it was written since, or its tombstone would delete another one that was.

    If the committed offset was written since, no older one can return: it is later than the offset of any open
    transaction here. If only a pending offset was written since, its transaction may abort, and an older one would
    remain.
    """
    draft.cost += 1
    shard = draft.shard
    committed = shard.offsets.get(*key)
    if committed is not None and committed.log_offset >= before:
        return
    pending = [offsets[key] for offsets in shard.pending.values() if key in offsets]
    if key in draft.under_way.offsets or any(entry.log_offset >= before for entry in pending):
        if committed is not None or any(entry.log_offset < before for entry in pending):
            left.add(key)
    elif (committed is not None or pending) and key not in draft.gone:
        draft.bury(key.group, key.topic, key.partition)


assert 3 * PAGE_PARTITIONS <= _STEP, "a step has room for a page"
