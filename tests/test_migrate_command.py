"""`kafka-offsets offsets migrate`: between a data directory and ZooKeeper, interrupted at every point and repeated."""

import itertools
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

import kafka_offsets
from kafka_offsets import cli
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.nodes.metadata_file import MetadataFile
from kafka_offsets.clock import ManualClock
from kafka_offsets.commands.groups.migrate import (
    Migrated,
    MigrationOptions,
    cluster_to_zookeeper,
    to_log,
    to_zookeeper,
)
from kafka_offsets.errors import StorageError
from kafka_offsets.metadata.controller import Controller, PlacedTopic
from kafka_offsets.metadata.image import TopicPartition
from kafka_offsets.protocol import messages
from kafka_offsets.replication.elections import IsrProposal
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles
from kafka_offsets.storage.log.log import Log
from kafka_offsets.zookeeper.blocking import BlockingZooKeeper
from kafka_offsets.zookeeper.operations import UnavailableError
from kafka_offsets.zookeeper.requests import Request
from tests.drivers.core import CoreClient, commit_request
from tests.drivers.zookeeper import MemoryServer, MemoryZooKeeper
from tests.drivers.zookeeper_core import ZooKeeperCore

EXECUTE = MigrationOptions(execute=True)
CONFIG = Config.load({"offsets.topic.num.partitions": 3})
Offsets = dict[str, dict[tuple[str, int], int]]

