"""Heartbeat and LeaveGroup; Describe-, List- and DeleteGroups; commits by members."""

from typing import Any

import pytest

from kafka_offsets.coordinator import group_requests, stored
from kafka_offsets.coordinator.classic import membership
from kafka_offsets.errors import ErrorCode as E
from kafka_offsets.protocol import messages
from tests.coordinator.group_world import TOPIC, Asked, World, subscription

# Heartbeats


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_is_refused(version: int) -> None:
    world = World()
    (member,) = world.stable(instances=("i",))
    assert world.beat(member, 1, group="missing", version=version) == E.UNKNOWN_MEMBER_ID
    assert world.beat(member, 1, group="", version=version) == E.INVALID_GROUP_ID
    assert world.beat("nobody", 7, version=version) == E.UNKNOWN_MEMBER_ID
    assert world.beat(member, 2, version=version) == E.ILLEGAL_GENERATION
    if version >= 3:
        assert world.beat("nobody", 7, "i", version=version) == E.FENCED_INSTANCE_ID
        assert world.beat(member, 1, "other", version=version) == E.UNKNOWN_MEMBER_ID
    assert world.beat(member, 1, version=version) == 0
    world.leave(member)
    assert world.beat(member, 1, version=version) == E.UNKNOWN_MEMBER_ID


def test_a_heartbeat_while_loading_is_taken_blindly() -> None:
    request = messages.HeartbeatRequest("g", 1, "m")
    assert membership.fail_heartbeat(request, E.COORDINATOR_LOAD_IN_PROGRESS, 4).error_code == 0
    assert membership.fail_heartbeat(request, E.NOT_COORDINATOR, 4).error_code == E.NOT_COORDINATOR


def test_heartbeats_keep_a_session_alive_without_touching_the_timers() -> None:
    world = World()
    (member,) = world.stable()
    scheduled = len(world.shard.timers._heap)
    for _ in range(50):
        world.advance(3_000)
        assert world.beat(member, 1) == 0
    assert len(world.shard.timers._heap) <= scheduled
    world.advance(9_999)
    assert world.describe().group_state == "Stable"
    world.advance(1)
    assert world.describe().group_state == "Empty"
    assert world.beat(member, 1) == E.UNKNOWN_MEMBER_ID


def test_a_heartbeat_in_a_rebalance_keeps_the_session_alive_too() -> None:
    world = World()
    (member,) = world.stable()
    world.enter()
    for _ in range(5):
        world.advance(9_000)
        assert world.beat(member, 1) == E.REBALANCE_IN_PROGRESS


def test_an_expired_leader_is_replaced() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.advance(5_000)
    world.beat(follower, 2)
    world.advance(5_000)
    assert world.beat(leader, 2) == E.UNKNOWN_MEMBER_ID
    assert world.join(follower).answer.leader == follower


def test_a_rebalance_that_no_static_member_has_joined_goes_on() -> None:
    world = World()
    leader, other = world.stable(instances=("a", "b"), rebalance_ms=5_000, session_ms=60_000)
    newcomer = world.join(rebalance_ms=5_000).answer.member_id
    assert world.join(newcomer, rebalance_ms=5_000).is_parked
    world.leave(newcomer)
    world.advance(6_000)
    assert (world.group().state.value, world.group().generation) == ("PreparingRebalance", 2)
    first = world.join(leader, "a", rebalance_ms=5_000, session_ms=60_000)
    assert first.is_parked
    world.advance(5_000)
    assert first.answer.generation_id == 3
    assert [*world.group().members] == [leader, other]


# Leaving


@pytest.mark.parametrize("version", range(3))
def test_a_single_member_leaves_with_its_error_on_top(version: int) -> None:
    world = World()
    (member,) = world.stable()
    assert world.leave("nobody", version=version).error_code == E.UNKNOWN_MEMBER_ID
    assert world.leave(member, version=version, group="missing").error_code == E.UNKNOWN_MEMBER_ID
    assert world.leave(member, version=version, group="").error_code == E.INVALID_GROUP_ID
    assert world.leave(member, version=version).error_code == 0
    assert world.describe().group_state == "Empty"


