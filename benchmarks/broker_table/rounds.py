"""All servers in turn, A B C A B C …, so that what else the machine does befalls all of them alike."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.broker_table.lines import LINES, SERVERS, Growth, Line, Options
from benchmarks.broker_table.load import Driver, LoadError, Run
from benchmarks.broker_table.page import number
from benchmarks.servers import Server, build, kafka, kfake, need, ours
from kafka_offsets.errors import ConnectionLostError

SOON_DELETED = "log.segment.delete.delay.ms=1000\n"
"""For Kafka, which keeps the files of deleted topics for a minute."""

Measured = dict[str, Any]
"""`runs`, a list of them for each server, and `absent`, the reason for each server that has none. It is JSON."""


Keep = Callable[[Measured], None]
"""Called with the lines that are measured so far, after each of them."""


class Times(NamedTuple):
    """How often and how long each server is measured, in seconds; `first_warm_up` precedes the rounds of a line."""

    rounds: int
    seconds: float
    warm_up: float
    first_warm_up: float


@contextmanager
def running(names: Sequence[str]) -> Iterator[tuple[Path, list[Server]]]:
    """Start servers by their names in SERVERS, with new directories; yield the load generator and them."""
    need("go", "golang")
    if "kafka" in names:
        need("java", "openjdk-17-jdk-headless", "--without kafka")
        need("mvn", "maven", "--without kafka")
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-")))
        binary = build("kfake", top) if {"kfake", "kfake-log"} & set(names) else top
        starts = {
            "disk": lambda folder: ours(folder, name="disk"),
            "memory": lambda folder: ours(folder, in_memory=True, name="memory"),
            "kafka": lambda folder: kafka(folder, SOON_DELETED),
            "kfake": lambda folder: kfake(binary, folder),
            "kfake-log": lambda folder: kfake(binary, folder, in_memory=False, name="kfake-log"),
        }
        loadgen = build("loadgen", top)
        yield loadgen, [stack.enter_context(starts[name](top / f"server-{name}")) for name in names]


def check_priorities(servers: Sequence[Server]) -> None:
    """End if the servers do not have the priority of this process: something else has changed it, and favours one."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    other = {server.name: os.getpriority(os.PRIO_PROCESS, server.pid) for server in servers}
    if wrong := [f"{name} has {nice}" for name, nice in other.items() if nice != own]:
        sys.exit(f"a fair comparison needs equal priorities: this process has {own}, but {', '.join(wrong)}")


def measure(
    driver: Driver, servers: Sequence[Server], line: Line, options: Options, times: Times
) -> Measured:
    """Measure one line. A server that fails is reported, and left out of what remains of the line."""
    runs: dict[str, list[Run]] = {server.name: [] for server in servers}
    absent: dict[str, str] = {}
    for round_number in range(-1, times.rounds):  # the round -1 is a warm-up
        for server in servers:
            if server.name in absent:
                continue
            try:
                if round_number >= 0:
                    runs[server.name].append(driver.run(server, line, options, times.seconds, times.warm_up))
                elif times.first_warm_up:
                    driver.run(server, line, options, times.first_warm_up, 0)
            except (LoadError, ConnectionLostError) as error:
                print(f"{line.name}: {SERVERS[server.name]}: {error}", file=sys.stderr, flush=True)
                absent[server.name] = str(error)
    check_priorities([server for server in servers if server.name not in absent])
    return {"runs": {name: found for name, found in runs.items() if name not in absent}, "absent": absent}


def measure_table(
    names: Sequence[str], lines: Sequence[str], times: Times, keep: Keep, *, touch: bool
) -> Measured:
    """Measure rows of the table: {name of the line: Measured}."""
    found: Measured = {}
    with running(names) as (loadgen, servers):
        driver = Driver(loadgen, touch=touch)
        for line in LINES:
            if line.name in lines:
                found[line.name] = told(line.name, measure(driver, servers, line, {}, times))
                keep(found)
    return found


def grow(growth: Growth, names: Sequence[str], times: Times, keep: Keep) -> Measured:
    """Measure each line of a dimension at each level, on new servers: {line: {level: Measured}}."""
    found: Measured = {name: {} for name in growth.lines}
    by_name = {line.name: line for line in LINES}
    with running(names) as (loadgen, servers):
        driver = Driver(loadgen, touch=False)
        for position, (level, options) in enumerate(growth.levels.items()):
            at_level = (
                times
                if position == 0
                else times._replace(first_warm_up=min(times.first_warm_up, times.warm_up))
            )
            for name in growth.lines:
                line = by_name[name]
                measured = measure(driver, servers, line, suited(line, options), at_level)
                found[name][str(level)] = told(f"{name}, {level} {growth.name}", measured)
                keep(found)
    return found


def suited(line: Line, options: Options) -> Options:
    """Return the options of a level that concern a line."""
    if line.mode == "consume":  # its topic and its window are its own
        return {name: value for name, value in options.items() if name == "conns"}
    if "groups" in options and "parts" not in options and line.mode not in {"commit", "fetch", "find"}:
        return {}  # requests that name no group: only the server has so many
    return options


def told(title: str, measured: Measured) -> Measured:
    """Print the rates of a line, since a whole run takes long."""
    rates = []
    for name, runs in measured["runs"].items():
        rates.append(" ".join([name, *(number(run["rate"]) for run in runs)]))
    print(f"{title}: {'; '.join(rates)}", file=sys.stderr, flush=True)
    return measured
