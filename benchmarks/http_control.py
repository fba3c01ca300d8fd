"""How soon a fault that is set over HTTP takes effect, and how long a broker of a test's own takes.

    python benchmarks/http_control.py [--rounds 1000]

The server is `kafka-offsets serve --http`, in a process of its own; one HTTP connection stays open. A *fault* is the
time from the first byte of the request until its answer: the fault is in force then. *struck* is the time until a
commit, sent on an open Kafka connection when the answer has come, has its error. Goal: a fault is in force in 5 ms.
The same *from Node* with fetch and a socket (http_control.js), where there is a node.

CPython 3.11.7, two cores of an AMD EPYC, quiet (load 1), 2026-11-23, ms, `--rounds 1000`:

                       median     99 %    worst
               fault     0.82     1.50     3.41
              struck     1.05     1.86     3.70
   start of a broker     0.80     5.65     5.65
             its end     0.44     1.20     1.20

With node v20.20, on a busier machine (load 5, four other test runs), the same command:

                       median     99 %    worst
               fault     1.65     6.26     8.76
              struck     1.99     6.88    10.02
    fault, from Node     2.02     7.91    52.85
   struck, from Node     2.45     9.22    54.78

The server used 0.89 ms of CPU for a fault. At load 10 the median was 3.44 ms, at load 21 17 ms. No part dominates. Of
its CPU time in a profile: h11 and uvicorn read the request (17 %) and write the answer (17 %), Starlette finds the
route (11 %), the arguments are read (9 %), the table of APIs is made again with the fault in it (13 %); the rest is the
event loop, tasks and JSON.
"""

import argparse
import base64
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka_offsets.client.commits import VERSION, request
from kafka_offsets.client.connection import Connection
from kafka_offsets.client.protocol import encode_request
from kafka_offsets.errors import ErrorCode

NODE = Path(__file__).with_suffix(".js")
NODE_VERSION = 2
"""Of OffsetCommit: its response ends with the error code."""

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


def cpu_ms(process: int) -> float:
    """Return the milliseconds of CPU time that a process has used. Source: proc(5), /proc/PID/stat."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") * 1000


def measure(control: Control, rounds: int, server: int) -> tuple[dict[str, list[float]], float]:
    """Return the times of each operation, and the CPU time of a fault in the server, a process."""
    times: dict[str, list[float]] = {"fault": [], "struck": [], "start of a broker": [], "its end": []}
    control("POST", "/brokers/main/create_topic", name="orders")
    host, _, port = control("GET", "/brokers/main")["bootstrap_servers"].rpartition(":")
    commit = request("billing", {("orders", 0): 1}, {})
    with Connection(host, int(port)) as client:
        before = cpu_ms(server)
        for _ in range(rounds):
            client.call(commit, VERSION)
        of_commits = cpu_ms(server) - before
        for _ in range(rounds):
            set_ms, _ = timed(
                lambda: control("POST", "/brokers/main/faults/error", api="OffsetCommit", error=16, n=1)
            )
            struck_ms, answer = timed(lambda: client.call(commit, VERSION))
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
            times["fault"].append(set_ms)
            times["struck"].append(set_ms + struck_ms)
        of_faults = cpu_ms(server) - before - 2 * of_commits
    for _ in range(rounds // 10):
        ms, view = timed(lambda: control("POST", "/brokers"))
        times["start of a broker"].append(ms)
        times["its end"].append(timed(lambda: control("DELETE", f"/brokers/{view['broker']}"))[0])  # noqa: B023
    return times, of_faults / rounds


def measure_from_node(url: str, rounds: int) -> dict[str, list[float]]:
    """Return the times of Node's fetch, and until a socket of Node has the error; {} without node."""
    if shutil.which("node") is None:
        return {}
    with urllib.request.urlopen(f"{url}/brokers/main?field=bootstrap_servers") as answer:
        host, _, port = answer.read().decode().rpartition(":")
    frame = encode_request(request("from-node", {("orders", 0): 1}, {}), NODE_VERSION, 1, "node")
    words = ["node", NODE, f"{url}/brokers/main", host, port, base64.b64encode(frame), str(rounds)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    faults, struck = zip(*json.loads(done.stdout), strict=True)
    return {"fault, from Node": [*faults], "struck, from Node": [*struck]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    rounds = parser.parse_args().rounds
    with subprocess.Popen(SERVE, stderr=subprocess.PIPE, text=True) as served:
        assert served.stderr is not None
        address = served.stderr.readline().strip().removeprefix("HTTP on http://").rstrip("/")
        served.stderr.readline()
        try:
            times, fault_cpu_ms = measure(Control(address), rounds, served.pid)
            times |= measure_from_node(f"http://{address}", rounds)
        finally:
            served.terminate()
    print(f"{'':>20} {'median':>8} {'99 %':>8} {'worst':>8}")
    for name, found in times.items():
        ranked = sorted(found)
        print(
            f"{name:>20} {statistics.median(found):8.2f} {ranked[len(ranked) * 99 // 100]:8.2f} {ranked[-1]:8.2f}"
        )
    print(f"CPU of a fault in the server: {fault_cpu_ms:.2f} ms")


if __name__ == "__main__":
    main()
