"""Connections of the group commands, and the groups and partitions that their options choose."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

from kafka_offsets.client.cluster import WHOLE_TOPIC, ClusterClient, ListedGroup
from kafka_offsets.client.coordinator import Coordinator, Description
from kafka_offsets.client.moves import MoveError
from kafka_offsets.diagnosis.findings import listed
from kafka_offsets.errors import ErrorCode, KafkaOffsetsError, RefusedError, unknown, unknown_partition
from kafka_offsets.protocol.topic_partition import TopicPartition
from kafka_offsets.terminal import note

MOST_NAMED = 10
"""How many groups or partitions a line names."""

REFUSED = 1
"""Exit code when the broker refused a part of the request."""


def refused(message: str) -> int:
    """Report on standard error what was refused; return the exit code."""
    note(message)
    return REFUSED


class NoTopicError(KafkaOffsetsError):
    """A topic that does not exist."""


def reason_of(error: KafkaOffsetsError) -> str:
    """Return why something is not known, in a word where a broker says so."""
    code = error.error_code if isinstance(error, RefusedError) else None
    return str(error) if code is None else f"{code.name} ({code.value})"


class Refusals:
    """What is reported on standard error; `code` is the exit code that follows.

    Lines that differ only in a name are one line when there are more than ten; `say` writes these lines.
    groups, brokers  how many groups are not known, and how many brokers do not tell which ones they have
    """

    def __init__(self) -> None:
        self.code = self.groups = self.brokers = 0
        self._like: dict[str, list[tuple[str, str]]] = {}

    def add(self, message: str, *, counts: bool = True) -> None:
        """Report on standard error what was refused, or what is left out if it does not count."""
        note(message)
        if counts:
            self.code = REFUSED

    def add_like(self, many: str, name: str, message: str, *, counts: bool) -> None:
        """Report later, as `message`, or if there are many with their names: `many` follows their number."""
        self._like.setdefault(many, []).append((name, message))
        if counts:
            self.code = REFUSED

    def say(self) -> None:
        """Write the lines that were kept."""
        for many, messages in self._like.items():
            if len(messages) > MOST_NAMED:
                note(f"{len(messages):,} {many}: {listed((name for name, _ in messages), MOST_NAMED)}")
                continue
            for _, message in messages:
                note(message)
        self._like.clear()

    def add_group(self, group: str, error: KafkaOffsetsError) -> None:
        """Report a group of which nothing is known."""
        self.groups += 1
        many = f"groups are not known for {reason_of(error)}"
        self.add_like(many, group, f"group {group} is not known: {error}", counts=True)

    def add_broker(self, node: int, error: KafkaOffsetsError) -> None:
        """Report a broker that does not tell which groups it has."""
        self.brokers += 1
        self.add(f"broker {node} does not tell which groups it coordinates: {error}")

    def add_offsets(self, group: str, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        """Report the partitions of a group whose committed offset the coordinator does not give."""
        for (topic, partition), error in sorted(errors.items()):
            reason = f"{error.name} ({error.value})"
            what = f"the committed offset of {topic}-{partition} is not known: {reason}"
            many = f"committed offsets are not known for {reason}"
            self.add_like(many, f"{group} of {topic}-{partition}", f"group {group}: {what}", counts=True)

    def add_log_ends(self, errors: Mapping[TopicPartition, KafkaOffsetsError]) -> None:
        """Report the partitions whose log start and end are not known, one line for each reason."""
        self._add_places("the log end is not known of", errors, counts=True)

    def add_producers(self, errors: Mapping[TopicPartition, KafkaOffsetsError]) -> None:
        """Report the partitions whose producers are not known."""
        self._add_places("the producers are not known of", errors, counts=True)

    def add_times(self, errors: Mapping[TopicPartition, KafkaOffsetsError]) -> None:
        """Report the partitions whose records are not read, so that it is not known since when a group lags."""
        self._add_places("it is not known since when a group lags in", errors, counts=False)

    def _add_places(
        self, what: str, errors: Mapping[TopicPartition, KafkaOffsetsError], *, counts: bool
    ) -> None:
        reasons: dict[str, list[str]] = {}
        for (topic, partition), error in sorted(errors.items(), key=lambda item: item[0]):
            name = f"topic {topic}" if partition == WHOLE_TOPIC else f"{topic}-{partition}"
            reasons.setdefault(reason_of(error), []).append(name)
        for reason, names in reasons.items():
            self.add(f"{what} {listed(names, MOST_NAMED)}: {reason}", counts=counts)


def chosen_groups(options: argparse.Namespace) -> list[str]:
    """Return the groups of the options, each once. MoveError if none is named."""
    named = list(dict.fromkeys([*options.groups, *options.more_groups]))
    if options.all_groups:
        if named:
            raise MoveError("--all-groups and names of groups exclude each other")
        with options.connections.cluster() as cluster:
            return [group.group for group in cluster.groups()]
    if not named:
        raise MoveError("name a group, or give --all-groups")
    return named


def listed_groups(cluster: ClusterClient, refusals: Refusals) -> list[ListedGroup]:
    """Return the groups of the brokers that tell theirs."""
    errors: dict[int, KafkaOffsetsError] = {}
    groups = cluster.groups(errors)
    for node, error in sorted(errors.items()):
        refusals.add_broker(node, error)
    return groups


def why_without_offsets(options: argparse.Namespace, coordinator: Coordinator) -> str:
    """Return why a group has no offsets, with a similar name if the group does not exist."""
    if coordinator.describe().state != "Dead":
        return f"group {coordinator.group!r} has committed nothing"
    return unknown_group(options, coordinator.group)


def unknown_group(options: argparse.Namespace, group: str) -> str:
    """Return that a group does not exist, with the most similar one that does."""
    with options.connections.cluster() as cluster:
        return unknown("group", group, [other.group for other in cluster.groups()])


def unknown_topic(cluster: ClusterClient, topic: str) -> str:
    """Return that a topic does not exist, with the most similar one that does."""
    return unknown("topic", topic, cluster.topic_names())


def unknown_place(cluster: ClusterClient, place: TopicPartition) -> str:
    """Return that a partition does not exist, or its topic."""
    return unknown_partition(*place, cluster.topics())


def why_refused(options: argparse.Namespace, error: RefusedError, coordinator: Coordinator) -> str:
    """Return why a request about a group was refused."""
    if error.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
        return unknown_group(options, coordinator.group)
    if error.error_code is ErrorCode.NON_EMPTY_GROUP:
        return f"{has_members(coordinator.group, coordinator.describe())} can be deleted"
    return str(error)


def has_members(group: str, found: Description) -> str:
    """Return that a group has members, as the begin of a sentence about groups without members."""
    count = len(found.members)
    members = f", with {count} member{'s' * (count != 1)}" if count else ""
    return f"group {group} is {found.state}{members}: only a group without members"


def chosen_places(
    topics: Iterable[tuple[str, tuple[int, ...] | None]],
    cluster: ClusterClient,
    known: Iterable[TopicPartition],
) -> list[TopicPartition]:
    """Return the named partitions, all of a topic without numbers; `known` if no topic is named.

    Raises NoTopicError for a whole topic that does not exist, and RefusedError.
    """
    named = list(topics)
    if not named:
        return sorted(known)
    whole = [topic for topic, partitions in named if partitions is None]
    try:
        chosen = set(cluster.leaders(whole)) if whole else set()
    except RefusedError as error:
        existing = cluster.topic_names()
        missing = next((topic for topic in whole if topic not in existing), None)
        if error.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or missing is None:
            raise
        raise NoTopicError(unknown_topic(cluster, missing)) from error
    chosen.update(
        (topic, partition)
        for topic, partitions in named
        if partitions is not None
        for partition in partitions
    )
    return sorted(chosen)
