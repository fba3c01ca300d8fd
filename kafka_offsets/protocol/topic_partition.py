"""TopicPartition: a partition, by the name of its topic and its number."""

from collections.abc import Iterable

TopicPartition = tuple[str, int]


def names_in(given: Iterable[str], what: str) -> list[str]:
    """Return the names that a caller has passed as a list.

    what  of what these are the names, in the plural, for the message
    TypeError for one text, which would be a list of its letters, and for anything but texts.
    """
    if isinstance(given, str):
        raise TypeError(f"a list of {what} is expected, such as [{given!r}], not the text {given!r}")
    if not isinstance(given, Iterable):
        raise TypeError(f"a list of {what} is expected, not {given!r}")
    names = list(given)
    for topic in names:
        if not isinstance(topic, str):
            raise TypeError(f"a list of {what} is expected; it has {topic!r}, which is not a str")
    return names


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic, sorted."""
    indexes_by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        indexes_by_topic.setdefault(topic, []).append(partition)
    return indexes_by_topic
