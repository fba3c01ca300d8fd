"""Appends: the partitions that have grown in a turn, and how much the logs of a broker in memory may grow.

Without a limit a producer at full rate takes all memory of the machine within a minute, and the system kills the
process without a word. With it Produce is refused; all other requests are served, and deletions make room.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.logs import new_logger
from kafka_offsets.memory import machine_bytes
from kafka_offsets.storage.files.files import Files, MemoryFiles
from kafka_offsets.storage.log.log import Log

if TYPE_CHECKING:
    from kafka_offsets.broker.groups.runtime import HostedShard

_DEFAULT_SHARE = 4
_DEFAULT_BYTES = 1 << 30
"""The memory of a machine that does not tell how much it has."""

_SEGMENTS = 16
"""A segment takes at most this part of the limit, so that deletions make room before all of a log is deleted."""

_MEASURED_EACH = 8
"""The files are measured again when this part of what was left is taken."""

logger = new_logger(__name__)


@cache
def default_max_bytes() -> int:
    """Return what the logs in memory of a process may take: a quarter of what it may have."""
    return (machine_bytes() or _DEFAULT_SHARE * _DEFAULT_BYTES) // _DEFAULT_SHARE


class MemoryLimit:
    """The limit of one broker; a broker with a data directory has none.

    brokers       returns how many brokers share the default: those of its cluster
    _left         so many bytes may be appended before the files are measured again
    _is_exceeded  whether Produce was refused last
    """

    def __init__(self, config: Config, files: Files, brokers: Callable[[], int]) -> None:
        self._files = files if isinstance(files, MemoryFiles) else None
        self._configured_bytes = config.log_memory_max_bytes
        self._brokers = brokers
        self._left = self._segment_bytes = 0
        self._is_exceeded = False

    def refuses(self, log: Log, size: int) -> str | None:
        """Return why so many bytes of a producer may not be appended; None if they may."""
        if self._files is None:
            return None
        self._left -= size
        if self._left < 0:
            taken = self._files.nbytes
            max_bytes = self._configured_bytes or default_max_bytes() // self._brokers()
            self._segment_bytes = max_bytes // _SEGMENTS
            self._left = (max_bytes - taken) // _MEASURED_EACH
            if taken + size > max_bytes:
                return self._refusal(taken, max_bytes)
            self._is_exceeded = False
        if log.segments[-1].size >= self._segment_bytes:
            log.roll()
        return None

    def _refusal(self, taken: int, max_bytes: int) -> str:
        problem = (
            f"the logs in memory take {taken} bytes, and log.memory.max.bytes is {max_bytes}: "
            "delete records or topics, set a larger log.memory.max.bytes, or use a data directory"
        )
        if not self._is_exceeded:
            self._is_exceeded = True
            logger.error("Produce gets KAFKA_STORAGE_ERROR: %s", problem)
        return problem


class Appends:
    """The partitions and logs to which a turn has appended.

    partitions  that have grown, or whose log start has moved, since fetches were last woken
    unsynced    logs that have grown since their last sync, each with its shard, if any
    memory      limits what logs in memory may take
    """

    def __init__(self, memory: MemoryLimit) -> None:
        self.memory = memory
        self.partitions: dict[Partition, None] = {}
        self.unsynced: dict[Log, HostedShard | None] = {}

    def record(self, partition: Partition) -> None:
        """Record an append to a partition: the fetches that wait for it are woken when the turn ends."""
        self.partitions[partition] = None
        self.unsynced.setdefault(partition.log, None)

    def record_deletion(self, partition: Partition) -> None:
        """Record that a log start has moved: followers whose fetches wait get it when the turn ends."""
        if partition.parked:
            self.partitions[partition] = None
