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


def test_what_is_asked_wrongly_is_refused(tmp_path) -> None:
    with pytest.raises(OptionError, match="colums"):
        read_table(LOG, colums="group")
    for given in ({"startingOffsets": "latest"}, {"maxRecordsPerBatch": "5"}):
        with pytest.raises(OptionError, match="is for streams, not for a batch query"):
            read_table(LOG, **given)
    with pytest.raises(NoLogError, match="no segments"):
        read_table(tmp_path)
