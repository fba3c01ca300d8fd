"""Observers: what reads logs for a test, a report or a page, and is no client. No fault of the disk strikes it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Thread(threading.local):
    """What runs in this thread. A variable of a context would be that of each call left to the loop meanwhile, too."""

    observes = False


_THREAD = _Thread()


@contextmanager
def observing(*, is_observer: bool = True) -> Iterator[None]:
    """Read as an observer, in this thread: a fault that strikes once is left to the client that the test means."""
    before, _THREAD.observes = _THREAD.observes, is_observer
    try:
        yield
    finally:
        _THREAD.observes = before


def is_observing() -> bool:
    """Whether what runs now in this thread is an observer."""
    return _THREAD.observes
