"""A log that is loaded in columns leaves what its replay record by record leaves, to the order of groups and topics."""

import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_offsets.broker.groups import loading
from kafka_offsets.columns import dense_ids, records
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.shard_state import GroupSettings
from kafka_offsets.errors import StorageError
from kafka_offsets.installation import install_command
from kafka_offsets.protocol.records import (
    HEADER_BYTES,
    encode_batch,
    read_batch_header,
    read_records,
    rewrite_batch,
)
from kafka_offsets.protocol.varint import ZIGZAG
from kafka_offsets.storage.files.files import DiskFiles, MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.segments import segment_columns
from tests.broker.groups.offsets_logs import entry, logs
from tests.conftest import DATA
from tests.drivers.shard import Topics

DIRECTORY = "__consumer_offsets-0"
FILE = f"{DIRECTORY}/{0:020d}.log"
REAL = sorted(path for path in (DATA / "logs").glob("*/__consumer_offsets-*") if path.is_dir())


def new_shard() -> Shard:
    return Shard(0, GroupSettings(), lambda prefix: prefix, Topics({}))


def stored_log(data: bytes) -> Log:
    """A log of one segment with these bytes, opened before they were damaged, if they are."""
    files = MemoryFiles()
    files.make_directory(DIRECTORY)
    file = files.open(FILE, create=True)
    file.append(data)
    return Log.open(files, DIRECTORY, LogConfig())


def left_by(shard: Shard) -> dict[str, Any]:
    """All that a replay changes, in an order that matters; that of the groups does not, as in Kafka's hash map."""
    offsets = shard.offsets
    return {
        "groups": sorted(
            (name, type(group).__name__, group.group_id, repr(group.durable))
            for name, group in shard.groups.items()
        ),
        "offsets": [(group, offsets.topics(group), list(offsets.items(group))) for group in offsets.groups()],
        "count": len(offsets),
        "pending": [(producer, list(pending.items())) for producer, pending in shard.pending.items()],
        "unknown": shard.unknown_records,
    }


def assert_equal_loads(log: Log) -> None:
    plain, quick = new_shard(), new_shard()
    loading.replay(plain, log)
    assert loading.replay_in_columns(quick, log)
    assert left_by(quick) == left_by(plain)


@pytest.mark.slow
@given(logs(), st.sampled_from((1, 200, 1000, 1 << 20)))
def test_any_log_leaves_the_same_in_columns(batches: list[bytes], chunk_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_columns, "CHUNK_BYTES", chunk_bytes)
        patch.setattr(records, "_FEW_LANES", chunk_bytes % 3)
        assert_equal_loads(stored_log(b"".join(batches)))


@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_log_of_kafka_leaves_the_same_in_columns(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_columns, "CHUNK_BYTES", 1000)
    shutil.copytree(path, tmp_path / path.name)
    assert_equal_loads(Log.open(DiskFiles(tmp_path), path.name, LogConfig()))


def error_of(load: Any, log: Log) -> str | None:
    try:
        load(new_shard(), log)
    except StorageError as error:
        return str(error)
    return None


def load_in_columns(shard: Shard, log: Log) -> None:
    """As `load` does with a long log."""
    if not loading.replay_in_columns(shard, log):
        assert left_by(shard) == left_by(new_shard())
        loading.replay(shard, log)


