"""kill -9 of a broker and of a program that copies in transactions: what is read as committed is there once.

The short form; KAFKA_OFFSETS_COPY_ROUNDS rounds (2 unless told otherwise). The full form: `make exactly-once`.
"""

import os
from pathlib import Path

import pytest

from tests.conftest import SEED
from tests.interop.broker_process import OVERRIDE
from tests.interop.copier import OUTSIDE
from tests.interop.exactly_once import run

pytestmark = pytest.mark.interop

ROUNDS = int(os.environ.get("KAFKA_OFFSETS_COPY_ROUNDS", "2"))
IS_LONG = ROUNDS > 2
planted = pytest.mark.skipif(OVERRIDE is not None, reason="the bugs are those of our own broker")


@pytest.mark.timeout(120 + 60 * ROUNDS)
@pytest.mark.shows("confluent-kafka", "transactional")
def test_a_topic_is_copied_exactly_once_through_kills(tmp_path: Path) -> None:
    counts = run(tmp_path / "data", "never", ROUNDS, SEED)
    print(f"seed {SEED}, {dict(counts)}")
    assert counts["transactions"]


def test_a_copier_that_commits_outside_its_transactions_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"partition \d, committed offset \d+: [1-9]\d* lost"):
        run(tmp_path / "data", "never", 1, SEED, OUTSIDE)


@planted
@pytest.mark.parametrize(
    ("bug", "found"),
    [
        ("no_marker", "[1-9][0-9]* lost"),
        ("repeated_batches", "0 lost .*, [1-9][0-9]* too many"),
        *([("wrong_marker", "0 lost .*, [1-9][0-9]* too many")] if IS_LONG else ()),
    ],
)
def test_a_broker_with_a_bug_is_found_out(tmp_path: Path, bug: str, found: str) -> None:
    with pytest.raises(AssertionError, match=r"partition \d, committed offset \d+: " + found):
        run(tmp_path / "data", "never", 1, SEED, bug)


@planted
@pytest.mark.skipif(not IS_LONG, reason="the long form alone")
def test_a_broker_whose_answers_are_lost_is_not(tmp_path: Path) -> None:
    assert run(tmp_path / "data", "never", 1, SEED, "lost_answers")["records"]
