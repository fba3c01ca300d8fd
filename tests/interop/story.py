"""The story every client must live through, told once and independent of the client.

10,000 records over 3 partitions; two members share them, a third joins, one dies without leaving; one commits
synchronously, one asynchronously, one automatically; nothing is lost and the committed offsets reach the end.
"""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol

from tests.interop import forks
from tests.interop.waiting import DEADLINE_S, until

PARTITIONS = 3
RECORDS = 10_000
BEFORE_THE_THIRD = 4_000
BEFORE_THE_DEATH = 7_000


class Client(Protocol):
    """What the story asks of a client library."""

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic."""

    def produce(self, topic: str, values: range) -> None:
        """Send the values as decimal text, with the same text as key; return when all are acknowledged."""

    def member(self, group: str, topic: str, commit: str) -> list[str]:
        """The command line of a group member that speaks as members.py does."""

    def end_offsets(self, topic: str) -> Mapping[int, int]:
        """Partition to log end offset."""

    def committed(self, group: str, topic: str) -> Mapping[int, int]:
        """Partition to committed offset, for partitions that have one."""


class Member:
    """A group member in a child process, and what it told so far."""

    def __init__(
        self,
        command: list[str],
        translate: Callable[[str], str | None] = lambda line: line,
        leaves_at_sigterm: bool = False,
    ) -> None:
        self.assigned: frozenset[int] = frozenset()
        self.values: set[int] = set()
        self.log: list[str] = []
        self._translate = translate
        self._leaves_at_sigterm = leaves_at_sigterm
        pipe = subprocess.PIPE
        self._process = forks.start(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self._readers = [
            threading.Thread(target=self._read, args=(stream,), daemon=True)
            for stream in (self._process.stdout, self._process.stderr)
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Iterable[str]) -> None:
        for line in stream:
            words = (self._translate(line.rstrip("\n")) or "").split()
            if words[:1] == ["assigned"]:
                self.assigned = frozenset(map(int, words[1:]))
            elif words[:1] == ["read"]:
                self.values.update(map(int, words[1:]))
            elif words:
                self.log.append(line)

    def kill(self) -> None:
        """It dies without a word to the broker: SIGKILL."""
        self._process.kill()

    def ask_to_leave(self) -> None:
        """Ask it to leave the group; once is enough."""
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return
        if self._leaves_at_sigterm:
            self._process.terminate()
        self._process.stdin.close()

    def leave(self) -> int:
        """Have it leave the group, and return its exit code."""
        self.ask_to_leave()
        return self._reap()

    def _reap(self) -> int:
        try:
            code = self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the member did not end: {self.log[-20:]}") from None
        finally:
            for reader in self._readers:
                reader.join()
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                assert stream is not None
                stream.close()
        return code

    def assert_alive(self) -> None:
        """It has not ended by itself."""
        assert self._process.poll() is None, "".join(self.log[-30:])


def leave_all(members: Sequence[Member]) -> list[int]:
    """Have all of them leave, and return their exit codes; one that does not end does not keep the others."""
    codes: list[int] = []
    with ExitStack() as leaving:
        for member in reversed(members):
            leaving.callback(lambda member=member: codes.append(member.leave()))
        for member in members:
            member.ask_to_leave()
    return codes


def python_member(client: str, bootstrap: str, group: str, topic: str, commit: str, *more: str) -> list[str]:
    """The command line of a member of members.py."""
    return [sys.executable, "-m", "tests.interop.members", client, bootstrap, group, topic, commit, *more]


def shares(members: list[Member]) -> bool:
    """Each of them has partitions, no two have the same, and together they have all."""
    for member in members:
        member.assert_alive()
    owned = [partition for member in members for partition in member.assigned]
    return all(member.assigned for member in members) and sorted(owned) == list(range(PARTITIONS))


def kcat_line(line: str) -> str | None:
    """A line of kcat in the words of members.py: values on its standard output, rebalances on the other."""
    if line.isdigit():
        return f"read {line}"
    if " rebalanced " in line:
        partitions = re.findall(r"\[(\d+)\]", line) if ": assigned:" in line else []
        return "assigned " + " ".join(partitions)
    return line


def a_group_grows_and_loses_a_member(
    client: Client,
    topic: str,
    group: str,
    start: Callable[[list[str]], Member] = Member,
    commits_when_leaving: bool = False,
    one_after_the_other: bool = False,
) -> None:
    """Live through it.

    start                 makes a Member of a command line
    commits_when_leaving  the last offsets are committed when the members leave, no earlier
    one_after_the_other   the second member starts when the first has all partitions: to a member with the consumer
                          protocol, a classic group whose first rebalance is under way is UNKNOWN_SERVER_ERROR
    """
    members: list[Member] = []

    def join(commit: str) -> Member:
        members.append(start(client.member(group, topic, commit)))
        return members[-1]

    def seen() -> set[int]:
        return set().union(*(member.values for member in members))

    try:
        client.create_topic(topic, PARTITIONS)
        first = join("sync")
        if one_after_the_other:
            until(
                lambda: first.assigned == frozenset(range(PARTITIONS)), "the first member has all partitions"
            )
        second = join("async")
        client.produce(topic, range(BEFORE_THE_THIRD))
        until(lambda: shares([first, second]), "two members share three partitions")
        until(lambda: seen() >= set(range(BEFORE_THE_THIRD)), "two members read all there is")
        third = join("auto")
        until(lambda: shares([first, second, third]), "three members have a partition each")
        client.produce(topic, range(BEFORE_THE_THIRD, BEFORE_THE_DEATH))
        until(lambda: third.values, "the third member reads")
        third.kill()
        client.produce(topic, range(BEFORE_THE_DEATH, RECORDS))
        until(lambda: shares([first, second]), "the survivors take over the partitions of the dead")
        until(lambda: seen() == set(range(RECORDS)), "every record is read")
        ends = client.end_offsets(topic)
        assert sum(ends.values()) == RECORDS and len(ends) == PARTITIONS and all(ends.values()), ends
        if not commits_when_leaving:
            until(lambda: dict(client.committed(group, topic)) == ends, f"committed offsets reach {ends}")
    finally:
        codes = leave_all(members)
    assert codes == [0, 0, -signal.SIGKILL], [member.log for member in members]
    assert dict(client.committed(group, topic)) == ends
