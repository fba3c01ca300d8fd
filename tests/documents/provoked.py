"""Errors that need more than a request: faults, a full disk, conditions. Each is provoked on a running broker."""

from collections.abc import Callable
from typing import Any, NamedTuple

from kafka_offsets import ErrorCode
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.testing import Broker, Fault


class Provoked(NamedTuple):
    """An error, in the words of the page, and how to have it.

    api    whose request it is
    code   that its answer has
    told   the situation
    ask    gives the answer, of a broker with a topic "orders" of two partitions and "billing" at 42 in both
    """

    api: str
    code: ErrorCode
    told: str
    ask: Callable[[Broker], Any]


def call(broker: Broker, api: str, version: int, **fields: Any) -> Any:
    """Return the answer to a request."""
    with Connection(*parse_address(broker.bootstrap_servers), timeout_s=20) as connection:
        return connection.call(messages.find(f"{api}Request")(**fields), version)


def commit(
    *expected: int | None, offset: int = 43, partitions: tuple[int, ...] = (0, 1)
) -> Callable[[Broker], Any]:
    """Return what commits for some partitions, each on its condition, None without one."""

    def ask(broker: Broker) -> Any:
        cls = messages.OffsetCommitRequest
        asked = [cls.Partition(partition_index=index, committed_offset=offset) for index in partitions]
        for partition, condition in zip(asked, expected, strict=False):
            if condition is not None:
                conditions.put(partition, condition)
        topics = [cls.Topic(name="orders", partitions=asked)]
        return call(broker, "OffsetCommit", 9, group_id="billing", topics=topics)

    return ask


def produce(broker: Broker) -> Any:
    """Produce one record."""
    records = bytes(encode_batch([(None, b"a", (), 0)]))
    cls = messages.find("ProduceRequest")
    partition = cls.PartitionProduceData(index=0, records=records)
    topic = cls.TopicProduceData(name="orders", partition_data=[partition])
    return call(broker, "Produce", 9, acks=-1, timeout_ms=1000, topic_data=[topic])


def create(broker: Broker) -> Any:
    """Create a topic."""
    topic = messages.find("CreateTopicsRequest").CreatableTopic(
        name="new", num_partitions=1, replication_factor=1
    )
    return call(broker, "CreateTopics", 7, topics=[topic], timeout_ms=1000)


def produce_beyond_the_limit(broker: Broker) -> Any:
    """Produce one record to a broker whose logs may take no more memory."""
    with Broker({"log.memory.max.bytes": 1}) as small:
        small.create_topic("orders", 1)
        return produce(small)


def with_a_full_disk(ask: Callable[[Broker], Any]) -> Callable[[Broker], Any]:
    """Ask while the disk takes no more writes."""

    def asking(broker: Broker) -> Any:
        with broker.faults.disk_full():
            return ask(broker)

    return asking


def with_another_assignment(broker: Broker) -> Any:
    """Commit as a member of a consumer group to which the partition is not assigned."""
    fields = {"group_id": "owners", "member_epoch": 0, "rebalance_timeout_ms": 10_000, "topic_partitions": []}
    member = call(
        broker, "ConsumerGroupHeartbeat", 1, member_id="one", subscribed_topic_names=["pages"], **fields
    )
    cls = messages.OffsetCommitRequest
    topics = [cls.Topic(name="orders", partitions=[cls.Partition(partition_index=0, committed_offset=1)])]
    member_id, epoch = member.member_id, member.member_epoch
    return call(
        broker,
        "OffsetCommit",
        9,
        group_id="owners",
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=topics,
    )


OWNERS = {"offsets.commit.owner.check": True}

PROVOKED = [
    Provoked(
        "OffsetCommit",
        ErrorCode.COMMITTED_OFFSET_MISMATCH,
        "a [condition](commits.md#conditional-commits) does not hold: another offset is committed",
        commit(7, None),
    ),
    Provoked(
        "OffsetCommit",
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        "another partition of the same request with conditions is refused",
        commit(7, None),
    ),
    Provoked(
        "OffsetCommit",
        ErrorCode.INVALID_REQUEST,
        "two conditions on the same partition differ",
        commit(42, 41, partitions=(0, 0)),
    ),
    Provoked(
        "OffsetCommit",
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "with `offsets.commit.owner.check=true`: the partition is not assigned to the member",
        with_another_assignment,
    ),
    Provoked(
        "OffsetCommit",
        ErrorCode.NOT_COORDINATOR,
        "the log of the group takes no more writes, because the disk is full",
        with_a_full_disk(commit()),
    ),
    Provoked("Produce", ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full", with_a_full_disk(produce)),
    Provoked(
        "Produce",
        ErrorCode.KAFKA_STORAGE_ERROR,
        "in memory: the logs take [`log.memory.max.bytes`](service.md#memory)",
        produce_beyond_the_limit,
    ),
    Provoked("CreateTopics", ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full", with_a_full_disk(create)),
]


def provoked_table() -> str:
    """Return the table of what is provoked."""
    lines = ["| API | code | name | when |", "|---|---|---|---|"]
    lines += [f"| {each.api} | {each.code} | {each.code.name} | {each.told} |" for each in PROVOKED]
    return "\n".join(lines)


FAULTS: dict[str, tuple[str, Callable[[Broker], Fault]]] = {
    "NOT_COORDINATOR": ("coordinator_moved()", lambda broker: broker.faults.coordinator_moved()),
    "COORDINATOR_LOAD_IN_PROGRESS": (
        "coordinator_loading()",
        lambda broker: broker.faults.coordinator_loading(),
    ),
    "NOT_LEADER_OR_FOLLOWER": (
        'leader_moved("orders")',
        lambda broker: broker.faults.leader_moved("orders"),
    ),
}
"""Faults that imitate a state of a cluster, by the code that they bring."""


def faults_table(broker: Broker) -> str:
    """Return the table of faults, with the APIs that they strike."""
    lines = ["| code | name | fault | APIs |", "|---|---|---|---|"]
    for name, (call_of_it, begin) in FAULTS.items():
        with begin(broker) as fault:
            apis = ", ".join(sorted(fault.apis or ()))
        lines.append(f"| {ErrorCode[name].value} | {name} | `{call_of_it}` | {apis} |")
    lines.append("| any | any | `error(api, code)` | every API |")
    return "\n".join(lines)
