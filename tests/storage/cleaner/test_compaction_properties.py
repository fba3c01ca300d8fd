"""Compaction of any log, in any rounds: a replay gives the same before and after, wherever a loader starts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.protocol.compression import Compression
from kafka_offsets.storage.cleaner.compaction import Compaction, CompactionConfig, compact, load_columns
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.storage.log.log import Log, LogConfig
from tests.storage.batches import copy_of
from tests.storage.keyed import WALL, Keyed, check_legal, last_records, mark, put, records, table

RETENTION = 1000

keys = st.sampled_from([None, b"a", b"b", b"c", b"d", b"k" * 70])
values = st.one_of(st.none(), st.binary(max_size=3), st.just(b"v" * 70))
batches = st.tuples(
    st.just("put"),
    st.lists(st.tuples(keys, values), min_size=1, max_size=5),
    st.sampled_from([WALL, WALL + 1]),
    st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]),
    st.sampled_from([-1, -1, 5, 6, 7]),
)
steps = st.one_of(
    batches,
    batches,
    batches,
    st.tuples(st.just("mark"), st.sampled_from([6, 7]), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean"), st.sampled_from([0, 1, RETENTION]), st.sampled_from([1, 400, 1 << 20])),
    st.tuples(st.just("open")),
)


@dataclass
class World:
    """A log that is written, cleaned and opened again, and what must hold of it."""

    files: MemoryFiles = field(default_factory=MemoryFiles)
    wall_ms: int = WALL
    cleaned_to: int | None = None
    sequence: int = 0
    horizons: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.log = Log.open(self.files, "t-0", LogConfig(segment_bytes=600))

    def put(self, written: Sequence[Keyed], timestamp: int, compression: Compression, producer: int) -> None:
        put(
            self.log,
            *written,
            timestamp=timestamp,
            compression=compression,
            producer=producer,
            sequence=self.sequence if producer >= 0 else -1,
            transactional=producer > 5,
        )
        self.sequence += len(written)

    def clean(self, later_ms: int, map_bytes: int) -> None:
        self.wall_ms += later_ms
        config = CompactionConfig(delete_retention_ms=RETENTION, dedupe_buffer_bytes=map_bytes)
        before, end = table(self.log), self.log.log_end_offset
        tombstones = {offset: key for key, (offset, value) in last_records(self.log).items() if value is None}
        results = compact(self.log, config, self.wall_ms, cleaned_to=self.cleaned_to, chunk_bytes=100)
        if results:
            self.cleaned_to = results[-1].end_offset
        assert self.log.log_end_offset == end
        check_legal(self.log)
        self.check_replays(before)
        kept = {offset for offset, _, _ in records(self.log)}
        for offset, key in tombstones.items():
            if results and offset < results[-1].end_offset:
                horizon = self.horizons.setdefault(offset, self.wall_ms + RETENTION)
                if offset not in kept:
                    assert self.wall_ms >= horizon, (offset, key)

    def check_replays(self, expected: dict[bytes, tuple[int, bytes]]) -> None:
        """A loader that starts at any batch finds the value in force or none, and from the first one all of them."""
        assert table(self.log) == expected
        for stored in self.log.batches():
            assert table(self.log, stored.header.base_offset).items() <= expected.items()


def play(world: World, script: Sequence[tuple[object, ...]]) -> None:
    for name, *arguments in script:
        if name == "mark":
            producer, commit = arguments
            mark(world.log, producer, commit=commit)  # type: ignore[arg-type]
        elif name == "roll":
            world.log.roll()
        else:
            getattr(world, str(name))(*arguments)


@pytest.mark.slow
@given(st.lists(steps, min_size=5, max_size=40))
def test_a_loader_finds_the_same_before_and_after_wherever_it_starts(
    script: list[tuple[object, ...]],
) -> None:
    world = World()
    play(world, script)
    for producer in (6, 7):
        mark(world.log, producer, commit=True)
    world.log.roll()
    world.clean(1, 1 << 20)
    world.clean(RETENTION, 1 << 20)


@pytest.mark.slow
@given(st.lists(steps, min_size=5, max_size=40))
def test_cleaning_twice_changes_nothing(script: list[tuple[object, ...]]) -> None:
    world = World()
    play(world, script)
    world.log.roll()
    config = CompactionConfig(delete_retention_ms=RETENTION)
    for _ in range(3):  # a marker goes in the round after that of its data, small segments join in the next
        compact(world.log, config, world.wall_ms)
    once = copy_of(world.files, "t-0")
    compact(world.log, config, world.wall_ms)
    assert copy_of(world.files, "t-0") == once
    again = Log.open(world.files, "t-0", world.log.config)
    assert records(again) == records(world.log)


@pytest.mark.slow
@given(st.lists(steps, min_size=5, max_size=40), st.integers(min_value=1, max_value=2000))
def test_work_in_columns_leaves_the_same_bytes(script: list[tuple[object, ...]], chunk_bytes: int) -> None:
    columns = load_columns()
    assert columns is not None
    worlds = World(), World()
    found = []
    for world, chosen in zip(worlds, (None, columns), strict=True):
        play(world, script)
        world.log.roll()
        config = CompactionConfig(delete_retention_ms=RETENTION)
        before = table(world.log)
        results = compact(world.log, config, world.wall_ms, chunk_bytes=chunk_bytes, columns=chosen)
        results += compact(world.log, config, world.wall_ms + RETENTION, columns=chosen)
        assert table(world.log) == before
        found.append((results, copy_of(world.files, "t-0")))
    assert found[0] == found[1]


@pytest.mark.slow
@given(st.lists(steps, min_size=5, max_size=25), st.integers(min_value=1, max_value=300))
def test_what_is_written_between_the_steps_is_found_after_them(
    script: list[tuple[object, ...]], chunk_bytes: int
) -> None:
    world = World()
    play(world, script)
    world.log.roll()
    config = CompactionConfig(delete_retention_ms=RETENTION)
    for number, job in enumerate(Compaction(world.log, config, WALL, chunk_bytes=chunk_bytes).steps()):
        before = table(world.log)
        if job is not None:
            job()
        world.put([(b"a", b"%d" % number)], WALL, Compression.NONE, -1)
        expected = before | {b"a": (world.log.log_end_offset - 1, b"%d" % number)}
        assert table(world.log) == expected
    before = table(world.log)
    world.open()
    assert table(world.log) == before
