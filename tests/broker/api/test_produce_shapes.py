"""Produce requests of a known shape have the outcome of decoded ones: responses, logs, indexes and producers."""

import struct
from collections.abc import Callable
from contextlib import closing
from unittest.mock import patch

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.broker.api import produce_shapes
from kafka_offsets.broker.api.produce_shapes import ProduceShapes
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.flexible import encode_uvarint
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles
from tests.drivers.core import CoreClient, make_core, request_frame
from tests.drivers.partitions import KNOWN_EPOCH
from tests.storage.crash.faults import FaultyFiles

PARTITIONS = 2
TOPICS = ("t", "u", "missing")
VERSIONS = (3, 5, 8, 9, 12, 13)
PRODUCER = 7
DATA = messages.ProduceRequest.TopicProduceData
SEGMENT_BYTES = 1 << 20

Shape = tuple[int, str, int, int]
"""Version, topic, partition, acks."""


def usual(*values: bytes | None, key: bytes | None = None, **fields: int) -> bytes:
    """Return a batch of records with one key."""
    return bytes(encode_batch([(key, value, (), KNOWN_EPOCH) for value in values], **fields))


def with_fields(
    batch: bytes, position: int, format_: str, value: int, *, has_right_crc: bool = True
) -> bytes:
    """Return a batch with another field of its header."""
    changed = bytearray(batch)
    struct.pack_into(format_, changed, position, value)
    if has_right_crc:
        struct.pack_into(">I", changed, 17, google_crc32c.value(bytes(changed[21:])))
    return bytes(changed)


def record_times(*deltas: int) -> bytes:
    return bytes(encode_batch([(b"k", b"v", (), KNOWN_EPOCH + delta) for delta in deltas]))


GOOD = usual(b"value")
BATCHES = {
    "one": GOOD,
    "another": usual(b"other"),
    "keyed": usual(b"value", key=b"key"),
    "an empty key": usual(b"value", key=b""),
    "a tombstone": usual(None, key=b"key"),
    "a null": usual(None),
    "nothing": usual(b""),
    "300 bytes": usual(b"v" * 300),
    "9000 bytes": usual(b"v" * 9000),
    "a key of 70 bytes": usual(b"value", key=b"k" * 70),
    "two": usual(b"1", b"2"),
    "five": usual(*[b"value"] * 5, key=b"key"),
    "five others": usual(*[b"other"] * 5, key=b"yek"),
    "five at times": record_times(0, 3, 1, 2, 4),
    "a late time": record_times(7_200_000),
    "an early time": record_times(0, -5),
    "a header": bytes(encode_batch([(None, b"v", (("h", b"1"),), KNOWN_EPOCH)])),
    "gzip": usual(b"value" * 50, compression=Compression.GZIP),
    "a base offset": with_fields(GOOD, 0, ">q", 5),
    "a leader epoch": with_fields(GOOD, 12, ">i", 9),
    "a length": with_fields(GOOD, 8, ">i", len(GOOD) - 13),
    "magic 1": with_fields(GOOD, 16, ">b", 1),
    "a wrong checksum": with_fields(GOOD, 21, ">h", 8, has_right_crc=False),
    "append time": with_fields(GOOD, 21, ">h", 8),
    "a delete horizon": with_fields(GOOD, 21, ">h", 64),
    "a control batch": with_fields(GOOD, 21, ">h", 32),
    "a transactional batch": with_fields(GOOD, 21, ">h", 16),
    "a last delta": with_fields(GOOD, 23, ">i", 1),
    "a base timestamp": with_fields(GOOD, 27, ">q", -2),
    "a max timestamp": with_fields(GOOD, 35, ">q", KNOWN_EPOCH + 1),
    "a negative sequence number": usual(b"value", producer_id=PRODUCER, producer_epoch=0, base_sequence=-1),
    "a count": with_fields(GOOD, 57, ">i", 2),
    "no records": with_fields(with_fields(GOOD[:61], 8, ">i", 49), 57, ">i", 0),
    "bytes after the record": with_fields(GOOD + b"\0", 8, ">i", len(GOOD) - 11),
    "a batch and its beginning": GOOD + GOOD[:20],
    "two batches": GOOD + GOOD,
    "empty": b"",
}
"""By name: 61 bytes of header, then the records."""


