"""The broker without sockets: bytes in, bytes out, and a turn that ends.

`receive` takes bytes of a connection and decides every request in them; `end_turn` appends what was decided, makes it
durable, lets answers go and wakes what waited. Whoever owns the sockets calls `end_turn` once per turn of its loop,
`run_due` when `next_deadline_ms` has come, and sends what `take_output` gives. Nothing here reads a clock but through
`clock`, and nothing waits.
"""

import struct
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafka_offsets.broker.api import fetch, topic_admin
from kafka_offsets.broker.api.fetch_sessions import FetchSessions
from kafka_offsets.broker.api.table import API_VERSIONS, Api, Apis, Route, served_apis
from kafka_offsets.broker.config.group import GroupConfigs
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.connection import Connection, KnownHeader
from kafka_offsets.broker.coordination.expiry import Expiry
from kafka_offsets.broker.coordination.runtime import (
    CoordinatorRuntime,
    HostedShard,
    Read,
    coordinator_error,
    group_settings,
)
from kafka_offsets.broker.coordination.shard_loader import ShardLoader
from kafka_offsets.broker.coordination.shard_work import continue_work
from kafka_offsets.broker.coordination.snapshots import Background, Snapshots, run_inline
from kafka_offsets.broker.coordination.transactions import TransactionCoordinator
from kafka_offsets.broker.durability import Durability, Sync, sync_inline
from kafka_offsets.broker.idle_connections import IdleConnections
from kafka_offsets.broker.metrics import Metrics
from kafka_offsets.broker.partition.log_cleaner import LogCleaner, adopted_configs, offsets_topic_configs
from kafka_offsets.broker.partition.log_opener import LogOpener
from kafka_offsets.broker.partition.partitions import Partition, Topics
from kafka_offsets.broker.partition.recovery_points import RecoveryPoints
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.broker.reply_aggregator import Part
from kafka_offsets.broker.response_budget import ResponseBudget
from kafka_offsets.broker.scheduler import Deadline, Deadlines
from kafka_offsets.clock import Clock, Now, SystemClock
from kafka_offsets.coordinator.offsets.table import OffsetAndMetadata
from kafka_offsets.coordinator.result import Closing, Held, RequestContext, Result, TransactionalResult
from kafka_offsets.errors import ErrorCode, ProtocolError, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.connection import (
    Parts,
    encode_response,
    read_api_key_and_version,
    read_request_header,
)
from kafka_offsets.storage.data_directory import DataDirectory
from kafka_offsets.storage.files import Files, MemoryFiles
from kafka_offsets.storage.log.log import Log

_UNANSWERED = 100
"""Requests that one connection may have decided and unanswered; its further frames wait."""

_DECIDED_BYTES = 4 << 20
"""Bytes of such requests; one of any size is decided when nothing waits before it."""

_OUTPUT_BYTES = 1 << 20
"""A connection with so many bytes of answers to be sent has no further request decided."""

_ANSWERED_TOGETHER = 8
"""Answers of so many requests that need not wait for each other are let go at once."""

_ROUNDS = 8
"""How often one turn goes round for requests that its own answers let through, before other connections' turn."""

_LONGEST_GROUP_ID = 32767
"""Bytes of UTF-8 that fit the key of a record."""

_GROUP = Route.GROUP
_PRODUCE = 0
_CORRELATION_ID = struct.Struct(">i")
_REMEMBERED_HEADER_BYTES = 256

RealTimeFallback = Callable[[int, Deadline, bool], None]
"""(ms, deadline, whether it is a pause in work): told of what must not wait for a clock that stands still."""

logger = new_logger(__name__)


