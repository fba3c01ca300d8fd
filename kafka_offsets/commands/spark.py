"""`kafka-offsets spark …`: the pipelines, from a log to tables, files and reports.

Without a session the command creates one, with a thread per processor; under `spark-submit` it uses the cluster's.
Tables are printed with spaces between the columns and `-` for unknown values, or as JSON, or written to files.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_offsets.client.connection import parse_address
from kafka_offsets.client.moves import parse_duration, parse_time
from kafka_offsets.errors import KafkaOffsetsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "json")
_WEEK = "P7D"
_BYTES = "key,value"
_HISTORY_WINDOWS = 200
"""How many windows of lag a report draws, the latest ones: each needs a request per topic."""

_LAST_ERROR = re.compile(
    r"^(?:pyspark\.\S+\.|kafka_offsets\.\S+\.|builtins\.)?\w*(?:Error|Exception): (.+)$", re.MULTILINE
)
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE.*)?$", re.MULTILINE)


class SparkCommandError(KafkaOffsetsError):
    """A command that Spark could not carry out."""


def add_actions(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `kafka-offsets spark`."""
    parsers = parser.add_subparsers(
        dest="action", metavar="COMMAND", required=True, parser_class=type(parser)
    )

    def action(name: str, help_: str, *, result: bool = True) -> argparse.ArgumentParser:
        """Add an action with the options of its input and, with `result`, of its output."""
        made = parsers.add_parser(name, help=help_, description=help_)
        _add_input(made)
        if result:
            made.add_argument(
                "--output", metavar="PATH", help="write the result there instead of printing it"
            )
            made.add_argument(
                "--format", choices=FORMATS, default="parquet", help="format of the written result (parquet)"
            )
            made.add_argument("--json", action="store_true", help="print one JSON object per line")
        return made

    latest = action("latest", "what is committed at the end of the log")
    latest.add_argument(
        "--keep-tombstones", action="store_true", help="include deleted keys, marked in the column tombstone"
    )
    latest.add_argument("--snapshot", metavar="PATH", help="a state in Parquet; the log continues it")
    merge = action("merge-state", "update a state in Parquet from the log", result=False)
    merge.add_argument("--state", metavar="PATH", required=True, help="the folder of the state")
    merge.add_argument("--full", action="store_true", help="write the whole state again")
    lag = action("lag", "the lag of groups, in records and in time")
    lag.add_argument(
        "--ends", metavar="HOST:PORT", type=_address, required=True, help="a broker that knows the topics"
    )
    lag.add_argument(
        "--no-times", action="store_true", help="do not ask for the time of the first unread records"
    )
    _add_expiry(action("stale", "offsets that expire, and why"))
    activity = action("activity", "commits, rewinds, rebalances and members over time")
    activity.add_argument(
        "--window", default="10 minutes", metavar="INTERVAL", help="length of a window (10 minutes)"
    )
    action("audit", "gaps, rewinds, unreadable records, and the groups that fill the log")
    write = action("write-segments", "write a compacted log directory", result=False)
    write.add_argument(
        "directory", type=Path, metavar="DIRECTORY", help="the directory to write; it must not exist"
    )
    write.add_argument("--partitions", type=int, default=50, help="offsets.topic.num.partitions (50)")
    write.add_argument(
        "--segment-bytes", type=int, default=100 << 20, help="offsets.topic.segment.bytes (104857600)"
    )
    report = action("report", "a page of tables and plots", result=False)
    report.add_argument("page", type=Path, metavar="FILE.html")
    report.add_argument("--window", default="1 hour", metavar="INTERVAL", help="length of a window (1 hour)")
    report.add_argument(
        "--ends", metavar="HOST:PORT", type=_address, help="a broker that knows the topics: adds the lag"
    )
    _add_expiry(report)


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "log", metavar="LOG", help="a log directory, one of its folders, a pattern, or a URL of fsspec"
    )
    parser.add_argument(
        "--cluster", action="store_true", help="LOG is HOST:PORT of a broker: read the log of its cluster"
    )
    parser.add_argument(
        "--parquet", action="store_true", help="LOG is Parquet with rows of a log that was read before"
    )
    parser.add_argument(
        "--skip-unreadable",
        action="store_true",
        help="skip records that cannot be read, instead of failing",
    )
    parser.add_argument("--master", help="the Spark master (local[*]); spark-submit sets it by itself")
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_key_and_value,
        metavar="KEY=VALUE",
        help="a setting of Spark; may be given several times",
    )


def _add_expiry(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--retention",
        default=parse_duration(_WEEK),
        type=_duration,
        metavar="DURATION",
        help=f"retention of offsets ({_WEEK})",
    )
    parser.add_argument(
        "--at", type=_time, metavar="TIME", help="a time in UTC such as 2026-01-31T23:59:00 (now)"
    )


