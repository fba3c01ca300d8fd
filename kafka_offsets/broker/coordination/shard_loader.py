"""Shard loader: loads shards with long logs while the broker already serves requests.

A background thread replays one log after the other. Until a shard is loaded, its clients get
COORDINATOR_LOAD_IN_PROGRESS and retry; heartbeats are accepted unchecked, so that no member is lost. With
`offsets.commit.while.loading` commits are accepted as well: they are appended to the log that is being read, and
override the loaded offsets afterwards. A shard that cannot be loaded serves no requests: half of the offsets would be
worse than none.
Source: GroupCoordinatorService and CoordinatorRuntime of Kafka 4.3; inbuilt offset management, on broker failover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafka_offsets.broker.api.row import Api
from kafka_offsets.broker.coordination.runtime import CoordinatorRuntime
from kafka_offsets.broker.coordination.shards import Shards
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.broker.scheduler import Scheduler
from kafka_offsets.broker.workers import Workers
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.result import RequestContext, Result
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger

if TYPE_CHECKING:
    from kafka_offsets.broker.coordination.runtime import HostedShard

_OFFSET_COMMIT = 8

logger = new_logger(__name__)


class ShardLoader:
    """The background loads of one broker.

    on_loaded  called when all of them are done
    """

    def __init__(
        self,
        topics: Topics,
        scheduler: Scheduler,
        workers: Workers,
        runtime: CoordinatorRuntime,
        shards: Shards,
        on_loaded: Callable[[], None],
    ) -> None:
        self._topics = topics
        self._clock = scheduler.clock
        self._workers = workers
        self._runtime = runtime
        self._shards = shards
        self._on_loaded = on_loaded
        self._left = 0
        self._abandoned: list[bool] = []

    @property
    def is_loading(self) -> bool:
        """Whether a shard is still to be loaded."""
        return self._left > 0

    def load(self, shards: list[HostedShard]) -> None:
        """Load shards in the background; `on_loaded` is called when all of them are done."""
        if shards:
            logger.info("%d partitions of the offsets topic are loaded while clients are served", len(shards))
        else:
            self._on_loaded()
        self._left = len(shards)
        for hosted in shards:
            self._begin(hosted)

    def commit(self, api: Api, request: Any, context: RequestContext, now: Now) -> bool:
        """Append a commit to the log of a shard that is being loaded; False if it is not a commit or not enabled."""
        if api.key != _OFFSET_COMMIT:
            return False
        hosted = self._runtime.shard_of(request.group_id, now)
        if hosted.shard_while_loading is None:
            return False
        self._shards.decide(hosted, api.handle(hosted.shard_while_loading, request, context, now))
        return True

    def abandon(self) -> None:
        """Stop all loads and open no more logs: the broker stops."""
        self._abandoned.append(True)
        if self._topics.opener is not None:
            self._topics.opener.stop()

    def _begin(self, hosted: HostedShard) -> None:
        results: list[Result] = []
        problem: Exception | None = None
        began_ms = self._clock.now().mono_ms

        def work() -> None:
            nonlocal problem
            if self._abandoned:
                return
            try:
                results.extend(self._runtime.load(hosted, self._clock.now, self._abandoned))
            except Exception as error:  # noqa: BLE001 - reported below, where the shard is dropped
                problem = error

        def done(error: StorageError | None) -> None:
            self._left -= 1
            self._end(hosted, results, problem, self._clock.now().mono_ms - began_ms)
            if not self._left and not self._abandoned:
                self._on_loaded()

        self._workers.background(work, done)

    def _end(
        self, hosted: HostedShard, results: list[Result], problem: Exception | None, took_ms: int
    ) -> None:
        if hosted.failed or self._abandoned:
            return  # its topic was deleted in the meantime, or the broker stops
        if problem is None:
            hosted.finish_loading(results)
            self._runtime.give_up_failed()
            self._shards.touch(hosted)
            logger.info("%s is loaded after %d ms", hosted.log.directory, took_ms)
        elif isinstance(problem, StorageError):
            logger.error("%s cannot be loaded, its groups are not served: %s", hosted.log.directory, problem)
            hosted.fail(problem)
        else:
            logger.error("%s cannot be loaded", hosted.log.directory, exc_info=problem)
            hosted.give_up()
