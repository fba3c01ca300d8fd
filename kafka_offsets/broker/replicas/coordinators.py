"""Coordinators of a cluster: this broker coordinates the groups and transactional ids of the partitions that it leads.

Who begins to lead a partition of an internal topic loads its log; who leads it no longer answers NOT_COORDINATOR to
everything that waits. Source: GroupCoordinatorService.onElection and onResignation of Kafka 4.3.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kafka_offsets.broker.groups.runtime import HostedShard
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafka_offsets.replication.leader import LeaderReplica

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.broker.partition.partitions import Partition
    from kafka_offsets.broker.turn.scheduler import Deadline, Scheduler

_MOST_AT_ONCE_BYTES = 1 << 20
"""A longer log is loaded in the background: this broker serves other partitions too, and their followers wait."""


class Coordinators:
    """The group and transaction coordinator of one broker, as far as it leads their partitions."""

    def __init__(self, broker: Context) -> None:
        self._broker = broker

    def load(self, partition: Partition, replica: LeaderReplica) -> None:
        """Load a partition that this broker is about to lead. Raises StorageError."""
        broker = self._broker
        now = broker.clock.now()
        if partition.topic == OFFSETS_TOPIC:
            at_once_bytes = min(broker.config.offsets_load_before_listening_bytes, _MOST_AT_ONCE_BYTES)
            hosted = broker.groups.runtime.take_over(partition.index, replica, now, at_once_bytes)
            hosted.on_wait = _CommitTimeout(
                hosted, broker.scheduler, broker.config.offsets_commit_timeout_ms
            ).watch
            if hosted.is_loading:
                broker.groups.loader.load(hosted)
            else:
                broker.groups.shards.touch(hosted)
        elif partition.topic == TRANSACTIONS_TOPIC:
            broker.transactions.take_over(partition)

    def carry_on(self, partition: Partition) -> None:
        """Continue what was decided before this broker led the partition."""
        if partition.topic == TRANSACTIONS_TOPIC:
            self._broker.transactions.carry_on_partition(partition.index)

    def resign(self, partition: Partition) -> None:
        """Drop what was loaded of a partition that this broker leads no longer."""
        if partition.topic == OFFSETS_TOPIC:
            self._broker.groups.runtime.resign(partition.index)
        elif partition.topic == TRANSACTIONS_TOPIC:
            self._broker.transactions.resign(partition.index)

    def replicated(self, partition: Partition) -> None:
        """Let decisions take effect whose records the in-sync replicas have by now."""
        if partition.topic == OFFSETS_TOPIC:
            hosted = self._broker.groups.runtime.shards.get(partition.index)
            if hosted is not None and not hosted.failed:
                hosted.take_effect()


class _CommitTimeout:
    """Answers the requests of one shard whose records the in-sync replicas do not get in time.

    _waiting  (deadline, offset): what was decided up to the offset is answered at the deadline
    Source: CoordinatorRuntime of Kafka 4.3, whose writes end after `offsets.commit.timeout.ms`.
    """

    def __init__(self, hosted: HostedShard, scheduler: Scheduler, timeout_ms: int) -> None:
        self._hosted = hosted
        self._scheduler = scheduler
        self._timeout_ms = timeout_ms
        self._waiting: deque[tuple[Deadline, int]] = deque()

    def watch(self) -> None:
        """Limit the wait of what was decided by now."""
        hosted, waiting, end_offset = self._hosted, self._waiting, self._hosted.log.log_end_offset
        while waiting and waiting[0][1] <= hosted.applied_offset:
            waiting.popleft()[0].cancel()
        if not waiting or waiting[-1][1] != end_offset:
            deadline = self._scheduler.client_timeout(
                self._timeout_ms, lambda now: hosted.time_out(end_offset)
            )
            waiting.append((deadline, end_offset))
