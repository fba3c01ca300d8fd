"""offset.storage=zookeeper: commits, fetches and deletions, with a ZooKeeper in memory."""

import pytest

from kafka_offsets import Broker
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.errors import ConfigError, ErrorCode
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.zookeeper.requests import Children, Get, Multi, Request, Sync
from tests.broker.groups.test_shard_loader import LateBackground
from tests.broker.offset_manager.zookeeper_requests import (
    DAY_MS,
    LOADING,
    NOT_AVAILABLE,
    commit_if,
    delete_group,
    delete_offset,
    fetch_error,
    in_log,
    listed,
    offset_fetch,
)
from tests.drivers.core import CoreClient, commit_request
from tests.drivers.members import assignment, stable
from tests.drivers.zookeeper import MemoryServer
from tests.drivers.zookeeper_core import TIMEOUT_MS, ZooKeeperCore

# --- commits and fetches


def test_a_commit_is_decimal_text_where_old_consumers_look() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    assert client.commit("g", {("t", 0): 42, ("t", 3): 7}) == {("t", 0): 0, ("t", 3): 0}
    assert broker.server.texts() == {"g/offsets/t/0": "42", "g/offsets/t/3": "7"}
    assert in_log(broker) == 0
    assert client.committed("g") == {("t", 0): 42, ("t", 3): 7}


def test_the_next_commit_replaces_it() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    for offset in (1, 2, 3):
        client.commit("g", {("t", 0): offset})
    assert client.committed("g") == {("t", 0): 3}
    assert broker.server.nodes["/consumers/g/offsets/t/0"].version == 2


def test_an_offset_that_another_program_wrote_is_fetched() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    broker.server.put("/consumers/old/offsets/t/2", "1234")
    assert offset_fetch(client, "old", [2, 3]) == [(1234, 0), (-1, 0)]
    broker.server.put("/consumers/old/offsets/t/3", "5")
    assert client.committed("old") == {("t", 2): 1234, ("t", 3): 5}
    broker.server.put("/consumers/old/offsets/t/2", "1235")
    assert offset_fetch(client, "old", [2]) == [(1235, 0)]


def test_a_commit_follows_what_another_program_changed() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1, ("t", 1): 1})
    broker.server.put("/consumers/g/offsets/t/0", "50")
    broker.server.delete("/consumers/g/offsets/t/1")
    assert client.commit("g", {("t", 0): 2, ("t", 1): 2, ("t", 2): 2}) == {("t", p): 0 for p in range(3)}
    broker.server.delete("/consumers/g")
    assert client.commit("g", {("t", 0): 3}) == {("t", 0): 0}
    assert broker.server.texts() == {"g/offsets/t/0": "3"}


def test_several_partitions_are_one_multi() -> None:
    broker = ZooKeeperCore()
    seen: list[Request] = []
    broker.client.before = seen.append
    CoreClient(broker.core).commit("g", {("t", partition): partition for partition in range(10)})
    (multi,) = [request for request in seen if isinstance(request, Multi)]
    assert sum(change.path.startswith("/consumers/g/offsets/t/") for change in multi.changes) == 10


def test_commits_that_wait_share_a_write_and_are_answered_in_order() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 0})
    broker.client.is_held = True
    seen: list[Request] = []
    broker.client.before = seen.append
    for offset in range(1, 6):
        client.send((commit_request(broker.core, "g", {("t", 0): offset}, 8), 8))
    client.turn()
    assert client.take() == []
    broker.client.release()
    client.turn()
    assert len(client.take()) == 5
    assert len([request for request in seen if isinstance(request, Multi)]) == 2
    assert broker.server.texts() == {"g/offsets/t/0": "5"}


def test_what_a_znode_cannot_hold_is_not_kept() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    request = commit_request(broker.core, "g", {("t", 0): 1}, 8)
    (partition,) = request.topics[0].partitions
    partition.committed_metadata, partition.committed_leader_epoch = "note", 7
    client.call(request, 8)
    answer = client.call(messages.OffsetFetchRequest("g", None), 7)
    (found,) = answer.topics[0].partitions
    assert (found.committed_offset, found.metadata, found.committed_leader_epoch) == (1, "", -1)


