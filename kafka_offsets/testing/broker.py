"""The broker for tests: `kafka_offsets.Broker`, and what a test wants of it besides.

What it looks at it looks at in the broker's own thread, between two turns, so that it never sees half of a change.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core import BrokerCore
from kafka_offsets.broker.network import embedded
from kafka_offsets.broker.network.server import Peer
from kafka_offsets.broker.network.server import Server as NetworkServer
from kafka_offsets.broker.network.socket_writer import Transport, Writer
from kafka_offsets.broker.partition.partitions import LogLoadingError
from kafka_offsets.clock import Clock
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.files import DiskFiles, Files, MemoryFiles
from kafka_offsets.testing import groups
from kafka_offsets.testing.events import Event
from kafka_offsets.testing.groups import GroupView, Place
from kafka_offsets.testing.recording import Recorder, Requests, Tape
from kafka_offsets.testing.seeding import (
    ConsumedRecord,
    NewRecord,
    choose_partitions,
    committed_batches,
    read_all,
    records_of,
)

if TYPE_CHECKING:
    from kafka_offsets.testing.faults.control import Faults

_PRODUCE_VERSION = 9
_PRODUCE_TIMEOUT_MS = 30_000

WAIT_SECONDS = 10.0
"""How long `wait_for` waits unless it is told."""

_OPENING_SECONDS = 300.0
"""How long anything waits for long logs that are opened after a start: gigabytes are then."""

T = TypeVar("T")


class Snapshot:
    """All that a broker in memory knew at a moment: topics, records, groups, offsets, transactions. See `restore`."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files


