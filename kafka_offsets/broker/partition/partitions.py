"""Topics and their partitions: their configurations and their logs.

The data directory has the catalogue of topics. A partition's log is opened on first use, so that a broker with
thousands of partitions starts at once. This module does not know requests.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.topic import TopicConfig, check_topic_configs
from kafka_offsets.broker.partition.producer_recovery import (
    ProducerReading,
    RecoveredProducers,
    is_near,
    read_producers,
    saved_producers,
)
from kafka_offsets.broker.partition.producers import Producers
from kafka_offsets.broker.partition.topic_decisions import Replicas, TopicDecisions
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID
from kafka_offsets.errors import OpeningAbandonedError, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol.records import encode_marker, read_batch_header
from kafka_offsets.replication.follower import FollowerReplica
from kafka_offsets.replication.leader import LeaderReplica
from kafka_offsets.storage.directory.catalogue import CatalogueTopic as TopicEntry
from kafka_offsets.storage.directory.catalogue import NewTopic
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.log.producer_state import (
    append_aborted,
    leave_producer_state,
    producer_state_writer,
)

logger = new_logger(__name__)

INTERNAL_TOPICS = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"))
"""Topics that clients may read and not write. Source: org.apache.kafka.common.internals.Topic."""

_WORTH_BYTES = 256 << 10
"""A log of at most this size is read for its producers when it is opened; that takes some milliseconds."""

_CATCH_UP_BYTES = 8 << 20
"""The bytes of a log that are read in a tenth of a second, in a second if its batches are small."""

_MANY_PRODUCERS = 2000
"""Encoding this many producers blocks the broker for some milliseconds."""


class LogLoadingError(StorageError):
    """The log of a partition is being opened, or read for its producers."""


class Opened(NamedTuple):
    """An opened log with its producers; without them if they are read on first use."""

    log: Log
    known: RecoveredProducers | None


class Partition:
    """One partition whose log is open.

    topic           name of its topic
    known           its producers, if opening has found them
    read_later      schedules calls of `read_on` until that returns True; returns whether the log can wait for that
    leader_epoch    written into batches; requests contain it to identify the leader that they know
    parked          fetches that wait for the log to grow, each with the number of bytes that still count for it
    joining         requests that wait until the partition is durably added to their transaction
    notified_bytes  how many bytes had been appended when its parked fetches were last notified
    replica         leads or follows as one replica of several; None: this broker has the only one
    """

    __slots__ = (
        "_is_written_elsewhere",
        "_known",
        "_read_later",
        "_reading",
        "_saved_bytes",
        "_unreadable",
        "index",
        "joining",
        "leader_epoch",
        "log",
        "notified_bytes",
        "parked",
        "replica",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: Log,
        known: RecoveredProducers | None = None,
        read_later: Callable[["Partition"], bool] = lambda partition: False,
        leader_epoch: int = 0,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        # A Kafka leader does this before its first record: an empty log has an epoch.
        log.start_epoch(max(leader_epoch, log.leader_epoch), at_once=False)
        self.leader_epoch = log.leader_epoch
        self.parked: dict[Any, int] = {}
        self.notified_bytes = 0
        self.replica: LeaderReplica | FollowerReplica | None = None
        self.joining = 0
        # An empty log need not be read.
        if known is None and log.log_start_offset == log.log_end_offset == 0:
            known = RecoveredProducers(Producers(), 0)
        self._known = known
        self._reading: ProducerReading | None = None
        self._saved_bytes = 0
        self._unreadable: StorageError | None = None
        self._read_later = read_later
        self._is_written_elsewhere = topic == OFFSETS_TOPIC

    @property
    def producers(self) -> Producers:
        """The producers that wrote here; those of the offsets topic are read from its log on first use.

        LogLoadingError while a long log is read; StorageError when a batch is damaged.
        """
        state = self._known
        is_behind = self._is_written_elsewhere and (
            state is None or state.end_offset < self.log.log_end_offset
        )
        if state is not None and not is_behind:
            if self._is_written_elsewhere:  # from now on this broker may append itself
                self._is_written_elsewhere = self.topic == OFFSETS_TOPIC
            return state.producers
        if self._unreadable is not None:
            raise self._unreadable
        if self._reading is None:
            self._known = None  # a partial result is useless
            reading = ProducerReading(self.log, state)
            if reading.is_short or not self._read_later(self):
                self._known = reading.finish()
                return self._known.producers
            self._reading = reading
        raise LogLoadingError("the log is being read for its producers", f"{self.topic}-{self.index}")

    def read_on(self) -> bool:
        """Read a part of a long log for its producers; return whether this was the last part."""
        if self._reading is not None:
            try:
                self._known = self._reading.step()
            except StorageError as error:  # the next reader of `producers` gets the error
                self._unreadable = error
            if self._known is None and self._unreadable is None:
                return False
            self._reading = None
        return True

    def record_cleaned(self) -> None:
        """Record that the log was compacted: the producers read so far may lack the end of a transaction."""
        self._unreadable = None
        if self._reading is not None:
            self._reading.restart()

    def append_replicated(self, batches: bytes) -> None:
        """Append batches as the leader of this partition wrote them; their producers are read on their next use.

        Raises as `Log.append_replicated` does.
        """
        known_end = self.log.log_end_offset
        self.log.append_replicated(batches)
        if not self._is_written_elsewhere:
            self._is_written_elsewhere = True
            if self._known is not None:
                self._known = self._known._replace(end_offset=known_end)

    def truncate(self, offset: int) -> None:
        """Remove every record from `offset` on, with what its producers and transactions are known by.

        Raises as `Log.truncate` does.
        """
        self._truncated_by(self.log.truncate, offset)

    def restart_at(self, offset: int) -> None:
        """Remove all records; the log begins at `offset` then. Raises as `Log.restart_at` does."""
        self._truncated_by(self.log.restart_at, offset)

    def _truncated_by(self, truncate: Callable[[int], None], offset: int) -> None:
        """Truncate the log; the producers are read again, unless they are known only up to an earlier offset."""
        truncations = self.log.truncations
        try:
            truncate(offset)
        finally:
            if self.log.truncations != truncations:
                state, end = self._known, self.log.log_end_offset
                is_earlier = self._is_written_elsewhere and state is not None and state.end_offset <= end
                if not is_earlier or end == self.log.log_start_offset:
                    self._known = None
                self._unreadable = None
                if self._reading is not None:
                    self._reading.restart()

    @property
    def knows_producers(self) -> bool:
        """Whether `producers` needs to read little or nothing of the log."""
        state = self._known
        return state is not None and (not self._is_written_elsewhere or is_near(self.log, state.end_offset))

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction has ended. Raises StorageError, as `producers` does."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.log.high_watermark
        return max(unstable, self.log.log_start_offset)

    def append_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, now: Now, *, is_commit: bool
    ) -> None:
        """Append the marker that ends a producer's transaction here, if it has one. Raises StorageError."""
        producers = self.producers
        batch = encode_marker(producer_id, epoch, coordinator_epoch, now.wall_ms, is_commit=is_commit)
        base_offset = self.log.append(batch, leader_epoch=self.leader_epoch)
        header = read_batch_header(batch)
        if producer_id < 0:
            return  # of no producer, as for the reader of a log
        aborted = producers.end_transaction(
            header, base_offset, coordinator_epoch, now.wall_ms, is_commit=is_commit
        )
        if aborted is not None:
            try:
                append_aborted(self.log, aborted)
            except StorageError as error:  # only Kafka needs it, and the stop writes it again
                logger.error("%s: an aborted transaction is not in the index: %s", self.log.directory, error)

    def leave_producers(self, *, keep_index: bool) -> None:
        """Save the producers next to the log. Raises StorageError."""
        log, state = self.log, self._known
        if state is None or log.failure is not None:
            return
        if self._is_written_elsewhere and log.appended_bytes > _CATCH_UP_BYTES:
            return  # the file of the previous stop is still valid
        if len(state.producers) or state.producers.aborted or log.size >= _WORTH_BYTES:
            if self._is_written_elsewhere and state.end_offset < log.log_end_offset:
                self._known = ProducerReading(log, state).finish()
            producers = self.producers
            leave_producer_state(
                log, producers.entries(), producers.aborted, producers.dumps(), keep_index=keep_index
            )

    def producers_writer(self) -> Callable[[], None] | None:
        """Return a function that saves the current producers, callable in any thread; None if that is not worth it yet.

        It is not worth it if they are not known, if a start without the file has little to read, or if it takes long.
        Raises StorageError, as the returned function does.
        """
        log, state = self.log, self._known
        if log.appended_bytes - self._saved_bytes < _CATCH_UP_BYTES or log.failure is not None:
            return None
        if state is None or (self._is_written_elsewhere and state.end_offset < log.log_end_offset):
            return None
        producers = state.producers
        if len(producers) + len(producers.aborted) > _MANY_PRODUCERS:
            return None
        self._saved_bytes = log.appended_bytes
        write = producer_state_writer(log, producers.dumps())

        def write_if_open() -> None:
            with log.file_lock:
                if not log.closed:
                    write()

        return write_if_open

    def delete_records_before(self, offset: int) -> None:
        """Set the log start to `offset`; all its producers stay known.

        A restart that has to read the log only knows producers with a remaining batch. Raises as the log does.
        """
        producers = self.producers  # read before batches are deleted; if that fails nothing has changed
        self.log.delete_records_before(offset)
        producers.forget_aborted_before(offset)

    def expire_records_before(self, offset: int) -> None:
        """Set the log start to `offset`, as `delete_records_before`, but without reading the producers."""
        self.log.delete_records_before(offset)
        if self._known is not None:
            self._known.producers.forget_aborted_before(offset)

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"


