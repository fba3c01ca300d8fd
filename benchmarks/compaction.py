"""How quickly does the cleaner work, beside that of Apache Kafka?

    python benchmarks/compaction.py [--records 10000000] [--groups 10000] [--partitions 100] [--kafka PORT] [--dir DIR]

The log is that of load.py: groups * partitions keys, about ten commits in a batch, in segments of 100 MiB. It is
compacted in a process of its own each way, offline: "columns" with numpy (the extra `fast`), "loops" without. The time
is that of the round alone, fsync included. With --kafka the segments are put in place of those of a stopped Apache
Kafka, which is started again, and whose cleaner says in its log how long it took; one thread, its default buffers. The
first segments that both leave are compared byte for byte.

Figures are printed as `way, seconds, records per second`. CPU seconds are those of the process; Kafka's are not known.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.load import DIRECTORY, SEGMENT_BYTES, find_coordinator, kafka, make_log
from kafka_offsets.storage.compaction import CompactionConfig, compact, load_columns
from kafka_offsets.storage.files import DiskFiles
from kafka_offsets.storage.log import Log, LogConfig

WAYS = ("columns", "loops")
FIRST = "00000000000000000000.log"
CLEANED = re.compile(r"cleaned log __consumer_offsets-0.*?processed in ([0-9.,]+) seconds", re.DOTALL)
EXTRA = """offsets.topic.num.partitions=1
log.cleaner.backoff.ms=1000
log.cleaner.min.cleanable.ratio=0.01
log.cleaner.threads=1
"""


def clean(root: Path, way: str) -> dict[str, float]:
    """Compact the log below `root`; return what it took."""
    columns = load_columns() if way == "columns" else None
    log = Log.open(DiskFiles(root), DIRECTORY, LogConfig(segment_bytes=SEGMENT_BYTES))
    log.roll()
    wall, cpu = time.perf_counter(), time.process_time()
    config = CompactionConfig(dedupe_buffer_bytes=1 << 30)
    (result,) = compact(log, config, int(time.time() * 1000), columns=columns)
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    log.close()
    return took | {"records": result.records_read, "kept": result.records_kept}


def report(way: str, records: float, wall: float, rest: str) -> None:
    """Print one line of figures."""
    print(f"{way:8} {wall:8.2f} s {records / wall:12,.0f} records/s  {rest}", flush=True)


def measure(folder: Path, way: str, home: Path) -> float:
    """Compact a copy in a process of its own; return how many records there were."""
    inside = home / way / DIRECTORY
    inside.mkdir(parents=True)
    for path in folder.glob("*.log"):
        os.link(path, inside / path.name)  # segments are replaced, never changed
    command = [sys.executable, __file__, "--clean", way, "--dir", str(home / way)]
    took = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    report(way, took["records"], took["wall"], f"{took['cpu']:.2f} s CPU, {took['kept']:,.0f} stay")
    return float(took["records"])


def measure_kafka(folder: Path, port: int, home: Path, records: float) -> None:
    """Let Kafka compact the log, and print what it says of that."""
    extra = home / "extra.properties"
    extra.write_text(EXTRA)
    kafka("start", str(port), home / "kafka", extra)
    try:
        find_coordinator(port)
    finally:
        kafka("stop", home / "kafka")
    inside = home / "kafka" / "logs" / DIRECTORY
    for path in inside.glob("0*"):
        path.unlink()
    for path in folder.glob("*.log"):
        os.link(path, inside / path.name)
    end = max(int(path.stem) for path in (home / WAYS[0] / DIRECTORY).glob("*.log"))
    (inside / f"{end:020d}.log").touch()  # an active segment, so that all others are cleaned
    kafka("start", str(port), home / "kafka", extra)
    try:
        for _ in range(600):
            text = (home / "kafka" / "kafka.log").read_text(errors="replace")
            if found := CLEANED.search(text):
                report("Kafka", records, float(found[1].replace(",", "")), "as its own log says")
                break
            time.sleep(0.5)
        else:
            shutil.copy(home / "kafka" / "kafka.log", folder.parent / "kafka.log")
            raise SystemExit(f"Kafka did not say that it has cleaned the log: see {folder.parent}/kafka.log")
    finally:
        kafka("stop", home / "kafka")
    same = (inside / FIRST).read_bytes() == (home / WAYS[0] / DIRECTORY / FIRST).read_bytes()
    print(f"the first segment is {'the same' if same else 'ANOTHER'}")


def main() -> None:
    """Make the log and compact it in every way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--kafka", type=int, metavar="PORT")
    parser.add_argument("--dir", type=Path, help="where the log is made, or found when it is there")
    parser.add_argument("--clean", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.clean:
        print(json.dumps(clean(arguments.dir, arguments.clean)))
        return
    with tempfile.TemporaryDirectory(dir=arguments.dir) as name:
        folder = (arguments.dir or Path(name)) / DIRECTORY
        if not folder.exists():
            folder.mkdir(parents=True)
            make_log(folder, arguments.records, arguments.groups, arguments.partitions)
        records = [measure(folder, way, Path(name)) for way in WAYS]
        if arguments.kafka:
            measure_kafka(folder, arguments.kafka, Path(name), records[0])


if __name__ == "__main__":
    main()
