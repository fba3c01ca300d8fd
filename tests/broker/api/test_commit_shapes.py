"""Commits of a known shape have the outcome of commits that are decoded: responses, log, table, and what is undone."""

import itertools
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.broker.api import commit_shapes
from kafka_offsets.broker.api.commit_shapes import CommitShapes
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import conditions, messages
from kafka_offsets.storage.files.files import Files, MemoryFiles
from tests.drivers.core import CoreClient, make_core
from tests.storage.crash.faults import FaultyFiles

PARTITIONS = 20
VERSIONS = range(11)
SHAPED = VERSIONS[2:]
MEMBER = "client-00000000-0000-0000-0000-000000000002"
CONSUMER = "consumer-00000000-0000-0000-000000000003"
COMMIT = messages.OffsetCommitRequest
ALL = tuple(range(PARTITIONS))
OFFSET_COMMIT = 8


class Forgetful(CommitShapes):
    """Knows no shape."""

    def decide(self, context: object, frame: bytes, body: int, now: object) -> bool:
        return False


class Asked(NamedTuple):
    """What commits have in common.

    topics     partitions by topic
    metadata   of all partitions, with the numbers of commit and partition in braces, or of each
    expected   offset of the last partition, if the commit has a condition
    """

    version: int = 8
    group: str = "g"
    topics: tuple[tuple[str, tuple[int, ...]], ...] = (("t", (1,)),)
    metadata: str | tuple[str, ...] = ""
    generation: int = -1
    instance: str | None = None
    retention_ms: int = -1
    expected: int | None = None

    def text(self, commit: int, partition: int) -> str | None:
        """Return the metadata of a partition."""
        if self.metadata == "null":
            return None
        if isinstance(self.metadata, tuple):
            return self.metadata[partition]
        return self.metadata.format(commit=commit, short="x" * (partition % 3))


