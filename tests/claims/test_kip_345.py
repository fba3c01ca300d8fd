"""Source: KIP-345, static membership.

Not served, and so without a test: that a static consumer sends no LeaveGroup when it is closed, which is for clients.
"""

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.coordinator.group_world import World

FENCED = ErrorCode.FENCED_INSTANCE_ID
GONE = ErrorCode.UNKNOWN_MEMBER_ID
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("who", [0, 1])
def test_a_restarted_instance_takes_its_place_without_a_rebalance(who: int) -> None:
    """Proposed changes, rejoin with an unknown member id: leader or not, it gets its assignment back."""
    world = World()
    members = world.stable(instances=("a", "b"))
    instance = "ab"[who]
    joined = world.join(instance=instance).answer
    assert (joined.error_code, joined.generation_id) == (0, world.group().generation)
    assert joined.member_id not in members
    synced = world.sync(joined.member_id, joined.generation_id, instance=instance).answer
    assert synced.assignment == f"of {who}".encode()
    assert world.beat(members[1 - who], joined.generation_id, "ba"[who]) == 0


def test_a_restarted_instance_with_another_protocol_begins_a_rebalance() -> None:
    """Proposed changes, rejoin with an unknown member id: it is for nothing only if the assignment still holds."""
    world = World()
    members = world.stable(2, instances=("a",), protocols=("range", "sticky"))
    generation = world.group().generation
    assert world.join(instance="a", protocols=("sticky",)).is_parked
    assert world.beat(members[1], generation) == REBALANCE


def test_an_instance_that_is_new_begins_a_rebalance() -> None:
    """Proposed changes, static membership: a rebalance is triggered when a new member joins."""
    world = World()
    (member,) = world.stable(instances=("a",))
    generation = world.group().generation
    joined = world.join(instance="b")
    assert (joined.is_parked, world.beat(member, generation, "a")) == (True, REBALANCE)
    again = world.join(member, "a").answer
    assert {(m.member_id, m.group_instance_id) for m in again.members} == {
        (member, "a"),
        (joined.answer.member_id, "b"),
    }


@pytest.mark.parametrize(("who", "rebalances"), [(0, True), (1, False)])
def test_of_members_that_join_again_under_their_ids_the_leader_begins_a_rebalance(
    who: int, rebalances: bool
) -> None:
    """Proposed changes, static membership: the leader may have seen that topics changed; a follower has not."""
    world = World()
    members = world.stable(instances=("a", "b"))
    generation = world.group().generation
    joined = world.join(members[who], "ab"[who])
    assert joined.is_parked == rebalances
    assert world.beat(members[1 - who], generation, "ba"[who]) == (REBALANCE if rebalances else 0)
    if not rebalances:
        assert (joined.answer.generation_id, joined.answer.member_id) == (generation, members[who])


def test_the_id_of_a_member_tells_its_instance() -> None:
    """Proposed changes: the coordinator makes the member id of the instance id and something unique."""
    joined = World().join(instance="a").answer
    assert joined.member_id.startswith("a-")


def test_of_two_joins_of_an_instance_in_a_rebalance_the_first_is_fenced() -> None:
    """Proposed changes, FENCED_INSTANCE_ID: the request that waits is answered at once, so that the older one stops."""
    world = World()
    world.stable(2, instances=("a",), protocols=("range", "sticky"))
    first = world.join(instance="a", protocols=("sticky",))
    assert first.is_parked
    second = world.join(instance="a", protocols=("sticky",))
    assert (first.error, second.is_parked) == (FENCED, True)


def test_the_one_before_is_fenced() -> None:
    """Proposed changes, FENCED_INSTANCE_ID: of two with one instance id the older one stops."""
    world = World()
    old, _ = world.stable(instances=("a", "b"))
    generation = world.group().generation
    world.join(instance="a")
    assert world.beat(old, generation, "a") == FENCED
    assert world.commit(old, generation, "a") == FENCED
    assert world.sync(old, generation, instance="a").error == FENCED
    assert world.join(old, "a").error == FENCED


