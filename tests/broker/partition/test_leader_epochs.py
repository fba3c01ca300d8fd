"""Leader epochs over restarts: what Kafka 4.3.1, one KRaft node, answered after a clean stop and after `kill -9`."""

from typing import Any, NamedTuple

import pytest

from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import batch_headers, encode_batch
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.directory.start_count import STARTS
from kafka_offsets.storage.files.checked_lines import encode_line
from kafka_offsets.storage.files.checkpoints import encode_uuid
from kafka_offsets.storage.files.files import MemoryFiles
from tests.drivers.core import CoreClient, make_core

WRITTEN, EMPTY, ONCE = "written", "empty", "once"


class Answers(NamedTuple):
    """What a broker says of its epochs.

    metadata  of the partitions of WRITTEN, EMPTY and ONCE
    latest    of ListOffsets for the end of WRITTEN-0, and the start of EMPTY-0
    batches   of what is fetched from WRITTEN-0
    ends      epoch and end offset of WRITTEN-0, ONCE-0 and EMPTY-0 for the epochs 0 to 3
    """

    metadata: list[list[int]]
    latest: list[int]
    batches: list[int]
    ends: list[list[tuple[int, int]]]


KAFKAS = [
    # created, and a record in WRITTEN-0 and ONCE-0
    Answers([[0, 0]] * 3, [0, 0], [0], [[(0, 1), (0, 1), (0, 0)], *[[(-1, -1)] * 3] * 3]),
    # started again after a clean stop, and a record in WRITTEN-0
    Answers(
        [[2, 2]] * 3,
        [2, 2],
        [0, 2],
        [
            [(0, 1), (0, 1), (0, 0)],
            [(0, 1), (0, 1), (1, 0)],
            [(2, 2), (2, 1), (2, 0)],
            [(-1, -1)] * 3,
        ],
    ),
    # started again after kill -9, and no record
    Answers(
        [[4, 4]] * 3,
        [4, 4],
        [0, 2],
        [
            [(0, 1), (0, 1), (0, 0)],
            [(0, 1), (0, 1), (1, 0)],
            [(2, 2), (0, 1), (2, 0)],
            [(2, 2), (0, 1), (3, 0)],
        ],
    ),
]


def started(files: MemoryFiles) -> CoreClient:
    return CoreClient(make_core(files))


def create(client: CoreClient, *names: str, partitions: int = 2) -> None:
    request = messages.CreateTopicsRequest
    topics = [request.CreatableTopic(name, partitions, 1) for name in names]
    assert not any(each.error_code for each in client.call(request(topics), 7).topics)


def produce(client: CoreClient, topic: str, partition: int = 0) -> int:
    request = messages.ProduceRequest
    records = bytes(encode_batch([(None, b"v", (), client.core.clock.now().wall_ms)]))
    data = request.TopicProduceData(
        name=topic, partition_data=[request.PartitionProduceData(partition, records)]
    )
    (answer,) = client.call(request(None, -1, 1000, [data]), 9).responses[0].partition_responses
    assert answer.error_code == 0
    return int(answer.base_offset)


def epochs(client: CoreClient, topic: str) -> list[int]:
    request = messages.MetadataRequest
    (found,) = client.call(request([request.Topic(name=topic)]), 9).topics
    return [each.leader_epoch for each in found.partitions]


def listed(client: CoreClient, topic: str, timestamp: int) -> int:
    request = messages.ListOffsetsRequest
    asked = request.ListOffsetsTopic(topic, [request.ListOffsetsPartition(0, timestamp=timestamp)])
    (answer,) = client.call(request(-1, 0, [asked]), 7).topics[0].partitions
    return int(answer.leader_epoch)


def fetched(client: CoreClient, topic: str) -> list[int]:
    request = messages.FetchRequest
    wanted = request.FetchTopic(
        topic, partitions=[request.FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)]
    )
    (answer,) = client.call(request(max_wait_ms=0, topics=[wanted]), 11).responses[0].partitions
    return [header.leader_epoch for _, header in batch_headers(answer.records)]


