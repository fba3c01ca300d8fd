"""Produce shapes: the Produce requests of one broker that need not be decoded.

A producer sends its batches to the same partitions again and again. What its requests for one partition have in common
is a shape: all bytes before the size of the records, and the response but for its numbers. The batch is checked and
appended as that of any other request. A batch that is refused is decoded, and decided by the handler of the API, and so
is every request of several partitions, in a transaction, or with acks=0.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.broker.partition.batch_validation import Refused, check_batch, find_batch
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, ProtocolError, StorageError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.flexible import uvarint
from kafka_offsets.protocol.connection import encode_response
from kafka_offsets.protocol.records import CHECKED_POSITION, TRANSACTIONAL
from kafka_offsets.replication.leader import ACKS_ALL

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.broker.partition.partitions import Partition, Topic
    from kafka_offsets.broker.wire.connection import ClientConnection
    from kafka_offsets.clock import Now

_MOST = 1 << 12
"""Limit of the shapes, of about 1 KB each. Then no other is learnt until a topic is created or deleted."""

_LONGEST_NAME = 126
"""The longest name of a topic whose size takes one byte."""

_PLAIN, _FLEXIBLE, _BY_ID = (13, 22, b""), (8, 13, b"\0\0\0"), (0, 29, b"\0\0\0")
_LAYOUTS = dict.fromkeys(range(5, 9), _PLAIN) | dict.fromkeys(range(9, 13), _FLEXIBLE) | {13: _BY_ID}
"""By version, from 5 on, as responses have a log start offset then: in a request for one partition, the size of the
records is at the second number plus the byte at the first one, both counted from the end of the header. This byte has
the size of the topic's name, or is 0 where topics have ids. The third one is how the request ends."""

_SIZE = struct.Struct(">i")
_NUMBERS = struct.Struct(">hqqq")
"""Error code, base offset, time of the append and log start offset, next to each other in a response."""
_ANY_NUMBERS = 0x1234, 0x123456789ABCDEF, 0x23456789ABCDEF1, 0x1EDCBA987654321


class _Shape(NamedTuple):
    """The shape of requests: the bytes that they have in common.

    before, middle, after  the response without the correlation id, the error code and the numbers
    """

    topic: Topic
    partition: Partition
    before: bytes
    middle: bytes
    after: bytes


class ProduceShapes:
    """The shapes of the Produce requests of one broker. len() is their number."""

    def __init__(self, broker: Context) -> None:
        self._broker = broker
        self._shapes: dict[bytes, _Shape] = {}
        self._topics_version = -1

    def __len__(self) -> int:
        return len(self._shapes)

    def serves(self, connection: ClientConnection) -> bool:
        """Whether responses wait neither for replicas nor for the disk."""
        return self._broker.replicas is None and self._broker.config.fsync != "commit"

    def decide(self, context: RequestContext, frame: bytes, body: int, now: Now) -> bool | None:
        """Append the batch of a request of a known shape; return False, with no effect, if it must be decoded.

        None if the disk refuses the batch, which is responded as to a decoded request.

        frame, body  the request, and where it begins after its header
        """
        broker = self._broker
        cut = _cut(frame, body, context.api_version)
        shape = None if cut is None else self._shapes.get(cut[0])
        if cut is None or shape is None:
            return False
        if self._topics_version != broker.topics.version or broker.access.throttling.is_active:
            return False
        records, partition = cut[1], shape.partition
        header = find_batch(records, context.api_version)
        if isinstance(header, Refused) or header.attributes & TRANSACTIONAL:
            return False
        topic, log = shape.topic, partition.log
        accepted = check_batch(records, header, topic.config, topic.name, partition.index, now)
        if isinstance(accepted, Refused):
            return False
        checked, crc, max_timestamp, append_time = accepted
        if len(checked) + CHECKED_POSITION > topic.log_config.segment_bytes:
            return False
        try:
            producers = partition.producers if header.producer_id >= 0 else None
        except StorageError:  # the decoded request waits for them, or gets the error
            return False
        if producers is not None and producers.check(header) is not ErrorCode.NONE:
            return False
        if broker.appends.memory.refuses(log, len(checked) + CHECKED_POSITION) is not None:
            return False
        try:
            offset = log.append_checked(
                checked, crc, header.last_offset_delta, max_timestamp, partition.leader_epoch
            )
        except StorageError as error:
            broker.topics.report(topic.name, partition.index, error)
            context.request = context.codecs.decode(frame, body)[0]
            broker.responses.fail(context, ErrorCode.KAFKA_STORAGE_ERROR)
            return None
        if producers is not None:
            producers.add(header, offset, max_timestamp, now.wall_ms)
        broker.appends.record(partition)
        numbers = _NUMBERS.pack(0, offset, append_time, log.log_start_offset)
        response = b"".join((shape.before, frame[4:8], shape.middle, numbers, shape.after))
        broker.responses.respond_encoded(context, response)
        return True

    def learn(self, context: RequestContext, response: object, frame: bytes, body: int) -> None:
        """Learn the shape of a request that was decoded.

        response  is later
        """
        request, topics = context.request, self._broker.topics
        if self._topics_version != topics.version:
            self._shapes.clear()
            self._topics_version = topics.version
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
            return
        named, (data,) = request.topic_data[0], request.topic_data[0].partition_data
        if request.transactional_id is not None or request.acks not in (1, ACKS_ALL):
            return
        cut = _cut(frame, body, context.api_version)
        if cut is None or cut[1] != data.records or cut[0] in self._shapes or len(self._shapes) >= _MOST:
            return
        topic = topics.get(named.name) or topics.by_id(named.topic_id)  # a version has one of them
        if topic is None or topic.is_internal or not 0 <= data.index < topic.partition_count:
            return
        partition = topic.partitions[data.index]
        if partition is not None and len(topic.name.encode()) <= _LONGEST_NAME:
            self._shapes[cut[0]] = _shape(context, topic, named, partition)


def _cut(frame: bytes, body: int, version: int) -> tuple[bytes, bytes] | None:
    """Return API, version and the bytes before the size of the records, and the records; None if they are elsewhere."""
    layout = _LAYOUTS.get(version)
    if layout is None:
        return None
    name_size, fixed_size, tail = layout
    try:
        at = body + fixed_size + frame[body + name_size]
        if not tail:
            size, start = *_SIZE.unpack_from(frame, at), at + 4
        elif (first := frame[at]) < 128:
            size, start = first - 1, at + 1
        else:
            size, start = uvarint(frame, at + 1, first)
            size -= 1
    except (IndexError, struct.error, ProtocolError):
        return None
    end = start + size
    # A slice of nothing says that the frame ends before, without a call.
    if size < 0 or not frame[end - 1 : end] or frame[end:] != tail:
        return None
    return frame[:4] + frame[body:at], frame[start:end]


def _shape(
    context: RequestContext,
    topic: Topic,
    named: messages.ProduceRequest.TopicProduceData,
    partition: Partition,
) -> _Shape:
    """Return the shape of a request that is for one partition."""
    response = messages.ProduceResponse
    partition_response = response.PartitionProduceResponse(partition.index, *_ANY_NUMBERS)
    answered = response([response.TopicProduceResponse(named.name, named.topic_id, [partition_response])])
    codecs = context.codecs
    encoded = encode_response(codecs.encode, answered, 0, tagged=codecs.has_tagged_response_header)
    before, after = bytes(encoded).split(_NUMBERS.pack(*_ANY_NUMBERS))
    return _Shape(topic, partition, before[:4], before[8:], after)
