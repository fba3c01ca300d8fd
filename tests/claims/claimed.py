"""A broker on virtual time, or several, and what the tests of claims do with them."""

from typing import Any

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.partition.forced_compaction import force_compaction
from kafka_offsets.client.connection import Connection
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.state import stored
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import read_records
from kafka_offsets.storage.files.files import Files, MemoryFiles
from kafka_offsets.testing import Cluster
from tests.broker.groups.test_expiry import after, delete_topic, expired
from tests.drivers.core import CoreClient, make_core
from tests.drivers.members import GroupMember, assignment, stable, turn

__all__ = [
    "CoreClient",
    "GroupMember",
    "after",
    "again",
    "ask_node",
    "assignment",
    "broker",
    "compacted",
    "delete_offsets",
    "delete_topic",
    "describe",
    "expired",
    "killed",
    "offsets_topic",
    "stable",
    "turn",
]

PARTITIONS = 4


def broker(files: Files | None = None, **config: Any) -> BrokerCore:
    """Start a broker whose offsets topic has one partition; with a topic t of four if it has no topics."""
    clock = config.pop("clock", None) or ManualClock()
    core = make_core(files, clock=clock, **{"offsets_topic_num_partitions": 1} | config)
    if core.topics.get("t") is None:
        core.topics.create("t", PARTITIONS)
    return core


def again(core: BrokerCore, **config: Any) -> BrokerCore:
    """Stop a broker and start another one on its files, at the same time."""
    core.close()
    return broker(core.directory.files, clock=core.clock, **config)


def killed(core: BrokerCore, **config: Any) -> BrokerCore:
    """Start another broker on what one leaves that dies now."""
    assert isinstance(core.directory.files, MemoryFiles)
    return broker(MemoryFiles.copy_of(core.directory.files), clock=core.clock, **config)


def offsets_topic(core: BrokerCore, partition: int = 0) -> list[tuple[Any, bytes | None]]:
    """Return the records of the offsets topic: what their keys say, and their values."""
    found = core.topics.partition("__consumer_offsets", partition)
    assert found is not None
    return [
        (stored.parse_key(record.key), record.value)
        for batch in found.log.batches()
        for record in read_records(batch.data)
        if record.key is not None
    ]


def compacted(core: BrokerCore) -> list[tuple[Any, bytes | None]]:
    """Have the cleaner go over the offsets topic, with what was written last; return the records that it leaves."""
    future = force_compaction(core.log_cleaner, "__consumer_offsets", include_active=True)
    for _ in range(1000):
        if future.done():
            break
        after(core, 5)
    assert [each.error for each in future.result(timeout=0).values()] == [None]
    return offsets_topic(core)


def ask_node(cluster: Cluster, node_id: int, request: messages.MessageValue, version: int) -> Any:
    """Have one of several brokers answer."""
    node = next(each for each in cluster.nodes if each.id == node_id)
    with Connection(node.host, node.port, 20) as connection:
        return connection.call(request, version)


def delete_offsets(client: CoreClient, group: str, *places: tuple[str, int]) -> Any:
    """Send OffsetDelete; the error code of the whole, or those of the partitions."""
    request = messages.OffsetDeleteRequest
    topics: dict[str, messages.OffsetDeleteRequest.Topic] = {}
    for topic, partition in places:
        topics.setdefault(topic, request.Topic(topic)).partitions.append(request.Partition(partition))
    answer = client.call(request(group, [*topics.values()]), 0)
    return answer.error_code or {
        (topic.name, p.partition_index): p.error_code for topic in answer.topics for p in topic.partitions
    }


def describe(client: CoreClient, group: str, version: int = 6) -> Any:
    """Describe one group."""
    (described,) = client.call(messages.DescribeGroupsRequest([group]), version).groups
    return described
