"""Frames in hex that do not say what they are: a request names its API, a response is guessed."""

import pytest

from kafka_offsets.inspect.declarations import InspectError
from kafka_offsets.inspect.frame import explain_request, explain_response
from kafka_offsets.inspect.guess import candidates, explain_frame
from kafka_offsets.inspect.lines import Line
from kafka_offsets.protocol import messages
from tests.conftest import DATA, LONG, GeneratedPart
from tests.inspect.explained import VALID_FRAMES, assert_tiled, give, inspect, json_lines

HEARTBEAT = bytes.fromhex("0000000700000000001b")
"""The answer to a Heartbeat of version 1, or to several others: no throttling, REBALANCE_IN_PROGRESS."""


def recorded_responses() -> list[tuple[str, int, bytes]]:
    """API, version and bytes of recorded responses, those of one size once."""
    found = {}
    for name in ("raw-classic", "raw-versions", "kafka-python-admin"):
        for frame in json_lines(DATA / "captures" / f"{name}.jsonl.gz"):
            if frame["dir"] == "response" and "bodyVersion" not in frame:
                place = frame["apiName"], frame["apiVersion"], frame["size"]
                found[place] = (frame["apiName"], frame["apiVersion"], bytes.fromhex(frame["hex"]))
    return list(found.values())


RESPONSES = recorded_responses()


@pytest.mark.parametrize("name", VALID_FRAMES)
def test_a_request_names_itself(name: str) -> None:
    assert explain_frame(VALID_FRAMES[name]) == explain_request(VALID_FRAMES[name])


def looked_at() -> list[tuple[str, int, bytes]]:
    """All recorded responses in the long form, else one of each API and version."""
    return (
        RESPONSES
        if LONG
        else list({(api, version): (api, version, data) for api, version, data in RESPONSES}.values())
    )


@pytest.mark.slow
def test_what_was_recorded_is_always_among_the_candidates_and_mostly_the_first() -> None:
    first = 0
    for api, version, data in looked_at():
        found = candidates(data)
        fitting = [number for number, one in enumerate(found) if one.api == api and version in one.versions]
        assert len(fitting) == 1, (api, version, data.hex())
        chosen = found[fitting[0]]
        assert chosen.lines == explain_response(data, api, chosen.versions[0])
        first += fitting[0] == 0
    assert len(RESPONSES) > 100
    assert first >= len(looked_at()) * 3 // 4


def test_every_candidate_explains_every_byte_and_versions_with_one_reading_are_grouped() -> None:
    found = candidates(HEARTBEAT)
    for candidate in found:
        assert_tiled(candidate.lines, 0, len(HEARTBEAT))
    said = [str(candidate) for candidate in found]
    assert {"Heartbeat 1-3", "LeaveGroup 1-2", "EndTxn 0-2"} <= set(said)
    assert len(set(said)) == len(said)
    scores = [candidate.score for candidate in found]
    assert scores == sorted(scores, reverse=True)


def test_a_guess_lists_its_candidates_and_explains_the_first() -> None:
    lines = explain_frame(HEARTBEAT)
    found = candidates(HEARTBEAT)
    count = sum(len(candidate.versions) for candidate in found)
    said = f"no request, but {count} responses in {len(found)} readings; the first is explained"
    assert lines[0] == Line(0, 0, 0, "(a guess)", said)
    assert [line.value for line in lines[1 : len(found) + 1]] == [str(candidate) for candidate in found]
    assert lines[len(found) + 1 :] == explain_response(HEARTBEAT, "Heartbeat", 1)


def test_a_response_is_guessed_with_its_size_in_front_and_when_its_correlation_id_looks_like_one() -> None:
    sized = len(HEARTBEAT).to_bytes(4) + HEARTBEAT
    assert "Heartbeat 1-3" in [str(candidate) for candidate in candidates(sized)]
    looking = (len(HEARTBEAT) - 4).to_bytes(4) + HEARTBEAT[4:]
    assert "Heartbeat 1-3" in [str(candidate) for candidate in candidates(looking)]
    assert explain_response(looking, "Heartbeat", 1)[0].name == "ResponseHeader version 0"


