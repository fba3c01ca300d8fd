"""Commits of a group without members, by topic ids and not by names: OffsetCommit version 10.

Hooks that stood for consumer groups in a fake cluster knew names alone, and clients found no partition in the answer.
Asked in https://github.com/grafana/loki/pull/22874.
"""

from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.protocol.messages import MetadataRequest, OffsetCommitRequest


def test_a_commit_by_topic_id(kafka_broker):
    kafka_broker.create_topic("orders")
    with Connection(*parse_address(kafka_broker.bootstrap_servers)) as connection:
        (topic,) = connection.call(MetadataRequest(topics=None), 12).topics
        partition = OffsetCommitRequest.Partition(partition_index=0, committed_offset=42)
        topics = [OffsetCommitRequest.Topic(topic_id=topic.topic_id, partitions=[partition])]
        (answer,) = connection.call(OffsetCommitRequest(group_id="billing", topics=topics), 10).topics
    assert (answer.topic_id, answer.partitions[0].error_code) == (topic.topic_id, 0)
    kafka_broker.assert_committed("billing", {("orders", 0): 42})
