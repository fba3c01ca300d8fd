"""The driver of the socket level: frames written by hand with struct, independent of the project's codecs.

Only old, inflexible versions are used, whose layout fits in a line of comment each.
"""

import socket
import struct
from collections.abc import Iterable
from typing import Self

CREATE_TOPICS, API_VERSIONS, FIND_COORDINATOR, OFFSET_FETCH, OFFSET_COMMIT = 19, 18, 10, 9, 8
INCREMENTAL_ALTER_CONFIGS, GROUP, SET = 44, 32, 0
CLIENT_ID = b"wire"


class WireError(Exception):
    """The peer closed the connection."""


def text(value: str | None) -> bytes:
    """A nullable string: int16 length (-1: null), bytes."""
    if value is None:
        return struct.pack(">h", -1)
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def array(items: Iterable[bytes]) -> bytes:
    """An array: int32 count, items."""
    items = list(items)
    return struct.pack(">i", len(items)) + b"".join(items)


def frame(api: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """int32 size, request header 1 (key, version, correlation id, client id), body."""
    header = struct.pack(">hhih", api, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(header) + len(body)) + header + body


class Connection:
    """A blocking connection to one broker."""

    def __init__(self, address: str, timeout_s: float = 20.0) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(size - len(parts))
            if not part:
                raise WireError(f"closed after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)

    def receive(self) -> bytes:
        """The next frame, without its size: correlation id, body."""
        return self.read(struct.unpack(">i", self.read(4))[0])

    def call(self, api: int, version: int, body: bytes) -> bytes:
        """Send one request and return the body of its answer."""
        self.socket.sendall(frame(api, version, 7, body))
        answer = self.receive()
        assert answer[:4] == struct.pack(">i", 7)
        return answer[4:]

    def api_versions(self) -> int:
        """ApiVersions v0: the error code of the answer."""
        code: int = struct.unpack_from(">h", self.call(API_VERSIONS, 0, b""))[0]
        return code

    def create_topic(self, topic: str, partitions: int) -> int:
        """CreateTopics v2: the error code (0, or 36 when it exists)."""
        entry = text(topic) + struct.pack(">ih", partitions, 1) + array([]) + array([])
        answer = self.call(CREATE_TOPICS, 2, array([entry]) + struct.pack(">i?", 10_000, False))
        # throttle int32, count int32, name, error code, message
        code: int = struct.unpack_from(">h", answer, 8 + len(text(topic)))[0]
        return code

    def set_group_config(self, group: str, key: str, value: str) -> int:
        """IncrementalAlterConfigs v0 of one group: the error code."""
        resource = (
            struct.pack(">b", GROUP) + text(group) + array([text(key) + struct.pack(">b", SET) + text(value)])
        )
        answer = self.call(INCREMENTAL_ALTER_CONFIGS, 0, array([resource]) + struct.pack(">?", False))
        # throttle int32, count int32, error code, ...
        code: int = struct.unpack_from(">h", answer, 8)[0]
        return code

    def find_coordinator(self, group: str) -> int:
        """FindCoordinator v0: the error code."""
        code: int = struct.unpack_from(">h", self.call(FIND_COORDINATOR, 0, text(group)))[0]
        return code

    def fetch_offsets(self, group: str, topic: str, partitions: int) -> dict[int, tuple[int, str]] | int:
        """OffsetFetch v3: partition to committed offset and metadata, or the error of the whole answer."""
        asked = array([text(topic) + array(struct.pack(">i", index) for index in range(partitions))])
        answer = self.call(OFFSET_FETCH, 3, text(group) + asked)
        code: int = struct.unpack_from(">h", answer, len(answer) - 2)[0]
        if code:
            return code
        # throttle int32, count int32, name, count int32, [index int32, offset int64, metadata, error int16]
        position = 12 + len(text(topic))
        found: dict[int, tuple[int, str]] = {}
        for _ in range(partitions):
            index, offset, length = struct.unpack_from(">iqh", answer, position)
            position += 14
            metadata = answer[position : position + length].decode()
            position += length
            (error,) = struct.unpack_from(">h", answer, position)
            position += 2
            if error:
                return int(error)
            found[index] = offset, metadata
        return found


def offset_commit(correlation_id: int, group: str, topic: str, offset: int, partitions: int) -> bytes:
    """A frame of OffsetCommit v2 by no member: the same offset for all partitions, its digits as metadata."""
    entries = (struct.pack(">iq", index, offset) + text(str(offset)) for index in range(partitions))
    body = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">q", -1)
    return frame(OFFSET_COMMIT, 2, correlation_id, body + array([text(topic) + array(entries)]))


def offset_commit_errors(answer: bytes, topic: str) -> set[int]:
    """The error codes of an OffsetCommit v2 answer for one topic: count, name, count, [index, error]."""
    position = 4 + 4 + len(text(topic))
    (count,) = struct.unpack_from(">i", answer, position)
    return {error for _, error in struct.iter_unpack(">ih", answer[position + 4 : position + 4 + 6 * count])}
