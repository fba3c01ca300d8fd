"""Static members of classic groups (KIP-345): who comes back as the same instance has its partitions at once."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.interop import story
from tests.interop.names import Names
from tests.interop.story import Member
from tests.interop.test_aiokafka import AioKafka
from tests.interop.test_kcat import Kcat
from tests.interop.waiting import until

pytestmark = pytest.mark.interop
SESSION_MS = 60_000
"""Longer than anybody waits here: without the instance's name the next member would wait for the dead one."""
PYTHON = (f"session_timeout_ms={SESSION_MS}", "group_instance_id=one")
OTHERS = (f"session.timeout.ms={SESSION_MS}", "group.instance.id=one")


@pytest.mark.shows("kafka-python", "static member")
@pytest.mark.shows("aiokafka", "static member")
@pytest.mark.shows("confluent-kafka", "static member")
@pytest.mark.parametrize("library", ["kafka-python", "aiokafka", "confluent-kafka"])
def test_an_instance_that_died_returns_to_its_partitions(bootstrap: str, names: Names, library: str) -> None:
    settings = OTHERS if library == "confluent-kafka" else PYTHON
    topic, group = names.topic(), names.group()
    command = story.python_member(library, bootstrap, group, topic, "sync", *settings)
    _comes_back(AioKafka(bootstrap), topic, partial(Member, command))


@pytest.mark.java
@pytest.mark.shows("Java, classic", "static member")
def test_an_instance_of_java_returns(java_client: list[str], bootstrap: str, names: Names) -> None:
    topic, group = names.topic(), names.group()
    command = [*java_client, "member", bootstrap, group, topic, "sync", *OTHERS]
    _comes_back(AioKafka(bootstrap), topic, partial(Member, command))


@pytest.mark.shows("kcat", "static member")
def test_an_instance_of_kcat_returns(kcat: str, bootstrap: str, names: Names) -> None:
    topic, group = names.topic(), names.group()
    client = Kcat(kcat, bootstrap)
    command = client.member(group, topic, "auto", *OTHERS)
    _comes_back(client, topic, lambda: Member(command, story.kcat_line, leaves_at_sigterm=True))


def _comes_back(client: story.Client, topic: str, start: Callable[[], Member]) -> None:
    """A member dies without a word, and another one comes as the same instance."""
    client.create_topic(topic, story.PARTITIONS)
    everything = frozenset(range(story.PARTITIONS))
    members = [start()]
    try:
        until(lambda: members[0].assigned == everything, "the instance has all partitions")
        members[0].kill()
        members.append(start())
        until(lambda: members[1].assigned == everything, "it has them again")
    finally:
        story.leave_all(members)
