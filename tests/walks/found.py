"""The shortest walks of differences that walks have found and that are no more: each is recorded with the others."""

from typing import Any

from tests.walks.kinds.shared import GROUP, TOPIC, create_topic
from tests.walks.plan import Draw, Step, Walk


def step(api: str, version: int, client: str = "a", of: str = "", **fields: Any) -> Step:
    return Step(client, of or client, api, version, fields)


def make_topic() -> Step:
    return create_topic(Draw(0))[0]


def fetch(
    version: int, isolation: int, client: str = "a", topics: tuple[str, ...] = (TOPIC,), **more: Any
) -> Step:
    """Fetch one partition of topics from offset 1 on."""
    wanted: dict[str, Any] = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1 << 20}
    wanted |= {
        name: more.pop(name) for name in list(more) if name in ("partition_max_bytes", "last_fetched_epoch")
    }
    named = [{"topic": name, "topic_id": name, "partitions": [wanted]} for name in topics]
    own = {"max_wait_ms": 0, "min_bytes": 0, "isolation_level": isolation, "topics": named}
    return step("Fetch", version, client, **own | more)


def produce(version: int = 9, transactional_id: str | None = None, **batch: Any) -> Step:
    data = [{"index": 0, "records": {"$batch": {"values": ["one", "two"]} | batch}}]
    topics = [{"name": TOPIC, "topic_id": TOPIC, "partition_data": data}]
    return step(
        "Produce", version, transactional_id=transactional_id, acks=-1, timeout_ms=5000, topic_data=topics
    )


def join(client: str, **more: Any) -> Step:
    protocol = {"name": "range", "metadata": {"$subscription": ["orders"]}}
    own = {
        "group_id": GROUP,
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": f"$member.{client}",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [protocol],
    }
    return step("JoinGroup", 0, client, **own | more)


def heartbeat(client: str, **more: Any) -> Step:
    own = {
        "group_id": GROUP,
        "member_id": f"m-{client}",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    }
    return step("ConsumerGroupHeartbeat", 1, client, **own | more)


def refused_reads() -> list[Step]:
    reads = [fetch(version, isolation) for version in (4, 9, 18) for isolation in (0, 1)]
    diverging = [fetch(13, isolation, last_fetched_epoch=0) for isolation in (0, 1)]
    fenced = [fetch(13, 1, topics=("orders",), last_fetched_epoch=5)]
    return [make_topic(), *reads, *diverging, *fenced]


def levels() -> list[Step]:
    session = {"session_id": "$session.a", "session_epoch": "$session_epoch.a"}
    return [
        make_topic(),
        *(fetch(version, 2) for version in (4, 7, 12, 13, 18)),
        fetch(9, 2, topics=("@never",)),
        fetch(13, 2, topics=("@never",)),
        fetch(9, 0, session_id=0, session_epoch=0, topics=("orders",)),
        fetch(14, 2, **session, topics=()),
        fetch(9, 2, **session, topics=()),
        fetch(9, 0, **session, topics=()),
    ]


def deleted_within_session() -> list[Step]:
    session = {"session_id": "$session.a", "session_epoch": "$session_epoch.a"}
    partitions = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for index in (0, 2)]
    topics = [{"topic": TOPIC, "topic_id": TOPIC, "partitions": partitions}]
    return [
        make_topic(),
        fetch(18, 0, session_id=0, session_epoch=0),
        step("DeleteTopics", 5, topic_names=[TOPIC], timeout_ms=10_000),
        step("Fetch", 18, max_wait_ms=0, min_bytes=0, topics=topics, **session),
    ]


def negative_sizes() -> list[Step]:
    sizes: list[dict[str, Any]] = [{"partition_max_bytes": -1}, {"max_bytes": -1}, {"max_bytes": 0}]
    reads = [fetch(version, 0, **size) for version in (4, 13) for size in sizes]
    return [make_topic(), *reads, produce(), *reads]


def empty_topics() -> list[Step]:
    bare = [{"name": "orders", "partitions": []}]
    timeout = {"timeout_ms": 5000}
    return [
        *(
            step("ListOffsets", version, replica_id=-1, isolation_level=0, topics=bare, **timeout)
            for version in (1, 11)
        ),
        *(step("DeleteRecords", version, topics=bare, **timeout) for version in (0, 2)),
        step("OffsetForLeaderEpoch", 4, replica_id=-1, topics=[{"topic": "orders", "partitions": []}]),
    ]


