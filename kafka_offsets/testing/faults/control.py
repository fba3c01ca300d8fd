"""Faults that a test puts into a broker: `broker.faults`.

    with broker.faults.error("OffsetCommit", ErrorCode.NOT_COORDINATOR, n=2, group="billing") as fault:
        consumer.commit()
    assert fault.hits == 2

Each call returns a :class:`Fault`, which is in force from then on until it has struck `n` times, until `remove()`, or
to the end of its `with`. Faults add up: delays to their sum, of errors the earliest strikes; what an error leaves of
a request (other partitions, other groups) is served. Nothing of this costs a broker anything before the first fault.
docs/faults.md has a page of examples, and what librdkafka's mock cluster and kfake call each of them.
"""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_offsets.broker.api import fetch
from kafka_offsets.broker.api.row import (
    API_VERSIONS,
    GROUP,
    GROUPS,
    PARTITIONS,
    TRANSACTION,
    Addresses,
    Api,
    Apis,
)
from kafka_offsets.broker.api.table import SERVED, served_apis
from kafka_offsets.broker.core import BrokerCore
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.mirroring.named import GROUP_ID, TRANSACTIONAL_ID
from kafka_offsets.testing import releases
from kafka_offsets.testing.faults import interception, partial_errors
from kafka_offsets.testing.faults.disk_faults import DiskFault, DiskFaults
from kafka_offsets.testing.faults.fault import Controls, Fault, WithheldVersions
from kafka_offsets.testing.faults.interception import Interception

if TYPE_CHECKING:
    from kafka_offsets.broker.network.embedded import Broker
    from kafka_offsets.broker.network.server import Server

Names = str | int | Iterable[str | int] | None

_REMEMBERED = 100
"""So many faults that are over are kept for a report."""

F = TypeVar("F", bound=Fault)


