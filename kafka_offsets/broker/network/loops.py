"""Loops: that of a broker's own thread, and how other threads wait for a broker in a loop that is not its own.

What stops both: threads of gevent and eventlet, which are none.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

from kafka_offsets.clock import monotonic_s
from kafka_offsets.logs import new_logger

if sys.platform == "win32":
    from asyncio import ProactorEventLoop as _AsyncioLoop
else:
    from asyncio import SelectorEventLoop as _AsyncioLoop

STANDSTILL_SECONDS = 30.0
"""The time that a loop which is not the broker's own may run nothing while another thread waits for the broker."""

_SLICES = 30
"""A process that was paused finds that time has passed at its next step, so the time is counted in so many steps."""

T = TypeVar("T")

logger = new_logger(__name__)


class BrokerLoop(_AsyncioLoop):
    """The loop of a broker's own thread: asyncio's, whatever the policy of the process, on the machine's clock.

    freezegun would stop its timers with the time of the test.
    """

    time = staticmethod(monotonic_s)


def result_of(future: "Future[T]", loop: asyncio.AbstractEventLoop) -> T:
    """Wait in another thread for what a broker does in its loop; return the result.

    The loop of an `async with` is the test's, which may block it, or wait in it for this very thread. RuntimeError when
    it stands still for STANDSTILL_SECONDS.
    """
    if isinstance(loop, BrokerLoop):
        return future.result()
    while not future.done():
        beat = threading.Event()
        loop.call_soon_threadsafe(beat.set)
        for _ in range(_SLICES):
            try:
                return future.result(STANDSTILL_SECONDS / _SLICES)
            except TimeoutError:
                if future.done() or beat.is_set():
                    break
        else:
            raise RuntimeError(
                f"the event loop of this broker has stood still for {STANDSTILL_SECONDS:g} s: `async with Broker()` "
                "runs in the loop of the test, which something blocks. Wait there with `await asyncio.to_thread(...)`, "
                "or use `with Broker()`, which has a thread of its own"
            )
    return future.result()


def is_in_asyncio() -> bool:
    """Whether this thread runs a loop with asyncio's interface."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def in_thread(function: Callable[[], T]) -> T:
    """Call a function in another thread, in a coroutine of trio. Cancelling leaves the thread to its end.

    RuntimeError without anyio.
    """
    try:
        from anyio import to_thread
    except ModuleNotFoundError as error:
        raise RuntimeError("outside asyncio a coroutine waits with anyio: pip install anyio") from error
    return await to_thread.run_sync(function, abandon_on_cancel=True)


@cache
def warn_of_green_threads() -> None:
    """Warn once if the broker's thread is not one of the system: then a client in C stops the broker while it waits."""
    if _answers("gevent.monkey", "is_module_patched", "threading"):
        library, advice = "gevent", "gevent.monkey.patch_all(thread=False)"
    elif _answers("eventlet.patcher", "is_monkey_patched", "thread"):
        library, advice = "eventlet", "eventlet.monkey_patch(thread=False)"
    else:
        return
    logger.warning(
        "%s has replaced the threads of this process: a client in C, such as confluent-kafka, stops the broker while "
        "it waits. With %s the broker has a thread of its own",
        library,
        advice,
    )


def _answers(module: str, function: str, about: str) -> bool:
    """Ask a module that may not be loaded."""
    question: Any = getattr(sys.modules.get(module), function, None)
    return question is not None and bool(question(about))
