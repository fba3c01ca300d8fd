"""What a data directory goes through on a system without POSIX: stories for Windows, and for a process that is like it.

    python -m tests.storage.crash.killed_server DIRECTORY    is what a story acknowledged there, in any system?

`kill_and_start_again` ends a server while clients commit and produce; `change_files` has files rolled, compacted, moved
and removed in one process.
"""

import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path

from kafka_offsets import Broker, cli
from kafka_offsets.errors import KafkaOffsetsError
from tests.drivers import wire
from tests.interop.committer import Committer
from tests.interop.waiting import until

TOPIC, PARTITIONS = "orders", 3
LONG = "x" * 249
DEVICE = "aux.orders"
"""A name that stands for a device in Windows, whatever follows the dot."""

ROUNDS = 3
CLIENTS = 3
WINDOW = 8
COMMITS = 60
SETTINGS = {
    "fsync": "commit",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "16384",  # so that segments are rolled and cleaned beside the kills
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
ACKNOWLEDGED = "acknowledged.json"
REPOSITORY = Path(__file__).parents[3]  # not of conftest, which needs more than Windows gets


class Server:
    """`serve` as a process of its own."""

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        words = [*command, "serve", "--port", "0", "--data-dir", str(directory), "--with-parent", "stdin"]
        for key, value in SETTINGS.items():
            words += ["--set", f"{key}={value}"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stderr=pipe, text=True, cwd=REPOSITORY)
        self.log: list[str] = []
        self.address = ""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            _, said, address = line.strip().rpartition("listening on ")
            if said:
                self.address = address
                break
        self._reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr or ()))
        self._reader.start()

    def end(self) -> int:
        """Wait for its end; return the exit code."""
        code = self.process.wait()
        self._reader.join()
        assert self.process.stdin is not None and self.process.stderr is not None
        self.process.stdin.close()
        self.process.stderr.close()
        return code


@contextmanager
def served(command: Sequence[str], directory: Path) -> Iterator[Server]:
    """A server, killed in the end if it still runs."""
    server = Server(command, directory)
    try:
        assert server.address, "".join(server.log)
        yield server
    finally:
        server.process.kill()
        server.end()
        text = "".join(server.log)
        assert "Traceback" not in text and "cannot" not in text, text


def kill_and_start_again(command: Sequence[str], directory: Path) -> None:
    """Kill a server amid commits, ROUNDS times; each start has what was acknowledged. Then stop it, and check all.

    command  of `kafka-offsets`, for the server
    Writes the commits that were acknowledged, by group, into a file beside the directory.
    """
    committers = [Committer(f"killed-{number}", TOPIC, PARTITIONS) for number in range(CLIENTS)]
    for _ in range(ROUNDS):
        with served(command, directory) as server:
            _check(server, committers)
            _commit_until_killed(server, committers)
    with served(command, directory) as server:
        _check(server, committers)
        _assert_locked(directory)
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait() == 0
    acknowledged = {each.group: [each.acknowledged, each.sent] for each in committers}
    (directory.parent / ACKNOWLEDGED).write_text(json.dumps(acknowledged))
    for words in (["check"], ["compact", "--include-active"], ["check"]):
        assert cli.main([*words, str(directory)]) == 0


def _check(server: Server, committers: Sequence[Committer]) -> None:
    with wire.Connection(server.address, 300.0) as connection:
        is_new = connection.create_topic(TOPIC, PARTITIONS) == 0
        for committer in committers:
            until(lambda group=committer.group: connection.find_coordinator(group) == 0, "a coordinator")  # type: ignore[misc]
            if is_new:
                until(
                    lambda committer=committer: committer.take(connection, committer.send(connection)),  # type: ignore[misc]
                    "the first commit is accepted",
                )
            committer.check(connection)


def _commit_until_killed(server: Server, committers: Sequence[Committer]) -> None:
    threads = [threading.Thread(target=_commit, args=(server, committer)) for committer in committers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(committer.refused for committer in committers), [one.errors for one in committers]


def _commit(server: Server, committer: Committer) -> None:
    """Commit until the server is gone; each client kills it once it has COMMITS, so others are amid theirs."""
    pending: deque[int] = deque()
    enough = committer.acknowledged + COMMITS
    try:
        with wire.Connection(server.address, 300.0) as connection:
            while True:
                while len(pending) < WINDOW:
                    pending.append(committer.send(connection))
                committer.take(connection, pending.popleft())
                if committer.acknowledged == enough:
                    server.process.kill()
    except (wire.WireError, ConnectionError):
        pass  # it was killed, as it should be


def _assert_locked(directory: Path) -> None:
    """What locks as a second server does, and a reader, are refused in the same words while the server runs."""
    for command in ("compact", "check"):
        with redirect_stderr(StringIO()) as said:
            assert cli.main([command, str(directory)]) == 2
        assert "another broker uses the data directory" in said.getvalue()


def change_files(directory: Path) -> None:
    """Roll, compact and move segments, damage one and recover the rest, and delete a topic, in this process."""
    segment = 1 << 20
    config = {"offsets.topic.segment.bytes": segment, "recovery": "keep-valid"}
    with Broker(config, data_directory=directory) as broker:
        broker.create_topic("prices", config={"cleanup.policy": "compact", "segment.bytes": segment})
        for _ in range(6):
            broker.produce("prices", [{"key": str(key), "value": "x" * 1000} for key in range(300)])
        for offset in range(20):
            broker.commit("billing", {("prices", 0): offset})
        broker.compact()
        for name in (LONG, DEVICE, TOPIC):
            broker.produce(name, [b"\r\n\x1a"])  # what a file for text would change
        words = ["topics", "delete", TOPIC, "--bootstrap-server", broker.bootstrap_servers]
        assert cli.main(words) == 0
    (*_, active) = sorted((directory / "prices-0").glob("*.log"))
    content = bytearray(active.read_bytes())
    content[len(content) // 2] ^= 1
    active.write_bytes(content)
    (directory / ".kafka_cleanshutdown").unlink()  # as after a crash: the end of the log is read again
    with Broker(config, data_directory=directory) as broker:
        assert broker.consume_all("prices")  # waits until the log is open
        assert list((directory / "prices-0").glob("*.damaged"))
        assert broker.committed("billing")[("prices", 0)].offset == 19
        assert {name: broker.consume_all(name)[0].value for name in (LONG, DEVICE)} == dict.fromkeys(
            (LONG, DEVICE), b"\r\n\x1a"
        )
        assert not list(directory.glob(f"{TOPIC}-*"))
        said = ""
        try:
            with Broker(config, data_directory=directory):
                pass
        except KafkaOffsetsError as error:
            said = str(error)
        assert said.startswith("another broker uses the data directory"), said


def main(arguments: Sequence[str]) -> int:
    """Check a directory, and compare its offsets with what was acknowledged."""
    directory = Path(arguments[0])
    if cli.main(["check", str(directory)]) != 0:
        return 1
    with Broker(SETTINGS, data_directory=directory) as broker:
        for group, (acknowledged, sent) in json.loads((directory.parent / ACKNOWLEDGED).read_text()).items():
            offsets = {at: found.offset for at, found in broker.committed(group).items()}
            print(group, acknowledged, sent, offsets)
            assert offsets.keys() == {(TOPIC, number) for number in range(PARTITIONS)}
            assert acknowledged <= min(offsets.values()) == max(offsets.values()) <= sent
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
