"""Inheritance: what a forked child has of the servers of its parent. It keeps no socket of them.

A fork copies the open files of a process, and no thread that serves them. While a child lives that has a listening
socket or a connection of a server, its parent cannot close it: the port stays taken and accepts, a peer is not told.
"""

# gevent and pytest-socket replace the class of the module `socket`.
import _socket
import os
import socket
import stat
import sys
import weakref
from asyncio.trsock import TransportSocket
from collections.abc import Iterable, Iterator
from typing import NoReturn, Protocol

Name = tuple[int, str, int]
"""Family, host and port of a socket."""

_EVERY_INTERFACE = ("0.0.0.0", "::")  # noqa: S104 - no address to listen at


class Listening(Protocol):
    """An owner of listening sockets."""

    @property
    def socket_names(self) -> list[Name]:
        """The names of the sockets at which it listens."""


_listening: "weakref.WeakSet[Listening]" = weakref.WeakSet()


def leave_to_parent(server: Listening) -> None:
    """Close the listening sockets of a server, and the connections that they accept, in every forked child."""
    _listening.add(server)


def names_of(sockets: Iterable[_socket.socket | TransportSocket]) -> list[Name]:
    """Return the names of those sockets that are open."""
    return [(sock.family, *sock.getsockname()[:2]) for sock in sockets if sock.fileno() >= 0]


def refuse_in_child(pid: int, address: str) -> NoReturn:
    """Raise RuntimeError: the broker that was started in process `pid` does not run in this one."""
    raise RuntimeError(
        f"this broker runs in process {pid}, of which process {os.getpid()} is a fork: connect a client to {address}, "
        "call the broker's methods in its own process, or start another broker here"
    )


def _close_inherited() -> None:
    """Take the sockets of the parent's servers from this child, which has one thread."""
    names = {name for server in _listening for name in server.socket_names}
    if not names:
        return
    _listening.clear()
    default_timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(
        None
    )  # else a second object for a socket changes how the parent's reads and writes
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in _open_files():
        if _is_of(descriptor, names):
            # Objects of this process still have the number, and close it at some time.
            os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)
    socket.setdefaulttimeout(default_timeout)


def _open_files() -> Iterator[int]:
    """Return the descriptors that may be open."""
    try:
        return map(int, os.listdir("/dev/fd"))
    except FileNotFoundError:
        return iter(range(os.sysconf("SC_OPEN_MAX")))


def _is_of(descriptor: int, names: set[Name]) -> bool:
    """Whether a descriptor is a socket at one of these names."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        same = _socket.socket(fileno=os.dup(descriptor))
    except OSError:  # it is not open
        return False
    try:
        family, address = same.family, same.getsockname()
    finally:
        same.close()
    if family not in (socket.AF_INET, socket.AF_INET6):
        return False
    host, port = address[:2]
    return not names.isdisjoint((family, interface, port) for interface in (host, *_EVERY_INTERFACE))


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_inherited)
