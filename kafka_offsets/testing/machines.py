"""A Hypothesis state machine that tests your consumer against arbitrary schedules; needs `hypothesis`.

    class BillingMachine(ConsumerMachine):
        def start(self, bootstrap_servers, client_id): ...  # makes a consumer, and returns it
        def step(self, worker): ...                         # lets it poll, work and commit for a moment
        def done(self): ...                                 # the values of records that it has processed

    def test_billing_loses_nothing():
        check(BillingMachine)

Hypothesis searches for a schedule of records, rebalances, crashes, moves, faults and time that breaks the guarantee,
and prints the shortest one that it finds. Workers are your real clients; the machine controls the broker, its clock
and its faults. See docs/testing.md.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar, NamedTuple

try:
    from hypothesis import HealthCheck, Phase, note, settings
    from hypothesis import strategies as st
    from hypothesis.stateful import (
        RuleBasedStateMachine,
        initialize,
        invariant,
        precondition,
        rule,
        run_state_machine_as_test,
    )
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "kafka_offsets.testing.machines needs hypothesis: pip install hypothesis", name=error.name
    ) from error

from kafka_offsets.broker.context.intercept import topic_name
from kafka_offsets.clock import monotonic_s
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.testing.broker import Broker
from kafka_offsets.testing.broker_cluster import Cluster
from kafka_offsets.testing.clock import ManualClock
from kafka_offsets.testing.contents.groups import GroupView
from kafka_offsets.testing.faults.call import Call
from kafka_offsets.testing.faults.control import Faults
from kafka_offsets.testing.faults.fault import Fault

_CONFIG = {"connections.max.idle.ms": -1, "log.retention.ms": -1}
"""Whatever the clock does, no record goes, and no client is disconnected for having nothing to say."""

_LEAVE_VERSION, _HEARTBEAT_VERSION = 3, 0
_LEAVES = -1
_SHOWN = 10
_TIMEOUTS_MS = 3_600_000
"""Longer than the session and rebalance timeouts of members."""
_FEWEST_ROUNDS = 2
"""So often every worker is asked at least, however busy the machine is, before a record counts as lost."""

MakeFault = Callable[[Faults, str], Fault]
"""(faults of the broker, group) -> a fault that strikes once."""

FAULTS: dict[str, MakeFault] = {
    "the coordinator has moved": lambda faults, group: faults.coordinator_moved(group, n=1),
    "the coordinator is loading": lambda faults, group: faults.coordinator_loading(group, n=1),
    "a commit is not answered: the connection closes before it": lambda faults, group: faults.close(
        "OffsetCommit", n=1, group=group
    ),
    "a commit is not answered: the connection closes after it": lambda faults, group: faults.close(
        "OffsetCommit", before=False, n=1, group=group
    ),
    "a commit gets REBALANCE_IN_PROGRESS": lambda faults, group: faults.error(
        "OffsetCommit", ErrorCode.REBALANCE_IN_PROGRESS, n=1, group=group
    ),
    "a heartbeat gets REBALANCE_IN_PROGRESS": lambda faults, group: faults.error(
        "Heartbeat", ErrorCode.REBALANCE_IN_PROGRESS, n=1, group=group
    ),
    "a heartbeat gets UNKNOWN_MEMBER_ID": lambda faults, group: faults.error(
        "Heartbeat", ErrorCode.UNKNOWN_MEMBER_ID, n=1, group=group
    ),
    "a join is cut off": lambda faults, group: faults.close("JoinGroup", n=1, group=group),
    "half an answer to a fetch": lambda faults, group: faults.half_answer("Fetch", n=1),
    "a fetch gets NOT_LEADER_OR_FOLLOWER": lambda faults, group: faults.error(
        "Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER, n=1
    ),
}
"""What `ConsumerMachine.fault` chooses from, unless a machine has `faults` of its own."""


class Guarantee(Enum):
    """The guarantee of a consumer.

    AT_LEAST_ONCE  every record is processed, and none is committed before: a crash at any moment loses nothing
    AT_MOST_ONCE   no record is processed twice
    EXACTLY_ONCE   both
    """

    AT_LEAST_ONCE = "at least once"
    AT_MOST_ONCE = "at most once"
    EXACTLY_ONCE = "exactly once"


class _Worker(NamedTuple):
    client_id: str
    consumer: Any


class ConsumerMachine(RuleBasedStateMachine):
    """Workers of one group, records for them, and failures.

    Set these in your class:
    topics        names to numbers of partitions; the workers must read them all, from the earliest record
    group         of the workers
    brokers       more than one for a `Cluster`, whose leaders and coordinators move and whose nodes stop
    config        Kafka's keys to values
    most_workers  the largest number of workers that run at a time
    guarantee     the guarantee that the machine checks
    faults        by name, (faults, group) -> a fault that is over when it has struck once
    patience_s    real time in seconds for the workers to process all records after the failures have ended
    Your hooks, rules and invariants may use: `broker`, `clock`, `workers`, `books`, a list to which workers may add
    the values that they have processed, and `produced`, the values by (topic, partition). A value names its position:
    b"orders-0-17".
    """

    topics: ClassVar[Mapping[str, int]] = {"orders": 2}
    group: ClassVar[str] = "group"
    brokers: ClassVar[int] = 1
    config: ClassVar[Mapping[str, object]] = {}
    most_workers: ClassVar[int] = 2
    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE
    faults: ClassVar[Mapping[str, MakeFault]] = FAULTS
    patience_s: ClassVar[float] = 20.0

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        config = {**_CONFIG, **self.config}
        self.broker: Broker = (
            Broker(config, clock=self.clock, record=True)
            if self.brokers == 1
            else Cluster(config, brokers=self.brokers, clock=self.clock, record=True)
        )
        self.books: list[bytes] = []
        self.produced: dict[tuple[str, int], list[bytes]] = {}
        self._workers: list[_Worker] = []
        self._started = 0
        self._crashed: set[str] = set()
        self._problems: list[str] = []
        self._in_force: list[Fault] = []
        self._watching: Fault | None = None

    # -- hooks

    def start(self, bootstrap_servers: str, client_id: str) -> Any:
        """Make a worker, a consumer of the group, and return it. It must use that client id: crashes depend on it."""
        raise NotImplementedError("a machine says how its workers are started")

    def step(self, worker: Any) -> None:
        """Run a worker: poll, process the records and commit, for some tenths of a second at most.

        An exception fails the test. The code under test must catch the errors that it survives.
        """
        raise NotImplementedError("a machine says what its workers do")

    def done(self) -> Iterable[bytes]:
        """Return the values of all processed records, in their order, also those of workers that crashed.

        The default is `books`. The broker's thread also calls this, for each commit of a worker.
        """
        return list(self.books)

    def stop(self, worker: Any) -> None:
        """Close a worker in good order: `worker.close()`."""
        worker.close()

    def abandon(self, worker: Any) -> None:
        """Free the resources of a worker that has crashed or remains at the end. It can no longer reach a broker.

        The default does nothing: the machine drops its reference to the worker.
        """

    @property
    def workers(self) -> list[Any]:
        """The running workers, the oldest first."""
        return [worker.consumer for worker in self._workers]

    # -- rules

    @initialize()
    def begin(self) -> None:
        """Start the broker and the first worker, with a record in each partition."""
        self.broker.start()
        for topic, count in self.topics.items():
            self.broker.create_topic(topic, count)
            self.produced |= {(topic, partition): [] for partition in range(count)}
        self._watching = self.broker.faults.control("OffsetCommit", self._watch, group=self.group)
        for index in range(len(self.produced)):
            self.produce(index, 1)
        self.join()

    @rule(place=st.integers(0, 99), count=st.integers(1, 4))
    def produce(self, place: int, count: int) -> None:
        """Produce records to one of the partitions."""
        topic, partition = list(self.produced)[place % len(self.produced)]
        values = self.produced[topic, partition]
        new = [f"{topic}-{partition}-{len(values) + number}".encode() for number in range(count)]
        values += new
        self.broker.produce(topic, new, partition=partition)

    @precondition(lambda self: self._workers)
    @rule(worker=st.integers(0, 9))
    def work(self, worker: int) -> None:
        """Run a step of one worker."""
        self.step(self._chosen(worker).consumer)

    @precondition(lambda self: len(self._workers) < self.most_workers)
    @rule()
    def join(self) -> None:
        """Start a worker: the group is rebalanced."""
        self._started += 1
        client_id = f"worker-{self._started}"
        worker = self.start(self.broker.bootstrap_servers, client_id)
        self._workers.append(_Worker(client_id, worker))

    @precondition(lambda self: self._workers)
    @rule(worker=st.integers(0, 9))
    def leave(self, worker: int) -> None:
        """Close a worker in good order."""
        chosen = self._chosen(worker)
        self._workers.remove(chosen)
        self.stop(chosen.consumer)

    @precondition(lambda self: self._workers)
    @rule(worker=st.integers(0, 9))
    def crash(self, worker: int) -> None:
        """Crash a worker: the broker ignores its requests from now on, and only time ends its membership."""
        chosen = self._chosen(worker)
        self._workers.remove(chosen)
        self._cut_off(chosen)

    @rule(ms=st.sampled_from([10, 1000, 10_000, 60_000, 600_000]))
    def advance(self, ms: int) -> None:
        """Advance the clock: sessions end, also those of workers that had no time to send a heartbeat."""
        self.clock.advance(ms)

    @rule(data=st.data())
    def fault(self, data: st.DataObject) -> None:
        """Inject a fault that strikes once."""
        name = data.draw(st.sampled_from(sorted(self.faults)), label="what goes wrong")
        self._in_force.append(self.faults[name](self.broker.faults, self.group))

    @rule()
    def cut_connections(self) -> None:
        """Close all connections."""
        self.broker.faults.close_connections()

    @precondition(lambda self: self.brokers > 1)
    @rule(place=st.integers(0, 99))
    def move(self, place: int) -> None:
        """Move the coordinator of the group, or the leader of a partition, to another node."""
        assert isinstance(self.broker, Cluster)
        if sum(node.is_up for node in self.broker.nodes) < 2:
            return
        partitions = list(self.produced)
        chosen = place % (len(partitions) + 1)
        if chosen == len(partitions):
            self.broker.move_coordinator(self.group)
        else:
            self.broker.move_leader(*partitions[chosen])

    @precondition(lambda self: self.brokers > 1)
    @rule(number=st.integers(0, 9))
    def turn_node(self, number: int) -> None:
        """Stop a node, or start it again; the last node stays up."""
        assert isinstance(self.broker, Cluster)
        nodes = self.broker.nodes
        node = nodes[number % len(nodes)]
        if not node.is_up:
            self.broker.start_node(node.id)
        elif sum(each.is_up for each in nodes) > 1:
            self.broker.stop_node(node.id)

    @rule()
    def settle(self) -> None:
        """End all failures, and check that the workers process every record."""
        for fault in self._in_force:
            fault.remove()
        self._in_force.clear()
        if isinstance(self.broker, Cluster):
            for node in self.broker.nodes:
                if not node.is_up:
                    self.broker.start_node(node.id)
        if not self._workers:
            self.join()
        self._expel_crashed()
        until = monotonic_s() + self.patience_s
        expiry = until - self.patience_s / 2
        rounds = 0
        while missing := self._missing():
            rounds += 1
            for worker in list(self._workers):
                self.step(worker.consumer)
            self.nothing_was_promised_that_does_not_hold()
            if rounds >= _FEWEST_ROUNDS and monotonic_s() > until:
                shown = " ".join(value.decode() for value in missing[:_SHOWN])
                raise AssertionError(
                    f"lost: {shown}{' …' if len(missing) > _SHOWN else ''}; {self.patience_s:g} s after all was "
                    f"well again the state is:\n{self.broker.describe()}"
                )
            if monotonic_s() > expiry:  # a member that its worker has replaced holds up the rebalance
                self.clock.advance(_TIMEOUTS_MS)
                expiry = until

    # -- invariants

    @invariant()
    def nothing_was_promised_that_does_not_hold(self) -> None:
        """Fail for a commit ahead of processing, or for a record processed twice, according to `guarantee`."""
        if self._problems:
            raise AssertionError(self._problems[0])
        if self.guarantee is not Guarantee.AT_LEAST_ONCE:
            twice = [value.decode() for value, times in Counter(self.done()).items() if times > 1]
            assert not twice, f"dealt with more than once: {' '.join(sorted(twice)[:_SHOWN])}"

    def _report(self) -> str:
        """Return the last requests, the faults, and the state of groups and offsets."""
        lines = [str(request) for request in self.broker.requests[-_SHOWN:]]
        lines += [repr(fault) for fault in self.broker.faults.struck if fault is not self._watching]
        if self._watching is not None:  # the broker has started
            lines.append(self.broker.describe())
        return "\n".join(lines)

    def teardown(self) -> None:
        """Check that nothing is lost, unless the test has already failed, and release all resources."""
        try:
            if sys.exc_info()[0] is None and self.produced:
                self.settle()
        except BaseException:
            note(self._report())
            raise
        finally:
            for worker in self._workers:
                self._cut_off(worker)
            self.broker.stop()

    # -- inside

    def _chosen(self, number: int) -> _Worker:
        return self._workers[number % len(self._workers)]

    def _cut_off(self, worker: _Worker) -> None:
        self._crashed.add(worker.client_id)
        self.broker.faults.control(None, _deaf, client_id=worker.client_id)
        self.broker.faults.close_connections(worker.client_id)
        self.abandon(worker.consumer)

    def _missing(self) -> list[bytes]:
        """Return the produced values that must be processed and are not yet."""
        if self.guarantee is Guarantee.AT_MOST_ONCE:
            return []
        done = set(self.done())
        return [value for values in self.produced.values() for value in values if value not in done]

    def _watch(self, call: Call) -> None:
        """Check a commit before the broker applies it: if its worker died now, no record before it may be lost."""
        if self.guarantee is Guarantee.AT_MOST_ONCE:
            return
        done = set(self.done())
        for topic in call.request.topics:
            name = topic_name(call._broker, topic)
            for partition in topic.partitions:
                offset = partition.committed_offset
                ahead = [
                    value
                    for value in self.produced.get((name, partition.partition_index), [])[:offset]
                    if value not in done
                ]
                if ahead:
                    self._problems.append(
                        f"{call.client_id} committed {name}-{partition.partition_index} at {offset} before "
                        f"{' '.join(value.decode() for value in ahead[:_SHOWN])} was dealt with: a crash would lose it"
                    )

    def _expel_crashed(self) -> None:
        """End the memberships of crashed workers, as time would do, and keep those of running workers."""
        view = self.broker.group(self.group)
        for member in () if view is None else view.members:
            if member.client_id in self._crashed:
                assert view is not None
                request, version = _leaving(view, member.member_id)
                self._ask(request, version)

    def _ask(self, request: messages.MessageValue, version: int) -> None:
        self.broker._wait_for(lambda server: server.exchange(request, version))


def _deaf(call: Call) -> ConnectionError:
    return ConnectionError(f"{call.client_id} has crashed")


def _leaving(view: GroupView, member_id: str) -> tuple[messages.MessageValue, int]:
    """Return the request with which a member leaves its group, and its version."""
    if view.type == "classic":
        identity = messages.LeaveGroupRequest.MemberIdentity(member_id)
        return messages.LeaveGroupRequest(view.group_id, members=[identity]), _LEAVE_VERSION
    return messages.ConsumerGroupHeartbeatRequest(view.group_id, member_id, _LEAVES), _HEARTBEAT_VERSION


def check(
    machine: type[ConsumerMachine], *, examples: int = 15, steps: int = 15, shrink: bool = True
) -> None:
    """Search for a schedule that a machine's workers do not survive; fail with the shortest one found.

    examples, steps  how many schedules, of how many steps at most; a client needs some tenths of a second for each
                     schedule. Run more of them at night: Hypothesis remembers failures
    shrink           whether to search for a shorter schedule after the first failure, which takes many more runs
    """
    skipped = {Phase.explain} if shrink else {Phase.explain, Phase.shrink}  # the former traces every line
    phases = [phase for phase in Phase if phase not in skipped]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            report_multiple_bugs=False,
            phases=phases,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
