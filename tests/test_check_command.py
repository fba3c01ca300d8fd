"""`kafka-offsets check`: a line for each finding, an exit code, and not one byte changed."""

import errno
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from kafka_offsets import cli
from kafka_offsets.broker.api import topic_admin
from kafka_offsets.commands.check import check
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files import files
from kafka_offsets.storage.files.files import DiskFiles
from kafka_offsets.storage.log.log import LogConfig
from kafka_offsets.storage.log.producer_state import decode_state
from tests.conftest import DATA, REPOSITORY
from tests.drivers.core import CoreClient, make_core
from tests.drivers.transactions import Producer
from tests.storage.batches import batch

SEGMENT = "__consumer_offsets-0/00000000000000000000.log"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with a topic and a group, closed well."""
    root = tmp_path / "data"
    core = make_core(DiskFiles(root), offsets_topic_num_partitions=1)
    topic_admin.create_topic(core.broker, "t", 1, {})
    client = CoreClient(core)
    for number in range(3):
        client.commit("g", {("t", 0): number})
    core.close()
    return root


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[str]]:
    code = cli.main(["check", *map(str, words)])
    said = capsys.readouterr()
    assert said.err == ""
    return code, said.out.splitlines()


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert cli.main(["check", *map(str, words)]) == cli.CANNOT
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    return said.err.strip()


def contents(root: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))}


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_a_whole_directory_is_counted_with_exit_code_0(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / ".lock").unlink()
    before = contents(directory)
    size = (directory / SEGMENT).stat().st_size
    assert run(capsys, directory) == (
        0,
        [f"1 partitions, 1 segments, 3 batches, 3 records, {size} bytes; damage: 0, torn: 0, advice: 0"],
    )
    assert run(capsys, directory / "__consumer_offsets-0")[0] == 0
    assert contents(directory) == before, "no lock file is left, and nothing else"


def test_damage_is_a_line_with_file_and_position_and_exit_code_1(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = (directory / SEGMENT).stat().st_size // 3
    flip(directory / SEGMENT, size + 70)
    before = contents(directory)
    message = f"{size} bytes, offset 1: the checksum of the batch is wrong"
    code, lines = run(capsys, directory)
    assert (code, lines[0]) == (1, f"{SEGMENT} at byte {size}: damage: {message}")
    assert lines[1].endswith("damage: 1, torn: 0, advice: 0")
    code, lines = run(capsys, "--json", directory)
    assert code == 1
    assert json.loads(lines[0]) == {"kind": "damage", "path": SEGMENT, "position": size, "message": message}
    assert json.loads(lines[1])["damage"] == 1
    code, lines = run(capsys, directory / "__consumer_offsets-0")
    assert (code, lines[0]) == (1, f"{SEGMENT} at byte {size}: damage: {message}")
    assert contents(directory) == before


def test_a_record_of_the_offsets_topic_that_does_not_parse_is_damage(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = DataDirectory(DiskFiles(directory))
    log = data.open_log("__consumer_offsets", 0, LogConfig())
    log.append(batch([b"no key"]))
    data.close()
    code, lines = run(capsys, directory)
    assert code == 1
    assert "damage: batch of offsets 3 to 3: record 3: it has no key" in lines[0]


def test_a_record_of_the_topic_of_transactions_that_does_not_parse_is_damage(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = make_core(DiskFiles(directory), transaction_state_log_num_partitions=1)
    assert Producer(core).init() == 0
    core.close()
    assert run(capsys, directory)[0] == 0
    data = DataDirectory(DiskFiles(directory))
    data.open_log("__transaction_state", 0, LogConfig()).append(batch([b"no key"]))
    data.close()
    code, lines = run(capsys, directory)
    assert code == 1
    assert "damage: batch of offsets 1 to 1: record 1: it has no key" in lines[0]


def test_advice_alone_leaves_exit_code_0(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "__consumer_offsets-0" / "00000000000000000000.index").write_bytes(b"\1" * 8)
    code, lines = run(capsys, directory)
    assert code == 0
    assert lines[0].startswith("__consumer_offsets-0/00000000000000000000.index at byte 0: advice: ")


def test_a_directory_that_a_broker_uses_is_refused(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = DataDirectory(DiskFiles(directory))
    try:
        for path in (directory, directory / "__consumer_offsets-0"):
            assert refusal(capsys, path).endswith(
                f"another broker uses the data directory {directory}: stop it first"
            )
    finally:
        data.close()
    assert run(capsys, directory)[0] == 0


@pytest.mark.parametrize(
    "name",
    [
        "meta.properties",
        SEGMENT,
        SEGMENT.replace(".log", ".index"),
        "__consumer_offsets-0",
        "__consumer_offsets-0/leader-epoch-checkpoint",
        "__consumer_offsets-0/partition.metadata",
    ],
)
@pytest.mark.parametrize("of_folder", [False, True], ids=["directory", "folder"])
def test_what_the_user_may_not_read_is_no_damage(
    directory: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    of_folder: bool,
) -> None:
    """The system is a double: root may read everything."""
    forbidden = str(directory / name)

    def refuse(path: object) -> None:
        if str(path) == forbidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), forbidden)

    def refusing(function: Any) -> Any:
        def refused(path: Any, *words: Any, **named: Any) -> Any:
            refuse(path)
            return function(path, *words, **named)

        return refused

    assert (directory / name).exists()
    monkeypatch.setattr(files.os, "open", refusing(os.open))
    monkeypatch.setattr(files.os, "listdir", refusing(os.listdir))
    monkeypatch.setattr(files, "open", refusing(open), raising=False)
    target = directory / "__consumer_offsets-0" if of_folder and "/" in name else directory
    assert cli.main(["check", str(target)]) == cli.CANNOT
    said = capsys.readouterr().err
    assert said == f"kafka-offsets: {forbidden}: this user may not read it\n"


def test_two_checks_share_a_directory_and_give_it_free(directory: Path) -> None:
    first, second = check(directory, as_json=False), check(directory, as_json=False)
    next(first)
    next(second)
    first.close()
    second.close()
    DataDirectory(DiskFiles(directory)).close()


def test_a_file_is_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert refusal(capsys, tmp_path / "file") == f"kafka-offsets: {tmp_path}/file: not a directory"


def test_the_directory_of_several_brokers_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The directories of its brokers look like folders of partitions."""
    (tmp_path / "cluster-metadata").touch()
    (tmp_path / "broker-1").mkdir()
    expected = f"{tmp_path}: it belongs to several brokers: name that of one, such as {tmp_path}/broker-1"
    assert refusal(capsys, tmp_path) == f"kafka-offsets: {expected}"


