"""Waiting for a condition with a deadline, and words for what failed to happen."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PAUSE_S = 0.01
DEADLINE_S = 300.0
"""Shorter than what pytest gives a test, so that these words are read; far longer than a busy machine needs."""


def until(condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Ask until the answer is true and return it; fail with `what` when the deadline passes."""
    deadline = time.monotonic() + deadline_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s:g} s: {what}; last answer: {answer!r}")
        time.sleep(PAUSE_S)
