"""Login: the requests with which a client proves its name on a connection, as a generator. No socket.

SaslHandshake names the mechanism, SaslAuthenticate has its tokens (KIP-152). They are sent before anything else, and
again before the session ends (KIP-368). Source: SaslClientAuthenticator.java.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from kafka_offsets.client.security import Login
from kafka_offsets.errors import ConnectionLostError, RefusedError
from kafka_offsets.protocol import messages

VERSION = 1
"""Of both requests."""

SESSION_SHARE = 0.85
"""The part of a session after which a client logs in again, as Kafka's."""

Exchange = Generator[messages.MessageValue, Any, int]


def log_in(login: Login, where: str) -> Exchange:
    """Yield requests and receive their responses; return how long the session lasts in ms, 0: no limit.

    where  the address of the broker, for errors
    Raises RefusedError if the broker does not accept the login, and ConnectionLostError if it does not know the
    password either; neither shows it.
    """
    accepted = yield messages.SaslHandshakeRequest(login.mechanism)
    if accepted.error_code:
        served = ", ".join(accepted.mechanisms)
        problem = (
            f"{login.mechanism} is not one of {served}" if served else "it takes no login at this address"
        )
        raise RefusedError(f"{where}: {problem}", accepted.error_code)
    lifetime_ms = 0
    tokens = login.exchange()
    try:
        token = next(tokens)
        while True:
            answer = yield messages.SaslAuthenticateRequest(token)
            if answer.error_code:
                raise RefusedError(
                    f"{where}: {login.what} refused: {answer.error_message}", answer.error_code
                )
            lifetime_ms = answer.session_lifetime_ms or lifetime_ms
            token = tokens.send(bytes(answer.auth_bytes))
    except StopIteration:
        return lifetime_ms
    except ValueError as error:
        raise ConnectionLostError(f"{where}: authentication failed: {error}") from None
