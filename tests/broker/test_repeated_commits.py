"""Repeated commits have the outcome of commits that are decoded: responses, log and table."""

import itertools
from collections.abc import Callable
from contextlib import closing
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.broker.groups import known_commits
from kafka_offsets.broker.groups.known_commits import KnownCommits
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.protocol.codecs.plain_rows import FEWEST
from kafka_offsets.storage.files.files import Files, MemoryFiles
from tests.drivers.core import CoreClient, make_core
from tests.storage.faults import FaultyFiles

PARTITIONS = 20
VERSIONS = (5, 6, 7, 8, 9, 10)
TOPICS = ("t", "u", "missing")
MEMBER = "client-00000000-0000-0000-0000-000000000002"
COMMIT = messages.OffsetCommitRequest


class Forgetful(KnownCommits):
    """Knows no commit."""

    def find(self, frame: bytes, body: int) -> None:
        return None


class Played:
    """A broker with two topics and, in group `members`, one member of generation 1."""

    def __init__(self, known: type[KnownCommits], files: Files | None = None, **config: object) -> None:
        self.clock = ManualClock()
        self.files = files or MemoryFiles()
        self.ids = map(UUID, (str(UUID(int=number)) for number in itertools.count(1)))
        with patch("kafka_offsets.broker.core.requests.KnownCommits", known):
            self.core = make_core(
                self.files,
                clock=self.clock,
                offsets_topic_num_partitions=1,
                group_initial_rebalance_delay_ms=0,
                **config,
            )
        self.client = CoreClient(self.core)
        self.bytes: list[bytes] = []
        self.act(self.prepare)

    def act(self, action: Callable[[], object]) -> None:
        """Do something while all new ids are counted."""
        with (
            patch("kafka_offsets.broker.core.core.uuid.uuid4", lambda: next(self.ids)),
            patch("kafka_offsets.storage.directory.data_directory.uuid.uuid4", lambda: next(self.ids)),
        ):
            action()

    def prepare(self) -> None:
        join = messages.JoinGroupRequest
        protocols = [join.Protocol("range", b"")]
        made = self.client.call(join("members", 10_000, 10_000, "", None, "consumer", protocols), 3)
        assert (made.member_id, made.generation_id) == (MEMBER, 1)
        self.client.call(messages.SyncGroupRequest("members", 1, MEMBER), 2)
        for name in TOPICS[:2]:
            self.create(name)

    def create(self, name: str) -> None:
        made = messages.CreateTopicsRequest
        self.client.call(made([made.CreatableTopic(name, PARTITIONS, 1)], 30_000), 7)

    def delete(self, name: str) -> None:
        self.client.call(messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)

    def leave(self) -> None:
        self.client.call(messages.LeaveGroupRequest("members", MEMBER), 2)

    def forget(self, group: str) -> None:
        self.client.call(messages.DeleteGroupsRequest([group]), 2)

    def request(self, shape: "Shape", numbers: tuple[int, int]) -> tuple[COMMIT, int]:
        """Return the commit of a shape with an offset and a leader epoch."""
        version, group, topic, indexes, metadata, generation, condition = shape
        by_id = version >= 10
        topic_id = self.core.topics.id_and_partition_count(topic)[0] if by_id else bytes(16)
        offset, epoch = numbers
        partitions = []
        for number, index in enumerate(indexes):
            mixed = (offset ^ number * 0x10101) if offset >= 0 else offset
            partitions.append(partition := COMMIT.Partition(index, mixed, committed_metadata=metadata))
            if version >= 6:
                partition.committed_leader_epoch = epoch
        if condition is not None and version >= 8:
            conditions.put(partition, condition)
        member = MEMBER if generation >= 0 else ""
        topics = [COMMIT.Topic("" if by_id else topic, topic_id, partitions)]
        return COMMIT(group, generation, member, topics=topics), version

    def commit(self, *commits: tuple["Shape", tuple[int, int]]) -> None:
        """Send commits in one piece, and keep the bytes of their responses."""
        self.client.send(*(self.request(shape, numbers) for shape, numbers in commits))
        for _ in commits:
            self.client.turn()
            self.clock.advance(3)
            self.bytes.append(self.core.drain(self.client.connection))
        self.client.expected.clear()

    @property
    def repeated(self) -> int:
        """How many commits the broker knows."""
        return sum(map(len, self.core.requests._commits.values()))

    @property
    def table(self) -> list[object]:
        (hosted,) = self.core.runtime.shards.values()
        return [(group, *hosted.shard.offsets.items(group)) for group in hosted.shard.offsets.groups()]

    @property
    def log(self) -> bytes:
        (hosted,) = self.core.runtime.shards.values()
        return bytes(hosted.log.read(0, hosted.log.size))


