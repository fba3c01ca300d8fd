"""Heartbeat and LeaveGroup; Describe-, List- and DeleteGroups; commits by members."""

from typing import Any

import pytest

from kafka_offsets.coordinator import group_requests, stored
from kafka_offsets.coordinator.classic import membership
from kafka_offsets.errors import ErrorCode as E
from kafka_offsets.protocol import messages
from tests.drivers.shard import TOPIC, Asked, ShardDriver, subscription

# Heartbeats


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_is_refused(version: int) -> None:
    driver = ShardDriver()
    (member,) = driver.stable(instances=("i",))
    assert driver.beat(member, 1, group="missing", version=version) == E.UNKNOWN_MEMBER_ID
    assert driver.beat(member, 1, group="", version=version) == E.INVALID_GROUP_ID
    assert driver.beat("nobody", 7, version=version) == E.UNKNOWN_MEMBER_ID
    assert driver.beat(member, 2, version=version) == E.ILLEGAL_GENERATION
    if version >= 3:
        assert driver.beat("nobody", 7, "i", version=version) == E.FENCED_INSTANCE_ID
        assert driver.beat(member, 1, "other", version=version) == E.UNKNOWN_MEMBER_ID
    assert driver.beat(member, 1, version=version) == 0
    driver.leave(member)
    assert driver.beat(member, 1, version=version) == E.UNKNOWN_MEMBER_ID


def test_a_heartbeat_while_loading_is_taken_blindly() -> None:
    request = messages.HeartbeatRequest("g", 1, "m")
    assert membership.fail_heartbeat(request, E.COORDINATOR_LOAD_IN_PROGRESS, 4).error_code == 0
    assert membership.fail_heartbeat(request, E.NOT_COORDINATOR, 4).error_code == E.NOT_COORDINATOR


def test_heartbeats_keep_a_session_alive_without_touching_the_timers() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    scheduled = len(driver.shard.timers._heap)
    for _ in range(50):
        driver.advance(3_000)
        assert driver.beat(member, 1) == 0
    assert len(driver.shard.timers._heap) <= scheduled
    driver.advance(9_999)
    assert driver.describe().group_state == "Stable"
    driver.advance(1)
    assert driver.describe().group_state == "Empty"
    assert driver.beat(member, 1) == E.UNKNOWN_MEMBER_ID


def test_a_heartbeat_in_a_rebalance_keeps_the_session_alive_too() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.enter()
    for _ in range(5):
        driver.advance(9_000)
        assert driver.beat(member, 1) == E.REBALANCE_IN_PROGRESS


def test_an_expired_leader_is_replaced() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable(2)
    driver.advance(5_000)
    driver.beat(follower, 2)
    driver.advance(5_000)
    assert driver.beat(leader, 2) == E.UNKNOWN_MEMBER_ID
    assert driver.join(follower).answer.leader == follower


def test_a_rebalance_that_no_static_member_has_joined_continues() -> None:
    driver = ShardDriver()
    leader, other = driver.stable(instances=("a", "b"), rebalance_ms=5_000, session_ms=60_000)
    newcomer = driver.join(rebalance_ms=5_000).answer.member_id
    assert driver.join(newcomer, rebalance_ms=5_000).is_parked
    driver.leave(newcomer)
    driver.advance(6_000)
    assert (driver.group().state.value, driver.group().generation) == ("PreparingRebalance", 2)
    first = driver.join(leader, "a", rebalance_ms=5_000, session_ms=60_000)
    assert first.is_parked
    driver.advance(5_000)
    assert first.answer.generation_id == 3
    assert [*driver.group().members] == [leader, other]


# Leaving


@pytest.mark.parametrize("version", range(3))
def test_a_single_member_leaves_with_its_error_on_top(version: int) -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    assert driver.leave("nobody", version=version).error_code == E.UNKNOWN_MEMBER_ID
    assert driver.leave(member, version=version, group="missing").error_code == E.UNKNOWN_MEMBER_ID
    assert driver.leave(member, version=version, group="").error_code == E.INVALID_GROUP_ID
    assert driver.leave(member, version=version).error_code == 0
    assert driver.describe().group_state == "Empty"


