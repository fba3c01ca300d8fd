"""Records into topics and out of them: our broker, with its log on disk, beside others in the same run.

    python benchmarks/produce_fetch.py                                  our broker alone
    python benchmarks/produce_fetch.py --kafka --kfake                  beside Apache Kafka and kfake (in memory)
    python benchmarks/produce_fetch.py --kafka --case fetch fetch-8     these cases alone

Load is made by peers/loadgen (Go), which sends frames that are encoded before. Every server is a process of its own
with its own defaults (fsync: never, as Kafka) and a new directory below TMPDIR; they are measured in turn.

    batches   Produce of 100 records of 1 kB; 8 connections with 5 requests in flight, as producers have; MB of values
    records   Produce of one record of 100 bytes, by as many
    fetch     Fetch of up to 1 MiB, one after the other through a log of 256 MB; one connection
    fetch-8   the same by 8 connections at once; MB of answers

What is produced goes to a topic of 4 partitions that is made for the round and deleted after it; what is fetched is in
the page cache. A virtual machine that gives free memory back to its host pays for every page anew, 13 us on the one
measured here: 3 ms CPU for each MB that anybody writes, more than all else. So before each round as much memory is used
and freed as the page cache will take (--no-touch does without). Answers are sampled: a refused or an empty one ends the
benchmark. CPU is that of the server's process, all threads; the table shows medians of the rounds, and the ratios are
those of the medians. Needs go; --kafka also java and mvn (peers/kafka.sh, ports are chosen).

CPython 3.11.7, Kafka 4.3.1 on Java 17, two cores of an x86-64 machine, 2026-11-22, after a warm-up of 8 s, each table
in one run. On the machine without other work, 7 rounds of 2 s; Kafka's threads have both cores, ours has one:

                         ours                   kafka                  kfake (in memory)
    batches     569 MB/s 1.69 ms/MB     770 MB/s 1.90 ms/MB     778 MB/s 1.43 ms/MB
    records   34931 /s   27.8 us/op   36602 /s   35.8 us/op   60796 /s   15.4 us/op
    fetch      2937 MB/s 0.30 ms/MB    2283 MB/s 0.28 ms/MB    1725 MB/s 0.55 ms/MB
    fetch-8    3179 MB/s 0.30 ms/MB    4174 MB/s 0.25 ms/MB    2196 MB/s 0.58 ms/MB

The two cores are threads of one, and what was tried to use both is no better: for `batches` the writes in a second
Python thread (0.6 of the rate, 1.7 times the CPU), and by POSIX AIO, without the interpreter (0.9 to 1.0, 1.2 to 1.5
times); for the fetches sendfile and mappings of the segments, at the same CPU, and answers sent by a second thread.

Beside a run of the tests, with a core less for everybody, 3 rounds of 2 s; --no-touch in a run of its own:

    batches     439 MB/s 2.20 ms/MB     385 MB/s 4.25 ms/MB     592 MB/s 1.68 ms/MB
    --no-touch  289 MB/s 2.57 ms/MB     242 MB/s 5.06 ms/MB
    records   30885 /s   31.4 us/op   28016 /s   43.9 us/op   59659 /s   15.8 us/op
    fetch      2254 MB/s 0.40 ms/MB    1587 MB/s 0.43 ms/MB    1370 MB/s 0.70 ms/MB
    fetch-8    2806 MB/s 0.34 ms/MB    3094 MB/s 0.32 ms/MB    1764 MB/s 0.72 ms/MB
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from commit import Server, build, kafka, kfake, need, ours
from parked_fetch import CREATE_TOPICS, PRODUCE, connect, frame, receive

from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch

PARTITIONS, FETCHES = 4, 64
BATCH_RECORDS, RECORD_BYTES, BATCHES_A_FETCH = 100, 1000, 10
FETCHED_TOPIC = "fetched"
DELETE_TOPICS = 20
PATIENCE_S = 20.0
FASTEST_MB_S, MOST_TOUCHED_S = 500, 2.0
_TOUCHED = bytes(1 << 17)


class Case(NamedTuple):
    """What the load generator is told, and whether MB or operations a second are what counts."""

    title: str
    options: dict[str, str | int]
    in_mb: bool


_PRODUCERS: dict[str, str | int] = {"mode": "produce", "conns": 8, "window": 5}
_CONSUMERS: dict[str, str | int] = {"mode": "consume", "window": 1, "topic": FETCHED_TOPIC}
CASES = {
    "batches": Case(
        "Produce of 100 x 1 kB", _PRODUCERS | {"batch": BATCH_RECORDS, "size": RECORD_BYTES}, in_mb=True
    ),
    "records": Case("Produce of 1 x 100 B", _PRODUCERS | {"batch": 1, "size": 100}, in_mb=False),
    "fetch": Case("Fetch of 1 MiB, 1 connection", _CONSUMERS | {"conns": 1}, in_mb=True),
    "fetch-8": Case("Fetch of 1 MiB, 8 connections", _CONSUMERS | {"conns": 8}, in_mb=True),
}


class Figures(NamedTuple):
    """What one run of the load generator measured; CPU is ms an MB, or us an operation."""

    rate: float
    p50_ms: float
    p99_ms: float
    cpu: float


def drive(binary: Path, server: Server, case: Case, topic: str, seconds: float) -> Figures:
    """Load one server for some time."""
    common = {
        "addr": f"127.0.0.1:{server.port}",
        "pid": server.pid,
        "parts": PARTITIONS,
        "dur": f"{seconds}s",
        "topic": topic,
        "step": BATCHES_A_FETCH * BATCH_RECORDS,
        "steps": FETCHES,
    }
    arguments = [f"-{name}={value}" for name, value in (common | case.options).items()]
    done = subprocess.run([binary, *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{server.name}: loadgen failed: {done.stdout}{done.stderr}")
    found = json.loads(done.stdout)
    if found["errs"] or found["refused_samples"]:
        sys.exit(f"{server.name}: not every request was answered without an error: {found}")
    if case.in_mb:
        return Figures(found["MB_s"], found["p50_ms"], found["p99_ms"], 1000 * found["cores"] / found["MB_s"])
    return Figures(found["ops_s"], found["p50_ms"], found["p99_ms"], found["cpu_us_per_op"])


def create_topic(server: Server, name: str) -> None:
    """Create it and have each of its partitions take a record, so that none waits for a leader any more."""
    topic = messages.CreateTopicsRequest.CreatableTopic(name, PARTITIONS, 1, [], [])
    with connect(server.port) as asking:
        asking.sendall(frame(CREATE_TOPICS, 4, messages.CreateTopicsRequest([topic], 10_000)))
        answer, _ = messages.decode(messages.CreateTopicsResponse, receive(asking)[4:], 4)
        if error := answer.topics[0].error_code:
            sys.exit(f"{server.name}: topic {name} was not created: error code {error}")
        deadline = time.monotonic() + PATIENCE_S
        for partition in range(PARTITIONS):
            while error := produce(asking, name, partition, encode_batch([(None, b"", (), now_ms())])):
                if time.monotonic() > deadline:
                    sys.exit(f"{server.name}: {name}-{partition} takes no records: error code {error}")
                time.sleep(0.02)


def delete_topic(server: Server, name: str) -> None:
    with connect(server.port) as asking:
        request = messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
        asking.sendall(frame(DELETE_TOPICS, 3, request))
        answer, _ = messages.decode(messages.DeleteTopicsResponse, receive(asking)[4:], 3)
    if error := answer.responses[0].error_code:
        sys.exit(f"{server.name}: topic {name} was not deleted: error code {error}")


def fill(server: Server) -> None:
    """Make the log that is fetched."""
    create_topic(server, FETCHED_TOPIC)
    records = encode_batch(
        [(f"k{n}".encode(), b"x" * RECORD_BYTES, (), now_ms()) for n in range(BATCH_RECORDS)]
    )
    with connect(server.port) as producing:
        for number in range(PARTITIONS * FETCHES * BATCHES_A_FETCH):
            if error := produce(producing, FETCHED_TOPIC, number % PARTITIONS, records):
                sys.exit(f"{server.name}: the log to be fetched was not made: error code {error}")


def produce(producing: socket.socket, topic: str, partition: int, records: bytes | bytearray) -> int:
    """Have one batch appended; return the error code."""
    request = messages.ProduceRequest
    data = [
        request.TopicProduceData(topic, bytes(16), [request.PartitionProduceData(partition, bytes(records))])
    ]
    producing.sendall(frame(PRODUCE, 8, request(acks=1, timeout_ms=10_000, topic_data=data)))
    answer, _ = messages.decode(messages.ProduceResponse, receive(producing)[4:], 8)
    error: int = answer.responses[0].partition_responses[0].error_code
    return error


def touch_memory(folder: Path, size: int) -> None:
    """Have the machine own the memory that the page cache takes next: write as much, and delete it."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(size // len(_TOUCHED)):
            file.write(_TOUCHED)


