"""A system without fcntl, as Windows: brokers work, in memory and with a data directory.

The modules and functions are hidden in a process of its own, before the package is imported.
"""

import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.storage.crash import killed_server

AS_WINDOWS = "tests.storage.crash.as_windows"
HIDDEN = f"import sys, {AS_WINDOWS}\n"


def run(program: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", HIDDEN + program, *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)


def test_a_broker_in_memory_works() -> None:
    done = run("""
from kafka_offsets.testing import Broker
with Broker() as broker:
    broker.produce("orders", ["a"])
    broker.commit("g", {("orders", 0): 1})
    print(broker.lag("g"), [record.value for record in broker.consume_all("orders")])
""")
    assert (done.stdout, done.stderr) == ("{('orders', 0): 0} [b'a']\n", "")


@pytest.mark.slow
def test_a_killed_server_finds_what_it_acknowledged(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    done = run(
        "from pathlib import Path; from tests.storage.crash import killed_server\n"
        f"killed_server.kill_and_start_again([sys.executable, '-m', '{AS_WINDOWS}'], Path(sys.argv[1]))",
        data,
    )
    assert done.returncode == 0, done.stderr
    with redirect_stdout(StringIO()) as said:
        assert killed_server.main([data]) == 0, said.getvalue()  # in this system


@pytest.mark.slow
def test_files_are_closed_before_they_are_changed(tmp_path: Path) -> None:
    done = run(
        "from pathlib import Path; from tests.storage.crash import killed_server\n"
        "killed_server.change_files(Path(sys.argv[1]))",
        str(tmp_path / "data"),
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--brokers", "2"], ["--zookeeper", "127.0.0.1:1"]])
def test_a_cluster_of_processes_is_refused(words: list[str]) -> None:
    done = run(
        "from kafka_offsets import cli; sys.exit(cli.main(sys.argv[1:]))", "serve", "--port", "0", *words
    )
    said = "--brokers and --zookeeper need Linux or macOS; on this system `serve` is one broker"
    assert (done.returncode, done.stderr) == (2, f"kafka-offsets: {said}\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "words", "said"),
    [
        ("kafka_offsets.broker.network.server_process", [], "listening on 127.0.0.1:"),
        ("kafka_offsets.http.server", ["--http", "0"], "HTTP on http://127.0.0.1:"),
    ],
)
def test_serve_ends_at_a_signal(module: str, words: list[str], said: str) -> None:
    done = run(
        """
import importlib, signal
from kafka_offsets import cli
serving = importlib.import_module(sys.argv[1])
ready = serving.collect_rarely
serving.collect_rarely = lambda: (ready(), signal.raise_signal(signal.SIGTERM))
sys.exit(cli.main(["serve", "--port", "0", *sys.argv[2:]]))
""",
        *(module, *words),
    )
    assert (done.returncode, done.stderr[: len(said)]) == (0, said)
