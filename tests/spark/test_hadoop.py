"""The offsets log on file systems of Hadoop: the rows of the data source, read by Spark."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa

from kafka_offsets.errors import StorageError
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.spark.reader import hadoop, options, segments
from kafka_offsets.spark.reader.hadoop import _End, _Range
from kafka_offsets.spark.reader.options import OptionError
from tests.conftest import DATA
from tests.spark.logs import commit, marker
from tests.spark.reference import listed, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COLUMNS = "log_partition,log_offset,kind,group,committed_offset,transactional,outcome,position,error"


def write_log(folder: Path, letters: list[str]) -> list[str]:
    """Write a segment for each word, a batch for each letter; return the paths.

    Small letters are commits of a transaction, large ones its marker (A and B abort), - is a commit outside.
    """
    offsets = itertools.count()
    folder.mkdir(parents=True)
    paths = []
    for word in letters:
        batches = [_batch(letter, next(offsets)) for letter in word]
        path = folder / f"{sum(map(len, letters[: len(paths)])):020d}.log"
        path.write_bytes(b"".join(batches))
        paths.append(str(path))
    return paths


def _batch(letter: str, offset: int) -> bytes:
    if letter.isupper():
        return bytes(marker(offset, ord(letter.lower()), committed=letter not in "AB"))
    if letter == "-":
        return bytes(encode_batch([commit("g", "t", 0, offset)], base_offset=offset))
    return bytes(
        encode_batch(
            [commit("g", "t", ord(letter), offset)],
            base_offset=offset,
            producer_id=ord(letter),
            producer_epoch=0,
            transactional=True,
        )
    )


def in_memory(paths: list[str], rows: int = 3) -> Iterator[Any]:
    """Return what Spark gives a task: paths, sizes and lines, in batches of some rows."""
    lines = []
    for path in paths:
        data = Path(path).read_bytes()
        parts = data.split(hadoop._SEPARATOR)
        lines += [(path, len(data), part) for part in (parts[:-1] if parts[-1] == b"" else parts)]
    for start in range(0, len(lines), rows):
        columns = zip(*lines[start : start + rows], strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(list(column)) for column in columns], list("abc"))


@pytest.mark.parametrize("isolation", ["committed", "uncommitted"])
@pytest.mark.parametrize(
    "letters",
    [
        ["-", "--"],
        ["x", "X"],
        ["a-", "A-"],
        ["ax", "-", "AX"],
        ["xX", "x", "-X"],
        ["x", "XxX", "bx", "BX", "a"],  # the nearest marker counts, also with others of the producer after it
        ["aA", "a", "x"],
    ],
)
def test_a_task_with_one_segment_knows_the_markers_of_later_ones(
    tmp_path: Path, letters: list[str], isolation: str
) -> None:
    folder = tmp_path / "__consumer_offsets-3"
    paths = write_log(folder, letters)
    given = {"isolation": isolation, "columns": COLUMNS}
    ends: dict[str, list[_End]] = {}
    for row in (
        row for batch in hadoop._ends(frozenset(paths[-1:]), in_memory(paths)) for row in batch.to_pylist()
    ):
        ends.setdefault(row.pop("path"), []).append(_End(**row))
    known = hadoop._resolve(paths, ends)
    found = {path: segments.segment_named(path, 1) for path in paths}
    ranges = {path: _Range(segment, None, None) for path, segment in found.items() if segment is not None}
    task = hadoop._Decode(options.parse({"path": str(folder), **given}).query, ranges, known)
    rows = [row for batch in task(in_memory(paths)) for row in listed(batch)]
    assert rows == read(folder, **given)
    assert len(rows) == sum(map(len, letters)) or isolation == "committed"


@pytest.mark.parametrize(
    "data", [b"a", b"\x7f", b"a\x7f", b"\x7f\x7fab\x7f\x7f", b"ab\x7fcd\x7fe\n\r\xff" * 5]
)
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_lines_become_the_files_that_they_were(tmp_path: Path, data: bytes, rows: int) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    for path in paths:
        Path(path).write_bytes(data)
    files = [(file.path, file.read(0, 1000)) for file in hadoop._loaded(in_memory(paths, rows))]
    assert files == [(path, data) for path in paths]


def test_a_part_of_a_file_is_no_file() -> None:
    """If Spark divides a file among tasks, none may take its part for the whole."""
    part = pa.RecordBatch.from_pydict({"path": ["a"], "size": [100], "line": [b"records"]})
    with pytest.raises(StorageError, match="a: only 8 of 100 bytes could be read"):
        list(hadoop._loaded(iter([part])))


@pytest.fixture
def vault(spark: "SparkSession", tmp_path: Path) -> str:
    """The URL of a file system that is not the local one, though its folders are."""
    name = f"vault-{tmp_path.name}".replace("_", "-")
    for folder, target in (
        ("logs", DATA / "logs"),
        ("drawn", tmp_path / "drawn"),
        ("states", tmp_path / "states"),
    ):
        target.mkdir(exist_ok=True)
        spark.conf.set(f"fs.viewfs.mounttable.{name}.link./{folder}", target.as_uri())
    return f"viewfs://{name}"


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_a_log_and_keeps_a_state_on_one_file_system(
    spark: "SparkSession", vault: str, tmp_path: Path
) -> None:
    """Where only the settings of the session name the file system, as with credentials."""
    from kafka_offsets.spark.pipelines import merge_state, next_offsets, read_state

    letters = ["x-y", "X-b", "B--"]
    write_log(tmp_path / "drawn" / "__consumer_offsets-7", letters)
    given = {"isolation": "uncommitted", "columns": COLUMNS}
    spark.conf.set("spark.sql.files.maxPartitionBytes", "64")  # each file would be divided among tasks
    try:
        rows = hadoop.read_log(spark, f"{vault}/drawn", **given)
        joined = spark.range(1).crossJoin(rows).drop("id").orderBy("log_offset").collect()
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert [row.asDict() for row in joined] == read(tmp_path / "drawn", **given)
    latest = hadoop.read_log(spark, f"{vault}/drawn/__consumer_offsets-7", mode="latest").collect()
    assert sorted(row.committed_offset for row in latest) == [0, 1, 4, 8]  # of each segment

    log, state = f"{vault}/drawn", f"{vault}/states/all"
    merge_state(state, hadoop.read_log(spark, log, pipeline="merge_state"))
    assert sorted(row.committed_offset for row in read_state(spark, state).collect()) == [0, 8]
    assert next_offsets(spark, state)[7] == 2  # the transaction of y is open
    part = hadoop.read_log(spark, log, columns="log_offset", startingOffsets='{"7": 7}').collect()
    assert [row.log_offset for row in part] == [7, 8]


@pytest.mark.spark
@pytest.mark.slow
def test_a_path_without_a_log_and_an_option_of_streams_are_refused(spark: "SparkSession", vault: str) -> None:
    with pytest.raises(segments.NoLogError, match=r"viewfs://.*/states: no segments of __consumer_offsets"):
        hadoop.read_log(spark, f"{vault}/states")
    with pytest.raises(OptionError, match="maxRecordsPerBatch"):
        hadoop.read_log(spark, f"{vault}/logs", maxRecordsPerBatch="5")
    assert hadoop.is_known(spark, f"{vault}/logs")
    assert not any(
        hadoop.is_known(spark, path) for path in ("/logs", "nothing://logs", "simplecache::viewfs://a")
    )