def named_twice() -> list[Step]:
    def delete(*offsets: tuple[int, int]) -> Step:
        partitions = [{"partition_index": index, "offset": offset} for index, offset in offsets]
        topics = [{"name": TOPIC, "partitions": partitions}]
        return step("DeleteRecords", 2, topics=topics, timeout_ms=5000)

    return [make_topic(), produce(), delete((9, 2), (9, 0)), delete((0, 2), (0, 1)), delete((0, 1), (0, 2))]


def no_producer() -> list[Step]:
    batch = {"transactional": True, "base_sequence": 0}
    init = {"transactional_id": "@x", "transaction_timeout_ms": 60_000}
    return [
        make_topic(),
        step("InitProducerId", 4, **init),
        *(produce(version, "@x", **batch) for version in (9, 12)),
        produce(9, None, **batch),
        fetch(11, 1),
        step("DescribeProducers", 0, topics=[{"name": TOPIC, "partition_indexes": [0]}]),
    ]


def first_epochs() -> list[Step]:
    own = {"producer_id": "$producer.a", "base_sequence": 0}
    return [
        make_topic(),
        step("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=0),
        *(produce(9, producer_epoch=epoch, **own) for epoch in (-2, -1, 0)),
    ]


def added_none() -> list[Step]:
    own = {"transactional_id": "@x", "producer_id": "$producer.a", "producer_epoch": "$producer_epoch.a"}
    bare, some = {"name": TOPIC, "partitions": []}, {"name": "@u", "partitions": [0]}
    steps = [make_topic(), *create_topic(Draw(0), 1, "@u")]
    for _ in range(2):
        for topics in ([bare], [bare, some], [bare, some | {"partitions": [0, 9]}]):
            fields = {f"v3_and_below_{name}": value for name, value in own.items()}
            steps.append(step("AddPartitionsToTxn", 3, v3_and_below_topics=topics, **fields))
            steps += [
                step(
                    "AddPartitionsToTxn", 5, transactions=[own | {"topics": topics, "verify_only": verifies}]
                )
                for verifies in (False, True)
            ]
        steps.append(step("InitProducerId", 4, transactional_id="@x", transaction_timeout_ms=60_000))
    return steps


def producers_of_no_topic() -> list[Step]:
    names = "", "a b", "@never"
    return [step("DescribeProducers", 0, topics=[{"name": name, "partition_indexes": [0]}]) for name in names]


def null_configs() -> list[Step]:
    def create(*values: str | None) -> Step:
        configs = [{"name": "retention.ms", "value": value} for value in values]
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": []}
        return step("CreateTopics", 7, topics=[topic | {"configs": configs}], timeout_ms=10_000)

    return [create(None, "3600000"), create(None, None), create("x", None), create("1", "3600000")]


def unknown_resource() -> list[Step]:
    unknown, known = {"resource_type": 77, "resource_name": "x"}, {"resource_type": 2, "resource_name": ""}
    described = [
        step("DescribeConfigs", 4, resources=[one | {"configuration_keys": []} for one in wanted])
        for wanted in ([unknown, known], [known, unknown], [known])
    ]
    changes = [{"name": "retention.ms", "config_operation": operation, "value": "1"} for operation in (7, 0)]
    altered = [
        step("IncrementalAlterConfigs", 1, resources=[one | {"configs": [change]}], validate_only=False)
        for one in (unknown, known, {"resource_type": 2, "resource_name": "orders"})
        for change in changes[: 1 if one is not unknown else 2]
    ]
    return [*described, *altered]


def refused_upgrade() -> list[Step]:
    waits = [join("a"), join("b")]
    return [
        *waits,
        heartbeat("c", server_assignor="best"),
        heartbeat("c", instance_id="i-c", member_epoch=0, group_id=GROUP, subscribed_topic_names=[]),
        step("DescribeGroups", 5, groups=[GROUP]),
    ]


def full_upgrade() -> list[Step]:
    return [
        join("a"),
        join("b"),
        join("a"),
        join("d"),
        heartbeat("c"),
        step("DescribeGroups", 5, groups=[GROUP]),
    ]


def malformed_upgrade() -> list[Step]:
    junk = [{"name": "range", "metadata": {"$bytes": "\0"}}]
    return [join("a", protocols=junk), join("b"), heartbeat("c"), step("DescribeGroups", 5, groups=[GROUP])]


def older_version_in_session() -> list[Step]:
    session = {"session_id": "$session.a", "topics": ()}
    return [
        make_topic(),
        fetch(12, 0, session_id=0, session_epoch=0, last_fetched_epoch=0),
        *(
            fetch(version, 0, session_epoch=epoch, **session)
            for epoch, version in enumerate((9, 11, 9, 12), 1)
        ),
        fetch(9, 0, session_epoch=2, **session),
    ]


def latest_deleted() -> list[Step]:
    def latest() -> list[Step]:
        wanted = [{"partition_index": 0, "timestamp": timestamp} for timestamp in (-3,)]
        return [
            step(
                "ListOffsets",
                9,
                replica_id=-1,
                isolation_level=level,
                topics=[{"name": TOPIC, "partitions": wanted}],
            )
            for level in (0, 1)
        ]

    def delete(offset: int) -> Step:
        topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": offset}]}]
        return step("DeleteRecords", 2, topics=topics, timeout_ms=5000)

    first, second = produce(values=["one", "two"]), produce(values=["three"])
    return [make_topic(), *latest(), first, delete(2), *latest(), second, *latest(), delete(3), *latest()]


def offsets_of_no_topic() -> list[Step]:
    own = {"transactional_id": "@x", "producer_id": "$producer.a", "producer_epoch": "$producer_epoch.a"}
    own |= {"group_id": GROUP, "generation_id": -1, "member_id": ""}
    offsets = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
    absent, bare = {"name": "nothing", "partitions": []}, {"name": "pages", "partitions": []}
    known = {"name": "orders", "partitions": offsets}
    wrong = {"name": "orders", "partitions": [offsets[0] | {"partition_index": 9}]}
    topics = [
        [],
        [absent],
        [bare],
        [absent, bare],
        [known, absent],
        [absent, known, bare],
        [bare, wrong, absent],
    ]
    return [
        step("InitProducerId", 4, transactional_id="@x", transaction_timeout_ms=60_000),
        *(
            step("TxnOffsetCommit", version, **own | {"topics": each})
            for version in (3, 5)
            for each in topics
        ),
    ]


def unknown_operations() -> list[Step]:
    def change(kind: int, name: str, *operations: int) -> Step:
        configs = [
            {"name": f"retention.ms.{number}", "config_operation": operation, "value": "1"}
            for number, operation in enumerate(operations)
        ]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        return step("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)

    return [
        *(change(kind, name, 7) for kind in (4, 8) for name in ("9", "1", "", "x")),
        *(change(kind, "1", *operations) for kind in (4, 8) for operations in ((0, 7), (7, 0), (2, 7))),
        change(32, "g", 7),
        change(32, "", 7),
        change(16, "", 7),
    ]


def negative_size_of_several() -> list[Step]:
    def read(*partitions: tuple[int, int]) -> Step:
        wanted = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": 0}
            for index, offset in partitions
        ]
        topics = [{"topic": TOPIC, "topic_id": TOPIC, "partitions": wanted}]
        return step("Fetch", 11, max_wait_ms=0, min_bytes=0, max_bytes=-1, isolation_level=0, topics=topics)

    def write(index: int) -> Step:
        data = [{"index": index, "records": {"$batch": {"values": ["one"]}}}]
        topics = [{"name": TOPIC, "topic_id": TOPIC, "partition_data": data}]
        return step("Produce", 9, transactional_id=None, acks=-1, timeout_ms=5000, topic_data=topics)

    reads = [
        read((1, 0), (0, 0)),
        read((1, 5), (0, 0)),
        read((9, 0), (0, 0)),
        read((0, 0), (0, 0), (1, 0)),
        read((0, 0), (2, 0), (1, 0)),
    ]
    return [make_topic(), write(0), write(2), *reads]


def odd_quota_entities() -> list[Step]:
    def alter(*parts: tuple[str, str]) -> Step:
        entity = [{"entity_type": kind, "entity_name": name} for kind, name in parts]
        ops = [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}]
        return step("AlterClientQuotas", 1, entries=[{"entity": entity, "ops": ops}], validate_only=True)

    wrong = [("client-id", ""), ("", "@a"), ("nonsense", "@a"), ("user", ""), ("ip", "")]
    pairs = [(one, other) for one in wrong for other in wrong if one[0] != other[0]]
    return [*(alter(*pair) for pair in pairs), *(alter(*wrong[at : at + 3]) for at in range(3))]


