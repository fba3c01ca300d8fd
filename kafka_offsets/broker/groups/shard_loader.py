"""Shard loader: loads shards with long logs while the broker already serves requests.

Background threads replay the logs, the shortest first, and a shorter log next to a longer one. Until a shard is
loaded, its clients get COORDINATOR_LOAD_IN_PROGRESS and retry; heartbeats are accepted unchecked, so that no member is
lost. With `offsets.commit.while.loading` commits are accepted as well: they are appended to the log that is being read,
and override the loaded offsets afterwards. A shard that cannot be loaded serves no requests: half of the offsets
would be worse than none.
Source: GroupCoordinatorService and CoordinatorRuntime of Kafka 4.3; inbuilt offset management, on broker failover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.groups.runtime import CoordinatorRuntime
from kafka_offsets.broker.groups.shards import Shards
from kafka_offsets.broker.partition.partitions import Topics
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.broker.turn.workers import Workers
from kafka_offsets.broker.wire.api import GroupRequest, ShardHandle
from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.result import RequestContext, Result
from kafka_offsets.errors import StorageError
from kafka_offsets.logs import new_logger

if TYPE_CHECKING:
    from kafka_offsets.broker.groups.runtime import HostedShard

LOADS_AT_ONCE = 4
"""Maximum number of logs that are read at the same time. Each of them is shorter than those begun before it."""

_OFFSET_COMMIT = 8

logger = new_logger(__name__)


class ShardLoader:
    """The background loads of one broker.

    on_loaded  called when all of them are done
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        scheduler: Scheduler,
        workers: Workers,
        runtime: CoordinatorRuntime,
        shards: Shards,
    ) -> None:
        self.on_loaded: list[Callable[[], None]] = []
        self._config = config
        self._topics = topics
        self._clock = scheduler.clock
        self._workers = workers
        self._runtime = runtime
        self._shards = shards
        self._long: list[HostedShard] = []
        self._waiting: list[HostedShard] = []
        self._loading: list[HostedShard] = []
        self._is_beginning = False
        self._was_loaded = False
        self._abandoned: list[bool] = []

    @property
    def is_loading(self) -> bool:
        """Whether a shard is still to be loaded."""
        return bool(self._waiting or self._loading)

    def load_short(self, now: Now) -> None:
        """Load the shards with short logs, before clients are served."""
        topic = self._topics.get(OFFSETS_TOPIC)
        if topic is None:
            return
        if self._topics.is_replicated:  # in a cluster the metadata determine which shards are loaded here
            self._runtime.start(topic.partition_count, now)
            return
        logged = [index for name, index in self._topics.directory.unopened() if name == OFFSETS_TOPIC]
        at_once_bytes = self._config.offsets_load_before_listening_bytes
        self._long = self._runtime.start(topic.partition_count, now, logged, at_once_bytes)
        for hosted in self._runtime.all_shards():
            self._shards.touch(hosted)

    def load_long(self) -> None:
        """Load the other shards in the background; `on_loaded` is called when all of them are done."""
        shards, self._long = self._long, []
        if not shards:
            self._all_loaded()
            return
        logger.info("%d partitions of the offsets topic are loaded while clients are served", len(shards))
        self._waiting += shards
        self._begin_waiting()

    def load(self, hosted: HostedShard) -> None:
        """Load one more shard in the background: this broker begins to lead its partition."""
        self._waiting.append(hosted)
        self._begin_waiting()

    def _all_loaded(self) -> None:
        if self._was_loaded:
            return
        self._was_loaded = True
        for call in self.on_loaded:
            call()

    def commit(self, decide: ShardHandle, request: GroupRequest, context: RequestContext, now: Now) -> bool:
        """Append a commit to the log of a shard that is being loaded; False if it is not a commit or not enabled."""
        if context.api_key != _OFFSET_COMMIT:
            return False
        hosted = self._runtime.shard_of(request.group_id, now)
        if hosted.shard_while_loading is None:
            return False
        self._shards.decide(hosted, decide(hosted.shard_while_loading, request, context, now))
        return True

    def abandon(self) -> None:
        """Stop all loads and open no more logs: the broker stops."""
        self._abandoned.append(True)
        self._waiting.clear()
        if self._topics.opener is not None:
            self._topics.opener.stop()

    def _begin_waiting(self) -> None:
        """Begin the load of the shortest log, unless a log that is not longer is being read.

        A load next to a longer one shares the interpreter with it, and ends first. Loads of about the same length
        would only delay each other.
        """
        if self._is_beginning:  # called by a load that has ended at once, within the loop below
            return
        self._is_beginning = True
        self._waiting.sort(key=lambda hosted: hosted.log.size, reverse=True)
        while self._waiting and len(self._loading) < LOADS_AT_ONCE:
            shortest = self._waiting[-1].log.size
            if any(hosted.log.size <= shortest for hosted in self._loading):
                break
            self._begin(self._waiting.pop())
        self._is_beginning = False

    def _begin(self, hosted: HostedShard) -> None:
        results: list[Result] = []
        problem: Exception | None = None
        began_ms = self._clock.now().mono_ms
        self._loading.append(hosted)

        def work() -> None:
            """Load the shard in a worker thread; an exception is kept for the loop."""
            nonlocal problem
            if self._abandoned:
                return
            try:
                results.extend(self._runtime.load(hosted, self._clock.now, self._abandoned))
            except Exception as error:  # noqa: BLE001 - reported below, where the shard is dropped
                problem = error

        def done(error: StorageError | None) -> None:
            """End the load of this partition, and begin that of the next one."""
            self._loading.remove(hosted)
            self._end(hosted, results, problem, self._clock.now().mono_ms - began_ms)
            self._begin_waiting()
            if not self.is_loading and not self._abandoned:
                self._all_loaded()

        self._workers.loads(work, done)

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
