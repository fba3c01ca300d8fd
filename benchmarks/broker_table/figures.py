"""What the runs of servers amount to: medians, spread, ratios, growth. Pure functions of the stored JSON."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.broker_table.lines import Growth

GROWN = 1.5
"""The cost at the highest level, divided by that at the lowest, from which it counts as grown."""


class Figure(NamedTuple):
    """Median, least and most of one measure over the rounds."""

    median: float
    least: float
    most: float


def figure(measured: Mapping[str, Any], server: str, measure: str) -> Figure | None:
    """Return a measure of one server at one line; None if it was not measured there."""
    values = [run[measure] for run in measured["runs"].get(server, ())]
    return Figure(statistics.median(values), min(values), max(values)) if values else None


def ratio(measured: Mapping[str, Any], server: str, peer: str, measure: str) -> float | None:
    """Return the median of one server divided by that of another; None without either."""
    own, other = figure(measured, server, measure), figure(measured, peer, measure)
    return own.median / other.median if own and other and other.median else None


def cost(growth: Growth, line: str, level: str, measured: Mapping[str, Any], server: str) -> float | None:
    """Return the CPU time of a request in us, or of one of its partitions where the level is their number."""
    found = figure(measured, server, "cpu_us")
    if found is None:
        return None
    return found.median / (int(level) if line in growth.per_partition else 1)


def factor(growth: Growth, line: str, levels: Mapping[str, Any], server: str) -> float | None:
    """Return the cost of a line at its last level divided by that at its first."""
    costs = [cost(growth, line, level, measured, server) for level, measured in levels.items()]
    first, last = costs[0], costs[-1]
    return last / first if first and last else None


def servers_of(found: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of all servers that some line has, measured or failed."""
    return {name for measured in found for part in ("runs", "absent") for name in measured[part]}
