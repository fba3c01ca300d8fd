"""Time of writing, reading and checking record batches.

    python benchmarks/records.py

The records are those of commits: a key of 30 bytes, a value of 32, no headers, one timestamp a batch. "general" has
two headers a record and a timestamp of its own; "values" are 1000 bytes without a key, as a producer's. "checked" is
what a broker does to a batch that is produced. Compressed batches include the codec. The best of nine runs, in us a
record; limits for large uncompressed batches: 0.7 written, 1.5 read. "headers" is us a batch to walk a buffer of
1000 batches, "crc" the time to verify the CRC of one.

CPython 3.11.7, two cores of a shared x86-64 machine:

                records    bytes  written   read  checked   (us a record)
       commits        1      131     1.91   2.42     4.38
       commits       10      761     0.42   0.81     0.90
       commits      100     7097     0.24   0.69     0.17
       commits     2000   141997     0.24   0.79     0.04
       general        1      160     5.29   4.60     4.99
       general      100    10033     3.01   3.34     1.10
        values        1     1070     3.63   2.86     4.95
        values      100   100997     1.78   0.87     0.23
          gzip     1000     4482     0.80   0.83     0.10
        snappy     1000     9069     0.25   0.79     0.06
           lz4     1000     9207     0.25   0.79     0.05
          zstd     1000     2669     0.28   0.80     0.09

    headers: 0.48 us a batch; crc: 0.41 us for 761 bytes
"""

import struct
import timeit
from collections.abc import Callable

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.topic import TopicConfig
from kafka_offsets.broker.partition.batch_validation import check_batch, find_batch
from kafka_offsets.clock import Now
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import (
    BatchHeader,
    NewRecord,
    batch_headers,
    encode_batch,
    read_batch_header,
    read_records,
    verify_crc,
)

NOW = 1_700_000_000_000
CONFIG = TopicConfig.of(Config(), {})


def commits(count: int) -> list[NewRecord]:
    """Records as a commit of `count` partitions writes them."""
    keys = (
        struct.pack(">hh12sh8si", 1, 12, b"group-000001", 8, b"topic-01", index) for index in range(count)
    )
    return [(key, struct.pack(">hqih8sq", 4, 123_456, 7, 8, b"metadata", NOW), (), NOW) for key in keys]


def general(count: int) -> list[NewRecord]:
    """The same with headers, and no two timestamps alike."""
    headers = (("trace", b"0123456789abcdef"), ("null", None))
    return [(key, value, headers, NOW + index) for index, (key, value, _, _) in enumerate(commits(count))]


def microseconds(work: Callable[[], object]) -> float:
    """The time of one call, of the best of nine runs."""
    timer = timeit.Timer(work)
    calls = max(1, int(0.02 / max(timer.timeit(1), 1e-6)))
    return min(timer.repeat(9, calls)) / calls * 1e6


def measure(kind: str, new: list[NewRecord], compression: Compression = Compression.NONE) -> None:
    batch = bytes(encode_batch(new, compression=compression))
    written = microseconds(lambda: encode_batch(new, compression=compression)) / len(new)
    read = microseconds(lambda: read_records(batch)) / len(new)
    header = find_batch(batch, 9)
    assert isinstance(header, BatchHeader)
    checked = microseconds(lambda: check_batch(batch, header, CONFIG, "t", 0, Now(NOW, 0))) / len(new)
    print(f"{kind:>10}{len(new):9}{len(batch):9}{written:9.2f}{read:7.2f}{checked:9.2f}")


def main() -> None:
    print(f"{'':10}{'records':>9}{'bytes':>9}{'written':>9}{'read':>7}{'checked':>9}   (us a record)")
    for count in (1, 10, 100, 2000):
        measure("commits", commits(count))
    for count in (1, 100):
        measure("general", general(count))
    for count in (1, 100):
        measure("values", [(None, bytes(1000), (), NOW)] * count)
    for compression in list(Compression)[1:]:
        measure(compression.name.lower(), commits(1000), compression)
    batch = bytes(encode_batch(commits(10)))
    buffer = batch * 1000
    headers = microseconds(lambda: list(batch_headers(buffer))) / 1000
    header = read_batch_header(batch)
    crc = microseconds(lambda: verify_crc(batch, 0, header))
    print(f"\nheaders: {headers:.2f} us a batch; crc: {crc:.2f} us for {len(batch)} bytes")


if __name__ == "__main__":
    main()
