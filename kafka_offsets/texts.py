"""Text that any program wrote: bytes as characters, and the place of what is no text. All commands read text here.

    byte-order mark   names UTF-8, UTF-16 or UTF-32, and is no part of the text; some programs write one with each piece
    without one       UTF-8; UTF-16 if every second byte is zero, as of text in ASCII

Lines end with LF, CR LF or CR.
"""

import codecs
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_MARKS = (  # UTF-32 first: its mark begins as that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
LOOKED_AT = 64
"""How many bytes of the beginning tell the encoding."""

_LINE = re.compile(r"[^\r\n]+")
_LINE_END = re.compile(r"\r\n|\r|\n")


class TextError(ValueError):
    """A file that cannot be read, or is no text; the message names the file."""


def encoding_of(beginning: bytes) -> str:
    """Return the encoding of a text by its first bytes."""
    for mark, encoding in _MARKS:
        if beginning.startswith(mark):
            return encoding
    even, odd = beginning[:LOOKED_AT:2], beginning[1:LOOKED_AT:2]
    if even and odd and not any(odd) and all(even):
        return "utf-16-le"
    if even and odd and not any(even) and all(odd):
        return "utf-16-be"
    return "utf-8"


def without_mark(text: str) -> str:
    """Return a text without the byte-order mark at its beginning."""
    return text.removeprefix(_MARK)


def decoded(data: bytes, name: str) -> str:
    """Return bytes as text, without a byte-order mark. TextError names the place of what is none.

    name  of the file, for the error
    """
    encoding = encoding_of(data)
    try:
        return without_mark(data.decode(encoding))
    except UnicodeDecodeError as error:
        before = without_mark(data[: error.start].decode(encoding, "replace"))
        wrong_byte = data[error.start : error.end].hex()
        raise TextError(
            f"{where(name, before, len(before))}: not {encoding.upper()}: 0x{wrong_byte}"
        ) from error


class Recoder:
    """Makes UTF-8 of the pieces of a stream that begins with a byte-order mark; other streams stay as they are.

    name  of the stream, for errors
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun: bytes | None = b""
        self._decoder: codecs.IncrementalDecoder | None = None

    def __call__(self, data: bytes) -> bytes:
        """Return the next piece; `data` is empty at the end. Raises TextError."""
        if self._begun is not None:
            begun = self._begun + data
            if data and any(len(begun) < len(mark) and mark.startswith(begun) for mark, _ in _MARKS):
                self._begun = begun
                return b""
            self._begun = None
            mark, encoding = next((entry for entry in _MARKS if begun.startswith(entry[0])), (b"", ""))
            begun = begun[len(mark) :]
            if mark and encoding != "utf-8":
                self._decoder = codecs.getincrementaldecoder(encoding)()
            return self._recoded(begun, is_last=not data)
        return self._recoded(data, is_last=not data)

    def _recoded(self, data: bytes, *, is_last: bool) -> bytes:
        if self._decoder is None:
            return data
        try:
            return self._decoder.decode(data, is_last).encode()
        except UnicodeDecodeError as error:
            wrong_byte = error.object[error.start : error.end].hex()
            raise TextError(f"{self._name}: not {error.encoding.upper()}: 0x{wrong_byte}") from error


def read_text(file: Path) -> str:
    """Return the text of a file, of standard input for `-`. Raises TextError."""
    if str(file) == "-":
        if sys.stdin is None:
            raise TextError("standard input is closed")
        buffer = getattr(sys.stdin, "buffer", None)
        return sys.stdin.read() if buffer is None else decoded(buffer.read(), "standard input")
    try:
        return decoded(file.read_bytes(), str(file))
    except OSError as error:
        raise TextError(f"{file}: {error.strerror}") from error


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text that are not blank, each with its position.

    Unlike `str.splitlines` it leaves other separators alone: a name may have them.
    """
    for match in _LINE.finditer(text):
        if match[0].strip():
            yield match.start(), match[0]


def where(name: str, text: str, at: int) -> str:
    """Return file, line and column of the character text[at], both counted from 1."""
    *lines, last = _LINE_END.split(text[:at])
    return f"{name} line {len(lines) + 1} column {len(last) + 1}"
