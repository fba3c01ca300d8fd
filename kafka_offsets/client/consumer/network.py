"""Network of the consumer: non-blocking connections to brokers, one selector, no thread.

Requests are sent in order, and several may wait for their responses. A callback gets each response, or None if the
connection is lost or the response does not come in time. Callbacks run inside `Network.run`.
"""

from __future__ import annotations

import errno
import itertools
import selectors
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kafka_offsets.client.connection import Address
from kafka_offsets.client.frames import decode_response, encode_request
from kafka_offsets.errors import ProtocolError, RefusedError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import FrameReader

_logger = new_logger(__name__)

Callback = Callable[[Any], None]

_LARGEST_RESPONSE = (1 << 31) - 1
_READ_BYTES = 1 << 18
_READS = 16
"""At most so many reads of one connection before others have their turn."""
_ON_THE_WAY = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)

CONTROL, GROUP, FETCH = "control", "group", "fetch"
"""Purposes of a connection. A broker serves the requests of a connection one by one, and a JoinGroup or a Fetch waits:
each has a connection that no other request waits for."""

_VERSIONS = {1: 12, 2: 7, 3: 12, 10: 4}
"""The versions that every broker must serve: Fetch, ListOffsets, Metadata, FindCoordinator."""


class _Call(NamedTuple):
    """A request that waits for its response."""

    request: type[messages.MessageValue]
    version: int
    number: int
    deadline_ms: int
    on_done: Callback


class Channel:
    """A connection to one broker.

    is_open    connected; requests are also accepted before that
    was_open   connected now or earlier
    is_closed  lost, by either side; a new channel is needed
    error      why it is closed, or will be: a failed `send` makes no callback, the next `Network.run` does
    """

    def __init__(self, address: Address, selector: selectors.BaseSelector, client_id: str) -> None:
        self.address = address
        self.is_open = self.was_open = self.is_closed = False
        self.error = ""
        self._selector = selector
        self._client_id = client_id
        self._numbers = itertools.count(1)
        self._calls: deque[_Call] = deque()
        self._out = bytearray()
        self._frames = FrameReader(_LARGEST_RESPONSE)
        self._socket: socket.socket | None = None
        try:
            self._places = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self._places = []
            self.close(str(error))
        else:
            self._connect()

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

    def send(self, request: messages.MessageValue, version: int, deadline_ms: int, on_done: Callback) -> None:
        """Send a request; `on_done` gets its response, None if there is none by the deadline."""
        assert not self.is_closed
        number = next(self._numbers)
        self._calls.append(_Call(type(request), version, number, deadline_ms, on_done))
        self._out += encode_request(request, version, number, self._client_id)
        if self.is_open and not self.error:
            self._write()

    @property
    def deadline_ms(self) -> int | None:
        """The first deadline of the waiting requests."""
        return min((call.deadline_ms for call in self._calls), default=None)

    def close(self, error: str = "closed") -> None:
        """Close the connection; the waiting requests get None."""
        if self.is_closed:
            return
        self.is_open, self.is_closed, self.error = False, True, error
        self._forget_socket()
        calls, self._calls = list(self._calls), deque()
        for call in calls:
            call.on_done(None)

    def _forget_socket(self) -> None:
        if self._socket is not None:
            if self._socket.fileno() in self._selector.get_map():
                self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def ready(self, events: int) -> None:
        """Read and write what the socket can take. Raises ProtocolError, and what callbacks raise."""
        if self.error:
            return
        if not self.is_open:
            self._finish_connecting()
        if self.is_open and events & selectors.EVENT_WRITE:
            self._write()
        if self.is_open and events & selectors.EVENT_READ and not self.error:
            self._read()

    def _finish_connecting(self) -> None:
        assert self._socket is not None
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._forget_socket()
            if self._places:
                self._connect()
            else:
                self.close(errno.errorcode.get(code, str(code)))
            return
        self.is_open = self.was_open = True
        self._write()

    def _write(self) -> None:
        assert self._socket is not None
        try:
            while self._out:
                sent = self._socket.send(self._out)
                del self._out[:sent]
        except BlockingIOError:
            pass  # the rest is sent when the socket is writable
        except OSError as error:
            self.error = error.strerror or str(error)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
        if self._selector.get_key(self._socket).events != wanted:
            self._selector.modify(self._socket, wanted, data=self)

    def _read(self) -> None:
        ended = ""
        try:
            for _ in range(_READS):
                assert self._socket is not None
                data = self._socket.recv(_READ_BYTES)
                if not data:
                    ended = "the broker closed the connection"
                    break
                self._frames.feed(data)
                if len(data) < _READ_BYTES:
                    break
        except BlockingIOError:
            pass  # everything that has arrived is read
        except OSError as error:
            ended = error.strerror or str(error)
        while not self.is_closed and (answered := self._next_answer()) is not None:
            answered[0].on_done(answered[1])
        if ended:
            self.close(ended)

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
        return call, answer


