"""The state machine for consumers of users: it finds what breaks a promise, and lets pass what keeps it.

The workers here read and commit inside the process, without sockets and threads: thousands of schedules take no time,
and each is the same when it is run again. With a real client the machine runs in examples/.
"""

from typing import ClassVar

import pytest

from kafka_offsets.client import commits
from kafka_offsets.errors import CommitRefusedError
from kafka_offsets.testing.machines import ConsumerMachine, Guarantee, check
from tests.drivers.members import join_request

EXAMPLES, STEPS = 4, 12


class Machine(ConsumerMachine):
    """Workers that take turns: each goes on from what is committed."""

    def start(self, bootstrap_servers: str, client_id: str) -> str:
        assert bootstrap_servers == self.broker.bootstrap_servers
        return client_id

    def stop(self, worker: str) -> None:
        assert worker not in self.workers

    def step(self, worker: str) -> None:
        for topic, partition in self.produced:
            committed = self.broker.committed(self.group).get((topic, partition))
            position = 0 if committed is None else committed.offset
            for record in self.broker.consume_all(topic, partition)[position:]:
                self.bill(record)

    def bill(self, record) -> None:
        self.books.append(record.value)
        self.commit(record)

    def commit(self, record) -> bool:
        """Commit as a client, whom faults strike, and not as the broker's own `commit`; say whether it is known."""
        request = commits.request(self.group, {(record.topic, record.partition): record.offset + 1}, {})
        try:
            answer = self.broker._wait_for(lambda server: server.exchange_as_client(request, commits.VERSION))
            commits.check(self.group, answer, {})
        except (CommitRefusedError, RuntimeError):  # a fault
            return False
        return True


class Hasty(Machine):
    def bill(self, record) -> None:
        self.commit(record)
        self.books.append(record.value)


class Forgetful(Machine):
    patience_s = 0

    def bill(self, record) -> None:
        if record.offset != 2:
            self.books.append(record.value)


class Repeating(Machine):
    guarantee = Guarantee.EXACTLY_ONCE

    def commit(self, record) -> bool:
        """Leave the records to the next worker."""
        return False


class Careless(Machine):
    guarantee = Guarantee.AT_MOST_ONCE

    def bill(self, record) -> None:
        if self.commit(record):
            self.books.append(record.value)


class Replacing(Machine):
    """A worker whose first membership is lost to it: it waits until time has ended that."""

    patience_s = 1

    def start(self, bootstrap_servers: str, client_id: str) -> str:
        joining = join_request(self.group)
        self.broker._wait_for(lambda server: server.exchange_as_client(joining, 3))
        return super().start(bootstrap_servers, client_id)

    def step(self, worker: str) -> None:
        group = self.broker.group(self.group)
        if group is None or not group.members:
            super().step(worker)


class OnThree(Machine):
    brokers = 3


class Numbered(Machine):
    """What users add: rules of their own, and what they hold to be true."""

    topics: ClassVar = {"orders": 1, "payments": 3}
    config: ClassVar = {"num.partitions": 7}

    def teardown(self) -> None:
        if self.produced:
            assert len(self.produced) == 4
            assert self.produced["payments", 2][0] == b"payments-2-0"
        super().teardown()


@pytest.mark.parametrize("machine", [Machine, OnThree, Numbered])
def test_a_consumer_that_commits_what_it_has_dealt_with_passes(machine: type[ConsumerMachine]) -> None:
    check(machine, examples=EXAMPLES, steps=STEPS)


def test_a_commit_before_the_work_is_done_is_found() -> None:
    with pytest.raises(
        AssertionError,
        match="committed orders-0 at 1 before orders-0-0 was dealt with: a crash would lose it",
    ) as found:
        check(Hasty)
    told = "\n".join(found.value.__notes__)
    assert "state.teardown()" in told
    assert "group 'group'" in told
    assert "orders-0 committed 1" in told


def test_time_ends_a_membership_that_its_worker_has_lost() -> None:
    check(Replacing, examples=1, steps=1)


def test_a_record_that_is_not_handled_is_found() -> None:
    with pytest.raises(AssertionError, match=r"lost: orders-\d-2.*; 0 s after all was well again") as found:
        check(Forgetful, examples=50, shrink=False)
    assert "state.produce(" in "\n".join(found.value.__notes__)


def test_a_record_that_is_dealt_with_twice_is_found() -> None:
    with pytest.raises(AssertionError, match="dealt with more than once: orders-0-0"):
        check(Repeating, shrink=False)


def test_a_worker_that_promises_at_most_once_may_lose_records() -> None:
    check(Careless, examples=EXAMPLES, steps=STEPS)


def test_a_machine_says_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="a machine says how its workers are started"):
        check(ConsumerMachine)
