"""AddOffsetsToTxn and TxnOffsetCommit: offsets that are committed with a transaction."""

from typing import Any

from tests.differential.play import Client, Offset, Play
from tests.differential.situations import consumer_groups
from tests.differential.transactional_producer import NEW, OLD, Producer, own_topic, transactional

EXISTING = ("orders", 0, 5)
UNKNOWN_PARTITION, UNKNOWN_TOPIC = ("orders", 4, 6), ("nothing", 0, 7)
ALL = range(6)
FIRST_TO_ADD = 5


def add_offsets(a: Producer, version: int = 3, **fields: Any) -> Any:
    """AddOffsetsToTxn for the situation's group."""
    return a.client.ask("AddOffsetsToTxn", version, **a.own | {"group_id": a.play.group} | fields)


def commit(a: Producer, *offsets: Offset, version: int = 3, **fields: Any) -> Any:
    """TxnOffsetCommit for the situation's group."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, partition, offset, *rest in offsets:
        entry = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        entry |= dict(zip(("committed_metadata", "committed_leader_epoch"), rest, strict=False))
        topics.setdefault(topic, []).append(entry)
    named = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    own = a.own | {"group_id": a.play.group, "topics": named}
    return a.client.ask("TxnOffsetCommit", version, **own | fields)


def begin(a: Producer, version: int = 3) -> None:
    """Begin a transaction with the group's offsets, where the version does not do that by itself."""
    a.init()
    if version < FIRST_TO_ADD:
        add_offsets(a)


def look(a: Producer, version: int = 8) -> None:
    """Fetch the group's offsets, stable ones and any."""
    a.client.fetch(("orders", 0, 1), version=version)
    a.client.fetch(("orders", 0, 1), version=version, require_stable=True)


@transactional("transactional offsets are committed with the transaction", ALL)
def committed(w: Play, version: int) -> None:
    a = Producer(w)
    begin(a, version)
    commit(a, EXISTING, ("pages", 1, 7, "text", 3), version=version)
    a.describe()
    look(a)
    a.client.fetch(everything=True)
    a.commit(OLD if version < FIRST_TO_ADD else NEW)
    look(a)
    a.client.fetch(everything=True)
    a.client.describe()


@transactional("transactional offsets are dropped with an aborted transaction", (0, 3, 5))
def aborted(w: Play, version: int) -> None:
    a = Producer(w)
    a.client.nobody_commits(("orders", 0, 1))
    begin(a, version)
    commit(a, EXISTING, ("orders", 1, 8), version=version)
    look(a)
    a.abort(OLD if version < FIRST_TO_ADD else NEW)
    look(a)
    a.client.fetch(everything=True)
    a.client.describe()
    a.client.list_groups()


@transactional("TxnOffsetCommit without AddOffsetsToTxn", ALL)
def not_added(w: Play, version: int) -> None:
    a = Producer(w)
    commit(a, EXISTING, version=version)
    a.init()
    commit(a, EXISTING, version=version)
    a.describe()
    a.commit(NEW)
    look(a)


@transactional("TxnOffsetCommit of a fenced producer: an old producer epoch, another producer id", ALL)
def others(w: Play, version: int) -> None:
    a = Producer(w)
    a.init()
    begin(a, version)
    commit(a, EXISTING, version=version, producer_epoch=0)
    commit(a, EXISTING, version=version, producer_epoch=6)
    commit(a, EXISTING, version=version, producer_id=5_000_000)
    commit(a, EXISTING, version=version, transactional_id=w.slug + "-no")
    commit(a, EXISTING, version=version, transactional_id="")
    commit(a, EXISTING, version=version, group_id="")
    a.describe()


@transactional("TxnOffsetCommit for unknown partitions among known ones", ALL)
def unknown(w: Play, version: int) -> None:
    a = Producer(w)
    begin(a, version)
    offsets = [("pages", 1, 1), ("pages", 9, 1), UNKNOWN_TOPIC, UNKNOWN_PARTITION, EXISTING, ("pages", 0, 1)]
    commit(a, *offsets, version=version)
    commit(a, UNKNOWN_TOPIC, version=version)
    commit(a, UNKNOWN_PARTITION, version=version, producer_epoch=7)
    commit(a, version=version)
    a.commit(NEW if version >= FIRST_TO_ADD else OLD)
    a.client.fetch(everything=True)


@transactional("TxnOffsetCommit of metadata that is too large", (0, 3, 5))
def long_metadata(w: Play, version: int) -> None:
    a = Producer(w)
    begin(a, version)
    commit(a, ("orders", 0, 1, "x" * 4096), ("orders", 1, 1, "x" * 4097), version=version)
    commit(a, ("orders", 2, 1, None), version=version)
    a.commit(NEW if version >= FIRST_TO_ADD else OLD)
    a.client.fetch(everything=True)