Shape = tuple[int, str, str, tuple[int, ...], str | None, int, int | None]
"""Version, group, topic, partitions, metadata, generation, expected offset of the last one."""

COLUMN = tuple(range(FEWEST))
OTHER_COLUMNS = [
    COLUMN[::-1],
    (3,) * FEWEST,
    tuple(range(PARTITIONS - FEWEST + 1, PARTITIONS + 1)),
    (-1, *COLUMN),
]

SHAPES = st.tuples(
    st.sampled_from(VERSIONS),
    st.sampled_from(["g", "members", "m" * 600]),
    st.sampled_from(TOPICS),
    st.sampled_from([(0,), (1,), (PARTITIONS,), (-1,), (0, 1), COLUMN, COLUMN, *OTHER_COLUMNS]),
    st.sampled_from(["", "", None, "text"]),
    st.sampled_from([-1, -1, 1, 2]),
    st.sampled_from([None, None, None, 5, -1]),
)
NUMBERS = st.tuples(
    st.sampled_from([5, 5, 0, -1, 1 << 40]) | st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1),
)


@st.composite
def scenarios(draw: st.DrawFn) -> list[object]:
    """Turns of commits of few shapes, and what may happen between them."""
    shapes = draw(st.lists(SHAPES, min_size=1, max_size=3))
    commits = st.lists(st.tuples(st.sampled_from(shapes), NUMBERS), min_size=1, max_size=5)
    change = st.tuples(st.sampled_from(["create", "delete"]), st.sampled_from(TOPICS))
    change |= st.just(("leave",)) | st.tuples(st.just("forget"), st.sampled_from(["g", "members"]))
    return draw(st.lists(st.one_of(commits, commits, commits, change), min_size=2, max_size=8))


@pytest.mark.slow
@given(scenarios())
def test_repeated_commits_have_the_outcome_of_decoded_ones(scenario):
    with closing((known := Played(KnownCommits)).core), closing((decoded := Played(Forgetful)).core):
        for played in (known, decoded):
            for step in scenario:
                if isinstance(step, list):
                    played.commit(*step)
                else:
                    played.act(lambda step=step, played=played: getattr(played, step[0])(*step[1:]))
        assert known.bytes == decoded.bytes
        assert known.log == decoded.log
        assert known.table == decoded.table
        known.core.close()
        with closing(make_core(known.files, clock=ManualClock())) as again:
            (hosted,) = again.runtime.shards.values()
            offsets = hosted.shard.offsets
            assert [(group, *offsets.items(group)) for group in offsets.groups()] == decoded.table


def shape(
    group: str = "g", version: int = 8, generation: int = -1, partitions: tuple[int, ...] = (1,)
) -> Shape:
    return version, group, "t", partitions, "", generation, None


@pytest.mark.parametrize("partitions", [(1,), COLUMN, *OTHER_COLUMNS[:2]])
@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize(("group", "generation"), [("g", -1), ("members", 1)])
def test_the_fourth_commit_of_the_same_partitions_is_not_decoded(version, group, generation, partitions):
    with closing((played := Played(KnownCommits)).core):
        asked = shape(group, version, generation, partitions)
        for offset in range(3):
            played.commit((asked, (offset, 2)))
        assert played.repeated == 1
        connection = played.client.connection
        header = connection.known_header
        connection.known_header = header._replace(codecs=header.codecs._replace(decode=None))
        played.commit((asked, (3, 4)))
        committed = played.client.committed(group)
        assert committed.keys() == {("t", index) for index in partitions}
        assert committed["t", partitions[0]] == 3 or partitions == OTHER_COLUMNS[1]


@pytest.mark.parametrize("known", [KnownCommits, Forgetful])
@pytest.mark.parametrize("partitions", [(1,), COLUMN])
def test_a_member_that_only_commits_stays_in_its_group(known, partitions):
    # Its session is 10 s. A repeated commit extends it as a decoded one does.
    with closing((played := Played(known)).core):
        for offset in range(20):
            played.commit((shape("members", 8, 1, partitions), (offset, 2)))
            for _ in range(4):
                played.clock.advance(1000)
                played.core.run_due()
        assert played.repeated == 1
        beat = messages.HeartbeatRequest("members", 1, MEMBER)
        assert played.client.call(beat, 3).error_code == ErrorCode.NONE
        assert played.client.committed("members") == dict.fromkeys(
            [("t", index) for index in partitions], 19
        ) or (partitions == COLUMN)


@pytest.mark.parametrize("partitions", OTHER_COLUMNS[2:])
def test_each_repeat_for_a_partition_that_does_not_exist_gets_its_error(partitions):
    with closing((known := Played(KnownCommits)).core), closing((decoded := Played(Forgetful)).core):
        for played in (known, decoded):
            for offset in range(5):
                played.commit((shape(partitions=partitions), (offset, 0)))
        assert known.bytes == decoded.bytes and known.log == decoded.log


