"""Source: the offset API proposal: OffsetCommit and OffsetFetch as requests, and a log after them.

Not served, and so without a test:

- phase 2: all replicas keep the table: those of Kafka keep none, and neither do followers here.
- phase 2: a transaction id and a size in each message tell partial writes: a commit is one record batch, whose checksum
  tells them; the tests on partial writes show that.
"""

import itertools
import threading
import tracemalloc

import pytest

from kafka_offsets import Broker
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.client import commits
from kafka_offsets.client.connection import parse_address
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata, OffsetTable
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.testing import Cluster
from tests.claims.claimed import CoreClient, ask_node, broker, compacted, killed, offsets_topic
from tests.client.consumers import consumers, read
from tests.conftest import REPOSITORY
from tests.drivers.core import commit_request
from tests.drivers.raw_files import cut, raw, replace

LOG = "__consumer_offsets-0/00000000000000000000.log"
MISMATCH = ErrorCode.COMMITTED_OFFSET_MISMATCH


@pytest.mark.parametrize("version", [0, 1])
def test_versions_0_and_1_commit_and_fetch(version: int) -> None:
    """Phase 1: both requests as written there, with a timestamp of the client's own in version 1."""
    core = broker()
    client = CoreClient(core)
    request = commit_request(core, "g", {("t", 0): 3, ("t", 1): 4}, version)
    if version == 1:
        request.topics[0].partitions[0].commit_timestamp = 1234
    (topic,) = client.call(request, version).topics
    assert [p.error_code for p in topic.partitions] == [0, 0]
    asked = [messages.OffsetFetchRequest.Topic("t", [0, 1])]
    (topic,) = client.call(messages.OffsetFetchRequest("g", asked), version).topics
    assert [(p.committed_offset, p.error_code) for p in topic.partitions] == [(3, 0), (4, 0)]
    if version == 1:
        assert core.shards.committed("g")["t", 0].commit_timestamp == 1234


def test_a_consumer_that_crashes_continues_at_its_last_commit() -> None:
    """Phase 1, OffsetCommit: "the position the consumer will pick up from if it crashes before its next commit()"."""
    with Broker() as running, consumers(running.bootstrap_servers) as make:
        running.create_topic("t", 1)
        running.produce("t", [str(number) for number in range(9)])
        crashed = make("t", 0, max_poll_records=3, enable_auto_commit=False)
        assert [each.offset for each in read(crashed, 3)] == [0, 1, 2]
        crashed.commit(True)
        assert [each.offset for each in read(crashed, 3)] == [3, 4, 5]
        assert read(make("t", 0, max_poll_records=3), 3)[0].offset == 3


def test_a_commit_after_every_message_is_fine() -> None:
    """Requirement 1: a high write load. 2,000 commits of one partition, of which only the last counts."""
    core = broker()
    client = CoreClient(core)
    for offset in range(2000):
        client.send((commit_request(core, "g", {("t", 0): offset}, 8), 8))
        if offset % 50 == 49:
            core.end_turn()
            assert len(client.take()) == 50
    assert client.committed("g") == {("t", 0): 1999}


def test_what_was_acknowledged_survives_a_crash() -> None:
    """Requirement 2: a written offset is not lost with the server."""
    core = broker()
    CoreClient(core).commit("g", {("t", 0): 1, ("t", 1): 2})
    assert CoreClient(killed(core)).committed("g") == {("t", 0): 1, ("t", 1): 2}


def test_a_read_returns_the_last_written_value() -> None:
    """Requirement 3: no eventual consistency; whoever reads, on whatever connection."""
    core = broker()
    writer, reader = CoreClient(core), CoreClient(core)
    for offset in (5, 3, 4):
        writer.commit("g", {("t", 0): offset})
        assert reader.committed("g") == writer.committed("g") == {("t", 0): offset}


@pytest.mark.slow
def test_an_entry_takes_at_most_64_bytes() -> None:
    """Requirement 4: 64 bytes for group, topic, partition and offset, names shared."""
    entry = OffsetAndMetadata(1, -1, "", 1_700_000_000_000, -1, bytes(range(16)), 1)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        table = OffsetTable()
        for group in range(400):
            name = f"group-{group}"
            for partition in range(50):
                table.put(name, "topic", partition, entry)
        per_entry = (tracemalloc.get_traced_memory()[0] - before) / len(table)
    finally:
        tracemalloc.stop()
    assert per_entry <= 64


