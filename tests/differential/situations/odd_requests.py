"""Requests that few clients send: things named oddly, twice or not at all, and values written in other ways."""

from typing import Any

from tests.differential.play import Play, subscription
from tests.differential.situations.consumer_groups import beat, describe, enter, owned
from tests.differential.situations.records import batch, fetch, offsets_at, produce
from tests.differential.situations.transactions import write_markers
from tests.differential.table import situation
from tests.differential.transactional_producer import Producer, own_topic, transactional

TOPIC, SET, APPEND, SUBTRACT = 2, 0, 2, 3
SETTLE_MS = 250
"""A Kafka answers when its controller knows, and its broker follows."""

WRITTEN_OTHERWISE = {
    "retention.ms": (" 5 ", "+5", "-0", "007"),
    "min.cleanable.dirty.ratio": ("0", "1", "5e-1", ".5", "1e-4", "0.001", "1d"),
    "unclean.leader.election.enable": ("TRUE", " true "),
    "compression.type": ("gzip ",),
    "cleanup.policy": (" delete , compact ", "compact,compact", "compact,delete,compact", ""),
    "leader.replication.throttled.replicas": ("0:1,0:1", " 0:1 , 1:1 ", "*"),
}


@situation("values of a topic are described as they are parsed")
def parsed_values(w: Play) -> None:
    a, name = w.client("a"), w.topic(1)

    def alter(key: str, value: str, operation: int = SET) -> None:
        changes = [{"name": key, "config_operation": operation, "value": value}]
        resource = {"resource_type": TOPIC, "resource_name": name}
        a.ask("IncrementalAlterConfigs", 1, resources=[resource | {"configs": changes}], validate_only=False)
        w.pause(SETTLE_MS)
        a.ask(
            "DescribeConfigs", 4, resources=[resource | {"configuration_keys": [key]}], include_synonyms=True
        )

    for key, values in WRITTEN_OTHERWISE.items():
        for value in values:
            alter(key, value)
    alter("cleanup.policy", "delete")
    alter("cleanup.policy", "compact, delete", APPEND)
    alter("cleanup.policy", " delete", SUBTRACT)
    alter("cleanup.policy", "delete", SUBTRACT)


@situation("commits with the longest and with negative retention times", (2, 3, 4))
def odd_retentions(w: Play, version: int) -> None:
    a = w.client("a")
    for partition, retention_ms in enumerate((-5, 0, 2**63 - 1, -(2**63))):
        a.commit(("orders", partition, 1), version=version, retention_time_ms=retention_ms)
    a.fetch(everything=True)


@situation("DescribeCluster of an endpoint that is not one of brokers", (1, 2))
def other_endpoints(w: Play, version: int) -> None:
    a = w.client("a")
    for endpoint_type in (2, 0, -1, 3):
        a.ask("DescribeCluster", version, endpoint_type=endpoint_type)