class BrokerCore:
    """One broker: topics, groups, connections.

    config  of the broker
    files   where its data is; in memory when not given
    clock   the only source of time
    sync    how logs are made durable when the `fsync` policy asks for it
    background  how files are written for which nobody waits
    Raises StorageError when the data cannot be read or another broker has it.
    """

    def __init__(
        self,
        config: Config,
        files: Files | None = None,
        clock: Clock | None = None,
        sync: Sync = sync_inline,
        background: Background = run_inline,
    ) -> None:
        self.config = config
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.host, self.port = "127.0.0.1", 0
        self.apis: Apis = served_apis(config.profile)
        self.sync = sync
        self.background = background
        self.real_time_fallback: RealTimeFallback | None = None
        self.scaled_interval: Callable[[int], int] | None = None
        self._deadlines = Deadlines()
        self._dirty_shards: dict[HostedShard, None] = {}
        self._unsynced: dict[Log, HostedShard | None] = {}
        self._durability = Durability(self, self._unsynced)
        self._appended: dict[Partition, None] = {}
        self._answered: dict[Connection, None] = {}
        self._resumable: dict[Connection, None] = {}
        self._writable: dict[Connection, None] = {}
        self.connections: set[Connection] = set()
        self._idle_connections = IdleConnections(self)
        self.responses = ResponseBudget(config.queued_max_response_bytes)
        self.directory = DataDirectory(
            files if files is not None else MemoryFiles(),
            node_id=config.node_id if "node.id" in config.given else None,
            adopted_configs=partial(adopted_configs, config),
            keep_valid=config.recovery == "keep-valid",
        )
        self.topics = Topics(self.directory, config)
        self.untold_topics: dict[str, int] = {}  # made by Metadata, to when it describes them, monotonic ms
        self.group_configs = GroupConfigs(self.directory, config)
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots)
        self.node_id, self.cluster_id = self.directory.node_id, self.directory.cluster_id
        self.broker_ids: tuple[int, ...] = (self.node_id,)
        self.snapshots = Snapshots(self, config.offsets_snapshot_interval_bytes)
        self.runtime = CoordinatorRuntime(
            group_settings(config),
            self.group_configs.settings,
            self.topics,
            self,
            self._open_offsets_log,
            lambda prefix: f"{prefix}-{uuid.uuid4()}",
            Compression(config.offsets_topic_compression_codec),
            config.message_max_bytes,
            self.snapshots.restore,
            self.clock,
            commits_while_loading=config.offsets_commit_while_loading,
        )
        self.loader = ShardLoader(self)
        self.transactions = TransactionCoordinator(self)
        self.last_request_ms = 0
        self.log_cleaner = LogCleaner(self)
        self.recovery_points = RecoveryPoints(self)
        self.log_cleaner.on_cleaned.append(self._on_cleaned)
        try:
            left = self._load_groups()
            self.transactions.start()
        except BaseException:
            self.directory.close(sync=False)
            raise
        self.opener = self.topics.opener = LogOpener(self)
        self.recovery_points.start(self.clock.now())
        self.expiry = Expiry(self)
        self.expiry.start()
        self.metrics = Metrics(self)
        self.metrics.start()
        self.loader.load(left)
        self.transactions.carry_on()
        self.end_turn()

    def _load_groups(self) -> list[HostedShard]:
        """Replay the offsets topic, if there is one; return the shards whose turn is yet to come."""
        now = self.clock.now()
        self.snapshots.start(now)
        topic = self.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return []
        at_once_bytes = self.config.offsets_load_before_listening_bytes
        logged = [index for name, index in self.directory.unopened() if name == OFFSETS_TOPIC]
        left = self.runtime.start(topic.partition_count, now, logged, at_once_bytes)
        self._dirty_shards |= dict.fromkeys(self.runtime.all_shards())
        return left

    def on_loaded(self) -> None:
        """Note that every shard is loaded: logs are cleaned from now on, and not while they are read as a whole."""
        self.log_cleaner.start()
        self.opener.start(self.clock.now())

    def touch(self, hosted: HostedShard) -> None:
        """Have a shard looked at when the turn ends."""
        self._dirty_shards[hosted] = None

    # -- what the owner of the sockets calls --------------------------------------------------------------------

    def connect(self, peer: str, host: str, owner: Any = None) -> Connection:
        """Take in a new connection.

        owner  kept on the connection for the caller
        """
        connection = Connection(peer, host, self.config.socket_request_max_bytes, owner)
        now = self.clock.now()
        connection.last_used_ms = now.mono_ms
        self.connections.add(connection)
        self._idle_connections.watch(now)
        return connection

    def disconnect(self, connection: Connection) -> None:
        """Forget a connection; its answers, should there be any, go nowhere."""
        connection.release()
        self.responses.hold(connection, 0)
        self.connections.discard(connection)
        for waiting in (self._answered, self._writable, self._resumable):
            waiting.pop(connection, None)
        fetch.cancel(self, connection)

    def receive(self, connection: Connection, data: bytes) -> None:
        """Take bytes from a peer and decide the requests that they complete.

        Raises ProtocolError, naming API and position, when they are no request: the connection must be closed.
        """
        connection.reader.feed(data)
        self._serve(connection, self.clock.now())

    def end_turn(self) -> bool:
        """Append, make durable, answer; return whether requests are left over for another turn."""
        now = self.clock.now()
        for _ in range(_ROUNDS):
            self._append(now)
            self._durability.start_sync()
            self._wake_fetches(now)
            self._release_answered()
            if not self._resumable and not self._durability.is_awaited:
                break
            resumable, self._resumable = self._resumable, {}
            for connection in resumable:
                if not connection.closing:
                    self._serve_resumed(connection, now)
        return self.has_work

    @property
    def has_work(self) -> bool:
        """Whether another turn has something to do."""
        return bool(self._resumable or self._dirty_shards or self._appended)

    @property
    def is_quiet(self) -> bool:
        """Whether the turn has nothing to end: no request, record or answer has come since the last one."""
        return not (
            self.has_work or self._answered or self._writable or self._unsynced or self._durability.is_awaited
        )

    def take_output(self) -> Iterable[Connection]:
        """Return the connections that have something in `output`, and forget them."""
        writable, self._writable = self._writable, {}
        return writable

    def drain(self, connection: Connection) -> bytes:
        """Take what is to be sent to a connection; requests that its answers held back are decided in the next turn."""
        return b"".join(self.drain_pieces(connection))

    def drain_pieces(self, connection: Connection) -> list[bytes | bytearray]:
        """As `drain`, in pieces; records come as they were read, and nothing else is a piece of its own.

        Whoever cannot send them yet says so to `responses`.
        """
        pieces = connection.take_output()
        if connection.held_bytes:
            self.responses.hold(connection, 0)
        self.unblock(connection)
        return pieces

    def unblock(self, connection: Connection) -> None:
        """Let a connection's waiting requests be decided in the next turn, unless its peer does not read."""
        if connection.reader.buffered_bytes and not connection.is_blocked and not connection.closing:
            self._resumable[connection] = None

    @property
    def next_deadline_ms(self) -> int | None:
        """When `run_due` wants to be called, in monotonic time."""
        return self._deadlines.next_ms

    def run_due(self) -> None:
        """Carry out what is due; an `end_turn` belongs behind it."""
        self._deadlines.run_due(self.clock.now())

    def create_topic(self, name: str, partition_count: int, configs: dict[str, str]) -> None:
        """Create a topic; ValueError when it exists already or when name, count or configuration is not allowed."""
        error, message = topic_admin.check_new_topic(self, name, partition_count, configs)
        if error is not ErrorCode.NONE:
            raise ValueError(f"topic {name!r}: {message or error.name}")
        self.topics.create(name, partition_count, configs)
        if name == OFFSETS_TOPIC:
            self.runtime.start(partition_count, self.clock.now())
        elif name == TRANSACTIONS_TOPIC:
            self.transactions.topic_created()

    def committed(self, group_id: str) -> dict[tuple[str, int], OffsetAndMetadata]:
        """Return the committed offsets of a group by (topic, partition); empty for an unknown group."""
        if not self.offsets_topic_exists:
            return {}
        hosted = self.runtime.shard_of(group_id, self.clock.now())
        if hosted.is_loading:
            raise RuntimeError(f"the offsets of group {group_id} are being loaded")
        shard = hosted.shard
        return {(topic, partition): entry for topic, partition, entry in shard.offsets.items(group_id)}

    def close(self) -> None:
        """Write what is decided, close all files and give the data directory free; nothing is due any more."""
        self.sync, self.background = sync_inline, run_inline
        self.loader.abandon()
        self.log_cleaner.stop()
        self.recovery_points.stop()
        try:
            self.end_turn()
            self.expiry.stop()
            self.snapshots.stop()
            self.topics.leave_producers()
        finally:
            self._deadlines.cancel_all()
            self.topics.close()
            self.directory.close()

    # -- what handlers call -------------------------------------------------------------------------------------

    def at(self, due_ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call `callback` at a monotonic time, unless it is cancelled before."""
        return self._deadlines.add(due_ms, callback)

    def pause(self, ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call back between two steps of work: nothing in it depends on how much time has passed.

        When the clock is moved by hand this passes in the machine's time as well, as does `client_timeout`.
        """
        deadline = self._deadlines.add(self.clock.now().mono_ms + ms, callback)
        if self.real_time_fallback is not None:
            self.real_time_fallback(ms, deadline, True)
        return deadline

    def after_interval(self, ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call back at the end of an interval at which something is looked for; the callback asks for the next one."""
        if self.scaled_interval is not None:
            ms = self.scaled_interval(ms)
        return self._deadlines.add(self.clock.now().mono_ms + ms, callback)

    def client_timeout(self, ms: int, callback: Callable[[Now], None]) -> Deadline:
        """Call back when a client, or something to be tried again, has waited for as long as it will."""
        deadline = self._deadlines.add(self.clock.now().mono_ms + ms, callback)
        if self.real_time_fallback is not None:
            self.real_time_fallback(ms, deadline, False)
        return deadline

    def reply(self, context: RequestContext, response: Any) -> None:
        """Let the answer to a request go when the turn ends, in the order of its connection's requests."""
        if type(context) is not RequestContext:
            self._reply_otherwise(context, response)
            return
        connection: Connection = context.connection
        if connection.closing:
            return
        codecs = context.codecs
        try:
            encode = codecs.echo if response is context.request else codecs.encode
            context.answer = encode_response(
                encode, response, context.correlation_id, codecs.has_tagged_response_header
            )
        except ValueError:
            api = self.apis.row_of(context.api_key)
            logger.exception(
                "%s: the answer to %s v%d cannot be encoded", connection.peer, api.name, context.api_version
            )
            failed = api.fail(context.request, ErrorCode.UNKNOWN_SERVER_ERROR, context.api_version)
            context.answer = encode_response(
                codecs.encode, failed, context.correlation_id, tagged=codecs.has_tagged_response_header
            )
        self._answered[connection] = None

    def _reply_otherwise(self, context: RequestContext, response: Any) -> None:
        """Take in a part of an answer, hand it to whoever holds it, or close a connection in place of one."""
        if isinstance(context, Part):
            assert context.aggregator is not None
            whole = context.aggregator.put(context.index, response)
            if whole is not None:
                self.reply(context.aggregator.context, whole)
        elif isinstance(context, Held):
            context.hand_over(response)
        elif isinstance(context, Closing) and not context.connection.closing:
            self.close_connection(context.connection)

    def fail(self, context: RequestContext, error: ErrorCode) -> None:
        """Answer a request with an error in place of the answer it was to have."""
        if isinstance(context, Part):
            assert context.aggregator is not None
            self.reply(context, context.aggregator.refuse(context.index, error))
            return
        if isinstance(context, Closing):  # the rebalance goes on, whatever became of the records
            self.reply(context, None)
            return
        api = self.apis.row_of(context.api_key)
        self.reply(context, api.fail(context.request, error, context.api_version))

    def reply_encoded(self, context: RequestContext, answer: Parts | bytes) -> None:
        """Let an answer go that is encoded already; b"" is none, as acks=0 asks for."""
        context.answer = answer
        connection = context.connection
        if not connection.closing:
            self._answered[connection] = None
            if isinstance(answer, Parts) and not isinstance(context, Held):
                self.responses.hold(connection, connection.held_bytes + len(answer))

    def reply_when_durable(self, context: RequestContext, response: Any, logs: Iterable[Log]) -> None:
        """Answer once `logs` are as durable as the `fsync` policy says."""
        if self.config.fsync == "commit":
            self._durability.await_reply(context, response, logs)
        else:
            self.reply(context, response)

    def when_durable(self, logs: Iterable[Log], callback: Callable[[ErrorCode], None]) -> None:
        """Call back once what `logs` have now is as durable as the `fsync` policy says, or with an error."""
        if self.config.fsync == "commit":
            self._durability.await_call(callback, logs)
        else:
            callback(ErrorCode.NONE)

    def on_append(self, partition: Partition) -> None:
        """Note that a partition has grown: fetches that wait for it are looked at when the turn ends."""
        self._appended[partition] = None
        self._unsynced.setdefault(partition.log, None)

    def shard_of(self, group_id: str, now: Now) -> HostedShard | ErrorCode:
        """Return the shard of a group, or what a client hears when there is none.

        UNKNOWN_SERVER_ERROR for an id that fits no record, NOT_COORDINATOR when the log cannot be used.
        """
        if 3 * len(group_id) > _LONGEST_GROUP_ID and len(group_id.encode()) > _LONGEST_GROUP_ID:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            if not self.runtime.partition_count:
                self.create_offsets_topic(now)
            hosted = self.runtime.shard_of(group_id, now)
        except StorageError as error:
            logger.error("the shard of a group cannot be used: %s", error)
            return coordinator_error(error)
        if hosted.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR if hosted.failed else hosted

    def decide(self, hosted: HostedShard, result: Result | Read) -> None:
        """Take a decision, or a read that waits for those before it, into this turn."""
        hosted.decide(result)
        self._dirty_shards[hosted] = None

    def decide_transactional(self, hosted: HostedShard, result: TransactionalResult) -> None:
        """Take a batch of a transaction into this turn."""
        hosted.decide_transactional(result)
        self._dirty_shards[hosted] = None

    def hosted_partition(self, index: int) -> HostedShard | None:
        """Return the shard of a partition of the offsets topic; None when there is no such partition."""
        if not 0 <= index < self.runtime.partition_count:
            return None
        return self.runtime.shard_at(index, self.clock.now())

    @property
    def offsets_topic_exists(self) -> bool:
        """Whether there is an offsets topic."""
        return self.runtime.partition_count > 0

    def create_offsets_topic(self, now: Now) -> None:
        """Create the offsets topic as the configuration says. Raises StorageError."""
        config = self.config
        configs = offsets_topic_configs(config)
        topic = self.topics.create(OFFSETS_TOPIC, config.offsets_topic_num_partitions, configs)
        self.runtime.start(topic.partition_count, now)

    def on_topic_deleted(self, name: str) -> None:
        """Note that a topic is gone: fetches are answered and offsets go; groups go with the offsets topic."""
        fetch.answer_waiting(self, lambda topic, _: topic == name, self.clock.now())
        if name == OFFSETS_TOPIC:
            self._dirty_shards.clear()
            self.runtime.stop()
        elif name == TRANSACTIONS_TOPIC:
            self.transactions.topic_deleted()
        else:
            self.expiry.topic_deleted(name)

    def _on_cleaned(self, partition: Partition) -> None:
        partition.note_cleaned()
        hosted = self.runtime.shards.get(partition.index) if partition.topic == OFFSETS_TOPIC else None
        if hosted is not None and not hosted.failed:
            self.snapshots.want(hosted)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _open_offsets_log(self, partition: int) -> Log:
        opened = self.topics.partition(OFFSETS_TOPIC, partition)
        assert opened is not None
        return opened.log

    def _serve(self, connection: Connection, now: Now) -> None:
        """Decide the requests that have come in whole, as far as those before them allow; let their answers go."""
        try:
            self._decide_frames(connection, now)
        finally:  # also when one of them closes the connection: it is flushed with what is in its output by then
            if self._answered:
                self._release_answered()

    def _decide_frames(self, connection: Connection, now: Now) -> None:
        unanswered, next_frame = connection.unanswered, connection.reader.next_frame
        while not connection.closing:
            if connection.output_bytes >= _OUTPUT_BYTES or connection.is_blocked:
                return
            if not unanswered:
                frame = next_frame()
            elif (
                (key := connection.pipelined_key) is None
                or len(unanswered) >= _UNANSWERED
                or connection.decided_bytes >= _DECIDED_BYTES
            ):
                frame = None
            else:
                frame = next_frame(key)
            if frame is None:
                if unanswered and self._answered:
                    self._release_answered()
                    if not unanswered:
                        continue
                return
            self._decide(connection, frame, now)
            if len(unanswered) >= _ANSWERED_TOGETHER and self._answered:
                self._release_answered()

    def _serve_resumed(self, connection: Connection, now: Now) -> None:
        try:
            self._serve(connection, now)
        except ProtocolError as error:
            self.refuse(connection, error)

    def refuse(self, connection: Connection, error: ProtocolError) -> None:
        """Close a connection whose peer broke the protocol, with one log line."""
        logger.warning("%s: connection closed: %s", connection.peer, error)
        self.close_connection(connection)

    def close_connection(self, connection: Connection) -> None:
        """Have a connection closed once what is in `output` is sent; answers that are not ready are not sent."""
        connection.closing = True
        self._writable[connection] = None

    def _decide(self, connection: Connection, frame: bytes, now: Now) -> None:
        """Decode one request and have it decided."""
        known = connection.known_header
        if known is None or frame[:4] != known.start or frame[8 : known.size] != known.rest:
            known = self._read_header(connection, frame)
            if known is None:
                return  # answered already
        _, _, body, api, version, codecs, client_id = known
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame, 4)
        request, _ = codecs.decode(frame, body)
        size = len(frame)
        context = RequestContext(
            connection, api.key, version, correlation_id, client_id, connection.host, request, codecs, size
        )
        connection.unanswered.append(context)
        connection.pipelined_key = api.key if api.pipelined else None
        connection.decided_bytes += size
        connection.last_used_ms = self.last_request_ms = now.mono_ms
        try:
            if api.route is _GROUP:
                self.decide_in_shard(api, request, context, now)
            else:
                response = api.handle(self, request, context, now)
                if response is not None:
                    self.reply(context, response)
        except StorageError as error:
            logger.error("%s: %s v%d: %s", connection.peer, api.name, version, error)
            self._fail_request(api, context, ErrorCode.KAFKA_STORAGE_ERROR)
        except (
            Exception
        ):  # whatever a handler has missed: its request is answered, as Kafka does, and all others live
            logger.exception("%s: %s v%d failed", connection.peer, api.name, version)
            self._fail_request(api, context, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _read_header(self, connection: Connection, frame: bytes) -> KnownHeader | None:
        """Read a request's header, and remember it; None when the request was answered because it is not served.

        Raises ProtocolError when it may not be answered.
        """
        key, version = read_api_key_and_version(frame)
        api = self.apis.by_key.get(key)
        if api is None:
            raise ProtocolError(f"API key {key} is not served", 0)
        try:
            codecs = api.codecs(version)
        except OSError as error:  # no descriptor for its schema: the next request of this API tries again
            raise ProtocolError(f"{api.name} v{version} cannot be decoded: {error.strerror}") from error
        if codecs is None:
            self._decide_unserved(connection, api, version, frame)
            return None
        try:
            _, client_id, size = read_request_header(frame, codecs.has_tagged_request_header)
        except ProtocolError as error:
            raise ProtocolError(f"{api.name} v{version}, header: {error}") from error
        known = KnownHeader(frame[:4], frame[8:size], size, api, version, codecs, client_id)
        connection.known_header = known if size <= _REMEMBERED_HEADER_BYTES else None
        return known

    def _fail_request(self, api: Api, context: RequestContext, error: ErrorCode) -> None:
        """Answer a request with `error`; one that wants no answer is told by the end of its connection, as in Kafka."""
        if api.key == _PRODUCE and context.request.acks == 0:
            self.close_connection(context.connection)
        else:
            self.reply(context, api.fail(context.request, error, context.api_version))

    def _decide_unserved(self, connection: Connection, api: Api, version: int, frame: bytes) -> None:
        """Answer an unknown version of ApiVersions in version 0, whatever its body (KIP-511); refuse all else."""
        if api.key != API_VERSIONS:
            raise ProtocolError(f"{api.name} v{version} is not served", 2)
        # Newer versions than ours have a header with tagged fields, as all have from the first flexible one on.
        tagged = version >= api.request.SCHEMA.flexible.first
        correlation_id, client_id, _ = read_request_header(frame, tagged=tagged)
        request = api.request()
        connection.pipelined_key = None
        context = RequestContext(
            connection, api.key, 0, correlation_id, client_id, connection.host, request, api.codecs(0)
        )
        connection.unanswered.append(context)
        self.reply(context, api.fail(request, ErrorCode.UNSUPPORTED_VERSION, 0))

    def decide_in_shard(self, api: Api, request: Any, context: RequestContext, now: Now) -> None:
        """Have a request of the route GROUP decided."""
        hosted = self.runtime.by_group.get(request.group_id)
        if hosted is None or hosted.failed:
            found = self.shard_of(request.group_id, now)
            if isinstance(found, ErrorCode):
                if found is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or not self.loader.commit(
                    api, request, context, now
                ):
                    self.reply(context, api.fail(request, found, context.api_version))
                return
            hosted = found
        hosted.decide(api.handle(hosted.shard, request, context, now))
        self._dirty_shards[hosted] = None

    def _schedule_shard(self, hosted: HostedShard, due_ms: int) -> None:
        """Have a shard's tick called at its next deadline; one that moved later is found out when it is due."""
        if hosted.deadline is not None:
            if hosted.deadline.due_ms <= due_ms:
                return
            hosted.deadline.cancel()

        def tick(now: Now) -> None:
            hosted.deadline = None
            for result in hosted.shard.tick(now):
                hosted.decide(result)
            self._dirty_shards[hosted] = None

        hosted.deadline = self.at(due_ms, tick)

    def _append(self, now: Now) -> None:
        """Append what this turn decided; without an fsync to wait for it takes effect at once."""
        dirty, self._dirty_shards = self._dirty_shards, {}
        waits = self.config.fsync == "commit"
        for hosted in dirty:
            log = hosted.log
            before = log.log_end_offset
            hosted.append(now)
            if log.log_end_offset > before:
                self._unsynced[log] = hosted
                if self.topics.waiting:
                    self._note_growth(hosted)
            if not waits:
                hosted.durable_offset = log.log_end_offset
            hosted.take_effect()
            due_ms = None if hosted.is_loading else hosted.shard.next_deadline_ms
            if due_ms is not None:
                self._schedule_shard(hosted, due_ms)
            if hosted.shard.resolving:
                continue_work(self, hosted)

    def _note_growth(self, hosted: HostedShard) -> None:
        """Have the fetches looked at that wait for a partition of the offsets topic."""
        partition = self.topics.partition(OFFSETS_TOPIC, hosted.shard.partition)
        if partition is not None and partition.parked:
            self._appended[partition] = None

    def _wake_fetches(self, now: Now) -> None:
        if self._appended:
            appended, self._appended = self._appended, {}
            fetch.wake(self, appended, now)

    def _release_answered(self) -> None:
        """Move the answers at the heads of the connections' queues into their output."""
        answered, self._answered = self._answered, {}
        for connection in answered:
            self._writable[connection] = None
            unanswered, output = connection.unanswered, connection.output
            decided_bytes = output_bytes = 0
            while unanswered and (answer := unanswered[0].answer) is not None:
                decided_bytes += unanswered.popleft().frame_bytes
                if answer:
                    output.append(answer)
                    output_bytes += len(answer)
            connection.decided_bytes -= decided_bytes
            connection.output_bytes += output_bytes
            if connection.reader.buffered_bytes:
                self._resumable[connection] = None
