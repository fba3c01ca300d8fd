"""The ids that a broker draws at random, and ours with those of Kafka: nothing of a walk is then left to chance.

Kafka breaks ties in the order of its hash maps, so which member is assigned which partition depends on the ids of
members and topics. Ours has the same order. Where answers differ, it plays the walk again with Kafka's ids, and then
answers alike, or the difference is one. A recorded walk has Kafka's ids beside the answers, see recorded.py.
"""

import uuid
from collections import defaultdict
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

from tests.differential.printed import Names


class Drawn(NamedTuple):
    """One id in place of a UUID: its text goes into a member id, its bytes are a topic's."""

    text: str
    bytes: bytes = b""

    def __str__(self) -> str:
        return self.text


class Ids(NamedTuple):
    """The ids that a broker showed in one walk.

    members  by what is written for them, such as `#1`
    topics   by the name that the plan has, and how many topics of this name were before
    """

    members: dict[str, str]
    topics: dict[tuple[str, int], bytes]

    @classmethod
    def of(cls, names: Names, prefix: str) -> "Ids":
        """Return the ids of a walk whose names begin with a prefix."""
        members = {label: made for made, label in names.made.items()}
        topics: dict[tuple[str, int], bytes] = {}
        count: dict[str, int] = defaultdict(int)
        for name, topic_id in names.topic_ids():
            planned = name.replace(prefix, "@")
            topics[planned, count[planned]] = topic_id
            count[planned] += 1
        return cls(members, topics)

    def named(self, labels: Container[str]) -> "Ids":
        """Return the ids without the members that are not among the labels."""
        return self._replace(members={label: made for label, made in self.members.items() if label in labels})


NO_IDS = Ids({}, {})


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


def drawn_members(drawn: list[Drawn], ours: Ids) -> set[str]:
    """Return what is written for the members whose ids ours drew: clients choose the other ids."""
    texts = {str(each) for each in drawn}
    return {label for label, made in ours.members.items() if made in texts}


def as_kafka_drew(drawn: list[Drawn], ours: Ids, kafkas: Ids) -> list[Drawn | None]:
    """Return Kafka's id for each that ours drew: both have one name, such as `#1`. None if Kafka's is not known."""
    labels = {made: label for label, made in ours.members.items()}
    names = {topic_id: name for name, topic_id in ours.topics.items()}
    found: list[Drawn | None] = []
    for each in drawn:
        if (label := labels.get(str(each))) in kafkas.members:
            found.append(Drawn(kafkas.members[label]))
        elif (name := names.get(each.bytes)) in kafkas.topics:
            found.append(Drawn("", kafkas.topics[name]))
        else:
            found.append(None)
    return found
