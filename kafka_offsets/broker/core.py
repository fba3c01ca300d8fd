"""Broker core: the broker without sockets. Bytes in, bytes out, in turns.

`receive` takes bytes of a connection and decides every request in them; `end_turn` appends the decisions, makes them
durable, sends answers and wakes parked requests. The owner of the sockets calls `end_turn` once per turn of its loop,
calls `run_due` at `next_deadline_ms`, and sends the output of `take_output`. The only time source is `clock`, and
nothing blocks.
"""

import uuid
from concurrent.futures import Future
from functools import partial
from typing import Any

from kafka_offsets.broker.answers import Answers
from kafka_offsets.broker.api import fetch, topic_admin
from kafka_offsets.broker.api.fetch_sessions import FetchSessions
from kafka_offsets.broker.api.table import row_of, served_apis
from kafka_offsets.broker.config.group import GroupConfigs
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.connection import Connection
from kafka_offsets.broker.context import Context
from kafka_offsets.broker.coordination.expiry import Expiry, Services
from kafka_offsets.broker.coordination.runtime import (
    CoordinatorRuntime,
    HostedShard,
    group_settings,
)
from kafka_offsets.broker.coordination.shard_loader import ShardLoader
from kafka_offsets.broker.coordination.shards import Shards
from kafka_offsets.broker.coordination.snapshots import Snapshots
from kafka_offsets.broker.coordination.transactions import TransactionCoordinator
from kafka_offsets.broker.durability import Durability
from kafka_offsets.broker.growth import Growth
from kafka_offsets.broker.idle_connections import IdleConnections
from kafka_offsets.broker.metrics import Metrics
from kafka_offsets.broker.partition.forced_compaction import Answer as CompactedLogs
from kafka_offsets.broker.partition.forced_compaction import force_compaction
from kafka_offsets.broker.partition.log_cleaner import LogCleaner, adopted_configs
from kafka_offsets.broker.partition.log_opener import LogOpener
from kafka_offsets.broker.partition.partitions import Partition, Topics
from kafka_offsets.broker.partition.recovery_points import RecoveryPoints
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.broker.requests import Requests
from kafka_offsets.broker.response_budget import ResponseBudget
from kafka_offsets.broker.scheduler import Scheduler
from kafka_offsets.broker.workers import Background, Sync, Workers, run_inline, sync_inline
from kafka_offsets.clock import Clock, Now, SystemClock
from kafka_offsets.coordinator.offsets.table import OffsetAndMetadata
from kafka_offsets.errors import ErrorCode
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.storage.data_directory import DataDirectory
from kafka_offsets.storage.files import Files, MemoryFiles
from kafka_offsets.storage.log.log import Log

_ROUNDS = 8
"""How often one turn repeats for requests that its own answers unblock, before other connections are served."""

logger = new_logger(__name__)


