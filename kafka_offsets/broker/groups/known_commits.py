"""Known commits: which requests of OffsetCommit repeat an earlier one, by all bytes but their offsets and epochs.

A request whose bytes are new is decoded, and so is the next one with the same bytes: only then is it worth the memory
to know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafka_offsets.coordinator.offsets.repeated_commits import (
    TAILS,
    ColumnAt,
    Numbers,
    RepeatableCommit,
    column_at,
    numbers_at,
    repeatable,
    repeatable_column,
)
from kafka_offsets.coordinator.offsets.requests import topic_name
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.plain_rows import PlainRows
from kafka_offsets.protocol.connection import encode_response

if TYPE_CHECKING:
    from kafka_offsets.broker.groups.runtime import HostedShard
    from kafka_offsets.broker.wire.api import Codecs

_MOST = 1 << 14
"""Limit of known commits, of about 1 KB each, and of the hashes of those that were seen once. So of more groups that
commit in turn none become known: to know a commit takes as long as to decode a few, and it would not repeat in time."""

_BYTES_OF_ONE = 400
"""A commit counts as another one for each of so many bytes of its request: of 20 partitions, or of a long name."""

_MOST_SIZES = 1 << 10
"""Limit of the sizes of requests with a column. Requests of one size nearly always have their column at one place."""

_PAUSE = 64
"""At the limit all known commits are forgotten, and none become known among so many times as many: of 30,000 groups in
random order, half of them known, a commit took 15 % longer than decoded, as repeats and others alternate in a turn."""

_LONGEST = 512
"""The longest request of a single partition that is looked up; it is rarely half as long."""

_LONGEST_COLUMN = 1 << 16
"""The longest request of a column that is looked up: one of 3,600 partitions."""


class KnownCommits:
    """The repeatable commits of one version. len() is their number."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._numbers_at = numbers_at(version)
        self._tail_at = -len(TAILS[version][0])
        self._known: dict[bytes, RepeatableCommit] = {}
        self._columns_at: dict[int, ColumnAt] = {}
        self._held = 0
        self._seen: set[int] = set()
        self._pause = 0

    def __len__(self) -> int:
        return len(self._known)

    def find(self, frame: bytes, body: int) -> tuple[RepeatableCommit, Numbers] | None:
        """Return what a request repeats, and its own numbers; None if it must be decoded.

        frame  the request without its size
        body   the position after its header
        """
        if self._columns_at and (at := self._columns_at.get(len(frame) - body)) is not None:
            known = self._known.get(at.others(frame, body))
            if known is not None and (column := known.column) is not None and column.at == at:
                return known, column.rows.again(frame, body + at.begin)
        known = self._known.get(frame[body : self._numbers_at])
        if known is None or known.column is not None or frame[self._tail_at :] != known.tail:
            return None
        return known, frame[self._numbers_at : self._tail_at]

    def note(
        self,
        frame: bytes,
        body: int,
        request: messages.OffsetCommitRequest,
        codecs: Codecs,
        hosted: HostedShard,
    ) -> None:
        """Note a request that `find` has not found."""
        if len(request.topics) != 1:
            return
        partitions: Sequence[object] = request.topics[0].partitions
        size = len(frame) - body
        column = partitions if type(partitions) is PlainRows else None
        if size > _LONGEST_COLUMN if column is not None else len(partitions) != 1 or size > _LONGEST:
            return
        if self._pause:
            self._pause -= 1
            return
        if self._held >= _MOST:
            self._forget()
            self._pause = _PAUSE * _MOST
            return
        at: ColumnAt | None = None
        if column is not None:
            at = self._columns_at[size] = column_at(column, body)
            if len(self._columns_at) > _MOST_SIZES:
                self._forget()
        others = frame[body : self._numbers_at] if at is None else at.others(frame, body)
        if (seen := hash(others)) not in self._seen:
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen.add(seen)
            return
        topic = topic_name(hosted.shard, request, self._version)
        answer = bytes(encode_response(codecs.echo, request, 0, tagged=codecs.has_tagged_response_header))
        if at is None:
            found = repeatable(frame, body, self._version, request, topic, codecs.decode, answer)
        else:
            found = repeatable_column(at, self._version, request, topic, answer)
        if found is not None:
            self._held += 0 if others in self._known else 1 + size // _BYTES_OF_ONE
            self._known[others] = found

    def _forget(self) -> None:
        self._known.clear()
        self._columns_at.clear()
        self._held = 0
