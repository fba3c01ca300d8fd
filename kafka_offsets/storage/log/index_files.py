"""The bytes of a segment's index files, built from columns.

Large logs have a hundred thousand entries, and all of them are compared when a log is opened. So no loop processes them
one by one.
"""

import sys
from array import array
from collections.abc import Sequence
from itertools import compress, pairwise

_BEFORE_ALL = -1
_FIRST, _SECOND = slice(0, None, 2), slice(1, None, 2)
_HIGH, _LOW = (_SECOND, _FIRST) if sys.byteorder == "little" else (_FIRST, _SECOND)


def encode_index(offsets: "array[int]", positions: "array[int]") -> bytes:
    """Return the content of an .index file.

    offsets, positions  int32, of the entries
    """
    return _in_rows(offsets, positions)


def encode_time_index(timestamps: Sequence[int], offsets: Sequence[int]) -> bytes:
    """Return the content of a .timeindex file.

    timestamps  int64, none before the one that precedes it; of equal ones the first has an entry, and -1 has none
    offsets     int32
    """
    is_later = [later > before for before, later in pairwise((_BEFORE_ALL, *timestamps))]
    halves = array("i", array("q", compress(timestamps, is_later)).tobytes())
    return _in_rows(halves[_HIGH], halves[_LOW], array("i", compress(offsets, is_later)))


def _in_rows(*columns: "array[int]") -> bytes:
    """Return int32 columns of one length row by row, big-endian."""
    rows = array("i", bytes(4 * sum(map(len, columns))))
    for number, column in enumerate(columns):
        rows[number :: len(columns)] = column
    if sys.byteorder == "little":
        rows.byteswap()
    return rows.tobytes()