class Played:
    """A broker with two topics, and one connection."""

    def __init__(self, *, has_shapes: bool = True, files: Files | None = None, **config: object) -> None:
        self.clock = ManualClock()
        self.files = files or MemoryFiles()
        self.core = make_core(self.files, clock=self.clock, **config)
        self.shapes = ProduceShapes(self.core.broker)
        self.core.requests._shortcuts[0] = self.shapes
        self.decided = 0
        decide = self.shapes.decide if has_shapes else lambda *given: False
        self.shapes.decide = lambda *given: self._counted(decide(*given))  # type: ignore[method-assign]
        self.client = CoreClient(self.core)
        self.bytes: list[bytes] = []
        self.ids = iter(range(1, 1000))
        self.sequences: dict[tuple[str, int], int] = {}
        for name in TOPICS[:2]:
            self.create(name)

    def _counted(self, is_decided: bool | None) -> bool | None:
        self.decided += is_decided is not False
        return is_decided

    def create(self, name: str) -> None:
        made = messages.CreateTopicsRequest
        with patch("kafka_offsets.storage.directory.data_directory.uuid.uuid4") as new_id:
            new_id.return_value.bytes = next(self.ids).to_bytes(16, "big")
            self.client.call(made([made.CreatableTopic(name, PARTITIONS, 1)], 30_000), 7)

    def delete(self, name: str) -> None:
        self.client.call(messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)

    def configure(self, name: str, key: str, value: str | None) -> None:
        made = messages.IncrementalAlterConfigsRequest
        operation = 1 if value is None else 0
        change = made.AlterableConfig(key, operation, value)
        self.client.call(made([made.AlterConfigsResource(2, name, [change])]), 0)

    def delete_records(self, name: str) -> None:
        made = messages.DeleteRecordsRequest
        partitions = [made.DeleteRecordsPartition(index, -1) for index in range(PARTITIONS)]
        self.client.call(made([made.DeleteRecordsTopic(name, partitions)], 1000), 1)

    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    def request(self, shape: Shape, batch: bytes) -> tuple[messages.ProduceRequest, int]:
        version, name, index, acks = shape
        topic_id = self.core.topics.id_and_partition_count(name)[0]
        data = DATA("" if version >= 13 else name, topic_id if version >= 13 else bytes(16))
        data.partition_data = [messages.ProduceRequest.PartitionProduceData(index, batch)]
        return messages.ProduceRequest(None, acks, 1000, [data]), version

    def numbered(self, shape: Shape, skip: int) -> bytes:
        """Return a batch of an idempotent producer, with its next sequence number and some more."""
        place = shape[1:3]
        sequence = self.sequences.get(place, 0) + skip
        self.sequences[place] = sequence + 1
        return usual(b"value", producer_id=PRODUCER, producer_epoch=0, base_sequence=max(sequence, 0))

    def produce(self, *wanted: tuple[Shape, str | int]) -> None:
        """Send requests in one piece, end the turn, and keep the bytes of their responses."""
        requests = [
            self.request(shape, BATCHES[what] if isinstance(what, str) else self.numbered(shape, what))
            for shape, what in wanted
        ]
        self.client.send(*requests)
        for _ in wanted:
            self.client.turn()
            self.bytes.append(self.core.drain(self.client.connection))
        self.client.expected.clear()
        if self.client.connection.closing:  # acks=0, and an error
            self.client = CoreClient(self.core)

    @property
    def logs(self) -> dict[str, object]:
        """What each partition has."""
        return {
            f"{partition.topic}-{partition.index}": (
                [
                    (
                        segment.base_offset,
                        bytes(segment.file.read(0, segment.size)),
                        segment.encode_index(),
                        segment.encode_time_index(),
                        segment.max_timestamp_offset,
                    )
                    for segment in partition.log.segments
                ],
                partition.log.log_start_offset,
                partition.log.log_end_offset,
                partition.log.appended_bytes,
                partition.producers.dumps(),
            )
            for partition in self.core.topics.open_partitions()
        }


