"""Files in memory that refuse a call, or at which the process dies."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files import files, system
from kafka_offsets.storage.files.files import File, MemoryFiles


def replace_os(patch: pytest.MonkeyPatch, replacement: Any) -> None:
    """Have files on disk call a replacement of the module `os`."""
    for module in (files, system):
        patch.setattr(module, "os", replacement)
    for name in ("pread", "pwrite"):
        patch.setattr(files, name, getattr(replacement, name))


class Crash(BaseException):
    """The process is gone: nothing that runs after this may change a file."""


class FaultyFiles(MemoryFiles):
    """Counts the calls that a system may refuse; call number `fail_at` fails, and later ones while `stuck`.

    crash  raise Crash there and at every later call, instead of one StorageError
    A failing append leaves half of its bytes in the file.
    """

    def __init__(self, *, fail_at: int = 0, stuck: bool = False, crash: bool = False) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.fail_at = fail_at
        self.stuck = stuck
        self.crash = crash
        self.failed = False
        self.only: Callable[[str, str], bool] = lambda operation, path: True

    def check(self, operation: str, path: str) -> None:
        if not self.only(operation, path):
            return
        self.calls.append(f"{operation} {path}")
        here = len(self.calls) == self.fail_at
        if here or (self.failed and (self.stuck or self.crash)):
            self.failed = True
            if self.crash:
                raise Crash
            raise StorageError(f"injected: cannot {operation}", path) from OSError(errno.EIO, "injected")

    def open(self, path: str, create: bool = False) -> File:
        self.check("open", path)
        return FaultyFile(self, super().open(path, create))

    def list_directory(self, path: str) -> list[str]:
        self.check("list", path)
        return super().list_directory(path)

    def make_directory(self, path: str) -> None:
        self.check("make", path)
        super().make_directory(path)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        super().remove(path)

    def remove_tree(self, path: str) -> None:
        self.check("remove_tree", path)
        super().remove_tree(path)

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)
        super().sync_directory(path)

    def read_all(self, path: str) -> bytes:
        self.check("read_all", path)
        return super().read_all(path)

    def survivors(self) -> MemoryFiles:
        """What a new process finds: the same bytes, and no locks."""
        return MemoryFiles.copy_of(self)


class FaultyFile(File):
    __slots__ = ("_files", "_inner")

    def __init__(self, files: FaultyFiles, inner: File) -> None:
        super().__init__(inner.path, inner.size)
        self._files = files
        self._inner = inner

    def append(self, data: Any) -> None:
        self._inner.size = self.size
        try:
            self._files.check("append", self.path)
        except (StorageError, Crash):
            if len(self._files.calls) == self._files.fail_at:
                self._inner.append(bytes(data[: len(data) // 2]))
            raise
        self._inner.append(data)
        self.size = self._inner.size

    def read(self, position: int, size: int) -> bytes:
        self._files.check("read", self.path)
        return self._inner.read(position, size)

    def truncate(self, size: int) -> None:
        self._files.check("truncate", self.path)
        self._inner.truncate(size)
        self.size = size

    def sync(self) -> None:
        self._files.check("sync", self.path)

    def close(self) -> None:
        self._inner.close()
