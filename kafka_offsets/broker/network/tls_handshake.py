"""TLS handshake: what a new connection to a listener with TLS does before it is a connection of a client."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from kafka_offsets.broker.network.accepting import pause_again
from kafka_offsets.errors import ConfigError
from kafka_offsets.logs import new_logger
from kafka_offsets.security.tls_alerts import SEND_ALERT

_HANDSHAKE_SECONDS = 30.0
"""The time that a handshake may take."""

logger = new_logger(__name__)


class Handshakes(Protocol):
    """The used methods of the server."""

    def delays_handshake(self, handshake: Handshake, host: str) -> bool:
        """Whether its address has exceeded its quota: the connection is counted, stays unread, and is closed later."""

    def begin_handshake(self, handshake: Handshake, host: str) -> bool:
        """Count a connection; return whether it may go on."""

    def end_handshake(self, handshake: Handshake, host: str) -> None:
        """Count it no longer; it is closed, or a connection of a client from now on."""


class Handshake(asyncio.Protocol):
    """One connection during its handshake. It keeps what the peer sends in the same packet as its last message.

    context   returns the context as it is now: certificates may have changed
    new_peer  makes the protocol that takes over
    """

    def __init__(
        self,
        server: Handshakes,
        context: Callable[[], ssl.SSLContext],
        new_peer: Callable[[], asyncio.Protocol],
    ) -> None:
        self._server, self._context, self._new_peer = server, context, new_peer
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._host = ""
        self._task: asyncio.Task[None] | None = None
        self._is_begun = self._is_counted = self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, unless there are too many connections."""
        if self._is_begun:
            return
        self._is_begun = True
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        transport.pause_reading()  # until TLS reads
        asyncio.get_running_loop().call_soon(pause_again, transport)
        self._host = (transport.get_extra_info("peername") or ("unknown",))[0]
        if self._server.delays_handshake(self, self._host):
            self._is_counted = True
            return
        if not self._server.begin_handshake(self, self._host):
            transport.abort()
            return
        self._is_counted = True
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(transport))
        self._task.add_done_callback(lambda _: self._end())  # also if it is cancelled before its first step

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        SEND_ALERT.set(transport.write)
        encrypted: asyncio.Transport | None = None
        try:
            encrypted = await loop.start_tls(
                transport,
                self,
                self._context(),
                server_side=True,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
            )
        except (
            OSError,
            ConfigError,
            asyncio.CancelledError,
        ) as error:  # ssl.SSLError and timeouts are OSError
            self._log(error)
            # asyncio's future, the error and its frames refer to each other, and to a buffer of 256 KiB.
            error.__traceback__ = None
        finally:
            self._end()
            if encrypted is None:
                transport.abort()
        if encrypted is not None and not self._is_lost:
            self._hand_over(encrypted)

    def _log(self, error: BaseException) -> None:
        if isinstance(error, ConnectionResetError):  # it has left, as a health check does
            logger.debug("%s: the connection was closed during the TLS handshake", self._host)
        elif isinstance(error, Exception):
            logger.warning("%s: TLS handshake failed: %s", self._host, _reason(error))

    def _end(self) -> None:
        """Have the server count the connection no longer, once."""
        if self._is_counted:
            self._is_counted = False
            self._server.end_handshake(self, self._host)

    def _hand_over(self, encrypted: asyncio.Transport) -> None:
        peer = self._new_peer()
        encrypted.set_protocol(peer)
        peer.connection_made(encrypted)
        for data in self._early:
            peer.data_received(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        """Keep what comes before the protocol that takes over."""
        self._early.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Record that there is no connection to hand over."""
        self._is_lost = True
        if self._task is None:
            self._end()

    def abort(self) -> None:
        """Close at once."""
        assert self._transport is not None
        self._transport.abort()
        if self._task is not None:
            self._task.cancel()


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason
    return str(error) or type(error).__name__