SHAPES = st.tuples(
    st.sampled_from(VERSIONS),
    st.sampled_from(TOPICS),
    st.sampled_from([0, 0, 0, 1, PARTITIONS, -1]),
    st.sampled_from([1, 1, -1, 0, 2]),
)
CONFIGS = [
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", None),
    ("cleanup.policy", "compact"),
    ("compression.type", "gzip"),
    ("compression.type", "producer"),
    ("max.message.bytes", "100"),
    ("message.timestamp.before.max.ms", "2"),
]


@st.composite
def scenarios(draw: st.DrawFn) -> list[object]:
    """Pieces of requests of few shapes and batches, and what may happen between them."""
    shapes = draw(st.lists(SHAPES, min_size=1, max_size=2))
    batches = draw(
        st.lists(st.sampled_from([*BATCHES]) | st.sampled_from([0, 0, -1, 1]), min_size=1, max_size=3)
    )
    requests = st.lists(
        st.tuples(st.sampled_from(shapes), st.sampled_from([*batches, "one", "keyed"])),
        min_size=1,
        max_size=6,
    )
    topics = st.sampled_from(TOPICS)
    change = st.tuples(st.sampled_from(["create", "delete", "delete_records"]), topics)
    change |= st.tuples(st.just("configure"), topics, st.sampled_from(CONFIGS)).map(
        lambda drawn: (*drawn[:2], *drawn[2])
    )
    change |= st.tuples(st.just("wait"), st.sampled_from([1, 4_000_000]))
    return draw(st.lists(st.one_of(requests, requests, requests, change), min_size=2, max_size=8))


def both(act: Callable[[Played], None], **config: object) -> tuple[Played, Played]:
    """Do the same with two brokers, one of which decodes each request; compare what comes of it."""
    with (
        closing((known := Played(**config)).core),
        closing((decoded := Played(has_shapes=False, **config)).core),
    ):
        for played in (known, decoded):
            act(played)
        assert known.bytes == decoded.bytes
        assert known.logs == decoded.logs
        assert decoded.decided == 0
    return known, decoded


@pytest.mark.slow
@given(scenarios())
def test_requests_of_known_shapes_have_the_outcome_of_decoded_ones(scenario):
    def act(played: Played) -> None:
        for step in scenario:
            if isinstance(step, list):
                played.produce(*step)
            else:
                getattr(played, step[0])(*step[1:])

    both(act)


SHAPE: Shape = (9, "t", 0, 1)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_each_batch_gets_the_answer_of_a_decoded_one_after_usual_ones(name, policy):
    def act(played: Played) -> None:
        played.configure("t", "cleanup.policy", policy)
        for _ in range(3):
            played.produce((SHAPE, "keyed"), (SHAPE, "five"))
        played.produce((SHAPE, "keyed"), (SHAPE, name), (SHAPE, "keyed"))

    known, _ = both(act)
    assert known.decided >= (7 if policy == "delete" else 6)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", range(5, 14))
@pytest.mark.parametrize("batch", ["one", "300 bytes", "9000 bytes", "five", "gzip", "a header", 0])
def test_the_second_request_for_the_same_partition_is_not_decoded(version, acks, batch):
    with closing((played := Played()).core):
        shape = (version, "t", 1, acks)
        played.produce((shape, batch))
        played.produce((shape, batch))
        assert (played.decided, len(played.shapes)) == (1, 1)
        content = played.numbered(shape, 0) if batch == 0 else BATCHES[batch]
        played.client.send(played.request(shape, content))
        (answer,) = played.client.take()
        (partition,) = answer.responses[0].partition_responses
        assert (partition.error_code, partition.log_start_offset) == (0, 0)
        assert partition.base_offset == (10 if batch == "five" else 2)
        assert played.decided == 2


@pytest.mark.parametrize("tail", [b"\0\0\x01\x63\x02ab", b"\x01\x63\x01\0\0\0", b"\0\x01\x63\x01\0\0"])
def test_requests_with_tagged_fields_are_decoded(tail):
    def act(played: Played) -> None:
        for _ in range(4):
            frame = played.client.frame(*played.request(SHAPE, GOOD))
            assert frame.endswith(b"\0\0\0")
            frame = frame[4:-3] + tail
            played.client.send_bytes(struct.pack(">i", len(frame)) + frame)
            played.client.turn()
            played.bytes.append(played.core.drain(played.client.connection))

    known, _ = both(act)
    assert known.decided == len(known.shapes) == 0 and known.logs["t-0"][2] == 4


