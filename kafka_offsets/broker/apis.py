"""THE table: every API that this broker serves, its versions, who handles it and who answers when it fails."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codec import Decoder


class Route(Enum):
    """Where a request is decided.

    BROKER  handle(core, request, context, now) -> response, or None when the answer comes later
    GROUP   handle(shard, request, context, now) -> Result, on the shard that `request.group_id` hashes to
    """

    BROKER = "broker"
    GROUP = "group"


Fail = Callable[[Any, ErrorCode, int], Any]
"""(request, error, api_version) -> the response that says so."""


@dataclass(frozen=True)
class Api:
    """One row of the table.

    versions   first and last version advertised; those that the schema lacks are advertised only, as Kafka does
    pipelined  whether further requests of the same kind on a connection are decided before this one is answered
    """

    key: int
    name: str
    versions: tuple[int, int]
    route: Route
    handle: Callable[..., Any]
    fail: Fail
    pipelined: bool = False
    _decoders: dict[int, Decoder] = field(default_factory=dict, compare=False)

    @property
    def min_version(self) -> int:
        """The lowest version advertised."""
        return self.versions[0]

    @property
    def max_version(self) -> int:
        """The highest version advertised."""
        return self.versions[1]

    @cached_property
    def request(self) -> type[messages.MessageValue]:
        """The value class of requests."""
        return messages.find(f"{self.name}Request")

    @cached_property
    def response(self) -> type[messages.MessageValue]:
        """The value class of responses."""
        return messages.find(f"{self.name}Response")

    def is_served(self, version: int) -> bool:
        """Whether requests of this version are decoded and answered."""
        return self.versions[0] <= version <= self.versions[1] and version in self.request.SCHEMA.versions

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields (KIP-482)."""
        return version in self.request.SCHEMA.flexible

    def decoder(self, version: int) -> Decoder:
        """Return the compiled decoder of requests of this version."""
        return messages.decoder(self.request, version)


class Apis:
    """The rows by key, in the order of their keys."""

    def __init__(self, rows: Iterable[Api]) -> None:
        self.by_key = {row.key: row for row in sorted(rows, key=lambda row: row.key)}

    def __iter__(self) -> Any:
        return iter(self.by_key.values())
