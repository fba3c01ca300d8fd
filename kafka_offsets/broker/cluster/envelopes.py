"""Envelopes: a client's request on its way from one broker to another, with the client's principal and address.

The broker that receives an Envelope decides the request in it as the client's: by the rights of the client's principal
at the client's address, and on its quotas. Kafka's brokers send Envelopes to the controller alone (KIP-590); here they
go to the coordinator of a group, with `offsets.forward`. Source: ForwardingManager, EnvelopeUtils and
KafkaApis.handleEnvelope of Kafka 4.3.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from kafka_offsets.broker.context.broker_peers import is_between_brokers, is_trusted
from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import decide_for, pass_on
from kafka_offsets.broker.gates.gate import authorized
from kafka_offsets.broker.wire import rights
from kafka_offsets.broker.wire.api import LATER, Api, Apis, Later, Response
from kafka_offsets.client.protocol import decode_response, encode_request
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import Receiver, RequestContext
from kafka_offsets.errors import ErrorCode, ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.connection import (
    Parts,
    encode_response,
    read_api_key_and_version,
    read_request_header,
)
from kafka_offsets.security.principal import Principal

ENVELOPE_VERSION = 0
_ENVELOPE = 58
_PRINCIPAL_VERSION = 0
_SHORT_BYTES = 2
_SIZE_BYTES = 4


# -- the broker of the client


def sealed(request: messages.MessageValue, context: RequestContext) -> messages.EnvelopeRequest:
    """Return a request of a client, or a part of it, in an envelope.

    context  of the client's request
    """
    frame = encode_request(request, context.api_version, context.correlation_id, context.client_id)
    host = context.client_host.removeprefix("/")
    return messages.EnvelopeRequest(frame[_SIZE_BYTES:], _encoded(context.principal), ip_address(host).packed)


def unsealed(
    request: messages.MessageValue, context: RequestContext, envelope: messages.EnvelopeResponse
) -> messages.MessageValue:
    """Return the response to the request in an envelope. Raises ProtocolError if the other broker has refused it."""
    if envelope.error_code or envelope.response_data is None:
        raise ProtocolError(f"the envelope is refused with {ErrorCode(envelope.error_code).name}", 0)
    frame = bytes(envelope.response_data)
    response: messages.MessageValue = decode_response(
        type(request), context.api_version, frame, context.correlation_id
    )
    return response


def _encoded(principal: Principal) -> bytes:
    form = messages.DefaultPrincipalData(principal.type, principal.name, False)
    return _PRINCIPAL_VERSION.to_bytes(_SHORT_BYTES, "big") + messages.encode(form, _PRINCIPAL_VERSION)


# -- the broker that decides


def _envelope(
    broker: Context, request: messages.EnvelopeRequest, context: RequestContext, now: Now
) -> Response | Later:
    """Decide the request in an envelope as its client's."""
    if not is_between_brokers(broker, context):
        # as at a listener of Kafka that is not for controllers
        error = ProtocolError(f"API key {_ENVELOPE} is not served at this listener", 0)
        broker.responses.refuse(context.connection, error)
        return LATER
    if not is_trusted(broker, context):
        return messages.EnvelopeResponse(None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if context.connection.has_left:
        return LATER  # withdrawn: its client may have sent it to another broker, and a later one after it
    try:
        principal = _decoded(bytes(request.request_principal or b""))
    except ProtocolError:
        return messages.EnvelopeResponse(None, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    try:
        address = ip_address(bytes(request.client_host_address))
    except ValueError:
        return messages.EnvelopeResponse(None, ErrorCode.INVALID_REQUEST)
    host = f"/{getattr(address, 'ipv4_mapped', None) or address}"
    try:
        opened = _Opened(broker, context, bytes(request.request_data), principal, host)
    except ProtocolError:
        return messages.EnvelopeResponse(None, ErrorCode.UNSUPPORTED_VERSION)
    if not opened.is_forwardable:
        return messages.EnvelopeResponse(None, ErrorCode.INVALID_REQUEST)
    opened.decide(now)
    return LATER


ENVELOPE = Api(
    _ENVELOPE,
    "Envelope",
    (0, 0),
    _envelope,
    rights.NONE,
    pipelined=True,
    is_between_brokers=True,
)
"""The Envelope API of brokers of a cluster; ApiVersions does not list it."""


def _decoded(data: bytes) -> Principal:
    """Read a principal. Raises ProtocolError."""
    if int.from_bytes(data[:_SHORT_BYTES], "big") != _PRINCIPAL_VERSION:
        raise ProtocolError("a principal of an unknown version", 0)
    form, _ = messages.decode(messages.DefaultPrincipalData, data, _PRINCIPAL_VERSION, _SHORT_BYTES)
    return Principal(form.type, form.name)


class _Opened:
    """A request that was in an envelope. Raises ProtocolError if it is none of a served API and version.

    is_forwardable  whether brokers pass requests of its API on
    """

    def __init__(
        self, broker: Context, envelope: RequestContext, frame: bytes, principal: Principal, host: str
    ) -> None:
        key, version = read_api_key_and_version(frame)
        apis = envelope.connection.apis
        api = (broker.apis if apis is None else apis).by_key.get(key)
        codecs = None if api is None else api.codecs(version)
        if api is None or codecs is None:
            raise ProtocolError(f"API key {key} is not served in version {version}", 0)
        self.is_forwardable = api.forwarded
        if apis is not None:  # a connection within this process has APIs that do not check rights
            (api,) = authorized(broker.access.authorizer, Apis([api]))
        self._broker, self._envelope, self._api, self._codecs = broker, envelope, api, codecs
        correlation_id, client_id, body = read_request_header(frame, codecs.has_tagged_request_header)
        # It is passed on no further, or brokers with different metadata would send it in a circle.
        self._context = RequestContext(
            envelope.connection,
            key,
            version,
            correlation_id,
            client_id,
            host,
            codecs.decode(frame, body)[0],
            codecs,
            envelope.frame_bytes,
            sender=envelope.sender,
            receiver=Receiver(self._answer, principal=principal),
        )

    def decide(self, now: Now) -> None:
        """Decide it as if the client had sent it to this broker."""
        decide_for(self._broker, self._api, self._context.request, self._context, now)

    def _answer(self, response: Response) -> None:
        """Put the response in an envelope, with the time for which the client is throttled."""
        context, codecs = self._context, self._codecs
        throttle_ms = self._broker.access.throttling.forwarded(context, self._envelope)
        if throttle_ms:
            response = self._throttled(response, throttle_ms)
        if isinstance(response, Parts):
            frame = b"".join(response.pieces)
        elif isinstance(response, (bytes, bytearray)):
            frame = bytes(response)
        else:
            encode = codecs.echo if response is context.request else codecs.encode
            tagged = codecs.has_tagged_response_header
            frame = bytes(encode_response(encode, response, context.correlation_id, tagged))
        sealed = messages.EnvelopeResponse(frame[_SIZE_BYTES:], ErrorCode.NONE)
        pass_on(self._broker, self._envelope, sealed)

    def _throttled(self, response: Response, throttle_ms: int) -> messages.MessageValue:
        context = self._context
        if isinstance(response, Parts):
            response = b"".join(response.pieces)
        message: Any
        if isinstance(response, (bytes, bytearray)):
            frame = bytes(response[_SIZE_BYTES:])
            message = decode_response(
                type(context.request), context.api_version, frame, context.correlation_id
            )
        elif response is context.request:
            message = self._api.fail(response, ErrorCode.NONE, context.api_version)
        else:
            message = response
        message.throttle_time_ms = throttle_ms
        throttled: messages.MessageValue = message
        return throttled
