"""Produce: appends records to logs, once each from idempotent producers, in a transaction from transactional ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from kafka_offsets.broker.api.transactions import client_error
from kafka_offsets.broker.context.awaited_logs import Awaiting, TopicAndIndex, awaits_logs
from kafka_offsets.broker.groups.transaction_peers import Outcomes
from kafka_offsets.broker.partition.batch_validation import (
    DecompressionBudget,
    Refused,
    check_batch,
    find_batch,
    find_flaw,
)
from kafka_offsets.broker.partition.partitions import LogLoadingError, Partition, Topic
from kafka_offsets.broker.partition.producers import AppendedBatch
from kafka_offsets.broker.wire.api import LATER, Later
from kafka_offsets.broker.wire.response_budget import KEPT_BYTES
from kafka_offsets.broker.wire.rights import Right, Rights, on_topics
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, ProtocolError, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.memory import keep_freed_memory
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.compression import COMPRESSION_MASK
from kafka_offsets.protocol.mirroring.refusals import refuse
from kafka_offsets.protocol.records import CHECKED_POSITION, TRANSACTIONAL, BatchHeader, batch_headers
from kafka_offsets.replication.leader import ACKS_ALL, LeaderReplica
from kafka_offsets.security.acls import AclOperation, ResourceType
from kafka_offsets.storage.log.log import Log

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

TOPIC_IDS_SINCE = 13
"""The first version of Produce that names topics by id (KIP-516)."""

_ADDS_SINCE = 12
_ABORTABLE_SINCE = 11
"""From these versions on a batch adds its partition to the transaction, and clients know TRANSACTION_ABORTABLE
(KIP-890)."""

_ACKS = (0, 1, -1)

_SEVERAL_PRODUCERS = Refused(
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
)

_Data: TypeAlias = "messages.ProduceRequest.PartitionProduceData"
_Answer: TypeAlias = "messages.ProduceResponse.PartitionProduceResponse"
_Invalid: TypeAlias = dict[tuple[str | bytes, int], Refused]

_LARGE_BYTES = 32 << 10
"""Requests of at least this size are worth keeping their memory for."""

logger = new_logger(__name__)


def _transactional_ids(request: messages.ProduceRequest, version: int) -> tuple[str | None, ...]:
    """Return the id of the transaction of a request, if the first batch of a partition is of one.

    Source: RequestUtils.hasTransactionalRecords.
    """
    for topic in request.topic_data:
        for partition in topic.partition_data:
            try:
                first = next(batch_headers(partition.records or b""), None)
            except ProtocolError:
                continue  # the validation of the batch refuses it
            if first is not None and first[1].is_transactional:
                return (request.transactional_id,)
    return ()


RIGHTS = Rights(
    (Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, _transactional_ids),),
    each=on_topics(AclOperation.WRITE),
)


def _awaited_partitions(
    broker: Context, request: messages.ProduceRequest, context: RequestContext
) -> list[TopicAndIndex]:
    topics, by_id = broker.topics, context.api_version >= TOPIC_IDS_SINCE
    return [
        (topics.by_id(named.topic_id) if by_id else topics.get(named.name), data.index)
        for named in request.topic_data
        for data in named.partition_data
    ]


def _is_idempotent(request: messages.ProduceRequest, version: int) -> bool:
    batches = (
        find_batch(data.records, version) for named in request.topic_data for data in named.partition_data
    )
    return any(not isinstance(header, Refused) and header.producer_id >= 0 for header in batches)


@awaits_logs(Awaiting(_awaited_partitions, _is_idempotent))
def produce(broker: Context, request: messages.ProduceRequest, context: RequestContext, now: Now) -> Later:
    """Append one batch to each partition; the response is sent once they are durable.

    Topics are not created here, as in Kafka: a client sends Metadata first. acks=1 and acks=-1 are the same with one
    broker. With acks=0 there is no response, and an error closes the connection. The partition of a transactional batch
    must be in its producer's transaction; from version 12 on, the batch adds it. When responses wait for the disk, the
    batch waits until that addition is on the disk.
    """
    flaw = find_flaw(request)
    if flaw is not None:
        _refuse_all(broker, request, context, flaw)
        return LATER
    topics = request.topic_data
    invalid: _Invalid = {}
    if len(topics) > 1 or (topics and len(topics[0].partition_data) > 1):
        if _names_twice(request, context):
            invalid = _keep_last(request, context)
        if request.transactional_id is not None and _has_several_producers(broker, request, context):
            _refuse_all(broker, request, context, _SEVERAL_PRODUCERS)
            return LATER
    if broker.replicas is not None and not broker.replicas.peers.coordinates(request.transactional_id):
        _append_verified(broker, request, context, invalid)
        return LATER
    joining = []
    if request.transactional_id is not None and broker.config.fsync == "commit":
        joining = _joining(broker, request, context, now)
    if not joining:
        _append_all(broker, request, context, now, invalid)
        return LATER
    assert request.transactional_id is not None
    for partition in joining:
        partition.joining += 1

    def joined(error: ErrorCode) -> None:
        """Append when all partitions have joined the transaction; otherwise answer NOT_ENOUGH_REPLICAS."""
        for partition in joining:
            partition.joining -= 1
        if error:
            broker.responses.fail(context, ErrorCode.NOT_ENOUGH_REPLICAS)
        else:
            _append_all(broker, request, context, broker.clock.now(), invalid)

    broker.transactions.when_durable(request.transactional_id, joined)
    return LATER


def _append_verified(
    broker: Context, request: messages.ProduceRequest, context: RequestContext, invalid: _Invalid
) -> None:
    """Append the batches of a transaction once the coordinator, another broker, has its partitions in it."""
    replicas, transactional_id = broker.replicas, request.transactional_id
    assert replicas is not None and transactional_id is not None
    adds = context.api_version >= _ADDS_SINCE
    topic_partitions: list[tuple[str, int]] = []
    producer = -1, -1
    for named in request.topic_data:
        topic = _topic(broker, named, context)
        for data in named.partition_data:
            header = find_batch(data.records, context.api_version)
            if topic is None or isinstance(header, Refused) or not _is_in_transaction(header):
                continue
            if not 0 <= data.index < topic.partition_count:
                continue
            partition = broker.topics.partition_of(topic, data.index)
            assert partition is not None
            if not partition.producers.has_open(header.producer_id, header.producer_epoch):
                partition.producers.attempt(header, begins_at_0=adds)
                topic_partitions.append((topic.name, data.index))
                producer = header.producer_id, header.producer_epoch

    def append(outcomes: Outcomes) -> None:
        """Append what the coordinator has accepted."""
        _append_all(broker, request, context, broker.clock.now(), invalid, outcomes)

    if topic_partitions:
        replicas.peers.add_or_verify(transactional_id, producer, topic_partitions, append, adds=adds)
    else:
        append({})


def _key(named: messages.ProduceRequest.TopicProduceData, context: RequestContext) -> str | bytes:
    return named.topic_id if context.api_version >= TOPIC_IDS_SINCE else named.name


def _names_twice(request: messages.ProduceRequest, context: RequestContext) -> bool:
    topics = request.topic_data
    keys = [(_key(named, context), data.index) for named in topics for data in named.partition_data]
    return len(set(keys)) < len(keys) or len({_key(named, context) for named in topics}) < len(topics)


def _keep_last(request: messages.ProduceRequest, context: RequestContext) -> _Invalid:
    """Merge duplicate topics and partitions of a request: the last batch counts, as in Kafka.

    Returns the partitions that also had an invalid batch: they get this error, although the valid batch is appended.
    """
    invalid: _Invalid = {}
    topics: dict[str | bytes, messages.ProduceRequest.TopicProduceData] = {}
    partitions: dict[tuple[str | bytes, int], _Data] = {}
    for named in request.topic_data:
        key = _key(named, context)
        topics.setdefault(key, named)
        for data in named.partition_data:
            header = find_batch(data.records, context.api_version)
            if isinstance(header, Refused):
                invalid[key, data.index] = header
                partitions.setdefault((key, data.index), data)
            else:
                partitions[key, data.index] = data
    for key, named in topics.items():
        named.partition_data = [data for (topic, _), data in partitions.items() if topic == key]
    request.topic_data = list(topics.values())
    return invalid


def _has_several_producers(
    broker: Context, request: messages.ProduceRequest, context: RequestContext
) -> bool:
    """Whether transactional batches for existing partitions come from more than one producer or epoch."""
    producers = set()
    for named in request.topic_data:
        topic = _topic(broker, named, context)
        for data in named.partition_data:
            header = find_batch(data.records, context.api_version)
            if topic is None or not 0 <= data.index < topic.partition_count or isinstance(header, Refused):
                continue
            if header.is_transactional:
                producers.add((header.producer_id, header.producer_epoch))
    return len(producers) > 1


def _topic(
    broker: Context, named: messages.ProduceRequest.TopicProduceData, context: RequestContext
) -> Topic | None:
    if context.api_version >= TOPIC_IDS_SINCE:
        return broker.topics.by_id(named.topic_id)
    return broker.topics.get(named.name)


def _refuse_all(
    broker: Context, request: messages.ProduceRequest, context: RequestContext, refused: Refused
) -> None:
    """Give every partition the same response, each once."""
    _keep_last(request, context)
    response = fail_produce(request, refused.error, context.api_version)
    for topic in response.responses:
        for partition_response in topic.partition_responses:
            partition_response.error_message = refused.message
    if request.acks == 0:
        _finish_unanswered(broker, context, response.responses)
    else:
        broker.responses.respond(context, response)


def fail_produce(
    request: messages.ProduceRequest, error: ErrorCode, api_version: int
) -> messages.ProduceResponse:
    """Answer every partition with `error`; a topic without any is not in Kafka's response."""
    response: messages.ProduceResponse = refuse(request, error, api_version)
    response.responses = [topic for topic in response.responses if topic.partition_responses]
    return response


