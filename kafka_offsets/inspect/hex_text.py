r"""Hex as programs print it, read as bytes.

0004 00:04 00-04, 0x0004, 0x00, 0x04      digits with what separates them, also as an array with its name and braces
00000010: 0472 6177 00  .raw.             a dump: an offset, bytes, and their text, of xxd
00000010  04 72 61 77 00        |.raw.|   hexdump -C
0010   04 72 61 77 00   .raw.             Wireshark and tshark -x
0x0010:  0472 6177 00  .raw.          tcpdump -X
000010 04 72 61 77 00                     od -A x -t x1, and od -t x1 with its octal offsets
b"\0\x04raw"  "\x00\x04" "raw"            literals of Python, C, Go and shells
<Buffer 00 04>                            Node.js
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from kafka_offsets.inspect.declarations import InspectError
from kafka_offsets.terminal import shown
from kafka_offsets.texts import lines_of, where

_MOST_BYTES = 1 << 28
_PAIRS = r"(?P<bytes>(?:[0-9a-fA-F]{2} ){0,7}[0-9a-fA-F]{2}(?:  ?(?:[0-9a-fA-F]{2} ){0,23}[0-9a-fA-F]{2})?)"
_DUMPS = (
    re.compile(r"\s*(?:0x)?(?P<at>[0-9a-fA-F]{4,8}):\s+(?P<bytes>(?:[0-9a-fA-F]+ ?)+)(?:\s.*)?"),
    re.compile(rf"\s*(?P<at>[0-9a-fA-F]{{4,8}})(?: {{2,3}}{_PAIRS}(?: {{2,}}.*| *\|.*| *)?)?"),
)
_OD = re.compile(r"(?P<at>[0-9a-fA-F]{6,8})(?P<bytes>(?: [0-9a-fA-F]{2})*)(?: +>.*<)?\s*")
_WORDS = re.compile(r"[0-9a-fA-F]{7,8}(?: +[0-9a-fA-F]{4})+\s*")
_REPEATED = "*"

_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_OF_POSTGRESQL = re.compile(r"\s*\\x[0-9a-fA-F]+\s*")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))|([^\\])", re.DOTALL)
_ESCAPED = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "\\": 92, "'": 39, '"': 34}

_COMMENT = re.compile(r"/\*.*?\*/|//[^\r\n]*|\(byte\)", re.DOTALL)
_BRACES, _BRACKETS = re.compile(r"\{([^{}]*)\}"), re.compile(r"\[([^\[\]]*)\]")
_BUFFER = re.compile(r"\s*<(?:Slow)?Buffer ([^>]*)>\s*")
_BLANK = re.compile(r"[\s:,;_-]+")
_NUMBER = re.compile(r"\s*0[xX]([0-9a-fA-F]+)\s*[,;]?")


class _Row(NamedTuple):
    """A line of a dump; digits: empty for the offset at the end."""

    line: int
    offset: str
    digits: str


def from_hex(text: str) -> bytes:
    """Return the bytes that hex in any of these forms describes. InspectError names line and column of what is none."""
    lines = list(lines_of(text))
    form = _form(lines) if lines else None
    if form is not None:
        return _joined(list(_rows(form, lines, text)), text, is_of_od=form is _OD)
    quoted = [match[match.lastindex or 1] for match in _QUOTED.finditer(text)]
    if "\\" in text and not _OF_POSTGRESQL.fullmatch(text):
        return _literal(text, quoted or [line.strip() for _, line in lines_of(text)])
    return _digits("\n".join(quoted) if quoted else text)


# ---- dumps ----------------------------------------------------------------------------------------------------


def _form(lines: list[tuple[int, str]]) -> re.Pattern[str] | None:
    """Return what a line of a dump looks like, by the first line; None for other forms."""
    words = [line.split() for _, line in lines]
    are_words = len(words[-1]) == 1 and all(_WORDS.fullmatch(line) for _, line in lines[:-1])
    if are_words and len(words) > 1 and int(words[0][0], 16) == 0:
        raise InspectError("od and hexdump print words with their bytes swapped: use hexdump -C or od -t x1")
    if _is_of_od(lines):
        return _OD
    for form in _DUMPS:
        first = form.fullmatch(lines[0][1])
        if first is not None and first["bytes"]:
            return form
    return None


def _is_of_od(lines: list[tuple[int, str]]) -> bool:
    """Return whether the last line is the number of bytes, as od ends its dumps."""
    matches = [_OD.fullmatch(line) for _, line in lines if line.strip() != _REPEATED]
    last = matches[-1] if len(matches) > 1 else None
    if last is None or last["bytes"] or not all(matches):
        return False
    if len(matches) < len(lines):
        return True
    count = sum(len(match["bytes"].split()) for match in matches if match is not None)
    return last["at"].isalnum() and count in (int(last["at"], 16), _octal(last["at"]))


def _octal(digits: str) -> int:
    return int(digits, 8) if re.fullmatch("[0-7]+", digits) else -1


def _rows(form: re.Pattern[str], lines: list[tuple[int, str]], text: str) -> Iterator[_Row]:
    for begun, line in lines:
        match = form.fullmatch(line.rstrip())
        if match is not None:
            yield _Row(begun, match["at"], "".join((match["bytes"] or "").split()))
        elif line.strip() == _REPEATED:
            yield _Row(begun, _REPEATED, "")
        else:
            raise InspectError(
                f"{where('hex', text, begun)}: not a line of a hex dump: {shown(line.strip())}"
            )


def _joined(rows: list[_Row], text: str, *, is_of_od: bool) -> bytes:
    """Return the bytes of a dump; `*` stands for the line above until the offset below."""
    data = bytearray()
    first = int(rows[0].offset, 16) if rows[0].offset != _REPEATED else 0
    for above, row, below in zip([None, *rows], rows, [*rows[1:], None], strict=False):
        if row.offset != _REPEATED:
            data += _even(row.digits, text, row.line)
            continue
        if above is None or below is None or not above.digits or below.offset == _REPEATED:
            raise InspectError(f"{where('hex', text, row.line)}: '*' needs a line above and an offset below")
        if is_of_od:
            raise InspectError(f"{where('hex', text, row.line)}: a line stands for several: use od -v")
        repeated = _even(above.digits, text, above.line)
        missing = int(below.offset, 16) - first - len(data)
        if not 0 < missing <= _MOST_BYTES or missing % len(repeated):
            raise InspectError(
                f"{where('hex', text, below.line)}: the offset {below.offset} does not follow {len(data)} bytes "
                "(print repeated lines in full, as hexdump -v does)"
            )
        data += repeated * (missing // len(repeated))
    return bytes(data)


# ---- literals, arrays, digits ---------------------------------------------------------------------------------


def _literal(text: str, parts: list[str]) -> bytes:
    """Return the bytes of literals, one after the other."""
    data = bytearray()
    for part in parts:
        at = 0
        for match in _ESCAPE.finditer(part):
            digits, octal, letter, plain = match.groups()
            if digits:
                data.append(int(digits, 16))
            elif octal:
                data.append(int(octal, 8) & 0xFF)
            elif letter in _ESCAPED:
                data.append(_ESCAPED[letter])
            elif plain and plain.isascii():
                data.append(ord(plain))
            elif letter != "\n":
                position_text = where("hex", text, text.index(part) + match.start())
                raise InspectError(f"{position_text}: no byte of a literal: {shown(match[0])}")
            at = match.end()
        if at != len(part):
            raise InspectError(
                f"{where('hex', text, text.index(part) + at)}: a literal ends within an escape"
            )
    return bytes(data)


def _digits(text: str) -> bytes:
    """Return the bytes of digits, with what separates them; comments and names of arrays do not count."""
    blank = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    buffer = _BUFFER.fullmatch(blank)
    arrays = list(_BRACES.finditer(blank)) or list(_BRACKETS.finditer(blank))
    if buffer is not None:
        start, end = buffer.span(1)
    elif len(arrays) > 1:
        raise InspectError(f"{where('hex', text, arrays[1].start())}: a second array: give one")
    else:
        start, end = arrays[0].span(1) if arrays else (0, len(blank))
    digit_pairs: list[str] = []
    at = start
    while at < end:
        number = _NUMBER.match(blank, at, end)
        separator = _BLANK.match(blank, at, end)
        if number is not None:
            digit_pairs.append(number[1] if len(number[1]) > 1 else f"0{number[1]}")
            at = number.end()
        elif separator is not None:
            at = separator.end()
        elif text.startswith("\\x", at) and not digit_pairs:  # as of PostgreSQL
            at += 2
        else:
            digits = re.compile(r"[0-9a-fA-F]+").match(blank, at, end)
            if digits is None:
                raise InspectError(
                    f"{where('hex', text, at)}: not hex: {shown(text[at:].split(maxsplit=1)[0])}"
                )
            digit_pairs.append(digits[0])
            at = digits.end()
    return _even("".join(digit_pairs), text, start)


def _even(digits: str, text: str, begun: int) -> bytes:
    if len(digits) % 2:
        count = f"{len(digits)} digit{'' if len(digits) == 1 else 's'}"
        raise InspectError(f"{where('hex', text, begun)}: not hex: {count}, an odd number")
    return bytes.fromhex(digits)
