"""Time from nothing to the first answer: brokers in this process, and `kafka-offsets serve` as a process of its own.

    python benchmarks/start.py [--starts 100]

Each start ends with the answer to an ApiVersions request over a new socket, of `Cluster` one of each node. `Broker()`
and `Cluster(brokers=3)` run in a thread of this process, whose imports are done; `serve` begins with a cold
interpreter. They are in memory, `Broker` and `serve` also on a new data directory. CPU is that of this process. The
first start in process reads the schemas; the first of `serve` has no byte code, its own or the library's, and
leaves it in a temporary folder for those that follow. Goals: medians under 50 ms in process, 400 ms for `serve`.

CPython 3.11.7, two cores of a shared x86-64 machine without other work, November 2026, 20 starts of each:

                         first  median    best   worst
              Broker()    16.2     1.4     1.1    16.2
     Broker(directory)     2.7     3.1     2.4     5.1
                 serve  1199.5   238.6   216.9  1199.5
      serve --data-dir   250.8   245.5   229.0   285.6
"""

import argparse
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kafka_offsets import Broker
from kafka_offsets.testing import Cluster

# int32 size, key 18, version 0, correlation id 1, null client id.
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def ask(address: str) -> None:
    """Return once the broker answered ApiVersions on a new connection."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as peer:
        peer.sendall(API_VERSIONS)
        answer = peer.recv(10)
    assert answer[4:8] == API_VERSIONS[8:12] and answer[8:] == b"\0\0", answer


def in_process(data_directory: Path | None) -> float:
    """Seconds of one start of a Broker."""
    begin = time.perf_counter()
    with Broker(data_directory=data_directory) as broker:
        ask(broker.bootstrap_servers)
        return time.perf_counter() - begin


def cluster(_: Path | None) -> float:
    """Seconds of one start of a Cluster of three brokers."""
    begin = time.perf_counter()
    with Cluster(brokers=3) as brokers:
        for node in brokers.nodes:
            ask(node.address)
        return time.perf_counter() - begin


def serve(data_directory: Path | None, environment: dict[str, str]) -> float:
    """Seconds of one start of a process."""
    # As installed, if it is: the script that pip writes has imports of its own.
    script = Path(sys.executable).with_name("kafka-offsets")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "kafka_offsets.cli"]
    command += ["serve", "--port", "0"]
    if data_directory is not None:
        command += ["--data-dir", str(data_directory)]
    begin = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            while "listening on " not in line:
                if not line:
                    sys.exit("the broker ended before it listened")
                line = process.stderr.readline()
            ask(line.split()[-1])
            return time.perf_counter() - begin
        finally:
            process.terminate()


def measure(name: str, starts: int, start: Callable[[Path | None], float], on_disk: bool) -> None:
    times, cpu = [], 0.0
    for _ in range(starts):
        began = time.process_time()
        with tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-") as folder:
            times.append(start(Path(folder) / "data" if on_disk else None) * 1000)
        cpu += time.process_time() - began
    first, middle = times[0], statistics.median(times)
    print(
        f"{name:>22}{first:8.1f}{middle:8.1f}{min(times):8.1f}{max(times):8.1f}{cpu * 1000 / starts:8.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--starts", type=int, default=100, help="of each kind")
    starts = parser.parse_args().starts
    print(f"{starts} starts each, {os.cpu_count()} cores    (ms)")
    print(f"{'':22}{'first':>8}{'median':>8}{'best':>8}{'worst':>8}{'CPU':>8}")
    measure("Broker()", starts, in_process, on_disk=False)
    measure("Broker(directory)", starts, in_process, on_disk=True)
    measure("Cluster(brokers=3)", starts, cluster, on_disk=False)
    with tempfile.TemporaryDirectory(prefix="kafka-offsets-benchmark-") as byte_code:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = byte_code
        start = partial(serve, environment=environment)
        measure("serve", starts, start, on_disk=False)
        measure("serve --data-dir", starts, start, on_disk=True)


if __name__ == "__main__":
    main()
