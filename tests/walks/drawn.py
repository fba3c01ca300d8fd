"""The ids that a broker draws at random, and ours with those of Kafka: nothing of a walk is then left to chance.

Kafka breaks ties in the order of its hash maps, so which member is assigned which partition depends on the ids of
members and topics. Ours has the same order. Where answers differ, it plays the walk again with Kafka's ids, and then
answers alike, or the difference is one.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from tests.differential.printed import Names


class Drawn:
    """One id in place of a UUID: its text goes into a member id, its bytes are a topic's."""

    def __init__(self, text: str, value: bytes = b"") -> None:
        self._text = text
        self.bytes = value

    def __str__(self) -> str:
        return self._text


class Draws:
    """What ours draws, in order; the first ones may be given."""

    def __init__(self) -> None:
        self._draw = uuid.uuid4
        self._given: list[Drawn | None] = []
        self.ids: list[Drawn] = []

    def repeat(self, given: list[Drawn | None]) -> None:
        """Draw the ids that are given from now on, and others after them and for None."""
        self._given, self.ids = given, []

    def __call__(self) -> Drawn:
        number = len(self.ids)
        found = self._given[number] if number < len(self._given) else None
        if found is None:
            made = self._draw()
            found = Drawn(str(made), made.bytes)
        self.ids.append(found)
        return found


@contextmanager
def draws() -> Iterator[Draws]:
    """Have ours draw ids that can be given."""
    drawn = Draws()
    with mock.patch("uuid.uuid4", drawn):
        yield drawn


def as_kafka_drew(drawn: list[Drawn], ours: Names, kafkas: Names) -> list[Drawn | None]:
    """Return Kafka's id for each that ours drew: both have one name, such as `#1`. None if Kafka's is not known."""
    texts = {label: made for made, label in kafkas.made.items()}
    ids = topic_ids(kafkas)
    names = {value: name for name, value in topic_ids(ours).items()}
    found: list[Drawn | None] = []
    for each in drawn:
        if (label := ours.made.get(str(each))) in texts:
            found.append(Drawn(texts[label]))
        elif (name := names.get(each.bytes)) in ids:
            found.append(Drawn("", ids[name]))
        else:
            found.append(None)
    return found


def topic_ids(names: Names) -> dict[tuple[str, int], bytes]:
    """Return the ids of topics, by name and how many topics of this name were before."""
    found: dict[tuple[str, int], bytes] = {}
    count: dict[str, int] = defaultdict(int)
    for name, topic_id in names.topic_ids():
        found[name, count[name]] = topic_id
        count[name] += 1
    return found
