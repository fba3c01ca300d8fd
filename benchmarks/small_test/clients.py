"""The small test with each client: it is run with a topic and a group of one name, and its time returned, in seconds.

Clients in Python run here. Those in other languages are programs that read lines of address, name, partitions and
protocol, and write a line with the time of each test: so the start of a JVM is in no figure.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka

from benchmarks.servers import need

RECORDS = 10
HERE = Path(__file__).resolve().parent
CACHE = Path.home() / ".cache/kafka-offsets"
JARS = Path(os.environ.get("KAFKA_OFFSETS_JARS", CACHE / "jars"))
MODULES = Path(os.environ.get("KAFKA_OFFSETS_NODE_MODULES", CACHE / "node_modules"))

Client = Callable[[str, str, int, str], float]
"""Address, name, partitions, protocol of the group."""


def with_confluent_kafka(address: str, name: str, partitions: int, protocol: str) -> float:
    """Run the test with confluent-kafka."""
    began = time.perf_counter()
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
    admin.create_topics([confluent_kafka.admin.NewTopic(name, partitions, 1)])[name].result(30)
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    for number in range(RECORDS):
        producer.produce(name, str(number).encode(), partition=0)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": address, "group.id": name, "group.protocol": protocol}
    consumer = confluent_kafka.Consumer(
        settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([name])
    read = consumer.consume(RECORDS, timeout=30)
    assert len(read) == RECORDS, f"{len(read)} records"
    consumer.commit(asynchronous=False)
    consumer.close()
    return time.perf_counter() - began


def with_kafka_python(address: str, name: str, partitions: int, _protocol: str) -> float:
    """Run the test with kafka-python."""
    began = time.perf_counter()
    admin = kafka.KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1}})
    admin.close()
    with kafka.KafkaProducer(bootstrap_servers=address) as producer:
        for number in range(RECORDS):
            producer.send(name, str(number).encode(), partition=0)
        producer.flush(30)
    consumer = kafka.KafkaConsumer(
        name,
        bootstrap_servers=address,
        group_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    for _ in range(RECORDS):
        next(consumer)
    consumer.commit()
    consumer.close()
    return time.perf_counter() - began


def with_aiokafka(address: str, name: str, partitions: int, _protocol: str) -> float:
    """Run the test with aiokafka, in a loop that it does not start."""

    async def run() -> float:
        began = time.perf_counter()
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=address)
        await admin.start()
        await admin.create_topics([aiokafka.admin.NewTopic(name, partitions, 1)])
        await admin.close()
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=address) as producer:
            sent = [await producer.send(name, str(number).encode(), partition=0) for number in range(RECORDS)]
            await asyncio.gather(*sent)
        consumer = aiokafka.AIOKafkaConsumer(
            name,
            bootstrap_servers=address,
            group_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with consumer:
            for _ in range(RECORDS):
                await consumer.getone()
            await consumer.commit()
        return time.perf_counter() - began

    return asyncio.run(run())


@contextmanager
def program(command: list[str | Path]) -> Iterator[Client]:
    """Run a program until the end of the block; what it yields runs a test there."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    requests, answers = process.stdin, process.stdout

    def run(address: str, name: str, partitions: int, protocol: str) -> float:
        print(address, name, partitions, protocol, file=requests, flush=True)
        return float(answers.readline())

    try:
        yield run
    finally:
        requests.close()
        process.wait()


def java(_folder: Path) -> list[str | Path]:
    """Return the command of the program with Java's client."""
    need("java", "openjdk-17-jdk-headless")
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", HERE / "SmallTest.java"]


def go(folder: Path) -> list[str | Path]:
    """Build the program with franz-go in a folder; return its command."""
    need("go", "golang")
    binary = folder / "small_test"
    subprocess.run(["go", "build", "-o", binary, "."], check=True, cwd=HERE / "go")
    return [binary]


def node(_folder: Path) -> list[str | Path]:
    """Return the command of the program with KafkaJS."""
    need("node", "nodejs")
    return ["env", f"NODE_PATH={MODULES}", "node", HERE / "small_test.js"]


CLASSIC, BOTH = ("classic",), ("classic", "consumer")
IN_PYTHON = {
    "kafka-python": (with_kafka_python, CLASSIC),
    "confluent-kafka": (with_confluent_kafka, BOTH),
    "aiokafka": (with_aiokafka, CLASSIC),
}
PROGRAMS = {"Java": (java, BOTH), "franz-go": (go, BOTH), "KafkaJS": (node, CLASSIC)}


def clients(
    stack: ExitStack, folder: Path, wanted: list[str] | None
) -> dict[str, tuple[Client, tuple[str, ...]]]:
    """Return the clients, each with the protocols that it has; the programs end with the stack.

    folder  where programs are built
    wanted  names of clients, None for all
    """
    found: dict[str, tuple[Client, tuple[str, ...]]] = {
        name: each for name, each in IN_PYTHON.items() if not wanted or name in wanted
    }
    for name, (command, protocols) in PROGRAMS.items():
        if not wanted or name in wanted:
            found[name] = stack.enter_context(program(command(folder))), protocols
    return found
