"""The offsets log in Arrow columns, against the plain codec. No Spark here."""

import gzip
import json
import random
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_offsets.columns import last_offsets
from kafka_offsets.coordinator.state import stored
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import batch_headers, encode_batch
from kafka_offsets.spark.reader import (
    arrays,
    columnar,
    options,
    plain,
    query,
    schema,
    segments,
)
from kafka_offsets.storage.segments.segment_names import segment_name
from kafka_offsets.testing import strategies
from tests.conftest import REPOSITORY
from tests.spark import reference
from tests.spark.logs import commit, marker

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


def test_every_option_and_column_is_documented() -> None:
    text = (REPOSITORY / "docs" / "spark.md").read_text()
    assert [name for name in options.NAMES if f"| `{name}` |" not in text] == []
    assert [c.name for c in schema.COLUMNS if f"| `{c.name}` |" not in text or c.about not in text] == []


KNOWN_KEYS = st.sampled_from(
    [
        stored.offset_key(group, topic, partition)
        for group in ("g", "é" * 40)
        for topic in ("t", "")
        for partition in (0, 7)
    ]
)
OFFSET_VALUES = st.integers(0, 4).flatmap(
    lambda version: strategies.message("OffsetCommitValue", version, unknown_tags=version == 4).map(
        lambda value: version.to_bytes(2, "big") + messages.encode(value, version)
    )
)
GROUP_VALUES = st.integers(0, 4).flatmap(
    lambda version: strategies.message("GroupMetadataValue", version).map(
        lambda value: version.to_bytes(2, "big") + messages.encode(value, version)
    )
)
KEY_TYPES = st.one_of(st.sampled_from(sorted(schema.KINDS)), st.integers(-2, 30)).map(
    lambda number: number.to_bytes(2, "big", signed=True)
)


