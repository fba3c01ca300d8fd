"""Kept reads: a repeated OffsetFetch or ListOffsets gets the bytes that its handler would make, after any change."""

from collections.abc import Callable, Iterator
from itertools import product
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.broker.api import groups, kept_responses, log_offsets
from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.coordinator.state import shard_state as state
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from tests.broker.api.test_kept_responses import Pair, kept
from tests.drivers.core import CoreClient, make_core
from tests.drivers.transactions import Producer

LIST_OFFSETS, OFFSET_FETCH = 2, 9
TOPICS = ("t", "u")
PARTITIONS = 20
RETENTION_MS = 60_000


def topic_id(core: BrokerCore, name: str) -> bytes:
    return core.topics.id_and_partition_count(name)[0]


def fetches(core: BrokerCore) -> Iterator[tuple[messages.MessageValue, int]]:
    """OffsetFetch in several versions, of some partitions, of a column and of all."""
    made = messages.OffsetFetchRequest
    for indexes, stable in product(([1], [*range(PARTITIONS)], None), (False, True)):
        for version in (5, 7):
            if version == 7 or not stable:
                topics = None if indexes is None else [made.Topic("t", indexes)]
                yield made("g", topics, require_stable=stable), version
        for version in (8, 9, 10):
            ident = topic_id(core, "t") if version > 9 else bytes(16)
            named = made.Topics("" if version > 9 else "t", ident, indexes or [])
            group = made.Group("g", topics=None if indexes is None else [named])
            yield made(groups=[group], require_stable=stable), version
    yield made(groups=[made.Group("g", topics=None), made.Group("h", topics=None)]), 8
    yield made(groups=[made.Group("g", "member", 3)]), 9


def lists() -> Iterator[tuple[messages.MessageValue, int]]:
    """ListOffsets of the ends of a log, of a time, and with an old leader epoch."""
    made = messages.ListOffsetsRequest
    for version, timestamp, isolation in product((4, 7), (-1, -2, 0), (0, 1)):
        asked = made.ListOffsetsPartition(0, timestamp=timestamp)
        yield made(-1, isolation, [made.ListOffsetsTopic("t", [asked])]), version
    epoch = made.ListOffsetsPartition(0, 3, timestamp=-1)
    yield made(-1, 0, [made.ListOffsetsTopic("t", [epoch])]), 7
    both = [made.ListOffsetsPartition(index, timestamp=-1) for index in (0, 1)]
    yield made(-1, 0, [made.ListOffsetsTopic("t", both)]), 7


