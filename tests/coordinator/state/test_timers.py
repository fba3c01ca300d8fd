"""Timers against a plain list of what is wanted."""

import random

import pytest

from kafka_offsets.coordinator.state.timers import Timer, Timers
from kafka_offsets.errors import ErrorCode as E
from kafka_offsets.protocol import messages
from tests.drivers.shard import ABC, ShardDriver


@pytest.mark.slow
def test_timers_fall_due_as_a_plain_list_says_and_keep_few_entries() -> None:
    for seed in range(50):
        print("seed", seed)
        rng = random.Random(seed)
        timers, wanted, now, order = Timers(), {}, 0, 0
        for _ in range(2_000):
            key = (rng.choice("ab"), "g", str(rng.randrange(20)))
            action = rng.random()
            if action < 0.6:
                order += 1
                wanted[key] = (now + rng.randrange(1, 10_000), order)
                timers.schedule(wanted[key][0], *key)
            elif action < 0.8:
                wanted.pop(key, None)
                timers.cancel(*key)
            else:
                now += rng.randrange(500)
                due = sorted((at, key) for key, at in wanted.items() if at[0] <= now)
                for at, due_key in due:
                    timer = timers.pop_due(now)
                    assert timer is not None
                    assert (timer.due_ms, (timer.kind, timer.group_id, timer.member_id)) == (at[0], due_key)
                    del wanted[due_key]
                assert timers.pop_due(now) is None
            assert timers.next_deadline_ms == min((due_ms for due_ms, _ in wanted.values()), default=None)
            assert len(timers) == len(wanted)
            assert len(timers._heap) <= 2 * len(wanted) + 64


def test_joins_again_and_again_leave_no_timers() -> None:
    driver = ShardDriver()
    (member,) = driver.stable(rebalance_ms=2**31 - 1)
    for number in range(500):
        driver.join(member, protocols={"range": b"%d" % number}, rebalance_ms=2**31 - 1)
    assert len(driver.shard.timers) == 2  # its session and the sync phase
    assert len(driver.shard.timers._heap) < 100


def test_removed_members_and_groups_have_no_timers() -> None:
    driver = ShardDriver()
    for _ in range(200):
        member = driver.enter(session_ms=1_800_000).answer.member_id
        driver.leave(member)
        driver.join()
        assert driver.delete().error == 0
    assert len(driver.shard.timers) == 0
    assert len(driver.shard.timers._heap) <= 64


def test_a_restarted_static_member_has_one_session() -> None:
    driver = ShardDriver()
    driver.stable(instances=("one",))
    for _ in range(10):
        driver.join(instance="one")
    assert sum(timer.kind == "session" for timer in driver.shard.timers._heap) <= 10
    assert len(driver.shard.timers) <= 3


def test_nothing_waits_for_a_static_member_whose_place_another_one_has() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m0", "a", instance_id="i")
    for number in range(1, 4):
        driver.heartbeat(f"m{number - 1}", -2, instance_id="i")
        driver.enter_consumer(f"m{number}", "a", instance_id="i")
        assert {timer.member_id for timer in pending(driver)} == {f"m{number}"}


def pending(driver: ShardDriver) -> list[Timer]:
    """The timers of a shard that are to fall due."""
    timers = driver.shard.timers
    return [timer for timer in timers._heap if timers._wanted.get(timer[2:]) == timer.order]


@pytest.mark.slow
def test_ten_thousand_member_ids_are_handed_out_and_no_more_until_some_are_used() -> None:
    driver = ShardDriver()
    first = driver.join().answer.member_id
    for _ in range(9_999):
        assert driver.join().error == E.MEMBER_ID_REQUIRED
    refused = driver.join().answer
    assert (refused.error_code, refused.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    assert (driver.describe().group_state, driver.describe().members) == ("Empty", [])
    assert [listed.group_id for listed in driver.list_groups()] == ["g"]
    identity = messages.LeaveGroupRequest.MemberIdentity(first, None)
    assert driver.leave_later(identity).answer.members[0].error_code == 0
    assert driver.join().error == E.MEMBER_ID_REQUIRED
    driver.advance(10_000)
    assert not driver.group().pending
    assert len(driver.shard.timers) == 0


def test_after_a_pause_a_session_that_heartbeats_moved_ends_no_earlier_than_it_should() -> None:
    driver = ShardDriver()
    times = {"session_ms": 30_000, "rebalance_ms": 5_000}
    (old,) = driver.stable(instances=("i",), **times)
    driver.advance(29_000)
    newcomer = driver.enter(**times)
    assert driver.beat(old, 1) == E.REBALANCE_IN_PROGRESS  # its session was to end in 1 s, and now in 30 s
    driver.clock.advance(100_000)
    for result in driver.shard.tick(driver.clock.now()):
        driver.take(result)
    # The join phase ended before that session: its generation has the static member.
    assert {member.member_id for member in newcomer.answer.members} == {old, newcomer.answer.member_id}
