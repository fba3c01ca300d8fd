"""Log writer: a separate thread writes the process log to standard error, so that the broker never waits for it.

When standard error is a pipe that is not read, lines wait in a buffer of limited size; further lines are dropped and
counted. Repeated lines are limited: a client that is refused a thousand times a second must not fill a disk.
"""

import json
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kafka_offsets.terminal import printable

_MOST_QUEUED_BYTES = 1 << 20
"""The size of the buffer."""

_WINDOW_SECONDS = 10.0
_LINES_OF_ONE, _LINES_OF_ALL = 10, 100
"""Limit of a message in a window: for one client, file or group, and for all of them together."""

_CLOSING_SECONDS = 1.0
"""The time that the process waits at its end for the remaining lines to be written."""


class LineLimit:
    """Decides which lines are written, and counts the others.

    A message is identified by its format (`%s: connection closed: %s`), its subject by the first argument; for a
    client that is the address without the port.
    """

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], int] = {}
        self._of_message: dict[str, int] = {}
        self._left_out: dict[tuple[str, str], tuple[int, logging.LogRecord]] = {}

    @property
    def has_left_out(self) -> bool:
        """Whether a line was suppressed in this window."""
        return bool(self._left_out)

    def admits(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written; suppressed lines are counted."""
        message = str(record.msg)
        first = record.args[0] if isinstance(record.args, tuple) and record.args else ""
        key = message, first.rpartition(":")[0] or first if isinstance(first, str) else str(first)
        of_one, of_all = self._written.get(key, 0), self._of_message.get(message, 0)
        if of_one < _LINES_OF_ONE and of_all < _LINES_OF_ALL:
            self._written[key] = of_one + 1
            self._of_message[message] = of_all + 1
            return True
        if key not in self._written:  # too many subjects of this message
            key = message, ""
        count, _ = self._left_out.get(key, (0, record))
        self._left_out[key] = count + 1, record
        return False

    def end_window(self) -> list[logging.LogRecord]:
        """Begin the next window; return the last record of each message that was suppressed in the last window.

        The attribute `such_lines` of a record says how many were suppressed.
        """
        records = []
        for count, record in self._left_out.values():
            record.such_lines = count
            records.append(record)
        for counts in (self._written, self._of_message, self._left_out):
            counts.clear()
        return records


class TextLines(logging.Formatter):
    """A line of text for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the number of suppressed lines that it replaces."""
        count = getattr(record, "such_lines", 0)
        return super().format(record) + (f" ({count} such lines in {_WINDOW_SECONDS:g} s)" if count else "")


class JsonFormatter(logging.Formatter):
    """A JSON object in a line for each record.

    It has `time` (ISO 8601, UTC), `level`, `logger` and `message`; if they apply, `broker` (an id in a cluster),
    `exception` (a traceback), and `such_lines` (how many suppressed lines this one replaces).
    """

    def __init__(self, broker_id: int | None = None) -> None:
        super().__init__()
        self._broker_id = broker_id

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        seconds, ms = divmod(int(record.created * 1000), 1000)
        fields: dict[str, object] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._broker_id is not None:
            fields["broker"] = self._broker_id
        if record.exc_info:
            fields["exception"] = record.exc_text or self.formatException(record.exc_info)
        if count := getattr(record, "such_lines", 0):
            fields["such_lines"] = count
        return json.dumps(fields, ensure_ascii=False)


class LogWriter(logging.Handler):
    """Writes lines to a file descriptor in a separate thread.

    monotonic        the time in seconds
    closing_seconds  how long `close` waits for the rest to be written
    """

    def __init__(
        self,
        descriptor: int,
        monotonic: Callable[[], float] = time.monotonic,
        closing_seconds: float = _CLOSING_SECONDS,
    ) -> None:
        super().__init__()
        self._closing_seconds = closing_seconds
        self._descriptor = descriptor
        self._monotonic = monotonic
        self._limit = LineLimit()
        self._window_end = monotonic() + _WINDOW_SECONDS
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._queued_bytes = 0
        self._dropped = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="kafka-offsets-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a line to the thread, or count it as suppressed; never one that the user asked for: `is_unlimited`."""
        line = self.format(record)
        with self._changed:
            self._end_window_when_due()
            if getattr(record, "is_unlimited", False) or self._limit.admits(record):
                self._put(line)
            self._changed.notify()

    def close(self) -> None:
        """Write the remaining lines, unless they are not read."""
        with self._changed:
            for record in self._limit.end_window():
                self._put(self.format(record))
            self._closed = True
            self._changed.notify()
        self._thread.join(self._closing_seconds)
        super().close()

    def _own(self, text: str) -> str:
        """Return a line of the log writer itself."""
        return self.format(logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None))

    def _put(self, line: str) -> None:
        data = f"{line}\n".encode(errors="backslashreplace")
        if self._queued_bytes + len(data) > _MOST_QUEUED_BYTES:
            self._dropped += 1
        else:
            self._lines.append(data)
            self._queued_bytes += len(data)

    def _end_window_when_due(self) -> None:
        now = self._monotonic()
        if now >= self._window_end:
            self._window_end = now + _WINDOW_SECONDS
            for record in self._limit.end_window():
                self._put(self.format(record))

    def _run(self) -> None:
        while (data := self._next()) is not None:
            try:
                self._write(data)
            except OSError:  # it was closed: the error cannot be reported
                return

    def _next(self) -> bytes | None:
        """Wait for lines; None at the end. The number of dropped lines follows the written ones."""
        with self._changed:
            while not (self._lines or self._closed):
                left = self._window_end - self._monotonic() if self._limit.has_left_out else None
                if left is not None and left <= 0:
                    self._end_window_when_due()
                else:
                    self._changed.wait(left)
            if not self._lines:
                return None
            data = self._lines.popleft()
            self._queued_bytes -= len(data)
            if not self._lines and self._dropped:
                self._dropped, dropped = 0, self._dropped
                self._put(self._own(f"{dropped} lines of the log were dropped: standard error was not read"))
            return data

    def _write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # the parent process made it non-blocking
                select.select([], [self._descriptor], [])