def test_an_unknown_error_code_speaks_against_a_reading() -> None:
    known, unknown = (
        b"\0\0\0\x07" + messages.encode(messages.HeartbeatResponse(error_code=code), 1) for code in (27, 9999)
    )
    score = {str(one): one.score for one in candidates(known)}["Heartbeat 1-3"]
    assert {str(one): one.score for one in candidates(unknown)}["Heartbeat 1-3"] < score


def test_bytes_that_are_neither_are_refused_as_a_request_would_be() -> None:
    data = bytes.fromhex("7fff000000000001ffffffffff")
    with pytest.raises(InspectError) as expected:
        explain_request(data)
    with pytest.raises(InspectError) as caught:
        explain_frame(data)
    assert str(caught.value) == str(expected.value)


def test_the_page_shows_a_guess(
    capsys: pytest.CaptureFixture[str], generated: GeneratedPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, "00000007 00000000 001b")
    code, out, _ = inspect(capsys, "-")
    assert code == 0
    command = "echo 00000007 00000000 001b | kafka-offsets inspect -"
    generated.check("docs/inspect.md", "guess", f"```console\n$ {command}\n{out}```")


def test_a_response_whose_correlation_id_looks_like_a_request_is_shown_if_it_has_one_reading() -> None:
    # 5 is Produce in version 5.
    answer = messages.DescribeGroupsResponse
    group = answer.DescribedGroup(group_id="billing", group_state="Empty", protocol_type="consumer")
    response = b"\0\0\0\x05" + messages.encode(answer(groups=[group]), 2)
    sized = len(response).to_bytes(4) + response
    lines = explain_frame(sized)
    assert lines[0].value == "no request, but 2 responses in 1 reading; the first is explained"
    assert lines[1].value == "DescribeGroups 1-2"
    assert lines[2:] == explain_response(sized, "DescribeGroups", 1)


def test_several_readings_of_such_a_response_are_named() -> None:
    response = b"\0\0\0\x05" + HEARTBEAT[4:]
    sized = len(response).to_bytes(4) + response
    with pytest.raises(InspectError) as caught:
        explain_frame(sized)
    said = str(caught.value)
    assert said.startswith("as a request: ") and said.endswith(": name it with --response")
    assert str(candidates(sized)[0]) in said


def test_such_a_response_is_shown_if_its_readings_are_of_one_api() -> None:
    # 8 is Produce in version 8; a tag that a version does not have yet is another reading.
    answer = messages.FetchResponse
    partition = answer.PartitionData(0, high_watermark=3, records=None)
    topic = answer.FetchableTopicResponse(topic_id=bytes(range(16)), partitions=[partition])
    nodes = [answer.NodeEndpoint(node_id=1, host="localhost", port=9092)]
    response = b"\0\0\0\x08\0" + messages.encode(answer(responses=[topic], node_endpoints=nodes), 16)
    sized = len(response).to_bytes(4) + response
    with pytest.raises(InspectError):
        explain_request(sized)
    lines = explain_frame(sized)
    assert [str(each) for each in candidates(sized)] == ["Fetch 16-18", "Fetch 13-15"]
    assert lines[3:] == explain_response(sized, "Fetch", 16)


def test_a_response_of_an_old_kafka_is_refused_as_one() -> None:
    """Versions that Kafka 4 has removed: the size is right, and only the request of this id was spoken of."""
    log = b"\x00\x06orders" + bytes.fromhex("00000001 00000002 0000 0000000000000003 00000005") + b"a set"
    response = bytes(4) + b"\0\0\0\x01" + log  # Fetch in version 0
    sized = len(response).to_bytes(4) + response
    with pytest.raises(InspectError) as caught:
        explain_frame(sized)
    assert str(caught.value) == (
        "as a request: ProduceRequest has no version 0, only 3-13; "
        "as a response: none in the versions of Kafka 4 ends at the last byte"
    )
