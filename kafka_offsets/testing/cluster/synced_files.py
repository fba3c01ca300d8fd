"""Synced files: files in memory that know what of them a power failure leaves."""

from kafka_offsets.storage.files import File, MemoryFile, MemoryFiles


class _Content(bytearray):
    """The bytes of a file; the first `synced` of them are on the disk."""

    synced = 0


class _SyncedFile(MemoryFile):
    """A file in memory that notes what has been synced."""

    __slots__ = ()
    _content: _Content

    def truncate(self, size: int) -> None:
        """Remove everything after the first `size` bytes."""
        super().truncate(size)
        self._content.synced = min(self._content.synced, size)

    def sync(self) -> None:
        """Note that every byte appended before this call is on the disk."""
        self._content.synced = len(self._content)


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

    def copy(self) -> "SyncedFiles":
        """Return an independent copy of the tree, without locks."""
        copied = SyncedFiles()
        copied._directories = {path: set(names) for path, names in self._directories.items()}
        for path, content in self._contents.items():
            assert isinstance(content, _Content)
            copied._contents[path] = kept = _Content(content)
            kept.synced = content.synced
        return copied

    def after_power_failure(self) -> "SyncedFiles":
        """Return a copy of what is on the disk."""
        copied = self.copy()
        for content in copied._contents.values():
            assert isinstance(content, _Content)
            del content[content.synced :]
        return copied
