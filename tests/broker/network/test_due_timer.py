"""After a pause of the process, what clients have sent is served before anything times out."""

import asyncio
import selectors
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.network.server import Server
from kafka_offsets.clock import Now
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import MemoryFiles
from tests.drivers.core import CoreClient
from tests.drivers.members import join_request

SESSION_MS = 10_000


class Machine(selectors.DefaultSelector):
    """A machine whose time passes in pauses alone. It is a broker's clock, its loop's time and its loop's selector."""

    def __init__(self) -> None:
        super().__init__()
        self.ms = 0
        self._interrupted = False

    def now(self) -> Now:
        return Now(1_700_000_000_000 + self.ms, self.ms)

    def pause(self, ms: int) -> None:
        """Stop the process for a while, as SIGSTOP does: the call that waits for sockets ends with nothing."""
        self.ms += ms
        self._interrupted = True

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._interrupted:
            self._interrupted = False
            return []
        return super().select(timeout)


class Loop(asyncio.SelectorEventLoop):
    """A loop in the machine's time."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._machine = machine

    def time(self) -> float:
        return self._machine.ms / 1000


class Member:
    """A member of a group of its own, with a connection. Its CoreClient only makes frames and reads answers."""

    def __init__(self, server: Server, sockets: ExitStack, group: str) -> None:
        self.server, self.sockets, self.group = server, sockets, group
        self.frames = CoreClient(server.core)
        self.generation, self.member_id = -1, ""

    def connect(self) -> None:
        address = ("127.0.0.1", self.server.core.broker.node.port)
        self.socket = self.sockets.enter_context(socket.create_connection(address))
        self.socket.setblocking(False)

    def send(self, request: Any, version: int) -> None:
        self.socket.send(self.frames.frame(request, version))

    async def receive(self) -> Any:
        loop = asyncio.get_running_loop()
        while not (answers := self.frames.take()):
            self.frames.received += await loop.sock_recv(self.socket, 65_536)
        return answers[0]

    async def join(self) -> None:
        self.connect()
        self.send(join_request(self.group, session_ms=SESSION_MS, rebalance_ms=SESSION_MS), 3)
        joined = await self.receive()
        assert joined.error_code == 0
        self.generation, self.member_id = joined.generation_id, joined.member_id
        assignment = messages.SyncGroupRequest.Assignment(self.member_id, b"")
        self.send(
            messages.SyncGroupRequest(self.group, self.generation, self.member_id, assignments=[assignment]),
            2,
        )
        assert (await self.receive()).error_code == 0

    def heartbeat(self) -> None:
        self.send(messages.HeartbeatRequest(self.group, self.generation, self.member_id), 2)


def run(play: Callable[[Machine, Callable[[str], Member]], Coroutine[Any, Any, None]]) -> None:
    """Run a server on a machine of its own."""
    machine = Machine()

    async def main() -> None:
        config = Config.load({"group.initial.rebalance.delay.ms": 0})
        server = Server(config, MemoryFiles(), machine)
        await server.start("127.0.0.1", 0)
        try:
            with ExitStack() as sockets:
                await play(machine, partial(Member, server, sockets))
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=lambda: Loop(machine)) as runner:
        runner.run(main())


@pytest.mark.parametrize("reconnects", [False, True])
def test_a_heartbeat_that_arrived_in_a_pause_keeps_the_member(reconnects: bool) -> None:
    # A broker that was stopped for 30 s answered UNKNOWN_MEMBER_ID to heartbeats that lay in its sockets.
    async def play(machine: Machine, new_member: Callable[[str], Member]) -> None:
        members = [new_member(f"g{number}") for number in range(5)]
        for member in members:
            await member.join()
        for member in members:
            if reconnects:
                member.socket.close()
                member.connect()
            member.heartbeat()
        machine.pause(3 * SESSION_MS)
        for member in members:
            assert (await member.receive()).error_code == ErrorCode.NONE

    run(play)


def test_a_member_that_sent_nothing_in_a_pause_is_removed() -> None:
    async def play(machine: Machine, new_member: Callable[[str], Member]) -> None:
        silent, alive = new_member("silent"), new_member("alive")
        for member in (silent, alive):
            await member.join()
        alive.heartbeat()
        machine.pause(3 * SESSION_MS)
        assert (await alive.receive()).error_code == ErrorCode.NONE
        alive.heartbeat()
        await alive.receive()
        silent.heartbeat()
        assert (await silent.receive()).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(play)
