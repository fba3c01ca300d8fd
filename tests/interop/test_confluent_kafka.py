"""confluent-kafka (2.16, on librdkafka) against the broker."""

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.interop import story
from tests.interop.names import Names
from tests.interop.waiting import until

pytestmark = pytest.mark.interop
COMPRESSIONS = ("gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 60.0
EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
MAX_TIMESTAMP = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]


def done(futures: Mapping[Any, "Future[Any]"]) -> dict[Any, Any]:
    """The results of all futures of one admin call."""
    return {key: future.result(TIMEOUT_S) for key, future in futures.items()}


class ConfluentKafka:
    """The story's client."""

    def __init__(self, bootstrap: str, *member_settings: str) -> None:
        self.bootstrap = bootstrap
        self.member_settings = member_settings
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topic(self, topic: str, partitions: int) -> None:
        done(self.admin.create_topics([NewTopic(topic, partitions, 1)]))

    def produce(self, topic: str, values: range) -> None:
        self.send(topic, [{"key": str(value), "value": str(value)} for value in values], linger_ms=5)

    def send(
        self, topic: str, messages: list[dict[str, Any]], compression: str = "none", linger_ms: int = 5
    ) -> None:
        """Produce idempotently and wait for every acknowledgement."""
        failures: list[KafkaError] = []
        settings = {"enable.idempotence": True, "linger.ms": linger_ms, "compression.type": compression}
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        for message in messages:
            producer.produce(topic, on_delivery=delivered, **message)
        assert producer.flush(TIMEOUT_S) == 0 and not failures

    def member(self, group: str, topic: str, commit: str, *settings: str) -> list[str]:
        words = *self.member_settings, *settings
        return story.python_member("confluent-kafka", self.bootstrap, group, topic, commit, *words)

    def end_offsets(self, topic: str) -> dict[int, int]:
        return self.offsets(topic, LATEST)

    def offsets(self, topic: str, spec: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): spec for partition in range(story.PARTITIONS)}
        return {key.partition: value.offset for key, value in done(self.admin.list_offsets(asked)).items()}

    def committed(self, group: str, topic: str) -> dict[int, int]:
        answer = done(self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))[group]
        return {entry.partition: entry.offset for entry in answer.topic_partitions if entry.topic == topic}


@pytest.fixture
def client(bootstrap: str) -> ConfluentKafka:
    return ConfluentKafka(bootstrap)


def consumer(bootstrap: str, **settings: Any) -> Consumer:
    """A consumer that starts at the beginning and does not linger; `group__id` is group.id."""
    given = {key.replace("__", "."): value for key, value in settings.items()}
    defaults = {"group.id": "unused", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    return Consumer({"bootstrap.servers": bootstrap, "fetch.wait.max.ms": 50, **defaults, **given})


def read(reader: Consumer, count: int) -> list[bytes]:
    """The next `count` values."""
    values: list[bytes] = []

    def enough() -> bool:
        for message in reader.consume(500, 0.1):
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
        return len(values) >= count

    until(enough, f"{count} records are read")
    return values


def state(client: ConfluentKafka, group: str) -> ConsumerGroupState:
    """The state of the group as described."""
    answer: ConsumerGroupState = done(client.admin.describe_consumer_groups([group]))[group].state
    return answer


@pytest.mark.shows("confluent-kafka", "idempotent", "group")
def test_a_group_grows_and_loses_a_member_and_no_record(client: ConfluentKafka, names: Names) -> None:
    story.a_group_grows_and_loses_a_member(client, names.topic(), names.group())


@pytest.mark.shows("confluent-kafka", "admin")
def test_the_admin_manages_a_group(client: ConfluentKafka, names: Names) -> None:
    topic, group = names.topic(), names.group()
    client.create_topic(topic, 3)
    wanted = [TopicPartition(topic, 0, 5, "five"), TopicPartition(topic, 1, 7)]
    altered = done(client.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))[
        group
    ]
    assert all(entry.error is None for entry in altered.topic_partitions)
    listed = client.admin.list_consumer_groups().result(TIMEOUT_S)
    assert not listed.errors
    (entry,) = [entry for entry in listed.valid if entry.group_id == group]
    assert entry.state == ConsumerGroupState.EMPTY and entry.is_simple_consumer_group
    assert state(client, group) == ConsumerGroupState.EMPTY
    assert client.committed(group, topic) == {0: 5, 1: 7}
    answer = done(
        client.admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
        )
    )
    assert [entry.metadata for entry in answer[group].topic_partitions] == ["five"]
    done(client.admin.delete_consumer_groups([group]))
    listed = client.admin.list_consumer_groups().result(TIMEOUT_S)
    assert group not in {entry.group_id for entry in listed.valid}
    assert client.committed(group, topic) == {}
    with pytest.raises(KafkaException) as refusal:
        done(client.admin.delete_consumer_groups([group]))
    assert refusal.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_a_group_with_a_member_is_described_and_refuses_deletion(
    client: ConfluentKafka, bootstrap: str, names: Names
) -> None:
    topic, group = names.topic(), names.group()
    client.create_topic(topic, 2)
    client.produce(topic, range(10))
    member = consumer(bootstrap, group__id=group, client__id="describer")
    try:
        member.subscribe([topic])
        read(member, 10)
        member.commit(asynchronous=False)
        assert (
            sum(
                entry.offset for entry in member.committed(member.assignment(), TIMEOUT_S) if entry.offset > 0
            )
            == 10
        )
        described = done(client.admin.describe_consumer_groups([group]))[group]
        assert described.state == ConsumerGroupState.STABLE and described.partition_assignor == "range"
        (only,) = described.members
        assert only.client_id == "describer"
        assert sorted(entry.partition for entry in only.assignment.topic_partitions) == [0, 1]
        with pytest.raises(KafkaException) as refusal:
            done(client.admin.delete_consumer_groups([group]))
        assert refusal.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    finally:
        member.close()
    until(lambda: state(client, group) == ConsumerGroupState.EMPTY, "the group empties")
    done(client.admin.delete_consumer_groups([group]))


