"""Record layout: where the fields of a checked batch's records are, to recognize the next batch of the same records.

A producer that sends records of fixed sizes sends many batches with the same bytes around their keys and values: the
sizes, the offset deltas, the numbers of headers. If another batch of as many records and bytes has these bytes at the
same places, its records are well formed as well. Keys, values and timestamps may differ.
"""

import struct
import threading
from typing import NamedTuple

from kafka_offsets.protocol.record_walk import walk_records
from kafka_offsets.protocol.varint import ZIGZAG, read_varint

FEWEST = 4
"""Fewer records are read faster than they are compared."""

_MOST = 512
"""More records have no layout, which takes about 300 bytes a record."""

_LAYOUTS = 32
"""How many are kept; the one that was made first is dropped."""

Span = tuple[int, int]
"""Minimum and maximum timestamp delta."""


class Layout(NamedTuple):
    """The bytes of a batch's records around their timestamps, keys and values.

    fields       reads these bytes; `found` are those of the checked batch
    times        reads the timestamp deltas, of which each is one byte
    has_keyless  whether a record has no key
    """

    fields: struct.Struct
    found: tuple[bytes, ...]
    times: struct.Struct
    has_keyless: bool


def layout_of(data: bytes | bytearray, position: int, limit: int, count: int) -> Layout | None:
    """Return the layout of records that were checked; None if one has headers or a timestamp delta of several bytes."""
    fields, times = ["<"], ["<"]
    field_end = time_end = start = position
    has_keyless = False
    for _, _, key_at, key_size, value_at, value_size, headers_at, end in walk_records(
        data, position, limit, count
    ):
        _, attributes_at = read_varint(data, start)
        time_at = attributes_at + 1
        if data[time_at] > 127 or data[headers_at]:
            return None
        key_end = key_at + max(key_size, 0)
        fields.append(f"{time_at - field_end}sx{key_at - time_at - 1}s")
        fields.append(f"{key_end - key_at}x{value_at - key_end}s{max(value_size, 0)}x")
        times.append(f"{time_at - time_end}xB")
        field_end, time_end, start = headers_at, time_at + 1, end  # the number of headers, 0, is a field
        has_keyless = has_keyless or key_size < 0
    fields.append("s")  # of the last record: that of any other is read with the size of the next one
    layout = struct.Struct("".join(fields))
    return Layout(layout, layout.unpack_from(data, position), struct.Struct("".join(times)), has_keyless)


class KnownLayouts:
    """The layouts of recent batches, by number of records and bytes. Threads may share it."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[int, int], Layout | None] = {}
        self._learning = threading.Lock()

    def deltas(
        self, data: bytes | bytearray, position: int, limit: int, count: int, *, needs_key: bool
    ) -> Span | None:
        """Return the timestamp deltas of records that have a known layout, and so are well formed; None otherwise.

        needs_key  whether records without a key are refused; a layout with such records does not count then
        Costs 0.15 µs a record.
        """
        layout = self._layouts.get((count, limit - position))
        if layout is None or (needs_key and layout.has_keyless):
            return None
        if layout.fields.unpack_from(data, position) != layout.found:
            return None
        times = sorted(set(layout.times.unpack_from(data, position)))
        if times[-1] > 127:
            return None
        deltas = [ZIGZAG[time] for time in times]
        return min(deltas), max(deltas)

    def learn(self, data: bytes | bytearray, position: int, limit: int, count: int) -> None:
        """Note records that were checked because `deltas` did not know them.

        The second batch of a size makes a layout; a batch that does not have it drops it.
        """
        if not FEWEST <= count <= _MOST:
            return
        layouts, size = self._layouts, (count, limit - position)
        with self._learning:
            if layouts.pop(size, self) is None:
                layouts[size] = layout_of(data, position, limit, count)
            else:
                layouts[size] = None
            if len(layouts) > _LAYOUTS:
                del layouts[next(iter(layouts))]
