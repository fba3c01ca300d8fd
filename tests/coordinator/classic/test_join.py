"""JoinGroup: records, deadlines to the millisecond, refused appends. Its answers are in tests/stories/joins.txt."""

from typing import Any

import pytest

from kafka_offsets.coordinator.classic import join
from kafka_offsets.coordinator.state import classic_group as group
from kafka_offsets.coordinator.state import stored
from kafka_offsets.errors import ErrorCode as E
from kafka_offsets.protocol import messages
from tests.drivers.shard import TOPIC, ShardDriver, subscription
from tests.simulation.java_maps import hash_map

ALL_VERSIONS = range(10)


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_a_log_that_refuses_is_answered_in_every_version(version: int) -> None:
    request = messages.JoinGroupRequest("g", member_id="m")
    refusal = join.fail_join(request, E.NOT_COORDINATOR, version)
    assert (refusal.error_code, refusal.member_id) == (E.NOT_COORDINATOR, "")
    messages.encode(refusal, version)


def test_a_first_join_stores_the_empty_group_even_if_it_is_refused() -> None:
    driver = ShardDriver()
    driver.join(protocols=())
    (record,) = driver.durable
    assert record.value is not None
    assert record.value[:2] == b"\0\3"
    value = stored.parse_group_value(record.value)
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("", 0, None, None)
    assert value.current_state_timestamp == driver.clock.now().wall_ms
    driver.join()
    assert len(driver.durable) == 1


def test_a_member_id_that_is_not_used_expires_after_the_session_timeout() -> None:
    driver = ShardDriver()
    member = driver.join().answer.member_id
    driver.advance(9_999)
    assert driver.join(member).error == 0
    driver = ShardDriver()
    member = driver.join().answer.member_id
    driver.advance(10_000)
    assert driver.join(member).error == E.UNKNOWN_MEMBER_ID


# Rebalances


def test_a_rebalance_ends_at_its_timeout_without_those_that_are_missing() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable(2, rebalance_ms=8_000, session_ms=30_000)
    joined = driver.join(leader, rebalance_ms=8_000, session_ms=30_000)
    driver.advance(7_999)
    assert joined.is_parked
    driver.advance(1)
    assert [m.member_id for m in joined.answer.members] == [leader]
    assert driver.beat(follower, 3) == E.UNKNOWN_MEMBER_ID


def test_another_leader_is_elected_when_the_leader_does_not_join() -> None:
    driver = ShardDriver()
    _, second, third = driver.stable(3, rebalance_ms=8_000, session_ms=30_000)
    changed = {"range": subscription("other")}
    joins = [
        driver.join(member, rebalance_ms=8_000, session_ms=30_000, protocols=changed)
        for member in (second, third)
    ]
    driver.advance(8_000)
    assert {joined.answer.leader for joined in joins} == {second}
    assert [len(joined.answer.members) for joined in joins] == [2, 0]


def test_a_leader_receives_the_members_in_the_order_of_kafkas_hash_map() -> None:
    """Asked of Kafka 4.3.1 with 3, 8, 14 and 30 members."""
    driver = ShardDriver()
    members = driver.stable(8)
    joins = [driver.join(member) for member in members]
    listed = [member.member_id for member in joins[0].answer.members]
    assert listed == hash_map(members) != members


def test_static_members_that_do_not_join_stay_until_their_session_ends() -> None:
    driver = ShardDriver()
    _, static = driver.stable(2, instances=("one", "two"), rebalance_ms=8_000, session_ms=30_000)
    leader = driver.group().leader
    assert leader is not None
    joined = driver.join(leader, "one", rebalance_ms=8_000, session_ms=30_000)
    driver.advance(8_000)
    assert {m.member_id for m in joined.answer.members} == {leader, static}


def test_a_static_group_without_rejoining_members_continues_to_wait() -> None:
    driver = ShardDriver()
    (only,) = driver.stable(1, instances=("one",), rebalance_ms=8_000, session_ms=30_000)
    pending = driver.join().answer.member_id
    driver.leave(pending)  # a pending member that leaves starts a rebalance
    driver.advance(20_000)
    assert driver.describe().group_state == "PreparingRebalance"
    assert [m.member_id for m in driver.describe().members] == [only]
    driver.advance(10_000)
    assert driver.describe().group_state == "Empty"
    assert driver.group().generation == 2


def test_a_rebalance_timeout_of_nothing_does_not_spin() -> None:
    driver = ShardDriver()
    driver.stable(1, instances=("one",))
    driver.join(instance="one", rebalance_ms=0)
    driver.leave(driver.join().answer.member_id)
    driver.tick()
    assert driver.describe().group_state == "PreparingRebalance"