@transactional("TxnOffsetCommit for an unknown group", (3, 4, 5))
def no_group(w: Play, version: int) -> None:
    a = Producer(w)
    begin(a, version)
    commit(a, EXISTING, version=version, generation_id=0, member_id="m")
    commit(a, EXISTING, version=version, generation_id=7)
    commit(a, EXISTING, version=version, member_id="m")
    a.commit(NEW if version >= FIRST_TO_ADD else OLD)
    look(a)


@transactional(
    "TxnOffsetCommit by members of a live group: illegal generation, fenced instance, unknown member", ALL
)
def members(w: Play, version: int) -> None:
    a, m = Producer(w), w.client("m")
    w.stable(m)
    begin(a, version)
    commit(a, EXISTING, version=version)
    own = {"member_id": m.member_id, "generation_id": m.generation}
    commit(a, EXISTING, version=version, **own)
    commit(a, EXISTING, version=version, **own | {"generation_id": m.generation + 1})
    commit(a, EXISTING, version=version, **own | {"generation_id": m.generation - 1})
    commit(a, EXISTING, version=version, **own | {"generation_id": -1})
    commit(a, EXISTING, version=version, **own | {"member_id": "nobody"})
    commit(a, EXISTING, version=version, **own | {"member_id": ""})
    commit(a, EXISTING, version=version, **own | {"group_instance_id": "nobody"})
    commit(a, EXISTING, version=version, group_instance_id="nobody")
    a.commit(NEW if version >= FIRST_TO_ADD else OLD)
    look(a)


@transactional("TxnOffsetCommit while the group rebalances", (3, 5))
def rebalancing(w: Play, version: int) -> None:
    a, m, n = Producer(w), w.client("m"), w.client("n")
    w.stable(m)
    begin(a, version)
    n.enter()
    own = {"member_id": m.member_id, "generation_id": m.generation}
    commit(a, EXISTING, version=version, **own)
    m.join()
    n.answer()
    commit(a, EXISTING, version=version, **own)
    commit(a, EXISTING, version=version, **own | {"generation_id": m.generation})
    a.commit(NEW if version >= FIRST_TO_ADD else OLD)
    look(a)


