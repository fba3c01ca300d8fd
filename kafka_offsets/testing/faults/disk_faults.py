"""Disk faults: a disk that is full, slow or broken, for a broker in memory or with a data directory.

Such faults replace methods of the broker's `Files` object, and its logs reopen their files with them. When the faults
end, the object has its own methods again: without faults there is no layer between a broker and its files.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.files import File, Files
from kafka_offsets.testing.faults.fault import Fault, Owner
from kafka_offsets.testing.faults.observers import is_observing

_OF_FILES = (
    "open", "list_directory", "make_directory", "remove", "remove_tree", "rename", "sync_directory", "read_all"
)  # fmt: skip
_OF_A_FILE = ("append", "read", "truncate", "sync")
OPERATIONS = (*_OF_A_FILE, *_OF_FILES)


class DiskFault(Fault):
    """A fault of the disk.

    operation   of OPERATIONS; "append" for a full disk
    free_bytes  bytes that a full disk still accepts
    """

    def __init__(
        self,
        owner: Owner,
        kind: str,
        operation: str,
        *,
        path: str = "",
        n: int | None = None,
        ms: int = 0,
        free_bytes: int | None = None,
        node: int | None = None,
    ) -> None:
        if operation not in OPERATIONS:
            raise ValueError(f"{operation!r} is no operation on files; these are: {', '.join(OPERATIONS)}")
        description = f"{operation} takes {ms} ms" if ms else operation
        description = f"{description} {path}".rstrip()
        super().__init__(owner, kind, frozenset(), description=description, n=n, node=node)
        self.operation, self.path, self.ms, self.free_bytes = operation, path, ms, free_bytes
        self._counting = threading.Lock()

    def strike(self) -> bool:
        """Count a hit, in any thread; False if it is already over."""
        with self._counting:
            if not self.is_active:
                return False
            self._count()
            if self.n is not None and self.hits >= self.n:
                self.end()
        return True

    def check(self, operation: str, path: str, size: int = 0) -> int:
        """Delay or refuse an operation; return how many of the `size` bytes the disk accepts.

        Raises a StorageError like that of the operating system.
        """
        if operation != self.operation or not path.startswith(self.path) or not self.is_active:
            return size
        if self.free_bytes is not None:
            if size <= self.free_bytes:
                self.free_bytes -= size
                return size
            taken, self.free_bytes = self.free_bytes, 0
            self.strike()
            return taken
        if self.strike():
            if not self.ms:
                raise refused(errno.EIO, operation, path)
            time.sleep(self.ms / 1000)
        return size


class InjectedError(StorageError):
    """A StorageError that a test has injected."""


def refused(number: int, operation: str, path: str) -> StorageError:
    """Return the error that files on a real disk raise."""
    error = InjectedError(f"cannot {operation.replace('_', ' ')}: {os.strerror(number)}", path or ".")
    error.__cause__ = OSError(number, os.strerror(number))
    return error


class DiskFaults:
    """The disk of one broker."""

    def __init__(self) -> None:
        self._faults: list[DiskFault] = []

    def install(self, core: BrokerCore, faults: Sequence[DiskFault]) -> None:
        """Replace the faults in force, in the broker's thread."""
        self._faults = list(faults)
        files = core.directory.files
        for name in _OF_FILES:
            vars(files).pop(name, None)
        if faults:
            for name in _OF_FILES:
                setattr(files, name, self._checked(files, name, getattr(files, name)))
        for log in core.directory.logs.values():
            for segment in log.segments:
                segment.close()  # it is opened when it is next used

    def check(self, operation: str, path: str, size: int = 0) -> int:
        """Check every fault; return how many of the `size` bytes the disk accepts. Raises StorageError."""
        faults = () if is_observing() else self._faults
        return min((fault.check(operation, path, size) for fault in faults), default=size)

    def _checked(self, files: Files, name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def operation(path: str, *arguments: Any, **named: Any) -> Any:
            self.check(name, path)
            done = own(path, *arguments, **named)
            return _FaultyFile(self, done) if isinstance(done, File) else done

        return operation


class _FaultyFile(File):
    """A file whose operations may fail."""

    __slots__ = ("_disk", "_inner")

    def __init__(self, disk: DiskFaults, inner: File) -> None:
        super().__init__(inner.path, inner.size)
        self._disk, self._inner = disk, inner

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write the bytes that the disk accepts; StorageError if these are not all."""
        taken = self._disk.check("append", self.path, len(data))
        self._inner.size = self.size
        self._inner.append(memoryview(data)[:taken])
        if taken < len(data):
            self._inner.size = self.size
            raise refused(errno.ENOSPC, "append", self.path)
        self.size = self._inner.size

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`."""
        self._disk.check("read", self.path)
        return self._inner.read(position, size)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        self._disk.check("truncate", self.path)
        self._inner.truncate(size)
        self.size = size

    def sync(self) -> None:
        """Return when every byte is on the disk."""
        self._disk.check("sync", self.path)
        self._inner.sync()

    def close(self) -> None:
        """Give the file back to the system."""
        self._inner.close()
