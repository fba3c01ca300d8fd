"""20,000 groups with two partitions each: what does `kafka-offsets lag` cost, and when does its first row come?

    python benchmarks/many_groups.py [--groups 20000] [--bootstrap-server HOST:PORT]

Starts `kafka-offsets serve`, or uses a broker that runs. Each group has committed an offset in both partitions of one
topic, most of them behind its end. The CPU time is that of the command's process, from its start to its end.

CPython 3.11.7, two cores of a quiet x86-64 machine, 2026-11-28; goal: the first row within 2 s, 5 s of CPU:

    lag                              first row  1.64 s, whole  1.81 s,  1.42 s of CPU, 20,001 lines
    lag --top 10                     first row  1.40 s, whole  1.44 s,  1.11 s of CPU, 11 lines
    lag --by partition --json        first row  1.34 s, whole  1.57 s,  1.24 s of CPU, 40,000 lines
    groups list                      first row  0.29 s, whole  0.41 s,  0.39 s of CPU, 20,001 lines
    groups describe --all-groups --state        1.22 s, whole  1.35 s,  0.82 s of CPU, 20,001 lines
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch

TOPIC = "shared"
RECORDS, BATCH = 50_000, 500
COMMANDS = (
    ("lag",),
    ("lag", "--top", "10"),
    ("lag", "--by", "partition", "--json"),
    ("groups", "list"),
    ("groups", "describe", "--all-groups", "--state"),
)


@contextmanager
def served() -> Iterator[str]:
    """A broker in a process of its own."""
    command = [sys.executable, "-m", "kafka_offsets.cli", "serve", "--port", "0", "--topic", f"{TOPIC}:2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stderr is not None
            yield broker.stderr.readline().split()[-1]
        finally:
            broker.terminate()


def fill(bootstrap: str, groups: int) -> None:
    """Produce the records, a second apart, and commit for each group."""
    with Connection(*parse_address(bootstrap), timeout_s=60) as connection:
        made = messages.ProduceRequest
        begin_ms = round(time.time() * 1000) - RECORDS * 1000
        for base in range(0, RECORDS, BATCH):
            records = [(None, b"x" * 50, (), begin_ms + 1000 * (base + n)) for n in range(BATCH)]
            data = [made.PartitionProduceData(index, bytes(encode_batch(records))) for index in range(2)]
            answer = connection.call(
                made(None, -1, 10_000, [made.TopicProduceData(TOPIC, partition_data=data)]), 7
            )
            assert not any(each.error_code for each in answer.responses[0].partition_responses)
        request = messages.OffsetCommitRequest
        for number in range(groups):
            offsets = [
                request.Partition(index, number * 7919 % RECORDS, committed_metadata="") for index in range(2)
            ]
            answer = connection.call(
                request(f"group-{number:05d}", topics=[request.Topic(TOPIC, partitions=offsets)]), 8
            )
            assert not any(each.error_code for each in answer.topics[0].partitions)


def measure(bootstrap: str, words: tuple[str, ...]) -> str:
    """Run a command; return what it took."""
    begin_s = time.perf_counter()
    command = [sys.executable, "-m", "kafka_offsets.cli", *words, "-b", bootstrap]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()  # the headings
    process.stdout.readline()
    first_s = time.perf_counter() - begin_s
    lines = 2 + sum(1 for _ in process.stdout)
    said = process.stderr.read().decode().splitlines()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    cpu_s = used.ru_utime + used.ru_stime
    whole_s = time.perf_counter() - begin_s
    return (
        f"{' '.join(words):42} first row {first_s:5.2f} s, whole {whole_s:5.2f} s, {cpu_s:5.2f} s of CPU, "
        f"{lines:,} lines, {len(said)} on stderr"
    )


def main() -> None:
    """Fill a broker and measure each command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--bootstrap-server")
    options = parser.parse_args()

    def run(bootstrap: str) -> None:
        begin_s = time.perf_counter()
        fill(bootstrap, options.groups)
        print(f"{options.groups} groups made in {time.perf_counter() - begin_s:.1f} s", flush=True)
        for words in COMMANDS:
            print(measure(bootstrap, words), flush=True)

    if options.bootstrap_server:
        run(options.bootstrap_server)
    else:
        with served() as bootstrap:
            run(bootstrap)


if __name__ == "__main__":
    main()
