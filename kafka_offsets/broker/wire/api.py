"""An API of the table: its versions and codecs, and its handler."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

from kafka_offsets.broker.wire.rights import Rights
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext, Result
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.codec import Decoder, Encoder
from kafka_offsets.protocol.codecs.plain_rows import Rows
from kafka_offsets.protocol.connection import Aside, Parts
from kafka_offsets.protocol.mirroring.echo import compile_echo
from kafka_offsets.protocol.mirroring.named import Named, named_by
from kafka_offsets.protocol.mirroring.refusals import refuse

if TYPE_CHECKING:
    from kafka_offsets.coordinator.shard import Shard


class Later(Enum):
    """The result of a handler whose response comes later."""

    LATER = "later"


LATER = Later.LATER

Response = messages.MessageValue | bytes | bytearray | Parts
"""A message, or the bytes of one. Of an API that is `echoed` also the request, which means that all of it succeeded."""

ENCODED = (bytes, bytearray, Parts)

Handle = Callable[..., Response | Later]
"""(broker, request, context, now) -> the response; that of Fetch takes what else refuses partitions."""


class Addresses(Enum):
    """The part of a cluster that a request is addressed to.

    GROUP        the coordinator of one group
    GROUPS       the coordinators of several groups, each answered by itself
    TRANSACTION  the coordinator of a transactional id, or of several
    PARTITIONS   the leaders of partitions, each answered by itself
    BROKER       any broker
    """

    GROUP = "group"
    GROUPS = "groups"
    TRANSACTION = "transaction"
    PARTITIONS = "partitions"
    BROKER = "broker"


GROUP, GROUPS = Addresses.GROUP, Addresses.GROUPS
TRANSACTION, PARTITIONS = Addresses.TRANSACTION, Addresses.PARTITIONS

Fail = Callable[[Any, ErrorCode, int], messages.MessageValue]
"""(request, error, api_version) -> the response that reports the error."""


TakeAsides = Callable[[Any], list[Aside]]
"""response -> the large bytes in it, in their order; an `Aside` then replaces each of them in the response."""


class Codecs(NamedTuple):
    """The codec of one version of an API.

    decode                      (frame, position of the request) -> (request, end)
    encode                      (response, bytearray that grows)
    echo                        (request, bytearray that grows): the response that only repeats the request; of an API
                                that is not `echoed` the same as `encode`
    asides                      as in the `Api`
    has_tagged_request_header   and of the response: header v2, header v1 (KIP-482)
    """

    decode: Decoder
    encode: Encoder
    echo: Encoder
    has_tagged_request_header: bool
    has_tagged_response_header: bool
    asides: TakeAsides | None = None


class Shortcut(Protocol):
    """Decides requests of an API by their bytes alone, because they are like earlier ones; any other is decoded."""

    def serves(self, connection: Any) -> bool:
        """Whether the requests of a connection may be decided here."""
        ...

    def decide(self, context: RequestContext, frame: bytes, body: int, now: Now) -> bool | None:
        """Decide a request; return False, with no effect, if it must be decoded, and None if it is refused.

        frame, body  the request without its size, and the position after its header
        """
        ...

    def learn(self, context: RequestContext, response: Response | Later, frame: bytes, body: int) -> None:
        """Record a request that was decoded and decided."""
        ...


class GroupRequest(Protocol):
    """A request for one group."""

    group_id: str


ShardHandle = Callable[["Shard", Any, RequestContext, Now], Result]
"""(shard, request, context, now) -> the records and replies of a request that one shard decides."""


@dataclass(frozen=True)
class Api:
    """One API of the table.

    rights     what its sender must be allowed to do before it is decided; its handler may ask for more
    versions   first and last version advertised; those that the schema lacks are advertised only, as in Kafka
    addresses  the part of a cluster that clients send it to; the names are in `named`
    fail       the response that refuses a request; for most APIs the derived one
    forwarded  whether a broker of a cluster may pass it on to the coordinator of its groups, by `offsets.forward`
    decided_by_controller  whether only the controller of a cluster decides it
    has_leader_epochs      whether it gives the leader epoch that the client knows of each partition (KIP-320), which
                           then counts before a wrong leader; Fetch compares it by itself
    pipelined  whether further requests of the same kind on a connection are decided before this one is answered
    echoed     whether a handler may return the request itself, which means that all of it succeeded
    asides     takes out of a response what is too large to be copied; None where nothing is
    is_between_brokers  whether only brokers send it: it is not advertised
    shortcut   broker -> what decides requests without `handle`; None where each is decoded
    end_wait   (broker, connection, now): called when a request arrives behind one of this API that waits
    """

    key: int
    name: str
    versions: tuple[int, int]
    handle: Handle
    rights: Rights
    fail: Fail = refuse
    addresses: Addresses = Addresses.BROKER
    forwarded: bool = False
    decided_by_controller: bool = False
    has_leader_epochs: bool = False
    pipelined: bool = False
    echoed: bool = False
    asides: TakeAsides | None = None
    is_between_brokers: bool = False
    shortcut: Callable[[Any], Shortcut] | None = None
    end_wait: Callable[[Any, Any, Now], None] | None = None

    def handled_by(self, handle: Handle) -> Api:
        """Return the API with another handler, which sees every request: no shortcut avoids it."""
        return replace(self, handle=handle, shortcut=None)

    @property
    def min_version(self) -> int:
        """The lowest version advertised."""
        return self.versions[0]

    @property
    def max_version(self) -> int:
        """The highest version advertised."""
        return self.versions[1]

    @property
    def served_versions(self) -> list[int]:
        """The versions that are both advertised and in the schema."""
        return [version for version in range(self.versions[0], self.versions[1] + 1) if self._serves(version)]

    def _serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version and version in self.request.SCHEMA.versions

    def named(self, version: int) -> Named:
        """Return where requests of a version name groups, transactions and partitions, and where their responses do."""
        return named_by(self.name, version)

    @cached_property
    def request(self) -> type[messages.MessageValue]:
        """The value class of requests."""
        return messages.find(f"{self.name}Request")

    @cached_property
    def response(self) -> type[messages.MessageValue]:
        """The value class of responses."""
        return messages.find(f"{self.name}Response")

    @cached_property
    def _codecs(self) -> dict[int, Codecs | None]:
        return {}

    def codecs(self, version: int) -> Codecs | None:
        """Return the codec of a version; None when the version is not served."""
        try:
            return self._codecs[version]
        except KeyError:
            made = self._codecs[version] = self._make_codecs(version)
            return made

    def _make_codecs(self, version: int) -> Codecs | None:
        schema = self.request.SCHEMA
        if not self._serves(version):
            return None
        flexible = version in schema.flexible
        encode = messages.encoder(self.response, version)
        echo = encode
        if self.echoed:
            echo = compile_echo(schema, self.response.SCHEMA, version, self.response.CLASSES)
        return Codecs(
            messages.decoder(self.request, version),
            encode,
            echo,
            flexible,
            flexible and self.key != API_VERSIONS,
            self.asides,
        )


API_VERSIONS = 18
"""The one API that is answered in any version, and whose response header never has tagged fields (KIP-511)."""


_VERSION = struct.Struct(">h")


class Apis:
    """The APIs by key, in the order of their keys."""

    def __init__(self, apis: Iterable[Api]) -> None:
        self.by_key = {api.key: api for api in sorted(apis, key=lambda api: api.key)}
        self._encoded: dict[bytes, bytearray] = {}

    def encoded_versions(self, element: bytes, slots: dict[str, int]) -> bytearray:
        """Return the elements of an ApiVersionsResponse, made once: this table does not change."""
        encoded = self._encoded.get(element)
        if encoded is None:
            encoded = self._encoded[element] = bytearray()
            for api in self.advertised:
                one = bytearray(element)
                _VERSION.pack_into(one, slots["api_key"], api.key)
                _VERSION.pack_into(one, slots["min_version"], api.min_version)
                _VERSION.pack_into(one, slots["max_version"], api.max_version)
                encoded += one
        return encoded

    def __iter__(self) -> Iterator[Api]:
        return iter(self.by_key.values())

    @property
    def advertised(self) -> list[Api]:
        """The APIs that ApiVersions lists."""
        return [api for api in self if not api.is_between_brokers]


@final
class AdvertisedApis(Rows):
    """The APIs of a table, as an ApiVersionsResponse lists them."""

    __slots__ = ("_apis",)

    def __init__(self, apis: Apis) -> None:
        super().__init__()
        self._apis = apis

    def mirrored(self, element: bytes, slots: dict[str, int]) -> bytearray:
        """Return the elements, which are encoded once."""
        return self._apis.encoded_versions(element, slots)

    def _made(self) -> list[messages.ApiVersionsResponse.ApiVersion]:
        made = messages.ApiVersionsResponse.ApiVersion
        return [made(api.key, api.min_version, api.max_version) for api in self._apis.advertised]

    def __len__(self) -> int:
        return len(self._apis.advertised)