class Network:
    """The connections of a consumer, by address.

    last_error  why the last connection was lost
    """

    def __init__(self, client_id: str, request_timeout_ms: int, reconnect_backoff_ms: int) -> None:
        self.last_error = ""
        self._client_id = client_id
        self._timeout_ms = request_timeout_ms
        self._backoff_ms = reconnect_backoff_ms
        self._selector = selectors.DefaultSelector()
        self._channels: dict[tuple[Address, str], Channel] = {}
        self._failed: dict[tuple[Address, str], int] = {}
        self._warned: set[tuple[Address, str]] = set()

    def channel(self, address: Address, purpose: str, now_ms: int) -> Channel | None:
        """Return a connection, which may still be connecting; None shortly after it was lost."""
        key = address, purpose
        found = self._channels.get(key)
        if found is not None:
            if not found.is_closed:
                return found
            self._remove(key, now_ms)
        if now_ms < self._failed.get(key, 0):
            return None
        made = self._channels[key] = Channel(address, self._selector, self._client_id)
        if made.is_closed:
            self._remove(key, now_ms)
            return None
        made.send(
            messages.ApiVersionsRequest(), 0, now_ms + self._timeout_ms, lambda found: _check(address, found)
        )
        return made

    def send(
        self,
        address: Address,
        purpose: str,
        request: messages.MessageValue,
        version: int,
        now_ms: int,
        on_done: Callback,
        timeout_ms: int | None = None,
    ) -> bool:
        """Send a request to a broker; return False if it cannot be connected to now."""
        channel = self.channel(address, purpose, now_ms)
        if channel is None:
            return False
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        channel.send(request, version, now_ms + timeout_ms, on_done)
        return True

    @property
    def deadline_ms(self) -> int | None:
        """When the first response is too late."""
        deadlines = [channel.deadline_ms for channel in self._channels.values()]
        return min((each for each in deadlines if each is not None), default=None)

    def run(self, now_ms: int, wait_ms: int) -> None:
        """Wait for responses, at most so long, and process them. Raises ProtocolError, and what callbacks raise."""
        if any(channel.error for channel in self._channels.values()):
            wait_ms = 0
        for selected, events in self._selector.select(wait_ms / 1000):
            selected.data.ready(events)
        for key, channel in list(self._channels.items()):
            deadline_ms = channel.deadline_ms
            if deadline_ms is not None and now_ms >= deadline_ms:
                channel.close("a response did not come in time")
            elif channel.error:
                channel.close(channel.error)
            if channel.is_closed:
                self._remove(key, now_ms)

    def _remove(self, key: tuple[Address, str], now_ms: int) -> None:
        channel = self._channels.pop(key)
        host, port = channel.address
        self.last_error = f"{host}:{port}: {channel.error}"
        self._failed[key] = now_ms + self._backoff_ms
        if channel.was_open:
            self._warned = {each for each in self._warned if each[0] != channel.address}
        else:
            self._warn_once(channel)

    def _warn_once(self, channel: Channel) -> None:
        """Log why a broker is not reached, once for a reason while it is tried again and again."""
        failure = channel.address, channel.error
        if failure not in self._warned:
            self._warned.add(failure)
            _logger.warning("the broker at %s:%d is not reached: %s", *channel.address, channel.error)

    def close(self) -> None:
        """Close all connections."""
        for channel in list(self._channels.values()):
            channel.close()
        self._channels.clear()
        self._selector.close()


def _check(address: Address, answer: messages.ApiVersionsResponse | None) -> None:
    """Raise if a broker is too old for this consumer."""
    if answer is None:
        return
    where = f"{address[0]}:{address[1]}"
    if answer.error_code:
        raise RefusedError(f"{where}: versions of APIs", answer.error_code)
    served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    for key, version in _VERSIONS.items():
        least, most = served.get(key, (0, -1))
        if not least <= version <= most:
            raise ProtocolError(f"{where}: the broker does not serve version {version} of API {key}")
