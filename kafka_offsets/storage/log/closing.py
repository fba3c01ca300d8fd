"""Closing many logs: each syncs its files, and several wait for the disk at a time."""

import threading
from collections.abc import Sequence

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.log.log import Log

_MANY_LOGS = 16
"""Up to this number, logs are closed one after the other: their syncs take some hundredths of a second."""


def close_logs(logs: Sequence[Log], *, sync: bool, threads: int = 1) -> list[StorageError]:
    """Close every log, and return the errors of the disk.

    sync     as for `Log.close`; the caller syncs the directory of their folders
    threads  how many logs wait for the disk at a time, when there are many
    """
    errors: list[StorageError] = []
    problems: list[Exception] = []

    def close_each(share: Sequence[Log]) -> None:
        """Close a share of the logs; errors are collected for the thread that waits."""
        try:
            for log in share:
                try:
                    log.close(sync=sync, sync_root=False)
                except StorageError as error:
                    errors.append(error)
        except Exception as problem:  # noqa: BLE001 - raised below, in the thread that waits
            problems.append(problem)

    count = threads if sync and len(logs) > _MANY_LOGS else 1
    others = [threading.Thread(target=close_each, args=(logs[first::count],)) for first in range(1, count)]
    for thread in others:
        thread.start()
    close_each(logs[::count])
    for thread in others:
        thread.join()
    if problems:
        raise problems[0]
    return errors
