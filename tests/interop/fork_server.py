"""A process that has imported what brokers and clients import, and forks itself for each start of one of them.

    python -m tests.interop.fork_server DESCRIPTOR

forks.py starts it, and sends orders by the socket of this descriptor: JSON, and with it the child's standard streams
and a pipe for its exit code. The child is in a session of its own. It has no threads, no event loop and no garbage
collector before a fork. At the end of the orders it kills what is left of its children.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
from pathlib import Path

LARGEST_ORDER = 1 << 18
EXIT_CODE = struct.Struct("=i")
BROKER = ("kafka_offsets.commands.serve_one", "kafka_offsets.commands.serve_with_zookeeper")
CLIENTS = {
    "aiokafka": ("aiokafka",),
    "confluent-kafka": ("confluent_kafka",),
    "kafka-offsets": ("kafka_offsets.client",),
    "kafka-python": ("kafka",),
}


def needs(command: list[str]) -> tuple[str, ...]:
    """Return the modules that a command imports: a module's name, then its arguments."""
    if command[0] == "tests.interop.members":
        return CLIENTS[command[1]]
    return ("confluent_kafka",) if command[0] == "tests.interop.copier" else BROKER


class ForkServer:
    """Starts children, and reports how they have ended."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._children: dict[int, tuple[int, int]] = {}  # by the descriptor of the process: its pid, its pipe
        self._ready = select.poll()
        self._ready.register(orders, select.POLLIN)

    def run(self) -> list[str] | None:
        """Serve; return what to run in a child, and None in this process, when the orders have ended."""
        while True:
            for descriptor, _ in self._ready.poll():
                if descriptor in self._children:
                    self._report(descriptor)
                    continue
                data, descriptors, _, _ = socket.recv_fds(self._orders, LARGEST_ORDER, 4)
                if not data:
                    self._end()
                    return None
                order = json.loads(data)
                if not self._start(order["command"], descriptors):
                    os.environ.clear()
                    os.environ.update(order["environment"])
                    return list(order["command"])

    def _start(self, command: list[str], descriptors: list[int]) -> bool:
        """Fork; return whether this is still the parent."""
        for module in needs(command):
            importlib.import_module(module)
        assert len([*Path("/proc/self/task").iterdir()]) == 1, "a fork copies one thread"
        *streams, pipe = descriptors
        pid = os.fork()
        if pid == 0:
            os.setsid()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            self._orders.detach()
            return False
        for stream in streams:
            os.close(stream)
        child = os.pidfd_open(pid)
        self._children[child] = pid, pipe
        self._ready.register(child, select.POLLIN)
        self._orders.send(EXIT_CODE.pack(pid))
        return True

    def _report(self, child: int) -> None:
        pid, pipe = self._children.pop(child)
        self._ready.unregister(child)
        os.close(child)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        try:
            os.write(pipe, EXIT_CODE.pack(code))
        except BrokenPipeError:
            pass  # it was forgotten
        os.close(pipe)

    def _end(self) -> None:
        for child, (pid, _) in [*self._children.items()]:
            os.kill(pid, signal.SIGKILL)
            self._report(child)


def _prepare() -> None:
    """Import what most children need."""
    for module in BROKER:
        importlib.import_module(module)
    messages = importlib.import_module("kafka_offsets.protocol.messages")
    messages.read_schemas()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    gc.disable()
    _prepare()
    words = ForkServer(socket.socket(fileno=int(sys.argv[1]))).run()
    if words is not None:
        gc.enable()
        sys.argv = words
        sys.modules.pop(words[0], None)  # it runs as __main__
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
