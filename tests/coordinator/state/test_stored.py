"""Keys and values of the offsets topic: the hand-laid structs against the compiled codecs."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_offsets.coordinator.state import stored
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages
from tests.broker.groups.offsets_logs import changed, offset_values
from tests.cases import each_case

names = (
    st.text(max_size=300)
    .filter(lambda text: len(text.encode("utf-8", "replace")) < 32767)
    .filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text))
)
int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
entries = st.builds(
    OffsetAndMetadata,
    offset=int64,
    leader_epoch=int32,
    metadata=names,
    commit_timestamp=int64,
    expire_timestamp=st.just(-1),
    topic_id=st.sampled_from([bytes(16), bytes(range(16))]),
    log_offset=st.just(7),
)


@given(names, names, int32)
def test_an_offset_key_is_what_the_codec_makes_of_it(group: str, topic: str, partition: int) -> None:
    key = stored.offset_key(group, topic, partition)
    message = messages.OffsetCommitKey(group=group, topic=topic, partition=partition)
    assert key == b"\x00\x01" + messages.encode(message, 0)
    assert stored.parse_key(key) == stored.OffsetKey(group, topic, partition)
    assert stored.parse_key(b"\x00\x00" + key[2:]) == stored.OffsetKey(group, topic, partition)


@given(entries)
def test_an_offset_value_is_version_4_with_the_topic_id_tagged(entry: OffsetAndMetadata) -> None:
    message = messages.OffsetCommitValue(
        offset=entry.offset,
        leader_epoch=entry.leader_epoch,
        metadata=entry.metadata,
        commit_timestamp=entry.commit_timestamp,
        topic_id=entry.topic_id,
    )
    value = stored.offset_value(entry)
    assert value == b"\x00\x04" + messages.encode(message, 4)
    assert stored.parse_offset_value(value, 7) == entry


@given(entries, st.integers(0, 2**63 - 1))
def test_a_value_with_its_own_expiry_is_version_1(entry: OffsetAndMetadata, expire: int) -> None:
    value = stored.offset_value(entry._replace(expire_timestamp=expire))
    assert value[:2] == b"\x00\x01"
    assert stored.parse_offset_value(value, 7) == entry._replace(
        expire_timestamp=expire, leader_epoch=-1, topic_id=bytes(16)
    )


@pytest.mark.parametrize("version", range(5))
def test_values_of_all_versions_are_read(version: int) -> None:
    message = messages.OffsetCommitValue(offset=42, metadata="m", commit_timestamp=9)
    entry = stored.parse_offset_value(bytes([0, version]) + messages.encode(message, version), 3)
    assert entry == OffsetAndMetadata(42, -1, "m", 9, -1, bytes(16), 3)


@pytest.mark.parametrize("version", range(5))
def test_group_values_of_all_versions_are_read(version: int) -> None:
    message = messages.GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="m-1"
    )
    parsed = stored.parse_group_value(bytes([0, version]) + messages.encode(message, version))
    assert (parsed.protocol_type, parsed.generation, parsed.protocol, parsed.leader) == (
        "consumer",
        3,
        "range",
        "m-1",
    )


def test_a_record_of_another_type_is_no_error() -> None:
    assert stored.parse_key(b"\x00\x0b\x00\x01g") == stored.UnknownKey(11, "g")
    assert stored.parse_key(b"\x00\x0c\x00\x01g") == stored.UnknownKey(12)
    assert stored.parse_key(stored.group_tombstone("g").key) == stored.GroupKey("g")


@given(st.binary(max_size=60), st.sampled_from([b"", b"\x00\x00", b"\x00\x01", b"\x00\x02", b"\x00\x04"]))
def test_any_bytes_give_a_value_or_a_protocol_error(data: bytes, head: bytes) -> None:
    for read in (stored.parse_key, stored.parse_group_value, lambda b: stored.parse_offset_value(b, 0)):
        try:
            read(head + data)
        except ProtocolError:
            continue


def test_bytes_of_metadata_that_are_not_utf_8_are_replaced_as_in_kafka() -> None:
    entry = OffsetAndMetadata(1, metadata="abc", topic_id=bytes(range(16)))
    value = stored.offset_value(entry).replace(b"abc", b"\xc1bc")
    assert stored.parse_offset_value(value, 0).metadata == "\ufffdbc"


@each_case(
    ("read", "data", "said", "position"),
    [
        (stored.parse_key, b"", "a key of 0 bytes has no record type", None),
        (stored.parse_key, b"\0", "a key of 1 bytes has no record type", None),
        (stored.parse_key, b"\0\1\xff\xff\0\1t\0\0\0\0", "a key of a committed offset has a null name", 2),
        (stored.parse_key, b"\0\1\0\1g\xff\xff\0\0\0\0", "a key of a committed offset has a null name", 2),
        (stored.parse_key, b"\0\1\0\1g\0\1t\0\0\0", "key of a committed offset: unpack_from requires", None),
        (stored.parse_key, b"\0\1\0\1\xff\0\1t\0\0\0\0", "key of a committed offset: 'utf-8' codec", None),
        (stored.parse_group_value, b"\0", "a value of 1 bytes has no version", None),
        (stored.parse_group_value, b"\0\5", "group metadata of unknown version 5", 0),
        (lambda value: stored.parse_offset_value(value, 0), b"\0", "a value of 1 bytes has no version", None),
        (
            lambda value: stored.parse_offset_value(value, 0),
            b"\0\5",
            "a committed offset of unknown version 5",
            0,
        ),
    ],
)
def test_what_does_not_parse_says_what_and_where(
    read: Callable[[bytes], object], data: bytes, said: str, position: int | None
) -> None:
    with pytest.raises(ProtocolError, match=f"^{said}") as raised:
        read(data)
    assert raised.value.position == position


@each_case("length", [125, 126, 127, 128, 16383, 16384])
@each_case("topic_id", [bytes(16), bytes(range(16))])
def test_metadata_of_any_length_is_stored_as_the_codec_does(length: int, topic_id: bytes) -> None:
    entry = OffsetAndMetadata(1, metadata="x" * length, topic_id=topic_id)
    message = messages.OffsetCommitValue(
        1, -1, "x" * length, entry.commit_timestamp, topic_id=topic_id, expire_timestamp=-1
    )
    assert stored.offset_value(entry) == b"\0\4" + messages.encode(message, 4)
    assert stored.parse_offset_value(stored.offset_value(entry), entry.log_offset) == entry


PLAIN = stored.offset_value(OffsetAndMetadata(5, 2, "", 10**12, -1, bytes(range(16)), 7))


@given(changed(offset_values()))
@example(PLAIN)
@example(PLAIN[:14] + b"\x00" + PLAIN[15:])
@example(PLAIN[:14] + b"\x02" + PLAIN[15:])
@example(PLAIN[:24] + b"\x01" + PLAIN[25:])
@example(PLAIN[:14] + b"\x02\xff" + PLAIN[15:])
def test_the_quick_reading_of_a_value_is_that_of_the_codec(value: bytes) -> None:
    def outcome(read: Callable[[bytes, int], OffsetAndMetadata]) -> OffsetAndMetadata | str:
        try:
            return read(value, 7)
        except ProtocolError:
            return "refused"

    assert outcome(stored.parse_offset_value) == outcome(stored.parse_any_offset_value)