@situation("Produce that names a topic without partitions", (3, 9, 12, 13))
def no_partitions(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    for topics in (
        [{"name": name, "topic_id": name, "partition_data": []}],
        [
            {"name": "orders", "topic_id": "orders", "partition_data": []},
            {"name": name, "topic_id": name, "partition_data": [{"index": 0, "records": batch("one")}]},
        ],
        [],
    ):
        a.ask("Produce", version, acks=-1, timeout_ms=5000, topic_data=topics)


@situation("DeleteRecords that names a topic twice", (0, 1, 2))
def deleted_twice(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    produce(a, name, batch("one", "two", "three"))
    for offsets in ([(0, 1), (0, 2)], [(0, 3), (1, 0), (0, 9)], [(0, 9), (0, 3)], []):
        topics = [
            {"name": name, "partitions": [{"partition_index": index, "offset": offset}]}
            for index, offset in offsets
        ]
        a.ask("DeleteRecords", version, topics=topics, timeout_ms=5000)
    a.ask("DeleteRecords", version, topics=[{"name": name, "partitions": []}], timeout_ms=5000)
    offsets_at(a, name, (0, -2))


@situation("the latest of records without a timestamp", (7, 11))
def no_timestamps(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    offsets_at(a, name, (0, -3), version=version)
    produce(a, name, batch("one", first_ms=-1))
    produce(a, name, batch("two", first_ms=-1))
    offsets_at(a, name, (0, -3), (0, -3), (0, 0), version=version)
    produce(a, name, batch("three"))
    offsets_at(a, name, (0, -3), version=version)


@transactional("WriteTxnMarkers of one producer twice, without topics, and of no producer", (1, 2))
def odd_markers(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    a.init()
    a.produce(topic, "one")
    own: dict[str, Any] = {
        "producer_id": a.id,
        "producer_epoch": a.epoch + 1,
        "transaction_result": False,
        "coordinator_epoch": 5,
        "transaction_version": version - 1,
    }
    first, second = ([{"name": topic, "partition_indexes": [index]}] for index in (0, 1))
    write_markers(a, version=version)
    write_markers(a, (topic, 0), version=version, producer_epoch=-1)
    write_markers(a, (topic, 0), (topic, 1), version=version, producer_id=-1)
    a.client.ask(
        "WriteTxnMarkers",
        version,
        markers=[
            own | {"topics": first},
            own | {"topics": second, "producer_epoch": a.epoch + 2},
        ],
    )
    a.producers(topic, 0, 1)
    a.ends(topic)


@transactional("WriteTxnMarkers with negative ids and epochs, in partitions that exist and in others", (1, 2))
def negative_markers(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    known, unknown = [(topic, 0), (topic, 9)], [(topic, 9)]
    offsets = [("__consumer_offsets", 0), ("__consumer_offsets", 9)]
    for producer_id, epoch in ((-1, 3), (5_000_000, -1), (-7, 3), (5_000_000, -2)):
        own = {"producer_id": producer_id, "producer_epoch": epoch}
        for places in (known, unknown, offsets):
            write_markers(a, *places, version=version, **own)
        a.producers(topic)
        a.ends(topic)
    marker: dict[str, Any] = {
        "producer_id": 6_000_000,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": topic, "partition_indexes": [0]}],
    }
    several = [marker | {"producer_epoch": epoch} for epoch in (3, -1, 4)]
    a.client.ask("WriteTxnMarkers", version, markers=several)
    a.ends(topic)


@situation("members with one group instance id join at the same time")
def one_instance(w: Play) -> None:
    a, b = w.clients("ab", instance="one")
    a.send_join()
    b.send_join()
    a.answer()
    b.answer()
    a.sync({a: b"1"})
    b.sync({b: b"2"})
    a.beat()
    b.beat()
    a.commit(("orders", 0, 1))
    b.commit(("orders", 0, 2))
    a.describe()


@situation("a static member is replaced while others wait for it")
def replaced_meanwhile(w: Play) -> None:
    a, b, c = w.clients("abc")
    a.instance = c.instance = "one"
    w.stable(a)
    b.enter()
    a.commit(("orders", 0, 1))
    c.send_join()
    c.answer()
    b.answer()
    a.beat()
    a.commit(("orders", 0, 2))
    a.join()
    c.describe()


@situation("a consumer changes its subscription while it must give partitions up", setting="modern")
def changed_meanwhile(w: Play) -> None:
    a, b = w.clients("ab")
    enter(a)
    beat(a, topic_partitions=owned({"orders": [0, 1, 2, 3]}))
    enter(b)
    beat(a)
    beat(a, subscribed_topic_names=["pages"])
    describe(a)
    beat(b)
    beat(a, topic_partitions=owned({}))
    beat(a)
    beat(b)
    beat(b)
    describe(a)


@transactional("transactional offsets of a group that is deleted before they are committed")
def deleted_group(w: Play) -> None:
    a, b = Producer(w), w.client("b")
    a.init()
    b.nobody_commits(("orders", 0, 1))
    partitions = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
    topics = [{"name": "orders", "partitions": partitions}]
    member = {"generation_id": -1, "member_id": "", "group_instance_id": None}
    a.client.ask("TxnOffsetCommit", 5, group_id=w.group, topics=topics, **a.own, **member)
    b.delete_groups()
    b.fetch(everything=True)
    b.list_groups()
    a.commit()
    b.fetch(everything=True)
    b.list_groups()
    b.describe()


@situation("OffsetDelete that names topics and partitions twice, some of them subscribed")
def deleted_oddly(w: Play) -> None:
    a, b = w.clients("ab")
    a.protocols = (("range", subscription("orders")),)
    w.stable(a)
    a.commit(("orders", 0, 1), ("pages", 0, 2), ("pages", 1, 3))
    b.delete_offsets(("pages", 0, 0), ("orders", 0, 9), ("pages", 1, 7), ("nothing", 0), ("", 0))
    a.fetch(everything=True)


@situation("Fetch that forgets what its session does not have", (7, 13))
def forgotten(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)
    produce(a, name, batch("one"))
    session = fetch(a, name, (0, 0), (1, 0), version=version, session_epoch=0).session_id
    for epoch, topics in enumerate(([("orders", [0])], [(name, [7])], [(name, [0]), (name, [0])], []), 1):
        gone = [{"topic": topic, "topic_id": topic, "partitions": indexes} for topic, indexes in topics]
        own = {"session_id": session, "session_epoch": epoch, "forgotten_topics_data": gone}
        a.ask("Fetch", version, max_wait_ms=0, min_bytes=0, topics=[], **own)
