"""What is asked of a real broker and of ours, one after the other, about topics, configurations and the cluster.

A situation is a sentence, an API, a version and the fields of the request by our names. A topic id is written
"id of NAME" for the id that NAME has then, or had when it was last seen; other ids are 32 hexadecimal digits.
Situations of one scenario build on each other. `DIFFERENT` names those that we answer otherwise, with the reason.
"""

from typing import Any, NamedTuple

SETTINGS = {
    "default": {},
    "refusing": {
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "false",
        "num.partitions": "3",
        "default.replication.factor": "2",
        "message.max.bytes": "2000000",
    },
}
"""The scenarios, and what their broker is configured to beyond benchmarks/peers/kafka.sh."""

NO_ID = "00" * 16
UNKNOWN_ID = "0123456789abcdef0123456789abcdef"
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


class Situation(NamedTuple):
    """One request, in the versions it is to be sent in."""

    sentence: str
    api: str
    request: dict[str, Any]
    versions: tuple[int, ...] = ()


def new(name: str, partitions: int = 1, replicas: int = 1, **configs: str | None) -> dict[str, Any]:
    """A topic to create; `min_insync_replicas` is `min.insync.replicas`."""
    named = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [],
        "configs": named,
    }


def placed(
    name: str, *partitions: tuple[int, list[int]], count: int = -1, replicas: int = -1
) -> dict[str, Any]:
    """A topic to create with an assignment of its replicas."""
    assignments = [{"partition_index": index, "broker_ids": brokers} for index, brokers in partitions]
    return new(name, count, replicas) | {"assignments": assignments}


def create(sentence: str, *topics: dict[str, Any], versions: tuple[int, ...] = (), **more: Any) -> Situation:
    request = {"topics": list(topics), "timeout_ms": 10_000, **more}
    return Situation(sentence, "CreateTopics", request, versions)


def delete(sentence: str, *topics: str | tuple[str | None, str], version: int = 6) -> Situation:
    if version < 6:
        request: dict[str, Any] = {"topic_names": list(topics)}
    else:
        pairs = [(topic, NO_ID) if isinstance(topic, str) else topic for topic in topics]
        request = {"topics": [{"name": name, "topic_id": topic_id} for name, topic_id in pairs]}
    return Situation(sentence, "DeleteTopics", request | {"timeout_ms": 10_000}, (version,))


def metadata(
    sentence: str, *topics: str | tuple[str | None, str], version: int, create: bool = False, **more: Any
) -> Situation:
    named: list[dict[str, Any]] = []
    for topic in topics:
        name, topic_id = topic if isinstance(topic, tuple) else (topic, None)
        named.append({"name": name} if topic_id is None else {"name": name, "topic_id": topic_id})
    request = {"topics": named, **more} | ({"allow_auto_topic_creation": create} if version >= 4 else {})
    return Situation(sentence, "Metadata", request, (version,))


def all_topics(sentence: str, version: int) -> Situation:
    return Situation(sentence, "Metadata", {"topics": None if version else []}, (version,))


def grow(
    sentence: str, *topics: tuple[str, int, list[list[int]] | None], validate_only: bool = False
) -> Situation:
    wanted = [
        {
            "name": name,
            "count": count,
            "assignments": None if assigned is None else [{"broker_ids": brokers} for brokers in assigned],
        }
        for name, count, assigned in topics
    ]
    request = {"topics": wanted, "timeout_ms": 10_000, "validate_only": validate_only}
    return Situation(sentence, "CreatePartitions", request, (3,))


def describe(
    sentence: str,
    resource_type: int,
    name: str,
    keys: list[str] | None = None,
    versions: tuple[int, ...] = (4,),
    **more: bool,
) -> Situation:
    resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys}
    return Situation(sentence, "DescribeConfigs", {"resources": [resource], **more}, versions)


def alter(
    sentence: str,
    resource_type: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
    versions: tuple[int, ...] = (1,),
) -> Situation:
    configs = [{"name": key, "config_operation": op, "value": value} for key, op, value in changes]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": configs}
    request = {"resources": [resource], "validate_only": validate_only}
    return Situation(sentence, "IncrementalAlterConfigs", request, versions)


