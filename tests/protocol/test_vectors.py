"""Every message, version and case that Kafka's own encoder produced: equal bytes, equal values, both ways."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from tests.cases import each_case

VECTORS = Path(__file__).parent.parent / "data" / "vectors"
MESSAGES = sorted(path.name.removesuffix(".jsonl.gz") for path in VECTORS.glob("*.jsonl.gz"))

# The records of the controller's metadata log: the vectors are of all other messages.
WITHOUT_VECTORS = {
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "ZkMigrationStateRecord",
}


def cases(message: str) -> list[dict[str, Any]]:
    with gzip.open(VECTORS / f"{message}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def body(case: dict[str, Any], kind: str) -> bytes:
    """The bytes of a case without the int16 that keys and values carry in the log."""
    data = bytes.fromhex(case["hex"])
    return data[2:] if kind in ("key", "value") else data


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def as_json(value: Any, struct: Struct, version: int, flexible: bool) -> dict[str, Any]:
    """What Kafka's JSON converter prints of a struct, from our value of it."""
    printed = {}
    for field in struct.fields:
        content = getattr(value, field.name)
        if version not in field.versions or field.type == "records":
            continue  # the converters leave records empty: only the bytes judge them
        if field.tag is not None and flexible and content == getattr(type(value)(), field.name):
            continue
        printed[camel_case(field.name)] = field_json(content, field, version, flexible)
    return printed


def field_json(content: Any, field: Field, version: int, flexible: bool) -> Any:
    if content is None:
        return None
    if field.array:
        return [scalar_json(item, field, version, flexible) for item in content]
    return scalar_json(content, field, version, flexible)


def scalar_json(content: Any, field: Field, version: int, flexible: bool) -> Any:
    if field.struct is not None:
        return as_json(content, field.struct, version, flexible)
    if field.type == "uuid":
        return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
    if field.type == "bytes":
        return base64.b64encode(content).decode()
    return content


def without_records(printed: Any, struct: Struct | None) -> Any:
    """Kafka's JSON without the fields of type `records`."""
    if isinstance(printed, list):
        return [without_records(item, struct) for item in printed]
    if not isinstance(printed, dict) or struct is None:
        return printed
    fields = {camel_case(field.name): field for field in struct.fields}
    hidden = {name for name, field in fields.items() if field.type == "records"}
    hidden |= {f"{name}SizeInBytes" for name in hidden}
    return {
        name: inner if fields[name].struct is None else without_records(inner, fields[name].struct)
        for name, inner in printed.items()
        if name not in hidden
    }


def unknown_tags(value: Any, struct: Struct, path: str = "") -> dict[tuple[str, int], str]:
    """All unknown tagged fields below a value, by JSON pointer and tag."""
    found = {(path, tag): data.hex() for tag, data in (value.unknown_tags or {}).items()}
    for field in struct.fields:
        inner = getattr(value, field.name)
        if field.struct is None or inner is None:
            continue
        place = f"{path}/{camel_case(field.name)}"
        items = [(f"{place}/{i}", item) for i, item in enumerate(inner)] if field.array else [(place, inner)]
        for at, item in items:
            found |= unknown_tags(item, field.struct, at)
    return found


@pytest.mark.slow
@each_case("name", MESSAGES)
def test_every_case_decodes_to_kafkas_values_and_encodes_to_kafkas_bytes(name: str) -> None:
    cls = messages.find(name)
    seen = set()
    for case in cases(name):
        version = case["version"]
        seen.add(version)
        data = body(case, cls.SCHEMA.kind)
        value, end = messages.decode(cls, data, version)
        assert end == len(data), case["case"]
        assert messages.encode(value, version) == data, case["case"]
        flexible = version in cls.SCHEMA.flexible
        expected = without_records(case["json"], cls.SCHEMA.struct)
        printed = as_json(value, cls.SCHEMA.struct, version, flexible)
        assert printed == expected, (version, case["case"])
        tags = {(tag["path"], tag["tag"]): tag["hex"] for tag in case.get("unknownTaggedFields", ())}
        assert unknown_tags(value, cls.SCHEMA.struct) == tags
    assert seen, name


def test_246_of_272_messages_have_vectors_4932_in_all() -> None:
    assert set(MESSAGES) | WITHOUT_VECTORS == set(messages.names())
    assert not set(MESSAGES) & WITHOUT_VECTORS
    assert (len(MESSAGES), len(WITHOUT_VECTORS)) == (246, 26)
    assert sum(len(cases(name)) for name in MESSAGES) == 4932


def test_the_vectors_cover_every_version_that_kafka_defines() -> None:
    for name in MESSAGES:
        versions = messages.find(name).SCHEMA.versions
        seen = {case["version"] for case in cases(name)}
        added = (
            {0, 1}
            if name.startswith("OffsetCommitRe")
            else {0}
            if name.startswith("OffsetFetchRe")
            else set()
        )
        assert seen | added == set(range(versions.first, versions.last + 1)), name


METADATA_LOG = Path(__file__).parent.parent / "data" / "metadata_log.jsonl.gz"


def test_the_metadata_log_of_a_real_broker_reads_as_kafkas_dump_shows_it() -> None:
    """What one node of Kafka 4.3.1 wrote of topics, SCRAM and producer ids, and what kafka-dump-log says it is."""
    with gzip.open(METADATA_LOG, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        cls, version, data = messages.find(line["message"]), line["version"], bytes.fromhex(line["hex"])
        start = 3  # varints below 128: the frame's version, the record's type and version
        assert data[:start] == bytes([1, cls.SCHEMA.number or 0, version])
        value, end = messages.decode(cls, data, version, start)
        assert end == len(data)
        assert messages.encode(value, version) == data[start:]
        assert as_json(value, cls.SCHEMA.struct, version, flexible=True) == line["json"]
    assert len({line["message"] for line in lines}) == 14
