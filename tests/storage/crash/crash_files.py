"""Files in memory that remember every call, and the states of the disk that a power failure may leave behind them.

The model is that of ALICE (Pillai et al., OSDI 2014). A disk holds numbered objects, files and directories. A call
changes the content of a file or the entries of a directory, and it is *forced* once the same file or directory has
been synced after it. At a crash every call that is not forced has happened, has not happened, or, if it writes, has
happened in part, each whatever became of the others:

    lost      as if it had not been called
    whole     as it was called
    cut       the file ends within the written bytes, at any byte; later writes to it are lost
    holes     the file has its new size, and only some of the written sectors are on the disk; the others are as they
              were, zero where there was nothing; with none of them it is "size before data"
    garbage   as holes, with random bytes in place of zeros; only where it is asked for

So names may be on the disk without the data of their files and the other way round, a rename before the data, an
unlink without the link that came before it, later writes without earlier ones: ext4, XFS and btrfs do a part of that
each. Syncing a file does not force its name, syncing a directory does not force what its files hold. A sector is
written as a whole, and with it what was written there before: the system writes back pages, not calls.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

from kafka_offsets.storage.files.files import File, MemoryFile, MemoryFiles, join, parent
from kafka_offsets.storage.files.memory_content import MemoryContent

ROOT = 0
SECTOR = 512
"""Bytes that a disk writes as a whole, at multiples of it in a file."""

FULL_ENUMERATION = 12
"""Up to so many calls that are not forced, every subset of them is tried."""


class Write(NamedTuple):
    """Bytes for whole sectors, but for the last one.

    position  a multiple of SECTOR
    data      what stood in the first sector before, `old` bytes of it, and what is written after
    """

    inode: int
    position: int
    data: bytes
    old: int


class Truncate(NamedTuple):
    """A file gets a size."""

    inode: int
    size: int


class Link(NamedTuple):
    """A directory gets an entry for a new file or directory."""

    directory: int
    name: str
    inode: int
    is_directory: bool


class Unlink(NamedTuple):
    """A directory loses an entry."""

    directory: int
    name: str
    inode: int


class Rename(NamedTuple):
    """An entry of a directory gets another name in it; the one that had this name is gone."""

    directory: int
    source: str
    target: str
    inode: int


class Sync(NamedTuple):
    """A file or directory is forced to the disk."""

    inode: int


Operation = Write | Truncate | Link | Unlink | Rename | Sync


class Cut(NamedTuple):
    """The file ends after the first `size` bytes of a write."""

    size: int


class Holes(NamedTuple):
    """Only the sectors `kept` of a write, counted from its first, are on the disk, in a file of the new size.

    filling  random bytes for the others; empty for zeros
    """

    kept: frozenset[int]
    filling: bytes = b""


LOST, WHOLE = None, True
Fate = Cut | Holes | bool | None
"""What became of one call."""


class Tree:
    """The content of a disk.

    entries   of directories: name to number
    contents  of files
    """

    __slots__ = ("contents", "entries")

    def __init__(self) -> None:
        self.entries: dict[int, dict[str, int]] = {ROOT: {}}
        self.contents: dict[int, bytes] = {}

    def copy(self) -> Self:
        copied = type(self)()
        copied.entries = {inode: dict(entries) for inode, entries in self.entries.items()}
        copied.contents = dict(self.contents)
        return copied

    def apply(self, operation: Operation, fate: Fate = WHOLE) -> None:
        """Carry out one call as far as its fate has it."""
        if fate is LOST:
            return
        if isinstance(operation, Write):
            self._write(operation, fate)
        elif isinstance(operation, Truncate):
            content = self.contents.get(operation.inode, b"")
            self.contents[operation.inode] = content[: operation.size].ljust(operation.size, b"\0")
        elif isinstance(operation, Link):
            self.entries.setdefault(operation.directory, {})[operation.name] = operation.inode
        elif isinstance(operation, Unlink):
            self._unlink(operation.directory, operation.name, operation.inode)
        elif isinstance(operation, Rename):
            self._unlink(operation.directory, operation.source, operation.inode)
            self.entries.setdefault(operation.directory, {})[operation.target] = operation.inode

    def _unlink(self, directory: int, name: str, inode: int) -> None:
        entries = self.entries.get(directory, {})
        if entries.get(name) == inode:
            del entries[name]

    def _write(self, operation: Write, fate: Fate) -> None:
        inode, position, data, old = operation
        content = self.contents.get(inode, b"")
        if isinstance(fate, Cut):
            data = data[: fate.size]
        elif isinstance(fate, Holes):
            before = content[position : position + len(data)]
            data = _with_holes(data, before, old, fate)
        self.contents[inode] = (
            content[:position].ljust(position, b"\0") + data + content[position + len(data) :]
        )

    def paths(self) -> tuple[dict[str, int], dict[str, int]]:
        """The directories and the files that can be reached, by path."""
        directories, files = {"": ROOT}, {}
        pending = [("", ROOT)]
        while pending:
            path, directory = pending.pop()
            for name, inode in self.entries.get(directory, {}).items():
                below = join(path, name)
                if inode in self.entries:
                    directories[below] = inode
                    pending.append((below, inode))
                else:
                    files[below] = inode
        return directories, files

    def fingerprint(self) -> int:
        """Equal for trees that a process cannot tell apart; for others very likely not."""
        directories, files = self.paths()
        contents = frozenset((path, self.contents.get(inode, b"")) for path, inode in files.items())
        return hash((frozenset(directories), contents))

    def files(self) -> dict[str, bytes]:
        """The content of every file by its path; a directory ends with a slash and has none."""
        directories, files = self.paths()
        found = {f"{path}/": b"" for path in directories if path}
        found |= {path: self.contents.get(inode, b"") for path, inode in files.items()}
        return dict(sorted(found.items()))


def _sectors(operation: Write) -> range:
    return range((len(operation.data) + SECTOR - 1) // SECTOR)


def _with_holes(data: bytes, before: bytes, old: int, fate: Holes) -> bytes:
    """What a write of `data` over `before` leaves; garbage does not go over the `old` bytes."""
    found = bytearray(before.ljust(len(data), b"\0"))
    if fate.filling:
        found[old:] = fate.filling[old : len(data)]
    for sector in fate.kept:
        part = slice(sector * SECTOR, min((sector + 1) * SECTOR, len(data)))
        found[part] = data[part]
    return bytes(found)


class RecordingFiles(MemoryFiles):
    """Files in memory that keep every call that changes something in `operations`.

    base        what was on the disk before the first of them
    operations  all since then; one more object lives with another process on the same object as on one machine
    """

    outlives_process = True

    def __init__(self, base: Tree | None = None) -> None:
        super().__init__()
        self.base = base if base is not None else Tree()
        self.operations: list[Operation] = []
        directories, files = self.base.paths()
        self._inodes = directories | files
        self._next_inode = max([*self.base.entries, *self.base.contents, ROOT]) + 1
        self._directories = {path: set(self.base.entries[inode]) for path, inode in directories.items()}
        for path, inode in files.items():
            self._contents[path] = MemoryContent()
            self._contents[path].append(self.base.contents.get(inode, b""))

    def die(self) -> None:
        """The process is gone and the machine is not: its locks are free, its files are as it left them."""
        self._locks = set()

    def settle(self) -> None:
        """The system writes back everything in its own time, as it does after half a minute."""
        self.operations += [Sync(inode) for inode in self._inodes.values()]

    def _linked(self, path: str) -> None:
        self._inodes[path] = self._next_inode
        self._next_inode += 1
        directory, _, name = path.rpartition("/")
        is_directory = path in self._directories
        self.operations.append(Link(self._inodes[directory], name, self._inodes[path], is_directory))

    def _unlinked(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        self.operations.append(Unlink(self._inodes[directory], name, self._inodes.pop(path)))

    def open(self, path: str, create: bool = False) -> File:
        if create and path not in self._contents:
            super().open(path, create=True)
            self._linked(path)
        return RecordingFile(self, path, self._content(path, "open"), self._inodes[path])

    def make_directory(self, path: str) -> None:
        if path not in self._directories:
            self.make_directory(parent(path))
            super().make_directory(path)
            self._linked(path)

    def remove(self, path: str) -> None:
        super().remove(path)
        self._unlinked(path)

    def remove_tree(self, path: str) -> None:
        super().remove_tree(path)  # calls `remove`, and itself for the directories below
        self._unlinked(path)

    def rename(self, source: str, target: str) -> None:
        assert parent(source) == parent(target), "a rename between directories is not modelled"
        below = source + "/" if source in self._directories else None
        super().rename(source, target)
        self._inodes[target] = self._inodes.pop(source)
        for path in [path for path in self._inodes if path.startswith(below)] if below else ():
            self._inodes[target + path[len(source) :]] = self._inodes.pop(path)
        directory, _, name = source.rpartition("/")
        new_name = target.rpartition("/")[2]
        self.operations.append(Rename(self._inodes[directory], name, new_name, self._inodes[target]))

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.operations.append(Sync(self._inodes[path]))


class RecordingFile(MemoryFile):
    __slots__ = ("_inode", "_operations")

    def __init__(self, files: RecordingFiles, path: str, content: MemoryContent, inode: int) -> None:
        super().__init__(path, content)
        self._operations = files.operations
        self._inode = inode

    def append(self, data: bytes | bytearray | memoryview) -> None:
        old = self.size % SECTOR
        position = self.size - old
        if data:
            self._operations.append(Write(self._inode, position, self.read(position, old) + bytes(data), old))
        super().append(data)

    def truncate(self, size: int) -> None:
        self._operations.append(Truncate(self._inode, size))
        super().truncate(size)

    def sync(self) -> None:
        self._operations.append(Sync(self._inode))


class CrashPoint:
    """The moment before the call number `at`.

    forced       what is on the disk whatever happens
    outstanding  the calls that are not forced, in their order
    """

    def __init__(self, base: Tree, operations: Sequence[Operation], at: int) -> None:
        self.at = at
        self.forced = base.copy()
        self.outstanding: list[Operation] = []
        synced_at = {op.inode: index for index, op in enumerate(operations[:at]) if isinstance(op, Sync)}
        for index, operation in enumerate(operations[:at]):
            if isinstance(
                operation, Link
            ):  # an empty object; whether anything leads to it is another question
                if operation.is_directory:
                    self.forced.entries.setdefault(operation.inode, {})
                else:
                    self.forced.contents.setdefault(operation.inode, b"")
            if isinstance(operation, Sync):
                continue
            changed = operation.inode if isinstance(operation, Write | Truncate) else operation.directory
            if synced_at.get(changed, -1) > index:
                self.forced.apply(operation)
            else:
                self.outstanding.append(operation)

    def tree(self, fates: Sequence[Fate]) -> Tree:
        """The disk when each outstanding call had its fate."""
        found = self.forced.copy()
        ended = set()
        for operation, fate in zip(self.outstanding, fates, strict=True):
            if isinstance(operation, Write):
                if operation.inode in ended:
                    continue
                if isinstance(fate, Cut):
                    ended.add(operation.inode)
            found.apply(operation, fate)
        return found

    def process_death(self) -> Tree:
        """The disk, sooner or later, when the process died and the machine did not: all calls happened."""
        return self.tree([WHOLE] * len(self.outstanding))

    def subsets(self) -> Iterator[list[Fate]]:
        """Every subset of the outstanding calls, or nothing when they are more than FULL_ENUMERATION."""
        if len(self.outstanding) <= FULL_ENUMERATION:
            for fates in itertools.product((LOST, WHOLE), repeat=len(self.outstanding)):
                yield list(fates)

    def single_faults(self) -> Iterator[list[Fate]]:
        """All calls happened but one write, or those up to it, which happened in each of a few parts."""
        count = len(self.outstanding)
        for index, operation in enumerate(self.outstanding):
            if isinstance(operation, Write):
                for fate in parts(operation):
                    for after in (LOST, WHOLE):
                        yield [WHOLE] * index + [fate] + [after] * (count - index - 1)

    def draw(self, chance: random.Random, *, garbage: bool = False) -> list[Fate]:
        """Fates at random, of each call on its own, or all calls happen in order up to one of them."""
        count = len(self.outstanding)
        if chance.random() < 0.3:
            stop = chance.randrange(count + 1)
            fates: list[Fate] = [WHOLE] * stop + [LOST] * (count - stop)
            if stop < count:
                fates[stop] = self._fate(self.outstanding[stop], chance, garbage)
            return fates
        lost = chance.choice((0.1, 0.5, 0.9))
        return [
            LOST if chance.random() < lost else self._fate(operation, chance, garbage)
            for operation in self.outstanding
        ]

    def _fate(self, operation: Operation, chance: random.Random, garbage: bool) -> Fate:
        if not isinstance(operation, Write) or chance.random() < 0.6:
            return WHOLE
        size = len(operation.data)
        kind = chance.randrange(3 if garbage else 2)
        if kind == 0:
            return Cut(chance.randrange(operation.old, size))
        kept = frozenset(sector for sector in _sectors(operation) if chance.random() < 0.5)
        return Holes(kept, chance.randbytes(size) if kind == 2 else b"")


def parts(write: Write) -> Iterator[Fate]:
    """A few of the ways in which a write happens in part: cut at sectors, beside its ends, in the middle; holes."""
    size, sectors = len(write.data), frozenset(_sectors(write))
    cuts = {write.old, write.old + 1, (write.old + size) // 2, size - 1} | {n * SECTOR for n in sectors}
    for cut in sorted(cuts):
        if write.old <= cut < size:
            yield Cut(cut)
    yield Holes(frozenset())
    for missing in sorted(sectors) if len(sectors) > 1 else ():
        yield Holes(sectors - {missing})