@contextmanager
def logging_to_standard_error(log_format: str = "text", broker_id: int | None = None) -> Iterator[None]:
    """Write all log lines from INFO on to standard error.

    log_format  `text` or `json`
    broker_id   of a broker in a cluster: each line names it
    """
    root = logging.root
    if root.handlers or sys.stderr is None:  # the embedding program logs, or nothing can
        yield
        return
    writer = LogWriter(2)
    prefix = "" if broker_id is None else f"broker {broker_id}: "
    writer.setFormatter(
        JsonFormatter(broker_id)
        if log_format == "json"
        else TextLines(f"%(asctime)s %(levelname)s {prefix}%(message)s")
    )
    root.addHandler(writer)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(writer)
        writer.close()


def announce(text: str) -> None:
    """Write a line that others wait for, such as the address, to standard error at once, in the format of the log."""
    for handler in logging.root.handlers:
        if isinstance(handler.formatter, JsonFormatter):
            text = handler.format(logging.LogRecord(__name__, logging.INFO, "", 0, text, None, None))
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def announce_listeners(bound: Mapping[str, str], for_clients: Mapping[str, str]) -> None:
    """Write the addresses of listeners by their names; that of the first is the last line, for which others wait.

    bound        where each listener listens
    for_clients  the address that its clients receive, which has a line of its own if it is another one
    """
    for name, address in for_clients.items():
        if address != bound[name]:
            announce(f"clients of the listener {name} receive {address}")
    (_, first), *others = bound.items()
    for name, address in others:
        announce(f"listener {name} on {address}")
    announce(f"listening on {first}")