def pages(sentence: str, *topics: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Situation:
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    request = {
        "topics": [{"name": topic} for topic in topics],
        "response_partition_limit": limit,
        "cursor": at,
    }
    return Situation(sentence, "DescribeTopicPartitions", request, (0,))


def software(sentence: str, name: str, version: str) -> Situation:
    request = {"client_software_name": name, "client_software_version": version}
    return Situation(sentence, "ApiVersions", request, (3, 4))


LONG = "a" * 249
NAMED = ["cleanup.policy", "max.message.bytes", "retention.ms", "min.insync.replicas"]

DEFAULT = [
    # ApiVersions
    Situation("every version lists the APIs", "ApiVersions", {}, (0, 1, 2)),
    software("a named client is answered", "my-client.2", "1.0-rc.1"),
    software("a client without a name is refused", "", ""),
    software("a client whose name has a space is refused", "my client", "1.0"),
    software("a client whose version ends in a dash is refused", "client", "1.0-"),
    Situation("a version that does not exist is answered in version 0", "ApiVersions", {}, (5, 99)),
    # An empty cluster
    all_topics("no topic exists yet", 0),
    all_topics("no topic exists yet", 1),
    all_topics("no topic exists yet", 13),
    Situation("an empty list asks for no topic", "Metadata", {"topics": []}, (1, 13)),
    Situation("the cluster is described", "DescribeCluster", {}, (0, 1, 2)),
    Situation(
        "include_cluster_authorized_operations",
        "DescribeCluster",
        {"include_cluster_authorized_operations": True},
        (0, 2),
    ),
    Situation(
        "endpoint_type of controllers, sent to a broker", "DescribeCluster", {"endpoint_type": 2}, (1, 2)
    ),
    Situation("an endpoint type that does not exist", "DescribeCluster", {"endpoint_type": 7}, (2,)),
    pages("no topic to describe"),
    # CreateTopics
    create("a topic is created", new("t2", 2), versions=(2,)),
    create("a topic is created", new("t4", 3), versions=(4,)),
    create("a topic is created", new("t7", 3, min_insync_replicas="1", retention_ms="1000"), versions=(7,)),
    create("defaults are taken for -1", new("defaults", -1, -1), versions=(7,)),
    create("a topic that exists", new("t7"), versions=(2, 7)),
    create("a topic that exists, with other faults too", new("t7", 0, 9, nonsense="1"), versions=(7,)),
    create("validate_only creates nothing", new("checked", 5), versions=(2, 7), validate_only=True),
    create("a check finds a topic that exists", new("t7"), versions=(7,), validate_only=True),
    create("no topic at all", versions=(2, 7)),
    create("the same topic twice", new("twice"), new("other"), new("twice"), versions=(2, 7)),
    create("no partitions", new("none", 0), versions=(2, 7)),
    create("a negative number of partitions", new("negative", -2), versions=(7,)),
    create("no replicas", new("none", 1, 0), versions=(7,)),
    create("a negative number of replicas", new("negative", 1, -2), versions=(7,)),
    create("more replicas than brokers", new("many", 1, 2), versions=(2, 7)),
    create("a check with more replicas than brokers", new("many", 1, 3), versions=(7,), validate_only=True),
    create("replicas and partitions both wrong", new("wrong", 0, 0), versions=(7,)),
    create("an empty name", new(""), versions=(2, 7)),
    create("a name of one dot", new("."), versions=(7,)),
    create("a name of two dots", new(".."), versions=(7,)),
    create("a name with a slash", new("a/b"), versions=(7,)),
    create("a name with a letter that is not ASCII", new("groß"), versions=(7,)),
    create("the longest name", new(LONG), versions=(7,), validate_only=True),
    create("a name that is too long", new(LONG + "b"), versions=(7,)),
    create("a name with a dot", new("a.b_c"), versions=(7,)),
    create("a name that collides", new("a_b.c"), versions=(2, 7)),
    create("a name that exists collides with itself only", new("a.b_c"), versions=(7,)),
    create(
        "two names that collide in one request", new("x.y"), new("x_y"), versions=(7,), validate_only=True
    ),
    create("the log of the controllers", new("__cluster_metadata"), versions=(7,)),
    create("an unknown configuration", new("bad", 1, 1, nonsense="1"), versions=(2, 7)),
    create("a value that is no number", new("bad", 1, 1, retention_ms="soon"), versions=(7,)),
    create("a value out of range", new("bad", 1, 1, min_insync_replicas="0"), versions=(7,)),
    create("a value that is no choice", new("bad", 1, 1, cleanup_policy="keep"), versions=(7,)),
    create("an empty list as cleanup policy", new("empty-policy", 1, 1, cleanup_policy=""), versions=(7,)),
    create("a null value", new("bad", 1, 1, retention_ms=None, cleanup_policy=None), versions=(7,)),
    create("more in-sync replicas than brokers", new("isr", 1, 1, min_insync_replicas="3"), versions=(7,)),
    create("replicas are placed", placed("placed", (0, [1]), (1, [1])), versions=(2, 7)),
    create("replicas are placed, in another order", placed("placed2", (1, [1]), (0, [1])), versions=(7,)),
    create("placed, and counted", placed("p", (0, [1]), count=1), versions=(7,)),
    create("placed, and replicated", placed("p", (0, [1]), replicas=1), versions=(7,)),
    create("placed on an unknown broker", placed("p", (0, [2])), versions=(2, 7)),
    create("placed twice on one broker", placed("p", (0, [1, 1])), versions=(7,)),
    create("placed nowhere", placed("p", (0, [])), versions=(7,)),
    create("a partition is placed twice", placed("p", (0, [1]), (0, [1])), versions=(7,)),
    create("partitions that do not begin with 0", placed("p", (1, [1])), versions=(7,)),
    create("a negative partition", placed("p", (-1, [1])), versions=(7,)),
    create("replicas of different number", placed("p", (0, [1]), (1, [1, 2])), versions=(7,)),
    create("10,000 partitions", new("huge", 10_000), versions=(7,), validate_only=True),
    create("10,001 partitions", new("huge", 10_001), versions=(2, 7)),
    create("as many partitions as can be asked for", new("huge", 2**31 - 1), versions=(7,)),
    create(
        "10,001 partitions together", new("big", 5_000), new("huge", 5_001), versions=(7,), validate_only=True
    ),
    create("good and bad topics in one request", new("good"), new("b/d"), new("t7"), versions=(7,)),
    # Metadata
    metadata("a topic by name", "t7", version=0),
    metadata("a topic by name", "t7", version=1),
    metadata("a topic by name", "t7", version=5),
    metadata("a topic by name", "t7", version=7),
    metadata("a topic by name", "t7", version=9),
    metadata("a topic by name", "t7", version=10),
    metadata("a topic by name", "t7", version=13),
    metadata("topics by name, one of them twice", "t7", "t2", "t7", version=13),
    metadata("a topic by id", (None, "id of t7"), version=12),
    metadata("a topic by id", (None, "id of t7"), version=13),
    metadata("a topic by id and name", ("t7", "id of t7"), version=13),
    metadata("a topic by an id that is not its own", ("t7", "id of t2"), version=13),
    metadata("an unknown id", (None, UNKNOWN_ID), version=13),
    metadata("an unknown id beside a name", (None, UNKNOWN_ID), ("t7", NO_ID), version=13),
    metadata("no id and no name", (None, NO_ID), version=13),
    metadata("topics of old requests are created", "auto1", version=1, create=True),
    metadata("a topic by id before that was possible", ("t7", "id of t7"), version=10),
    metadata("no name before that was possible", (None, NO_ID), version=11),
    metadata("an unknown topic that may not be created", "missing", version=4),
    metadata("an unknown topic that may not be created", "missing", version=13),
    metadata("an invalid name", "a/b", version=4),
    metadata("an invalid name", "a/b", "", version=13),
    metadata("an invalid name that may be created", "a/b", version=13, create=True),
    metadata("an unknown topic is created", "auto4", version=4, create=True),
    metadata("an unknown topic is created, and then found", "auto4", version=4, create=True),
    metadata("an unknown topic is created, and then found", "auto4", version=13, create=True),
    metadata("an unknown topic is created by every old request", "auto0", version=0, create=True),
    metadata("an unknown topic was created by an old request", "auto0", version=0, create=True),
    metadata("a name that collides is not created", "a_b.c", version=13, create=True),
    metadata(
        "include_topic_authorized_operations", "t7", version=8, include_topic_authorized_operations=True
    ),
    metadata(
        "include_topic_authorized_operations",
        "t7",
        "missing",
        version=10,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    ),
    metadata(
        "include_topic_authorized_operations",
        "t7",
        "missing",
        version=13,
        include_topic_authorized_operations=True,
    ),
    all_topics("all topics", 0),
    all_topics("all topics", 1),
    all_topics("all topics", 13),
    # DescribeTopicPartitions
    pages("all topics"),
    pages("topics by name are sorted", "t7", "t2"),
    pages("a topic twice", "t2", "t2"),
    pages("unknown and invalid topics", "missing", "t2", "a/b"),
    pages("a limit within a topic", "t2", "t7", limit=3),
    pages("a limit at the end of a topic", "t2", "t7", limit=2),
    pages("a limit at the end of everything", "t2", "t7", limit=5),
    pages("a limit of 0 is one of 1", "t2", "t7", limit=0),
    pages("a negative limit is one of 1", "t2", limit=-5),
    pages("a cursor within a topic", "t2", "t7", cursor=("t2", 1)),
    pages("a cursor at the second topic", "t2", "t7", cursor=("t7", 0), limit=1),
    pages("a cursor after the last partition", "t2", "t7", cursor=("t2", 9)),
    pages("a cursor after all topics", cursor=("zzz", 0)),
    pages("a cursor between topics", limit=2, cursor=("t3", 1)),
    pages("a cursor at a topic that was not asked for", "t7", cursor=("t2", 0)),
    pages("a cursor at a topic that does not exist", "missing", "t7", cursor=("missing", 0)),
    pages("a negative cursor", "t7", cursor=("t7", -1)),
    pages("an unknown topic beyond the limit of partitions", "t2", "unknown", "zzz", limit=2),
    # CreatePartitions
    grow("more partitions", ("t2", 3, None)),
    grow("more partitions, placed", ("t2", 5, [[1], [1]])),
    metadata("the partitions that were created", "t2", version=13),
    grow("the current number of partitions", ("t2", 5, None)),
    grow("fewer partitions", ("t2", 4, None)),
    grow("no partitions", ("t2", 0, None)),
    grow("a negative number of partitions", ("t2", -1, None)),
    grow("partitions of an unknown topic", ("missing", 4, None)),
    grow("partitions of an invalid topic", ("a/b", 4, None)),
    grow("too few placed", ("t2", 7, [[1]])),
    grow("none placed", ("t2", 6, [])),
    grow("too many placed", ("t2", 6, [[1], [1]])),
    grow("placed on an unknown broker", ("t2", 6, [[9]])),
    grow("placed twice on one broker", ("t2", 6, [[1, 1]])),
    grow("placed nowhere", ("t2", 6, [[]])),
    grow("placed on too many brokers", ("t2", 6, [[1, 2]])),
    grow("the same topic twice", ("t2", 6, None), ("t2", 7, None)),
    grow("nothing happens by a check", ("t2", 9, None), validate_only=True),
    grow("validate_only refuses too", ("t2", 2, None), validate_only=True),
    grow("10,000 more partitions", ("t2", 10_005, None), validate_only=True),
    grow("10,001 more partitions", ("t2", 10_006, None), validate_only=True),
    grow("as many partitions as can be asked for", ("t2", 2**31 - 1, None)),
    grow("one of two topics", ("missing", 2, None), ("t4", 4, None)),
    Situation("no topic to grow", "CreatePartitions", {"topics": [], "timeout_ms": 1}, (0, 3)),
    Situation(
        "more partitions in the lowest version",
        "CreatePartitions",
        {"topics": [{"name": "t4", "count": 5, "assignments": None}], "timeout_ms": 10_000},
        (0,),
    ),
    # DescribeConfigs
    describe("a topic", TOPIC, "t7", versions=(1, 4)),
    describe("a topic with synonyms", TOPIC, "t7", versions=(1, 4), include_synonyms=True),
    describe("a topic with documentation", TOPIC, "t7", include_documentation=True),
    describe("some keys of a topic", TOPIC, "t7", NAMED, versions=(1, 4), include_synonyms=True),
    describe("an empty list of keys is all keys", TOPIC, "t2", []),
    describe("keys that do not exist are left out", TOPIC, "t7", ["retention.ms", "nonsense"]),
    describe("an unknown topic", TOPIC, "missing", versions=(1, 4)),
    describe("an invalid topic", TOPIC, "a/b"),
    describe("a topic without a name", TOPIC, ""),
    describe(
        "keys of the broker",
        BROKER,
        "1",
        [
            "num.partitions",
            "fetch.max.bytes",
            "auto.create.topics.enable",
            "offsets.topic.replication.factor",
        ],
        versions=(1, 4),
        include_synonyms=True,
    ),
    describe("keys of the broker that do not exist", BROKER, "1", ["nonsense"]),
    describe("what is set for all brokers", BROKER, ""),
    describe("another broker", BROKER, "2"),
    describe("a broker that is no number", BROKER, "one"),
    describe("a logger without a broker", LOGGER, ""),
    describe("a logger of another broker", LOGGER, "2"),
    describe("loggers of a name that does not exist", LOGGER, "1", ["nonsense"]),
    describe("metrics subscriptions without a name", METRICS, ""),
    describe("metrics subscriptions", METRICS, "m"),
    describe("a group without a name", GROUP, ""),
    describe("a group", GROUP, "g", ["nonsense"]),
    describe("a type that does not exist", 5, "x"),
    describe("the type 0", 0, "x"),
    describe("an unknown type", 99, "x"),
    Situation("nothing to describe", "DescribeConfigs", {"resources": []}, (1, 4)),
    Situation(
        "two resources, one unknown",
        "DescribeConfigs",
        {
            "resources": [
                {"resource_type": TOPIC, "resource_name": name, "configuration_keys": ["retention.ms"]}
                for name in ("missing", "t7")
            ]
        },
        (4,),
    ),
    Situation(
        "the same resource twice",
        "DescribeConfigs",
        {
            "resources": [
                {"resource_type": TOPIC, "resource_name": "t7", "configuration_keys": [key]}
                for key in ("retention.ms", "cleanup.policy")
            ]
        },
        (4,),
    ),
    # IncrementalAlterConfigs
    alter("a value is set", TOPIC, "t4", ("retention.ms", SET, "5000"), versions=(0, 1)),
    describe("the value is there", TOPIC, "t4", ["retention.ms"], include_synonyms=True),
    alter("a value is appended", TOPIC, "t4", ("cleanup.policy", APPEND, "compact")),
    describe("the value that was appended", TOPIC, "t4", ["cleanup.policy"], include_synonyms=True),
    alter("a value is appended again", TOPIC, "t4", ("cleanup.policy", APPEND, "compact")),
    describe("the value is there once", TOPIC, "t4", ["cleanup.policy"]),
    alter("a value is taken away", TOPIC, "t4", ("cleanup.policy", SUBTRACT, "delete")),
    describe("the value that was subtracted", TOPIC, "t4", ["cleanup.policy"]),
    alter("SUBTRACT of a value that is not in the list", TOPIC, "t4", ("cleanup.policy", SUBTRACT, "delete")),
    alter("the last value is taken away", TOPIC, "t4", ("cleanup.policy", SUBTRACT, "compact")),
    describe("the list after its last value", TOPIC, "t4", ["cleanup.policy"]),
    alter("a key is removed", TOPIC, "t4", ("cleanup.policy", DELETE, None)),
    describe("the key has its default again", TOPIC, "t4", ["cleanup.policy"]),
    alter("a key is removed that was not set", TOPIC, "t4", ("segment.ms", DELETE, None)),
    alter("a key is removed that does not exist", TOPIC, "t4", ("nonsense", DELETE, None)),
    alter("a key is removed and a value given", TOPIC, "t4", ("retention.ms", DELETE, "7")),
    alter("a wrong value is appended", TOPIC, "t4", ("cleanup.policy", APPEND, "keep")),
    alter("something is appended to a number", TOPIC, "t4", ("retention.ms", APPEND, "1")),
    alter("something is taken from a number", TOPIC, "t4", ("retention.ms", SUBTRACT, "1")),
    alter("something is appended to an unknown key", TOPIC, "t4", ("nonsense", APPEND, "1")),
    alter("a null value is set", TOPIC, "t4", ("retention.ms", SET, None)),
    alter("null values are set", TOPIC, "t4", ("retention.ms", SET, None), ("cleanup.policy", APPEND, None)),
    alter("an unknown key is set", TOPIC, "t4", ("nonsense", SET, "1")),
    alter("a wrong value is set", TOPIC, "t4", ("retention.ms", SET, "soon")),
    alter("a value out of range is set", TOPIC, "t4", ("min.insync.replicas", SET, "0")),
    alter("a key twice", TOPIC, "t4", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    alter("no change", TOPIC, "t4", versions=(0, 1)),
    alter("an unknown operation", TOPIC, "t4", ("retention.ms", 9, "1")),
    alter("an unknown topic", TOPIC, "missing", ("retention.ms", SET, "1"), versions=(0, 1)),
    alter("an unknown topic and an unknown key", TOPIC, "missing", ("nonsense", SET, "1")),
    alter(
        "an unknown topic, something appended to a number", TOPIC, "missing", ("retention.ms", APPEND, "1")
    ),
    alter("an invalid topic and an unknown key", TOPIC, "a/b", ("nonsense", SET, "1")),
    alter("an unknown topic, unchanged", TOPIC, "missing"),
    alter("an invalid topic", TOPIC, "a/b", ("retention.ms", SET, "1")),
    alter("a topic without a name", TOPIC, "", ("retention.ms", SET, "1")),
    alter("a check changes nothing", TOPIC, "t7", ("retention.ms", SET, "99"), validate_only=True),
    describe("nothing was changed by the check", TOPIC, "t7", ["retention.ms"]),
    alter("validate_only refuses too", TOPIC, "t7", ("retention.ms", SET, "x"), validate_only=True),
    alter("one good and one bad change", TOPIC, "t7", ("retention.ms", SET, "3"), ("nonsense", SET, "3")),
    describe("neither was made", TOPIC, "t7", ["retention.ms"]),
    alter("two changes", TOPIC, "t7", ("retention.ms", SET, "4"), ("segment.ms", SET, "6")),
    describe("both were made", TOPIC, "t7", ["retention.ms", "segment.ms"]),
    alter("a key of the broker that cannot change", BROKER, "1", ("num.partitions", SET, "2")),
    alter("a key of all brokers that cannot change", BROKER, "", ("node.id", SET, "2")),
    alter("keys of the broker that do not exist", BROKER, "1", ("nonsense", SET, "2"), ("node.id", SET, "2")),
    alter("a key of the broker is removed that was not set", BROKER, "1", ("num.partitions", DELETE, None)),
    alter("something is appended to a key of the broker", BROKER, "1", ("num.partitions", APPEND, "2")),
    alter("no change of the broker", BROKER, "1"),
    alter("another broker", BROKER, "2", ("message.max.bytes", SET, "2000000")),
    alter("a broker that is no number", BROKER, "one", ("message.max.bytes", SET, "2000000")),
    alter("a type that does not exist", 5, "x", ("a", SET, "b")),
    alter("the type 0", 0, "x", ("a", SET, "b")),
    alter("an unknown type", 99, "x", ("a", SET, "b")),
    alter("a group without a name", GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
    alter("a key of groups that does not exist", GROUP, "g", ("nonsense", SET, "1")),
    alter("a key of metrics that does not exist", METRICS, "m", ("nonsense", SET, "1")),
    alter("a group, unchanged", GROUP, "g"),
    alter("metrics without a name", METRICS, "", ("nonsense", SET, "1")),
    alter("metrics, unchanged", METRICS, "m"),
    alter("a logger, unchanged", LOGGER, "1"),
    alter("a logger is removed that does not exist", LOGGER, "1", ("nonsense", DELETE, None)),
    alter("something is appended to a logger", LOGGER, "1", ("nonsense", APPEND, "INFO")),
    alter("a logger without a broker", LOGGER, "", ("root", SET, "INFO")),
    alter("a logger of another broker", LOGGER, "2", ("root", SET, "INFO")),
    alter("a logger that does not exist", LOGGER, "1", ("nonsense", SET, "INFO")),
    Situation("nothing to alter", "IncrementalAlterConfigs", {"resources": []}, (0, 1)),
    Situation(
        "the same resource twice",
        "IncrementalAlterConfigs",
        {
            "resources": [
                {
                    "resource_type": TOPIC,
                    "resource_name": "t7",
                    "configs": [{"name": "retention.ms", "config_operation": SET, "value": value}],
                }
                for value in ("7", "8")
            ]
        },
        (1,),
    ),
    # DeleteTopics
    delete("a topic by name", "t2", version=1),
    metadata("a deleted topic is unknown", "t2", version=13),
    delete("a deleted topic is unknown", "t2", version=1),
    delete("an unknown topic", "missing", version=5),
    delete("an unknown topic", "missing"),
    delete("an invalid topic", "a/b", version=1),
    delete("an invalid topic", "a/b"),
    delete("a topic without a name", ""),
    delete("the same topic twice", "t4", "t4", version=5),
    delete("the same topic twice", "t4", "t4"),
    delete("the same topic id twice", (None, "id of t4"), (None, "id of t4")),
    delete("a topic by name and by id", "t4", (None, "id of t4")),
    delete("a name with an id", ("t4", "id of t4")),
    delete("neither name nor id", (None, NO_ID)),
    delete("an unknown id", (None, UNKNOWN_ID)),
    delete("topics by id and name, one unknown", (None, "id of t4"), "defaults", "missing"),
    delete("the id of a deleted topic", (None, "id of t4")),
    delete("no topic", version=1),
    delete("no topic"),
    delete("a topic whose name collided", "a.b_c"),
    create("a name that collides no more", new("a_b.c"), versions=(7,)),
    create("a deleted name is free again", new("t2", 1), versions=(7,)),
    metadata("the new topic has few partitions", "t2", version=13),
    # The offsets topic
    metadata("the offsets topic does not exist", "__consumer_offsets", version=13),
    create("the offsets topic is created", new("__consumer_offsets", 2), versions=(7,)),
    metadata("the offsets topic is internal", "__consumer_offsets", version=0),
    metadata("the offsets topic is internal", "__consumer_offsets", version=13),
    pages("the offsets topic is internal", "__consumer_offsets"),
    grow("the offsets topic grows", ("__consumer_offsets", 4, None)),
    delete("the offsets topic is deleted", "__consumer_offsets"),
]

REFUSING = [
    create("defaults that the cluster cannot keep", new("two", -1, -1), versions=(7,)),
    create("the default number of partitions", new("three", -1, 1), versions=(7,)),
    metadata("nothing is created", "missing", version=0, create=True),
    metadata("nothing is created", "missing", version=13, create=True),
    delete("nothing is deleted", "three", version=1),
    delete("nothing is deleted", "three", version=3),
    delete("nothing is deleted", "three", "missing", version=5),
    delete("nothing is deleted", "three", (None, UNKNOWN_ID)),
    metadata("the topic still exists", "three", version=13),
    describe("values of the broker", TOPIC, "three", NAMED, include_synonyms=True),
    describe("keys set for the broker", BROKER, "1", ["num.partitions"], include_synonyms=True),
    alter("a key is appended to the broker's value", TOPIC, "three", ("cleanup.policy", APPEND, "compact")),
    describe(
        "the broker's value and the appended", TOPIC, "three", ["cleanup.policy"], include_synonyms=True
    ),
]

SCENARIOS = {"default": DEFAULT, "refusing": REFUSING}

DIFFERENT = {
    ("ApiVersions", "a named client is answered"): "none of Kafka's features is served, so none is told",
    ("CreateTopics", "the offsets topic is created"): "it is compacted unless the client says otherwise",
    ("CreateTopics", "defaults that the cluster cannot keep"): "a configured replication factor is capped",
    ("CreatePartitions", "10,001 more partitions"): "Kafka fails with UNKNOWN_SERVER_ERROR, without a word",
    ("CreatePartitions", "as many partitions as can be asked for"): "as above",
    (
        "CreatePartitions",
        "the offsets topic grows",
    ): "Kafka lets it grow and loses the groups that map elsewhere",
    ("DescribeConfigs", "what is set for all brokers"): "Kafka sets min.insync.replicas when it is formatted",
    ("DescribeConfigs", "metrics subscriptions"): "no client metrics, so no defaults of a subscription",
    (
        "IncrementalAlterConfigs",
        "keys of the broker that do not exist",
    ): "Kafka takes unknown keys of a broker",
}
"""By API and sentence, why we answer otherwise than Kafka."""
