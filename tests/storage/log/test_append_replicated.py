"""Batches that a leader sent: they are appended as they are, or none of them is."""

import pytest

from kafka_offsets.errors import ProtocolError
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.segments.segment import MAX_RELATIVE_OFFSET
from tests.storage.batches import TIMESTAMP, batch, content, copy_of


def new_log(segment_bytes: int = 1 << 20) -> Log:
    return Log.open(MemoryFiles(), "t-0", LogConfig(segment_bytes=segment_bytes))


def sent(base_offset: int, *values: bytes, epoch: int = 0) -> bytes:
    return bytes(batch(values, base_offset=base_offset, leader_epoch=epoch))


def epochs(log: Log) -> list[str]:
    return log.files.read_all("t-0/leader-epoch-checkpoint").decode().splitlines()[2:]


def test_the_batches_of_a_leader_keep_their_bytes() -> None:
    log = new_log()
    data = sent(0, b"a", b"b") + sent(2, b"c", epoch=1) + sent(9, b"d", epoch=3)
    log.append_replicated(data)
    assert log.log_end_offset == 10
    assert log.read(0, 1 << 20) == data
    assert content(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (9, b"d")]
    assert log.max_timestamp() == (TIMESTAMP + 1, 1)
    assert epochs(log) == ["0 0", "1 2", "3 9"]
    assert log.leader_epoch == 3


def test_a_log_of_replicated_batches_opens_as_it_was() -> None:
    log = new_log(segment_bytes=200)
    for number in range(20):
        log.append_replicated(sent(3 * number, b"x" * 20, epoch=number // 7))
    log.sync()
    assert len(log.segments) > 5
    opened = Log.open(log.files, "t-0", log.config, synced_offset=log.log_end_offset)
    assert content(opened) == content(log)
    assert opened.recovery is None
    assert opened.log_end_offset == log.log_end_offset == 58
    assert epochs(log) == ["0 0", "1 21", "2 42"]


def test_replicated_batches_roll_as_others_do() -> None:
    one, other = new_log(segment_bytes=300), new_log(segment_bytes=300)
    for number in range(12):
        one.append(batch([b"." * 20]), leader_epoch=0)
        other.append_replicated(sent(number, b"." * 20))
    assert [segment.base_offset for segment in one.segments] == [each.base_offset for each in other.segments]
    assert len(one.segments) > 2


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


FIRST = sent(5, b"first")
OLD_FORMAT = bytearray(sent(6, b"old"))
OLD_FORMAT[16] = 1
REFUSED = [
    (b"", ValueError, "no whole record batch at byte 0"),
    (sent(4, b"x"), ValueError, "a batch of offset 4, at least 5 expected"),
    (FIRST + sent(5, b"again"), ValueError, "a batch of offset 5, at least 6 expected"),
    (FIRST + sent(6, b"x")[:-1], ValueError, f"no whole record batch at byte {len(FIRST)}"),
    (FIRST + sent(6, b"x")[:50], ValueError, f"no whole record batch at byte {len(FIRST)}"),
    (FIRST + bytes(OLD_FORMAT), ValueError, f"no whole record batch at byte {len(FIRST)}"),
    (FIRST + flipped(sent(6, b"x")), ProtocolError, "checksum of the batch is wrong, of offset 6"),
    (
        FIRST + sent(6, b"x", epoch=2) + sent(7, b"x", epoch=1),
        ValueError,
        "leader epoch 1 after 2 at offset 7",
    ),
    (sent(5, b"x", epoch=-1), ValueError, "leader epoch -1 after 0 at offset 5"),
    (FIRST + sent(6 + MAX_RELATIVE_OFFSET, b"x"), ValueError, "too far from the log end 5"),
]


@pytest.mark.parametrize(("data", "error", "message"), REFUSED)
def test_of_batches_that_are_refused_none_is_appended(
    data: bytes, error: type[Exception], message: str
) -> None:
    log = new_log()
    log.append_replicated(sent(0, b"a", b"b", b"c", b"d", b"e"))
    before = copy_of(log.files, "t-0")
    with pytest.raises(error, match=message):
        log.append_replicated(data)
    assert copy_of(log.files, "t-0") == before
    assert (log.log_end_offset, log.leader_epoch) == (5, 0)
    log.append_replicated(FIRST)
    assert content(log)[-1] == (5, b"first")


def test_an_epoch_without_records_is_replaced_by_that_of_the_leader() -> None:
    # A broker that starts begins an epoch of its own: as a follower it then gets older batches of the leader.
    log = new_log()
    log.append_replicated(sent(0, b"a"))
    log.start_epoch(7)
    log.append_replicated(sent(1, b"b", epoch=2))
    assert epochs(log) == ["0 0", "2 1"]
    with pytest.raises(ValueError, match="leader epoch 1 after 2"):
        log.append_replicated(sent(2, b"c", epoch=1))


def test_the_high_watermark_of_a_replica_is_set_and_is_within_the_log() -> None:
    log = new_log()
    log.append_replicated(sent(0, b"a", b"b", b"c"))
    assert log.high_watermark == 3
    log.replicated_to = 2
    assert log.high_watermark == 2
    log.append_replicated(sent(3, b"d"))
    assert log.high_watermark == 2
    log.replicated_to = 9
    assert log.high_watermark == 4
    log.truncate(1)
    assert log.high_watermark == 0
    log.append_replicated(sent(0, b"e", b"f", epoch=1))
    assert log.high_watermark == 0, "what follows a truncation is not replicated yet"
    log.delete_records_before(1)
    assert log.high_watermark == 1
    log.restart_at(20)
    assert (log.high_watermark, log.replicated_to) == (20, 20)
