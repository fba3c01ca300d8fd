"""`kafka-offsets offsets` and `kafka-offsets groups` on a running broker: what is moved, shown and refused."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_offsets import Broker, cli
from kafka_offsets.client import moves
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.client.moves import MoveError, Row
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.testing.faults.call import Call
from tests.documents import pages

START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    """A broker whose topic `orders` has 3 partitions: 100 records a second apart in the first, the others empty."""
    with Broker() as broker:
        broker.create_topic("orders", 3)
        with Connection(*parse_address(broker.bootstrap_servers)) as connection:
            made = messages.ProduceRequest
            records = bytes(encode_batch([(None, b"x", (), START_MS + 1000 * n) for n in range(100)]))
            data = made.TopicProduceData("orders", partition_data=[made.PartitionProduceData(0, records)])
            answer = connection.call(made(None, 1, 1000, [data]), 7)
            assert answer.responses[0].partition_responses[0].error_code == 0
        yield broker


@pytest.fixture
def group(running: Broker, request: pytest.FixtureRequest) -> str:
    """A group that has committed 40 and 0."""
    name = request.node.name
    running.commit(name, {("orders", 0): 40, ("orders", 1): 0})
    return str(name)


class Told:
    """The command line, and what it says."""

    def __init__(self, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
        self._broker, self._capsys = broker, capsys
        self.error = ""

    def __call__(self, *words: object, code: int = 0) -> list[str]:
        """Run a command that must end with `code`; return the lines that it prints."""
        given = [*map(str, words), "--bootstrap-server", self._broker.bootstrap_servers]
        found = cli.main(given)
        said = self._capsys.readouterr()
        self.error = said.err
        assert found == code, said.err
        return str(said.out).splitlines()


@pytest.fixture
def tell(running: Broker, capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(running, capsys)


def test_an_offset_after_the_log_end_is_named(tell: Told, running: Broker) -> None:
    running.commit("beyond", {("orders", 0): 100, ("orders", 1): 5})
    for words in (("groups", "describe", "beyond"), ("lag", "beyond")):
        rows = tell(*words)[1:]
        lags = [row.rpartition("orders ")[2].split() for row in rows]
        assert [[word for word in row if word != "-"] for row in lags] == [
            ["0", "100", "100", "0"],
            ["1", "5", "0", "-5", "offset-outside"],
        ]
        said = (
            "group 'beyond' has committed 5 in orders-1, beyond the end 0, so it waits for 5 records that nobody has "
            "produced"
        )
        assert [said in line for line in tell.error.splitlines()].count(True) == 1, tell.error
        assert "orders-0" not in tell.error


def test_a_finding_about_the_whole_group_stands_at_its_idle_members(tell: Told, running: Broker) -> None:
    """A topic that no member gets partitions of does not exist."""
    joined = Joined(running, "missing", "order")
    for words in (("groups", "describe", "missing"), ("groups", "describe", "missing", "--json")):
        lines = tell(*words)
        assert "subscription-matches-nothing" in lines[-1]
        assert tell.error.splitlines()[-1].endswith(
            "subscribes to order, which does not exist; did you mean orders?"
        ), tell.error
    joined.connection.close()


def moved(lines: list[str]) -> list[str]:
    """Topic, partition, committed and new offset of each row of the table that a reset prints."""
    assert not lines or lines[0].split() == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"]
    return [" ".join(line.split()[1:]) for line in lines[1:]]


def offsets(broker: Broker, group: str) -> dict[int, int]:
    return {place[1]: found.offset for place, found in broker.committed(group).items()}


class Joined:
    """A member of the consumer protocol, alone in its group."""

    def __init__(self, broker: Broker, group: str, topic: str = "orders") -> None:
        self.connection = Connection(*parse_address(broker.bootstrap_servers))
        request = messages.ConsumerGroupHeartbeatRequest
        first = request(
            group, "m", 0, None, None, 60_000, [topic], subscribed_topic_regex=None, topic_partitions=[]
        )
        assert self.connection.call(first, 1).error_code == 0


# ---- reset ----------------------------------------------------------------------------------------------------


def test_a_time_that_cannot_be_parsed_is_answered_with_an_example(
    tell: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        tell("offsets", "reset", "g", "--to-datetime", "yesterday")
    assert ended.value.code == cli.CANNOT
    assert "yesterday is not a time such as 2026-01-31T23:59:00" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("where", "first", "second"),
    [
        (("--to-earliest",), 0, 0),
        (("--to-latest",), 100, 0),
        (("--to-current",), 40, 0),
        (("--to-offset", 7), 7, 0),
        (("--to-offset", 1000), 100, 0),
        (("--shift-by", 5), 45, 0),
        (("--shift-by", -50), 0, 0),
        (("--to-datetime", "2023-11-14T22:13:30"), 10, 0),
        (("--to-datetime", "2023-11-14T23:13:30.500+01:00"), 11, 0),
        (("--by-duration", "PT1H"), 100, 0),
        (("--by-duration", "P36500D"), 0, 0),
    ],
)
def test_offsets_are_reset(
    running: Broker, group: str, tell: Told, where: tuple[object, ...], first: int, second: int
) -> None:
    lines = [f"orders 0 40 {first}", f"orders 1 0 {second}"]
    assert moved(tell("offsets", "reset", group, *where)) == lines
    assert "add --execute to move its offsets" in tell.error
    assert offsets(running, group) == {0: 40, 1: 0}
    assert moved(tell("groups", "reset", "--group", group, *where, "--execute")) == lines
    assert offsets(running, group) == {0: first, 1: second}


def test_partitions_are_named_whole_topics_or_some(running: Broker, group: str, tell: Told) -> None:
    reset = "offsets", "reset", group, "--to-latest"
    assert moved(tell(*reset, "--topic", "orders:2")) == ["orders 2 - 0"]
    assert moved(tell(*reset, "--topic", "orders:1,0")) == ["orders 0 40 100", "orders 1 0 0"]
    assert len(moved(tell(*reset, "--topic", "orders"))) == 3
    tell(*reset, "--topic", "orders:9", code=1)
    assert tell.error == "kafka-offsets: topic orders has no partition 9: it has 3\n"
    tell(*reset, "--topic", "nothing", code=1)
    assert tell.error == "kafka-offsets: topic nothing does not exist\n"


def test_a_group_may_begin_with_a_reset(running: Broker, tell: Told) -> None:
    assert tell("offsets", "reset", "fresh", "--to-offset", 3, "--topic", "orders:0", "--execute")
    assert offsets(running, "fresh") == {0: 3}


def test_what_is_moved_otherwise_than_asked_is_said(group: str, tell: Told, tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    file.write_text(f"{group},orders,0,100\n{group},orders,1,3\n")
    beyond = f"group {group}: the offset is after the log end, and the log end is taken, in"
    cases: list[tuple[tuple[object, ...], str]] = [
        (
            ("offsets", "reset", group, "--to-datetime", "2030-01-01T00:00:00"),
            (
                f"group {group}: no record is from 2030-01-01T00:00:00.000Z or later, and the log end is taken, in "
                "orders-0 (100), orders-1 (0)"
            ),
        ),
        (("offsets", "import", file), f"{beyond} orders-1 (3 became 0)"),
        (("offsets", "reset", group, "--from-file", file), f"{beyond} orders-1 (3 became 0)"),
        (
            ("offsets", "reset", group, "--to-offset", 200),
            f"{beyond} orders-0 (200 became 100), orders-1 (200 became 0)",
        ),
        (
            ("offsets", "reset", group, "--shift-by", -500),
            f"group {group}: the offset is before the log start, and the log start is taken, in orders-0 (",
        ),
        (
            ("offsets", "reset", group, "--to-current", "--topic", "orders:2"),
            f"group {group!r} has committed nothing, and the log end is taken, in orders-2 (0)",
        ),
    ]
    for words, said in cases:
        for execute in ((), ("--execute",)):
            tell(*words, *execute)
            assert f"kafka-offsets: {said}" in tell.error
            assert not ("after the log end" in tell.error and "before the log start" in tell.error)


def test_a_reset_that_asks_for_nothing_else_says_nothing_else(group: str, tell: Told) -> None:
    tell("offsets", "reset", group, "--to-offset", 0, "--execute")
    tell("offsets", "reset", group, "--to-latest", "--execute")
    assert tell.error == ""


def test_a_reset_of_a_group_that_does_not_exist_says_that_it_makes_it(
    running: Broker, group: str, tell: Told, tmp_path: Path
) -> None:
    wrong = f"{group}x"
    reset = "offsets", "reset", wrong, "--to-earliest", "--topic", "orders:0"
    tell(*reset)
    unknown = f"kafka-offsets: group {wrong!r} does not exist; did you mean {group}?"
    assert f"{unknown}; --execute makes it" in tell.error
    assert offsets(running, wrong) == {}
    tell(*reset, "--execute")
    assert f"{unknown}; its offsets make it" in tell.error
    tell(*reset, "--execute")
    assert tell.error == ""
    file = tmp_path / "offsets"
    file.write_text(f"{wrong}y,orders,0,0\n")
    tell("offsets", "import", file)
    assert f"group '{wrong}y' does not exist; did you mean {wrong}?; --execute makes it" in tell.error


def test_what_cannot_be_reset_is_reported(group: str, tell: Told) -> None:
    tell("offsets", "reset", group, "--shift-by", 1, "--topic", "orders", code=cli.CANNOT)
    assert "there is no committed offset to shift: orders-2" in tell.error


def test_offsets_of_a_group_with_members_are_not_moved(running: Broker, tell: Told) -> None:
    joined = Joined(running, "busy")
    tell("offsets", "reset", "busy", "--to-latest", "--topic", "orders", "--execute", code=cli.CANNOT)
    assert (
        "group busy is Stable, with 1 member: only a group without members can have its offsets moved"
        in tell.error
    )
    refused = tell.error
    tell("offsets", "commit", "busy", "orders:0=1", code=cli.CANNOT)
    assert tell.error == refused, "in the same words"
    assert offsets(running, "busy") == {}
    tell("offsets", "delete", "busy", "--topic", "orders:0", code=1)
    assert "orders-0 GROUP_SUBSCRIBED_TO_TOPIC (86)" in tell.error
    tell("groups", "delete", "busy", code=1)
    assert tell.error == (
        "kafka-offsets: group busy is Stable, with 1 member: only a group without members can be deleted\n"
    )
    joined.connection.close()


def test_a_partition_that_cannot_be_read_is_not_moved_and_hides_no_other(
    running: Broker, group: str, tell: Told
) -> None:
    def ends(call: Call) -> messages.ListOffsetsResponse:
        made = messages.ListOffsetsResponse
        answers = [made.ListOffsetsPartitionResponse(at, 29 * (at == 1), offset=0) for at in range(2)]
        return made(topics=[made.ListOffsetsTopicResponse("orders", answers)])

    with running.faults.control("ListOffsets", ends):
        heading, *rows = map(str.split, tell("groups", "reset", group, "--to-earliest", "--execute", code=1))
    assert heading[-1] == "ERROR"
    assert [row[1:] for row in rows] == [
        ["orders", "0", "40", "0", "-"],
        ["orders", "1", "0", "-", "TOPIC_AUTHORIZATION_FAILED", "(29)"],
    ]
    assert "the log end is not known of orders-1: TOPIC_AUTHORIZATION_FAILED (29)" in tell.error
    assert offsets(running, group) == {0: 0, 1: 0}


def test_a_group_that_is_refused_does_not_keep_the_others_from_being_moved(
    running: Broker, group: str, tell: Told
) -> None:
    running.commit("other", {("orders", 0): 3})
    with running.faults.error("OffsetFetch", ErrorCode.GROUP_AUTHORIZATION_FAILED, group="other"):
        rows = tell("groups", "reset", "other", group, "--to-latest", "--execute", code=1)
    assert moved(rows) == ["orders 0 40 100", "orders 1 0 0"]
    assert "offsets of group other: GROUP_AUTHORIZATION_FAILED (30)" in tell.error
    assert offsets(running, group)[0] == 100


def test_a_similar_topic_is_proposed(group: str, tell: Told) -> None:
    said = "kafka-offsets: topic ordres does not exist; did you mean orders?\n"
    for words in (
        ("groups", "reset", group, "--to-latest", "--topic", "ordres"),
        ("groups", "delete-offsets", group, "--topic", "ordres"),
        ("offsets", "commit", group, "ordres:0=1"),
    ):
        tell(*words, code=1)
        assert tell.error == said
    tell("groups", "reset", group, "--to-latest", "--topic", "ordres:0", code=1)
    assert tell.error == said
    tell("groups", "reset", group, "--to-latest", "--topic", "orders:7", code=1)
    assert tell.error == "kafka-offsets: topic orders has no partition 7: it has 3\n"


def test_nothing_is_said_to_be_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        tell = Told(broker, capsys)
        for words, said in (
            (("groups", "list"), "there are no groups"),
            (("groups", "describe", "--all-groups"), "there are no groups"),
            (("lag",), "no group has committed offsets"),
            (("offsets", "cleanup"), "no offsets are committed"),
        ):
            assert tell(*words) == []
            assert tell.error == f"kafka-offsets: {said}\n", words
        broker.create_topic("orders", 1)
        broker.commit("g", {("orders", 0): 0})
        with Connection(*parse_address(broker.bootstrap_servers)) as connection:
            join = messages.JoinGroupRequest
            request = join("left", 10_000, 1000, "", None, "consumer", [join.Protocol("range", b"")])
            member = connection.call(request, 3).member_id
            connection.call(messages.LeaveGroupRequest("left", member), 1)
        assert tell("groups", "describe", "left") == []
        assert tell.error.endswith("kafka-offsets: group left has no members\n")
        assert "nothing is committed by group left\n" in tell.error
        assert "there are no groups" not in tell.error
        tell("groups", "list", "--state", "Stable")
        assert tell.error == "kafka-offsets: none of 2 groups is of these states and types\n"


# ---- files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_is_exported_is_imported(
    running: Broker, group: str, tell: Told, tmp_path: Path, options: tuple[str, ...]
) -> None:
    lines = tell("offsets", "export", group, *options)
    file = tmp_path / "offsets"
    file.write_text("\n".join(lines) + "\n")
    running.commit(group, {("orders", 0): 1, ("orders", 1): 0})
    rows = ["orders 0 1 40", "orders 1 0 0"]
    assert moved(tell("offsets", "import", file)) == rows
    assert offsets(running, group)[0] == 1
    assert moved(tell("offsets", "import", file, "--execute")) == rows
    assert offsets(running, group) == {0: 40, 1: 0}
    reset = tell("offsets", "reset", group, "--from-file", file, "--topic", "orders:0")
    assert moved(reset) == ["orders 0 40 40"]


def test_a_file_of_kafka_consumer_groups_is_imported(running: Broker, tell: Told, tmp_path: Path) -> None:
    file = tmp_path / "kafka.csv"
    file.write_text('"orders",0,17\n"orders",1,0\n')
    tell("offsets", "import", file, code=cli.CANNOT)
    assert "names no group: add --group" in tell.error
    tell("offsets", "import", file, "--group", "kafkas", "--execute")
    assert offsets(running, "kafkas") == {0: 17, 1: 0}


@pytest.mark.parametrize(
    "line",
    [
        "orders,0",
        "orders,x,1",
        "orders,0,-1",
        "a,b,c,0,1",
        '{"topic": "orders"}',
        '{"topic"',
        ",0,1",
        '"orders,0,1',
        ' "orders,0,1',
        'orders,"0" 1,2',
        "orders,0,",
        "orders,2147483648,1",
    ],
)
def test_a_malformed_line_is_named(line: str) -> None:
    with pytest.raises(MoveError, match=r"file line 2 column [0-9]+: "):
        moves.read_rows(f"orders,0,1\n{line}", "file")


def test_any_name_round_trips_through_a_file() -> None:
    rows = [
        Row('a "b", c', ("t", 0), 1),
        Row("'", ("t", 1), 2),
        Row("ü", ("t", 2), 3),
        Row(" \u2028\x85", ("t", 3), 4),
    ]
    for as_json in (True, False):
        assert moves.read_rows("\n".join(moves.write_rows(rows, as_json=as_json)), "file") == rows
    with pytest.raises(MoveError, match="file line 2 column 1: t-0 is there twice"):
        moves.read_rows("t,0,1\nt,0,2", "file")


def test_a_file_without_an_offset_of_the_group_is_reported(group: str, tell: Told, tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    file.write_text("")
    tell("offsets", "import", file, "--execute", code=cli.CANNOT)
    assert tell.error == f"kafka-offsets: {file} has no offsets\n"
    file.write_text(f"{group},orders,0,1\n")
    tell("offsets", "import", file, "--group", "other", code=cli.CANNOT)
    assert tell.error == f"kafka-offsets: {file} has no offsets of group other\n"


def test_a_file_that_does_not_exist_is_reported(tell: Told, tmp_path: Path) -> None:
    tell("offsets", "import", tmp_path / "none", code=cli.CANNOT)
    assert "No such file or directory" in tell.error


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1S", 1000),
        ("P1DT1H", 90_000_000),
        ("PT0.5S", 500),
        ("pt2m", 120_000),
        ("30d", 30 * 86_400_000),
        ("1h", 3_600_000),
        ("1h30m", 5_400_000),
        ("0.5s", 500),
    ],
)
def test_durations_are_read(text: str, ms: int) -> None:
    assert moves.parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1H", "PT1D", "P1DT", "1m1h", "d", "1"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        moves.parse_duration(text)


# ---- groups ---------------------------------------------------------------------------------------------------


def test_groups_are_listed(running: Broker, group: str, tell: Told) -> None:
    joined = Joined(running, "listed-consumer")
    heading, *lines = map(str.split, tell("groups", "list"))
    assert heading == ["GROUP", "TYPE", "PROTOCOL", "STATE"]
    of_classic, of_consumer = (
        [group, "classic", "-", "Empty"],
        ["listed-consumer", "consumer", "consumer", "Stable"],
    )
    assert of_classic in lines and of_consumer in lines
    for of_type in (
        tell("groups", "list", "--type", "Consumer"),
        tell("groups", "--list", "--type", "consumer"),
    ):
        lines = [line.split() for line in of_type]
        assert of_consumer in lines and of_classic not in lines
    assert len(tell("groups", "list", "--state", "stable,empty")) == len(tell("groups", "list", "--state"))
    named = [json.loads(line)["group"] for line in tell("groups", "list", "--state", "empty", "--json")]
    assert group in named and "listed-consumer" not in named
    joined.connection.close()


def test_groups_are_listed_in_an_order_and_the_first_only(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(topics=["orders"]) as broker:
        for group in ("b", "c", "a"):
            broker.commit(group, {("orders", 0): 0})
        tell, joined = Told(broker, capsys), Joined(broker, "z")
        assert [line.split()[0] for line in tell("groups", "list")[1:]] == ["a", "b", "c", "z"]
        by_state = tell("groups", "list", "--sort", "state", "--top", "2", "--json")
        assert [json.loads(line)["group"] for line in by_state] == ["a", "b"]
        assert tell.error == "kafka-offsets: these are 2 of 4 groups\n"
        by_type = tell("groups", "list", "--sort", "type", "--json")
        assert [json.loads(line)["group"] for line in by_type] == ["a", "b", "c", "z"]
        assert tell.error == ""
        joined.connection.close()


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("--state", "PreparingRebalance, CompletingRebalance, Stable, "),
        ("--type", "consumer, classic, share, "),
    ],
)
def test_an_unknown_state_or_type_is_refused(
    tell: Told, capsys: pytest.CaptureFixture[str], option: str, known: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        tell("groups", "list", option, "Foo")
    assert ended.value.code == cli.CANNOT
    assert f"argument {option}: foo is none of {known}" in capsys.readouterr().err


def test_a_group_is_described(running: Broker, group: str, tell: Told) -> None:
    width = len(group)
    assert tell("groups", "describe", group) == [
        f"{'GROUP':{width}}  TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID",
        f"{group}  orders  0          40              100             60   -            -     -",
        f"{group}  orders  1          0               0               0    -            -     -",
    ]
    assert tell.error == f"kafka-offsets: group {group} has no members\n"
    heading, first, _ = map(str.split, tell("groups", "describe", group, "--verbose"))
    assert (heading[3], first[3]) == ("LEADER-EPOCH", "-")
    joined = Joined(running, "described")
    _, *rows = map(str.split, tell("groups", "--describe", "--group", "described"))
    member = ["m", "/127.0.0.1", "kafka-offsets"]
    ends = [100, 0, 0]
    assert rows == [
        ["described", "orders", str(n), "-", str(ends[n]), str(ends[n]), *member] for n in range(3)
    ]
    (line,) = tell("groups", "describe", "described", "--json")
    found = json.loads(line)
    assert [each["member"] for each in found["partitions"]] == ["m"] * 3
    assert (found["state"], found["type"], found["assignor"]) == ("Stable", "consumer", "uniform")
    joined.connection.close()


def test_members_and_states_are_described(running: Broker, group: str, tell: Told) -> None:
    joined = Joined(running, "viewed")
    view = "groups", "describe", group, "viewed"
    assert [line.split() for line in tell(*view, "--members")] == [
        ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"],
        ["viewed", "m", "/127.0.0.1", "kafka-offsets", "3"],
    ]
    heading, row = map(str.split, tell(*view, "--members", "--verbose"))
    assert heading[-4:] == ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    assert row[-3::2] == ["orders:0,1,2", "orders:0,1,2"]
    heading, *rows = map(str.split, tell(*view, "--state"))
    where = running.bootstrap_servers
    assert heading == ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    assert rows == [
        [group, where, "(1)", "-", "Empty", "0"],
        ["viewed", where, "(1)", "uniform", "Stable", "1"],
    ]
    states = [json.loads(line) for line in tell(*view, "--state", "--json")]
    assert [(each["group"], each["state"], each["coordinator"]) for each in states] == [
        (group, "Empty", where),
        ("viewed", "Stable", where),
    ]
    joined.connection.close()


def test_all_groups_are_described_moved_and_exported_together(tell: Told, tmp_path: Path) -> None:
    with Broker() as alone:
        alone.create_topic("orders", 1)
        for name in ("a", "b"):
            alone.commit(name, {("orders", 0): 0})
        told = Told(alone, tell._capsys)
        assert [line.split()[0] for line in told("groups", "describe", "--all-groups")] == ["GROUP", "a", "b"]
        lines = told(
            "groups", "reset", "--all-groups", "--all-topics", "--to-current", "--export", "--dry-run"
        )
        assert lines == ['"a","orders",0,0', '"b","orders",0,0']
        assert told.error == "kafka-offsets: 2 groups are unchanged: add --execute to move their offsets\n"
        assert told("groups", "reset", "a", "--to-current", "--export") == ['"orders",0,0']
        told("groups", "delete", "--all-groups")
        assert told("groups", "list") == []
        told("groups", "describe", code=cli.CANNOT)
        assert told.error == "kafka-offsets: name a group, or give --all-groups\n"
        told("groups", "describe", "a", "--all-groups", code=cli.CANNOT)


def test_a_group_with_members_does_not_keep_the_others_from_being_moved(
    running: Broker, group: str, tell: Told
) -> None:
    joined = Joined(running, "reading")
    reset = tell("groups", "reset", "reading", group, "--to-earliest", "--execute", code=cli.CANNOT)
    assert moved(reset) == ["orders 0 40 0", "orders 1 0 0"]
    assert "group reading is Stable" in tell.error
    assert offsets(running, group) == {0: 0, 1: 0}
    joined.connection.close()


def test_a_similar_group_is_proposed(group: str, tell: Told) -> None:
    wrong = f"{group}x"
    tell("groups", "describe", wrong, code=1)
    assert tell.error == f"kafka-offsets: group {wrong!r} does not exist; did you mean {group}?\n"


# ---- lag ------------------------------------------------------------------------------------------------------


def test_the_lag_is_printed(group: str, tell: Told) -> None:
    heading, *rows = map(str.split, tell("lag", group))
    assert heading == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "BEHIND-SINCE",
        "FOR",
    ]
    assert [row[:6] for row in rows] == [
        [group, "orders", "0", "40", "100", "60"],
        [group, "orders", "1", "0", "0", "0"],
    ]
    assert rows[0][6] == "2023-11-14T22:14:00.000Z" and rows[0][8] == "d", "of the record at offset 40"
    assert rows[1][6:] == ["-", "-"]
    assert rows[0][:7] in [line.split()[:7] for line in tell("lag", "--by", "partition")]
    assert [json.loads(line)["lag"] for line in tell("lag", "--group", group, "--json")] == [60, 0]
    assert tell("lag", "nobody", code=1) == []
    assert tell.error == "kafka-offsets: group 'nobody' does not exist\n"


def test_the_lag_is_watched_with_its_changes(
    running: Broker, group: str, tell: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt
        running.commit(group, {("orders", 0): 45})

    monkeypatch.setattr("kafka_offsets.commands.groups.lagging._pause", sleep)
    _, _, first, _, _, total, _, second, _, _ = tell("lag", group, "--watch", "0.5", code=130)
    assert first.split()[1:] == ["orders", "0", "40", "100", "60", "-"]
    assert second.split()[1:] == ["orders", "0", "45", "100", "55", "-5"]
    assert total.endswith("  55 records of lag in all")
    assert pauses == [0.5, 0.5]


def test_the_watched_lag_is_printed_as_on_its_page(
    running: Broker, tell: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = (
        each for each in pages.blocks("groups.md", "console") if each.why.endswith(Path(__file__).name)
    )
    line, _, printed = block.code.removeprefix("$ kafka-offsets ").partition("\n")
    screens = 0

    def sleep(seconds: float) -> None:
        nonlocal screens
        screens += 1
        if screens == 2:
            raise KeyboardInterrupt
        running.commit("reports", {("orders", 0): 40})

    monkeypatch.setattr("kafka_offsets.commands.groups.lagging._pause", sleep)
    running.commit("reports", {("orders", 0): 28})
    given = tell(*line.partition(" --bootstrap-server ")[0].split(), code=130)
    *_, total, heading, row, _ = given
    assert [total.partition("  ")[2], heading, row] == [
        printed.partition("  ")[2].partition("\n")[0],
        *printed.splitlines()[1:],
    ]


def test_a_watch_goes_on_after_a_broken_connection_and_an_answer_without_brokers(
    running: Broker, group: str, tell: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended for good with the first broken connection, and printed that no group had committed offsets."""
    pauses = 0

    def without_brokers(call: Call) -> messages.MetadataResponse:
        return messages.MetadataResponse()

    def sleep(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 1:
            running.faults.control("Metadata", without_brokers, n=1)
            running.faults.close("ListOffsets", n=1)
        elif pauses == 2:
            running.faults.close()
        elif pauses == 3:
            running.faults.clear()
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("kafka_offsets.commands.groups.lagging._pause", sleep)
    try:
        lines = tell("lag", group, "--watch", "0.5", "--timeout", "2000", code=130)
    finally:
        running.faults.clear()
    tables = [line for line in lines if " records of lag in all" in line]
    assert len(tables) == 3 and not any("no group" in line for line in lines)
    said = tell.error.splitlines()
    assert any("knows none of its cluster yet; trying again for up to 2 s" in line for line in said)
    assert any("closed the connection before it answered" in line for line in said)


def test_the_change_in_json_is_a_number(
    running: Broker, group: str, tell: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [45, 30]

    def sleep(seconds: float) -> None:
        if not left:
            raise KeyboardInterrupt
        running.commit(group, {("orders", 0): left.pop(0)})

    monkeypatch.setattr("kafka_offsets.commands.groups.lagging._pause", sleep)
    tables = [json.loads(line) for line in tell("lag", group, "--watch", "--json", code=130)]
    assert [[row["change"] for row in table["partitions"]] for table in tables] == [
        [None, None],
        [-5, 0],
        [15, 0],
    ]


def test_a_sum_without_what_is_not_known_is_said_to_be_so(
    running: Broker, group: str, tell: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line said 0 records of lag in all, although log ends or groups were not known."""

    def ends(call: Call) -> messages.ListOffsetsResponse:
        made = messages.ListOffsetsResponse
        answers = [made.ListOffsetsPartitionResponse(at, 5) for at in range(3)]
        return made(topics=[made.ListOffsetsTopicResponse("orders", answers)])

    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kafka_offsets.commands.groups.lagging._pause", sleep)
    words = "lag", group, "other", "--watch", "--timeout", "2000"
    running.commit("other", {("orders", 0): 0})
    with running.faults.control("ListOffsets", ends):
        total, *_ = tell(*words, code=130)
    assert total.endswith("  at least 0 records of lag in all; not known: 6 partitions"), total
    with running.faults.error("OffsetFetch", ErrorCode.GROUP_AUTHORIZATION_FAILED, group=group):
        total, *_ = tell(*words, code=130)
    assert total.endswith("  at least 100 records of lag in all; not known: 1 group"), total
    with running.faults.error("ListGroups", ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        total, *_ = tell("lag", "--watch", "--timeout", "2000", code=130)
    assert total.endswith("  at least 0 records of lag in all; not known: 1 broker"), total


def test_an_offset_after_the_log_end_takes_nothing_from_the_sum(
    running: Broker, tell: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 records to read, and an offset 20 after its end, were 0 records of lag in all."""
    running.commit("twenty", {("orders", 0): 80, ("orders", 1): 20})

    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kafka_offsets.commands.groups.lagging._pause", sleep)
    total, *_ = tell("lag", "twenty", "--watch", code=130)
    assert total.endswith("  20 records of lag in all")


def test_a_partition_whose_offset_is_refused_is_shown_without_it(
    running: Broker, group: str, tell: Told
) -> None:
    """Its offset was -1, and its lag one more than the end of its log."""

    def answer(call: Call) -> messages.OffsetFetchResponse:
        made = messages.OffsetFetchResponse
        partitions = [made.Partition(0, 40, -1, "", 0), made.Partition(1, -1, -1, "", 29)]
        return made(topics=[made.Topic("orders", partitions)])

    reason = (
        f"kafka-offsets: group {group}: the committed offset of orders-1 is not known: "
        "TOPIC_AUTHORIZATION_FAILED (29)"
    )
    with running.faults.control("OffsetFetch", answer):
        for words in (("lag", group), ("groups", "describe", group)):
            rows = [line.split()[1:6] for line in tell(*words, code=1)[1:]]
            assert rows == [["orders", "0", "40", "100", "60"], ["orders", "1", "-", "0", "-"]]
            assert reason in tell.error.splitlines()
        assert tell("offsets", "export", group, code=1) == [f'"{group}","orders",0,40']
        assert [line.split()[:3] for line in tell("offsets", "list", group, code=1)[1:]] == [
            ["orders", "0", "40"]
        ]
        tell("groups", "reset", group, "--to-current", code=1)
        assert tell.error == (
            f"kafka-offsets: offset of orders-1 of group {group}: TOPIC_AUTHORIZATION_FAILED (29)\n"
        )


# ---- client properties ----------------------------------------------------------------------------------------


def test_client_properties_without_effect_are_named_once(group: str, tell: Told, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=me\nrequest.timeout.ms=20000\nretries=3\n")
    tell("groups", "describe", group, "--members", "--command-config", file)
    assert tell.error.splitlines()[0] == f"kafka-offsets: {file}: without effect here: client.id, retries"
    file.write_text("security.protocol=TLS\n")
    tell("groups", "list", "--command-config", file, code=cli.CANNOT)
    assert tell.error == (
        f"kafka-offsets: {file}: security.protocol is TLS: "
        "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL is needed\n"
    )
    file.write_text("request.timeout.ms=soon\n")
    tell("groups", "list", "--command-config", file, code=cli.CANNOT)
    assert "request.timeout.ms is soon: a number of milliseconds is needed" in tell.error
    file.write_text("request.timeout.ms=20000\n")
    given = ("--command-config", file, "-X", "security.protocol=TLS")
    tell("groups", "list", *given, code=cli.CANNOT)
    assert tell.error.startswith("kafka-offsets: client properties: security.protocol is TLS")
    tell("groups", "list", *given[:3], "retries=3")
    assert tell.error == "kafka-offsets: client properties: without effect here: retries\n"


def test_the_keys_of_a_broker_are_named_as_such(tell: Told, tmp_path: Path) -> None:
    """A server.properties given to a client; what both have is not named, and `oauth.` is of Strimzi's clients."""
    file = tmp_path / "server.properties"
    of_broker = (
        "advertised.listeners",
        "listener.name.internal.ssl.keystore.location",
        "listeners",
        "log.dirs",
        "log.retention.hours",
        "num.io.threads",
        "sasl.enabled.mechanisms",
        "security.inter.broker.protocol",
        "ssl.client.auth",
        "zookeeper.connect",
    )
    of_client = (
        "compression.type",
        "linger.ms",
        "metric.reporters",
        "oauth.client.id",
        "ssl.keystore.location",
    )
    file.write_text("".join(f"{key}=1\n" for key in (*of_broker, *of_client)))
    tell("groups", "list", "--command-config", file)
    assert tell.error.splitlines() == [
        f"kafka-offsets: {file}: without effect here: {', '.join(of_client)}",
        f"kafka-offsets: {file}: keys of a broker, which a client does not have: {', '.join(of_broker)}",
    ]


@pytest.mark.parametrize("in_file", [False, True])
def test_the_timeout_ends_the_wait_for_a_silent_broker(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, in_file: bool
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("default.api.timeout.ms=50\n" if in_file else "default.api.timeout.ms=60000\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        words = ["groups", "list", "--bootstrap-server", where, "--command-config", str(file)]
        assert cli.main(words if in_file else [*words, "--timeout", "50"]) == cli.CANNOT
    assert "timed out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("groups", "describe", "nobody"),
        ("groups", "describe", "nobody", "--members"),
        ("groups", "describe", "nobody", "--state"),
        ("groups", "delete", "nobody"),
        ("groups", "reset", "nobody", "--to-latest"),
        ("groups", "delete-offsets", "nobody", "--topic", "orders:0"),
        ("offsets", "list", "nobody"),
        ("offsets", "export", "nobody"),
        ("offsets", "reset", "nobody", "--to-latest"),
        ("offsets", "delete", "nobody", "--topic", "orders:0"),
        ("offsets", "cleanup", "nobody"),
        ("offsets", "cleanup", "nobody", "--older-than", "P30D"),
    ],
    ids=" ".join,
)
def test_a_group_that_does_not_exist_is_an_error(tell: Told, words: tuple[str, ...]) -> None:
    assert tell(*words, code=1) == []
    assert tell.error == "kafka-offsets: group 'nobody' does not exist\n"


@pytest.mark.parametrize(
    "words",
    [
        ("offsets", "list"),
        ("offsets", "export"),
        ("offsets", "cleanup"),
        ("offsets", "cleanup", "--older-than", "P30D"),
    ],
    ids=" ".join,
)
def test_a_group_without_committed_offsets_is_an_error(
    running: Broker, tell: Told, words: tuple[str, ...]
) -> None:
    joined = Joined(running, "idle")
    try:
        assert tell(*words, "idle", code=1) == []
    finally:
        joined.connection.close()
    assert tell.error == "kafka-offsets: group 'idle' has committed nothing\n"


def test_export_of_all_groups_succeeds_where_one_has_no_committed_offsets(
    running: Broker, tell: Told
) -> None:
    running.commit("left", {("orders", 0): 1})
    joined = Joined(running, "idle")
    try:
        assert '"left","orders",0,1' in tell("offsets", "export", "--all-groups", code=0)
    finally:
        joined.connection.close()
    assert "kafka-offsets: group 'idle' has committed nothing\n" in tell.error


def test_a_group_may_have_offsets_of_a_deleted_topic(tell: Told, running: Broker) -> None:
    running.create_topic("gone", 1)
    running.commit("left", {("orders", 0): 1})
    joined = Joined(running, "left", "gone")
    with Connection(*parse_address(running.bootstrap_servers)) as connection:
        request = messages.DeleteTopicsRequest
        answer = connection.call(request(topic_names=["gone"], timeout_ms=1000), 5)
    assert answer.responses[0].error_code == 0
    _, *rows = map(str.split, tell("groups", "describe", "left"))
    assert ["left", "orders", "0", "1", "100", "99", "-", "-", "-", "topic-unsubscribed"] in rows
    assert rows[-1][-1] == "subscription-matches-nothing"
    joined.connection.close()


def test_offsets_and_groups_are_deleted(running: Broker, group: str, tell: Told) -> None:
    tell("offsets", "delete", group, "--topic", "orders:0")
    assert offsets(running, group) == {1: 0}
    tell("groups", "delete", group)
    assert offsets(running, group) == {}
    tell("groups", "delete", group, code=1)
    assert tell.error.startswith(f"kafka-offsets: group {group!r} does not exist")
