"""The table of committed offsets against a plain dict, at its extremes, and weighed."""

import struct
import sys
import tracemalloc
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafka_offsets.coordinator.state import offset_table, packed_rows
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.state.pages import ROW, ROW_BYTES, page_runs
from tests.cases import each_case

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
IDS = (bytes(16), bytes([1] * 16), bytes([2] * 16))
LAST_PARTITION = 2**31 - 1

groups = st.sampled_from(["", "a", "b", "gruppe-ü"])
topics = st.sampled_from(["", "t", "u", "t\0"])
# Few numbers, so that rules meet; edges of pages, gaps, and what only a damaged or hostile record holds (-1).
partitions = st.one_of(
    st.integers(0, 9),
    st.sampled_from(
        [63, 126, 127, 128, 129, 255, 256, 10_000, LAST_PARTITION - 1, LAST_PARTITION, -1, -(2**31)]
    ),
)
entries = st.builds(
    OffsetAndMetadata,
    offset=INT64,
    leader_epoch=st.one_of(st.just(-1), INT32),
    metadata=st.one_of(st.just(""), st.sampled_from(["m", "n", "é", "x" * 4096]), st.text(max_size=3)),
    commit_timestamp=INT64,
    expire_timestamp=st.one_of(st.just(-1), st.integers(0, 9), INT64),
    topic_id=st.sampled_from(IDS),
    log_offset=INT64,
)


