"""The command. See `--help`, and docs/performance.md."""

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.broker_table.lines import GROWTHS, LINES, SERVERS
from benchmarks.broker_table.page import document, write
from benchmarks.broker_table.rounds import Keep, Measured, Times, grow, measure_table
from benchmarks.servers import PEERS

REPOSITORY = PEERS.parents[1]
PAGE = REPOSITORY / "docs" / "performance.md"
PICTURES = REPOSITORY / "docs" / "pictures"
STORED = PICTURES / "performance.json"
BUILD = REPOSITORY / "build" / "performance"

TABLE_TIMES, GROWTH_TIMES = Times(5, 3, 0.5, 3), Times(3, 1, 0.3, 1.5)
QUICK_TIMES = Times(1, 0.8, 0.3, 0.3)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line; times that were not given are those of the form."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker_table", description=__doc__)
    add = parser.add_argument
    add("--growth", action="store_true", help="measure growth, not the table")
    add("--quick", action="store_true", help="one short round: about two minutes for the table")
    add(
        "--docs",
        action="store_true",
        help="write docs/performance.md, its pictures and its JSON; else build/performance",
    )
    add(
        "--without",
        nargs="+",
        choices=SERVERS,
        default=[],
        metavar="SERVER",
        help=f"leave out: {', '.join(SERVERS)}",
    )
    add(
        "--lines",
        nargs="+",
        choices=[line.name for line in LINES],
        default=None,
        metavar="LINE",
        help="of the table",
    )
    add("--of", nargs="+", choices=[one.name for one in GROWTHS], default=None, help="dimensions of growth")
    add("--rounds", type=int)
    add("--seconds", type=float, help="of one measurement")
    add("--warm-up", type=float, help="seconds before each measurement")
    add("--first-warm-up", type=float, help="seconds before the first round of a line, each server")
    add("--no-touch", dest="touch", action="store_false", help="produce into memory as it happens to be")
    add("--draw", action="store_true", help="measure nothing; write page and pictures from the stored JSON")
    options = parser.parse_args(words)
    if options.docs and options.lines:
        parser.error("--docs needs all lines")
    times = QUICK_TIMES if options.quick else GROWTH_TIMES if options.growth else TABLE_TIMES
    given = {name: getattr(options, name) for name in Times._fields if getattr(options, name) is not None}
    options.times = times._replace(**given)
    return options


def line_of(*words: str) -> str:
    """Return the first line that a command prints, on either stream; nothing if it is not there."""
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=REPOSITORY)
    except OSError:
        return ""
    return (done.stdout + done.stderr).partition("\n")[0].strip()


def versions(names: Sequence[str]) -> dict[str, str]:
    """Return the versions of what was measured, and of what it runs on."""
    found = {platform.python_implementation(): platform.python_version()}
    if "kafka" in names:
        known = re.search(r"KAFKA_PEER_VERSION:-([\d.]+)", (PEERS / "kafka.sh").read_text())
        found["Apache Kafka"] = os.environ.get("KAFKA_PEER_VERSION") or (known[1] if known else "?")
        found["Java"] = line_of("java", "-version").split('"')[1]
    module = re.search(r"kfake (v\S+)", (PEERS / "kfake" / "go.mod").read_text())
    if {"kfake", "kfake-log"} & set(names) and module:
        found["kfake"] = module[1]
    found["Go"] = line_of("go", "version").split()[2].removeprefix("go")
    return found


def machine() -> str:
    """Return processor, cores, memory and operating system in words."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30
    name = model[1] if model else platform.machine()
    return f"{name}, {os.cpu_count()} cores, {memory} GB, {platform.system()}"


def section(
    options: argparse.Namespace,
    names: Sequence[str],
    measure: Callable[[Keep], Measured],
    keep: Callable[[Measured], None],
) -> Measured:
    """Measure one section of the JSON: its figures, and what they were measured with.

    keep  is called with the section after each line, since a whole run takes long and may be cut off
    """
    about = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": line_of("git", "rev-parse", "--short", "HEAD"),
        "machine": machine(),
        "versions": versions(names),
        "times": options.times._asdict(),
    }
    return {**about, "lines": measure(lambda lines: keep({**about, "lines": lines}))}


def sections(options: argparse.Namespace) -> dict[str, Callable[[Callable[[Measured], None]], Measured]]:
    """Return what is to be measured, by the name of the section: the table, or each dimension of growth."""
    names = [name for name in SERVERS if name not in options.without]
    if options.growth:
        return {
            growth.name: partial(section, options, names, partial(grow, growth, names, options.times))
            for growth in GROWTHS
            if not options.of or growth.name in options.of
        }
    lines = options.lines or [line.name for line in LINES]
    touch = options.touch and not options.quick
    table = partial(measure_table, names, lines, options.times, touch=touch)
    return {"table": partial(section, options, names, table)}


def failures(section: Any) -> int:
    """Return how many servers failed at a line."""
    if "absent" in section:
        return len(section["absent"])
    return sum(failures(each) for each in section.values())


def main() -> None:
    """Measure, store, print, draw."""
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # stops the servers
    stored_in = STORED if options.docs else BUILD / "performance.json"
    stored_in.parent.mkdir(parents=True, exist_ok=True)
    stored = json.loads(stored_in.read_text()) if stored_in.exists() else {}
    failed = 0
    for name, measure in {} if options.draw else sections(options).items():

        def keep(section: Measured, name: str = name) -> None:
            """Store what is measured of a section."""
            stored[name] = section
            stored_in.write_text(json.dumps(stored, indent=1) + "\n")

        keep(measure(keep))
        print("\n\n".join(document({name: stored[name]}).values()))
        failed += failures(stored[name]["lines"])
    from benchmarks.broker_table.plots import draw

    for path in draw(stored, stored_in.parent):
        print(f"wrote {path}", file=sys.stderr)
    if options.docs:
        write(PAGE, document(stored))
    if failed:
        sys.exit("a server failed at a line; see above")


if __name__ == "__main__":
    main()
