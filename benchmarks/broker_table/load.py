"""One server under load: topics, offsets and records that a line needs, and one run of loadgen."""

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.broker_table.lines import (
    BATCH_RECORDS,
    BATCHES_A_FETCH,
    FETCHED,
    FETCHED_PARTITIONS,
    FETCHES,
    RECORD_BYTES,
    TOPIC,
    TOPIC_PARTITIONS,
    Line,
    Options,
)
from benchmarks.servers import Server
from kafka_offsets.client.connection import Connection
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch

CONNECTIONS, IN_FLIGHT, GROUPS = 8, 16, 1000
LONGEST_FILL_S, PATIENCE_S = 600, 60.0
FASTEST_MB_S, MOST_TOUCHED_S = 500, 2.0
_TOUCHED = bytes(1 << 17)

Run = dict[str, float]
"""rate in a second or in MB a second, p50_ms, p99_ms, cpu_us of a request, rss_mb of the server afterwards."""


class LoadError(Exception):
    """A server does not answer, or answers with an error."""


class Driver:
    """Drives servers with loadgen, and remembers which topics and offsets each of them has.

    touch  before batches are produced, use and free the memory that the page cache will take. A virtual machine that
           gives free memory back to its host pays for each page anew, up to 3 ms of CPU a MB, and the server with it
    """

    def __init__(self, loadgen: Path, *, touch: bool = True) -> None:
        self._loadgen = loadgen
        self._touch = touch
        self._made: set[tuple[object, ...]] = set()
        self._topics = 0

    def run(self, server: Server, line: Line, options: Options, seconds: float, warm_up: float) -> Run:
        """Load a server with the requests of a line; `options` override those of the line. Raises LoadError."""
        options = {"topic": TOPIC, **line.options, **options}
        if line.mode == "produce":
            return self._produce(server, line, options, seconds, warm_up)
        self._prepare(server, line, options)
        return self._drive(server, line, options, seconds, warm_up)

    def _prepare(self, server: Server, line: Line, options: Options) -> None:
        """Make what the requests of a line name, once a server."""
        topic, parts = str(options["topic"]), int(options.get("parts", 1))
        if line.mode == "consume":
            self._once((server, FETCHED), lambda: self._fill(server))
            return
        count = TOPIC_PARTITIONS if topic == TOPIC else parts
        for number in range(int(options.get("topics", 1))):
            name = f"{topic}.{number}" if number else topic
            self._once((server, name), lambda name=name: create_topic(server, name, count))
        if line.mode in {"commit", "fetch", "fetchall"}:
            groups = int(options.get("groups", GROUPS))
            named = {name: options[name] for name in ("parts", "prefix", "topic") if name in options}
            sent: Options = {"mode": "commit", "groups": groups, **named}
            self._once(
                (server, topic, groups, parts),
                lambda: self._send(server, {**sent, "once": "true", "dur": f"{LONGEST_FILL_S}s"}),
            )

    def _once(self, key: tuple[object, ...], make: Any) -> None:
        if key not in self._made:
            make()
            self._made.add(key)

    def _fill(self, server: Server) -> None:
        """Make the log that is fetched."""
        create_topic(server, FETCHED, FETCHED_PARTITIONS)
        options: Options = {
            "mode": "produce",
            "topic": FETCHED,
            "parts": FETCHED_PARTITIONS,
            "batch": BATCH_RECORDS,
            "size": RECORD_BYTES,
            "groups": FETCHED_PARTITIONS * FETCHES * BATCHES_A_FETCH,
            "once": "true",
            "dur": f"{LONGEST_FILL_S}s",
        }
        self._send(server, options)

    def _produce(self, server: Server, line: Line, options: Options, seconds: float, warm_up: float) -> Run:
        """Produce to a topic that is made for this run and deleted after it, so that no log grows from run to run."""
        self._topics += 1
        topic = f"produced-{self._topics}"
        create_topic(server, topic, int(options["parts"]))
        try:
            if self._touch and line.in_mb:
                touch_memory(int(min(seconds + warm_up, MOST_TOUCHED_S) * FASTEST_MB_S * 1e6))
            return self._drive(server, line, {**options, "topic": topic}, seconds, warm_up)
        finally:
            delete_topic(server, topic)

    def _drive(self, server: Server, line: Line, options: Options, seconds: float, warm_up: float) -> Run:
        timed: Options = {"mode": line.mode, "dur": f"{seconds}s", "warm": f"{warm_up}s", "pid": server.pid}
        found = self._send(server, {**options, **timed})
        return {
            "rate": found["MB_s"] if line.in_mb else found["ops_s"],
            "p50_ms": found["p50_ms"],
            "p99_ms": found["p99_ms"],
            "cpu_us": found["cpu_us_per_op"],
            "rss_mb": found["rss_mb"],
        }

    def _send(self, server: Server, options: Options) -> dict[str, Any]:
        common: Options = {
            "addr": f"127.0.0.1:{server.port}",
            "conns": CONNECTIONS,
            "window": IN_FLIGHT,
            "groups": GROUPS,
        }
        words = [f"-{name}={value}" for name, value in {**common, **options}.items()]
        done = subprocess.run([self._loadgen, *words], check=False, capture_output=True, text=True)
        if done.returncode:
            said = (done.stdout + done.stderr).strip() or "nothing"
            raise LoadError(f"loadgen ended with {done.returncode}: {said.splitlines()[0]}")
        found: dict[str, Any] = json.loads(done.stdout)
        if found["errs"] or found["refused_samples"]:
            raise LoadError(
                f"{found['mode']}: {found['errs']} connections broke, {found['refused_samples']} samples are errors"
            )
        return found


def create_topic(server: Server, name: str, partitions: int) -> None:
    """Create a topic, and have each partition take a record, so that none waits for a leader any more."""
    topic = messages.CreateTopicsRequest.CreatableTopic(name, partitions, 1, [], [])
    request = messages.ProduceRequest
    record = bytes(encode_batch([(None, b"", (), int(time.time() * 1000))]))
    with Connection("127.0.0.1", server.port, PATIENCE_S) as connection:
        created = connection.call(messages.CreateTopicsRequest([topic], 60_000), 4)
        if error := created.topics[0].error_code:
            raise LoadError(f"topic {name} was not created: error code {error}")
        deadline = time.monotonic() + PATIENCE_S
        for partition in range(partitions):
            data = [
                request.TopicProduceData(name, bytes(16), [request.PartitionProduceData(partition, record)])
            ]
            while error := (
                connection.call(request(acks=1, timeout_ms=10_000, topic_data=data), 8)
                .responses[0]
                .partition_responses[0]
                .error_code
            ):
                if time.monotonic() > deadline:
                    raise LoadError(f"{name}-{partition} takes no records: error code {error}")
                time.sleep(0.02)


def delete_topic(server: Server, name: str) -> None:
    """Delete a topic."""
    with Connection("127.0.0.1", server.port, PATIENCE_S) as connection:
        request = messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=60_000)
        if error := connection.call(request, 3).responses[0].error_code:
            raise LoadError(f"topic {name} was not deleted: error code {error}")


def touch_memory(size: int) -> None:
    """Write as many bytes to a file, and delete it."""
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(size // len(_TOUCHED)):
            file.write(_TOUCHED)
