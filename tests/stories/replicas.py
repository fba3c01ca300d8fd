"""What three Kafka nodes answer while a leader dies, returns or hangs; recorded in replicas.txt.

    python -m tests.stories.replicas [--port 19500] [--only TEXT]    # Java 17 and Maven; ten minutes

The topics have their replicas on nodes 2, 3 and 1, so that node 2 leads. A script waits for what it needs with
questions that are not recorded: so the answers do not depend on when a node learns something. What means nothing is
normalised as in tests/differential/printed.py, also the controller of Metadata, and the order of brokers and replicas.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY
from tests.differential.brokers import RemoteBroker
from tests.differential.play import Client, Play
from tests.differential.stories import CLUSTER, STORIES, Stories, file_of
from tests.stories.replica_groups import SITUATIONS as ABOUT_GROUPS
from tests.stories.steps import batch, fetch, offsets_at, produce

SCRIPT = REPOSITORY / "benchmarks" / "peers" / "kafka-cluster.sh"
FILE = STORIES / "replicas.txt"
NODES = (1, 2, 3)
SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
OFFSETS = "__consumer_offsets"
PATIENCE = 600
"""Half a minute in steps of 50 ms: a session of a broker lasts nine seconds."""

Script = Callable[["ClusterPlay"], None]
SITUATIONS: dict[str, Script] = {}


def situation(name: str) -> Callable[[Script], Script]:
    """Put a script into SITUATIONS."""

    def put(script: Script) -> Script:
        SITUATIONS[name] = script
        return script

    return put


class Cluster:
    """Three nodes by kafka-cluster.sh."""

    def __init__(self, port: int, directory: str) -> None:
        self.port, self.directory = port, directory

    def do(self, verb: str, *arguments: str) -> None:
        """Run the script."""
        subprocess.run(["bash", str(SCRIPT), verb, *arguments], check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        """Start three new nodes."""
        extra = Path(self.directory, "extra.properties")
        extra.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()), encoding="utf-8")
        self.do("start", str(self.port), self.directory, str(extra))

    def broker(self, node: int) -> RemoteBroker:
        """Return a node to connect to."""
        return RemoteBroker("127.0.0.1", self.port + node - 1)


class NodeClient(Client):
    """A connection to one node."""

    def _shown(self, api: str, response: Any, version: int) -> dict[str, Any]:
        if api == "Metadata":
            response.controller_id = -1
            response.brokers.sort(key=lambda broker: broker.node_id)
        for topic in (
            getattr(response, "topics", ()) if api in ("Metadata", "DescribeTopicPartitions") else ()
        ):
            for partition in topic.partitions:
                for name in ("isr_nodes", "offline_replicas", "eligible_leader_replicas"):
                    if getattr(partition, name, None):
                        getattr(partition, name).sort()
        return super()._shown(api, response, version)


class ClusterPlay(Play):
    """One situation with three nodes."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        super().__init__(cluster.broker(1), name, ())

    def node(self, node: int) -> NodeClient:
        """Return a client on a new connection to a node."""
        here, self.broker = self.broker, self.cluster.broker(node)
        client = NodeClient(self, f"node{node}")
        self.broker = here
        return client

    def learn(self, *topics: str) -> Any:
        found = super().learn(*topics)
        self.names.broker_id = 1
        return found

    def do(self, verb: str, node: int) -> None:
        """Kill, pause, continue or restart a node."""
        self.events.append([CLUSTER, f"{verb} node {node}"])
        self.cluster.do(verb, self.cluster.directory, str(node))

    def make(self, *replicas: int, name: str = "", **configs: str) -> str:
        """Create a topic of one partition on these nodes, the first of which leads; return its name."""
        name = name or self.slug
        given = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "configs": given}
        assigned = [{"partition_index": 0, "broker_ids": list(replicas)}]
        self.ask("CreateTopics", 7, topics=[topic | {"assignments": assigned}], timeout_ms=10_000)
        self.wait(name, leader=replicas[0], isr=set(replicas))
        return name

    def wait(self, name: str, *, leader: int, isr: set[int], nodes: tuple[int, ...] = NODES) -> None:
        """Let time pass until nodes say who leads a topic, and who is in sync; the leader leads then."""
        for node in nodes:
            client = self.node(node)
            self.until(lambda client=client: self._is_so(client, name, leader, isr))  # type: ignore[misc]
        self.learn(name)
        if leader > 0:
            client = self.node(leader)
            self.until(lambda: not self._offsets_error(client, name))

    def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(PATIENCE):
            if is_so():
                return
            self.broker.pause(50)
        raise AssertionError(f"{self.group}: it does not come to be")

    def _is_so(self, client: Client, name: str, leader: int, isr: set[int]) -> bool:
        topics = [{"name": name}]
        found = self.quietly(client, "Metadata", 12, topics=topics, allow_auto_topic_creation=False)
        partitions = found.topics[0].partitions
        return bool(partitions) and (partitions[0].leader_id, {*partitions[0].isr_nodes}) == (leader, isr)

    def _offsets_error(self, client: Client, name: str) -> int:
        topics = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -2}]}]
        found = self.quietly(client, "ListOffsets", 5, replica_id=-1, isolation_level=0, topics=topics)
        return int(found.topics[0].partitions[0].error_code)

    def committed(self, client: Client, topic: str, offset: int) -> None:
        """Let time pass until a coordinator has an offset: a new one does not show all at once."""
        asked = {"group_id": self.group, "topics": [{"name": topic, "partition_indexes": [0]}]}

        def is_so() -> bool:
            found = self.quietly(client, "OffsetFetch", 7, **asked)
            return not found.error_code and found.topics[0].partitions[0].committed_offset == offset

        self.until(is_so)

    def visible(self, client: Client, name: str, high_watermark: int) -> None:
        """Let time pass until a node has a high watermark; those of followers are a fetch late."""
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        topics = [{"topic": name, "partitions": [partition]}]
        asked = {"max_wait_ms": 0, "min_bytes": 0, "topics": topics}

        def is_so() -> bool:
            found = self.quietly(client, "Fetch", 12, **asked).responses[0].partitions[0]
            return bool(found.high_watermark == high_watermark)

        self.until(is_so)

    def quietly(self, client: Client, api: str, version: int, **fields: Any) -> Any:
        """Ask what is not recorded."""
        before = len(self.events)
        answer = client.ask(api, version, **fields)
        del self.events[before:]
        return answer