def refused_without_partitions() -> list[Step]:
    written = {"$batch": {"values": ["one"], "transactional": True}}
    data = [{"index": 0, "records": written}]
    topics = [{"name": "@never", "partition_data": []}, {"name": TOPIC, "partition_data": data}]
    return [
        make_topic(),
        *(
            step("Produce", version, transactional_id=None, acks=-1, timeout_ms=5000, topic_data=topics)
            for version in (3, 9, 12)
        ),
    ]


def replica_ids() -> list[Step]:
    def read(version: int, replica_id: int) -> Step:
        own: dict[str, Any] = {"replica_id": replica_id}
        if version >= 15:
            own = {"replica_state": {"replica_id": replica_id, "replica_epoch": -1}}
        return fetch(version, 1, **own)

    reads = [read(version, replica_id) for version in (6, 12, 18) for replica_id in (-2, -3, -4)]
    return [make_topic(), produce(), *reads]


def marked_with_versions() -> list[Step]:
    def mark(*versions: int) -> Step:
        topics = [{"name": name, "partition_indexes": [0, 9]} for name in (TOPIC, "__consumer_offsets")]
        own = {"producer_id": 5_000_000, "producer_epoch": 0, "transaction_result": False, "topics": topics}
        markers = [own | {"coordinator_epoch": 0, "transaction_version": version} for version in versions]
        return step("WriteTxnMarkers", 2, markers=markers)

    return [make_topic(), mark(-1), mark(-2), mark(3), produce()]


