"""Progress of commands: a bar on a terminal, and nothing elsewhere; the output is the same."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import DATA, REPOSITORY

LOGS = DATA / "logs" / "compact-before" / "__consumer_offsets-0"
CHECK = [sys.executable, "-m", "kafka_offsets.cli", "check", str(LOGS)]


def on_terminal(command: list[str], **variables: str) -> tuple[str, str]:
    """Run a command whose standard error is a terminal; return its output, and what the terminal received."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", **variables}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=theirs, cwd=REPOSITORY, env=environment
        ) as process:
            os.close(theirs)
            assert process.stdout is not None
            printed = process.stdout.read().decode()
        assert process.returncode == 0
        received = b""
        try:
            while data := terminal.read(1 << 16):
                received += data
        except OSError:  # EIO: the other end is closed
            pass
    return printed, received.decode()


def piped(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=REPOSITORY, check=True)
    assert done.stderr == ""
    return done.stdout


def test_a_terminal_shows_how_far_the_command_is() -> None:
    printed, received = on_terminal(CHECK)
    assert printed == piped(CHECK)
    assert "checking" in received and "100%" in received and "kB" in received


def test_without_rich_there_is_no_bar() -> None:
    hidden = "import sys; sys.modules['rich'] = None; from kafka_offsets import cli; sys.exit(cli.main(sys.argv[1:]))"
    printed, received = on_terminal([sys.executable, "-c", hidden, *CHECK[3:]])
    assert (printed, received) == (piped(CHECK), "")


def test_groups_are_counted(tmp_path: Path) -> None:
    program = """
from kafka_offsets.commands.progress import progress
with progress("committing", 3, lambda: 2, unit="groups"):
    print("done")
"""
    printed, received = on_terminal([sys.executable, "-c", program])
    assert printed == "done\n"
    assert "committing" in received and "2/3" in received


@pytest.mark.parametrize("command", ["serve", "groups", "consume"])
def test_rich_is_not_imported_by_commands_without_a_bar(command: str) -> None:
    """The modules of a command are imported when its help is printed."""
    program = f"""
import sys
from kafka_offsets import cli
try:
    cli.main(["{command}", "--help"])
except SystemExit:
    print(*sys.modules)
"""
    assert "rich" not in piped([sys.executable, "-c", program]).split()
