"""What benchmarks/broker_table computes, draws and writes, without any server; docs/performance.md shows it."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks.broker_table import __main__ as command
from benchmarks.broker_table import load, rounds
from benchmarks.broker_table.figures import Figure, factor, figure, ratio
from benchmarks.broker_table.lines import GROWTHS, LINES, SERVERS, Growth, Line
from benchmarks.broker_table.load import Driver, LoadError
from benchmarks.broker_table.page import document, growth_table, number, table_text, write
from benchmarks.broker_table.rounds import Times, measure, suited
from benchmarks.servers import Server
from tests.conftest import REPOSITORY, GeneratedPart

COMMIT = LINES[0]
FIND = next(line for line in LINES if line.name == "find")


def run(rate: float, cpu_us: float = 10.0) -> dict[str, float]:
    return {"rate": rate, "p50_ms": 1.0, "p99_ms": 2.0, "cpu_us": cpu_us, "rss_mb": 40.0}


def measured(**rates: list[float]) -> dict[str, Any]:
    return {
        "runs": {name.replace("_", "-"): [run(rate) for rate in of_name] for name, of_name in rates.items()},
        "absent": {},
    }


def at_cost(**costs: float) -> dict[str, Any]:
    return {"runs": {name: [run(1000.0, cpu_us)] for name, cpu_us in costs.items()}, "absent": {}}


def test_a_figure_is_the_median_of_the_rounds_with_the_least_and_the_most() -> None:
    found = measured(disk=[900, 3000, 1000], kafka=[500, 400])
    assert figure(found, "disk", "rate") == Figure(1000, 900, 3000)
    assert figure(found, "kafka", "rate") == Figure(450, 400, 500)
    assert figure(found, "kfake", "rate") is None


def test_a_ratio_is_that_of_medians() -> None:
    found = measured(disk=[900, 3000, 1000], kafka=[500, 400, 9000])
    assert ratio(found, "disk", "kafka", "rate") == 2
    assert ratio(found, "disk", "kfake", "rate") is None


def test_growth_is_the_cost_at_the_last_level_by_that_at_the_first() -> None:
    growth = Growth("partitions", "partitions", {1: {}, 100: {}}, ("commit-1", "find"), ("commit-1",))
    levels = {"1": at_cost(disk=20, kafka=50), "100": at_cost(disk=400)}
    assert factor(growth, "find", levels, "disk") == 20
    assert factor(growth, "commit-1", levels, "disk") == 0.2, "the cost of one of the hundred partitions"
    assert factor(growth, "find", levels, "kafka") is None, "Kafka has no figure at the last level"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (62_646, "62,600"),
        (1_234_567, "1,230,000"),
        (999.6, "1,000"),
        (1000, "1,000"),
        (123.4, "123"),
        (15.53, "15.5"),
        (0.25, "0.25"),
        (0.0432, "0.043"),
        (None, "-"),
    ],
)
def test_a_number_has_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_the_tables_have_a_row_a_line_and_a_column_a_server() -> None:
    found = {
        "commit-1": measured(disk=[1000, 1100, 1300], kafka=[100]),
        "find": {"runs": {"disk": [run(5)]}, "absent": {"kafka": "it ended"}},
    }
    text = table_text(found)
    for row in (
        "|  | ours, log on disk | Kafka |",
        "| OffsetCommit, 1 partition (a second) | 1,100 (1,000 to 1,300) | 100 |",
        "| FindCoordinator (a second) | 5.00 | - |",
        "|  | rate / Kafka | CPU / Kafka |",
        "| OffsetCommit, 1 partition | 11.0 | 1.00 |",
        "| FindCoordinator | - | - |",
        "- find: Kafka: it ended",
    ):
        assert row in text.splitlines()


def test_a_cost_that_grows_is_printed_bold() -> None:
    growth = Growth("groups", "groups", {100: {}, 10_000: {}}, ("commit-1", "find"))
    lines = {
        "commit-1": {"100": at_cost(disk=10, kafka=80), "10000": at_cost(disk=16, kafka=40)},
        "find": {"100": at_cost(disk=10), "10000": at_cost(disk=14)},
    }
    rows = growth_table(growth, lines).splitlines()
    assert "| CPU us, ours with its log | 100 | 10,000 | last / first | Kafka |" in rows
    assert "| OffsetCommit, 1 partition | 10.0 | 16.0 | **1.60** | 0.50 |" in rows
    assert "| FindCoordinator | 10.0 | 14.0 | 1.40 | - |" in rows
    assert "| *resident memory, MB* | 40.0 | 40.0 |  |  |" in rows


def test_a_page_is_written_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin: table -->\nold\n<!-- end: table -->\nafter\n", encoding="utf-8")
    write(page, {"table": "new"})
    assert page.read_text() == "before\n<!-- begin: table -->\n\nnew\n\n<!-- end: table -->\nafter\n"
    with pytest.raises(ValueError, match="has no part growth"):
        write(page, {"growth": "new"})


def test_the_names_of_dimensions_are_those_of_lines() -> None:
    lines = {line.name for line in LINES}
    assert len(lines) == len(LINES)
    for growth in GROWTHS:
        assert {*growth.lines, *growth.per_partition} <= lines


def test_requests_that_name_no_group_stay_as_they_are_while_the_groups_grow() -> None:
    assert suited(FIND, {"groups": 10}) == suited(COMMIT, {"groups": 10}) == {"groups": 10}
    assert suited(next(line for line in LINES if line.mode == "produce"), {"groups": 10}) == {}
    assert suited(next(line for line in LINES if line.mode == "consume"), {"conns": 8, "window": 9}) == {
        "conns": 8
    }


def test_a_page_of_some_lines_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.parse(["--docs", "--lines", "find"])
    assert "--docs needs all lines" in capsys.readouterr().err


def test_each_dimension_of_growth_is_a_section() -> None:
    assert [*command.sections(command.parse([]))] == ["table"]
    assert [*command.sections(command.parse(["--growth"]))] == [growth.name for growth in GROWTHS]
    assert [*command.sections(command.parse(["--growth", "--of", "groups"]))] == ["groups"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], command.TABLE_TIMES),
        (["--growth"], command.GROWTH_TIMES),
        (["--quick", "--growth"], command.QUICK_TIMES),
        (["--rounds", "7", "--warm-up", "0"], command.TABLE_TIMES._replace(rounds=7, warm_up=0.0)),
    ],
    ids=["table", "growth", "quick", "given"],
)
def test_times_are_those_of_the_form_unless_given(words: list[str], expected: Times) -> None:
    assert command.parse(words).times == expected


# --- driving


class FakeDriver:
    """Remembers who was driven; one server fails from its second run on."""

    def __init__(self) -> None:
        self.driven: list[tuple[str, float]] = []

    def run(
        self, server: Server, line: Line, options: Any, seconds: float, warm_up: float
    ) -> dict[str, float]:
        self.driven.append((server.name, seconds))
        if server.name == "kafka" and len(self.driven) > 2:
            raise LoadError("it ended")
        return run(len(self.driven))


def test_servers_are_measured_in_turn_and_one_that_fails_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver = FakeDriver()
    servers = [Server(name, 1, os.getpid()) for name in ("disk", "kafka", "kfake")]
    found = measure(driver, servers, COMMIT, {}, Times(2, 5.0, 0.5, 9.0))  # type: ignore[arg-type]
    order = [("disk", 9.0), ("kafka", 9.0), ("kfake", 9.0), ("disk", 5.0), ("kafka", 5.0), ("kfake", 5.0)]
    assert driver.driven == [*order, ("disk", 5.0), ("kfake", 5.0)]
    assert [each["rate"] for each in found["runs"]["disk"]] == [4, 7]
    assert found["runs"].keys() == {"disk", "kfake"}
    assert found["absent"] == {"kafka": "it ended"}
    assert "commit-1: Kafka: it ended" in capsys.readouterr().err
    assert command.failures({"commit-1": found, "find": measured(disk=[1])}) == 1


def test_lines_are_stored_as_soon_as_they_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes an hour; what it has measured when it is cut off must remain."""
    stored: list[dict[str, Any]] = []

    def measured_until_cut_off(_driver: Driver, _servers: object, line: Line, *_: object) -> dict[str, Any]:
        if line is LINES[2]:
            raise KeyboardInterrupt
        return measured(disk=[1])

    monkeypatch.setattr(rounds, "running", lambda _names: nullcontext((Path(), [])))
    monkeypatch.setattr(rounds, "measure", measured_until_cut_off)
    (table,) = command.sections(command.parse(["--without", "kafka"])).values()
    with pytest.raises(KeyboardInterrupt):
        table(lambda section: stored.append(json.loads(json.dumps(section))))
    assert [[*section["lines"]] for section in stored] == [["commit-1"], ["commit-1", "commit-3"]]
    assert {section["machine"] for section in stored} == {command.machine()}


