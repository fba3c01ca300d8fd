"""The file operations that the broker uses: the disk's, and the same ones in memory.

Every stored byte passes here, so that a test can refuse the n-th call, cut a write short or build the state that
a crash leaves, by passing another :class:`Files` to the same code. This module does not know the contents of
the files.

Paths are relative POSIX strings below one root directory ("" is the root itself). Every refusal of the
operating system is a :class:`StorageError` that names the path.
"""

import errno
import os
import shutil
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Self

from kafka_offsets.errors import StorageError, UnreadableError
from kafka_offsets.storage.files.descriptors import Descriptors
from kafka_offsets.storage.files.directory_lock import DiskLock, Lock, locked, not_lockable, take_lock
from kafka_offsets.storage.files.memory_content import MemoryContent
from kafka_offsets.storage.files.system import (
    OPEN_FLAGS,
    absolute,
    keep_private,
    pread,
    pwrite,
    sync_directory,
)

TEMPORARY_SUFFIX = ".tmp"
_PRIVATE = 0o600
SMALL_FILE_BYTES = 64 << 20
"""The largest file that is read in one piece: enough for checkpoints of two million partitions."""


class File(ABC):
    """One open file, written only at its end.

    path  relative to the root of its :class:`Files`
    size  bytes appended so far, in memory: reading it costs no call to the system
    """

    __slots__ = ("path", "size")

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.size = size

    @abstractmethod
    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write `data` at the end.

        Raises StorageError when the disk took less than all of it. `size` is then unchanged, but some of the bytes may
        be after it in the file: call `truncate(size)` before any other append.
        """

    @abstractmethod
    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only where the file ends."""

    def view(self, position: int, size: int) -> bytes | memoryview:
        """Return what `read` does; where the bytes are in memory, a view of them, which later calls do not change."""
        return self.read(position, size)

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Remove everything after the first `size` bytes."""

    @abstractmethod
    def sync(self) -> None:
        """Return when every byte appended before this call is on the disk. May run in another thread.

        A failure is final: the system may have dropped the bytes that it could not write, and a second call would
        succeed without them. The caller must not treat the file as durable again before it has closed, opened and
        verified it. A file that was removed in the meantime is such a failure as well.
        """

    @property
    def is_removed(self) -> bool:
        """Whether the file has been removed: no start will find it. Raises StorageError."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Close the file; a second call does nothing."""


class Files(ABC):
    """A tree of directories and files.

    root              the name of the tree in messages: its absolute path, or "memory"
    outlives_process  whether another process can read the files later
    parallel_syncs    how many threads may wait for syncs at a time
    descriptors       which logs hold descriptors; None where files need none
    """

    root: str
    outlives_process = True
    parallel_syncs = 1
    descriptors: Descriptors | None = None

    @abstractmethod
    def open(self, path: str, create: bool = False) -> File:
        """Open a file for appending and reading; `create` creates a missing one."""

    def open_private(self, path: str) -> File:
        """Open a file, created if missing, that only its owner may read; an existing file gets that mode."""
        return self.open(path, create=True)

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether a file or directory of that name exists."""

    @abstractmethod
    def is_directory(self, path: str) -> bool:
        """Return whether a directory of that name exists."""

    @abstractmethod
    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; StorageError when there is no such directory."""

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, up to the root; an existing one is not changed."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file; StorageError when it does not exist."""

    @abstractmethod
    def remove_tree(self, path: str) -> None:
        """Remove a directory and its content; StorageError when it does not exist."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory atomically; a file of the new name is replaced."""

    @abstractmethod
    def sync_directory(self, path: str) -> None:
        """Return when the names in a directory (files made, renamed, removed) are on the disk."""

    @abstractmethod
    def read_all(self, path: str) -> bytes:
        """Return the whole content of a small file; StorageError for one of more than SMALL_FILE_BYTES.

        So a large file of another program, or a damaged one, is refused without reading it into memory.
        """

    def read_large(self, path: str) -> bytes:
        """Return the whole content of a file, however large it is."""
        file = self.open(path)
        try:
            return file.read(0, file.size)
        finally:
            file.close()

    def holds(self, path: str, content: bytes) -> bool:
        """Return whether a file exists and has this content; one of another size is not read."""
        if not self.exists(path):
            return False
        file = self.open(path)
        try:
            return file.size == len(content) and file.read(0, file.size) == content
        finally:
            file.close()

    @abstractmethod
    def lock(self, path: str) -> Lock:
        """Take the lock of the file `path`, or raise StorageError at once if another process holds it."""

    def replace_atomically(self, path: str, data: bytes, *, sync: bool = True, private: bool = False) -> None:
        """Replace the content of a file; a crash leaves the old or the new content, never a mixture.

        sync     False for content that can be rebuilt from other files: it may be torn after a power failure, but not
                 when only the process dies
        private  only the owner may read it
        The temporary file beside it has the same name and `.tmp`; readers of a directory skip or remove those.
        """
        temporary = path + TEMPORARY_SUFFIX
        try:
            file = self.open_private(temporary) if private else self.open(temporary, create=True)
            try:
                if file.size:
                    file.truncate(0)  # left by a crash
                file.append(data)
                if sync:
                    file.sync()
            finally:
                file.close()
            self.rename(temporary, path)
        except StorageError:
            with suppress(StorageError):  # the first failure is the one to report
                self.remove(temporary)
            raise
        if sync:
            self.sync_directory(parent(path))


