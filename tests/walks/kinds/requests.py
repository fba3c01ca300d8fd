"""Walks of one API: its requests are drawn from its schema, in any version, on a background of topics, groups and
transactions that come and go.

Every field has a pool of values, known and unknown; lists are empty, null, or name one thing twice.
"""

from functools import partial
from typing import Any

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from tests.walks.kinds import classic, consumer, fetching, offsets, transactions
from tests.walks.kinds.pools import pool
from tests.walks.kinds.shared import client
from tests.walks.plan import REQUESTS, Draw, Make, Step, kind

LEFT_OUT = {"ApiVersions": "advertises the versions of one Kafka; tests/stories has the answers to it"}
"""The APIs of which no request is drawn, with the reason."""

NOT_EMPTY = {
    "Metadata.topics": "no topics are all topics, those of other walks among them",
    "DescribeTopicPartitions.topics": "no topics are all topics",
    "DescribeLogDirs.topics": "no topics are all topics",
    "ElectLeaders.topic_partitions": "no topics are all topics",
    "DescribeUserScramCredentials.users": "no users are all users",
    "DescribeClientQuotas.components": "without components all entities are described",
    "ListConfigResources.resource_types": "no types are all resources",
    "AlterClientQuotas.entity_name": "the default entity is one of all walks",
    "Produce.records": "a request with null records for a partition that exists never gets a response",
    "AddPartitionsToTxn.transactions": "a request without transactions never gets a response",
}
"""The fields that are neither null nor empty, with the reason."""

NOT_TWICE = {
    "AlterConfigs.resources": "a request that names a resource twice never gets a response",
    "JoinGroup.protocols": "a join that names a protocol twice never gets a response",
}
"""The lists that name nothing twice, with the reason."""

OF_A_PRODUCER = "InitProducerId", "EndTxn"
"""Their answers are of the producer that the fields of other requests name."""

NULL, EMPTY, ODD, TWICE = 0.15, 0.07, 0.15, 0.15
"""How often a value that may be null is, how often a list is empty, how often a value is odd, and an item twice."""


def naming(item: Any) -> Any:
    """Return what an item of a list is about: its fields up to what is said of it."""
    return tuple(item.values())[:-1] if isinstance(item, dict) else item


class Drawing:
    """One request in the making."""

    def __init__(self, draw: Draw, api: str, version: int, of: str) -> None:
        self.draw = draw
        self.api = api
        self.version = version
        self.of = of

    def struct(self, struct: Struct) -> dict[str, Any]:
        return {
            field.name: self.field(struct, field) for field in struct.fields if self.version in field.versions
        }

    def field(self, struct: Struct, field: Field) -> Any:
        must = f"{self.api}.{field.name}" in NOT_EMPTY
        if self.version in field.nullable and not must and self.draw.random() < NULL:
            return None
        if not field.array:
            return self.item(struct, field)
        count = self.draw.usually(1, 2, 3, odds=0.6)
        if not must and self.draw.random() < EMPTY:
            count = 0
        items = [self.item(struct, field) for _ in range(count)]
        if f"{self.api}.{field.name}" in NOT_TWICE:
            return [*{naming(item): item for item in items}.values()]
        return self.doubled(items)

    def doubled(self, items: list[Any]) -> list[Any]:
        """Name something twice: the same item, or another one that begins alike."""
        if not items or self.draw.random() >= TWICE:
            return items
        first, last = self.draw.one(*items), items[-1]
        if isinstance(first, dict) and self.draw.random() < 0.5:
            name = next(iter(first))
            return [*items, last | {name: first[name]}]
        return [*items, first]

    def item(self, struct: Struct, field: Field) -> Any:
        if field.struct is not None:
            return self.struct(field.struct)
        usual, odd = pool(self.api, struct.name, field)
        value = self.draw.one(*(odd if odd and self.draw.random() < ODD else usual))
        return value.replace("{of}", self.of) if isinstance(value, str) else value


def request(api: str, draw: Draw) -> list[Step]:
    """Return any request of an API."""
    of = "x" if api in OF_A_PRODUCER else client(draw)
    version = draw.version(api)
    struct = messages.find(f"{api}Request").SCHEMA.struct
    return [Step(of, of, api, version, Drawing(draw, api, version, of).struct(struct))]


GROUPS: tuple[Make, ...] = (offsets.committed, classic.enter, consumer.enter)
BACKGROUND: tuple[Make, ...] = (
    fetching.produce,
    fetching.open_session,
    fetching.delete_records,
    offsets.committed,
    classic.sync,
    consumer.reconcile,
    transactions.init,
    transactions.whole,
)


def begin(draw: Draw) -> list[Step]:
    """Make topics with records, a group, and a producer."""
    group = draw.one(*GROUPS)
    fields = {"transactional_id": "@x", "transaction_timeout_ms": 60_000}
    producer = Step("x", "x", "InitProducerId", 4, fields)
    return [*fetching.begin(draw), *group(draw), producer, *fetching.produce(draw)]


def background(draw: Draw) -> list[Step]:
    return draw.one(*BACKGROUND)(draw)


for row in SERVED:
    if row.name not in LEFT_OUT:
        make = partial(request, row.name)
        kind(f"{REQUESTS}{row.name}", begin, {make: 3, background: 1}, (5, 9))
