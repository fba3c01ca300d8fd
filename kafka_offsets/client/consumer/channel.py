"""Channel: one non-blocking connection of the consumer. It connects, encrypts and logs in by itself."""

from __future__ import annotations

import errno
import itertools
import selectors
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kafka_offsets.client import login as logins
from kafka_offsets.client.connection import Address
from kafka_offsets.client.frames import decode_response, encode_request, is_tls_alert
from kafka_offsets.client.listener_errors import (
    NEEDS_TLS,
    is_silent,
    refused_by_broker,
    tls_error,
    unanswered,
)
from kafka_offsets.client.security import ClientSecurity
from kafka_offsets.errors import KafkaOffsetsError, ListenerError, ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import FrameReader

Callback = Callable[[Any], None]

_LARGEST_RESPONSE = (1 << 31) - 1
_READ_BYTES = 1 << 18
_READ_AT_ONCE = 4 << 20
"""At most so many bytes of one connection are read before others have their turn."""
_ON_THE_WAY = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)
_BEFORE_LOGIN = (
    messages.ApiVersionsRequest,
    messages.SaslHandshakeRequest,
    messages.SaslAuthenticateRequest,
)
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Call(NamedTuple):
    """A request that waits for its response."""

    request: type[messages.MessageValue]
    version: int
    number: int
    deadline_ms: int
    on_done: Callback


