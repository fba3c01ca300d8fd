"""Consumer groups (KIP-848), one step at a time: what is refused, who has what, when a member is given up.

Error codes and texts are those of GroupMetadataManager and GroupCoordinatorService of Kafka 4.3.
"""

from typing import Any

import pytest

from kafka_offsets.coordinator import stored
from kafka_offsets.coordinator.consumer import draft, records
from kafka_offsets.coordinator.consumer.records import Current, MemberState
from kafka_offsets.coordinator.consumer.topic_hash import group_hash, topic_hash
from kafka_offsets.coordinator.result import Record
from kafka_offsets.errors import ErrorCode
from kafka_offsets.protocol import messages
from tests.coordinator.consumer_world import ConsumerWorld, assigned, id_of, owned
from tests.coordinator.group_world import subscription

JOINS = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": ["a"], "topic_partitions": []}


def two_members(world: ConsumerWorld) -> tuple[Any, Any]:
    """m1 and m2 that share topic a, at the moment when m1 has given up what m2 waits for."""
    world.enter_consumer("m1", "a")
    world.enter_consumer("m2", "a")
    kept = assigned(world.heartbeat("m1", 2))
    assert kept is not None
    first = world.heartbeat("m1", 2, topic_partitions=owned(**kept))
    return first, world.heartbeat("m2", 3)


# ---- what is refused


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"topic_partitions": owned(a=[0])}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_a_request_that_says_too_little_is_refused(fields: dict[str, Any], message: str) -> None:
    world = ConsumerWorld()
    said = {"member_id": "m1", "member_epoch": 0, **JOINS, **fields}
    answer = world.heartbeat(said.pop("member_id"), said.pop("member_epoch"), **said)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert not world.durable


@pytest.mark.parametrize("epoch", [-1, 1])
def test_only_a_member_that_joins_with_version_0_may_have_no_id_yet(epoch: int) -> None:
    world = ConsumerWorld()
    assert world.heartbeat("", epoch, version=0).error_message == "MemberId can't be empty."
    joined = world.heartbeat("", 0, version=0, **JOINS)
    assert joined.error_code == 0
    assert joined.member_id and not joined.member_id.startswith("-")
    assert [*world.members()] == [joined.member_id]


def test_an_assignor_that_the_broker_does_not_have_is_refused_with_those_that_it_has() -> None:
    answer = ConsumerWorld().heartbeat("m1", 0, server_assignor="sticky", **JOINS)
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert (
        answer.error_message == "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
    )


@pytest.mark.parametrize(
    ("length", "character", "error"), [(32767, "x", 0), (32768, "x", -1), (16383, "ü", 0), (16384, "ü", -1)]
)
def test_an_id_that_no_key_can_hold_is_an_error_of_the_server(
    length: int, character: str, error: int
) -> None:
    world = ConsumerWorld()
    said = {"group_id": character * length, **JOINS}
    assert world.heartbeat_later("m1", 0, **said).error == error
    assert (world.shard.groups != {}) == (error == 0)


def test_heartbeats_and_goodbyes_need_a_consumer_group() -> None:
    world = ConsumerWorld()
    for epoch, message in ((1, "Consumer group g not found."), (-1, "Group g not found.")):
        answer = world.heartbeat("m1", epoch)
        assert (answer.error_code, answer.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, message)
    world.stable()
    for epoch in 1, -1:
        answer = world.heartbeat("m1", epoch)
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.error_message == "Group g is not a consumer group."


def test_a_full_group_takes_nobody_else_and_those_that_it_has_go_on() -> None:
    world = ConsumerWorld(consumer_max_size=1)
    assert world.enter_consumer("m1", "a").error_code == 0
    answer = world.enter_consumer("m2", "a")
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert world.heartbeat("m1", 2).error_code == 0
    assert world.enter_consumer("m1", "b").error_code == 0


def test_a_member_is_fenced_by_an_epoch_that_is_not_its_own() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a")
    for epoch, which in ((7, "greater"), (1, "smaller")):
        answer = world.heartbeat("m1", epoch)
        assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert answer.error_message == (
            f"The consumer group member has a {which} member epoch ({epoch}) than the one known by the group "
            "coordinator (2). The member must abandon all its partitions and rejoin."
        )
    assert world.heartbeat("m1", 0, **JOINS).member_epoch == 2


