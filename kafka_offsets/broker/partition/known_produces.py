"""Known produces: which Produce requests repeat an earlier one, by all bytes but those of their record batch.

A request whose bytes are new is decoded, and so is the next one with the same bytes: only then is it worth the memory
to know them. The response to a repeat is that of the earlier request, with the numbers of its own batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.flexible import encode_uvarint
from kafka_offsets.protocol.connection import encode_response
from kafka_offsets.replication.leader import ACKS_ALL

if TYPE_CHECKING:
    from kafka_offsets.broker.config.topic import TopicConfig
    from kafka_offsets.broker.partition.partitions import Partition, Topic, Topics
    from kafka_offsets.broker.wire.api import Codecs
    from kafka_offsets.coordinator.state.result import RequestContext

_MOST = 1 << 12
"""Limit of the known requests of one version, of about 1 KB each. Then no others become known until a topic is created
or deleted."""

_LONGEST = 512
"""The longest request that becomes known, without its batch."""

_NUMBERS = struct.Struct(">qqq")
"""Base offset, time of the append and log start offset, next to each other in a response."""

_pack_numbers = _NUMBERS.pack
_NO_TIME = -1
_OTHER_NUMBERS = _pack_numbers(0x123456789ABCDEF, _NO_TIME, 0x1EDCBA987654321)


class _Places(NamedTuple):
    """Where the records of a request for one partition are.

    name_size, rest  the size of the records is at `rest` plus the byte at `name_size`, counted from the end of the
                     header: this byte has the size of the topic's name, or is 0 where topics have ids
    tail             the end of the request after the records, without tagged fields
    size_of          returns the encoded size of the records from the number of bytes of both; empty if there is none
    """

    name_size: int
    rest: int
    tail: bytes
    size_of: Callable[[int], bytes]

    def records(self, frame: bytes, at: int) -> tuple[int, int] | None:
        """Return where the records begin and end, from the position of their size; None if something else is there."""
        end = len(frame) - len(self.tail)
        size = self.size_of(end - at)
        start = at + len(size)
        return None if not size or frame[at:start] != size or frame[end:] != self.tail else (start, end)


@lru_cache(maxsize=1024)
def _flexible_size(remaining: int) -> bytes:
    for width in range(1, 5):
        size = encode_uvarint(max(remaining - width + 1, 0))
        if len(size) == width:
            return size
    return b""


@lru_cache(maxsize=1024)
def _plain_size(remaining: int) -> bytes:
    return struct.pack(">i", max(remaining - 4, 0))


PLACES = (
    dict.fromkeys(range(5, 9), _Places(13, 22, b"", _plain_size))
    | dict.fromkeys(range(9, 13), _Places(8, 13, b"\0\0\0", _flexible_size))
    | {13: _Places(0, 29, b"\0\0\0", _flexible_size)}
)
"""By version: from 5 on, responses have a log start offset."""


class RepeatableProduce(NamedTuple):
    """What all repeats of a request have in common.

    config                 the topic's at that time
    before, middle, after  the response without the correlation id and the numbers
    """

    topic: Topic
    partition: Partition
    config: TopicConfig
    before: bytes
    middle: bytes
    after: bytes

    def answer(self, correlation_id: bytes, base_offset: int, log_start_offset: int) -> bytes:
        """Return the response to a repeat, the size of its frame first."""
        numbers = _pack_numbers(base_offset, _NO_TIME, log_start_offset)
        return b"".join((self.before, correlation_id, self.middle, numbers, self.after))


class KnownProduces:
    """The repeatable requests of one version, by their bytes before the records; None: seen once.

    len() is the number of the known ones.
    """

    def __init__(self, version: int) -> None:
        self.places = PLACES[version]
        self.known: dict[bytes, RepeatableProduce | None] = {}
        self.topics_version = -1

    def __len__(self) -> int:
        return sum(each is not None for each in self.known.values())

    def note(self, topics: Topics, context: RequestContext, frame: bytes, body: int) -> None:
        """Note a request that was decoded; the second of its kind becomes known.

        frame, body  the request without its size, and the position after its header
        """
        request = context.request
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
            return
        named, (data,) = request.topic_data[0], request.topic_data[0].partition_data
        at = body + self.places.rest + frame[body + self.places.name_size]
        if request.transactional_id is not None or request.acks not in (1, ACKS_ALL) or at - body > _LONGEST:
            return
        if self.topics_version != topics.version:
            self.known.clear()
            self.topics_version = topics.version
        begin = frame[body:at]
        if begin in self.known:
            known = self.known[begin]
            if known is not None and known.topic.config is known.config:
                return  # its batch is not a usual one
            topic = topics.get(named.name) or topics.by_id(named.topic_id)  # a version has one of them
            if topic is not None and self._is_at(frame, body, at, context.codecs):
                self.known[begin] = _repeatable(topic, named, data.index, context.codecs)
        elif len(self.known) < _MOST:
            self.known[begin] = None

    def _is_at(self, frame: bytes, body: int, at: int, codecs: Codecs) -> bool:
        """Whether the size of the records is at a position: other records there are those of the request."""
        found = self.places.records(frame, at)
        if found is None:
            return False
        start, end = found
        other = bytes(end - start)
        (topic,) = codecs.decode(frame[:start] + other + frame[end:], body)[0].topic_data
        return bool(topic.partition_data[0].records == other)


def _repeatable(
    topic: Topic, named: messages.ProduceRequest.TopicProduceData, index: int, codecs: Codecs
) -> RepeatableProduce | None:
    """Return what the repeats of a request have in common; None if its partition has accepted nothing yet."""
    response = messages.ProduceResponse
    if topic.is_internal or not 0 <= index < topic.partition_count:
        return None
    partition = topic.partitions[index]
    if partition is None or partition.replica is not None:
        return None
    answer = response.PartitionProduceResponse(index, 0, *_NUMBERS.unpack(_OTHER_NUMBERS))
    topics = [response.TopicProduceResponse(named.name, named.topic_id, [answer])]
    encoded = encode_response(codecs.encode, response(topics), 0, tagged=codecs.has_tagged_response_header)
    before, after = bytes(encoded).split(_OTHER_NUMBERS)
    return RepeatableProduce(topic, partition, topic.config, before[:4], before[8:], after)
