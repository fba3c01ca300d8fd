"""Batch headers of a buffer, a column for each field. It needs numpy (the extra `fast`).

Source: KIP-98 (format 2).
"""

from typing import NamedTuple

import numpy as np

from kafka_offsets.columns.batch_walk import batch_starts
from kafka_offsets.columns.fields import PADDING, Booleans, Integers, words
from kafka_offsets.protocol.records import CONTROL, HEADER_FIELDS, LOG_OVERHEAD, TRANSACTIONAL

_HEADER = np.dtype([(name, f">{code}") for name, code in HEADER_FIELDS.items()])


class BatchColumns(NamedTuple):
    """The headers of some batches, one column for each field.

    position        of the first byte in the segment file
    producer_id     -1 for none
    """

    position: Integers
    size: Integers
    base_offset: Integers
    last_offset_delta: Integers
    leader_epoch: Integers
    attributes: Integers
    base_timestamp: Integers
    max_timestamp: Integers
    producer_id: Integers
    record_count: Integers

    def first(self, count: int) -> "BatchColumns":
        """Return the first `count` headers."""
        return BatchColumns(*(column[:count] for column in self))

    def after(self, count: int) -> "BatchColumns":
        """Return the headers after the first `count`."""
        return BatchColumns(*(column[count:] for column in self))

    @property
    def is_transactional(self) -> Booleans:
        """Whether the records count only once a marker has committed them."""
        found: Booleans = self.attributes & TRANSACTIONAL != 0
        return found

    @property
    def is_control(self) -> Booleans:
        """Whether the records are for brokers and consumers, not for the application."""
        found: Booleans = self.attributes & CONTROL != 0
        return found


def read_batches(data: bytes, position: int) -> BatchColumns:
    """Return the headers of the whole batches of a buffer, up to the first bytes that are not a batch.

    data      PADDING bytes follow the batches
    position  of the buffer in the file
    """
    at = batch_starts(data, len(data) - PADDING)
    found = words(data, at, _HEADER)

    def field(name: str) -> Integers:
        column: Integers = found[name].astype(np.int64)
        return column

    batches = BatchColumns(
        at + position,
        field("batch_length") + LOG_OVERHEAD,
        field("base_offset"),
        field("last_offset_delta"),
        field("leader_epoch"),
        field("attributes"),
        field("base_timestamp"),
        field("max_timestamp"),
        field("producer_id"),
        field("record_count"),
    )
    wrong = np.flatnonzero(
        (found["magic"] != 2) | (batches.last_offset_delta < 0) | (batches.base_offset < 0)
    )
    return batches.first(int(wrong[0])) if wrong.size else batches
