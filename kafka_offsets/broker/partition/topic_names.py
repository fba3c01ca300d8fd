"""Topic names: the check of new names, with Kafka's error messages. Source: Topic.java of Kafka 4.3."""

import re
from collections.abc import Callable, Iterable

from kafka_offsets.storage.directory.catalogue import LONGEST_TOPIC_NAME

OFFSETS_TOPIC = "__consumer_offsets"
"""The topic of committed offsets and groups."""

TRANSACTIONS_TOPIC = "__transaction_state"
"""The topic of transactional ids and the states of their transactions."""

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


class Collisions:
    """Existing names that collide with new ones: in Kafka two names must not differ only in '.' and '_'.

    The existing names are read when the first name with such a character is checked.
    """

    def __init__(self, existing: Callable[[], Iterable[str]]) -> None:
        self._existing = existing
        self._by_unified: dict[str, str] | None = None

    def find(self, name: str) -> str | None:
        """Return an existing topic that `name` collides with, or None."""
        if "." not in name and "_" not in name:
            return None
        if self._by_unified is None:
            self._by_unified = {other.replace(".", "_"): other for other in self._existing()}
        return self._by_unified.get(name.replace(".", "_"))