def test_a_parked_join_of_a_new_member_ends_after_five_minutes() -> None:
    driver = ShardDriver()
    (leader,) = driver.stable(rebalance_ms=600_000, session_ms=1_000_000)
    newcomer = driver.enter(session_ms=10_000)
    driver.advance(299_999)
    assert newcomer.is_parked
    driver.advance(1)
    assert newcomer.error == E.UNKNOWN_MEMBER_ID
    assert newcomer.answer.member_id == ""
    assert driver.join(leader, rebalance_ms=600_000, session_ms=1_000_000).answer.generation_id == 2


def test_a_member_that_waits_in_a_rebalance_does_not_expire() -> None:
    driver = ShardDriver()
    first, second = driver.stable(2, rebalance_ms=60_000, session_ms=10_000)
    joined = driver.join(first)
    for _ in range(10):
        driver.advance(5_000)
        driver.beat(second, 2)
    assert joined.is_parked
    driver.join(second)
    assert joined.error == 0
    driver.advance(9_999)
    assert driver.beat(first, 3) == 0


# The initial delay


def test_the_initial_delay_gathers_members_into_one_generation() -> None:
    driver = ShardDriver(group_initial_rebalance_delay_ms=3_000)
    first = driver.join(version=3)
    driver.advance(2_999)
    assert first.is_parked
    driver.advance(1)
    assert first.answer.generation_id == 1


def test_newcomers_extend_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    driver = ShardDriver(group_initial_rebalance_delay_ms=3_000)
    joins = [driver.join(version=3, rebalance_ms=10_000)]
    while joins[0].is_parked:
        driver.advance(1_000)
        if joins[0].is_parked:
            joins.append(driver.join(version=3, rebalance_ms=10_000))
    assert driver.clock.now().mono_ms == 10_000
    assert {joined.answer.generation_id for joined in joins} == {1}
    assert len(joins[0].answer.members) == len(joins)


# The size limit


def test_a_loaded_group_over_the_limit_rebalances_and_refuses_the_last_member() -> None:
    driver = ShardDriver()
    members = driver.stable(3)
    driver = driver.restart(group_max_size=2)
    assert driver.describe().group_state == "PreparingRebalance"
    joins = [driver.join(member) for member in members]
    assert joins[2].error == E.GROUP_MAX_SIZE_REACHED
    assert joins[0].error == joins[1].error == 0


# Static members


def test_a_restarted_follower_keeps_its_generation_and_gets_a_new_id() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable(2, instances=("one", "two"))
    answer = driver.join(instance="two").answer
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 2, leader)
    assert answer.member_id.startswith("two-")
    assert answer.member_id != follower
    assert (answer.skip_assignment, answer.members) == (False, [])
    assert driver.beat(follower, 2, "two") == E.FENCED_INSTANCE_ID
    assert driver.beat(follower, 2) == E.UNKNOWN_MEMBER_ID
    assert driver.sync(answer.member_id, 2, instance="two").answer.assignment == b"of 1"
    value = stored.parse_group_value(driver.durable[-1].value or b"")
    assert [(m.member_id, m.assignment) for m in value.members] == [
        (leader, b"of 0"),
        (answer.member_id, b"of 1"),
    ]
    assert value.generation == 2


def test_a_restarted_member_fences_the_requests_that_its_old_self_has_parked() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable(2, instances=("one", "two"))
    driver.join(leader, "one")
    parked = driver.join(follower, "two", protocols={"range": subscription("other")}).answer
    assert parked.error_code == 0
    parked_sync = driver.sync(follower, 3, instance="two")
    parked_join = driver.join(instance="two")  # the leader was told the old id: a rebalance
    assert parked_sync.error == E.FENCED_INSTANCE_ID
    assert driver.beat(leader, 3, "one") == E.REBALANCE_IN_PROGRESS
    again = driver.join(instance="two")
    assert parked_join.error == E.FENCED_INSTANCE_ID
    driver.join(leader, "one")
    assert again.answer.generation_id == 4


def test_a_restarted_member_whose_record_is_refused_has_its_old_id_again() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable(2, instances=("one", "two"))
    driver.hold = True
    rejoin = driver.join(instance="one", protocols={"range": subscription("other")}, session_ms=20_000)
    assert rejoin.is_parked
    driver.fail_log()
    assert rejoin.error == E.NOT_COORDINATOR
    driver.hold = False
    assert driver.group().leader == leader
    assert driver.beat(leader, 2, "one") == 0
    member = driver.group().members[leader]
    assert member.protocols == {"range": subscription(TOPIC)}
    assert member.session_timeout_ms == 10_000
    assert driver.beat(follower, 2, "two") == 0


# Decisions that are not durable yet


