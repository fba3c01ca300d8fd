"""`kafka-offsets topics`: what is printed of topics, and how they are created, changed and deleted.

Source: TopicCommand and ConfigCommand of Kafka 4.3.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from kafka_offsets.client.admin_requests import topics as requests
from kafka_offsets.client.admin_requests.topics import NewTopic, TopicFacts
from kafka_offsets.client.cluster import NO_LEADER, ClusterClient
from kafka_offsets.commands.options.connections import Refusals, unknown_topic
from kafka_offsets.commands.output.tables import print_rows
from kafka_offsets.errors import ConfigError, ErrorCode, RefusedError
from kafka_offsets.terminal import note

_LISTED = {
    "topic": "TOPIC",
    "partitions": "PARTITIONS",
    "replication_factor": "REPLICATION-FACTOR",
    "topic_id": "TOPIC-ID",
}
_DESCRIBED = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "leader": "LEADER",
    "replicas": "REPLICAS",
    "isr": "ISR",
    "offline": "OFFLINE",
}
_CONFIGS = {"topic": "TOPIC", "key": "KEY", "value": "VALUE", "source": "SOURCE"}
_OF_THE_TOPIC = "topic"

Options = argparse.Namespace
Row = dict[str, Any]


def list_topics(options: Options) -> int:
    """Print the topics, with the number of their partitions."""
    with options.connections.cluster() as cluster:
        topics, refused = requests.describe(cluster)
    rows = [_head(topic) for topic in topics if not (topic.is_internal and options.exclude_internal)]
    if not rows and not refused:
        note("there are no topics")
    print_rows(_LISTED, rows, as_json=options.json)
    return _reported(refused)


def _head(topic: TopicFacts) -> Row:
    return {
        "topic": topic.topic,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(partition.replicas) for partition in topic.partitions), default=0),
    }


def _reported(refused: dict[str, ErrorCode]) -> int:
    refusals = Refusals()
    for topic, error in refused.items():
        refusals.add(f"topic {topic}: {error.name} ({error.value})")
    return refusals.code


def describe(options: Options) -> int:
    """Print the partitions of topics, of all if none is named; with --json an object for each topic."""
    names = _names(options)
    refusals, rows = Refusals(), []
    with options.connections.cluster() as cluster:
        topics, refused = requests.describe(cluster, names or None)
        for name in sorted(refused):
            if refused[name] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                refusals.add(unknown_topic(cluster, name))
                del refused[name]
        for topic in topics:
            if topic.is_internal and options.exclude_internal:
                continue
            partitions = [
                partition._asdict()
                for partition in topic.partitions
                if (not options.under_replicated_partitions or len(partition.isr) < len(partition.replicas))
                and (not options.unavailable_partitions or partition.leader == NO_LEADER)
            ]
            if options.json:
                rows.append(_head(topic) | {"partitions": partitions})
            else:
                rows += [_readable(topic.topic, partition) for partition in partitions]
    if not rows and not refusals.code and not refused:
        note("there are no such partitions" if topics else "there are no topics")
    columns = {
        key: heading
        for key, heading in _DESCRIBED.items()
        if key != "offline" or any(row.get(key) for row in rows)
    }
    print_rows(columns, rows, as_json=options.json)
    return max(refusals.code, _reported(refused))


def _readable(topic: str, partition: Row) -> Row:
    lists = {key: ",".join(map(str, partition[key])) for key in ("replicas", "isr", "offline")}
    leader = None if partition["leader"] == NO_LEADER else partition["leader"]
    return {"topic": topic, **partition, **lists, "leader": leader}


def _names(options: Options) -> list[str]:
    return list(dict.fromkeys([*options.topics, *options.more_topics]))


def create(options: Options) -> int:
    """Create topics."""
    assigned = None if options.replica_assignment is None else _assigned(options.replica_assignment)
    if assigned and (options.partitions is not None or options.replication_factor is not None):
        raise ConfigError("--replica-assignment excludes --partitions and --replication-factor")

    def make(cluster: ClusterClient, name: str) -> None:
        """Create a topic. Raises RefusedError."""
        partitions, replicas = (
            -1 if n is None else n for n in (options.partitions, options.replication_factor)
        )
        topic = NewTopic(name, partitions, replicas, dict(options.configs), assigned or ())
        try:
            requests.create(cluster, topic, only_check=options.dry_run)
        except RefusedError as error:
            if not (options.if_not_exists and error.error_code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise

    return _each(options, make)


def _assigned(text: str) -> list[list[int]]:
    """Parse the brokers of each partition, such as 1:2,2:3."""
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise ConfigError(f"--replica-assignment: {text} is not ID:ID,ID:ID…, such as 1:2,2:3") from None


def _each(options: Options, change: Callable[[ClusterClient, str], None]) -> int:
    """Change each named topic; one that is refused does not keep the others from it."""
    names = _names(options)
    if not names:
        raise ConfigError("name a topic")
    refusals = Refusals()
    with options.connections.cluster() as cluster:
        for name in names:
            try:
                change(cluster, name)
            except RefusedError as error:
                is_unknown = error.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                refusals.add(unknown_topic(cluster, name) if is_unknown else str(error))
    return refusals.code


def alter(options: Options) -> int:
    """Add partitions to topics."""
    return _each(options, lambda cluster, name: requests.add_partitions(cluster, name, options.partitions))


def delete(options: Options) -> int:
    """Delete topics."""

    def drop(cluster: ClusterClient, name: str) -> None:
        """Delete a topic. Raises RefusedError."""
        try:
            requests.delete(cluster, name)
        except RefusedError as error:
            if not (options.if_exists and error.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise

    return _each(options, drop)


def configs(options: Options) -> int:
    """Print the keys that topics set, or change them."""
    rows: list[Row] = []

    def show(cluster: ClusterClient, name: str) -> None:
        """Collect the keys of a topic. Raises RefusedError."""
        rows.extend(
            {"topic": name, **config._asdict()}
            for config in requests.configs(cluster, name)
            if options.all or config.source == _OF_THE_TOPIC
        )

    def change(cluster: ClusterClient, name: str) -> None:
        """Set and reset keys of a topic. Raises RefusedError."""
        requests.alter_configs(cluster, name, dict(options.configs), options.reset)

    if options.configs or options.reset:
        return _each(options, change)
    code = _each(options, show)
    if not rows and not code:
        note("no key is set; --all prints those of the brokers")
    print_rows(_CONFIGS, rows, as_json=options.json)
    return code
