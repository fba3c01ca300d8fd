"""One rule of lag: the command line, `Broker.lag`, the page's summary, HTTP and the metrics tell the same."""

import contextlib
import io
import json
import random
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest

from kafka_offsets import Broker, cli
from kafka_offsets import lag as rule
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.client.admin_requests.groups import GroupFacts
from kafka_offsets.client.cluster import ClusterClient, LogRange
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.coordinator import Committed, Description, Member
from kafka_offsets.commands.groups import rows as group_rows
from kafka_offsets.commands.options.connections import Refusals
from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.http import metrics
from kafka_offsets.http.control import ControlledBroker, Snapshots
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.testing import Cluster
from kafka_offsets.testing.contents import groups
from tests.client.patience import be_impatient_only_with

_METRIC = re.compile(r'kminion_kafka_consumer_group_topic_lag\{group_id="(\w+)",.*\} (\S+)')


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Partitions with 100, 50, 8 and no records, of which the first 20 of the second are deleted."""
    with Broker() as running:
        running.create_topic("orders", 4)
        for partition, count in ((0, 100), (1, 50), (2, 8)):
            running.produce("orders", ["x"] * count, partition=partition)
        with Connection(*parse_address(running.bootstrap_servers)) as connection:
            made = messages.DeleteRecordsRequest
            topic = made.DeleteRecordsTopic("orders", [made.DeleteRecordsPartition(1, 20)])
            assert not connection.call(made([topic], 1000), 1).topics[0].partitions[0].error_code
        yield running


def joined(broker: Broker, group: str) -> Connection:
    """A member that has all partitions, and has committed nothing."""
    connection = Connection(*parse_address(broker.bootstrap_servers))
    request = messages.ConsumerGroupHeartbeatRequest(
        group, "m", 0, None, None, 60_000, ["orders"], subscribed_topic_regex=None, topic_partitions=[]
    )
    assert connection.call(request, 1).error_code == 0
    return connection


def printed(
    broker: Broker, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0
) -> tuple[list[dict[str, object]], str]:
    """The rows of a command as JSON, and what it says on standard error."""
    assert cli.main([*words, "--json", "--bootstrap-server", broker.bootstrap_servers]) == code
    said = capsys.readouterr()
    rows = [json.loads(line) for line in said.out.splitlines()]
    return [each for row in rows for each in row.get("partitions", [row])], said.err


def all_sums(broker: Broker, group: str, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    """The lag of a group in all, as each of them tells it."""
    summary = ControlledBroker("main", broker, Snapshots()).summary().groups
    (progress,) = (each for each in broker.overview().groups if each.view.group_id == group)
    return {
        "lag": rule.total(row["lag"] for row in printed(broker, capsys, "lag", group)[0]),  # type: ignore[misc]
        "describe": rule.total(
            row["lag"]  # type: ignore[misc]
            for row in printed(broker, capsys, "groups", "describe", group)[0]
        ),
        "Broker.lag": rule.total(broker.lag(group).values()),
        "overview": rule.total(progress.lag.values()),
        "summary": next(each.lag for each in summary if each.group_id == group),
        "metrics": sum(
            int(float(n)) for name, n in _METRIC.findall(metrics.read(broker).decode()) if name == group
        ),
    }


@pytest.mark.parametrize(
    ("committed", "has_member", "lag"),
    [
        ({}, True, 138),
        ({0: 63}, True, 75),
        ({0: 63}, False, 75),
        ({0: 100, 1: 5}, True, 38),
        ({0: 120, 1: 50}, True, 8),
    ],
)
def test_all_tell_the_same(
    broker: Broker,
    capsys: pytest.CaptureFixture[str],
    committed: dict[int, int],
    has_member: bool,
    lag: int,
) -> None:
    if committed:
        broker.commit("g", {("orders", n): offset for n, offset in committed.items()})
    connection = joined(broker, "g") if has_member else None
    assert all_sums(broker, "g", capsys) == dict.fromkeys(
        ("lag", "describe", "Broker.lag", "overview", "summary", "metrics"), lag
    )
    if connection is not None:
        connection.close()


def test_a_partition_that_is_owned_and_not_committed_is_shown_with_its_count(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = joined(broker, "fresh")
    rows, error = printed(broker, capsys, "lag", "fresh")
    assert [(row["offset"], row["end"], row["lag"]) for row in rows] == [
        (None, 100, 100),
        (None, 50, 30),
        (None, 8, 8),
        (None, 0, 0),
    ]
    assert error == ""
    connection.close()


def test_records_that_were_deleted_are_not_counted_and_named(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.commit("late", {("orders", 1): 5})
    for words in (("lag", "late"), ("groups", "describe", "late")):
        rows, error = printed(broker, capsys, *words)
        (row,) = (each for each in rows if each["partition"] == 1)
        assert (row["lag"], row["skipped"]) == (30, 15)
        assert (
            "group 'late' has committed 5 in orders-1, before the log start 20: "
            "15 records were deleted before they were read"
        ) in error
    assert "orders-1 committed 5, lag 30, 15 deleted before they were read" in broker.describe()


def test_a_group_without_anything_to_show_is_an_error(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.create_topic("gone", 1)
    broker.commit("left", {("gone", 0): 0})
    with Connection(*parse_address(broker.bootstrap_servers)) as connection:
        made = messages.DeleteTopicsRequest
        assert not connection.call(made(topic_names=["gone"], timeout_ms=1000), 3).responses[0].error_code
    rows, error = printed(broker, capsys, "lag", "left", code=1)
    assert rows == [] and "group 'left'" in error


def test_a_sum_is_that_of_what_can_be_read(rng: random.Random) -> None:
    """The offsets from the position to the end, counted one by one."""
    for _ in range(2000):
        committed = [rng.choice((None, rng.randrange(31))) for _ in range(rng.randrange(7))]
        check_a_sum([(each, rng.randrange(21), rng.randrange(21), rng.random() < 0.5) for each in committed])


def check_a_sum(partitions: list[tuple[int | None, int, int, bool]]) -> None:
    readable = 0
    lags: list[int | None] = []
    for committed, start, records, is_known in partitions:
        end = start + records
        log = range(start, end)
        unread = [offset for offset in log if committed is None or offset >= committed]
        found = rule.lag(committed, start, end) if is_known else None
        lags.append(found)
        readable += len(unread) if is_known else 0
        if found is not None:
            assert max(found, 0) == len(unread)
            assert (found < 0) is (committed is not None and committed > end)
        deleted = range(0 if committed is None else committed, start)
        assert rule.skipped(committed, start) == (0 if committed is None else len(deleted))
    assert rule.total(lags) == readable


# ---- drawn histories ------------------------------------------------------------------------------------------


class History(NamedTuple):
    """What a group has committed and owns, and the ranges of the logs; None for a partition without a leader."""

    committed: dict[TopicPartition, int]
    owned: set[TopicPartition]
    logs: dict[TopicPartition, tuple[int, int] | None]

    def lags(self) -> dict[TopicPartition, int | None]:
        """Each partition that the group reads, with its unread offsets counted one by one."""
        topics = {topic for topic, _ in (*self.committed, *self.owned)}
        return {
            place: None
            if known is None
            else sum(offset >= self.committed.get(place, 0) for offset in range(*known))
            for place, known in self.logs.items()
            if place[0] in topics
        }


def history(rng: random.Random) -> History:
    """Draw a history of two topics, one of which may be deleted, with their commits and owners."""
    places = [(topic, index) for topic in ("a", "b") for index in range(rng.randrange(5))]
    starts = {place: rng.randrange(10) for place in places}
    logs: dict[TopicPartition, tuple[int, int] | None] = {
        place: rng.choice((None, (start, start + rng.randrange(10)))) for place, start in starts.items()
    }
    named = [*places, ("gone", 0)]
    committed = {
        place: rng.randrange(23) for place in rng.sample(named, rng.randrange(min(6, len(named)) + 1))
    }
    owned = rng.sample(named, rng.randrange(min(4, len(named)) + 1))
    return History(committed, set(owned), logs)


def printed_lags(history: History) -> dict[TopicPartition, int | None]:
    """The rows of `lag` and `groups describe`."""

    def log_ranges(
        topics: list[str], refused: dict[TopicPartition, RefusedError]
    ) -> dict[TopicPartition, LogRange]:
        for place, known in history.logs.items():
            if known is None and place[0] in topics:
                refused[place] = RefusedError(f"{place[0]}-{place[1]}", ErrorCode.LEADER_NOT_AVAILABLE)
        return {
            place: LogRange(*known)
            for place, known in history.logs.items()
            if known is not None and place[0] in topics
        }

    committed = {place: Committed(offset, "") for place, offset in history.committed.items()}
    member = Member("m", None, "c", "h", frozenset(history.owned))
    logs = group_rows.Logs(
        cast("ClusterClient", SimpleNamespace(log_ranges=log_ranges, topics=dict)), Refusals()
    )
    found = Description("consumer", "Stable", "range", (member,))
    rows = group_rows.offset_rows(logs, GroupFacts("g", "", 1, found, committed, {}, {}))
    return {(row["topic"], row["partition"]): row["lag"] for row in rows if row.get("is_there")}


def told_lags(history: History, patch: pytest.MonkeyPatch) -> groups.Overview:
    """What a broker tests with tells: `Broker.lag`, the page, HTTP and the metrics are made of it."""

    def partition(topic: str, index: int) -> SimpleNamespace:
        known = history.logs[topic, index]
        if known is None:
            raise groups.NoLeaderError(f"no node leads {topic}-{index}")
        return SimpleNamespace(log=SimpleNamespace(log_start_offset=known[0], high_watermark=known[1]))

    def topic(name: str) -> SimpleNamespace | None:
        count = sum(place[0] == name for place in history.logs)
        return SimpleNamespace(partition_count=count) if count else None

    committed = {place: SimpleNamespace(offset=offset) for place, offset in history.committed.items()}
    core = SimpleNamespace(
        topics=SimpleNamespace(get=topic, partition=partition),
        shards=SimpleNamespace(committed=lambda group: committed, lost_shards=dict),
    )
    member = groups.MemberView("m", "c", "h", None, tuple(sorted(history.owned)))
    view = groups.GroupView("g", "consumer", "Stable", 1, (member,), True)
    patch.setattr(groups, "group_view", lambda *_: view)
    found = groups.overview(cast("BrokerCore", core), ["g"])
    assert groups.lag(cast("BrokerCore", core), "g") == found.groups[0].lag
    (summary,) = groups.group_summaries(cast("BrokerCore", core), ["g"])
    assert summary.lag == rule.total(found.groups[0].lag.values())
    return found


def test_all_tell_the_same_of_any_history(rng: random.Random) -> None:
    """Thousands of small worlds: a generator of numbers draws them in a tenth of the time that hypothesis takes."""
    for _ in range(2000):
        check_that_all_tell_the_same(history(rng))


def check_that_all_tell_the_same(history: History) -> None:
    expected = history.lags()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(io.StringIO()):
        printed = printed_lags(history)
        told = told_lags(history, patch)

    def readable(lags: dict[TopicPartition, int | None]) -> dict[TopicPartition, int | None]:
        """Return lags, those after the log end as nothing to read."""
        return {place: None if each is None else rule.total([each]) for place, each in lags.items()}

    (progress,) = told.groups
    assert readable(progress.lag) == expected
    shown = {*history.committed, *history.owned}
    assert readable(printed) == {
        place: each
        for place, each in expected.items()
        if each != 0 or place in shown or has_records(history, place)
    }
    metric = metrics._of_groups([progress])[-1]
    assert sum(sample.value for sample in metric.samples) == rule.total(expected.values())
    assert {name for name, each in progress.lag.items() if each is None} == {
        (name.rpartition("-")[0], int(name.rpartition("-")[2])) for name in told.unknown
    }


def has_records(history: History, place: TopicPartition) -> bool:
    known = history.logs[place]
    return known is None or known[0] < known[1]


# ---- a cluster in trouble -------------------------------------------------------------------------------------


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Cluster, int]]:
    """A cluster without a leader of one partition of `orders`, which has no other replica."""
    monkeypatch.setattr(group_rows, "PATIENCE_S", 5.0)
    with Cluster({"default.replication.factor": 1, "offsets.topic.replication.factor": 3}) as cluster:
        cluster.create_topic("orders", 3)
        cluster.produce("orders", [{"value": "x", "partition": n % 3} for n in range(9)])
        for group in ("audit", "billing"):
            cluster.commit(group, {("orders", n): 1 for n in range(3)})
        away = next(n for n in range(3) if cluster.leader("orders", n) != 1)
        cluster.kill(cluster.leader("orders", away))
        yield cluster, away


@pytest.mark.parametrize("words", [("lag",), ("groups", "describe", "--all-groups")])
def test_one_partition_without_a_leader_hides_nothing_else(
    lost: tuple[Cluster, int], capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    cluster, away = lost
    rows, error = printed(cluster, capsys, *words, code=1)
    assert [(row["partition"], row["offset"], row["lag"]) for row in rows] == [
        (n, 1, None if n == away else 2) for n in range(3)
    ] * 2
    assert f"the log end is not known of orders-{away}: LEADER_NOT_AVAILABLE (5)" in error


def test_one_group_that_is_refused_leaves_the_others(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    for group in ("a", "b", "c"):
        broker.commit(group, {("orders", 0): 100})
    for words in (("lag",), ("groups", "describe", "a", "b", "c")):
        with broker.faults.error("OffsetFetch", "GROUP_AUTHORIZATION_FAILED", group="b"):
            rows, error = printed(broker, capsys, *words, code=1)
        assert len(rows) == 2 * 3 + 1, rows
        assert [row["error"] for row in rows if row.get("group") == "b"] == [
            "GROUP_AUTHORIZATION_FAILED (30)"
        ]
        assert "group b is not known: offsets of group b: GROUP_AUTHORIZATION_FAILED (30)" in error


@pytest.mark.slow
@pytest.mark.parametrize("words", [("lag",), ("groups", "describe", "--all-groups")])
@pytest.mark.parametrize("silent", [1, 2, 3])
def test_a_broker_that_is_silent_is_waited_for_once(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    silent: int,
) -> None:
    """A paused process: its port accepts connections, and nothing is answered. It may be the one asked first."""
    monkeypatch.setattr(group_rows, "PATIENCE_S", 1.0)
    names = [f"g{n}" for n in range(9)]
    with Cluster({"default.replication.factor": 1, "offsets.topic.replication.factor": 3}) as cluster:
        cluster.create_topic("orders", 3)
        cluster.produce("orders", [{"value": "x", "partition": n % 3} for n in range(9)])
        for group in names:
            cluster.commit(group, {("orders", n): 1 for n in range(3)})
        away = next(n for n in range(3) if cluster.leader("orders", n) == silent)
        (port,) = (parse_address(node.address)[1] for node in cluster.nodes if node.id == silent)
        be_impatient_only_with(port, monkeypatch)
        with cluster.faults.drop(node=silent, client_id="kafka-offsets") as fault:
            rows, error = printed(cluster, capsys, *words, code=1)
            listed, _ = printed(cluster, capsys, "groups", "list", code=1)
        hidden = {group for group in names if cluster.coordinator(group) == silent}
    assert {row["group"] for row in listed} == {*names} - hidden != {*names}
    assert len(rows) == 3 * len(listed)
    assert {row["partition"]: (row["offset"], row["lag"]) for row in rows} == {
        n: (1, None if n == away else 2) for n in range(3)
    }
    assert f"broker {silent} does not tell which groups it coordinates: " in error
    assert f"the log end is not known of orders-{away}: " in error and error.count("timed out") >= 2
    assert fault.hits == 2, "one a command"