# --- questions


def metadata(client: Client, name: str) -> None:
    client.ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
    client.ask("DescribeTopicPartitions", 0, topics=[{"name": name}])


def ends_of_epochs(client: Client, name: str, *epochs: int, current: int = -1) -> None:
    """OffsetForLeaderEpoch, one request an epoch."""
    for epoch in epochs:
        partition = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        client.ask(
            "OffsetForLeaderEpoch", 4, replica_id=-1, topics=[{"topic": name, "partitions": [partition]}]
        )


def fetch_in_epoch(client: Client, name: str, offset: int, epoch: int, version: int = 12) -> None:
    partition = {
        "partition": 0,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "partition_max_bytes": 1 << 20,
    }
    topics = [{"topic": name, "topic_id": name, "partitions": [partition]}]
    client.ask("Fetch", version, max_wait_ms=0, min_bytes=0, topics=topics)


def produce_unanswered(client: Client, name: str, data: bytes) -> None:
    """Produce with acks=0, which has no answer."""
    client.send(
        "Produce",
        11,
        acks=0,
        timeout_ms=5000,
        topic_data=[{"name": name, "partition_data": [{"index": 0, "records": data}]}],
    )
    client.pending.clear()
    client.play.events.append([client.label, "silence"])


def elect(client: Client, name: str, election_type: int) -> None:
    """ElectLeaders: 0 is preferred, 1 unclean."""
    topics = [{"topic": name, "partitions": [0]}]
    client.ask("ElectLeaders", 2, election_type=election_type, topic_partitions=topics, timeout_ms=10_000)


