"""Memory: the C library keeps freed memory for reuse, and garbage collection skips the objects of modules."""

import gc
import sys
from functools import cache

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