def test_a_group_whose_first_record_is_refused_is_removed() -> None:
    driver = ShardDriver()
    driver.hold = True
    first = driver.join()
    driver.fail_log()
    assert first.error == E.NOT_COORDINATOR
    assert not driver.shard.groups


def test_a_parked_first_join_outlives_the_first_record() -> None:
    driver = ShardDriver(group_initial_rebalance_delay_ms=3_000)
    driver.hold = True
    first = driver.join(version=3)
    driver.fail_log()
    driver.hold = False
    driver.advance(3_000)
    member = first.answer.member_id
    assert driver.sync(member, 1, {member: b"a"}).answer.assignment == b"a"
    assert driver.restart().group().generation == 1


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("what", ["group", "protocol_type", "protocols", "instance", "client_id"])
def test_names_that_no_record_can_hold_are_refused_before_anything_changes(what: str, fits: bool) -> None:
    driver = ShardDriver()
    room = 32767 - 37 if what in ("instance", "client_id") else 32767
    name = "\N{EURO SIGN}" * (room // 3) + "x" * (room % 3) + "y" * (not fits)
    options: dict[str, Any] = {what: (name,) if what == "protocols" else name}
    first = driver.join(**options)
    group = options.get("group", "g")
    if not fits:
        assert first.error == E.UNKNOWN_SERVER_ERROR
        assert not driver.shard.groups
        assert not driver.durable
        assert not len(driver.shard.timers)
        return
    if first.error == E.MEMBER_ID_REQUIRED:
        first = driver.join(first.answer.member_id, **options)
    joined = first.answer
    synced = driver.sync(
        joined.member_id, 1, protocol=None, version=4, group=group, instance=options.get("instance")
    )
    assert (joined.error_code, synced.error) == (0, 0)
    assert driver.describe(group).group_state == "Stable"
    assert driver.restart().group(group).members.keys() == {joined.member_id}
    assert driver.join(joined.member_id, **options).error == 0


def test_a_member_that_joins_others_with_a_name_too_long_does_not_change_them() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    before = len(driver.durable)
    assert driver.join(protocols=("range", "x" * 32768)).error == E.UNKNOWN_SERVER_ERROR
    assert driver.join(member, protocols=("range", "x" * 32768)).error == E.UNKNOWN_SERVER_ERROR
    assert driver.join(instance="x" * 32731).error == E.UNKNOWN_SERVER_ERROR
    assert driver.beat(member, 1) == 0
    assert (driver.describe().group_state, len(driver.durable)) == ("Stable", before)


def test_static_members_that_do_not_join_in_time_are_waited_for_again() -> None:
    """Kafka keeps them until their sessions end, so that a restart of all of them at once costs nothing."""
    driver = ShardDriver()
    (member,) = driver.stable(1, instances=("one",), session_ms=100_000, rebalance_ms=5000)
    joining = driver.join(
        driver.join(version=9, session_ms=100_000, rebalance_ms=5000).answer.member_id, session_ms=100_000
    )
    assert joining.is_parked
    newcomer = next(iter(set(driver.group().members) - {member}))
    assert driver.leave(newcomer).members[0].error_code == 0
    for _ in range(3):
        driver.advance(60_000)
        assert driver.beat(member, 1, "one") == E.REBALANCE_IN_PROGRESS
        assert driver.group().state.value == "PreparingRebalance"
    again = driver.join(member, "one", session_ms=100_000, rebalance_ms=5000)
    assert (again.error, again.answer.generation_id, again.answer.leader) == (0, 2, member)


def test_what_a_generation_subscribes_to_is_read_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A JoinGroup of 24 MB that named 4,000,000 topics held up everybody for 1.3 s, though it is never stored.
    driver = ShardDriver()
    read: list[Any] = []
    subscribed_topics = group._subscribed_topics

    def noted(members: Any) -> Any:
        read.append(members)
        return subscribed_topics(members)

    monkeypatch.setattr(group, "_subscribed_topics", noted)
    (member,) = driver.stable(protocols={"range": subscription("a")})
    assert read == []
    driver.join(member, protocols={"range": subscription("b")})
    found = driver.group()
    assert (found.is_subscribed_to("a"), found.is_subscribed_to("b")) == (False, True)
    # Of the next generation, which waits for the first member.
    driver.enter(protocols={"range": subscription("c")})
    assert (found.is_subscribed_to("b"), found.is_subscribed_to("c")) == (True, False)
    assert read == [(subscription("b"),)]


def test_a_rebalance_under_way_does_not_change_what_the_last_generation_subscribes_to() -> None:
    driver = ShardDriver()
    first, _ = driver.stable(2, protocols={"range": subscription("a")})
    driver.join(first, protocols={"range": subscription("b")})  # the other one has not joined again
    found = driver.group()
    assert (found.is_subscribed_to("a"), found.is_subscribed_to("b")) == (True, False)