# --- situations


@situation(
    "a leader dies and another replica leads, the deposed leader returns, and a preferred election moves it back"
)
def leader_dies(w: ClusterPlay) -> None:
    name = w.make(2, 3, 1)
    first, second, third = map(w.node, NODES)
    metadata(first, name)
    produce(second, name, batch("one"), 11)
    produce(second, name, batch("two"), 11)
    w.visible(third, name, 2)
    for leader_or_not in second, third:
        fetch(leader_or_not, name, (0, 0), version=12)
        fetch(leader_or_not, name, (0, 0), version=17)
        for timestamp in (-1, -2):
            offsets_at(leader_or_not, name, (0, timestamp))
        ends_of_epochs(leader_or_not, name, 0)
    produce(third, name, batch("refused"), 11)
    w.do("kill", 2)
    w.wait(name, leader=3, isr={1, 3}, nodes=(1, 3))
    metadata(first, name)
    produce(third, name, batch("three"), 11)
    produce(third, name, batch("four"), 11, acks=1)
    produce_unanswered(third, name, batch("five"))
    w.visible(third, name, 5)
    for epoch in (0, 1, 2):
        fetch_in_epoch(third, name, 2, epoch)
    for timestamp in (-1, -2, -3):
        offsets_at(third, name, (0, timestamp))
    ends_of_epochs(third, name, 0, 1, 2)
    ends_of_epochs(third, name, 0, current=0)
    ends_of_epochs(third, name, 0, current=9)
    elect(first, name, 0)
    w.do("restart", 2)
    w.wait(name, leader=3, isr={1, 2, 3})
    second = w.node(2)
    metadata(second, name)
    produce(second, name, batch("six"), 11)
    offsets_at(second, name, (0, -1))
    ends_of_epochs(second, name, 0, current=0)
    fetch_in_epoch(second, name, 0, 0)
    w.visible(second, name, 5)
    fetch_in_epoch(second, name, 0, -1)
    elect(first, name, 0)
    w.wait(name, leader=2, isr={1, 2, 3})
    metadata(first, name)
    elect(first, name, 0)
    elect(first, name, 1)
    produce(second, name, batch("seven"), 11)
    produce(third, name, batch("eight"), 11)
    ends_of_epochs(second, name, 0, 1, 2)
    fetch(second, name, (0, 0), version=12)


@situation(
    "an ISR below min.insync.replicas takes records with acks=1 alone, and nobody sees them before it grows"
)
def isr_too_small(w: ClusterPlay) -> None:
    name = w.make(2, 3)
    second = w.node(2)
    produce(second, name, batch("one"), 11)
    w.do("kill", 3)
    w.wait(name, leader=2, isr={2}, nodes=(1, 2))
    metadata(second, name)
    produce(second, name, batch("two"), 11)
    produce(second, name, batch("three"), 11, acks=1)
    produce_unanswered(second, name, batch("four"))
    fetch(second, name, (0, 0), version=12)
    for timestamp in (-1, -3):
        offsets_at(second, name, (0, timestamp))
    ends_of_epochs(second, name, 0)
    elect(second, name, 0)
    w.do("restart", 3)
    w.wait(name, leader=2, isr={2, 3})
    w.visible(second, name, 3)
    metadata(second, name)
    fetch(second, name, (0, 0), version=12)
    produce(second, name, batch("five"), 11)


@situation("a partition whose only replica dies has no leader until it returns")
def no_leader(w: ClusterPlay) -> None:
    name = w.make(2)
    first, second = w.node(1), w.node(2)
    produce(second, name, batch("one"), 11)
    w.do("kill", 2)
    w.wait(name, leader=-1, isr=set(), nodes=(1, 3))
    metadata(first, name)
    produce(first, name, batch("two"), 11)
    fetch(first, name, (0, 0), version=12)
    offsets_at(first, name, (0, -1))
    ends_of_epochs(first, name, 0)
    elect(first, name, 0)
    elect(first, name, 1)
    w.do("restart", 2)
    w.wait(name, leader=2, isr={2})
    second = w.node(2)
    metadata(first, name)
    fetch(second, name, (0, 0), version=12)
    ends_of_epochs(second, name, 0, 1, 2)


