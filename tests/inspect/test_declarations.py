"""The declarations in construct read from Kafka's bytes what the codecs read: two judges of the schemas."""

import time
from typing import Any

import pytest

from kafka_offsets.inspect.declarations import (
    UNSIGNED_VARINT,
    VARINT,
    VARLONG,
    InspectError,
    declaration,
    parse,
)
from kafka_offsets.inspect.frame import explain_request
from kafka_offsets.inspect.lines import Line
from kafka_offsets.inspect.message import explain_message
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.schema import Field, Struct
from tests.inspect.explained import BAD_FRAMES, MESSAGES, VECTORS, assert_tiled, json_lines
from tests.slowness import slowness


def plain(parsed: Any, struct: Struct, version: int, flexible: bool) -> dict[str, Any]:
    """What construct parsed, as the values that our codec makes; tagged fields only where they are present."""
    found: dict[str, Any] = {}
    tagged = {f.tag: f for f in struct.fields if version in f.versions and flexible and f.tag is not None}
    for field in struct.fields:
        if version in field.versions and field.tag not in tagged:
            found[field.name] = plain_field(parsed[field.name].value, field, version, flexible)
    unknown = {}
    for item in parsed._tags.value._content if flexible else ():
        tag, content = item.value._tag, item.value._content.value
        if tag in tagged:
            assert content._rest.value == b""
            found[tagged[tag].name] = plain_field(content._known._field.value, tagged[tag], version, flexible)
        else:
            unknown[tag] = content._rest.value
    return found | {"unknown_tags": unknown}


def plain_field(value: Any, field: Field, version: int, flexible: bool) -> Any:
    if field.array:
        items = value._content
        return None if items is None else [plain_one(item.value, field, version, flexible) for item in items]
    if field.struct is not None and version in field.nullable:
        value = value._content
    return plain_one(value, field, version, flexible)


def plain_one(value: Any, field: Field, version: int, flexible: bool) -> Any:
    if value is None:
        return None
    if field.struct is not None:
        return plain(value, field.struct, version, flexible)
    return value._content if field.type in ("string", "bytes", "records") else value


def assert_equal(value: Any, expected: dict[str, Any], struct: Struct) -> None:
    """Compare a value of our codec with what construct made; what construct did not find has its default."""
    assert (value.unknown_tags or {}) == expected["unknown_tags"]
    for field in struct.fields:
        ours = getattr(value, field.name)
        if field.name not in expected:
            assert ours == getattr(type(value)(), field.name), field.name
            continue
        theirs = expected[field.name]
        if field.struct is None or ours is None or theirs is None:
            assert ours == theirs, field.name
            continue
        for our, their in zip(*((ours, theirs) if field.array else ([ours], [theirs])), strict=True):
            assert_equal(our, their, field.struct)


@pytest.mark.parametrize("name", MESSAGES)
def test_construct_and_the_codec_read_the_same_values_from_kafkas_bytes(name: str) -> None:
    cls = messages.find(name)
    schema = cls.SCHEMA
    for case in json_lines(VECTORS / f"{name}.jsonl.gz"):
        version = case["version"]
        data = bytes.fromhex(case["hex"])[2 if schema.kind in ("key", "value") else 0 :]
        parsed, end = parse(declaration(name, version), data, 0, name)
        assert end == len(data), (version, case["case"])
        value, _ = messages.decode(cls, data, version)
        assert_equal(value, plain(parsed, schema.struct, version, version in schema.flexible), schema.struct)
        lines, end = explain_message(name, version, data)
        assert end == len(data)
        assert_tiled(
            [Line(0, len(data), 0, name), *(line._replace(depth=line.depth + 1) for line in lines)], 0, end
        )


@pytest.mark.parametrize(
    ("declared", "hex_", "number"),
    [
        (UNSIGNED_VARINT, "00", 0),
        (UNSIGNED_VARINT, "ac02", 300),
        (UNSIGNED_VARINT, "ffffffff0f", 0xFFFFFFFF),
        (VARINT, "01", -1),
        (VARINT, "ffffffff0f", -0x80000000),
        (VARINT, "feffffff0f", 0x7FFFFFFF),
        (VARLONG, "ffffffffffffffffff01", -(1 << 63)),
        (VARLONG, "8080808080808080c001", 3 << 61),
    ],
)
def test_a_varint_is_read(declared: Any, hex_: str, number: int) -> None:
    assert parse(declared, bytes.fromhex(hex_), 0, "number") == (number, len(hex_) // 2)


@pytest.mark.parametrize(
    ("declared", "hex_"),
    [
        (UNSIGNED_VARINT, "ff" * 100),
        (UNSIGNED_VARINT, "ffffffff10"),
        (VARINT, "80" * 100),
        (VARLONG, "ff" * 100),
    ],
)
def test_a_varint_that_does_not_end_is_an_error_after_as_many_bytes_as_it_may_have(
    declared: Any, hex_: str
) -> None:
    with pytest.raises(InspectError, match=r"a varint of more than (32|64) bits"):
        parse(declared, bytes.fromhex(hex_), 0, "number")


def test_a_version_that_does_not_exist_is_reported_with_those_that_do() -> None:
    with pytest.raises(InspectError, match=r"^OffsetCommitRequest has no version 99, only 0-10$"):
        declaration("OffsetCommitRequest", 99)


@pytest.mark.parametrize("kind", ["array count 2^31-1", "compact array 2^28", "tag count 2^28 in header"])
def test_a_huge_count_is_refused_at_once(kind: str) -> None:
    (frame,) = [
        frame for name, frame in BAD_FRAMES.items() if name.startswith("OffsetCommit") and kind in name
    ]
    before, started = slowness(), time.thread_time()
    with pytest.raises(InspectError, match=r"a count of \d+ with 0 bytes left$"):
        explain_request(bytes.fromhex(frame["hex"]))
    took_s = time.thread_time() - started
    assert took_s < max(before, slowness())


def test_a_huge_count_of_a_large_frame_is_refused_at_once() -> None:
    head = bytes.fromhex("0008000200000001000178000167ffffffff0000ffffffffffffffff7fffffff")
    before, started = slowness(), time.thread_time()
    with pytest.raises(InspectError, match="a count of 2147483647 with 1000000 bytes left"):
        explain_request(head + bytes(1_000_000))
    took_s = time.thread_time() - started
    assert took_s < max(before, slowness())


@pytest.mark.parametrize("name", messages.names())
def test_every_message_there_is_is_explained_in_every_version(name: str) -> None:
    cls = messages.find(name)
    for version in range(cls.SCHEMA.versions.first, cls.SCHEMA.versions.last + 1):
        data = messages.encode(cls(), version)
        lines, end = explain_message(name, version, data)
        assert end == len(data)
        assert_tiled(lines, 0, len(data))
