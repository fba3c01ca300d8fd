from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.directory.catalogue import CatalogueTopic, NewTopic
from kafka_offsets.storage.directory.data_directory import FIRST_PRODUCER_ID, DataDirectory
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.storage.batches import batch, content, fill, write
from tests.storage.crash.faults import FaultyFiles

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100)


def ids() -> Callable[[], bytes]:
    numbers = count(1)
    return lambda: bytes([next(numbers)]) * 16


def test_a_new_directory_gets_its_names_once(files: Files) -> None:
    directory = DataDirectory(files)
    assert directory.node_id == 1 and len(directory.cluster_id) == 22
    assert not directory.stopped_cleanly
    text = files.read_all("meta.properties").decode()
    assert text.startswith(f"version=1\ncluster.id={directory.cluster_id}\nnode.id=1\n")
    directory.close()
    again = DataDirectory(files, node_id=1, cluster_id=directory.cluster_id)
    assert again.stopped_cleanly
    assert again.cluster_id == directory.cluster_id
    assert files.read_all("meta.properties").decode() == text
    again.close()


def test_the_names_of_a_directory_are_kept_or_refused() -> None:
    files = MemoryFiles()
    DataDirectory(files, node_id=7, cluster_id="mine").close()
    assert DataDirectory(files).node_id == 7
    files = MemoryFiles()
    write(
        files, "meta.properties", b"#\n#Fri Nov 21\ncluster.id=theirs\nversion=1\nnode.id=3\ndirectory.id=x\n"
    )
    with pytest.raises(StorageError, match=r"meta\.properties: the directory belongs to node 3, not 4"):
        DataDirectory(files, node_id=4)
    with pytest.raises(StorageError, match="belongs to cluster theirs, not mine"):
        DataDirectory(files, cluster_id="mine")
    directory = DataDirectory(files)
    assert (directory.node_id, directory.cluster_id) == (3, "theirs")
    assert b"directory.id=x" in files.read_all("meta.properties")


@pytest.mark.parametrize("text", [b"version=2\n", b"node.id=one\n"])
def test_names_that_make_no_sense_are_refused_and_the_lock_released(text: bytes) -> None:
    files = MemoryFiles()
    write(files, "meta.properties", text)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"meta\.properties at byte 0"):
            DataDirectory(files)


def test_a_second_broker_on_the_directory_is_refused(files: Files) -> None:
    directory = DataDirectory(files)
    with pytest.raises(StorageError, match="another broker uses the data directory") as caught:
        DataDirectory(files)
    assert files.root in str(caught.value)
    directory.close()
    directory.close()
    DataDirectory(files).close()


def test_topics_survive_a_restart(files: Files) -> None:
    directory = DataDirectory(files, new_id=ids())
    orders = directory.create_topic("orders", 3, {"cleanup.policy": "compact"})
    directory.create_topic("Größe".encode().hex(), 1, topic_id=bytes(range(16)))
    directory.update_topic(orders._replace(partition_count=4, configs={"segment.bytes": "1000"}))
    first = FIRST_PRODUCER_ID
    assert directory.allocate_producer_ids(10) == range(first, first + 10)
    topics = directory.topics
    directory.close()
    again = DataDirectory(files)
    assert again.topics == topics
    assert again.topics["orders"] == CatalogueTopic("orders", orders.topic_id, 4, {"segment.bytes": "1000"})
    assert again.allocate_producer_ids() == range(first + 10, first + 1010)
    again.close()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, "__cluster_metadata"])
def test_a_name_that_kafka_does_not_allow_is_no_topic(name: str) -> None:
    with pytest.raises(ValueError, match="not a topic name"):
        DataDirectory(MemoryFiles()).create_topic(name, 1)


class FilesThatIgnoreCase(MemoryFiles):
    """As those of Windows and macOS, for names that are made in lower case."""

    def exists(self, path: str) -> bool:
        return super().exists(path.lower())


def test_no_topic_gets_the_folders_of_another_one_where_the_case_of_names_is_ignored() -> None:
    directory = DataDirectory(FilesThatIgnoreCase())
    directory.create_topic("orders", 1)
    with pytest.raises(StorageError, match="topic Orders would have the folders of topic orders"):
        directory.create_topic("Orders", 1)
    with pytest.raises(StorageError, match="topic Bills would have the folders of topic bills"):
        directory.create_topics([NewTopic("bills", 1), NewTopic("Bills", 1)])
    assert list(directory.topics) == ["orders"]
    unlike = DataDirectory(MemoryFiles())
    unlike.create_topics([NewTopic("orders", 1), NewTopic("Orders", 1)])


