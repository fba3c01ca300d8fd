"""Delegation token: whoever knows its secret acts in the name of its owner, until it expires (KIP-48, KIP-373).

The secret is not stored: a key that all brokers share makes it of the id.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka_offsets.security.principal import Principal, parse_principal


class DelegationToken(NamedTuple):
    """What a broker stores of a token.

    requester  has asked for it, perhaps for another owner
    renewers   may renew it and set when it expires, beside its owner
    issue_ms, expiry_ms, max_ms  wall time; no renewal goes beyond the last one
    Source: TokenInformation of Kafka 4.3.
    """

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    def has_expired(self, now_ms: int) -> bool:
        """Return whether it has expired at a wall time."""
        return min(self.expiry_ms, self.max_ms) < now_ms

    def may_be_renewed_by(self, principal: Principal) -> bool:
        """Return whether a principal is its owner or one of its renewers."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: Principal) -> bool:
        """Return whether a principal has requested it, owns it or may renew it, and so may see it."""
        return principal == self.requester or self.may_be_renewed_by(principal)

    def form(self) -> dict[str, Any]:
        """Return it as JSON has it, with the names that Kafka has used in ZooKeeper."""
        return {
            "tokenId": self.token_id,
            "owner": str(self.owner),
            "tokenRequester": str(self.requester),
            "renewers": [str(renewer) for renewer in self.renewers],
            "issueTimestamp": self.issue_ms,
            "expiryTimestamp": self.expiry_ms,
            "maxTimestamp": self.max_ms,
        }


def token_of_form(form: Mapping[str, Any]) -> DelegationToken:
    """Return the token that `DelegationToken.form` describes. Raises KeyError, TypeError, ValueError."""
    texts = form["tokenId"], form["owner"], form["tokenRequester"], *form["renewers"]
    times = form["issueTimestamp"], form["expiryTimestamp"], form["maxTimestamp"]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a name of a token is no text")
    if not all(isinstance(time_ms, int) and not isinstance(time_ms, bool) for time_ms in times):
        raise TypeError("a time of a token is no number")
    owner, requester, *renewers = map(parse_principal, texts[1:])
    return DelegationToken(texts[0], owner, requester, tuple(renewers), *times)


Tokens = Mapping[str, DelegationToken]
"""By id."""
