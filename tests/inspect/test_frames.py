"""Requests, responses and records of the offsets topic."""

import base64
import random
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_offsets.inspect.batches import LastBatch, explain_batches
from kafka_offsets.inspect.declarations import InspectError
from kafka_offsets.inspect.frame import explain_request, explain_response
from kafka_offsets.inspect.lines import Line
from kafka_offsets.inspect.message import OFFSETS_TOPIC, explain_message, explain_record
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from tests.conftest import DATA
from tests.inspect.explained import (
    BAD_FRAMES,
    MESSAGES,
    VALID_FRAMES,
    assert_tiled,
    batch,
    give,
    inspect,
    json_lines,
    refusal,
    value_of,
)


@pytest.mark.parametrize("name", VALID_FRAMES)
def test_every_byte_of_a_request_is_explained_once_with_and_without_its_size(name: str) -> None:
    bare = VALID_FRAMES[name]
    lines = explain_request(bare)
    assert_tiled(lines, 0, len(bare))
    assert not [line for line in lines if line.damage or line.name == "(remaining bytes)"]
    api, version = name.split(" v")
    assert lines[0].name.startswith("RequestHeader version ")
    assert f"{api}Request version {version}" in [line.name for line in lines if line.depth == 0]
    sized = explain_request(len(bare).to_bytes(4) + bare)
    assert sized[0] == Line(0, 4, 0, "size", str(len(bare)))
    assert [line._replace(position=line.position - 4, value="") for line in sized[1:]] == [
        line._replace(value="") for line in lines
    ]


@pytest.mark.parametrize("name", VALID_FRAMES)
@pytest.mark.parametrize("size", [0, 1, 5, 9, 100_000, -1])
def test_a_wrong_size_is_reported_and_the_request_explained(name: str, size: int) -> None:
    bare = VALID_FRAMES[name]
    lines = explain_request(size.to_bytes(4, signed=True) + bare)
    assert_tiled(lines, 0, len(bare) + 4)
    assert lines[0] == Line(0, 4, 0, "size", f"{size}, but {len(bare)} bytes follow", damage=True)


@pytest.mark.parametrize("name", VALID_FRAMES)
def test_a_request_cut_anywhere_is_explained_or_refused(name: str) -> None:
    sized = len(VALID_FRAMES[name]).to_bytes(4) + VALID_FRAMES[name]
    for kept in range(len(sized)):
        with pytest.raises(InspectError) as caught:
            explain_request(sized[:kept])
        assert "\n" not in str(caught.value)


def test_a_cut_request_is_reported_with_its_size() -> None:
    sized = len(VALID_FRAMES["OffsetCommit v2"]).to_bytes(4) + VALID_FRAMES["OffsetCommit v2"]
    with pytest.raises(
        InspectError, match=r"^a frame of 123 bytes, of which 96 follow: OffsetCommitRequest version 2 at"
    ):
        explain_request(sized[:100])


def test_any_bytes_are_explained_or_refused(rng: random.Random) -> None:
    frames = list(VALID_FRAMES.values())
    for _ in range(1000):
        data = bytearray(rng.choice(frames))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            lines = explain_request(bytes(data))
        except InspectError:
            continue
        assert_tiled(lines, 0, len(data))


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_frames_that_kafka_refuses_are_refused_in_one_line_or_explained_with_their_damage(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, BAD_FRAMES[name]["hex"])
    if BAD_FRAMES[name]["kafka"] == "closed":
        refusal(capsys, "-")
        return
    code, out, err = inspect(capsys, "-")
    assert code == (1 if "garbage" in name else 0)
    assert out and not err


def recorded_responses() -> Iterator[tuple[str, int, bytes]]:
    """API, version and bytes of what Kafka answered in a recorded session."""
    for frame in json_lines(DATA / "captures" / "raw-classic.jsonl.gz"):
        if frame.get("dir") == "response" and "undecodable" not in frame and "hex" in frame:
            yield frame["apiName"], frame["apiVersion"], bytes.fromhex(frame["hex"])


def test_recorded_responses_are_explained_by_name_and_by_key_of_their_api() -> None:
    count = 0
    for api, version, data in recorded_responses():
        if api not in {name.removesuffix("Response") for name in MESSAGES if name.endswith("Response")}:
            continue
        lines = explain_response(data, api, version)
        key = messages.find(f"{api}Request").SCHEMA.number
        assert lines == explain_response(data, str(key), version)
        assert_tiled(lines, 0, len(data))
        assert not [line for line in lines if line.name == "(remaining bytes)"], (api, version)
        count += 1
    assert count > 50


def response(message: Any, version: int) -> bytes:
    return (7).to_bytes(4) + messages.encode(message, version)


def fetched(records: bytes) -> bytes:
    cls = messages.FetchResponse
    partition = cls.PartitionData(partition_index=0, records=records)
    return response(cls(responses=[cls.FetchableTopicResponse(topic="t", partitions=[partition])]), 4)


