"""What the tests of the inspector share: their input, the command, and the rule that every byte is explained once."""

import gzip
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets import cli
from kafka_offsets.inspect.lines import Line
from kafka_offsets.protocol.records import encode_batch
from tests.conftest import DATA


def json_lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    return [
        json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
    ]


VECTORS = DATA / "vectors"
MESSAGES = sorted(path.name.removesuffix(".jsonl.gz") for path in VECTORS.glob("*.jsonl.gz"))
INDEXES = sorted(
    path.relative_to(DATA / "logs").as_posix()
    for ending in ("index", "timeindex", "txnindex")
    for path in DATA.glob(f"logs/*/*/*.{ending}")
)
SEGMENT = "tests/data/logs/classic/__consumer_offsets-2/00000000000000000000.log"


KEY, VALUE = (
    "000100016700017400000003",
    "0003000000000000002affffffff00016d0000018bcfe56800",
)
"""A committed offset as it is stored: 42 for partition 3 of topic t, by group g."""

BAD_FRAMES = {frame["name"]: frame for frame in json_lines(DATA / "bad_frames.jsonl") if "hex" in frame}
VALID_FRAMES = {
    frame["name"]: bytes.fromhex(frame["hex"]) for frame in json_lines(DATA / "valid_frames.jsonl")
}


def assert_tiled(lines: list[Line], start: int, size: int) -> None:
    """Fail unless the lines of each depth cover what stands above them, every byte once and in order."""
    end = start
    for line, below in families(lines):
        assert line.position == end, f"a gap or an overlap at {end}: {line}"
        end += line.size
        if below and below[0].unpacked and not line.unpacked:
            unpacked = int(line.value.split()[0])
            assert_tiled(below, 0, unpacked)
        elif below:
            assert_tiled(below, line.position, line.size)
    assert end == start + size


def families(lines: list[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """Each of the least deep lines with those below it."""
    heads = [number for number, line in enumerate(lines) if line.depth == lines[0].depth] if lines else []
    for head, following in zip(heads, [*heads[1:], len(lines)][: len(heads)], strict=True):
        yield lines[head], lines[head + 1 : following]


def value_of(lines: list[Line], name: str) -> str:
    (found,) = [line.value for line in lines if line.name == name]
    return found


def inspect(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    """Run the command; return its exit code and what it printed on standard output and error."""
    code: object
    try:
        code = cli.main(["inspect", *map(str, words)])
    except SystemExit as exit_:  # argparse's way
        code = exit_.code
    said = capsys.readouterr()
    assert isinstance(code, int)
    return code, said.out, said.err


def refusal(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    code, out, err = inspect(capsys, *words)
    assert (code, out) == (2, "")
    assert err.endswith("\n") and err.count("\n") == 1
    return err.removeprefix("kafka-offsets: ").rstrip("\n")


def give(monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> None:
    """Put something on standard input."""
    data = text.encode() if isinstance(text, str) else text
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def batch(*values: bytes, **options: Any) -> bytes:
    return bytes(encode_batch([(b"k", value, (), 1_700_000_000_000) for value in values], **options))