class Played:
    """A broker with two topics, a classic group `members` and a consumer group `consumers` of one member each."""

    def __init__(self, known: type[CommitShapes], files: Files | None = None, **config: object) -> None:
        self.clock = ManualClock()
        self.files = files or MemoryFiles()
        self.ids = map(UUID, (str(UUID(int=number)) for number in itertools.count(1)))
        config = {"offsets_topic_num_partitions": 1, "group_initial_rebalance_delay_ms": 0} | config
        self.core = make_core(self.files, clock=self.clock, **config)
        self.shapes = known(self.core.broker)
        self.core.requests._shortcuts[OFFSET_COMMIT] = self.shapes
        self.client = CoreClient(self.core)
        self.bytes: list[bytes] = []
        self.epoch = 0
        self.first_ids: dict[str, bytes] = {}
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
        for name in ("t", "u"):
            self.create(name)
        self.beat()

    def beat(self) -> None:
        """Join the consumer group, or send a heartbeat of its member."""
        beat = messages.ConsumerGroupHeartbeatRequest("consumers", CONSUMER, self.epoch)
        if not self.epoch:
            beat.rebalance_timeout_ms, beat.subscribed_topic_names = 10_000, ["t"]
            beat.topic_partitions = []
        answer = self.client.call(beat, 1)
        self.epoch = answer.member_epoch if answer.error_code == ErrorCode.NONE else self.epoch

    def create(self, name: str) -> None:
        made = messages.CreateTopicsRequest
        self.client.call(made([made.CreatableTopic(name, PARTITIONS, 1)], 30_000), 7)

    def delete(self, name: str) -> None:
        self.client.call(messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)

    def leave(self) -> None:
        self.client.call(messages.LeaveGroupRequest("members", MEMBER), 2)

    def forget(self, group: str) -> None:
        self.client.call(messages.DeleteGroupsRequest([group]), 2)

    def forget_offsets(self, group: str) -> None:
        made = messages.OffsetDeleteRequest
        topic = made.Topic("t", [made.Partition(index) for index in (0, 1, 2)])
        self.client.call(made(group, [topic]), 0)

    def fail(self, number: int) -> None:
        """Let an append to the offsets log fail, the next one or one after it; the log takes nothing afterwards."""
        assert isinstance(self.files, FaultyFiles)
        self.files.fail_at = len(self.files.calls) + number
        self.files.only = lambda operation, path: operation == "append" and "__consumer_offsets" in path

    def first_id(self, topic: str) -> bytes:
        """Return the first id of a topic: clients know it when the topic was deleted and created again."""
        topic_id = self.core.topics.id_and_partition_count(topic)[0]
        return (
            self.first_ids.setdefault(topic, topic_id)
            if any(topic_id)
            else self.first_ids.get(topic, topic_id)
        )

    def request(self, asked: Asked, commit: int) -> tuple[COMMIT, int]:
        """Return a commit; its number decides about its offsets."""
        version, group, topics, _, generation, instance, retention_ms, expected = asked
        by_id = version >= 10
        made = []
        for topic, indexes in topics:
            topic_id = self.first_id(topic) if by_id else bytes(16)
            partitions = []
            for number, index in enumerate(indexes):
                offset = (commit * 0x1010101 ^ number) % (1 << 63)
                partition = COMMIT.Partition(index, offset, committed_metadata=asked.text(commit, number))
                if version >= 6:
                    partition.committed_leader_epoch = commit % (1 << 31)
                partitions.append(partition)
            made.append(COMMIT.Topic("" if by_id else topic, topic_id, partitions))
        if expected is not None and version >= 8 and made and made[-1].partitions:
            conditions.put(made[-1].partitions[-1], expected)
        member = {"members": MEMBER, "consumers": CONSUMER}.get(group, "") if generation >= 0 else ""
        if group == "consumers" and generation == 1:
            generation = self.epoch
        request = COMMIT(group, topics=made)
        if version:
            request.generation_id_or_member_epoch, request.member_id = generation, member
        if version >= 7:
            request.group_instance_id = instance
        if 2 <= version <= 4:
            request.retention_time_ms = retention_ms
        return request, version

    def commit(self, *commits: tuple[Asked, int]) -> None:
        """Send commits in one piece, and keep the bytes of their responses."""
        self.client.send(*(self.request(asked, number) for asked, number in commits))
        for _ in commits:
            self.client.turn()
            self.clock.advance(3)
            self.bytes.append(self.core.drain(self.client.connection))
        self.client.expected.clear()

    @property
    def table(self) -> list[object]:
        (hosted,) = self.core.runtime.shards.values()
        return [(group, *hosted.shard.offsets.items(group)) for group in hosted.shard.offsets.groups()]

    @property
    def log(self) -> bytes:
        (hosted,) = self.core.runtime.shards.values()
        return bytes(hosted.log.read(0, hosted.log.size))


TOPICS = st.lists(
    st.tuples(
        st.sampled_from(["t", "t", "u", "missing"]),
        st.sampled_from(
            [
                (0,),
                (1,),
                (PARTITIONS,),
                (-1,),
                (0, 1),
                (1, 0),
                (3, 3, 3),
                ALL,
                ALL[::-1],
                (-1, *ALL),
                (),
                (0, 2, 4),
            ]
        ),
    ),
    max_size=5,
).map(tuple)
METADATA = [
    "",
    "",
    "",
    "null",
    "text",
    "{commit:05}",
    "ü{commit}",
    "{short}",
    "{commit:03}{short}",
    "m" * 130,
]

ASKED = st.builds(
    Asked,
    st.sampled_from(VERSIONS) | st.sampled_from(SHAPED),
    st.sampled_from(["g", "g", "h", "members", "consumers", "m" * 600, "gruppe-ü"]),
    TOPICS,
    st.sampled_from(METADATA),
    st.sampled_from([-1, -1, 1, 2]),
    st.sampled_from([None, None, "static"]),
    st.sampled_from([-1, -1, 5000]),
    st.sampled_from([None, None, None, None, 5, -1]),
)
NUMBERS = st.sampled_from([5, 6, 6, 0]) | st.integers(0, 1 << 40)