def test_a_topic_is_created_once_and_never_shrinks() -> None:
    directory = DataDirectory(MemoryFiles())
    topic = directory.create_topic("t", 2)
    with pytest.raises(ValueError, match="topic t exists"):
        directory.create_topic("t", 2)
    with pytest.raises(ValueError, match="needs a partition"):
        directory.create_topic("u", 0)
    for other in (
        topic._replace(partition_count=1),
        topic._replace(topic_id=bytes(16)),
        topic._replace(name="u"),
    ):
        with pytest.raises(ValueError, match="cannot replace"):
            directory.update_topic(other)
    with pytest.raises(KeyError):
        directory.open_log("u", 0, SMALL)
    with pytest.raises(IndexError, match="t has 2 partitions, no partition 2"):
        directory.open_log("t", 2, SMALL)


def test_a_damaged_catalogue_stops_the_start_with_file_and_position() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files)
    directory.create_topic("a", 1)
    directory.create_topic("b", 1)
    directory.close()
    data = files.read_all("topics")
    second = data.index(b"\n") + 1
    third = data.index(b"\n", second) + 1
    cases = [
        (data[:10] + b"x" + data[11:], 0),
        (data[: second + 5] + b"x" + data[second + 6 :], second),
        (data[:-2], third),
        (data[:third], 0),
        (data + data[third:], 0),
        (b"", 0),
        (b"\0" * len(data), 0),
    ]
    for damaged, position in cases:
        write(files, "topics", damaged)
        with pytest.raises(StorageError) as caught:
            DataDirectory(files)
        assert (caught.value.path, caught.value.position) == ("topics", position)


def test_folders_without_an_entry_are_adopted(files: Files) -> None:
    topic_id = bytes(range(16))
    Log.open(files, "a-b-0", SMALL, topic_id=topic_id).close()
    fill(Log.open(files, "a-b-4", SMALL, topic_id=topic_id), 3)
    Log.open(files, "old-1", SMALL).close()
    Log.open(files, "__cluster_metadata-0", SMALL, topic_id=topic_id).close()
    files.make_directory("backup-2024")
    write(files, "notes-1", b"of the operator")
    write(files, "backup-2025/readme", b"")
    directory = DataDirectory(files, new_id=ids())
    assert set(directory.topics) == {"a-b", "old"}
    assert directory.topics["a-b"] == CatalogueTopic("a-b", topic_id, 5, {}, ((0, -1),))
    assert directory.topics["old"].partition_count == 2
    assert len(content(directory.open_log("a-b", 4, SMALL))) == 3
    assert directory.open_log("old", 1, SMALL).topic_id == directory.topics["old"].topic_id
    directory.close()
    again = DataDirectory(files)
    assert again.topics == directory.topics
    again.close()
    Log.open(files, "a-b-6", SMALL, topic_id=topic_id).close()
    last = DataDirectory(files)
    assert last.topics["a-b"].partition_count == 7
    last.close()


def test_partitions_of_one_name_with_two_ids_are_refused() -> None:
    files = MemoryFiles()
    Log.open(files, "t-0", SMALL, topic_id=bytes(16)).close()
    Log.open(files, "t-1", SMALL, topic_id=bytes(range(16))).close()
    with pytest.raises(StorageError, match=r"t-1/partition\.metadata: topic t has two ids"):
        DataDirectory(files)


def test_a_deleted_topic_is_removed_with_its_folders_and_may_be_created_again(files: Files) -> None:
    directory = DataDirectory(files)
    for name in ("t", "t-0", "u"):
        directory.create_topic(name, 2)
        fill(directory.open_log(name, 1, SMALL), 5)
    directory.delete_topic("t")
    assert sorted(directory.topics) == ["t-0", "u"]
    assert not any(name.startswith("t-1") or name.endswith("-delete") for name in files.list_directory(""))
    assert len(content(directory.open_log("t-0", 1, SMALL))) == 5
    with pytest.raises(KeyError):
        directory.delete_topic("t")
    again = directory.create_topic("t", 1)
    assert directory.open_log("t", 0, SMALL).log_end_offset == 0
    directory.close()
    restarted = DataDirectory(files)
    assert restarted.topics["t"].topic_id == again.topic_id
    restarted.close()


