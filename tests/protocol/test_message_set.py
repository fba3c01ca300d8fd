"""Messages of formats 0 and 1: offsets inside wrappers, refusals. (Kafka's own bytes: test_record_vectors.py.)"""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import message_set
from kafka_offsets.protocol.compression import Compression, compress
from kafka_offsets.protocol.records import Record, read_records
from tests.cases import each_case

LEGACY_CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
EACH_CODEC = pytest.mark.parametrize("codec", LEGACY_CODECS)


def sized(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content


def message(
    offset: int,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = 1000,
    key: bytes | None = None,
) -> bytes:
    checked = struct.pack(">bb", magic, attributes)
    if magic == 1:
        checked += struct.pack(">q", timestamp)
    checked += sized(key) + sized(value)
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def wrapper(offset: int, inside: bytes, codec: Compression, *, magic: int = 1, attributes: int = 0) -> bytes:
    return message(offset, compress(codec, inside), magic=magic, attributes=codec | attributes, timestamp=77)


def test_a_plain_message_is_one_record() -> None:
    buffer = b"xx" + message(5, b"value", key=b"key") + b"yy"
    assert read_records(buffer, 2) == [Record(5, 1000, b"key", b"value")]
    assert read_records(bytearray(buffer), 2) == [Record(5, 1000, b"key", b"value")]
    header = message_set.read_message_header(buffer, 2)
    message_set.verify_message_crc(buffer, 2, header)
    with pytest.raises(ProtocolError, match="CRC"):
        message_set.verify_message_crc(buffer, 2, header._replace(crc=header.crc ^ 1))


@EACH_CODEC
def test_offsets_inside_format_1_end_at_the_wrappers(codec: Compression) -> None:
    inside = message(0, b"a") + message(2, b"b") + message(3, None)
    read = read_records(wrapper(103, inside, codec))
    assert [(record.offset, record.value) for record in read] == [(100, b"a"), (102, b"b"), (103, None)]
    # a cleaned wrapper: the first message inside is not the one of offset 0
    read = read_records(wrapper(103, message(2, b"b") + message(3, b"c"), codec))
    assert [record.offset for record in read] == [102, 103]


def test_a_wrapper_at_offset_0_has_the_offsets_inside_as_librdkafka_once_sent_them() -> None:
    read = read_records(wrapper(0, message(0, b"a") + message(1, b"b"), Compression.GZIP))
    assert [record.offset for record in read] == [0, 1]


def test_offsets_inside_format_0_are_their_own() -> None:
    inside = message(7, b"a", magic=0) + message(9, b"b", magic=0)
    read = read_records(wrapper(9, inside, Compression.GZIP, magic=0))
    assert read == [Record(7, -1, None, b"a"), Record(9, -1, None, b"b")]


def test_log_append_time_of_the_wrapper_is_that_of_all_inside() -> None:
    inside = message(0, b"a", timestamp=1) + message(1, b"b", timestamp=2)
    assert [record.timestamp for record in read_records(wrapper(1, inside, Compression.GZIP))] == [1, 2]
    stamped = wrapper(1, inside, Compression.GZIP, attributes=0x08)
    assert [record.timestamp for record in read_records(stamped)] == [77, 77]


def test_a_message_that_is_cut_off_inside_is_excluded() -> None:
    inside = message(0, b"a") + message(1, b"b")
    for end in range(len(message(0, b"a")), len(inside)):
        read = read_records(wrapper(4, inside[:end], Compression.GZIP))
        assert [(record.offset, record.value) for record in read] == [(4, b"a")]


@each_case(
    ("inside", "reason"),
    [
        (b"", "nothing inside"),
        (b"short", "nothing inside"),
        (message(0, b"a", magic=0), "message of format 0 inside one of 1"),
        (wrapper(0, message(0, b"a"), Compression.GZIP), "compressed message inside"),
        (message(0, b"a", attributes=7), "unknown compression type 7"),
        (message(11, b"a"), "do not fit the wrapper's offset 10"),
        (message(-1, b"a") + message(3, b"a"), "do not fit the wrapper's offset 10"),
        (struct.pack(">qi", 0, -1), "cut off"),
        (struct.pack(">qi", 0, 13) + bytes(20), "size of 13"),
        (bytes(60), "size of 0"),
    ],
)
@EACH_CODEC
def test_a_wrapper_with_something_wrong_inside_is_refused(
    codec: Compression, inside: bytes, reason: str
) -> None:
    with pytest.raises(ProtocolError, match=reason) as raised:
        read_records(b"1234" + wrapper(10, inside, codec), 4)
    assert raised.value.position == 4


@pytest.mark.parametrize(
    ("buffer", "reason"),
    [
        (message(0, b"a")[:-1], "cut off"),
        (message(0, None, attributes=1), "without a value"),
        (message(0, b"", attributes=1), "damaged"),
        (message(0, b"", attributes=4), "zstd"),
        (message(0, b"", attributes=5), "unknown compression type 5"),
        (struct.pack(">qiIbb", 0, 13, 0, 0, 0) + bytes(20), "size of 13"),
        (struct.pack(">qiIbb", 0, 21, 0, 1, 0) + bytes(20), "size of 21"),
        (struct.pack(">qiIbbii", 0, 14, 0, 0, 0, 5, 0), "key or value of 5 bytes"),
        (struct.pack(">qiIbbii", 0, 15, 0, 0, 0, -1, -1) + b"x", "1 bytes remain after the value"),
        (struct.pack(">qiIbbi", 0, 14, 0, 0, 0, 2) + b"kkkk", "too short"),
    ],
)
def test_a_message_that_is_not_what_it_announces_is_refused(buffer: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason) as raised:
        read_records(buffer)
    assert raised.value.position is not None


@EACH_CODEC
def test_a_bomb_in_a_wrapper_is_refused(codec: Compression) -> None:
    bomb = wrapper(0, message(0, bytes(10 << 20)), codec)
    with pytest.raises(ProtocolError, match="larger than 1048576 bytes"):
        read_records(bomb, max_bytes=1 << 20)


@given(
    body=st.binary(max_size=200),
    magic=st.integers(0, 1),
    codec=st.sampled_from(LEGACY_CODECS),
    offset=st.integers(-1, 9),
)
def test_any_bytes_inside_a_wrapper_give_records_or_a_protocol_error(
    body: bytes, magic: int, codec: Compression, offset: int
) -> None:
    whole = message(0, b"a", magic=magic)
    for buffer in (
        wrapper(offset, body, codec, magic=magic),
        wrapper(offset, whole + body, codec, magic=magic),
        message(offset, body, magic=magic, attributes=codec),
        whole[: len(body)] + body,
        whole[:18] + body,
    ):
        try:
            assert read_records(buffer, max_bytes=10_000)
        except ProtocolError:
            pass
