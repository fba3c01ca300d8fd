"""The file of a cluster's metadata: what was saved is there after a restart or a crash, and damage is named."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.nodes import metadata_file
from kafka_offsets.broker.nodes.metadata_file import MetadataFile
from kafka_offsets.errors import StorageError
from kafka_offsets.metadata.controller import Controller, PlacedTopic
from kafka_offsets.metadata.image import ClusterImage, TopicPartition
from kafka_offsets.metadata.settings import ClusterSettings
from kafka_offsets.security.credential import ScramCredential
from kafka_offsets.storage.directory.data_directory import CLUSTER_METADATA, META_PROPERTIES, DataDirectory
from kafka_offsets.storage.files.checked_lines import encode_line
from kafka_offsets.storage.files.checkpoints import decode_properties, encode_properties
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles
from tests.drivers.replicas import Node
from tests.storage.crash.crash_files import CrashPoint, RecordingFiles
from tests.storage.crash.faults import Crash, FaultyFiles

CREDENTIAL = ScramCredential(4096, b"salt", b"stored", b"server")
CHANGES: list[Callable[[Controller], object]] = [
    *(lambda to, n=broker_id: to.register(n, "host", 9000 + n) for broker_id in (1, 2, 3)),
    lambda to: to.create(
        [PlacedTopic(name, name.encode() * 16, [[1, 2], [2, 3]], {"a": "1"}) for name in "xyz"]
    ),
    lambda to: to.delete(["y"]),
    lambda to: to.configure("x", {"b": "2"}),
    lambda to: to.grow({"z": [[3, 1]]}),
    lambda to: to.fence(1),
    lambda to: to.lead(TopicPartition("x", 1), 3),
    lambda to: to.allocate_producer_ids(),
    lambda to: to.alter_settings(
        ClusterSettings(groups={"g": {"c": "3"}}, credentials={("alice", 1): CREDENTIAL})
    ),
]
"""Everything that a cluster has."""

STATE = {"isr": [1], "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
BROKER = {"id": 1, "host": "127.0.0.1", "port": 9092, "epoch": 7, "is_up": True}
VERSION_1 = encode_line(
    {
        "version": 1,
        "topics": 1,
        "cluster_id": "5f0a6c1e",
        "brokers": {"controller": 1, "brokers": [BROKER]},
        "next_producer_id": 1000,
        "settings": {"groups": {}, "quotas": [], "credentials": []},
    }
) + encode_line(
    {
        "name": "orders",
        "topic_id": "k8ZUnNYhTA+7W38LRo+9NQ==",
        "configs": {},
        "partitions": [{"replicas": [1]} | STATE],
    }
)
"""As 0.1.0 wrote it before changes were appended."""


def changed(files: Files) -> Controller:
    """A controller that has made all changes, and whose file is closed."""
    store = MetadataFile(files)
    controller = Controller(store.load(), store=store)
    for change in CHANGES:
        change(controller)
    store.close()
    return controller


def loaded(files: Files) -> ClusterImage:
    """What the next start finds."""
    store = MetadataFile(files)
    store.close()
    return store.load()


def images() -> list[ClusterImage]:
    """The image after each number of changes, from none on."""
    controller = Controller(ClusterImage())
    found = [controller.image.copy()]
    for change in CHANGES:
        change(controller)
        found.append(controller.image.copy())
    return found


@pytest.fixture
def short_journals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a snapshot whenever the changes are as long as the last one."""
    monkeypatch.setattr(metadata_file, "_LEAST_BYTES", 0)


def test_a_restart_finds_what_was_saved() -> None:
    files = MemoryFiles()
    image = changed(files).image
    again = MetadataFile(files)
    assert again.load() == image
    assert again.load().next_producer_id == 1000
    again.close()


def test_the_cluster_keeps_its_id() -> None:
    files = MemoryFiles()
    first = MetadataFile(files)
    Controller(first.load(), store=first).register(1, "host", 9001)
    first.close()
    again = MetadataFile(files)
    assert again.cluster_id == first.cluster_id
    again.close()


def test_one_process_uses_it_at_a_time() -> None:
    files = MemoryFiles()
    first = MetadataFile(files)
    with pytest.raises(StorageError):
        MetadataFile(files)
    first.close()
    MetadataFile(files).close()


