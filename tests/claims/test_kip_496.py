"""Source: KIP-496, deletion of committed offsets, and expiry of those of topics without subscribers.

Not served, and so without a test: JMX; the four meters are read from Python and by Prometheus, under Kafka's names.
Admin.deleteConsumerGroupOffsets is kafka-python's.
"""

import struct
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import GroupSubscribedToTopicError, NoError

from kafka_offsets import Broker
from kafka_offsets.coordinator.state import stored
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.claims.claimed import (
    CoreClient,
    after,
    broker,
    delete_offsets,
    expired,
    offsets_topic,
    stable,
    turn,
)
from tests.drivers.shard import ShardDriver, subscription
from tests.interop.waiting import until

SUBSCRIBED = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_an_offset_is_deleted_and_the_others_remain() -> None:
    """Public interfaces: OffsetDelete version 0 names partitions; each has its own answer."""
    core = broker()
    client = CoreClient(core)
    client.commit("g", {("t", 0): 1, ("t", 1): 2})
    answers = delete_offsets(client, "g", ("t", 0), ("t", 2), ("t", 9))
    assert answers == {("t", 0): 0, ("t", 2): 0, ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert client.committed("g") == {("t", 1): 2}
    assert offsets_topic(core)[-1] == (stored.OffsetKey("g", "t", 0), None)


def test_a_subscribed_topics_offsets_are_refused_and_those_of_others_deleted() -> None:
    """Deletion semantics: of an active group what it does not read may go at once."""
    core = broker()
    core.topics.create("old", 1)
    CoreClient(core).commit("g", {("old", 0): 1, ("t", 0): 1})
    stable(core, [b""])
    client = CoreClient(core)
    assert delete_offsets(client, "g", ("t", 0), ("old", 0)) == {("t", 0): SUBSCRIBED, ("old", 0): 0}
    assert client.committed("g") == {("t", 0): 1}


def test_the_topics_of_all_members_are_kept_until_the_next_rebalance() -> None:
    """Proposed changes: the set of topics that the group is currently interested in."""
    driver = ShardDriver()
    (first,) = driver.stable(protocols={"range": subscription("t")})

    def answers() -> list[int]:
        return [driver.delete_offset(topic=name).topics[0].partitions[0].error_code for name in "tuv"]

    second = driver.enter(protocols={"range": subscription("u")})
    assert answers() == [SUBSCRIBED, 0, 0], "while the first member is waited for"
    driver.join(first, protocols={"range": subscription("t")})
    assert not second.is_parked
    assert answers() == [SUBSCRIBED, SUBSCRIBED, 0]
    changed = driver.join(first, protocols={"range": subscription("v")})
    assert changed.is_parked
    assert answers() == [SUBSCRIBED, SUBSCRIBED, 0]
    driver.advance(10_000)
    assert changed.answer.error_code == 0
    assert answers() == [0, 0, SUBSCRIBED], "the second member is gone, and the first reads something else"


def test_every_offset_of_an_empty_group_may_be_deleted() -> None:
    """Deletion semantics: what may expire may be deleted."""
    core = broker()
    (member,) = stable(core, [b""])
    member.commit({("t", 0): 1})
    member.client.call(messages.LeaveGroupRequest("g", member.member_id), 2)
    assert delete_offsets(CoreClient(core), "g", ("t", 0)) == {("t", 0): 0}


def test_missing_and_foreign_groups_are_refused_as_a_whole() -> None:
    """Public interfaces: the error of the response; no such group, no group id, a group of another kind."""
    core = broker()
    stable(core, [b""], "connect")
    client = CoreClient(core)
    assert delete_offsets(client, "missing", ("t", 0)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete_offsets(client, "", ("t", 0)) == ErrorCode.INVALID_GROUP_ID
    assert delete_offsets(client, "g", ("t", 0)) == ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize("version", [0, 1, 9, -1])
@pytest.mark.parametrize("trailing", [b"", b"whatever else"])
def test_subscriptions_are_read_as_version_0(version: int, trailing: bytes) -> None:
    """Proposed changes: the version field is ignored, and bytes after the topics are too."""
    driver = ShardDriver()
    metadata = struct.pack(">h", version) + subscription("t")[2:-8] + b"\xff\xff\xff\xff" + trailing
    driver.stable(protocols={"range": metadata})
    for topic, error in (("t", SUBSCRIBED), ("u", 0)):
        assert driver.delete_offset(topic=topic).topics[0].partitions[0].error_code == error


def test_unreadable_subscription_metadata_may_subscribe_to_any_topic() -> None:
    """Proposed changes: only what is known to be of no interest is let go."""
    driver = ShardDriver()
    driver.stable(protocols={"range": b"\0"})
    assert driver.delete_offset(topic="anything").topics[0].partitions[0].error_code == SUBSCRIBED


def test_a_group_of_one_protocol_type_admits_no_other() -> None:
    """Proposed changes: the coordinator knows that the metadata is a consumer's by the type."""
    driver = ShardDriver()
    driver.stable()
    assert driver.join(protocol_type="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_offsets_of_topics_without_subscribers_expire_while_the_group_has_members() -> None:
    """Expiration semantics: after the retention, and not at once (rejected alternatives)."""
    core = broker(offsets_retention_minutes=1, offsets_retention_check_interval_ms=2**62)
    core.topics.create("old", 1)
    CoreClient(core).commit("g", {("old", 0): 1, ("t", 0): 1})
    (member,) = stable(core, [b""])
    assert expired(core) == 0
    for _ in range(12):
        after(core, 5_000)
        member.heartbeat()
    assert expired(core) == 1
    assert CoreClient(core).committed("g") == {("t", 0): 1}


def test_an_empty_group_subscribes_to_nothing() -> None:
    """Rejected alternatives: an empty group is the case of an empty subscription."""
    core = broker(offsets_retention_minutes=1, offsets_retention_check_interval_ms=2**62)
    (member,) = stable(core, [b""])
    member.commit({("t", 0): 1})
    member.client.call(messages.LeaveGroupRequest("g", member.member_id), 2)
    after(core, 60_000)
    assert expired(core) == 1


def test_the_four_meters_count_offsets_and_rebalances() -> None:
    """Public interfaces, metrics: commits by offset, expirations, administrative deletions, completed rebalances."""
    core = broker(offsets_retention_minutes=1, offsets_retention_check_interval_ms=2**62)
    client = CoreClient(core)

    def counts() -> list[float]:
        names = ("offset-commit", "offset-expiration", "offset-deletion", "group-completed-rebalance")
        told = core.metrics.read()
        assert all(f"{name}-rate" in told for name in names)
        return [told[f"{name}-count"] for name in names]

    client.commit("h", {("t", 0): 1, ("t", 1): 1, ("t", 2): 1})
    assert counts() == [3, 0, 0, 0]
    client.commit("h", {("t", 0): 2, ("t", 9): 1})
    assert counts() == [4, 0, 0, 0], "what is refused does not count"
    stable(core, [b"", b""])
    turn(core)
    assert counts() == [4, 0, 0, 1]
    delete_offsets(client, "h", ("t", 0), ("t", 3))
    assert counts() == [4, 0, 1, 1], "what was not there does not count"
    after(core, 60_000)
    assert expired(core) == 2
    assert counts() == [4, 2, 1, 1]


@pytest.fixture
def running() -> Iterator[Broker]:
    with Broker() as started:
        started.create_topic("t", 2)
        yield started


@pytest.mark.interop
def test_an_admin_deletes_offsets(running: Broker) -> None:
    """Public interfaces, Admin: the result of each partition; a subscribed topic is refused."""
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    running.commit("g", {("t", 0): 1, ("t", 1): 2})
    admin = KafkaAdminClient(bootstrap_servers=running.bootstrap_servers)
    try:
        assert admin.delete_group_offsets("g", [first]) == {first: NoError}
        assert set(running.committed("g")) == {("t", 1)}
        member = KafkaConsumer("t", bootstrap_servers=running.bootstrap_servers, group_id="g")
        try:
            # A shorter poll may end before its SyncGroup does, and kafka-python 3.0.12 then forgets the assignment.
            until(lambda: member.poll(2_000) or len(member.assignment()) == 2, "the group is stable")
            assert admin.delete_group_offsets("g", [second]) == {second: GroupSubscribedToTopicError}
        finally:
            member.close()
    finally:
        admin.close()
