"""Compressed batches that hold far more than their size says: what is taken, and what refusing the rest costs."""

import struct
import subprocess
import sys
import time
from typing import Any

import google_crc32c
import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.compression import Compression, compress
from kafka_offsets.protocol.records import encode_batch, read_batch_header, read_records
from kafka_offsets.protocol.varint import encode_varint
from tests.conftest import REPOSITORY
from tests.drivers.partitions import KNOWN_EPOCH, PartitionCore, batch, whole_batches
from tests.slowness import slowness

CODECS = [codec for codec in Compression if codec]
MIB = 1 << 20

# Generous for a slow machine that does something else as well; without a bound these take ten times as much.
MAX_CPU_S = 1.0
MAX_GROWTH_MIB = (
    40  # 24 of them are what a batch may swell to; the C library keeps some of what it is given back
)


@pytest.fixture
def core() -> PartitionCore:
    core = PartitionCore()
    core.topics.create("t", 2)
    core.topics.create("compact", 1, {"cleanup.policy": "compact"})
    return core


def compressed(body: bytes, codec: Compression, count: int = 1) -> bytes:
    """Return a batch of `count` records, which are encoded in `body`."""
    checked = struct.pack(
        ">hiqqqhii", codec, count - 1, KNOWN_EPOCH, KNOWN_EPOCH, -1, -1, -1, count
    ) + compress(codec, body)
    start = struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, google_crc32c.value(checked))
    return start + checked


def with_empty_headers(count: int, *, key: bytes = b"\x01") -> bytes:
    """Return a record, without a key if none is given, with so many headers of two bytes each."""
    body = b"\x00\x00\x00" + key + b"\x01" + encode_varint(count) + bytes(2 * count)
    return encode_varint(len(body)) + body


def cpu_seconds(core: PartitionCore, topic: str, records: bytes) -> tuple[Any, float]:
    """Produce; return the answer and the CPU time of this thread that it took."""
    begun = time.thread_time()
    answer = core.produce(topic, records)
    return answer, time.thread_time() - begun


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["t", "compact"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("headers", [200_000, 11_000_000, 32_000_000])
def test_a_record_of_millions_of_empty_headers_is_refused_at_once(
    core: PartitionCore, topic: str, codec: Compression, headers: int
) -> None:
    bomb = compressed(with_empty_headers(headers, key=b"\x02k"), codec)
    answer, seconds = cpu_seconds(core, topic, bomb)
    if headers < 2 * len(bomb) + 100_000:
        assert answer.error_code == ErrorCode.NONE
    else:
        assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert core.values(topic) == []
    assert seconds < MAX_CPU_S * slowness()


def test_a_keyless_record_with_headers_costs_a_compacted_topic_no_more(core: PartitionCore) -> None:
    answer, seconds = cpu_seconds(core, "compact", compressed(with_empty_headers(90_000), Compression.ZSTD))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0]
    assert seconds < MAX_CPU_S * slowness()


def test_headers_that_are_not_compressed_are_never_too_many(core: PartitionCore) -> None:
    assert core.produce("t", compressed(with_empty_headers(400_000), Compression.NONE)).error_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_no_batch_swells_beyond_24_mib(core: PartitionCore, codec: Compression) -> None:
    core.topics.create("large", 1, {"max.message.bytes": str(5 * MIB)})
    core.topics.create("larger", 1, {"max.message.bytes": str(10 * MIB)})
    below, above = (batch(bytes(size), compression=codec) for size in (24 * MIB - 100, 24 * MIB + 1))
    assert core.produce("large", below).error_code == ErrorCode.NONE
    answer = core.produce("large", above)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert "are larger than" in answer.error_message
    assert core.produce("larger", above).error_code == ErrorCode.NONE, "four times max.message.bytes"


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_twenty_records_of_a_mebibyte_each_is_taken(
    core: PartitionCore, codec: Compression
) -> None:
    core.topics.create("large", 1, {"max.message.bytes": str(2 * MIB)})
    sent = batch(*[bytes(MIB)] * 20, compression=codec)
    assert core.produce("large", sent).error_code == ErrorCode.NONE
    assert [len(record.value or b"") for record in read_records(core.fetch_one("large", 0, 0).records)] == [
        MIB
    ] * 20


@pytest.mark.slow
def test_a_batch_of_half_a_million_records_all_the_same_is_taken(core: PartitionCore) -> None:
    sent = batch(*[b"v"] * 500_000, compression=Compression.ZSTD)
    assert len(sent) < MIB
    assert core.produce("t", sent).error_code == ErrorCode.NONE


