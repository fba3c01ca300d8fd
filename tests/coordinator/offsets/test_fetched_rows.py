"""Fetches in rows have the outcome of one partition after the other."""

import itertools
import struct
from contextlib import closing
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.state.offset_table import OffsetAndMetadata, OffsetTable
from kafka_offsets.coordinator.state.pages import ROW
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.codecs.plain_rows import FEWEST, Numbers, filled_rows
from tests.drivers.core import CoreClient, make_core

CORRELATION_ID_BYTES = 4
TOPICS = {"t": 40, "a-longer-name": 20, "few": 3}
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
OFFSETS = st.integers(0, 300) | INT64
EPOCHS = st.sampled_from([-1, 0, 1]) | INT32

Asked = list[tuple[str, list[tuple[int, int, int, str | None]]]]


class Played:
    """A broker, and what it has answered."""

    def __init__(self) -> None:
        self.core = make_core(clock=ManualClock(), offsets_topic_num_partitions=1)
        self.client = CoreClient(self.core)
        made = messages.CreateTopicsRequest
        topics = [made.CreatableTopic(name, count, 1) for name, count in TOPICS.items()]
        ids = map(UUID, (str(UUID(int=number)) for number in itertools.count(1)))
        with patch("kafka_offsets.storage.directory.data_directory.uuid.uuid4", lambda: next(ids)):
            self.client.call(made(topics, 30_000), 7)
            self.client.commit("g", {("few", 0): 1})  # creates the offsets topic

    def commit(self, *requests: tuple[Asked, int]) -> list[object]:
        """Send several commits of group g in one turn; return their answers."""
        self.client.send(*((self.request(asked, version), version) for asked, version in requests))
        self.client.turn()
        return self.client.take()

    def request(self, asked: Asked, version: int) -> messages.OffsetCommitRequest:
        made = messages.OffsetCommitRequest
        topics = []
        for name, partitions in asked:
            topic_id = self.core.topics.id_and_partition_count(name)[0] if version >= 10 else bytes(16)
            topic = made.Topic("" if version >= 10 else name, topic_id)
            for index, offset, epoch, metadata in partitions:
                topic.partitions.append(
                    made.Partition(
                        index,
                        offset,
                        committed_leader_epoch=epoch if version >= 6 else -1,
                        committed_metadata=metadata,
                    )
                )
            topics.append(topic)
        return made("g", topics=topics)

    def fetch(self, wanted: dict[str, list[int]] | None, version: int) -> bytes | None:
        """Fetch offsets of group g, of all topics for None; return the answer as it is sent."""
        made = messages.OffsetFetchRequest
        if version < 2 and wanted is None:
            wanted = {}
        if version < 8:
            topics = None if wanted is None else [made.Topic(*each) for each in wanted.items()]
            request = made("g", topics)
        else:
            ids = {name: self.core.topics.id_and_partition_count(name)[0] for name in TOPICS}
            named = [
                made.Topics("" if version > 9 else name, ids[name] if version > 9 else bytes(16), indexes)
                for name, indexes in (wanted or {}).items()
            ]
            request = made(groups=[made.Group("g", topics=None if wanted is None else named)])
        self.client.send((request, version))
        self.client.turn()
        del self.client.expected[0]
        return self.client.take_frame()

    @property
    def shard(self):
        (hosted,) = self.core.runtime.shards.values()
        return hosted.shard


def partitions_of(name: str, metadata) -> st.SearchStrategy:
    """The partitions of a topic in a request: neighbours in order, any order, repeats, some that do not exist."""
    count = TOPICS[name]
    neighbours = st.tuples(st.integers(0, count - 1), st.integers(1, count)).map(
        lambda pair: list(range(pair[0], min(pair[0] + pair[1], count)))
    )
    indexes = neighbours | st.lists(st.integers(0, count - 1), min_size=1, max_size=30)
    if name == "few":
        indexes = indexes | st.lists(st.integers(-1, count), min_size=FEWEST, max_size=FEWEST)
    row = st.tuples(OFFSETS, EPOCHS, metadata)
    return indexes.flatmap(
        lambda chosen: st.lists(row, min_size=len(chosen), max_size=len(chosen)).map(
            lambda rows: [(index, *rest) for index, rest in zip(chosen, rows, strict=True)]
        )
    )


NO_TEXT = st.sampled_from([None, ""])
SOME_TEXT = st.sampled_from([None, "", "", "", "m", "x" * 200])
REQUEST = st.lists(
    st.sampled_from(list(TOPICS)).flatmap(
        lambda name: st.tuples(st.just(name), partitions_of(name, NO_TEXT) | partitions_of(name, SOME_TEXT))
    ),
    min_size=1,
    max_size=3,
)


WANTED = st.none() | st.dictionaries(
    st.sampled_from(list(TOPICS)),
    st.lists(st.integers(-1, 45), max_size=40)
    | st.tuples(st.integers(0, 30), st.integers(0, 45)).map(lambda ends: [*range(*ends)]),
)


@pytest.mark.slow
@given(
    st.lists(st.tuples(REQUEST, st.integers(0, 10)), min_size=1, max_size=4),
    st.lists(st.tuples(WANTED, st.integers(1, 10)), max_size=3),
)
def test_fetches_in_rows_have_the_outcome_of_those_without(requests, fetches):
    with closing((played := Played()).core):
        played.commit(*requests)
        for wanted, version in fetches:
            in_rows = played.fetch(wanted, version)
            with patch.object(played.shard.offsets, "plain_rows", lambda *asked: None):
                anew = played.fetch(wanted, version)
            assert in_rows[CORRELATION_ID_BYTES:] == anew[CORRELATION_ID_BYTES:]


@given(
    st.lists(OFFSETS, min_size=1, max_size=20),
    st.sampled_from([0, 3]),
    st.sampled_from([0, 5]),
)
def test_copies_of_a_row_get_the_numbers_of_their_elements(offsets, begin, at):
    """High bytes that are the same in all elements, and those that are not."""
    source = bytes(begin) + b"".join(struct.pack(">q2x", offset) for offset in offsets)
    row = bytes(range(20, 34))
    rows = filled_rows(row, len(offsets), [Numbers(source, begin, 10, 8, at)])
    assert rows == b"".join(row[:at] + struct.pack(">q", offset) + row[at + 8 :] for offset in offsets)


@pytest.mark.parametrize(
    "wanted", [range(1, 21), range(5, 25), [*range(20, 0, -1)], [1, 1, 2], range(120, 140), [140, 3]]
)
def test_rows_of_partitions_are_found_after_a_gap_too(wanted):
    table = OffsetTable()
    for partition in [*range(1, 40), *range(120, 141)]:
        table.put("g", "t", partition, OffsetAndMetadata(partition * 3, commit_timestamp=9))
    rows = table.plain_rows("g", "t", wanted)
    assert [row[0] for row in ROW.iter_unpack(rows)] == [partition * 3 for partition in wanted]
    assert table.plain_rows("g", "t", [1, 2, 0]) is None
    assert table.plain_rows("g", "t", range(39, 45)) is None