def test_several_topics_are_created_changed_and_deleted_together_or_not_at_all() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files)
    a, b = directory.create_topics([NewTopic("a", 1), NewTopic("b", 2, {"cleanup.policy": "compact"})])
    assert a.topic_id != b.topic_id
    with pytest.raises(ValueError, match="topic c exists"):
        directory.create_topics([NewTopic("c", 1), NewTopic("c", 1)])
    with pytest.raises(ValueError, match="cannot replace"):
        directory.update_topics([a._replace(partition_count=3), b._replace(partition_count=1)])
    with pytest.raises(KeyError):
        directory.delete_topics(["a", "c"])
    assert directory.topics == {"a": a, "b": b}
    directory.update_topics([a._replace(partition_count=3), b._replace(configs={})])
    assert [topic.partition_count for topic in directory.topics.values()] == [3, 2]
    fill(directory.open_log("a", 0, SMALL), 1)
    directory.delete_topics(["b", "a"])
    assert directory.topics == {} and directory.logs == {}
    assert not any(name.endswith("-delete") for name in files.list_directory(""))
    directory.close()


def test_a_deleted_log_that_cannot_be_closed_well_is_removed_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = DataDirectory(MemoryFiles())
    directory.create_topics([NewTopic("a", 1), NewTopic("b", 1)])
    logs = [directory.open_log(name, 0, SMALL) for name in ("a", "b")]

    original = logs[0].close

    def refusing(**named: bool) -> None:
        original(**named)
        raise StorageError("no space left", "a-0")

    monkeypatch.setattr(logs[0], "close", refusing)
    with pytest.raises(StorageError, match="no space left"):
        directory.delete_topics(["a", "b"])
    assert all(log.closed for log in logs)
    assert directory.topics == {} and directory.logs == {}
    assert not any(name.startswith(("a-", "b-")) for name in directory.files.list_directory(""))


def test_what_a_crash_left_of_a_deletion_is_removed_at_start() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files)
    topic = directory.create_topic("t", 3)
    for partition in range(3):
        fill(directory.open_log("t", partition, SMALL), 5)
    directory.delete_topic("t")  # the catalogue on disk still says so
    Log.open(files, "t-0", SMALL, topic_id=topic.topic_id).close()
    Log.open(files, "t-1.0123456789abcdef0123456789abcdef-delete", SMALL).close()
    Log.open(files, "t-2", SMALL, topic_id=bytes(16)).close()  # another topic of the same name
    write(files, "topics.tmp", b"torn")
    directory.close()
    again = DataDirectory(files)
    assert [name for name in files.list_directory("") if name.startswith("t-")] == ["t-2"]
    assert again.topics == {"t": CatalogueTopic("t", bytes(16), 3, {}, ((0, 1),))}
    assert not files.exists("topics.tmp")


def test_the_folder_of_a_deleted_topic_with_a_long_name_fits_the_file_system(files: Files) -> None:
    directory = DataDirectory(files)
    directory.create_topic("x" * 249, 1)
    fill(directory.open_log("x" * 249, 0, SMALL), 1)
    directory.delete_topic("x" * 249)
    assert directory.topics == {}
    directory.close()


def test_the_log_start_survives_a_restart_and_a_crash_after_its_checkpoint(files: Files) -> None:
    directory = DataDirectory(files)
    directory.create_topic("t", 2)
    for partition in range(2):
        fill(directory.open_log("t", partition, SMALL), 10)
    directory.open_log("t", 0, SMALL).delete_records_before(4)
    directory.checkpoint_log_starts()
    assert b"\nt 0 4\n" in files.read_all("log-start-offset-checkpoint")
    directory.close()
    for _ in range(2):  # the second time partition 0 was not opened in between
        directory = DataDirectory(files)
        directory.open_log("t", 1, SMALL)
        directory.close()
    directory = DataDirectory(files)
    assert directory.open_log("t", 0, SMALL).log_start_offset == 4
    assert directory.open_log("t", 1, SMALL).log_start_offset == 0
    directory.close()


