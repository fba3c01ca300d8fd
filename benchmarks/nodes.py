"""Several brokers in processes of their own: what a commit, or a Produce, costs them beside one broker.

    python benchmarks/nodes.py commits [--kafka] [--zookeeper]
                                                        commits a second and CPU of one broker, and of two
    python benchmarks/nodes.py produce [--kafka]        megabytes a second and CPU of the same

`commits`: OffsetCommit of one partition, version 8, for 1000 groups. A process for each broker sends to it over four
connections, 50 requests at a time. One broker, two brokers without replicas (offsets.topic.replication.factor=1), two
with two replicas, and two with two replicas in one process and in memory (`testing.Cluster`) are measured in turn,
A B C D A B …; the table has the medians of the rounds. CPU is that of all brokers together. With --kafka, one broker
of Apache Kafka takes part (peers/kafka.sh). With --zookeeper, so does one with offset.storage=zookeeper, whose server
(peers/zookeeper.sh, one node, which syncs each transaction to the disk) is not counted.

`produce`: Produce with acks=-1 of 100 records of 1 kB, for 4 partitions, in the same way.

CPython 3.11.7, two cores of a shared x86-64 machine that was busy with other work, so that only the CPU compares.
Each table in one run, 5 rounds of 1 s, load 7 to 12, 2026-11-23; CPU of one commit, and of one Produce of 100 kB:

                                 commits/s   CPU us         MB/s   CPU us
    one broker                       60433     14.7          171    185.1
    two brokers, one replica         24932     26.9          253    238.6
    two brokers, two replicas        12700     53.3           81    683.8
    Kafka, one broker                10975    105.0          329    276.3

The same day, 5 rounds of 1 s with --kafka, load 15 to 17:

                                 commits/s   CPU us
    one broker                       12023     28.0
    two brokers, one replica          7964     39.3
    two brokers, two replicas         4707     81.6
    Cluster(brokers=2)                1852     74.5
    Kafka, one broker                  604    525.4     its JVM had hardly warmed up

The same day, 5 rounds of 1 s with --zookeeper, load 11 to 31, which makes the rates noise:

                                            CPU us
    one broker                                26.3
    two brokers, one replica                  38.5
    two brokers, two replicas                 72.5
    Cluster(brokers=2)                        83.1
    ZooKeeper                                215.4
"""

import argparse
import re
import selectors
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from servers import PEERS, Server, free_port, kafka

from kafka_offsets.client.connection import Connection
from kafka_offsets.client.protocol import decode_response, encode_request
from kafka_offsets.errors import ConnectionLostError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch

GROUPS = [f"group-{number}" for number in range(1000)]
CONNECTIONS, BLOCK = 4, 50
VERSION = 8
PRODUCED, PARTITIONS, BATCH_MB = "produced", 4, 0.1
READY = "listening on "
PROCESS = re.compile(r"broker (\d+) is process (\d+)$")

Address = tuple[str, int]


class Brokers:
    """Running brokers: their addresses by id, and the processes of each."""

    def __init__(self, process: subprocess.Popen[str], count: int | None) -> None:
        self._process = process
        self.pids: dict[int, int] = {} if count else {1: process.pid}
        self.addresses: dict[int, Address] = {}
        self._is_ready = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        if not self._is_ready.wait(60) or not self.addresses:
            sys.exit("the brokers did not start")

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if (found := PROCESS.search(line)) is not None:
                self.pids[int(found[1])] = int(found[2])
            elif READY in line:
                texts = line.rsplit(READY, 1)[1].strip().split(",")
                pairs = (text.rsplit(":", 1) for text in texts)
                self.addresses = {number: (host, int(port)) for number, (host, port) in enumerate(pairs, 1)}
                self._is_ready.set()
        self._is_ready.set()

    @classmethod
    def of_kafka(cls, server: Server) -> "Brokers":
        """One broker of Kafka, which runs."""
        made = cls.__new__(cls)
        made.pids, made.addresses = {1: server.pid}, {1: ("127.0.0.1", server.port)}
        return made

    def cpu_ns(self) -> int:
        """CPU time of all brokers so far."""
        total = 0
        for pid in self.pids.values():
            for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                total += int(file.read_text().split()[0])
        return total


CLUSTER = """
import signal, sys
from kafka_offsets.testing import Cluster
with Cluster(brokers=2) as cluster:
    print("listening on " + cluster.bootstrap_servers, file=sys.stderr, flush=True)
    signal.pause()
"""