def _joining(
    broker: Context, request: messages.ProduceRequest, context: RequestContext, now: Now
) -> list[Partition]:
    """Return the partitions whose addition to the transaction must be on the disk and is not yet.

    A batch after one that waits for this waits as well, so that their order stays.
    """
    joining = []
    for named in request.topic_data:
        topic = _topic(broker, named, context)
        for data in named.partition_data:
            header = find_batch(data.records, context.api_version)
            if topic is None or isinstance(header, Refused):
                continue
            try:
                partition = broker.topics.partition_of(topic, data.index)
                if partition is None or not _is_in_transaction(header):
                    continue
                is_open = partition.producers.has_open(header.producer_id, header.producer_epoch)
                if partition.joining or (
                    not is_open and not _join_transaction(broker, request, context, partition, header, now)
                ):
                    joining.append(partition)
            except StorageError:
                continue  # the append reports it
    return joining


def _append_all(
    broker: Context,
    request: messages.ProduceRequest,
    context: RequestContext,
    now: Now,
    invalid: _Invalid,
    verified: Outcomes | None = None,
) -> None:
    """Append the batches of a request, and answer it.

    invalid   the errors of partitions that also had an invalid batch
    verified  what a coordinator at another broker has answered for partitions of the transaction
    """
    if context.frame_bytes >= _LARGE_BYTES:
        keep_freed_memory(KEPT_BYTES)
    appends = _Appends(broker, request, context, now, verified)
    responses = []
    for named in request.topic_data:
        topic = _topic(broker, named, context)
        partitions = [appends.append(topic, data) for data in named.partition_data]
        if invalid and topic is not None:
            for number, data in enumerate(named.partition_data):
                refused = invalid.get((_key(named, context), data.index))
                if refused is not None and 0 <= data.index < topic.partition_count:
                    partitions[number] = _refused(data.index, refused, -1)
        if partitions:  # Kafka's response names partitions, and a topic without any is not in it
            responses.append(
                messages.ProduceResponse.TopicProduceResponse(named.name, named.topic_id, partitions)
            )
    if request.acks == 0:
        _finish_unanswered(broker, context, responses)
    elif broker.replicas is not None and request.acks == ACKS_ALL:
        _respond_when_replicated(broker, request, context, messages.ProduceResponse(responses), appends.logs)
    else:
        broker.durability.respond_when_on_disk(context, messages.ProduceResponse(responses), appends.logs)