@pytest.mark.shows("confluent-kafka", "admin")
def test_the_admin_manages_topics(client: ConfluentKafka, names: Names) -> None:
    topic = names.topic()
    admin = client.admin
    done(admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "123456"})]))
    done(admin.create_partitions([NewPartitions(topic, 5)]))
    partitions = admin.describe_topics
    until(
        lambda: len(done(partitions(TopicCollection([topic])))[topic].partitions) == 5,
        "five partitions",
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    (configs,) = done(admin.describe_configs([resource])).values()
    assert configs["retention.ms"].value == "123456" and not configs["retention.ms"].is_default
    change = ConfigEntry("retention.ms", "654321", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    done(admin.incremental_alter_configs([resource]))

    def retention() -> str:
        (configs,) = done(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])).values()
        value: str = configs["retention.ms"].value
        return value

    until(lambda: retention() == "654321", "the changed config is described")
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert cluster.cluster_id and cluster.controller is not None and len(cluster.nodes) == 1
    done(admin.delete_topics([topic]))
    until(lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics, "the topic is gone")


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.shows("confluent-kafka", "produce", "consume")
def test_compressed_records_round_trip(
    client: ConfluentKafka, bootstrap: str, names: Names, compression: str
) -> None:
    topic = names.topic()
    client.create_topic(topic, 1)
    sent = [b"record %d " % number * 20 for number in range(200)]
    messages = [{"value": value, "headers": [("name", b"value")]} for value in sent]
    client.send(topic, messages, compression, linger_ms=20)
    reader = consumer(bootstrap)
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        assert read(reader, len(sent)) == sent
    finally:
        reader.close()


def test_a_timestamp_leads_to_an_offset(client: ConfluentKafka, bootstrap: str, names: Names) -> None:
    topic = names.topic()
    client.create_topic(topic, story.PARTITIONS)
    start = int(time.time() * 1000) - 100_000
    client.send(
        topic,
        [
            {"value": b"%d" % number, "timestamp": start + number * 1000, "partition": 0}
            for number in range(100)
        ],
    )
    reader = consumer(bootstrap)
    try:
        (found,) = reader.offsets_for_times([TopicPartition(topic, 0, start + 41_500)], TIMEOUT_S)
        assert found.offset == 42
        (beyond,) = reader.offsets_for_times([TopicPartition(topic, 0, start + 99_001)], TIMEOUT_S)
        assert beyond.offset == -1
        assert reader.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, 100)
        reader.assign([TopicPartition(topic, 0, found.offset)])
        assert read(reader, 58)[0] == b"42"
    finally:
        reader.close()
    assert client.offsets(topic, EARLIEST) == {0: 0, 1: 0, 2: 0}
    assert client.offsets(topic, LATEST) == {0: 100, 1: 0, 2: 0}
    assert client.offsets(topic, MAX_TIMESTAMP)[0] == 99
    assert client.offsets(topic, OffsetSpec.for_timestamp(start + 41_500))[0] == 42


def test_deleted_records_move_the_log_start(client: ConfluentKafka, names: Names) -> None:
    topic = names.topic()
    client.create_topic(topic, story.PARTITIONS)
    client.send(topic, [{"value": b"%d" % number, "partition": 1} for number in range(50)])
    (answer,) = done(client.admin.delete_records([TopicPartition(topic, 1, 20)])).values()
    assert answer.low_watermark == 20
    assert client.offsets(topic, EARLIEST)[1] == 20


@pytest.mark.shows("confluent-kafka", "KIP-848")
def test_members_of_the_consumer_protocol_share_topics(
    client: ConfluentKafka, bootstrap: str, names: Names
) -> None:
    topic = names.topic()
    client.create_topic(topic, 4)
    group = {"group.id": names.group(), "group.protocol": "consumer", "enable.auto.commit": False}
    first, second = (Consumer({"bootstrap.servers": bootstrap, **group}) for _ in range(2))

    def have(*counts: int) -> bool:
        for member in (first, second)[-len(counts) :]:
            member.poll(0.1)
        return [len(member.assignment()) for member in (first, second)[-len(counts) :]] == list(counts)

    try:
        first.subscribe([topic])
        second.subscribe([f"^{topic}$"])
        until(lambda: have(2, 2), "both have two partitions")
        assert {each.partition for each in first.assignment() + second.assignment()} == {0, 1, 2, 3}
        mine = first.assignment()[0].partition
        first.commit(offsets=[TopicPartition(topic, mine, 7)], asynchronous=False)
        first.close()
        until(lambda: have(4), "the other one has all")
        assert second.committed([TopicPartition(topic, mine)], TIMEOUT_S)[0].offset == 7
    finally:
        second.close()
