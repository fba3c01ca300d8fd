"""Sixteen clients commit, read and commit on condition, over connections that are cut, the same few offsets.

Each offset of a group is a register; what its clients did and saw is a history, and registers.py says whether it can be
that of one register. The frames are made by hand, so that our codecs do not judge themselves.

    python -m tests.properties.linearizability --histories 1000
"""

import argparse
import random
import socket
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path

from kafka_offsets import Broker
from tests.drivers.wire import OFFSET_COMMIT, OFFSET_FETCH, Connection, WireError, array, frame, text
from tests.properties.registers import NEVER, NOTHING, Operation, is_linearizable

CLIENTS = 16
REGISTERS = 4
OPERATIONS = 24
TOPIC = "registers"
FOUND_TAG = EXPECTED_TAG = b"\x90\x4e"
"""The number of the field of a condition, 10,000, as a varint."""


def fetch_request(group: str, index: int) -> bytes:
    """OffsetFetch v3 of one partition."""
    asked = array([text(TOPIC) + array([struct.pack(">i", index)])])
    return frame(OFFSET_FETCH, 3, 7, text(group) + asked)


def fetched(answer: bytes) -> int:
    """correlation int32, throttle int32, count int32, name, count int32, index int32, offset int64, ..."""
    (offset,) = struct.unpack_from(">q", answer, 16 + len(text(TOPIC)) + 4)
    return int(offset)


def commit_request(group: str, index: int, offset: int, expected: int | None) -> bytes:
    """OffsetCommit v8 by no member, on condition if an offset is expected."""
    condition = b"\0" if expected is None else b"\1" + EXPECTED_TAG + b"\x08" + struct.pack(">q", expected)
    partition = struct.pack(">iqi", index, offset, -1) + b"\1" + condition
    topic = compact(TOPIC) + b"\2" + partition + b"\0"
    body = compact(group) + struct.pack(">i", -1) + compact("") + b"\0" + b"\2" + topic + b"\0"
    header = struct.pack(">hhih", OFFSET_COMMIT, 8, 7, -1) + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def compact(value: str) -> bytes:
    """A short compact string: one byte of length and one."""
    return bytes([len(value) + 1]) + value.encode()


def committed(answer: bytes, expects: bool) -> tuple[int | None, bool]:
    """correlation int32, tags, throttle int32, count, name, count, index int32, error int16, tags."""
    at = 4 + 1 + 4 + 1 + len(compact(TOPIC)) + 1 + 4
    (error,) = struct.unpack_from(">h", answer, at)
    if not expects:
        assert error == 0, f"a commit was answered {error}"
        return None, False
    assert answer[at + 2 : at + 6] == b"\1" + FOUND_TAG + b"\x08", (
        f"an answer without what was found: {answer!r}"
    )
    (found,) = struct.unpack_from(">q", answer, at + 6)
    return int(found), error != 0


class Client:
    """One client: what it does follows from its number, what it meets is in `history` by register."""

    def __init__(self, number: int, seed: int, address: str, group: str) -> None:
        self.number, self.address, self.group = number, address, group
        self.r = random.Random(f"{seed}/{number}")
        self.history: dict[int, list[Operation]] = {index: [] for index in range(REGISTERS)}
        self.seen = dict.fromkeys(range(REGISTERS), NOTHING)
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            connection = Connection(self.address)
            for count in range(OPERATIONS):
                if not self._operate(connection, self.number * OPERATIONS + count):
                    connection.socket.close()
                    connection = Connection(self.address)
            connection.socket.close()
        except Exception as error:  # noqa: BLE001 -- told by who has started the thread
            self.error = error

    def _operate(self, connection: Connection, unique: int) -> bool:
        """Carry out one operation; return whether the connection is still there."""
        index = self.r.randrange(REGISTERS)
        kind, is_cut = self.r.choice(["read", "write", "on condition"]), self.r.random() < 0.05
        wrote = None if kind == "read" else unique
        expected = self.seen[index] if kind == "on condition" else None
        if wrote is None:
            request = fetch_request(self.group, index)
        else:
            request = commit_request(self.group, index, wrote, expected)
        called = time.monotonic()
        connection.socket.sendall(request)
        if is_cut:
            connection.socket.shutdown(socket.SHUT_RDWR)
            if wrote is not None:
                self.history[index].append(Operation(self.number, wrote, expected, None, called, NEVER))
            return False
        answer = connection.receive()
        if wrote is None:
            found, is_refused = fetched(answer), False
        else:
            found, is_refused = committed(answer, expected is not None)
        made = Operation(self.number, wrote, expected, found, called, time.monotonic(), is_refused)
        self.history[index].append(made)
        self.seen[index] = (
            wrote if wrote is not None and not is_refused else found if found is not None else NOTHING
        )
        return True


def histories(address: str, group: str, seed: int) -> list[list[Operation]]:
    """Let the clients of one group run; return what happened to each of its registers."""
    clients = [Client(number, seed, address, group) for number in range(CLIENTS)]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        if client.error is not None:
            raise WireError(f"client {client.number} of seed {seed}") from client.error
    return [[made for client in clients for made in client.history[index]] for index in range(REGISTERS)]


def told(history: list[Operation]) -> str:
    """A history as lines, in the order of the calls."""
    begin = min(o.called for o in history)
    lines = []
    for o in sorted(history, key=lambda o: o.called):
        what = "reads" if o.wrote is None else f"writes {o.wrote}"
        on = "" if o.expected is None else f" upon {o.expected}"
        came = "no answer" if o.answered == NEVER else f"{(o.answered - begin) * 1000:.3f} ms"
        refused = ", refused" if o.is_refused else ""
        found = "" if o.found is None else f", found {o.found}"
        lines.append(
            f"{(o.called - begin) * 1000:10.3f} ms to {came}: client {o.client} {what}{on}{found}{refused}"
        )
    return "\n".join(lines)


def check(count: int, seed: int, fsync: str) -> int:
    """Make and judge so many histories with one broker; return how many operations they have. AssertionError."""
    operations = 0
    with tempfile.TemporaryDirectory(prefix="kafka-offsets-") as directory:
        config = {"fsync": fsync, "offsets.topic.num.partitions": 2}
        with Broker(config, data_directory=Path(directory) / "data") as broker:
            broker.create_topic(TOPIC, REGISTERS)
            for run in range(-(-count // REGISTERS)):
                for history in histories(broker.bootstrap_servers, f"g{run}", seed + run):
                    operations += len(history)
                    assert is_linearizable(history), f"seed {seed + run}, fsync {fsync}:\n{told(history)}"
    return operations


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin, operations = time.monotonic(), 0
    for number, fsync in enumerate(("never", "commit")):
        operations += check(options.histories // 2, options.seed + number * 1_000_000, fsync)
    took = time.monotonic() - begin
    print(
        f"{options.histories} histories, {operations} operations of {CLIENTS} clients, linearizable, {took:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
