"""OAuth: checks signed tokens (JWT, RFC 7519) with the public keys of a file (JWKS, RFC 7517).

Times of tokens are compared with the broker's clock. Sources: BrokerJwtValidator, ClaimValidationUtils of Kafka 4.3.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from kafka_offsets.errors import ConfigError
from kafka_offsets.installation import install_command

if TYPE_CHECKING:
    import jwt

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a private key: a token that is signed with a shared secret, or not at all, is refused."""


class Rules(NamedTuple):
    """What a token must say.

    issuer     None: any
    audience   one of these; empty: any
    skew_s     by how much the clocks of issuer and broker may differ
    sub_claim  the claim with the name of the principal
    """

    issuer: str | None
    audience: tuple[str, ...]
    skew_s: int
    sub_claim: str


class Claims(NamedTuple):
    """What a valid token says: the name of the principal, and when the token expires, wall time."""

    name: str
    expires_ms: int


class MissingScopeError(ValueError):
    """A token lacks a scope.

    required  all scopes that it must have
    """

    def __init__(self, required: tuple[str, ...]) -> None:
        super().__init__("the token lacks a scope")
        self.required = required


class TokenKeys:
    """The public keys of a JWKS file. Raises ConfigError if it cannot be used."""

    def __init__(self, url: str | None) -> None:
        if find_spec("jwt") is None or find_spec("cryptography") is None:
            raise ConfigError(f"OAUTHBEARER needs PyJWT: {install_command('security')}")
        import jwt

        parts = urlsplit(url or "")
        if parts.scheme != "file":
            raise ConfigError(
                "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url, file:///PATH of a JWKS file"
            )
        path = unquote(parts.path)
        try:
            keys = jwt.PyJWKSet.from_dict(json.loads(Path(path).read_bytes())).keys
        except (OSError, ValueError, AttributeError, jwt.PyJWTError) as error:
            raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        self._keys = [key for key in keys if key.algorithm_name in _ALGORITHMS]
        if not self._keys:
            raise ConfigError(f"{path}: there is no public key in it")

    def claims(self, token: str, rules: Rules, now_ms: int) -> Claims:
        """Check a token; return what it says. Raises ValueError, which shows nothing of the token."""
        import jwt

        try:
            claims = jwt.decode(
                token,
                self._key_of(jwt.get_unverified_header(token)),
                algorithms=list(_ALGORITHMS),
                audience=rules.audience or None,
                issuer=rules.issuer,
                options={
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_aud": bool(rules.audience),
                    "require": ["exp", "iat"],
                },
            )
        except jwt.PyJWTError as error:
            raise ValueError(f"the token is refused: {type(error).__name__}") from None
        return _checked(claims, rules, now_ms)

    def _key_of(self, header: dict[str, Any]) -> jwt.PyJWK:
        """Return the key by the id that a token names; by its algorithm, if it names none."""
        key_id = header.get("kid")
        matches = [
            key
            for key in self._keys
            if (header.get("alg") == key.algorithm_name if key_id is None else key_id == key.key_id)
        ]
        if len(matches) != 1:
            raise ValueError("the token names no key of the file")
        return matches[0]


def _checked(claims: dict[str, Any], rules: Rules, now_ms: int) -> Claims:
    name = claims.get(rules.sub_claim)
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"the token has no claim {rules.sub_claim}")
    times_ms = {}
    for claim in ("exp", "iat", "nbf"):
        seconds = claims.get(claim)
        if seconds is None and claim == "nbf":
            continue
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1 << 40:
            raise ValueError(f"the claim {claim} of the token is no time")
        times_ms[claim] = int(seconds * 1000)
    skew_ms = rules.skew_s * 1000
    if now_ms >= times_ms["exp"] + skew_ms:
        raise ValueError("the token has expired")
    # As in Kafka, a token may be issued later than now: only the claim nbf says when it begins.
    if times_ms["exp"] < times_ms["iat"] or times_ms.get("nbf", 0) > now_ms + skew_ms:
        raise ValueError("the token is not valid yet")
    return Claims(name, times_ms["exp"])
