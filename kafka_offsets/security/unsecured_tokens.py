"""Unsecured tokens: OAuth tokens without a signature, which anybody can make; for tests of clients alone.

A token is two parts in base64, each a JSON object, and an empty signature: `{"alg": "none"}`, the claims.
Sources: OAuthBearerUnsecuredValidatorCallbackHandler, OAuthBearerUnsecuredJws of Kafka 4.3.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka_offsets.errors import ConfigError
from kafka_offsets.security.oauth import Claims, MissingScopeError

_PREFIX = "unsecuredValidator"
_LATEST_S = 1 << 40


class UnsecuredRules(NamedTuple):
    """What an unsecured token must say.

    required_scope  the token must have each of them
    skew_ms         by how much the clocks of client and broker may differ
    """

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    skew_ms: int = 0


def unsecured_rules(options: Mapping[str, str]) -> UnsecuredRules:
    """Return the rules by the options of a JAAS configuration. Raises ConfigError."""

    def option(name: str, default: str) -> str:
        return options.get(f"{_PREFIX}{name}", "").strip() or default

    skew = option("AllowableClockSkewMs", "0")
    if not (skew.isascii() and skew.isdigit()):
        raise ConfigError(f"{_PREFIX}AllowableClockSkewMs is {skew}, not a number from 0 on")
    return UnsecuredRules(
        option("PrincipalClaimName", "sub"),
        option("ScopeClaimName", "scope"),
        tuple(option("RequiredScope", "").split()),
        int(skew),
    )


def unsecured_claims(token: str, rules: UnsecuredRules, now_ms: int) -> Claims:
    """Check a token; return what it says. Raises ValueError, for a missing scope MissingScopeError."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2] or ".." in token:
        raise ValueError("an unsecured token has three parts, the last of which is empty")
    header, claims = _object(parts[0]), _object(parts[1])
    if header.get("alg") != "none":
        raise ValueError("the algorithm of an unsecured token is none")
    name = claims.get(rules.principal_claim)
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"the token has no claim {rules.principal_claim}")
    scopes = _scopes(claims.get(rules.scope_claim))
    expires_ms, issued_ms = _time_ms(claims, "exp"), _time_ms(claims, "iat")
    if expires_ms is None or now_ms - rules.skew_ms >= expires_ms:
        raise ValueError("the token has expired")
    if issued_ms is not None and (issued_ms > now_ms + rules.skew_ms or expires_ms <= issued_ms):
        raise ValueError("the token is not valid yet")
    if not scopes.issuperset(rules.required_scope):
        raise MissingScopeError(rules.required_scope)
    return Claims(name, expires_ms)


def _object(part: str) -> dict[str, Any]:
    try:
        document = json.loads(b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("a part of the token is no object")  # noqa: TRY004 - wrong data, not a wrong call
    return document


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    seconds = claims.get(name)
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < _LATEST_S:
        raise ValueError(f"the claim {name} of the token is no time")
    return round(seconds * 1000)


def _scopes(value: object) -> set[str]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | None):
        raise ValueError("the scope of the token is no text")  # noqa: TRY004 - wrong data, not a wrong call
    return {str(item).strip() for item in value or ()} - {""}
