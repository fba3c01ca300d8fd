"""zookeeper.group.metadata.enable: groups as JSON in ZooKeeper, for the next coordinator."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_offsets.broker.config.keys import Config
from kafka_offsets.broker.offset_manager.group_metadata import from_json, to_json
from kafka_offsets.errors import ConfigError, ErrorCode
from kafka_offsets.protocol import messages
from kafka_offsets.storage.files.files import MemoryFiles
from kafka_offsets.zookeeper.znodes import UnreadableZnodeError
from tests.drivers.core import CoreClient
from tests.drivers.members import GroupMember, assignment, stable, turn
from tests.drivers.zookeeper import MemoryServer
from tests.drivers.zookeeper_core import TIMEOUT_MS, ZooKeeperCore

PATH = "/consumers/g/metadata"


def started(server: MemoryServer | None = None, **config: Any) -> ZooKeeperCore:
    return ZooKeeperCore(server, **{"zookeeper_group_metadata_enable": True} | config)


def published(broker: ZooKeeperCore) -> Any:
    node = broker.server.nodes.get(PATH)
    return None if node is None else json.loads(node.data)


def successor(broker: ZooKeeperCore, **config: Any) -> ZooKeeperCore:
    """Return another broker that has nothing but ZooKeeper."""
    return started(broker.server, clock=broker.clock, **config)


def move(member: GroupMember, broker: ZooKeeperCore) -> None:
    """Let a member find its new coordinator."""
    member.client = CoreClient(broker.core)


def test_a_group_is_published_when_its_rebalance_ends() -> None:
    broker = started()
    first, second = stable(broker.core, [assignment({"t": [0, 1]}), assignment({"t": [2]})])
    found = published(broker)
    assert (found["version"], found["protocol_type"], found["protocol"]) == (1, "consumer", "range")
    assert (found["generation"], found["leader"]) == (first.generation, first.member_id)
    assert found["topics"] == ["t"]
    owned = {member["member_id"]: member["owned"] for member in found["members"]}
    assert owned == {first.member_id: {"t": [0, 1]}, second.member_id: {"t": [2]}}
    (member, _) = found["members"]
    assert (member["session_timeout_ms"], member["rebalance_timeout_ms"]) == (10_000, 60_000)
    assert (member["client_id"], member["client_host"]) == ("client", "/127.0.0.1")


def test_it_is_published_again_after_the_next_rebalance() -> None:
    broker = started()
    (member,) = stable(broker.core, [assignment({"t": [0]})])
    before = published(broker)["generation"]
    member.send_join()
    turn(broker.core)
    member.take_join()
    member.send_sync({member.member_id: assignment({"t": [3]})})
    turn(broker.core)
    assert published(broker)["generation"] == before + 1
    assert published(broker)["members"][0]["owned"] == {"t": [3]}


def test_without_the_option_nothing_is_published() -> None:
    broker = started(zookeeper_group_metadata_enable=False)
    stable(broker.core, [b""])
    assert published(broker) is None


@pytest.mark.parametrize("asks", ["heartbeat", "commit"])
def test_the_next_coordinator_continues_without_a_rebalance(asks: str) -> None:
    broker = started()
    members = stable(broker.core, [assignment({"t": [0, 1]}), assignment({"t": [2]})])
    members[0].commit({("t", 0): 7})
    later = successor(broker)
    for member in members:
        move(member, later)
        if asks == "commit":
            assert member.commit({("t", 0): 8}) == {("t", 0): 0}
        assert member.heartbeat() == ErrorCode.NONE
    turn(later.core)
    files = later.core.directory.files
    later.core.close()
    again = started(later.server, files=files, clock=broker.clock)
    move(members[0], again)
    assert members[0].heartbeat() == ErrorCode.NONE


def test_a_restored_member_that_stays_silent_is_removed() -> None:
    broker = started()
    first, second = stable(broker.core, [assignment({"t": [0]}), assignment({"t": [2]})])
    later = successor(broker)
    move(first, later)
    assert first.heartbeat() == ErrorCode.NONE
    later.advance(9000)
    assert first.heartbeat() == ErrorCode.NONE
    later.advance(2000)
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    move(second, later)
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_request_before_the_metadata_is_read_waits_for_it() -> None:
    broker = started()
    (member,) = stable(broker.core, [assignment({"t": [0]})])
    later = successor(broker)
    later.core.close()
    again = ZooKeeperCore(broker.server, clock=broker.clock, zookeeper_group_metadata_enable=True)
    again.client.is_held = True
    move(member, again)
    request = messages.HeartbeatRequest("g", member.generation, member.member_id)
    member.client.send((request, 3))
    again.core.end_turn()
    again.client.release()
    again.core.end_turn()
    (answer,) = member.client.take()
    assert answer.error_code == ErrorCode.NONE


def test_what_the_log_knows_better_is_not_replaced() -> None:
    files = MemoryFiles()
    broker = started(files=files)
    (member,) = stable(broker.core, [assignment({"t": [0]})])
    old = broker.server.nodes[PATH]
    member.send_join()
    turn(broker.core)
    member.take_join()
    member.send_sync({member.member_id: assignment({"t": [3]})})
    turn(broker.core)
    broker.core.close()
    broker.server.nodes[PATH] = old
    again = started(broker.server, files=files, clock=broker.clock)
    move(member, again)
    assert member.heartbeat() == ErrorCode.NONE


def test_an_earlier_coordinator_does_not_overwrite_a_later_one() -> None:
    broker = started()
    (member,) = stable(broker.core, [assignment({"t": [0]})])
    stored = published(broker)
    later = broker.server.nodes[PATH].data.replace(
        b'"generation":%d' % stored["generation"], b'"generation":%d' % (stored["generation"] + 5)
    )
    broker.server.put(PATH, later)
    member.send_join()
    turn(broker.core)
    member.take_join()
    member.send_sync({member.member_id: assignment({"t": [3]})})
    turn(broker.core)
    assert published(broker)["generation"] == stored["generation"] + 5


def test_it_is_published_when_zookeeper_is_there_again() -> None:
    broker = started()
    (member,) = stable(broker.core, [assignment({"t": [0]})])
    before = published(broker)["generation"]
    broker.client.disconnect()
    broker.advance(TIMEOUT_MS)
    member.send_join()
    turn(broker.core)
    member.take_join()
    member.send_sync({member.member_id: assignment({"t": [3]})})
    turn(broker.core)
    assert published(broker)["generation"] == before
    broker.client.connect()
    assert published(broker)["generation"] == before + 1


def test_a_deleted_group_is_not_published_any_more() -> None:
    broker = started()
    (member,) = stable(broker.core, [assignment({"t": [0]})])
    member.commit({("t", 0): 7})
    leaving = messages.LeaveGroupRequest("g", member.member_id)
    member.client.call(leaving, 2)
    turn(broker.core)
    assert published(broker)["members"] == []
    answer = member.client.call(messages.DeleteGroupsRequest(["g"]), 2)
    assert answer.results[0].error_code == 0
    turn(broker.core)
    assert "/consumers/g" not in broker.server.nodes


@pytest.mark.parametrize(
    "data", ["", "{}", "[]", '{"version": 2}', "\0", '{"version": 1, "generation": "x"}']
)
def test_what_cannot_be_read_is_reported_and_the_group_begins_again(
    data: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = MemoryServer()
    server.put(PATH, data)
    broker = started(server)
    (member,) = stable(broker.core, [assignment({"t": [0]})])
    assert member.generation == 1
    assert "is not readable" in caplog.text
    assert published(broker)["generation"] == 1


def test_the_option_needs_offsets_in_zookeeper() -> None:
    with pytest.raises(ConfigError, match=r"needs offset\.storage=zookeeper"):
        Config.load({"zookeeper.group.metadata.enable": True})


member_values = st.builds(
    messages.GroupMetadataValue.MemberMetadata,
    member_id=st.text(max_size=10),
    group_instance_id=st.none() | st.text(max_size=5),
    client_id=st.text(max_size=5),
    client_host=st.text(max_size=5),
    rebalance_timeout=st.integers(0, 2**31 - 1),
    session_timeout=st.integers(0, 2**31 - 1),
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
values = st.builds(
    messages.GroupMetadataValue,
    protocol_type=st.sampled_from(["", "consumer", "connect"]),
    generation=st.integers(0, 2**31 - 1),
    protocol=st.none() | st.text(max_size=5),
    leader=st.none() | st.text(max_size=5),
    current_state_timestamp=st.integers(-1, 2**60),
    members=st.lists(member_values, max_size=3, unique_by=lambda member: member.member_id),
)


@pytest.mark.slow
@given(values)
def test_a_group_is_read_as_it_was_published(value: messages.GroupMetadataValue) -> None:
    assert from_json("g", to_json("g", value)) == value


@pytest.mark.slow
@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(str.encode)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda more: st.lists(more) | st.dictionaries(st.text(max_size=5), more),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(UnreadableZnodeError):
        from_json("g", data)