def end_of(client: CoreClient, topic: str, epoch: int, current: int = -1) -> Any:
    request = messages.OffsetForLeaderEpochRequest
    wanted = request.OffsetForLeaderTopic(topic, [request.OffsetForLeaderPartition(0, current, epoch)])
    return client.call(request(-1, [wanted]), 4).topics[0].partitions[0]


def answers(client: CoreClient) -> Answers:
    ends = [
        [
            (found.leader_epoch, found.end_offset)
            for found in (end_of(client, t, n) for t in (WRITTEN, ONCE, EMPTY))
        ]
        for n in range(4)
    ]
    latest = [listed(client, WRITTEN, -1), listed(client, EMPTY, -2)]
    return Answers(
        [epochs(client, topic) for topic in (WRITTEN, EMPTY, ONCE)], latest, fetched(client, WRITTEN), ends
    )


def checkpoint(files: MemoryFiles, partition: str) -> list[str]:
    return files.read_all(f"{partition}/leader-epoch-checkpoint").decode().split("\n")[2:-1]


@pytest.mark.parametrize("asks_before", [False, True])
def test_epochs_grow_by_two_at_each_start_as_in_kafka(asks_before: bool) -> None:
    """`asks_before`: Metadata comes before anything has opened the logs."""
    files = MemoryFiles()
    client = started(files)
    create(client, WRITTEN, EMPTY, ONCE)
    produce(client, WRITTEN)
    produce(client, ONCE)
    assert answers(client) == KAFKAS[0]
    client.core.close()
    client = started(files)
    if asks_before:
        assert [epochs(client, topic) for topic in (WRITTEN, EMPTY, ONCE)] == KAFKAS[1].metadata
    produce(client, WRITTEN)
    assert answers(client) == KAFKAS[1]
    assert checkpoint(files, "written-0") == ["0 0", "2 1"]
    killed = files.copy()
    client.core.close()
    client = started(killed)
    if asks_before:
        assert [epochs(client, topic) for topic in (WRITTEN, EMPTY, ONCE)] == KAFKAS[2].metadata
    assert answers(client) == KAFKAS[2]
    assert produce(client, ONCE) == 1
    assert checkpoint(killed, "once-0") == ["0 0", "4 1"]


def test_a_start_writes_to_no_partition() -> None:
    files = MemoryFiles()
    client = started(files)
    create(client, WRITTEN, ONCE)
    produce(client, ONCE)
    client.core.close()
    before = files.copy()
    client = started(files)
    assert epochs(client, ONCE) == [2, 2]
    assert listed(client, ONCE, -1) == 2
    client.core.close()
    assert checkpoint(files, "once-0") == checkpoint(before, "once-0") == ["0 0"]


