"""What readers see of groups: what the log knows, and nothing that may still be taken back.

Real Kafka reads its groups at the last committed offset of the log (GroupMetadataManager.group, committedOffset): a
group whose first record is on its way is not found, one whose tombstone is on its way is there.
"""

from typing import Any

import pytest

from kafka_offsets.errors import ErrorCode
from tests.drivers.shard import ABC, ShardDriver

NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND
JOINING: dict[str, Any] = {
    "rebalance_timeout_ms": 5000,
    "subscribed_topic_names": ["orders"],
    "topic_partitions": [],
}


def driver() -> ShardDriver:
    made = ShardDriver(ABC)
    made.topics.create("orders", 2)
    return made


def seen(of: ShardDriver) -> tuple[Any, ...]:
    """How ListGroups, DescribeGroups and ConsumerGroupDescribe show the group; "-" where it is not found."""
    listed = [(group.group_type, group.group_state) for group in of.list_groups()]
    consumers = of.described()
    assert consumers.error_code in (0, NOT_FOUND)
    state = "-" if consumers.error_code else consumers.group_state
    return listed, of.describe().group_state, state


NOTHING = ([], "Dead", "-")


def test_a_consumer_group_is_not_found_until_its_first_record_is_durable() -> None:
    of = driver()
    of.hold = True
    first = of.heartbeat_later("m", 0, **JOINING)
    assert first.is_parked
    described = of.described()
    assert described.error_code == NOT_FOUND
    assert described.error_message == "Group g not found."
    assert seen(of) == NOTHING
    of.sync_log()
    assert first.error == 0
    assert seen(of) == ([("consumer", "Stable")], "Dead", "Stable")


def test_a_heartbeat_finds_a_group_that_no_reader_sees_yet() -> None:
    of = driver()
    of.hold = True
    of.heartbeat_later("m", 0, **JOINING)
    second = of.heartbeat_later("n", 0, **JOINING)
    third = of.heartbeat_later("m", 2)
    stranger = of.heartbeat_later("nobody", 1)
    of.sync_log(1)
    assert [member.member_id for member in of.described().members] == ["m"]
    of.sync_log()
    assert (second.error, third.error, stranger.error) == (0, 0, ErrorCode.UNKNOWN_MEMBER_ID)
    assert {member.member_id for member in of.described().members} == {"m", "n"}


def test_a_group_whose_first_record_the_log_refuses_was_never_there() -> None:
    of = driver()
    of.hold = True
    refused = of.heartbeat_later("m", 0, **JOINING)
    of.fail_log()
    assert refused.error == ErrorCode.NOT_COORDINATOR
    assert seen(of) == NOTHING
    assert of.shard.retiring == {}


def test_a_classic_group_is_not_found_until_its_first_record_is_durable() -> None:
    of = driver()
    of.hold = True
    joined = of.join(version=3)
    assert joined.is_parked
    assert seen(of) == NOTHING
    assert of.describe().error_code == NOT_FOUND
    of.sync_log()
    assert not joined.is_parked
    assert seen(of) == ([("classic", "CompletingRebalance")], "CompletingRebalance", "-")


def test_a_simple_group_is_created_with_its_first_offset() -> None:
    of = driver()
    of.hold = True
    of.commit_later("", -1)
    assert seen(of) == NOTHING
    of.sync_log()
    assert seen(of) == ([("classic", "Empty")], "Empty", "-")


@pytest.mark.parametrize("kind", ["simple", "classic", "consumer"])
@pytest.mark.parametrize("refused", [False, True])
def test_a_deleted_group_is_seen_until_its_tombstone_is_durable(kind: str, refused: bool) -> None:
    of = driver()
    if kind == "simple":
        of.commit("", -1)
    elif kind == "classic":
        of.leave(*of.stable())
    else:
        of.enter_consumer("m", "orders")
        of.heartbeat("m", -1)
    before = seen(of)
    assert before[0] == [("consumer" if kind == "consumer" else "classic", "Empty")]
    of.hold = True
    of.delete()
    again = of.delete()
    assert seen(of) == before
    if refused:
        of.fail_log()
        assert seen(of) == before
    else:
        of.sync_log()
        assert again.error == NOT_FOUND
        assert seen(of) == NOTHING
    assert of.shard.retiring == {}


def test_a_group_deleted_after_the_leave_of_its_last_member_is_seen_without_it() -> None:
    of = driver()
    of.enter_consumer("m", "orders")
    of.hold = True
    of.heartbeat_later("m", -1)
    of.delete()
    assert [member.member_id for member in of.described().members] == ["m"]
    of.sync_log(1)
    assert of.described().members == []
    assert seen(of) == ([("consumer", "Empty")], "Dead", "Empty")
    of.sync_log()
    assert seen(of) == NOTHING
    assert of.shard.retiring == {}


def test_a_group_created_again_after_its_deletion_shows_the_old_one_then_nothing_then_the_new_one() -> None:
    of = driver()
    of.leave(*of.stable())
    of.hold = True
    of.delete()
    of.heartbeat_later("m", 0, **JOINING)
    assert seen(of) == ([("classic", "Empty")], "Empty", "-")
    of.sync_log(1)
    assert seen(of) == NOTHING
    of.sync_log()
    assert seen(of) == ([("consumer", "Stable")], "Dead", "Stable")


def test_a_group_deleted_before_its_first_record_was_durable_is_never_seen() -> None:
    of = driver()
    of.hold = True
    of.heartbeat_later("m", 0, **JOINING)
    of.heartbeat_later("m", -1)
    of.delete()
    assert seen(of) == NOTHING
    of.sync_log()
    assert seen(of) == NOTHING
    assert of.shard.retiring == {}


@pytest.mark.parametrize("refused", [False, True])
def test_an_empty_group_that_gives_way_is_seen_as_it_was_until_the_other_kind_is_durable(
    refused: bool,
) -> None:
    of = driver()
    of.leave(*of.stable())
    before = seen(of)
    of.hold = True
    of.heartbeat_later("m", 0, **JOINING)
    assert seen(of) == before == ([("classic", "Empty")], "Empty", "-")
    if refused:
        of.fail_log()
        assert seen(of) == before
    else:
        of.sync_log()
        assert seen(of) == ([("consumer", "Stable")], "Dead", "Stable")
    assert of.shard.retiring == {}


@pytest.mark.parametrize("refused", [False, True])
def test_an_empty_consumer_group_that_gives_way_is_seen_as_it_was(refused: bool) -> None:
    of = driver()
    of.enter_consumer("m", "orders")
    of.heartbeat("m", -1)
    before = seen(of)
    of.hold = True
    of.join()  # is handed a member id, in a group that is stored with it
    assert seen(of) == before == ([("consumer", "Empty")], "Dead", "Empty")
    if refused:
        of.fail_log()
        assert seen(of) == before
    else:
        of.sync_log()
        assert seen(of) == ([("classic", "Empty")], "Empty", "-")
    assert of.shard.retiring == {}
