"""Transaction peers: what the transaction coordinator and the handlers of transactions need of other brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kafka_offsets.broker.wire.channel import OnAnswer
from kafka_offsets.broker.wire.connection import ClientConnection
from kafka_offsets.coordinator.transactions.decisions import Transaction
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition

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

    def elsewhere(self, topic_partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Return the partitions that other brokers lead, by leader; those without a leader by -1."""

    def coordinates(self, transactional_id: str | None) -> bool:
        """Whether this broker coordinates a transactional id."""

    def write_markers(
        self,
        leader: int,
        prepared: Transaction,
        coordinator_epoch: int,
        topic_partitions: list[TopicPartition],
        on_outcomes: OnOutcomes,
    ) -> None:
        """Have the leader of partitions end a transaction there."""

    def add_or_verify(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        topic_partitions: list[TopicPartition],
        on_outcomes: OnOutcomes,
        *,
        adds: bool,
    ) -> None:
        """Have the coordinator add partitions to the transaction of a producer, or verify that they are in it."""