class Broker(embedded.Broker):
    """A broker inside this process, as `kafka_offsets.Broker`, with the eyes and hands that a test wants.

    record  whether to keep what clients ask and are answered; see `requests`
    All else is as there. What asks the broker and waits for its answer (`produce`, `wait_for`, `snapshot`, `restore`)
    raises RuntimeError in the thread of the broker's own loop, as under `async with`: there, and wherever a loop must
    not stand still, `await asyncio.to_thread(broker.wait_for, …)`. Long logs in a data directory are opened after the
    start: whoever looks into one (`consume_all`, `lag`, `describe`) waits for it, in that thread raises as well.
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
        record: bool = False,
    ) -> None:
        super().__init__(
            config,
            host=host,
            port=port,
            data_directory=data_directory,
            properties_file=properties_file,
            clock=clock,
        )
        self._recorder = Recorder() if record else None
        self._faults: Faults | None = None

    # -- records -------------------------------------------------------------------------------------------

    def produce(self, topic: str, records: Any, *, partition: int | None = None) -> dict[Place, int]:
        """Append records to a topic; return the log end offsets of the partitions that got some.

        records    a list of values, of (key, value), of dicts with `value` and, if wanted, `key`, `headers`,
                   `partition`, `timestamp` in ms; a dict of keys to values; a pandas DataFrame with such columns. Bytes
                   are taken as they are, text as UTF-8, None as null, all else as JSON
        partition  of all records that name none; else keys are hashed as Java's producer does, and records without a
                   key go round
        A topic that is not there is created with `num.partitions`. Each partition gets one batch. ValueError or
        TypeError for what is no record; RuntimeError names the partition that was refused and the error code.
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
        answer = self._wait_for(lambda server: server.exchange(request, _PRODUCE_VERSION))
        answers = answer.responses[0].partition_responses
        for each in answers:
            if each.error_code:
                why = f": {each.error_message}" if each.error_message else ""
                raise RuntimeError(f"{topic}-{each.index}: {ErrorCode(each.error_code).name}{why}")
        return self._when_open(
            lambda core: {
                place: end
                for place, (_, end) in groups.log_ends(core, topic).items()
                if place[1] in {each.index for each in answers}
            }
        )

    def consume_all(self, topic: str, partition: int | None = None) -> list[ConsumedRecord]:
        """Return the records of a topic, or of one partition, by partition and offset, as no member of any group.

        It is what a consumer of committed records can read now: nothing of open and aborted transactions. ValueError
        when there is no such topic or partition; StorageError.
        """

        def read(core: BrokerCore) -> list[tuple[int, int, list[bytes]]]:
            ends = groups.log_ends(core, topic)
            chosen = [index for _, index in ends if partition in (None, index)]
            if not chosen:
                raise ValueError(f"there is no {topic if partition is None else f'{topic}-{partition}'}")
            found = [core.topics.partition(topic, index) for index in chosen]
            return [
                (each.index, each.log.log_start_offset, committed_batches(each))
                for each in found
                if each is not None
            ]

        return [
            record
            for index, start, batches in self._when_open(read)
            for record in read_all(topic, index, start, batches)
        ]

    # -- groups and offsets --------------------------------------------------------------------------------

    def group(self, group: str) -> GroupView | None:
        """Return state, members and assignments of a group; None when there is none."""
        return self._call(lambda server: groups.group_view(server.core, group))

    def lag(self, group: str, topics: Iterable[str] | None = None) -> dict[Place, int]:
        """Return by how many offsets each partition is ahead of what a group has committed.

        topics  of these; of all topics that the group has committed an offset of when not given
        In a partition without a committed offset all records count.
        """
        named = None if topics is None else dict.fromkeys(topics)
        return self._when_open(lambda core: groups.lag(core, group, named))

    def assert_committed(
        self, group: str, expected: Mapping[Place, int | None], *, only: bool = False
    ) -> None:
        """Fail unless a group has committed these offsets, by (topic, partition); None for a partition without one.

        only  fail also when it has committed others besides
        The AssertionError shows each partition that differs. TypeError for what names no partitions.
        """
        __tracebackhide__ = True
        _check_places(expected, "offset")
        found = {place: entry.offset for place, entry in self.committed(group).items()}
        places = sorted({*expected, *found} if only else expected)
        different = [
            f"{topic}-{index}: {_said('committed', found.get((topic, index)), expected.get((topic, index)))}"
            for topic, index in places
            if found.get((topic, index)) != expected.get((topic, index))
        ]
        self._assert_none(different, f"the committed offsets of group {group!r} are not as expected")

    def assert_lag(self, group: str, expected: int | Mapping[Place, int]) -> None:
        """Fail unless a group lags behind by so many offsets, in all or by (topic, partition).

        In all is: of the topics that it has committed an offset of, none of them beyond the end of its partition, where
        the lag is negative. The AssertionError shows each partition.
        TypeError for what is neither a number nor names partitions.
        """
        __tracebackhide__ = True
        if isinstance(expected, int):
            behind = self.lag(group)
            total = sum(behind.values())
            lines = [f"{topic}-{index}: lag {lag}" for (topic, index), lag in behind.items()]
            if not behind:
                raise AssertionError(
                    f"nothing is committed by group {group!r}, expected a lag of {expected} in all"
                )
            wrong = lines if total != expected or min(behind.values()) < 0 else []
            beyond = " and no offset beyond an end" if total == expected else ""
            self._assert_none(wrong, f"group {group!r} lags by {total} in all, expected {expected}{beyond}")
            return
        _check_places(expected, "lag")
        found = self.lag(group, {topic for topic, _ in expected})
        different = [
            f"{topic}-{index}: {_said('lag', found.get((topic, index)), lag)}"
            for (topic, index), lag in sorted(expected.items())
            if found.get((topic, index)) != lag
        ]
        self._assert_none(different, f"the lag of group {group!r} is not as expected")

    def _assert_none(self, different: list[str], what: str) -> None:
        __tracebackhide__ = True  # pytest shows the line of the test
        if different:
            raise AssertionError("\n  ".join([f"{what}:", *different]))

    # -- waiting -------------------------------------------------------------------------------------------

    def wait_for(self, event: Event, timeout: float = WAIT_SECONDS) -> Any:
        """Wait until something is the case; return what the event gives. See `kafka_offsets.testing.events`.

        timeout  in seconds of real time, whatever the broker's clock
        What is the case already is not waited for. TimeoutError says what was the case instead; RuntimeError when
        the broker is not running, is stopped meanwhile, or has the calling thread for its own; TypeError for no event.
        """
        __tracebackhide__ = True
        if not isinstance(event, Event):
            raise TypeError(
                "an event of kafka_offsets.testing.events is expected, such as group_stable('billing') or "
                f"committed('billing', {{('orders', 0): 1}}), not {event!r}"
            )
        watch: Future[Any] = self._begin(lambda server: server.watch(event))
        try:
            return watch.result(timeout)
        except TimeoutError:
            if watch.done():
                raise  # the event's own
            instead = self._call(lambda server: _server(server).unwatch(watch, event))
        if watch.done():
            return watch.result()
        raise TimeoutError(f"after {timeout:g} s, not yet: {event.what}; now: {instead}")

    def _when_open(self, look: Callable[[BrokerCore], T]) -> T:
        """Return what a function gives in the broker's thread, once the logs that it looks into are open."""
        try:
            return self._call(lambda server: look(server.core))
        except LogLoadingError:
            event = Event("all these logs are open", lambda core: (look(core),), lambda _: "they are")
            (found,) = self.wait_for(event, _OPENING_SECONDS)
            return cast("T", found)

    def _begin(self, begin: "Callable[[Server], Future[T]]") -> "Future[T]":
        """Begin something in the broker's thread, from another one, and return its future."""
        begun: Future[Future[T]] = Future()

        def wrapped(server: NetworkServer) -> "Future[Future[T]]":
            begun.set_result(begin(_server(server)))
            return begun

        return self._wait_for(wrapped)

    # -- the whole state -----------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Take note of all that the broker knows; clients notice nothing.

        A snapshot can be restored any number of times, also by another broker in memory. RuntimeError for a broker
        with a data directory, and when it is not running.
        """
        return self._call(lambda server: Snapshot(_server(server).copy_state()))

    def restore(self, snapshot: Snapshot) -> None:
        """Make everything as it was: topics, records, groups, offsets, transactions, as after a crash and a start.

        Address, configuration, clock and recorded requests stay. All connections are closed, as when a broker is
        started again; clients connect again by themselves. Members of groups that the snapshot holds have a new
        session; a member that is not in it hears UNKNOWN_MEMBER_ID and joins anew. Producers of before should not go
        on: their ids may be given out again. RuntimeError as `snapshot`; TypeError for
        what is no snapshot.
        """
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"what snapshot() returned is expected, not {snapshot!r}")
        faults = self._faults
        if faults is not None:
            self._call(faults.lift_disk)  # what is given up is closed, as when a broker stops
        try:
            self._begin(lambda server: server.restoring(snapshot._files)).result()
        finally:
            if faults is not None and self._server is not None:
                self._call(faults.follow)

    # -- what clients said ---------------------------------------------------------------------------------

    @property
    def requests(self) -> Requests:
        """What clients have asked since the broker was made, the last 10,000 requests or 16 MiB, the oldest first.

        `requests.of(api=, client_id=, group=, topic=, error=)` chooses; each has `request` and `response` decoded.
        Also when the broker has stopped. RuntimeError without `record=True`.
        """
        return self._recorded().requests()

    @property
    def last_event(self) -> int:
        """Where the record stands now: for `requests_after`. RuntimeError without `record=True`."""
        return self._recorded().last_number

    def requests_after(self, event: int) -> Requests:
        """Return what of `requests` has come since `last_event` was this. RuntimeError without `record=True`."""
        return self._recorded().requests(event)

    def save_capture(self, path: str | Path) -> int:
        """Write what is in `requests` to a file that `kafka-offsets inspect` reads; return how many lines it has.

        path  ends in .jsonl, or .jsonl.gz to be compressed; else ValueError
        RuntimeError without `record=True`; OSError.
        """
        return self._recorded().save(path)

    def _recorded(self) -> Recorder:
        if self._recorder is None:
            raise RuntimeError("this broker does not record: Broker(record=True) does")
        return self._recorder

    def describe(self) -> str:
        """Return groups, members, assignments, offsets and lag as text, for a human who looks for an error."""
        return "\n".join(self._when_open(groups.describe_state))

    # -- what goes wrong -----------------------------------------------------------------------------------

    @property
    def faults(self) -> "Faults":
        """The faults of this broker, such as errors, lost connections, a full disk: `kafka_offsets.testing.Faults`."""
        if self._faults is None:
            from kafka_offsets.testing.faults.control import Faults  # costs those who want none nothing

            self._faults = Faults(self)
        return self._faults

    async def _start_server(self) -> None:
        await super()._start_server()
        if self._faults is not None:
            self._faults.follow(self._running())

    async def _stop_server(self) -> None:
        if self._faults is not None:
            self._faults.end_disk()
        await super()._stop_server()

    def _new_server(self) -> NetworkServer:
        files: Files = MemoryFiles() if self._data_directory is None else DiskFiles(self._data_directory)
        return Server(self.config, files, self._clock, self._recorder)


class Server(NetworkServer):
    """A server that can be looked at: events are looked for behind each turn, and its state can be replaced."""

    def __init__(self, config: Config, files: Files, clock: Clock | None, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._watched: dict[Future[Any], Event] = {}
        self._memory: MemoryFiles | None = None
        super().__init__(config, files, clock)

    def new_core(self, files: Files | None) -> BrokerCore:
        """Make the broker; what is in memory is there at once, and need not be opened by another thread."""
        core = super().new_core(files)
        self._memory = files if isinstance(files, MemoryFiles) else None
        if self._memory is not None:
            core.opener.stop()
        return core

    def new_peer(self, listener: int = 0) -> Peer:
        """Put a tape on a connection that comes in, if this broker records."""
        if self._recorder is None:
            return super().new_peer(listener)
        return _RecordedPeer(self, self._recorder, listener)

    def node_of(self, listener: int) -> int | None:
        """Return the node of a cluster whose listener this is; None for a broker that is alone."""
        return None

    def exchange(self, request: messages.MessageValue, version: int) -> "Future[Any]":
        """Have a request of the test's own decided. Faults strike clients: whoever puts one in can still seed."""
        core, by_faults = self.core, self.core.context.apis
        core.context.apis = self.served()
        try:
            return super().exchange(request, version)
        finally:
            core.context.apis = by_faults

    def watch(self, event: Event) -> "Future[Any]":
        """Return a future of what an event gives."""
        future: Future[Any] = Future()
        self._watched[future] = event
        self._look()
        return future

    def unwatch(self, future: "Future[Any]", event: Event) -> str:
        """Look no more; return what is the case."""
        self._look()
        self._watched.pop(future, None)
        try:
            return event.tell(self.core)
        except LogLoadingError as error:
            return f"not known: {error}"

    def _look(self) -> None:
        for future, event in list(self._watched.items()):
            try:
                found = event.look(self.core)
            except LogLoadingError:
                continue  # another turn ends when it is open
            except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
                del self._watched[future]
                future.set_exception(error)
                continue
            if found is not None:
                del self._watched[future]
                future.set_result(found)

    def _end_turn(self) -> None:
        super()._end_turn()
        if self._watched:
            self._look()

    async def stop(self) -> None:
        """Stop, as every server does; who waits for an event is told."""
        try:
            with _expecting_refusals():
                await super().stop()
        finally:
            watched, self._watched = self._watched, {}
            for future, event in watched.items():
                why = f"this broker was stopped while somebody waited: {event.what}"
                future.set_exception(RuntimeError(why))

    def copy_state(self) -> MemoryFiles:
        """Return a copy of all files."""
        if self._memory is None:
            raise RuntimeError(
                "only a broker in memory can be copied and restored, not one with a data directory"
            )
        self.core.end_turn()
        self.core.directory.checkpoint_log_starts()
        self.request_turn()
        return self._memory.copy()

    def restoring(self, files: MemoryFiles) -> "Future[None]":
        """Begin to put a core that starts from a copy of `files` in the place of the present one."""
        if self._memory is None:
            raise RuntimeError(
                "only a broker in memory can be copied and restored, not one with a data directory"
            )
        return asyncio.run_coroutine_threadsafe(self._restore(files), self._loop)

    async def _restore(self, files: MemoryFiles) -> None:
        await self._until(lambda: not self._tasks)
        old = self.core
        for inner in list(self._inner):
            inner.abort()
        for peer in list(self._peers):
            if peer.connection is not None:
                old.disconnect(peer.connection)
            peer.abort()
        core = self.new_core(files.copy())
        core.context.host, core.context.port = old.context.host, old.context.port
        self.core = core
        with _expecting_refusals():
            old.close()
        self.end_turn_now()
        await self._until(lambda: not core.loader.is_loading)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait for what threads of this server are at."""
        while not is_so():
            if self._stopping:
                raise RuntimeError("this broker was stopped before its state was restored")
            self._closed.clear()
            await self._closed.wait()


class _RecordedPeer(Peer):
    """A connection with a tape on it."""

    def __init__(self, server: Server, recorder: Recorder, listener: int) -> None:
        super().__init__(server, listener)
        self._recorder = recorder
        self._tape: Tape | None = None
        self._of = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to record."""
        super().connection_made(transport)
        if self.connection is not None:
            assert isinstance(transport, asyncio.Transport)
            self._tape = self._recorder.open(self.connection.peer, self._of.node_of(self.listener))
            self._writer = _RecordedWriter(transport, self._tape)

    def data_received(self, data: bytes) -> None:
        """Record what has come, and have it decided."""
        if self._tape is not None and self.connection is not None and not self.connection.closing:
            core = self._of.core
            _learn_topics(core, self._recorder)
            self._tape.received(data, core.clock.now().wall_ms)
        super().data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Record the end."""
        if self._tape is not None:
            self._tape.close()
        super().connection_lost(error)


class _RecordedWriter(Writer):
    """A writer with a tape on it."""

    __slots__ = ("_tape",)

    def __init__(self, transport: Transport, tape: Tape) -> None:
        super().__init__(transport)
        self._tape = tape

    def write(self, pieces: list[bytes | bytearray]) -> None:
        """Record what is sent, and send it."""
        self._tape.sent(pieces)
        super().write(pieces)


def _learn_topics(core: BrokerCore, recorder: Recorder) -> None:
    """Note the names of topics, which requests call by their ids."""
    seen = core.topics, core.topics.created_version
    if recorder.seen_topics != seen:
        recorder.seen_topics = seen
        recorder.topic_names.update((topic.topic_id, topic.name) for topic in core.topics.all())


@contextmanager
def _expecting_refusals() -> Iterator[None]:
    """Close a broker, although a log of it takes no more appends because a fault of the disk has struck it."""
    try:
        yield
    except StorageError as error:
        from kafka_offsets.testing.faults.disk_faults import (
            InjectedError,  # costs those who want none nothing
        )

        if not isinstance(error, InjectedError):
            raise


def _server(server: NetworkServer) -> Server:
    return cast("Server", server)


def _prepare(core: BrokerCore, topic: str) -> tuple[int, int]:
    """Create a topic if it is not there; return its number of partitions and the time in ms."""
    if core.topics.get(topic) is None:
        core.create_topic(topic, core.config.num_partitions, {})
    found = core.topics.get(topic)
    assert found is not None
    return found.partition_count, core.clock.now().wall_ms


def _open(core: BrokerCore, topic: str, indexes: Iterable[int]) -> None:
    """Open logs that are about to be written to; what else stands against it, the answer says."""
    for index in indexes:
        try:
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
            (each.key, each.value, each.headers, now_ms if each.timestamp is None else each.timestamp)
            for each in records
        ]
        data.append(made.PartitionProduceData(index, bytes(encode_batch(rows))))
    return made(
        acks=-1,
        timeout_ms=_PRODUCE_TIMEOUT_MS,
        topic_data=[made.TopicProduceData(topic, partition_data=data)],
    )


def _check_places(expected: object, what: str) -> None:
    """Raise TypeError for what is no dict by (topic, partition)."""
    shape = f"{{(topic, partition): {what}}}"
    if not isinstance(expected, Mapping):
        raise TypeError(f"a dict {shape} is expected, not {expected!r}")
    for place in expected:
        if not (
            isinstance(place, tuple)
            and len(place) == 2
            and isinstance(place[0], str)
            and isinstance(place[1], int)
        ):
            raise TypeError(
                f"a dict {shape} is expected, such as {{('orders', 0): 1}}; it has the key {place!r}"
            )


def _nothing(what: str) -> str:
    return "not committed" if what == "committed" else "no such partition"


def _said(what: str, found: int | None, expected: int | None) -> str:
    has = _nothing(what) if found is None else f"{what} {found}"
    wanted = _nothing(what) if expected is None else f"{expected}"
    if found is None or expected is None:
        return f"{has}, expected {wanted}"
    return f"{has}, expected {wanted} ({abs(found - expected)} {'more' if found > expected else 'fewer'})"
