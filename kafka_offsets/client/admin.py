"""Admin client for groups: their committed offsets, their members, and what can be deleted of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_offsets.client.cluster import ListedGroup
from kafka_offsets.client.coordinator import Committed, Description
from kafka_offsets.client.settings import take_connection_settings
from kafka_offsets.errors import ConfigError, ErrorCode
from kafka_offsets.protocol.topic_partition import TopicPartition, names_in


class Admin:
    """An admin client for groups of consumers. Each call connects to the brokers that it needs.

    properties  bootstrap.servers, request.timeout.ms, default.api.timeout.ms, and the keys of TLS and SASL, as Kafka's
    ConfigError for other keys. All methods raise ConnectionLostError if no broker answers, and RefusedError for an
    error of the whole request.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        remaining = dict(properties)
        self._settings = take_connection_settings(remaining)
        if remaining:
            raise ConfigError(f"unknown keys of an admin client: {', '.join(sorted(map(str, remaining)))}")

    def delete_consumer_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Delete committed offsets; return the error code of each partition (KIP-496).

        GROUP_SUBSCRIBED_TO_TOPIC where a member subscribes to the topic: that offset stays. NONE also where nothing
        was committed. RefusedError with GROUP_ID_NOT_FOUND if there is no such group.
        """
        with self._settings.coordinator(group) as coordinator:
            return coordinator.delete_offsets(partitions)

    def delete_consumer_groups(self, groups: Iterable[str]) -> None:
        """Delete groups without members, with their offsets. RefusedError for the first that cannot be deleted."""
        for group in names_in(groups, "groups"):
            with self._settings.coordinator(group) as coordinator:
                coordinator.delete()

    def list_groups(self) -> list[ListedGroup]:
        """Return the groups of all brokers, sorted by name."""
        with self._settings.cluster() as cluster:
            return cluster.groups()

    def describe_consumer_group(self, group: str) -> Description:
        """Return state and members of a group."""
        with self._settings.coordinator(group) as coordinator:
            return coordinator.describe()

    def list_consumer_group_offsets(self, group: str) -> dict[TopicPartition, Committed]:
        """Return the committed offsets of a group."""
        with self._settings.coordinator(group) as coordinator:
            return coordinator.committed()

    def alter_consumer_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group without members. CommitRefusedError names the refused partitions."""
        with self._settings.coordinator(group) as coordinator:
            coordinator.commit(offsets, {})
