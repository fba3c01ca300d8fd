"""kafka-python (3.0.12) against the broker."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic, OffsetSpec
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata

from tests.conftest import REPOSITORY
from tests.interop import story
from tests.interop.names import Names
from tests.interop.waiting import until

pytestmark = pytest.mark.interop
COMPRESSIONS = ("gzip", "snappy", "lz4", "zstd")


class KafkaPython:
    """The story's client."""

    def __init__(self, bootstrap: str, admin: KafkaAdminClient) -> None:
        self.bootstrap = bootstrap
        self.admin = admin

    def create_topic(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])

    def produce(self, topic: str, values: range) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=True, linger_ms=5)
        try:
            texts = [str(value).encode() for value in values]
            sent = [producer.send(topic, key=text, value=text) for text in texts]
            producer.flush(timeout=10)
            assert all(future.succeeded() for future in sent)
        finally:
            producer.close()

    def member(self, group: str, topic: str, commit: str) -> list[str]:
        return story.python_member("kafka-python", self.bootstrap, group, topic, commit)

    def end_offsets(self, topic: str) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): OffsetSpec.LATEST for partition in range(story.PARTITIONS)}
        answer = self.admin.list_partition_offsets(asked)
        return {key.partition: value.offset for key, value in answer.items()}

    def committed(self, group: str, topic: str) -> dict[int, int]:
        answer = self.admin.list_group_offsets(group)[group]
        return {key.partition: value.offset for key, value in answer.items() if key.topic == topic}


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def client(bootstrap: str, admin: KafkaAdminClient) -> KafkaPython:
    return KafkaPython(bootstrap, admin)


def consumer(bootstrap: str, **settings: object) -> KafkaConsumer:
    """A consumer that starts at the beginning and does not linger."""
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50}
    return KafkaConsumer(bootstrap_servers=bootstrap, **(defaults | settings))


def read(reader: KafkaConsumer, count: int) -> list[bytes]:
    """The next `count` values."""
    values: list[bytes] = []

    def enough() -> bool:
        for records in reader.poll(timeout_ms=5_000).values():
            values.extend(record.value for record in records)
        return len(values) >= count

    until(enough, f"{count} records are read")
    return values


@pytest.mark.shows("kafka-python", "idempotent", "group")
def test_a_group_grows_and_loses_a_member_and_no_record(client: KafkaPython, names: Names) -> None:
    story.a_group_grows_and_loses_a_member(client, names.topic(), names.group())


@pytest.mark.shows("kafka-python", "admin")
def test_the_admin_manages_a_group(client: KafkaPython, admin: KafkaAdminClient, names: Names) -> None:
    topic, group = names.topic(), names.group()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    client.create_topic(topic, 3)
    altered = {first: OffsetAndMetadata(5, "five", -1), second: OffsetAndMetadata(7, "", -1)}
    assert set(admin.alter_group_offsets(group, altered).values()) == {NoError}
    listed = {entry["group_id"]: entry for entry in admin.list_groups()}
    assert listed[group]["group_state"] == "Empty" and listed[group]["protocol_type"] == ""
    described = admin.describe_groups([group])[group]
    assert described["group_state"] == "Empty" and described["members"] == [] and described["error"] is None
    assert admin.list_group_offsets(group)[group] == altered
    assert admin.delete_group_offsets(group, [first]) == {first: NoError}
    assert set(admin.list_group_offsets(group)[group]) == {second}
    assert admin.delete_groups([group]) == {group: "OK"}
    assert group not in {entry["group_id"] for entry in admin.list_groups()}
    assert admin.list_group_offsets(group)[group] == {}


def test_a_group_with_a_member_is_described_and_refuses_deletion(
    client: KafkaPython, bootstrap: str, admin: KafkaAdminClient, names: Names
) -> None:
    topic, group = names.topic(), names.group()
    client.create_topic(topic, 2)
    client.produce(topic, range(10))
    member = consumer(bootstrap, group_id=group, client_id="describer")
    try:
        member.subscribe([topic])
        read(member, 10)
        member.commit()
        described = admin.describe_groups([group])[group]
        assert described["group_state"] == "Stable" and described["protocol_data"] == "range"
        (only,) = described["members"]
        assert only["client_id"] == "describer"
        assignment = only["member_assignment"]["assigned_partitions"]
        assert [(entry["topic"], sorted(entry["partitions"])) for entry in assignment] == [(topic, [0, 1])]
        assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
    finally:
        member.close()
    until(lambda: admin.describe_groups([group])[group]["group_state"] == "Empty", "the group empties")
    assert admin.delete_groups([group]) == {group: "OK"}


@pytest.mark.shows("kafka-python", "admin")
def test_the_admin_manages_topics(admin: KafkaAdminClient, names: Names) -> None:
    topic = names.topic()
    admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "123456"})])
    (described,) = admin.describe_topics([topic])
    assert sorted(entry["partition_index"] for entry in described["partitions"]) == [0, 1]
    admin.create_partitions({topic: NewPartitions(5)})
    assert topic in admin.list_topics()
    until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 5, "five partitions")
    configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
    assert configs["retention.ms"]["value"] == "123456"
    admin.delete_topics([topic])
    until(lambda: topic not in admin.list_topics(), "the topic is gone")


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.shows("kafka-python", "produce", "consume")
def test_compressed_records_round_trip(
    client: KafkaPython, bootstrap: str, names: Names, compression: str
) -> None:
    topic = names.topic()
    client.create_topic(topic, 1)
    sent = [b"record %d " % number * 20 for number in range(200)]
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20)
    try:
        for value in sent:
            producer.send(topic, value=value, headers=[("name", b"value")])
        producer.flush(timeout=10)
    finally:
        producer.close()
    reader = consumer(bootstrap)
    try:
        reader.assign([TopicPartition(topic, 0)])
        assert read(reader, len(sent)) == sent
    finally:
        reader.close()


def test_a_timestamp_leads_to_an_offset(client: KafkaPython, bootstrap: str, names: Names) -> None:
    topic = names.topic()
    client.create_topic(topic, 1)
    partition = TopicPartition(topic, 0)
    start = int(time.time() * 1000) - 100_000
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        for number in range(100):
            producer.send(topic, value=b"%d" % number, timestamp_ms=start + number * 1000)
        producer.flush(timeout=10)
    finally:
        producer.close()
    reader = consumer(bootstrap)
    try:
        reader.assign([partition])
        found = reader.offsets_for_times({partition: start + 41_500})[partition]
        assert (found.offset, found.timestamp) == (42, start + 42_000)
        assert reader.offsets_for_times({partition: start + 99_001})[partition] is None
        assert reader.beginning_offsets([partition]) == {partition: 0}
        assert reader.end_offsets([partition]) == {partition: 100}
        reader.seek(partition, found.offset)
        assert read(reader, 58)[0] == b"42"
    finally:
        reader.close()


def test_a_member_leaves_at_once_where_a_shell_has_it_ignore_control_c() -> None:
    waits = (
        "import signal, time",
        "signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "from tests.interop import members",
        "try: members.stop_at_end_of_input(interrupt=True); time.sleep(60)",
        "except KeyboardInterrupt: print('left')",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(waits)],
        input="",
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    assert done.stdout == "left\n", done.stderr
