"""`kafka-offsets lag` and `groups` with many groups: a row for each, the worst first, and few requests and lines."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_offsets import Broker, cli
from kafka_offsets.client.admin_requests.record_times import record_times
from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.commands.groups import lagging
from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.protocol.topic_partition import TopicPartition
from tests.documents import pages

BEGIN_MS = 1_700_000_000_000
GROUPS = 30


def append(broker: Broker, records: int, first_ms: int, **more: Any) -> None:
    """Append one batch of records a second apart to orders-0."""
    made = messages.ProduceRequest
    batch = bytes(encode_batch([(None, b"x", (), first_ms + 1000 * n) for n in range(records)], **more))
    data = made.TopicProduceData("orders", partition_data=[made.PartitionProduceData(0, batch)])
    with Connection(*parse_address(broker.bootstrap_servers)) as connection:
        answer = connection.call(made(None, 1, 1000, [data]), 7)
    assert not answer.responses[0].partition_responses[0].error_code


@pytest.fixture(scope="module")
def many() -> Iterator[Broker]:
    """30 groups, of which g05 is 5 records behind, and so on; g20 has an offset after the log end too."""
    with Broker() as broker:
        broker.create_topic("orders", 2)
        append(broker, 50, BEGIN_MS)
        append(broker, 50, BEGIN_MS + 50_000, compression=Compression.GZIP)
        for number in range(GROUPS):
            broker.commit(f"g{number:02d}", {("orders", 0): 100 - number})
        broker.commit("g20", {("orders", 1): 7})
        yield broker


def told(
    broker: Broker, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0
) -> tuple[list[str], str]:
    assert cli.main([*words, "-b", broker.bootstrap_servers]) == code
    said = capsys.readouterr()
    return said.out.splitlines(), said.err


def test_a_row_is_a_group_when_there_are_many(many: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    (heading, *rows), error = told(many, capsys, "lag")
    assert heading.split() == ["GROUP", "PARTITIONS", "LAGGING", "LAG", "BEHIND-SINCE", "FOR", "WHY"]
    assert len(rows) == GROUPS
    assert rows[0].split()[:5] == ["g29", "1", "1", "29", "2023-11-14T22:14:31.000Z"]
    assert rows[-1].split() == ["g00", "1", "0", "0", "-", "-", "-"]
    (late,) = (row.split() for row in rows if row.startswith("g20"))
    assert (late[1:4], late[-1]) == (["2", "1", "20"], "offset-outside")
    assert "kafka-offsets: 30 groups: 435 records of lag in all\n" in error
    assert error.count("group 'g20' has committed 7 in orders-1, beyond the end 0") == 1


def test_the_worst_are_chosen(many: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    (_, *rows), error = told(many, capsys, "lag", "--top", "3")
    assert [row.split()[0] for row in rows] == ["g29", "g28", "g27"]
    assert "3 of 30 groups: 435 records of lag in all" in error
    (_, *rows), _ = told(many, capsys, "lag", "--by", "group", "--sort", "group", "--top", "2")
    assert [row.split()[0] for row in rows] == ["g00", "g01"]
    (_, *rows), _ = told(many, capsys, "lag", "g03", "g07", "--sort", "since")
    assert [row.split()[:3] for row in rows] == [["g07", "orders", "0"], ["g03", "orders", "0"]]


def test_json_has_a_row_for_each_partition_unless_groups_are_asked_for(
    many: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in told(many, capsys, "lag", "--json")[0]]
    assert len(rows) == GROUPS + 1
    assert [(row["behind_since"], row["time_lag_ms"] > 0) for row in rows if row["group"] == "g05"] == [
        (BEGIN_MS + 95_000, True)
    ]
    (first,) = (
        json.loads(line) for line in told(many, capsys, "lag", "--json", "--by", "group", "--top", "1")[0]
    )
    assert (first["group"], first["lag"], first["behind_since"]) == ("g29", 29, BEGIN_MS + 71_000)


def test_many_groups_take_few_requests(
    many: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was six requests and two connections a group."""
    sent: Counter[str] = Counter()
    call = Connection.call

    def counted(self: Connection, request: Any, version: int) -> Any:
        sent[type(request).SCHEMA.name] += 1
        return call(self, request, version)

    monkeypatch.setattr(Connection, "call", counted)
    told(many, capsys, "lag")
    assert sent["OffsetFetchRequest"] == sent["FindCoordinatorRequest"] == 1
    assert sent["DescribeGroupsRequest"] == 0, "no group has members"
    assert sent["FetchRequest"] == 1, "the records of all positions are in one response"
    sent.clear()
    told(many, capsys, "groups", "describe", "--all-groups", "--state")
    assert sent["DescribeGroupsRequest"] == sent["OffsetFetchRequest"] == 1


