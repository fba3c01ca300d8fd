"""Reading: the records in a pipe, a file or a terminal, as they arrive."""

from __future__ import annotations

import io
import os
import select

_READ_BYTES = 64 << 10


class RecordReader:
    """Reads what stands between delimiters; the last delimiter may be missing.

    lines  a buffered stream from which nothing has been read
    """

    def __init__(self, lines: io.BufferedReader, delimiter: bytes) -> None:
        self._lines, self._delimiter = lines, delimiter
        self._rest = b""
        self._has_ended = False
        self._descriptor = _descriptor(lines)

    def read(self, timeout_s: float | None) -> list[bytes] | None:
        """Return the records that one read completes; None at the end.

        timeout_s  return none of them if nothing arrives in this time; None waits. On Windows it always waits
        """
        if self._has_ended:
            return None
        if timeout_s is not None and self._descriptor is not None:
            readable, _, _ = select.select([self._descriptor], [], [], timeout_s)
            if not readable:
                return []
        data = self._lines.read1(_READ_BYTES)
        *whole, self._rest = (self._rest + data).split(self._delimiter)
        if data:
            return whole
        self._has_ended = True
        return [self._rest] if self._rest else None


def _descriptor(lines: io.BufferedReader) -> int | None:
    """Return what `select` waits for; None for what is not a file, and on Windows, where it waits for sockets only."""
    try:
        return None if os.name == "nt" else lines.fileno()
    except io.UnsupportedOperation:
        return None
