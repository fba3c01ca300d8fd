"""What `kafka-offsets spark report` costs for a small log, beside a session that runs one job, and beside `lag`.

    python benchmarks/spark_report.py [--rounds 3] [--only session,job,lag,report]

The log has 3,500 commits of 12 groups in 50 partitions; the broker that wrote it is asked for the lag. *session* starts
the session of such commands and stops it, *job* also counts a range of ten numbers. Each round runs all of them, each
in a process of its own; the figures are CPU seconds of that process, the JVM and all that they start, the least of the
rounds. A report that does not count runs first: it leaves the archive of the JVM's classes. *lag* starts no JVM.
Goal: a report in 15 s.

CPython 3.11.7, PySpark 4.3.0, Java 17, two cores of a quiet x86-64 machine, 2026-11-24, `--rounds 2`:

     session    3.3 cpu-s    2.9 s
         job    4.2 cpu-s    3.6 s
      report   13.6 cpu-s   11.8 s

Needs Java 17 and the extra `spark`.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from kafka_offsets import Broker  # noqa: E402

GROUPS, COMMITS, TOPIC_PARTITIONS = 12, 3500, 6
_SUBREAPER = 36
_SESSION = """
import argparse
from kafka_offsets.commands import spark as command
parser = argparse.ArgumentParser()
command.add_actions(parser)
options = parser.parse_args(["report", "-", "--output", "page.html"])
options.is_small, options.security = True, {}
session = command._session(options)
"""
_JOB = f"{_SESSION}assert session.range(10).count() == 10\n"


def fill(broker: Broker) -> None:
    """Commit as a dozen groups do, some of which stop early."""
    broker.create_topic("orders", TOPIC_PARTITIONS)
    broker.produce("orders", [b"x"] * 3000)
    for number in range(COMMITS):
        group = number % GROUPS
        if group >= GROUPS - 3 and number > COMMITS // 2:
            continue
        broker.commit(f"group-{group}", {("orders", number % TOPIC_PARTITIONS): number // 10})


def spent(words: list[str], folder: Path) -> tuple[float, float]:
    """Run a process to its end; return the CPU and wall seconds of it and of all that it starts."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(
        words, check=False, cwd=folder, capture_output=True, text=True, env=_environment(folder)
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    took = time.perf_counter() - began
    while True:  # the JVM ends after the process that has started it
        try:
            os.wait()
        except ChildProcessError:
            break
    after = os.times()
    return after[2] + after[3] - before[2] - before[3], took


def _environment(folder: Path) -> dict[str, str]:
    given = {"PYTHONPATH": os.environ.get("PYTHONPATH", str(REPOSITORY))}
    return os.environ | given | {"KAFKA_OFFSETS_CACHE": str(folder / "cache")}


def main() -> None:
    """Measure what the options ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="session,job,lag,report")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)  # orphans become children of this process
    with tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-") as name:
        folder = Path(name)
        log = folder / "data"
        with Broker({"offsets.topic.num.partitions": 50}, data_directory=log) as broker:
            fill(broker)
            command = [sys.executable, "-m", "kafka_offsets.cli", "spark"]
            asked = ["--ends", broker.bootstrap_servers]
            works = {
                "session": [sys.executable, "-c", _SESSION],
                "job": [sys.executable, "-c", _JOB],
                "lag": [*command, "lag", str(log), *asked],
                "report": [*command, "report", str(log), "--output", str(folder / "page.html"), *asked],
            }
            spent(works["report"], folder)
            works = {what: works[what] for what in options.only.split(",")}
            runs: dict[str, list[tuple[float, float]]] = {what: [] for what in works}
            for _ in range(options.rounds):
                for what, words in works.items():
                    runs[what].append(spent(words, folder))
    for what, figures in runs.items():
        cpu, wall = min(figures)
        print(f"{what:>8} {cpu:6.1f} cpu-s {wall:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
