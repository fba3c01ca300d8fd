"""The longest step of the event loop for a very large JoinGroup: python -m benchmarks.join_group_steps

--megabytes  size of the request
A step is one callback of the loop: no other client is served in the meantime. It is timed in CPU of the loop's thread,
which the client's thread does not add to. Three lines: while the JoinGroup arrives and is decided, while it is answered
(the leader gets all metadata back), and while a SyncGroup of the same size arrives and is refused, because its group's
record would be larger than `message.max.bytes`.

CPython 3.11.7, two shared cores, 2026-11-22, 90 MiB: 56 ms, 2 ms and 57 ms.
"""

import argparse
import asyncio
import socket
import struct
import time
from asyncio import events
from typing import Any

from kafka_offsets import Broker
from kafka_offsets.protocol import messages

JOIN_KEY, JOIN_VERSION = 11, 5
SYNC_KEY, SYNC_VERSION = 14, 3
CHUNK = 1 << 20


class Steps:
    """Times the steps of every event loop; `take` returns the longest since the last call, in ms."""

    def __init__(self) -> None:
        self._longest = 0.0
        run = events.Handle._run

        def timed(handle: events.Handle) -> None:
            began = time.thread_time()
            run(handle)
            self._longest = max(self._longest, time.thread_time() - began)

        events.Handle._run = timed  # type: ignore[method-assign]

    async def begin(self) -> None:
        """Forget all steps so far, the caller's own included."""
        await asyncio.sleep(0)
        self.take()

    def take(self) -> float:
        longest, self._longest = self._longest, 0.0
        return longest * 1000


def framed(request: messages.MessageValue, api_key: int, version: int) -> bytes:
    """A request as a client sends it; these versions have the header without tagged fields."""
    body = struct.pack(">hhih", api_key, version, 1, -1) + messages.encode(request, version)
    return struct.pack(">i", len(body)) + body


def join(size: int, member_id: str) -> bytes:
    """A JoinGroup with metadata of `size` bytes."""
    made = messages.JoinGroupRequest
    protocol = made.Protocol("range", bytes(size))
    request = made("g", 60_000, 60_000, member_id, None, "consumer", [protocol])
    return framed(request, JOIN_KEY, JOIN_VERSION)


def sync(size: int, member_id: str, generation: int) -> bytes:
    """A SyncGroup of the leader with an assignment of `size` bytes."""
    made = messages.SyncGroupRequest
    assignments = [made.Assignment(member_id, bytes(size))]
    return framed(made("g", generation, member_id, assignments=assignments), SYNC_KEY, SYNC_VERSION)


async def send(connection: socket.socket, frame: bytes) -> None:
    """Send a frame in pieces, in a thread of its own."""
    view = memoryview(frame)
    for at in range(0, len(view), CHUNK):
        await asyncio.to_thread(connection.sendall, view[at : at + CHUNK])


def receive(connection: socket.socket, size: int) -> bytes:
    """Return that many bytes of the peer."""
    answer = bytearray()
    while len(answer) < size:
        piece = connection.recv(min(CHUNK, size - len(answer)))
        assert piece, "the broker has closed the connection"
        answer += piece
    return bytes(answer)


async def answer_to(connection: socket.socket, response: Any, version: int) -> Any:
    """Return the decoded response, of which the first 8 bytes are size and correlation id."""
    (size,) = struct.unpack(">i", await asyncio.to_thread(receive, connection, 4))
    body = await asyncio.to_thread(receive, connection, size)
    return (await asyncio.to_thread(messages.decode, response, body, version, 4))[0]


async def measure(size: int) -> None:
    """Send the three requests to a broker in this loop; print the longest steps."""
    steps = Steps()
    async with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        connection = await asyncio.to_thread(socket.create_connection, (host, int(port)))
        await send(connection, join(1, ""))
        found = await answer_to(connection, messages.JoinGroupResponse, JOIN_VERSION)
        large, member_id = join(size, found.member_id), found.member_id
        await steps.begin()
        await send(connection, large)
        first = await asyncio.to_thread(connection.recv, 1, socket.MSG_PEEK)
        assert first
        print(f"JoinGroup of {size >> 20} MiB, received and decided: {steps.take():.1f} ms", flush=True)
        found = await answer_to(connection, messages.JoinGroupResponse, JOIN_VERSION)
        assert not found.error_code and len(found.members[0].metadata) == size, found.error_code
        print(f"JoinGroup of {size >> 20} MiB, answered: {steps.take():.1f} ms", flush=True)
        large = sync(size, member_id, found.generation_id)
        await steps.begin()
        await send(connection, large)
        found = await answer_to(connection, messages.SyncGroupResponse, SYNC_VERSION)
        assert found.error_code, "the SyncGroup was not refused"
        print(
            f"SyncGroup of {size >> 20} MiB, refused with {found.error_code}: {steps.take():.1f} ms",
            flush=True,
        )
        connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=90)
    options = parser.parse_args()
    asyncio.run(measure(options.megabytes << 20))


if __name__ == "__main__":
    main()