def test_an_epoch_of_the_start_before_is_fenced() -> None:
    files = MemoryFiles()
    client = started(files)
    create(client, WRITTEN)
    produce(client, WRITTEN)
    client.core.close()
    client = started(files)
    assert end_of(client, WRITTEN, 0, current=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert end_of(client, WRITTEN, 0, current=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert end_of(client, WRITTEN, 0, current=2).error_code == 0


def test_topics_and_partitions_count_from_the_start_that_made_them() -> None:
    files = MemoryFiles()
    client = started(files)
    create(client, "first", partitions=1)
    client.core.close()
    client = started(files)
    create(client, "second", partitions=1)
    request = messages.CreatePartitionsRequest
    client.call(request([request.CreatePartitionsTopic("first", 2, None)], 1000), 3)
    assert (epochs(client, "first"), epochs(client, "second")) == ([2, 0], [0])
    client.core.close()
    client = started(files)
    assert (epochs(client, "first"), epochs(client, "second")) == ([4, 2], [2])


def test_the_offsets_topic_and_its_records_have_the_epoch() -> None:
    files = MemoryFiles()
    client = started(files)
    create(client, "t", partitions=1)
    assert client.commit("g", {("t", 0): 1}) == {("t", 0): 0}
    client.core.close()
    client = started(files)
    client.commit("g", {("t", 0): 2})
    offsets = client.core.topics.get("__consumer_offsets")
    assert offsets is not None
    written = [each.log for each in offsets.open_partitions if each.log.log_end_offset]
    assert [stored.header.leader_epoch for log in written for stored in log.batches()] == [0, 2]


def test_a_directory_of_an_older_version_counts_from_its_first_start_here() -> None:
    """Version 1 of the catalogue counted no starts: what wrote it was a start at least."""
    files = MemoryFiles()
    client = started(files)
    create(client, WRITTEN)
    produce(client, WRITTEN)
    client.core.close()
    topic = client.core.directory.topics[WRITTEN]
    row = {"name": WRITTEN, "topic_id": encode_uuid(topic.topic_id), "partition_count": 2, "configs": {}}
    head = {"version": 1, "topics": 1, "next_producer_id": 0, "deleting": []}
    files.replace_atomically("topics", encode_line(head) + encode_line(row))
    client = started(files)
    assert epochs(client, WRITTEN) == [2, 2]
    create(client, ONCE)
    client.core.close()
    client = started(files)
    assert (epochs(client, WRITTEN), epochs(client, ONCE)) == ([4, 4], [2, 2])


def test_a_start_that_cannot_be_counted_is_none() -> None:
    """Kafka's controllers cannot elect anybody either when their log takes no more."""
    files = MemoryFiles()
    DataDirectory(files).close()
    first = DataDirectory(files)
    first.create_topic("t", 1)
    first.close()
    before = files.copy()
    broken = files.copy()

    def refuse(path: str, data: bytes, **options: bool) -> None:
        raise StorageError("No space left on device", path)

    broken.replace_atomically = refuse  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="No space left on device"):
        DataDirectory(broken)
    assert DataDirectory(before).leader_epoch("t", 0, -1) == 2


def test_folders_that_are_adopted_count_on_from_their_epochs() -> None:
    files = MemoryFiles()
    client = started(files)
    create(client, WRITTEN)
    produce(client, WRITTEN)
    client.core.close()
    files.replace_atomically("written-0/leader-epoch-checkpoint", b"0\n1\n7 0\n", sync=False)
    records = files.read_all("written-0/00000000000000000000.log")
    in_epoch_7 = records[:12] + (7).to_bytes(4, "big") + records[16:]
    files.replace_atomically("written-0/00000000000000000000.log", in_epoch_7, sync=False)
    for name in ("topics", STARTS):
        if files.exists(name):
            files.remove(name)
    client = started(files)
    assert epochs(client, WRITTEN) == [8]
    client.core.close()
    assert epochs(started(files), WRITTEN) == [10]


def test_a_lost_count_of_starts_makes_no_epoch_go_back() -> None:
    files = MemoryFiles()
    for number in range(4):
        client = started(files)
        if not number:
            create(client, WRITTEN)
        produce(client, WRITTEN)
        client.core.close()
    files.remove(STARTS)
    client = started(files)
    assert epochs(client, WRITTEN) == [7, 2]
    produce(client, WRITTEN)
    assert fetched(client, WRITTEN) == [0, 2, 4, 6, 7]


def test_every_opening_of_a_directory_is_a_start() -> None:
    files = MemoryFiles()
    DataDirectory(files).close()
    assert not files.exists(STARTS)  # a directory without topics has no epochs
    first = DataDirectory(files)
    first.create_topic("t", 1)
    assert first.leader_epoch("t", 0, -1) == 0
    first.close()
    found = []
    for _ in range(3):
        directory = DataDirectory(files)
        found.append(directory.leader_epoch("t", 0, -1))
        directory.close()
    assert found == [2, 4, 6]
