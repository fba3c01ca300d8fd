"""No state that a crash can leave is refused, loses what was promised, or holds what was never there.

The short form; the full form has a million states: `make crash-states`. A failure names its state, which
`python -m tests.storage.crash.crash_states NAME` makes again.
"""

import random
from collections.abc import Callable

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.protocol.records import encode_batch, read_records
from kafka_offsets.storage.directory.data_directory import DataDirectory
from kafka_offsets.storage.log.log import Log, LogConfig
from kafka_offsets.storage.segments.segment import DamagedBatchError, Recovery, Segment
from tests.conftest import SEED
from tests.drivers.core import CoreClient, commit_request, make_core
from tests.drivers.raw_files import flip
from tests.storage.batches import batch, content
from tests.storage.crash.crash_files import (
    LOST,
    WHOLE,
    CrashPoint,
    Cut,
    Fate,
    Operation,
    RecordingFile,
    RecordingFiles,
    Rename,
    Sync,
    Truncate,
    Unlink,
    Write,
)
from tests.storage.crash.crash_states import POLICIES, STEPS, Point, StateName, points_of, try_points
from tests.storage.crash.crash_story import LateSync, Story, ViolationError, ids_from, tell

SHORT_STATES = 250
SHORT_DRAWS = 6


def short_form(policy: str, seed: int, *, garbage: bool = False) -> None:
    story = tell(policy, seed, STEPS)
    names = points_of(story, policy, seed)
    random.Random(seed).shuffle(names)
    print(try_points(story, names, SHORT_DRAWS, garbage=garbage, most=SHORT_STATES))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_a_broker_keeps_its_promises_in_the_states_that_a_crash_leaves(policy: str) -> None:
    short_form(policy, SEED)


@pytest.mark.slow
def test_garbage_where_nothing_was_synced_is_refused_or_cut_and_never_served() -> None:
    short_form("commit", SEED, garbage=True)


def test_a_state_has_the_same_bytes_whenever_it_is_made() -> None:
    name = StateName("commit", 3, 24, 60, "draw", 2)
    one, another = (Point(tell(*name[:3]), name).tree(name).files() for _ in range(2))
    assert one == another


def merged_segments(calls: list[Operation]) -> int:
    """Return how many segments of a story a cleaned one has replaced besides the one of its own name."""
    merged, directory = 0, -1
    for call in calls:
        if isinstance(call, Rename) and call.target.endswith(".log.swap"):
            directory = call.directory
        elif isinstance(call, Rename) and call.source.endswith(".log.swap"):
            directory = -1
        elif isinstance(call, Unlink) and call.directory == directory and call.name.endswith(".log"):
            merged += 1
    return merged


def test_a_story_merges_segments_although_the_first_commits_wait_behind_a_produce() -> None:
    # One seed in sixty looked for the offsets topic before a commit had made it.
    chance = random.Random(1)
    with ids_from(chance):
        story = Story(RecordingFiles(), "commit", chance)
        for step in (Story.create_topic, Story.produce, Story.merge_segments):
            step(story)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_cleaner_of_the_stories_makes_one_segment_of_several(policy: str) -> None:
    # It used to clean each segment alone: no state showed what a crash leaves of segments that are removed.
    assert sum(merged_segments(tell(policy, seed, STEPS).files.operations) for seed in range(12)) > 5


# -- what it has found


def log_with_a_hole(fates: Callable[[list[Operation]], list[Fate]]) -> tuple[RecordingFiles, list[int]]:
    """A log of batches that were not synced, after a power failure; and where its batches begin."""
    files = RecordingFiles()
    log = Log.open(files, "t-0", LogConfig())
    log.sync()
    positions = []
    for size in (100, 700, 100, 900, 100):
        positions.append(log.size)
        log.append(batch([b"." * size]))
    point = CrashPoint(files.base, files.operations, len(files.operations))
    return RecordingFiles(point.tree(fates(point.outstanding))), positions


@pytest.mark.parametrize(("lost", "kept"), [(1, 1), (2, 2), (3, 3)])
def test_a_sector_that_was_never_written_ends_the_log_where_whole_batches_follow(
    lost: int, kept: int
) -> None:
    # It was taken for damage: whatever was not synced at a power failure could make the start impossible.
    files, positions = log_with_a_hole(
        lambda calls: [LOST if call is writes(calls)[lost] else WHOLE for call in calls]
    )
    log = Log.open(files, "t-0", LogConfig())
    assert log.recovery is not None and log.recovery.position == positions[kept]
    assert len(content(log)) == kept


