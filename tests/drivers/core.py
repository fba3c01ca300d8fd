"""The driver of the core level: a BrokerCore and clients that speak to it in bytes, without sockets.

Time and turns are in the test's hands.
"""

import itertools
import struct
from typing import Any

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.turn.workers import Sync, sync_inline
from kafka_offsets.broker.wire.connection import ClientConnection
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import Files, MemoryFiles

API_VERSIONS_KEY = 18


def make_core(
    files: Files | None = None, sync: Sync = sync_inline, clock: ManualClock | None = None, **config: object
) -> BrokerCore:
    """Return a core; keyword arguments are Kafka's keys with underscores for dots."""
    keys = {name.replace("_", "."): value for name, value in config.items()}
    return BrokerCore(Config.load(keys), files or MemoryFiles(), clock or ManualClock(), sync)


def request_frame(
    request: messages.MessageValue, version: int, number: int = 1, client_id: str = "test"
) -> bytes:
    """Return the frame of a request, its size in front; a version that does not exist has no body worth reading."""
    schema = request.SCHEMA
    assert schema.number is not None
    known = version in schema.versions
    header = messages.RequestHeader(schema.number, version, number, client_id)
    body = messages.encode(header, 2 if not known or version in schema.flexible else 1)
    body += messages.encode(request, version) if known else b"?"
    return struct.pack(">i", len(body)) + body


def read_response(name: str, version: int, frame: bytes, number: int = 1) -> Any:
    """Return the message of a response frame without its size."""
    cls = messages.find(f"{name}Response")
    flexible = version in cls.SCHEMA.flexible and cls.SCHEMA.number != API_VERSIONS_KEY
    header, end = messages.decode(messages.ResponseHeader, frame, 1 if flexible else 0)
    assert header.correlation_id == number, "answers come in the order of their requests"
    value, end = messages.decode(cls, frame, version, end)
    assert end == len(frame), f"{name} v{version}: {len(frame) - end} bytes too many"
    return value


class CoreClient:
    """One connection. `send` decides, `turn` answers, `take` reads answers, `call` does all three.

    listener  the index of the listener that accepts it; None: it needs no authentication
    """

    def __init__(self, core: BrokerCore, client_id: str = "client", listener: int | None = None) -> None:
        self.core = core
        self.client_id = client_id
        accepted_by = None if listener is None else core.listeners[listener]
        self.connection: ClientConnection = core.connect("test:1", "/127.0.0.1", None, accepted_by)
        self.numbers = itertools.count(1)
        self.expected: list[tuple[int, str, int]] = []
        self.received = bytearray()

    def frame(self, request: messages.MessageValue, version: int) -> bytes:
        """Return a request as a frame, and expect its answer, if it has one."""
        number = next(self.numbers)
        if not isinstance(request, messages.ProduceRequest) or request.acks:
            self.expected.append((number, request.SCHEMA.name.removesuffix("Request"), version))
        return request_frame(request, version, number, self.client_id)

    def send(self, *requests: tuple[messages.MessageValue, int]) -> None:
        """Send requests in one piece."""
        self.send_bytes(b"".join(self.frame(request, version) for request, version in requests))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes; what is no request closes the connection."""
        try:
            self.core.receive(self.connection, data)
        except ProtocolError as error:
            self.core.responses.refuse(self.connection, error)

    def turn(self) -> None:
        """End a turn of the loop, then carry out what is due."""
        self.core.end_turn()
        due = self.core.next_deadline_ms
        if due is not None and due <= self.core.clock.now().mono_ms:
            self.core.run_due()
            self.core.end_turn()

    def take(self) -> list[Any]:
        """Return the answers that have come, decoded, in their order."""
        return [self._decode(frame) for frame in iter(self.take_frame, None)]

    def take_frame(self) -> bytes | None:
        """Return the next frame that has come, without its size, or None."""
        self.received += self.core.drain(self.connection)
        size = int.from_bytes(self.received[:4], "big")
        if len(self.received) < 4 + size or not size:
            return None
        frame = bytes(self.received[4 : 4 + size])
        del self.received[: 4 + size]
        return frame

    def _decode(self, frame: bytes) -> Any:
        number, name, version = self.expected.pop(0)
        return read_response(name, version, frame, number)

    def call(self, request: messages.MessageValue, version: int) -> Any:
        """Send one request, end the turn, return its answer."""
        self.send((request, version))
        self.turn()
        (answer,) = self.take()
        return answer

    def commit(
        self, group: str, offsets: dict[tuple[str, int], int], version: int = 8, **fields: Any
    ) -> dict[tuple[str, int], int]:
        """Commit offsets; return the error codes by partition."""
        answer = self.call(commit_request(self.core, group, offsets, version, **fields), version)
        return {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}

    def committed(self, group: str, version: int = 7) -> dict[tuple[str, int], int]:
        """Return all committed offsets of a group."""
        answer = self.call(messages.OffsetFetchRequest(group, None), version)
        return {(t.name, p.partition_index): p.committed_offset for t in answer.topics for p in t.partitions}


def commit_request(
    core: BrokerCore, group: str, offsets: dict[tuple[str, int], int], version: int = 8, **fields: Any
) -> messages.OffsetCommitRequest:
    """Return an OffsetCommit request of one version."""
    request = messages.OffsetCommitRequest
    topics: dict[str, messages.OffsetCommitRequest.Topic] = {}
    for (name, partition), offset in offsets.items():
        topic_id = core.topics.id_and_partition_count(name)[0] if version >= 10 else bytes(16)
        topic = topics.setdefault(name, request.Topic(name if version < 10 else "", topic_id))
        topic.partitions.append(request.Partition(partition, offset, committed_metadata=""))
    return request(group, topics=list(topics.values()), **fields)
