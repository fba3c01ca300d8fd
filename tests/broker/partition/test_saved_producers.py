"""What a stopped log knew of its producers is what the next start knows, without reading the log again."""

import random
from collections.abc import Callable

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.partition import partitions
from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.broker.partition.producer_recovery import read_producers, saved_producers
from kafka_offsets.broker.partition.producers import Producers
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.clock import ManualClock, Now
from kafka_offsets.errors import ErrorCode, OpeningAbandonedError, StorageError
from kafka_offsets.protocol.records import encode_batch, read_batch_header
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.segments.segment_names import PRODUCER_STATE
from tests.drivers.core import make_core
from tests.storage.crash.crash_files import RecordingFiles
from tests.storage.crash.faults import FaultyFiles
from tests.storage.keyed import mark, put

PATH = f"t-0/{PRODUCER_STATE}"
PRODUCER_IDS = range(5)


def opened(files: MemoryFiles, topic: str = "t", topic_id: bytes = bytes(16)) -> Partition:
    log = Log.open(files, f"{topic}-0", LogConfig(600), topic_id=topic_id)
    return Partition(topic, topic_id, 0, log, read_producers(log))


def scanned(log: Log) -> bytes:
    """What all batches of a log say."""
    return Producers.of((batch.header, batch.data) for batch in log.batches()).dumps()


def act(partition: Partition, rng: random.Random, now: Now) -> None:
    """Produce as a producer may: with and without transactions, records without a producer, ends of transactions."""
    producers, producer_id = partition.producers, rng.choice(PRODUCER_IDS)
    known = producers.get(producer_id)
    epoch = 0 if known is None else known.epoch
    records = [(b"k", b"v", (), now.wall_ms)] * rng.randrange(1, 4)
    if rng.random() < 0.15:
        partition.log.append(encode_batch(records))
    elif producers.open_from(producer_id) is not None and rng.random() < 0.4:
        bump = rng.randrange(2)
        partition.append_marker(
            producer_id, epoch + bump, rng.randrange(3), now, is_commit=rng.random() < 0.5
        )
    else:
        last = known.batches[-1].last_sequence if known is not None and known.batches else -1
        batch = encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=last + 1,
            transactional=producer_id % 2 == 0,
        )
        assert producers.check(read_batch_header(batch)) is ErrorCode.NONE
        base_offset = partition.log.append(batch)
        producers.add(read_batch_header(batch), base_offset, now.wall_ms, now.wall_ms)


def stop(partition: Partition, *, clean: bool = True) -> None:
    if clean:
        partition.leave_producers(keep_index=False)
    partition.log.close(sync=False)


@pytest.mark.slow
def test_every_start_knows_what_a_scan_of_the_log_knows(rng: random.Random) -> None:
    """Stops with and without a word, saved states that are flipped, cut, or gone."""
    used = 0
    for _ in range(60):
        files = MemoryFiles()
        for _ in range(6):
            partition = opened(files)
            assert partition.producers.dumps() == scanned(partition.log)
            for step in range(rng.randrange(12)):
                act(partition, rng, Now(1_700_000_000_000 + step, 0))
            assert partition.producers.dumps() == scanned(partition.log)
            stop(partition, clean=rng.random() < 0.6)
            if files.exists(PATH) and rng.random() < 0.3:
                data = bytearray(files.read_all(PATH))
                at = rng.randrange(len(data))
                data[at] ^= 1 << rng.randrange(8)
                damaged = bytes(data[:at]) if rng.random() < 0.5 else bytes(data)
                files.replace_atomically(PATH, damaged, sync=False)
            log = Log.open(files, "t-0", LogConfig(600), topic_id=bytes(16))
            used += saved_producers(log) is not None
            log.close(sync=False)
    assert used > 100


def filled(files: MemoryFiles, count: int = 30) -> Partition:
    return filled_more(opened(files), count)


