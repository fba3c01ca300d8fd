"""The files of stories: each error code that the package uses occurs in one, and a reader finds it."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from kafka_offsets.errors import ErrorCode
from tests.conftest import REPOSITORY

STORIES = Path(__file__).parent
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(STORIES.glob("*.txt"))}
LONGEST_FILE = 3000
ELSEWHERE = {
    "FENCED_LEADER_EPOCH": "needs a restart, which raises the leader epoch: tests/broker/test_leader_epochs.py",
    "GROUP_AUTHORIZATION_FAILED": "share groups, which Kafka serves: tests/claims/test_kip_699.py",
    "KAFKA_STORAGE_ERROR": "needs a disk that fails: tests/broker/test_disk_errors.py",
    "LEADER_NOT_AVAILABLE": "a partition without a leader, in a cluster: tests/testing/test_cluster.py",
    "NOT_ENOUGH_REPLICAS": "a Produce while another transaction ends: tests/broker/test_transactions.py",
    "OFFSET_NOT_AVAILABLE": "answered by other brokers only, tried again in kafka_offsets/spark/reader/live.py",
}
"""Codes without a story, and why."""


def used_codes() -> dict[str, set[str]]:
    """The codes that are written as ErrorCode.NAME, with the files."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (REPOSITORY / "kafka_offsets").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ErrorCode":
                found[node.attr].add(path.relative_to(REPOSITORY).as_posix())
    return {name: files for name, files in found.items() if name in ErrorCode.__members__}


def told_codes() -> set[str]:
    """The codes that are named in a story, in its answers."""
    found = set()
    for text in TEXTS.values():
        answers = re.sub("^#.*", "", text, flags=re.MULTILINE)
        found |= set(re.findall(r"\b[A-Z][A-Z_]+\b", answers))
    return found & ErrorCode.__members__.keys()


def test_each_error_code_of_the_package_occurs_in_a_story() -> None:
    told = told_codes() | ELSEWHERE.keys()
    assert {name: files for name, files in used_codes().items() if name not in told} == {}


def test_the_codes_without_a_story_are_used_have_none_and_say_where_they_are_tested() -> None:
    assert used_codes().keys() >= ELSEWHERE.keys()
    assert ELSEWHERE.keys() & told_codes() == set()
    named = [re.findall(r"(?:tests|kafka_offsets)/\S+", reason) for reason in ELSEWHERE.values()]
    assert all(names and (REPOSITORY / names[0]).exists() for names in named), named


def test_a_file_can_be_read_in_one_sitting() -> None:
    assert [name for name, text in TEXTS.items() if text.count("\n") > LONGEST_FILE] == []


def test_titles_are_found_by_their_words() -> None:
    titles = [line for text in TEXTS.values() for line in text.splitlines() if line.startswith("# ")]
    assert any("commit from a fenced static member" in title for title in titles)
