"""`kafka-offsets topics` on a running broker: what is listed, created, changed, deleted and refused."""

import json
from collections.abc import Iterator

import pytest

from kafka_offsets import Broker, cli
from kafka_offsets.testing import Cluster


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Told:
    """The command line, and what it says."""

    def __init__(self, servers: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._servers, self._capsys = servers, capsys
        self.error = ""

    def __call__(self, *words: str, code: int = 0) -> list[list[str]]:
        """Run `topics` and return the words of each line that it prints."""
        found = cli.main(["topics", *words, "-b", self._servers])
        said = self._capsys.readouterr()
        self.error = said.err
        assert found == code, said.err
        return [line.split() for line in said.out.splitlines()]


@pytest.fixture
def tell(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(broker.bootstrap_servers, capsys)


def test_topics_are_created_listed_described_and_deleted(tell: Told) -> None:
    assert tell("list") == [] and tell.error == "kafka-offsets: there are no topics\n"
    tell("create", "orders", "--partitions", "2", "--config", "cleanup.policy=compact")
    heading, row = tell("list")
    assert heading == ["TOPIC", "PARTITIONS", "REPLICATION-FACTOR", "TOPIC-ID"]
    assert row[:3] == ["orders", "2", "1"] and len(row[3]) == 22
    assert tell("describe", "orders") == [
        ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR"],
        ["orders", "0", "1", "1", "1"],
        ["orders", "1", "1", "1", "1"],
    ]
    assert tell("configs", "orders")[1:] == [["orders", "cleanup.policy", "compact", "topic"]]
    tell("alter", "orders", "--partitions", "4")
    assert len(tell("describe")) == 5
    tell("delete", "orders")
    assert tell("list") == []


def test_keys_are_set_and_reset(tell: Told) -> None:
    tell("create", "orders")
    assert tell("configs", "orders") == []
    assert tell.error == "kafka-offsets: no key is set; --all prints those of the brokers\n"
    assert ["orders", "retention.ms", "604800000", "default"] in tell("configs", "orders", "--all")
    tell("configs", "orders", "--set", "retention.ms=1000", "--set", "cleanup.policy=compact,delete")
    assert tell("configs", "orders")[1:] == [
        ["orders", "cleanup.policy", "compact,delete", "topic"],
        ["orders", "retention.ms", "1000", "topic"],
    ]
    tell("configs", "orders", "--reset", "retention.ms")
    assert [row[1] for row in tell("configs", "orders")[1:]] == ["cleanup.policy"]
    tell("configs", "orders", "--set", "retention.ms=soon", code=1)
    assert "topic orders: " in tell.error and "INVALID_CONFIG (40)" in tell.error


def test_what_is_refused_keeps_no_other_topic_from_it(tell: Told) -> None:
    tell("create", "orders", "payments")
    tell("create", "orders", "audit", code=1)
    assert "topic orders: " in tell.error and "TOPIC_ALREADY_EXISTS (36)" in tell.error
    assert [row[0] for row in tell("list")[1:]] == ["audit", "orders", "payments"]
    tell("create", "orders", "--if-not-exists")
    tell("delete", "ordres", "audit", code=1)
    assert tell.error == "kafka-offsets: topic ordres does not exist; did you mean orders?\n"
    tell("delete", "audit", "--if-exists")
    assert [row[1] for row in tell("describe", "ordres", "payments", code=1)] == ["PARTITION", "0"]
    assert tell.error == "kafka-offsets: topic ordres does not exist; did you mean orders?\n"
    tell("alter", "orders", "--partitions", "1", code=1)
    assert "INVALID_PARTITIONS (37)" in tell.error
    tell("create", "checked", "--dry-run")
    assert len(tell("list")) == 3
    tell("create", code=cli.CANNOT)
    assert tell.error == "kafka-offsets: name a topic\n"


def test_a_command_line_of_kafkas_script_works(tell: Told) -> None:
    tell("--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "1")
    assert tell("--list")[1][:3] == ["orders", "3", "1"]
    assert len(tell("--describe", "--topic", "orders")) == 4
    tell("--delete", "--topic", "orders")


def test_a_denied_topic_hides_no_other(
    broker: Broker, tell: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    tell("create", "orders", "payments")
    with broker.faults.error("Metadata", "TOPIC_AUTHORIZATION_FAILED", topic="orders"):
        rows = tell("describe", "orders", "payments", code=1)
    assert [row[0] for row in rows[1:]] == ["payments"]
    assert tell.error == "kafka-offsets: topic orders: TOPIC_AUTHORIZATION_FAILED (29)\n"
    assert cli.main(["topics", "describe", "--json", "-b", broker.bootstrap_servers]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["topic"], each["partitions"][0]["leader"]) for each in found] == [
        ("orders", 1),
        ("payments", 1),
    ]


def test_partitions_in_trouble_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(brokers=3) as cluster:
        tell = Told(cluster.bootstrap_servers, capsys)
        tell("create", "orders", "--replica-assignment", "1:2,2:3")
        assert [row[3] for row in tell("describe", "orders")[1:]] == ["1,2", "2,3"]
        assert tell("describe", "orders", "--under-replicated-partitions") == []
        assert tell.error == "kafka-offsets: there are no such partitions\n"
        cluster.kill(3)
        rows = tell("describe", "orders", "--under-replicated-partitions")
        assert [row[1] for row in rows[1:]] == ["1"]
        tell("create", "wrong", "--replica-assignment", "one", code=cli.CANNOT)
        assert "one is not ID:ID,ID:ID" in tell.error