@pytest.mark.parametrize("version", [3, 4, 5])
def test_several_members_leave_each_with_its_own_error(version: int) -> None:
    world = World()
    leader, static = world.stable(instances=("one", "two"))
    pending = world.join().answer.member_id
    answer = world.leave(
        ("nobody", None),
        ("", "one"),
        ("", "three"),
        ("", None),
        ("nobody", "two"),
        (static, "two"),
        (static, "two"),
        (pending, None),
        version=version,
    )
    assert answer.error_code == 0
    unknown, fenced = E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID
    errors = [m.error_code for m in answer.members]
    assert errors == [unknown, 0, unknown, unknown, fenced, 0, unknown, 0]
    assert [m.member_id for m in answer.members][1] == ""
    assert world.describe().group_state == "Empty"
    assert leader not in world.group().members


def test_leaving_a_missing_group_is_an_error_of_each_member() -> None:
    answer = World().leave("a", ("b", "i"))
    assert (answer.error_code, [m.error_code for m in answer.members]) == (0, [25, 25])
    assert World().leave("a", group="").error_code == E.INVALID_GROUP_ID


def test_a_last_member_that_leaves_makes_an_empty_generation() -> None:
    world = World()
    (member,) = world.stable()
    world.leave(member)
    value = stored.parse_group_value(world.durable[-1].value or b"")
    assert (value.generation, value.protocol_type, value.protocol, value.leader) == (
        2,
        "consumer",
        None,
        None,
    )
    assert value.members == []
    assert value.current_state_timestamp == world.clock.now().wall_ms


def test_leaving_completes_the_join_of_those_that_wait() -> None:
    world = World()
    leader, follower = world.stable(2)
    parked = world.join(leader)
    world.leave(follower)
    assert [m.member_id for m in parked.answer.members] == [leader]


def test_what_a_leaving_member_has_parked_is_answered() -> None:
    world = World()
    leader, follower = world.stable(2)
    join = world.join(leader)
    world.leave(leader)
    assert join.error == E.UNKNOWN_MEMBER_ID
    world.join(follower)
    newcomer = world.enter()
    world.join(follower)
    sync = world.sync(newcomer.answer.member_id, 4)
    assert sync.is_parked
    world.leave(newcomer.answer.member_id)
    assert sync.error == E.UNKNOWN_MEMBER_ID


def test_a_pending_member_that_leaves_makes_a_stable_group_rebalance() -> None:
    world = World()
    (member,) = world.stable()
    world.leave(world.join().answer.member_id)
    assert world.beat(member, 1) == E.REBALANCE_IN_PROGRESS


def test_a_leave_that_is_refused_by_the_log_has_happened_all_the_same() -> None:
    world = World()
    (member,) = world.stable()
    world.hold = True
    request = messages.LeaveGroupRequest("g", members=[messages.LeaveGroupRequest.MemberIdentity(member)])
    asked = world.ask(13, group_requests.leave, request, 5)
    world.fail_log()
    assert asked.error == E.NOT_COORDINATOR
    assert world.describe().group_state == "Empty"
    assert world.group().generation == 2


# Commits


def test_commits_of_a_stable_group() -> None:
    world = World()
    (member,) = world.stable(instances=("i",))
    assert world.commit(member, 1, "i") == 0
    assert world.commit(member, 1) == 0
    assert world.commit() == E.UNKNOWN_MEMBER_ID
    assert world.commit(member) == E.ILLEGAL_GENERATION
    assert world.commit(member, 0) == E.ILLEGAL_GENERATION
    assert world.commit("", 1) == E.UNKNOWN_MEMBER_ID
    assert world.commit("nobody", 1) == E.UNKNOWN_MEMBER_ID
    assert world.commit(member, 1, "other") == E.UNKNOWN_MEMBER_ID
    assert world.commit("nobody", 1, "i") == E.FENCED_INSTANCE_ID
    assert world.commit("", -1, "i") == E.FENCED_INSTANCE_ID


def test_commits_in_a_rebalance_are_accepted_until_the_generation_is_made() -> None:
    world = World()
    (member,) = world.stable()
    newcomer = world.enter()
    assert world.commit(member, 1) == 0
    world.join(member)
    assert world.commit(member, 2) == E.REBALANCE_IN_PROGRESS
    assert world.commit(newcomer.answer.member_id, 1) == E.ILLEGAL_GENERATION


def test_commits_to_an_empty_group() -> None:
    world = World()
    pending = world.join().answer.member_id
    assert world.commit() == 0
    assert world.commit(pending) == 0
    assert world.commit(pending, 0) == E.UNKNOWN_MEMBER_ID
    assert world.commit("nobody", -1) == 0


