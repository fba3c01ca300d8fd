"""Alerts: tell a peer why its TLS handshake has failed, for example that its certificate has expired.

asyncio closes the connection before the alert of OpenSSL is sent, so the peer sees no reason. A context of this module
sends it first. Source: RFC 8446, 6.2.
"""

import ssl
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

SEND_ALERT: ContextVar[Callable[[bytes], object]] = ContextVar("send_alert")
"""Sends bytes to the peer of a connection. Set it in the task that calls `loop.start_tls`."""


class _Connection(ssl.SSLObject):
    """One connection.

    outgoing    what OpenSSL has for the peer
    send_alert  sends bytes to the peer
    """

    outgoing: ssl.MemoryBIO
    send_alert: Callable[[bytes], object]

    def do_handshake(self) -> None:
        """Go on with the handshake; if it fails, send the alert before asyncio closes the connection."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if alert := self.outgoing.read():
                self.send_alert(alert)
            raise


class AlertingContext(ssl.SSLContext):
    """A context for `loop.start_tls` whose failed handshakes send their alert."""

    sslobject_class = _Connection

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any) -> Any:
        """Begin a connection. Its alert is sent by `SEND_ALERT`, if that is set."""
        connection = super().wrap_bio(incoming, outgoing, *args, **options)
        assert isinstance(connection, _Connection)
        connection.outgoing = outgoing
        connection.send_alert = SEND_ALERT.get(outgoing.write)
        return connection
