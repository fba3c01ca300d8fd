"""Connections and MB per second with TLS and without: python benchmarks/encrypted.py [--rounds 5] [--kafka]

One client in this process, of Python's ssl, talks to ours and, with --kafka, to Apache Kafka and kfake (Java, Maven and
Go are needed), in turn, each with both protocols,
TLS 1.3 and the same certificate (P-256). A connection is opened, encrypted, sends one ApiVersions, reads the response,
and is closed. A fetch reads batches of 900,000 bytes one by one; they are in memory, or in the page cache. It prints
medians of the rounds, and what share of the rate TLS leaves, which includes the cost for the client.

CPython 3.11.7, Apache Kafka 4.3.1, kfake v0.0.0-20260918054303-01f206a7e32c, two cores of a shared x86-64 machine with
much other work (load 13 to 15), 2026-11-23, two runs of 5 rounds:

                           without  with TLS   share        without  with TLS   share
    ours    connections/s      502       122    0.20            351        51    0.20
    kafka   connections/s      409        32    0.11             90        15    0.16
    kfake   connections/s     1256       152    0.12            328        59    0.28
    ours    MB/s               775       178    0.23            371        91    0.37
    kafka   MB/s               287        81    0.21             71        17    0.19
    kfake   MB/s               374       185    0.47            192        67    0.51
"""

from __future__ import annotations

import argparse
import socket
import ssl
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import servers
from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.client.connection import Connection
from kafka_offsets.client.protocol import encode_request
from kafka_offsets.client.security import PLAINTEXT, ClientSecurity
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from kafka_offsets.testing import CertificateAuthority

TOPIC, HOST = "bytes", "127.0.0.1"
BATCHES, BATCH_BYTES = 8, 900_000
SECONDS = 1.0
API_VERSIONS = encode_request(messages.ApiVersionsRequest(), 0, 1, "load")
_SIZE = struct.Struct(">i")


class Listener(NamedTuple):
    """A port of a server, and the context of clients with TLS; None: without."""

    server: str
    port: int
    tls: ssl.SSLContext | None


def connect(listener: Listener) -> socket.socket:
    """Return an open connection, encrypted if it shall be."""
    plain = socket.create_connection((HOST, listener.port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain if listener.tls is None else listener.tls.wrap_socket(plain, server_hostname=HOST)


def answer(connection: socket.socket, request: bytes, room: memoryview) -> int:
    """Send a request and read its response into `room`; return the size of the response."""
    connection.sendall(request)
    got, size = 0, _SIZE.size
    while got < size:
        more = connection.recv_into(room[got:])
        assert more, "the server has closed the connection"
        got += more
        if size == _SIZE.size and got >= size:
            size += _SIZE.unpack_from(room)[0]
    return size


def connections_per_s(listener: Listener) -> float:
    """Open, use and close connections, one after the other."""
    room, count, begin = memoryview(bytearray(1 << 16)), 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < SECONDS:
        with connect(listener) as connection:
            answer(connection, API_VERSIONS, room)
        count += 1
    return count / passed


def fetched_mb_per_s(listener: Listener) -> float:
    """Fetch the batches of the topic again and again, on one connection."""
    made = messages.FetchRequest
    requests = []
    for offset in range(BATCHES):
        partition = made.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
        fetch = made(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[made.FetchTopic(TOPIC, partitions=[partition])],
        )
        requests.append(encode_request(fetch, 11, 1, "load"))
    room, size = memoryview(bytearray(4 << 20)), 0
    with connect(listener) as connection:
        begin = time.perf_counter()
        while (passed := time.perf_counter() - begin) < SECONDS:
            for request in requests:
                found = answer(connection, request, room)
                assert found > BATCH_BYTES, "a batch is in the response"
                size += found
    return size / 1e6 / passed


def fill(listener: Listener) -> None:
    """Send the batches, of one record each: offsets are 0, 1, 2 …"""
    security = PLAINTEXT if listener.tls is None else ClientSecurity("SSL", listener.tls, None)
    with Connection(HOST, listener.port, 30, security) as connection:
        made = messages.CreateTopicsRequest
        connection.call(made([made.CreatableTopic(TOPIC, 1, 1)], 10_000), 4)
    batch = bytes(encode_batch([(None, bytes(BATCH_BYTES), (), round(time.time() * 1000))]))
    with ClusterClient((HOST, listener.port), 30, security) as cluster:
        for _ in range(BATCHES):
            cluster.produce({(TOPIC, 0): batch})


@contextmanager
def listeners(folder: Path, *, with_peers: bool) -> Iterator[list[Listener]]:
    """Start the servers; yield a listener of each protocol of each."""
    authority = CertificateAuthority()
    pem = authority.sign("broker").write_pem(folder / "server.pem")
    tls = ssl.create_default_context(cadata=authority.certificate_pem)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    found: list[Listener] = []
    with ExitStack() as stack:
        second = servers.free_port()
        keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": pem}
        keys["listeners"] = f"PLAINTEXT://{HOST}:0,SSL://{HOST}:{second}"
        server = stack.enter_context(servers.ours(folder / "ours", in_memory=True, settings=keys))
        found += [Listener(server.name, server.port, None), Listener(server.name, second, tls)]
        if with_peers:
            second = servers.free_port()
            clients = f"PLAINTEXT://{HOST}:$PORT,SSL://{HOST}:{second}"
            keys |= {"listeners": f"{clients},CONTROLLER://{HOST}:$NEXT", "advertised.listeners": clients}
            keys["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"
            lines = "".join(f"{key}={value}\n" for key, value in keys.items())
            server = stack.enter_context(servers.kafka(folder / "kafka", lines))
            found += [Listener(server.name, server.port, None), Listener(server.name, second, tls)]
            binary = servers.build("kfake", folder)
            for name, file in (("plain", ""), ("encrypted", pem)):
                server = stack.enter_context(servers.kfake(binary, folder / name, tls=file))
                found.append(Listener(server.name, server.port, tls if file else None))
        yield found


def main() -> None:
    """Measure in rounds, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kafka", action="store_true", help="also Apache Kafka and kfake")
    options = parser.parse_args()
    measures: dict[str, Callable[[Listener], float]] = {
        "connections/s": connections_per_s,
        "MB/s": fetched_mb_per_s,
    }
    rates: dict[tuple[str, str, bool], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, listeners(Path(folder), with_peers=options.kafka) as found:
        for server in dict.fromkeys(each.server for each in found):
            for listener in (each for each in found if each.server == server):
                if listener.tls is None or server == "kfake":  # kfake's are two clusters
                    fill(listener)
        for _ in range(options.rounds):
            for listener in found:
                for name, measure in measures.items():
                    key = listener.server, name, listener.tls is not None
                    rates.setdefault(key, []).append(measure(listener))
    print(f"{'':8}{'':16}{'without':>10}{'with TLS':>10}{'share':>8}")
    for name in measures:
        for server in dict.fromkeys(each.server for each in found):
            without, encrypted = (rates[server, name, is_encrypted] for is_encrypted in (False, True))
            share = statistics.median(b / a for a, b in zip(without, encrypted, strict=True))
            medians = f"{statistics.median(without):10.0f}{statistics.median(encrypted):10.0f}"
            print(f"{server:8}{name:16}{medians}{share:8.2f}")


if __name__ == "__main__":
    main()
