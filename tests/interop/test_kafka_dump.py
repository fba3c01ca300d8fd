"""Apache Kafka's DumpLogSegments on directories that our broker wrote: no complaint, and the same groups and offsets.

The directory is looked at twice: as kill -9 left it, and after a clean stop.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic, OffsetSpec
from kafka.structs import OffsetAndMetadata

from tests.drivers import wire
from tests.interop import kafka_peer, story
from tests.interop.broker_process import OVERRIDE, BrokerProcess
from tests.interop.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.apache_kafka,
    pytest.mark.skipif(OVERRIDE is not None, reason="it is our own directory that is looked at"),
]

OFFSETS_TOPIC = "__consumer_offsets"
TOPIC = "data-none"
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 300
# Enough for a second segment of the least size that Kafka allows; its index is then written, also before kill -9.
WIDE, COMMITS = 100, 160
# Kafka expects consecutive offsets: nothing is cleaned.
SETTINGS = {"offsets.topic.segment.bytes": "1048576", "log.cleaner.enable": "false"}
HEADERS = [("source", b"test"), ("empty", b"")]
GROUPS = ("simple-é-𝄞", "often", "left", "live", "static")
STATES = ("killed", "stopped")

OFFSETS_RECORD = re.compile(r"\| offset: \d+ .*? key: (\{.*?\}\}) payload: (.*)")

Written = tuple[dict[str, Path], dict[str, dict[TopicPartition, OffsetAndMetadata]]]
"""The directory in each state, and what the admin client listed as committed by each group."""


@pytest.fixture(scope="module")
def dump() -> Callable[..., list[str]]:
    """Kafka's tool: the lines it prints, each of them one it prints when all is well."""
    kafka_peer.need_tools()
    return kafka_peer.dump


def produce(bootstrap: str, compression: str) -> None:
    """Many small batches, so that there is something in the indexes."""
    settings = {} if compression == "none" else {"compression_type": compression}
    producer = KafkaProducer(bootstrap_servers=bootstrap, batch_size=2048, linger_ms=5, **settings)
    try:
        for number in range(RECORDS):
            producer.send(f"data-{compression}", b"%080d" % number, b"%d" % number, HEADERS)
        producer.flush(timeout=10)
    finally:
        producer.close()


def commit_often(bootstrap: str) -> None:
    """Commits of no member, each a batch of its own: one is answered before the next is sent."""
    with wire.Connection(bootstrap) as connection:
        assert connection.create_topic("wide", WIDE) == 0
        for number in range(1, COMMITS + 1):
            connection.socket.sendall(wire.offset_commit(number, "often", "wide", number, WIDE))
            assert wire.offset_commit_errors(connection.receive(), "wide") == {0}


def write(bootstrap: str, admin: KafkaAdminClient) -> None:
    """Records in every compression, offsets, tombstones of offsets and of a group."""
    admin.create_topics([NewTopic(f"data-{compression}", 1, 1) for compression in COMPRESSIONS])
    for compression in COMPRESSIONS:
        produce(bootstrap, compression)
    partitions = [TopicPartition(f"data-{compression}", 0) for compression in COMPRESSIONS]
    for group in ("simple-é-𝄞", "deleted"):
        offsets = {key: OffsetAndMetadata(at, f"№ {at}", at - 1) for at, key in enumerate(partitions)}
        admin.alter_group_offsets(group, offsets)
    admin.delete_group_offsets("simple-é-𝄞", partitions[:2])
    admin.delete_groups(["deleted"])
    commit_often(bootstrap)


