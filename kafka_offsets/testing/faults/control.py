"""Faults that a test injects into a broker: `broker.faults`.

    with broker.faults.error("OffsetCommit", ErrorCode.NOT_COORDINATOR, n=2, group="billing") as fault:
        consumer.commit()
    assert fault.hits == 2

Each call returns a :class:`Fault`. It is in force until it has struck `n` times, until `remove()`, or until the end of
its `with`. Faults combine: delays add up, and of several errors the earliest strikes. The broker serves the rest of the
request (other partitions, other groups). There is no cost before the first fault.
docs/faults.md has examples, and the names of these faults in librdkafka's mock cluster and kfake.
"""

from __future__ import annotations

import difflib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_offsets.broker.api import fetch
from kafka_offsets.broker.core.api_table import SERVED, served_apis
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.gates.gate import authorized
from kafka_offsets.broker.wire.api import (
    API_VERSIONS,
    GROUP,
    GROUPS,
    PARTITIONS,
    TRANSACTION,
    Addresses,
    Api,
    Apis,
)
from kafka_offsets.clock import LATEST_MS, ManualClock
from kafka_offsets.errors import ErrorCode, error_code
from kafka_offsets.protocol.mirroring.named import GROUP_ID, TRANSACTIONAL_ID
from kafka_offsets.testing.faults import interception, partial_errors, releases
from kafka_offsets.testing.faults.disk_faults import DiskFault, DiskFaults
from kafka_offsets.testing.faults.fault import Controls, Fault, WithheldVersions
from kafka_offsets.testing.faults.interception import Interception

if TYPE_CHECKING:
    from kafka_offsets.broker.network.embedded import EmbeddedBroker
    from kafka_offsets.broker.network.server import Server
    from kafka_offsets.storage.files.files import Files

Names = str | int | Iterable[str | int] | None

_REMEMBERED = 100
"""So many faults that are over are kept for a report."""

F = TypeVar("F", bound=Fault)


