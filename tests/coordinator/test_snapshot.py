"""Snapshots of a shard: taken while records go on, and read back from any bytes."""

import os
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.coordinator import snapshot
from kafka_offsets.coordinator.shard import Shard
from kafka_offsets.coordinator.snapshot import (
    ShardSnapshot,
    SnapshotHead,
    SnapshotTail,
    SnapshotWriter,
    UnusableSnapshotError,
)
from kafka_offsets.coordinator.state import consumer_records, stored
from kafka_offsets.coordinator.state.offset_table import NO_TOPIC_ID, OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.state.shard_state import GroupSettings
from kafka_offsets.protocol import messages
from tests.drivers.shard import Topics, contents_of

TOPIC_ID = bytes(range(16))
TAIL = SnapshotTail(77, 70, 0xCAFE, 3)


ROUNDS = 20_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 1000


def make_shard() -> Shard:
    return Shard(0, GroupSettings(), lambda prefix: f"{prefix}-id", Topics({}))


class Written(NamedTuple):
    """A record of the log, or a marker, whose key is then a producer id and its value whether it commits."""

    key: bytes | int
    value: bytes | bool | None
    producer_id: int = -1


def replay(shard: Shard, log: Sequence[Written], start: int) -> None:
    for offset, (key, value, producer_id) in enumerate(log[start:], start):
        if isinstance(key, int):
            shard.end_transaction(key, committed=bool(value))
        else:
            assert not isinstance(value, bool)
            shard.replay(key, value, offset, producer_id)


def head(shard: Shard, replay_from: int = 0) -> SnapshotHead:
    return SnapshotHead("cluster", TOPIC_ID, 7, 0, replay_from, 0, shard.unknown_records)


def snapshot_of(shard: Shard) -> bytes:
    writer = SnapshotWriter(shard, head(shard, 42))
    return b"".join(writer.sections()) + writer.finish(TAIL)


def restored(data: bytes) -> Shard:
    shard = make_shard()
    ShardSnapshot(data).restore(shard)
    return shard


def group_value(generation: int, members: int = 0, since: int = -1) -> messages.GroupMetadataValue:
    return messages.GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader="m0" if members else None,
        current_state_timestamp=since,
        members=[
            messages.GroupMetadataValue.MemberMetadata(
                member_id=f"m{number}",
                group_instance_id="static" if number else None,
                client_id="c",
                client_host="/127.0.0.1",
                rebalance_timeout=1,
                session_timeout=2,
                subscription=b"\0\1s",
                assignment=b"a" * number,
            )
            for number in range(members)
        ],
    )


# ---- what records do while a snapshot is taken ---------------------------------------------------------------------

GROUPS = ("g", "h", "ü")
TOPICS = ("t", "u")
PARTITIONS = (0, 1, 200)

groups, topics, partitions = st.sampled_from(GROUPS), st.sampled_from(TOPICS), st.sampled_from(PARTITIONS)
producers = st.sampled_from((5, 6))


@st.composite
def offsets_written(draw: st.DrawFn) -> Written:
    entry = OffsetAndMetadata(
        draw(st.integers(0, 99)),
        draw(st.integers(-1, 3)),
        draw(st.sampled_from(("", "", "note"))),
        draw(st.integers(0, 99)),
        draw(st.sampled_from((-1, -1, 10_000))),
        draw(st.sampled_from((NO_TOPIC_ID, TOPIC_ID))),
    )
    key = draw(groups), draw(topics), draw(partitions)
    return Written(
        stored.offset_key(*key), stored.offset_value(entry), draw(st.one_of(st.just(-1), producers))
    )


offset_tombstones = st.builds(lambda *key: Written(stored.offset_key(*key), None), groups, topics, partitions)
group_values = st.builds(
    lambda group, *value: Written(*stored.group_record(group, group_value(*value))[:2]),
    groups,
    st.integers(0, 9),
    st.integers(0, 2),
)
group_tombstones = st.builds(lambda group: Written(stored.group_tombstone(group).key, None), groups)
other_kinds = st.builds(
    lambda group, value: Written(b"\0\x0b" + stored.group_tombstone(group).key[2:], value),
    groups,
    st.sampled_from((None, b"\0\0?")),
)
markers = st.builds(Written, producers, st.booleans())

