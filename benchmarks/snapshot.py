"""Start on a long log of the offsets topic: from its snapshot, and by replay.

    python benchmarks/snapshot.py [--records 10000000] [--keys 1000000] [--partitions 100] [--directory DIR]

Makes a directory with one partition of the offsets topic in which every key is committed `records / keys` times, in
batches of one group's partitions of a topic. A process of its own starts a broker core on it, first without
snapshots, then from the one that the stop before has left, then from the one of a process that has ended as by
kill -9, in the middle of serving, after its recovery points were written; the time is everything
from the opening of the directory to the moment when requests are answered, imports not included. The last line is
the longest time that taking and writing a snapshot kept the loop while serving.

CPython 3.11.7 with numpy, two cores of an x86-64 machine without other work:

    10000000 records, 1000000 keys, 769 MB
    replay                       4.09 s   CPU 4.18 s
    snapshot                     0.07 s   CPU 0.07 s
    after kill -9                0.12 s   CPU 0.12 s
    quicker                      56.3 times
    stop with a snapshot         0.00 s
    longest turn, writing         1.4 ms of CPU

With other work on the machine (load 12 to 15): replay 27.90 s, snapshot 0.54 s, after kill -9 0.46 s.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.broker.turn.workers import Done, Work, sync_all
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import DiskFiles
from kafka_offsets.storage.log.log import Log, LogConfig

TOPICS = 10
TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000


def make(directory: Path, records: int, keys: int, partitions: int) -> None:
    """Write the directory."""
    data = DataDirectory(DiskFiles(directory))
    data.create_topic(OFFSETS_TOPIC, 1, {"segment.bytes": str(100 << 20)})
    log = data.open_log(OFFSETS_TOPIC, 0, LogConfig(segment_bytes=100 << 20))
    groups = keys // (TOPICS * partitions)
    written = 0
    while written < records:
        for group in range(groups):
            for topic in range(TOPICS):
                entry = OffsetAndMetadata(written, 0, "", NOW_MS + written // 1000, -1, TOPIC_ID)
                value = stored.offset_value(entry)
                names = f"group-{group}", f"topic-{topic}"
                log.append(
                    encode_batch(
                        [
                            (stored.offset_key(*names, number), value, (), NOW_MS)
                            for number in range(partitions)
                        ]
                    )
                )
                written += partitions
    data.close()


class Elsewhere:
    """A thread that writes and syncs, as the server has it."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1)
        self._running: list[tuple[Future[Any], Callable[[Future[Any]], None]]] = []

    def sync(self, logs: list[Log], done: Callable[[dict[Log, StorageError]], None]) -> None:
        """Have logs synced."""
        self._running.append((self._executor.submit(sync_all, logs), lambda future: done(future.result())))

    def background(self, work: Work, done: Done) -> None:
        """Have `work` done."""

        def finished(future: Future[None]) -> None:
            future.result()
            done(None)

        self._running.append((self._executor.submit(work), finished))

    def finish(self) -> None:
        """Tell of what has ended."""
        ended = [pair for pair in self._running if pair[0].done()]
        self._running = [pair for pair in self._running if pair not in ended]
        for future, finished in ended:
            finished(future)


def start(directory: Path, interval_bytes: int, *, dies: bool) -> None:
    """Start a core, stop it or end without a stop, and print what both took as JSON."""
    checkpoint_ms = 500 if dies else 60_000
    settings = {
        "offsets.load.before.listening.bytes": 1 << 40,
        "offsets.snapshot.interval.bytes": interval_bytes,
        "log.flush.offset.checkpoint.interval.ms": checkpoint_ms,
    }
    config = Config.load(settings)
    elsewhere = Elsewhere()
    begin, cpu = time.perf_counter(), time.process_time()
    core = BrokerCore(config, DiskFiles(directory), sync=elsewhere.sync, background=elsewhere.background)
    ready, cpu = time.perf_counter() - begin, time.process_time() - cpu
    (hosted,) = core.runtime.all_shards()
    entries, size = len(hosted.shard.offsets), hosted.log.size
    longest = 0.0
    if interval_bytes:
        core.snapshots.want(hosted)
        until = time.monotonic() + 20
        least = time.monotonic() + (2 if dies else 0)
        while (core.snapshots.is_writing or time.monotonic() < least) and time.monotonic() < until:
            turn = time.thread_time()
            elsewhere.finish()
            core.run_due()
            core.end_turn()
            longest = max(longest, time.thread_time() - turn)
            time.sleep(0.001)
    begin = time.perf_counter()
    if not dies:
        core.close()
    stopped = time.perf_counter() - begin
    figures = {"ready": ready, "cpu": cpu, "stop": stopped, "entries": entries, "bytes": size}
    print(json.dumps(figures | {"longest": longest}), flush=True)
    if dies:
        os._exit(0)


def run(directory: Path, interval_bytes: int, *options: str) -> dict[str, float]:
    """Start in a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--start",
        str(interval_bytes),
        "--directory",
        str(directory),
        *options,
    ]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    """Make the directory, start on it, print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=100, help="of each topic")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--start", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--dies", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start is not None:
        start(options.directory, options.start, dies=options.dies)
        return
    with tempfile.TemporaryDirectory() as made:
        directory = options.directory or Path(made)
        if not (directory / "topics").exists():
            make(directory, options.records, options.keys, options.partitions)
        replay = run(directory, 0)
        first = run(directory, 1 << 24)
        snapshot = run(directory, 1 << 24, "--dies")
        killed = run(directory, 1 << 24)
    assert replay["entries"] == first["entries"] == snapshot["entries"] == killed["entries"]
    print(f"{options.records} records, {replay['entries']} keys, {replay['bytes'] / 1e6:.0f} MB")
    for name, figures in (("replay", replay), ("snapshot", snapshot), ("after kill -9", killed)):
        print(f"    {name:24} {figures['ready']:8.2f} s   CPU {figures['cpu']:.2f} s")
    print(f"    quicker                  {replay['ready'] / snapshot['ready']:8.1f} times")
    print(f"    stop with a snapshot     {first['stop']:8.2f} s")
    print(f"    longest turn, writing    {1000 * first['longest']:8.1f} ms of CPU")


if __name__ == "__main__":
    main()