def nameless_protocol() -> list[Step]:
    protocols = [{"name": "", "metadata": {"$subscription": ["orders"]}}]
    joins = [join("b", protocols=protocols)._replace(version=version) for version in (3, 6, 7, 9)]
    return [heartbeat("a"), *joins]


def marked_twice() -> list[Step]:
    """Kafka never answers the second request, and appends as many markers as ours."""

    def mark(*indexes: int) -> Step:
        topics = [{"name": TOPIC, "partition_indexes": list(indexes)}]
        own = {"producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0}
        return step("WriteTxnMarkers", 1, markers=[own | {"producer_id": 5_000_000, "topics": topics}])

    return [make_topic(), mark(0), mark(0, 0, 1), produce(), mark(1, 9), produce()]


def null_for_a_logger() -> list[Step]:
    def replace(*values: str | None) -> Step:
        configs = [{"name": "kafka", "value": value} for value in values]
        resources = [{"resource_type": 8, "resource_name": "1", "configs": configs}]
        return step("AlterConfigs", 2, resources=resources, validate_only=True)

    return [replace(None), replace("INFO", "INFO"), replace("INFO"), replace()]


def refused_acks() -> list[Step]:
    def write(version: int, topic: str, acks: int) -> Step:
        batch = {
            "values": ["one"],
            "producer_id": "$producer.a",
            "producer_epoch": "$producer_epoch.a",
            "base_sequence": 0,
            "transactional": True,
        }
        data = [{"index": 0, "records": {"$batch": batch}}]
        topics = [{"name": topic, "topic_id": topic, "partition_data": data}]
        return step("Produce", version, transactional_id="@x", acks=acks, timeout_ms=5000, topic_data=topics)

    return [
        make_topic(),
        step("InitProducerId", 4, transactional_id="@x", transaction_timeout_ms=60_000),
        write(3, TOPIC, 2),
        write(11, TOPIC, 2),
        write(11, "__consumer_offsets", -1),
        step("DescribeTransactions", 0, transactional_ids=["@x"]),
        write(12, TOPIC, 2),
        step("DescribeTransactions", 0, transactional_ids=["@x"]),
    ]


def one_unknown_operation() -> list[Step]:
    def change(*resources: tuple[int, str, int, str | None]) -> Step:
        changed = [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": "retention.ms", "config_operation": operation, "value": value}],
            }
            for kind, name, operation, value in resources
        ]
        return step("IncrementalAlterConfigs", 1, resources=changed, validate_only=False)

    good, bad = (2, TOPIC, 0, "3600000"), (2, "orders", 7, "1")
    wanted = [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": ["retention.ms"]}]
    return [
        make_topic(),
        change(good, bad),
        change((32, "@g", 7, "1"), good),
        change((2, "@never", 7, "1"), good),
        step("DescribeConfigs", 2, resources=wanted, include_synonyms=False),
        *(
            change(bad, other)
            for other in ((2, TOPIC, 0, None), (77, "x", 0, "1"), (4, "9", 0, "1"), (2, "", 0, "1"))
        ),
        change(bad, bad, good),
        change((2, "orders", 7, None), good),
        step("DescribeConfigs", 2, resources=wanted, include_synonyms=False),
    ]


def unreadable_acls() -> list[Step]:
    described = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3, "permission_type": 3}
    created = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    return [
        *(step("DescribeAcls", 3, **described | {name: code}) for name in described for code in (0, 77)),
        *(step("DeleteAcls", 3, filters=[described, described | {name: 0}]) for name in described),
        *(step("CreateAcls", 3, creations=[created, created | {name: 0}]) for name in created),
        step("DeleteAcls", 3, filters=[described]),
        step("CreateAcls", 3, creations=[created]),
    ]


