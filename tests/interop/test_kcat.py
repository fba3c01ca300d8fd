"""kcat (1.7, a librdkafka of its own age) against the broker.

kcat has no group administration; the story's other questions go through confluent-kafka. It commits automatically
only, every five seconds and on leaving: its -X gives auto.commit.interval.ms to the topic, where it does nothing.
"""

import json
import subprocess
import time

import pytest

from tests.interop import story
from tests.interop.names import Names
from tests.interop.test_confluent_kafka import LATEST, ConfluentKafka
from tests.interop.waiting import until

pytestmark = pytest.mark.interop
COMPRESSIONS = ("gzip", "snappy", "lz4", "zstd")
GROUP_SETTINGS = {
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 200,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 50,
}


class Kcat(ConfluentKafka):
    """The story's client: kcat produces and consumes."""

    def __init__(self, path: str, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._path = path

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """What kcat prints on its standard output."""
        command = [self._path, "-m", "60", "-b", self.bootstrap, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def produce(self, topic: str, values: range) -> None:
        lines = "".join(f"{value}:{value}\n" for value in values)
        self("-P", "-t", topic, "-K", ":", "-X", "enable.idempotence=true", "-X", "linger.ms=5", given=lines)

    def member(self, group: str, topic: str, commit: str, *settings: str) -> list[str]:
        given = [f"{key}={value}" for key, value in GROUP_SETTINGS.items()]
        options = [word for setting in (*given, *settings) for word in ("-X", setting)]
        return [self._path, "-b", self.bootstrap, *options, "-u", "-f", "%s\n", "-G", group, topic]


@pytest.fixture
def client(kcat: str, bootstrap: str) -> Kcat:
    return Kcat(kcat, bootstrap)


def start(command: list[str]) -> story.Member:
    """A member that speaks kcat's words and leaves at SIGTERM."""
    return story.Member(command, story.kcat_line, leaves_at_sigterm=True)


@pytest.mark.shows("kcat", "idempotent", "group")
def test_a_group_grows_and_loses_a_member_and_no_record(client: Kcat, names: Names) -> None:
    story.a_group_grows_and_loses_a_member(
        client, names.topic(), names.group(), start, commits_when_leaving=True
    )


def test_metadata_is_listed(client: Kcat, names: Names) -> None:
    topic = names.topic()
    client.create_topic(topic, 3)
    listed = json.loads(client("-L", "-J", "-t", topic))
    assert [broker["name"] for broker in listed["brokers"]] == [client.bootstrap]
    (entry,) = listed["topics"]
    assert entry["topic"] == topic and len(entry["partitions"]) == 3


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.shows("kcat", "produce", "consume")
def test_compressed_records_round_trip(client: Kcat, names: Names, compression: str) -> None:
    topic = names.topic()
    client.create_topic(topic, 1)
    text = "".join(f"record {number} {'x' * 100}\n" for number in range(200))
    client(
        "-P", "-t", topic, "-p", "0", "-z", compression, "-H", "name=value", "-X", "linger.ms=20", given=text
    )
    assert client("-C", "-t", topic, "-o", "beginning", "-e", "-q") == text
    assert client("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%h\n", "-c", "1") == "name=value\n"


def test_a_timestamp_leads_to_an_offset(client: Kcat, names: Names) -> None:
    topic = names.topic()
    client.create_topic(topic, story.PARTITIONS)
    begin = int(time.time() * 1000) - 100_000
    messages = [
        {"value": b"%d" % number, "timestamp": begin + number * 1000, "partition": 0} for number in range(100)
    ]
    client.send(topic, messages)
    assert client("-Q", "-t", f"{topic}:0:{begin + 41_500}").split() == [topic, "[0]", "offset", "42"]
    assert client("-Q", "-t", f"{topic}:0:-1").split()[-1] == "100"
    assert client("-Q", "-t", f"{topic}:0:-2").split()[-1] == "0"
    values = client("-C", "-t", topic, "-p", "0", "-o", f"s@{begin + 41_500}", "-e", "-q").split()
    assert values == [str(number) for number in range(42, 100)]
    assert client("-C", "-t", topic, "-p", "0", "-o", "-5", "-e", "-q").split() == [
        "95",
        "96",
        "97",
        "98",
        "99",
    ]


def test_a_group_continues_where_it_committed(client: Kcat, names: Names) -> None:
    topic, group = names.topic(), names.group()
    client.create_topic(topic, 3)
    client.produce(topic, range(300))
    first = start(client.member(group, topic, "auto"))
    try:
        until(lambda: len(first.values) == 300, "the first member reads all")
    finally:
        assert first.leave() == 0
    assert client.committed(group, topic) == client.offsets(topic, LATEST)
    client.produce(topic, range(300, 400))
    second = start(client.member(group, topic, "auto"))
    try:
        until(lambda: len(second.values) >= 100, "the second member reads the rest")
    finally:
        assert second.leave() == 0
    assert second.values == set(range(300, 400))


@pytest.mark.shows("kcat", "transactional")
def test_a_transaction_is_committed(client: Kcat, names: Names) -> None:
    topic = names.topic()
    client.create_topic(topic, 1)
    client("-P", "-t", topic, "-X", f"transactional.id={topic}", given="one\ntwo\n")
    committed = ("-X", "isolation.level=read_committed", "-e", "-q", "-f", "%o %s\n")
    assert client("-C", "-t", topic, "-o", "beginning", *committed) == "0 one\n1 two\n"
    assert client("-Q", "-t", f"{topic}:0:-1").split()[-1] == "3"
