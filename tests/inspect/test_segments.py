"""Segments and index files, whole, torn and damaged: every byte is explained once."""

import base64
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.inspect.batches import explain_batches, explain_index
from kafka_offsets.inspect.lines import Line
from kafka_offsets.inspect.message import OFFSETS_TOPIC
from kafka_offsets.protocol.records import encode_batch
from tests.conftest import DATA, REPOSITORY
from tests.inspect.explained import INDEXES, SEGMENT, assert_tiled, batch, json_lines, value_of

SEGMENTS = sorted(path.relative_to(DATA / "logs").as_posix() for path in DATA.glob("logs/*/*/*.log"))


@cache
def kafkas_batches(segment: str) -> list[dict[str, Any]]:
    """What Kafka read from a segment."""
    path = DATA / "logs" / segment
    return [
        found
        for found in json_lines(path.parent.with_name(f"{path.parent.name}.records.jsonl.gz"))
        if found["segment"] == path.name
    ]


@pytest.mark.parametrize("segment", SEGMENTS)
def test_every_byte_of_kafkas_logs_is_explained_once(segment: str) -> None:
    data = (DATA / "logs" / segment).read_bytes()
    explainer = OFFSETS_TOPIC if "__consumer_offsets-" in segment else None
    lines = list(explain_batches(data, explainer=explainer))
    assert_tiled(lines, 0, len(data))
    assert not [line for line in lines if line.damage]
    expected = kafkas_batches(segment)
    batches = [line for line in lines if line.name.startswith("batch of offsets")]
    assert [(line.position, line.size, line.value) for line in batches] == [
        (found["position"], found["sizeInBytes"], "CRC ok") for found in expected
    ]
    records = [line for line in lines if re.fullmatch(r"record -?\d+", line.name)]
    assert [(line.name, line.size) for line in records] == [
        (f"record {record['offset']}", record["sizeInBytes"])
        for found in expected
        for record in found["records"]
    ]


@cache
def explained_records() -> list[tuple[dict[str, Any], list[Line]]]:
    """Every record of the offsets topic in Kafka's logs: what Kafka read, and our lines."""
    found = []
    for segment in SEGMENTS:
        if "__consumer_offsets-" not in segment:
            continue
        lines = list(explain_batches((DATA / "logs" / segment).read_bytes(), explainer=OFFSETS_TOPIC))
        starts = [number for number, line in enumerate(lines) if re.fullmatch(r"record -?\d+", line.name)]
        records = [record for batch in kafkas_batches(segment) for record in batch["records"]]
        for record, start in zip(records, starts, strict=True):
            depth = lines[start].depth
            end = next((n for n in range(start + 1, len(lines)) if lines[n].depth <= depth), len(lines))
            found.append((record, lines[start:end]))
    return found


def of_type(name: str) -> list[tuple[dict[str, Any], list[Line]]]:
    return [(record, lines) for record, lines in explained_records() if record.get("typeName") == name]


@pytest.mark.slow
def test_committed_offsets_in_kafkas_logs_are_explained_as_kafka_reads_them() -> None:
    found = of_type("OFFSET_COMMIT")
    for record, lines in found:
        assert value_of(lines, "type") == "1 (OffsetCommit)"
        for name in ("group", "topic", "partition"):
            assert value_of(lines, name) == repr(record["keyJson"][name])
        if record["valueJson"] is None:
            assert value_of(lines, "value") == "null: a tombstone"
            continue
        assert value_of(lines, "version") == f"{record['valueVersion']} (OffsetCommitValue)"
        assert value_of(lines, "offset") == str(record["valueJson"]["offset"])
        assert value_of(lines, "commit_timestamp").startswith(f"{record['valueJson']['commitTimestamp']} (20")
        if "topicId" in record["valueJson"]:
            assert value_of(lines, "topic_id") == record["valueJson"]["topicId"]
    assert len(found) > 1000