def test_a_clean_stop_checkpoints_where_each_log_ends() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files)
    directory.create_topic("t", 1)
    log = directory.open_log("t", 0, SMALL)
    assert directory.open_log("t", 0, SMALL) is log
    fill(log, 3)
    assert not files.exists(".kafka_cleanshutdown")
    directory.close()
    assert b"\nt 0 3\n" in files.read_all("recovery-point-offset-checkpoint")
    assert b"\nt 0 3\n" in files.read_all("replication-offset-checkpoint")
    assert files.exists(".kafka_cleanshutdown")
    directory = DataDirectory(files)
    assert not files.exists(".kafka_cleanshutdown")
    assert directory.stopped_cleanly
    assert directory.open_log("t", 0, SMALL).recovery_point == 3


@pytest.mark.parametrize(
    "name", ["log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "meta.properties"]
)
def test_a_damaged_file_stops_the_start(name: str) -> None:
    files = MemoryFiles()
    directory = DataDirectory(files)
    directory.close()
    write(files, name, files.read_all(name)[:-1] + b"x")
    with pytest.raises(StorageError) as caught:
        DataDirectory(files)
    assert caught.value.path == name and caught.value.position is not None


@pytest.mark.parametrize("lost", [False, True])
def test_a_log_that_is_not_opened_after_a_crash_keeps_its_recovery_point_and_no_more(lost: bool) -> None:
    # A start that was refused wrote down a clean stop without the log it had refused; the next one cut that.
    files: MemoryFiles = FaultyFiles()
    for _ in range(2):
        directory = DataDirectory(files)
        if not directory.topics:
            directory.create_topic("t", 1)
        fill(directory.open_log("t", 0, LogConfig()), 3)
        assert isinstance(files, FaultyFiles)
        crashed = files.survivors()
        directory.close()
    path = "t-0/00000000000000000000.log"
    if lost:
        write(crashed, path, crashed.read_all(path)[:100])
    for number in range(4):
        directory = DataDirectory(crashed)
        if number in (1, 2):
            directory.close()
            continue
        if lost:
            with pytest.raises(
                StorageError, match=r"3 had been synced|it was on the disk with all before offset 3"
            ):
                directory.open_log("t", 0, LogConfig())
        else:
            assert directory.open_log("t", 0, LogConfig()).log_end_offset == 6
        directory.close()
        assert crashed.exists(".kafka_cleanshutdown") == (not lost), "Kafka believes it of every log"


@pytest.mark.parametrize("stuck", [False, True], ids=["refused once", "refused twice"])
@pytest.mark.parametrize(
    "settle",
    [lambda directory, before: directory.update_topic(before), lambda directory, before: directory.close()],
)
def test_what_the_disk_refused_to_sync_is_not_there_after_a_restart(
    stuck: bool, settle: Callable[[DataDirectory, CatalogueTopic], None]
) -> None:
    """The new catalogue has its name by then: that it is as before has to be written, though nothing changes."""
    files = FaultyFiles()
    directory = DataDirectory(files)
    directory.create_topic("t", 1, configs={"retention.ms": "1000"})
    directory.set_group_configs("g", {"consumer.session.timeout.ms": "50000"})
    before = directory.topics["t"]
    changes = (
        lambda: directory.update_topic(before._replace(configs={"retention.ms": "2000"})),
        lambda: directory.set_group_configs("g", {}),
        lambda: directory.delete_topic("t"),
    )
    for change in changes:
        files.only = lambda operation, path: operation == "sync_directory" or (stuck and files.failed)
        files.calls.clear()
        files.fail_at, files.stuck, files.failed = 1, stuck, False
        with pytest.raises(StorageError, match="injected"):
            change()
        files.fail_at, files.stuck, files.failed = 0, False, False
        if stuck:
            settle(directory, before)
        again = DataDirectory(files.survivors())
        assert again.topics["t"] == before
        assert (
            again.group_configs == directory.group_configs == {"g": {"consumer.session.timeout.ms": "50000"}}
        )
        files.calls.clear()
        directory.update_topic(before)
        assert not files.calls, "that is certain, and costs nothing"
        directory.close()
        directory = DataDirectory(files)


def test_closing_reports_a_log_that_failed_and_leaves_no_mark_of_a_clean_stop(tmp_path: Path) -> None:
    directory = DataDirectory(DiskFiles(tmp_path))
    directory.create_topic("t", 2)
    for partition in range(2):
        fill(directory.open_log("t", partition, SMALL), 1)
    (tmp_path / "t-0").rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="t-0"):
        directory.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert directory.logs["t", 1].closed
    with pytest.raises(StorageError):
        directory.logs["t", 1].append(batch([b"x"]))
    DataDirectory(DiskFiles(tmp_path)).close()
