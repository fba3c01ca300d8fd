"""Metrics of a broker, with Kafka's names; docs/metrics.md lists them.

The meters of KIP-496 are counted where decisions are made (coordinator/state/shard_state.py); a sample every 30 seconds
gives their rates. Gauges are counted when they are read.
Source: GroupCoordinatorMetrics, CoordinatorRuntimeMetricsImpl and Rate of Kafka 4.3.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kafka_offsets.clock import Now
from kafka_offsets.coordinator.state.classic_group import ClassicGroup, ClassicGroupState

if TYPE_CHECKING:
    from kafka_offsets.broker.groups.runtime import CoordinatorRuntime
    from kafka_offsets.broker.turn.scheduler import Scheduler
    from kafka_offsets.coordinator.shard import Shard

_WINDOW_MS = 30_000
_WINDOWS = 2
"""Kafka's metrics.sample.window.ms and metrics.num.samples: a rate is that of the last 30 to 60 seconds."""

_COUNTED_AT_ONCE = 10_000
"""Up to this many groups are counted at each read; more groups are counted once a minute, and reads get that count."""

_GROUPS_PER_STEP = 5_000

_SIMPLE = ClassicGroup.type_name, ClassicGroupState.EMPTY.value
"""Type and state of a group that only has offsets."""

_STEP_MS = 5
_COUNT_MS = 60_000

GROUP_COORDINATOR = "kafka.server:type=group-coordinator-metrics"
GROUP_METADATA = "kafka.coordinator.group:type=GroupMetadataManager"


class Metric(NamedTuple):
    """One number that can be read.

    name        Kafka's name
    tag         a tag and its value, which distinguish metrics of the same name; may be empty
    bean        the name of Kafka's JMX bean, without tags
    is_counter  whether it only grows while the broker runs
    meaning     in one line
    """

    name: str
    tag: tuple[str, str] | tuple[()]
    bean: str
    is_counter: bool
    meaning: str

    @property
    def key(self) -> str:
        """The key in `Broker.metrics`: `name` or `name{tag=value}`."""
        return f"{self.name}{{{'='.join(self.tag)}}}" if self.tag else self.name

    @property
    def prometheus_name(self) -> str:
        """The name that Prometheus' JMX exporter derives from it, in lower case."""
        domain, _, type_ = self.bean.partition(":type=")
        return f"{domain}_{type_}_{self.name}".replace(".", "_").replace("-", "_").lower()


_METERS = {
    "offset-commit": "offsets that were committed, each partition of a request counts",
    "offset-expiration": "offsets deleted because they were past their retention",
    "offset-deletion": "offsets deleted by a request, not with their group or topic",
    "group-completed-rebalance": "rebalances of classic groups that ended with an assignment",
    "consumer-group-rebalance": "rebalances of consumer groups, except those caused by a leaving member",
}
_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
_CONSUMER_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
_PARTITION_STATES = {
    "active": "partitions of the offsets topic that are loaded and serve requests",
    "loading": "partitions of the offsets topic that are being loaded",
    "failed": "partitions of the offsets topic whose log takes no more writes",
}


def _table() -> Iterator[Metric]:
    for name, meaning in _METERS.items():
        yield Metric(f"{name}-count", (), GROUP_COORDINATOR, True, f"{meaning}, since the start")
        yield Metric(f"{name}-rate", (), GROUP_COORDINATOR, False, f"{meaning}, per second, over 30 to 60 s")
    yield Metric("group-count", ("protocol", "classic"), GROUP_COORDINATOR, False, "classic groups")
    yield Metric("group-count", ("protocol", "consumer"), GROUP_COORDINATOR, False, "consumer groups")
    for state in _CONSUMER_STATES:
        tag = "state", state.lower()
        yield Metric(
            "consumer-group-count", tag, GROUP_COORDINATOR, False, f"consumer groups that are {state}"
        )
    for state, meaning in _PARTITION_STATES.items():
        yield Metric("num-partitions", ("state", state), GROUP_COORDINATOR, False, meaning)
    for name in ("avg", "max"):
        meaning = f"how long a partition of the offsets topic took to load, in ms: {name} since the start"
        yield Metric(f"partition-load-time-{name}", (), GROUP_COORDINATOR, False, meaning)
    yield Metric("NumOffsets", (), GROUP_METADATA, False, "committed offsets held")
    yield Metric("NumGroups", (), GROUP_METADATA, False, "classic groups")
    for state in _STATES:
        yield Metric(f"NumGroups{state}", (), GROUP_METADATA, False, f"classic groups that are {state}")


TABLE: tuple[Metric, ...] = tuple(_table())
"""All metrics, in the order of the documentation."""


class _Sample(NamedTuple):
    """The meters at one time."""

    mono_ms: int
    counts: tuple[int, ...]


