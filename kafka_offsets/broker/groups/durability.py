"""Durability: syncs of logs that have grown, and the responses and callbacks that wait for them.

One sync runs at a time; whatever is appended in the meantime waits for the next one. The `fsync` policy decides whether
and when logs are synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kafka_offsets.broker.groups.appends import Appends
from kafka_offsets.broker.turn.workers import Workers
from kafka_offsets.broker.wire.responses import Responses
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext
from kafka_offsets.errors import ErrorCode, StorageError
from kafka_offsets.logs import new_logger
from kafka_offsets.storage.log.log import Log

if TYPE_CHECKING:
    from kafka_offsets.broker.config.keys import Config
    from kafka_offsets.broker.groups.runtime import HostedShard
    from kafka_offsets.broker.turn.scheduler import Deadline, Scheduler

logger = new_logger(__name__)


class Durability:
    """The syncs of one broker.

    sync_ended  called with the logs that have grown, if the policy does not sync them
    replicate   calls back when the in-sync replicas have what these logs have now; None for a broker that is alone
    """

    def __init__(
        self,
        config: Config,
        scheduler: Scheduler,
        workers: Workers,
        responses: Responses,
        appends: Appends,
    ) -> None:
        self._config = config
        self._scheduler = scheduler
        self._workers = workers
        self._responses = responses
        self._unsynced = appends.unsynced
        self.sync_ended: Callable[[Iterable[Log]], None]  # set once there are recovery points
        self.replicate: Callable[[Iterable[Log], Callable[[ErrorCode], None]], None] | None = None
        self._syncing = False
        self._sync_deadline: Deadline | None = None
        self._waiting: list[tuple[Callable[[ErrorCode], None], tuple[Log, ...]]] = []

    @property
    def is_awaited(self) -> bool:
        """Whether a response or callback waits for a sync that has not begun."""
        return bool(self._waiting) and not self._syncing

    def respond_when_durable(self, context: RequestContext, response: object, logs: Iterable[Log]) -> None:
        """Respond once `logs` are replicated and as durable as the `fsync` policy says, or with an error."""
        if self.replicate is None:
            self.respond_when_on_disk(context, response, logs)
            return
        kept = tuple(logs)

        def replicated(error: ErrorCode) -> None:
            """Respond with the error, or wait for the disk."""
            if error:
                self._responses.fail(context, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                self.respond_when_on_disk(context, response, kept)

        self.replicate(kept, replicated)

    def respond_when_on_disk(self, context: RequestContext, response: object, logs: Iterable[Log]) -> None:
        """Respond once `logs` are as durable as the `fsync` policy says, whatever other replicas have."""

        def on_disk(error: ErrorCode) -> None:
            """Respond, with the error if there is one."""
            if error:
                self._responses.fail(context, error)
            else:
                self._responses.respond(context, response)

        self._when_on_disk(on_disk, logs)

    def when_durable(self, logs: Iterable[Log], callback: Callable[[ErrorCode], None]) -> None:
        """Call back once the current content of `logs` is replicated, and as durable as the `fsync` policy says.

        Or with an error.
        """
        if self.replicate is None:
            self._when_on_disk(callback, logs)
            return
        kept = tuple(logs)

        def replicated(error: ErrorCode) -> None:
            """Pass the error on, or wait for the disk."""
            if error:
                callback(error)
            else:
                self._when_on_disk(callback, kept)

        self.replicate(kept, replicated)

    def _when_on_disk(self, callback: Callable[[ErrorCode], None], logs: Iterable[Log]) -> None:
        if self._config.fsync == "commit":
            self._waiting.append((callback, tuple(logs)))
        else:
            callback(ErrorCode.NONE)

    def start_sync(self) -> None:
        """Sync everything appended so far; if a sync is running, the next one does it."""
        if self._syncing or not (self._unsynced or self._waiting):
            return
        if self._config.fsync == "commit":
            self._sync_now()
        elif self._config.fsync == "interval" and self._sync_deadline is None:
            due = self._scheduler.clock.now().mono_ms + self._config.fsync_interval_ms
            self._sync_deadline = self._scheduler.at(due, self._sync_interval)
        elif self._config.fsync == "never":
            self.sync_ended(self._unsynced)
            self._unsynced.clear()

    def _sync_interval(self, now: Now) -> None:
        self._sync_deadline = None
        if self._unsynced and not self._syncing:
            self._sync_now()

    def _sync_now(self) -> None:
        unsynced = dict(self._unsynced)
        self._unsynced.clear()
        ends = {hosted: hosted.log.log_end_offset for hosted in unsynced.values() if hosted is not None}
        waiting, self._waiting = self._waiting, []
        self._syncing = True
        self._workers.sync(list(unsynced), lambda failed: self._synced(ends, waiting, failed))

    def _synced(
        self,
        ends: dict[HostedShard, int],
        waiting: list[tuple[Callable[[ErrorCode], None], tuple[Log, ...]]],
        failed: dict[Log, StorageError],
    ) -> None:
        """Handle the end of a sync; `end_turn` must be called afterwards."""
        self._syncing = False
        for log, error in failed.items():
            logger.error("fsync of %s failed, it takes no more writes: %s", log.directory, error)
        for hosted, end in ends.items():
            if hosted.log in failed:
                hosted.fail(failed[hosted.log])
            else:
                hosted.durable_offset = end
                hosted.take_effect()
        for callback, logs in waiting:
            is_lost = any(log in failed or log.failure is not None for log in logs)
            callback(ErrorCode.KAFKA_STORAGE_ERROR if is_lost else ErrorCode.NONE)
