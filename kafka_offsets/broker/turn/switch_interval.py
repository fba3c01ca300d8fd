"""Switch interval: lets the serving thread get the interpreter back quickly from background threads.

The serving thread releases the interpreter several times per request, at each system call. A computing thread then
keeps it for CPython's switch interval, 5 ms. While there is such work, the interval is shorter in the whole process.
"""

import sys
import threading
from collections.abc import Callable

INTERVAL_S = 0.0005

_lock = threading.Lock()
_at_work = 0
_usual_s = 0.0


def switch_interval(work: Callable[[], None]) -> None:
    """Run `work`, switching to other threads after half a millisecond. Raises what it raises."""
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
