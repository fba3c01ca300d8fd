"""How long does a failover take, and how does that depend on the offsets that the next coordinator has to know?

    python benchmarks/failover.py [--of brokers zookeeper kafka] [--entries 1000 100000 1000000] [--rounds 3]
    python benchmarks/failover.py --beside 50000 [--of brokers] [--entries 100000]

Clusters of three processes, each in turn: `serve --brokers 3`, three brokers that find each other in a real ZooKeeper,
and Apache Kafka. The offsets topic has one partition, so that all committed offsets are at one coordinator. That one is
killed by SIGKILL. *moved* is the time until a survivor names another coordinator, *accepted* until that has accepted a
commit; medians of the rounds. Kafka and ZooKeeper notice a killed broker when its session is over (3 s, as set
here); the parent of `serve --brokers` sees its connection close, and so does the controller that was elected in
ZooKeeper, unless it is the one that was killed. Needs java and mvn.

With --beside the offsets topic has fifty partitions. Two of them, with the same replicas, are filled: one with
--entries offsets, one with the number of --beside, and both move at the same kill. The row *small* is the time until a
group of the second one commits, in the same rounds: were partitions loaded one after the other, it could be as long.

CPython 3.11.7, Kafka 4.3.1 on Java 17, ZooKeeper 3.9.3, two cores of a shared x86-64 machine that was busy with other
work (load 20 to 32), 2026-11-23; a run with 10000 and 100000 offsets, and one with 1000000:

               offsets   moved s  accepted s   all rounds
    brokers      10000      0.44        0.78   0.48 0.78 0.95
    brokers     100000      0.38        2.93   2.92 4.18 2.93
    zookeeper    10000      0.36        0.38   0.38 4.00 0.35
    zookeeper   100000      0.38        2.47   2.47 2.09 2.92
    kafka        10000      3.55        6.35   6.35 11.83 6.34
    kafka       100000      3.40       12.32   17.11 12.32 9.08
    brokers    1000000      0.17       12.95   13.96 3.39 12.95
    zookeeper  1000000      0.48       12.88   17.47 1.91 12.88
    kafka      1000000      2.92       13.50   22.04 13.50 10.73

Of two partitions (load 9 to 18), --beside 30000 --entries 500000:

    brokers     500000      0.21        2.61   3.25 0.98 3.65 1.96
      small      30000      0.32        0.91   0.79 0.89 0.92 1.10
"""

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from kafka_offsets import partition_for
from kafka_offsets.client import commits
from kafka_offsets.client.connection import Address, Connection, parse_address
from kafka_offsets.errors import ConnectionLostError, ErrorCode
from kafka_offsets.protocol import messages
from tests.processes import campaign
from tests.processes.cluster_processes import NODES, ClusterProcesses

TOPIC, PARTITIONS = "loaded", 100
SEVERAL_PARTITIONS = 50
OFFSETS_TOPIC = "__consumer_offsets"
DEADLINE_S, PAUSE_S = 300.0, 0.005


def call(address: Address, request: messages.MessageValue, version: int) -> Any:
    """Send one request on a connection of its own."""
    with Connection(*address, 10.0) as connection:
        return connection.call(request, version)


def until_true(condition: Any, what: str) -> Any:
    """Ask until the answer is true; a lost connection is asked again."""
    ending = time.monotonic() + DEADLINE_S
    while time.monotonic() < ending:
        try:
            if found := condition():
                return found
        except ConnectionLostError:
            pass
        time.sleep(PAUSE_S)
    sys.exit(f"not within {DEADLINE_S:g} s: {what}")


class Place:
    """A partition of the offsets topic, with groups that it holds."""

    def __init__(self, index: int, partition_count: int) -> None:
        every = (f"group-{number}" for number in itertools.count())
        self._groups = (each for each in every if partition_for(each, partition_count) == index)
        self.group = next(self._groups)
        self._entries = 0

    def fill(self, connection: Connection, entries: int) -> None:
        """Commit offsets until there are so many."""
        while self._entries < entries:
            offsets = {(TOPIC, partition): 1 for partition in range(min(PARTITIONS, entries))}
            request = commits.request(next(self._groups), offsets, {})
            until_true(
                lambda request=request: is_accepted(connection.call(request, commits.VERSION)), "a commit"
            )
            self._entries += len(offsets)


