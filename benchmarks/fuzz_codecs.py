"""Coverage-guided fuzzing of everything that reads bytes of a peer or of the disk.

    make fuzz                                        10,000,000 executions, continued where the last run stopped
    python benchmarks/fuzz_codecs.py --short         20,000, in a folder that is removed again
    python benchmarks/fuzz_codecs.py --executions N --seconds S --corpus FOLDER
    python benchmarks/fuzz_codecs.py --input FILE    one input again, with its traceback

Targets are the decoders of every version of every message, headers included, the frame reader with what follows it,
record batches, message sets, and the keys and values of the offsets topic. The first two bytes of an input choose the
target, by a checksum of its name, so that a corpus stays good when messages are added. For any bytes a decoder must

- return or raise ProtocolError, no other exception;
- read again, as the same value, what it accepted and the encoder wrote;
- end within a second of CPU time (inputs have at most 4096 bytes);
- allocate no more than a multiple of its input: a sample of the inputs, 1 in 50, is traced.

Needs atheris (pip install atheris), which runs libFuzzer inside Python. It works in slices, each a process of its own;
the corpus, the count of executions and the findings (crash-*, timeout-*) stay in the folder, by default .fuzz.
"""

import argparse
import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

FULL, SHORT = 10_000_000, 20_000
SLICE_S = 600
MAX_INPUT_BYTES = 4096
CPU_LIMIT_S = 1.0
TRACED_EVERY = 50
ALLOWED_TIMES, ALLOWED_BYTES = 128, 256 * 1024
MAX_DECOMPRESSED_BYTES = 64 * 1024
DECOMPRESSED_TIMES = 64  # tiny records: see records.read_records
SELECTOR = struct.Struct(">H")


class Broken(Exception):  # noqa: N818 - a finding, not an error
    """What a decoder must not do."""


class Target(NamedTuple):
    """Something that reads bytes.

    read     raises ProtocolError, or returns
    seed     bytes that it accepts
    allowed  bytes that it may allocate whatever the input
    """

    name: str
    read: Callable[[bytes], object]
    seed: bytes
    allowed: int = ALLOWED_BYTES


# The targets. The package is imported here and not above, so that atheris instruments it.


def message_target(cls: Any, version: int) -> Target:
    from kafka_offsets.protocol import messages

    def read(data: bytes) -> None:
        value, end = messages.decode(cls, data, version)
        if not 0 <= end <= len(data):
            raise Broken(f"read up to byte {end} of {len(data)}")
        again, _ = messages.decode(cls, messages.encode(value, version), version)
        if again != value and "nan" not in repr(value):
            raise Broken(f"{value} was written and read as {again}")

    return Target(f"{cls.__name__} v{version}", read, messages.encode(cls(), version))


def frames_target(requests: dict[int | None, Any]) -> Target:
    """A stream in two pieces; of all frames that come out, the headers and requests are read."""
    from kafka_offsets.protocol import connection, messages

    def read(data: bytes) -> None:
        reader = connection.FrameReader(MAX_INPUT_BYTES)
        for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
            reader.feed(piece)
            while (frame := reader.next_frame()) is not None:
                api_key, version = connection.read_api_key_and_version(frame)
                cls = requests.get(api_key)
                if cls is not None and version in cls.SCHEMA.versions:
                    tagged = version in cls.SCHEMA.flexible
                    position = connection.read_request_header(frame, tagged=tagged)[2]
                    messages.decode(cls, frame, version, position)

    heartbeat = struct.pack(">hhih", 12, 4, 7, 6) + b"client" + b"\x00"
    heartbeat += messages.encode(messages.HeartbeatRequest("g", 1, "m"), 4)
    return Target("frames", read, struct.pack(">i", len(heartbeat)) + heartbeat)


def read_batches(data: bytes) -> None:
    from kafka_offsets.errors import ProtocolError
    from kafka_offsets.protocol import records

    for position, header in records.batch_headers(data):
        try:
            records.verify_crc(data, position, header)
        except ProtocolError:
            pass  # the fuzzer does not compute checksums: what lies after them is read all the same
        for record in records.read_records(data, position, header, max_bytes=MAX_DECOMPRESSED_BYTES):
            if header.is_control:
                records.control_type(record)