def test_groups_in_kafkas_logs_are_explained_with_what_their_consumers_wrote() -> None:
    explained = 0
    for record, lines in of_type("GROUP_METADATA"):
        value = record["valueJson"]
        if value is None:
            continue
        assert value_of(lines, "generation") == str(value["generation"])
        members = [line for line in lines if re.fullmatch(r"members\[\d+\]", line.name)]
        assert len(members) == len(value["members"])
        subscriptions = [line for line in lines if line.value.endswith("(ConsumerProtocolSubscription)")]
        sent = [base64.b64decode(member["subscription"]) for member in value["members"]]
        if value["protocolType"] == "consumer":
            assert len(subscriptions) == len([data for data in sent if data])
            explained += len(subscriptions)
        else:
            assert not subscriptions
    assert explained > 50


def test_the_end_of_a_transaction_is_explained() -> None:
    data = (DATA / "logs/txn/__consumer_offsets-3/00000000000000000000.log").read_bytes()
    shown = {line.value for line in explain_batches(data, explainer=OFFSETS_TOPIC)}
    assert {"0 (abort)", "1 (commit)", "48 (transactional, control)"} <= shown


@pytest.mark.parametrize("case", json_lines(DATA / "record_batches.jsonl.gz"), ids=lambda case: case["name"])
def test_batches_of_every_format_and_codec_are_explained(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["hex"])
    lines = list(explain_batches(data))
    assert_tiled(lines, 0, len(data))
    sound = all(found["isValid"] for found in case["batches"]) and not case["name"].startswith("truncated")
    assert any(line.damage for line in lines) != sound
    for found in case["batches"]:
        if found["magic"] < 2:
            assert any(line.name == f"message set of magic {found['magic']}" for line in lines)
    records = [line.name for line in lines if line.name.startswith("record ")]
    assert records == [
        f"record {record['offset']}"
        for found in case["batches"]
        if found["magic"] == 2
        for record in found.get("records", ())
    ]


def test_a_message_set_is_reported_with_its_magic_and_size_and_what_follows_is_explained() -> None:
    (case,) = [c for c in json_lines(DATA / "record_batches.jsonl.gz") if c["name"] == "mixed-formats"]
    lines = [line for line in explain_batches(bytes.fromhex(case["hex"])) if line.depth == 0]
    assert [(line.name, line.size) for line in lines[:2]] == [
        ("message set of magic 0", case["batches"][0]["sizeInBytes"]),
        ("message set of magic 1", case["batches"][1]["sizeInBytes"]),
    ]
    assert lines[0].value == "1 message, not explained further: CRC ok"


@pytest.mark.parametrize("kept", range(1, 130))
def test_a_batch_that_a_crash_cut_is_a_torn_tail_with_its_position(kept: int) -> None:
    whole = batch(b"first")
    torn = batch(b"second" * 20, base_offset=1)
    data = whole + torn[:kept]
    lines = list(explain_batches(data))
    assert_tiled(lines, 0, len(data))
    (damage,) = [line for line in lines if line.damage]
    assert (damage.name, damage.position, damage.size) == ("torn tail", len(whole), kept)
    assert damage.value.startswith(f"at byte {len(whole)}: {kept} ")


def test_a_file_that_grew_without_its_data_ends_in_a_torn_tail_of_zeros() -> None:
    whole = batch(b"first")
    (damage,) = [line for line in explain_batches(whole + bytes(500)) if line.damage]
    assert (damage.name, damage.position, damage.size) == ("torn tail", len(whole), 500)
    assert "500 zero bytes" in damage.value


def test_a_last_batch_with_a_wrong_checksum_may_be_torn_and_one_before_it_is_damaged() -> None:
    whole, hurt = batch(b"first"), bytearray(batch(b"second", base_offset=1))
    hurt[-1] ^= 1
    (last,) = [line for line in explain_batches(whole + hurt) if line.damage]
    (inner,) = [line for line in explain_batches(bytes(hurt) + whole) if line.damage]
    assert last.value.startswith(f"CRC WRONG at byte {len(whole)}, computed ")
    assert last.value.endswith("a torn tail, or damaged")
    assert inner.value.startswith("CRC WRONG at byte 0, ") and inner.value.endswith(": damaged")


