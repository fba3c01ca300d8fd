import random

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.checkpoints import EpochEntry
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.segments.leader_epochs import EpochRun, LeaderEpochs
from kafka_offsets.storage.segments.segment import Segment, SegmentExpectations
from tests.storage.batches import batch, write

ENTRIES = [EpochEntry(1, 10), EpochEntry(4, 20), EpochEntry(6, 30)]


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (1, 20)),
        (3, (1, 20)),
        (4, (4, 30)),
        (5, (4, 30)),
        (6, (6, 35)),
        (7, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch_is_where_the_next_one_begins(epoch: int, answer: tuple[int, int]) -> None:
    assert LeaderEpochs(ENTRIES).end_offset_for(epoch, 35) == answer


def test_without_epochs_every_answer_is_unknown() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest == -1
    assert epochs.end_offset_for(0, 5) == (-1, -1)
    assert epochs.epoch_at(0) == -1


def test_an_epoch_that_wrote_nothing_gives_way() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.assign(7, 40)
    assert not epochs.assign(7, 41)
    assert not epochs.assign(3, 42)
    assert epochs.assign(9, 40)
    assert epochs.entries == [*ENTRIES, EpochEntry(9, 40)]


@pytest.mark.parametrize(
    ("offset", "left"),
    [(31, 3), (30, 2), (20, 1), (11, 1), (10, 0)],
)
def test_truncation_forgets_the_epochs_that_begin_at_the_offset_or_later(offset: int, left: int) -> None:
    epochs = LeaderEpochs(ENTRIES)
    epochs.truncate_end(offset)
    assert epochs.entries == ENTRIES[:left]


@pytest.mark.parametrize(
    ("offset", "entries"),
    [
        (5, ENTRIES),
        (10, ENTRIES),
        (15, [EpochEntry(1, 15), *ENTRIES[1:]]),
        (20, ENTRIES[1:]),
        (99, [EpochEntry(6, 99)]),
    ],
)
def test_a_later_log_start_moves_the_epoch_that_holds_it(offset: int, entries: list[EpochEntry]) -> None:
    epochs = LeaderEpochs(ENTRIES)
    epochs.trim_start(offset)
    assert epochs.entries == entries


def test_entries_agree_with_batches_of_the_same_epochs_only() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.agrees_with([EpochRun(1, 10, 19), EpochRun(6, 31, 34)])
    assert not epochs.agrees_with([EpochRun(1, 10, 20)])
    assert not epochs.agrees_with([EpochRun(2, 10, 19)])
    assert not epochs.agrees_with([EpochRun(1, 9, 19)])
    assert LeaderEpochs.of_runs([EpochRun(1, 10, 19), EpochRun(4, 20, 20)]).entries == ENTRIES[:2]


@pytest.mark.parametrize("may_fall", [False, True])
def test_the_epochs_of_a_segment_are_those_of_its_batches(may_fall: bool, rng: random.Random) -> None:
    """Batches without an epoch are in no run, or within that of the batches around them."""
    for _ in range(200):
        epochs = [rng.choice((-1, 0, 0, 3, 4)) for _ in range(rng.randrange(8))]
        if not may_fall:
            epochs.sort()
        files, data, end, expected = MemoryFiles(), bytearray(), 0, list[EpochRun]()
        for epoch in epochs:
            count = rng.randrange(1, 4)
            data += batch([b"v"] * count, base_offset=end, leader_epoch=epoch)
            if epoch >= 0:
                is_same = bool(expected) and expected[-1].epoch == epoch
                first = expected.pop().first_offset if is_same else end
                expected.append(EpochRun(epoch, first, end + count - 1))
            end += count
        write(files, "t-0/00000000000000000000.log", bytes(data))
        segment = Segment(files, "t-0", 0, 4096)
        assert segment.load(last=True, known=SegmentExpectations(epochs_may_fall=may_fall)) is None
        assert (segment.epoch_runs, segment.end_offset) == (expected, end)


def test_a_batch_without_an_epoch_after_one_that_has_it_is_refused() -> None:
    for earlier in (0, 5):
        files = MemoryFiles()
        write(files, "t-0/00000000000000000000.log", bytes(batch([b"v"], leader_epoch=-1)))
        segment = Segment(files, "t-0", 0, 4096)
        with pytest.raises(StorageError, match=f"leader epoch -1 after {earlier}"):
            segment.load(last=True, known=SegmentExpectations(least_epoch=earlier))