def test_metadata_that_is_too_long_is_refused_as_it_was_then() -> None:
    broker = ZooKeeperCore(offset_metadata_max_bytes=4)
    client = CoreClient(broker.core)
    request = commit_request(broker.core, "g", {("t", 0): 1, ("t", 1): 1}, 8)
    request.topics[0].partitions[0].committed_metadata = "12345"
    answer = client.call(request, 8)
    codes = [p.error_code for p in answer.topics[0].partitions]
    assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert broker.server.texts() == {"g/offsets/t/1": "1"}


@pytest.mark.parametrize(
    ("version", "error"), [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (1, ErrorCode.NONE)]
)
def test_version_0_reports_a_missing_offset_as_it_did_with_zookeeper(version: int, error: ErrorCode) -> None:
    client = CoreClient(ZooKeeperCore().core)
    client.commit("g", {("t", 0): 5})
    assert offset_fetch(client, "g", [0, 1], version) == [(5, 0), (-1, error)]


@pytest.mark.parametrize("group", ["a/b", "", ".", "..", "a\x01b", "zookeeper"])
def test_a_group_that_can_have_no_znode_is_refused(group: str) -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    assert client.commit(group, {("t", 0): 1}) == {("t", 0): ErrorCode.INVALID_GROUP_ID}
    assert offset_fetch(client, group, [0])[0][0] == -1
    assert broker.server.texts() == {}


def test_a_topic_that_can_have_no_znode_is_refused() -> None:
    broker = ZooKeeperCore(offsets_commit_unknown_topics=True)
    client = CoreClient(broker.core)
    codes = client.commit("g", {("a/b", 0): 1, ("u", 0): 1})
    assert codes == dict.fromkeys(codes, ErrorCode.INVALID_TOPIC_EXCEPTION)
    request = commit_request(broker.core, "g", {("a/b", 0): 1}, 8)
    conditions.put(request.topics[0].partitions[0], -1)
    (topic,) = client.call(request, 8).topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert client.commit("g", {("u", 0): 1}) == {("u", 0): 0}
    assert broker.server.texts() == {"g/offsets/u/0": "1"}


def test_members_are_checked_as_always() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    codes = client.commit("g", {("t", 0): 1}, generation_id_or_member_epoch=3, member_id="m")
    assert codes == {("t", 0): ErrorCode.ILLEGAL_GENERATION}
    assert broker.server.texts() == {}


