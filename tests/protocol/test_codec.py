"""The compiled codecs: bounds, refusals, tagged fields.

Equality with Kafka's bytes: test_vectors.py. Laws that hold for every message: tests/properties/test_codecs.py.
"""

import ast
import copy
import pickle
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs import codec, flexible
from kafka_offsets.protocol.messages import MessageValue
from tests.protocol.stub import stub


@pytest.mark.parametrize("count", [2**31 - 1, 2**28, 5, -2])
def test_an_array_count_beyond_the_bytes_left_is_refused_without_allocating(count: int) -> None:
    buffer = struct.pack(">hihhqi", 1, -1, 0, 0, -1, count)[:-4] + struct.pack(">i", count)
    body = struct.pack(">h", 1) + b"g" + struct.pack(">ih", -1, 0) + struct.pack(">qi", -1, count) + bytes(4)
    tracemalloc.start()
    try:
        for attempt in (buffer, body):
            with pytest.raises(ProtocolError):
                messages.decode(messages.OffsetCommitRequest, attempt, 2)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_an_announced_number_of_tagged_fields_beyond_the_bytes_left_is_refused() -> None:
    body = messages.encode(messages.HeartbeatRequest("g", 1, "m"), 4)
    assert body[-1] == 0
    with pytest.raises(ProtocolError, match="more tagged fields"):
        messages.decode(messages.HeartbeatRequest, body[:-1] + flexible.encode_uvarint(2**28) + bytes(8), 4)


def test_no_tagged_fields_written_in_two_bytes_are_no_tagged_fields() -> None:
    body = messages.encode(messages.HeartbeatRequest("g", 1, "m"), 4)
    request, end = messages.decode(messages.HeartbeatRequest, body[:-1] + b"\x80\x00", 4)
    assert request == messages.HeartbeatRequest("g", 1, "m")
    assert end == len(body) + 1


@pytest.mark.parametrize("size", [0, 126, 127, 128, 16382, 16383, 16384, 100_000])
def test_compact_lengths_around_the_sizes_of_their_varints_round_trip(size: int) -> None:
    answer = messages.SyncGroupResponse(assignment=b"x" * size)
    for _ in range(2):  # the second time, short lengths are known
        data = messages.encode(answer, 5)
        assert messages.decode(messages.SyncGroupResponse, data, 5) == (answer, len(data))


def test_a_null_where_none_is_allowed_is_refused_by_name() -> None:
    with pytest.raises(ProtocolError, match="HeartbeatRequest v0: group_id is null at byte 2"):
        messages.decode(messages.HeartbeatRequest, b"\xff\xff" + bytes(20), 0)


@pytest.mark.parametrize(
    ("version", "data"), [(0, b"\x00\x03g\xffh" + bytes(8)), (4, b"\x04g\xffh" + bytes(4) + b"\1\0\0")]
)
def test_bytes_of_a_string_that_are_not_utf_8_are_replaced(version: int, data: bytes) -> None:
    """Kafka decodes strings as Java does. Some clients send names in Latin-1, and get an answer from Kafka."""
    assert messages.decode(messages.HeartbeatRequest, data, version)[0].group_id == "g\ufffdh"


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\xff\x01", b"\x80\x80\x80\x80\x10"]
)
def test_a_varint_of_more_than_32_bits_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="32 bits"):
        flexible.uvarint(data, 1, data[0])


@given(st.integers(0, 2**32 - 1))
def test_varints_round_trip(value: int) -> None:
    data = flexible.encode_uvarint(value)
    if value < 128:
        assert data == bytes([value])
    else:
        assert flexible.uvarint(data, 1, data[0]) == (value, len(data))


@pytest.mark.parametrize("size", [0, 126, 127, 16382, 16383])
def test_nullable_bytes_are_read_by_a_call_as_in_place(size: int) -> None:
    # No message of Kafka 4.3 has such a field among so many that they are read by calls.
    data = flexible.encode_uvarint(size + 1) + bytes(size)
    assert flexible.nullable_octets(data + b"\x00", 0, "field") == (bytes(size), len(data))
    assert flexible.nullable_octets(b"\x00\x00", 0, "field") == (None, 1)


