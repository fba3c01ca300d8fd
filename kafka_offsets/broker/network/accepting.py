"""Accepting: how asyncio's listeners begin and stop, and what it does not say of connections. Knows no protocol."""

import asyncio
import select
from collections.abc import Collection
from contextlib import suppress

_ROUNDS = 2
"""asyncio creates a transport one round of the loop after accepting, and calls `connection_made` in the next round."""

_CLOSED: int = getattr(select, "POLLRDHUP", 0)
"""Linux reports separately that the peer will send nothing more."""


ACCEPTED_PER_ROUND = 16
"""asyncio accepts as many connections in a round of the loop as its backlog has. Each takes several rounds until
it is read or closed, and one with TLS has a buffer of 256 KiB until then."""

_BACKLOG = 1024
"""The number of connections that wait in the kernel until they are accepted."""


def widen_backlog(listener: asyncio.Server) -> None:
    """Have the kernel keep more connections waiting than asyncio accepts in a round."""
    for accepting in listener.sockets:
        with accepting.dup() as same:  # only asyncio's own object hides `listen`
            same.listen(_BACKLOG)


async def stop_accepting(listeners: Collection[asyncio.Server]) -> None:
    """Close listeners once all connections that they have accepted have reached `connection_made`.

    asyncio's server would leave the others open. A protocol that is made from now on must close its connection.
    """
    loop = asyncio.get_running_loop()
    for listener in listeners:
        for accepting in listener.sockets:
            # Windows' loop has no readers, and accepts until the listener is closed.
            with suppress(NotImplementedError):
                loop.remove_reader(accepting.fileno())
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
    for listener in listeners:
        listener.close()


def pause_again(transport: asyncio.Transport) -> None:
    """Pause a transport that was paused in `connection_made`; call it with `call_soon` from there.

    asyncio of the first releases of Python 3.11 (Debian 12 has one) begins to read afterwards nevertheless.
    """
    if not transport.is_closing():
        transport.resume_reading()
        transport.pause_reading()


def is_closed_by_peer(transport: asyncio.Transport) -> bool:
    """Whether the peer has closed a connection, also while there is something to read that it has sent before.

    False where the system does not say it.
    """
    descriptor = transport.get_extra_info("socket").fileno()
    if transport.is_closing() or descriptor < 0:
        return True
    if not hasattr(select, "poll"):  # Windows
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | _CLOSED)  # macOS reports the end only with what can be read
    return any(events & (_CLOSED | select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))