class Faults:
    """The faults of one broker. All methods may be called from any thread while the broker runs.

    What all of them take: `api` is the name of an API such as "OffsetCommit", its number, or several of them; None,
    where it may be left out, is every API. `n` is how often the fault strikes at most. `client_id`, `group`,
    `transactional_id`, `topic` and `partition` say which requests it strikes, `node` at which node of a cluster.
    ValueError for what could never strike: an API that is not served, a partition without topic, a group of an API that
    names none, a node that is not there. RuntimeError when the broker is not running.
    """

    def __init__(self, broker: Broker) -> None:
        """Make the faults of a broker, of which there are none; `kafka_offsets.testing.Broker` has made them."""
        self._broker = broker
        self._faults: list[Fault] = []
        self._over: deque[Fault] = deque(maxlen=_REMEMBERED)
        self._disk = DiskFaults()
        self._server: Server | None = None

    def __repr__(self) -> str:
        return f"<faults: {', '.join(map(repr, self._faults)) or 'none'}>"

    @property
    def active(self) -> list[Fault]:
        """The faults that are in force, in the order in which they came."""
        return [fault for fault in self._faults if fault.is_active]

    @property
    def struck(self) -> list[Fault]:
        """The faults that have struck, those that are over first."""
        return [fault for fault in [*self._over, *self._faults] if fault.hits]

    @property
    def over(self) -> list[Fault]:
        """The last faults that are over, also those that have struck nothing."""
        return list(self._over)

    @property
    def named(self) -> list[Fault]:
        """The faults that a report of a failure names: those that are over, and those in force."""
        return [*self._over, *self._faults]

    def clear(self) -> None:
        """End them all."""
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
        """Answer with an error in place of doing what was asked.

        error  an ErrorCode, its name or its number; or several, one for each request to come, of which ErrorCode.NONE
               lets one through
        It stands where Kafka puts it: at each partition, group or topic, or over all. With a topic or group the others
        of the same request are served; requests that are granted or refused as a whole are refused.
        """
        codes = _error_codes(error)
        if not codes or codes == [ErrorCode.NONE]:
            raise ValueError("no error is no fault")
        told = ", ".join(code.name for code in codes)
        return self._add(
            Fault(
                self,
                "error",
                self._names(api),
                told=told,
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
        """Let answers leave later, by so many milliseconds of the broker's clock; those behind them wait as well.

        before  let the request wait instead, so that what it asks is done late too
        which   n, client_id, group, transactional_id, topic, partition, node
        ValueError for less than a millisecond.
        """
        if ms < 1:
            raise ValueError(f"a delay of {ms} ms is none")
        which |= {"before_ms": ms} if before else {"after_ms": ms}
        told = f"by {ms} ms" + (" before it is done" if before else "")
        return self._add(Fault(self, "delay", self._names(api), told=told, **which))

    def drop(self, api: Names = None, **which: Any) -> Fault:
        """Do what is asked and never answer. The connection stays open and silent, as when a network swallows packets.

        which  n, client_id, group, transactional_id, topic, partition, node
        """
        return self._add(Fault(self, "drop", self._names(api), spoils=interception.withhold_answer, **which))

    def half_answer(self, api: Names = None, **which: Any) -> Fault:
        """Do what is asked, send the first half of the answer's bytes and close the connection.

        which  n, client_id, group, transactional_id, topic, partition, node
        """
        return self._add(Fault(self, "half_answer", self._names(api), spoils=interception.send_half, **which))

    def close(self, api: Names = None, *, before: bool = True, **which: Any) -> Fault:
        """Close the connection in place of an answer.

        before  without doing what was asked; else when it is done
        which   n, client_id, group, transactional_id, topic, partition, node
        """
        names = self._names(api)
        if before:
            return self._add(
                Fault(self, "close", names, told="before it is done", closes_before=True, **which)
            )
        told = "when it is done"
        return self._add(Fault(self, "close", names, told=told, spoils=interception.close_instead, **which))

    def control(self, api: Names, function: Controls, **which: Any) -> Fault:
        """Ask a function about each request, in the broker's thread.

        function  sees a :class:`kafka_offsets.testing.faults.call.Call`, decoded in `.request`, and returns
                  None: the request goes on;
                  a response of `kafka_offsets.protocol.messages`: the answer;
                  an ErrorCode: put where the API puts it;
                  a ConnectionError: the connection closes;
                  another exception, or it raises one: as if the broker had failed;
                  a `concurrent.futures.Future` of any of these: the request waits, and others are served meanwhile
        which     n, client_id, group, transactional_id, topic, partition, node
        """
        told = getattr(function, "__name__", repr(function))
        return self._add(Fault(self, "control", self._names(api), told=told, function=function, **which))

    # -- the broker

    def coordinator_moved(
        self, group: str | None = None, *, transactional_id: str | None = None, **which: Any
    ) -> Fault:
        """Answer as a broker that coordinates a group or transactional id no more, all of them when none is named.

        NOT_COORDINATOR, upon which clients ask for the coordinator, and hear of this broker again.
        """
        return self._coordinator(
            "coordinator_moved", ErrorCode.NOT_COORDINATOR, group, transactional_id, which
        )

    def coordinator_loading(
        self, group: str | None = None, *, transactional_id: str | None = None, **which: Any
    ) -> Fault:
        """Answer as a coordinator that is reading its log: COORDINATOR_LOAD_IN_PROGRESS; takes heartbeats blindly.

        Nor can it list all its groups or transactions then, as in Kafka.
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
            apis = tuple(
                name for name in apis if name != "InitProducerId"
            )  # of producers without transactions too
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
        """Answer as a broker that does not lead a partition, or any of a topic: NOT_LEADER_OR_FOLLOWER.

        Fetches that wait for it are answered. Metadata still names this broker, so clients come again.
        """
        errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        names = self._names(_addressing(PARTITIONS))
        fault = Fault(self, "leader_moved", names, errors=errors, topic=topic, partition=partition, **which)
        return self._add(fault)

    def down(self) -> Fault:
        """Close all connections, and every new one at once, until it is removed. Its hits are refused connections."""
        fault = Fault(self, "down", None, told="no connection is accepted")
        self._add(fault)
        return fault

    def close_connections(self, client_id: str | None = None) -> int:
        """Close connections now, those of a client alone or all; return how many there were. It is over with that."""
        return self._broker._call(lambda server: _close(server.core, client_id))

    # -- versions

    def release(self, release: str) -> Fault:
        """Serve the APIs and versions of a released Kafka, such as "2.8", as far as this broker has them.

        All connections are closed, now and when it is over: clients ask for the versions again.
        """
        found = releases.parse_release(release)
        kept = releases.has_features(found)
        first = served_apis("kafka" if kept else self._broker.config.profile).by_key

        def narrow(api: Api) -> Api | None:
            own = first.get(api.key, api)
            return releases.narrowed(api, own.min_version, releases.last_version(api.name, found))

        return self._add(
            WithheldVersions(self, f"as Kafka {release}", narrow, keeps_features=kept, apis=None)
        )

    def withhold(self, api: Names, *, after_version: int | None = None) -> Fault:
        """Do not serve an API, or not its versions after one; a request of them closes its connection.

        All connections are closed, now and when it is over: clients ask for the versions again. ValueError when there
        are no versions after it.
        """
        names = self._names(api)
        served = [row for row in SERVED if names is None or row.name in names]
        if after_version is not None and all(row.max_version <= after_version for row in served):
            last = ", ".join(f"{row.name} {row.max_version}" for row in served) if names else "of every API"
            raise ValueError(
                f"nothing is served after version {after_version}; the last versions are: {last}"
            )

        def narrow(row: Api) -> Api | None:
            if names is not None and row.name not in names:
                return row
            return releases.narrowed(row, row.min_version, after_version)

        told = "" if after_version is None else f"after version {after_version}"
        return self._add(WithheldVersions(self, told, narrow, keeps_features=True, apis=names))

    # -- the disk

    def disk_full(self, *, free_bytes: int = 0, path: str = "") -> DiskFault:
        """Refuse every write once so many bytes more are written, as a full disk; the last one is written in part.

        path  the beginning of the paths that it strikes, relative to the data directory, such as "orders-0/"
        ValueError for less than no bytes.
        """
        if free_bytes < 0:
            raise ValueError(f"a disk has no {free_bytes} bytes free")
        return self._add_disk("disk_full", "append", free_bytes=free_bytes, path=path)

    def disk_error(self, operation: str, *, n: int | None = None, path: str = "") -> DiskFault:
        """Have an operation on files fail with EIO, such as append, read, sync, open, rename, remove or truncate.

        A sync that failed is final, as in Kafka: the log takes no more writes until the broker is started again.
        """
        return self._add_disk("disk_error", operation, n=n, path=path)

    def slow_disk(
        self, ms: int, operation: str = "sync", *, n: int | None = None, path: str = ""
    ) -> DiskFault:
        """Have an operation on files take so many milliseconds of the machine's time.

        Waiting for `sync` holds up the answers that wait for it; waiting in other operations holds up the broker.
        ValueError for less than a millisecond.
        """
        if ms < 1:
            raise ValueError(f"a disk that takes {ms} ms is not slow")
        return self._add_disk("slow_disk", operation, ms=ms, n=n, path=path)

    def _add_disk(self, kind: str, operation: str, **how: Any) -> DiskFault:
        fault = DiskFault(self, kind, operation, **how)
        self._add(fault)
        return fault

    # -- inside

    def _names(self, api: Names) -> frozenset[str] | None:
        if api is None:
            return None
        names = set()
        for each in [api] if isinstance(api, (str, int)) else api:
            found = [row.name for row in SERVED if each in (row.name, row.key)]
            if not found:
                raise ValueError(f"{each!r} is no API that is served{_nearest(each)}")
            names.update(found)
        return frozenset(names)

    def _add(self, fault: F) -> F:
        _check_choice(fault)

        def add(server: Server) -> None:
            if fault.node not in (None, *server.core.context.broker_ids):
                there = ", ".join(map(str, server.core.context.broker_ids))
                raise ValueError(f"there is no node {fault.node}, only {there}")
            self._faults.append(fault)
            self._changed(server, fault)
            if fault.decides and (fault.apis is None or "Fetch" in fault.apis):
                # a fetch that waits comes again, and is struck
                fetch.answer_waiting(server.core.context, fault.wants, server.core.clock.now())

        self._broker._call(add)
        return fault

    def remove(self, fault: Fault) -> None:
        """End a fault; when it is over already nothing happens."""
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
        fault.is_active = False
        self._faults.remove(fault)
        self._over.append(fault)

    def end_disk(self) -> None:
        """End the faults of the disk, in the broker's thread: one that stops closes its files."""
        for fault in self._faults.copy():
            if isinstance(fault, DiskFault):
                self.end(fault)

    def lift_disk(self, server: Server) -> None:
        """Take the faults of the disk away, in the broker's thread, until `follow`."""
        self._disk.install(server.core, [])

    def follow(self, server: Server) -> None:
        """Put the faults into a broker that has begun, in its thread."""
        self._server = server
        self._disk = DiskFaults()
        for fault in self._faults:
            self._changed(server, fault)

    def _changed(self, server: Server, fault: Fault) -> None:
        """Have the broker do as the faults say that are in force now."""
        self._server = server
        core = server.core
        if isinstance(fault, DiskFault):
            self._disk.install(core, [each for each in self._faults if isinstance(each, DiskFault)])
            return
        if fault.kind == "down":
            server.refuses = self._refuse if any(each.kind == "down" for each in self._faults) else None
            _close(core, None)
            return
        _serve_by(core, self._table(server.served()))
        if isinstance(fault, WithheldVersions):
            _close(core, None)

    def _refuse(self) -> None:
        for fault in self._faults:
            if fault.kind == "down":
                fault.strike()

    def _table(self, served: Apis) -> Apis:
        rows: list[Api] = []
        withheld = [fault for fault in self._faults if isinstance(fault, WithheldVersions)]
        for own in served:
            row: Api | None = own
            for fault in withheld:
                row = None if row is None else fault.narrow(row)
            if row is not None:
                rows.append(self._row(row, withheld))
        return Apis(rows)

    def _row(self, row: Api, withheld: list[WithheldVersions]) -> Api:
        concerning: list[Fault] = [
            fault
            for fault in self._faults
            if not isinstance(fault, (DiskFault, WithheldVersions))
            and fault.kind != "down"
            and (fault.apis is None or row.name in fault.apis)
        ]
        if withheld and row.key == API_VERSIONS:
            concerning += withheld
            row = interception.telling_its_own(row)
            if not all(fault.keeps_features for fault in withheld):
                row = interception.featureless(row)
        return Interception(row, concerning, self._in_loop).row() if concerning else row

    def _in_loop(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the broker has stopped, and nobody waits for an answer any more
            self._broker._call(lambda server: function())


def _addressing(*kinds: Addresses) -> list[str]:
    return [row.name for row in SERVED if row.addresses in kinds]


def _nearest(api: str | int) -> str:
    """Return which API may have been meant, or which there are."""
    names = [row.name for row in SERVED]
    near = difflib.get_close_matches(str(api), names, n=1)
    return f"; did you mean {near[0]}?" if near else f"; these are: {', '.join(names)}"


def _check_choice(fault: Fault) -> None:
    """Raise ValueError when a fault goes by something that no request of its APIs names."""
    rows = [row for row in SERVED if row.name in (fault.apis or ())]
    for what, kind in (("group", GROUP_ID), ("transactional_id", TRANSACTIONAL_ID), ("topic", "topic")):
        if (
            rows
            and getattr(fault, what) is not None
            and not any(partial_errors.names(row, kind) for row in rows)
        ):
            apis = ", ".join(row.name for row in rows)
            raise ValueError(f"{what}={getattr(fault, what)!r} strikes nothing: {apis} names no {what}")


def _error_codes(error: int | str | Sequence[int | str]) -> list[ErrorCode]:
    """Return the codes of one or several; TypeError for what is none, ValueError for an unknown number or name."""
    if isinstance(error, (int, str)) or not isinstance(error, Iterable):
        given: list[object] = [error]
    else:
        given = list(error)
    return [_error_code(each) for each in given]


def _error_code(given: object) -> ErrorCode:
    if not isinstance(given, (int, str)):
        raise TypeError(
            "an ErrorCode, its name or its number is expected, or several of them, such as "
            f"ErrorCode.NOT_COORDINATOR or 16, not {given!r}"
        )
    try:
        return ErrorCode[given] if isinstance(given, str) else ErrorCode(given)
    except (KeyError, ValueError):
        raise ValueError(f"{given} is no error code of Kafka") from None


def _serve_by(core: BrokerCore, apis: Apis) -> None:
    """Have a broker serve by another table from now on, also on connections that have asked before."""
    core.context.apis = apis
    for connection in core.connections:
        known = connection.known_header
        if known is not None:
            row = apis.by_key.get(known.api.key)
            codecs = None if row is None else row.codecs(known.version)
            connection.known_header = None
            if row is not None and codecs is not None:
                connection.known_header = known._replace(api=row, codecs=codecs)


def _close(core: BrokerCore, client_id: str | None) -> int:
    chosen = [
        connection
        for connection in core.connections
        if not connection.closing
        and (client_id is None or (connection.known_header or _NOBODY).client_id == client_id)
    ]
    for connection in chosen:
        core.answers.close_connection(connection)
    return len(chosen)


class _Nobody:
    client_id = None


_NOBODY = _Nobody()
