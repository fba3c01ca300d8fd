"""Principals: the names that listeners give to peers, and that ACLs give rights to."""

from typing import NamedTuple

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