@pytest.mark.parametrize("place", [8, 16])  # length, magic
def test_damage_is_reported_and_the_next_whole_batch_explained(place: int) -> None:
    first, last = batch(b"first"), batch(b"last", base_offset=2)
    hurt = bytearray(batch(b"second", base_offset=1))
    hurt[place] = 0x55
    lines = list(explain_batches(bytes(first + hurt + last)))
    assert_tiled(lines, 0, len(first + hurt + last))
    (damage,) = [line for line in lines if line.damage]
    assert (damage.name, damage.position, damage.size) == ("no batch", len(first), len(hurt))
    assert damage.value.endswith(f"the next whole batch is at byte {len(first) + len(hurt)}")
    assert lines[-1].position + lines[-1].size == len(first + hurt + last)
    assert "record 2" in [line.name for line in lines]


def test_a_damaged_length_that_reaches_over_the_next_batches_does_not_hide_them() -> None:
    hurt = bytearray(batch(b"first"))
    rest = batch(b"second", base_offset=1) + batch(b"last", base_offset=2)
    hurt[8:12] = (len(hurt) + len(rest) - 12).to_bytes(4)
    lines = list(explain_batches(bytes(hurt + rest)))
    assert_tiled(lines, 0, len(hurt + rest))
    assert [line.name for line in lines if line.depth == 0] == [
        "no batch",
        "batch of offsets 1 to 1",
        "batch of offsets 2 to 2",
    ]


def test_records_that_do_not_parse_under_a_good_checksum_are_damage() -> None:
    import google_crc32c

    data = bytearray(batch(b"value"))
    data[57:61] = (7).to_bytes(4)  # seven records announced
    data[17:21] = google_crc32c.value(bytes(data[21:])).to_bytes(4)
    lines = list(explain_batches(bytes(data)))
    assert_tiled(lines, 0, len(data))
    (damage,) = [line for line in lines if line.damage]
    assert damage.name == "(not a record)" and damage.size == 0


def test_a_stored_value_that_does_not_parse_is_reported_and_the_rest_explained() -> None:
    key = bytes.fromhex("0002000167")
    data = bytes(encode_batch([(key, b"\x00\x63", (), 1), (key, None, (), 1)]))
    lines = list(explain_batches(data, explainer=OFFSETS_TOPIC))
    assert_tiled(lines, 0, len(data))
    (damage,) = [line for line in lines if line.damage]
    assert damage.value == "GroupMetadataValue has no version 99, only 0-4"
    assert "record 1" in [line.name for line in lines]


def test_whatever_befalls_a_segment_every_byte_is_explained_once(rng: random.Random) -> None:
    whole = (REPOSITORY / SEGMENT).read_bytes() + (
        DATA / "logs/codec-zstd/__consumer_offsets-3/00000000000000000016.log"
    ).read_bytes()
    for _ in range(300):
        data = bytearray(whole[: rng.randrange(1, len(whole) + 1)])
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        lines = list(explain_batches(bytes(data), explainer=OFFSETS_TOPIC))
        assert_tiled(lines, 0, len(data))


@pytest.mark.parametrize("path", INDEXES)
def test_every_byte_of_kafkas_index_files_is_explained_once(path: str) -> None:
    data = (DATA / "logs" / path).read_bytes()
    lines = list(explain_index(data, Path(path).suffix, int(Path(path).stem)))
    assert_tiled(lines, 0, len(data))
    assert not [line for line in lines if line.damage]


def test_offsets_of_an_index_count_from_the_name_of_its_file() -> None:
    data = bytes.fromhex("0000000500001000")
    assert value_of(list(explain_index(data, ".index", 100)), "relative_offset") == "5 (offset 105)"
    assert value_of(list(explain_index(data, ".index")), "relative_offset") == "5"


def test_the_unused_end_of_an_index_file_is_no_damage_and_part_of_an_entry_is() -> None:
    entry = bytes.fromhex("0000000500001000")
    unused = list(explain_index(entry + bytes(80), ".index"))
    cut = list(explain_index(entry * 2 + entry[:3], ".index"))
    assert_tiled(unused, 0, 88)
    assert_tiled(cut, 0, 19)
    assert [line.damage for line in unused if line.depth == 0] == [False, False]
    assert [line.damage for line in cut if line.depth == 0] == [False, False, True]
