"""Where Kafka refused all of a request, the answer that follows from the request is Kafka's, but for its message."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol.codecs.schema import Struct
from kafka_offsets.protocol.mirroring.pairs import ERRORS
from tests.cases import each_case
from tests.differential.stories import exchanged, stored

APIS = {row.name: row for row in SERVED}


class Refused(NamedTuple):
    """A request of which Kafka refused all with one error, and its answer."""

    situation: str
    api: str
    version: int
    request: dict[str, Any]
    error: ErrorCode
    answer: dict[str, Any]


def codes(answer: Any) -> Iterator[int]:
    if isinstance(answer, list):
        for each in answer:
            yield from codes(each)
    elif isinstance(answer, dict):
        for name, value in answer.items():
            yield from [value] if name in ERRORS else codes(value)


def refused() -> Iterator[Refused]:
    for situation, events in stored().items():
        waiting = defaultdict(list)
        for client, *event in exchanged(events):
            if len(event) == 2:
                waiting[client].append(event)
            elif isinstance(event[0], dict):
                asked, request = waiting[client].pop(0)
                api, _, version = asked.partition(" v")
                found = set(codes(event[0]))
                if len(found) == 1 and found != {0} and APIS[api].codecs(int(version)):
                    yield Refused(situation, api, int(version), request, ErrorCode(found.pop()), event[0])
            elif event[0] != "waits" and waiting[client]:
                waiting[client].pop(0)


def made(cls: Any, struct: Struct, fields: dict[str, Any]) -> Any:
    """Make a value of what a story writes; topic ids and producer ids are words there."""
    values = dict(fields)
    for field in struct.fields:
        value = values.get(field.name)
        if field.struct is not None and value is not None:
            inner = cls.SIBLINGS[field.struct.name]
            values[field.name] = (
                [made(inner, field.struct, each) for each in value]
                if field.array
                else made(inner, field.struct, value)
            )
    return cls(**values)


def shown(value: Any, struct: Struct, version: int) -> dict[str, Any]:
    """Return the fields of a version, as a story writes them, without Kafka's words."""
    fields = {}
    for field in struct.fields:
        if version not in field.versions or field.name == "error_message":
            continue
        item = getattr(value, field.name)
        if isinstance(item, bytes):
            item = item.hex() if field.type == "uuid" else item.decode("latin-1")
        elif field.struct is not None and item is not None:
            inner, several = field.struct, field.array
            item = [shown(each, inner, version) for each in item] if several else shown(item, inner, version)
        fields[field.name] = item
    return fields


@cache
def refused_by_api() -> dict[str, list[Refused]]:
    """Return what Kafka refused. Not when the module is imported: to read all stories takes more than a second."""
    found: dict[str, list[Refused]] = defaultdict(list)
    for each in refused():
        found[each.api].append(each)
    return found


NEVER_REFUSED = {
    "ApiVersions",
    "ListGroups",
    "CreateDelegationToken",
    "DescribeDelegationToken",
    "ExpireDelegationToken",
    "RenewDelegationToken",
    "SaslAuthenticate",
    "SaslHandshake",
}
"""The APIs of which no story has a request that is refused as a whole; authentication.txt and
delegation_tokens.txt have those of SASL and of tokens."""
HANDLERS = {
    "DescribeGroups": "a group that there is not is Dead",
    "DescribeTopicPartitions": "what the client may do with a topic",
    "Metadata": "the brokers, too",
    "Fetch": "the high watermark, too",
    "Produce": "the log start offset, too",
    "JoinGroup": "the id of a new member, too",
    "ListOffsets": "a partition that is named twice is answered once",
    "CreateTopics": "a topic that is named twice is answered once",
    "DeleteTopics": "a topic that is named twice is answered once",
    "CreatePartitions": "a topic that is named twice is answered once",
    "AddPartitionsToTxn": "a sender that is no broker is refused as a whole",
    "AlterClientQuotas": "entities in the order of a hash table",
}
"""How the answers of Kafka's handlers differ when they refuse for reasons of their own."""


@pytest.mark.slow
@each_case("api", sorted(APIS.keys() - NEVER_REFUSED))
def test_what_follows_from_a_request_is_what_kafka_answered(api: str) -> None:
    row, agreed = APIS[api], 0
    request, response = row.request, row.response
    for each in refused_by_api()[api]:
        asked = made(request, request.SCHEMA.struct, each.request)
        ours = shown(row.fail(asked, each.error, each.version), response.SCHEMA.struct, each.version)
        kafkas = made(response, response.SCHEMA.struct, each.answer)
        is_same = ours == shown(kafkas, response.SCHEMA.struct, each.version)
        assert is_same or api in HANDLERS, f"{each.situation}: {each.answer}, not {ours}"
        agreed += is_same
    assert agreed or api == "DescribeGroups"


@pytest.mark.slow
def test_every_other_api_has_a_refused_request() -> None:
    assert refused_by_api().keys() == APIS.keys() - NEVER_REFUSED


@pytest.mark.slow
def test_kafka_has_refused_a_thousand_requests_so() -> None:
    assert sum(len(found) for api, found in refused_by_api().items() if api not in HANDLERS) > 1000
