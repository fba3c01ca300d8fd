"""A roll while the disk is slow: no request waits for it."""

from collections.abc import Callable

import pytest

from kafka_offsets.broker.api import topic_admin
from kafka_offsets.broker.turn.workers import sync_all
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import StorageError
from kafka_offsets.storage.log.log import Log
from tests.drivers.core import CoreClient, commit_request, make_core
from tests.storage.crash.crash_story import LateWork
from tests.storage.crash.faults import FaultyFiles

SYNC_MS = 1000
SETTINGS = {"offsets_topic_num_partitions": 1, "offsets_topic_segment_bytes": 600, "fsync_interval_ms": 5}


class SlowSyncs(FaultyFiles):
    """Each sync of a file or directory takes a second of a manual clock."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self.syncs = 0

    def check(self, operation: str, path: str) -> None:
        if operation.startswith("sync"):
            self.syncs += 1
            self._clock.advance(SYNC_MS)
        super().check(operation, path)


@pytest.mark.parametrize("fsync", ["commit", "interval", "never"])
def test_no_append_waits_for_a_sync_while_segments_roll(fsync: str) -> None:
    clock, late, late_syncs = ManualClock(), LateWork(), LateWork()
    files = SlowSyncs(clock)

    def sync_late(logs: list[Log], done: Callable[[dict[Log, StorageError]], None]) -> None:
        failed: dict[Log, StorageError] = {}
        late_syncs(lambda: failed.update(sync_all(logs)), lambda error: done(failed))

    core = make_core(files, sync_late, clock, fsync=fsync, **SETTINGS)
    core.workers.background = late
    topic_admin.create_topic(core.broker, "t", 1, {})
    client = CoreClient(core)
    longest = 0
    for number in range(40):
        synced, begin = files.syncs, clock.now().mono_ms
        client.send((commit_request(core, "g", {("t", 0): number}), 8))
        client.turn()
        longest = max(longest, clock.now().mono_ms - begin)
        if number:  # the first makes the offsets topic
            assert files.syncs == synced
        if number % 3 == 0:  # what waits beside the loop is done between requests
            clock.advance(10)
            core.run_due()
            late.finish()
            late_syncs.finish()
            core.end_turn()
        if number == 0:
            longest = 0
    assert len(core.directory.logs["__consumer_offsets", 0].segments) > 5
    assert files.syncs > 5, "the disk was slow"
    assert longest < 100