@pytest.mark.slow
def test_a_commit_of_several_partitions_is_in_the_log_completely_or_not_at_all() -> None:
    """Requirement 5: a crash at any byte of the write leaves both offsets or none, and what was there before counts."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1, ("t", 1): 1})
    files = core.directory.files
    assert isinstance(files, MemoryFiles)
    before = len(raw(files, LOG))
    client.commit("g", {("t", 0): 2, ("t", 1): 2})
    whole = raw(files, LOG)
    seen = set()
    for size in range(before, len(whole) + 1):
        left = MemoryFiles.copy_of(files)
        replace(left, LOG, whole[:size])
        seen.add(tuple(CoreClient(broker(left)).committed("g").items()))
    assert seen == {tuple({("t", 0): n, ("t", 1): n}.items()) for n in (1, 2)}


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_commit_fails_for_all_partitions_or_for_none_where_configured(is_whole: bool) -> None:
    """Requirement 5: it should fail for both partitions or succeed for both. Kafka commits those that it can."""
    client = CoreClient(broker(offsets_commit_all_or_none=is_whole))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    other = ErrorCode.OPERATION_NOT_ATTEMPTED if is_whole else 0
    assert client.commit("g", {("t", 0): 1, ("missing", 0): 1}) == {("t", 0): other, ("missing", 0): unknown}
    assert client.committed("g") == ({} if is_whole else {("t", 0): 1})


def test_a_partial_write_never_makes_compaction_delete_the_right_value() -> None:
    """Phase 2, nuances: a torn commit is cut off before anything is cleaned, so the value before it is the last one."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1, ("t", 1): 1})
    files = core.directory.files
    assert isinstance(files, MemoryFiles)
    client.commit("g", {("t", 0): 2, ("t", 1): 2})
    torn = MemoryFiles.copy_of(files)
    cut(torn, LOG, -1)
    later = broker(torn)
    assert [value is not None for _, value in offsets_topic(later)] == [True, True]
    CoreClient(later).commit("h", {("t", 0): 7})
    kept_keys = [key for key, _ in compacted(later)]
    assert kept_keys == [stored.OffsetKey(*each) for each in (("g", "t", 0), ("g", "t", 1), ("h", "t", 0))]
    assert CoreClient(killed(later)).committed("g") == {("t", 0): 1, ("t", 1): 1}


def test_a_refused_commit_changes_nothing_in_memory() -> None:
    """Phase 2, nuances: no answer before the log has it, and an unsuccessful commit leaves the table as it is."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1})
    found = core.topics.partition("__consumer_offsets", 0)
    assert found is not None
    found.log.close()
    assert client.commit("g", {("t", 0): 2}) == {("t", 0): ErrorCode.NOT_COORDINATOR}
    assert client.committed("g") == {("t", 0): 1}


@pytest.mark.slow
def test_a_commit_of_many_offsets_is_read_completely() -> None:
    """Phase 2, nuances: the table takes the updates of a commit at once; a reader sees all of them or none."""
    count = 3000  # so many that a fetch is answered in several steps
    with Broker() as running:
        running.create_topic("t", count)
        address = parse_address(running.bootstrap_servers)
        stop = threading.Event()

        def write() -> None:
            with Coordinator(address, "g") as writer:
                for offset in itertools.count(1):
                    writer.commit({("t", partition): offset for partition in range(count)}, {})
                    if stop.is_set():
                        return

        running.commit("g", {("t", partition): 0 for partition in range(count)})
        writing = threading.Thread(target=write)
        writing.start()
        seen: set[int] = set()
        try:
            with Coordinator(address, "g") as reader:
                while len(seen) < 10:
                    offsets = {found.offset for found in reader.committed().values()}
                    assert len(offsets) == 1
                    seen |= offsets
        finally:
            stop.set()
            writing.join()


def test_a_savvy_client_hashes_the_group_itself() -> None:
    """Phase 2: with the hash that brokers use a client knows the partition, and so the broker, without asking."""
    core = broker(offsets_topic_num_partitions=50)
    CoreClient(core).commit("billing", {("t", 0): 1})
    assert [key.group for key, _ in offsets_topic(core, partition_for("billing", 50))] == ["billing"]


def test_groups_are_spread_over_brokers_by_that_hash() -> None:
    """Requirement 1 and phase 2: writes scale with the brokers; the one that leads the partition takes the commit."""
    with Cluster({"offsets.topic.num.partitions": 8}, brokers=2) as cluster:
        cluster.create_topic("t", 1)
        groups = [f"g{number}" for number in range(8)]
        for group in groups:
            cluster.commit(group, {("t", 0): 1})
        homes = {group: cluster.leader("__consumer_offsets", partition_for(group, 8)) for group in groups}
        assert set(homes.values()) == {1, 2}
        partitions = [messages.OffsetCommitRequest.Partition(0, 2)]
        topics = [messages.OffsetCommitRequest.Topic("t", partitions=partitions)]
        for group, home in homes.items():
            made = messages.OffsetCommitRequest(group, topics=topics)
            for node, error in ((home, 0), (3 - home, ErrorCode.NOT_COORDINATOR)):
                (topic,) = ask_node(cluster, node, made, 7).topics
                assert topic.partitions[0].error_code == error


def test_an_offset_is_updated_if_the_current_one_is_the_expected_one() -> None:
    """Open questions, optimistic locking: update to x iff the current offset is y."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 5})
    for expected, error in ((4, MISMATCH), (5, 0), (5, MISMATCH)):
        request = commit_request(core, "g", {("t", 0): 6}, 8)
        conditions.put(request.topics[0].partitions[0], expected)
        assert client.call(request, 8).topics[0].partitions[0].error_code == error
    assert client.committed("g") == {("t", 0): 6}


