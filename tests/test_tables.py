"""Tables of the command line: alignment, colours on a terminal, names with control characters."""

import io
from collections.abc import Iterator

import pytest

from kafka_offsets.commands.output.tables import has_colours, table

COLUMNS = {"group": "GROUP", "lag": "LAG", "state": "STATE"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_columns_are_aligned_and_unknown_values_are_dashes() -> None:
    rows = [{"group": "billing", "lag": 0, "state": None}, {"group": "b", "lag": 12345, "state": "Empty"}]
    assert [*table(COLUMNS, rows)] == ["GROUP    LAG    STATE", "billing  0      -", "b        12345  Empty"]
    assert [*table(COLUMNS, [])] == []


def test_rows_after_the_measured_ones_are_printed_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_offsets.commands.output.tables._MEASURED_ROWS", 2)
    taken = []

    def rows() -> Iterator[dict[str, str]]:
        for name in ("a", "bbb", "c", "ddddd"):
            taken.append(name)
            yield {"group": name, "state": "x"}

    lines = table({"group": "G", "state": "S"}, rows())
    assert [next(lines), next(lines)] == ["G    S", "a    x"]
    assert taken == ["a", "bbb"]
    assert [*lines] == ["bbb  x", "c    x", "ddddd  x"]


def test_colours_do_not_change_the_widths() -> None:
    heading, row = table(COLUMNS, [{"group": "billing", "lag": 7, "state": "Stable"}], in_colours=True)
    assert heading == "\x1b[1mGROUP\x1b[0m    \x1b[1mLAG\x1b[0m  \x1b[1mSTATE\x1b[0m"
    assert row == "billing  \x1b[33m7\x1b[0m    \x1b[32mStable\x1b[0m"


def test_colours_are_for_terminals_whose_user_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert has_colours(Terminal())
    assert not has_colours(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colours(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(Terminal())


def test_a_name_cannot_write_to_the_terminal() -> None:
    (_, row) = table(
        {"group": "GROUP", "map": "PARTITIONS"}, [{"group": "a\x1b[2J\n", "map": {"t": [0, 2], "u": [1]}}]
    )
    assert row == "a\\x1b[2J\\n  t:0,2;u:1"
