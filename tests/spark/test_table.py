"""The offsets log as an Arrow table, without Spark."""

import json

import pytest

pytest.importorskip("pyarrow")

from kafka_offsets.spark.options import OptionError
from kafka_offsets.spark.reader.segments import NoLogError
from kafka_offsets.spark.table import read_table
from tests.conftest import DATA

LOG = DATA / "logs" / "classic"


def test_a_log_directory_is_a_table() -> None:
    table = read_table(LOG, types="offset", columns="group,topic,partition,committed_offset,tombstone")
    assert table.column_names == ["group", "topic", "partition", "committed_offset", "tombstone"]
    state = {}
    for row in table.to_pylist():
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
    table = read_table(LOG, types="share")
    assert table.num_rows == 0
    assert "committed_offset" in table.column_names


def test_pipelines_name_the_columns_and_types_that_they_need() -> None:
    table = read_table(LOG, pipeline="latest,stale")
    assert {"kind", "outcome", "value"} <= set(table.column_names)
    assert not {"record_bytes", "file", "producer_id"} & set(table.column_names)
    assert set(table["kind"].to_pylist()) == {"offset", "group"}
    whole = read_table(
        LOG, isolation="uncommitted", columns=",".join(table.column_names), types="offset,group"
    )
    assert table == whole
    assert read_table(LOG, pipeline="latest,audit", columns="kind", types="group").num_rows == sum(
        kind == "group" for kind in table["kind"].to_pylist()
    )
    assert "producer_id" not in read_table(LOG, pipeline="activity").column_names


def test_what_is_asked_wrongly_is_refused(tmp_path) -> None:
    with pytest.raises(OptionError, match="colums"):
        read_table(LOG, colums="group")
    for given in ({"startingOffsets": "latest"}, {"maxRecordsPerBatch": "5"}):
        with pytest.raises(OptionError, match="is for streams, not for a batch query"):
            read_table(LOG, **given)
    with pytest.raises(OptionError, match="option 'pipeline': no 'lags'; there are latest"):
        read_table(LOG, pipeline="lags")
    with pytest.raises(OptionError, match="'pipeline' is for mode 'all'"):
        read_table(LOG, pipeline="latest", mode="latest")
    with pytest.raises(NoLogError, match="no segments"):
        read_table(tmp_path)