def test_the_directory_of_one_broker_is_not_one_of_a_cluster() -> None:
    files = MemoryFiles()
    files.replace_atomically(META_PROPERTIES, b"version=1\n")
    with pytest.raises(StorageError, match="belongs to one broker, not to a cluster: name another"):
        MetadataFile(files)
    files.remove(META_PROPERTIES)
    MetadataFile(files).close()  # the refusal has unlocked it


def test_one_broker_does_not_use_the_directory_of_a_cluster() -> None:
    files = MemoryFiles()
    changed(files)
    with pytest.raises(StorageError, match="belongs to a cluster, not to one broker: name another"):
        DataDirectory(files)


@pytest.mark.parametrize("was_written_before", [False, True])
def test_one_broker_does_not_use_the_directory_of_one_of_several(was_written_before: bool) -> None:
    """It acknowledged records and commits there, which the cluster truncated when it was started again."""
    files = FaultyFiles()
    Node(files).close()
    if was_written_before:  # by a release that did not note whose directory it is: the next start does
        stored = decode_properties(files.read_all(META_PROPERTIES), META_PROPERTIES)
        assert stored.pop("cluster.replicas") == "true"
        files.replace_atomically(META_PROPERTIES, encode_properties(stored))
        Node(files).close()
    before = files.read_all(META_PROPERTIES)
    for config in (Config(), Config.load({"node.id": "1"})):
        with pytest.raises(
            StorageError, match=r"of broker 1 of a cluster, .*: start the cluster, by `serve "
        ):
            BrokerCore(config, files)
    assert files.read_all(META_PROPERTIES) == before
    Node(files).close()


def killed(fail_at: int) -> tuple[FaultyFiles, int]:
    """The files of a controller that died at a call, and how many changes were saved."""
    files, count = FaultyFiles(fail_at=fail_at, crash=True), 0
    try:
        store = MetadataFile(files)
        controller = Controller(store.load(), store=store)
        for change in CHANGES:
            change(controller)
            count += 1
    except Crash:
        pass
    return files, count


@pytest.mark.usefixtures("short_journals")
def test_a_kill_at_each_call_leaves_the_state_before_the_change_or_after_it() -> None:
    expected = images()
    fail_at = 1
    while (outcome := killed(fail_at))[0].failed:
        files, count = outcome
        assert loaded(files.survivors()) in expected[count : count + 2]
        fail_at += 1
    assert fail_at > 3 * len(CHANGES)


def power_failures(files: RecordingFiles, saved_at: list[int]) -> Iterator[tuple[RecordingFiles, int]]:
    """What a disk may have at each moment after the first snapshot, and how many changes were saved by then."""
    for at in range(saved_at[0], len(files.operations) + 1):
        point = CrashPoint(files.base, files.operations, at)
        for fates in (*point.subsets(), *point.single_faults()):
            yield RecordingFiles(point.tree(fates)), sum(each <= at for each in saved_at)


@pytest.mark.usefixtures("short_journals")
def test_a_power_failure_leaves_the_state_before_the_change_or_after_it() -> None:
    files, saved_at = RecordingFiles(), []
    store = MetadataFile(files)
    controller = Controller(store.load(), store=store)
    for change in CHANGES:
        change(controller)
        saved_at.append(len(files.operations))
    expected = images()
    for disk, count in power_failures(files, saved_at):
        assert loaded(disk) in expected[count : count + 2]


def changed_with_a_refusal(fail_at: int) -> bool:
    """Make all changes, again if one is refused, and compare with what a restart finds; return whether one was."""
    files = FaultyFiles(fail_at=fail_at)
    files.only = lambda operation, path: path.startswith(CLUSTER_METADATA) or operation == "sync_directory"
    store = MetadataFile(files)
    controller = Controller(store.load(), store=store)
    for change in CHANGES:
        before = controller.image.copy()
        was_refused = files.failed
        try:
            change(controller)
        except StorageError:
            assert files.failed and not was_refused
            assert controller.image == before == loaded(files.survivors())
            change(controller)
        assert loaded(files.survivors()) == controller.image
    return files.failed


@pytest.mark.slow
@pytest.mark.usefixtures("short_journals")
def test_a_refused_change_is_not_in_force_and_the_next_ones_are() -> None:
    fail_at = 1
    while changed_with_a_refusal(fail_at):
        fail_at += 1
    assert fail_at > 3 * len(CHANGES)


