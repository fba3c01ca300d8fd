"""What became of transactional records: committed, aborted, or open as long as no marker says so.

The marker of a transaction is the next control record of its producer in the log. It may stand far behind the records,
in a later segment, which some other task of Spark reads: so whoever comes to records whose marker is not in sight looks
ahead, over the headers of batches alone, and remembers what it saw.

Source: KIP-98; ReplicaManager and OffsetMetadataManager.replayEndTransactionMarker of Kafka 4.3, which go by the
producer id alone.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_offsets.columns.batches import BatchColumns
from kafka_offsets.columns.records import RecordColumns
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol.records import ControlType, control_type, read_records

NONE, COMMITTED, ABORTED, OPEN = range(4)
"""Outcomes as numbers: of a batch outside transactions, and of others."""

_MARKERS = {ControlType.COMMIT: COMMITTED, ControlType.ABORT: ABORTED}
_BY_TYPE = {int(kind): outcome for kind, outcome in _MARKERS.items()}


class TransactionEnd(NamedTuple):
    """The end of a transaction, at this offset of the log."""

    offset: int
    producer_id: int
    outcome: int


class Ahead:
    """The markers behind some place of a log, read as far as somebody asked.

    markers  in the order of the log; it may give some from before the place, which then count for nothing
    """

    def __init__(self, markers: Iterable[TransactionEnd]) -> None:
        self._markers = iter(markers)
        self._seen: dict[int, tuple[list[int], list[int]]] = {}

    def outcome(self, producer_id: int, offset: int) -> int:
        """Return what the producer's first marker behind an offset says, OPEN when there is none."""
        offsets, outcomes = self._seen.setdefault(producer_id, ([], []))
        while (index := bisect_right(offsets, offset)) == len(offsets):
            marker = next(self._markers, None)
            if marker is None:
                return OPEN
            at, says = self._seen.setdefault(marker.producer_id, ([], []))
            at.append(marker.offset)
            says.append(marker.outcome)
        return outcomes[index]


def of_batches(records: RecordColumns, ahead: Ahead) -> npt.NDArray[np.int8] | None:
    """Return the outcome of each batch of some records, a marker's own included; None when all are NONE.

    ahead  asked for transactions without a marker among these records
    """
    batches = records.batches
    chosen = np.flatnonzero(batches.is_transactional & (batches.producer_id >= 0))
    if not chosen.size:
        return None
    outcomes = np.zeros(len(batches.position), np.int8)
    last = batches.base_offset + batches.last_offset_delta
    markers = dict(_marker_batches(records))
    known: dict[int, int] = {}
    producers = batches.producer_id[chosen].tolist()
    is_control = batches.is_control[chosen].tolist()
    ends = last[chosen].tolist()
    end = int(last[-1])
    for index, producer_id, control, offset in zip(
        chosen.tolist()[::-1], producers[::-1], is_control[::-1], ends[::-1], strict=True
    ):
        if control:
            if index in markers:
                known[producer_id] = outcomes[index] = markers[index]
            continue
        if producer_id not in known:
            known[producer_id] = ahead.outcome(producer_id, max(end, offset))
        outcomes[index] = known[producer_id]
    return outcomes


def _marker_batches(records: RecordColumns) -> Iterator[tuple[int, int]]:
    """Yield (batch, outcome) for the markers among some records."""
    rows, types = records.markers()
    for index, type_ in zip(records.batch[rows].tolist(), types.tolist(), strict=True):
        if type_ in _BY_TYPE:
            yield index, _BY_TYPE[type_]


def markers_of(data: bytes, batches: BatchColumns) -> Iterator[TransactionEnd]:
    """Yield the markers among some batches, which lie in a buffer from its beginning on.

    A control batch that cannot be read says nothing.
    """
    if not batches.position.size:
        return
    start = int(batches.position[0])
    for index in np.flatnonzero(batches.is_control & batches.is_transactional).tolist():
        at = int(batches.position[index]) - start
        try:
            found = read_records(data[at : at + int(batches.size[index])])
            for record in found:
                outcome = _MARKERS.get(control_type(record))
                if outcome is not None:
                    yield TransactionEnd(record.offset, int(batches.producer_id[index]), outcome)
        except ProtocolError:
            continue