@st.composite
def mangled(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with one byte changed, or cut, or with more after them; mostly as they are."""
    value = draw(values)
    how = draw(st.integers(0, 9))
    at = draw(st.integers(0, max(len(value) - 1, 0)))
    if how == 0:
        return value[:at]
    if how == 1:
        return value + draw(st.binary(min_size=1, max_size=3))
    if how == 2:
        return value[:at] + draw(st.binary(min_size=1, max_size=1)) + value[at + 1 :]
    return value


PAIRS = st.lists(
    st.one_of(
        st.tuples(mangled(KNOWN_KEYS), st.one_of(st.none(), mangled(OFFSET_VALUES))),
        st.tuples(mangled(st.just(b"\0\2\0\1g")), st.one_of(st.none(), mangled(GROUP_VALUES))),
        st.tuples(
            st.one_of(
                st.none(),
                st.builds(bytes.__add__, KEY_TYPES, st.sampled_from([b"", b"\0\1g", b"\0\1g\0\1m"])),
            ),
            st.one_of(st.none(), st.binary(max_size=20)),
        ),
    ),
    max_size=12,
)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Segments: batches of one producer or another, transactional or not, compressed or not, with markers."""
    content, offset = bytearray(), draw(st.integers(0, 5))
    for _ in range(draw(st.integers(0, 5))):
        producer_id = draw(st.integers(-1, 2))
        if producer_id >= 0 and draw(st.booleans()):
            content += marker(offset, producer_id, committed=draw(st.booleans()))
            offset += 1
            continue
        pairs = draw(PAIRS.filter(bool))
        timestamps = st.sampled_from([-1, 0, 1_750_000_000_000, 1_750_000_000_100, 1 << 60])
        headers = draw(st.sampled_from([(), (("h", b"v"),)]))
        content += encode_batch(
            [(key, value, headers, draw(timestamps)) for key, value in pairs],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=min(producer_id, 0),
            transactional=producer_id >= 0,
            compression=draw(st.sampled_from([Compression.NONE, Compression.NONE, *Compression])),
        )
        offset += len(pairs) + draw(st.integers(0, 3))
    return bytes(content)


@settings(max_examples=60, deadline=None)
@given(st.lists(logs(), min_size=1, max_size=3), st.booleans(), st.data())
def test_any_log_is_what_the_plain_codec_reads(
    contents: list[bytes], committed: bool, data: st.DataObject
) -> None:
    with TemporaryDirectory() as root:
        folder = Path(root, "__consumer_offsets-3")
        folder.mkdir()
        paths = [folder / segment_name(1000 * number) for number in range(len(contents))]
        for number, (path, content) in enumerate(zip(paths, contents, strict=True)):
            path.write_bytes(moved(content, 1000 * number))
        columns = data.draw(st.lists(st.sampled_from(sorted(schema.BY_NAME)), min_size=1, unique=True))
        read = reference.read(
            Path(root),
            columns=",".join(columns),
            isolation="committed" if committed else "uncommitted",
            splitBytes=data.draw(st.sampled_from(["1", "1000000"])),
        )
        expected = reference.rows(3, [str(path) for path in paths], committed=committed)
    assert len(read) == len(expected)
    for row, whole in zip(read, expected, strict=True):
        compared = set(columns)
        if "error" not in columns and "'utf-8' codec" in str(whole["error"]):
            # A name is invalid. If the query does not have it, the record is read: the tests below have the result.
            compared -= columnar._OF_RECORD
        assert row.keys() == set(columns)
        assert {name: row[name] for name in compared} == {name: whole[name] for name in compared}


def moved(content: bytes, offset: int) -> bytes:
    """The same batches at later offsets; the checksum does not cover these."""
    changed = bytearray(content)
    for position, header in batch_headers(content):
        changed[position : position + 8] = (header.base_offset + offset).to_bytes(8, "big")
    return bytes(changed)


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_keys_and_values_alone_are_read_as_those_of_a_log(
    pairs: list[tuple[bytes | None, bytes | None]],
) -> None:
    names = [name for name in schema.BY_NAME if name not in ("key", "value")]
    made = columnar.decode_pairs(
        pa.array([key for key, _ in pairs], pa.binary()),
        pa.array([value for _, value in pairs], pa.binary()),
        schema.select(names),
    )
    expected = [{**dict.fromkeys(names), **plain.explain(key, value)} for key, value in pairs]
    for row in expected:
        for name in ("commit_timestamp", "expire_timestamp"):
            row[name] = reference.microseconds(row[name])
    assert reference.listed(made) == expected


def write_segment(root: Path, content: bytes) -> Path:
    folder = root / "__consumer_offsets-0"
    folder.mkdir()
    path = folder / segment_name(0)
    path.write_bytes(content)
    return path


def three_batches() -> list[bytes]:
    return [bytes(encode_batch([commit("g", "t", 0, number)], base_offset=number)) for number in range(3)]


COLUMNS = "log_offset,committed_offset,file,position,batch_bytes,error"


def test_a_damaged_batch_is_a_row_and_the_next_ones_are_read(tmp_path: Path) -> None:
    first, second, third = three_batches()
    path = write_segment(tmp_path, first + second[:-1] + b"\x07" + third)
    read = reference.read(tmp_path, columns=COLUMNS, verifyCrc="true")
    assert [row["committed_offset"] for row in read] == [0, None, 2]
    error = read[1].pop("error")
    assert read[1] == {
        "log_offset": 1,
        "committed_offset": None,
        "file": str(path),
        "position": len(first),
        "batch_bytes": len(second),
    }
    assert "CRC" in error


def test_a_torn_tail_is_a_row_and_the_end(tmp_path: Path) -> None:
    first, second, third = three_batches()
    write_segment(tmp_path, first + second + third[:-5])
    read = reference.read(tmp_path, columns=COLUMNS)
    assert [row["committed_offset"] for row in read] == [0, 1, None]
    assert "the file ends within a batch" in read[2]["error"]
    assert read[2]["position"] == len(first + second)


def test_bytes_that_are_no_batch_are_a_row_and_the_next_batch_is_read(tmp_path: Path) -> None:
    first, second, _ = three_batches()
    write_segment(tmp_path, first + bytes(100) + second)
    read = reference.read(tmp_path, columns=COLUMNS, mode="latest")
    assert [row["committed_offset"] for row in read] == [None, 1]
    assert "no record batch of format 2 begins here" in read[0]["error"]
    assert f"bytes {len(first)} to {len(first) + 99} are skipped" in read[0]["error"]


@pytest.mark.parametrize("verify", ["false", "true"])
@pytest.mark.parametrize(
    ("at", "damage"),
    [
        (8, b"\x7f"),  # a length beyond the end of the file
        (8, b"\x80"),  # a negative one
        (11, b"\x07"),  # a short one
        (10, b"\x01"),  # one that ends in a later batch
        (16, b"\x05"),  # a magic of no format
        (0, bytes(12)),
        (0, bytes(61)),
    ],
)
def test_damage_costs_one_batch(at: int, damage: bytes, verify: str, tmp_path: Path) -> None:
    batches = [bytes(encode_batch([commit("g", "t", 0, number)], base_offset=number)) for number in range(40)]
    hit = bytearray(batches[20])
    hit[at : at + len(damage)] = damage
    write_segment(tmp_path, b"".join([*batches[:20], hit, *batches[21:]]))
    read = reference.read(tmp_path, columns=COLUMNS, verifyCrc=verify)
    assert [row["committed_offset"] for row in read] == [*range(20), None, *range(21, 40)]
    start = 20 * len(hit)
    assert f"bytes {start} to {start + len(hit) - 1} are skipped" in read[20]["error"]


def test_two_damaged_batches_are_two_rows(tmp_path: Path) -> None:
    first, second, third = (bytearray(batch) for batch in three_batches())
    first[-1] ^= 1
    second[-1] ^= 1
    write_segment(tmp_path, bytes(first + second + third))
    read = reference.read(tmp_path, columns=COLUMNS, verifyCrc="true")
    assert [(row["log_offset"], row["committed_offset"]) for row in read] == [(0, None), (1, None), (2, 2)]


def test_a_marker_after_damage_ends_its_transaction(tmp_path: Path) -> None:
    begun = [
        bytes(
            encode_batch(
                [commit("g", "t", 0, number)],
                base_offset=number,
                producer_id=7,
                producer_epoch=0,
                transactional=True,
            )
        )
        for number in (0, 1)
    ]
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / segment_name(0)).write_bytes(begun[0])
    (folder / segment_name(1)).write_bytes(begun[1] + bytes(80) + marker(5, 7, committed=True))
    read = reference.read(
        tmp_path, columns="log_offset,committed_offset,outcome,error", isolation="committed"
    )
    assert [(row["committed_offset"], row["outcome"]) for row in read] == [
        (0, "committed"),
        (1, "committed"),
        (None, None),
    ]


