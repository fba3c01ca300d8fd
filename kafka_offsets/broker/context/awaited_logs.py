"""Awaited logs: a request for a log that is being opened, or read for its producers, waits for that.

Kafka opens all logs before it listens, so its clients need not retry their first call after a start, and many do not:
librdkafka passes the error of its ListOffsets on to the program. Other requests are served in the meantime;
those of the same connection are decided afterwards, so that records stay in their order. What is not open after the
timeout, or when too many requests wait, gets NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_offsets.broker.context.broker_peers import is_broker
from kafka_offsets.broker.context.incremental import Steps, run_incrementally
from kafka_offsets.broker.partition.partitions import LogLoadingError, Partition, Topic
from kafka_offsets.broker.turn.background_task import Until
from kafka_offsets.broker.wire.api import LATER, Handle, Later, Response
from kafka_offsets.errors import ErrorCode, StorageError

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.clock import Now
    from kafka_offsets.coordinator.state.result import RequestContext
    from kafka_offsets.protocol.messages import MessageValue

_TIMEOUT_MS, _LONGEST_MS = 10_000, 30_000
"""The wait of a request without a timeout, and the longest of any other one: clients give up after 10 s to 60 s."""

TopicAndIndex = tuple[Topic | None, int]


def timeout_of(request: object, *, is_all: bool) -> int:
    """Return how long a request may wait, in ms.

    is_all  whether all logs that it reads are still to be opened
    """
    given_ms: int = getattr(request, "timeout_ms", 0)
    return min(given_ms, _LONGEST_MS) if given_ms > 0 else _TIMEOUT_MS


class Awaiting(NamedTuple):
    """The logs that the requests of an API wait for.

    topic_partitions (broker, request, context, what else the handler gets) -> the partitions whose logs they need
    needs_producers  (request, API version) -> whether they need the producers of these as well
    timeout_ms       as `timeout_of`
    """

    topic_partitions: Callable[..., list[TopicAndIndex]]
    needs_producers: Callable[[Any, int], bool]
    timeout_ms: Callable[..., int] = timeout_of


def awaits_logs(awaiting: Awaiting) -> Callable[[Handle], Handle]:
    """Decorate the handler of an API: it is called when the logs are open, at once if they are."""

    def decorate(handle: Handle) -> Handle:
        @wraps(handle)
        def decide(
            broker: Context, request: MessageValue, context: RequestContext, now: Now, *more: object
        ) -> Response | Later:
            topic_partitions = awaiting.topic_partitions(broker, request, context, *more)
            for topic, index in topic_partitions:
                if topic is not None and 0 <= index < len(topic.partitions):
                    partition = topic.partitions[index]
                    if partition is None or not partition.knows_producers:
                        break
            else:
                return handle(broker, request, context, now, *more)
            needs_producers = partial(awaiting.needs_producers, request, context.api_version)
            loading = list(_loading(broker, topic_partitions, needs_producers))
            if not loading or is_broker(broker, context):  # one connection has all requests of a broker
                return handle(broker, request, context, now, *more)
            timeout_ms = awaiting.timeout_ms(request, is_all=len(loading) == len(topic_partitions))
            context.connection.pipelined_key = None
            decided = partial(handle, broker, request, context)
            return run_incrementally(
                broker, context, _decided_later(broker, context, decided, loading, timeout_ms, more)
            )

        return decide

    return decorate


def _loading(
    broker: Context, topic_partitions: Iterable[TopicAndIndex], needs_producers: Callable[[], bool]
) -> Iterator[tuple[Topic, int]]:
    """Yield the partitions whose logs are being opened or read, and begin with that where it takes long."""
    for topic, index in topic_partitions:
        if topic is None or not 0 <= index < topic.partition_count:
            continue
        partition = topic.partitions[index]
        if partition is not None and partition.knows_producers:
            continue
        try:
            if partition is None:
                is_loading = broker.opener is not None and broker.opener.begin(topic, index)
            else:
                is_loading = needs_producers() and _is_read(partition)
        except StorageError:
            continue  # the handler meets it as well
        if is_loading:
            yield topic, index


def _is_read(partition: Partition) -> bool:
    """Return whether a log is being read for its producers, which begins here. StorageError for a damaged one."""
    try:
        _ = partition.producers
    except LogLoadingError:
        return True
    return False


def _decided_later(
    broker: Context,
    context: RequestContext,
    decided: Callable[..., Response | Later],
    loading: list[tuple[Topic, int]],
    timeout_ms: int,
    more: tuple[object, ...],
) -> Steps[Response | Later]:
    opener, clock = broker.opener, broker.clock
    assert opener is not None, "it loads them"
    until_ms = clock.now().mono_ms + timeout_ms
    roles = [_role(broker, *topic_and_index) for topic_and_index in loading]
    with opener.waiting(context.frame_bytes) as may_wait:
        while may_wait and any(opener.is_loading(*topic_and_index) for topic_and_index in loading):
            left_ms = until_ms - clock.now().mono_ms
            if left_ms <= 0:
                break
            yield Until(partial(opener.when_changed, timeout_ms=left_ms))
    if roles == [_role(broker, *topic_and_index) for topic_and_index in loading]:
        return decided(clock.now(), *more)
    broker.responses.fail(context, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # the role was checked before the wait
    return LATER


def _role(broker: Context, topic: Topic, index: int) -> tuple[bool, bool, bool]:
    """Return whether a partition is led here, whether it has a replica here, and whether its open log has no role."""
    if broker.replicas is None:
        return True, True, False
    state, partition = broker.replicas.state(topic.name, index), topic.partitions[index]
    is_idle = partition is not None and partition.replica is None
    if state is None:
        return False, False, is_idle
    return state.leader == broker.node.id, broker.node.id in state.replicas, is_idle
