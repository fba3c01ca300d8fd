"""Number of starts of a data directory: it determines the leader epochs of its partitions.

    starts    {"version": 1, "lines": 0, "starts": 3} 60e0ab7d

A single-node Kafka elects the leader of each partition twice from one start to the next: when it stops, or is found to
have died, and when it starts. So each epoch is greater by 2 after each start, clean or not, even for an unused
partition. This broker counts the starts, in one file, and writes to no partition for that.
Sources: KIP-101, KIP-320; recorded from Kafka 4.3.1.
"""

from collections.abc import Container

from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.files.checked_lines import VERSION, Row, decode_lines, encode_line
from kafka_offsets.storage.files.checkpoints import decode_epochs
from kafka_offsets.storage.files.files import Files, join
from kafka_offsets.storage.segments.leader_epochs import LEADER_EPOCH_CHECKPOINT, NO_EPOCH

STARTS = "starts"

_EPOCHS_A_START = 2

logger = new_logger(__name__)

CountedFrom = tuple[tuple[int, int], ...]
"""The starts from which the epochs of a topic's partitions count, as (first partition, start). For a partition the last
pair counts whose first partition is not after it. None: from start 0, which creates the directory."""


def count_start(files: Files, names: Container[str], *, is_used: bool) -> int:
    """Return the number of this start, 0 in a new directory, once it is on the disk.

    is_used  whether there are signs of an earlier start: the first one leaves no file
    On a full disk it is not written, and the next start has the same number: only partitions without records since
    then have the same epoch again, as an epoch is later than that of the last record. What is committed can be read.
    StorageError when the file is damaged or cannot be written for another reason.
    """
    if STARTS in names:
        number = decode_starts(files.read_all(STARTS), STARTS) + 1
    elif is_used:
        number = 1
    else:
        return 0
    row = {"version": VERSION, "lines": 0, "starts": number}
    try:
        files.replace_atomically(STARTS, encode_line(row))
    except StorageError as error:
        if not error.is_full_disk:
            raise
        logger.warning("this start is not counted: %s", error)
    return number


def decode_starts(data: bytes, path: str) -> int:
    """Return the number of the latest start; StorageError when the file is damaged."""
    head, _ = decode_lines(data, path, "lines")
    number = head.get("starts")
    if not isinstance(number, int) or number < 0:
        raise StorageError(f"{number!r} is no number of starts", path, 0)
    return number


def decode_counted_from(row: Row) -> CountedFrom:
    """Read the starts from a line of the catalogue; one of version 1 has none."""
    pairs = row.get("counted_from")
    return tuple((int(first), int(start)) for first, start in pairs) if pairs else ()


def leader_epoch(start: int, counted_from: CountedFrom, partition: int, stored: int) -> int:
    """Return the leader epoch of a partition in a start: later than `stored`, the last one in its log, -1 for none."""
    origin = max((counted for counted in counted_from if counted[0] <= partition), default=(0, 0))[1]
    return max(_EPOCHS_A_START * (start - origin), stored + 1)


def origin_after(start: int, stored: int) -> int:
    """Return the start to count from so that the epoch of `start` is later than `stored`."""
    return start - (stored + _EPOCHS_A_START) // _EPOCHS_A_START


def stored_epoch(files: Files, directory: str) -> int:
    """Return the last epoch in the checkpoint of a log, -1 when there is none. StorageError when it is damaged."""
    path = join(directory, LEADER_EPOCH_CHECKPOINT)
    entries = decode_epochs(files.read_all(path), path) if files.exists(path) else []
    return entries[-1].epoch if entries else NO_EPOCH
