"""offset.storage=zookeeper: a ZooKeeper that cannot be reached, and answers that are lost."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.zookeeper.requests import Multi, Request, SessionState
from tests.broker.offset_manager.zookeeper_requests import (
    LOADING,
    NOT_AVAILABLE,
    commit_if,
    delete_group,
    delete_offset,
    fetch_error,
    offset_fetch,
)
from tests.drivers.core import CoreClient, commit_request
from tests.drivers.zookeeper import MemoryZooKeeper
from tests.drivers.zookeeper_core import TIMEOUT_MS, ZooKeeperCore

# --- without ZooKeeper


def test_requests_wait_for_the_connection_and_are_answered_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    broker.client.disconnect()
    client.send((commit_request(broker.core, "g", {("t", 0): 2}, 8), 8))
    fetching = CoreClient(broker.core)
    fetching.send((messages.OffsetFetchRequest("g", None), 7))
    client.turn()
    assert (client.take(), fetching.take()) == ([], [])
    broker.advance(TIMEOUT_MS - 1)
    broker.client.connect()
    client.turn()
    assert len(client.take()) == 1 and len(fetching.take()) == 1
    assert broker.server.texts() == {"g/offsets/t/0": "2"}
    lines = [record.message for record in caplog.records if "ZooKeeper" in record.message]
    assert len(lines) == 2 and "is lost" in lines[0] and "again, after 5999 ms" in lines[1]


def test_without_a_connection_for_long_everything_is_refused_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    broker.client.disconnect()
    client.send((commit_request(broker.core, "g", {("t", 0): 2}, 8), 8))
    broker.advance(TIMEOUT_MS)
    (answer,) = client.take()
    assert answer.topics[0].partitions[0].error_code == NOT_AVAILABLE
    assert client.commit("g", {("t", 0): 3}) == {("t", 0): NOT_AVAILABLE}
    assert fetch_error(client, "g") == LOADING
    assert offset_fetch(client, "g", [0]) == [(-1, LOADING)]
    assert commit_if(client, "g", 1, 2) == NOT_AVAILABLE
    assert delete_group(client, "g") == NOT_AVAILABLE
    assert delete_offset(client, "g", 0)[0] == NOT_AVAILABLE
    assert len([r for r in caplog.records if "no connection to ZooKeeper" in r.message]) == 1
    broker.client.connect()
    assert client.committed("g") == {("t", 0): 1}
    assert client.commit("g", {("t", 0): 4}) == {("t", 0): 0}


def test_a_broker_starts_without_zookeeper(caplog: pytest.LogCaptureFixture) -> None:
    broker = ZooKeeperCore(client=MemoryZooKeeper(starts_connected=False))
    broker.server = broker.client.server
    client = CoreClient(broker.core)
    client.send((commit_request(broker.core, "g", {("t", 0): 2}, 8), 8))
    broker.advance(TIMEOUT_MS)
    assert len(client.take()) == 1
    broker.client.connect()
    assert client.commit("g", {("t", 0): 4}) == {("t", 0): 0}
    assert broker.server.texts() == {"g/offsets/t/0": "4"}


def test_groups_work_without_zookeeper() -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    broker.client.disconnect()
    broker.advance(TIMEOUT_MS)
    request = messages.JoinGroupRequest
    protocols = [request.Protocol("range", b"")]
    join = request("g", 10_000, 10_000, "", None, "consumer", protocols)
    answer = client.call(join, 3)
    assert answer.error_code == 0


def test_an_expired_session_is_reported_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    broker.client.disconnect(SessionState.EXPIRED)
    client.send((commit_request(broker.core, "g", {("t", 0): 2}, 8), 8))
    broker.client.connect()
    client.turn()
    assert client.take()[0].topics[0].partitions[0].error_code == 0
    assert "has expired" in caplog.text


# --- lost answers


@pytest.mark.parametrize("fate", ["applied", "dropped"])
def test_a_commit_whose_answer_is_lost_is_read_back(fate: str) -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    broker.client.lose_next.append(fate)
    assert client.commit("g", {("t", 0): 2, ("t", 1): 2}) == {("t", 0): 0, ("t", 1): 0}
    assert broker.server.texts() == {"g/offsets/t/0": "2", "g/offsets/t/1": "2"}
    assert broker.server.nodes["/consumers/g/offsets/t/0"].version == 1, "it is written once more"


@pytest.mark.parametrize("fate", ["applied", "dropped"])
def test_a_conditional_commit_whose_answer_is_lost_is_not_confirmed(fate: str) -> None:
    """Another client may have written the same offset, and only one of two may succeed."""
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    broker.client.lose_next.append(fate)
    assert commit_if(client, "g", 1, 2) == NOT_AVAILABLE
    assert client.committed("g") == {("t", 0): 2 if fate == "applied" else 1}


@pytest.mark.parametrize("fate", ["applied", "dropped"])
def test_a_deletion_whose_answer_is_lost_is_not_confirmed(fate: str) -> None:
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    broker.client.lose_next.append(fate)
    assert delete_group(client, "g") == NOT_AVAILABLE
    assert delete_group(client, "g") in (0, ErrorCode.GROUP_ID_NOT_FOUND)
    assert "/consumers/g" not in broker.server.nodes


def test_a_late_write_replaces_nothing() -> None:
    """The first write is lost and arrives after the second: it names a version that is no longer there."""
    broker = ZooKeeperCore()
    client = CoreClient(broker.core)
    client.commit("g", {("t", 0): 1})
    late: list[Request] = []

    def keep(request: Request) -> None:
        if isinstance(request, Multi) and not late:
            late.append(request)
            broker.client.lose_next.append("dropped")

    broker.client.before = keep
    client.commit("g", {("t", 0): 2})
    client.commit("g", {("t", 0): 3})
    broker.server.apply(late[0])
    assert broker.server.texts() == {"g/offsets/t/0": "3"}


def failing_at(broker: ZooKeeperCore, number: int) -> Callable[[], bool]:
    """Lose the connection at the n-th request; return whether that request came."""
    count = 0

    def before(request: Request) -> None:
        nonlocal count
        count += 1
        if count == number:
            broker.client.lose_next.append("applied" if number % 2 else "dropped")
            if not isinstance(request, Multi):
                broker.client.disconnect()
                broker.client.connect()

    broker.client.before = before
    return lambda: count >= number


@pytest.mark.parametrize("what", ["commit", "condition", "delete", "delete group"])
def test_a_fault_at_any_request_loses_nothing_that_was_confirmed(what: str) -> None:
    acts: dict[str, Callable[[CoreClient], Any]] = {
        "commit": lambda client: client.commit("g", {("t", 0): 9, ("t", 5): 9})[("t", 5)],
        "condition": lambda client: commit_if(client, "g", 1, 9),
        "delete": lambda client: delete_offset(client, "g", 0)[0],
        "delete group": lambda client: delete_group(client, "g"),
    }
    after = {
        "commit": {"g/offsets/t/0": "9", "g/offsets/t/1": "1", "g/offsets/t/5": "9"},
        "condition": {"g/offsets/t/0": "9", "g/offsets/t/1": "1"},
        "delete": {"g/offsets/t/1": "1"},
        "delete group": {},
    }
    before = {"g/offsets/t/0": "1", "g/offsets/t/1": "1"}
    for number in range(1, 40):
        broker = ZooKeeperCore()
        client = CoreClient(broker.core)
        client.commit("g", {("t", 0): 1, ("t", 1): 1})
        came = failing_at(broker, number)
        code = acts[what](client)
        if not came():
            return
        broker.client.before = lambda request: None
        broker.client.lose_next.clear()
        if code == 0:
            assert broker.server.texts() == after[what], number
        else:
            assert code == NOT_AVAILABLE, number
            assert broker.server.texts() in (before, after[what]), number
        assert client.committed("g") == {
            ("t", int(path[-1])): int(text) for path, text in broker.server.texts().items()
        }
    pytest.fail("the requests do not end")
