"""Source: "Inbuilt Consumer Offset Management" (KAFKA-1000), which put committed offsets into a topic.

Not served, and so without a test:

- [2a] the consumer's embedded producer and its acks: phase 1 of the document; OffsetCommit is its phase 2.
"""

import inspect
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from kafka_offsets.broker.offset_manager.interface import OffsetManager
from kafka_offsets.broker.offset_manager.log_manager import LogOffsetManager
from kafka_offsets.broker.offset_manager.zookeeper_manager import ZooKeeperOffsetManager
from kafka_offsets.broker.turn.workers import run_inline
from kafka_offsets.client.connection import Connection
from kafka_offsets.coordinator.state import stored
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.protocol.records import batch_headers, encode_batch
from kafka_offsets.testing import Cluster
from kafka_offsets.testing.server.events import Event
from tests.broker.core.test_core import LateSync
from tests.broker.groups.test_shard_loader import (
    LateBackground,
    logs_of_three_lengths,
    offset_fetch,
    starting,
    stopped_files,
)
from tests.claims.claimed import (
    CoreClient,
    after,
    again,
    ask_node,
    broker,
    compacted,
    killed,
    offsets_topic,
    stable,
    turn,
)
from tests.drivers.core import commit_request
from tests.drivers.zookeeper import MemoryServer
from tests.drivers.zookeeper_core import ZooKeeperCore


def test_a_commit_is_a_record_keyed_by_group_topic_and_partition() -> None:
    """[1a] The key is group, topic and partition; the payload offset, metadata and timestamp."""
    core = broker()
    request = commit_request(core, "g", {("t", 2): 42}, 8)
    request.topics[0].partitions[0].committed_metadata = "note"
    CoreClient(core).call(request, 8)
    ((key, value),) = offsets_topic(core)
    assert key == stored.OffsetKey("g", "t", 2)
    assert value is not None
    entry = stored.parse_offset_value(value, 0)
    assert (entry.offset, entry.metadata) == (42, "note")
    assert entry.commit_timestamp == core.clock.now().wall_ms


def test_all_commits_of_a_group_are_in_one_partition() -> None:
    """[1a] Messages are partitioned by the group, so that no fetch has to ask several brokers."""
    core = broker(offsets_topic_num_partitions=50)
    client = CoreClient(core)
    for group in ("one", "two"):
        client.commit(group, {("t", partition): partition for partition in range(4)})
        records = offsets_topic(core, partition_for(group, 50))
        assert [key.partition for key, _ in records if key.group == group] == [0, 1, 2, 3]


def test_the_topics_size_is_configured_with_kafkas_defaults() -> None:
    """[1b] 1 partition, 1 replica and segments of 10 MB: here as in Kafka 50, 3 (capped at the brokers), 100 MiB."""
    core = broker(offsets_topic_num_partitions=50)
    CoreClient(core).commit("g", {("t", 0): 1})
    topic = core.topics.get("__consumer_offsets")
    assert topic is not None and topic.partition_count == 50
    assert topic.configs["segment.bytes"] == str(100 << 20)
    asked = broker(
        offsets_topic_num_partitions=1,
        offsets_topic_replication_factor=1,
        offsets_topic_segment_bytes=10_000_000,
    )
    CoreClient(asked).commit("g", {("t", 0): 1})
    topic = asked.topics.get("__consumer_offsets")
    assert topic is not None and topic.configs["segment.bytes"] == "10000000"