@pytest.mark.slow
def test_a_commit_that_fits_no_request_is_refused_and_the_next_one_is_not() -> None:
    broker = ZooKeeperCore(offsets_commit_unknown_topics=True)
    client = CoreClient(broker.core)
    many = {("t", partition): 1 for partition in range(10_000)}
    assert set(client.commit("g", many).values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert client.commit("g", {("t", 0): 1}) == {("t", 0): 0}
    assert broker.server.texts() == {"g/offsets/t/0": "1"}


def test_a_znode_that_holds_no_offset_fails_the_fetch_that_names_it(caplog: pytest.LogCaptureFixture) -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    broker.server.put("/consumers/g/offsets/t/0", "twelve")
    broker.server.put("/consumers/g/offsets/t/1", "12")
    assert offset_fetch(client, "g", [0]) == [(-1, ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert "/consumers/g/offsets/t/0 holds" in caplog.text
    assert offset_fetch(client, "g", [1]) == [(12, 0)]
    assert client.commit("g", {("t", 1): 13}) == {("t", 1): 0}


def test_what_zookeeper_refuses_is_neither_missing_nor_committed(caplog: pytest.LogCaptureFixture) -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    broker.server.refused.add("/consumers/g")
    assert offset_fetch(client, "g", [0, 1]) == [(-1, ErrorCode.UNKNOWN_SERVER_ERROR)] * 2
    assert fetch_error(client, "g") == ErrorCode.UNKNOWN_SERVER_ERROR
    assert client.commit("g", {("t", 0): 2}) == {("t", 0): ErrorCode.UNKNOWN_SERVER_ERROR}
    assert commit_if(client, "g", 1, 2) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert delete_group(client, "g") == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "see its permissions" in caplog.text
    assert client.commit("h", {("t", 0): 2}) == {("t", 0): 0}
    broker.server.refused.clear()
    assert client.committed("g") == {("t", 0): 1}


def test_a_writer_that_is_always_first_makes_a_commit_wait_and_not_fail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})

    def change(request: Request) -> None:
        if isinstance(request, Multi):
            broker.server.put("/consumers/g/offsets/t/0", "50")

    broker.client.before = change
    assert client.commit("g", {("t", 0): 2}) == {("t", 0): NOT_AVAILABLE}
    assert commit_if(client, "g", 50, 51) == NOT_AVAILABLE
    assert "were changed by other clients" in caplog.text
    broker.client.before = lambda request: None
    assert client.commit("g", {("t", 0): 3}) == {("t", 0): 0}


def test_listing_groups_without_zookeeper_lists_those_known_before() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    broker.client.disconnect()
    broker.advance(TIMEOUT_MS)
    assert listed(client) == ["g"]


def test_every_version_of_a_fetch_reports_that_zookeeper_cannot_be_reached() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    broker.client.disconnect()
    broker.advance(TIMEOUT_MS)
    for version in (0, 1, 2, 7):
        assert offset_fetch(client, "g", [0], version) == [(-1, LOADING)]
    request = messages.OffsetFetchRequest
    topics = [request.Group.Topic("t", partition_indexes=[0])] if hasattr(request.Group, "Topic") else None
    for version in (8, 9):
        answer = client.call(request(groups=[request.Group("g", topics=topics)]), version)
        assert [group.error_code for group in answer.groups] == [LOADING]


def test_deleting_the_offsets_topic_drops_groups_and_keeps_offsets() -> None:
    """Its records are groups and members; offsets are in ZooKeeper, and are read from there again."""
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    request = messages.DeleteTopicsRequest
    client.call(request(topics=[request.DeleteTopicState("__consumer_offsets")], timeout_ms=1000), 6)
    assert client.committed("g") == {("t", 0): 1}
    assert client.commit("g", {("t", 0): 2}) == {("t", 0): 0}


def test_a_write_under_way_when_the_offsets_topic_is_deleted_is_answered() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    broker.client.is_held = True
    for offset in (1, 2):
        client.send((commit_request(broker.core, "g", {("t", 0): offset}, 8), 8))
    request = messages.DeleteTopicsRequest
    topics = [request.DeleteTopicState("__consumer_offsets")]
    CoreClient(broker.core).send((request(topics=topics, timeout_ms=1000), 6))
    broker.core.end_turn()
    broker.client.release()
    client.turn()
    codes = [answer.topics[0].partitions[0].error_code for answer in client.take()]
    assert codes == [ErrorCode.NOT_COORDINATOR] * 2


def test_transactions_do_not_commit_offsets() -> None:
    client = CoreClient(ZooKeeperCore().core)
    made = client.call(messages.InitProducerIdRequest("tx", 60_000), 4)
    producer = made.producer_id, made.producer_epoch
    client.call(messages.AddOffsetsToTxnRequest("tx", *producer, "g"), 3)
    request = messages.TxnOffsetCommitRequest
    offsets = [request.Topic("t", [request.Partition(0, 5)])]
    answer = client.call(request("tx", "g", *producer, topics=offsets), 3)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


# --- conditions


def test_a_condition_is_compared_with_what_zookeeper_has() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    assert commit_if(client, "g", -1, 1) == 0
    assert commit_if(client, "g", -1, 2) == ErrorCode.COMMITTED_OFFSET_MISMATCH
    broker.server.put("/consumers/g/offsets/t/0", "10")
    assert commit_if(client, "g", 1, 2) == ErrorCode.COMMITTED_OFFSET_MISMATCH
    assert commit_if(client, "g", 10, 11) == 0
    assert broker.server.texts() == {"g/offsets/t/0": "11"}


@pytest.mark.parametrize("exists", [True, False])
def test_a_change_between_the_check_and_the_write_is_noticed(exists: bool) -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    if exists:
        client.commit("g", {("t", 0): 5})

    def change(request: Request) -> None:
        if isinstance(request, Multi):
            broker.client.before = lambda request: None
            broker.server.put("/consumers/g/offsets/t/0", "6")

    broker.client.before = change
    assert commit_if(client, "g", 5 if exists else -1, 7) == ErrorCode.COMMITTED_OFFSET_MISMATCH
    assert broker.server.texts() == {"g/offsets/t/0": "6"}


def test_a_conditional_commit_sees_the_commits_before_it() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    broker.client.is_held = True
    client.send((commit_request(broker.core, "g", {("t", 0): 1}, 8), 8))
    for expected in (1, 1):
        request = commit_request(broker.core, "g", {("t", 0): 2}, 8)
        conditions.put(request.topics[0].partitions[0], expected)
        client.send((request, 8))
    broker.client.release()
    client.turn()
    codes = [answer.topics[0].partitions[0].error_code for answer in client.take()]
    assert codes == [0, 0, ErrorCode.COMMITTED_OFFSET_MISMATCH]


# --- deletions and expiration


def test_a_groups_znode_is_removed_with_its_last_offset() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1, ("t", 1): 2})
    assert delete_offset(client, "g", 0) == (0, [0])
    assert broker.server.texts() == {"g/offsets/t/1": "2"}
    assert delete_offset(client, "g", 1) == (0, [0])
    assert "/consumers/g" not in broker.server.nodes