def test_the_epoch_before_is_taken_from_a_member_that_has_no_more_than_it_may() -> None:
    """The answer with the new epoch may have been lost."""
    world = ConsumerWorld()
    world.enter_consumer("m1", "a")
    assert world.heartbeat("m1", 2, subscribed_topic_names=["a", "b"]).member_epoch == 3
    for has in (owned(), owned(a=[0, 1, 2]), owned(a=[1], b=[0])):
        assert world.heartbeat("m1", 2, topic_partitions=has).member_epoch == 3
    for more in (None, owned(a=[0, 3]), owned(c=[0]), owned(a=[0], c=[0])):
        answer = world.heartbeat("m1", 2, topic_partitions=more)
        assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert "has a smaller member epoch (2)" in answer.error_message


# ---- who has what


def test_a_member_alone_has_everything_and_the_second_one_gets_its_share_once_it_is_given_up() -> None:
    world = ConsumerWorld()
    joined = world.enter_consumer("m1", "a")
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("m1", 2, 5000)
    assert assigned(joined) == {"a": [0, 1, 2]}
    second = world.enter_consumer("m2", "a")
    assert (second.member_epoch, assigned(second)) == (3, {})
    told = world.heartbeat("m1", 2)
    kept = assigned(told)
    assert kept is not None and told.member_epoch == 2 and len(kept["a"]) == 2
    assert assigned(world.heartbeat("m2", 3)) is None
    assert world.described().group_state == "Reconciling"
    assert world.heartbeat("m1", 2, topic_partitions=owned(**kept)).member_epoch == 3
    assert assigned(world.heartbeat("m2", 3)) == {"a": [*({0, 1, 2} - {*kept["a"]})]}
    assert world.described().group_state == "Stable"


def test_the_assignment_is_said_when_it_changes_and_to_who_says_everything_again() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a")
    everything = {
        "rebalance_timeout_ms": 5000,
        "subscribed_topic_names": ["a"],
        "topic_partitions": owned(a=[0]),
    }
    assert assigned(world.heartbeat("m1", 2, **everything)) == {"a": [0, 1, 2]}
    for left_out in everything:
        said = {name: value for name, value in everything.items() if name != left_out}
        assert assigned(world.heartbeat("m1", 2, **said)) is None
    assert assigned(world.heartbeat("m1", 2, subscribed_topic_names=["b"], topic_partitions=owned())) == {
        "b": [0, 1, 2]
    }


def test_what_a_member_leaves_out_is_as_before() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a", rack_id="r", server_assignor="range", instance_id="i")
    world.heartbeat("m1", 2, instance_id="i")
    member = world.members()["m1"]
    assert (member.instance_id, member.rack_id, member.subscribed_topic_names) == ("i", "r", ["a"])
    assert (member.client_id, member.client_host, member.member_type) == ("c", "/host", 1)
    assert world.described().assignor_name == "range"
    world.heartbeat("m1", 2, instance_id="i", rack_id="s", server_assignor="uniform")
    assert (world.members()["m1"].rack_id, world.described().assignor_name) == ("s", "uniform")


def test_the_assignor_of_most_members_assigns() -> None:
    world = ConsumerWorld()
    for member, assignor in (("m1", "range"), ("m2", "range"), ("m3", "uniform")):
        world.enter_consumer(member, "a", "b", server_assignor=assignor)
    target = [assigned(type("", (), {"assignment": m.target_assignment})) for m in world.members().values()]
    assert target == [{"a": [0], "b": [0]}, {"a": [1], "b": [1]}, {"a": [2], "b": [2]}]
    world.heartbeat("m1", -1)
    world.heartbeat("m2", -1)
    assert world.described().assignor_name == "uniform"


def test_a_member_is_described_with_what_it_has_and_what_it_is_to_give_up_and_shall_have() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a")
    world.enter_consumer("m2", "a")
    kept = assigned(world.heartbeat("m1", 2))
    assert kept is not None
    described = world.described()
    assert (described.group_epoch, described.assignment_epoch, described.group_state) == (3, 3, "Reconciling")
    first, second = described.members
    (topic,) = first.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (id_of("a"), "a", [0, 1, 2])
    (topic,) = first.target_assignment.topic_partitions
    assert topic.partitions == kept["a"]
    assert (first.member_epoch, second.member_epoch) == (2, 3)
    assert not second.assignment.topic_partitions
    del world.topics.counts["a"]
    assert not world.members()["m1"].assignment.topic_partitions


def test_a_description_says_what_the_log_says() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a")
    world.hold = True
    later = world.heartbeat_later("m2", 0, **JOINS)
    described = world.described()
    assert [member.member_id for member in described.members] == ["m1"]
    assert (described.group_id, described.group_epoch, described.group_state) == ("g", 2, "Stable")
    assert [(listed.group_id, listed.group_state) for listed in world.list_groups()] == [("g", "Stable")]
    world.hold = False
    world.sync_log()
    assert later.error == 0
    assert [member.member_id for member in world.described().members] == ["m1", "m2"]
    assert [(listed.group_id, listed.group_state) for listed in world.list_groups()] == [("g", "Reconciling")]


