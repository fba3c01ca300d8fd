"""Source: KIP-447, producers that scale with exactly-once semantics.

Not served, and so without a test: transactions, and with them TxnOffsetCommit version 3 with member and generation, the
fencing of zombies by it, and the shorter transaction timeout. What is served are the reads beside offsets of open
transactions, which a log that Kafka wrote may hold.
"""

import pytest

from kafka_offsets.coordinator import offsets, stored
from kafka_offsets.coordinator.offset_table import OffsetAndMetadata
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.claims.claimed import CoreClient, broker
from tests.coordinator.group_world import TOPIC, World

UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
PRODUCER = 7


def with_open_transaction() -> World:
    """A group with offset 1 committed, and 5 by a transaction that has not ended."""
    world = World()
    world.commit()
    record = stored.offset_record("g", TOPIC, 0, OffsetAndMetadata(5, -1, "", 0, -1, bytes(16)))
    world.shard.replay(record.key, record.value, 10, PRODUCER)
    return world


def fetched(world: World, *, require_stable: bool) -> tuple[int, int]:
    (topic,) = offsets.fetch(world.shard, "g", [(TOPIC, b"", [0])], 7, require_stable=require_stable)
    (partition,) = topic.partitions
    return partition.error, -1 if partition.entry is None else partition.entry.offset


def test_a_reader_of_stable_offsets_is_told_of_an_open_transaction() -> None:
    """Proposed changes, pending offsets: UNSTABLE_OFFSET_COMMIT, upon which consumers wait and ask again."""
    assert fetched(with_open_transaction(), require_stable=True) == (UNSTABLE, -1)


def test_others_read_what_was_committed_before() -> None:
    """Compatibility: without the flag the answer is as ever."""
    assert fetched(with_open_transaction(), require_stable=False) == (0, 7)


@pytest.mark.parametrize(("committed", "offset"), [(True, 5), (False, 7)])
def test_when_the_transaction_has_ended_its_outcome_is_read(committed: bool, offset: int) -> None:
    """Proposed changes: a marker makes the offsets stable, committed or not."""
    world = with_open_transaction()
    world.shard.end_transaction(PRODUCER, committed=committed)
    assert fetched(world, require_stable=True) == (0, offset)


def test_the_flag_is_part_of_version_7() -> None:
    """Public interfaces: require_stable in OffsetFetch from version 7 on."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1})
    asked = messages.OffsetFetchRequest("g", [messages.OffsetFetchRequest.Topic("t", [0])])
    asked.require_stable = True
    (topic,) = client.call(asked, 7).topics
    assert topic.partitions[0].committed_offset == 1
    with pytest.raises(ValueError, match="require_stable"):
        messages.encode(asked, 6)
