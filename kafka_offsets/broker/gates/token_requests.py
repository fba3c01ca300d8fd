"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken (KIP-48, KIP-373).

Answers are Kafka's: tests/stories/delegation_tokens.txt has them.
Sources: KafkaApis, ControllerApis, DelegationTokenManager, DelegationTokenControlManager of Kafka 4.3.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.protocol import messages
from kafka_offsets.security.acls import AclOperation, ResourceType
from kafka_offsets.security.delegation_token import DelegationToken
from kafka_offsets.security.principal import ANONYMOUS, USER_TYPE, Principal

if TYPE_CHECKING:
    from kafka_offsets.broker.context.context import Context

MOST_TOKENS = 1000
"""The most tokens: all are in one file, which each change writes again."""

_MOST_RENEWERS = 99
_LONGEST_NAME_BYTES = 512
_NO_TIME = -1
_REQUESTER_SINCE = 3
"""The first version of responses that name who has requested a token (KIP-373)."""

_LATEST_MS = 2**63 - 1

logger = new_logger(__name__)


def may_have_tokens(context: RequestContext) -> bool:
    """Return whether the sender has proved its name, and not with a token: only then it may ask about tokens."""
    connection = context.connection
    if connection.authentication is None:
        return bool(context.principal != ANONYMOUS)  # it has a name if its certificate has one
    return not connection.authentication.is_by_token


def owner_of(request: messages.CreateDelegationTokenRequest, context: RequestContext) -> Principal | None:
    """Return for which owner a token is requested, by default the sender; None for a name without a type."""
    if not request.owner_principal_name:
        return context.principal
    if request.owner_principal_type is None:
        return None
    return Principal(request.owner_principal_type, request.owner_principal_name)


def refused_creation(
    context: RequestContext, error: ErrorCode, owner: Principal, time_ms: int = _NO_TIME
) -> messages.CreateDelegationTokenResponse:
    """Return the response to a creation that is refused."""
    requester = _shown(context.principal, context.api_version)
    return messages.CreateDelegationTokenResponse(
        error, *owner, *requester, time_ms, time_ms, time_ms, token_id="", hmac=b""
    )


def _shown(requester: Principal, api_version: int) -> Principal:
    """Return the requester as a version of a response has it."""
    return requester if api_version >= _REQUESTER_SINCE else Principal("", "")


def create_delegation_token(
    broker: Context, request: messages.CreateDelegationTokenRequest, context: RequestContext, now: Now
) -> messages.CreateDelegationTokenResponse:
    """Create a token for the sender, or for another owner."""
    owner, requester = owner_of(request, context), context.principal
    if owner is None:
        return fail_create_delegation_token(request, ErrorCode.UNKNOWN_SERVER_ERROR, context.api_version)
    if not may_have_tokens(context):
        return refused_creation(context, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, owner)
    may_create = partial(context.sender.may, AclOperation.CREATE_TOKENS, ResourceType.USER)
    if owner != requester and not may_create(str(owner)):
        return refused_creation(context, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, owner)
    renewers = tuple(
        Principal(renewer.principal_type, renewer.principal_name) for renewer in request.renewers
    )
    if any(renewer.type != USER_TYPE for renewer in renewers):
        return refused_creation(context, ErrorCode.INVALID_PRINCIPAL_TYPE, owner)
    if not broker.access.delegation_tokens.are_enabled:
        return refused_creation(context, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, owner, 0)
    before, config = broker.directory.clients.tokens, broker.config
    if len(before) >= MOST_TOKENS or _cannot_be_stored(owner, *renewers):
        return refused_creation(context, ErrorCode.POLICY_VIOLATION, owner)
    lifetime_ms = _at_most(config.delegation_token_max_lifetime_ms, request.max_lifetime_ms)
    max_ms = min(_LATEST_MS, now.wall_ms + lifetime_ms)
    expiry_ms = min(max_ms, now.wall_ms + config.delegation_token_expiry_time_ms)
    token_id = urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()
    made = DelegationToken(token_id, owner, requester, renewers, now.wall_ms, expiry_ms, max_ms)
    failed = _set(broker, {**before, token_id: made})
    if failed:
        return refused_creation(context, failed, owner)
    return messages.CreateDelegationTokenResponse(
        ErrorCode.NONE,
        *owner,
        *_shown(requester, context.api_version),
        made.issue_ms,
        made.expiry_ms,
        made.max_ms,
        token_id,
        broker.access.delegation_tokens.secret_of(token_id),
    )


def _cannot_be_stored(owner: Principal, *renewers: Principal) -> bool:
    """Return whether there are too many names, or too long ones, or whether the owner would be read back as another.

    "User:a:b" is the user "a:b". If the type "User:a" had the name "b", a right for User:a:b would be one to act as b.
    """
    longest = max(len(str(principal).encode()) for principal in (owner, *renewers))
    return ":" in owner.type or len(renewers) > _MOST_RENEWERS or longest > _LONGEST_NAME_BYTES


