"""The two brokers that a situation is played with: ours in this process on virtual time, and any other on a socket."""

import socket
import time
from typing import Protocol

from kafka_offsets.clock import ManualClock
from kafka_offsets.protocol import messages
from kafka_offsets.security.principal import USER_TYPE, Principal
from kafka_offsets.storage.files.files import MemoryFiles
from tests.drivers import wire
from tests.drivers.core import CoreClient, make_core

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


ADMIN = "admin"
"""The super user of brokers with an authorizer; other brokers take everybody for ANONYMOUS."""


class Broker(Protocol):
    """What takes connections."""

    def connect(self, user: str = ADMIN) -> Line:
        """Return a new connection, as a user if the broker has any."""

    def pause(self, ms: int) -> None:
        """Let time pass."""


class OwnLine:
    """A connection to our core."""

    def __init__(self, broker: "OwnBroker", user: str) -> None:
        self.broker = broker
        self.client = CoreClient(broker.core)
        self.client.connection.principal = Principal(USER_TYPE, user)

    def send(self, frame: bytes) -> None:
        if self.client.connection.closing:
            return
        self.client.send_bytes(frame)
        self.broker.pause(0)

    def receive(self, patience_ms: int = PATIENCE_MS) -> bytes | None:
        end_ms = self.broker.clock.now().mono_ms + patience_ms
        while (frame := self.client.take_frame()) is None:
            if self.client.connection.closing:
                return None
            if not self.broker.advance(end_ms):
                raise NoAnswerError
        return frame


class OwnBroker:
    """Our broker without sockets; time passes when somebody waits."""

    def __init__(
        self, settings: dict[str, str], files: MemoryFiles | None = None, clock: ManualClock | None = None
    ) -> None:
        self.clock = clock or ManualClock()
        self.files = files or MemoryFiles()
        self.core = make_core(self.files, clock=self.clock, profile="kafka", **STARTED_WITH | settings)
        self.core.broker.node.port = 9092

    def connect(self, user: str = ADMIN) -> OwnLine:
        return OwnLine(self, user)

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

    def __init__(self, address: tuple[str, int], user: str | None = None) -> None:
        self.connection = wire.Connection(f"{address[0]}:{address[1]}", 10)
        self.socket = self.connection.socket
        if user is not None:
            self._authenticate(user)

    def _authenticate(self, user: str) -> None:
        """Authenticate by SASL PLAIN; the password of a user is the name."""
        given = [
            messages.SaslHandshakeRequest("PLAIN"),
            messages.SaslAuthenticateRequest(f"\0{user}\0{user}".encode()),
        ]
        for request in given:
            key = request.SCHEMA.number
            assert key is not None
            body = messages.encode(messages.RequestHeader(key, 1, 1, "play"), 1) + messages.encode(request, 1)
            self.send(len(body).to_bytes(4, "big") + body)
            frame = self.receive()
            assert frame is not None and frame[4:6] == bytes(2), f"{user} is not authenticated: {frame!r}"

    def send(self, frame: bytes) -> None:
        try:
            self.socket.sendall(frame)
        except ConnectionError:
            return  # `receive` tells

    def receive(self, patience_ms: int = PATIENCE_MS) -> bytes | None:
        self.socket.settimeout(patience_ms / 1000)
        try:
            self.socket.recv(1, socket.MSG_PEEK)  # silence is no answer; half an answer is an error
            return self.connection.receive()
        except TimeoutError:
            raise NoAnswerError from None
        except (ConnectionError, wire.WireError):
            return None


class RemoteBroker:
    """A broker on a socket, in real time."""

    def __init__(self, host: str, port: int, *, has_users: bool = False) -> None:
        self.address = host, port
        self.has_users = has_users
        self.lines: list[RemoteLine] = []

    def connect(self, user: str = ADMIN) -> RemoteLine:
        self.lines.append(RemoteLine(self.address, user if self.has_users else None))
        return self.lines[-1]

    def pause(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def close(self) -> None:
        """Close all connections."""
        for line in self.lines:
            line.socket.close()
