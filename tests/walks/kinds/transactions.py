"""Walks of transactions: producers that begin, write, commit offsets and end, fence one another and come back."""

from typing import Any

from tests.walks.kinds.shared import (
    GROUP,
    TOPIC,
    ask,
    commit,
    create_topic,
    delete_offsets,
    fetch_offsets,
    own_group,
)
from tests.walks.plan import Draw, Step, kind, with_restart

IDS = "x", "y"
TV2_ENDTXN = 5


def producer(draw: Draw) -> str:
    return draw.usually("x", "y", odds=0.75)


def transactional_id(draw: Draw, of: str) -> str:
    return draw.usually(f"@{of}", "@x", "@never", "", odds=0.93)


def init(draw: Draw) -> list[Step]:
    of = producer(draw)
    recovers = draw.random() < 0.25
    fields = {
        "transactional_id": draw.usually(f"@{of}", "", None, odds=0.93),
        "transaction_timeout_ms": draw.usually(60_000, 0, -1, 60_001),
        "producer_id": draw.usually(f"$producer.{of}" if recovers else -1, 5_000_000, odds=0.95),
        "producer_epoch": draw.usually(
            f"$producer_epoch.{of}" if recovers else -1, f"$producer_epoch.{of}-1", 0, odds=0.93
        ),
    }
    if fields["transactional_id"] is None:
        of = "plain"
    version = min(draw.version("InitProducerId"), 5)
    return [Step("x", of, "InitProducerId", version, fields)]


def own(draw: Draw, of: str) -> dict[str, Any]:
    epoch = f"$producer_epoch.{of}"
    return {
        "transactional_id": transactional_id(draw, of),
        "producer_id": draw.usually(f"$producer.{of}", 5_000_000, -1, odds=0.95),
        "producer_epoch": draw.usually(epoch, f"{epoch}-1", f"{epoch}+1", odds=0.93),
    }


def add_partitions(draw: Draw) -> list[Step]:
    of, version = producer(draw), draw.version("AddPartitionsToTxn")
    topics = [
        {"name": draw.usually(TOPIC, "nothing", ""), "partitions": draw.some([0, 1, 9])}
        for _ in range(draw.usually(1, 0))
    ]
    if version < 4:
        fields = {f"v3_and_below_{name}": value for name, value in own(draw, of).items()}
        return ask(draw, "AddPartitionsToTxn", of, version, v3_and_below_topics=topics, **fields)
    transactions = [own(draw, of) | {"topics": topics, "verify_only": draw.usually(False, True)}]
    if draw.random() < 0.1:
        transactions.append(own(draw, "y") | {"topics": topics})
    return ask(draw, "AddPartitionsToTxn", of, version, transactions=transactions)


def add_offsets(draw: Draw) -> list[Step]:
    of = producer(draw)
    return ask(draw, "AddOffsetsToTxn", of, group_id=own_group(draw), **own(draw, of))


def commit_offsets(draw: Draw) -> list[Step]:
    of = producer(draw)
    partitions = [
        {
            "partition_index": index,
            "committed_offset": draw.usually(draw.randint(0, 99), -1),
            "committed_leader_epoch": -1,
            "committed_metadata": draw.usually("", None, "note", "long metadata"),
        }
        for index in draw.some([0, 1, 9])
    ]
    fields = {
        "group_id": own_group(draw),
        "generation_id": draw.usually(-1, 0, 1),
        "member_id": draw.usually("", "nobody"),
        "group_instance_id": draw.usually(None, "i", odds=0.95),
        "topics": [{"name": draw.usually("orders", "nothing", TOPIC), "partitions": partitions}],
    }
    return ask(draw, "TxnOffsetCommit", of, **own(draw, of) | fields)


def produce(draw: Draw) -> list[Step]:
    of = draw.usually(producer(draw), "plain", "none")
    partition = draw.usually(draw.one(0, 1), 9, odds=0.95)
    is_transactional = of in IDS and draw.random() < 0.93
    at = f"{of}/{partition}"
    batch: dict[str, Any] = {"values": [draw.one("one", "two", "three") for _ in range(draw.randint(1, 3))]}
    if of != "none":
        epoch = f"$producer_epoch.{of}"
        batch |= {
            "producer_id": draw.usually(f"$producer.{of}", 5_000_000, odds=0.97),
            "producer_epoch": draw.usually(epoch, f"{epoch}-1", f"{epoch}+1", odds=0.93),
            "base_sequence": draw.usually(f"$sequence.{at}", f"$sequence.{at}+1", 0, odds=0.9),
            "transactional": is_transactional,
        }
    topic = draw.usually(TOPIC, "nothing", odds=0.97)
    data = [{"index": partition, "records": {"$batch": batch}}]
    name = draw.usually(f"@{of}" if is_transactional else None, "@y", None, odds=0.95)
    return ask(
        draw,
        "Produce",
        of,
        transactional_id=name if topic == TOPIC else f"@{of}",
        acks=draw.usually(-1, 1, odds=0.95),
        timeout_ms=5000,
        topic_data=[{"name": topic, "topic_id": topic, "partition_data": data}],
    )


