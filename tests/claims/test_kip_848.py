"""Source: KIP-848, the next generation of the consumer rebalance protocol.

Not served, and so without a test: assignors on the side of clients, which Kafka has not either.
"""

from typing import Any

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.coordinator.state.consumer_records import ConsumerKey
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.claims.claimed import CoreClient, after, broker, describe, expired, killed, offsets_topic
from tests.drivers.core import commit_request
from tests.drivers.members import Consumer, settled, stable

Heartbeat = messages.ConsumerGroupHeartbeatRequest
MINUTE_MS = 60_000
FIRST_EPOCH = 2
"""Kafka counts a group on when it comes and when its first member does."""


def shown(core: BrokerCore, group: str = "g") -> Any:
    """Describe a consumer group."""
    (found,) = CoreClient(core).call(messages.ConsumerGroupDescribeRequest([group]), 1).groups
    return found


# ---- the protocol ---------------------------------------------------------------------------------------------


def test_the_first_heartbeat_makes_the_group_and_assigns() -> None:
    """Rebalance process: a heartbeat of epoch 0 joins, and is answered epoch, interval and partitions."""
    answer = Consumer(core := broker(group_consumer_heartbeat_interval_ms=700)).join()
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", FIRST_EPOCH)
    assert answer.heartbeat_interval_ms == 700
    assert [t.partitions for t in answer.assignment.topic_partitions] == [[0, 1, 2, 3]]
    assert shown(core).group_state == "Stable"


def test_an_assignment_is_sent_when_it_changes_or_with_a_full_heartbeat() -> None:
    """Public interfaces, ConsumerGroupHeartbeat: null fields are as before, on both sides."""
    member = Consumer(broker())
    member.join()
    assert member.beat(topic_partitions=None).assignment is None
    assert member.beat(**member.first).assignment is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"rebalance_timeout_ms": -1},
        {"subscribed_topic_names": None},
        {"topic_partitions": None},
        {"instance_id": ""},
        {"rack_id": ""},
        {"member_epoch": -3},
    ],
)
def test_a_first_heartbeat_says_everything(wrong: dict[str, Any]) -> None:
    """Public interfaces, request validation: INVALID_REQUEST."""
    member = Consumer(broker())
    fields = {"member_epoch": 0, "topic_partitions": []} | member.first | wrong
    assert member.ask(**fields).error_code == ErrorCode.INVALID_REQUEST


def test_a_partition_is_assigned_when_its_owner_has_revoked_it() -> None:
    """Reconciliation of the group: revoke first, and only then assign."""
    core = broker()
    first, second = Consumer(core, "a"), Consumer(core, "b")
    first.join()
    assert (second.join().error_code, second.owned) == (0, [])
    first.beat()
    assert len(first.owned) == 2, "it is told what to give up"
    second.beat()
    assert second.owned == [], "and has not said yet that it did"
    first.beat()
    second.beat()
    assert sorted(first.owned + second.owned) == [0, 1, 2, 3]
    assert [len(each) for each in settled(first, second)] == [2, 2]


def test_a_member_that_gives_nothing_up_is_removed() -> None:
    """Rebalance timeout: it has so long to revoke, then its partitions go on without it."""
    core = broker()
    first, second = Consumer(core, "a"), Consumer(core, "b")
    first.join()
    second.join()
    first.ask(member_epoch=first.epoch)
    after(core, 2999)
    second.beat()
    assert second.owned == []
    after(core, 1)
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert settled(second) == [[0, 1, 2, 3]]


