"""The assignors of classic groups: everything is assigned once, fairly; sticky ones move as little as possible.

Oracles: kafka-python's range and round robin assignors; for the sticky ones a search over all assignments, and, when
all members subscribe to the same topics, the largest number of partitions that can stay.
"""

import itertools
from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from kafka_offsets.assignors.assignors import ASSIGNORS, Assignments, Counts, MemberSubscription
from kafka_offsets.protocol.topic_partition import TopicPartition

Members = Mapping[str, MemberSubscription]

TOPICS = ("a", "b", "c", "d")
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6))
subscribed = st.frozensets(st.sampled_from(TOPICS))


@st.composite
def groups(draw: st.DrawFn, *, most: int = 5, alike: bool = False) -> tuple[dict[str, int], Members]:
    """Topics, and members that own partitions from generations before, some of them wrongly or twice."""
    topics = draw(counts)
    names = draw(st.lists(st.sampled_from("uvwxyz"), min_size=1, max_size=most, unique=True))
    shared = draw(subscribed)
    places = [(topic, partition) for topic in TOPICS for partition in range(7)]
    members = {
        name: MemberSubscription(
            shared if alike else draw(subscribed),
            draw(st.frozensets(st.sampled_from(places), max_size=12)),
            draw(st.integers(-1, 3)),
            draw(st.sampled_from([None, None, f"instance-{name}"])),
        )
        for name in names
    }
    return topics, members


def wanted(topics: Counts, members: Members) -> set[TopicPartition]:
    """All partitions of existing topics that have a subscriber."""
    names = set().union(*(member.topics for member in members.values()))
    return {(topic, partition) for topic in names & topics.keys() for partition in range(topics[topic])}


def check_valid(topics: Counts, members: Members, assigned: Assignments) -> None:
    """No partition is assigned twice, or to somebody who does not subscribe to it, or does not exist."""
    assert assigned.keys() == members.keys()
    everything = [place for places in assigned.values() for place in places]
    assert len(everything) == len(set(everything))
    assert set(everything) <= wanted(topics, members)
    for member, places in assigned.items():
        assert {topic for topic, _ in places} <= members[member].topics


def stays(members: Members, assigned: Assignments) -> int:
    """How many partitions stay with the member that rightly owned them."""
    return sum(len(places & rightly_owned(members)[member]) for member, places in assigned.items())


def rightly_owned(members: Members) -> dict[str, frozenset[TopicPartition]]:
    """What each member owns: of two that claim a partition, the one of the later generation."""
    owned = {}
    for name, member in members.items():
        rivals = [other for other_name, other in members.items() if other_name != name]
        owned[name] = frozenset(
            place
            for place in member.owned
            if all(place not in rival.owned or rival.generation < member.generation for rival in rivals)
        )
    return owned


@pytest.mark.slow
@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])
@given(groups())
def test_every_partition_is_assigned_once(name: str, group: tuple[dict[str, int], Members]) -> None:
    topics, members = group
    assigned = ASSIGNORS[name].assign(topics, members)
    check_valid(topics, members, assigned)
    assert set().union(*assigned.values()) == wanted(topics, members)


def by_kafka_python(assignor: type, topics: Counts, members: Members) -> Assignments:
    cluster = SimpleNamespace(
        partitions_for_topic=lambda topic: set(range(topics[topic])) if topic in topics else None
    )
    given_members = [
        SimpleNamespace(
            member_id=name,
            group_instance_id=member.instance_id,
            metadata=SimpleNamespace(topics=sorted(member.topics & topics.keys())),
        )
        # It groups neighbours: static members must come first to be one group.
        for name, member in sorted(members.items(), key=lambda item: (item[1].instance_id is None, item[0]))
    ]
    found = assignor.assign(cluster, given_members)  # type: ignore[attr-defined]
    return {
        name: frozenset((topic, index) for topic, indexes in each.assigned_partitions for index in indexes)
        for name, each in found.items()
    }


@pytest.mark.slow
@given(groups())
def test_range_is_kafkas(group: tuple[dict[str, int], Members]) -> None:
    assigned = ASSIGNORS["range"].assign(*group)
    assert assigned == by_kafka_python(RangePartitionAssignor, *group)


@pytest.mark.slow
@given(groups(alike=True))
def test_round_robin_is_kafkas(group: tuple[dict[str, int], Members]) -> None:
    """With one subscription: kafka-python 3.0.12 raises KeyError when it must pass over a member."""
    assigned = ASSIGNORS["roundrobin"].assign(*group)
    assert assigned == by_kafka_python(RoundRobinPartitionAssignor, *group)


