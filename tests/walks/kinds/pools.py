"""What the fields of a drawn request are drawn from, by their names: what is known, and what is not.

A key is the name of a field, or `Api.field`, or `Api.Struct.field` where it means something of its own. Of two lists
the first has the usual values. `{of}` in a text is a client: `$member.{of}` is its member id.
"""

from typing import Any, NamedTuple

from kafka_offsets.protocol.codecs.schema import Field
from tests.walks.kinds.shared import GROUP, TOPIC

TIMEOUT_MS = 5000
MINUTE_MS = 60_000
LARGE = 1 << 20
MOST = 2**31 - 1
LONGEST = 2**63 - 1
FIRST_MS = 1_700_000_000_000
ZERO_ID = {"$bytes": "\0" * 16}
NO_PRODUCER = 5_000_000


class Pool(NamedTuple):
    """The usual values of a field, and the odd ones."""

    usual: list[Any]
    odd: list[Any]


def _batch(**more: Any) -> dict[str, Any]:
    return {"$batch": {"values": ["one", "two"]} | more}


def _of_producer(**more: Any) -> dict[str, Any]:
    own = {
        "producer_id": "$producer.x",
        "producer_epoch": "$producer_epoch.x",
        "base_sequence": "$sequence.x/0",
    }
    return _batch(**own | {"transactional": True} | more)


BOOLEAN = Pool([False, True], [])
GROUPS = Pool([GROUP], ["@h", "@never", ""])
NAMED_GROUPS = Pool(
    [GROUP], ["@h"]
)  # offsets make a group, and the one without a name would be that of all walks
TOPICS = Pool([TOPIC, TOPIC, "@u"], ["@never", "", "a b"])
READ_TOPICS = Pool([TOPIC, "@u", "orders"], ["@never", "", "a b"])
TOPIC_IDS = Pool([TOPIC, TOPIC, "@u"], ["@never", ZERO_ID])
PARTITIONS = Pool([0, 0, 1, 2], [3, -1, MOST])
TRANSACTIONAL = Pool(["@x"], ["@y", "@never", ""])
PRODUCERS = Pool(["$producer.x"], [NO_PRODUCER, 0, -1, -2, LONGEST])
EPOCHS = Pool(["$producer_epoch.x"], ["$producer_epoch.x-1", "$producer_epoch.x+1", 0, -1, -2, 32767])
MEMBERS = Pool(["$member.{of}"], ["", "nobody", "$member.b"])
INSTANCES = Pool([None], ["i-{of}", "i-b", ""])
GENERATIONS = Pool(
    ["$generation.{of}", "$epoch.{of}", -1], [0, -2, 1, "$epoch.{of}-1", "$generation.{of}+1", MOST]
)
LEADER_EPOCHS = Pool([-1, 0], [1, -2, MOST])
CONFIGS = Pool(["retention.ms", "max.message.bytes", "cleanup.policy"], ["nonsense", "", "segment.bytes"])
VALUES = Pool(["3600000", "compact", None], ["", "-1", "-2", "x", "99999999999999999999"])
ACL_KINDS = Pool([2, 3], [0, 1, 4, 5, 6, 7, 77, -1])
BROKERS = Pool([1], [9, -1])
NOBODY = Pool(["@someone"], ["", "@other"])
TIMES = Pool([MINUTE_MS], [0, -1, -2, LONGEST])

