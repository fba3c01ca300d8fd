"""The broker without sockets: order of answers, turns, durability, restarts, disks that fail."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.broker.wire import responses
from kafka_offsets.broker.wire.api import Apis
from kafka_offsets.broker.wire.idle_connections import IdleConnections
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.directory.offset_checkpoints import GAPS_BEFORE, RECOVERY_POINT_CHECKPOINT
from kafka_offsets.storage.files.checkpoints import decode_offsets, encode_offsets
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log
from tests.drivers.core import CoreClient, commit_request, make_core
from tests.drivers.members import join_request
from tests.storage.crash.faults import FaultyFiles

Done = Callable[[dict[Log, StorageError]], None]


class LateSync:
    """A disk whose fsync ends when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[list[Log], Done]] = []

    def __call__(self, logs: list[Log], done: Done) -> None:
        self.waiting.append((logs, done))

    def finish(self, core: BrokerCore, *, fails: bool = False) -> None:
        """Let the oldest fsync end, then the turn."""
        logs, done = self.waiting.pop(0)
        done({log: StorageError("no more disk", log.directory) for log in logs} if fails else {})
        core.end_turn()


@pytest.fixture
def core() -> BrokerCore:
    made = make_core()
    made.topics.create("t", 4)
    return made


@pytest.mark.parametrize(
    ("group", "partition"),
    [("", 0), ("g", 103 % 50), ("polygenelubricants", 0), ("группа", None), ("𝄞", None)],
)
def test_a_group_maps_to_a_partition_by_javas_string_hash(group: str, partition: int | None) -> None:
    hashed = 0
    data = group.encode("utf-16-be")
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        hashed = (31 * hashed + unit) % 2**32
    signed = hashed - 2**32 if hashed >= 2**31 else hashed
    expected = 0 if signed == -(2**31) else abs(signed) % 50
    assert partition_for(group, 50) == expected
    if partition is not None:  # the hash of "polygenelubricants" is Integer.MIN_VALUE
        assert expected == partition


def test_answers_leave_in_the_order_of_their_requests(core: BrokerCore) -> None:
    client = CoreClient(core)
    offsets = [{("t", 0): 1}, {("t", 1): 2}, {("t", 0): 3}]
    client.send(
        *((commit_request(core, "g", each), 8) for each in offsets),
        (messages.OffsetFetchRequest("g", None), 7),
        (messages.HeartbeatRequest("g", 1, "m"), 3),
        (commit_request(core, "g", {("t", 0): 4}), 8),
    )
    assert client.take() == []
    client.turn()
    *commits, fetched, beat, last = client.take()
    assert all(answer.topics[0].partitions[0].error_code == 0 for answer in [*commits, last])
    # a read after a commit sees it, though both came in one piece
    assert {p.partition_index: p.committed_offset for p in fetched.topics[0].partitions} == {0: 3, 1: 2}
    assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.committed("g") == {("t", 0): 4, ("t", 1): 2}


def test_commits_of_one_turn_share_a_batch(core: BrokerCore) -> None:
    one, two = CoreClient(core), CoreClient(core)
    for number in range(10):
        one.send((commit_request(core, "g", {("t", 0): number, ("t", 1): number}), 8))
        two.send((commit_request(core, "g", {("t", 2): number}), 8))
    one.turn()
    assert len(one.take()) == len(two.take()) == 10
    partition = core.topics.partition(OFFSETS_TOPIC, partition_for("g", 50))
    assert partition is not None
    (batch,) = partition.log.batches()
    assert batch.header.record_count == 30


def test_a_request_that_waits_holds_back_those_after_it(core: BrokerCore) -> None:
    client = CoreClient(core)
    other = CoreClient(core)
    first = other.call(join_request(), 3)
    other.call(messages.SyncGroupRequest("g", first.generation_id, first.member_id), 2)
    client.send((join_request(), 3), (messages.OffsetFetchRequest("g", None), 5))
    client.turn()
    assert client.take() == []  # the other member has to join again first
    other.send((join_request(member_id=first.member_id), 3))
    other.turn()
    joined, fetched = client.take()
    assert joined.error_code == 0
    assert fetched.error_code == 0