def transaction_twice() -> list[Step]:
    def add(*partitions: list[int], **more: Any) -> Step:
        own = {
            "transactional_id": "@x",
            "producer_id": "$producer.a",
            "producer_epoch": "$producer_epoch.a",
            "verify_only": False,
        }
        transactions = [own | {"topics": [{"name": TOPIC, "partitions": each}]} | more for each in partitions]
        return step("AddPartitionsToTxn", 4, transactions=transactions)

    verify = {"verify_only": True}
    return [
        make_topic(),
        add([0], [1], transactional_id="@never"),
        step("InitProducerId", 4, transactional_id="@x", transaction_timeout_ms=60_000),
        add([1], [0], **verify),
        add([0], [1, 9]),
        add([0, 9], [1]),
        step("DescribeTransactions", 0, transactional_ids=["@x"]),
        add([2], [0], **verify),
        add([0], [], [2]),
        step("DescribeTransactions", 0, transactional_ids=["@x"]),
    ]


def topics_twice() -> list[Step]:
    def create(*names: str) -> Step:
        own = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        return step("CreateTopics", 4, topics=[{"name": name} | own for name in names], timeout_ms=10_000)

    return [create("@m", "@m", "@n"), create("@m", "__cluster_metadata", "@n", "@m", ""), create("@n", "@n")]


def odd_quota_filters() -> list[Step]:
    def describe(*components: tuple[str, int, str | None]) -> Step:
        asked = [{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components]
        return step("DescribeClientQuotas", 1, components=asked, strict=False)

    return [
        *(describe(("", how, match)) for how, match in ((0, None), (1, "@a"), (9, "@a"))),
        *(describe(("nonsense", how, match)) for how, match in ((0, None), (1, "@a"), (9, "@a"))),
        *(
            describe(("user", 0, "@a"), ("user", how, match))
            for how, match in ((0, None), (2, "@a"), (9, None))
        ),
    ]


def unknown_follower() -> list[Step]:
    def follow(version: int, epoch: int) -> Step:
        wanted = {
            "partition": 0,
            "current_leader_epoch": epoch,
            "fetch_offset": 0,
            "partition_max_bytes": 1 << 20,
        }
        topics = [{"topic": TOPIC, "topic_id": TOPIC, "partitions": [wanted]}]
        own = {"replica_id": 9} if version < 15 else {"replica_state": {"replica_id": 9, "replica_epoch": -1}}
        return step("Fetch", version, max_wait_ms=0, min_bytes=0, topics=topics, **own)

    return [make_topic(), *(follow(version, epoch) for version in (11, 12, 18) for epoch in (-1, 0, 1))]


FOUND = {
    "a refused read names no aborted transactions": refused_reads,
    "an isolation level that does not exist": levels,
    "a session with a partition of a deleted topic": deleted_within_session,
    "a read of less than nothing": negative_sizes,
    "topics without partitions": empty_topics,
    "records of a partition deleted twice": named_twice,
    "a transactional batch without a producer id": no_producer,
    "the first epoch of a producer": first_epochs,
    "no partitions added to a transaction": added_none,
    "the producers of a topic that cannot be": producers_of_no_topic,
    "a topic with a configuration of null": null_configs,
    "one resource of an unknown type": unknown_resource,
    "a refused member answers those that wait": refused_upgrade,
    "a full group answers those that wait": full_upgrade,
    "a malformed group answers those that wait": malformed_upgrade,
    "an older version in a session": older_version_in_session,
    "the latest record is deleted": latest_deleted,
    "transactional offsets of no topic": offsets_of_no_topic,
    "an unknown operation on a configuration": unknown_operations,
    "a limit below nothing for several partitions": negative_size_of_several,
    "an entity of quotas with two errors": odd_quota_entities,
    "a refused write that names a topic alone": refused_without_partitions,
    "markers for a partition that is named twice": marked_twice,
    "a reader of committed records with the id of a replica": replica_ids,
    "markers of odd transaction versions": marked_with_versions,
    "a protocol without a name in a consumer group": nameless_protocol,
    "a logger whose configuration is replaced": null_for_a_logger,
    "a transactional batch with acks that do not exist": refused_acks,
    "one of several changes has an unknown operation": one_unknown_operation,
    "ACLs that cannot be read": unreadable_acls,
    "a transaction that is named twice": transaction_twice,
    "topics that are named twice": topics_twice,
    "a filter of quotas with two errors": odd_quota_filters,
    "a follower that the leader does not know": unknown_follower,
}


def walks() -> list[Walk]:
    """Return the walks that are kept for what they found."""
    return [Walk(name, 0, make()) for name, make in FOUND.items()]
