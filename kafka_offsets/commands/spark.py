"""`kafka-offsets spark …`: the pipelines, from a log to tables, files and reports.

Without a session the command creates one, with a thread per processor; under `spark-submit` it uses the cluster's, with
SPARK_REMOTE that of a Connect server.
Tables are printed as those of the other commands, aligned and with `-` for unknown values, or as JSON, or written to
files.
"""

from __future__ import annotations

import argparse
import glob
import itertools
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kafka_offsets.client.moves import parse_duration
from kafka_offsets.commands import state_tables
from kafka_offsets.commands.options import argument_types as types
from kafka_offsets.commands.options.client_properties import add_property_options, security_properties
from kafka_offsets.commands.output.progress import progress
from kafka_offsets.commands.state_tables import print_lags, print_table
from kafka_offsets.errors import KafkaOffsetsError
from kafka_offsets.installation import install_command
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.terminal import printable

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo

    from kafka_offsets.commands.options.connections import Refusals

FORMATS = ("parquet", "csv", "json")
_WEEK = "7d"
_HISTORY_WINDOWS = 200
"""How many windows of lag a report draws, the latest ones: each needs a request per topic."""

_REPORT_STEPS = 4
"""Parts of a report with lag before `report.gather`."""

_REMOTE = "SPARK_REMOTE"
"""Environment variable of Spark: the URL of a Connect server, whose session a command then uses."""

_SMALL_BYTES = 8 << 20
"""Segment files of at most so many bytes are read by this process: starting Spark's workers takes longer."""

_ALONE_BYTES = 2 << 30
"""Segment files of at most so many bytes need no Spark at all for `latest` and `lag`."""

_URL = re.compile("[a-z][a-z0-9+.-]+:/")
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
        made = parsers.add_parser(name, help=help_)
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
    _add_lag(action("lag", "the lag of groups, in records and in time"))
    _add_expiry(action("stale", "offsets that expire, and why"))
    activity = action("activity", "commits, rewinds, rebalances and members over time")
    activity.add_argument(
        "--window",
        type=types.interval,
        default="10 minutes",
        metavar="INTERVAL",
        help="length of a window, such as 1h or '1 hour' (10 minutes)",
    )
    action("audit", "gaps, rewinds, unreadable records, and the groups that fill the log")
    _add_written(action("write-segments", "write a compacted log directory", result=False))
    report = action("report", "a page of tables and plots", result=False)
    report.add_argument(
        "--output", dest="page", type=Path, required=True, metavar="FILE.html", help="the page to write"
    )
    report.add_argument(
        "--window",
        type=types.interval,
        metavar="INTERVAL",
        help="length of a window, such as 1h or '1 hour'; default: by the times of the log",
    )
    report.add_argument(
        "--ends", metavar="HOST:PORT", type=types.address, help="a broker that knows the topics: adds the lag"
    )
    _add_expiry(report)


def _add_written(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", type=Path, metavar="DIRECTORY", help="the directory to write; it must not exist"
    )
    parser.add_argument("--partitions", type=int, default=50, help="offsets.topic.num.partitions (50)")
    parser.add_argument(
        "--segment-bytes", type=int, default=100 << 20, help="offsets.topic.segment.bytes (104857600)"
    )


def _add_lag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ends",
        metavar="HOST:PORT",
        type=types.address,
        help="a broker that knows the topics; with --cluster it is LOG",
    )
    parser.add_argument(
        "--no-times", action="store_true", help="do not ask for the time of the first unread records"
    )
    parser.add_argument(
        "--limit",
        type=_positive,
        default=100,
        metavar="N",
        help="print at most this many groups and partitions (100); --json prints all",
    )


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "log",
        metavar="LOG",
        help="a log directory, one of its folders, a pattern, or a URL of Spark's file systems or of fsspec",
    )
    parser.add_argument(
        "--storage-options",
        metavar="JSON",
        help="read LOG with fsspec and these options ({} for none), not with Spark's file systems",
    )
    parser.add_argument(
        "--cluster", action="store_true", help="LOG is HOST:PORT of a broker: read the log of its cluster"
    )
    add_property_options(parser, "security.protocol, sasl.*, ssl.*, for --cluster and --ends")
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
        type=types.duration,
        metavar="DURATION",
        help=f"retention of offsets ({_WEEK})",
    )
    parser.add_argument(
        "--at", type=types.time, metavar="TIME", help="a time in UTC such as 2026-01-31T23:59:00 (now)"
    )


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return int(text)


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
        _check_paths(options)
        options.security = security_properties(options)
        if spark is None and _needs_no_spark(options):
            return state_tables.run(options)
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException
    except ModuleNotFoundError as error:
        raise SparkCommandError(f"needs {error.name}: {install_command('spark')}") from error
    except ValueError as error:
        raise SparkCommandError(str(error)) from error
    own = spark is None
    session = _session(options) if spark is None else spark
    try:
        with _progress(session, options.action):
            code = _ACTIONS[options.action](session, options)
    except (PySparkException, Py4JJavaError) as error:  # the latter from `toLocalIterator`
        raise SparkCommandError(_spark_message(error)) from error
    except ValueError as error:
        raise SparkCommandError(str(error)) from error
    finally:
        if own:
            session.stop()
    return code or 0


