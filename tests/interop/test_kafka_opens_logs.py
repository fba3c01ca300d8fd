"""Apache Kafka opens our logs: after truncations and a clean stop, and what kill -9 leaves at each call.

The calls are those of truncations, of rolls and of the syncs of what has ended. Each state is the log of one partition
of a topic that Kafka has created, without a start of ours in between. Kafka must serve every record that our own start
finds, and append after the last; after a clean stop its tool finds nothing wrong in any file.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.broker.partition.producer_recovery import read_producers
from kafka_offsets.clock import Now
from kafka_offsets.protocol.records import encode_batch, read_batch_header
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.segments.assign_offsets import place
from tests.interop import kafka_peer
from tests.interop.broker_process import OVERRIDE
from tests.interop.kafka_peer import KafkaPeer
from tests.storage.batches import batch, content
from tests.storage.crash.crash_files import CrashPoint, RecordingFiles
from tests.storage.keyed import records

pytestmark = [
    pytest.mark.interop,
    pytest.mark.apache_kafka,
    pytest.mark.skipif(OVERRIDE is not None, reason="it is our own log that is opened"),
]

ROLLING = LogConfig(segment_bytes=300)
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
NOW = Now(1, 1_700_000_000_000)
CUTS = 3, 14, 17, 22, 40
"""Within the first segment, at the end of a transaction, within an open one, and in the last segment."""


def rolled() -> list[RecordingFiles]:
    """The files that a kill leaves before each call of appends that roll twice, of syncs, and after the last."""
    files = RecordingFiles()
    log = Log.open(files, "t-0", ROLLING)
    files.settle()
    first = len(files.operations)
    for number in range(9):
        log.append(batch([b"%d" % number + b"." * 40]), leader_epoch=0)
        if number == 6:
            log.sync_ended()
    log.sync()
    assert len(log.segments) > 2
    calls = files.operations
    return [
        RecordingFiles(CrashPoint(files.base, calls, at).process_death())
        for at in range(first, len(calls) + 1)
    ]


def grown() -> tuple[RecordingFiles, Partition]:
    """A log of several segments, with transactions that were aborted, committed, and left open."""
    files = RecordingFiles()
    log = Log.open(files, "t-0", SMALL)
    partition = Partition("t", bytes(16), 0, log)
    sequence = 0
    for number in range(44):
        if number in (9, 14, 30):
            partition.append_marker(7, 0, 0, NOW, is_commit=number == 14)
        elif number in range(6, 24):
            data = encode_batch(
                [(None, b"%d" % number, (), NOW.wall_ms)],
                producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True,
            )  # fmt: skip
            header = read_batch_header(data)
            partition.producers.add(header, log.append(data, leader_epoch=0), NOW.wall_ms, 0)
            sequence += 1
        else:
            log.append(batch([b"%d" % number + b"." * 40]), leader_epoch=0)
    log.sync()
    assert len(log.segments) > 5
    return files, partition


def replicated(log: Log) -> bytes:
    data = batch([b"of the leader"])
    place(data, log.log_end_offset, 1)  # Kafka has this epoch when it starts again; consumers check that
    return bytes(data)


def stopped(offset: int, *, restarts: bool = False) -> RecordingFiles:
    """The files of a clean stop after a truncation and an append."""
    files, partition = grown()
    (partition.restart_at if restarts else partition.truncate)(offset)
    partition.append_replicated(replicated(partition.log))
    assert partition.producers is not None
    partition.leave_producers(keep_index=False)
    partition.log.close()
    return files


def truncated_and_stopped() -> list[RecordingFiles]:
    """The files of clean stops after truncations."""
    return [*map(stopped, CUTS), stopped(3, restarts=True), stopped(1000, restarts=True)]


def truncated_and_killed() -> list[RecordingFiles]:
    """The files that a kill leaves before each call of a truncation, of an append after it, and after the last."""
    files, partition = grown()
    files.settle()
    first = len(files.operations)
    partition.truncate(17)
    partition.append_replicated(replicated(partition.log))
    partition.log.sync()
    calls = files.operations
    assert len(calls) - first > 10
    return [
        RecordingFiles(CrashPoint(files.base, calls, at).process_death())
        for at in range(first, len(calls) + 1)
    ]


def copied(files: RecordingFiles) -> RecordingFiles:
    """The same files, for a start of ours that changes them."""
    return RecordingFiles(CrashPoint(files.base, files.operations, len(files.operations)).process_death())


def readable(files: RecordingFiles) -> list[tuple[int, bytes | None]]:
    """Offset and value of each record that our own start finds, on a copy."""
    log = Log.open(copied(files), "t-0", SMALL)
    assert read_producers(log) is not None
    return [(offset, value) for offset, _, value in records(log)]


def lay_down(left: list[RecordingFiles], logs: Path, topic: str) -> None:
    """Put logs where Kafka has its own, which are empty; the topic id stays Kafka's."""
    for index, files in enumerate(left):
        folder = logs / f"{topic}-{index}"
        for path in folder.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for name in files.list_directory("t-0"):
            (folder / name).write_bytes(files.read_all(f"t-0/{name}"))


