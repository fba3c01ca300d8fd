"""Source: KIP-345, static membership.

Not served, and so without a test: that a static consumer sends no LeaveGroup when it is closed, which is for clients.
"""

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.drivers.shard import ShardDriver

FENCED = ErrorCode.FENCED_INSTANCE_ID
GONE = ErrorCode.UNKNOWN_MEMBER_ID
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("who", [0, 1])
def test_a_restarted_instance_takes_its_place_without_a_rebalance(who: int) -> None:
    """Proposed changes, rejoin with an unknown member id: leader or not, it gets its assignment back."""
    driver = ShardDriver()
    members = driver.stable(instances=("a", "b"))
    instance = "ab"[who]
    joined = driver.join(instance=instance).answer
    assert (joined.error_code, joined.generation_id) == (0, driver.group().generation)
    assert joined.member_id not in members
    synced = driver.sync(joined.member_id, joined.generation_id, instance=instance).answer
    assert synced.assignment == f"of {who}".encode()
    assert driver.beat(members[1 - who], joined.generation_id, "ba"[who]) == 0


def test_a_restarted_instance_with_another_protocol_begins_a_rebalance() -> None:
    """Proposed changes, rejoin with an unknown member id: it is for nothing only if the assignment still holds."""
    driver = ShardDriver()
    members = driver.stable(2, instances=("a",), protocols=("range", "sticky"))
    generation = driver.group().generation
    assert driver.join(instance="a", protocols=("sticky",)).is_parked
    assert driver.beat(members[1], generation) == REBALANCE


def test_an_instance_that_is_new_begins_a_rebalance() -> None:
    """Proposed changes, static membership: a rebalance is triggered when a new member joins."""
    driver = ShardDriver()
    (member,) = driver.stable(instances=("a",))
    generation = driver.group().generation
    joined = driver.join(instance="b")
    assert (joined.is_parked, driver.beat(member, generation, "a")) == (True, REBALANCE)
    again = driver.join(member, "a").answer
    assert {(m.member_id, m.group_instance_id) for m in again.members} == {
        (member, "a"),
        (joined.answer.member_id, "b"),
    }


@pytest.mark.parametrize(("who", "rebalances"), [(0, True), (1, False)])
def test_of_members_that_join_again_under_their_ids_the_leader_begins_a_rebalance(
    who: int, rebalances: bool
) -> None:
    """Proposed changes, static membership: the leader may have seen that topics changed; a follower has not."""
    driver = ShardDriver()
    members = driver.stable(instances=("a", "b"))
    generation = driver.group().generation
    joined = driver.join(members[who], "ab"[who])
    assert joined.is_parked == rebalances
    assert driver.beat(members[1 - who], generation, "ba"[who]) == (REBALANCE if rebalances else 0)
    if not rebalances:
        assert (joined.answer.generation_id, joined.answer.member_id) == (generation, members[who])


def test_the_id_of_a_member_contains_its_instance() -> None:
    """Proposed changes: the coordinator makes the member id of the instance id and something unique."""
    joined = ShardDriver().join(instance="a").answer
    assert joined.member_id.startswith("a-")


def test_of_two_joins_of_an_instance_in_a_rebalance_the_first_is_fenced() -> None:
    """Proposed changes, FENCED_INSTANCE_ID: the request that waits is answered at once, so that the older one stops."""
    driver = ShardDriver()
    driver.stable(2, instances=("a",), protocols=("range", "sticky"))
    first = driver.join(instance="a", protocols=("sticky",))
    assert first.is_parked
    second = driver.join(instance="a", protocols=("sticky",))
    assert (first.error, second.is_parked) == (FENCED, True)


def test_the_one_before_is_fenced() -> None:
    """Proposed changes, FENCED_INSTANCE_ID: of two with one instance id the older one stops."""
    driver = ShardDriver()
    old, _ = driver.stable(instances=("a", "b"))
    generation = driver.group().generation
    driver.join(instance="a")
    assert driver.beat(old, generation, "a") == FENCED
    assert driver.commit(old, generation, "a") == FENCED
    assert driver.sync(old, generation, instance="a").error == FENCED
    assert driver.join(old, "a").error == FENCED


def test_an_instance_without_a_member_is_unknown() -> None:
    """Proposed changes: an instance id that is not in the group's map."""
    driver = ShardDriver()
    (member,) = driver.stable(instances=("a",))
    generation = driver.group().generation
    assert driver.beat(member, generation, "z") == GONE
    assert driver.commit(member, generation, "z") == GONE
    assert driver.sync(member, generation, instance="z").error == GONE
    assert driver.join(member, "z").error == GONE


