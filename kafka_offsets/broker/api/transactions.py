"""The requests of producers: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn.

The responses were recorded from Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kafka_offsets.broker.groups.runtime import HostedShard
from kafka_offsets.broker.groups.transaction_peers import Outcomes
from kafka_offsets.broker.partition.partitions import INTERNAL_TOPICS
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.broker.wire.api import LATER, Later
from kafka_offsets.broker.wire.rights import Right, Rights
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.offsets import transactional_offsets
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.coordinator.transactions import decisions as transactions
from kafka_offsets.coordinator.transactions.decisions import Decision, Transaction
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.protocol.mirroring.refusals import R, refuse, refuse_each
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from kafka_offsets.storage.log.log import Log

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

_FENCED_SINCE = {22: 4, 24: 2, 25: 2, 26: 2}
"""From this version of an API on a fenced producer gets PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH (KIP-588)."""

_BATCHES_SINCE = 4
"""From this version of AddPartitionsToTxn on brokers send it, for several transactions (KIP-890)."""

_EPOCH_BUMPED_SINCE = 5
"""From this version of EndTxn and AddPartitionsToTxn on the client has transaction version 2 (KIP-890)."""

_ADDS_SINCE = 5
_ABORTABLE_SINCE = 4
"""From these versions of TxnOffsetCommit on the request adds its group to the transaction, and clients know
TRANSACTION_ABORTABLE (KIP-890)."""


def _client_error(error: ErrorCode, context: RequestContext) -> ErrorCode:
    """Return an error that the version of the client knows."""
    if error is ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_SINCE[context.api_key]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


# -- InitProducerId


def init_producer_id(
    broker: Context, request: messages.InitProducerIdRequest, context: RequestContext, now: Now
) -> messages.InitProducerIdResponse | Later:
    """Give a producer a new id, or a transactional id its producer id and next epoch.

    A producer without a transactional id that names its old id gets a new one. It needs the right to write to some
    topic, or to all (KIP-679).
    """
    sender = context.sender
    if request.transactional_id is None and not (
        sender.sees(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        or sender.may_on_some(AclOperation.WRITE, ResourceType.TOPIC)
    ):
        return fail_init_producer_id(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, context.api_version)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return fail_init_producer_id(request, ErrorCode.INVALID_REQUEST, context.api_version)
    if request.transactional_id is None:
        return messages.InitProducerIdResponse(producer_id=broker.topics.new_producer_id(), producer_epoch=0)
    if not request.transactional_id:
        return fail_init_producer_id(request, ErrorCode.INVALID_REQUEST, context.api_version)
    if not 0 < request.transaction_timeout_ms <= broker.config.transaction_max_timeout_ms:
        return fail_init_producer_id(request, ErrorCode.INVALID_TRANSACTION_TIMEOUT, context.api_version)
    expected = None if request.producer_id == -1 else (request.producer_id, request.producer_epoch)

    def decide(transaction: Transaction | None) -> Decision:
        return transactions.init_producer_id(
            transaction, request.transaction_timeout_ms, expected, broker.topics.new_producer_id, now
        )

    error, assigned, logs = broker.transactions.decide(request.transactional_id, decide, now)
    if error or assigned is None:
        response = fail_init_producer_id(request, _client_error(error, context), context.api_version)
    else:
        response = messages.InitProducerIdResponse(
            producer_id=assigned.producer_id, producer_epoch=assigned.producer_epoch
        )
    broker.durability.respond_when_durable(context, response, logs)
    return LATER


def fail_init_producer_id(
    request: messages.InitProducerIdRequest, error: ErrorCode, api_version: int
) -> messages.InitProducerIdResponse:
    """Refuse an id. A StorageError is answered with COORDINATOR_NOT_AVAILABLE, which producers retry."""
    return messages.InitProducerIdResponse(error_code=_retriable(error), producer_id=-1, producer_epoch=-1)


def fail_transaction(request: Any, error: ErrorCode, api_version: int) -> R:  # type: ignore[type-var]
    """Refuse a request of a producer. A StorageError is answered with COORDINATOR_NOT_AVAILABLE, which it retries."""
    return refuse(request, _retriable(error), api_version)


def _retriable(error: ErrorCode) -> ErrorCode:
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error is ErrorCode.KAFKA_STORAGE_ERROR else error


# -- AddPartitionsToTxn

ADDITION_RIGHTS = Rights(
    (
        Right(
            AclOperation.CLUSTER_ACTION,
            ResourceType.CLUSTER,
            lambda _, version: () if version < _BATCHES_SINCE else (CLUSTER_NAME,),
        ),
        Right(
            AclOperation.WRITE,
            ResourceType.TRANSACTIONAL_ID,
            lambda request, version: (
                (request.v3_and_below_transactional_id,) if version < _BATCHES_SINCE else ()
            ),
        ),
    ),
    by_handler=True,
)
"""Of brokers the right to act for the cluster; clients also need the right to write to each topic."""


def add_partitions(
    broker: Context, request: messages.AddPartitionsToTxnRequest, context: RequestContext, now: Now
) -> messages.AddPartitionsToTxnResponse | Later:
    """Add partitions to transactions, all of a transaction or none, or verify that they are in one."""
    response = messages.AddPartitionsToTxnResponse
    if context.api_version < _BATCHES_SINCE:
        topics = request.v3_and_below_topics
        by_topic, logs = _add(
            broker,
            request.v3_and_below_transactional_id,
            (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            topics,
            topics,
            context,
            now,
        )
        message = response(results_by_topic_v3_and_below=by_topic)
        broker.durability.respond_when_durable(context, message, logs)
        return LATER
    # Of transactions with one id Kafka takes the last one's partitions for each, and answers with the first one's.
    last = {transaction.transactional_id: transaction.topics for transaction in request.transactions}
    first = {
        transaction.transactional_id: transaction.topics for transaction in reversed(request.transactions)
    }
    results = []
    waiting: list[Log] = []
    for transaction in request.transactions:
        name, producer = transaction.transactional_id, (transaction.producer_id, transaction.producer_epoch)
        if transaction.verify_only:
            by_topic = _merged(_verify(broker, name, producer, last[name]))
        else:
            by_topic, logs = _add(broker, name, producer, last[name], first[name], context, now)
            waiting += logs
        results.append(response.AddPartitionsToTxnResult(name, by_topic))
    broker.durability.respond_when_durable(context, response(results_by_transaction=results), waiting)
    return LATER


def fail_add(
    request: messages.AddPartitionsToTxnRequest, error: ErrorCode, api_version: int
) -> messages.AddPartitionsToTxnResponse:
    """Answer every partition with `error`, also in the versions with an error of the whole request."""
    if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return refuse(request, error, api_version)
    return refuse_each(request, _retriable(error), api_version)


_Topics: TypeAlias = "list[messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]"
_Results: TypeAlias = "list[messages.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]"


def _partitions(topics: _Topics) -> list[TopicPartition]:
    return [(named.name, index) for named in topics for index in named.partitions]


def _add(
    broker: Context,
    transactional_id: str,
    producer: tuple[int, int],
    topics: _Topics,
    answered: _Topics,
    context: RequestContext,
    now: Now,
) -> tuple[_Results, tuple[Log, ...]]:
    """Add the partitions of one transaction; return the response for each, and the logs to wait for.

    answered  the partitions in the response, unless one of those to add is refused
    """
    partitions = _partitions(topics)
    forbidden = forbidden_topics(topics, context) if context.api_version < _BATCHES_SINCE else ()
    if refused := _merged(_refused(broker, partitions, forbidden)):
        return refused, ()
    if not transactional_id:
        return _mirrored(answered, ErrorCode.INVALID_REQUEST), ()
    version = 2 if context.api_version >= _EPOCH_BUMPED_SINCE else 0

    def decide(transaction: Transaction | None) -> Decision:
        return transactions.add_partitions(transaction, *producer, partitions, version, now)

    joins = context.api_version >= _BATCHES_SINCE
    error, _, logs = broker.transactions.decide(transactional_id, decide, now, joins=joins)
    return _mirrored(answered, _client_error(error, context)), logs


def forbidden_topics(topics: _Topics, context: RequestContext) -> set[str]:
    """Return the topics to which a client does not write; brokers add the partitions that they hold."""
    may_write = partial(context.sender.may, AclOperation.WRITE, ResourceType.TOPIC)
    names = {named.name for named in topics}
    return {name for name in names if name in INTERNAL_TOPICS or not may_write(name)}


def _refused(
    broker: Context, partitions: list[TopicPartition], forbidden: Collection[str] = ()
) -> dict[TopicPartition, ErrorCode]:
    """Return the response for each partition when one of them cannot be added; nothing when all can.

    forbidden  topics that the sender may not write to
    """
    verdict = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
    for topic_partition in verdict:
        if topic_partition[0] in forbidden:
            verdict[topic_partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not _exists(broker, topic_partition):
            verdict[topic_partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_refused = any(error is not ErrorCode.OPERATION_NOT_ATTEMPTED for error in verdict.values())
    return verdict if is_refused else {}


def _exists(broker: Context, partition: TopicPartition) -> bool:
    name, index = partition
    return 0 <= index < broker.topics.id_and_partition_count(name)[1]


def _verify(
    broker: Context, transactional_id: str, producer: tuple[int, int], topics: _Topics
) -> dict[TopicPartition, ErrorCode]:
    partitions = _partitions(topics)
    refused = _refused(broker, partitions)
    if refused:
        return refused
    if not transactional_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    transaction = broker.transactions.find(transactional_id)
    if isinstance(transaction, ErrorCode):
        return dict.fromkeys(partitions, transaction)
    return transactions.verify_partitions(transaction, *producer, partitions)


def _merged(verdict: dict[TopicPartition, ErrorCode]) -> _Results:
    """Return one result for each partition, also for one that is named several times."""
    response = messages.AddPartitionsToTxnResponse
    by_topic: dict[str, list[messages.AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult]] = {}
    for (name, index), error in verdict.items():
        by_topic.setdefault(name, []).append(response.AddPartitionsToTxnPartitionResult(index, error))
    return [response.AddPartitionsToTxnTopicResult(*item) for item in by_topic.items()]


def _mirrored(topics: _Topics, error: ErrorCode) -> _Results:
    """Return one result for each time that a partition is named, as Kafka does with the coordinator's answers."""
    response = messages.AddPartitionsToTxnResponse
    return [
        response.AddPartitionsToTxnTopicResult(
            named.name,
            [response.AddPartitionsToTxnPartitionResult(index, error) for index in named.partitions],
        )
        for named in topics
    ]


