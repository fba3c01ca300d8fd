"""The configuration of a broker: Kafka's keys, their defaults here, and where their values come from.

The fields of :class:`Config` are the table of keys; `docs/configuration.md` is printed from it. It contains exactly the
keys that have an effect; the other keys of Kafka are in `unfollowed_keys`. If a default differs from Kafka's,
`kafka_default` is Kafka's, and ``profile="kafka"`` uses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path
from typing import Any, Self

from kafka_offsets.broker.config.checks import known_assignors, known_policy, one_directory
from kafka_offsets.broker.config.combinations import check_together
from kafka_offsets.broker.config.configured_values import configured_values
from kafka_offsets.broker.config.security_keys import SecurityKeys, take_listener_values
from kafka_offsets.broker.config.types import (
    ConfigSource,
    Described,
    Key,
    Synonym,
    Type,
    keys_of,
    setting,
    shown_text,
)

PROFILES = ("test", "kafka")
_INT_MAX = 2_147_483_647
_LONG_MAX = 9_223_372_036_854_775_807
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Settings with keys in several units, the finest first: the first key that is set is used."""


@dataclass(frozen=True, slots=True)
class Config(SecurityKeys):
    """The values of all keys; an attribute for each, with underscores for dots. Make one with `Config.load`.

    given  the keys that were set explicitly
    """

    profile: str = setting(
        Type.STRING,
        "test",
        "test: starts and rebalances immediately. kafka: every default is Kafka's.",
        choices=PROFILES,
        is_ours=True,
    )

    # The broker and its addresses.
    node_id: int = setting(Type.INT, 1, "The id of this broker; broker.id is a synonym.", at_least=0)
    log_dirs: tuple[str, ...] | None = setting(
        Type.LIST,
        None,
        "The data directory, exactly one, like --data-dir; log.dir is a synonym. If not set, data is in memory.",
        check=one_directory,
    )

    # Connections and requests.
    socket_request_max_bytes: int = setting(
        Type.INT, 104_857_600, "The largest request; a larger one closes its connection.", at_least=1
    )
    connections_max_idle_ms: int = setting(
        Type.LONG, 600_000, "A connection that is idle for this long is closed; a negative value means never."
    )
    max_connections: int = setting(Type.INT, _INT_MAX, "The maximum number of open connections.", at_least=0)
    max_connections_per_ip: int = setting(
        Type.INT, _INT_MAX, "The maximum number of open connections from one address.", at_least=0
    )
    quota_window_num: int = setting(
        Type.INT,
        11,
        "The number of windows in which the use of a quota is measured, including the one under way.",
        at_least=1,
    )
    quota_window_size_seconds: int = setting(Type.INT, 1, "The length of such a window.", at_least=1)
    controller_quota_window_num: int = setting(
        Type.INT,
        11,
        "A client may exceed its controller_mutation_rate at once by what it allows in this number of windows.",
        at_least=1,
    )
    controller_quota_window_size_seconds: int = setting(
        Type.INT, 1, "The length of such a window.", at_least=1
    )
    fetch_max_bytes: int = setting(
        Type.INT, 57_671_680, "The maximum number of bytes that one Fetch returns.", at_least=1024
    )
    fetch_wait_ends_at_next_request: bool = setting(
        Type.BOOLEAN,
        True,
        "Whether a Fetch that waits for records is answered when the next request arrives on its connection. In Kafka "
        "the next request waits. Clients that look for a coordinator on that connection take seconds longer.",
        kafka_default=False,
        is_ours=True,
    )
    fetch_first_wait_ms: int = setting(
        Type.INT,
        5,
        "How long the first Fetch of a connection for a set of partitions waits for records at most; each further one "
        "waits up to four times as long, and none longer than it asks for. With 0, as in Kafka, or with `min_bytes` "
        "above 1, each waits as long as it asks for: a client with one Fetch for all partitions of a broker cannot add "
        "those to it whose positions it learns meanwhile.",
        at_least=0,
        kafka_default=0,
        is_ours=True,
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        Type.INT, 1000, "The maximum number of incremental fetch sessions.", at_least=0
    )

    # Topics. Keys that a topic can override are also in the table of topic configs.
    auto_create_topics_enable: bool = setting(
        Type.BOOLEAN, True, "Whether Metadata creates missing topics, if the client allows it."
    )
    delete_topic_enable: bool = setting(Type.BOOLEAN, True, "Whether DeleteTopics may delete topics.")
    num_partitions: int = setting(
        Type.INT, 1, "The number of partitions of a topic that is created without one.", at_least=1
    )
    default_replication_factor: int = setting(
        Type.INT,
        1,
        "The replication factor of a topic that is created without one; capped at the number of brokers.",
        at_least=1,
    )
    broker_session_timeout_ms: int = setting(
        Type.INT,
        9000,
        "In a cluster: a broker that is cut off from the controller for this long leads nothing.",
    )
    replica_lag_time_max_ms: int = setting(
        Type.LONG,
        30_000,
        "A follower that has not had all records of its leader for this long leaves the in-sync replicas.",
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        Type.LONG, 5000, "How often the high watermarks of replicated partitions are written."
    )
    replica_fetch_max_bytes: int = setting(
        Type.INT, 1 << 20, "How many bytes a follower fetches of one partition.", at_least=0
    )
    replica_fetch_wait_max_ms: int = setting(
        Type.INT, 500, "How long a leader waits for records before it answers a follower."
    )
    replica_fetch_min_bytes: int = setting(
        Type.INT, 1, "How many bytes a leader waits for before it answers a follower."
    )
    replica_fetch_response_max_bytes: int = setting(
        Type.INT, 10 << 20, "How many bytes a follower fetches at once.", at_least=0
    )
    replica_fetch_backoff_ms: int = setting(
        Type.INT, 1000, "How long a follower pauses after an error of its leader.", at_least=0
    )
    min_insync_replicas: int = setting(
        Type.INT,
        1,
        "The number of replicas that acks=all waits for; capped at the number of brokers.",
        at_least=1,
    )
    message_max_bytes: int = setting(
        Type.INT, 1_048_588, "The largest record batch that Produce accepts.", at_least=0
    )
    log_message_timestamp_type: str = setting(
        Type.STRING,
        "CreateTime",
        "Whether records keep the producer's timestamp or get the time of the append.",
        choices=("CreateTime", "LogAppendTime"),
    )
    log_message_timestamp_before_max_ms: int = setting(
        Type.LONG, _LONG_MAX, "How far a record's timestamp may be in the past.", at_least=0
    )
    log_message_timestamp_after_max_ms: int = setting(
        Type.LONG,
        _LONG_MAX,  # a test may freeze the time of its clients
        "How far a record's timestamp may be in the future.",
        at_least=0,
        kafka_default=3_600_000,
    )
    compression_type: str = setting(
        Type.STRING,
        "producer",
        "The compression of stored batches; producer: as the producer sent them.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    )
    log_segment_bytes: int = setting(
        Type.INT, 1_073_741_824, "The size at which a log rolls to a new segment.", at_least=1_048_576
    )
    log_roll_ms: int | None = setting(
        Type.LONG, None, "The age at which a log rolls to a new segment; overrides log.roll.hours."
    )
    log_roll_hours: int = setting(
        Type.INT, 168, "The same in hours; used if log.roll.ms is not set.", at_least=1
    )
    log_index_interval_bytes: int = setting(
        Type.INT, 4096, "About how many bytes of a log there are for each index entry.", at_least=0
    )

    # Retention and compaction, of which a topic can override most.
    log_cleanup_policy: tuple[str, ...] = setting(
        Type.LIST,
        ("delete",),
        "What happens to old records: delete, compact or both. With compact, Produce refuses records without a "
        "key.",
        choices=("compact", "delete"),
    )
    log_retention_bytes: int = setting(
        Type.LONG, -1, "The size of a log beyond which old segments are deleted; -1: no limit."
    )
    log_retention_ms: int | None = setting(
        Type.LONG,
        None,
        "The age at which segments are deleted; -1: never. Overrides log.retention.minutes, which overrides "
        "log.retention.hours.",
    )
    log_retention_minutes: int | None = setting(Type.INT, None, "The same in minutes.")
    log_retention_hours: int = setting(
        Type.INT, 168, "The same in hours; used if neither of the others is set."
    )
    log_retention_check_interval_ms: int = setting(
        Type.LONG, 300_000, "How often the broker looks for segments to delete by size or age.", at_least=1
    )
    log_cleaner_enable: bool = setting(
        Type.BOOLEAN, True, "Whether topics with cleanup.policy=compact are compacted."
    )
    log_cleaner_backoff_ms: int = setting(
        Type.LONG, 15_000, "How long the cleaner sleeps when no log is dirty enough.", at_least=0
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        Type.LONG,
        134_217_728,
        "About how much memory the keys of one pass of compaction may take; the rest waits for the next pass.",
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        Type.DOUBLE,
        0.5,
        "The share of a log that must be dirty before it is compacted.",
        at_least=0,
        at_most=1,
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        Type.LONG, 0, "The minimum time for which a record remains uncompacted.", at_least=0
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        Type.LONG, _LONG_MAX, "The maximum time for which a record remains uncompacted.", at_least=1
    )
    log_cleaner_delete_retention_ms: int = setting(
        Type.LONG, 86_400_000, "How long compaction keeps a tombstone.", at_least=0
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        Type.INT,
        60_000,
        "How often the recovery points are written: up to there a log is on the disk, and no crash can have torn "
        "it.",
        at_least=0,
    )
    producer_id_expiration_ms: int = setting(
        Type.INT, 86_400_000, "How long compaction keeps the last batch of an idle producer.", at_least=1
    )

    # The offsets topic.
    offsets_topic_num_partitions: int = setting(
        Type.INT, 50, "Partitions of the offsets topic; fixed once the topic exists.", at_least=1
    )
    offsets_topic_replication_factor: int = setting(
        Type.SHORT, 3, "Replicas of the offsets topic; capped at the number of brokers.", at_least=1
    )
    offsets_topic_segment_bytes: int = setting(
        Type.INT, 104_857_600, "segment.bytes of the offsets topic.", at_least=1
    )
    offsets_topic_compression_codec: int = setting(
        Type.INT,
        0,
        "Compression of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        at_least=0,
        at_most=4,
    )
    offsets_commit_timeout_ms: int = setting(
        Type.INT,
        5000,
        "How long a commit waits until the in-sync replicas have it before its client gets an error.",
        at_least=1,
    )
    offset_metadata_max_bytes: int = setting(
        Type.INT, 4096, "The maximum length of a committed offset's metadata, in characters.", at_least=0
    )

    # Groups.
    offsets_retention_minutes: int = setting(
        Type.INT,
        10_080,
        "How long an unused offset is kept: since its group became empty, or since its commit if that time is "
        "unknown or the group's consumers do not read its topic.",
        at_least=1,
    )
    offsets_retention_check_interval_ms: int = setting(
        Type.LONG, 600_000, "How often the broker looks for expired offsets.", at_least=1
    )
    group_min_session_timeout_ms: int = setting(
        Type.INT,
        100,
        "The shortest session timeout that a member may request.",
        at_least=0,
        kafka_default=6000,
    )
    group_max_session_timeout_ms: int = setting(
        Type.INT, 1_800_000, "The longest session timeout that a member may request.", at_least=0
    )
    group_initial_rebalance_delay_ms: int = setting(
        Type.INT,
        0,
        "How long an empty group waits for more members before its first rebalance.",
        at_least=0,
        kafka_default=3000,
    )
    group_max_size: int = setting(
        Type.INT, _INT_MAX, "The maximum number of members of a classic group.", at_least=1
    )
    group_consumer_session_timeout_ms: int = setting(
        Type.INT,
        45_000,
        "A member of a consumer group is removed if it sends no heartbeat for this long.",
        at_least=1,
    )
    group_consumer_min_session_timeout_ms: int = setting(
        Type.INT,
        100,
        "The shortest value of group.consumer.session.timeout.ms, also for a single group.",
        at_least=1,
        kafka_default=45_000,
    )
    group_consumer_max_session_timeout_ms: int = setting(
        Type.INT,
        60_000,
        "The longest value of group.consumer.session.timeout.ms, also for a single group.",
        at_least=1,
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        Type.INT,
        500,
        "The heartbeat interval of members of consumer groups. They learn of changes in the response to a heartbeat.",
        at_least=1,
        kafka_default=5000,
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        Type.INT,
        100,
        "The shortest value of group.consumer.heartbeat.interval.ms, also for a single group.",
        at_least=1,
        kafka_default=5000,
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        Type.INT,
        15_000,
        "The longest value of group.consumer.heartbeat.interval.ms, also for a single group.",
        at_least=1,
    )
    group_consumer_max_size: int = setting(
        Type.INT, _INT_MAX, "The maximum number of members of a consumer group.", at_least=1
    )
    group_consumer_assignors: tuple[str, ...] = setting(
        Type.LIST,
        ("uniform", "range"),
        "The assignors that members of consumer groups may choose; the first one is the default.",
        check=known_assignors,
    )
    group_consumer_migration_policy: str = setting(
        Type.STRING,
        "bidirectional",
        "Which groups with members change their type when members of the other protocol join, or the last of "
        "them leave: classic groups (upgrade), consumer groups (downgrade), both (bidirectional) or none "
        "(disabled).",
        check=known_policy,
    )
    group_consumer_assignment_interval_ms: int = setting(
        Type.INT,
        0,
        "The minimum time between two assignments of a consumer group. With 256 members or more, it is at least a "
        "millisecond for each 8 members.",
        at_least=0,
        kafka_default=1000,
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        Type.INT,
        600_000,
        "The maximum time between two evaluations of the regular expressions of consumer groups; a new topic "
        "causes one sooner.",
        at_least=10_000,
    )

    # Transactions.
    transaction_state_log_num_partitions: int = setting(
        Type.INT, 50, "Partitions of the transaction topic; fixed once the topic exists.", at_least=1
    )
    transaction_state_log_replication_factor: int = setting(
        Type.SHORT, 3, "Replicas of the transaction topic; capped at the number of brokers.", at_least=1
    )
    transaction_state_log_min_isr: int = setting(
        Type.INT,
        2,
        "min.insync.replicas of the transaction topic; capped at the number of brokers.",
        at_least=1,
    )
    transaction_state_log_segment_bytes: int = setting(
        Type.INT, 104_857_600, "segment.bytes of the transaction topic.", at_least=1
    )
    transaction_max_timeout_ms: int = setting(
        Type.INT, 900_000, "The longest transaction timeout that a producer may request.", at_least=1
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        Type.INT, 10_000, "How often the broker looks for transactions that have timed out.", at_least=1
    )
    transactional_id_expiration_ms: int = setting(
        Type.INT, 604_800_000, "How long an unused transactional id is kept.", at_least=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        Type.INT, 3_600_000, "How often the broker looks for expired transactional ids.", at_least=1
    )

    # Keys that Kafka does not have.
    fsync: str = setting(
        Type.STRING,
        "never",
        "When appended records are synced to disk: never (as in Kafka, the operating system decides), every "
        "fsync.interval.ms (interval), or before each commit is acknowledged (commit).",
        choices=("never", "interval", "commit"),
        is_ours=True,
    )
    fsync_interval_ms: int = setting(
        Type.LONG,
        1000,
        "With fsync=interval: how long a record may wait for the sync.",
        at_least=1,
        is_ours=True,
    )
    log_memory_max_bytes: int | None = setting(
        Type.LONG,
        None,
        "In memory: how many bytes the logs of the broker may take together; beyond that Produce gets "
        "KAFKA_STORAGE_ERROR (56) until records or topics are deleted. A segment takes at most a sixteenth of it. "
        "Default: a quarter of the memory of the machine, or of its control group if that has less, for all brokers "
        "of a cluster together.",
        at_least=1,
        is_ours=True,
    )
    recovery: str = setting(
        Type.STRING,
        "strict",
        "What happens to a log with a damaged batch: strict refuses the log, keep-valid moves the batch to a "
        "separate file.",
        choices=("strict", "keep-valid"),
        is_ours=True,
    )
    offset_storage: str = setting(
        Type.STRING,
        "log",
        "Where committed offsets are stored: log (the offsets topic) or zookeeper (znodes of Kafka's old consumers).",
        choices=("log", "zookeeper"),
        is_ours=True,
    )
    zookeeper_connect: str | None = setting(
        Type.STRING,
        None,
        "The servers of ZooKeeper, HOST:PORT,HOST:PORT/PATH: for serve --zookeeper and offset.storage=zookeeper.",
        is_ours=True,
    )
    zookeeper_session_timeout_ms: int = setting(
        Type.INT, 18_000, "The session timeout that ZooKeeper is asked for.", at_least=1, is_ours=True
    )
    zookeeper_connection_timeout_ms: int | None = setting(
        Type.INT, None, "How long requests wait for a connection; default: the session timeout.", is_ours=True
    )
    zookeeper_group_metadata_enable: bool = setting(
        Type.BOOLEAN,
        False,
        "Whether classic groups are in ZooKeeper too, with its offsets, as JSON.",
        is_ours=True,
    )
    group_consumer_regex_pause_ms: int = setting(
        Type.INT,
        500,
        "The minimum time between two evaluations of the regular expressions of a consumer group; in Kafka this "
        "cannot be set.",
        at_least=0,
        kafka_default=10_000,
        is_ours=True,
    )
    group_rebalance_signal: str = setting(
        Type.STRING,
        "heartbeat",
        "How members of classic groups learn that a rebalance has begun. heartbeat: REBALANCE_IN_PROGRESS in the next "
        "heartbeat, as in Kafka. close: the broker closes their connection at once.",
        choices=("heartbeat", "close"),
        is_ours=True,
    )
    group_assignment_by_coordinator: bool = setting(
        Type.BOOLEAN,
        False,
        "Whether the coordinator assigns the partitions of classic groups of consumers, and begins a rebalance when "
        "their topics change. It runs the assignor that the group chose: range, roundrobin, sticky or "
        "cooperative-sticky; other groups are assigned by their leader, as in Kafka.",
        is_ours=True,
    )
    offsets_commit_owner_check: bool = setting(
        Type.BOOLEAN,
        False,
        "Whether a member may commit only for its assigned partitions; others get TOPIC_AUTHORIZATION_FAILED "
        "(29).",
        is_ours=True,
    )
    offsets_commit_all_or_none: bool = setting(
        Type.BOOLEAN,
        False,
        "Whether an OffsetCommit with a refused partition commits nothing; its other partitions then get "
        "OPERATION_NOT_ATTEMPTED (55). Otherwise the others are committed, as in Kafka.",
        is_ours=True,
    )
    offsets_commit_unknown_topics: bool = setting(
        Type.BOOLEAN,
        False,
        "Whether offsets of topics and partitions that do not exist can be committed; otherwise they get "
        "UNKNOWN_TOPIC_OR_PARTITION (3).",
        is_ours=True,
    )
    offsets_commit_while_loading: bool = setting(
        Type.BOOLEAN,
        False,
        "Whether commits are accepted while their group is loaded, from any client, and override the loaded "
        "offsets; otherwise they get COORDINATOR_LOAD_IN_PROGRESS (14), as in Kafka.",
        is_ours=True,
    )
    offsets_forward: bool = setting(
        Type.BOOLEAN,
        False,
        "Whether a broker of a cluster passes commits, fetches and deletions of offsets on to the coordinator of "
        "their group; otherwise they get NOT_COORDINATOR (16), as in Kafka.",
        is_ours=True,
    )
    offsets_fetch_members_only: bool = setting(
        Type.BOOLEAN,
        False,
        "Whether OffsetFetch of a group with members is refused with UNKNOWN_MEMBER_ID (25) unless a member sends "
        "it. A request without a member id is from a member of a classic group if it comes on its connection.",
        is_ours=True,
    )
    offsets_load_before_listening_bytes: int = setting(
        Type.LONG,
        67_108_864,
        "How many bytes of the offsets topic are loaded before the broker listens: whole partitions, the "
        "smallest first. The others are loaded afterwards, a small one also while a large one is.",
        at_least=0,
        is_ours=True,
    )
    queued_max_response_bytes: int = setting(
        Type.LONG,
        268_435_456,
        "The memory for Fetch responses that clients have not read yet, of all connections together. The less of "
        "it is free, the less one Fetch returns, but always at least one batch.",
        at_least=0,
        is_ours=True,
    )
    auto_create_topics_delay_ms: int = setting(
        Type.INT,
        0,
        "How long a topic that Metadata creates is reported as UNKNOWN_TOPIC_OR_PARTITION (3), so that clients "
        "retry. In Kafka this is the time that the controller needs.",
        at_least=0,
        kafka_default=100,
        is_ours=True,
    )
    coordinator_warm: bool = setting(
        Type.BOOLEAN,
        True,
        "Whether the first FindCoordinator succeeds; a new Kafka broker returns COORDINATOR_NOT_AVAILABLE (15) "
        "while it creates the offsets topic.",
        kafka_default=False,
        is_ours=True,
    )

    given: frozenset[str] = field(default=frozenset(), repr=False)

    @classmethod
    def load(
        cls,
        overrides: Mapping[str, object] | None = None,
        properties_file: Path | None = None,
        profile: str | None = None,
        *,
        warns: bool = True,
    ) -> Self:
        """Build a configuration: `overrides` override the file, which overrides the profile's defaults.

        overrides  Kafka's keys to texts or to values of the right Python type
        profile    overrides the file's key `profile`, but not the one in `overrides`
        warns      whether to log which keys have no effect: not where another load of the same keys does
        Raises ConfigError for an unknown key, a value out of range, or a file that cannot be read.
        """
        if profile is not None:
            overrides = {"profile": profile} | dict(overrides or {})
        values = configured_values(KEYS, properties_file, overrides or {}, warns=warns)
        given_names = frozenset(values)
        if values.get("profile") == "kafka":
            values = {name: key.kafka_default for name, key in KEYS.items()} | values
        of_listeners = take_listener_values(values)
        loaded = cls(
            **{KEYS[name].attribute: value for name, value in values.items()},
            given=given_names,
            of_listeners=of_listeners,
        )
        loaded.endpoints()
        check_together(loaded)
        if warns:
            loaded.warn_of_listeners()
        return loaded

    def data_directory(self) -> Path | None:
        """Return the data directory according to `log.dirs`, or None to keep everything in memory."""
        return None if self.log_dirs is None else Path(self.log_dirs[0])

    @property
    def roll_ms(self) -> int:
        """The age at which a log rolls to a new segment, by log.roll.ms or else log.roll.hours."""
        return self.log_roll_hours * _HOUR_MS if self.log_roll_ms is None else self.log_roll_ms

    @property
    def retention_ms(self) -> int:
        """The age at which old segments are deleted, -1: never, by the finest log.retention.* key that is set."""
        retention_ms = self.log_retention_ms
        if retention_ms is None:
            minutes = self.log_retention_minutes
            retention_ms = self.log_retention_hours * _HOUR_MS if minutes is None else minutes * _MINUTE_MS
        return max(retention_ms, -1)

    def value(self, name: str) -> Any:
        """Return the value of a key by Kafka's name. Raises KeyError for a name that is not in the table."""
        return getattr(self, KEYS[name].attribute)

    def default_of(self, name: str) -> object:
        """Return the default that a key has in this configuration's profile."""
        return KEYS[name].kafka_default if self.profile == "kafka" else KEYS[name].default

    def describe(self) -> list[Described]:
        """Return all keys with their values, as in a DescribeConfigs response for the broker."""
        return [self._described(key) for key in config_table()]

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """Return the possible sources of a key's value, the effective one first.

        For a time with keys in several units Kafka begins with the key itself: a key that is not set has no synonyms.
        """
        names = next((family for family in _FAMILIES if name in family), (name,))
        sources = [
            (key_name, self.value(key_name), ConfigSource.STATIC_BROKER)
            for key_name in names
            if key_name in self.given
        ]
        sources += [(key_name, self.default_of(key_name), ConfigSource.DEFAULT) for key_name in names]
        synonyms = (
            Synonym(key_name, shown_text(value), source)
            for key_name, value, source in sources
            if value is not None
        )
        return tuple(dropwhile(lambda synonym: synonym.name != name, synonyms))

    def _described(self, key: Key) -> Described:
        source = ConfigSource.STATIC_BROKER if key.name in self.given else ConfigSource.DEFAULT
        value = shown_text(self.value(key.name))
        return Described(key.name, value, True, source, key.kind, self.synonyms(key.name), key.doc)


_SECURITY = keys_of(SecurityKeys)

KEYS: dict[str, Key] = {
    name: key for name, key in keys_of(Config).items() if name not in _SECURITY
} | _SECURITY
"""The keys of a broker by name; those of listeners and of security are last."""


def config_table() -> tuple[Key, ...]:
    """Return the keys of a broker, in the order of the table."""
    return tuple(KEYS.values())