class Reads:
    """A broker with two topics, and what may change its offsets."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.core = make_core(
            clock=self.clock,
            offsets_topic_num_partitions=1,
            transaction_state_log_num_partitions=1,
            offsets_retention_minutes=1,
            offsets_retention_check_interval_ms=1000,
        )
        self.pair = Pair(self.core)
        self.client = CoreClient(self.core)
        for name in TOPICS:
            self.create(name)
        self.client.commit("g", {("t", 1): 7})
        self.producer = Producer(self.core)
        self.producer.init()

    def create(self, name: str) -> None:
        made = messages.CreateTopicsRequest
        self.client.call(made([made.CreatableTopic(name, PARTITIONS, 1)], 30_000), 7)

    def delete(self, name: str) -> None:
        self.client.call(messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)

    def commit(self, topic: str, indexes: tuple[int, ...], offset: int) -> None:
        self.client.commit("g", {(topic, index): offset + index for index in indexes})

    def forget(self, topic: str) -> None:
        made = messages.OffsetDeleteRequest
        self.client.call(made("g", [made.Topic(topic, [made.Partition(1)])]), 0)

    def forget_all(self) -> None:
        self.client.call(messages.DeleteGroupsRequest(["g"]), 2)

    def produce(self) -> None:
        made = messages.ProduceRequest
        records = bytes(encode_batch([(None, b"value", (), self.clock.now().wall_ms)]))
        data = made.TopicProduceData("t", partition_data=[made.PartitionProduceData(0, records)])
        self.client.call(made(None, 1, 30_000, [data]), 9)

    def shorten(self) -> None:
        made = messages.DeleteRecordsRequest
        topic = made.DeleteRecordsTopic("t", [made.DeleteRecordsPartition(0, -1)])
        self.client.call(made([topic], 1000), 2)

    def put_in_transaction(self) -> None:
        self.producer.produce("t", b"uncertain")
        self.producer.commit_offset("g", "t", 99, 1)

    def end_transaction(self, is_commit: bool) -> None:
        self.producer.end(is_commit)

    def expire(self) -> None:
        self.clock.advance(2 * RETENTION_MS)
        self.core.run_due()
        self.core.end_turn()

    def check(self, requests: list[tuple[messages.MessageValue, int]], after: object) -> None:
        """Compare the responses that may be kept with those made anew."""
        for request, version in requests:
            kept, anew = self.pair.responses(request, version)
            assert kept is not None and kept == anew, (after, request, version)


INDEXES = st.sampled_from([(1,), (1, 2), tuple(range(PARTITIONS)), (5,)])
CHANGES = st.one_of(
    st.tuples(st.just("commit"), st.sampled_from(TOPICS), INDEXES, st.integers(0, 3)),
    st.tuples(st.sampled_from(["create", "delete", "forget"]), st.sampled_from(TOPICS)),
    st.tuples(st.sampled_from(["forget_all", "produce", "shorten", "put_in_transaction", "expire"])),
    st.tuples(st.just("end_transaction"), st.booleans()),
)


@pytest.mark.slow
@given(st.lists(CHANGES, min_size=1, max_size=8))
def test_kept_reads_are_those_made_anew_after_any_changes(changes: list[tuple[str, ...]]) -> None:
    reads = Reads()
    requests = [*fetches(reads.core), *lists()]
    reads.check(requests * 2, "start")
    assert len(kept(reads.core, OFFSET_FETCH)) + len(kept(reads.core, LIST_OFFSETS)) >= 20
    with mock.patch.object(kept_responses, "_AFTER_CHANGE", 0):
        for what, *arguments in changes:
            getattr(reads, what)(*arguments)
            reads.check(requests * 2, (what, *arguments))


def refuses(*_: object, **__: object) -> None:
    raise AssertionError("this response is kept")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda reads: reads.commit("t", (1, 2), 8), {("t", 1): 9, ("t", 2): 10, ("u", 1): 1}),
        (lambda reads: reads.commit("t", (1,), 8), {("t", 1): 9, ("u", 1): 1}),
        (lambda reads: reads.forget("t"), {("u", 1): 1}),
        (lambda reads: reads.end_transaction(is_commit=True), {("t", 1): 99, ("u", 1): 1}),
    ],
    ids=["commit", "repeated commit", "deletion", "transaction"],
)
def test_offsets_are_read_again_after_a_change_of_their_group(
    change: Callable[[Reads], None], wanted: dict[tuple[str, int], int]
) -> None:
    reads = Reads()
    reads.commit("u", (1,), 0)
    for _ in range(4):  # of which the last one repeats a commit that is known
        reads.commit("t", (1,), 6)
    reads.put_in_transaction()
    before = {("t", 1): 7, ("u", 1): 1}
    for _ in range(2):
        assert reads.client.committed("g") == before
    reads.client.commit("other", {("t", 1): 3})
    with mock.patch.object(groups, "_read_now", refuses):
        assert reads.client.committed("g") == before
    change(reads)
    assert reads.client.committed("g") == wanted


def test_a_reader_of_stable_offsets_sees_the_commits_of_its_turn() -> None:
    reads = Reads()
    request = messages.OffsetFetchRequest("g", None, require_stable=True)
    first, second = CoreClient(reads.core), CoreClient(reads.core)
    for _ in range(3):
        assert first.call(request, 7).topics[0].partitions[0].committed_offset == 7
    made = messages.OffsetCommitRequest
    topic = made.Topic("t", partitions=[made.Partition(1, 8, committed_metadata="")])
    second.send((made("g", topics=[topic]), 8))
    first.send((request, 7))
    first.turn()
    (answer,) = first.take()
    assert answer.topics[0].partitions[0].committed_offset == 8


def test_the_end_of_a_log_is_found_again_after_a_record() -> None:
    reads = Reads()
    asked = messages.ListOffsetsRequest.ListOffsetsPartition(0, timestamp=-1)
    request = messages.ListOffsetsRequest(-1, 0, [messages.ListOffsetsRequest.ListOffsetsTopic("t", [asked])])
    for _ in range(2):
        assert reads.client.call(request, 7).topics[0].partitions[0].offset == 0
    with mock.patch.object(log_offsets, "_list_one", refuses):
        assert reads.client.call(request, 7).topics[0].partitions[0].offset == 0
    reads.produce()
    assert reads.client.call(request, 7).topics[0].partitions[0].offset == 1


def test_a_response_that_changes_between_its_requests_is_rarely_kept() -> None:
    """A consumer that commits and fetches in turn would discard it each time."""
    reads = Reads()
    counts = []
    for offset in range(40):
        reads.commit("t", (1,), offset)
        reads.client.committed("g")
        counts.append(len(kept(reads.core, OFFSET_FETCH)))
    assert sum(counts) == 3 and counts[1] == 1


def test_of_more_groups_than_fit_none_are_kept_in_turn() -> None:
    """Each would be discarded before it is repeated; with 10,000 groups that once took half as long again."""
    reads = Reads()
    with mock.patch.object(kept_responses, "_MOST_BYTES", 10_000):
        counts = []
        for _ in range(6):
            for number in range(100):
                reads.client.committed(f"group-{number}")
            counts.append(len(kept(reads.core, OFFSET_FETCH)))
    assert counts == [0] * 6 and kept(reads.core, OFFSET_FETCH)._pause > 500


def test_the_groups_that_are_known_as_unchanged_have_a_bound() -> None:
    reads = Reads()
    with mock.patch.object(state, "_MOST_UNCHANGED", 10):
        for number in range(40):
            for _ in range(2):
                reads.client.committed(f"group-{number}")
        (hosted,) = reads.core.runtime.shards.values()
        assert 1 <= len(hosted.shard.unchanged) <= 10
        assert reads.client.committed("group-0") == {}
