"""TopicPartition: a partition, by the name of its topic and its number."""

from collections.abc import Iterable

TopicPartition = tuple[str, int]


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic, sorted."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        found.setdefault(topic, []).append(partition)
    return found
