"""A real disk that is full, and a process that has no descriptors left.

Errors are answered, nothing is lost, and when there is room again the broker goes on without a restart.
"""

import os
import resource
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_offsets.protocol import messages
from tests.drivers import wire
from tests.interop.broker_process import OVERRIDE, BrokerProcess
from tests.interop.committer import Committer
from tests.interop.waiting import until
from tests.storage.batches import batch

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(bool(OVERRIDE), reason="the limits of our own process"),
]

TOPIC, PARTITIONS = "limits", 3
SETTINGS = {"offsets.topic.num.partitions": "1", "fsync": "commit"}
LARGE = 1 << 40


class Client(Committer):
    """Commits on one connection."""

    def __init__(self, address: str, group: str) -> None:
        super().__init__(group, TOPIC, PARTITIONS)
        self.connection = wire.Connection(address)

    def commit(self) -> bool:
        """Commit the next number; tell whether it was acknowledged."""
        return self.take(self.connection, self.send(self.connection))

    def check_at(self, address: str) -> None:
        """Check on another connection."""
        with wire.Connection(address) as connection:
            self.check(connection)


Start = Callable[[Path], tuple[BrokerProcess, Client]]


@pytest.fixture
def started() -> Iterator[Start]:
    """Start a broker in a directory, and a client of it whose connection is closed also when the test fails."""
    with ExitStack() as stack:

        def start(data_dir: Path) -> tuple[BrokerProcess, Client]:
            broker = BrokerProcess(data_dir, SETTINGS, as_users_do=True)
            address = broker.start()
            with wire.Connection(address) as connection:
                assert connection.create_topic(TOPIC, PARTITIONS) == 0
            client = Client(address, "g")
            stack.callback(client.connection.socket.close)
            until(client.commit, "the first commit is acknowledged")
            client.refused = 0
            return broker, client

        yield start


def limit(broker: BrokerProcess, kind: int, soft: int) -> None:
    """Set a limit of a running broker; what it had is the most it may get back."""
    _, hard = resource.prlimit(broker.pid, kind)
    resource.prlimit(broker.pid, kind, (soft if hard < 0 else min(soft, hard), hard))


def commit_until(condition: Callable[[], bool], client: Client, most: int = 5000) -> None:
    for _ in range(most):
        client.commit()
        if condition():
            return
    raise AssertionError(f"still not so after {most} commits")


def go_on_and_restart(broker: BrokerProcess, client: Client) -> None:
    """With room again the broker takes commits; it stops in order, and what it acknowledged is there."""
    for _ in range(10):
        assert client.commit()
    client.check_at(broker.address)
    client.connection.socket.close()
    broker.stop()
    client.check_at(broker.start())
    broker.stop()


def test_a_file_that_may_not_grow_loses_no_commit_and_no_restart(disk_path: Path, started: Start) -> None:
    broker, client = started(disk_path / "data")
    segment = disk_path / "data" / "__consumer_offsets-0" / f"{0:020d}.log"
    limit(broker, resource.RLIMIT_FSIZE, segment.stat().st_size + 1000)
    commit_until(lambda: client.refused == 20, client)
    assert 0 < client.acknowledged < client.sent - 19
    client.check_at(broker.address)
    limit(broker, resource.RLIMIT_FSIZE, LARGE)
    go_on_and_restart(broker, client)


def test_a_broker_that_is_killed_on_a_full_disk_has_what_it_acknowledged(
    disk_path: Path, started: Start
) -> None:
    broker, client = started(disk_path / "data")
    segment = disk_path / "data" / "__consumer_offsets-0" / f"{0:020d}.log"
    limit(broker, resource.RLIMIT_FSIZE, segment.stat().st_size + 777)
    commit_until(lambda: client.refused == 5, client)
    client.connection.socket.close()
    broker.kill()
    client.check_at(broker.start())
    broker.stop()