def parent(path: str) -> str:
    """Return the directory of a relative path, "" for the root."""
    return path.rpartition("/")[0]


def join(directory: str, name: str) -> str:
    """Return the path of `name` in `directory`, which may be the root ""."""
    return f"{directory}/{name}" if directory else name


def check_small(path: str, size: int) -> None:
    """Raise StorageError, with the position, for a file that is too large to be read in one piece."""
    if size > SMALL_FILE_BYTES:
        raise StorageError(
            f"the file has {size} bytes, at most {SMALL_FILE_BYTES} are possible", path, SMALL_FILE_BYTES
        )


_READS = ("open", "read", "list")


def _refused(error: OSError, action: str, path: str) -> StorageError:
    is_forbidden = isinstance(error, PermissionError) and action in _READS
    kind = UnreadableError if is_forbidden else StorageError
    return kind(f"cannot {action}: {error.strerror or error}", path or ".")


class DiskFile(File):
    """A file on disk, with one file descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str, size: int, descriptor: int) -> None:
        super().__init__(path, size)
        self._descriptor = descriptor

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write `data` at the end; see :meth:`File.append`."""
        size = self.size
        try:
            written = pwrite(self._descriptor, data, size)
            while written < len(data):  # a full disk takes a part, and gives the reason on the next call
                more = pwrite(self._descriptor, memoryview(data)[written:], size + written)
                if not more:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                written += more
        except OSError as error:
            raise _refused(error, "append", self.path) from error
        self.size = size + written

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only where the file ends."""
        try:
            data = pread(self._descriptor, size, position)
            while len(data) < size and position + len(data) < self.size:
                more = pread(self._descriptor, size - len(data), position + len(data))
                if not more:
                    raise StorageError(
                        f"the file ends here, {self.size} bytes were there before",
                        self.path,
                        position + len(data),
                    )
                data += more
        except OSError as error:
            raise _refused(error, "read", self.path) from error
        return data

    def truncate(self, size: int) -> None:
        """Remove everything after the first `size` bytes."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise _refused(error, f"truncate to {size} bytes", self.path) from error
        self.size = size

    def sync(self) -> None:
        """Return when every byte appended before this call is on the disk; see :meth:`File.sync`."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise _refused(error, "sync", self.path) from error
        if self.is_removed:
            raise StorageError("cannot sync: the file was removed", self.path)

    @property
    def is_removed(self) -> bool:
        """Whether the file has been removed: no start will find it."""
        try:
            return os.fstat(self._descriptor).st_nlink == 0
        except OSError as error:
            raise _refused(error, "examine", self.path) from error

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            os.close(descriptor)
        except OSError as error:
            raise _refused(error, "close", self.path) from error


class DiskFiles(Files):
    """The files below one directory of the machine. Creating the object changes nothing on the disk."""

    parallel_syncs = 8

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.abspath(os.fspath(root))
        self.descriptors = Descriptors()

    def _absolute(self, path: str) -> str:
        return absolute(self.root, path)

    def open(self, path: str, create: bool = False) -> File:
        """Open a file for appending and reading; `create` creates a missing one."""
        return self._open(path, os.O_CREAT if create else 0, 0o644)

    def open_private(self, path: str) -> File:
        """Open a file, created if missing, that only its owner may read; an existing file gets that mode."""
        return self._open(path, os.O_CREAT, _PRIVATE)

    def _open(self, path: str, flags: int, mode: int) -> File:
        try:
            descriptor = os.open(self._absolute(path), os.O_RDWR | OPEN_FLAGS | flags, mode)
        except OSError as error:
            raise _refused(error, "open", path) from error
        try:
            if mode == _PRIVATE:
                keep_private(descriptor, mode)
            return DiskFile(path, os.fstat(descriptor).st_size, descriptor)
        except OSError as error:
            os.close(descriptor)
            raise _refused(error, "open", path) from error

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of that name exists."""
        return os.path.lexists(self._absolute(path))

    def is_directory(self, path: str) -> bool:
        """Return whether a directory of that name exists."""
        return os.path.isdir(self._absolute(path))

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        try:
            return sorted(os.listdir(self._absolute(path)))
        except OSError as error:
            raise _refused(error, "list", path) from error

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; an existing one is not changed."""
        try:
            if path and not os.path.isdir(
                self.root
            ):  # removed: a new directory would lack everything that was in it
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            os.makedirs(self._absolute(path), exist_ok=True)
        except OSError as error:
            if path:
                raise _refused(error, "make the directory", path) from error
            raise _no_root(error, self.root) from error

    def remove(self, path: str) -> None:
        """Remove a file."""
        try:
            os.remove(self._absolute(path))
        except OSError as error:
            raise _refused(error, "remove", path) from error

    def remove_tree(self, path: str) -> None:
        """Remove a directory and its content."""
        try:
            shutil.rmtree(self._absolute(path))
        except OSError as error:
            raise _refused(error, "remove", path) from error

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory atomically; a file of the new name is replaced."""
        try:
            os.replace(self._absolute(source), self._absolute(target))
        except OSError as error:
            raise _refused(error, f"rename to {target}", source) from error

    def sync_directory(self, path: str) -> None:
        """Return when the names in a directory are on the disk."""
        try:
            sync_directory(self._absolute(path))
        except OSError as error:
            raise _refused(error, "sync the directory", path) from error

    def read_all(self, path: str) -> bytes:
        """Return the whole content of a small file; see :meth:`Files.read_all`."""
        try:
            with open(self._absolute(path), "rb") as file:
                check_small(path, os.fstat(file.fileno()).st_size)
                return file.read()
        except OSError as error:
            raise _refused(error, "read", path) from error

    def lock(self, path: str) -> Lock:
        """Take a lock on the file `path`, created if needed.

        It belongs to the open file, not to the process: a second broker in the same process is refused like one in
        another process.
        """
        try:
            descriptor = os.open(self._absolute(path), os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o644)
        except OSError as error:
            raise not_lockable(error, self.root) from error
        return take_lock(descriptor, self.root)


