"""Varints of many records at once. It needs numpy (the extra `fast`).

Source: KIP-98 (zigzag varints of records).
"""

from typing import Any

import numpy as np

from kafka_offsets.columns.fields import PADDING, Booleans, Bytes, Integers, words


def _short_varints() -> Integers:
    """Return, for each two bytes read as a little-endian number, the signed varint that they begin with.

    32 times its value and its bits, 8 or 16; 0 when it has more than two bytes.
    """
    both = np.arange(1 << 16)
    low, high = both & 0xFF, both >> 8
    two = _unzigzag(low & 0x7F | high << 7) << 5 | 16
    return np.where(low < 0x80, _unzigzag(low) << 5 | 8, np.where(high < 0x80, two, 0))


class Varints:
    """Consecutive signed varints, of many records at once.

    too_long  which records had a varint of more than 32 bits, None as long as none had

    The next eight bytes of each record are one number, and two bytes of it index a table. Longer varints are rare; they
    are read byte by byte.
    """

    def __init__(self, data: Bytes, at: Integers) -> None:
        self.too_long: Booleans | None = None
        self._data = data
        self._hold(at)

    def _hold(self, at: Integers) -> None:
        self._begin = at
        self._held: Integers = words(self._data, at, "<i8")
        self._used: Any = np.int64(0)
        self._bits_left = 64

    @property
    def at(self) -> Integers:
        """Return the positions of the next varints."""
        positions: Integers = self._used >> 3
        positions += self._begin
        return positions

    def skip_byte(self) -> None:
        """Skip a byte."""
        self._held >>= 8
        self._used = self._used + 8
        self._bits_left -= 8

    def read(self) -> Integers:
        """Return the next varints."""
        if self._bits_left < 16:
            self._hold(np.minimum(self.at, len(self._data) - PADDING))
        numbers = _SHORT.take(self._held & 0xFFFF)
        bits = numbers & 24
        if not bits.all():
            return self._read_any()
        self._held >>= bits
        bits += self._used
        self._used = bits
        self._bits_left = 64 - int(bits.max()) if bits.size else 0
        numbers >>= 5
        return numbers

    def _read_any(self) -> Integers:
        value, at, too_long = read_varints(self._data, np.minimum(self.at, len(self._data) - PADDING))
        if too_long is not None:
            self.too_long = too_long if self.too_long is None else self.too_long | too_long
        self._hold(np.minimum(at, len(self._data) - PADDING))
        return value


def read_varints(data: Bytes, at: Integers) -> tuple[Integers, Integers, Booleans | None]:
    """Return the signed varints at these positions, where they end, and which have more than 32 bits, if any."""
    byte = data[at]
    if not (byte & 128).any():
        return _unzigzag(byte.astype(np.int64)), at + 1, None
    numbers = (byte & 127).astype(np.int64)
    end = at + 1
    more = np.flatnonzero(byte & 128)
    for shift in (7, 14, 21, 28):
        # If all have one length, no selection is needed.
        every = len(more) == len(at)
        byte = data[end] if every else data[end[more]]
        part = (byte & 127).astype(np.int64) << shift
        if every:
            numbers |= part
            end = end + 1
        else:
            numbers[more] |= part
            end[more] += 1
        more = more[byte & 128 != 0]
        if not more.size:
            break
    too_long = None
    if more.size or int(numbers.max()) >> 32:
        too_long = numbers >> 32 != 0
        too_long[more] = True
    return _unzigzag(numbers), end, too_long


def _unzigzag(numbers: Integers) -> Integers:
    return (numbers >> 1) ^ -(numbers & 1)


_SHORT = _short_varints()
ADVANCE = np.where(_SHORT > 0, (_SHORT >> 5) + (_SHORT >> 3 & 3), 0)
"""For each two bytes that a record may begin with: where the next one begins, from there; 0: look closer."""
