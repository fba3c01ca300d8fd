"""Commits while ZooKeeper is killed, paused, and expires sessions: nothing that was acknowledged is lost.

    python -m tests.zookeeper.kill_loop --rounds 50 --seed 1

In each round clients commit without a pause, and one thing happens: `kill -9` of the server and a start later, or
SIGSTOP for longer than the broker waits for an answer, or the end of the broker's session. Afterwards each group has
an offset that its client sent, not before the last one that was acknowledged, the same in all partitions; ZooKeeper
and the broker have the same. Of clients that increment one offset on condition, no two made the same one.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.client import KazooClient

from kafka_offsets.client import commits
from kafka_offsets.client.connection import Connection, parse_address
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.testing import Broker
from tests.zookeeper.real import RealServer
from tests.zookeeper.rounds import run_rounds
from tests.zookeeper.sessions import expire_session

COMMITTERS, RACERS, PARTITIONS = 6, 2, 3
SESSION_MS, CONNECTION_MS = 1000, 2500
DEADLINE_S = 60.0
TOPIC, RACE = "t", "race"
HAPPENINGS = ("kill", "pause", "expire")
EXPECTED = {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COMMITTED_OFFSET_MISMATCH}


class Round(NamedTuple):
    """What a round has shown.

    codes  how many commits got each error code
    """

    happening: str
    codes: Counter[int]


class Client:
    """A thread that sends requests until it is stopped, on one connection."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.codes: Counter[int] = Counter()
        self.problem: BaseException | None = None

    def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Send no more; returns when the last request is answered. Raises what the thread has raised."""
        self._stopping.set()
        assert self._thread is not None
        self._thread.join()
        if self.problem is not None:
            raise self.problem

    def _run(self) -> None:
        try:
            with Connection(*parse_address(self._address), DEADLINE_S) as connection:
                while not self._stopping.is_set():
                    self.step(connection)
        except BaseException as error:  # noqa: BLE001 - raised by `stop`
            self.problem = error

    def step(self, connection: Connection) -> None:
        """Send one request."""
        raise NotImplementedError

    def commit(self, connection: Connection, group: str, offsets: dict[Any, int], expected: Any) -> int:
        """Commit, and return the worst error code of a partition."""
        answer = connection.call(commits.request(group, offsets, expected), commits.VERSION)
        codes = {p.error_code for topic in answer.topics for p in topic.partitions}
        assert len(codes) == 1, f"{group}: a commit was answered {codes}"
        (code,) = codes
        assert code in EXPECTED, f"{group}: a commit was answered {code}"
        self.codes[code] += 1
        if code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            time.sleep(0.01)
        return code


class Committer(Client):
    """Commits 1, 2, 3, … for a group, always to all partitions."""

    def __init__(self, address: str, number: int) -> None:
        super().__init__(address)
        self.group = f"committer-{number}"
        self.sent = self.acknowledged = 0

    def step(self, connection: Connection) -> None:
        self.sent += 1
        offsets = {(TOPIC, partition): self.sent for partition in range(PARTITIONS)}
        if self.commit(connection, self.group, offsets, {}) == 0:
            self.acknowledged = self.sent

    def check(self, found: dict[tuple[str, int], int]) -> None:
        """Compare what is committed with what was acknowledged and sent."""
        story = f"{self.group}: found {found}, acknowledged {self.acknowledged}, sent {self.sent}"
        assert len(set(found.values())) <= 1, f"a commit is there in part: {story}"
        assert not found or len(found) == PARTITIONS, f"a commit is there in part: {story}"
        offset = next(iter(found.values()), 0)
        assert self.acknowledged <= offset <= self.sent, story


class Racer(Client):
    """Increments one offset on condition, as others do."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.made: list[int] = []
        self.unknown = 0
        self.known = 0

    def step(self, connection: Connection) -> None:
        wanted, place = self.known + 1, (TOPIC, 0)
        expected = self.known or None
        code = self.commit(connection, RACE, {place: wanted}, {place: expected})
        if code == 0:
            self.made.append(wanted)
            self.known = wanted
            return
        self.unknown += code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.known = fetch(connection, RACE).get(place, self.known)


def fetch(connection: Connection, group: str) -> dict[tuple[str, int], int]:
    """Return the offsets of a group as soon as the broker serves them."""
    until = time.monotonic() + DEADLINE_S
    while True:
        answer = connection.call(messages.OffsetFetchRequest(group, None), 7)
        if answer.error_code == 0:
            return {
                (topic.name, p.partition_index): p.committed_offset
                for topic in answer.topics
                for p in topic.partitions
            }
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, answer
        assert time.monotonic() < until, f"the offsets of {group} are not served"
        time.sleep(0.02)


