"""What waits for the disk: logs that have grown, and answers and calls that follow when they are synced.

One sync is under way at a time; what comes meanwhile waits for the next. When and whether logs are synced is the
policy `fsync`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.log.log import Log

if TYPE_CHECKING:
    from kafka_offsets.broker.coordination.runtime import HostedShard
    from kafka_offsets.broker.core import BrokerCore
    from kafka_offsets.broker.scheduler import Deadline

logger = new_logger(__name__)


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


class Durability:
    """The syncs of one broker.

    unsynced  logs that have grown since their last sync, with the shard that each belongs to, if any; the core fills it
    """

    def __init__(self, core: BrokerCore, unsynced: dict[Log, HostedShard | None]) -> None:
        self._core = core
        self._unsynced = unsynced
        self._syncing = False
        self._sync_deadline: Deadline | None = None
        self._durable_replies: list[tuple[RequestContext, Any, tuple[Log, ...]]] = []
        self._durable_calls: list[tuple[Callable[[ErrorCode], None], tuple[Log, ...]]] = []

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for a sync that has not begun."""
        return bool(self._durable_replies or self._durable_calls) and not self._syncing

    def await_reply(self, context: RequestContext, response: Any, logs: Iterable[Log]) -> None:
        """Answer a request when the next sync has made `logs` durable."""
        self._durable_replies.append((context, response, tuple(logs)))

    def await_call(self, callback: Callable[[ErrorCode], None], logs: Iterable[Log]) -> None:
        """Call back when the next sync has made `logs` durable, or with an error."""
        self._durable_calls.append((callback, tuple(logs)))

    def start_sync(self) -> None:
        """Sync everything that was appended so far, unless a sync is under way: then it is the next one's."""
        if self._syncing or not (self._unsynced or self._durable_replies or self._durable_calls):
            return
        if self._core.config.fsync == "commit":
            self._sync_now()
        elif self._core.config.fsync == "interval" and self._sync_deadline is None:
            due = self._core.clock.now().mono_ms + self._core.config.fsync_interval_ms
            self._sync_deadline = self._core.at(due, self._sync_interval)
        elif self._core.config.fsync == "never":
            self._core.recovery_points.sync_ended(self._unsynced)
            self._unsynced.clear()

    def _sync_interval(self, now: Now) -> None:
        self._sync_deadline = None
        if self._unsynced and not self._syncing:
            self._sync_now()

    def _sync_now(self) -> None:
        unsynced = dict(self._unsynced)
        self._unsynced.clear()
        ends = {hosted: hosted.log.log_end_offset for hosted in unsynced.values() if hosted is not None}
        replies, self._durable_replies = self._durable_replies, []
        calls, self._durable_calls = self._durable_calls, []
        self._syncing = True
        self._core.sync(list(unsynced), lambda failed: self._synced(ends, replies, calls, failed))

    def _synced(
        self,
        ends: dict[HostedShard, int],
        replies: list[tuple[RequestContext, Any, tuple[Log, ...]]],
        calls: list[tuple[Callable[[ErrorCode], None], tuple[Log, ...]]],
        failed: dict[Log, StorageError],
    ) -> None:
        """Take note of a sync that has ended; an `end_turn` belongs behind it."""
        self._syncing = False
        for log, error in failed.items():
            logger.error("fsync of %s failed, it takes no more writes: %s", log.directory, error)
        for hosted, end in ends.items():
            if hosted.log in failed:
                hosted.fail(failed[hosted.log])
            else:
                hosted.durable_offset = end
                hosted.take_effect()
        for context, response, logs in replies:
            if any(log in failed or log.failure is not None for log in logs):
                self._core.fail(context, ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                self._core.reply(context, response)
        for call, logs in calls:
            lost = any(log in failed or log.failure is not None for log in logs)
            call(ErrorCode.KAFKA_STORAGE_ERROR if lost else ErrorCode.NONE)
