"""Metrics: those of a broker, and the offsets and lag of its groups, for Prometheus.

Names and labels of topics and groups are those of kminion (docs/metrics.md of redpanda-data/kminion); kminion has no
committed offset of a partition, which `kafka_offsets_group_committed_offset` is. prometheus-client is imported on use.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kafka_offsets import lag as rule
from kafka_offsets.broker.network.prometheus import Collector
from kafka_offsets.diagnosis.findings import Findings
from kafka_offsets.diagnosis.rules import RULES
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.testing.broker import Broker
from kafka_offsets.testing.contents.groups import GroupProgress, LogEnds, all_log_ends, group_progress

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

_PARTITION = ["topic_name", "partition_id"]
_GROUP_PARTITION = ["group_id", "topic_name", "partition_id"]
_GROUP_TOPIC = ["group_id", "topic_name"]


def read(broker: Broker) -> bytes:
    """Return all metrics of a broker in Prometheus' text format. Call it in any thread but the broker's."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(Collector(broker.metrics))
    registry.register(_Overviews(broker))
    return generate_latest(registry)


class _Overviews:
    """The collector of topics and groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the current metrics. They are read in parts, between which the broker serves its clients."""
        broker = self._broker
        groups = broker._groups_in_parts(group_progress)
        return [
            *_of_topics(broker._when_open(all_log_ends)),
            *_of_groups(groups),
            _of_findings(broker.why()),
        ]


def _of_findings(findings: Findings) -> GaugeMetricFamily:
    """Return how often each rule of docs/troubleshooting.md finds something."""
    from prometheus_client.core import GaugeMetricFamily

    gauge = GaugeMetricFamily(
        "kafka_offsets_findings", "what is stuck, by the rule that says why", labels=["finding"]
    )
    counts = Counter(finding.name for finding in findings)
    for rule_ in RULES:
        gauge.add_metric([rule_.name], counts[rule_.name])
    return gauge


def _of_topics(partitions: Mapping[TopicPartition, LogEnds]) -> list[GaugeMetricFamily]:
    from prometheus_client.core import GaugeMetricFamily

    low = GaugeMetricFamily("kminion_kafka_topic_partition_low_water_mark", "first offset", labels=_PARTITION)
    high = GaugeMetricFamily(
        "kminion_kafka_topic_partition_high_water_mark", "end of what consumers can read", labels=_PARTITION
    )
    for (topic, index), ends in partitions.items():
        low.add_metric([topic, str(index)], ends.log_start_offset)
        high.add_metric([topic, str(index)], ends.high_watermark)
    return [low, high]


def _of_groups(groups: list[GroupProgress]) -> list[GaugeMetricFamily]:
    """Return members, offsets and lag. As in kminion, no lag is negative; one that is not known has no value."""
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily
    members = family("kminion_kafka_consumer_group_members", "members of a group", labels=["group_id"])
    offset = family(
        "kafka_offsets_group_committed_offset", "committed offset of a group", labels=_GROUP_PARTITION
    )
    lag = family(
        "kminion_kafka_consumer_group_topic_partition_lag",
        "records that a group has not committed",
        labels=_GROUP_PARTITION,
    )
    offsets = family(
        "kminion_kafka_consumer_group_topic_offset_sum", "sum of a group's offsets", labels=_GROUP_TOPIC
    )
    lags = family("kminion_kafka_consumer_group_topic_lag", "sum of a group's lag", labels=_GROUP_TOPIC)
    for group in groups:
        name = group.view.group_id
        members.add_metric([name], len(group.view.members))
        lag_of = {
            topic_partition: rule.total([partition_lag])
            for topic_partition, partition_lag in group.lag.items()
            if partition_lag is not None
        }
        for (topic, index), committed in group.committed.items():
            offset.add_metric([name, topic, str(index)], committed)
        for (topic, index), records in lag_of.items():
            lag.add_metric([name, topic, str(index)], records)
        for sums, values in ((offsets, group.committed), (lags, lag_of)):
            for topic, total in _by_topic(values).items():
                sums.add_metric([name, topic], total)
    return [members, offset, lag, offsets, lags]


def _by_topic(values: dict[tuple[str, int], int]) -> dict[str, int]:
    sums: defaultdict[str, int] = defaultdict(int)
    for (topic, _), value in values.items():
        sums[topic] += value
    return sums