def test_a_fetch_is_answered_from_memory() -> None:
    """[1b] The table serves fetches; the log is not read."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1})
    found = core.topics.partition("__consumer_offsets", 0)
    assert found is not None
    found.log.close()
    assert client.committed("g") == {("t", 0): 1}


def test_an_offset_counts_when_it_is_durable_and_not_before() -> None:
    """[2b] What is put into the table was written first: nobody reads an offset that may still be lost."""
    sync = LateSync()
    core = broker(sync=sync, fsync="commit")
    client = CoreClient(core)
    client.send((commit_request(core, "g", {("t", 0): 1}, 8), 8))
    core.end_turn()
    assert (client.take(), CoreClient(core).committed("g")) == ([], {})
    sync.finish(core)
    assert len(client.take()) == 1
    assert CoreClient(core).committed("g") == {("t", 0): 1}


@pytest.mark.parametrize("first", ["commit", "fetch"])
def test_the_first_request_creates_the_topic(first: str) -> None:
    """[2c, 3b] The first commit creates the offsets topic, or the first fetch, which is then answered -1."""
    core = broker()
    client = CoreClient(core)
    assert core.topics.get("__consumer_offsets") is None
    if first == "commit":
        assert client.commit("g", {("t", 0): 1}) == {("t", 0): 0}
    else:
        asked = [messages.OffsetFetchRequest.Topic("t", [0])]
        (topic,) = client.call(messages.OffsetFetchRequest("g", asked), 5).topics
        assert (topic.partitions[0].committed_offset, topic.partitions[0].error_code) == (-1, 0)
    assert core.topics.get("__consumer_offsets") is not None


def test_produce_to_the_offsets_topic_is_refused() -> None:
    """[2a] The document has consumers produce them as text; here, as in Kafka, only the broker writes them."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1})
    request = messages.ProduceRequest
    batch = encode_batch([(stored.offset_key("g", "t", 0), b"5", (), 0)])
    data = request.TopicProduceData(
        "__consumer_offsets", bytes(16), [request.PartitionProduceData(0, bytes(batch))]
    )
    (topic,) = client.call(request(None, -1, 1000, [data]), 9).responses
    assert topic.partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.committed("g") == {("t", 0): 1}


def test_commits_are_not_compressed_and_name_their_format() -> None:
    """[2a] They are small; and a version in keys and values lets the format evolve."""
    core = broker()
    CoreClient(core).commit("g", {("t", 0): 1})
    found = core.topics.partition("__consumer_offsets", 0)
    assert found is not None
    ((_, header),) = [each for batch in found.log.batches() for each in batch_headers(batch.data)]
    assert header.attributes & 7 == 0
    ((_, value),) = offsets_topic(core)
    assert value is not None
    assert stored.offset_key("g", "t", 0)[:2] == b"\0\1"
    assert int.from_bytes(value[:2]) >= 3


