"""The data directory of a broker: its lock, its ids, its topics, its checkpoints, its logs.

    .lock                              held by the broker that uses the directory
    meta.properties                    cluster.id, node.id, version=1, as Kafka writes them; cluster.replicas=true in
                                       the directory of one broker of several
    topics                             the catalogue: names, ids, partition counts, configurations; see below
    *-offset-checkpoint                Kafka's checkpoints, one offset for each partition: offset_checkpoints.py
    starts                             the number of starts, from the second one on: start_count.py
    scram-credentials, client-quotas, acls, delegation-tokens, listener-stores
                                       settings of users, clients and listeners: client_settings.py
    .kafka_cleanshutdown               exists only after a clean stop
    closed-segments                    the segments of each log at that stop: segments/closed_segments.py
    topic-0/ topic-1/ …                one log each
    topic-0.UUID-delete/               a log that is being deleted

The catalogue has one line for itself and one for each topic, as `checked_lines` writes them. It is replaced atomically.

    {"version": 2, "topics": 1, "next_producer_id": 0, "deleting": []} 1c291ca3
    {"name": "orders", "topic_id": "3FSw2U76Rd-kQKX3H5vUAg", "partition_count": 3, "configs": {}, …} 8a2f09d1

If groups have configurations, "groups" is in the first line as well: {"group": {"key": "value"}}.

A partition folder that the catalogue does not list is adopted: a missing line never deletes data. A directory of a real
Kafka broker therefore opens as it is.
Sources: LogManager, CheckpointFile, MetaProperties, CleanShutdownFileHandler of Kafka 4.3; KIP-516 (topic ids).
"""

import re
import uuid
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.directory import start_count
from kafka_offsets.storage.directory.catalogue import (
    CLUSTER_METADATA_TOPIC,
    DELETED_DIRECTORY,
    Catalogue,
    CatalogueTopic,
    NewTopic,
    check_new,
    decode_catalogue,
    deleted_name,
    encode_catalogue,
    partition_folders,
)
from kafka_offsets.storage.directory.client_settings import CREDENTIALS, QUOTAS, ClientSettings
from kafka_offsets.storage.directory.offset_checkpoints import (
    CHECKPOINTS,
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    Key,
    OffsetCheckpoints,
    Offsets,
)
from kafka_offsets.storage.files.checkpoints import (
    decode_partition_metadata,
    decode_properties,
    encode_partition_metadata,
    encode_properties,
    encode_uuid,
)
from kafka_offsets.storage.files.files import TEMPORARY_SUFFIX, Files, join
from kafka_offsets.storage.files.kept_file import KeptFile
from kafka_offsets.storage.log.log import Log, LogConfig, close_logs
from kafka_offsets.storage.log.opening import PARTITION_METADATA, has_gap_after
from kafka_offsets.storage.segments.closed_segments import (
    CLOSED_SEGMENTS,
    NONE_KNOWN,
    Sizes,
    decode_closed,
    encode_closed,
)
from kafka_offsets.storage.segments.leader_epochs import NO_EPOCH
from kafka_offsets.storage.segments.segment_names import LOG_SUFFIX

LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CATALOGUE = "topics"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
WRITE_CHECK = "write-check"
_CHECKED_BYTES = 1 << 16
_REPLACED = (
    META_PROPERTIES,
    CATALOGUE,
    CLEAN_SHUTDOWN,
    CLOSED_SEGMENTS,
    *CHECKPOINTS,
    CREDENTIALS,
    QUOTAS,
    start_count.STARTS,
)
_HAS_REPLICAS = "cluster.replicas"
DEFAULT_NODE_ID = 1
CLUSTER_METADATA = "cluster-metadata"
"""The file in which the parent of several brokers keeps their metadata; their directories are below its own."""

FIRST_PRODUCER_ID = 1 << 40
"""Kafka counts from 0. After a change from Kafka to this broker or back, no new id must repeat an old one."""


def _random_id() -> bytes:
    return uuid.uuid4().bytes