@pytest.mark.parametrize("version", [3, 4, 5])
def test_several_members_leave_each_with_its_own_error(version: int) -> None:
    driver = ShardDriver()
    leader, static = driver.stable(instances=("one", "two"))
    pending = driver.join().answer.member_id
    answer = driver.leave(
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
    assert driver.describe().group_state == "Empty"
    assert leader not in driver.group().members


def test_leaving_a_missing_group_is_an_error_of_each_member() -> None:
    answer = ShardDriver().leave("a", ("b", "i"))
    assert (answer.error_code, [m.error_code for m in answer.members]) == (0, [25, 25])
    assert ShardDriver().leave("a", group="").error_code == E.INVALID_GROUP_ID


def test_a_last_member_that_leaves_makes_an_empty_generation() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.leave(member)
    value = stored.parse_group_value(driver.durable[-1].value or b"")
    assert (value.generation, value.protocol_type, value.protocol, value.leader) == (
        2,
        "consumer",
        None,
        None,
    )
    assert value.members == []
    assert value.current_state_timestamp == driver.clock.now().wall_ms


def test_leaving_completes_the_join_of_those_that_wait() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable(2)
    parked = driver.join(leader)
    driver.leave(follower)
    assert [m.member_id for m in parked.answer.members] == [leader]


def test_what_a_leaving_member_has_parked_is_answered() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable(2)
    join = driver.join(leader)
    driver.leave(leader)
    assert join.error == E.UNKNOWN_MEMBER_ID
    driver.join(follower)
    newcomer = driver.enter()
    driver.join(follower)
    sync = driver.sync(newcomer.answer.member_id, 4)
    assert sync.is_parked
    driver.leave(newcomer.answer.member_id)
    assert sync.error == E.UNKNOWN_MEMBER_ID


def test_a_pending_member_that_leaves_makes_a_stable_group_rebalance() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.leave(driver.join().answer.member_id)
    assert driver.beat(member, 1) == E.REBALANCE_IN_PROGRESS


def test_a_leave_that_is_refused_by_the_log_has_happened_all_the_same() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.hold = True
    request = messages.LeaveGroupRequest("g", members=[messages.LeaveGroupRequest.MemberIdentity(member)])
    asked = driver.ask(13, group_requests.leave, request, 5)
    driver.fail_log()
    assert asked.error == E.NOT_COORDINATOR
    assert driver.describe().group_state == "Empty"
    assert driver.group().generation == 2


# Commits


def test_commits_of_a_stable_group() -> None:
    driver = ShardDriver()
    (member,) = driver.stable(instances=("i",))
    assert driver.commit(member, 1, "i") == 0
    assert driver.commit(member, 1) == 0
    assert driver.commit() == E.UNKNOWN_MEMBER_ID
    assert driver.commit(member) == E.ILLEGAL_GENERATION
    assert driver.commit(member, 0) == E.ILLEGAL_GENERATION
    assert driver.commit("", 1) == E.UNKNOWN_MEMBER_ID
    assert driver.commit("nobody", 1) == E.UNKNOWN_MEMBER_ID
    assert driver.commit(member, 1, "other") == E.UNKNOWN_MEMBER_ID
    assert driver.commit("nobody", 1, "i") == E.FENCED_INSTANCE_ID
    assert driver.commit("", -1, "i") == E.FENCED_INSTANCE_ID


def test_commits_in_a_rebalance_are_accepted_until_the_generation_is_made() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    newcomer = driver.enter()
    assert driver.commit(member, 1) == 0
    driver.join(member)
    assert driver.commit(member, 2) == E.REBALANCE_IN_PROGRESS
    assert driver.commit(newcomer.answer.member_id, 1) == E.ILLEGAL_GENERATION


def test_commits_to_an_empty_group() -> None:
    driver = ShardDriver()
    pending = driver.join().answer.member_id
    assert driver.commit() == 0
    assert driver.commit(pending) == 0
    assert driver.commit(pending, 0) == E.UNKNOWN_MEMBER_ID
    assert driver.commit("nobody", -1) == 0


def test_a_commit_is_a_sign_of_life() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    for _ in range(5):
        driver.advance(9_000)
        assert driver.commit(member, 1) == 0
    driver.advance(10_000)
    assert driver.commit(member, 1) == E.UNKNOWN_MEMBER_ID


# Subscriptions


def test_a_subscribed_topic_keeps_its_offsets() -> None:
    driver = ShardDriver()
    (member,) = driver.stable(protocols={"range": subscription("orders", "pages")})
    assert driver.group().is_subscribed_to("pages")
    assert (
        driver.delete_offset(topic="pages").topics[0].partitions[0].error_code == E.GROUP_SUBSCRIBED_TO_TOPIC
    )
    assert driver.delete_offset(topic="other").topics[0].partitions[0].error_code == 0
    driver.leave(member)
    assert not driver.group().is_subscribed_to("pages")


def test_subscriptions_change_with_the_generation() -> None:
    driver = ShardDriver()
    (member,) = driver.stable(protocols={"range": subscription("orders")})
    driver.enter(protocols={"range": subscription("pages")})
    assert not driver.group().is_subscribed_to("pages")
    driver.join(member, protocols={"range": subscription("orders")})
    assert driver.group().is_subscribed_to("pages")
    assert driver.group().is_subscribed_to("orders")


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\1\0\0", b"\0\0" + b"\xff" * 8, b"junk"])
def test_metadata_that_does_not_parse_subscribes_to_everything(metadata: bytes) -> None:
    driver = ShardDriver()
    driver.stable(protocols={"range": metadata})
    assert driver.group().is_subscribed_to("anything")


def test_metadata_is_read_as_version_0_whatever_version_it_says() -> None:
    driver = ShardDriver()
    driver.stable(protocols={"range": b"\0\x09" + subscription("orders")[2:] + b"junk"})
    assert driver.group().is_subscribed_to("orders")
    assert not driver.group().is_subscribed_to("pages")


def test_a_group_that_is_no_consumer_is_subscribed_to_nothing_that_is_known() -> None:
    driver = ShardDriver()
    driver.stable(protocol_type="connect")
    assert not driver.group().is_subscribed_to(TOPIC)
    assert driver.delete_offset().error_code == E.NON_EMPTY_GROUP


# Looking


@pytest.mark.parametrize("version", range(7))
def test_a_missing_group_is_dead(version: int) -> None:
    described = ShardDriver().describe("none", version)
    assert described.group_state == "Dead"
    assert described.error_code == (E.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert described.error_message == ("Group none not found." if version >= 6 else None)


@pytest.mark.parametrize("version", range(7))
def test_metadata_is_shown_while_the_group_is_stable(version: int) -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    described = driver.describe(version=version)
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (shown,) = described.members
    assert (shown.member_id, shown.client_id, shown.client_host) == (member, "c", "/host")
    assert (shown.member_metadata, shown.member_assignment) == (subscription(TOPIC), b"of 0")
    driver.enter()
    described = driver.describe(version=version)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [m.member_metadata for m in described.members] == [b"", b""]
    assert [m.member_assignment for m in described.members] == [b"of 0", b""]


def test_a_simple_group_is_empty_and_has_no_type() -> None:
    driver = ShardDriver()
    driver.commit()
    described = driver.describe()
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "", [])


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_by_state_and_type_whatever_their_case(version: int) -> None:
    driver = ShardDriver()
    driver.stable()
    driver.commit(group="simple")
    listed = driver.list_groups(version=version)
    assert [(g.group_id, g.protocol_type) for g in listed] == [("g", "consumer"), ("simple", "")]
    if version >= 4:
        assert [g.group_state for g in listed] == ["Stable", "Empty"]
        assert [g.group_id for g in driver.list_groups((" eMPTY ",), version=version)] == ["simple"]
        assert driver.list_groups(("nonsense",), version=version) == []
    if version >= 5:
        assert {g.group_type for g in listed} == {"classic"}
        assert len(driver.list_groups(types=("CLASSIC", "x"))) == 2
        assert driver.list_groups(types=("consumer",)) == []


# Deleting


def test_groups_are_deleted_when_they_are_empty() -> None:
    driver = ShardDriver()
    assert driver.delete().error == E.GROUP_ID_NOT_FOUND
    (member,) = driver.stable()
    driver.commit(member, 1)
    assert driver.delete().error == E.NON_EMPTY_GROUP
    driver.leave(member)
    assert driver.delete().error == 0
    assert [(stored.parse_key(r.key), r.value) for r in driver.durable[-2:]] == [
        (stored.OffsetKey("g", TOPIC, 0), None),
        (stored.GroupKey("g"), None),
    ]
    assert len(driver.shard.offsets) == 0
    assert driver.describe().group_state == "Dead"
    assert not driver.restart().shard.groups


def test_simple_groups_and_the_group_without_a_name_are_deleted() -> None:
    for group in ("simple", ""):
        driver = ShardDriver()
        driver.commit(group=group)
        assert driver.delete(group).error == 0
        assert not driver.shard.groups
        assert not driver.shard.offsets.has_group(group)


def test_offsets_of_open_transactions_are_deleted_too() -> None:
    driver = ShardDriver()
    driver.commit(group="g")
    key = stored.OffsetKey("g", "pages", 3)
    entry = driver.shard.offsets.get("g", TOPIC, 0)
    assert entry is not None
    driver.shard.pending[9] = {key: entry}
    driver.delete()
    assert key in [stored.parse_key(record.key) for record in driver.durable]
    assert not driver.shard.pending[9]


def test_a_group_is_removed_as_soon_as_its_deletion_is_decided() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.leave(member)
    driver.hold = True
    driver.delete()
    assert "g" not in driver.shard.groups
    assert driver.delete().is_parked
    first = driver.join(version=3)
    driver.sync_log()
    assert first.answer.generation_id == 1
    assert driver.group().state.value == "CompletingRebalance"
    assert driver.sync(first.answer.member_id, 1, {first.answer.member_id: b"a"}).is_parked
    driver.sync_log()
    assert driver.restart().group().generation == 1


def test_a_refused_deletion_restores_the_group() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.commit(member, 1)
    driver.leave(member)
    driver.hold = True
    asked = driver.delete()
    fresh = driver.join()
    driver.fail_log()
    assert asked.error == fresh.error == E.NOT_COORDINATOR
    assert driver.group().generation == 2
    assert driver.shard.offsets.get("g", TOPIC, 0) is not None
    assert driver.delete().is_parked


def test_records_in_flight_do_not_restore_a_deleted_group() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.hold = True
    request = messages.LeaveGroupRequest("g", members=[messages.LeaveGroupRequest.MemberIdentity(member)])
    driver.ask(13, group_requests.leave, request, 5)
    driver.delete()
    driver.held, later = driver.held[:1], driver.held[1:]
    driver.sync_log()  # the leave is durable, the deletion not yet
    assert "g" not in driver.shard.groups
    driver.held = later
    driver.sync_log()
    assert "g" not in driver.shard.groups
    assert not driver.restart().shard.groups


def _deleted_and_joined(driver: ShardDriver, **options: Any) -> Asked:
    """In one turn."""
    driver.hold = True
    driver.delete()
    asked = driver.join(**options)
    driver.hold = False
    driver.sync_log()
    return asked


def test_a_group_created_again_in_the_turn_of_its_deletion_stays_even_when_the_join_is_refused() -> None:
    driver = ShardDriver()
    driver.commit()
    assert _deleted_and_joined(driver, protocols=(), version=5).error == E.INCONSISTENT_GROUP_PROTOCOL
    assert driver.shard.groups.keys() == driver.restart().shard.groups.keys() == {"g"}
    assert driver.group().durable is not None
    assert driver.group().durable == driver.restart().group().durable
    assert _deleted_and_joined(driver, protocols=(), version=5).error == E.INCONSISTENT_GROUP_PROTOCOL
    assert driver.shard.groups.keys() == driver.restart().shard.groups.keys() == {"g"}


def test_a_group_created_by_a_commit_before_its_deletion_is_deleted() -> None:
    driver = ShardDriver()
    driver.commit()
    driver.hold = True
    driver.commit_later()
    driver.delete()
    driver.sync_log(1)
    assert driver.shard.groups.keys() == {"g"}  # the commit has taken effect
    pending = driver.join()
    driver.sync_log()
    assert pending.error == E.MEMBER_ID_REQUIRED
    assert driver.shard.groups.keys() == driver.restart().shard.groups.keys() == set()
    assert len(driver.shard.timers) == 0
    assert driver.join(pending.answer.member_id).is_parked
    driver.sync_log()


def test_a_refused_deletion_restores_the_group_over_one_that_a_commit_created() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.leave(member)
    driver.hold = True
    driver.commit_later()
    driver.delete()
    driver.sync_log(1)
    driver.fail_log()
    assert (driver.group().generation, driver.describe().protocol_type) == (2, "consumer")
