"""Requests of the tests of faults, and what their answers say."""

from typing import Any

from kafka_offsets import Broker
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.protocol import messages, records


def connect(broker: Broker, timeout_s: float = 10.0) -> Connection:
    return Connection(*parse_address(broker.bootstrap_servers), timeout_s)


Place = tuple[str, int]


def commit(client: Connection, group: str = "g", offset: int = 5, *places: Place) -> dict[Place, int]:
    request = messages.OffsetCommitRequest
    topics = {topic: request.Topic(topic) for topic, _ in places or [("t", 0)]}
    for topic, partition in places or [("t", 0)]:
        topics[topic].partitions.append(request.Partition(partition, offset))
    answer = client.call(request(group, topics=list(topics.values())), 8)
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


def produce(client: Connection, *partitions: int, acks: int = -1, value: bytes = b"v" * 100) -> Any:
    request = messages.ProduceRequest
    batch = bytes(records.encode_batch([(b"k", value, (), 1_700_000_000_000)]))
    data = [request.PartitionProduceData(each, batch) for each in partitions or [0]]
    topic = request.TopicProduceData("t", partition_data=data)
    return client.call(request(acks=acks, timeout_ms=1000, topic_data=[topic]), 7)


def produced(answer: Any) -> list[tuple[int, int]]:
    return [(each.index, each.error_code) for topic in answer.responses for each in topic.partition_responses]


def fetch(client: Connection, *partitions: int, session: tuple[int, int] = (0, -1), wait_ms: int = 0) -> Any:
    request = messages.FetchRequest
    named = [request.FetchPartition(each, fetch_offset=0, partition_max_bytes=1 << 20) for each in partitions]
    asked = request(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[request.FetchTopic("t", partitions=named)] if named else [],
    )
    return client.call(asked, 7)


def fetched(answer: Any) -> dict[int, int]:
    return {each.partition_index: each.error_code for topic in answer.responses for each in topic.partitions}