@pytest.mark.slow
@given(groups())
def test_round_robin_passes_over_members_without_the_topic(group: tuple[dict[str, int], Members]) -> None:
    topics, members = group
    order = itertools.cycle(sorted(members, key=lambda name: (not members[name].instance_id, name)))
    expected: dict[str, set[TopicPartition]] = {name: set() for name in members}
    for place in sorted(wanted(topics, members)):
        expected[next(name for name in order if place[0] in members[name].topics)].add(place)
    assert ASSIGNORS["roundrobin"].assign(topics, members) == expected


@pytest.mark.slow
@given(groups(alike=True))
def test_sticky_keeps_what_can_stay_when_all_subscribe_alike(group: tuple[dict[str, int], Members]) -> None:
    topics, members = group
    assigned = ASSIGNORS["sticky"].assign(topics, members)
    loads = [len(places) for places in assigned.values()]
    assert max(loads) - min(loads) <= 1
    existing = wanted(topics, members)
    owned = [len(places & existing) for places in rightly_owned(members).values()]
    each, extra = divmod(len(existing), len(members))
    best = sum(min(count, each) for count in owned) + min(extra, sum(count > each for count in owned))
    assert stays(members, assigned) == best


def least_squares(topics: Counts, members: Members) -> int:
    """The least sum of the squares of loads, by trying every assignment."""
    choices = [
        [name for name, member in members.items() if place[0] in member.topics]
        for place in sorted(wanted(topics, members))
    ]
    return min(sum(chosen.count(name) ** 2 for name in members) for chosen in itertools.product(*choices))


small = st.dictionaries(st.sampled_from(TOPICS[:3]), st.integers(1, 3), max_size=3).filter(
    lambda each: sum(each.values()) <= 6
)


@pytest.mark.slow
@settings(max_examples=60)
@given(small, groups(most=4))
def test_sticky_is_as_balanced_as_the_subscriptions_allow(
    topics: dict[str, int], group: tuple[dict[str, int], Members]
) -> None:
    members = group[1]
    assigned = ASSIGNORS["sticky"].assign(topics, members)
    assert sum(len(places) ** 2 for places in assigned.values()) == least_squares(topics, members)


@pytest.mark.slow
@given(groups())
def test_sticky_changes_nothing_the_second_time(group: tuple[dict[str, int], Members]) -> None:
    topics, members = group
    assigned = ASSIGNORS["sticky"].assign(topics, members)
    again = {name: member._replace(owned=assigned[name], generation=9) for name, member in members.items()}
    assert ASSIGNORS["sticky"].assign(topics, again) == assigned


@pytest.mark.slow
@given(groups())
def test_cooperative_moves_nothing_before_it_is_revoked(group: tuple[dict[str, int], Members]) -> None:
    topics, members = group
    assigned = ASSIGNORS["cooperative-sticky"].assign(topics, members)
    check_valid(topics, members, assigned)
    for member, places in assigned.items():
        for place in places - members[member].owned:
            others = [each for name, each in members.items() if name != member and place in each.owned]
            assert not others, f"{place} is assigned to {member} while others own it"


@pytest.mark.slow
@given(groups())
def test_a_cooperative_rebalance_ends_after_the_revocations(group: tuple[dict[str, int], Members]) -> None:
    topics, members = group
    goal = ASSIGNORS["sticky"].assign(topics, members)
    for generation in itertools.count(4):
        assigned = ASSIGNORS["cooperative-sticky"].assign(topics, members)
        if assigned == {name: member.owned for name, member in members.items()}:
            break
        assert generation < 8, "the members still revoke"
        # Each member keeps what it owns and is assigned, revokes the rest, and joins again.
        members = {
            name: member._replace(owned=assigned[name], generation=generation)
            for name, member in members.items()
        }
    assert sum(map(len, assigned.values())) == len(wanted(topics, members))
    assert sum(len(each) ** 2 for each in assigned.values()) == sum(len(each) ** 2 for each in goal.values())


def test_a_large_group_with_different_subscriptions_is_assigned_in_a_second() -> None:
    """Plain counts, no clock: the number of moves is bounded by the partitions."""
    topics = {f"t{number}": 10 for number in range(50)}
    members = {
        f"m{number:03}": MemberSubscription(frozenset(f"t{(number + step) % 50}" for step in range(10)))
        for number in range(100)
    }
    assigned = ASSIGNORS["sticky"].assign(topics, members)
    check_valid(topics, members, assigned)
    assert {len(places) for places in assigned.values()} == {5}