def served(bootstrap: str, topic: str, partitions: int) -> dict[int, list[tuple[int, bytes]]]:
    """Offset and value of all records that Kafka has, by partition."""
    found: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(partitions)}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    try:
        wanted = [TopicPartition(topic, index) for index in range(partitions)]
        consumer.assign(wanted)
        ends = consumer.end_offsets(wanted)
        while any(consumer.position(each) < ends[each] for each in wanted):
            for key, records in consumer.poll(1000).items():
                found[key.partition] += [(record.offset, record.value) for record in records]
    finally:
        consumer.close()
    return found


STOPPED: dict[str, Callable[[], list[RecordingFiles]]] = {"truncated-and-stopped": truncated_and_stopped}
KILLED: dict[str, Callable[[], list[RecordingFiles]]] = {
    "truncated-and-killed": truncated_and_killed,
    "rolled": rolled,
}
Left = dict[str, list[RecordingFiles]]
"""The states of each topic, by partition."""


@pytest.fixture(scope="module")
def left() -> Left:
    return {topic: states() for topic, states in (STOPPED | KILLED).items()}


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory, left: Left) -> Iterator[KafkaPeer]:
    """Kafka, which has the topics and does not run."""
    kafka_peer.need_tools()
    peer = KafkaPeer(tmp_path_factory.mktemp("kafka"))
    host, port = peer.start({})
    admin = KafkaAdminClient(bootstrap_servers=f"{host}:{port}")
    admin.create_topics([NewTopic(topic, len(states), 1) for topic, states in left.items()])
    admin.close()
    peer.stop()
    yield peer
    peer.stop()


@pytest.fixture(scope="module")
def after_stop(peer: KafkaPeer, left: Left) -> str:
    """HOST:PORT of Kafka on what clean stops have left."""
    peer.stop()
    for topic in STOPPED:
        lay_down(left[topic], peer.logs, topic)
    files = [file for topic in STOPPED for file in sorted(peer.logs.glob(f"{topic}-*/0*"))]
    kafka_peer.dump("dump-data", files, may_have_gaps=True)
    return "{}:{}".format(*peer.start({}))


@pytest.fixture(scope="module")
def after_kill(peer: KafkaPeer, left: Left) -> str:
    """HOST:PORT of Kafka on what kills have left."""
    peer.stop()
    (peer.logs / ".kafka_cleanshutdown").unlink()
    for topic in KILLED:
        lay_down(left[topic], peer.logs, topic)
    return "{}:{}".format(*peer.start({}))


def appended(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """Produce a record to each partition; return the offsets."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=False)
    offsets = {
        index: producer.send(topic, b"next", partition=index).get(30).offset for index in range(partitions)
    }
    producer.close()
    return offsets


def truncations_are_served(kafka: str, topic: str, left: list[RecordingFiles]) -> None:
    expected = {index: readable(files) for index, files in enumerate(left)}
    assert served(kafka, topic, len(left)) == expected
    for index, offset in appended(kafka, topic, len(left)).items():
        assert offset > expected[index][-1][0]


def test_kafka_serves_what_a_stop_after_a_truncation_leaves(after_stop: str, left: Left) -> None:
    topic = "truncated-and-stopped"
    truncations_are_served(after_stop, topic, left[topic])


def test_kafka_serves_what_a_kill_leaves_at_each_call_of_a_truncation(after_kill: str, left: Left) -> None:
    topic = "truncated-and-killed"
    truncations_are_served(after_kill, topic, left[topic])


def test_kafka_serves_what_a_kill_leaves_at_each_call_of_a_roll(after_kill: str, left: Left) -> None:
    copies = map(copied, left["rolled"])
    written = {index: content(Log.open(files, "t-0", ROLLING)) for index, files in enumerate(copies)}
    assert len({len(records) for records in written.values()}) == 10, (
        "a state after each append, and the empty log"
    )
    assert served(after_kill, "rolled", len(written)) == written
    for index, offset in appended(after_kill, "rolled", len(written)).items():
        assert offset == len(written[index])