def test_no_more_than_a_hundred_requests_of_a_connection_are_decided_and_unanswered(core: BrokerCore) -> None:
    client = CoreClient(core)
    client.send(*((commit_request(core, "g", {("t", 0): n}), 8) for n in range(250)))
    assert len(client.connection.unanswered) == 100
    while core.end_turn():
        assert len(client.connection.unanswered) <= 100
    assert len(client.take()) == 250
    assert client.committed("g") == {("t", 0): 249}


def test_with_fsync_commit_no_answer_leaves_before_its_records_are_on_disk() -> None:
    disk = LateSync()
    core = make_core(sync=disk, fsync="commit")
    core.topics.create("t", 4)
    writer, reader = CoreClient(core), CoreClient(core)
    writer.send((commit_request(core, "g", {("t", 0): 1}), 8))
    writer.turn()
    assert writer.take() == []
    assert reader.committed("g") == {}  # reads see what is durable
    reader.send((messages.OffsetFetchRequest("g", None, require_stable=True), 7))
    reader.turn()
    writer.send((commit_request(core, "g", {("t", 0): 2}), 8))  # joins the next fsync, not the one under way
    writer.turn()
    disk.finish(core)
    (answer,) = writer.take()
    assert answer.topics[0].partitions[0].error_code == 0
    assert CoreClient(core).committed("g") == {("t", 0): 1}
    disk.finish(core)
    assert len(writer.take()) == 1
    (stable,) = reader.take()
    assert stable.topics[0].partitions[0].committed_offset in (1, 2)
    assert CoreClient(core).committed("g") == {("t", 0): 2}


def test_an_answer_without_records_waits_for_the_records_before_it() -> None:
    disk = LateSync()
    core = make_core(sync=disk, fsync="commit")
    core.topics.create("t", 4)
    one, two = CoreClient(core), CoreClient(core)
    one.send((commit_request(core, "g", {("t", 0): 1}), 8))
    one.turn()
    two.send((messages.HeartbeatRequest("g", 1, "m"), 3))
    two.turn()
    assert two.take() == []
    disk.finish(core)
    assert len(one.take()) == len(two.take()) == 1


def test_a_failed_fsync_is_final_and_the_shard_serves_no_more_requests() -> None:
    disk = LateSync()
    core = make_core(sync=disk, fsync="commit")
    core.topics.create("t", 4)
    client = CoreClient(core)
    client.send((commit_request(core, "g", {("t", 0): 1}), 8))
    client.turn()
    disk.finish(core, fails=True)
    (answer,) = client.take()
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert client.commit("g", {("t", 0): 2}) == {("t", 0): ErrorCode.NOT_COORDINATOR}
    assert core.shards.committed("g") == {}


def test_with_fsync_interval_answers_leave_at_once_and_the_disk_follows() -> None:
    disk = LateSync()
    core = make_core(sync=disk, fsync="interval", fsync_interval_ms=500)
    core.topics.create("t", 4)
    client = CoreClient(core)
    assert client.commit("g", {("t", 0): 1}) == {("t", 0): 0}
    assert disk.waiting == []
    core.clock.advance(500)  # type: ignore[attr-defined]
    core.run_due()
    core.end_turn()
    ((logs, _),) = disk.waiting
    assert logs == [core.topics.partition(OFFSETS_TOPIC, partition_for("g", 50)).log]  # type: ignore[union-attr]


