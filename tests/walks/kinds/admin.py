"""Walks of administrators: topics, partitions and configurations that are made, changed and described."""

from typing import Any

from tests.walks.kinds.shared import TOPIC, ask, create_topic
from tests.walks.plan import Draw, Step, kind, with_restart

TOPIC_KIND, BROKER_KIND, GROUP_KIND = 2, 4, 32
KEYS = "retention.ms", "max.message.bytes", "cleanup.policy", "segment.bytes", "min.insync.replicas"
DESCRIBED = [*KEYS, "compression.type"]


def name(draw: Draw) -> str:
    return draw.usually(draw.one(TOPIC, "@u", "@v"), "", ".", "a b", "@" + "x" * 250, odds=0.92)


def setting(draw: Draw) -> tuple[str, str | None]:
    """Return a key and a value, most of them right."""
    return draw.one(
        ("retention.ms", "3600000"),
        ("retention.ms", "-1"),
        ("retention.ms", "x"),
        ("retention.ms", "-2"),
        ("retention.ms", None),
        ("max.message.bytes", "2000"),
        ("max.message.bytes", "-1"),
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", "nothing"),
        ("segment.bytes", "2000000"),
        ("segment.bytes", "13"),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "2"),
        ("compression.type", "zstd"),
        ("compression.type", "best"),
        ("nonsense", "1"),
    )


def configs(draw: Draw) -> list[dict[str, Any]]:
    wanted = [setting(draw) for _ in range(draw.usually(0, 1, 2, odds=0.5))]
    return [{"name": key, "value": value} for key, value in wanted]


def new_topic(draw: Draw, wanted: str) -> dict[str, Any]:
    is_placed = draw.random() < 0.15
    assigned = [{"partition_index": 0, "broker_ids": [1]}, {"partition_index": 1, "broker_ids": [1]}]
    return {
        "name": wanted,
        "num_partitions": -1 if is_placed else draw.usually(draw.randint(1, 3), -1, 0, -2),
        "replication_factor": -1 if is_placed else draw.usually(1, -1, 0, 2, odds=0.9),
        "assignments": draw.usually(
            assigned, assigned[1:], [{"partition_index": 0, "broker_ids": []}], assigned[:1] * 2, odds=0.5
        )
        if is_placed
        else [],
        "configs": configs(draw),
    }


def create(draw: Draw) -> list[Step]:
    topics = [new_topic(draw, name(draw)) for _ in range(draw.usually(1, 0, 2, odds=0.8))]
    return ask(
        draw,
        "CreateTopics",
        "admin",
        topics=topics,
        timeout_ms=10_000,
        validate_only=draw.usually(False, True),
    )


def delete(draw: Draw) -> list[Step]:
    version = draw.version("DeleteTopics")
    names = [draw.usually(name(draw), "@never") for _ in range(draw.usually(1, 0, 2))]
    if version < 6:
        return ask(draw, "DeleteTopics", "admin", version, topic_names=names, timeout_ms=10_000)
    topics = [
        {"name": None, "topic_id": each}
        if draw.random() < 0.3
        else {"name": each, "topic_id": bytes(16).hex()}
        for each in names
    ]
    for topic in topics:
        if topic["name"] is not None:
            del topic["topic_id"]
    return ask(draw, "DeleteTopics", "admin", version, topics=topics, timeout_ms=10_000)


def grow(draw: Draw) -> list[Step]:
    topics = []
    for _ in range(draw.usually(1, 0, 2)):
        assigned = draw.usually(None, [], [{"broker_ids": [1]}], [{"broker_ids": [9]}], odds=0.85)
        count = draw.usually(draw.randint(2, 5), 0, -1, 1)
        topics.append({"name": draw.usually(name(draw), "@never"), "count": count, "assignments": assigned})
    return ask(
        draw,
        "CreatePartitions",
        "admin",
        topics=topics,
        timeout_ms=10_000,
        validate_only=draw.usually(False, True),
    )


def resource(draw: Draw) -> dict[str, Any]:
    return draw.usually(
        {"resource_type": TOPIC_KIND, "resource_name": name(draw)},
        {"resource_type": GROUP_KIND, "resource_name": "@g"},
        {"resource_type": GROUP_KIND, "resource_name": ""},
        {"resource_type": 77, "resource_name": "x"},
        {"resource_type": BROKER_KIND, "resource_name": "9"},
        odds=0.85,
    )


