"""Shards that are loaded while the broker serves: what clients hear meanwhile, and what has become of it afterwards."""

import threading
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import Broker
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.groups import loading, repair
from kafka_offsets.broker.turn.workers import Done, Work, run_inline
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.result import CoordinatorRecord
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log
from tests.broker.core.test_core import LateSync
from tests.drivers.core import CoreClient, commit_request, make_core
from tests.drivers.members import stable, turn
from tests.drivers.raw_files import flip, raw
from tests.drivers.wire import Connection, offset_commit, offset_commit_errors
from tests.storage.batches import write

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
LOG = "__consumer_offsets-0/00000000000000000000.log"


class LateBackground:
    """A thread that works when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Work, Done]] = []
        self.done = 0

    def __call__(self, work: Work, done: Done) -> None:
        self.waiting.append((work, done))

    def run(self, core: BrokerCore) -> None:
        waiting, self.waiting = self.waiting, []
        for work, done in waiting:
            run_inline(work, done)
        self.done += len(waiting)
        core.end_turn()

    def run_all(self, core: BrokerCore) -> None:
        while self.waiting:
            self.run(core)


def stopped_files(**config: object) -> MemoryFiles:
    """Return a directory with a group g, stable with one member, and offsets of it and of a group s."""
    core = make_core(clock=ManualClock(), offsets_topic_num_partitions=1, **config)
    core.topics.create("t", 4)
    (member,) = stable(core, [b""])
    assert member.commit({("t", 0): 1, ("t", 1): 2}) == {("t", 0): 0, ("t", 1): 0}
    client = CoreClient(core)
    assert client.commit("s", {("t", 0): 10}) == {("t", 0): 0}
    core.close()
    files = core.directory.files
    assert isinstance(files, MemoryFiles)
    return files


def starting(files: MemoryFiles, background: LateBackground, **config: object) -> BrokerCore:
    keys = {name.replace("_", "."): value for name, value in config.items()}
    keys["offsets.load.before.listening.bytes"] = 0
    return BrokerCore(Config.load(keys), files, ManualClock(), background=background)


def offset_fetch(core: BrokerCore, group: str, version: int = 7) -> messages.OffsetFetchResponse:
    return CoreClient(core).call(messages.OffsetFetchRequest(group, None), version)


def test_while_a_shard_is_loaded_requests_get_a_retriable_error_and_no_session_is_lost() -> None:
    background = LateBackground()
    core = starting(stopped_files(), background)
    client = CoreClient(core)
    assert client.call(messages.HeartbeatRequest("g", 1, "m"), 3).error_code == 0
    assert client.call(messages.LeaveGroupRequest("g", "m"), 2).error_code == LOADING
    assert client.call(messages.SyncGroupRequest("g", 1, "m"), 3).error_code == LOADING
    assert client.call(messages.JoinGroupRequest("g", 10_000, 10_000, ""), 3).error_code == LOADING
    assert client.call(messages.ListGroupsRequest(), 4).error_code == LOADING
    assert client.call(messages.OffsetDeleteRequest("g"), 0).error_code == LOADING
    assert client.commit("s", {("t", 0): 11}) == {("t", 0): LOADING}
    assert offset_fetch(core, "s").error_code == LOADING
    (described,) = client.call(messages.DescribeGroupsRequest(["g"]), 4).groups
    assert described.error_code == LOADING
    (deleted,) = client.call(messages.DeleteGroupsRequest(["s"]), 1).results
    assert deleted.error_code == LOADING
    with pytest.raises(RuntimeError, match="group s are being loaded"):
        core.shards.committed("s")
    background.run(core)
    assert client.committed("s") == {("t", 0): 10}
    (described,) = client.call(messages.DescribeGroupsRequest(["g"]), 4).groups
    assert described.group_state == "Stable"


@pytest.mark.parametrize("is_clean", [True, False])
def test_caches_of_earlier_versions_are_removed_and_change_nothing(is_clean: bool) -> None:
    """They may be of any log: one whose end was lost, or that was compacted since."""
    files = stopped_files()
    caches = {"coordinator-snapshot": b"KOffSnap\2\0", "segments-summary": b"KOffSegs\1\0"}
    for number, (name, magic) in enumerate(caches.items()):
        for end in ("", ".tmp"):
            write(files, f"__consumer_offsets-0/{name}{end}", magic + bytes([1 + number]) * 1000)
    if not is_clean:
        files.remove(".kafka_cleanshutdown")
    for offset in (10, 11, 12):  # recover, write, die again
        files = MemoryFiles.copy_of(files)
        core = make_core(files)
        assert not [
            name for name in files.list_directory("__consumer_offsets-0") if name.startswith(tuple(caches))
        ]
        client = CoreClient(core)
        assert (client.committed("g"), client.committed("s")) == (
            {("t", 0): 1, ("t", 1): 2},
            {("t", 0): offset},
        )
        assert client.commit("s", {("t", 0): offset + 1}) == {("t", 0): 0}


def test_short_logs_are_loaded_before_the_broker_listens() -> None:
    files = stopped_files()
    background = LateBackground()
    core = BrokerCore(Config.load({}), files, ManualClock(), background=background)
    assert background.waiting == []
    assert CoreClient(core).committed("s") == {("t", 0): 10}


def test_partitions_are_loaded_at_once_as_far_as_their_bytes_go() -> None:
    core = make_core(offsets_topic_num_partitions=3)
    core.topics.create("t", 1)
    client = CoreClient(core)
    groups = "cab"  # of the partitions 0, 1 and 2
    for name in groups:
        client.commit(name, {("t", 0): 1})
    size = core.runtime.shards[0].log.size
    core.close()
    background = LateBackground()
    config = Config.load({"offsets.load.before.listening.bytes": size})
    files = core.directory.files
    again = BrokerCore(config, files, ManualClock(), background=background)
    client = CoreClient(again)
    assert [offset_fetch(again, name).error_code for name in groups] == [0, LOADING, LOADING]
    background.run_all(again)
    assert {client.committed(name)["t", 0] for name in groups} == {1}


def logs_of_three_lengths() -> MemoryFiles:
    """Return a directory in which the log of group c is the longest and that of group b the shortest."""
    core = make_core(offsets_topic_num_partitions=3)
    core.topics.create("t", 1)
    for name, commits in (("c", 9), ("a", 5), ("b", 1)):  # of the partitions 0, 1 and 2
        for _ in range(commits):
            CoreClient(core).commit(name, {("t", 0): 1})
    core.close()
    files = core.directory.files
    assert isinstance(files, MemoryFiles)
    return files


def served(core: BrokerCore) -> list[str]:
    return [name for name in "abc" if offset_fetch(core, name).error_code != LOADING]


def test_the_shortest_log_is_loaded_first() -> None:
    background = LateBackground()
    core = starting(logs_of_three_lengths(), background)
    loaded = []
    while background.waiting:
        run_inline(*background.waiting.pop(0))
        loaded.append(served(core))
    assert loaded == [["b"], ["a", "b"], ["a", "b", "c"]]


def test_the_shortest_logs_are_loaded_before_the_broker_listens() -> None:
    files = logs_of_three_lengths()
    sizes = {path: content.size for path, content in files._contents.items() if path.endswith(".log")}
    background = LateBackground()
    keys = {"offsets.load.before.listening.bytes": max(sizes.values())}
    core = BrokerCore(Config.load(keys), files, ManualClock(), background=background)
    assert served(core) == ["a", "b"]


def test_a_log_does_not_wait_for_a_longer_one_that_is_being_loaded() -> None:
    background = LateBackground()
    core = starting(logs_of_three_lengths(), background)
    background.run_all(core)
    longest, middle, shortest = core.runtime.start(3, core.clock.now(), [0, 1, 2])[::-1]
    core.loader.load(longest)
    core.loader.load(middle)
    core.loader.load(shortest)
    assert served(core) == []
    assert len(background.waiting) == 3
    while background.waiting:  # the last that began ends first
        run_inline(*background.waiting.pop())
    assert served(core) == ["a", "b", "c"]


def test_a_log_waits_for_a_shorter_one_that_is_being_loaded() -> None:
    background = LateBackground()
    core = starting(logs_of_three_lengths(), background)
    background.run_all(core)
    shortest, middle, longest = core.runtime.start(3, core.clock.now(), [0, 1, 2])
    core.loader.load(shortest)
    core.loader.load(longest)
    core.loader.load(middle)
    assert len(background.waiting) == 1
    background.run_all(core)
    assert served(core) == ["a", "b", "c"]


def test_after_loading_a_member_continues_in_its_generation_with_a_fresh_session() -> None:
    background = LateBackground()
    core = starting(stopped_files(), background)
    assert isinstance(core.clock, ManualClock)
    core.clock.advance(3_600_000)
    background.run(core)
    (member,) = CoreClient(core).call(messages.DescribeGroupsRequest(["g"]), 4).groups[0].members
    beat = messages.HeartbeatRequest("g", 1, member.member_id)
    assert CoreClient(core).call(beat, 3).error_code == 0
    core.clock.advance(10_000)
    turn(core)
    assert CoreClient(core).call(beat, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_is_fresh_after_a_load_that_took_longer_than_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    background = LateBackground()
    core = starting(stopped_files(), background)
    clock = core.clock
    assert isinstance(clock, ManualClock)
    load = loading.load

    def slow(*arguments: Any) -> None:
        load(*arguments)
        clock.advance(60_000)

    monkeypatch.setattr(loading, "load", slow)
    background.run(core)
    turn(core)
    (described,) = CoreClient(core).call(messages.DescribeGroupsRequest(["g"]), 4).groups
    assert described.group_state == "Stable"


# offsets.commit.while.loading


def test_what_damage_hides_is_not_reported_again_after_a_later_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = stopped_files()
    core = make_core(files)
    client = CoreClient(core)
    position = core.runtime.shards[0].log.size
    client.commit("s", {("t", 0): 11})
    client.commit("s", {("t", 1): 11})
    core.close()
    data = bytearray(files.read_all(LOG))
    data[position + 110] ^= 1
    write(files, LOG, data)
    background = LateBackground()
    core = starting(files, background, offsets_commit_while_loading=True, recovery="keep-valid")
    client = CoreClient(core)
    records_in_force = repair.records_in_force

    def and_a_commit(log: Log, shard: Shard) -> list[CoordinatorRecord]:
        found = records_in_force(log, shard)
        assert [record.key for record in found] == [stored.offset_key("s", "t", 0)]
        assert client.commit("s", {("t", 0): 12}) == {("t", 0): 0}
        return found

    monkeypatch.setattr(repair, "records_in_force", and_a_commit)
    background.run(core)
    assert client.committed("s") == {("t", 0): 12, ("t", 1): 11}
    monkeypatch.undo()
    core.close()
    assert CoreClient(make_core(files)).committed("s") == {("t", 0): 12, ("t", 1): 11}


def test_a_commit_while_offsets_are_loaded_replaces_the_loaded_one() -> None:
    background = LateBackground()
    core = starting(stopped_files(), background, offsets_commit_while_loading=True)
    client = CoreClient(core)
    assert client.commit("s", {("t", 0): 11}) == {("t", 0): LOADING}, "the log may still be read anew"
    hosted = core.runtime.shards[0]
    results = core.runtime.load(hosted, core.clock.now)  # as far as the thread has come
    assert client.commit("s", {("t", 0): 11, ("t", 2): 12}) == {("t", 0): 0, ("t", 2): 0}
    assert client.commit("s", {("t", 0): 13}) == {("t", 0): 0}
    assert client.commit("new", {("t", 3): 1}) == {("t", 3): 0}
    assert offset_fetch(core, "s").error_code == LOADING
    hosted.finish_loading(results)
    assert client.committed("s") == {("t", 0): 13, ("t", 2): 12}
    assert client.committed("new") == {("t", 3): 1}
    core.close()
    assert CoreClient(make_core(core.directory.files)).committed("s") == {("t", 0): 13, ("t", 2): 12}


def test_members_that_are_not_loaded_yet_commit_as_well() -> None:
    core = starting(stopped_files(), LateBackground(), offsets_commit_while_loading=True)
    hosted = core.runtime.shards[0]
    results = core.runtime.load(hosted, core.clock.now)
    fields = {"generation_id_or_member_epoch": 1, "member_id": "m"}
    client = CoreClient(core)
    assert client.commit("g", {("t", 0): 5, ("u", 0): 5}, **fields) == {
        ("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 0): 0,
    }
    hosted.finish_loading(results)
    assert client.committed("g") == {("t", 0): 5, ("t", 1): 2}
    assert client.commit("g", {("t", 0): 5}, **fields) == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_condition_waits_for_what_it_is_compared_with() -> None:
    core = starting(stopped_files(), LateBackground(), offsets_commit_while_loading=True)
    core.runtime.load(core.runtime.shards[0], core.clock.now)
    request = commit_request(core, "s", {("t", 0): 11}, 9)
    conditions.put(request.topics[0].partitions[0], 10)
    (topic,) = CoreClient(core).call(request, 9).topics
    assert topic.partitions[0].error_code == LOADING


def test_a_commit_that_is_still_on_its_way_to_the_disk_when_loading_ends_takes_effect() -> None:
    files = stopped_files()
    sync = LateSync()
    keys = {"offsets.load.before.listening.bytes": 0, "offsets.commit.while.loading": True, "fsync": "commit"}
    core = BrokerCore(Config.load(keys), files, ManualClock(), sync, LateBackground())
    hosted = core.runtime.shards[0]
    results = core.runtime.load(hosted, core.clock.now)
    client = CoreClient(core)
    client.send((commit_request(core, "s", {("t", 0): 11}), 8))
    core.end_turn()
    hosted.finish_loading(results)
    assert core.shards.committed("s")["t", 0].offset == 10
    sync.finish(core)
    assert core.shards.committed("s")["t", 0].offset == 11
    assert client.take()[0].topics[0].partitions[0].error_code == 0


# What goes wrong


def test_a_shard_that_cannot_be_loaded_serves_no_client_and_the_broker_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = stopped_files()
    background = LateBackground()
    core = starting(files, background)
    flip(files, LOG, 70)
    background.run(core)
    assert "__consumer_offsets-0 cannot be loaded, its groups are not served" in caplog.text
    assert f"{LOG} at byte 0: damaged batch" in caplog.text
    client = CoreClient(core)
    assert offset_fetch(core, "s").error_code == ErrorCode.NOT_COORDINATOR
    assert client.commit("s", {("t", 0): 11}) == {("t", 0): ErrorCode.NOT_COORDINATOR}
    assert client.call(messages.ListGroupsRequest(), 4).groups == []
    assert client.call(messages.MetadataRequest(None), 1).topics


def test_what_loading_has_missed_loses_one_shard(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    background = LateBackground()
    core = starting(stopped_files(), background)
    monkeypatch.setattr(loading, "load", fail)
    background.run(core)
    assert "ZeroDivisionError" in caplog.text
    assert offset_fetch(core, "s").error_code == ErrorCode.NOT_COORDINATOR


def test_the_offsets_topic_may_be_deleted_in_the_meantime() -> None:
    background = LateBackground()
    core = starting(stopped_files(), background)
    client = CoreClient(core)
    topics = [messages.DeleteTopicsRequest.DeleteTopicState("__consumer_offsets")]
    assert client.call(messages.DeleteTopicsRequest(topics, timeout_ms=1000), 6).responses[0].error_code == 0
    background.run(core)
    assert client.committed("s") == {}
    assert client.commit("s", {("t", 0): 1}) == {("t", 0): 0}


def test_a_topic_that_is_deleted_in_the_meantime_takes_its_offsets_along() -> None:
    background = LateBackground()
    core = starting(stopped_files(), background)
    client = CoreClient(core)
    topics = [messages.DeleteTopicsRequest.DeleteTopicState("t")]
    assert client.call(messages.DeleteTopicsRequest(topics, timeout_ms=1000), 6).responses[0].error_code == 0
    background.run(core)
    for _ in range(3):
        turn(core)
    assert client.committed("s") == client.committed("g") == {}


def test_a_broker_stops_while_it_loads_and_loads_again() -> None:
    files = stopped_files()
    content = raw(files, LOG)
    background = LateBackground()
    core = starting(files, background)
    core.loader.abandon()
    background.run(core)
    assert offset_fetch(core, "s").error_code == LOADING
    core.close()
    assert raw(files, LOG) == content
    assert CoreClient(make_core(files)).committed("s") == {("t", 0): 10}


def test_the_replay_of_a_log_ends_when_it_is_cancelled() -> None:
    core = starting(stopped_files(), LateBackground())
    with pytest.raises(loading.LoadAbandonedError):
        core.runtime.load(core.runtime.shards[0], core.clock.now, [True])


def test_a_broker_answers_while_a_thread_of_its_own_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker({"offsets.topic.num.partitions": 1}, data_directory=tmp_path) as broker:
        broker.create_topic("t", 1)
        with Connection(broker.bootstrap_servers) as wire:
            wire.socket.sendall(offset_commit(1, "s", "t", 10, 1))
            assert offset_commit_errors(wire.receive(), "t") == {0}
    may_load, load = threading.Event(), loading.load

    def load_later(*arguments: Any) -> None:
        assert may_load.wait(30)
        load(*arguments)

    monkeypatch.setattr(loading, "load", load_later)
    keys = {"offsets.load.before.listening.bytes": 0}
    with Broker(keys, data_directory=tmp_path) as broker, Connection(broker.bootstrap_servers) as wire:
        assert wire.fetch_offsets("s", "t", 1) == LOADING
        may_load.set()
        while (found := wire.fetch_offsets("s", "t", 1)) == LOADING:
            pass
        assert found == {0: (10, "10")}
