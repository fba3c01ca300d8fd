"""Content of files in memory: a plain bytes object is the model; views that are alive never change."""

import errno
import mmap
import os
import random

import pytest

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files import memory_content
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.files.memory_content import MemoryContent
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.drivers.raw_files import raw
from tests.storage.batches import batch, content, fill


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of up to 64 bytes, mapped from 16 on."""
    monkeypatch.setattr(memory_content, "_MOST_BLOCK_BYTES", 64)
    monkeypatch.setattr(memory_content, "_LEAST_MAPPED_BYTES", 16)


class Model:
    """A content, the bytes that it must have, and every view that was taken of it with its bytes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.content, self.expected = MemoryContent(), b""
        self.copies: list[tuple[MemoryContent, bytes]] = []
        self.views: list[tuple[bytes | memoryview, bytes]] = []

    def append(self) -> None:
        data = self.rng.randbytes(self.rng.choice((0, 1, 7, 40, 90)))
        kind = self.rng.choice((bytes, bytearray, memoryview))
        self.content.append(kind(data))
        self.expected += data

    def truncate(self) -> None:
        size = self.rng.choice((0, len(self.expected), self.rng.randint(0, len(self.expected) + 5)))
        self.content.truncate(size)
        self.expected = self.expected[:size]

    def view(self) -> None:
        position, size = self.rng.randint(0, len(self.expected) + 2), self.rng.choice((0, 1, 20, 70, 500))
        expected = self.expected[position : position + size]
        self.views.append((self.content.view(position, size), expected))

    def copy(self) -> None:
        """Go on with one of the two; the other one must stay as it is."""
        left, self.content = self.rng.sample((self.content, self.content.copy()), 2)
        self.copies.append((left, self.expected))

    def remove(self) -> None:
        """Only views keep the memory."""
        self.content, self.expected = MemoryContent(), b""

    def check(self) -> None:
        for each, expected in (*self.copies, (self.content, self.expected)):
            assert each.size == len(expected)
            assert each.view(0, each.size) == expected
        assert all(view == expected for view, expected in self.views)


def test_random_calls_agree_with_plain_bytes_and_change_no_view(
    rng: random.Random, small_blocks: None
) -> None:
    for _ in range(40):
        model = Model(rng)
        calls = [*[model.append] * 6, model.truncate, model.copy, *[model.view] * 4]
        for step in range(60):
            rng.choice(calls)()
            if step % 25 == 24:
                model.remove()
            model.check()


def test_a_log_in_memory_is_read_without_a_copy() -> None:
    log = Log.open(MemoryFiles(), "t-0", LogConfig())
    log.append(batch([b"x" * 5000]))
    first, second = log.read(0, 1 << 20), log.read(0, 1 << 20)
    assert isinstance(first, memoryview) and isinstance(second, memoryview)
    assert first.obj is second.obj and first.readonly


def test_what_was_read_of_a_log_stays_while_the_log_is_truncated_written_and_removed(
    small_blocks: None,
) -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", LogConfig())
    fill(log, 10)
    kept = [(log.read(offset, 1), bytes(log.read(offset, 1))) for offset in range(10)]
    log.truncate(4)
    fill(log, 6, start=100)
    assert [value for _, value in content(log)][3:5] == [b"3" + b"." * 20, b"100" + b"." * 20]
    files.remove_tree("t-0")
    assert all(view == expected for view, expected in kept)


@pytest.mark.parametrize("size", [5, 100])
def test_memory_that_the_system_refuses_is_a_storage_error_and_leaves_the_file(
    small_blocks: None, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Python has a MemoryError for a small block, and the system's OSError for a large one."""
    files = MemoryFiles()
    file = files.open("a", create=True)
    file.append(b"0123")
    with monkeypatch.context() as patched:

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

        def refuse_small(size: int) -> None:
            raise MemoryError

        patched.setattr(mmap, "mmap", refuse)
        patched.setattr(memory_content, "bytearray", refuse_small, raising=False)
        with pytest.raises(StorageError, match="a: cannot append: Cannot allocate memory"):
            file.append(b"x" * size)
    assert file.size == 4 and raw(files, "a") == b"0123"
    file.append(b"45")
    assert raw(files, "a") == b"012345"


def test_a_copy_of_a_tree_shares_what_is_written_and_nothing_later() -> None:
    files = MemoryFiles()
    file = files.open("a", create=True)
    file.append(b"0123" * 2000)
    copied = files.copy()
    other = copied.open("a")
    shared, own = other.view(0, 100), file.view(0, 100)
    assert isinstance(shared, memoryview) and isinstance(own, memoryview) and shared.obj is own.obj
    other.append(b"x")
    file.append(b"yz")
    assert (raw(copied, "a")[8000:], raw(files, "a")[8000:]) == (b"x", b"yz")
