"""Importing it makes this process lack what Windows lacks, and its files behave as they do there. Before the package.

    python -m pytest -p tests.storage.crash.as_windows tests/storage/log/test_log.py

Modules and functions of POSIX are hidden. No name of an open file is changed, no directory is opened, and what the
storage opens without O_BINARY is refused. Locks are msvcrt's: of ranges, for an open file, never shared. Linux needs a
writable file for such a lock, so readers do share one here. What Windows itself does with files, this does not show.
"""

import asyncio
import errno
import fcntl
import os
import shutil
import struct
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

_FLOCK = "hhqqi4x"  # struct flock of Linux with 64 bits
_BINARY = 1 << 40
_HIDDEN = ("fork", "pread", "pwrite", "fchmod", "writev", "geteuid", "O_CLOEXEC", "O_DIRECTORY")


def _refusal(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def locking(descriptor: int, mode: int, size: int) -> None:
    """Lock bytes from the position of a file on; PermissionError when another open file has one of them."""
    is_writable = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    kind = fcntl.F_WRLCK if is_writable else fcntl.F_RDLCK
    start = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, start, size, 0))
    except BlockingIOError:
        raise _refusal(errno.EACCES, "") from None


def _refuse_open(*names: str) -> None:
    for name in map(os.path.realpath, names):
        for each in os.listdir("/proc/self/fd"):
            try:
                opened = os.readlink(f"/proc/self/fd/{each}")
            except FileNotFoundError:  # closed in the meantime, as the one that listed the folder
                continue
            if opened == name or opened.startswith(f"{name}/"):
                raise _refusal(errno.EACCES, opened)


def _of_closed(original: Callable[..., Any], count: int) -> Callable[..., Any]:
    def change(*arguments: Any, **options: Any) -> Any:
        if not options:  # those with dir_fd are of shutil
            _refuse_open(*map(os.fspath, arguments[:count]))
        return original(*arguments, **options)

    return change


def _is_ours(caller: FrameType) -> bool:
    return str(caller.f_globals["__name__"]).startswith("kafka_offsets.storage")


def _open(original: Callable[..., int]) -> Callable[..., int]:
    def opened(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if not options and os.path.isdir(path):
            raise _refusal(errno.EACCES, path)
        if not options and not flags & _BINARY and _is_ours(sys._getframe(1)):
            raise AssertionError(f"{path} is opened for text")
        return original(path, flags & ~_BINARY, *arguments, **options)

    return opened


def _refuse(*_: Any) -> None:
    raise NotImplementedError


def _become() -> None:
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[name] = None  # type: ignore[assignment]
    sys.modules["msvcrt"] = module = ModuleType("msvcrt")
    module.LK_NBLCK, module.locking = 2, locking  # type: ignore[attr-defined]
    shutil.rmtree = _of_closed(shutil.rmtree, 1)  # type: ignore[assignment]
    for name, count in (("replace", 2), ("rename", 2), ("remove", 1)):
        setattr(os, name, _of_closed(getattr(os, name), count))
    os.O_BINARY = _BINARY
    os.open = _open(os.open)
    for name in _HIDDEN:
        delattr(os, name)
    for name in ("signal_handler", "reader", "writer"):
        setattr(asyncio.SelectorEventLoop, f"add_{name}", _refuse)
        setattr(asyncio.SelectorEventLoop, f"remove_{name}", _refuse)


_become()

if __name__ == "__main__":
    from kafka_offsets import cli

    sys.exit(cli.main(sys.argv[1:]))
