"""Kills, stops, pauses and partitions of brokers that are processes, under eight clients with histories.

    python -m tests.processes.campaign --of brokers --faults 200 --seed 1
    python -m tests.processes.campaign --of zookeeper
    python -m tests.processes.campaign --forward          commits at any broker, of which none takes effect late
    python -m tests.processes.campaign --of kafka         Apache Kafka: this shows that the checks are right

In each round the clients work, one fault happens, and each client gets an acknowledgement: while a node is away, if a
quorum remains, and when it is back. When all replicas are in sync again, the clients rest and are compared with the
cluster: each committed offset is the last acknowledged one or an unknown one, each record has the offset at which it
was acknowledged, nothing else was written, and no group has rebalanced. At the end the brokers stop, and their data
directories are equal.

Links are cut where every node can have a network namespace of its own: as root, and not for `--of brokers`, where one
parent process starts all nodes.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kafka_offsets.client.connection import Address, Connection, parse_address
from kafka_offsets.errors import ConnectionLostError, ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import batch_spans, read_records
from tests.interop.waiting import until
from tests.processes import network, replicas
from tests.processes.clients import (
    GROUP_PARTITIONS,
    PARTITIONS,
    TOPIC,
    AnyBrokerCommitter,
    ClassicMember,
    Client,
    Committer,
    ConsumerMember,
    Producer,
    ViolationError,
    await_progress,
    retry,
)
from tests.processes.cluster_processes import NODES, ClusterProcesses, KafkaProcesses, everybody_else
from tests.processes.members import ConfluentMember, KafkaPythonMember, Member
from tests.processes.our_processes import BrokersProcesses, ZooKeeperProcesses

PROGRESS_S, IN_SYNC_S = 60.0, 120.0
REQUEST_S = 10.0


class Campaign:
    """A cluster, its clients, and what is known of both."""

    def __init__(
        self,
        processes: ClusterProcesses,
        seed: int,
        folder: Path,
        *,
        own_requests_only: bool = False,
        forward: bool = False,
    ) -> None:
        self.processes = processes
        self._forward = forward
        self.folder = folder
        self.recoveries: dict[str, list[float]] = {}
        self._own_requests_only = own_requests_only or forward
        self._random = random.Random(seed)
        self._seed = seed
        self._verified = dict.fromkeys(range(PARTITIONS), 0)
        self._connections: dict[Address, Connection] = {}
        self.committers: list[Committer] = []
        self.producers: list[Producer] = []
        self.members: list[Member] = []

    @property
    def clients(self) -> list[Client]:
        """All clients."""
        return [*self.committers, *self.producers, *self.members]

    def start(self) -> None:
        """Start the cluster and the clients, until each has been acknowledged something."""
        self.processes.start_all()
        retry(self._create_topic, "the topic is created", PROGRESS_S)
        retry(self._is_in_sync, "all replicas are in sync", IN_SYNC_S)
        self.folder.mkdir(parents=True, exist_ok=True)
        common = self.processes.addresses, self._seed, self.folder
        self.committers = (
            [AnyBrokerCommitter(f"committer-{number}", *common) for number in range(6)]
            if self._forward
            else [
                Committer("committer", *common),
                ClassicMember("classic-member", *common),
                ConsumerMember("consumer-member", *common),
            ]
        )
        self.producers = [
            Producer("producer-1", *common, (0, 1, 2)),
            Producer("producer-2", *common, (3, 4, 5)),
        ]
        if not self._own_requests_only:
            self.members = [
                ConfluentMember("confluent-1", "confluent", *common),
                ConfluentMember("confluent-2", "confluent", *common),
                KafkaPythonMember("kafka-python", "kafka-python", *common),
            ]
        for client in self.clients:
            client.begin()
        await_progress(self.clients, "the start", PROGRESS_S)
        if self.members:  # the first member of a group rebalances when the second one comes
            until(
                lambda: [each.partitions for each in self.members] == [3, 3, 6],
                "groups are stable",
                PROGRESS_S,
            )
        for member in self.members:
            member.is_settled = True
        await_progress(self.clients, "the last rebalance", PROGRESS_S)
        self.rest_and_check("at the start")

    def rest_and_check(self, when: str) -> None:
        """Let the clients finish what they do, and compare."""
        for client in self.clients:
            client.end()
        try:
            retry(self._is_in_sync, f"all replicas are in sync {when}", IN_SYNC_S)
            for committer in self.committers:
                committer.check(self._committed(committer.group, range(GROUP_PARTITIONS)))
            for member in self.members:
                found = self._committed(member.group, sorted(member.offsets))
                for partition, offsets in member.offsets.items():
                    offsets.check(found[partition][0], f"{member.name} {TOPIC}-{partition}")
            for producer in self.producers:
                for partition in producer.partitions:
                    self._check_records(producer, partition)
        except ViolationError as error:
            raise ViolationError(f"{when}: {error}") from error

    def round(self, fault: str) -> None:
        """One fault under load, and the check."""
        for client in self.clients:
            client.begin()
        await_progress(self.clients, "the begin of a round", PROGRESS_S)
        time.sleep(self._random.uniform(0.0, 0.3))  # the moment of the fault is the random input
        self._happen(fault)
        took = await_progress(self.clients, f"the end of {fault}", PROGRESS_S)
        self.recoveries.setdefault(f"after {fault}", []).append(took)
        time.sleep(self._random.uniform(0.0, 0.3))
        self.rest_and_check(f"after {fault}")

    def _happen(self, fault: str) -> None:
        nodes = self._random.sample(NODES, 3)
        away_s = self._random.choice([0.0, 0.3, 1.0, 1.7]) * self.processes.session_s
        print(f"  {fault} of {nodes} for {away_s:.1f} s", flush=True)
        undo = self._begin(fault, nodes)
        began = time.monotonic()
        if fault in self.processes.outlived and away_s > 1.5 * self.processes.session_s:
            took = await_progress(self._movable(), f"{fault} of node {nodes[0]}", PROGRESS_S)
            self.recoveries.setdefault(f"during {fault}", []).append(took)
        time.sleep(max(0.0, away_s - (time.monotonic() - began)))
        undo()

    def _movable(self) -> list[Client]:
        """The clients that must work without one node: kafka-python waits for a node in the same thread."""
        return [*self.committers, *self.producers]

    def _begin(self, fault: str, nodes: list[int]) -> Callable[[], None]:
        """Let the fault happen; return what ends it."""
        processes = self.processes
        node = nodes[0]
        if fault == "pause":
            processes.pause(node)
            return lambda: processes.resume(node)
        if fault in ("kill", "kill-two", "kill-all", "stop"):
            hit = nodes[: {"kill-two": 2, "kill-all": 3}.get(fault, 1)]
            for each in hit:
                processes.stop(each) if fault == "stop" else processes.kill(each)
            return lambda: processes.start_again(hit)
        if fault == "kill-parent":
            assert isinstance(processes, BrokersProcesses)
            processes.kill_parent()
            return processes.start_all
        links = processes.network
        assert links is not None, f"{fault} needs a network"
        others = {
            "cut-pair": nodes[1:2],
            "cut-from-brokers": nodes[1:],
        }.get(fault, everybody_else(node))
        for other in others:
            if fault != "isolate-receiving":
                links.cut(node, other)
            if fault != "isolate-sending":
                links.cut(other, node)
        return links.heal

    def finish(self) -> str:
        """End the clients and the cluster; return what was compared."""
        for client in self.clients:
            client.close()
        retry(self._is_in_sync, "all replicas are in sync at the end", IN_SYNC_S)
        self._disconnect()
        self.processes.stop_all()
        self.processes.assert_clean_logs()
        data_dirs = [self.processes.data_dir(node) for node in NODES]
        partitions, batches = replicas.compare(data_dirs, TOPIC)
        shards, commits = replicas.compare(data_dirs, replicas.OFFSETS_TOPIC)
        assert partitions == PARTITIONS and shards and batches and commits
        return (
            f"{partitions} partitions with {batches} batches and {shards} of the offsets topic with {commits}"
        )

    def close(self) -> None:
        """End everything, whatever has gone wrong. Members do not leave their groups: no broker may answer."""
        for client in [*self.committers, *self.producers]:
            client.close()
        self._disconnect()
        self.processes.close()

    def _disconnect(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _call(self, at: Address, request: messages.MessageValue, version: int) -> Any:
        try:
            if at not in self._connections:
                self._connections[at] = Connection(*at, REQUEST_S)
            return self._connections[at].call(request, version)
        except ConnectionLostError:
            if at in self._connections:
                self._connections.pop(at).close()
            raise

    def _create_topic(self) -> bool | None:
        topic = messages.CreateTopicsRequest.CreatableTopic(TOPIC, PARTITIONS, 3, [], [])
        answer = self._call(
            parse_address(self.processes.addresses[0]), messages.CreateTopicsRequest([topic], 10_000), 4
        )
        return answer.topics[0].error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS} or None

    def _is_in_sync(self) -> bool | None:
        """Whether all nodes know three in-sync replicas of everything."""
        asked = [messages.MetadataRequest.Topic(name=name) for name in (TOPIC, replicas.OFFSETS_TOPIC)]
        for address in self.processes.addresses:
            answer = self._call(parse_address(address), messages.MetadataRequest(asked, False), 4)
            for topic in answer.topics:
                if topic.name == replicas.OFFSETS_TOPIC and topic.error_code:
                    continue  # the first commit will create it
                if not topic.partitions or any(len(each.isr_nodes) < 3 for each in topic.partitions):
                    return None
        return True

    def _committed(self, group: str, partitions: Any) -> dict[int, tuple[int, str]]:
        wanted = messages.OffsetFetchRequest

        def fetch() -> dict[int, tuple[int, str]] | None:
            at = parse_address(self._random.choice(self.processes.addresses))
            found = self._call(at, messages.FindCoordinatorRequest(group, 0), 3)
            if found.error_code:
                return None
            request = wanted(group, [wanted.Topic(TOPIC, list(partitions))])
            answer = self._call((found.host, found.port), request, 5)
            if answer.error_code:
                return None
            return {
                each.partition_index: (each.committed_offset, each.metadata)
                for topic in answer.topics
                for each in topic.partitions
            }

        result: dict[int, tuple[int, str]] = retry(fetch, f"the offsets of {group}", PROGRESS_S)
        return result

    def _check_records(self, producer: Producer, partition: int) -> None:
        """Read what is new in a partition: the record at offset n is number n, no acknowledged one is missing."""
        what = f"{TOPIC}-{partition}"
        first = offset = max(0, self._verified[partition] - 5)
        while True:
            asked = offset

            def fetch(asked: int = asked) -> Any:
                return self._fetch(producer, partition, asked)

            found = retry(fetch, f"{what} is read", PROGRESS_S)
            data = found.records or b""
            for position, size, _ in batch_spans(data):
                for record in read_records(data[position : position + size]):
                    if record.offset < offset:
                        continue
                    if record.offset != offset or record.value != b"%d" % offset:
                        raise ViolationError(
                            f"{what}: {record.value!r} at offset {record.offset}, not {offset}"
                        )
                    offset += 1
            if offset == asked:
                break
        if not producer.written[partition] <= offset <= producer.sent[partition] or offset < first:
            raise ViolationError(
                f"{what} ends at {offset}; acknowledged up to {producer.written[partition]}, "
                f"sent up to {producer.sent[partition]}"
            )
        self._verified[partition] = offset

    def _fetch(self, producer: Producer, partition: int, offset: int) -> Any:
        at = producer.leaders().get(partition)
        if at is None:
            return None
        request = messages.FetchRequest
        place = request.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [request.FetchTopic(TOPIC, partitions=[place])]
        answer = self._call(at, request(max_wait_ms=0, min_bytes=0, max_bytes=1 << 22, topics=topics), 11)
        if answer.error_code:
            return None
        found = answer.responses[0].partitions[0]
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise ViolationError(f"{TOPIC}-{partition}: offset {offset}, which was read, is out of range")
        return None if found.error_code or found.high_watermark < producer.written[partition] else found


def new_processes(
    of: str,
    folder: Path,
    port: int,
    *,
    links: network.Network | None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> ClusterProcesses:
    """Return a cluster that was not started yet."""
    if of == "kafka":
        return KafkaProcesses(folder / "cluster", port, links, settings)
    if of == "zookeeper":
        return ZooKeeperProcesses(folder / "cluster", port, links, settings)
    return BrokersProcesses(folder / "cluster", port, settings)


def run(campaign: Campaign, faults: int, chosen: tuple[str, ...], seed: int) -> None:
    """So many rounds."""
    chance = random.Random(seed)
    happened: Counter[str] = Counter()
    began = time.monotonic()
    try:
        campaign.start()
        for number in range(1, faults + 1):
            fault = chance.choice(chosen)
            print(f"round {number} at {time.monotonic() - began:.0f} s: {fault}", flush=True)
            campaign.round(fault)
            happened[fault] += 1
        compared = campaign.finish()
    finally:
        campaign.close()
        (campaign.folder.parent / "log.txt").write_text(campaign.processes.log_text())
    for what, seconds in sorted(campaign.recoveries.items()):
        seconds.sort()
        print(
            f"  acknowledgements of all {what}: median {seconds[len(seconds) // 2]:.2f} s, worst {seconds[-1]:.2f} s"
        )
    for client in campaign.clients:
        print(f"  {client.name}: {client.acknowledged} acknowledged, {dict(client.codes.most_common(8))}")
    print(
        f"{faults} faults {dict(happened)} in {time.monotonic() - began:.0f} s: nothing lost; equal: {compared}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--of", choices=["brokers", "zookeeper", "kafka"], default="brokers")
    parser.add_argument("--forward", action="store_true", help="brokers with offsets.forward=true")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--only", nargs="*", help="these kinds of faults alone")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--port", type=int, default=28000)
    parser.add_argument("--keep", action="store_true", help="keep histories and data also if nothing is lost")
    options = parser.parse_args()
    if options.of != "brokers" and network.is_possible():
        network.enter("tests.processes.campaign")
    folder = Path(tempfile.mkdtemp(prefix="processes-"))
    print(f"seed {options.seed}, in {folder}, which stays there if it fails", flush=True)
    links = network.Network(NODES) if options.of != "brokers" and network.is_possible() else None
    settings = {"offsets.forward": "true"} if options.forward else {}
    processes = new_processes(options.of, folder, options.port, links=links, settings=settings)
    try:
        campaign = Campaign(
            processes,
            options.seed,
            folder / "histories",
            forward=options.forward,
        )
        run(campaign, options.faults, tuple(options.only or processes.faults), options.seed)
    finally:
        if links is not None:
            links.close()
    if not options.keep:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
