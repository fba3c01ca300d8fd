"""Tables of the command line: a line of headings, aligned columns, `-` for what is not known; or JSON.

On a terminal headings are bold and some cells have colours, unless NO_COLOR is set (https://no-color.org).
"""

import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from kafka_offsets.terminal import printable

_BOLD, _GREEN, _YELLOW = 1, 32, 33
_BY_STATE = {"Stable": _GREEN, "PreparingRebalance": _YELLOW, "CompletingRebalance": _YELLOW}

_MEASURED_ROWS = 10_000

Row = Mapping[str, Any]


def has_colours(stream: TextIO) -> bool:
    """Whether colours are written to a stream: to terminals only, and not if the user objects."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_rows(columns: Mapping[str, str], rows: Iterable[Row], *, as_json: bool) -> None:
    """Print a table, or an object for each row.

    columns  the key of each column in the rows, and its heading; in the order of the table
    """
    if as_json:
        for row in rows:
            print(json.dumps(row))
    else:
        for line in table(columns, rows, in_colours=has_colours(sys.stdout)):
            print(line)


def table(columns: Mapping[str, str], rows: Iterable[Row], *, in_colours: bool = False) -> Iterator[str]:
    """Yield the lines of a table, without rows none. The last column is not padded.

    A column is as wide as its cells in the first 10,000 rows: further rows are not kept in memory.
    """
    left = iter(rows)
    first = list(itertools.islice(left, _MEASURED_ROWS))
    if not first:
        return
    cells = ([_cell(row.get(key)) for key in columns] for row in first)
    headings = list(columns.values())
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    plain: list[int | None] = [None] * len(widths)
    yield _line(headings, widths, [_BOLD] * len(widths) if in_colours else plain)
    for row in itertools.chain(first, left):
        texts = [_cell(row.get(key)) for key in columns]
        codes = [_code(key, row.get(key)) for key in columns] if in_colours else plain
        yield _line(texts, widths, codes)


def _line(texts: list[str], widths: list[int], codes: Sequence[int | None]) -> str:
    widths = [*widths[:-1], 0]
    padded = (
        text.ljust(width) if code is None else f"\x1b[{code}m{text}\x1b[0m{' ' * (width - len(text))}"
        for text, width, code in zip(texts, widths, codes, strict=True)
    )
    return "  ".join(padded).rstrip()


def _code(key: str, value: Any) -> int | None:
    """Return the colour of a cell."""
    if key == "lag":
        return _YELLOW if value else None
    return _BY_STATE.get(value) if key == "state" else None


def _cell(value: Any) -> str:
    if value is None or value == "" or value == {}:
        return "-"
    if isinstance(value, Mapping):  # the partitions of each topic
        value = ";".join(f"{topic}:{','.join(map(str, partitions))}" for topic, partitions in value.items())
    return printable(str(value))
