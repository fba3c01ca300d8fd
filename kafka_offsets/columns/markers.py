"""Transaction markers, separated from the records of the offsets topic. It needs numpy (the extra `fast`).

Source: KIP-98.
"""

from typing import NamedTuple

import numpy as np

from kafka_offsets.columns.fields import Integers
from kafka_offsets.columns.records import RecordColumns
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.records import ControlType

NO_PRODUCER = -1


class Marker(NamedTuple):
    """The end of a transaction."""

    log_offset: int
    producer_id: int
    committed: bool


def without_markers(records: RecordColumns) -> tuple[RecordColumns, Integers, list[Marker]]:
    """Return the records except control records, the producers of their transactions, and the markers.

    The producer of a record outside a transaction is NO_PRODUCER. ProtocolError for a control record without a key.
    """
    batches = records.batches
    producer_of = np.where(batches.is_transactional, batches.producer_id, NO_PRODUCER)
    producer_id = producer_of[records.batch]
    if not batches.is_control.any():
        return records, producer_id, []
    is_control = batches.is_control[records.batch]
    if (records.key_length[is_control] < 0).any():
        raise ProtocolError("it has no key")
    rows, types = records.markers()
    markers = [
        Marker(log_offset, producer, type_ == ControlType.COMMIT)
        for log_offset, producer, type_ in zip(
            records.offset[rows].tolist(), producer_id[rows].tolist(), types.tolist(), strict=True
        )
        if type_ in (ControlType.ABORT, ControlType.COMMIT)
    ]
    kept = np.flatnonzero(~is_control)
    return records.take(kept), producer_id[kept], markers
