"""Groups after a restart, and groups that are given up."""

import pytest

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.classic import rebalance
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.result import Result
from kafka_offsets.coordinator.state.timers import Timer
from kafka_offsets.errors import ErrorCode as E
from kafka_offsets.protocol import messages
from tests.drivers.shard import ShardDriver


def test_a_group_with_members_is_stable_in_its_generation_after_a_restart() -> None:
    driver = ShardDriver()
    leader, static = driver.stable(instances=("one", "two"))
    driver.advance(9_000)
    driver = driver.restart()
    described = driver.describe()
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert [(m.member_id, m.member_assignment) for m in described.members] == [
        (leader, b"of 0"),
        (static, b"of 1"),
    ]
    assert driver.group().leader == leader
    assert driver.group().is_subscribed_to("orders")
    driver.advance(9_999)  # fresh sessions
    assert driver.beat(leader, 2, "one") == driver.beat(static, 2, "two") == 0
    assert driver.sync(static, 2, instance="two").answer.assignment == b"of 1"
    assert driver.commit(leader, 2, "one") == 0


def test_members_that_do_not_return_expire() -> None:
    driver = ShardDriver()
    driver.stable(2)
    driver = driver.restart()
    driver.advance(10_000)
    assert (driver.describe().group_state, driver.group().generation) == ("Empty", 3)


def test_an_empty_group_is_restored_with_its_type_and_generation() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.leave(member)
    driver = driver.restart()
    assert (driver.describe().group_state, driver.describe().protocol_type) == ("Empty", "consumer")
    assert driver.enter().answer.generation_id == 3


def test_a_generation_whose_assignment_was_never_stored_is_forgotten() -> None:
    driver = ShardDriver()
    (member,) = driver.stable()
    driver.join(member)
    assert driver.group().generation == 2
    driver = driver.restart()
    assert driver.beat(member, 2) == E.ILLEGAL_GENERATION
    assert driver.beat(member, 1) == 0


def test_a_group_record_makes_a_group_of_a_simple_one_in_any_order() -> None:
    driver = ShardDriver()
    driver.commit()
    driver.stable()
    for records in (driver.durable, driver.durable[::-1]):
        other = ShardDriver()
        other.durable = [*{record.key: record for record in records if record.value}.values()]
        loaded = other.restart()
        assert loaded.shard.offsets.has_group("g")
        assert loaded.describe().protocol_type in ("consumer", "")
    assert driver.restart().describe().group_state == "Stable"


def test_tombstones_of_unknown_groups_are_nothing() -> None:
    driver = ShardDriver()
    driver.durable = [stored.group_tombstone("g")]
    assert not driver.restart().shard.groups
    driver.shard.replay(*driver.durable[0][:2], 0)
    assert not driver.shard.groups


def test_a_group_tombstone_leaves_a_simple_group_where_offsets_are() -> None:
    driver = ShardDriver()
    driver.commit()
    driver.stable()
    driver.durable.append(stored.group_tombstone("g"))
    loaded = driver.restart()
    assert (loaded.describe().group_state, loaded.describe().protocol_type) == ("Empty", "")
    assert loaded.shard.offsets.has_group("g")


def test_a_record_of_version_0_has_its_session_timeout_for_a_rebalance_timeout() -> None:
    value = messages.GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="m")
    member = messages.GroupMetadataValue.MemberMetadata
    value.members = [member("m", client_id="c", client_host="/h", session_timeout=7_000)]
    encoded = b"\0\0" + messages.encode(value, 0)
    driver = ShardDriver()
    driver.durable = [stored.group_tombstone("g")._replace(value=encoded)]
    driver = driver.restart()
    assert driver.group().members["m"].rebalance_timeout_ms == 7_000
    assert driver.group().state_since_ms == -1
    assert driver.beat("m", 4) == 0


def test_a_shard_that_is_given_up_answers_all_its_requests() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable(2)
    joining = driver.join(leader)
    driver.take(driver.shard.unload())
    assert joining.error == E.NOT_COORDINATOR
    assert driver.shard.timers.next_deadline_ms is None
    unavailable = E.COORDINATOR_NOT_AVAILABLE
    assert driver.join(follower).error == unavailable
    assert driver.join().error == unavailable
    assert driver.sync(follower, 2).error == unavailable
    assert driver.beat(follower, 2) == unavailable
    assert driver.leave(follower).error_code == unavailable
    assert driver.commit(follower, 2) == unavailable
    assert driver.delete().error == driver.delete_offset().error_code == E.GROUP_ID_NOT_FOUND


def test_offsets_of_a_group_that_the_log_deletes_remain_without_it() -> None:
    driver = ShardDriver()
    driver.commit()
    (member,) = driver.stable()
    driver.durable.append(stored.group_tombstone("g"))
    again = driver.restart()
    assert (again.describe().group_state, again.describe().members) == ("Empty", [])
    assert again.beat(member, 1) == E.UNKNOWN_MEMBER_ID
    assert again.commit() == 0


def test_a_timer_that_fails_says_of_which_group_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver = ShardDriver()
    driver.stable(group="broken", session_ms=10_000)
    driver.stable(group="whole", session_ms=20_000)

    def fail(shard: Shard, timer: Timer, now: Now) -> Result:
        if timer.group_id == "broken":
            raise ValueError("made")
        return on_timer(shard, timer, now)

    on_timer = rebalance.on_timer
    monkeypatch.setattr(rebalance, "on_timer", fail)
    driver.advance(20_000)
    assert [record.getMessage() for record in caplog.records] == ["group broken: its session timer failed"]
    assert driver.describe("whole").group_state == "Empty"