def test_a_value_that_the_version_cannot_carry_is_not_dropped_silently() -> None:
    request = messages.OffsetFetchRequest("g", require_stable=True)
    with pytest.raises(ValueError, match="OffsetFetchRequest v6 cannot carry require_stable"):
        messages.encode(request, 6)


def test_a_value_that_does_not_fit_its_type_is_refused() -> None:
    with pytest.raises(ValueError, match="HeartbeatRequest v0"):
        messages.encode(messages.HeartbeatRequest("g", 2**31, "m"), 0)
    with pytest.raises(ValueError, match="HeartbeatRequest v0"):
        messages.encode(messages.HeartbeatRequest("g" * 32768, 1, "m"), 0)


def test_an_unknown_message_or_version_is_an_error_of_the_caller() -> None:
    with pytest.raises(AttributeError, match="NoSuchRequest"):
        messages.find("NoSuchRequest")
    with pytest.raises(ValueError, match="no version 11"):
        messages.encode(messages.OffsetCommitRequest(), 11)


def test_values_are_compared_field_by_field_and_print_their_fields() -> None:
    one, two = messages.HeartbeatRequest("g", 1, "m"), messages.HeartbeatRequest("g", 1, "m")
    assert one == two
    two.generation_id = 2
    assert one != two
    assert one != "g"
    assert (
        repr(one) == "HeartbeatRequest(group_id='g', generation_id=1, member_id='m', group_instance_id=None)"
    )
    assert repr(messages.DeleteTopicsResponse.DeletableTopicResult("t")).startswith(
        "DeleteTopicsResponse.DeletableTopicResult(name='t', "
    )


SECRET = b"not for the eyes of others"


@pytest.mark.parametrize(
    "value",
    [
        messages.SaslAuthenticateRequest(SECRET),
        messages.SaslAuthenticateResponse(auth_bytes=SECRET),
        messages.AlterUserScramCredentialsRequest.ScramCredentialUpsertion("u", 1, 4096, b"", SECRET),
        messages.CreateDelegationTokenResponse(hmac=SECRET),
        messages.RenewDelegationTokenRequest(SECRET),
        messages.ExpireDelegationTokenRequest(SECRET),
        messages.DescribeDelegationTokenResponse.DescribedDelegationToken(hmac=SECRET),
        messages.UserScramCredentialRecord("u", 1, b"", SECRET, SECRET),
    ],
)
def test_the_representation_of_a_value_hides_its_secrets(value: object) -> None:
    assert "[hidden]" in repr(value) and "eyes" not in repr(value)


def test_an_empty_secret_is_shown_as_empty() -> None:
    assert "hmac=b''" in repr(messages.CreateDelegationTokenResponse())


def test_arrays_are_not_shared_between_values() -> None:
    one, two = messages.OffsetCommitRequest(), messages.OffsetCommitRequest()
    one.topics.append(messages.OffsetCommitRequest.Topic("t"))
    assert two.topics == []
    assert isinstance(one, MessageValue)


def test_the_type_stub_is_what_the_schemas_give() -> None:
    path = Path(messages.__file__).with_suffix(".pyi")
    assert path.read_text(encoding="utf-8") == stub(), "run: make stub"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["decode", "encode"])
def test_little_text_is_compiled_for_a_message(kind: str) -> None:
    # Compiling takes most of a message's first use, which shall stay under 2 ms (benchmarks/codecs.py measures it), and
    # takes about 0.5 us for each node of the syntax tree.
    for name in messages.names():
        cls = messages.find(name)
        for version in range(cls.SCHEMA.versions.first, cls.SCHEMA.versions.last + 1):
            text = codec.source(cls.SCHEMA, version, cls.CLASSES, kind)
            at_once = text.split("\n\n")[0]  # tagged fields are compiled when they occur
            assert sum(1 for _ in ast.walk(ast.parse(at_once))) < 1400, f"{name} v{version}"


