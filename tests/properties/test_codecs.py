"""Every message in every version: values and bytes come back, and no bytes do harm.

One example of a bad frame is worth a line in tests/protocol/test_codec.py; here stand the laws. Each is tried
up to 20 times for every message and layout, a thousand times for every version with HYPOTHESIS_PROFILE=long. A value is
drawn once for the versions whose compiled code is the same, and comes back in each of them.
"""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_offsets.errors import ProtocolError
from kafka_offsets.protocol import messages, records
from kafka_offsets.protocol.records import Record
from kafka_offsets.testing import strategies
from tests.properties.every_message import NAMES, examples, layouts, versions

LENGTHS_THAT_LIE = (
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",  # null
    b"\xff\xff\xff\xfe",  # -2
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",  # the largest varint of 32 bits
    b"\xff\xff\xff\xff\x10",  # one bit more
    b"\x80\x80\x80\x80\x80\x00",  # zero in more bytes than a varint has
    b"\x80",
    b"\x01",
)
NOISE = st.one_of(st.binary(max_size=24), st.sampled_from(LENGTHS_THAT_LIE))


# A function of its own is given examples in each test, as hypothesis chains the settings of a parametrised one, item
# after item, until a thousand of them are too deep a recursion.


@pytest.mark.parametrize(
    ("name", "alike"), [pytest.param(*each, id="{}-{}".format(*each)) for each in layouts()]
)
def test_a_value_round_trips(name: str, alike: list[int]) -> None:
    cls = messages.find(name)

    @settings(max_examples=examples(name, alike[0]))
    @given(strategies.message(cls, alike[0], unknown_tags=True))
    def comes_back(value: Any) -> None:
        encoded = messages.encode(value, alike[0])
        for version in alike:
            decoded, end = messages.decode(cls, encoded, version)
            assert end == len(encoded)
            assert decoded == value
            assert messages.encode(decoded, version) == encoded

    comes_back()


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_give_a_value_or_a_protocol_error(name: str) -> None:
    cls = messages.find(name)
    # four buffers come of each example, and the examples take turns with the versions
    count = sum(examples(name, version) for version in versions(name)) // 4

    @settings(max_examples=count)
    @given(in_any_version(name), NOISE, st.integers(0, 2**16 - 1), st.integers(0, 8))
    def is_understood_or_refused(drawn: tuple[Any, int], noise: bytes, place: int, cut: int) -> None:
        value, version = drawn
        valid = messages.encode(value, version)
        place = place % (len(valid) + 1)
        changed = valid[:place] + noise + valid[place + cut :]
        for buffer in (changed, valid[:place], valid[:place] + noise, noise):
            expect_value_or_error(cls, buffer, version)

    is_understood_or_refused()


def in_any_version(name: str) -> st.SearchStrategy[tuple[Any, int]]:
    return st.one_of(
        [
            st.tuples(strategies.message(name, each, unknown_tags=True), st.just(each))
            for each in versions(name)
        ]
    )


def expect_value_or_error(cls: Any, buffer: bytes, version: int) -> None:
    try:
        value, end = messages.decode(cls, buffer, version)
    except ProtocolError:
        return
    assert 0 <= end <= len(buffer)
    # what was read is written in its canonical form, and that form comes back byte for byte
    canonical = messages.encode(value, version)
    again, end = messages.decode(cls, canonical, version)
    assert end == len(canonical)
    assert messages.encode(again, version) == canonical


@given(strategies.record_batches())
def test_a_record_batch_round_trips(batch: strategies.RecordBatch) -> None:
    header = records.read_batch_header(batch.data)
    records.verify_crc(batch.data, 0, header)
    assert header.size == len(batch.data)
    assert (header.base_offset, header.last_offset) == (batch.records[0].offset, batch.records[-1].offset)
    assert records.read_records(batch.data) == batch.records


@given(strategies.record_batches(), NOISE, st.integers(0, 2**16 - 1), st.integers(0, 8))
def test_any_bytes_give_records_or_a_protocol_error(
    batch: strategies.RecordBatch, noise: bytes, place: int, cut: int
) -> None:
    valid = batch.data
    place = place % (len(valid) + 1)
    for buffer in (valid[:place] + noise + valid[place + cut :], noise, valid[:place] + noise):
        try:
            found = records.read_records(buffer)
        except ProtocolError:
            continue
        assert all(isinstance(record, Record) for record in found)


@given(strategies.any_message(unknown_tags=True))
def test_any_message_is_one_that_its_version_can_carry(drawn: tuple[Any, int]) -> None:
    value, version = drawn
    assert messages.decode(type(value), messages.encode(value, version), version)[0] == value


def test_a_strategy_is_made_once() -> None:
    first = strategies.message("OffsetCommitRequest", 9)
    assert strategies.message(messages.OffsetCommitRequest, 9) is first
    assert strategies.message("OffsetCommitRequest", 8) is not first


def test_a_message_or_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="OffsetCommitRequest has no version 11"):
        strategies.message("OffsetCommitRequest", 11)
    with pytest.raises(AttributeError, match="NoSuchRequest"):
        strategies.message("NoSuchRequest", 0)
    with pytest.raises(ValueError, match="a batch of 0 to 4 records"):
        strategies.record_batches(min_records=0)


def test_importing_the_package_does_not_import_hypothesis() -> None:
    code = (
        "import sys, kafka_offsets, kafka_offsets.testing, kafka_offsets.broker.network.server\n"
        "assert 'hypothesis' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