class DataDirectory:
    """A data directory in use. Creating the object locks the directory and repairs it after a crash.

    files       the directory is their root, created when it is missing
    node_id     None for the one in meta.properties, or 1
    cluster_id  None for the one in meta.properties, or a new one
    has_replicas  whether it is used by one broker of several; None: for what only reads or cleans logs
    new_id      returns 16 random bytes: topic ids, cluster ids
    adopted_configs  by topic name, of topics whose folders the catalogue does not list
    keep_valid  damaged batches are moved from their logs to files of their own; otherwise such a log is refused
    on_refusal  called, in any thread, when the disk refuses an operation on a log
    is_offline  whether the broker has given the directory up until the disk takes writes again
    is_from_kafka  whether Kafka has used it since this broker, with the metadata log of its controller in it
    Raises StorageError when another broker holds the directory, when it belongs to another node or cluster, or to one
    broker of several and is used by a broker alone, and, with file and position, when a file is damaged.
    """

    def __init__(
        self,
        files: Files,
        *,
        node_id: int | None = None,
        cluster_id: str | None = None,
        has_replicas: bool | None = None,
        new_id: Callable[[], bytes] = _random_id,
        adopted_configs: Callable[[str], Mapping[str, str]] = lambda name: {},
        keep_valid: bool = False,
    ) -> None:
        """Lock and open the directory."""
        self.files = files
        self._keep_valid = keep_valid
        self.node_id = DEFAULT_NODE_ID
        self.cluster_id = ""
        self._new_id = new_id
        self._adopted_configs = adopted_configs
        self._logs: dict[Key, Log] = {}
        self._lines: dict[str, tuple[CatalogueTopic, bytes]] = {}
        self._has_refused = False
        self._closed = False
        self.on_refusal: Callable[[StorageError], None] = lambda error: None
        self.is_offline = False
        files.make_directory("")
        self._lock = files.lock(LOCK)
        try:
            self._open(node_id, cluster_id, has_replicas)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, node_id: int | None, cluster_id: str | None, has_replicas: bool | None) -> None:
        names = self.files.list_directory("")
        if CLUSTER_METADATA in names:
            raise StorageError(
                "this directory belongs to a cluster, not to one broker: name another --data-dir",
                CLUSTER_METADATA,
            )
        for name in (*(replaced_name + TEMPORARY_SUFFIX for replaced_name in _REPLACED), WRITE_CHECK):
            if name in names:  # a crash came before the rename
                self.files.remove(name)
        self._open_meta_properties(META_PROPERTIES in names, node_id, cluster_id, has_replicas)
        self._checkpoints = OffsetCheckpoints(self.files, names)
        self.stopped_cleanly = CLEAN_SHUTDOWN in names
        self.is_from_kafka = f"{CLUSTER_METADATA_TOPIC}-0" in names and not self._checkpoints.are_gaps_covered
        # A recovery point means that all records before it are on the disk. After a clean stop, if the log also has a
        # high watermark, it means that the log ended there. A log that is not opened in this run must not get that
        # meaning at the next clean stop: it may have grown since its point was written. It keeps the point, and loses
        # the high watermark.
        watermarks = self._checkpoints.high_watermarks
        self._stored_watermarks = dict(watermarks)
        if not self.stopped_cleanly:
            watermarks.clear()
        self._ended = {
            key: end for key, end in self._checkpoints.recovery_points.items() if key in watermarks
        }
        if self.stopped_cleanly:
            self.files.remove(CLEAN_SHUTDOWN)
            self.files.sync_directory("")  # a crash that follows new records must not restore it
        self._catalogue_file = KeptFile(self.files, CATALOGUE, exists=CATALOGUE in names)
        stored = self._catalogue_file.content
        self._start = start_count.count_start(self.files, names, is_used=stored is not None)
        self._closed_segments = self._read_closed_segments(names)
        self._catalogue = Catalogue() if stored is None else decode_catalogue(stored, CATALOGUE)
        self.clients = ClientSettings(self.files, names)
        self._finish_deletions(names)
        self._adopt(self.files.list_directory(""))

    def _read_closed_segments(self, names: Container[str]) -> dict[Key, Sizes]:
        """Return the segments of the last stop, if it was clean and no other program has written here since."""
        if CLOSED_SEGMENTS not in names or not (self.stopped_cleanly and self._checkpoints.are_gaps_covered):
            return {}
        start, sizes = decode_closed(self.files.read_all(CLOSED_SEGMENTS), CLOSED_SEGMENTS)
        return sizes if start == self._start - 1 else {}

    def _open_meta_properties(
        self, exists: bool, node_id: int | None, cluster_id: str | None, has_replicas: bool | None
    ) -> None:
        stored = (
            decode_meta_properties(self.files.read_all(META_PROPERTIES), META_PROPERTIES) if exists else {}
        )
        stored_node = stored.get("node.id", stored.get("broker.id"))
        stored_cluster = stored.get("cluster.id")
        if stored_node is not None and node_id not in (None, int(stored_node)):
            raise StorageError(f"the directory belongs to node {stored_node}, not {node_id}", META_PROPERTIES)
        if stored_cluster is not None and cluster_id not in (None, stored_cluster):
            raise StorageError(
                f"the directory belongs to cluster {stored_cluster}, not {cluster_id}", META_PROPERTIES
            )
        had_replicas = _HAS_REPLICAS in stored
        if had_replicas and has_replicas is False:
            raise StorageError(
                f"this directory is of broker {stored_node} of a cluster, which would remove what one broker writes"
                " here alone: start the cluster, by `serve --brokers N --data-dir` with the directory above this one,"
                " or by `serve --zookeeper`",
                META_PROPERTIES,
            )
        self.node_id = int(stored_node) if stored_node else DEFAULT_NODE_ID if node_id is None else node_id
        self.cluster_id = stored_cluster or cluster_id or encode_uuid(self._new_id())
        if stored_node is None or stored_cluster is None or (has_replicas and not had_replicas):
            named = {"version": "1", "cluster.id": self.cluster_id, "node.id": str(self.node_id)}
            if has_replicas:
                named[_HAS_REPLICAS] = "true"
            self.files.replace_atomically(META_PROPERTIES, encode_properties(stored | named))

    # --- topics

    @property
    def topics(self) -> Mapping[str, CatalogueTopic]:
        """The topics by name; a new mapping after every change."""
        return self._catalogue.topics

    def create_topic(
        self,
        name: str,
        partition_count: int,
        configs: Mapping[str, str] = MappingProxyType({}),
        *,
        topic_id: bytes | None = None,
    ) -> CatalogueTopic:
        """Add one topic to the catalogue, as `create_topics` does."""
        (topic,) = self.create_topics([NewTopic(name, partition_count, configs, topic_id)])
        return topic

    def create_topics(self, wanted: Iterable[NewTopic]) -> list[CatalogueTopic]:
        """Add topics to the catalogue, all or none; their logs are created when they are opened.

        Raises what `check_new` does. Costs one sync.
        """
        topics = dict(self.topics)
        created = []
        ignores_case = self.files.exists(LOCK.upper())
        for new in wanted:
            check_new(new, topics, ignores_case=ignores_case)
            topic_id = new.topic_id or self._new_id()
            topic = CatalogueTopic(new.name, topic_id, new.partition_count, dict(new.configs))
            created.append(topic.begun(0, self._start))
            topics[new.name] = created[-1]
        if self._catalogue.deleting:  # after a refusal: a new topic must not find folders of an old one
            self._finish_deletions(self.files.list_directory(""))
        if created:
            self._store_topics(topics)
        return created

    def update_topic(self, topic: CatalogueTopic) -> None:
        """Replace the entry of one topic, as `update_topics` does."""
        self.update_topics([topic])

    def update_topics(self, changed: Iterable[CatalogueTopic]) -> None:
        """Replace the entries of topics: other configurations, or more partitions. All or none; costs one sync.

        ValueError when a topic does not exist, has another id, or would lose partitions.
        """
        topics = dict(self.topics)
        for topic in changed:
            existing = topics.get(topic.name)
            if (
                existing is None
                or existing.topic_id != topic.topic_id
                or existing.partition_count > topic.partition_count
            ):
                raise ValueError(f"{topic} cannot replace {existing}")
            is_larger = topic.partition_count > existing.partition_count
            topics[topic.name] = topic.begun(existing.partition_count, self._start) if is_larger else topic
        self._store_topics(topics)

    def delete_topic(self, name: str) -> None:
        """Delete one topic, as `delete_topics` does."""
        self.delete_topics([name])

    def delete_topics(self, names: Iterable[str]) -> None:
        """Remove topics from the catalogue, all or none, then close and remove their logs.

        A crash or a StorageError midway leaves folders that the next start removes. KeyError for a missing topic.
        Costs two syncs. Source: KIP-516: the folder is renamed to `topic-0.UUID-delete` before it is removed.
        """
        deleted = {name: self.topics[name].topic_id for name in names}
        topics = {name: topic for name, topic in self.topics.items() if name not in deleted}
        deleting = (*self._catalogue.deleting, *deleted.items())
        self._store(self._catalogue._replace(topics=topics, deleting=deleting))
        errors = close_logs(
            [self._logs.pop(key) for key in list(self._logs) if key[0] in deleted], sync=False
        )
        self._finish_deletions(self.files.list_directory(""))
        if errors:
            raise errors[0]

    def delete_log(self, topic: str, partition: int) -> None:
        """Close and remove the log of one partition, if it has one: the replica moves to another broker."""
        log, directory = self._logs.pop((topic, partition), None), f"{topic}-{partition}"
        errors = [] if log is None else close_logs([log], sync=False)
        if self.files.exists(directory):
            self._checkpoints.forget([topic], [self._ended, self._stored_watermarks], partition)
            self._closed_segments.pop((topic, partition), None)
            deleted = deleted_name(topic, partition, self._new_id())
            self.files.rename(directory, deleted)
            self.files.remove_tree(deleted)
        if errors:
            raise errors[0]

    def _finish_deletions(self, names: Iterable[str]) -> None:
        """Rename the folders of deleted topics, remove their offsets, and remove the remains of all deletions."""
        deleting = dict(self._catalogue.deleting)
        removable = [name for name in names if DELETED_DIRECTORY.fullmatch(name)]
        for topic, partition, directory in partition_folders(names):
            if topic in deleting and self._may_belong_to(directory, deleting[topic]):
                removable.append(deleted_name(topic, partition, self._new_id()))
                self.files.rename(directory, removable[-1])
        if deleting:
            for key in [key for key in self._closed_segments if key[0] in deleting]:
                del self._closed_segments[key]
            self.files.sync_directory("")
            self._checkpoints.forget(deleting, [self._ended, self._stored_watermarks])
            # Written with the next change: until then each start looks for the same folders again, by topic id.
            self._catalogue = self._catalogue._replace(deleting=())
        for name in removable:
            self.files.remove_tree(name)

    def _may_belong_to(self, directory: str, topic_id: bytes) -> bool:
        """Return whether a folder is of this topic; its unsynced partition.metadata may be torn or missing."""
        path = join(directory, PARTITION_METADATA)
        stored = self.files.read_all(path) if self.files.exists(path) else b""
        return encode_partition_metadata(topic_id).startswith(stored.rstrip(b"\0")) or (
            decode_partition_metadata(stored, path) == topic_id
        )

    def _topic_id(self, directory: str) -> bytes | None:
        path = join(directory, PARTITION_METADATA)
        if not self.files.exists(path):
            return None
        stored = self.files.read_all(path)
        return decode_partition_metadata(stored, path) if stored.strip(b"\0") else None

    def _adopt(self, names: Iterable[str]) -> None:
        """Add folders that the catalogue does not list. A topic has as many partitions as its folders show."""
        counts: dict[str, int] = {}
        ids: dict[str, bytes] = {}
        epochs: dict[str, int] = {}
        uncovered: dict[Key, str] = {}
        for topic, partition, directory in partition_folders(names):
            if not self._holds_log(directory):
                continue  # an unrelated folder, such as backup-2024
            counts[topic] = max(counts.get(topic, 0), partition + 1)
            is_known = topic in self.topics and partition < self.topics[topic].partition_count
            if (topic, partition) not in self._ended and not (
                is_known and self._checkpoints.are_gaps_covered
            ):
                uncovered[topic, partition] = directory
            if is_known:
                continue
            with suppress(StorageError):  # the log then takes them from its batches
                epochs[topic] = max(
                    epochs.get(topic, NO_EPOCH), start_count.stored_epoch(self.files, directory)
                )
            if topic in self.topics:
                continue
            topic_id = self._topic_id(directory)
            if topic_id is not None and ids.setdefault(topic, topic_id) != topic_id:
                raise StorageError(
                    f"topic {topic} has two ids: {encode_uuid(topic_id)} here, {encode_uuid(ids[topic])} before",
                    join(directory, PARTITION_METADATA),
                )
        topics = dict(self.topics)
        for name, count in counts.items():
            entry = topics.get(name)
            if entry is None:
                configs = dict(self._adopted_configs(name))
                entry = CatalogueTopic(name, ids.get(name) or self._new_id(), 0, configs)
            if count > entry.partition_count:
                origin = start_count.origin_after(self._start, epochs.get(name, NO_EPOCH))
                entry = entry.begun(entry.partition_count, origin)._replace(partition_count=count)
            topics[name] = entry
        if uncovered:
            self._checkpoints.cover_gaps(uncovered, topics)
        if topics != self.topics:
            self._store_topics(topics)

    def may_hold_records(self, topic: str, partition: int) -> bool:
        """Whether a log has readable records; much cheaper than opening it. Raises StorageError."""
        directory = f"{topic}-{partition}"
        if not self.files.is_directory(directory):
            return False
        names = [name for name in self.files.list_directory(directory) if LOG_SUFFIX in name]
        if len(names) != 1 or not names[0].endswith(LOG_SUFFIX):
            return bool(names)
        file = self.files.open(join(directory, names[0]))
        try:
            return file.size > 0
        finally:
            file.close()

    def _holds_log(self, directory: str) -> bool:
        if not self.files.is_directory(directory):
            return False
        names = self.files.list_directory(directory)
        return PARTITION_METADATA in names or any(LOG_SUFFIX in name for name in names)

    def allocate_producer_ids(self, count: int = 1000) -> range:
        """Return a block of producer ids that was never returned before. Costs a sync."""
        first = max(self._catalogue.next_producer_id, FIRST_PRODUCER_ID)
        self._store(self._catalogue._replace(next_producer_id=first + count))
        return range(first, first + count)

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """The configurations of groups."""
        return self._catalogue.groups

    def set_group_configs(self, group: str, configs: Mapping[str, str]) -> None:
        """Store the configuration of a group, or remove an empty one. Costs a sync."""
        groups = dict(self._catalogue.groups)
        if configs:
            groups[group] = dict(configs)
        else:
            groups.pop(group, None)
        self._store(self._catalogue._replace(groups=groups))

    def _store_topics(self, topics: Mapping[str, CatalogueTopic]) -> None:
        if not self._checkpoints.are_gaps_covered:
            self._checkpoints.cover_gaps({}, topics)
        self._store(self._catalogue._replace(topics=topics))

    def _store(self, catalogue: Catalogue) -> None:
        self._catalogue_file.replace(encode_catalogue(catalogue, self._lines))
        self._catalogue = catalogue

    # --- logs

    @property
    def logs(self) -> Mapping[tuple[str, int], Log]:
        """The open logs by topic and partition."""
        return MappingProxyType(self._logs)

    def open_log(self, topic: str, partition: int, config: LogConfig) -> Log:
        """Return the log of a partition of the catalogue. The first call opens it, or creates it.

        A log that has failed remains so until the directory is opened again. KeyError for a topic, IndexError for a
        partition that the catalogue does not list.
        """
        log = self.opening(topic, partition, config)()
        self.take_in(topic, partition, log)
        return log

    def opening(
        self, topic: str, partition: int, config: LogConfig, is_abandoned: Callable[[], bool] = lambda: False
    ) -> Callable[[], Log]:
        """Return a function that opens a log as `open_log` does, in any thread, or returns the open one.

        The topic must not be deleted during the call, nor the log opened a second time. `take_in` adds the log.
        That thread calls `is_abandoned` again and again; if it returns true, OpeningAbandonedError.
        """
        key = topic, partition
        log = self._logs.get(key)
        if log is not None:
            return lambda: log
        entry = self.topics[topic]
        if not 0 <= partition < entry.partition_count:
            raise IndexError(f"{topic} has {entry.partition_count} partitions, no partition {partition}")
        open_log = partial(
            Log.open,
            self.files,
            f"{topic}-{partition}",
            config,
            topic_id=entry.topic_id,
            log_start_offset=self._checkpoints.log_starts.get(key, 0),
            clean_end_offset=self._ended.get(key),
            synced_offset=self._checkpoints.recovery_points.get(key, 0),
            verify_from=self._checkpoints.verify_from.get(key),
            closed=self._closed_segments.get(key, NONE_KNOWN),
            keep_valid=self._keep_valid,
            is_abandoned=is_abandoned,
        )

        def opened() -> Log:
            """Open the log with its stored recovery point. A StorageError prevents the mark of a clean stop."""
            try:
                log = open_log()
                log.store_point_with(partial(self._store_point, key, log))
                if has_gap_after(
                    log.segments, log.stored_point
                ):  # opening with `keep_valid` leaves the log in this state
                    log.checkpoint_ended()
            except StorageError:
                self._has_refused = True
                raise
            return log

        return opened

    def take_in(self, topic: str, partition: int, log: Log) -> None:
        """Add an opened log: it is closed, and its offsets are checkpointed, with the others."""
        assert self._logs.get((topic, partition), log) is log
        self._logs[topic, partition] = log
        log.on_refusal = lambda error: self.on_refusal(error)  # noqa: PLW0108 - it may be set later

    def is_news(self, error: StorageError) -> bool:
        """Pass on what the disk has refused; return whether it must be logged: not while the directory is offline."""
        if error.is_of_disk:
            self.on_refusal(error)
        return not self.is_offline

    def check_writable(self) -> None:
        """Write a file and remove it, in any thread. StorageError if the disk refuses that, or a log has failed."""
        for log in list(self._logs.values()):
            log.check_present()
            if log.failure is not None and not log.closed:
                raise log.failure
        file = self.files.open(WRITE_CHECK, create=True)
        try:
            file.append(bytes(_CHECKED_BYTES))
            file.sync()
        finally:
            file.close()
            with suppress(StorageError):  # the next start removes it
                self.files.remove(WRITE_CHECK)

    def leader_epoch(self, topic: str, partition: int, stored: int) -> int:
        """Return the epoch in which this start leads a partition; `stored` is the last one in its log, -1 for none."""
        return start_count.leader_epoch(self._start, self.topics[topic].counted_from, partition, stored)

    def unopened(self) -> list[tuple[str, int]]:
        """Return topic and partition of each folder that may hold a log of the catalogue that is not open."""
        folders = partition_folders(self.files.list_directory(""))
        known_partitions = {(topic, partition) for topic, partition, _ in folders if topic in self.topics}
        return sorted(
            key
            for key in known_partitions - self._logs.keys()
            if key[1] < self.topics[key[0]].partition_count
        )

    def log_bytes(self, topic: str, partition: int) -> int:
        """Return the size of the segments in the folder of a partition; 0 when there are none."""
        folder = f"{topic}-{partition}"
        if not self.files.exists(folder):
            return 0
        total = 0
        for name in self.files.list_directory(folder):
            if LOG_SUFFIX in name:
                file = self.files.open(join(folder, name))
                file.close()
                total += file.size
        return total

    # --- checkpoints

    def checkpoint_log_starts(self) -> None:
        """Write log-start-offset-checkpoint if it has changed. Call it after records were deleted."""
        starts = self._checkpoints.log_starts
        starts |= {key: log.log_start_offset for key, log in self._logs.items()}
        # As in Kafka: only when the first segment does not begin there.
        first = {key: log.segments[0].base_offset for key, log in self._logs.items()}
        later = {key: start for key, start in starts.items() if start > first.get(key, 0)}
        self._checkpoints.write(LOG_START_CHECKPOINT, later, self.topics)

    def cleaned_to(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which a partition has been compacted, None when it never was."""
        return self._checkpoints.cleaned_to.get((topic, partition))

    def set_cleaned_to(self, topic: str, partition: int, offset: int) -> None:
        """Store how far a partition has been compacted. Not synced: if it is lost, the whole log is compacted again."""
        self._checkpoints.cleaned_to[topic, partition] = offset
        self._checkpoints.write(CLEANER_CHECKPOINT, self._checkpoints.cleaned_to, self.topics, sync=False)

    def recovery_points_writer(self) -> Callable[[], None]:
        """Return a function that writes recovery-point-offset-checkpoint if it has changed; any thread may call it.

        It raises StorageError. A log that has not been opened in this run keeps its point.
        """
        logs = dict(self._logs)

        def write() -> None:
            """Write the recovery points of all open logs. Raises StorageError."""
            with self._checkpoints.moving(self.topics) as points:
                moved = {key: log.recovery_point for key, log in logs.items() if self._logs.get(key) is log}
                points |= moved
            for key, point in moved.items():
                logs[key].record_stored(point)

        return write

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """Return the high watermark of a log as this start found it in the checkpoint; None when it has none."""
        return self._stored_watermarks.get((topic, partition))

    def high_watermarks_writer(self) -> Callable[[], None]:
        """Return a function that writes replication-offset-checkpoint if it has changed; any thread may call it.

        It raises StorageError. While the broker runs, only logs with replicas need it.
        """
        logs = dict(self._logs)

        def moved() -> Offsets:
            return {key: log.high_watermark for key, log in logs.items() if self._logs.get(key) is log}

        return lambda: self._checkpoints.move_high_watermarks(moved, self.topics)

    def _store_point(self, key: Key, log: Log, point: int) -> None:
        """Write the recovery point of one log, which may not be added yet. Any thread may call it.

        After a truncation nothing after it is cleaned, and the log start may be lower as well.
        """
        with self._checkpoints.moving(self.topics) as points:
            if log.closed or self._logs.get(key, log) is not log:
                return
            points[key] = min(point, log.recovery_point)  # another thread may have truncated it
        if self._checkpoints.cleaned_to.get(key, 0) > point:
            self.set_cleaned_to(*key, point)
        starts = self._checkpoints.log_starts
        if starts.get(key, 0) > log.log_start_offset:
            starts[key] = log.log_start_offset
            self._checkpoints.write(LOG_START_CHECKPOINT, starts, self.topics)

    def _checkpoint(self) -> None:
        self.checkpoint_log_starts()
        with self._checkpoints.moving(self.topics) as points:
            points |= {key: log.recovery_point for key, log in self._logs.items()}
        self.high_watermarks_writer()()

    def close(self, *, sync: bool = True) -> None:
        """Close all logs, write the checkpoints and release the lock. A second call does nothing.

        sync  False leaves writing the records to the system: they are safe unless the machine fails
        The mark of a clean stop is written only when every log closed well and all its records are on the disk: the
        next start requires each log to end where it did, and Kafka reads none of them. A log that was refused, or not
        opened, may need recovery after a crash; then the mark is written only if it existed before. The first
        StorageError is raised after all logs have been closed.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._close_logs(sync)
        finally:
            self._lock.release()

    def _close_logs(self, sync: bool) -> None:
        still_open = [log for log in self._logs.values() if not log.closed]
        errors = [log.failure for log in still_open if log.failure is not None]
        errors += close_logs(still_open, sync=sync, threads=self.files.parallel_syncs)
        if sync and still_open and not errors:
            self.files.sync_directory("")  # names of new folders: one sync for all logs
        if errors:
            raise errors[0]
        self._checkpoint()
        self._catalogue_file.restore()
        self.clients.restore()
        is_whole = self.stopped_cleanly or not (self._has_refused or self.unopened())
        if is_whole and all(log.recovery_point == log.log_end_offset for log in self._logs.values()):
            self._write_closed_segments()
            self.files.replace_atomically(CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}')

    def _write_closed_segments(self) -> None:
        """Write the segments of all logs; one that was not opened in this run has those of the last clean stop."""
        sizes_by_log = self._closed_segments | {
            key: {segment.base_offset: segment.size for segment in log.segments[:-1]}
            for key, log in self._logs.items()
        }
        sizes_by_log = {key: sizes for key, sizes in sizes_by_log.items() if sizes and key[0] in self.topics}
        if sizes_by_log or self.files.exists(CLOSED_SEGMENTS):
            self.files.replace_atomically(CLOSED_SEGMENTS, encode_closed(self._start, sizes_by_log))


def decode_meta_properties(data: bytes, path: str) -> dict[str, str]:
    """Read meta.properties; StorageError when it is damaged, of an unknown version, or names no node."""
    stored = decode_properties(data, path)
    node_id = stored.get("node.id", stored.get("broker.id"))
    if stored.get("version", "1") not in ("0", "1"):
        raise StorageError(f"version={stored['version']}, only 0 and 1 are known", path, 0)
    if node_id is not None and not re.fullmatch(r"[0-9]{1,10}", node_id):
        raise StorageError(f"node.id={node_id} is no number", path, 0)
    return stored