@st.composite
def scenarios(draw: st.DrawFn) -> list[object]:
    """Turns of commits of few kinds, and what may happen between them."""
    kinds = draw(st.lists(ASKED, min_size=1, max_size=3))
    commits = st.lists(st.tuples(st.sampled_from(kinds), NUMBERS), min_size=1, max_size=5)
    change = st.tuples(st.sampled_from(["create", "delete"]), st.sampled_from(["t", "u", "missing"]))
    change |= st.sampled_from([("leave",), ("beat",), ("forget_offsets", "g")])
    change |= st.tuples(st.just("fail"), st.integers(1, 3))
    change |= st.tuples(st.just("forget"), st.sampled_from(["g", "members"]))
    return draw(st.lists(st.one_of(commits, commits, commits, change), min_size=2, max_size=8))


def play(known: type[CommitShapes], scenario: list[object], **config: object) -> Played:
    played = Played(known, FaultyFiles(), **config)
    for step in scenario:
        if isinstance(step, list):
            played.commit(*step)
        else:
            played.act(lambda step=step: getattr(played, step[0])(*step[1:]))
    played.files.fail_at = 0
    return played


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "offset_metadata_max_bytes": st.just(8),
        "message_max_bytes": st.sampled_from([300, 1000]),
        "offsets_commit_all_or_none": st.just(True),
        "offsets_commit_owner_check": st.just(True),
        "offsets_commit_unknown_topics": st.just(True),
        "offsets_topic_compression_codec": st.just(1),
    },
)


@pytest.mark.slow
@given(scenarios(), OPTIONS)
def test_commits_of_a_known_shape_have_the_outcome_of_decoded_ones(scenario, options):
    with (
        closing((shaped := play(CommitShapes, scenario, **options)).core),
        closing((decoded := play(Forgetful, scenario, **options)).core),
    ):
        assert shaped.bytes == decoded.bytes
        assert shaped.log == decoded.log
        assert shaped.table == decoded.table
        (hosted,), (other,) = shaped.core.runtime.shards.values(), decoded.core.runtime.shards.values()
        assert hosted.shard.meters == other.shard.meters
        shaped.core.close()
        with closing(make_core(shaped.files, clock=ManualClock())) as again:
            (hosted,) = again.runtime.shards.values()
            offsets = hosted.shard.offsets
            assert [(group, *offsets.items(group)) for group in offsets.groups()] == decoded.table


MEMBERS, IDS, TWO = Asked(group="members", generation=1), Asked(10), Asked(topics=(("t", (0, 1)),))
LIKE_PARTITIONS = "x" + "\0" * 4 + "\1" + "\0" * 12 + ")" + "y" * 22
"""Metadata of one partition that has the gap before another one, its numbers, and the size of its metadata."""


@pytest.mark.parametrize(
    ("steps", "options"),
    [
        ([[(Asked(), 2)], ("delete", "t"), [(Asked(), 3)], ("create", "t"), [(Asked(), 4)]], {}),
        ([[(IDS, 2)], ("delete", "t"), ("create", "t"), [(IDS, 3)]], {}),
        ([[(Asked(metadata="long text"), number)] for number in (2, 3)], {"offset_metadata_max_bytes": 8}),
        ([[(MEMBERS, number)] for number in (2, 3)], {"offsets_commit_owner_check": True}),
        ([[(Asked(2, retention_ms=milliseconds), 2)] for milliseconds in (-1, 5000)], {}),
        ([[(MEMBERS, 2)], ("leave",), [(MEMBERS, 3)]], {}),
        (
            [
                [(TWO._replace(metadata=("x", "y" * 40)), 2)],
                [(TWO._replace(metadata=(LIKE_PARTITIONS, "")), 3)],
            ],
            {},
        ),
    ],
    ids=["topic", "topic id", "long metadata", "owners", "retention", "member", "metadata like partitions"],
)
def test_what_a_shape_does_not_decide_is_decoded(steps, options):
    scenario = [[(Asked(), 1)], *steps]
    with (
        closing((shaped := play(CommitShapes, scenario, **options)).core),
        closing((decoded := play(Forgetful, scenario, **options)).core),
    ):
        assert shaped.bytes == decoded.bytes
        assert shaped.log == decoded.log and shaped.table == decoded.table