class Failover:
    """A cluster, filled more and more."""

    def __init__(self, processes: ClusterProcesses) -> None:
        self.processes = processes

    def start(self) -> None:
        """Start it, with a topic of one replica that offsets are committed for."""
        self.processes.start_all()
        made = messages.CreateTopicsRequest
        request = made([made.CreatableTopic(TOPIC, PARTITIONS, 3)], 10_000)
        address = parse_address(self.processes.address(1))
        until_true(lambda: not call(address, request, 7).topics[0].error_code, "the topic is created")

    def places(self, *, has_two: bool) -> list[Place]:
        """Return the only partition of the offsets topic, or two of many that have the same replicas."""
        until_true(lambda: self.coordinator("any"), "a coordinator")
        if not has_two:
            return [Place(0, 1)]
        replicas = {each.partition_index: each.replica_nodes for each in self._offsets_topic(1).partitions}
        first, second = next(
            pair for pair in itertools.combinations(replicas, 2) if replicas[pair[0]] == replicas[pair[1]]
        )
        return [Place(first, len(replicas)), Place(second, len(replicas))]

    def coordinator(self, group: str, but: int = 0) -> int:
        """Return the coordinator that a broker names, 0 if it knows none or names `but`."""
        for node in NODES:
            if node == but:
                continue
            address = parse_address(self.processes.address(node))
            found = call(address, messages.FindCoordinatorRequest(group, 0), 3)
            if not found.error_code and found.node_id != but:
                return int(found.node_id)
        return 0

    def fill(self, place: Place, entries: int) -> None:
        """Commit offsets until there are so many."""
        node = until_true(lambda: self.coordinator(place.group), "a coordinator")
        with Connection(*parse_address(self.processes.address(node)), 30.0) as connection:
            place.fill(connection, entries)

    def round(self, places: list[Place]) -> list[tuple[float, float]]:
        """Kill the coordinator of all places.

        Returns for each the seconds until there is another one, and until that accepts a commit.
        """
        until_true(self._is_in_sync, "all replicas are in sync")
        killed = until_true(lambda: self._common_coordinator(places), "one coordinator of all groups")
        requests = {place.group: commits.request(place.group, {(TOPIC, 0): 1}, {}) for place in places}
        at = parse_address(self.processes.address(killed))
        for request in requests.values():
            until_true(
                lambda request=request: is_accepted(call(at, request, commits.VERSION)),
                "a commit before the kill",
            )
        moved: dict[str, float] = {}
        took: dict[str, float] = {}
        began = time.perf_counter()
        self.processes.kill(killed)

        def accepted() -> bool:
            for group in requests.keys() - took.keys():
                node = self.coordinator(group, but=killed)
                if not node:
                    continue
                moved.setdefault(group, time.perf_counter() - began)
                at = parse_address(self.processes.address(node))
                if is_accepted(call(at, requests[group], commits.VERSION)):
                    took[group] = time.perf_counter() - began
            return len(took) == len(requests)

        until_true(accepted, "a commit after the kill")
        self.processes.start(killed)
        return [(moved[group], took[group]) for group in requests]

    def _common_coordinator(self, places: list[Place]) -> int:
        nodes = {self.coordinator(place.group) for place in places}
        return nodes.pop() if len(nodes) == 1 else 0

    def _offsets_topic(self, node: int) -> Any:
        wanted = messages.MetadataRequest
        request = wanted([wanted.Topic(name=OFFSETS_TOPIC)], False)
        (topic,) = call(parse_address(self.processes.address(node)), request, 8).topics
        return topic

    def _is_in_sync(self) -> bool:
        for node in NODES:
            topic = self._offsets_topic(node)
            if topic.error_code or any(len(each.isr_nodes) < 3 for each in topic.partitions):
                return False
        return True


def is_accepted(answer: messages.OffsetCommitResponse) -> bool:
    """Whether all offsets of a commit are."""
    return {each.error_code for topic in answer.topics for each in topic.partitions} == {ErrorCode.NONE}


def show(what: str, entries: int, rounds: list[tuple[float, float]]) -> None:
    """Print a row."""
    moved, accepted = (statistics.median(each) for each in zip(*rounds, strict=True))
    rest = " ".join(f"{each:.2f}" for _, each in rounds)
    print(f"{what:12}{entries:10}{moved:10.2f}{accepted:12.2f}   {rest}", flush=True)


def main() -> None:
    """Print a row for each cluster and number of offsets."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--of", nargs="+", default=["brokers", "zookeeper", "kafka"])
    parser.add_argument("--entries", nargs="+", type=int, default=[1000, 100_000, 1_000_000])
    parser.add_argument("--beside", type=int, default=0, help="offsets of a second, small partition")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=28200)
    given = parser.parse_args()
    print(f"{'':12}{'offsets':>10}{'moved s':>10}{'accepted s':>12}   all rounds", flush=True)
    for of in given.of:
        with tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-") as folder:
            count = SEVERAL_PARTITIONS if given.beside else 1
            settings = {"offsets.topic.num.partitions": str(count)}
            processes = campaign.new_processes(of, Path(folder), given.port, links=None, settings=settings)
            failover = Failover(processes)
            try:
                failover.start()
                places = failover.places(has_two=given.beside > 0)
                for place in places[1:]:
                    failover.fill(place, given.beside)
                for entries in given.entries:
                    failover.fill(places[0], entries)
                    rounds = [failover.round(places) for _ in range(given.rounds)]
                    show(of, entries, [each[0] for each in rounds])
                    if given.beside:
                        show("  small", given.beside, [each[1] for each in rounds])
            finally:
                processes.close()


if __name__ == "__main__":
    main()
