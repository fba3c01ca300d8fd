"""Members that speak the consumer protocol (KIP-848): Java's kafka-clients and librdkafka, by confluent-kafka."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from tests.drivers import wire
from tests.interop import story
from tests.interop.names import Names
from tests.interop.story import Member
from tests.interop.test_confluent_kafka import ConfluentKafka
from tests.interop.test_java import Shell
from tests.interop.waiting import until

pytestmark = pytest.mark.interop

CONSUMER = "group.protocol=consumer"
WITHIN_S = 40.0
"""Apache Kafka looks for topics that match an expression every 10 s at most."""


class Client(story.Client, Protocol):
    """A client whose members take settings."""

    def member(self, group: str, topic: str, commit: str, *settings: str) -> list[str]:
        """The command line of a member."""


@pytest.fixture(scope="module", params=["java", "confluent-kafka"])
def client(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Client]:
    if request.param == "confluent-kafka":
        yield ConfluentKafka(bootstrap)
        return
    shell = Shell(request.getfixturevalue("java_client"), bootstrap)
    yield shell
    shell.close()


@pytest.fixture
def members() -> Iterator[ExitStack]:
    """Members leave at the end of the test."""
    with ExitStack() as stack:
        yield stack


class Group:
    """A group whose members are started one after the other."""

    def __init__(self, client: Client, stack: ExitStack, group: str) -> None:
        self.client, self.group = client, group
        self._stack = stack

    def join(self, topic: str, *settings: str, commit: str = "sync") -> Member:
        """Start a member."""
        member = Member(self.client.member(self.group, topic, commit, *settings))
        self._stack.callback(member.leave)
        return member


@pytest.fixture
def group(client: Client, members: ExitStack, names: Names) -> Group:
    return Group(client, members, names.group())


def expression(client: Client, stem: str) -> str:
    """A regular expression for all topics that begin with `stem`, as the client wants it."""
    return f"~{stem}.*" if isinstance(client, Shell) else f"^{stem}.*"


@pytest.mark.shows("Java, consumer", "consume", "group", "KIP-848")
@pytest.mark.shows("confluent-kafka", "KIP-848")
def test_a_group_grows_and_loses_a_member_and_no_record(client: Client, names: Names) -> None:
    class Story:
        """The client, with members of the consumer protocol."""

        def member(self, group: str, topic: str, commit: str) -> list[str]:
            return client.member(group, topic, commit, CONSUMER)

        def __getattr__(self, name: str) -> object:
            return getattr(client, name)

    story.a_group_grows_and_loses_a_member(Story(), names.topic(), names.group())  # type: ignore[arg-type]


@pytest.mark.shows("Java, consumer", "static member")
@pytest.mark.shows("confluent-kafka", "static member")
def test_a_static_member_returns_to_its_partitions(
    client: Client, group: Group, names: Names, bootstrap: str
) -> None:
    with wire.Connection(bootstrap) as connection:  # so long may the member's process take to start again
        assert connection.set_group_config(group.group, "consumer.session.timeout.ms", "60000") == 0
    topic = names.topic()
    client.create_topic(topic, story.PARTITIONS)
    first = group.join(topic, CONSUMER, "group.instance.id=one")
    second = group.join(topic, CONSUMER, "group.instance.id=two")
    until(lambda: story.shares([first, second]), "two members share three partitions")
    before, others = first.assigned, second.assigned
    assert first.leave() == 0
    third = group.join(topic, CONSUMER, "group.instance.id=one")
    until(lambda: third.assigned == before, f"whoever comes as the same instance has {set(before)}")
    assert second.assigned == others
    fourth = group.join(topic, CONSUMER, "group.instance.id=two")
    until(lambda: "INSTANCE" in "".join(fourth.log).upper(), "an instance that is there is not replaced")
    assert (fourth.assigned, second.assigned) == (frozenset(), others)
    assert fourth.leave() != 0


def test_topics_are_found_by_a_regular_expression(client: Client, group: Group, names: Names) -> None:
    client.create_topic(names.topic("one"), 1)
    member = group.join(expression(client, names.topic("")), CONSUMER)
    until(lambda: member.assigned == {0}, "the topic that is there is assigned", WITHIN_S)
    client.create_topic(names.topic("two"), story.PARTITIONS)
    client.create_topic("other-" + names.topic("three"), 5)
    until(lambda: member.assigned == {0, 1, 2}, "the topic that comes is assigned", WITHIN_S)
    client.produce(names.topic("two"), range(100))
    until(lambda: len(member.values) == 100, "it is read")


def test_a_group_changes_its_protocol_and_back(client: Client, group: Group, names: Names) -> None:
    topic = names.topic()
    client.create_topic(topic, story.PARTITIONS)

    def until_committed() -> None:
        ends = dict(client.end_offsets(topic))
        until(lambda: dict(client.committed(group.group, topic)) == ends, f"committed offsets reach {ends}")

    classic = group.join(topic, "partition.assignment.strategy=" + _cooperative(client))
    client.produce(topic, range(100))
    until(lambda: len(classic.values) == 100, "the classic member reads all")
    modern = group.join(topic, CONSUMER)
    until(lambda: story.shares([classic, modern]), "members of both protocols share three partitions")
    client.produce(topic, range(100, 200))
    both = range(200)
    until(lambda: classic.values | modern.values == set(both), "what comes later is read by either")
    until_committed()
    assert classic.leave() == 0
    until(lambda: len(modern.assigned) == story.PARTITIONS, "the other one has all")
    again = group.join(topic, "partition.assignment.strategy=" + _cooperative(client))
    until(lambda: story.shares([again, modern]), "a classic member comes to a consumer group")
    until_committed()
    assert modern.leave() == 0
    until(lambda: len(again.assigned) == story.PARTITIONS, "and is alone in a classic group")
    client.produce(topic, range(200, 300))
    until(lambda: set(range(200, 300)) <= again.values, "it goes on")
    assert again.values == set(range(200, 300)), "where the others have committed"
    until_committed()


def _cooperative(client: Client) -> str:
    if isinstance(client, Shell):
        return "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    return "cooperative-sticky"
