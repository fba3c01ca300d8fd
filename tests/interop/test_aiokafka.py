"""aiokafka (0.14) against the broker: it speaks the oldest versions of all clients."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import OffsetAndMetadata

from tests.interop import story
from tests.interop.names import Names
from tests.interop.waiting import until

pytestmark = pytest.mark.interop
COMPRESSIONS = ("gzip", "snappy", "lz4", "zstd")
DEADLINE_S = 60.0
T = TypeVar("T")


@asynccontextmanager
async def started(thing: T) -> AsyncIterator[T]:
    """A producer, consumer or admin between its start and its stop."""
    anything: Any = thing
    await anything.start()
    try:
        yield thing
    finally:
        await (anything.close() if isinstance(thing, AIOKafkaAdminClient) else anything.stop())


class AioKafka:
    """The story's client; each call runs a loop of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def admin(self, call: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
        """The answer of one call of an admin client."""

        async def run() -> T:
            async with started(AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
                return await call(admin)

        return asyncio.run(run())

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, and wait until the broker knows it: Apache Kafka's answers earlier."""

        async def create(admin: Any) -> Any:
            answer = await admin.create_topics([NewTopic(topic, partitions, 1)])
            for _ in range(200):
                (known,) = await admin.describe_topics([topic])
                if known["error_code"] == 0 and len(known["partitions"]) == partitions:
                    return answer
                await asyncio.sleep(0.05)
            raise AssertionError(f"{topic} was created and is not known: {known}")

        answer: Any = self.admin(create)
        assert [error for _, error, _ in answer.topic_errors] == [0]

    def produce(self, topic: str, values: range) -> None:
        texts = [str(value).encode() for value in values]
        self.send(topic, [{"key": text, "value": text} for text in texts])

    def send(self, topic: str, messages: list[dict[str, Any]], compression: str | None = None) -> None:
        """Produce idempotently and wait for every acknowledgement."""

        async def run() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                enable_idempotence=True,
                compression_type=compression,
                linger_ms=5,
            )
            async with started(producer):
                sent = [await producer.send(topic, **message) for message in messages]
                await asyncio.gather(*sent)

        asyncio.run(run())

    def member(self, group: str, topic: str, commit: str) -> list[str]:
        return story.python_member("aiokafka", self.bootstrap, group, topic, commit)

    def end_offsets(self, topic: str) -> dict[int, int]:
        async def run() -> dict[int, int]:
            async with started(AIOKafkaConsumer(bootstrap_servers=self.bootstrap)) as reader:
                asked = [TopicPartition(topic, partition) for partition in range(story.PARTITIONS)]
                return {key.partition: value for key, value in (await reader.end_offsets(asked)).items()}

        return asyncio.run(run())

    def committed(self, group: str, topic: str) -> dict[int, int]:
        answer = self.admin(lambda admin: admin.list_consumer_group_offsets(group))
        return {key.partition: value.offset for key, value in answer.items() if key.topic == topic}

    def described(self, group: str) -> Any:
        """The description of one group: error, id, state, protocol type, protocol, members, …"""
        (answer,) = self.admin(lambda admin: admin.describe_consumer_groups([group]))
        ((error, *rest),) = answer.groups
        assert error == 0
        return rest


@pytest.fixture
def client(bootstrap: str) -> AioKafka:
    return AioKafka(bootstrap)


def consumer(bootstrap: str, **settings: Any) -> AIOKafkaConsumer:
    """A consumer that starts at the beginning and does not linger."""
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50}
    return AIOKafkaConsumer(bootstrap_servers=bootstrap, **(defaults | settings))


async def read(reader: AIOKafkaConsumer, count: int) -> list[bytes]:
    """The next `count` values."""
    values: list[bytes] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(values) < count:
            for records in (await reader.getmany(timeout_ms=100)).values():
                values.extend(record.value for record in records)
    return values


@pytest.mark.shows("aiokafka", "idempotent", "group")
def test_a_group_grows_and_loses_a_member_and_no_record(client: AioKafka, names: Names) -> None:
    story.a_group_grows_and_loses_a_member(client, names.topic(), names.group())


