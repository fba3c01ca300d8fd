"""Repeated Produce requests: they differ from an earlier one in their record batch alone.

A producer sends its batches to the same partitions again and again. Such a request need not be decoded: see
:mod:`.known_produces`. Its batch must be a usual one, see `usual_batch`. Every other request, and every batch that is
refused, is decided by :mod:`kafka_offsets.broker.api.produce`; tests compare log and responses.

Batches for one partition that a connection sends in one piece are written together.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.partition.batch_validation import usual_batch
from kafka_offsets.broker.partition.known_produces import KnownProduces, RepeatableProduce
from kafka_offsets.broker.wire.connection import ClientConnection
from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol.records import BatchHeader, read_batch_header
from kafka_offsets.storage.segments.assign_offsets import CheckedBatch

_TOGETHER_BYTES = 64 << 10
"""Batches are written together up to about this size."""


class RepeatedProduces:
    """Decides repeats: those that a connection sends one after the other for one partition are written together.

    decide  decides a request that must be decoded
    """

    def __init__(self, broker: Context, decide: Callable[[ClientConnection, bytes, Now], None]) -> None:
        self._broker = broker
        self._decide = decide
        self._accepted: list[tuple[RepeatableProduce, bytes, CheckedBatch]] = []
        self._bytes = 0

    def take(
        self, produces: KnownProduces, connection: ClientConnection, frame: bytes, body: int, now: Now
    ) -> bool:
        """Accept a repeat, which `write` appends; return False if it must be decoded.

        frame, body  the request without its size, and the position after its header
        """
        places = produces.places
        if produces.topics_version != self._broker.topics.version or len(frame) < body + places.rest:
            return False
        at = body + places.rest + frame[body + places.name_size]
        known = produces.known.get(frame[body:at])
        if known is None or known.topic.config is not known.config:
            return False
        if (place := places.records(frame, at)) is None:
            return False
        start, end = place
        found = usual_batch(frame, start, end, known.config, now)
        partition = known.partition
        if found is None or end - start > partition.log.config.segment_bytes:
            return False
        batch, producer_id = found
        accepted = self._accepted
        if accepted and (
            accepted[0][0].partition is not partition or self._bytes > _TOGETHER_BYTES or producer_id >= 0
        ):
            self.write(connection, now)
            if connection.unanswered:
                return False
        self._bytes += end - start
        self._accepted.append((known, frame, batch))
        return producer_id < 0 or self._append_once(connection, read_batch_header(frame, start), now)

    def _append_once(self, connection: ClientConnection, header: BatchHeader, now: Now) -> bool:
        """Append the accepted batch of an idempotent producer; return False if its sequence number must be decided."""
        ((known, _, batch),) = self._accepted
        partition = known.partition
        try:
            is_next = partition.producers.check(header) is ErrorCode.NONE
        except StorageError:  # the decoded request gets the error
            is_next = False
        if not is_next:
            self._accepted, self._bytes = [], 0
            return False
        base_offset = partition.log.log_end_offset
        if self.write(connection, now):
            partition.producers.add(header, base_offset, batch.max_timestamp, now.wall_ms)
        return True

    def write(self, connection: ClientConnection, now: Now) -> bool:
        """Append the accepted batches, and answer their requests; return whether the log has taken all of them.

        Each request whose batch it refuses is decided once more, and so are those after it.
        """
        accepted, size = self._accepted, self._bytes
        if not accepted:
            return True
        self._accepted, self._bytes = [], 0
        partition = accepted[0][0].partition
        log, growth = partition.log, self._broker.growth
        records = sum([batch.last_offset_delta for _, _, batch in accepted]) + len(accepted)
        count = len(accepted) if log.has_room(size, records) else 1
        answers: list[bytes] = []
        for first in range(0, len(accepted), count):
            together = accepted[first : first + count]
            offset = log.log_end_offset
            if growth.memory.refuses(log, size // len(accepted) * len(together)) is not None:
                break  # the decoded request gets the reason
            try:
                log.append_together([batch for _, _, batch in together], partition.leader_epoch)
            except StorageError:
                break
            for known, frame, batch in together:
                answers.append(known.answer(frame[4:8], offset, log.log_start_offset))
                offset += batch.last_offset_delta + 1
        if answers:
            growth.note(partition)
            connection.output += answers
            connection.output_bytes += sum(map(len, answers))
            self._broker.answers.writable[connection] = None
        for _, frame, _ in accepted[len(answers) :]:
            self._decide(connection, frame, now)
        return len(answers) == len(accepted)
