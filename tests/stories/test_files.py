"""The files of stories: each error code that the package uses occurs in one, and a reader finds it."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from kafka_offsets.errors import ErrorCode
from tests.conftest import REPOSITORY

STORIES = Path(__file__).parent
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(STORIES.glob("*.txt"))}
LONGEST_FILE = 3000
ELSEWHERE = {
    "DUPLICATE_SEQUENCE_NUMBER": "by other brokers only, for a batch that is there: kafka_offsets/client/cluster.py",
    "INELIGIBLE_REPLICA": "between brokers: tests/replication/test_elections.py",
    "INVALID_UPDATE_VERSION": "between brokers: tests/replication/test_elections.py",
    "KAFKA_STORAGE_ERROR": "needs a disk that fails: tests/broker/core/test_disk_errors.py",
    "BROKER_NOT_AVAILABLE": "of our client, for an unknown broker: tests/client/test_transactions_command.py",
    "LISTENER_NOT_FOUND": "needs a broker without a listener of its name: tests/testing/test_cluster_listeners.py",
    "NEW_LEADER_ELECTED": "between brokers: tests/replication/test_elections.py",
    "NETWORK_EXCEPTION": "between brokers, of which one is cut off: tests/testing/test_cluster_failures.py",
    "NOT_CONTROLLER": "between brokers: tests/replication/test_elections.py",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "needs replicas that lag: tests/replication/test_leader.py",
    "OFFSET_NOT_AVAILABLE": "answered by other brokers only, tried again in kafka_offsets/spark/reader/live.py",
    "PRINCIPAL_DESERIALIZATION_FAILURE": "between brokers: tests/broker/nodes/test_secured_clusters.py",
    "REPLICA_NOT_AVAILABLE": "by other brokers only, tried again in kafka_offsets/client/consumer/positions.py",
    "THROTTLING_QUOTA_EXCEEDED": "its pause depends on the moment: tests/broker/access/test_throttling.py",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "offsets in ZooKeeper: tests/broker/offset_manager/test_zookeeper_offsets.py",
}
"""Codes without a story, and why."""


def used_codes(of: set[str]) -> dict[str, set[str]]:
    """The codes of these that are written as ErrorCode.NAME, with the files."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (REPOSITORY / "kafka_offsets").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        # To parse a file takes longer than all else.
        for node in (
            ast.walk(ast.parse(text)) if of.intersection(re.findall(r"ErrorCode\.(\w+)", text)) else ()
        ):
            match node:
                case ast.Attribute(value=ast.Name("ErrorCode"), attr=name):
                    found[name].add(path.relative_to(REPOSITORY).as_posix())
    return {name: files for name, files in found.items() if name in of}


def told_codes() -> set[str]:
    """The codes that are named in a story, in its answers."""
    found = set()
    for text in TEXTS.values():
        answers = re.sub("^#.*", "", text, flags=re.MULTILINE)
        found |= set(re.findall(r"\b[A-Z][A-Z_]+\b", answers))
    return found & ErrorCode.__members__.keys()


def test_each_error_code_of_the_package_occurs_in_a_story() -> None:
    told = told_codes() | ELSEWHERE.keys()
    assert used_codes(ErrorCode.__members__.keys() - told) == {}


@pytest.mark.slow
def test_the_codes_without_a_story_are_used_have_none_and_say_where_they_are_tested() -> None:
    assert used_codes(set(ELSEWHERE)).keys() == ELSEWHERE.keys()
    assert ELSEWHERE.keys() & told_codes() == set()
    named = [re.findall(r"(?:tests|kafka_offsets)/\S+", reason) for reason in ELSEWHERE.values()]
    assert all(names and (REPOSITORY / names[0]).exists() for names in named), named


def test_a_file_can_be_read_in_one_sitting() -> None:
    assert [name for name, text in TEXTS.items() if text.count("\n") > LONGEST_FILE] == []


@pytest.mark.parametrize(
    ("question", "file"),
    [
        ("commit from a fenced static member", "commits"),
        ("commit unknown member id simple group", "commits"),
        ("sync group preparing rebalance", "syncs"),
        ("heartbeat old generation", "heartbeats"),
        ("offset fetch deleted topic", "fetches"),
        ("txn offset commit old producer epoch", "transactional_offsets"),
    ],
)
def test_a_question_finds_the_title_of_its_story_by_its_words(question: str, file: str) -> None:
    found = {
        (name, title)
        for name, text in TEXTS.items()
        for title in re.findall(r"^# (.*?)(?: \(v.*\))?$", text, flags=re.MULTILINE)
        if all(word in title.lower() for word in question.split())
    }
    assert file in {name.removesuffix(".txt") for name, _ in found}
    assert len(found) <= 3, found