def test_one_fetch_names_many_partitions() -> None:
    """[3b] A request has several topic partitions; each is answered."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1, ("t", 3): 4})
    asked = [messages.OffsetFetchRequest.Topic("t", [3, 1, 0])]
    (topic,) = client.call(messages.OffsetFetchRequest("g", asked), 5).topics
    assert [(p.partition_index, p.committed_offset) for p in topic.partitions] == [(3, 4), (1, -1), (0, 1)]


def test_a_missing_offset_is_minus_one_and_no_error() -> None:
    """[3b] The document answers UnknownTopicOrPartition; here, as in Kafka, -1 without an error."""
    asked = [messages.OffsetFetchRequest.Topic("nowhere", [0])]
    (topic,) = CoreClient(broker()).call(messages.OffsetFetchRequest("g", asked), 5).topics
    assert (topic.partitions[0].committed_offset, topic.partitions[0].error_code) == (-1, 0)


def test_a_broker_that_does_not_coordinate_the_group_refuses_a_fetch() -> None:
    """[3b] The document has it ask the one that does; here, as in Kafka, the client is told to look for it."""
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("t", 1)
        cluster.commit("g", {("t", 0): 7})
        home = cluster.coordinator("g")
        asked = messages.OffsetFetchRequest("g", [messages.OffsetFetchRequest.Topic("t", [0])])
        (topic,) = ask_node(cluster, home, asked, 5).topics
        assert topic.partitions[0].committed_offset == 7
        assert ask_node(cluster, 3 - home, asked, 5).error_code == ErrorCode.NOT_COORDINATOR


def test_the_new_leader_has_the_offsets() -> None:
    """[4] Leadership goes to another broker: that one has loaded the table and answers, and the first one does not."""
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("t", 1)
        cluster.commit("g", {("t", 0): 7})
        old, new = cluster.coordinator("g"), cluster.move_coordinator("g")
        assert {old, new} == {1, 2}
        asked = messages.OffsetFetchRequest("g", [messages.OffsetFetchRequest.Topic("t", [0])])
        (topic,) = ask_node(cluster, new, asked, 5).topics
        assert topic.partitions[0].committed_offset == 7
        assert ask_node(cluster, old, asked, 5).error_code == ErrorCode.NOT_COORDINATOR


def test_while_offsets_are_loaded_fetches_get_a_retriable_error() -> None:
    """[3b, 4] The loading code is answered until all is loaded."""
    background = LateBackground()
    core = starting(stopped_files(), background)
    assert offset_fetch(core, "s").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    background.run(core)
    assert offset_fetch(core, "s").error_code == 0


def test_threads_load_the_partitions_and_a_small_one_does_not_wait_for_a_large_one() -> None:
    """[3] triggerLoadOffsets schedules threads that read the logs."""
    background = LateBackground()
    core = starting(logs_of_three_lengths(), background)
    background.run_all(core)
    shortest, _, longest = core.runtime.start(3, core.clock.now(), [0, 1, 2])
    core.loader.load(longest)
    core.loader.load(shortest)
    _, small = background.waiting
    run_inline(*small)
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [offset_fetch(core, group).error_code for group in "bc"] == [0, error]


@pytest.mark.parametrize("taken", [False, True])
def test_a_commit_during_loading_replaces_the_loaded_offset_where_configured(taken: bool) -> None:
    """[4] Commits update the table meanwhile, and stale offsets of the log do not override them; Kafka refuses them."""
    core = starting(stopped_files(), LateBackground(), offsets_commit_while_loading=taken)
    hosted = core.runtime.shards[0]
    results = core.runtime.load(hosted, core.clock.now)
    client = CoreClient(core)
    error = 0 if taken else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert client.commit("s", {("t", 0): 77}) == {("t", 0): error}
    hosted.finish_loading(results)
    assert client.committed("s") == {("t", 0): 77 if taken else 10}


def test_a_tombstone_removes_the_offset_and_the_cleaner_the_record() -> None:
    """[5a] A null payload deletes the entry at once; the log is cleaned of both later."""
    core = broker(log_cleaner_delete_retention_ms=1000)
    client = CoreClient(core)
    client.commit("h", {("t", 0): 1})
    client.commit("g", {("t", 0): 1})
    (deleted,) = client.call(messages.DeleteGroupsRequest(["g"]), 1).results
    assert deleted.error_code == 0
    assert client.committed("g") == {}
    assert [key for key, _ in offsets_topic(core)].count(stored.OffsetKey("g", "t", 0)) == 2
    left = [(key, value is None) for key, value in compacted(core)]
    h, g = stored.OffsetKey("h", "t", 0), stored.OffsetKey("g", "t", 0)
    assert left == [(h, False), (g, True), (stored.GroupKey("g"), True)]
    after(core, 1000)
    client.commit("h", {("t", 0): 2})
    assert [key for key, _ in compacted(core)] == [h], (
        "readers have had delete.retention.ms to see the tombstones"
    )


def test_an_active_group_is_not_deleted() -> None:
    """[5b] The tool gives up when there is no such group, and when it has active consumers."""
    core = broker()
    client = CoreClient(core)
    stable(core, [b""])
    results = client.call(messages.DeleteGroupsRequest(["g", "missing"]), 1).results
    assert {each.group_id: each.error_code for each in results} == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "missing": ErrorCode.GROUP_ID_NOT_FOUND,
    }


def test_offsets_that_were_not_committed_for_long_expire() -> None:
    """[5c] Older than the retention period: a periodic check writes their tombstones."""
    core = broker(offsets_retention_minutes=10, offsets_retention_check_interval_ms=60_000)
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1})
    after(core, 5 * 60_000)
    client.commit("g", {("t", 1): 1})
    after(core, 6 * 60_000)
    assert client.committed("g") == {("t", 1): 1}
    assert (stored.OffsetKey("g", "t", 0), None) in offsets_topic(core)


@pytest.mark.parametrize("restart", [again, killed])
def test_deleted_offsets_remain_deleted_before_the_cleaner_runs(restart: object) -> None:
    """[5d] Once the tombstone is logged the loader respects it, even if the broker dies before the log is cleaned."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1, ("t", 1): 1})
    client.commit("other", {("t", 0): 5})
    client.call(messages.DeleteGroupsRequest(["g"]), 1)
    assert callable(restart)
    later = CoreClient(restart(core))
    assert (later.committed("g"), later.committed("other")) == ({}, {("t", 0): 5})


def test_a_new_coordinator_has_what_the_old_one_acknowledged() -> None:
    """[4] The log is read, and the table populated, when a broker comes up."""
    core = broker()
    members = stable(core, [b"", b""])
    assert members[0].commit({("t", 0): 9}) == {("t", 0): 0}
    later = killed(core)
    turn(later)
    assert CoreClient(later).committed("g") == {("t", 0): 9}