def read_message_set(data: bytes) -> None:
    from kafka_offsets.protocol import message_set

    header = message_set.read_message_header(data)
    message_set.read_messages(data, 0, MAX_DECOMPRESSED_BYTES)
    message_set.verify_message_crc(data, 0, header)


def targets() -> list[Target]:
    """All of them; the compiled decoders come with the first call."""
    from kafka_offsets.coordinator.state import stored
    from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
    from kafka_offsets.protocol import messages, records
    from kafka_offsets.protocol.compression import Compression

    found = []
    for name in messages.names():
        cls = messages.find(name)
        versions = cls.SCHEMA.versions
        found += [message_target(cls, version) for version in range(versions.first, versions.last + 1)]
    new = [(b"key", b"value" * 20, (("header", None),), 1_700_000_000_000 + index) for index in range(3)]
    decompressed = ALLOWED_BYTES + DECOMPRESSED_TIMES * MAX_DECOMPRESSED_BYTES
    for compression in Compression:
        batch = bytes(records.encode_batch(new, compression=compression))
        found.append(Target(f"batch {compression.name}", read_batches, batch, decompressed))
    value = b"\xff\xff\xff\xff" + struct.pack(">i", 5) + b"value"
    for magic, timestamp in ((0, b""), (1, bytes(8))):
        checked = struct.pack(">bb", magic, 0) + timestamp + value
        message = struct.pack(">qiI", 0, len(checked) + 4, zlib.crc32(checked)) + checked
        found.append(Target(f"message set {magic}", read_message_set, message, decompressed))
    classes = [messages.find(name) for name in messages.names()]
    found.append(frames_target({cls.SCHEMA.number: cls for cls in classes if cls.SCHEMA.kind == "request"}))
    key = stored.offset_key("group", "topic", 1)
    found.append(Target("stored key", stored.parse_key, key))
    offset = stored.offset_value(OffsetAndMetadata(1, 2, "metadata", 3, -1, bytes(16), 4))
    found.append(Target("stored offset", lambda data: stored.parse_offset_value(data, 0), offset))
    group = stored.group_record("group", messages.GroupMetadataValue()).value
    assert group is not None
    found.append(Target("stored group", stored.parse_group_value, group))
    return found


class Chooser:
    """Runs inputs: finds the target that the first two bytes name, and holds it to its promises."""

    def __init__(self, found: list[Target]) -> None:
        self.executions = 0
        self.by_number: dict[int, Target] = {}
        for target in found:
            number = zlib.crc32(target.name.encode()) & 0xFFFF
            while number in self.by_number:
                number = (number + 1) & 0xFFFF
            self.by_number[number] = target
        self.numbers = sorted(self.by_number)

    def seeds(self) -> list[bytes]:
        return [SELECTOR.pack(number) + self.by_number[number].seed for number in self.numbers]

    def run(self, data: bytes) -> None:
        """Run one input. Raises Broken, or whatever the decoder should not have raised."""
        from bisect import bisect_left

        from kafka_offsets.errors import ProtocolError

        if len(data) < SELECTOR.size:
            return
        (wanted,) = SELECTOR.unpack_from(data)
        number = self.numbers[bisect_left(self.numbers, wanted) % len(self.numbers)]
        target, body = self.by_number[number], data[SELECTOR.size :]
        self.executions += 1
        start = time.process_time()
        try:
            target.read(body)
        except ProtocolError:
            pass
        except Exception as error:
            raise Broken(f"{target.name}: {type(error).__name__}: {error}") from error
        taken = time.process_time() - start
        if taken > CPU_LIMIT_S:
            raise Broken(f"{target.name}: {len(body)} bytes took {taken:.1f} s")
        if self.executions % TRACED_EVERY == 0:
            self.trace(target, body)

    def trace(self, target: Target, body: bytes) -> None:
        """Run an input again, now that everything is compiled, and look at what it allocates."""
        from kafka_offsets.errors import ProtocolError

        tracemalloc.start()
        try:
            target.read(body)
        except ProtocolError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        if peak > ALLOWED_TIMES * len(body) + target.allowed:
            raise Broken(f"{target.name}: {len(body)} bytes made it allocate {peak}")


