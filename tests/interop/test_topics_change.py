"""Members of classic groups see in Metadata that a topic has grown, or that another one matches, and join again.

With librdkafka. kafka-python 3.0.12 does not come to rest when it looks so often, with Apache Kafka neither.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.interop.names import Names
from tests.interop.waiting import until

pytestmark = pytest.mark.interop
REFRESH_MS = 200

Places = set[tuple[str, int]]
Assigned = Callable[[], Places]
"""Lets a member do its work for a moment; returns what it is assigned."""


@contextmanager
def confluent_member(bootstrap: str, group: str, pattern: str) -> Iterator[Assigned]:
    settings = {"topic.metadata.refresh.interval.ms": REFRESH_MS, "group.protocol": "classic"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group} | settings)
    consumer.subscribe([pattern])

    def assigned() -> Places:
        consumer.poll(0.05)
        return {(place.topic, place.partition) for place in consumer.assignment()}

    try:
        yield assigned
    finally:
        consumer.close()


def test_a_classic_member_gets_new_partitions(bootstrap: str, names: Names) -> None:
    admin, prefix = AdminClient({"bootstrap.servers": bootstrap}), names.topic()
    topics = [f"{prefix}.one", f"{prefix}.two"]

    def has(assigned: Assigned, *counts: int) -> None:
        wanted = {
            (topic, index) for topic, count in zip(topics, counts, strict=False) for index in range(count)
        }
        until(lambda: assigned() == wanted, f"the member has {wanted}")

    admin.create_topics([NewTopic(topics[0], 1)])[topics[0]].result(60)
    with confluent_member(bootstrap, names.group(), f"^{re.escape(prefix)}[.].*") as assigned:
        has(assigned, 1)
        admin.create_partitions([NewPartitions(topics[0], 3)])[topics[0]].result(60)
        has(assigned, 3)
        admin.create_topics([NewTopic(topics[1], 2)])[topics[1]].result(60)
        has(assigned, 3, 2)
        admin.delete_topics(topics[:1])[topics[0]].result(60)
        has(assigned, 0, 2)
