"""Having the C library keep what it is given back."""

from functools import cache


@cache
def keep_freed_memory(largest: int) -> None:
    """Have blocks of up to `largest` bytes taken from the heap, and what is freed of it kept for the next ones.

    glibc takes larger ones from the kernel and returns them, page by page, each time, and gives the end of its heap
    back when that is larger than twice the largest block that it has unmapped so far, 128 KiB at first: an answer of a
    mebibyte then pays for 256 new pages, more than for being read and sent. It learns from a block that comes and
    goes; this one is never touched, and costs nothing. It is so for the whole process from then on, which may keep
    twice `largest` of what it has freed. Other C libraries are not affected. Above 32 MiB it has no effect
    (DEFAULT_MMAP_THRESHOLD_MAX).
    """
    bytearray(largest)