def test_what_the_log_refuses_has_not_happened() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a")
    world.hold = True
    later = world.heartbeat_later("m2", 0, **JOINS)
    gone = world.heartbeat_later("m1", -1)
    world.fail_log(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.hold = False
    assert (later.error, gone.error) == (ErrorCode.COORDINATOR_NOT_AVAILABLE,) * 2
    assert later.answer.error_message == "The coordinator is not available."
    assert [*world.members()] == ["m1"]
    assert world.heartbeat("m1", 2).error_code == 0


def test_groups_that_are_none_are_described_as_such() -> None:
    world = ConsumerWorld()
    nothing = world.described()
    assert (nothing.error_code, nothing.error_message, nothing.group_id) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g not found.",
        "g",
    )
    assert world.described("").error_code == ErrorCode.INVALID_GROUP_ID
    world.stable()
    assert world.described().error_message == "Group g is not a consumer group."


# ---- topics that change, and expressions


def test_a_topic_that_grows_is_assigned_with_the_next_heartbeat() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a", "new")
    world.topics.create("a", 4)
    assert assigned(world.heartbeat("m1", 2)) == {"a": [0, 1, 2, 3]}
    world.topics.create("new", 1)
    assert assigned(world.heartbeat("m1", 3)) == {"a": [0, 1, 2, 3], "new": [0]}
    world.topics.create("other", 1)
    assert world.heartbeat("m1", 4).member_epoch == 4


def test_an_expression_means_the_topics_that_match_it_now_and_those_that_come() -> None:
    world = ConsumerWorld()
    answer = world.enter_consumer("m1", subscribed_topic_names=None, subscribed_topic_regex="[ab]+")
    assert assigned(answer) == {}
    world.advance(0)
    assert assigned(world.heartbeat("m1", answer.member_epoch)) == {"a": [0, 1, 2], "b": [0, 1, 2]}
    assert world.members()["m1"].subscribed_topic_regex == "[ab]+"


def test_a_word_that_is_no_expression_is_refused() -> None:
    answer = ConsumerWorld().enter_consumer("m1", subscribed_topic_names=None, subscribed_topic_regex="[")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def regex_records(world: ConsumerWorld) -> list[tuple[str, set[str] | None]]:
    """What the log says of expressions: each with its topics, None when it was deleted."""
    found: list[tuple[str, set[str] | None]] = []
    for record in world.durable:
        key = stored.parse_key(record.key)
        if isinstance(key, records.ConsumerKey) and key.type == records.REGEX:
            value = None if record.value is None else records.parse_value(key.type, record.value)
            found.append((key.name, {*value.topics} if isinstance(value, records.ResolvedRegex) else None))
    return found


def test_an_expression_is_resolved_again_when_topics_come_and_when_it_is_old() -> None:
    world = ConsumerWorld(consumer_regex_refresh_interval_ms=20_000, consumer_regex_pause_ms=5000)
    epoch = world.enter_consumer(
        "m1", subscribed_topic_names=None, subscribed_topic_regex="[ab]+"
    ).member_epoch
    world.advance(0)
    assert regex_records(world) == [("[ab]+", {"a", "b"})]
    world.topics.create("ab", 1)
    world.advance(5000)
    epoch = world.heartbeat("m1", epoch).member_epoch
    assert len(regex_records(world)) == 1  # it was resolved only just now
    world.advance(1)
    epoch = world.heartbeat("m1", epoch).member_epoch
    world.advance(0)
    assert regex_records(world)[1:] == [("[ab]+", {"a", "b", "ab"})]
    epoch = world.heartbeat("m1", epoch).member_epoch
    world.advance(20_000)
    epoch = world.heartbeat("m1", epoch).member_epoch
    assert len(regex_records(world)) == 2
    world.advance(1)
    world.heartbeat("m1", epoch)
    world.advance(0)
    assert regex_records(world)[2:] == [("[ab]+", {"a", "b", "ab"})]


def test_an_expression_is_forgotten_when_nobody_uses_it_any_more() -> None:
    world = ConsumerWorld()
    for member in "m1", "m2":
        world.enter_consumer(member, subscribed_topic_names=None, subscribed_topic_regex="a+")
        world.advance(0)
    assert regex_records(world) == [("a+", {"a"})]
    epoch = world.members()["m1"].member_epoch
    world.heartbeat("m1", epoch, subscribed_topic_regex="b+")
    world.advance(20_000)
    world.heartbeat("m1", epoch)
    world.advance(0)
    assert ("a+", None) not in regex_records(world)
    world.heartbeat("m2", -1)
    assert regex_records(world)[-1] == ("a+", None)
    world.heartbeat(
        "m1", world.members()["m1"].member_epoch, subscribed_topic_regex="", subscribed_topic_names=["c"]
    )
    assert regex_records(world)[-1] == ("b+", None)


