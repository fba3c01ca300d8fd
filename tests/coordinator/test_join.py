"""JoinGroup, as semantics of Kafka 4.3 has it: who is refused, who waits, who rebalances whom."""

from typing import Any

import pytest

from kafka_offsets.coordinator import stored
from kafka_offsets.coordinator.classic import group, join
from kafka_offsets.errors import ErrorCode as E
from kafka_offsets.protocol import messages
from tests.cases import each_case
from tests.drivers.shard import TOPIC, ShardDriver, subscription
from tests.simulation.java_maps import hash_map

ALL_VERSIONS = range(10)


@each_case("version", ALL_VERSIONS)
@each_case(
    ("options", "error"),
    [
        ({"group": "", "session_ms": 1}, E.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, E.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001, "protocols": ()}, E.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, E.UNKNOWN_MEMBER_ID),
        ({"protocols": ()}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_join_is_refused(version: int, options: dict, error: E) -> None:
    answer = ShardDriver().join(version=version, **options).answer
    assert answer.error_code == error
    assert (answer.generation_id, answer.members) == (-1, [])
    assert answer.protocol_name == ("" if version < 7 else None)


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_a_log_that_refuses_is_answered_in_every_version(version: int) -> None:
    request = messages.JoinGroupRequest("g", member_id="m")
    refusal = join.fail_join(request, E.NOT_COORDINATOR, version)
    assert (refusal.error_code, refusal.member_id) == (E.NOT_COORDINATOR, "")
    messages.encode(refusal, version)


def test_a_member_id_without_its_group_creates_no_group() -> None:
    driver = ShardDriver()
    driver.join("nobody")
    assert not driver.shard.groups
    assert not driver.durable


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


def test_from_version_4_on_a_member_is_given_its_id_first() -> None:
    driver = ShardDriver()
    first = driver.join(version=4, client_id="client").answer
    assert first.error_code == E.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("client-")
    assert driver.describe().group_state == "Empty"
    assert driver.describe().members == []
    assert driver.join(first.member_id, version=4).answer.generation_id == 1


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_a_member_joins_at_once(version: int) -> None:
    answer = ShardDriver().join(version=version).answer
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, answer.member_id)
    assert [m.member_id for m in answer.members] == [answer.member_id]


def test_a_member_id_that_is_not_used_expires_after_the_session_timeout() -> None:
    driver = ShardDriver()
    member = driver.join().answer.member_id
    driver.advance(9_999)
    assert driver.join(member).error == 0
    driver = ShardDriver()
    member = driver.join().answer.member_id
    driver.advance(10_000)
    assert driver.join(member).error == E.UNKNOWN_MEMBER_ID


def test_a_pending_member_that_names_an_instance_gets_kafkas_error() -> None:
    driver = ShardDriver()
    member = driver.join().answer.member_id
    assert driver.join(member, "instance").error == E.UNKNOWN_SERVER_ERROR
    assert driver.join(member).error == 0


def test_version_0_has_no_rebalance_timeout_of_its_own() -> None:
    driver = ShardDriver()
    member = driver.join(version=0, session_ms=7_000, rebalance_ms=-1).answer.member_id
    assert driver.group().members[member].rebalance_timeout_ms == 7_000


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"protocols": ("sticky",)}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, E.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody", "protocols": ("sticky",)}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody", "instance": "i"}, E.FENCED_INSTANCE_ID),
        ({"member_id": "nobody", "instance": "other"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_live_group_refuses(options: dict, error: E) -> None:
    driver = ShardDriver()
    driver.stable(instances=("i",))
    assert driver.join(**options).error == error


def test_a_known_looking_id_in_an_empty_group_is_unknown() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.leave(member)
    assert driver.join(member).error == E.UNKNOWN_MEMBER_ID


def test_an_empty_group_takes_another_protocol_type() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.leave(member)
    assert (
        driver.enter(protocol_type="connect", protocols={"default": b"x"}).answer.protocol_name == "default"
    )
    assert driver.describe().protocol_type == "connect"


# Rebalances


def test_a_second_member_makes_the_first_join_again() -> None:
    driver = ShardDriver()
    (first,) = driver.stable()
    second = driver.enter()
    assert second.is_parked
    assert driver.describe().group_state == "PreparingRebalance"
    assert driver.beat(first, 1) == E.REBALANCE_IN_PROGRESS
    leader = driver.join(first).answer
    assert (leader.generation_id, leader.leader, len(leader.members)) == (2, first, 2)
    follower = second.answer
    assert (follower.generation_id, follower.leader, follower.members) == (2, first, [])


def test_only_the_leader_forces_a_rebalance_by_joining_again() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable(2)
    answer = driver.join(follower).answer
    assert (answer.error_code, answer.generation_id, answer.leader, answer.members) == (0, 2, leader, [])
    assert driver.describe().group_state == "Stable"
    assert driver.join(leader).is_parked
    assert driver.beat(follower, 2) == E.REBALANCE_IN_PROGRESS


def test_a_follower_with_other_metadata_forces_a_rebalance() -> None:
    driver = ShardDriver()
    _, follower = driver.stable(2)
    assert driver.join(follower, protocols={"range": subscription("other")}).is_parked


def test_a_follower_with_its_protocols_in_another_order_forces_a_rebalance() -> None:
    driver = ShardDriver()
    _, follower = driver.stable(2, protocols=("range", "sticky"))
    assert driver.join(follower, protocols=("sticky", "range")).is_parked


def test_while_the_assignment_is_awaited_the_same_join_has_the_same_answer() -> None:
    driver = ShardDriver()
    (leader,) = driver.stable()
    second = driver.enter()
    driver.join(leader)
    again = driver.join(leader).answer
    assert (again.generation_id, len(again.members)) == (2, 2)
    follower = driver.join(second.answer.member_id).answer
    assert (follower.generation_id, follower.members) == (2, [])


def test_while_the_assignment_is_awaited_a_changed_join_sends_parked_syncs_back() -> None:
    driver = ShardDriver()
    (leader,) = driver.stable()
    follower = driver.enter()
    driver.join(leader)
    parked = driver.sync(follower.answer.member_id, 2)
    assert parked.is_parked
    assert driver.join(leader, protocols={"range": subscription("other")}).is_parked
    assert parked.error == E.REBALANCE_IN_PROGRESS


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


def test_pending_members_are_waited_for() -> None:
    driver = ShardDriver()
    (leader,) = driver.stable()
    pending = driver.join().answer.member_id
    parked = driver.join(leader)
    assert parked.is_parked
    driver.join(pending)
    assert len(parked.answer.members) == 2


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


def test_a_join_that_is_sent_again_takes_the_place_of_the_first() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable(2)
    first = driver.join(leader)
    again = driver.join(leader)
    assert first.error == E.REBALANCE_IN_PROGRESS
    assert again.is_parked
    driver.join(follower)
    assert again.error == 0


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


def test_all_members_may_leave_during_the_initial_delay() -> None:
    driver = ShardDriver(group_initial_rebalance_delay_ms=3_000)
    parked = driver.join(instance="one")
    driver.leave(("", "one"))
    assert parked.error == E.UNKNOWN_MEMBER_ID
    driver.advance(3_000)
    assert (driver.describe().group_state, driver.group().generation) == ("Empty", 1)


# The size limit


def test_a_full_group_refuses_newcomers_before_it_looks_at_anything_else() -> None:
    driver = ShardDriver(group_max_size=2)
    first, second = driver.stable(2)
    assert driver.join(version=3, protocols=()).error == E.GROUP_MAX_SIZE_REACHED
    assert driver.join("nobody").answer.member_id == ""
    assert driver.join(second).error == 0
    assert driver.beat(first, 2) == 0


def test_a_loaded_group_over_the_limit_rebalances_and_refuses_the_last_member() -> None:
    driver = ShardDriver()
    members = driver.stable(3)
    driver = driver.restart(group_max_size=2)
    assert driver.describe().group_state == "PreparingRebalance"
    joins = [driver.join(member) for member in members]
    assert joins[2].error == E.GROUP_MAX_SIZE_REACHED
    assert joins[0].error == joins[1].error == 0


# The choice of the protocol


@pytest.mark.parametrize(
    ("votes", "chosen"),
    [
        ([("range", "roundrobin"), ("roundrobin", "range")], "range"),
        ([("cooperative-sticky", "range"), ("range", "cooperative-sticky")], "range"),
        ([("sticky", "range"), ("range", "sticky")], "sticky"),
        ([("a", "b", "c"), ("b", "c"), ("c", "b", "a")], "b"),
        ([("a", "b"), ("b", "a"), ("b", "a")], "b"),
        ([("a",), ("b", "a"), ("b", "a")], "a"),
    ],
)
def test_the_protocol_with_most_votes_is_chosen(votes: list[tuple[str, ...]], chosen: str) -> None:
    driver = ShardDriver(group_initial_rebalance_delay_ms=10)
    joins = [driver.join(version=3, protocols=protocols) for protocols in votes]
    driver.advance(100)
    assert {joined.answer.protocol_name for joined in joins} == {chosen}


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


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_restarted_leader_skips_the_assignment(version: int) -> None:
    driver = ShardDriver()
    leader, _ = driver.stable(2, instances=("one", "two"))
    answer = driver.join(instance="one", version=version).answer
    if version >= 9:
        assert (answer.skip_assignment, answer.leader, len(answer.members)) == (True, answer.member_id, 2)
    else:  # an id of nobody, so that it does not take itself for the leader
        assert (answer.skip_assignment, answer.leader, answer.members) == (False, leader, [])
    assert driver.group().leader == answer.member_id
    assert driver.describe().group_state == "Stable"


def test_a_restarted_member_that_changes_the_protocol_rebalances() -> None:
    driver = ShardDriver()
    leader, _ = driver.stable(2, instances=("one", "two"), protocols=("range", "roundrobin"))
    assert driver.join(instance="two", protocols=("roundrobin",)).is_parked
    assert driver.beat(leader, 2, "one") == E.REBALANCE_IN_PROGRESS


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
    driver.enter(
        protocols={"range": subscription("c")}
    )  # of the next generation, which waits for the first member
    assert (found.is_subscribed_to("b"), found.is_subscribed_to("c")) == (True, False)
    assert read == [(subscription("b"),)]


def test_a_rebalance_under_way_does_not_change_what_the_last_generation_subscribes_to() -> None:
    driver = ShardDriver()
    first, _ = driver.stable(2, protocols={"range": subscription("a")})
    driver.join(first, protocols={"range": subscription("b")})  # the other one has not joined again
    found = driver.group()
    assert (found.is_subscribed_to("a"), found.is_subscribed_to("b")) == (True, False)
