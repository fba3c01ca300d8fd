"""How quickly does the cleaner work, beside that of Apache Kafka?

    python benchmarks/compaction.py [--records 10000000] [--groups 10000] [--partitions 100]
                                    [--kafka [PORT]] [--dir DIR]
    python benchmarks/compaction.py --beside-serving [--without-numpy] [--records 300000] [--groups 300]
                                    [--batch 10]

The log is that of load.py: groups * partitions keys, about ten commits in a batch, in segments of 100 MiB. It is
compacted in a process of its own each way, offline: "columns" with numpy (the extra `fast`), "loops" without. The time
is that of the round alone, fsync included. With --kafka the segments are put in place of those of a stopped Apache
Kafka, which is started again, and whose cleaner says in its log how long it took; one thread, its default buffers. The
first segments that both leave are compared byte for byte.

Figures are printed as `way, seconds, records per second`. CPU seconds are those of the process; Kafka's are not known.

With --beside-serving the log is compacted by a broker while a client of one connection commits, 16 at a time, and
nothing else is measured: its rate and latencies before, during and after, and how much of the serving thread's CPU the
turns of the cleaner took.

CPython 3.11.7, Apache Kafka 4.3.1, two cores of an x86-64 machine without other work, 10 M records over 1 M keys:

    columns      9.50 s    1,052,584 records/s  9.05 s CPU, 999,947 stay
    loops       27.33 s      365,879 records/s  26.87 s CPU, 999,947 stay
    Kafka       21.50 s      465,116 records/s  as its own log says
    the first segment is the same

Beside serving, --records 300000 --groups 300, three runs each with and without numpy, in turns: commits while the log
is compacted were 84, 86 and 86 % of the mean of before and after; without numpy 82, 85 and 85 %. One of the first:

    before      69,066 commits/s   p99 0.4 ms, longest 6.6 ms
    during      57,620 commits/s   p99 1.2 ms, longest 12.3 ms
    after       64,494 commits/s   p99 0.4 ms, longest 5.4 ms
    during is 86% of the mean of before and after; 990,138 records in 25 s
    turns of the cleaner: p99 1.5 ms, longest 6.5 ms of CPU, together 10% of what the thread that serves has used

In one of the six a turn took 20.2 ms of CPU, in the others 6.5 at most. With batches of thousands of records
(--groups 3 --partitions 20000 --batch 9000) 88 %, the longest turn 7.2 ms of CPU; without numpy 84 and 85 %, the
longest commit 13.1 ms. There the thread that takes such batches computes, and would hold the interpreter for 5 ms at
a time: it was 69 % and 27.7 ms before the switch interval was shortened for work in the background.

On a machine with more work than cores (load 12 to 17) `during` was between 54 % and 83 % of `before`: pauses between
turns are times of a clock, and on cores that others take away the cleaner had 37 % of the serving thread's CPU.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.load import KAFKA_PORT, SEGMENT_BYTES, make_log
from benchmarks.peers.kafka_log import DIRECTORY, kafka_on
from kafka_offsets import Broker
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.storage.cleaner.compaction import CompactionConfig, compact, load_columns
from kafka_offsets.storage.files.files import DiskFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.drivers import wire

IN_FLIGHT, SECONDS = 16, 8
WAYS = ("columns", "loops")
FIRST = "00000000000000000000.log"
CLEANED = re.compile(r"cleaned log __consumer_offsets-0.*?processed in ([0-9.,]+) seconds", re.DOTALL)
EXTRA = """log.cleaner.backoff.ms=1000
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


def measure_kafka(folder: Path, port: int, home: Path, records: float, way: str) -> None:
    """Let Kafka compact the log, and print what it says of that."""
    ours = home / way / DIRECTORY
    end = max(int(path.stem) for path in ours.glob("*.log"))
    with kafka_on(folder, home / "kafka", port, EXTRA, active=end) as peer:
        found = peer.wait_for(CLEANED.search, "cleaned the log")
        report("Kafka", records, float(found[1].replace(",", "")), "as its own log says")
    same = (peer.inside / FIRST).read_bytes() == (ours / FIRST).read_bytes()
    print(f"the first segment is {'the same' if same else 'ANOTHER'}")


# -- beside serving


class Window:
    """Commits by one client over one connection, IN_FLIGHT at a time, for as long as somebody wants."""

    def __init__(self, address: str) -> None:
        self._connection = wire.Connection(address)
        self._count = 0

    def run(self, goes_on: Callable[[], bool]) -> tuple[float, list[float]]:
        """Commit; return commits a second and the latency of each in ms."""
        sent: deque[float] = deque()
        latencies: list[float] = []
        began = time.perf_counter()
        while (more := goes_on()) or sent:
            while more and len(sent) < IN_FLIGHT:
                self._count += 1
                sent.append(time.perf_counter())
                frame = wire.offset_commit(self._count, "committing", "t", self._count, 1)
                self._connection.socket.sendall(frame)
            answer = self._connection.receive()
            latencies.append((time.perf_counter() - sent.popleft()) * 1000)
            if wire.offset_commit_errors(answer, "t") != {0}:
                raise SystemExit("a commit was refused")
        return len(latencies) / (time.perf_counter() - began), latencies


