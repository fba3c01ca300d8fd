"""Connections of the group commands, and the groups and partitions that their options choose."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

from kafka_offsets.client.cluster import WHOLE_TOPIC, ClusterClient, ListedGroup
from kafka_offsets.client.coordinator import Coordinator
from kafka_offsets.client.moves import MoveError
from kafka_offsets.errors import ErrorCode, KafkaOffsetsError, RefusedError, nearest_name
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.terminal import note

_NAMED = 10
"""How many partitions a line names."""

REFUSED = 1
"""Exit code when the broker refused a part of the request."""


def refused(message: str) -> int:
    """Report on standard error what was refused; return the exit code."""
    note(message)
    return REFUSED


class Refusals:
    """What is reported on standard error; `code` is the exit code that follows.

    groups, brokers  how many groups are not known, and how many brokers do not tell which ones they have
    """

    def __init__(self) -> None:
        self.code = self.groups = self.brokers = 0

    def add(self, message: str, *, counts: bool = True) -> None:
        """Report on standard error what was refused, or what is left out if it does not count."""
        note(message)
        if counts:
            self.code = REFUSED

    def add_group(self, group: str, error: KafkaOffsetsError) -> None:
        """Report a group of which nothing is known."""
        self.groups += 1
        self.add(f"group {group} is not known: {error}")

    def add_broker(self, node: int, error: KafkaOffsetsError) -> None:
        """Report a broker that does not tell which groups it has."""
        self.brokers += 1
        self.add(f"broker {node} does not tell which groups it coordinates: {error}")

    def add_offsets(self, group: str, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        """Report the partitions of a group whose committed offset the coordinator does not give."""
        for (topic, partition), error in sorted(errors.items()):
            what = f"the committed offset of {topic}-{partition} is not known"
            self.add(f"group {group}: {what}: {error.name} ({error.value})")

    def add_log_ends(self, errors: Mapping[TopicPartition, KafkaOffsetsError]) -> None:
        """Report the partitions whose log start and end are not known, one line for each reason."""
        reasons: dict[str, list[str]] = {}
        for (topic, partition), error in sorted(errors.items(), key=lambda each: each[0]):
            code = error.error_code if isinstance(error, RefusedError) else None
            reason = str(error) if code is None else f"{code.name} ({code.value})"
            place = f"topic {topic}" if partition == WHOLE_TOPIC else f"{topic}-{partition}"
            reasons.setdefault(reason, []).append(place)
        for reason, places in reasons.items():
            more = f", … ({len(places)})" if len(places) > _NAMED else ""
            self.add(f"the log end is not known of {', '.join(places[:_NAMED])}{more}: {reason}")


def chosen_groups(options: argparse.Namespace, refusals: Refusals | None = None) -> list[str]:
    """Return the groups of the options, each once. MoveError if none is named.

    refusals  gets the brokers that do not tell their groups; without it the first one is an error
    """
    named = list(dict.fromkeys([*options.groups, *options.more_groups]))
    if options.all_groups:
        if named:
            raise MoveError("--all-groups and names of groups exclude each other")
        with options.connections.cluster() as cluster:
            found = cluster.groups() if refusals is None else listed_groups(cluster, refusals)
        return [each.group for each in found]
    if not named:
        raise MoveError("name a group, or give --all-groups")
    return named


def listed_groups(cluster: ClusterClient, refusals: Refusals) -> list[ListedGroup]:
    """Return the groups of the brokers that tell theirs."""
    errors: dict[int, KafkaOffsetsError] = {}
    found = cluster.groups(errors)
    for node, error in sorted(errors.items()):
        refusals.add_broker(node, error)
    return found


def why_without_offsets(options: argparse.Namespace, coordinator: Coordinator) -> str:
    """Return why a group has no offsets, with a similar name if the group does not exist."""
    if coordinator.describe().state != "Dead":
        return coordinator.why_without_offsets()
    return unknown_group(options, coordinator.group)


def unknown_group(options: argparse.Namespace, group: str) -> str:
    """Return that a group does not exist, with the most similar one that does."""
    with options.connections.cluster() as cluster:
        return f"group {group} does not exist{nearest_name(group, [each.group for each in cluster.groups()])}"


def why_refused(options: argparse.Namespace, error: RefusedError, group: str) -> str:
    """Return why a request about a group was refused."""
    is_unknown = error.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    return unknown_group(options, group) if is_unknown else str(error)


def chosen_places(
    topics: Iterable[tuple[str, tuple[int, ...] | None]],
    cluster: ClusterClient,
    known: Iterable[TopicPartition],
) -> list[TopicPartition]:
    """Return the named partitions, all of a topic without numbers; `known` if no topic is named."""
    named = list(topics)
    if not named:
        return sorted(known)
    whole = [topic for topic, partitions in named if partitions is None]
    found = set(cluster.leaders(whole)) if whole else set()
    found.update(
        (topic, each) for topic, partitions in named if partitions is not None for each in partitions
    )
    return sorted(found)
