"""The two brokers that a situation is played with: ours in this process on virtual time, and any other on a socket."""

import socket
import time
from typing import Protocol

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.core import BrokerCore, Connection
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ProtocolError
from kafka_offsets.storage.files import MemoryFiles

PATIENCE_MS = 15_000
"""An answer that takes longer is none."""

SILENCE_MS = 120
"""How long a client listens to find that it is not answered."""

STARTED_WITH = {"offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0"}
"""What benchmarks/peers/kafka.sh sets, as far as it is a key of ours."""


class NoAnswerError(Exception):
    """The broker does not answer."""


class Line(Protocol):
    """One connection."""

    def send(self, frame: bytes) -> None:
        """Send a frame, its size in front."""

    def receive(self, patience_ms: int = PATIENCE_MS) -> bytes | None:
        """Return the next frame without its size, None when the connection was closed. Raises NoAnswerError."""


class Broker(Protocol):
    """What takes connections."""

    def connect(self) -> Line:
        """Return a new connection."""

    def pause(self, ms: int) -> None:
        """Let time pass."""


class OwnLine:
    """A connection to our core."""

    def __init__(self, broker: "OwnBroker") -> None:
        self.broker = broker
        self.connection: Connection = broker.core.connect("test:1", "/127.0.0.1")
        self.received = bytearray()

    def send(self, frame: bytes) -> None:
        if self.connection.closing:
            return
        try:
            self.broker.core.receive(self.connection, frame)
        except ProtocolError as error:
            self.broker.core.answers.refuse(self.connection, error)
        self.broker.pause(0)

    def receive(self, patience_ms: int = PATIENCE_MS) -> bytes | None:
        end_ms = self.broker.clock.now().mono_ms + patience_ms
        while True:
            self.received += self.broker.core.drain(self.connection)
            size = int.from_bytes(self.received[:4], "big")
            if len(self.received) >= 4 + size > 4:
                frame = bytes(self.received[4 : 4 + size])
                del self.received[: 4 + size]
                return frame
            if self.connection.closing:
                return None
            if not self.broker.advance(end_ms):
                raise NoAnswerError


class OwnBroker:
    """Our broker without sockets; time passes when somebody waits."""

    def __init__(
        self, settings: dict[str, str], files: MemoryFiles | None = None, clock: ManualClock | None = None
    ) -> None:
        self.clock = clock or ManualClock()
        self.files = files or MemoryFiles()
        self.core = BrokerCore(Config.load(STARTED_WITH | settings, profile="kafka"), self.files, self.clock)
        self.core.context.port = 9092

    def connect(self) -> OwnLine:
        return OwnLine(self)

    def pause(self, ms: int) -> None:
        end_ms = self.clock.now().mono_ms + ms
        while self.advance(end_ms):
            pass

    def advance(self, end_ms: int) -> bool:
        """Let time pass to the next deadline, but not beyond `end_ms`; return whether that lies further on."""
        self.core.end_turn()
        now_ms, due_ms = self.clock.now().mono_ms, self.core.next_deadline_ms
        if due_ms is None or due_ms > end_ms:
            self.clock.advance(max(0, end_ms - now_ms))
            return False
        self.clock.advance(max(0, due_ms - now_ms))
        self.core.run_due()
        self.core.end_turn()
        return True

    def close(self) -> None:
        """Stop the broker."""
        self.core.close()


class RemoteLine:
    """A connection to a broker on a socket."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, frame: bytes) -> None:
        try:
            self.socket.sendall(frame)
        except ConnectionError:
            return  # `receive` tells

    def receive(self, patience_ms: int = PATIENCE_MS) -> bytes | None:
        self.socket.settimeout(patience_ms / 1000)
        try:
            self.socket.recv(1, socket.MSG_PEEK)  # silence is no answer; half an answer is an error
            size = self._read(4)
            return size and self._read(int.from_bytes(size, "big"))
        except TimeoutError:
            raise NoAnswerError from None
        except ConnectionError:
            return None

    def _read(self, size: int) -> bytes:
        parts = b""
        while len(parts) < size:
            part = self.socket.recv(size - len(parts))
            if not part:
                return b""
            parts += part
        return parts


class RemoteBroker:
    """A broker on a socket, in real time."""

    def __init__(self, host: str, port: int) -> None:
        self.address = host, port
        self.lines: list[RemoteLine] = []

    def connect(self) -> RemoteLine:
        self.lines.append(RemoteLine(self.address))
        return self.lines[-1]

    def pause(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def close(self) -> None:
        """Close all connections."""
        for line in self.lines:
            line.socket.close()