class ReadOnlyFiles(DiskFiles):
    """The files below one directory, read-only: every change is refused."""

    def open(self, path: str, create: bool = False) -> File:
        """Open a file for reading."""
        if create:
            raise self._read_only(path)
        try:
            descriptor = os.open(self._absolute(path), os.O_RDONLY | OPEN_FLAGS)
        except OSError as error:
            raise _refused(error, "open", path) from error
        return ReadOnlyFile(path, os.fstat(descriptor).st_size, descriptor)

    def open_private(self, path: str) -> File:
        """Raise StorageError."""
        raise self._read_only(path)

    def remove(self, path: str) -> None:
        """Raise StorageError."""
        raise self._read_only(path)

    make_directory = remove_tree = sync_directory = remove

    def rename(self, source: str, target: str) -> None:
        """Raise StorageError."""
        raise self._read_only(source)

    def lock(self, path: str) -> Lock:
        """Share the lock of a directory with other readers, or raise StorageError at once if a broker holds it.

        No file is created: without a lock file, no broker holds the lock.
        """
        try:
            descriptor = os.open(self._absolute(path), os.O_RDONLY | OPEN_FLAGS)
        except FileNotFoundError:
            return DiskLock(-1)
        except OSError as error:
            raise not_lockable(error, self.root) from error
        return take_lock(descriptor, self.root, is_shared=True)

    def _read_only(self, path: str) -> StorageError:
        return StorageError("opened for reading only", path or ".")