SOURCE: Offsets = {
    "a": {("t", 0): 1, ("t", 3): 30, ("u", 0): 7},
    "b": {("t", 1): 2},
    "c": {("t", partition): partition * 10 for partition in range(10)},
}


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several writes for one group, so that a run can end between them."""
    monkeypatch.setattr("kafka_offsets.commands.groups.migrate._TOGETHER", 2)


def zookeeper(
    server: MemoryServer, before: Callable[[Request], None] = lambda request: None
) -> BlockingZooKeeper:
    client = MemoryZooKeeper(server, before=before)

    return BlockingZooKeeper(lambda post: client, 0.01)


def log_with(offsets: Offsets, files: Files | None = None) -> Files:
    """Return the files of a stopped broker whose log has these offsets."""
    broker = ZooKeeperCore(files=files, offset_storage="log", offsets_topic_num_partitions=3)
    if broker.core.topics.get("u") is None:
        broker.core.topics.create("u", 1)
    client = CoreClient(broker.core)
    for group, wanted in offsets.items():
        assert set(client.commit(group, wanted).values()) == {0}
    broker.core.close()
    return broker.core.directory.files


def in_log(files: Files, groups: Any = SOURCE) -> Offsets:
    """Return what a broker on these files serves."""
    broker = ZooKeeperCore(files=files, offset_storage="log")
    client = CoreClient(broker.core)
    found = {group: client.committed(group) for group in groups}
    broker.core.close()
    return {group: offsets for group, offsets in found.items() if offsets}


def server_with(offsets: Offsets) -> MemoryServer:
    server = MemoryServer()
    for group, wanted in offsets.items():
        for (topic, partition), offset in wanted.items():
            server.put(f"/consumers/{group}/offsets/{topic}/{partition}", str(offset))
    return server


def in_zookeeper(server: MemoryServer) -> Offsets:
    found: Offsets = {}
    for path, text in server.texts().items():
        group, _, topic, partition = path.split("/")
        found.setdefault(group, {})[topic, int(partition)] = int(text)
    return found


def totals(found: Iterator[Migrated]) -> Migrated:
    """Return the sum of a run, which is the last result."""
    *groups, total = found
    assert total.group == "in all"
    assert total.copied == sum(each.copied for each in groups)
    return total


def now() -> Any:
    return ManualClock().now()


# --- whole runs


def test_the_log_is_copied_to_zookeeper() -> None:
    files, server = log_with(SOURCE), MemoryServer()
    assert totals(to_zookeeper(files, CONFIG, zookeeper(server), EXECUTE)).copied == 14
    assert in_zookeeper(server) == SOURCE
    again = totals(to_zookeeper(files, CONFIG, zookeeper(server), EXECUTE))
    assert (again.copied, again.present) == (0, 14)
    assert in_log(files) == SOURCE


def test_zookeeper_is_copied_to_the_log() -> None:
    files, server = MemoryFiles(), server_with(SOURCE)
    assert totals(to_log(files, CONFIG, zookeeper(server), EXECUTE, now)).copied == 14
    assert in_log(files) == SOURCE
    again = totals(to_log(files, CONFIG, zookeeper(server), EXECUTE, now))
    assert (again.copied, again.present) == (0, 14)
    assert in_zookeeper(server) == SOURCE


def test_there_and_back_is_the_same() -> None:
    files, server, other = log_with(SOURCE), MemoryServer(), MemoryFiles()
    totals(to_zookeeper(files, CONFIG, zookeeper(server), EXECUTE))
    totals(to_log(other, CONFIG, zookeeper(server), EXECUTE, now))
    assert in_log(other) == SOURCE


@pytest.mark.parametrize("direction", ["to zookeeper", "to log"])
def test_without_execute_nothing_is_written(direction: str) -> None:
    files, server = (
        (log_with(SOURCE), MemoryServer())
        if direction == "to zookeeper"
        else (MemoryFiles(), server_with(SOURCE))
    )
    before = dict(server.nodes)
    if direction == "to zookeeper":
        total = totals(to_zookeeper(files, CONFIG, zookeeper(server), MigrationOptions()))
    else:
        total = totals(to_log(files, CONFIG, zookeeper(server), MigrationOptions(), now))
        assert not [name for name in files.list_directory("") if name.startswith("__consumer_offsets")]
    assert total.copied == 14
    assert "14 to copy" in total.line(executes=False)
    assert server.nodes == before


def test_only_the_named_groups_are_copied() -> None:
    server = MemoryServer()
    totals(to_zookeeper(log_with(SOURCE), CONFIG, zookeeper(server), EXECUTE._replace(groups=("b",))))
    assert in_zookeeper(server) == {"b": SOURCE["b"]}
    files = MemoryFiles()
    totals(to_log(files, CONFIG, zookeeper(server_with(SOURCE)), EXECUTE._replace(groups=("b",)), now))
    assert in_log(files) == {"b": SOURCE["b"]}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("direction", ["to zookeeper", "to log"])
def test_offsets_that_differ_are_replaced_only_on_request(direction: str, overwrite: bool) -> None:
    other: Offsets = {"b": {("t", 1): 99}, "own": {("t", 0): 5}}
    options = EXECUTE._replace(overwrite=overwrite)
    if direction == "to zookeeper":
        server = server_with(other)
        total = totals(to_zookeeper(log_with(SOURCE), CONFIG, zookeeper(server), options))
        found = in_zookeeper(server)
    else:
        files = log_with(other)
        total = totals(to_log(files, CONFIG, zookeeper(server_with(SOURCE)), options, now))
        found = in_log(files, [*SOURCE, "own"])
    assert (total.copied, total.different) == ((14, 0) if overwrite else (13, 1))
    assert total.is_whole is overwrite
    kept_offset = 2 if overwrite else 99
    assert found == {**SOURCE, "b": {("t", 1): kept_offset}, "own": {("t", 0): 5}}


# --- what cannot be copied


def test_a_group_without_a_name_for_a_znode_is_skipped_and_the_others_are_copied() -> None:
    server = MemoryServer()
    total = totals(
        to_zookeeper(log_with(SOURCE | {"x/y": {("t", 0): 1}}), CONFIG, zookeeper(server), EXECUTE)
    )
    assert (total.copied, total.skipped, total.is_whole) == (14, 1, False)
    assert in_zookeeper(server) == SOURCE


def test_a_group_with_live_consumers_in_zookeeper_is_skipped() -> None:
    server = server_with(SOURCE)
    server.put("/consumers/b/ids/b_host-1", "{}")
    files = MemoryFiles()
    results = {each.group: each for each in to_log(files, CONFIG, zookeeper(server), EXECUTE, now)}
    assert results["b"].skipped == 1 and "alive" in results["b"].line(executes=True)
    assert "b" not in in_log(files)


def test_a_znode_that_holds_no_offset_skips_its_group() -> None:
    server = server_with(SOURCE)
    server.put("/consumers/b/offsets/t/1", "x")
    files = MemoryFiles()
    results = {each.group: each for each in to_log(files, CONFIG, zookeeper(server), EXECUTE, now)}
    assert "/consumers/b/offsets/t/1" in results["b"].reason
    assert in_log(files) == {group: offsets for group, offsets in SOURCE.items() if group != "b"}


def test_offsets_of_an_open_transaction_are_reported() -> None:
    broker = ZooKeeperCore(offset_storage="log")
    client = CoreClient(broker.core)
    made = client.call(messages.InitProducerIdRequest("tx", 60_000), 4)
    producer = made.producer_id, made.producer_epoch
    client.call(messages.AddOffsetsToTxnRequest("tx", *producer, "g"), 3)
    request = messages.TxnOffsetCommitRequest
    client.call(request("tx", "g", *producer, topics=[request.Topic("t", [request.Partition(0, 5)])]), 3)
    broker.core.close()
    server = MemoryServer()
    total = totals(to_zookeeper(broker.core.directory.files, CONFIG, zookeeper(server), EXECUTE))
    assert (total.copied, total.skipped) == (0, 1)


def test_a_directory_that_a_broker_uses_is_refused() -> None:
    broker = ZooKeeperCore(offset_storage="log")
    CoreClient(broker.core).commit("g", {("t", 0): 1})
    with pytest.raises(StorageError):
        list(to_zookeeper(broker.core.directory.files, CONFIG, zookeeper(MemoryServer()), EXECUTE))


def test_a_directory_without_offsets_is_refused() -> None:
    with pytest.raises(StorageError, match="no offsets topic"):
        list(to_zookeeper(MemoryFiles(), CONFIG, zookeeper(MemoryServer()), EXECUTE))


# --- interrupted runs


class _KilledError(Exception):
    """The process ends here."""


def _survived() -> AbstractContextManager[None]:
    """The test continues when the run is killed."""
    return suppress(_KilledError)


def killing(number: int) -> tuple[Callable[..., None], Callable[[], bool]]:
    """Return a hook that ends the run at its n-th call, and whether it has."""
    count = itertools.count(1)
    happened = []

    def hook(*arguments: Any) -> None:
        if next(count) == number:
            happened.append(True)
            raise _KilledError

    return hook, lambda: bool(happened)


def is_part(found: Offsets, whole: Offsets) -> bool:
    return all(
        whole[group][place] == offset for group, some in found.items() for place, offset in some.items()
    )


@pytest.mark.slow
def test_a_run_to_zookeeper_that_is_killed_at_any_request_is_completed_by_the_next() -> None:
    for number in range(1, 100):
        files, server = log_with(SOURCE), MemoryServer()
        hook, happened = killing(number)
        with _survived():
            totals(to_zookeeper(files, CONFIG, zookeeper(server, hook), EXECUTE))
        assert is_part(in_zookeeper(server), SOURCE) and in_log(files) == SOURCE
        totals(to_zookeeper(files, CONFIG, zookeeper(server), EXECUTE))
        assert in_zookeeper(server) == SOURCE and in_log(files) == SOURCE
        if not happened():
            assert number > 15
            return
    pytest.fail("the requests do not end")


def test_a_run_to_the_log_that_is_killed_at_any_write_is_completed_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed before or after each append and each sync; what was not synced may be lost."""
    for number in range(1, 100):
        files, server = MemoryFiles(), server_with(SOURCE)
        hook, happened = killing(number)
        with monkeypatch.context() as patched, _survived():
            for name in ("append_batch", "sync"):
                patched.setattr(Log, name, _hooked(getattr(Log, name), hook))
            totals(to_log(files, CONFIG, zookeeper(server), EXECUTE, now))
        left = MemoryFiles.copy_of(files)
        assert in_zookeeper(server) == SOURCE
        total = totals(to_log(left, CONFIG, zookeeper(server), EXECUTE, now))
        assert total.copied + total.present == 14
        assert in_log(left) == SOURCE
        if not happened():
            assert number > 15
            return
    pytest.fail("the writes do not end")


