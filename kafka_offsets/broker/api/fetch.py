"""Fetch: reads batches from logs, and responses at once or when enough records have been appended.

A request for more than is readable is parked at each of its partitions. It costs nothing until a partition grows, its
deadline passes or its connection closes. When a turn ends, `wake` notifies the fetches parked at the partitions that
grew. A fetch that now has enough to read reads again and is answered.

fetch_sessions.py decides which partitions a request reads, and which its response contains. The responses and their
times were recorded from Kafka 4.3.1: an offset out of range or a wrong leader epoch is answered at once, whereas a
missing topic does not keep the other partitions from waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.broker.context.awaited_logs import Awaiting, TopicAndIndex, awaits_logs, timeout_of
from kafka_offsets.broker.partition.partitions import LogLoadingError, Partition
from kafka_offsets.broker.wire.api import LATER, Later
from kafka_offsets.broker.wire.fetch_sessions import TOPIC_IDS_SINCE, Plan, Read, Wanted
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import Aside, encode_in_parts
from kafka_offsets.protocol.records import Buffer, batch_headers
from kafka_offsets.replication.divergence import OutOfRange, divergence
from kafka_offsets.replication.follower import FollowerReplica
from kafka_offsets.security.acls import AclOperation, ResourceType

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.broker.turn.scheduler import Deadline
    from kafka_offsets.broker.wire.connection import ClientConnection

_ERROR_SINCE = 7
"""The first version whose response has a top-level error."""

_DIVERGING_SINCE = 12
"""The first version whose response has the epoch in which a reader has diverged."""

_STORAGE_ERROR_SINCE = 6
"""Older clients do not know KAFKA_STORAGE_ERROR and get NOT_LEADER_OR_FOLLOWER, which they retry."""

_REPLICA_STATE_SINCE = 15
"""The first version in which a follower gives its id in replica_state (KIP-903)."""

FOLLOWERS_SERVE_SINCE = 11
"""The first version in which followers answer consumers, up to their own high watermarks (KIP-392)."""

_LEADER_SINCE = 16
"""The first version whose response gives the leader to a reader that is fenced or at the wrong broker (KIP-951)."""

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_WRONG_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

_SIZE_BYTES = 4
"""The size of a frame counts towards a quota of bytes; the header of the response does not."""

_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_FUTURE_REPLICA = -3
"""The replica id of a log that is moved to another directory: it reads all records, as followers do."""


_ASIDE_BYTES = 1 << 15
"""Records of a partition from this size on are not copied into the response."""


class ParkedFetch:
    """A parked request.

    plan        what it reads
    missing     bytes that its partitions must grow by
    denied      errors of partitions that the sender may not read, which do not end the wait of the others
    is_held_back  enough was appended, but in open transactions: any append makes it read again
    partitions  where it is parked; each has the number of its further bytes that count
    """

    __slots__ = ("context", "deadline", "denied", "is_held_back", "missing", "partitions", "plan", "request")

    def __init__(
        self,
        request: messages.FetchRequest,
        context: RequestContext,
        plan: Plan,
        partitions: list[Partition],
        missing: int,
        denied: dict[tuple[str, int], ErrorCode],
    ) -> None:
        self.denied = denied
        self.request = request
        self.context = context
        self.plan = plan
        self.partitions = partitions
        self.missing = missing
        self.deadline: Deadline | None = None
        self.is_held_back = False

    def refuses(self, topic: str, index: int) -> ErrorCode:
        """Return the error of a partition that the sender may not read."""
        return self.denied.get((topic, index), ErrorCode.NONE)


def _follower(request: messages.FetchRequest, version: int) -> tuple[int, int]:
    """Return the broker that fetches as a follower, and its epoch; -1 for a client."""
    if version < _REPLICA_STATE_SINCE:
        return request.replica_id, -1
    return request.replica_state.replica_id, request.replica_state.replica_epoch


class _Reading(NamedTuple):
    """The records that a request can read now.

    size      bytes of all records
    least     bytes that the request waits for
    watched   partitions read without an error: those that may grow
    is_final  whether an error occurred that waiting cannot cure, or a follower does not know the log start
    """

    answers: list[Read]
    size: int
    least: int
    watched: list[_Watched]
    is_final: bool


class _Watched(NamedTuple):
    """A partition that was read.

    records  what was read of it
    most     bytes of it that count towards min_bytes
    """

    partition: Partition
    records: Buffer
    most: int

    def readable_bytes(self, end_offset: int) -> int:
        """Return how many bytes before `end_offset` count: Kafka would fill the limit up with half a batch."""
        if not self.records:
            return 0
        *_, (_, last) = batch_headers(self.records)
        reaches_end = last.last_offset + 1 >= end_offset
        return min(len(self.records), self.most) if reaches_end else self.most


Refuses = Callable[[str, int], ErrorCode]
"""(topic, partition) -> the error that refuses it, whatever is readable; NONE to read it."""


def _awaited_partitions(
    broker: Context,
    request: messages.FetchRequest,
    context: RequestContext,
    refuses: Refuses | None = None,
) -> list[TopicAndIndex]:
    """Return what a request may read, with the partitions of its session."""
    refuses = _with_denials(request, context, refuses)
    topics, by_id = broker.topics, context.api_version >= TOPIC_IDS_SINCE
    named = [
        (topics.by_id(named_topic.topic_id) if by_id else topics.get(named_topic.topic), entry.partition)
        for named_topic in request.topics
        for entry in named_topic.partitions
    ]
    followed = [
        (topics.get(name), index)
        for name, index in broker.fetch_sessions.topic_partitions(request.session_id)
    ]
    return [
        (topic, index)
        for topic, index in named + followed
        if refuses is None or topic is None or not refuses(topic.name, index)
    ]


def _with_denials(
    request: messages.FetchRequest, context: RequestContext, refuses: Refuses | None
) -> Refuses | None:
    """Return what also refuses the partitions that the sender may not read; a follower acts for the cluster."""
    sender = context.sender
    if not sender.is_restricted:
        return refuses
    if _follower(request, context.api_version)[0] >= 0:
        may_follow = sender.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
        return refuses if may_follow else lambda topic, index: _DENIED

    def refuse(topic: str, index: int) -> ErrorCode:
        if not sender.may(AclOperation.READ, ResourceType.TOPIC, topic):
            return _DENIED  # before the response names the leader
        return ErrorCode.NONE if refuses is None else refuses(topic, index)

    return refuse


def _reads_committed(request: messages.FetchRequest, version: int) -> bool:
    return request.isolation_level == _READ_COMMITTED


def _opening_timeout(request: messages.FetchRequest, *, is_all: bool) -> int:
    """Return how long a request waits for logs: if others can be read, as long as for records."""
    return timeout_of(request, is_all=is_all) if is_all else request.max_wait_ms


@awaits_logs(Awaiting(_awaited_partitions, _reads_committed, _opening_timeout))
def fetch(
    broker: Context,
    request: messages.FetchRequest,
    context: RequestContext,
    now: Now,
    refuses: Refuses | None = None,
) -> messages.FetchResponse | Later:
    """Answer with the readable batches, or park the request until there are enough."""
    version = context.api_version
    refuses = _with_denials(request, context, refuses)
    if broker.access.throttling.is_active:
        request.max_bytes = min(request.max_bytes, broker.access.throttling.most_fetched(context))
    plan = broker.fetch_sessions.plan(request, version, broker.topics.topic_name, now)
    if plan.error:
        return messages.FetchResponse(error_code=plan.error)
    is_level = request.isolation_level in (_READ_UNCOMMITTED, _READ_COMMITTED)
    count_of = broker.topics.id_and_partition_count
    if not is_level and any(0 <= each.asked.partition < count_of(each.topic)[1] for each in plan.wanted):
        return fail_fetch(request, ErrorCode.UNKNOWN_SERVER_ERROR, version)
    if version >= TOPIC_IDS_SINCE and _confuses_kafka(plan.wanted):
        return fail_fetch(request, ErrorCode.UNKNOWN_SERVER_ERROR, version)
    reading = _read(broker, request, plan, version, (), refuses)
    if broker.responses.observer is not None and _follower(request, version)[0] < 0:
        broker.responses.observer.fetched(context, _positions(plan, reading))
    least = reading.least
    if reading.is_final or not reading.watched or reading.size >= least or request.max_wait_ms <= 0:
        _reply(broker, context, plan, reading, now)
        return LATER
    is_committed = request.isolation_level == _READ_COMMITTED
    counted = [
        watched.readable_bytes(
            watched.partition.last_stable_offset if is_committed else watched.partition.log.high_watermark
        )
        for watched in reading.watched
    ]
    if sum(counted) >= least:
        _reply(broker, context, plan, reading, now)
        return LATER
    partitions = [watched.partition for watched in reading.watched]
    denied = {
        (result.topic, result.partition.partition_index): _DENIED
        for result in reading.answers
        if result.partition.error_code == _DENIED
    }
    parked = ParkedFetch(request, context, plan, partitions, least - sum(counted), denied)
    _park(broker, parked, [watched.most - n for watched, n in zip(reading.watched, counted, strict=True)])
    return LATER


def _positions(plan: Plan, reading: _Reading) -> dict[tuple[str, int], int]:
    """Return the offsets from which a request reads, without partitions that it cannot read."""
    refused = {
        (result.topic, result.partition.partition_index)
        for result in reading.answers
        if result.partition.error_code or _diverges(result)
    }
    positions = {(wanted.topic, wanted.asked.partition): wanted.asked.fetch_offset for wanted in plan.wanted}
    return {
        topic_partition: offset
        for topic_partition, offset in positions.items()
        if topic_partition not in refused
    }


def _confuses_kafka(entries: Sequence[Wanted]) -> bool:
    """Whether the zero topic id is among several partitions of unknown topic ids: Kafka fails to compare them."""
    unknown = {(entry.topic_id, entry.asked.partition) for entry in entries if not entry.topic}
    return len(unknown) > 1 and any(not any(topic_id) for topic_id, _ in unknown)


def _park(broker: Context, parked: ParkedFetch, rooms: list[int]) -> None:
    for partition, room in zip(parked.partitions, rooms, strict=True):
        appended = partition.log.appended_bytes
        if not partition.parked:
            partition.notified_bytes = appended
        # `wake` still has to count what others appended in this turn, and this request has already read it.
        read_already = appended - partition.notified_bytes
        parked.missing += read_already
        partition.parked[parked] = room + read_already
    broker.topics.waiting.setdefault(parked.context.connection, {})[parked] = None
    parked.deadline = broker.scheduler.client_timeout(
        _wait_ms(broker, parked), lambda then: _answer(broker, parked, then)
    )


def _wait_ms(broker: Context, parked: ParkedFetch) -> int:
    """Return how long a request waits. The first ones of a client for other partitions wait for a moment.

    A client such as librdkafka has one Fetch at a broker: it cannot add the partitions to it whose positions it learns
    meanwhile, and their records would come only when the wait for empty partitions ends.
    """
    request, connection = parked.request, parked.context.connection
    first_ms, most_ms = broker.config.fetch_first_wait_ms, request.max_wait_ms
    if not first_ms or request.min_bytes > 1 or _follower(request, parked.context.api_version)[0] >= 0:
        return most_ms
    # A number is enough, and not as large as the partitions.
    topic_partitions = hash(frozenset((each.topic, each.asked.partition) for each in parked.plan.wanted))
    last_hash, waits = connection.fetched
    waits = waits if topic_partitions == last_hash else 0
    wait_ms = first_ms << 2 * waits
    if wait_ms >= most_ms:
        return most_ms
    connection.fetched = topic_partitions, waits + 1
    return wait_ms


def wake(broker: Context, now: Now) -> None:
    """Answer parked fetches for which there is now enough in partitions that may have grown."""
    partitions, broker.appends.partitions = broker.appends.partitions, {}
    for partition in partitions:
        if not partition.parked:
            continue
        appended = partition.log.appended_bytes
        grown, partition.notified_bytes = appended - partition.notified_bytes, appended
        if not grown and partition.replica is None:
            continue
        for parked, room in tuple(partition.parked.items()):
            counted = min(grown, room)
            partition.parked[parked] = room - counted
            parked.missing -= counted
            is_enough = parked.missing <= 0 or parked.is_held_back or partition.replica is not None
            if is_enough and not _must_wait(broker, parked):
                _answer(broker, parked, now)


def _must_wait(broker: Context, parked: ParkedFetch) -> bool:
    """Whether the new records cannot be read yet: they are in open transactions, or other replicas lack them."""
    request = parked.request
    is_replicated = any(partition.replica is not None for partition in parked.partitions)
    if request.isolation_level != _READ_COMMITTED and not is_replicated:
        return False
    version = parked.context.api_version
    reading = _read(broker, request, parked.plan, version, parked.partitions, parked.refuses)
    waits = not reading.is_final and reading.size < reading.least
    parked.is_held_back = parked.is_held_back or waits
    return waits


def answer_waiting(broker: Context, concerns: Callable[[str, int], bool], now: Now) -> None:
    """Answer every fetch that is parked at a matching (topic, partition). Costs a look at each parked fetch."""
    parked_fetches = [
        parked
        for waiting in broker.topics.waiting.values()
        for parked in waiting
        if any(concerns(partition.topic, partition.index) for partition in parked.partitions)
    ]
    for parked in parked_fetches:
        _answer(broker, parked, now)


def end_wait(broker: Context, connection: object, now: Now) -> None:
    """Answer the fetches of a connection on which another request has arrived.

    Those of a follower, which will fetch one more partition (see `ReplicaFetcher.add`): without partitions, as there
    is nothing new in them. Others if the configuration says so: librdkafka looks for a coordinator on the connection
    that its Fetch waits on, and gives up after 0.1 s or less.
    """
    for parked in tuple(broker.topics.waiting.get(connection, ())):
        if _follower(parked.request, parked.context.api_version)[0] >= 0:
            _end(broker, parked)
            broker.responses.respond(parked.context, messages.FetchResponse())
        elif broker.config.fetch_wait_ends_at_next_request:
            _answer(broker, parked, now)


def cancel(broker: Context, connection: ClientConnection) -> None:
    """Forget the fetches of a connection that has closed."""
    if broker.responses.observer is not None:
        broker.responses.observer.left(connection)
    for parked in broker.topics.waiting.pop(connection, {}):
        _unpark(parked)


def _answer(broker: Context, parked: ParkedFetch, now: Now) -> None:
    _end(broker, parked)
    version = parked.context.api_version
    reading = _read(broker, parked.request, parked.plan, version, parked.partitions, parked.refuses)
    _reply(broker, parked.context, parked.plan, reading, now)


def _end(broker: Context, parked: ParkedFetch) -> None:
    """End the wait of a request."""
    connection = parked.context.connection
    waiting = broker.topics.waiting.get(connection, {})
    waiting.pop(parked, None)
    if not waiting:
        broker.topics.waiting.pop(connection, None)
    _unpark(parked)


def _reply(broker: Context, context: RequestContext, plan: Plan, reading: _Reading, now: Now) -> None:
    if reading.size >= _ASIDE_BYTES:
        _set_aside(reading)
    if broker.access.throttling.is_active:
        throttled = _throttled(broker, context, plan, reading)
        if throttled is not None:
            broker.responses.respond(context, throttled)
            return
    response = broker.fetch_sessions.answer(plan, reading.answers, context.api_version, now)
    is_old = context.api_version < _DIVERGING_SINCE
    if is_old and reading.is_final and any(map(_diverges, reading.answers)):
        # A request of a newer version, which has the last fetched epoch, began this session.
        response = fail_fetch(context.request, ErrorCode.UNSUPPORTED_VERSION, context.api_version)
    if reading.size < _ASIDE_BYTES:
        broker.responses.respond(context, response)
        return
    asides = _asides(response)
    codecs = context.codecs
    tagged = codecs.has_tagged_response_header
    parts = encode_in_parts(codecs.encode, response, context.correlation_id, tagged, asides)
    broker.responses.respond_encoded(context, parts)


def _set_aside(reading: _Reading) -> None:
    """Exclude large records from the copy that encoding makes."""
    for _, _, partition in reading.answers:
        if len(partition.records or b"") >= _ASIDE_BYTES:
            partition.records = Aside(partition.records or b"")  # type: ignore[assignment]


def _asides(response: messages.FetchResponse) -> list[Aside]:
    records: Iterable[object] = (
        partition.records for topic in response.responses for partition in topic.partitions
    )
    return [data for data in records if isinstance(data, Aside)]


def _throttled(
    broker: Context, context: RequestContext, plan: Plan, reading: _Reading
) -> messages.FetchResponse | None:
    """Record what a client would get; return a response without records if that exceeds its quota, else None."""
    response = broker.fetch_sessions.preview(plan, reading.answers)
    encoded = bytearray()
    context.codecs.encode(response, encoded)
    size = _SIZE_BYTES + len(encoded) + sum(map(len, _asides(response)))
    throttle_ms = broker.access.throttling.fetched(context, size)
    if not throttle_ms:
        return None
    if plan.session is None:
        return messages.FetchResponse(throttle_ms)
    is_current = plan.session.epoch == plan.epoch
    error = ErrorCode.NONE if is_current else ErrorCode.INVALID_FETCH_SESSION_EPOCH
    return messages.FetchResponse(throttle_ms, error, plan.session.session_id)


def _diverges(result: Read) -> bool:
    return result.partition.diverging_epoch.end_offset >= 0


def _unpark(parked: ParkedFetch) -> None:
    for partition in parked.partitions:
        partition.parked.pop(parked, None)
    if parked.deadline is not None:
        parked.deadline.cancel()


class _Reader:
    """Reads the partitions of one request in their order, within its limits.

    least         bytes that the request waits for
    left          bytes that may still be returned
    at_least_one  no records have been found yet: the first batch may be larger than any limit (KIP-74)
    follower      the broker that sent the request, with its epoch; -1, -1: the request comes from a client
    parked_at     where the request has waited
    """

    __slots__ = (
        "aborted",
        "at_least_one",
        "broker",
        "follower",
        "is_final",
        "least",
        "left",
        "parked_at",
        "reads_all",
        "refuses",
        "size",
        "version",
        "watched",
    )

    def __init__(
        self,
        broker: Context,
        request: messages.FetchRequest,
        version: int,
        parked_at: Sequence[Partition],
        refuses: Refuses | None,
    ) -> None:
        self.follower = _follower(request, version)
        self.parked_at = parked_at
        self.refuses = refuses
        self.broker = broker
        self.version = version
        self.left = min(request.max_bytes, broker.config.fetch_max_bytes, broker.responses.budget.fetch_bytes)
        self.least = min(request.min_bytes, self.left)
        self.at_least_one = True
        self.reads_all = self.follower[0] >= 0 or self.follower[0] == _FUTURE_REPLICA
        self.aborted = request.isolation_level == _READ_COMMITTED and not self.reads_all
        self.size = 0
        self.watched: list[_Watched] = []
        self.is_final = False

    def denies_follower(self, index: int) -> bool:
        """Whether the sender is a follower without the right to be one: then it does not learn which ids exist."""
        return self.follower[0] >= 0 and self.refuses is not None and self.refuses("", index) is _DENIED

    def read(self, wanted: Wanted) -> messages.FetchResponse.PartitionData | None:
        """Read one partition, or return why not; None when it did not exist either when the request was parked."""
        entry = wanted.asked
        topic = self.broker.topics.get(wanted.topic)
        if self.refuses is not None and (error := self.refuses(wanted.topic, entry.partition)):
            if error is _DENIED:
                return _unknown(entry.partition, error)  # the other partitions still wait for records
            return self._refusal(entry, error)
        if topic is None or not 0 <= entry.partition < topic.partition_count:
            if any(p.topic == wanted.topic and p.index == entry.partition for p in self.parked_at):
                return self._refusal(entry, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return None
        try:
            if self.version >= TOPIC_IDS_SINCE and wanted.topic_id != topic.topic_id:
                return self._refusal(entry, ErrorCode.INCONSISTENT_TOPIC_ID)
            partition = self.broker.topics.partition_of(topic, entry.partition)
            assert partition is not None
            return self._read_log(partition, entry)
        except LogLoadingError:
            return self._refusal(entry, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        except StorageError as error:
            self.broker.topics.report(topic.name, entry.partition, error)
            return self._refusal(entry, _storage_error(self.version))
        finally:
            self.left = max(0, self.left)  # less than nothing is a limit of the first partition alone

    def _read_log(
        self, partition: Partition, entry: messages.FetchRequest.FetchPartition
    ) -> messages.FetchResponse.PartitionData:
        log = partition.log
        epoch = entry.current_leader_epoch
        if epoch >= 0 and epoch != partition.leader_epoch:
            is_old = epoch < partition.leader_epoch
            error = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            return self._refusal(entry, error, partition.leader_epoch)
        is_follower = self.follower[0] >= 0
        is_replicated = is_follower or partition.replica is not None
        if is_replicated and (error := self._check_role(partition, epoch, is_follower=is_follower)):
            return self._refusal(entry, error, partition.leader_epoch)
        start, high_watermark = log.log_start_offset, log.high_watermark
        end = log.log_end_offset if self.reads_all else high_watermark
        if entry.last_fetched_epoch >= 0 and (diverging := self._diverging(partition, entry)) is not None:
            return diverging
        # The high watermark of a new leader may be lower than that of the previous one: such a consumer waits.
        if not start <= entry.fetch_offset <= log.log_end_offset:
            replicas = self.broker.replicas
            if entry.fetch_offset > log.log_end_offset and replicas is not None and replicas.may_be_fenced:
                # The next leader may have the offset: a consumer would go to an end of the log for nothing.
                return self._refusal(entry, ErrorCode.NOT_LEADER_OR_FOLLOWER, partition.leader_epoch)
            return self._refusal(entry, ErrorCode.OFFSET_OUT_OF_RANGE)
        if is_follower:
            if not self.parked_at:  # else it counted when it arrived, and its follower may be gone
                assert self.broker.replicas is not None
                self.broker.replicas.fetched(partition, *self.follower, entry)
                high_watermark = log.high_watermark
            # Answer at once: DeleteRecords waits until the follower has the new log start.
            self.is_final = self.is_final or 0 <= entry.log_start_offset < start
        # A log whose transactions are not known yet is not scanned for a number that only readers of committed
        # records use.
        stable = partition.last_stable_offset if self.aborted or partition.knows_producers else end
        readable = stable if self.aborted else end
        records: Buffer = b""
        limit = min(entry.partition_max_bytes, self.left)
        if entry.fetch_offset < readable and limit < 0:
            return self._refusal(entry, ErrorCode.UNKNOWN_SERVER_ERROR)
        if entry.fetch_offset < readable and (self.left > 0 or self.at_least_one):
            records = log.read(entry.fetch_offset, limit, at_least_one=self.at_least_one, end_offset=readable)
            if records:
                self.at_least_one = False
                self.size += len(records)
                self.left -= len(records)
        self.watched.append(_Watched(partition, records, max(entry.partition_max_bytes, 0)))
        return messages.FetchResponse.PartitionData(
            partition_index=partition.index,
            error_code=0,
            high_watermark=high_watermark,
            last_stable_offset=min(stable, high_watermark),
            log_start_offset=start,
            aborted_transactions=_aborted(partition, entry.fetch_offset, records) if self.aborted else None,
            records=records,  # type: ignore[arg-type]  # it is only encoded, and that takes views
        )

    def _check_role(self, partition: Partition, epoch: int, *, is_follower: bool) -> ErrorCode:
        """Return why a request may not read here: brokers and old clients read from leaders alone (KIP-392).

        A broker may not if it follows no partition of this one, or of another epoch.
        """
        replica = partition.replica
        if isinstance(replica, FollowerReplica):
            is_refused = is_follower or self.version < FOLLOWERS_SERVE_SINCE
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_refused else ErrorCode.NONE
        if not is_follower:
            return ErrorCode.NONE
        error = ErrorCode.UNKNOWN_LEADER_EPOCH  # the leader may not know the replica yet
        if replica is not None:
            error = replica.check_fetch(self.follower[0], partition.leader_epoch, self.follower[1])
        is_unknown = error == ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_unknown and epoch < 0 else error

    def _diverging(
        self, partition: Partition, entry: messages.FetchRequest.FetchPartition
    ) -> messages.FetchResponse.PartitionData | None:
        """Return where the reader's last epoch ended here, if it diverged (KIP-595); None when it did not."""
        log = partition.log
        diverging = divergence(log, log.log_start_offset, entry.fetch_offset, entry.last_fetched_epoch)
        if diverging is None:
            return None
        if isinstance(diverging, OutOfRange):
            return self._refusal(entry, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.is_final = True
        response = messages.FetchResponse
        return response.PartitionData(
            partition_index=partition.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.high_watermark,
            log_start_offset=log.log_start_offset,
            diverging_epoch=response.EpochEndOffset(*diverging),
            aborted_transactions=None,
            records=b"",
        )

    def _refusal(
        self, entry: messages.FetchRequest.FetchPartition, error: ErrorCode, leader_epoch: int = -1
    ) -> messages.FetchResponse.PartitionData:
        """Kafka gives no offsets beside an error: a client that needs them sends ListOffsets."""
        self.is_final = True
        refusal = _unknown(entry.partition, error)
        refusal.aborted_transactions = None
        if self.version >= _LEADER_SINCE and error in _WRONG_LEADER:
            refusal.current_leader = messages.FetchResponse.LeaderIdAndEpoch(
                self.broker.node.id, leader_epoch
            )
        return refusal


def _read(
    broker: Context,
    request: messages.FetchRequest,
    plan: Plan,
    version: int,
    parked_at: Sequence[Partition] = (),
    refuses: Refuses | None = None,
) -> _Reading:
    """Read in the order of the plan.

    Missing topics and partitions come last in the response, as in Kafka: unknown ids, then unknown and denied names.
    Those deleted while the request was parked there keep their place.
    """
    reader = _Reader(broker, request, version, parked_at, refuses)
    responses: list[Read] = []
    without_name: list[Read] = []
    missing: list[Read] = []
    for wanted in plan.wanted:
        name, topic_id, entry = wanted
        is_known = bool(name) or version < TOPIC_IDS_SINCE
        if not is_known and reader.denies_follower(entry.partition):
            missing.append(Read(name, topic_id, _unknown(entry.partition, _DENIED)))
            continue
        data = reader.read(wanted) if is_known else None
        if data is not None:
            (missing if data.error_code == _DENIED else responses).append(Read(name, topic_id, data))
        elif name or version < TOPIC_IDS_SINCE:
            unknown = _unknown(entry.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            missing.append(Read(name, topic_id, unknown))
        else:
            without_name.append(Read(name, topic_id, _unknown(entry.partition, ErrorCode.UNKNOWN_TOPIC_ID)))
    if (without_name or missing) and reader.follower[0] >= 0:
        # A follower may hear of a topic before its leader. It asks again when it knows that, and waits for an hour.
        reader.is_final = True
    results = responses + without_name + missing
    return _Reading(results, reader.size, reader.least, reader.watched, reader.is_final)


def _aborted(
    partition: Partition, fetch_offset: int, records: Buffer
) -> list[messages.FetchResponse.AbortedTransaction]:
    """List the aborted transactions whose records are among those in the response."""
    if not records or not partition.producers.aborted:
        return []
    end = max(header.last_offset for _, header in batch_headers(records)) + 1
    response = messages.FetchResponse.AbortedTransaction
    aborted = partition.producers.aborted_in(fetch_offset, end)
    return [response(transaction.producer_id, transaction.first_offset) for transaction in aborted]


def _unknown(index: int, error: ErrorCode) -> messages.FetchResponse.PartitionData:
    return messages.FetchResponse.PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[],
        records=b"",
    )


def _storage_error(version: int) -> ErrorCode:
    is_known = version >= _STORAGE_ERROR_SINCE
    return ErrorCode.KAFKA_STORAGE_ERROR if is_known else ErrorCode.NOT_LEADER_OR_FOLLOWER


def fail_fetch(request: messages.FetchRequest, error: ErrorCode, api_version: int) -> messages.FetchResponse:
    """Answer the request with `error`, and every partition of it where topics have names."""
    if error is ErrorCode.KAFKA_STORAGE_ERROR:
        error = _storage_error(api_version)
    response = messages.FetchResponse
    return response(
        error_code=error if api_version >= _ERROR_SINCE else 0,
        session_id=request.session_id,
        responses=[
            response.FetchableTopicResponse(
                named.topic,
                named.topic_id,
                [_unknown(entry.partition, error) for entry in named.partitions],
            )
            for named in request.topics
            if api_version < TOPIC_IDS_SINCE
        ],
    )
