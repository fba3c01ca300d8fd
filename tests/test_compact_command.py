"""`kafka-offsets compact`: what a broker would compact, without one; a dry run tells and changes nothing."""

import json
import re
import shutil
from pathlib import Path

import pytest

from kafka_offsets import cli
from kafka_offsets.broker.api import topic_admin
from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.files.files import DiskFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.conftest import DATA, REPOSITORY
from tests.drivers.core import CoreClient, make_core
from tests.storage.keyed import table

KAFKAS = DATA / "logs" / "compact-before"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with groups, a topic that is compacted and one that is not, closed well."""
    root = tmp_path / "data"
    core = make_core(DiskFiles(root), offsets_topic_num_partitions=2, offsets_topic_segment_bytes=1000)
    topic_admin.create_topic(core.broker, "kept", 1, {"internal.segment.bytes": "200"})
    topic_admin.create_topic(
        core.broker, "keyed", 1, {"cleanup.policy": "compact", "internal.segment.bytes": "200"}
    )
    client = CoreClient(core)
    for number in range(30):
        client.commit("g", {("kept", 0): number})
        client.commit("h", {("kept", 0): number})
        for name in ("kept", "keyed"):
            partition = core.topics.partition(name, 0)
            assert partition is not None
            partition.log.append(encode_batch([(b"k", b"%d" % number, (), core.clock.now().wall_ms)]))
    core.close()
    return root


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[str]]:
    code = cli.main(["compact", *map(str, words)])
    said = capsys.readouterr()
    advised = "--dry-run" in words and said.err.startswith("kafka-offsets: with --include-active ")
    assert said.err == "" or advised
    return code, said.out.splitlines()


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert cli.main(["compact", *map(str, words)]) == cli.CANNOT
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    return said.err.strip()


def contents(root: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))}


def committed(root: Path) -> list[dict[tuple[str, int], int]]:
    core = make_core(DiskFiles(root), offsets_topic_num_partitions=2)
    found = [CoreClient(core).committed(group) for group in ("g", "h")]
    core.close()
    return found


def test_every_topic_with_that_policy_is_compacted(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = contents(directory / "kept-0")
    code, dry = run(capsys, "--dry-run", directory)
    assert code == 0
    code, lines = run(capsys, directory)
    assert code == 0
    assert [line.replace(" would go ", " gone ") for line in dry] == lines
    names = [line.split(":")[0] for line in lines]
    assert names == ["__consumer_offsets-0", "__consumer_offsets-1", "keyed-0", "in all"]
    assert re.match(r"keyed-0: 2\d of 2\d records gone \(tombstones: 0\), ", lines[2])
    assert contents(directory / "kept-0") == kept
    assert (directory / ".kafka_cleanshutdown").exists()
    assert "keyed 0 " in (directory / "cleaner-offset-checkpoint").read_text()
    assert committed(directory) == [{("kept", 0): 29}] * 2


def test_what_several_rounds_take_is_reported_in_one_sum(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sum(path.stat().st_size for path in (directory / "keyed-0").glob("*.log"))
    _, (dry, _) = run(capsys, "--dry-run", directory / "keyed-0")
    _, (line, _) = run(capsys, "--set", "log.cleaner.dedupe.buffer.size=1", directory / "keyed-0")
    assert line.split(";")[0] == dry.split(";")[0].replace(" would go ", " gone ")
    found = re.search(r"(\d+) of \d+ bytes; segments: \d+ before, (\d+) after", line)
    assert found is not None
    left = [path.stat().st_size for path in (directory / "keyed-0").glob("*.log")]
    assert (before - sum(left), len(left)) == (int(found[1]), int(found[2]))


@pytest.mark.parametrize("options", [[], ["--include-active"]])
@pytest.mark.parametrize("stop", ["clean", "unclean"])
def test_a_dry_run_changes_nothing(
    directory: Path, capsys: pytest.CaptureFixture[str], options: list[str], stop: str
) -> None:
    if stop == "unclean":
        (directory / ".kafka_cleanshutdown").unlink()
        (directory / "keyed-0" / "00000000000000000000.log.cleaned").touch()
        with (directory / "keyed-0" / "00000000000000000028.log").open("ab") as torn:
            torn.write(b"torn")
    before = contents(directory)
    for target in (directory, directory / "keyed-0"):
        code, lines = run(capsys, "--dry-run", *options, target)
        assert code == 0, lines
        assert " would go " in lines[-1]
    assert contents(directory) == before


def test_a_dry_run_says_what_active_segments_would_add(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = []
    for options in ([], ["--include-active"]):
        _, lines = run(capsys, "--dry-run", "--json", *options, directory)
        counts.append(json.loads(lines[-1]))
    more, more_bytes = (counts[1][name] - counts[0][name] for name in ("records_gone", "bytes_gone"))
    assert more > 0
    said = f"kafka-offsets: with --include-active {more} more records would go, {more_bytes} bytes\n"
    for options, expected in (([], said), (["--include-active"], "")):
        assert cli.main(["compact", "--dry-run", *options, str(directory)]) == 0
        assert capsys.readouterr().err == expected
    run(capsys, "--include-active", directory)
    assert cli.main(["compact", "--dry-run", str(directory)]) == 0
    assert capsys.readouterr().err == "", "nothing more would go"


def test_bytes_in_active_segments_alone_are_reported_with_the_option_that_compacts_them(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It printed "0 of 0 records", as for a directory where nothing can be removed."""
    run(capsys, directory)
    active = sum(
        max(directory.glob(f"{name}/*.log")).stat().st_size
        for name in ("__consumer_offsets-0", "__consumer_offsets-1", "keyed-0")
    )
    hint = f"nothing to remove outside of the active segments ({active} bytes); --include-active compacts them too"
    code, lines = run(capsys, directory)
    assert (code, lines[-2].split(":")[0], lines[-1]) == (0, "in all", hint)
    _, lines = run(capsys, "--include-active", directory)
    assert lines[-1].startswith("in all: ")
    _, lines = run(capsys, directory)
    assert lines[-1].startswith("in all: 0 of ")


