"""kill -9 of a broker and of a program that copies in transactions: what is read as committed is there once.

The short form; KAFKA_OFFSETS_COPY_ROUNDS rounds (2 unless told otherwise). The full form: `make exactly-once`.
"""

import os
from pathlib import Path

import pytest

from tests.conftest import SEED
from tests.interop.copier import OUTSIDE
from tests.interop.exactly_once import run

pytestmark = pytest.mark.interop

ROUNDS = int(os.environ.get("KAFKA_OFFSETS_COPY_ROUNDS", "2"))


@pytest.mark.timeout(120 + 60 * ROUNDS)
@pytest.mark.shows("confluent-kafka", "transactional")
def test_a_topic_is_copied_exactly_once_through_kills(tmp_path: Path) -> None:
    counts = run(tmp_path / "data", "never", ROUNDS, SEED)
    print(f"seed {SEED}, {dict(counts)}")
    assert counts["transactions"]


def test_a_copier_that_commits_outside_its_transactions_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"partition \d, committed offset \d+: [1-9]\d* lost"):
        run(tmp_path / "data", "never", 1, SEED, OUTSIDE)
