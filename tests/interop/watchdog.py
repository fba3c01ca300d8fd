"""A client beside the fuzzer, in a process of its own: how long does the broker keep everybody else waiting?

    python -m tests.interop.watchdog HOST:PORT PID

Asks ApiVersions on one connection again and again until standard input ends, then prints one JSON line: the number of
answers, the longest wait in ms, and the longest when the time is taken off in which the machine had no CPU for the
broker (process PID) or for this process.
"""

import json
import select
import sys
import time
from pathlib import Path

from tests.interop import wire

PAUSE_S = 0.002


def starved_ns(pid: int | str) -> int:
    """How long the threads of a process have been ready to run without a CPU so far."""
    total = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(file.read_text().split()[1])
        except OSError:  # the thread ended meanwhile
            continue
    return total


def main(address: str, pid: str) -> None:
    """Watch until the parent closes our input."""
    answers, longest, longest_with_cpu = 0, 0.0, 0.0
    with wire.Connection(address) as connection:
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            starved = starved_ns(pid) + starved_ns("self")
            begin = time.monotonic_ns()
            connection.api_versions()
            waited = time.monotonic_ns() - begin
            starved = starved_ns(pid) + starved_ns("self") - starved
            answers += 1
            longest = max(longest, waited / 1e6)
            longest_with_cpu = max(longest_with_cpu, (waited - starved) / 1e6)
    print(json.dumps({"answers": answers, "longest_ms": longest, "longest_with_cpu_ms": longest_with_cpu}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
