"""Compiled loops: numba does in one loop what numpy does in many steps.

numba is optional (the extra `numba`). Its import takes 0.3 s of CPU time, so a process uses it only when it has much to
read. A loop returns what the steps of numpy return that it replaces: tests run both.
"""

import importlib
from types import ModuleType

LEAST_BYTES = 128 << 20
"""Reading so many bytes in steps of numpy takes about as long as the import of numba."""

_announced = 0
_chosen: ModuleType | None = None


def announce(size: int) -> None:
    """Announce that so many bytes will be read. The first announcements of small logs have no effect."""
    global _announced
    _announced += size
    if _announced >= LEAST_BYTES > _announced - size:
        load()


def load() -> bool:
    """Use compiled loops in this process from now on; return whether numba is installed."""
    if _chosen is None:
        try:
            use(importlib.import_module(f"{__name__}.loops"))
        except ModuleNotFoundError as error:
            if error.name != "numba":
                raise
    return _chosen is not None


def use(loops: ModuleType | None) -> None:
    """Use this module of loops from now on; None: the steps of numpy."""
    global _chosen
    _chosen = loops


def chosen() -> ModuleType | None:
    """Return the module of compiled loops if this process uses them."""
    return _chosen