histories = st.lists(
    st.one_of(
        offsets_written(),
        offsets_written(),
        offset_tombstones,
        group_values,
        group_tombstones,
        other_kinds,
        markers,
    ),
    max_size=60,
)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_STEP", 1)


def check(before: list[Written], between: list[list[Written]], after: list[Written]) -> bool:
    """Take a snapshot, one step before each of `between`; return whether it was of use, and then right."""
    live = make_shard()
    log = list(before)
    replay(live, log, 0)
    writer = SnapshotWriter(live, head(live, len(log)))
    sections = writer.sections()
    parts = []
    for records in between:
        parts.append(next(sections, b""))
        start = len(log)
        log += records
        replay(live, log, start)
    parts += sections
    log += after
    if writer.is_void:
        return False
    taken = ShardSnapshot(b"".join(parts) + writer.finish(TAIL))
    shard = make_shard()
    taken.restore(shard)
    replay(shard, log, taken.head.replay_from)
    whole = make_shard()
    replay(whole, log, 0)
    assert contents_of(shard) == contents_of(whole)
    return True


@pytest.mark.slow
@given(before=histories, between=st.lists(histories, min_size=1, max_size=12), after=histories)
def test_a_snapshot_and_the_rest_of_the_log_give_what_the_whole_log_gives(
    before: list[Written], between: list[list[Written]], after: list[Written]
) -> None:
    check(before, between, after)


@pytest.mark.slow
def test_a_few_keys_that_change_at_every_step_come_out_right(rng: random.Random) -> None:
    keys = [("g", "t", 0), ("g", "t", 200), ("h", "t", 0)]

    def record() -> Written:
        key = rng.choice(keys)
        kind = rng.randrange(12)
        if kind < 5:
            entry = OffsetAndMetadata(rng.randrange(1000))
            producer_id = rng.choice((-1, -1, 5))
            return Written(stored.offset_key(*key), stored.offset_value(entry), producer_id)
        if kind < 8:
            return Written(stored.offset_key(*key), None)
        if kind == 8:
            return Written(*stored.group_record(key[0], group_value(rng.randrange(9)))[:2])
        if kind == 9:
            return Written(stored.group_tombstone(key[0]).key, None)
        if kind == 10:
            return Written(b"\0\x0b" + stored.group_tombstone(key[0]).key[2:], None)
        return Written(5, rng.random() < 0.7)

    def some(most: int) -> list[Written]:
        return [record() for _ in range(rng.randrange(most))]

    useful = sum(check(some(12), [some(3) for _ in range(8)], some(4)) for _ in range(ROUNDS))
    assert ROUNDS // 4 < useful < ROUNDS


def test_a_group_deleted_before_its_offsets_makes_the_snapshot_under_way_void() -> None:
    offset = stored.offset_key("g", "t", 0)
    before = [Written(offset, stored.offset_value(OffsetAndMetadata(1)))]
    late = [Written(stored.group_tombstone("g").key, None), Written(offset, None)]
    assert not check(before, [late], [])
    assert not check(before, [[Written(b"\0\x0b" + stored.group_tombstone("g").key[2:], None), late[1]]], [])
    assert check(before, [late[::-1]], [])


# ---- bytes -----------------------------------------------------------------------------------------------------------


