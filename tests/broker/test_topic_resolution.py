"""Regular expressions of consumer groups that take long: others are served, the assignment comes later."""

from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.consumer import topic_resolution
from kafka_offsets.coordinator.consumer.group import ConsumerGroup
from kafka_offsets.coordinator.consumer.patterns import TopicPattern
from kafka_offsets.protocol import messages
from tests.drivers.core import CoreClient, make_core

PATTERN = "(.{0,100}a){50}"
STEP_MS = 5


@pytest.fixture
def core() -> BrokerCore:
    made = make_core()
    for number in range(10):
        topic_admin.create_topic(made.context, f"{number}" + "a" * 60, 1, {})
    return made


def step(core: BrokerCore) -> None:
    """Let the pause between two steps pass."""
    assert isinstance(core.clock, ManualClock)
    core.clock.advance(STEP_MS)
    core.run_due()
    core.end_turn()


def beat(client: CoreClient, epoch: int = 0, **fields: Any) -> Any:
    if not epoch:
        fields = {"rebalance_timeout_ms": 10_000, "topic_partitions": [], **fields}
    client.send((messages.ConsumerGroupHeartbeatRequest("g", "m", epoch, **fields), 1))
    client.core.end_turn()
    (answer,) = client.take()
    assert answer.error_code == 0
    return answer


def group_of(core: BrokerCore) -> ConsumerGroup:
    hosted = core.runtime.shard_of("g", core.clock.now())
    group = hosted.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group


def begin(client: CoreClient) -> Any:
    """Join with the expression; its resolution has begun and is not done."""
    answer = beat(client, subscribed_topic_regex=PATTERN)
    step(client.core)
    assert group_of(client.core).resolution is not None
    return answer


def steps_until_resolved(core: BrokerCore) -> int:
    for steps in range(1000):
        if not group_of(core).is_resolving:
            return steps
        step(core)
    raise AssertionError("the expression is not resolved")


def test_a_member_is_answered_at_once_and_assigned_later_while_others_are_served(core: BrokerCore) -> None:
    # (.{0,100}a){50} against 5,000 topics held up everybody for 4.6 s.
    member, other = CoreClient(core), CoreClient(core)
    first = begin(member)
    assert first.assignment.topic_partitions == []
    assert other.commit("another", {("0" + "a" * 60, 0): 7}) == {("0" + "a" * 60, 0): 0}
    assert beat(member, first.member_epoch).assignment is None
    assert steps_until_resolved(core) > 3
    then = beat(member, first.member_epoch)
    assert then.member_epoch == first.member_epoch + 1
    assert len(then.assignment.topic_partitions) == 10


@pytest.mark.slow
def test_an_expression_whose_last_member_left_in_the_meantime_is_not_kept(core: BrokerCore) -> None:
    member = CoreClient(core)
    epoch = begin(member).member_epoch
    beat(member, epoch, subscribed_topic_names=["t"], subscribed_topic_regex="")
    assert steps_until_resolved(core) > 3
    assert group_of(core).regexes == {}
    assert not group_of(core).topics.keys() - {"t"}


def test_a_group_that_is_deleted_in_the_meantime_stays_deleted(core: BrokerCore) -> None:
    member = CoreClient(core)
    begin(member)
    beat(member, -1)
    member.send((messages.DeleteGroupsRequest(["g"]), 2))
    core.end_turn()
    (answer,) = member.take()
    assert answer.results[0].error_code == 0
    for _ in range(20):
        step(core)
    shard = core.runtime.shard_of("g", core.clock.now()).shard
    assert "g" not in shard.groups
    assert not shard.resolving


def test_a_step_that_fails_leaves_the_group_to_its_next_heartbeat(
    core: BrokerCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = CoreClient(core)
    epoch = begin(member).member_epoch
    with monkeypatch.context() as patched:
        patched.setattr(topic_resolution.Resolution, "advance", lambda self: 1 / 0)
        step(core)
    assert not group_of(core).is_resolving
    beat(member, epoch)
    assert steps_until_resolved(core) > 3
    assert len(group_of(core).regexes[PATTERN].topics) == 10


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [PATTERN, "(a?){1000}" * 6, "abc" * 3000, "(a|b){1000}.*"])
def test_no_part_of_the_work_looks_at_many_states(pattern: str) -> None:
    costs = list(TopicPattern(pattern).match_in_steps(["a" * 249, "ab" * 100, "c"]))
    assert max(costs) <= 3 * 20_000
    assert len(costs) >= 4
