"""`kafka-offsets inspect`: explains a file or hex, one line per field."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from kafka_offsets.inspect.batches import (
    INDEX_ENTRIES,
    RecordExplainer,
    explain_batches,
    explain_index,
    is_batch,
)
from kafka_offsets.inspect.capture import CAPTURE_ENDINGS, HEADING, TimelineEvent, Totals, timeline
from kafka_offsets.inspect.declarations import InspectError
from kafka_offsets.inspect.frame import explain_response
from kafka_offsets.inspect.guess import explain_frame
from kafka_offsets.inspect.hex_text import from_hex
from kafka_offsets.inspect.lines import JsonLines, Line, json_error
from kafka_offsets.inspect.message import OFFSETS_TOPIC, STORED, explain_record
from kafka_offsets.terminal import printable
from kafka_offsets.texts import TextError, decoded, lines_of

_MAX_HEX_BYTES = 1 << 28
_BINARY = re.compile(r"[\x00-\x08\x0e-\x1f]")
_SEGMENT_ENDINGS = (".deleted", ".cleaned", ".swap", ".new")
_REFUSED = {
    ".snapshot": "a snapshot of producer state, which this command does not explain",
    "-checkpoint": "a checkpoint, which is text already",
    ".checkpoint": "a checkpoint, which this command does not explain",
    ".metadata": "text already",
    ".properties": "text already",
}

_EMPTY = (Line(0, 0, 0, "(empty)"),)

_EPILOG = """\
Each line: position of the first byte, number of bytes, name, value. A + marks positions in decompressed records.
Hex may be as xxd, hexdump -C, od -t x1, tcpdump -X, Wireshark, Python, C or Go print it. Bytes need no hex.
Exit code: 0 when all is well, 1 when damage was found, 2 when the input cannot be explained.
"""


class _Parser(argparse.ArgumentParser):
    """Prints errors in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Write the error to standard error, and exit with code 2."""
        self.exit(2, printable(f"{self.prog}: {message} (see {self.prog} --help)") + "\n")


def main(words: Sequence[str]) -> int:
    """Run `kafka-offsets inspect`; return its exit code: 1 if the input is damaged.

    Raises InspectError if the input cannot be explained.
    """
    options = _parser().parse_args(words)
    show = _show_timeline if options.path.endswith(CAPTURE_ENDINGS) else _show_lines
    if not options.json:
        return show(options)
    try:
        return show(options)
    except InspectError as error:
        print(json_error(str(error)))
        return 2


def _show_lines(options: argparse.Namespace) -> int:
    form: Callable[[Line], str] = JsonLines() if options.json else str
    damaged = False
    for line in _explain(options):
        damaged = damaged or line.damage
        print(_shown(form(line)))
    return int(damaged)


def _show_timeline(options: argparse.Namespace) -> int:
    totals = Totals()
    for event in timeline(options.path):
        if options.json:
            print(json.dumps(event.object()))
        else:
            if not totals.events:
                print(HEADING)
            print(_shown(event))
        totals.add(event)
        if options.frames:
            _show_frame(event, as_json=options.json)
    if not options.json:
        print(totals)
    return int(totals.undecodable > 0)


def _show_frame(event: TimelineEvent, *, as_json: bool) -> None:
    form = JsonLines()
    for line in event.lines:
        if as_json:
            print(json.dumps({"line": event.number, **form.object(line)}))
        else:
            print(_shown(f"    {line}"))


def _shown(line: object) -> str:
    """Return a line without what controls a terminal, and without characters that its encoding does not have."""
    encoding = sys.stdout.encoding or "utf-8"
    return printable(str(line)).encode(encoding, "backslashreplace").decode(encoding)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="kafka-offsets inspect")
    add_arguments(parser)
    return parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `kafka-offsets inspect`."""
    parser.description = (
        "Explain a file of a log directory (.log, .index, .timeindex, .txnindex), "
        "a wire capture (.jsonl, .jsonl.gz), or a frame in hex."
    )
    parser.epilog, parser.formatter_class = _EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "path",
        metavar="FILE",
        help="a file of a log directory, a capture, a file of hex, or - for hex on standard input",
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--response",
        nargs=2,
        metavar=("API", "VERSION"),
        help="the hex is the response to a request of this API, by name or key, and version; "
        "without this option, a frame that is not a request is guessed to be a response",
    )
    kinds.add_argument(
        "--record",
        action="store_true",
        help="the hex is a record of the offsets topic or of --topic: the key, and on the next line the value",
    )
    topics = parser.add_mutually_exclusive_group()
    topics.add_argument(
        "--topic",
        choices=list(STORED),
        help="the topic of the records (default: that of the file's folder; for --record: __consumer_offsets)",
    )
    topics.add_argument(
        "--offsets-topic",
        dest="topic",
        action="store_const",
        const="__consumer_offsets",
        help="the same as --topic __consumer_offsets",
    )
    parser.add_argument(
        "--frames", action="store_true", help="explain each frame of a capture below its line"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line, also for errors")


def _explain(options: argparse.Namespace) -> Iterable[Line]:
    path: str = options.path
    ending = _ending(path)
    stored = STORED.get(options.topic)
    if ending == ".log":
        stored = stored or STORED.get(Path(path).resolve().parent.name.rpartition("-")[0])
        data = _read(path)
        return explain_batches(data, explainer=stored) if data else _EMPTY
    if ending in INDEX_ENTRIES:
        stem = Path(path).name.partition(".")[0]
        data = _read(path)
        return (
            explain_index(data, ending, int(stem) if re.fullmatch("[0-9]+", stem) else None)
            if data
            else _EMPTY
        )
    text, data = _given(path)
    if options.record:
        return _explain_record(text, stored or OFFSETS_TOPIC)
    if options.response is not None:
        api, version = options.response
        if not re.fullmatch("[0-9]{1,5}", version):
            raise InspectError(f"{version!r} is no version number")
        return explain_response(data or from_hex(text), api, int(version), stored=stored)
    if not data:
        return _explain_bytes(from_hex(text), stored)
    try:
        return _explain_bytes(data, stored)
    except InspectError as error:
        source = "standard input" if path == "-" else path
        what = "no file of a log directory, by its name, no hex, and no frame or batch"
        raise InspectError(f"{source}: {what}: {error}") from error


def _explain_bytes(data: bytes, stored: RecordExplainer | None) -> Iterable[Line]:
    """Explain batches, otherwise a frame."""
    return explain_batches(data, explainer=stored) if is_batch(data) else explain_frame(data, stored=stored)


def _explain_record(text: str, stored: RecordExplainer) -> list[Line]:
    lines = [line for _, line in lines_of(text)]
    if not lines:
        raise InspectError("a record is given as hex")
    # Two words on one line are also key and value: separate bytes would have two digits each.
    words = lines[0].split()
    if len(lines) == 1 and len(words) == 2 and max(map(len, words)) > 2:
        lines = words
    if len(lines) > 2:
        raise InspectError(
            f"a record needs one line for its key and one for its value, not {len(lines)} lines"
        )
    return explain_record(from_hex(lines[0]), from_hex(lines[1]) if len(lines) > 1 else None, stored)


# -- files --------------------------------------------------------------------------------------------------------


def _ending(path: str) -> str:
    """Return the ending of a file of a log directory, without a temporary suffix. Raises InspectError if refused."""
    name = Path(path).name
    for ending, reason in _REFUSED.items():
        if name.endswith(ending):
            raise InspectError(f"{path}: {reason}")
    for state in _SEGMENT_ENDINGS:
        name = name.removesuffix(state)
    return Path(name).suffix


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InspectError(_refusal(path, error)) from error


def _refusal(path: str, error: OSError) -> str:
    """Describe an OSError; for a directory name a file that can be read."""
    if not isinstance(error, IsADirectoryError):
        return f"{path}: {error.strerror}"
    segments = sorted(Path(path).glob("*.log"))
    such = f", such as {segments[0].name}" if segments else ""
    return f"{path}: a directory: name a file in it{such}; kafka-offsets check reads a whole directory"


def _given(path: str) -> tuple[str, bytes]:
    """Return the text of a file, or of standard input for "-"; its bytes beside an empty text if they are no text.

    The input has a size limit, because it may be endless.
    """
    source = "standard input" if path == "-" else path
    try:
        if path == "-":
            if sys.stdin is None:
                raise InspectError("standard input is closed")
            data = sys.stdin.buffer.read(_MAX_HEX_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(_MAX_HEX_BYTES + 1)
    except OSError as error:
        raise InspectError(_refusal(source, error)) from error
    if len(data) > _MAX_HEX_BYTES:
        raise InspectError(f"{source}: more than {_MAX_HEX_BYTES} bytes, which is too much for hex")
    try:
        text = decoded(data, source)
    except TextError:
        return "", data
    if not text.strip():
        raise InspectError(f"{source}: the input is empty")
    return ("", data) if _BINARY.search(text) else (text, b"")
