"""What is forked cannot be told from the command: streams, environment, exit status and signals."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop import forks
from tests.interop.broker_process import COMMAND, OVERRIDE, BrokerProcess
from tests.interop.waiting import until
from tests.processes.cluster_processes import is_running

pytestmark = [pytest.mark.interop, pytest.mark.skipif(bool(OVERRIDE), reason="another command is not forked")]

STARTS = [forks.start, forks.start_program]
PIPE = subprocess.PIPE


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("start", STARTS)
def test_a_command_that_cannot_be_carried_out_says_so(start: Callable[..., forks.Process]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "70")
        failed = start([*COMMAND, "--port", "no port"], stderr=PIPE)
        helped = start([*COMMAND, "--help"], stdout=PIPE)
    assert failed.stderr is not None and helped.stdout is not None
    with failed.stderr, helped.stdout:
        expected = "kafka-offsets serve: argument --port: no port is not a port number"
        assert failed.stderr.read().startswith(expected)
        text = helped.stdout.read()
        assert text.startswith("usage: kafka-offsets serve [-h]")
        assert max(map(len, text.splitlines())) < 70
    assert (failed.wait(), helped.wait(60)) == (2, 0)
    assert (failed.poll(), failed.returncode) == (2, 2)


@pytest.mark.parametrize("as_users_do", [False, True])
def test_a_broker_can_be_paused_stopped_and_killed(tmp_path: Path, *, as_users_do: bool) -> None:
    broker = BrokerProcess(tmp_path / "data", as_users_do=as_users_do)
    broker.start()
    pid = broker.pid
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T", "it is stopped")
    assert broker.alive
    os.kill(pid, signal.SIGCONT)
    broker.stop()
    assert not is_running(pid) and not broker.alive
    broker.start()
    pid = broker.pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: not broker.alive, "it is killed")
    assert not is_running(pid)


def test_a_fork_has_no_file_of_other_processes(tmp_path: Path) -> None:
    brokers = [BrokerProcess(tmp_path / str(each), as_users_do=each) for each in (False, True)]
    for broker in brokers:
        broker.start()
    forked, command = (sorted(os.listdir(f"/proc/{broker.pid}/fd")) for broker in brokers)
    for broker in brokers:
        broker.stop()
    assert forked == command


def test_a_fork_that_runs_longer_than_one_waits() -> None:
    member = ["tests.interop.members", "kafka-offsets", "127.0.0.1:1", "g", "t", "sync"]
    running = forks.start([*forks.INTERPRETER, *member], stdin=PIPE, stdout=PIPE, stderr=PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(0.01)
    until(lambda: os.getsid(running.pid) == running.pid, "it has a session of its own")
    running.kill()
    assert running.wait() == -signal.SIGKILL
    running.terminate()  # no process is left, and another one may have its number
    for stream in (running.stdin, running.stdout, running.stderr):
        assert stream is not None
        stream.close()