@pytest.mark.parametrize("mode", ["all", "latest"])
def test_segments_that_overlap_are_an_error(mode: str, tmp_path: Path) -> None:
    batches = three_batches()
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / segment_name(0)).write_bytes(b"".join(batches))
    (folder / segment_name(1)).write_bytes(b"".join(batches[1:]))
    for split in ("1", "1000000"):
        read = reference.read(tmp_path, columns=COLUMNS, mode=mode, splitBytes=split)
        (error,) = (row for row in read if row["error"])
        assert "offset 1 found, and the next segment begins at 1: bytes" in error["error"]
        assert (error["log_offset"], error["position"]) == (1, len(batches[0]))
        offsets = [row["log_offset"] for row in read if not row["error"]]
        assert len(offsets) == len(set(offsets)) and max(offsets) == 2
        assert mode == "latest" or offsets == sorted(offsets)


def write_segments(folder: Path, rng: random.Random, keys: int) -> dict[tuple[str, str, int], int]:
    """Write six segments of some batches; return the last committed offset of each key."""
    folder.mkdir()
    last: dict[tuple[str, str, int], int] = {}
    for first in range(0, 48, 8):
        places = [(rng.choice("gh"), rng.choice(["t", "u"]), rng.randrange(keys)) for _ in range(8)]
        records = [commit(*key, first + place) for place, key in enumerate(places)]
        content = [encode_batch(records[at : at + 2], base_offset=first + at) for at in range(0, 8, 2)]
        (folder / segment_name(first)).write_bytes(b"".join(content))
        last |= {key: first + place for place, key in enumerate(places)}
    return last


