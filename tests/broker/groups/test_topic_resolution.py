"""Regular expressions of consumer groups that take long: others are served, the assignment comes later."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.state import topic_resolution
from kafka_offsets.coordinator.state.consumer_group import ConsumerGroup
from kafka_offsets.protocol import messages
from tests.conftest import REPOSITORY
from tests.drivers.core import CoreClient, make_core

PATTERN = "(.?){999}a"
STEP_MS = 5


@pytest.fixture
def core() -> BrokerCore:
    made = make_core()
    make_topics(made)
    return made


def make_topics(core: BrokerCore) -> None:
    for number in range(10):
        topic_admin.create_topic(core.broker, f"{number}" + "a" * 60, 1, {})


def step(core: BrokerCore) -> None:
    """Let the pause between two steps pass."""
    assert isinstance(core.clock, ManualClock)
    core.clock.advance(STEP_MS)
    core.run_due()
    core.end_turn()


def beat(client: CoreClient, epoch: int = 0, group: str = "g", **fields: Any) -> Any:
    if not epoch:
        fields = {"rebalance_timeout_ms": 10_000, "topic_partitions": [], **fields}
    client.send((messages.ConsumerGroupHeartbeatRequest(group, "m", epoch, **fields), 1))
    client.core.end_turn()
    (answer,) = client.take()
    assert answer.error_code == 0
    return answer


def group_of(core: BrokerCore, group_id: str = "g") -> ConsumerGroup:
    hosted = core.runtime.shard_of(group_id, core.clock.now())
    group = hosted.shard.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    return group


def begin(client: CoreClient) -> Any:
    """Join with the expression; its resolution has begun and is not done."""
    answer = beat(client, subscribed_topic_regex=PATTERN)
    step(client.core)  # it is put into the queue
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


def test_one_group_is_resolved_at_a_time(core: BrokerCore, monkeypatch: pytest.MonkeyPatch) -> None:
    # The expressions of 200 groups, in 50 shards, were in memory side by side, and all took steps in one turn.
    client = CoreClient(core)
    in_one_step: list[int] = []
    advance = topic_resolution.Resolution.advance

    def counted(resolution: topic_resolution.Resolution, budget: topic_resolution.StepBudget) -> bool:
        in_one_step[-1] += 1
        return advance(resolution, budget)

    monkeypatch.setattr(topic_resolution.Resolution, "advance", counted)
    for number in range(12):
        beat(client, group=f"g{number}", subscribed_topic_regex=PATTERN)
    shards = {core.runtime.shard_of(f"g{number}", core.clock.now()) for number in range(12)}
    assert len(shards) > 3
    groups = [group_of(core, f"g{number}") for number in range(12)]
    while any(group.is_resolving for group in groups):
        in_one_step.append(0)
        step(core)
        assert sum(group.resolution is not None for group in groups) <= 1
    assert max(in_one_step) <= 2, "the end of one, and the begin of another"
    assert all(len(group.regexes[PATTERN].topics) == 10 for group in groups)


MEMORY = """
import sys
from pathlib import Path
from kafka_offsets.storage.files.files import DiskFiles
from tests.broker.groups.test_topic_resolution import beat, make_topics, step
from tests.drivers.core import CoreClient, make_core
def peak():
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0])
core = make_core(DiskFiles(Path(sys.argv[4])))  # the records that it reads again are not in memory
make_topics(core)
client = CoreClient(core)
expression, count = sys.argv[1] * int(sys.argv[2]), int(sys.argv[3])
beat(client, group="first", subscribed_topic_regex=expression)
step(core)
before = peak()
for number in range(count):
    beat(client, group=f"g{number}", subscribed_topic_regex=expression)
    step(core)
while any(hosted.shard.resolving for hosted in core.runtime.all_shards()):
    step(core)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("part", "parts", "count"), [("[^b]", 2475, 150), ("[^b]*", 1, 200), ("[^b]*", 1980, 150)]
)
def test_expressions_of_many_groups_take_little_memory(
    part: str, parts: int, count: int, tmp_path: Path
) -> None:
    # Before any login, 600 of the first took 4.2 GiB.
    command = [sys.executable, "-c", MEMORY, part, str(parts), str(count), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert int(ran.stdout) < 50 * count, "100 MB for 2,000 groups"