def test_records_of_a_fetch_are_explained_as_batches_and_a_cut_last_one_is_no_damage() -> None:
    whole = batch(b"value")
    data = fetched(whole + whole[:40])
    lines = explain_response(data, "Fetch", 4)
    assert_tiled(lines, 0, len(data))
    assert not [line for line in lines if line.damage]
    assert "batch of offsets 0 to 0" in [line.name for line in lines]
    assert value_of(lines, "(the last batch, cut)").endswith(f": 40 bytes of a batch of {len(whole)}")


def test_records_of_a_fetch_of_the_offsets_topic_are_explained_when_asked() -> None:
    stored = bytes(encode_batch([(bytes.fromhex("0002000167"), None, (), 1)]))
    assert value_of(explain_response(fetched(stored), "Fetch", 4, stored=OFFSETS_TOPIC), "group") == "'g'"


def test_what_is_no_batch_in_a_produce_is_damage() -> None:
    lines = list(explain_batches(batch(b"value")[:-1], cut=LastBatch.DAMAGE))
    assert lines[0].damage and lines[0].name == "no batch"


SUBSCRIPTION = bytes.fromhex("0001000000010001740000000000000000")
"""Version 1: topic t, no user data, no partitions owned."""


def joining(protocol_type: str, metadata: bytes) -> list[Line]:
    cls = messages.JoinGroupRequest
    message = cls("g", 6000, protocol_type=protocol_type, protocols=[cls.Protocol("range", metadata)])
    lines, _ = explain_message("JoinGroupRequest", 0, messages.encode(message, 0))
    return lines


def test_a_subscription_in_a_join_is_explained_below_its_bytes() -> None:
    lines = joining("consumer", SUBSCRIPTION)
    assert value_of(lines, "version") == "1 (ConsumerProtocolSubscription)"
    assert value_of(lines, "topics[0]") == "'t'"
    assert value_of(lines, "owned_partitions") == "0 elements"


def test_a_subscription_of_a_later_version_is_read_as_the_last_known_and_the_rest_is_reported() -> None:
    later = bytes.fromhex("0009000000010001740000000000000000ffffffffffff1234")
    lines = joining("consumer", later)
    assert value_of(lines, "version") == "9 (ConsumerProtocolSubscription)"
    assert value_of(lines, "(remaining bytes)") == "2 bytes: 12 34"


@pytest.mark.parametrize(
    ("protocol_type", "metadata"),
    [
        ("connect", SUBSCRIPTION),
        ("consumer", b"\x00"),
        ("consumer", SUBSCRIPTION[:9]),
        ("consumer", b"\xff" * 30),
    ],
)
def test_other_metadata_stays_bytes(protocol_type: str, metadata: bytes) -> None:
    lines = joining(protocol_type, metadata)
    assert value_of(lines, "metadata").startswith(f"{len(metadata)} byte")
    assert "version" not in [line.name for line in lines]


def test_an_assignment_is_explained_even_where_the_message_does_not_tell_the_protocol_type() -> None:
    assignment = bytes.fromhex("0000000000010001740000000100000003ffffffff")
    message = messages.SyncGroupResponse(assignment=assignment)
    lines = explain_response(response(message, 0), "SyncGroup", 0)
    assert value_of(lines, "version") == "0 (ConsumerProtocolAssignment)"
    assert value_of(lines, "partitions[0]") == "3"


def test_a_uuid_is_shown_as_kafka_prints_it() -> None:
    cls = messages.OffsetCommitRequest
    message = cls("g", topics=[cls.Topic(topic_id=bytes.fromhex("ff" * 15 + "fb"), partitions=[])])
    lines, _ = explain_message("OffsetCommitRequest", 10, messages.encode(message, 10))
    assert value_of(lines, "topic_id") == base64.urlsafe_b64encode(b"\xff" * 15 + b"\xfb").decode().rstrip(
        "="
    )


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        (0, "0 (1970-01-01T00:00:00.000Z)"),
        (1795253707145, "1795253707145 (2026-11-21T09:35:07.145Z)"),
        (253402300799999, "253402300799999 (9999-12-31T23:59:59.999Z)"),
        (253402300800000, "253402300800000"),
        (-1, "-1"),
        ((1 << 63) - 1, "9223372036854775807"),
    ],
)
def test_timestamps_are_shown_with_their_time_in_utc_when_they_have_one(timestamp: int, shown: str) -> None:
    value = messages.encode(messages.OffsetCommitValue(5, metadata="m", commit_timestamp=timestamp), 3)
    lines = explain_record(bytes.fromhex("000100016700017400000000"), b"\x00\x03" + value)
    assert value_of(lines, "commit_timestamp") == shown


def test_an_error_code_is_shown_with_its_name() -> None:
    message = messages.HeartbeatResponse(error_code=27)
    assert (
        value_of(explain_response(response(message, 0), "Heartbeat", 0), "error_code")
        == "27 REBALANCE_IN_PROGRESS"
    )
