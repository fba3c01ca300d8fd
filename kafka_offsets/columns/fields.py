"""Fields of many records: the integers that begin at given positions of a buffer, as one array.

It needs numpy (the extra `fast`).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

PADDING = 64
"""Bytes without a meaning at the end of a buffer, so that a field may be looked at where no record ends so late."""


def fields(buffer: bytes, positions: Integers, dtype: str) -> Integers:
    """Return the integers of a big-endian `dtype`, such as ">i4", that begin at these positions, as int64."""
    column: Integers = words(buffer, positions, dtype).astype(np.int64)
    return column


def words(buffer: Any, positions: Integers, dtype: Any) -> Any:
    """Return the integers of a `dtype` that begin at these positions, unchanged.

    They are gathered as opaque bytes, which takes numpy half the time of unaligned integers.
    """
    size = np.dtype(dtype).itemsize
    if size == 1:
        return np.frombuffer(buffer, dtype)[positions]
    view: Any = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))
    return view[positions].view(dtype)


def string_words(
    buffer: bytes, starts: Integers, lengths: Integers, dtype: str
) -> Iterator[tuple[Integers | None, Words]]:
    """Yield the first words of the strings at these positions, then their second words and so on, as uint64.

    dtype  of a word, little-endian, such as "<u4"; the last word of a string is padded with zeros
    Each item includes the indexes of the strings that have the word, None for all.
    """
    if not len(lengths):
        return
    size = np.dtype(dtype).itemsize
    masks = np.array([(1 << 8 * kept) - 1 for kept in range(size + 1)], dtype)
    shortest, longest = int(lengths.min()), int(lengths.max())
    for begin in range(0, longest, size):
        if begin + size <= shortest:
            yield None, words(buffer, starts + begin, dtype).astype(np.uint64, copy=False)
        else:
            rows = None if begin < shortest else np.flatnonzero(lengths > begin)
            at, left = (starts, lengths) if rows is None else (starts[rows], lengths[rows])
            kept = masks[np.minimum(left - begin, size)]
            yield rows, (words(buffer, at + begin, dtype) & kept).astype(np.uint64, copy=False)
