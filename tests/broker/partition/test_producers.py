"""Idempotent producers of a partition, where a request does not show it: forgetting, markers, wrapping."""

import pytest

from kafka_offsets.broker.partition import producers as module
from kafka_offsets.broker.partition.producers import AppendedBatch, Producers, last_sequence
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.records import BatchHeader, encode_marker, read_batch_header
from tests.drivers.partitions import batch

DAY = 86_400_000


def header(
    sequence: int, *, producer: int = 1, epoch: int = 0, is_transactional: bool = False
) -> BatchHeader:
    data = batch(
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=is_transactional,
    )
    return read_batch_header(data)


def marker(*, producer: int = 1, epoch: int = 0, is_commit: bool = True) -> tuple[BatchHeader, bytes]:
    data = encode_marker(producer, epoch, 0, 1000, is_commit=is_commit)
    return read_batch_header(data), bytes(data)


@pytest.mark.parametrize(
    ("first", "delta", "last"),
    [(0, 0, 0), (5, 2, 7), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 4, 2)],
)
def test_zero_follows_the_greatest_sequence_number(first: int, delta: int, last: int) -> None:
    assert last_sequence(first, delta) == last


def test_a_producer_idle_for_a_day_is_forgotten_when_another_one_writes() -> None:
    producers = Producers()
    producers.add(header(0, producer=1), 0, 5, 1000)
    producers.add(header(0, producer=2), 1, 5, 2000)
    producers.add(header(1, producer=1), 2, 5, 3000)
    producers.add(header(0, producer=3), 3, 5, 2000 + DAY)
    assert len(producers) == 2
    assert producers.check(header(9, producer=2)) is ErrorCode.NONE
    assert producers.check(header(9, producer=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_producer_read_back_from_the_log_is_not_taken_for_idle() -> None:
    producers = Producers.of([(header(0), b"")])
    producers.add(header(0, producer=2), 1, 5, 10 * DAY)
    assert producers.check(header(0)) == AppendedBatch(0, 0, 0, header(0).max_timestamp)


def test_beyond_the_bound_the_longest_idle_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PRODUCERS", 3)
    producers = Producers()
    for producer in range(5):
        producers.add(header(0, producer=producer), producer, 5, 1000)
    assert len(producers) == 3
    assert producers.check(header(9, producer=1)) is ErrorCode.NONE
    assert producers.check(header(9, producer=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_without_a_producer_are_not_counted() -> None:
    assert len(Producers.of([(read_batch_header(batch()), b"")])) == 0


def test_a_new_epoch_continues_in_a_transaction_whose_marker_is_missing() -> None:
    producers = Producers()
    producers.add(header(0, epoch=0, is_transactional=True), 0, 5, 1000)
    first, second = (header(sequence, epoch=1, is_transactional=True) for sequence in (0, 1))
    producers.attempt(first, begins_at_0=False)
    assert producers.check(first) is ErrorCode.NONE
    producers.add(first, 1, 5, 1000)
    assert producers.check(second) is ErrorCode.NONE


def test_a_transaction_marker_has_an_epoch_and_no_sequence_number() -> None:
    """Logs of a real broker hold markers: the sequence goes on after one of the same epoch."""
    producers = Producers.of([(header(0), b""), marker()])
    assert producers.check(header(1)) is ErrorCode.NONE
    producers = Producers.of([(header(0), b""), marker(epoch=1)])
    assert producers.check(header(1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.check(header(0, epoch=1)) is ErrorCode.NONE
    assert producers.check(header(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