def furnished(rng: random.Random) -> Shard:
    """A shard with something of everything."""
    shard = make_shard()
    for group in range(6):
        for topic in range(3):
            for partition in rng.sample(range(300), 20):
                own = rng.random() < 0.2
                entry = OffsetAndMetadata(
                    rng.randrange(1 << 63),
                    rng.randrange(-1, 1 << 31),
                    f"note {partition % 3}" if own else "",
                    rng.randrange(1 << 41),
                    rng.randrange(1 << 41) if own else -1,
                    rng.randbytes(16) if rng.random() < 0.1 else TOPIC_ID,
                    rng.randrange(1 << 62),
                )
                key = (f"group-{group}", f"thème-{topic}", partition - 100)
                if rng.random() < 0.05:
                    shard.pending.setdefault(rng.randrange(2), {})[stored.OffsetKey(*key)] = entry
                else:
                    shard.offsets.put(*key, entry)
    for group in range(9):
        value = None if group % 3 else group_value(group, group)
        key, encoded, *_ = stored.group_record(f"group-{group}", value or group_value(0))
        shard.replay(key, encoded, 0)
        shard.groups[f"group-{group}"].durable = value
    shard.unknown_records = 11
    return shard


def test_everything_is_read_back_as_it_was(rng: random.Random) -> None:
    shard = furnished(rng)
    data = snapshot_of(shard)
    assert contents_of(restored(data)) == contents_of(shard)
    taken = ShardSnapshot(data)
    assert (taken.head, taken.tail) == (SnapshotHead("cluster", TOPIC_ID, 7, 0, 42, 0, 11), TAIL)
    assert contents_of(restored(snapshot_of(restored(data)))) == contents_of(shard)


def test_an_empty_shard_has_a_snapshot_too() -> None:
    assert contents_of(restored(snapshot_of(make_shard()))) == contents_of(make_shard())


def test_a_restored_table_is_as_small_as_before_and_continues(rng: random.Random) -> None:
    shard = furnished(rng)
    twin = restored(snapshot_of(shard))
    assert twin.offsets.nbytes <= shard.offsets.nbytes * 1.05
    for _ in range(500):
        key = f"group-{rng.randrange(7)}", "thème-1", rng.randrange(-100, 200)
        if rng.random() < 0.5:
            assert shard.offsets.remove(*key) == twin.offsets.remove(*key)
        else:
            entry = OffsetAndMetadata(rng.randrange(99), metadata=rng.choice(("", "note")))
            shard.offsets.put(*key, entry)
            twin.offsets.put(*key, entry)
    assert contents_of(shard)["offsets"] == contents_of(twin)["offsets"]
    assert len(shard.offsets) == len(twin.offsets)


def small(rng: random.Random) -> bytes:
    shard = make_shard()
    shard.offsets.put("g", "t", 3, OffsetAndMetadata(5, metadata="m", expire_timestamp=9))
    shard.replay(*stored.group_record("g", group_value(1, 1))[:2], 0)
    shard.pending[5] = {stored.OffsetKey("g", "t", 4): OffsetAndMetadata(6)}
    return snapshot_of(shard)


def test_a_flip_of_any_bit_is_noticed(rng: random.Random) -> None:
    data = small(rng)
    for at in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            with pytest.raises(UnusableSnapshotError):
                restored(bytes(flipped))


def test_a_snapshot_cut_short_or_with_more_after_it_is_noticed(rng: random.Random) -> None:
    data = small(rng)
    for size in range(len(data)):
        for rest in (b"", bytes(len(data) - size), b"\xff" * (len(data) - size)):
            if data[:size] + rest == data:
                continue  # its last bytes are zeros
            with pytest.raises(UnusableSnapshotError):
                restored(data[:size] + rest)
    for more in (b"\0", data, b"\0" * 4096):
        with pytest.raises(UnusableSnapshotError, match="does not end with its tail"):
            restored(data + more)


def test_missing_repeated_or_foreign_sections_of_a_snapshot_are_noticed(rng: random.Random) -> None:
    data, other = snapshot_of(furnished(rng)), snapshot_of(furnished(rng))
    pieces, others = list(split(data)), list(split(other))
    for number in range(1, len(pieces)):
        for wrong in (
            [*pieces[:number], *pieces[number + 1 :]],
            [*pieces[:number], pieces[number], *pieces[number:]],
            [*pieces[:number], others[min(number, len(others) - 1)], *pieces[number + 1 :]],
        ):
            if wrong == pieces:
                continue  # the heads, say, are the same
            with pytest.raises(UnusableSnapshotError):
                restored(b"".join(wrong))


