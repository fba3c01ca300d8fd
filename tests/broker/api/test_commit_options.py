"""What the design documents ask for and Kafka does not: options for commits and for how a rebalance is told."""

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.drivers.core import CoreClient, commit_request, make_core
from tests.drivers.members import Consumer, GroupMember, assignment, stable, turn

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_DONE = ErrorCode.OPERATION_NOT_ATTEMPTED
NOT_YOURS = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def new_core(**config: object) -> BrokerCore:
    core = make_core(clock=ManualClock(), **config)
    core.topics.create("t", 4)
    return core


# offsets.commit.unknown.topics


def test_offsets_of_what_does_not_exist_are_refused_as_kafka_does() -> None:
    client = CoreClient(new_core())
    assert client.commit("g", {("t", 0): 1, ("t", 4): 1, ("u", 0): 1}) == {
        ("t", 4): UNKNOWN,
        ("t", 0): 0,
        ("u", 0): UNKNOWN,
    }


@pytest.mark.parametrize("version", [0, 2, 8, 9])
def test_offsets_of_what_does_not_exist_are_committed_where_configured(version: int) -> None:
    client = CoreClient(new_core(offsets_commit_unknown_topics=True))
    offsets = {("t", 4): 1, ("u", 7): 2}
    assert client.commit("g", offsets, version) == dict.fromkeys(offsets, 0)
    assert client.commit("g", {("u", -1): 1}) == {("u", -1): UNKNOWN}
    assert client.committed("g") == offsets


def test_an_unknown_topic_id_names_nothing_to_commit_for() -> None:
    core = new_core(offsets_commit_unknown_topics=True)
    request = commit_request(core, "g", {("t", 0): 1}, 10)
    request.topics[0].topic_id = bytes(range(16))
    (topic,) = CoreClient(core).call(request, 10).topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_what_was_committed_for_an_unknown_topic_can_be_deleted() -> None:
    client = CoreClient(new_core(offsets_commit_unknown_topics=True))
    client.commit("g", {("u", 7): 2})
    request = messages.OffsetDeleteRequest
    deletion = request("g", [request.Topic("u", [request.Partition(7)])])
    (topic,) = client.call(deletion, 0).topics
    assert topic.partitions[0].error_code == 0
    assert client.committed("g") == {}


# offsets.commit.owner.check


def test_a_member_commits_for_any_partition_as_in_kafka() -> None:
    core = new_core()
    (member,) = stable(core, [assignment({"t": [0]})])
    assert member.commit({("t", 3): 1}) == {("t", 3): 0}


def test_a_member_commits_for_its_own_partitions_alone_where_configured() -> None:
    core = new_core(offsets_commit_owner_check=True)
    first, second = stable(core, [assignment({"t": [0, 1]}), assignment({"t": [2]})])
    assert first.commit({("t", 0): 5, ("t", 2): 5}) == {("t", 0): 0, ("t", 2): NOT_YOURS}
    assert second.commit({("t", 2): 6}) == {("t", 2): 0}
    assert first.client.committed("g") == {("t", 0): 5, ("t", 2): 6}


def test_a_member_without_partitions_commits_for_none() -> None:
    core = new_core(offsets_commit_owner_check=True)
    (member,) = stable(core, [b""])
    assert member.commit({("t", 0): 5}) == {("t", 0): NOT_YOURS}


def test_partitions_to_be_revoked_are_still_the_members_own() -> None:
    core = new_core(offsets_commit_owner_check=True)
    (member,) = stable(core, [assignment({"t": [0]})])
    GroupMember(core).send_join()
    turn(core)
    assert member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert member.commit({("t", 0): 5, ("t", 1): 5}) == {("t", 0): 0, ("t", 1): NOT_YOURS}


