"""`--with-parent`: a server that ends when the program that started it has ended, however that came."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from kafka_offsets.errors import ConfigError

STDIN = "stdin"
"""In place of a process id: the parent lives until the end of standard input."""

_LOOK_SECONDS = 0.2
"""How often a system that reports no end of a process is asked for it."""


def end_with(parent: str) -> None:
    """Send SIGTERM to this process when its parent has ended.

    parent  a process id, or `STDIN`
    Raises ConfigError if there is no such process, or no way to wait for it.
    """
    wait = _end_of_input if parent == STDIN else _end_of(int(parent))

    def watch() -> None:
        wait()
        signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=watch, name="kafka-offsets-parent", daemon=True).start()


def _end_of_input() -> None:
    if sys.stdin is None:  # closed before the start
        return
    # Not by its buffer: the interpreter could not finalize it while this thread reads.
    while os.read(sys.stdin.fileno(), 1 << 12):
        pass


def _end_of(process_id: int) -> Callable[[], None]:
    """Return a function that waits for the end of a process. Raises ConfigError."""
    if os.name == "nt":  # where os.kill(…, 0) is Ctrl-C
        raise ConfigError(
            f"--with-parent {process_id}: Windows has no such ids; --with-parent {STDIN} works there"
        )
    # Of Linux: it names this very process, also when its id is given to another one.
    open_process = getattr(os, "pidfd_open", None)
    if open_process is not None:
        # A kernel may be too old for it, and a sandbox refuse it; `_is_there` tells of a process that is gone.
        with suppress(OSError):
            descriptor = open_process(process_id)
            return lambda: _until_readable(descriptor)
    if not _is_there(process_id):
        raise ConfigError(f"--with-parent {process_id}: there is no such process")
    return lambda: _until_gone(process_id)


def _until_readable(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll()


def _until_gone(process_id: int) -> None:
    while _is_there(process_id):
        time.sleep(_LOOK_SECONDS)


def _is_there(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True
