"""THE table: every API that this broker serves, its versions, its handler, and its error response."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from kafka_offsets.broker.api import (
    cluster_admin,
    config_admin,
    credentials,
    fetch,
    groups,
    log_offsets,
    metadata,
    produce,
    topic_admin,
)
from kafka_offsets.broker.api import quotas as admin_quotas
from kafka_offsets.broker.api import replicas as admin_replicas
from kafka_offsets.broker.api import transaction_admin as txn_admin
from kafka_offsets.broker.api import transactions as txns
from kafka_offsets.broker.api.commit_shapes import CommitShapes
from kafka_offsets.broker.api.kept_responses import kept_while, kept_without_error
from kafka_offsets.broker.api.produce_shapes import ProduceShapes
from kafka_offsets.broker.context.shard_requests import in_shard
from kafka_offsets.broker.gates import acl_requests, authentication, token_requests
from kafka_offsets.broker.wire import rights
from kafka_offsets.broker.wire.api import GROUP, GROUPS, PARTITIONS, TRANSACTION, Api, Apis
from kafka_offsets.coordinator import group_requests
from kafka_offsets.coordinator.classic import join, membership, sync
from kafka_offsets.coordinator.consumer import heartbeat as consumer_heartbeat
from kafka_offsets.coordinator.offsets import deletion
from kafka_offsets.coordinator.offsets import requests as offsets
from kafka_offsets.protocol.mirroring.refusals import refuse_throughout

# fmt: off
SERVED = Apis((
    Api(0, "Produce", (0, 13), produce.produce, produce.RIGHTS, produce.fail_produce, addresses=PARTITIONS,
        pipelined=True, shortcut=ProduceShapes),
    Api(1, "Fetch", (4, 18), fetch.fetch, rights.BY_HANDLER, fetch.fail_fetch, addresses=PARTITIONS,
        end_wait=fetch.end_wait),
    Api(2, "ListOffsets", (1, 11), log_offsets.list_offsets, rights.DESCRIBE_TOPICS, addresses=PARTITIONS,
        has_leader_epochs=True, shortcut=kept_while(log_offsets.unchanged_end)),
    Api(3, "Metadata", (0, 13), metadata.metadata, rights.BY_HANDLER, metadata.fail_metadata,
        shortcut=kept_without_error("topics")),
    Api(8, "OffsetCommit", (0, 10), in_shard(offsets.commit), rights.COMMIT, addresses=GROUP, pipelined=True,
        echoed=True, forwarded=True, shortcut=CommitShapes),
    Api(9, "OffsetFetch", (0, 10), groups.offset_fetch, groups.FETCH_RIGHTS, addresses=GROUPS, forwarded=True,
        shortcut=kept_while(groups.unchanged_offsets)),
    Api(10, "FindCoordinator", (0, 6), groups.find_coordinator, rights.BY_HANDLER,
        groups.fail_find_coordinator, shortcut=kept_without_error("coordinators")),
    Api(11, "JoinGroup", (0, 9), in_shard(group_requests.join), rights.MEMBER, join.fail_join, addresses=GROUP,
        asides=join.take_asides),
    Api(12, "Heartbeat", (0, 4), in_shard(group_requests.heartbeat), rights.MEMBER, membership.fail_heartbeat,
        addresses=GROUP),
    Api(13, "LeaveGroup", (0, 5), in_shard(group_requests.leave), rights.MEMBER, addresses=GROUP),
    Api(14, "SyncGroup", (0, 5), in_shard(group_requests.sync), rights.MEMBER, sync.fail_sync, addresses=GROUP),
    Api(15, "DescribeGroups", (0, 6), groups.describe_groups, rights.DESCRIBE_GROUPS, addresses=GROUPS),
    Api(16, "ListGroups", (0, 5), groups.list_groups, rights.BY_HANDLER),
    Api(17, "SaslHandshake", (0, 1), authentication.sasl_handshake, rights.NONE),
    Api(18, "ApiVersions", (0, 4), metadata.api_versions, rights.NONE, metadata.fail_api_versions,
        shortcut=kept_without_error("")),
    Api(19, "CreateTopics", (2, 7), topic_admin.create_topics, rights.BY_HANDLER, decided_by_controller=True),
    Api(20, "DeleteTopics", (1, 6), topic_admin.delete_topics, rights.BY_HANDLER, decided_by_controller=True),
    Api(21, "DeleteRecords", (0, 2), log_offsets.delete_records, rights.DELETE_IN_TOPICS, addresses=PARTITIONS),
    Api(22, "InitProducerId", (0, 5), txns.init_producer_id, rights.PRODUCER, txns.fail_init_producer_id,
        addresses=TRANSACTION),
    Api(23, "OffsetForLeaderEpoch", (2, 4), log_offsets.offset_for_leader_epoch, rights.EPOCHS,
        addresses=PARTITIONS, has_leader_epochs=True),
    Api(24, "AddPartitionsToTxn", (0, 5), txns.add_partitions, txns.ADDITION_RIGHTS, txns.fail_add,
        addresses=TRANSACTION),
    Api(25, "AddOffsetsToTxn", (0, 4), txns.add_offsets, rights.GROUP_IN_TRANSACTION, txns.fail_transaction,
        addresses=TRANSACTION),
    Api(26, "EndTxn", (0, 5), txns.end_transaction, rights.TRANSACTION, txns.fail_transaction,
        addresses=TRANSACTION),
    Api(27, "WriteTxnMarkers", (1, 2), txn_admin.write_markers, rights.MARKERS, txn_admin.fail_write_markers),
    Api(28, "TxnOffsetCommit", (0, 5), txns.commit_offsets, rights.COMMIT_IN_TRANSACTION,
        txns.fail_commit_offsets, addresses=GROUP),
    Api(29, "DescribeAcls", (1, 3), acl_requests.describe_acls, rights.DESCRIBE_BY_CONTROLLER),
    Api(30, "CreateAcls", (1, 3), acl_requests.create_acls, rights.ALTER_BY_CONTROLLER),
    Api(31, "DeleteAcls", (1, 3), acl_requests.delete_acls, rights.ALTER_BY_CONTROLLER),
    Api(32, "DescribeConfigs", (1, 4), config_admin.describe_configs, rights.BY_HANDLER),
    Api(33, "AlterConfigs", (0, 2), config_admin.alter_configs, rights.BY_HANDLER, decided_by_controller=True),
    Api(34, "AlterReplicaLogDirs", (1, 2), admin_replicas.alter_replica_log_dirs, rights.ALTER_CLUSTER,
        admin_replicas.fail_alter_replica_log_dirs),
    Api(35, "DescribeLogDirs", (1, 5), cluster_admin.describe_log_dirs, rights.BY_HANDLER,
        cluster_admin.fail_describe_log_dirs),
    Api(36, "SaslAuthenticate", (0, 2), authentication.sasl_authenticate, rights.NONE),
    Api(37, "CreatePartitions", (0, 3), topic_admin.create_partitions, rights.BY_HANDLER,
        decided_by_controller=True),
    Api(38, "CreateDelegationToken", (1, 3), token_requests.create_delegation_token, rights.BY_HANDLER,
        token_requests.fail_create_delegation_token, decided_by_controller=True),
    Api(39, "RenewDelegationToken", (1, 2), token_requests.renew_delegation_token, rights.NONE,
        decided_by_controller=True),
    Api(40, "ExpireDelegationToken", (1, 2), token_requests.expire_delegation_token, rights.NONE,
        decided_by_controller=True),
    Api(41, "DescribeDelegationToken", (1, 3), token_requests.describe_delegation_token, rights.BY_HANDLER),
    Api(42, "DeleteGroups", (0, 2), groups.delete_groups, rights.DELETE_GROUPS, addresses=GROUPS),
    Api(43, "ElectLeaders", (0, 2), cluster_admin.elect_leaders, rights.ALTER_BY_CONTROLLER, refuse_throughout,
        decided_by_controller=True),
    Api(44, "IncrementalAlterConfigs", (0, 1), config_admin.incremental_alter_configs, rights.BY_HANDLER,
        decided_by_controller=True),
    Api(45, "AlterPartitionReassignments", (0, 1), admin_replicas.alter_partition_reassignments,
        rights.ALTER_BY_CONTROLLER, admin_replicas.fail_alter_partition_reassignments, decided_by_controller=True),
    Api(46, "ListPartitionReassignments", (0, 0), cluster_admin.list_partition_reassignments,
        rights.DESCRIBE_BY_CONTROLLER),
    Api(47, "OffsetDelete", (0, 0), in_shard(deletion.delete), rights.DELETE_OFFSETS, addresses=GROUP, forwarded=True),
    Api(48, "DescribeClientQuotas", (0, 1), admin_quotas.describe_client_quotas, rights.DESCRIBE_CONFIGS,
        admin_quotas.fail_describe_client_quotas),
    Api(49, "AlterClientQuotas", (0, 1), admin_quotas.alter_client_quotas, rights.ALTER_CONFIGS,
        decided_by_controller=True),
    Api(50, "DescribeUserScramCredentials", (0, 0), credentials.describe_user_scram_credentials,
        rights.DESCRIBE_CLUSTER, credentials.fail_describe_user_scram_credentials),
    Api(51, "AlterUserScramCredentials", (0, 0), credentials.alter_user_scram_credentials,
        rights.ALTER_BY_CONTROLLER, credentials.fail_alter_user_scram_credentials, decided_by_controller=True),
    Api(55, "DescribeQuorum", (0, 2), admin_replicas.describe_quorum, rights.DESCRIBE_CLUSTER),
    Api(60, "DescribeCluster", (0, 2), metadata.describe_cluster, rights.BY_HANDLER),
    Api(61, "DescribeProducers", (0, 0), txn_admin.describe_producers, rights.READ_TOPICS,
        addresses=PARTITIONS),
    Api(64, "UnregisterBroker", (0, 0), admin_replicas.unregister_broker, rights.ALTER_BY_CONTROLLER,
        decided_by_controller=True),
    Api(65, "DescribeTransactions", (0, 0), txn_admin.describe_transactions, rights.DESCRIBE_TRANSACTIONS,
        addresses=TRANSACTION),
    Api(66, "ListTransactions", (0, 2), txn_admin.list_transactions, rights.BY_HANDLER),
    Api(68, "ConsumerGroupHeartbeat", (0, 1), in_shard(consumer_heartbeat.heartbeat), rights.SUBSCRIBER,
        consumer_heartbeat.fail_heartbeat, addresses=GROUP),
    Api(69, "ConsumerGroupDescribe", (0, 1), groups.consumer_group_describe, rights.DESCRIBE_GROUPS,
        addresses=GROUPS),
    Api(74, "ListConfigResources", (0, 1), cluster_admin.list_config_resources, rights.DESCRIBE_CONFIGS),
    Api(75, "DescribeTopicPartitions", (0, 0), metadata.describe_topic_partitions, rights.BY_HANDLER),
))
# fmt: on
"""All served APIs. An API that is not here is not advertised."""

_REMOVED_FROM_KAFKA_4 = {8: 2, 9: 1}
"""First versions of Kafka 4.3, for APIs of which this broker serves older versions as well (KIP-896)."""


@cache
def served_apis(profile: str) -> Apis:
    """Return the table for a configuration profile: `kafka` advertises what Kafka 4.3 does and no more.

    All brokers of a process share it, and the codecs of its APIs.
    """
    if profile != "kafka":
        return SERVED
    apis = []
    for api in SERVED:
        first = _REMOVED_FROM_KAFKA_4.get(api.key, api.min_version)
        apis.append(replace(api, versions=(first, api.max_version)))
    return Apis(apis)


def api_of(apis: Apis, key: int) -> Api:
    """Return the API of an accepted request, also when it has been withheld since."""
    return apis.by_key.get(key) or SERVED.by_key[key]
