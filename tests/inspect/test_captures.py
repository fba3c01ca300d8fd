"""Wire captures as a timeline, compared with what Kafka's own decoders said of the frames when they were recorded."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.inspect.capture import TimelineEvent, Totals, timeline
from kafka_offsets.inspect.declarations import InspectError
from kafka_offsets.protocol import messages
from tests.conftest import DATA, REPOSITORY, GeneratedPart
from tests.inspect.explained import assert_tiled, inspect, json_lines, refusal

NAMES = ["aiokafka-admin", "kafka-python-admin", "raw-classic", "raw-versions"]
EACH_CAPTURE = pytest.mark.parametrize("name", NAMES)


def path_of(name: str) -> Path:
    return DATA / "captures" / f"{name}.jsonl.gz"


def recorded(name: str) -> list[tuple[dict[str, Any], TimelineEvent]]:
    """Each line of a capture, and our event."""
    return list(zip(json_lines(path_of(name)), timeline(str(path_of(name))), strict=True))


@EACH_CAPTURE
def test_every_event_has_the_time_the_connection_and_the_api_that_were_recorded(name: str) -> None:
    for frame, event in recorded(name):
        assert (event.ms, event.connection, event.kind) == (frame["ms"], frame["conn"], frame["dir"])
        if "hex" in frame:
            given = frame.get("apiName", f"API {frame['apiKey']}"), frame["apiVersion"]
            assert (event.api, event.version) == given
            assert (event.correlation_id, event.size) == (frame["correlationId"], frame["size"])
        if event.kind == "request":
            assert event.client == frame["clientId"]


@EACH_CAPTURE
def test_what_kafka_could_not_decode_is_marked_and_nothing_else(name: str) -> None:
    for frame, event in recorded(name):
        # The recorder read this version, which is not defined, as the one before.
        undefined = (event.api, event.version) == ("OffsetDelete", 1)
        assert bool(event.problem) == ("undecodable" in frame or undefined), event
        if frame.get("trailingBytes"):
            assert event.note == f"{frame['trailingBytes']} bytes after the message"
        if event.lines:
            assert event.size is not None
            assert_tiled(list(event.lines), 0, event.size)


def error_codes(value: Any) -> Iterator[int]:
    """All error codes in a decoded message but those of its first level."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(inner, dict):
            yield from (code for key, code in inner.items() if key.endswith("rrorCode"))
        yield from error_codes(inner)


@EACH_CAPTURE
def test_errors_are_counted_by_name_at_the_top_and_inside(name: str) -> None:
    for frame, event in recorded(name):
        if "json" not in frame:
            continue
        top = [code for key, code in frame["json"].items() if key.endswith("rrorCode") and code]
        inside = [code for code in error_codes(frame["json"]) if code]
        assert event.errors == Counter(ErrorCode(code).name for code in top)
        assert event.nested == Counter(ErrorCode(code).name for code in inside)


@EACH_CAPTURE
def test_the_latency_of_an_answer_counts_from_its_request(name: str) -> None:
    asked: dict[tuple[int, int], float] = {}
    for frame, event in recorded(name):
        if frame["dir"] == "request":
            asked[frame["conn"], frame["correlationId"]] = frame["ms"]
        if frame["dir"] == "response":
            expected = frame["ms"] - asked.pop((frame["conn"], frame["correlationId"]))
            assert event.latency_ms == pytest.approx(expected, abs=0.001)
        else:
            assert event.latency_ms is None


def frame_of(message: Any, version: int, correlation_id: int = 7) -> str:
    return (correlation_id.to_bytes(4) + messages.encode(message, version)).hex()


def write(tmp_path: Path, *frames: Any) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{f if isinstance(f, str) else json.dumps(f)}\n" for f in frames))
    return path


HEARTBEAT = {
    "ms": 5,
    "conn": 1,
    "dir": "response",
    "hex": frame_of(messages.HeartbeatResponse(error_code=27), 1),
}


def test_a_response_without_its_request_is_read_as_it_was_recorded_or_marked(tmp_path: Path) -> None:
    path = write(tmp_path, HEARTBEAT | {"apiName": "Heartbeat", "apiVersion": 1}, HEARTBEAT)
    named, unnamed = timeline(str(path))
    assert (named.errors, named.latency_ms) == ({"REBALANCE_IN_PROGRESS": 1}, None)
    assert unnamed.problem == "the answer to a request that is not in the capture"


def test_a_closing_connection_reports_its_unanswered_requests() -> None:
    notes = [event.note for _, event in recorded("raw-versions") if event.kind == "close"]
    assert "unanswered: OffsetFetch v0" in notes


