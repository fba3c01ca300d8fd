"""Source: a description of OffsetManager, the broker's module for committed offsets.

Served in full; what it calls compact() is the round of expiry, and its log merge thread the cleaner.
"""

import pytest

from kafka_offsets.coordinator.state import stored
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.protocol.records import batch_headers
from kafka_offsets.testing import Cluster
from tests.broker.groups.test_shard_loader import LateBackground, offset_fetch, starting, stopped_files
from tests.claims.claimed import CoreClient, after, ask_node, broker, compacted, expired, offsets_topic


def java_hash(text: str) -> int:
    """String.hashCode over UTF-16 code units, signed."""
    value = 0
    data = text.encode("utf-16-be")
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2])) % 2**32
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize(
    "group", ["", "g", "billing", "группа", "消费者", "𝄞 clef", "polygenelubricants", "a" * 300]
)
def test_a_groups_partition_is_the_absolute_hash_of_its_name(group: str) -> None:
    """2, partitionFor: abs(hashCode) modulo the partitions, over UTF-16; of the smallest integer abs is 0."""
    hashed = java_hash(group)
    absolute = 0 if hashed == -(2**31) else abs(hashed)
    for count in (1, 7, 50):
        assert partition_for(group, count) == absolute % count


def test_there_is_a_name_whose_hash_has_no_absolute_value() -> None:
    """2, partitionFor: Utils.abs, not Math.abs, which stays negative here."""
    assert java_hash("polygenelubricants") == -(2**31)
    assert partition_for("polygenelubricants", 50) == 0


def test_a_commit_is_logged_and_cached() -> None:
    """1, saving: the message goes to the log, and putOffset puts it into the cache."""
    core = broker()
    CoreClient(core).commit("g", {("t", 1): 5})
    ((key, _),) = offsets_topic(core)
    assert key == stored.OffsetKey("g", "t", 1)
    assert core.shards.committed("g")["t", 1].offset == 5


def test_offsets_of_named_partitions_are_read() -> None:
    """2, getOffsets with partitions: those, whether there or not."""
    client = CoreClient(broker())
    client.commit("g", {("t", 0): 1, ("t", 1): 2})
    asked = [messages.OffsetFetchRequest.Topic("t", [1, 2])]
    (topic,) = client.call(messages.OffsetFetchRequest("g", asked), 5).topics
    assert [(p.committed_offset, p.error_code) for p in topic.partitions] == [(2, 0), (-1, 0)]


def test_all_offsets_of_a_group_are_read() -> None:
    """2, getOffsets without partitions: all of this group, none of another."""
    client = CoreClient(broker())
    client.commit("g", {("t", 0): 1, ("t", 1): 2})
    client.commit("h", {("t", 2): 3})
    assert client.committed("g") == {("t", 0): 1, ("t", 1): 2}


def test_offsets_that_are_being_loaded_cannot_be_read_yet() -> None:
    """2, getOffsets while loading: an error for each partition asked."""
    core = starting(stopped_files(), LateBackground())
    assert offset_fetch(core, "s").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    asked = [messages.OffsetFetchRequest.Topic("t", [0, 1])]
    (topic,) = CoreClient(core).call(messages.OffsetFetchRequest("s", asked), 1).topics
    assert {p.error_code for p in topic.partitions} == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


def test_only_the_broker_that_leads_the_groups_partition_answers() -> None:
    """2, getOffsets, leaderIsLocal: the others are not the offset manager of this group."""
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("t", 1)
        cluster.commit("g", {("t", 0): 1})
        home = cluster.leader("__consumer_offsets", partition_for("g", 50))
        request = messages.OffsetFetchRequest("g", [messages.OffsetFetchRequest.Topic("t", [0])])
        assert ask_node(cluster, home, request, 5).error_code == 0
        assert ask_node(cluster, 3 - home, request, 5).error_code == ErrorCode.NOT_COORDINATOR


def test_a_broker_that_does_not_serve_the_partition_answers_with_an_error() -> None:
    """2, getOffsets: what is said elsewhere is also said where the partition of the group has no log to serve."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1})
    for hosted in core.runtime.all_shards():
        hosted.give_up()
    assert offset_fetch(core, "g").error_code == ErrorCode.NOT_COORDINATOR


def test_compact_expires_offsets_that_were_not_updated_for_long() -> None:
    """3, compact: stale offsets leave the cache and get tombstones; those that are updated stay."""
    core = broker(offsets_retention_minutes=1)
    client = CoreClient(core)
    client.commit("stale", {("t", 0): 1, ("t", 1): 1})
    client.commit("kept", {("t", 0): 1})
    after(core, 59_000)
    client.commit("kept", {("t", 0): 2})
    after(core, 1_000)
    assert expired(core) == 2
    assert (core.shards.committed("stale"), set(core.shards.committed("kept"))) == ({}, {("t", 0)})
    tombstones = {key for key, value in offsets_topic(core) if value is None}
    assert tombstones == {
        stored.OffsetKey("stale", "t", 0),
        stored.OffsetKey("stale", "t", 1),
        stored.GroupKey("stale"),
    }


def test_tombstones_are_appended_to_the_partitions_of_their_groups() -> None:
    """3, compact: they are grouped by the partition that their group hashes to."""
    core = broker(offsets_retention_minutes=1, offsets_topic_num_partitions=3)
    groups = [f"g{number}" for number in range(9)]
    for group in groups:
        CoreClient(core).commit(group, {("t", 0): 1})
    after(core, 60_000)
    assert expired(core) == len(groups)
    for partition in range(3):
        gone = {key.group for key, value in offsets_topic(core, partition) if value is None}
        assert gone == {group for group in groups if partition_for(group, 3) == partition}


@pytest.mark.parametrize("codec", [0, 1])
def test_tombstones_are_compressed_where_configured(codec: int) -> None:
    """3, compact: they are appended with the codec of the offsets topic."""
    core = broker(offsets_retention_minutes=1, offsets_topic_compression_codec=codec)
    CoreClient(core).commit("g", {("t", 0): 1})
    after(core, 60_000)
    assert expired(core) == 1
    found = core.topics.partition("__consumer_offsets", 0)
    assert found is not None
    headers = [header for batch in found.log.batches() for _, header in batch_headers(batch.data)]
    assert headers[-1].compression == codec


def test_compaction_keeps_tombstones_of_expired_offsets_and_the_latest_record_of_others() -> None:
    """3, compact, and beginning, (3): the latest offset is kept, which controls the size of the topic."""
    core = broker(offsets_retention_minutes=1, offsets_retention_check_interval_ms=2**62)
    client = CoreClient(core)
    client.commit("stale", {("t", 0): 1})
    after(core, 60_000)
    for offset in range(5):
        client.commit("kept", {("t", 0): offset})
    assert expired(core) == 1
    assert len(offsets_topic(core)) == 8
    left = compacted(core)
    assert {key for key, value in left if value is None} == {
        stored.OffsetKey("stale", "t", 0),
        stored.GroupKey("stale"),
    }
    ((key, value),) = [(key, value) for key, value in left if value is not None]
    assert (key, stored.parse_offset_value(value, 0).offset) == (stored.OffsetKey("kept", "t", 0), 4)


def test_compact_is_executed_regularly() -> None:
    """Beginning: a scheduled task."""
    core = broker(offsets_retention_minutes=1, offsets_retention_check_interval_ms=10_000)
    CoreClient(core).commit("g", {("t", 0): 1})
    after(core, 59_999)
    assert core.shards.committed("g")
    after(core, 10_001)
    assert not core.shards.committed("g")