@situation("a replica that leaves an ISR of the minimum size stays eligible")
def eligible_replicas(w: ClusterPlay) -> None:
    name = w.make(2, 3, min_insync_replicas="2")
    first, third = w.node(1), w.node(3)
    produce(w.node(2), name, batch("one"), 11)
    w.visible(third, name, 1)
    w.do("pause", 3)
    w.wait(name, leader=2, isr={2}, nodes=(1, 2))
    metadata(first, name)
    w.do("continue", 3)
    w.wait(name, leader=2, isr={2, 3})
    metadata(first, name)
    fetch(third, name, (0, 0), version=12)


@situation("a reassignment waits for a dead node, has another target meanwhile, and is cancelled")
def reassignment(w: ClusterPlay) -> None:
    name = w.make(2, 1)
    first = w.node(1)
    w.do("kill", 3)
    w.wait(name, leader=2, isr={1, 2}, nodes=(1, 2))
    w.until(lambda: len(w.quietly(first, "Metadata", 12, topics=[]).brokers) == 2)
    for target in ([2, 3], [2, 1], None, None):
        partitions = [{"partition_index": 0, "replicas": target}]
        topics = [{"name": name, "partitions": partitions}]
        first.ask("AlterPartitionReassignments", 0, timeout_ms=10_000, topics=topics)
        first.ask("ListPartitionReassignments", 0, timeout_ms=10_000, topics=None)
        w.pause(500)
        metadata(first, name)
    w.do("restart", 3)


@situation("a dead broker is removed, and is registered again when it starts")
def removed(w: ClusterPlay) -> None:
    name = w.make(2, 3, 1)
    first = w.node(1)
    first.ask("UnregisterBroker", 0, broker_id=9)
    w.do("kill", 3)
    w.wait(name, leader=2, isr={1, 2}, nodes=(1, 2))
    w.until(lambda: len(w.quietly(first, "Metadata", 12, topics=[]).brokers) == 2)
    first.ask("UnregisterBroker", 0, broker_id=3)
    second = w.node(2)
    w.until(lambda: len(brokers(w, second)) == 2)
    second.ask("UnregisterBroker", 0, broker_id=3)
    metadata(second, name)
    new = {"name": f"{name}-3", "num_partitions": 1, "replication_factor": 3}
    second.ask("CreateTopics", 7, topics=[new | {"assignments": [], "configs": []}], timeout_ms=10_000)
    for assignments in (None, [{"broker_ids": [1, 2]}], [{"broker_ids": [1, 2, 3]}]):
        grown = [{"name": name, "count": 2, "assignments": assignments}]
        second.ask("CreatePartitions", 3, topics=grown, timeout_ms=10_000)
    partitions = [{"partition_index": 0, "replicas": [2, 3]}]
    topics = [{"name": name, "partitions": partitions}]
    second.ask("AlterPartitionReassignments", 0, timeout_ms=10_000, topics=topics)
    w.do("restart", 3)
    w.wait(name, leader=2, isr={1, 2, 3})
    metadata(second, name)


def brokers(w: ClusterPlay, client: Client) -> list[Any]:
    """Return all registered brokers, as a node knows them."""
    found = w.quietly(client, "DescribeCluster", 2, include_fenced_brokers=True)
    return list(found.brokers)