def test_everything_acknowledged_is_there_after_a_restart() -> None:
    files = MemoryFiles()
    core = make_core(files)
    core.topics.create("t", 4)
    client = CoreClient(core)
    offsets = {("t", n): n * 10 for n in range(4)}
    for group in ("a", "b", ""):
        client.commit(group, offsets)
    client.call(messages.DeleteGroupsRequest(["b"]), 2)
    core.close()
    again = CoreClient(make_core(files))
    assert again.committed("a") == again.committed("") == offsets
    assert again.committed("b") == {}
    assert again.commit("a", {("t", 0): 99}) == {("t", 0): 0}
    again.core.close()
    assert CoreClient(make_core(files)).committed("a") == offsets | {("t", 0): 99}


def test_a_disk_that_is_full_refuses_a_commit_and_takes_the_next_once_there_is_space() -> None:
    files = FaultyFiles()
    core = make_core(files)
    core.topics.create("t", 4)
    client = CoreClient(core)
    assert client.commit("g", {("t", 0): 1}) == {("t", 0): 0}
    files.only = lambda operation, path: operation == "append" and path.startswith(OFFSETS_TOPIC)
    files.fail_at = len(files.calls) + 1
    assert client.commit("g", {("t", 0): 2}) == {("t", 0): ErrorCode.NOT_COORDINATOR}
    assert files.failed
    assert client.committed("g") == {("t", 0): 1}
    assert client.commit("g", {("t", 0): 3}) == {("t", 0): 0}
    assert client.committed("g") == {("t", 0): 3}
    again = make_core(files.survivors())
    assert {key: entry.offset for key, entry in again.shards.committed("g").items()} == {("t", 0): 3}


def test_a_request_whose_api_is_withheld_while_it_waits_is_answered_all_the_same() -> None:
    disk = LateSync()
    core = make_core(sync=disk, fsync="commit")
    core.topics.create("t", 1)
    client = CoreClient(core)
    client.send((commit_request(core, "g", {("t", 0): 1}), 8))
    client.turn()
    core.broker.apis = Apis(row for row in core.broker.apis if row.name != "OffsetCommit")
    while disk.waiting:
        disk.finish(core, fails=True)
    (answer,) = client.take()
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(core: BrokerCore, version: int) -> None:
    client = CoreClient(core)
    client.expected.append((7, "ApiVersions", 0))
    body = struct.pack(">hhihb", 18, version, 7, -1, 0) + b"anything"
    client.send_bytes(struct.pack(">i", len(body)) + body)
    client.turn()
    (answer,) = client.take()
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize(
    "header",
    [(999, 0), (-1, 0), (8, 99), (8, -1), (57, 1), (0, 2)],
    ids=[
        "unknown key",
        "negative key",
        "unknown version",
        "negative version",
        "not served",
        "advertised only",
    ],
)
def test_what_is_not_served_closes_the_connection(core: BrokerCore, header: tuple[int, int]) -> None:
    client = CoreClient(core)
    body = struct.pack(">hhih", *header, 7, -1) + bytes(20)
    client.send_bytes(struct.pack(">i", len(body)) + body)
    assert client.connection.closing
    assert client.take() == []


