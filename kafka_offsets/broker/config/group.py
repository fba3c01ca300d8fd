"""The configuration of single groups: Kafka's keys for consumer groups, each over the broker's value (KIP-848).

A group need not exist to be configured, and its configuration outlives it. A change takes effect with the next
heartbeat of each member. Source: GroupConfig.java of Kafka 4.3; the errors and their messages were recorded from a
broker of that release. Keys of share and streams groups are missing, because these groups are not supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.config.types import (
    ConfigSource,
    Described,
    Key,
    Synonym,
    Type,
    keys_of,
    setting,
    text_of,
)
from kafka_offsets.coordinator.state.shard_state import GroupSettings
from kafka_offsets.errors import ConfigError
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.storage.directory.data_directory import DataDirectory

MOST_GROUPS = 1000
"""Maximum number of groups with a configuration: all are in one file, which is written at each change."""

_MOST_ASSIGNMENT_INTERVAL_MS = 15_000
"""Kafka's default of group.consumer.max.assignment.interval.ms."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The keys of one group; the values are defaults of the broker's keys."""

    consumer_session_timeout_ms: int = setting(
        Type.INT,
        45_000,
        "How long a member of the group may be silent.",
        at_least=1,
        broker_key="group.consumer.session.timeout.ms",
    )
    consumer_heartbeat_interval_ms: int = setting(
        Type.INT,
        5000,
        "The heartbeat interval that members of the group receive.",
        at_least=1,
        broker_key="group.consumer.heartbeat.interval.ms",
    )
    consumer_assignment_interval_ms: int = setting(
        Type.INT,
        1000,
        "How long after one assignment the group waits until the next.",
        at_least=0,
        broker_key="group.consumer.assignment.interval.ms",
    )


GROUP_KEYS: dict[str, Key] = keys_of(GroupConfig)
"""The keys of a group by name."""


def check_group_configs(config: Config, overrides: Mapping[str, str]) -> dict[str, int]:
    """Return the values of a group's overrides by attribute. Raises ConfigError with Kafka's words."""
    for name in overrides:
        if name not in GROUP_KEYS:
            raise ConfigError(f"Unknown group config name: {name}")
    values = {
        key.attribute: key.parse(overrides[name]) for name, key in GROUP_KEYS.items() if name in overrides
    }
    for name in ("heartbeat.interval", "session.timeout"):
        value = values.get(f"consumer_{name.replace('.', '_')}_ms")
        if value is not None:
            least, most = (f"group.consumer.{end}.{name}.ms" for end in ("min", "max"))
            _check_range(f"consumer.{name}.ms", value, least, config.value(least), most, config.value(most))
    interval_ms = values.get("consumer_assignment_interval_ms")
    if interval_ms is not None and interval_ms > _MOST_ASSIGNMENT_INTERVAL_MS:
        raise ConfigError(
            "consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms"
        )
    silent_ms = values.get("consumer_session_timeout_ms", config.group_consumer_session_timeout_ms)
    if silent_ms <= values.get("consumer_heartbeat_interval_ms", config.group_consumer_heartbeat_interval_ms):
        raise ConfigError("consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms")
    return values


def _check_range(name: str, value: int, least: str, at_least: int, most: str, at_most: int) -> None:
    if value < at_least:
        raise ConfigError(f"{name} must be greater than or equal to {least}")
    if value > at_most:
        raise ConfigError(f"{name} must be less than or equal to {most}")


def group_settings(config: Config) -> GroupSettings:
    """Return the part of a broker's configuration that decisions use."""
    is_compressed = Compression(config.offsets_topic_compression_codec) is not Compression.NONE
    return GroupSettings(
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
        consumer_assignors=config.group_consumer_assignors,
        consumer_migration_policy=config.group_consumer_migration_policy.lower(),
        consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        consumer_regex_pause_ms=config.group_consumer_regex_pause_ms,
        group_rebalance_closes=config.group_rebalance_signal == "close",
        group_assigns=config.group_assignment_by_coordinator,
        max_record_bytes=None if is_compressed else config.message_max_bytes,
        offsets_commit_owner_check=config.offsets_commit_owner_check,
        offsets_commit_all_or_none=config.offsets_commit_all_or_none,
        offsets_commit_unknown_topics=config.offsets_commit_unknown_topics,
    )


class GroupConfigs:
    """The configurations of groups, stored in the data directory.

    settings  effective settings of the configured groups, for their shards: kept up to date
    """

    def __init__(self, directory: DataDirectory, config: Config) -> None:
        self._directory, self._config = directory, config
        self._base = group_settings(config)
        self.settings: dict[str, GroupSettings] = {}
        for group, configs in directory.group_configs.items():
            self._apply(group, configs)

    def of(self, group: str) -> Mapping[str, str]:
        """Return the overrides of a group."""
        return self._directory.group_configs.get(group, {})

    def check(self, group: str, configs: Mapping[str, str]) -> None:
        """Raise ConfigError, with Kafka's message if Kafka has one, when a configuration is not valid."""
        check_group_configs(self._config, configs)
        stored = self._directory.group_configs
        if configs and group not in stored and len(stored) >= MOST_GROUPS:
            raise ConfigError(f"{MOST_GROUPS} groups have a configuration, the most allowed")

    def set(self, group: str, configs: Mapping[str, str]) -> None:
        """Configure a group; the configuration must be checked. On StorageError nothing changes."""
        self._directory.set_group_configs(group, configs)
        self._apply(group, configs)

    def _apply(self, group: str, configs: Mapping[str, str]) -> None:
        """Apply a configuration. One that the broker's keys no longer allow is ignored as a whole."""
        try:
            values: dict[str, Any] = check_group_configs(self._config, configs)
        except ConfigError:
            values = {}
        if values:
            self.settings[group] = replace(self._base, **values)
        else:
            self.settings.pop(group, None)

    def describe(self, group: str) -> list[Described]:
        """Return all keys of a group with their values, as in a DescribeConfigs response."""
        configs = self.of(group)
        return [self._described(key, configs.get(name)) for name, key in GROUP_KEYS.items()]

    def _described(self, key: Key, override: str | None) -> Described:
        assert key.broker_key is not None
        synonyms = self._config.synonyms(key.broker_key)
        value, source = text_of(self._config.value(key.broker_key)), synonyms[0].source
        if override is not None:
            value, source = str(key.parse(override)), ConfigSource.GROUP
            synonyms = (Synonym(key.name, value, source), *synonyms)
        return Described(key.name, value, False, source, key.kind, synonyms, key.doc)
