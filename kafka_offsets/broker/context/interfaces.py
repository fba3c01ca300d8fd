"""Interfaces: what request handlers and the transaction coordinator need of replicas and of other brokers."""

from __future__ import annotations

from typing import Protocol

from kafka_offsets.broker.context.pending import Deleted, Pending
from kafka_offsets.broker.groups.transaction_peers import TransactionPeers
from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.replication.partition_state import PartitionState


class Replicas(Protocol):
    """The replicas of this broker, as requests need them."""

    @property
    def acknowledgements(self) -> Pending[ErrorCode]:
        """The responses that wait until the in-sync replicas have the records."""

    @property
    def deletions(self) -> Pending[Deleted]:
        """The responses that wait until all replicas have deleted records."""

    @property
    def peers(self) -> TransactionPeers:
        """The other brokers, as transactions need them."""

    @property
    def may_be_fenced(self) -> bool:
        """Whether the controller may have fenced this broker, and others may lead what it leads."""

    def state(self, topic: str, index: int) -> PartitionState | None:
        """Return the state of a partition; None if it does not exist."""

    def take_role(self, topic: str, index: int) -> None:
        """Lead or follow a partition now that a request needs, if that was postponed."""

    def hosts(self, topic: str, index: int) -> bool:
        """Whether this broker is a replica of a partition."""
        ...

    def fetched(
        self,
        partition: Partition,
        follower: int,
        broker_epoch: int,
        asked: messages.FetchRequest.FetchPartition,
    ) -> None:
        """Record the fetch of a follower whose records are the leader's up to its offset."""

    def end_turn(self, now: Now) -> None:
        """Record what this turn has appended, and fetch what this broker follows since."""
