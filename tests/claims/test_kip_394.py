"""Source: KIP-394, a member id for the first JoinGroup. Served in full."""

import pytest

from kafka_offsets.errors import ErrorCode
from tests.drivers.shard import ShardDriver

REQUIRED = ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize("version", [4, 5, 9])
def test_the_first_join_is_answered_a_member_id_to_join_with(version: int) -> None:
    """Public interfaces: from version 4 on an empty member id is MEMBER_ID_REQUIRED, with a new id."""
    driver = ShardDriver()
    first = driver.join(version=version).answer
    assert (first.error_code, first.member_id != "") == (REQUIRED, True)
    second = driver.join(first.member_id, version=version).answer
    assert (second.error_code, second.member_id) == (0, first.member_id)
    assert ([*driver.group().members], driver.group().pending) == ([first.member_id], {})


@pytest.mark.parametrize("version", [0, 3])
def test_older_clients_join_at_once(version: int) -> None:
    """Compatibility: before version 4 the id comes with the first answer."""
    assert ShardDriver().join(version=version, rebalance_ms=10_000).answer.error_code == 0


def test_joins_that_are_sent_again_and_again_make_no_members() -> None:
    """Motivation: clients whose answers get lost made a group grow without bound."""
    driver = ShardDriver()
    ids = {driver.join().answer.member_id for _ in range(50)}
    assert len(ids) == 50
    assert len(driver.group().members) == 0
    assert driver.describe().members == []


def test_an_id_that_is_not_used_within_the_session_timeout_is_forgotten() -> None:
    """Proposed changes: pending members expire."""
    driver = ShardDriver()
    member_id = driver.join(session_ms=7_000).answer.member_id
    driver.advance(7_000)
    assert driver.group().pending == {}
    assert driver.join(member_id).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_not_allocated_is_unknown() -> None:
    """Proposed changes: neither a member nor pending."""
    driver = ShardDriver()
    driver.join()
    assert driver.join("made up").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_those_who_were_given_an_id() -> None:
    """Proposed changes: pending members count among those who are to join."""
    driver = ShardDriver()
    (member,) = driver.stable()
    pending = driver.join().answer.member_id
    again = driver.join(member, protocols={"range": b"changed"})
    assert again.is_parked
    joined = driver.join(pending)
    assert (again.answer.generation_id, joined.answer.generation_id) == (2, 2)


@pytest.mark.parametrize("how", ["forgotten", "leaves"])
def test_a_rebalance_continues_when_an_id_is_given_up(how: str) -> None:
    """Proposed changes: a pending member that is removed is waited for no longer, and nobody else is removed."""
    driver = ShardDriver()
    (member,) = driver.stable(session_ms=30_000)
    pending = driver.join(session_ms=7_000).answer.member_id
    again = driver.join(member, protocols={"range": b"changed"}, session_ms=30_000)
    assert again.is_parked
    if how == "leaves":
        driver.leave(pending)
    else:
        driver.advance(6_999)
        assert again.is_parked
        driver.advance(1)
    assert (again.answer.generation_id, [*driver.group().members]) == (2, [member])


def test_an_id_alone_begins_no_rebalance() -> None:
    """Proposed changes: the group goes on until the member joins with its id."""
    driver = ShardDriver()
    (member,) = driver.stable()
    pending = driver.join().answer.member_id
    assert driver.beat(member, 1) == 0
    driver.join(pending)
    assert driver.beat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_pending_member_may_leave() -> None:
    """Proposed changes: it is removed from those that are waited for."""
    driver = ShardDriver()
    driver.stable()
    pending = driver.join().answer.member_id
    answer = driver.leave(pending)
    assert [m.error_code for m in answer.members] == [0]
    assert driver.group().pending == {}


def test_static_members_need_no_second_request() -> None:
    """KIP-345 beside it: an instance id names a member well enough."""
    assert ShardDriver().join(instance="a").answer.error_code == 0
