"""Apache Kafka on a log that was made beforehand, for benchmarks: kafka.sh with the segments put in place."""

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

DIRECTORY = "__consumer_offsets-0"
SCRIPT = Path(__file__).parent / "kafka.sh"
WAIT_S = 300

T = TypeVar("T")


def kafka(*words: str | Path) -> None:
    subprocess.run(["bash", str(SCRIPT), *map(str, words)], check=True)


def find_coordinator(port: int) -> None:
    """Ask until the offsets topic exists."""
    body = struct.pack(">hhih", 10, 0, 1, -1) + struct.pack(">h", 1) + b"g"
    for _ in range(100):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            answer = connection.recv(4096)
            if answer[8:10] == b"\0\0":
                return
        time.sleep(0.2)
    raise SystemExit("Kafka made no offsets topic")


class Peer:
    """A Kafka that runs on the log; its partition lies in `inside`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.inside = home / "logs" / DIRECTORY

    def wait_for(self, found: Callable[[str], T | None], what: str) -> T:
        """Return what is found in Kafka's own log, once it is there; else keep that log and give up."""
        for _ in range(2 * WAIT_S):
            value = found((self.home / "kafka.log").read_text(errors="replace"))
            if value is not None:
                return value
            time.sleep(0.5)
        kept = Path(tempfile.gettempdir()) / "kafka.log"
        shutil.copy(self.home / "kafka.log", kept)
        raise SystemExit(f"Kafka did not say that it has {what}: see {kept}")


@contextmanager
def kafka_on(
    folder: Path, home: Path, port: int, properties: str, *, active: int | None = None
) -> Iterator[Peer]:
    """Let Kafka make an offsets topic of one partition, put the segments of `folder` in it, and start it again.

    active  base offset of an empty segment after the others, which Kafka takes for the active one
    """
    extra = home.parent / "extra.properties"
    extra.write_text("offsets.topic.num.partitions=1\n" + properties)
    kafka("start", str(port), home, extra)
    try:
        find_coordinator(port)
    finally:
        kafka("stop", home)
    peer = Peer(home)
    for path in peer.inside.glob("0*"):
        path.unlink()
    for path in folder.glob("*.log"):
        os.link(path, peer.inside / path.name)  # segments are replaced, never changed
    if active is not None:
        (peer.inside / f"{active:020d}.log").touch()
    kafka("start", str(port), home, extra)
    try:
        yield peer
    finally:
        kafka("stop", home)