@pytest.mark.parametrize("version", [5, 8, 9, 13])
@pytest.mark.parametrize("more", [1, 1000])
def test_records_that_end_after_their_request_close_the_connection(version, more):
    """A known request, but for the size of its records: what is there is a whole batch."""

    def act(played: Played) -> None:
        shape = version, "t", 0, 1
        for _ in range(2):
            played.produce((shape, "300 bytes"))
        batch = BATCHES["300 bytes"]
        frame = request_frame(*played.request(shape, batch))
        head, tail = frame.split(batch)
        size = len(batch) + more
        head = head[:-2] + encode_uvarint(size + 1) if version >= 9 else head[:-4] + size.to_bytes(4, "big")
        played.client.send_bytes(head + batch + tail)
        played.client.turn()
        assert played.client.connection.closing

    both(act)


def test_requests_of_a_client_that_has_got_a_quota_are_throttled():
    def act(played: Played) -> None:
        made = messages.AlterClientQuotasRequest
        for _ in range(3):
            played.produce((SHAPE, "9000 bytes"))
        entity, limit = made.EntityData("client-id", None), made.OpData("producer_byte_rate", 1.0, False)
        played.client.call(made([made.EntryData([entity], [limit])], False), 1)
        played.produce((SHAPE, "9000 bytes"))

    known, _ = both(act)
    assert known.decided == 2 and known.client.connection.muted is not None


def test_other_requests_of_the_same_piece_see_the_batches_before_them():
    with closing((played := Played()).core):
        for _ in range(2):
            played.produce((SHAPE, "one"))
        wanted = messages.ListOffsetsRequest.ListOffsetsPartition(0, -1, -1)
        latest = messages.ListOffsetsRequest(
            -1, 0, [messages.ListOffsetsRequest.ListOffsetsTopic("t", [wanted])]
        )
        produced = played.request(SHAPE, GOOD)
        played.client.send(produced, produced, (latest, 7), produced)
        played.client.turn()
        played.client.turn()
        first, second, listed, last = played.client.take()
        assert listed.topics[0].partitions[0].offset == 4
        offsets = [each.responses[0].partition_responses[0].base_offset for each in (first, second, last)]
        assert offsets == [2, 3, 4]


@pytest.mark.parametrize("has_shapes", [True, False])
@pytest.mark.parametrize("stuck", [False, True])
def test_a_batch_that_the_disk_refuses_gets_the_error_of_a_decoded_one(stuck, has_shapes):
    files = FaultyFiles()
    with closing((played := Played(has_shapes=has_shapes, files=files)).core):
        for _ in range(2):
            played.produce((SHAPE, "one"))
        files.stuck = stuck
        files.only = lambda operation, path: operation == "append"
        files.calls.clear()
        files.fail_at = 1
        played.client.send(*[played.request(SHAPE, GOOD)] * 3)
        played.client.turn()
        answers = [each.responses[0].partition_responses[0] for each in played.client.take()]
        files.fail_at = 0
        files.failed = False
        refused = (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)
        found = [(answer.error_code, answer.base_offset, answer.log_start_offset) for answer in answers]
        assert found == [refused] * 3 if stuck else [refused, (0, 2, 0), (0, 3, 0)]
        kept = [
            (each.text("topic"), each.text("error"), each.count) for each in played.core.responses.incidents
        ]
        assert kept == ([("t", "KAFKA_STORAGE_ERROR", 3)] if stuck else []), "what is served ends it"
        played.produce((SHAPE, "one"))
        assert played.core.topics.partition("t", 0).log.log_end_offset == (3 if stuck else 5)
        assert (played.decided > 0) == has_shapes


