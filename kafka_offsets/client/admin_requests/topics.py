"""Topics: which exist, where their partitions are, and what creates, changes and deletes them.

Source: KIP-4, KIP-133 (configurations), KIP-195 (partitions), KIP-339 (incremental changes).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka_offsets.client.cluster import ClusterClient
from kafka_offsets.client.connection import Connection
from kafka_offsets.errors import ErrorCode, RefusedError
from kafka_offsets.protocol import messages

_METADATA, _CREATE, _DELETE, _DESCRIBE_CONFIGS, _CREATE_PARTITIONS, _ALTER_CONFIGS = 3, 19, 20, 32, 37, 44
_LATEST = {
    _METADATA: 12,
    _CREATE: 7,
    _DELETE: 5,
    _DESCRIBE_CONFIGS: 4,
    _CREATE_PARTITIONS: 3,
    _ALTER_CONFIGS: 1,
}
_TOPIC, _NO_ID = 2, bytes(16)
_SET, _RESET = 0, 1
_TIMEOUT_MS = 30_000

SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "file",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}
"""Where the value of a key is from, by its number. Source: DescribeConfigsResponse.ConfigSource."""


class PartitionFacts(NamedTuple):
    """A partition; leader -1: there is none now."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class TopicFacts(NamedTuple):
    """A topic; topic_id as Kafka prints it, empty from a broker before Kafka 2.8."""

    topic: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionFacts, ...]


class ConfigValue(NamedTuple):
    """The value of a key; None: not set, or not shown."""

    key: str
    value: str | None
    source: str
    is_sensitive: bool
    is_read_only: bool


class NewTopic(NamedTuple):
    """A topic to create; -1: as the broker is configured. `replicas`: those of each partition, in place of numbers."""

    topic: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}
    replicas: Sequence[Sequence[int]] = ()


def _version(broker: Connection, key: int) -> int:
    return min(broker.latest_version(key), _LATEST[key])


def describe(
    cluster: ClusterClient, names: Iterable[str] | None = None
) -> tuple[list[TopicFacts], dict[str, ErrorCode]]:
    """Return topics, sorted, all without names, and the error of each that cannot be described."""
    made = messages.MetadataRequest
    topics = None if names is None else [made.Topic(name=name) for name in sorted(set(names))]

    def ask(broker: Connection) -> Any:
        return broker.call(made(topics, False), _version(broker, _METADATA))

    facts, refused = [], {}
    for topic in sorted(cluster.ask_any(ask).topics, key=lambda described_topic: described_topic.name):
        if topic.error_code:
            refused[topic.name] = ErrorCode(topic.error_code)
            continue
        partitions = (
            PartitionFacts(
                partition.partition_index,
                partition.leader_id,
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
                tuple(partition.offline_replicas),
            )
            for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
        )
        topic_id = "" if topic.topic_id == _NO_ID else _text_of(topic.topic_id)
        facts.append(TopicFacts(topic.name, topic_id, topic.is_internal, tuple(partitions)))
    return facts, refused


def _text_of(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def create(cluster: ClusterClient, topic: NewTopic, *, only_check: bool = False) -> None:
    """Create a topic. Raises RefusedError, with the broker's message."""
    made = messages.CreateTopicsRequest
    assignments = [
        made.CreatableReplicaAssignment(index, list(brokers)) for index, brokers in enumerate(topic.replicas)
    ]
    creatable_topic = made.CreatableTopic(
        topic.topic,
        -1 if assignments else topic.partitions,
        -1 if assignments else topic.replication_factor,
        assignments,
        [made.CreatableTopicConfig(*item) for item in topic.configs.items()],
    )

    def ask(broker: Connection) -> None:
        response = broker.call(made([creatable_topic], _TIMEOUT_MS, only_check), _version(broker, _CREATE))
        _check(f"topic {topic.topic}", response.topics[0])

    cluster.ask_controller(ask)


def delete(cluster: ClusterClient, topic: str) -> None:
    """Delete a topic. Raises RefusedError."""

    def ask(broker: Connection) -> None:
        request = messages.DeleteTopicsRequest(topic_names=[topic], timeout_ms=_TIMEOUT_MS)
        _check(f"topic {topic}", broker.call(request, _version(broker, _DELETE)).responses[0])

    cluster.ask_controller(ask)


def add_partitions(cluster: ClusterClient, topic: str, count: int) -> None:
    """Add partitions to a topic, so that it has `count`. Raises RefusedError."""
    made = messages.CreatePartitionsRequest

    def ask(broker: Connection) -> None:
        request = made([made.CreatePartitionsTopic(topic, count, None)], _TIMEOUT_MS, False)
        _check(f"topic {topic}", broker.call(request, _version(broker, _CREATE_PARTITIONS)).results[0])

    cluster.ask_controller(ask)


def configs(cluster: ClusterClient, topic: str) -> list[ConfigValue]:
    """Return all keys of a topic, sorted. Raises RefusedError."""
    made = messages.DescribeConfigsRequest

    def ask(broker: Connection) -> Any:
        request = made([made.DescribeConfigsResource(_TOPIC, topic, None)])
        (result,) = broker.call(request, _version(broker, _DESCRIBE_CONFIGS)).results
        _check(f"topic {topic}", result)
        return result.configs

    return sorted(
        ConfigValue(
            config.name,
            config.value,
            SOURCES.get(config.config_source, "unknown"),
            config.is_sensitive,
            config.read_only,
        )
        for config in cluster.ask_any(ask)
    )


def alter_configs(
    cluster: ClusterClient, topic: str, wanted: Mapping[str, str], reset: Iterable[str]
) -> None:
    """Set keys of a topic, and set others back to their defaults, all or none. Raises RefusedError."""
    made = messages.IncrementalAlterConfigsRequest
    changes = [made.AlterableConfig(key, _SET, value) for key, value in wanted.items()]
    changes += [made.AlterableConfig(key, _RESET, None) for key in reset]

    def ask(broker: Connection) -> None:
        request = made([made.AlterConfigsResource(_TOPIC, topic, changes)], False)
        _check(f"topic {topic}", broker.call(request, _version(broker, _ALTER_CONFIGS)).responses[0])

    cluster.ask_controller(ask)


def _check(what: str, response: Any) -> None:
    if response.error_code:
        message = getattr(response, "error_message", None)
        raise RefusedError(f"{what}: {message.rstrip('.')}" if message else what, response.error_code)
