"""Requests to one node of a cluster, over a socket."""

from typing import Any

from kafka_offsets.client.connection import Connection
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import batch_headers, encode_batch, read_records
from kafka_offsets.testing import Cluster
from tests.drivers.members import join_request

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def ask(cluster: Cluster, node: int, request: messages.MessageValue, version: int) -> Any:
    """Have a node answer."""
    found = next(each for each in cluster.nodes if each.id == node)
    with Connection(found.host, found.port, 120) as connection:
        return connection.call(request, version)


def produce(
    cluster: Cluster,
    node: int,
    *values: str,
    topic: str = "orders",
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 20_000,
    **batch: Any,
) -> messages.ProduceResponse.PartitionProduceResponse:
    """Return what a node answers to a Produce of one batch.

    batch  the producer's fields of the batch, for `encode_batch`
    """
    made = messages.ProduceRequest
    encoded = bytes(encode_batch([(None, value.encode(), (), 0) for value in values], **batch))
    data = [made.PartitionProduceData(partition, encoded)]
    request = made(
        acks=acks, timeout_ms=timeout_ms, topic_data=[made.TopicProduceData(topic, partition_data=data)]
    )
    (answered,) = ask(cluster, node, request, 10).responses
    (found,) = answered.partition_responses
    return found


def fetch(
    cluster: Cluster,
    node: int,
    offset: int = 0,
    *,
    topic: str = "orders",
    epoch: int = -1,
    fetched_epoch: int = -1,
    isolation: int = READ_UNCOMMITTED,
) -> messages.FetchResponse.PartitionData:
    """Return what a node answers to a consumer's Fetch of partition 0; it does not wait."""
    made = messages.FetchRequest
    wanted = made.FetchPartition(0, epoch, offset, fetched_epoch, partition_max_bytes=1 << 20)
    request = made(
        max_wait_ms=0,
        min_bytes=1,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[made.FetchTopic(topic, partitions=[wanted])],
    )
    (answered,) = ask(cluster, node, request, 12).responses
    (found,) = answered.partitions
    return found


def values(fetched: messages.FetchResponse.PartitionData) -> list[str]:
    """Return the values that a Fetch has returned."""
    records = bytes(fetched.records or b"")
    return [
        record.value.decode()
        for position, header in batch_headers(records)
        if not header.is_control
        for record in read_records(records, position, header)
    ]


def commit(
    cluster: Cluster, node: int, group: str, offset: int, member_id: str = "", generation: int = -1
) -> int:
    """Have a node commit an offset of orders-0; return its error code."""
    made = messages.OffsetCommitRequest
    topic = made.Topic("orders", partitions=[made.Partition(0, offset)])
    answer = ask(cluster, node, made(group, generation, member_id, topics=[topic]), 7)
    return int(answer.topics[0].partitions[0].error_code)


def stable_member(cluster: Cluster, group: str) -> tuple[str, int]:
    """Return the id and the generation of the only member of a classic group, which is stable."""
    node = cluster.coordinator(group)
    member_id = ask(cluster, node, join_request(group), 5).member_id
    joined = ask(cluster, node, join_request(group, member_id), 5)
    made = messages.SyncGroupRequest
    assigned = [made.Assignment(member_id, b"all")]
    request = made(group, joined.generation_id, member_id, None, assignments=assigned)
    assert ask(cluster, node, request, 3).error_code == 0
    return member_id, joined.generation_id


class TransactionalProducer:
    """The producer of one transactional id, at whichever nodes lead and coordinate."""

    def __init__(self, cluster: Cluster, name: str = "payments") -> None:
        self.cluster, self.name = cluster, name
        answer = self._ask(messages.InitProducerIdRequest(name, 60_000), 4)
        assert answer.error_code == 0
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences: dict[str, int] = {}

    def _ask(self, request: messages.MessageValue, version: int) -> Any:
        return ask(self.cluster, self.cluster.coordinator(transactional_id=self.name), request, version)

    def send(self, topic: str, *values: str) -> int:
        """Add partition 0 of a topic to the transaction, and append to it; return the error code."""
        made = messages.AddPartitionsToTxnRequest
        named = [made.AddPartitionsToTxnTopic(topic, [0])]
        added = self._ask(
            made(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=named,
            ),
            3,
        )
        (result,) = added.results_by_topic_v3_and_below
        assert result.results_by_partition[0].partition_error_code == 0
        sequence = self._sequences.get(topic, 0)
        data = messages.ProduceRequest.PartitionProduceData(
            0,
            bytes(
                encode_batch(
                    [(None, value.encode(), (), 0) for value in values],
                    producer_id=self.id,
                    producer_epoch=self.epoch,
                    base_sequence=sequence,
                    transactional=True,
                )
            ),
        )
        made_topic = messages.ProduceRequest.TopicProduceData(topic, partition_data=[data])
        request = messages.ProduceRequest(self.name, -1, 20_000, [made_topic])
        answer = ask(self.cluster, self.cluster.leader(topic), request, 10)
        self._sequences[topic] = sequence + len(values)
        return int(answer.responses[0].partition_responses[0].error_code)

    def end(self, *, commits: bool) -> int:
        """End the transaction; return the error code."""
        return int(self._ask(messages.EndTxnRequest(self.name, self.id, self.epoch, commits), 3).error_code)