def test_a_server_of_another_priority_ends_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpriority", lambda _which, pid: {0: 5, 11: 5, 12: 15}[pid])
    rounds.check_priorities([Server("disk", 1, 11)])
    with pytest.raises(SystemExit, match="this process has 5, but kafka has 15"):
        rounds.check_priorities([Server("disk", 1, 11), Server("kafka", 1, 12)])


def loadgen(folder: Path, said: dict[str, Any], status: int = 0) -> Path:
    """A program that writes its arguments to a file, and prints what a load generator would."""
    program = folder / "loadgen"
    program.write_text(
        f"#!/bin/sh\necho \"$@\" >> {folder}/arguments\necho '{json.dumps(said)}'\nexit {status}\n"
    )
    program.chmod(0o755)
    return program


ANSWERED = {"mode": "find", "ops_s": 70, "p50_ms": 1, "p99_ms": 2, "cpu_us_per_op": 9, "rss_mb": 3, "errs": 0}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """One on which topics are only said to be created."""
    monkeypatch.setattr(load, "create_topic", lambda *_: None)
    return Server("disk", 9092, 77)


def test_what_a_request_names_is_made_once_and_then_the_line_is_driven(
    tmp_path: Path, server: Server
) -> None:
    driver = Driver(loadgen(tmp_path, ANSWERED | {"refused_samples": 0}))
    for _ in range(2):
        found = driver.run(server, COMMIT, {"groups": 5}, 3.0, 0.5)
    assert found == {"rate": 70, "p50_ms": 1, "p99_ms": 2, "cpu_us": 9, "rss_mb": 3}
    made, *driven = (tmp_path / "arguments").read_text().splitlines()
    assert made.endswith("-groups=5 -mode=commit -parts=1 -topic=t -once=true -dur=600s")
    assert driven == 2 * [
        "-addr=127.0.0.1:9092 -conns=8 -window=16 -groups=5 -topic=t -parts=1 -mode=commit -dur=3.0s -warm=0.5s -pid=77"
    ]


