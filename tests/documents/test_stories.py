"""tests/stories: which errors it has, and that it can be read."""

import re

from kafka_offsets.errors import ErrorCode
from tests.conftest import REPOSITORY

STORIES = REPOSITORY / "tests" / "stories"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(STORIES.glob("*.txt"))}
LONGEST_FILE = 3000

ELSEWHERE = {
    "COORDINATOR_LOAD_IN_PROGRESS": "while a log is loaded: tests/broker/test_loading.py",
    "COORDINATOR_NOT_AVAILABLE": "before the offsets topic exists, or by a fault: tests/interop/test_faults.py",
    "FENCED_LEADER_EPOCH": "needs an election of another leader: tests/testing/test_cluster.py",
    "GROUP_AUTHORIZATION_FAILED": "share groups, which Kafka serves: tests/claims/test_kip_699.py",
    "INVALID_TIMESTAMP": "depends on the time of day: tests/broker/test_produce.py",
    "KAFKA_STORAGE_ERROR": "a disk that fails: tests/broker/test_disk_errors.py",
    "LEADER_NOT_AVAILABLE": "a partition without a leader: tests/testing/test_cluster.py",
    "NOT_ENOUGH_REPLICAS": "a coordinator of transactions that does not answer: tests/broker/test_transactions.py",
    "OFFSET_NOT_AVAILABLE": "only another broker answers it; our client tries again: kafka_offsets/spark/live.py",
    "RECORD_LIST_TOO_LARGE": "a batch larger than segment.bytes: tests/broker/test_produce.py",
}
"""Errors that the package names and that are in no story, with the reason."""


def test_every_error_that_the_package_names_is_in_a_story() -> None:
    named = {
        name
        for path in (REPOSITORY / "kafka_offsets").rglob("*.py")
        for name in re.findall(r"\bErrorCode\.([A-Z][A-Z_]+)\b", path.read_text(encoding="utf-8"))
    }
    told = {name for text in TEXTS.values() for name in re.findall(r"\b[A-Z][A-Z_]+\b", text)}
    assert named <= set(ErrorCode.__members__)
    assert sorted(named - told) == sorted(ELSEWHERE)


def test_a_file_can_be_read_in_one_sitting() -> None:
    assert [name for name, text in TEXTS.items() if text.count("\n") > LONGEST_FILE] == []


def test_titles_are_found_by_their_words() -> None:
    titles = [line for text in TEXTS.values() for line in text.splitlines() if line.startswith("# ")]
    assert any("commit from a fenced static member" in title for title in titles)