class Topic:
    """One topic.

    configs     overrides of this topic, by Kafka's keys; other keys have the broker's value
    config      all effective values
    log_config  the part of `config` that logs use
    partitions  by index; None until its log is opened
    epochs      cached leader epochs of partitions that are not open
    """

    __slots__ = ("config", "configs", "epochs", "is_internal", "log_config", "name", "partitions", "topic_id")

    def __init__(self, entry: TopicEntry, config: TopicConfig) -> None:
        self.name = entry.name
        self.topic_id = entry.topic_id
        self.is_internal = entry.name in INTERNAL_TOPICS
        self.partitions: list[Partition | None] = [None] * entry.partition_count
        self.epochs: dict[int, int] = {}
        self.configure(config, entry.configs)

    @property
    def partition_count(self) -> int:
        """The number of partitions."""
        return len(self.partitions)

    @property
    def open_partitions(self) -> list[Partition]:
        """The partitions whose log is open."""
        return [partition for partition in self.partitions if partition is not None]

    def configure(self, config: TopicConfig, configs: Mapping[str, str]) -> None:
        """Set the configuration; open logs use it from their next roll on."""
        self.config = config
        self.configs = dict(configs)
        self.log_config = LogConfig(config.effective_segment_bytes, config.index_interval_bytes)
        for partition in self.open_partitions:
            partition.log.config = self.log_config

    def __repr__(self) -> str:
        return f"Topic({self.name}, {self.partition_count} partitions)"


