"""Record walk: the positions of the records of a batch, and of the fields of each.

The only reader of the layout in :mod:`kafka_offsets.protocol.records`. It builds no records: decoding, produce
validation, loading and the cleaner use the positions that they need.
"""

from collections.abc import Iterator

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.varint import ZIGZAG, read_varint, read_varlong

RecordAt = tuple[int, int, int, int, int, int, int, int]
"""A record, all positions being those in the buffer:

0  timestamp delta  to the base timestamp
1  offset delta     to the base offset
2  key position
3  key size         negative for null
4  value position
5  value size       negative for null: a tombstone
6  headers position
7  end              where the next record begins

Headers are a single zero byte when there are none; :func:`walk_headers` reads others.
"""


def walk_records(
    data: bytes | bytearray, position: int, limit: int, count: int, first: int = 0
) -> Iterator[RecordAt]:
    """Yield the records from number `first` to `count`, which must fill `data` from `position` to `limit` exactly.

    Raises ProtocolError when they do not. The headers of a record are not checked: `walk_headers` does that.
    """
    zigzag = ZIGZAG  # nearly all varints have one byte, or two and no sign: no call decodes them
    try:
        for index in range(first, count):
            start = position
            if (size := data[position]) < 128:
                end = position + 1 + zigzag[size]
                position += 2  # and the attributes, of which none is defined
            elif (more := data[position + 1]) < 128 and not size & 1:
                end = position + 2 + (size >> 1 & 63 | more << 6)
                position += 3
            else:
                size, position = read_varint(data, position)
                end = position + size
                position += 1
            if (timestamp_delta := data[position]) < 128:
                timestamp_delta = zigzag[timestamp_delta]
                position += 1
            else:
                timestamp_delta, position = read_varlong(data, position)
            if (offset_delta := data[position]) < 128:
                offset_delta = zigzag[offset_delta]
                position += 1
            elif (more := data[position + 1]) < 128 and not offset_delta & 1:
                offset_delta = offset_delta >> 1 & 63 | more << 6
                position += 2
            else:
                offset_delta, position = read_varint(data, position)
            if (key_size := data[position]) < 128:
                key_size = zigzag[key_size]
                position += 1
            else:
                key_size, position = read_varint(data, position)
            key_at = position
            position = key_at + key_size if key_size > 0 else key_at
            if (value_size := data[position]) < 128:
                value_size = zigzag[value_size]
                position += 1
            elif (more := data[position + 1]) < 128 and not value_size & 1:
                value_size = value_size >> 1 & 63 | more << 6
                position += 2
            else:
                value_size, position = read_varint(data, position)
            value_at = position
            position = value_at + value_size if value_size > 0 else value_at
            if (position + 1 != end and (not data[position] or position >= end)) or end > limit:
                raise ProtocolError(f"record {index} does not have the size that it announces", start)
            yield timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, position, end
            position = end
    except IndexError:
        raise ProtocolError("the last record is cut off", limit) from None
    if position != limit:
        raise ProtocolError(f"{limit - position} bytes remain after the last record", position)


def header_count(data: bytes | bytearray, position: int, end: int) -> tuple[int, int]:
    """Return the number of headers of the record that ends at `end`, and the position of the first one.

    position  of its headers
    Raises ProtocolError if there is no room for so many.
    """
    try:
        count, first = read_varint(data, position)
    except IndexError:
        raise ProtocolError("the headers of a record are cut off", position) from None
    if not 0 <= 2 * count <= end - first:
        raise ProtocolError(f"{count} headers in {end - first} bytes", position)
    return count, first


def walk_headers(
    data: bytes | bytearray, position: int, end: int, count: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield position and size of the key and of the value of each header of a record that ends at `end`.

    A negative size of a value means null. Raises ProtocolError if the headers do not end where the record does.
    """
    zigzag = ZIGZAG
    try:
        for _ in range(count):
            if (key_size := data[position]) < 128:
                key_size = zigzag[key_size]
                position += 1
            else:
                key_size, position = read_varint(data, position)
            if not 0 <= key_size <= end - position:
                raise ProtocolError(f"key of a header with a size of {key_size}", position)
            key_at = position
            position += key_size
            if (value_size := data[position]) < 128:
                value_size = zigzag[value_size]
                position += 1
            else:
                value_size, position = read_varint(data, position)
            if value_size > end - position:
                raise ProtocolError(f"value of a header with a size of {value_size}", position)
            yield key_at, key_size, position, value_size
            if value_size > 0:
                position += value_size
    except IndexError:
        raise ProtocolError("the last header is cut off", end) from None
    if position != end:
        raise ProtocolError("the headers of a record do not end where it does", position)
