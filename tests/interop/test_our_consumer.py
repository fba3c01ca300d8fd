"""`kafka_offsets.client.Consumer`, alone and beside other clients in one group, on our broker and on Apache Kafka."""

import itertools
from collections.abc import Mapping

import pytest

from kafka_offsets.client import Admin, Consumer
from kafka_offsets.errors import ErrorCode
from tests.interop import story
from tests.interop.names import Names
from tests.interop.story import Member
from tests.interop.test_aiokafka import AioKafka
from tests.interop.test_java import Shell
from tests.interop.waiting import until

pytestmark = pytest.mark.interop

OURS, KAFKA_PYTHON, CONFLUENT, JAVA = "kafka-offsets", "kafka-python", "confluent-kafka", "Java"


class Mixed(AioKafka):
    """The story's client; its members are of several clients, in turn, each with settings of its own."""

    def __init__(self, home: str, java: list[str], members: list[tuple[str, Mapping[str, str]]]) -> None:
        super().__init__(home)
        self._java = java
        self._members = itertools.cycle(members)

    def member(self, group: str, topic: str, commit: str) -> list[str]:
        """The command line of the next member."""
        client, settings = next(self._members)
        words = [f"{key}={value}" for key, value in settings.items()]
        if client == JAVA:
            return [*self._java, "member", self.bootstrap, group, topic, commit, *words]
        return story.python_member(client, self.bootstrap, group, topic, commit, *words)


def strategy(name: str, client: str) -> dict[str, str]:
    """The setting of an assignor, as the client wants it."""
    if client == JAVA:
        words = {"range": "Range", "sticky": "Sticky", "cooperative-sticky": "CooperativeSticky"}
        name = f"org.apache.kafka.clients.consumer.{words[name]}Assignor"
    return {"partition.assignment.strategy": name}


CONSUMER = {"group.protocol": "consumer"}
GROUPS = {
    "ours, range": [(OURS, {})],
    "ours, cooperative-sticky": [(OURS, strategy("cooperative-sticky", OURS))],
    "ours, consumer": [(OURS, CONSUMER)],
    "ours leads": [(OURS, {}), (KAFKA_PYTHON, {}), (JAVA, {})],
    "kafka-python leads": [(KAFKA_PYTHON, {}), (JAVA, {}), (OURS, {})],
    "Java leads": [(JAVA, {}), (OURS, {}), (KAFKA_PYTHON, {})],
    "sticky": [(client, strategy("sticky", client)) for client in (OURS, JAVA, OURS)],
    "cooperative-sticky": [
        (client, strategy("cooperative-sticky", client)) for client in (JAVA, OURS, CONFLUENT)
    ],
    "consumer": [(OURS, CONSUMER), (JAVA, CONSUMER), (CONFLUENT, CONSUMER)],
    "both protocols": [
        (OURS, CONSUMER),
        (OURS, strategy("cooperative-sticky", OURS)),
        (JAVA, CONSUMER),
    ],
}


@pytest.mark.java
@pytest.mark.parametrize("members", GROUPS.values(), ids=GROUPS)
def test_a_mixed_group_grows_and_loses_a_member_and_no_record(
    home: str, java_client: list[str], names: Names, members: list[tuple[str, Mapping[str, str]]]
) -> None:
    client = Mixed(home, java_client, members)
    protocols = {settings.get("group.protocol", "classic") for _, settings in members}
    story.a_group_grows_and_loses_a_member(
        client, names.topic(), names.group(), one_after_the_other=len(protocols) > 1
    )


def test_an_instance_that_died_returns_to_its_partitions(home: str, names: Names) -> None:
    topic, group = names.topic(), names.group()
    settings = ("group.instance.id=one", "session.timeout.ms=60000")
    command = story.python_member(OURS, home, group, topic, "sync", *settings)
    AioKafka(home).create_topic(topic, story.PARTITIONS)
    everything = frozenset(range(story.PARTITIONS))
    members = [Member(command)]
    try:
        until(lambda: members[0].assigned == everything, "the instance has all partitions")
        members[0].kill()
        members.append(Member(command))
        until(lambda: members[1].assigned == everything, "it has them again")
    finally:
        story.leave_all(members)


def test_offsets_are_deleted_partition_by_partition(home: str, names: Names) -> None:
    topic, other, group = names.topic("a"), names.topic("b"), names.group()
    client = AioKafka(home)
    for name in (topic, other):
        client.create_topic(name, 2)
    admin = Admin({"bootstrap.servers": home})
    admin.alter_consumer_group_offsets(group, {(topic, 0): 1, (topic, 1): 2, (other, 0): 3})
    with Consumer({"bootstrap.servers": home, "group.id": group}) as consumer:
        consumer.subscribe(topic)
        assert len(consumer.get_partitions()) == 2
        assert consumer.get_offsets() == {(topic, 0): 1, (topic, 1): 2}
        assert admin.delete_consumer_group_offsets(group, [(topic, 0), (other, 0), (other, 7)]) == {
            (topic, 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            (other, 0): ErrorCode.NONE,
            (other, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
    assert admin.delete_consumer_group_offsets(group, [(topic, 0)]) == {(topic, 0): ErrorCode.NONE}
    assert {*admin.list_consumer_group_offsets(group)} == {(topic, 1)}


@pytest.mark.java
def test_aborted_records_of_java_are_not_read(home: str, java_client: list[str], names: Names) -> None:
    topic = names.topic()
    shell = Shell(java_client, home)
    try:
        shell.create_topic(topic, 1)
        shell("transact", topic, topic, "commit", "a", "b")
        shell("transact", topic, topic, "abort", "c")
        shell("transact", topic, topic, "commit", "d")
    finally:
        shell.close()
    assert read(home, topic, 3, "read_committed") == [b"a", b"b", b"d"]
    assert read(home, topic, 4, "read_uncommitted") == [b"a", b"b", b"c", b"d"]


def read(home: str, topic: str, count: int, isolation: str) -> list[bytes | None]:
    """Read partition 0 from its beginning."""
    found: list[bytes | None] = []
    with Consumer({"bootstrap.servers": home, "isolation.level": isolation}) as consumer:
        consumer.subscribe(topic, 0, 0)

        def enough() -> bool:
            found.extend(record.value for record in consumer.poll(500))
            return len(found) >= count

        until(enough, f"{count} records are read")
    return found