@pytest.mark.parametrize("keys", [1, 3, 100])
@pytest.mark.parametrize(
    ("range_bytes", "held_bytes"), [(1 << 20, 1 << 20), (1, 1 << 20), (200, 1), (1 << 20, 1)]
)
def test_the_winners_of_a_task_are_those_of_all_its_segments(
    range_bytes: int,
    held_bytes: int,
    keys: int,
    rng: random.Random,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segments, "RANGE_BYTES", range_bytes)
    monkeypatch.setattr(query, "HELD_BYTES", held_bytes)
    last = write_segments(tmp_path / "__consumer_offsets-0", rng, keys)
    asked = {"columns": "group,topic,partition,log_offset,committed_offset", "mode": "latest"}
    rows = reference.read(tmp_path, **asked)
    assert len({row["log_offset"] for row in rows}) == len(rows)
    rows.sort(key=lambda row: int(row["log_offset"]))
    found = {(row["group"], row["topic"], row["partition"]): row["committed_offset"] for row in rows}
    assert found == last, "a later row of a key is the one that counts"
    assert held_bytes == 1 or len(rows) == len(last), "no key comes again"
    alone = reference.read(tmp_path, splitBytes="1", **asked)
    assert len(alone) >= len(rows) >= len(last)


def test_a_table_of_keys_that_grows_returns_each_key_once(
    rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "_FEW_KEYS", 1)
    monkeypatch.setattr(last_offsets, "_FEWEST", 2)
    last = write_segments(tmp_path / "__consumer_offsets-0", rng, 1000)
    rows = reference.read(tmp_path, mode="latest", columns="committed_offset")
    assert sorted(row["committed_offset"] for row in rows) == sorted(last.values())
    assert len(last) > 30


def test_a_key_that_is_too_long_for_the_table_is_returned(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    records = [commit(group, "t", 0, offset) for offset, group in enumerate(["g" * 600, "h", "g" * 600, "h"])]
    (folder / segment_name(0)).write_bytes(encode_batch(records))
    rows = reference.read(tmp_path, mode="latest", columns="committed_offset")
    assert [row["committed_offset"] for row in rows] == [0, 2, 3]


def test_what_a_task_reads_from_its_end_has_the_damage_and_the_transactions_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment is divided at each batch, and so among damage, before markers and in an overlap."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    content, offset = [], 0
    for number in range(12):
        producer_id = number % 3 or -1
        batch = encode_batch(
            [commit("g", "t", number % 5, 100 + number), commit("g", "u", number, number)],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            transactional=producer_id >= 0,
        )
        if number in (4, 7):
            batch[8:17] = bytes(9)
        content.append(bytes(batch))
        offset += 2
        if number == 8:
            content.append(bytes(marker(offset, 1, committed=True)))
            offset += 1
    content.append(bytes(marker(offset, 2, committed=False)))
    (folder / segment_name(0)).write_bytes(b"".join(content))
    (folder / segment_name(offset)).write_bytes(encode_batch([commit("g", "t", 0, 1)], base_offset=offset))
    for isolation in ("committed", "uncommitted"):
        asked = {"columns": "log_offset,topic,partition,tombstone,outcome,error", "isolation": isolation}
        whole = reference.read(tmp_path, **asked)
        expected = [row for row in whole if row["error"] or row["outcome"] in ("aborted", "open")]
        last = {
            (row["topic"], row["partition"]): row for row in whole if row["topic"] and row not in expected
        }
        monkeypatch.setattr(segments, "RANGE_BYTES", 1)
        found = reference.read(tmp_path, mode="latest", **asked)
        monkeypatch.undo()
        assert sorted(found, key=str) == sorted([*expected, *last.values()], key=str)
        assert len([row for row in found if row["error"]]) == 3
        assert isolation == "committed" or {"open", "aborted"} & {row["outcome"] for row in found}


def test_types_and_offsets_choose_records() -> None:
    log = LOGS / "consumer"
    whole = reference.read(log, columns="kind,log_partition,log_offset")
    offsets = reference.read(log, columns="kind,log_partition,log_offset", types="offset")
    assert offsets == [row for row in whole if row["kind"] == "offset"]
    consumer = reference.read(log, columns="kind,log_partition,log_offset", types="consumer")
    assert consumer == [row for row in whole if row["kind"].startswith("consumer_group")]
    given = {"startingOffsets": '{"1": 20}', "endingOffsets": '{"1": 40}'}
    part = reference.read(log, columns="kind,log_partition,log_offset", **given)
    assert part == [row for row in whole if row["log_partition"] != 1 or 20 <= row["log_offset"] < 40]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"path": "x", "paht": "y"}, "no option 'paht'"),
        ({}, "either the option 'path'"),
        ({"path": "x", "bootstrap.servers": "h:1"}, "either the option 'path'"),
        ({"path": "x", "mode": "newest"}, "option 'mode' is 'newest', not 'all' or 'latest'"),
        ({"path": "x", "types": "offsets"}, "option 'types': no 'offsets'"),
        ({"path": "x", "types": "group", "mode": "latest"}, "mode 'latest' is of type 'offset' alone"),
        ({"path": "x", "columns": "tpoic"}, "option 'columns': no column 'tpoic'"),
        ({"path": "x", "isolation": "read_committed"}, "option 'isolation' is 'read_committed'"),
        ({"path": "x", "startingOffsets": "newest"}, "option 'startingOffsets' is 'newest'"),
        ({"path": "x", "endingOffsets": '{"0": -1}'}, "option 'endingOffsets'"),
        ({"path": "x", "verifyCrc": "yes"}, "option 'verifyCrc' is 'yes'"),
        ({"path": "x", "splitBytes": "0"}, "option 'splitBytes' is '0', not a number above 0"),
        ({"bootstrap.servers": "localhost"}, "option 'bootstrap.servers': localhost is not HOST:PORT"),
        ({"path": "x", "kafka.security.protocol": "SSL"}, "'kafka.security.protocol' is for a cluster"),
        (
            {"bootstrap.servers": "h:1", "kafka.security.protocol": "TLS"},
            "options 'kafka.*': security.protocol is TLS",
        ),
        (
            {"bootstrap.servers": "h:1", "kafka.sasl.mechanism": "PLAIN"},
            "options 'kafka.*': without effect with security.protocol=PLAINTEXT: sasl.mechanism",
        ),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], words: str) -> None:
    with pytest.raises(options.OptionError, match=re.escape(words)):
        options.parse(given)


