"""A classic group that stays one, as the member that would have made it a consumer group is refused.

Kafka 4.3.1 answers the joins and syncs that wait in the group before it refuses the member
(GroupMetadataManager.convertToConsumerGroup), and leaves the timers of their sessions alone.
"""

import pytest

from kafka_offsets.errors import ErrorCode
from tests.coordinator.consumer_world import ConsumerWorld
from tests.coordinator.group_world import subscription

CLASSIC = {"protocols": {"range": subscription("a")}}


def classic_group(count: int) -> tuple[ConsumerWorld, list[str]]:
    """A stable classic group without assignments, of which a consumer group of two members can be made."""
    world = ConsumerWorld(consumer_max_size=2)
    members = world.stable(count, **CLASSIC)
    for member in world.group().members.values():
        member.assignment = b""
    return world, members


def refuse_newcomer(world: ConsumerWorld) -> None:
    """Let a member ask that has no room in the consumer group."""
    assert world.enter_consumer("m1", "a").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_join_that_waits_is_answered_when_the_newcomer_is_refused() -> None:
    world, _ = classic_group(1)
    joining = world.enter(**CLASSIC)
    answer = world.enter_consumer("m1", "a", server_assignor="none")  # refused before the group is looked at
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert joining.is_parked
    refuse_newcomer(world)
    assert joining.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.group().state.value == "PreparingRebalance"


def test_a_sync_that_waits_is_answered_when_the_newcomer_is_refused() -> None:
    world, (leader, other) = classic_group(2)
    joining = [world.join(member, **CLASSIC) for member in (leader, other)]
    syncing = world.sync(other, joining[1].answer.generation_id)
    refuse_newcomer(world)
    assert syncing.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.group().state.value == "CompletingRebalance"


@pytest.mark.parametrize(("waited_ms", "stays"), [(9_999, False), (10_000, True)])
def test_the_answer_does_not_begin_a_session(waited_ms: int, stays: bool) -> None:
    """A session of 10 s ends while its member waits for its join, without effect, or after the answer."""
    world, (first, second) = classic_group(2)
    world.join(first, **CLASSIC)
    world.advance(5_000)
    world.beat(second, 2)
    world.advance(waited_ms - 5_000)
    refuse_newcomer(world)
    for ms in 1, 5_000, 5_000, 5_000:
        world.advance(ms)
        assert world.beat(second, 2) == ErrorCode.REBALANCE_IN_PROGRESS
        assert (first in world.group().members) == stays


def test_a_new_member_stays_after_the_answer_for_longer_than_its_session() -> None:
    world, (member,) = classic_group(1)
    joining = world.enter(**CLASSIC)
    refuse_newcomer(world)
    for _ in range(3):
        world.advance(5_000)
        assert world.beat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert {*world.group().members} == {member, joining.answer.member_id}