def test_a_segment_ends_where_it_does_for_decoded_requests():
    batch = usual(b"v" * 100_000)

    def act(played: Played) -> None:
        played.configure("t", "segment.bytes", str(SEGMENT_BYTES))
        with patch.dict(BATCHES, large=batch):
            for _ in range(5):
                played.produce(*[(SHAPE, "large")] * 7)

    known, _ = both(act)
    assert len(known.core.topics.partition("t", 0).log.segments) == 4


def test_batches_on_disk_are_those_in_memory(tmp_path):
    def act(played: Played) -> None:
        for what in ("one", "five", "9000 bytes"):
            for _ in range(4):
                played.produce(*[(SHAPE, what)] * 6)

    both(act)
    in_memory, on_disk = Played(), Played(files=DiskFiles(tmp_path))
    with closing(in_memory.core), closing(on_disk.core):
        act(in_memory)
        act(on_disk)
        assert in_memory.logs == on_disk.logs and in_memory.bytes == on_disk.bytes


def test_a_limited_number_of_shapes_is_learnt():
    with closing((played := Played()).core), patch.object(produce_shapes, "_MOST", 2):
        for shape in ((9, "t", 0, 1), (9, "t", 1, 1), (9, "u", 0, 1)):
            for _ in range(3):
                played.produce((shape, "one"))
        assert (len(played.shapes), played.decided) == (2, 4)
        played.create("another")
        played.produce(((9, "u", 0, 1), "one"), ((9, "u", 0, 1), "one"))
        assert (len(played.shapes), played.decided) == (1, 5)


@pytest.mark.parametrize("config", [{"fsync": "commit"}, {"fsync": "never"}, {"fsync": "interval"}])
def test_answers_that_wait_for_the_disk_are_those_of_decoded_requests(config):
    def act(played: Played) -> None:
        for _ in range(4):
            played.produce((SHAPE, "one"), (SHAPE, "two"))

    known, _ = both(act, **config)
    assert (known.decided == 0) == (config["fsync"] == "commit")


def test_a_connection_whose_requests_have_one_shape_is_not_idle():
    with closing((played := Played(connections_max_idle_ms=10_000)).core):
        connection = played.client.connection
        for _ in range(5):
            played.wait(9_000)
            played.core.run_due()
            played.produce((SHAPE, "one"))
        assert played.decided == 4 and not connection.closing


def test_the_time_of_the_append_is_that_of_a_decoded_request():
    def act(played: Played) -> None:
        played.configure("t", "message.timestamp.type", "LogAppendTime")
        for _ in range(3):
            played.wait(7)
            played.produce((SHAPE, "one"), (SHAPE, "five"))

    known, _ = both(act)
    assert known.decided == 5


def test_a_topic_that_is_made_again_has_no_shapes_of_the_one_before():
    def act(played: Played) -> None:
        for _ in range(2):
            played.produce((SHAPE, "one"))
            played.produce((SHAPE, "one"))
            played.delete("t")
            played.produce((SHAPE, "one"))
            played.create("t")

    known, _ = both(act)
    assert known.decided == 2


def test_a_batch_larger_than_a_segment_is_refused():
    def act(played: Played) -> None:
        played.configure("t", "segment.bytes", str(SEGMENT_BYTES))
        played.configure("t", "max.message.bytes", str(2 * SEGMENT_BYTES))
        played.produce((SHAPE, "one"), (SHAPE, "one"))
        with patch.dict(BATCHES, large=usual(b"v" * SEGMENT_BYTES)):
            played.produce((SHAPE, "large"))

    known, _ = both(act)
    assert known.decided == 1 and known.logs["t-0"][2] == 2


def test_a_fetch_that_waits_gets_the_records():
    with closing((played := Played()).core):
        for _ in range(2):
            played.produce((SHAPE, "one"))
        consumer, made = CoreClient(played.core), messages.FetchRequest
        asked = made.FetchPartition(partition=0, fetch_offset=2, partition_max_bytes=1000)
        fetch = made(max_wait_ms=10_000, min_bytes=1, topics=[made.FetchTopic("t", bytes(16), [asked])])
        consumer.send((fetch, 11))
        consumer.turn()
        played.produce((SHAPE, "another"))
        (answer,) = consumer.take()
        assert b"other" in bytes(answer.responses[0].partitions[0].records)
        assert played.decided == 2
