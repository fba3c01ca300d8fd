"""Secret: a value that logs, errors and representations must not show."""

from __future__ import annotations

from typing import final

HIDDEN = "[hidden]"
"""What is shown in its place, as Kafka's Password does."""


@final
class Secret:
    """A password, a key or a token; `value` is the only way to read it."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)
