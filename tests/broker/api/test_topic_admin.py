"""Metadata and the topic APIs beside Kafka's table: what we do otherwise, what lasts, what a bad disk leaves."""

import logging
from typing import Any

import pytest

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition.topic_names import Collisions, invalid_topic_name
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import MemoryFiles
from tests.drivers.core import CoreClient, make_core

TOPIC, BROKER = 2, 4
SET = 0
MINE = ("Metadata", "ApiVersions", "CreateTopics", "DeleteTopics", "DescribeConfigs", "CreatePartitions",
        "IncrementalAlterConfigs", "DescribeCluster", "DescribeTopicPartitions")  # fmt: skip


def create(
    client: CoreClient, *names: str, partitions: int = 1, factor: int = 1, **configs: str
) -> list[Any]:
    request = messages.CreateTopicsRequest
    settings = [request.CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    topics = [request.CreatableTopic(name, partitions, factor, [], settings) for name in names]
    answer: list[Any] = client.call(request(topics), 7).topics
    return answer


def metadata(client: CoreClient, *names: str, version: int = 13) -> list[Any]:
    """Ask, and let the pauses pass between the steps in which many partitions are described."""
    request = messages.MetadataRequest
    client.send((request([request.Topic(name=name) for name in names]), version))
    client.turn()
    while not (answers := client.take()):
        assert isinstance(client.core.clock, ManualClock)
        client.core.clock.advance(1)
        client.turn()
    topics: list[Any] = answers[0].topics
    return topics


def delete(client: CoreClient, *names: str) -> list[Any]:
    request = messages.DeleteTopicsRequest
    answer = client.call(request([request.DeleteTopicState(name) for name in names], timeout_ms=1000), 6)
    results: list[Any] = answer.responses
    return results


def describe(client: CoreClient, resource_type: int, name: str) -> dict[str, Any]:
    request = messages.DescribeConfigsRequest
    resource = request.DescribeConfigsResource(resource_type, name, None)
    (result,) = client.call(request([resource], include_documentation=True), 4).results
    return {config.name: config for config in result.configs}


def alter(client: CoreClient, topic: str, key: str, value: str) -> tuple[int, str | None]:
    request = messages.IncrementalAlterConfigsRequest
    resource = request.AlterConfigsResource(TOPIC, topic, [request.AlterableConfig(key, SET, value)])
    (result,) = client.call(request([resource]), 1).responses
    return result.error_code, result.error_message


def refuse(core: BrokerCore, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk refuse a method of the topics."""

    def refusing(*arguments: Any) -> Any:
        raise StorageError("no space left", "topics")

    monkeypatch.setattr(core.topics, method, refusing)


@pytest.mark.parametrize("version", [0, 1, 4, 9, 13])
def test_a_topic_that_metadata_creates_is_described_in_the_same_answer(version: int) -> None:
    client = CoreClient(make_core(num_partitions=3))
    (topic,) = metadata(client, "new", version=version)
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "new", 3)
    assert [(p.partition_index, p.leader_id) for p in topic.partitions] == [(0, 1), (1, 1), (2, 1)]


def test_a_topic_that_metadata_creates_is_described_after_the_delay() -> None:
    """kafka-go's consumer group looks for partitions twice, and waits forever when a topic comes between the two."""
    clock = ManualClock()
    core = make_core(clock=clock, auto_create_topics_delay_ms=100)
    client = CoreClient(core)
    errors = []
    for _ in range(3):
        errors.append(metadata(client, "new")[0].error_code)
        clock.advance(50)  # to the very end of the delay
    assert errors == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert not core.broker.undescribed_topics


def test_metadata_of_the_offsets_topic_creates_it_as_configured_and_groups_work() -> None:
    client = CoreClient(make_core(offsets_topic_num_partitions=5))
    (topic,) = metadata(client, "__consumer_offsets")
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 5)
    create(client, "t")
    assert client.commit("g", {("t", 0): 7}) == {("t", 0): 0}


@pytest.mark.parametrize("name", ["__transaction_state", "__share_group_state"])
def test_topics_of_coordinators_that_are_not_served_are_not_created_by_metadata(name: str) -> None:
    core = make_core()
    (topic,) = metadata(CoreClient(core), name)
    assert (topic.error_code, topic.is_internal, core.topics.names()) == (3, True, [])


def test_an_offsets_topic_that_a_client_creates_is_compacted_and_takes_commits() -> None:
    client = CoreClient(make_core())
    (topic,) = create(client, "__consumer_offsets", partitions=2)
    assert (topic.error_code, topic.num_partitions) == (0, 2)
    assert describe(client, TOPIC, "__consumer_offsets")["cleanup.policy"].value == "compact"
    create(client, "t")
    client.commit("g", {("t", 0): 7})
    assert client.committed("g") == {("t", 0): 7}


def test_a_configured_replication_factor_is_capped_and_one_asked_for_is_not() -> None:
    client = CoreClient(make_core(default_replication_factor=3))
    (capped,) = create(client, "capped", factor=-1)
    (asked,) = create(client, "asked", factor=3)
    assert (capped.error_code, capped.replication_factor) == (0, 1)
    assert asked.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_all_topics_are_sorted_by_name() -> None:
    client = CoreClient(make_core())
    create(client, "b", "c", "a")
    topics = client.call(messages.MetadataRequest(None), 13).topics
    assert [topic.name for topic in topics] == ["a", "b", "c"]


def test_a_deleted_topic_and_its_successor_have_different_ids() -> None:
    core = make_core()
    client = CoreClient(core)
    (first,) = create(client, "t")
    (deleted,) = delete(client, "t")
    assert (deleted.error_code, deleted.topic_id) == (0, first.topic_id)
    (second,) = create(client, "t")
    assert second.topic_id != first.topic_id
    assert core.topics.by_id(first.topic_id) is None


def test_the_offsets_of_every_deleted_topic_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    core = make_core()
    client, heard = CoreClient(core), list[str]()
    monkeypatch.setattr(core.expiry, "topic_deleted", heard.append)
    create(client, "a", "b")
    delete(client, "b", "missing", "a")
    assert heard == ["b", "a"]


def test_topics_partitions_and_configurations_outlive_the_broker() -> None:
    files = MemoryFiles()
    core = make_core(files)
    client = CoreClient(core)
    (created,) = create(client, "t", partitions=2, retention_ms="5")
    request = messages.CreatePartitionsRequest
    client.call(request([request.CreatePartitionsTopic("t", 4, None)], 1000), 3)
    alter(client, "t", "segment.ms", "6")
    core.close()
    client = CoreClient(make_core(files))
    (topic,) = metadata(client, "t")
    assert (topic.topic_id, len(topic.partitions)) == (created.topic_id, 4)
    described = describe(client, TOPIC, "t")
    assert (described["retention.ms"].value, described["segment.ms"].value) == ("5", "6")


def test_a_client_can_set_every_value_that_is_described() -> None:
    client = CoreClient(make_core())
    create(client, "t")
    for name, config in describe(client, TOPIC, "t").items():
        assert alter(client, "t", name, config.value) == (0, None), name


def test_keys_of_the_broker_are_described_with_words_and_cannot_change() -> None:
    core = make_core(num_partitions=7)
    described = describe(CoreClient(core), BROKER, "1")
    assert described["num.partitions"].value == "7"
    assert {"fsync", "profile"} <= set(described), "our own keys stand there too"
    for config in described.values():
        assert config.documentation and config.read_only


def test_leader_epochs_of_unused_logs_are_read_from_their_file() -> None:
    files = MemoryFiles()
    core = make_core(files)
    client = CoreClient(core)
    create(client, "t", partitions=3)
    for partition, content in enumerate([b"0\n2\n0 0\n7 42\n", b"0\nrubbish"]):
        files.make_directory(f"t-{partition}")
        files.replace_atomically(f"t-{partition}/leader-epoch-checkpoint", content)
    (topic,) = metadata(client, "t")
    assert [partition.leader_epoch for partition in topic.partitions] == [8, -1, 0]
    assert not core.directory.logs, "no log was opened"
    files.make_directory("t-2")
    files.replace_atomically("t-2/leader-epoch-checkpoint", b"rubbish")
    (topic,) = metadata(client, "t")
    assert [partition.leader_epoch for partition in topic.partitions] == [8, -1, 0], "each was read once"
    core.topics.partition("t", 1)
    (topic,) = metadata(client, "t")
    assert [partition.leader_epoch for partition in topic.partitions] == [8, 0, 0]


def test_a_page_of_partitions_reads_no_more_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    client = CoreClient(make_core(files))
    create(client, "t", partitions=100)
    looked_up = list[str]()
    original = files.exists

    def noting(path: str) -> bool:
        looked_up.append(path)
        return original(path)

    monkeypatch.setattr(files, "exists", noting)
    request = messages.DescribeTopicPartitionsRequest
    page = client.call(request([request.TopicRequest("t")], 2, request.Cursor("t", 40)), 0)
    assert [partition.partition_index for partition in page.topics[0].partitions] == [40, 41]
    assert looked_up == [f"t-{index}/leader-epoch-checkpoint" for index in (40, 41)]


def test_the_list_of_apis_is_the_table() -> None:
    client = CoreClient(make_core())
    answer = client.call(messages.ApiVersionsRequest("a", "1"), 3)
    listed = [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys]
    assert listed == [(api.key, api.min_version, api.max_version) for api in SERVED]


@pytest.fixture
def replacements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that are replaced, and synced, from now on."""
    paths = list[str]()
    original = MemoryFiles.replace_atomically

    def noting(files: MemoryFiles, path: str, data: bytes, **options: bool) -> None:
        paths.append(path)
        original(files, path, data, **options)

    monkeypatch.setattr(MemoryFiles, "replace_atomically", noting)
    return paths


def test_topics_of_one_request_are_created_extended_and_deleted_with_one_sync_of_the_catalogue(
    replacements: list[str],
) -> None:
    client = CoreClient(make_core())
    create(client, "first")  # the first one also makes the checkpoint of recovery points
    names = [f"t{number}" for number in range(100)]
    del replacements[:]
    assert {result.error_code for result in create(client, *names)} == {0}
    assert replacements == ["topics"]
    request = messages.CreatePartitionsRequest
    grown = client.call(request([request.CreatePartitionsTopic(name, 2, None) for name in names], 1000), 3)
    assert {result.error_code for result in grown.results} == {0}
    assert replacements == ["topics"] * 2
    assert {result.error_code for result in delete(client, *names)} == {0}
    assert replacements == ["topics"] * 3
    found = metadata(client, *names)
    assert {(topic.error_code, len(topic.partitions)) for topic in found} == {(0, 1)}
    assert replacements == ["topics"] * 4


@pytest.mark.slow
def test_metadata_creates_none_of_more_topics_than_kafka_would_create_at_once() -> None:
    core = make_core(num_partitions=100)
    client = CoreClient(core)
    names = [f"t{number}" for number in range(100)]  # 10,000 partitions, and the topics themselves
    assert {topic.error_code for topic in metadata(client, *names)} == {3}
    assert core.topics.names() == []
    assert {topic.error_code for topic in metadata(client, *names[1:])} == {0}
    assert len(core.topics.names()) == 99


def test_what_cannot_be_created_does_not_keep_metadata_from_creating_the_others() -> None:
    core = make_core()
    client = CoreClient(core)
    create(client, "a.b")
    found = metadata(client, "a_b", "not a name", "__transaction_state", "new", "a.b")
    assert [topic.error_code for topic in found] == [3, 17, 3, 0, 0]
    assert core.topics.names() == ["a.b", "new"]


def test_topics_that_the_disk_refuses_are_not_created_and_the_others_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    core = make_core()
    client = CoreClient(core)
    create(client, "a")
    refuse(core, "create_several", monkeypatch)
    with caplog.at_level(logging.ERROR):
        results = create(client, "a", "b", "not a name", "c")
    assert [(r.name, r.error_code) for r in results] == [("a", 36), ("b", 56), ("not a name", 17), ("c", 56)]
    assert "topics were not created: b, c: topics: no space left" in caplog.text
    found = metadata(client, "a", "b", "__consumer_offsets")
    assert [(topic.name, topic.error_code) for topic in found] == [
        ("a", 0),
        ("b", 56),
        ("__consumer_offsets", 56),
    ]
    assert core.topics.names() == ["a"]


def test_a_deletion_that_the_disk_refuses_leaves_the_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    core = make_core()
    client = CoreClient(core)
    create(client, "a", "b")
    refuse(core, "delete_several", monkeypatch)
    assert [(r.name, r.error_code) for r in delete(client, "a", "x", "b")] == [("x", 3), ("a", 56), ("b", 56)]
    assert core.topics.names() == ["a", "b"]


def test_a_topic_whose_folders_remain_is_deleted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    core = make_core(files)
    client = CoreClient(core)
    create(client, "a")
    core.topics.partition("a", 0)

    def refusing(path: str) -> None:
        raise StorageError("not permitted", path)

    monkeypatch.setattr(files, "remove_tree", refusing)
    (result,) = delete(client, "a")
    assert (result.error_code, core.topics.names()) == (0, [])


def test_partitions_and_configurations_are_as_before_when_the_disk_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = make_core()
    client = CoreClient(core)
    create(client, "t")
    refuse(core, "grow_several", monkeypatch)
    refuse(core, "set_configs", monkeypatch)
    request = messages.CreatePartitionsRequest
    (grown,) = client.call(request([request.CreatePartitionsTopic("t", 4, None)], 1000), 3).results
    assert grown.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert alter(client, "t", "retention.ms", "5")[0] == ErrorCode.KAFKA_STORAGE_ERROR
    topic = core.topics.get("t")
    assert topic is not None and (topic.partition_count, topic.configs) == (1, {})


def naming(api: str, version: int) -> Any:
    """A request of an API that names the topic t where it can."""
    request: Any = messages.find(f"{api}Request")
    if api == "CreateTopics":
        return request([request.CreatableTopic("t", 1, 1)])
    if api == "DeleteTopics" and version < 6:
        return request(topic_names=["t"], timeout_ms=1000)
    if api == "DeleteTopics":
        topics = [request.DeleteTopicState("t"), request.DeleteTopicState(None, b"\1" * 16)]
        return request(topics, timeout_ms=1000)
    if api == "Metadata":
        return request([request.Topic(name="t")])
    if api == "CreatePartitions":
        return request([request.CreatePartitionsTopic("t", 2, None)], 1000)
    if api == "DescribeConfigs":
        return request([request.DescribeConfigsResource(TOPIC, "t", None)])
    if api == "IncrementalAlterConfigs":
        return request([request.AlterConfigsResource(TOPIC, "t", [])])
    if api == "DescribeTopicPartitions":
        return request([request.TopicRequest("t")])
    if api == "ApiVersions" and version >= 3:
        return request("client", "1")
    return request()


@pytest.mark.parametrize("api", [api for api in SERVED if api.name in MINE], ids=lambda api: api.name)
def test_every_version_is_answered(api: Any) -> None:
    for version in range(api.min_version, api.max_version + 1):
        client = CoreClient(make_core())
        create(client, "t")
        expected = ErrorCode.TOPIC_ALREADY_EXISTS if api.name == "CreateTopics" else ErrorCode.NONE
        assert f"error_code={expected}" in repr(client.call(naming(api.name, version), version)), version


@pytest.mark.parametrize("api", [api for api in SERVED if api.name in MINE], ids=lambda api: api.name)
def test_a_failed_request_has_an_answer_in_every_version(api: Any) -> None:
    for version in range(api.min_version, api.max_version + 1):
        for request in (naming(api.name, version), messages.find(f"{api.name}Request")()):
            response = api.fail(request, ErrorCode.UNKNOWN_SERVER_ERROR, version)
            decoded, _ = messages.decode(type(response), messages.encode(response, version), version)
            if request == naming(api.name, version):
                assert "error_code=-1" in repr(decoded), version


def test_a_metadata_request_that_failed_names_ids_too() -> None:
    request = messages.MetadataRequest
    failed = request([request.Topic(b"\1" * 16, None)])
    row = next(api for api in SERVED if api.name == "Metadata")
    (topic,) = row.fail(failed, ErrorCode.UNKNOWN_SERVER_ERROR, 13).topics
    assert (topic.topic_id, topic.error_code) == (b"\1" * 16, -1)


def test_a_failed_move_between_directories_is_answered_for_each_partition() -> None:
    request = messages.AlterReplicaLogDirsRequest
    failed = request(
        [
            request.AlterReplicaLogDir("/a", [request.AlterReplicaLogDirTopic("t", [0, 2])]),
            request.AlterReplicaLogDir("/b", [request.AlterReplicaLogDirTopic("t", [1])]),
        ]
    )
    row = next(api for api in SERVED if api.name == "AlterReplicaLogDirs")
    (topic,) = row.fail(failed, ErrorCode.KAFKA_STORAGE_ERROR, 2).results
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, ErrorCode.KAFKA_STORAGE_ERROR),
        (2, ErrorCode.KAFKA_STORAGE_ERROR),
        (1, ErrorCode.KAFKA_STORAGE_ERROR),
    ]


NAMES = [
    ("orders", None),
    ("a" * 249, None),
    ("-._", None),
    ("", "the empty string is not allowed"),
    (".", "'.' is not allowed"),
    ("..", "'..' is not allowed"),
    ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ("٣", "'٣' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
]


@pytest.mark.parametrize(("name", "reason"), NAMES)
def test_a_name_is_refused_for_a_reason(name: str, reason: str | None) -> None:
    assert invalid_topic_name(name) == (None if reason is None else f"Topic name is invalid: {reason}")


@pytest.mark.parametrize(
    ("name", "existing", "found"),
    [
        ("a.b", ["a_b"], "a_b"),
        ("a_b.c", ["a.b_c"], "a.b_c"),
        ("a.b", ["a.c", "ab"], None),
        ("ab", ["a.b"], None),
    ],
)
def test_names_collide_where_only_dots_and_underscores_differ(
    name: str, existing: list[str], found: str | None
) -> None:
    assert Collisions(lambda: existing).find(name) == found


def test_the_only_broker_is_not_removed() -> None:
    """Kafka removes it: then it serves no topic until it starts again."""
    core = make_core()
    client = CoreClient(core)
    answer = client.call(messages.UnregisterBrokerRequest(core.broker.node.id), 0)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == "The only broker cannot be removed."
    answer = client.call(messages.UnregisterBrokerRequest(core.broker.node.id + 1), 0)
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_reassignment_of_nothing_does_not_repeat_what_the_request_allows() -> None:
    # Kafka's controller returns before it looks at the request: QuorumController.alterPartitionReassignments.
    client = CoreClient(make_core())
    made = messages.AlterPartitionReassignmentsRequest
    answer = client.call(made(60_000, False, []), 1)
    assert (answer.allow_replication_factor_change, answer.error_message, answer.responses) == (True, "", [])
    named = [made.ReassignableTopic("t", [made.ReassignablePartition(0, [1])])]
    answer = client.call(made(60_000, False, named), 1)
    assert (answer.allow_replication_factor_change, answer.error_message) == (False, None)