def _respond_when_replicated(
    broker: Context,
    request: messages.ProduceRequest,
    context: RequestContext,
    response: messages.ProduceResponse,
    logs: list[Log],
) -> None:
    """Answer when the in-sync replicas have the records, or with the error of each partition where they do not."""
    responses: dict[Partition, _Answer] = {}
    by_id = context.api_version >= TOPIC_IDS_SINCE
    for named in response.responses:
        topic = broker.topics.by_id(named.topic_id) if by_id else broker.topics.get(named.name)
        for partition_response in named.partition_responses:
            partition = None if topic is None else broker.topics.partition_of(topic, partition_response.index)
            if not partition_response.error_code and partition is not None and partition.replica is not None:
                responses[partition] = partition_response

    def replicated(outcomes: Mapping[Partition, ErrorCode]) -> None:
        for partition, error in outcomes.items():
            if error:
                responses[partition].error_code = error
        broker.durability.respond_when_on_disk(context, response, logs)

    assert broker.replicas is not None
    offsets = {partition: partition.log.log_end_offset for partition in responses}
    broker.replicas.acknowledgements.wait(offsets, request.timeout_ms, replicated)


def _finish_unanswered(
    broker: Context,
    context: RequestContext,
    responses: list[messages.ProduceResponse.TopicProduceResponse],
) -> None:
    broker.access.throttling.unanswered(context)
    broker.responses.respond_encoded(context, b"")
    errors = [
        f"{topic.name}-{response.index} {ErrorCode(response.error_code).name}"
        for topic in responses
        for response in topic.partition_responses
        if response.error_code
    ]
    if errors:  # the producer gets no other sign of an error
        logger.info("a Produce with acks=0 closes its connection: %s", ", ".join(errors))
        broker.responses.close_connection(context.connection)


