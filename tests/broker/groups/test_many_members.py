"""A group of 1,000 members, and 10,000 groups: each has its share, and no member waits long for it.

benchmarks/groups.py measures the same over sockets.
"""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.protocol import messages
from tests.broker.core.test_incremental import step
from tests.drivers.core import CoreClient, make_core
from tests.drivers.members import join_request
from tests.slowness import slowness

MEMBERS = 1000
GROUPS = 10_000
REBALANCE_S = 15.0
LONGEST_TURN_S = 0.3
"""CPU time of this thread, which on a busy machine is several times what benchmarks/groups.py says of a quiet one."""


class Watch:
    """How long the turns take."""

    def __init__(self) -> None:
        self.total_s = self.longest_s = 0.0
        self._slowness = slowness()

    def __call__(self, turn: Callable[[], Any]) -> Any:
        """Carry out a turn."""
        began = time.thread_time()
        answer = turn()
        took_s = time.thread_time() - began
        self.total_s += took_s
        self.longest_s = max(self.longest_s, took_s)
        return answer

    def check(self) -> None:
        """Fail when it took too long."""
        self._slowness = max(self._slowness, slowness())
        assert self.total_s < REBALANCE_S * self._slowness, f"{self.total_s:.2f} s of CPU"
        assert self.longest_s < LONGEST_TURN_S * self._slowness, f"a turn of {self.longest_s * 1000:.0f} ms"


def ask_in_steps(watch: Watch, client: CoreClient, request: messages.MessageValue, version: int) -> Any:
    """Return the answer to a request that takes several turns."""
    client.send((request, version))
    while True:
        watch(client.turn)
        for answer in client.take():
            return answer
        step(client.core)


@pytest.fixture
def core() -> Iterator[BrokerCore]:
    """A broker with a topic of a partition for each member; what other tests left is not collected meanwhile."""
    made = make_core()
    create = messages.CreateTopicsRequest
    (topic,) = CoreClient(made).call(create([create.CreatableTopic("t", MEMBERS, 1)], 1000), 5).topics
    assert topic.error_code == 0
    gc.freeze()
    yield made
    gc.unfreeze()


@pytest.mark.slow
def test_a_thousand_members_share_a_topic_by_the_classic_protocol(core: BrokerCore) -> None:
    watch = Watch()
    clients = [CoreClient(core, f"client-{index}") for index in range(MEMBERS)]
    metadata = b"\0\0\0\0\0\1\0\1t\0\0\0\0"

    def join(client: CoreClient, member_id: str) -> None:
        client.send((join_request("g", member_id, metadata=metadata, session_ms=60_000), 5))

    ids = []
    for client in clients:
        join(client, "")
        watch(client.turn)
        ids += [answer.member_id for answer in client.take()]
    for client, member_id in zip(clients, ids, strict=True):
        join(client, member_id)
        watch(client.turn)
    joined = [client.take() for client in clients]
    for client, member_id, answers in zip(
        clients, ids, joined, strict=True
    ):  # the first one was alone at first
        if len(answers) == 1 and answers[0].generation_id == 1:
            join(client, member_id)
            watch(client.turn)
    joined = [before + client.take() for client, before in zip(clients, joined, strict=True)]
    assert {answers[-1].generation_id for answers in joined} == {2}
    for client, member_id, answers in zip(clients, ids, joined, strict=True):
        sync = messages.SyncGroupRequest
        given = [sync.Assignment(each.member_id, b"%d" % at) for at, each in enumerate(answers[-1].members)]
        client.send((sync("g", 2, member_id, None, "consumer", "range", given), 5))
        watch(client.turn)
    assigned = Counter(answer.assignment for client in clients for answer in client.take())
    assert assigned == Counter(b"%d" % at for at in range(MEMBERS))
    watch.check()
    (described,) = ask_in_steps(watch, clients[0], messages.DescribeGroupsRequest(["g"]), 5).groups
    assert (described.group_state, len(described.members)) == ("Stable", MEMBERS)
    watch.check()


@pytest.mark.slow
def test_a_thousand_members_share_a_topic_by_the_consumer_protocol(core: BrokerCore) -> None:
    watch = Watch()
    client = CoreClient(core)
    request = messages.ConsumerGroupHeartbeatRequest
    epochs = [0] * MEMBERS
    owned: list[list[Any]] = [[] for _ in range(MEMBERS)]

    def beat(index: int, **fields: Any) -> bool:
        ask = request("g", f"member-{index}", epochs[index], **fields)
        answer = watch(lambda: client.call(ask, 1))
        assert answer.error_code == 0, answer
        has_changed = answer.member_epoch != epochs[index]
        epochs[index] = answer.member_epoch
        if answer.assignment is not None:
            owned[index] = [
                request.TopicPartitions(t.topic_id, t.partitions) for t in answer.assignment.topic_partitions
            ]
        return has_changed or answer.assignment is not None

    for index in range(MEMBERS):
        beat(index, subscribed_topic_names=["t"], rebalance_timeout_ms=60_000, topic_partitions=[])
    assert isinstance(core.clock, ManualClock)
    core.clock.advance(1000)  # a large group waits between two assignments
    rounds = 1
    while sum(beat(index, topic_partitions=owned[index]) for index in range(MEMBERS)):
        rounds += 1
        assert rounds < 6, "each has its share after a few heartbeats"
    assigned = Counter(partition for topics in owned for topic in topics for partition in topic.partitions)
    assert assigned == Counter(range(MEMBERS))
    assert all(len(topics) == 1 for topics in owned)
    (described,) = ask_in_steps(watch, client, messages.ConsumerGroupDescribeRequest(["g"]), 1).groups
    assert (described.group_state, len(described.members)) == ("Stable", MEMBERS)
    watch.check()


@pytest.mark.slow
def test_ten_thousand_groups_are_made_listed_and_described(core: BrokerCore) -> None:
    watch = Watch()
    client = CoreClient(core)
    names = [f"group-{index}" for index in range(GROUPS)]
    request = messages.OffsetCommitRequest
    for at in range(0, GROUPS, 100):
        topic = request.Topic("t", partitions=[request.Partition(0, at, committed_metadata="")])
        client.send(*((request(name, topics=[topic]), 8) for name in names[at : at + 100]))
        watch(client.turn)
        assert all(answer.topics[0].partitions[0].error_code == 0 for answer in client.take())
    listed = ask_in_steps(watch, client, messages.ListGroupsRequest(), 5).groups
    assert {each.group_id for each in listed} == set(names)
    for at in range(0, GROUPS, 1000):
        answer = ask_in_steps(watch, client, messages.DescribeGroupsRequest(names[at : at + 1000]), 5)
        assert all(each.group_state == "Empty" for each in answer.groups)
    watch.check()
