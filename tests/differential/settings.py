"""The files of stories that are played with one broker, and what the broker of each setting is configured to."""

PARTS = (
    "commits",
    "fetches",
    "offset_deletes",
    "joins",
    "syncs",
    "heartbeats",
    "leaves",
    "static_members",
    "rebalances",
    "timeouts",
    "group_sessions",
    "descriptions",
    "listings",
    "group_deletes",
    "coordinators",
    "clusters",
    "records",
    "fetch_sessions",
    "produced",
    "batch_limits",
    "administration",
    "quotas_and_passwords",
    "acls",
    "authorization",
    "transaction_rights",
    "group_configs",
    "creations",
    "deadlines",
    "expiry",
    "consumer_groups",
    "consumer_instances",
    "consumer_oddities",
    "consumer_sessions",
    "transactions",
    "transaction_partitions",
    "transactional_offsets",
    "odd_requests",
)
"""The files of tests/stories without their ending."""

SMALL_CONSUMER_GROUPS = {
    "group.min.session.timeout.ms": "100",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "group.max.size": "3",
    "group.consumer.max.size": "6",
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.heartbeat.interval.ms": "700",
    "group.consumer.min.heartbeat.interval.ms": "100",
}

SETTINGS = {
    "default": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
    },
    "new": {
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
    },
    "sessions": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "group.max.size": "3",
    },
    "consumers": SMALL_CONSUMER_GROUPS | {"group.consumer.assignment.interval.ms": "0"},
    "interval": SMALL_CONSUMER_GROUPS,
    "creating": {
        "offsets.topic.num.partitions": "4",
        "num.partitions": "3",
    },
    "delayed": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "500",
        "group.max.size": "3",
        "offset.metadata.max.bytes": "10",
    },
    "expiring": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "offsets.retention.check.interval.ms": "500",
    },
    "modern": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.session.timeout.ms": "1500",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.max.size": "3",
    },
    "transactions": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "transaction.max.timeout.ms": "60000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    },
    "acls": {
        "group.min.session.timeout.ms": "100",
        "auto.create.topics.enable": "true",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    },
}
"""What a broker is configured to beyond benchmarks/peers/kafka.sh, by the name in the command `setting` of a story.

A broker of the setting `new` has no topics, and no coordinators yet.
"""


USERS = ("admin", "alice", "bob")
HAVE_USERS = frozenset({"acls"})
"""The settings whose clients are users: ours is told who they are, of Kafka they authenticate."""
