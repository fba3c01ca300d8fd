"""A client beside the fuzzer, in a process of its own: how long does the broker keep everybody else waiting?

    python -m tests.interop.watchdog HOST:PORT PID

Asks ApiVersions on one connection again and again until standard input ends, then prints one JSON line: the number of
answers, and the longest CPU time that the broker (process PID) has used while it kept one of them waiting. What the
machine gives to others in the meantime, and what a disk takes, is not the broker's.
"""

import json
import select
import sys
from contextlib import suppress
from pathlib import Path

from tests.drivers import wire

PAUSE_S = 0.002


def cpu_ns(pid: str) -> int:
    """The CPU time that all threads of a process have used so far."""
    total = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread ended meanwhile
            total += int(file.read_text().split()[0])
    return total


def main(address: str, pid: str) -> None:
    """Watch until the parent closes our input."""
    answers, longest = 0, 0
    with wire.Connection(address) as connection:
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            before = cpu_ns(pid)
            connection.api_versions()
            longest = max(longest, cpu_ns(pid) - before)
            answers += 1
    print(json.dumps({"answers": answers, "longest_cpu_ms": longest / 1e6}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
