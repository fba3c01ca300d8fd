"""A classic group that stays one, as the member that would have made it a consumer group is refused.

Kafka 4.3.1 answers the joins and syncs that wait in the group before it refuses the member
(GroupMetadataManager.convertToConsumerGroup), and leaves the timers of their sessions alone.
"""

import pytest

from kafka_offsets.errors import ErrorCode
from tests.drivers.shard import ABC, ShardDriver, subscription

CLASSIC = {"protocols": {"range": subscription("a")}}


def classic_group(count: int) -> tuple[ShardDriver, list[str]]:
    """A stable classic group without assignments, of which a consumer group of two members can be made."""
    driver = ShardDriver(ABC, consumer_max_size=2)
    members = driver.stable(count, **CLASSIC)
    for member in driver.group().members.values():
        member.assignment = b""
    return driver, members


def refuse_newcomer(driver: ShardDriver) -> None:
    """Let a member ask that has no room in the consumer group."""
    assert driver.enter_consumer("m1", "a").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_join_that_waits_is_answered_when_the_newcomer_is_refused() -> None:
    driver, _ = classic_group(1)
    joining = driver.enter(**CLASSIC)
    answer = driver.enter_consumer("m1", "a", server_assignor="none")  # refused before the group is looked at
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert joining.is_parked
    refuse_newcomer(driver)
    assert joining.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group().state.value == "PreparingRebalance"


def test_a_sync_that_waits_is_answered_when_the_newcomer_is_refused() -> None:
    driver, (leader, other) = classic_group(2)
    joining = [driver.join(member, **CLASSIC) for member in (leader, other)]
    syncing = driver.sync(other, joining[1].answer.generation_id)
    refuse_newcomer(driver)
    assert syncing.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group().state.value == "CompletingRebalance"


@pytest.mark.parametrize(("waited_ms", "stays"), [(9_999, False), (10_000, True)])
def test_the_answer_does_not_begin_a_session(waited_ms: int, stays: bool) -> None:
    """A session of 10 s ends while its member waits for its join, without effect, or after the answer."""
    driver, (first, second) = classic_group(2)
    driver.join(first, **CLASSIC)
    driver.advance(5_000)
    driver.beat(second, 2)
    driver.advance(waited_ms - 5_000)
    refuse_newcomer(driver)
    for ms in 1, 5_000, 5_000, 5_000:
        driver.advance(ms)
        assert driver.beat(second, 2) == ErrorCode.REBALANCE_IN_PROGRESS
        assert (first in driver.group().members) == stays


def test_a_new_member_stays_after_the_answer_for_longer_than_its_session() -> None:
    driver, (member,) = classic_group(1)
    joining = driver.enter(**CLASSIC)
    refuse_newcomer(driver)
    for _ in range(3):
        driver.advance(5_000)
        assert driver.beat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert {*driver.group().members} == {member, joining.answer.member_id}
