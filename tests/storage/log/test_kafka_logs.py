"""Partitions of `__consumer_offsets` as Apache Kafka 4.3.1 left them after a clean stop."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.protocol.records import read_records
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import DiskFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.cases import each_case
from tests.conftest import DATA
from tests.storage.batches import batch, content, copy_of

LOGS = DATA / "logs"
CONFIG = LogConfig(segment_bytes=100 << 20)
PARTITIONS = sorted(path for path in LOGS.glob("*/__consumer_offsets-*") if path.is_dir())


def recorded(partition: Path) -> list[dict[str, Any]]:
    """The batches of a partition as Kafka reads them."""
    with gzip.open(f"{partition}.records.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


each_partition = each_case("partition", PARTITIONS, ids=lambda path: f"{path.parent.name}-{path.name[-1]}")


def copied(partition: Path, tmp_path: Path) -> Path:
    """Return a folder with a copy to open, of the same name."""
    folder = tmp_path / partition.parent.name
    shutil.copytree(partition, folder / partition.name)
    return folder


@pytest.mark.slow
@each_partition
def test_every_batch_is_read_where_kafka_reads_it(partition: Path, tmp_path: Path) -> None:
    files = DiskFiles(copied(partition, tmp_path))
    before = copy_of(files, partition.name)
    log = Log.open(files, partition.name, CONFIG)
    expected = recorded(partition)
    found = list(log.batches())
    assert [(stored.segment, stored.position, stored.header.size) for stored in found] == [
        (entry["segment"], entry["position"], entry["sizeInBytes"]) for entry in expected
    ]
    for stored, entry in zip(found, expected, strict=True):
        assert stored.header.base_offset == entry["baseOffset"]
        assert stored.header.last_offset == entry["lastOffset"]
        assert stored.header.leader_epoch == entry["partitionLeaderEpoch"]
        assert [(record.offset, record.timestamp) for record in read_records(stored.data)] == [
            (record["offset"], record["timestamp"]) for record in entry["records"]
        ]
    assert log.recovery is None
    log.close()
    after = copy_of(files, partition.name)
    assert {name: data for name, data in after.items() if not name.endswith("index")} == {
        name: data for name, data in before.items() if not name.endswith("index")
    }


@pytest.mark.slow
@each_partition
def test_our_index_files_are_kafkas(partition: Path, tmp_path: Path) -> None:
    files = DiskFiles(copied(partition, tmp_path))
    before = copy_of(files, partition.name)
    Log.open(files, partition.name, CONFIG).close()
    after = copy_of(files, partition.name)
    indexes = [name for name in before if name.endswith("index") and not name.endswith(".txnindex")]
    assert indexes
    for name in indexes:
        assert after[name] == before[name], name


@pytest.mark.slow
@each_partition
def test_every_offset_and_timestamp_is_found(partition: Path, tmp_path: Path) -> None:
    log = Log.open(DiskFiles(copied(partition, tmp_path)), partition.name, CONFIG)
    batches = recorded(partition)
    records = [record for entry in batches for record in entry["records"]]
    for offset in range(log.log_end_offset):
        holder = next(entry for entry in batches if entry["lastOffset"] >= offset)
        data = log.read(offset, 1)
        assert (int.from_bytes(data[:8]), len(data)) == (holder["baseOffset"], holder["sizeInBytes"])
    for timestamp in {record["timestamp"] for record in records}:
        first = next(record for record in records if record["timestamp"] >= timestamp)
        assert log.offset_for_timestamp(timestamp) == (first["timestamp"], first["offset"])
    log.close()


@pytest.mark.slow
@each_partition
def test_a_log_of_kafka_continues_with_our_records(partition: Path, tmp_path: Path) -> None:
    files = DiskFiles(copied(partition, tmp_path))
    log = Log.open(files, partition.name, CONFIG)
    before = content(log)
    end = log.log_end_offset
    assert log.append(batch([b"ours"])) == end
    log = Log.open(files, partition.name, CONFIG)
    assert content(log) == [*before, (end, b"ours")]
    log.close()


@pytest.mark.parametrize("scenario", ["classic", "compact-before", "compact-after"])
def test_a_directory_of_kafkas_is_adopted(scenario: str, tmp_path: Path) -> None:
    shutil.copytree(LOGS / scenario, tmp_path, dirs_exist_ok=True)
    expected = json.loads((LOGS / scenario / "expected.json").read_text())
    directory = DataDirectory(DiskFiles(tmp_path))
    topic = directory.topics["__consumer_offsets"]
    assert list(directory.topics) == ["__consumer_offsets"]
    assert topic.partition_count == 4
    partitions = [path for path in PARTITIONS if path.parent.name == scenario]
    for number, partition in enumerate(partitions):
        log = directory.open_log("__consumer_offsets", number, CONFIG)
        assert log.log_end_offset == recorded(partition)[-1]["nextOffset"]
        assert log.topic_id == topic.topic_id
    assert expected["brokerSettings"]
    directory.close()
    again = DataDirectory(DiskFiles(tmp_path))
    assert again.topics == directory.topics
    again.close()