def test_the_hash_of_the_topics_follows_each_expression() -> None:
    """A topic that two expressions match is subscribed to until neither does."""
    world = ConsumerWorld()
    for member, expression in (("m1", "a+"), ("m2", "a.*")):
        said = {"subscribed_topic_names": None, "subscribed_topic_regex": expression}
        world.enter_consumer(member, rebalance_timeout_ms=1_000_000, **said)
    for _ in range(3):
        world.advance(20_000)
        for member in "m1", "m2":
            world.heartbeat(member, world.members()[member].member_epoch)
    hash_of_a = group_hash([("a", topic_hash("a", id_of("a"), 3))])

    def stored_hash() -> int:
        key = records.key_bytes(records.ConsumerKey(records.EPOCH, "g"))
        value = next(record.value for record in reversed(world.durable) if record.key == key) or b""
        epoch = records.parse_value(records.EPOCH, value)
        assert isinstance(epoch, records.GroupEpoch)
        return epoch.metadata_hash

    assert stored_hash() == hash_of_a
    world.heartbeat("m2", world.members()["m2"].member_epoch, subscribed_topic_regex="none")
    world.advance(20_000)
    assert stored_hash() == hash_of_a
    world.heartbeat("m1", -1)
    assert stored_hash() == 0


def test_topics_as_old_brokers_stored_them_are_deleted_when_the_topics_are_looked_at() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a")
    key = records.key_bytes(records.ConsumerKey(records.PARTITION_METADATA, "g"))
    value = b"\0\0" + messages.encode(messages.ConsumerGroupPartitionMetadataValue(), 0)
    world.durable.append(Record(key, value))
    again = world.restart()
    for _ in range(2):
        assert again.heartbeat("m1", 2).error_code == 0
        assert [record.value for record in again.durable if record.key == key] == [value, None]


# ---- members that go


