"""`kafka-offsets offsets cleanup` on this broker and Apache Kafka: commit times, dry runs, refusals, transactions."""

import json
import time
from typing import Any

import pytest

from kafka_offsets import cli
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.commands.groups import cleanup
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.interop.coordinator_client import lengthen_session
from tests.interop.waiting import until

pytestmark = pytest.mark.interop

PERIOD_MS = 10_000
"""The type of a group among the resources that have configurations."""


@pytest.fixture(scope="module", autouse=True)
def topic(home: str) -> None:
    """A topic of three partitions."""
    create_topic(home)


def create_topic(home: str) -> None:
    request = messages.CreateTopicsRequest
    with Connection(*parse_address(home)) as connection:
        connection.call(request([request.CreatableTopic("cleaned", 3, 1)], 5000), 5)


@pytest.fixture
def group(home: str, request: pytest.FixtureRequest) -> str:
    """A group that has committed 5 for partition 0, and at least a millisecond later 6 for partition 1."""
    name = str(request.node.name)
    commit(home, name, 0, 5)
    first = times(home, name)[0]
    while times(home, name).get(1, first) == first:
        commit(home, name, 1, 6)
    return name


def commit(home: str, group: str, partition: int, offset: int) -> None:
    with Coordinator(parse_address(home), group) as coordinator:
        coordinator.commit({("cleaned", partition): offset}, {})


def committed(home: str, group: str) -> dict[int, int]:
    with Coordinator(parse_address(home), group) as coordinator:
        return {partition: found.offset for (_, partition), found in coordinator.committed().items()}


def run(home: str, *words: str) -> int:
    return cli.main(["offsets", "cleanup", *words, "--bootstrap-server", home])


def times(home: str, group: str) -> dict[int, int]:
    """The commit time of each partition, as the command itself reads them."""
    with cleanup.ClusterClient(parse_address(home)) as cluster:
        return {each.partition: each.commit_timestamp for each in cleanup._read(cluster, [group])}


def when_the_first_is_old(home: str, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the command's clock to the time at which PERIOD_MS have passed since the first commit, and not the second."""
    now_ms = times(home, group)[0] + PERIOD_MS
    monkeypatch.setattr(cleanup.time, "time", lambda: now_ms / 1000)


def test_offsets_are_listed_with_their_commit_times(
    home: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(home, group, "--json") == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["group"], each["topic"], each["partition"], each["offset"]) for each in listed] == [
        (group, "cleaned", 0, 5),
        (group, "cleaned", 1, 6),
    ]
    assert all(abs(each["commit_timestamp"] - time.time() * 1000) < 60_000 for each in listed)
    assert run(home) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{group} ")]
    assert [line.split()[-4:-1] for line in lines] == [["cleaned", "0", "5"], ["cleaned", "1", "6"]]
    assert lines[0].endswith("Z")


def test_old_offsets_are_deleted_with_execute_alone(
    home: str, group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    when_the_first_is_old(home, group, monkeypatch)
    assert run(home, group, "--older-than", "PT10S") == 0
    said = capsys.readouterr()
    assert [line.split()[-4:-1] for line in said.out.splitlines()[1:]] == [["cleaned", "0", "5"]]
    assert said.err == "kafka-offsets: nothing is deleted: add --execute to delete it\n"
    assert committed(home, group) == {0: 5, 1: 6}
    assert run(home, group, "--older-than", "PT10S", "--execute") == 0
    assert committed(home, group) == {1: 6}
    assert run(home, group, "--older-than", "PT10S", "--execute") == 0
    assert [*times(home, group)] == [1]  # the tombstone counts


def test_a_group_with_members_is_refused(
    home: str, group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    when_the_first_is_old(home, group, monkeypatch)
    lengthen_session(home, group)  # the member sends no heartbeats
    request = messages.ConsumerGroupHeartbeatRequest
    joining = request(
        group, "m", 0, None, None, 60_000, ["cleaned"], subscribed_topic_regex=None, topic_partitions=[]
    )
    with Connection(*parse_address(home)) as connection:
        assert connection.call(joining, 1).error_code == 0
        assert run(home, group, "--older-than", "PT10S", "--execute") == 1
        assert f"group {group} is " in capsys.readouterr().err
        assert run(home, "--older-than", "PT10S") == 0  # of all groups, those with members are passed over
        said = capsys.readouterr()
        assert f"group {group} is " in said.err
        assert f"{group} " not in said.out
        leaving = request(
            group, "m", -1, None, None, -1, None, subscribed_topic_regex=None, topic_partitions=None
        )
        assert connection.call(leaving, 1).error_code == 0
    assert committed(home, group) == {0: 5, 1: 6}


def test_that_nothing_is_old_enough_is_said(
    home: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(home, group, "--older-than", "P3650D") == 0
    assert capsys.readouterr() == ("", "kafka-offsets: nothing is older than P3650D\n")


def test_a_group_that_does_not_exist_is_an_error(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(home, "never", "--older-than", "PT10S") == 1
    assert capsys.readouterr().err == "kafka-offsets: group 'never' does not exist\n"


def test_execute_needs_an_age(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(home, "g", "--execute") == cli.CANNOT
    assert capsys.readouterr().err == "kafka-offsets: --execute needs --older-than\n"


@pytest.mark.parametrize(("is_commit", "offset"), [(True, 9), (False, 5)])
def test_an_offset_of_an_open_transaction_is_not_old(
    home: str, group: str, is_commit: bool, offset: int
) -> None:
    """Until the transaction ends the offset is passed over; an aborted one leaves the time of the earlier commit."""
    before = times(home, group)
    with Connection(*parse_address(home)) as connection:
        producer = transactional_commit(connection, group, f"{group}-{is_commit}")
        assert [*times(home, group)] == [1]
        ended = messages.EndTxnRequest(f"{group}-{is_commit}", *producer, is_commit)
        assert until_ready(connection, ended, 3).error_code == 0
        # The markers follow the answer.
        until(
            lambda: committed(home, group)[0] == offset and 0 in times(home, group), "the marker is written"
        )
    assert (times(home, group)[0] > before[0]) == is_commit


def transactional_commit(connection: Connection, group: str, name: str) -> tuple[int, int]:
    """Commit 9 for partition 0 in a transaction that stays open; return the producer's id and epoch."""
    found = until_ready(connection, messages.InitProducerIdRequest(name, 60_000), 4)
    producer = found.producer_id, found.producer_epoch
    assert until_ready(connection, messages.AddOffsetsToTxnRequest(name, *producer, group), 3).error_code == 0
    request = messages.TxnOffsetCommitRequest
    topics = [request.Topic("cleaned", [request.Partition(0, 9, committed_metadata="")])]
    answer = connection.call(request(name, group, *producer, topics=topics), 3)
    assert answer.topics[0].partitions[0].error_code == 0
    return producer


def until_ready(connection: Connection, request: Any, version: int) -> Any:
    """Send a request until its coordinator is ready: Kafka creates its topic with the first one."""
    waiting = (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    )
    connection.call(messages.FindCoordinatorRequest(request.transactional_id, 1), 3)
    end = time.monotonic() + 30
    while (answer := connection.call(request, version)).error_code in waiting and time.monotonic() < end:
        connection.call(messages.FindCoordinatorRequest(request.transactional_id, 1), 3)
    return answer
