"""The stored JSON as two pictures in SVG: every line beside its peers, and what each dimension costs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from benchmarks.broker_table.figures import cost, figure, servers_of
from benchmarks.broker_table.lines import GROWTHS, LINES, SERVERS

COLOURS = {
    "disk": "#1b6ca8",
    "memory": "#6db3e8",
    "kafka": "#c23b22",
    "kfake": "#2a7f3f",
    "kfake-log": "#93c572",
}
MARKERS = {"disk": "o", "memory": "D", "kafka": "s", "kfake": "^", "kfake-log": "v"}
FARTHEST = 64.0
"""The range of the first picture: from 1/64 to 64 times ours. What is farther is drawn at the edge."""

GROWN_SERVERS = ("disk", "kafka", "kfake")
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "broker_table",
    "font.size": 9,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
}


def draw(stored: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw what is stored into `performance.svg` and `performance-growth.svg`; return the paths."""
    paths = []
    with mpl.rc_context(_STYLE):
        figures = {}
        if "table" in stored:
            figures["performance.svg"] = draw_table(stored["table"]["lines"])
        if found := {
            growth.name: stored[growth.name]["lines"] for growth in GROWTHS if growth.name in stored
        }:
            figures["performance-growth.svg"] = draw_growth(found)
        for name, picture in figures.items():
            paths.append(folder / name)
            picture.savefig(paths[-1], format="svg", metadata={"Date": None})
    return paths


def draw_table(found: Mapping[str, Any]) -> Figure:
    """One row a line; each server as a multiple of ours with its log, a bar from the lowest to the highest round."""
    lines = [line for line in LINES if line.name in found]
    names = [name for name in SERVERS if name in servers_of(list(found.values()))]
    picture = Figure(figsize=(9, 1.6 + 0.36 * len(lines)), layout="constrained")
    panels = picture.subplots(1, 2, sharey=True)
    titles = {"rate": "rate (right is better)", "cpu_us": "CPU of a request (left is better)"}
    for axes, (measure, title) in zip(panels, titles.items(), strict=True):
        axes.axvline(1, color=COLOURS["disk"], linewidth=0.8)
        for name in names:
            points = [
                (row, *(min(max(value / own.median, 1 / FARTHEST), FARTHEST) for value in one))
                for row, line in enumerate(lines)
                if (own := figure(found[line.name], "disk", measure))
                and (one := figure(found[line.name], name, measure))
            ]
            if points:
                rows, times, least, most = zip(*points, strict=True)
                axes.hlines(rows, least, most, color=COLOURS[name], linewidth=1)
                axes.plot(times, rows, MARKERS[name], color=COLOURS[name], label=SERVERS[name], markersize=5)
        axes.set_xscale("log")
        axes.set_xlim(1 / FARTHEST, FARTHEST)
        ticks = [FARTHEST**power for power in (-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1)]
        axes.set_xticks(ticks, [f"{tick:.0f}" if tick > 0.99 else f"1/{1 / tick:.0f}" for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(title, fontsize=10)
        axes.grid(axis="x", linewidth=0.3)
        axes.set_xlabel("times ours with its log on disk")
    panels[0].set_yticks(range(len(lines)), [line.title for line in lines])
    panels[0].invert_yaxis()
    picture.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(names), frameon=False
    )
    return picture


def draw_growth(found: Mapping[str, Any]) -> Figure:
    """One column a dimension, one row a server; CPU of each line at each level."""
    growths = [growth for growth in GROWTHS if growth.name in found]
    present = servers_of(
        [one for lines in found.values() for levels in lines.values() for one in levels.values()]
    )
    names = [name for name in GROWN_SERVERS if name in present]
    line_of = {line.name: line for line in LINES}
    colours = {name: mpl.colormaps["tab20"](number) for number, name in enumerate(line_of)}
    picture = Figure(figsize=(9, 1.4 + 2.2 * len(names)), layout="constrained")
    panels = picture.subplots(len(names), len(growths), sharey=True, sharex="col", squeeze=False)
    labels: dict[str, Any] = {}
    for row, name in enumerate(names):
        for axes, growth in zip(panels[row], growths, strict=True):
            for line, levels in found[growth.name].items():
                costs = {int(level): cost(growth, line, level, one, name) for level, one in levels.items()}
                points = [(level, value) for level, value in costs.items() if value]
                if points:
                    (drawn,) = axes.plot(
                        *zip(*points, strict=True), "o-", color=colours[line], markersize=3, linewidth=1
                    )
                    labels.setdefault(growth.title_of(line_of[line]), drawn)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_minor_locator(NullLocator())
            axes.grid(linewidth=0.3)
            if row == 0:
                axes.set_title(growth.name, fontsize=10)
        panels[row][0].set_ylabel(f"{SERVERS[name]}\nCPU us", fontsize=9)
    picture.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=3, frameon=False)
    return picture