def test_a_deletion_sees_what_another_program_wrote() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    broker.server.put("/consumers/old/offsets/t/2", "1")
    assert delete_offset(client, "old", 2) == (0, [0])
    assert "/consumers/old" not in broker.server.nodes


def test_deleting_a_group_removes_all_its_znodes() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    broker.server.put("/consumers/g/offsets/t/9", "9")
    broker.server.put("/consumers/g/owners/t")
    broker.server.put("/consumers/g/ids")
    assert delete_group(client, "g") == 0
    assert "/consumers/g" not in broker.server.nodes
    assert (client.committed("g"), listed(client)) == ({}, [])
    assert delete_group(client, "g") == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_a_live_consumer_of_zookeeper_times_is_not_deleted() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    broker.server.put("/consumers/g/offsets/t/0", "1")
    broker.server.put("/consumers/g/ids/g_host-1", "{}")
    assert delete_group(client, "g") == ErrorCode.NON_EMPTY_GROUP
    assert broker.server.texts() == {"g/ids/g_host-1": "{}", "g/offsets/t/0": "1"}


def test_a_commit_during_a_deletion_is_not_deleted() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})

    def change(request: Request) -> None:
        if isinstance(request, Multi):
            broker.client.before = lambda request: None
            broker.server.put("/consumers/g/offsets/t/1", "7")
            broker.server.put("/consumers/g/offsets/t/0", "2")

    broker.client.before = change
    assert delete_offset(client, "g", 0) == (0, [0])
    assert broker.server.texts() == {"g/offsets/t/1": "7"}


@pytest.mark.slow
def test_offsets_expire_after_their_last_change() -> None:
    broker = ZooKeeperCore(offsets_retention_minutes=60, offsets_retention_check_interval_ms=60_000)
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    broker.server.put("/consumers/old/offsets/t/0", "5")
    for _ in range(50):
        broker.advance(60_000)
    broker.server.put("/consumers/old/offsets/t/1", "6")
    for _ in range(30):
        broker.advance(60_000)
    assert broker.server.texts() == {"old/offsets/t/1": "6"}
    assert "/consumers/g" not in broker.server.nodes


# --- a znode that is no number: it blocked its group


@pytest.fixture
def unreadable() -> ZooKeeperCore:
    """Group g has offset 12 of t-1, and another program has written nonsense for t-0."""
    broker = ZooKeeperCore(offsets_retention_minutes=60, offsets_retention_check_interval_ms=60_000)
    broker.server.put("/consumers/g/offsets/t/0", "twelve")
    broker.server.put("/consumers/g/offsets/t/1", "12")
    return broker


