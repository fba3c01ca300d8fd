"""Workers: sync logs and write files, in threads while the loop continues, or inline."""

from collections.abc import Callable, Iterable

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.log.log import Log

Sync = Callable[[list[Log], Callable[[dict[Log, StorageError]], None]], None]
"""(logs, done): make the logs durable, then call `done` with those that failed."""


def sync_inline(logs: list[Log], done: Callable[[dict[Log, StorageError]], None]) -> None:
    """Sync in the calling thread: for tests, and where no loop would be blocked."""
    done(sync_all(logs))


def sync_all(logs: Iterable[Log]) -> dict[Log, StorageError]:
    """Sync every log; return those that failed. A failed fsync is never retried."""
    failed = {}
    for log in logs:
        if log.closed:  # its topic was deleted in the meantime
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
"""(work, done): run `work`, which raises only StorageError, then call `done` with the error or None."""


def run_inline(work: Work, done: Done) -> None:
    """Run the work in the calling thread: for tests, and where no loop would be blocked."""
    try:
        work()
    except StorageError as error:
        done(error)
    else:
        done(None)


class Workers:
    """The kinds of workers of one broker.

    sync        makes logs durable
    background  writes files for which no request waits
    loads       replays logs into shards; default: `background`
    """

    def __init__(
        self, sync: Sync = sync_inline, background: Background = run_inline, loads: Background | None = None
    ) -> None:
        self.sync = sync
        self.background = background
        self.loads = loads or background
