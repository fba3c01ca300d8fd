"""Transaction coordinator: transactional ids in logs, markers to partitions, timeouts and expiration.

coordinator/transactions/decisions.py decides what a request may do, from the last state of its id. The next state is
appended to the id's partition of `__transaction_state` and is valid from then on; answers are sent when it is durable.
In a cluster it is valid when the in-sync replicas have it: until then other requests for the id get
CONCURRENT_TRANSACTIONS, and DescribeTransactions has the previous state, as in Kafka.
The end of a transaction has two more steps: its markers are written after the decision is durable, and it becomes
complete after the markers are durable. A broker that starts continues both from its logs.

Source: TransactionStateManager, TransactionMarkerChannelManager and TransactionLog of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.groups.appends import Appends
from kafka_offsets.broker.groups.durability import Durability
from kafka_offsets.broker.groups.runtime import TooLargeError, coordinator_error
from kafka_offsets.broker.groups.shards import Shards
from kafka_offsets.broker.groups.transaction_peers import TransactionPeers
from kafka_offsets.broker.partition.partitions import Partition, Topics
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import TransactionalResult
from kafka_offsets.coordinator.transactions import decisions as transactions
from kafka_offsets.coordinator.transactions import records as transaction_records
from kafka_offsets.coordinator.transactions.decisions import Decision, Transaction
from kafka_offsets.errors import ErrorCode, ProtocolError, StorageError
from kafka_offsets.incidents import TIMED_OUT, Incidents
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.protocol.records import encode_batch, read_records
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.replication.leader import ACKS_ALL, LeaderReplica
from kafka_offsets.storage.log.log import Log

_LONGEST_ID = 32767
"""Maximum length of a transactional id in the key of a record, in bytes of UTF-8."""

_RETRY_MS = 1000
"""The delay after which a marker that a log refused is written again."""

_ANY_VERSION = 0
"""The transaction version of a marker whose epoch may be the one that the producer has in the partition."""

_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""A newer transaction of the producer, or a newer coordinator, has ended this one there."""

