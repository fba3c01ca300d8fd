"""Members with the classic protocol in consumer groups (KIP-848), and groups that are upgraded and downgraded.

Error codes and texts are those of GroupMetadataManager and GroupCoordinatorService of Kafka 4.3.
"""

from typing import Any

import pytest

from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.drivers.shard import ABC, JOINS, ShardDriver, assigned, owned, subscription

# ---- members that speak the classic protocol


CLASSIC = {"protocols": {"range": subscription("a")}}


def mixed(driver: ShardDriver, *instances: str | None) -> list[str]:
    """A consumer group of m1 and of classic members; return their ids."""
    driver.enter_consumer("m1", "a")
    ids = []
    for instance in instances:
        if instance is None:
            ids.append(driver.enter(**CLASSIC).answer.member_id)
        else:
            ids.append(driver.join(instance=instance, **CLASSIC).answer.member_id)
    return ids


@pytest.mark.parametrize("version", [0, 2])
def test_a_classic_member_leaves_a_consumer_group_with_an_old_request(version: int) -> None:
    driver = ShardDriver(ABC)
    (member,) = mixed(driver, None)
    assert driver.leave("nobody", version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.leave(member, version=version).error_code == 0
    assert [*driver.members()] == ["m1"]
    assert driver.beat(member, 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_leave_together_are_answered_each_for_itself() -> None:
    driver = ShardDriver(ABC)
    first, second, _ = mixed(driver, None, "i", "j")
    answer = driver.leave((first, None), ("x", "i"), ("", "j"), ("", "k"), ("nobody", None))
    assert answer.error_code == 0
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in answer.members] == [
        (first, None, 0),
        ("x", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("", "j", 0),
        ("", "k", ErrorCode.UNKNOWN_MEMBER_ID),
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert [*driver.members()] == ["m1", second]


def test_a_classic_member_joins_syncs_and_learns_in_a_heartbeat_when_to_rejoin() -> None:
    driver = ShardDriver(ABC)
    (member,) = mixed(driver, None)
    assert driver.members()[member].member_type == 0
    assert driver.beat(member, 3) == 0  # it waits for m1, and has nothing to do itself
    got = driver.sync(member, 3)
    assert (got.error, got.answer.protocol_type, got.answer.protocol_name) == (0, "consumer", "range")
    kept = assigned(driver.heartbeat("m1", 2))
    assert kept is not None
    assert driver.heartbeat("m1", 2, topic_partitions=owned(**kept)).member_epoch == 3
    assert driver.beat(member, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.join(member, **CLASSIC).answer
    assert (again.error_code, again.generation_id, again.leader) == (0, 3, "")
    left = ({0, 1, 2} - {*kept["a"]}).pop()
    assert driver.sync(member, 3).answer.assignment == (
        b"\0\1\0\0\0\1\0\1a\0\0\0\1" + left.to_bytes(4) + b"\xff\xff\xff\xff"
    )
    assert driver.beat(member, 3) == 0


def test_a_classic_member_is_refused_with_what_is_not_its_own() -> None:
    driver = ShardDriver(ABC)
    dynamic, static = mixed(driver, None, "i")
    assert driver.beat(dynamic, 8) == ErrorCode.ILLEGAL_GENERATION
    assert driver.beat("nobody", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("m1", 2) == ErrorCode.UNKNOWN_MEMBER_ID  # it does not speak this protocol
    assert driver.beat(dynamic, 4, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert driver.sync(static, 4, instance="j").error == ErrorCode.UNKNOWN_MEMBER_ID
    for said in ({"protocol": "roundrobin"}, {"protocol_type": "connect"}):
        assert driver.sync(static, 4, instance="i", **said).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.sync(static, 4, instance="i").error == 0


def test_a_classic_member_that_joins_needs_an_id_and_a_protocol_that_the_others_speak() -> None:
    driver = ShardDriver(ABC)
    mixed(driver, None)
    refused = driver.join(**CLASSIC).answer
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED and refused.member_id
    assert driver.join(version=3, **CLASSIC).answer.error_code == 0
    for wrong in ({"protocols": {"roundrobin": subscription("a")}}, {**CLASSIC, "protocol_type": "connect"}):
        assert driver.join("x", **wrong).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.join("x", protocols={"range": b"\0"}).error == ErrorCode.UNKNOWN_SERVER_ERROR
    both = {"protocols": {"roundrobin": subscription("a"), "range": subscription("a")}}
    assert driver.join("", instance="i", **both).error == 0


@pytest.mark.parametrize(("version", "timeout_ms"), [(0, 7000), (1, 9000)])
def test_a_member_that_names_no_rebalance_timeout_has_that_of_its_session(
    version: int, timeout_ms: int
) -> None:
    """JoinGroup of version 0 has no field for it (KIP-62)."""
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a")
    joined = driver.join(version=version, session_ms=7000, rebalance_ms=9000, **CLASSIC).answer
    for _ in range(2):
        driver.advance(timeout_ms // 2 - 1)
        assert driver.beat(joined.member_id, joined.generation_id) == 0
    driver.advance(2)
    assert joined.member_id not in driver.members()  # it has not asked for its assignment


def test_a_classic_join_is_refused_where_groups_do_not_migrate() -> None:
    driver = ShardDriver(ABC, consumer_migration_policy="disabled")
    driver.enter_consumer("m1", "a")
    assert driver.join("x", **CLASSIC).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_is_removed_after_its_session_and_when_it_does_not_sync_or_join_in_time() -> None:
    driver = ShardDriver(ABC, consumer_session_timeout_ms=60_000)
    driver.enter_consumer("m1", "a")
    options = {**CLASSIC, "session_ms": 10_000, "rebalance_ms": 4000}
    silent = driver.enter(**options).answer.member_id
    driver.advance(3_999)
    assert silent in driver.members()
    driver.advance(1)
    assert silent not in driver.members()
    synced = driver.enter(**options).answer
    driver.advance(3_999)
    assert driver.sync(synced.member_id, synced.generation_id).error == 0
    driver.advance(9_999)
    assert driver.beat(synced.member_id, synced.generation_id) == 0
    driver.advance(9_999)
    assert synced.member_id in driver.members()
    driver.advance(1)
    assert synced.member_id not in driver.members()


def test_the_group_is_a_classic_one_when_the_last_consumer_leaves() -> None:
    driver = ShardDriver(ABC)
    member, other = mixed(driver, None, "i")
    driver.heartbeat("m1", -1)
    group = driver.group()
    assert {*group.members} == {member, other}
    assert group.state.value == "PreparingRebalance"
    assert driver.described().error_message == "Group g is not a consumer group."
    assert driver.beat(member, 4) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_group_stays_a_consumer_group_where_the_policy_says_so() -> None:
    driver = ShardDriver(ABC, consumer_migration_policy="upgrade")
    (member,) = mixed(driver, None)
    driver.heartbeat("m1", -1)
    assert [*driver.members()] == [member]


@pytest.mark.parametrize(("most", "becomes_classic"), [(2, True), (1, False)])
def test_the_group_stays_a_consumer_group_when_it_is_too_large_for_a_classic_one(
    most: int, becomes_classic: bool
) -> None:
    driver = ShardDriver(ABC, group_max_size=most)
    members = mixed(driver, None, "i")
    driver.heartbeat("m1", -1)
    assert (driver.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND) == becomes_classic
    assert [*driver.members()] == ([] if becomes_classic else members)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"consumer_migration_policy": "disabled"}, "because online upgrade is disabled."),
        ({"consumer_migration_policy": "downgrade"}, "because online upgrade is disabled."),
        (
            {"consumer_max_size": 1},
            "because the group size exceeds the consumer group maximum size.",
        ),
    ],
)
def test_a_classic_group_that_may_not_be_upgraded_says_why(settings: dict[str, Any], reason: str) -> None:
    driver = ShardDriver(ABC, **settings)
    driver.stable(2)
    answer = driver.enter_consumer("m1", "a")
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == f"Cannot upgrade classic group g to consumer group {reason}"


def test_a_classic_group_of_others_than_consumers_is_not_upgraded() -> None:
    driver = ShardDriver(ABC)
    driver.enter(protocol_type="connect")
    assert driver.enter_consumer("m1", "a").error_message == (
        "Cannot upgrade classic group g to consumer group "
        "because the group does not use the consumer embedded protocol."
    )


def assignment(topic: str, *partitions: int, user_data: bytes | None = None) -> bytes:
    """A consumer's assignment, version 1."""
    data = b"\xff\xff\xff\xff" if user_data is None else len(user_data).to_bytes(4) + user_data
    numbers = b"".join(partition.to_bytes(4) for partition in partitions)
    return b"\0\1\0\0\0\1\0\1" + topic.encode() + len(partitions).to_bytes(4) + numbers + data


def test_members_of_a_classic_group_continue_with_what_they_have_when_it_is_upgraded() -> None:
    driver = ShardDriver(ABC)
    joined = driver.enter(**CLASSIC).answer
    member, generation = joined.member_id, joined.generation_id
    assert driver.sync(member, generation, {member: assignment("a", 0, 1, 2)}).error == 0
    answer = driver.enter_consumer("m1", "a")
    assert (answer.error_code, answer.member_epoch, assigned(answer)) == (0, generation + 1, {})
    described = driver.members()[member]
    assert (described.member_epoch, described.member_type, described.client_id) == (generation, 0, "c")
    assert [(t.topic_name, t.partitions) for t in described.assignment.topic_partitions] == [("a", [0, 1, 2])]
    assert driver.beat(member, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_rack_of_a_classic_member_is_known_in_a_consumer_group() -> None:
    said = messages.ConsumerProtocolSubscription(["a"], rack_id="r")
    in_a_rack = {"range": b"\0\3" + messages.encode(said, 3)}
    driver = ShardDriver(ABC)
    joined = driver.enter(protocols=in_a_rack).answer
    driver.sync(joined.member_id, joined.generation_id, {joined.member_id: assignment("a", 0, 1, 2)})
    driver.enter_consumer("m1", "a")
    assert driver.members()[joined.member_id].rack_id == "r"
    driver.join(joined.member_id, **CLASSIC)  # of a version that has no racks
    assert driver.members()[joined.member_id].rack_id == "r"
    other = driver.join(version=3, protocols=in_a_rack).answer
    assert driver.members()[other.member_id].rack_id == "r"


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (b"of 0", "because the embedded consumer protocol is malformed."),
        (b"\0", "because the embedded consumer protocol is malformed."),
        (
            assignment("a", 0, user_data=b"mine"),
            (
                "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
                "default assignor before re-attempting the upgrade."
            ),
        ),
    ],
)
def test_a_classic_group_with_an_assignment_that_is_not_understood_stays_as_it_is(
    stored: bytes, reason: str
) -> None:
    driver = ShardDriver(ABC)
    joined = driver.enter(**CLASSIC).answer
    driver.sync(joined.member_id, joined.generation_id, {joined.member_id: stored})
    answer = driver.enter_consumer("m1", "a")
    assert answer.error_message == f"Cannot upgrade classic group g to consumer group {reason}"
    assert driver.beat(joined.member_id, joined.generation_id) == 0


# ---- a log that refuses what would change the kind of a group


def test_a_group_that_was_to_be_upgraded_continues_as_a_classic_one_when_the_log_refuses() -> None:
    driver = ShardDriver(ABC)
    member, other = driver.stable(2, **CLASSIC, session_ms=10_000)
    driver.sync(member, 2)
    driver.group().members[member].assignment = driver.group().members[other].assignment = b""
    driver.hold = True
    later = driver.heartbeat_later("m1", 0, **JOINS)
    assert [*driver.shard.groups["g"].subscriptions] == [other, member, "m1"]  # type: ignore[union-attr]
    driver.fail_log()
    driver.hold = False
    assert later.error == ErrorCode.NOT_COORDINATOR
    assert {*driver.group().members} == {member, other}
    driver.advance(9_999)
    assert driver.beat(member, 2) == 0
    driver.advance(1)
    assert {*driver.group().members} == {member}  # the session of the other one has ended


def test_a_rebalance_that_an_upgrade_was_to_end_begins_again_when_the_log_refuses() -> None:
    driver = ShardDriver(ABC)
    (member,) = driver.stable(1, **CLASSIC)
    driver.group().members[member].assignment = b""
    joining = driver.join(driver.join(**CLASSIC).answer.member_id, **CLASSIC)
    assert joining.is_parked
    driver.hold = True
    later = driver.heartbeat_later("m1", 0, **JOINS)
    driver.fail_log()
    driver.hold = False
    assert (later.error, joining.error) == (ErrorCode.NOT_COORDINATOR,) * 2
    assert driver.group().state.value == "PreparingRebalance"
    assert driver.beat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.join(member, **CLASSIC).is_parked
    driver.advance(10_000)
    assert {*driver.group().members} == {member}


def test_waiting_members_of_a_classic_group_must_rejoin_when_it_is_upgraded() -> None:
    driver = ShardDriver(ABC)
    (member,) = driver.stable(1, **CLASSIC)
    driver.group().members[member].assignment = b""
    joining = driver.join(driver.join(**CLASSIC).answer.member_id, **CLASSIC)
    answer = driver.enter_consumer("m1", "a")
    assert (answer.error_code, joining.error) == (0, ErrorCode.REBALANCE_IN_PROGRESS)
    assert [*driver.members()] == [joining.answer.member_id, member, "m1"]


def test_the_members_of_an_upgraded_group_are_written_in_the_order_of_kafkas_hash_maps() -> None:
    """Ids that share a slot of both maps are turned round: with them, Kafka assigned other partitions than we did."""
    first, second = "a-483cc79d-ab24-4dde-9df6-235a575cdff1", "b-03a23296-d15c-444f-b06c-02127c909b62"
    made = iter((first, second))
    driver = ShardDriver(ABC)
    driver.shard.new_member_id = lambda _: next(made)
    members = driver.stable(2, **CLASSIC)
    for member in driver.group().members.values():
        member.assignment = b""
    assert members == [first, second]
    driver.enter_consumer("m1", "a")
    assert [*driver.members()] == [second, first, "m1"]


# Ids of Kafka's making, and the partitions of a topic with four that Kafka gave to a, b and a third member.
IN_ONE_SLOT = (
    ("a-30c2c70c-1ec9-4fc5-9aa2-bc143e3e2f84", "b-755c283e-0d61-4f6c-a88c-c0173cc2ce6b", ([1], [0], [2, 3])),
    ("a-88db5f2b-f90a-4fe7-a8d0-3ed89d1121ae", "b-c4b81cc9-06d4-4116-b679-615a7905af19", ([2, 3], [1], [0])),
)
IN_ONE_SLOT_OF_TWO = (
    ("a-91b0f576-0b6f-4240-80d8-0a66c22e4028", "b-bba933d7-698d-4629-888d-6b9ebc43db6b", ([1], [0], [2, 3])),
    ("a-92707ed4-9e11-4471-a144-cbd3af55001e", "b-dc5b213c-ed48-4f9c-8d91-cbdf74c300f7", ([2, 3], [1], [0])),
)


@pytest.mark.parametrize(
    ("upgraded_by_b", "a", "b", "kafkas"),
    [*((False, *each) for each in IN_ONE_SLOT), *((True, *each) for each in IN_ONE_SLOT_OF_TWO)],
)
def test_members_of_an_upgraded_group_get_partitions_in_the_order_of_kafkas_hash_maps(
    upgraded_by_b: bool, a: str, b: str, kafkas: tuple[list[int], ...]
) -> None:
    """In the decision that upgrades, ids of one slot are in the order in which Kafka writes them; later, the map has
    more slots, because each record of a known member makes room as for another one."""
    made = iter((a, b))
    driver = ShardDriver({"orders": 4})
    driver.shard.new_member_id = lambda _: next(made)
    protocols = {"protocols": {"range": subscription("orders")}}
    driver.join(driver.join(**protocols).answer.member_id, **protocols)
    driver.join(driver.join(**protocols).answer.member_id, **protocols)  # waits for a
    if upgraded_by_b:
        driver.enter_consumer(b, "orders")
    driver.enter_consumer("m-d", "orders")
    targets = driver.group().targets
    found = tuple([p for each in targets[name].values() for p in sorted(each)] for name in (a, b, "m-d"))
    assert found == kafkas


def test_a_group_that_was_to_be_downgraded_continues_as_a_consumer_group_when_the_log_refuses() -> None:
    driver = ShardDriver(ABC, consumer_session_timeout_ms=60_000)
    (member,) = mixed(driver, None)
    driver.sync(member, 3)
    driver.hold = True
    later = driver.heartbeat_later("m1", -1)
    assert driver.group().state.value == "PreparingRebalance"
    joining = driver.join(member, **CLASSIC)
    driver.fail_log()
    driver.hold = False
    driver.tick()
    assert (later.error, joining.error) == (ErrorCode.NOT_COORDINATOR,) * 2
    assert [*driver.members()] == ["m1", member]
    assert driver.heartbeat("m1", 2, topic_partitions=owned()).error_code == 0
    assert driver.beat(member, 3) in (0, ErrorCode.REBALANCE_IN_PROGRESS)
    driver.advance(10_000)  # its session is the one that it asked for
    assert [*driver.members()] == ["m1"]


def test_members_that_wait_in_a_group_that_could_not_be_downgraded_are_answered_at_once() -> None:
    driver = ShardDriver(ABC, consumer_session_timeout_ms=60_000)
    members = mixed(driver, None, None, None)
    driver.hold = True
    driver.heartbeat_later("m1", -1)
    waiting = [driver.join(member, **CLASSIC) for member in members[:2]]
    assert all(joining.is_parked for joining in waiting)
    driver.fail_log()
    driver.hold = False
    driver.tick()
    assert [joining.error for joining in waiting] == [ErrorCode.NOT_COORDINATOR] * 2
    assert [*driver.members()] == ["m1", *members]


def test_what_a_downgraded_member_has_is_written_for_it_to_read() -> None:
    driver = ShardDriver(ABC)
    driver.enter_consumer("m1", "a", instance_id="i")
    driver.heartbeat("m1", -2, instance_id="i")
    back = driver.join(instance="i", **CLASSIC).answer
    group = driver.group()
    assert (back.error_code, group.generation, group.state.value) == (0, back.generation_id, "Stable")
    got = driver.sync(back.member_id, back.generation_id, instance="i")
    assert got.answer.assignment == assignment("a", 0, 1, 2)
    assert group.is_subscribed_to("a")
    assert not group.is_subscribed_to("b")
    again = driver.restart()
    assert {*again.group().members} == {back.member_id}
