"""Plots over time with a line for each group: as a figure of matplotlib, or as an element of a page."""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from kafka_offsets.spark import words

OTHERS = "(all others)"
"""The name of the line of all groups that have none of their own. It is not a name that a group is likely to have."""

COLOURS = (
    ("#0b57c2", "#7fb4ff"),
    ("#c2410c", "#ff9d5c"),
    ("#15803d", "#5dd68a"),
    ("#a21caf", "#f08cf5"),
    ("#0e7490", "#4fd0e8"),
    ("#854d0e", "#e0b34c"),
    ("#be123c", "#ff8fa8"),
    ("#4d7c0f", "#b5dd5a"),
)
"""Colours of groups on a light and on a dark page. The second half of them also has dashed lines."""

_SOFT, _LINE = "#4c5766", "#c9d0da"
_TEXT = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _SOFT)
_TEXT |= dict.fromkeys(("axes.edgecolor", "grid.color"), _LINE)

Point = tuple[datetime, float]
Series = Mapping[str, Sequence[Point]]
"""Lines of a plot by their names: times and values."""


class Plot(NamedTuple):
    """A plot.

    unit     of its values; `bytes` are printed as KiB, MiB and so on
    nothing  a sentence that replaces a plot without any value but zero
    """

    title: str
    unit: str
    lines: Series
    nothing: str = "Nothing."

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(value > 0 for points in self.lines.values() for _, value in points)


def with_gaps(points: Sequence[Point], step: timedelta) -> list[Point]:
    """Return the points of a line, with one that is not a number where the next window has none: a gap."""
    line: list[Point] = []
    for point in points:
        if line and point[0] - line[-1][0] > step:
            line.append((line[-1][0] + step, math.nan))
        line.append(point)
    return line


def draw(plot: Plot, width: float = 9, height: float = 3.2) -> Figure:
    """Draw a plot with a legend; width and height in inches. An empty plot has a sentence."""
    with matplotlib.rc_context({"date.converter": "concise"}):
        figure = _drawn(plot, width, height, list(plot.lines))
        axes = figure.axes[0]
        axes.set_title(plot.title, loc="left")
        if plot.is_empty:
            axes.text(0.5, 0.5, plot.nothing, transform=axes.transAxes, ha="center")
        else:
            figure.legend(loc="outside right upper", fontsize="small", frameon=False)
    return figure


def svg(plot: Plot, names: Sequence[str], width: float = 5.6, height: float = 2.3) -> str:
    """Return a plot as the element of a page, without title and legend. Its colours are variables of the page's CSS.

    names  of the groups in the order of their colours: --group-1, --group-2, …; others have --soft
    """
    settings: Any = {"svg.hashsalt": plot.title, "svg.fonttype": "none", "font.size": 8, **_TEXT}
    with matplotlib.rc_context(settings):
        written = io.StringIO()
        figure = _drawn(plot, width, height, names)
        figure.savefig(written, format="svg", metadata={"Date": None}, transparent=True)
    text = written.getvalue()
    text = text[text.index("<svg") :]
    for number, (colour, _) in enumerate(COLOURS, 1):
        text = text.replace(colour, f"var(--group-{number})")
    return text.replace(_SOFT, "var(--soft)").replace(_LINE, "var(--line)")


def _drawn(plot: Plot, width: float, height: float, names: Sequence[str]) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes: Axes = figure.subplots()
    axes.set_ylabel("" if plot.unit == "bytes" else plot.unit)
    for name, points in plot.lines.items():
        _line(axes, name, points, names.index(name) if name in names and name != OTHERS else None)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.5)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(_amount(plot.unit)))
    times = {at for points in plot.lines.values() for at, _ in points}
    if len(times) == 1:  # of which matplotlib would show four years
        (only,) = times
        axes.set_xlim(only - timedelta(hours=1), only + timedelta(hours=1))  # type: ignore[arg-type]
    locator = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    return figure


def _line(axes: Axes, name: str, points: Sequence[Point], number: int | None) -> None:
    times, values = zip(*points, strict=True)
    color, style = _SOFT, ":"
    if number is not None:
        color = COLOURS[number % len(COLOURS)][0]
        style = "--" if is_dashed(number) else "-"
    axes.plot(
        times,
        values,
        label=_label(words.short(name)),
        color=color,
        linestyle=style,
        linewidth=1.4,
        marker="o",
        markersize=2.5,
        markevery=_alone(values),
    )


def is_dashed(number: int) -> bool:
    """Whether the line of a group is dashed."""
    return number % len(COLOURS) >= len(COLOURS) // 2


def _alone(values: Sequence[float]) -> list[int]:
    """Return the points without a neighbour, which no line shows."""
    around = [math.nan, *values, math.nan]
    return [
        index
        for index, value in enumerate(values)
        if not math.isnan(value) and math.isnan(around[index]) and math.isnan(around[index + 2])
    ]


def _amount(unit: str) -> Callable[[float, int], str]:
    def text(value: float, _: int) -> str:
        return words.size(round(value)) if unit == "bytes" else f"{value:,.0f}"

    return text


def _label(name: str) -> str:
    """Return a name for matplotlib: it treats `$` as a formula, and a name that begins with `_` as no label."""
    return ("\u200b" if name.startswith("_") else "") + name.replace("$", r"\$")
