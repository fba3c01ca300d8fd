"""`kafka-offsets compact`: compacts the logs of a data directory that no broker uses, or shows the effect."""

import json
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.topic import TopicConfig
from kafka_offsets.broker.partition.compacted import Compacted
from kafka_offsets.broker.partition.log_cleaner import adopted_configs, cleanup_policy, compaction_config
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.clock import Now, SystemClock
from kafka_offsets.commands.options.directories import existing_directory, is_partition_folder, segment_bytes
from kafka_offsets.commands.output.progress import progress
from kafka_offsets.errors import StorageError
from kafka_offsets.storage.cleaner.compaction import CompactionConfig, compact, load_columns
from kafka_offsets.storage.directory.catalogue import partition_folders
from kafka_offsets.storage.directory.data_directory import LOCK, META_PROPERTIES, DataDirectory
from kafka_offsets.storage.files.files import DiskFiles, Files, ReadOnlyFiles
from kafka_offsets.storage.files.overlay import OverlayFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.terminal import note, printable

_ONE_ROUND = 1 << 62
"""An offset map without a limit: one pass with room for all keys has the result of all passes together."""

_NOTHING = "no partition of a topic that is compacted is in it"


def run(options: Namespace) -> int:
    """Compact as the options say, and print the results; return the exit code."""
    config, now = Config.load(dict(options.set), options.config), SystemClock().now()
    is_whole = True
    for compacted in compact_directory(
        options.directory, config, now, dry_run=options.dry_run, include_active=options.include_active
    ):
        is_whole &= compacted.error is None
        print(
            json.dumps(compacted._asdict())
            if options.json
            else printable(compacted.line(dry_run=options.dry_run))
        )
    if (
        not options.json and compacted.active_bytes and not options.include_active
    ):  # `compacted` is the last line, the sum of all logs
        _advise(options, config, now, compacted)
    return 0 if is_whole else 1


def _advise(options: Namespace, config: Config, now: Now, total: Compacted) -> None:
    """Print what could be removed of active segments."""
    if not options.dry_run:
        if not total.records_gone:
            print(
                f"nothing to remove outside of the active segments ({total.active_bytes} bytes); "
                "--include-active compacts them too"
            )
        return
    *_, whole = compact_directory(options.directory, config, now, dry_run=True, include_active=True)
    more, more_bytes = whole.records_gone - total.records_gone, whole.bytes_gone - total.bytes_gone
    if more > 0:
        note(f"with --include-active {more} more records would go, {more_bytes} bytes")


def compact_directory(
    directory: Path, config: Config, now: Now, *, dry_run: bool = False, include_active: bool = False
) -> Iterator[Compacted]:
    """Compact every topic of a data directory with the policy compact, or the folder of one partition of such a topic.

    A folder outside of a data directory, such as a copy, has no policy and is compacted.

    include_active  first roll each log to a new segment, so that the active segment is compacted too
    Yields the result of each partition with records, then the sum. Raises StorageError if the directory cannot be used.
    """
    directory = existing_directory(directory)
    is_folder = is_partition_folder(directory)
    root = directory.parent if is_folder else directory
    if not is_folder and not _is_data_directory(root):
        raise StorageError(_NOTHING, str(directory))
    files: Files = OverlayFiles(ReadOnlyFiles(root)) if dry_run else DiskFiles(root)
    run = _Run(now, dry_run, include_active)
    total = Compacted("in all")
    results = (
        run.lone_folder(files, directory.name, config)
        if is_folder and not (root / META_PROPERTIES).exists()
        else run.data_directory(files, config, directory.name if is_folder else None)
    )
    count = done = 0
    with progress("compacting", segment_bytes(directory), lambda: done):
        for compacted in results:
            count += 1
            if compacted is None:
                continue
            total = total.plus(compacted)
            done = total.bytes
            yield compacted
    if not count:
        raise StorageError(_NOTHING, str(directory))
    yield total


def _is_data_directory(root: Path) -> bool:
    """Return whether a broker has used a directory; opening any other would turn it into a data directory."""
    try:
        return (root / META_PROPERTIES).exists() or any(is_partition_folder(path) for path in root.iterdir())
    except OSError as error:
        raise StorageError(error.strerror or str(error), str(root)) from error


class _Run(NamedTuple):
    now: Now
    dry_run: bool
    include_active: bool

    def data_directory(self, files: Files, config: Config, folder: str | None) -> Iterator[Compacted | None]:
        """Compact the logs of a data directory, or only that of one folder; yields None for an empty log."""
        with ExitStack() as closing:
            directory = DataDirectory(files, adopted_configs=partial(adopted_configs, config))
            closing.callback(directory.close)
            logged = {f"{topic}-{index}" for topic, index in directory.unopened()}
            topics = Topics(directory, config)
            topic_name = None if folder is None else folder.rpartition("-")[0]
            for topic in topics.all():
                policy = cleanup_policy(topic)
                if "compact" not in policy:
                    if topic_name == topic.name:
                        message = f"its topic is not compacted: cleanup.policy is {','.join(sorted(policy))}"
                        raise StorageError(message, folder)
                    continue
                rules = compaction_config(config, topic.config)
                for index in range(topic.partition_count):
                    name = f"{topic.name}-{index}"
                    if name != folder and folder is not None:
                        continue
                    if name not in logged:  # the partition has no folder yet, and opening it would create one
                        yield None
                        continue
                    try:
                        partition = topics.partition_of(topic, index)
                        assert partition is not None
                        if folder is None and not partition.log.size:
                            yield None
                            continue
                        done, end_offset = self.compact(partition.log, rules)
                        if end_offset is not None:
                            directory.set_cleaned_to(topic.name, index, end_offset)
                    except StorageError as error:
                        done = Compacted(name, error=str(error))
                    yield done

    def lone_folder(self, files: Files, folder: str, config: Config) -> Iterator[Compacted]:
        """Compact a partition's folder outside of a data directory."""
        lock = files.lock(LOCK)
        try:
            ((topic, _, _),) = partition_folders([folder])
            topic_config = TopicConfig.of(config, adopted_configs(config, topic))
            log_config = LogConfig(topic_config.effective_segment_bytes, topic_config.index_interval_bytes)
            try:
                log = Log.open(files, folder, log_config)
                try:
                    done, _ = self.compact(log, compaction_config(config, topic_config))
                finally:
                    log.close()
            except StorageError as error:
                done = Compacted(folder, error=str(error))
            yield done
        finally:
            lock.release()

    def compact(self, log: Log, config: CompactionConfig) -> tuple[Compacted, int | None]:
        """Compact one log; return the result, and its end offset."""
        if self.include_active:
            log.roll()
        if self.dry_run:
            config = config._replace(dedupe_buffer_bytes=_ONE_ROUND)
        size, segments, active_bytes = log.size, len(log.segments), log.segments[-1].size
        results = compact(log, config, self.now.wall_ms, dry_run=self.dry_run, columns=load_columns())
        done = Compacted.of(log.directory, results, size, segments, active_bytes)
        return done, results[-1].end_offset if results else None