# --- the two offset managers


@pytest.mark.parametrize(
    ("storage", "kind"), [("log", LogOffsetManager), ("zookeeper", ZooKeeperOffsetManager)]
)
def test_offset_storage_chooses_the_offset_manager(storage: str, kind: type) -> None:
    """[1b] Every broker has one instance, of one of two implementations; the log is the default."""
    assert type(ZooKeeperCore(offset_storage=storage).core.offset_manager) is kind
    assert type(broker().offset_manager) is LogOffsetManager


@pytest.mark.parametrize("kind", [LogOffsetManager, ZooKeeperOffsetManager])
def test_both_managers_have_the_methods_of_the_interface(kind: type) -> None:
    """[1c] startup, getOffset, putOffset, triggerLoadOffsets, cleanup and shutdown, with the same arguments."""
    named = {"startup", "get_offset", "put_offset", "trigger_load_offsets", "cleanup", "shutdown"}
    methods = {name for name in vars(OffsetManager) if not name.startswith("_")}
    assert named <= methods
    for name in methods:
        wanted = inspect.signature(getattr(OffsetManager, name)).parameters
        assert inspect.signature(getattr(kind, name)).parameters.keys() == wanted.keys()


def test_put_offset_writes_to_zookeeper_and_get_offset_reads_from_it() -> None:
    """[1c] Whatever the broker remembers: an offset that somebody else writes is read."""
    started = ZooKeeperCore()
    client = CoreClient(started.core)
    client.commit("g", {("t", 0): 5})
    assert started.server.texts() == {"g/offsets/t/0": "5"}
    started.server.put("/consumers/g/offsets/t/0", "6")
    assert client.committed("g") == {("t", 0): 6}


def test_with_zookeeper_loading_finds_the_groups_and_a_fetch_reads_the_znode() -> None:
    """[1c] The document's triggerLoadOffsets does nothing; ours lists the groups, which may expire."""
    server = MemoryServer()
    server.put("/consumers/g/offsets/t/0", "5")
    started = ZooKeeperCore(server)
    assert started.core.shards.committed("g")["t", 0].offset == 5
    server.put("/consumers/g/offsets/t/0", "6")
    assert CoreClient(started.core).committed("g") == {("t", 0): 6}


def test_startup_connects_and_shutdown_ends_the_session() -> None:
    """[1c] The client of ZooKeeper lives as long as the broker."""
    started = ZooKeeperCore()
    assert not started.client.is_closed
    started.core.close()
    assert started.client.is_closed


