"""Growth in a turn: partitions for which fetches may wait, and logs that are not synced yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.storage.log.log import Log

if TYPE_CHECKING:
    from kafka_offsets.broker.groups.runtime import HostedShard


class Growth:
    """The partitions and logs that have grown.

    partitions  that have grown, or whose log start has moved, since fetches were last woken
    unsynced    logs that have grown since their last sync, each with its shard, if any
    """

    def __init__(self) -> None:
        self.partitions: dict[Partition, None] = {}
        self.unsynced: dict[Log, HostedShard | None] = {}

    def note(self, partition: Partition) -> None:
        """Note that a partition has grown: the fetches that wait for it are woken when the turn ends."""
        self.partitions[partition] = None
        self.unsynced.setdefault(partition.log, None)

    def note_deletion(self, partition: Partition) -> None:
        """Note that a log start has moved: followers whose fetches wait get it when the turn ends."""
        if partition.parked:
            self.partitions[partition] = None
