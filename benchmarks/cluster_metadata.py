"""What a change of the metadata takes: held by the parent of `serve --brokers 3`, in ZooKeeper, and in Apache Kafka.

    python benchmarks/cluster_metadata.py [--of brokers zookeeper kafka] [--rounds 9]

Clusters of three processes run at the same time, and do each of these in turn, A B C A B C …:

    create 1, 10, 100    CreateTopics of a topic with so many partitions, three replicas each, until it is answered
    known 1, 10, 100     from then on, until each broker names a leader of each partition
    move                 AlterPartitionReassignments of an empty partition with one replica to another broker, until
                         that one leads it alone: the ISR grows and shrinks

    change               in this process: a controller with the file of `--brokers` makes another replica lead one of
                         --partitions partitions, of one topic and of a hundred; 200 times

Medians of the rounds, and the least. Apache Kafka has its metadata in KRaft, with each broker also a controller.
ZooKeeper is one server; it syncs each transaction to the disk. Needs java and mvn.

CPython 3.11.7, ZooKeeper 3.9.3, two cores of a shared x86-64 machine that was busy with other work (load 16 to 31), so
that the least says more than the median; 7 rounds, 2026-11-23:

    ms                       brokers           zookeeper
    create 1             82.7 (17.0)        222.7 (86.6)
    known 1              76.6 (12.2)        165.0 (74.3)
    create 10           130.6 (30.6)       425.8 (142.9)
    known 10            108.2 (18.7)        270.2 (81.9)
    create 100         441.7 (135.9)      1233.3 (381.0)
    known 100            78.3 (46.3)       415.3 (109.7)
    move                143.3 (72.5)       359.2 (151.7)

`--of` without a name measures changes alone. On the same machine (load 8), 10,000 partitions, milliseconds:

                        one topic        a hundred topics
    whole file        80.1 (39.3)              11.7 (2.6)     before changes were appended
    journal            5.0 (0.4)                4.0 (0.3)
"""

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from failover import call, until_true

from kafka_offsets.broker.nodes.metadata_file import MetadataFile
from kafka_offsets.client.connection import Address, parse_address
from kafka_offsets.metadata.controller import Controller, PlacedTopic
from kafka_offsets.metadata.image import TopicPartition
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import DiskFiles
from tests.processes import campaign
from tests.processes.cluster_processes import NODES, ClusterProcesses

SIZES = (1, 10, 100)
TIMEOUT_MS = 30_000


class Subject:
    """A cluster, and what its operations have taken, in milliseconds."""

    def __init__(self, processes: ClusterProcesses) -> None:
        self._processes = processes
        self.took: dict[str, list[float]] = {}

    def round(self, number: int) -> None:
        """Do each of the operations once."""
        for size in SIZES:
            name = f"topic-{number}-{size}"
            began = time.perf_counter()
            self._create(name, size, 3)
            answered = time.perf_counter()
            until_true(lambda name=name, size=size: self._is_known(name, size), f"{name} is known")
            self._add(f"create {size}", answered - began)
            self._add(f"known {size}", time.perf_counter() - answered)
        name = f"moved-{number}"
        self._create(name, 1, 1)
        until_true(lambda: self._is_known(name, 1), f"{name} is known")
        leader = self._partitions(self._address(1), name)[0].leader_id
        target = next(node for node in NODES if node != leader)
        began = time.perf_counter()
        self._move(name, target)
        until_true(lambda: self._is_at(name, target), f"{name} is moved")
        self._add("move", time.perf_counter() - began)

    def _add(self, what: str, seconds: float) -> None:
        self.took.setdefault(what, []).append(1000 * seconds)

    def _address(self, node: int) -> Address:
        return parse_address(self._processes.address(node))

    def _create(self, name: str, partitions: int, replicas: int) -> None:
        made = messages.CreateTopicsRequest
        request = made([made.CreatableTopic(name, partitions, replicas)], TIMEOUT_MS)
        (answer,) = call(self._address(1), request, 7).topics
        assert not answer.error_code, answer

    def _partitions(self, address: Address, name: str) -> Any:
        wanted = messages.MetadataRequest
        (topic,) = call(address, wanted([wanted.Topic(name=name)], False), 8).topics
        return topic.partitions

    def _is_known(self, name: str, size: int) -> bool:
        for node in NODES:
            partitions = self._partitions(self._address(node), name)
            if len(partitions) < size or any(each.leader_id < 0 for each in partitions):
                return False
        return True

    def _move(self, name: str, target: int) -> None:
        made = messages.AlterPartitionReassignmentsRequest
        partition = made.ReassignablePartition(0, [target])
        request = made(timeout_ms=TIMEOUT_MS, topics=[made.ReassignableTopic(name, [partition])])
        answer = call(self._address(1), request, 0)
        assert not answer.error_code and not answer.responses[0].partitions[0].error_code, answer

    def _is_at(self, name: str, target: int) -> bool:
        (partition,) = self._partitions(self._address(target), name)
        return bool(partition.leader_id == target and partition.isr_nodes == [target])


def change_costs(folder: Path, partitions: int, topics: int) -> list[float]:
    """Return what changes take that a controller keeps in a file, in milliseconds."""
    store = MetadataFile(DiskFiles(folder))
    controller = Controller(store.load(), store=store)
    for node in NODES:
        controller.register(node, "127.0.0.1", 9092 + node)
    replicas = controller.image.place(partitions // topics, len(NODES))
    controller.create(
        PlacedTopic(f"t{number}", number.to_bytes(16), replicas, {}) for number in range(topics)
    )
    took = []
    for number in range(200):
        place = TopicPartition("t0", number % 50)
        state = controller.image.topics[place.topic].partitions[place.partition]
        following = state.replicas[(state.replicas.index(state.leader) + 1) % len(NODES)]
        began = time.perf_counter()
        controller.lead(place, following)
        took.append(1000 * (time.perf_counter() - began))
    store.close()
    return took


def main() -> None:
    """Print a table of all clusters."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--of", nargs="*", default=["brokers", "zookeeper", "kafka"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--port", type=int, default=28300, help="the first; each cluster takes a hundred")
    options = parser.parse_args()
    with ExitStack() as stack:
        subjects = {}
        for number, of in enumerate(options.of):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-"))
            processes = campaign.new_processes(of, Path(folder), options.port + 100 * number, links=None)
            stack.callback(processes.close)
            processes.start_all()
            subjects[of] = Subject(processes)
        for number in range(options.rounds + 1):
            for subject in subjects.values():
                subject.round(number)
                if not number:  # connections, codecs, and the JVM's compiler
                    subject.took.clear()
    for topics in (1, 100):
        with tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-") as folder:
            took = change_costs(Path(folder), options.partitions, topics)
        figures = f"{statistics.median(took):.2f} ({min(took):.2f}) ms"
        print(f"change: {figures} with {options.partitions} partitions of {topics} topics")
    if not subjects:
        return
    print(f"{'ms':12}" + "".join(f"{of:>20}" for of in subjects))
    for what in next(iter(subjects.values())).took:
        cells = (subject.took[what] for subject in subjects.values())
        texts = (f"{statistics.median(each):.1f} ({min(each):.1f})" for each in cells)
        print(f"{what:12}" + "".join(f"{text:>20}" for text in texts))


if __name__ == "__main__":
    main()
