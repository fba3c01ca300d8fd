"""Latest records: the last record of each key among those of a task, for `mode=latest`.

Keys are compared as stored, without their version, which the coordinator ignores too. Only winners are decoded, as a
row costs Spark ten times as much. Tombstones win as well: the offsets that they delete may be in earlier segments.

A log is read from its end, so that a record has won if its key is not in the table yet.
"""

import sys

import numpy as np

from kafka_offsets.columns.fields import Booleans
from kafka_offsets.columns.last_offsets import LONGEST_KEY, LastOffsets
from kafka_offsets.columns.records import RecordColumns

RANGE_BYTES = 32 << 20
"""About how much of a segment is looked at together, as it is stored: its last bytes first."""

HELD_BYTES = 128 << 20
"""The most that is looked at together, decompressed. What is before it and has won may then be replaced after it."""

_FEW_KEYS = 1 << 16


class Latest:
    """The keys of the records of one log partition that have been looked at, with their last offsets.

    24 bytes a key, and as much again of free slots at the most.
    """

    def __init__(self) -> None:
        self._offsets = LastOffsets(_FEW_KEYS, sys.maxsize)

    def winners(self, records: RecordColumns, chosen: Booleans) -> Booleans:
        """Return which of the chosen records no known record of the same key replaces, and learn their keys.

        A key of more than LONGEST_KEY bytes always wins.
        """
        length = records.key_length - 2
        won = chosen & (length > LONGEST_KEY)
        rows = np.flatnonzero(chosen & ~won)
        first, second = self._offsets.hashes(records.buffer, records.key_start[rows] + 2, length[rows])
        offset = records.offset[rows]
        later = np.flatnonzero(self._offsets.get(first, second) < offset)
        first, second, offset = first[later], second[later], offset[later]
        self._offsets.make_room_for(len(later))
        self._offsets.put(first, second, offset)
        won[rows[later]] = self._offsets.get(first, second) == offset
        return won
