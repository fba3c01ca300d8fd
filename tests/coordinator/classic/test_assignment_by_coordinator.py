"""`group.assignment.by.coordinator`: the coordinator of a classic group assigns its partitions; the leader need not."""

import pytest

from kafka_offsets.assignors import member_data
from kafka_offsets.errors import ErrorCode as E
from tests.drivers.shard import ABC, ShardDriver

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")


def offered(strategy: str, *topics: str) -> dict[str, bytes]:
    return {strategy: member_data.encode_subscription(strategy, topics, (), -1)}


def driver(**settings: object) -> ShardDriver:
    return ShardDriver(ABC, **{"group_assigns": True} | settings)


def assigned(
    driver: ShardDriver, member_id: str, generation: int, protocol: str | None = "range"
) -> list[tuple[str, int]]:
    """What a member gets that sends no assignments."""
    answer = driver.sync(member_id, generation, protocol=protocol).answer
    assert answer.error_code == 0
    return sorted(member_data.decode_assignment(answer.assignment))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_leader_need_not_assign(strategy: str) -> None:
    shard = driver()
    joined = shard.enter(protocols=offered(strategy, "a", "b"))
    assert joined.answer.skip_assignment
    assert shard.group().state.value == "Stable"
    expected = [(topic, partition) for topic in "ab" for partition in range(3)]
    assert assigned(shard, joined.answer.member_id, 1, strategy) == expected
    assert shard.restart(group_assigns=True).beat(joined.answer.member_id, 1) == 0


def test_members_share_the_partitions() -> None:
    shard = driver()
    first = shard.enter(protocols=offered("range", "a"))
    leader = first.answer.member_id
    assigned(shard, leader, 1)
    second = shard.enter(protocols=offered("range", "a"))
    again = shard.join(leader, protocols=offered("range", "a"))
    assert (again.answer.skip_assignment, second.answer.skip_assignment) == (True, False)
    other = second.answer.member_id
    assert sorted(assigned(shard, leader, 2) + assigned(shard, other, 2)) == [("a", n) for n in range(3)]


def test_an_assignment_of_the_leader_changes_nothing() -> None:
    """A leader that does not know skip_assignment assigns in vain."""
    shard = driver()
    joined = shard.enter(version=5, protocols=offered("range", "a"))
    member = joined.answer.member_id
    sent = {member: member_data.encode_assignment([("c", 0)])}
    answer = shard.sync(member, 1, sent, version=3).answer
    assert sorted(member_data.decode_assignment(answer.assignment)) == [("a", n) for n in range(3)]


@pytest.mark.parametrize("settings", [{"group_assigns": False}, {}], ids=["off", "another assignor"])
def test_otherwise_the_leader_assigns(settings: dict[str, bool]) -> None:
    shard = driver(**settings)
    protocols = {"mine": b"?"} if not settings else offered("range", "a")
    joined = shard.enter(protocols=protocols)
    assert not joined.answer.skip_assignment
    assert shard.group().state.value == "CompletingRebalance"
    assert shard.beat(joined.answer.member_id, 1) == 0


def test_a_subscription_that_does_not_parse_leaves_it_to_the_leader() -> None:
    shard = driver()
    shard.enter(protocols={"range": b"\0"})
    assert shard.group().state.value == "CompletingRebalance"


def test_new_partitions_begin_a_rebalance() -> None:
    shard = driver()
    member = shard.enter(protocols=offered("range", "a")).answer.member_id
    assigned(shard, member, 1)
    shard.topics.create("c", 9)  # not one of the group's topics
    assert shard.beat(member, 1) == E.NONE
    shard.topics.create("a", 4)
    assert shard.beat(member, 1) == E.REBALANCE_IN_PROGRESS
    again = shard.join(member, protocols=offered("range", "a"))
    assert assigned(shard, member, again.answer.generation_id) == [("a", n) for n in range(4)]
    assert shard.beat(member, 2) == E.NONE


def test_an_assignment_that_the_log_refuses_is_computed_again() -> None:
    shard = driver()
    member = shard.join().answer.member_id
    shard.hold = True
    joined = shard.join(member, protocols=offered("range", "a"))
    shard.fail_log()
    assert joined.error == E.NOT_COORDINATOR
    shard.hold = False
    again = shard.join(member, protocols=offered("range", "a"))
    assert assigned(shard, member, again.answer.generation_id) == [("a", n) for n in range(3)]