def test_plain_and_compressed_files_are_shown_alike(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plain = tmp_path / "a.jsonl"
    plain.write_bytes(gzip.decompress(path_of("aiokafka-admin").read_bytes()))
    assert inspect(capsys, plain) == inspect(capsys, path_of("aiokafka-admin"))


def test_undecodable_frames_are_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = inspect(capsys, path_of("raw-versions"))
    assert (code, err) == (1, "")
    assert "UNDECODABLE: ApiVersionsRequest has no version 99, only 0-4" in out
    totals = Totals()
    for _, event in recorded("raw-versions"):
        totals.add(event)
    assert out.splitlines()[-1] == str(totals)
    assert str(totals).startswith("60 requests, 53 responses, 7 undecodable; errors: INVALID_REQUEST x25, ")


def test_frames_are_explained_below_their_lines_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    _, brief, _ = inspect(capsys, path_of("aiokafka-admin"))
    _, full, _ = inspect(capsys, "--frames", path_of("aiokafka-admin"))
    lines = [f"    {line}" for _, event in recorded("aiokafka-admin") for line in event.lines]
    assert len(full.splitlines()) == len(brief.splitlines()) + len(lines)
    assert set(lines) <= set(full.splitlines())


def test_a_capture_is_printed_as_objects_with_and_without_frames(capsys: pytest.CaptureFixture[str]) -> None:
    events = [event for _, event in recorded("kafka-python-admin")]
    _, out, _ = inspect(capsys, "--json", path_of("kafka-python-admin"))
    found = [json.loads(line) for line in out.splitlines()]
    assert found == [event.object() for event in events]
    assert {"line", "ms", "connection", "kind"} <= set(found[0])
    _, out, _ = inspect(capsys, "--json", "--frames", path_of("kafka-python-admin"))
    found = [json.loads(line) for line in out.splitlines()]
    assert len(found) == len(events) + sum(len(event.lines) for event in events)
    assert all(1 <= line["line"] <= len(events) for line in found)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON at column 2: Expecting property name enclosed in double quotes"),
        ("[]", "a JSON object is expected"),
        ({"ms": 1, "conn": 1}, "not a frame of a capture: 'dir' is missing"),
        ({"ms": 1, "conn": 1, "dir": "up"}, "not a frame of a capture: dir is 'up'"),
        ({"ms": 1, "conn": 1, "dir": "request"}, "not a frame of a capture: 'hex' is missing"),
    ],
)
def test_a_line_that_is_no_frame_is_reported_with_its_number(
    line: Any, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write(tmp_path, "", line)
    assert refusal(capsys, path) == f"{path}, line 2: {said}"


def test_any_short_frame_is_marked(tmp_path: Path) -> None:
    for kind in ("request", "response"):
        frames = [{"ms": 1, "conn": 1, "dir": kind, "hex": "00" * size} for size in range(4)]
        assert all(event.problem for event in timeline(str(write(tmp_path, *frames))))


def test_a_compressed_file_that_is_cut_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(path_of("aiokafka-admin").read_bytes()[:-9])
    code, _, err = inspect(capsys, path)
    assert code == 2
    assert "the compressed file is cut or damaged" in err
    path.write_bytes(b"no gzip")
    assert refusal(capsys, path).startswith(f"{path}: Not a gzipped file")


def test_the_page_shows_a_capture(
    capsys: pytest.CaptureFixture[str], generated: GeneratedPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    path = "tests/data/captures/aiokafka-admin.jsonl.gz"
    _, out, _ = inspect(capsys, path)
    generated.check("docs/inspect.md", "capture", f"```console\n$ kafka-offsets inspect {path}\n{out}```")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_capture_is_read_in_every_encoding(encoding: str, ending: str, tmp_path: Path) -> None:
    lines = ['{"ms": 0, "conn": 1, "dir": "open"}', "", '{"ms": 1, "conn": 1, "dir": "close"}']
    path = tmp_path / "a.jsonl"
    path.write_bytes("".join(line + ending for line in lines).encode(encoding))
    assert [(event.number, event.kind) for event in timeline(str(path))] == [(1, "open"), (3, "close")]


def test_an_invisible_character_in_a_capture_is_written_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"ms": 0,\u200b"conn": 1}\n', encoding="utf-8")
    with pytest.raises(InspectError, match=r"line 1: not JSON at column 10: .*: '\\u200b\"conn\": 1}'"):
        list(timeline(str(path)))


def test_the_hex_of_a_capture_may_have_colons(tmp_path: Path) -> None:
    frame = messages.encode(messages.ApiVersionsResponse(), 0)
    path = tmp_path / "a.jsonl"
    row = {"ms": 0, "conn": 1, "dir": "response", "apiName": "ApiVersions", "apiVersion": 0}
    path.write_text(json.dumps(row | {"hex": (b"\0\0\0\1" + frame).hex(":")}))
    (event,) = timeline(str(path))
    assert (event.api, event.size, event.problem) == ("ApiVersions", 4 + len(frame), "")
