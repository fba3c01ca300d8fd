"""Report about the groups of a cluster: which ones lag, since when, how far; tables and plots in one HTML file.

`gather` runs the pipelines and collects the few rows that the page shows; `page` writes the HTML. `draw` draws a single
plot with matplotlib.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from kafka_offsets.clock import duration_text, utc_text
from kafka_offsets.lag import CURRENT
from kafka_offsets.spark import words
from kafka_offsets.spark.charts import COLOURS, OTHERS, Plot, Series, draw, is_dashed, svg, with_gaps
from kafka_offsets.spark.pipelines import activity, audit, lag_of_groups, stale
from kafka_offsets.spark.pipelines.history import compare
from kafka_offsets.spark.pipelines.state import REFUSE, times_in_ms

__all__ = ["Figure", "Found", "Plot", "Series", "Table", "draw", "gather", "page", "svg"]

GROUPS = len(COLOURS)
"""How many groups have their own line; the others share one line."""

ROWS = 50
"""Maximum number of rows of a table; the table also shows the total."""

SHOWN = 12
"""Rows of the table of groups that fit the first screen; the others are folded."""

_POINTS = 100
_WINDOWS = {
    "1 second": 1000,
    "10 seconds": 10_000,
    "1 minute": 60_000,
    "10 minutes": 600_000,
    "1 hour": 3_600_000,
    "6 hours": 21_600_000,
    "1 day": 86_400_000,
    "1 week": 604_800_000,
}
"""Lengths of windows, and how many ms they are."""

QUERIES = 11
"""How often `gather` calls `done` with all of its inputs."""

Row = Mapping[str, Any]


class Table(NamedTuple):
    """A table of the page.

    nothing  the sentence that replaces a table without rows
    total    number of all rows; `rows` are the first ones
    shown    how many rows are not folded
    """

    title: str
    about: str
    nothing: str
    columns: Sequence[str]
    rows: Sequence[Row]
    total: int
    shown: int = ROWS


class Figure(NamedTuple):
    """A number at the top of the page."""

    name: str
    value: str
    is_bad: bool = False


class Found(NamedTuple):
    """All that the page shows, as of `at`.

    first    tables of the first screen
    names    groups that have a line in the plots, in the order of their colours
    """

    at: datetime
    figures: Sequence[Figure]
    first: Sequence[Table]
    names: Sequence[str]
    plots: Sequence[Plot]
    tables: Sequence[Table]

    @property
    def has_others(self) -> bool:
        """Whether a plot has a line of all other groups."""
        return any(OTHERS in plot.lines for plot in self.plots)


def gather(
    raw: DataFrame,
    now_ms: int,
    retention_ms: int,
    window: str = "1 hour",
    lags: DataFrame | None = None,
    lag_history: DataFrame | None = None,
    *,
    state: DataFrame | None = None,
    known: DataFrame | None = None,
    unreadable: str = REFUSE,
    done: Callable[[], None] = lambda: None,
) -> Found:
    """Run the pipelines over a log.

    raw           as for `stale` and `audit`; persist it, because it is read several times
    lags          the result of `lag`, with times
    lag_history   the result of `lag_history`
    state, known  the results of `latest` and of `groups`, if they are known
    now_ms, retention_ms, window, unreadable  as for `stale` and `activity`
    done          called after each query, at most QUERIES times
    """
    gathered = _Gathering(window, done)
    steps = compare(raw).persist()
    checked = audit(raw, steps=steps)
    groups = checked.groups.persist()
    windows = activity(raw, window, steps=steps)
    try:
        by_size = gathered.table(
            "Groups by size of their records",
            "Many records for each key: commit less often.",
            "No group has records.",
            groups,
        )
        if lags is None:
            first, lag_figures = [by_size], gathered.size_figures(groups)
        else:
            first, lag_figures = gathered.lag_tables(lags)
        plots, names = gathered.plots(
            windows, lag_history, [row["group"] for row in (*first[0].rows, *by_size.rows)]
        )
        expiring = stale(raw, now_ms, retention_ms, state=state, known=known, unreadable=unreadable)
        tables = gathered.other_tables(expiring, checked)
    finally:
        steps.unpersist()
        groups.unpersist()
    stale_table, _, problems, _ = tables
    figures = [
        *lag_figures,
        Figure("offsets that expire", f"{stale_table.total:,}"),
        Figure("unreadable records", f"{problems.total:,}", problems.total > 0),
    ]
    rest = tables if first[0] is by_size else [*first[1:], by_size, *tables]
    return Found(datetime.fromtimestamp(now_ms / 1000, UTC), figures, first[:1], names, plots, rest)


def window_of(raw: DataFrame) -> str:
    """Return the length of a window, by which the times of a log make a line of at most about 100 points."""
    ms = sf.unix_millis("record_timestamp")
    times = raw.where(ms.between(0, LAST_MS)).agg(sf.min(ms).alias("first"), sf.max(ms).alias("last")).first()
    assert times is not None
    return window_for(0 if times["first"] is None else times["last"] - times["first"])


def window_for(span_ms: int) -> str:
    """Return the length of a window for times that are so far from each other."""
    for window, ms in _WINDOWS.items():
        if span_ms <= ms * _POINTS:
            return window
    return window


class _Gathering:
    """The queries of a report."""

    def __init__(self, window: str, done: Callable[[], None]) -> None:
        self._window = window
        self._done = done

    def table(self, title: str, about: str, nothing: str, rows: DataFrame, shown: int = ROWS) -> Table:
        """Collect the first rows of a table."""
        chosen = rows.drop("log_partition") if "group" in rows.columns else rows
        plain, times = times_in_ms(chosen)
        first = [
            {name: _moment(value) if name in times else value for name, value in row.asDict().items()}
            for row in plain.limit(ROWS + 1).collect()
        ]
        count = rows.count() if len(first) > ROWS else len(first)
        self._done()
        return Table(title, about, nothing, chosen.columns, first[:ROWS], count, shown)

    def size_figures(self, groups: DataFrame) -> list[Figure]:
        """Return the numbers of a report without lag."""
        totals = groups.agg(
            sf.count("*").alias("groups"),
            *(sf.sum(name).alias(name) for name in ("keys", "records", "bytes")),
        ).first()
        self._done()
        assert totals is not None
        counted = {name: int(value or 0) for name, value in totals.asDict().items()}
        return [
            Figure("groups", f"{counted['groups']:,}"),
            Figure("keys", f"{counted['keys']:,}"),
            Figure("records", f"{counted['records']:,}"),
            Figure("size of records", words.size(counted["bytes"])),
            Figure("lag", "with --ends"),
        ]

    def lag_tables(self, lags: DataFrame) -> tuple[list[Table], list[Figure]]:
        """Return the lag of groups and of partitions, and numbers about all groups."""
        lags = lags.persist()
        groups = groups_by_lag(lags).persist()
        by_group = self.table(
            "Groups by lag", "Records that a group has not read.", "No group has committed.", groups, SHOWN
        )
        totals = groups.agg(
            sf.sum("lag").alias("lag"),
            sf.max("time_lag_ms").alias("longest"),
            sf.count(sf.when(sf.col("lag") > 0, True)).alias("behind"),
            sf.count("*").alias("groups"),
        ).first()
        self._done()
        assert totals is not None
        behind = lags.where((sf.col("lag") > 0) | (sf.col("status") != CURRENT))
        columns = [name for name in _PLACE_COLUMNS if name in lags.columns]
        by_place = self.table(
            "Partitions by lag",
            "ahead: the log ends before the committed offset; the topic may have been created again. truncated: "
            "unread records were deleted. uncommitted: nothing is committed. gone: the partition does not exist. "
            "unknown: its leader does not answer.",
            "No group lags.",
            behind.select(*columns).orderBy(*_by_lag(), "topic", "partition"),
        )
        groups.unpersist()
        lags.unpersist()
        longest = totals["longest"]
        return [by_group, by_place], [
            Figure("lag of all groups", f"{totals['lag'] or 0:,}"),
            Figure("groups that lag", f"{totals['behind']:,} of {totals['groups']:,}", totals["behind"] > 0),
            Figure("longest wait", duration_text(longest) if longest else "-", bool(longest)),
        ]

    def plots(
        self, steps: DataFrame, lag_history: DataFrame | None, groups: Sequence[str]
    ) -> tuple[list[Plot], list[str]]:
        """Return the plots, and the groups with a line of their own; `groups` are those to choose from, in order."""
        drawn: list[Plot] = []
        if lag_history is None:
            names = list(dict.fromkeys(groups))[:GROUPS]
        else:
            lag_history = lag_history.persist()
            most = lag_history.groupBy("group").agg(sf.max("lag").alias("lag")).orderBy(*_by_lag())
            lagged = [row["group"] for row in most.where("lag > 0").limit(GROUPS).collect()]
            names = list(dict.fromkeys([*lagged, *groups]))[:GROUPS]
            self._done()
            lag_lines = self._lines(lag_history.where(sf.col("group").isin(names)), ["lag"], names)["lag"]
            drawn.append(Plot("Lag", "records", lag_lines, "No group has lagged."))
            lag_history.unpersist()
        lines = self._lines(steps, ["commits", "bytes", "rewinds", "rebalances"], names)
        each = f"in {self._window}"
        drawn += [
            Plot("Commits", each, lines["commits"], "No group has committed."),
            Plot("Growth of the log", "bytes", summed(lines["bytes"]), "Nothing was written."),
            Plot("Rewinds", each, lines["rewinds"], "No group has committed a lower offset than before."),
            Plot("Rebalances", each, lines["rebalances"], "No group has rebalanced."),
        ]
        return drawn, names

    def _lines(self, rows: DataFrame, columns: Sequence[str], names: Sequence[str]) -> Mapping[str, Series]:
        """Return for each column a line for each group in `names`, and one for all others, with gaps."""
        name = sf.when(sf.col("group").isin(list(names)), sf.col("group")).otherwise(OTHERS)
        window = sf.window("window_start", self._window)
        dated = rows.where(sf.unix_millis("window_start").between(0, LAST_MS))
        summed_rows = dated.groupBy(name.alias("name"), window.alias("at")).agg(
            *(sf.sum(column).alias(column) for column in columns)
        )
        drawn: dict[str, dict[str, list[tuple[datetime, float]]]] = {column: {} for column in columns}
        step = timedelta(0)
        for row in sorted(summed_rows.collect(), key=lambda row: row["at"]["start"]):
            start = _utc(row["at"]["start"])
            step = _utc(row["at"]["end"]) - start
            for column in columns:
                drawn[column].setdefault(row["name"], []).append((start, float(row[column] or 0)))
        self._done()
        order = [*names, OTHERS]
        return {
            column: {group: with_gaps(lines[group], step) for group in order if group in lines}
            for column, lines in drawn.items()
        }

    def other_tables(self, expired: DataFrame, checked: Any) -> list[Table]:
        """Return the tables of what expires, of rewinds, of problems and of partitions."""
        return [
            self.table(
                "Offsets that expire",
                "The coordinator deletes them at its next check.",
                "No offset expires.",
                expired.orderBy("expires_at", "group", "topic", "partition"),
            ),
            self.table(
                "Commits that moved back",
                "Each commit of an offset lower than the previous one.",
                "No group has committed a lower offset than before.",
                checked.rewinds.orderBy("record_timestamp"),
            ),
            self.table(
                "Unreadable records",
                "Their content is not in the other tables.",
                "Every record can be read.",
                checked.problems,
            ),
            self.table(
                "Partitions of the log",
                "Compaction leaves offsets without records.",
                "The log is empty.",
                checked.partitions.orderBy("log_partition"),
            ),
        ]


_PLACE_COLUMNS = (
    "lag",
    "group",
    "topic",
    "partition",
    "behind_since",
    "time_lag_ms",
    "status",
    "committed_offset",
    "log_end_offset",
    "skipped",
)


def _by_lag() -> tuple[Column, Column]:
    return sf.col("lag").desc_nulls_last(), sf.col("group")


def groups_by_lag(lags: DataFrame) -> DataFrame:
    """Return the lag of each group, the largest first.

    lags  the result of `lag`, with times
    The columns are lag (of all its partitions; null if none exists), group, behind_since (the time of the oldest unread
    record), time_lag_ms, partitions (such as `2 of 3`: those that lag), remarks (empty, or in words: offsets after the
    log end, deleted records, partitions that do not exist).
    """

    def said(count: str, text: str) -> Column:
        return sf.when(sf.col(count) > 0, sf.concat(sf.col(count).cast("string"), sf.lit(text)))

    remarks = sf.concat_ws(
        "; ",
        said("ahead", " after the log end"),
        said("skipped", " records deleted before they were read"),
        said("gone", " of partitions that do not exist"),
    )
    return (
        lag_of_groups(lags)
        .select(
            sf.when(sf.col("gone") < sf.col("partitions"), sf.col("lag")).alias("lag"),
            "group",
            "behind_since",
            "time_lag_ms",
            sf.concat_ws(" of ", "lagging", "partitions").alias("partitions"),
            remarks.alias("remarks"),
        )
        .orderBy(*_by_lag())
    )


def summed(drawn: Series) -> Series:
    """Return lines with cumulative sums, each on the times of all lines: a silent group stays where it is."""
    times = sorted({at for points in drawn.values() for at, value in points if value == value})
    lines: dict[str, list[tuple[datetime, float]]] = {}
    for name, points in drawn.items():
        values = {at: value for at, value in points if value == value}
        total = 0.0
        lines[name] = [(at, total := total + values.get(at, 0.0)) for at in times]
    return lines


LAST_MS = 253_402_214_400_000
"""The last day of the year 9999: Python and matplotlib have no later times, and a plot of them would show no others."""


def _moment(ms: int | None) -> datetime | str | None:
    """Return a time in ms as a time of Python; as text if it is beyond those."""
    if ms is None or not 0 <= ms <= LAST_MS:
        return None if ms is None else utc_text(ms)
    return datetime.fromtimestamp(ms // 1000, UTC) + timedelta(milliseconds=ms % 1000)


def _utc(at: datetime) -> datetime:
    """Return a time in UTC; PySpark returns naive times in the time zone of this process."""
    return at.astimezone(UTC)


# ---- the page -----------------------------------------------------------------------------------------------------

_HEADINGS = {"time_lag_ms": "for", "partitions": "partitions that lag", "bytes": "size"}
_TEXTS: Mapping[str, Callable[[Any], str]] = {
    "bytes": words.size,
    "time_lag_ms": duration_text,
    "share": lambda value: f"{100 * value:.1f} %",
}
_NUMERIC = frozenset(
    (
        *("lag", "partition", "committed_offset", "log_end_offset", "skipped", "records", "bytes", "share"),
        *("commits", "deletions", "rewinds", "group_records", "keys", "records_per_key", "members", "before"),
        *(
            "after",
            "log_partition",
            "log_offset",
            "first_offset",
            "last_offset",
            "missing",
            "repeated",
            "control",
        ),
        *("open", "unreadable", "key_version", "value_version", "position", "leader_epoch"),
    )
)


def page(found: Found) -> str:
    """Return the page as HTML."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    text = files("kafka_offsets.spark").joinpath("report.html").read_text(encoding="utf-8")

    def swatch(name: str) -> Markup:
        if name not in found.names:
            return Markup()
        number = found.names.index(name)
        dashed = " dashed" if is_dashed(number) else ""
        return Markup('<span class="swatch{}" style="color: var(--group-{})"></span>').format(
            dashed, number + 1
        )

    def cell(name: str, value: Any) -> Markup:
        if name == "group" and value is not None:
            return Markup('<td title="{}">{}{}</td>').format(value, swatch(value), words.short(value))
        return _cell(name, value)

    return environment.from_string(text).render(
        found=found,
        style=files("kafka_offsets").joinpath("page.css").read_text(encoding="utf-8"),
        colours=COLOURS,
        numeric=_NUMERIC,
        heading=lambda name: _HEADINGS.get(name, name.replace("_", " ")),
        cell=cell,
        swatch=swatch,
        short=words.short,
        plots=[(plot, "" if plot.is_empty else svg(plot, found.names)) for plot in found.plots],
    )


def _cell(name: str, value: Any) -> Markup:
    kind = Markup(' class="number"') if name in _NUMERIC else Markup()
    if name == "remarks":
        kind = Markup(' class="bad"')
    if value is None:
        text = "-" if name in _NUMERIC else ""
    elif name in _TEXTS:
        text = _TEXTS[name](value)
    elif isinstance(value, datetime):
        text = _utc(value).strftime("%Y-%m-%d %H:%M:%S")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        text = f"{value:,}"
    elif name in ("topic", "member"):
        return Markup('<td title="{}">{}</td>').format(value, words.short(value))
    else:
        text = str(value)
    return Markup("<td{}>{}</td>").format(kind, text)
