"""Dead records: the internal topics of a broker in memory drop what later records replace, as soon as it pays.

On disk compaction does that, in the background and never in the active segment. In memory the offsets topic alone would
grow by 100 MB a second under load, so each log of an internal topic is cleaned at the end of a turn in which it has
doubled. The offset table of a shard tells which records of its log are in force, so most of the log is not read.
"""

import sys
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.groups.runtime import CoordinatorRuntime
from kafka_offsets.broker.partition.log_cleaner import LogCleaner, cleanup_policy, compaction_config
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.clock import Now
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.cleaner.compaction import load_columns
from kafka_offsets.storage.cleaner.memory_cleaning import OffsetsInForce, clean_in_memory
from kafka_offsets.storage.log.log import Log

LEAST_BYTES = 1 << 20
"""A smaller log is not cleaned."""

_KEYS_PART = 4
"""Where keys alone decide, this part of it is the least: a mebibyte of small batches would take a tenth of a second."""

_NEVER = 1 << 63

logger = new_logger(__name__)


class DeadRecords:
    """Cleans the logs of the internal topics of one broker in memory.

    _limits  the size at which a log is cleaned next: twice what the last cleaning left, or more
    """

    def __init__(
        self, config: Config, topics: Topics, runtime: CoordinatorRuntime, cleaner: LogCleaner
    ) -> None:
        self._config = config
        self._topics = topics
        self._runtime = runtime
        self._cleaner = cleaner
        self._limits: WeakKeyDictionary[Log, int] = WeakKeyDictionary()  # logs of deleted topics go

    def drop(self, grown: Iterable[Log], now: Now) -> None:
        """Clean those of the logs that have grown enough. All decisions of the turn are appended."""
        limits = self._limits
        for log in grown:
            limit = limits.get(log)
            if limit is None:
                is_cleaned = _topic_of(log)[0] in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
                limit = limits[log] = LEAST_BYTES if is_cleaned else _NEVER
            if limit is not _NEVER and log.size > limit:
                self.clean(log, now)

    def clean(self, log: Log, now: Now) -> None:
        """Clean the log of an internal topic, unless its configuration or work that is under way forbids that."""
        name, index = _topic_of(log)
        topic = self._topics.get(name)
        partition = None if topic is None else topic.partitions[index]
        if topic is None or partition is None or partition.log is not log or log.failure is not None:
            return
        hosted = self._runtime.shards.get(index) if name == OFFSETS_TOPIC else None
        in_force: OffsetsInForce | None = None
        if self._cleaner.is_cleaning(log) or (hosted is not None and hosted.is_loading):
            return  # the next turn tries again
        config = compaction_config(self._config, topic.config)
        if (
            self._config.log_cleaner_enable
            and "compact" in cleanup_policy(topic)
            and not config.min_compaction_lag_ms
            and (hosted is None or not hosted.failed)
        ):
            if hosted is not None and hosted.offset_batches is not None:
                shard = hosted.shard
                log_offsets = sorted(shard.offsets.log_offsets())
                in_force = OffsetsInForce(
                    log_offsets, hosted.applied_offset, hosted.offset_batches, shard.deletions
                )
            columns = load_columns() if "numpy" in sys.modules else None
            try:
                end_offset = clean_in_memory(log, config, now.wall_ms, in_force, columns)
            except StorageError as error:
                logger.error("%s is not cleaned any more: %s", log.directory, error)
                self._limits[log] = _NEVER
                return
            self._topics.directory.set_cleaned_to(name, index, end_offset)
            partition.record_cleaned()
        least = LEAST_BYTES if in_force is not None else LEAST_BYTES // _KEYS_PART
        self._limits[log] = max(least, 2 * log.size)


def _topic_of(log: Log) -> tuple[str, int]:
    """Return the topic and the partition of a log."""
    name, _, index = log.directory.rpartition("-")
    return name, int(index)
