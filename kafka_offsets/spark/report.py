"""Report about the groups of a cluster: tables and plots in one self-contained HTML file.

`gather` runs the pipelines and collects the few rows that the page shows; `page` writes the HTML, and `draw` draws a
plot with matplotlib; it can also be used on its own.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import jinja2
import matplotlib
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kafka_offsets.spark.pipelines import activity, audit, stale
from kafka_offsets.spark.pipelines.state import REFUSE

GROUPS = 8
"""How many groups have their own line; the others share one line."""

ROWS = 50
"""Maximum number of rows of a table; the table also shows the total."""

OTHERS = "others"

Row = Mapping[str, Any]
Series = Mapping[str, Sequence[tuple[datetime, float]]]
"""Lines of a plot by their names: times and values."""


class Table(NamedTuple):
    """A table of the page.

    total  number of all rows; `rows` are the first ones
    """

    title: str
    about: str
    columns: Sequence[str]
    rows: Sequence[Row]
    total: int


class Plot(NamedTuple):
    """A plot of the page."""

    title: str
    unit: str
    lines: Series


class Found(NamedTuple):
    """All that the page shows, as of `at`."""

    at: datetime
    totals: Mapping[str, int]
    plots: Sequence[Plot]
    tables: Sequence[Table]


def gather(
    raw: DataFrame,
    now_ms: int,
    retention_ms: int,
    window: str = "1 hour",
    lags: DataFrame | None = None,
    lag_history: DataFrame | None = None,
    *,
    unreadable: str = REFUSE,
) -> Found:
    """Run the pipelines over a log.

    raw           as for `stale` and `audit`; persist it, because it is read several times
    lags          the result of `lag`
    lag_history   the result of `lag_history`
    now_ms, retention_ms, window, unreadable  as for `stale` and `activity`
    """
    steps = activity(raw, window).persist()
    checked = audit(raw)
    groups = checked.groups.persist()
    top = [row["group"] for row in groups.limit(GROUPS).collect()]
    totals = groups.agg(
        sf.count("*").alias("groups"),
        sf.sum("keys").alias("keys"),
        sf.sum("records").alias("records"),
        sf.sum("bytes").alias("bytes"),
        sf.sum("rewinds").alias("rewinds"),
    ).first()
    plots = [
        Plot("Commits", f"commits in {window}", lines(steps, "commits", top)),
        Plot("Growth of the log", "bytes", summed(lines(steps, "bytes", top))),
        Plot("Rewinds", f"rewinds in {window}", lines(steps, "rewinds", top)),
        Plot("Rebalances", f"rebalances in {window}", lines(steps, "rebalances", top)),
    ]
    tables = [
        _table("Groups by size of their records", "Many records for each key: commit less often.", groups)
    ]
    if lags is not None:
        behind = lags.orderBy(sf.col("lag").desc_nulls_last(), "group", "topic", "partition")
        tables.insert(0, _table("Lag", "Records that groups have not read.", behind))
    if lag_history is not None:
        behind_most = (
            lag_history.groupBy("group").agg(sf.max("lag").alias("lag")).orderBy(sf.col("lag").desc())
        )
        names = [row["group"] for row in behind_most.limit(GROUPS).collect()]
        plots.insert(0, Plot("Lag", "records", lines(lag_history, "lag", names)))
    expired = stale(raw, now_ms, retention_ms, unreadable=unreadable).orderBy("expires_at")
    tables += [
        _table("Offsets that expire", "The coordinator deletes them at its next check.", expired),
        _table(
            "Rewinds", "Commits lower than the previous one.", checked.rewinds.orderBy("record_timestamp")
        ),
        _table("Unreadable records", "Their content is not in the other tables.", checked.problems),
        _table("Partitions of the log", "Compaction leaves offsets without records.", checked.partitions),
    ]
    steps.unpersist()
    groups.unpersist()
    counted = {} if totals is None else {name: int(value or 0) for name, value in totals.asDict().items()}
    return Found(datetime.fromtimestamp(now_ms / 1000, UTC), counted, plots, tables)


def lines(rows: DataFrame, column: str, top: Sequence[str]) -> Series:
    """Return a line for each group in `top`, and one for all others."""
    name = sf.when(sf.col("group").isin(list(top)), sf.col("group")).otherwise(OTHERS)
    found = rows.groupBy(name.alias("name"), "window_start").agg(sf.sum(column).alias("value"))
    drawn: dict[str, list[tuple[datetime, float]]] = {}
    for row in found.orderBy("window_start").collect():
        drawn.setdefault(row["name"], []).append((_utc(row["window_start"]), float(row["value"] or 0)))
    order = [*top, OTHERS]
    return {each: drawn[each] for each in order if each in drawn}


def summed(drawn: Series) -> Series:
    """Return lines with cumulative sums."""
    found: dict[str, list[tuple[datetime, float]]] = {}
    for name, points in drawn.items():
        total = 0.0
        found[name] = [(at, total := total + value) for at, value in points]
    return found


def _utc(at: datetime) -> datetime:
    """Return a time in UTC; PySpark returns naive times in the time zone of this process."""
    return at.astimezone(UTC)


def _table(title: str, about: str, rows: DataFrame) -> Table:
    shown = rows.drop("log_partition") if "group" in rows.columns else rows
    first = [row.asDict() for row in shown.limit(ROWS + 1).collect()]
    count = rows.count() if len(first) > ROWS else len(first)
    return Table(title, about, shown.columns, first[:ROWS], count)


# ---- pictures -----------------------------------------------------------------------------------------------------


def draw(plot: Plot, width: float = 9, height: float = 3.2) -> Figure:
    """Draw a plot; width and height in inches. A plot without lines has a note."""
    with matplotlib.rc_context({"date.converter": "concise"}):
        return _drawn(plot, width, height)


def _drawn(plot: Plot, width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes: Axes = figure.subplots()
    axes.set_title(plot.title, loc="left")
    axes.set_ylabel(plot.unit)
    for name, points in plot.lines.items():
        times, values = zip(*points, strict=True)
        color = "0.6" if name == OTHERS else None
        axes.plot(
            times,
            values,
            label=_label(name),
            color=color,
            linewidth=1.4,
            marker="." if len(points) < 3 else None,
        )
    axes.grid(alpha=0.3)
    axes.set_ylim(bottom=0)
    if plot.lines:
        figure.legend(loc="outside right upper", fontsize="small", frameon=False)
    else:
        axes.text(0.5, 0.5, "nothing", transform=axes.transAxes, ha="center")
    return figure


def _label(name: str) -> str:
    """Return a name for matplotlib: it treats `$` as a formula, and a name that begins with `_` as no label."""
    return ("\u200b" if name.startswith("_") else "") + name.replace("$", r"\$")


def svg(plot: Plot) -> str:
    """Return a plot as the element of a page."""
    with matplotlib.rc_context({"svg.hashsalt": plot.title, "svg.fonttype": "none"}):
        written = io.StringIO()
        draw(plot).savefig(written, format="svg", metadata={"Date": None})
    text = written.getvalue()
    return text[text.index("<svg") :]


# ---- the page -----------------------------------------------------------------------------------------------------

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Consumer groups, {{ found.at.strftime("%Y-%m-%d %H:%M") }} UTC</title>
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; }
h1, h2 { font-weight: 600; } svg { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2em .7em; text-align: left; border-bottom: 1px solid #ddd; white-space: nowrap; }
td.number { text-align: right; } .totals span { margin-right: 2em; } .about { color: #666; }
</style>
<h1>Consumer groups</h1>
<p class="about">As of {{ found.at.strftime("%Y-%m-%d %H:%M:%S") }} UTC, from the offsets log.</p>
<p class="totals">{% for name, value in found.totals.items() %}
<span>{{ name }}: <b>{{ "{:,}".format(value) }}</b></span>
{% endfor %}</p>
{% for plot in plots %}
{{ plot | safe }}
{% endfor %}
{% for table in found.tables %}
<h2>{{ table.title }}</h2>
<p class="about">{{ table.about }}
{%- if table.total > table.rows | length %} The first {{ table.rows | length }} of {{ "{:,}".format(table.total) }}.
{%- elif not table.rows %} There are none.{% endif %}</p>
{% if table.rows %}<div class="scroll"><table>
<tr>{% for name in table.columns %}<th>{{ name.replace("_", " ") }}</th>{% endfor %}</tr>
{% for row in table.rows %}<tr>{% for name in table.columns %}{{ row[name] | cell }}{% endfor %}</tr>
{% endfor %}</table></div>{% endif %}
{% endfor %}
</html>
"""


def page(found: Found) -> str:
    """Return the page as HTML."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["cell"] = _cell
    pictures = [svg(plot) for plot in found.plots]
    return environment.from_string(_PAGE).render(found=found, plots=pictures)


def _cell(value: Any) -> Any:
    if value is None:
        return Markup("<td></td>")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text = _utc(value).strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else str(value)
        return Markup("<td>{}</td>").format(escape(text))
    return Markup('<td class="number">{}</td>').format(f"{value:,}")