def fail_create_delegation_token(
    request: messages.CreateDelegationTokenRequest, error: ErrorCode, api_version: int
) -> messages.CreateDelegationTokenResponse:
    """Answer `error`; as in Kafka for an unknown sender."""
    requester = _shown(ANONYMOUS, api_version)
    return messages.CreateDelegationTokenResponse(
        error, *ANONYMOUS, *requester, _NO_TIME, _NO_TIME, _NO_TIME, "", b""
    )


def renew_delegation_token(
    broker: Context, request: messages.RenewDelegationTokenRequest, context: RequestContext, now: Now
) -> messages.RenewDelegationTokenResponse:
    """Set when a token expires, by default after `delegation.token.expiry.time.ms`, which is also the longest time."""
    response = messages.RenewDelegationTokenResponse
    if not may_have_tokens(context):
        return response(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, _NO_TIME)
    token = broker.access.delegation_tokens.of_secret(bytes(request.hmac))
    error = ErrorCode.NONE
    if not broker.access.delegation_tokens.are_enabled:
        error = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    elif token is None:
        error = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    elif token.has_expired(now.wall_ms):
        error = ErrorCode.DELEGATION_TOKEN_EXPIRED
    elif not token.may_be_renewed_by(context.principal):
        error = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    if error or token is None:
        return response(error, 0)
    period_ms = _at_most(broker.config.delegation_token_expiry_time_ms, request.renew_period_ms)
    return response(*_expires(broker, token, now.wall_ms + period_ms))


def expire_delegation_token(
    broker: Context, request: messages.ExpireDelegationTokenRequest, context: RequestContext, now: Now
) -> messages.ExpireDelegationTokenResponse:
    """Set when a token expires, or remove it at once."""
    response = messages.ExpireDelegationTokenResponse
    if not may_have_tokens(context):
        return response(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, _NO_TIME)
    if not broker.access.delegation_tokens.are_enabled:
        return response(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0)
    token = broker.access.delegation_tokens.of_secret(bytes(request.hmac))
    if token is None:
        return response(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
    if not token.may_be_renewed_by(context.principal):
        return response(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    if request.expiry_time_period_ms < 0:
        tokens = dict(broker.directory.clients.tokens)
        del tokens[token.token_id]
        failed = _set(broker, tokens)
        return response(failed, 0 if failed else now.wall_ms)
    if token.has_expired(now.wall_ms):
        return response(ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    return response(*_expires(broker, token, now.wall_ms + request.expiry_time_period_ms))


def describe_delegation_token(
    broker: Context, request: messages.DescribeDelegationTokenRequest, context: RequestContext, now: Now
) -> messages.DescribeDelegationTokenResponse:
    """Describe the tokens that some principals have requested, own or may renew, or all tokens."""
    response = messages.DescribeDelegationTokenResponse
    if not may_have_tokens(context):
        return response(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, [])
    if not broker.access.delegation_tokens.are_enabled:
        return response(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, [])
    owners = [Principal(owner.principal_type, owner.principal_name) for owner in request.owners or ()]
    described = [
        _described(broker, token, context.api_version)
        for token in broker.directory.clients.tokens.values()
        if (request.owners is None or any(map(token.concerns, owners))) and _is_seen(token, context)
    ]
    return response(ErrorCode.NONE, described)


def _is_seen(token: DelegationToken, context: RequestContext) -> bool:
    """Whether a token concerns the sender, or the sender may describe it or those of its owner."""
    sees = context.sender.sees
    return (
        token.concerns(context.principal)
        or sees(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or sees(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _described(
    broker: Context, token: DelegationToken, api_version: int
) -> messages.DescribeDelegationTokenResponse.DescribedDelegationToken:
    made = messages.DescribeDelegationTokenResponse.DescribedDelegationToken
    renewer = messages.DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer
    return made(
        *token.owner,
        *_shown(token.requester, api_version),
        token.issue_ms,
        token.expiry_ms,
        token.max_ms,
        token.token_id,
        broker.access.delegation_tokens.secret_of(token.token_id),
        [renewer(*principal) for principal in token.renewers],
    )


def _at_most(limit_ms: int, wanted_ms: int) -> int:
    """Return a requested time, at most the limit, which also counts for a time that is not positive."""
    return min(limit_ms, wanted_ms) if wanted_ms > 0 else limit_ms


def _expires(broker: Context, token: DelegationToken, expiry_ms: int) -> tuple[ErrorCode, int]:
    """Set when a token expires; return the error, and the time."""
    changed = token._replace(expiry_ms=min(token.max_ms, expiry_ms))
    failed = _set(broker, {**broker.directory.clients.tokens, token.token_id: changed})
    return failed, 0 if failed else changed.expiry_ms


def _set(broker: Context, tokens: Mapping[str, DelegationToken]) -> ErrorCode:
    """Replace all tokens; return the error if the disk refuses."""
    try:
        broker.settings.set_tokens(tokens)
    except StorageError as error:
        logger.error("the delegation tokens were not changed: %s", error)
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