class ReadOnlyFile(DiskFile):
    """A read-only file on disk."""

    __slots__ = ()

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Raise StorageError."""
        raise StorageError("opened for reading only", self.path)

    def truncate(self, size: int) -> None:
        """Raise StorageError."""
        raise StorageError("opened for reading only", self.path)


def _no_root(error: OSError, root: str) -> StorageError:
    if isinstance(error, FileExistsError):
        return StorageError(f"{root} is a file, not a directory")
    return StorageError(f"cannot make the directory {root}: {error.strerror or error}")


class MemoryFile(File):
    """A file in memory. Files opened under one path share their bytes, as on disk."""

    __slots__ = ("_content",)

    def __init__(self, path: str, content: MemoryContent) -> None:
        super().__init__(path, content.size)
        self._content = content

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write `data` at the end."""
        content = self._content
        if content.size != self.size:
            content.truncate(self.size)  # what an incomplete append left
        try:
            content.append(data)
        except OSError as error:
            raise _refused(error, "append", self.path) from error
        self.size = content.size

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only where the file ends."""
        return bytes(self._content.view(position, size))

    def view(self, position: int, size: int) -> bytes | memoryview:
        """Return what `read` does, mostly without a copy."""
        return self._content.view(position, size)

    def truncate(self, size: int) -> None:
        """Remove everything after the first `size` bytes."""
        self._content.truncate(size)
        self.size = size

    def sync(self) -> None:
        """Do nothing: a file in memory cannot be more durable."""

    def close(self) -> None:
        """Do nothing: there is no descriptor to close."""


class MemoryLock(Lock):
    """A name in the set of locks of one :class:`MemoryFiles`."""

    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        held, self._held = self._held, set()
        held.discard(self._path)


class MemoryFiles(Files):
    """A tree in memory; it exists as long as this object."""

    root = "memory"
    outlives_process = False

    def __init__(self) -> None:
        self._directories: dict[str, set[str]] = {"": set()}
        self._contents: dict[str, MemoryContent] = {}
        self._locks: set[str] = set()

    @classmethod
    def copy_of(cls, tree: "MemoryFiles") -> Self:
        """Return an independent copy of a tree, without locks."""
        copied = cls()
        copied._directories = {path: set(names) for path, names in tree._directories.items()}
        copied._contents = {path: content.copy() for path, content in tree._contents.items()}
        return copied

    def copy(self) -> Self:
        """Return an independent copy of the tree, without locks."""
        return self.copy_of(self)

    @property
    def nbytes(self) -> int:
        """The memory that all files take, in bytes."""
        return sum(content.nbytes for content in list(self._contents.values()))

    def _names(self, path: str, action: str) -> set[str]:
        names = self._directories.get(path)
        if names is None:
            raise StorageError(f"cannot {action}: no such directory", path)
        return names

    def _content(self, path: str, action: str) -> MemoryContent:
        content = self._contents.get(path)
        if content is None:
            raise StorageError(f"cannot {action}: no such file", path)
        return content

    def open(self, path: str, create: bool = False) -> File:
        """Open a file for appending and reading; `create` creates a missing one."""
        if create and path not in self._contents:
            directory, _, name = path.rpartition("/")
            self._names(directory, "open").add(name)
            self._contents[path] = MemoryContent()
        return MemoryFile(path, self._content(path, "open"))

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of that name exists."""
        return path in self._contents or path in self._directories

    def is_directory(self, path: str) -> bool:
        """Return whether a directory of that name exists."""
        return path in self._directories

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(self._names(path, "list"))

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; an existing one is not changed."""
        if path in self._directories:
            return
        directory, _, name = path.rpartition("/")
        self.make_directory(directory)
        self._directories[directory].add(name)
        self._directories[path] = set()

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._content(path, "remove")
        del self._contents[path]
        self._directories[parent(path)].discard(path.rpartition("/")[2])

    def remove_tree(self, path: str) -> None:
        """Remove a directory and its content."""
        for name in sorted(self._names(path, "remove")):
            below = join(path, name)
            if below in self._directories:
                self.remove_tree(below)
            else:
                self.remove(below)
        del self._directories[path]
        self._directories[parent(path)].discard(path.rpartition("/")[2])

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory atomically; a file of the new name is replaced."""
        names = self._names(parent(target), "rename")
        if source in self._directories:
            self._rename_directory(source, target)
        else:
            self._contents[target] = self._content(source, "rename")
            del self._contents[source]
        self._directories[parent(source)].discard(source.rpartition("/")[2])
        names.add(target.rpartition("/")[2])

    def _rename_directory(self, source: str, target: str) -> None:
        if self._directories.get(target) or target in self._contents:
            raise StorageError(f"cannot rename to {target}: it exists", source)
        inside = source + "/"
        for path in [path for path in self._contents if path.startswith(inside)]:
            self._contents[target + path[len(source) :]] = self._contents.pop(path)
        for path in [path for path in self._directories if path == source or path.startswith(inside)]:
            self._directories[target + path[len(source) :]] = self._directories.pop(path)

    def sync_directory(self, path: str) -> None:
        """Only check that the directory exists."""
        self._names(path, "sync")

    def read_all(self, path: str) -> bytes:
        """Return the whole content of a small file."""
        content = self._content(path, "read")
        check_small(path, content.size)
        return bytes(content.view(0, content.size))

    def lock(self, path: str) -> Lock:
        """Take the lock, unless another broker on the same object holds it."""
        if path in self._locks:
            raise locked(self.root)
        if not self.exists(path):
            self.open(path, create=True)
        self._locks.add(path)
        return MemoryLock(self._locks, path)