class TableMachine(RuleBasedStateMachine):
    """Every call beside the same call on group -> topic -> partition -> entry, in dicts.

    changed  the groups of the last step
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = OffsetTable()
        self.oracle: dict[str, dict[str, dict[int, OffsetAndMetadata]]] = {}
        self.changed: set[str] = set()

    @rule(group=groups, topic=topics, partition=partitions, entry=entries)
    def put(self, group: str, topic: str, partition: int, entry: OffsetAndMetadata) -> None:
        self.table.put(group, topic, partition, entry)
        self.oracle.setdefault(group, {}).setdefault(topic, {})[partition] = entry
        self.changed.add(group)

    @rule(group=groups, topic=topics, order=st.permutations(range(12)), entry=entries)
    def put_a_whole_topic_in_any_order(
        self, group: str, topic: str, order: list[int], entry: OffsetAndMetadata
    ) -> None:
        for partition in order:
            self.put(group, topic, partition, entry._replace(offset=partition))

    @rule(group=groups, topic=topics, first=st.sampled_from([-3, 0, 120]), entry=entries)
    def put_a_run(self, group: str, topic: str, first: int, entry: OffsetAndMetadata) -> None:
        for partition in range(first, first + 140):
            self.put(group, topic, partition, entry._replace(log_offset=partition))

    @rule(
        group=groups,
        topic=topics,
        numbers=st.lists(partitions, min_size=1, max_size=6),
        first=st.integers(-2, 130),
        size=st.integers(0, 9),
        entry=entries,
        texts=st.none() | st.lists(st.sampled_from(["", "x", "text"]), min_size=1, max_size=4),
    )
    def put_runs(
        self,
        group: str,
        topic: str,
        numbers: list[int],
        first: int,
        size: int,
        entry: OffsetAndMetadata,
        texts: list[str] | None,
    ) -> None:
        numbers = [*numbers[:3], *range(first, first + size), *numbers[3:]]
        entry = entry._replace(metadata="", expire_timestamp=-1)
        rows = b""
        metadata = None if texts is None else [texts[at % len(texts)] for at in range(len(numbers))]
        for at, partition in enumerate(numbers):
            put = entry._replace(offset=at, metadata=metadata[at] if metadata else "")
            rows += ROW.pack(at, put.leader_epoch, put.commit_timestamp, put.log_offset)
            self.oracle.setdefault(group, {}).setdefault(topic, {})[partition] = put
        for run, begin, end in page_runs(numbers):
            texts = metadata and metadata[begin:end]
            run_rows = rows[begin * ROW_BYTES : end * ROW_BYTES]
            self.table.put_run(group, topic, run, run_rows, entry.topic_id, texts)
        self.changed.add(group)

    @rule(group=groups, topic=topics, partition=partitions)
    def remove(self, group: str, topic: str, partition: int) -> None:
        held = self.oracle.get(group, {}).get(topic, {})
        assert self.table.remove(group, topic, partition) == (partition in held)
        if held.pop(partition, None) is not None:
            self._prune(group, topic)
        self.changed.add(group)

    def _prune(self, group: str, topic: str) -> None:
        if not self.oracle[group][topic]:
            del self.oracle[group][topic]
        if not self.oracle[group]:
            del self.oracle[group]

    @rule(group=groups, topic=topics, keep=st.sets(partitions, max_size=2))
    def remove_most_of_a_topic(self, group: str, topic: str, keep: set[int]) -> None:
        for partition in self.table.partitions(group, topic):
            if partition not in keep:
                self.remove(group, topic, partition)

    @rule(group=groups)
    def remove_all_of_a_group(self, group: str) -> None:
        for topic, partition, _ in list(self.table.items(group)):
            self.remove(group, topic, partition)
        assert not self.oracle.get(group)

    @rule(group=groups, topic=topics, partition=partitions)
    def get(self, group: str, topic: str, partition: int) -> None:
        expected = self.oracle.get(group, {}).get(topic, {}).get(partition)
        found = self.table.get(group, topic, partition)
        assert found == expected
        assert found is None or type(found) is OffsetAndMetadata

    @invariant()
    def what_changed_is_listed_as_the_oracle_lists_it(self) -> None:
        assert self.table.groups() == list(self.oracle)
        for group in self.changed:
            self._compare(group)
        self.changed.clear()
        assert len(self.table) == sum(len(t) for held in self.oracle.values() for t in held.values())
        entries = [entry for held in self.oracle.values() for t in held.values() for entry in t.values()]
        assert sorted(self.table.log_offsets()) == sorted(entry.log_offset for entry in entries)
        assert self.table.nbytes > 0

    def teardown(self) -> None:
        """Compare all groups: each step compares only its own."""
        for group in ("", "a", "b", "gruppe-ü"):
            self._compare(group)

    def _compare(self, group: str) -> None:
        held = self.oracle.get(group, {})
        assert self.table.has_group(group) == (group in self.oracle)
        assert self.table.topics(group) == list(held)
        listed = [(topic, number, held[topic][number]) for topic in held for number in sorted(held[topic])]
        assert list(self.table.items(group)) == listed
        for topic in ("", "t", "u", "t\0"):
            assert self.table.partitions(group, topic) == sorted(held.get(topic, ()))


TestTableAgainstOracle = pytest.mark.slow(TableMachine.TestCase)
TestTableAgainstOracle.settings = settings(
    max_examples=3 * settings().max_examples, stateful_step_count=40, deadline=None
)


def entry_of(offset: int, **fields: object) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, 3, commit_timestamp=1_700_000_000_000)._replace(**fields)  # type: ignore[arg-type]


@each_case("partition", [0, 127, 128, LAST_PARTITION, -1, -(2**31)])
@each_case("offset", [0, -1, -(2**63), 2**63 - 1])
def test_an_entry_is_returned_as_it_was_put(partition: int, offset: int) -> None:
    table = OffsetTable()
    entry = OffsetAndMetadata(offset, 2**31 - 1, "ü" * 4096, -(2**63), 2**63 - 1, bytes(range(16)), 2**63 - 1)
    table.put("g", "t", partition, entry)
    assert table.get("g", "t", partition) == entry
    assert table.partitions("g", "t") == [partition]


def test_what_is_not_there_is_none_and_its_removal_false() -> None:
    table = OffsetTable()
    table.put("g", "t", 1, entry_of(1))
    for group, topic, partition in (
        ("h", "t", 1),
        ("g", "u", 1),
        ("g", "t", 0),
        ("g", "t", 2),
        ("g", "t", 129),
    ):
        assert table.get(group, topic, partition) is None
        assert not table.remove(group, topic, partition)
    assert (table.topics("h"), table.partitions("g", "u"), list(table.items("h"))) == ([], [], [])
    assert len(table) == 1


def test_values_that_do_not_fit_are_refused_and_the_table_is_as_before() -> None:
    table = OffsetTable()
    table.put("g", "t", 0, entry_of(1, metadata="m", expire_timestamp=9))
    before = list(table.items("g"))
    for fields in (
        {"offset": 2**63},
        {"leader_epoch": 2**31},
        {"log_offset": 2**63},
        {"expire_timestamp": 2**63},
    ):
        for partition in (0, 1, 200):
            with pytest.raises((struct.error, AssertionError)):
                table.put("g", "t", partition, entry_of(2)._replace(**fields))  # type: ignore[arg-type]
    assert list(table.items("g")) == before
    assert len(table) == 1


def test_a_topic_created_again_has_its_new_id_in_every_entry_committed_since() -> None:
    table = OffsetTable()
    old, new = b"o" * 16, b"n" * 16
    for partition in range(8):
        table.put("g", "t", partition, entry_of(partition, topic_id=old))
    small = table.nbytes
    for partition in range(8):
        table.put("g", "t", partition, entry_of(partition, topic_id=new))
        ids = [entry.topic_id for _, _, entry in table.items("g")]
        assert ids == [new] * (partition + 1) + [old] * (7 - partition)
    assert table.nbytes == small


def test_metadata_expiry_and_ids_leave_with_their_entry() -> None:
    table = OffsetTable()
    for partition in range(3):
        table.put("g", "t", partition, entry_of(partition))
    small = table.nbytes
    odd = entry_of(7, metadata="m", expire_timestamp=5, topic_id=b"x" * 16)
    table.put("g", "t", 1, odd)
    table.remove("g", "t", 0)
    assert table.get("g", "t", 1) == odd
    assert table.get("g", "t", 2) == entry_of(2)
    table.put("g", "t", 0, entry_of(0))
    assert [entry for _, _, entry in table.items("g")] == [entry_of(0), odd, entry_of(2)]
    table.remove("g", "t", 1)
    table.put("g", "t", 1, entry_of(1))
    assert list(table.items("g")) == [("t", number, entry_of(number)) for number in range(3)]
    assert table.nbytes - small < 200, "only the remembered text may stay"


def test_a_removed_entry_leaves_no_topic_id_that_others_could_take() -> None:
    table = OffsetTable()
    old, new = b"o" * 16, b"n" * 16
    for partition in range(3):
        table.put("g", "t", partition, entry_of(partition, topic_id=old))
    table.put("g", "t", 1, entry_of(1, topic_id=new))
    table.remove("g", "t", 1)
    table.put("g", "t", 0, entry_of(0, topic_id=new))
    assert [entry.topic_id for _, _, entry in table.items("g")] == [new, old]


def test_an_expiry_is_cleared_by_a_commit_without_one() -> None:
    table = OffsetTable()
    for partition in range(4):
        table.put("g", "t", partition, entry_of(1, expire_timestamp=50 + partition))
    table.put("g", "t", 2, entry_of(1))
    assert [entry.expire_timestamp for _, _, entry in table.items("g")] == [50, 51, -1, 53]


def test_topics_are_listed_in_the_order_of_their_first_entry() -> None:
    table = OffsetTable()
    for topic in ("c", "a", "b"):
        table.put("g", topic, 0, entry_of(1))
        table.put("g", topic, 500, entry_of(1))
    table.remove("g", "c", 0)
    assert table.topics("g") == ["c", "a", "b"]
    table.remove("g", "c", 500)
    table.put("g", "c", 0, entry_of(1))
    assert table.topics("g") == ["a", "b", "c"]


def test_names_equal_texts_and_ids_are_held_once() -> None:
    table = OffsetTable()
    for group in range(9):
        topic, text = f"topic-{group % 1}", f"text-{group % 1}"
        table.put(str(group), topic, group, entry_of(1, metadata=text, topic_id=bytes([7] * 16)))
    assert len({id(name) for group in table.groups() for name in table.topics(group)}) == 1
    held = [entry for group in table.groups() for _, _, entry in table.items(group)]
    assert len({id(entry.metadata) for entry in held}) == 1
    assert len({id(entry.topic_id) for entry in held}) == 1


@pytest.mark.parametrize("backwards", [False, True])
def test_when_the_last_entry_is_removed_no_memory_is_held(backwards: bool) -> None:
    table = OffsetTable()
    empty = table.nbytes
    keys = [(g, t, p) for g in ("g", "h") for t in ("t", "u") for p in (*range(300), 70_000, LAST_PARTITION)]
    for key in keys:
        table.put(*key, entry_of(1, expire_timestamp=5))
    for key in reversed(keys) if backwards else keys:
        assert table.remove(*key)
    assert (len(table), table.groups(), table.topics("g")) == (0, [], [])
    assert table.nbytes - empty < 1000, "only the slots of the outermost dicts may stay"


def test_removing_a_group_leaves_the_others() -> None:
    table = OffsetTable()
    for group in ("g", "h"):
        for topic in ("t", "u"):
            for partition in (0, 1, 400):
                table.put(group, topic, partition, entry_of(partition))
    for topic, partition, _ in list(table.items("g")):
        assert table.remove("g", topic, partition)
    assert (table.groups(), len(table), table.has_group("g")) == (["h"], 6, False)
    assert table.topics("h") == ["t", "u"]
    assert table.partitions("h", "u") == [0, 1, 400]


class Weighed(NamedTuple):
    """Bytes for each entry of a full table, as tracemalloc counts them: all, and those of the names of groups."""

    all: float
    names: float


@cache
def weighed(partitions: range, topics: int = 1) -> Weighed:
    """Fill a table with about 6,250 entries and weigh it."""
    named = [(f"topic-{topic}", bytes([topic + 1] * 16)) for topic in range(topics)]
    tracemalloc.start()
    try:
        table = OffsetTable()
        for group in range(6_250 // (len(partitions) * topics)):
            name = f"consumer-group-{group:06d}"
            for topic, topic_id in named:
                for partition in partitions:
                    at = group + partition
                    entry = OffsetAndMetadata(2**40 + at, 7, "", 2**40 + at, -1, topic_id, 2**33 + at)
                    table.put(name, topic, partition, entry)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert abs(table.nbytes / held - 1) < 0.05, "nbytes says what is held"
    return Weighed(held / len(table), sum(map(sys.getsizeof, table.groups())) / len(table))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("partitions", "topics", "limit"),
    [
        (range(100), 1, 32),
        (range(100), 10, 32),
        (range(99, -1, -1), 1, 32),
        (range(8), 1, 64),
        (range(8), 10, 64),
        (range(7, -1, -1), 1, 64),
        (range(1), 1, 156),
        (range(1), 10, 88),
        (range(7, 8), 1, 156),
    ],
)
def test_an_entry_costs_few_bytes(partitions: range, topics: int, limit: int) -> None:
    assert weighed(partitions, topics).all <= limit


@pytest.mark.slow
@pytest.mark.parametrize("topics", [1, 10])
def test_an_entry_that_is_alone_in_its_topic_costs_few_bytes_beside_the_name_of_its_group(
    topics: int,
) -> None:
    found = weighed(range(1), topics)
    assert found.all - found.names <= 84, "67 to 81, by the hashes of the names"


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"), st.sampled_from("tuv"), st.sampled_from([0, 0, 0, 0, 5]), st.booleans()
        )
    ),
    st.sampled_from([0, 1, 2, 1 << 16]),
    st.sampled_from([0, 1, 63]),
)
def test_rows_are_found_when_all_want_one_place_and_when_kinds_run_out(
    steps: list[tuple[str, str, int, bool]], most_kinds: int, mask: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_rows, "MOST_KINDS", most_kinds)
        for module in (packed_rows, offset_table):
            patch.setattr(module, "PLACE_MASK", mask)
        table, oracle = OffsetTable(), dict[tuple[str, str, int], OffsetAndMetadata]()
        empty = table.nbytes
        for number, (group, topic, partition, is_removal) in enumerate(steps):
            key = group, topic, partition
            if is_removal:
                assert table.remove(*key) == (oracle.pop(key, None) is not None)
            else:
                oracle[key] = entry_of(number, topic_id=IDS[number % 2])
                table.put(*key, oracle[key])
            for kept in ([table], [table.copy_of(name) for name in table.groups()]):
                items = {
                    (name, *item[:2]): item[2]
                    for part in kept
                    for name in part.groups()
                    for item in part.items(name)
                }
                assert items == oracle
                assert sum(map(len, kept)) == len(oracle)
        for key in oracle:
            assert table.remove(*key)
        assert not table.has_topic("t")
        assert table.nbytes - empty < 1000


def test_far_off_partitions_cost_little_more_than_the_first() -> None:
    table = OffsetTable()
    table.put("g", "t", 0, entry_of(1))
    first = table.nbytes
    table = OffsetTable()
    table.put("g", "t", LAST_PARTITION, entry_of(1, expire_timestamp=-1))
    assert table.nbytes - first < 100
    for step in range(1000):
        table.put("g", "t", LAST_PARTITION - step * 2_000_000, entry_of(1))
    assert table.nbytes < 1000 * 400


@pytest.mark.parametrize("partitions", [[0], [0, 1, 2], [5], [0, 2, 127], [128, 130], [2**31 - 1], [-3, -1]])
def test_a_page_of_entries_is_what_putting_each_of_them_leaves(partitions: list[int]) -> None:
    one, bulk = OffsetTable(), OffsetTable()
    entries = [OffsetAndMetadata(p + 7, 3, "", 1000 + p, -1, b"i" * 16, p * 2) for p in partitions]
    rows = b""
    for table in (one, bulk):
        table.put("g", "t", 1000, OffsetAndMetadata(1))
    for partition, entry in zip(partitions, entries, strict=True):
        one.put("g", "t", partition, entry)
        rows += struct.pack(
            ">qiqq", entry.offset, entry.leader_epoch, entry.commit_timestamp, entry.log_offset
        )
    bulk.add_page("g", "t", partitions, rows, b"i" * 16)
    assert list(bulk.items("g")) == list(one.items("g"))
    assert (len(bulk), bulk.partitions("g", "t")) == (len(one), one.partitions("g", "t"))
    for table in (one, bulk):
        table.put("g", "t", partitions[0] ^ 1, OffsetAndMetadata(9, metadata="x"))
        assert table.remove("g", "t", partitions[-1])
    assert list(bulk.items("g")) == list(one.items("g"))


def test_a_copy_of_a_group_has_all_its_entries_and_does_not_change_with_it() -> None:
    table = OffsetTable()
    kept: dict[tuple[str, int], OffsetAndMetadata] = {}
    for number, partition in enumerate((0, 1, 2, 5, 127, 128, 300)):
        for topic in ("plain", "rare"):
            more = {"metadata": f"m{number}", "expire_timestamp": 7 + number} if topic == "rare" else {}
            kept[topic, partition] = entry_of(number, topic_id=IDS[number % 2], **more)
            table.put("g", topic, partition, kept[topic, partition])
    table.put("g", "one", 3, entry_of(9))
    table.put("other", "plain", 0, entry_of(10))
    copied = table.copy_of("g")
    for topic, partition in kept:
        table.put("g", topic, partition, entry_of(99, metadata="later"))
    table.remove("g", "rare", 5)
    kept["one", 3] = entry_of(9)
    assert copied.groups() == ["g"] and len(copied) == len(kept)
    assert {(topic, index): entry for topic, index, entry in copied.items("g")} == kept
    assert len(OffsetTable().copy_of("g")) == 0
