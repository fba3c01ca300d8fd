"""What the system offers for files; Windows lacks some calls, and this module has what stands in for them there.

    POSIX                    Windows
    pread, pwrite            a seek before the read or write, with a lock for each file: threads share its position
    flock, and fcntl locks   msvcrt locks of ranges: a broker locks bytes 0 to 63 of the file, a reader one of them
    fsync of a directory     nothing: Windows syncs no directories, and NTFS has a journal of names
    mode 0600                nothing: new files have the access rights of their directory
    RLIMIT_NOFILE            8192, the limit of its C library

Both kinds of locks exclude Kafka's: Java's is an fcntl lock, or one of all bytes. Kafka syncs no directory on Windows
either. Source: Utils.flushDir of Kafka 4.3.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

try:
    import fcntl
    import resource
except ModuleNotFoundError:
    import msvcrt

    _IS_POSIX: bool = False
else:
    _IS_POSIX = True

OPEN_FLAGS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""For each open: no child inherits the file. On Windows a file is one of text unless a flag says otherwise."""

_DIRECTORY: int | None = getattr(os, "O_DIRECTORY", None)
_MOST_FILES = 8192
_READERS = 64
_positions = [Lock() for _ in range(64)]


def _seek_and_read(descriptor: int, size: int, position: int) -> bytes:
    with _positions[descriptor % len(_positions)]:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.read(descriptor, size)


def _seek_and_write(descriptor: int, data: bytes | bytearray | memoryview, position: int) -> int:
    with _positions[descriptor % len(_positions)]:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.write(descriptor, data)


pread: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)
pwrite: Callable[[int, bytes | bytearray | memoryview, int], int] = getattr(os, "pwrite", _seek_and_write)


def absolute(root: str, path: str) -> str:
    r"""Return the name by which the system opens a path below an absolute root.

    With `\\?\` Windows takes names of more than 260 characters, and none such as `aux.orders-0` for a device.
    """
    if os.name != "nt":
        return f"{root}/{path}" if path else root
    name = f"{root}/{path}".replace("/", "\\").rstrip("\\")
    return name if name.startswith("\\\\") else f"\\\\?\\{name}"


def lock_file(descriptor: int, *, is_shared: bool) -> None:
    """Lock an open file, for other readers too if `is_shared`, or raise BlockingIOError or PermissionError at once."""
    if _IS_POSIX:
        kind = (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        fcntl.flock(descriptor, kind)
        fcntl.lockf(descriptor, kind)
    elif is_shared:
        _lock_any(descriptor)
    else:
        _lock_range(descriptor, 0, _READERS)


def _lock_any(descriptor: int) -> None:
    for position in range(_READERS - 1):
        with suppress(PermissionError):  # of another reader, or of a broker, which has them all
            return _lock_range(descriptor, position, 1)
    return _lock_range(descriptor, _READERS - 1, 1)


def _lock_range(descriptor: int, position: int, size: int) -> None:
    os.lseek(descriptor, position, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, size)  # type: ignore[attr-defined]
    except OSError as error:
        if error.errno in (errno.EBADF, errno.EINVAL):  # a file system without locks
            raise
        # EACCES; Wine does not set errno, so there it is that of an earlier call.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from error


def keep_private(descriptor: int, mode: int) -> None:
    """Give an open file the mode of its owner's files."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)


def sync_directory(name: str) -> None:
    """Return when the names in a directory are on the disk, as far as the system can tell. Raises OSError."""
    if _DIRECTORY is None:
        if not os.path.isdir(name):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return
    descriptor = os.open(name, os.O_RDONLY | _DIRECTORY | OPEN_FLAGS)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def most_files() -> int:
    """Return how many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] if _IS_POSIX else _MOST_FILES
