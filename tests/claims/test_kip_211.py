"""Source: KIP-211, revised expiration of the committed offsets of consumer groups.

Served in full. What Kafka 4.3.1 itself let expire, and when, is compared in tests/coordinator/offsets/test_expiry.py.
"""

import struct

import pytest

from kafka_offsets.broker.core.core import BrokerCore
from kafka_offsets.coordinator.state import stored
from kafka_offsets.protocol import messages
from kafka_offsets.protocol.records import encode_batch
from tests.claims.claimed import (
    CoreClient,
    GroupMember,
    after,
    again,
    broker,
    describe,
    expired,
    killed,
    offsets_topic,
    stable,
    turn,
)
from tests.drivers.core import commit_request

MINUTE_MS = 60_000
CONFIG = {"offsets_retention_minutes": 1, "offsets_retention_check_interval_ms": 2**62}


def beat(core: BrokerCore, member: GroupMember, ms: int) -> None:
    """Let time pass while a member sends its heartbeats."""
    for _ in range(ms // 5_000):
        after(core, 5_000)
        assert member.heartbeat() == 0


def test_no_offset_of_a_group_with_members_expires() -> None:
    """Proposed changes, 1: while a group has active members nothing that it reads expires, however old."""
    core = broker(**CONFIG)
    (member,) = stable(core, [b""])
    member.commit({("t", 0): 1})
    beat(core, member, MINUTE_MS + 5_000)
    assert expired(core) == 0
    assert core.shards.committed("g")


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_no_offset_of_a_group_in_a_rebalance_expires(state: str) -> None:
    """Proposed changes, states of a group: in all but Empty nothing expires, not even what nobody subscribes to."""
    core = broker(**CONFIG)
    core.topics.create("old", 1)
    CoreClient(core).commit("g", {("old", 0): 1, ("t", 0): 1})
    (member,) = stable(core, [b""])
    beat(core, member, 55_000)
    if state == "PreparingRebalance":
        GroupMember(core).send_join()
    else:
        member.send_join()
    turn(core)
    after(core, 5_000)
    assert describe(CoreClient(core), "g").group_state == state
    assert expired(core) == 0
    assert set(core.shards.committed("g")) == {("old", 0), ("t", 0)}


def test_the_retention_begins_when_the_group_is_empty() -> None:
    """Proposed changes, 2: not with the last commit, and so all offsets go together."""
    core = broker(**CONFIG)
    (member,) = stable(core, [b""])
    member.commit({("t", 0): 1})
    beat(core, member, MINUTE_MS // 2)
    member.commit({("t", 1): 1})
    beat(core, member, MINUTE_MS)
    member.client.call(messages.LeaveGroupRequest("g", member.member_id), 2)
    after(core, MINUTE_MS - 1)
    assert expired(core) == 0
    after(core, 1)
    assert expired(core) == 2


def test_a_member_that_returns_stops_the_clock() -> None:
    """Proposed changes, 2: a group that is active again keeps its offsets, and the clock begins anew."""
    core = broker(**CONFIG)
    (member,) = stable(core, [b""])
    member.commit({("t", 0): 1})
    member.client.call(messages.LeaveGroupRequest("g", member.member_id), 2)
    after(core, MINUTE_MS - 1)
    (member,) = stable(core, [b""])
    after(core, 5_000)
    assert member.heartbeat() == 0
    assert expired(core) == 0
    member.client.call(messages.LeaveGroupRequest("g", member.member_id), 2)
    after(core, MINUTE_MS - 1)
    assert expired(core) == 0


def test_the_time_of_emptying_survives_a_restart() -> None:
    """Public interfaces: GroupMetadataValue version 2 and later hold the time at which the state changed."""
    core = broker(**CONFIG)
    (member,) = stable(core, [b""])
    member.commit({("t", 0): 1})
    after(core, 5_000)
    member.client.call(messages.LeaveGroupRequest("g", member.member_id), 2)
    turn(core)
    emptied = core.clock.now().wall_ms
    value = [value for key, value in offsets_topic(core) if isinstance(key, stored.GroupKey)][-1]
    assert value is not None
    assert stored.parse_group_value(value).current_state_timestamp == emptied
    later = again(core, **CONFIG)
    after(later, MINUTE_MS - 1)
    assert expired(later) == 0
    after(later, 1)
    assert expired(later) == 1


def test_offsets_of_groups_without_members_expire_after_their_last_commit() -> None:
    """Proposed changes, 3: of standalone consumers and tools each offset counts for itself."""
    core = broker(**CONFIG)
    client = CoreClient(core)
    client.commit("tool", {("t", 0): 1, ("t", 1): 1})
    after(core, MINUTE_MS // 2)
    CoreClient(core).commit("tool", {("t", 1): 2})
    after(core, MINUTE_MS // 2)
    assert expired(core) == 1
    assert CoreClient(core).committed("tool") == {("t", 1): 2}


def test_a_group_is_deleted_with_its_last_offset() -> None:
    """Proposed changes, 2: when all offsets have expired the group is removed."""
    core = broker(**CONFIG)
    (member,) = stable(core, [b""])
    member.commit({("t", 0): 1})
    member.client.call(messages.LeaveGroupRequest("g", member.member_id), 2)
    after(core, MINUTE_MS)
    assert expired(core) == 1
    assert CoreClient(core).call(messages.ListGroupsRequest(), 4).groups == []
    assert offsets_topic(core)[-2:] == [
        (stored.OffsetKey("g", "t", 0), None),
        (stored.GroupKey("g"), None),
    ]


@pytest.mark.parametrize(("version", "has_retention"), [(2, True), (4, True), (5, False), (8, False)])
def test_only_old_versions_of_a_commit_name_a_retention(version: int, has_retention: bool) -> None:
    """Public interfaces: version 5 of OffsetCommit drops retention_time; older ones are still honoured."""
    core = broker(**CONFIG)
    request = commit_request(core, "g", {("t", 0): 1}, version, retention_time_ms=30_000)
    CoreClient(core).call(request, version)
    entry = core.shards.committed("g")["t", 0]
    assert (entry.expire_timestamp != -1) is has_retention
    after(core, 30_000)
    assert expired(core) == (1 if has_retention else 0)


@pytest.mark.parametrize(("retention_ms", "version"), [(-1, 4), (60_000, 1)])
def test_the_time_of_expiry_is_stored_only_where_the_client_gave_it(retention_ms: int, version: int) -> None:
    """Public interfaces: newer values of committed offsets have no expire_timestamp; version 1 is kept for those."""
    core = broker(**CONFIG)
    CoreClient(core).call(commit_request(core, "g", {("t", 0): 1}, 4, retention_time_ms=retention_ms), 4)
    ((_, value),) = offsets_topic(core)
    assert value is not None
    assert struct.unpack_from(">h", value) == (version,)


@pytest.mark.parametrize(("version", "seconds_ago", "goes"), [(1, 60, True), (1, 59, False), (2, 60, False)])
def test_the_retention_of_a_commit_that_names_its_time_begins_then(
    version: int, seconds_ago: int, goes: bool
) -> None:
    """Motivation, versions of OffsetCommit: version 1 has a timestamp for each partition, later ones have not."""
    core = broker(**CONFIG)
    request = commit_request(core, "g", {("t", 0): 1}, version)
    if version == 1:
        then = core.clock.now().wall_ms - seconds_ago * 1000
        request.topics[0].partitions[0].commit_timestamp = then
    CoreClient(core).call(request, version)
    assert expired(core) == goes


def test_a_group_stored_without_the_time_of_emptying_counts_from_each_last_commit() -> None:
    """Compatibility: GroupMetadataValue below version 2, in a log that an older broker has written."""
    core = broker(**CONFIG)
    (member,) = stable(core, [b""])
    member.commit({("t", 0): 1})
    beat(core, member, MINUTE_MS // 2)
    member.commit({("t", 1): 1})
    beat(core, member, MINUTE_MS // 2 - 5_000)
    member.client.call(messages.LeaveGroupRequest("g", member.member_id), 2)
    turn(core)
    value = [value for key, value in offsets_topic(core) if isinstance(key, stored.GroupKey)][-1]
    assert value is not None
    old = b"\0\1" + messages.encode(stored.parse_group_value(value), 1)
    found = core.topics.partition("__consumer_offsets", 0)
    assert found is not None
    found.log.append(
        encode_batch([(stored.group_record("g", messages.GroupMetadataValue()).key, old, (), 0)])
    )
    later = killed(core, **CONFIG)
    after(later, 5_000)
    assert expired(later) == 1
    assert set(later.shards.committed("g")) == {("t", 1)}
