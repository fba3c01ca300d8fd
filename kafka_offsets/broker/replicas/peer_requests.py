"""Peer requests of transactions: markers to the leaders of partitions, and partitions to the coordinator.

The coordinator of a transactional id is one broker, the leaders of the partitions in its transaction are others.
Markers go to them by WriteTxnMarkers; they add or verify their partitions by AddPartitionsToTxn (KIP-890). Source:
TransactionMarkerChannelManager and AddPartitionsToTxnManager of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kafka_offsets.broker.groups.transaction_peers import OnOutcomes
from kafka_offsets.broker.partition.topic_names import TRANSACTIONS_TOPIC
from kafka_offsets.broker.wire.channel import Channel, OnAnswer
from kafka_offsets.coordinator.transactions.decisions import Transaction
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.protocol.topic_partition import TopicPartition, by_topic
from kafka_offsets.replication.partition_state import NO_LEADER

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.broker.wire.connection import ClientConnection

_MARKERS_VERSION = 1
_ADD_VERSION = 5
"""Of AddPartitionsToTxn: sent by brokers, with a flag for verification alone."""


class PeerRequests:
    """The requests of one broker to others, for transactions.

    leader_of   (topic, partition) -> the broker that leads it, -1 for none
    channel_to  returns a new channel to a broker
    """

    def __init__(
        self,
        broker: Context,
        leader_of: Callable[[str, int], int],
        channel_to: Callable[[int], Channel],
    ) -> None:
        self._broker = broker
        self._leader_of = leader_of
        self._channel_to = channel_to
        self._channels: dict[int, Channel] = {}
        self._of_clients: dict[ClientConnection, dict[int, Channel]] = {}

    def _channel(self, node_id: int) -> Channel:
        channel = self._channels.get(node_id)
        if channel is None:
            channel = self._channels[node_id] = self._channel_to(node_id)
        return channel

    def send(
        self,
        node_id: int,
        client: ClientConnection,
        request: messages.MessageValue,
        version: int,
        on_answer: OnAnswer,
    ) -> None:
        """Send a client's request to another broker.

        client  its requests go over a channel of their own, which keeps their order and is closed with it
        """
        channels = self._of_clients.setdefault(client, {})
        channel = channels.get(node_id)
        if channel is None:
            channel = channels[node_id] = self._channel_to(node_id)
        channel.send(request, version, on_answer)

    def withdraw(self, client: ClientConnection, node_id: int) -> None:
        """Close the channel of a client to a broker: what that has not read yet it does not decide."""
        channel = self._of_clients.get(client, {}).pop(node_id, None)
        if channel is not None:
            channel.close()

    def client_left(self, client: ClientConnection) -> None:
        """Close the channels of a client whose connection is closed."""
        for channel in self._of_clients.pop(client, {}).values():
            channel.close()

    def stop(self) -> None:
        """Close all channels."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        for client in list(self._of_clients):
            self.client_left(client)

    def elsewhere(self, topic_partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Return the partitions that other brokers lead, by leader; those without a leader by `NO_LEADER`."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in topic_partitions:
            leader = self._leader_of(*topic_partition)
            exists = self._broker.topics.id_and_partition_count(topic_partition[0])[1] > topic_partition[1]
            if exists and leader != self._broker.node.id:
                by_leader.setdefault(leader, []).append(topic_partition)
        return by_leader

    def write_markers(
        self,
        leader: int,
        prepared: Transaction,
        coordinator_epoch: int,
        topic_partitions: list[TopicPartition],
        on_outcomes: OnOutcomes,
    ) -> None:
        """Have the leader of partitions end a transaction there."""
        lost = dict.fromkeys(topic_partitions, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if leader == NO_LEADER:
            on_outcomes(lost)
            return
        made = messages.WriteTxnMarkersRequest
        marker = made.WritableTxnMarker(
            prepared.producer_id,
            prepared.producer_epoch,
            prepared.commits,
            [
                made.WritableTxnMarkerTopic(topic, indexes)
                for topic, indexes in by_topic(topic_partitions).items()
            ],
            coordinator_epoch,
        )

        def answered(response: messages.WriteTxnMarkersResponse | None) -> None:
            """Report the outcome of each partition."""
            if response is None:
                on_outcomes(lost)
                return
            on_outcomes(
                {
                    (topic.name, partition.partition_index): ErrorCode(partition.error_code)
                    for result in response.markers
                    for topic in result.topics
                    for partition in topic.partitions
                }
            )

        self._channel(leader).send(made([marker]), _MARKERS_VERSION, answered)

    def coordinator_of(self, transactional_id: str) -> int:
        """Return the broker that coordinates a transactional id; `NO_LEADER` if there is none."""
        count = self._broker.topics.id_and_partition_count(TRANSACTIONS_TOPIC)[1]
        return (
            self._leader_of(TRANSACTIONS_TOPIC, partition_for(transactional_id, count))
            if count
            else NO_LEADER
        )

    def coordinates(self, transactional_id: str | None) -> bool:
        """Whether this broker coordinates a transactional id."""
        return not transactional_id or self.coordinator_of(transactional_id) == self._broker.node.id

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
        lost = dict.fromkeys(topic_partitions, ErrorCode.NOT_COORDINATOR)
        coordinator = self.coordinator_of(transactional_id)
        if coordinator == NO_LEADER:
            on_outcomes(lost)
            return
        made = messages.AddPartitionsToTxnRequest
        transaction = made.AddPartitionsToTxnTransaction(
            transactional_id,
            *producer,
            not adds,
            [
                made.AddPartitionsToTxnTopic(topic, indexes)
                for topic, indexes in by_topic(topic_partitions).items()
            ],
        )

        def answered(response: messages.AddPartitionsToTxnResponse | None) -> None:
            """Report the outcome of each partition."""
            if response is None or response.error_code:
                on_outcomes(lost)
                return
            on_outcomes(
                lost
                | {
                    (topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
                    for result in response.results_by_transaction
                    for topic in result.topic_results
                    for partition in topic.results_by_partition
                }
            )

        self._channel(coordinator).send(made(transactions=[transaction]), _ADD_VERSION, answered)
