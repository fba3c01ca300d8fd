"""Control: the brokers that one server controls, their snapshots, and what a request needs beside a broker's methods.

All brokers run in the event loop of the server. Their methods wait for that loop, so they are called in other threads.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.clock import SystemClock
from kafka_offsets.diagnosis.findings import Finding
from kafka_offsets.errors import ConfigError, KafkaOffsetsError
from kafka_offsets.logs import new_logger
from kafka_offsets.testing.broker import Broker, Snapshot
from kafka_offsets.testing.broker_cluster import Cluster
from kafka_offsets.testing.clock import ManualClock
from kafka_offsets.testing.contents.groups import (
    GroupSummary,
    GroupView,
    TopicSummary,
    group_summaries,
    topic_summaries,
    unknown_group,
)
from kafka_offsets.testing.faults.fault import Fault
from kafka_offsets.testing.server.events import Event
from kafka_offsets.testing.server.recording import RecordedRequest

if TYPE_CHECKING:
    from kafka_offsets.inspect.lines import Line

MAIN = "main"
"""The id of the broker that the process was started for."""

MAX_BROKERS = 200
MAX_SNAPSHOTS = 100
TTL_SECONDS = 3600.0
"""The brokers of tests that were interrupted do not stay."""

MAX_TTL_SECONDS = 7 * 24 * 3600
_MOST_LETTERS = 500
"""Of a broker's name: that of a test, with all that it is given."""

WAIT_SECONDS = 4.0
"""The default timeout of requests that wait: Jest ends a test after 5 s, and then nobody sees why a wait has failed."""

MAX_WAIT_SECONDS = 600.0

_MOST_EXPLAINED_BYTES = 32 << 10

logger = new_logger(__name__)


class NotFoundError(Exception):
    """There is no broker, fault or snapshot of this name."""


class ConflictError(Exception):
    """A request that this broker, in its current state, cannot carry out."""


def check_timeout(seconds: float) -> float:
    """Return a timeout that is not too long. Raises ValueError."""
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise ValueError(f"timeout: between 0 and {MAX_WAIT_SECONDS:g} s, not {seconds:g}")
    return seconds


class BrokerView(NamedTuple):
    """One broker: its id, the address for clients, the number of its nodes, and whether its clock is a manual one.

    listeners  the address of each listener, by its name
    """

    broker: str
    bootstrap_servers: str
    brokers: int
    manual_clock: bool
    listeners: dict[str, str]


class ClockView(NamedTuple):
    """The time of a broker in milliseconds: since the epoch, and since an arbitrary start."""

    wall_ms: int
    mono_ms: int
    manual_clock: bool


class SnapshotView(NamedTuple):
    """One snapshot, and the broker that it was taken of."""

    snapshot: str
    broker: str


class FaultView(NamedTuple):
    """One fault: `apis` null is every API, `n` null is no limit; `text` describes it."""

    fault: int
    kind: str
    apis: list[str] | None
    n: int | None
    hits: int
    is_active: bool
    text: str

    @classmethod
    def of(cls, fault: Fault) -> Self:
        """Return the current state of a fault."""
        apis = None if fault.apis is None else sorted(fault.apis)
        return cls(fault.number, fault.kind, apis, fault.n, fault.hits, fault.is_active, repr(fault))


class RequestView(NamedTuple):
    """One recorded request of a client: `request` and `response` are null unless `decoded` was requested."""

    number: int
    wall_ms: int
    peer: str
    node: int | None
    client_id: str | None
    api: str
    version: int
    correlation_id: int
    latency_ms: float | None
    groups: list[str]
    topics: list[str]
    errors: dict[str, int]
    request: Any
    response: Any

    @classmethod
    def of(cls, each: RecordedRequest, *, decoded: bool) -> Self:
        """Return a recorded request, with its fields and those of its response if `decoded`."""
        return cls(
            each.number,
            each.wall_ms,
            each.peer,
            each.node,
            each.client_id,
            each.api,
            each.version,
            each.correlation_id,
            each.latency_ms,
            sorted(each.groups),
            sorted(each.topics),
            dict(each.errors),
            each.request if decoded else None,
            each.response if decoded else None,
        )