def _hooked(method: Any, hook: Callable[..., None]) -> Any:
    def called(*arguments: Any) -> Any:
        hook()
        result = method(*arguments)
        hook()
        return result

    return called


def test_without_zookeeper_the_command_ends_and_can_be_repeated() -> None:
    files, server = log_with(SOURCE), MemoryServer()
    client = MemoryZooKeeper(server, starts_connected=False)
    with pytest.raises(UnavailableError):
        BlockingZooKeeper(lambda post: client, 0.01)
    assert client.is_closed
    assert in_log(files) == SOURCE


# --- the command


def test_the_command_refuses_one_store_for_both(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--from", "log", "--to", "log", "--data-dir", str(tmp_path), "--zookeeper", "localhost:1"]
    assert cli.main(["offsets", "migrate", *words]) == cli.CANNOT
    assert "name the same store" in capsys.readouterr().err


def test_the_command_refuses_a_directory_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = [
        "--from",
        "log",
        "--to",
        "zookeeper",
        "--data-dir",
        str(tmp_path / "no"),
        "--zookeeper",
        "localhost:1",
    ]
    assert cli.main(["offsets", "migrate", *words]) == cli.CANNOT
    assert "no such directory" in capsys.readouterr().err


def test_a_commit_after_the_migration_continues_it() -> None:
    """The broker that is started with the other storage sees what was copied, and commits on top of it."""
    files, server = log_with(SOURCE), MemoryServer()
    totals(to_zookeeper(files, CONFIG, zookeeper(server), EXECUTE))
    broker = ZooKeeperCore(server, files)
    client = CoreClient(broker.core)
    assert client.committed("c") == SOURCE["c"]
    client.call(commit_request(broker.core, "b", {("t", 1): 3}, 8), 8)
    broker.core.close()
    back = totals(to_log(files, CONFIG, zookeeper(server), EXECUTE._replace(overwrite=True), now))
    assert (back.copied, back.present) == (1, 13)
    assert in_log(files) == {**SOURCE, "b": {("t", 1): 3}}


def test_real_directories_are_copied_too(tmp_path: Path) -> None:
    server = server_with(SOURCE)
    totals(to_log(DiskFiles(tmp_path), CONFIG, zookeeper(server), EXECUTE, now))
    assert in_log(DiskFiles(tmp_path)) == SOURCE


# --- the directory of a cluster


def cluster(root: Path, replicas: list[list[int]], out_of_sync: Collection[int] = ()) -> None:
    """Write the metadata of a stopped cluster: the first replica of each partition has led it."""
    store = MetadataFile(DiskFiles(root))
    controller = Controller(store.load(), store=store)
    for broker_id in sorted({*itertools.chain(*replicas)}):
        controller.register(broker_id, "localhost", 9000 + broker_id, was_clean=True)
    controller.create([PlacedTopic("__consumer_offsets", b"o" * 16, replicas, {})])
    for index, placed in enumerate(replicas):
        place = TopicPartition("__consumer_offsets", index)
        state = controller.image.state(*place)
        assert state is not None
        isr = tuple(each for each in placed if each not in out_of_sync)
        error, _ = controller.alter_isr(
            place, IsrProposal(state.leader, state.leader_epoch, state.partition_epoch, isr)
        )
        assert not error
    store.close()


OLD: Offsets = {group: dict.fromkeys(offsets, 0) for group, offsets in SOURCE.items()}


def test_a_cluster_is_copied_from_the_leader_of_each_partition(tmp_path: Path) -> None:
    """Any one directory was taken: that of a broker that was out of sync had older offsets for all groups."""
    cluster(tmp_path, [[2, 1], [2, 1], [1, 2]])
    log_with(OLD, DiskFiles(tmp_path / "broker-1"))
    log_with(SOURCE, DiskFiles(tmp_path / "broker-2"))
    server = MemoryServer()
    total = totals(cluster_to_zookeeper(tmp_path, CONFIG, zookeeper(server), EXECUTE))
    led_by_1 = {group for group in SOURCE if kafka_offsets.partition_for(group, 3) == 2}
    assert led_by_1
    assert led_by_1 < SOURCE.keys()
    assert in_zookeeper(server) == {group: (OLD if group in led_by_1 else SOURCE)[group] for group in SOURCE}
    assert total.copied == 14


def test_a_replica_out_of_sync_is_never_copied_and_its_partitions_are_named(tmp_path: Path) -> None:
    cluster(tmp_path, [[2, 1], [1, 3], [2, 1]], out_of_sync={3})
    log_with(SOURCE, DiskFiles(tmp_path / "broker-1"))
    store = MetadataFile(DiskFiles(tmp_path))
    controller = Controller(store.load(), store=store)
    for index in (0, 2):
        place = TopicPartition("__consumer_offsets", index)
        state = controller.image.state(*place)
        assert state is not None
        controller.alter_isr(place, IsrProposal(2, state.leader_epoch, state.partition_epoch, (2,)))
    store.close()
    server, found = MemoryServer(), []
    with pytest.raises(StorageError) as refused:
        found += cluster_to_zookeeper(tmp_path, CONFIG, zookeeper(server), EXECUTE)
    expected = {group: SOURCE[group] for group in SOURCE if kafka_offsets.partition_for(group, 3) == 1}
    assert in_zookeeper(server) == expected
    assert "__consumer_offsets-0 (in sync: broker 2), __consumer_offsets-2 (in sync: broker 2)" in str(
        refused.value
    )


def test_the_directory_of_one_broker_of_a_cluster_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cluster(tmp_path, [[1], [2], [1]])
    log_with(SOURCE, DiskFiles(tmp_path / "broker-1"))
    for source, target in (("log", "zookeeper"), ("zookeeper", "log")):
        words = ["--from", source, "--to", target, "--data-dir", str(tmp_path / "broker-1")]
        assert cli.main(["offsets", "migrate", *words, "--zookeeper", "localhost:1"]) == cli.CANNOT
        assert f"name the directory of the cluster, {tmp_path}" in capsys.readouterr().err


def test_a_directory_that_was_taken_out_of_its_cluster_is_refused(tmp_path: Path) -> None:
    files = MemoryFiles()
    DataDirectory(files, has_replicas=True).close()
    with pytest.raises(StorageError, match="is of broker 1 of a cluster"):
        totals(to_zookeeper(files, CONFIG, zookeeper(MemoryServer()), EXECUTE))


def test_a_running_cluster_is_not_copied(tmp_path: Path) -> None:
    cluster(tmp_path, [[1]])
    running = MetadataFile(DiskFiles(tmp_path))
    with pytest.raises(StorageError, match="uses"):
        totals(cluster_to_zookeeper(tmp_path, CONFIG, zookeeper(MemoryServer()), EXECUTE))
    running.close()
