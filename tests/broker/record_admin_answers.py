"""Ask a real Kafka everything in admin_situations.py and keep its answers, for test_admin_answers.py.

    python -m tests.broker.record_admin_answers [PORT] | gzip -9n > tests/data/admin_answers.jsonl.gz

Starts a new broker by benchmarks/peers/kafka.sh on PORT and PORT + 1 for each scenario (Java 17 and Maven needed).
A line is one exchange: scenario, sentence, API, version, request and answer; `answer` is null where the broker
closed the connection.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.broker.admin_exchange import TopicIds, build, read_response, request_frame, shown
from tests.broker.admin_situations import SCENARIOS, SETTINGS, Situation

KAFKA = Path(__file__).resolve().parents[2] / "benchmarks" / "peers" / "kafka.sh"
SETTLE_S = 0.25
"""Time for what a controller has decided to reach the broker that is asked next."""


def exchange(address: tuple[str, int], frame: bytes) -> bytes | None:
    """Send a frame on a connection of its own; return the answer without its size, None when there is none."""
    with socket.create_connection(address, 20) as peer:
        peer.sendall(frame)
        received = bytearray()
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            data = peer.recv(65536)
            if not data:
                return None
            received += data
        return bytes(received[4:])


def ask(address: tuple[str, int], situation: Situation, version: int, ids: TopicIds) -> dict[str, Any] | None:
    """Return what the broker answers, ready for the table."""
    request = build(f"{situation.api}Request", situation.request, ids)
    frame = exchange(address, request_frame(situation.api, version, request))
    if frame is None:
        return None
    response, answered = read_response(situation.api, version, frame)
    return shown(response, answered, ids)


def record(scenario: str, port: int) -> None:
    """Start a broker, ask everything of one scenario, print a line for each answer, stop the broker."""
    with tempfile.TemporaryDirectory() as directory:
        extra = Path(directory, "extra.properties")
        lines = [f"{key}={value}\n" for key, value in SETTINGS[scenario].items()]
        extra.write_text("".join(lines), encoding="utf-8")
        subprocess.run(["bash", str(KAFKA), "start", str(port), directory, str(extra)], check=True)
        try:
            ids = TopicIds()
            for situation in SCENARIOS[scenario]:
                for version in situation.versions:
                    time.sleep(SETTLE_S)
                    answer = ask(("127.0.0.1", port), situation, version, ids)
                    line = {
                        "scenario": scenario,
                        "sentence": situation.sentence,
                        "api": situation.api,
                        "version": version,
                        "request": situation.request,
                        "answer": answer,
                    }
                    print(json.dumps(line), flush=True)
        finally:
            subprocess.run(["bash", str(KAFKA), "stop", directory], check=True)


def main() -> None:
    """Record all scenarios."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 19392
    for scenario in SCENARIOS:
        record(scenario, port)


if __name__ == "__main__":
    main()