def undecodable(played: Played) -> None:
    """Let the connection decode no request whose header is that of the last one."""
    connection = played.client.connection
    header = connection.known_header
    assert header is not None
    connection.known_header = header._replace(codecs=header.codecs._replace(decode=None))


SPREAD = (("t", ALL), ("u", (0,)), ("t", (3, 1)))


@pytest.mark.parametrize("topics", [Asked().topics, (("t", ALL),), (("t", ALL[::-1]),), SPREAD])
@pytest.mark.parametrize("version", SHAPED)
@pytest.mark.parametrize("metadata", ["", "null", "text", "ü {commit}", "{short}"])
def test_the_second_commit_of_the_same_partitions_is_not_decoded(topics, version, metadata):
    with closing((played := Played(CommitShapes)).core):
        played.commit((Asked(version, "h", topics, metadata), 2))
        assert len(played.shapes) == 1
        undecodable(played)
        played.commit((Asked(version, "g", topics, metadata), 3))
        entries = {(topic, index): entry for topic, index, entry in next(iter(played.table[1:]))[1:]}
        assert entries.keys() == {(topic, index) for topic, indexes in topics for index in indexes}
        assert entries["t", 1].commit_timestamp == played.clock.now().wall_ms - 3


@pytest.mark.parametrize("asked", [Asked(group="members", generation=1), Asked(9, "consumers", generation=1)])
def test_commits_of_members_are_not_decoded_either(asked):
    with closing((played := Played(CommitShapes)).core):
        played.commit((asked._replace(group="other", generation=-1), 2))
        played.act(played.beat)
        played.commit((Asked(asked.version, topics=(("u", (0,)),)), 2))
        undecodable(played)
        played.commit((asked, 3))
        assert played.client.committed(asked.group) == {("t", 1): 3 * 0x1010101}


@pytest.mark.parametrize("known", [CommitShapes, Forgetful])
@pytest.mark.parametrize("partitions", [(1,), ALL])
def test_a_member_that_only_commits_stays_in_its_group(known, partitions):
    # Its session is 10 s. A commit of a known shape extends it as a decoded one does.
    with closing((played := Played(known)).core):
        for number in range(20):
            played.commit((Asked(8, "members", (("t", partitions),), generation=1), number))
            for _ in range(4):
                played.clock.advance(1000)
                played.core.run_due()
        beat = messages.HeartbeatRequest("members", 1, MEMBER)
        assert played.client.call(beat, 3).error_code == ErrorCode.NONE


def test_a_commit_with_a_condition_sees_the_commits_of_its_turn():
    with closing((played := Played(CommitShapes)).core):
        played.commit((Asked(), 1))
        step = 0x1010101
        asked = Asked()
        meets, fails = (asked._replace(expected=number * step) for number in (3, 9))
        played.commit((asked, 2), (asked, 3), (fails, 4), (meets, 5), (asked, 6))
        assert played.client.committed("g") == {("t", 1): 6 * step}


def test_commits_under_way_are_known_to_others():
    with closing((played := Played(CommitShapes)).core):
        played.commit((Asked(), 1))
        (hosted,) = played.core.runtime.shards.values()
        for groups in ({"g"}, {"g", "h"}):
            played.client.send(played.request(Asked(group=max(groups)), 9))
            assert hosted.under_way().groups == groups
        played.client.turn()
        assert len(played.client.take()) == 2


@pytest.mark.parametrize("limit", [150, 300, 1000])
def test_commits_that_are_too_large_for_one_batch_are_written_in_several(limit):
    shaped = Played(CommitShapes, message_max_bytes=limit)
    decoded = Played(Forgetful, message_max_bytes=limit)
    with closing(shaped.core), closing(decoded.core):
        for played in (shaped, decoded):
            for _ in range(3):
                played.commit(*[(Asked(), number) for number in range(20)])
        assert len(shaped.shapes) == 1 and shaped.bytes == decoded.bytes and shaped.log == decoded.log