@contextmanager
def zookeeper(folder: Path) -> Iterator[str]:
    """Apache ZooKeeper, started and stopped by peers/zookeeper.sh: its address."""
    script, port = str(PEERS / "zookeeper.sh"), free_port()
    if subprocess.run(["bash", script, "start", str(port), str(folder)], check=False).returncode:
        sys.exit(f"ZooKeeper did not start; see {folder}")
    try:
        yield f"127.0.0.1:{port}"
    finally:
        subprocess.run(["bash", script, "stop", str(folder)], check=False)


@contextmanager
def serving(count: int | None, *settings: str, in_one_process: bool = False) -> Iterator[Brokers]:
    """Run a broker, or a cluster of some, in a new directory; or a `testing.Cluster` of two."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "kafka_offsets.cli",
            "serve",
            "--port",
            "0",
            "--data-dir",
            f"{folder}/data",
        ]
        command += ["--brokers", str(count)] if count else []
        for setting in settings:
            command += ["--set", setting]
        command = [sys.executable, "-c", CLUSTER] if in_one_process else command
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            yield Brokers(process, count)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def create_topic(address: Address, replicas: int, name: str = "t", partitions: int = 1) -> None:
    connection = Connection(*address)
    topic = messages.CreateTopicsRequest.CreatableTopic(name, partitions, replicas)
    (answer,) = connection.call(messages.CreateTopicsRequest([topic], 10_000), 7).topics
    if answer.error_code:
        sys.exit(f"the topic cannot be created: {answer}")
    connection.close()


def coordinators(brokers: Brokers, groups: list[str]) -> dict[str, int]:
    """Ask any broker that runs for the coordinators of groups; wait until it knows all of them."""
    while True:
        for address in brokers.addresses.values():
            try:
                connection = Connection(*address)
                found = connection.call(
                    messages.FindCoordinatorRequest(coordinator_keys=groups), 4
                ).coordinators
                connection.close()
            except ConnectionLostError:
                continue
            if not any(each.error_code for each in found):
                return {each.key: each.node_id for each in found}


def commit_request(group: str, offset: int) -> messages.OffsetCommitRequest:
    made = messages.OffsetCommitRequest
    return made(group, topics=[made.Topic("t", partitions=[made.Partition(0, offset)])])


# -- commits


class Work(NamedTuple):
    """What is sent: requests for names, which are groups or partitions."""

    names: list[str]
    request: Callable[[str], messages.MessageValue]
    version: int
    block: int
    error: Callable[[Any], int]


def produce_request(partition: str) -> messages.ProduceRequest:
    made = messages.ProduceRequest
    records = bytes(encode_batch([(None, bytes(1000), (), 0)] * 100))
    data = [made.PartitionProduceData(int(partition), records)]
    return made(None, -1, 30_000, [made.TopicProduceData(PRODUCED, partition_data=data)])


COMMITS = Work(
    GROUPS,
    lambda group: commit_request(group, 1),
    VERSION,
    BLOCK,
    lambda answer: answer.topics[0].partitions[0].error_code,
)
PRODUCE = Work(
    [str(partition) for partition in range(PARTITIONS)],
    produce_request,
    7,
    1,
    lambda answer: answer.responses[0].partition_responses[0].error_code,
)
WORK = {"commits": COMMITS, "produce": PRODUCE}


def load(what: str, address: Address, names: list[str], seconds: float) -> int:
    """Send requests for some time; return how many were answered. Some answers are checked."""
    work = WORK[what]
    kind = type(work.request(names[0]))
    frames = [encode_request(work.request(name), work.version, 7, "load") for name in names]
    size = work.block
    blocks = [b"".join(frames[first : first + size]) for first in range(0, len(frames) - size + 1, size)]
    answered = sent = 0
    ending = time.perf_counter() + seconds
    with selectors.DefaultSelector() as selector, ExitStack() as open_ones:
        for _ in range(CONNECTIONS):
            connection = open_ones.enter_context(socket.create_connection(address))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(blocks[sent % len(blocks)])
            sent += 1
            selector.register(connection, selectors.EVENT_READ, bytearray())
        while selector.get_map():
            for key, _ in selector.select():
                connection, buffer = key.fileobj, key.data
                assert isinstance(connection, socket.socket)
                buffer += connection.recv(1 << 16)
                (size,) = struct.unpack_from(">i", buffer)
                if len(buffer) < work.block * (size + 4):  # all answers have the same size
                    continue
                answer = decode_response(kind, work.version, bytes(buffer[4 : 4 + size]), 7)
                assert not work.error(answer), answer
                buffer.clear()
                answered += work.block
                if time.perf_counter() < ending:
                    connection.sendall(blocks[sent % len(blocks)])
                    sent += 1
                else:
                    selector.unregister(connection)
    return answered


def measure(
    what: str, brokers: Brokers, by_broker: dict[int, list[str]], seconds: float
) -> tuple[float, float]:
    """Load all brokers at once; return requests a second, and microseconds of CPU for each."""
    begin, cpu = time.perf_counter(), brokers.cpu_ns()
    with get_context("fork").Pool(len(by_broker)) as pool:
        jobs = [(what, brokers.addresses[each], names, seconds) for each, names in by_broker.items()]
        count = sum(pool.starmap(load, jobs, chunksize=1))
    return count / (time.perf_counter() - begin), (brokers.cpu_ns() - cpu) / 1000 / count


def leaders(brokers: Brokers, replicas: int) -> dict[str, int]:
    """Create the topic for records, and return the leader of each partition."""
    address = brokers.addresses[1]
    create_topic(address, replicas, PRODUCED, PARTITIONS)
    while True:
        connection = Connection(*address)
        asked = messages.MetadataRequest([messages.MetadataRequest.Topic(name=PRODUCED)], False)
        (topic,) = connection.call(asked, 8).topics
        connection.close()
        if not topic.error_code and all(each.leader_id > 0 for each in topic.partitions):
            return {str(each.partition_index): each.leader_id for each in topic.partitions}


def until_accepted(brokers: Brokers, coordinator_of: dict[str, int]) -> None:
    """Commit for each group, again while its coordinator still loads."""
    for group, broker_id in coordinator_of.items():
        with Connection(*brokers.addresses[broker_id]) as connection:
            while connection.call(commit_request(group, 1), VERSION).topics[0].partitions[0].error_code:
                time.sleep(0.02)


def compare(what: str, options: argparse.Namespace) -> None:
    """Print the throughput and the cost of one broker, of two, and of others."""
    factor = "offsets.topic.replication.factor"
    kinds = {
        "one broker": (None, 1),
        "two brokers, one replica": (2, 1),
        "two brokers, two replicas": (2, 2),
    }
    with ExitStack() as stack:
        running = {}
        for name, (count, replicas) in kinds.items():
            running[name] = stack.enter_context(serving(count, f"{factor}={replicas}")), replicas
        running["Cluster(brokers=2)"] = stack.enter_context(serving(None, in_one_process=True)), 2
        if options.zookeeper:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            store = f"zookeeper.connect={stack.enter_context(zookeeper(Path(folder)))}"
            running["ZooKeeper"] = (
                stack.enter_context(serving(None, "offset.storage=zookeeper", store)),
                1,
            )
        if options.kafka:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            running["Kafka"] = Brokers.of_kafka(stack.enter_context(kafka(Path(folder)))), 1
        shares = {}
        for name, (brokers, replicas) in running.items():
            create_topic(brokers.addresses[1], replicas, "t", 1)
            places = coordinators(brokers, GROUPS) if what == "commits" else leaders(brokers, replicas)
            shares[name] = {
                each: [key for key, leader in places.items() if leader == each] for each in {*places.values()}
            }
            if what == "commits":
                until_accepted(brokers, places)
            measure(what, brokers, shares[name], 8 if name == "Kafka" else 1)  # until Java has compiled it
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in running}
        for _ in range(options.rounds):
            for name, (brokers, _) in running.items():
                found[name].append(measure(what, brokers, shares[name], options.seconds))
    print(f"{'':28}{'commits/s' if what == 'commits' else 'MB/s':>10}{'CPU us':>9}")
    for name, figures in found.items():
        rate, cpu = (statistics.median(each) for each in zip(*figures, strict=True))
        print(f"{name:28}{rate * (1 if what == 'commits' else BATCH_MB):10.0f}{cpu:9.1f}")


def main() -> None:
    """Measure one of the two."""
    parser = argparse.ArgumentParser(description="Several brokers in processes of their own.")
    parser.add_argument("what", nargs="?", choices=[*WORK], default="commits")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka takes part")
    parser.add_argument(
        "--zookeeper", action="store_true", help="so does a broker with its offsets in ZooKeeper"
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    compare(options.what, options)


if __name__ == "__main__":
    main()
