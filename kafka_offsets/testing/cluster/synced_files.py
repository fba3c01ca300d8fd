"""Synced files: files in memory that know what of them a power failure leaves."""

from typing import Self

from kafka_offsets.storage.files.files import File, MemoryFile, MemoryFiles
from kafka_offsets.storage.files.memory_content import MemoryContent


class _Content(MemoryContent):
    """The bytes of a file; the first `synced` of them are on the disk."""

    __slots__ = ("synced",)

    def __init__(self) -> None:
        super().__init__()
        self.synced = 0

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = super().copy()
        copied.synced = self.synced
        return copied


class _SyncedFile(MemoryFile):
    """A file in memory that notes what has been synced."""

    __slots__ = ()
    _content: _Content

    def truncate(self, size: int) -> None:
        """Remove everything after the first `size` bytes."""
        super().truncate(size)
        self._content.synced = min(self._content.synced, size)

    def sync(self) -> None:
        """Record that every byte appended before this call is on the disk."""
        self._content.synced = self._content.size


class SyncedFiles(MemoryFiles):
    """A tree in memory of which a power failure leaves what was synced.

    Names are durable at once, bytes once their file is synced: a new file that was never synced is left empty.
    """

    def open(self, path: str, create: bool = False) -> File:
        """Open a file for appending and reading; `create` creates a missing one."""
        if create and path not in self._contents:
            super().open(path, create=True)
            self._contents[path] = _Content()
        content = self._content(path, "open")
        assert isinstance(content, _Content)
        return _SyncedFile(path, content)

    def after_power_failure(self) -> Self:
        """Return a copy of what is on the disk."""
        copied = self.copy()
        for content in copied._contents.values():
            assert isinstance(content, _Content)
            content.truncate(content.synced)
        return copied
