"""The driver of the replicas of one broker: other brokers are played by the test."""

from kafka_offsets.broker.cluster.apis import ClusterApis
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore, ClusterPart
from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.broker.partition.replica_assignment import ClusterTopics
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.metadata.in_process import InProcessMembership, InProcessMetadata
from kafka_offsets.protocol import messages
from kafka_offsets.storage.directory.catalogue import NewTopic
from tests.drivers.core import commit_request
from tests.storage.crash.faults import FaultyFiles

OFFSETS = "__consumer_offsets"


class PlayedChannel:
    """A channel to a broker that the test plays: it keeps requests until the test answers them."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.sent = []
        self.closed = 0

    def send(self, request, version, on_answer) -> None:
        self.sent.append((request, on_answer))

    def close(self) -> None:
        self.sent.clear()
        self.closed += 1

    def answer(self, response) -> None:
        self.sent.pop(0)[1](response)


class Node:
    """Broker 1 of a cluster; the others are played."""

    def __init__(self, files=None, **config) -> None:
        self.files = FaultyFiles() if files is None else files
        self.clock = ManualClock()
        self.channels = {}
        self.metadata = InProcessMetadata([1, 2, 3])
        settings = {"offsets_topic_num_partitions": 1, "offsets_topic_replication_factor": 2, **config}
        self.core = BrokerCore(
            Config(node_id=1, given=frozenset({"node.id"}), **settings),
            self.files,
            self.clock,
            cluster=ClusterPart("cluster", self._channel_to),
        )
        membership = InProcessMembership(self.metadata, 1)
        self.core.replicas.membership = membership
        self.core.topics.cluster = ClusterTopics(membership, self.core.config, lambda name: 0)
        self.core.broker.apis = ClusterApis(membership).table(self.core.broker.apis)
        membership.on_change = self.core.replicas.apply
        self.metadata.join(membership, "localhost", 9001)
        for other in (2, 3):
            self.metadata.join(InProcessMembership(self.metadata, other), "localhost", 9000 + other)
        self.membership = membership

    def _channel_to(self, target):
        return self.channels.setdefault(target, PlayedChannel(target))

    def close(self) -> None:
        self.core.close()

    def create(self, name="orders", *replicas) -> None:
        wanted = NewTopic(name, len(replicas), replicas=[list(each) for each in replicas])
        self.core.topics.create_several([wanted])
        self.core.end_turn()

    def partition(self, name="orders", index=0):
        return self.core.topics.get(name).partitions[index]

    def pass_time(self, ms) -> None:
        """Advance the clock in small steps."""
        for _ in range(max(ms // 100, 1)):
            self.clock.advance(min(ms, 100))
            self.core.run_due()
            self.core.end_turn()

    def publish(self, result) -> None:
        error, delta = result if isinstance(result, tuple) else (ErrorCode.NONE, result)
        assert not error
        self.metadata.publish(delta)
        self.core.end_turn()

    def fetched_by(self, follower, name, offset) -> None:
        """Have a follower fetch a partition at an offset, which says that it has the records before."""
        partition = self.partition(name)
        asked = messages.FetchRequest.FetchPartition(0, fetch_offset=offset)
        epoch = self.metadata.image.brokers.by_id[follower].epoch
        self.core.replicas.fetched(partition, follower, epoch, asked)
        self.core.end_turn()


def broken(files, prefix):
    """Let files refuse everything below a folder."""
    files.only = lambda operation, path: path.startswith(prefix)
    files.fail_at, files.stuck, files.calls = 1, True, []


def repair(files):
    files.only = lambda operation, path: False


def commit(client, offset=5):
    """Send a commit of group g; its answer comes later."""
    client.send((commit_request(client.core, "g", {("t", 0): offset}, 8), 8))
    client.core.end_turn()


def errors(answers):
    return [ErrorCode(answer.topics[0].partitions[0].error_code) for answer in answers]


def ends(partition: Partition) -> dict[Partition, int]:
    """Return what the acknowledgement of all records of a partition waits for."""
    return {partition: partition.log.log_end_offset}