def open_logs(bootstrap: str) -> None:
    """Ask for the ends of the topics: the broker does not touch a log that was not opened when it stops."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    ends = {TopicPartition(f"data-{compression}", 0): OffsetSpec.LATEST for compression in COMPRESSIONS}
    assert {found.offset for found in admin.list_partition_offsets(ends).values()} == {RECORDS}
    admin.close()


def committed(admin: KafkaAdminClient, group: str) -> bool:
    """Whether a group committed the end of the topic."""
    offsets = admin.list_group_offsets(group)[group]
    return [found.offset for found in offsets.values()] == [RECORDS]


def join_and_leave(bootstrap: str, group: str, **settings: Any) -> None:
    """A member reads, commits and closes; one with a group instance id stays a member."""
    member = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
        **settings,
    )
    try:
        member.subscribe([TOPIC])
        until(lambda: member.poll(timeout_ms=1_000), "the member reads")
        member.commit()
    finally:
        member.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, dump: Callable[..., list[str]]) -> Written:
    """A data directory with something of everything in it, killed and stopped."""
    folders = {state: tmp_path_factory.mktemp("dump") / state for state in STATES}
    broker = BrokerProcess(folders["stopped"], SETTINGS)
    try:
        admin = KafkaAdminClient(bootstrap_servers=broker.start())
        write(broker.address, admin)
        join_and_leave(broker.address, "left")
        join_and_leave(broker.address, "static", group_instance_id="instance")
        live = story.Member(
            story.python_member(
                "kafka-python", broker.address, "live", TOPIC, "sync", "session_timeout_ms=60000"
            )
        )
        until(lambda: committed(admin, "live"), "the member commits all")
        offsets = {group: admin.list_group_offsets(group)[group] for group in GROUPS}
        admin.close()
        broker.kill()
        live.kill()
        live.leave()
        shutil.copytree(folders["stopped"], folders["killed"])
        open_logs(broker.start())
        broker.stop()
    finally:
        if broker.alive:
            broker.kill()
    return folders, offsets


def replay(lines: list[str]) -> tuple[dict[str, dict[TopicPartition, Any]], dict[str, Any]]:
    """What the records of an offsets log come to: offsets by group and partition, and metadata by group."""
    offsets: dict[str, dict[TopicPartition, Any]] = {}
    groups: dict[str, Any] = {}
    for line in lines:
        if not line.startswith("| offset"):
            continue
        found = OFFSETS_RECORD.fullmatch(line)
        assert found, line
        key = json.loads(found[1])
        value = None if found[2] in {"<DELETE>", "null"} else json.loads(found[2])["data"]
        name = key["data"]["group"]
        if key["type"] == "2":
            groups[name] = value
            continue
        partition = TopicPartition(key["data"]["topic"], key["data"]["partition"])
        if value is None:
            del offsets[name][partition]
        else:
            offsets.setdefault(name, {})[partition] = value
    return offsets, groups


@pytest.mark.parametrize("state", STATES)
def test_the_offsets_topic_holds_for_kafka_what_our_broker_said(
    written: Written, dump: Callable[..., list[str]], state: str
) -> None:
    folders, said = written
    lines = dump("dump", sorted(folders[state].glob(f"{OFFSETS_TOPIC}-*/0*")))
    offsets, groups = replay(lines)
    found = {
        group: {
            key: OffsetAndMetadata(value["offset"], value["metadata"], value["leaderEpoch"])
            for key, value in values.items()
        }
        for group, values in offsets.items()
    }
    assert found.pop("deleted") == {}, "there were tombstones"
    assert found == said
    assert all(value["topicId"] for values in offsets.values() for value in values.values())
    assert groups.pop("deleted", None) is None
    assert set(groups) == {"left", "live", "static"} and groups["left"]["members"] == []
    # The session of the one that was killed with the broker may have ended after the restart.
    for name in ("live", "static") if state == "killed" else ("static",):
        assert groups[name]["protocolType"] == "consumer" and groups[name]["protocol"] == "range"
        (member,) = groups[name]["members"]
        assert member["groupInstanceId"] == ("instance" if name == "static" else None)
        assert member["subscription"]["topics"] == [TOPIC]
        assert member["assignment"]["assignedPartitions"] == [{"topic": TOPIC, "partitions": [0]}]
    assert any(line.startswith("offset: ") for line in lines), "there is an index to look at"


@pytest.mark.parametrize("state", STATES)
def test_kafka_reads_records_of_every_compression(
    written: Written, dump: Callable[..., list[str]], state: str
) -> None:
    folders, _ = written
    lines = dump("dump-data", sorted(folders[state].glob("data-*-0/0*")))
    text = "".join(f"{line}\n" for line in lines)
    files = dict(
        re.findall(r"^Dumping \S*/data-(\w+)-0/0+\.log\n((?:(?!Dumping ).*\n)*)", text, re.MULTILINE)
    )
    assert set(files) == set(COMPRESSIONS)
    for compression, dumped in files.items():
        assert set(re.findall(r"compresscodec: (\w+)", dumped)) == {compression}
        records = re.findall(
            r"^\| offset: (\d+) .* headerKeys: \[source,empty\] key: (\d+) ", dumped, re.MULTILINE
        )
        assert records == [(str(number), str(number)) for number in range(RECORDS)]
    if state == "stopped":
        assert any(line.startswith("offset: ") for line in lines), "there is an index to look at"
