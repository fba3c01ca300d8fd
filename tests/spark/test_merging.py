"""A state that is merged piece by piece is the state of the whole, whatever the pieces are and whoever dies between."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.pipelines import collected, state_of, table, write_log
from tests.spark.test_state import drawn_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

COMMITTED: dict[str, Any] = {"transactional": True, "producer_id": 7, "outcome": "committed"}
OPEN: dict[str, Any] = {**COMMITTED, "outcome": "open"}


def test_pieces_are_merged_into_the_state_of_the_whole(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_offsets.spark.pipelines import latest, merge_state, merging, next_offsets, read_state

    monkeypatch.setattr(merging, "FULL_FROM", 10)
    path = str(tmp_path / "state")
    first: list[dict[str, Any]] = [
        {"committed_offset": 5},
        {"partition": 1, "committed_offset": 6},
        {"log_partition": 3, "group": "h", "committed_offset": 1, "log_offset": 90},
        {"partition": 2, "committed_offset": 9, **OPEN},
        {"committed_offset": 7, "metadata": "later", "key_version": 0},
    ]
    version = merge_state(path, table(spark, first))
    assert (version.number, version.deltas) == (1, ())
    assert next_offsets(spark, path) == {0: 3, 3: 91}, "where the open transaction began"
    assert merge_state(path, table(spark, first[:3])) == version, "nothing new"

    second: list[dict[str, Any]] = [
        {"log_offset": 3, "partition": 2, "committed_offset": 9, **COMMITTED},
        {"log_offset": 4, "committed_offset": 7, "metadata": "later"},
        {"log_offset": 6, "kind": "control", "group": None, "topic": None, "partition": None, **COMMITTED},
        {"log_offset": 7, "partition": 1, "tombstone": True},
        {"log_offset": 8, "partition": 4, "committed_offset": 4, **COMMITTED, "outcome": "aborted"},
    ]
    version = merge_state(path, table(spark, second))
    assert version.number == 2 and next_offsets(spark, path) == {0: 8, 3: 91}
    whole = table(spark, [*first[:3], *second])
    expected = collected(latest(whole))
    assert {key[1:]: value.offset for key, value in expected.items()} == {
        ("g", "t", 0): 7,
        ("g", "t", 2): 9,
        ("h", "t", 0): 1,
    }
    assert collected(read_state(spark, path)) == expected

    version = merge_state(path, table(spark, second[:1]), full=True)
    assert (version.number, version.deltas, version.base_rows) == (3, (), 3)
    assert collected(read_state(spark, path)) == expected
    assert len(collected(read_state(spark, path, 1))) == 3


def test_the_last_records_of_each_key_are_merged_like_all_records(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from kafka_offsets.spark import read_table
    from kafka_offsets.spark.pipelines import latest, merge_state, next_offsets, read_state

    drawn = drawn_logs()
    for number, batches in enumerate(drawn):
        write_log(tmp_path / "logs", number, batches, segments=1 + number % 3)
    rows = {
        mode: spark.createDataFrame(
            read_table(tmp_path / "logs", pipeline="merge_state", mode=mode)
        ).persist()
        for mode in ("all", "latest")
    }
    assert rows["latest"].count() < rows["all"].count()
    for mode, raw in rows.items():
        merge_state(str(tmp_path / mode), raw)
    expected = state_of(tmp_path / "logs", range(len(drawn)))
    assert collected(latest(rows["latest"], is_reduced=True)) == expected
    assert collected(read_state(spark, str(tmp_path / "latest"))) == expected
    assert next_offsets(spark, str(tmp_path / "latest")) == next_offsets(spark, str(tmp_path / "all")) != {}
    for raw in rows.values():
        raw.unpersist()


def test_deltas_that_are_twice_as_large_as_the_base_become_one(spark: "SparkSession", tmp_path: Path) -> None:
    from kafka_offsets.spark.pipelines import merge_state, read_state

    path, seen = str(tmp_path / "state"), []
    for number in range(5):
        row = {"log_offset": number, "committed_offset": number, "partition": number}
        version = merge_state(path, table(spark, [row]))
        seen.append((version.base_rows, version.delta_rows))
    assert seen == [(1, 0), (1, 1), (1, 2), (4, 0), (4, 1)]
    assert sorted(entry.offset for entry in collected(read_state(spark, path)).values()) == list(range(5))


def test_of_two_merges_at_once_one_fails_and_a_dead_one_leaves_nothing(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_offsets.spark.pipelines import MergeError, merge_state, merging, read_state

    path = str(tmp_path / "state")
    rows = table(spark, [{"committed_offset": 1}])
    with pytest.raises(MergeError, match="holds no state"):
        read_state(spark, path)
    publish = merging._Folder.publish

    def outrun(folder: Any, version: Any) -> None:
        monkeypatch.undo()
        merge_state(path, rows)
        publish(folder, version)

    monkeypatch.setattr(merging._Folder, "publish", outrun)
    with pytest.raises(MergeError, match="another merge has made version 1"):
        merge_state(path, table(spark, [{"committed_offset": 2}]))
    assert [entry.offset for entry in collected(read_state(spark, path)).values()] == [1]
    merge_state(path, table(spark, [{"log_offset": 1, "committed_offset": 3}]), full=True)
    left = sorted(entry.name[:26] for entry in (tmp_path / "state" / "data").iterdir())
    assert left == [f"base-{number:020d}-" for number in (1, 2)], "the data of the one that failed is gone"
    with pytest.raises(ValueError, match="no column kind, outcome"):
        merge_state(path, rows.drop("kind", "outcome"))
