"""Overlay: changes to files are kept in memory, and the files below do not change.

For a dry run of opening, repairing and compacting logs. Batches are never appended to a file below.
"""

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.directory_lock import Lock
from kafka_offsets.storage.files.files import File, Files, MemoryFiles, check_small, join, parent


class OverlayFile(File):
    """A file of the tree below: read there, truncated here."""

    __slots__ = ("_below", "_sizes")

    def __init__(self, path: str, below: File, sizes: dict[str, int]) -> None:
        super().__init__(path, sizes.get(path, below.size))
        self._below = below
        self._sizes = sizes

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Raise StorageError."""
        raise StorageError("opened for a dry run", self.path)

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only where the file ends."""
        return self._below.read(position, max(min(size, self.size - position), 0))

    def truncate(self, size: int) -> None:
        """Make the file appear shorter from now on."""
        self.size = self._sizes[self.path] = size

    def sync(self) -> None:
        """Do nothing: nothing was written."""

    def close(self) -> None:
        """Close the file below."""
        self._below.close()


class OverlayFiles(Files):
    """A tree of files over another one; it hides what was changed.

    below  is only read, and locked
    Memory: the written bytes.
    """

    outlives_process = False

    def __init__(self, below: Files) -> None:
        self.root = below.root
        self._below = below
        self._above = MemoryFiles()
        self._moved: dict[str, str] = {}  # path -> its place below
        self._gone: set[str] = set()
        self._sizes: dict[str, int] = {}

    def _path_below(self, path: str) -> str | None:
        """Return the place of a file or directory below, None when it is not there."""
        if path in self._moved:
            return self._moved[path]
        if path in self._gone:
            return None
        directory, _, name = path.rpartition("/")
        within = self._path_below(directory) if directory else ""  # it may have moved with its directory
        if within is None or not self._below.exists(join(within, name)):
            return None
        return join(within, name)

    def _prepare(self, path: str) -> None:
        """Create the directory of `path` in memory, if it exists at all."""
        directory = parent(path)
        if not self.is_directory(directory):
            raise StorageError("no such directory", directory)
        self._above.make_directory(directory)

    def open(self, path: str, create: bool = False) -> File:
        """Open a file for reading, or one that was created here."""
        if self._above.exists(path):
            return self._above.open(path)
        path_below = self._path_below(path)
        if path_below is not None:
            return OverlayFile(path, self._below.open(path_below), self._sizes)
        if not create:
            raise StorageError("cannot open: no such file", path)
        self._prepare(path)
        return self._above.open(path, create=True)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of that name exists."""
        return self._above.exists(path) or self._path_below(path) is not None

    def is_directory(self, path: str) -> bool:
        """Return whether a directory of that name exists."""
        path_below = self._path_below(path)
        return self._above.is_directory(path) or (
            path_below is not None and self._below.is_directory(path_below)
        )

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        if not self.is_directory(path):
            raise StorageError("cannot list: no such directory", path)
        names = set(self._above.list_directory(path)) if self._above.is_directory(path) else set()
        path_below = self._path_below(path)
        if path_below is not None and self._below.is_directory(path_below):
            names |= {
                name for name in self._below.list_directory(path_below) if join(path, name) not in self._gone
            }
        names |= {moved.rpartition("/")[2] for moved in self._moved if parent(moved) == path}
        return sorted(names)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; an existing one is not changed."""
        if not self.is_directory(path):
            self._above.make_directory(path)

    def remove(self, path: str) -> None:
        """Hide a file."""
        if not self.exists(path):
            raise StorageError("cannot remove: no such file", path)
        if self._above.exists(path):
            self._above.remove(path)
        self._moved.pop(path, None)
        self._sizes.pop(path, None)
        self._gone.add(path)

    def remove_tree(self, path: str) -> None:
        """Hide a directory and its content."""
        for name in self.list_directory(path):
            below = join(path, name)
            if self.is_directory(below):
                self.remove_tree(below)
            else:
                self.remove(below)
        if self._above.is_directory(path):
            self._above.remove_tree(path)
        self._moved.pop(path, None)
        self._gone.add(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, or a directory whose content was not changed."""
        self._prepare(target)
        if self._above.exists(source) and not self._above.is_directory(source):
            self._above.rename(source, target)
            self._moved.pop(target, None)
        else:
            path_below = self._path_below(source)
            if path_below is None:
                raise StorageError("cannot rename: no such file", source)
            if self._above.exists(target):
                self._above.remove(target)
            self._moved.pop(source, None)
            self._moved[target] = path_below
            self._sizes.pop(target, None)
            if source in self._sizes:
                self._sizes[target] = self._sizes.pop(source)
        self._gone.add(source)

    def sync_directory(self, path: str) -> None:
        """Do nothing: nothing was written."""

    def read_all(self, path: str) -> bytes:
        """Return the whole content of a small file."""
        file = self.open(path)
        try:
            check_small(path, file.size)
            return file.read(0, file.size)
        finally:
            file.close()

    def lock(self, path: str) -> Lock:
        """Take the lock below."""
        return self._below.lock(path)