@situation("a follower hangs: acks=all times out until it leaves the ISR")
def follower_hangs(w: ClusterPlay) -> None:
    name = w.make(2, 3, 1)
    second = w.node(2)
    produce(second, name, batch("one"), 11)
    w.do("pause", 3)
    topics = [{"name": name, "partition_data": [{"index": 0, "records": batch("two")}]}]
    second.ask("Produce", 11, acks=-1, timeout_ms=500, topic_data=topics)
    fetch(second, name, (0, 0), version=12)
    w.wait(name, leader=2, isr={1, 2}, nodes=(1, 2))
    metadata(second, name)
    fetch(second, name, (0, 0), version=12)
    produce(second, name, batch("three"), 11)
    w.do("continue", 3)
    w.wait(name, leader=2, isr={1, 2, 3})
    metadata(second, name)


@situation(
    "the coordinator of a group dies, another node takes it over, and a preferred election moves it back"
)
def coordinator_dies(w: ClusterPlay) -> None:
    orders = w.make(3, 1, 2)
    w.make(2, 3, 1, name=OFFSETS, cleanup_policy="compact")
    first, second, third = map(w.node, NODES)
    asked = {"key_type": 0, "coordinator_keys": [w.group]}
    w.until(lambda: not w.quietly(first, "FindCoordinator", 4, **asked).coordinators[0].error_code)
    w.until(lambda: not w.quietly(second, "OffsetFetch", 7, group_id=w.group, topics=[]).error_code)
    first.ask("FindCoordinator", 4, **asked)
    second.commit((orders, 0, 5))
    third.commit((orders, 0, 6))
    third.fetch((orders, 0))
    w.do("kill", 2)
    w.wait(OFFSETS, leader=3, isr={1, 3}, nodes=(1, 3))
    w.committed(third, orders, 5)
    first.ask("FindCoordinator", 4, **asked)
    third.fetch((orders, 0))
    third.commit((orders, 0, 7))
    first.commit((orders, 0, 8))
    w.do("restart", 2)
    w.wait(OFFSETS, leader=3, isr={1, 2, 3})
    second = w.node(2)
    second.ask("FindCoordinator", 4, **asked)
    second.commit((orders, 0, 9))
    elect(first, OFFSETS, 0)
    w.wait(OFFSETS, leader=2, isr={1, 2, 3})
    w.committed(second, orders, 7)
    third.commit((orders, 0, 10))
    second.ask("FindCoordinator", 4, **asked)
    second.fetch((orders, 0))
    second.commit((orders, 0, 11))


@situation("the offsets topic has too few replicas in sync: commits are refused")
def coordinator_alone(w: ClusterPlay) -> None:
    orders = w.make(2)
    second = w.node(2)
    w.until(lambda: not w.quietly(second, "OffsetFetch", 7, group_id=w.group, topics=[]).error_code)
    configs = [{"name": "min.insync.replicas", "config_operation": 0, "value": "3"}]
    resource = {"resource_type": 2, "resource_name": OFFSETS, "configs": configs}
    second.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    w.do("kill", 3)
    w.wait(OFFSETS, leader=2, isr={1, 2}, nodes=(1, 2))
    second.commit((orders, 0, 5))
    second.fetch((orders, 0))
    second.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[w.group])
    w.do("restart", 3)
    w.wait(OFFSETS, leader=2, isr={1, 2, 3})
    second.commit((orders, 0, 6))
    second.fetch((orders, 0))


SITUATIONS |= ABOUT_GROUPS

# --- the recorder


def stored() -> Stories:
    """Return what Kafka answered."""
    return Stories({FILE.name: FILE.read_text(encoding="utf-8")})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--port", type=int, default=19500)
    parser.add_argument(
        "--only", default="", help="situations with this in their name; the others stay as they are"
    )
    options = parser.parse_args()
    answers = dict(stored()) if options.only else {}
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(options.port, directory)
        try:
            cluster.start()
            for name, script in SITUATIONS.items():
                if options.only in name:
                    play = ClusterPlay(cluster, name)
                    script(play)
                    answers[name] = play.events
                    kept = {name: answers[name] for name in SITUATIONS if name in answers}
                    FILE.write_text(file_of(kept), encoding="utf-8")
                    print(f"{name}: {len(play.events)} events", flush=True)
        finally:
            cluster.do("stop", directory)


if __name__ == "__main__":
    main()
