"""Reserved ports: those of a stopped node, which no other process gets from the system until the node starts again."""

# gevent and pytest-socket replace the class of the module `socket`.
import _socket
import os
from collections.abc import Iterable

from kafka_offsets.broker.network.inheritance import Name, leave_to_parent, names_of


class ReservedPorts:
    """Sockets that are bound to the ports of a node and do not listen: a client that connects is refused."""

    def __init__(self, names: Iterable[Name]) -> None:
        """Reserve the ports, except for those that another process has taken by now."""
        leave_to_parent(self)
        self._sockets: list[_socket.socket] = []
        for family, *address in names:
            reserving = _socket.socket(family, _socket.SOCK_STREAM)
            try:
                if os.name == "posix":  # connections that have just closed keep the port otherwise
                    reserving.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
                if family == _socket.AF_INET6:
                    reserving.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
                reserving.bind(tuple(address))
            except OSError:
                reserving.close()
            else:
                self._sockets.append(reserving)

    @property
    def socket_names(self) -> list[Name]:
        """The names of the sockets, which a forked child closes."""
        return names_of(self._sockets)

    def release(self) -> None:
        """Give the ports back: the node listens there, or never will."""
        for reserving in self._sockets:
            reserving.close()
        self._sockets.clear()
