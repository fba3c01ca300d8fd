"""Processes that are forked from one that has imported everything: a start takes a tenth of the time of a command.

`start` takes a command line as subprocess.Popen does, and what it returns has the same methods. What does not begin
with `python -m` is started by Popen.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache
from typing import IO

from tests.conftest import REPOSITORY
from tests.interop.fork_server import EXIT_CODE

INTERPRETER = [sys.executable, "-m"]
STREAMS = ("rb", "wb", "wb")
"""How a child opens its standard input, output and error."""


class ForkedProcess:
    """A child of the fork server, with the attributes of subprocess.Popen in text mode."""

    def __init__(
        self, command: Sequence[str], stdin: int | None, stdout: int | None, stderr: int | None
    ) -> None:
        self.args = [*INTERPRETER, *command]
        self.returncode: int | None = None
        with ExitStack() as given:
            ends = [_stream(*each, given) for each in zip((stdin, stdout, stderr), range(3), strict=True)]
            self.stdin, self.stdout, self.stderr = (ours for _, ours in ends)
            ended, report = os.pipe()
            given.callback(os.close, report)
            self._ended = open(ended, "rb", buffering=0)  # noqa: SIM115 - until it has ended
            self.pid = _server().start(command, [theirs for theirs, _ in ends] + [report])

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._ended, select.POLLIN)
            if not ended.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            report = self._ended.read()
            assert report, "the fork server has ended"
            (self.returncode,) = EXIT_CODE.unpack(report)
            self._ended.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)


Process = subprocess.Popen[str] | ForkedProcess


def start(
    command: Sequence[str], stdin: int | None = None, stdout: int | None = None, stderr: int | None = None
) -> Process:
    """Start a command in the repository; the streams are as for Popen, pipes are of text."""
    if [*command[:2]] == INTERPRETER:
        return ForkedProcess(command[2:], stdin, stdout, stderr)
    return start_program(command, stdin, stdout, stderr)


def start_program(
    command: Sequence[str], stdin: int | None = None, stdout: int | None = None, stderr: int | None = None
) -> Process:
    """Start a command as `start` does, and never in a fork."""
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, text=True, cwd=REPOSITORY)


class _Server:
    """The fork server of this process; it ends with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*INTERPRETER, "tests.interop.fork_server", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd=REPOSITORY,
            )
        atexit.register(self._end)

    def start(self, command: Sequence[str], descriptors: list[int]) -> int:
        """Start `python -m COMMAND` with these standard streams; return its pid."""
        order = json.dumps({"command": [*command], "environment": dict(os.environ)}).encode()
        with self._lock:
            socket.send_fds(self._socket, [order], descriptors)
            answer = self._socket.recv(EXIT_CODE.size)
        assert answer, "the fork server has ended"
        (pid,) = EXIT_CODE.unpack(answer)
        return int(pid)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


_FIRST = threading.Lock()


def _server() -> _Server:
    with _FIRST:
        return _the_server()


@cache
def _the_server() -> _Server:
    return _Server()


def _stream(asked: int | None, number: int, given: ExitStack) -> tuple[int, IO[str] | None]:
    """Return the child's end of a standard stream, closed by `given`, and ours if it is a pipe."""
    if asked is None:
        return number, None
    if asked == subprocess.DEVNULL:
        return given.enter_context(open(os.devnull, STREAMS[number])).fileno(), None
    assert asked == subprocess.PIPE
    reading, writing = os.pipe()
    theirs, ours, mode = (reading, writing, "w") if number == 0 else (writing, reading, "r")
    given.callback(os.close, theirs)
    return theirs, open(ours, mode, encoding="utf-8")
