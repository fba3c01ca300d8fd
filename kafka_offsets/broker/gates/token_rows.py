"""Rows of delegation tokens: for which owners a sender may make them, and which of them it sees (KIP-373).

Sources: KafkaApis.handleCreateTokenRequest, DelegationTokenManager.filterToken of Kafka 4.3.
"""

from __future__ import annotations

from typing import Any

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.context.intercept import decide
from kafka_offsets.broker.gates.sender import Sender, sender_of
from kafka_offsets.broker.gates.token_requests import may_have_tokens, owner_of, refused_creation
from kafka_offsets.broker.wire.api import Api
from kafka_offsets.broker.wire.rights import Right
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode
from kafka_offsets.security.acls import AclOperation, ResourceType
from kafka_offsets.security.authorizer import Authorizer

_CREATE_TOKENS = Right(AclOperation.CREATE_TOKENS, ResourceType.USER)
_DESCRIBE_TOKENS = Right(AclOperation.DESCRIBE_TOKENS, ResourceType.USER)
_DESCRIBE_TOKEN = Right(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN)


def create_token(
    authorizer: Authorizer, row: Api, core: Context, request: Any, context: RequestContext, now: Now
) -> Any:
    """Create a token for the sender itself, or for an owner for which it may create them."""
    owner = owner_of(request, context)
    if (
        owner not in (None, context.principal)
        and may_have_tokens(context)
        and not sender_of(authorizer, context).may(_CREATE_TOKENS, str(owner))
    ):
        assert owner is not None
        return refused_creation(context, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, owner)
    return decide(core, row, request, context, now)


def seen_tokens(sender: Sender, core: Context, request: Any, response: Any) -> Any:
    """Remove the tokens that do not concern the sender, unless it may describe them."""
    tokens = core.directory.clients.tokens
    response.tokens = [
        each
        for each in response.tokens
        if tokens[each.token_id].concerns(sender.principal)
        or sender.sees(_DESCRIBE_TOKEN, each.token_id)
        or sender.sees(_DESCRIBE_TOKENS, str(tokens[each.token_id].owner))
    ]
    return response
