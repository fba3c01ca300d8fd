"""What the assignors give each member, and in which order maps have their keys: answers of Kafka's own classes.

record_assignor_answers.py asks them.
"""

import gzip
from collections.abc import Callable, Iterator

import pytest

from kafka_offsets.coordinator.consumer.assignors import ASSIGNORS, GroupSpec, Subscriber
from kafka_offsets.coordinator.state import consumer_records
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.coordinator.state.java_order import OrderedByHash, hash_order, timeline_order
from kafka_offsets.protocol.java_hash import string_hash
from tests.cases import each_case
from tests.conftest import DATA

Target = dict[bytes, frozenset[int]]


def answers(kind: str) -> Iterator[tuple[list[str], list[str]]]:
    """The questions of a kind and Kafka's answers, in words."""
    lines = gzip.decompress((DATA / "assignor_answers.tsv.gz").read_bytes()).decode().split("\n")
    for question, answer in zip(lines[::2], lines[1::2], strict=False):
        words = question.split("\t")
        if words[0] == kind:
            yield words[1:], answer.split("\t")


def target_of(text: str) -> Target:
    pairs = (each.split("=") for each in text.split())
    return {bytes.fromhex(topic): frozenset(map(int, found.split(","))) for topic, found in pairs}


def test_each_member_of_five_hundred_groups_is_given_what_kafka_gives_it() -> None:
    asked = 0
    for (name, kind, topics, *words), said in answers("assign"):
        members = {
            member_id: Subscriber(
                instance or None, tuple(map(bytes.fromhex, wanted.split())), target_of(target)
            )
            for member_id, instance, wanted, target in zip(*(words[at::4] for at in range(4)), strict=True)
        }
        counts = {
            bytes.fromhex(topic): int(count) for topic, count in (each.split("=") for each in topics.split())
        }
        found = ASSIGNORS[name](GroupSpec(members, kind == "HOMOGENEOUS", counts))
        expected = {member: target_of(target) for member, target in zip(said[::2], said[1::2], strict=False)}
        assert {member: target for member, target in found.items() if target} == {
            member: target for member, target in expected.items() if target
        }, (name, kind, topics, words)
        asked += 1
    assert asked == 500


def test_names_have_the_order_of_javas_sets_and_of_the_map_of_members() -> None:
    for names, (added, made, timeline) in answers("order"):
        assert " ".join(hash_order(names, string_hash)) == added
        assert " ".join(hash_order(names, string_hash, at_once=True)) == made
        assert " ".join(timeline_order(names)) == timeline


def test_keys_that_are_put_and_computed_have_the_order_of_javas_map() -> None:
    for (expected, *words), (order,) in answers("compute"):
        keys = OrderedByHash(string_hash, int(expected))
        for word in words:
            change: Callable[[str], None] = keys.append if word[0] == "+" else keys.prepend
            change(word[1:])
        assert " ".join(keys) == order, words


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_group_without_members_is_assigned_nothing(name: str) -> None:
    assert ASSIGNORS[name](GroupSpec({}, True, {})) == {}


@each_case(
    ("votes", "leaving", "coming", "winner"),
    [
        ("", None, None, None),
        ("", None, "range", "range"),
        ("uniform", None, "range", "range"),
        ("range", None, "uniform", "uniform"),
        ("uniform uniform", "uniform", "range", "range"),
        ("uniform range", None, None, "uniform"),
        ("uniform range", "range", "range", "range"),
        ("uniform range", "range", None, "uniform"),
        ("uniform uniform range", None, "range", "uniform"),
        ("uniform uniform range", "uniform", None, "uniform"),
        ("range range uniform", None, "uniform", "uniform"),
        ("range range uniform", "uniform", "uniform", "range"),
        ("range range uniform", "range", "uniform", "uniform"),
    ],
)
def test_a_tie_of_votes_for_an_assignor_is_broken_as_kafka_breaks_it(
    votes: str, leaving: str | None, coming: str | None, winner: str | None
) -> None:
    # Answers of ConsumerGroup.computePreferredServerAssignor of Kafka 4.3.1. We counted in a map of 16 buckets, in
    # which "uniform" always comes first.
    group = ConsumerGroup("g")
    for member_id, vote in enumerate(votes.split()):
        group.put(consumer_records.MEMBER, str(member_id), consumer_records.Subscription(assignor=vote))
    assert group.next_assignor(leaving, coming) == winner
