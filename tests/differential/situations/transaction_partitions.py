"""Partitions of a transaction: which may be added, and what each is answered."""

from tests.differential.play import Play
from tests.differential.situations.transactions import Producer, own_topic, transactional


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