def test_a_broker_on_the_log_does_not_import_kazoo() -> None:
    """[1c] Nor does importing the package, or the configuration of ZooKeeper."""
    program = (
        "import sys, kafka_offsets.cli\n"
        "from kafka_offsets.testing import Broker\n"
        "with Broker({'zookeeper.connect': 'localhost:2181'}): pass\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'kazoo']\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_a_groups_znode_is_removed_with_its_last_offset() -> None:
    """[5a] When all entries of a group are cleaned up, the znode /consumers/XXXX of the group is removed."""
    started = ZooKeeperCore()
    client = CoreClient(started.core)
    client.commit("g", {("t", 0): 1, ("t", 1): 1})
    request = messages.OffsetDeleteRequest
    for partition in (0, 1):
        assert "/consumers/g" in started.server.nodes
        client.call(request("g", [request.Topic("t", [request.Partition(partition)])]), 0)
    assert "/consumers/g" not in started.server.nodes


@pytest.mark.parametrize("alive", [True, False])
def test_the_cleanup_asks_zookeeper_whether_a_group_has_active_consumers(alive: bool) -> None:
    """[5b] The tool gives up if the group does not exist, or has consumers; otherwise everything is removed."""
    started = ZooKeeperCore()
    client = CoreClient(started.core)
    started.server.put("/consumers/g/offsets/t/0", "1")
    started.server.put("/consumers/g/owners/t")
    if alive:
        started.server.put("/consumers/g/ids/g_host", "{}")
        started.server.put("/consumers/g/owners/t/0", "g_host-0")
    results = client.call(messages.DeleteGroupsRequest(["g", "missing"]), 1).results
    assert {each.group_id: each.error_code for each in results} == {
        "g": ErrorCode.NON_EMPTY_GROUP if alive else ErrorCode.NONE,
        "missing": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert ("/consumers/g/offsets/t/0" in started.server.nodes) is alive
    assert ("/consumers/g" in started.server.nodes) is alive


def test_offsets_in_zookeeper_expire_too() -> None:
    """[5c] By the time of their last change, which ZooKeeper keeps."""
    started = ZooKeeperCore(offsets_retention_minutes=10, offsets_retention_check_interval_ms=60_000)
    CoreClient(started.core).commit("g", {("t", 0): 1})
    for _ in range(12):
        started.advance(60_000)
    assert "/consumers/g" not in started.server.nodes


def test_loading_removes_the_stale_entries_of_an_interrupted_removal() -> None:
    """[5d] A broker that died between deleting the offsets and removing the group leaves stale znodes."""
    server = MemoryServer()
    server.put("/consumers/g/offsets/t")
    server.put("/consumers/other/offsets/t/0", "1")
    ZooKeeperCore(server)
    assert "/consumers/g" not in server.nodes
    assert server.texts() == {"other/offsets/t/0": "1"}


def test_an_offset_counts_when_the_in_sync_replicas_have_it() -> None:
    """[2b] Only offsets that were replicated to all brokers in the ISR are committed by the offset manager."""
    lasting = {"replica.lag.time.max.ms": 3_600_000, "offsets.commit.timeout.ms": 600_000}
    with Cluster(lasting) as cluster:
        cluster.create_topic("t")
        cluster.commit("g", {("t", 0): 1})
        coordinator = cluster.coordinator("g")
        cluster.partition(set(range(1, 4)) - {coordinator % 3 + 1}, coordinator % 3 + 1)
        with ThreadPoolExecutor(1) as pool:
            commit = pool.submit(cluster.commit, "g", {("t", 0): 2})
            cluster.wait_for(Event("it is in the log", lambda core: _decided(core, "g"), str))
            assert not commit.done()
            cluster.assert_committed("g", {("t", 0): 1})
            cluster.heal()
            commit.result(20)
        cluster.assert_committed("g", {("t", 0): 2})


def _decided(core: Any, group: str) -> bool | None:
    """Whether a commit is in the log of the coordinator and not in effect."""
    hosted = core.runtime.shard_of(group, core.clock.now())
    return (hosted.has_pending and not hosted._decided) or None


def test_a_fetch_at_another_broker_is_forwarded() -> None:
    """[3b] A broker that is not the leader forwards the request to it, over a channel.

    Each client's connection has its own, which is used again; a leader that has moved is found in the metadata, which
    the controller updates.
    """
    with Cluster({"offsets.forward": "true"}) as cluster:
        cluster.create_topic("t")
        cluster.commit("g", {("t", 0): 7})

        def channels() -> list[Any]:
            return cluster._call(
                lambda server: [
                    channel
                    for each in server.servers
                    for of_client in each.core.replicas.peers._of_clients.values()
                    for channel in of_client.values()
                ]
            )

        def fetch_everywhere() -> None:
            for connection in connections:
                answer = connection.call(messages.OffsetFetchRequest("g", None), 7)
                assert [each.committed_offset for each in answer.topics[0].partitions] == [7]

        with ExitStack() as stack:
            connections = [
                stack.enter_context(Connection(each.host, each.port, 20)) for each in cluster.nodes
            ]
            fetch_everywhere()
            opened = channels()
            assert len(opened) == 2
            fetch_everywhere()
            assert channels() == opened
            cluster.move_coordinator("g")
            fetch_everywhere()


def test_a_follower_loads_no_offsets_and_a_former_leader_removes_them() -> None:
    """[4] The offset manager of a follower is not responsible for the partition; the new leader loads it."""
    with Cluster() as cluster:
        cluster.create_topic("t")
        cluster.commit("g", {("t", 0): 7})
        index = partition_for("g", 50)

        def loaded() -> list[int]:
            return cluster._call(
                lambda server: [each.node_id for each in server.servers if index in each.core.runtime.shards]
            )

        before = cluster.coordinator("g")
        assert loaded() == [before]
        after_move = cluster.move_coordinator("g")
        assert (loaded(), after_move != before) == ([after_move], True)
        cluster.assert_committed("g", {("t", 0): 7})
