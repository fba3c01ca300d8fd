"""What became of the transactional records of a piece of the log, whose markers stand in it, after it, or nowhere."""

import pytest

from kafka_offsets.spark.reader.outcomes import (
    ABORTED,
    COMMITTED,
    NONE,
    OPEN,
    Ahead,
    TransactionEnd,
    of_batches,
)
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.storage.keyed import mark, put

Wanted = list[int] | None


def log_of(letters: str) -> Log:
    """A log of a batch for each letter: small for records, large for the marker (A aborts), - outside transactions."""
    log = Log.open(MemoryFiles(), "t-0", LogConfig())
    for letter in letters:
        if letter == "-":
            put(log, (b"k", b"v"))
        elif letter.islower():
            put(log, (b"k", b"v"), producer=ord(letter), sequence=0, transactional=True)
        else:
            mark(log, ord(letter.lower()), commit=letter != "A")
    return log


def markers_of(letters: str) -> list[TransactionEnd]:
    return [
        TransactionEnd(offset, ord(letter.lower()), ABORTED if letter == "A" else COMMITTED)
        for offset, letter in enumerate(letters)
        if letter.isupper()
    ]


def outcomes(letters: str, begin: int, end: int) -> Wanted:
    """The outcomes of the batches from offset `begin` to before `end`, asked of all markers of the log."""
    log = log_of(letters)
    whole = log.read(begin, 1 << 20, end_offset=end)
    log = Log.open(MemoryFiles(), "t-0", LogConfig(), log_start_offset=begin)
    log.append(bytearray(whole))
    (records,) = log.columns()
    found = of_batches(records, Ahead(markers_of(letters)))
    return None if found is None else found.tolist()


@pytest.mark.parametrize(
    ("letters", "begin", "end", "expected"),
    [
        ("--", 0, 2, None),
        ("-a", 0, 2, [NONE, OPEN]),
        ("a-A", 0, 3, [ABORTED, NONE, ABORTED]),
        ("x-XxaA", 3, 5, [OPEN, ABORTED]),
        ("aA-aZ", 2, 4, [NONE, OPEN]),
        # Two transactions of one producer: the marker of the first one says nothing of the second.
        ("xXxx", 2, 4, [OPEN, OPEN]),
        ("aAaA", 0, 4, [ABORTED] * 4),
        ("axAXax", 4, 6, [OPEN, OPEN]),
        ("axXaAx", 0, 4, [ABORTED, COMMITTED, COMMITTED, ABORTED]),
    ],
)
def test_the_first_marker_of_a_producer_after_a_record_decides_its_outcome(
    letters: str, begin: int, end: int, expected: Wanted
) -> None:
    assert outcomes(letters, begin, end) == expected


def test_of_two_markers_after_a_piece_the_nearer_one_counts() -> None:
    log = log_of("aa")
    (records,) = log.columns()
    producer = ord("a")
    for first, second in ((ABORTED, COMMITTED), (COMMITTED, ABORTED)):
        before = TransactionEnd(-1, producer, second)  # of an earlier transaction
        ahead = Ahead([before, TransactionEnd(5, producer, first), TransactionEnd(9, producer, second)])
        found = of_batches(records, ahead)
        assert found is not None and found.tolist() == [first, first]
        assert ahead.outcome(producer, 5) == second
        assert ahead.outcome(producer, 9) == OPEN