def test_a_commit_overwrites_a_znode_that_is_no_number(unreadable: ZooKeeperCore) -> None:
    client = CoreClient(unreadable.core)
    assert client.commit("g", {("t", 0): 5, ("t", 1): 6}) == {("t", 0): 0, ("t", 1): 0}
    assert unreadable.server.texts() == {"g/offsets/t/0": "5", "g/offsets/t/1": "6"}
    assert offset_fetch(client, "g", [0, 1]) == [(5, 0), (6, 0)]


def test_a_conditional_commit_overwrites_a_znode_that_is_no_number_if_it_expects_no_offset(
    unreadable: ZooKeeperCore,
) -> None:
    client = CoreClient(unreadable.core)
    assert commit_if(client, "g", expected=12, offset=5) != 0
    assert commit_if(client, "g", expected=-1, offset=5) == 0
    assert unreadable.server.texts()["g/offsets/t/0"] == "5"


@pytest.mark.parametrize(("partition", "left"), [(0, "1"), (1, "0")])
def test_an_offset_of_a_group_with_a_znode_that_is_no_number_is_deleted(
    unreadable: ZooKeeperCore, partition: int, left: str
) -> None:
    assert delete_offset(CoreClient(unreadable.core), "g", partition) == (0, [0])
    assert list(unreadable.server.texts()) == [f"g/offsets/t/{left}"]


def test_a_group_with_a_znode_that_is_no_number_is_deleted(unreadable: ZooKeeperCore) -> None:
    client = CoreClient(unreadable.core)
    assert listed(client) == ["g"]
    assert delete_group(client, "g") == 0
    assert unreadable.server.texts() == {} and listed(client) == []


def test_a_znode_that_is_no_number_expires(unreadable: ZooKeeperCore) -> None:
    unreadable.advance(30 * 60_000)
    unreadable.server.put("/consumers/g/offsets/t/1", "13")
    for _ in range(32):
        unreadable.advance(60_000)
    assert unreadable.server.texts() == {"g/offsets/t/1": "13"}


def test_a_znode_that_is_no_number_is_logged_once(
    unreadable: ZooKeeperCore, caplog: pytest.LogCaptureFixture
) -> None:
    client = CoreClient(unreadable.core)
    for _ in range(3):
        assert fetch_error(client, "g") == offset_fetch(client, "g", [0])[0][1] == -1
        assert offset_fetch(client, "g", [1]) == [(12, 0)]
        unreadable.advance(60_000)
    (line,) = [record.getMessage() for record in caplog.records if "twelve" in record.getMessage()]
    assert line == (
        "group g: the znode /consumers/g/offsets/t/0 holds b'twelve', which is no offset; a commit overwrites it"
    )


