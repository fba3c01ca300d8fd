"""Apache Kafka opens what kill -9 leaves of our logs at each call of a roll, without a start of ours in between.

The calls are those of appends that roll twice, and of the syncs of what has ended. Each state is the log of one
partition of a topic that Kafka has created. Kafka must serve every record that was written, and append after the last.
"""

from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from kafka_offsets.storage.log.log import Log, LogConfig
from tests.interop import kafka_peer
from tests.interop.broker_process import OVERRIDE
from tests.interop.kafka_peer import KafkaPeer
from tests.storage.batches import batch, content
from tests.storage.crash_files import CrashPoint, RecordingFiles

pytestmark = [
    pytest.mark.interop,
    pytest.mark.apache_kafka,
    pytest.mark.timeout(300),  # the first time Maven loads Kafka
    pytest.mark.skipif(OVERRIDE is not None, reason="it is our own log that is opened"),
]

TOPIC = "rolled"
SMALL = LogConfig(segment_bytes=300)


def states() -> list[RecordingFiles]:
    """The files that a kill leaves before each call, and after the last."""
    files = RecordingFiles()
    log = Log.open(files, "t-0", SMALL)
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


def lay_down(files: RecordingFiles, folder: Path) -> None:
    """Put a log where Kafka has its own, which is empty; the topic id stays Kafka's."""
    for path in folder.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for name in files.list_directory("t-0"):
        (folder / name).write_bytes(files.read_all(f"t-0/{name}"))


def served(bootstrap: str, partitions: int) -> dict[int, list[tuple[int, bytes]]]:
    """Offset and value of all records that Kafka has, by partition."""
    found: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(partitions)}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    try:
        wanted = [TopicPartition(TOPIC, index) for index in range(partitions)]
        consumer.assign(wanted)
        ends = consumer.end_offsets(wanted)
        while any(consumer.position(each) < ends[each] for each in wanted):
            for key, records in consumer.poll(1000).items():
                found[key.partition] += [(record.offset, record.value) for record in records]
    finally:
        consumer.close()
    return found


def test_kafka_serves_what_a_kill_leaves_at_each_call_of_a_roll(tmp_path: Path) -> None:
    kafka_peer.need_tools()
    left = states()
    written = {index: content(Log.open(files, "t-0", SMALL)) for index, files in enumerate(states())}
    assert len({len(records) for records in written.values()}) == 10, (
        "a state after each append, and the empty log"
    )
    peer = KafkaPeer(tmp_path)
    host, port = peer.start({})
    admin = KafkaAdminClient(bootstrap_servers=f"{host}:{port}")
    admin.create_topics([NewTopic(TOPIC, len(left), 1)])
    admin.close()
    peer.stop()
    (peer.logs / ".kafka_cleanshutdown").unlink()
    for index, files in enumerate(left):
        lay_down(files, peer.logs / f"{TOPIC}-{index}")
    host, port = peer.start({})
    try:
        assert served(f"{host}:{port}", len(left)) == written
        producer = KafkaProducer(bootstrap_servers=f"{host}:{port}", enable_idempotence=False)
        for index, records in written.items():
            assert producer.send(TOPIC, b"next", partition=index).get(30).offset == len(records)
        producer.close()
    finally:
        peer.stop()
