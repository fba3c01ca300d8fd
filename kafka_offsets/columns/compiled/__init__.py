"""Compiled loops: numba does in one loop what numpy does in many steps.

numba is optional (the extra `numba`). Its import takes 0.3 s of CPU time, so a process uses it only when it has much to
read. A loop returns what the steps of numpy return that it replaces: tests run both.
"""

import importlib
import warnings
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
    """Use compiled loops in this process from now on; return whether numba can be used.

    Warns if numba is installed and refuses to be imported, as it does for a later numpy than it knows.
    """
    if _chosen is None:
        try:
            use(importlib.import_module(f"{__name__}.loops"))
        except ImportError as error:
            if error.name not in (None, "numba"):
                raise
            if error.name is None:
                warnings.warn(f"compiled loops are not used: {error}", RuntimeWarning, stacklevel=2)
    return _chosen is not None


def use(loops: ModuleType | None) -> None:
    """Use this module of loops from now on; None: the steps of numpy."""
    global _chosen
    _chosen = loops


def chosen() -> ModuleType | None:
    """Return the module of compiled loops if this process uses them."""
    return _chosen
