"""Operations: what a client can request over HTTP, one row each.

A row is a method, a path and a function. The parameters, the text and the result of an operation are those of its
function: nothing is written twice. What reads is a GET, with parameters in the query. What changes or waits is a POST,
with parameters in an object of JSON or in the query.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from kafka_offsets.http import control
from kafka_offsets.http.control import Control, ControlledBroker, FaultView, Snapshots, SnapshotView
from kafka_offsets.http.values import Parameter, call, parameters_of, schema_of
from kafka_offsets.testing.broker import Broker
from kafka_offsets.testing.broker_cluster import Cluster
from kafka_offsets.testing.clock import ManualClock
from kafka_offsets.testing.faults.control import Faults
from kafka_offsets.testing.faults.fault import Fault
from kafka_offsets.testing.server import events

BROKER = "/brokers/{broker}"

_READS = ("address_of", "committed", "consume_all", "describe", "lag", "metrics", "overview")
_ASSERTS = ("assert_committed", "assert_lag", "assert_nothing_produced", "assert_produced")
_CHANGES = ("commit", "compact", "create_topic", "expire_offsets", "produce", "set_quota")
_CLUSTER_READS = ("coordinator", "in_sync", "leader", "nodes")
_CLUSTER_CHANGES = (
    "elect_preferred_leaders",
    "grow_isr",
    "heal",
    "kill",
    "move_coordinator",
    "move_leader",
    "partition",
    "pause",
    "restart",
    "resume",
    "shrink_isr",
    "slow",
    "start_node",
    "stop_node",
)
_FAULTS = (
    "close",
    "close_connections",
    "coordinator_loading",
    "coordinator_moved",
    "delay",
    "denied",
    "disk_error",
    "disk_full",
    "down",
    "drop",
    "error",
    "half_answer",
    "leader_moved",
    "observe",
    "release",
    "slow_disk",
    "withhold",
)
_CLOCK = ("advance", "run_until_idle", "set_wall")
_EVENTS = (
    "caught_up",
    "committed",
    "consuming",
    "group_empty",
    "group_stable",
    "member_joined",
    "record_produced",
    "topic_created",
)

Run = Callable[[Control, str, Mapping[str, Any]], Any]
"""(all brokers, id of the broker or "", arguments) -> the result, or a coroutine that returns it."""


class Operation(NamedTuple):
    """One operation.

    function    its text, and the type of its result, are those of the operation
    parameters  by name; those that the path names are parts of the path, but for `broker`
    status      of a success that has a result
    in_loop     whether it is executed in the thread of the brokers, for which it never waits: a fault is then in force
                without a change of threads, which takes milliseconds on a busy machine
    waits       whether it waits for something that may not happen: as a coroutine if it is in the loop
    """

    method: str
    path: str
    function: Callable[..., Any]
    parameters: Sequence[Parameter]
    run: Run
    status: int = 200
    waits: bool = False
    in_loop: bool = False

    @property
    def name(self) -> str:
        """A unique name, of letters and underscores."""
        path = "broker" if self.path == BROKER else self.path.removeprefix(BROKER)
        words = [word.strip("{}") for word in path.split("/")]
        return "_".join([self.method.lower(), *filter(None, words)])

    @property
    def result(self) -> Any:
        """The annotation of the result; None for an operation without one. None in place of another is status 404."""
        kind = get_type_hints(self.function).get("return", Any)
        if isinstance(kind, type) and issubclass(kind, Fault):
            return FaultView
        is_one_of_some = get_origin(kind) is events.Event or type(None) in get_args(kind)
        return get_args(kind)[0] if is_one_of_some else kind

    @property
    def fields(self) -> Sequence[str]:
        """The fields of the result, each of which can be the answer by itself."""
        return [*schema_of(self.result).get("properties", {})]

    @property
    def text(self) -> str:
        """The docstring of the function."""
        return inspect.getdoc(self.function) or ""


@cache
def operations() -> tuple[Operation, ...]:
    """Return all operations, in the order of the documentation."""
    return (*_of_control(), *_of_brokers(), *_of_faults(), *_of_clocks(), *_of_events(), *_of_clusters())


def _of_control() -> list[Operation]:
    """Brokers and snapshots: what belongs to no single broker, and each broker itself."""
    shot = Snapshots

    def row(method: str, path: str, function: Callable[..., Any], run: Run, status: int = 200) -> Operation:
        parameters = [parameter for parameter in parameters_of(function) if parameter.name != "broker"]
        return Operation(method, path, function, parameters, run, status, in_loop=True)

    return [
        row("GET", "/brokers", Control.all, lambda all_, _, arguments: all_.all()),
        row("POST", "/brokers", Control.create, lambda all_, _, arguments: all_.create(**arguments), 201),
        row(
            "DELETE", "/brokers", Control.delete_all, lambda all_, _, arguments: all_.delete_all(**arguments)
        ),
        row("GET", BROKER, ControlledBroker.view, lambda all_, broker, arguments: all_.get(broker).view()),
        row("DELETE", BROKER, Control.delete, lambda all_, broker, arguments: all_.delete(broker)),
        row("GET", "/snapshots", shot.all, lambda all_, _, arguments: all_.snapshots.all()),
        row(
            "DELETE",
            "/snapshots/{snapshot}",
            shot.delete,
            lambda all_, _, arguments: all_.snapshots.delete(**arguments),
        ),
        row("POST", "/shutdown", Control.shutdown, lambda all_, _, arguments: all_.shutdown(**arguments)),
    ]


def _row(
    method: str,
    path: str,
    member: Any,
    target: Callable[[ControlledBroker], Any],
    *,
    others: Sequence[Parameter] = (),
    waits: bool = False,
) -> Operation:
    """Return the operation that calls a method, or gets a property, of a part of a broker."""
    is_property = isinstance(member, property)
    function = member.fget if is_property else member
    parameters = parameters_of(function, others)

    def run(brokers: Control, broker: str, arguments: Mapping[str, Any]) -> Any:
        bound_method = getattr(target(brokers.get(broker)), function.__name__)
        result = bound_method if is_property else call(bound_method, parameters, arguments)
        return FaultView.of(result) if isinstance(result, Fault) else result

    made = Operation(method, f"{BROKER}/{path}", function, parameters, run, waits=waits)
    is_new = made.result in (FaultView, SnapshotView) and method == "POST" and not waits
    return made._replace(status=201 if is_new else 200)


def _of_brokers() -> list[Operation]:
    def broker(controlled: ControlledBroker) -> Broker:
        return controlled.broker

    def itself(controlled: ControlledBroker) -> ControlledBroker:
        return controlled

    return [
        *(_row("GET", name, getattr(Broker, name), broker) for name in _READS),
        *(_asserting(getattr(Broker, name)) for name in _ASSERTS),
        *(_row("POST", name, getattr(Broker, name), broker) for name in _CHANGES),
        _row("GET", "group", ControlledBroker.group, itself),
        _row("GET", "summary", ControlledBroker.summary, itself),
        _row("GET", "why", ControlledBroker.why, itself),
        _row("GET", "requests", ControlledBroker.requests, itself),
        _row("GET", "requests/{request}/explain", ControlledBroker.explain, itself),
        _row("GET", "report", ControlledBroker.report, itself),
        _row("GET", "request_counts", ControlledBroker.request_counts, itself),
        _row("GET", "capture", ControlledBroker.capture, itself),
        _row("POST", "snapshot", ControlledBroker.snapshot, itself),
        _row("POST", "restore", ControlledBroker.restore, itself),
    ]


def _asserting(member: Callable[..., None]) -> Operation:
    """Return the operation that asserts something of a broker, and may wait for it."""
    row = _row("POST", member.__name__, member, lambda controlled: controlled.broker, waits=True)

    def run(brokers: Control, broker: str, arguments: Mapping[str, Any]) -> Any:
        control.check_timeout(arguments.get("timeout", arguments.get("during", 0)))
        return row.run(brokers, broker, arguments)

    return row._replace(run=run)


def _of_faults() -> list[Operation]:
    which = [parameter for parameter in parameters_of(Faults.error) if parameter.name not in ("api", "error")]

    def faults(controlled: ControlledBroker) -> Faults:
        return controlled.broker.faults

    def itself(controlled: ControlledBroker) -> ControlledBroker:
        return controlled

    rows = [
        *(_row("POST", f"faults/{name}", getattr(Faults, name), faults, others=which) for name in _FAULTS),
        _row("GET", "faults", ControlledBroker.faults, itself),
        _row("DELETE", "faults", Faults.clear, faults),
        _row("GET", "faults/{fault}", ControlledBroker.fault, itself),
        _row("DELETE", "faults/{fault}", ControlledBroker.remove_fault, itself),
    ]
    waiting = _row("POST", "faults/{fault}/wait", ControlledBroker.wait_for_fault, itself, waits=True)
    return [row._replace(in_loop=True) for row in (*rows, waiting)]


def _of_clocks() -> list[Operation]:
    def clock(controlled: ControlledBroker) -> ManualClock:
        return controlled.clock

    return [
        _row("GET", "clock", ControlledBroker.now, lambda controlled: controlled),
        *(_row("POST", f"clock/{name}", getattr(ManualClock, name), clock) for name in _CLOCK),
    ]


def _of_events() -> list[Operation]:
    return [_waiting(getattr(events, name)) for name in _EVENTS]


def _waiting(event: Callable[..., events.Event[Any]]) -> Operation:
    """Return the operation that waits for an event."""
    parameters = parameters_of(event)
    timeout = Parameter("timeout", float, control.WAIT_SECONDS)

    def run(brokers: Control, broker: str, arguments: Mapping[str, Any]) -> Any:
        seconds = control.check_timeout(arguments.get(timeout.name, timeout.default))
        return brokers.get(broker).broker.async_wait_for(call(event, parameters, arguments), seconds)

    path = f"{BROKER}/wait_for/{event.__name__}"
    return Operation("POST", path, event, [*parameters, timeout], run, waits=True, in_loop=True)


def _of_clusters() -> list[Operation]:
    def cluster(controlled: ControlledBroker) -> Cluster:
        return controlled.cluster

    return [
        *(_row("GET", name, getattr(Cluster, name), cluster) for name in _CLUSTER_READS),
        *(_row("POST", name, getattr(Cluster, name), cluster) for name in _CLUSTER_CHANGES),
    ]
