"""Where the batches of a stream begin and end. The readers are asked directly: no session, no JVM."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.spark import options
from kafka_offsets.spark.source import BatchReader, StreamReader
from kafka_offsets.storage.log.segment_names import segment_name
from tests.spark import reference
from tests.spark.logs import commit, marker

FOLDER = "__consumer_offsets-0"


class Log:
    """A log that a test writes, one batch after the other."""

    def __init__(self, root: Path, folder: str = FOLDER) -> None:
        self.root = root
        self._folder = root / folder
        self._folder.mkdir()
        self._offset = 0
        self.roll()

    def roll(self) -> None:
        self._path = self._folder / segment_name(self._offset)

    def write(self, batch: bytearray) -> None:
        with self._path.open("ab") as file:
            file.write(batch)

    def commit(self, *offsets: int, producer_id: int = -1) -> None:
        self.write(
            encode_batch(
                [commit("g", "t", 0, offset) for offset in offsets],
                base_offset=self._offset,
                producer_id=producer_id,
                producer_epoch=0,
                transactional=producer_id >= 0,
            )
        )
        self._offset += len(offsets)

    def end_transaction(self, producer_id: int, *, committed: bool = True) -> None:
        self.write(marker(self._offset, producer_id, committed=committed))
        self._offset += 1


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def stream(log: Log, **given: str) -> StreamReader:
    return StreamReader(options.parse({"path": str(log.root), "columns": "committed_offset", **given}))


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