def filled_more(partition: Partition, count: int) -> Partition:
    rng = random.Random(7)
    for _ in range(count):
        act(partition, rng, Now(1_700_000_000_000, 0))
    return partition


def batches_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    read: list[int] = []
    real = Producers.accept

    def accept(self: Producers, batches: object) -> None:
        found = list(batches)  # type: ignore[call-overload]
        read.append(len(found))
        real(self, found)

    monkeypatch.setattr(Producers, "accept", accept)
    return lambda: sum(read)


def test_only_what_is_after_the_last_clean_stop_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    stop(filled(files))
    partition = opened(files)
    for _ in range(3):
        partition.log.append(encode_batch([(None, b"v", (), 0)]))
    stop(partition, clean=False)
    read = batches_read(monkeypatch)
    opened(files)
    assert read() == 3


def test_a_log_without_producers_is_not_read_for_them_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_WORTH_BYTES", 1)
    files = MemoryFiles()
    partition = opened(files)
    for _ in range(20):
        partition.log.append(encode_batch([(None, b"v", (), 0)]))
    stop(partition)
    read = batches_read(monkeypatch)
    assert opened(files).knows_producers
    assert read() == 0


def test_a_log_that_continued_differently_is_read_as_a_whole() -> None:
    """A power failure took the end of the log and not the file that tells of it; another end was written."""
    files = MemoryFiles()
    partition = filled(files)
    before = {f"t-0/{name}": files.read_all(f"t-0/{name}") for name in files.list_directory("t-0")}
    other = MemoryFiles()
    other.make_directory("t-0")
    for path, data in before.items():
        other.replace_atomically(path, data, sync=False)
    partition.log.append(
        encode_batch([(None, b"one", (), 0)], producer_id=70, producer_epoch=0, base_sequence=0)
    )
    stop(partition)
    other.replace_atomically(PATH, files.read_all(PATH), sync=False)
    again = opened(other)
    assert again.producers.get(70) is None, "the log is shorter than the state"
    again.log.append(encode_batch([(None, b"two", (), 0)], producer_id=71, producer_epoch=0, base_sequence=0))
    stop(again, clean=False)
    found = opened(other)
    assert saved_producers(found.log) is None
    assert [found.producers.get(number) is not None for number in (70, 71)] == [False, True]


def test_a_state_is_not_taken_for_another_last_batch_with_the_same_offsets() -> None:
    """A restored directory may hold the file of another log; only the checksum of the last batch tells."""
    files, other = MemoryFiles(), MemoryFiles()
    for made, number in ((files, 70), (other, 71)):
        partition = opened(made)
        batch = encode_batch([(None, b"v", (), 0)], producer_id=number, producer_epoch=0, base_sequence=0)
        partition.producers.add(read_batch_header(batch), partition.log.append(batch), 0, 0)
        stop(partition)
    assert saved_producers(opened(files).log) is not None
    other.replace_atomically(PATH, files.read_all(PATH), sync=False)
    found = opened(other).producers
    assert [found.get(number) is not None for number in (70, 71)] == [False, True]


def test_a_state_of_an_end_that_was_lost_is_removed_before_the_log_continues() -> None:
    """What a producer sends again may stand where it stood, after another batch than before."""
    files, other = MemoryFiles(), MemoryFiles()
    batches = [
        encode_batch([(None, b"v", (), 0)], producer_id=number, producer_epoch=0, base_sequence=0)
        for number in (70, 71, 72)
    ]
    for one, left in ((files, batches[:2]), (other, ())):
        partition = opened(one)
        for batch in left:
            partition.producers.add(read_batch_header(batch), partition.log.append(batch), 0, 0)
        stop(partition)
    other.replace_atomically(PATH, files.read_all(PATH), sync=False)
    after = opened(other)
    for batch in (batches[2], batches[1]):
        after.log.append(batch)
    stop(after, clean=False)
    found = opened(other).producers
    assert [found.get(number) is not None for number in (70, 71, 72)] == [False, True, True]


