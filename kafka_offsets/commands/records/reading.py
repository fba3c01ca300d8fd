"""Reading: the records in a pipe, a file or a terminal, as they arrive."""

from __future__ import annotations

import io
import os
import select

from kafka_offsets.errors import ConfigError
from kafka_offsets.texts import Recoder, TextError

_READ_BYTES = 64 << 10


class RecordReader:
    """Reads what stands between delimiters; the last delimiter may be missing.

    lines      a buffered stream from which nothing has been read
    delimiter  None: the stream is text, whose lines end with LF or CR LF; a byte-order mark is no part of it, and
               UTF-16 becomes UTF-8
    name       of the stream, for errors
    """

    def __init__(self, lines: io.BufferedReader, delimiter: bytes | None, name: str = "") -> None:
        self._lines, self._delimiter = lines, delimiter or b"\n"
        self._recode = Recoder(name) if delimiter is None else None
        self._rest = b""
        self._has_ended = False
        self._descriptor = _descriptor(lines)

    def read(self, timeout_s: float | None) -> list[bytes] | None:
        """Return the records that one read completes; None at the end. Raises ConfigError for text that is none.

        timeout_s  return none of them if nothing arrives in this time; None waits. On Windows it always waits
        """
        if self._has_ended:
            return None
        if timeout_s is not None and self._descriptor is not None:
            readable, _, _ = select.select([self._descriptor], [], [], timeout_s)
            if not readable:
                return []
        data = self._lines.read1(_READ_BYTES)
        self._has_ended = not data
        *lines, self._rest = (self._rest + self._recoded(data)).split(self._delimiter)
        if self._has_ended and self._rest:
            lines.append(self._rest)
        if self._recode is not None:
            lines = [line.removesuffix(b"\r") for line in lines]
        return None if self._has_ended and not lines else lines

    def _recoded(self, data: bytes) -> bytes:
        try:
            return data if self._recode is None else self._recode(data)
        except TextError as error:
            raise ConfigError(str(error)) from error


def _descriptor(lines: io.BufferedReader) -> int | None:
    """Return what `select` waits for; None for what is not a file, and on Windows, where it waits for sockets only."""
    try:
        return None if os.name == "nt" else lines.fileno()
    except io.UnsupportedOperation:
        return None
