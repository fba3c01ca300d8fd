"""Outcomes of transactional records: committed, aborted, or open if there is no marker.

The marker of a transaction is the next control record of its producer in the log. It may be far after the records, in
a later segment that another Spark task reads. A reader that does not find the marker among its records therefore reads
ahead, only the batch headers, and caches the markers.

Source: KIP-98; ReplicaManager and OffsetMetadataManager.replayEndTransactionMarker of Kafka 4.3, which use only the
producer id.
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
    """The markers after a position of a log, read only as far as needed.

    markers  in log order; markers from before the position are ignored
    """

    def __init__(self, markers: Iterable[TransactionEnd]) -> None:
        self._markers = iter(markers)
        self._seen: dict[int, tuple[list[int], list[int]]] = {}

    def outcome(self, producer_id: int, offset: int) -> int:
        """Return the outcome in the producer's first marker after an offset, OPEN if there is none."""
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
    """Return the outcome of each batch, also of a marker's own batch; None if all are NONE.

    ahead  for transactions without a marker among these records
    """
    batches = records.batches
    chosen = np.flatnonzero(batches.is_transactional & (batches.producer_id >= 0))
    if not chosen.size:
        return None
    outcomes = np.zeros(len(batches.position), np.int8)
    last = batches.base_offset + batches.last_offset_delta
    markers = dict(_marker_batches(records))
    last_outcomes: dict[int, int] = {}
    producers = batches.producer_id[chosen].tolist()
    is_control = batches.is_control[chosen].tolist()
    ends = last[chosen].tolist()
    end = int(last[-1])
    for index, producer_id, control, offset in zip(
        chosen.tolist()[::-1], producers[::-1], is_control[::-1], ends[::-1], strict=True
    ):
        if control:
            if index in markers:
                last_outcomes[producer_id] = outcomes[index] = markers[index]
            continue
        if producer_id not in last_outcomes:
            last_outcomes[producer_id] = ahead.outcome(producer_id, max(end, offset))
        outcomes[index] = last_outcomes[producer_id]
    return outcomes


def _marker_batches(records: RecordColumns) -> Iterator[tuple[int, int]]:
    """Yield (batch, outcome) for the markers among the records."""
    rows, types = records.markers()
    for index, type_ in zip(records.batch[rows].tolist(), types.tolist(), strict=True):
        if type_ in _BY_TYPE:
            yield index, _BY_TYPE[type_]


def markers_of(data: bytes, batches: BatchColumns) -> Iterator[TransactionEnd]:
    """Yield the markers among the batches at the beginning of a buffer.

    A control batch that cannot be read yields no marker.
    """
    if not batches.position.size:
        return
    start = int(batches.position[0])
    for index in np.flatnonzero(batches.is_control & batches.is_transactional).tolist():
        at = int(batches.position[index]) - start
        try:
            markers = read_records(data[at : at + int(batches.size[index])])
            for record in markers:
                outcome = _MARKERS.get(control_type(record))
                if outcome is not None:
                    yield TransactionEnd(record.offset, int(batches.producer_id[index]), outcome)
        except ProtocolError:
            continue