class ConsumerChannel:
    """A connection to one broker.

    is_open       connected, with TLS if there is any; requests are also accepted before that
    has_answered  whether the broker has answered a request that only a client of its listener's protocol may send
    is_closed     lost, by either side; a new channel is needed
    error         why it is closed, or will be: a failed `send` makes no callback, the next `Network.run` does
    """

    def __init__(
        self, address: Address, selector: selectors.BaseSelector, client_id: str, security: ClientSecurity
    ) -> None:
        self.address = address
        self.is_open = self.has_answered = self.is_closed = False
        self.error = ""
        self._where = f"{address[0]}:{address[1]}"
        self._selector, self._client_id, self._security = selector, client_id, security
        self._numbers = itertools.count(1)
        self._calls: deque[_Call] = deque()
        self._out = bytearray()
        self._held: list[tuple[_Call, bytes]] = []  # sent after the login
        self._login: logins.Exchange | None = None
        self._login_due_ms: int | None = None if security.login is None else 0
        self._frames = FrameReader(_LARGEST_RESPONSE)
        self._socket: socket.socket | None = None
        try:
            self._places = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self._places = []
            self.close(str(error))
        else:
            self._connect()

    # Connecting

    def _connect(self) -> None:
        """Begin to connect to the next address of the broker's name."""
        error = "no address"
        while self._places:
            family, kind, protocol, _, place = self._places.pop(0)
            self._socket = socket.socket(family, kind, protocol)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = self._socket.connect_ex(place)
            if not code or code in _ON_THE_WAY:
                self._selector.register(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE, data=self)
                return
            error = errno.errorcode.get(code, str(code))
            self._socket.close()
            self._socket = None
        self.close(error)

    def _finish_connecting(self) -> None:
        """Go on when the socket is connected, with TLS if there is any. Raises ListenerError."""
        assert self._socket is not None
        if not isinstance(self._socket, ssl.SSLSocket):
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._forget_socket()
                if self._places:
                    self._connect()
                else:
                    self.close(errno.errorcode.get(code, str(code)))
                return
        if self._security.tls is None or self._has_shaken_hands(self._security.tls):
            self.is_open = True
            self._write()

    def _has_shaken_hands(self, tls: ssl.SSLContext) -> bool:
        """Take a step of the TLS handshake; return whether it has ended. Raises ListenerError."""
        assert self._socket is not None
        wanted = selectors.EVENT_READ
        try:
            if not isinstance(self._socket, ssl.SSLSocket):
                self._selector.unregister(self._socket)
                self._socket = tls.wrap_socket(
                    self._socket, server_hostname=self.address[0], do_handshake_on_connect=False
                )
                self._selector.register(self._socket, wanted, data=self)
            self._socket.do_handshake()
        except ssl.SSLWantWriteError:
            wanted |= selectors.EVENT_WRITE
        except ssl.SSLWantReadError:
            pass
        except OSError as error:
            found = tls_error(self._where, error)
            self._note(found)
            if not is_silent(error):
                raise found from None
            return False
        else:
            return True
        self._selector.modify(self._socket, wanted, data=self)
        return False

    # Logging in

    def log_in_if_due(self, now_ms: int, timeout_ms: int) -> None:
        """Begin to log in on a new connection, and before the session ends; other requests are sent afterwards.

        Raises ConfigError if there is no token.
        """
        if self._login_due_ms is None or now_ms < self._login_due_ms or self._login is not None:
            return
        assert self._security.login is not None
        self._login_due_ms = None
        self._login = logins.log_in(self._security.login, self._where)
        deadline_ms = now_ms + timeout_ms

        def advance(answer: Any) -> None:
            """Send the next request of the login. Raises what `logins.log_in` does."""
            assert self._login is not None
            if answer is None:  # the connection is lost, and with it the login
                return
            try:
                request = self._login.send(answer)
            except StopIteration as end:
                if end.value:
                    self._login_due_ms = now_ms + int(end.value * logins.SESSION_SHARE)
                self._logged_in()
                return
            except KafkaOffsetsError as error:
                self._note(error)
                raise
            self._enqueue(*self._encoded(request, logins.VERSION, deadline_ms, advance))

        self._enqueue(*self._encoded(next(self._login), logins.VERSION, deadline_ms, advance))

    def _logged_in(self) -> None:
        self._login = None
        held, self._held = self._held, []
        for call, frame in held:
            self._enqueue(call, frame)

    # Requests

    def send(self, request: messages.MessageValue, version: int, deadline_ms: int, on_done: Callback) -> None:
        """Send a request; `on_done` gets its response, None if there is none by the deadline."""
        assert not self.is_closed
        call, frame = self._encoded(request, version, deadline_ms, on_done)
        if self._login is not None:
            self._held.append((call, frame))
        else:
            self._enqueue(call, frame)

    def _encoded(
        self, request: messages.MessageValue, version: int, deadline_ms: int, on_done: Callback
    ) -> tuple[_Call, bytes]:
        number = next(self._numbers)
        call = _Call(type(request), version, number, deadline_ms, on_done)
        return call, encode_request(request, version, number, self._client_id)

    def _enqueue(self, call: _Call, frame: bytes) -> None:
        self._calls.append(call)
        self._out += frame
        if self.is_open and not self.error:
            self._write()

    @property
    def deadline_ms(self) -> int | None:
        """The first deadline of the waiting requests."""
        waiting = itertools.chain(self._calls, (call for call, _ in self._held))
        return min((call.deadline_ms for call in waiting), default=None)

    def close(self, error: str = "closed") -> None:
        """Close the connection; the waiting requests get None."""
        if self.is_closed:
            return
        self.is_open, self.is_closed, self.error = False, True, error
        self._forget_socket()
        calls = [*self._calls, *(call for call, _ in self._held)]
        self._calls, self._held = deque(), []
        for call in calls:
            call.on_done(None)

    def _forget_socket(self) -> None:
        if self._socket is not None:
            if self._socket.fileno() in self._selector.get_map():
                self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None

    # Reading and writing

    def ready(self, events: int) -> None:
        """Read and write what the socket can take. Raises ProtocolError, ListenerError, and what callbacks raise."""
        if self.error:
            return
        if not self.is_open:
            self._finish_connecting()
        if self.is_open and events & selectors.EVENT_WRITE:
            self._write()
        if self.is_open and events & selectors.EVENT_READ and not self.error:
            self._read()

    def _write(self) -> None:
        assert self._socket is not None
        try:
            while self._out:
                sent = self._socket.send(self._out)
                del self._out[:sent]
        except _LATER:
            pass  # the rest is sent when the socket is writable
        except OSError as error:
            self.error = self._lost(error.strerror or str(error))
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
        if self._selector.get_key(self._socket).events != wanted:
            self._selector.modify(self._socket, wanted, data=self)

    def _read(self) -> None:
        """Read what has arrived, and call back. Raises ListenerError if the broker refuses this client with TLS."""
        ended = ""
        refused: KafkaOffsetsError | None = None
        try:
            ended = self._receive()
        except _LATER:
            pass  # everything that has arrived is read
        except ListenerError as error:
            refused = error
        except ssl.SSLError as error:
            ended = str(refused_by_broker("TLS", error))
            refused = None if self.has_answered else refused_by_broker(self._where, error)
        except OSError as error:
            ended = self._lost(error.strerror or str(error))
        while not self.is_closed and (answered := self._next_answer()) is not None:
            answered[0].on_done(answered[1])
        if refused is not None:
            self._note(refused)
            raise refused from None
        if ended:
            self.close(ended)

    def _receive(self) -> str:
        """Feed what has arrived; return why nothing more will. Raises OSError, also when nothing more has arrived."""
        assert self._socket is not None
        count, is_encrypted = 0, self._security.tls is not None
        while count < _READ_AT_ONCE:
            data = self._socket.recv(_READ_BYTES)
            if not data:
                return self._lost("the broker closed the connection")
            if not self.has_answered and is_tls_alert(data):
                raise ListenerError(f"{self._where}: {NEEDS_TLS}")
            self._frames.feed(data)
            count += len(data)
            if len(data) < _READ_BYTES and not is_encrypted:  # with TLS a read returns one TLS record
                break
        return ""

    def _note(self, error: KafkaOffsetsError) -> None:
        """Keep an error that is raised: the connection will be closed."""
        self.error = str(error).removeprefix(f"{self._where}: ")

    def _lost(self, why: str) -> str:
        """Return why a connection is lost; a broker does not answer what is not its listener's protocol."""
        return why if self.has_answered else why + unanswered(self._security.protocol)

    def _next_answer(self) -> tuple[_Call, Any] | None:
        """Return the next response with its request. ProtocolError if it is none: the connection will be closed."""
        try:
            frame = self._frames.next_frame()
            if frame is None:
                return None
            if not self._calls:
                raise ProtocolError("a response without a request")
            call = self._calls[0]
            answer = decode_response(call.request, call.version, frame, call.number)
        except ProtocolError as error:
            self.error = str(error)
            raise
        self._calls.popleft()
        self.has_answered |= call.request not in _BEFORE_LOGIN
        return call, answer