class KillLoop:
    """A server, a broker on it, and its clients."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._server = RealServer(directory)
        self._server.start()
        self._broker = Broker(
            {
                "offset.storage": "zookeeper",
                "zookeeper.connect": self._server.address,
                "zookeeper.session.timeout.ms": SESSION_MS,
                "zookeeper.connection.timeout.ms": CONNECTION_MS,
                "offsets.topic.num.partitions": 4,
            }
        )
        self._broker.start()
        self._broker.create_topic(TOPIC, partitions=PARTITIONS)
        address = self._broker.bootstrap_servers
        self.committers = [Committer(address, number) for number in range(COMMITTERS)]
        self.racers = [Racer(address) for _ in range(RACERS)]

    @property
    def clients(self) -> list[Client]:
        return [*self.committers, *self.racers]

    def round(self) -> Round:
        """Let one thing happen while the clients commit, and check."""
        happening = self._random.choice(HAPPENINGS)
        before = self._codes()
        for client in self.clients:
            client.start()
        self._await_commits()
        time.sleep(self._random.uniform(0.0, 0.3))
        self._happen(happening)
        self._await_commits()
        time.sleep(self._random.uniform(0.0, 0.3))
        for client in self.clients:
            client.stop()
        self._check()
        return Round(happening, self._codes() - before)

    @property
    def acknowledged(self) -> int:
        """How many commits were acknowledged so far."""
        return sum(client.codes[0] for client in self.clients)

    def _codes(self) -> Counter[int]:
        return sum((client.codes for client in self.clients), Counter())

    def _await_commits(self) -> None:
        """Wait until each client has had a commit acknowledged from now on: the broker serves again."""
        before = [committer.acknowledged for committer in self.committers]
        until = time.monotonic() + DEADLINE_S
        while any(c.acknowledged <= old for c, old in zip(self.committers, before, strict=True)):
            for client in self.clients:
                if client.problem is not None:
                    raise client.problem
            assert time.monotonic() < until, "commits are not acknowledged any more"
            time.sleep(0.01)

    def _happen(self, happening: str) -> None:
        if happening == "kill":
            self._server.kill()
            time.sleep(self._random.choice([0.0, 0.5, CONNECTION_MS / 1000 + 0.5]))
            self._server.start()
        elif happening == "pause":
            os.kill(self._server.pid, signal.SIGSTOP)
            time.sleep(self._random.uniform(0.5, 2.0) * SESSION_MS / 1000)
            os.kill(self._server.pid, signal.SIGCONT)
        else:
            expire_session(self._broker)

    def _check(self) -> None:
        tool = KazooClient(self._server.address)
        tool.start()
        try:
            with Connection(*parse_address(self._broker.bootstrap_servers), DEADLINE_S) as connection:
                for committer in self.committers:
                    found = fetch(connection, committer.group)
                    committer.check(found)
                    stored = {
                        (TOPIC, partition): int(
                            tool.get(f"/consumers/{committer.group}/offsets/{TOPIC}/{partition}")[0]
                        )
                        for _, partition in found
                    }
                    assert stored == found, f"{committer.group}: ZooKeeper has {stored}, the broker {found}"
                self._check_race(fetch(connection, RACE).get((TOPIC, 0), 0))
        finally:
            tool.stop()
            tool.close()

    def _check_race(self, found: int) -> None:
        made = [number for racer in self.racers for number in racer.made]
        unknown = sum(racer.unknown for racer in self.racers)
        twice = [number for number, count in Counter(made).items() if count > 1]
        assert not twice, f"two clients made the increment to {twice}"
        assert len(made) <= found <= len(made) + unknown, f"{found} after {len(made)} and {unknown} unknown"

    def close(self) -> None:
        """Stop everything."""
        for client in self.clients:
            client._stopping.set()
        try:
            self._broker.stop()
        finally:
            self._server.stop()


def play(loop: KillLoop, _number: int) -> tuple[str, str]:
    """Play a round; return what happened, and how many commits got each error."""
    shown = loop.round()
    return shown.happening, str({ErrorCode(code).name: count for code, count in sorted(shown.codes.items())})


if __name__ == "__main__":
    run_rounds(__doc__, KillLoop, play, sys.argv[1:])