@pytest.mark.shows("aiokafka", "admin")
def test_a_group_is_altered_listed_and_described(client: AioKafka, bootstrap: str, names: Names) -> None:
    topic, group = names.topic(), names.group()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    client.create_topic(topic, 2)

    async def commit_without_joining() -> None:
        async with started(consumer(bootstrap, group_id=group)) as reader:
            reader.assign([first, second])
            await reader.commit(
                {TopicPartition(topic, 0): OffsetAndMetadata(5, "five"), TopicPartition(topic, 1): 7}
            )
            assert await reader.committed(TopicPartition(topic, 0)) == 5

    asyncio.run(commit_without_joining())
    assert client.committed(group, topic) == {0: 5, 1: 7}
    offsets = client.admin(lambda admin: admin.list_consumer_group_offsets(group))
    assert offsets[first].metadata == "five"
    assert group in {entry[0] for entry in client.admin(lambda admin: admin.list_consumer_groups())}
    assert client.described(group)[:4] == [group, "Empty", "", ""]


def test_a_group_with_a_member_is_described(client: AioKafka, bootstrap: str, names: Names) -> None:
    topic, group = names.topic(), names.group()
    client.create_topic(topic, 2)
    client.produce(topic, range(10))

    async def join() -> list[Any]:
        async with started(consumer(bootstrap, group_id=group, client_id="describer")) as reader:
            reader.subscribe([topic])
            await read(reader, 10)
            await reader.commit()
            described: list[Any] = await asyncio.to_thread(client.described, group)
            return described

    _, state, kind, protocol, members, *_ = asyncio.run(join())
    assert (state, kind, protocol) == ("Stable", "consumer", "roundrobin")
    assert [client_id for _, client_id, *_ in members] == ["describer"]
    until(lambda: client.described(group)[1] == "Empty", "the group empties")


@pytest.mark.shows("aiokafka", "admin")
def test_the_admin_manages_topics(client: AioKafka, names: Names) -> None:
    topic = names.topic()
    new = NewTopic(topic, 2, 1, topic_configs={"retention.ms": "123456"})
    created: Any = client.admin(lambda admin: admin.create_topics([new]))
    assert [error for _, error, _ in created.topic_errors] == [0]
    grown: Any = client.admin(lambda admin: admin.create_partitions({topic: NewPartitions(5)}))
    assert [error for _, error, _ in grown.topic_errors] == [0]

    def partitions() -> int:
        (answer,) = client.admin(lambda admin: admin.describe_topics([topic]))
        return len(answer["partitions"])

    until(lambda: partitions() == 5, "five partitions")
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    (configs,) = client.admin(lambda admin: admin.describe_configs([resource]))
    entries = {entry[0]: entry[1] for entry in configs.resources[0][4]}
    assert entries["retention.ms"] == "123456"
    deleted: Any = client.admin(lambda admin: admin.delete_topics([topic]))
    assert [error for _, error in deleted.topic_error_codes] == [0]
    until(lambda: topic not in client.admin(lambda admin: admin.list_topics()), "the topic is gone")


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.shows("aiokafka", "produce", "consume")
def test_compressed_records_round_trip(
    client: AioKafka, bootstrap: str, names: Names, compression: str
) -> None:
    topic = names.topic()
    client.create_topic(topic, 1)
    sent = [b"record %d " % number * 20 for number in range(200)]
    client.send(topic, [{"value": value, "headers": [("name", b"value")]} for value in sent], compression)

    async def run() -> list[bytes]:
        async with started(consumer(bootstrap)) as reader:
            reader.assign([TopicPartition(topic, 0)])
            return await read(reader, len(sent))

    assert asyncio.run(run()) == sent


def test_a_timestamp_leads_to_an_offset(client: AioKafka, bootstrap: str, names: Names) -> None:
    topic = names.topic()
    client.create_topic(topic, 1)
    partition = TopicPartition(topic, 0)
    start = int(time.time() * 1000) - 100_000
    client.send(
        topic,
        [{"value": b"%d" % number, "timestamp_ms": start + number * 1000} for number in range(100)],
    )

    async def run() -> None:
        async with started(consumer(bootstrap)) as reader:
            reader.assign([partition])
            found = (await reader.offsets_for_times({partition: start + 41_500}))[partition]
            assert (found.offset, found.timestamp) == (42, start + 42_000)
            assert (await reader.offsets_for_times({partition: start + 99_001}))[partition] is None
            assert await reader.beginning_offsets([partition]) == {partition: 0}
            assert await reader.end_offsets([partition]) == {partition: 100}
            reader.seek(partition, found.offset)
            assert (await read(reader, 58))[0] == b"42"

    asyncio.run(run())
