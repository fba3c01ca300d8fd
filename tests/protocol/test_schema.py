"""Schema text: what it says, and what it may not say."""

import pytest

from kafka_offsets.protocol.codecs.schema import (
    NO_VERSIONS,
    OPEN,
    SchemaError,
    Versions,
    parse,
    parse_versions,
)

TEXT = """\
# Commits things.
#
# Version 1 adds the flag.
api 900 Thing  versions 0-3  flexible 2+
request
  name      string?2+  # null: every thing
  sizes     []int32
  key       bytes      secret
  parts     []Part     1+
    id      uuid
    flag    bool       3+  ignorable  = true
  note      string     2+  tag 0  = "x"
response
  error     int16      = -1
"""


def test_a_schema_file_gives_a_request_and_a_response() -> None:
    messages = parse(TEXT)
    assert list(messages) == ["ThingRequest", "ThingResponse"]
    request = messages["ThingRequest"]
    assert (request.number, request.kind) == (900, "request")
    assert (request.versions, request.flexible) == (Versions(0, 3), Versions(2, OPEN))
    assert request.text == "Commits things.\n\nVersion 1 adds the flag."


def test_free_standing_messages_may_have_a_number() -> None:
    heads = [
        "message Numbered  number 27  versions 0  flexible 0+",
        "message Plain  versions 0-1  flexible none",
    ]
    numbered, plain = parse("\n".join([*heads, "  name  string\n"])).values()
    assert (numbered.name, numbered.number, numbered.kind) == ("Numbered", 27, "message")
    assert (numbered.versions, numbered.flexible, numbered.struct.fields) == (
        Versions(0, 0),
        Versions(0, OPEN),
        [],
    )
    assert (plain.name, plain.number, plain.kind) == ("Plain", None, "message")


@pytest.mark.parametrize("head", ["number twelve", "number"])
def test_a_malformed_number_is_an_error(head: str) -> None:
    with pytest.raises(SchemaError, match="line 1"):
        parse(f"message Thing  {head}  versions 0  flexible none\n")


def test_fields_have_the_versions_of_the_struct_around_them() -> None:
    name, sizes, key, parts, note = parse(TEXT)["ThingRequest"].struct.fields
    assert (name.type, name.nullable, name.meaning) == ("string", Versions(2, OPEN), "null: every thing")
    assert (sizes.array, sizes.type, sizes.default) == (True, "int32", [])
    assert (note.tag, note.default, note.versions) == (0, "x", Versions(2, 3))
    assert (key.secret, sizes.secret) == (True, False)
    assert parts.struct is not None
    part_id, flag = parts.struct.fields
    assert part_id.versions == Versions(1, 3)
    assert (flag.versions, flag.ignorable, flag.default) == (Versions(3, 3), True, True)


@pytest.mark.parametrize(
    ("text", "versions"),
    [("3", Versions(3, 3)), ("0-7", Versions(0, 7)), ("6+", Versions(6, OPEN)), ("none", NO_VERSIONS)],
)
def test_version_ranges_read_as_they_are_written(text: str, versions: Versions) -> None:
    assert parse_versions(text) == versions
    assert str(versions) == text


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("  size  []", "line 3"),
        ("  size", "line 3"),
        ("      size  int32", "indentation"),
        ("  size  int32  one", "line 3"),
        ("  size  int32  0+  1+", "not expected"),
        ("  part  Part", "no fields"),
    ],
)
def test_a_mistake_in_a_schema_names_file_and_line(line: str, problem: str) -> None:
    text = f"message Thing  versions 0  flexible none\n  name  string\n{line}\n"
    with pytest.raises(SchemaError, match=r"thing\.schema, line") as caught:
        parse(text, "thing.schema")
    assert problem in str(caught.value)
