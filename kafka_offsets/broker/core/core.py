"""Broker core: the broker without sockets. Bytes in, bytes out, in turns.

`receive` takes bytes of a connection and decides every request in them; `end_turn` appends the decisions, makes them
durable, sends answers and wakes parked requests. The owner of the sockets calls `end_turn` once per turn of its loop,
calls `run_due` at `next_deadline_ms`, and sends the output of `take_output`. The only time source is `clock`, and
nothing blocks.
"""

import math
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kafka_offsets.broker.access.delegation_tokens import DelegationTokens
from kafka_offsets.broker.access.inter_broker import InterBrokerSecurity
from kafka_offsets.broker.access.listener_stores import ListenerStores
from kafka_offsets.broker.access.listeners import ListenerSecurity, listeners_of
from kafka_offsets.broker.access.throttling import Throttling
from kafka_offsets.broker.api import fetch
from kafka_offsets.broker.config.group import GroupConfigs, group_settings
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.settings import SharedSettings
from kafka_offsets.broker.context.broker_peers import is_broker
from kafka_offsets.broker.context.context import Access, Context, Groups, Node
from kafka_offsets.broker.core.api_table import api_of, served_apis
from kafka_offsets.broker.core.incident_log import log_incident
from kafka_offsets.broker.core.metrics import Metrics
from kafka_offsets.broker.core.requests import RequestDispatcher
from kafka_offsets.broker.gates.gate import authorized
from kafka_offsets.broker.gates.token_expiry import start_expiry
from kafka_offsets.broker.groups.appends import Appends, MemoryLimit
from kafka_offsets.broker.groups.dead_records import DeadRecords
from kafka_offsets.broker.groups.durability import Durability
from kafka_offsets.broker.groups.expiry import Expiry, Services
from kafka_offsets.broker.groups.runtime import CoordinatorRuntime
from kafka_offsets.broker.groups.shard_loader import ShardLoader
from kafka_offsets.broker.groups.shards import Shards
from kafka_offsets.broker.groups.transactions import TransactionCoordinator
from kafka_offsets.broker.offset_manager.interface import OffsetManager
from kafka_offsets.broker.offset_manager.log_manager import LogOffsetManager
from kafka_offsets.broker.partition.log_cleaner import LogCleaner, adopted_configs
from kafka_offsets.broker.partition.log_opener import LogOpener
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.broker.partition.recovery_points import RecoveryPoints
from kafka_offsets.broker.replicas.manager import ReplicaManager
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.broker.turn.workers import Background, Sync, Workers, run_inline, sync_inline
from kafka_offsets.broker.wire.channel import Channel
from kafka_offsets.broker.wire.connection import ClientConnection
from kafka_offsets.broker.wire.fetch_sessions import FetchSessions
from kafka_offsets.broker.wire.idle_connections import IdleConnections
from kafka_offsets.broker.wire.response_budget import ResponseBudget
from kafka_offsets.broker.wire.responses import Responses
from kafka_offsets.clock import Clock, ManualClock, Now, SystemClock
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.storage.directory.catalogue import CLUSTER_METADATA_TOPIC
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import Files, MemoryFiles
from kafka_offsets.zookeeper.requests import ZooKeeper

TURN_MS = 10
"""How long the requests of a turn take, and then its writes, a little more at most; the others wait for the next turn.

Those of connections with few waiting bytes come first then: a client that waits for each response is served before
hundreds of connections that have pipelined large requests. The one that has waited longest follows in each turn, even
if no time is left: many such clients do not keep it waiting for ever.
"""

_ROUNDS = 8
"""How often one turn repeats for requests that its own answers unblock, before other connections are served."""

logger = new_logger(__name__)


class ClusterPart(NamedTuple):
    """The connections of a broker with the others of its cluster.

    cluster_id  of all of them
    channel_to  opens a connection to another broker
    security    of the listener at which brokers reach each other; None: they are in one process
    """

    cluster_id: str
    channel_to: Callable[[int], Channel]
    security: InterBrokerSecurity | None = None


