"""View: the state of a cluster as its leaders and coordinators have it, for assertions, events and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from kafka_offsets.broker.context.context import Context
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.broker.groups.runtime import HostedShard
from kafka_offsets.broker.partition.partitions import Partition, Topic
from kafka_offsets.broker.partition.topic_names import OFFSETS_TOPIC
from kafka_offsets.broker.turn.scheduler import Scheduler
from kafka_offsets.clock import Clock, Now
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.metadata.image import ClusterImage
from kafka_offsets.protocol.java_hash import partition_for
from kafka_offsets.testing.contents.groups import NoLeaderError

if TYPE_CHECKING:
    from kafka_offsets.broker.config.keys import Config

T = TypeVar("T")
R = TypeVar("R")

Leading = Callable[[str, int], BrokerCore]
"""(topic, partition) -> the broker that leads it. NoLeaderError if there is none."""


class ClusterState:
    """What tests read of a cluster; it has the names of a `BrokerCore`, as far as they read them."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        image: ClusterImage,
        leading: Leading,
        cores: Callable[[], list[BrokerCore]],
        scheduler: Scheduler,
    ) -> None:
        self.config = config
        self.clock = clock
        self.topics = _Topics(image, leading, cores)
        self.runtime = self.shards = _Groups(image, leading)
        self.expiry = _Expiry(cores)
        self.metrics = _Metrics(cores)
        self._cores = cores
        self._scheduler = scheduler

    @property
    def nodes(self) -> list[BrokerCore]:
        """The nodes that are up."""
        return self._cores()

    @property
    def next_deadline_ms(self) -> int | None:
        """When the first deadline of a node, or between nodes, is due, in monotonic time."""
        dues = [self._scheduler.next_ms, *(core.next_deadline_ms for core in self._cores())]
        return min((due for due in dues if due is not None), default=None)

    @property
    def is_quiet(self) -> bool:
        """Whether the end of a turn would have nothing to do at any node."""
        return all(core.is_quiet for core in self._cores())

    def run_due(self) -> None:
        """Run everything that is due, between the nodes and at each of them."""
        self._scheduler.run_due(self.clock.now())
        for core in self._cores():
            core.run_due()

    @property
    def broker(self) -> Context:
        """The parts of a node that is up, for what any node may do. RuntimeError if there is none."""
        cores = self._cores()
        if not cores:
            raise RuntimeError("all nodes of this cluster are stopped or paused")
        return cores[0].broker


def joined(futures: list[Future[T]], join: Callable[[list[T]], R]) -> Future[R]:
    """Return a future for the joined results of several, or for the first error."""
    whole: Future[R] = Future()
    left = len(futures)

    def done(future: Future[T]) -> None:
        """Count a future that is done; the first error, or all results, end the whole."""
        nonlocal left
        left -= 1
        error = future.exception()
        if whole.done():
            return
        if error is not None:
            whole.set_exception(error)
        elif not left:
            whole.set_result(join([each.result() for each in futures]))

    for future in futures:
        future.add_done_callback(done)
    return whole


class _Expiry:
    """The expiration of offsets at each node."""

    def __init__(self, cores: Callable[[], list[BrokerCore]]) -> None:
        self._cores = cores

    def run_now(self, now: Now) -> Future[int]:
        return joined([core.expiry.run_now(now) for core in self._cores()], sum)


class _Metrics:
    """The metrics of all nodes, each the sum of theirs."""

    def __init__(self, cores: Callable[[], list[BrokerCore]]) -> None:
        self._cores = cores

    def read(self) -> dict[str, float]:
        """Return the sum of each metric over all nodes."""
        total: dict[str, float] = {}
        for core in self._cores():
            for name, value in core.metrics.read().items():
                total[name] = total.get(name, 0) + value
        return total


class _Topics:
    """The topics of a cluster, each partition at its leader."""

    def __init__(self, image: ClusterImage, leading: Leading, cores: Callable[[], list[BrokerCore]]) -> None:
        self._image, self._leading, self._cores = image, leading, cores

    def names(self) -> list[str]:
        return sorted(self._image.topics)

    def get(self, name: str) -> Topic | None:
        """Return a topic, as any node that is up has it. RuntimeError if all are stopped."""
        if name not in self._image.topics:
            return None
        topic = next(
            (known_topic for core in self._cores() if (known_topic := core.topics.get(name)) is not None),
            None,
        )
        if topic is None:
            raise NoLeaderError(f"no node that is up has topic {name}")
        return topic

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((topic.name for topic in self._image.topics.values() if topic.topic_id == topic_id), None)

    def partition(self, name: str, index: int) -> Partition | None:
        if self._image.state(name, index) is None:
            return None
        return self._leading(name, index).topics.partition(name, index)


class _Groups:
    """The groups of a cluster, each at its coordinator."""

    def __init__(self, image: ClusterImage, leading: Leading) -> None:
        self._image, self._leading = image, leading

    @property
    def topic_exists(self) -> bool:
        return OFFSETS_TOPIC in self._image.topics

    def _index(self, group_id: str) -> int:
        return partition_for(group_id, len(self._image.topics[OFFSETS_TOPIC].partitions))

    def core_of(self, group_id: str) -> BrokerCore:
        return self._leading(OFFSETS_TOPIC, self._index(group_id))

    def committed(self, group_id: str) -> dict[tuple[str, int], OffsetAndMetadata]:
        return self.core_of(group_id).shards.committed(group_id) if self.topic_exists else {}

    def shard_of(self, group_id: str, now: Now) -> HostedShard:
        return self.core_of(group_id).runtime.shard_of(group_id, now)

    def all_shards(self) -> Iterable[HostedShard]:
        """Return the shards of the offsets topic that their leaders host; see `lost_shards`."""
        shards = []
        for index in self._indexes():
            try:
                hosted = self._leading(OFFSETS_TOPIC, index).runtime.shards.get(index)
            except NoLeaderError:
                continue
            if hosted is not None:
                shards.append(hosted)
        return shards

    def lost_shards(self) -> dict[str, str]:
        """Return the partitions of the offsets topic that no node leads, and why nothing is known of their groups."""
        lost = {}
        for index in self._indexes():
            try:
                self._leading(OFFSETS_TOPIC, index)
            except NoLeaderError as error:
                lost[f"{OFFSETS_TOPIC}-{index}"] = str(error)
        return lost

    def _indexes(self) -> range:
        return range(len(self._image.topics[OFFSETS_TOPIC].partitions) if self.topic_exists else 0)
