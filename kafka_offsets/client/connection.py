"""One blocking connection to one broker."""

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

from kafka_offsets.client.frame_stream import READ_BYTES
from kafka_offsets.client.protocol import ClientProtocol
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity
from kafka_offsets.clock import monotonic_s
from kafka_offsets.errors import (
    ConnectionLostError,
    ListenerError,
    RefusedError,
    SilentBrokerError,
    UnansweredError,
    UnknownHostError,
)
from kafka_offsets.protocol import messages

_LARGEST_ANSWER = 1 << 30
_API_VERSIONS = 18
_CLIENT_ID = "kafka-offsets"

Address = tuple[str, int]
"""Host and port."""

PATIENCE_S = 2.0
"""How long one broker of several is waited for: what the others know is worth more than all of it later.

Twice this is less than five seconds: for the broker that is asked first, and for what fails after its answer.
"""


def parse_address(address: str) -> Address:
    """Parse HOST:PORT; an IPv6 host must be in brackets. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= 65535:
        raise ValueError(f"{address or 'the empty string'} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_addresses(addresses: str) -> list[Address]:
    """Parse HOST:PORT[,HOST:PORT…], the bootstrap servers of Kafka clients. Raises ValueError."""
    return [parse_address(address.strip()) for address in addresses.split(",")]


def connect_to_any(
    addresses: Sequence[Address], connect: Callable[[Address, float | None], "Connection"]
) -> "Connection":
    """Return the connection to the first address that answers; addresses are tried in order.

    connect  makes a connection, with the limit of its first answer
    If there are several, each has PATIENCE_S at first, as a broker that hangs accepts connections, and the whole limit
    if all of them are as slow. Raises ConnectionLostError with the error of each address if none answers.
    """
    lost: dict[Address, ConnectionLostError] = {}
    candidates = list(dict.fromkeys(addresses))
    for limit_s in (PATIENCE_S, None) if len(candidates) > 1 else (None,):
        for address in candidates:
            try:
                return connect(address, limit_s)
            except ConnectionLostError as error:
                lost[address] = error
        candidates = [address for address in candidates if isinstance(lost[address], UnansweredError)]
    errors = [*lost.values()]
    kind = next((type(error) for error in errors if isinstance(error, ListenerError)), ConnectionLostError)
    if all(isinstance(error, UnknownHostError) for error in errors):
        kind = UnknownHostError
    raise kind("; ".join(map(str, errors))) from errors[-1]


class Connection:
    """A connection; `call` sends a request and waits for its response.

    timeout_s  for connecting, and for each response
    security   TLS and SASL
    silent     gets the addresses of this broker if it does not answer in time: that by which it is known, and that of
               its socket. One of these is not waited for
    first_s    in place of `timeout_s` for connecting and for the answer to a first request, which is sent at once
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
        first_s: float | None = None,
    ) -> None:
        self._silent = set() if silent is None else silent
        self._known_by = [(host, port)]
        self._protocol = ClientProtocol((host, port), _CLIENT_ID, security, _LARGEST_ANSWER)
        self._where = self._protocol.where
        self._versions: dict[int, int] | None = None
        self._check_silence()
        try:
            limit_s = timeout_s if first_s is None else min(first_s, timeout_s)
            self._socket = socket.create_connection((host, port), limit_s)
        except TimeoutError:
            raise self._unanswered("timed out") from None
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            if isinstance(error, socket.gaierror | UnicodeError):
                raise UnknownHostError(f"{self._where}: {reason}") from error
            advice = ": is a broker running there?" if isinstance(error, ConnectionRefusedError) else ""
            raise ConnectionLostError(f"{self._where}: {reason}{advice}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._known_by.append(self._address_of_socket(host, port))
            self._check_silence()
            self._protocol.log_in_if_due(_now_ms())
            self._exchange_until(lambda: self._protocol.is_ready)
            if first_s is not None:
                self.latest_version(_API_VERSIONS)
                self._socket.settimeout(timeout_s)
        except BaseException:
            self.close()
            raise

    def _address_of_socket(self, host: str, port: int) -> Address:
        with suppress(OSError):  # closed already, which the first request notices
            host, port, *_ = self._socket.getpeername()
        return host, port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    @property
    def is_over(self) -> bool:
        """Whether it is of no use any more: it has failed, or a late answer may be that to another request."""
        return self._protocol.error is not None or self._is_silent

    @property
    def _is_silent(self) -> bool:
        return not self._silent.isdisjoint(self._known_by)

    def call(self, request: messages.MessageValue, version: int) -> Any:
        """Return the response to a request. Raises ConnectionLostError and ProtocolError."""
        self._check_silence()
        responses: list[Any] = []
        self._protocol.log_in_if_due(_now_ms())
        self._protocol.send(request, version, responses.append)
        self._exchange_until(lambda: responses)
        return responses[0]

    def latest_version(self, api_key: int) -> int:
        """Return the latest version of an API that the broker serves, -1 when it does not serve it."""
        if self._versions is None:
            response = self.call(messages.ApiVersionsRequest(), 0)
            if response.error_code:
                raise RefusedError(f"{self._where}: versions of APIs", response.error_code)
            self._versions = {api.api_key: api.max_version for api in response.api_keys}
        return self._versions.get(api_key, -1)

    def _exchange_until(self, is_done: Callable[[], object]) -> None:
        """Send and receive. Raises UnansweredError, and what `ClientProtocol.next_response` does."""
        protocol = self._protocol
        while not is_done():
            try:
                self._socket.sendall(protocol.take_output())
                protocol.receive(self._socket.recv(READ_BYTES))
                if output := protocol.take_output():  # what TLS answers, an alert too
                    self._socket.sendall(output)
            except TimeoutError:
                raise self._unanswered(
                    "timed out" if protocol.is_open else "the TLS handshake takes too long"
                ) from None
            except OSError as error:
                protocol.lose(error.strerror or str(error))
            while not is_done() and (done := protocol.next_response()) is not None:
                done[0](done[1])

    def _check_silence(self) -> None:
        if self._is_silent:
            self._silent.update(self._known_by)
            raise SilentBrokerError(f"{self._where}: timed out")

    def _unanswered(self, why: str) -> UnansweredError:
        """Return the error of a broker that does not answer in time, and remember that."""
        self._silent.update(self._known_by)
        return UnansweredError(f"{self._where}: {why}")


def _now_ms() -> float:
    return monotonic_s() * 1000
