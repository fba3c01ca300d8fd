"""Merged state: each merge reads the new part of the log, and writes little more than its changes.

    PATH/data/base-…      a whole state in Parquet, in a folder for each log partition
    PATH/data/delta-…     changes by a later part of the log, including deletions
    PATH/versions/N.json  the folders of version N, and the offsets from which the next merge reads the log

The highest version is the current one. Its file is written after all of its data, under a name that must not exist yet.
So a merge that dies does not change the state, a repeated merge changes nothing, and of two concurrent merges the
second one to finish fails. (If the file system replaces existing files on rename, as object stores do, run only one
merge at a time.) A later merge removes data that no recent version names.

If there is an open transaction, the next merge reads from its beginning: its commits are added to the state when its
marker is there. Tombstones disappear from a log a day after compaction (`delete.retention.ms`), so merge more often.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.spark.pipelines import state
from kafka_offsets.spark.reader import schema
from kafka_offsets.spark.reader.hadoop import settings_of

FULL_FROM = 2.0
"""Deltas with more than this many rows per row of the base are merged into a new base."""

MOST_DELTAS = 32
"""This many deltas are merged whatever their size: each is another file for readers of the state."""

KEPT_VERSIONS = 3
"""How many versions stay readable: a query may still use an earlier one."""

_COLUMNS = (*schema.STATE_COLUMNS, "tombstone", "first_open")
_DDL = ", ".join((schema.ddl((*schema.STATE_COLUMNS, "tombstone")), "`first_open` BIGINT"))


class MergeError(KafkaOffsetsError):
    """A state that cannot be read or written."""


class Version(NamedTuple):
    """One version of a state.

    number        0 for the empty state before the first merge
    next_offsets  log partition -> the first offset for the next merge
    base, deltas  names of folders below `data`
    base_rows, delta_rows  their numbers of rows
    """

    number: int = 0
    next_offsets: Mapping[int, int] = {}
    base: str | None = None
    deltas: tuple[str, ...] = ()
    base_rows: int = 0
    delta_rows: int = 0


def merge_state(path: str, raw: DataFrame, *, unreadable: str = state.REFUSE, full: bool = False) -> Version:
    """Bring the state at `path` up to date with the log; return the new current version.

    path        a folder on any file system to which Spark writes Parquet; the first merge creates it
    raw         rows of the log from `next_offsets` on, with the columns `kind` and `outcome`; earlier rows are read
                but ignored
    unreadable  as for `latest`
    full        write a complete new base; otherwise a merge does this when the deltas have become large
    Raises ValueError for missing columns, MergeError if another merge was faster. Needs the JVM: no Spark Connect.
    """
    folder = _Folder(raw.sparkSession, path)
    before = folder.version()
    after = _first(folder, raw, unreadable) if before.base is None else _next(folder, before, raw, unreadable)
    is_large = after.delta_rows > FULL_FROM * after.base_rows or len(after.deltas) > MOST_DELTAS
    if after.deltas and (full or is_large):
        after = _rebased(folder, after, before.number + 1)
    if after != before:
        folder.publish(after)
        folder.remove_unused(after.number)
    return after


def _first(folder: _Folder, raw: DataFrame, unreadable: str) -> Version:
    name = _name("base", 1)
    # Including deletions: they also mark the end of the log.
    folder.write(name, state.changes(raw, unreadable=unreadable))
    ends, count = _ends(folder.read([name]))
    return Version(1, ends, name, (), count, 0)


def _next(folder: _Folder, before: Version, raw: DataFrame, unreadable: str) -> Version:
    name = _name("delta", before.number + 1)
    folder.write(name, state.changes(_continued(raw, before.next_offsets), unreadable=unreadable))
    ends, count = _ends(folder.read([name]))
    if not count:
        folder.discard(name)
        return before
    return before._replace(
        number=before.number + 1,
        next_offsets={**before.next_offsets, **ends},
        deltas=(*before.deltas, name),
        delta_rows=before.delta_rows + count,
    )


def _name(kind: str, number: int) -> str:
    return f"{kind}-{number:020d}-{uuid.uuid4().hex[:8]}"


def read_state(spark: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """Return the state at `path`, the current or a given version, with `schema.STATE_COLUMNS`.

    MergeError if there is none.
    """
    folder = _Folder(spark, path)
    state_version = folder.version(version)
    if state_version.base is None:
        raise MergeError(f"{path} holds no state")
    rows = folder.read(_names(state_version)).where(sf.col("log_offset").isNotNull())
    if state_version.deltas:
        return state.latest(rows)
    return rows.where(~sf.col("tombstone")).select(*schema.STATE_COLUMNS)


def next_offsets(spark: SparkSession, path: str) -> dict[int, int]:
    """Return by log partition the offset from which the next merge reads; empty before the first merge."""
    return dict(_Folder(spark, path).version().next_offsets)


def _continued(raw: DataFrame, starts: Mapping[int, int]) -> DataFrame:
    """Exclude rows that were read before; damaged rows without an offset stay."""
    if not starts:
        return raw
    start_offsets = sf.create_map(*(sf.lit(number) for pair in starts.items() for number in pair))
    start = sf.coalesce(start_offsets[sf.col("log_partition")], sf.lit(0))
    return raw.where((sf.col("log_offset") >= start) | sf.col("log_offset").isNull())


def _ends(rows: DataFrame) -> tuple[dict[int, int], int]:
    """Return the next offsets to read by log partition, and the number of rows."""
    following = sf.least(sf.min("first_open"), sf.max("log_offset") + 1)
    ends = rows.groupBy("log_partition").agg(following.alias("next"), sf.count("*").alias("rows")).collect()
    return {row["log_partition"]: row["next"] for row in ends}, sum(row["rows"] for row in ends)


def _names(version: Version) -> list[str]:
    return [name for name in (version.base, *version.deltas) if name]


def _rebased(folder: _Folder, version: Version, number: int) -> Version:
    """Merge the deltas into a new base of version `number`."""
    name = _name("base", number)
    rows = folder.read(_names(version)).where(sf.col("log_offset").isNotNull()).drop("first_open")
    merged = state.latest(rows)
    folder.write(
        name,
        merged.select("*", sf.lit(False).alias("tombstone"), sf.lit(None).cast("long").alias("first_open")),
    )
    count = folder.read([name]).count()
    return version._replace(number=number, base=name, deltas=(), base_rows=count, delta_rows=0)


class _Folder:
    """The files at one path, accessed through Hadoop's file systems, like everything that Spark writes."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise MergeError("a state is kept by a session with a JVM, not through Spark Connect")
        self._spark = spark
        self._jvm = jvm
        self.path = path.rstrip("/")
        self._versions = f"{self.path}/versions"
        self._data = f"{self.path}/data"
        root = self._path(self.path)
        # With the session's settings, as Spark reads and writes Parquet: credentials may be among them.
        self._files = root.getFileSystem(settings_of(spark))

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _list(self, path: str) -> list[str]:
        if not self._files.exists(self._path(path)):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(self._path(path)))

    def versions(self) -> list[int]:
        """Return the numbers of all versions, the current one last."""
        names = (name.removesuffix(".json") for name in self._list(self._versions) if name.endswith(".json"))
        return sorted(int(name) for name in names if name.isdigit())

    def version(self, number: int | None = None) -> Version:
        """Return a version, the current one by default; an empty one before the first merge."""
        numbers = self.versions()
        if number is None:
            if not numbers:
                return Version()
            number = numbers[-1]
        if number not in numbers:
            raise MergeError(
                f"{self.path} has no version {number}, only {', '.join(map(str, numbers)) or 'none'}"
            )
        return self._read(number)

    def _file(self, number: int) -> str:
        return f"{self._versions}/{number:020d}.json"

    def _read(self, number: int) -> Version:
        name = self._file(number)
        stream = self._files.open(self._path(name))
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        try:
            fields = json.loads(text)
            offsets = {
                int(partition): int(offset) for partition, offset in fields.pop("next_offsets").items()
            }
            return Version(**{**fields, "next_offsets": offsets, "deltas": tuple(fields["deltas"])})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise MergeError(f"{name} is no version of a state: {error}") from error

    def publish(self, version: Version) -> None:
        """Make a version the current one. MergeError if its number exists already."""
        temporary = self._path(f"{self._versions}/.{uuid.uuid4().hex}")
        stream = self._files.create(temporary, False)
        stream.write(bytearray(json.dumps(version._asdict()).encode()))
        stream.close()
        if version.number in self.versions():
            self._files.delete(temporary, False)
            raise MergeError(f"{self.path}: another merge has made version {version.number} in the meantime")
        if not self._files.rename(temporary, self._path(self._file(version.number))):
            raise MergeError(
                f"{self.path}: version {version.number} cannot be made, or another merge has made it"
            )

    def write(self, name: str, rows: DataFrame) -> None:
        """Write rows below `data`: a base in a folder for each log partition, a delta in one."""
        writer = rows.select(*_COLUMNS).write
        if name.startswith("base"):
            # One task per log partition, several for a large one.
            writer = (
                rows.select(*_COLUMNS)
                .hint("rebalance", sf.col("log_partition"))
                .write.partitionBy("log_partition")
            )
        writer.parquet(f"{self._data}/{name}")

    def read(self, names: Iterable[str]) -> DataFrame:
        """Return the rows below `data`."""
        frames = [self._spark.read.schema(_DDL).parquet(f"{self._data}/{name}") for name in names]
        rows = frames[0]
        for frame in frames[1:]:
            rows = rows.unionByName(frame)
        return rows

    def discard(self, name: str) -> None:
        """Remove something below `data`."""
        self._files.delete(self._path(f"{self._data}/{name}"), True)

    def remove_unused(self, current: int) -> None:
        """Remove all but the last versions, and data that no version names any more.

        Data with a higher number than the current version belongs to a merge in progress.
        """
        for number in self.versions()[:-KEPT_VERSIONS]:
            self._files.delete(self._path(self._file(number)), False)
        used = {name for number in self.versions() for name in _names(self._read(number))}
        for name in self._list(self._data):
            if name not in used and int(name.split("-")[1]) <= current:
                self.discard(name)
