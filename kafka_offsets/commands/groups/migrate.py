"""`kafka-offsets offsets migrate`: copies committed offsets between a data directory and ZooKeeper.

The log is read and written in its directory, which no broker may use at the same time: its lock proves that no client
commits there while offsets are copied, and so nothing is missing. Offsets are copied and not moved. A run that was
interrupted is repeated: offsets that are stored already are not written again.

The directory of a cluster has one directory for each broker, and the metadata say which of them has all that was
acknowledged in a partition: its leader, or another replica in the ISR.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.broker.config.group import group_settings
from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.groups import loading
from kafka_offsets.broker.groups.runtime import HostedShard
from kafka_offsets.broker.nodes.metadata_file import MetadataFile
from kafka_offsets.broker.partition.log_cleaner import adopted_configs, offsets_topic_configs
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.clock import Now, SystemClock
from kafka_offsets.commands.options.directories import existing_directory
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.coordinator.state.result import Result
from kafka_offsets.errors import ConfigError, StorageError
from kafka_offsets.metadata.image import ClusterImage
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.storage.directory.data_directory import CLUSTER_METADATA, DataDirectory
from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles, ReadOnlyFiles
from kafka_offsets.storage.files.overlay import OverlayFiles
from kafka_offsets.zookeeper import operations, znodes
from kafka_offsets.zookeeper.blocking import BlockingZooKeeper
from kafka_offsets.zookeeper.kazoo_client import KazooZooKeeper
from kafka_offsets.zookeeper.operations import RequestRefusedError
from kafka_offsets.zookeeper.znodes import OffsetName, UnreadableZnodeError

_BROKER_DIRECTORY = re.compile(r"broker-[0-9]+")

_SESSION_MS = 10_000
_TIMEOUT_S = 30.0

_TOGETHER = 500
"""How many offsets of a group are written at once."""


def migrate(options: argparse.Namespace) -> Iterator[Migrated]:
    """Copy as the options of the command say; yield a result for each group, then their sum."""
    if options.source == options.target:
        raise ConfigError("--from and --to name the same store")
    chosen = MigrationOptions(tuple(options.groups), options.overwrite, options.execute)
    root = options.data_dir.absolute()
    if (root.parent / CLUSTER_METADATA).exists() and _BROKER_DIRECTORY.fullmatch(root.name):
        raise ConfigError(
            f"--data-dir {options.data_dir} is of one broker of a cluster, and may lack what others have: name the"
            f" directory of the cluster, {root.parent}"
        )
    is_of_cluster = options.source == "log" and (root / CLUSTER_METADATA).exists()
    config, files = Config.load(), _files(root, options)
    zookeeper = BlockingZooKeeper(partial(KazooZooKeeper, options.zookeeper, _SESSION_MS), _TIMEOUT_S)
    try:
        if is_of_cluster:
            yield from cluster_to_zookeeper(root, config, zookeeper, chosen)
        elif options.target == "zookeeper":
            yield from to_zookeeper(files, config, zookeeper, chosen)
        else:
            yield from to_log(files, config, zookeeper, chosen, SystemClock().now)
    finally:
        zookeeper.close()


def _files(root: Path, options: argparse.Namespace) -> Files:
    """Return the files of the data directory; what is not to be written is written to memory alone."""
    if options.source == "log":
        return OverlayFiles(ReadOnlyFiles(existing_directory(root)))
    if options.execute:
        return DiskFiles(root)
    return OverlayFiles(ReadOnlyFiles(existing_directory(root))) if root.exists() else MemoryFiles()


class Migrated(NamedTuple):
    """What was done with the offsets of one group, or of all.

    copied     were written, or would be
    present    were already copied: the same value
    different  are there with another value, and were left
    skipped    cannot be copied; `reason` says why
    """

    group: str
    copied: int = 0
    present: int = 0
    different: int = 0
    skipped: int = 0
    reason: str = ""

    def plus(self, other: Migrated) -> Migrated:
        """Return the sum, under this name."""
        return Migrated(
            self.group,
            self.copied + other.copied,
            self.present + other.present,
            self.different + other.different,
            self.skipped + other.skipped,
        )

    @property
    def is_whole(self) -> bool:
        """Whether the other store has all offsets afterwards."""
        return not self.different and not self.skipped

    def as_json(self) -> str:
        """Return the object that reports it."""
        return json.dumps(self._asdict())

    def line(self, *, executes: bool) -> str:
        """Return the line that reports it."""
        copied = "copied" if executes else "to copy"
        parts = [f"{self.copied} {copied}", f"{self.present} already copied"]
        if self.different:
            parts.append(f"{self.different} there with another offset (left as they are; see --overwrite)")
        if self.skipped:
            parts.append(f"{self.skipped} skipped" + (f": {self.reason}" if self.reason else ""))
        return f"{self.group}: {', '.join(parts)}"


class MigrationOptions(NamedTuple):
    """What is copied, and how.

    groups     only these; none: all
    overwrite  whether offsets of the other store are replaced
    execute    whether offsets are written
    """

    groups: tuple[str, ...] = ()
    overwrite: bool = False
    execute: bool = False

    def takes(self, group: str) -> bool:
        """Whether a group is copied."""
        return not self.groups or group in self.groups


def to_zookeeper(
    files: Files, config: Config, zookeeper: BlockingZooKeeper, options: MigrationOptions
) -> Iterator[Migrated]:
    """Copy the offsets of a data directory to ZooKeeper; yield a result for each group, then their sum.

    Raises StorageError if the directory cannot be used, UnavailableError without ZooKeeper.
    """
    total = Migrated("in all")
    with OffsetsLogs(files, config) as logs:
        for done in _shards_to_zookeeper(logs.shards(), zookeeper, options):
            yield done
            total = total.plus(done)
    yield total


def _shards_to_zookeeper(
    shards: Iterable[Shard], zookeeper: BlockingZooKeeper, options: MigrationOptions
) -> Iterator[Migrated]:
    for shard in shards:
        for group in filter(options.takes, shard.offsets.groups()):
            yield _group_to_zookeeper(shard, group, zookeeper, options)
        for group, count in _pending(shard, options):
            yield Migrated(group, skipped=count, reason="pending in an open transaction")


def cluster_to_zookeeper(
    root: Path, config: Config, zookeeper: BlockingZooKeeper, options: MigrationOptions
) -> Iterator[Migrated]:
    """As `to_zookeeper`, from the directories of the brokers of a cluster.

    Raises StorageError also, after the sum, if no directory here has all that was acknowledged in some partitions.
    """
    total = Migrated("in all")
    with closing(MetadataFile(OverlayFiles(ReadOnlyFiles(root)))) as metadata:
        chosen, elsewhere = _replicas(root, metadata.load())
        for broker_id, partitions in chosen.items():
            files = OverlayFiles(ReadOnlyFiles(_of_broker(root, broker_id)))
            with OffsetsLogs(files, config, has_replicas=True) as logs:
                for done in _shards_to_zookeeper(logs.shards(partitions), zookeeper, options):
                    yield done
                    total = total.plus(done)
    yield total
    if elsewhere:
        partitions_text = ", ".join(
            f"{OFFSETS_TOPIC}-{index} (in sync: {', '.join(f'broker {replica}' for replica in isr) or 'none'})"
            for index, isr in elsewhere.items()
        )
        raise StorageError(
            f"the offsets of these partitions were not copied, as no replica in the ISR is in {root}: {partitions_text}"
        )


def _of_broker(root: Path, broker_id: int) -> Path:
    return root / f"broker-{broker_id}"


def _replicas(root: Path, image: ClusterImage) -> tuple[Mapping[int, list[int]], Mapping[int, list[int]]]:
    """Return the partitions of the offsets topic to read, by broker, and the in-sync replicas of all others.

    The leader comes first. A broker of the ELR has every record below the high watermark, as one of the ISR.
    Raises StorageError if the cluster has no offsets topic.
    """
    topic = image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        raise StorageError("the cluster has no offsets topic", CLUSTER_METADATA)
    chosen: dict[int, list[int]] = {}
    elsewhere: dict[int, list[int]] = {}
    for index, state in enumerate(topic.partitions):
        whole = [*state.isr, *state.elr]
        whole.sort(key=lambda broker_id, leader=state.leader: broker_id != leader)  # type: ignore[misc]
        folder = f"{OFFSETS_TOPIC}-{index}"
        local_brokers = [broker for broker in whole if (_of_broker(root, broker) / folder).is_dir()]
        if local_brokers:
            chosen.setdefault(local_brokers[0], []).append(index)
        else:
            elsewhere[index] = sorted(whole)
    return chosen, elsewhere


def _pending(shard: Shard, options: MigrationOptions) -> Iterable[tuple[str, int]]:
    counts: dict[str, int] = {}
    for offsets in shard.pending.values():
        for key in offsets:
            if options.takes(key.group):
                counts[key.group] = counts.get(key.group, 0) + 1
    return counts.items()


def _group_to_zookeeper(
    shard: Shard, group: str, zookeeper: BlockingZooKeeper, options: MigrationOptions
) -> Migrated:
    source = {
        OffsetName(group, topic, partition): entry.offset
        for topic, partition, entry in shard.offsets.items(group)
    }
    named = {name for name in source if znodes.is_name(group) and znodes.is_name(name.topic)}
    result = Migrated(group)
    if len(named) < len(source):
        count = len(source) - len(named)
        result = result._replace(skipped=count, reason="the group or topic cannot be the name of a znode")
    names = sorted(named)
    for begin in range(0, len(names), _TOGETHER):
        batch = names[begin : begin + _TOGETHER]
        try:
            current = zookeeper.run(operations.read_offsets(batch))
            operations.check_readable(current)
            chosen = _choose(
                {name: source[name] for name in batch},
                {n: znode.offset for n, znode in current.items()},
                options,
            )
            if options.execute and chosen.write:
                new_offsets = {name: source[name] for name in chosen.write}
                zookeeper.run(
                    operations.write_offsets(new_offsets, {n: znode.version for n, znode in current.items()})
                )
        except (RequestRefusedError, UnreadableZnodeError) as error:
            return result._replace(skipped=result.skipped + len(names) - begin, reason=str(error))
        result = result.plus(chosen.counts(group))._replace(reason=result.reason)
    return result


class _Chosen(NamedTuple):
    write: list[OffsetName]
    present: int
    different: int

    def counts(self, group: str) -> Migrated:
        return Migrated(group, len(self.write), self.present, self.different)


def _choose(
    source: dict[OffsetName, int], target: dict[OffsetName, int], options: MigrationOptions
) -> _Chosen:
    """Choose what is written: what is missing, and with `overwrite` what differs."""
    equal = [name for name, offset in source.items() if target.get(name) == offset]
    different = [name for name, offset in source.items() if name in target and target[name] != offset]
    write = [name for name in source if name not in target]
    if options.overwrite:
        return _Chosen(write + different, len(equal), 0)
    return _Chosen(write, len(equal), len(different))


def to_log(
    files: Files,
    config: Config,
    zookeeper: BlockingZooKeeper,
    options: MigrationOptions,
    now: Callable[[], Now],
) -> Iterator[Migrated]:
    """Copy offsets from ZooKeeper to a data directory, synced for each group; yields as `to_zookeeper` does."""
    total = Migrated("in all")
    with OffsetsLogs(files, config) as logs:
        for group in filter(options.takes, zookeeper.run(operations.list_groups())):
            try:
                tree = zookeeper.run(operations.read_group(group))
                operations.check_readable(tree.offsets)
            except UnreadableZnodeError as error:
                done = Migrated(group, skipped=1, reason=str(error))
            else:
                if not tree.offsets:
                    continue
                done = (
                    Migrated(group, skipped=len(tree.offsets), reason="consumers of the group are alive")
                    if tree.is_alive
                    else _group_to_log(tree, group, logs, options, now)
                )
            yield done
            total = total.plus(done)
    yield total


def _group_to_log(
    tree: operations.GroupTree,
    group: str,
    logs: OffsetsLogs,
    options: MigrationOptions,
    now: Callable[[], Now],
) -> Migrated:
    shard = logs.shard_of(group, create=options.execute)
    target = {}
    if shard is not None:
        entries = shard.offsets.items(group)
        target = {OffsetName(group, topic, partition): entry.offset for topic, partition, entry in entries}
    chosen = _choose({name: znode.offset for name, znode in tree.offsets.items()}, target, options)
    if options.execute:
        for begin in range(0, len(chosen.write), _TOGETHER):
            records = []
            for name in chosen.write[begin : begin + _TOGETHER]:
                znode = tree.offsets[name]
                entry = OffsetAndMetadata(znode.offset, -1, "", znode.modified_ms)
                records.append(stored.offset_record(*name, entry))
            logs.append(group, Result(records), now())
    return chosen.counts(group)


class _NoResponses:
    """There are no clients."""

    def respond(self, context: object, response: object) -> None:
        """Send nothing."""

    def fail(self, context: object, error: object) -> None:
        """Send nothing."""


class OffsetsLogs:
    """The offsets topic of a data directory that no broker uses, loaded shard by shard.

    has_replicas  whether the directory is of one broker of a cluster
    """

    def __init__(self, files: Files, config: Config, *, has_replicas: bool = False) -> None:
        self._config = config
        self._closing = ExitStack()
        adopted = partial(adopted_configs, config)
        self._directory = DataDirectory(files, adopted_configs=adopted, has_replicas=has_replicas)
        self._closing.callback(self._directory.close)
        self._topics = Topics(self._directory, config)
        self._logged = {index for topic, index in self._directory.unopened() if topic == OFFSETS_TOPIC}
        self._hosted: dict[int, HostedShard] = {}

    def __enter__(self) -> OffsetsLogs:
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()

    def shards(self, partitions: Iterable[int] | None = None) -> Iterator[Shard]:
        """Load the shards of these partitions, or of all that have a log, one after the other.

        Raises StorageError if there is no offsets topic.
        """
        if self._topics.get(OFFSETS_TOPIC) is None:
            raise StorageError("the data directory has no offsets topic", OFFSETS_TOPIC)
        for index in sorted(self._logged) if partitions is None else partitions:
            yield self._load(index).shard
            del self._hosted[index]

    def shard_of(self, group: str, *, create: bool) -> Shard | None:
        """Return the shard of a group; None if it has no log, unless it is to be created."""
        topic = self._topics.get(OFFSETS_TOPIC)
        if topic is None:
            if not create:
                return None
            configs = offsets_topic_configs(self._config)
            topic = self._topics.create(OFFSETS_TOPIC, self._config.offsets_topic_num_partitions, configs)
        index = partition_for(group, topic.partition_count)
        if index not in self._logged and index not in self._hosted and not create:
            return None
        return self._load(index).shard

    def append(self, group: str, result: Result, now: Now) -> None:
        """Append the records of a group as one batch, and sync its log. Raises StorageError."""
        topic = self._topics.get(OFFSETS_TOPIC)
        assert topic is not None
        hosted = self._load(partition_for(group, topic.partition_count))
        refusals = hosted.refusals
        hosted.decide(result)
        hosted.append(now)
        if hosted.refusals > refusals:
            raise StorageError("the log refuses the offsets", hosted.log.directory)
        hosted.log.sync()

    def _load(self, index: int) -> HostedShard:
        hosted = self._hosted.get(index)
        if hosted is None:
            config, log = self._config, self._topics.offsets_log(index)
            shard = Shard(index, group_settings(config), lambda prefix: prefix, self._topics)
            loading.load(shard, log)
            compression = Compression(config.offsets_topic_compression_codec)
            hosted = HostedShard(shard, log, _NoResponses(), compression, config.message_max_bytes)
            self._hosted[index] = hosted
        return hosted