def test_a_dry_run_looks_through_an_unfinished_swap(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = directory / "keyed-0"
    (folder / "00000000000000000000.log").rename(folder / "00000000000000000000.log.swap")
    before = contents(directory)
    code, lines = run(capsys, "--dry-run", folder)
    assert (code, len(lines)) == (0, 2)
    assert contents(directory) == before


class Unrenamed(DiskFiles):
    """A disk that refuses to rename."""

    def rename(self, source: str, target: str) -> None:
        if source == "kept-0":
            raise StorageError("refused by the test", source)
        super().rename(source, target)


def test_a_dry_run_looks_past_a_deletion_that_was_interrupted(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = DataDirectory(Unrenamed(directory))
    with pytest.raises(StorageError, match="refused by the test"):
        opened.delete_topic("kept")
    opened.close()
    before = contents(directory)
    assert str(directory / "kept-0") in before
    code, lines = run(capsys, "--dry-run", directory)
    assert (code, lines[-1].split(":")[0]) == (0, "in all")
    assert contents(directory) == before


def test_the_folder_of_one_partition_is_compacted_alone(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = contents(directory / "keyed-0")
    code, lines = run(capsys, "--include-active", directory / "__consumer_offsets-0")
    assert code == 0
    assert [line.split(":")[0] for line in lines] == ["__consumer_offsets-0", "in all"]
    assert contents(directory / "keyed-0") == others
    assert committed(directory) == [{("kept", 0): 29}] * 2


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--include-active"]])
def test_the_folder_of_a_partition_whose_topic_is_not_compacted_is_left_as_it_is(
    directory: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    before = contents(directory / "kept-0")
    line = refusal(capsys, *options, directory / "kept-0")
    assert line == "kafka-offsets: kept-0: its topic is not compacted: cleanup.policy is delete"
    assert contents(directory / "kept-0") == before


def test_a_folder_of_kafkas_is_compacted_and_loads_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(4):
        name = f"__consumer_offsets-{number}"
        shutil.copytree(KAFKAS / name, tmp_path / name)
        log = Log.open(DiskFiles(tmp_path), name, LogConfig())
        before = table(log)
        log.close()
        assert run(capsys, tmp_path / name)[0] == 0
        log = Log.open(DiskFiles(tmp_path), name, LogConfig())
        assert table(log) == before
        assert len(log.segments) == 2
        log.close()


def test_a_damaged_partition_is_left_alone_with_exit_code_1(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = directory / "keyed-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[65] ^= 1
    path.write_bytes(data)
    before = contents(directory / "keyed-0")
    code, lines = run(capsys, directory)
    assert code == 1
    assert lines[2] == (
        "keyed-0: not compacted: keyed-0/00000000000000000000.log at byte 0: the checksum of the batch is wrong"
    )
    assert contents(directory / "keyed-0") == before


def test_what_cannot_be_compacted_is_reported_in_one_line(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no such directory" in refusal(capsys, tmp_path / "none")
    (tmp_path / "file").touch()
    assert "file: not a directory" in refusal(capsys, tmp_path / "file")
    assert "no partition of a topic" in refusal(capsys, "--dry-run", tmp_path)
    user = DataDirectory(DiskFiles(directory))
    used = f"kafka-offsets: another broker uses the data directory {directory}: stop it first"
    for options in ([], ["--dry-run"]):
        for target in (directory, directory / "keyed-0"):
            assert refusal(capsys, *options, target) == used
    user.close()
    assert "unknown configuration key" in refusal(capsys, "--set", "x=1", directory)


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--include-active"]])
def test_empty_partitions_are_not_reported_and_not_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    core = make_core(DiskFiles(tmp_path), offsets_topic_num_partitions=50)
    topic_admin.create_topic(core.broker, "orders", 1, {})
    topic_admin.create_topic(core.broker, "keyed", 2, {"cleanup.policy": "compact"})
    CoreClient(core).commit("g", {("orders", 0): 1})
    core.close()
    folders = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    (used,) = (name for name in folders if name.startswith("__consumer_offsets-"))
    code, lines = run(capsys, *options, tmp_path)
    assert code == 0
    assert [line.split(":")[0] for line in lines[:2]] == [used, "in all"]
    assert ("active segments" in "".join(lines[2:])) is (options == [])
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == folders


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--include-active"]])
def test_a_directory_of_no_broker_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "photos-2024").mkdir()
    assert "no partition of a topic" in refusal(capsys, *options, tmp_path)
    assert contents(tmp_path) == {str(tmp_path / "a.txt"): b"a", str(tmp_path / "photos-2024"): None}


def test_the_example_of_the_page_is_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (REPOSITORY / "docs" / "directories.md").read_text()
    _, lines = run(capsys, "--dry-run", KAFKAS / "__consumer_offsets-0")
    assert "\n".join(lines) in page