def test_200_connections_and_64_descriptors_do_not_end_the_broker(disk_path: Path, started: Start) -> None:
    broker, client = started(disk_path / "data")
    began = time.monotonic()
    limit(broker, resource.RLIMIT_NOFILE, 64)
    host, _, port = broker.address.rpartition(":")
    crowd = [socket.create_connection((host, int(port)), 10) for _ in range(200)]
    try:
        for _ in range(50):
            client.commit()  # an open file stays open: commits need no descriptor
        assert client.acknowledged == client.sent
        assert broker.alive
    finally:
        for connection in crowd:
            connection.close()

    def served() -> bool:
        try:
            with wire.Connection(broker.address, 2) as connection:
                return connection.api_versions() == 0
        except (OSError, wire.WireError):
            return False

    until(served, "a new connection is served")
    broker.until_logged("no connection can be accepted")
    lines = sum("no connection can be accepted" in line for line in broker.log)
    assert lines <= time.monotonic() - began + 2, "one a second"
    limit(broker, resource.RLIMIT_NOFILE, 1024)
    go_on_and_restart(broker, client)


def produced(connection: wire.Connection, partitions: range) -> set[int]:
    """Produce a record to each partition; return the error codes."""
    request = messages.ProduceRequest
    parts = [request.PartitionProduceData(index, bytes(batch([b"v"]))) for index in partitions]
    data = request.TopicProduceData(TOPIC, partition_data=parts)
    asked = request(acks=-1, timeout_ms=1000, topic_data=[data])
    body = connection.call(0, 7, messages.encode(asked, 7))
    answer, _ = messages.decode(messages.ProduceResponse, body, 7)
    return {part.error_code for topic in answer.responses for part in topic.partition_responses}


def fetched(connection: wire.Connection, partitions: range) -> set[tuple[int, int]]:
    """Fetch from each partition; return the error codes and high watermarks."""
    request = messages.FetchRequest
    parts = [request.FetchPartition(index, fetch_offset=0, partition_max_bytes=1) for index in partitions]
    asked = request(max_wait_ms=0, min_bytes=0, topics=[request.FetchTopic(TOPIC, partitions=parts)])
    body = connection.call(1, 6, messages.encode(asked, 6))
    answer, _ = messages.decode(messages.FetchResponse, body, 6)
    return {(part.error_code, part.high_watermark) for topic in answer.responses for part in topic.partitions}


def test_1500_partitions_and_1024_descriptors_are_served_and_stopped(disk_path: Path) -> None:
    broker, every = BrokerProcess(disk_path / "data", SETTINGS | {"fsync": "never"}), range(1500)
    address = broker.start()
    limit(broker, resource.RLIMIT_NOFILE, 1024)
    with wire.Connection(address, 120) as connection:
        assert connection.create_topic(TOPIC, len(every)) == 0
        assert produced(connection, every) == {0}
        assert fetched(connection, every) == {(0, 1)}
        assert produced(connection, every) == {0}
    broker.stop()
    address = broker.start()
    limit(broker, resource.RLIMIT_NOFILE, 1024)
    with wire.Connection(address, 120) as connection:
        assert fetched(connection, every) == {(0, 2)}
        assert produced(connection, every) == {0}
    broker.stop()


def test_without_a_descriptor_the_first_use_of_an_api_is_answered(disk_path: Path, started: Start) -> None:
    """Its schema file could not be read, and the connection was closed without a line in the log."""
    broker, client = started(disk_path / "data")
    with wire.Connection(broker.address) as connection:
        assert connection.api_versions() == 0
        limit(broker, resource.RLIMIT_NOFILE, 4)  # all of these are taken
        storage_error = 56
        assert produced(connection, range(PARTITIONS)) == {storage_error}
        broker.until_logged(f"{TOPIC}-{PARTITIONS - 1}: ")  # one line each, in this order
        assert sum(f"{TOPIC}-0: " in line for line in broker.log) == 1
        limit(broker, resource.RLIMIT_NOFILE, 1024)
        assert produced(connection, range(PARTITIONS)) == {0}
        assert fetched(connection, range(PARTITIONS)) == {(0, 1)}
    go_on_and_restart(broker, client)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_file_system_of_a_mebibyte_that_is_full_loses_no_commit_and_no_restart(
    disk_path: Path, started: Start
) -> None:
    folder = disk_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"mounts are not allowed here: {mounted.stderr.strip()}")
    try:
        broker, client = started(folder / "data")
        ballast = folder / "ballast"
        with ballast.open("wb", buffering=0) as file:
            room = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
            file.write(bytes(max(room - 16384, 0)))
        commit_until(lambda: client.refused == 20, client)
        client.check_at(broker.address)
        ballast.unlink()
        go_on_and_restart(broker, client)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
