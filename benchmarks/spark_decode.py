"""How quickly do segments of the offsets log become Arrow columns, on one core and without Spark?

    python benchmarks/spark_decode.py [--records 1000000] [--rounds 3] [--batch-records 10] [--metadata-bytes 0]
        [--codecs none] [--dir DIR]

A segment is made: commits of 2,000 groups, about ten in a batch (exponential), 72 keys a group, values of versions 1, 3
and 4 (the last with and without a topic id), 2.5 % tombstones, 1 % metadata of classic groups; about 81 bytes a record.
Then it is read in several ways, the best of some rounds each. Time is CPU time of the process, so that other work on
the machine counts little; the file is in the page cache.

CPython 3.11.7, numpy 2.4, pyarrow 26, two busy cores of an AMD EPYC (load 3 to 7; numpy copies 28 GB/s), 2026-11-22. On
the same cores the speed of one and the same code varies by a third with what else they do:

                           ten records a batch     one record a batch (127 bytes each)
             eight columns    3.91 M records/s    2.84 M records/s
  eight columns, all types    3.63 M records/s    2.63 M records/s
        eight columns, CRC    3.84 M records/s    1.98 M records/s
                names only    5.93 M records/s    4.77 M records/s
       all default columns    2.53 M records/s    2.14 M records/s
                    latest    4.70 M records/s    2.83 M records/s

With `--metadata-bytes 300`, about three records in ten have metadata of 300 bytes, whose length takes two bytes: eight
columns at 2.83 M records/s (161.9 bytes each). While these were read one by one it was 0.50 M records/s.

On two quiet cores, 2026-11-24, best of five rounds (four of five batches of the last line compressed):

                                      eight columns    4.74 M records/s
                --metadata-bytes 300, eight columns    3.84 M records/s
  --codecs none,gzip,snappy,lz4,zstd, eight columns    2.16 M records/s
"""

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID, OffsetAndMetadata
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.spark.reader import options, segments
from kafka_offsets.storage.segments.segment_names import segment_name

GROUPS, TOPICS, PARTITIONS = 2_000, 6, 12
START_MS = 1_750_000_000_000


def _v3(offset: int, metadata: bytes, timestamp: int) -> bytes:
    length = len(metadata).to_bytes(2, "big")
    return b"\0\3" + offset.to_bytes(8, "big") + bytes(4) + length + metadata + timestamp.to_bytes(8, "big")


def make_segment(
    path: Path,
    records: int,
    seed: int = 1,
    base_offset: int = 0,
    batch_records: float = 10,
    metadata_bytes: int = 0,
    codecs: Sequence[Compression] = (Compression.NONE,),
) -> None:
    """Write a segment of so many records to a file.

    batch_records   how many a batch has on average; 1: each has one
    metadata_bytes  length of the metadata, of those records that have any; 0: some five bytes
    codecs          of the batches, in turn
    """
    chance = random.Random(seed)
    prefixes = [
        [
            stored.offset_key_prefix(f"grp-{group:04d}-{'x' * (group % 7)}", f"topic.{topic}")
            for topic in range(TOPICS)
        ]
        for group in range(GROUPS)
    ]
    numbers = [partition.to_bytes(4, "big") for partition in range(PARTITIONS)]
    topic_id = bytes(range(1, 17))
    empty_group = stored.group_record("g", messages.GroupMetadataValue(protocol_type="consumer")).value
    assert empty_group is not None
    offset = base_offset
    turns = itertools.cycle(codecs)
    with path.open("wb") as file:
        while offset < base_offset + records:
            drawn_count = round(chance.expovariate(1 / batch_records)) if batch_records > 1 else 1
            count = min(max(1, drawn_count), base_offset + records - offset)
            group = chance.randrange(GROUPS)
            now = START_MS + offset // 10
            made: list[tuple[bytes, bytes | None, tuple[()], int]] = []
            version = group % 4
            for _ in range(count):
                drawn = chance.random()
                if drawn < 0.01:
                    key = b"\0\2" + prefixes[group][0][2 : 4 + prefixes[group][0][3]]
                    made.append((key, empty_group, (), now))
                    continue
                prefix = prefixes[group][int(drawn * 1e6) % TOPICS]
                key = prefix + numbers[int(drawn * 1e8) % PARTITIONS]
                if drawn < 0.035:
                    made.append((key, None, (), now))
                    continue
                text = "" if drawn < 0.7 else f"m{group}".ljust(metadata_bytes, "m")
                if version == 0:
                    value = stored.offset_value(OffsetAndMetadata(offset, -1, text, now, now + 86_400_000))
                elif version == 1:
                    value = _v3(offset, text.encode(), now)
                else:
                    known = topic_id if version == 2 else NO_TOPIC_ID
                    value = stored.offset_value(OffsetAndMetadata(offset, 5, text, now, -1, known))
                made.append((key, value, (), now + len(made) % 3))
            file.write(encode_batch(made, base_offset=offset, leader_epoch=0, compression=next(turns)))
            offset += count


EIGHT = "log_offset,group,topic,partition,committed_offset,commit_timestamp,metadata,tombstone"
WAYS = {
    "eight columns": {"columns": EIGHT, "types": "offset"},
    "eight columns, all types": {"columns": EIGHT},
    "eight columns, CRC": {"columns": EIGHT, "types": "offset", "verifyCrc": "true"},
    "names only": {"columns": "log_offset,group,topic,partition", "types": "offset"},
    "all default columns": {},
    "latest": {"mode": "latest"},
}


def rows_of(path: Path, given: dict[str, str]) -> int:
    """Read a segment; return how many rows came of it."""
    asked = options.parse({"path": str(path.parent), **given})
    planned = segments.plan(segments.find(str(path.parent)), asked.split_bytes)
    return sum(batch.num_rows for runs in planned for batch in segments.read(runs, asked.query))


def measure(path: Path, rounds: int) -> dict[str, tuple[float, int]]:
    """Return the least CPU seconds and the rows, by the way."""
    best: dict[str, tuple[float, int]] = {}
    for name, given in WAYS.items():
        for _ in range(rounds):
            began = time.process_time()
            rows = rows_of(path, given)
            spent = time.process_time() - began
            best[name] = min(best.get(name, (spent, rows)), (spent, rows))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-records", type=float, default=10)
    parser.add_argument("--metadata-bytes", type=int, default=0)
    parser.add_argument("--codecs", default="none", help="of the batches, in turn: none,gzip,snappy,lz4,zstd")
    parser.add_argument("--dir", type=Path, help="keep the segment there, and use it when it is there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.dir or Path(temporary)) / "__consumer_offsets-0"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / segment_name(0)
        if not path.exists():
            make_segment(
                path,
                arguments.records,
                batch_records=arguments.batch_records,
                metadata_bytes=arguments.metadata_bytes,
                codecs=[Compression[name.upper()] for name in arguments.codecs.split(",")],
            )
        size = path.stat().st_size
        print(f"{arguments.records:,} records, {size / arguments.records:.1f} bytes each")
        for name, (seconds, rows) in measure(path, arguments.rounds).items():
            speed = arguments.records / seconds / 1e6
            print(
                f"{name:>26}   {speed:5.2f} M records/s   {size / seconds / 1e6:5.0f} MB/s   {rows:>9,} rows"
            )


if __name__ == "__main__":
    main()
