"""How long a small test takes with confluent-kafka: a new topic and group, ten records, a commit.

    python -m benchmarks.small_test [--rounds 12] [--partitions 3] [--with-kafka]

The topic has some partitions, and all records are in one of them. A consumer of the new group reads and commits them,
and closes. Each round runs the test once with each broker and each protocol of groups, in turn; the table has the
medians in seconds. Ours are started before; a broker of the test takes 1 to 2 ms more.

    ours     the broker as a test gets it
    whole    the same with fetch.first.wait.ms=0: a Fetch of empty partitions waits as long as it asks for
    kafka    Apache Kafka, running

CPython 3.11, confluent-kafka 2.16, Kafka 4.4.0, two cores of a quiet virtual machine, 2026-11-28:

                  ours   whole   kafka
    classic       0.17    0.42    0.79
    consumer      0.12    0.62    0.77
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.servers import kafka
from kafka_offsets.testing import Broker

RECORDS = 10
PROTOCOLS = ("classic", "consumer")


def small_test(address: str, name: str, partitions: int, protocol: str) -> float:
    """Run the test with a topic and a group of this name; return its time in seconds."""
    began = time.perf_counter()
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": address})
    for number in range(RECORDS):
        producer.produce(name, str(number).encode(), partition=0)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": address, "group.id": name, "group.protocol": protocol}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([name])
    read = consumer.consume(RECORDS, timeout=30)
    assert len(read) == RECORDS, f"{len(read)} records"
    consumer.commit(asynchronous=False)
    consumer.close()
    return time.perf_counter() - began


def brokers(stack: ExitStack, *, with_kafka: bool) -> Iterator[tuple[str, str]]:
    """Start the brokers, until the stack closes; yield their names and addresses."""
    yield "ours", stack.enter_context(Broker()).bootstrap_servers
    yield "whole", stack.enter_context(Broker({"fetch.first.wait.ms": 0})).bootstrap_servers
    if with_kafka:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        lines = "group.initial.rebalance.delay.ms=0\noffsets.topic.replication.factor=1\n"
        yield "kafka", f"127.0.0.1:{stack.enter_context(kafka(Path(folder), lines)).port}"


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--with-kafka", action="store_true", help="beside Apache Kafka: needs Java")
    options = parser.parse_args()
    with ExitStack() as stack:
        running = list(brokers(stack, with_kafka=options.with_kafka))
        times: dict[tuple[str, str], list[float]] = {}
        for number in range(-1, options.rounds):
            for protocol in PROTOCOLS:
                for name, address in running:
                    topic = f"small-{protocol}-{number}"
                    took = small_test(address, topic, options.partitions, protocol)
                    if number >= 0:  # the first round warms up
                        times.setdefault((protocol, name), []).append(took)
        print(f"{'':10}" + "".join(f"{name:>8}" for name, _ in running))
        for protocol in PROTOCOLS:
            medians = (statistics.median(times[protocol, name]) for name, _ in running)
            print(f"{protocol:10}" + "".join(f"{median:8.2f}" for median in medians))


if __name__ == "__main__":
    main()
