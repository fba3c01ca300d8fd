"""numpy columns -> Arrow arrays, without a step per row in Python.

Strings are slices of a buffer. Each one becomes two elements of a binary array over the same buffer, itself and the gap
after it, and Arrow takes every second element: one copy, at a hundredth of a microsecond each.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_offsets.columns.fields import Booleans, Integers
from kafka_offsets.spark.reader.schema import TIMESTAMP

_US_PER_MS = 1000
_MOST_MS = ((1 << 63) - 1) // _US_PER_MS
_ASCII_BITS = np.uint64(0x8080808080808080)
_TOPIC_ID_BYTES = 16
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
_TOPIC_ID_CHARACTERS = 22


class NotTextError(Exception):
    """Some bytes of a string column are not UTF-8."""


def bitmap(valid: Booleans | None) -> Any:
    """Return the validity bitmap of the rows in Arrow's format; None if no row is null."""
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def integers(values: npt.NDArray[Any], type_: pa.DataType, valid: Booleans | None = None) -> pa.Array:
    """Return a column of int32 or int64; values are truncated to its bits."""
    width = np.int32 if type_ == pa.int32() else np.int64
    data = np.ascontiguousarray(values, width)
    return pa.Array.from_buffers(type_, len(data), [bitmap(valid), pa.py_buffer(data)])


def booleans(values: Booleans, valid: Booleans | None = None) -> pa.Array:
    """Return a column of truth values."""
    packed = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [bitmap(valid), packed])


def timestamps(milliseconds: Integers, valid: Booleans | None = None) -> pa.Array:
    """Return a column of timestamps; -1, and a value that does not fit 64 bits in microseconds, is null."""
    is_known = milliseconds != -1
    if valid is not None:
        is_known &= valid
    low, high = (int(milliseconds.min()), int(milliseconds.max())) if len(milliseconds) else (0, 0)
    if high > _MOST_MS or low < -_MOST_MS:
        fits = (milliseconds <= _MOST_MS) & (milliseconds >= -_MOST_MS)
        is_known &= fits
        milliseconds = np.where(fits, milliseconds, 0)
    return integers(milliseconds * _US_PER_MS, TIMESTAMP, is_known)


def binaries(buffer: Any, start: Integers, length: Integers, valid: Booleans | None = None) -> pa.Array:
    """Return a column of the bytes at these places of a buffer; lengths where not `valid` must be 0."""
    count = len(start)
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = start
    np.add(start, length, out=bounds[1::2], casting="unsafe")
    bounds[-1] = len(buffer)  # of no element; Arrow reads it
    all_ = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)])
    taken = all_.take(_every_second(count))
    if valid is None:
        return taken
    _, offsets, data = taken.buffers()
    return pa.Array.from_buffers(pa.binary(), count, [bitmap(valid), offsets, data])


def _every_second(count: int) -> pa.Array:
    """Return 0, 2, 4 and so on."""
    global _even
    if len(_even) < count:
        _even = pa.array(np.arange(0, 2 * max(count, _LEAST_EVEN), 2, dtype=np.int32))
    return _even.slice(0, count)


_LEAST_EVEN = 1 << 16
_even = pa.array([], pa.int32())


def strings(buffer: Any, start: Integers, length: Integers, valid: Booleans | None = None) -> pa.Array:
    """Return a column of the text at these places of a buffer. Raises NotTextError."""
    if not length.any():
        empty = pa.py_buffer(bytes(4 * (len(length) + 1)))
        return pa.Array.from_buffers(pa.string(), len(length), [bitmap(valid), empty, pa.py_buffer(b"")])
    taken = binaries(buffer, start, length, valid)
    if _is_ascii(taken):
        return taken.view(pa.string())
    try:
        return taken.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise NotTextError from error


def _is_ascii(array: pa.Array) -> bool:
    _, offsets, data = array.buffers()
    if not len(array):
        return True
    end = int(np.frombuffer(offsets, np.int32)[len(array)])
    text = np.frombuffer(data, np.uint8, end)
    words = text[: end & ~7].view(np.uint64)
    bits = np.bitwise_or.reduce(words) if len(words) else np.uint64(0)
    return not bits & _ASCII_BITS and not (text[end & ~7 :] & 0x80).any()


def words(codes: npt.NDArray[Any], texts: list[str | None]) -> pa.Array:
    """Return a column of the texts with these numbers."""
    if not len(codes):
        return pa.array([], pa.string())
    first = int(codes[0])
    if (codes == first).all():
        return repeated(texts[first], len(codes))
    return pa.array(texts, pa.string()).take(pa.array(codes.astype(np.int32, copy=False)))


def repeated(text: str | None, count: int) -> pa.Array:
    """Return a column of one text."""
    return _repeated(text, -(-count // _REPEATED) * _REPEATED).slice(0, count)


_REPEATED = 1 << 15
"""What is repeated is kept for the next columns, in lengths that are multiples of this."""


@lru_cache(8)
def _repeated(text: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def topic_ids(high: Integers, low: Integers) -> pa.Array:
    """Return a column of topic ids as Kafka prints them, from their bytes in two halves; null where all are zero."""
    if not high.any() and not low.any():
        return repeated(None, len(high))
    halves = np.empty((len(high), 2), np.int64)
    halves[:, 0] = high
    halves[:, 1] = low
    type_ = pa.binary(_TOPIC_ID_BYTES)
    encoded = pa.Array.from_buffers(type_, len(high), [None, pa.py_buffer(halves)]).dictionary_encode()
    raw = np.frombuffer(encoded.dictionary.buffers()[1], np.uint8, _TOPIC_ID_BYTES * len(encoded.dictionary))
    texts = _base64(raw.reshape(-1, _TOPIC_ID_BYTES))
    return texts.take(encoded.indices)


def _base64(ids: npt.NDArray[np.uint8]) -> pa.Array:
    padded = np.zeros((len(ids), 18), np.uint32)
    padded[:, :_TOPIC_ID_BYTES] = ids
    triples = padded[:, 0::3] << 16 | padded[:, 1::3] << 8 | padded[:, 2::3]
    characters = np.empty((len(ids), 24), np.uint8)
    for index, shift in enumerate((18, 12, 6, 0)):
        characters[:, index::4] = _BASE64[triples >> shift & 63]
    text = np.ascontiguousarray(characters[:, :_TOPIC_ID_CHARACTERS])
    offsets = np.arange(0, _TOPIC_ID_CHARACTERS * (len(ids) + 1), _TOPIC_ID_CHARACTERS, dtype=np.int32)
    valid: Booleans = np.any(ids, axis=1)
    buffers = [bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), len(ids), buffers)
