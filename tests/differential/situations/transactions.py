"""Transactions of records: who may begin, grow, write in and end one, and what is read of it."""

from typing import Any

from tests.differential.play import Play
from tests.differential.situations.records import FIRST_MS
from tests.differential.transactional_producer import (
    COMMITTED,
    NEW,
    OLD,
    UNCOMMITTED,
    Producer,
    own_topic,
    transactional,
)

# -- InitProducerId


@transactional("a transactional id gets a producer id and epochs", range(6))
def first_epochs(w: Play, version: int) -> None:
    a = Producer(w)
    a.init(version)
    a.init(version)
    a.init(version, transaction_timeout_ms=5000)
    a.describe()


@transactional("InitProducerId with an empty transactional id or a timeout out of bounds", (0, 5))
def bad_ids(w: Play, version: int) -> None:
    a = Producer(w)
    a.init(version, transactional_id="")
    a.init(version, transaction_timeout_ms=0)
    a.init(version, transaction_timeout_ms=-1)
    a.init(version, transaction_timeout_ms=60_001)
    a.init(version, transactional_id="", transaction_timeout_ms=0)
    a.init(version, transactional_id=None, transaction_timeout_ms=0)


@transactional("InitProducerId with a producer id without an epoch, or the reverse", (3, 5))
def half_expected(w: Play, version: int) -> None:
    a = Producer(w)
    a.init(version, producer_epoch=0)
    a.init(version, producer_id=0)
    a.init(version, transactional_id=None, producer_id=0, producer_epoch=0)


@transactional("a producer recovers with the epoch that it has", (3, 4, 5))
def recovery(w: Play, version: int) -> None:
    a = Producer(w)
    a.init(version)
    a.init(version, producer_id=a.id, producer_epoch=a.epoch)
    a.init(version, producer_id=a.id, producer_epoch=a.epoch - 1)
    a.init(version, producer_id=a.id, producer_epoch=a.epoch - 1)
    a.init(version, producer_id=a.id, producer_epoch=a.epoch)
    a.init(version, producer_id=a.id, producer_epoch=a.epoch + 1)
    a.init(version, producer_id=a.id, producer_epoch=0)
    a.init(version, producer_id=5_000_000, producer_epoch=0)


@transactional("InitProducerId with a producer id of an unknown transactional id", (3, 5))
def recovery_of_nothing(w: Play, version: int) -> None:
    a = Producer(w)
    a.init(version, producer_id=7_000_000, producer_epoch=3)
    a.describe()


@transactional("a recovery with the epoch before, after one without an epoch", (3, 5))
def recovery_after_plain(w: Play, version: int) -> None:
    a = Producer(w)
    a.init(version)
    a.init(version)
    a.init(version, producer_id=a.id, producer_epoch=a.epoch - 1)


@transactional("a producer that has recovered is fenced by another, and recovers no more", (3, 5))
def recovery_after_fencing(w: Play, version: int) -> None:
    a = Producer(w)
    a.init(version)
    a.init(version, producer_id=a.id, producer_epoch=a.epoch)
    Producer(w, "b").init(version)
    a.init(version, producer_id=a.id, producer_epoch=a.epoch)
    a.init(version, producer_id=a.id, producer_epoch=a.epoch - 1)