def _check_paths(options: argparse.Namespace) -> None:
    """Raise SparkCommandError if a local path is wrong or missing, which is known before a JVM has started.

    Sets `options.log_bytes`, the size of segments on this machine, else None, and `options.is_small`: whether this
    process reads the log by itself, without tasks of Spark.
    """
    options.log_bytes, options.is_small = None, False
    values = vars(options)
    if options.cluster and "ends" in values:
        options.ends = options.ends or options.log
    if options.action == "lag" and options.ends is None:
        raise SparkCommandError("lag needs --ends HOST:PORT, of a broker that knows the topics")
    snapshot, output, page = values.get("snapshot"), values.get("output"), values.get("page")
    if page is not None and (page.is_dir() or not page.absolute().parent.is_dir()):
        raise SparkCommandError(f"{page}: not a file in an existing directory")
    if _REMOTE in os.environ:  # the paths are those of the server's machine
        return
    _check_input(options)
    if snapshot is not None and _is_local(snapshot) and not Path(snapshot).exists():
        raise SparkCommandError(f"{snapshot}: no such snapshot")
    for path in (output, values.get("directory")):
        if path is not None and _is_local(str(path)) and Path(path).exists():
            raise SparkCommandError(f"{path}: already exists")


def _is_local(path: str) -> bool:
    return _URL.match(path) is None and "::" not in path


def _check_input(options: argparse.Namespace) -> None:
    path = options.log.removeprefix("file://")
    if options.cluster or not _is_local(path):  # of another file system, perhaps with settings of Spark
        return
    if options.parquet:
        if not glob.glob(path):
            raise SparkCommandError(f"{path}: no such file or directory")
        return
    from kafka_offsets.spark.reader.segments import NoLogError, find

    try:
        segments_of_log = find(options.log)
    except (NoLogError, OSError) as error:
        raise SparkCommandError(str(error)) from error
    options.log_bytes = sum(segment.size for segments in segments_of_log.values() for segment in segments)
    options.is_small = options.log_bytes <= _SMALL_BYTES


def _needs_no_spark(options: argparse.Namespace) -> bool:
    """Whether this process carries the command out alone: in less time than a JVM takes to start, or little more."""
    if options.action not in state_tables.ACTIONS or options.log_bytes is None:
        return False
    values = vars(options)
    asked = ("output", "snapshot", "storage_options", "master", "conf")  # what only Spark does, or for Spark
    is_asked = any(values.get(name) not in (None, []) for name in asked)
    return options.log_bytes <= _ALONE_BYTES and not is_asked and "PYSPARK_GATEWAY_PORT" not in os.environ


