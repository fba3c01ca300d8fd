"""Which names a topic may have, in the words in which Kafka refuses the others. Source: Topic.java of Kafka 4.3."""

import re
from collections.abc import Iterable

LONGEST_TOPIC_NAME = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_topic_name(name: str) -> str | None:
    """Return why Kafka refuses `name` with INVALID_TOPIC_EXCEPTION, or None for a name that it allows."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > LONGEST_TOPIC_NAME:
        reason = f"the length of '{name}' is longer than the max allowed length {LONGEST_TOPIC_NAME}"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {reason}"


def colliding_topic(name: str, existing: Iterable[str]) -> str | None:
    """Return the first of `existing` that Kafka's metrics could not tell from `name`: '.' and '_' are one there."""
    if "." not in name and "_" not in name:
        return None
    unified = name.replace(".", "_")
    return next((other for other in existing if other != name and other.replace(".", "_") == unified), None)