def test_a_topic_of_uncompressed_batches_swells_none_beyond_what_it_keeps(core: PartitionCore) -> None:
    core.topics.create("plain", 1, {"compression.type": "uncompressed"})
    assert core.produce("plain", batch(bytes(MIB // 2), compression=Compression.ZSTD)).error_code == 0
    answer = core.produce("plain", batch(bytes(2 * MIB), compression=Compression.ZSTD))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_another_compression_keeps_headers_and_timestamps(core: PartitionCore) -> None:
    core.topics.create("zstd", 1, {"compression.type": "zstd"})
    records = [
        (b"k%d" % index, None, (("h", bytes([index])), ("", None)), KNOWN_EPOCH - index)
        for index in range(100)
    ]
    assert core.produce("zstd", encode_batch(records, compression=Compression.GZIP)).error_code == 0
    (kept,) = whole_batches(core.fetch_one("zstd", 0, 0).records)
    assert read_batch_header(kept).compression is Compression.ZSTD
    assert [(r.key, r.value, r.headers, r.timestamp) for r in read_records(kept)] == records


@pytest.mark.slow
def test_a_request_of_thousands_of_bombs_is_refused_as_fast_as_one_of_few(core: PartitionCore) -> None:
    core.topics.create("many", 2000)
    sound = bytes(batch(b"v"))
    for bomb in (
        compressed(bytes(32 * MIB), Compression.ZSTD),
        compressed(bytes(8 * MIB), Compression.ZSTD),  # no records, which is found after the decompression
        compressed(bytes(8 * MIB), Compression.GZIP)[:-1] + b"\x01",  # not whole: the checksum is wrong
        compressed(with_empty_headers(50_000), Compression.ZSTD),
    ):
        request = messages.ProduceRequest
        parts = [request.PartitionProduceData(index, bomb) for index in range(1, 2000)]
        parts.append(request.PartitionProduceData(0, sound))
        topic = request.TopicProduceData("many", bytes(16), parts)
        begun = time.thread_time()
        response = core.send(request(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
        seconds = time.thread_time() - begun
        codes = [answer.error_code for answer in response.responses[0].partition_responses]
        assert codes[-1] == ErrorCode.NONE, "what is not compressed has no part in it"
        assert seconds < MAX_CPU_S * slowness(), len(bomb)


def test_of_many_wrong_records_the_first_hundred_are_named_and_all_are_counted(core: PartitionCore) -> None:
    records = [(None, b"v", (), KNOWN_EPOCH)] * 1000
    answer = core.produce("compact", encode_batch(records, compression=Compression.GZIP))
    assert [error.batch_index for error in answer.record_errors] == list(range(100))
    assert answer.error_message.startswith(
        "One or more records have been rejected due to 1000 record errors in total, "
        "and only showing the first three errors at most: [RecordError(batchIndex=0, message='Compacted topic"
    )
    assert answer.error_message.count("RecordError(") == 3
    assert answer.error_message.endswith("')]")


GROWTH = """
import sys
from pathlib import Path
from tests.drivers.partitions import PartitionCore
def peak():  # of this program; ru_maxrss counts in what it was forked from
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0])
core = PartitionCore()
core.topics.create("t", 1)
core.topics.create("compact", 1, {"cleanup.policy": "compact"})
core.topics.create("gzip", 1, {"compression.type": "gzip"})
core.topics.create("plain", 1, {"compression.type": "uncompressed"})
core.produce("t", b"")
bomb = sys.stdin.buffer.read()
before = peak()
codes = [core.produce(topic, bomb).error_code for topic in ("t", "compact", "gzip", "plain")]
print(peak() - before, *codes)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
@pytest.mark.parametrize("headers", [11_000_000, 32_000_000])
def test_refusing_a_bomb_takes_little_memory(codec: Compression, headers: int) -> None:
    bomb = compressed(with_empty_headers(headers), codec)
    ran = subprocess.run(
        [sys.executable, "-c", GROWTH],
        input=bomb,
        capture_output=True,
        check=True,
        cwd=REPOSITORY,
    )
    growth, *codes = map(int, ran.stdout.split())
    assert codes == [ErrorCode.MESSAGE_TOO_LARGE] * 4
    assert growth < MAX_GROWTH_MIB * 1024
