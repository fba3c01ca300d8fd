"""The lag of a log that one process reads, without Spark: by the rule of all others, whatever the times are."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_offsets import lag as rule
from kafka_offsets.client.cluster import LogRange
from kafka_offsets.commands import state_tables
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.spark import state_table
from kafka_offsets.spark.reader import schema

Ranges = dict[TopicPartition, LogRange | None]


def state_of(committed: dict[TopicPartition, int], at_ms: int = 0) -> pa.Table:
    """The state of a group."""
    rows = [
        dict.fromkeys(schema.STATE_COLUMNS)
        | {"group": "g", "topic": topic, "partition": index, "committed_offset": to}
        for (topic, index), to in committed.items()
    ]
    table = pa.Table.from_pylist(rows, schema.arrow_schema(schema.STATE_COLUMNS))
    at = table.schema.get_field_index("commit_timestamp")
    times = pa.array([at_ms * 1000] * len(rows), pa.int64()).cast(schema.TIMESTAMP)
    return table.set_column(at, table.schema.field(at), times)


def rows_of(
    committed: dict[TopicPartition, int], ranges: Ranges, patch: pytest.MonkeyPatch, **options: Any
) -> list[state_table.Row]:
    """The rows of a group whose brokers tell these ranges."""
    patch.setattr(state_table, "log_ranges", lambda *_: ranges)
    return state_table.lag_rows(state_of(committed), "nowhere:1", **options)


_PLACES = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3))
_LOGS = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda each: LogRange(each[0], sum(each)))


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(
    st.dictionaries(_PLACES, st.integers(0, 22), max_size=5),
    st.dictionaries(_PLACES, st.none() | _LOGS, max_size=8),
)
def test_the_lag_is_that_of_all_others(committed: dict[TopicPartition, int], ranges: Ranges) -> None:
    topics = rule.topics_read(committed)
    expected = {
        place: None if known is None else rule.total([rule.lag(committed.get(place), *known)])
        for place, known in ranges.items()
        if place[0] in topics and (place in committed or known is None or known.start < known.end)
    } | dict.fromkeys(committed.keys() - ranges.keys())
    with pytest.MonkeyPatch.context() as patch:
        rows = rows_of(committed, ranges, patch, times=False)
    assert {(row["topic"], row["partition"]): row["lag"] for row in rows} == expected
    for row in rows:
        is_gone = (row["topic"], row["partition"]) not in ranges
        assert (row["status"] == rule.GONE) is is_gone
        assert (row["status"] == rule.UNKNOWN) is (row["lag"] is None and not is_gone)
    assert sum(row["lag"] for row in state_table.lag_of_groups(rows)) == rule.total(expected.values())


def test_times_beyond_the_calendar_are_printed_and_markers_are_nothing_to_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    micros = 1_700_000_000_000_000
    committed = {("micros", 0): 1, ("marked", 0): 1, ("none", 0): 1}
    monkeypatch.setattr(
        state_table, "first_times", lambda *_: [("micros", 0, 1, micros), ("marked", 0, 1, None)]
    )
    rows = rows_of(committed, {place: LogRange(0, 2) for place in committed}, monkeypatch)
    found = {row["topic"]: (row["lag"], row["status"], row["time_lag_ms"]) for row in rows}
    assert found == {"micros": (1, "behind", 0), "marked": (1, "current", 0), "none": (1, "behind", None)}
    (group,) = state_table.lag_of_groups(rows)
    assert (group["lagging"], group["partitions"]) == (2, 3)

    state_tables.print_lags([group], rows, [], totals=(1, 3, 0))
    assert capsys.readouterr().out.count("+055840-11-08T22:13:20.000Z") == 2
    plain, times = state_table.times_in_ms(state_of(committed, micros))
    state_tables.print_table(plain.column_names, plain.to_pylist(), times=times, as_json=True)
    assert capsys.readouterr().out.count('"commit_timestamp": "+055840-11-08T22:13:20.000Z"') == 3
