"""How slow a machine is now: limits of CPU time are those of a fast one that does nothing else."""

import time

_FAST_S = 0.005
"""CPU time of the work below on a machine of the year 2025, with Python 3.11."""
_SAMPLES = 9


def slowness() -> float:
    """Return how many times the CPU time of a fast machine work takes here and now, beside other processes; at least 1.

    Who shares a processor's caches and memory takes more CPU time too, not only more time.
    """
    return max(1.0, sorted(_work_s() for _ in range(_SAMPLES))[_SAMPLES // 2] / _FAST_S)


def _work_s() -> float:
    """Return the CPU time of filling a dict and walking through it."""
    began = time.thread_time()
    assert sum(map(len, {f"k{number}": number for number in range(20_000)})) == 108_890
    return time.thread_time() - began
