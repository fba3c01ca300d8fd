"""Records a second that `poll` returns: our consumer, kafka-python's and confluent-kafka's, in turn on one broker.

    python benchmarks/consumer_poll.py [--records 300000] [--bytes 100] [--rounds 5] [--codec none] [--kafka]

The broker, ours or with --kafka Apache Kafka, is a process of its own. Its topic has four partitions, and batches of
500 records without keys. In each round every consumer reads the whole topic once, without a group: time and CPU time of
this process, all its threads, from the first call of poll to the last record. Each call asks for at most 500 records.
The table has the medians; *ratio* is the median of the ratios of each round to kafka-python.

CPython 3.11.7, Kafka 4.3.1, kafka-python 3.0.12, confluent-kafka 2.16.1, two cores of a shared x86-64 machine with
other work (load 4 to 9), 2026-11-22, --records 200000 --rounds 5; records/s and CPU us each:

                          ours            kafka-python     confluent-kafka   ratio  of CPU
                    736,120  1.11       109,645  5.14       311,744  0.51     5.89    0.22
    --bytes 1000    355,512  2.26       109,662  7.52       244,955  1.12     3.04    0.30
    --codec lz4     939,002  1.03       193,600  4.63       328,722  0.54     4.86    0.23
    --kafka         446,834  1.10        96,132  4.94       313,297  0.50     3.37    0.22
"""

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition
from servers import kafka, ours

from kafka_offsets.client import Consumer
from kafka_offsets.client.connection import Connection
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import encode_batch

PARTITIONS, BATCH, MOST = 4, 500, 500
TOPIC = "polled"
NOT_READY = (3, 5, 6)
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER."""


class Figures(NamedTuple):
    """Of one consumer in one round."""

    records_s: float
    cpu_us: float


def read_ours(bootstrap: str, count: int) -> Figures:
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        for partition in range(PARTITIONS):
            consumer.subscribe(TOPIC, partition)
        return measure(lambda: len(consumer.poll(1000)), count)


def read_kafka_python(bootstrap: str, count: int) -> Figures:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    try:
        consumer.assign([PythonPartition(TOPIC, partition) for partition in range(PARTITIONS)])
        return measure(
            lambda: sum(map(len, consumer.poll(timeout_ms=1000, max_records=MOST).values())), count
        )
    finally:
        consumer.close()


def read_confluent(bootstrap: str, count: int) -> Figures:
    consumer = ConfluentConsumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        consumer.assign(
            [TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)]
        )

        def poll() -> int:
            found = consumer.consume(MOST, 1.0)
            assert not any(message.error() for message in found)
            return sum(message.value() is not None for message in found)

        return measure(poll, count)
    finally:
        consumer.close()


def measure(poll: Callable[[], int], count: int) -> Figures:
    """Poll until all records have come."""
    cpu, start = time.process_time(), time.perf_counter()
    left = count
    while left > 0:
        left -= poll()
    assert left == 0, f"{-left} records too many"
    seconds = time.perf_counter() - start
    return Figures(count / seconds, 1e6 * (time.process_time() - cpu) / count)


CONSUMERS = {"ours": read_ours, "kafka-python": read_kafka_python, "confluent-kafka": read_confluent}


def fill(port: int, count: int, size: int, codec: Compression) -> None:
    """Create the topic and produce the records."""
    made = messages.CreateTopicsRequest
    with Connection("127.0.0.1", port) as connection:
        created = connection.call(made([made.CreatableTopic(TOPIC, PARTITIONS, 1)], 10_000), 5)
        assert not created.topics[0].error_code
        value = (b"0123456789abcdef" * (size // 16 + 1))[:size]
        now_ms = int(time.time() * 1000)  # Kafka deletes what is older than its retention
        batch = bytes(encode_batch([(None, value, (), now_ms)] * BATCH, compression=codec))
        produce = messages.ProduceRequest
        for number in range(count // BATCH):
            partition = produce.PartitionProduceData(number % PARTITIONS, batch)
            request = produce(None, -1, 10_000, [produce.TopicProduceData(TOPIC, partition_data=[partition])])
            until = time.monotonic() + 20
            # Kafka makes the leaders after it has answered.
            while code := connection.call(request, 9).responses[0].partition_responses[0].error_code:
                assert code in NOT_READY and time.monotonic() < until, code
                time.sleep(0.05)


def show(rounds: list[dict[str, Figures]]) -> None:
    print(f"{'':>17}{'records/s':>12}{'CPU us each':>13}{'ratio':>8}{'of CPU':>8}")
    for name in CONSUMERS:
        rates = [each[name].records_s for each in rounds]
        cpus = [each[name].cpu_us for each in rounds]
        ratio = statistics.median(each[name].records_s / each["kafka-python"].records_s for each in rounds)
        cpu = statistics.median(each[name].cpu_us / each["kafka-python"].cpu_us for each in rounds)
        print(
            f"{name:>17}{statistics.median(rates):12,.0f}{statistics.median(cpus):13.2f}{ratio:8.2f}{cpu:8.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--codec", choices=[codec.name.lower() for codec in Compression], default="none")
    parser.add_argument("--kafka", action="store_true", help="on Apache Kafka instead of our broker")
    options = parser.parse_args()
    count = options.records // BATCH * BATCH
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        server = stack.enter_context((kafka if options.kafka else ours)(folder))
        fill(server.port, count, options.bytes, Compression[options.codec.upper()])
        bootstrap = f"127.0.0.1:{server.port}"
        rounds = []
        for number in range(options.rounds + 1):
            order = list(CONSUMERS)[number % len(CONSUMERS) :] + list(CONSUMERS)[: number % len(CONSUMERS)]
            found = {name: CONSUMERS[name](bootstrap, count) for name in order}
            if number:  # the first one compiles codecs and fills the page cache
                rounds.append(found)
    show(rounds)


if __name__ == "__main__":
    main()
