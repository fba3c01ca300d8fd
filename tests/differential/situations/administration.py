"""What administrators ask of a broker without an authorizer, beside topics and groups."""

from typing import Any

from tests.differential.play import Play
from tests.differential.situations.records import batch, produce
from tests.differential.table import situation

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
NOWHERE = "nothing"


def configs(kind: int, name: str, **values: str | None) -> dict[str, Any]:
    """A resource with all that is to be set of it."""
    named = [{"name": key.replace("_", "."), "value": value} for key, value in values.items()]
    return {"resource_type": kind, "resource_name": name, "configs": named}


@situation("AlterConfigs replaces configurations", (0, 1, 2))
def replaced(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)

    def alter(*resources: dict[str, Any], validate_only: bool = False) -> None:
        a.ask("AlterConfigs", version, resources=list(resources), validate_only=validate_only)
        w.pause(200)  # a Kafka answers when its controller knows, and its broker follows
        resource = {"resource_type": TOPIC, "resource_name": name}
        wanted = resource | {"configuration_keys": ["retention.ms", "max.message.bytes"]}
        a.ask("DescribeConfigs", 1, resources=[wanted], include_synonyms=False)

    alter(configs(TOPIC, name, retention_ms="1000", max_message_bytes="2000"))
    alter(configs(TOPIC, name, retention_ms="3000"))
    alter(configs(TOPIC, name, retention_ms="4000"), validate_only=True)
    alter(configs(TOPIC, name, retention_ms="x"))
    alter(configs(TOPIC, name, retention_ms=None))
    alter(configs(TOPIC, name, nonsense="1"))
    alter(configs(TOPIC, name, retention_ms="5000"), configs(TOPIC, NOWHERE, retention_ms="1"))
    alter(configs(TOPIC, "", retention_ms="6"), configs(TOPIC, "a b", retention_ms="6"))
    alter(configs(77, "x", retention_ms="6"))
    alter(configs(GROUP, "g", nonsense="6"), configs(METRICS, "m", nonsense="6"), configs(GROUP, ""))
    alter(configs(BROKER, "9", log_cleaner_threads="2"), configs(BROKER, "x", log_cleaner_threads="2"))
    alter(configs(TOPIC, name))
    alter()