# -- AddOffsetsToTxn


def add_offsets(
    broker: Context, request: messages.AddOffsetsToTxnRequest, context: RequestContext, now: Now
) -> messages.AddOffsetsToTxnResponse | Later:
    """Add to a transaction the partition of the offsets topic that stores a group."""
    if not request.transactional_id:
        return fail_transaction(request, ErrorCode.INVALID_REQUEST, context.api_version)
    if not broker.groups.shards.topic_exists:
        broker.groups.shards.create_topic(now)
    partition = OFFSETS_TOPIC, partition_for(request.group_id, broker.groups.runtime.partition_count)

    def decide(transaction: Transaction | None) -> Decision:
        return transactions.add_partitions(
            transaction, request.producer_id, request.producer_epoch, [partition], 0, now
        )

    error, _, logs = broker.transactions.decide(request.transactional_id, decide, now)
    broker.durability.respond_when_durable(
        context, messages.AddOffsetsToTxnResponse(error_code=_client_error(error, context)), logs
    )
    return LATER


# -- TxnOffsetCommit


def commit_offsets(
    broker: Context, request: messages.TxnOffsetCommitRequest, context: RequestContext, now: Now
) -> messages.TxnOffsetCommitResponse | Later:
    """Commit offsets of a group in a transaction. They become visible when it is committed (KIP-447)."""
    version = context.api_version
    existing = transactional_offsets.known_partitions(broker.topics, request)
    if not any(existing.values()):
        return transactional_offsets.answer(request, existing, ErrorCode.NONE)
    if not request.group_id:
        return transactional_offsets.answer(request, existing, ErrorCode.INVALID_GROUP_ID)
    if broker.config.offset_storage == "zookeeper":  # a znode cannot hold an offset that is still pending
        return transactional_offsets.answer(request, existing, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    hosted = broker.groups.shards.shard_of(request.group_id, now)
    if isinstance(hosted, ErrorCode):
        if hosted is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < transactional_offsets.LOADING_SINCE:
            hosted = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return transactional_offsets.answer(request, existing, hosted)
    topic_partition = OFFSETS_TOPIC, hosted.shard.partition
    adds = version >= _ADDS_SINCE
    replicas = broker.replicas
    if replicas is not None and not replicas.peers.coordinates(request.transactional_id):

        def verified(outcomes: Outcomes) -> None:
            """Decide the commit, or answer with the error of the coordinator, another broker."""
            error = outcomes.get(topic_partition, ErrorCode.NONE)
            if error:
                answered = client_error(error, knows_abortable=version >= _ABORTABLE_SINCE)
                broker.responses.respond(context, transactional_offsets.answer(request, existing, answered))
            else:
                _commit_added(broker, request, context, hosted, existing, ErrorCode.NONE)

        producer = request.producer_id, request.producer_epoch
        replicas.peers.add_or_verify(
            request.transactional_id, producer, [topic_partition], verified, adds=adds
        )
        return LATER
    error = broker.transactions.add_or_verify(
        request.transactional_id, request.producer_id, request.producer_epoch, topic_partition, now, adds=adds
    )
    if error:
        answered = client_error(error, knows_abortable=version >= _ABORTABLE_SINCE)
        return transactional_offsets.answer(request, existing, answered)
    added = partial(_commit_added, broker, request, context, hosted, existing)
    broker.transactions.when_durable(request.transactional_id, added)
    return LATER


def _commit_added(
    broker: Context,
    request: messages.TxnOffsetCommitRequest,
    context: RequestContext,
    hosted: HostedShard,
    existing: Mapping[str, Set[int]],
    failed: ErrorCode,
) -> None:
    """Decide the commit when the group's partition has joined the transaction; otherwise answer with `failed`."""
    if failed:
        broker.responses.respond(context, fail_commit_offsets(request, failed, context.api_version))
        return
    decided = transactional_offsets.commit(hosted.shard, request, existing, context, broker.clock.now())
    if decided.records:
        broker.groups.shards.decide_transactional(hosted, decided)
        return
    (reply,) = decided.replies
    broker.responses.respond(context, reply.response)


def client_error(error: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """Return an error of the transaction coordinator as producers and groups receive it.

    Source: AddPartitionsToTxnManager.
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error


def fail_commit_offsets(
    request: messages.TxnOffsetCommitRequest, error: ErrorCode, api_version: int
) -> messages.TxnOffsetCommitResponse:
    """Answer every partition with `error`."""
    return transactional_offsets.answer(request, None, _retriable(error))


# -- EndTxn


def end_transaction(
    broker: Context, request: messages.EndTxnRequest, context: RequestContext, now: Now
) -> messages.EndTxnResponse | Later:
    """Commit or abort a transaction. The response is sent once that is decided; the markers follow."""
    if not request.transactional_id:
        return fail_transaction(request, ErrorCode.INVALID_REQUEST, context.api_version)
    bumps = context.api_version >= _EPOCH_BUMPED_SINCE
    before: Transaction | None = None

    def decide(transaction: Transaction | None) -> Decision:
        """Decide the end of the transaction, and keep its previous state for the response."""
        nonlocal before
        before = transaction
        return transactions.end(
            transaction,
            request.producer_id,
            request.producer_epoch,
            commit=request.committed,
            client_version=2 if bumps else 0,
            new_producer_id=broker.topics.new_producer_id,
            now=now,
        )

    error, ended, logs = broker.transactions.decide(request.transactional_id, decide, now)
    response: messages.EndTxnResponse = fail_transaction(
        request, _client_error(error, context), context.api_version
    )
    if not error:
        # A repeated EndTxn gets the response of the first one.
        state = before if ended is None else transactions.complete(ended, now)
        assert state is not None
        response.producer_id, response.producer_epoch = state.producer_id, state.producer_epoch
    broker.durability.respond_when_durable(context, response, logs)
    return LATER
