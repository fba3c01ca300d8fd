"""Resident memory of `kafka-offsets serve` while connections come and go: python -m benchmarks.connections

--rounds       rounds of four connections; each announces a frame of 100,000,000 bytes, sends 40 MB of it and closes
--connections  ordinary connections after that; each sends one ApiVersions, reads the answer and closes
Prints the resident memory ten times over each part, in MB. What the broker keeps of closed connections shows as growth.
"""

import argparse
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

ANNOUNCED, SENT, AT_ONCE = 100_000_000, 40_000_000, 4
CHUNK = bytes(1 << 20)
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def settled_mb(pid: int) -> float:
    """Return the resident memory of a process, once it has read what was sent and does not change any more."""
    last, now = -1.0, resident_mb(pid)
    while now != last:
        time.sleep(0.2)
        last, now = now, resident_mb(pid)
    return now


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise AssertionError("no VmRSS")


def send_part_of_a_frame(address: tuple[str, int]) -> None:
    """One round."""
    connections = [socket.create_connection(address) for _ in range(AT_ONCE)]
    for connection in connections:
        connection.sendall(struct.pack(">i", ANNOUNCED))
        for _ in range(SENT // len(CHUNK)):
            connection.sendall(CHUNK)
    for connection in connections:
        connection.close()


def ask_once(address: tuple[str, int]) -> None:
    """One ordinary connection."""
    with socket.create_connection(address) as connection:
        connection.sendall(API_VERSIONS)
        assert connection.recv(4)


def main() -> None:
    """Start a broker and print its memory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--connections", type=int, default=2_000)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    serve = [sys.executable, "-m", "kafka_offsets.cli", "serve", "--port", str(options.port)]
    broker = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)
    try:
        assert broker.stderr is not None
        port = int(broker.stderr.readline().rpartition(":")[2])
        address = ("127.0.0.1", port)
        print(f"at the start: {resident_mb(broker.pid):.0f} MB")
        for name, play, count in (
            ("rounds of frames", send_part_of_a_frame, options.rounds),
            ("connections", ask_once, options.connections),
        ):
            for number in range(1, count + 1):
                play(address)
                if number % max(count // 10, 1) == 0:
                    print(f"after {number} {name}: {settled_mb(broker.pid):.0f} MB", flush=True)
    finally:
        broker.terminate()
        broker.wait()


if __name__ == "__main__":
    main()
