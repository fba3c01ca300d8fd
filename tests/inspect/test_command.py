"""`kafka-offsets inspect`: what it prints, its exit codes, and its page."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafka_offsets.inspect.frame import explain_request
from kafka_offsets.inspect.message import explain_record
from tests.conftest import DATA, REPOSITORY, GeneratedPart
from tests.inspect.explained import INDEXES, KEY, SEGMENT, VALID_FRAMES, VALUE, batch, give, inspect, refusal


def test_a_segment_is_explained_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = inspect(capsys, REPOSITORY / SEGMENT)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "       0    207  batch of offsets 0 to 1              CRC ok"
    assert "type                           1 (OffsetCommit)" in out


def test_a_segment_elsewhere_is_of_the_offsets_topic_with_the_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "00000000000000000000.log.deleted"
    shutil.copy(REPOSITORY / SEGMENT, path)
    assert "OffsetCommit" not in inspect(capsys, path)[1]
    assert "OffsetCommit" in inspect(capsys, "--offsets-topic", path)[1]


def test_damage_is_exit_code_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes((REPOSITORY / SEGMENT).read_bytes()[:200])
    code, out, err = inspect(capsys, path)
    assert (code, err) == (1, "")
    assert "torn tail" in out.splitlines()[0]
    hurt = bytearray((REPOSITORY / SEGMENT).read_bytes())
    hurt[100] ^= 1
    path.write_bytes(hurt)
    code, out, _ = inspect(capsys, path)
    assert code == 1
    assert "CRC WRONG" in out


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000000000.index", "x.timeindex"])
def test_an_empty_file_of_a_log_directory_is_empty_and_sound(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / name).touch()
    assert inspect(capsys, tmp_path / name) == (0, "       0      0  (empty)\n", "")


def test_index_files_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for path in INDEXES:
        assert inspect(capsys, DATA / "logs" / path)[0] == 0


def xxd(data: bytes) -> str:
    rows = [data[start : start + 16] for start in range(0, len(data), 16)]
    return "".join(f"{16 * n:08x}: {row.hex(' ', 2):<39}  {text(row)}\n" for n, row in enumerate(rows))


def hexdump(data: bytes) -> str:
    rows = [data[start : start + 16] for start in range(0, len(data), 16)]
    halves = [f"{row[:8].hex(' ')}  {row[8:].hex(' ')}" for row in rows]
    return "".join(
        f"{16 * n:08x}  {half:<48}  |{text(row)}|\n"
        for n, (row, half) in enumerate(zip(rows, halves, strict=True))
    ) + (f"{len(data):08x}\n")


def tcpdump(data: bytes) -> str:
    rows = [data[start : start + 16] for start in range(0, len(data), 16)]
    return "".join(f"\t0x{16 * n:04x}:  {row.hex(' ', -2):<39}  {text(row)}\n" for n, row in enumerate(rows))


def text(row: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)


FORMS = {
    "plain": lambda data: data.hex(),
    "upper": lambda data: "0x" + data.hex().upper() + "\n",
    "spaces": lambda data: data.hex(" "),
    "lines": lambda data: "\n\n".join(data[n : n + 10].hex(" ", 3) for n in range(0, len(data), 10)),
    "xxd": xxd,
    "hexdump -C": hexdump,
    "tcpdump -X": tcpdump,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", VALID_FRAMES)
def test_hex_is_read_in_every_form(
    form: str, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = "".join(f"{line}\n" for line in explain_request(VALID_FRAMES[name]))
    give(monkeypatch, FORMS[form](VALID_FRAMES[name]))
    assert inspect(capsys, "-") == (0, expected, "")


@pytest.mark.parametrize(("tool", "form"), [(["xxd"], xxd), (["hexdump", "-C", "-v"], hexdump)])
def test_the_forms_of_hex_are_those_of_the_tools(tool: list[str], form: Any) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    data = VALID_FRAMES["OffsetCommit v8"]
    done = subprocess.run(tool, input=data, capture_output=True, check=True)
    assert done.stdout.decode().split() == form(data).split()


def test_hex_is_read_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "frame.hex").write_text(VALID_FRAMES["Heartbeat v4"].hex(" "))
    assert "HeartbeatRequest version 4" in inspect(capsys, tmp_path / "frame.hex")[1]


@pytest.mark.parametrize(
    "given", [f"{KEY}\n{VALUE}\n", f"{KEY} {VALUE}", "00 01 0001 67 0001 74 00000003\n" + VALUE]
)
def test_a_record_is_explained_from_key_and_value(
    given: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, given)
    code, out, err = inspect(capsys, "--record", "-")
    assert (code, err) == (0, "")
    assert re.search(r"partition +3\n", out)
    assert re.search(r"offset +42\n", out)


@pytest.mark.parametrize("form", ["hex", "bytes", "UTF-16"])
@pytest.mark.parametrize("damaged", [False, True])
def test_a_batch_is_explained_from_hex_and_from_a_pipe(
    form: str, damaged: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytearray(batch(b"one", b"two"))
    data[-1] ^= damaged
    forms = {"hex": data.hex(" ").encode(), "bytes": bytes(data), "UTF-16": data.hex().encode("utf-16")}
    give(monkeypatch, forms[form])
    code, out, err = inspect(capsys, "-")
    assert (code, err) == (int(damaged), "")
    assert "CRC WRONG" in out if damaged else "batch of offsets 0 to 1" in out


def test_a_segment_from_a_pipe_is_explained_as_its_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = inspect(capsys, "--offsets-topic", REPOSITORY / SEGMENT)
    give(monkeypatch, (REPOSITORY / SEGMENT).read_bytes())
    assert inspect(capsys, "--offsets-topic", "-") == expected


def test_a_frame_from_a_pipe_is_explained_as_its_hex(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = VALID_FRAMES["Heartbeat v4"]
    for data in (frame, len(frame).to_bytes(4) + frame):
        give(monkeypatch, data.hex())
        expected = inspect(capsys, "-")
        give(monkeypatch, data)
        assert inspect(capsys, "-") == expected and expected[0] == 0


def test_a_record_without_a_value_is_a_tombstone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, KEY)
    assert "null: a tombstone" in inspect(capsys, "--record", "-")[1]


def test_a_record_of_an_unknown_type_is_shown_as_bytes() -> None:
    lines = explain_record(bytes.fromhex("7fff0102"), bytes.fromhex("00050a"))
    assert [line.value for line in lines if line.depth] == [
        "32767 (not known here)",
        "2 bytes: 01 02",
        "5",
        "1 byte: 0a",
    ]


@pytest.mark.parametrize(
    ("given", "words", "said"),
    [
        ("", [], "standard input: the input is empty"),
        (" \n", [], "standard input: the input is empty"),
        ("xyz", [], "hex line 1 column 1: not hex: 'xyz'"),
        ("00 01\r\n02 0\u200b3", [], r"hex line 2 column 5: not hex: '\u200b3'"),
        ("000", [], "hex line 1 column 1: not hex: 3 digits, an odd number"),
        ("00000000: 0008 0002\nhello", [], "hex line 2 column 1: not a line of a hex dump: 'hello'"),
        (
            "00000000  00 08 00 02  |....|\n*\n00000013",
            [],
            (
                "hex line 3 column 1: the offset 00000013 does not follow 4 bytes "
                "(print repeated lines in full, as hexdump -v does)"
            ),
        ),
        (
            b"\xff\xff",
            [],
            (
                "standard input: no file of a log directory, by its name, no hex, and no frame or batch: "
                "a request header takes 8 bytes, and there are 2"
            ),
        ),
        ("00", [], "a request header takes 8 bytes, and there are 1"),
        ("00", ["--response", "Nothing", "0"], "no API is called 'Nothing'"),
        ("00", ["--response", "999", "0"], "API key 999 is not known here"),
        ("00", ["--response", "OffsetCommit", "x"], "'x' is no version number"),
        ("00", ["--response", "OffsetCommit", "77"], "OffsetCommitResponse has no version 77, only 0-10"),
        (
            "00",
            ["--response", "OffsetCommit", "0"],
            "ResponseHeader version 0 at byte 1: correlation_id: the bytes end too soon",
        ),
        ("00", ["--record"], "a key of 1 byte has no record type"),
        ("0001", ["--record"], "OffsetCommitKey version 0 at byte 2: group: the bytes end too soon"),
        (f"{KEY}\n00", ["--record"], "a value of 1 byte has no version"),
        (
            "00\n01\n02",
            ["--record"],
            "a record needs one line for its key and one for its value, not 3 lines",
        ),
        ("00010001ff000174", ["--record"], "OffsetCommitKey version 0 at byte 5: a string that is not UTF-8"),
    ],
)
def test_what_cannot_be_explained_is_reported_in_one_line(
    given: str | bytes,
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give(monkeypatch, given)
    assert refusal(capsys, "-", *words) == said


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/dev/null", "/dev/null: the input is empty"),
        ("/dev/zero", "/dev/zero: more than 268435456 bytes, which is too much for hex"),
        ("/no/such/file", "/no/such/file: No such file or directory"),
        ("/no/such/file.log", "/no/such/file.log: No such file or directory"),
        ("", ": No such file or directory"),
    ],
)
def test_a_path_that_cannot_be_read_is_reported(
    path: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "/dev/zero":
        monkeypatch.setattr("kafka_offsets.commands.inspect._MAX_HEX_BYTES", 1000)
        said = said.replace("268435456", "1000")
    assert refusal(capsys, path) == said


@pytest.mark.parametrize("name", ["topic-0", "topic-0.log"])
def test_a_directory_is_reported(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    said = f"{folder}: a directory: name a file in it{{}}; kafka-offsets check reads a whole directory"
    assert refusal(capsys, folder) == said.format("")
    (folder / "00000000000000000007.log").touch()
    assert refusal(capsys, folder) == said.format(", such as 00000000000000000007.log")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "00000000000000000003.snapshot",
            "a snapshot of producer state, which this command does not explain",
        ),
        ("leader-epoch-checkpoint", "a checkpoint, which is text already"),
        ("partition.metadata", "text already"),
    ],
)
def test_other_files_of_a_log_directory_are_refused_by_name(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = (REPOSITORY / SEGMENT).with_name(name)
    assert path.exists()
    assert refusal(capsys, path) == f"{path}: {said}"


@pytest.mark.parametrize(
    "words", [[], ["--response", "-"], ["--recrd", "-"], ["-", "--record", "--response", "8", "2"]]
)
def test_a_wrong_option_is_reported_in_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, *words).startswith("kafka-offsets inspect: ")


def test_closed_standard_input_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert refusal(capsys, "-") == "standard input is closed"


def test_what_the_terminal_cannot_show_is_escaped() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kafka_offsets.cli", "inspect", "-"],
        input=bytes.fromhex("0010000000000001") + b"",
        capture_output=True,
        cwd=REPOSITORY,
    )
    assert done.returncode == 2  # raw bytes are no hex
    group = "0008000200000001000178" + "0004f09f9880" + "ffffffff" + "0000" + "ffffffffffffffff" + "00000000"
    done = subprocess.run(
        [sys.executable, "-m", "kafka_offsets.cli", "inspect", "-"],
        input=group.encode(),
        capture_output=True,
        cwd=REPOSITORY,
        env={"PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"'\U0001f600'" in done.stdout


def test_construct_is_imported_by_this_command_alone() -> None:
    source = "import sys, kafka_offsets.cli, kafka_offsets.broker.network.server; print('construct' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, cwd=REPOSITORY, check=True
    )
    assert done.stdout.strip() == "False"


PAGE = "docs/inspect.md"


def shown(capsys: pytest.CaptureFixture[str], command: str, *words: str | Path) -> str:
    """A command and its output, as they stand on the page."""
    _, out, err = inspect(capsys, *words)
    return f"```console\n$ {command}\n{out}{err}```"


def test_the_page_shows_a_segment_as_the_command_explains_it(
    capsys: pytest.CaptureFixture[str], generated: GeneratedPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    path = "tests/data/logs/compact-before/__consumer_offsets-0/00000000000000000482.log"
    generated.check(PAGE, "segment", shown(capsys, f"kafka-offsets inspect {path}", path))


def test_the_page_shows_a_request_and_its_response(
    capsys: pytest.CaptureFixture[str], generated: GeneratedPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = VALID_FRAMES["SyncGroup v5"]
    give(monkeypatch, frame.hex())
    wrapped = " ".join(re.findall(".{1,90}", frame.hex())).replace(" ", " \\\n  ")
    generated.check(PAGE, "request", shown(capsys, f"echo {wrapped} | kafka-offsets inspect -", "-"))
    give(monkeypatch, "00000007 00000000 001b")
    command = "echo 00000007 00000000 001b | kafka-offsets inspect - --response Heartbeat 1"
    generated.check(PAGE, "response", shown(capsys, command, "-", "--response", "Heartbeat", "1"))


def test_the_page_shows_a_record(
    capsys: pytest.CaptureFixture[str], generated: GeneratedPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, f"{KEY} {VALUE}")
    command = f"echo {KEY} {VALUE} | kafka-offsets inspect --record -"
    generated.check(PAGE, "record", shown(capsys, command, "--record", "-"))


def test_the_page_shows_a_torn_tail(
    capsys: pytest.CaptureFixture[str],
    generated: GeneratedPart,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    data = (DATA / "logs/clients/__consumer_offsets-3/00000000000000000000.log").read_bytes()
    monkeypatch.chdir(tmp_path)
    Path("torn.log").write_bytes(data[:200])
    _, out, _ = inspect(capsys, "--offsets-topic", "torn.log")
    (first, *_, tail) = [block for block in re.split(r"\n(?= +\d+ +\d+  \S)", out) if block]
    command = (
        "head -c 200 tests/data/logs/clients/__consumer_offsets-3/00000000000000000000.log > /tmp/torn.log"
    )
    rest = tail.rstrip("\n")
    generated.check(
        PAGE,
        "torn tail",
        f"```console\n$ {command}\n$ kafka-offsets inspect --offsets-topic /tmp/torn.log\n"
        f"{first.splitlines()[0]}\n     …\n{rest}\n$ echo $?\n1\n```",
    )


def test_the_page_names_every_option() -> None:
    page = (REPOSITORY / PAGE).read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "kafka_offsets.cli", "inspect", "--help"],
        capture_output=True, text=True, cwd=REPOSITORY, check=True,
    )  # fmt: skip
    options = set(re.findall(r"--[a-z-]+", done.stdout)) - {"--help"}
    assert options
    assert all(option in page for option in options)
