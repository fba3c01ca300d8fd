"""`kafka_offsets.Broker`: an embedded broker with seeding, assertions, waiting, snapshots and recorded requests.

It reads the state in the broker's own thread, between two turns, so it never sees a partial change.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.config.security_keys import STANDARD_AUTHORIZER
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.network.embedded import EmbeddedBroker
from kafka_offsets.broker.network.loops import in_thread, is_in_asyncio
from kafka_offsets.broker.network.server import Server as NetworkServer
from kafka_offsets.broker.partition.partitions import LogLoadingError
from kafka_offsets.client import acls as acl_requests
from kafka_offsets.client.commits import check_places
from kafka_offsets.clock import Clock
from kafka_offsets.diagnosis.findings import Findings
from kafka_offsets.errors import ErrorCode, StorageError, unknown_partition
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.protocol.topic_partition import TopicPartition, names_in
from kafka_offsets.security.acls import AclBinding
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles
from kafka_offsets.testing.acls import check as check_results
from kafka_offsets.testing.acls import check_given
from kafka_offsets.testing.contents import differences, groups
from kafka_offsets.testing.contents.expected_records import chosen, expected_of, filter_of
from kafka_offsets.testing.contents.groups import GroupView, Overview, overview
from kafka_offsets.testing.contents.seeding import (
    ConsumedRecord,
    NewRecord,
    choose_partitions,
    read_all,
    records_of,
    stored_records,
)
from kafka_offsets.testing.contents.topics import Topics, create_missing, topics_of
from kafka_offsets.testing.faults.observers import observing
from kafka_offsets.testing.server import facts, report
from kafka_offsets.testing.server.events import Event
from kafka_offsets.testing.server.inspected import InspectedServer
from kafka_offsets.testing.server.recording import Recorder, Requests

if TYPE_CHECKING:
    from kafka_offsets.testing.faults.control import Faults
    from kafka_offsets.testing.faults.fault import Fault

_PRODUCE_VERSION, _PRODUCE_TIMEOUT_MS = 9, 30_000

WAIT_SECONDS = 10.0
"""The default timeout of `wait_for`."""

_MOST_EXPLAINED = 3
"""So many findings explain a failed assertion or wait; the report of the test has all."""

_GROUPS_AT_ONCE = 25
"""So many groups with 20 members and offsets each keep the broker busy for about 2 ms."""

_OPENING_SECONDS = 300.0
"""How long anything waits for long logs that are opened after a start: gigabytes are then."""

T = TypeVar("T")


class Snapshot:
    """The state of a broker in memory at one moment: topics, records, groups, offsets, transactions. See `restore`."""

    def __init__(self, state: Any) -> None:
        self._state = state


class Broker(EmbeddedBroker):
    """A broker inside this process: ``with Broker() as broker:`` in a separate thread, or ``async with``.

    config           Kafka's keys to values; they override the defaults for tests; see docs/configuration.md
    host, port       the address to listen on; overrides the key `listeners`; port 0 takes a free one
    data_directory   the directory of topics and committed offsets; overrides the key `log.dirs`; default: in memory
    properties_file  a server.properties file; `config` overrides it
    clock            the source of time; default: the machine's clock
    users            names and passwords of clients, which authenticate with SASL: at the listeners of `config` that
                     have it, or at one of protocol SASL_PLAINTEXT; see docs/security.md
    record           whether to keep requests and answers; see `requests`
    acls             what clients may do, made with `kafka_offsets.testing.allow` and `deny`: turns the authorizer on;
                     requests of the test's own, such as `produce`, are not authorized
    topics           topics that each start creates unless they exist: names, or a dict of names to numbers of
                     partitions or to `{"partitions": 3, "config": {"cleanup.policy": "compact"}}`
    A stopped broker may be started again; data in memory is then lost. All methods may be called from any thread.
    A wrong configuration raises ConfigError here, an argument of the wrong type TypeError. Starting raises
    StorageError (the data cannot be read, or another broker uses it), OSError (the port), ValueError (Kafka would
    refuse a topic) or RuntimeError (the broker is running).

    In coroutines wait with `async_wait_for`. Under ``async with`` the broker runs in the caller's loop, and its other
    methods that wait (`produce`, `commit`, `restore`, `expire_offsets`, `compact`) raise RuntimeError in that thread:
    use ``await asyncio.to_thread(broker.produce, …)``. Long logs in a data directory are opened after the start:
    `consume_all`, `lag` and `describe` wait for them, or raise in that thread.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        host: str | None = None,
        port: int | None = None,
        data_directory: str | Path | None = None,
        properties_file: str | Path | None = None,
        clock: Clock | None = None,
        users: Mapping[str, str] | None = None,
        record: bool = False,
        acls: Iterable[AclBinding] | None = None,
        topics: Topics | None = None,
    ) -> None:
        if acls is not None:
            acls = check_given(acls)
            config = {"authorizer.class.name": STANDARD_AUTHORIZER} | dict(config or {})
        super().__init__(
            config,
            host=host,
            port=port,
            data_directory=data_directory,
            properties_file=properties_file,
            clock=clock,
            users=users,
        )
        self._acls = frozenset(acls or ())
        self._topics = topics_of(topics)
        self._recorder = Recorder() if record else None
        self._faults: Faults | None = None

    @property
    def clock(self) -> Clock | None:
        """The clock that this broker was given; None if it follows the machine's."""
        return self._clock

    # -- what clients may do -----------------------------------------------------------------------------------

    @property
    def acls(self) -> frozenset[AclBinding]:
        """The ACLs in force. RuntimeError when the broker is not running."""
        return self._call(lambda server: server.servers[0].core.directory.clients.acls)

    def add_acls(self, *acls: AclBinding) -> None:
        """Add ACLs, made with `kafka_offsets.testing.allow` and `deny`; the next request is decided by them.

        RuntimeError when the broker has no authorizer, when it refuses one of them, or when it is not running.
        """
        response = self._wait_for(
            lambda server: server.exchange(acl_requests.creation(check_given(acls)), acl_requests.VERSION)
        )
        check_results(response.results)

    def remove_acls(self, *acls: AclBinding) -> None:
        """Remove ACLs; those that do not exist are none. RuntimeError as `add_acls`."""
        response = self._wait_for(
            lambda server: server.exchange(acl_requests.deletion(acls), acl_requests.VERSION)
        )
        check_results(response.filter_results)

    # -- records -------------------------------------------------------------------------------------------

    def produce(
        self, topic: str, records: Iterable[Any] | Mapping[Any, Any], *, partition: int | None = None
    ) -> dict[TopicPartition, int]:
        """Append records to a topic; return the log end offsets of the partitions that received records.

        records    a list of values, of (key, value), of dicts with `value` and optionally `key`, `headers`,
                   `partition`, `timestamp` in ms; a dict of keys to values; a pandas DataFrame with such columns. Bytes
                   are unchanged, text becomes UTF-8, None becomes null, everything else becomes JSON: also a dict
                   with none of these names
        partition  for all records that name none. Default: keys are hashed as in Java's producer, and records without
                   a key go round-robin
        A missing topic is created with `num.partitions`. Each partition gets one batch. ValueError or TypeError for
        an invalid record; RuntimeError names the partition that refused the batch and the error code.
        """
        new = [
            record if record.partition is not None else record._replace(partition=partition)
            for record in records_of(records)
        ]
        if not new:
            return {}
        count, now_ms = self._call(lambda server: _prepare(server.core, topic))
        placed = choose_partitions(new, count)
        request = _produce_request(topic, placed, now_ms)
        self._when_open(lambda core: _open(core, topic, placed))
        response = self._wait_for(lambda server: server.exchange(request, _PRODUCE_VERSION))
        responses = response.responses[0].partition_responses
        for partition_response in responses:
            if partition_response.error_code:
                why = f": {partition_response.error_message}" if partition_response.error_message else ""
                raise RuntimeError(
                    f"{topic}-{partition_response.index}: {ErrorCode(partition_response.error_code).name}{why}"
                )
        return self._when_open(
            lambda core: {
                topic_partition: end
                for topic_partition, (_, end) in groups.log_ends(core, topic).items()
                if topic_partition[1] in {partition_response.index for partition_response in responses}
            }
        )

    def consume_all(
        self,
        topic: str,
        partition: int | None = None,
        *,
        key: str | None = None,
        value: Mapping[str, Any] | str | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> list[ConsumedRecord]:
        """Return the records of a topic, or of one partition, by partition and offset, without joining a group.

        key, value, headers  only records with these, written as for `produce`; headers may be some of a record's
        These are the records that a consumer of committed records can read now: none of open or aborted transactions.
        ValueError if there is no such topic or partition; StorageError.
        """
        stored = self._when_open(lambda core: stored_records(core, topic, partition))
        if stored is None:
            raise ValueError(
                unknown_partition(topic, partition or 0, self._when_open(groups.partition_counts))
            )
        records = [record for partition_log in stored for record in read_all(*partition_log)]
        return chosen(records, filter_of(key, value, headers))

    # -- groups and offsets --------------------------------------------------------------------------------

    def group(self, group: str) -> GroupView | None:
        """Return state, members and assignments of a group; None if it does not exist."""
        return self._call(lambda server: groups.group_view(server.core, group))

    def lag(self, group: str, topics: Iterable[str] | None = None) -> dict[TopicPartition, int | None]:
        """Return the lag of a group in each partition: the offsets that it has not read.

        topics  the topics to include; default: all in which the group has committed an offset or a member has a
                partition
        Counted from the committed offset, or from the log start where that is later or nothing is committed, to the log
        end. Negative where the committed offset is after the log end; None where no node leads the partition. TypeError
        for topics that are one text.
        """
        named = None if topics is None else names_in(topics, "topics")
        return self._when_open(lambda core: groups.lag(core, group, named))

    def assert_committed(
        self,
        group: str,
        expected: Mapping[TopicPartition, int | None],
        *,
        only: bool = False,
        timeout: float = 0.0,
    ) -> None:
        """Fail unless a group has committed these offsets, by (topic, partition); None for a partition without one.

        only     fail also if it has committed other offsets
        timeout  how long it may take, in seconds of real time
        The AssertionError shows each partition that differs. TypeError if `expected` names no partitions.
        """
        __tracebackhide__ = True
        check_places(expected, "offset")
        self._assert(lambda core: differences.of_offsets(core, group, expected, only=only), timeout, group)

    def assert_lag(
        self, group: str, expected: int | Mapping[TopicPartition, int], *, timeout: float = 0.0
    ) -> None:
        """Fail unless the lag of a group is `expected`, in total or by (topic, partition).

        timeout  how long it may take, in seconds of real time
        The total is that of `lag`, without negative ones. An offset beyond the end of its partition, where the lag is
        negative, fails it, and so does a lag that is not known. The AssertionError shows each partition.
        TypeError if `expected` is neither a number nor names partitions.
        """
        __tracebackhide__ = True
        if isinstance(expected, int):
            self._assert(lambda core: differences.of_total_lag(core, group, expected), timeout, group)
            return
        check_places(expected, "lag")
        self._assert(lambda core: differences.of_lag(core, group, expected), timeout, group)

    def assert_produced(
        self,
        topic: str,
        records: Iterable[Any] | Mapping[Any, Any],
        *,
        partition: int | None = None,
        key: str | None = None,
        after: Mapping[TopicPartition, int] | None = None,
        timeout: float = 0.0,
    ) -> None:
        """Fail unless a topic holds exactly these records, in their order within each partition.

        records    written as for `produce`; what a record does not name, such as its key, is not compared. JSON is
                   compared by its meaning, also where text begins with `{` or `[`; bytes are compared as they are
        partition  only the records of this partition
        key        only the records with this key
        after      only the records from these offsets on, such as the ends that `produce` has returned
        timeout    how long it may take, in seconds of real time
        Records of open and aborted transactions do not count; those of different partitions have no order. The
        AssertionError shows the first difference. ValueError or TypeError for an invalid record.
        """
        __tracebackhide__ = True
        expected = expected_of(records)
        record_filter = filter_of(key, None, None)._replace(partition=partition)
        self._assert(differences.of_records(topic, expected, record_filter, after), timeout)

    def assert_nothing_produced(
        self,
        topic: str,
        *,
        partition: int | None = None,
        key: str | None = None,
        value: Mapping[str, Any] | str | None = None,
        headers: Mapping[str, Any] | None = None,
        after: Mapping[TopicPartition, int] | None = None,
        during: float = 0.0,
    ) -> None:
        """Fail if a topic holds a record, or receives one within `during` seconds of real time.

        key, value, headers  only a record with these counts; each compared as by `assert_produced`
        partition, after     as for `assert_produced`
        A topic that does not exist holds none. The AssertionError shows the records.
        """
        __tracebackhide__ = True
        record_filter = filter_of(key, value, headers)._replace(partition=partition)
        poll = differences.of_records(topic, [], record_filter, after)
        lines = self._when_open(poll)
        if not lines and during > 0:
            event = Event(f"topic {topic} has a record", lambda core: poll(core) or None, lambda core: "")
            with suppress(TimeoutError):
                lines = self.wait_for(event, during)
        _fail_for(lines)

    def _assert(
        self, poll: Callable[[BrokerCore], list[str]], timeout: float, group: str | None = None
    ) -> None:
        """Fail unless a function returns no lines, now or within `timeout` seconds; say what explains it."""
        __tracebackhide__ = True  # pytest shows the line of the test
        lines = self._when_open(poll)
        if lines and timeout > 0:
            event = Event("an assertion", lambda core: not poll(core) or None, lambda core: "")
            with suppress(TimeoutError):
                self.wait_for(event, timeout)
                return
            lines = self._when_open(poll)
        if lines:
            lines = [*lines, *(f"why: {finding}" for finding in self.why(group)[:_MOST_EXPLAINED])]
        _fail_for(lines)

    def why(self, group: str | None = None) -> Findings:
        """Return what is stuck, and what explains it, the most important first; nothing where all is well.

        group  only what concerns this group; it need not exist
        Each finding has a `name`, a `sentence` with the evidence, and `help`; `str` gives the sentences as lines.
        See docs/troubleshooting.md. What needs recorded requests, such as a commit that moved an offset back, is only
        known with `record=True`.
        """
        return self._gathered(self._when_open, group).findings()

    def _gathered(
        self,
        ask: Callable[[Callable[[BrokerCore], bool]], bool],
        group: str | None = None,
        after: tuple[int, int] = (0, 0),
    ) -> facts.Gathering:
        """Return the facts for a diagnosis; `ask` runs a part of the gathering in the broker's thread."""
        event, incident = after
        recorded = () if self._recorder is None else self._recorder.requests(event)
        active = [] if self._faults is None else self._faults.active
        backs = facts.moves_back(recorded, group)
        gathering = facts.Gathering(group, faults=active, backs=backs, after=incident)
        while ask(gathering.step):
            pass
        return gathering

    def _groups_in_parts(self, read: Callable[[BrokerCore, list[str]], list[T]]) -> list[T]:
        """Return what a function reads of all groups, some at a time: the broker serves its clients in between."""
        ids = self._when_open(groups.group_ids)
        results: list[T] = []
        while ids:
            results += self._when_open(lambda core: read(core, ids[:_GROUPS_AT_ONCE]))
            del ids[:_GROUPS_AT_ONCE]
        return results

    def overview(self, groups: Collection[str] | None = None) -> Overview:
        """Return all partitions with the ends of their logs, and all groups with committed offsets and lag.

        groups  only these groups, and the partitions of the topics that they read
        Everything is of one moment. Internal topics are excluded. What is not known, since no node leads a partition,
        is in `unknown`.
        """
        named = None if groups is None else names_in(groups, "groups")
        return self._when_open(lambda core: overview(core, named))

    # -- waiting -------------------------------------------------------------------------------------------

    def wait_for(self, event: Event[T], timeout: float = WAIT_SECONDS) -> T:
        """Wait until an event's condition is true; return its result. See `kafka_offsets.testing.server.events`.

        timeout  in seconds of real time, whatever the broker's clock
        Returns at once if the condition is already true. TimeoutError describes the current state. RuntimeError if the
        broker is not running, stops during the wait, or runs in the calling thread; TypeError for no event.
        """
        __tracebackhide__ = True
        _check_event(event)
        watch = self._begin(lambda server: server.watch(event))
        with suppress(TimeoutError):
            return watch.result(timeout)
        return self._last_look(watch, event, timeout, _advice_in_a_loop())

    async def async_wait_for(
        self,
        event: Event[T],
        timeout: float = WAIT_SECONDS,  # noqa: ASYNC109 - a time-out of asyncio could not describe the state
    ) -> T:
        """Wait as `wait_for` does, in a coroutine, whose loop runs on: asyncio's, or trio's if anyio is installed."""
        __tracebackhide__ = True
        _check_event(event)
        if not is_in_asyncio():
            return await in_thread(partial(self.wait_for, event, timeout))
        watch = self._call(lambda server: _server(server).watch(event))
        try:
            with suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(watch)), timeout)
        except asyncio.CancelledError:
            watch.cancel()
            raise
        return self._last_look(watch, event, timeout)

    def _last_look(self, watch: "Future[T]", event: Event[T], timeout: float, advice: str = "") -> T:
        """Stop checking an event; return its result if it has one now, else raise TimeoutError."""
        __tracebackhide__ = True
        instead = ""
        if not watch.done():
            instead = self._call(lambda server: _server(server).unwatch(watch, event))
            findings = [finding for finding in self._explained(event) if str(finding) != instead]
            instead += "".join(f"; why: {finding}" for finding in findings)
        if watch.done():
            return watch.result()
        raise TimeoutError(f"after {timeout:g} s, not yet: {event.what}; now: {instead}{advice}")

    def _explained(self, event: Event[Any]) -> Findings:
        """Return the first findings about what an event concerns; none while logs are opened."""
        try:
            return Findings(self._gathered(self._read, event.group).findings()[:_MOST_EXPLAINED])
        except LogLoadingError:
            return Findings()

    def _read(self, poll: Callable[[BrokerCore], T]) -> T:
        """Run a function in the broker's thread; return its result. LogLoadingError while a log is opened."""

        def read(server: NetworkServer) -> T:
            with observing():
                return poll(server.core)

        return self._call(read)

    def _when_open(self, poll: Callable[[BrokerCore], T]) -> T:
        """Run a function in the broker's thread, once the logs that it reads are open; return its result."""
        try:
            return self._read(poll)
        except LogLoadingError:
            event = Event("all these logs are open", lambda core: (poll(core),), lambda _: "they are")
            (result,) = self.wait_for(event, _OPENING_SECONDS)
            return result

    def _begin(self, begin: "Callable[[InspectedServer], Future[T]]") -> "Future[T]":
        """Start an operation in the broker's thread, from another thread, and return its future."""
        begun: Future[Future[T]] = Future()

        def wrapped(server: NetworkServer) -> "Future[Future[T]]":
            begun.set_result(begin(_server(server)))
            return begun

        return self._wait_for(wrapped)

    # -- the whole state -----------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the broker's whole state; clients do not notice.

        A snapshot can be restored any number of times, also by another broker in memory. RuntimeError for a broker
        with a data directory, and if it is not running.
        """
        return self._call(lambda server: Snapshot(_server(server).copy_state()))

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot: topics, records, groups, offsets, transactions, as after a crash and a restart.

        Address, configuration, clock and recorded requests stay. All connections are closed, as at a restart; clients
        reconnect. Group members in the snapshot start a new session; other members receive UNKNOWN_MEMBER_ID and
        rejoin. Do not continue to use earlier producers: the broker may assign their ids again. RuntimeError as
        `snapshot`; TypeError for anything but a snapshot.
        """
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"what snapshot() returned is expected, not {snapshot!r}")
        faults = self._faults
        if faults is not None:
            # Restoring closes the old files: faults of the disk must not refuse that.
            self._call(lambda server: faults.lift_disk(_server(server)))
        try:
            self._result(self._begin(lambda server: server.restoring(snapshot._state)))
        finally:
            if faults is not None and self._server is not None:
                self._call(faults.follow)

    # -- recorded requests ---------------------------------------------------------------------------------

    @property
    def requests(self) -> Requests:
        """The clients' requests since the broker was created: the last 10,000 or 16 MiB, the oldest first.

        `requests.of(api=, client_id=, group=, topic=, error=)` filters; each has `request` and `response` decoded.
        Also available after the broker has stopped. RuntimeError without `record=True`.
        """
        return self._recorded().requests()

    @property
    def last_event(self) -> int:
        """The number of the last recorded event, for `requests_after`. RuntimeError without `record=True`."""
        return self._recorded().last_number

    def requests_after(self, event: int) -> Requests:
        """Return the `requests` after this value of `last_event`. RuntimeError without `record=True`."""
        return self._recorded().requests(event)

    def save_capture(self, path: str | Path) -> int:
        """Write `requests` to a file for `kafka-offsets inspect`; return its number of lines.

        path  ends in .jsonl, or .jsonl.gz for a compressed file; else ValueError
        RuntimeError without `record=True`; OSError.
        """
        return self._recorded().save(path)

    def _recorded(self) -> Recorder:
        self._check_process()
        if self._recorder is None:
            raise RuntimeError("this broker does not record: Broker(record=True) does")
        return self._recorder

    def describe(self) -> str:
        """Return groups, members, assignments, offsets and lag as text, for debugging; the nodes of a cluster first."""
        return "\n".join(self._described())

    def _described(self, most: int | None = None) -> list[str]:
        return self._when_open(lambda core: groups.describe_state(core, most))

    def report(self, event: int = 0, faults: Iterable["Fault"] = (), incident: int = 0) -> list[str]:
        """Return what a failed test shows: why, refused requests, the last ones, faults, and what the broker holds.

        event   only requests after this value of `last_event`
        faults  that are named
        incident  only incidents after this number of `kafka_offsets.incidents.new_number`
        RuntimeError without `record=True`.
        """
        recorded = self._recorded().requests(event)
        try:
            gathering = self._gathered(self._when_open, after=(event, incident))
            findings, gathered = gathering.findings(), gathering.facts()
            described = self._described(report.MOST_GROUPS)
            state = self._when_open(lambda core: report.state_of(core, gathered, described))
        except RuntimeError as error:  # it has stopped, for example
            findings, state = Findings(), [f"state: not known: {error}"]
        return report.lines_of(findings, recorded, faults, state)

    # -- faults --------------------------------------------------------------------------------------------

    @property
    def faults(self) -> "Faults":
        """The faults of this broker, such as errors, lost connections, a full disk: `kafka_offsets.testing.Faults`."""
        if self._faults is None:
            from kafka_offsets.testing.faults.control import Faults  # no import cost for tests without faults

            self._faults = Faults(self)
        return self._faults

    async def _start_server(self) -> None:
        await super()._start_server()
        server = self._running()
        try:
            create_missing(server.core, self._topics)
        except BaseException:
            await self._stop_server()
            raise
        server.request_turn()
        if self._faults is not None:
            self._faults.follow(server)

    async def _stop_server(self) -> None:
        if self._faults is not None:
            self._faults.end_disk()
        await super()._stop_server()

    def _new_server(self) -> NetworkServer:
        files: Files = MemoryFiles() if self._data_directory is None else DiskFiles(self._data_directory)
        server = InspectedServer(self.config, files, self._clock, self._recorder)
        if self._acls:
            stored = server.core.directory.clients.acls
            server.core.settings.set_acls(stored | self._acls)
        return server