def test_a_path_without_segments_is_named(tmp_path: Path) -> None:
    with pytest.raises(segments.NoLogError, match="no segments of __consumer_offsets there"):
        segments.find(str(tmp_path))


def test_a_pattern_and_a_single_folder_name_partitions() -> None:
    log = LOGS / "consumer"
    assert list(segments.find(f"{log}/__consumer_offsets-[12]")) == [1, 2]
    assert list(segments.find(f"{log}/__consumer_offsets-2/")) == [2]
    assert list(segments.find(f"file://{log}")) == [0, 1, 2, 3]


def test_a_log_on_another_file_system_is_read() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe(f"/logs/__consumer_offsets-5/{segment_name(0)}", b"".join(three_batches()))
    asked = options.parse({"path": "memory://logs", "columns": "log_partition,committed_offset"})
    (runs,) = segments.plan(segments.find("memory://logs"), asked.split_bytes)
    (batch,) = segments.read(runs, asked.query)
    assert batch.to_pydict() == {"log_partition": [5, 5, 5], "committed_offset": [0, 1, 2]}


FOUND = {
    partition: [
        segments.SegmentAt(partition, f"/log/__consumer_offsets-{partition}/{number}", number, size)
        for number, size in enumerate(sizes)
    ]
    for partition, sizes in {0: [80, 80, 80], 1: [10], 3: [80, 80, 80, 80, 80, 70]}.items()
}


@pytest.mark.parametrize(
    ("split_bytes", "expected"),
    [
        (1, [[(0, 1)], [(0, 1)], [(0, 1)], [(1, 1)], *[[(3, 1)]] * 6]),
        (400, [[(0, 3), (1, 1), (3, 1)], [(3, 5)]]),
        (320, [[(0, 3)], [(1, 1), (3, 3)], [(3, 3)]]),
        (1000, [[(0, 3), (1, 1), (3, 6)]]),
    ],
)
def test_segments_are_divided_evenly(split_bytes: int, expected: list[list[tuple[int, int]]]) -> None:
    planned = segments.plan(FOUND, split_bytes)
    assert [[(run.log_end.log_partition, len(run.segments)) for run in runs] for runs in planned] == expected


