"""A log that is one replica of several: batches of a leader, truncation, and what a crash leaves of both."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_offsets.storage.directory.data_directory import DataDirectory
from tests.storage.crash.crash_files import CrashPoint, RecordingFiles
from tests.storage.log.replica_story import (
    SMALL,
    Moment,
    Records,
    ReplicaStory,
    flat,
    last_of_keys,
    replicated_batch,
    stored,
)

STEPS = 40


@pytest.mark.slow
@given(st.integers(0, 2**32))
@example(1801)  # records before a segment are deleted while it is merged with its neighbours
def test_any_story_of_a_replica_leaves_the_records_that_the_model_has(seed: int) -> None:
    ReplicaStory(random.Random(seed)).run(STEPS)


def allowed(moment: Moment, at: int) -> list[Records]:
    """The batches that a start may find when the machine stops before call number `at` of the disk."""
    states = [moment.after] if at >= moment.last_call else [moment.before, moment.after]
    if moment.is_restart and at < moment.last_call:
        return [state[:size] for state in states for size in range(len(state) + 1)]
    return [state[:size] for state in states for size in range(moment.synced, len(state) + 1)]


def check_states(story: ReplicaStory, chance: random.Random, draws: int) -> int:
    """Start on states that a power failure may leave during a story; append, and start again."""
    tried = 0
    for moment in story.moments:
        for at in range(moment.first_call, moment.last_call + 1):
            point = CrashPoint(story.files.base, story.files.operations, at)
            for _ in range(draws):
                tried += 1
                files = RecordingFiles(point.tree(point.draw(chance)))
                where = f"before call {at} of {moment.first_call} to {moment.last_call}"
                # Of a log that begins again, records may be gone that those replace which are removed.
                is_partial = moment.is_restart and at < moment.last_call
                check_state(files, allowed(moment, at), where, is_partial=is_partial)
    return tried


def check_state(files: RecordingFiles, states: list[Records], where: str, *, is_partial: bool) -> None:
    directory = DataDirectory(files)
    if "t" not in directory.topics:
        return
    log = directory.open_log("t", 0, SMALL)
    found = stored(log)
    start = log.log_start_offset
    fitting = [
        state
        for state in states
        if (is_partial or last_of_keys(found) == last_of_keys(flat(state, start)))
        and set(found) <= set(flat(state, start))
    ]
    assert fitting, f"{where}: found {found}, one of {states}"
    base_offset, epoch = log.log_end_offset, max([log.leader_epoch, 0]) + 1
    log.append_replicated(replicated_batch(epoch, base_offset, [(b"new", b"new")]))
    log.sync()
    files.die()
    again = DataDirectory(files).open_log("t", 0, SMALL)
    assert [record for record in stored(again) if record.offset < base_offset] == found, where
    assert [record.value for record in stored(again)][-1] == b"new", where


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_crash_brings_truncated_records_back_or_takes_synced_ones(seed: int) -> None:
    story = ReplicaStory(random.Random(seed))
    story.run(STEPS)
    print(check_states(story, random.Random(seed), 2))