for _name, _method in vars(EmbeddedBroker).items():
    if isfunction(_method) and not _name.startswith("_"):
        _method.__qualname__ = f"Broker.{_name}"  # the errors of Python about wrong arguments name it


def _server(server: NetworkServer) -> InspectedServer:
    return cast("InspectedServer", server)


def _fail_for(lines: list[str]) -> None:
    """Fail if an assertion has found something."""
    __tracebackhide__ = True
    if lines:
        raise AssertionError("\n  ".join(lines))


def _check_event(event: object) -> None:
    """Raise TypeError for anything but an event."""
    if not isinstance(event, Event):
        raise TypeError(
            "an event of kafka_offsets.testing.server.events is expected, such as group_stable('billing') or "
            f"committed('billing', {{('orders', 0): 1}}), not {event!r}"
        )


def _prepare(core: BrokerCore, topic: str) -> tuple[int, int]:
    """Create a topic if it does not exist; return its number of partitions and the time in ms."""
    if core.topics.get(topic) is None:
        topic_admin.create_topic(core.broker, topic, core.config.num_partitions, {})
    known_topic = core.topics.get(topic)
    assert known_topic is not None
    return known_topic.partition_count, core.clock.now().wall_ms


def _open(core: BrokerCore, topic: str, indexes: Iterable[int]) -> None:
    """Open logs before a write. The answer to the request reports any other error."""
    for index in indexes:
        try:
            with observing(is_observer=False):
                core.topics.partition(topic, index)
        except LogLoadingError:
            raise
        except StorageError:
            continue


def _produce_request(
    topic: str, placed: Mapping[int, list[NewRecord]], now_ms: int
) -> messages.ProduceRequest:
    """Return the request that appends a batch to each partition."""
    made = messages.ProduceRequest
    data = []
    for index, records in sorted(placed.items()):
        rows = [
            (
                record.key,
                record.value,
                record.headers,
                now_ms if record.timestamp is None else record.timestamp,
            )
            for record in records
        ]
        data.append(made.PartitionProduceData(index, bytes(encode_batch(rows))))
    return made(
        acks=-1,
        timeout_ms=_PRODUCE_TIMEOUT_MS,
        topic_data=[made.TopicProduceData(topic, partition_data=data)],
    )


def _advice_in_a_loop() -> str:
    """Return what helps if this thread runs an event loop, in which the client under test could not run."""
    advice = "; the wait has blocked this thread's event loop: use `await broker.async_wait_for(event)`"
    return advice if is_in_asyncio() else ""
