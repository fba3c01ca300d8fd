"""Our schema files say what Kafka's message definitions say, field by field.

The reference is tests/data/messages/kafka-4.3.1.json.gz: all definitions of Apache Kafka 4.3.1 that have a version,
reduced to facts, as one JSON object by name. Where we depart from it on purpose, it is listed here by name.
"""

import gzip
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_offsets import schema_files
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs import schema
from kafka_offsets.protocol.codecs.schema import OPEN, Message, Struct, Versions, parse_versions
from tests.cases import each_case

REFERENCE: dict[str, dict[str, Any]] = json.loads(
    gzip.decompress((Path(__file__).parent.parent / "data" / "messages" / "kafka-4.3.1.json.gz").read_bytes())
)

# Versions that Kafka 4 no longer serves (KIP-896) and we do.
ADDED_VERSIONS = {
    "OffsetCommitRequest": Versions(0, 1),
    "OffsetCommitResponse": Versions(0, 1),
    "OffsetFetchRequest": Versions(0, 0),
    "OffsetFetchResponse": Versions(0, 0),
}

# Fields that stood only in such a version: Kafka's definitions have dropped them with it.
ADDED_FIELDS = {"OffsetCommitRequest": {"topics.partitions.commit_timestamp"}}

KINDS = {
    "request": "request",
    "response": "response",
    "header": "message",
    "data": "message",
    "metadata": "message",
    "coordinator-key": "key",
    "coordinator-value": "value",
}


class Row(NamedTuple):
    """All that a definition says of one field; `path` has the names of the fields around it."""

    path: str
    type: str
    versions: str
    nullable: str
    tag: int | None
    default: object
    ignorable: bool
    inflexible: bool


def range_text(versions: Versions) -> str:
    return str(versions) if versions.first <= versions.last else "none"


ALL_VERSIONS = Versions(0, OPEN)


def our_rows(struct: Struct, around: str = "", versions_around: Versions = ALL_VERSIONS) -> list[Row]:
    rows = []
    for field in struct.fields:
        name = field.type if field.struct is None else field.struct.name
        path = around + field.name
        versions = field.versions & versions_around
        row = Row(
            path=path,
            type="[]" * field.array + name,
            versions=range_text(versions),
            nullable=range_text(field.nullable & versions),
            tag=field.tag,
            default="a struct of defaults" if isinstance(field.default, Struct) else field.default,
            ignorable=field.ignorable,
            inflexible=field.inflexible,
        )
        rows.append(row)
        if field.struct is not None:
            rows += our_rows(field.struct, f"{path}.", versions)
    return rows


def reference_rows(message: dict[str, Any], served: Versions) -> list[Row]:
    structs = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}

    def rows_of(fields: list[dict[str, Any]], around: str, versions_around: Versions) -> list[Row]:
        rows = []
        for field in fields:
            name = field["type"].removeprefix("[]")
            path = around + messages.snake_case(field["name"])
            versions = parse_versions(field["versions"]) & versions_around
            if range_text(versions) == "none":
                continue  # a field of versions that Kafka no longer has
            assert parse_versions(field.get("taggedVersions", field["versions"])) & versions == versions, path
            row = Row(
                path=path,
                type="[]" * field["type"].startswith("[]") + name.removeprefix(message["name"]),
                versions=range_text(versions),
                nullable=range_text(parse_versions(field.get("nullableVersions", "none")) & versions),
                tag=field.get("tag"),
                default=reference_default(field["type"], field.get("default")),
                ignorable=field.get("ignorable", False),
                inflexible=field.get("flexibleVersions") == "none",
            )
            rows.append(row)
            rows += rows_of(field.get("fields", structs.get(name, [])), f"{path}.", versions)
        return rows

    return rows_of(message["fields"], "", served)


def reference_default(type_: str, text: str | None) -> object:
    """The value that Kafka's generator gives a field of this type with this `default`."""
    if text == "null":
        return None
    if type_.startswith("[]"):
        return []
    if type_ == "bool":
        return text == "true"
    if re.fullmatch(r"u?int\d+", type_):
        return int(text or "0", 0)
    if type_ == "float64":
        return float(text or "0")
    known = {"string": text or "", "bytes": b"", "records": b"", "uuid": bytes(16)}
    return known.get(type_, "a struct of defaults")


def ours(name: str) -> Message:
    return messages.find(name).SCHEMA


def test_all_272_of_272_messages_of_kafka_are_declared_and_no_others() -> None:
    assert sorted(messages.names()) == sorted(REFERENCE)
    assert len(REFERENCE) == 272


@each_case("name", messages.names())
def test_every_field_is_declared_as_kafka_declares_it(name: str) -> None:
    message = ours(name)
    added = ADDED_FIELDS.get(name, set())
    rows = [row for row in our_rows(message.struct) if row.path not in added]
    assert rows == reference_rows(REFERENCE[name], message.versions)


@each_case("name", messages.names())
def test_every_message_has_kafkas_number_kind_and_versions(name: str) -> None:
    message, reference = ours(name), REFERENCE[name]
    assert (message.kind, message.number) == (KINDS[reference["type"]], reference.get("apiKey"))
    first, last = parse_versions(reference["validVersions"])
    assert message.versions == Versions(ADDED_VERSIONS[name].first if name in ADDED_VERSIONS else first, last)
    flexible = parse_versions(reference["flexibleVersions"])
    assert message.flexible & message.versions == flexible & message.versions


@pytest.mark.parametrize("name", ADDED_VERSIONS)
def test_what_we_add_is_below_the_versions_of_kafka_and_nowhere_else(name: str) -> None:
    added, kafka = ADDED_VERSIONS[name], parse_versions(REFERENCE[name]["validVersions"])
    assert added.last + 1 == kafka.first
    rows = {row.path: row for row in our_rows(ours(name).struct)}
    known = {row.path for row in reference_rows(REFERENCE[name], ours(name).versions)}
    assert rows.keys() - known == ADDED_FIELDS.get(name, set())
    for path in ADDED_FIELDS.get(name, set()):
        assert range_text(parse_versions(rows[path].versions) & kafka) == "none"


@each_case("file", schema_files.names())
def test_the_head_of_a_schema_file_names_every_version_after_the_first(file: str) -> None:
    declared = schema.parse(schema_files.read(file), f"{file}.schema").values()
    expected = {version for m in declared for version in range(m.versions.first + 1, m.versions.last + 1)}
    for message in declared:
        first_line, *_ = message.text.splitlines() or [""]
        assert len(first_line) > 20, "the head says what it is"
        told = [int(version) for version in re.findall(r"^Version (\d+)\b", message.text, re.MULTILINE)]
        assert told == sorted(told)
        assert expected <= set(told)
