"""The offsets log in Arrow columns, against the plain codec. No Spark here."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafka_offsets.spark import schema, segments
from tests.conftest import REPOSITORY
from tests.spark import reference

LOGS = REPOSITORY / "tests" / "data" / "logs"
SCENARIOS = sorted(path.name for path in LOGS.iterdir())

RECORD_TYPES = {
    int(path.name.split("_")[1])
    for path in (REPOSITORY / "schemas").glob("record_[0-9]*.schema")
    if "transaction_log" not in path.name and path.name.split("_", 2)[2][:12] != "share_update"
}


def test_every_record_type_has_a_kind() -> None:
    assert set(schema.KINDS) == RECORD_TYPES


def test_columns_come_in_the_order_asked_for() -> None:
    assert schema.arrow_schema(["topic", "log_offset"]) == pa.schema(
        [("topic", pa.string()), ("log_offset", pa.int64())]
    )
    assert schema.ddl(["topic", "record_timestamp"]) == "`topic` STRING, `record_timestamp` TIMESTAMP"


@pytest.mark.parametrize(
    ("names", "words"),
    [(["topics"], "no column 'topics'"), (["topic", "topic"], "named twice"), ([], "no column is named")],
)
def test_a_wrong_choice_of_columns_is_named(names: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        schema.select(names)


def segment_paths(log: Path) -> dict[int, list[str]]:
    return {
        partition: [segment.path for segment in found] for partition, found in segments.find(str(log)).items()
    }


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("isolation", ["committed", "uncommitted"])
def test_every_column_of_a_real_log_is_what_the_plain_codec_reads(scenario: str, isolation: str) -> None:
    expected = [
        row
        for partition, paths in segment_paths(LOGS / scenario).items()
        for row in reference.rows(partition, paths, committed=isolation == "committed")
    ]
    columns = reference.ALL_COLUMNS
    assert reference.read(LOGS / scenario, columns=columns, isolation=isolation, verifyCrc="true") == expected


def kafka_records(log: Path) -> list[dict[str, Any]]:
    """What Kafka's own classes read from the log, in the order of partitions and offsets."""
    found = []
    for path in sorted(log.glob("__consumer_offsets-*.records.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for batch in map(json.loads, lines):
                found += [{**batch, **record} for record in batch["records"]]
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_real_log_is_what_kafka_reads_in_it(scenario: str) -> None:
    read = reference.read(LOGS / scenario, columns=reference.ALL_COLUMNS, isolation="uncommitted")
    expected = kafka_records(LOGS / scenario)
    assert len(read) == len(expected)
    for row, record in zip(read, expected, strict=True):
        assert row["error"] is None
        assert row["log_offset"] == record["offset"]
        assert row["record_timestamp"] == record["timestamp"] * 1000
        assert row["record_bytes"] == record["sizeInBytes"]
        assert row["position"] == record["position"]
        if record["isControlBatch"]:
            assert row["kind"] == "control"
            assert row["outcome"] == {0: "aborted", 1: "committed"}[int(record["key"][4:8], 16)]
            continue
        assert row["key_version"] == record["type"]
        assert row["value_version"] == record["valueVersion"]
        key, value = record["keyJson"], record["valueJson"] or {}
        assert row["group"] == key.get("groupId", key.get("group"))
        assert (row["topic"], row["partition"], row["member"]) == tuple(
            map(key.get, ("topic", "partition", "memberId"))
        )
        if row["kind"] == "offset" and record["valueJson"] is not None:
            assert (row["committed_offset"], row["metadata"]) == (value["offset"], value["metadata"])
            assert row["commit_timestamp"] == value["commitTimestamp"] * 1000
            assert row["topic_id"] == value.get("topicId")
        epochs = [value.get(name) for name in ("generation", "epoch", "assignmentEpoch", "memberEpoch")]
        assert row["generation"] == next((epoch for epoch in epochs if epoch is not None), None)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_winners_of_a_real_log_are_the_offsets_that_kafka_answers_with(scenario: str) -> None:
    state: dict[tuple[str, str], dict[str, Any]] = {}
    for row in reference.read(LOGS / scenario, mode="latest"):
        key = row["group"], f"{row['topic']}-{row['partition']}"
        if row["log_offset"] > state.get(key, {"log_offset": -1})["log_offset"]:
            state[key] = row
    expected = json.loads((LOGS / scenario / "expected.json").read_text())["listConsumerGroupOffsets"]
    found: dict[str, dict[str, Any]] = {group: {} for group in expected}
    for (group, partition), row in state.items():
        if not row["tombstone"]:
            found.setdefault(group, {})[partition] = {
                "offset": row["committed_offset"],
                # The Admin client takes every negative epoch for none.
                "leaderEpoch": None if (row["leader_epoch"] or 0) < 0 else row["leader_epoch"],
                "metadata": row["metadata"],
            }
    assert found == expected