def test_an_instance_is_not_removed_for_missing_a_rebalance() -> None:
    """Proposed changes: only its session decides; the others go on with it in the group."""
    driver = ShardDriver()
    _, dynamic = driver.stable(2, instances=("a",), session_ms=100_000)
    driver.join(dynamic, protocols={"range": b"changed"}, session_ms=100_000)
    driver.advance(60_000)
    assert {m.group_instance_id for m in driver.group().members.values()} == {"a", None}


def test_an_instance_whose_session_ends_leaves_the_group() -> None:
    """Proposed changes: the session timeout is how a static member goes."""
    driver = ShardDriver()
    first, _ = driver.stable(instances=("a", "b"))
    driver.advance(9_000)
    driver.beat(first, driver.group().generation, "a")
    driver.advance(1_000)
    assert [*driver.group().static_members] == ["a"]
    assert driver.describe().group_state == "PreparingRebalance"


def test_the_longest_session_is_half_an_hour() -> None:
    """Public interfaces: group.max.session.timeout.ms grows to 30 minutes, so that restarts fit into it."""
    assert Config.load({}).group_max_session_timeout_ms == 30 * 60_000
    assert ShardDriver().join(instance="a", session_ms=30 * 60_000).answer.error_code == 0
    assert (
        ShardDriver().join(instance="a", session_ms=30 * 60_000 + 1).error
        == ErrorCode.INVALID_SESSION_TIMEOUT
    )


def test_an_operator_removes_instances_in_a_batch() -> None:
    """Public interfaces, LeaveGroup version 3: several, by instance id alone, each answered for itself."""
    driver = ShardDriver()
    driver.stable(instances=("a", "b", "c"))
    answer = driver.leave(("", "a"), ("", "z"), ("somebody", "b"), ("", "c"), ("", None))
    assert answer.error_code == 0
    assert [m.error_code for m in answer.members] == [0, GONE, FENCED, 0, GONE]
    assert [m.group_instance_id for m in answer.members] == ["a", "z", "b", "c", None]
    assert [*driver.group().static_members] == ["b"]
    assert driver.describe().group_state == "PreparingRebalance", "at once, not with the end of a session"


@pytest.mark.parametrize("version", [0, 2, 3, 5])
def test_a_static_member_that_leaves_by_its_member_id_is_removed_at_once(version: int) -> None:
    """Public interfaces, LeaveGroup: so clients do that were configured back to dynamic membership."""
    driver = ShardDriver()
    member, _ = driver.stable(instances=("a", "b"))
    answer = driver.leave(member, version=version)
    assert [answer.error_code, *(m.error_code for m in answer.members)] == ([0] if version < 3 else [0, 0])
    assert [*driver.group().static_members] == ["b"]
    assert driver.describe().group_state == "PreparingRebalance"


def test_instances_are_known_after_a_failover() -> None:
    """Public interfaces, GroupMetadataValue version 3: the instance id is stored with the member."""
    driver = ShardDriver()
    old, _ = driver.stable(instances=("a", "b"))
    generation = driver.group().generation
    later = driver.restart()
    assert later.beat(old, generation, "a") == 0
    joined = later.join(instance="a").answer
    assert (joined.generation_id, joined.member_id != old) == (generation, True)
    assert later.beat(old, generation, "a") == FENCED


def test_instances_are_shown() -> None:
    """Public interfaces, DescribeGroups version 4: members with their instance ids."""
    driver = ShardDriver()
    driver.stable(2, instances=("a",))
    assert {m.group_instance_id for m in driver.describe(version=4).members} == {"a", None}
    assert {m.group_instance_id for m in driver.describe(version=3).members} == {None}


@pytest.mark.parametrize(
    ("message", "since"), [("JoinGroup", 5), ("SyncGroup", 3), ("Heartbeat", 3), ("OffsetCommit", 7)]
)
def test_requests_carry_the_instance_id_from_these_versions_on(message: str, since: int) -> None:
    """Public interfaces: the versions that add group_instance_id."""
    request = messages.find(f"{message}Request")
    value = request()
    value.group_instance_id = "a"
    for version, expected in ((since - 1, None), (since, "a")):
        try:
            encoded = messages.encode(value, version)
        except ValueError:
            assert expected is None
            continue
        assert messages.decode(request, encoded, version)[0].group_instance_id == expected