@pytest.mark.parametrize("failing", [1, 2])
def test_commits_of_a_turn_that_the_log_refuses_are_answered_each_and_leave_nothing(failing):
    """With batches of one commit the second append fails: the first commit stays, all after it are undone."""
    with closing((played := Played(CommitShapes, FaultyFiles(), message_max_bytes=150)).core):
        played.commit((Asked(), 1))
        played.fail(failing)
        for number in (2, 3, 4):
            played.client.send(played.request(Asked(), number))
        played.client.turn()
        errors = [answer.topics[0].partitions[0].error_code for answer in played.client.take()]
        refused = ErrorCode.NOT_COORDINATOR
        assert errors == ([refused] * 3 if failing == 1 else [ErrorCode.NONE, refused, refused])
        assert played.table == [("g", ("t", 1, played.table[0][1][2]))]
        assert played.table[0][1][2].offset == failing * 0x1010101


def test_a_batch_of_more_records_than_tables_have_varints_for_is_that_of_decoded_commits():
    asked = Asked(topics=(("t", ALL), ("u", ALL)), metadata="{commit}{short}")
    plain = Asked(topics=(("t", ALL), ("u", ALL)))
    shaped, decoded = Played(CommitShapes), Played(Forgetful)
    with closing(shaped.core), closing(decoded.core):
        for played in (shaped, decoded):
            played.commit((asked, 10), (plain, 11))
            for number in range(12, 99):
                played.client.send(played.request(asked, number), played.request(plain, number))
            played.client.turn()
            played.client.take()
        assert shaped.log == decoded.log and shaped.table == decoded.table


def test_shapes_of_the_same_size_are_told_apart_by_their_gaps_and_the_oldest_of_them_goes():
    """The first partition and the size are the same, the others are not."""
    with closing((shaped := Played(CommitShapes)).core), closing((decoded := Played(Forgetful)).core):
        kinds = [Asked(topics=(("t", (0, last)),)) for last in range(1, 8)]
        for played in (shaped, decoded):
            for number in range(3):
                played.commit(*((asked, number) for asked in kinds))
        assert len(shaped.shapes) == commit_shapes._MOST_ALIKE
        assert shaped.bytes == decoded.bytes and shaped.log == decoded.log and shaped.table == decoded.table


def test_at_the_limit_all_shapes_are_forgotten():
    with closing((played := Played(CommitShapes)).core), patch.object(commit_shapes, "_MOST_PARTITIONS", 12):
        found = []
        for index in range(4):
            played.commit((Asked(topics=(("t", (index,)),)), 1))
            found.append(len(played.shapes))
        assert found == [1, 2, 1, 2]


@pytest.mark.parametrize("size", [4000, 1 << 20])
def test_long_metadata_counts(size):
    """A refused commit may have any, and all shapes together would take gigabytes."""
    with closing((played := Played(CommitShapes)).core), patch.object(commit_shapes, "_MOST_PARTITIONS", 256):
        found = []
        for number in range(9):
            played.commit((Asked(metadata="x" * (size + number)), 1))
            found.append(len(played.shapes))
        assert found == ([1, 2, 3, 4, 5, 1, 2, 3, 4] if size == 4000 else [0] * 9)


def test_shapes_that_do_not_come_again_are_learnt_seldom():
    """Metadata of another length each time: each shape would take as long to learn as a few requests to decode."""
    with (
        closing((played := Played(CommitShapes)).core),
        patch.multiple(commit_shapes, _AT_ONCE=1, _COST=4, _MOST_ALIKE=100),
    ):
        played.shapes._credit = 4
        found = []
        for number in range(13):
            played.commit((Asked(metadata="x" * number), 1))
            found.append(len(played.shapes))
        assert found == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4]


def test_a_bug_of_a_shape_fails_one_request_and_not_its_connection(caplog):
    with closing((played := Played(CommitShapes)).core):
        played.commit((Asked(), 1))
        with patch.object(commit_shapes, "commit_shaped", side_effect=KeyError("a bug")):
            played.client.send(played.request(Asked(), 2), played.request(Asked(topics=(("u", (0,)),)), 3))
            played.client.turn()
            codes = [answer.topics[0].partitions[0].error_code for answer in played.client.take()]
        assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
        assert "OffsetCommit v8 failed" in caplog.text
        assert played.client.committed("g") == {("t", 1): 0x1010101, ("u", 0): 3 * 0x1010101}