def test_a_commit_is_a_sign_of_life() -> None:
    world = World()
    (member,) = world.stable()
    for _ in range(5):
        world.advance(9_000)
        assert world.commit(member, 1) == 0
    world.advance(10_000)
    assert world.commit(member, 1) == E.UNKNOWN_MEMBER_ID


# Subscriptions


def test_a_subscribed_topic_keeps_its_offsets() -> None:
    world = World()
    (member,) = world.stable(protocols={"range": subscription("orders", "pages")})
    assert world.group().is_subscribed_to("pages")
    assert (
        world.delete_offset(topic="pages").topics[0].partitions[0].error_code == E.GROUP_SUBSCRIBED_TO_TOPIC
    )
    assert world.delete_offset(topic="other").topics[0].partitions[0].error_code == 0
    world.leave(member)
    assert not world.group().is_subscribed_to("pages")


def test_subscriptions_change_with_the_generation() -> None:
    world = World()
    (member,) = world.stable(protocols={"range": subscription("orders")})
    world.enter(protocols={"range": subscription("pages")})
    assert not world.group().is_subscribed_to("pages")
    world.join(member, protocols={"range": subscription("orders")})
    assert world.group().is_subscribed_to("pages")
    assert world.group().is_subscribed_to("orders")


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\1\0\0", b"\0\0" + b"\xff" * 8, b"junk"])
def test_metadata_that_does_not_parse_subscribes_to_everything(metadata: bytes) -> None:
    world = World()
    world.stable(protocols={"range": metadata})
    assert world.group().is_subscribed_to("anything")


def test_metadata_is_read_as_version_0_whatever_version_it_says() -> None:
    world = World()
    world.stable(protocols={"range": b"\0\x09" + subscription("orders")[2:] + b"junk"})
    assert world.group().is_subscribed_to("orders")
    assert not world.group().is_subscribed_to("pages")


def test_a_group_that_is_no_consumer_is_subscribed_to_nothing_that_is_known() -> None:
    world = World()
    world.stable(protocol_type="connect")
    assert not world.group().is_subscribed_to(TOPIC)
    assert world.delete_offset().error_code == E.NON_EMPTY_GROUP


# Looking


@pytest.mark.parametrize("version", range(7))
def test_a_missing_group_is_dead(version: int) -> None:
    described = World().describe("none", version)
    assert described.group_state == "Dead"
    assert described.error_code == (E.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert described.error_message == ("Group none not found." if version >= 6 else None)


@pytest.mark.parametrize("version", range(7))
def test_metadata_is_shown_while_the_group_is_stable(version: int) -> None:
    world = World()
    (member,) = world.stable()
    described = world.describe(version=version)
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (shown,) = described.members
    assert (shown.member_id, shown.client_id, shown.client_host) == (member, "c", "/host")
    assert (shown.member_metadata, shown.member_assignment) == (subscription(TOPIC), b"of 0")
    world.enter()
    described = world.describe(version=version)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [m.member_metadata for m in described.members] == [b"", b""]
    assert [m.member_assignment for m in described.members] == [b"of 0", b""]


def test_a_simple_group_is_empty_and_has_no_type() -> None:
    world = World()
    world.commit()
    described = world.describe()
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "", [])


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_by_state_and_type_whatever_their_case(version: int) -> None:
    world = World()
    world.stable()
    world.commit(group="simple")
    listed = world.list_groups(version=version)
    assert [(g.group_id, g.protocol_type) for g in listed] == [("g", "consumer"), ("simple", "")]
    if version >= 4:
        assert [g.group_state for g in listed] == ["Stable", "Empty"]
        assert [g.group_id for g in world.list_groups((" eMPTY ",), version=version)] == ["simple"]
        assert world.list_groups(("nonsense",), version=version) == []
    if version >= 5:
        assert {g.group_type for g in listed} == {"classic"}
        assert len(world.list_groups(types=("CLASSIC", "x"))) == 2
        assert world.list_groups(types=("consumer",)) == []


# Deleting


def test_groups_are_deleted_when_they_are_empty() -> None:
    world = World()
    assert world.delete().error == E.GROUP_ID_NOT_FOUND
    (member,) = world.stable()
    world.commit(member, 1)
    assert world.delete().error == E.NON_EMPTY_GROUP
    world.leave(member)
    assert world.delete().error == 0
    assert [(stored.parse_key(r.key), r.value) for r in world.durable[-2:]] == [
        (stored.OffsetKey("g", TOPIC, 0), None),
        (stored.GroupKey("g"), None),
    ]
    assert len(world.shard.offsets) == 0
    assert world.describe().group_state == "Dead"
    assert not world.restart().shard.groups