# The slices.


def fuzz(arguments: list[str]) -> None:
    """One slice: libFuzzer with its own arguments. Does not return."""
    import atheris  # type: ignore[import-untyped]

    with atheris.instrument_imports(include=["kafka_offsets"], enable_loader_override=False):
        from kafka_offsets.protocol import codec_text
    run_plain = codec_text.CodeLines.run

    def run_instrumented(self: Any, text: str, title: str) -> dict[str, Any]:
        namespace = run_plain(self, text, title)
        for function in namespace.values():  # in place, so that they call each other's instrumented code
            if getattr(getattr(function, "__code__", None), "co_filename", None) == f"<{title}>":
                atheris.instrument_func(function)
        return namespace

    codec_text.CodeLines.run = run_instrumented  # type: ignore[method-assign]
    with atheris.instrument_imports(include=["kafka_offsets"], enable_loader_override=False):
        chooser = Chooser(targets())
    atheris.Setup([sys.argv[0], *arguments], chooser.run)
    atheris.Fuzz()


def one_slice(folder: Path, executions: int, seconds: int) -> tuple[int, list[str]]:
    """Run a slice in a process of its own; return its executions and the findings' lines."""
    command = [sys.executable, __file__, "--slice", f"-runs={executions}", f"-max_total_time={seconds}"]
    command += [f"-max_len={MAX_INPUT_BYTES}", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"]
    command += [f"-artifact_prefix={folder}/", str(folder / "corpus")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
    stat = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    counted = int(stat[1]) if stat else 0
    if not done.returncode and stat:
        return counted, []
    return counted, done.stderr.splitlines()[-60:] or [f"exit status {done.returncode}"]


def campaign(folder: Path, wanted: int, seconds: float) -> int:
    """Run slices until `wanted` executions are done in this folder, or the time is over; return an exit status."""
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    chooser = Chooser(targets())
    for index, seed in enumerate(chooser.seeds()):
        (folder / "corpus" / f"seed-{index:05}").write_bytes(seed)
    counts = folder / "executions.json"
    done = json.loads(counts.read_text())["executions"] if counts.exists() else 0
    print(f"{len(chooser.numbers)} targets; {done} of {wanted} executions are done in {folder}", flush=True)
    deadline = time.monotonic() + seconds
    while done < wanted and (left := deadline - time.monotonic()) > 0:
        counted, problem = one_slice(folder, wanted - done, max(1, int(min(SLICE_S, left))))
        done += counted
        counts.write_text(json.dumps({"executions": done}) + "\n")
        if problem:
            print("\n".join(problem))
            print(f"a finding, after {done} executions: python {sys.argv[0]} --input {folder}/crash-…")
            return 1
        size = sum(1 for _ in (folder / "corpus").iterdir())
        print(f"{done} executions, {size} inputs in the corpus, no finding", flush=True)
    return 0


def main() -> int:
    if sys.argv[1:2] == ["--slice"]:
        fuzz(sys.argv[2:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help=f"{SHORT} executions in a temporary folder")
    parser.add_argument("--executions", type=int, default=FULL, help="in all, those of earlier runs included")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--corpus", type=Path, default=Path(".fuzz"), metavar="FOLDER")
    parser.add_argument("--input", type=Path, metavar="FILE", help="run one input")
    options = parser.parse_args()
    if options.input is not None:
        chooser = Chooser(targets())
        chooser.executions = TRACED_EVERY - 1
        chooser.run(options.input.read_bytes())
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("fuzz_codecs.py: atheris is missing; install it by: pip install atheris", file=sys.stderr)
        return 2
    if options.short:
        with tempfile.TemporaryDirectory(prefix="kafka-offsets-fuzz-") as folder:
            return campaign(Path(folder), SHORT, options.seconds)
    return campaign(options.corpus, options.executions, options.seconds)


if __name__ == "__main__":
    sys.path.insert(0, os.fspath(Path(__file__).resolve().parent.parent))
    sys.exit(main())
