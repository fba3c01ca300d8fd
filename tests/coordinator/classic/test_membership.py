"""Members that are silent or leave, subscriptions, and groups that are deleted: records, timers, refused appends.

The answers of Heartbeat, LeaveGroup, DescribeGroups and ListGroups, and those to commits, are in tests/stories.
"""

from typing import Any

import pytest

from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.classic import membership
from kafka_offsets.coordinator.state import stored
from kafka_offsets.errors import ErrorCode as E
from kafka_offsets.protocol import messages
from tests.drivers.shard import TOPIC, Asked, ShardDriver, subscription

# Heartbeats


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


def test_a_commit_before_the_deletion_of_its_group_does_not_create_it_again() -> None:
    driver = ShardDriver()
    driver.commit()
    driver.hold = True
    driver.commit_later()
    driver.delete()
    driver.sync_log(1)
    assert driver.shard.groups.keys() == set()  # although the commit has taken effect
    again = driver.delete()
    pending = driver.join()
    driver.sync_log()
    assert again.answer.error_code == E.GROUP_ID_NOT_FOUND
    assert pending.error == E.MEMBER_ID_REQUIRED
    assert driver.shard.groups.keys() == driver.restart().shard.groups.keys() == {"g"}  # of the join
    assert driver.join(pending.answer.member_id).is_parked
    driver.sync_log()


def test_a_refused_deletion_of_a_group_whose_first_commit_is_refused_leaves_nothing() -> None:
    driver = ShardDriver()
    driver.hold = True
    driver.commit_later()
    driver.delete()
    driver.fail_log()
    assert (driver.shard.groups.keys(), driver.shard.retiring) == (set(), {})
    driver.hold = False
    assert driver.delete().answer.error_code == E.GROUP_ID_NOT_FOUND


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
