"""Principals: the names that listeners give to peers, and that ACLs give rights to.

Principal mapping: the name of a client from its certificate, by the key `ssl.principal.mapping.rules` (KIP-371).

Rules are separated by commas: ``RULE:pattern/replacement/`` with L or U after it for lower or upper case, or DEFAULT.
The first rule whose pattern matches all of the distinguished name makes the name. Source: SslPrincipalMapper.java.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.errors import ConfigError

if TYPE_CHECKING:
    from cryptography import x509


USER_TYPE = "User"
"""The type of all principals that Kafka's own listeners make."""


class Principal(NamedTuple):
    """A principal: its type, for Kafka always "User", and its name. Source: KafkaPrincipal.java."""

    type: str
    name: str

    def __str__(self) -> str:
        """Return it as ACLs and `super.users` name it: "User:alice"."""
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")
"""The principal of a peer that does not authenticate."""


def parse_principal(text: str) -> Principal:
    """Return the principal that a text such as "User:alice" names; the name may contain further colons.

    Raises ValueError with Kafka's message. Source: SecurityUtils.parseKafkaPrincipal.
    """
    type_, colon, name = text.partition(":")
    if not text or not colon:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return Principal(type_, name)


_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_REFERENCE = re.compile(r"\\(.)|\$([0-9])|([^\\$]+)|\$")
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}


class Rule(NamedTuple):
    """One rule; of DEFAULT the pattern is None."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        """Return the name that this rule makes, None if it does not match."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        made = _REFERENCE.sub(lambda part: _expanded(part, match), self.replacement)
        return {"L": made.lower(), "U": made.upper()}.get(self.case, made)


def _expanded(part: re.Match[str], match: re.Match[str]) -> str:
    """Return the text of one part of a replacement. A reference to a group that does not exist stays as it is."""
    escaped, reference, text = part.groups()
    if reference is not None and int(reference) <= (match.re.groups or 0):
        return match[int(reference)] or ""
    return escaped or text or part[0]


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Read a value of `ssl.principal.mapping.rules`; an empty one is DEFAULT. Raises ConfigError."""
    rules, position = [], 0
    while position < len(text.rstrip()):
        match = _RULE.match(text, position)
        if match is None:
            raise ConfigError(f"Invalid rule in ssl.principal.mapping.rules: {text[position:]}")
        try:
            pattern = None if match[1] else re.compile(match[2].replace(r"\/", "/"))
        except re.error as error:
            raise ConfigError(f"Invalid rule in ssl.principal.mapping.rules: {match[2]}: {error}") from error
        rules.append(Rule(pattern, match[3] or "", match[4] or ""))
        position = match.end()
    return tuple(rules) or (Rule(None, "", ""),)


def map_name(rules: tuple[Rule, ...], name: str) -> str | None:
    """Return the name that the first matching rule makes of a distinguished name; None if none matches."""
    made = (rule.apply(name) for rule in rules)
    return next((mapped_name for mapped_name in made if mapped_name is not None), None)


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate in DER as Java's X500Principal.getName writes it (RFC 2253)."""
    from cryptography import x509

    subject = x509.load_der_x509_certificate(certificate).subject
    return ",".join("+".join(map(_attribute, part)) for part in reversed(subject.rdns))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    oid = attribute.oid.dotted_string
    keyword = _KEYWORDS.get(oid)
    if keyword is None or not isinstance(attribute.value, str):
        return f"{oid}=#{_encoded_value(attribute).hex()}"
    value = re.sub(r'([,+"\\<>;])', r"\\\1", attribute.value)
    value = re.sub(r"^([ #])|( )$", lambda match: f"\\{match[0]}", value)
    return f"{keyword}={value}"


def _encoded_value(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Return the value of an attribute in DER: what follows the identifier in a sequence in a set in a sequence."""
    from cryptography import x509

    data = x509.Name([attribute]).public_bytes()
    for _ in range(3):
        data = _content(data)[0]
    return _content(data)[1]


def _content(data: bytes) -> tuple[bytes, bytes]:
    """Return the content of the first element in DER, and what follows it."""
    size, start = data[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(data[2:start], "big")
    return data[start : start + size], data[start + size :]