def now_ms() -> int:
    return int(time.time() * 1000)


class Rounds:
    """Measures servers in turn."""

    def __init__(self, binary: Path, servers: list[Server], touched: Path | None = None) -> None:
        self._binary = binary
        self._servers = servers
        self._touched = touched
        self._topics = 0

    def once(self, server: Server, case: Case, seconds: float) -> Figures:
        """One server, once."""
        if case.options["mode"] == "consume":
            return drive(self._binary, server, case, FETCHED_TOPIC, seconds)
        self._topics += 1
        topic = f"produced-{self._topics}"
        create_topic(server, topic)
        if self._touched is not None and case.in_mb:
            touch_memory(self._touched, int(min(seconds, MOST_TOUCHED_S) * FASTEST_MB_S * 1e6))
        figures = drive(self._binary, server, case, topic, seconds)
        delete_topic(server, topic)
        return figures

    def measure(self, case: Case, options: argparse.Namespace) -> None:
        """All rounds of one case, then the table."""
        print(f"{case.title}; {options.rounds} rounds of {options.seconds:g} s", flush=True)
        for server in self._servers:
            self.once(server, case, options.warm_up)
        rounds: dict[str, list[Figures]] = {server.name: [] for server in self._servers}
        for _ in range(options.rounds):
            for server in self._servers:
                rounds[server.name].append(self.once(server, case, options.seconds))
        tell(case, rounds)


