"""Producer recovery: reads the producers of a log from the saved file and from batches.

Opening a log does that at once. The producers of the offsets topic are rarely needed and its log may be long: it is
read in steps, while requests are served.
"""

from collections.abc import Callable
from typing import NamedTuple

from kafka_offsets.broker.partition.producers import Producers
from kafka_offsets.errors import OpeningAbandonedError, ProtocolError, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.log.log import Log
from kafka_offsets.storage.log.producer_state import forget_producer_state, saved_producer_state
from kafka_offsets.storage.segments.stored_batches import StoredBatch

logger = new_logger(__name__)

_STEP_BATCHES = 500
_STEP_BYTES = 4 << 20
_FEW_RECORDS = 5000
"""This many offsets are at most as many batches: reading them takes less than a tenth of a second."""


class RecoveredProducers(NamedTuple):
    """Producers of a log at an offset."""

    producers: Producers
    end_offset: int


def saved_producers(log: Log) -> RecoveredProducers | None:
    """Return the saved producers of a log; None if the file cannot be trusted: then it is removed.

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
        logger.warning("%s: the saved state of its producers is not used: %s", log.directory, error)
        forget_producer_state(log)
        return None
    producers.forget_aborted_before(log.log_start_offset)
    return RecoveredProducers(producers, end_offset)


def read_producers(
    log: Log, is_abandoned: Callable[[], bool] = lambda: False, saved: RecoveredProducers | None = None
) -> RecoveredProducers:
    """Return the producers of a log, from the saved file and the batches after it, or from all batches.

    saved  the result of `saved_producers`, if it was called before
    Can be called in any thread. StorageError when a batch is damaged; OpeningAbandonedError soon after `is_abandoned`.
    """
    return ProducerReading(log, saved).finish(is_abandoned)


def is_near(log: Log, offset: int) -> bool:
    """Whether the rest of a log from an offset on is short enough to be read at once."""
    return log.log_end_offset - offset <= _FEW_RECORDS


class ProducerReading:
    """Reads the producers of a log in steps of some milliseconds; the log may grow in the meantime."""

    def __init__(self, log: Log, known: RecoveredProducers | None) -> None:
        """Begin after `known` (the caller must not use it any more) or the saved file, otherwise at the log start."""
        self._log = log
        self._begin(known or saved_producers(log))

    def _begin(self, recovered: RecoveredProducers | None) -> None:
        self._goes_on = recovered is not None
        self._producers = Producers() if recovered is None else recovered.producers
        self._next = self._log.log_start_offset if recovered is None else recovered.end_offset

    @property
    def is_short(self) -> bool:
        """Whether the rest can be read at once."""
        return is_near(self._log, self._next)

    def restart(self) -> None:
        """Start again: unread batches were compacted, and may have contained ends of transactions."""
        self._begin(None)

    def finish(self, is_abandoned: Callable[[], bool] = lambda: False) -> RecoveredProducers:
        """Read the rest, as `read_producers`."""
        while not is_abandoned():
            if (recovered := self.step()) is not None:
                return recovered
        raise OpeningAbandonedError(self._log.directory)

    def step(self) -> RecoveredProducers | None:
        """Take one step; return the producers at the end of the log. Raises StorageError for a damaged batch."""
        end, size = self._log.log_end_offset, 0
        batches = self._log.batches(self._next, verify=False) if self._next < end else iter(())
        for batch_count, batch in enumerate(batches, 1):
            header = batch.header
            is_complete = header.record_count == header.last_offset_delta + 1
            if self._goes_on and not (is_complete and header.base_offset == self._next):
                self.restart()
                return None
            self._accept(batch)
            self._next = header.last_offset + 1
            size += header.size
            if batch_count >= _STEP_BATCHES or size >= _STEP_BYTES:
                return None
        if self._goes_on and self._next != end:
            self.restart()
            return None
        return RecoveredProducers(self._producers, end)

    def _accept(self, batch: StoredBatch) -> None:
        try:
            self._producers.accept(((batch.header, batch.data),))
        except ProtocolError as error:
            raise StorageError(f"damaged transaction marker: {error}", self._log.directory) from error
