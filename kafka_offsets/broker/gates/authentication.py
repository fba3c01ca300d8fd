"""SaslHandshake and SaslAuthenticate, and the requests that are refused before them.

What a connection may send, and when, is decided by `security.sasl.authentication`. Sources: SaslServerAuthenticator,
KafkaChannel, SocketServer and KafkaApis of Kafka 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_offsets.broker.wire.api import LATER, Later
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import read_api_key_and_version, read_request_header
from kafka_offsets.security.sasl.authentication import API_VERSIONS, Authentication, AuthenticationState
from kafka_offsets.security.sasl.mechanism import AuthenticationFailedError

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context
    from kafka_offsets.broker.wire.api import Api
    from kafka_offsets.broker.wire.connection import ClientConnection

_AFTERWARDS = "SaslAuthenticate request received after successful authentication"
_SIZE_BYTES = 4
_PRODUCE = 0

logger = new_logger(__name__)


def admits(broker: Context, connection: ClientConnection, frame: bytes, now: Now) -> bool:
    """Return whether a frame of a connection with SASL is a request to decide; otherwise it is dealt with here."""
    authentication = connection.authentication
    assert authentication is not None
    if authentication.state is AuthenticationState.FAILED:
        return False
    if authentication.state is AuthenticationState.BARE_TOKENS:
        _exchange_bare(broker, connection, authentication, frame, now)
        return False
    key, version = read_api_key_and_version(frame)
    refusal = authentication.refusal(key, now)
    if refusal is not None:
        if authentication.state is AuthenticationState.COMPLETE:  # Kafka closes an expired session at once
            logger.warning("%s: connection closed: %s", connection.peer, refusal)
            broker.responses.close_connection(connection)
        else:
            api = broker.apis.by_key.get(key) if authentication.answers_refusals else None
            _refuse_request(broker, connection, api, version, frame, refusal)
        return False
    if key == API_VERSIONS and (api := broker.apis.by_key.get(key)) and version in api.served_versions:
        authentication.note_versions(are_answered=True)
    return True


def _refuse_request(
    broker: Context, connection: ClientConnection, api: Api | None, version: int, frame: bytes, refusal: str
) -> None:
    """Answer a request with an error, if it comes in place of a token: then it has an API. Raises ProtocolError."""
    codecs = None if api is None else api.codecs(version)
    if api is None or codecs is None:
        _fail(broker, connection, refusal)
        return
    correlation_id, client_id, body = read_request_header(frame, codecs.has_tagged_request_header)
    request = codecs.decode(frame, body)[0]
    if api.key == _PRODUCE and request.acks == 0:
        _fail(broker, connection, refusal)
        return
    context = RequestContext(
        connection, api.key, version, correlation_id, client_id, connection.host, request, codecs
    )
    connection.unanswered.append(context)
    connection.pipelined_key = None
    _fail(broker, connection, refusal, context, api.fail(request, ErrorCode.ILLEGAL_SASL_STATE, version))


def _exchange_bare(
    broker: Context, connection: ClientConnection, authentication: Authentication, token: bytes, now: Now
) -> None:
    """Answer a token that comes without a request, in the same way; a failure is not answered (KIP-43)."""
    connection.last_used_ms = now.mono_ms
    try:
        response, _ = authentication.exchange(token, now)
    except AuthenticationFailedError as error:
        _fail(broker, connection, str(error))
        return
    _record_principal(broker, connection, authentication)
    broker.responses.send(connection, len(response).to_bytes(_SIZE_BYTES, "big") + response)


def sasl_handshake(
    broker: Context, request: messages.SaslHandshakeRequest, context: RequestContext, now: Now
) -> messages.SaslHandshakeResponse | Later:
    """Begin an exchange with the mechanism that the client chooses, or list those that are enabled."""
    connection, response = context.connection, messages.SaslHandshakeResponse
    authentication: Authentication | None = connection.authentication
    if authentication is None:
        return response(ErrorCode.ILLEGAL_SASL_STATE, [])
    is_again = authentication.is_again
    try:
        has_begun = authentication.handshake(request.mechanism, context.api_version, now)
    except AuthenticationFailedError as error:
        refused = response(ErrorCode.UNSUPPORTED_SASL_MECHANISM, authentication.mechanisms)
        if is_again:  # as in Kafka, this failure is not answered
            connection.unanswered.clear()
            _fail(broker, connection, str(error))
        else:
            _fail(broker, connection, str(error), context, refused)
        return LATER
    if not has_begun:
        return response(ErrorCode.ILLEGAL_SASL_STATE, [])
    return response(ErrorCode.NONE, authentication.mechanisms)


def sasl_authenticate(
    broker: Context, request: messages.SaslAuthenticateRequest, context: RequestContext, now: Now
) -> messages.SaslAuthenticateResponse | Later:
    """Pass a token to the exchange, and answer with the broker's."""
    connection, response = context.connection, messages.SaslAuthenticateResponse
    authentication: Authentication | None = connection.authentication
    if authentication is None or authentication.state is AuthenticationState.COMPLETE:
        return response(ErrorCode.ILLEGAL_SASL_STATE, _AFTERWARDS, b"", 0)
    try:
        token, lifetime_ms = authentication.exchange(bytes(request.auth_bytes), now)
    except AuthenticationFailedError as error:
        refused = response(ErrorCode.SASL_AUTHENTICATION_FAILED, error.client_message, b"", 0)
        _fail(broker, connection, str(error), context, refused)
        return LATER
    _record_principal(broker, connection, authentication)
    return response(ErrorCode.NONE, "", token, lifetime_ms)


def _record_principal(broker: Context, connection: ClientConnection, authentication: Authentication) -> None:
    if authentication.state is AuthenticationState.COMPLETE:
        assert authentication.principal is not None
        connection.principal = authentication.principal
        connection.reader.max_bytes = broker.config.socket_request_max_bytes


def _fail(
    broker: Context,
    connection: ClientConnection,
    why: str,
    context: RequestContext | None = None,
    response: messages.MessageValue | None = None,
) -> None:
    """Answer a failed authentication, if it is answered, and close the connection, both after Kafka's delay.

    The delay slows down peers that guess passwords.
    """
    assert connection.authentication is not None
    connection.authentication.state = AuthenticationState.FAILED
    logger.warning("%s: authentication failed: %s", connection.peer, why)

    def close(now: Now) -> None:
        if connection.closing:
            return
        if context is not None:
            broker.responses.respond(context, response)
            broker.responses.release()
        broker.responses.close_connection(connection)

    delay_ms = broker.config.connection_failed_authentication_delay_ms
    broker.scheduler.client_timeout(delay_ms, close)
