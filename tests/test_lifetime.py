"""No server outlives its tests: `--with-parent`, `exec`, POST /shutdown, and a ready check that knows its instance."""

import errno
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_offsets import cli
from kafka_offsets.commands.lifetime import execute, parent
from kafka_offsets.errors import ConfigError
from tests.conftest import REPOSITORY
from tests.http.conftest import Client
from tests.test_serve_options import serve

PROGRAM = [sys.executable, "-m", "kafka_offsets.cli"]
SHOW = "import os; print(os.environ['KAFKA_BOOTSTRAP_SERVERS'], os.environ.get('KAFKA_OFFSETS_HTTP'))"

pytestmark = pytest.mark.timeout(120)


def execute_with(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*PROGRAM, "exec", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )


def is_refused(address: str) -> bool:
    host, _, port = address.partition(":")
    return cli.main(["serve", "--ready", "--host", host, "--port", port]) == 1


# -- serve --with-parent


@pytest.mark.parametrize("options", [[], ["--http", "0"], ["--brokers", "2"]], ids=str)
def test_a_server_ends_when_its_parent_is_killed(options: Sequence[str]) -> None:
    with (
        subprocess.Popen(["sleep", "600"]) as runner,
        serve("--port", "0", "--with-parent", str(runner.pid), *options) as served,
    ):
        runner.kill()
        assert served.process.wait(60) == 0


def test_a_server_ends_with_its_standard_input() -> None:
    reading, writing = os.pipe()
    with subprocess.Popen(
        [*PROGRAM, "serve", "--port", "0", "--with-parent", "stdin"],
        stdin=reading,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
    ) as process:
        os.close(reading)
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"listening on ")
        os.write(writing, b"what somebody types")
        os.close(writing)
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_a_parent_that_is_gone_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert cli.main(["serve", "--port", "0", "--with-parent", str(gone.pid)]) == cli.CANNOT
    assert capsys.readouterr().err == f"kafka-offsets: --with-parent {gone.pid}: there is no such process\n"
    with pytest.raises(SystemExit):
        cli.main(["serve", "--with-parent", "me"])
    assert "me is neither the id of a process nor stdin" in capsys.readouterr().err


def test_where_the_system_reports_no_end_of_a_process_it_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    with subprocess.Popen(["sleep", "600"]) as runner:
        wait = parent._end_of(runner.pid)
        runner.kill()
    wait()


@pytest.mark.parametrize("refusal", [errno.ENOSYS, errno.EPERM], ids=errno.errorcode.get)
def test_where_the_system_refuses_to_report_the_end_of_a_process_it_is_looked_for(
    refusal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel before 5.3, or a sandbox: the server ended with a traceback."""

    def refuse(process_id: int) -> int:
        raise OSError(refusal, os.strerror(refusal))

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    with subprocess.Popen(["sleep", "600"]) as runner:
        try:
            wait = parent._end_of(runner.pid)
        finally:
            runner.kill()
    wait()
    with pytest.raises(ConfigError, match="there is no such process"):
        parent._end_of(runner.pid)


def test_a_parent_of_another_user_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[type[OSError]] = [PermissionError, PermissionError, ProcessLookupError]

    def kill(process_id: int, number: int) -> None:
        raise answers.pop(0)

    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.setattr(os, "kill", kill)
    parent._end_of(1)()
    assert not answers


# -- exec


@pytest.mark.parametrize(
    "more", [[], ["--http", "0"], ["--http", "0", "--log-format", "json"], ["--brokers", "2"]]
)
def test_a_command_has_a_broker_while_it_runs(more: Sequence[str]) -> None:
    ready = f"{SHOW}; import sys; a = os.environ['KAFKA_BOOTSTRAP_SERVERS'].split(',')[0].split(':'); "
    ready += "from kafka_offsets import cli; from kafka_offsets.commands import serve_one; "
    ready += "serve_one._READY_SECONDS = 60; sys.exit(40 + cli.main(['serve', '--ready', '--port', a[1]]))"
    with execute_with(*more, "--", sys.executable, "-c", ready) as process:
        output, errors = process.communicate()
    assert process.returncode == 40, errors
    address, http = output.split()
    assert f"listening on {address}" in errors
    assert is_refused(address.partition(",")[0])
    assert (http == "None") == ("--http" not in more)


@pytest.mark.parametrize("is_json", [False, True])
def test_lines_that_are_not_of_the_log_are_passed_on(
    capfd: pytest.CaptureFixture[str], is_json: bool
) -> None:
    # A warning of Python between lines of JSON ended `exec` with a JSONDecodeError.
    others = [
        b"x.py:1: DeprecationWarning: old\n",
        b"  import x\n",
        b"\n",
        b"7\n",
        b"{}\n",
        b"\xff\n",
        b"[" * 9999,
    ]
    ready = "HTTP on http://127.0.0.1:2/", "listening on 127.0.0.1:1"
    log = [(json.dumps({"message": each}) if is_json else each).encode() + b"\n" for each in ready]
    lines = b"".join([*others, b"\n", *log])
    found = execute._variables(io.BytesIO(lines), is_json=is_json)
    assert found == {
        "KAFKA_OFFSETS_HTTP": "http://127.0.0.1:2",
        "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "SPRING_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
    }
    assert capfd.readouterr().err == lines.decode(errors="replace")


def test_the_token_is_passed_on() -> None:
    with execute_with("--http", "0", "--http-token", "abc", "--", "env") as process:
        assert "\nKAFKA_OFFSETS_HTTP_TOKEN=abc\n" in process.communicate()[0]


def test_signals_are_for_the_command() -> None:
    trap = "trap 'echo asked; exit 9' TERM; echo $KAFKA_BOOTSTRAP_SERVERS; while :; do sleep 0.05; done"
    with execute_with("--", "sh", "-c", trap) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 9
        assert process.stdout.read() == "asked\n"
    assert is_refused(address)


@pytest.mark.timeout(60)
def test_a_signal_that_interrupts_no_system_call_reaches_the_command(tmp_path: Path) -> None:
    """As one that comes just before the wait for the command, it is for another thread, here by intention."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)

    def terminate() -> None:
        ready.read_text(encoding="utf-8")
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    thread = threading.Thread(target=terminate, daemon=True)
    thread.start()
    command = f"trap 'exit 9' TERM; echo > {ready}; while :; do sleep 0.05; done"
    assert execute._run(["sh", "-c", command], os.environ) == 9
    thread.join()


def test_a_command_that_a_signal_ends_has_the_code_of_a_shell() -> None:
    with execute_with("--", "sh", "-c", "kill -9 $$") as process:
        process.communicate()
    assert process.returncode == 128 + signal.SIGKILL


def test_when_exec_is_killed_the_broker_ends_too() -> None:
    """The command lives on, as an orphan: nothing can help that."""
    reading, writing = os.pipe()
    with subprocess.Popen(
        [*PROGRAM, "exec", "--", sys.executable, "-c", f"{SHOW}; import sys; sys.stdout.flush(); input()"],
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=REPOSITORY,
    ) as process:
        os.close(reading)
        assert process.stdout is not None
        host, _, port = process.stdout.readline().split()[0].partition(":")
        with socket.create_connection((host, int(port)), 60) as connection:
            process.kill()
            assert connection.recv(1) == b""
        os.close(writing)


def test_what_cannot_be_run_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["exec", "--", "no-such-command"]) == cli.CANNOT
    assert cli.main(["exec", "--topic", "orders"]) == cli.CANNOT
    assert cli.main(["exec", "--ready", "--", "true"]) == cli.CANNOT
    assert cli.main(["exec", "--set", "num.partitions=0", "--", "true"]) == cli.CANNOT
    first, second, third, fourth = capfd.readouterr().err.splitlines()
    assert first == "kafka-offsets: exec: there is no command 'no-such-command'"
    assert second.startswith("kafka-offsets: exec: the command is missing: ")
    assert third == "kafka-offsets: exec: --ready and --with-parent are for `serve`"
    assert "num.partitions" in fourth


