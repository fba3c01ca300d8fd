"""Logs of the offsets topic with every kind of record and batch, drawn by hypothesis."""

from typing import Any

from hypothesis import strategies as st

from kafka_offsets.coordinator.state import consumer_records, stored
from kafka_offsets.coordinator.state.consumer_records import (
    Current,
    GroupEpoch,
    MemberState,
    ResolvedRegex,
    Subscription,
    TargetEpoch,
)
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.compression import Compression
from kafka_offsets.protocol.records import encode_batch, read_batch_header, read_records, rewrite_batch

GROUPS = ("a", "b", "é" * 9, "a group with a longer name")
TOPICS = ("t", "orders", "日本")
PARTITIONS = (0, 1, 2, 130, -1, 2**31 - 1)
PRODUCERS = (7, 8, -1)
OTHER_TYPES = (9, 11, 12, 17, 20)
IDS = (bytes(16), bytes(range(16)), b"\xff" * 16)
TEXTS = ("", "x", "é", "m" * 126, "m" * 127, "m" * 300)

_int64 = st.sampled_from((0, 1, -1, 42, 2**62, -(2**63), 2**63 - 1))


@st.composite
def offset_values(draw: st.DrawFn) -> bytes:
    """A committed offset in any version, unknown tags included."""
    version = draw(st.sampled_from((4, 4, 4, 3, 2, 1, 0)))
    value = messages.OffsetCommitValue(
        offset=draw(_int64),
        leader_epoch=draw(st.sampled_from((-1, 0, 5, 2**31 - 1))) if version >= 3 else -1,
        metadata=draw(st.sampled_from(TEXTS)),
        commit_timestamp=draw(_int64),
        expire_timestamp=draw(_int64) if version == 1 else -1,
        topic_id=draw(st.sampled_from(IDS)) if version == 4 else bytes(16),
    )
    if version == 4 and draw(st.integers(0, 9)) == 0:
        value.unknown_tags = {9: b"later"}
    return version.to_bytes(2) + messages.encode(value, version)


@st.composite
def changed(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> bytes:
    """Bytes cut, with more after them, or with one of them changed; mostly as they are."""
    value = draw(values)
    at = draw(st.integers(0, max(len(value) - 1, 0)))
    match draw(st.integers(0, 9)):
        case 0:
            return value[:at]
        case 1:
            return value + draw(st.one_of(st.binary(min_size=1, max_size=3), st.just(bytes(8))))
        case 2:
            return value[:at] + draw(st.binary(min_size=1, max_size=1)) + value[at + 1 :]
    return value


@st.composite
def group_values(draw: st.DrawFn) -> bytes:
    """The metadata of a group, in any version."""
    version = draw(st.integers(0, 4))
    value = messages.GroupMetadataValue("consumer", draw(st.integers(0, 9)), "range", None)
    return version.to_bytes(2) + messages.encode(value, version)


@st.composite
def records(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """Key and value of a record, offsets most of the time."""
    group = draw(st.sampled_from(GROUPS))
    kind = draw(st.integers(0, 12))
    if kind >= 10:  # as most are
        usual = entry(draw(st.integers(0, 9)))._replace(topic_id=draw(st.sampled_from(IDS[1:])))
        key = stored.offset_key(group, draw(st.sampled_from(TOPICS)), draw(st.sampled_from(PARTITIONS)))
        return key, stored.offset_value(usual)
    if kind <= 7:
        key = stored.offset_key(group, draw(st.sampled_from(TOPICS)), draw(st.sampled_from(PARTITIONS)))
        if draw(st.integers(0, 5)) == 0:
            key = b"\0\0" + key[2:]
        if draw(st.integers(0, 19)) == 0:
            key += b"behind"
        return key, draw(st.one_of(offset_values(), offset_values(), offset_values(), st.none()))
    name = len(group.encode()).to_bytes(2) + group.encode()
    if kind == 8:
        return b"\0\2" + name, draw(st.one_of(st.none(), group_values()))
    if draw(st.booleans()):
        return draw(consumer_records_of(group))
    type_ = draw(st.sampled_from(OTHER_TYPES))
    return type_.to_bytes(2) + name, draw(st.one_of(st.none(), st.just(b"\0\0whatever")))


@st.composite
def consumer_records_of(draw: st.DrawFn, group: str) -> tuple[bytes, bytes | None]:
    """A record of a consumer group (KIP-848): of its epoch, a member, or a regular expression."""
    type_ = draw(st.sampled_from((3, 3, 4, 5, 6, 7, 8, 16)))
    name = draw(st.sampled_from(("m-1", "m-2"))) if type_ in (5, 7, 8, 16) else ""
    values = {
        3: GroupEpoch(draw(st.integers(1, 9)), 7),
        5: Subscription(client_id="c", topics=frozenset(("t",))),
        6: TargetEpoch(draw(st.integers(1, 9)), 5),
        7: {bytes(16): frozenset((0, 1))},
        8: Current(draw(st.integers(1, 9)), 1, MemberState.STABLE, {bytes(16): {0: 1}}, {}),
        16: ResolvedRegex(frozenset(("t",)), 1, 2),
    }
    found = consumer_records.record(type_, group, name, values.get(type_))
    return found.key, None if draw(st.booleans()) else found.value


@st.composite
def batches(draw: st.DrawFn, base_offset: int) -> bytes:
    """One batch: of records or a marker, in any compression, thinned or not."""
    kind = draw(st.integers(0, 9))
    producer_id = draw(st.sampled_from(PRODUCERS))
    producer: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "leader_epoch": 0}
    if kind <= 1:
        type_ = draw(st.sampled_from((0, 1, 1, 1, 2)))
        transactional = draw(st.integers(0, 9)) > 0
        marker = [(b"\0\0" + type_.to_bytes(2), b"\0\0\0\0\0\0", (), 5)]
        return bytes(
            encode_batch(
                marker, base_offset=base_offset, control=True, transactional=transactional, **producer
            )
        )
    spread = draw(st.sampled_from((0, 0, 1000, 2**40)))
    headers = ((), (), (), (("trace", b"1"),))[draw(st.integers(0, 3))]
    drawn = draw(st.lists(records(), min_size=1, max_size=5))
    batch = encode_batch(
        [(key, value, headers if i % 2 else (), 10**12 + i * spread) for i, (key, value) in enumerate(drawn)],
        base_offset=base_offset,
        log_append_time=draw(st.sampled_from((None, None, 5))),
        compression=draw(st.sampled_from((Compression.NONE, Compression.NONE, *Compression))),
        transactional=kind <= 5,
        **producer,
    )
    if draw(st.integers(0, 4)) == 0:
        header = read_batch_header(batch)
        kept = [record for record in read_records(batch) if draw(st.booleans())]
        batch = rewrite_batch(header, kept, delete_horizon_ms=draw(st.sampled_from((None, 10**12 + 10**9))))
    return bytes(batch)


@st.composite
def logs(draw: st.DrawFn, max_batches: int = 14) -> list[bytes]:
    """The batches of a log, offsets rising and not without gaps."""
    found: list[bytes] = []
    offset = 0
    for _ in range(draw(st.integers(1, max_batches))):
        found.append(draw(batches(offset + draw(st.integers(0, 2)))))
        offset = read_batch_header(found[-1]).last_offset + 1
    return found


def entry(offset: int, metadata: str = "") -> OffsetAndMetadata:
    """A committed offset that differs from others by its number alone."""
    return OffsetAndMetadata(offset, 0, metadata, 1000 + offset)