class Opener(Protocol):
    """Opens long logs in the background: see log_opener.py."""

    def use(self, topic: Topic, index: int) -> None:
        """Open a log in the background if that takes long; raise LogLoadingError in the meantime."""

    def read_producers(self, partition: Partition) -> None:
        """Call `partition.read_on` step by step until the log is read."""

    def is_under_way(self, topic: Topic, index: int) -> bool:
        """Return whether the log of a partition is being opened."""

    def forget(self, names: Container[str]) -> None:
        """Do not open logs of topics that are about to be deleted."""

    def stop(self) -> None:
        """Stop opening logs."""


class Topics:
    """All topics of a broker, by name and by id; every look-up costs O(1).

    directory  the data directory with their catalogue
    waiting    fetches that wait for records, by their connection
    opener     opens long logs in the background; None: the first request opens each log
    is_replicated  whether this broker is one of several: their metadata say what it leads, and in which epoch
    cluster    decides about topics, and calls `install…` and `remove` of each broker; None: this broker decides alone
    version    grows whenever a topic is created, is deleted or gets more partitions
    created_version  the version at which the last topic was created
    opened     grows whenever the log of a partition is opened: only then the leader epoch of a damaged one is known
    """

    def __init__(self, directory: DataDirectory, config: Config, *, is_replicated: bool = False) -> None:
        self.directory = directory
        self.is_replicated = is_replicated
        self.waiting: dict[object, dict[Any, None]] = {}
        self._config = config
        self._inherited = TopicConfig.of(config, {})
        self._by_name = {name: self._topic(entry) for name, entry in directory.topics.items()}
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}
        self._producer_ids = iter(range(0))
        self.opener: Opener | None = None
        self.cluster: TopicDecisions | None = None
        self.version = self.created_version = self.opened = 0
        self._reported: dict[tuple[str, int], tuple[str, int | None]] = {}

    def _topic(self, entry: TopicEntry) -> Topic:
        """Return a topic; topics without overrides share one configuration, which takes 30 µs to create."""
        return Topic(entry, TopicConfig.of(self._config, entry.configs) if entry.configs else self._inherited)

    def names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return sorted(self._by_name)

    def get(self, name: str) -> Topic | None:
        """Return the topic called `name`."""
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with this id of 16 bytes."""
        return self._by_id.get(topic_id)

    def id_and_partition_count(self, topic: str) -> tuple[bytes, int]:
        """Return a topic's id and number of partitions; 16 zero bytes and 0 when there is no such topic."""
        entry = self._by_name.get(topic)
        return (NO_TOPIC_ID, 0) if entry is None else (entry.topic_id, len(entry.partitions))

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition(self, name: str, index: int) -> Partition | None:
        """Return a partition and open its log on first use; None if it does not exist.

        Raises StorageError when the log cannot be opened.
        """
        topic = self._by_name.get(name)
        return None if topic is None else self.partition_of(topic, index)

    def offsets_log(self, index: int) -> Log:
        """Return the log of a partition of the offsets topic, which exists. Raises StorageError."""
        partition = self.partition(OFFSETS_TOPIC, index)
        assert partition is not None
        return partition.log

    def partition_of(self, topic: Topic, index: int) -> Partition | None:
        """Return a partition of `topic`, as `partition` does."""
        partitions = topic.partitions
        if not 0 <= index < len(partitions):
            return None
        if partitions[index] is None and self.opener is not None:
            self.opener.use(topic, index)
        return partitions[index] or self.take_in(topic, index, self.opening(topic, index)())

    def opening(
        self, topic: Topic, index: int, is_abandoned: Callable[[], bool] = lambda: False
    ) -> Callable[[], Opened]:
        """Return a function that opens the log of an unused partition, in any thread; it raises StorageError.

        It raises OpeningAbandonedError soon after `is_abandoned` returns True; it calls that now and then.
        """
        open_log = self.directory.opening(topic.name, index, topic.log_config, is_abandoned)

        def opened() -> Opened:
            """Open the log, sync what a dead process has not synced, and read its producers. Raises StorageError."""
            log = open_log()
            is_on_disk = self._config.fsync == "never" or log.recovery_point >= log.log_end_offset
            if not is_on_disk and not is_abandoned():
                with suppress(StorageError):  # final, and `take_in` says so
                    log.sync()  # a dead process may not have synced it, and clients will read it
            try:
                state = saved_producers(log)
                if topic.name != OFFSETS_TOPIC:  # they are rarely needed; then the log is read
                    state = self._producers_of(topic, index, log, state, is_abandoned)
            except (StorageError, OpeningAbandonedError):
                with suppress(StorageError):  # its files are gone, or stay as a crash would leave them
                    log.close(sync=False)
                raise
            return Opened(log, state)

        return opened

    def _producers_of(
        self,
        topic: Topic,
        index: int,
        log: Log,
        saved: RecoveredProducers | None,
        is_abandoned: Callable[[], bool],
    ) -> RecoveredProducers | None:
        """Read the producers of a log: the saved ones and the batches after them; None if a batch is damaged."""
        try:
            return read_producers(log, is_abandoned, saved)
        except StorageError as error:  # reading `producers` raises the error again
            logger.error("%s-%d: its producers cannot be read: %s", topic.name, index, error)
            return None

    def take_in(self, topic: Topic, index: int, opened: Opened) -> Partition:
        """Set the opened log of a partition, and log what opening has repaired. StorageError if the log has failed."""
        log = opened.log
        self.directory.take_in(topic.name, index, log)
        if log.failure is not None:
            raise log.failure
        topic.epochs.pop(index, None)
        self.opened += 1
        if log.recovery is not None:
            logger.warning(
                "%s: the last %d bytes were cut, at byte %d: %s",
                log.recovery.path,
                log.recovery.dropped_bytes,
                log.recovery.position,
                log.recovery.reason,
            )
        for damage in log.damages:
            logger.error("damaged: %s", damage)
        epoch = log.leader_epoch
        if self.is_replicated:
            self._restore_high_watermark(topic, index, log)
        else:
            epoch = self.directory.leader_epoch(topic.name, index, log.leader_epoch)
        partition = topic.partitions[index] = Partition(
            topic.name, topic.topic_id, index, log, opened.known, self._read_later, epoch
        )
        self._reported.pop((topic.name, index), None)
        return partition

    def _restore_high_watermark(self, topic: Topic, index: int, log: Log) -> None:
        """Begin with the high watermark that was stored, or with the log end if records after that are lost.

        The log is opened before the metadata arrive: without one, its end would be stored. A lower one is written at
        once: after the next kill the stored one would be above new records that were never replicated.
        Raises StorageError.
        """
        stored = self.directory.high_watermark(topic.name, index) or 0
        log.replicated_to = min(stored, log.log_end_offset)
        if stored > log.log_end_offset:
            self.directory.high_watermarks_writer()()

    def report(self, name: str, index: int, error: StorageError) -> None:
        """Log why a partition cannot be used: once, until its log or the error changes.

        Clients retry many times a second. While the directory is offline, its first error was logged for all.
        """
        if not self.directory.is_news(error):
            return
        topic = self._by_name.get(name)
        partition = None
        if topic is not None and index < topic.partition_count:
            partition = topic.partitions[index]
        state = str(error), None if partition is None else partition.log.log_end_offset
        if self._reported.get((name, index)) != state:
            self._reported[name, index] = state
            logger.error("%s-%d: %s", name, index, error)

    def _read_later(self, partition: Partition) -> bool:
        """Schedule the reading of a long log for its producers, if the broker is running."""
        if self.opener is None:
            return False
        self.opener.read_producers(partition)
        return True

    def all(self) -> list[Topic]:
        """Return all topics."""
        return list(self._by_name.values())

    def open_partitions(self) -> Iterator[Partition]:
        """Yield every partition whose log is open."""
        for topic in self._by_name.values():
            yield from topic.open_partitions

    def create(
        self, name: str, partition_count: int, configs: Mapping[str, str] = MappingProxyType({})
    ) -> Topic:
        """Create one topic, as `create_several` does; another broker may have created it at the same time."""
        topic: Topic | None
        try:
            (topic,) = self.create_several([NewTopic(name, partition_count, configs)])
        except StorageError:
            topic = self._by_name.get(name)
            if topic is None:
                raise
        if topic is None:
            raise StorageError(f"topic {name} exists in the cluster, and this broker could not store it yet")
        return topic

    def create_several(self, wanted: Sequence[NewTopic]) -> Sequence[Topic | None]:
        """Create topics, all or none; return None for each that the cluster has and this broker could not store yet.

        Costs one sync. ConfigError for configs that Kafka refuses; ValueError for a name that exists or that Kafka does
        not allow. Raises StorageError; then none of them is created, but by another broker at the same time.
        """
        if not wanted:
            return []
        for new in wanted:
            check_topic_configs(new.configs)
        if self.cluster is not None:
            self.cluster.create(wanted)
            return [self._by_name.get(new.name) for new in wanted]
        return self.install(wanted)

    def install(self, wanted: Sequence[NewTopic]) -> list[Topic]:
        """Create topics in this broker's directory, as `create_several`."""
        created = [self._topic(entry) for entry in self.directory.create_topics(wanted)]
        self._by_name |= {topic.name: topic for topic in created}
        self._by_id |= {topic.topic_id: topic for topic in created}
        self.version += 1
        self.created_version = self.version
        return created

    def delete(self, name: str) -> Topic:
        """Delete one topic, as `delete_several` does; return what it was."""
        topic = self._by_name[name]
        self.delete_several([name])
        return topic

    def delete_several(self, names: Iterable[str]) -> None:
        """Delete topics and their logs. KeyError if a topic does not exist; costs two syncs.

        After a StorageError the topics may be deleted, with their folders removed later: check with `get`.
        """
        if self.cluster is not None:
            self.cluster.delete(list(names))
        else:
            self.remove(names)

    def remove(self, names: Iterable[str]) -> None:
        """Delete topics in this broker's directory, as `delete_several`."""
        topics = [self._by_name[name] for name in names]
        if self.opener is not None:
            self.opener.forget({topic.name for topic in topics})
        try:
            self.directory.delete_topics(topic.name for topic in topics)
        finally:
            self.version += 1
            for topic in topics:
                if topic.name not in self.directory.topics:
                    del self._by_name[topic.name], self._by_id[topic.topic_id]
                    for key in [key for key in self._reported if key[0] == topic.name]:
                        del self._reported[key]

    def remove_log(self, topic: Topic, index: int) -> None:
        """Delete the log of a partition that this broker does not have a replica of any longer. StorageError."""
        if self.opener is not None:
            self.opener.forget({topic.name})
        topic.partitions[index] = None
        self.directory.delete_log(topic.name, index)

    def add_partitions(self, name: str, total: int) -> Topic:
        """Give one topic more partitions, `total` in all, as `grow_several` does."""
        self.grow_several({name: total})
        return self._by_name[name]

    def grow_several(self, totals: Mapping[str, int], replicas: Replicas = MappingProxyType({})) -> None:
        """Add partitions to topics, up to the total in `totals`, to all of them or none. Costs one sync.

        replicas  the brokers of each new partition of a topic, if they are given
        KeyError; ValueError if a total is lower than the current number; StorageError.
        """
        entries = self.directory.topics
        for name, total in totals.items():
            if total < entries[name].partition_count:
                raise ValueError(f"{name} has {entries[name].partition_count} partitions, not fewer: {total}")
        if self.cluster is not None:
            self.cluster.grow(totals, replicas)
        else:
            self.install_partitions(totals)

    def install_partitions(self, totals: Mapping[str, int]) -> None:
        """Add partitions in this broker's directory, as `grow_several`."""
        entries = self.directory.topics
        self.directory.update_topics(
            entries[name]._replace(partition_count=total) for name, total in totals.items()
        )
        for name, total in totals.items():
            partitions = self._by_name[name].partitions
            partitions += [None] * (total - len(partitions))
        self.version += 1

    def set_configs(self, name: str, configs: Mapping[str, str]) -> Topic:
        """Replace everything that was set for a topic. KeyError, ConfigError, StorageError: nothing has changed."""
        if self.cluster is not None:
            TopicConfig.of(self._config, configs)
            self.cluster.configure(name, configs)
            return self._by_name[name]
        return self.install_configs(name, configs)

    def install_configs(self, name: str, configs: Mapping[str, str]) -> Topic:
        """Replace the configurations of a topic in this broker's directory, as `set_configs`."""
        topic = self._by_name[name]
        config = TopicConfig.of(self._config, configs)
        self.directory.update_topic(self.directory.topics[name]._replace(configs=dict(configs)))
        topic.configure(config, configs)
        return topic

    def new_producer_id(self) -> int:
        """Return a producer id that was never returned before, over all restarts. Raises StorageError."""
        producer_id = next(self._producer_ids, None)
        if producer_id is None:
            source = self.directory if self.cluster is None else self.cluster
            self._producer_ids = iter(source.allocate_producer_ids())
            producer_id = next(self._producer_ids)
        return producer_id

    def leave_producers(self) -> None:
        """Save the producers next to their logs, for Kafka; disk errors are logged."""
        for topic in self._by_name.values():
            keep_index = "compact" in topic.config.cleanup_policy
            for partition in topic.open_partitions:
                try:
                    partition.leave_producers(keep_index=keep_index)
                except StorageError as error:
                    logger.error("%s: the state of its producers is not saved: %s", partition, error)

    def close(self) -> None:
        """Drop all waiting requests; the data directory closes the logs."""
        self.waiting.clear()