@pytest.mark.parametrize(
    ("given", "protocol_type"), [(b"\0", "consumer"), (assignment({"t": [0]}), "connect")]
)
def test_where_the_owner_is_not_known_no_commit_is_refused(given: bytes, protocol_type: str) -> None:
    core = new_core(offsets_commit_owner_check=True)
    (member,) = stable(core, [given], protocol_type)
    assert member.commit({("t", 3): 1}) == {("t", 3): 0}


def test_a_group_without_members_is_reset_by_any_client() -> None:
    client = CoreClient(new_core(offsets_commit_owner_check=True))
    assert client.commit("g", {("t", 3): 1}) == {("t", 3): 0}
    assert client.commit("g", {("t", 3): 1}, member_id="somebody") == {("t", 3): 0}


# offsets.commit.all.or.none


@pytest.mark.parametrize("version", [2, 8, 9])
def test_a_commit_with_a_refused_partition_commits_none_where_configured(version: int) -> None:
    core = new_core(offsets_commit_all_or_none=True)
    client = CoreClient(core)
    refused = {("t", 0): NOT_DONE, ("t", 4): UNKNOWN, ("t", 1): NOT_DONE, ("u", 0): UNKNOWN}
    assert client.commit("g", dict.fromkeys(refused, 1), version) == refused
    assert client.committed("g") == {}
    assert core.runtime.meters.offset_commits == 0
    assert client.commit("g", {("t", 0): 1, ("t", 1): 1}, version) == {("t", 0): 0, ("t", 1): 0}
    assert client.committed("g") == {("t", 0): 1, ("t", 1): 1}
    assert core.runtime.meters.offset_commits == 2


def test_a_partition_of_another_member_refuses_the_whole_commit_where_configured() -> None:
    core = new_core(offsets_commit_all_or_none=True, offsets_commit_owner_check=True)
    first, _ = stable(core, [assignment({"t": [0, 1]}), assignment({"t": [2]})])
    assert first.commit({("t", 0): 5, ("t", 2): 5}) == {("t", 0): NOT_DONE, ("t", 2): NOT_YOURS}
    assert first.client.committed("g") == {}


