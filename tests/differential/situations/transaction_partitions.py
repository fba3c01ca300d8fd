"""Partitions of a transaction: which may be added, and what each is answered."""

from tests.differential.play import Play
from tests.differential.situations.produced import made
from tests.differential.situations.records import produced_to
from tests.differential.transactional_producer import Producer, own_topic, transactional


@transactional("partitions of the offsets topic are added to a transaction", range(6))
def added_offsets_topic(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    a.init()
    a.add(("__consumer_offsets", 0), version=version)
    a.add((topic, 0), ("__consumer_offsets", 0, 9), version=version)
    a.add(("__transaction_state", 0), version=version)
    a.add((topic, 0), ("nothing", 0), ("__consumer_offsets", 1), ("__transaction_state", 1), version=version)
    a.add(("__consumer_offsets", 99), version=version)
    a.describe()
    a.add((topic, 1), version=version)
    a.add(("__consumer_offsets", 2), version=version, transactional_id="")
    a.describe()


@transactional("partitions of the offsets topic are verified", (4, 5))
def verified_offsets_topic(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    a.init()
    a.add((topic, 0), version=version)
    a.verify((topic, 0), ("__consumer_offsets", 0), version=version)
    a.verify(("__transaction_state", 0), version=version)


@transactional("partitions twice among those that are added", range(6))
def added_twice(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    a.init()
    a.add((topic, 0, 0), version=version)
    a.add((topic, 0), (topic, 1), version=version)
    a.add((topic, 1, 0), (topic, 1), version=version)
    a.add((topic, 0, 9, 9), ("nothing", 0, 0), version=version)
    a.add((topic, 0, 0), version=version, producer_epoch=7)
    a.describe()
    if version >= 4:
        a.verify((topic, 0, 0, 1), version=version)
        a.add_several(a.own | {"topics": [{"name": topic, "partitions": [0, 0]}]}, version=version)
        one = a.own | {"topics": [{"name": topic, "partitions": [1]}]}
        a.add_several(one, one, version=version)


@transactional("sequence numbers after a batch outside of the transaction", (9, 11, 12))
def refused_first(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 3)
    a.init()
    a.produce(topic, "one", version=11, sequence=3)
    if version < 12:
        a.add((topic, 0), version=3)
    a.produce(topic, "two", version=version, sequence=5)
    a.produce(topic, "three", version=version, sequence=4)
    a.produce(topic, "four", version=version, sequence=3)
    a.produce(topic, "five", version=version, sequence=5)
    a.produce(topic, "six", version=version, sequence=4)
    a.commit()
    a.read(topic)


@transactional("lower sequence numbers after a batch outside of the transaction", (9, 11))
def refused_then_lower(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 3)
    a.init()
    for sequence in (7, 2, 4):
        a.produce(topic, "one", version=version, sequence=sequence)
    a.add((topic, 0), version=3)
    for sequence in (7, 4, 3, 2, 3):
        a.produce(topic, "two", version=version, sequence=sequence)
    a.abort()
    a.producers(topic)


@transactional("another epoch after a batch outside of the transaction", (9, 11, 12))
def refused_other_epoch(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 3)
    a.init()
    a.produce(topic, "one", version=11, sequence=0)
    a.init()
    if version < 12:
        a.add((topic, 0), version=3)
    for sequence in (5, 2, 0, 1):
        a.produce(topic, "two", version=version, sequence=sequence)
    a.commit()
    a.producers(topic)


@transactional("a batch outside of the transaction, and one without a transaction", (9, 12))
def refused_then_idempotent(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 3)
    a.init()
    a.produce(topic, "one", version=9, sequence=2)
    for sequence in (5, 2, 3):
        a.produce(topic, "two", version=version, sequence=sequence, transactional=False)
    a.producers(topic)


@transactional("sequence numbers after a refused batch in the next transaction", (9, 11, 12))
def refused_later(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 3)
    a.init()
    a.add((topic, 0), version=3)
    a.produce(topic, "one", version=9)
    a.commit(3)
    a.produce(topic, "two", version=9)
    a.produce(topic, "two", version=9, sequence=0)
    if version < 12:
        a.add((topic, 0), version=3)
    a.produce(topic, "three", version=version, sequence=1)
    a.produce(topic, "three", version=version, sequence=0)
    a.produce(topic, "three", version=version, sequence=1)
    a.produce(topic, "three", version=version, sequence=2)
    a.commit(3)
    a.producers(topic)
    a.read(topic)


@transactional("Produce with batches of two producers", (9, 12))
def two_producers(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 3)
    b = Producer(w, "b", w.slug + "-other")
    a.init()
    b.init()
    a.add((topic, 0, 1), version=3)
    b.add((topic, 0, 1), version=3)
    flags = {"transactional": True, "producer_epoch": 0}
    topics = produced_to(
        topic,
        (0, made("a", key=None, producer_id=a.id, base_sequence=0, **flags)),
        (1, made("b", key=None, producer_id=b.id, base_sequence=0, **flags)),
    )
    own = {"transactional_id": a.name, "acks": -1, "timeout_ms": 5000}
    a.client.ask("Produce", version, topic_data=topics, **own)
    a.client.ask("Produce", version, topic_data=topics[:1], **own)
    again = produced_to(topic, (0, made("c", key=None, producer_id=a.id, base_sequence=1, **flags)))
    other = made("d", key=None, producer_id=a.id, base_sequence=0, **flags | {"producer_epoch": 1})
    a.client.ask("Produce", version, topic_data=again + produced_to(topic, (1, other)), **own)
    nowhere = "nothing" if version < 13 else "0" * 32
    a.client.ask("Produce", version, topic_data=again + produced_to(nowhere, (1, other)), **own)
    a.producers(topic, 0, 1)


@transactional("DeleteRecords up to an offset inside a batch of a transaction: the last stable offset")
def deleted_into_transaction(w: Play) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.produce(
        topic,
        "zero",
        producer_id=-1,
        producer_epoch=-1,
        transactional=False,
        transactional_id=None,
        sequence=-1,
    )
    a.produce(topic, "one", "two", "three", "four", sequence=0)
    a.ends(topic)
    for offset in (1, 3):
        partitions = [{"partition_index": 0, "offset": offset}]
        topics = [{"name": topic, "partitions": partitions}]
        a.client.ask("DeleteRecords", 2, topics=topics, timeout_ms=5000)
        a.ends(topic)
        a.read(topic, offset)
    a.producers(topic)
    a.abort()
    a.ends(topic)
    a.read(topic, 3)
