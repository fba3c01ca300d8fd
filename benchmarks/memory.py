"""The memory of a broker in memory under full load: commits of one group, and Produce. Linux only.

    python -m benchmarks.memory [--seconds 20] [--only CASE ...] [--beside ANOTHER_TREE]

    commit-1    OffsetCommit of one group, for 1 partition
    commit-100  the same, for 100 partitions
    groups      OffsetCommit of 10 partitions, of 1024 groups in turn
    expressions ConsumerGroupHeartbeat with which 2000 groups get a member each, and a regular expression of 9.9 kB
    produce     Produce of 100 kB to one partition; log.memory.max.bytes is 1 GiB

One connection sends requests without a pause, sixteen at a time. Each line has the requests, the CPU of the server for
each of them, and its resident memory after each quarter of the time, in MiB. A run that takes more than 4 GiB ends
there. With --beside both trees run each case.

                      requests   CPU us  resident, MiB: at first, after 15, 30, 45 and 60 s
    commit-1           1925904      7.7      41     41     41     41     41
    commit-100          407648     45.8      41     43     41     42     42
    groups              234208     50.0      41     85     81    115    100
    expressions         416048     93.4      40     94    147    177    177  (80 s, load 15)
    produce             139024    111.0      40   1088   1088   1088   1088

Before logs in memory dropped dead records, 6 s of commit-1 left 56 MiB, of commit-100 483 MiB, and records of topics
had no limit: 10 s of produce left 1550 MiB. Two cores of a virtual machine with other work, CPython 3.11, 2026-11-28.
"""

import argparse
import itertools
import os
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.servers import Server, ours
from kafka_offsets.client.connection import Connection
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch

WINDOW = 16
GROUPS, PARTITIONS, EXPRESSIONS = 1024, 100, 2000
VALUE_BYTES = 100_000
MOST_MIB = 4096
LIMIT = "log.memory.max.bytes"
CASES = ("commit-1", "commit-100", "groups", "expressions", "produce")
_TICKS = os.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """What a server has used so far: CPU in seconds, memory in MiB."""

    cpu_s: float
    resident_mib: float


def used(pid: int) -> Used:
    """Read it from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Used((int(fields[11]) + int(fields[12])) / _TICKS, pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20))


def framed(request: messages.MessageValue, version: int, flexible: bool) -> bytes:
    """Return the frame of a request."""
    assert request.SCHEMA.number is not None
    header = messages.RequestHeader(request.SCHEMA.number, version, 7, "memory")
    body = messages.encode(header, 2 if flexible else 1) + messages.encode(request, version)
    return struct.pack(">i", len(body)) + body


def commit(group: str, count: int) -> bytes:
    """Return the frame of an OffsetCommit."""
    made = messages.OffsetCommitRequest
    partitions = [made.Partition(index, 5, committed_metadata="") for index in range(count)]
    return framed(made(group, topics=[made.Topic("t", partitions=partitions)]), 8, flexible=True)


def heartbeat(group: str) -> bytes:
    """Return the frame of a ConsumerGroupHeartbeat with which a member joins (KIP-848)."""
    expression = "[^b]" * 2475
    member = messages.ConsumerGroupHeartbeatRequest(
        group, group, rebalance_timeout_ms=1000, subscribed_topic_regex=expression, topic_partitions=[]
    )
    return framed(member, 1, flexible=True)


def frames(case: str) -> list[bytes]:
    """Return the requests of a case, which are sent in turn: a multiple of WINDOW."""
    if case.startswith("commit-"):
        return WINDOW * [commit("g", int(case.removeprefix("commit-")))]
    if case == "groups":
        return [commit(f"group-{number}", 10) for number in range(GROUPS)]
    if case == "expressions":
        return [heartbeat(f"group-{number}") for number in range(EXPRESSIONS)]
    made = messages.ProduceRequest
    batch = bytes(encode_batch([(None, bytes(VALUE_BYTES), (), 0)]))
    topic = made.TopicProduceData("t", bytes(16), [made.PartitionProduceData(0, batch)])
    return WINDOW * [framed(made(None, -1, 1000, [topic]), 7, flexible=False)]


def load(server: Server, requests: list[bytes], seconds: float) -> Iterator[int]:
    """Send requests for some seconds; yield after each round how many have been answered."""
    pieces = [b"".join(requests[at : at + WINDOW]) for at in range(0, len(requests), WINDOW)]
    end, answered = time.monotonic() + seconds, 0
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        stream = connection.makefile("rb")
        for piece in itertools.cycle(pieces):
            connection.sendall(piece)
            for _ in range(WINDOW):
                stream.read(struct.unpack(">i", stream.read(4))[0])
            answered += WINDOW
            yield answered
            if time.monotonic() > end:
                return


def run(case: str, tree: str, seconds: float) -> str:
    """Return the line of a case."""
    settings = {LIMIT: str(1 << 30)} if case == "produce" and _has_limit(tree) else {}
    with (
        tempfile.TemporaryDirectory() as folder,
        ours(Path(folder), in_memory=True, settings=settings, tree=tree) as server,
    ):
        with Connection("127.0.0.1", server.port, 20) as connection:
            made = messages.CreateTopicsRequest
            connection.call(made([made.CreatableTopic("t", PARTITIONS, 1)], 30_000), 5)
        before, began = used(server.pid), time.monotonic()
        residents: list[float] = []
        answered, passed, looked = 0, 0.0, 0.0
        for answered in load(server, frames(case), seconds):  # noqa: B007 - counted to the end
            passed = time.monotonic() - began
            if passed >= (len(residents) + 1) * seconds / 4:
                residents.append(used(server.pid).resident_mib)
            if passed - looked > 0.1:
                looked = passed
                if used(server.pid).resident_mib > MOST_MIB:
                    break
        after = used(server.pid)
        cpu_us = (after.cpu_s - before.cpu_s) / max(answered, 1) * 1e6
        shown = " ".join(f"{mib:6.0f}" for mib in (*residents, after.resident_mib))
        ended = f"   ended after {passed:.1f} s" if after.resident_mib > MOST_MIB else ""
        return f"{answered:9d} {cpu_us:8.1f}  {before.resident_mib:6.0f} {shown}{ended}"


def _has_limit(tree: str) -> bool:
    return LIMIT in (Path(tree) / "docs/configuration.md").read_text()


def main() -> None:
    """Print a line for each case and tree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--beside", type=Path, help="the root of another tree")
    options = parser.parse_args()
    trees = {"this": Path(__file__).resolve().parents[1]}
    if options.beside is not None:
        trees["other"] = options.beside.resolve()
    print(f"{'':20} {'requests':>9} {'CPU us':>8}  resident, MiB: at first, after each quarter, at the end")
    for case in options.only:
        for name, tree in trees.items():
            print(f"{case:12} {name:>7} {run(case, str(tree), options.seconds)}", flush=True)


if __name__ == "__main__":
    main()