def test_a_whole_batch_after_damage_without_a_hole_is_still_no_torn_tail() -> None:
    files, positions = log_with_a_hole(lambda calls: [WHOLE] * len(calls))
    path = "t-0/00000000000000000000.log"
    flip(files, path, positions[1] + 100)
    with pytest.raises(DamagedBatchError, match=f"follows at byte {positions[2]}"):
        Log.open(files, "t-0", LogConfig())


def test_what_a_torn_tail_held_does_not_come_back_after_new_batches() -> None:
    # The cut was left to the system: after a second failure, old batches could follow the new ones and win.
    files, _ = log_with_a_hole(lambda calls: [LOST if call is writes(calls)[3] else WHOLE for call in calls])
    before = len(files.operations)
    assert Log.open(files, "t-0", LogConfig()).log_end_offset == 3
    calls = [type(call) for call in files.operations[before:]]
    assert calls[calls.index(Truncate) + 1] is Sync


@pytest.mark.parametrize("fsync", ["commit", "interval"])
def test_a_commit_that_is_served_after_a_death_of_the_process_is_on_the_disk(fsync: str) -> None:
    # The dead process had written it and not synced it. With fsync=commit nobody had been told of it but by a fetch;
    # with fsync=interval it was not synced at the end of the next interval either, but with the next commit only.
    late = LateSync()
    files = RecordingFiles()
    client = CoreClient(make_core(files, sync=late, fsync=fsync, offsets_topic_num_partitions=1))
    topic_admin.create_topic(client.core.broker, "t", 1, {})
    client.send((commit_request(client.core, "g", {("t", 0): 42}), 8))
    client.turn()
    assert len(client.take()) == (fsync == "interval"), "with fsync=commit the answer waits for the disk"
    files.die()
    served = make_core(files, fsync=fsync).shards.committed("g")
    assert served["t", 0].offset == 42
    point = CrashPoint(files.base, files.operations, len(files.operations))
    lost = RecordingFiles(point.tree([LOST] * len(point.outstanding)))
    assert make_core(lost, fsync=fsync).shards.committed("g") == served


def test_a_deleted_topic_is_removed_although_its_id_is_torn() -> None:
    files = RecordingFiles()
    data = DataDirectory(files)
    data.create_topic("t", 1)
    log = data.open_log("t", 0, LogConfig())
    log.sync()
    # The catalogue is on the disk: written, synced, renamed, directory synced.
    before_rename = len(files.operations) + 4
    data.delete_topic("t")
    point = CrashPoint(files.base, files.operations, before_rename + 1)
    for size in range(44):
        fates = [Cut(size) if is_of(call, b"version: 0") else WHOLE for call in point.outstanding]
        left = RecordingFiles(point.tree(fates))
        assert DataDirectory(left).topics == {}
        assert "t-0" not in left.list_directory("")


def writes(calls: list[Operation]) -> list[Write]:
    return [call for call in calls if isinstance(call, Write) and b"." * 100 in call.data]


def is_of(call: Operation, content: bytes) -> bool:
    return isinstance(call, Write) and call.data.startswith(content)


# -- the harness finds what it should


def finds_a_violation(policy: str) -> None:
    def search() -> None:
        for seed in range(1, 20):
            short_form(policy, seed)

    with pytest.raises(ViolationError, match=f"crash state {policy}/"):
        search()


def test_it_finds_a_sync_that_is_answered_before_it_has_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordingFile, "sync", lambda self: None)
    finds_a_violation("commit")


def test_it_finds_names_that_are_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordingFiles, "sync_directory", lambda self, path: None)
    finds_a_violation("commit")


@pytest.mark.slow
def test_it_finds_appends_after_a_torn_tail_that_was_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    # What kfake does: the loader stops at the torn entry, and the next ones are written after it.
    def leave_it(self: Segment, file: object, damage: DamagedBatchError, *_: object) -> Recovery:
        return Recovery(self.path, damage.damaged_at, 0, damage.message)

    monkeypatch.setattr(Segment, "_cut_torn_tail", leave_it)
    finds_a_violation("commit")


def test_it_finds_a_commit_that_is_written_in_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_halves(self: Log, batch: bytes, last_offset: int, max_timestamp: int) -> None:
        for record in read_records(batch):
            self.append(encode_batch([(record.key, record.value, (), record.timestamp)], base_sequence=0))

    monkeypatch.setattr(Log, "append_batch", in_halves)
    finds_a_violation("never")
