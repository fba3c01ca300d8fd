"""The bytes of a segment's index files, built from columns.

Large logs have a hundred thousand entries, and all of them are compared when a log is opened. So no loop processes them
one by one.
"""

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import compress, pairwise

_BEFORE_ALL = -1
_TRANSACTION = struct.Struct(">hqqqq")
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


def encode_aborted(transactions: Iterable[Sequence[int]]) -> bytes:
    """Return entries of a transaction index; of each its producer, first offset, marker and stable offset."""
    return b"".join(_TRANSACTION.pack(0, *transaction) for transaction in transactions)


def aborted_before(index: bytes, offset: int) -> bytes:
    """Return the entries of a transaction index whose markers are before an offset; what is cut off at its end goes."""
    whole = len(index) - len(index) % _TRANSACTION.size
    entries = (index[at : at + _TRANSACTION.size] for at in range(0, whole, _TRANSACTION.size))
    return b"".join(entry for entry in entries if _TRANSACTION.unpack(entry)[3] < offset)