@pytest.mark.parametrize("name", ["missing", "empty", "etc"])
def test_what_holds_no_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "etc" / "dbus-1").mkdir(parents=True)  # not a partition, in spite of its name
    line = refusal(capsys, tmp_path / name)
    assert line.startswith(f"kafka-offsets: {tmp_path}")
    assert line.endswith(("no such directory", "no partition of a topic is in it"))


def test_the_directory_of_an_unused_broker_has_no_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_core(DiskFiles(tmp_path / "new")).close()
    code, lines = run(capsys, tmp_path / "new")
    assert (code, len(lines)) == (0, 1)
    assert lines[0].startswith("0 partitions")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_directory_that_is_mounted_read_only_can_be_checked(directory: Path) -> None:
    script = (
        f"mount --bind {directory} {directory} && mount -o remount,ro,bind {directory} && "
        f"! touch {directory}/x 2>/dev/null && {sys.executable} -m kafka_offsets.cli check {directory}"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )
    if done.stderr.startswith(("mount:", "unshare:")):
        pytest.skip(f"mounts are not allowed here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("damage: 0, torn: 0, advice: 0\n")


@pytest.mark.parametrize(
    "scenario", ["classic", "consumer", "share", "streams", "txn", "compact-after", "codec-zstd"]
)
def test_records_that_kafka_wrote_are_whole(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(capsys, DATA / "logs" / scenario)
    assert (code, len(lines)) == (0, 1)


# -- what a log has saved of its producers


@pytest.fixture
def with_producers(tmp_path: Path) -> Path:
    """A directory that was closed after an aborted transaction and another one that is open."""
    root = tmp_path / "data"
    core = make_core(DiskFiles(root))
    topic_admin.create_topic(core.broker, "t", 1, {})
    producer = Producer(core)
    assert producer.init() == 0
    for values in ((b"1", b"1"), (b"2",), (b"3",)):
        assert producer.produce("t", *values) == 0
        if values != (b"3",):
            assert producer.end(committed=len(values) == 2) == 0
    core.close()
    return root


def test_a_flip_in_any_byte_of_saved_producers_is_reported(
    capsys: pytest.CaptureFixture[str], with_producers: Path
) -> None:
    names = {path.name for path in (with_producers / "t-0").iterdir()}
    assert {"producer-state", "00000000000000000006.snapshot", "00000000000000000000.txnindex"} <= names
    code, said = run(capsys, with_producers)
    assert (code, len(said)) == (0, 1)
    path = with_producers / "t-0" / "producer-state"
    for position in range(0, path.stat().st_size, 5):
        flip(path, position)
        code, said = run(capsys, with_producers)
        line = "t-0/producer-state: advice: it is not used: its checksum or its version is wrong"
        assert (code, said[0]) == (0, line)
        flip(path, position)


@pytest.mark.parametrize(
    ("head", "known", "message"),
    [
        ((7, 5, None), None, "it is of offset 7, and the log goes from 0 to 6"),
        ((0, 5, None), None, "it is of offset 0, and the log goes from 0 to 6"),
        ((1, 0, None), None, "the batch before offset 1 is another one now"),
        ((5, 4, None), None, "the batch before offset 5 is another one now"),
        ((6, 4, None), None, "the batch before offset 6 is another one now"),
        ((6, 5, 1), None, "the batch before offset 6 is another one now"),
        ((6, 5, None), b"", "no producers: "),
    ],
)
def test_saved_producers_of_another_log_are_reported(
    capsys: pytest.CaptureFixture[str],
    with_producers: Path,
    head: tuple[int, int, int | None],
    known: bytes | None,
    message: str,
) -> None:
    path = with_producers / "t-0" / "producer-state"
    saved = decode_state(path.read_bytes())
    assert saved is not None and saved[:2] == (6, 5)
    crc = saved.batch_crc if head[2] is None else head[2]
    body = struct.pack(">qqI", *head[:2], crc) + (saved.known if known is None else known)
    path.write_bytes(struct.pack(">hI", 1, google_crc32c.value(body)) + body)
    code, said = run(capsys, with_producers)
    assert code == 0
    assert said[0].startswith(f"t-0/producer-state: advice: it is not used: {message}")


def old_messages(count: int) -> bytes:
    """Messages of format 1, as Kafka 0.10 wrote them."""
    message = struct.pack(">bbq", 1, 0, 1234) + struct.pack(">ii", -1, 1) + b"x"
    body = struct.pack(">I", zlib.crc32(message)) + message
    return b"".join(struct.pack(">qi", offset, len(body)) + body for offset in range(count))


def test_what_is_not_served_is_named_and_is_no_damage(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("__cluster_metadata-0", f"t-0.{'0a' * 16}-future", f"t-1.{'0b' * 16}-stray"):
        (directory / name).mkdir()
        (directory / name / "00000000000000000000.log").write_bytes(b"not read")
    (directory / "t-0").mkdir(exist_ok=True)
    (directory / "t-0" / "00000000000000000000.log").write_bytes(old_messages(3))
    code, lines = run(capsys, directory)
    assert code == 0
    assert [line for line in lines if "not served: " in line] == [
        "__cluster_metadata-0: not served: the log of Kafka's controllers, which is not read here",
        f"t-0.{'0a' * 16}-future: not served: a replica on its way to another directory, which is not read here",
        (
            f"t-1.{'0b' * 16}-stray: not served: a replica that is not assigned to its broker any more, "
            "which is not read here"
        ),
        "t-0/00000000000000000000.log at byte 0: not served: a message of format 0 or 1; only format 2 is read",
        lines[-1],
    ]
    assert lines[-1].endswith("damage: 0, torn: 0, advice: 0, not served: 4")
    assert "the log of Kafka's controllers" in refusal(capsys, directory / "__cluster_metadata-0")


def test_a_segment_of_an_old_format_before_one_of_the_new_format_is_no_gap(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = (directory / SEGMENT).rename(directory / SEGMENT.replace("0.log", "3.log"))
    data = bytearray(new.read_bytes())
    position = 0
    for number in range(3):  # the base offset is not in the checksum
        data[position : position + 8] = struct.pack(">q", number + 3)
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    new.write_bytes(data)
    (directory / SEGMENT).write_bytes(old_messages(3))
    code, lines = run(capsys, directory / "__consumer_offsets-0")
    assert [line.split(": ")[1] for line in lines[:-1] if "advice" not in line] == [
        "not served"
    ] and code == 0
