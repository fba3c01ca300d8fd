"""The stored JSON as tables in Markdown, and where they are in docs/performance.md."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.broker_table.figures import GROWN, Figure, cost, factor, figure, ratio, servers_of
from benchmarks.broker_table.lines import GROWTHS, LINES, SERVERS, Growth, Line

NONE = "-"
RATIOS = (
    ("kafka", "rate"),
    ("kfake", "rate"),
    ("kfake-log", "rate"),
    ("kafka", "cpu_us"),
    ("kfake", "cpu_us"),
    ("kfake-log", "cpu_us"),
)
MEASURES = {"rate": "rate", "cpu_us": "CPU", "p50_ms": "p50"}


def number(value: float | None) -> str:
    """Return three digits of a number, thousands with commas."""
    if value is None:
        return NONE
    if value >= 999.5:
        digits = len(str(round(value))) - 3
        return f"{round(value / 10**digits) * 10**digits:,}"
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:.{decimals}f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first column is text; the others are numbers."""
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ruler, *rows))


def about(section: Mapping[str, Any]) -> str:
    """Return one paragraph: machine, versions, date, how it was measured."""
    versions = ", ".join(f"{name} {version}" for name, version in section["versions"].items())
    times = section["times"]
    return (
        f"{section['machine']}. {versions}. {section['date']}, commit {section['commit']}; "
        f"{times['rounds']} round{'s' if times['rounds'] > 1 else ''} of {times['seconds']:g} s."
    )


def document(stored: Mapping[str, Any]) -> dict[str, str]:
    """Return the generated parts of the page by name: `table` and `growth`, as far as they are stored."""
    parts = {}
    if "table" in stored:
        parts["table"] = f"{about(stored['table'])}\n\n{table_text(stored['table']['lines'])}"
    growths = [growth_text(growth, stored[growth.name]) for growth in GROWTHS if growth.name in stored]
    return {**parts, "growth": "\n\n".join(growths)} if growths else parts


def table_text(found: Mapping[str, Any]) -> str:
    """Return the tables of all lines: rates, CPU, latency, memory, ratios."""
    lines = [line for line in LINES if line.name in found]
    names = [name for name in SERVERS if name in servers_of(list(found.values()))]

    def cells(title: str, cell: Callable[[Figure], str], measure: str) -> str:
        rows = []
        for line in lines:
            each = (figure(found[line.name], name, measure) for name in names)
            unit = f" ({line.unit})" if measure == "rate" else ""
            rows.append([line.title + unit, *(cell(one) if one else NONE for one in each)])
        return f"**{title}**\n\n{table(['', *(SERVERS[name] for name in names)], rows)}"

    def spread(one: Figure) -> str:
        if one.least == one.most:
            return number(one.median)
        return f"{number(one.median)} ({number(one.least)} to {number(one.most)})"

    def median(one: Figure) -> str:
        return number(one.median)

    parts = [
        cells("Rate: median (lowest to highest round)", spread, "rate"),
        cells("CPU time of the server for a request, us: median (lowest to highest round)", spread, "cpu_us"),
        cells("Latency of the median request, ms", median, "p50_ms"),
        cells("Resident memory of the server after the line, MB", median, "rss_mb"),
        ratios_text(lines, found, names),
        *failed(found),
    ]
    return "\n\n".join(parts)


def failed(found: Mapping[str, Any]) -> list[str]:
    """Return a list of what could not be measured, if there is something."""
    items = [
        f"- {name}: {SERVERS[server]}: {reason}"
        for name, measured in found.items()
        for server, reason in measured["absent"].items()
    ]
    return ["Not measured:\n\n" + "\n".join(items)] if items else []


def ratios_text(lines: Sequence[Line], found: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return ours with its log divided by each peer."""
    shown = [(peer, measure) for peer, measure in RATIOS if peer in names and "disk" in names]
    rows = []
    for line in lines:
        ratios = (number(ratio(found[line.name], "disk", peer, measure)) for peer, measure in shown)
        rows.append([line.title, *ratios])
    head = ["", *(f"{MEASURES[measure]} / {SERVERS[peer]}" for peer, measure in shown)]
    return f"**Ours with its log on disk, divided by each peer**\n\n{table(head, rows)}"


def growth_text(growth: Growth, section: Mapping[str, Any]) -> str:
    """Return the table of a dimension, and what it was measured with."""
    lines = section["lines"]
    parts = [growth_table(growth, lines), about(section)]
    for name, levels in lines.items():
        parts += failed({f"{name} at {level}": measured for level, measured in levels.items()})
    return "\n\n".join(parts)


def growth_table(growth: Growth, lines: Mapping[str, Any]) -> str:
    """Return the cost at each level and the last divided by the first, also that of the peers; then memory."""
    every = [measured for levels in lines.values() for measured in levels.values()]
    peers = [name for name in SERVERS if name in servers_of(every) and name != "disk"]
    line_of = {line.name: line for line in LINES}
    rows = []
    for name, levels in lines.items():
        costs = [number(cost(growth, name, level, one, "disk")) for level, one in levels.items()]
        own = factor(growth, name, levels, "disk")
        times = f"**{number(own)}**" if own and own > GROWN else number(own)
        others = [number(factor(growth, name, levels, peer)) for peer in peers]
        title = growth.title_of(line_of[name])
        rows.append([title, *costs, times, *others])
    last = list(lines.values())[-1]
    memory = [figure(one, "disk", "rss_mb") for one in last.values()]
    rows.append(
        ["*resident memory, MB*", *(number(one and one.median) for one in memory), *[""] * (len(peers) + 1)]
    )
    levels = [f"{int(level):,}" for level in last]
    head = ["CPU us, ours with its log", *levels, "last / first", *(f"{SERVERS[peer]}" for peer in peers)]
    return f"**{growth.title[0].upper()}{growth.title[1:]}**\n\n{table(head, rows)}"


def write(page: Path, parts: Mapping[str, str]) -> None:
    """Replace generated parts of a page, which are between `<!-- begin: NAME -->` and `<!-- end: NAME -->`."""
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        before, begin, rest = text.partition(f"<!-- begin: {name} -->\n")
        _, end, after = rest.partition(f"<!-- end: {name} -->\n")
        if not begin or not end:
            raise ValueError(f"{page} has no part {name}")
        text = f"{before}{begin}\n{part.strip()}\n\n{end}{after}"
    page.write_text(text, encoding="utf-8")