class BrokerCore:
    """One broker: topics, groups, connections.

    config  configuration of the broker
    files   its data files; default: in memory
    clock   the only source of time
    sync    makes logs durable when the `fsync` policy requires it
    background  writes files for which no request waits
    Raises StorageError when the data cannot be read or another broker uses it.
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
        self.workers = Workers(sync, background)
        self.scheduler = Scheduler(self.clock)
        self.connections: set[Connection] = set()
        self.responses = ResponseBudget(config.queued_max_response_bytes)
        self.answers = Answers(self.responses, lambda key: row_of(self.context.apis, key))
        self.directory = DataDirectory(
            files if files is not None else MemoryFiles(),
            node_id=config.node_id if "node.id" in config.given else None,
            adopted_configs=partial(adopted_configs, config),
            keep_valid=config.recovery == "keep-valid",
        )
        self.topics = Topics(self.directory, config)
        self.growth = Growth()
        self.durability = Durability(
            config,
            self.scheduler,
            self.workers,
            self.answers,
            self.growth,
            lambda logs: self.recovery_points.sync_ended(logs),  # noqa: PLW0108 - created below
        )
        self._compose_coordination()
        self.context = self._new_context()
        self.requests = Requests(self.context)
        self._compose_services()
        try:
            left = self._load_groups()
            self.transactions.start()
        except BaseException:
            self.directory.close(sync=False)
            raise
        self.opener = self.topics.opener = LogOpener(self.topics, self.scheduler, self.workers)
        self.recovery_points.start(self.clock.now())
        self.expiry = Expiry(Services(config, self.scheduler, self.runtime, self.shards, self.end_turn))
        self.expiry.start()
        self.metrics = Metrics(self.runtime, self.scheduler)
        self.metrics.start()
        self.loader.load(left)
        self.transactions.carry_on()
        self.end_turn()

    def _compose_coordination(self) -> None:
        """Make what coordinates groups and transactions."""
        config = self.config
        self.group_configs = GroupConfigs(self.directory, config)
        self.runtime = self._new_runtime()
        self.snapshots = Snapshots(
            config.offsets_snapshot_interval_bytes,
            self.directory,
            self.scheduler,
            self.workers,
            self.runtime,
        )
        self.shards = Shards(config, self.topics, self.scheduler, self.runtime, self.growth)
        self.loader = ShardLoader(
            self.topics, self.scheduler, self.workers, self.runtime, self.shards, self.on_loaded
        )
        self.transactions = TransactionCoordinator(
            config, self.topics, self.scheduler, self.growth, self.durability, self.shards
        )

    def _compose_services(self) -> None:
        """Make what works in the background."""
        config = self.config
        self._idle_connections = IdleConnections(
            config.connections_max_idle_ms, self.scheduler, self.answers, self.connections
        )
        self.log_cleaner = LogCleaner(
            config, self.topics, self.scheduler, self.workers, self.runtime.give_up_failed
        )
        self.recovery_points = RecoveryPoints(
            config,
            self.topics,
            self.scheduler,
            self.workers,
            self.snapshots.large_logs,
            self.runtime.give_up_failed,
        )
        self.log_cleaner.on_cleaned.append(self._on_cleaned)

    def _new_runtime(self) -> CoordinatorRuntime:
        config = self.config
        return CoordinatorRuntime(
            group_settings(config),
            self.group_configs.settings,
            self.topics,
            self.answers,
            self._open_offsets_log,
            lambda prefix: f"{prefix}-{uuid.uuid4()}",
            Compression(config.offsets_topic_compression_codec),
            config.message_max_bytes,
            lambda hosted: self.snapshots.restore(hosted),  # noqa: PLW0108 - created later
            self.clock,
            commits_while_loading=config.offsets_commit_while_loading,
        )

    def _new_context(self) -> Context:
        config, directory = self.config, self.directory
        return Context(
            config=config,
            clock=self.clock,
            scheduler=self.scheduler,
            apis=served_apis(config.profile),
            answers=self.answers,
            directory=directory,
            topics=self.topics,
            growth=self.growth,
            durability=self.durability,
            group_configs=self.group_configs,
            fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots),
            runtime=self.runtime,
            shards=self.shards,
            loader=self.loader,
            transactions=self.transactions,
            on_topic_deleted=self.on_topic_deleted,
            node_id=directory.node_id,
            cluster_id=directory.cluster_id,
            broker_ids=(directory.node_id,),
        )

    def _load_groups(self) -> list[HostedShard]:
        """Replay the offsets topic, if it exists; return the shards that are still to be loaded."""
        now = self.clock.now()
        self.snapshots.start(now)
        topic = self.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return []
        at_once_bytes = self.config.offsets_load_before_listening_bytes
        logged = [index for name, index in self.directory.unopened() if name == OFFSETS_TOPIC]
        left = self.runtime.start(topic.partition_count, now, logged, at_once_bytes)
        self.shards.dirty |= dict.fromkeys(self.runtime.all_shards())
        return left

    def on_loaded(self) -> None:
        """Start the log cleaner after all shards are loaded: a log must not be cleaned while it is being loaded."""
        self.log_cleaner.start()
        self.opener.start(self.clock.now())

    # -- for the owner of the sockets ---------------------------------------------------------------------------

    def connect(self, peer: str, host: str, owner: Any = None) -> Connection:
        """Register a new connection.

        owner  kept on the connection for the caller
        """
        connection = Connection(peer, host, self.config.socket_request_max_bytes, owner)
        now = self.clock.now()
        connection.last_used_ms = now.mono_ms
        self.connections.add(connection)
        self._idle_connections.watch(now)
        return connection

    def disconnect(self, connection: Connection) -> None:
        """Forget a connection; its remaining answers are dropped."""
        connection.release()
        self.answers.forget(connection)
        self.connections.discard(connection)
        fetch.cancel(self.context, connection)

    def receive(self, connection: Connection, data: bytes) -> None:
        """Receive bytes from a peer and decide the requests that are complete.

        Raises ProtocolError, with API and position, if they are not a valid request: the connection must be closed.
        """
        connection.reader.feed(data)
        self.requests.serve(connection, self.clock.now())

    def end_turn(self) -> bool:
        """Append, make durable, answer; return whether requests remain for another turn."""
        now = self.clock.now()
        for _ in range(_ROUNDS):
            self.shards.append(now)
            self.durability.start_sync()
            self._wake_fetches(now)
            self.answers.release()
            if not self.answers.resumable and not self.durability.is_awaited:
                break
            resumable, self.answers.resumable = self.answers.resumable, {}
            for connection in resumable:
                if not connection.closing:
                    self.requests.serve_resumed(connection, now)
        return self.has_work

    @property
    def has_work(self) -> bool:
        """Whether another turn is needed."""
        return bool(self.answers.resumable or self.shards.dirty or self.growth.partitions)

    @property
    def is_quiet(self) -> bool:
        """Whether `end_turn` has nothing to do: there was no request, record or answer since the last turn."""
        return not (
            self.has_work
            or self.answers.answered
            or self.answers.writable
            or self.growth.unsynced
            or self.durability.is_awaited
        )

    def drain(self, connection: Connection) -> bytes:
        """Return and clear a connection's output; requests that its answers blocked are decided in the next turn."""
        return b"".join(self.drain_pieces(connection))

    def drain_pieces(self, connection: Connection) -> list[bytes | bytearray]:
        """As `drain`, in pieces: records separately, as they were read, everything else joined.

        A caller that cannot send them yet must report that to `responses`.
        """
        pieces = connection.take_output()
        if connection.held_bytes:
            self.responses.hold(connection, 0)
        self.answers.unblock(connection)
        return pieces

    @property
    def next_deadline_ms(self) -> int | None:
        """When `run_due` must be called, in monotonic time."""
        return self.scheduler.next_ms

    def run_due(self) -> None:
        """Run everything that is due; call `end_turn` afterwards."""
        self.scheduler.run_due(self.clock.now())

    def create_topic(self, name: str, partition_count: int, configs: dict[str, str]) -> None:
        """Create a topic; ValueError when it exists already or when name, count or configuration is not allowed."""
        error, message = topic_admin.check_new_topic(self.context, name, partition_count, configs)
        if error is not ErrorCode.NONE:
            raise ValueError(f"topic {name!r}: {message or error.name}")
        self.topics.create(name, partition_count, configs)
        if name == OFFSETS_TOPIC:
            self.runtime.start(partition_count, self.clock.now())
        elif name == TRANSACTIONS_TOPIC:
            self.transactions.topic_created()

    def committed(self, group_id: str) -> dict[tuple[str, int], OffsetAndMetadata]:
        """Return the committed offsets of a group by (topic, partition); empty for an unknown group."""
        if not self.shards.topic_exists:
            return {}
        hosted = self.runtime.shard_of(group_id, self.clock.now())
        if hosted.is_loading:
            raise RuntimeError(f"the offsets of group {group_id} are being loaded")
        shard = hosted.shard
        return {(topic, partition): entry for topic, partition, entry in shard.offsets.items(group_id)}

    def compact(self, topic: str | None, *, include_active: bool) -> Future[CompactedLogs]:
        """Begin to compact the logs of a topic, or all that have the policy: see `force_compaction`."""
        return force_compaction(
            self.log_cleaner, topic, lambda: self.loader.is_loading, include_active=include_active
        )

    def close(self) -> None:
        """Write all decisions, close all files and release the data directory; all deadlines are cancelled."""
        self.workers.sync, self.workers.background = sync_inline, run_inline
        self.loader.abandon()
        self.log_cleaner.stop()
        self.recovery_points.stop()
        try:
            self.end_turn()
            self.expiry.stop()
            self.snapshots.stop()
            self.topics.leave_producers()
        finally:
            self.scheduler.cancel_all()
            self.topics.close()
            self.directory.close()

    # -- for handlers -------------------------------------------------------------------------------------------

    def on_topic_deleted(self, name: str) -> None:
        """Handle a deleted topic: answer its fetches and delete its offsets; with the offsets topic drop all groups."""
        fetch.answer_waiting(self.context, lambda topic, _: topic == name, self.clock.now())
        if name == OFFSETS_TOPIC:
            self.shards.dirty.clear()
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

    def _wake_fetches(self, now: Now) -> None:
        if self.growth.partitions:
            appended, self.growth.partitions = self.growth.partitions, {}
            fetch.wake(self.context, appended, now)
