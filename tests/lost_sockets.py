"""A plugin of pytest for tests of kafka-python, here and in processes that tests start: it closes lost sockets."""

import socket
import sys


def pytest_collection_finish() -> None:
    """Let kafka-python's connections close when they are forgotten, if any test has imported it.

    It loses the socket of a connection that is being made when the client closes or the broker refuses it: the
    warning of the garbage collector fails whichever test runs then. Sockets of everyone else warn as ever.
    """
    inet = sys.modules.get("kafka.net.inet")
    if inet is not None:
        inet.KafkaNetSocket.socket = _a_socket_that_closes


class _ClosesWhenForgotten(socket.socket):
    def __del__(self) -> None:
        super(socket.socket, self).close()  # which does for one that could not be made as well


def _a_socket_that_closes(_: object, family: int, kind: int, protocol: int) -> socket.socket:
    return _ClosesWhenForgotten(family, kind, protocol)