@transactional("another InitProducerId aborts an open transaction first", (OLD, NEW))
def init_aborts(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.add((topic, 0), version=3 if version == OLD else 5)
    a.produce(topic, "one", version=9)
    b = Producer(w, "b")
    b.init()
    w.settle(a.name)
    b.describe()
    b.init()
    a.produce(topic, "two", version=9)
    a.add((topic, 0))
    a.commit(version)
    b.read(topic)


# -- AddPartitionsToTxn


@transactional("partitions are added to a transaction", range(6))
def added(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 3)
    a.init()
    a.add((topic, 0, 1), version=version)
    a.add((topic, 1, 2), version=version)
    a.add((topic, 0), version=version)
    a.describe()


@transactional("unknown partitions among those that are added", (0, 3, 4, 5))
def added_unknown(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    a.init()
    a.add((topic, 0, 9), ("nothing", 0), version=version)
    a.add((topic, 9), version=version)
    a.describe()


@transactional("AddPartitionsToTxn of a fenced producer or with another producer id", range(6))
def added_by_others(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.add((topic, 0), version=version)
    a.init()
    a.init()
    a.add((topic, 0), version=version, producer_id=5_000_000)
    a.add((topic, 0), version=version, producer_epoch=0)
    a.add((topic, 0), version=version, producer_epoch=7)
    a.add((topic, 0), version=version, transactional_id="")
    a.describe()


@transactional("AddPartitionsToTxn without partitions", (1, 3, 5))
def added_nothing(w: Play, version: int) -> None:
    a = Producer(w)
    a.init()
    a.add(version=version)
    a.describe()


@transactional("partitions of several transactions at once", (4, 5))
def added_several(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    b = Producer(w, "b", w.slug + "-other")
    a.init()
    b.init()
    topics = [{"name": topic, "partitions": [0, 1]}]
    a.add_several(
        a.own | {"topics": topics},
        b.own | {"topics": topics, "verify_only": True},
        {"transactional_id": w.slug + "-no", "producer_id": 5_000_000, "producer_epoch": 0, "topics": topics},
        version=version,
    )
    a.describe(a.name, b.name)


@transactional("partitions are verified", (4, 5))
def verified(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    a.verify((topic, 0), version=version)
    a.init()
    a.verify((topic, 0), version=version)
    a.add((topic, 0), version=version)
    a.verify((topic, 0, 1), version=version)
    a.verify((topic, 9), ("nothing", 0), version=version)
    a.verify((topic, 0), version=version, producer_epoch=9)
    a.verify((topic, 0), version=version, producer_id=5_000_000)
    a.verify((topic, 0), version=version, transactional_id="")
    a.commit()
    a.verify((topic, 0), version=version)


# -- Produce


@transactional("records of a transaction whose partition was added", (3, 9, 11, 12, 13))
def produced(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.add((topic, 0))
    a.produce(topic, "one", "two", version=version)
    a.produce(topic, "three", version=version)
    a.produce(topic, "three", version=version, sequence=2)
    a.commit(OLD)
    a.read(topic)


@transactional("records of a transaction whose partition was not added", (3, 9, 10, 11, 12, 13))
def produced_without(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    a.init()
    a.produce(topic, "one", version=version)
    a.add((topic, 1))
    a.produce(topic, "one", version=version)
    a.describe()
    a.read(topic)


@transactional("Produce in a transaction with a fenced or another producer", (9, 11, 12, 13))
def produced_by_others(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.produce(topic, "one", version=version, producer_id=6_000_000, producer_epoch=0)
    a.init()
    a.init()
    a.add((topic, 0))
    a.produce(topic, "one", version=version, producer_epoch=0)
    a.produce(topic, "one", version=version, producer_epoch=5)
    a.produce(topic, "one", version=version, producer_id=6_000_000)
    a.produce(topic, "one", version=version)
    a.produce(topic, "two", version=version, producer_epoch=0)
    a.produce(topic, "two", version=version, producer_epoch=5)


@transactional("records of a transaction in a request without one", (9, 12))
def produced_outside(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.add((topic, 0))
    a.produce(topic, "one", version=version, transactional_id=None)


@transactional("records outside the transaction that their producer has open", (9, 12))
def plain_in_open(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.produce(topic, "zero", version=version, transactional=False)
    a.add((topic, 0))
    a.produce(topic, "one", version=version)
    a.produce(topic, "two", version=version, transactional=False)
    a.commit()
    a.read(topic)


@transactional("sequence numbers in and between transactions", (9, 12))
def sequences(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    end = OLD if version < 12 else NEW
    a.init()
    a.add((topic, 0), version=3 if version < 12 else 5)
    a.produce(topic, "one", version=version, sequence=5)
    a.produce(topic, "one", version=version)
    a.produce(topic, "gap", version=version, sequence=7)
    a.commit(end)
    a.add((topic, 0), version=3 if version < 12 else 5)
    a.produce(topic, "gap", version=version, sequence=9)
    a.produce(topic, "two", version=version)
    a.abort(end)
    a.read(topic)
    a.producers(topic)


# -- EndTxn


@transactional("a transaction is committed", range(6))
def committed(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.add((topic, 0), version=3 if version < NEW else 5)
    a.produce(topic, "one", version=9)
    a.commit(version)
    a.describe()
    a.read(topic)


@transactional("a transaction is aborted", range(6))
def aborted(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.add((topic, 0), version=3 if version < NEW else 5)
    a.produce(topic, "one", version=9)
    a.abort(version)
    a.describe()
    a.read(topic)


@transactional("EndTxn of a transaction that was not begun", range(6))
def ended_empty(w: Play, version: int) -> None:
    a = Producer(w)
    a.commit(version)
    a.init()
    a.commit(version)
    a.abort(version)
    a.describe()
    a.commit(version)
    a.abort(version)
    a.describe()


@transactional("EndTxn twice", range(6))
def ended_twice(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    for first in (True, False):
        a.add((topic, 0), version=3 if version < NEW else 5)
        before = {"producer_id": a.id, "producer_epoch": a.epoch}
        a.end(first, version)
        a.end(first, version, **before)
        a.end(not first, version, **before)
        a.describe()


@transactional("EndTxn of a fenced producer or with another producer id", range(6))
def ended_by_others(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.init()
    a.add((topic, 0), version=3 if version < NEW else 5)
    a.commit(version, producer_epoch=0)
    a.commit(version, producer_epoch=2)
    a.commit(version, producer_epoch=9)
    a.commit(version, producer_id=5_000_000)
    a.client.ask("EndTxn", version, committed=True, **a.own | {"transactional_id": ""})
    a.describe()


@transactional("EndTxn of an ended transaction with other epochs", (OLD, NEW))
def ended_other_epochs(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.add((topic, 0), version=3 if version < NEW else 5)
    a.commit(version)
    epoch = a.epoch
    for other in (epoch - 2, epoch + 1, epoch + 2):
        a.commit(version, producer_epoch=other)
        a.abort(version, producer_epoch=other)
    a.describe()


@transactional("an old client after a new one, and the other way round")
def mixed_clients(w: Play) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.add((topic, 0), version=3)
    a.commit(NEW)
    a.add((topic, 0), version=5)
    a.commit(OLD)
    a.describe()
    a.add((topic, 0), version=3)
    a.abort(NEW)
    a.init()
    a.describe()


# -- reading


@transactional("what is read while a transaction is open, and after its end", (4, 7, 11, 12, 16))
def isolation(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    b = Producer(w, "b", w.slug + "-other")
    a.init()
    b.init()
    a.produce(topic, "a1")
    b.produce(topic, "b1")
    for reader in (COMMITTED, UNCOMMITTED):
        a.read(topic, version=version, isolation=reader)
    b.commit()
    a.read(topic, version=version)
    a.read(topic, 1, version=version)
    a.ends(topic)
    a.abort()
    a.read(topic, version=version)
    a.read(topic, 2, version=version)
    a.read(topic, 3, version=version)
    a.read(topic, 4, version=version)
    a.read(topic, version=version, isolation=UNCOMMITTED)
    a.ends(topic)


@transactional("aborted transactions between committed ones")
def several_aborted(w: Play) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    for number, outcome in enumerate((True, False, True, False, False, True)):
        a.produce(topic, f"r{number}")
        a.produce(topic, f"s{number}")
        a.end(outcome)
    for offset in (0, 3, 5, 6, 11, 14, 17):
        a.read(topic, offset)


@transactional("ListOffsets by timestamp among committed records", (2, 5, 7))
def timestamps(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.produce(topic, "one")
    a.commit()
    a.produce(topic, "two")
    for isolation in (UNCOMMITTED, COMMITTED):
        for timestamp in (-1, -2, FIRST_MS, FIRST_MS + 1, *([-3] if version >= 7 else [])):
            parts = [{"partition_index": 0, "timestamp": timestamp}]
            shown = timestamp in (-1, -2, FIRST_MS)
            if shown:
                a.client.ask(
                    "ListOffsets",
                    version,
                    replica_id=-1,
                    isolation_level=isolation,
                    topics=[{"name": topic, "partitions": parts}],
                    timeout_ms=5000,
                )


@transactional("deleting records that a transaction has open")
def deleted_open(w: Play) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.produce(topic, "one")
    a.produce(topic, "two")
    parts = [{"partition_index": 0, "offset": 1}]
    a.client.ask("DeleteRecords", 2, topics=[{"name": topic, "partitions": parts}], timeout_ms=5000)
    a.ends(topic)
    a.read(topic, 1)
    a.commit()
    a.read(topic, 1)


# -- time


@transactional("a transaction that exceeds its timeout is aborted", (OLD, NEW))
def timed_out(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init(transaction_timeout_ms=400)
    a.add((topic, 0), version=3 if version == OLD else 5)
    a.produce(topic, "one", version=9)
    w.pause(1500)
    a.describe()
    a.produce(topic, "two", version=9)
    a.add((topic, 0), version=3 if version == OLD else 5)
    a.commit(version)
    a.abort(version)
    a.read(topic)
    a.init(producer_id=a.id, producer_epoch=a.epoch)
    a.init()
    a.produce(topic, "three")
    a.commit()
    a.read(topic)


# -- administrators


@transactional("transactions as DescribeTransactions shows them")
def described(w: Play) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    a.describe("", w.slug + "-no")
    a.init()
    a.describe()
    a.add((topic, 0, 1), ("orders", 1), version=5)
    a.describe()
    a.commit()
    a.describe(a.name, "", w.slug + "-no", a.name)


@transactional("transactions are listed", (0, 1, 2))
def listed(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    b, c = Producer(w, "b", w.slug + "-b"), Producer(w, "c", w.slug + ":c c")
    for each in (a, b, c):
        each.init()
    b.add((topic, 0), version=5)
    c.add((topic, 0), version=5)
    c.commit()
    a.list(version)
    a.list(version, state_filters=["Ongoing"])
    a.list(version, state_filters=["Ongoing", "Empty", "Ongoing"])
    a.list(version, state_filters=["ongoing", "Nonsense", "Nonsense"])
    a.list(version, state_filters=["Nonsense", "CompleteCommit"])
    a.list(version, state_filters=["Dead"])
    a.list(version, producer_id_filters=[b.id])
    a.list(version, producer_id_filters=[b.id, 9_000_000])
    a.list(version, producer_id_filters=[9_000_000])
    a.list(version, producer_id_filters=[a.id], state_filters=["Ongoing"])


@transactional("transactions are listed by their duration", (1, 2))
def listed_by_duration(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w)
    b = Producer(w, "b", w.slug + "-b")
    a.init()
    b.init()
    b.add((topic, 0), version=5)
    w.pause(300)
    a.list(version, duration_filter=100)
    a.list(version, duration_filter=30_000)
    a.list(version, duration_filter=0)
    a.list(version, duration_filter=-1)
    a.list(version, duration_filter=-5)
    a.list(version, duration_filter=100, state_filters=["Ongoing"])


@transactional("ListTransactions by a pattern")
def listed_by_pattern(w: Play) -> None:
    a = Producer(w)
    b = Producer(w, "b", w.slug + ":b b")
    a.init()
    b.init()
    for pattern in ("", None, w.slug, w.slug + ".*", ".*: *b.*", ".*[^a-z]b", "nothing", "[", "(a"):
        a.list(transactional_id_pattern=pattern)


@transactional("DescribeProducers of a partition")
def producers(w: Play) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    a.producers(topic, 0, 1, 9)
    a.producers("nothing", 0)
    a.init()
    a.produce(topic, "one")
    a.producers(topic)
    a.produce(topic, "two", "three")
    a.producers(topic, 0, 1)
    a.commit()
    a.producers(topic)
    a.produce(topic, "four")
    a.abort(NEW)
    a.producers(topic)
    b = w.client("b")
    given = b.ask("InitProducerId", 5, transactional_id=None, transaction_timeout_ms=0)
    a.produce(
        topic,
        "plain",
        transactional=False,
        producer_id=given.producer_id,
        producer_epoch=0,
        transactional_id=None,
        sequence=0,
    )
    a.producers(topic)


def write_markers(a: Producer, *topics: tuple[str, int], version: int = 1, **fields: Any) -> Any:
    named = [{"name": name, "partition_indexes": [index]} for name, index in topics]
    own = {
        "producer_id": a.id,
        "producer_epoch": a.epoch,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": named,
    }
    return a.client.ask("WriteTxnMarkers", version, markers=[own | fields])


@transactional("an administrator aborts a transaction in a partition", (1, 2))
def markers(w: Play, version: int) -> None:
    a, topic = Producer(w), own_topic(w, 2)
    a.init()
    a.init()
    write_markers(a, (topic, 0), version=version)
    a.produce(topic, "one")
    a.read(topic)
    write_markers(a, (topic, 0), version=version, producer_epoch=0)
    write_markers(a, (topic, 0), (topic, 9), ("nothing", 0), version=version)
    a.read(topic, isolation=UNCOMMITTED)
    a.read(topic)
    a.producers(topic)
    a.produce(topic, "two")
    write_markers(a, (topic, 0), version=version, coordinator_epoch=-1)
    write_markers(a, (topic, 0), version=version, transaction_result=True, coordinator_epoch=5)
    a.producers(topic)
    a.read(topic)


@transactional("markers of transaction version 2 have a later epoch")
def later_markers(w: Play) -> None:
    a, topic = Producer(w), own_topic(w)
    a.init()
    a.produce(topic, "one")
    write_markers(a, (topic, 0), version=2, transaction_version=2)
    write_markers(a, (topic, 0), version=2, transaction_version=2, producer_epoch=1)
    write_markers(a, (topic, 0), version=2, transaction_version=2, producer_epoch=1)
    a.read(topic)


@transactional("the coordinator of a transactional id is found", (1, 3, 4, 6))
def coordinator(w: Play, version: int) -> None:
    a = Producer(w)
    if version < 4:
        a.client.ask("FindCoordinator", version, key=a.name, key_type=1)
    else:
        a.client.ask("FindCoordinator", version, key_type=1, coordinator_keys=[a.name, ""])


@transactional("a transaction in several topics, one of which is deleted")
def deleted_topic(w: Play) -> None:
    a, topic = Producer(w), own_topic(w, 1, w.slug + "-kept")
    gone = own_topic(w, 1, w.slug + "-gone")
    a.init()
    a.produce(topic, "one")
    a.produce(gone, "two")
    a.client.ask("DeleteTopics", 5, topic_names=[gone], timeout_ms=5000)
    w.pause(300)
    a.commit()
    a.read(topic)
    a.describe()
