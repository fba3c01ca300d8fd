"""Known commits: which requests of OffsetCommit repeat an earlier one, by the bytes before their offset.

A request whose bytes are new is decoded, and so is the next one that begins with the same bytes: only then is it worth
the memory to know them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_offsets.coordinator.offsets.repeated_commits import (
    TAILS,
    RepeatableCommit,
    numbers_at,
    repeatable,
)
from kafka_offsets.coordinator.offsets.requests import topic_name
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import encode_response

if TYPE_CHECKING:
    from kafka_offsets.broker.api.row import Codecs
    from kafka_offsets.broker.coordination.runtime import HostedShard

_MOST = 1 << 14
"""Limit of known commits, of about 1 KB each, and of the hashes of those that were seen once. So of more groups that
commit in turn none become known: to know a commit takes as long as to decode a few, and it would not repeat in time."""

_PAUSE = 64
"""At the limit all known commits are forgotten, and none become known among so many times as many: of 30,000 groups in
random order, half of them known, a commit took 15 % longer than decoded, as repeats and others alternate in a turn."""

_LONGEST = 512
"""The longest request that is looked up; one of a single partition is rarely half as long."""


class KnownCommits:
    """The repeatable commits of one version. len() is their number."""

    def __init__(self, version: int) -> None:
        self._version = version
        self.numbers_at = numbers_at(version)
        self.tail_at = -len(TAILS[version][0])
        self._known: dict[bytes, RepeatableCommit] = {}
        self._seen: set[int] = set()
        self._pause = 0

    def __len__(self) -> int:
        return len(self._known)

    def find(self, frame: bytes, body: int) -> RepeatableCommit | None:
        """Return what a request repeats, or None.

        frame  the request without its size
        body   the position after its header
        """
        known = self._known.get(frame[body : self.numbers_at])
        return known if known is not None and frame[self.tail_at :] == known.tail else None

    def note(
        self,
        frame: bytes,
        body: int,
        request: messages.OffsetCommitRequest,
        codecs: Codecs,
        hosted: HostedShard,
    ) -> None:
        """Note a request that `find` has not found."""
        topics = request.topics
        if len(topics) != 1 or len(topics[0].partitions) != 1 or len(frame) - body > _LONGEST:
            return
        if self._pause:
            self._pause -= 1
            return
        if len(self._known) >= _MOST:
            self._known.clear()
            self._pause = _PAUSE * _MOST
            return
        head = frame[body : self.numbers_at]
        if (seen := hash(head)) not in self._seen:
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen.add(seen)
            return
        topic = topic_name(hosted.shard, request, self._version)
        answer = encode_response(codecs.echo, request, 0, tagged=codecs.has_tagged_response_header)
        found = repeatable(frame, body, self._version, request, topic, codecs.decode, bytes(answer))
        if found is not None:
            self._known[head] = found