def test_a_bug_in_a_handler_is_answered_and_logged(
    core: BrokerCore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: object, **named: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("kafka_offsets.coordinator.offsets.requests._check_group", broken)
    client = CoreClient(core)
    assert client.commit("g", {("t", 0): 1}) == {("t", 0): ErrorCode.UNKNOWN_SERVER_ERROR}
    assert "OffsetCommit v8 failed" in caplog.text
    assert client.committed("g") == {}


def test_a_response_that_cannot_be_encoded_is_an_error_and_logged(
    core: BrokerCore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    encode, refused = responses.encode_response, []

    def encode_but_the_first(*arguments: Any, **named: Any) -> bytearray:
        if not refused:
            refused.append(arguments)
            raise ValueError("a bug")
        return encode(*arguments, **named)

    monkeypatch.setattr(responses, "encode_response", encode_but_the_first)
    client = CoreClient(core)
    (group,) = client.call(messages.DescribeGroupsRequest(["g"]), 5).groups
    assert group.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert f"{client.connection.peer}: the response to DescribeGroups v5 cannot be encoded" in caplog.text


def test_a_silent_connection_is_closed_after_the_idle_time() -> None:
    core = make_core(connections_max_idle_ms=10_000)
    silent, busy = CoreClient(core), CoreClient(core)
    for _ in range(4):
        core.clock.advance(4_000)  # type: ignore[attr-defined]
        busy.committed("g")
        core.run_due()
    assert silent.connection.closing
    assert not busy.connection.closing


def test_connections_that_are_closing_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manual clock that moved by a week looked at them 600,000 times, which took seconds."""
    core = make_core(connections_max_idle_ms=10_000)
    silent = CoreClient(core)
    core.clock.advance(10_000)  # type: ignore[attr-defined]
    core.run_due()
    assert silent.connection.closing
    looked = []
    monkeypatch.setattr(IdleConnections, "_close", lambda self, now: looked.append(now))
    for _ in range(20):
        core.clock.advance(1_000)  # type: ignore[attr-defined]
        core.run_due()
    assert looked == []


def test_the_profile_kafka_answers_the_first_find_coordinator_with_an_error_and_the_next_with_the_node() -> (
    None
):
    client = CoreClient(make_core(profile="kafka"))
    request = messages.FindCoordinatorRequest("g")
    first = client.call(request, 3)
    assert (first.error_code, first.node_id, first.host, first.port) == (15, -1, "", -1)
    assert client.call(request, 3).error_code == 0


@pytest.mark.parametrize(
    ("key_type", "version", "error"), [(0, 4, 0), (1, 4, 0), (2, 6, 30), (2, 5, 42), (3, 6, 42), (-1, 4, 42)]
)
def test_find_coordinator_answers_by_the_type_of_the_key(
    core: BrokerCore, key_type: int, version: int, error: int
) -> None:
    request = messages.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
    answer = CoreClient(core).call(request, version)
    assert [(c.key, c.error_code) for c in answer.coordinators] == [("a", error), ("b", error)]


def test_a_fetch_that_waits_at_the_end_of_the_offsets_topic_is_woken_by_a_commit(core: BrokerCore) -> None:
    writer, reader = CoreClient(core), CoreClient(core)
    writer.commit("g", {("t", 0): 1})
    partition = messages.FetchRequest.FetchPartition(
        partition_for("g", 50), fetch_offset=1, partition_max_bytes=1000
    )
    topic = messages.FetchRequest.FetchTopic(OFFSETS_TOPIC, partitions=[partition])
    reader.send((messages.FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[topic]), 11))
    reader.turn()
    assert reader.take() == []
    writer.commit("g", {("t", 0): 2})
    (answer,) = reader.take()
    assert answer.responses[0].partitions[0].high_watermark == 2


def test_cancelled_deadlines_do_not_pile_up(core: BrokerCore) -> None:
    kept = [core.scheduler.at(1 + n, lambda now: None) for n in range(100)]
    for _ in range(100_000):
        core.scheduler.at(20_000_000, lambda now: None).cancel()
    assert len(core.scheduler) < 2000
    assert core.next_deadline_ms == kept[0].due_ms


def test_a_group_id_that_fits_no_record_is_refused(core: BrokerCore) -> None:
    client = CoreClient(core)
    assert client.commit("x" * 32_767, {("t", 0): 1}) == {("t", 0): 0}
    assert client.commit("x" * 32_768, {("t", 0): 1}) == {("t", 0): ErrorCode.UNKNOWN_SERVER_ERROR}


def test_describe_groups_names_the_operations_only_when_asked(core: BrokerCore) -> None:
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1})
    asked = [
        client.call(messages.DescribeGroupsRequest(["g"], include), 5).groups[0].authorized_operations
        for include in (True, False)
    ]
    assert asked == [3400, -(2**31)]


def test_when_one_batch_of_a_turn_is_refused_so_are_the_decisions_after_it() -> None:
    files = FaultyFiles()
    core = make_core(files)
    core.topics.create("t", 2000)
    client = CoreClient(core)
    client.commit("g", {("t", 0): 0})
    files.only = lambda operation, path: operation == "append" and path.startswith(OFFSETS_TOPIC)
    files.fail_at = len(files.calls) + 2
    large = {("t", n): 1 for n in range(2000)}  # about six of these fill a batch
    client.send(*((commit_request(core, "g", large), 8) for _ in range(20)))
    client.turn()
    codes = [{p.error_code for topic in answer.topics for p in topic.partitions} for answer in client.take()]
    accepted = codes.index({ErrorCode.NOT_COORDINATOR})
    assert 0 < accepted < 20
    assert codes == [{0}] * accepted + [{ErrorCode.NOT_COORDINATOR}] * (20 - accepted)
    assert client.committed("g") == large


def test_the_refused_decisions_of_a_turn_are_undone_from_the_last_to_the_first() -> None:
    # Each undo restores what its own decision found: in another order the first decision of the turn would remain.
    files = FaultyFiles()
    client = CoreClient(make_core(files))
    topics = ("subscribed", "first", "second")
    for name in topics:
        client.core.topics.create(name, 1)
    heartbeat = messages.ConsumerGroupHeartbeatRequest
    joined = client.call(heartbeat("g", "m", 0, None, None, 60_000, [topics[0]], None, None, []), 1)
    assert joined.error_code == 0
    epoch = joined.member_epoch
    files.only = lambda operation, path: operation == "append" and path.startswith(OFFSETS_TOPIC)
    files.fail_at = len(files.calls) + 1
    senders = [CoreClient(client.core) for _ in range(2)]
    for sender, name in zip(senders, topics[1:], strict=True):
        sender.send((heartbeat("g", "m", epoch, subscribed_topic_names=[name]), 1))
    client.turn()
    codes = [answer.error_code for sender in senders for answer in sender.take()]
    assert codes == [ErrorCode.NOT_COORDINATOR] * 2
    after = client.call(heartbeat("g", "m", epoch), 1)
    assert (after.error_code, after.member_epoch, after.assignment) == (0, epoch, None), "nothing has changed"


def test_a_log_that_grew_before_a_crash_and_was_unused_in_the_next_run_has_all_records() -> None:
    # Found by restarting twice: the recovery point of a log that the second run never opened was from before the
    # crash, and its clean stop made that point look like the end of the log, which then seemed too long.
    files = FaultyFiles()
    core = make_core(files)
    core.topics.create("t", 1)
    log = core.topics.partition("t", 0).log  # type: ignore[union-attr]
    log.append(encode_batch([(b"k", b"one", (), 0)]))
    core.close()
    core = make_core(files)
    core.topics.partition("t", 0).log.append(encode_batch([(b"k", b"two", (), 0)]))  # type: ignore[union-attr]
    make_core(survivors := files.survivors()).close()
    core = make_core(survivors)
    assert core.topics.partition("t", 0).log.log_end_offset == 2  # type: ignore[union-attr]


def test_a_start_that_fails_gives_the_directory_free() -> None:
    files = FaultyFiles()
    core = make_core(files)
    core.topics.create("t", 1)
    CoreClient(core).commit("g", {("t", 0): 1})
    hosted = core.runtime.shard_of("g", core.clock.now())
    hosted.log.append(encode_batch([(b"\x00\x01", b"no key of an offset", (), 0)]))
    broken = files.survivors()
    for _ in range(2):
        with pytest.raises(StorageError, match="record 1 of the offsets topic") as caught:
            make_core(broken)
        assert caught.value.path == f"{hosted.log.directory}/00000000000000000000.log"
        assert caught.value.position


def produce_request(topic: str, records: bytes, *, acks: int = 1) -> messages.ProduceRequest:
    request = messages.ProduceRequest
    data = request.TopicProduceData(topic, partition_data=[request.PartitionProduceData(0, records)])
    return request(None, acks, 1000, [data])


@pytest.mark.parametrize("closes", ["a size that no frame has", "an error with acks=0"])
def test_what_closes_a_connection_takes_no_answer_along(core: BrokerCore, closes: str) -> None:
    client, records = CoreClient(core), bytes(encode_batch([(b"k", b"v", (), 0)]))
    last = struct.pack(">i", -5)
    if closes != "a size that no frame has":
        last = client.frame(produce_request("unknown", records, acks=0), 9)
        client.expected.clear()
    frames = [client.frame(produce_request("t", records), 9) for _ in range(3)]
    client.send_bytes(b"".join(frames) + last)
    assert client.connection.closing
    answers = [
        answer.responses[0].partition_responses[0] for answer in client.take()
    ]  # at once: it may be flushed
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 1), (0, 2)]


def test_responses_to_a_peer_whose_records_are_refused_and_that_reads_nothing_are_bounded() -> None:
    core = make_core(fsync="never")
    topic_admin.create_topic(core.broker, "c" * 200, 1, {"cleanup.policy": "compact"})
    client, keyless = CoreClient(core), bytes(encode_batch([(None, b"", (), 0)] * 100))
    client.send(*((produce_request("c" * 200, keyless), 9) for _ in range(300)))
    while core.end_turn():
        pass
    assert 1 << 20 <= client.connection.output_bytes < 2 << 20


def test_a_peer_that_asks_for_much_and_reads_nothing_is_not_answered_without_end(core: BrokerCore) -> None:
    client = CoreClient(core)
    log = core.topics.partition("t", 0).log  # type: ignore[union-attr]
    log.append(encode_batch([(b"k", bytes(500_000), (), 0)]))
    asked = messages.FetchRequest.FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = messages.FetchRequest(
        max_bytes=1 << 20, topics=[messages.FetchRequest.FetchTopic("t", partitions=[asked])]
    )
    client.send(*((request, 11) for _ in range(100)))
    while core.end_turn():
        pass
    assert client.connection.output_bytes < 2 << 20
    answers = client.take()
    client.connection.is_blocked = True  # the peer's own buffers are full
    client.turn()
    assert client.connection.output == []
    client.connection.is_blocked = False
    core.responses.unblock(client.connection)
    while len(answers) < 100:
        client.turn()
        answers += client.take()
    assert all(answer.responses[0].partitions[0].error_code == 0 for answer in answers)


@pytest.mark.slow
def test_decided_requests_are_bounded_in_bytes() -> None:
    disk = LateSync()
    core = make_core(sync=disk, fsync="commit")
    core.topics.create("t", 2000)
    client = CoreClient(core)
    large = {("t", n): 1 for n in range(2000)}
    client.send((commit_request(core, "g", {("t", 0): 1}), 8))
    client.turn()
    client.send(
        *((commit_request(core, "g", large), 8) for _ in range(100)), (commit_request(core, "g", {}), 8)
    )
    frame = client.connection.unanswered[-1].frame_bytes
    assert client.connection.decided_bytes < (4 << 20) + frame
    while client.expected:
        client.turn()
        if disk.waiting:
            disk.finish(core)
        client.take()
    assert client.connection.decided_bytes == 0
    assert CoreClient(core).committed("g") == large


def test_no_request_waits_for_a_shard_whose_log_has_failed() -> None:
    disk = LateSync()
    core = make_core(sync=disk, fsync="commit")
    core.topics.create("t", 4)
    client, reader = CoreClient(core), CoreClient(core)
    client.send((commit_request(core, "g", {("t", 0): 1}), 8))
    client.turn()
    reader.send((messages.OffsetFetchRequest("g", None, require_stable=True), 7))
    reader.turn()
    disk.finish(core, fails=True)
    (stable,) = reader.take()
    assert stable.error_code == ErrorCode.NOT_COORDINATOR
    deleted = reader.call(messages.DeleteGroupsRequest(["g"]), 2)
    assert deleted.results[0].error_code == ErrorCode.NOT_COORDINATOR
    for version in (1, 7, 8):
        request = messages.OffsetFetchRequest()
        if version < 8:
            request.group_id, request.topics = "g", [messages.OffsetFetchRequest.Topic("t", [0])]
        else:
            request.groups = [messages.OffsetFetchRequest.Group("g", topics=None)]
        answer = reader.call(request, version)
        codes = [answer.error_code, *(g.error_code for g in answer.groups)]
        codes += [p.error_code for t in answer.topics for p in t.partitions]
        assert ErrorCode.NOT_COORDINATOR in codes, version
    described = reader.call(messages.DescribeGroupsRequest(["g"]), 5)
    assert described.groups[0].error_code == ErrorCode.NOT_COORDINATOR


def test_a_duplicate_of_a_batch_whose_fsync_failed_is_not_acknowledged() -> None:
    disk = LateSync()
    core = make_core(sync=disk, fsync="commit")
    core.topics.create("t", 1)
    batch = bytes(encode_batch([(b"k", b"v", (), 0)], producer_id=7, producer_epoch=0, base_sequence=0))
    produce = messages.ProduceRequest
    data = produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(0, batch)])
    client = CoreClient(core)
    for fails in (True, False):
        client.send((produce(acks=-1, timeout_ms=1000, topic_data=[data]), 9))
        client.turn()
        while disk.waiting:
            disk.finish(core, fails=fails)
            core.topics.partition("t", 0).log._failure = StorageError("fsync failed")  # type: ignore[union-attr]
        (answer,) = client.take()
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_decision_that_fits_no_batch_is_refused_and_others_of_its_turn_are_not(core: BrokerCore) -> None:
    core = make_core(message_max_bytes=20_000)
    core.topics.create("t", 1000)
    client = CoreClient(core)
    small, large = {("t", 0): 1}, {("t", n): 2 for n in range(1000)}
    client.send(*((commit_request(core, "g", each), 8) for each in (small, large)))
    client.turn()
    fine, refused = client.take()
    assert fine.topics[0].partitions[0].error_code == 0
    assert {p.error_code for p in refused.topics[0].partitions} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert client.committed("g") == small


def test_deleting_the_offsets_topic_does_not_create_it_again(core: BrokerCore) -> None:
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1})
    topics = [messages.DeleteTopicsRequest.DeleteTopicState(OFFSETS_TOPIC)]
    client.call(messages.DeleteTopicsRequest(topics, timeout_ms=1000), 6)
    assert core.topics.get(OFFSETS_TOPIC) is None
    assert core.shards.committed("g") == {}
    assert client.commit("g", {("t", 0): 2}) == {("t", 0): 0}


def test_a_header_that_does_not_parse_is_reported_with_its_api(
    core: BrokerCore, caplog: pytest.LogCaptureFixture
) -> None:
    client = CoreClient(core)
    body = struct.pack(">hhih", 8, 8, 7, 100) + b"short"
    client.send_bytes(struct.pack(">i", len(body)) + body)
    assert "OffsetCommit v8, header: the client id extends past the end of the frame at byte 8" in caplog.text


def test_the_log_says_what_of_a_directory_of_kafka_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """Its ACLs, quotas and passwords were gone without a word: with an authorizer of Kafka nothing was forbidden."""
    files = MemoryFiles()
    files.make_directory("__cluster_metadata-0")
    core = BrokerCore(Config(), files)
    core.topics.create("t", 1)
    core.close()
    assert [line for line in caplog.messages if "metadata log, __cluster_metadata-0" in line]
    caplog.clear()
    BrokerCore(Config(), files).close()
    assert caplog.messages == [], "it was said once"
    points = decode_offsets(files.read_all(RECOVERY_POINT_CHECKPOINT), RECOVERY_POINT_CHECKPOINT)
    del points[GAPS_BEFORE]
    files.replace_atomically(RECOVERY_POINT_CHECKPOINT, encode_offsets(points))
    BrokerCore(Config(), files).close()
    assert len(caplog.messages) == 1, "Kafka has used it since"
