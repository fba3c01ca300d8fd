"""Text that any program wrote: bytes as characters, and the place of what is no text. All commands read text here.

    byte-order mark   names UTF-8, UTF-16 or UTF-32, and is no part of the text; some programs write one with each piece
    without one       UTF-8; UTF-16 if every second byte is zero, as of text in ASCII

Lines end with LF, CR LF or CR.
"""

import codecs
import re
import sys
from pathlib import Path

_MARKS = (  # UTF-32 first: its mark begins as that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
_LOOKED_AT = 64
_LINE_END = re.compile(r"\r\n|\r|\n")


class TextError(ValueError):
    """A file that cannot be read, or is no text; the message names the file."""


def encoding_of(beginning: bytes) -> str:
    """Return the encoding of a text by its first bytes."""
    for mark, encoding in _MARKS:
        if beginning.startswith(mark):
            return encoding
    even, odd = beginning[:_LOOKED_AT:2], beginning[1:_LOOKED_AT:2]
    if even and odd and not any(odd) and all(even):
        return "utf-16-le"
    if even and odd and not any(even) and all(odd):
        return "utf-16-be"
    return "utf-8"


def decoded(data: bytes, name: str) -> str:
    """Return bytes as text, without a byte-order mark. TextError names the place of what is none.

    name  of the file, for the error
    """
    encoding = encoding_of(data)
    try:
        return data.decode(encoding).removeprefix(_MARK)
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(encoding, "replace").removeprefix(_MARK)
        found = data[error.start : error.end].hex()
        raise TextError(
            f"{place(name, before, len(before))}: not {encoding.upper()}: 0x{found}"
        ) from error


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


def lines_of(text: str) -> list[str]:
    """Return the lines of a text. Unlike `str.splitlines` it leaves other separators alone: a name may have them."""
    found = _LINE_END.split(text)
    return found if found[-1] else found[:-1]


def place(name: str, text: str, at: int) -> str:
    """Return file, line and column of the character text[at], both counted from 1."""
    *lines, last = _LINE_END.split(text[:at])
    return f"{name} line {len(lines) + 1} column {len(last) + 1}"
