"""Errors of listeners, in sentences: who refuses what, and which property a user may have to change."""

from __future__ import annotations

import ssl

from kafka_offsets.errors import ListenerError
from kafka_offsets.security.tls import WEAK_IS_TAKEN

NEEDS_TLS = "the broker answers with TLS: security.protocol must be SSL or SASL_SSL"


def tls_error(where: str, error: OSError) -> ListenerError:
    """Return the error of a handshake that has failed.

    where  the address of the broker
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        why: str = error.verify_message
        way_out = f": {WEAK_IS_TAKEN}" if why.endswith("too weak") else ""
        return ListenerError(f"{where}: its certificate is refused: {why}{way_out}")
    if is_silent(error):
        return ListenerError(
            f"{where}: the broker closed the connection during the TLS handshake: has its listener TLS?"
        )
    return refused_by_broker(where, error)


def refused_by_broker(where: str, error: OSError) -> ListenerError:
    """Return the error of TLS after the client has accepted the broker: with TLS 1.3 it comes later."""
    reason = getattr(error, "reason", None) or error.strerror or str(error)
    return ListenerError(f"{where}: TLS failed: {reason.replace('_', ' ').lower()}")


def unanswered(protocol: str) -> str:
    """Return what a user may check if a broker closes a connection and has not answered anything."""
    certificate = ", and does it want a certificate of the client" if protocol.endswith("SSL") else ""
    return f": is {protocol} the protocol of its listener{certificate}?"


def is_silent(error: OSError) -> bool:
    """Return whether the broker has closed the connection without a reason."""
    return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or not isinstance(error, ssl.SSLError)
