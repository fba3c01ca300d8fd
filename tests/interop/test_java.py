"""Java's kafka-clients (4.3.1) against the broker, through java/Client.java."""

import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.interop import story
from tests.interop.names import Names
from tests.interop.waiting import until

pytestmark = [pytest.mark.interop, pytest.mark.java]
COMPRESSIONS = ("gzip", "snappy", "lz4", "zstd")


class JavaError(Exception):
    """The exception of a Java client: its class and message."""


class Shell:
    """A JVM that runs one command after the other; also the story's client."""

    def __init__(self, command: list[str], bootstrap: str, *member_settings: str) -> None:
        self._command = command
        self._bootstrap = bootstrap
        self._member_settings = member_settings
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([*command, "shell", bootstrap], stdin=pipe, stdout=pipe, text=True)

    def __call__(self, *words: object) -> list[str]:
        """The words of the answer; JavaError if there was an exception."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        outcome, _, answer = self._process.stdout.readline().rstrip("\n").partition(" ")
        if outcome != "ok":
            raise JavaError(answer)
        return answer.split()

    def numbers(self, *words: object) -> dict[int, int]:
        """An answer of the form 0=100 1=200."""
        pairs = (word.split("=") for word in self(*words))
        return {int(key): int(value) for key, value in pairs}

    def close(self) -> None:
        """End the JVM."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.read()
        assert self._process.wait(60) == 0
        self._process.stdout.close()

    def create_topic(self, topic: str, partitions: int) -> None:
        self("create", topic, partitions)

    def produce(self, topic: str, values: range) -> None:
        assert self("produce", topic, values.start, values.stop, "none") == [str(len(values))]

    def member(self, group: str, topic: str, commit: str, *settings: str) -> list[str]:
        words = ["member", self._bootstrap, group, topic, commit, *self._member_settings, *settings]
        return [*self._command, *words]

    def end_offsets(self, topic: str) -> dict[int, int]:
        return self.numbers("offsets", topic, "latest")

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return self.numbers("committed", group, topic)


@pytest.fixture(scope="module")
def java(java_client: list[str], bootstrap: str) -> Iterator[Shell]:
    shell = Shell(java_client, bootstrap)
    yield shell
    shell.close()


@pytest.mark.shows("Java, classic", "group")
def test_a_group_grows_and_loses_a_member_and_no_record(java: Shell, names: Names) -> None:
    story.a_group_grows_and_loses_a_member(java, names.topic(), names.group())


@pytest.mark.shows("Java, classic", "admin")
def test_the_admin_manages_a_group(java: Shell, names: Names) -> None:
    topic, group = names.topic(), names.group()
    java.create_topic(topic, 3)
    java("alter", group, topic, "0=5", "1=7")
    assert java.committed(group, topic) == {0: 5, 1: 7}
    assert group in java("groups")
    assert java("describe", group) == ["Empty", "members=0", "partitions=0", "assignor="]
    java("delete-offset", group, topic, 0)
    assert java.committed(group, topic) == {1: 7}
    java("delete-group", group)
    assert java.committed(group, topic) == {}
    assert group not in java("groups")
    with pytest.raises(JavaError, match="GroupIdNotFoundException"):
        java("describe", group)


def test_a_group_with_a_member_is_described_and_refuses_deletion(java: Shell, names: Names) -> None:
    topic, group = names.topic(), names.group()
    java.create_topic(topic, 2)
    java.produce(topic, range(10))
    member = story.Member(java.member(group, topic, "sync"))
    try:
        until(lambda: len(member.values) == 10, "the member reads all")
        until(lambda: sum(java.committed(group, topic).values()) == 10, "the member commits all")
        assert java("describe", group) == ["Stable", "members=1", "partitions=2", "assignor=range"]
        with pytest.raises(JavaError, match="GroupNotEmptyException"):
            java("delete-group", group)
        with pytest.raises(JavaError, match="GroupSubscribedToTopicException"):
            java("delete-offset", group, topic, 0)
    finally:
        assert member.leave() == 0
    until(lambda: java("describe", group)[0] == "Empty", "the group empties")
    java("delete-group", group)


def test_a_wrong_regular_expression_ends_a_member(java: Shell, names: Names) -> None:
    member = story.Member(java.member(names.group(), "~(", "sync", "group.protocol=consumer"))
    try:
        until(lambda: "InvalidRegularExpression" in "".join(member.log), "the member is told")
    finally:
        assert member.leave() != 0


@pytest.mark.shows("Java, classic", "admin")
def test_the_admin_manages_topics(java: Shell, names: Names) -> None:
    topic = names.topic()
    java("create", topic, 2, "retention.ms=123456")
    with pytest.raises(JavaError, match="TopicExistsException"):
        java("create", topic, 2)
    java("grow", topic, 5)
    until(lambda: java("partitions", topic) == ["5"], "five partitions")
    assert java("config", topic, "retention.ms") == ["123456"]
    java("set-config", topic, "retention.ms", 654321)
    until(lambda: java("config", topic, "retention.ms") == ["654321"], "the changed config is described")
    assert java("cluster") == ["1"]
    java("delete-topic", topic)
    until(lambda: topic not in java("topics"), "the topic is gone")


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.shows("Java, classic", "produce", "idempotent", "consume")
def test_compressed_records_round_trip(java: Shell, names: Names, compression: str) -> None:
    topic = names.topic()
    java.create_topic(topic, 1)
    java("produce", topic, 0, 500, compression)
    assert java("read", topic, 0, 500) == [str(number) for number in range(500)]


