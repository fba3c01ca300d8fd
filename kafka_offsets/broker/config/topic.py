"""The configuration of a topic: Kafka's keys, in Kafka's order, with Kafka's defaults and ranges.

All keys of a Kafka topic can be set and are described, because clients do both; `is_enforced` marks those that have an
effect. Without an override a topic uses the value of its `broker_key`, if the broker has that key.
Source: LogConfig.java of Kafka 4.3; the errors and their messages were recorded from a broker of that release.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from kafka_offsets.broker.config.keys import KEYS as BROKER_KEYS
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
from kafka_offsets.errors import ConfigError

_LONG_MAX = 9_223_372_036_854_775_807
_REPLICA = re.compile(r"[0-9]+:[0-9]+")


def _gzip_level(level: int) -> str | None:
    return None if level == -1 or 1 <= level <= 9 else "Value must be between 1 and 9 or equal to -1"


def _throttled(name: str) -> Any:
    def check(replicas: tuple[str, ...]) -> str | None:
        """Return Kafka's message if a replica is neither `*` nor partition:broker, else None."""
        if replicas == ("*",) or all(_REPLICA.fullmatch(replica) for replica in replicas):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return check


def _stored(kind: Type, default: object, doc: str, **rules: Any) -> Any:
    """Declare a key that is stored and described, but has no effect."""
    return setting(kind, default, doc, is_enforced=False, **rules)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The values of all keys of one topic. Make one with `TopicConfig.of`."""

    segment_bytes: int = setting(
        Type.INT,
        1_073_741_824,
        "The size at which a log rolls to a new segment.",
        at_least=1_048_576,
        broker_key="log.segment.bytes",
    )
    segment_ms: int = setting(
        Type.LONG,
        604_800_000,
        "The age at which a log rolls to a new segment.",
        at_least=1,
        broker_key="log.roll.ms",
    )
    segment_jitter_ms: int = _stored(
        Type.LONG, 0, "The maximum by which segment.ms is shortened.", at_least=0
    )
    segment_index_bytes: int = _stored(
        Type.INT, 10_485_760, "The largest index file.", at_least=4, broker_key="log.index.size.max.bytes"
    )
    flush_messages: int = _stored(
        Type.LONG,
        _LONG_MAX,
        "After how many records a log is synced to disk; see the broker's fsync.",
        at_least=1,
        broker_key="log.flush.interval.messages",
    )
    flush_ms: int = _stored(
        Type.LONG,
        _LONG_MAX,
        "After how long a log is synced to disk; see the broker's fsync.",
        at_least=0,
        broker_key="log.flush.interval.ms",
    )
    retention_bytes: int = setting(
        Type.LONG,
        -1,
        "The size of a log beyond which old segments are deleted; -1: no limit.",
        broker_key="log.retention.bytes",
    )
    retention_ms: int = setting(
        Type.LONG,
        604_800_000,
        "The age at which segments are deleted; -1: never.",
        at_least=-1,
        broker_key="log.retention.ms",
    )
    max_message_bytes: int = setting(
        Type.INT,
        1_048_588,
        "The largest record batch that Produce accepts.",
        at_least=0,
        broker_key="message.max.bytes",
    )
    index_interval_bytes: int = setting(
        Type.INT,
        4096,
        "About how many bytes of a log there are for each index entry.",
        at_least=0,
        broker_key="log.index.interval.bytes",
    )
    delete_retention_ms: int = setting(
        Type.LONG,
        86_400_000,
        "How long compaction keeps a tombstone.",
        at_least=0,
        broker_key="log.cleaner.delete.retention.ms",
    )
    min_compaction_lag_ms: int = setting(
        Type.LONG,
        0,
        "The minimum time for which a record remains uncompacted.",
        at_least=0,
        broker_key="log.cleaner.min.compaction.lag.ms",
    )
    max_compaction_lag_ms: int = setting(
        Type.LONG,
        _LONG_MAX,
        "The maximum time for which a record remains uncompacted.",
        at_least=1,
        broker_key="log.cleaner.max.compaction.lag.ms",
    )
    file_delete_delay_ms: int = _stored(
        Type.LONG,
        60_000,
        "How long a deleted file stays on disk.",
        at_least=0,
        broker_key="log.segment.delete.delay.ms",
    )
    min_cleanable_dirty_ratio: float = setting(
        Type.DOUBLE,
        0.5,
        "The share of a log that must be dirty before it is compacted.",
        at_least=0,
        at_most=1,
        broker_key="log.cleaner.min.cleanable.ratio",
    )
    cleanup_policy: tuple[str, ...] = setting(
        Type.LIST,
        ("delete",),
        "What happens to old records: delete, compact or both. With compact, Produce refuses records without a "
        "key.",
        choices=("compact", "delete"),
        broker_key="log.cleanup.policy",
    )
    unclean_leader_election_enable: bool = _stored(
        Type.BOOLEAN,
        False,
        "Whether a replica that is not in sync may become leader.",
        broker_key="unclean.leader.election.enable",
    )
    min_insync_replicas: int = setting(
        Type.INT,
        1,
        "The number of replicas that acks=all waits for; capped at the number of brokers.",
        at_least=1,
        broker_key="min.insync.replicas",
    )
    compression_type: str = setting(
        Type.STRING,
        "producer",
        "The compression of stored batches; producer: as the producer sent them.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        broker_key="compression.type",
    )
    compression_gzip_level: int = _stored(
        Type.INT,
        -1,
        "The level of gzip, 1 to 9; -1: the default of gzip.",
        check=_gzip_level,
        broker_key="compression.gzip.level",
    )
    compression_lz4_level: int = _stored(
        Type.INT, 9, "The level of lz4.", at_least=1, at_most=17, broker_key="compression.lz4.level"
    )
    compression_zstd_level: int = _stored(
        Type.INT, 3, "The level of zstd.", at_least=-131_072, at_most=22, broker_key="compression.zstd.level"
    )
    preallocate: bool = _stored(
        Type.BOOLEAN, False, "Whether files are created with their full size.", broker_key="log.preallocate"
    )
    message_timestamp_type: str = setting(
        Type.STRING,
        "CreateTime",
        "Whether records keep the producer's timestamp or get the time of the append.",
        choices=("CreateTime", "LogAppendTime"),
        broker_key="log.message.timestamp.type",
    )
    message_timestamp_before_max_ms: int = setting(
        Type.LONG,
        _LONG_MAX,
        "How far a record's timestamp may be in the past.",
        at_least=0,
        broker_key="log.message.timestamp.before.max.ms",
    )
    message_timestamp_after_max_ms: int = setting(
        Type.LONG,
        _LONG_MAX,
        "How far a record's timestamp may be in the future.",
        at_least=0,
        kafka_default=3_600_000,
        broker_key="log.message.timestamp.after.max.ms",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = _stored(
        Type.LIST,
        (),
        "Replicas that are throttled on the leader.",
        check=_throttled("leader.replication.throttled.replicas"),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = _stored(
        Type.LIST,
        (),
        "Replicas that are throttled on the follower.",
        check=_throttled("follower.replication.throttled.replicas"),
    )
    remote_storage_enable: bool = _stored(Type.BOOLEAN, False, "Tiered storage; refused when true.")
    local_retention_ms: int = _stored(
        Type.LONG, -2, "For tiered storage.", at_least=-2, broker_key="log.local.retention.ms"
    )
    local_retention_bytes: int = _stored(
        Type.LONG, -2, "For tiered storage.", at_least=-2, broker_key="log.local.retention.bytes"
    )
    remote_log_copy_disable: bool = _stored(Type.BOOLEAN, False, "For tiered storage.")
    remote_log_delete_on_disable: bool = _stored(Type.BOOLEAN, False, "For tiered storage.")
    internal_segment_bytes: int | None = setting(
        Type.INT,
        None,
        "Overrides segment.bytes, without its lower limit: for tests.",
        is_internal=True,
    )

    @classmethod
    def of(cls, config: Config, overrides: Mapping[str, str]) -> Self:
        """Return the configuration of a topic: the topic's overrides over the broker's values.

        Raises ConfigError with Kafka's message; see `check_topic_configs`.
        """
        values = {key.attribute: _inherited(config, key) for key in TOPIC_KEYS.values()}
        values.update(check_topic_configs(overrides))
        return cls(**values)

    @property
    def effective_segment_bytes(self) -> int:
        """The size at which a log rolls."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes


