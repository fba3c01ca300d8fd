"""The offsets log as an Arrow table, without Spark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_offsets.spark import table
from kafka_offsets.spark.reader import schema
from kafka_offsets.spark.reader.options import OptionError
from kafka_offsets.spark.reader.segments import NoLogError
from kafka_offsets.spark.table import read_table, to_parquet
from tests.conftest import DATA

LOG = DATA / "logs" / "classic"


def test_a_log_directory_is_a_table() -> None:
    rows = read_table(LOG, types="offset", columns="group,topic,partition,committed_offset,tombstone")
    assert rows.column_names == ["group", "topic", "partition", "committed_offset", "tombstone"]
    state = {}
    for row in rows.to_pylist():
        place = f"{row['topic']}-{row['partition']}"
        state[row["group"], place] = row["committed_offset"]
    expected = json.loads((LOG / "expected.json").read_text())["listConsumerGroupOffsets"]
    answered = {
        (group, place): answer["offset"]
        for group, places in expected.items()
        for place, answer in places.items()
    }
    assert {key: offset for key, offset in state.items() if offset is not None} == answered


def test_a_table_of_no_rows_has_its_columns() -> None:
    rows = read_table(LOG, types="share")
    assert rows.num_rows == 0
    assert "committed_offset" in rows.column_names


def test_pipelines_name_the_columns_and_types_that_they_need() -> None:
    rows = read_table(LOG, pipeline="latest,stale")
    assert {"kind", "outcome", "value"} <= set(rows.column_names)
    assert not {"record_bytes", "file", "producer_id"} & set(rows.column_names)
    assert set(rows["kind"].to_pylist()) == {"offset", "group"}
    whole = read_table(
        LOG, isolation="uncommitted", columns=",".join(rows.column_names), types="offset,group"
    )
    assert rows == whole
    assert read_table(LOG, pipeline="latest,audit", columns="kind", types="group").num_rows == sum(
        kind == "group" for kind in rows["kind"].to_pylist()
    )
    assert "producer_id" not in read_table(LOG, pipeline="activity").column_names


def test_pipelines_of_states_read_the_last_record_of_each_key() -> None:
    rows = read_table(LOG, pipeline="latest,lag,merge_state")
    keys = rows.select(["log_partition", "group", "topic", "partition"])
    assert rows.num_rows == keys.group_by(keys.column_names).aggregate([]).num_rows
    assert rows.num_rows < read_table(LOG, pipeline="latest", mode="all").num_rows


def test_a_parquet_file_has_the_rows_of_the_table(tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    rows = read_table(LOG)
    assert to_parquet(LOG, file) == rows.num_rows
    assert pq.read_table(file) == rows
    assert to_parquet(LOG, file, types="share") == 0
    assert pq.read_table(file) == rows.slice(0, 0), "an existing file is replaced"
    assert list(tmp_path.iterdir()) == [file]


def test_a_parquet_file_can_be_written_to_any_file_system_of_fsspec() -> None:
    count = to_parquet(LOG, "memory://test_table/log.parquet", columns="group")
    fs = fsspec.filesystem("memory")
    with fs.open("/test_table/log.parquet", "rb") as file:
        assert pq.read_table(file).num_rows == count > 0
    fs.rm("/test_table", recursive=True)


def test_a_directory_is_not_replaced_by_a_parquet_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="a directory"):
        to_parquet(LOG, tmp_path)
    assert not list(tmp_path.iterdir())


def test_rows_are_written_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory that a log takes does not depend on its size."""
    batch = pa.RecordBatch.from_pydict({"log_offset": list(range(1000))}, schema.arrow_schema(["log_offset"]))
    read, written, most = 0, 0, 0

    def batches(*_: object, **__: object) -> Iterator[pa.RecordBatch]:
        nonlocal read, most
        for _number in range(50):
            read += batch.nbytes
            most = max(most, read - written)
            yield batch

    class Writer(pq.ParquetWriter):
        def write_table(self, rows: pa.Table, *more: Any) -> None:
            nonlocal written
            written += rows.nbytes
            super().write_table(rows, *more)

    monkeypatch.setattr(table, "read_batches", batches)
    monkeypatch.setattr(table, "_ROW_GROUP_BYTES", 4 * batch.nbytes)
    monkeypatch.setattr(pq, "ParquetWriter", Writer)
    assert to_parquet(LOG, tmp_path / "log.parquet", columns="log_offset") == 50_000
    assert written == read == 50 * batch.nbytes
    assert most == 4 * batch.nbytes
    assert pq.ParquetFile(tmp_path / "log.parquet").num_row_groups == 13


def test_an_error_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "log.parquet"
    file.write_bytes(b"before")

    rows = read_table(LOG, columns="group")

    def fails(*_: object, **__: object) -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches()
        raise NoLogError("gone")

    monkeypatch.setattr(table, "read_batches", fails)
    with pytest.raises(NoLogError, match="gone"):
        to_parquet(LOG, file, columns="group")
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (b"before", [file])


def test_what_is_asked_wrongly_is_refused(tmp_path) -> None:
    with pytest.raises(OptionError, match="colums"):
        read_table(LOG, colums="group")
    for given in ({"startingOffsets": "latest"}, {"maxRecordsPerBatch": "5"}):
        with pytest.raises(OptionError, match="is for streams, not for a batch query"):
            read_table(LOG, **given)
    with pytest.raises(OptionError, match="option 'pipeline': no 'lags'; there are latest"):
        read_table(LOG, pipeline="lags")
    with pytest.raises(OptionError, match="'pipeline' is 'latest,stale', which needs mode 'all'"):
        read_table(LOG, pipeline="latest,stale", mode="latest")
    with pytest.raises(NoLogError, match="no segments"):
        read_table(tmp_path)


def test_options_are_texts_or_what_these_are_of() -> None:
    log = DATA / "logs" / "classic"
    as_text = {
        "columns": "group,log_offset",
        "verifyCrc": "true",
        "startingOffsets": '{"0": 3}',
        "splitBytes": "1",
    }
    as_values: dict[str, Any] = {
        "columns": ["group", "log_offset"],
        "verifyCrc": True,
        "startingOffsets": {0: 3},
        "splitBytes": 1,
    }
    assert read_table(log, **as_values).equals(read_table(log, **as_text))