def test_a_commit_with_a_condition_sees_repeated_commits_of_its_turn():
    with closing((played := Played(KnownCommits)).core):
        expects_6 = (*shape()[:-1], 6)
        for offset in (2, 3, 4):
            played.commit((shape(), (offset, 0)))
        played.commit(
            (shape(), (5, 0)), (shape(), (6, 0)), (expects_6, (9, 0)), (shape(), (6, 0)), (expects_6, (7, 0))
        )
        assert played.client.committed("g") == {("t", 1): 7}


def test_repeats_that_follow_a_look_at_the_turn_are_under_way_too():
    with closing((played := Played(KnownCommits)).core):
        for group in ("g", "h"):
            for offset in range(3):
                played.commit((shape(group), (offset, 0)))
        (hosted,) = played.core.runtime.shards.values()
        for groups in ({"g"}, {"g", "h"}):
            played.client.send(played.request(shape(max(groups)), (9, 0)))
            assert hosted.under_way().groups == groups
        played.client.turn()
        assert len(played.client.take()) == 2


@pytest.mark.parametrize("limit", [150, 300, 1000])
def test_repeats_that_are_too_large_for_one_batch_are_written_in_several(limit):
    known = Played(KnownCommits, message_max_bytes=limit)
    decoded = Played(Forgetful, message_max_bytes=limit)
    with closing(known.core), closing(decoded.core):
        for played in (known, decoded):
            for _ in range(3):
                played.commit(*[(shape(), (number, 0)) for number in range(20)])
        assert known.repeated and known.bytes == decoded.bytes and known.log == decoded.log


def test_repeats_that_the_log_refuses_are_answered_each():
    files = FaultyFiles()
    with closing((played := Played(KnownCommits, files)).core):
        for offset in (2, 3, 4):
            played.commit((shape(), (offset, 0)))
        assert played.repeated == 1
        files.fail_at = len(files.calls) + 1
        for offset in (5, 6):
            played.client.send(played.request(shape(), (offset, 0)))
        played.client.turn()
        errors = [answer.topics[0].partitions[0].error_code for answer in played.client.take()]
        assert errors == [ErrorCode.NOT_COORDINATOR] * 2
        assert played.client.committed("g") == {("t", 1): 4}


def test_commits_of_the_same_size_repeat_only_those_of_the_same_partitions():
    """Two groups with names of other lengths have their partitions at other places of requests of one size."""
    with closing((known := Played(KnownCommits)).core), closing((decoded := Played(Forgetful)).core):
        shapes = [shape("gg"), shape("g", partitions=COLUMN), shape("g", partitions=(*COLUMN[1:], 14))]
        shapes += [(8, "gg", "t" * count, COLUMN, "", -1, None) for count in (1, 2)]
        shapes += [(8, "g", "t" * count, COLUMN, "", -1, None) for count in (2, 3)]
        for played in (known, decoded):
            for name in ("tt", "ttt"):
                played.act(lambda played=played, name=name: played.create(name))
            for number in range(6):
                played.commit(*((each, (number, 7)) for each in shapes))
        assert known.repeated > 3
        assert known.bytes == decoded.bytes and known.log == decoded.log and known.table == decoded.table


@pytest.mark.parametrize(("length", "counts"), [(1, (1, 2, 0)), (2000, (1, 0, 0))])
def test_a_commit_of_many_bytes_counts_as_several_at_the_limit(length, counts):
    with (
        closing((played := Played(KnownCommits)).core),
        patch.multiple(known_commits, _MOST=4, _BYTES_OF_ONE=100),
    ):
        for group, count in zip("ghi", counts, strict=True):
            for offset in range(3):
                played.commit((shape(group * length, partitions=COLUMN), (offset, 0)))
            assert played.repeated == count


def test_at_the_limit_known_commits_are_forgotten_and_no_others_become_known_for_a_while():
    with (
        closing((played := Played(KnownCommits)).core),
        patch.multiple(known_commits, _MOST=2, _PAUSE=5),
    ):
        known = []
        for group, times in (("g", 3), ("h", 3), ("i", 8), ("i", 10)):
            for offset in range(times):
                played.commit((shape(group), (offset, 0)))
            known.append([commit.group for commit in played.core.requests._commits[8]._known.values()])
        assert known == [["g"], ["g", "h"], [], ["i"]]


def test_commits_of_more_groups_than_can_be_known_do_not_become_known_in_turn():
    """Each would be replaced before it repeats; with 10,000 groups that once took 70 % more CPU time than decoding."""
    with closing((played := Played(KnownCommits)).core), patch.object(known_commits, "_MOST", 2):
        for offset in range(6):
            for number in range(3):
                played.commit((shape(f"g{number}"), (offset, 0)))
        assert played.repeated == 0
