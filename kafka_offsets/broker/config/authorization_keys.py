"""The keys of the authorizer."""

from dataclasses import dataclass

from kafka_offsets.broker.config.types import Type, setting
from kafka_offsets.security.authorizer import Authorizer
from kafka_offsets.security.principal import parse_principal

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_WITH_ZOOKEEPER = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")
"""The authorizers of Kafka before 4.0, which decide in the same way."""


def _known_authorizer(name: str) -> str | None:
    """Return why an authorizer cannot be used, else None."""
    known = ("", STANDARD_AUTHORIZER, *_WITH_ZOOKEEPER)
    return None if name in known else f"the only authorizer is {STANDARD_AUTHORIZER}"


def _known_principals(text: str) -> str | None:
    """Return why a list of principals cannot be read, else None."""
    try:
        _principals(text)
    except ValueError as error:
        return str(error)
    return None


def _principals(text: str) -> list[str]:
    return [str(parse_principal(each.strip())) for each in text.split(";") if each.strip()]


@dataclass(frozen=True, slots=True)
class AuthorizationKeys:
    """Who may do what."""

    authorizer_class_name: str = setting(
        Type.STRING,
        "",
        "The authorizer: with Kafka's StandardAuthorizer every request is checked against ACLs; empty: none is. The "
        "names of the authorizers that Kafka had with ZooKeeper mean the same.",
        check=_known_authorizer,
    )
    super_users: str = setting(
        Type.STRING,
        "",
        "The principals that may do everything, User:NAME, with semicolons between them.",
        check=_known_principals,
    )
    allow_everyone_if_no_acl_found: bool = setting(
        Type.BOOLEAN,
        False,
        "Whether a resource that no ACL names is free for all, instead of for super users.",
    )

    def authorizer(self) -> Authorizer | None:
        """Return a new authorizer without ACLs, None without `authorizer.class.name`."""
        if not self.authorizer_class_name:
            return None
        return Authorizer(_principals(self.super_users), allows_if_no_acl=self.allow_everyone_if_no_acl_found)
