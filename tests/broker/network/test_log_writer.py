"""The log of `kafka-offsets serve`: it never holds up the broker, and says how many lines it left out."""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

from kafka_offsets.broker.network.log_writer import JsonFormatter, LogWriter, TextLines
from tests.conftest import REPOSITORY


class Pipe:
    """A pipe with a writer on it, whose clock does not move by itself."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self.reading, self._writing = os.pipe()
        self.seconds = 0.0
        self.writer = LogWriter(self._writing, lambda: self.seconds, closing_seconds=60)
        self.writer.setFormatter(formatter)

    def log(self, message: str, *args: object) -> None:
        self.writer.handle(logging.LogRecord("test", logging.WARNING, "", 0, message, args, None))

    def line(self) -> str:
        """Read one line, once it comes."""
        data = b""
        while not data.endswith(b"\n"):
            data += os.read(self.reading, 1)
        return data.decode()[:-1]

    def close(self) -> list[str]:
        """Close the writer and return all lines that were not read."""
        lines: list[str] = []

        def read() -> None:
            with os.fdopen(self.reading) as file:
                lines.extend(file.read().splitlines())

        reader = threading.Thread(target=read)
        reader.start()
        self.writer.close()
        os.close(self._writing)
        reader.join()
        return lines


@pytest.fixture
def pipe() -> Pipe:
    return Pipe(TextLines("%(message)s"))


def test_lines_of_json_say_when_what_and_how_often() -> None:
    pipe = Pipe(JsonFormatter(broker_id=2))
    for _ in range(12):
        pipe.log("%s: full: \u2026 %s", "disk", '"')
    pipe.log("dropped")
    lines = [json.loads(line) for line in pipe.close()]
    assert [line["message"] for line in lines] == ['disk: full: \u2026 "'] * 10 + [
        "dropped",
        'disk: full: \u2026 "',
    ]
    assert [line.get("such_lines") for line in lines] == [None] * 11 + [2]
    first = lines[0]
    assert abs(datetime.fromisoformat(first.pop("time")) - datetime.now(UTC)) < timedelta(hours=1)
    assert first == {"level": "WARNING", "logger": "test", "message": 'disk: full: \u2026 "', "broker": 2}


def test_a_traceback_is_part_of_its_object() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("test", logging.ERROR, "", 0, "failed", None, sys.exc_info())
    found = json.loads(JsonFormatter().format(record))
    assert found["message"] == "failed"
    assert found["exception"].endswith("ValueError: two\nlines")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--brokers", "2"]], ids=["one broker", "two"])
def test_every_line_of_a_broker_that_logs_json_is_an_object(options: list[str]) -> None:
    serve = [
        sys.executable,
        "-m",
        "kafka_offsets.cli",
        "serve",
        "--port",
        "0",
        "--log-format",
        "json",
        *options,
    ]
    process = subprocess.Popen(serve, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    lines: list[dict[str, object]] = []
    try:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(json.loads(line))
            if found := re.search(r"listening on 127\.0\.0\.1:(\d+)", str(lines[-1]["message"])):
                break
        assert found is not None
        with socket.create_connection(("127.0.0.1", int(found[1])), 20) as connection:
            connection.sendall(b"\xff\xff\xff\xff")
            assert connection.recv(1) == b""
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate()
    lines += map(json.loads, log.splitlines())
    (closed,) = (line for line in lines if "connection closed" in str(line["message"]))
    assert closed["logger"] != "root"
    assert closed.get("broker") == (1 if options else None)


@pytest.mark.slow
def test_a_pipe_that_is_not_read_blocks_no_client_and_dropped_lines_are_counted(pipe: Pipe) -> None:
    # 928 lines filled the pipe, and the broker waited for ever in the write of the next one.
    count, text = 20_000, "x" * 120
    for number in range(count):
        pipe.log(f"{number} {text}")
    lines = pipe.close()
    found = re.fullmatch(r"(\d+) lines of the log were dropped: standard error was not read", lines[-1])
    assert found is not None
    dropped = int(found[1])
    assert dropped > 0
    # Which lines are dropped depends on when the thread fills the pipe; the others come whole and in order.
    written = [int(line.removesuffix(f" {text}")) for line in lines[:-1]]
    assert written == sorted(set(written))
    assert len(written) + dropped == count


def test_lines_about_one_client_are_limited_and_counted(pipe: Pipe) -> None:
    for port in range(1000):
        pipe.log("%s: connection closed: %s", f"10.0.0.1:{port}", "bad")
    pipe.log("%s: connection closed: %s", "10.0.0.2:7", "bad")
    pipe.log("%s: another message", "10.0.0.1:7")
    lines = pipe.close()
    assert lines == [
        *(f"10.0.0.1:{port}: connection closed: bad" for port in range(10)),
        "10.0.0.2:7: connection closed: bad",
        "10.0.0.1:7: another message",
        "10.0.0.1:999: connection closed: bad (990 such lines in 10 s)",
    ]


def test_lines_about_many_are_limited_and_counted_together(pipe: Pipe) -> None:
    for number in range(1000):
        pipe.log("%s: no such topic", f"t{number}")
    lines = pipe.close()
    assert lines == [
        *(f"t{number}: no such topic" for number in range(100)),
        "t999: no such topic (900 such lines in 10 s)",
    ]


def test_a_window_that_has_passed_is_summed_up_and_the_next_one_begins(pipe: Pipe) -> None:
    for _ in range(12):
        pipe.log("%s: full", "disk")
    pipe.seconds = 10.0
    pipe.log("%s: full", "disk")
    assert [pipe.line() for _ in range(12)] == ["disk: full"] * 10 + [
        "disk: full (2 such lines in 10 s)",
        "disk: full",
    ]
    assert pipe.close() == []


@pytest.mark.slow
def test_a_client_that_sends_bad_frames_does_not_fill_the_log() -> None:
    # 2,000 of them filled the pipe, which is not read here, and the broker served no more.
    serve = [sys.executable, "-m", "kafka_offsets.cli", "serve", "--port", "0"]
    process = subprocess.Popen(serve, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port = int(process.stderr.readline().rpartition(":")[2])
        for _ in range(2000):
            with socket.create_connection(("127.0.0.1", port), 20) as connection:
                connection.sendall(b"\xff\xff\xff\xff")
                assert connection.recv(1) == b""
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate()
    assert process.returncode == 0
    lines = log.splitlines()
    written = [line for line in lines if "connection closed" in line]
    assert len(written) < 100
    counted = [
        int(found[1]) for line in written if (found := re.search(r"\((\d+) such lines in 10 s\)", line))
    ]
    assert sum(counted) + len(written) - len(counted) == 2000