@given(
    st.dictionaries(st.integers(0, 5), st.lists(st.integers(0, 100), min_size=1, max_size=8), max_size=4),
    st.integers(1, 300),
)
def test_each_segment_with_bytes_is_read_once_and_in_order(
    sizes: dict[int, list[int]], split_bytes: int
) -> None:
    found = {
        partition: [
            segments.SegmentAt(partition, f"/{partition}/{n}", n, size) for n, size in enumerate(of_it)
        ]
        for partition, of_it in sizes.items()
    }
    planned = segments.plan(found, split_bytes)
    total = sum(map(sum, sizes.values()))
    assert all(planned) and len(planned) <= -(-total // split_bytes)
    read = [segment for runs in planned for run in runs for segment in run.segments]
    assert read == [segment for of_it in found.values() for segment in of_it if segment.size]
    largest = max((size for of_it in sizes.values() for size in of_it), default=0)
    for runs in planned:
        assert sum(segment.size for run in runs for segment in run.segments) <= split_bytes + largest


def write_group_that_is_not_text(folder: Path) -> dict[str, Any]:
    """Write a log with one commit; return its row in all columns."""
    key, value, headers, timestamp = commit("xx", "t", 0, 5)
    assert key is not None
    write_segment(folder, bytes(encode_batch([(key.replace(b"xx", b"\xa9x"), value, headers, timestamp)])))
    (row,) = reference.rows(0, [str(next(folder.glob("*/*.log")))], committed=True)
    assert row["error"] is not None
    return row


@pytest.mark.parametrize("columns", ["batch_bytes,error", "group", "group,committed_offset"])
def test_a_group_that_is_not_text_is_an_error_where_group_or_error_is_requested(
    tmp_path: Path, columns: str
) -> None:
    expected = write_group_that_is_not_text(tmp_path)
    (row,) = reference.read(tmp_path, columns=columns)
    assert row == {name: expected[name] for name in columns.split(",")}


def test_text_that_is_not_requested_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_group_that_is_not_text(tmp_path)
    built: list[int] = []
    strings = arrays.strings

    def counted(*places: Any) -> pa.Array:
        built.append(len(places))
        return strings(*places)

    monkeypatch.setattr(arrays, "strings", counted)
    assert reference.read(tmp_path, columns="committed_offset") == [{"committed_offset": 5}]
    assert not built
    assert reference.read(tmp_path, columns="topic") == [{"topic": "t"}]
    assert len(built) == 1


def test_a_folder_of_another_topic_is_refused(tmp_path: Path) -> None:
    """Its records were no commits, and the result was empty."""
    from kafka_offsets.spark.reader.segments import NoLogError, find

    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"")
    for path in (folder, tmp_path / "orders-*"):
        with pytest.raises(NoLogError, match="orders-0: a log of topic orders, not of __consumer_offsets"):
            find(str(path))


def test_a_time_beyond_pythons_is_written_back() -> None:
    """A commit with microseconds in place of milliseconds ended `write_segments`."""
    import numpy as np
    import pyarrow as pa

    from kafka_offsets.spark.pipelines import segment_files
    from kafka_offsets.spark.reader import arrays, schema

    micros = 1_700_000_000_000_000
    times = arrays.timestamps(np.array([micros]))
    row = dict.fromkeys(schema.STATE_COLUMNS) | {
        "log_partition": 0, "log_offset": 1, "group": "g", "topic": "t", "partition": 0, "committed_offset": 5,
        "metadata": "",
    }  # fmt: skip
    batch = pa.RecordBatch.from_pylist(
        [row | {"commit_timestamp": None}], schema.arrow_schema(schema.STATE_COLUMNS)
    )
    at = batch.schema.get_field_index("commit_timestamp")
    batch = batch.set_column(at, "commit_timestamp", times)
    (written,) = segment_files._encode(iter([batch]))
    assert written.column("timestamp").to_pylist() == [micros]