class _Appends:
    """Appends the batches of one request.

    verified  what a coordinator at another broker has answered for partitions of the transaction
    logs      those that the response has to wait for
    """

    __slots__ = ("_broker", "_budget", "_context", "_now", "_request", "_verified", "logs")

    def __init__(
        self,
        broker: Context,
        request: messages.ProduceRequest,
        context: RequestContext,
        now: Now,
        verified: Outcomes | None,
    ) -> None:
        self._broker = broker
        self._request = request
        self._context = context
        self._now = now
        self._verified = verified
        self._budget: DecompressionBudget | None = None
        self.logs: list[Log] = []

    def append(self, topic: Topic | None, data: _Data) -> _Answer:
        """Append to one partition, or return why not."""
        index, version = data.index, self._context.api_version
        if topic is None:
            by_id = version >= TOPIC_IDS_SINCE
            return _refusal(
                index, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        if not 0 <= index < len(topic.partitions):
            return _refusal(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        header = find_batch(data.records, version)
        if isinstance(header, Refused):
            return _refused(index, header, -1)
        is_transactional = header.attributes & TRANSACTIONAL
        if is_transactional and self._request.transactional_id is None:
            return _refusal(index, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        try:
            partition = topic.partitions[index] or self._broker.topics.partition_of(topic, index)
            assert partition is not None
            refusal = self._unverified(topic, partition, header) if is_transactional else None
            if refusal is not None:
                return refusal
            if self._request.acks not in _ACKS:
                return _refusal(index, ErrorCode.INVALID_REQUIRED_ACKS)
            if topic.is_internal:
                return _refusal(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
            if partition.replica is not None and (error := _check_leader(partition, self._request.acks)):
                is_leader = error is ErrorCode.NOT_ENOUGH_REPLICAS
                return _refusal(index, error, partition.log.log_start_offset if is_leader else -1)
            return self._append(topic, partition, data.records or b"", header)
        except LogLoadingError:
            return _refusal(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        except StorageError as storage_error:
            self._broker.topics.report(topic.name, index, storage_error)
            return _refusal(index, ErrorCode.KAFKA_STORAGE_ERROR)

    def _unverified(self, topic: Topic, partition: Partition, header: BatchHeader) -> _Answer | None:
        """Return why a batch is not in a transaction: Kafka asks the coordinator before it looks at the rest."""
        is_led = partition.replica is None or isinstance(partition.replica, LeaderReplica)
        if not is_led or not _is_in_transaction(header):
            return None
        if self._verified is None:
            error = _join_transaction(
                self._broker, self._request, self._context, partition, header, self._now
            )
        else:
            verified = self._verified.get((topic.name, partition.index), ErrorCode.NONE)
            error = _producer_error(verified, self._context)
        if not error:
            return None
        refusal = _refusal(partition.index, error)
        if error is ErrorCode.INVALID_TXN_STATE:
            refusal.error_message = "Partition was not added to the transaction"
        return refusal

    def _append(self, topic: Topic, partition: Partition, records: bytes, header: BatchHeader) -> _Answer:
        log, index, now = partition.log, partition.index, self._now
        if header.attributes & COMPRESSION_MASK and self._budget is None:
            topics = self._request.topic_data
            size = sum(len(data.records or b"") for named in topics for data in named.partition_data)
            self._budget = DecompressionBudget(size)
        accepted = check_batch(records, header, topic.config, topic.name, index, now, self._budget)
        if isinstance(accepted, Refused):
            return _refused(index, accepted, log.log_start_offset)
        checked, crc, max_timestamp, log_append_time = accepted
        if len(checked) + CHECKED_POSITION > topic.log_config.segment_bytes:
            return _refusal(index, ErrorCode.RECORD_LIST_TOO_LARGE)
        response = messages.ProduceResponse.PartitionProduceResponse
        producers = partition.producers if header.producer_id >= 0 else None
        if producers is not None:
            appended = producers.check(header)
            if isinstance(appended, AppendedBatch):
                self.logs.append(log)
                return response(index, 0, appended.base_offset, appended.timestamp, log.log_start_offset)
            replicas = self._broker.replicas
            if appended and replicas is not None and replicas.may_be_fenced:
                # The next leader may have batches that are not here. Kafka answers with an error of the sequence, which
                # a client may take for lost records.
                return _refusal(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if appended:
                return response(index, appended, -1, -1, log.log_start_offset)
        problem = self._broker.appends.memory.refuses(log, len(checked) + CHECKED_POSITION)
        if problem is not None:
            return _refused(index, Refused(ErrorCode.KAFKA_STORAGE_ERROR, problem), log.log_start_offset)
        base_offset = log.append_checked(
            checked, crc, header.last_offset_delta, max_timestamp, partition.leader_epoch
        )
        if producers is not None:
            producers.add(header, base_offset, max_timestamp, now.wall_ms)
        self.logs.append(log)
        self._broker.appends.record(partition)
        return response(index, 0, base_offset, log_append_time, log.log_start_offset)


def _check_leader(partition: Partition, acks: int) -> ErrorCode:
    """Return why a partition with several replicas accepts no records."""
    replica = partition.replica
    if not isinstance(replica, LeaderReplica):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return replica.check_min_isr(acks)


def _is_in_transaction(header: BatchHeader) -> bool:
    """Kafka looks up the transaction of a producer: a batch without a producer id is stored like any other."""
    return header.producer_id >= 0 and header.is_transactional


def _join_transaction(
    broker: Context,
    request: messages.ProduceRequest,
    context: RequestContext,
    partition: Partition,
    header: BatchHeader,
    now: Now,
) -> ErrorCode:
    """Check that a partition is in the transaction of a batch that begins it there (KIP-890).

    Source: ReplicaManager.maybeSendPartitionsToTransactionCoordinator, AddPartitionsToTxnManager.
    """
    assert request.transactional_id is not None
    if partition.producers.has_open(header.producer_id, header.producer_epoch):
        return ErrorCode.NONE
    adds = context.api_version >= _ADDS_SINCE
    partition.producers.attempt(header, begins_at_0=adds)
    topic_partition = partition.topic, partition.index
    error = broker.transactions.add_or_verify(
        request.transactional_id, header.producer_id, header.producer_epoch, topic_partition, now, adds=adds
    )
    return _producer_error(error, context)


def _producer_error(error: ErrorCode, context: RequestContext) -> ErrorCode:
    """Return an error of the transaction coordinator as a producer receives it."""
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and context.api_version < _ADDS_SINCE:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # older clients retry this error
    if error in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return client_error(error, knows_abortable=context.api_version >= _ABORTABLE_SINCE)


def _refusal(index: int, error: ErrorCode, log_start_offset: int = -1) -> _Answer:
    return messages.ProduceResponse.PartitionProduceResponse(index, error, -1, -1, log_start_offset)


def _refused(index: int, refused: Refused, log_start_offset: int) -> _Answer:
    response = messages.ProduceResponse
    return response.PartitionProduceResponse(
        index,
        refused.error,
        -1,
        -1,
        log_start_offset if refused.by_log else -1,
        [response.BatchIndexAndErrorMessage(*error) for error in refused.record_errors],
        refused.message,
    )
