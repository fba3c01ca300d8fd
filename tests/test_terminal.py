"""What a peer has chosen, such as the name of a group or the host of a broker, does not control the terminal."""

import ast
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafka_offsets
from kafka_offsets import cli
from kafka_offsets.broker.network.log_writer import announce
from kafka_offsets.commands.output.tables import table
from kafka_offsets.logs import new_logger
from kafka_offsets.terminal import note
from kafka_offsets.testing import Broker

EVIL = "bill\x1b]0;owned\x07\x9b31m\u202e\r\ning"
SHOWN = r"bill\x1b]0;owned\x07\x9b31m\u202e\r\ning"
PACKAGE = Path(kafka_offsets.__file__).parent
PLAIN = {
    "kafka_offsets/cli.py": 1,  # the version
    "kafka_offsets/commands/compact.py": 1,  # advice with numbers
    "kafka_offsets/commands/state_tables.py": 2,  # a name of ours, and an empty line
    "kafka_offsets/commands/output/tables.py": 1,  # cells are escaped one by one, as a line may have colours
    "kafka_offsets/commands/inspect.py": 2,  # the heading, and the totals
    "kafka_offsets/commands/completion.py": 2,  # scripts for shells
    "kafka_offsets/commands/groups/arguments.py": 1,  # escaped in the line before
    "kafka_offsets/commands/groups/lagging.py": 1,  # a table, which clears the screen
    "kafka_offsets/commands/acls/managing.py": 1,  # a question
}
"""Calls that write something else than `printable` or JSON, by module."""


def written(source: str) -> Iterator[ast.Call]:
    """Yield the calls that write to a standard stream, except for those of escaped text and JSON."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func)
        if name == "print" or name.endswith(("stdout.write", "stderr.write")):
            text = " ".join(ast.unparse(each) for each in call.args)
            if not any(safe in text for safe in ("printable(", "_shown(", "json.dumps(", "json_error(")):
                yield call


def test_each_module_escapes_what_it_writes() -> None:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        count = len(list(written(path.read_text(encoding="utf-8"))))
        if count:
            found[str(path.relative_to(PACKAGE.parent))] = count
    assert found == PLAIN


def test_notes_and_lines_of_the_log_are_escaped(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    note(f"group {EVIL} has members")
    announce(f"not ready: {EVIL}")
    assert capsys.readouterr().err == f"kafka-offsets: group {SHOWN} has members\nnot ready: {SHOWN}\n"
    with caplog.at_level(logging.WARNING):
        new_logger("kafka_offsets.test").warning(f"the controller at {EVIL} is not reached")
    assert caplog.messages == [f"the controller at {SHOWN} is not reached"]


def test_cells_are_escaped() -> None:
    _, *lines = table({"a": "A", "b": "B"}, [{"a": EVIL, "b": {EVIL: [1]}}])
    assert lines == [f"{SHOWN}  {SHOWN}:1"]


@pytest.mark.parametrize(
    "words",
    [
        ["groups", "describe", EVIL],
        ["offsets", "delete", EVIL, "--execute"],
        ["offsets", "export", EVIL],
        [EVIL],
        ["groups", "list", "--state", EVIL],
        ["lag", "--bootstrap-server", f"{EVIL}:1"],
        ["check", f"/{EVIL}"],
        ["inspect", f"/{EVIL}"],
        ["inspect", "--response", EVIL, "0", "-"],
        ["serve", "--set", f"{EVIL}=1"],
        ["serve", "--topic", f"{EVIL}:x"],
    ],
    ids=lambda words: " ".join(words).encode("unicode_escape").decode(),
)
def test_no_command_writes_a_control_character(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker() as broker:
        if words[0] in ("groups", "offsets"):
            words = [*words, "--bootstrap-server", broker.bootstrap_servers]
        monkeypatch.setattr(sys, "stdin", None)
        try:
            code = cli.main(words)
        except SystemExit as end:
            code = end.code
    out, err = capsys.readouterr()
    assert code
    assert all(char == "\n" or char.isprintable() for char in out + err), json.dumps(out + err)
