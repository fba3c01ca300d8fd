"""Topics: what there is, over changes, refusals and restarts."""

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.partition.partitions import Partition, Topics
from kafka_offsets.errors import ConfigError, StorageError
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import Files, MemoryFiles
from tests.drivers.partitions import PartitionCore, batch
from tests.storage.crash.faults import FaultyFiles


def topics_on(files: Files) -> Topics:
    return Topics(DataDirectory(files), Config.load())


@pytest.fixture
def topics() -> Topics:
    return topics_on(MemoryFiles())


def test_a_topic_is_found_by_name_and_by_id(topics: Topics) -> None:
    b = topics.create("b", 3, {"max.message.bytes": "5000"})
    topics.create("a", 1)
    assert topics.names() == ["a", "b"]
    assert topics.get("b") is topics.by_id(b.topic_id) is b
    assert (b.partition_count, b.configs, b.is_internal) == (3, {"max.message.bytes": "5000"}, False)
    assert b.config.max_message_bytes == 5000
    assert topics.id_and_partition_count("b")[1] == 3
    assert topics.id_and_partition_count("b")[0] == b.topic_id != bytes(16)
    assert topics.topic_name(b.topic_id) == "b"


def test_what_is_not_there_is_none_zero_or_nothing(topics: Topics) -> None:
    topics.create("a", 1)
    assert topics.get("x") is topics.by_id(b"x" * 16) is None
    assert topics.topic_name(b"x" * 16) is None
    assert topics.partition("x", 0) is topics.partition("a", 1) is topics.partition("a", -1) is None
    assert topics.id_and_partition_count("x")[1] == 0
    assert topics.id_and_partition_count("x")[0] == bytes(16)


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_kafkas_own_topics_are_internal(topics: Topics, name: str) -> None:
    assert topics.create(name, 1).is_internal


def test_a_log_is_opened_when_its_partition_is_first_used(topics: Topics) -> None:
    topics.create("a", 3)
    assert list(topics.open_partitions()) == []
    first = topics.partition("a", 2)
    assert isinstance(first, Partition)
    assert (first.topic, first.index, first.topic_id, first.leader_epoch) == (
        "a",
        2,
        topics.id_and_partition_count("a")[0],
        0,
    )
    assert topics.partition("a", 2) is first
    assert list(topics.open_partitions()) == [first]


@pytest.mark.parametrize(
    ("name", "count", "configs", "error"),
    [
        ("a", 1, {}, ValueError),
        ("a/b", 1, {}, ValueError),
        ("..", 1, {}, ValueError),
        ("", 1, {}, ValueError),
        ("b", 0, {}, ValueError),
        ("b", 1, {"max.message.bytes": "many"}, ConfigError),
        ("b", 1, {"no.such.key": "1"}, ConfigError),
    ],
)
def test_what_cannot_be_created_leaves_no_trace(
    topics: Topics, name: str, count: int, configs: dict[str, str], error: type[Exception]
) -> None:
    topics.create("a", 1)
    with pytest.raises(error):
        topics.create(name, count, configs)
    assert topics.names() == ["a"]
    assert list(topics.directory.topics) == ["a"]


def test_creating_no_topic_changes_nothing(topics: Topics) -> None:
    before = topics.version, topics.created_version
    assert topics.create_several([]) == []
    assert (topics.version, topics.created_version) == before


def test_a_topic_grows_and_its_partitions_stay(topics: Topics) -> None:
    topics.create("a", 1)
    first = topics.partition("a", 0)
    assert topics.add_partitions("a", 3).partition_count == 3
    assert topics.partition("a", 0) is first
    assert topics.partition("a", 2) is not None
    with pytest.raises(ValueError, match="not fewer"):
        topics.add_partitions("a", 2)
    with pytest.raises(KeyError):
        topics.add_partitions("x", 2)


def test_configs_are_replaced_and_open_logs_follow(topics: Topics) -> None:
    topic = topics.create("a", 1, {"max.message.bytes": "5000"})
    partition = topics.partition("a", 0)
    assert partition is not None
    topics.set_configs("a", {"segment.bytes": "2000000"})
    assert topic.configs == {"segment.bytes": "2000000"}
    assert topic.config.max_message_bytes == 1_048_588
    assert partition.log.config.segment_bytes == topic.log_config.segment_bytes == 2_000_000
    with pytest.raises(ConfigError):
        topics.set_configs("a", {"segment.bytes": "1"})
    assert topic.configs == {"segment.bytes": "2000000"}


def test_a_deleted_topic_is_removed_with_its_records_and_its_name_is_free(topics: Topics) -> None:
    before = topics.create("a", 1)
    partition = topics.partition("a", 0)
    assert partition is not None
    partition.log.append(batch())
    assert topics.delete("a") is before
    assert topics.names() == []
    assert topics.by_id(before.topic_id) is None
    with pytest.raises(KeyError):
        topics.delete("a")
    again = topics.create("a", 1)
    assert again.topic_id != before.topic_id
    assert topics.partition("a", 0).log.log_end_offset == 0  # type: ignore[union-attr]


def test_everything_is_there_again_after_a_restart() -> None:
    files = MemoryFiles()
    topics = topics_on(files)
    topic_id = topics.create("a", 1, {"cleanup.policy": "compact"}).topic_id
    topics.add_partitions("a", 2)
    topics.create("b", 1)
    topics.delete("b")
    topics.directory.close()
    topics = topics_on(files)
    topic = topics.get("a")
    assert topic is not None
    assert topics.names() == ["a"]
    assert (topic.topic_id, topic.partition_count, topic.configs) == (
        topic_id,
        2,
        {"cleanup.policy": "compact"},
    )


def test_a_change_that_the_disk_refuses_has_not_happened() -> None:
    files = FaultyFiles()
    topics = topics_on(files)
    topics.create("a", 1)
    files.only = lambda operation, path: path.startswith("topics")
    files.calls.clear()
    files.stuck = True
    files.fail_at = 1
    with pytest.raises(StorageError):
        topics.create("b", 1)
    with pytest.raises(StorageError):
        topics.add_partitions("a", 2)
    with pytest.raises(StorageError):
        topics.set_configs("a", {"cleanup.policy": "compact"})
    with pytest.raises(StorageError):
        topics.delete("a")
    topic = topics.get("a")
    assert topic is not None
    assert (topics.names(), topic.partition_count, topic.configs) == (["a"], 1, {})


def test_an_empty_log_has_epoch_zero_and_the_next_start_a_later_one_than_the_log() -> None:
    core = PartitionCore()
    core.topics.create("t", 1)
    partition = core.topics.partition("t", 0)
    assert partition is not None
    assert (partition.leader_epoch, partition.log.leader_epoch) == (0, 0)
    partition.log.start_epoch(7)
    partition.log.append(batch())
    core = core.restart()
    again = core.topics.partition("t", 0)
    assert again is not None
    assert again.leader_epoch == 8
    assert core.produce("t", batch()).base_offset == 1
