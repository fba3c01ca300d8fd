"""Random commits, deletions, faults and other programs: ZooKeeper holds what was confirmed, and only what was sent.

A model keeps the offsets. A request that was confirmed has taken effect as a whole, one that was refused has not. One
whose outcome is not known has taken effect as a whole or not at all. Writes that were lost may arrive later.
"""

import random
from collections import deque
from typing import Any, NamedTuple

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.zookeeper.requests import Multi, Request, SessionState
from tests.drivers.core import CoreClient, commit_request
from tests.drivers.zookeeper_core import TIMEOUT_MS, ZooKeeperCore

STEPS = 120
GROUPS = ("a", "b", "c")
UNKNOWN = ErrorCode.COORDINATOR_NOT_AVAILABLE
Offsets = dict[str, str]
"""The texts of znodes, by path below /consumers."""


def path(group: str, partition: int) -> str:
    return f"{group}/offsets/t/{partition}"


class Late(NamedTuple):
    """A write that was lost, and may arrive later.

    is_confirmed  whether the request that it was part of was answered without an error
    deletions     how many deletions there had been
    """

    request: Request
    is_confirmed: bool
    deletions: int


class Story:
    """One broker, its clients, and what its ZooKeeper must hold."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.broker = ZooKeeperCore()
        self.client = CoreClient(self.broker.core)
        self.wanted: Offsets = {}
        self.late: deque[Late] = deque()
        self.new_late: list[Request] = []
        self.deletions = 0
        self.number = 0
        self.broker.client.before = self._before
        self.lost = 0

    @property
    def found(self) -> Offsets:
        return self.broker.server.texts()

    def _before(self, request: Request) -> None:
        """Lose some answers, also of writes that arrive later."""
        if not isinstance(request, Multi) or self.broker.client.lose_next:
            return
        fate = self.random.random()
        if fate < 0.1:
            self.broker.client.lose_next.append("applied")
        elif fate < 0.2:
            self.broker.client.lose_next.append("dropped")
            self.new_late.append(request)
        self.lost += fate < 0.2

    def settle(self, code: int, effect: Offsets) -> None:
        """Compare ZooKeeper with the model after a request that was answered with `code`."""
        if code == 0:
            assert self.found == effect
        elif code == UNKNOWN:
            assert self.found in (self.wanted, effect)
        else:
            assert self.found == self.wanted
        self.wanted = self.found
        self.late += [Late(request, code == 0, self.deletions) for request in self.new_late]
        self.new_late.clear()

    def partitions(self) -> list[int]:
        return self.random.sample(range(4), self.random.randint(1, 4))

    def next_offset(self) -> int:
        self.number += 1
        return self.number

    # -- what happens

    def commit(self) -> None:
        group, offset = self.random.choice(GROUPS), self.next_offset()
        partitions = self.partitions()
        codes = set(self.client.commit(group, {("t", p): offset for p in partitions}).values())
        (code,) = codes
        self.settle(code, self.wanted | {path(group, p): str(offset) for p in partitions})

    def commits_together(self) -> None:
        """Several connections commit before ZooKeeper answers the first one."""
        fates = self.broker.client.before
        self.broker.client.before = lambda request: None
        self.broker.client.is_held = True
        effect, clients = dict(self.wanted), []
        for _ in range(4):
            group, offset = self.random.choice(GROUPS), self.next_offset()
            partitions = self.partitions()
            client = CoreClient(self.broker.core)
            wanted = {("t", p): offset for p in partitions}
            client.send((commit_request(self.broker.core, group, wanted, 8), 8))
            clients.append(client)
            effect |= {path(group, p): str(offset) for p in partitions}
        self.broker.client.release()
        self.client.turn()
        for client in clients:
            (answer,) = client.take()
            assert {p.error_code for topic in answer.topics for p in topic.partitions} == {0}
        self.settle(0, effect)
        self.broker.client.before = fates

    def commit_on_condition(self) -> None:
        group, offset, partition = self.random.choice(GROUPS), self.next_offset(), self.random.randrange(4)
        found = self.wanted.get(path(group, partition))
        holds = self.random.random() < 0.7
        expected = (-1 if found is None else int(found)) if holds else 10**6
        request = commit_request(self.broker.core, group, {("t", partition): offset}, 8)
        conditions.put(request.topics[0].partitions[0], expected)
        code = self.client.call(request, 8).topics[0].partitions[0].error_code
        assert holds or code in (ErrorCode.COMMITTED_OFFSET_MISMATCH, UNKNOWN)
        assert not holds or code in (0, UNKNOWN)
        self.settle(code, self.wanted | {path(group, partition): str(offset)})

    def delete_offsets(self) -> None:
        group, partitions = self.random.choice(GROUPS), self.partitions()
        request = messages.OffsetDeleteRequest
        wanted = [request.Topic("t", [request.Partition(p) for p in partitions])]
        code = self.client.call(request(group, wanted), 0).error_code
        gone = {path(group, p) for p in partitions}
        self.deletions += 1
        self.settle(code, {each: text for each, text in self.wanted.items() if each not in gone})

    def delete_group(self) -> None:
        group = self.random.choice(GROUPS)
        code = self.client.call(messages.DeleteGroupsRequest([group]), 2).results[0].error_code
        self.deletions += 1
        self.settle(code, {each: t for each, t in self.wanted.items() if not each.startswith(f"{group}/")})
        if code == 0:
            assert f"/consumers/{group}" not in self.broker.server.nodes or self.lost

    def fetch(self) -> None:
        group = self.random.choice(GROUPS)
        assert self.client.committed(group) == {
            ("t", int(each[-1])): int(text)
            for each, text in self.wanted.items()
            if each.startswith(f"{group}/")
        }

    def another_program_writes(self) -> None:
        each = path(self.random.choice(GROUPS), self.random.randrange(4))
        self.broker.server.put(f"/consumers/{each}", str(self.next_offset()))
        self.wanted = self.found

    def another_program_deletes(self) -> None:
        self.deletions += 1
        self.broker.server.delete(f"/consumers/{self.random.choice(GROUPS)}")
        self.wanted = self.found

    def a_lost_write_arrives(self) -> None:
        """It has no effect if its commit was confirmed: that was written again, with another version.

        A server forgets the requests of a connection when its session has a new one, so they do not come much later;
        then the version of a znode that was deleted and created again might be the same.
        """
        if self.late:
            late = self.late.popleft()
            self.broker.server.apply(late.request)
            if late.is_confirmed and late.deletions == self.deletions:
                assert self.found == self.wanted
            self.wanted = self.found

    def the_connection_is_lost(self) -> None:
        self.broker.client.disconnect(self.random.choice([SessionState.DISCONNECTED, SessionState.EXPIRED]))
        offset = self.next_offset()
        self.client.send((commit_request(self.broker.core, "a", {("t", 0): offset}, 8), 8))
        if self.random.random() < 0.5:
            self.broker.advance(TIMEOUT_MS)
        self.broker.client.connect()
        self.client.turn()
        (answer,) = self.client.take()
        self.settle(answer.topics[0].partitions[0].error_code, self.wanted | {path("a", 0): str(offset)})

    def the_broker_starts_again(self) -> None:
        before = self.broker.client.before
        self.broker.core.close()
        self.broker = ZooKeeperCore(self.broker.server, clock=self.broker.clock)
        self.client = CoreClient(self.broker.core)
        self.broker.client.before = before
        self.settle(0, self.wanted)


ACTIONS: list[tuple[int, Any]] = [
    (10, Story.commit),
    (4, Story.commits_together),
    (6, Story.commit_on_condition),
    (4, Story.delete_offsets),
    (2, Story.delete_group),
    (4, Story.fetch),
    (3, Story.another_program_writes),
    (1, Story.another_program_deletes),
    (3, Story.a_lost_write_arrives),
    (2, Story.the_connection_is_lost),
    (1, Story.the_broker_starts_again),
]


@pytest.mark.parametrize("seed", range(30))
def test_zookeeper_holds_what_was_confirmed(seed: int) -> None:
    story = Story(seed)
    weights = [weight for weight, _ in ACTIONS]
    for number in range(STEPS):
        ((_, action),) = story.random.choices(ACTIONS, weights)
        try:
            action(story)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {number}, {action.__name__}: {error}") from error
    assert story.lost > 5
