"""Frames and headers."""

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import connection, messages
from kafka_offsets.protocol.connection import (
    FrameReader,
    encode_response,
    read_api_key_and_version,
    read_request_header,
)
from tests.cases import each_case


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1, max_size=50))
def test_frames_come_out_as_they_went_in_however_the_stream_was_cut(
    payloads: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(frame(payload) for payload in payloads)
    reader = FrameReader(1000)
    seen = []
    position = turn = 0
    while position < len(stream):
        size = cuts[turn % len(cuts)]
        reader.feed(stream[position : position + size])
        position += size
        turn += 1
        while (next_frame := reader.next_frame()) is not None:
            seen.append(next_frame)
    assert seen == payloads
    assert reader.buffered_bytes == 0


@given(
    st.lists(st.binary(min_size=2, max_size=40), max_size=8),
    st.lists(st.integers(1, 30), min_size=1, max_size=50),
    st.integers(1, 8),
)
def test_large_frames_come_out_as_they_went_in_however_the_stream_was_cut(
    payloads: list[bytes], cuts: list[int], share: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_LARGE_FRAME_BYTES", 10)
        patch.setattr(connection, "_LARGE_FRAME_SHARE", share)
        stream = b"".join(frame(payload) for payload in payloads)
        reader = FrameReader(1000)
        seen = []
        position = turn = taken = 0
        while position < len(stream):
            size = cuts[turn % len(cuts)]
            reader.feed(stream[position : position + size])
            position = min(position + size, len(stream))
            turn += 1
            while (next_frame := reader.next_frame()) is not None:
                seen.append(next_frame)
                taken += 4 + len(next_frame)
            assert reader.buffered_bytes == position - taken
    assert seen == payloads


def test_a_large_frame_is_assembled_as_its_bytes_arrive() -> None:
    # A JoinGroup of 90 MB took 50 ms to be joined once its last byte had come; nobody else was served meanwhile.
    reader = FrameReader(100 << 20)
    data = frame(struct.pack(">hhih", 11, 2, 1, -1) + bytes(20 << 20))
    cut = len(data) // 8 + 4
    tracemalloc.start()
    try:
        reader.feed(data[:cut])
        assert reader.next_frame() is None
        reader.feed(data[cut:-1])
        assert (reader.next_frame(), reader.buffered_bytes) == (None, len(data) - 1)
        following = frame(b"following")
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        reader.feed(data[-1:] + following[:5])
        assert reader.next_frame(9) is None
        taken = reader.next_frame(11)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken == data[4:]
    assert peak - before < 100_000  # no copy of it was made
    assert (reader.next_frame(), reader.buffered_bytes) == (None, 5)
    reader.feed(following[5:])
    assert reader.next_frame() == b"following"


def test_no_memory_is_taken_for_a_large_frame_of_which_little_is_received() -> None:
    reader = FrameReader(100 << 20)
    tracemalloc.start()
    try:
        reader.feed(struct.pack(">i", 100 << 20))
        for _ in range(12):
            assert reader.next_frame() is None
            reader.feed(bytes(1 << 20))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 << 20


def test_a_large_frame_that_is_not_complete_is_forgotten_with_its_connection() -> None:
    reader = FrameReader(100 << 20)
    reader.feed(struct.pack(">i", 20 << 20) + bytes(4 << 20))
    assert reader.next_frame() is None
    reader.clear()
    assert reader.buffered_bytes == 0
    reader.feed(frame(b"other"))
    assert reader.next_frame() == b"other"


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_a_size_that_no_frame_may_have_is_refused_before_its_bytes_are_received(size: int) -> None:
    reader = FrameReader(100)
    reader.feed(struct.pack(">i", size))
    with pytest.raises(ProtocolError, match=str(size)):
        reader.next_frame()


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (b"\x16\x03\x01\x02\x00\x01", r"\(a TLS handshake, but this port is plaintext\)"),
        (b"GET / HTTP/1.1\r\n", r"\(an HTTP request\)"),
        (b"\x7f\xff\xff\xff\x00\x01", "accepted at byte 0"),
    ],
)
def test_a_client_of_another_protocol_is_named(first: bytes, what: str) -> None:
    reader = FrameReader(104_857_600)
    reader.feed(first)
    with pytest.raises(ProtocolError, match=what):
        reader.next_frame()


