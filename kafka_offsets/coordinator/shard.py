"""Shard: one partition of the offsets topic; dispatches its records and timers to the decisions.

The same :meth:`Shard.replay` applies a record that has just become durable and a record of a log that is loaded. The
shard knows no log: it returns records in Results, and the caller replays them when they are durable.
"""

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.classic import rebalance
from kafka_offsets.coordinator.consumer import heartbeat as consumer_heartbeat
from kafka_offsets.coordinator.offsets.shapes import ShapedRecords
from kafka_offsets.coordinator.state import consumer_records, stored
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.consumer_records import ConsumerKey
from kafka_offsets.coordinator.state.result import CoordinatorRecord, Result
from kafka_offsets.coordinator.state.shard_state import REPLY_TIMER, ShardState
from kafka_offsets.coordinator.state.timers import Timer
from kafka_offsets.coordinator.state.topic_resolution import StepBudget
from kafka_offsets.logs import new_logger

logger = new_logger(__name__)


class Shard(ShardState):
    """A shard: its state, and the calls that advance it."""

    def tick(self, now: Now) -> list[Result]:
        """Run every timer that is due at `now`; afterwards the next deadline is in the future."""
        results = []
        while (timer := self.timers.pop_due(now.mono_ms)) is not None:
            try:
                results.append(self._on_timer(timer, now))
            except Exception:  # a failed timer must harm this group alone
                logger.exception("group %s: its %s timer failed", timer.group_id, timer.kind)
        return results

    def work(self, now: Now, budget: StepBudget) -> list[Result]:
        """Resolve the regular expressions of the groups in `resolving`, one after the other, within the budget."""
        results = []
        while self.resolving and budget.left > 0:
            group_id = next(iter(self.resolving))
            group = self.groups.held.get(group_id)
            result: Result | None = Result()
            try:
                if isinstance(group, ConsumerGroup):
                    result = consumer_heartbeat.resolve(self, group, now, budget)
            except Exception:  # as in `tick`
                logger.exception("group %s: its regular expressions were not resolved", group_id)
            if result is None:
                break
            del self.resolving[group_id]
            results.append(result)
        return results

    def _on_timer(self, timer: Timer, now: Now) -> Result:
        if timer.kind == REPLY_TIMER:
            replies, self.late_replies = tuple(self.late_replies), []
            return Result(replies=replies)
        group = self.groups.held.get(timer.group_id)
        if isinstance(group, ConsumerGroup):
            return consumer_heartbeat.on_timer(self, group, timer, now)
        return rebalance.on_timer(self, timer, now)

    def replay(self, key: bytes, value: bytes | None, log_offset: int, producer_id: int = -1) -> None:
        """Apply one durable record. Records of unknown types are counted and skipped.

        producer_id  the producer whose open transaction contains the record; -1 outside of a transaction
        Raises ProtocolError for a known type whose bytes do not parse.
        """
        parsed = stored.parse_key(key)
        if isinstance(parsed, stored.OffsetKey):
            self._replay_offset(parsed, value, log_offset, producer_id)
        elif isinstance(parsed, stored.GroupKey):
            value_read = None if value is None else stored.parse_group_value(value)
            rebalance.replay(self, parsed.group, value_read)
        elif isinstance(parsed, ConsumerKey):
            self._replay_consumer(parsed, key, value)
        else:
            self.unknown_records += 1
            if value is None and parsed.group is not None:
                self._forget_offsets_only(parsed.group)

    def _replay_consumer(self, parsed: ConsumerKey, key: bytes, value: bytes | None) -> None:
        """Apply a record of a consumer group.

        While loading, the latest record decides the kind of a group. Afterwards decisions do so before their records
        are durable: a record of a group whose kind has changed since is out of date and ignored.
        """
        group = self.groups.held.get(parsed.group)
        if value is not None:
            consumer_records.parse_value(parsed.type, value)
            if not isinstance(group, ConsumerGroup) and self.is_loading:
                group = self.groups.held[parsed.group] = ConsumerGroup(parsed.group)
            for consumer_group in (group, self.retired(parsed.group, ConsumerGroup)):
                if isinstance(consumer_group, ConsumerGroup):
                    consumer_group.replay(key, value)
            return
        is_gone = parsed.type == consumer_records.EPOCH
        old = self.retired(parsed.group, ConsumerGroup)
        if is_gone:
            self.forget_retired(old)
        elif old is not None:
            old.replay(key, None)
        if isinstance(group, ConsumerGroup):
            group.replay(key, None)
            if is_gone and self.is_loading:
                del self.groups.held[parsed.group]
        elif is_gone:
            self._forget_offsets_only(parsed.group)

    def _forget_offsets_only(self, group_id: str) -> None:
        """Remove a group that had only offsets: it was of an unsupported kind, and has been deleted."""
        if self.offsets.has_group(group_id):
            return
        group = self.groups.held.get(group_id)
        if isinstance(group, ClassicGroup) and group.durable is None and group.is_provisional:
            del self.groups.held[group_id]

    def replay_written(self, record: CoordinatorRecord, log_offset: int) -> None:
        """Apply one of our own records that has just become durable, as :meth:`replay` does with its bytes."""
        _, value, key, entry = record
        if key is None:
            self.replay(record.key, value, log_offset)
            return
        group, topic, partition = key
        if entry is None:
            self._forget_offset(stored.OffsetKey(group, topic, partition))
            return
        self.offsets.put(group, topic, partition, entry, log_offset)
        self.unchanged.pop(group, None)

    def replay_shaped(self, records: ShapedRecords, log_offset: int) -> int:
        """Apply a commit that has just become durable, as `replay_written` does with each of its records.

        Return the log offset after its last record.
        """
        self.unchanged.pop(records.group, None)
        return records.put_into(self.offsets, log_offset)

    def _replay_offset(
        self, key: stored.OffsetKey, value: bytes | None, log_offset: int, producer_id: int
    ) -> None:
        if value is None:
            self._forget_offset(key)
            return
        entry = stored.parse_offset_value(value, log_offset)
        if producer_id == -1:
            self.offsets.put(*key, entry)
            self.unchanged.pop(key.group, None)
            return
        if key.group not in self.groups and key.group not in self.retiring:
            self.groups.held[key.group] = ClassicGroup(key.group)
        self.pending.setdefault(producer_id, {})[key] = entry

    def _forget_offset(self, key: stored.OffsetKey) -> None:
        """Remove an offset; a deletion also removes the pending offsets of open transactions."""
        self.unchanged.pop(key.group, None)
        if self.offsets.remove(*key):
            self.deletions += 1
            self.groups.keep_empty(key.group)
        for offsets in self.pending.values():
            offsets.pop(key, None)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a transaction marker: its offsets take effect, or are dropped.

        An offset stays if it was written outside the transaction after the transaction's own (KIP-98,
        OffsetMetadataManager.replayEndTransactionMarker).
        """
        for key, entry in self.pending.pop(producer_id, {}).items():
            if not committed:
                continue
            current = self.offsets.get(*key)
            if current is None or current.log_offset < entry.log_offset:
                self.offsets.put(*key, entry)
                self.unchanged.pop(key.group, None)
        if self.ended:
            for callback in self.ended.pop(producer_id, ()):
                callback()

    def finish_loading(self, now: Now) -> list[Result]:
        """Activate the loaded groups: each member gets a fresh session. Call once, after the last replay."""
        self.is_loading = False
        self.groups.release_simple()
        for group in self.groups.held.values():
            if isinstance(group, ConsumerGroup):
                consumer_heartbeat.finish_loading(self, group, now)
        return rebalance.finish_loading(self, now)

    def unload(self) -> Result:
        """Drop all groups, because this broker is no longer their coordinator."""
        for group in self.groups.held.values():
            if isinstance(group, ConsumerGroup):
                group.give_up()
        self.timers.clear()
        self.resolving.clear()
        return rebalance.unload(self)