def serve(root: Path) -> None:
    """Be a broker on the log; compact it for each line that comes, and print what its turns took meanwhile."""
    settings = {
        "offsets.topic.segment.bytes": SEGMENT_BYTES,
        "log.cleaner.enable": False,
        "offsets.load.before.listening.bytes": 1 << 40,
    }
    turns: list[float] = []
    clock: list[float] = []
    run_due = BrokerCore.run_due

    def timed(core: BrokerCore) -> None:
        began = time.thread_time()
        run_due(core)
        clock.append(time.thread_time())
        turns.append((clock[-1] - began) * 1000)

    BrokerCore.run_due = timed  # type: ignore[method-assign]
    with Broker(settings, data_directory=root) as broker:
        with suppress(ValueError):  # a second run on the same directory
            broker.create_topic("t")
        print(broker.bootstrap_servers, flush=True)
        for _ in sys.stdin:
            turns.clear()
            clock.clear()
            (done,) = broker.compact(include_active=True).values()
            share = sum(turns) / 1000 / (clock[-1] - clock[0])
            assert done.error is None, done
            said = {"longest": max(turns), "p99": percentile(turns, 99), "share": share}
            print(json.dumps(said | done._asdict()), flush=True)


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) * percent // 100, len(values) - 1)]


def measure_beside_serving(folder: Path, home: Path, with_numpy: bool) -> None:
    """Compact a copy of the log in a broker while a client commits; print its rates and latencies."""
    inside = home / "serving" / DIRECTORY
    inside.mkdir(parents=True)
    for path in folder.glob("*.log"):
        os.link(path, inside / path.name)
    block = [] if with_numpy else ["--without-numpy"]
    command = [sys.executable, __file__, "--serve", *block, "--dir", str(inside.parent)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as broker:
        assert broker.stdin is not None and broker.stdout is not None
        window = Window(broker.stdout.readline().strip())
        window.run(_for_seconds(2))
        before = window.run(_for_seconds(SECONDS))
        answer: list[str] = []
        reader = threading.Thread(target=lambda: answer.append(broker.stdout.readline()))  # type: ignore[union-attr]
        broker.stdin.write("compact\n")
        broker.stdin.flush()
        reader.start()
        during = window.run(lambda: not answer)
        after = window.run(_for_seconds(SECONDS))
        broker.stdin.close()
    done = json.loads(answer[0])
    for name, (rate, latencies) in (("before", before), ("during", during), ("after", after)):
        rest = f"p99 {percentile(latencies, 99):.1f} ms, longest {max(latencies):.1f} ms"
        print(f"{name:8} {rate:9,.0f} commits/s   {rest}")
    share = during[0] / ((before[0] + after[0]) / 2)
    print(
        f"during is {share:.0%} of the mean of before and after; {done['records']:,} records in "
        f"{len(during[1]) / during[0]:.0f} s\nturns of the cleaner: p99 {done['p99']:.1f} ms, longest "
        f"{done['longest']:.1f} ms of CPU, together {done['share']:.0%} of what the thread that serves has used"
    )


def _for_seconds(seconds: float) -> Callable[[], bool]:
    until = time.perf_counter() + seconds
    return lambda: time.perf_counter() < until


def main() -> None:
    """Make the log and compact it in every way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--batch", type=int, default=10, help="about how many records a batch has")
    parser.add_argument("--kafka", type=int, metavar="PORT", nargs="?", const=KAFKA_PORT)
    parser.add_argument(
        "--beside-serving", action="store_true", help="commits before and during, nothing else"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--without-numpy", action="store_true", help="with --beside-serving: in loops")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--dir", type=Path, help="where the log is made, or found when it is there")
    parser.add_argument("--clean", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.clean:
        print(json.dumps(clean(arguments.dir, arguments.clean)))
        return
    if arguments.serve:
        if not arguments.without_numpy:
            load_columns()
        serve(arguments.dir)
        return
    with tempfile.TemporaryDirectory(dir=arguments.dir) as name:
        folder = (arguments.dir or Path(name)) / DIRECTORY
        if not folder.exists():
            folder.mkdir(parents=True)
            make_log(folder, arguments.records, arguments.groups, arguments.partitions, arguments.batch)
        if arguments.beside_serving:
            measure_beside_serving(folder, Path(name), not arguments.without_numpy)
            return
        records = [measure(folder, way, Path(name)) for way in arguments.ways]
        if arguments.kafka:
            measure_kafka(folder, arguments.kafka, Path(name), records[0], arguments.ways[0])


if __name__ == "__main__":
    main()
