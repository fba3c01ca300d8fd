"""Observers: what reads logs for a test, a report or a page, and is no client. No fault of the disk strikes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_OBSERVES = ContextVar("observes", default=False)


@contextmanager
def observing(*, is_observer: bool = True) -> Iterator[None]:
    """Read as an observer, in this thread: a fault that strikes once is left to the client that the test means."""
    token = _OBSERVES.set(is_observer)
    try:
        yield
    finally:
        _OBSERVES.reset(token)


def is_observing() -> bool:
    """Whether what runs now in this thread is an observer."""
    return _OBSERVES.get()