def alter(draw: Draw) -> list[Step]:
    resources = []
    for _ in range(draw.usually(1, 0, 2)):
        changes = []
        for key, value in dict.fromkeys(setting(draw) for _ in range(draw.usually(1, 0, 2))):
            operation = draw.usually(0, 1, 2, 3, 7, odds=0.7)
            changes.append({"name": key, "config_operation": operation, "value": value})
        changes.sort(key=str)
        at = resource(draw)
        if at["resource_type"] == GROUP_KIND and draw.random() < 0.7:
            key = draw.one("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")
            value = draw.one("45000", "5000", "1", "x", None)
            changes = [{"name": key, "config_operation": draw.one(0, 1), "value": value}]
        resources.append(at | {"configs": changes})
    return ask(
        draw, "IncrementalAlterConfigs", "admin", resources=resources, validate_only=draw.usually(False, True)
    )


def replace(draw: Draw) -> list[Step]:
    resources = [resource(draw) | {"configs": configs(draw)} for _ in range(draw.usually(1, 0))]
    return ask(draw, "AlterConfigs", "admin", resources=resources, validate_only=draw.usually(False, True))


def describe_configs(draw: Draw) -> list[Step]:
    resources = [
        resource(draw) | {"configuration_keys": draw.usually(DESCRIBED, [], ["nonsense"], KEYS[:1] * 2)}
        for _ in range(draw.usually(1, 0, 2))
    ]
    return ask(
        draw,
        "DescribeConfigs",
        "admin",
        resources=resources,
        include_synonyms=draw.usually(False, True, odds=0.6),
        include_documentation=False,
    )


def metadata(draw: Draw) -> list[Step]:
    topics = [
        {"name": None, "topic_id": each} if draw.random() < 0.2 else {"name": each}
        for each in (draw.usually(name(draw), "@never") for _ in range(draw.usually(1, 0, 2)))
    ]
    version = draw.version("Metadata")
    if version < 10:
        topics = [topic for topic in topics if topic["name"] is not None]
    if not topics:  # in version 0 that is all topics, those of other walks among them
        version = max(version, 1)
    return ask(
        draw,
        "Metadata",
        "admin",
        version,
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=draw.usually(False, True),
        include_topic_authorized_operations=draw.usually(False, True),
    )


def describe_partitions(draw: Draw) -> list[Step]:
    topics = sorted({draw.usually(name(draw), "@never") for _ in range(draw.randint(1, 2))})
    return ask(
        draw,
        "DescribeTopicPartitions",
        "admin",
        topics=[{"name": each} for each in topics],
        response_partition_limit=draw.usually(2000, 1, 2, 0, odds=0.7),
        cursor=None,
    )


def elect(draw: Draw) -> list[Step]:
    topics = [{"topic": draw.usually(name(draw), "@never"), "partitions": draw.some([0, 1, 9])}]
    return ask(
        draw,
        "ElectLeaders",
        "admin",
        election_type=draw.usually(0, 1),
        topic_partitions=topics,
        timeout_ms=5000,
    )


def reassignments(draw: Draw) -> list[Step]:
    wanted = draw.usually([{"name": name(draw), "partition_indexes": draw.some([0, 1, 9])}], [])
    return ask(draw, "ListPartitionReassignments", "admin", topics=wanted, timeout_ms=5000)


def produce(draw: Draw) -> list[Step]:
    at = draw.usually(draw.one(TOPIC, "@u"), "@never")
    data = [{"index": draw.usually(0, 1, 4), "records": {"$batch": {"values": ["one", "two"]}}}]
    topics = [{"name": at, "topic_id": at, "partition_data": data}]
    return ask(draw, "Produce", "admin", acks=-1, timeout_ms=5000, topic_data=topics)


kind(
    "administration",
    create_topic,
    {
        create: 6,
        delete: 3,
        grow: 4,
        alter: 5,
        replace: 2,
        describe_configs: 5,
        metadata: 4,
        describe_partitions: 2,
        elect: 1,
        reassignments: 1,
        produce: 1,
    },
    (10, 20),
)
with_restart("administration")
