"""Members of groups, as state machines, beside the coordinator's own code and in any order of events."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_offsets.client.consumer.actions import Assign, Deassign
from kafka_offsets.errors import RefusedError
from kafka_offsets.protocol import messages
from tests.client.group_world import HEARTBEAT_MS, SESSION_MS, MemberInWorld, World

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
KINDS = [{"partition_assignment_strategy": name} for name in STRATEGIES] + [{"group_protocol": "consumer"}]
kinds = pytest.mark.parametrize("kind", KINDS, ids=[*STRATEGIES, "consumer"])
SETTLED_MS = 40_000
"""Longer than a session and the heartbeats of several rebalances."""


@kinds
def test_partitions_are_shared_and_returned(kind: dict[str, str]) -> None:
    world = World(t=4)
    first = world.add(**kind)
    world.turn()
    assert len(first.owned) == 4
    second = world.add(**kind)
    world.advance(6 * 5_000)
    assert (len(first.owned), len(second.owned)) == (2, 2)
    second.leave()
    world.advance(SETTLED_MS)
    world.check_settled()
    assert len(first.owned) == 4


@kinds
def test_a_member_that_falls_silent_loses_its_partitions(kind: dict[str, str]) -> None:
    world = World(t=4)
    first, second = world.add(**kind), world.add(**kind)
    world.advance(SETTLED_MS)
    second.is_alive = False
    world.advance(2 * SETTLED_MS)
    world.check_settled()
    assert len(first.owned) == 4


@kinds
def test_a_member_that_was_silent_for_too_long_loses_and_joins_again(kind: dict[str, str]) -> None:
    world = World(t=4)
    first, second = world.add(**kind), world.add(**kind)
    world.advance(SETTLED_MS)
    second.is_alive = False
    world.advance(2 * SETTLED_MS)
    second.is_alive = True
    world.advance(SETTLED_MS)
    world.check_settled()
    assert len(first.owned) == len(second.owned) == 2
    assert any(isinstance(call, Deassign) and call.is_lost for call in second.calls)


@kinds
def test_a_lost_coordinator_causes_no_rebalance(kind: dict[str, str]) -> None:
    """The member keeps its id and generation, and its next request is a heartbeat with both."""
    world = World(t=4)
    first, second = world.add(**kind), world.add(**kind)
    world.advance(SETTLED_MS)
    before = [
        (each.membership.member_id, each.membership.generation, {*each.owned}) for each in world.members
    ]
    calls = [len(each.calls) for each in world.members]
    for each in world.members:
        each.sent.clear()
        each.lose_coordinator()
    other = world.driver.restart()
    for each in world.members:
        each.driver = other
    world.driver = other
    world.advance(SETTLED_MS)
    world.check_settled()
    assert [
        (each.membership.member_id, each.membership.generation, {*each.owned}) for each in world.members
    ] == before
    assert [len(each.calls) for each in world.members] == calls
    for each, (member_id, _, _) in zip((first, second), before, strict=True):
        heartbeats = (messages.HeartbeatRequest, messages.ConsumerGroupHeartbeatRequest)
        assert isinstance(each.sent[0], heartbeats)
        assert each.sent[0].member_id == member_id


def test_an_eager_member_gives_up_everything_before_it_joins() -> None:
    world = World(t=4)
    first = world.add(partition_assignment_strategy="range")
    world.turn()
    world.add(partition_assignment_strategy="range")
    world.advance(2 * HEARTBEAT_MS)
    everything = tuple(("t", index) for index in range(4))
    assert first.calls == [Assign(everything), Deassign(everything), Assign(everything[:2])]


def test_a_cooperative_member_gives_up_only_what_it_loses() -> None:
    world = World(t=4)
    first = world.add(partition_assignment_strategy="cooperative-sticky")
    world.turn()
    second = world.add(partition_assignment_strategy="cooperative-sticky")
    world.advance(4 * HEARTBEAT_MS)
    given_up = [call.partitions for call in first.calls if isinstance(call, Deassign)]
    assert [len(each) for each in given_up] == [2]
    assert second.owned == {*given_up[0]}


def test_the_leader_notices_new_partitions() -> None:
    world = World(t=2)
    first, second = world.add(), world.add()
    world.advance(SETTLED_MS)
    world.driver.topics.create("t", 6)
    for each in world.members:
        each.view.refresh()
    world.advance(SETTLED_MS)
    world.check_settled()
    assert len(first.owned) == len(second.owned) == 3


def test_a_static_member_returns_to_its_partitions_without_a_rebalance() -> None:
    world = World(t=4)
    first = world.add(group_instance_id="one")
    second = world.add(group_instance_id="two")
    world.advance(SETTLED_MS)
    generation, owned, calls = first.membership.generation, {*second.owned}, len(first.calls)
    second.leave()
    third = world.add(group_instance_id="two")
    world.advance(SESSION_MS // 2)
    assert (third.owned, first.membership.generation, len(first.calls)) == (owned, generation, calls)


def test_a_fenced_instance_ends_its_member() -> None:
    world = World(t=4)
    world.add(group_instance_id="one")
    world.advance(SETTLED_MS)
    world.add(group_instance_id="one")
    with pytest.raises(RefusedError, match="FENCED_INSTANCE_ID"):
        world.advance(SETTLED_MS)


def test_heartbeats_continue_while_a_callback_runs() -> None:
    world = World(t=4)
    first = world.add()
    world.turn()
    world.add()
    first.holds_callbacks = True
    world.advance(2 * SESSION_MS)
    assert first.membership.member_id in world.known()
    assert len(first.owned) == 4, "the partitions are its own until the callback returns"
    first.holds_callbacks = False
    world.advance(SETTLED_MS)
    world.check_settled()


def test_a_member_without_a_common_protocol_is_refused() -> None:
    world = World(t=4)
    world.add(partition_assignment_strategy="range")
    world.turn()
    world.add(partition_assignment_strategy="sticky")
    with pytest.raises(RefusedError, match="INCONSISTENT_GROUP_PROTOCOL"):
        world.turn()


topics = st.frozensets(st.sampled_from(["t", "u", "v"]))
event = st.one_of(
    st.tuples(st.just("add"), topics),
    st.tuples(st.just("leave"), st.integers(0, 4)),
    st.tuples(st.just("die"), st.integers(0, 4)),
    st.tuples(st.just("wake"), st.integers(0, 4)),
    st.tuples(st.just("lose"), st.integers(0, 4)),
    st.tuples(st.just("hold"), st.integers(0, 4)),
    st.tuples(st.just("subscribe"), st.integers(0, 4), topics),
    st.tuples(st.just("grow"), st.sampled_from(["t", "u", "v"])),
    st.tuples(st.just("pass"), st.sampled_from([100, 1_000, 6_000, 30_000])),
)


def play(world: World, kind: dict[str, str], what: tuple) -> None:
    """Let one thing happen."""
    match what:
        case ("add", names):
            if len(world.members) < 5:
                world.add(names, **kind)
        case ("grow", topic):
            world.driver.topics.create(topic, world.driver.topics.found[topic][1] + 1)
            for member in world.members:
                member.view.refresh()
        case ("pass", ms):
            world.advance(ms)
        case ("wake", number) if number < len(world.members):
            world.members[number].is_alive = not world.members[number].has_left
        case (verb, number, *rest) if number < len(world.members) and world.members[number].is_alive:
            apply(world.members[number], verb, *rest)
    world.turn()


def apply(member: MemberInWorld, verb: str, names: frozenset[str] = frozenset()) -> None:
    match verb:
        case "leave":
            member.holds_callbacks = False
            member.turn()
            member.leave()
        case "die":
            member.is_alive = False
        case "lose":
            member.lose_coordinator()
        case "hold":
            member.holds_callbacks = not member.holds_callbacks
        case "subscribe":
            member.topics |= names


@pytest.mark.slow
@kinds
@settings(suppress_health_check=list(HealthCheck))
@given(st.lists(event, max_size=14))
def test_in_any_order_of_events_no_partition_has_two_owners_and_the_group_settles(
    kind: dict[str, str], events: list[tuple]
) -> None:
    world = World(t=3, u=2, v=1)
    world.add("t u", **kind)
    for what in events:
        play(world, kind, what)
    for member in world.members:
        member.holds_callbacks = False
    world.advance(4 * SETTLED_MS)
    world.check_settled()
