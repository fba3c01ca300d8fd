"""Commit shapes: the commits of one broker that need not be decoded, as they have a shape that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_offsets.coordinator.offsets.requests import commit_shaped, topic_names
from kafka_offsets.coordinator.offsets.shapes import VERSIONS, Shape, key_of, learn, read_committer
from kafka_offsets.coordinator.state.result import RequestContext, reply_with
from kafka_offsets.protocol.connection import encode_response

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.broker.wire.connection import ClientConnection
    from kafka_offsets.clock import Now

_MOST_PARTITIONS = 1 << 15
"""Limit of the partitions of all shapes, of about 400 bytes each; at the limit all shapes are forgotten."""

_SHAPE_PARTITIONS = 4
"""The size of a shape without its partitions, in partitions."""

_PARTITION_BYTES = 100
"""The bytes of a request that count as one partition: a shape has the metadata about four times."""

_LONGEST_BYTES = 256 << 10
"""A longer request is decoded: it has long metadata, or more partitions than a shape may have."""

_MOST_ALIKE = 4
"""Limit of shapes with the same key, such as those of metadata of other lengths."""

_AT_ONCE, _COST = 64, 32
"""The shapes that are learnt at once, and the commits for each further one: to learn a shape takes as long as to decode
a few requests, and where metadata always has other lengths, or each commit has other partitions, none comes again."""


class CommitShapes:
    """The shapes of the commits of one broker. len() is their number."""

    def __init__(self, broker: Context) -> None:
        self._broker = broker
        self._shapes: dict[tuple[int, int, bytes], list[Shape]] = {}
        self._partitions = 0
        self._credit = _AT_ONCE * _COST

    def __len__(self) -> int:
        return sum(map(len, self._shapes.values()))

    def serves(self, connection: ClientConnection) -> bool:
        """Return that the requests of any connection may have a known shape."""
        return True

    def decide(self, context: RequestContext, frame: bytes, body: int, now: Now) -> bool:
        """Decide a commit of a known shape; return False, with no effect, if it must be decoded.

        frame, body  the request, and where it begins after its header
        """
        version = context.api_version
        if self._credit < _AT_ONCE * _COST:
            self._credit += 1
        committer_and_end = read_committer(frame, body, version)
        if committer_and_end is None:
            return False
        committer, at = committer_and_end
        shapes = self._shapes.get(key_of(frame, at, version))  # type: ignore[arg-type]  # None is no key
        hosted = self._broker.groups.runtime.serving_shard(committer.group_id) if shapes else None
        if shapes is None or hosted is None:
            return False
        for shape in shapes:
            if (cut := shape.cut(frame, at)) is not None:
                break
        else:
            return False
        records = commit_shaped(hosted.shard, committer, shape, cut, version, now)
        if records is None:
            return False
        context.request = shape.request
        response = shape.response
        hosted.decide(reply_with(context, response[:4] + frame[4:8] + response[8:], records))
        self._broker.groups.shards.dirty[hosted] = None
        return True

    def learn(self, context: RequestContext, response: object, frame: bytes, body: int) -> None:
        """Learn the shape of a commit that was decoded.

        response  is later
        """
        version, request = context.api_version, context.request
        hosted = self._broker.groups.runtime.serving_shard(request.group_id)
        committer_and_end = read_committer(frame, body, version) if version in VERSIONS and hosted else None
        if self._credit < _COST or len(frame) > _LONGEST_BYTES or committer_and_end is None or hosted is None:
            return
        key = key_of(frame, committer_and_end[1], version)
        shapes = () if key is None else self._shapes.get(key, ())
        if key is None or any(shape.cut(frame, committer_and_end[1]) is not None for shape in shapes):
            return
        self._credit -= _COST
        codecs = context.codecs
        encoded_response = bytes(
            encode_response(codecs.echo, request, 0, tagged=codecs.has_tagged_response_header)
        )
        names = topic_names(hosted.shard, request, version)
        shape = learn(frame, committer_and_end[1], version, request, names, encoded_response)
        if shape is None:
            return
        topics_bytes = len(frame) - committer_and_end[1]  # the same for all shapes of a key
        size = _size_of(shape, topics_bytes)
        self._partitions += size
        if self._partitions > _MOST_PARTITIONS:
            self._shapes.clear()
            self._partitions = size
        alike = self._shapes.setdefault(key, [])
        alike.insert(0, shape)
        if len(alike) > _MOST_ALIKE:
            self._partitions -= _size_of(alike.pop(), topics_bytes)


def _size_of(shape: Shape, topics_bytes: int) -> int:
    """Return what a shape takes, in partitions."""
    return _SHAPE_PARTITIONS + max(shape.count, topics_bytes // _PARTITION_BYTES)
