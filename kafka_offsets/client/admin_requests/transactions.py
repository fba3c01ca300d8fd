"""Transactions: which are open, what they hold, which hang, and how a hanging one is ended (KIP-664).

A transaction hangs in a partition when its coordinator does not know of it there: the marker that would end it never
comes, and no consumer of committed records reads on. Source: TransactionsCommand of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ErrorCode, KafkaOffsetsError, RefusedError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.topic_partition import TopicPartition

_LIST, _FIND_VERSION, _MARKERS_VERSION, _TRANSACTIONAL_ID = 66, 3, 1, 1
_DURATION_VERSION, _PATTERN_VERSION = 1, 2
_TOGETHER = 500
"""How many partitions one request is about."""


class ListedTransaction(NamedTuple):
    """A transactional id, and the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionFacts(NamedTuple):
    """A transaction; start_ms is None while none is open."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ProducerFacts(NamedTuple):
    """A producer in a partition; None where the broker does not know, or no transaction is open."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    last_sequence: int | None
    last_timestamp: int | None
    start_offset: int | None


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    place: TopicPartition
    producer: ProducerFacts


def transactions(
    cluster: ClusterClient,
    refused: dict[int, KafkaOffsetsError] | None = None,
    *,
    producer_ids: Collection[int] = (),
    states: Collection[str] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """Return the transactional ids of all coordinators, sorted; `refused` gets the brokers that do not tell theirs."""

    def ask(node: int) -> list[ListedTransaction]:
        broker, _ = cluster.broker(node)
        served = broker.latest_version(_LIST)
        if (longer_than_ms >= 0 and served < _DURATION_VERSION) or (pattern and served < _PATTERN_VERSION):
            raise RefusedError(
                f"transactions of broker {node}, by duration or pattern", ErrorCode.UNSUPPORTED_VERSION
            )
        request = messages.ListTransactionsRequest(list(states), list(producer_ids), longer_than_ms, pattern)
        response = broker.call(request, min(served, _PATTERN_VERSION))
        if response.error_code:
            raise RefusedError(f"transactions of broker {node}", response.error_code)
        if response.unknown_state_filters:
            raise RefusedError(
                f"state {', '.join(response.unknown_state_filters)}", ErrorCode.INVALID_REQUEST
            )
        return [
            ListedTransaction(state.transactional_id, node, state.producer_id, state.transaction_state)
            for state in response.transaction_states
        ]

    return sorted(set(cluster.of_all_brokers(ask, refused)))


def describe(cluster: ClusterClient, transactional_id: str) -> TransactionFacts:
    """Return what the coordinator tells of a transactional id. Raises RefusedError."""

    def ask(broker: Connection) -> TransactionFacts:
        what = f"transactional id {transactional_id}"
        home = broker.call(
            messages.FindCoordinatorRequest(transactional_id, _TRANSACTIONAL_ID), _FIND_VERSION
        )
        if home.error_code:
            raise RefusedError(f"coordinator of {what}", home.error_code)
        coordinator, _ = cluster.broker(home.node_id)
        (state,) = coordinator.call(
            messages.DescribeTransactionsRequest([transactional_id]), 0
        ).transaction_states
        if state.error_code:
            raise RefusedError(what, state.error_code)
        return TransactionFacts(
            state.transactional_id,
            home.node_id,
            state.producer_id,
            state.producer_epoch,
            state.transaction_state,
            state.transaction_timeout_ms,
            state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None,
            tuple(
                sorted((topic.topic, partition) for topic in state.topics for partition in topic.partitions)
            ),
        )

    return cluster.ask_any(ask)


def producers(
    cluster: ClusterClient, places: Iterable[TopicPartition], refused: dict[TopicPartition, KafkaOffsetsError]
) -> dict[TopicPartition, list[ProducerFacts]]:
    """Return the producers of partitions, by their leaders; `refused` gets the error of each that is not known."""
    producers_by_partition: dict[TopicPartition, list[ProducerFacts]] = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    topic_partitions = set(places)
    leaders = cluster.leaders({topic for topic, _ in topic_partitions})
    for partition in sorted(topic_partitions):
        if partition not in leaders:
            refused[partition] = RefusedError(
                f"{partition[0]}-{partition[1]}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        elif leaders[partition] < 0:
            refused[partition] = RefusedError(
                f"{partition[0]}-{partition[1]}", ErrorCode.LEADER_NOT_AVAILABLE
            )
        else:
            by_leader.setdefault(leaders[partition], []).append(partition)
    for leader, led in by_leader.items():
        for begin in range(0, len(led), _TOGETHER):
            chunk = led[begin : begin + _TOGETHER]
            try:
                broker, _ = cluster.broker(leader)
                _read_producers(broker, chunk, producers_by_partition, refused)
            except KafkaOffsetsError as error:
                refused.update(dict.fromkeys(chunk, error))
    return producers_by_partition


def _read_producers(
    broker: Connection,
    topic_partitions: Iterable[TopicPartition],
    producers_by_partition: dict[TopicPartition, list[ProducerFacts]],
    refused: dict[TopicPartition, KafkaOffsetsError],
) -> None:
    made = messages.DescribeProducersRequest
    topics: dict[str, Any] = {}
    for topic, partition in topic_partitions:
        topics.setdefault(topic, made.TopicRequest(topic)).partition_indexes.append(partition)
    for answered in broker.call(made(list(topics.values())), 0).topics:
        for described in answered.partitions:
            topic_partition = answered.name, described.partition_index
            if described.error_code:
                refused[topic_partition] = RefusedError(
                    f"{topic_partition[0]}-{topic_partition[1]}", described.error_code
                )
                continue
            producers_by_partition[topic_partition] = [
                ProducerFacts(
                    state.producer_id,
                    state.producer_epoch,
                    _known(state.coordinator_epoch),
                    _known(state.last_sequence),
                    _known(state.last_timestamp),
                    _known(state.current_txn_start_offset),
                )
                for state in sorted(described.active_producers, key=lambda one: one.producer_id)
            ]


def _known(number: int) -> int | None:
    return None if number < 0 else number


def hanging(cluster: ClusterClient, opened: Iterable[OpenTransaction]) -> list[OpenTransaction]:
    """Return the open transactions of which their coordinators do not know in these partitions. Raises RefusedError."""
    open_transactions = list(opened)
    if not open_transactions:
        return []
    producer_ids = {transaction.producer.producer_id for transaction in open_transactions}
    ids = {
        transaction.producer_id: transaction.transactional_id
        for transaction in transactions(cluster, producer_ids=producer_ids)
    }
    held: dict[int, tuple[TopicPartition, ...]] = {}
    for producer_id, transactional_id in ids.items():
        try:
            facts = describe(cluster, transactional_id)
        except RefusedError as error:
            if error.error_code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            continue
        if facts.producer_id == producer_id:
            held[producer_id] = facts.partitions
    return [
        transaction
        for transaction in open_transactions
        if transaction.place not in held.get(transaction.producer.producer_id, ())
    ]


def abort(cluster: ClusterClient, place: TopicPartition, producer: ProducerFacts) -> None:
    """Write the marker that aborts a producer's transaction in a partition. Raises RefusedError."""
    made = messages.WriteTxnMarkersRequest
    topic = made.WritableTxnMarkerTopic(place[0], [place[1]])
    marker = made.WritableTxnMarker(
        producer.producer_id, producer.producer_epoch, False, [topic], max(producer.coordinator_epoch or 0, 0)
    )

    def ask(broker: Connection) -> None:
        (result,) = broker.call(made([marker]), _MARKERS_VERSION).markers
        code = result.topics[0].partitions[0].error_code
        if code:
            raise RefusedError(
                f"abort of the transaction of producer {producer.producer_id} in {place[0]}-{place[1]}", code
            )

    cluster.ask_leader(place, ask)
