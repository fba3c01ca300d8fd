"""What the design documents ask for and Kafka does not: options for commits and for how a rebalance is told."""

import struct

import pytest

from kafka_offsets.broker.core import BrokerCore
from kafka_offsets.clock import ManualClock
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.drivers.core import CoreClient, commit_request, make_core
from tests.drivers.shard import subscription

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_YOURS = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def assignment(partitions: dict[str, list[int]]) -> bytes:
    value = messages.ConsumerProtocolAssignment(
        [
            messages.ConsumerProtocolAssignment.TopicPartition(topic, indexes)
            for topic, indexes in partitions.items()
        ],
        None,
    )
    return struct.pack(">h", 1) + messages.encode(value, 1)


class GroupMember:
    """One member on a connection of its own."""

    def __init__(self, core: BrokerCore, instance: str | None = None) -> None:
        self.client = CoreClient(core)
        self.instance = instance
        self.member_id = ""
        self.generation = -1

    def send_join(self, protocol_type: str = "consumer") -> None:
        offered = [messages.JoinGroupRequest.Protocol("range", subscription("t"))]
        request = messages.JoinGroupRequest(
            "g", 10_000, 60_000, self.member_id, self.instance, protocol_type, offered
        )
        self.client.send((request, 3))

    def take_join(self) -> None:
        (answer,) = self.client.take()
        assert answer.error_code == 0
        self.member_id, self.generation = answer.member_id, answer.generation_id

    def send_sync(self, given: dict[str, bytes] | None = None) -> None:
        assignments = [messages.SyncGroupRequest.Assignment(m, a) for m, a in (given or {}).items()]
        self.client.send(
            (
                messages.SyncGroupRequest(
                    "g", self.generation, self.member_id, None, None, None, assignments
                ),
                3,
            )
        )

    def heartbeat(self) -> int:
        request = messages.HeartbeatRequest("g", self.generation, self.member_id)
        return int(self.client.call(request, 3).error_code)

    def commit(self, offsets: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        return self.client.commit(
            "g", offsets, generation_id_or_member_epoch=self.generation, member_id=self.member_id
        )

    @property
    def is_closed(self) -> bool:
        return self.client.connection.closing


def new_core(**config: object) -> BrokerCore:
    core = make_core(clock=ManualClock(), **config)
    core.topics.create("t", 4)
    return core


def turn(core: BrokerCore) -> None:
    for _ in range(3):
        core.end_turn()
        core.run_due()
    core.end_turn()


def stable(core: BrokerCore, given: list[bytes], protocol_type: str = "consumer") -> list[GroupMember]:
    """Return members of a stable group, with these assignments."""
    members = [GroupMember(core) for _ in given]
    members[0].send_join(protocol_type)
    turn(core)
    members[0].take_join()
    for member in members[1:]:
        member.send_join(protocol_type)
    if len(members) > 1:
        members[0].client = CoreClient(core)
        members[0].send_join(protocol_type)
        turn(core)
        for member in members:
            member.take_join()
    for member in members[1:]:
        member.send_sync()
    members[0].send_sync(dict(zip((m.member_id for m in members), given, strict=True)))
    turn(core)
    for member in members:
        (answer,) = member.client.take()
        assert answer.error_code == 0
    return members


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
def test_where_the_owner_is_not_known_nobody_is_refused(given: bytes, protocol_type: str) -> None:
    core = new_core(offsets_commit_owner_check=True)
    (member,) = stable(core, [given], protocol_type)
    assert member.commit({("t", 3): 1}) == {("t", 3): 0}


def test_a_group_without_members_is_reset_by_anybody() -> None:
    client = CoreClient(new_core(offsets_commit_owner_check=True))
    assert client.commit("g", {("t", 3): 1}) == {("t", 3): 0}
    assert client.commit("g", {("t", 3): 1}, member_id="somebody") == {("t", 3): 0}


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


def test_a_heartbeat_tells_members_that_were_not_heard_of_since_the_start() -> None:
    core = new_core(group_rebalance_signal="close")
    (member,) = stable(core, [b""])
    core.close()
    again = make_core(files=core.directory.files, group_rebalance_signal="close")
    GroupMember(again).send_join()
    turn(again)
    member.client = CoreClient(again)
    assert member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
