"""Accepting: how asyncio's listeners stop without leaving a connection open. Knows no protocol."""

import asyncio
from collections.abc import Collection
from contextlib import suppress

_ROUNDS = 2
"""asyncio creates a transport one round of the loop after accepting, and calls `connection_made` in the next round."""


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