def test_a_timestamp_leads_to_an_offset(java: Shell, names: Names) -> None:
    topic = names.topic()
    java.create_topic(topic, 1)
    start = int(time.time() * 1000) - 100_000
    java("produce-at", topic, start, 100)
    assert java("time", topic, start + 41_500) == ["42", str(start + 42_000)]
    assert java("time", topic, start + 99_001) == ["none"]
    assert java.numbers("offsets", topic, "earliest") == {0: 0}
    assert java.numbers("offsets", topic, "latest") == {0: 100}
    assert java.numbers("offsets", topic, "max-timestamp") == {0: 99}
    assert java.numbers("offsets", topic, start + 41_500) == {0: 42}
    assert java("read", topic, 42, 58)[0] == "42"


def test_deleted_records_move_the_log_start(java: Shell, names: Names) -> None:
    topic = names.topic()
    java.create_topic(topic, 1)
    java.produce(topic, range(50))
    assert java("delete-records", topic, 0, 20) == ["20"]
    assert java.numbers("offsets", topic, "earliest") == {0: 20}
    assert java("read", topic, 20, 30)[0] == "20"


@pytest.mark.shows("Java, classic", "transactional")
def test_transactions_are_committed_and_aborted(java: Shell, names: Names) -> None:
    topic, group = names.topic(), names.group()
    java.create_topic(topic, 1)
    java("transact", topic, topic, "commit", "a", "b")
    java("transact", topic, topic, "abort", "c")
    java("transact", topic, topic, "abort", topic, group, 5, "d")
    assert java.committed(group, topic) == {}
    java("transact", topic, topic, "commit", topic, group, 7, "e")
    assert java.committed(group, topic) == {0: 7}
    assert java("read-committed", topic, 3) == ["a", "b", "e"]
    assert java("transaction", topic) == ["CompleteCommit"]
    assert f"{topic}=CompleteCommit" in java("transactions")


def test_the_admin_aborts_a_transaction_that_hangs(java: Shell, names: Names) -> None:
    topic = names.topic()
    java.create_topic(topic, 1)
    java("transact", f"{topic}-hangs", topic, "leave", "lost")
    java("transact", topic, topic, "commit", "kept")
    assert java("transaction", f"{topic}-hangs") == ["Ongoing"]
    assert java.numbers("offsets", topic, "latest") == {0: 3}
    java("abort-transaction", topic, 0)
    assert java("read-committed", topic, 1) == ["kept"]


@pytest.mark.shows("Java, classic", "admin")
def test_the_admin_asks_for_what_a_single_broker_knows(java: Shell, names: Names) -> None:
    topic, group = names.topic(), names.group()
    java.create_topic(topic, 1)
    java("transact", topic, topic, "commit", "kept")
    java("alter", group, topic, "0=1")
    assert topic in java("config-resources")
    assert java("log-dirs", topic) == ["[true]", "0"]
    assert java("elect", topic) == ["ElectionNotNeededException"]
    assert java("reassignments") == ["0"]
    assert java("quorum") == ["1"]
    assert java("features") == ["2"]
    assert java("quotas") == java("passwords") == ["0"]
    with pytest.raises(JavaError, match="SecurityDisabledException"):
        java("rules")
    assert java("classic-group", group) == ["Empty"]
    with pytest.raises(JavaError, match="leaving members should not be empty"):
        java("remove-members", group)
    java("fence", topic)
    assert java("transaction", topic) == ["Empty"]


@pytest.mark.shows("Java, classic", "admin")
def test_the_admin_sets_quotas_and_passwords(java: Shell, names: Names) -> None:
    user = names.topic()
    java("set-quota", user, "consumer_byte_rate", "1000")
    until(lambda: java("quota", user) == ["[{consumer_byte_rate=1000.0}]"], "the quota is described")
    with pytest.raises(JavaError, match=r"InvalidRequestException.*Invalid configuration key nonsense"):
        java("set-quota", user, "nonsense", "1000")
    java("set-quota", user, "consumer_byte_rate")
    until(lambda: java("quota", user) == ["[]"], "the quota is gone")
    with pytest.raises(JavaError, match="ResourceNotFoundException"):
        java("password", user)
    java("set-password", user, "secret")
    until(lambda: java("passwords") == ["1"], "the password is listed")
    assert java("password", user) == ["SCRAM_SHA_256=4096"]
    java("remove-password", user)
    until(lambda: java("passwords") == ["0"], "the password is gone")


def test_a_producer_knows_for_how_long_it_is_throttled(java: Shell, names: Names) -> None:
    topic = names.topic()
    java.create_topic(topic, 1)
    (pause_ms,) = java("throttled", f"throttled-{topic}", topic, 11_000)
    assert 1000 < float(pause_ms) < 1400
