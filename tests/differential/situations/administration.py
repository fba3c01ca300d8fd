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


@situation("configurations are replaced", (0, 1, 2))
def replaced(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)

    def alter(*resources: dict[str, Any], validate_only: bool = False) -> None:
        a.ask("AlterConfigs", version, resources=list(resources), validate_only=validate_only)
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


@situation("access rules without an authorizer", (1, 2, 3))
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


@situation("directories of logs", range(1, 6))
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


@situation("leaders are elected", (0, 1, 2))
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


@situation("partitions that move")
def moving(w: Play) -> None:
    a, name = w.client("a"), w.topic(2)
    for topics in (
        None,
        [],
        [{"name": name, "partition_indexes": [0, 7]}],
        [{"name": NOWHERE, "partition_indexes": [0]}],
    ):
        a.ask("ListPartitionReassignments", 0, timeout_ms=5000, topics=topics)


@situation("resources with a configuration", (0, 1))
def resources(w: Play, version: int) -> None:
    a = w.client("a")
    for kinds in ([BROKER], [METRICS], [GROUP], [8], [77], [METRICS, BROKER]):
        a.ask("ListConfigResources", version, resource_types=kinds)