@transactional("TxnOffsetCommit by members of a consumer group", (3, 4, 5))
def consumer_members(w: Play, version: int) -> None:
    a, m = Producer(w), w.client("m")
    m.ask(
        "ConsumerGroupHeartbeat",
        0,
        group_id=w.group,
        member_id="",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    begin(a, version)
    own = {"member_id": m.member_id, "generation_id": m.generation}
    commit(a, EXISTING, version=version)
    commit(a, EXISTING, version=version, **own)
    commit(a, EXISTING, version=version, **own | {"generation_id": m.generation + 1})
    commit(a, EXISTING, version=version, **own | {"generation_id": m.generation - 1})
    commit(a, EXISTING, version=version, **own | {"generation_id": -1})
    commit(a, EXISTING, version=version, **own | {"member_id": "nobody"})
    a.commit(NEW if version >= FIRST_TO_ADD else OLD)
    look(a)


PAGES = ("pages", 0, 7)
"""Of a partition that the member of `older_epoch` has since its latest epoch."""


def raise_epoch(m: Client) -> None:
    """Have a consumer join, and get one more topic in its next epoch; a group is assigned anew once a second."""
    consumer_groups.own(m, consumer_groups.enter(m, rebalance_timeout_ms=60_000))
    m.play.pause(1200)
    consumer_groups.own(m, consumer_groups.beat(m, subscribed_topic_names=["orders", "pages"]))


@transactional(
    "OffsetCommit and TxnOffsetCommit with an older member epoch, for partitions of that epoch and of a later one",
    (3, 5),
)
def older_epoch(w: Play, version: int) -> None:
    a, m = Producer(w), w.client("m")
    raise_epoch(m)
    begin(a, version)
    for epoch in (m.generation - 1, m.generation - 2):
        for offsets in [EXISTING], [PAGES], [EXISTING, PAGES], [EXISTING, UNKNOWN_PARTITION, UNKNOWN_TOPIC]:
            m.commit(*offsets, generation_id_or_member_epoch=epoch)
            commit(a, *offsets, version=version, member_id=m.member_id, generation_id=epoch)
    a.commit(NEW if version >= FIRST_TO_ADD else OLD)
    look(a)


@transactional(
    "TxnOffsetCommit with an older member epoch: metadata that is too large, unknown partitions", (3, 5)
)
def older_epoch_of_refused(w: Play, version: int) -> None:
    a, m = Producer(w), w.client("m")
    raise_epoch(m)
    begin(a, version)
    own = {"member_id": m.member_id, "generation_id": m.generation - 1}
    long, unknown = ("pages", 1, 1, "x" * 4097), ("pages", 9, 1)
    for offsets in [EXISTING, long], [long, PAGES], [unknown, EXISTING], [unknown, PAGES], [unknown]:
        m.commit(*offsets, generation_id_or_member_epoch=m.generation - 1)
        commit(a, *offsets, version=version, **own)
    a.commit(NEW if version >= FIRST_TO_ADD else OLD)
    a.client.fetch(everything=True)


@transactional("TxnOffsetCommit by static members and classic members of a consumer group", (3, 5))
def other_members(w: Play, version: int) -> None:
    a, m, n = Producer(w), w.client("m", instance=w.slug), w.client("n", session_ms=30_000)
    answer = consumer_groups.enter(m, rebalance_timeout_ms=60_000)
    consumer_groups.own(m, answer)
    begin(a, version)
    own = {"member_id": m.member_id, "generation_id": m.generation}
    commit(a, EXISTING, version=version, **own)
    commit(a, EXISTING, version=version, **own | {"group_instance_id": w.slug})
    commit(a, EXISTING, version=version, **own | {"group_instance_id": "another"})
    commit(a, EXISTING, version=version, group_instance_id=w.slug)
    n.enter()
    n.answer()
    for epoch in (n.generation, n.generation - 1, n.generation + 1, -1):
        n.commit(EXISTING, generation_id_or_member_epoch=epoch)
        commit(a, EXISTING, version=version, member_id=n.member_id, generation_id=epoch)
    consumer_groups.beat(m, member_epoch=-2)
    commit(a, EXISTING, version=version, **own)
    commit(a, EXISTING, version=version, **own | {"generation_id": -2})
    m.commit(EXISTING, generation_id_or_member_epoch=-2)
    a.commit(NEW if version >= FIRST_TO_ADD else OLD)
    look(a)


@transactional("the later of a transaction's offset and a plain one counts")
def later_wins(w: Play) -> None:
    a = Producer(w)
    a.init()
    a.client.nobody_commits(("orders", 0, 1), ("orders", 1, 1))
    commit(a, ("orders", 0, 2), ("orders", 1, 2), version=5)
    a.client.nobody_commits(("orders", 1, 3))
    look(a)
    a.commit()
    look(a)


@transactional("two transactions commit offsets of one partition")
def two_producers(w: Play) -> None:
    a, b = Producer(w), Producer(w, "b", w.slug + "-other")
    a.init()
    b.init()
    commit(a, ("orders", 0, 2), version=5)
    commit(b, ("orders", 0, 3), version=5)
    b.commit()
    look(a)
    a.commit()
    look(a)


@transactional("OffsetDelete of pending transactional offsets")
def deleted(w: Play) -> None:
    a = Producer(w)
    a.init()
    commit(a, ("orders", 0, 2), ("orders", 1, 3), version=5)
    a.client.delete_offsets(("orders", 0))
    look(a)
    a.commit()
    look(a)


@transactional("DeleteGroups of a group with pending transactional offsets")
def group_deleted(w: Play) -> None:
    a = Producer(w)
    a.init()
    commit(a, EXISTING, version=5)
    a.client.delete_groups()
    look(a)
    a.client.describe()
    a.commit()
    look(a)
    a.client.describe()


@transactional("a group is added to transactions", range(5))
def added(w: Play, version: int) -> None:
    a = Producer(w)
    add_offsets(a, version)
    a.init()
    a.init()
    add_offsets(a, version, producer_epoch=0)
    add_offsets(a, version, producer_epoch=7)
    add_offsets(a, version, producer_id=5_000_000)
    add_offsets(a, version, transactional_id="")
    add_offsets(a, version)
    add_offsets(a, version)
    a.describe()
    add_offsets(a, version, group_id="")
    a.commit(OLD)
    a.describe()


@transactional("offsets of a transaction that timed out")
def timed_out(w: Play) -> None:
    a = Producer(w)
    a.init(transaction_timeout_ms=400)
    commit(a, EXISTING, version=5)
    w.pause(1500)
    look(a)
    commit(a, EXISTING, version=5)
    commit(a, EXISTING, version=3)
    a.describe()


@transactional("offsets and records are committed together")
def together(w: Play) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    a.init()
    for number, outcome in enumerate((True, False, True)):
        a.produce(topic, f"r{number}")
        a.produce(topic, f"s{number}", partition=1)
        commit(a, ("orders", 0, number), version=5)
        look(a)
        a.end(outcome)
        look(a)
        a.read(topic)
