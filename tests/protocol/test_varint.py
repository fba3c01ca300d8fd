"""Signed varints: round trips, the numbers at their edges, refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import varint

INT32_EDGES = [0, -1, 63, -64, 64, -65, 8191, 8192, -8193, 1 << 20, (1 << 31) - 1, -(1 << 31)]
INT64_EDGES = [*INT32_EDGES, 1 << 31, -(1 << 31) - 1, 1 << 55, (1 << 63) - 1, -(1 << 63)]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), ((1 << 31) - 1, "feffffff0f")],
)
def test_varints_are_those_of_kafka(value: int, encoded: str) -> None:
    assert varint.encode_varint(value).hex() == encoded


@given(value=st.integers(-(1 << 31), (1 << 31) - 1) | st.sampled_from(INT32_EDGES))
def test_a_varint_is_read_as_it_was_written(value: int) -> None:
    encoded = varint.encode_varint(value)
    assert varint.read_varint(b"x" + encoded + b"\xff", 1) == (value, 1 + len(encoded))
    assert varint.read_varlong(b"x" + encoded + b"\xff", 1) == (value, 1 + len(encoded))


@given(value=st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from(INT64_EDGES))
def test_a_varlong_is_read_as_it_was_written(value: int) -> None:
    encoded = varint.encode_varint(value)
    assert varint.read_varlong(encoded, 0) == (value, len(encoded))


def test_the_tables_agree_with_the_functions() -> None:
    for byte, value in enumerate(varint.ZIGZAG):
        assert varint.read_varint(bytes([byte]), 0) == (value, 1)
    for value, encoded in enumerate(varint.VARINTS):
        assert varint.read_varint(encoded, 0) == (value, len(encoded))


def test_more_bits_than_the_type_has_are_refused() -> None:
    for encoded in (b"\xff\xff\xff\xff\x1f", b"\xff" * 5, b"\x80" * 5 + b"\0"):
        with pytest.raises(ProtocolError, match="32 bits"):
            varint.read_varint(encoded, 0)
    for encoded in (b"\xff" * 9 + b"\x02", b"\xff" * 10, b"\x80" * 10 + b"\0"):
        with pytest.raises(ProtocolError, match="64 bits"):
            varint.read_varlong(encoded, 0)
    for value in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(ValueError, match="64 bits"):
            varint.encode_varint(value)


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\x80\x80\x80\x80"])
def test_a_varint_that_is_cut_off_is_an_index_error_for_the_caller(encoded: bytes) -> None:
    with pytest.raises(IndexError):
        varint.read_varint(encoded, 0)
    with pytest.raises(IndexError):
        varint.read_varlong(encoded, 0)
