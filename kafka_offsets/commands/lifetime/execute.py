"""`kafka-offsets exec -- COMMAND`: a server for the time of one command, whose exit code is that of the command."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from kafka_offsets.commands.lifetime.parent import STDIN
from kafka_offsets.errors import ConfigError
from kafka_offsets.terminal import note

BOOTSTRAP_VARIABLES = ("KAFKA_BOOTSTRAP_SERVERS", "SPRING_KAFKA_BOOTSTRAP_SERVERS")
HTTP_VARIABLE = "KAFKA_OFFSETS_HTTP"
TOKEN_VARIABLE = "KAFKA_OFFSETS_HTTP_TOKEN"  # noqa: S105 - its name

_LISTENING, _HTTP = "listening on ", "HTTP on "
_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_OF_THE_TERMINAL = ("SIGINT", "SIGQUIT", "SIGHUP")
_ENDED = b"\0"
"""In place of the number of a signal."""


def run(options: Namespace, words: Sequence[str], command: Sequence[str]) -> int:
    """Start a server, run a command, stop the server; return the exit code of the command.

    options  of `serve`, and `words`, which they were read from
    Raises ConfigError if there is no such command, or the server does not start.
    """
    if not command:
        raise ConfigError("exec: the command is missing: kafka-offsets exec [options of serve] -- COMMAND")
    program = shutil.which(command[0])
    if program is None:
        raise ConfigError(f"exec: there is no command {command[0]!r}")
    with _serving(words, is_json=options.log_format == "json") as variables:
        if options.http_token is not None:
            variables[TOKEN_VARIABLE] = options.http_token
        return _run([program, *command[1:]], os.environ | variables)


@contextmanager
def _serving(words: Sequence[str], *, is_json: bool) -> Iterator[dict[str, str]]:
    """Run `serve` with these options; yield the variables for its clients. Raises ConfigError if it does not start.

    It ends with its standard input, so also when this process is killed, and not at the Ctrl-C of the terminal, which
    the command may answer with more requests.
    """
    server = subprocess.Popen(
        [sys.executable, "-m", "kafka_offsets.cli", "serve", *words, "--with-parent", STDIN],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stdin is not None and server.stderr is not None
    rest = threading.Thread(target=_copy, args=[server.stderr])
    try:
        variables = _variables(server.stderr, is_json=is_json)
        rest.start()
        if variables is None:
            raise ConfigError("exec: the server did not start; its reason is above")
        yield variables
        if server.poll() is not None:
            note(f"exec: the server ended before the command, with code {server.returncode}")
    finally:
        server.stdin.close()
        server.wait()
        if rest.ident is not None:
            rest.join()
        server.stderr.close()


def _variables(lines: IO[bytes], *, is_json: bool) -> dict[str, str] | None:
    """Read the lines of a server until it is ready, and pass them on; None if they end before."""
    variables: dict[str, str] = {}
    for line in lines:
        _write(line)
        text = _message(line, is_json=is_json)
        if text.startswith(_HTTP):
            variables[HTTP_VARIABLE] = text.removeprefix(_HTTP).rstrip("/")
        if text.startswith(_LISTENING):
            return variables | dict.fromkeys(BOOTSTRAP_VARIABLES, text.removeprefix(_LISTENING))
    return None


def _message(line: bytes, *, is_json: bool) -> str:
    """Return the message of a line of the log; "" for other lines between those of JSON, such as Python's warnings."""
    if not is_json:
        return line.decode(errors="replace").strip()
    try:
        return str(json.loads(line)["message"]).strip()
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def _copy(lines: IO[bytes]) -> None:
    for line in lines:
        _write(line)


def _write(line: bytes) -> None:
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command, pass signals on to it, and return its exit code; of one that a signal ended, as a shell does.

    Signals and the end of the command come through a socket: one that reaches this process just before a system call
    that waits for the command would interrupt nothing, and would be passed on when the next one comes.
    """
    received, sent = socket.socketpair()
    with received, sent, _signals_to(sent):
        process = subprocess.Popen(command, env=dict(environment))

        def wait() -> None:
            process.wait()
            sent.send(_ENDED)

        waiting = threading.Thread(target=wait)
        waiting.start()
        while (event := received.recv(1)) != _ENDED:
            name = signal.Signals(event[0]).name
            if name in _PASSED_ON and (name not in _OF_THE_TERMINAL or not _is_in_foreground()):
                process.send_signal(event[0])
        waiting.join()
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


@contextmanager
def _signals_to(sent: socket.socket) -> Iterator[None]:
    """Write the numbers of the signals that are for the command into a socket, as far as this system has them."""
    numbers = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    sent.setblocking(False)
    wakes_before = signal.set_wakeup_fd(sent.fileno())
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, each in before.items():
            signal.signal(number, each)
        signal.set_wakeup_fd(wakes_before)


def _is_in_foreground() -> bool:
    """Whether a terminal sends its signals to this process and its command alike: the command has them already."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