POOLS: dict[str, Pool] = {
    "acks": Pool([-1, 1], [2, -2]),
    "assignment": Pool([{"$bytes": "all"}, {"$bytes": ""}], []),
    "auth_bytes": Pool([{"$bytes": "\0a\0a"}, {"$bytes": ""}], []),
    "allow_auto_topic_creation": Pool([False], [True]),
    "broker_id": Pool([9], [-1, 0, MOST]),
    "broker_ids": BROKERS,
    "client_software_name": Pool(["play"], ["", "a b", "-play", "play."]),
    "client_software_version": Pool(["1.0"], ["", "1 0"]),
    "cluster_id": Pool([None], ["other", ""]),
    "commit_timestamp": Pool([-1], [0, FIRST_MS, -2]),
    "committed_leader_epoch": LEADER_EPOCHS,
    "committed_metadata": Pool(["", "note"], [None, "long metadata"]),
    "committed_offset": Pool([0, 5, 99], [-1, -2, LONGEST]),
    "config_operation": Pool([0], [1, 2, 3, 7, -1]),
    "configuration_keys": CONFIGS,
    "coordinator_epoch": Pool([0], [1, -1, 5]),
    "coordinator_keys": Pool([GROUP, "@x"], ["", "@never"]),
    "count": Pool([4, 5], [0, -1, 1, 3]),
    "current_leader_epoch": LEADER_EPOCHS,
    "duration_filter": Pool([-1], [0, 3_600_000, LONGEST, -2]),
    "election_type": Pool([0], [1, 2, -1]),
    "enable2_pc": Pool([False], []),
    "endpoint_type": Pool([1], [0, 2, 3, -1]),
    "entity_name": NOBODY,
    "entity_type": Pool(["user", "client-id"], ["", "ip", "nonsense"]),
    "expiry_time_period_ms": TIMES,
    "fetch_offset": Pool([0, 1, 2], [-1, 4, 99, LONGEST]),
    "generation_id": GENERATIONS,
    "generation_id_or_member_epoch": GENERATIONS,
    "group_id": GROUPS,
    "OffsetCommit.group_id": NAMED_GROUPS,
    "TxnOffsetCommit.group_id": NAMED_GROUPS,
    "AddOffsetsToTxn.group_id": NAMED_GROUPS,
    "group_ids": GROUPS,
    "group_instance_id": INSTANCES,
    "groups": GROUPS,
    "groups_names": GROUPS,
    "high_watermark": Pool([-1], [0, LONGEST]),
    "hmac": Pool([{"$bytes": "hmac"}, {"$bytes": ""}], []),
    "host": Pool(["*", "127.0.0.1"], ["", "no"]),
    "host_filter": Pool([None, "*"], ["", "no"]),
    "include_documentation": Pool([False], []),  # its words are those of each broker
    "index": PARTITIONS,
    "instance_id": INSTANCES,
    "isolation_level": Pool([0, 1], [2, -1]),
    "iterations": Pool([4096], [0, -1, 4095, 16_384, 16_385]),
    "keep_prepared_txn": Pool([False], []),
    "key": Pool([GROUP, "@x"], ["", "@never"]),
    "AlterClientQuotas.key": Pool(
        ["producer_byte_rate", "request_percentage"], ["", "nonsense", "consumer_byte_rate"]
    ),
    "key_type": Pool([0, 1], [3, 7, -1]),
    "last_fetched_epoch": Pool([-1, 0], [5, -2]),
    "leader_epoch": LEADER_EPOCHS,
    "log_start_offset": Pool([-1, 0], [-2, 5, LONGEST]),
    "match": NOBODY,
    "match_type": Pool([0], [1, 3, -1]),
    "max_bytes": Pool([1 << 26, LARGE], [0, -1, 100]),
    "max_lifetime_ms": TIMES,
    "max_wait_ms": Pool([0], [-1]),
    "mechanism": Pool([1, 2], [0, 3, -1]),
    "SaslHandshake.mechanism": Pool(["PLAIN"], ["", "no"]),
    "member_epoch": Pool(["$epoch.{of}", -1], [0, -2, -3, "$epoch.{of}-1", "$epoch.{of}+1", MOST]),
    "ConsumerGroupHeartbeat.member_epoch": Pool(
        ["$epoch.{of}", 0], [-1, -2, -3, "$epoch.{of}+1", "$epoch.{of}-1"]
    ),
    "member_id": MEMBERS,
    "ConsumerGroupHeartbeat.member_id": Pool(["$member.{of}", "m-{of}"], ["", "nobody", " "]),
    "metadata": Pool([{"$subscription": ["orders"]}], [{"$bytes": ""}, {"$bytes": "\0"}]),
    "min_bytes": Pool([0, 1], [-1]),
    "name": TOPICS,
    "JoinGroup.name": Pool(["range"], ["roundrobin", ""]),
    "CreateTopics.CreatableTopicConfig.name": CONFIGS,
    "AlterConfigs.name": CONFIGS,
    "IncrementalAlterConfigs.name": CONFIGS,
    "DescribeUserScramCredentials.name": NOBODY,
    "AlterUserScramCredentials.name": NOBODY,
    "CreateTopics.name": Pool(["@n", "@m"], [TOPIC, "", "a b", ".", "@" + "x" * 250]),
    "num_partitions": Pool([1, 2, -1], [0, -2, MOST]),
    "offset": Pool([0, 1, -1], [-2, 99, LONGEST]),
    "operation": ACL_KINDS,
    "owner_principal_name": Pool([None], ["@someone", ""]),
    "owner_principal_type": Pool([None], ["User", ""]),
    "partition": PARTITIONS,
    "partition_index": PARTITIONS,
    "DescribeTopicPartitions.partition_index": Pool([0, 1], [3]),
    "partition_indexes": PARTITIONS,
    "partition_max_bytes": Pool([LARGE], [0, -1, 100]),
    "partitions": PARTITIONS,
    "path": Pool(["/nowhere"], ["", "relative"]),
    "pattern_type_filter": Pool([3, 1], [0, 2, 4, 7, -1]),
    "permission_type": Pool([3, 2], [0, 1, 7, -1]),
    "principal": Pool(["User:someone"], ["", "someone"]),
    "principal_filter": Pool([None, "User:someone"], ["", "someone"]),
    "principal_name": NOBODY,
    "principal_type": Pool(["User"], ["", "Group"]),
    "producer_epoch": EPOCHS,
    "producer_id": PRODUCERS,
    "WriteTxnMarkers.producer_id": Pool(["$producer.x"], [NO_PRODUCER, 0, LONGEST]),
    "WriteTxnMarkers.producer_epoch": Pool(["$producer_epoch.x"], [0, 1, 32767]),
    "producer_id_filters": PRODUCERS,
    "protocol_name": Pool(["range", "$protocol.{of}", None], ["", "other"]),
    "protocol_type": Pool(["consumer"], ["", "connect"]),
    "SyncGroup.protocol_type": Pool(["consumer", None], ["", "connect"]),
    "rack_id": Pool([""], ["r"]),
    "ConsumerGroupHeartbeat.rack_id": Pool([None], ["", "r"]),
    "reason": Pool([None], ["", "why"]),
    "rebalance_timeout_ms": Pool([MINUTE_MS], [0, -1]),
    "records": Pool(
        [_batch(), _of_producer(), _of_producer(transactional=False)],
        [
            {"$bytes": ""},
            {"$bytes": "no batch"},
            _of_producer(base_sequence=7),
            _of_producer(producer_epoch=9),
        ],
    ),
    "renew_period_ms": TIMES,
    "replica_directory_id": Pool([ZERO_ID], []),
    "replica_epoch": Pool([-1], [0]),
    "replica_id": Pool([-1], [-2, -3, 9]),
    "replicas": BROKERS,
    "replication_factor": Pool([1, -1], [0, 2, -2]),
    "resource_name": Pool([TOPIC, "@u"], ["@never", "", "9"]),
    "resource_name_filter": Pool([None, TOPIC], ["", "@never"]),
    "resource_pattern_type": Pool([3, 4], [0, 1, 2, 7, -1]),
    "resource_type": Pool([2], [4, 8, 32, 0, 77, -1]),
    "CreateAcls.resource_type": ACL_KINDS,
    "resource_type_filter": ACL_KINDS,
    "resource_types": Pool([8], [4, 0, 77, -1]),
    "response_partition_limit": Pool([2000, 1, 2], [0, -1, MOST]),
    "retention_time_ms": Pool([-1], [0, MINUTE_MS * 60, -2]),
    "salt": Pool([{"$bytes": "salt"}], [{"$bytes": ""}]),
    "salted_password": Pool([{"$bytes": "p" * 32}], [{"$bytes": ""}]),
    "server_assignor": Pool([None, "uniform"], ["range", "best", ""]),
    "session_epoch": Pool([-1, 0, "$session_epoch.{of}"], [1, -2, MOST]),
    "session_id": Pool([0, "$session.{of}"], [7, -1]),
    "session_timeout_ms": Pool([MINUTE_MS], [0, -1, 99, MOST]),
    "state_filters": Pool(["Ongoing", "Empty"], ["no", ""]),
    "states_filter": Pool(["Stable", "Empty"], ["no", "", "stable"]),
    "subscribed_topic_names": Pool(["orders", TOPIC], ["", "@never", "a b"]),
    "subscribed_topic_regex": Pool([None], ["", "[a", "@u.*"]),
    "timeout_ms": Pool([TIMEOUT_MS], []),
    "timestamp": Pool([-1, -2, FIRST_MS], [-3, -4, -5, -6, -7, 0, LONGEST]),
    "topic": TOPICS,
    "topic_id": TOPIC_IDS,
    "topic_name": TOPICS,
    "topic_names": TOPICS,
    "transaction_timeout_ms": Pool([MINUTE_MS], [0, -1, MINUTE_MS + 1]),
    "transaction_version": Pool([0, 1, 2], [3, -1]),
    "transactional_id": TRANSACTIONAL,
    "InitProducerId.transactional_id": Pool(["@x", None], ["@y", ""]),
    "InitProducerId.producer_id": Pool([-1, "$producer.x"], [NO_PRODUCER, 0, -2]),
    "InitProducerId.producer_epoch": Pool([-1, "$producer_epoch.x"], ["$producer_epoch.x-1", 0, -2]),
    "Produce.transactional_id": Pool(["@x", None], ["@never", ""]),
    "transactional_id_pattern": Pool([None], ["", "(", ".*"]),
    "transactional_ids": TRANSACTIONAL,
    "types_filter": Pool(["classic", "consumer"], ["no", "", "Classic"]),
    "v3_and_below_producer_epoch": EPOCHS,
    "v3_and_below_producer_id": PRODUCERS,
    "v3_and_below_transactional_id": TRANSACTIONAL,
    "value": VALUES,
    "AlterClientQuotas.value": Pool([1000.0], [0.0, -1.0, 0.5]),
}
"""By field, or by `Api.field`, or by `Api.Struct.field`."""

READERS = (
    "DescribeLogDirs",
    "DescribeProducers",
    "DescribeQuorum",
    "DescribeTopicPartitions",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetDelete",
    "OffsetFetch",
    "OffsetForLeaderEpoch",
    "TxnOffsetCommit",
)
"""What changes no topic may name those of all walks."""


def pool(api: str, struct: str, field: Field) -> Pool:
    """Return what a field is drawn from. Raises KeyError."""
    for name in (f"{api}.{struct}.{field.name}", f"{api}.{field.name}", field.name):
        if name in POOLS:
            return READ_TOPICS if POOLS[name] is TOPICS and api in READERS else POOLS[name]
    if field.type == "bool":
        return BOOLEAN
    raise KeyError(f"{api}.{struct}.{field.name}")
