"""kill -9 while eight clients commit: nothing acknowledged is lost, nothing is invented, no commit is found in part.

The short form; KAFKA_OFFSETS_KILL_ROUNDS rounds (5 unless told otherwise). The full form: `make kill-loop`.
"""

import os
from pathlib import Path

import pytest

from tests.conftest import SEED
from tests.interop.broker_process import OVERRIDE
from tests.interop.kill_loop import POLICIES, run

pytestmark = pytest.mark.interop

ROUNDS = int(os.environ.get("KAFKA_OFFSETS_KILL_ROUNDS", "5"))


@pytest.mark.timeout(120 + 30 * ROUNDS)
@pytest.mark.parametrize("fsync", POLICIES)
def test_no_acknowledged_commit_is_lost_when_the_broker_is_killed(tmp_path: Path, fsync: str) -> None:
    acknowledged = run(tmp_path / "data", fsync, ROUNDS, SEED)
    print(f"seed {SEED}, {ROUNDS} rounds, {acknowledged} commits acknowledged")
    assert acknowledged


@pytest.mark.timeout(120 + 30 * ROUNDS)
@pytest.mark.skipif(bool(OVERRIDE), reason="compaction is forced from within our broker")
def test_what_is_served_is_what_replays_find_before_and_after_compaction(tmp_path: Path) -> None:
    acknowledged = run(tmp_path / "data", POLICIES[SEED % len(POLICIES)], 2, SEED, compacting=True)
    print(f"seed {SEED}, {acknowledged} commits acknowledged")
    assert acknowledged
