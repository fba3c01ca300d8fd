"""How quickly does a coordinator come up from a long log of committed offsets?

    python benchmarks/load.py [--records 10000000] [--groups 10000] [--partitions 100] [--kafka [PORT]] [--dir DIR]

A log is made in segments of 100 MiB: commits of one group for some neighbouring partitions of its topic, about ten of
them in a batch, groups at random, so that there are groups * partitions keys. Then it is loaded, each time in a process
of its own: "columns" with numpy (the extra `fast`), the best of three, and "records" without, once, as that takes long.
The time is that of loading alone: the log is open, its headers have been read. With --kafka the segments are put in
place of those of a stopped Apache Kafka, which is started again, once, and whose own log says how long its loader took.
CPU seconds are those of the process; Kafka's are not known, its loader is one thread.

CPython 3.11.7, Apache Kafka 4.3.1, two cores of an x86-64 machine without other work, 2026-11-22:

   columns     6.12 s   1.63 M records/s   cpu 6.10 s, 1.64 M records/cpu-s, 999,947 keys, peak +233 MiB
     Kafka    14.37 s   0.70 M records/s   as its own log says

On busy cores (load 8), 2026-11-28, `--records 300000 --groups 2000`:

   columns     0.69 s   0.44 M records/s   cpu 0.33 s, 0.90 M records/cpu-s, 154,881 keys, peak +71 MiB
   records     3.45 s   0.09 M records/s   cpu 1.64 s, 0.18 M records/cpu-s, 154,881 keys, peak +5 MiB
"""

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.peers.kafka_log import DIRECTORY, kafka_on
from kafka_offsets.broker.groups import loading
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.coordinator.state.shard_state import GroupSettings
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.files.files import DiskFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.segments.segment_names import segment_name

SEGMENT_BYTES = 100 << 20
WAYS = {"columns": loading.replay_in_columns, "records": loading.replay}
ROUNDS = {"columns": 3, "records": 1}
KAFKA_PORT = 9292
LOADED = re.compile(
    r"Finished loading of metadata from __consumer_offsets-0 .* in (\d+)ms where (\d+)ms .* Loaded (\d+) records"
)


class NoTopics:
    """A cluster without topics: loading asks for none."""

    def id_and_partition_count(self, topic: str) -> tuple[bytes, int]:
        return bytes(16), 0

    def topic_name(self, topic_id: bytes) -> str | None:
        return None


def make_log(folder: Path, records: int, groups: int, partitions: int, mean: int = 10) -> None:
    """Write the segments, `mean` records in a batch by and large."""
    chance = random.Random(1)
    keys = [
        [stored.offset_key(f"group-{group:08d}-of-orders", "orders.checked", p) for p in range(partitions)]
        for group in range(groups)
    ]
    now = int(time.time() * 1000)
    topic_id = bytes(range(1, 17))
    offset = 0
    while offset < records:
        with (folder / segment_name(offset)).open("wb") as file:
            while offset < records and file.tell() < SEGMENT_BYTES:
                committed = keys[chance.randrange(groups)]
                first = chance.randrange(partitions)
                count = min(1 + int(chance.expovariate(1 / mean)), partitions)
                value = stored.offset_value(OffsetAndMetadata(offset, 3, "", now, -1, topic_id))
                batch = encode_batch(
                    [(committed[(first + i) % partitions], value, (), now) for i in range(count)],
                    base_offset=offset,
                    leader_epoch=0,
                )
                file.write(batch)
                offset += count


def load(folder: Path, way: str) -> dict[str, float]:
    """Load the log once, in this process; return what it took."""
    log = Log.open(DiskFiles(folder.parent), folder.name, LogConfig())
    if way == "columns":
        import numpy  # noqa: F401
    shard = Shard(0, GroupSettings(), lambda prefix: prefix, NoTopics())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    WAYS[way](shard, log)
    return {
        "records": log.log_end_offset,
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "keys": len(shard.offsets),
        "peak_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }


def report(way: str, records: float, wall: float, rest: str) -> None:
    print(f"{way:>10} {wall:8.2f} s {records / wall / 1e6:6.2f} M records/s   {rest}", flush=True)


def measure(folder: Path, way: str) -> None:
    """Load the log in processes of their own, and print the best."""
    words = [sys.executable, __file__, "--load", way, "--dir", str(folder.parent)]
    runs = [
        json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        for _ in range(ROUNDS[way])
    ]
    best = min(runs, key=lambda run: run["wall"])
    rest = f"cpu {best['cpu']:.2f} s, {best['records'] / best['cpu'] / 1e6:.2f} M records/cpu-s, "
    report(
        way, best["records"], best["wall"], rest + f"{best['keys']:,} keys, peak +{best['peak_mib']:.0f} MiB"
    )


def measure_kafka(folder: Path, port: int) -> None:
    """Let Kafka load the log, and print what it says of that."""

    def loaded(text: str) -> re.Match[str] | None:
        found = LOADED.search(text)
        return found if found and int(found[3]) > 0 else None

    with (
        tempfile.TemporaryDirectory(dir=folder.parent) as name,
        kafka_on(folder, Path(name) / "kafka", port, "log.cleaner.enable=false\n") as peer,
    ):
        found = peer.wait_for(loaded, "loaded the log")
    report("Kafka", int(found[3]), (int(found[1]) - int(found[2])) / 1000, "as its own log says")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--kafka", type=int, metavar="PORT", nargs="?", const=KAFKA_PORT)
    parser.add_argument("--dir", type=Path, help="where the log is made, or found when it is there")
    parser.add_argument("--load", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = (arguments.dir or Path(name)) / DIRECTORY
        if arguments.load:
            print(json.dumps(load(folder, arguments.load)))
            return
        if not folder.exists():
            folder.mkdir(parents=True)
            make_log(folder, arguments.records, arguments.groups, arguments.partitions)
        for way in WAYS:
            measure(folder, way)
        if arguments.kafka:
            measure_kafka(folder, arguments.kafka)


if __name__ == "__main__":
    main()