def split(data: bytes) -> Iterator[bytes]:
    """The prologue, then each section."""
    yield data[:12]
    at = 12
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 4 : at + 8], "little")
        yield data[at:end]
        at = end


def sealed(pieces: list[bytes]) -> bytes:
    """Give sections, whatever is in them, the checksums that they should have."""
    sealed = pieces[0]
    crc = google_crc32c.value(sealed)
    for piece in pieces[1:]:
        framed = piece[:4] + len(piece[12:]).to_bytes(4, "little")
        crc = google_crc32c.extend(crc, framed + piece[12:])
        sealed += framed + crc.to_bytes(4, "little") + piece[12:]
    return sealed


@pytest.mark.slow
def test_damage_with_the_right_checksum_is_a_snapshot_or_none_and_never_another_error(
    rng: random.Random,
) -> None:
    pieces = list(split(snapshot_of(furnished(rng))))
    assert sealed(pieces) == b"".join(pieces)
    unusable = 0
    for _ in range(ROUNDS * 2):
        wrong = [bytearray(piece) for piece in pieces]
        for _ in range(rng.randrange(1, 4)):
            piece = rng.choice(wrong[1:])
            at = rng.randrange(12, len(piece))
            match rng.randrange(4):
                case 0:
                    piece[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
                case 1:
                    piece[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4)))
                case 2:
                    del piece[at : at + rng.randrange(1, 20)]
                case 3:
                    piece[at:at] = rng.randbytes(rng.randrange(1, 20))
        shard = make_shard()
        try:
            ShardSnapshot(sealed([bytes(piece) for piece in wrong])).restore(shard)
        except UnusableSnapshotError:
            unusable += 1
            assert contents_of(shard) == contents_of(make_shard())
        else:
            table = shard.offsets
            assert len(table) == sum(len(list(table.items(group))) for group in table.groups())
            assert set(table.groups()) <= set(shard.groups)
    assert unusable


def test_what_is_of_another_format_is_distinguished(rng: random.Random) -> None:
    data = small(rng)
    pieces = list(split(data))
    later = [data[:8] + b"\x03\0\x02\x01", *pieces[1:]]
    with pytest.raises(UnusableSnapshotError, match="format version 3, only 2 is read"):
        ShardSnapshot(sealed(later))
    with pytest.raises(UnusableSnapshotError, match="another byte order"):
        ShardSnapshot(data[:10] + data[11:9:-1] + data[12:])
    with pytest.raises(UnusableSnapshotError, match="b'NEXT' that is not known"):
        ShardSnapshot(sealed([*pieces[:2], b"NEXT" + bytes(8) + b"?", *pieces[2:]]))
    for other in (b"", b"KOff", bytes(100), b"0\n1\norders 0 17\n"):
        with pytest.raises(UnusableSnapshotError, match="does not begin as a snapshot"):
            ShardSnapshot(other)


def test_many_consumer_groups_take_several_sections() -> None:
    shard = make_shard()
    epoch = consumer_records.GroupEpoch(3)
    for number in range(1000):
        record = consumer_records.record(consumer_records.EPOCH, f"g{number}", "", epoch)
        shard.replay(record.key, record.value, number)
    data = snapshot_of(shard)
    assert [piece[:4] for piece in split(data)].count(b"CGRP") > 2
    assert contents_of(restored(data)) == contents_of(shard)
    assert {*shard.groups} == {f"g{number}" for number in range(1000)}


def counted(*texts: bytes) -> bytes:
    """The lengths of texts, then the texts."""
    return struct.pack(f"={len(texts)}I", *map(len, texts)) + b"".join(texts)


OF_G = consumer_records.record(consumer_records.EPOCH, "g", "", consumer_records.GroupEpoch(3))
OF_H = consumer_records.record(consumer_records.EPOCH, "h", "", consumer_records.GroupEpoch(3))