def test_an_instance_that_nobody_knows_is_unknown() -> None:
    """Proposed changes: an instance id that is not in the group's map."""
    world = World()
    (member,) = world.stable(instances=("a",))
    generation = world.group().generation
    assert world.beat(member, generation, "z") == GONE
    assert world.commit(member, generation, "z") == GONE
    assert world.sync(member, generation, instance="z").error == GONE
    assert world.join(member, "z").error == GONE


def test_an_instance_is_not_removed_for_missing_a_rebalance() -> None:
    """Proposed changes: only its session decides; the others go on with it in the group."""
    world = World()
    _, dynamic = world.stable(2, instances=("a",), session_ms=100_000)
    world.join(dynamic, protocols={"range": b"changed"}, session_ms=100_000)
    world.advance(60_000)
    assert {m.group_instance_id for m in world.group().members.values()} == {"a", None}


def test_an_instance_whose_session_ends_leaves_the_group() -> None:
    """Proposed changes: the session timeout is how a static member goes."""
    world = World()
    first, _ = world.stable(instances=("a", "b"))
    world.advance(9_000)
    world.beat(first, world.group().generation, "a")
    world.advance(1_000)
    assert [*world.group().static_members] == ["a"]
    assert world.describe().group_state == "PreparingRebalance"


def test_the_longest_session_is_half_an_hour() -> None:
    """Public interfaces: group.max.session.timeout.ms grows to 30 minutes, so that restarts fit into it."""
    assert Config.load({}).group_max_session_timeout_ms == 30 * 60_000
    assert World().join(instance="a", session_ms=30 * 60_000).answer.error_code == 0
    assert World().join(instance="a", session_ms=30 * 60_000 + 1).error == ErrorCode.INVALID_SESSION_TIMEOUT


def test_an_operator_removes_instances_in_a_batch() -> None:
    """Public interfaces, LeaveGroup version 3: several, by instance id alone, each answered for itself."""
    world = World()
    world.stable(instances=("a", "b", "c"))
    answer = world.leave(("", "a"), ("", "z"), ("somebody", "b"), ("", "c"), ("", None))
    assert answer.error_code == 0
    assert [m.error_code for m in answer.members] == [0, GONE, FENCED, 0, GONE]
    assert [m.group_instance_id for m in answer.members] == ["a", "z", "b", "c", None]
    assert [*world.group().static_members] == ["b"]
    assert world.describe().group_state == "PreparingRebalance", "at once, not with the end of a session"


@pytest.mark.parametrize("version", [0, 2, 3, 5])
def test_a_static_member_that_leaves_by_its_member_id_is_gone_at_once(version: int) -> None:
    """Public interfaces, LeaveGroup: so clients do that were configured back to dynamic membership."""
    world = World()
    member, _ = world.stable(instances=("a", "b"))
    answer = world.leave(member, version=version)
    assert [answer.error_code, *(m.error_code for m in answer.members)] == ([0] if version < 3 else [0, 0])
    assert [*world.group().static_members] == ["b"]
    assert world.describe().group_state == "PreparingRebalance"


def test_instances_are_known_after_a_failover() -> None:
    """Public interfaces, GroupMetadataValue version 3: the instance id is stored with the member."""
    world = World()
    old, _ = world.stable(instances=("a", "b"))
    generation = world.group().generation
    later = world.restart()
    assert later.beat(old, generation, "a") == 0
    joined = later.join(instance="a").answer
    assert (joined.generation_id, joined.member_id != old) == (generation, True)
    assert later.beat(old, generation, "a") == FENCED


def test_instances_are_shown() -> None:
    """Public interfaces, DescribeGroups version 4: members with their instance ids."""
    world = World()
    world.stable(2, instances=("a",))
    assert {m.group_instance_id for m in world.describe(version=4).members} == {"a", None}
    assert {m.group_instance_id for m in world.describe(version=3).members} == {None}


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
