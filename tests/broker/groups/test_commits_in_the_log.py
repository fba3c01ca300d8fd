"""What a commit leaves in the log is what Apache Kafka 4.3.1 leaves there, byte for byte.

The batches are those of tests/data/logs in which Kafka stamped the record at the millisecond of the commit. Topics have
Kafka's ids, since a partition folder that lies in the data directory is adopted with the id in its partition.metadata.
"""

import gzip
import json
from base64 import urlsafe_b64decode
from typing import Any

import pytest

from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.state import stored
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.protocol.records import set_base_offset
from kafka_offsets.storage.files.checkpoints import encode_partition_metadata
from kafka_offsets.storage.files.files import MemoryFiles
from tests.conftest import DATA
from tests.drivers.core import CoreClient, make_core

SCENARIOS = ("classic", "raw")
PARTITIONS = 4


def offsets_batches(scenario: str) -> list[tuple[dict[str, Any], bytes]]:
    """All batches of the offsets topic: what Kafka says they are, and their bytes."""
    found = []
    for file in sorted((DATA / "logs" / scenario).glob(f"{OFFSETS_TOPIC}-*.records.jsonl.gz")):
        folder = file.with_name(file.name.partition(".")[0])
        for line in gzip.decompress(file.read_bytes()).decode().splitlines():
            batch = json.loads(line)
            position, size = batch["position"], batch["sizeInBytes"]
            data = (folder / batch["segment"]).read_bytes()[position : position + size]
            found.append((batch, data))
    return found


def of_type(batch: dict[str, Any], name: str) -> bool:
    """Whether all records of a batch are of one type, and none is a tombstone."""
    return all(r.get("typeName") == name and r["value"] is not None for r in batch["records"])


def commits(scenario: str) -> list[tuple[dict[str, Any], bytes]]:
    """The batches that one commit outside a transaction made, and that Kafka stamped with its time."""
    return [
        (batch, data)
        for batch, data in offsets_batches(scenario)
        if of_type(batch, "OFFSET_COMMIT")
        and batch["producerId"] == -1
        and len({r["keyJson"]["group"] for r in batch["records"]}) == 1
        and all(r["timestamp"] == r["valueJson"]["commitTimestamp"] for r in batch["records"])
    ]


def topic_ids(batch: dict[str, Any]) -> dict[str, bytes]:
    """Topic to its id, as far as the values carry one."""
    named = {r["keyJson"]["topic"]: r["valueJson"].get("topicId", "") for r in batch["records"]}
    return {topic: urlsafe_b64decode(text + "==") or stored.NO_TOPIC_ID for topic, text in named.items()}


def broker_at(batch: dict[str, Any]) -> CoreClient:
    """A broker at the time of the commit, with Kafka's topics."""
    files = MemoryFiles()
    for topic, topic_id in topic_ids(batch).items():
        for index in range(PARTITIONS):
            files.make_directory(f"{topic}-{index}")
            path = f"{topic}-{index}/partition.metadata"
            files.replace_atomically(path, encode_partition_metadata(topic_id))
    clock = ManualClock(wall_ms=batch["maxTimestamp"])
    return CoreClient(make_core(files, clock=clock, offsets_topic_num_partitions=PARTITIONS))


def commit_request(batch: dict[str, Any]) -> tuple[messages.OffsetCommitRequest, int]:
    """The request that Kafka stored so, of no member; with a retention of its own in the version that has one."""
    request = messages.OffsetCommitRequest(batch["records"][0]["keyJson"]["group"])
    topics: dict[str, messages.OffsetCommitRequest.Topic] = {}
    version = 9
    for record in batch["records"]:
        key, value = record["keyJson"], record["valueJson"]
        if record["valueVersion"] == 1:
            version, request.retention_time_ms = 3, value["expireTimestamp"] - value["commitTimestamp"]
        if key["topic"] not in topics:
            topics[key["topic"]] = messages.OffsetCommitRequest.Topic(key["topic"])
            request.topics.append(topics[key["topic"]])
        partition = messages.OffsetCommitRequest.Partition(
            key["partition"], value["offset"], committed_metadata=value["metadata"]
        )
        partition.committed_leader_epoch = value.get("leaderEpoch", -1)
        topics[key["topic"]].partitions.append(partition)
    return request, version


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_commit_is_in_the_log_as_kafka_writes_it(scenario: str) -> None:
    found = commits(scenario)
    assert len(found) >= 15
    for batch, data in found:
        client = broker_at(batch)
        request, version = commit_request(batch)
        answer = client.call(request, version)
        assert {p.error_code for topic in answer.topics for p in topic.partitions} == {0}
        partition = client.core.topics.partition(OFFSETS_TOPIC, partition_for(request.group_id, PARTITIONS))
        assert partition is not None
        expected = bytearray(data)
        set_base_offset(expected, 0, 0, 0)
        assert partition.log.read(0, 1 << 20).hex() == expected.hex(), batch


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_keys_and_values_of_groups_are_written_as_kafka_writes_them(scenario: str) -> None:
    records = [
        record
        for batch, _ in offsets_batches(scenario)
        for record in batch["records"]
        if record.get("typeName") == "GROUP_METADATA"
    ]
    assert len(records) >= 8
    for record in records:
        group = record["keyJson"]["group"]
        if record["value"] is None:
            assert stored.group_tombstone(group).key.hex() == record["key"]
            continue
        written = stored.group_record(group, stored.parse_group_value(bytes.fromhex(record["value"])))
        assert written.value is not None
        assert (written.key.hex(), written.value.hex()) == (record["key"], record["value"])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_tombstones_of_offsets_are_written_as_kafka_writes_them(scenario: str) -> None:
    records = [
        record
        for batch, _ in offsets_batches(scenario)
        for record in batch["records"]
        if record.get("typeName") == "OFFSET_COMMIT" and record["value"] is None
    ]
    assert records
    for record in records:
        key = record["keyJson"]
        written = stored.offset_tombstone(key["group"], key["topic"], key["partition"])
        assert (written.key.hex(), written.value) == (record["key"], None)