def test_a_member_that_leaves_is_no_member_and_its_partitions_go_to_the_others() -> None:
    world = ConsumerWorld()
    two_members(world)
    gone = world.heartbeat("m1", -1)
    assert (gone.error_code, gone.member_id, gone.member_epoch) == (0, "m1", -1)
    assert assigned(world.heartbeat("m2", 3)) == {"a": [0, 1, 2]}
    assert world.heartbeat("m1", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("m1", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_not_heard_of_for_its_session_is_given_up() -> None:
    world = ConsumerWorld(consumer_session_timeout_ms=10_000)
    world.enter_consumer("m1", "a")
    world.advance(9_999)
    assert [*world.members()] == ["m1"]
    assert world.heartbeat("m1", 2).error_code == 0
    world.advance(9_999)
    assert [*world.members()] == ["m1"]
    world.advance(1)
    assert not world.members()
    assert world.described().group_state == "Empty"


def test_a_member_that_does_not_give_up_in_time_is_given_up() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a", rebalance_timeout_ms=3000)
    world.enter_consumer("m2", "a")
    world.heartbeat("m1", 2)
    world.advance(2_999)
    assert [*world.members()] == ["m1", "m2"]
    world.advance(1)
    assert [*world.members()] == ["m2"]
    assert assigned(world.heartbeat("m2", 3)) == {"a": [0, 1, 2]}


def test_a_member_that_gave_up_in_time_stays() -> None:
    world = ConsumerWorld()
    two_members(world)
    world.advance(20_000)
    assert [*world.members()] == ["m1", "m2"]


def test_a_restart_gives_sessions_and_rebalances_their_time_again() -> None:
    world = ConsumerWorld(consumer_session_timeout_ms=10_000)
    world.enter_consumer("m1", "a", rebalance_timeout_ms=3000)
    world.enter_consumer("m2", "a")
    world.heartbeat("m1", 2)
    world.advance(2000)
    again = world.restart(consumer_session_timeout_ms=10_000)
    again.advance(2999)
    assert [*again.members()] == ["m1", "m2"]
    again.advance(1)
    assert [*again.members()] == ["m2"]
    again.advance(7000)
    assert not again.members()


def test_a_member_in_a_state_of_a_later_version_has_to_join_again() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a")
    strange = Current(2, 1, MemberState.UNKNOWN, {id_of("a"): {0: 2}}, {})
    world.durable.append(records.record(records.CURRENT, "g", "m1", strange))
    again = world.restart()
    again.topics.create("a", 4)
    answer = again.heartbeat("m1", 2, topic_partitions=owned(a=[0]))
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
    )
    assert assigned(again.heartbeat("m1", 2, topic_partitions=owned())) == {"a": [0, 1, 2, 3]}


def test_nothing_is_timed_any_more_of_members_that_are_gone() -> None:
    world = ConsumerWorld(consumer_session_timeout_ms=45_000)
    first, _ = two_members(world)
    assert first.member_epoch == 3
    assert world.shard.next_deadline_ms == world.clock.now().mono_ms + 45_000  # a rebalance timeout is 5,000
    world.enter_consumer("m3", "a")
    world.heartbeat("m1", 3)
    for member in "m1", "m2", "m3":
        assert world.heartbeat(member, -1).error_code == 0
    assert world.shard.next_deadline_ms is None


def test_heartbeats_that_count_the_group_on_are_counted() -> None:
    world = ConsumerWorld()
    for count, fields in enumerate(({"member_id": "m1"}, {"member_id": "m2"}), 1):
        world.enter_consumer(fields["member_id"], "a")
        assert world.shard.meters.consumer_rebalances == count
    world.heartbeat("m1", 2)
    assert world.shard.meters.consumer_rebalances == 2
    world.topics.create("a", 4)
    world.heartbeat("m1", 2)
    assert world.shard.meters.consumer_rebalances == 3


# ---- static members


def test_a_static_member_that_leaves_for_a_while_keeps_its_partitions_for_who_comes_back() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a", instance_id="i")
    gone = world.heartbeat("m1", -2, instance_id="i")
    assert (gone.error_code, gone.member_epoch) == (0, -2)
    world.enter_consumer("m2", "a")
    assert assigned(world.heartbeat("m2", 3)) is None
    back = world.enter_consumer("m3", "a", instance_id="i")
    assert back.error_code == 0
    assert [*world.members()] == ["m2", "m3"]
    answer = world.heartbeat("m1", 2, instance_id="i")
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_that_is_there_is_not_taken_over_and_one_that_is_not_is_unknown() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a", instance_id="i")
    assert world.enter_consumer("m2", "a", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.heartbeat("m1", 2, instance_id="j").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("m2", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat("m2", -1, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat("m1", -1, instance_id="i").error_code == 0
    assert not world.members()


def test_a_static_member_that_does_not_come_back_is_given_up_with_its_session() -> None:
    world = ConsumerWorld(consumer_session_timeout_ms=10_000)
    world.enter_consumer("m1", "a", instance_id="i")
    world.heartbeat("m1", -2, instance_id="i")
    world.advance(9_999)
    assert [*world.members()] == ["m1"]
    world.advance(1)
    assert not world.members()


def test_a_member_that_takes_a_static_members_place_under_its_own_id_has_one_target() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a")
    world.enter_consumer("m2", "b", instance_id="i")
    world.heartbeat("m2", -2, instance_id="i")
    came = world.enter_consumer("m1", "a", instance_id="i")
    assert (came.error_code, assigned(came)) == (0, {})  # what it had as the other one is released now
    assert assigned(world.heartbeat("m1", came.member_epoch, instance_id="i")) == {"a": [0, 1, 2]}
    for broker in world, world.restart():
        (member,) = broker.described().members
        targets = {topic.topic_name: topic.partitions for topic in member.target_assignment.topic_partitions}
        assert (member.member_id, member.instance_id, targets) == ("m1", "i", {"a": [0, 1, 2]})
        assert assigned(member) == {"a": [0, 1, 2]}


# ---- members that speak the classic protocol


CLASSIC = {"protocols": {"range": subscription("a")}}


def mixed(world: ConsumerWorld, *instances: str | None) -> list[str]:
    """A consumer group of m1 and of classic members; return their ids."""
    world.enter_consumer("m1", "a")
    ids = []
    for instance in instances:
        if instance is None:
            ids.append(world.enter(**CLASSIC).answer.member_id)
        else:
            ids.append(world.join(instance=instance, **CLASSIC).answer.member_id)
    return ids


@pytest.mark.parametrize("version", [0, 2])
def test_a_classic_member_leaves_a_consumer_group_with_an_old_request(version: int) -> None:
    world = ConsumerWorld()
    (member,) = mixed(world, None)
    assert world.leave("nobody", version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave(member, version=version).error_code == 0
    assert [*world.members()] == ["m1"]
    assert world.beat(member, 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_leave_together_are_answered_each_for_itself() -> None:
    world = ConsumerWorld()
    first, second, _ = mixed(world, None, "i", "j")
    answer = world.leave((first, None), ("x", "i"), ("", "j"), ("", "k"), ("nobody", None))
    assert answer.error_code == 0
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in answer.members] == [
        (first, None, 0),
        ("x", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("", "j", 0),
        ("", "k", ErrorCode.UNKNOWN_MEMBER_ID),
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert [*world.members()] == ["m1", second]


def test_a_classic_member_joins_syncs_and_is_told_when_it_has_to_join_again() -> None:
    world = ConsumerWorld()
    (member,) = mixed(world, None)
    assert world.members()[member].member_type == 0
    assert world.beat(member, 3) == 0  # it waits for m1, and has nothing to do itself
    got = world.sync(member, 3)
    assert (got.error, got.answer.protocol_type, got.answer.protocol_name) == (0, "consumer", "range")
    kept = assigned(world.heartbeat("m1", 2))
    assert kept is not None
    assert world.heartbeat("m1", 2, topic_partitions=owned(**kept)).member_epoch == 3
    assert world.beat(member, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(member, **CLASSIC).answer
    assert (again.error_code, again.generation_id, again.leader) == (0, 3, "")
    left = ({0, 1, 2} - {*kept["a"]}).pop()
    assert world.sync(member, 3).answer.assignment == (
        b"\0\1\0\0\0\1\0\1a\0\0\0\1" + left.to_bytes(4) + b"\xff\xff\xff\xff"
    )
    assert world.beat(member, 3) == 0


def test_a_classic_member_is_refused_with_what_is_not_its_own() -> None:
    world = ConsumerWorld()
    dynamic, static = mixed(world, None, "i")
    assert world.beat(dynamic, 8) == ErrorCode.ILLEGAL_GENERATION
    assert world.beat("nobody", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.beat("m1", 2) == ErrorCode.UNKNOWN_MEMBER_ID  # it does not speak this protocol
    assert world.beat(dynamic, 4, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(static, 4, instance="j").error == ErrorCode.UNKNOWN_MEMBER_ID
    for said in ({"protocol": "roundrobin"}, {"protocol_type": "connect"}):
        assert world.sync(static, 4, instance="i", **said).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(static, 4, instance="i").error == 0


def test_a_classic_member_that_joins_needs_an_id_and_a_protocol_that_the_others_speak() -> None:
    world = ConsumerWorld()
    mixed(world, None)
    refused = world.join(**CLASSIC).answer
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED and refused.member_id
    assert world.join(version=3, **CLASSIC).answer.error_code == 0
    for wrong in ({"protocols": {"roundrobin": subscription("a")}}, {**CLASSIC, "protocol_type": "connect"}):
        assert world.join("x", **wrong).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join("x", protocols={"range": b"\0"}).error == ErrorCode.UNKNOWN_SERVER_ERROR
    both = {"protocols": {"roundrobin": subscription("a"), "range": subscription("a")}}
    assert world.join("", instance="i", **both).error == 0


@pytest.mark.parametrize(("version", "timeout_ms"), [(0, 7000), (1, 9000)])
def test_a_member_that_names_no_rebalance_timeout_has_that_of_its_session(
    version: int, timeout_ms: int
) -> None:
    """JoinGroup of version 0 has no field for it (KIP-62)."""
    world = ConsumerWorld()
    world.enter_consumer("m1", "a")
    joined = world.join(version=version, session_ms=7000, rebalance_ms=9000, **CLASSIC).answer
    for _ in range(2):
        world.advance(timeout_ms // 2 - 1)
        assert world.beat(joined.member_id, joined.generation_id) == 0
    world.advance(2)
    assert joined.member_id not in world.members()  # it has not asked for its assignment


def test_nobody_joins_with_the_classic_protocol_where_groups_do_not_migrate() -> None:
    world = ConsumerWorld(consumer_migration_policy="disabled")
    world.enter_consumer("m1", "a")
    assert world.join("x", **CLASSIC).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_is_given_up_with_its_session_and_when_it_does_not_sync_or_join_in_time() -> None:
    world = ConsumerWorld(consumer_session_timeout_ms=60_000)
    world.enter_consumer("m1", "a")
    options = {**CLASSIC, "session_ms": 10_000, "rebalance_ms": 4000}
    silent = world.enter(**options).answer.member_id
    world.advance(3_999)
    assert silent in world.members()
    world.advance(1)
    assert silent not in world.members()
    synced = world.enter(**options).answer
    world.advance(3_999)
    assert world.sync(synced.member_id, synced.generation_id).error == 0
    world.advance(9_999)
    assert world.beat(synced.member_id, synced.generation_id) == 0
    world.advance(9_999)
    assert synced.member_id in world.members()
    world.advance(1)
    assert synced.member_id not in world.members()


def test_the_group_is_a_classic_one_when_the_last_consumer_leaves() -> None:
    world = ConsumerWorld()
    member, other = mixed(world, None, "i")
    world.heartbeat("m1", -1)
    group = world.group()
    assert {*group.members} == {member, other}
    assert group.state.value == "PreparingRebalance"
    assert world.described().error_message == "Group g is not a consumer group."
    assert world.beat(member, 4) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_group_stays_a_consumer_group_where_the_policy_says_so() -> None:
    world = ConsumerWorld(consumer_migration_policy="upgrade")
    (member,) = mixed(world, None)
    world.heartbeat("m1", -1)
    assert [*world.members()] == [member]


@pytest.mark.parametrize(("most", "becomes_classic"), [(2, True), (1, False)])
def test_the_group_stays_a_consumer_group_when_it_is_too_large_for_a_classic_one(
    most: int, becomes_classic: bool
) -> None:
    world = ConsumerWorld(group_max_size=most)
    members = mixed(world, None, "i")
    world.heartbeat("m1", -1)
    assert (world.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND) == becomes_classic
    assert [*world.members()] == ([] if becomes_classic else members)


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
    world = ConsumerWorld(**settings)
    world.stable(2)
    answer = world.enter_consumer("m1", "a")
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == f"Cannot upgrade classic group g to consumer group {reason}"


def test_a_classic_group_of_others_than_consumers_is_not_upgraded() -> None:
    world = ConsumerWorld()
    world.enter(protocol_type="connect")
    assert world.enter_consumer("m1", "a").error_message == (
        "Cannot upgrade classic group g to consumer group "
        "because the group does not use the consumer embedded protocol."
    )


def assignment(topic: str, *partitions: int, user_data: bytes | None = None) -> bytes:
    """A consumer's assignment, version 1."""
    data = b"\xff\xff\xff\xff" if user_data is None else len(user_data).to_bytes(4) + user_data
    numbers = b"".join(partition.to_bytes(4) for partition in partitions)
    return b"\0\1\0\0\0\1\0\1" + topic.encode() + len(partitions).to_bytes(4) + numbers + data


def test_members_of_a_classic_group_go_on_with_what_they_have_when_it_is_upgraded() -> None:
    world = ConsumerWorld()
    joined = world.enter(**CLASSIC).answer
    member, generation = joined.member_id, joined.generation_id
    assert world.sync(member, generation, {member: assignment("a", 0, 1, 2)}).error == 0
    answer = world.enter_consumer("m1", "a")
    assert (answer.error_code, answer.member_epoch, assigned(answer)) == (0, generation + 1, {})
    described = world.members()[member]
    assert (described.member_epoch, described.member_type, described.client_id) == (generation, 0, "c")
    assert [(t.topic_name, t.partitions) for t in described.assignment.topic_partitions] == [("a", [0, 1, 2])]
    assert world.beat(member, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_rack_of_a_classic_member_is_known_in_a_consumer_group() -> None:
    said = messages.ConsumerProtocolSubscription(["a"], rack_id="r")
    in_a_rack = {"range": b"\0\3" + messages.encode(said, 3)}
    world = ConsumerWorld()
    joined = world.enter(protocols=in_a_rack).answer
    world.sync(joined.member_id, joined.generation_id, {joined.member_id: assignment("a", 0, 1, 2)})
    world.enter_consumer("m1", "a")
    assert world.members()[joined.member_id].rack_id == "r"
    world.join(joined.member_id, **CLASSIC)  # of a version that has no racks
    assert world.members()[joined.member_id].rack_id == "r"
    other = world.join(version=3, protocols=in_a_rack).answer
    assert world.members()[other.member_id].rack_id == "r"


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
    world = ConsumerWorld()
    joined = world.enter(**CLASSIC).answer
    world.sync(joined.member_id, joined.generation_id, {joined.member_id: stored})
    answer = world.enter_consumer("m1", "a")
    assert answer.error_message == f"Cannot upgrade classic group g to consumer group {reason}"
    assert world.beat(joined.member_id, joined.generation_id) == 0


# ---- a log that refuses what would change the kind of a group


def test_a_group_that_was_to_be_upgraded_goes_on_as_a_classic_one_when_the_log_refuses() -> None:
    world = ConsumerWorld()
    member, other = world.stable(2, **CLASSIC, session_ms=10_000)
    world.sync(member, 2)
    world.group().members[member].assignment = world.group().members[other].assignment = b""
    world.hold = True
    later = world.heartbeat_later("m1", 0, **JOINS)
    assert [*world.shard.groups["g"].subscriptions] == [member, other, "m1"]  # type: ignore[union-attr]
    world.fail_log()
    world.hold = False
    assert later.error == ErrorCode.NOT_COORDINATOR
    assert {*world.group().members} == {member, other}
    world.advance(9_999)
    assert world.beat(member, 2) == 0
    world.advance(1)
    assert {*world.group().members} == {member}  # the session of the other one has ended


def test_a_rebalance_that_an_upgrade_was_to_end_begins_anew_when_the_log_refuses() -> None:
    world = ConsumerWorld()
    (member,) = world.stable(1, **CLASSIC)
    world.group().members[member].assignment = b""
    joining = world.join(world.join(**CLASSIC).answer.member_id, **CLASSIC)
    assert joining.is_parked
    world.hold = True
    later = world.heartbeat_later("m1", 0, **JOINS)
    world.fail_log()
    world.hold = False
    assert (later.error, joining.error) == (ErrorCode.NOT_COORDINATOR,) * 2
    assert world.group().state.value == "PreparingRebalance"
    assert world.beat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join(member, **CLASSIC).is_parked
    world.advance(10_000)
    assert {*world.group().members} == {member}


def test_those_that_wait_in_a_classic_group_are_told_to_join_again_when_it_is_upgraded() -> None:
    world = ConsumerWorld()
    (member,) = world.stable(1, **CLASSIC)
    world.group().members[member].assignment = b""
    joining = world.join(world.join(**CLASSIC).answer.member_id, **CLASSIC)
    answer = world.enter_consumer("m1", "a")
    assert (answer.error_code, joining.error) == (0, ErrorCode.REBALANCE_IN_PROGRESS)
    assert [*world.members()] == [member, joining.answer.member_id, "m1"]


def test_a_group_that_was_to_be_downgraded_goes_on_as_a_consumer_group_when_the_log_refuses() -> None:
    world = ConsumerWorld(consumer_session_timeout_ms=60_000)
    (member,) = mixed(world, None)
    world.sync(member, 3)
    world.hold = True
    later = world.heartbeat_later("m1", -1)
    assert world.group().state.value == "PreparingRebalance"
    joining = world.join(member, **CLASSIC)
    world.fail_log()
    world.hold = False
    world.tick()
    assert (later.error, joining.error) == (ErrorCode.NOT_COORDINATOR,) * 2
    assert [*world.members()] == ["m1", member]
    assert world.heartbeat("m1", 2, topic_partitions=owned()).error_code == 0
    assert world.beat(member, 3) in (0, ErrorCode.REBALANCE_IN_PROGRESS)
    world.advance(10_000)  # its session is the one that it asked for
    assert [*world.members()] == ["m1"]


def test_who_waits_in_a_group_that_could_not_be_downgraded_hears_so_at_once() -> None:
    world = ConsumerWorld(consumer_session_timeout_ms=60_000)
    members = mixed(world, None, None, None)
    world.hold = True
    world.heartbeat_later("m1", -1)
    waiting = [world.join(member, **CLASSIC) for member in members[:2]]
    assert all(joining.is_parked for joining in waiting)
    world.fail_log()
    world.hold = False
    world.tick()
    assert [joining.error for joining in waiting] == [ErrorCode.NOT_COORDINATOR] * 2
    assert [*world.members()] == ["m1", *members]


def test_what_a_downgraded_member_has_is_written_for_it_to_read() -> None:
    world = ConsumerWorld()
    world.enter_consumer("m1", "a", instance_id="i")
    world.heartbeat("m1", -2, instance_id="i")
    back = world.join(instance="i", **CLASSIC).answer
    group = world.group()
    assert (back.error_code, group.generation, group.state.value) == (0, back.generation_id, "Stable")
    got = world.sync(back.member_id, back.generation_id, instance="i")
    assert got.answer.assignment == assignment("a", 0, 1, 2)
    assert group.is_subscribed_to("a")
    assert not group.is_subscribed_to("b")
    again = world.restart()
    assert {*again.group().members} == {back.member_id}


# ---- large groups


def test_a_thousand_members_that_join_do_not_take_time_in_the_square_of_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each assignment looks at all members; there was one for each that joined: 17.6 s for 1,500."""
    looked_at = 0
    uniform = draft.ASSIGNORS["uniform"]

    def counting(spec: Any) -> Any:
        nonlocal looked_at
        looked_at += len(spec.members)
        return uniform(spec)

    monkeypatch.setitem(draft.ASSIGNORS, "uniform", counting)
    world = ConsumerWorld()
    world.topics.create("wide", 1000)
    epochs = {}
    for number in range(1000):
        joined = world.heartbeat(
            f"m{number}", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["wide"], topic_partitions=[]
        )
        epochs[joined.member_id] = joined.member_epoch
        world.advance(1)
    assert looked_at < 80 * 1000  # half of 1000 * 1000 before

    world.advance(1000)
    assert world.heartbeat("m0", epochs["m0"]).error_code == ErrorCode.NONE
    group = world.shard.groups["g"]
    assert sorted(p for target in group.targets.values() for p in target[id_of("wide")]) == list(range(1000))