def test_simple_groups_and_the_group_without_a_name_are_deleted() -> None:
    for group in ("simple", ""):
        world = World()
        world.commit(group=group)
        assert world.delete(group).error == 0
        assert not world.shard.groups
        assert not world.shard.offsets.has_group(group)


def test_offsets_of_open_transactions_are_deleted_too() -> None:
    world = World()
    world.commit(group="g")
    key = stored.OffsetKey("g", "pages", 3)
    entry = world.shard.offsets.get("g", TOPIC, 0)
    assert entry is not None
    world.shard.pending[9] = {key: entry}
    world.delete()
    assert key in [stored.parse_key(record.key) for record in world.durable]
    assert not world.shard.pending[9]


def test_a_group_is_gone_as_soon_as_its_deletion_is_decided() -> None:
    world = World()
    (member,) = world.stable()
    world.leave(member)
    world.hold = True
    world.delete()
    assert "g" not in world.shard.groups
    assert world.delete().is_parked
    first = world.join(version=3)
    world.sync_log()
    assert first.answer.generation_id == 1
    assert world.group().state.value == "CompletingRebalance"
    assert world.sync(first.answer.member_id, 1, {first.answer.member_id: b"a"}).is_parked
    world.sync_log()
    assert world.restart().group().generation == 1


def test_a_deletion_that_is_refused_brings_the_group_back() -> None:
    world = World()
    (member,) = world.stable()
    world.commit(member, 1)
    world.leave(member)
    world.hold = True
    asked = world.delete()
    fresh = world.join()
    world.fail_log()
    assert asked.error == fresh.error == E.NOT_COORDINATOR
    assert world.group().generation == 2
    assert world.shard.offsets.get("g", TOPIC, 0) is not None
    assert world.delete().is_parked


def test_records_in_flight_do_not_bring_a_deleted_group_back() -> None:
    world = World()
    (member,) = world.stable()
    world.hold = True
    request = messages.LeaveGroupRequest("g", members=[messages.LeaveGroupRequest.MemberIdentity(member)])
    world.ask(13, group_requests.leave, request, 5)
    world.delete()
    world.held, later = world.held[:1], world.held[1:]
    world.sync_log()  # the leave is durable, the deletion not yet
    assert "g" not in world.shard.groups
    world.held = later
    world.sync_log()
    assert "g" not in world.shard.groups
    assert not world.restart().shard.groups


def _deleted_and_joined(world: World, **options: Any) -> Asked:
    """In one turn."""
    world.hold = True
    world.delete()
    asked = world.join(**options)
    world.hold = False
    world.sync_log()
    return asked


def test_a_group_made_anew_in_the_turn_of_its_deletion_stays_even_when_the_join_is_refused() -> None:
    world = World()
    world.commit()
    assert _deleted_and_joined(world, protocols=(), version=5).error == E.INCONSISTENT_GROUP_PROTOCOL
    assert world.shard.groups.keys() == world.restart().shard.groups.keys() == {"g"}
    assert world.group().durable is not None
    assert world.group().durable == world.restart().group().durable
    assert _deleted_and_joined(world, protocols=(), version=5).error == E.INCONSISTENT_GROUP_PROTOCOL
    assert world.shard.groups.keys() == world.restart().shard.groups.keys() == {"g"}


def test_a_group_that_came_with_a_commit_of_before_its_deletion_goes_with_it() -> None:
    world = World()
    world.commit()
    world.hold = True
    world.commit_later()
    world.delete()
    world.sync_log(1)
    assert world.shard.groups.keys() == {"g"}  # the commit has taken effect
    pending = world.join()
    world.sync_log()
    assert pending.error == E.MEMBER_ID_REQUIRED
    assert world.shard.groups.keys() == world.restart().shard.groups.keys() == set()
    assert len(world.shard.timers) == 0
    assert world.join(pending.answer.member_id).is_parked
    world.sync_log()


def test_a_refused_deletion_brings_the_group_back_over_one_that_came_with_a_commit() -> None:
    world = World()
    (member,) = world.stable()
    world.leave(member)
    world.hold = True
    world.commit_later()
    world.delete()
    world.sync_log(1)
    world.fail_log()
    assert (world.group().generation, world.describe().protocol_type) == (2, "consumer")