def test_a_frame_of_the_largest_size_is_accepted() -> None:
    reader = FrameReader(100)
    reader.feed(frame(bytes(100)))
    assert reader.next_frame() == bytes(100)


def test_a_frame_of_another_api_than_asked_for_stays() -> None:
    reader = FrameReader(100)
    data = frame(struct.pack(">hhih", 8, 2, 1, -1))
    reader.feed(data[:-1])
    assert reader.next_frame(8) is None
    reader.feed(data[-1:] + frame(b""))
    assert reader.next_frame(9) is None
    assert reader.next_frame(8) == data[4:]
    assert reader.next_frame(8) == b""  # too short to tell: whoever decodes it refuses it


@each_case("cut", range(1, 14))
def test_the_api_of_a_frame_is_found_wherever_its_bytes_were_cut(cut: int) -> None:
    reader = FrameReader(100)
    data = frame(struct.pack(">hhih", 8, 2, 1, -1))
    reader.feed(data)
    reader.feed(data[:cut])
    reader.feed(data[cut:] + data[:cut])
    assert reader.next_frame(8) == data[4:]
    assert reader.next_frame(9) is None
    assert reader.next_frame(8) == data[4:]
    assert reader.next_frame() is None
    assert reader.buffered_bytes == cut
    reader.feed(data[cut:])
    assert [reader.next_frame(8), reader.next_frame(8)] == [data[4:], None]


def test_large_frames_in_small_pieces_are_joined_once() -> None:
    reader = FrameReader(1 << 20)
    data = frame(bytes(1 << 20))
    for position in range(0, len(data) - 1000, 1000):
        reader.feed(data[position : position + 1000])
        assert reader.next_frame() is None
    reader.feed(data[len(data) // 1000 * 1000 :])
    assert reader.next_frame() == bytes(1 << 20)


@pytest.mark.parametrize(
    ("flexible", "client", "expected"),
    [(False, None, None), (False, "", ""), (False, "x", "x"), (True, None, None), (True, "büro", "büro")],
)
def test_a_request_header_is_read_in_both_versions(
    flexible: bool, client: str | None, expected: str | None
) -> None:
    header = messages.RequestHeader(8, 2, 77, client)
    data = messages.encode(header, 2 if flexible else 1) + b"body"
    correlation_id, client_id, body = read_request_header(data, tagged=flexible)
    assert (correlation_id, client_id) == (77, expected or "")
    assert data[body:] == b"body"
    assert read_api_key_and_version(data) == (8, 2)


def test_tagged_fields_of_a_header_are_skipped() -> None:
    header = messages.RequestHeader(8, 8, 77, "c", unknown_tags={3: b"abc", 9: b""})
    data = messages.encode(header, 2) + b"body"
    assert data[read_request_header(data, tagged=True)[2] :] == b"body"


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_give_a_header_or_a_protocol_error(data: bytes, flexible: bool) -> None:
    try:
        read_api_key_and_version(data)
        body = read_request_header(data, tagged=flexible)[2]
    except ProtocolError:
        return
    assert 10 <= body <= len(data)


def test_a_response_frame_begins_with_its_size_and_correlation_id() -> None:
    response = messages.HeartbeatResponse(0, 27)
    plain, tagged = (messages.encoder(messages.HeartbeatResponse, version) for version in (0, 4))
    assert encode_response(plain, response, 5, tagged=False) == frame(struct.pack(">ih", 5, 27))
    assert encode_response(tagged, response, 5, tagged=True) == frame(struct.pack(">ibihb", 5, 0, 0, 27, 0))


def test_no_bytes_are_no_end_of_a_frame() -> None:
    reader = FrameReader(1000)
    for piece in (b"", b"\0\0\0\6ab", b"", b"cd", b"", b"ef"):
        assert reader.next_frame() is None
        reader.feed(piece)
    assert reader.next_frame() == b"abcdef"
