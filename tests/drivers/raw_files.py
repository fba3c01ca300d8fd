"""Bytes of files in memory, read and damaged past all layers.

No call is counted or recorded, and open files see the change.
"""

from kafka_offsets.storage.files.files import MemoryFiles


def raw(files: MemoryFiles, path: str) -> bytes:
    """The bytes of a file."""
    content = files._contents[path]
    return bytes(content.view(0, content.size))


def replace(files: MemoryFiles, path: str, data: bytes | bytearray) -> None:
    """Give a file other bytes."""
    content = files._contents[path]
    content.truncate(0)
    content.append(data)


def flip(files: MemoryFiles, path: str, position: int, bits: int = 1) -> None:
    """Flip bits of one byte; a negative position counts from the end."""
    data = bytearray(raw(files, path))
    data[position] ^= bits
    replace(files, path, data)


def cut(files: MemoryFiles, path: str, start: int, stop: int | None = None) -> None:
    """Take out the bytes from `start` to `stop`, or to the end."""
    data = bytearray(raw(files, path))
    del data[start:stop]
    replace(files, path, data)