def test_it_is_written_down_while_the_broker_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_CATCH_UP_BYTES", 1)
    files, clock = RecordingFiles(), ManualClock()
    core = make_core(files, clock=clock, log_flush_offset_checkpoint_interval_ms=1000)
    written = []
    for name in ("t", "u"):
        topic_admin.create_topic(core.broker, name, 1, {})
        partition = core.topics.partition(name, 0)
        assert partition is not None
        written.append(filled_more(partition, 20))
    for ms in (1000, 5):  # one of them in a later turn
        clock.advance(ms)
        core.run_due()
        core.end_turn()
    for partition in written:
        filled_more(partition, 3)
    files.die()
    read = batches_read(monkeypatch)
    for before in written:
        after = opened(files, before.topic, before.topic_id)
        assert after.producers.dumps() == before.producers.dumps()
    assert read() == 6


def test_a_log_whose_stale_state_cannot_be_removed_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    files = FaultyFiles()
    core = make_core(files)
    topic_admin.create_topic(core.broker, "t", 1, {})
    partition = core.topics.partition("t", 0)
    assert partition is not None
    filled_more(partition, 20)
    core.close()
    files.replace_atomically(PATH, b"of another log", sync=False)
    core = make_core(files)
    files.only = lambda operation, path: (operation, path) == ("remove", PATH)
    files.calls.clear()
    files.fail_at, files.stuck = 1, True
    logs: list[Log] = []
    monkeypatch.setattr(partitions, "saved_producers", lambda log: logs.append(log) or saved_producers(log))
    with pytest.raises(StorageError, match="cannot remove"):
        core.topics.partition("t", 0)
    assert [log.closed for log in logs] == [True]
    files.fail_at, files.stuck, files.failed = 0, False, False
    again = core.topics.partition("t", 0)
    assert again is not None
    assert again.producers.dumps() == scanned(again.log)
    assert not files.exists(PATH)


def test_many_producers_are_written_down_by_a_stop_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_CATCH_UP_BYTES", 1)
    monkeypatch.setattr(partitions, "_MANY_PRODUCERS", 1)
    partition = filled(MemoryFiles())
    assert partition.producers_writer() is None


def test_where_compaction_has_taken_the_end_of_a_transaction_the_log_is_read_as_a_whole() -> None:
    """The saved state knows the transaction as open, and its marker is not there any more."""
    files = FaultyFiles()
    log = Log.open(files, "t-0", LogConfig(100), topic_id=bytes(16))
    put(log, (b"a", b"1"), producer=9, transactional=True)
    partition = Partition("t", bytes(16), 0, log, read_producers(log))
    assert partition.producers.open_from(9) == 0
    stop(partition)
    log = Log.open(files, "t-0", LogConfig(100), topic_id=bytes(16))
    marker = mark(log, 9, commit=False)
    put(log, (b"b", b"2"))
    put(log, (b"c", b"3"))
    log.close(sync=False)
    assert opened(files).producers.open_from(9) is None
    files.remove(f"t-0/{marker:020d}.log")
    log = Log.open(files, "t-0", LogConfig(100), topic_id=bytes(16))
    assert saved_producers(log) is not None
    found = read_producers(log)
    assert found.producers.dumps() == scanned(log)


def test_reading_ends_when_the_log_is_no_longer_wanted() -> None:
    partition = filled(MemoryFiles())
    with pytest.raises(OpeningAbandonedError):
        read_producers(partition.log, lambda: True)


def test_the_offsets_topic_catches_up_with_what_its_coordinator_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = MemoryFiles()
    partition = opened(files, OFFSETS_TOPIC)
    for sequence in range(3):
        batch = encode_batch(
            [(b"k", b"v", (), 0)], producer_id=4, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        partition.log.append(batch)
    assert partition.producers.dumps() == scanned(partition.log)
    assert partition.last_stable_offset == 0
    stop(partition)
    read = batches_read(monkeypatch)
    assert opened(files, OFFSETS_TOPIC).last_stable_offset == 0
    assert read() == 0
