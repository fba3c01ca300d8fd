"""What may be written: sequence numbers, sizes, timestamps, keys and compression."""

from typing import Any

from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import encode_batch
from tests.differential.play import Client, Play
from tests.differential.situations.records import FIRST_MS, batch, fetch, offsets_at, produce, produced_to
from tests.differential.table import situation

VERSIONS = 3, 9, 13
MAX_SEQUENCE = 2**31 - 1


def made(*values: str, key: bytes | None = b"k", first_ms: int = FIRST_MS, **fields: Any) -> bytes:
    """A batch whose records have one key, a millisecond apart."""
    records = [(key, value.encode(), (), first_ms + n) for n, value in enumerate(values)]
    return bytes(encode_batch(records, **fields))


def sequenced(producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> bytes:
    """A batch of an idempotent producer."""
    values = [f"{sequence + n}" for n in range(count)]
    return made(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def configured(w: Play, **values: str) -> str:
    """Create a topic of the situation's own with a configuration; return its name."""
    named = [{"name": key.replace("_", "."), "value": value} for key, value in values.items()]
    topic = {
        "name": w.slug,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": named,
    }
    w.client("admin").ask("CreateTopics", 4, topics=[topic], timeout_ms=10_000)
    w.until(lambda: len(w.learn(w.slug).topics[0].partitions) == 1 and w._is_led(w.slug, 1))
    return w.slug


def in_turn(a: Client, topic: str, version: int, *data: Any) -> None:
    """Produce batches one after the other."""
    for each in data:
        produce(a, topic, each, version)


@situation("duplicate batches of an idempotent producer", VERSIONS)
def again(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    one = [sequenced(71, sequence, 2) for sequence in range(0, 14, 2)]
    in_turn(a, name, version, *one[:3], *one[:3], *one[3:7], one[0], one[1], one[2], one[6])
    fetch(a, name, (0, 0))


@situation("OUT_OF_ORDER_SEQUENCE_NUMBER: sequence numbers with gaps", VERSIONS)
def gaps(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    in_turn(a, name, version, sequenced(71, 0, 3), sequenced(71, 4), sequenced(71, 2), sequenced(71, 3))
    in_turn(a, name, version, sequenced(71, 3, 2), sequenced(71, 0), sequenced(71, 4), sequenced(72, 5))
    in_turn(a, name, version, sequenced(72, 7), sequenced(72, 6))


@situation("epochs of an idempotent producer", VERSIONS)
def epochs(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    in_turn(a, name, version, sequenced(71, 0, epoch=1), sequenced(71, 1, epoch=0), sequenced(71, 0, epoch=0))
    in_turn(a, name, version, sequenced(71, 1, epoch=2), sequenced(71, 0, epoch=2), sequenced(71, 1, epoch=1))
    in_turn(a, name, version, sequenced(71, 0, epoch=2), sequenced(71, 1, epoch=2))


@situation("sequence numbers wrap around after the greatest", VERSIONS)
def wrapped(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    last = sequenced(71, MAX_SEQUENCE - 1, 4)
    in_turn(a, name, version, sequenced(71, MAX_SEQUENCE - 3, 2), last, last)
    in_turn(a, name, version, sequenced(71, 1), sequenced(71, 2))


@situation("a producer without an epoch or a sequence number", (3, 9))
def without(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    in_turn(a, name, version, made("x", producer_id=71, producer_epoch=0, base_sequence=-1))
    in_turn(a, name, version, made("x", producer_id=71, producer_epoch=-1, base_sequence=0))
    in_turn(a, name, version, made("x", producer_id=-1, producer_epoch=3, base_sequence=5))
    fetch(a, name, (0, 0))


@situation("batches keep the codec that they came with", (9,))
def as_sent(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    for codec in Compression:
        produce(a, name, made("x" * 100, "y" * 100, compression=codec), version)
    fetch(a, name, (0, 0))


@situation("a topic wants its batches uncompressed", (9, 13))
def uncompressed(w: Play, version: int) -> None:
    a, name = w.client("a"), configured(w, compression_type="uncompressed")
    for codec in Compression:
        produce(a, name, made("x" * 100, "y", compression=codec), version)
    fetch(a, name, (0, 0))


@situation("Produce of zstd in versions 3 to 7", (3, 6, 7))
def old_zstd(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    produce(a, name, made("x" * 100, compression=Compression.ZSTD), version)


@situation("records without a timestamp", VERSIONS)
def without_time(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    produce(a, name, made("x", first_ms=-1), version)
    produce(a, name, made("x", first_ms=0), version)
    produce(a, name, made("x", first_ms=-1000), version)
    fetch(a, name, (0, 0))
    for timestamp in (-3, 0, 1):
        offsets_at(a, name, (0, timestamp))


@situation("ListOffsets finds each timestamp within a batch", (7, 11))
def many_times(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    for step in (5, 0, 9, 3):
        produce(a, name, made("x", "y", "z", first_ms=FIRST_MS + 10 * step))
    for timestamp in (0, 1, 2, 3, 30, 32, 33, 50, 52, 53, 90, 92, 93):
        offsets_at(a, name, (0, FIRST_MS + timestamp), version=version)
    offsets_at(a, name, (0, -3), version=version)


@situation("Produce of records without a key to a compacted topic", VERSIONS)
def keyless(w: Play, version: int) -> None:
    a, name = w.client("a"), configured(w, cleanup_policy="compact")
    in_turn(a, name, version, made("x", key=None), made("x", "y", key=None), made("x"), made("x", key=b""))
    fetch(a, name, (0, 0))


@situation("Produce of bytes that are no record batch", VERSIONS)
def no_batch(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    one = made("one")
    broken = bytearray(one)
    broken[-2] ^= 1
    in_turn(a, name, version, bytes(broken), one + one, b"", one[:-1], one + one[:20])
    fetch(a, name, (0, 0))


@situation("Produce with acks 0, 1 and -1", (3, 9, 13))
def acknowledged(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    for acks in (1, -1, 2, -2, 7):
        produce(a, name, batch("one"), version, acks=acks)
    fetch(a, name, (0, 0))


@situation("Produce to an internal topic", (9, 13))
def internal(w: Play, version: int) -> None:
    w.learn("__consumer_offsets")
    produce(w.client("a"), "__consumer_offsets", batch("one"), version)


@situation("InitProducerId without a transactional id", (0, 3, 5))
def producer_ids(w: Play, version: int) -> None:
    a = w.client("a")
    for fields in (
        {"producer_id": 5, "producer_epoch": -1},
        {"producer_id": -1, "producer_epoch": 5},
    ):
        if version >= 3:
            a.ask("InitProducerId", version, transactional_id=None, transaction_timeout_ms=1000, **fields)
    a.ask("InitProducerId", version, transactional_id="", transaction_timeout_ms=1000)


@situation("Produce that names a partition twice", (3, 9, 13))
def produced_twice(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(2)

    def send(*topics: dict[str, Any], acks: int = -1) -> None:
        a.ask("Produce", version, acks=acks, timeout_ms=5000, topic_data=list(topics))
        fetch(a, name, (0, 0), (1, 0))

    send(*produced_to(name, (0, batch("one")), (0, batch("two", "three"))))
    send(*produced_to(name, (0, batch("four"))), *produced_to(name, (0, batch("five"))))
    send(*produced_to(name, (0, batch("six")), (1, batch("seven")), (0, batch("eight"))))
    send(*produced_to(name, (0, batch("nine"))), *produced_to(name, (1, batch("ten"))))
    send(*produced_to(name, (0, b"x" * 70), (0, batch("thirteen"))))
    send(*produced_to(name, (0, batch("fourteen")), (0, b"x" * 70)))
    send(*produced_to(name, (0, batch("fifteen")), (9, batch("sixteen")), (9, batch("sixteen"))))
    send(*produced_to(name, (0, batch("sixteen")), (0, batch("seventeen"))), acks=1)
    broken = bytearray(batch("eighteen"))
    broken[-1] ^= 1
    send(*produced_to(name, (0, bytes(broken)), (0, batch("nineteen"))))
    send(*produced_to(name, (0, batch("twenty")), (0, bytes(broken))))


@situation("batches of one producer for a partition twice in a Produce", (9, 13))
def sequenced_twice(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(1)
    for one, other in ((0, 1), (0, 1), (1, 2), (2, 3)):
        topics = produced_to(name, (0, sequenced(71, one)), (0, sequenced(71, other)))
        a.ask("Produce", version, acks=-1, timeout_ms=5000, topic_data=topics)
    fetch(a, name, (0, 0))


@situation("Produce of a batch for several partitions and topics", (9, 13))
def produced_widely(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(3)
    topics = [
        *produced_to(name, (2, made("a")), (0, made("b"))),
        *produced_to("nothing" if version < 13 else "0" * 32, (0, made("c"))),
        *produced_to(name, (1, made("d")), (7, made("e"))),
    ]
    a.ask("Produce", version, acks=-1, timeout_ms=5000, topic_data=topics)
    fetch(a, name, (0, 0), (1, 0), (2, 0))


@situation("invalid batches that fail a whole Produce, and others", (9, 13))
def failing_all(w: Play, version: int) -> None:
    a, name = w.client("a"), w.topic(3)
    good = batch("good")
    garbage, small = b"x" * 70, bytes(8) + b"\x00\x00\x00\x05" + bytes(60)
    in_transaction = made("t", producer_id=71, producer_epoch=0, base_sequence=0, transactional=True)
    nowhere = "nothing" if version < 13 else "0" * 32

    def send(*data: tuple[int, Any], before: tuple[dict[str, Any], ...] = (), **fields: Any) -> None:
        own = {"acks": -1, "timeout_ms": 5000, "topic_data": [*before, *produced_to(name, *data)]}
        a.ask("Produce", version, **own | fields)

    for one in (garbage, small, in_transaction):
        send((0, good), (1, one), (2, good))
        send((0, one))
        send((0, good), before=(*produced_to(nowhere, (0, one)),))
        send((0, good), (0, one))
        send((0, one), (1, good), acks=7)
    for one in (b"", b"x" * 10, good[:-3], good + good, good + good[:-3], good + garbage, good[:-1] + b"x"):
        send((0, good), (1, one), (2, good))
        send((0, good), (0, one))
        send((0, one), (0, good))
    send((0, in_transaction), (1, garbage), (2, good))
    send((1, garbage), (0, in_transaction))
    fetch(a, name, (0, 0), (1, 0), (2, 0))