def test_a_silent_member_is_removed() -> None:
    """Session timeout: the broker's, for all members."""
    core = broker(group_consumer_session_timeout_ms=1000)
    first, second = Consumer(core, "a"), Consumer(core, "b")
    first.join()
    second.join()
    after(core, 999)
    second.beat()
    after(core, 1)
    assert settled(second) == [[0, 1, 2, 3]]
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_epochs_fence_members() -> None:
    """Member epoch: one too high is fenced, the one before is a lost answer, an older one is fenced."""
    core = broker()
    member = Consumer(core)
    member.join()
    core.topics.add_partitions("t", 5)
    member.beat()
    core.topics.add_partitions("t", 6)
    member.beat()
    epoch = member.epoch
    assert epoch == FIRST_EPOCH + 2
    assert member.ask(member_epoch=epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert member.ask(member_epoch=epoch - 1, topic_partitions=[]).error_code == 0
    assert member.ask(member_epoch=epoch - 2, topic_partitions=[]).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert Consumer(core, "x").ask(member_epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert Consumer(core, "x", "h").ask(member_epoch=1).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_that_leaves_frees_its_partitions_at_once() -> None:
    """Leaving: epoch -1, which is the answer as well."""
    core = broker()
    first, second = Consumer(core, "a"), Consumer(core, "b")
    first.join()
    second.join()
    assert first.leave().member_epoch == -1
    second.beat()
    assert sorted(second.owned) == [0, 1, 2, 3]
    second.leave()
    assert shown(core).group_state == "Empty"


def test_a_group_has_a_largest_size() -> None:
    """Broker configuration, group.consumer.max.size."""
    core = broker(group_consumer_max_size=1)
    assert Consumer(core, "a").join().error_code == 0
    assert Consumer(core, "b").join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


# ---- assignors, topics, static members ------------------------------------------------------------------------


@pytest.mark.parametrize(("chosen", "used"), [(None, "uniform"), ("range", "range")])
def test_the_assignor_is_on_the_server(chosen: str | None, used: str) -> None:
    """Server side assignors: what most members choose, else the first that is configured."""
    core = broker()
    Consumer(core, server_assignor=chosen).join()
    assert shown(core).assignor_name == used
    other = Consumer(core, "b", server_assignor="sticky").join()
    assert other.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR


def test_new_partitions_reach_members_without_their_doing() -> None:
    """Group epoch: it grows with the metadata of subscribed topics."""
    core = broker()
    member = Consumer(core)
    member.join()
    core.topics.add_partitions("t", 6)
    assert settled(member) == [[0, 1, 2, 3, 4, 5]]
    assert shown(core).group_epoch == FIRST_EPOCH + 1


def test_an_expression_matches_new_topics() -> None:
    """Regular expressions: RE2, matched by the coordinator."""
    core = broker(group_consumer_regex_pause_ms=0)
    member = Consumer(core, subscribed_topic_names=None, subscribed_topic_regex="(t|u)+")
    member.join()
    after(core, 1)
    assert settled(member) == [[0, 1, 2, 3]]
    core.topics.create("uu", 1)
    core.topics.create("v", 1)
    member.beat()
    after(core, 1)
    member.beat()
    assert sorted(member.owned) == [0, 0, 1, 2, 3]
    wrong = Consumer(core, "b", subscribed_topic_names=None, subscribed_topic_regex="(")
    assert wrong.join().error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_instance_returns_to_its_partitions() -> None:
    """Static membership: epoch -2 leaves for a while, and another member of the instance goes on."""
    core = broker()
    first, second = Consumer(core, "a", instance_id="i"), Consumer(core, "b")
    first.join()
    second.join()
    mine, others = settled(first, second)
    early = Consumer(core, "c", instance_id="i")
    assert early.join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert first.leave(-2).member_epoch == -2
    assert second.beat().assignment is None
    assert early.join().error_code == 0
    assert (sorted(early.owned), sorted(second.owned)) == (mine, others)
    assert first.ask(member_epoch=first.epoch, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID


# ---- offsets --------------------------------------------------------------------------------------------------


def test_members_commit_and_fetch_with_their_epoch() -> None:
    """Public interfaces, OffsetCommit and OffsetFetch: STALE_MEMBER_EPOCH, from version 9 on."""
    core = broker()
    member = Consumer(core)
    member.join()

    def commit(epoch: int, version: int = 9) -> int:
        fields = {"generation_id_or_member_epoch": epoch, "member_id": "a"}
        return member.client.commit("g", {("t", 0): 5}, version, **fields)["t", 0]

    epoch = FIRST_EPOCH
    assert commit(epoch) == 0
    assert commit(epoch + 1) == commit(epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(epoch, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert member.client.commit("g", {("t", 0): 5}, 9) == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}
    for name, said, error in (
        ("a", epoch, 0),
        ("a", epoch + 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", epoch, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, -1, 0),
    ):
        asked = messages.OffsetFetchRequest(groups=[messages.OffsetFetchRequest.Group("g", name, said, None)])
        assert member.client.call(asked, 9).groups[0].error_code == error


def test_offsets_of_topics_without_subscribers_expire() -> None:
    """Offset expiration: while the group lives those of its topics stay; without members those of all go."""
    core = broker(
        offsets_retention_minutes=1,
        offsets_retention_check_interval_ms=2**62,
        group_consumer_max_session_timeout_ms=2 * MINUTE_MS,
        group_consumer_session_timeout_ms=2 * MINUTE_MS,
    )
    core.topics.create("u", 1)
    member = Consumer(core)
    member.join()
    fields = {"generation_id_or_member_epoch": FIRST_EPOCH, "member_id": "a"}
    member.client.commit("g", {("t", 0): 1, ("u", 0): 1}, 9, **fields)
    after(core, MINUTE_MS)
    expired(core)
    assert member.client.committed("g") == {("t", 0): 1}
    member.leave()
    expired(core)
    assert member.client.committed("g") == {}
    assert shown(core).error_code == ErrorCode.GROUP_ID_NOT_FOUND


# ---- describing and listing -----------------------------------------------------------------------------------


def test_a_group_is_described_with_epochs_and_assignments() -> None:
    """Public interfaces, ConsumerGroupDescribe: what members have, and what they shall have."""
    core = broker()
    first, second = Consumer(core, "a"), Consumer(core, "b")
    first.join()
    second.join()
    found = shown(core)
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == (
        "Reconciling",
        FIRST_EPOCH + 1,
        FIRST_EPOCH + 1,
    )
    assert [each.member_epoch for each in found.members] == [FIRST_EPOCH, FIRST_EPOCH + 1]
    (has,), (shall,) = (
        [*x.topic_partitions] for x in (found.members[0].assignment, found.members[0].target_assignment)
    )
    assert (has.topic_name, len(has.partitions), len(shall.partitions)) == ("t", 4, 2)
    assert shown(core, "h").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe(CoreClient(core), "g").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_are_listed_by_type() -> None:
    """Public interfaces, ListGroups version 5: the type of a group, and a filter by it."""
    core = broker()
    client = CoreClient(core)
    client.commit("simple", {("t", 0): 1})
    Consumer(core).join()
    for types, names in (([], {"simple", "g"}), (["Classic"], {"simple"}), (["consumer"], {"g"})):
        listed = client.call(messages.ListGroupsRequest(types_filter=types), 5).groups
        assert {each.group_id for each in listed} == names


# ---- the log, and the way from classic groups -----------------------------------------------------------------


def test_the_group_is_in_the_offsets_topic() -> None:
    """Record types 3, 5, 6, 7, 8: group, member, target epoch, target and current assignment; none of the old ones."""
    core = broker()
    Consumer(core).join()
    keys = [key for key, value in offsets_topic(core) if isinstance(key, ConsumerKey) and value is not None]
    assert sorted({key.type for key in keys}) == [3, 5, 6, 7, 8]


def test_a_new_coordinator_continues_without_a_rebalance() -> None:
    """Failover: epochs and assignments are as they were, and each session begins anew."""
    core = broker(group_consumer_session_timeout_ms=1000)
    member = Consumer(core)
    member.join()
    after(core, 999)
    other = killed(core, group_consumer_session_timeout_ms=1000)
    after(other, 999)
    member.client = CoreClient(other)
    assert (member.beat().error_code, member.epoch, member.owned) == (0, FIRST_EPOCH, [0, 1, 2, 3])


def test_a_classic_group_changes_its_kind_and_back() -> None:
    """Migration: consumers of both protocols in one group; the last one of the new protocol takes it back."""
    core = broker()
    (classic,) = stable(core, [b""])
    classic.commit({("t", 0): 7})
    modern = Consumer(core)
    assert modern.join().error_code == 0
    assert {each.member_type for each in shown(core).members} == {0, 1}
    assert modern.client.committed("g") == {("t", 0): 7}
    assert modern.leave().error_code == 0
    assert describe(CoreClient(core), "g").protocol_type == "consumer"
    assert modern.client.committed("g") == {("t", 0): 7}


def test_an_empty_group_takes_the_type_of_its_next_member() -> None:
    """Migration offline: the offsets stay."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 7})
    member = Consumer(core)
    assert member.join().error_code == 0
    assert (shown(core).group_state, client.committed("g")) == ("Stable", {("t", 0): 7})


@pytest.mark.parametrize(("policy", "error"), [("disabled", ErrorCode.GROUP_ID_NOT_FOUND), ("upgrade", 0)])
def test_migration_is_configured(policy: str, error: int) -> None:
    """Broker configuration, group.consumer.migration.policy."""
    core = broker(group_consumer_migration_policy=policy)
    stable(core, [b""])
    assert Consumer(core).join().error_code == error


# ---- groups of classic members --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_commit_with_an_epoch_needs_its_group(version: int, error: ErrorCode) -> None:
    """Public interfaces, OffsetCommit version 9: a missing group is told apart from a wrong generation."""
    client = CoreClient(broker())
    fields = {"generation_id_or_member_epoch": 1, "member_id": "m"}
    assert client.commit("g", {("t", 0): 1}, version, **fields) == {("t", 0): error}


def test_a_fetch_may_name_member_and_epoch() -> None:
    """Public interfaces, OffsetFetch version 9: of a classic group they are not looked at."""
    core = broker()
    (member,) = stable(core, [b""])
    member.commit({("t", 0): 1})
    topics = [messages.OffsetFetchRequest.Topics("t", partition_indexes=[0])]
    for member_id, epoch in ((None, -1), (member.member_id, 99)):
        group = messages.OffsetFetchRequest.Group("g", member_id, epoch, topics)
        (answer,) = CoreClient(core).call(messages.OffsetFetchRequest(groups=[group]), 9).groups
        assert (answer.error_code, answer.topics[0].partitions[0].committed_offset) == (0, 1)


def test_commits_and_fetches_name_topics_by_id() -> None:
    """Public interfaces, version 10 of both: an id that no topic has is UNKNOWN_TOPIC_ID."""
    core = broker()
    client = CoreClient(core)
    request = commit_request(core, "g", {("t", 0): 1}, 10)
    topic_id = request.topics[0].topic_id
    request.topics.append(
        messages.OffsetCommitRequest.Topic(
            topic_id=b"\1" * 16, partitions=[messages.OffsetCommitRequest.Partition(0, 1)]
        )
    )
    answer = client.call(request, 10)
    assert {t.topic_id: t.partitions[0].error_code for t in answer.topics} == {
        topic_id: 0,
        b"\1" * 16: ErrorCode.UNKNOWN_TOPIC_ID,
    }
    topics = [
        messages.OffsetFetchRequest.Topics(topic_id=id_, partition_indexes=[0])
        for id_ in (topic_id, b"\1" * 16)
    ]
    group = messages.OffsetFetchRequest.Group("g", topics=topics)
    (answer,) = client.call(messages.OffsetFetchRequest(groups=[group]), 10).groups
    found = [(t.partitions[0].committed_offset, t.partitions[0].error_code) for t in answer.topics]
    assert found == [(1, 0), (-1, ErrorCode.UNKNOWN_TOPIC_ID)]
