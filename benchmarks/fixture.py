"""The broker as a fixture: set-up and tear-down, a thousand of them in one process, and a suite of 200 tests.

    python benchmarks/fixture.py [--cycles 1000] [--tests 200]

*set-up and tear-down* are those of `kafka_broker`, which records, with a topic of three partitions and an answered
request between them; the first one of a process reads schemas and is given apart. *snapshot and restore* have a
thousand records and ten groups. *cycles* start and stop brokers in one process, in asyncio's debug mode with all
warnings as errors, and compare descriptors, threads and memory at the end with those after the first tenth. *suite* is
what a user has: pytest, and tests each with a broker of its own, a confluent-kafka consumer group, three records, a
commit and a clean leave. *Our share* of it is CPU time: of the broker's threads, and of the calls that the tests make
to it; the rest is librdkafka, which waits for timers of its own before it fetches, and pytest. Goals: 15 ms each for
set-up and tear-down, no growth, 60 s for the suite and 5 s of it ours.

Such a test takes 160 ms, of which librdkafka 2.16 waits for 150: it makes no second connection within 50 ms of the
first, and asks where a partition begins 100 ms after it has heard that nothing is committed. Its 19 requests are
answered in 0.1 to 0.5 ms each; closing the consumer takes 1 ms, set-up and tear-down 3 ms.

CPython 3.11.7, two cores of a shared x86-64 machine with little other work (load 2), 2026-11-22:

                   first  median    99 %   worst     CPU  (ms, 200 of each)
          set-up    2.58    0.81    2.58   20.28    0.85
       tear-down    1.32    0.48    1.35    1.54    0.48
        snapshot    0.14    0.15    0.29    0.40    0.15
         restore    2.91    1.95   29.91   38.80    1.97
    1000 cycles in 3.8 s, from the 100th on: descriptors 4 to 4, threads 1 to 1, KiB 40148 to 41712
    in debug mode no warnings; 0 callbacks took 0.1 s, as on a busy machine any may
    200 tests in 34.5 s, our share 2.33 s of CPU time
"""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from kafka_offsets.testing import Broker

REPOSITORY = Path(__file__).resolve().parents[1]

MOST_GROWTH_KIB = 4096
"""Of memory, in all cycles together: what an allocator may keep."""

SUITE = """
import pytest
from confluent_kafka import Consumer
from kafka_offsets.testing import group_empty

@pytest.mark.kafka(topics=["orders"])
@pytest.mark.parametrize("number", range({tests}))
def test_a_group_reads_three_records_commits_and_leaves(kafka_broker, number):
    kafka_broker.produce("orders", ["a", "b", "c"])
    consumer = Consumer({{
        "bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": "billing",
        "auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.wait.max.ms": 10,
    }})
    consumer.subscribe(["orders"])
    assert [consumer.poll(20).value() for _ in range(3)] == [b"a", b"b", b"c"]
    consumer.commit(asynchronous=False)
    consumer.close()
    kafka_broker.wait_for(group_empty("billing"))
    kafka_broker.assert_committed("billing", {{("orders", 0): 3}})
"""

MEASURING = """
import time
from kafka_offsets.testing import Broker

spent = 0.0

def counted(function):
    def call(*args, **options):
        global spent
        began = time.thread_time()
        try:
            return function(*args, **options)
        finally:
            spent += time.thread_time() - began
    return call

# _run is all that a broker's thread does; the others are called by the thread of the tests.
for name in ("__init__", "_run", "start", "stop", "create_topic", "produce", "wait_for", "assert_committed"):
    setattr(Broker, name, counted(getattr(Broker, name)))

def pytest_unconfigure():
    print(f"\\nshare {spent:.2f}")
"""


