"""A partition that follows a leader: its producers and transactions are those of the records that it has."""

import random

import pytest

from kafka_offsets.broker.partition import partitions, producer_recovery
from kafka_offsets.broker.partition.partitions import LogLoadingError, Partition
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.records import encode_batch, read_batch_header
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.broker.partition.test_saved_producers import act, opened, scanned
from tests.cases import each_case

NOW = Now(1, 1_700_000_000_000)
PRODUCER = 2


def send(partition: Partition, sequence: int, producer_id: int = PRODUCER) -> None:
    batch = encode_batch(
        [(b"k", b"v", (), NOW.wall_ms)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    header = read_batch_header(batch)
    assert partition.producers.check(header) is ErrorCode.NONE
    partition.producers.add(header, partition.log.append(batch), NOW.wall_ms, NOW.wall_ms)


def leader_of_transactions() -> Partition:
    """Aborted at offset 2, committed at 5; of a third one there are the offsets 6 and 7."""
    leader = opened(MemoryFiles())
    for offset, sequence in ((0, 0), (1, 1), (3, 2), (4, 3), (6, 4), (7, 5)):
        if offset in (3, 6):
            leader.append_marker(PRODUCER, 0, 1, NOW, is_commit=offset == 6)
        send(leader, sequence)
    assert leader.log.log_end_offset == 8
    return leader


def copied(leader: Partition, from_offset: int = 0) -> bytes:
    return b"".join(batch.data for batch in leader.log.batches(from_offset))


# Where the follower is truncated; its last stable offset; what its producer has aborted.
CUTS = [
    (8, 6, [(0, 2)]),
    (7, 6, [(0, 2)]),
    (6, 6, [(0, 2)]),
    (5, 3, [(0, 2)]),
    (4, 3, [(0, 2)]),
    (3, 3, [(0, 2)]),
    (2, 0, []),
    (1, 0, []),
    (0, 0, []),
]


@each_case(("offset", "stable", "aborted"), CUTS)
@each_case("is_known", [True, False])
def test_transactions_are_those_of_the_remaining_records(
    offset: int, stable: int, aborted: list[tuple[int, int]], is_known: bool
) -> None:
    leader, follower = leader_of_transactions(), opened(MemoryFiles())
    follower.append_replicated(copied(leader))
    if is_known:
        assert follower.producers.dumps() == leader.producers.dumps()
    follower.truncate(offset)
    assert follower.last_stable_offset == stable
    assert [(each.first_offset, each.marker_offset) for each in follower.producers.aborted] == aborted
    follower.append_replicated(copied(leader, offset) if offset < 8 else b"" or copied_marker(leader))
    assert follower.producers.dumps() == scanned(follower.log)
    if offset < 8:
        assert follower.last_stable_offset == 6


def copied_marker(leader: Partition) -> bytes:
    end = leader.log.log_end_offset
    leader.append_marker(PRODUCER, 0, 1, NOW, is_commit=True)
    return copied(leader, end)


def test_a_follower_that_becomes_the_leader_knows_duplicates_and_open_transactions() -> None:
    leader, follower = leader_of_transactions(), opened(MemoryFiles())
    follower.append_replicated(copied(leader))
    sent_again = next(follower.log.batches(7))
    found = follower.producers.check(sent_again.header)
    assert not isinstance(found, ErrorCode) and found.base_offset == 7
    send(follower, 6)
    follower.append_marker(PRODUCER, 0, 1, NOW, is_commit=False)
    assert follower.last_stable_offset == 10
    assert follower.producers.dumps() == scanned(follower.log)


@pytest.mark.slow
def test_after_any_changes_of_leadership_and_truncations_producers_are_those_of_the_log(
    rng: random.Random,
) -> None:
    for _ in range(30):
        one, other = opened(MemoryFiles()), opened(MemoryFiles())
        epoch = 0
        for _ in range(30):
            for _ in range(rng.randrange(4)):
                act(one, rng, NOW)
            end = other.log.log_end_offset
            if one.log.log_end_offset > end:
                other.append_replicated(copied(one, end))
            if rng.random() < 0.4:
                assert other.producers.dumps() == scanned(other.log)
            if rng.random() < 0.4:
                for _ in range(rng.randrange(3)):  # what the other one never gets
                    act(one, rng, NOW)
                epoch += 1
                one, other = other, one
                common = one.log.log_end_offset
                one.leader_epoch = epoch
                one.log.start_epoch(epoch)
                other.truncate(common)
                if rng.random() < 0.3:
                    lower = rng.randrange(common + 1)
                    other.truncate(lower)
                    assert other.log.log_end_offset <= lower
            assert one.producers.dumps() == scanned(one.log)


def test_a_reading_in_steps_begins_again_when_the_log_is_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_recovery, "_FEW_RECORDS", 1)
    monkeypatch.setattr(producer_recovery, "_STEP_BATCHES", 2)
    waiting: list[Partition] = []
    log = Log.open(MemoryFiles(), f"{OFFSETS_TOPIC}-0", LogConfig(600), topic_id=bytes(16))
    follower = Partition(OFFSETS_TOPIC, bytes(16), 0, log, None, lambda each: waiting.append(each) or True)
    follower.append_replicated(copied(leader_of_transactions()))
    with pytest.raises(LogLoadingError):
        follower.producers.dumps()
    assert not follower.read_on() and not follower.read_on()
    follower.truncate(2)
    other = opened(MemoryFiles())
    for _ in range(2):
        other.log.append(encode_batch([(b"k", b"v", (), NOW.wall_ms)]))
    for sequence in range(6):
        send(other, sequence, producer_id=5)
    follower.append_replicated(copied(other, 2))
    while not follower.read_on():
        pass
    assert follower.last_stable_offset == 0
    assert follower.producers.dumps() == scanned(log)


def test_a_log_that_begins_again_has_no_producers() -> None:
    leader, follower = leader_of_transactions(), opened(MemoryFiles())
    follower.append_replicated(copied(leader))
    assert len(follower.producers) == 1
    end = leader.log.log_end_offset
    send(leader, 6)
    follower.append_replicated(copied(leader, end))
    follower.restart_at(end)
    assert (len(follower.producers), follower.last_stable_offset) == (0, end)


def test_producers_up_to_an_earlier_offset_stay_known(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = opened(MemoryFiles())
    leader = leader_of_transactions()
    follower.append_replicated(copied(leader))
    assert len(follower.producers) == 1
    end = follower.log.log_end_offset
    for sequence in range(6, 12):
        send(leader, sequence)
    follower.append_replicated(copied(leader, end))
    begun: list[int] = []
    reading = partitions.ProducerReading

    def counted(
        log: Log, known: producer_recovery.RecoveredProducers | None
    ) -> producer_recovery.ProducerReading:
        begun.append(0 if known is None else known.end_offset)
        return reading(log, known)

    monkeypatch.setattr(partitions, "ProducerReading", counted)
    follower.truncate(end + 2)
    assert follower.producers.dumps() == scanned(follower.log)
    assert begun == [end], "only what was appended since is read"
