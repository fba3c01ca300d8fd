"""What a user may do, and what it is answered: each situation has the ACLs that it creates, and no others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka_offsets.security.acls import AclOperation as Op
from tests.differential.play import Client, Play
from tests.differential.situations.acls import (
    ANYTHING,
    CLUSTER,
    DENY,
    GROUP,
    PREFIXED,
    TOPIC,
    TRANSACTIONAL_ID,
    acl,
    aside,
    in_force,
    quiet,
)
from tests.differential.situations.quotas_and_passwords import entry
from tests.differential.situations.records import batch
from tests.differential.table import situation

THE_CLUSTER = "kafka-cluster"


@contextmanager
def acls(w: Play, *given: dict[str, Any]) -> Iterator[Client]:
    """Alice, while there are these ACLs. They are shown as one request of the super user."""
    a = w.client("admin")
    a.ask("CreateAcls", 3, creations=list(given))
    aside(w, lambda: in_force(w, quiet(w), len(given)))
    yield w.client("alice", user="alice")

    def remove() -> None:
        quiet(w).ask("DeleteAcls", 3, filters=[ANYTHING])
        in_force(w, quiet(w), 0)

    aside(w, remove)


def topics(*names: str, index: str = "partition_index", **fields: Any) -> list[dict[str, Any]]:
    """Partition 0 of topics, as many requests name them."""
    return [{"name": name, "partitions": [{index: 0} | fields]} for name in names]


def own(w: Play) -> tuple[str, str, str]:
    """Two topics of the situation, and the name of one that is missing."""
    denied, free = w.topic(name=f"{w.slug}-a"), w.topic(name=f"{w.slug}-b")
    return denied, free, f"{w.slug}-c"


# -- commits and fetches of offsets


@situation("OffsetCommit without any right", range(2, 11), setting="acls")
def commit_denied(w: Play, version: int) -> None:
    alice = w.client("alice", user="alice")
    w.learn("orders", "pages")
    alice.commit(("orders", 0, 1), ("orders", 9, 1), ("pages", 0, 1), version=version)


@situation("OffsetCommit with the right to the group, and to one of two topics", range(2, 11), setting="acls")
def commit_in_part(w: Play, version: int) -> None:
    denied, free, missing = own(w)
    w.learn(denied, free)
    with acls(w, acl(GROUP, w.group, Op.READ), acl(TOPIC, free, Op.READ)) as alice:
        alice.commit((denied, 0, 1), (denied, 7, 1), (free, 0, 2), (free, 7, 2), version=version)
        alice.commit((denied, 0, 1), version=version)
        alice.commit(
            (denied, 0, 1), (free, 0, 2), version=version, generation_id_or_member_epoch=3, member_id="m"
        )
        if version < 10:
            alice.commit((missing, 0, 1), (denied, 0, 1), (free, 0, 3), version=version)
        w.client("admin").fetch(everything=True, version=8)


@situation("OffsetCommit with the right to describe the group alone", setting="acls")
def commit_described(w: Play) -> None:
    with acls(w, acl(GROUP, w.group, Op.DESCRIBE), acl(TOPIC, "*", Op.ALL)) as alice:
        alice.commit(("orders", 0, 1))


@situation("OffsetFetch of named partitions, with one topic hidden", range(1, 11), setting="acls")
def fetch_in_part(w: Play, version: int) -> None:
    hidden, free, missing = own(w)
    w.learn(hidden, free)
    admin = w.client("admin")
    admin.commit((hidden, 0, 1), (free, 0, 2))
    with acls(w, acl(GROUP, w.group, Op.DESCRIBE), acl(TOPIC, free, Op.DESCRIBE)) as alice:
        alice.fetch((hidden, 0, 5), (free, 0, 5), version=version)
        alice.fetch((hidden, 0), version=version)
        if version < 10:
            alice.fetch((missing, 0), (free, 0), version=version)
    bob = w.client("bob", user="bob")
    bob.fetch((hidden, 0), (free, 0), version=version)


@situation("OffsetFetch of everything, with one topic hidden", range(2, 11), setting="acls")
def fetch_all(w: Play, version: int) -> None:
    hidden, free, _ = own(w)
    w.learn(hidden, free)
    w.client("admin").commit((hidden, 0, 1), (free, 0, 2))
    with acls(w, acl(GROUP, w.group, Op.READ), acl(TOPIC, free, Op.WRITE)) as alice:
        alice.fetch(everything=True, version=version)
    w.client("bob", user="bob").fetch(everything=True, version=version)


@situation("OffsetFetch of several groups, one denied, one hidden in part", range(8, 11), setting="acls")
def fetch_groups(w: Play, version: int) -> None:
    hidden, free, _ = own(w)
    w.learn(hidden, free)
    ours, theirs = f"{w.group} ours", f"{w.group} theirs"
    for group in (ours, theirs):
        w.client("admin").commit((hidden, 0, 1), (free, 0, 2), group_id=group)
    named = [{"name": name, "topic_id": name, "partition_indexes": [0]} for name in (hidden, free)]
    with acls(w, acl(GROUP, ours, Op.READ), acl(TOPIC, free, Op.READ)) as alice:
        alice.fetch_groups(
            {"group_id": theirs, "topics": named}, {"group_id": ours, "topics": named}, version=version
        )
        alice.fetch_groups(
            {"group_id": ours, "topics": None}, {"group_id": theirs, "topics": None}, version=version
        )
        alice.fetch_groups({"group_id": theirs, "topics": None}, version=version)


@situation("OffsetDelete with a topic that may not be read, and without the group", setting="acls")
def offset_delete(w: Play) -> None:
    denied, free, missing = own(w)
    w.client("admin").commit((denied, 0, 1), (free, 0, 2))
    with acls(w, acl(GROUP, w.group, Op.DELETE), acl(TOPIC, free, Op.READ)) as alice:
        alice.delete_offsets((denied, 0), (free, 0))
        alice.delete_offsets((denied, 0), (missing, 0))
        alice.delete_offsets((denied, 0), (free, 0), group_id=f"{w.group} other")
    with acls(w, acl(GROUP, w.group, Op.READ), acl(TOPIC, free, Op.READ)) as alice:
        alice.delete_offsets((free, 0))


@situation("TxnOffsetCommit: transactional id, group, topic", range(6), setting="acls")
def txn_offset_commit(w: Play, version: int) -> None:
    denied, free, _ = own(w)
    name = w.transactional()
    group = acl(GROUP, w.group, Op.READ)
    writes = acl(TRANSACTIONAL_ID, name, Op.WRITE)
    wanted = topics(denied, free, committed_offset=1, committed_metadata="")
    fields = {
        "transactional_id": name,
        "group_id": w.group,
        "producer_id": 7,
        "producer_epoch": 0,
        "topics": wanted,
    }
    with acls(w, group, acl(TOPIC, free, Op.READ)) as alice:
        alice.ask("TxnOffsetCommit", version, **fields)
    with acls(w, writes, acl(TOPIC, free, Op.READ)) as alice:
        alice.ask("TxnOffsetCommit", version, **fields)
    with acls(w, writes, group) as alice:
        alice.ask("TxnOffsetCommit", version, **fields)
    with acls(w, writes, group, acl(TOPIC, free, Op.READ)) as alice:
        alice.ask("TxnOffsetCommit", version, **fields)


# -- rules


@situation("a prefix allows, a longer one denies", setting="acls")
def prefixes(w: Play) -> None:
    given = (
        acl(GROUP, w.group, Op.READ),
        acl(TOPIC, w.slug, Op.READ, pattern=PREFIXED),
        acl(TOPIC, f"{w.slug}-private", Op.READ, DENY, pattern=PREFIXED),
    )
    for name in ("-public", "-private", "-private-2", "-privat"):
        w.topic(name=w.slug + name)
    with acls(w, *given) as alice:
        for name in ("-private", "-private-2", "-privat", "-public"):
            alice.commit((w.slug + name, 0, 1))


@situation("a denial counts before every permission", setting="acls")
def denials(w: Play) -> None:
    with acls(
        w,
        acl(GROUP, "*", Op.ALL),
        acl(TOPIC, "*", Op.ALL),
        acl(TOPIC, "orders", Op.READ, DENY),
        acl(GROUP, f"{w.group} denied", Op.ALL, DENY, user="*"),
    ) as alice:
        alice.commit(("orders", 0, 1), ("pages", 0, 1))
        alice.fetch(("orders", 0))
        alice.commit(("pages", 0, 1), group_id=f"{w.group} denied")
        alice.fetch(("pages", 0), group_id=f"{w.group} denied")
    with acls(w, acl(GROUP, "*", Op.ALL), acl(TOPIC, "*", Op.ALL), acl(TOPIC, "*", Op.ALL, DENY)) as alice:
        alice.commit(("orders", 0, 1))
        alice.fetch(("orders", 0))


@situation("the denial of an operation does not deny what it implies", setting="acls")
def implied(w: Play) -> None:
    for operation in (
        Op.READ,
        Op.WRITE,
        Op.DELETE,
        Op.ALTER,
        Op.CREATE,
        Op.ALTER_CONFIGS,
        Op.DESCRIBE,
        Op.ALL,
    ):
        with acls(w, acl(TOPIC, "orders", operation), acl(GROUP, w.group, operation)) as alice:
            alice.fetch(("orders", 0))
            alice.ask(
                "DescribeConfigs",
                4,
                resources=[
                    {"resource_type": 2, "resource_name": "orders", "configuration_keys": ["cleanup.policy"]}
                ],
            )
    with acls(
        w, acl(TOPIC, "orders", Op.READ), acl(GROUP, "*", Op.READ), acl(TOPIC, "*", Op.DESCRIBE, DENY)
    ) as alice:
        alice.fetch(("orders", 0))
        alice.commit(("orders", 0, 1))


@situation("rules of hosts and principals", setting="acls")
def hosts(w: Play) -> None:
    for given in (
        (acl(GROUP, w.group, Op.READ, host="127.0.0.1"), acl(TOPIC, "orders", Op.READ, host="127.0.0.1")),
        (acl(GROUP, w.group, Op.READ, host="127.0.0.2"), acl(TOPIC, "orders", Op.READ)),
        (acl(GROUP, w.group, Op.READ, user="*"), acl(TOPIC, "orders", Op.READ, user="bob")),
        (acl(GROUP, w.group, Op.READ, user="*"), acl(TOPIC, "orders", Op.READ, user="Alice")),
        (
            acl(GROUP, w.group, Op.READ, user="*"),
            acl(TOPIC, "orders", Op.READ, user="*"),
            acl(TOPIC, "orders", Op.READ, DENY, host="127.0.0.1"),
        ),
        (
            acl(GROUP, w.group, Op.READ, user="*"),
            acl(TOPIC, "orders", Op.READ, user="*"),
            acl(TOPIC, "orders", Op.READ, DENY, host="localhost", user="*"),
        ),
        (acl(GROUP, w.group, Op.READ, principal="Group:alice"), acl(TOPIC, "orders", Op.READ, user="*")),
    ):
        with acls(w, *given) as alice:
            alice.commit(("orders", 0, 1))


@situation("a name of a topic that begins a literal rule, and a rule that begins the name", setting="acls")
def literal(w: Play) -> None:
    for name in ("orders", "order", "orders2", "ord*", "O"):
        with acls(w, acl(GROUP, w.group, Op.READ), acl(TOPIC, name, Op.READ)) as alice:
            alice.commit(("orders", 0, 1))


@situation("a super user is not denied", setting="acls")
def super_user(w: Play) -> None:
    with acls(w, acl(GROUP, "*", Op.ALL, DENY, user="*"), acl(TOPIC, "*", Op.ALL, DENY, user="admin")):
        admin = w.client("admin")
        admin.commit(("orders", 0, 1))
        admin.fetch(("orders", 0))


# -- members of groups


@situation("members without the right to read their group", setting="acls")
def members(w: Play) -> None:
    with acls(w, acl(GROUP, w.group, Op.DESCRIBE), acl(TOPIC, "*", Op.ALL)) as alice:
        for version in (0, 4, 9):
            alice.join(version)
        for version in (0, 3, 5):
            alice.sync({}, version=version, protocol_name="range")
        alice.sync({}, version=5, protocol_type=None, protocol_name=None)
        for version in (0, 4):
            alice.beat(version)
        for version in (0, 3, 5):
            alice.leave(("m", None), version=version)


@situation("a member with the right to read its group", setting="acls")
def member(w: Play) -> None:
    with acls(w, acl(GROUP, w.group, Op.READ)) as alice:
        w.stable(alice)
        alice.beat()
        alice.commit(("orders", 0, 1))
        alice.leave()


@situation("ConsumerGroupHeartbeat: the group and the topics", range(2), setting="acls")
def consumer(w: Play, version: int) -> None:
    fields = {
        "group_id": w.group,
        "member_id": "m" * 22,
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "topic_partitions": [],
    }
    with acls(w, acl(GROUP, w.group, Op.DESCRIBE), acl(TOPIC, "*", Op.ALL)) as alice:
        alice.ask("ConsumerGroupHeartbeat", version, **fields, subscribed_topic_names=["orders"])
    with acls(w, acl(GROUP, w.group, Op.READ), acl(TOPIC, "orders", Op.DESCRIBE)) as alice:
        alice.ask("ConsumerGroupHeartbeat", version, **fields, subscribed_topic_names=["orders", "pages"])
        alice.ask("ConsumerGroupHeartbeat", version, **fields, subscribed_topic_names=["absent"])
        w.learn("orders")
        alice.ask("ConsumerGroupHeartbeat", version, **fields, subscribed_topic_names=["orders"])
        left = fields | {"member_epoch": -1, "topic_partitions": None, "rebalance_timeout_ms": -1}
        alice.ask("ConsumerGroupHeartbeat", version, **left)


@situation(
    "ConsumerGroupDescribe: a group, and a group with a topic that is hidden", range(2), setting="acls"
)
def consumers(w: Play, version: int) -> None:
    w.learn("orders")
    fields = {
        "group_id": w.group,
        "member_id": "m" * 22,
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "topic_partitions": [],
        "subscribed_topic_names": ["orders"],
    }
    w.client("admin").ask("ConsumerGroupHeartbeat", version, **fields)
    asked = {"group_ids": [w.group, f"{w.group} other"], "include_authorized_operations": True}
    with acls(w, acl(GROUP, w.group, Op.DESCRIBE)) as alice:
        alice.ask("ConsumerGroupDescribe", version, **asked)
    with acls(w, acl(GROUP, w.group, Op.READ), acl(TOPIC, "orders", Op.READ)) as alice:
        alice.ask("ConsumerGroupDescribe", version, **asked)
    left = {
        "member_epoch": -1,
        "topic_partitions": None,
        "rebalance_timeout_ms": -1,
        "subscribed_topic_names": None,
    }
    w.client("admin").ask("ConsumerGroupHeartbeat", version, **fields | left)


# -- groups as administrators see them


@situation(
    "DescribeGroups of a group that is denied, and what may be done with the other", range(7), setting="acls"
)
def describe_groups(w: Play, version: int) -> None:
    mine, theirs = f"{w.group} mine", f"{w.group} theirs"
    for group in (mine, theirs):
        w.client("admin").commit(("orders", 0, 1), group_id=group)
    asked = {} if version < 3 else {"include_authorized_operations": True}
    with acls(w, acl(GROUP, mine, Op.READ), acl(GROUP, mine, Op.ALTER_CONFIGS)) as alice:
        alice.describe(mine, theirs, version=version, **asked)
    with acls(w, acl(GROUP, mine, Op.ALL)) as alice:
        alice.describe(mine, version=version, **asked)


@situation(
    "ListGroups: those that may be described, or all with the right to the cluster", range(6), setting="acls"
)
def list_groups(w: Play, version: int) -> None:
    for group in ("mine", "theirs"):
        w.client("admin").commit(("orders", 0, 1), group_id=f"{w.group} {group}")
    w.client("alice", user="alice").list_groups(version)
    with acls(w, acl(GROUP, f"{w.group} mine", Op.DELETE)) as alice:
        alice.list_groups(version)
    with acls(w, acl(CLUSTER, THE_CLUSTER, Op.DESCRIBE)) as alice:
        alice.list_groups(version)


@situation("DeleteGroups of two groups, one denied", range(3), setting="acls")
def delete_groups(w: Play, version: int) -> None:
    mine, theirs = f"{w.group} mine", f"{w.group} theirs"
    for group in (mine, theirs):
        w.client("admin").commit(("orders", 0, 1), group_id=group)
    with acls(w, acl(GROUP, mine, Op.DELETE), acl(GROUP, theirs, Op.READ)) as alice:
        alice.delete_groups(theirs, mine, version=version)
        alice.delete_groups(theirs, version=version)


@situation("FindCoordinator of groups and transactional ids that are denied", range(7), setting="acls")
def find_coordinator(w: Play, version: int) -> None:
    w.transactional()
    mine, theirs = f"{w.group} mine", f"{w.group} theirs"
    with acls(w, acl(GROUP, mine, Op.READ), acl(TRANSACTIONAL_ID, mine, Op.WRITE)) as alice:
        for key_type in (0, 1, 2) if version else (0,):
            if version < 4:
                alice.ask("FindCoordinator", version, key=mine, key_type=key_type)
                alice.ask("FindCoordinator", version, key=theirs, key_type=key_type)
            else:
                keys = [theirs, mine, f"{w.group} other"]
                alice.ask("FindCoordinator", version, coordinator_keys=keys, key_type=key_type)


# -- topics


@situation("Metadata of topics, one hidden, one missing", range(14), setting="acls")
def metadata(w: Play, version: int) -> None:
    hidden, free, missing = own(w)
    fields: dict[str, Any] = {"allow_auto_topic_creation": False} if version >= 4 else {}
    if 8 <= version <= 10:
        fields["include_cluster_authorized_operations"] = True
    if version >= 8:
        fields["include_topic_authorized_operations"] = True
    names = (hidden, free) if version < 4 else (hidden, free, missing)
    with acls(w, acl(TOPIC, free, Op.WRITE), acl(TOPIC, f"{missing}-2", Op.ALL)) as alice:
        alice.ask("Metadata", version, topics=[{"name": name} for name in names], **fields)
        alice.ask("Metadata", version, topics=[] if version == 0 else None, **fields)
        alice.ask("Metadata", version, topics=[{"name": hidden}], **fields)
        if version:
            alice.ask("Metadata", version, topics=[], **fields)


@situation("Metadata by the ids of topics, one hidden, one unknown", (12, 13), setting="acls")
def metadata_by_id(w: Play, version: int) -> None:
    hidden, free, _ = own(w)
    w.learn(hidden, free)
    fields = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    with acls(w, acl(TOPIC, free, Op.READ), acl(TOPIC, free, Op.CREATE)) as alice:
        wanted = [{"name": None, "topic_id": name} for name in (hidden, free, "unknown")]
        alice.ask("Metadata", version, topics=wanted, **fields)


@situation("Metadata creates a topic only with the right to create it", (4, 9, 13), setting="acls")
def auto_create(w: Play, version: int) -> None:
    name = w.slug
    asked = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    with acls(w, acl(TOPIC, name, Op.READ)) as alice:
        alice.ask("Metadata", version, **asked)
    with acls(w, acl(TOPIC, name, Op.CREATE)) as alice:
        alice.ask("Metadata", version, **asked)


@situation("DescribeTopicPartitions of named topics and of all, some hidden", setting="acls")
def describe_partitions(w: Play) -> None:
    hidden, free, missing = own(w)
    w.learn(hidden, free)
    with acls(w, acl(TOPIC, free, Op.WRITE), acl(TOPIC, free, Op.CREATE)) as alice:
        for names in ((hidden, free), (missing, free), (), (hidden,)):
            alice.ask(
                "DescribeTopicPartitions",
                0,
                topics=[{"name": name} for name in names],
                response_partition_limit=100,
                cursor=None,
            )


@situation("DescribeCluster: what may be done with the cluster", range(3), setting="acls")
def describe_cluster(w: Play, version: int) -> None:
    for given in ((), (Op.ALTER,), (Op.CREATE,), (Op.DESCRIBE, Op.CREATE), (Op.ALL,)):
        with acls(w, *(acl(CLUSTER, THE_CLUSTER, operation) for operation in given)) as alice:
            alice.ask("DescribeCluster", version, include_cluster_authorized_operations=True)
            alice.ask("DescribeCluster", version, include_cluster_authorized_operations=False)


@situation(
    "CreateTopics with rights to the cluster and to topics",
    (2, 5),
    setting="acls",
)
def create_topics(w: Play, version: int) -> None:
    def asked(*names: str) -> dict[str, Any]:
        plain = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        return {
            "topics": [{"name": f"{w.slug}-{name}"} | plain for name in names],
            "timeout_ms": 5000,
            "validate_only": True,
        }

    with acls(w, acl(TOPIC, f"{w.slug}-a", Op.CREATE)) as alice:
        alice.ask("CreateTopics", version, **asked("a"))
        alice.ask("CreateTopics", version, **asked("b"))
        alice.ask("CreateTopics", version, **asked("b", "b"))
    with acls(w, acl(CLUSTER, THE_CLUSTER, Op.CREATE)) as alice:
        alice.ask("CreateTopics", version, **asked("b"))


@situation("DeleteTopics by name and by id, described or not", (1, 5, 6), setting="acls")
def delete_topics(w: Play, version: int) -> None:
    hidden, seen, missing = own(w)
    w.learn(hidden, seen)
    with acls(w, acl(TOPIC, seen, Op.READ), acl(TOPIC, f"{missing}-2", Op.DELETE)) as alice:
        for name in (hidden, seen, missing, f"{missing}-2"):
            if version < 6:
                alice.ask("DeleteTopics", version, topic_names=[name], timeout_ms=5000)
            else:
                alice.ask("DeleteTopics", version, topics=[{"name": name}], timeout_ms=5000)
        for name in (hidden, seen) if version >= 6 else ():
            alice.ask("DeleteTopics", version, topics=[{"name": None, "topic_id": name}], timeout_ms=5000)
        if version >= 6:
            asked = [{"name": None, "topic_id": "unknown"}]
            alice.ask("DeleteTopics", version, topics=asked, timeout_ms=5000)
            asked = [{"name": hidden}, {"name": hidden}]
            alice.ask("DeleteTopics", version, topics=asked, timeout_ms=5000)
    with acls(w, acl(TOPIC, hidden, Op.DELETE)) as alice:
        if version < 6:
            alice.ask("DeleteTopics", version, topic_names=[hidden], timeout_ms=5000)
        else:
            alice.ask("DeleteTopics", version, topics=[{"name": hidden}], timeout_ms=5000)


@situation("CreatePartitions of topics, one denied", range(4), setting="acls")
def create_partitions(w: Play, version: int) -> None:
    denied, free, missing = own(w)
    with acls(w, acl(TOPIC, free, Op.ALTER), acl(TOPIC, denied, Op.CREATE)) as alice:
        for name in (denied, free, missing):
            asked = [{"name": name, "count": 2, "assignments": None}]
            alice.ask("CreatePartitions", version, topics=asked, timeout_ms=5000, validate_only=True)


@situation("DescribeConfigs of what is denied", (1, 2, 4), setting="acls")
def describe_configs(w: Play, version: int) -> None:
    asked = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
        for kind, name, key in ((2, "orders", "cleanup.policy"), (4, "1", "num.io.threads"), (32, "g", "x"))
    ]
    alice = w.client("alice", user="alice")
    for each in asked:
        alice.ask("DescribeConfigs", version, resources=[each])
    with acls(w, acl(TOPIC, "orders", Op.DESCRIBE_CONFIGS)) as alice:
        alice.ask("DescribeConfigs", version, resources=asked)


@situation("AlterConfigs and IncrementalAlterConfigs of what is denied", (0, 1), setting="acls")
def alter_configs(w: Play, version: int) -> None:
    incremental = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": key, "config_operation": 0, "value": value}],
        }
        for kind, name, key, value in (
            (2, "orders", "cleanup.policy", "delete"),
            (4, "1", "log.cleaner.threads", "1"),
            (32, "g", "consumer.session.timeout.ms", "50000"),
            (2, "pages", "cleanup.policy", "delete"),
        )
    ]
    whole = [
        each | {"configs": [{"name": c["name"], "value": c["value"]} for c in each["configs"]]}
        for each in incremental
    ]
    with acls(w, acl(TOPIC, "pages", Op.ALTER_CONFIGS), acl(TOPIC, "orders", Op.ALTER)) as alice:
        alice.ask("IncrementalAlterConfigs", version, resources=incremental, validate_only=True)
        alice.ask("AlterConfigs", version, resources=whole, validate_only=True)
        twice = [incremental[0], incremental[0]]
        alice.ask("IncrementalAlterConfigs", version, resources=twice, validate_only=True)
        logger = {"resource_type": 8, "resource_name": "1"}
        change = [{"name": "kafka", "config_operation": 0, "value": "INFO"}]
        alice.ask(
            "IncrementalAlterConfigs", version, resources=[logger | {"configs": change}], validate_only=True
        )
        replaced = [logger | {"configs": [{"name": "kafka", "value": "INFO"}]}, whole[0]]
        alice.ask("AlterConfigs", version, resources=replaced, validate_only=True)


# -- records


@situation("Produce to topics, one denied", (3, 7, 9, 12), setting="acls")
def produce(w: Play, version: int) -> None:
    denied, free, missing = own(w)
    for acks in (1, -1):
        with acls(w, acl(TOPIC, free, Op.WRITE), acl(TOPIC, denied, Op.READ)) as alice:
            for names in ((denied, free), (denied,), (missing,)):
                data = [
                    {"name": name, "partition_data": [{"index": 0, "records": batch("x")}]} for name in names
                ]
                alice.ask(
                    "Produce", version, transactional_id=None, acks=acks, timeout_ms=1000, topic_data=data
                )


@situation("Fetch of partitions, one denied", (4, 7, 12), setting="acls")
def fetch(w: Play, version: int) -> None:
    denied, free, missing = own(w)
    with acls(w, acl(TOPIC, free, Op.READ), acl(TOPIC, denied, Op.DESCRIBE)) as alice:
        for names in ((denied, free), (denied,), (missing, denied), (missing, free, denied)):
            wanted = [
                {
                    "topic": name,
                    "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}],
                }
                for name in names
            ]
            alice.ask(
                "Fetch", version, replica_id=-1, max_wait_ms=1, min_bytes=0, max_bytes=1000, topics=wanted,
                isolation_level=0,
            )  # fmt: skip


@situation("Fetch by the ids of topics, one denied", (13, 17), setting="acls")
def fetch_by_id(w: Play, version: int) -> None:
    denied, free, _ = own(w)
    w.learn(denied, free)
    with acls(w, acl(TOPIC, free, Op.READ), acl(TOPIC, denied, Op.DESCRIBE)) as alice:
        for names in ((denied, free), (denied,), ("unknown", denied)):
            wanted = [
                {
                    "topic_id": name,
                    "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}],
                }
                for name in names
            ]
            alice.ask("Fetch", version, max_wait_ms=1, min_bytes=0, max_bytes=1000, topics=wanted)


@situation("ListOffsets, OffsetForLeaderEpoch and DeleteRecords of topics, one denied", setting="acls")
def logs(w: Play) -> None:
    denied, free, missing = own(w)
    both, lone = (denied, free), (missing,)
    with acls(w, acl(TOPIC, free, Op.DELETE), acl(TOPIC, denied, Op.CREATE)) as alice:
        for names in (both, lone):
            for version in (1, 4, 10):
                alice.ask("ListOffsets", version, replica_id=-1, topics=topics(*names, timestamp=-1))
            for version in (0, 2):
                alice.ask("DeleteRecords", version, topics=topics(*names, offset=0), timeout_ms=1000)
    asked = [
        {"topic": name, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
        for name in (denied, free)
    ]
    for given in (acl(TOPIC, free, Op.DESCRIBE), acl(CLUSTER, THE_CLUSTER, Op.CLUSTER_ACTION)):
        with acls(w, given) as alice:
            for version in (2, 4):
                alice.ask("OffsetForLeaderEpoch", version, replica_id=-1, topics=asked[:1])
                alice.ask("OffsetForLeaderEpoch", version, replica_id=-1, topics=asked[1:])


# -- transactions


@situation("a transactional id that is denied", setting="acls")
def transactional(w: Play) -> None:
    name = w.transactional()
    topic = w.topic(name=f"{w.slug}-t")
    producer = {"transactional_id": name, "producer_id": 7, "producer_epoch": 0}
    with acls(
        w, acl(TRANSACTIONAL_ID, name, Op.DESCRIBE), acl(TOPIC, "*", Op.ALL), acl(GROUP, "*", Op.ALL)
    ) as alice:
        for version in (0, 2, 4):
            alice.ask("InitProducerId", version, transactional_id=name, transaction_timeout_ms=1000)
        for version in (0, 3):
            alice.ask(
                "AddPartitionsToTxn", version, v3_and_below_transactional_id=name, v3_and_below_producer_id=7,
                v3_and_below_producer_epoch=0, v3_and_below_topics=[{"name": topic, "partitions": [0]}],
            )  # fmt: skip
            alice.ask("AddOffsetsToTxn", version, group_id=w.group, **producer)
            alice.ask("EndTxn", version, committed=True, **producer)
        asked = {"verify_only": False, "topics": [{"name": topic, "partitions": [0]}]}
        alice.ask("AddPartitionsToTxn", 4, transactions=[producer | asked])
        alice.ask("AddPartitionsToTxn", 5, transactions=[producer | asked])


@situation("transactions with a topic or a group that is denied", setting="acls")
def in_transaction(w: Play) -> None:
    denied, free, missing = own(w)
    name = w.transactional()
    with acls(
        w, acl(TRANSACTIONAL_ID, name, Op.WRITE), acl(TOPIC, free, Op.WRITE), acl(GROUP, w.group, Op.READ)
    ) as alice:
        for version in (0, 3):
            for names in ((denied, free), (missing, free), (free,), (denied, "__consumer_offsets")):
                alice.ask(
                    "AddPartitionsToTxn", version, v3_and_below_transactional_id=name, v3_and_below_producer_id=7,
                    v3_and_below_producer_epoch=0,
                    v3_and_below_topics=[{"name": each, "partitions": [0]} for each in names],
                )  # fmt: skip
            for group in (w.group, f"{w.group} other"):
                alice.ask(
                    "AddOffsetsToTxn",
                    version,
                    group_id=group,
                    transactional_id=name,
                    producer_id=7,
                    producer_epoch=0,
                )


@situation("InitProducerId without a transactional id", setting="acls")
def idempotent(w: Play) -> None:
    w.transactional()
    asked = {"transactional_id": None, "transaction_timeout_ms": 1000}
    w.client("alice", user="alice").ask("InitProducerId", 4, **asked)
    for given in (
        [acl(CLUSTER, THE_CLUSTER, Op.IDEMPOTENT_WRITE)],
        [acl(TOPIC, "anything", Op.WRITE)],
        [acl(TOPIC, "any", Op.WRITE, pattern=PREFIXED)],
        [acl(TOPIC, "*", Op.ALL)],
        [acl(TOPIC, "anything", Op.READ)],
        [acl(TOPIC, "anything", Op.WRITE, user="bob")],
        [acl(TOPIC, "anything", Op.WRITE), acl(TOPIC, "*", Op.WRITE, DENY)],
        [acl(TOPIC, "anything", Op.WRITE), acl(TOPIC, "anything", Op.WRITE, DENY)],
        [acl(TOPIC, "anything", Op.WRITE), acl(TOPIC, "any", Op.WRITE, DENY, pattern=PREFIXED)],
        [acl(TOPIC, "any", Op.WRITE, pattern=PREFIXED), acl(TOPIC, "anything", Op.WRITE, DENY)],
    ):
        with acls(w, *given) as alice:
            alice.ask("InitProducerId", 4, **asked)


@situation("DescribeTransactions and ListTransactions of ids that are denied", setting="acls")
def transactions(w: Play) -> None:
    name = w.transactional()
    w.client("admin").ask("InitProducerId", 4, transactional_id=name, transaction_timeout_ms=1000)
    alice = w.client("alice", user="alice")
    alice.ask("DescribeTransactions", 0, transactional_ids=[name])
    alice.ask("ListTransactions", 1, state_filters=[], producer_id_filters=[], duration_filter=-1)
    with acls(w, acl(TRANSACTIONAL_ID, name, Op.WRITE)) as alice:
        alice.ask("DescribeTransactions", 0, transactional_ids=[f"{name}-2", name])
        alice.ask("ListTransactions", 1, state_filters=[], producer_id_filters=[], duration_filter=-1)


@situation("DescribeProducers of topics, one denied", setting="acls")
def producers(w: Play) -> None:
    denied, free, missing = own(w)
    with acls(w, acl(TOPIC, free, Op.READ), acl(TOPIC, denied, Op.WRITE)) as alice:
        for name in (denied, free, missing):
            alice.ask("DescribeProducers", 0, topics=[{"name": name, "partition_indexes": [0]}])


# -- the cluster


@situation("requests that need a right to the cluster", setting="acls")
def cluster(w: Play) -> None:
    asked: list[tuple[str, int, dict[str, Any]]] = [
        ("DescribeLogDirs", 1, {"topics": None}),
        ("DescribeLogDirs", 4, {"topics": None}),
        (
            "AlterReplicaLogDirs",
            2,
            {"dirs": [{"path": "/x", "topics": [{"name": "orders", "partitions": [0]}]}]},
        ),
        (
            "ElectLeaders",
            0,
            {"topic_partitions": [{"topic": "orders", "partitions": [0]}], "timeout_ms": 1000},
        ),
        ("ElectLeaders", 2, {"election_type": 0, "topic_partitions": None, "timeout_ms": 1000}),
        (
            "AlterPartitionReassignments",
            0,
            {
                "timeout_ms": 1000,
                "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
            },
        ),
        ("ListPartitionReassignments", 0, {"timeout_ms": 1000, "topics": None}),
        ("DescribeClientQuotas", 1, {"components": [], "strict": False}),
        (
            "AlterClientQuotas",
            1,
            {"entries": [entry([("user", "x")], producer_byte_rate=1.0)], "validate_only": True},
        ),
        ("DescribeUserScramCredentials", 0, {"users": [{"name": "x"}]}),
        ("AlterUserScramCredentials", 0, {"deletions": [{"name": "x", "mechanism": 1}], "upsertions": []}),
        (
            "DescribeQuorum",
            1,
            {"topics": [{"topic_name": "__cluster_metadata", "partitions": []}]},
        ),
        ("UnregisterBroker", 0, {"broker_id": 9}),
        ("ListConfigResources", 0, {}),
        ("ListConfigResources", 1, {"resource_types": [2]}),
        ("WriteTxnMarkers", 1, {"markers": []}),
    ]
    for api, version, fields in asked:
        w.client("alice", user="alice").ask(api, version, **fields)
