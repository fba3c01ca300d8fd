"""Work that the loop does not wait for: logs are synced and files are written, in threads or here and now."""

from collections.abc import Callable, Iterable

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.log.log import Log

Sync = Callable[[list[Log], Callable[[dict[Log, StorageError]], None]], None]
"""(logs, done): make the logs durable, then call `done` with those that failed."""


def sync_inline(logs: list[Log], done: Callable[[dict[Log, StorageError]], None]) -> None:
    """Sync in the calling thread: for tests, and where there is no loop to keep free."""
    done(sync_all(logs))


def sync_all(logs: Iterable[Log]) -> dict[Log, StorageError]:
    """Sync every log; return those that failed. An fsync that failed is never tried again."""
    failed = {}
    for log in logs:
        if log.closed:  # its topic was deleted meanwhile
            continue
        try:
            log.sync()
        except StorageError as error:
            if not log.closed:
                failed[log] = error
    return failed


Work = Callable[[], None]
Done = Callable[[StorageError | None], None]
Background = Callable[[Work, Done], None]
"""(work, done): carry out `work`, which raises nothing but StorageError, then call `done` with that or None."""


def run_inline(work: Work, done: Done) -> None:
    """Work in the calling thread: for tests, and where there is no loop to keep free."""
    try:
        work()
    except StorageError as error:
        done(error)
    else:
        done(None)


class Workers:
    """How one broker does such work.

    sync        makes logs durable
    background  writes files for which nobody waits
    """

    def __init__(self, sync: Sync = sync_inline, background: Background = run_inline) -> None:
        self.sync = sync
        self.background = background