def tell(case: Case, rounds: dict[str, list[Figures]]) -> None:
    """Print the medians and what they are to each other."""
    rate, cpu = ("MB/s", "CPU ms/MB") if case.in_mb else ("ops/s", "CPU us/op")
    print(f"{'':12}{rate:>9}{'p50 ms':>9}{'p99 ms':>9}{cpu:>11}   {rate} of each round")
    median = {
        name: Figures(*map(statistics.median, zip(*runs, strict=True))) for name, runs in rounds.items()
    }
    for name, found in median.items():
        each = " ".join(f"{run.rate:.0f}" for run in rounds[name])
        print(f"{name:>12}{found.rate:9.0f}{found.p50_ms:9.2f}{found.p99_ms:9.2f}{found.cpu:11.2f}   {each}")
    own = median.pop("ours")
    for name, other in median.items():
        print(
            f"ours / {name}: {own.rate / other.rate:.2f} times the rate, {own.cpu / other.cpu:.2f} times the CPU"
        )
    print(flush=True)


def parse() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kafka", action="store_true", help="beside Apache Kafka (java, mvn)")
    parser.add_argument("--kfake", action="store_true", help="beside franz-go's kfake, in memory")
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measurement")
    parser.add_argument(
        "--warm-up", type=float, default=3.0, help="seconds before the first round of a case, each server"
    )
    parser.add_argument("--no-touch", dest="touch", action="store_false", help="memory as it happens to be")
    return parser.parse_args()


def main() -> None:
    options = parse()
    need("go", "golang")
    if options.kafka:
        need("java", "openjdk-17-jdk-headless")
        need("mvn", "maven")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-")))
        binary = build("loadgen", folder)
        servers = [stack.enter_context(ours(folder / "ours"))]
        if options.kafka:
            servers.append(stack.enter_context(kafka(folder / "kafka")))
        if options.kfake:
            servers.append(stack.enter_context(kfake(build("kfake", folder))))
        rounds = Rounds(binary, servers, folder if options.touch else None)
        if any(CASES[name].options["mode"] == "consume" for name in options.case):
            for server in servers:
                fill(server)
        for name in options.case:
            rounds.measure(CASES[name], options)


if __name__ == "__main__":
    main()
