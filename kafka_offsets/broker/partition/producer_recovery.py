"""Who wrote into a log: read back from what was written down beside it and from its batches.

Opening a log does that at once. The producers of the offsets topic are asked for by few, and its log may be long: it is
read in steps, while it is served.
"""

from collections.abc import Callable
from typing import NamedTuple

from kafka_offsets.broker.partition.producers import Producers
from kafka_offsets.errors import OpeningAbandonedError, ProtocolError, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.log.log import Log
from kafka_offsets.storage.log.producer_state import forget_producer_state, saved_producer_state
from kafka_offsets.storage.log.stored_batches import StoredBatch

logger = new_logger(__name__)

_STEP_BATCHES = 500
_STEP_BYTES = 4 << 20
_FEW_RECORDS = 5000
"""So many offsets are at most as many batches: less than a tenth of a second."""


class Known(NamedTuple):
    """Producers of a log, as of an offset."""

    producers: Producers
    end_offset: int


def saved_producers(log: Log) -> Known | None:
    """Return what was written down of a log's producers; None when that is in doubt, and then it is gone for good.

    Raises StorageError when it cannot be removed.
    """
    saved = None if log.damages else saved_producer_state(log)
    if saved is None:
        forget_producer_state(log)
        return None
    end_offset, data = saved
    try:
        producers = Producers.loads(data)
    except ValueError as error:
        logger.warning("%s: what it has saved of its producers is not used: %s", log.directory, error)
        forget_producer_state(log)
        return None
    producers.forget_aborted_before(log.log_start_offset)
    return Known(producers, end_offset)


def read_producers(
    log: Log, is_abandoned: Callable[[], bool] = lambda: False, saved: Known | None = None
) -> Known:
    """Return the producers of a log: what was written down and the batches behind it, or all batches.

    saved  what `saved_producers` has given, if it was asked before
    Can be called in any thread. StorageError when a batch is damaged; OpeningAbandonedError soon after `is_abandoned`.
    """
    return ProducerReading(log, saved).finish(is_abandoned)


def is_near(log: Log, offset: int) -> bool:
    """Whether a log can be read from an offset on at once."""
    return log.log_end_offset - offset <= _FEW_RECORDS


class ProducerReading:
    """The producers of a log, read in steps of some milliseconds; the log may grow meanwhile."""

    def __init__(self, log: Log, known: Known | None) -> None:
        """Begin behind what is known, which must not be used any more, or written down; else where the log begins."""
        self._log = log
        self._begin(known or saved_producers(log))

    def _begin(self, known: Known | None) -> None:
        self._goes_on = known is not None
        self._producers = Producers() if known is None else known.producers
        self._next = self._log.log_start_offset if known is None else known.end_offset

    @property
    def is_short(self) -> bool:
        """Whether the rest can be read at once."""
        return is_near(self._log, self._next)

    def restart(self) -> None:
        """Begin anew: batches that were not read yet have been compacted, and may have been ends of transactions."""
        self._begin(None)

    def finish(self, is_abandoned: Callable[[], bool] = lambda: False) -> Known:
        """Read the rest, as `read_producers`."""
        while not is_abandoned():
            if (known := self.step()) is not None:
                return known
        raise OpeningAbandonedError(self._log.directory)

    def step(self) -> Known | None:
        """Read on; return what is known where the log ends. Raises StorageError when a batch is damaged."""
        end, size = self._log.log_end_offset, 0
        batches = self._log.batches(self._next, verify=False) if self._next < end else iter(())
        for read, batch in enumerate(batches, 1):
            header = batch.header
            is_complete = header.record_count == header.last_offset_delta + 1
            if self._goes_on and not (is_complete and header.base_offset == self._next):
                self.restart()
                return None
            self._take(batch)
            self._next = header.last_offset + 1
            size += header.size
            if read >= _STEP_BATCHES or size >= _STEP_BYTES:
                return None
        if self._goes_on and self._next != end:
            self.restart()
            return None
        return Known(self._producers, end)

    def _take(self, batch: StoredBatch) -> None:
        try:
            self._producers.take(((batch.header, batch.data),))
        except ProtocolError as error:
            raise StorageError(f"damaged transaction marker: {error}", self._log.directory) from error
