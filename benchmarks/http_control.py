"""How soon a fault that is set over HTTP takes effect, and how long a broker of a test's own takes.

    python benchmarks/http_control.py [--rounds 500]

The server is `kafka-offsets serve --http`, in a process of its own; one HTTP connection stays open. A *fault* is the
time from the first byte of the request until its answer: the fault is in force then. *struck* is the time until a
commit, sent on an open Kafka connection when the answer has come, has its error. Goal: a fault is in force in 5 ms.

CPython 3.11.7, two cores of a shared x86-64 machine with much other work (load 10), 2026-11-23, ms; the server uses
0.7 ms of CPU for a fault:

                       median     99 %    worst
               fault     3.44    13.72    27.72
              struck     4.24    20.42    31.80
   start of a broker     5.53    10.14    10.14
             its end     4.99    12.60    12.60
"""

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from kafka_offsets.client.commits import VERSION, request
from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ErrorCode

SERVE = [sys.executable, "-m", "kafka_offsets.cli", "serve", "--port", "0", "--http", "0"]


class Control:
    """An HTTP connection to the server."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address)

    def __call__(self, method: str, path: str, **given: Any) -> Any:
        """Return the JSON of the answer."""
        body = json.dumps(given) if method == "POST" else None
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        data = response.read()
        assert response.status < 300, data
        return json.loads(data) if data else None


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the milliseconds that a call takes, and its result."""
    begin = time.perf_counter()
    result = call()
    return (time.perf_counter() - begin) * 1000, result


def measure(control: Control, rounds: int) -> dict[str, list[float]]:
    """Return the times of each operation."""
    times: dict[str, list[float]] = {"fault": [], "struck": [], "start of a broker": [], "its end": []}
    control("POST", "/brokers/main/create_topic", name="orders")
    host, _, port = control("GET", "/brokers/main")["bootstrap_servers"].rpartition(":")
    commit = request("billing", {("orders", 0): 1}, {})
    with Connection(host, int(port)) as client:
        for _ in range(rounds):
            set_ms, _ = timed(
                lambda: control("POST", "/brokers/main/faults/error", api="OffsetCommit", error=16, n=1)
            )
            struck_ms, answer = timed(lambda: client.call(commit, VERSION))
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
            times["fault"].append(set_ms)
            times["struck"].append(set_ms + struck_ms)
    for _ in range(rounds // 10):
        ms, view = timed(lambda: control("POST", "/brokers"))
        times["start of a broker"].append(ms)
        times["its end"].append(timed(lambda: control("DELETE", f"/brokers/{view['broker']}"))[0])  # noqa: B023
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    rounds = parser.parse_args().rounds
    with subprocess.Popen(SERVE, stderr=subprocess.PIPE, text=True) as served:
        assert served.stderr is not None
        address = served.stderr.readline().strip().removeprefix("HTTP on http://").rstrip("/")
        served.stderr.readline()
        try:
            times = measure(Control(address), rounds)
        finally:
            served.terminate()
    print(f"{'':>20} {'median':>8} {'99 %':>8} {'worst':>8}")
    for name, found in times.items():
        ranked = sorted(found)
        print(
            f"{name:>20} {statistics.median(found):8.2f} {ranked[len(ranked) * 99 // 100]:8.2f} {ranked[-1]:8.2f}"
        )


if __name__ == "__main__":
    main()