def test_like_lines_are_one_line(many: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    _, error = told(many, capsys, "groups", "describe", "--all-groups")
    names = ", ".join(f"g{number:02d}" for number in range(10))
    assert f"kafka-offsets: 30 groups have no members: {names} and 20 more\n" in error
    assert error.count("has no members") == 0
    with many.faults.error("OffsetFetch", "GROUP_AUTHORIZATION_FAILED"):
        rows, error = told(many, capsys, "lag", code=1)
    assert len(rows) == 1 + GROUPS and all(
        row.endswith("GROUP_AUTHORIZATION_FAILED (30)") for row in rows[1:]
    )
    assert f"30 groups are not known for GROUP_AUTHORIZATION_FAILED (30): {names} and 20 more\n" in error
    assert "at least 0 records of lag in all; not known: 30 groups" in error


def test_a_group_that_is_refused_is_the_first_of_the_worst(
    many: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with many.faults.error("OffsetFetch", "GROUP_AUTHORIZATION_FAILED", group="g03"):
        (heading, first, second, *_), _ = told(many, capsys, "lag", code=1)
    assert heading.endswith("ERROR")
    assert first.split() == ["g03", "0", "0", "-", "-", "-", "-", "GROUP_AUTHORIZATION_FAILED", "(30)"]
    assert second.split()[0] == "g29"


def test_a_consumer_group_that_is_refused_is_not_one_that_does_not_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """DescribeGroups v5 says that a group of the other kind is Dead, without an error."""
    with Broker() as broker:
        broker.create_topic("orders")
        broker.commit("classic", {("orders", 0): 0})
        beat = messages.ConsumerGroupHeartbeatRequest("modern", "m" * 22, 0, None, None, 60_000, ["orders"])
        beat.topic_partitions = []
        with Connection(*parse_address(broker.bootstrap_servers)) as connection:
            assert not connection.call(beat, 1).error_code
        rows, _ = told(broker, capsys, "groups", "describe", "--all-groups", "--state")
        assert [row.split()[0] for row in rows[1:]] == ["classic", "modern"]
        with broker.faults.error("ConsumerGroupDescribe", "TOPIC_AUTHORIZATION_FAILED", group="modern"):
            rows, error = told(broker, capsys, "groups", "describe", "--all-groups", "--state", code=1)
    assert rows[2].split()[0] == "modern" and rows[2].endswith("TOPIC_AUTHORIZATION_FAILED (29)")
    assert "does not exist" not in error


def test_a_broker_with_classic_groups_alone_describes_them(
    many: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with many.faults.error("ConsumerGroupDescribe", "UNSUPPORTED_VERSION"):
        rows, _ = told(many, capsys, "groups", "describe", "--all-groups", "--state")
        assert len(rows) == 1 + GROUPS and all(" Empty " in row for row in rows[1:])
        assert " Empty " in told(many, capsys, "groups", "describe", "g01", "--state")[0][1]


def test_what_an_export_lacks_is_said_when_a_later_group_ends_it(
    many: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = "GROUP_AUTHORIZATION_FAILED"
    with (
        many.faults.error("OffsetFetch", "TOPIC_AUTHORIZATION_FAILED", topic="orders", group="g20"),
        many.faults.error("OffsetFetch", denied, group="g21"),
    ):
        _, error = told(many, capsys, "offsets", "export", "g20", "g21", code=1)
    assert "group g20: the committed offset of orders-0 is not known" in error and denied in error


def test_only_the_largest_lags_are_timed(
    many: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lagging, "_MOST_POSITIONS", 4)
    (_, *rows), error = told(many, capsys, "lag")
    assert [row.split()[4] != "-" for row in rows[:6]] == [True] * 4 + [False] * 2
    assert "it is asked of the 4 largest lags since when they last" in error


def test_records_that_may_not_be_read_leave_the_lag(many: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    with many.faults.error("Fetch", "TOPIC_AUTHORIZATION_FAILED"):
        (_, first, *_), error = told(many, capsys, "lag")
    assert first.split() == ["g29", "1", "1", "29", "-", "-", "-"]
    assert "it is not known since when a group lags in orders-0: TOPIC_AUTHORIZATION_FAILED (29)" in error


def test_damaged_records_leave_the_lag(
    many: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch that does not decode ended the command, which had shown the lag before it read records."""
    monkeypatch.setattr(
        "kafka_offsets.client.admin_requests.record_times._fetched",
        lambda cluster, leader, asked, refused: {
            place: bytes(encode_batch([(None, b"x", (), BEGIN_MS)], base_offset=100))[:61] + b"\xff" * 8
            for place in asked
        },
    )
    (_, first, *_), error = told(many, capsys, "lag")
    assert first.split() == ["g29", "1", "1", "29", "-", "-", "-"]
    assert "it is not known since when a group lags in orders-0: " in error


def test_the_time_of_any_position_is_that_of_the_record_after_it() -> None:
    """Batches larger and smaller than a part of a response, and positions in any order."""
    with Broker() as broker:
        broker.create_topic("orders", 1)
        broker.create_topic("large", 1)
        times: dict[int, int] = {}
        for number in range(60):
            first_ms = BEGIN_MS + 10_000 * number
            append(broker, 1 + number % 7, first_ms)
            times |= {len(times) + n: first_ms + 1000 * n for n in range(1 + number % 7)}
        broker.produce("large", [b"x" * 20_000] * 3)
        end = len(times)
        with ClusterClient(parse_address(broker.bootstrap_servers)) as cluster:
            refused: dict[TopicPartition, KafkaOffsetsError] = {}
            wanted = [(("orders", 0), offset) for offset in range(end - 1, -1, -3)]
            wanted += [(("large", 0), 1), (("orders", 0), end), (("large", 0), 3)]
            found = record_times(cluster, wanted, refused)
        assert not refused
        large = found.pop((("large", 0), 1))
        assert large > BEGIN_MS
        assert found == {
            (place, offset): times[offset]
            for place, offset in wanted
            if place[0] == "orders" and offset < end
        }


def test_the_page_prints_the_worst(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = (
        each for each in pages.blocks("groups.md", "console") if each.why.endswith("test_many_groups.py")
    )
    line, *printed = block.code.removeprefix("$ kafka-offsets ").splitlines()
    begin_ms = 1_769_839_200_000  # 2026-01-31T06:00:00
    monkeypatch.setattr(
        "kafka_offsets.commands.groups.lagging.time.time", lambda: begin_ms / 1000 + 16 * 60 + 4
    )
    with Broker() as broker:
        broker.create_topic("orders", 1)
        append(broker, 60, begin_ms)
        for group, offset in (("reports", 0), ("billing", 48), ("audit", 59)):
            broker.commit(group, {("orders", 0): offset})
        rows, error = told(broker, capsys, *line.partition(" --bootstrap-server ")[0].split())
    assert [*rows, *error.splitlines()] == printed
