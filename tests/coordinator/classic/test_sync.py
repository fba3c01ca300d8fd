"""SyncGroup: its record, deadlines, refused appends. Its answers are in tests/stories/syncs.txt."""

from kafka_offsets.coordinator.state import stored
from kafka_offsets.errors import ErrorCode as E
from tests.drivers.shard import ShardDriver, subscription

VERSIONS = range(6)


def completing(driver: ShardDriver, count: int = 2, **options: object) -> list[str]:
    """A group whose generation waits for its assignment; the leader's id first."""
    joins = [driver.enter(**options) for _ in range(count)]
    joins[0] = driver.join(joins[0].answer.member_id, **options)  # type: ignore[arg-type]
    return [joined.answer.member_id for joined in joins]


def test_the_record_holds_the_generation_and_since_when_it_exists() -> None:
    driver = ShardDriver()
    leader, second = completing(driver, protocols={"range": subscription("orders")})
    made_ms = driver.clock.now().wall_ms
    driver.advance(50)
    driver.sync(leader, 2, {leader: b"L", second: b"S"})
    record = driver.durable[-1]
    assert stored.parse_key(record.key) == stored.GroupKey("g")
    assert record.value is not None
    assert record.value[:2] == b"\0\3"
    value = stored.parse_group_value(record.value)
    assert (value.generation, value.protocol_type, value.protocol, value.leader) == (
        2,
        "consumer",
        "range",
        leader,
    )
    assert value.current_state_timestamp == made_ms
    assert {m.member_id: m.assignment for m in value.members} == {leader: b"L", second: b"S"}
    member = value.members[0]
    assert (member.client_id, member.client_host, member.group_instance_id) == ("c", "/host", None)
    assert (member.session_timeout, member.rebalance_timeout) == (10_000, 60_000)
    assert member.subscription == subscription("orders")


def test_a_sync_that_is_sent_again_takes_the_place_of_the_first() -> None:
    driver = ShardDriver()
    leader, follower = completing(driver)
    first, second = driver.sync(follower, 2), driver.sync(follower, 2)
    assert first.error == E.REBALANCE_IN_PROGRESS
    driver.sync(leader, 2, {follower: b"F"})
    assert second.answer.assignment == b"F"


def test_members_that_never_sync_are_removed_after_the_rebalance_timeout() -> None:
    driver = ShardDriver()
    leader, follower = completing(driver, rebalance_ms=5_000)
    driver.sync(leader, 2, {leader: b"L"})
    driver.advance(4_999)
    assert driver.beat(follower, 2) == 0
    driver.advance(1)
    assert driver.beat(follower, 2) == E.UNKNOWN_MEMBER_ID
    assert driver.beat(leader, 2) == E.REBALANCE_IN_PROGRESS


def test_a_static_member_that_starts_again_before_it_has_synced_must_sync_all_the_same() -> None:
    driver = ShardDriver()
    leader = driver.join(instance="a", rebalance_ms=5_000).answer.member_id
    driver.join(instance="b", rebalance_ms=5_000)
    driver.join(leader, "a", rebalance_ms=5_000)
    driver.sync(leader, 2, {leader: b"L"}, instance="a")
    again = driver.join(instance="b", rebalance_ms=5_000).answer
    assert again.generation_id == 2
    driver.advance(4_999)
    assert driver.beat(again.member_id, 2, "b") == 0
    driver.advance(1)
    assert driver.beat(again.member_id, 2, "b") == E.UNKNOWN_MEMBER_ID
    assert driver.beat(leader, 2, "a") == E.REBALANCE_IN_PROGRESS


def test_when_all_have_synced_no_member_is_removed() -> None:
    driver = ShardDriver()
    leader, follower = completing(driver, rebalance_ms=5_000)
    driver.sync(leader, 2, {leader: b"L"})
    driver.sync(follower, 2)
    driver.advance(6_000)
    assert driver.beat(leader, 2) == driver.beat(follower, 2) == 0


def test_a_parked_sync_keeps_its_session() -> None:
    driver = ShardDriver()
    leader, follower = completing(driver, session_ms=10_000, rebalance_ms=60_000)
    parked = driver.sync(follower, 2)
    for _ in range(3):
        driver.advance(9_000)
        assert driver.beat(leader, 2) == 0
    driver.sync(leader, 2, {follower: b"F"})
    assert parked.answer.assignment == b"F"
    driver.advance(9_999)
    assert driver.beat(follower, 2) == 0


# Before the record is durable


def test_no_member_receives_an_assignment_that_is_not_durable() -> None:
    driver = ShardDriver()
    leader, follower = completing(driver)
    driver.hold = True
    asked = [driver.sync(follower, 2), driver.sync(leader, 2, {follower: b"F"})]
    assert all(one.is_parked for one in asked)
    driver.sync_log()
    assert [one.answer.assignment for one in asked] == [b"F", b""]


def test_an_assignment_that_is_refused_is_void_and_the_group_rebalances() -> None:
    driver = ShardDriver()
    leader, follower = completing(driver)
    driver.hold = True
    asked = [driver.sync(follower, 2), driver.sync(leader, 2, {follower: b"F"})]
    driver.fail_log()
    driver.hold = False
    assert [one.error for one in asked] == [E.NOT_COORDINATOR] * 2
    assert driver.beat(follower, 2) == E.REBALANCE_IN_PROGRESS
    assert [m.member_assignment for m in driver.describe().members] == [b"", b""]
    joins = [driver.join(leader), driver.join(follower)]
    assert {one.answer.generation_id for one in joins} == {3}


def test_a_refused_assignment_of_a_group_that_has_moved_on_changes_nothing() -> None:
    driver = ShardDriver()
    leader, follower = completing(driver)
    driver.hold = True
    driver.sync(leader, 2, {leader: b"L", follower: b"F"})
    driver.join(leader)
    driver.join(follower)
    assert driver.group().generation == 3
    driver.fail_log()
    assert driver.group().state.value == "CompletingRebalance"