def test_metadata_that_is_too_long_refuses_the_whole_commit_where_configured() -> None:
    core = new_core(offsets_commit_all_or_none=True, offset_metadata_max_bytes=3)
    request = commit_request(core, "g", {("t", 0): 1, ("t", 1): 1}, 8)
    request.topics[0].partitions[1].committed_metadata = "long"
    (topic,) = CoreClient(core).call(request, 8).topics
    assert [p.error_code for p in topic.partitions] == [NOT_DONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert CoreClient(core).committed("g") == {}


# offsets.fetch.members.only


def fetch_error(client: CoreClient, version: int, member_id: str | None = None, epoch: int = -1) -> int:
    request = messages.OffsetFetchRequest
    if version < 8:
        return int(client.call(request("g", None), version).error_code)
    asked = request(groups=[request.Group("g", member_id, epoch, None)])
    return int(client.call(asked, version).groups[0].error_code)


@pytest.mark.parametrize("version", [2, 7, 8, 9])
def test_a_classic_group_with_members_is_fetched_on_their_connections_alone_where_configured(
    version: int,
) -> None:
    core = new_core(offsets_fetch_members_only=True)
    first, second = stable(core, [assignment({"t": [0]}), b""])
    stranger = CoreClient(core)
    assert [fetch_error(client, version) for client in (first.client, second.client)] == [0, 0]
    assert fetch_error(stranger, version) == ErrorCode.UNKNOWN_MEMBER_ID
    for member in (first, second):
        leaving = messages.LeaveGroupRequest("g", member.member_id)
        assert member.client.call(leaving, 2).error_code == 0
    assert fetch_error(stranger, version) == 0


def test_a_member_that_connects_again_is_known_from_its_heartbeat_on() -> None:
    core = new_core(offsets_fetch_members_only=True)
    (member,) = stable(core, [b""])
    member.client = CoreClient(core)
    assert fetch_error(member.client, 8) == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch_error(member.client, 9, member.member_id) == 0
    assert member.heartbeat() == 0
    assert fetch_error(member.client, 8) == 0


def test_a_consumer_group_is_fetched_by_the_members_that_a_request_names_where_configured() -> None:
    core = new_core(offsets_fetch_members_only=True)
    member = Consumer(core)
    epoch = member.join().member_epoch
    client = CoreClient(core)
    assert fetch_error(client, 9, "a", epoch) == 0
    assert fetch_error(client, 9, "a", epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert {fetch_error(client, version) for version in (2, 7, 8, 9)} == {ErrorCode.UNKNOWN_MEMBER_ID}
    member.leave()
    assert {fetch_error(client, version) for version in (2, 7, 8, 9)} == {0}


def test_a_consumer_group_with_classic_members_is_fetched_without_naming_one() -> None:
    core = new_core(offsets_fetch_members_only=True)
    stable(core, [assignment({"t": [0, 1, 2, 3]})])
    assert Consumer(core).join().error_code == 0
    client = CoreClient(core)
    assert {fetch_error(client, version) for version in (2, 7, 8, 9)} == {0}
    assert fetch_error(client, 9, "stranger") == ErrorCode.UNKNOWN_MEMBER_ID


def test_any_client_fetches_the_offsets_of_a_group_as_in_kafka() -> None:
    core = new_core()
    stable(core, [b""])
    assert {fetch_error(CoreClient(core), version) for version in (2, 7, 8, 9)} == {0}


# group.rebalance.signal


@pytest.fixture(params=["heartbeat", "close"])
def signal(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_newcomer_makes_the_others_join_again(signal: str) -> None:
    core = new_core(group_rebalance_signal=signal)
    members = stable(core, [b"", b""])
    newcomer = GroupMember(core)
    newcomer.send_join()
    turn(core)
    assert [m.is_closed for m in members] == [signal == "close"] * 2
    assert not newcomer.is_closed
    if signal == "heartbeat":
        assert [m.heartbeat() for m in members] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    for member in members:
        if signal == "close":
            member.client = CoreClient(core)
        member.send_join()
    turn(core)
    for member in [*members, newcomer]:
        member.take_join()
    assert {m.generation for m in [*members, newcomer]} == {members[0].generation}


def test_a_member_that_leaves_makes_the_others_join_again(signal: str) -> None:
    core = new_core(group_rebalance_signal=signal)
    first, second = stable(core, [b"", b""])
    leaving = messages.LeaveGroupRequest("g", second.member_id)
    assert second.client.call(leaving, 2).error_code == 0
    assert (first.is_closed, second.is_closed) == (signal == "close", False)


def test_a_member_whose_session_ends_makes_the_others_join_again(signal: str) -> None:
    core = new_core(group_rebalance_signal=signal)
    first, second = stable(core, [b"", b""])
    assert isinstance(core.clock, ManualClock)
    core.clock.advance(9_000)
    assert second.heartbeat() == 0
    core.clock.advance(1_000)
    turn(core)
    assert (first.is_closed, second.is_closed) == (False, signal == "close")


def test_a_connection_that_waits_for_its_assignment_is_answered_and_not_closed() -> None:
    core = new_core(group_rebalance_signal="close")
    members = stable(core, [b"", b""])
    members[0].send_join()
    turn(core)
    members[1].client = CoreClient(core)
    members[1].send_join()
    turn(core)
    for member in members:
        member.take_join()
    members[1].send_sync()
    GroupMember(core).send_join()
    turn(core)
    (answer,) = members[1].client.take()
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert [m.is_closed for m in members] == [True, False]


def test_a_heartbeat_after_a_start_signals_the_rebalance_of_other_members() -> None:
    core = new_core(group_rebalance_signal="close")
    (member,) = stable(core, [b""])
    core.close()
    again = make_core(files=core.directory.files, group_rebalance_signal="close")
    GroupMember(again).send_join()
    turn(again)
    member.client = CoreClient(again)
    assert member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
