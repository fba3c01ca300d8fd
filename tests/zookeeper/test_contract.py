"""The operations of ZooKeeper that are used: the client in memory answers as a real server does."""

import itertools
import os

import pytest

from kafka_offsets.zookeeper.requests import (
    ANY_VERSION,
    Check,
    Children,
    Create,
    Delete,
    Get,
    Multi,
    Problem,
    SetData,
    Sync,
    Znode,
)
from tests.zookeeper.conftest import Calls

_numbers = itertools.count(1)


@pytest.fixture
def top(zookeeper: Calls) -> str:
    """A znode of this test alone."""
    path = f"/t{os.getpid()}-{next(_numbers)}"
    assert zookeeper.ask(Multi((Create(path, b""),))) == [(0,)]
    return path


def test_what_is_created_is_read_and_listed(zookeeper: Calls, top: str) -> None:
    created, got, listed, nothing = zookeeper.ask(
        Multi((Create(f"{top}/a", b"12"), Create(f"{top}/b", b""))), Get(f"{top}/a"), Children(top), Sync(top)
    )
    assert (created, nothing) == ((0, 0), None)
    assert isinstance(got, Znode) and (got.data, got.version) == (b"12", 0)
    assert isinstance(listed, tuple) and set(listed) == {"a", "b"}


def test_an_empty_znode_has_empty_data(zookeeper: Calls, top: str) -> None:
    (got,) = zookeeper.ask(Get(top))
    assert isinstance(got, Znode) and got.data == b""
    assert zookeeper.ask(Children(top)) == [()]


def test_what_does_not_exist_is_a_problem_of_its_request_alone(zookeeper: Calls, top: str) -> None:
    missing, listed, got = zookeeper.ask(Get(f"{top}/no"), Children(f"{top}/no"), Get(top))
    assert (missing, listed) == (Problem.NO_NODE, Problem.NO_NODE)
    assert isinstance(got, Znode)


def test_a_change_names_the_version_that_it_replaces(zookeeper: Calls, top: str) -> None:
    path = f"{top}/a"
    zookeeper.ask(Multi((Create(path, b"1"),)))
    assert zookeeper.ask(Multi((SetData(path, b"2", 0),))) == [(1,)]
    assert zookeeper.ask(Multi((SetData(path, b"3", 0),))) == [Problem.BAD_VERSION]
    assert zookeeper.ask(Multi((Delete(path, 0),))) == [Problem.BAD_VERSION]
    assert zookeeper.ask(Multi((SetData(path, b"4", ANY_VERSION),))) == [(2,)]
    assert zookeeper.ask(Multi((Delete(path, 2),))) == [(0,)]
    assert zookeeper.ask(Get(path)) == [Problem.NO_NODE]


def test_the_changes_of_one_multi_are_made_together_or_not_at_all(zookeeper: Calls, top: str) -> None:
    (problem,) = zookeeper.ask(Multi((Create(f"{top}/a", b"1"), SetData(f"{top}/no", b"2", 0))))
    assert problem is Problem.NO_NODE
    assert zookeeper.ask(Children(top)) == [()]
    mixed = Multi((Create(f"{top}/a", b"1"), SetData(top, b"2", 0), Create(f"{top}/a/b", b"3")))
    assert zookeeper.ask(mixed) == [(0, 1, 0)]


def test_a_znode_is_created_once_and_after_its_parent(zookeeper: Calls, top: str) -> None:
    assert zookeeper.ask(Multi((Create(top, b""),))) == [Problem.NODE_EXISTS]
    assert zookeeper.ask(Multi((Create(f"{top}/no/child", b""),))) == [Problem.NO_NODE]


def test_a_znode_with_children_is_not_deleted(zookeeper: Calls, top: str) -> None:
    zookeeper.ask(Multi((Create(f"{top}/a", b""),)))
    assert zookeeper.ask(Multi((Delete(top, ANY_VERSION),))) == [Problem.NOT_EMPTY]
    assert zookeeper.ask(Multi((Delete(f"{top}/a", 0), Delete(top, 0)))) == [(0, 0)]


def test_a_znode_that_is_created_again_begins_with_version_0(zookeeper: Calls, top: str) -> None:
    path = f"{top}/a"
    zookeeper.ask(Multi((Create(path, b"1"),)), Multi((SetData(path, b"2", 0),)), Multi((Delete(path, 1),)))
    assert zookeeper.ask(Multi((Create(path, b"3"),))) == [(0,)]
    assert zookeeper.ask(Multi((SetData(path, b"4", 0),))) == [(1,)]


def test_a_checked_version_lets_all_changes_pass_or_none(zookeeper: Calls, top: str) -> None:
    zookeeper.ask(Multi((Create(f"{top}/a", b""), Create(f"{top}/b", b""))))
    assert zookeeper.ask(Multi((Check(f"{top}/a", 0), SetData(f"{top}/b", b"1", 0)))) == [(0, 1)]
    wrong = Multi((Check(f"{top}/a", 1), SetData(f"{top}/b", b"2", 1)))
    gone = Multi((SetData(f"{top}/b", b"2", 1), Check(f"{top}/c", 0)))
    assert zookeeper.ask(wrong, gone) == [Problem.BAD_VERSION, Problem.NO_NODE]
    (got,) = zookeeper.ask(Get(f"{top}/b"))
    assert isinstance(got, Znode) and got.data == b"1"


def test_an_ephemeral_znode_names_its_session(zookeeper: Calls, top: str) -> None:
    zookeeper.ask(Multi((Create(f"{top}/a", b"", is_ephemeral=True), Create(f"{top}/b", b""))))
    mine, nobodys = zookeeper.ask(Get(f"{top}/a"), Get(f"{top}/b"))
    assert isinstance(mine, Znode) and mine.owner == zookeeper.client.session_id != 0
    assert isinstance(nobodys, Znode) and nobodys.owner == 0


def test_a_watch_is_called_once_after_a_change(zookeeper: Calls, top: str) -> None:
    called: list[str] = []
    path = f"{top}/a"
    zookeeper.ask(Multi((Create(path, b"1"),)))
    zookeeper.ask(Get(path, lambda: called.append("data")), Children(top, lambda: called.append("children")))
    zookeeper.ask(Multi((SetData(path, b"2", 0),)))
    zookeeper.wait(lambda: called == ["data"])
    zookeeper.ask(Multi((SetData(path, b"3", 1),)))
    zookeeper.ask(Get(path, lambda: called.append("again")))
    zookeeper.ask(Multi((Delete(path, 2),)))
    zookeeper.wait(lambda: sorted(called) == ["again", "children", "data"])


def test_what_does_not_exist_is_not_watched(zookeeper: Calls, top: str) -> None:
    called: list[str] = []
    path = f"{top}/a"
    zookeeper.ask(Get(path, lambda: called.append("data")), Children(path, lambda: called.append("children")))
    zookeeper.ask(Multi((Create(path, b"1"),)), Multi((SetData(path, b"2", 0),)), Sync(path))
    assert called == []