def test_a_commit_that_expiration_did_not_see_survives_it() -> None:
    broker = ZooKeeperCore(offsets_retention_minutes=60, offsets_retention_check_interval_ms=DAY_MS)
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})

    def change(request: Request) -> None:
        if isinstance(request, Multi):
            broker.client.before = lambda request: None
            broker.server.put("/consumers/g/offsets/t/0", "2")

    broker.client.before = change
    for _ in range(10):
        broker.advance(DAY_MS // 4)
        if not broker.server.texts():
            pytest.fail("a fresh offset has expired")
        if broker.server.texts() == {"g/offsets/t/0": "2"}:
            return
    pytest.fail("nothing expired")


def test_the_offsets_of_a_deleted_topic_are_deleted() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    request = messages.DeleteTopicsRequest
    client.call(request(topics=[request.DeleteTopicState("t")], timeout_ms=1000), 6)
    broker.advance(10)
    assert broker.server.texts() == {}


# --- groups


def test_groups_of_other_programs_are_listed_and_described() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("ours", {("t", 0): 1})
    broker.server.put("/consumers/theirs/offsets/t/0", "1")
    assert listed(client) == ["ours", "theirs"]


def test_a_start_loads_the_groups_and_removes_what_an_interrupted_removal_left() -> None:
    server = MemoryServer()
    server.put("/consumers/g/offsets/t/0", "1")
    server.put("/consumers/half/offsets/t")
    server.put("/consumers/none")
    server.put("/consumers/alive/ids/c1", "{}")
    server.put("/consumers/g/offsets/gone")
    broker = ZooKeeperCore(server)
    assert broker.core.shards.committed("g") == {("t", 0): broker.core.shards.committed("g")[("t", 0)]}
    assert broker.core.shards.committed("g")[("t", 0)].offset == 1
    left = sorted(path for path in server.nodes if path.startswith("/consumers/"))
    assert left == [
        "/consumers/alive", "/consumers/alive/ids", "/consumers/alive/ids/c1",
        "/consumers/g", "/consumers/g/offsets", "/consumers/g/offsets/t", "/consumers/g/offsets/t/0",
    ]  # fmt: skip


def test_offsets_of_the_log_are_not_mixed_with_those_of_zookeeper(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    before = ZooKeeperCore(files=files, offset_storage="log")
    CoreClient(before.core).commit("g", {("t", 0): 1})
    before.core.close()
    broker = ZooKeeperCore(files=files)
    client = CoreClient(broker.core)
    assert (client.committed("g"), listed(client)) == ({}, [])
    assert "1 committed offsets are in the log and are not used" in caplog.text
    broker.core.close()
    assert broker.client.is_closed
    again = ZooKeeperCore(files=files, offset_storage="log")
    assert CoreClient(again.core).committed("g") == {("t", 0): 1}


@pytest.mark.parametrize("taken", [False, True])
def test_a_commit_while_groups_are_loaded_waits_for_them_where_configured(taken: bool) -> None:
    """Another thread has the shard until then, so nothing is put into its table."""
    files = MemoryFiles()
    before = ZooKeeperCore(files=files, offsets_topic_num_partitions=1)
    stable(before.core, [assignment({"t": [0]})])
    before.core.close()
    broker = ZooKeeperCore(
        before.server,
        files,
        background=LateBackground(),
        offsets_load_before_listening_bytes=0,
        offsets_commit_while_loading=taken,
    )
    hosted = broker.core.runtime.shards[0]
    results = broker.core.runtime.load(hosted, broker.clock.now)
    client = CoreClient(broker.core)
    client.send((commit_request(broker.core, "s", {("t", 0): 5}, 8), 8))
    client.turn()
    answers = client.take()
    assert broker.server.texts() == {}
    hosted.finish_loading(results)
    client.turn()
    (answer,) = answers + client.take()
    assert answer.topics[0].partitions[0].error_code == (0 if taken else LOADING)
    assert client.committed("s") == ({("t", 0): 5} if taken else {})


def test_offsets_are_in_the_tables_when_long_logs_are_loaded() -> None:
    files = MemoryFiles()
    before = ZooKeeperCore(files=files, offsets_topic_num_partitions=1)
    stable(before.core, [assignment({"t": [0]})])
    before.core.close()
    before.server.put("/consumers/old/offsets/t/0", "5")
    background = LateBackground()
    broker = ZooKeeperCore(before.server, files, background=background, offsets_load_before_listening_bytes=0)
    background.run(broker.core)
    assert broker.core.shards.committed("old")["t", 0].offset == 5


def test_offsets_survive_the_broker() -> None:
    broker = ZooKeeperCore()
    CoreClient(broker.core).commit("g", {("t", 0): 1})
    after = ZooKeeperCore(broker.server)
    assert CoreClient(after.core).committed("g") == {("t", 0): 1}


# --- configuration


def test_zookeeper_needs_an_address() -> None:
    with pytest.raises(ConfigError, match=r"needs zookeeper\.connect"):
        Config.load({"offset.storage": "zookeeper"})


def test_a_malformed_address_is_refused() -> None:
    with (
        pytest.raises(ConfigError, match=r"zookeeper\.connect=nowhere:port"),
        Broker({"offset.storage": "zookeeper", "zookeeper.connect": "nowhere:port"}),
    ):
        pass


def test_reads_come_before_writes_only_where_they_are_needed() -> None:
    """A commit of known offsets is one request."""
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    seen: list[Request] = []
    broker.client.before = seen.append
    client.commit("g", {("t", 0): 2})
    assert [type(request) for request in seen] == [Multi]
    assert not [request for request in seen if isinstance(request, Get | Children | Sync)]
