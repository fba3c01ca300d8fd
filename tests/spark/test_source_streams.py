"""Where the batches of a stream begin and end. The readers are asked directly: no session, no JVM."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.spark.reader import options
from kafka_offsets.spark.source import BatchReader, LostLogError, StreamReader
from kafka_offsets.storage.segments.segment_names import segment_name
from tests.spark import reference
from tests.spark.logs import commit, marker

FOLDER = "__consumer_offsets-0"


class Log:
    """A log that a test writes, one batch after the other."""

    def __init__(self, root: Path, folder: str = FOLDER) -> None:
        self.root = root
        self._folder = root / folder
        self._folder.mkdir()
        self.offset = 0
        self.roll()

    def roll(self) -> None:
        self._path = self._folder / segment_name(self.offset)

    def write(self, batch: bytearray) -> None:
        with self._path.open("ab") as file:
            file.write(batch)

    def commit(self, *offsets: int, producer_id: int = -1) -> None:
        self.write(
            encode_batch(
                [commit("g", "t", 0, offset) for offset in offsets],
                base_offset=self.offset,
                producer_id=producer_id,
                producer_epoch=0,
                transactional=producer_id >= 0,
            )
        )
        self.offset += len(offsets)

    def end_transaction(self, producer_id: int, *, committed: bool = True) -> None:
        self.write(marker(self.offset, producer_id, committed=committed))
        self.offset += 1


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def stream(log: Log, **given: str) -> StreamReader:
    return StreamReader(options.parse({"path": str(log.root), "columns": "committed_offset", **given}))


def damaged(*offsets: int, base_offset: int) -> bytearray:
    """Return a batch whose header is destroyed."""
    batch = encode_batch([commit("g", "t", 0, offset) for offset in offsets], base_offset=base_offset)
    batch[8:17] = bytes(9)
    return batch


def steps(reader: StreamReader, start: Mapping[str, int]) -> list[list[int | str]]:
    """Read to the end of the log; return the offsets of each step, and "damage" for a row that reports it."""
    found = []
    limit = reader.getDefaultReadLimit()
    while (end := reader.latestOffset(dict(start), limit)) != start:
        rows = [
            row
            for share in reader.partitions(dict(start), end)
            for batch in reader.read(share)
            for row in reference.listed(batch)
        ]
        found.append(["damage" if row.get("error") else row["committed_offset"] for row in rows])
        start = end
    return found


def read(reader: StreamReader, start: Mapping[str, int], end: Mapping[str, int]) -> Iterator[int]:
    for share in reader.partitions(dict(start), dict(end)):
        for batch in reader.read(share):
            yield from (row["committed_offset"] for row in reference.listed(batch))


def test_a_stream_begins_at_the_beginning_of_the_log_and_ends_with_its_last_whole_batch(log: Log) -> None:
    log.commit(1, 2, 3)
    log.write(encode_batch([commit("g", "t", 0, 4)], base_offset=3)[:-1])
    reader = stream(log)
    begin = reader.initialOffset()
    assert begin == {"0": 0}
    end = reader.latestOffset(begin, ReadAllAvailable())
    assert end == {"0": 3}
    assert list(read(reader, begin, end)) == [1, 2, 3]


@pytest.mark.parametrize("reader", [StreamReader, BatchReader])
def test_names_of_columns_may_have_any_case_as_in_spark(
    log: Log, reader: type[StreamReader] | type[BatchReader]
) -> None:
    log.commit(1)
    fields = [options.Field("Topic", "string", True), options.Field("COMMITTED_OFFSET", "bigint", True)]
    for given in ({}, {"columns": "TOPIC,Committed_Offset"}):
        asked = options.parse({"path": str(log.root), **given}, fields)
        (share,) = BatchReader(asked).partitions()
        (batch,) = reader(asked).read(share)
        assert batch.to_pylist() == [{"Topic": "t", "COMMITTED_OFFSET": 1}]
    with pytest.raises(options.OptionError, match="the schema: column 'TOPIC' is named twice"):
        options.parse({"path": str(log.root)}, [fields[0], fields[0]._replace(name="TOPIC")])


def test_a_stream_can_begin_at_the_end(log: Log) -> None:
    log.commit(1, 2, 3)
    assert stream(log, startingOffsets="latest").initialOffset() == {"0": 3}
    assert stream(log, startingOffsets='{"0": 2}').initialOffset() == {"0": 2}


def test_a_stream_passes_the_storage_options_on(log: Log) -> None:
    log.commit(1, 2, 3)
    archive = shutil.make_archive(str(log.root / "log"), "zip", log.root, FOLDER)
    reader = stream(log, path="zip://", storageOptions=json.dumps({"fo": archive}))
    begin = reader.initialOffset()
    assert list(read(reader, begin, reader.latestOffset(begin, ReadAllAvailable()))) == [1, 2, 3]


def test_batches_of_a_stream_follow_each_other_across_segments(log: Log) -> None:
    reader = stream(log, maxRecordsPerBatch="2")
    for number in range(7):
        log.commit(number)
        if number % 3 == 2:
            log.roll()
    at = reader.initialOffset()
    found = []
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(2)
    while (end := reader.latestOffset(at, limit)) != at:
        found.append(list(read(reader, at, end)))
        at = end
    assert found == [[0, 1], [2, 3], [4, 5], [6]]


def test_records_after_the_trigger_are_not_read_by_available_now(log: Log) -> None:
    log.commit(1)
    reader = stream(log)
    reader.prepareForTriggerAvailableNow()
    log.commit(2)
    assert reader.latestOffset({"0": 0}, ReadAllAvailable()) == {"0": 1}
    assert reader.reportLatestOffset() == {"0": 2}


def test_a_batch_ends_before_a_transaction_that_is_open(log: Log) -> None:
    log.commit(1)
    log.commit(2, producer_id=7)
    log.commit(3)
    reader = stream(log)
    assert reader.latestOffset({"0": 0}, ReadAllAvailable()) == {"0": 1}
    assert reader.latestOffset({"0": 1}, ReadAllAvailable()) == {"0": 1}
    log.end_transaction(7)
    end = reader.latestOffset({"0": 1}, ReadAllAvailable())
    assert list(read(reader, {"0": 1}, end)) == [2, 3]
    assert stream(log, isolation="uncommitted").latestOffset({"0": 1}, ReadMaxRows(1)) == {"0": 2}


def test_a_batch_ends_before_an_open_transaction_of_any_partition(log: Log) -> None:
    other = Log(log.root, "__consumer_offsets-1")
    log.commit(1, 2, 3)
    other.commit(4)
    other.commit(5, producer_id=7)
    assert stream(log).latestOffset({"0": 3, "1": 0}, ReadAllAvailable()) == {"0": 3, "1": 1}


def test_a_limit_is_exceeded_by_a_transaction_that_ends_after_it(log: Log) -> None:
    log.commit(1, producer_id=7)
    log.commit(2, 3)
    log.end_transaction(7)
    log.commit(4)
    end = stream(log).latestOffset({"0": 0}, ReadMaxRows(1))
    assert end == {"0": 4}
    assert list(read(stream(log), {"0": 0}, end)) == [1, 2, 3]


def test_a_partition_that_waits_for_a_transaction_leaves_the_limit_to_the_others(log: Log) -> None:
    other = Log(log.root, "__consumer_offsets-1")
    log.commit(0, producer_id=7)
    for number in range(1, 1000):
        log.commit(number)
    for number in range(100):
        other.commit(number)
    found = steps(stream(log, maxRecordsPerBatch="10"), {"0": 0, "1": 0})
    assert [len(step) for step in found] == [10] * 10


def test_partitions_share_the_limit_by_the_size_of_what_they_have_left(log: Log) -> None:
    other = Log(log.root, "__consumer_offsets-1")
    for number in range(90):
        log.commit(number)
    for number in range(10):
        other.commit(number)
    reader = stream(log, maxRecordsPerBatch="20")
    assert reader.latestOffset({"0": 0, "1": 0}, ReadMaxRows(20)) == {"0": 18, "1": 2}
    assert [len(step) for step in steps(reader, {"0": 0, "1": 0})] == [20] * 5


@pytest.mark.parametrize("isolation", ["committed", "uncommitted"])
def test_the_limit_counts_records_and_not_the_offsets_that_compaction_has_left(
    log: Log, isolation: str
) -> None:
    for number in range(20):
        log.offset = 10_000 * number
        log.commit(number)
        if number == 7:
            log.roll()
    found = steps(stream(log, maxRecordsPerBatch="5", isolation=isolation), {"0": 0})
    assert found == [[*range(at, at + 5)] for at in range(0, 20, 5)]


def test_a_batch_of_the_log_is_never_divided(log: Log) -> None:
    log.commit(1, 2, 3)
    log.commit(4)
    log.commit(5)
    assert steps(stream(log, maxRecordsPerBatch="2"), {"0": 0}) == [[1, 2, 3], [4, 5]]


def test_an_aborted_transaction_is_passed_over(log: Log) -> None:
    log.commit(1, producer_id=7)
    log.commit(2)
    log.end_transaction(7, committed=False)
    reader = stream(log)
    end = reader.latestOffset({"0": 0}, ReadAllAvailable())
    assert list(read(reader, {"0": 0}, end)) == [2]


@pytest.mark.parametrize("given", [{"startingOffsets": "latest"}, {"maxRecordsPerBatch": "5"}])
def test_what_only_a_stream_has_is_refused_to_a_batch_query(log: Log, given: dict[str, str]) -> None:
    with pytest.raises(options.OptionError, match=next(iter(given))):
        BatchReader(options.parse({"path": str(log.root), **given}))


def test_an_end_is_refused_to_a_stream(log: Log) -> None:
    with pytest.raises(options.OptionError, match="endingOffsets"):
        stream(log, endingOffsets='{"0": 5}')


def test_damage_costs_a_stream_only_its_batches(log: Log) -> None:
    log.commit(1, 2)
    log.write(damaged(3, 4, base_offset=2))
    log.offset = 4
    reader = stream(log, columns="committed_offset,error")
    assert steps(reader, {"0": 0}) == [[1, 2]], "the damage is the end of the log, and may be unfinished"
    log.commit(5)
    assert steps(reader, {"0": 2}) == [["damage", 5]]
    log.commit(6)
    assert steps(reader, {"0": 5}) == [[6]]
    assert steps(stream(log, columns="committed_offset,error"), {"0": 0}) == [[1, 2, "damage", 5, 6]]


def test_a_stream_waits_for_a_batch_that_is_being_written(log: Log) -> None:
    log.commit(1, 2)
    batch = encode_batch([commit("g", "t", 0, 3)], base_offset=2)
    log.write(batch[:40])
    reader = stream(log, columns="committed_offset,error")
    assert steps(reader, {"0": 0}) == [[1, 2]]
    log.write(batch[40:])
    assert steps(reader, {"0": 2}) == [[3]]


def test_a_stream_takes_no_batch_out_of_one_that_is_being_written(log: Log) -> None:
    """A client may commit any metadata: here the bytes of a valid batch that would continue the log."""
    log.commit(1)
    inner = encode_batch([commit("g", "t", 0, 666)], base_offset=2)
    batch = encode_batch([commit("g", "t", 0, 2), (b"", bytes(inner) * 2, (), 0)], base_offset=1)
    ends = [batch.index(inner) + len(inner), len(batch) - 1]
    reader = stream(log, columns="committed_offset,error")
    assert steps(reader, {"0": 0}) == [[1]]
    written = 0
    for end in ends:
        log.write(batch[written:end])
        written = end
        assert steps(reader, {"0": 1}) == []
        assert steps(stream(log, columns="committed_offset,error"), {"0": 0}) == [[1]]
    log.write(batch[written:])
    assert reader.latestOffset({"0": 1}, ReadAllAvailable()) == {"0": 3}
    assert list(read(reader, {"0": 1}, {"0": 2})) == [2]


def test_a_wrong_length_in_the_last_segment_costs_one_batch(log: Log) -> None:
    log.commit(1)
    batch = encode_batch([commit("g", "t", 0, 2)], base_offset=1)
    batch[8] = 1  # the highest byte of the length
    log.write(batch)
    log.offset = 2
    reader = stream(log, columns="committed_offset,error")
    assert steps(reader, {"0": 0}) == [[1]]
    log.commit(3)
    assert steps(reader, {"0": 1}) == [["damage", 3]]


def test_an_unfinished_batch_at_the_end_of_a_segment_that_has_a_successor_is_damage(log: Log) -> None:
    log.commit(1, 2)
    log.write(encode_batch([commit("g", "t", 0, 3)], base_offset=2)[:-1])
    reader = stream(log, columns="committed_offset,error")
    assert steps(reader, {"0": 0}) == [[1, 2]]
    log.offset = 3
    log.roll()
    log.commit(4)
    assert steps(reader, {"0": 2}) == [["damage", 4]]
    log.commit(5)
    assert steps(reader, {"0": 4}) == [[5]]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("isolation", ["committed", "uncommitted"])
def test_each_damage_is_reported_by_one_step(log: Log, size: int, isolation: str) -> None:
    """A step that ends among the offsets of a damaged batch reports it, and so did the next step."""
    log.commit(0, 1)
    log.write(damaged(*range(2, 9), base_offset=2))
    log.offset = 9
    log.commit(9, 10)
    for first, last in ((11, 14), (15, 18)):
        unlike = encode_batch([commit("g", "t", 0, at) for at in range(first, last + 1)], base_offset=first)
        unlike[-1] ^= 1
        log.write(unlike)
    log.offset = 19
    log.commit(19)
    log.write(encode_batch([commit("g", "t", 0, 20)], base_offset=20)[:-1])
    log.offset = 26
    log.roll()
    log.commit(26)
    reader = stream(
        log,
        columns="committed_offset,error",
        maxRecordsPerBatch=str(size),
        verifyCrc="true",
        isolation=isolation,
    )
    found = [row for step in steps(reader, {"0": 0}) for row in step]
    assert found == [0, 1, "damage", 9, 10, "damage", "damage", 19, "damage", 26]


def test_a_transaction_that_ends_after_damage_is_read(log: Log) -> None:
    log.commit(1, producer_id=7)
    log.write(damaged(2, base_offset=1))
    log.offset = 2
    log.commit(3, producer_id=7)
    reader = stream(log, columns="committed_offset,error")
    assert steps(reader, {"0": 0}) == []
    log.end_transaction(7)
    assert steps(reader, {"0": 0}) == [[1, "damage", 3]]


def test_a_log_that_ends_before_the_offset_of_a_stream_is_an_error(log: Log) -> None:
    log.commit(1, 2, 3)
    reader = stream(log)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    with pytest.raises(
        LostLogError, match="partition 0 of the offsets log ends at offset 3, and the stream continues at 4"
    ):
        reader.latestOffset({"0": 4}, ReadAllAvailable())
    with pytest.raises(LostLogError, match="partition 7 of the offsets log ends at offset 0"):
        reader.latestOffset({**end, "7": 1}, ReadAllAvailable())