def test_a_change_writes_itself_and_not_the_whole_image() -> None:
    files = MemoryFiles()
    store = MetadataFile(files)
    controller = Controller(store.load(), store=store)
    controller.register(1, "host", 9001)
    controller.register(2, "host", 9002)
    controller.create([PlacedTopic("x", b"x" * 16, [[1, 2]] * 1000, {})])
    controller.lead(TopicPartition("x", 0), 2)
    before = files.read_all(CLUSTER_METADATA)
    controller.lead(TopicPartition("x", 1), 2)
    after = files.read_all(CLUSTER_METADATA)
    assert after.startswith(before) and len(after) < len(before) + 200
    store.close()


def test_a_long_journal_becomes_a_snapshot() -> None:
    files = MemoryFiles()
    store = MetadataFile(files)
    controller = Controller(store.load(), store=store)
    for _ in range(2000):  # 48 bytes each
        controller.allocate_producer_ids()
    assert len(files.read_all(CLUSTER_METADATA)) < 1 << 16
    store.close()
    assert loaded(files).next_producer_id == 2_000_000


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    changed(DiskFiles(tmp_path))
    assert stat.S_IMODE((tmp_path / CLUSTER_METADATA).stat().st_mode) == 0o600


def test_a_file_of_version_1_is_read() -> None:
    files = MemoryFiles()
    files.replace_atomically(CLUSTER_METADATA, VERSION_1)
    store = MetadataFile(files)
    assert store.cluster_id == "5f0a6c1e"
    image = store.load()
    assert (image.next_producer_id, [*image.topics], image.live) == (1000, ["orders"], {1})
    Controller(image, store=store).allocate_producer_ids()
    store.close()
    assert loaded(files).next_producer_id == 2000


@given(st.data())
def test_damage_is_refused_and_named_unless_it_may_be_a_torn_change(data: st.DataObject) -> None:
    files = MemoryFiles()
    image = changed(files).image
    content = bytearray(files.read_all(CLUSTER_METADATA))
    last_at = content.rindex(b"\n", 0, len(content) - 1) + 1
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    files.replace_atomically(CLUSTER_METADATA, bytes(content))
    if position < last_at - 1:
        with pytest.raises(StorageError, match=CLUSTER_METADATA):
            MetadataFile(files)
    else:
        assert loaded(files) == images()[-2] != image


@given(st.data())
def test_a_truncated_file_has_the_changes_that_are_whole(data: st.DataObject) -> None:
    files = MemoryFiles()
    changed(files)
    content = files.read_all(CLUSTER_METADATA)
    content = content[: data.draw(st.integers(0, len(content) - 1))]
    files.replace_atomically(CLUSTER_METADATA, content)
    line_count = content.count(b"\n")
    if line_count:
        assert loaded(files) == images()[line_count - 1]
    else:
        with pytest.raises(StorageError, match=CLUSTER_METADATA):
            MetadataFile(files)


def test_a_torn_change_is_reported_and_what_follows_is_whole(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    changed(files)
    whole = files.read_all(CLUSTER_METADATA)
    files.replace_atomically(CLUSTER_METADATA, whole[:-20])
    store = MetadataFile(files)
    last_at = whole.rindex(b"\n", 0, -1) + 1
    torn = f"the last {len(whole) - 20 - last_at} bytes, from position {last_at}, are a change that was not written"
    assert torn in caplog.text
    controller = Controller(store.load(), store=store)
    for change in CHANGES[-1:]:
        change(controller)
    store.close()
    caplog.clear()
    assert loaded(files) == images()[-1]
    assert not caplog.text


def test_a_truncated_snapshot_is_refused() -> None:
    files = MemoryFiles()
    files.replace_atomically(CLUSTER_METADATA, VERSION_1[: VERSION_1.index(b"\n") + 1])
    with pytest.raises(StorageError, match=CLUSTER_METADATA):
        MetadataFile(files)


def test_a_change_that_does_not_fit_is_refused() -> None:
    files = MemoryFiles()
    change = encode_line({"partitions": [{"topic": "y", "partition": 0, "replicas": [1]} | STATE]})
    files.replace_atomically(CLUSTER_METADATA, VERSION_1 + change)
    with pytest.raises(StorageError, match=CLUSTER_METADATA):
        MetadataFile(files)