_REPLICATED = (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""The in-sync replicas have a record, however few they are."""

_OF_ANOTHER = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED)
"""Errors of a request that another producer has sent: they do not depend on the state that is being written."""

_SMALLEST_SEGMENT_BYTES = 1 << 20

logger = new_logger(__name__)

Decide = Callable[[Transaction | None], Decision]


class TransactionCoordinator:
    """All transactional ids of a broker.

    ids           by partition of the topic, then by transactional id: the state in the logs
    _pending      the same for states that the in-sync replicas do not have yet; None deletes the id
    peers         send markers to the leaders of partitions; None for a broker that is alone
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        scheduler: Scheduler,
        appends: Appends,
        durability: Durability,
        shards: Shards,
        incidents: Incidents,
    ) -> None:
        self.config = config
        self.topics = topics
        self.scheduler = scheduler
        self.appends = appends
        self.durability = durability
        self.shards = shards
        self.incidents = incidents
        self.ids: list[dict[str, Transaction]] = []
        self._pending: list[dict[str, Transaction | None]] = []
        self.peers: TransactionPeers | None = None
        self._partitions: list[Partition | None] = []

    # -- the topic and its logs

    def start(self) -> None:
        """Read the topic, if it exists, and continue unfinished transactions. Raises StorageError."""
        self.topic_created()
        config = self.config
        self._every(config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self.abort_timed_out)
        self._every(config.transaction_remove_expired_transaction_cleanup_interval_ms, self.remove_expired)

    def _every(self, interval_ms: int, call: Callable[[Now], None]) -> None:
        def run(now: Now) -> None:
            self.scheduler.after_interval(interval_ms, run)
            call(now)

        self.scheduler.after_interval(interval_ms, run)

    def carry_on(self) -> None:
        """Write the markers of the transactions whose end was decided before the broker stopped."""
        for index in range(len(self.ids)):
            self.carry_on_partition(index)

    def carry_on_partition(self, index: int) -> None:
        """Write the markers of one partition's transactions whose end is decided."""
        for name, transaction in list(self.ids[index].items()):
            if transaction.is_prepared:
                self._write_markers(index, name, transaction, self.scheduler.clock.now())

    @property
    def topic_exists(self) -> bool:
        """Whether the transactions topic exists."""
        return bool(self.ids)

    def create_topic(self) -> None:
        """Create the topic as the configuration says. Raises StorageError."""
        config = self.config
        segment_bytes = config.transaction_state_log_segment_bytes
        small = segment_bytes < _SMALLEST_SEGMENT_BYTES
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "unclean.leader.election.enable": "false",
            "internal.segment.bytes" if small else "segment.bytes": str(segment_bytes),
        }
        # It exists if an earlier attempt failed after creating it.
        if self.topics.get(TRANSACTIONS_TOPIC) is None:
            self.topics.create(TRANSACTIONS_TOPIC, config.transaction_state_log_num_partitions, configs)
        self.topic_created()

    def topic_created(self) -> None:
        """Open the topic, if it exists. Raises StorageError."""
        topic = self.topics.get(TRANSACTIONS_TOPIC)
        if topic is not None:
            self._open(topic.partition_count)

    def topic_deleted(self) -> None:
        """Forget all ids: their topic is deleted."""
        self.ids.clear()
        self._pending.clear()
        self._partitions.clear()

    def _open(self, partition_count: int) -> None:
        """Read the partitions with records; the others are opened on first use."""
        directory = self.topics.directory
        self._partitions = [None] * partition_count
        ids: list[dict[str, Transaction]] = [{} for _ in range(partition_count)]
        # One of several brokers takes over what it leads.
        for index in range(0 if self.topics.is_replicated else partition_count):
            if directory.may_hold_records(TRANSACTIONS_TOPIC, index):
                ids[index] = _load(self._partition(index).log)
        self.ids, self._pending = ids, [{} for _ in range(partition_count)]

    def take_over(self, partition: Partition) -> None:
        """Load the ids of a partition that this broker leads from now on. Raises StorageError."""
        self._partitions[partition.index] = partition
        self.ids[partition.index] = _load(partition.log)

    def resign(self, index: int) -> None:
        """Forget the ids of a partition: another broker leads it."""
        if self.ids:
            self.ids[index], self._pending[index] = {}, {}

    def _partition(self, index: int) -> Partition:
        """Return a partition of the topic, its log opened. Raises StorageError."""
        partition = self._partitions[index]
        if partition is None:
            partition = self._partitions[index] = self.topics.partition(TRANSACTIONS_TOPIC, index)
            assert partition is not None
        return partition

    # -- decisions

    def partition_of(self, transactional_id: str) -> int | ErrorCode:
        """Return the partition of an id, or the error code for the client."""
        if 3 * len(transactional_id) > _LONGEST_ID and len(transactional_id.encode()) > _LONGEST_ID:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            if not self.ids:
                self.create_topic()
            index = partition_for(transactional_id, len(self.ids))
            partition = self._partition(index)
            log = partition.log
        except StorageError as error:
            logger.error("the topic of transactions cannot be used: %s", error)
            return coordinator_error(error)
        if self.topics.is_replicated and not isinstance(partition.replica, LeaderReplica):
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NOT_COORDINATOR if log.failure is not None else index

    def when_durable(self, transactional_id: str, callback: Callable[[ErrorCode], None]) -> None:
        """Call back when the state of an id is durable: other logs must not contain what depends on it earlier."""
        index = self.partition_of(transactional_id)
        if isinstance(index, ErrorCode):
            callback(index)
        else:
            self.durability.when_durable([self._partition(index).log], callback)

    def find(self, transactional_id: str) -> Transaction | ErrorCode | None:
        """Return the state of an id, None for an unknown one."""
        index = self.partition_of(transactional_id)
        return index if isinstance(index, ErrorCode) else self.ids[index].get(transactional_id)

    def decide(
        self, transactional_id: str, decide: Decide, now: Now, *, joins: bool = False
    ) -> tuple[ErrorCode, Transaction | None, tuple[Log, ...]]:
        """Decide about an id and store the result.

        joins  the request only adds to the transaction, and may do that next to others of its producer: Kafka's brokers
               repeat such requests of theirs until they succeed
        Returns the error, the next state if it changes, and the logs that the response has to wait for.
        """
        index = self.partition_of(transactional_id)
        if isinstance(index, ErrorCode):
            return index, None, ()
        log, pending = self._partition(index).log, self._pending[index]
        transaction, is_pending = self.ids[index].get(transactional_id), transactional_id in pending
        error, following = decide(pending[transactional_id] if is_pending and joins else transaction)
        if is_pending and not joins:
            return error if error in _OF_ANOTHER else ErrorCode.CONCURRENT_TRANSACTIONS, None, ()
        if following is None:
            # The state that a response depends on may not be durable yet.
            return error, None, () if error and self.topics.is_replicated else (log,)
        failed = self._store(index, transactional_id, following, now)
        if failed:
            return failed, None, ()
        if following.is_prepared:
            self._write_markers(index, transactional_id, following, now)
        return error, following, (log,)

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        now: Now,
        *,
        adds: bool,
    ) -> ErrorCode:
        """Check that a partition is in the open transaction of a producer; with `adds` add it (KIP-890)."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not adds:
            transaction = self.find(transactional_id)
            if isinstance(transaction, ErrorCode):
                return transaction
            return transactions.verify_partitions(transaction, producer_id, epoch, [partition])[partition]

        def add(transaction: Transaction | None) -> Decision:
            return transactions.add_partitions(transaction, producer_id, epoch, [partition], 2, now)

        return self.decide(transactional_id, add, now, joins=True)[0]

    def _store(self, index: int, transactional_id: str, following: Transaction | None, now: Now) -> ErrorCode:
        """Append the next state of an id, None to delete it; return the error if the log refuses."""
        partition = self._partition(index)
        if isinstance(partition.replica, LeaderReplica) and partition.replica.check_min_isr(ACKS_ALL):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            key = transaction_records.encode_key(transactional_id)
            value = None if following is None else transaction_records.encode_value(following)
            batch = encode_batch([(key, value, (), now.wall_ms)])
            if len(batch) > self.config.message_max_bytes:
                raise TooLargeError(f"the state of {transactional_id} takes {len(batch)} bytes")
            partition.log.append(batch, leader_epoch=partition.leader_epoch)
        except StorageError as error:
            logger.error("transactional id %s: %s", transactional_id, error)
            return coordinator_error(error)
        self.appends.record(partition)
        if self.topics.is_replicated:
            self._pending[index][transactional_id] = following
            self._await_replicas(index, transactional_id, following)
        else:
            self._take_effect(index, transactional_id, following)
        return ErrorCode.NONE

    def _take_effect(self, index: int, transactional_id: str, following: Transaction | None) -> None:
        if following is None:
            del self.ids[index][transactional_id]
        else:
            self.ids[index][transactional_id] = following

    def _await_replicas(self, index: int, name: str, following: Transaction | None) -> None:
        """Let the next state of an id take effect when the in-sync replicas have it, however long that takes."""
        pending = self._pending[index]

        def ended(error: ErrorCode) -> None:
            """Take the state over, unless a later one contains it or another broker coordinates the id."""
            if not self.ids or self._pending[index] is not pending:
                return
            if name not in pending or pending[name] is not following:
                return
            if error is ErrorCode.REQUEST_TIMED_OUT:
                self._await_replicas(index, name, following)
                return
            del pending[name]
            if error in _REPLICATED:
                self._take_effect(index, name, following)

        self.durability.when_durable([self._partition(index).log], ended)

    # -- the end of a transaction

    def _write_markers(self, index: int, name: str, prepared: Transaction, now: Now) -> None:
        """Write the markers of a transaction after its end is durable; after that, its complete state."""
        complete = partial(self._complete, index)
        _Ending(self, name, prepared, self._partition(index), complete).begin()

    def _complete(self, index: int, name: str, prepared: Transaction) -> bool:
        """Record that all markers of a transaction are durable; False when the log refuses that."""
        if not self.ids or self._latest(index, name) != prepared:
            return True  # the topic was deleted
        now = self.scheduler.clock.now()
        return not self._store(index, name, transactions.complete(prepared, now), now)

    def is_ending(self, partition: Partition, name: str, prepared: Transaction) -> bool:
        """Whether this broker still coordinates a transaction whose end is decided."""
        return not self.topics.is_replicated or (
            isinstance(partition.replica, LeaderReplica)
            and bool(self.ids)
            and self._latest(partition.index, name) == prepared
        )

    def _latest(self, index: int, name: str) -> Transaction | None:
        """Return the last appended state of an id: the markers may be written before that state takes effect."""
        return self._pending[index].get(name, self.ids[index].get(name))

    # -- time

    def abort_timed_out(self, now: Now) -> None:
        """Abort transactions that have been open for longer than their timeout, and fence their producers."""
        for index, ids in enumerate(self.ids):
            for name in transactions.timed_out(ids, now):
                if name in self._pending[index]:
                    continue
                old = ids[name]
                fenced = transactions.fence(old, self.topics.new_producer_id, now)
                if not self._store(index, name, fenced, now):
                    self.incidents.add(
                        TIMED_OUT,
                        now.wall_ms,
                        transactional_id=name,
                        producer_id=old.producer_id,
                        timeout_ms=old.timeout_ms,
                    )
                    logger.info("transactional id %s: its transaction has timed out and is aborted", name)
                    self._write_markers(index, name, fenced, now)

    def remove_expired(self, now: Now) -> None:
        """Delete transactional ids that have not been used for transactional.id.expiration.ms."""
        for index, ids in enumerate(self.ids):
            for name in transactions.expired(ids, self.config.transactional_id_expiration_ms, now):
                if name not in self._pending[index] and self._store(index, name, None, now):
                    break


class _Ending:
    """One transaction whose end is decided, until its markers are durable.

    A marker that a log refuses is retried later: the decision is final.
    """

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        name: str,
        prepared: Transaction,
        partition: Partition,
        complete: Callable[[str, Transaction], bool],
    ) -> None:
        self._coordinator = coordinator
        self._name = name
        self._prepared = prepared
        self._partition = partition
        self._complete = complete
        self._left: dict[TopicPartition, None] = dict.fromkeys(prepared.partitions)
        self._awaited = 0

    def begin(self) -> None:
        """Write the markers as soon as the decision is durable."""
        self._coordinator.durability.when_durable([self._partition.log], self._decided)

    def _decided(self, error: ErrorCode) -> None:
        if error is ErrorCode.REQUEST_TIMED_OUT:
            self.begin()
        elif error in _REPLICATED:  # else the log accepts no writes, or another broker is the coordinator now
            self._write(self._coordinator.scheduler.clock.now())

    def _write(self, now: Now) -> None:
        if not self._coordinator.is_ending(self._partition, self._name, self._prepared):
            return  # another broker coordinates the transaction and writes its markers
        self._awaited = 1
        elsewhere = self._write_elsewhere()
        for topic_partition in list(self._left):
            topic, index = topic_partition
            if topic_partition in elsewhere:
                continue
            try:
                if topic == OFFSETS_TOPIC:
                    self._write_to_shard(topic_partition)
                else:
                    self._write_to_partition(topic_partition, now)
            except StorageError as error:
                self._coordinator.topics.report(topic, index, error)
        self._resolve()

    def _write_elsewhere(self) -> set[TopicPartition]:
        """Send markers to the other brokers that lead partitions; return these."""
        peers = self._coordinator.peers
        if peers is None:
            return set()
        by_leader = peers.elsewhere(self._left)
        self._awaited += len(by_leader)
        for leader, topic_partitions in by_leader.items():
            peers.write_markers(
                leader,
                self._prepared,
                self._partition.leader_epoch,
                topic_partitions,
                self._written_elsewhere,
            )
        return {
            topic_partition for topic_partitions in by_leader.values() for topic_partition in topic_partitions
        }

    def _written_elsewhere(self, outcomes: Mapping[TopicPartition, ErrorCode]) -> None:
        for topic_partition, error in outcomes.items():
            if error in (ErrorCode.NONE, *_FENCED):
                self._left.pop(topic_partition, None)
        self._resolve()

    def _write_to_partition(self, topic_partition: TopicPartition, now: Now) -> None:
        partition = self._coordinator.topics.partition(*topic_partition)
        if partition is None:  # the topic was deleted; no marker is needed
            del self._left[topic_partition]
            return
        if self._coordinator.topics.is_replicated and not isinstance(partition.replica, LeaderReplica):
            return  # this broker leads it as soon as its log is open
        prepared, coordinator_epoch = self._prepared, self._partition.leader_epoch
        producer = prepared.producer_id, prepared.producer_epoch
        producers = partition.producers
        # What an administrator has ended in a later epoch is not ended again in this one.
        is_open = producers.open_from(prepared.producer_id) is not None
        if not is_open and producers.check_marker(*producer, coordinator_epoch, _ANY_VERSION):
            del self._left[topic_partition]
            return
        partition.append_marker(*producer, coordinator_epoch, now, is_commit=prepared.commits)
        self._coordinator.appends.record(partition)
        self._awaited += 1
        self._await_marker(topic_partition, partition.log)

    def _await_marker(self, topic_partition: TopicPartition, log: Log) -> None:
        """Wait from the append on: the log may be led elsewhere in the meantime, and truncated, and led here again."""

        def ended(error: ErrorCode) -> None:
            """Record that the marker is durable, or write it again later if the log has another leader."""
            if error is ErrorCode.REQUEST_TIMED_OUT:
                self._await_marker(topic_partition, log)
                return
            if error in _REPLICATED:
                self._left.pop(topic_partition, None)
            self._resolve()

        self._coordinator.durability.when_durable([log], ended)

    def _write_to_shard(self, topic_partition: TopicPartition) -> None:
        hosted = self._coordinator.shards.hosted_partition(topic_partition[1])
        if hosted is None:
            del self._left[topic_partition]
            return
        if hosted.failed:
            raise StorageError("the log takes no more writes", hosted.log.directory)
        if hosted.is_loading:
            return  # another broker may lead the partition before it is loaded here
        self._awaited += 1

        def done(error: ErrorCode) -> None:
            if not error:
                self._left.pop(topic_partition, None)
            self._resolve()

        prepared = self._prepared
        marker = TransactionalResult(
            prepared.producer_id,
            prepared.producer_epoch,
            is_commit=prepared.commits,
            coordinator_epoch=self._partition.leader_epoch,
            done=done,
        )
        self._coordinator.shards.decide_transactional(hosted, marker)

    def _resolve(self) -> None:
        """Record that one partition has finished, successfully or not."""
        self._awaited -= 1
        if self._awaited:
            return
        if self._left:
            self._coordinator.scheduler.client_timeout(_RETRY_MS, self._write)
            return
        self._end()

    def _end(self) -> None:
        """Record that all markers are durable; try again later if the log of transactions refuses that."""
        if not self._complete(self._name, self._prepared):
            self._coordinator.scheduler.client_timeout(_RETRY_MS, lambda now: self._end())


def _load(log: Log) -> dict[str, Transaction]:
    """Replay a partition of the topic. Raises StorageError, with file and position, for what does not parse."""
    ids: dict[str, Transaction] = {}
    for batch in log.batches():
        if batch.header.is_control:
            continue
        try:
            for record in read_records(batch.data, 0, batch.header):
                _replay(ids, record.key, record.value)
        except ProtocolError as error:
            path = f"{log.directory}/{batch.segment}"
            raise StorageError(f"record of a transaction: {error}", path, batch.position) from error
    return ids


def _replay(ids: dict[str, Transaction], key: bytes | None, value: bytes | None) -> None:
    if key is None:
        raise ProtocolError("it has no key")
    name = transaction_records.parse_key(key)
    transaction = None if value is None else transaction_records.parse_value(value)
    for unknown in (name, transaction):
        if isinstance(unknown, transaction_records.UnknownRecord):
            logger.warning("the topic of transactions holds %s, which is ignored", unknown.what)
            return
    assert isinstance(name, str)
    if transaction is None:
        ids.pop(name, None)
    else:
        assert isinstance(transaction, Transaction)
        ids[name] = transaction


def transactional_ids(coordinator: TransactionCoordinator) -> Iterable[tuple[str, Transaction]]:
    """Yield every transactional id and its state; they may change in the meantime."""
    for ids in list(coordinator.ids):
        yield from list(ids.items())
