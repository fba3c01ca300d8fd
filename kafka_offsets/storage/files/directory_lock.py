"""Locks on data directories: one broker writes to a directory at a time, of this project or Kafka's."""

import os
import sys
import weakref
from abc import ABC, abstractmethod

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.system import lock_file


class Lock(ABC):
    """A lock on a directory, held until `release` or the end of the process."""

    @abstractmethod
    def release(self) -> None:
        """Release the lock; a second call does nothing."""


_held: "weakref.WeakSet[DiskLock]" = weakref.WeakSet()


class DiskLock(Lock):
    """A lock of an open file. The system releases it with the process: a crash leaves a file that locks out nobody.

    A forked child would hold it for as long as it lives, so it closes the file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        _held.add(self)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def take_lock(descriptor: int, root: str, *, is_shared: bool = False) -> DiskLock:
    """Lock an open file against other brokers, of this project and Kafka's.

    root  the directory, for messages
    The file is closed if that fails. Raises StorageError.
    """
    try:
        lock_file(descriptor, is_shared=is_shared)
    except (BlockingIOError, PermissionError) as error:
        os.close(descriptor)
        raise locked(root) from error
    except OSError as error:
        os.close(descriptor)
        raise not_lockable(error, root) from error
    return DiskLock(descriptor)


def locked(root: str) -> StorageError:
    """Return the error for a directory that another broker has locked."""
    return StorageError(f"another broker uses the data directory {root}: stop it first")


def not_lockable(error: OSError, root: str) -> StorageError:
    """Return the error for a directory whose lock the system refuses."""
    return StorageError(f"cannot lock the data directory {root}: {error.strerror or error}")


def _leave_to_parent() -> None:
    for lock in [*_held]:
        lock.release()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_leave_to_parent)