class BrokerCore:
    """One broker: topics, groups, connections.

    config  configuration of the broker
    files   its data files; default: in memory
    clock   the only source of time
    sync    makes logs durable when the `fsync` policy requires it
    background  writes files for which no request waits
    zookeeper   makes the client for offset.storage=zookeeper
    cluster     the cluster that it is a part of; None for a broker that is alone
    listeners   how peers of each listener prove who they are
    loads       replays logs of the offsets topic, several side by side; default: `background`
    Raises StorageError when the data cannot be read or another broker uses it.
    """

    def __init__(
        self,
        config: Config,
        files: Files | None = None,
        clock: Clock | None = None,
        sync: Sync = sync_inline,
        background: Background = run_inline,
        zookeeper: Callable[[Config], ZooKeeper] | None = None,
        cluster: ClusterPart | None = None,
        loads: Background | None = None,
    ) -> None:
        self.config = config
        self._new_zookeeper = zookeeper
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.delegation_tokens = DelegationTokens(config, lambda: self.directory.clients.tokens)
        self.listeners = listeners_of(
            config, lambda: self.directory.clients.credentials, self.delegation_tokens.find, self.clock
        )
        self.workers = Workers(sync, background, loads)
        self.scheduler = Scheduler(self.clock)
        self.connections: dict[ClientConnection, None] = {}
        self.response_budget = ResponseBudget(config.queued_max_response_bytes)
        self.responses = Responses(
            self.response_budget, lambda key: api_of(self.broker.apis, key), self.clock
        )
        self.responses.incidents.on_new = log_incident
        self._turn_began_ms: int | None = None
        self._turn_ms = (
            math.inf if isinstance(self.clock, ManualClock) else TURN_MS
        )  # a manual clock measures no work
        self._is_behind = False
        self.directory = DataDirectory(
            files if files is not None else MemoryFiles(),
            node_id=config.node_id if "node.id" in config.given else None,
            cluster_id=None if cluster is None else cluster.cluster_id,
            has_replicas=cluster is not None,
            adopted_configs=partial(adopted_configs, config),
            keep_valid=config.recovery == "keep-valid",
        )
        self.topics = Topics(self.directory, config, is_replicated=cluster is not None)
        self.appends = Appends(
            MemoryLimit(config, self.directory.files, lambda: len(self.broker.node.broker_ids))
        )
        self.durability = Durability(
            config,
            self.scheduler,
            self.workers,
            self.responses,
            self.appends,
        )
        self._compose_coordination()
        self._enforce_quotas()
        self.broker = self._new_context(None if cluster is None else cluster.security)
        self.replicas = None if cluster is None else self._new_replicas(cluster)
        self.requests = RequestDispatcher(self.broker)
        self._compose_services()
        self._start()

    def _start(self) -> None:
        """Load short logs, and let everything begin that works in the background."""
        if self.directory.is_from_kafka:
            logger.warning(
                "this directory comes from Kafka: ACLs, quotas, SCRAM credentials, delegation tokens, and the"
                " configurations of topics, groups and brokers are in its metadata log, %s-0, which this broker does"
                " not read; set those that are needed again",
                CLUSTER_METADATA_TOPIC,
            )
        try:
            now = self.clock.now()
            self.loader.load_short(now)
            self.transactions.start()
        except BaseException:
            self.directory.close(sync=False)
            raise
        self.opener = LogOpener(self.topics, self.scheduler, self.workers)
        self.topics.opener = self.broker.opener = self.opener
        if self.replicas is not None:
            self.opener.on_opened.append(self.replicas.log_opened)
        self.recovery_points.start(self.clock.now())
        self.loader.on_loaded += (self.log_cleaner.start, self.opener.start)
        self.expiry.start()
        start_expiry(self.broker)
        self.metrics = Metrics(self.runtime, self.scheduler)
        self.metrics.start()
        self.offset_manager.trigger_load_offsets()
        self.offset_manager.startup()
        self.transactions.carry_on()
        self.end_turn()

    def _new_replicas(self, cluster: ClusterPart) -> ReplicaManager:
        """Make what leads and follows partitions, and let answers wait for it."""
        replicas = ReplicaManager(self.broker, cluster.channel_to, self.workers)
        self.broker.replicas = replicas
        self.durability.replicate = replicas.replicate
        return replicas

    def _enforce_quotas(self) -> None:
        """Throttle the clients that exceed the stored quotas."""
        self.throttling = Throttling(
            self.config,
            self.scheduler,
            self.responses,
            lambda context: is_broker(self.broker, context),
            lambda key: api_of(self.broker.apis, key),
        )
        self.settings.on_quotas = self.throttling.set
        self.throttling.set(self.directory.clients.quotas)

    def _compose_coordination(self) -> None:
        """Make what coordinates groups and transactions."""
        config = self.config
        self.group_configs = GroupConfigs(self.directory, config)
        self.authorizer = config.authorizer()
        self.settings = SharedSettings(self.directory, self.group_configs, self.authorizer)
        self.runtime = self._new_runtime()
        self.shards = Shards(config, self.topics, self.scheduler, self.runtime, self.appends)
        self.loader = ShardLoader(
            config, self.topics, self.scheduler, self.workers, self.runtime, self.shards
        )
        self.offset_manager = self._new_offset_manager()
        self.transactions = TransactionCoordinator(
            config,
            self.topics,
            self.scheduler,
            self.appends,
            self.durability,
            self.shards,
            self.responses.incidents,
        )
        cleanup = self.offset_manager.cleanup
        services = Services(config, self.scheduler, self.runtime, self.shards, self.end_turn, cleanup)
        self.expiry = Expiry(services)

    def _new_offset_manager(self) -> OffsetManager:
        if self.config.offset_storage == "log":
            return LogOffsetManager(self.shards, self.loader)
        from kafka_offsets.broker.offset_manager.zookeeper_manager import ZooKeeperOffsetManager

        assert self._new_zookeeper is not None, "a broker with offset.storage=zookeeper has a client for it"
        manager = ZooKeeperOffsetManager(
            self.config,
            self._new_zookeeper(self.config),
            self.scheduler,
            self.responses,
            self.topics,
            self.runtime,
            self.shards,
            self.loader,
        )
        self.runtime.new_host = manager.new_shard
        return manager

    def _compose_services(self) -> None:
        """Make what works in the background."""
        config = self.config
        self._idle_connections = IdleConnections(
            config.connections_max_idle_ms, self.scheduler, self.responses, self.connections
        )
        self.log_cleaner = LogCleaner(
            config, self.topics, self.scheduler, self.workers, self.runtime.give_up_failed
        )
        self.recovery_points = RecoveryPoints(
            config,
            self.topics,
            self.scheduler,
            self.workers,
            self.runtime.give_up_failed,
        )
        self.durability.sync_ended = self.recovery_points.sync_ended
        self.dead_records: DeadRecords | None = None
        if not self.directory.files.outlives_process:
            self.dead_records = DeadRecords(config, self.topics, self.runtime, self.log_cleaner)
        self.log_cleaner.on_deleted.append(self.appends.record_deletion)

    def _new_runtime(self) -> CoordinatorRuntime:
        config = self.config
        return CoordinatorRuntime(
            group_settings(config),
            self.group_configs.settings,
            self.topics,
            self.responses,
            self.topics.offsets_log,
            lambda prefix: f"{prefix}-{uuid.uuid4()}",
            Compression(config.offsets_topic_compression_codec),
            config.message_max_bytes,
            self.clock,
            commits_while_loading=config.offsets_commit_while_loading,
            incidents=self.responses.incidents,
        )

    def _new_context(self, inter_broker: InterBrokerSecurity | None) -> Context:
        config, directory = self.config, self.directory
        return Context(
            node=Node(directory.node_id, directory.cluster_id, broker_ids=(directory.node_id,)),
            config=config,
            clock=self.clock,
            scheduler=self.scheduler,
            apis=authorized(self.authorizer, served_apis(config.profile)),
            responses=self.responses,
            directory=directory,
            topics=self.topics,
            appends=self.appends,
            durability=self.durability,
            settings=self.settings,
            fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots),
            groups=Groups(
                self.runtime, self.shards, self.loader, self.offset_manager, self.expiry, self.group_configs
            ),
            transactions=self.transactions,
            access=Access(
                self.authorizer,
                self.throttling,
                self.delegation_tokens,
                ListenerStores(config, directory.clients, self.listeners),
                inter_broker,
            ),
        )

    # -- for the owner of the sockets ---------------------------------------------------------------------------

    def connect(
        self, peer: str, host: str, owner: Any = None, listener: ListenerSecurity | None = None
    ) -> ClientConnection:
        """Register a new connection.

        owner     kept on the connection for the caller
        listener  that has accepted it; None: it is of this process, and needs no authentication
        """
        connection = ClientConnection(peer, host, self.config.socket_request_max_bytes, owner)
        if listener is not None:
            connection.listener = listener.endpoint.name
            connection.authentication = listener.authentication()
            if connection.authentication is not None:
                connection.reader.max_bytes = self.config.sasl_server_max_receive_size
        now = self.clock.now()
        connection.last_used_ms = now.mono_ms
        self.connections[connection] = None
        self._idle_connections.watch(now)
        return connection

    def disconnect(self, connection: ClientConnection) -> None:
        """Forget a connection; its remaining responses are dropped."""
        connection.release()
        self.responses.forget(connection)
        self.connections.pop(connection, None)
        fetch.cancel(self.broker, connection)
        if self.replicas is not None:
            self.replicas.peers.client_left(connection)
        self.opener.wake()

    def receive(self, connection: ClientConnection, data: bytes) -> None:
        """Receive bytes from a peer and decide the requests that are complete.

        Raises ProtocolError, with API and position, if they are not a valid request: the connection must be closed.
        """
        connection.reader.feed(data)
        now = self.clock.now()
        if self._turn_began_ms is None:
            self._turn_began_ms = now.mono_ms
        if now.mono_ms - self._turn_began_ms < self._turn_ms:
            self.requests.serve(connection, now)
        else:
            self.responses.resumable[connection] = None
            self._is_behind = True

    def end_turn(self) -> bool:
        """Append, make durable, answer; return whether requests remain for another turn."""
        now = self.clock.now()
        for _ in range(
            _ROUNDS
        ):  # most turns of a client that waits for each response have few of these to do
            if self.shards.dirty:
                self.shards.append(now)
            if self.replicas is not None:
                self.replicas.end_turn(now)
            if self.dead_records is not None and self.appends.unsynced:
                self.dead_records.drop(self.appends.unsynced, now)
            self.durability.start_sync()
            if self.appends.partitions:
                fetch.wake(self.broker, now)
            if self.responses.ready:
                self.responses.release()
            if not self.responses.resumable and not self.durability.is_awaited:
                break
            if not self._resume(now):
                break
        self._turn_began_ms = None
        return self.has_work

    def _resume(self, began: Now) -> bool:
        """Decide requests of connections that wait for their turn; return whether there is time for more of them."""
        arrived, self.responses.resumable = (
            self.responses.resumable,
            {},
        )  # first those that have waited longest
        resumable = {
            connection: None
            for connection in arrived
            if connection.reader.buffered_bytes and not connection.closing
        }
        order = list(resumable)
        if self._is_behind:
            order.sort(key=lambda connection: connection.reader.buffered_bytes)
        self._is_behind = False
        for connection in order:
            del resumable[connection]
            self._serve_waiting(connection, began)
            if self.clock.now().mono_ms - began.mono_ms >= self._turn_ms:
                break
        else:
            return True
        if resumable:
            longest = next(iter(resumable))
            del resumable[longest]
            self._serve_waiting(longest, began)
        self._is_behind = bool(resumable)
        self.responses.resumable = resumable | self.responses.resumable
        return False

    def _serve_waiting(self, connection: ClientConnection, now: Now) -> None:
        """Decide requests that a connection has sent in an earlier turn, or behind another one."""
        waiting = connection.reader.buffered_bytes
        self.requests.serve_resumed(connection, now)
        if connection.reader.buffered_bytes < waiting:
            self.responses.writable[connection] = None  # it may be read again, also if nothing is sent

    @property
    def has_work(self) -> bool:
        """Whether another turn is needed."""
        return bool(self.responses.resumable or self.shards.dirty or self.appends.partitions)

    @property
    def is_quiet(self) -> bool:
        """Whether `end_turn` has nothing to do: there was no request, record or answer since the last turn."""
        return not (
            self.has_work
            or self.responses.ready
            or self.responses.writable
            or self.appends.unsynced
            or self.durability.is_awaited
        )

    def drain(self, connection: ClientConnection) -> bytes:
        """Return and clear a connection's output; requests that its responses blocked are decided in the next turn."""
        return b"".join(self.drain_pieces(connection))

    def drain_pieces(self, connection: ClientConnection) -> list[bytes | bytearray]:
        """As `drain`, in pieces: records separately, as they were read, everything else joined.

        A caller that cannot send them yet must report that to `responses`.
        """
        pieces = connection.take_output()
        if connection.unsent_bytes:
            self.response_budget.set_unsent(connection, 0)
        if connection.reader.buffered_bytes:  # seldom: else there is nothing to unblock
            self.responses.unblock(connection)
        return pieces

    @property
    def next_deadline_ms(self) -> int | None:
        """The next deadline, in monotonic time: `run_due` must be called then."""
        return self.scheduler.next_ms

    def run_due(self) -> None:
        """Run everything that is due; call `end_turn` afterwards."""
        self.scheduler.run_due(self.clock.now())

    def close(self) -> None:
        """Write all decisions, close all files and release the data directory; all deadlines are cancelled."""
        self.workers.sync, self.workers.background = sync_inline, run_inline
        self.loader.abandon()
        self.log_cleaner.stop()
        self.recovery_points.stop()
        try:
            self.end_turn()
            self.expiry.stop()
            self.topics.leave_producers()
        finally:
            self.offset_manager.shutdown()
            self.scheduler.cancel_all()
            if self.replicas is not None:
                self.replicas.stop()
            self.topics.close()
            self.directory.close()
