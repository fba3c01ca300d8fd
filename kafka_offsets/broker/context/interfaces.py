"""Interfaces: what request handlers and the transaction coordinator need of replicas and of other brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from kafka_offsets.broker.context.acknowledgements import Acknowledgements
from kafka_offsets.broker.context.channel import OnAnswer
from kafka_offsets.broker.context.deletions import Deletions
from kafka_offsets.broker.partition.partitions import Partition
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.transactions.decisions import Transaction
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.replication.partition_state import PartitionState

if TYPE_CHECKING:
    from kafka_offsets.broker.wire.connection import ClientConnection

Outcomes = Mapping[TopicPartition, ErrorCode]
OnOutcomes = Callable[[Outcomes], None]


class TransactionPeers(Protocol):
    """The other brokers, as transactions need them."""

    def send(
        self,
        node_id: int,
        client: ClientConnection,
        request: messages.MessageValue,
        version: int,
        on_answer: OnAnswer,
    ) -> None:
        """Send a request of a client's connection to another broker, after the earlier ones of that connection."""

    def withdraw(self, client: ClientConnection, node_id: int) -> None:
        """Have a broker decide nothing of a client's connection that it has not read yet."""

    def client_left(self, client: ClientConnection) -> None:
        """As `withdraw`, for all brokers."""

    def elsewhere(self, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Return the partitions that other brokers lead, by leader; those without a leader by -1."""

    def coordinates(self, transactional_id: str | None) -> bool:
        """Whether this broker coordinates a transactional id."""

    def write_markers(
        self,
        leader: int,
        prepared: Transaction,
        coordinator_epoch: int,
        places: list[TopicPartition],
        on_outcomes: OnOutcomes,
    ) -> None:
        """Have the leader of partitions end a transaction there."""

    def add_or_verify(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        places: list[TopicPartition],
        on_outcomes: OnOutcomes,
        *,
        adds: bool,
    ) -> None:
        """Have the coordinator add partitions to the transaction of a producer, or verify that they are in it."""


class Replicas(Protocol):
    """The replicas of this broker, as requests need them."""

    @property
    def acknowledgements(self) -> Acknowledgements:
        """The responses that wait until the in-sync replicas have the records."""

    @property
    def deletions(self) -> Deletions:
        """The responses that wait until all replicas have deleted records."""

    @property
    def peers(self) -> TransactionPeers:
        """The other brokers, as transactions need them."""

    def state(self, topic: str, index: int) -> PartitionState | None:
        """Return the state of a partition; None if it does not exist."""

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
        """Note the fetch of a follower whose records are the leader's up to its offset."""

    def end_turn(self, now: Now) -> None:
        """Note what this turn has appended, and fetch what this broker follows since."""
