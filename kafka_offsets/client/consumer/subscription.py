"""Subscription: topics and patterns, or single partitions. Pure; the partitions of a group are in the membership."""

import re
from collections.abc import Iterable

from kafka_offsets.client.commits import MAX_OFFSET, MAX_PARTITION
from kafka_offsets.client.consumer.exceptions import SubscriptionNotValid
from kafka_offsets.protocol.topic_partition import TopicPartition


class ConsumerSubscription:
    """What a consumer subscribes to. It only grows; `unsubscribe` begins a new one.

    topics      names, for which the group assigns partitions
    patterns    regular expressions that match whole names of topics, likewise
    partitions  subscribed without a group, each with the offset to start at, or None
    """

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        self.patterns: tuple[re.Pattern[str], ...] = ()
        self.partitions: dict[TopicPartition, int | None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is subscribed."""
        return not (self.partitions or self.is_for_group)

    @property
    def is_for_group(self) -> bool:
        """Whether the group assigns the partitions."""
        return bool(self.topics or self.patterns)

    def add_topics(self, topics: Iterable[str | re.Pattern[str]]) -> None:
        """Add topics and patterns. SubscriptionNotValid if partitions are subscribed."""
        added = list(topics)
        if not added:
            raise SubscriptionNotValid("no topic is named")
        if self.partitions:
            raise SubscriptionNotValid(
                "single partitions are subscribed: topics cannot be subscribed as well"
            )
        for topic in added:
            if isinstance(topic, re.Pattern):
                if not isinstance(topic.pattern, str):
                    raise TypeError("a pattern of bytes matches no name of a topic")
            elif not isinstance(topic, str):
                raise TypeError(f"{topic!r} is neither the name of a topic nor a pattern")
            elif not topic:
                raise SubscriptionNotValid("a topic with an empty name")
        self.topics |= {topic for topic in added if isinstance(topic, str)}
        new = [topic for topic in added if isinstance(topic, re.Pattern) and topic not in self.patterns]
        self.patterns += tuple(dict.fromkeys(new))

    def add_partition(self, topic: str, partition: int, offset: int | None = None) -> None:
        """Add a partition. SubscriptionNotValid if topics are subscribed, and for impossible numbers."""
        if self.is_for_group:
            raise SubscriptionNotValid("topics are subscribed: the group assigns the partitions")
        if not topic or not 0 <= partition <= MAX_PARTITION:
            raise SubscriptionNotValid(f"{topic}-{partition} is no partition")
        if offset is not None:
            check_offset((topic, partition), offset)
        earlier = self.partitions.get((topic, partition))
        self.partitions[topic, partition] = earlier if offset is None else offset

    def matched(self, names: Iterable[str], internal: frozenset[str]) -> frozenset[str]:
        """Return the subscribed topics, given the names of all topics; patterns do not match `internal` ones."""
        matches = {
            name
            for name in names
            if name not in internal and any(pattern.fullmatch(name) for pattern in self.patterns)
        }
        return self.topics | matches


def check_offset(partition: TopicPartition, offset: int) -> None:
    """Raise SubscriptionNotValid for an offset that no record can have."""
    if not 0 <= offset <= MAX_OFFSET:
        raise SubscriptionNotValid(f"{partition[0]}-{partition[1]}: no record has the offset {offset}")