def test_a_server_that_does_not_start_is_an_error(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert cli.main(["exec", "--data-dir", str(tmp_path / "file"), "--", "true"]) == cli.CANNOT
    assert capfd.readouterr().err.endswith(
        "kafka-offsets: exec: the server did not start; its reason is above\n"
    )


def test_ctrl_c_of_another_process_reaches_the_command() -> None:
    """In the foreground of a terminal the command has the signal already; here there is no terminal."""
    assert not execute._is_in_foreground()
    trap = "trap 'exit 11' INT; echo ready; while :; do sleep 0.05; done"
    with execute_with("--", "sh", "-c", trap) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 11


# -- over HTTP


@pytest.mark.usefixtures("patient_checks")
def test_a_ready_check_knows_its_instance(capfd: pytest.CaptureFixture[str]) -> None:
    with serve("--port", "0", "--http", "0", "--instance", "run 1/2") as served:
        client = Client(served.before[0].removeprefix("HTTP on ").rstrip("/\n"))
        ports = ["--port", served.address.partition(":")[2], "--http", client.address]
        assert client.get("/readyz").status == client.get("/readyz?instance=run%201/2").status == 200
        refused = client.get("/readyz?instance=other")
        assert (refused.status, refused.value["detail"]) == (
            503,
            "this server was started with --instance run 1/2: it is not 'other'",
        )
        assert cli.main(["serve", "--ready", *ports, "--instance", "run 1/2"]) == 0
        assert cli.main(["serve", "--ready", *ports]) == 0
        assert cli.main(["serve", "--ready", *ports, "--instance", "other"]) == 1
        assert capfd.readouterr().err == f"not ready: {refused.value['detail']}\n"
        # The port of the broker need not be known.
        assert cli.main(["serve", "--ready", "--http", client.address, "--instance", "run 1/2"]) == 0
        assert cli.main(["serve", "--ready", "--http", client.address]) == 0
        assert client.post("/shutdown", instance="other").status == 409
        assert client.post("/shutdown", instance="run 1/2").status == 204
        assert served.process.wait(60) == 0
    assert cli.main(["serve", "--ready", *ports, "--instance", "run 1/2"]) == 1
    assert f"not ready: HTTP on {client.address}: " in capfd.readouterr().err


def test_a_server_without_a_name_is_no_instance() -> None:
    with serve("--port", "0", "--http", "0") as served:
        client = Client(served.before[0].removeprefix("HTTP on ").rstrip("/\n"))
        assert client.get("/readyz?instance=a").value["detail"] == (
            "this server was started with no --instance: it is not 'a'"
        )
        assert client.request("POST", "/shutdown").status == 204
        assert served.process.wait(60) == 0
