"""`kafka-offsets inspect --json`: everything that is printed, for machines."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.inspect.batches import explain_batches
from kafka_offsets.inspect.frame import explain_request
from kafka_offsets.inspect.lines import JsonLines, Line
from kafka_offsets.inspect.message import OFFSETS_TOPIC, explain_message
from kafka_offsets.protocol import messages
from tests.conftest import REPOSITORY, GeneratedPart
from tests.inspect.explained import KEY, SEGMENT, VALID_FRAMES, VALUE, give, inspect


def objects(lines: list[Line]) -> list[dict[str, Any]]:
    form = JsonLines()
    return [json.loads(form(line)) for line in lines]


@pytest.mark.parametrize("name", VALID_FRAMES)
def test_every_line_of_a_request_is_an_object_with_the_same_values(name: str) -> None:
    lines = explain_request(VALID_FRAMES[name])
    for line, found in zip(lines, objects(lines), strict=True):
        assert [found[key] for key in ("position", "size", "depth", "name", "value")] == list(line[:5])
        assert found["path"].rpartition("/")[2] == line.name
        assert "damage" not in found and "unpacked" not in found


def test_a_segment_is_printed_as_objects(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = inspect(capsys, "--json", REPOSITORY / SEGMENT)
    assert (code, err) == (0, "")
    lines = explain_batches((REPOSITORY / SEGMENT).read_bytes(), explainer=OFFSETS_TOPIC)
    assert [json.loads(line) for line in out.splitlines()] == objects(list(lines))


def test_paths_lead_from_the_message_to_the_field_and_are_unique() -> None:
    found = objects(explain_request(VALID_FRAMES["OffsetCommit v8"]))
    paths = [line["path"] for line in found]
    assert "OffsetCommitRequest version 8/topics[0]/partitions[0]/committed_offset" in paths
    assert len(set(paths)) == len(paths)


def test_contents_are_whole_where_values_are_cut() -> None:
    message = messages.OffsetCommitValue(5, metadata="m" * 4096, commit_timestamp=1)
    lines, _ = explain_message("OffsetCommitValue", 3, messages.encode(message, 3))
    contents = {line["name"]: line.get("content") for line in objects(lines)}
    assert contents == {"offset": 5, "leader_epoch": -1, "metadata": "m" * 4096, "commit_timestamp": 1}


def test_bytes_are_hex_null_is_null_and_what_json_cannot_say_is_text() -> None:
    form = JsonLines()
    contents = [b"\x00\xff", None, True, float("nan"), float("-inf"), 1.5]
    given = [form.object(Line(0, 0, 0, "x", content=content))["content"] for content in contents]
    assert given == ["00ff", None, True, "nan", "-inf", 1.5]
    assert "content" not in form.object(Line(0, 0, 0, "x"))


def test_damage_is_reported_and_is_exit_code_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes((REPOSITORY / SEGMENT).read_bytes()[:200])
    code, out, _ = inspect(capsys, "--json", path)
    assert code == 1
    assert json.loads(out.splitlines()[0])["damage"] is True


def test_what_cannot_be_explained_is_an_object_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, "000")
    code, out, err = inspect(capsys, "--json", "-")
    assert (code, json.loads(out), err) == (
        2,
        {"error": "hex line 1 column 1: not hex: 3 digits, an odd number"},
        "",
    )


def test_the_page_shows_objects(
    capsys: pytest.CaptureFixture[str], generated: GeneratedPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, f"{KEY} {VALUE}")
    _, out, _ = inspect(capsys, "--json", "--record", "-")
    command = f"$ echo {KEY} {VALUE} | kafka-offsets inspect --json --record -"
    generated.check("docs/inspect.md", "json", f"```console\n{command}\n{out}```")
