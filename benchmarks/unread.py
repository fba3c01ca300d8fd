"""How long a client waits while others ask for much and read nothing. Linux only.

    python -m benchmarks.unread [--connections 300] [--seconds 20]

Our broker is a process of its own, with its log in memory: one partition of 18 MB, and 1,000 topics. The connections
send 50 Fetches of 18 MB each, or 2,000 Metadata of all topics, and never read. From then on another client asks for an
offset every 10 ms; its longest waits are taken, and the memory of the broker.

On a machine whose load was 6, CPython 3.11, 2026-11-28:

               longest wait, ms: alone, beside   resident, MiB: before, at the end
    fetch             164      299    154    149         68    334
    metadata            4      155    126    114         67    438
"""

import argparse
import socket
import tempfile
import time
from pathlib import Path

from benchmarks.memory import framed, used
from benchmarks.servers import Server, ours
from kafka_offsets.client.connection import Connection
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch

RECORDS, RECORD_BYTES, TOPICS = 18, 1_000_000, 1000
EVERY_S = 0.01


def fill(connection: Connection) -> None:
    """Create the topics, and produce the records of the first one."""
    made = messages.CreateTopicsRequest
    connection.call(made([made.CreatableTopic(f"t-{number}", 1, 1) for number in range(TOPICS)], 60_000), 5)
    produce = messages.ProduceRequest
    batch = bytes(encode_batch([(None, bytes(RECORD_BYTES), (), 0)]))
    topic = produce.TopicProduceData("t-0", bytes(16), [produce.PartitionProduceData(0, batch)])
    for _ in range(RECORDS):
        connection.call(produce(None, -1, 10_000, [topic]), 7)


def requests(kind: str) -> bytes:
    """Return what one connection sends."""
    if kind == "metadata":
        return 2000 * framed(messages.MetadataRequest(None), 8, flexible=False)
    fetch = messages.FetchRequest
    most = RECORDS * RECORD_BYTES
    topics = [fetch.FetchTopic("t-0", bytes(16), [fetch.FetchPartition(0, partition_max_bytes=most)])]
    return 50 * framed(fetch(max_wait_ms=500, min_bytes=1, max_bytes=most, topics=topics), 11, flexible=False)


def waits(connection: Connection, seconds: float) -> list[float]:
    """Return the times of ListOffsets that follow each other, in seconds, the longest first."""
    made = messages.ListOffsetsRequest
    request = made(-1, topics=[made.ListOffsetsTopic("t-0", [made.ListOffsetsPartition(0, timestamp=-1)])])
    times: list[float] = []
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        connection.call(request, 2)
        times.append(time.monotonic() - began)
        time.sleep(EVERY_S)
    return sorted(times, reverse=True)


def run(kind: str, server: Server, connections: int, seconds: float) -> str:
    """Return the line of a kind of requests."""
    frames, before = requests(kind), used(server.pid).resident_mib
    peers: list[socket.socket] = []
    with Connection("127.0.0.1", server.port, 60) as asking:
        quiet = waits(asking, 2)
        for _ in range(connections):
            peer = socket.create_connection(("127.0.0.1", server.port), 10)
            peer.setblocking(False)
            peer.send(frames)
            peers.append(peer)
        times = waits(asking, seconds)
    after = used(server.pid).resident_mib
    for peer in peers:
        peer.close()
    longest = " ".join(f"{1000 * wait:6.0f}" for wait in times[:3])
    return f"{kind:10} {1000 * quiet[0]:10.0f}   {longest}   {before:8.0f} {after:6.0f}"


def main() -> None:
    """Print a line for each kind of requests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--connections", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    print("           longest wait, ms: alone, beside   resident, MiB: before, at the end")
    for kind in ("fetch", "metadata"):
        with tempfile.TemporaryDirectory() as folder, ours(Path(folder), in_memory=True) as server:
            with Connection("127.0.0.1", server.port, 60) as connection:
                fill(connection)
            print(run(kind, server, options.connections, options.seconds), flush=True)


if __name__ == "__main__":
    main()
