"""A torn tail must be cut before anything is written after it: recover, commit, crash again, recover.

The log is cut inside its last commit, as a crash may leave it; the broker starts, acknowledges one commit, is killed,
and starts again: that commit must be there. Most tests of recovery stop before the second crash. `make kfake-loss` runs
the same against franz-go's kfake 01f206a7e32c, which loses the commit at every place where an entry is cut: its loader
warns of the torn entry and leaves it, later entries are appended after it, and no loader reads so far.

KAFKA_OFFSETS_TORN_PLACES places (3 unless told otherwise; 0 for every byte).
"""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from tests.drivers import wire
from tests.interop.broker_process import OVERRIDE, BrokerProcess
from tests.interop.waiting import until

PLACES = int(os.environ.get("KAFKA_OFFSETS_TORN_PLACES", "3"))
pytestmark = [pytest.mark.interop, pytest.mark.timeout(120 + 30 * (PLACES or 300))]
KFAKE = os.environ.get("KAFKA_OFFSETS_KFAKE")
TOPIC, GROUP, PARTITIONS = "torn", "torn-tail", 3
COMMITS = 5
NEW = 1000
"""The offset that is committed after the first recovery."""


class Target(Protocol):
    """A broker on a data directory."""

    def start(self) -> str:
        """Start it and return HOST:PORT."""

    def kill(self) -> None:
        """kill -9."""


class KfakeProcess:
    """kfake with a data directory, syncing before each answer."""

    def __init__(self, data_dir: Path) -> None:
        assert KFAKE is not None
        self._command = [KFAKE, "-d", str(data_dir), "-sync"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        environment = os.environ | {"KFAKE_PORTS": str(port)}
        self._process = subprocess.Popen(
            self._command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        address = f"127.0.0.1:{port}"
        until(lambda: _answers(address), "kfake answers")
        return address

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def _answers(address: str) -> bool:
    try:
        with wire.Connection(address) as connection:
            return connection.api_versions() == 0
    except OSError:
        return False


def ours(data_dir: Path) -> BrokerProcess:
    return BrokerProcess(data_dir, {"fsync": "commit", "offsets.topic.num.partitions": "1"})


class Found(NamedTuple):
    """What became of the log cut at each place.

    places   bytes of the log that were left
    lost     those after which the new commit was not found any more
    in_part  those after which a commit was found for some of its partitions only
    """

    places: list[int]
    lost: list[int]
    in_part: list[int]


def commit(connection: wire.Connection, offset: int) -> None:
    connection.socket.sendall(wire.offset_commit(offset, GROUP, TOPIC, offset, PARTITIONS))
    assert wire.offset_commit_errors(connection.receive(), TOPIC) == {0}


def fetch(connection: wire.Connection) -> set[int]:
    found = connection.fetch_offsets(GROUP, TOPIC, PARTITIONS)
    assert isinstance(found, dict)
    return {offset for offset, _ in found.values()}


def cut_and_go_on(target: Callable[[Path], Target], log: str, folder: Path) -> Found:
    """Write a log, then try a copy of it cut at each place inside the last commit."""
    written = folder / "written"
    broker = target(written)
    with wire.Connection(broker.start()) as connection:
        assert connection.create_topic(TOPIC, PARTITIONS) == 0
        until(lambda: connection.find_coordinator(GROUP) == 0, "a coordinator")
        for offset in range(1, COMMITS):
            commit(connection, offset)
        start = (written / log).stat().st_size
        commit(connection, COMMITS)
    broker.kill()
    end = (written / log).stat().st_size
    step = (end - start - 1) / PLACES if PLACES else 1
    found = Found(sorted({start + 1 + int(step * n) for n in range(PLACES or end - start - 1)}), [], [])
    for place in found.places:
        data_dir = folder / "cut"
        shutil.copytree(written, data_dir)
        os.truncate(data_dir / log, place)
        recover_twice(target(data_dir), place, found)
        shutil.rmtree(data_dir)
    return found


def recover_twice(broker: Target, place: int, found: Found) -> None:
    with wire.Connection(broker.start()) as connection:
        if fetch(connection) != {COMMITS - 1}:
            found.in_part.append(place)
        commit(connection, NEW)
    broker.kill()
    with wire.Connection(broker.start()) as connection:
        if fetch(connection) != {NEW}:
            found.lost.append(place)
    broker.kill()


@pytest.mark.skipif(OVERRIDE is not None, reason="the log of another broker is elsewhere")
def test_a_commit_after_a_torn_tail_is_found_after_the_next_crash(tmp_path: Path) -> None:
    found = cut_and_go_on(ours, "__consumer_offsets-0/00000000000000000000.log", tmp_path)
    print(f"{len(found.places)} places")
    assert (found.lost, found.in_part) == ([], [])


@pytest.mark.skipif(KFAKE is None, reason="KAFKA_OFFSETS_KFAKE names no kfake; `make kfake-loss` builds one")
def test_the_same_finds_that_kfake_loses_the_commit(tmp_path: Path) -> None:
    found = cut_and_go_on(KfakeProcess, "groups.log", tmp_path)
    print(f"kfake: {len(found.lost)} of {len(found.places)} lost, {len(found.in_part)} found in part")
    # It writes an entry for each partition: a cut between two of them is no torn entry, only half a commit.
    assert len(found.lost) >= len(found.places) - (PARTITIONS - 1) > 0
    assert found.in_part