@pytest.mark.parametrize(
    ("tag", "change", "said"),
    [
        (b"GRPS", lambda held: held * 2, "group g is in it twice"),
        (b"GRPS", lambda held: counted(b"g", b"\0\0"), "group g in it: .* at byte"),
        (b"GRPS", lambda held: counted(b"g", held[9:] + b"!"), "group g in it: 1 bytes too many"),
        (b"GRPS", lambda held: counted(b"\xff", held[9:]), "a text in it does not decode: 'utf-8' codec"),
        (b"GRPS", lambda held: held[:-1], "bytes expected in a section, .* are left"),
        (b"CGRP", lambda held: counted(b"", b"g")[4:], "bytes expected in a section, "),
        (b"CGRP", lambda held: struct.pack("=II", 0, 1) + b"g", "group g is in it twice"),
        (
            b"CGRP",
            lambda held: struct.pack("=II", 1, 1) + b"h" + counted(OF_G.key, OF_G.value or b""),
            "group h in it: a record that is not of it",
        ),
        (
            b"CGRP",
            lambda held: struct.pack("=II", 1, 1) + b"h" + counted(stored.group_tombstone("h").key, b""),
            "group h in it: a record that is not of it",
        ),
        (
            b"CGRP",
            lambda held: struct.pack("=II", 1, 1) + b"h" + counted(OF_H.key, b"\0\7"),
            "group h in it: a value of record type 3 of unknown version 7",
        ),
        (
            b"CGRP",
            lambda held: struct.pack("=II", 1, 1) + b"h" + counted(OF_H.key, OF_H.value or b""),
            "it announces 1 groups and 1 offsets, 2 and 1 were found",
        ),
        (
            b"PAGE",
            lambda held: held.replace(b"\0\0\0\0\1\0\0\0", b"\xff\0\0\0\1\0\0\0", 1),
            "a page of offsets in it is none",
        ),
        (b"TAIL", lambda held: held + b"!", "1 bytes too many in a section"),
    ],
)
def test_invalid_content_of_a_piece_is_reported(
    rng: random.Random, tag: bytes, change: Callable[[bytes], bytes], said: str
) -> None:
    pieces = {piece[:4]: piece for piece in split(small(rng))}
    pieces.setdefault(tag, tag + bytes(8))
    pieces[b"TAIL"] = pieces.pop(b"TAIL")
    pieces[tag] = pieces[tag][:12] + change(pieces[tag][12:])
    shard = make_shard()
    with pytest.raises(UnusableSnapshotError, match=said):
        ShardSnapshot(sealed([*pieces.values()])).restore(shard)
    assert contents_of(shard) == contents_of(make_shard())


@pytest.mark.slow
def test_no_step_of_a_large_shard_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    shard = make_shard()
    for group in range(200):
        for topic in range(10):
            for partition in range(100):
                shard.offsets.put(
                    f"g{group}", f"t{topic}", partition, OffsetAndMetadata(partition, metadata="m" * group)
                )
    sizes = [len(section) for section in SnapshotWriter(shard, head(shard)).sections()]
    assert len(sizes) > 5
    assert max(sizes) < 3 << 20, "a step is bounded in what it writes"


def test_a_table_takes_only_what_is_a_page() -> None:
    table = OffsetTable()
    table.put("g", "t", 3, OffsetAndMetadata(1, metadata="m"))
    (page,) = table.pages("g")
    for wrong in (
        page._replace(rows=page.rows[:-1]),
        page._replace(rows=b""),
        page._replace(rows=bytes(28 * 129), present=None),
        page._replace(present=0b11),
        page._replace(present=0b1),
        page._replace(metadata={4: "m"}),
        page._replace(topic_ids={0: TOPIC_ID}),
    ):
        with pytest.raises(ValueError, match=r"row|bytes"):
            OffsetTable().put_page("g", wrong)
    with pytest.raises(ValueError, match="is there already"):
        table.put_page("g", page)