@pytest.mark.parametrize(
    "name", ["OffsetCommitRequest", "OffsetFetchResponse", "FetchResponse", "MetadataResponse"]
)
def test_messages_that_are_sent_often_are_read_in_one_function(name: str) -> None:
    cls = messages.find(name)
    at_once = codec.source(cls.SCHEMA, cls.SCHEMA.versions.last, cls.CLASSES, "decode").split("\n\n")[0]
    assert at_once.count("def ") == 1


def test_a_constructor_is_compiled_when_it_is_first_called() -> None:
    code = (
        "from kafka_offsets.protocol import messages\n"
        "cls = messages.HeartbeatRequest\n"
        "decoded = messages.decode(cls, b'\\0\\1g' + bytes(6), 0)[0]\n"
        "assert '__init__' not in vars(cls)\n"
        "class Mine(cls): pass\n"
        "assert Mine('g', member_id='').group_id == 'g'\n"
        "assert cls('g', 0, '') == decoded\n"
        "assert '__init__' in vars(cls) and '__init__' not in vars(Mine)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_tagged_fields_are_a_mapping_of_few_bytes() -> None:
    request = messages.HeartbeatRequest("g", 1, "m", unknown_tags={300: b"", 7: b"abc"})
    data = messages.encode(request, 4)
    decoded, _ = messages.decode(messages.HeartbeatRequest, data, 4)
    tags = decoded.unknown_tags
    assert tags is not None
    assert tags == {7: b"abc", 300: b""} == dict(tags)
    assert (tags[7], list(tags), len(tags), 8 in tags) == (b"abc", [7, 300], 2, False)
    assert repr(tags) == "{7: b'abc', 300: b''}"
    assert decoded == request
    assert messages.encode(decoded, 4) == data
    assert copy.deepcopy(tags) == tags == pickle.loads(pickle.dumps(tags))
    assert sys.getsizeof(tags) + sys.getsizeof(tags.section) < 100  # type: ignore[attr-defined]


def test_unknown_tagged_fields_out_of_order_are_put_in_order_and_the_last_of_a_number_counts() -> None:
    body = messages.encode(messages.HeartbeatRequest("g", 1, "m"), 4)[:-1]
    request, _ = messages.decode(
        messages.HeartbeatRequest, body + bytes.fromhex("03 09 01 61 07 00 09 01 62"), 4
    )
    assert request.unknown_tags == {7: b"", 9: b"b"}
    assert messages.encode(request, 4) == body + bytes.fromhex("02 07 00 09 01 62")


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_string_that_ends_after_the_message_is_refused(cut: int) -> None:
    plain = messages.encode(messages.HeartbeatRequest("group", 1, "member"), 0)
    with pytest.raises(
        ProtocolError, match="HeartbeatRequest v0: a field extends past the end of the message"
    ):
        messages.decode(messages.HeartbeatRequest, plain[:-cut], 0)
    flexible = messages.encode(messages.HeartbeatRequest("group", 1, "member"), 3)
    with pytest.raises(
        ProtocolError, match="HeartbeatRequest v3: a field extends past the end of the message"
    ):
        messages.decode(messages.HeartbeatRequest, flexible[: -cut - 2], 3)


def test_an_array_of_strings_that_end_after_the_message_is_refused_with_the_byte() -> None:
    with pytest.raises(ProtocolError, match="groups_names extends past the end of the message at byte 10"):
        messages.decode(messages.DeleteGroupsRequest, b"\x02\x09abc\x00", 2)


def test_importing_the_broker_reads_no_schema() -> None:
    code = (
        "from kafka_offsets import schema_files\n"
        "schema_files.read = None\n"
        "from kafka_offsets.protocol import messages\n"
        "import kafka_offsets.broker.network.server\n"
        "assert not messages._loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