@pytest.mark.parametrize(
    ("refused", "status", "message"),
    [(3, 0, "find: 0 connections broke, 3 samples are errors"), (0, 2, "loadgen ended with 2")],
    ids=["refused", "ended"],
)
def test_a_refused_answer_fails_the_run(
    refused: int, status: int, message: str, tmp_path: Path, server: Server
) -> None:
    driver = Driver(loadgen(tmp_path, ANSWERED | {"refused_samples": refused}, status))
    with pytest.raises(LoadError, match=message):
        driver.run(server, FIND, {}, 1.0, 0)


def test_a_missing_tool_is_named_with_the_way_around_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="go is missing; install it by: apt-get install -y golang"):
        rounds.running(["disk"]).__enter__()
    (tmp_path / "go").write_text("#!/bin/sh\n")
    (tmp_path / "go").chmod(0o755)
    with pytest.raises(SystemExit, match=r"java is missing; .* or run without it: --without kafka"):
        rounds.running(["disk", "kafka"]).__enter__()


# --- the page


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(command.STORED.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("part", ["table", "growth"])
def test_the_page_shows_what_was_measured(part: str, generated: GeneratedPart) -> None:
    generated.check(command.PAGE.relative_to(REPOSITORY).as_posix(), part, document(stored())[part])


@pytest.mark.slow
def test_the_pictures_are_drawn_of_what_was_measured(tmp_path: Path) -> None:
    from benchmarks.broker_table.plots import draw

    for path in draw(stored(), tmp_path):
        text = path.read_text(encoding="utf-8")
        for label in ("FindCoordinator", SERVERS["disk"], SERVERS["kafka"], SERVERS["kfake"]):
            assert label in text
        assert (command.PICTURES / path.name).exists()
