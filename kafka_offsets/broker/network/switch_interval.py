"""Work in the background of a thread that clients wait for: that one gets the interpreter back soon.

A thread that computes keeps the interpreter for CPython's switch interval, 5 ms, from one that has just been to the
system, as the one that serves is several times for each request. While there is such work the interval is shorter, in
the whole process.
"""

import sys
import threading
from collections.abc import Callable

INTERVAL_S = 0.0005

_lock = threading.Lock()
_at_work = 0
_usual_s = 0.0


def switch_interval(work: Callable[[], None]) -> None:
    """Carry out `work`, giving way to other threads after half a millisecond. Raises what it raises."""
    global _at_work, _usual_s
    with _lock:
        if not _at_work:
            _usual_s = sys.getswitchinterval()
            sys.setswitchinterval(min(_usual_s, INTERVAL_S))
        _at_work += 1
    try:
        work()
    finally:
        with _lock:
            _at_work -= 1
            if not _at_work:
                sys.setswitchinterval(_usual_s)