@situation("ACLs without an authorizer", (1, 2, 3))
def acls(w: Play, version: int) -> None:
    a = w.client("a")
    which = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    rule = {
        "resource_type": 2,
        "resource_name": "orders",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    a.ask("DescribeAcls", version, **which)
    a.ask("CreateAcls", version, creations=[rule, rule])
    a.ask("CreateAcls", version, creations=[])
    a.ask("DeleteAcls", version, filters=[which, which])
    a.ask("DeleteAcls", version, filters=[])


@situation("DescribeLogDirs", range(1, 6))
def directories(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(3)
    produce(a, name, batch("one", "two"))
    produce(a, name, batch("three"), partition=2)

    def describe(*topics: tuple[str, list[int]]) -> None:
        asked = [{"topic": topic, "partitions": partitions} for topic, partitions in topics]
        a.ask("DescribeLogDirs", version, topics=asked)

    describe((name, [0, 1, 2]))
    describe((name, [2, 9]), (NOWHERE, [0]))
    describe((name, []))
    describe((name, [1]), (name, [0, 1]))
    describe()


@situation("ElectLeaders", (0, 1, 2))
def elected(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    for kind in (0, 1):
        wanted = [
            {"topic": name, "partitions": [0, 1]},
            {"topic": NOWHERE, "partitions": [0]},
            {"topic": "orders", "partitions": [9]},
        ]
        a.ask("ElectLeaders", version, election_type=kind, topic_partitions=wanted[:1], timeout_ms=5000)
        a.ask("ElectLeaders", version, election_type=kind, topic_partitions=wanted[1:2], timeout_ms=5000)
        a.ask("ElectLeaders", version, election_type=kind, topic_partitions=wanted[2:], timeout_ms=5000)
        a.ask("ElectLeaders", version, election_type=kind, topic_partitions=[], timeout_ms=5000)


@situation("ListPartitionReassignments")
def moving(w: Play) -> None:
    a, name = w.client("a"), w.topic(2)
    for topics in (
        None,
        [],
        [{"name": name, "partition_indexes": [0, 7]}],
        [{"name": NOWHERE, "partition_indexes": [0]}],
    ):
        a.ask("ListPartitionReassignments", 0, timeout_ms=5000, topics=topics)


@situation("ListConfigResources", (0, 1))
def resources(w: Play, version: int) -> None:
    a = w.client("a")
    for kinds in ([BROKER], [METRICS], [GROUP], [8], [77], [METRICS, BROKER]):
        a.ask("ListConfigResources", version, resource_types=kinds)


@situation("AlterPartitionReassignments", (0, 1))
def moved(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)

    def move(*wanted: tuple[str, int, list[int] | None], **fields: Any) -> None:
        topics = [
            {"name": topic, "partitions": [{"partition_index": index, "replicas": replicas}]}
            for topic, index, replicas in wanted
        ]
        a.ask("AlterPartitionReassignments", version, topics=topics, timeout_ms=5000, **fields)

    own = w.names.broker_id
    move((name, 0, [own]), (name, 1, [own]))
    move((name, 0, [own]), (name, 7, [own]), (name, -1, [own]), (NOWHERE, 0, [own]))
    move((name, 0, None), (name, 7, None), (NOWHERE, 0, None))
    move((name, 0, [9]))
    move((name, 0, [own, 9]))
    move((name, 0, [own, own]))
    move((name, 0, []))
    move((name, 0, [-1]))
    move((name, 0, [own]), (name, 0, [own]))
    move()
    if version:
        move((name, 0, [own]), allow_replication_factor_change=False)
        move((name, 0, [own, 9]), allow_replication_factor_change=False)
        move((name, 0, None), allow_replication_factor_change=False)


@situation("AlterReplicaLogDirs", (1, 2))
def other_directories(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    home = a.ask("DescribeLogDirs", 4, topics=[{"topic": name, "partitions": [0]}]).results[0].log_dir

    def move(*wanted: tuple[str, str, list[int]]) -> None:
        dirs = [
            {"path": path, "topics": [{"name": topic, "partitions": indexes}]}
            for path, topic, indexes in wanted
        ]
        a.ask("AlterReplicaLogDirs", version, dirs=dirs)

    move((home, name, [0, 1]))
    move((home, name, [0, 7, -1]), (home, NOWHERE, [0]))
    move(("/nowhere", name, [0]))
    move(("/nowhere", name, [7]), ("/nowhere", NOWHERE, [0]))
    move(("nowhere", name, [1]))
    move(("", name, [1]))
    move((home + "/", name, [1]))
    move((home, name, []))
    move()
    a.ask("DescribeLogDirs", 4, topics=[{"topic": name, "partitions": [0, 1]}])


@situation("DescribeQuorum", (0, 1, 2))
def quorum(w: Play, version: int) -> None:
    a, metadata = w.client("a"), "__cluster_metadata"
    for name, indexes in (
        (metadata, [0]),
        (metadata, [1]),
        (metadata, [0, 0]),
        (metadata, []),
        ("orders", [0]),
        (NOWHERE, [0]),
        ("", [0]),
    ):
        partitions = [{"partition_index": index} for index in indexes]
        a.ask("DescribeQuorum", version, topics=[{"topic_name": name, "partitions": partitions}])
    a.ask("DescribeQuorum", version, topics=[])
    one = {"topic_name": metadata, "partitions": [{"partition_index": 0}]}
    a.ask("DescribeQuorum", version, topics=[one, one])


@situation("client quotas of clients that have none", (0, 1))
def quotas(w: Play, version: int) -> None:
    a = w.client("a")

    def describe(*components: tuple[str, int, str | None], strict: bool = False) -> None:
        wanted = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
        a.ask("DescribeClientQuotas", version, components=wanted, strict=strict)

    describe()
    describe(strict=True)
    describe(("user", 0, "alice"), ("client-id", 1, None))
    describe(("user", 2, None), strict=True)
    describe(("ip", 0, "127.0.0.1"))
    describe(("ip", 0, "nonsense"))
    describe(("ip", 2, None), ("user", 2, None))
    describe(("nonsense", 2, None))
    describe(("", 2, None))
    describe(("user", 2, None), ("user", 1, None))
    describe(("user", 7, None))
    describe(("user", -1, None))
    describe(("user", 0, None))
    describe(("user", 1, "alice"))
    describe(("user", 2, "alice"))


@situation("SCRAM credentials of users that have none")
def passwords(w: Play) -> None:
    a = w.client("a")
    for users in (
        None,
        [],
        [{"name": "alice"}],
        [{"name": "alice"}, {"name": "bob"}],
        [{"name": "alice"}] * 2,
        [{"name": ""}],
    ):
        a.ask("DescribeUserScramCredentials", 0, users=users)


@situation("ElectLeaders with an unknown election type", (1, 2))
def elected_oddly(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    for kind in (2, -1, 127, -128):
        for wanted in (
            [{"topic": name, "partitions": [0, 1]}],
            [{"topic": "nothing", "partitions": [0]}],
            [],
            None,
        ):
            a.ask("ElectLeaders", version, election_type=kind, topic_partitions=wanted, timeout_ms=5000)


@situation("UnregisterBroker of an unknown broker")
def removed_from_the_cluster(w: Play) -> None:
    a = w.client("a")
    for broker_id in (9, -1):
        a.ask("UnregisterBroker", 0, broker_id=broker_id)