class RequestsView(NamedTuple):
    """Recorded requests, the oldest first, and the number of the last event, for `after`."""

    last_event: int
    requests: list[RequestView]


class ExplainedView(NamedTuple):
    """The lines in which `kafka-offsets inspect` explains a recorded request and its response; null without one."""

    request: list[str]
    response: list[str] | None


class SummaryView(NamedTuple):
    """A broker in short: all topics, internal ones too, and all groups.

    unknown  the partitions of which nothing is known now, and why; they are in no sum, and with a partition of the
             offsets topic its groups are missing
    """

    topics: list[TopicSummary]
    groups: list[GroupSummary]
    unknown: dict[str, str]


class CountsView(NamedTuple):
    """How many requests of each API came, how many errors of each name they got, and the number of the last event."""

    last_event: int
    requests: dict[str, int]
    errors: dict[str, int]


class ControlledBroker:
    """One running broker."""

    def __init__(self, broker_id: str, broker: Broker, snapshots: Snapshots) -> None:
        self.id, self.broker = broker_id, broker
        self._snapshots = snapshots

    @property
    def clock(self) -> ManualClock:
        """The manual clock. ConflictError if the broker follows the machine's."""
        if isinstance(self.broker.clock, ManualClock):
            return self.broker.clock
        raise ConflictError(
            f"broker {self.id!r} follows the clock of the machine: start it with --manual-clock, or another one by "
            'POST /brokers with {"manual_clock": true}'
        )

    @property
    def cluster(self) -> Cluster:
        """The broker as a cluster. ConflictError if it is alone."""
        if isinstance(self.broker, Cluster):
            return self.broker
        raise ConflictError(
            f'broker {self.id!r} is alone: POST /brokers with {{"brokers": 3}} starts a cluster of three'
        )

    def view(self) -> BrokerView:
        """Return the broker: its addresses, the number of its nodes, and whether its clock is a manual one."""
        nodes = len(self.broker.nodes) if isinstance(self.broker, Cluster) else 1
        is_manual = isinstance(self.broker.clock, ManualClock)
        listeners = {
            endpoint.name: self.broker.address_of(endpoint.name)
            for endpoint in self.broker.config.endpoints()
        }
        return BrokerView(self.id, self.broker.bootstrap_servers, nodes, is_manual, listeners)

    def now(self) -> ClockView:
        """Return the time of the broker's clock."""
        clock = self.broker.clock
        now = (SystemClock() if clock is None else clock).now()
        return ClockView(now.wall_ms, now.mono_ms, isinstance(clock, ManualClock))

    def requests(
        self,
        api: str | None = None,
        client_id: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        error: str | int | None = None,
        node: int | None = None,
        after: int = 0,
        last: int | None = None,
        decoded: bool = False,
    ) -> RequestsView:
        """Return the recorded requests of clients, the last 10,000 or 16 MiB, the oldest first.

        api      the name of an API; client_id, group, topic, error, node choose requests too
        after    only requests after this `last_event` of an earlier answer
        last     at most so many, the latest ones
        decoded  with all fields of each request and its response
        """
        if last is not None and last < 1:
            raise ValueError(f"last: 1 or more, not {last}")
        last_event = self.broker.last_event
        chosen = self.broker.requests_after(after).of(
            api, client_id=client_id, group=group, topic=topic, error=error, node=node
        )
        latest = chosen if last is None else chosen[-last:]
        return RequestsView(last_event, [RequestView.of(request, decoded=decoded) for request in latest])

    def explain(self, request: int) -> ExplainedView:
        """Explain a recorded request and its response byte by byte, as `kafka-offsets inspect` does.

        request  its `number`
        A frame of more than 32 KiB is not explained: that takes more than 0.3 s, in which the broker is slow.
        """
        # Late: construct takes 0.2 s.
        from kafka_offsets.inspect.frame import explain_request, explain_response

        recorded_request = next(
            (recorded for recorded in self.broker.requests if recorded.number == request), None
        )
        if recorded_request is None:
            raise NotFoundError(f"broker {self.id!r} has no request {request}; it keeps only the last ones")
        frame, response = recorded_request.frames
        return ExplainedView(
            _explained(frame, explain_request),
            None
            if response is None
            else _explained(
                response, lambda data: explain_response(data, recorded_request.api, recorded_request.version)
            ),
        )

    def summary(self) -> SummaryView:
        """Return the sizes of all topics, and state, members and lag of all groups.

        It is read in parts, between which the broker serves its clients, so not everything is of one moment.
        """
        topics, unknown = self.broker._when_open(topic_summaries)
        summaries = self.broker._groups_in_parts(group_summaries)
        return SummaryView(topics, summaries, unknown)

    def group(self, group: str) -> GroupView:
        """Return state, members and assignments of a group."""
        if view := self.broker.group(group):
            return view
        raise NotFoundError(self.broker._when_open(lambda core: unknown_group(core, group)))

    def why(self, group: str | None = None) -> list[Finding]:
        """Return what is stuck, and what explains it, the most important first; nothing where all is well.

        group  only what concerns this group; it need not exist
        """
        return list(self.broker.why(group))

    def report(self, after: int = 0) -> list[str]:
        """Return what a failed test shows, in lines: what is stuck, requests, faults, and what the broker holds.

        after  only requests after this `last_event` of an earlier answer
        """
        return self.broker.report(after)

    def request_counts(self, after: int = 0) -> CountsView:
        """Count the recorded requests of each API, and the errors in their responses by name.

        after  only requests after this `last_event` of an earlier answer
        """
        last = self.broker.last_event
        apis: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        for request in self.broker.requests_after(after):
            apis[request.api] += 1
            errors.update(request.errors)
        return CountsView(last, dict(apis), dict(errors))

    def capture(self) -> str:
        """Return the recorded requests as lines of JSON, a file for `kafka-offsets inspect`."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "wire.jsonl"
            self.broker.save_capture(path)
            return path.read_text(encoding="utf-8")

    def faults(self) -> list[FaultView]:
        """Return the faults in force, and the last 100 that are over."""
        return [FaultView.of(fault) for fault in self.broker.faults.named]

    def fault(self, fault: int) -> FaultView:
        """Return one fault: how often it has struck, and whether it is in force."""
        return FaultView.of(self._fault(fault))

    def remove_fault(self, fault: int) -> None:
        """End a fault. Does nothing if it is already over."""
        self._fault(fault).remove()

    async def wait_for_fault(self, fault: int, hits: int = 1, timeout: float = WAIT_SECONDS) -> FaultView:  # noqa: ASYNC109 - as in `async_wait_for`
        """Wait until a fault has struck `hits` times, or until it is over.

        timeout  in seconds of real time
        """
        named_fault = self._fault(fault)

        def poll(core: object) -> FaultView | None:
            if named_fault.hits < hits and not named_fault.is_active:
                raise TimeoutError(repr(named_fault))
            return FaultView.of(named_fault) if named_fault.hits >= hits else None

        event = Event(f"fault {fault} has struck {hits} times", poll, lambda core: repr(named_fault))
        return await self.broker.async_wait_for(event, check_timeout(timeout))

    def _fault(self, number: int) -> Fault:
        named_fault = next((fault for fault in self.broker.faults.named if fault.number == number), None)
        if named_fault is None:
            raise NotFoundError(f"broker {self.id!r} has no fault {number}")
        return named_fault

    def snapshot(self) -> SnapshotView:
        """Take a snapshot of the whole state of the broker, for `restore`; clients do not notice."""
        return self._snapshots.add(self.id, self.broker.snapshot())

    def restore(self, snapshot: str) -> None:
        """Restore a snapshot, of this broker or of another one: as after a crash and a restart."""
        self.broker.restore(self._snapshots.get(snapshot))


def _explained(frame: bytes, explain: Callable[[bytes], list[Line]]) -> list[str]:
    """Return the lines of an explanation, or one that says why there is none."""
    if len(frame) > _MOST_EXPLAINED_BYTES:
        return [f"{len(frame)} bytes: `GET capture` and `kafka-offsets inspect` explain frames of this size"]
    try:
        return [str(line) for line in explain(frame)]
    except KafkaOffsetsError as error:
        return [f"{len(frame)} bytes that cannot be explained: {error}"]


class Snapshots:
    """The snapshots that a server keeps."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[SnapshotView, Snapshot]] = {}
        self._numbers = itertools.count(1)

    def add(self, broker_id: str, snapshot: Snapshot) -> SnapshotView:
        """Keep a snapshot. ConflictError if there are too many."""
        if len(self._kept) >= MAX_SNAPSHOTS:
            raise ConflictError(f"{MAX_SNAPSHOTS} snapshots are kept: delete one")
        view = SnapshotView(str(next(self._numbers)), broker_id)
        self._kept[view.snapshot] = view, snapshot
        return view

    def get(self, snapshot: str) -> Snapshot:
        """Return a snapshot by its id. NotFoundError."""
        if snapshot not in self._kept:
            raise NotFoundError(f"there is no snapshot {snapshot!r}")
        return self._kept[snapshot][1]

    def all(self) -> list[SnapshotView]:
        """Return the snapshots that are kept."""
        return [view for view, _ in list(self._kept.values())]

    def delete(self, snapshot: str) -> None:
        """Forget a snapshot."""
        self.get(snapshot)
        self._kept.pop(snapshot, None)


