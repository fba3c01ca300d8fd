"""Our broker on directories that Apache Kafka 4.3.1 wrote: it answers what Kafka answered just before it stopped."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.clock import ManualClock
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import DiskFiles
from tests.conftest import DATA
from tests.drivers.core import CoreClient, make_core

LOGS = DATA / "logs"
SCENARIOS = sorted(path.name for path in LOGS.iterdir() if (path / "expected.json").exists())
ANSWERED = [
    name
    for name in SCENARIOS
    if name in {"classic", "raw", "clients"} or name.startswith(("codec", "compact"))
]
PARTITIONS = 4


def records(scenario: str) -> list[dict[str, Any]]:
    """All batches of the offsets topic as Kafka read them."""
    found = []
    for path in sorted((LOGS / scenario).glob(f"{OFFSETS_TOPIC}-*.records.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            found += [json.loads(line) for line in file]
    return found


def start(scenario: str, tmp_path: Path) -> CoreClient:
    """A broker on a copy of the directory, at the time of its last record."""
    shutil.copytree(
        LOGS / scenario, tmp_path / "data", ignore=shutil.ignore_patterns("*.gz", "expected.json")
    )
    last = max((r["timestamp"] for batch in records(scenario) for r in batch["records"]), default=0)
    return CoreClient(make_core(DiskFiles(tmp_path / "data"), clock=ManualClock(wall_ms=last)))


def expected(scenario: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((LOGS / scenario / "expected.json").read_text(encoding="utf-8"))
    return found


def committed(client: CoreClient, group: str) -> dict[str, dict[str, Any]]:
    """A group's offsets in the words of Kafka's admin client."""
    answer = client.call(messages.OffsetFetchRequest(group, None), 7)
    assert answer.error_code == 0
    return {
        f"{topic.name}-{p.partition_index}": {
            "offset": p.committed_offset,
            "leaderEpoch": None if p.committed_leader_epoch < 0 else p.committed_leader_epoch,
            "metadata": p.metadata,
        }
        for topic in answer.topics
        for p in topic.partitions
    }


@pytest.mark.parametrize("scenario", ANSWERED)
def test_every_group_has_the_offsets_that_kafka_said(scenario: str, tmp_path: Path) -> None:
    client = start(scenario, tmp_path)
    offsets = expected(scenario)["listConsumerGroupOffsets"]
    assert offsets
    for group, known in offsets.items():
        assert committed(client, group) == known, group
    client.core.close()


@pytest.mark.parametrize("scenario", ANSWERED)
def test_classic_groups_are_listed_in_the_state_that_kafka_said(scenario: str, tmp_path: Path) -> None:
    client = start(scenario, tmp_path)
    listed = {group.group_id: group for group in client.call(messages.ListGroupsRequest(), 5).groups}
    known = expected(scenario)["listGroups"]
    for group in known:
        if group["type"] == "Classic":
            ours = listed[group["groupId"]]
            assert (ours.protocol_type, ours.group_state, ours.group_type) == (
                group["protocolType"],
                group["state"],
                "classic",
            ), group
    assert set(listed) <= {group["groupId"] for group in known}
    client.core.close()


@pytest.mark.parametrize("scenario", ANSWERED)
def test_classic_groups_are_restored_with_their_members_and_assignments(
    scenario: str, tmp_path: Path
) -> None:
    client = start(scenario, tmp_path)
    for group, known in expected(scenario)["describeConsumerGroups"].items():
        if isinstance(known, str) or known["type"] != "Classic":
            continue
        (described,) = client.call(messages.DescribeGroupsRequest([group]), 5).groups
        assert (described.group_state, described.protocol_data) == (
            known["state"],
            known["partitionAssignor"],
        )
        members = {member.member_id: member for member in described.members}
        assert set(members) == {member["memberId"] for member in known["members"]}
        for member in known["members"]:
            ours = members[member["memberId"]]
            assert (ours.group_instance_id, ours.client_id, ours.client_host) == (
                member["groupInstanceId"],
                member["clientId"],
                member["host"],
            )
            assert assigned(ours.member_assignment) == sorted(member["assignment"])
    client.core.close()


def assigned(data: bytes) -> list[str]:
    """The topic-partitions in the assignment of a member, its int16 version in front."""
    if not data:
        return []
    assignment, _ = messages.decode(
        messages.ConsumerProtocolAssignment, data, int.from_bytes(data[:2], "big"), 2
    )
    return sorted(f"{t.topic}-{p}" for t in assignment.assigned_partitions for p in t.partitions)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_directory_loads_without_losing_a_record(scenario: str, tmp_path: Path) -> None:
    core = start(scenario, tmp_path).core
    assert core.runtime.partition_count == PARTITIONS
    ours = []
    for index in range(PARTITIONS):
        partition = core.topics.partition(OFFSETS_TOPIC, index)
        assert partition is not None
        ours += [(batch.header.base_offset, batch.header.record_count) for batch in partition.log.batches()]
    assert ours == [(batch["baseOffset"], batch["count"]) for batch in records(scenario)]
    core.close()


@pytest.mark.parametrize("scenario", ANSWERED)
def test_what_is_committed_on_top_of_a_kafka_directory_is_found_again(scenario: str, tmp_path: Path) -> None:
    client = start(scenario, tmp_path)
    before = {group: committed(client, group) for group in expected(scenario)["listConsumerGroupOffsets"]}
    client.core.topics.create("ours", 3)
    assert client.commit("newcomer", {("ours", 2): 7}) == {("ours", 2): 0}
    client.core.close()
    again = CoreClient(make_core(DiskFiles(tmp_path / "data"), clock=client.core.clock))  # type: ignore[arg-type]
    assert again.committed("newcomer") == {("ours", 2): 7}
    assert {group: committed(again, group) for group in before} == before
    again.core.close()


def test_the_offsets_topic_of_a_kafka_directory_continues_in_segments_of_the_configured_size(
    tmp_path: Path,
) -> None:
    # Its own configuration is with Kafka's controllers; with segments of a gibibyte it would never be compacted.
    shutil.copytree(
        LOGS / "classic", tmp_path / "data", ignore=shutil.ignore_patterns("*.gz", "expected.json")
    )
    core = make_core(DiskFiles(tmp_path / "data"), offsets_topic_segment_bytes=1 << 20)
    topic = core.topics.get(OFFSETS_TOPIC)
    assert topic is not None and topic.config.segment_bytes == 1 << 20
    assert topic.config.cleanup_policy == ("compact",)
    core.close()


def state(client: CoreClient) -> list[Any]:
    """All that the shards hold, and how many records of theirs they carry without reading them."""
    found: list[Any] = []
    for hosted in client.core.runtime.all_shards():
        shard = hosted.shard
        offsets = {group: sorted(shard.offsets.items(group)) for group in shard.offsets.groups()}
        groups = {group_id: group.durable for group_id, group in shard.groups.items()}
        open_ = {producer: offsets for producer, offsets in shard.pending.items() if offsets}
        found.append((offsets, groups, open_, shard.unknown_records, hosted.log.log_end_offset))
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_second_start_finds_what_the_first_one_found_and_changes_no_log(
    scenario: str, tmp_path: Path
) -> None:
    """Offsets, groups of every type, open transactions, and the records that are carried: share, streams, unknown."""
    client = start(scenario, tmp_path)
    client.core.close()
    logs = {path: path.read_bytes() for path in (tmp_path / "data").glob(f"{OFFSETS_TOPIC}-*/*.log")}
    found = []
    for _ in range(2):
        client = CoreClient(make_core(DiskFiles(tmp_path / "data"), clock=client.core.clock))  # type: ignore[arg-type]
        found.append(state(client))
        hosted_logs = [each for each in client.core.runtime.all_shards() if each.log.size]
        partitions = [
            client.core.topics.partition(OFFSETS_TOPIC, each.shard.partition) for each in hosted_logs
        ]
        assert not any(each is None or each.knows_producers for each in partitions), "no producers are read"
        client.core.close()
    assert found[0] == found[1]
    if scenario in {"share", "streams"}:
        assert any(unknown for *_, unknown, _ in found[0]), "they hold records of groups that are not served"
    assert logs == {path: path.read_bytes() for path in logs}
