"""Memory: how much a process may have, what the C library keeps for reuse, and what garbage collection skips."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath

_module_count = 0


@cache
def keep_freed_memory(largest: int) -> None:
    """Make the C library allocate blocks of up to `largest` bytes from its heap, and keep freed memory for reuse.

    glibc allocates larger blocks from the kernel and returns them each time. It also returns the end of its heap when
    that is larger than twice the largest block unmapped so far, 128 KiB at first. So an answer of 1 MiB needs 256 new
    pages, which costs more than reading and sending it. glibc raises its threshold when a large block is freed: this
    function allocates and frees one, which is never touched and costs nothing. The effect is process-wide: the process
    may keep twice `largest` bytes of freed memory. Other C libraries are not affected. Above 32 MiB
    (DEFAULT_MMAP_THRESHOLD_MAX) there is no effect.
    """
    bytearray(largest)


def freeze_modules() -> None:
    """Exclude the objects of modules from garbage collection, if modules were imported since the last call.

    A worker of PySpark collects garbage after each task, and visits the objects of all its modules. The effect is
    process-wide: frozen objects are freed when nothing refers to them, but not as a part of a cycle. So garbage is
    collected first.
    """
    global _module_count
    if len(sys.modules) > _module_count:
        _module_count = len(sys.modules)
        gc.collect()
        gc.freeze()


def machine_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory of the machine, or of the control group of this process if that has less; None if unknown.

    root  where /proc and /sys are
    """
    limits = [*_physical_bytes(), *_control_group_bytes(root)]
    return min(limits, default=None)


def _physical_bytes() -> Iterator[int]:
    if sys.platform == "win32":
        import ctypes

        status = (ctypes.c_uint64 * 8)(64)  # MEMORYSTATUSEX: its own size, then the physical memory
        if ctypes.windll.kernel32.GlobalMemoryStatusEx(status):
            yield status[1]
    else:
        with suppress(ValueError, OSError):  # a name that this system does not have
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _control_group_bytes(root: Path) -> Iterator[int]:
    """Yield the limits of the control groups that this process is in, of both versions, outer ones included.

    A container may see its own group as the outermost one, whatever the path of the process says.
    Source: Linux, Documentation/admin-guide/cgroup-v2.rst (memory.max) and cgroup-v1/memory.rst.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            mount, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        for group_path in (group, *group.parents):
            with suppress(OSError, ValueError):  # there is none, or it is "max"
                yield int((mount / group_path / name).read_text(encoding="ascii"))
