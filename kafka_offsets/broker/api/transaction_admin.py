"""Administration of transactions: describing them, and ending one that hangs.

DescribeTransactions, ListTransactions, DescribeProducers and WriteTxnMarkers (KIP-664). The answers were recorded from
Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from kafka_offsets.broker.context.awaited_logs import Awaiting, TopicAndIndex, awaits_logs
from kafka_offsets.broker.context.incremental import Budget, Steps, run_incrementally
from kafka_offsets.broker.groups.transactions import transactional_ids
from kafka_offsets.broker.partition.partitions import LogLoadingError, Partition
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC, invalid_topic_name
from kafka_offsets.broker.wire.api import LATER, Later
from kafka_offsets.broker.wire.response_aggregator import ResponseAggregator
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.patterns import Pattern, PatternError
from kafka_offsets.coordinator.state.result import RequestContext, TransactionalResult
from kafka_offsets.coordinator.transactions import decisions as transactions
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.mirroring.refusals import refuse
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.replication.leader import LeaderReplica
from kafka_offsets.security.acls import AclOperation, ResourceType
from kafka_offsets.security.authorizer import Sender
from kafka_offsets.storage.log.log import Log

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

_STEP_COST = 1_000_000
"""The most that a step of ListTransactions may cost, in the unit of `Pattern.cost`: about 5 ms."""

_COST_OF_ID = 400
"""The cost of comparing an id with all filters but the regular expression."""

_UNKNOWN_VERSION = -1
"""The transaction version that is none: Kafka fails at a marker with it, and takes other negative numbers for 0."""

_Listed: TypeAlias = "messages.ListTransactionsResponse.TransactionState"

_NOT_HERE = "This server does not host this topic-partition."


# -- transactional ids


def describe_transactions(
    broker: Context, request: messages.DescribeTransactionsRequest, context: RequestContext, now: Now
) -> messages.DescribeTransactionsResponse:
    """Describe transactional ids."""
    described = [_describe(broker, name, context.sender) for name in request.transactional_ids]
    return messages.DescribeTransactionsResponse(transaction_states=described)


def _describe(
    broker: Context, name: str, sender: Sender
) -> messages.DescribeTransactionsResponse.TransactionState:
    response = messages.DescribeTransactionsResponse
    if not name:
        return response.TransactionState(ErrorCode.INVALID_REQUEST, name)
    transaction = broker.transactions.find(name)
    if transaction is None:
        return response.TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, name)
    if isinstance(transaction, ErrorCode):
        return response.TransactionState(transaction, name)
    by_topic: dict[str, list[int]] = {}
    for topic, index in transaction.partitions:
        by_topic.setdefault(topic, []).append(index)
    return response.TransactionState(
        transactional_id=name,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            response.TopicData(topic, indexes)
            for topic, indexes in by_topic.items()
            if sender.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
        ],
    )


def list_transactions(
    broker: Context, request: messages.ListTransactionsRequest, context: RequestContext, now: Now
) -> messages.ListTransactionsResponse | Later:
    """List transactional ids, filtered by state, producer, duration and a regular expression where requested."""
    if request.transactional_id_pattern:
        try:
            Pattern(request.transactional_id_pattern)
        except PatternError:
            return refuse(request, ErrorCode.INVALID_REGULAR_EXPRESSION, context.api_version)
    return run_incrementally(broker, context, _listed_transactions(broker, request, context.sender, now))


def _listed_transactions(
    broker: Context, request: messages.ListTransactionsRequest, sender: Sender, now: Now
) -> Steps[messages.ListTransactionsResponse]:
    response = messages.ListTransactionsResponse
    budget = Budget(_STEP_COST)
    states, unknown = transactions.known_states(request.state_filters)
    wanted_states = states if request.state_filters else None
    producers = frozenset(request.producer_id_filters)
    listed = []
    sees = partial(sender.sees, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
    for name, transaction in transactional_ids(broker.transactions):
        if transactions.is_listed(
            transaction, wanted_states, producers, request.duration_filter, now
        ) and sees(name):
            listed.append(response.TransactionState(name, transaction.producer_id, transaction.state.title))
        if budget.spend(_COST_OF_ID):
            yield None
    if request.transactional_id_pattern:
        listed = yield from _matching(request.transactional_id_pattern, listed, budget)
    return response(unknown_state_filters=unknown, transaction_states=listed)


def _matching(
    expression: str, listed: Sequence[_Listed], budget: Budget
) -> Generator[None, None, list[_Listed]]:
    """Return the transactional ids that match.

    Each step compiles the expression again: many requests may wait for their next step, and compiled ones are large.
    """
    pattern, matching = None, []
    for state in listed:
        name = state.transactional_id
        if pattern is None:
            pattern = Pattern(expression)
        if pattern.matches(name):
            matching.append(state)
        if budget.spend(pattern.cost_of(name)):
            pattern = None
            yield None
    return matching


# -- DescribeProducers


def _awaited_partitions(
    broker: Context, request: messages.DescribeProducersRequest, context: RequestContext
) -> list[TopicAndIndex]:
    get = broker.topics.get
    return [(get(named.name), index) for named in request.topics for index in named.partition_indexes]


@awaits_logs(Awaiting(_awaited_partitions, lambda request, version: True))
def describe_producers(
    broker: Context, request: messages.DescribeProducersRequest, context: RequestContext, now: Now
) -> messages.DescribeProducersResponse:
    """Describe the producers of partitions."""
    response = messages.DescribeProducersResponse
    topics = []
    for named in request.topics:
        described = [_describe_partition(broker, named.name, index) for index in named.partition_indexes]
        topics.append(response.TopicResponse(named.name, described))
    return response(topics=topics)


def _describe_partition(
    broker: Context, topic: str, index: int
) -> messages.DescribeProducersResponse.PartitionResponse:
    response = messages.DescribeProducersResponse
    try:
        partition = broker.topics.partition(topic, index)
        if partition is None:
            if invalid := invalid_topic_name(topic):
                return response.PartitionResponse(index, ErrorCode.INVALID_TOPIC_EXCEPTION, invalid)
            message = None if broker.topics.get(topic) is not None else _NOT_HERE
            return response.PartitionResponse(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        return response.PartitionResponse(index, active_producers=_active_producers(partition))
    except LogLoadingError:
        return response.PartitionResponse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    except StorageError as error:
        broker.topics.report(topic, index, error)
        return response.PartitionResponse(index, ErrorCode.KAFKA_STORAGE_ERROR)


def _active_producers(partition: Partition) -> list[messages.DescribeProducersResponse.ProducerState]:
    producers = partition.producers
    states = []
    for producer_id, producer in producers:
        first_offset = producers.open_from(producer_id)
        states.append(
            messages.DescribeProducersResponse.ProducerState(
                producer_id,
                producer.epoch,
                producer.batches[-1].last_sequence if producer.batches else -1,
                producer.last_timestamp,
                producer.coordinator_epoch,
                -1 if first_offset is None else first_offset,
            )
        )
    return states


# -- WriteTxnMarkers

_NOBODY = -1
"""The id and the epoch of no producer."""

_Marker: TypeAlias = "messages.WriteTxnMarkersRequest.WritableTxnMarker"


def _partitions_of_markers(
    broker: Context, request: messages.WriteTxnMarkersRequest, context: RequestContext
) -> list[TopicAndIndex]:
    named = [topic for marker in request.markers for topic in marker.topics]
    return [
        (broker.topics.get(topic.name), index)
        for topic in named
        if topic.name != OFFSETS_TOPIC  # its shards write their markers
        for index in topic.partition_indexes
    ]


@awaits_logs(Awaiting(_partitions_of_markers, lambda request, version: True))
def write_markers(
    broker: Context, request: messages.WriteTxnMarkersRequest, context: RequestContext, now: Now
) -> messages.WriteTxnMarkersResponse | Later:
    """Write markers to partitions, whatever the state of the transaction coordinator.

    A marker without a producer fails the whole request, as it fails in Kafka when the marker is built; earlier markers
    are written by then. The results of markers of one producer are merged. A partition gets one marker, also if it is
    named twice.
    """
    named_once = dict.fromkeys(
        (number, (named.name, index))
        for number, marker in enumerate(request.markers)
        for named in marker.topics
        for index in named.partition_indexes
    )
    marked_partitions = list(named_once)
    logs: list[Log] = []
    has_failed = False

    def build(errors: list[ErrorCode]) -> messages.WriteTxnMarkersResponse:
        if has_failed:
            return fail_write_markers(request, ErrorCode.UNKNOWN_SERVER_ERROR, context.api_version)
        verdicts: list[dict[TopicPartition, ErrorCode]] = [{} for _ in request.markers]
        for (number, topic_partition), error in zip(marked_partitions, errors, strict=True):
            verdicts[number][topic_partition] = error
        return _markers_answer(request, verdicts)

    if not marked_partitions:
        return _markers_answer(request, [{} for _ in request.markers])
    aggregator = ResponseAggregator(
        broker.responses.respond, context, len(marked_partitions), build, lambda index, error: error
    )
    for at, (number, topic_partition) in enumerate(marked_partitions):
        marker = request.markers[number]
        error = ErrorCode.NONE if has_failed else _write_marker(broker, marker, topic_partition, logs, now)
        is_whole = marker.transaction_version != _UNKNOWN_VERSION
        has_failed = has_failed or (error is ErrorCode.UNKNOWN_SERVER_ERROR and is_whole)
        if error is None:
            _write_to_shard(
                broker, marker, topic_partition[1], partial(broker.responses.respond, aggregator.part(at))
            )
        else:
            broker.durability.respond_when_durable(aggregator.part(at), error, logs)
    return LATER


def _write_marker(
    broker: Context, marker: _Marker, topic_partition: TopicPartition, logs: list[Log], now: Now
) -> ErrorCode | None:
    """Write one marker, or return why not; None when it belongs to a group's shard.

    UNKNOWN_SERVER_ERROR if the marker cannot be built.
    """
    if broker.replicas is not None:
        if not broker.replicas.hosts(*topic_partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        state = broker.replicas.state(*topic_partition)
        if state is None or state.leader != broker.node.id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
    try:
        partition = broker.topics.partition(*topic_partition)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker.replicas is not None and not isinstance(partition.replica, LeaderReplica):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # its log is being opened
        if marker.transaction_version == _UNKNOWN_VERSION:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if topic_partition[0] == OFFSETS_TOPIC:
            return None
        if _NOBODY in (marker.producer_id, marker.producer_epoch):
            return ErrorCode.UNKNOWN_SERVER_ERROR
        error = partition.producers.check_marker(
            marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version
        )
        if not error:
            partition.append_marker(
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                now,
                is_commit=marker.transaction_result,
            )
            broker.appends.record(partition)
            logs.append(partition.log)
    except LogLoadingError:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    except StorageError as problem:
        broker.topics.report(*topic_partition, problem)
        return ErrorCode.KAFKA_STORAGE_ERROR
    else:
        return error


def _write_to_shard(broker: Context, marker: _Marker, index: int, done: Callable[[ErrorCode], None]) -> None:
    hosted = broker.groups.shards.hosted_partition(index)
    if _NOBODY in (marker.producer_id, marker.producer_epoch):
        done(ErrorCode.UNKNOWN_SERVER_ERROR)
    elif marker.producer_epoch < _NOBODY:
        done(ErrorCode.INVALID_PRODUCER_EPOCH)
    elif hosted is None or hosted.failed:
        done(ErrorCode.KAFKA_STORAGE_ERROR)
    elif hosted.is_loading:
        done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    else:
        result = TransactionalResult(
            marker.producer_id,
            marker.producer_epoch,
            is_commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            done=done,
        )
        broker.groups.shards.decide_transactional(hosted, result)


def _markers_answer(
    request: messages.WriteTxnMarkersRequest, verdicts: list[dict[TopicPartition, ErrorCode]]
) -> messages.WriteTxnMarkersResponse:
    response = messages.WriteTxnMarkersResponse
    by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker, verdict in zip(request.markers, verdicts, strict=True):
        if verdict:
            by_producer.setdefault(marker.producer_id, {}).update(verdict)
    results = []
    for producer_id, verdict in by_producer.items():
        by_topic: dict[str, list[messages.WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]] = {}
        for (topic, index), error in verdict.items():
            result = response.WritableTxnMarkerPartitionResult(index, error)
            by_topic.setdefault(topic, []).append(result)
        topics = [response.WritableTxnMarkerTopicResult(*item) for item in by_topic.items()]
        results.append(response.WritableTxnMarkerResult(producer_id, topics))
    return response(markers=results)


def fail_write_markers(
    request: messages.WriteTxnMarkersRequest, error: ErrorCode, api_version: int
) -> messages.WriteTxnMarkersResponse:
    """Answer every partition with `error`."""
    verdicts = [
        {(named.name, index): error for named in marker.topics for index in named.partition_indexes}
        for marker in request.markers
    ]
    return _markers_answer(request, verdicts)