def end(draw: Draw) -> list[Step]:
    of = producer(draw)
    return ask(draw, "EndTxn", of, committed=draw.one(True, False), **own(draw, of))


def whole(draw: Draw) -> list[Step]:
    """A transaction in which all is right, by a client of one age."""
    of = producer(draw)
    is_new = draw.random() < 0.5
    right = {
        "transactional_id": f"@{of}",
        "producer_id": f"$producer.{of}",
        "producer_epoch": f"$producer_epoch.{of}",
    }
    partition = draw.one(0, 1)
    topics = [{"name": TOPIC, "partitions": [partition]}]
    batch = {
        "values": ["one", "two"],
        "producer_id": right["producer_id"],
        "producer_epoch": right["producer_epoch"],
        "base_sequence": f"$sequence.{of}/{partition}",
        "transactional": True,
    }
    data = [{"index": partition, "records": {"$batch": batch}}]
    offsets = [{"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}]
    adding = {f"v3_and_below_{name}": value for name, value in right.items()}
    committing = right | {
        "group_id": GROUP,
        "generation_id": -1,
        "member_id": "",
        "topics": [{"name": "orders", "partitions": offsets}],
    }
    steps = []
    if not is_new:
        steps.append(Step(of, of, "AddPartitionsToTxn", 3, adding | {"v3_and_below_topics": topics}))
        steps.append(Step(of, of, "AddOffsetsToTxn", 3, right | {"group_id": GROUP}))
    topic = {"name": TOPIC, "topic_id": TOPIC, "partition_data": data}
    fields = {"transactional_id": f"@{of}", "acks": -1, "timeout_ms": 5000, "topic_data": [topic]}
    steps.append(Step(of, of, "Produce", draw.one(12, 13) if is_new else draw.one(9, 11), fields))
    steps.append(Step(of, of, "TxnOffsetCommit", 5 if is_new else 3, committing))
    ending = Step(of, of, "EndTxn", 5 if is_new else 3, right | {"committed": draw.one(True, False)})
    return [step for step in [*steps, ending] if draw.random() < 0.93]


def describe(draw: Draw) -> list[Step]:
    ids = draw.usually(["@x"], ["@y"], ["@x", "@never"], [], [""], ["@x", "@x"], odds=0.6)
    return ask(draw, "DescribeTransactions", "x", transactional_ids=ids)


def list_them(draw: Draw) -> list[Step]:
    fields = {
        "state_filters": draw.usually([], ["Ongoing"], ["CompleteCommit", "Empty"], ["no"], [""]),
        "producer_id_filters": draw.usually([], ["$producer.x"], [5_000_000]),
        "duration_filter": draw.usually(-1, 3_600_000),
        "transactional_id_pattern": None,
    }
    return ask(draw, "ListTransactions", "x", **fields)


def producers(draw: Draw) -> list[Step]:
    topics = [{"name": draw.usually(TOPIC, "nothing", ""), "partition_indexes": draw.some([0, 1, 9])}]
    return ask(draw, "DescribeProducers", "x", topics=topics)


def read(draw: Draw) -> list[Step]:
    partition = draw.one(0, 1)
    wanted = {"partition": partition, "fetch_offset": draw.usually(0, 2, 99), "partition_max_bytes": 1 << 20}
    return ask(
        draw,
        "Fetch",
        "reader",
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=draw.usually(1, 0, odds=0.7),
        topics=[{"topic": TOPIC, "topic_id": TOPIC, "partitions": [wanted]}],
    )


def ends(draw: Draw) -> list[Step]:
    partitions = [
        {"partition_index": index, "timestamp": draw.usually(-1, -2, -3, odds=0.7)} for index in (0, 1)
    ]
    topics = [{"name": TOPIC, "partitions": partitions}]
    return ask(
        draw,
        "ListOffsets",
        "reader",
        replica_id=-1,
        isolation_level=draw.one(0, 1),
        topics=topics,
        timeout_ms=5000,
    )


def begin(draw: Draw) -> list[Step]:
    right = {"transactional_id": "@x", "transaction_timeout_ms": 60_000}
    return [*create_topic(draw, 2), Step("x", "x", "InitProducerId", draw.randint(0, 5), right)]


kind(
    "transactions",
    begin,
    {
        init: 3,
        add_partitions: 4,
        add_offsets: 3,
        commit_offsets: 3,
        produce: 6,
        end: 5,
        whole: 5,
        describe: 2,
        list_them: 1,
        producers: 2,
        read: 4,
        ends: 2,
        fetch_offsets: 3,
        commit: 1,
        delete_offsets: 1,
    },
)
with_restart("transactions")