def _session(options: argparse.Namespace) -> SparkSession:
    settings = {"spark.sql.session.timeZone": "UTC", **dict(options.conf)}
    if _REMOTE in os.environ:
        if options.master is not None:
            # Its value is not shown: it may have a token.
            raise SparkCommandError(
                f"--master does not go with {_REMOTE} in the environment: give one of them"
            )
        return _builder(options, settings).getOrCreate()
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # under spark-submit
        if options.master is not None:
            raise SparkCommandError("--master is an option of spark-submit, not of this command")
        return _submitted_session(options, settings)
    from kafka_offsets.spark import local_session

    defaults = {
        # The bar of this command needs rich; Spark's has no rate, and a line for each stage.
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty() and find_spec("rich") is None).lower(),
        "spark.sql.shuffle.partitions": "1" if options.is_small else str(2 * (os.cpu_count() or 1)),
        # A plan that does not change while it runs is one job, not one for each shuffle.
        "spark.sql.adaptive.enabled": str(not options.is_small).lower(),
    }
    if options.is_small:  # no query of a command needs generated code
        defaults["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
    session = local_session.builder(
        f"kafka-offsets {options.action}",
        {**defaults, **settings},
        master=options.master or "local[*]",
        is_small=options.is_small,
        archives_classes=options.is_small,
    ).getOrCreate()
    session.sparkContext.setLogLevel("FATAL")  # the command prints the error, without stacks of the JVM
    return session


def _submitted_session(options: argparse.Namespace, settings: Mapping[str, str]) -> SparkSession:
    session = _builder(options, settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _builder(options: argparse.Namespace, settings: Mapping[str, str]) -> SparkSession.Builder:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"kafka-offsets {options.action}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _progress(session: SparkSession, action: str) -> AbstractContextManager[None]:
    """Show the tasks of an action; the report has a bar of its own, for all of its queries."""
    if action == "report":
        return nullcontext()
    tasks: _Tasks | _RemoteTasks
    if _REMOTE in os.environ:
        tasks = _RemoteTasks()
        session.registerProgressHandler(cast("ProgressHandler", tasks))
    else:
        tasks = _Tasks(session.sparkContext.statusTracker())
    return progress(f"spark {action}", tasks.count, tasks.completed, unit="tasks")


class _Tasks:
    """The tasks of Spark's jobs since this object was made, of all stages that are known by now."""

    def __init__(self, tracker: StatusTracker) -> None:
        self._tracker = tracker
        self._before = frozenset(tracker.getJobIdsForGroup())
        self._completed = 0

    def count(self) -> int:
        """Return how many tasks there are; `completed` is of the same moment."""
        stages: dict[int, tuple[int, int]] = {}
        for number in self._tracker.getJobIdsForGroup():
            job = None if number in self._before else self._tracker.getJobInfo(number)
            for stage_id in () if job is None else job.stageIds:
                stage = self._tracker.getStageInfo(stage_id)
                if job is not None and stage is not None:
                    # What an earlier job has computed is skipped, and has no completed tasks.
                    is_over = job.status != "RUNNING"
                    done = stage.numTasks if is_over else stage.numCompletedTasks
                    stages[stage_id] = max(stages.get(stage_id, (0, 0)), (done, stage.numTasks))
        self._completed = sum(done for done, _ in stages.values())
        return sum(tasks for _, tasks in stages.values())

    def completed(self) -> int:
        """Return how many of them are completed."""
        return self._completed


class _RemoteTasks:
    """The tasks of all queries of a session of Spark Connect. Source: pyspark.sql.connect.shell.progress."""

    def __init__(self) -> None:
        self._before = 0
        self._done = self._all = 0

    def __call__(
        self,
        stages: Iterable[StageInfo] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        """Take what the server reports about the running query; `done` comes once, with the last report."""
        infos = list(stages or ())
        self._all = self._before + sum(stage.num_tasks for stage in infos)
        self._done = self._all if done else self._before + sum(stage.num_completed_tasks for stage in infos)
        if done:
            self._before = self._all

    def count(self) -> int:
        """Return how many tasks are known."""
        return self._all

    def completed(self) -> int:
        """Return how many of them are completed."""
        return self._done


def _spark_message(error: Exception) -> str:
    """Return the error message without Spark's stack."""
    text = str(error)
    raised = _RAISED.findall(text) or _LAST_ERROR.findall(text)
    return raised[-1].strip() if raised else text.strip().splitlines()[0]


# ---- input and output -----------------------------------------------------------------------------------------


def _read(spark: SparkSession, options: argparse.Namespace, **settings: str) -> DataFrame:
    """Return rows of the log; `settings` are options of the data source."""
    from kafka_offsets.spark import register
    from kafka_offsets.spark.reader import hadoop

    if options.parquet:
        return spark.read.parquet(options.log)
    if options.storage_options is not None:
        settings["storageOptions"] = options.storage_options
    if options.is_small:
        return _read_here(spark, options.log, settings)
    is_ours = options.cluster or options.storage_options is not None
    is_local = _is_local(options.log.removeprefix("file://"))
    if not is_ours and not is_local and hadoop.is_known(spark, options.log):
        return hadoop.read_log(spark, options.log, **settings)
    register(spark)
    source = "bootstrap.servers" if options.cluster else "path"
    reader = spark.read.format("consumer_offsets").option(source, options.log)
    if options.cluster:
        reader = reader.options(**{f"kafka.{key}": value for key, value in options.security.items()})
    for name, value in settings.items():
        reader = reader.option(name, value)
    return reader.load()


def _read_here(spark: SparkSession, path: str, settings: Mapping[str, str]) -> DataFrame:
    """Return the rows of a small log, read by this process."""
    from kafka_offsets.spark import read_table
    from kafka_offsets.spark.reader import schema

    rows = read_table(path, **settings)
    return spark.createDataFrame(rows, schema.ddl(rows.schema.names)).coalesce(1)


def _unreadable(options: argparse.Namespace) -> str:
    return "skip" if options.skip_unreadable else "refuse"


def _give(table: DataFrame, options: argparse.Namespace, name: str = "") -> None:
    """Write or print a table; one of several has a name."""
    if options.output is not None:
        where = f"{options.output.rstrip('/')}/{name}" if name else options.output
        writer = table.write.format(options.format)
        (writer.option("header", "true") if options.format == "csv" else writer).save(where)
        return
    from kafka_offsets.spark.pipelines.state import times_in_ms

    plain, times = times_in_ms(table)
    rows = (row.asDict() for row in plain.toLocalIterator())
    print_table(table.columns, rows, name, times=times, as_json=options.json)


def _print_done(options: argparse.Namespace, written: str | Path, text: str, **figures: int) -> None:
    """Print what a command has written: as text, or as an object with its path and figures."""
    print(json.dumps({"path": str(written), **figures}) if options.json else printable(f"{written}: {text}"))


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
    raw = _read(spark, options, mode="latest")
    is_reduced = not options.parquet
    return latest(raw, before, keep_tombstones, unreadable=_unreadable(options), is_reduced=is_reduced)


def _merge_state(spark: SparkSession, options: argparse.Namespace) -> None:
    from kafka_offsets.spark.pipelines import merge_state, next_offsets

    starts = {str(partition): offset for partition, offset in next_offsets(spark, options.state).items()}
    settings = {"startingOffsets": json.dumps(starts)} if starts else {}
    raw = _read(spark, options, pipeline="merge_state", **settings)
    done = merge_state(options.state, raw, unreadable=_unreadable(options), full=options.full)
    rows = f"{done.base_rows} rows and {done.delta_rows} changes in {len(done.deltas)} parts"
    fields = {
        "version": done.number,
        "rows": done.base_rows,
        "changes": done.delta_rows,
        "parts": len(done.deltas),
    }
    _print_done(options, options.state, f"version {done.number}, {rows}", **fields)


def _lag(spark: SparkSession, options: argparse.Namespace) -> int:
    from kafka_offsets.commands.options.connections import Refusals

    refusals = Refusals()
    lags = _lag_table(spark, options, _state(spark, options), refusals, times=not options.no_times)
    if options.output is not None or options.json:
        _give(lags, options)
        return refusals.code
    from pyspark.sql import functions as sf

    from kafka_offsets.spark.pipelines import lag_of_groups
    from kafka_offsets.spark.pipelines.state import times_in_ms

    groups = lag_of_groups(lags.persist()).persist()
    count, partitions, ahead = (groups.agg(sf.count("*"), sf.sum("partitions"), sf.sum("ahead")).collect())[0]
    largest = groups.orderBy(sf.col("lag").desc(), "group").limit(options.limit)
    beyond = lags.where(lags["status"] == "ahead").limit(1 if ahead else 0)
    print_lags(
        *(
            [row.asDict() for row in times_in_ms(rows)[0].collect()]
            for rows in (largest, lags.limit(options.limit), beyond)
        ),
        totals=(count, partitions or 0, ahead or 0),
    )
    return refusals.code


def _lag_table(
    spark: SparkSession,
    options: argparse.Namespace,
    state: DataFrame,
    refusals: Refusals,
    *,
    times: bool = True,
) -> DataFrame:
    from kafka_offsets.spark.pipelines import ends_of, lag, times_of

    state = state.persist()
    security = options.security
    refused: dict[TopicPartition, KafkaOffsetsError] = {}
    ends = ends_of(spark, options.ends, state, properties=security, refused=refused)
    lags = lag(state, ends)
    if times:
        now_ms = round(time.time() * 1000)
        asked = times_of(spark, options.ends, lags, properties=security, refused=refused)
        lags = lag(state, ends, asked, now_ms)
    refusals.add_log_ends(refused)
    lags = lags.select("lag", *(name for name in lags.columns if name != "lag"))
    return lags.orderBy(lags["lag"].desc_nulls_last(), "group", "topic", "partition")


def _stale(spark: SparkSession, options: argparse.Namespace) -> None:
    from kafka_offsets.spark.pipelines import groups, stale

    raw = _read(spark, options, pipeline="stale")
    known_groups = groups(raw, in_driver=True) if options.is_small else None
    stale_offsets = stale(
        raw, _now_ms(options), options.retention, known=known_groups, unreadable=_unreadable(options)
    )
    _give(stale_offsets.orderBy("group", "topic", "partition"), options)


def _activity(spark: SparkSession, options: argparse.Namespace) -> None:
    from kafka_offsets.spark.pipelines import activity

    raw = _read(spark, options, pipeline="activity")
    _give(activity(raw, options.window).orderBy("window_start", "group"), options)


def _audit(spark: SparkSession, options: argparse.Namespace) -> None:
    from kafka_offsets.spark.pipelines import audit

    for name, table in audit(_read(spark, options, pipeline="audit", verifyCrc="true"))._asdict().items():
        _give(table, options, name)


def _write_segments(spark: SparkSession, options: argparse.Namespace) -> None:
    from kafka_offsets.spark.pipelines import write_segments

    done = write_segments(
        _read(spark, options, pipeline="write_segments"),
        options.directory,
        partitions=options.partitions,
        segment_bytes=options.segment_bytes,
        unreadable=_unreadable(options),
    )
    what = f"{done.records} records, {done.bytes} bytes in {done.segments} segments"
    _print_done(options, options.directory, f"{what} of {done.partitions} partitions", **done._asdict())


def _report(spark: SparkSession, options: argparse.Namespace) -> int:
    from kafka_offsets.commands.options.connections import Refusals
    from kafka_offsets.spark import report
    from kafka_offsets.spark.pipelines import groups, latest

    refusals = Refusals()
    steps = itertools.count()
    seen = [next(steps)]
    with progress("report", _REPORT_STEPS + report.QUERIES, lambda: seen[0], unit="queries"):

        def done() -> None:
            seen[0] = next(steps)

        raw = _read(spark, options, pipeline="stale,activity,audit").persist()
        if options.window is None:
            options.window = report.window_of(raw)
        done()
        state = latest(raw, unreadable=_unreadable(options)).persist()
        lags = history = None
        if options.ends is not None:
            lags, history = _lags_of_report(spark, options, raw, state, refusals, done)
        gathered = report.gather(
            *(raw, _now_ms(options), options.retention, options.window, lags, history),
            state=state,
            known=groups(raw, in_driver=options.is_small),
            unreadable=_unreadable(options),
            done=done,
        )
        text = report.page(gathered)
    try:
        options.page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SparkCommandError(f"{options.page}: {error.strerror}") from error
    size = len(text.encode())
    _print_done(options, options.page, f"{size:,} bytes", bytes=size)
    return refusals.code


def _lags_of_report(
    spark: SparkSession,
    options: argparse.Namespace,
    raw: DataFrame,
    state: DataFrame,
    refusals: Refusals,
    done: Callable[[], None],
) -> tuple[DataFrame, DataFrame]:
    """Return the lag, and the lag over time; `done` is called three times."""
    from pyspark.sql import functions as sf

    from kafka_offsets.spark import report
    from kafka_offsets.spark.pipelines import growth_of, lag_history

    lags = _lag_table(spark, options, state, refusals)
    done()
    windows = raw.select(sf.window("record_timestamp", options.window).alias("w")).distinct()
    ends = windows.select(sf.unix_millis("w.end").alias("end")).orderBy(sf.col("end").desc())
    latest_ends = [
        row["end"] for row in ends.where(sf.col("end") <= report.LAST_MS).limit(_HISTORY_WINDOWS).collect()
    ]
    done()
    times = growth_of(spark, options.ends, state, latest_ends, properties=options.security)
    done()
    return lags, lag_history(raw, times, options.window, unreadable=_unreadable(options))


_ACTIONS: dict[str, Callable[[Any, argparse.Namespace], int | None]] = {
    "latest": _latest,
    "merge-state": _merge_state,
    "lag": _lag,
    "stale": _stale,
    "activity": _activity,
    "audit": _audit,
    "write-segments": _write_segments,
    "report": _report,
}
