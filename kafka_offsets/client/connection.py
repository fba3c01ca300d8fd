"""One blocking connection to one broker."""

import itertools
import math
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from kafka_offsets.client import login as logins
from kafka_offsets.client.frames import decode_response, encode_request, is_tls_alert
from kafka_offsets.client.listener_errors import NEEDS_TLS, refused_by_broker, tls_error, unanswered
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity, Login
from kafka_offsets.clock import monotonic_s
from kafka_offsets.errors import (
    ConnectionLostError,
    ListenerError,
    ProtocolError,
    RefusedError,
    SilentBrokerError,
    UnansweredError,
    UnknownHostError,
)
from kafka_offsets.protocol import messages

_SIZE = struct.Struct(">i")
_LARGEST_ANSWER = 1 << 30
_CLIENT_ID = "kafka-offsets"

Address = tuple[str, int]
"""Host and port."""

T = TypeVar("T")


def parse_address(address: str) -> Address:
    """Parse HOST:PORT; an IPv6 host must be in brackets. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= 65535:
        raise ValueError(f"{address or 'the empty string'} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_addresses(addresses: str) -> list[Address]:
    """Parse HOST:PORT[,HOST:PORT…], the bootstrap servers of Kafka clients. Raises ValueError."""
    return [parse_address(address.strip()) for address in addresses.split(",")]


def connect_to_any(addresses: Sequence[Address], connect: Callable[[Address], T]) -> T:
    """Return the result of `connect` for the first address that answers; addresses are tried in order.

    Raises ConnectionLostError with the error of each address if none answers.
    """
    lost = []
    for address in addresses:
        try:
            return connect(address)
        except ConnectionLostError as error:
            lost.append(error)
    kind = next((type(error) for error in lost if isinstance(error, ListenerError)), ConnectionLostError)
    if all(isinstance(error, UnknownHostError) for error in lost):
        kind = UnknownHostError
    raise kind("; ".join(map(str, lost))) from lost[-1]


class Connection:
    """A connection; `call` sends a request and waits for its response.

    timeout_s  for connecting, and for each response
    security   TLS and SASL
    silent     gets the addresses of this broker if it does not answer in time: that by which it is known, and that of
               its socket. One of these is not waited for
    Raises ConnectionLostError if the broker cannot be reached, or closes the connection, ListenerError if TLS
    does not begin or the first request is not answered, and RefusedError if it does not accept the login.
    """

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float = 30.0,
        security: ClientSecurity = PLAINTEXT,
        silent: set[Address] | None = None,
    ) -> None:
        self._security = security
        self._silent = set() if silent is None else silent
        self._known_by = [(host, port)]
        self._has_answered = False
        self._where = f"{host}:{port}"
        self._numbers = itertools.count(1)
        self._versions: dict[int, int] | None = None
        self._check_silence()
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except TimeoutError:
            raise self._unanswered() from None
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            if isinstance(error, socket.gaierror | UnicodeError):
                raise UnknownHostError(f"{self._where}: {reason}") from error
            advice = ": is a broker running there?" if isinstance(error, ConnectionRefusedError) else ""
            raise ConnectionLostError(f"{self._where}: {reason}{advice}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._login_again_s = math.inf
        try:
            self._known_by.append(self._address_of_socket())
            self._check_silence()
            if security.tls is not None:
                self._encrypt(security.tls, host)
            if security.login is not None:
                self._log_in(security.login)
        except BaseException:
            self.close()
            raise

    def _address_of_socket(self) -> Address:
        try:
            host, port, *_ = self._socket.getpeername()
        except OSError as error:  # closed already
            raise self._lost(error.strerror or str(error)) from error
        return host, port

    def _encrypt(self, tls: ssl.SSLContext, host: str) -> None:
        try:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        except TimeoutError:
            raise self._unanswered("the TLS handshake takes too long") from None
        except OSError as error:
            raise tls_error(self._where, error) from None

    def _log_in(self, login: Login) -> None:
        """Log in, at first and before the session ends (KIP-368)."""
        self._login_again_s = math.inf
        steps = logins.log_in(login, self._where)
        try:
            request = next(steps)
            while True:
                request = steps.send(self.call(request, logins.VERSION))
        except StopIteration as end:
            if end.value:
                self._login_again_s = monotonic_s() + end.value / 1000 * logins.SESSION_SHARE

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    @property
    def is_silent(self) -> bool:
        """Whether the broker has not answered in time: an answer that comes now may be that to another request."""
        return not self._silent.isdisjoint(self._known_by)

    def call(self, request: messages.MessageValue, version: int) -> Any:
        """Return the response to a request. Raises ConnectionLostError and ProtocolError."""
        self._check_silence()
        if self._security.login is not None and monotonic_s() >= self._login_again_s:
            self._log_in(self._security.login)
        number = next(self._numbers)
        try:
            self._socket.sendall(encode_request(request, version, number, _CLIENT_ID))
            head = self._read(_SIZE.size)
            if not self._has_answered and is_tls_alert(head):
                raise ListenerError(f"{self._where}: {NEEDS_TLS}")
            (size,) = _SIZE.unpack(head)
            if not 0 <= size <= _LARGEST_ANSWER:
                raise ProtocolError(f"{self._where}: an answer of {size} bytes", 0)
            frame = self._read(size)
        except ssl.SSLError as error:
            raise refused_by_broker(self._where, error) from None
        except TimeoutError:
            raise self._unanswered() from None
        except OSError as error:
            raise self._lost(error.strerror or str(error)) from error
        self._has_answered = True
        return decode_response(type(request), version, frame, number)

    def latest_version(self, api_key: int) -> int:
        """Return the latest version of an API that the broker serves, -1 when it does not serve it."""
        if self._versions is None:
            answer = self.call(messages.ApiVersionsRequest(), 0)
            if answer.error_code:
                raise RefusedError(f"{self._where}: versions of APIs", answer.error_code)
            self._versions = {each.api_key: each.max_version for each in answer.api_keys}
        return self._versions.get(api_key, -1)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(min(size - len(data), 1 << 20))
            if not more:
                raise self._lost("the broker closed the connection before it answered")
            data += more
        return bytes(data)

    def _check_silence(self) -> None:
        if self.is_silent:
            self._silent.update(self._known_by)
            raise SilentBrokerError(f"{self._where}: timed out")

    def _unanswered(self, why: str = "timed out") -> UnansweredError:
        """Return the error of a broker that does not answer in time, and remember that."""
        self._silent.update(self._known_by)
        return UnansweredError(f"{self._where}: {why}")

    def _lost(self, why: str) -> ConnectionLostError:
        """Return the error of a lost connection; a broker does not answer what is not its listener's protocol."""
        if self._has_answered:
            return ConnectionLostError(f"{self._where}: {why}")
        return ListenerError(f"{self._where}: {why}{unanswered(self._security.protocol)}")