def _typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def typed(text: str) -> Any:
        try:
            return parse(text)
        except (ValueError, OverflowError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return typed


_time, _duration = map(_typed, (parse_time, parse_duration))


def _address(text: str) -> str:
    _typed(parse_address)(text)
    return text


def _key_and_value(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"{text} is not KEY=VALUE")
    return key, value


def run(options: argparse.Namespace, spark: SparkSession | None = None) -> int:
    """Run the command; return the exit code. Raises KafkaOffsetsError if it cannot be carried out.

    spark  the session to use; created if not given
    """
    try:
        from pyspark.errors import PySparkException
    except ModuleNotFoundError as error:
        raise SparkCommandError(f'needs {error.name}: pip install ".[spark]" in a clone') from error
    _check_log(options)
    own = spark is None
    session = _session(options) if spark is None else spark
    try:
        _ACTIONS[options.action](session, options)
    except PySparkException as error:
        raise SparkCommandError(_said(error)) from error
    except ValueError as error:
        raise SparkCommandError(str(error)) from error
    finally:
        if own:
            session.stop()
    return 0


def _check_log(options: argparse.Namespace) -> None:
    """Raise SparkCommandError if a local log does not exist, which is known before a JVM has started."""
    if options.cluster or options.parquet:
        return
    path = options.log.removeprefix("file://")
    if "://" in path or "::" in path:  # of another file system, perhaps with settings of Spark
        return
    from kafka_offsets.spark.reader.segments import NoLogError, find

    try:
        find(options.log)
    except (NoLogError, OSError) as error:
        raise SparkCommandError(str(error)) from error


def _session(options: argparse.Namespace) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers run the `python3` of PATH
    builder = SparkSession.builder.appName(f"kafka-offsets {options.action}")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit
        builder = builder.master(options.master or "local[*]")
        # Spark's own bar: the tasks of each stage.
        builder = builder.config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
        # Spark's default of 200 tasks after each shuffle takes one machine a minute, even for little data.
        builder = builder.config("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 1)))
    elif options.master is not None:
        raise SparkCommandError("--master is an option of spark-submit, not of this command")
    for key, value in (("spark.sql.session.timeZone", "UTC"), *options.conf):
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _said(error: Exception) -> str:
    """Return the error message without Spark's stack."""
    text = str(error)
    raised = _RAISED.findall(text) or _LAST_ERROR.findall(text)
    return raised[-1].strip() if raised else text.strip().splitlines()[0]


# ---- input and output -----------------------------------------------------------------------------------------


def _read(spark: SparkSession, options: argparse.Namespace, **settings: str) -> DataFrame:
    """Return the rows of the log, including those of open and aborted transactions."""
    from kafka_offsets.spark import register

    if options.parquet:
        return spark.read.parquet(options.log)
    register(spark)
    source = "bootstrap.servers" if options.cluster else "path"
    reader = spark.read.format("consumer_offsets").option(source, options.log)
    for name, value in {"isolation": "uncommitted", **settings}.items():
        reader = reader.option(name, value)
    return reader.load()


def _with_bytes(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    from kafka_offsets.spark import schema

    return _read(spark, options, columns=",".join((*schema.DEFAULT_COLUMNS, *_BYTES.split(","))))


def _unreadable(options: argparse.Namespace) -> str:
    return "skip" if options.skip_unreadable else "refuse"


def _give(table: DataFrame, options: argparse.Namespace, name: str = "") -> None:
    """Write or print a table; one of several has a name."""
    if options.output is not None:
        where = f"{options.output.rstrip('/')}/{name}" if name else options.output
        writer = table.write.format(options.format)
        (writer.option("header", "true") if options.format == "csv" else writer).save(where)
        return
    rows = table.toLocalIterator()
    first = list(islice(rows, 1))  # before the header: an error is then all that is printed
    if not options.json:
        print(*([f"# {name}"] if name else []), " ".join(table.columns), sep="\n")
    for row in chain(first, rows):
        found = row.asDict()
        if options.json:
            print(
                json.dumps(
                    {
                        **({"table": name} if name else {}),
                        **{key: _plain(each) for key, each in found.items()},
                    }
                )
            )
        else:
            print(*("-" if each is None or each == "" else _plain(each) for each in found.values()))


def _plain(value: Any) -> Any:
    """Return times in UTC; PySpark returns naive times in the time zone of this process."""
    if not isinstance(value, datetime):
        return value
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _now_ms(options: argparse.Namespace) -> int:
    return round(time.time() * 1000) if options.at is None else int(options.at)


# ---- commands -------------------------------------------------------------------------------------------------


def _latest(spark: SparkSession, options: argparse.Namespace) -> None:
    _give(_state(spark, options, keep_tombstones=options.keep_tombstones, snapshot=options.snapshot), options)


def _state(
    spark: SparkSession,
    options: argparse.Namespace,
    *,
    keep_tombstones: bool = False,
    snapshot: str | None = None,
) -> DataFrame:
    from kafka_offsets.spark.pipelines import latest

    before = None if snapshot is None else spark.read.parquet(snapshot)
    raw = _read(spark, options, mode="latest", isolation="committed")
    return latest(raw, before, keep_tombstones, unreadable=_unreadable(options))


def _merge_state(spark: SparkSession, options: argparse.Namespace) -> None:
    from kafka_offsets.spark import schema
    from kafka_offsets.spark.pipelines import merge_state, next_offsets

    starts = {str(partition): offset for partition, offset in next_offsets(spark, options.state).items()}
    columns = ("kind", "key_version", "outcome", "file", "position", *schema.LATEST_COLUMNS)
    settings = {"startingOffsets": json.dumps(starts)} if starts else {}
    raw = _read(spark, options, columns=",".join(columns), types="offset,unknown", **settings)
    done = merge_state(options.state, raw, unreadable=_unreadable(options), full=options.full)
    rows = f"{done.base_rows} rows and {done.delta_rows} changes in {len(done.deltas)} parts"
    print(f"{options.state}: version {done.number}, {rows}")


def _lag(spark: SparkSession, options: argparse.Namespace) -> None:
    _give(_lag_table(spark, options, _state(spark, options), times=not options.no_times), options)


def _lag_table(
    spark: SparkSession, options: argparse.Namespace, state: DataFrame, *, times: bool = True
) -> DataFrame:
    from kafka_offsets.spark.pipelines import ends_of, lag, times_of

    state = state.persist()
    ends = ends_of(spark, options.ends, state)
    found = lag(state, ends)
    if not times:
        return found.orderBy("group", "topic", "partition")
    now_ms = round(time.time() * 1000)
    return lag(state, ends, times_of(spark, options.ends, found), now_ms).orderBy(
        "group", "topic", "partition"
    )


def _stale(spark: SparkSession, options: argparse.Namespace) -> None:
    from kafka_offsets.spark.pipelines import stale

    raw = _with_bytes(spark, options)
    found = stale(raw, _now_ms(options), options.retention, unreadable=_unreadable(options))
    _give(found.orderBy("group", "topic", "partition"), options)


def _activity(spark: SparkSession, options: argparse.Namespace) -> None:
    from kafka_offsets.spark.pipelines import activity

    _give(activity(_read(spark, options), options.window).orderBy("window_start", "group"), options)


def _audit(spark: SparkSession, options: argparse.Namespace) -> None:
    from kafka_offsets.spark.pipelines import audit

    for name, table in audit(_read(spark, options))._asdict().items():
        _give(table, options, name)


def _write_segments(spark: SparkSession, options: argparse.Namespace) -> None:
    from kafka_offsets.spark.pipelines import write_segments

    done = write_segments(
        _with_bytes(spark, options),
        options.directory,
        partitions=options.partitions,
        segment_bytes=options.segment_bytes,
        unreadable=_unreadable(options),
    )
    what = f"{done.records} records, {done.bytes} bytes in {done.segments} segments"
    print(f"{options.directory}: {what} of {done.partitions} partitions")


def _report(spark: SparkSession, options: argparse.Namespace) -> None:
    from pyspark.sql import functions as sf

    from kafka_offsets.spark import report
    from kafka_offsets.spark.pipelines import growth_of, lag_history, latest

    raw = _with_bytes(spark, options).persist()
    lags = history = None
    if options.ends is not None:
        state = latest(raw, unreadable=_unreadable(options)).persist()
        lags = _lag_table(spark, options, state)
        windows = raw.select(sf.window("record_timestamp", options.window).alias("w")).distinct()
        ends = windows.select(sf.unix_millis("w.end").alias("end")).orderBy(sf.col("end").desc())
        times = growth_of(
            spark, options.ends, state, (row["end"] for row in ends.limit(_HISTORY_WINDOWS).collect())
        )
        history = lag_history(raw, times, options.window, unreadable=_unreadable(options))
    found = report.gather(
        *(raw, _now_ms(options), options.retention, options.window, lags, history),
        unreadable=_unreadable(options),
    )
    try:
        options.page.write_text(report.page(found), encoding="utf-8")
    except OSError as error:
        raise SparkCommandError(f"{options.page}: {error.strerror}") from error


_ACTIONS: dict[str, Callable[[Any, argparse.Namespace], None]] = {
    "latest": _latest,
    "merge-state": _merge_state,
    "lag": _lag,
    "stale": _stale,
    "activity": _activity,
    "audit": _audit,
    "write-segments": _write_segments,
    "report": _report,
}