@pytest.mark.parametrize("accepted", [False, True])
def test_accepting_commits_for_unknown_topics_is_configured(accepted: bool) -> None:
    """Open questions: offsets of topics that are not in this cluster. Kafka refuses them."""
    client = CoreClient(broker(offsets_commit_unknown_topics=accepted))
    error = 0 if accepted else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    places = [("elsewhere", 3), ("t", 99)]
    assert client.commit("mirror", dict.fromkeys(places, 8)) == dict.fromkeys(places, error)
    assert client.committed("mirror") == (dict.fromkeys(places, 8) if accepted else {})


def test_the_errors_are_enumerated() -> None:
    """Open questions, error conditions: docs/commits.md names each code that a commit is answered here."""
    page = (REPOSITORY / "docs" / "commits.md").read_text(encoding="utf-8")
    for code in (0, 3, 12, 14, 16, 22, 25, 27, 29, 42, 55, 69, 82, 100, -1, 10_000):
        assert f"| {code} | {ErrorCode(code).name} |" in page


def test_any_client_stores_offsets_without_being_a_member() -> None:
    """Integration with clients: the requests stand for themselves; no group needs to be joined."""
    client = CoreClient(broker())
    assert client.commit("tool", {("t", 0): 1}) == {("t", 0): 0}
    assert client.committed("tool") == {("t", 0): 1}


def test_the_offsets_topic_is_cleaned_by_key() -> None:
    """Phase 2: a key-based cleaner removes older updates of the offset log."""
    core = broker()
    client = CoreClient(core)
    for offset in range(5):
        client.commit("g", {("t", 0): offset, ("t", 1): 10 + offset})
    topic = core.topics.get("__consumer_offsets")
    assert topic is not None and topic.configs["cleanup.policy"] == "compact"
    assert Config.load({}).log_cleaner_enable
    assert len(offsets_topic(core)) == 10
    left = {key: stored.parse_offset_value(value or b"", 0).offset for key, value in compacted(core)}
    assert left == {stored.OffsetKey("g", "t", 0): 4, stored.OffsetKey("g", "t", 1): 14}
    assert CoreClient(killed(core)).committed("g") == {("t", 0): 4, ("t", 1): 14}


def test_any_broker_accepts_a_commit_and_forwards_it() -> None:
    """Phase 2: a client may send its commits to any broker, which sends them to the right one."""
    with Cluster({"offsets.forward": "true"}) as cluster:
        cluster.create_topic("t")
        for node in (1, 2, 3):
            answer = ask_node(cluster, node, commits.request("g", {("t", 0): node}, {}), commits.VERSION)
            assert answer.topics[0].partitions[0].error_code == 0
            cluster.assert_committed("g", {("t", 0): node})