@pytest.mark.slow
@given(logs(6), st.data(), st.sampled_from((1, 1000)))
def test_damage_is_refused_with_the_same_place_and_words(
    batches: list[bytes], data: st.DataObject, chunk_bytes: int
) -> None:
    content = bytearray(b"".join(batches))
    log = stored_log(bytes(content))
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=2)):
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    overwrite(log, bytes(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_columns, "CHUNK_BYTES", chunk_bytes)
        assert error_of(load_in_columns, log) == error_of(loading.replay, log)


def overwrite(log: Log, content: bytes) -> None:
    """Put other bytes of the same number where the log has its segment."""
    file = log._files.open(FILE)
    file.truncate(0)
    file.append(content)
    file.close()


def sealed(batch: bytearray) -> bytes:
    """The batch with the checksum of its bytes as they are now."""
    batch[17:21] = google_crc32c.value(bytes(batch[21:])).to_bytes(4)
    return bytes(batch)


@st.composite
def sealed_damage(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """The batches of a log, and the same with one or two bits of a batch flipped, its checksum right again."""
    batches = draw(logs(6))
    which = draw(st.integers(0, len(batches) - 1))
    batch = bytearray(batches[which])
    for _ in range(draw(st.integers(1, 2))):
        batch[draw(st.integers(21, len(batch) - 1))] ^= 1 << draw(st.integers(0, 7))
    return batches, [*batches[:which], sealed(batch), *batches[which + 1 :]]


def with_offset_deltas(*deltas: tuple[int, ...]) -> tuple[list[bytes], list[bytes]]:
    """Batches with offsets of groups a, b ... in a transaction, and the same with these offset deltas."""
    batches, damaged, groups = [], [], iter("abc")
    for base_offset, of_batch in enumerate(deltas):
        records = [stored.offset_record(next(groups), "t", 0, entry(0)) for _ in of_batch]
        found = [(r.key, r.value, (), 5) for r in records]
        batch = encode_batch(found, base_offset=base_offset, producer_id=7, transactional=True)
        batches.append(bytes(batch))
        size = (len(batch) - HEADER_BYTES) // len(records)
        for at, delta in enumerate(of_batch):
            batch[HEADER_BYTES + at * size + 3] = ZIGZAG.index(delta)
        damaged.append(sealed(batch))
    return batches, damaged


@pytest.mark.slow
@example(with_offset_deltas((-1,)), 1 << 20).via("a log offset of -1: in columns the group was missing")
@example(with_offset_deltas((2, 1)), 1 << 20).via("offsets that fall: in columns the groups changed places")
@example(with_offset_deltas((3,), (1,)), 1).via("offsets that fall from one part of the log to the next")
@given(sealed_damage(), st.sampled_from((1, 1 << 20)))
def test_bytes_that_only_the_checksum_vouches_for_are_read_or_refused_alike(
    case: tuple[list[bytes], list[bytes]], chunk_bytes: int
) -> None:
    batches, damaged = case
    log = stored_log(b"".join(batches))
    overwrite(log, b"".join(damaged))
    plain, quick = new_shard(), new_shard()
    expected = error_of(lambda _, log: loading.replay(plain, log), log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_columns, "CHUNK_BYTES", chunk_bytes)
        assert error_of(lambda _, log: load_in_columns(quick, log), log) == expected
    if expected is None:
        assert left_by(quick) == left_by(plain)


def test_a_batch_that_says_it_has_no_records_and_has_some_is_refused() -> None:
    batch = bytearray(commits(10))
    log = stored_log(bytes(batch))
    batch[57:61] = bytes(4)
    batch[17:21] = google_crc32c.value(bytes(batch[21:])).to_bytes(4)
    overwrite(log, bytes(batch))
    expected = error_of(loading.replay, log)
    assert expected is not None and "after the last record" in expected
    assert error_of(load_in_columns, log) == expected


def commits(count: int, *, groups: int = 3) -> bytes:
    """So many offsets of some groups, in batches of ten."""
    data = bytearray()
    for base in range(0, count, 10):
        records = [
            stored.offset_record(f"group-{at % groups}", "orders", at % 7, entry(at))
            for at in range(base, base + 10)
        ]
        data += encode_batch([(r.key, r.value, (), 5) for r in records], base_offset=base)
    return bytes(data)


def test_names_with_equal_hashes_are_replayed_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_ids, "_hashes", lambda buffer, starts, lengths: lengths.astype("u8"))
    log = stored_log(commits(50))
    shard, plain = new_shard(), new_shard()
    assert not loading.replay_in_columns(shard, log)
    assert left_by(shard) == left_by(new_shard())
    loading.load(shard, log)
    loading.replay(plain, log)
    assert left_by(shard) == left_by(plain)


@pytest.mark.slow
def test_many_more_names_and_keys_than_tables_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_columns, "CHUNK_BYTES", 1 << 16)
    assert_equal_loads(stored_log(commits(20_000, groups=5003)))


@pytest.mark.slow
def test_a_long_batch_is_read_as_many_short_ones_are() -> None:
    records = [
        stored.offset_record("g" * (at % 90 + 1), "t", at, entry(at, "x" * (at % 120))) for at in range(5000)
    ]
    assert_equal_loads(stored_log(bytes(encode_batch([(r.key, r.value, (), 5) for r in records]))))


def test_a_long_log_is_loaded_in_columns_and_a_short_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(shard: Shard, log: Log, abandoned: list[object]) -> bool:
        raise AssertionError("loaded in columns")

    monkeypatch.setattr(loading, "replay_in_columns", refuse)
    log = stored_log(commits(1000))
    loading.load(new_shard(), log)
    monkeypatch.setattr(loading, "QUICK_FROM_BYTES", log.size)
    with pytest.raises(AssertionError, match="in columns"):
        loading.load(new_shard(), log)


@pytest.mark.parametrize(("pays_from", "told"), [(0, True), (1 << 30, False)])
def test_a_missing_numpy_is_reported_where_it_would_help(
    pays_from: int, told: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loading, "QUICK_FROM_BYTES", 0)
    monkeypatch.setattr(loading, "NUMPY_PAYS_FROM_BYTES", pays_from)
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    shard = new_shard()
    with caplog.at_level(logging.WARNING):
        loading.load(shard, stored_log(commits(100)))
    assert len(shard.offsets) == 21
    said = f"with numpy that takes a fifth of the time: {install_command('fast')}"
    assert (said in caplog.text) is told


def test_numpy_is_imported_for_a_long_log_alone() -> None:
    program = "import sys, kafka_offsets.broker.groups.runtime; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 0, 0, 1, 120]),
            st.integers(1, 100),
            st.sampled_from(["t", "orders"]),
            st.sampled_from(["", "", "", "m"]),
            st.sampled_from([1, 1, 1, 3]),
        ),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.integers(0, 99), max_size=2),
)
def test_runs_of_neighbouring_partitions_leave_the_same(
    runs: list[tuple[int, int, str, str, int]], odd: list[int]
) -> None:
    batches, offset = [], 0
    for first, count, topic, text, step in runs:
        committed = []
        for number in range(count):
            partition = (first + number * step) % 130
            value = entry(offset + number)._replace(
                topic_id=bytes([1 + (number in odd)]) * 16, metadata=text if number in odd else ""
            )
            key = stored.offset_key("g", topic, partition)
            committed.append((key, stored.offset_value(value), (), 10**12 + (number in odd and number % 2)))
        batches.append(bytes(encode_batch(committed, base_offset=offset, leader_epoch=0)))
        header = read_batch_header(batches[-1])
        if odd:  # as compaction leaves it
            kept = [record for at, record in enumerate(read_records(batches[-1])) if at % 7 != odd[0] % 7]
            batches[-1] = bytes(rewrite_batch(header, kept)) if kept else batches[-1]
        offset += count
    assert_equal_loads(stored_log(b"".join(batches)))