class Metrics:
    """The numbers of one broker."""

    def __init__(self, runtime: CoordinatorRuntime, scheduler: Scheduler) -> None:
        self._runtime = runtime
        self._scheduler = scheduler
        self._samples: deque[_Sample] = deque(maxlen=_WINDOWS)
        self._last_count: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        """Take samples from now on."""
        now = self._scheduler.clock.now()
        self._sample(now)
        self._count_many(now)

    def read(self) -> dict[str, float]:
        """Return every number of TABLE by its key. Costs at most a few milliseconds."""
        hosted_shards = list(self._runtime.all_shards())
        values: dict[str, float] = {}
        counts = self._counts()
        for name, count, rate in zip(_METERS, counts, self._rates(counts), strict=True):
            values[f"{name}-count"], values[f"{name}-rate"] = count, rate
        failed = sum(hosted.failed for hosted in hosted_shards)
        loading = sum(hosted.is_loading for hosted in hosted_shards)
        values["num-partitions{state=active}"] = self._runtime.partition_count - failed - loading
        values["num-partitions{state=loading}"] = loading
        values["num-partitions{state=failed}"] = failed
        times = list(self._runtime.load_times_ms)
        values["partition-load-time-avg"] = sum(times) / len(times) if times else math.nan
        values["partition-load-time-max"] = max(times, default=math.nan)
        values["NumOffsets"] = sum(len(shard.offsets) for shard in self._shards())
        groups = self._groups()
        classic = {state: count for (type_, state), count in groups.items() if type_ == "classic"}
        values["group-count{protocol=classic}"] = values["NumGroups"] = sum(classic.values())
        for state in _STATES:
            values[f"NumGroups{state}"] = classic.get(state, 0)
        modern = {state: count for (type_, state), count in groups.items() if type_ == "consumer"}
        values["group-count{protocol=consumer}"] = sum(modern.values())
        for state in _CONSUMER_STATES:
            values[f"consumer-group-count{{state={state.lower()}}}"] = modern.get(state, 0)
        return {metric.key: values[metric.key] for metric in TABLE}

    # -- meters

    def _counts(self) -> tuple[int, ...]:
        meters = self._runtime.meters
        return (
            meters.offset_commits,
            meters.offset_expirations,
            meters.offset_deletions,
            meters.completed_rebalances,
            meters.consumer_rebalances,
        )

    def _sample(self, now: Now) -> None:
        self._samples.append(_Sample(now.mono_ms, self._counts()))
        self._scheduler.after_interval(_WINDOW_MS, self._sample)

    def _rates(self, counts: tuple[int, ...]) -> list[float]:
        """Return the growth per second since the oldest sample; as in Kafka, over at least one whole window."""
        oldest = self._samples[0]
        elapsed_ms = self._scheduler.clock.now().mono_ms - oldest.mono_ms
        if elapsed_ms < _WINDOW_MS:
            elapsed_ms += _WINDOW_MS
        return [
            (count - before) * 1000 / elapsed_ms for count, before in zip(counts, oldest.counts, strict=True)
        ]

    # -- groups by type and state

    def _shards(self) -> list[Shard]:
        """Return the shards that may be read: not those that another thread is loading."""
        return [hosted.shard for hosted in self._runtime.all_shards() if not hosted.is_loading]

    def _groups(self) -> Counter[tuple[str, str]]:
        shards = self._shards()
        if sum(shard.groups.most for shard in shards) > _COUNTED_AT_ONCE:
            return self._last_count
        counts = Counter({_SIMPLE: sum(len(shard.groups.simple()) for shard in shards)})
        counts.update(
            (group.type_name, group.state.value) for shard in shards for group in shard.groups.held.values()
        )
        return +counts

    def _count_many(self, now: Now) -> None:
        """Count the groups in small steps if there are many, and repeat that later."""
        counts: Counter[tuple[str, str]] = Counter()
        steps = self._steps(counts)

        def step(now: Now) -> None:
            """Count a part of the groups; the next part follows after a pause, the next count after an interval."""
            if next(steps, None) is None:
                self._last_count = counts
                self._scheduler.after_interval(_COUNT_MS, self._count_many)
            else:
                self._scheduler.at(now.mono_ms + _STEP_MS, step)

        step(now)

    def _steps(self, counts: Counter[tuple[str, str]]) -> Iterator[bool]:
        shards = self._shards()
        if sum(shard.groups.most for shard in shards) <= _COUNTED_AT_ONCE:
            return
        for shard in shards:
            counts[_SIMPLE] += len(shard.groups.simple())
            groups = iter(list(shard.groups.held.values()))
            while chunk := list(islice(groups, _GROUPS_PER_STEP)):
                counts.update((group.type_name, group.state.value) for group in chunk)
                yield True