class Faults:
    """The faults of one broker. All methods may be called from any thread while the broker runs.

    Common parameters: `api` is the name of an API such as "OffsetCommit", its number, or several of them; None, where
    it is optional, is every API. `n` is the largest number of hits. `client_id`, `group`, `transactional_id`, `topic`
    and `partition` choose the requests that it strikes, `node` the node of a cluster.
    ValueError for a fault that could never strike: an API that is not served, a partition without topic, a group for an
    API that names none, an unknown node. RuntimeError if the broker is not running.
    """

    def __init__(self, broker: EmbeddedBroker) -> None:
        """Make an empty collection for a broker. `kafka_offsets.Broker` does this; tests need not."""
        self._broker = broker
        self._faults: list[Fault] = []
        self._over: deque[Fault] = deque(maxlen=_REMEMBERED)
        self._numbers = itertools.count(1)
        self._disks: dict[Files, DiskFaults] = {}
        self._server: Server | None = None

    def __repr__(self) -> str:
        return f"<faults: {', '.join(map(repr, self._faults)) or 'none'}>"

    @property
    def active(self) -> list[Fault]:
        """The faults in force, the oldest first."""
        return [fault for fault in self._faults if fault.is_active]

    @property
    def struck(self) -> list[Fault]:
        """The faults that have struck; first those that are over."""
        return [fault for fault in [*self._over, *self._faults] if fault.hits]

    @property
    def over(self) -> list[Fault]:
        """The last faults that are over, also those without a hit."""
        return list(self._over)

    @property
    def named(self) -> list[Fault]:
        """The faults that a report of a failure names: those that are over, and those in force."""
        return [*self._over, *self._faults]

    def clear(self) -> None:
        """End all faults."""
        for fault in self.active:
            fault.remove()

    # -- answers

    def error(
        self,
        api: Names,
        error: int | str | Sequence[int | str],
        *,
        n: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        node: int | None = None,
    ) -> Fault:
        """Answer with an error instead of executing the request.

        error  an ErrorCode, its name or its number; or several, one for each coming request, where ErrorCode.NONE
               serves one
        The error is where Kafka puts it: at each partition, group or topic, or at the top level. With a topic or group
        the broker serves the others of the same request; a request that is all or nothing is refused as a whole.
        """
        codes = _error_codes(error)
        if not codes or codes == [ErrorCode.NONE]:
            raise ValueError(
                "error= has an error at least once: ErrorCode.NONE alone would serve every request"
            )
        description = ", ".join(code.name for code in codes)
        return self._add(
            Fault(
                self,
                "error",
                self._names(api),
                description=description,
                n=n,
                client_id=client_id,
                group=group,
                transactional_id=transactional_id,
                topic=topic,
                partition=partition,
                node=node,
                errors=codes,
            )
        )

    def delay(self, api: Names = None, *, ms: int, before: bool = False, **which: Any) -> Fault:
        """Delay answers by so many milliseconds of the broker's clock; later answers on the connection wait as well.

        before  delay the request instead, so that the broker also executes it late
        which   n, client_id, group, transactional_id, topic, partition, node
        ValueError for less than a millisecond, and for a time that a clock cannot show.
        """
        if not 1 <= ms <= LATEST_MS:
            raise ValueError(f"a delay is 1 to {LATEST_MS} ms, not {ms}")
        which |= {"before_ms": ms} if before else {"after_ms": ms}
        of_clock = " of the test's clock" if isinstance(self._broker._clock, ManualClock) else ""
        description = f"by {ms} ms{of_clock}" + (" before it is done" if before else "")
        return self._add(Fault(self, "delay", self._names(api), description=description, **which))

    def drop(self, api: Names = None, **which: Any) -> Fault:
        """Execute the request and never answer. The connection stays open and silent, as when a network drops packets.

        which  n, client_id, group, transactional_id, topic, partition, node
        """
        return self._add(Fault(self, "drop", self._names(api), spoils=interception.withhold_answer, **which))

    def half_answer(self, api: Names = None, **which: Any) -> Fault:
        """Execute the request, send the first half of the answer's bytes and close the connection.

        which  n, client_id, group, transactional_id, topic, partition, node
        """
        return self._add(Fault(self, "half_answer", self._names(api), spoils=interception.send_half, **which))

    def close(self, api: Names = None, *, before: bool = True, **which: Any) -> Fault:
        """Close the connection instead of answering.

        before  close it without executing the request; False: after executing it
        which   n, client_id, group, transactional_id, topic, partition, node
        """
        names = self._names(api)
        if before:
            return self._add(
                Fault(self, "close", names, description="before it is done", closes_before=True, **which)
            )
        description = "when it is done"
        return self._add(
            Fault(self, "close", names, description=description, spoils=interception.close_instead, **which)
        )

    def control(self, api: Names, function: Controls, **which: Any) -> Fault:
        """Call a function for each request, in the broker's thread.

        function  receives a :class:`kafka_offsets.testing.faults.call.Call`, decoded in `.request`, and returns
                  None: the broker serves the request;
                  a response of `kafka_offsets.protocol.messages`: the answer;
                  an ErrorCode: the error, where the API puts it;
                  a ConnectionError: the connection closes;
                  another exception (or raises one): as if the broker had failed;
                  a `concurrent.futures.Future` of any of these: the request waits, while the broker serves others
        which     n, client_id, group, transactional_id, topic, partition, node
        """
        description = getattr(function, "__name__", repr(function))
        return self._add(
            Fault(self, "control", self._names(api), description=description, function=function, **which)
        )

    def observe(self, api: Names = None, **which: Any) -> Fault:
        """Change nothing and count the requests: `wait` waits for them, `hits` says how many have come.

        A request counts when it arrives, whatever other faults do with it.
        which  n, client_id, group, transactional_id, topic, partition, node
        """
        return self._add(Fault(self, "observe", self._names(api), observes=True, **which))

    # -- the broker

    def coordinator_moved(
        self, group: str | None = None, *, transactional_id: str | None = None, **which: Any
    ) -> Fault:
        """Answer NOT_COORDINATOR for a group or transactional id, or for all of them if none is named.

        Clients then look up the coordinator, and find this broker again.
        """
        return self._coordinator(
            "coordinator_moved", ErrorCode.NOT_COORDINATOR, group, transactional_id, which
        )

    def coordinator_loading(
        self, group: str | None = None, *, transactional_id: str | None = None, **which: Any
    ) -> Fault:
        """Answer COORDINATOR_LOAD_IN_PROGRESS, as a coordinator that loads its log. It accepts every heartbeat.

        As in Kafka, it cannot list all its groups or transactions during that time.
        """
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        lists = [] if transactional_id else ["ListGroups"]
        lists += [] if group else ["ListTransactions"]
        return self._coordinator("coordinator_loading", error, group, transactional_id, which, lists)

    def _coordinator(
        self,
        kind: str,
        error: ErrorCode,
        group: str | None,
        transactional_id: str | None,
        which: dict[str, Any],
        lists: Sequence[str] = (),
    ) -> Fault:
        kinds = ([] if transactional_id else [GROUP, GROUPS]) + ([] if group else [TRANSACTION])
        apis = (*_addressing(*kinds), *lists)
        if not (group or transactional_id):
            # InitProducerId is also for producers without transactions.
            apis = tuple(name for name in apis if name != "InitProducerId")
        names = self._names(apis)
        fault = Fault(
            self,
            kind,
            names,
            errors=[error],
            group=group,
            transactional_id=transactional_id,
            lists=lists,
            **which,
        )
        return self._add(fault)

    def leader_moved(self, topic: str, partition: int | None = None, **which: Any) -> Fault:
        """Answer NOT_LEADER_OR_FOLLOWER for a partition, or for all partitions of a topic.

        Waiting fetches of it are answered. Metadata still names this broker, so clients retry here.
        """
        errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        names = self._names(_addressing(PARTITIONS))
        fault = Fault(self, "leader_moved", names, errors=errors, topic=topic, partition=partition, **which)
        return self._add(fault)

    def denied(
        self,
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        **which: Any,
    ) -> Fault:
        """Deny a topic, a group or a transactional id, as a broker whose ACLs do not allow it.

        Every request that names it gets TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED or
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED, and other parts of the request are served. No authorizer is needed.
        which  n, client_id, node
        ValueError if there is not exactly one of the three.
        """
        kinds = {
            "topic": (topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            GROUP_ID: (group, ErrorCode.GROUP_AUTHORIZATION_FAILED),
            TRANSACTIONAL_ID: (transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        }
        resources = [(kind, error) for kind, (name, error) in kinds.items() if name is not None]
        if len(resources) != 1:
            raise ValueError(
                f"denied() takes exactly one of topic=, group= and transactional_id=, not {len(resources)}"
            )
        ((kind, error),) = resources
        names = self._names([api.name for api in SERVED if partial_errors.names(api, kind)])
        fault = Fault(
            self,
            "denied",
            names,
            errors=[error],
            topic=topic,
            group=group,
            transactional_id=transactional_id,
            **which,
        )
        return self._add(fault)

    def down(self) -> Fault:
        """Close all connections, and each new one at once, until it is removed. A hit is a refused connection."""
        fault = Fault(self, "down", None, description="no connection is accepted")
        self._add(fault)
        return fault

    def close_connections(self, client_id: str | None = None) -> int:
        """Close all connections once, or those of one client; return how many. New connections are accepted."""
        return self._broker._call(lambda server: sum(_close(node.core, client_id) for node in server.servers))

    # -- versions

    def release(self, release: str) -> Fault:
        """Serve the APIs and versions of a Kafka release, such as "2.8", as far as this broker supports them.

        All connections are closed at the start and at the end: clients request the versions again.
        """
        version = releases.parse_release(release)
        kept = releases.has_features(version)
        first = served_apis("kafka" if kept else self._broker.config.profile).by_key

        def narrow(api: Api) -> Api | None:
            own = first.get(api.key, api)
            return releases.narrowed(api, own.min_version, releases.last_version(api.name, version))

        return self._add(
            WithheldVersions(self, f"as Kafka {release}", narrow, keeps_features=kept, apis=None)
        )

    def withhold(self, api: Names, *, after_version: int | None = None) -> Fault:
        """Do not serve an API, or its versions after `after_version`; such a request closes its connection.

        All connections are closed at the start and at the end: clients request the versions again. ValueError if there
        are no versions after it.
        """
        names = self._names(api)
        served = [served_api for served_api in SERVED if names is None or served_api.name in names]
        if after_version is not None and all(
            served_api.max_version <= after_version for served_api in served
        ):
            last = (
                ", ".join(f"{served_api.name} {served_api.max_version}" for served_api in served)
                if names
                else "of every API"
            )
            raise ValueError(
                f"nothing is served after version {after_version}; the last versions are: {last}"
            )

        def narrow(served_api: Api) -> Api | None:
            if names is not None and served_api.name not in names:
                return served_api
            return releases.narrowed(served_api, served_api.min_version, after_version)

        description = "" if after_version is None else f"after version {after_version}"
        return self._add(WithheldVersions(self, description, narrow, keeps_features=True, apis=names))

    # -- the disk

    def disk_full(self, *, free_bytes: int = 0, path: str = "", node: int | None = None) -> DiskFault:
        """Refuse every write after `free_bytes` more bytes, as a full disk does; the last write is partial.

        path  the beginning of the paths that it strikes, relative to the data directory, such as "orders-0/"
        node  the node of a cluster whose disk it is; default: the disks of all nodes
        ValueError for a negative number of bytes.
        """
        if free_bytes < 0:
            raise ValueError(f"a disk has no {free_bytes} bytes free")
        return self._add_disk("disk_full", "append", free_bytes=free_bytes, path=path, node=node)

    def disk_error(
        self, operation: str, *, n: int | None = None, path: str = "", node: int | None = None
    ) -> DiskFault:
        """Fail an operation on files with EIO, such as append, read, sync, open, rename, remove or truncate.

        A failed sync is final, as in Kafka: the log accepts no more writes until the broker restarts.
        """
        return self._add_disk("disk_error", operation, n=n, path=path, node=node)

    def slow_disk(
        self,
        ms: int,
        operation: str = "sync",
        *,
        n: int | None = None,
        path: str = "",
        node: int | None = None,
    ) -> DiskFault:
        """Slow down an operation on files by so many milliseconds of real time.

        A slow `sync` delays the answers that wait for it; other slow operations delay the whole broker.
        ValueError for less than a millisecond.
        """
        if ms < 1:
            raise ValueError(f"a disk that takes {ms} ms is not slow")
        return self._add_disk("slow_disk", operation, ms=ms, n=n, path=path, node=node)

    def _add_disk(self, kind: str, operation: str, **how: Any) -> DiskFault:
        fault = DiskFault(self, kind, operation, **how)
        self._add(fault)
        return fault

    # -- inside

    def _names(self, api: Names) -> frozenset[str] | None:
        if api is None:
            return None
        names = set()
        for name_or_key in [api] if isinstance(api, (str, int)) else api:
            served_names = [
                served_api.name for served_api in SERVED if name_or_key in (served_api.name, served_api.key)
            ]
            if not served_names:
                raise ValueError(f"{name_or_key!r} is no API that is served{_nearest(name_or_key)}")
            names.update(served_names)
        return frozenset(names)

    def _add(self, fault: F) -> F:
        _check_choice(fault)

        def add(server: Server) -> None:
            """Add the fault in the broker's thread. Raises ValueError for an unknown node."""
            ids = server.servers[0].core.broker.node.broker_ids
            if fault.node not in (None, *ids):
                there = ", ".join(map(str, ids))
                raise ValueError(f"there is no node {fault.node}, only {there}")
            fault.number = next(self._numbers)
            self._faults.append(fault)
            self._changed(server, fault)
            if fault.strikes_answers and (fault.apis is None or "Fetch" in fault.apis):
                # A fetch that waits came before the fault: its client sends the next one at once, and that is struck.
                for node in server.servers:
                    fetch.answer_waiting(node.core.broker, fault.wants, node.core.clock.now())

        self._broker._call(add)
        return fault

    def remove(self, fault: Fault) -> None:
        """End a fault. Does nothing if it is already over."""
        if fault not in self._faults:
            return
        try:
            self._broker._call(lambda server: self.end(fault))
        except RuntimeError:  # the broker has stopped
            self._forget(fault)

    def end(self, fault: Fault) -> None:
        """End a fault, in the broker's thread."""
        if fault in self._faults:
            self._forget(fault)
            if self._server is not None:
                self._changed(self._server, fault)

    def _forget(self, fault: Fault) -> None:
        self._faults.remove(fault)
        self._over.append(fault)
        fault.end()

    def end_disk(self) -> None:
        """End the disk faults, in the broker's thread: a broker that stops must be able to close its files."""
        for fault in self._faults.copy():
            if isinstance(fault, DiskFault):
                self.end(fault)

    def lift_disk(self, server: Server) -> None:
        """Suspend the disk faults, in the broker's thread, until `follow`."""
        for node in server.servers:
            self._install(node.core, [])

    def follow(self, server: Server) -> None:
        """Install the faults in a broker that has started, in its thread."""
        self._server = server
        self._disks = {}
        for fault in self._faults:
            self._changed(server, fault)

    def _changed(self, server: Server, fault: Fault) -> None:
        """Apply the faults in force to the broker."""
        self._server = server
        for node in server.servers:
            self._change(node, fault)

    def _change(self, server: Server, fault: Fault) -> None:
        """Apply the faults in force to one broker."""
        core = server.core
        if isinstance(fault, DiskFault):
            of_disks = [disk_fault for disk_fault in self._faults if isinstance(disk_fault, DiskFault)]
            self._install(
                core,
                [disk_fault for disk_fault in of_disks if disk_fault.node in (None, core.broker.node.id)],
            )
            return
        if fault.kind == "down":
            server.refuses = self._refuse if any(each.kind == "down" for each in self._faults) else None
            _close(core, None)
            return
        _serve_by(core, self._table(authorized(core.authorizer, server.served())))
        if isinstance(fault, WithheldVersions):
            _close(core, None)

    def _install(self, core: BrokerCore, faults: list[DiskFault]) -> None:
        """Replace the faults in force at the disk of one broker."""
        self._disks.setdefault(core.directory.files, DiskFaults()).install(core, faults)

    def _refuse(self) -> None:
        for fault in self._faults:
            if fault.kind == "down":
                fault.strike()
        if self._server is not None:
            self._server.request_turn()  # for events that wait for this

    def _table(self, served: Apis) -> Apis:
        apis: list[Api] = []
        withheld = [fault for fault in self._faults if isinstance(fault, WithheldVersions)]
        by_name = self._by_name(served)
        for own in served:
            api: Api | None = own
            for fault in () if own.is_between_brokers else withheld:
                api = None if api is None else fault.narrow(api)
            if api is not None:
                apis.append(self._faulty_api(api, withheld, by_name.get(own.name, [])))
        return Apis(apis)

    def _by_name(self, served: Apis) -> dict[str, list[Fault]]:
        """Return the faults of answers by the name of each API that they concern, in their order."""
        faults_by_name: dict[str, list[Fault]] = {}
        for fault in self._faults:
            if isinstance(fault, (DiskFault, WithheldVersions)) or fault.kind == "down":
                continue
            for name in [api.name for api in served] if fault.apis is None else fault.apis:
                faults_by_name.setdefault(name, []).append(fault)
        return faults_by_name

    def _faulty_api(self, api: Api, withheld: list[WithheldVersions], concerning: list[Fault]) -> Api:
        if withheld and api.key == API_VERSIONS:
            concerning = [*concerning, *withheld]
            api = interception.telling_its_own(api)
            if not all(fault.keeps_features for fault in withheld):
                api = interception.featureless(api)
        return Interception(api, concerning, self._in_loop).intercepted() if concerning else api

    def _in_loop(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the broker has stopped, and no client waits for an answer
            self._broker._call(lambda server: function())


def _addressing(*kinds: Addresses) -> list[str]:
    return [api.name for api in SERVED if api.addresses in kinds]


def _nearest(api: str | int) -> str:
    """Return the most similar API name, or the list of APIs."""
    names = [served_api.name for served_api in SERVED]
    near = difflib.get_close_matches(str(api), names, n=1)
    return f"; did you mean {near[0]}?" if near else f"; these are: {', '.join(names)}"


def _check_choice(fault: Fault) -> None:
    """Raise ValueError if a fault selects by a field that no request of its APIs has."""
    served = [api for api in SERVED if api.name in (fault.apis or ())]
    for what, kind in (("group", GROUP_ID), ("transactional_id", TRANSACTIONAL_ID), ("topic", "topic")):
        if (
            served
            and getattr(fault, what) is not None
            and not any(partial_errors.names(api, kind) for api in served)
        ):
            apis = ", ".join(api.name for api in served)
            raise ValueError(f"{what}={getattr(fault, what)!r} strikes nothing: {apis} names no {what}")


def _error_codes(error: int | str | Sequence[int | str]) -> list[ErrorCode]:
    """Return the codes of one or several errors. TypeError for another type, ValueError for an unknown one."""
    if isinstance(error, (int, str)) or not isinstance(error, Iterable):
        errors: list[object] = [error]
    else:
        errors = list(error)
    return [_error_code(name_or_code) for name_or_code in errors]


def _error_code(name_or_code: object) -> ErrorCode:
    if not isinstance(name_or_code, (int, str)):
        raise TypeError(
            "an ErrorCode, its name or its number is expected, or several of them, such as "
            f"ErrorCode.NOT_COORDINATOR or 16, not {name_or_code!r}"
        )
    return error_code(name_or_code)


def _serve_by(core: BrokerCore, apis: Apis) -> None:
    """Replace a broker's table of APIs, also for open connections."""
    core.broker.apis = apis
    for connection in core.connections:
        header = connection.known_header
        if header is not None and connection.apis is None:
            api = apis.by_key.get(header.api.key)
            codecs = None if api is None else api.codecs(header.version)
            connection.known_header = None
            if api is not None and codecs is not None:
                connection.known_header = header._replace(api=api, codecs=codecs, shortcut=None)


def _close(core: BrokerCore, client_id: str | None) -> int:
    chosen = [
        connection
        for connection in core.connections
        if not connection.closing
        and connection.apis is None
        and (client_id is None or (connection.known_header or _NOBODY).client_id == client_id)
    ]
    for connection in chosen:
        core.responses.close_connection(connection)
    return len(chosen)


class _Nobody:
    client_id = None


_NOBODY = _Nobody()
