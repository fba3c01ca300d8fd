"""How a member of a consumer group gets from what it has to what it shall have: KIP-848, "Reconciliation Process".

Partitions are written as `{topic: {partition: the epoch in which the member got it}}`; TARGET is epoch 11, the members
come from epoch 10.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_offsets.coordinator.consumer.reconciliation import Step
from kafka_offsets.coordinator.state.consumer_records import Current, MemberState

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def owned(**topics: list[int]) -> list[Any]:
    """What a member says it has; topics by their letter."""
    ids = {"a": A, "b": B, "c": C}
    return [SimpleNamespace(topic_id=ids[name], partitions=found) for name, found in topics.items()]


def step(
    current: Current,
    target: dict[bytes, set[int]],
    *,
    epoch: int = 11,
    says: list[Any] | None = None,
    held: set[tuple[bytes, int]] = frozenset(),  # type: ignore[assignment]
    subscribed: tuple[bytes, ...] = (A, B, C),
    changed: bool = False,
) -> Current | None:
    return Step(
        current=current,
        target_epoch=epoch,
        target={topic: frozenset(partitions) for topic, partitions in target.items()},
        subscribed=lambda topic: topic in subscribed,
        subscribes=bool(subscribed),
        subscription_changed=changed,
        is_held=lambda topic, partition: (topic, partition) in held,
        owned=says,
    ).take()


def stable(assigned: dict[bytes, dict[int, int]], epoch: int = 10) -> Current:
    return Current(epoch, epoch - 1, STABLE, assigned, {})


def test_a_member_in_the_epoch_of_the_target_stays_as_it_is() -> None:
    current = stable({A: {0: 3}}, epoch=11)
    assert step(current, {A: {0, 1}}) is current


def test_a_member_without_partitions_gets_what_is_free_with_the_epoch_of_the_target() -> None:
    assert step(stable({}), {A: {0, 1}, B: {2}}) == Current(
        11, 10, STABLE, {A: {0: 11, 1: 11}, B: {2: 11}}, {}
    )


def test_what_a_member_keeps_keeps_the_epoch_in_which_it_got_it() -> None:
    got = step(stable({A: {0: 3, 1: 7}}), {A: {0, 1, 2}})
    assert got == Current(11, 10, STABLE, {A: {0: 3, 1: 7, 2: 11}}, {})


def test_a_member_gives_up_before_it_moves_to_the_next_epoch_or_gets_anything() -> None:
    got = step(stable({A: {0: 3, 1: 4}, B: {5: 6}}), {A: {0}, C: {9}})
    assert got == Current(10, 10, UNREVOKED, {A: {0: 3}}, {A: {1: 4}, B: {5: 6}})


def test_a_member_that_says_at_once_that_it_has_nothing_of_that_any_more_moves_on() -> None:
    got = step(stable({A: {0: 3, 1: 4}}), {A: {0}, C: {9}}, says=owned(a=[0]))
    assert got == Current(11, 10, STABLE, {A: {0: 3}, C: {9: 11}}, {})


@pytest.mark.parametrize(
    "says",
    [None, owned(a=[1]), owned(b=[5], a=[0]), owned(c=[7], a=[0, 1])],
    ids=["it does not say", "one of two", "the other topic", "one beside what it keeps"],
)
def test_a_member_waits_for_as_long_as_it_has_any_of_what_it_gives_up(says: list[Any] | None) -> None:
    current = Current(10, 9, UNREVOKED, {A: {0: 3}}, {A: {1: 4}, B: {5: 6}})
    assert step(current, {A: {0}}, says=says) is current
    assert step(current, {A: {0}}, says=says, subscribed=(B,)) is current


@pytest.mark.parametrize("says", [owned(), owned(a=[0]), owned(a=[0], c=[1, 5])])
def test_a_member_that_has_given_all_up_moves_on(says: list[Any]) -> None:
    current = Current(10, 9, UNREVOKED, {A: {0: 3}}, {A: {1: 4}, B: {5: 6}})
    assert step(current, {A: {0}, B: {6}}, says=says) == Current(11, 10, STABLE, {A: {0: 3}, B: {6: 11}}, {})


def test_what_others_hold_is_waited_for_in_the_new_epoch() -> None:
    got = step(stable({A: {0: 3}}), {A: {0, 1, 2}, B: {0}}, held={(A, 1), (B, 0)})
    assert got == Current(11, 10, UNRELEASED, {A: {0: 3, 2: 11}}, {})


def test_a_member_that_waits_gets_what_has_become_free_and_waits_for_the_rest() -> None:
    current = Current(11, 10, UNRELEASED, {A: {0: 3}}, {})
    assert step(current, {A: {0, 1, 2}}, held={(A, 2)}) == Current(11, 11, UNRELEASED, {A: {0: 3, 1: 11}}, {})
    assert step(current, {A: {0, 1, 2}}) == Current(11, 11, STABLE, {A: {0: 3, 1: 11, 2: 11}}, {})


def test_a_member_that_waits_gives_up_what_a_newer_target_takes_from_it() -> None:
    current = Current(11, 10, UNRELEASED, {A: {0: 3, 1: 11}}, {})
    assert step(current, {A: {1, 2}}, epoch=12) == Current(11, 11, UNREVOKED, {A: {1: 11}}, {A: {0: 3}})


def test_what_a_member_gives_up_is_its_own_again_when_the_target_says_so() -> None:
    """It holds the partition itself, and nobody else can."""
    current = Current(10, 9, UNREVOKED, {}, {A: {1: 4}})
    assert step(current, {A: {1}}, says=owned(), held={(A, 1)}) == Current(11, 10, STABLE, {A: {1: 11}}, {})


def test_topics_that_a_member_does_not_subscribe_to_are_not_given_to_it() -> None:
    assert step(stable({}), {A: {0}, B: {0}}, subscribed=(A,)) == Current(11, 10, STABLE, {A: {0: 11}}, {})


def test_topics_that_a_member_does_not_subscribe_to_are_taken_from_it() -> None:
    got = step(stable({A: {0: 3}, B: {1: 4}}), {A: {0}, B: {1}}, subscribed=(A,))
    assert got == Current(10, 10, UNREVOKED, {A: {0: 3}}, {B: {1: 4}})


class TestAChangedSubscriptionInTheEpochOfTheTarget:
    """Kafka does not wait for the next assignment to take what is not subscribed to any more."""

    def test_takes_the_topics_that_are_not_subscribed_to(self) -> None:
        current = stable({A: {0: 3}, B: {1: 4}}, epoch=11)
        got = step(current, {A: {0}, B: {1}}, subscribed=(A,), changed=True)
        assert got == Current(11, 11, UNREVOKED, {A: {0: 3}}, {B: {1: 4}})

    def test_takes_nothing_as_long_as_it_is_not_said_to_have_changed(self) -> None:
        current = stable({A: {0: 3}, B: {1: 4}}, epoch=11)
        assert step(current, {A: {0}, B: {1}}, subscribed=(A,)) is current

    def test_leaves_a_member_that_has_them_no_more_stable(self) -> None:
        current = stable({A: {0: 3}, B: {1: 4}}, epoch=11)
        got = step(current, {A: {0}, B: {1}}, subscribed=(A,), changed=True, says=owned(a=[0]))
        assert got == Current(11, 11, STABLE, {A: {0: 3}}, {})

    def test_leaves_a_member_that_has_none_of_the_topics_as_it_was(self) -> None:
        current = stable({A: {0: 3}}, epoch=11)
        assert step(current, {A: {0}}, subscribed=(A, B), changed=True) is current

    def test_is_a_step_for_a_member_that_subscribes_to_nothing_and_has_nothing(self) -> None:
        assert step(stable({}, epoch=11), {}, subscribed=(), changed=True) == Current(11, 11, STABLE, {}, {})

    def test_adds_to_what_a_member_is_giving_up(self) -> None:
        current = Current(10, 9, UNREVOKED, {A: {0: 3}, B: {1: 4}}, {A: {2: 5}, B: {3: 6}})
        got = step(current, {}, subscribed=(A,), changed=True)
        assert got == Current(10, 10, UNREVOKED, {A: {0: 3}}, {A: {2: 5}, B: {3: 6, 1: 4}})

    def test_changes_nothing_of_a_member_that_subscribes_to_nothing_and_is_giving_up_all(self) -> None:
        current = Current(10, 9, UNREVOKED, {}, {A: {2: 5}})
        assert step(current, {}, subscribed=(), changed=True) is current


@pytest.mark.parametrize("says", [None, owned(a=[0])])
def test_a_member_in_a_state_of_a_later_version_has_to_join_again(says: list[Any] | None) -> None:
    current = Current(10, 9, MemberState.UNKNOWN, {A: {0: 3}}, {})
    assert step(current, {A: {0}}, says=says) is None


def test_a_member_in_a_state_of_a_later_version_continues_when_it_has_nothing() -> None:
    current = Current(10, 9, MemberState.UNKNOWN, {A: {0: 3}}, {})
    assert step(current, {A: {0, 1}}, says=owned()) == Current(11, 10, STABLE, {A: {0: 3, 1: 11}}, {})
    assert step(current, {B: {0}}, says=owned()) == Current(11, 10, STABLE, {B: {0: 11}}, {})