TOPIC_KEYS: dict[str, Key] = keys_of(TopicConfig)
"""The keys of a topic by name, in the order in which Kafka checks them."""


def check_topic_configs(overrides: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the values of a topic's overrides by attribute.

    Raises ConfigError for the first of them that Kafka would refuse with INVALID_CONFIG, with Kafka's message.
    """
    absent = sorted(name for name, text in overrides.items() if text is None)
    if absent:
        raise ConfigError(f"Null value not supported for topic configs: {','.join(absent)}")
    for name in overrides:
        if name not in TOPIC_KEYS:
            raise ConfigError(f"Unknown topic config name: {name}")
    values = {
        key.attribute: key.parse(overrides[name]) for name, key in TOPIC_KEYS.items() if name in overrides
    }
    _check_together(values)
    return values


def usable_configs(overrides: Mapping[str, str]) -> tuple[Mapping[str, str], list[str]]:
    """Return the overrides of a topic that can be used, and why each other one cannot: other programs wrote them."""
    usable: dict[str, str] = {}
    reasons = []
    for name, text in overrides.items():
        try:
            check_topic_configs({**usable, name: text})
        except ConfigError as error:
            reasons.append(str(error))
        else:
            usable[name] = text
    return usable, reasons


def _check_together(values: dict[str, Any]) -> None:
    low = values.get("min_compaction_lag_ms", 0)
    high = values.get("max_compaction_lag_ms", _LONG_MAX)
    if low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
    if values.get("remote_storage_enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def describe_topic(config: Config, overrides: Mapping[str, str]) -> list[Described]:
    """Return all keys of a topic with their values, as in a DescribeConfigs response."""
    return [
        _described(config, key, overrides.get(name))
        for name, key in TOPIC_KEYS.items()
        if not key.is_internal or name in overrides
    ]


def _described(config: Config, key: Key, override: str | None) -> Described:
    synonyms = _synonyms(config, key)
    value = text_of(_inherited(config, key))
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    if override is not None:
        value, source = text_of(key.parse(override)), ConfigSource.TOPIC  # "+5" and " 5 " are described as 5
        synonyms = (Synonym(key.name, value, source), *synonyms)
    return Described(key.name, value, False, source, key.kind, synonyms, key.doc)


def _synonyms(config: Config, key: Key) -> tuple[Synonym, ...]:
    """Return the broker's synonyms. Kafka's key is named even if this broker does not have it, with the default."""
    if key.broker_key is None:
        return ()
    if key.broker_key in BROKER_KEYS:
        return config.synonyms(key.broker_key)
    if key.name == "flush.ms":  # its broker key has no default in Kafka
        return ()
    return (Synonym(key.broker_key, text_of(key.default) or "", ConfigSource.DEFAULT),)


def _inherited(config: Config, key: Key) -> Any:
    if key.broker_key == "log.roll.ms":
        return config.roll_ms
    if key.broker_key == "log.retention.ms":
        return config.retention_ms
    return config.value(key.broker_key) if key.broker_key in BROKER_KEYS else key.default