class Timer:
    """Times of one thing: by the clock, and of the CPU."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.walls: list[float] = []
        self.cpus: list[float] = []

    def __enter__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.walls.append((time.perf_counter() - self._began[0]) * 1000)
        self.cpus.append((time.process_time() - self._began[1]) * 1000)

    def show(self) -> None:
        """Print a row; the first time stands apart."""
        later = sorted(self.walls[1:])
        row = self.walls[0], statistics.median(later), later[len(later) * 99 // 100], later[-1]
        cpu = statistics.median(self.cpus[1:])
        print(f"{self.name:>12}" + "".join(f"{value:8.2f}" for value in (*row, cpu)), flush=True)


def fixtures(count: int) -> None:
    """Measure set-up and tear-down."""
    up, down = Timer("set-up"), Timer("tear-down")
    for _ in range(count):
        broker = Broker(record=True)
        with up:
            broker.start()
            broker.create_topic("orders", 3)
        broker.produce("orders", ["a"])
        with down:
            broker.stop()
    print(f"{'':12}{'first':>8}{'median':>8}{'99 %':>8}{'worst':>8}{'CPU':>8}  (ms, {count} of each)")
    up.show()
    down.show()


def restores(count: int) -> None:
    """Measure snapshots of a broker with a thousand records and ten groups."""
    taking, restoring = Timer("snapshot"), Timer("restore")
    with Broker() as broker:
        broker.produce("orders", range(1000))
        for number in range(10):
            broker.commit(f"group {number}", {("orders", 0): number})
        for _ in range(count):
            with taking:
                snapshot = broker.snapshot()
            with restoring:
                broker.restore(snapshot)
    taking.show()
    restoring.show()


def holdings() -> tuple[int, int, int]:
    """Return descriptors, threads and KiB of memory of this process."""
    gc.collect()
    with open("/proc/self/statm", "rb") as file:
        pages = int(file.read().split()[1])
    return (
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        pages * os.sysconf("SC_PAGE_SIZE") // 1024,
    )


def cycles(count: int) -> None:
    """Start and stop; exits when something stays behind or is warned of."""
    before = None
    began = time.perf_counter()
    for number in range(count):
        if number == count // 10:
            before = holdings()
        with Broker(record=True) as broker:
            broker.produce("orders", ["a"])
    assert before is not None
    after = holdings()
    names = ("descriptors", "threads", "KiB")
    grown = ", ".join(f"{name} {old} to {new}" for name, old, new in zip(names, before, after, strict=True))
    print(f"{count} cycles in {time.perf_counter() - began:.1f} s, from the {count // 10}th on: {grown}")
    if after[:2] != before[:2] or after[2] - before[2] > MOST_GROWTH_KIB:
        sys.exit("a broker leaves something behind")


def suite(tests: int) -> None:
    """Run a suite as a user does."""
    with tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-") as folder:
        (Path(folder) / "measuring.py").write_text(MEASURING, encoding="utf-8")
        (Path(folder) / "test_suite.py").write_text(SUITE.format(tests=tests), encoding="utf-8")
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "kafka_offsets.testing.plugin",
            "-p",
            "measuring",
        ]
        environment = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{folder}"}
        began = time.perf_counter()
        done = subprocess.run(words, check=False, cwd=folder, env=environment, capture_output=True, text=True)
        took = time.perf_counter() - began
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    share = float(done.stdout.rpartition("share ")[2])
    print(f"{tests} tests in {took:.1f} s, our share {share:.2f} s of CPU time")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--tests", type=int, default=200, help="of the suite")
    parser.add_argument("--only-cycles", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only_cycles:
        cycles(given.cycles)
        return
    fixtures(200)
    restores(200)
    sys.stdout.flush()
    # In debug mode slow callbacks, coroutines without an await and open sockets are reported; here each is an error.
    words = [
        sys.executable,
        "-X",
        "dev",
        "-W",
        "error",
        __file__,
        "--only-cycles",
        "--cycles",
        str(given.cycles),
    ]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTHONASYNCIODEBUG": "1"}
    done = subprocess.run(words, check=False, env=environment, stderr=subprocess.PIPE, text=True)
    slow = [line for line in done.stderr.splitlines() if line.startswith("Executing ")]
    other = [line for line in done.stderr.splitlines() if line not in slow]
    if done.returncode or other:
        sys.exit("\n".join(other) or f"the cycles ended with {done.returncode}")
    print(f"in debug mode no warnings; {len(slow)} callbacks took 0.1 s, as on a busy machine any may")
    suite(given.tests)


if __name__ == "__main__":
    main()
