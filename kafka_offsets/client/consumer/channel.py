"""Channel: one non-blocking connection of the consumer. It connects, encrypts and logs in by itself."""

from __future__ import annotations

import errno
import selectors
import socket

from kafka_offsets.client.connection import Address
from kafka_offsets.client.frame_stream import READ_BYTES
from kafka_offsets.client.protocol import ClientProtocol, OnDone
from kafka_offsets.client.security import ClientSecurity
from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.protocol import messages

_LARGEST_RESPONSE = (1 << 31) - 1
_READ_AT_ONCE = 4 << 20
"""At most so many bytes of one connection are read before others have their turn."""
_ON_THE_WAY = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)


class ConsumerChannel:
    """A connection to one broker.

    attempt       how many were made in vain: of several addresses of the broker's name another one is first
    is_connected  whether bytes pass; requests are also accepted before that
    is_closed     lost, by either side; a new channel is needed
    is_interrupted  a callback has raised: responses may be here that nothing on the socket announces
    """

    def __init__(
        self,
        address: Address,
        selector: selectors.BaseSelector,
        client_id: str,
        security: ClientSecurity,
        attempt: int = 0,
    ) -> None:
        self.address = address
        self.is_connected = self.is_closed = self.is_interrupted = False
        self._why_closed = ""
        self._selector = selector
        self._protocol = ClientProtocol(address, client_id, security, _LARGEST_RESPONSE)
        self._unsent = bytearray()
        self._socket: socket.socket | None = None
        try:
            self._places = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self._places = []
            self.close(str(error))
        else:
            first = attempt % len(self._places)
            self._places = self._places[first:] + self._places[:first]
            self._connect("no address")

    @property
    def has_answered(self) -> bool:
        """Whether the broker has answered what only a client of its listener's protocol may send."""
        return self._protocol.is_accepted

    @property
    def error(self) -> str:
        """Why it is closed, or will be: a failed `send` makes no callback, the next `Network.run` does."""
        return self._why_closed or self._protocol.why

    @property
    def deadline_ms(self) -> int | None:
        """The first deadline of the waiting requests."""
        return min((call.due for call in self._protocol.calls), default=None)

    def _connect(self, error: str) -> None:
        """Begin to connect to the next address of the broker's name; without one `error` is why this is closed."""
        while self._places:
            family, kind, protocol, _, partition = self._places.pop(0)
            self._socket = socket.socket(family, kind, protocol)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = self._socket.connect_ex(partition)
            if not code or code in _ON_THE_WAY:
                self._selector.register(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE, data=self)
                return
            error = errno.errorcode.get(code, str(code))
            self._forget_socket()
        self.close(error)

    def log_in_if_due(self, now_ms: int, timeout_ms: int) -> None:
        """Begin to log in on a new connection, and before the session ends; other requests are sent afterwards."""
        self._protocol.log_in_if_due(now_ms, now_ms + timeout_ms)

    def send(self, request: messages.MessageValue, version: int, deadline_ms: int, on_done: OnDone) -> None:
        """Send a request; `on_done` gets its response, None if there is none by the deadline."""
        assert not self.is_closed
        self._protocol.send(request, version, on_done, deadline_ms)
        self._write()

    def close(self, error: str = "closed") -> None:
        """Close the connection; the waiting requests get None."""
        if not self.is_closed:
            self.is_connected, self.is_closed, self._why_closed = False, True, error
            self._forget_socket()
            for on_done in self._protocol.abandon():
                on_done(None)

    def _forget_socket(self) -> None:
        if self._socket is not None:
            if self._socket.fileno() in self._selector.get_map():
                self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def ready(self, events: int) -> None:
        """Read and write what the socket can take. Raises what `next_response` and callbacks raise."""
        if self._socket is None or self.error:
            return
        if not self.is_connected:
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._forget_socket()
                self._connect(errno.errorcode.get(code, str(code)))
                return
            self.is_connected = True
        if events & selectors.EVENT_READ:
            self._read(self._socket)
        self._write()
        self.is_interrupted = True
        while not self.is_closed and (done := self._next_response()) is not None:
            done[0](done[1])
        self.is_interrupted = False
        self._write()

    def _write(self) -> None:
        """Send what the socket takes; the rest when it is writable."""
        if self._socket is None or not self.is_connected:
            return
        self._unsent += self._protocol.take_output()
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError as error:
            self._protocol.lose(error.strerror or str(error))
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        if self._selector.get_key(self._socket).events != events:
            self._selector.modify(self._socket, events, data=self)

    def _read(self, connected: socket.socket) -> None:
        """Take what has arrived."""
        count = 0
        try:
            while count < _READ_AT_ONCE:
                data = connected.recv(READ_BYTES)
                self._protocol.receive(data)
                count += len(data)
                if len(data) < READ_BYTES:
                    break
        except BlockingIOError:
            pass
        except OSError as error:
            self._protocol.lose(error.strerror or str(error))

    def _next_response(self) -> tuple[OnDone, object] | None:
        """Return the next response. Raises why there is none, unless the connection is lost, which may pass."""
        try:
            return self._protocol.next_response()
        except KafkaOffsetsError:
            if not self._protocol.is_lost:
                raise
            return None
