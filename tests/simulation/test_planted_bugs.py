"""The simulation finds bugs that are put in on purpose: how many seeds it takes is printed."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_offsets.broker.groups.runtime import HostedShard
from kafka_offsets.broker.groups.shards import Shards
from kafka_offsets.broker.partition import log_cleaner
from kafka_offsets.coordinator.consumer.reconciliation import Step
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state.classic_group import ClassicGroup
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.consumer_records import Current
from kafka_offsets.coordinator.state.result import Result
from kafka_offsets.storage.cleaner import offset_map
from tests.simulation.planted import Plant, assert_found, assert_shrinks
from tests.simulation.simulation import SIMULATION


def reply_before_the_append(patch: pytest.MonkeyPatch) -> None:
    decide = HostedShard.decide

    def answered_at_once(self: HostedShard, result: Any) -> None:
        if isinstance(result, Result) and result.records:
            for reply in result.replies:
                self._sender.respond(reply.context, reply.response)
            result = result._replace(replies=())
        decide(self, result)

    patch.setattr(HostedShard, "decide", answered_at_once)


def reply_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    append = Shards.append

    def not_waiting(self: Shards, now: Any) -> None:
        dirty = [*self.dirty]
        append(self, now)
        for hosted in dirty:
            hosted.durable_offset = hosted.log.log_end_offset
            hosted.take_effect()

    patch.setattr(Shards, "append", not_waiting)


def generation_not_bumped(patch: pytest.MonkeyPatch) -> None:
    start = ClassicGroup.start_generation

    def kept_when_all_stay(self: ClassicGroup, now: Any) -> None:
        start(self, now)
        if self.generation > 1 and len(self.members) > 1:
            self.generation -= 1

    patch.setattr(ClassicGroup, "start_generation", kept_when_all_stay)


def member_epoch_not_bumped(patch: pytest.MonkeyPatch) -> None:
    advance = Step._advance

    def behind(self: Step, epoch: int) -> Current:
        moved = advance(self, epoch)
        is_kept = moved.epoch > self.current.epoch > 0 and moved.assigned != self.current.assigned
        return replace(moved, epoch=self.current.epoch) if is_kept else moved

    patch.setattr(Step, "_advance", behind)


def partition_given_before_it_is_released(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "is_held", lambda *_: False)


def aborted_offsets_count(patch: pytest.MonkeyPatch) -> None:
    end = Shard.end_transaction
    patch.setattr(
        Shard, "end_transaction", lambda self, producer_id, **_: end(self, producer_id, committed=True)
    )


def tombstone_revived_by_replay(patch: pytest.MonkeyPatch) -> None:
    replay = Shard._replay_offset

    def deaf_to_deletions(self: Shard, key: Any, value: bytes | None, *rest: Any) -> None:
        if value is not None or not self.is_loading:
            replay(self, key, value, *rest)

    patch.setattr(Shard, "_replay_offset", deaf_to_deletions)


def tombstone_revived_by_compaction(patch: pytest.MonkeyPatch) -> None:
    put = offset_map._put_plain

    def the_first_one_counts(keys: dict[bytes, int], *rest: Any) -> None:
        found: dict[bytes, int] = {}
        put(found, *rest)
        for key, offset in found.items():
            keys.setdefault(key, offset)

    patch.setattr(offset_map, "_put_plain", the_first_one_counts)
    patch.setattr(log_cleaner, "load_columns", lambda: None)  # else numpy, if loaded by others, makes the map


@pytest.mark.parametrize(
    ("plant", "within"),
    [
        (reply_before_the_append, 60),
        (reply_before_the_sync, 60),
        (generation_not_bumped, 20),
        (member_epoch_not_bumped, 20),
        (partition_given_before_it_is_released, 60),
        (aborted_offsets_count, 60),
        (tombstone_revived_by_replay, 60),
        (tombstone_revived_by_compaction, 300),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_bug_is_found(plant: Plant, within: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(plant, SIMULATION, within, monkeypatch)


def test_a_failure_shrinks_to_few_steps_that_show_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    generation_not_bumped(monkeypatch)
    assert_shrinks(SIMULATION, 20, 25)
