"""The producers of a long offsets log: read in steps while it is served, and what others ask for does not wait."""

import random

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.partition import producer_recovery
from kafka_offsets.broker.partition.partitions import LogLoadingError, Partition
from kafka_offsets.broker.partition.producers import Producers
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.drivers.core import CoreClient, make_core
from tests.drivers.transactions import Producer, fetch, fetch_request
from tests.storage.keyed import mark, put

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
PRODUCER_ID = 9


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of a few batches are long."""
    monkeypatch.setattr(producer_recovery, "_FEW_RECORDS", 4)
    monkeypatch.setattr(producer_recovery, "_STEP_BATCHES", 3)


def long_log() -> Log:
    log = Log.open(MemoryFiles(), f"{OFFSETS_TOPIC}-0", LogConfig(200), topic_id=bytes(16))
    for number in range(10):
        put(log, (b"k%d" % number, b"v"))
    put(log, (b"open", b"v"), producer=PRODUCER_ID, transactional=True)
    return log


def partition_of(log: Log, waiting: list[Partition]) -> Partition:
    def read_later(partition: Partition) -> bool:
        waiting.append(partition)
        return True

    return Partition(OFFSETS_TOPIC, bytes(16), 0, log, None, read_later)


def scanned(log: Log) -> bytes:
    return Producers.of((batch.header, batch.data) for batch in log.batches()).dumps()


def test_a_long_log_is_read_in_steps_and_raises_log_loading_error_in_the_meantime() -> None:
    waiting: list[Partition] = []
    partition = partition_of(long_log(), waiting)
    steps = 0
    for _ in range(2):
        with pytest.raises(
            LogLoadingError, match=f"{OFFSETS_TOPIC}-0: the log is being read for its producers"
        ):
            assert partition.last_stable_offset
    assert waiting == [partition], "one reading"
    while not partition.read_on():
        steps += 1
    assert steps == 3
    assert partition.knows_producers
    assert partition.last_stable_offset == 10


def test_what_is_appended_and_compacted_in_the_meantime_is_in_what_is_known(rng: random.Random) -> None:
    """Between any two steps: batches, transactions that begin and end, segments that compaction rewrites."""
    for _ in range(100):
        waiting: list[Partition] = []
        log, has_open = long_log(), True
        partition = partition_of(log, waiting)
        with pytest.raises(LogLoadingError):
            partition.producers.dumps()
        for _ in range(rng.randrange(1, 20)):
            if partition.read_on():
                break
            if rng.random() < 0.3:
                if has_open:
                    mark(log, PRODUCER_ID, commit=rng.random() < 0.5)
                else:
                    put(log, (b"again", b"v"), producer=PRODUCER_ID, transactional=True)
                has_open = not has_open
            elif rng.random() < 0.5:
                put(log, (b"k1", b"w"))
        while waiting and not partition.read_on():
            pass
        assert partition.producers.open_from(PRODUCER_ID) is not None or not has_open
        assert partition.producers.dumps() == scanned(log)


def test_a_reading_begins_again_when_the_log_is_compacted() -> None:
    log = long_log()
    reading = producer_recovery.ProducerReading(log, None)
    partition = partition_of(log, [])
    with pytest.raises(LogLoadingError):
        partition.producers.dumps()
    assert not partition.read_on()
    partition.record_cleaned()
    steps = 0
    while not partition.read_on():
        steps += 1
    assert steps == 3, "all of it, once more"
    assert partition.producers.dumps() == reading.finish().producers.dumps() == scanned(log)


def test_a_damaged_marker_is_reported_to_each_request_until_the_log_is_compacted() -> None:
    log = long_log()
    log.append(encode_batch([(b"\0\0\0", b"", (), 0)], producer_id=PRODUCER_ID, producer_epoch=0, transactional=True,
                            control=True))  # fmt: skip
    partition = partition_of(log, [])
    with pytest.raises(LogLoadingError):
        partition.producers.dumps()
    while not partition.read_on():
        pass
    for _ in range(2):
        with pytest.raises(StorageError, match="damaged transaction marker"):
            partition.producers.dumps()
    partition.record_cleaned()
    with pytest.raises(LogLoadingError):
        partition.producers.dumps()


def test_a_log_that_has_grown_much_since_is_read_on_from_there() -> None:
    waiting: list[Partition] = []
    log = long_log()
    partition = partition_of(log, waiting)
    with pytest.raises(LogLoadingError):
        partition.producers.dumps()
    while not partition.read_on():
        pass
    for _ in range(3):
        put(log, (b"k", b"v"))
    assert partition.producers.dumps() == scanned(log), "a little is read at once"
    for _ in range(9):
        put(log, (b"k", b"v"))
    assert not partition.knows_producers
    with pytest.raises(LogLoadingError):
        partition.producers.dumps()
    assert len(waiting) == 2
    while not partition.read_on():
        pass
    assert partition.producers.dumps() == scanned(log)
    for _ in range(9):
        put(log, (b"k", b"v"))
    partition.leave_producers(keep_index=False)
    found = producer_recovery.saved_producers(log)
    assert found is not None
    assert found.end_offset == log.log_end_offset, "a stop reads the rest"


def test_readers_of_committed_records_wait_for_the_reading_and_all_others_are_served() -> None:
    files, clock = MemoryFiles(), ManualClock()
    core = make_core(files, clock=clock, offsets_topic_num_partitions=1)
    topic_admin.create_topic(core.broker, "t", 1, {})
    client = CoreClient(core)
    for offset in range(12):
        client.commit("g", {("t", 0): offset})
    producer = Producer(core)
    producer.init()
    assert producer.commit_offset("g", "t", 99) == ErrorCode.NONE
    core = make_core(files.copy(), clock=clock, offsets_topic_num_partitions=1)
    client = CoreClient(core)

    wanted = messages.ListOffsetsRequest
    asked = wanted.ListOffsetsTopic(OFFSETS_TOPIC, [wanted.ListOffsetsPartition(0, timestamp=-1)])
    describe = messages.DescribeProducersRequest(
        [messages.DescribeProducersRequest.TopicRequest(OFFSETS_TOPIC, [0])]
    )
    readers = [CoreClient(core) for _ in range(3)]
    for reader, request in zip(
        readers, [(fetch_request(OFFSETS_TOPIC), 11), (wanted(-1, 1, [asked]), 5), (describe, 0)], strict=True
    ):
        reader.send(request)
        reader.turn()
        assert not reader.take()
    assert len(fetch(core, OFFSETS_TOPIC, isolation=0).records) > 1000
    assert client.commit("g", {("t", 0): 12}) == {("t", 0): 0}

    while core.next_deadline_ms is not None and core.next_deadline_ms <= clock.now().mono_ms + 10:
        clock.advance(10)
        client.turn()
    (found,), (listed,), (described,) = (
        array[0].partitions
        for (answer,) in (reader.take() for reader in readers)
        for array in [getattr(answer, "responses", None) or answer.topics]
    )
    assert found.error_code == listed.error_code == ErrorCode.NONE
    assert listed.offset == found.last_stable_offset
    assert found.last_stable_offset == found.high_watermark - 2, "after it the transaction, and a commit"
    assert [each.producer_id for each in described.active_producers] == [producer.id]
