"""How long a small test takes: a new topic and group, ten records, a commit.

    python -m benchmarks.small_test [--rounds 12] [--partitions 1 3 10] [--client Java] [--with-kafka]

The topic has some partitions, and all records are in one of them. A consumer of the new group reads and commits them,
and closes. Each round runs the test once with each client, number of partitions, protocol of groups and broker, in
turn; the table has the medians in milliseconds. Ours are started before; a broker of the test takes 1 to 2 ms more.

    ours     the broker as a test gets it
    whole    with fetch.first.wait.ms=0: a Fetch of empty partitions waits as long as it asks for (--with-whole)
    kafka    Apache Kafka, running (--with-kafka)
    ratio    that of ours to the last column, the median of the rounds

The clients need Java, Go, Node.js, and what `make tools` loads. docs/performance.md has the figures.
"""

import argparse
import itertools
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.servers import kafka
from benchmarks.small_test.clients import clients
from kafka_offsets.testing import Broker


def brokers(
    stack: ExitStack, folder: Path, *, with_whole: bool, with_kafka: bool
) -> Iterator[tuple[str, str]]:
    """Start the brokers, until the stack closes; yield their names and addresses."""
    yield "ours", stack.enter_context(Broker()).bootstrap_servers
    if with_whole:
        yield "whole", stack.enter_context(Broker({"fetch.first.wait.ms": 0})).bootstrap_servers
    if with_kafka:
        lines = "group.initial.rebalance.delay.ms=0\noffsets.topic.replication.factor=1\n"
        yield "kafka", f"127.0.0.1:{stack.enter_context(kafka(folder / 'kafka', lines)).port}"


def main() -> None:
    """Print the medians, as a table of docs/performance.md."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--client", action="append", help="this one alone; may be repeated")
    parser.add_argument("--with-whole", action="store_true", help="beside ours without short first waits")
    parser.add_argument("--with-kafka", action="store_true", help="beside Apache Kafka")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = list(brokers(stack, folder, with_whole=options.with_whole, with_kafka=options.with_kafka))
        tests = [
            (name, protocol, partitions, run)
            for name, (run, protocols) in clients(stack, folder, options.client).items()
            for protocol in protocols
            for partitions in options.partitions
        ]
        times: dict[tuple[str, ...], list[float]] = {}
        # The first round warms up.
        for number, (name, protocol, partitions, run) in itertools.product(range(-1, options.rounds), tests):
            for broker, address in running:
                took = run(address, f"{name}-{protocol}-{partitions}-{number}", partitions, protocol)
                if number >= 0:
                    times.setdefault((name, protocol, str(partitions), broker), []).append(took)
    columns = [name for name, _ in running]
    print(f"| client | group | partitions | {' | '.join(columns)} | ratio |")
    print(f"|---|---|--:|{'--:|' * len(columns)}--:|")
    for row in dict.fromkeys(key[:3] for key in times):
        medians = (f"{1000 * statistics.median(times[*row, broker]):.0f}" for broker in columns)
        ratios = map(lambda ours, theirs: ours / theirs, times[*row, "ours"], times[*row, columns[-1]])
        print(f"| {' | '.join(row)} | {' | '.join(medians)} | {statistics.median(ratios):.2f} |")


if __name__ == "__main__":
    main()