class Control:
    """All brokers of a server.

    host      where new brokers listen
    instance  the name of this process, by which a test knows it from one of an earlier run; None: it has none
    ended     is set when a client asks the process to end
    """

    def __init__(self, host: str, instance: str | None = None) -> None:
        self._host, self._instance = host, instance
        self.ended = asyncio.Event()
        self._running: dict[str, ControlledBroker] = {}
        self._starting: set[str] = set()
        self._expiring: dict[str, asyncio.TimerHandle] = {}
        self._expired: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self.snapshots = Snapshots()

    def get(self, broker: str) -> ControlledBroker:
        """Return a running broker by its id. NotFoundError."""
        if broker not in self._running:
            raise NotFoundError(f"there is no broker {broker!r}")
        return self._running[broker]

    def all(self) -> list[BrokerView]:
        """Return the running brokers."""
        return [running.view() for running in list(self._running.values())]

    async def start(self, broker: Broker, broker_id: str = MAIN) -> ControlledBroker:
        """Start a broker, and control it until `stop`. Raises what its start raises."""
        await broker.__aenter__()
        self._running[broker_id] = controlled = ControlledBroker(broker_id, broker, self.snapshots)
        return controlled

    async def create(
        self,
        config: Mapping[str, str | int | float | bool] | None = None,
        port: int = 0,
        brokers: int = 1,
        manual_clock: bool = False,
        name: str | None = None,
        topics: Mapping[str, int | Mapping[str, Any]] | Sequence[str] | None = None,
        users: Mapping[str, str] | None = None,
        ttl_seconds: float | None = TTL_SECONDS,
    ) -> BrokerView:
        """Start a broker in memory, for one test: on a port of its own, with its own clock, and recording.

        config        Kafka's keys to values
        port          0 takes a free one
        brokers       more than 1: a cluster of so many
        manual_clock  its time passes only by `clock/advance`
        name          its id; an earlier broker of this name stops first. Default: a number
        topics        names, or an object of names to numbers of partitions or to `{"partitions": 3, "config": {…}}`
        users         names to passwords of clients, which then authenticate with SASL
        ttl_seconds   after so much real time it is deleted, should the test not do so: an hour; null for never
        """
        if ttl_seconds is not None and not 0 < ttl_seconds <= MAX_TTL_SECONDS:
            raise ValueError(f"ttl_seconds: above 0 and at most {MAX_TTL_SECONDS}, not {ttl_seconds:g}")
        broker_id = str(next(self._numbers)) if name is None else _checked(name)
        if broker_id in self._starting:
            raise ConflictError(f"another request is starting broker {broker_id!r}")
        if len((self._running.keys() | self._starting) - {broker_id}) >= MAX_BROKERS:
            oldest = next((other_id for other_id in self._running if other_id != MAIN), MAIN)
            raise ConflictError(f"{MAX_BROKERS} brokers are running: delete one; the oldest is {oldest!r}")
        clock = ManualClock() if manual_clock else None
        if Config.load(config, warns=False).data_directory() is not None:
            raise ConfigError("this broker is in memory: log.dirs is for `kafka-offsets serve`")
        make = Broker if brokers == 1 else partial(Cluster, brokers=brokers)
        made: Broker = make(
            config, host=self._host, port=port, clock=clock, users=users, record=True, topics=topics
        )
        self._starting.add(broker_id)
        try:
            if broker_id in self._running:
                await self.delete(broker_id)
            started = await self.start(made, broker_id)
            if ttl_seconds is not None:
                self._end_after(broker_id, ttl_seconds)
            return started.view()
        finally:
            self._starting.remove(broker_id)

    async def delete(self, broker: str) -> None:
        """Stop a broker, and end all requests that wait for it."""
        if broker == MAIN:
            raise ConflictError(f"broker {MAIN!r} runs as long as its process")
        await _stop(self._claim(broker).broker)

    async def delete_all(self, prefix: str = "") -> list[str]:
        """Stop all brokers whose ids begin with `prefix`, but `main`; return their ids."""
        chosen = [
            broker_id for broker_id in self._running if broker_id != MAIN and broker_id.startswith(prefix)
        ]
        await self._stop_all(chosen)
        return chosen

    def shutdown(self, instance: str | None = None) -> None:
        """End the process of the server, in order, as SIGTERM does.

        instance  only the process that was started with this `--instance`; another one refuses
        """
        if instance is not None:
            self.check_instance(instance)
        self.ended.set()

    def check_instance(self, expected: str) -> None:
        """Do nothing if this process was started with this `--instance`. ConflictError."""
        if expected != self._instance:
            own = "no --instance" if self._instance is None else f"--instance {self._instance}"
            raise ConflictError(f"this server was started with {own}: it is not {expected!r}")

    def _end_after(self, broker: str, seconds: float) -> None:
        """Delete a broker when its time is over, unless it is deleted before."""
        loop = asyncio.get_running_loop()
        self._expiring[broker] = loop.call_later(seconds, self._expire, broker)

    def _expire(self, broker: str) -> None:
        """Delete a broker whose time is over."""
        task = asyncio.ensure_future(self.delete(broker))
        self._expired.add(task)
        task.add_done_callback(self._expired.discard)

    def _claim(self, broker: str) -> ControlledBroker:
        controlled = self.get(broker)
        del self._running[broker]
        timer = self._expiring.pop(broker, None)
        if timer is not None:
            timer.cancel()
        return controlled

    async def stop(self) -> None:
        """Stop all brokers, and end all requests that wait."""
        while self._running:
            await self._stop_all(list(self._running))

    async def _stop_all(self, chosen: Sequence[str]) -> None:
        """Stop brokers, each of them also if another one cannot stop in order; then raise the first error."""
        errors = []
        for taken in [self._claim(broker_id) for broker_id in chosen]:
            try:
                await _stop(taken.broker)
            except Exception as error:  # noqa: BLE001 - raised below, or logged
                errors.append(error)
        for other in errors[1:]:
            logger.error("another broker did not stop in order: %s", other)
        if errors:
            raise errors[0]


def _checked(name: str) -> str:
    """Return a name for a broker that is a part of a path, and neither a number nor that of `serve`'s broker."""
    if name == MAIN:
        raise ConflictError(f"broker {MAIN!r} runs as long as its process")
    if name.isdigit():
        raise ValueError(f"name: {name} is a number, as the server gives them to brokers without a name")
    if name in ("", ".", "..") or not name.isprintable() or len(name) > _MOST_LETTERS:
        raise ValueError(f"name: printable, 1 to {_MOST_LETTERS} characters, not '.' or '..'; not {name!r}")
    return name


async def _stop(broker: Broker) -> None:
    broker.faults.clear()  # whoever waits for one need not wait any more
    await broker.__aexit__(None, None, None)
